"""Runs a skill's example in the sandbox with recorded answers in the place of its tools.

A replay reaches no upstream and no vault: its clock stands where it was recorded, and what the trace does not hold is
refused. A first recording takes its answers from what the principal's runs were answered lately. Only a tool that says
it changes nothing, and that the policy allows, is called for what is missing there.
"""

import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from sealyard.access.guards import Guards
from sealyard.access.runner import Runner
from sealyard.access.tools import Tools
from sealyard.broker import Policy
from sealyard.broker.call import FinishedCall, without_empty
from sealyard.catalog import Snapshot
from sealyard.catalog.arguments import check_arguments
from sealyard.errors import NotRecorded, UnknownTool
from sealyard.observe.recorder import Recorder, Run, RunObserver
from sealyard.observe.results import conceal_outcome
from sealyard.observe.sinks import AuditSink, JournalSink, TraceSink
from sealyard.offload import Offload, decode
from sealyard.privacy import Guard
from sealyard.sandbox import ReplayClock, Sandbox
from sealyard.sandbox.worker import OWN_CALLS
from sealyard.skills.replay import Recordings, Replay, equal, replayed_error
from sealyard.skills.session import Load, SkillSession
from sealyard.store import Store
from sealyard.values import Grant, Limits, Outcome, Skill, SkillExample, ToolSpec, Trace, TraceCall, Usage
from sealyard.versioning import Plan, translate_answer, translate_arguments

_INLINE_BYTES = 1 << 20
_TRACE_BYTES = 32 << 20
_SEED = 1
_PROBLEM_CHARACTERS = 1_000
_SHOWN_CHARACTERS = 300


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """How an example went."""

    example: SkillExample
    """With its trace, its value and whether it passed."""
    outcome: Outcome


class Rehearsals:
    """Runs examples of skills."""

    def __init__(self, *, store: Store, tools: Tools, runner: Runner, guards: Guards, recorder: Recorder) -> None:
        self._store = store
        self._tools = tools
        self._runner = runner
        self._guards = guards
        self._recorder = recorder

    async def replay(
        self, skill: Skill, example: SkillExample, *, principal: str, load: Load, view: Snapshot
    ) -> Rehearsal:
        """Run an example against its trace. Nothing leaves the gateway."""
        trace = example.trace
        if trace is None:
            problem = "It has no recording. Save the skill again with this example after a run that makes its calls."
            return _unrun(skill, msgspec.structs.replace(example, passed=False, problem=problem))
        answers = Replay(trace)
        guard = await self._guards.of(f"{principal}:rehearsal")
        skills = SkillSession(load, view, guard)
        own = _own_calls(skills)

        async def on_call(name: str, arguments: dict[str, Any]) -> Any:
            if (reserved := own.get(name)) is not None:
                return await reserved(arguments)
            tool, _, version = name.partition("@")
            # A skill that calls an older version was recorded so, or translated when another one used it.
            if version and answers.has(tool, arguments):
                return answers.answer(tool, arguments)
            spec, plan = skills.find_plan(name) or (view.find(name), None)
            if plan is not None:
                arguments = translate_arguments(plan, arguments)
            if spec is not None:
                arguments = without_empty(spec, arguments)
                tool = spec.full_name
                check_arguments(spec, arguments)
            answer = answers.answer(tool, arguments)
            return answer if plan is None else translate_answer(plan, answer)

        sandbox = await self._runner.sandbox()
        await self._tools.finder.ready(view)
        async with _workspace(sandbox, principal) as session:
            options = self._options(example.inputs, trace.recorded_at, principal, view, session)
            outcome = await sandbox.run(_code_of(skill), on_call=on_call, **options)
        problem = _problem(outcome, answers.problems)
        if not problem and not equal(example.output, outcome.result):
            problem = f"Its value is {_shown(outcome.result)}; it should be {_shown(example.output)}."
        problem = await guard.door.conceal(problem)  # the code's own words are in it
        return Rehearsal(example=msgspec.structs.replace(example, passed=not problem, problem=problem), outcome=outcome)

    @contextlib.asynccontextmanager
    async def open_recording(
        self, skill: Skill, inputs: dict[str, Any], *, principal: str, load: Load, view: Snapshot, guard: Guard
    ) -> AsyncIterator["Recording"]:
        """The first run of an example, an execution like any other, of which is kept what its tools answered.

        The caller runs `Recording.code` with `Recording.options` in the sandbox, and puts the outcome into it.
        """
        skills = SkillSession(load, view, guard)
        recording = Recording(
            self._recorder.broker.policy,
            self._guards.offload,
            Recordings(await self._store.traces.calls(principal)),
            skills,
            inputs,
            view,
            guard,
        )
        sandbox = await self._runner.sandbox()
        await self._tools.finder.ready(view)
        store = self._store
        opening = self._recorder.open(
            Grant(
                execution_id=secrets.token_hex(8), principal=principal, session=f"{principal}:default", tools=view.tools
            ),
            guard,
            form="rehearsal",
            code=_code_of(skill),
            context={"inputs": inputs},
            catalog_version=view.version,
            sinks=(partial(JournalSink, store), partial(AuditSink, store), partial(TraceSink, store), recording.watch),
            own=_own_calls(skills),
            find=recording.find,
            recorded=recording.recorded,
        )
        async with opening as run, _workspace(sandbox, principal) as session:
            recording.code = _code_of(skill)
            recording.options = self._options(inputs, recording.at, principal, view, session)
            recording.options["on_call"] = partial(self._recorder.broker.call, run.passage)
            yield recording
            run.passage.settle()
            outcome = await conceal_outcome(recording.outcome, guard)
            run.finish(outcome.status, "", outcome)

    def _options(
        self, inputs: dict[str, Any], at: float, principal: str, view: Snapshot, session: str
    ) -> dict[str, Any]:
        """What the sandbox is given beside the code of an example and what answers its calls."""
        return {
            "context": {"inputs": inputs},
            "limits": Limits(inline_bytes=_INLINE_BYTES),
            "policy": self._runner.policy_of(principal),
            "session": session,
            "library_version": view.stubs_version,
            "replay": ReplayClock(at=at, seed=_SEED),
            "offload": self._guards.offload,
        }


