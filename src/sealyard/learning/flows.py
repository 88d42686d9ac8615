"""Argument flow: fields of one tool's answer that become parameters of a later call, and code that does it.

A flow is recognised by equal values that are unlikely to be equal by chance. A value that the code or an earlier call
already had does not come from an answer. Only names of tools, fields and parameters leave this module; values do not.
"""

import ast
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from sealyard.catalog.stubs import Parameter, parameters
from sealyard.code import read
from sealyard.learning.code import names_of
from sealyard.learning.disclosure import UNPLACED, WORDS, agree, is_callable, is_field, is_nameable, joined, steps
from sealyard.values.facts import CallEvidence, RunEvidence
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare import major_of

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_CALLS = 100  # calls of a run that are read: a bound
_FLOWS = 24  # flows of a run: a bound
_VISITS = 8_000  # values of one answer that are walked: a bound
_ALL_VISITS = 40_000  # values of all answers of a run: a bound
_DEPTH = 8  # levels of an answer: a bound
_KEYS = 64  # keys of an object; one with more is a mapping, and its keys are data
_ITEMS = 1_000  # items of a list: a bound
_PLACES = 4  # fields in which one value is remembered: a bound
_PARAMETERS = 40  # parameters of a call: a bound
_LISTED = 200  # items of a parameter that is a list: a bound
_NODES = 20_000  # nodes of the code that are walked: a bound
_FIELD_CHARACTERS = 120  # characters of the way to a field: a bound
_PARAMETER_CHARACTERS = 64  # characters of a parameter's name: a bound
# Values that are hardly equal by chance, unless the names agree.
_LEAST_NUMBER = 1_000  # smaller whole numbers are counts
_ROUND = 100  # multiples of it are limits and amounts
_FRACTION_CHARACTERS = 5  # shorter fractions are common
_ID_CHARACTERS = 3  # least length of a text with digits and letters
_WORD_CHARACTERS = 6  # least length of a text without digits
_CHARACTERS = 600  # of a fragment of code; longer ones are left out
_LOOPS = 2  # nested loops of a fragment

# Reading the flows of a run

_YEARS = range(1_900, 2_101)
_DAY = re.compile(r"\d{4}-\d{2}(-\d{2})?")
_IDS = re.compile(r"(?i:(^|_|-)(ids?|keys?|numbers?|no|uuid|cursor|token)$)|[a-z](Ids?|Keys?)$")
_COMMON = WORDS["common_values"]


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """A field of one tool's answer became a parameter of another, or of the same tool's next call."""

    source: str
    source_major: int
    field: str
    """As `fields` has it, or `UNPLACED` and its name."""
    target: str
    target_major: int
    parameter: str
    """The schema's own name; with `[]` if the value was an item of a list."""


def prepare_flows(run: RunEvidence) -> tuple[Flow, ...]:
    """The flows of a run, at most 24. The cost is bounded, whatever the answers are."""
    if len(run.calls) < 2:
        return ()
    return _Reading(run).flows()


