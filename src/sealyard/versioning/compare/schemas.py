"""JSON Schemas as documents and as cases.

A `Document` resolves references. `Numbers` gives every part of a schema a number, and parts with the same number are
equal whatever their texts, the order of their keys, or the order of a `required` list or an `enum`. So equality costs
nothing, however deep the schemas are.

A `Case` is one way to fit a schema: a list of plain schemas that hold together. Anything too large, too deep or not a
schema says nothing: a case may know less than the schema says, never more.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

ANNOTATIONS = frozenset(
    "title description $comment examples example default deprecated readOnly writeOnly $schema $defs definitions "
    "contentEncoding contentMediaType contentSchema".split()
)
"""Keywords that say nothing about which values fit. Definitions count where something refers to them."""

_DEFINITIONS = ("$defs", "definitions")
_PARTS = 30_000  # a bound on the size of a document
_HOPS = 16  # references that lead from one to the next
_REFERENCES = 256  # a bound on the references of one part

Place = Literal["schema", "named", "listed", "choice", "value", "set"]
"""The kind of a part: a schema, a mapping from names to schemas, a list of schemas, one whose order does not matter, a
value, or a list of values whose order does not matter."""

_PLACES: dict[str, Place] = {
    "properties": "named",
    "patternProperties": "named",
    "$defs": "named",
    "definitions": "named",
    "dependentSchemas": "named",
    "dependencies": "named",
    "allOf": "listed",
    "oneOf": "listed",  # twice the same is not the same as once
    "prefixItems": "listed",
    "anyOf": "choice",
    "required": "set",
    "type": "set",
    "enum": "set",
    "const": "value",
    "default": "value",
    "examples": "value",
    "example": "value",
    "dependentRequired": "value",
}
# What other drafts of JSON Schema read in another way, or not at all.
_DISPUTED = frozenset(
    "prefixItems additionalItems contains minContains maxContains dependencies dependentRequired dependentSchemas "
    "unevaluatedItems unevaluatedProperties if then else propertyNames $dynamicRef $recursiveRef".split()
)


Dialect = Literal["draft-03", "draft-04", "draft-0", "2019", "2020"]
"""`draft-0`: what stands beside a `$ref` does not count. Up to `2019`, lists of `items` are positions."""

_DIALECTS: tuple[Dialect, ...] = ("draft-03", "draft-04", "draft-0", "2019")


_Inside = list[tuple[object, object, Place]]


class TooLarge(Exception):
    """A schema has more parts than are worth comparing, or contains itself."""


class Document:
    """A whole schema: what its references are looked up in."""

    def __init__(self, root: object) -> None:
        self.root = root
        said = root.get("$schema") if isinstance(root, dict) else None
        said = said if isinstance(said, str) else ""
        self.dialect: Dialect = next((name for name in _DIALECTS if name in said), "2020")
        self.rebased = False
        """True if a part has an address of its own, so that references in it lead elsewhere."""
        self._targets: dict[str, object] = {}

    def target(self, reference: object) -> object:
        """The target of a `$ref`; `None` if it is not in this document."""
        if not isinstance(reference, str) or self.rebased:
            return None
        if reference not in self._targets:
            self._targets[reference] = lookup(reference, self.root)
        return self._targets[reference]


def lookup(reference: str, root: object) -> object:
    """The target of a pointer such as `#/$defs/Row`; `None` if there is none. Nothing is ever fetched."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    place = root
    for step in unquote(reference[1:]).split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = place.get(step)
        elif isinstance(place, list) and step.isdecimal() and len(step) < 6 and int(step) < len(place):
            place = place[int(step)]
        else:
            return None
    return place


def is_wrapped(output_schema: dict[str, Any] | None) -> bool:
    """True if an answer is an object with the one key `result`, in which SDKs wrap values that are not objects."""
    if output_schema is None:
        return False
    properties = resolve(output_schema, output_schema).get("properties")
    return isinstance(properties, dict) and properties.keys() == {"result"}


