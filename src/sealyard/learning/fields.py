"""Fields of answers: how they are written, and where a declared schema has them.

`days[].date` is the date of each of the days, `[].id` the id of each item of a list, nothing the answer itself. Only
names that look like names are ever part of one: a key that is data, such as an id or a date, is no field.
"""

import re
from collections.abc import Iterator
from typing import Any

from sealyard.catalog.shapes import resolve, unwrapped
from sealyard.learning.telling import is_field
from sealyard.values import ToolSpec

__all__ = ("UNPLACED", "agree", "is_declared", "joined", "last_key", "place_of", "shown", "steps")

UNPLACED = "?."
"""Before the name of a field of which only the name is known: the answer was too large for the journal."""

_STEP = re.compile(r"\[\]|[A-Za-z0-9_]+")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_BRANCHES = 8
_DEPTH = 4
_PLACES = 400
_NOTHING: tuple[str, ...] = ()


def joined(field: str, key: str) -> str:
    """The field `key` of what is at `field`."""
    return f"{field}.{key}" if field else key


def steps(field: str) -> list[str]:
    """The keys on the way to a field, and `[]` for each item of a list."""
    return _STEP.findall(field)


def last_key(field: str) -> str:
    """The name of a field; nothing for the answer itself."""
    return next((step for step in reversed(steps(field)) if step != "[]"), "")


def shown(field: str) -> str:
    """A field as a sentence has it: its name alone if the whole way to it could be a sentence itself."""
    keys = [step for step in steps(field) if step != "[]"]
    return ".".join(keys) if is_field("_".join(keys)) else last_key(field)


def agree(field: str, parameter: str) -> bool:
    """Whether a field has the name of a parameter, or the end of it: `id` and `park_id`, but not `id` and `paid`."""
    one, other = _words(last_key(field)), _words(parameter)
    shorter = min(len(one), len(other))
    return shorter > 0 and one[-shorter:] == other[-shorter:]


def _words(name: str) -> tuple[str, ...]:
    found = tuple(word.lower() for word in _WORDS.findall(name))
    return (*found[:-1], found[-1].removesuffix("s")) if found else _NOTHING


def is_declared(spec: ToolSpec, field: str) -> bool:
    """Whether the tool itself says that its answers have this field."""
    found = [unwrapped(spec.output_schema)]
    root = spec.output_schema or {}
    for step in steps(field):
        found = [inner for schema in found for inner in _inside(schema, root, step)][:_BRANCHES]
    return bool(found) and spec.output_schema is not None


def place_of(spec: ToolSpec, key: str) -> str | None:
    """Where a tool's declared answer has the field `key`; None if nowhere, or in two places that are equally near."""
    root = spec.output_schema or {}
    level: list[tuple[object, str]] = [(unwrapped(spec.output_schema), "")]
    for _ in range(_DEPTH):
        level = [place for schema, field in level for place in _below(schema, root, field)][:_PLACES]
        found = list(dict.fromkeys(field for _, field in level if not field.endswith("[]") and last_key(field) == key))
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _below(schema: object, root: dict[str, Any], field: str) -> Iterator[tuple[object, str]]:
    """The parts of one place, by their fields."""
    for branch in _branches(schema, root):
        if isinstance(branch.get("items"), dict):
            yield branch["items"], f"{field}[]"
        properties = branch.get("properties")
        if isinstance(properties, dict):
            yield from ((inner, joined(field, key)) for key, inner in properties.items() if is_field(key))


def _inside(schema: object, root: dict[str, Any], step: str) -> Iterator[object]:
    for branch in _branches(schema, root):
        if step == "[]":
            if isinstance(branch.get("items"), dict):
                yield branch["items"]
        elif isinstance(branch.get("properties"), dict) and step in branch["properties"]:
            yield branch["properties"][step]


def _branches(schema: object, root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema without its reference, and its alternatives: what may be null has two."""
    whole = resolve(schema, root)
    yield whole
    for keyword in ("anyOf", "oneOf", "allOf"):
        branches = whole.get(keyword)
        if isinstance(branches, list):
            yield from (resolve(branch, root) for branch in branches[:_BRANCHES])