class _Reading:
    """One walk through a run's calls, in their order."""

    def __init__(self, run: RunEvidence) -> None:
        self._calls = run.calls[:_CALLS]
        self._visits = _ALL_VISITS
        self._written, self._read = _words_of(run.code)
        self._first: dict[str | float, list[tuple[int, str]]] = {}
        """The call and fields whose answer first had each value; empty if an argument had it first."""
        self._found: dict[tuple[str, str], Counter[tuple[str, int, str]]] = defaultdict(Counter)
        """By target and parameter: the number of values that came from each field of a tool."""
        self._asked: Counter[tuple[str, str]] = Counter()
        """The number of different values that a target was given for a parameter."""
        self._majors: dict[str, int] = {}
        self._silent: dict[str, int] = {}
        """Tools whose answers were too large for the journal, with their major versions."""
        self._seen: set[tuple[str, str, str | float]] = set()
        self._named: dict[object, bool] = {}
        """Cached results of `is_field`, because rows share their keys."""

    def flows(self) -> tuple[Flow, ...]:
        for number, call in enumerate(self._calls):
            arguments = call.arguments if isinstance(call.arguments, dict) else {}
            if call.error is None:
                self._majors[call.tool] = major_of(call.version)
                for parameter, value in _given(arguments):
                    self._trace(call, parameter, value)
            for value, _ in self._values(arguments):
                self._first.setdefault(value, [])
            if call.has_answer and call.error is None:
                self._note(number, call.answer)
            elif call.error is None:
                self._silent[call.tool] = major_of(call.version)
        return tuple(itertools.islice(self._decide(), _FLOWS))

    def _trace(self, call: CallEvidence, parameter: str, value: str | float) -> None:
        """Find where the value of a parameter came from."""
        key = (call.tool, parameter)
        if (*key, value) in self._seen or value in self._written:
            return
        self._seen.add((*key, value))
        self._asked[key] += 1
        places = self._first.get(value)
        if places is None:
            self._trace_silent(key, value)
            return
        for number, field in places:
            if _is_distinctive(value, field, parameter):
                source = self._calls[number]
                self._found[key][source.tool, major_of(source.version), field] += 1

    def _trace_silent(self, key: tuple[str, str], value: str | float) -> None:
        """Take the field from the code if no stored answer has the value and just one answer is missing."""
        if len(self._silent) != 1:
            return
        ((source, major),) = self._silent.items()
        for name in sorted(self._read, key=lambda name: (name != key[1], name)):
            if agree(name, key[1]) and _is_distinctive(value, name, key[1]):
                self._found[key][source, major, UNPLACED + name] += 1
                return

    def _note(self, number: int, answer: Any) -> None:
        for value, field in self._values(answer):
            places = self._first.setdefault(value, [(number, field)])
            if places and places[0][0] == number and len(places) < _PLACES and (number, field) not in places:
                places.append((number, field))

    def _values(self, value: Any) -> Iterator[tuple[str | int | float, str]]:
        """The values of an answer with their fields, without recursion and up to a bound."""
        waiting = [(value, "", 0)]
        for _ in range(min(_VISITS, self._visits)):
            if not waiting:
                break
            self._visits -= 1
            value, field, depth = waiting.pop()
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                yield value, field
            elif depth < _DEPTH and len(field) <= _FIELD_CHARACTERS:
                inside = [(inner, place, depth + 1) for inner, place in self._inside(value, field)]
                waiting.extend(reversed(inside))

    def _inside(self, value: Any, field: str) -> Iterator[tuple[Any, str]]:
        if isinstance(value, list):
            yield from ((item, f"{field}[]") for item in value[:_ITEMS])
        elif isinstance(value, dict) and len(value) <= _KEYS:  # larger ones are mappings, whose keys are data
            for key, inner in value.items():
                if key not in self._named:
                    self._named[key] = is_field(key)
                if self._named[key]:
                    yield inner, joined(field, key)

    def _decide(self) -> Iterator[Flow]:
        for (target, parameter), counts in self._found.items():
            best: dict[str, tuple[tuple[int, bool, int], int, str]] = {}
            for (source, major, field), count in counts.items():
                rank = (count, agree(field, parameter), -len(field))
                # A field that fits less than half of the values fits by chance.
                if count * 2 >= self._asked[target, parameter] and (source not in best or best[source][0] < rank):
                    best[source] = rank, major, field
            for source, (_, major, field) in best.items():
                yield Flow(
                    source=source,
                    source_major=major,
                    field=field,
                    target=target,
                    target_major=self._majors[target],
                    parameter=parameter,
                )


def _given(arguments: dict[str, Any]) -> Iterator[tuple[str, str | float]]:
    """The parameters of a call with their values; the items of a list come one by one."""
    for parameter, value in itertools.islice(arguments.items(), _PARAMETERS):
        if len(parameter) > _PARAMETER_CHARACTERS or " " in parameter:
            continue
        items, name = (value[:_LISTED], f"{parameter}[]") if isinstance(value, list) else ([value], parameter)
        for item in items:
            if isinstance(item, str | int | float) and not isinstance(item, bool):
                yield name, item


def _is_distinctive(value: str | float, field: str, parameter: str) -> bool:
    """True if equal values of a field and a parameter are unlikely to be equal by chance."""
    if isinstance(value, str):
        if agree(field, parameter):
            return bool(value)
        if _DAY.fullmatch(value) or value.lower() in _COMMON:
            return False
        has_digit, has_other = any(map(str.isdecimal, value)), not value.isdecimal()
        return len(value) >= (_ID_CHARACTERS if has_digit and has_other else 4 if has_digit else _WORD_CHARACTERS)
    if _IDS.search(parameter.removesuffix("[]")) and agree(field, parameter):
        return True
    if isinstance(value, int):
        return abs(value) >= _LEAST_NUMBER and value not in _YEARS and value % _ROUND != 0
    return not value.is_integer() and len(repr(value)) >= _FRACTION_CHARACTERS


def _words_of(code: str) -> tuple[set[Any], set[str]]:
    """The values that code writes out, and the names of the fields that it reads."""
    names = names_of(code)
    if names is None:
        return set(), set()
    written: set[Any] = set()
    read: set[str] = set()
    for node in itertools.islice(ast.walk(names.tree), _NODES):
        match node:
            case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Load()):
                read.add(name)
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]):
                read.add(name)
            case ast.Constant(value=str() | int() | float() as value) if not isinstance(value, bool):
                written.add(value)
    return written, set(filter(is_field, read))


# Writing a flow as code


