"""Runs a skill's example in the sandbox with recorded answers in the place of its tools.

A replay reaches no upstream and no vault: its clock stands where it was recorded, and what the trace does not hold is
refused. A first recording takes its answers from what the principal's runs were answered lately. Only a tool that says
it changes nothing, and that the policy allows, is called for what is missing there.
"""

import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from sealyard.broker.call import Passage, without_empty
from sealyard.catalog import Snapshot
from sealyard.catalog.arguments import check_arguments
from sealyard.errors import NotRecorded, UnknownTool
from sealyard.offload import decode
from sealyard.privacy.guard import Guard
from sealyard.sandbox import ReplayClock
from sealyard.sandbox.worker import OWN_CALLS
from sealyard.skills.replay import Recordings, Replay, equal, replayed_error
from sealyard.values import Grant, Limits, Outcome, RecordStatus, Skill, SkillExample, ToolSpec, Trace, TraceCall, Usage
from sealyard.versioning.plan import translate_answer, translate_arguments
from sealyard.yard.results import conceal_outcome
from sealyard.yard.skill_session import Load, SkillSession

if TYPE_CHECKING:
    from sealyard.yard.yard import Yard

__all__ = ("Rehearsal", "record", "replay")

_INLINE_BYTES = 1 << 20
_TRACE_BYTES = 32 << 20
_SEED = 1
_PROBLEM_CHARACTERS = 1_000
_SHOWN_CHARACTERS = 300

_Source = Callable[[str, dict[str, Any]], Awaitable[TraceCall]]
"""The recorded call for a tool's name and its arguments."""


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """How an example went."""

    example: SkillExample
    """With its trace, its value and whether it passed."""
    outcome: Outcome


async def replay(
    yard: "Yard", skill: Skill, example: SkillExample, *, principal: str, load: Load, view: Snapshot
) -> Rehearsal:
    """Run an example against its trace. Nothing leaves the gateway."""
    trace = example.trace
    if trace is None:
        problem = "It has no recording. Save the skill again with this example after a run that makes its calls."
        return _unrun(skill, msgspec.structs.replace(example, passed=False, problem=problem))
    answers = Replay(trace)
    guard = await yard.guards.of(f"{principal}:rehearsal")

    async def source(name: str, arguments: dict[str, Any]) -> TraceCall:
        spec = view.find(name)
        if spec is not None:
            arguments = without_empty(spec, arguments)
            name = spec.full_name
            check_arguments(spec, arguments)
        return answers.take(name, arguments)

    outcome = await _run(
        yard, skill, example.inputs, source, trace.recorded_at, principal, load, view, guard, known=answers
    )
    problem = _problem(outcome, answers.problems)
    if not problem and not equal(example.output, outcome.result):
        problem = f"Its value is {_shown(outcome.result)}; it should be {_shown(example.output)}."
    problem = await guard.door.conceal(problem)  # the code's own words are in it
    return Rehearsal(example=msgspec.structs.replace(example, passed=not problem, problem=problem), outcome=outcome)


async def record(
    yard: "Yard",
    skill: Skill,
    inputs: dict[str, Any],
    expected: Any,
    *,
    principal: str,
    load: Load,
    view: Snapshot,
    guard: Guard,
) -> Rehearsal:
    """Run an example for the first time and keep what its tools answered. `expected` may be `msgspec.UNSET`."""
    at = time.time()
    recordings = Recordings(await yard.store.traces.calls(principal))
    grant = Grant(
        execution_id=secrets.token_hex(8), principal=principal, session=f"{principal}:default", tools=view.tools
    )
    passage = Passage(guard=guard)
    calls: list[TraceCall] = []
    problems: list[str] = []
    number = size_bytes = 0

    async def source(name: str, arguments: dict[str, Any]) -> TraceCall:
        nonlocal number, size_bytes
        number += 1
        spec = view.find(name)
        if spec is None:
            raise UnknownTool(f"No tool named {name!r}. Call search_tools to find one that exists.")
        arguments = without_empty(spec, arguments)
        check_arguments(spec, arguments)
        if await guard.door.conceal(arguments) != arguments:
            problems.append(f"It passes private values to {spec.full_name} that it makes itself. Make them inputs.")
            raise NotRecorded(problems[-1])
        call = recordings.find(spec.full_name, arguments)
        if call is None:
            call, answer_bytes = await _call_live(yard, spec, arguments, grant, passage, number, problems)
            size_bytes += answer_bytes
            if size_bytes > _TRACE_BYTES:  # all of it is in memory until the example has run
                problems.append(f"Its tools answer with more than {_TRACE_BYTES:,} bytes. Take an example with less.")
                raise NotRecorded(problems[-1])
        elif call.missing is not None:
            problems.append(f"{spec.full_name} was called, but {call.missing}.")
            raise NotRecorded(problems[-1])
        calls.append(call)
        return call

    outcome = await _run(yard, skill, inputs, source, at, principal, load, view, guard, grant=grant)
    problem = await guard.door.conceal(_problem(outcome, problems))  # the code's own words are in it
    output = outcome.result
    if await guard.door.conceal(output) != output:
        problem = problem or "Its value holds private values that it makes itself, so it cannot be kept."
        output = None
    if not problem and expected is not msgspec.UNSET and not equal(expected, output):
        problem = f"Its value is {_shown(output)}; the example says {_shown(expected)}."
    example = SkillExample(
        inputs=inputs,
        output=output if expected is msgspec.UNSET or not problem else expected,
        trace=Trace(recorded_at=at, calls=tuple(calls)),
        passed=not problem,
        problem=problem,
    )
    return Rehearsal(example=example, outcome=outcome)


