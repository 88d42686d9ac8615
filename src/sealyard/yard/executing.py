"""One execution, from the code that an agent sent to what it gets back."""

import asyncio
import contextlib
from typing import TYPE_CHECKING

from sealyard.broker.call import OnProgress, Passage
from sealyard.catalog import Snapshot
from sealyard.errors import InvalidRequest
from sealyard.offload import check_values
from sealyard.privacy.guard import Guard
from sealyard.sandbox.clock import RunClock
from sealyard.sandbox.policy.levels import IsolationPolicy
from sealyard.sandbox.review import Review, check_code
from sealyard.sandbox.run import Sandbox
from sealyard.sandbox.turns import Place
from sealyard.sandbox.worker import OnOutput, limit_failure
from sealyard.sandbox.workspace import check_session_name
from sealyard.values import ExecutionRecord, Failure, Grant, Limits, Outcome, RecordStatus, Result, Usage
from sealyard.yard.analyzing import told, written
from sealyard.yard.calls import Calls
from sealyard.yard.executions import MAX_SECONDS, ExecuteRequest, Execution
from sealyard.yard.guidance import Look
from sealyard.yard.observing import Run
from sealyard.yard.results import conceal_outcome, failure_text, preview_bytes, render, without_cut_values
from sealyard.yard.skill_session import SkillSession

if TYPE_CHECKING:
    from sealyard.yard.yard import Yard

__all__ = ("execute", "session_of")

_SESSION_CHARACTERS = 50
_TELL_SECONDS = 0.05
"""For looking through what a run printed that has used up its time; see `conceal_outcome` for what is left out then."""
_WARNINGS = 3


async def execute(
    yard: "Yard", execution: Execution, *, on_output: OnOutput | None = None, on_progress: OnProgress | None = None
) -> Result:
    """Carry out an execution. It raises what `Yard.execute` does."""
    limits = limits_of(execution.request, yard.result_tokens)
    check_values("The context", execution.request.context)
    sandbox = await yard.sandbox()
    session = session_of(execution.principal, execution.request.session)
    # What cannot be kept waiting is not begun. What the run leaves is looked at before it may be put on disk.
    with sandbox.turns.enter(execution.principal) as place, sandbox.keep(session):
        return await _execute(yard, execution, limits, sandbox, place, on_output, on_progress)


async def _execute(
    yard: "Yard",
    execution: Execution,
    limits: Limits,
    sandbox: Sandbox,
    place: Place,
    on_output: OnOutput | None,
    on_progress: OnProgress | None,
) -> Result:
    snapshot = await yard.snapshot(execution.principal)
    session = session_of(execution.principal, execution.request.session)
    guard = await yard.guards.of(session)
    wrote = written(execution.request)
    await yard.store.room()  # what cannot be recorded is not begun
    seconds = limits.wall_seconds or yard.policy_of(execution.principal).wall_seconds
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    try:
        async with asyncio.timeout(seconds):
            running = await _Running.begin(
                yard, execution, wrote, snapshot, sandbox, place, session, guard, on_progress
            )
    except TimeoutError:
        raise InvalidRequest(
            f"Looking through the code and its context took longer than the {seconds:g} s that the run has. Pass less."
        ) from None
    outcome: Outcome | None = None
    sent = ""
    status: RecordStatus = "cancelled"
    try:
        if execution.background:
            await yard.store.flush()
            execution.recorded.set()
        left_seconds = seconds - (loop.time() - began_at)  # waiting for its turn costs none of it
        async with running.turn():
            ready_by = loop.time() + left_seconds
            outcome = await running.outcome(limits, on_output, ready_by=ready_by)
        status = outcome.status
        result = await running.result(outcome)
        sent = result.text
    except Exception as error:
        status, sent = "broken", failure_text(error)
        raise
    finally:
        running.end(status, outcome, sent)
    await yard.store.flush()
    return result


