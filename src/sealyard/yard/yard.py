"""The yard: every request of an agent as one method. `Yard.execute` is the request path."""

import secrets
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar, overload

import msgspec

from sealyard.access import Guards, NameCheck
from sealyard.broker import Approvals, Broker
from sealyard.broker.policy import Policy
from sealyard.broker.upstreams import OnProgress, Response, python
from sealyard.catalog import Snapshot
from sealyard.config.settings import SurfaceConfig
from sealyard.errors import InvalidArguments, InvalidRequest, QueueFull, SealyardError
from sealyard.learning import Assessment
from sealyard.metrics import Report
from sealyard.observe import Live, Recorder, Visit
from sealyard.observe.health import Readiness
from sealyard.privacy import TOKEN, Guard
from sealyard.privacy.vault import RevealedValue
from sealyard.sandbox import Sandbox
from sealyard.sandbox.review import check_code
from sealyard.skills import SaveSkill
from sealyard.store import Store
from sealyard.values.access import AuditEntry, Grant, Profile
from sealyard.values.documents import check_values
from sealyard.values.facts import UseCase
from sealyard.values.runs import Answer, ExecutionState, OnOutput, Result
from sealyard.values.skills import Skill
from sealyard.values.tools import SearchAnswer, SearchRequest, ToolSpec, glob
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
from sealyard.yard.surface.arguments import (
    CallArguments,
    ExecuteArguments,
    FindArguments,
    ListArguments,
    LoadArguments,
    SearchArguments,
    convert,
)
from sealyard.yard.surface.definitions import instructions, surface_tools
from sealyard.yard.surface.texts import HIT_TOKENS, found_text, loaded_text, saved_text, search_text

