"""Runs of a skill's examples in the sandbox, with recorded answers in place of its tools.

A replay reaches no upstream and no vault: its clock stands at the time of the recording, and a call that the trace does
not hold is refused with what it does hold. A first recording takes its answers from recent runs of the principal. Only
a tool that declares itself read-only, and that the policy allows, is called for an answer that is missing there.
"""

import contextlib
import difflib
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from sealyard import errors
from sealyard.access import Guards, Runner, Tools
from sealyard.broker import FinishedCall
from sealyard.broker.policy import Policy
from sealyard.catalog import Snapshot, check_arguments
from sealyard.errors import NotRecorded, SealyardError, ToolFailed, UnknownTool
from sealyard.former import FORMER_ERROR
from sealyard.observe import Recorder, RunObserver
from sealyard.offload import Offload, decode
from sealyard.privacy import Guard
from sealyard.sandbox import ReplayClock, Sandbox
from sealyard.skills.loader import Load, SkillSession
from sealyard.store import Store
from sealyard.values.access import Grant
from sealyard.values.documents import MOST_DEPTH, is_too_deep
from sealyard.values.runs import OWN_CALLS, CallRecord, Limits, Outcome, Usage
from sealyard.values.skills import Rehearsal, Skill, SkillExample, Trace, TraceCall
from sealyard.values.tools import ToolSpec
from sealyard.versioning import Plan, translate_answer, translate_arguments

_SHOWN_CHARACTERS = 300  # of arguments and values in a message
_TOLERANCE = 1e-9  # relative difference of numbers that count as equal: their last digits depend on the machine
_CUT = "its answer of {:,} bytes was too large to be recorded"
_FILES = "its answer came with files, which are not recorded"
_FAILURES = {
    name: kind
    for name in errors.__all__
    if isinstance(kind := getattr(errors, name), type) and issubclass(kind, SealyardError)
}
_FAILURES[FORMER_ERROR] = SealyardError
_INLINE_BYTES = 1 << 20  # of a result that the sandbox returns inline
_TRACE_BYTES = 32 << 20  # all answers of one example: they are in memory until it has run
_SEED = 1  # the same in each run: a replay has to repeat the recording
_PROBLEM_CHARACTERS = 1_000  # of the reason why an example failed


# Recorded answers


class Replay:
    """Answers calls from one trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.problems: list[str] = []
        """Calls that the trace does not hold."""
        self._answers: defaultdict[tuple[str, bytes], list[TraceCall]] = defaultdict(list)
        for call in trace.calls:
            self._answers[_key(call.tool, call.arguments)].append(call)
        self._given: defaultdict[tuple[str, bytes], int] = defaultdict(int)

    def answer(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Return the recorded answer to a call. Calls beyond the recorded ones get the last answer again.

        Raises:
            NotRecorded: The trace has no such call.
            SealyardError: The call failed when it was recorded; this is that error.
        """
        key = _key(tool, arguments)
        found = self._answers.get(key)
        if not found:
            raise self._missing(f"{tool} with {_shown(arguments)} is not in the recording. {self._nearest(tool)}")
        call = found[min(self._given[key], len(found) - 1)]
        self._given[key] += 1
        if call.missing is not None:
            raise self._missing(f"{tool} with {_shown(arguments)} was called, but {call.missing}.")
        if call.error is not None:
            raise replayed_error(call.error)
        return call.answer

    def has(self, tool: str, arguments: dict[str, Any]) -> bool:
        """True if the trace holds this call."""
        return _key(tool, arguments) in self._answers

    def _missing(self, problem: str) -> NotRecorded:
        self.problems.append(problem)
        return NotRecorded(problem)

    def _nearest(self, tool: str) -> str:
        """A sentence about the nearest recorded calls."""
        same = [call for call in self.trace.calls if call.tool == tool]
        if same:
            return f"It holds {tool} with {_shown(same[0].arguments)}" + (
                f" and {len(same) - 1} more." if len(same) > 1 else "."
            )
        tools = sorted({call.tool for call in self.trace.calls})
        near = difflib.get_close_matches(tool, tools, n=3) or tools[:3]
        return f"It holds calls of {', '.join(near)}." if near else "It holds no call at all."


