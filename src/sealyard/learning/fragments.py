"""Two tools as ready code: the first is called, and what it answers goes into the second.

Everything in a fragment is a name that was made here or checked: functions, modules and parameters as the stubs have
them, and fields that look like names. It is Python that runs as it stands, once the variables it names are set.
"""

import keyword
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from sealyard.catalog.parameters import Parameter, parameters
from sealyard.errors import InvalidSkill
from sealyard.learning.code import IDENTIFIER
from sealyard.learning.fields import UNPLACED, steps
from sealyard.learning.telling import is_field
from sealyard.values import ToolSpec
from sealyard.versioning.scopes import parse

__all__ = ("fragment", "is_callable", "is_nameable")

_CHARACTERS = 600
_LOOPS = 2


def is_nameable(*names: str) -> bool:
    """Whether all of them may be told of: identifiers that are no keywords, nobody's name, and no order to a model."""
    return all(map(_is_name, names))


@lru_cache(maxsize=4_096)
def _is_name(name: str) -> bool:
    return is_field(name) and not keyword.iskeyword(name)


def is_callable(spec: ToolSpec) -> bool:
    """Whether a tool may be told of. What its module is called, the configuration says."""
    return is_nameable(spec.function) and IDENTIFIER.fullmatch(spec.module) is not None


class _Step(msgspec.Struct, frozen=True, kw_only=True):
    """How one parameter gets its value."""

    parameter: Parameter
    loops: tuple[tuple[str, ...], ...]
    """The keys to each list that is gone through, from the answer or from the item of the list before."""
    keys: tuple[str, ...]
    """From there to the value."""
    is_collected: bool = False
    """Whether the last list becomes a list of values instead of a call for each."""
    is_item: bool = False
    """Whether the value becomes a list of one."""


def fragment(first: ToolSpec, second: ToolSpec, flow: Sequence[tuple[str, str]]) -> str | None:
    """Code that calls `first` and gives fields of its answer to `second`; None if it would need a name of no use.

    `flow` are fields and the parameters they become. A field of a list's items makes a loop. What else the tools demand
    is named in the first line and must be set. A tool that may change things is called for the first item only.
    """
    if first.full_name == second.full_name or not is_callable(first) or not is_callable(second):
        return None
    known = {parameter.key: parameter for parameter in parameters(second)}
    found = [step for field, key in flow if (step := _step(field, key, known)) is not None]
    if not found:
        return None
    longest = max((step.loops[: len(step.loops) - step.is_collected] for step in found), key=len)
    taken = [step for step in found if _reaches(step, longest)]
    filled = {step.parameter.key for step in taken}
    missing = _required(first), [each for each in _required(second) if each.key not in filled]
    asked = list(dict.fromkeys(each.name for each in (*missing[0], *missing[1])))
    is_plain = is_nameable(*asked, *(step.parameter.name for step in taken))
    if len(longest) > _LOOPS or not is_plain or {first.function, second.function} & {*asked}:
        return None
    text = _write(first, second, taken, longest, missing, asked)
    return text if len(text) <= _CHARACTERS and _is_python(text) else None


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
    is_listed = key.endswith("[]")
    return _Step(
        parameter=parameter,
        loops=tuple(loops),
        keys=tuple(keys),
        is_collected=is_listed and bool(loops),
        is_item=is_listed and not loops,
    )


def _reaches(step: _Step, loops: tuple[tuple[str, ...], ...]) -> bool:
    """Whether what a step needs is at hand inside these loops."""
    outer = step.loops[: len(step.loops) - step.is_collected]
    return outer == loops[: len(outer)]


def _write(
    first: ToolSpec,
    second: ToolSpec,
    taken: list[_Step],
    loops: tuple[tuple[str, ...], ...],
    missing: tuple[list[Parameter], list[Parameter]],
    asked: list[str],
) -> str:
    names = _Names([first.function, second.function, *asked])
    found, answers = names.new("found"), names.new("answers")
    rows = [names.new(name) for name in ("row", "part")[: len(loops)]]
    called = second.function if first.function != second.function else names.new(f"{second.function}_2")
    given = [f"{step.parameter.name}={_expression(step, [found, *rows], names)}" for step in taken]
    given += [f"{each.name}={each.name}" for each in missing[1]]
    call = f"{called}({', '.join(given)})"
    # By the protocol a tool that does not say that it only reads may destroy.
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


def _expression(step: _Step, places: list[str], names: "_Names") -> str:
    outer = len(step.loops) - step.is_collected
    place = places[outer]
    if not step.is_collected:
        text = _at(place, step.keys)
        return f"[{text}]" if step.is_item else text
    listed = _at(place, step.loops[-1])
    each = names.new("each")
    return f"[{_at(each, step.keys)} for {each} in {listed}]" if step.keys else listed


def _at(name: str, keys: Iterable[str]) -> str:
    return name + "".join(f'["{key}"]' for key in keys)


class _Names:
    """Names of a fragment's own, apart from those that it uses."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def new(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _is_python(text: str) -> bool:
    try:
        parse(text)
    except InvalidSkill:
        return False
    return True