class _Running:
    """What one execution has about it while it runs."""

    def __init__(
        self,
        yard: "Yard",
        execution: Execution,
        wrote: str,
        snapshot: Snapshot,
        sandbox: Sandbox,
        place: Place,
        grant: Grant,
        guard: Guard,
        record: ExecutionRecord,
        on_progress: OnProgress | None,
    ) -> None:
        request = execution.request
        self._yard = yard
        self._execution = execution
        self._snapshot = snapshot
        self._sandbox = sandbox
        self._place = place
        self._grant = grant
        self._guard = guard
        self._record = record
        self._is_code = request.form == "code"
        self._run: Run = yard.observer.begin(
            grant,
            snapshot,
            guard,
            form=request.form,
            wrote=wrote,
            code_characters=len(request.code) if self._is_code else 0,
            background=execution.background,
        )
        self._clock = RunClock()
        self._passage = Passage(guard=guard, pause=self._clock.paused, on_progress=on_progress)
        self._skills: SkillSession = yard.skills.session(execution.principal, snapshot, guard)
        self._policy: IsolationPolicy = yard.policy_of(execution.principal)
        self._verdict = Review(verdict="allow")
        self._look: Look | None = None

    @classmethod
    async def begin(
        cls,
        yard: "Yard",
        execution: Execution,
        wrote: str,
        snapshot: Snapshot,
        sandbox: Sandbox,
        place: Place,
        session: str,
        guard: Guard,
        on_progress: OnProgress | None,
    ) -> "_Running":
        """Write down that it begins."""
        request = execution.request
        grant = Grant(execution_id=execution.id, principal=execution.principal, session=session, tools=snapshot.tools)
        record = await yard.journal.begin(
            grant, guard, request.code, request.context, snapshot, background=execution.background
        )
        return cls(yard, execution, wrote, snapshot, sandbox, place, grant, guard, record, on_progress)

    def turn(self) -> "contextlib.AbstractAsyncContextManager[None]":
        """The turn of its principal, once it is due. Its clock starts then."""
        self._place.on_wait = self._note_wait
        return self._place.turn(self._clock)

    def _note_wait(self, is_waiting: bool) -> None:
        self._execution.is_queued = is_waiting
        self._run.queued(is_waiting)

    async def outcome(self, limits: Limits, on_output: OnOutput | None, *, ready_by: float) -> Outcome:
        """What came of it, with nothing private in it. Code that is not read by `ready_by` is not run, or not longer.

        Waiting for a person does not count.
        """
        yard, code = self._yard, self._execution.request.code
        self._clock.end_by = ready_by
        modules = self._sandbox.packages.modules
        policy = self._policy if limits.wall_seconds is None else self._policy.with_limits(limits)
        try:
            async with asyncio.timeout_at(ready_by):
                self._verdict = await yard.review(code, policy, self._snapshot, modules, self._execution.principal)
                look = await self._take_look(limits)
        except TimeoutError:
            message = f"To read the code took longer than the {policy.wall_seconds:g} s that the run has."
            look = self._look = Look(limits=limits, refusal=limit_failure("wall_time", message))
        refusal = self._verdict.refusal() or look.refusal
        if refusal is None:
            with self._clock.paused():
                refusal = await yard.guidance.ask(look, self._grant, self._record)
        seen = await self._run_code(look, on_output) if refusal is None else self._refused(refusal)
        left = self._left_seconds()
        if not self._is_code:
            return await conceal_outcome(without_cut_values(told(seen), self._guard), self._guard, seconds=left)
        outcome = await conceal_outcome(seen, self._guard, seconds=left)
        return await yard.guidance.explain(outcome, self._record, look, self._run, self._snapshot)

    def _left_seconds(self) -> float:
        """What is left of its time, and a moment: of a run that was stopped everybody is told at once."""
        clock = self._clock
        return max(_TELL_SECONDS, clock.end_by + clock.still_seconds - asyncio.get_running_loop().time())

    async def _take_look(self, limits: Limits) -> Look:
        self._look = Look(limits=limits)
        if self._is_code:
            self._look = await self._yard.guidance.look(
                self._record,
                self._verdict,
                snapshot=self._snapshot,
                policy=self._policy,
                limits=limits,
                is_memory_exact=self._sandbox.resource_control != "rlimits",
            )
            self._run.assessed = self._look.assessed
            await self._warn(self._look)
        return self._look

    async def _warn(self, look: Look) -> None:
        """Tell who listens that the code is likely to fail, before it runs: they may cancel it."""
        tell = self._passage.on_progress
        if look.assessment.risk in ("high", "critical") and look.refusal is None and tell is not None:
            told = tell(0.0, None, f"likely to fail: {look.assessment.text}")
            if told is not None:
                await told

    async def _run_code(self, look: Look, on_output: OnOutput | None) -> Outcome:
        execution, run = self._execution, self._run
        if (listen := on_output or (execution.on_output if execution.background else None)) is not None:
            run.output.listen(listen)
            run.output.open()
        async with run.output:
            await self._yard.publish(self._snapshot)
            outcome = await self._sandbox.run(
                execution.request.code,
                context=execution.request.context,
                limits=look.limits,
                policy=self._policy,
                on_call=Calls(self._yard, self._grant, self._snapshot, self._passage, self._skills, run).answer,
                on_output=run.output.add,
                session=self._grant.session,
                execution_id=execution.id,
                library_version=self._snapshot.stubs_version,
                clock=self._clock,
                place=self._place,
                offload=self._yard.offload,
            )
            run.output.last_seconds = self._left_seconds()
            return outcome

    def _refused(self, failure: Failure) -> Outcome:
        """The outcome of code that was never started."""
        return Outcome(
            execution_id=self._execution.id,
            status="failed",
            failure=failure,
            usage=Usage(wall_seconds=0.0),
            tier="",
            level=str(self._policy.level),
            session=self._grant.session,
        )

    async def result(self, outcome: Outcome) -> Result:
        """What the agent gets of it."""
        session, look = self._grant.session, self._look
        workspace = self._sandbox.find_workspace(session)
        warnings = [
            finding.message
            for finding in self._verdict.findings
            if finding.severity == "warn" and not (outcome.ok and finding.rule == "sleep")  # it was given the time
        ]
        tips = []
        if self._is_code and look is not None:
            tips = await self._yard.guidance.notes(outcome, self._record, look, self._run)
        return await render(
            outcome,
            budget_tokens=self._yard.result_tokens,
            workspace=workspace,
            guard=self._guard,
            notes=(*dict.fromkeys([*self._passage.notes, *self._skills.notes]), *warnings[:_WARNINGS], *tips),
            is_cut=not self._is_code,
        )

    def end(self, status: RecordStatus, outcome: Outcome | None, sent: str) -> None:
        """Write down that it is over. Raises `StoreError`: then it is over too."""
        execution = self._execution
        self._yard.broker.end_run(execution.id)
        try:
            self._run.skills = self._yard.skills.note_uses(self._skills, execution.id, execution.principal, status)
            self._yard.journal.end(self._record, status, outcome)
        finally:
            self._run.end(status, outcome, sent, waited_seconds=self._clock.still_seconds)


def limits_of(request: ExecuteRequest, result_tokens: int) -> Limits:
    """The limits that a request asks for. Raises `InvalidRequest` for one that is wrong."""
    if request.language not in ("python", "python3"):
        raise InvalidRequest(f"language is {request.language!r}. Only 'python' is run here.")
    check_code(request.code)
    if not request.code.strip():
        raise InvalidRequest("The code is empty. Give at least one statement.")
    seconds = request.timeout_seconds
    if seconds is not None and not 1 <= seconds <= MAX_SECONDS:
        raise InvalidRequest(f"timeout_seconds is {seconds:g}. Give 1 to {MAX_SECONDS:g}.")
    return Limits(wall_seconds=seconds, inline_bytes=preview_bytes(result_tokens))


def session_of(principal: str, session: str | None) -> str:
    """The workspace's name in the sandbox. No principal has a `:` in its name, so no two of them can mean the same."""
    if session and len(check_session_name(session)) > _SESSION_CHARACTERS:
        raise InvalidRequest(f"The session's name has {len(session)} characters. Use at most {_SESSION_CHARACTERS}.")
    return f"{principal}:{session or 'default'}"
