"""One execution of code, around the run in the sandbox: limits, tools, review, outcome and its text.

An analysis without code is a run of our own program, with the request as its data: nothing of the request is ever text
of the program. Its engine is `sealyard.analysis.guest`, which the sandbox knows as `sealyard_analysis`.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from sealyard.access import Guards, Runner, Tools
from sealyard.broker.upstreams import OnProgress
from sealyard.catalog import Snapshot
from sealyard.errors import InvalidRequest, UnknownTool
from sealyard.learning import Guidance, RunAdvice, SearchGuide
from sealyard.observe import Observer, Recorder, Run, Visit
from sealyard.privacy import Guard
from sealyard.sandbox import Sandbox
from sealyard.sandbox.pool import Slot
from sealyard.sandbox.review import Review, check_code
from sealyard.skills import Skills, SkillSession
from sealyard.store import Store
from sealyard.values.access import Grant
from sealyard.values.runs import (
    MAX_SECONDS,
    OWN_CALLS,
    Failure,
    Limits,
    OnOutput,
    Outcome,
    Result,
    Usage,
    is_python,
    limit_failure,
)
from sealyard.values.tools import SearchAnswer, SearchRequest, ToolSpec, with_bounded_schemas
from sealyard.versioning import Plan
from sealyard.wording import suggest
from sealyard.yard.executions import AnalyzeRequest, ExecuteRequest, Execution
from sealyard.yard.operations import Operations
from sealyard.yard.results import preview_bytes, render

_ANALYSES = ("filter", "aggregate", "transform", "validate", "statistics")
_ROWS = 100  # in the answer of one analysis
_BYTES_PER_TOKEN = 2.5
"""Of rows as JSON, at least. Longer rows would not fit the token budget of the answer."""

_ANALYSIS_CODE = """\
from sealyard_analysis import run
result = run(request, call_tool)
"""

_LEVEL_CHARACTERS = 4  # of a level in the name of a workspace, which leaves room for the session's
_SCAN_SECONDS = 0.05
"""For scanning the output of a run that has used up its time; `Run.conceal` says what it leaves out then."""
_SHORT_CODE = 1_000
"""Characters of code whose review has no timer, which would cost more than the review."""
_WARNINGS = 3  # of the review in one result
_QUERY_CHARACTERS = 1_000  # of a query that is recorded
_RAGGED_CHARACTERS = 200  # at a cut end, where half of a private value may stand
_NAME_CHARACTERS = 200
"""Of an unknown name, in an error message."""


@dataclass(kw_only=True, eq=False)
class Parts:
    """The parts that `open_yard` builds, each after those it depends on."""

    store: Store
    guards: Guards
    observer: Observer
    recorder: Recorder
    tools: Tools
    runner: Runner
    skills: Skills
    guidance: Guidance
    operations: Operations
    """The operators' view: readiness, figures, alerts."""