class Recordings:
    """The calls of several executions, the newest first: a source of answers for a first recording."""

    def __init__(self, calls: Iterable[CallRecord]) -> None:
        by_execution: dict[str, dict[tuple[str, bytes], list[CallRecord]]] = {}
        for call in calls:
            if isinstance(call.arguments, dict):
                runs = by_execution.setdefault(call.execution_id, {})
                runs.setdefault(_key(call.tool, call.arguments), []).append(call)
        self._executions: Sequence[dict[tuple[str, bytes], list[CallRecord]]] = list(by_execution.values())
        self._given: defaultdict[tuple[str, bytes], int] = defaultdict(int)

    def find(self, tool: str, arguments: dict[str, Any]) -> TraceCall | None:
        """The answer that the newest execution with this call got; None if no execution made it.

        The next request for the same call gets that execution's next answer.
        """
        key = _key(tool, arguments)
        found = next((run[key] for run in self._executions if key in run), None)
        if found is None:
            return None
        call = found[min(self._given[key], len(found) - 1)]
        self._given[key] += 1
        missing = None
        if call.error is None and call.answer is None and call.answer_bytes > len("null"):
            missing = _CUT.format(call.answer_bytes)
        elif _has_files(call.answer):
            missing = _FILES
        return TraceCall(
            tool=call.tool,
            version=call.version,
            arguments=arguments,
            answer=None if missing else call.answer,
            error=call.error,
            missing=missing,
        )


def replayed_error(recorded: str) -> SealyardError:
    """Rebuild an error that was recorded as `Type: message`."""
    name, _, message = recorded.partition(": ")
    return _FAILURES.get(name, ToolFailed)(message or recorded)


def equal(expected: Any, value: Any) -> bool:
    """True if two JSON values are equal, apart from the last digits of numbers."""
    if isinstance(expected, bool) or isinstance(value, bool):
        return expected is value
    if isinstance(expected, int | float) and isinstance(value, int | float):
        return expected == value or abs(expected - value) <= _TOLERANCE * max(abs(expected), abs(value))
    if isinstance(expected, dict) and isinstance(value, dict):
        return expected.keys() == value.keys() and all(equal(expected[key], value[key]) for key in expected)
    if isinstance(expected, list) and isinstance(value, list):
        return len(expected) == len(value) and all(map(equal, expected, value))
    return bool(expected == value)


def _key(tool: str, arguments: dict[str, Any]) -> tuple[str, bytes]:
    return tool, msgspec.json.encode(arguments, order="sorted")


def _has_files(answer: Any) -> bool:
    waiting = [answer]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if isinstance(each.get("file"), str) and each.keys() >= {"mime_type", "bytes"}:
                return True
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return False