def unwrapped(output_schema: dict[str, Any] | None) -> object:
    """The schema of the value that code gets: that of `result` if the answer is wrapped."""
    if output_schema is None or not is_wrapped(output_schema):
        return True if output_schema is None else output_schema
    return resolve(output_schema, output_schema)["properties"]["result"]


def resolve(schema: object, root: dict[str, Any]) -> dict[str, Any]:
    """`schema` with its `$ref` resolved; an empty schema if the reference leads nowhere, or in a circle."""
    for _ in range(_HOPS):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        target = lookup(reference, root)
        # Keywords beside a reference, such as a description, apply to this place.
        beside = {key: value for key, value in schema.items() if key not in ("$ref", "$defs", "definitions")}
        schema = {**target, **beside} if isinstance(target, dict) else beside
    return {}


def scalar(value: object) -> tuple[str, object]:
    """A key that is equal for equal JSON scalars only: `1` is `1.0` and not `true`."""
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, int | float):
        return "number", value
    return type(value).__name__, value if value is None or isinstance(value, str) else id(value)


class _Traits(msgspec.Struct, frozen=True):
    """Properties of a part beside its content."""

    references: frozenset[str] | None = frozenset()
    """All references in it; `None`: too many."""
    disputed: bool = False


class Numbers:
    """Numbers of the parts of several documents. They must stay alive and unchanged as long as it is used."""

    def __init__(self, *documents: Document, texts: bool = False) -> None:
        """Raises `TooLarge` if a document has too many parts; with `texts`, annotations count."""
        self._texts = texts
        self._by_place: dict[tuple[int, Place], int] = {}
        self._by_content: dict[object, int] = {}
        self._traits: list[_Traits] = []
        self._budget = _PARTS
        for document in documents:
            self._add(document)

    def _add(self, document: Document) -> None:
        stack: list[tuple[Any, Place, _Inside | None]] = []
        if _is_part(document.root):
            stack.append((document.root, "schema", None))
        while stack:
            node, place, inside = stack.pop()
            if (id(node), place) in self._by_place:
                continue
            if inside is not None:  # all that is in it has a number
                self._by_place[id(node), place] = self._number(node, place, inside)
                continue
            self._budget -= 1 + len(node)
            if self._budget < 0:
                raise TooLarge
            inside = list(self._inside(node, place))
            stack.append((node, place, inside))
            stack += [(part, where, None) for _, part, where in inside if isinstance(part, dict | list)]
            if place == "schema" and isinstance(node, dict) and node is not document.root and "$id" in node:
                document.rebased = True

    def same(self, one: object, other: object, place: Place = "schema") -> bool:
        """True if two parts are equal as they stand; what they refer to may differ."""
        if not _is_part(one) or not _is_part(other):
            return not _is_part(one) and not _is_part(other) and scalar(one) == scalar(other)
        number = self._by_place.get((id(one), place))
        return number is not None and number == self._by_place.get((id(other), place))

    def references(self, part: object, place: Place) -> frozenset[str] | None:
        """All references in a part; `None` if there are too many."""
        number = self._by_place.get((id(part), place))
        return frozenset() if number is None else self._traits[number].references

    def is_disputed(self, part: object, place: Place) -> bool:
        """True if drafts of JSON Schema disagree about something in it."""
        number = self._by_place.get((id(part), place))
        return number is not None and self._traits[number].disputed

    def _inside(self, node: Any, place: Place) -> Iterator[tuple[object, object, Place]]:
        """The key of each part in `node`, the part, and what it is."""
        if isinstance(node, list):
            within: Place = "value" if place in ("value", "set") else "schema"
            yield from ((None, part, within) for part in node)
        elif place == "schema":
            for key, part in node.items():
                if key not in ANNOTATIONS or key in _DEFINITIONS or self._texts:
                    yield key, part, place_of(key, part)
        else:
            yield from ((key, part, "schema" if place == "named" else "value") for key, part in node.items())

    def _number(self, node: Any, place: Place, inside: _Inside) -> int:
        if place == "schema" and not self._texts:
            inside = [part for part in inside if part[0] not in _DEFINITIONS]
        names = [
            (key, self._by_place[id(part), where] if _is_part(part) else scalar(part)) for key, part, where in inside
        ]
        content: object
        if place in ("choice", "set") and isinstance(node, list):
            content = (place, frozenset(names))
        elif isinstance(node, list):
            content = (place, tuple(names))
        else:
            content = (place, frozenset(names))
        number = self._by_content.setdefault(content, len(self._by_content))
        if number == len(self._traits):
            self._traits.append(self._traits_of(node, place, inside))
        return number

    def _traits_of(self, node: Any, place: Place, inside: _Inside) -> _Traits:
        below = [self._traits[self._by_place[id(part), where]] for _, part, where in inside if _is_part(part)]
        references: frozenset[str] | None = frozenset()
        for traits in below:
            if references is not None:
                references = None if traits.references is None else references | traits.references
            if references is not None and len(references) > _REFERENCES:
                references = None
        disputed = any(traits.disputed for traits in below)
        if place == "schema" and isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str) and references is not None:
                references |= {reference}
            beside = reference is not None and len(node.keys() - ANNOTATIONS) > 1
            disputed = disputed or beside or not _DISPUTED.isdisjoint(node) or isinstance(node.get("items"), list)
        return _Traits(references, disputed)