class Recording(RunObserver):
    """An example that is run for the first time."""

    code: str
    """What to run."""
    options: dict[str, Any]
    """What the sandbox is given beside it."""
    outcome: Outcome
    """What came of it; set by whoever runs it."""

    def __init__(
        self,
        policy: Policy,
        offload: Offload | None,
        recordings: Recordings,
        skills: SkillSession,
        inputs: dict[str, Any],
        view: Snapshot,
        guard: Guard,
    ) -> None:
        self.at = time.time()
        self._policy = policy
        self._offload = offload
        self._recordings = recordings
        self._skills = skills
        self._inputs = inputs
        self._view = view
        self._guard = guard
        self._principal = ""
        self._calls: list[TraceCall | FinishedCall] = []
        self._problems: list[str] = []
        self._answer_bytes = 0

    def watch(self, run: Run) -> "Recording":
        """The observer of the execution: this."""
        self._principal = run.grant.principal
        return self

    def find(self, name: str, *, is_used: bool = True) -> tuple[ToolSpec, Plan | None]:
        """The tool that the skill means by a name. Raises `UnknownTool`."""
        if (planned := self._skills.find_plan(name, is_used=is_used)) is not None:
            return planned
        spec = self._view.find(name)
        if spec is None:
            raise UnknownTool(f"No tool named {name!r}. Call search_tools to find one that exists.")
        return spec, None

    async def recorded(self, name: str, arguments: dict[str, Any]) -> Any:
        """The answer that a run of the principal's got to this call; None if the tool is to be asked.

        Raises:
            NotRecorded: There is no such answer, and the tool is not asked to try an example.
        """
        spec, plan = self.find(name, is_used=False)
        if plan is not None:
            arguments = translate_arguments(plan, arguments)
        arguments = without_empty(spec, arguments)
        check_arguments(spec, arguments)
        if await self._guard.door.conceal(arguments) != arguments:
            raise self._problem(f"It passes private values to {spec.full_name} that it makes itself. Make them inputs.")
        call = self._recordings.find(spec.full_name, arguments)
        if call is None:
            self._check_live(spec, arguments)
            return None
        if call.missing is not None:
            raise self._problem(f"{spec.full_name} was called, but {call.missing}.")
        self._calls.append(call)
        self.find(name)  # it is used now
        if call.error is not None:
            raise replayed_error(call.error)
        return msgspec.Raw(msgspec.json.encode(call.answer if plan is None else translate_answer(plan, call.answer)))

    def _check_live(self, spec: ToolSpec, arguments: dict[str, Any]) -> None:
        """Raise `NotRecorded` for a tool that is not asked only to try an example."""
        if self._answer_bytes > _TRACE_BYTES:  # all of it is in memory until the example has run
            raise self._problem(f"Its tools answer with more than {_TRACE_BYTES:,} bytes. Take an example with less.")
        decision = self._policy.decide(spec, self._principal, arguments)
        if spec.annotations.read_only is not True or decision.verdict != "allow":
            raise self._problem(
                f"No run of yours has called {spec.full_name} with {_shown(arguments)} lately, and it is not called to"
                " try an example, for it may change something. Run the code once with these inputs, then save it."
            )

    def call_finished(self, call: FinishedCall) -> None:
        """Keep what a tool answered."""
        if call.admitted is None:
            return
        self._answer_bytes += call.answer_bytes
        if call.admitted.answer.files:
            self._problem(f"{call.spec.full_name} answers with files, which are not recorded.")
        elif self._answer_bytes > _TRACE_BYTES:
            self._problem(f"Its tools answer with more than {_TRACE_BYTES:,} bytes. Take an example with less.")
        else:
            self._calls.append(call)

    def _problem(self, text: str) -> NotRecorded:
        self._problems.append(text)
        return NotRecorded(text)

    async def judged(self, expected: Any) -> SkillExample:
        """The example with its trace and whether it passed. `expected` may be `msgspec.UNSET`."""
        outcome, guard = self.outcome, self._guard
        problem = await guard.door.conceal(_problem(outcome, self._problems))  # the code's own words are in it
        output = outcome.result
        if await guard.door.conceal(output) != output:
            problem = problem or "Its value holds private values that it makes itself, so it cannot be kept."
            output = None
        if not problem and expected is not msgspec.UNSET and not equal(expected, output):
            problem = f"Its value is {_shown(output)}; the example says {_shown(expected)}."
        calls = [await self._traced(call) if isinstance(call, FinishedCall) else call for call in self._calls]
        return SkillExample(
            inputs=self._inputs,
            output=output if expected is msgspec.UNSET or not problem else expected,
            trace=Trace(recorded_at=self.at, calls=tuple(calls)),
            passed=not problem,
            problem=problem,
        )

    async def _traced(self, call: FinishedCall) -> TraceCall:
        assert call.admitted is not None
        value, spec = call.admitted.answer.value, call.spec
        if isinstance(value, msgspec.Raw):
            what = f"The answer of {spec.full_name!r}"
            value = await decode(call.admitted.encoded, self._offload, who=self._principal, what=what)
        if not self._guard.is_admitted_concealed(spec):
            value = await self._guard.door.conceal(value)
        return TraceCall(tool=spec.full_name, version=spec.version, arguments=call.written, answer=value)