class CodeRun:
    """One execution of code, step by step: `turn`, `prepare`, the sandbox with `options`, `conclude`, `render`."""

    run: Run
    """Its record, which `open` begins."""
    _snapshot: Snapshot
    _skills: SkillSession

    def __init__(self, yard: Parts, execution: Execution, sandbox: Sandbox, slot: Slot, limits: Limits) -> None:
        self._yard = yard
        self._execution = execution
        self._sandbox = sandbox
        self._slot = slot
        self._limits = limits
        self._policy = yard.runner.policy_of(execution.principal, execution.request.isolation_level)
        self._place = workspace_of(yard.runner, execution.request, execution.principal)
        if execution.request.isolation_level:
            sandbox.check(self._policy)
        self._is_code = execution.request.form == "code"
        self._wall_seconds = 0.0
        """The wall time that is left when its turn comes."""
        self._verdict = Review(verdict="allow")
        self._look: RunAdvice | None = None
        self._implied: Mapping[str, str] = {}

    @contextlib.asynccontextmanager
    async def open(self, on_output: OnOutput | None, on_progress: OnProgress | None) -> AsyncIterator[Run]:
        """Record the execution from its beginning to its end, which is on disk when the block is left."""
        yard, execution = self._yard, self._execution
        request, principal = execution.request, execution.principal
        snapshot = self._snapshot = await yard.tools.view(principal)
        session = yard.runner.session_of(principal, request.session)
        guard = await yard.guards.of(session)
        wrote = written(request)
        skills = self._skills = yard.skills.session(principal, snapshot, guard)
        visit = yard.observer.begin(principal, snapshot, is_code=self._is_code)
        began_at = asyncio.get_running_loop().time()
        seconds = self._limits.wall_seconds or self._policy.wall_seconds
        opening = yard.recorder.open(
            Grant(execution_id=execution.id, principal=principal, session=session, tools=snapshot.tools),
            guard,
            form=request.form,
            wrote=wrote,
            code=request.code,
            context=request.context,
            catalog_version=snapshot.version,
            visit=visit,
            background=execution.background,
            begin_seconds=seconds,
            own={name: partial(skills.answer, name) for name in OWN_CALLS} | {"search_tools": self._search},
            find=self._find,
            on_progress=on_progress,
        )
        async with opening as run:
            self.run = run
            if (listen := on_output or (execution.on_output if execution.background else None)) is not None:
                run.output.listen(listen)
                run.output.open()
            if execution.background:
                await yard.store.flush()
                execution.recorded.set()
            self._wall_seconds = seconds - (asyncio.get_running_loop().time() - began_at)  # the queue does not count
            try:
                yield run
            except Exception:
                run.status = "broken"
                raise
            finally:
                run.skills = yard.skills.note_uses(skills, execution.id, principal, run.status)
        execution.record = run.record

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold the turn of its principal. The clock of the run starts with the turn."""
        self._slot.on_wait = self._note_wait
        async with self._slot.hold(self.run.clock):
            self.run.clock.end_by = asyncio.get_running_loop().time() + self._wall_seconds
            yield

    async def prepare(self) -> Failure | None:
        """Review the code and predict its outcome. Returns the failure if it must not run.

        Code that takes longer to read than its time limit does not run. Time in which a person decides does not count.
        """
        yard, run, code, limits = self._yard, self.run, self._execution.request.code, self._limits
        modules = self._sandbox.packages.modules
        policy = self._policy if limits.wall_seconds is None else self._policy.with_limits(limits)
        look = self._look = RunAdvice(limits=limits)
        try:
            async with asyncio.timeout_at(run.clock.end_by if len(code) > _SHORT_CODE else None):
                view, who = self._snapshot, self._execution.principal
                self._verdict = await yard.runner.review(code, policy, view, modules, who)
                if self._is_code:
                    await self._find_implied()
                    look = self._look = await self._take_look()
        except TimeoutError:
            message = f"Reviewing the code exceeded the run's limit of {policy.wall_seconds:g} s."
            return limit_failure("wall_time", message)
        if (refusal := self._verdict.refusal() or look.refusal) is not None:
            return refusal
        with run.clock.paused():
            refusal = await yard.guidance.ask(look, run.grant, run.record)
        if refusal is None:
            await yard.tools.publish(self._snapshot)
        return refusal

    def options(self) -> dict[str, Any]:
        """The sandbox's arguments besides the code."""
        run, look = self.run, self._look
        assert look is not None
        return {
            "context": self._execution.request.context,
            "tools": self._implied,
            "limits": look.limits,
            "policy": self._policy,
            "on_call": partial(self._yard.recorder.broker.call, run.passage),
            "on_output": run.output.add,
            "session": self._place,
            "execution_id": run.id,
            "library_version": self._snapshot.stubs_version,
            "clock": run.clock,
            "slot": self._slot,
            "offload": self._yard.guards.offload,
        }

    def refused(self, failure: Failure) -> Outcome:
        """The outcome of code that did not start."""
        return Outcome(
            execution_id=self.run.id,
            status="failed",
            failure=failure,
            usage=Usage(wall_seconds=0.0),
            tier="",
            level=str(self._policy.level),
            session=self._place,
        )

    async def conclude(self, seen: Outcome) -> Outcome:
        """The outcome with private values concealed, and with advice on a failure."""
        run, left = self.run, self.left_seconds()
        run.passage.settle()
        if not self._is_code:
            return await run.conceal(without_code_details(seen), seconds=left)
        outcome = await run.conceal(seen, seconds=left)
        return self._yard.guidance.explain(outcome, run.record, run, self._snapshot)

    async def render(self, outcome: Outcome) -> Result:
        """The result for the agent."""
        run, look = self.run, self._look
        warnings = [
            finding.message
            for finding in self._verdict.findings
            if finding.severity == "warn" and not (outcome.ok and finding.rule == "sleep")  # the run had enough time
        ]
        tips = []
        if self._is_code and look is not None:
            tips = await self._yard.guidance.notes(outcome, run.record, look, run)
        result = await render(
            outcome,
            budget_tokens=self._yard.runner.result_tokens,
            workspace=self._sandbox.find_workspace(self._place),
            guard=run.guard,
            notes=(*dict.fromkeys([*run.passage.notes, *self._skills.notes]), *warnings[:_WARNINGS], *tips),
        )
        run.finish(outcome.status, result.text, outcome)
        return result

    def _note_wait(self, is_waiting: bool) -> None:
        self._execution.is_queued = is_waiting
        self.run.queued(is_waiting)

    def left_seconds(self) -> float:
        """The rest of the time limit, and at least a moment, because the result of a stopped run comes at once."""
        clock = self.run.clock
        return max(_SCAN_SECONDS, clock.end_by + clock.still_seconds - asyncio.get_running_loop().time())

    async def _find_implied(self) -> None:
        """Find the tools that the code calls without an import. From here on they are as if it had imported them."""
        if self._verdict.unbound:
            request, skills = self._execution.request, self._yard.skills
            self._implied = await skills.implied_tools(
                self._verdict.unbound,
                self._snapshot,
                principal=self._execution.principal,
                given=request.context or (),
            )
            self._verdict = self._verdict.with_tools(self._implied)

    async def _take_look(self) -> RunAdvice:
        look = await self._yard.guidance.look(
            self.run.record,
            self._verdict,
            snapshot=self._snapshot,
            policy=self._policy,
            limits=self._limits,
        )
        self.run.assessed = look.assessed
        report = self.run.passage.on_progress
        if look.assessment.risk in ("high", "critical") and look.refusal is None and report is not None:
            # Before the run: the listener may cancel it.
            sending = report(0.0, None, f"likely to fail: {look.assessment.text}")
            if sending is not None:
                await sending
        return look

    def _find(self, name: str) -> tuple[ToolSpec, Plan | None]:
        """The tool that code means by a name other than its full name: another spelling, or an older version."""
        return self._skills.find_plan(name) or (find_tool(self._snapshot, name), None)

    async def _search(self, arguments: dict[str, Any]) -> list[Any]:
        """Answer `search_tools` for code. Raises `InvalidRequest`."""
        try:  # nothing has checked what comes from inside the sandbox
            request = msgspec.convert(arguments, SearchRequest)
        except msgspec.ValidationError as error:
            raise InvalidRequest(f"Invalid arguments for search_tools: {error}.") from None
        run = self.run
        found = await find_tools(
            self._yard, request, visit=run.visit, view=self._snapshot, guard=run.guard, execution_id=run.id
        )
        return [msgspec.to_builtins(hit) for hit in with_bounded_schemas(found.hits)]


