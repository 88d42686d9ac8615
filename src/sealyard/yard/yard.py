"""The yard: everything an agent can ask for, each as one method. `Yard.execute` is the request path."""

import asyncio
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from sealyard.broker.answers import Answer
from sealyard.broker.approvals import Approvals
from sealyard.broker.call import Broker, OnProgress, ToolServer
from sealyard.broker.policy import Policy
from sealyard.catalog import Catalog, Snapshot
from sealyard.catalog.observed import Observed
from sealyard.config import AlertsConfig, LearningConfig, MetricsConfig, SkillsConfig
from sealyard.errors import SandboxClosed
from sealyard.learning.risk import Assessment
from sealyard.metrics.report import Prices, Report
from sealyard.offload import check_values
from sealyard.privacy import TOKEN, Guard
from sealyard.privacy.vault import RevealedValue
from sealyard.sandbox.policy.levels import IsolationPolicy
from sealyard.sandbox.review import Review, ToolNames, check_code
from sealyard.sandbox.review.beside import review_beside
from sealyard.sandbox.run import Sandbox
from sealyard.sandbox.turns import Turns
from sealyard.sandbox.worker import OnOutput
from sealyard.store import Store
from sealyard.values import (
    AuditEntry,
    Grant,
    PrincipalScope,
    Result,
    SearchAnswer,
    UpstreamStatus,
    UseCase,
)
from sealyard.yard.alerting import Alerting
from sealyard.yard.analyzing import AnalyzeRequest, analysis_run, as_json
from sealyard.yard.executing import find_tool, limits_of, open_code, session_of
from sealyard.yard.execution import Recorder, Sink
from sealyard.yard.executions import ExecuteRequest, Execution, Executions
from sealyard.yard.figures import Figures
from sealyard.yard.finder import Finder
from sealyard.yard.guards import Guards
from sealyard.yard.guidance import Guidance
from sealyard.yard.journal import AuditSink, JournalSink, TraceSink
from sealyard.yard.observing import Observer, ShapeSink
from sealyard.yard.readiness import Readiness
from sealyard.yard.results import answer_text
from sealyard.yard.skills import Skills
from sealyard.yard.unmatched import NameCheck, Unmatched
from sealyard.yard.upkeep import Upkeep
from sealyard.yard.views import Views
from sealyard.yard.visits import Visit

__all__ = ("FIRST_LIST_SECONDS", "OPERATOR", "Yard")

OPERATOR = "operator"
"""Who has the key that `sealyard serve --http` shows the person that started it."""
_VIEWS_KEPT = 8
_LONG_NAME = 1_000
_RAGGED_CHARACTERS = 200
FIRST_LIST_SECONDS = 15.0  # for upstreams whose tools nobody knows yet, before a first search or run goes on without


