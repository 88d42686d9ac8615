"""Values that fit a JSON Schema, made up from a seed: arguments for calls and answers to them."""

import itertools
import random
import re
from typing import Any

import jsonschema_rs

from sealyard.versioning.compare import resolve

_TRIES = 12
_DEPTH = 8
_WORDS = "amber birch cedar delta ember fjord grove harbor iris juniper kelp lagoon maple north olive pine".split()
_FORMATS = {
    "date": "2025-03-{:02}",
    "date-time": "2025-03-{:02}T08:00:00Z",
    "time": "08:{:02}:00Z",
    "email": "person{:02}@example.com",
    "uri": "https://example.com/{:02}",
    "url": "https://example.com/{:02}",
    "uuid": "00000000-0000-4000-8000-0000000000{:02}",
    "ipv4": "192.0.2.{}",
}


class Unmakeable(Exception):
    """No value for this schema was found."""


def make(schema: Any, root: dict[str, Any], chance: random.Random, *, whole: bool = False) -> Any:
    """A value that fits `schema`; `whole` gives objects every property they may have.

    Raises:
        Unmakeable: None was found in a few tries.
    """
    for _ in range(_TRIES):
        value = _any(schema, root, chance, whole=whole, depth=_DEPTH)
        if fits(value, schema, root):
            return value
    raise Unmakeable(f"No value fits {schema!r}.")


def make_many(schema: Any, root: dict[str, Any], chance: random.Random, count: int) -> list[Any]:
    """Up to `count` different values that fit `schema`, at least one."""
    found: list[Any] = []
    for _ in range(count * 3):
        value = make(schema, root, chance)
        if value not in found:
            found.append(value)
        if len(found) == count:
            break
    return found


def fits(value: Any, schema: Any, root: dict[str, Any]) -> bool:
    """True if `value` fits `schema`, whose references lead into `root`."""
    if not isinstance(schema, dict):
        return True
    shared: dict[str, Any] = {key: root[key] for key in ("$schema", "$defs", "definitions") if key in root}
    try:
        return jsonschema_rs.validator_for({**shared, **schema}, offline=True).is_valid(value)
    except (ValueError, jsonschema_rs.ReferencingError):
        return True


def _any(schema: Any, root: dict[str, Any], chance: random.Random, *, whole: bool, depth: int) -> Any:
    found = resolve(schema, root)
    if not depth:
        raise Unmakeable("It refers to itself.")
    if "const" in found:
        return found["const"]
    if isinstance(found.get("enum"), list) and found["enum"]:
        return chance.choice([choice for choice in found["enum"] if choice is not None] or [None])
    for keyword in ("anyOf", "oneOf"):
        branches = [branch for branch in found.get(keyword) or () if resolve(branch, root).get("type") != "null"]
        if branches:
            branch = resolve(branches[0] if whole else chance.choice(branches), root)
            beside = {key: value for key, value in found.items() if key != keyword}
            return _any({**beside, **branch}, root, chance, whole=whole, depth=depth - 1)
    if isinstance(found.get("allOf"), list):
        merged = {key: value for key, value in found.items() if key != "allOf"}
        for part in found["allOf"]:
            merged |= resolve(part, root)
        return _any(merged, root, chance, whole=whole, depth=depth - 1)
    return _typed(found, root, chance, whole=whole, depth=depth)


def _typed(schema: dict[str, Any], root: dict[str, Any], chance: random.Random, *, whole: bool, depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    match kind or ("object" if "properties" in schema else "string"):
        case "boolean":
            return chance.random() < 0.5
        case "integer" | "number":
            return _number(schema, chance, whole=kind == "integer")
        case "array":
            least = schema.get("minItems", 0)
            count = max(least, min(chance.randint(1, 2) if not whole else 2, schema.get("maxItems", 3)))
            items = schema.get("items", {"type": "string"})
            return [_any(items, root, chance, whole=whole, depth=depth - 1) for _ in range(count)]
        case "object":
            return _object(schema, root, chance, whole=whole, depth=depth)
        case "null":
            return None
    return _string(schema, chance)


def _object(schema: dict[str, Any], root: dict[str, Any], chance: random.Random, *, whole: bool, depth: int) -> Any:
    properties = schema.get("properties") or {}
    required = schema.get("required") or ()
    made = {}
    for key, inner in properties.items():
        if whole or key in required:
            try:
                made[key] = _any(inner, root, chance, whole=whole, depth=depth - 1)
            except Unmakeable:
                if key in required:
                    raise
    return made


def _number(schema: dict[str, Any], chance: random.Random, *, whole: bool) -> int | float:
    step = schema.get("multipleOf", 1)
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    most = min(schema.get("maximum", schema.get("exclusiveMaximum", least + 40 * step)), least + 40 * step)
    number = least + step * chance.randint(0, max(0, int((most - least) / step)))
    return int(number) if whole or number == int(number) else number


def _string(schema: dict[str, Any], chance: random.Random) -> str:
    number = chance.randrange(10, 29)
    text = _FORMATS[schema["format"]].format(number) if schema.get("format") in _FORMATS else ""
    text = text or f"{chance.choice(_WORDS)} {number}"
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        candidates = (text, text.replace(" ", "-"), text.split()[0], str(number), text.split()[0].upper())
        text = next((each for each in candidates if re.search(pattern, each)), text)
    words = itertools.cycle(_WORDS)
    while len(text) < schema.get("minLength", 0):
        text += " " + next(words)
    return text[: schema.get("maxLength", len(text))]
