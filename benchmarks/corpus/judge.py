"""Judges a migration by running: the old code against the old tool, the new code against the new one.

The code is our own, so it runs in this process; stubs, binding and the rewriting of awaits are the guest's own.
"""

import ast
import asyncio
import importlib.util
import inspect
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from benchmarks.corpus.cases import SKILL, Case
from benchmarks.corpus.changes import ANSWER
from benchmarks.corpus.values import make
from sealyard import sandbox
from sealyard.catalog import Snapshot, check_arguments
from sealyard.catalog.stubs import stub_files
from sealyard.errors import SealyardError, ToolFailed
from sealyard.skills.rehearsal import Replay, equal
from sealyard.values.skills import Trace, TraceCall
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare import unwrapped

_GUEST = Path(sandbox.__file__).with_name("guest")


def _load_guest(name: str) -> Any:
    """A module of the guest, which is not a package of ours: it is shipped into the sandbox file by file."""
    spec = importlib.util.spec_from_file_location(f"sealyard_benchmark_{name}", _GUEST / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tools, transform = _load_guest("tools"), _load_guest("transform")

Outcome = Literal["migrated_correctly", "migrated_wrongly", "refused_rightly", "refused_wrongly"]
Answer = Callable[[str, dict[str, Any]], Any]


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a migration of one case."""

    code: str | None
    """`None`: refused."""
    reason: str = ""
    expected: Trace | None = None
    """The recording as the migration believes that it would be now; accepted is only what it satisfies."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """The result of running code."""

    value: Any = None
    calls: tuple[TraceCall, ...] = ()
    error: str = ""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The worth of an attempt."""

    outcome: Outcome
    before_replay: Outcome
    """Its worth if nothing were replayed."""
    is_demanded: bool
    why: str = ""


class Stage:
    """Runs code against fake tools. One at a time: what is importable is the same for the whole process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def record(self, case: Case, inputs: Mapping[str, Any] | None = None) -> Ran:
        """Run the old code with the old tool."""
        specs = [case.mutation.before, case.other]
        given = case.inputs if inputs is None else inputs
        return self.run(case, case.code, given, specs, lambda tool, asked: old_answer(specs, tool, asked))

    def judge(self, case: Case, recorded: Ran, attempt: Attempt) -> Judged:
        """Compare what a migration made of `case` with what is known of it."""
        truth = _truth(case, recorded)
        is_demanded = case.is_demanded and truth is not None
        refused: Outcome = "refused_wrongly" if is_demanded else "refused_rightly"
        if attempt.code is None:
            if not attempt.reason:
                refused = "refused_wrongly"  # a person could do nothing with it
            return Judged(outcome=refused, before_replay=refused, is_demanded=is_demanded, why=attempt.reason)
        why = "there is no such call any more"
        if truth is not None:
            why = self._differs(case, attempt.code, case.inputs, recorded, truth) or self._differs_held_out(
                case, attempt.code
            )
        worth: Outcome = "migrated_wrongly" if why else "migrated_correctly"
        if attempt.expected is not None:
            doubt = self._differs(case, attempt.code, case.inputs, recorded, attempt.expected)
            if doubt:
                return Judged(outcome=refused, before_replay=worth, is_demanded=is_demanded, why=f"replay: {doubt}")
        return Judged(outcome=worth, before_replay=worth, is_demanded=is_demanded, why=why)

    def _differs_held_out(self, case: Case, code: str) -> str:
        """The difference of new code with inputs that no example has; empty if there is none."""
        for inputs in case.held_out:
            recorded = self.record(case, inputs)
            truth = _truth(case, recorded)
            if truth is not None and not recorded.error:
                why = self._differs(case, code, inputs, recorded, truth)
                if why:
                    return f"with {_text(inputs)}: {why}"
        return ""

    def _differs(self, case: Case, code: str, inputs: Mapping[str, Any], recorded: Ran, expected: Trace) -> str:
        """The difference between new code and the old one; empty if it does the same."""
        after = case.mutation.after
        specs = [case.other] if after is None else [after, case.other]
        ran = self.run(case, code, inputs, specs, Replay(expected).answer)
        if ran.error:
            return ran.error
        if [(call.tool, _text(call.arguments)) for call in ran.calls] != [
            (call.tool, _text(call.arguments)) for call in expected.calls
        ]:
            return f"its calls are {[call.arguments for call in ran.calls]}"
        return "" if equal(recorded.value, ran.value) else f"its value is {_text(ran.value)[:200]}"

    def run(self, case: Case, code: str, inputs: Mapping[str, Any], specs: Sequence[ToolSpec], answer: Answer) -> Ran:
        """Run code as the guest does, with these tools."""
        calls: list[TraceCall] = []
        by_name = {spec.full_name: spec for spec in specs}

        def call(tool: str, given: dict[str, Any] | None = None) -> Any:
            spec = by_name.get(tool)
            if spec is None:
                raise ToolFailed(f"No tool named {tool!r}.")
            arguments = check_arguments(spec, msgspec.json.decode(msgspec.json.encode(given or {})))
            value = answer(tool, arguments)
            calls.append(TraceCall(tool=tool, version=spec.version, arguments=arguments, answer=value))
            return msgspec.json.decode(msgspec.json.encode(value))  # code may change what it is given

        try:
            with _connected(self._stubs(specs), call) as names:
                value = _value(code, case, inputs, names)
            return Ran(value=msgspec.json.decode(msgspec.json.encode(value)), calls=tuple(calls))
        except Exception as error:  # noqa: BLE001 - whatever wrong code raises is what it came to
            return Ran(calls=tuple(calls), error=f"{type(error).__name__}: {error}")

    def _stubs(self, specs: Sequence[ToolSpec]) -> Path:
        """A folder with the stubs of these tools; the same tools have the same folder."""
        by_upstream: dict[str, list[ToolSpec]] = {}
        for spec in specs:
            by_upstream.setdefault(spec.upstream, []).append(spec)
        snapshot = Snapshot(by_upstream)
        folder = self._folder / snapshot.version
        if not folder.exists():
            for path, text in stub_files(snapshot).items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text, encoding="utf-8")
        return folder


def old_answer(specs: Sequence[ToolSpec], tool: str, arguments: dict[str, Any]) -> Any:
    """The answer of a tool to these arguments: always the same, and to others something else."""
    spec = next(spec for spec in specs if spec.full_name == tool)
    schema = ANSWER if spec.output_schema is None else spec.output_schema
    chance = random.Random(f"{tool} {_text(arguments)}")  # noqa: S311 - sample data
    return make(unwrapped(schema), schema, chance, whole=True)


def _truth(case: Case, recorded: Ran) -> Trace | None:
    """The calls that the code must make now, with their answers; `None` if one of them cannot be made."""
    calls, mutation = [], case.mutation
    for call in recorded.calls:
        if call.tool != mutation.before.full_name:
            calls.append(call)
            continue
        arguments = mutation.arguments(call.arguments)
        if arguments is None or mutation.after is None:
            return None
        answer = mutation.answer(call.answer)
        calls.append(TraceCall(tool=mutation.after.full_name, version="2.0.0", arguments=arguments, answer=answer))
    return Trace(recorded_at=0.0, calls=tuple(calls))


@contextmanager
def _connected(stubs: Path, call: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """The names that the guest gives to code, with `servers` importable."""

    def call_tool(name: str, arguments: dict[str, Any] | None = None) -> Any:
        return call(name, arguments)

    async def call_later(name: str, arguments: dict[str, Any] | None = None) -> Any:
        return call(name, arguments)

    call_tool.__sealyard_async__ = call_later  # type: ignore[attr-defined]
    finders = sys.meta_path[:]
    tools.connect(str(stubs), (call, call_later))
    try:
        yield {"__name__": "skill", "call_tool": call_tool, "ToolError": SealyardError, **transform.names()}
    finally:
        sys.meta_path[:] = finders
        for name in [name for name in sys.modules if name.partition(".")[0] in ("servers", "sealyard_guest")]:
            del sys.modules[name]


def _value(code: str, case: Case, inputs: Mapping[str, Any], names: dict[str, Any]) -> Any:
    tree = transform.prepare(ast.parse(code), asynchronous=True)
    if case.form == "script":
        names |= inputs
    exec(compile(tree, "<skill>", "exec", dont_inherit=True), names)  # noqa: S102 - our own code
    if case.form == "script":
        return names.get("result", names.get(transform.LAST))
    value = names[SKILL](**inputs)
    return asyncio.run(value) if inspect.iscoroutine(value) else value


def _text(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
