"""The yard: everything an agent can ask for, each as one method. `Yard.execute` is the request path."""

import asyncio
import secrets
import time
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from sealyard.broker.answers import Answer
from sealyard.broker.approvals import Approvals
from sealyard.broker.call import Broker, OnProgress, Passage, ToolServer
from sealyard.broker.policy import Policy
from sealyard.catalog import Catalog, Snapshot
from sealyard.catalog.observed import Observed
from sealyard.config import AlertsConfig, LearningConfig, MetricsConfig, SkillsConfig
from sealyard.errors import SandboxClosed, UnknownTool
from sealyard.learning.risk import Assessment
from sealyard.metrics.report import Prices, Report
from sealyard.privacy.guard import Guard
from sealyard.privacy.span import TOKEN
from sealyard.privacy.vault import RevealedValue
from sealyard.sandbox.clock import RunClock
from sealyard.sandbox.policy.levels import IsolationPolicy
from sealyard.sandbox.review import Review, ToolNames, check_code
from sealyard.sandbox.review.beside import review_beside
from sealyard.sandbox.run import Sandbox
from sealyard.sandbox.turns import Place, Turns
from sealyard.sandbox.worker import OnOutput
from sealyard.store import Store
from sealyard.values import (
    AuditEntry,
    Grant,
    PrincipalScope,
    RecordStatus,
    Result,
    SearchAnswer,
    ToolSpec,
    UpstreamStatus,
    UseCase,
)
from sealyard.yard.alerting import Alerting
from sealyard.yard.analyzing import AnalyzeRequest, analysis_run, as_json
from sealyard.yard.calls import find_tool
from sealyard.yard.executing import execute, session_of
from sealyard.yard.executions import ExecuteRequest, Execution, Executions
from sealyard.yard.figures import Figures
from sealyard.yard.finder import Finder
from sealyard.yard.guards import Guards
from sealyard.yard.guidance import Guidance
from sealyard.yard.journal import Journal
from sealyard.yard.observing import Observer, Run
from sealyard.yard.readiness import Readiness
from sealyard.yard.results import (
    answer_text,
    failure_text,
)
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
            record=store.record_call,
            keep=store.traces.keep,
            audit=store.audit,
            digest=guards.digest,
            offload=guards.offload,
        )
        self._names_check = names
        self.offload = guards.offload
        """Helper processes for what would hold up the event loop; None where there are none."""
        self.journal = Journal(store)
        self.observed = observed
        self.observer = Observer(store, approvals)
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
        self.executions = Executions(partial(execute, self))
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
    ) -> Result:
        """Run the code and return what the agent may see of it. It is in the journal before this returns.

        Raises:
            InvalidRequest: The request is wrong; nothing was run.
            SandboxBroken: The host side failed; whether the code ran is unknown.
            StoreError: It could not be recorded: it was not begun, or it ran and its end is not in the journal.
        """
        execution = Execution(request, principal, execution_id=execution_id)
        return await execute(self, execution, on_output=on_output, on_progress=on_progress)

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
        with self.turns.enter(principal) as place:
            return await self._call(
                name, arguments, principal, execution_id or secrets.token_hex(8), on_progress, place
            )

    async def _call(
        self,
        name: str,
        arguments: dict[str, Any],
        principal: str,
        execution_id: str,
        on_progress: OnProgress | None,
        place: Place,
    ) -> Answer:
        snapshot = await self.snapshot(principal)
        session = session_of(principal, None)
        guard = await self.guards.of(session)
        await self.store.room()
        grant = Grant(execution_id=execution_id, principal=principal, session=session, tools=snapshot.tools)
        try:
            spec = find_tool(snapshot, name)
        except UnknownTool as error:
            await self.journal.note_unknown(grant, guard, name, error)
            await self.store.flush()
            raise
        wrote = as_json({"name": name, "arguments": arguments}, "arguments")
        record = await self.journal.begin(grant, guard, "", None, snapshot)
        run = self.observer.begin(grant, snapshot, guard, form="call", wrote=wrote)
        clock = RunClock()
        place.on_wait = run.queued
        status: RecordStatus = "cancelled"
        sent = ""
        try:
            passage = Passage(guard=guard, pause=clock.paused, on_progress=on_progress)
            async with place.turn(clock):
                answer, _ = await self.call_tool(grant, spec, arguments, number=1, passage=passage, run=run)
            answer = msgspec.structs.replace(answer, value=await self._told(answer.value, guard))
            status, sent = "ok", answer_text(answer.value, self.result_tokens)
        except Exception as error:
            status, sent = "failed", failure_text(error)
            raise
        finally:
            self.broker.end_run(execution_id)
            try:
                self.journal.end(record, status, None)
            finally:
                run.end(status, None, sent, waited_seconds=clock.still_seconds)
        await self.store.flush()
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

    async def call_tool(
        self, grant: Grant, spec: ToolSpec, arguments: dict[str, Any], *, number: int, passage: Passage, run: Run
    ) -> tuple[Answer, bytes]:
        """`Broker.call`, seen by all who watch. What the tool answers is learned where it does not declare it."""
        run.call(spec, number, arguments)
        started = time.perf_counter()
        try:
            answer, encoded = await self.broker.call(grant, spec, arguments, number=number, passage=passage)
        except BaseException as error:
            run.call_failed(spec, number, time.perf_counter() - started, arguments, error)
            raise
        run.called(spec, number, time.perf_counter() - started, arguments, answer, encoded)
        self.observed.note(spec, answer.value, execution_id=grant.execution_id)
        return answer, encoded

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
