"""The yard: every request of an agent as one method. `Yard.execute` is the request path."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

import msgspec

from sealyard.access import Guards, NameCheck
from sealyard.broker import Approvals, Broker
from sealyard.broker.policy import Policy
from sealyard.broker.upstreams import OnProgress, Response, python
from sealyard.catalog import Snapshot
from sealyard.learning import Assessment
from sealyard.metrics import Report
from sealyard.observe import Live, Recorder, Visit
from sealyard.observe.health import Readiness
from sealyard.privacy import TOKEN, Guard
from sealyard.privacy.vault import RevealedValue
from sealyard.sandbox import Sandbox
from sealyard.sandbox.review import check_code
from sealyard.store import Store
from sealyard.values.access import AuditEntry, Grant, Profile
from sealyard.values.documents import check_values
from sealyard.values.facts import UseCase
from sealyard.values.runs import OnOutput, Result
from sealyard.values.tools import SearchAnswer, SearchRequest
from sealyard.yard.code_run import (
    CodeRun,
    Parts,
    analysis_run,
    as_json,
    find_tool,
    find_tools,
    limits_of,
    workspace_of,
)
from sealyard.yard.executions import AnalyzeRequest, ExecuteRequest, Execution, Executions
from sealyard.yard.results import answer_text

_F = TypeVar("_F", bound=Callable[..., Any])
_FUNCTIONS = "functions"
"""The upstream of functions that are added without the name of one."""
_LONG_NAME = 1_000  # a longer token is not written to the audit log


class Border(msgspec.Struct, frozen=True, kw_only=True):
    """The checks that every call passes, for what passes calls on and runs no code."""

    guards: Guards
    policy: Policy
    approvals: Approvals
    broker: Broker
    recorder: Recorder
    store: Store
    reaches: Callable[[str, str], bool]
    """True if a principal may use something of an upstream, so that its resources and prompts are no way around."""
    begin: Callable[[str], Visit | None]
    """The visit in which a principal's call begins. None where no figures are kept."""
    names: NameCheck | None
    """Reports names in the config that fit nothing. None where another part of the gateway does."""
    readiness: Readiness