_FOLLOW = "Pass execution_id alone to wait for its result, or with cancel=true to stop it."
_Arguments = TypeVar("_Arguments", bound=msgspec.Struct)
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

    async def search_text(
        self,
        query: str,
        *,
        detail_level: str,
        server: str | None,
        limit: int,
        principal: str,
        schemas: bool = False,
    ) -> str:
        """The answer to a search within the budget. Without words and server it names the servers.

        `schemas` adds those of `full` hits, beyond the budget: they are for programs.

        Raises:
            InvalidRequest: There is no such server or detail level, or the limit is out of range.
        """
        found = await self.search(query, detail_level=detail_level, server=server, limit=limit, principal=principal)
        snapshot, views = self.tools.catalog.snapshot, self.tools.views
        unlisted = views.servers(self.tools.finder.unlisted(), snapshot, principal)
        budget = self.runner.result_tokens
        if not query.strip() and not server:
            servers = views.servers(self.tools.upstreams, snapshot, principal)
            return search_text(found, unlisted, budget, servers, schemas=schemas)
        budget = budget if detail_level == "full" else min(budget, HIT_TOKENS * limit)
        return search_text(found, unlisted, budget, schemas=schemas)

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        principal: str = "local",
        session: str | None = None,
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
        place = self.runner.session_of(principal, session)
        wrote = as_json({"name": name, "arguments": arguments}, "arguments")
        with self.runner.slots.enter(principal) as slot:
            snapshot = await self.snapshot(principal)
            guard = await self.guards.of(place)
            grant = Grant(
                execution_id=execution_id or secrets.token_hex(8),
                principal=principal,
                session=place,
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

    async def reveal(self, token: str, *, principal: str, session: str | None = None) -> list[RevealedValue]:
        """The value behind a token of the principal's own sessions, or of one of them.

        It is in the audit log before this returns.
        """
        own = f"{principal}:" if session is None else self.runner.session_of(principal, session)
        found = [
            each
            for each in await self.guards.find(token)
            if each.scope in ("gateway", own) or (session is None and each.scope.startswith(own))
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

    def surface(self, settings: SurfaceConfig, mode: str) -> "Surface":
        """The tools of a mode, answered by this yard."""
        return Surface(self, settings, mode)

    def note_exchange(self, principal: str, use_case: UseCase, *, wrote: str, read: str, part: str = "results") -> None:
        """Count an exchange that is not a run: text the agent wrote and the answer it read."""
        visit = self.observer.visit(principal, self.tools.seen_by(principal))
        self.observer.exchanged(visit, use_case, wrote=wrote, read=read, part=part)

    async def report(self, since: float | None = None, until: float | None = None) -> Report:
        """The work of that period, its quality and its savings. Raises `StoreError`."""
        return await self.operations.figures.report(since, until)


class Caller(Protocol):
    """Whoever calls tools of a surface: a client of MCP, or an agent's model."""

    principal: str

    @property
    def asks(self) -> Collection[str]:
        """The open questions to the caller's person."""

    def channel(self, execution_id: str) -> AbstractContextManager[None]:
        """While open, the questions of an execution go to the caller's person."""

    def on_output(self, text: str, /) -> None:
        """Take output of code as it is printed."""

    def on_progress(self, progress: float, total: float | None, message: str | None, /) -> None:
        """Take the progress of a tool that code or the caller called."""


@dataclass(kw_only=True, frozen=True)
class Prepared:
    """A call of a surface that is ready to be carried out: await `work` with `channel` open, and `write` its value."""

    work: Awaitable[Any]
    write: Callable[[Any], Answer]
    channel: AbstractContextManager[None] = field(default_factory=nullcontext)


class Surface:
    """Prepares calls of the advertised tools by their names, and of upstreams' tools that are advertised too.

    It carries out nothing itself, so that a call goes from whoever awaits it straight to the part that does it.
    """

    def __init__(self, yard: Yard, settings: SurfaceConfig, mode: str) -> None:
        self._yard = yard
        self._direct = settings.direct if mode == "hybrid" else ()
        self._is_direct = glob(*self._direct) if self._direct else lambda name: None
        self._tools: dict[str, Callable[[_Request], Prepared]] = {"search_tools": self._search}
        if mode == "search":
            self._tools["call_tool"] = self._call
        else:
            self._tools |= {
                "execute_code": self._execute,
                "execute_analysis": self._analyze,
                "save_skill": self._save_skill,
                "find_skills": self._find_skills,
                "load_skill": self._load_skill,
                # Not advertised: names that other programs have for ours.
                "delete_skill": self._delete_skill,
                "execute_python": self._execute,
                "list_skills": self._list_skills,
                "search_skills": self._find_skills,
            }
        shown = msgspec.json.encode([settings.instructions or instructions(mode), *surface_tools(mode)]).decode()
        yard.observer.describe_surface(shown, self.is_direct)
        self.known = (
            f"There are {', '.join(tool['name'] for tool in surface_tools(mode))}; search_tools finds all others."
        )
        """For a name that there is not."""

    def owns(self, name: str) -> bool:
        """True for the name of a tool of our own."""
        return name in self._tools

    async def direct(self, principal: str) -> list[ToolSpec]:
        """The upstreams' tools that are advertised to a principal."""
        if not self._direct:
            return []
        specs = (await self._yard.snapshot(principal)).tools.values()
        return sorted(filter(self.is_direct, specs), key=lambda spec: spec.full_name)

    async def find_direct(self, name: str, principal: str) -> ToolSpec | None:
        """The upstream's tool that is advertised under this name; None for another name."""
        if not self._direct:
            return None
        spec = (await self._yard.snapshot(principal)).tools.get(name)
        return spec if spec is not None and self.is_direct(spec) else None

    def is_direct(self, spec: ToolSpec) -> bool:
        """True if a tool of an upstream is advertised."""
        return any(map(self._is_direct, (*spec.spellings, spec.name)))

    def prepare(self, name: str, arguments: dict[str, Any], caller: Caller, *, session: str | None = None) -> Prepared:
        """Prepare a call of a tool that `owns` or `find_direct` knows. `session` is that of calls that name none.

        Raises:
            InvalidRequest: The arguments are wrong.
        """
        return self._tools.get(name, self._call_direct)(_Request(name, arguments, session, caller))

    async def failed(self, error: SealyardError, name: str, arguments: dict[str, Any], principal: str) -> Answer:
        """The answer to a call that ended with an error: the model reads it."""
        text = f"{type(error).__name__}: {error}"
        if name.endswith(("_skill", "_skills")):  # it may quote the request, which nothing has concealed
            text = await self._concealed(text, principal)
        if isinstance(error, InvalidRequest | QueueFull) and not isinstance(error, InvalidArguments):
            # Else a run has begun, and its bill has it.
            self._yard.note_exchange(principal, "polling", wrote=_written(arguments), read=text)
        return Answer(text=text, is_error=True)

    async def _concealed(self, text: str, principal: str) -> str:
        guard = await self._yard.guards.of(self._yard.runner.session_of(principal))
        concealed: str = await guard.door.conceal(text)
        return concealed

    def _search(self, request: "_Request") -> Prepared:
        given = request.convert(SearchArguments)
        work = self._yard.search_text(
            given.query,
            detail_level=given.detail_level,
            server=given.server,
            limit=given.limit,
            principal=request.caller.principal,
        )
        return Prepared(work=work, write=partial(self._exchanged, request, "discovery", "searches"))

    def _exchanged(self, request: "_Request", use_case: UseCase, part: str, text: str) -> Answer:
        """The answer to a call that is no run, whose tokens are counted here."""
        principal, wrote = request.caller.principal, _written(request.arguments)
        self._yard.note_exchange(principal, use_case, wrote=wrote, read=text, part=part)
        return Answer(text=text)

    def _execute(self, request: "_Request") -> Prepared:
        given, caller = request.convert(ExecuteArguments), request.caller
        if given.execution_id is not None:
            looking = self._look(caller, given.execution_id, cancel=given.cancel)
            return Prepared(work=looking, write=partial(self._polled, request, _written(request.arguments)))
        if given.cancel:
            raise InvalidRequest(
                "cancel is true, and no run is named. Give execution_id to stop a run, or leave out cancel to run code."
            )
        run = ExecuteRequest(
            code=given.code,
            language=given.language,
            context=given.context,
            session=given.session or request.session,
            timeout_seconds=given.timeout_seconds,
            timeout=given.timeout,
            isolation_level=given.isolation_level,
        )
        if given.background:
            starting = self._start(run, caller.principal)
            return Prepared(work=starting, write=partial(self._polled, request, ""))  # the code is on the run's bill
        execution_id = secrets.token_hex(8)
        running = self._yard.execute(
            run,
            principal=caller.principal,
            on_output=caller.on_output,
            on_progress=caller.on_progress,
            execution_id=execution_id,
        )
        return Prepared(work=running, write=_answer, channel=caller.channel(execution_id))

    def _polled(self, request: "_Request", wrote: str, answer: Answer) -> Answer:
        self._yard.note_exchange(request.caller.principal, "polling", wrote=wrote, read=answer.text)
        return answer

    async def _start(self, run: ExecuteRequest, principal: str) -> Answer:
        return self._state(await self._yard.executions.start(run, principal=principal), hint=_FOLLOW)

    async def _look(self, caller: Caller, execution_id: str, *, cancel: bool) -> Answer:
        """A background execution's state; waits while the caller's person is asked about it."""
        executions, principal = self._yard.executions, caller.principal
        if cancel:
            return self._state(await executions.cancel(execution_id, principal=principal))
        executions.state(execution_id, principal=principal)  # raises for an execution of another principal
        with caller.channel(execution_id):
            state = await executions.look(execution_id, principal=principal)
            while caller.asks and not state.is_over:
                state = await executions.look(execution_id, principal=principal)
        return self._state(state)

    def _analyze(self, request: "_Request") -> Prepared:
        given, caller = request.convert(AnalyzeRequest), request.caller
        given = msgspec.structs.replace(given, session=given.session or request.session)
        execution_id = secrets.token_hex(8)
        running = self._yard.analyze(
            given, principal=caller.principal, execution_id=execution_id, on_progress=caller.on_progress
        )
        return Prepared(work=running, write=_answer, channel=caller.channel(execution_id))

    def _save_skill(self, request: "_Request") -> Prepared:
        given = request.convert(SaveSkill)
        saving = self._yard.skills.save(given, principal=request.caller.principal)
        return Prepared(work=saving, write=lambda saved: self._skill_answer(request, saved_text(saved)))

    def _find_skills(self, request: "_Request") -> Prepared:
        return self._found(request, request.convert(FindArguments))

    def _list_skills(self, request: "_Request") -> Prepared:
        return self._found(request, request.convert(ListArguments))

    def _found(self, request: "_Request", given: FindArguments) -> Prepared:
        finding = self._yard.skills.find(given.query, limit=given.limit, principal=request.caller.principal)
        budget = self._yard.runner.result_tokens
        return Prepared(work=finding, write=lambda found: self._skill_answer(request, found_text(found, budget)))

    def _load_skill(self, request: "_Request") -> Prepared:
        loading = self._loaded(request.convert(LoadArguments), request.caller.principal)
        return Prepared(work=loading, write=partial(self._skill_answer, request))

    async def _loaded(self, given: LoadArguments, principal: str) -> str:
        loaded = await self._yard.skills.load(given.name, given.version, principal=principal)
        kept = await self._yard.skills.versions(loaded.skill.namespace, loaded.skill.name, principal=principal)
        versions = [each.version for each in kept]
        return loaded_text(loaded.skill, loaded.warnings, versions, self._yard.runner.result_tokens)

    def _delete_skill(self, request: "_Request") -> Prepared:
        """Delete a skill of the principal's own; a person deletes what is shared."""
        given = request.convert(LoadArguments)
        deleting = self._yard.skills.delete_own(given.name, given.version, principal=request.caller.principal)

        def write(gone: list[Skill]) -> Answer:
            deleted = {"skill": given.name, "deleted": [skill.version for skill in gone]}
            return self._skill_answer(request, msgspec.json.encode(deleted).decode())

        return Prepared(work=deleting, write=write)

    def _skill_answer(self, request: "_Request", text: str) -> Answer:
        return self._exchanged(request, "skill_reuse", "results", text)

    def _call(self, request: "_Request") -> Prepared:
        given = request.convert(CallArguments)
        return self._call_direct(_Request(given.name, given.arguments, request.session, request.caller))

    def _call_direct(self, request: "_Request") -> Prepared:
        caller, execution_id = request.caller, secrets.token_hex(8)
        calling = self._yard.call(
            request.name,
            request.arguments,
            principal=caller.principal,
            session=request.session,
            on_progress=caller.on_progress,
            execution_id=execution_id,
        )
        return Prepared(work=calling, write=self._called, channel=caller.channel(execution_id))

    def _called(self, answer: Response) -> Answer:
        return Answer(text=self._yard.text_of(answer))

    def _state(self, state: ExecutionState, *, hint: str = "") -> Answer:
        if state.result is not None:
            return _answer(state.result)
        facts: dict[str, Any] = {"execution_id": state.execution_id, "state": state.state}
        if state.output:
            facts["output_so_far"] = state.output
        if asks := self._yard.approvals.open_asks(state.execution_id):
            facts["waiting_for_approval"] = [{"id": ask.id, "tool": ask.tool} for ask in asks]
        if state.error is not None:
            facts["error"] = state.error
        shown = facts | ({"hint": hint} if hint else {})
        return Answer(text=msgspec.json.encode(shown).decode(), is_error=state.state == "failed", facts=facts)


@dataclass(frozen=True)
class _Request:
    """A call of a surface's tool."""

    name: str
    arguments: dict[str, Any]
    session: str | None
    caller: Caller

    def convert(self, kind: type[_Arguments]) -> _Arguments:
        """The arguments as `kind`. Raises `InvalidRequest`."""
        return convert(self.name, self.arguments, kind)


def _written(arguments: dict[str, Any]) -> str:
    """The arguments as the model wrote them."""
    return msgspec.json.encode(arguments).decode()


def _answer(result: Result) -> Answer:
    outcome = result.outcome
    facts: dict[str, Any] = {
        "execution_id": outcome.execution_id,
        "status": outcome.status,
        "tier": outcome.tier,
        "level": outcome.level,
        "usage": msgspec.to_builtins(outcome.usage),
    }
    if outcome.spill is not None:
        facts["file"] = outcome.spill.path
    if outcome.failure is not None:
        facts["failure"] = msgspec.to_builtins(outcome.failure)
    return Answer(text=result.text, is_error=result.is_error, facts=facts)
