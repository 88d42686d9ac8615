"""Compiled input schemas, for values whose check is certain to end soon.

The validator follows every path: alternatives that refer to alternatives double its work at each step, and a circle
through them doubles it at each level of the value. An upstream writes the schema and an agent the value, so both are
hostile. `survey` bounds the work by reading the schema first, and refuses an unsafe one; such a schema, and one that
cannot be compiled, has no validator. No reference is fetched, formats are not enforced, patterns run in linear time.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
import msgspec

from sealyard.catalog.cache import Recent
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare import lookup

# Bounds on the work for one schema and one value. Chosen so that a check takes milliseconds, unless a source is named.

_STEPS = 2_000_000  # some ten milliseconds
_EXPLAINED_STEPS = 10_000  # each may become an error, and an error costs a thousand times what a step does
_PATTERN_STEPS = 20_000  # characters that patterns may see: a hostile one takes microseconds for each
_DEPTH = 100  # far deeper, the validator overflows its stack
_REGEX = jsonschema_rs.RegexOptions(size_limit=1 << 16, dfa_size_limit=1 << 16)
_BYTES = 256 << 10  # as many as a definition may have
_VISITS = 20_000  # paths through a schema that are followed
_REFERENCES = 500  # the time to compile a chain of them grows with its square
_PATTERNS = 100  # each is compiled
_PATTERN_CHARACTERS = 1000  # of each
_SPREAD = 10_000  # steps for one part of a value
_UNEVALUATED_FACTOR = 4  # measured 3: the validator goes through everything again to learn what was evaluated
_REFERRING = ("$ref", "$dynamicRef", "$recursiveRef")
_HERE_ONE = ("not", "if", "then", "else")
_HERE_MANY = ("allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies")
_BELOW = (
    "additionalProperties",
    "additionalItems",
    "contains",
    "items",
    "prefixItems",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})
_DATA = frozenset({"const", "default", "enum", "examples", "example"})


class Check:
    """One schema: its validator, and the bounds within which that ends soon."""

    __slots__ = ("_survey", "_validator")

    def __init__(self, schema: dict[str, Any]) -> None:
        self._validator: jsonschema_rs.Validator | None = None
        try:
            self._survey = survey(schema)
        except TooHazardous:
            self._survey = Survey(spread=1, branching=0, patterns=0)
        else:
            self._validator = _compile(schema)

    def choose(self, value: object) -> jsonschema_rs.Validator | None:
        """The validator, if it is certain to end soon for `value`."""
        parts, characters, depth = _extent(value)
        if depth > _DEPTH or self._survey.steps(parts, depth) > _STEPS:
            return None
        if self._survey.patterns and self._survey.steps(characters, depth) > _PATTERN_STEPS:
            return None
        return self._validator

    def is_explicable(self, value: object) -> bool:
        """True if all errors of `value` can be listed quickly."""
        parts, _, depth = _extent(value)
        return self._survey.steps(parts, depth) <= _EXPLAINED_STEPS


def is_checkable(schema: dict[str, Any]) -> bool:
    """True if values can be checked against a schema, and safely."""
    return Check(schema).choose({}) is not None


_checks: Recent[str, Check] = Recent(1024)


def check_of(spec: ToolSpec) -> Check:
    """The check of a tool's input schema, compiled when it is first needed."""
    check = _checks.find(spec.digest)
    if check is None:
        check = Check(spec.input_schema)
        _checks.put(spec.digest, check)
    return check


def _compile(schema: dict[str, Any]) -> jsonschema_rs.Validator | None:
    """A validator, or `None` if the schema is invalid, refers elsewhere or has an unsupported pattern."""
    try:
        return jsonschema_rs.validator_for(
            schema, offline=True, validate_formats=False, pattern_options=_REGEX, mask="it"
        )
    except (ValueError, jsonschema_rs.ReferencingError):
        return None


def _extent(value: object) -> tuple[int, int, int]:
    """The number of parts of `value`, their characters, and its depth; counting stops at the bounds."""
    parts = characters = depth = 0
    level = [value]
    while level and depth <= _DEPTH and parts <= _STEPS:
        depth += 1
        parts += len(level)
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                characters += len(item)
            elif isinstance(item, dict):
                below += item
                below += item.values()
            elif isinstance(item, list | tuple):
                below += item
        level = below
    return parts, characters, depth


# The work of a validation


class TooHazardous(ValueError):
    """The schema cannot be used safely; the message gives the reason."""


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """The growth of the work of validating: `spread` steps per part of the value, times `branching` per level of it."""

    spread: int
    branching: int
    patterns: int

    def steps(self, parts: int, depth: int) -> int:
        """A bound on the steps for a value with this number of parts and levels."""
        levels: int = max(1, self.branching) ** min(depth, 64)
        return parts * self.spread * levels


class _Work(msgspec.Struct, frozen=True):
    """Bounds for one schema: steps at the place it is applied to, at any one place below, and circles closed below."""

    here: int = 1
    below: int = 0
    circles: int = 0


def survey(schema: dict[str, Any]) -> Survey:
    """Bound the work of validating with `schema`.

    Raises:
        TooHazardous: It is too big, too deep, applies itself to the same value, or refers outside of itself.
    """
    try:
        length = len(msgspec.json.encode(schema))
    except (ValueError, RecursionError):
        raise TooHazardous("it is too deep, or has text that is none") from None
    if length > _BYTES:
        raise TooHazardous("it is too long")
    surveyor = _Surveyor(schema)
    work = surveyor.visit(schema, {}, 0)
    return Survey(spread=max(work.here, work.below), branching=work.circles, patterns=surveyor.patterns)