@dataclass(kw_only=True, eq=False)
class Yard(Parts):
    """The gateway without its wires. Make one with `open_yard`."""

    def __post_init__(self) -> None:
        self.executions = Executions(self._carry_out)
        self._beside: list[Yard] = []

    def beside(self, profile: Profile | None = None) -> "Yard":
        """The same gateway for agents that are shown another surface, narrowed to what a profile lets through.

        What is outside the profile does not exist there. It has workspaces, tokens and background executions of its
        own, and the same records, rules, limits and approvals.
        """
        changes: dict[str, Any] = {"observer": self.observer.beside()}
        if profile is not None:
            tools = self.tools.narrowed(profile)
            runner = self.runner.narrowed(profile)
            skills = self.skills.narrowed(tools, runner)
            changes |= {"tools": tools, "runner": runner, "skills": skills}
            changes["guidance"] = self.guidance.narrowed(tools, runner, skills.loading)
        beside = replace(self, **changes)
        beside.executions = self.executions.part(beside.executions.run)
        self._beside.append(beside)
        return beside

    def border(self, profile: Profile | None = None) -> Border:
        """The border that all calls of this gateway cross, for a relay, which shows the definition of every tool."""
        broker, observer = self.recorder.broker, self.observer.beside()
        observer.describe_surface("", lambda spec: True)
        tools = self.tools if profile is None else self.tools.narrowed(profile)
        return Border(
            guards=self.guards,
            policy=broker.policy,
            approvals=broker.approvals,
            broker=broker,
            recorder=self.recorder,
            store=self.store,
            reaches=tools.reaches,
            begin=lambda principal: observer.begin(principal, tools.seen_by(principal)),
            names=None,
            readiness=self.operations.readiness,
        )

    @overload
    def tool(self, function: _F, /) -> _F: ...

    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        server: str = _FUNCTIONS,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
    ) -> Callable[[_F], _F]: ...

    def tool(
        self, function: Any = None, /, *, name: str | None = None, server: str = _FUNCTIONS, **effects: Any
    ) -> Any:
        """Make a function a tool from the next execution on, in place of one of the same name.

        What is not given here, `sealyard.tool` may have set. Call it on the event loop of the yard.

        Raises:
            InvalidRequest: The function cannot be a tool, or an upstream of another kind is named `server`.
        """

        def add(function: _F) -> _F:
            mark = python.Mark.of(function)
            claims = msgspec.structs.replace(mark.annotations, **effects)
            mark = msgspec.structs.replace(mark, name=name or mark.name, annotations=claims)
            self.tools.add_function(function, mark, server=server)
            return function

        return add if function is None else add(function)

    def remove_tool(self, name: str, *, server: str = _FUNCTIONS) -> None:
        """Take a tool that `tool` made out of the catalog, for the next execution. Raises `UnknownTool`."""
        self.tools.remove_function(name, server=server)

    async def _carry_out(self, execution: Execution) -> Result:
        return await self.execute(execution.request, principal=execution.principal, handle=execution)

    @property
    def approvals(self) -> Approvals:
        """The asks that wait for a person."""
        return self.recorder.broker.approvals

    @property
    def live(self) -> Live:
        """The runs and events of this moment."""
        return self.observer.live

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
        """Run the code and return the result for the agent. The execution is in the journal before this returns.

        `handle` identifies a background execution.

        Raises:
            InvalidRequest: The request is invalid, and no code ran.
            SandboxBroken: The host side failed. The code may have run.
            StoreError: The journal cannot be written: no code ran, or it ran and its end is not in the journal.
        """
        limits = limits_of(request, self.runner.result_tokens)
        check_values("The context", request.context)
        sandbox = await self.sandbox()
        execution = handle or Execution(request, principal, execution_id=execution_id)
        # A run that cannot be queued does not begin. Its leftovers are scanned before they may go to disk.
        workspace = workspace_of(self.runner, request, principal)
        with sandbox.slots.enter(principal) as slot, sandbox.keep(workspace):
            code = CodeRun(self, execution, sandbox, slot, limits)
            async with code.open(on_output, on_progress) as run:
                async with code.turn():
                    refusal = await code.prepare()
                    if refusal is None:
                        async with run.output:
                            seen = await sandbox.run(request.code, **code.options())
                            run.output.last_seconds = code.left_seconds()
                    else:
                        seen = code.refused(refusal)
                    outcome = await code.conclude(seen)
                result = await code.render(outcome)
        return result

    async def analyze(
        self,
        request: AnalyzeRequest,
        *,
        principal: str = "local",
        execution_id: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Answer a question about rows without code from the agent. Raises errors like `execute`."""
        run = analysis_run(request, result_tokens=self.runner.result_tokens)
        return await self.execute(run, principal=principal, execution_id=execution_id, on_progress=on_progress)

    async def assess(self, code: str, *, principal: str = "local", session: str | None = None) -> Assessment:
        """Estimate how likely code is to fail, without running it. Raises `InvalidRequest` and `SandboxClosed`."""
        check_code(code)
        snapshot, sandbox = await self.snapshot(principal), await self.sandbox()
        place = self.runner.session_of(principal, session)
        guard = await self.guards.of(place)
        policy = self.runner.policy_of(principal)
        verdict = await self.runner.review(code, policy, snapshot, sandbox.packages.modules, principal)
        shown: str = await guard.door.conceal(code)
        return await self.guidance.assess(shown, verdict, principal=principal, session=place, snapshot=snapshot)

    async def search(
        self,
        query: str,
        *,
        detail_level: str = "with_description",
        server: str | None = None,
        limit: int = 5,
        principal: str = "local",
    ) -> SearchAnswer:
        """The tools that `principal` may use and that match `query`, best first. Raises `InvalidRequest`."""
        view = await self.tools.view(principal)
        guard = await self.guards.of(self.runner.session_of(principal, None))
        visit = self.observer.visit(principal, view)
        request = SearchRequest(query=query, detail_level=detail_level, server=server, limit=limit)
        return await find_tools(self, request, visit=visit, view=view, guard=guard)

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        principal: str = "local",
        execution_id: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Response:
        """Call one tool without code: an execution of a single call, recorded as such, that waits for its turn.

        Raises:
            QueueFull: Too many runs and calls wait for their turn.
            UnknownTool: No tool has this name.
            InvalidArguments: The arguments do not match the schema.
            CallRefused: The policy, a person, a token or a limit refuses the call.
            UpstreamError: The server or the tool failed.
        """
        session = self.runner.session_of(principal, None)
        wrote = as_json({"name": name, "arguments": arguments}, "arguments")
        with self.runner.slots.enter(principal) as slot:
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
                slot.on_wait = run.queued
                async with slot.hold(run.clock):
                    await self.recorder.broker.call(run.passage, name, arguments)
                answer = run.answer()
                answer = msgspec.structs.replace(answer, value=await self._shown(answer.value, guard))
                run.finish("ok", self.text_of(answer))
        return answer

    def text_of(self, answer: Response) -> str:
        """A tool's answer as text for the agent, within the budget of a result."""
        return answer_text(answer.value, self.runner.result_tokens)

    async def _shown(self, value: Any, guard: Guard) -> Any:
        """An admitted answer with private values concealed."""
        if isinstance(value, msgspec.Raw):
            return await guard.door.conceal_document(bytes(value))
        return await guard.door.conceal(value)

    async def reveal(self, token: str, *, principal: str) -> list[RevealedValue]:
        """The value behind a token of the principal's own sessions. It is in the audit log before this returns."""
        found = [
            each
            for each in await self.guards.find(token)
            if each.scope == "gateway" or each.scope.startswith(f"{principal}:")
        ]
        scopes = sorted({each.scope for each in found})
        shown = token if TOKEN.fullmatch(token) and len(token) <= _LONG_NAME else "(no token)"
        self.store.audit(
            AuditEntry(kind="privacy.reveal", principal=principal, body={"token": shown, "scopes": scopes})
        )
        if found:
            self.observer.revealed(principal)
        await self.store.flush()
        return found

    async def snapshot(self, principal: str | None = None) -> Snapshot:
        """The catalog, or the view of `principal`, once every upstream has listed its tools or failed to."""
        return await self.tools.view(principal)

    async def sandbox(self) -> Sandbox:
        """The sandbox, which is built while the gateway already answers. Raises `SandboxClosed`."""
        return await self.runner.sandbox()

    async def close(self) -> None:
        """End background executions, and write the last figures."""
        await self.executions.close()
        for each in self._beside:
            await each.guidance.skills.close()
        await self.guidance.close()
        await self.observer.accounting.close()

    def note_exchange(self, principal: str, use_case: UseCase, *, wrote: str, read: str, part: str = "results") -> None:
        """Count an exchange that is not a run: text the agent wrote and the answer it read."""
        visit = self.observer.visit(principal, self.tools.seen_by(principal))
        self.observer.exchanged(visit, use_case, wrote=wrote, read=read, part=part)

    async def report(self, since: float | None = None, until: float | None = None) -> Report:
        """The work of that period, its quality and its savings. Raises `StoreError`."""
        return await self.operations.figures.report(since, until)
