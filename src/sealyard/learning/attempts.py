"""Whether a run is another attempt at what failed in an earlier one, told from what both are made of.

Runs of one visit call the same tools for many jobs. What tells a repair from the next job are the values, names and
fields that it keeps: those of the statement that failed, or of the call, and those around it. Hashes of them are kept.
"""

import ast
import builtins
import zlib
from collections.abc import Collection, Iterable

import msgspec

from sealyard.learning.kinds import plain
from sealyard.learning.sketch import Reading
from sealyard.values import CallEvidence

__all__ = ("Attempt", "attempt_of_calls", "attempt_of_code", "is_again")

_ATOMS = 200
_ARGUMENTS = 40
_TEXT_CHARACTERS = 80
_BUILTINS = frozenset(vars(builtins))

_STATEMENT = 0.5
_WHOLE = 0.65
_BACK = 0.3
"""Least shares: of what failed, and of the whole, that must be there again; and of what is there, that was before."""

_Atom = tuple[str, str]


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run is made of: hashes of its values, and of its names, which weigh half as much."""

    values: tuple[int, ...] = ()
    names: tuple[int, ...] = ()
    failed_values: tuple[int, ...] = ()
    """Those of the statement that failed."""
    failed_names: tuple[int, ...] = ()


def is_again(failed: Attempt, then: Attempt, *, spares: bool) -> bool | None:
    """Whether `then` is about what failed in `failed`; None if there is nothing to tell it by.

    `spares` says that another value may be the repair: one that is not there again says nothing then.
    """
    there = {*then.values, *then.names}
    whole = _kept(failed.values, failed.names, there, spares=spares)
    if whole is None:
        return None
    statement = _kept(failed.failed_values, failed.failed_names, there, spares=spares)
    back = _kept(then.values, then.names, {*failed.values, *failed.names}, spares=spares)
    return whole >= _WHOLE and (statement is None or statement >= _STATEMENT) and (back is not None and back >= _BACK)


def _kept(values: Iterable[int], names: Iterable[int], there: Collection[int], *, spares: bool) -> float | None:
    """The share that is there again; None if there is nothing that should be."""
    kept_values = [each in there for each in values]
    kept_names = [each in there for each in names]
    total = len(kept_values) + len(kept_names) / 2 - (spares and not all(kept_values))
    return (sum(kept_values) + sum(kept_names) / 2) / total if total else None


def attempt_of_code(reading: Reading, failed: Iterable[ast.AST], name: str) -> Attempt:
    """What code is made of, and those of its nodes that failed. `name` is what it failed about, which may change."""
    places = set(map(id, failed))
    inside: dict[_Atom, bool] = {}
    outside: dict[_Atom, bool] = {}
    for node in reading.nodes:
        atom = _atom(node, reading)
        if atom is not None and atom[1] != name:
            (inside if id(node) in places else outside)[atom] = False
    # What is nowhere else is gone if the statement is left out. If it has nothing of its own, all of it counts.
    own = [atom for atom in inside if atom not in outside] or inside
    return _attempt(outside | inside | dict.fromkeys(own, True))


def attempt_of_calls(calls: Iterable[CallEvidence], name: str) -> Attempt:
    """What single calls without code are made of: all of it is what failed, if they did."""
    found: list[_Atom | None] = []
    for call in calls:
        if isinstance(call.arguments, dict):
            for given, value in list(call.arguments.items())[:_ARGUMENTS]:
                found.append(("keyword", str(given)[:_TEXT_CHARACTERS]))
                found += map(_constant, value[:_ARGUMENTS] if isinstance(value, list) else [value])
    return _attempt({atom: True for atom in found if atom is not None and atom[1] != name})


def _attempt(found: dict[_Atom, bool]) -> Attempt:
    def hashes(*, is_value: bool, is_failed: bool) -> tuple[int, ...]:
        chosen = {
            zlib.crc32(plain(atom[1]).encode("utf-8", "replace"))
            for atom, has_failed in found.items()
            if (atom[0] == "value") == is_value and (has_failed or not is_failed)
        }
        return tuple(sorted(chosen)[:_ATOMS])

    return Attempt(
        values=hashes(is_value=True, is_failed=False),
        names=hashes(is_value=False, is_failed=False),
        failed_values=hashes(is_value=True, is_failed=True),
        failed_names=hashes(is_value=False, is_failed=True),
    )


def _atom(node: ast.AST, reading: Reading) -> _Atom | None:
    """What one node says about the job: its value or name. What any code has says nothing."""
    match node:
        case ast.Constant(value=value):
            return _constant(value)
        case ast.Name(id=name):
            return None if name in _BUILTINS or reading.is_imported(name) else ("name", name)
        case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return "name", name
        case ast.Attribute(attr=name):
            return None if reading.is_of_module(node) else ("attribute", name)
        case ast.keyword(arg=str(name)):
            return "keyword", name
    return None


def _constant(value: object) -> _Atom | None:
    """A value as it is the same however it is written; a digit weighs no more than a name."""
    if isinstance(value, bool) or value in (0, 1) or not (text := plain(value)):
        return None
    return "value" if len(text) > 1 else "digit", text