class Yard:
    """The gateway without its wires. Make one with `open_yard`."""

    def __init__(
        self,
        *,
        policy: IsolationPolicy,
        rules: Policy,
        store: Store,
        catalog: Catalog,
        upstreams: Mapping[str, ToolServer],
        finder: Finder,
        guards: Guards,
        approvals: Approvals,
        scopes: Mapping[str, PrincipalScope],
        levels: Mapping[str, IsolationPolicy],
        sandbox: "asyncio.Future[Sandbox] | None",
        turns: Turns,
        result_tokens: int,
        skills: SkillsConfig,
        metrics: MetricsConfig,
        alerts: AlertsConfig,
        learning: LearningConfig,
        store_path: Path,
        observed: Observed,
        names: NameCheck,
        sinks: Sequence[Sink],
    ) -> None:
        self.policy = policy
        self.rules = rules
        self.store = store
        self.catalog = catalog
        self.upstreams = upstreams
        self.finder = finder
        self.guards = guards
        self.approvals = approvals
        self.scopes = scopes
        self.levels = levels
        """The isolation of each level that a principal has of its own."""
        self.views = Views(rules, scopes)
        self.result_tokens = result_tokens
        self.broker = Broker(
            upstreams,
            policy=rules,
            approvals=approvals,
            store=store,
            digest=guards.digest,
            offload=guards.offload,
        )
        self._names_check = names
        self.offload = guards.offload
        """Helper processes for what would hold up the event loop; None where there are none."""
        self.observed = observed
        self.observer = Observer(store, approvals)
        self.recorder = Recorder(
            store,
            self.broker,
            (
                partial(JournalSink, store),
                partial(AuditSink, store),
                partial(TraceSink, store),
                *self.observer.sinks,
                partial(ShapeSink, observed),
                *sinks,
            ),
        )
        self.live = self.observer.live
        self.turns = turns
        """Who runs or calls when."""
        self.opening = sandbox
        """Done when code can be run."""
        self.readiness = Readiness(store, store_path, sandbox)
        self.guidance = Guidance(self, learning)
        self.observer.domain_of = self.guidance.domain_of
        self.upkeep = Upkeep(
            store,
            upstreams,
            metrics,
            circuits=self.broker.circuits,
            upstream_of=self._upstream_of,
            record=self.observer.record,
            follow=self.guidance.follow,
        )
        self.alerting = Alerting(
            alerts,
            store,
            path=store_path,
            report=self.report,
            statuses=self.statuses,
            circuits=self.upkeep.open_circuits,
            scanner=guards.scanner,
        )
        self.figures = Figures(self, Prices(input=metrics.input_price, output=metrics.output_price))
        self.skills = Skills(self, skills)
        self.executions = Executions(self._execute_in_background)
        self._names: dict[str, ToolNames] = {}
        self._functions: dict[str, dict[str, str]] = {}

    async def execute(
        self,
        request: ExecuteRequest,
        *,
        principal: str = "local",
        execution_id: str | None = None,
        on_output: OnOutput | None = None,
        on_progress: OnProgress | None = None,
        handle: Execution | None = None,
    ) -> Result:
        """Run the code and return what the agent may see of it. It is in the journal before this returns.

        `handle` is what a background execution is known by.

        Raises:
            InvalidRequest: The request is wrong; nothing was run.
            SandboxBroken: The host side failed; whether the code ran is unknown.
            StoreError: It could not be recorded: it was not begun, or it ran and its end is not in the journal.
        """
        limits = limits_of(request, self.result_tokens)
        check_values("The context", request.context)
        sandbox = await self.sandbox()
        execution = handle or Execution(request, principal, execution_id=execution_id)
        # What cannot be kept waiting is not begun. What the run leaves is looked at before it may be put on disk.
        with sandbox.turns.enter(principal) as place, sandbox.keep(session_of(principal, request.session)):
            async with open_code(self, execution, sandbox, place, limits, on_output, on_progress) as code:
                async with code.turn():
                    refusal = await code.prepare(limits)
                    if refusal is None:
                        async with code.run.output:
                            with code.last_output():
                                seen = await sandbox.run(request.code, **code.options())
                    else:
                        seen = code.refused(refusal)
                    outcome = await code.conclude(seen)
                result = await code.render(outcome)
        return result

    async def _execute_in_background(self, execution: Execution) -> Result:
        return await self.execute(execution.request, principal=execution.principal, handle=execution)

    async def analyze(
        self,
        request: AnalyzeRequest,
        *,
        principal: str = "local",
        execution_id: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Answer a question about rows without any code of the agent's. It raises what `execute` does."""
        run = analysis_run(request, result_tokens=self.result_tokens)
        return await self.execute(run, principal=principal, execution_id=execution_id, on_progress=on_progress)

    async def assess(self, code: str, *, principal: str = "local", session: str | None = None) -> Assessment:
        """How likely code is to fail, without running it. Raises `InvalidRequest` and `SandboxClosed`."""
        check_code(code)
        snapshot, sandbox = await self.snapshot(principal), await self.sandbox()
        place = session_of(principal, session)
        guard = await self.guards.of(place)
        policy = self.policy_of(principal)
        verdict = await self.review(code, policy, snapshot, sandbox.packages.modules, principal)
        told: str = await guard.door.conceal(code)
        return await self.guidance.assess(told, verdict, principal=principal, session=place, snapshot=snapshot)

    async def search(
        self,
        query: str,
        *,
        detail_level: str = "with_description",
        server: str | None = None,
        limit: int = 5,
        principal: str = "local",
    ) -> SearchAnswer:
        """Tools for the words of `query` that `principal` may use, the best first. Raises `InvalidRequest`."""
        await self._first_lists()
        view = self.views.of(self.catalog.snapshot, principal)
        guard = await self.guards.of(session_of(principal, None))
        visit = self.observer.visit(principal, view)
        return await self.find_tools(
            query, detail_level=detail_level, server=server, limit=limit, visit=visit, view=view, guard=guard
        )

    async def find_tools(
        self,
        query: str,
        *,
        visit: Visit,
        view: Snapshot,
        guard: Guard,
        detail_level: str = "with_description",
        server: str | None = None,
        limit: int = 5,
        execution_id: str = "",
    ) -> SearchAnswer:
        """The same over a view of the catalog, for an agent or for code that runs."""
        started = time.perf_counter()
        is_cached = self.finder.is_indexed(view)
        shown = await _shown(query, guard)
        guide = self.guidance.guide(visit, view, shown)
        if guide is not None:
            await self.guidance.skills.first_look(visit.principal)
        answer = await self.finder.search(
            query, detail_level=detail_level, server=server, limit=limit, view=view, experience=guide
        )
        if guide is not None:
            answer = await guide.told(answer)
        self.observer.searched(
            visit,
            shown,
            answer,
            place="code" if execution_id else "agent",
            detail_level=detail_level.replace("-", "_"),
            seconds=time.perf_counter() - started,
            is_cached=is_cached,
            execution_id=execution_id,
        )
        return answer

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        principal: str = "local",
        execution_id: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Answer:
        """Call one tool without code: an execution of a single call, recorded as such, that waits for its turn.

        Raises:
            QueueFull: Too many runs and calls wait for their turn.
            UnknownTool: No tool has this name.
            InvalidArguments: The arguments do not fit.
            CallRefused: The policy or a person said no, or a token or a limit stands in the way.
            UpstreamError: The server or the tool failed.
        """
        session = session_of(principal, None)
        wrote = as_json({"name": name, "arguments": arguments}, "arguments")
        with self.turns.enter(principal) as place:
            snapshot = await self.snapshot(principal)
            guard = await self.guards.of(session)
            grant = Grant(
                execution_id=execution_id or secrets.token_hex(8),
                principal=principal,
                session=session,
                tools=snapshot.tools,
            )
            opening = self.recorder.open(
                grant,
                guard,
                form="call",
                wrote=wrote,
                catalog_version=snapshot.version,
                visit=self.observer.begin(principal, snapshot),
                find=lambda name: (find_tool(snapshot, name), None),
                on_progress=on_progress,
            )
            async with opening as run:
                place.on_wait = run.queued
                async with place.turn(run.clock):
                    await self.broker.call(run.passage, name, arguments)
                answer = run.answer()
                answer = msgspec.structs.replace(answer, value=await self._told(answer.value, guard))
                run.finish("ok", answer_text(answer.value, self.result_tokens))
        return answer

    async def _told(self, value: Any, guard: Guard) -> Any:
        """What somebody outside may see of an admitted answer."""
        if isinstance(value, msgspec.Raw):
            return await guard.door.conceal_document(bytes(value))
        return await guard.door.conceal(value)

    async def review(
        self, code: str, policy: IsolationPolicy, snapshot: Snapshot, packages: Collection[str], principal: str
    ) -> Review:
        """`sandbox.review` of code in a view of the catalog, for a principal; of long code by a helper process."""
        names = self.tool_names(snapshot)
        return await review_beside(code, policy, names, packages, offload=self.offload, who=principal)

    async def reveal(self, token: str, *, principal: str) -> list[RevealedValue]:
        """What a token of the principal's own sessions stands for. It is in the audit log before this returns."""
        found = [
            each
            for each in await self.guards.find(token)
            if each.scope == "gateway" or each.scope.startswith(f"{principal}:")
        ]
        scopes = sorted({each.scope for each in found})
        told = token if TOKEN.fullmatch(token) and len(token) <= _LONG_NAME else "(no token)"
        self.store.audit(AuditEntry(kind="privacy.reveal", principal=principal, body={"token": told, "scopes": scopes}))
        if found:
            self.observer.revealed(principal)
        await self.store.flush()
        return found

    async def snapshot(self, principal: str | None = None) -> Snapshot:
        """The catalog, or what `principal` sees of it, once every upstream has had its chance to list its tools."""
        await self._first_lists()
        return self.catalog.snapshot if principal is None else self.views.of(self.catalog.snapshot, principal)

    async def sandbox(self) -> Sandbox:
        """The sandbox, which is built while the gateway already answers."""
        if self.opening is None:
            raise SandboxClosed("This yard was opened without a sandbox.")
        return await asyncio.shield(self.opening)

    async def unmatched(self) -> tuple[Unmatched, ...]:
        """What the config names and nothing has."""
        finder = self.finder
        return await self._names_check.look(self.catalog.snapshot, finder.unlisted(), finder.idle_patterns())

    def statuses(self) -> list[UpstreamStatus]:
        """How every upstream is, with definitions that changed since they were pinned among its warnings."""
        found = []
        for name in sorted(self.upstreams):
            status = self.upstreams[name].status()
            changes = self.catalog.changes_of(name)
            known = len(self.catalog.snapshot.by_upstream.get(name, ()))
            found.append(msgspec.structs.replace(status, tools=known, warnings=(*status.warnings, *changes)))
        return found

    async def publish(self, view: Snapshot) -> None:
        """See to it that code can import the tools of a view."""
        if self.finder.is_published(view):
            return
        started = time.perf_counter()
        await self.finder.ready(view)
        self.observer.published(time.perf_counter() - started, len(view.tools))

    async def close(self) -> None:
        """End what runs in the background, and count what is left to be counted."""
        await self.executions.close()
        await self.guidance.close()
        await self.observer.accounting.close()

    def note_exchange(self, principal: str, use_case: UseCase, *, wrote: str, read: str, part: str = "results") -> None:
        """An agent wrote something and read an answer to it that is no run."""
        visit = self.observer.visit(principal, self.views.of(self.catalog.snapshot, principal))
        self.observer.exchanged(visit, use_case, wrote=wrote, read=read, part=part)

    async def report(self, since: float | None = None, until: float | None = None) -> Report:
        """What was done in that time, how well, and what it saved. Raises `StoreError`."""
        return await self.figures.report(since, until)

    def scope_of(self, principal: str) -> PrincipalScope:
        """What a principal may do. Where nobody needs a token, who comes in may see everything."""
        if principal == OPERATOR:
            return PrincipalScope(name=principal, observe=True, approve=True)
        return self.scopes.get(principal) or PrincipalScope(name=principal, observe=not self.scopes)

    def policy_of(self, principal: str) -> IsolationPolicy:
        """The isolation that runs of a principal get: the gateway's, or a stricter one of its own."""
        scope = self.scopes.get(principal)
        return self.policy if scope is None or scope.level is None else self.levels[scope.level]

    def tool_names(self, snapshot: Snapshot) -> ToolNames:
        """The names that code may call, for `review`."""
        names = self._names.get(snapshot.version)
        if names is None:
            functions = {name: (spec.module, spec.function) for name, spec in snapshot.tools.items()}
            names = ToolNames(frozenset(functions), functions, lambda name: snapshot.find(name) is not None)
            self._names = {**dict(list(self._names.items())[-_VIEWS_KEPT:]), snapshot.version: names}
        return names

    def functions(self, snapshot: Snapshot) -> Mapping[str, str]:
        """The full names of tools by `module.function`."""
        names = self._functions.get(snapshot.version)
        if names is None:
            names = {f"{spec.module}.{spec.function}": name for name, spec in snapshot.tools.items()}
            self._functions = {**dict(list(self._functions.items())[-_VIEWS_KEPT:]), snapshot.version: names}
        return names

    def _upstream_of(self, tool: str) -> str | None:
        spec = self.catalog.snapshot.tools.get(tool)
        return None if spec is None else spec.upstream

    async def _first_lists(self) -> None:
        await self.finder.listed(FIRST_LIST_SECONDS)


async def _shown(query: str, guard: Guard) -> str:
    """The beginning of a query. Where it is cut may be half of something private, so what is told ends before that."""
    told: str = await guard.door.conceal(query[:_LONG_NAME])
    return told if len(query) <= _LONG_NAME else told[:-_RAGGED_CHARACTERS]