def find_tool(snapshot: Snapshot, name: str) -> ToolSpec:
    """The tool of this name. Raises `UnknownTool`, which suggests the most similar names."""
    spec = snapshot.find(name)
    if spec is None:
        nearest = ", ".join(map(repr, snapshot.nearest(name)))
        hint = f"Nearest: {nearest}." if nearest else "Call search_tools to find one that exists."
        raise UnknownTool(f"No tool named {name[:_NAME_CHARACTERS]!r}. {hint}")
    return spec


async def find_tools(
    yard: Parts, request: SearchRequest, *, visit: Visit, view: Snapshot, guard: Guard, execution_id: str = ""
) -> SearchAnswer:
    """Search a view of the catalog, for an agent or for code that runs."""
    started = time.perf_counter()
    level = request.level
    is_cached = yard.tools.finder.is_indexed(view)
    shown = await _shown(request.query, guard)
    servers = None
    if request.server:  # a view is the whole catalog until what it leaves out has listed its tools
        tools = yard.tools
        servers = tools.views.servers(tools.upstreams, tools.catalog.snapshot, visit.principal)
    guide = SearchGuide(yard.guidance, visit, view, shown) if yard.guidance.is_on else None
    if guide is None:
        answer = await yard.tools.finder.search(request, view=view, servers=servers)
    else:
        await yard.guidance.skills.first_look(visit.principal)
        answer = await yard.tools.finder.search(request, view=view, servers=servers, learned=guide.recall())
        answer = await guide.finish(answer, level)
    yard.observer.searched(
        visit,
        shown,
        answer,
        place="code" if execution_id else "agent",
        detail_level=level,
        seconds=time.perf_counter() - started,
        is_cached=is_cached,
        execution_id=execution_id,
    )
    return answer