class _Surveyor:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._anchors: dict[str, dict[str, Any]] = {}
        self._known: dict[int, _Work] = {}
        self._visits = _VISITS
        self.patterns = 0
        old = "draft-04" in str(root.get("$schema"))
        references = 0
        for place in _places(root, _DEPTH):
            # A part with its own identifier resolves the references inside it differently.
            if place is not root and isinstance(place.get("id" if old else "$id"), str):
                raise TooHazardous("a part of it has an identifier of its own")
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(place.get(key), str):
                    self._anchors[place[key]] = place
            references += sum(key in place for key in _REFERRING)
            self.patterns += _count_patterns(place)
        if references > _REFERENCES or self.patterns > _PATTERNS:
            raise TooHazardous("it has too many references or patterns")

    def visit(self, schema: object, path: dict[int, int], level: int) -> _Work:
        """Bounds for `schema`, which is applied `level` steps down into the value; `path` has the schemas above it."""
        if not isinstance(schema, dict):
            return _Work()
        known = self._known.get(id(schema))
        if known is not None:
            return known
        self._visits -= 1
        if id(schema) in path:
            if path[id(schema)] == level:
                raise TooHazardous("it applies itself to the same value")
            return _Work(circles=1)
        if self._visits < 0 or len(path) > _DEPTH:
            raise TooHazardous("it has too many paths")
        path[id(schema)] = level
        work = self._combine(schema, path, level)
        del path[id(schema)]
        if max(work.here, work.below, work.circles) > _SPREAD:
            raise TooHazardous("it has too many paths")
        if not work.circles:
            self._known[id(schema)] = work
        return work

    def _combine(self, schema: dict[str, Any], path: dict[int, int], level: int) -> _Work:
        here, below, circles = 1 + _own_steps(schema), 0, 0
        for part in self._applied_here(schema):
            work = self.visit(part, path, level)
            here, below, circles = here + work.here, below + work.below, circles + work.circles
        # A value has one property of each name, so only the costliest counts; the others may all meet in one place.
        named = [self.visit(part, path, level + 1) for part in _values(schema.get("properties"))]
        below += max((max(work.here, work.below) for work in named), default=0)
        circles += max((work.circles for work in named), default=0)
        for part in _applied_below(schema):
            work = self.visit(part, path, level + 1)
            below, circles = below + max(work.here, work.below), circles + work.circles
        again = _UNEVALUATED_FACTOR if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1
        return _Work(here * again, below * again, circles * again)

    def _applied_here(self, schema: dict[str, Any]) -> Iterator[object]:
        for key in _REFERRING:
            if key in schema:
                yield self._target(schema[key])
        yield from (schema[key] for key in _HERE_ONE if key in schema)
        for key in _HERE_MANY:
            yield from _values(schema.get(key))

    def _target(self, reference: object) -> object:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise TooHazardous("it refers to what is not in it")
        name = unquote(reference[1:])
        is_pointer = not name or name.startswith("/")
        target = lookup(reference, self._root) if is_pointer else self._anchors.get(name)
        if target is None:
            raise TooHazardous("it refers to what is not in it")
        return target


def _own_steps(schema: dict[str, Any]) -> int:
    """The steps of the keywords that iterate over their own list."""
    steps = 0
    for key, share in (("required", 4), ("dependentRequired", 1)):
        listed = schema.get(key)
        steps += len(listed) // share if isinstance(listed, list | dict) else 0
    values = schema.get("enum")
    if isinstance(values, list):  # texts are looked up, other values are compared one by one
        simple = all(isinstance(value, str) for value in values)
        steps += len(values) // 100 if simple else len(msgspec.json.encode(values)) // 16
    return steps


def _applied_below(schema: dict[str, Any]) -> Iterator[object]:
    yield from _values(schema.get("patternProperties"))
    for key in _BELOW:
        if key in schema:
            part = schema[key]
            yield from part if isinstance(part, list) else (part,)


def _values(part: object) -> Iterable[object]:
    if isinstance(part, dict):
        return part.values()
    return part if isinstance(part, list) else ()


def _places(root: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    """Every object in a schema that may be a schema."""
    waiting: list[tuple[object, int, bool]] = [(root, depth, False)]
    while waiting:
        value, left, names = waiting.pop()
        if not left:
            raise TooHazardous("it is too deep")
        if isinstance(value, list):
            waiting += [(item, left - 1, False) for item in value if isinstance(item, list | dict)]
        elif isinstance(value, dict):
            if not names:
                yield value
            for key, item in value.items():
                if isinstance(item, list | dict) and (names or key not in _DATA):
                    waiting.append((item, left - 1, key in _NAMED and not names))


def _count_patterns(place: dict[str, Any]) -> int:
    pattern, named = place.get("pattern"), place.get("patternProperties")
    patterns = [pattern] if isinstance(pattern, str) else []
    patterns += list(named) if isinstance(named, dict) else []
    if any(len(pattern) > _PATTERN_CHARACTERS for pattern in patterns):
        raise TooHazardous("a pattern of it is too long")
    return len(patterns)