def _is_part(value: object) -> bool:
    return isinstance(value, dict | list)


def place_of(keyword: object, part: object) -> Place:
    """The kind of the part under a keyword of a schema."""
    place = _PLACES.get(keyword, "schema") if isinstance(keyword, str) else "value"
    expected = dict if place == "named" else list
    return place if place in ("schema", "value") or isinstance(part, expected) else "value"


KINDS = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
"""Of values; a number is an integer or a fraction."""
NULLABLE = "nullable"
"""The null that a schema allows by OpenAPI's `nullable: true`, which JSON Schema does not have."""
NULLS = frozenset({"null", NULLABLE})

_CASES = 64  # alternatives that are kept apart: a bound on the cost
_NAMES = {
    "null": {"null"},
    "boolean": {"boolean"},
    "bool": {"boolean"},
    "integer": {"integer"},
    "int": {"integer"},
    "number": {"integer", "fraction"},
    "float": {"integer", "fraction"},
    "string": {"string"},
    "str": {"string"},
    "array": {"array"},
    "object": {"object"},
}  # careless servers write Python's names
_YOUNGER = frozenset({"const", "exclusiveMinimum", "exclusiveMaximum"})  # than the oldest drafts, or other there

Bound = tuple[int | float, bool]
"""A lower limit, and whether it is itself excluded: the larger of two is the stricter one."""
RANGES = {1: ("minimum", "exclusiveMinimum"), -1: ("maximum", "exclusiveMaximum")}
"""The keywords of lower bounds, and of upper ones, which are lower bounds of the negative."""


class Exhausted(Exception):
    """The work that a comparison may cost is used up."""