async def _call_live(
    yard: "Yard",
    spec: ToolSpec,
    arguments: dict[str, Any],
    grant: Grant,
    passage: Passage,
    number: int,
    problems: list[str],
) -> tuple[TraceCall, int]:
    """Ask a tool that changes nothing; any other one must have been called by a run of the principal's.

    Returns the call and the bytes of its answer.
    """
    if spec.annotations.read_only is not True or yard.rules.decide(spec, grant.principal, arguments).verdict != "allow":
        problems.append(
            f"No run of yours has called {spec.full_name} with {_shown(arguments)} lately, and it is not called to try"
            " an example, for it may change something. Run the code once with these inputs, then save it."
        )
        raise NotRecorded(problems[-1])
    await yard.store.room()
    answer, encoded = await yard.broker.call(grant, spec, arguments, number=number, passage=passage)
    if answer.files:
        problems.append(f"{spec.full_name} answers with files, which are not recorded.")
        raise NotRecorded(problems[-1])
    value = answer.value
    if isinstance(value, msgspec.Raw):
        value = await decode(encoded, yard.offload, who=grant.principal, what=f"The answer of {spec.full_name!r}")
    concealed = value if passage.guard.is_admitted_concealed(spec) else await passage.guard.door.conceal(value)
    return TraceCall(tool=spec.full_name, version=spec.version, arguments=arguments, answer=concealed), len(encoded)


async def _run(
    yard: "Yard",
    skill: Skill,
    inputs: dict[str, Any],
    source: _Source,
    at: float,
    principal: str,
    load: Load,
    view: Snapshot,
    guard: Guard,
    *,
    known: Replay | None = None,
    grant: Grant | None = None,
) -> Outcome:
    """The outcome of calling the skill once. With a grant it is an execution like any other, in the journal too."""
    skills = SkillSession(load, view, guard)

    async def on_call(name: str, arguments: dict[str, Any]) -> Any:
        if name in OWN_CALLS:
            return await skills.answer(name, arguments)
        if name == "search_tools":
            raise NotRecorded("A skill that searches for tools cannot be rehearsed: what it finds changes.")
        tool, _, version = name.partition("@")
        # A skill that calls an older version was recorded so, or translated when another one used it.
        if version and (known is None or not known.has(tool, arguments)):
            spec, plan = skills.find_plan(name) or (None, None)
            assert spec is not None
            assert plan is not None
            call = await source(spec.full_name, translate_arguments(plan, arguments))
            if call.error is None:
                return translate_answer(plan, call.answer)
        else:
            call = known.take(tool, arguments) if version and known is not None else await source(tool, arguments)
        if call.error is not None:
            raise replayed_error(call.error)
        return call.answer

    sandbox = await yard.sandbox()
    session = f"{principal}:rehearsal-{secrets.token_hex(8)}"  # of its own: files of other runs are no part of it
    code = f"from skills import {skill.name} as skill\nresult = await skill(**inputs)\n"
    record = None if grant is None else await yard.journal.begin(grant, guard, code, {"inputs": inputs}, view)
    status: RecordStatus = "cancelled"
    concealed: Outcome | None = None
    try:
        await yard.finder.ready(view)
        outcome = await sandbox.run(
            code,
            context={"inputs": inputs},
            limits=Limits(inline_bytes=_INLINE_BYTES),
            policy=yard.policy_of(principal),
            on_call=on_call,
            session=session,
            library_version=view.stubs_version,
            replay=ReplayClock(at=at, seed=_SEED),
            offload=yard.offload,
        )
        concealed = await conceal_outcome(outcome, guard)
        status = outcome.status
    except Exception:
        status = "broken"
        raise
    finally:
        if record is not None:
            yard.broker.end_run(record.execution_id)
            yard.journal.end(record, status, concealed)
        if session in sandbox.sessions():
            await sandbox.remove_session(session)
    return outcome


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