def _own_calls(skills: SkillSession) -> dict[str, Callable[[dict[str, Any]], Awaitable[Any]]]:
    """What the gateway itself answers in a rehearsal."""
    return {**{name: partial(skills.answer, name) for name in OWN_CALLS}, "search_tools": _refuse_search}


async def _refuse_search(arguments: dict[str, Any]) -> Any:
    raise NotRecorded("A skill that searches for tools cannot be rehearsed: what it finds changes.")


def _code_of(skill: Skill) -> str:
    return f"from skills import {skill.name} as skill\nresult = await skill(**inputs)\n"


@contextlib.asynccontextmanager
async def _workspace(sandbox: Sandbox, principal: str) -> AsyncIterator[str]:
    """The name of a workspace of its own, removed afterwards: files of other runs are no part of an example."""
    session = f"{principal}:rehearsal-{secrets.token_hex(8)}"
    try:
        yield session
    finally:
        if session in sandbox.sessions():
            await sandbox.remove_session(session)


def _problem(outcome: Outcome, problems: list[str]) -> str:
    """Why it did not pass, in a sentence or two; empty if it ran to its end."""
    if problems:
        return problems[0][:_PROBLEM_CHARACTERS]
    failure = outcome.failure
    if failure is None:
        return "Its value is too large for an example." if outcome.spill is not None else ""
    return f"{failure.type}: {failure.message}"[:_PROBLEM_CHARACTERS]


def _unrun(skill: Skill, example: SkillExample) -> Rehearsal:
    outcome = Outcome(execution_id="", status="failed", usage=Usage(wall_seconds=0.0), tier="", level=skill.level)
    return Rehearsal(example=example, outcome=outcome)


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