class Budget:
    """The steps that a comparison may still take."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def spend(self, steps: int = 1) -> None:
        """Take steps.

        Raises:
            Exhausted: There are none left.
        """
        self._steps -= steps
        if self._steps < 0:
            raise Exhausted


class Case:
    """One way to fit a schema: all its `atoms` hold."""

    def __init__(self, atoms: tuple[dict[str, Any], ...], *, top: bool = False, dialect: Dialect = "2020") -> None:
        self.atoms = atoms
        self.top = top
        """True if the value is the arguments of a tool."""
        self.dialect: Dialect = dialect
        self.values = _values(atoms)
        """The values that it can be, if they are few."""
        kinds = KINDS | {NULLABLE}
        for atom in atoms:
            kinds &= kinds_of(atom) or kinds
        if self.values is not None:
            kinds &= {kind_of(value) for value in self.values} | {NULLABLE}
        nullable = any(atom.get("nullable") is True for atom in atoms)
        kinds = kinds if nullable else kinds - {NULLABLE}
        self.kinds = kinds & {"object"} or kinds if top else kinds

    def of_kind(self, kind: str) -> list[Any] | None:
        """Those of `values` that are of this kind; `None` if they are not known."""
        return None if self.values is None else [value for value in self.values if kind_of(value) == kind]

    def least(self, keyword: str) -> int | float | None:
        """The strictest upper limit that its atoms set by a keyword."""
        return min(self._numbers(keyword), default=None)

    def most(self, keyword: str) -> int | float | None:
        """The strictest lower limit."""
        return max(self._numbers(keyword), default=None)

    def bound(self, sign: int) -> Bound | None:
        """The strictest lower bound of a number; with a `sign` of -1 the upper one, as that of its negative."""
        inclusive, exclusive = RANGES[sign]
        found = [(sign * limit, False) for limit in self._numbers(inclusive)]
        found += [(sign * limit, True) for limit in self._numbers(exclusive)]
        return max(found, default=None)

    def has(self, keyword: str, value: object) -> bool:
        """True if an atom has this scalar under `keyword`."""
        return any(keyword in atom and scalar(atom[keyword]) == scalar(value) for atom in self.atoms)

    @cached_property
    def required(self) -> set[str]:
        """The keys that are in every object."""
        return {key for atom in self.atoms for key in part(atom, "required", list) if isinstance(key, str)}

    @cached_property
    def declared(self) -> dict[str, None]:
        """The keys that objects are said to have, in order."""
        return {key: None for atom in self.atoms for key in part(atom, "properties", dict) if isinstance(key, str)}

    @cached_property
    def names(self) -> dict[str, None]:
        """The keys that objects can have, in order: those declared, then others that are required."""
        return {**self.declared, **dict.fromkeys(sorted(self.required - self.declared.keys()))}

    def under(self, key: str) -> tuple[Any, ...]:
        """The schemas that hold for the value of `key`, if it is there."""
        found = []
        for atom in self.atoms:
            properties = part(atom, "properties", dict)
            if key in properties:
                found.append(properties[key])
            elif not part(atom, "patternProperties", dict) and isinstance(
                atom.get("additionalProperties"), dict | bool
            ):
                found.append(atom["additionalProperties"])
        return tuple(found)

    @cached_property
    def others(self) -> tuple[Any, ...] | None:
        """The schemas that hold for values of undeclared keys; `None` if such keys are no part of the interface.

        They are none where a schema forbids them, and where it declares keys and says nothing about others: code that
        sends or reads undeclared keys does so at its own risk.
        """
        values = [
            atom["additionalProperties"]
            for atom in self.atoms
            if isinstance(atom.get("additionalProperties"), dict | bool) and not part(atom, "patternProperties", dict)
        ]
        if False in values:
            return None
        schemas = tuple(value for value in values if isinstance(value, dict))
        if schemas or self.patterned or True in values:
            return schemas
        return None if self.top or self.declared else ()

    @cached_property
    def patterned(self) -> bool:
        """True if patterns say which schema holds for which key."""
        return any(part(atom, "patternProperties", dict) for atom in self.atoms)

    def lacks(self, key: str) -> bool:
        """True if no value has `key`, as far as the interface goes: it is undeclared beside keys that are declared."""
        if key in self.declared or key in self.required:
            return False
        return self.others is None or (self.others == () and bool(self.declared) and not self.patterned)

    def item(self, position: int) -> tuple[Any, ...]:
        """The schemas that hold for the item at this position; past all lists of positions, for every further item."""
        found = []
        for atom in self.atoms:
            first, rest = positions(atom, dialect=self.dialect)
            if position < len(first):
                found.append(first[position])
            elif rest is not None:
                found.append(rest)
        return tuple(found)

    def positioned(self) -> int:
        """The number of first items with schemas of their own."""
        return max((len(positions(atom, dialect=self.dialect)[0]) for atom in self.atoms), default=0)

    def _numbers(self, keyword: str) -> list[int | float]:
        found = [atom.get(keyword) for atom in self.atoms]
        return [limit for limit in found if isinstance(limit, int | float) and not isinstance(limit, bool)]


def cases_of(document: Document, schemas: Iterable[object], budget: Budget, *, top: bool = False) -> list[Case]:
    """The ways to fit all of `schemas`; none if nothing fits. Alternatives past the limit are left unread."""
    work = [(list(schemas), list[dict[str, Any]](), set[int](), list[list[Any]]())]
    done: list[Case] = []
    while work:
        todo, atoms, seen, choices = work.pop()
        if not _collect(document, todo, atoms, seen, choices, budget):
            continue
        while choices:
            branches = choices.pop()
            if len(done) + len(work) + len(branches) <= _CASES:
                budget.spend(len(branches) * (1 + len(atoms)))
                work += [([branch], [*atoms], {*seen}, [*choices]) for branch in reversed(branches)]
                break
        else:
            budget.spend(sum(map(_extent, atoms)) // 8)
            case = Case(tuple(atoms), top=top, dialect=document.dialect)
            if case.kinds:
                done.append(case)
    return done


def part(schema: Mapping[str, Any], keyword: str, kind: type) -> Any:
    """The value under a keyword, or an empty `kind` if it is something else."""
    found = schema.get(keyword)
    return found if isinstance(found, kind) else kind()


def positions(schema: dict[str, Any], *, dialect: Dialect) -> tuple[list[Any], Any]:
    """The schemas of the first items, and that of the rest; `None` if nothing is said of it."""
    items = schema.get("items")
    if dialect == "2020":
        return part(schema, "prefixItems", list), items if isinstance(items, dict | bool) else None
    if not isinstance(items, list):
        return [], items if isinstance(items, dict | bool) else None
    rest = schema.get("additionalItems")
    return items, rest if isinstance(rest, dict | bool) else None


def kind_of(value: object) -> str:
    """The kind of a JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "fraction"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def kinds_of(schema: dict[str, Any]) -> frozenset[str] | None:
    """The kinds that the `type` of a schema lets through; `None` if it has none, or one that does not exist."""
    said = schema.get("type")
    names = said if isinstance(said, list) else [said]
    known = [_NAMES[name] for name in names if isinstance(name, str) and name in _NAMES]
    if not names or len(known) < len(names):
        return None
    kinds = frozenset[str]().union(*known)
    return kinds | {NULLABLE} if "null" in kinds or schema.get("nullable") is True else kinds