# Runs


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
            outcome = Outcome(
                execution_id="", status="failed", usage=Usage(wall_seconds=0.0), tier="", level=skill.level
            )
            return Rehearsal(example=msgspec.structs.replace(example, passed=False, problem=problem), outcome=outcome)
        answers = Replay(trace)
        guard = await self._guards.of(f"{principal}:rehearsal")
        skills = SkillSession(load, view, guard)
        own = _own_calls(skills)

        async def on_call(name: str, arguments: dict[str, Any]) -> Any:
            if (reserved := own.get(name)) is not None:
                return await reserved(arguments)
            tool, _, version = name.partition("@")
            # An older version that the skill calls was recorded under that version, or translated for another skill.
            if version and answers.has(tool, arguments):
                return answers.answer(tool, arguments)
            spec, plan = skills.find_plan(name) or (view.find(name), None)
            if plan is not None:
                arguments = translate_arguments(plan, arguments)
            if spec is not None:
                arguments = spec.without_empty(arguments)
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
        problem = await guard.door.conceal(problem)  # it quotes the code
        return Rehearsal(example=msgspec.structs.replace(example, passed=not problem, problem=problem), outcome=outcome)

    @contextlib.asynccontextmanager
    async def open_recording(
        self, skill: Skill, inputs: dict[str, Any], *, principal: str, load: Load, view: Snapshot, guard: Guard
    ) -> AsyncIterator["Recording"]:
        """Open the first run of an example: an execution like any other, whose tool answers are kept.

        The caller runs `Recording.code` with `Recording.options` in the sandbox and sets `Recording.outcome`.
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
            principal,
        )
        sandbox = await self._runner.sandbox()
        await self._tools.finder.ready(view)
        opening = self._recorder.open(
            Grant(
                execution_id=secrets.token_hex(8),
                principal=principal,
                session=self._runner.session_of(principal),
                tools=view.tools,
            ),
            guard,
            form="rehearsal",
            code=_code_of(skill),
            context={"inputs": inputs},
            catalog_version=view.version,
            sinks=[lambda _: recording],
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
            outcome = await run.conceal(recording.outcome)
            run.finish(outcome.status, "", outcome)

    def _options(
        self, inputs: dict[str, Any], at: float, principal: str, view: Snapshot, session: str
    ) -> dict[str, Any]:
        """Options for the sandbox, beside the code and the handler of its calls."""
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
    """An example that runs for the first time."""

    code: str
    """The code to run."""
    options: dict[str, Any]
    """Options for the sandbox."""
    outcome: Outcome
    """The outcome; the caller sets it."""

    def __init__(
        self,
        policy: Policy,
        offload: Offload | None,
        recordings: Recordings,
        skills: SkillSession,
        inputs: dict[str, Any],
        view: Snapshot,
        guard: Guard,
        principal: str,
    ) -> None:
        self.at = time.time()
        self._policy = policy
        self._offload = offload
        self._recordings = recordings
        self._skills = skills
        self._inputs = inputs
        self._view = view
        self._guard = guard
        self._principal = principal
        self._calls: list[TraceCall | FinishedCall] = []
        self._problems: list[str] = []
        self._answer_bytes = 0

    def find(self, name: str, *, is_used: bool = True) -> tuple[ToolSpec, Plan | None]:
        """Find the tool that the skill means by a name. Raises `UnknownTool`."""
        if (planned := self._skills.find_plan(name, is_used=is_used)) is not None:
            return planned
        spec = self._view.find(name)
        if spec is None:
            raise UnknownTool(f"No tool named {name!r}. Call search_tools to find one that exists.")
        return spec, None

    async def recorded(self, name: str, arguments: dict[str, Any]) -> Any:
        """The recorded answer to this call of the principal; None if the tool is to be called.

        Raises:
            NotRecorded: There is no such answer, and the tool may not be called for an example.
        """
        spec, plan = self.find(name, is_used=False)
        if plan is not None:
            arguments = translate_arguments(plan, arguments)
        arguments = spec.without_empty(arguments)
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
        self.find(name)  # counts as used from here
        if call.error is not None:
            raise replayed_error(call.error)
        return msgspec.Raw(msgspec.json.encode(call.answer if plan is None else translate_answer(plan, call.answer)))

    def _check_live(self, spec: ToolSpec, arguments: dict[str, Any]) -> None:
        """Raise `NotRecorded` for a tool that may not be called only to try an example."""
        if self._answer_bytes > _TRACE_BYTES:  # all of it stays in memory until the example has run
            raise self._problem(f"Its tools answer with more than {_TRACE_BYTES:,} bytes. Take an example with less.")
        decision = self._policy.decide(spec, self._principal, arguments)
        if spec.annotations.read_only is not True or decision.verdict != "allow":
            raise self._problem(
                f"No run of yours has called {spec.full_name} with {_shown(arguments)} lately, and it is not called to"
                " try an example, for it may change something. Run the code once with these inputs, then save it."
            )

    def call_finished(self, call: FinishedCall) -> None:
        """Keep the answer of a tool."""
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
        """The example with its trace and its verdict. `expected` may be `msgspec.UNSET`."""
        outcome, guard = self.outcome, self._guard
        problem = await guard.door.conceal(_problem(outcome, self._problems))  # it quotes the code
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
    """Calls that the gateway itself answers in a rehearsal."""
    return {**{name: partial(skills.answer, name) for name in OWN_CALLS}, "search_tools": _refuse_search}


async def _refuse_search(arguments: dict[str, Any]) -> Any:
    raise NotRecorded("A skill that searches for tools cannot be rehearsed: what it finds changes.")


def _code_of(skill: Skill) -> str:
    return f"from skills import {skill.name} as skill\nresult = await skill(**inputs)\n"


@contextlib.asynccontextmanager
async def _workspace(sandbox: Sandbox, principal: str) -> AsyncIterator[str]:
    """A workspace of its own, removed afterwards: files of other runs are not part of an example."""
    session = f"{principal}:rehearsal-{secrets.token_hex(8)}"
    try:
        yield session
    finally:
        if session in sandbox.sessions():
            await sandbox.remove_session(session)


def _problem(outcome: Outcome, problems: list[str]) -> str:
    """The reason why an example failed, in a sentence or two; empty if it ran to its end."""
    if problems:
        return problems[0][:_PROBLEM_CHARACTERS]
    failure = outcome.failure
    if failure is None and is_too_deep(outcome.result):
        return f"Its value is nested more than {MOST_DEPTH} levels deep, too deeply for an example."
    if failure is None:
        return "Its value is too large for an example." if outcome.spill is not None else ""
    return f"{failure.type}: {failure.message}"[:_PROBLEM_CHARACTERS]


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