async def _shown(query: str, guard: Guard) -> str:
    """Conceal the beginning of a query. A cut may halve something private, so what is kept ends well before it."""
    shown: str = await guard.door.conceal(query[:_QUERY_CHARACTERS])
    return shown if len(query) <= _QUERY_CHARACTERS else shown[:-_RAGGED_CHARACTERS]


def limits_of(request: ExecuteRequest, result_tokens: int) -> Limits:
    """The limits that a request sets. Raises `InvalidRequest` for an invalid request."""
    if request.language and not is_python(request.language):
        raise InvalidRequest(f"language is {request.language!r}. Only 'python' is run here.")
    check_code(request.code)
    if not request.code.strip():
        raise InvalidRequest("The code is empty. Give at least one statement.")
    seconds = request.timeout if request.timeout_seconds is None else request.timeout_seconds
    if request.timeout not in (None, seconds):
        raise InvalidRequest(
            f"timeout is {request.timeout:g} and timeout_seconds {seconds:g}. Give one of them: they mean the same."
        )
    if seconds is not None and not 1 <= seconds <= MAX_SECONDS:
        raise InvalidRequest(f"timeout_seconds is {seconds:g}. Give 1 to {MAX_SECONDS:g}.")
    return Limits(wall_seconds=seconds, inline_bytes=preview_bytes(result_tokens))


def workspace_of(runner: Runner, request: ExecuteRequest, principal: str) -> str:
    """The name of the workspace of a run: at a stricter level than its principal's, a session has another one.

    What looser runs left is not in it, and its size is that of its level. No client's session begins with `@`.
    """
    session, policy = (
        runner.session_of(principal, request.session),
        runner.policy_of(principal, request.isolation_level),
    )
    if policy.level == runner.policy_of(principal).level:
        return session
    return session.replace(":", f":@{policy.level[:_LEVEL_CHARACTERS]}:", 1)


# Analyses without code


def analysis_run(request: AnalyzeRequest, *, result_tokens: int) -> ExecuteRequest:
    """The run that answers the request. Raises `InvalidRequest` for faults that show without the rows."""
    if request.analysis_type not in _ANALYSES:
        hint = suggest(request.analysis_type, _ANALYSES, f"Use {', '.join(_ANALYSES)}.")
        raise InvalidRequest(f"analysis_type is {request.analysis_type[:100]!r}. {hint}")
    if (request.data is None) == (request.source is None):
        raise InvalidRequest(
            "Give either data or source, not both: the rows in data, or source = "
            '{"workspace": path} or {"tool": name, "arguments": {…}}.'
        )
    asked: dict[str, Any] = {
        "analysis_type": request.analysis_type,
        "parameters": request.parameters,
        "limits": {"rows": _ROWS, "bytes": int(result_tokens * _BYTES_PER_TOKEN)},
    }
    if request.source is not None:
        asked["source"] = request.source
    else:
        asked["data"] = request.data
    return ExecuteRequest(
        code=_ANALYSIS_CODE,
        context={"request": asked},
        session=request.session,
        timeout_seconds=request.timeout_seconds,
        timeout=request.timeout,
        isolation_level=request.isolation_level,
        form="analysis",
    )


def written(request: ExecuteRequest) -> str:
    """The text that the agent wrote for this run: its code and context, or its request for an analysis.

    Raises:
        InvalidRequest: The context is not JSON.
    """
    context = request.context
    if not context:
        return request.code
    if request.form == "analysis":
        return as_json({name: value for name, value in context["request"].items() if name != "limits"}, "request")
    return f"{request.code}\n{as_json(context, 'context')}"


def as_json(value: Any, name: str) -> str:
    """The value given as `name`, as JSON. Raises `InvalidRequest`."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"The {name} must be JSON data: {error}.") from None


def without_code_details(outcome: Outcome) -> Outcome:
    """The outcome of an analysis without the details that help only an author of code."""
    failure = outcome.failure
    if failure is None:
        return outcome
    bare = Failure(kind=failure.kind, type=failure.type, message=failure.message, hint=_hint(failure))
    return msgspec.structs.replace(outcome, failure=bare)


def _hint(failure: Failure) -> str | None:
    """Most hints are about code; only those on limits apply to an analysis."""
    limits = ("wall_time", "cpu_time", "memory", "workspace")
    return "Filter earlier, or work on fewer rows or columns." if failure.kind in limits else None