def _collect(
    document: Document,
    todo: list[Any],
    atoms: list[dict[str, Any]],
    seen: set[int],
    choices: list[list[Any]],
    budget: Budget,
) -> bool:
    """Take all that holds for sure out of `todo`, in order; false if nothing can fit."""
    for schema in todo:  # it grows
        if schema is False:
            return False
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        budget.spend()
        seen.add(id(schema))
        if "$ref" in schema:
            todo.append(document.target(schema["$ref"]))
            if document.dialect.startswith("draft"):
                continue
        if document.dialect in ("draft-03", "draft-04") and not _YOUNGER.isdisjoint(schema):
            continue
        atoms.append(schema)
        todo += part(schema, "allOf", list)
        choices += [branches for key in ("anyOf", "oneOf") if (branches := part(schema, key, list))]
    return True


def _extent(schema: dict[str, Any]) -> int:
    """The number of things that a schema lists: the cost of reading it."""
    return len(part(schema, "enum", list)) + len(part(schema, "required", list)) + len(part(schema, "properties", dict))


def _values(atoms: tuple[dict[str, Any], ...]) -> list[Any] | None:
    """The values that all `enum` and `const` of the atoms share; `None` if there are none, or one holds others."""
    lists = [part(atom, "enum", list) for atom in atoms if "enum" in atom]
    lists += [[atom["const"]] for atom in atoms if "const" in atom]
    if not lists or not all(lists):
        return None
    found: list[Any] = lists[0]
    if any(isinstance(value, dict | list) for values in lists for value in values):
        return found if len(lists) == 1 else None
    for values in lists[1:]:
        allowed = {scalar(value) for value in values}
        found = [value for value in found if scalar(value) in allowed]
    return found