class _Step(msgspec.Struct, frozen=True, kw_only=True):
    """The way in which one parameter gets its value."""

    parameter: Parameter
    loops: tuple[tuple[str, ...], ...]
    """The keys to each list that the call loops over, from the answer or from an item of the list before."""
    keys: tuple[str, ...]
    """The keys from the last item to the value."""
    listed: tuple[str, ...] | None = None
    """The keys to a last list that becomes a list of values, instead of a call for each."""
    is_item: bool = False
    """True if the value becomes a list of one."""


def fragment(first: ToolSpec, second: ToolSpec, flow: Sequence[tuple[str, str]]) -> str | None:
    """Code that calls `first` and gives fields of its answer to `second`; None if a name in it cannot be used.

    `flow` holds fields and the parameters they become. A field of a list's items makes a loop. The first line names
    the other required parameters, which must be set. A tool that may change things is called for the first item only.
    """
    if first.full_name == second.full_name or not is_callable(first) or not is_callable(second):
        return None
    known = {parameter.key: parameter for parameter in parameters(second)}
    found = [step for field, key in flow if (step := _step(field, key, known)) is not None]
    if not found:
        return None
    longest = max((step.loops for step in found), key=len)
    taken = [step for step in found if step.loops == longest[: len(step.loops)]]  # the others are in other lists
    filled = {step.parameter.key for step in taken}
    missing = _required(first), [each for each in _required(second) if each.key not in filled]
    asked = list(dict.fromkeys(each.name for each in (*missing[0], *missing[1])))
    is_plain = is_nameable(*asked, *(step.parameter.name for step in taken))
    if len(longest) > _LOOPS or not is_plain or {first.function, second.function} & {*asked}:
        return None
    text = _write(first, second, taken, longest, missing, asked)
    return text if len(text) <= _CHARACTERS and read(text).tree is not None else None


def _required(spec: ToolSpec) -> list[Parameter]:
    return [parameter for parameter in parameters(spec) if parameter.required]


def _step(field: str, key: str, known: dict[str, Parameter]) -> _Step | None:
    parameter = known.get(key.removesuffix("[]"))
    if (
        parameter is None
        or field.startswith(UNPLACED)
        or not all(each == "[]" or is_field(each) for each in steps(field))
    ):
        return None
    loops: list[tuple[str, ...]] = []
    keys: list[str] = []
    for step in steps(field):
        if step == "[]":
            loops.append(tuple(keys))
            keys = []
        else:
            keys.append(step)
    if key.endswith("[]") and loops:
        return _Step(parameter=parameter, loops=tuple(loops[:-1]), keys=tuple(keys), listed=loops[-1])
    return _Step(parameter=parameter, loops=tuple(loops), keys=tuple(keys), is_item=key.endswith("[]"))


def _write(
    first: ToolSpec,
    second: ToolSpec,
    taken: list[_Step],
    loops: tuple[tuple[str, ...], ...],
    missing: tuple[list[Parameter], list[Parameter]],
    asked: list[str],
) -> str:
    names = {first.function, second.function, *asked}
    found, answers = _new("found", names), _new("answers", names)
    rows = [_new(name, names) for name in ("row", "part")[: len(loops)]]
    called = second.function if first.function != second.function else _new(f"{second.function}_2", names)
    given = [f"{step.parameter.name}={_expression(step, [found, *rows], names)}" for step in taken]
    given += [f"{each.name}={each.name}" for each in missing[1]]
    call = f"{called}({', '.join(given)})"
    # By the protocol, a tool may destroy unless it is declared read-only.
    only = "" if second.annotations.read_only is True else "[:1]"
    for row, place, keys in zip(rows, [found, *rows], loops, strict=False):
        call += f" for {row} in {_at(place, keys)}{only}"
    last = f"{answers} = [{call}]" if loops else f"{answers} = {call}"
    last += "  # the first only: it may change things" if loops and only else ""
    note = f"# Set {', '.join(asked)} first.\n" if asked else ""
    arguments = ", ".join(f"{each.name}={each.name}" for each in missing[0])
    return f"{note}{_imports(first, second, called)}\n{found} = {first.function}({arguments})\n{last}\n{answers}"


def _imports(first: ToolSpec, second: ToolSpec, called: str) -> str:
    other = second.function if called == second.function else f"{second.function} as {called}"
    if first.module == second.module:
        return f"from servers.{first.module} import {first.function}, {other}"
    return f"from servers.{first.module} import {first.function}\nfrom servers.{second.module} import {other}"


def _expression(step: _Step, places: list[str], names: set[str]) -> str:
    place = places[len(step.loops)]
    if step.listed is None:
        text = _at(place, step.keys)
        return f"[{text}]" if step.is_item else text
    listed = _at(place, step.listed)
    each = _new("each", names)
    return f"[{_at(each, step.keys)} for {each} in {listed}]" if step.keys else listed


def _at(name: str, keys: Iterable[str]) -> str:
    return name + "".join(f'["{key}"]' for key in keys)


def _new(name: str, taken: set[str]) -> str:
    """A name that a fragment does not use yet."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name
