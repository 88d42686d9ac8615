"""A schema as cases: each a list of plain schemas that hold together, with what they say about a value.

Whatever is too much, too deep or no schema says nothing: a case may know less than the schema says, never more.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from sealyard.versioning.compare.schemas import Dialect, Document, scalar

KINDS = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
"""Of values; a number is an integer or a fraction."""
NULLABLE = "nullable"
"""The null that a schema allows by OpenAPI's `nullable: true`, which is no JSON Schema."""

_CASES = 64
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
"""A limit, and whether it is itself excluded."""


class Exhausted(Exception):
    """The work that a comparison may cost is used up."""


class Budget:
    """How many steps a comparison may still take."""

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
        """Whether the value is the arguments of a tool."""
        self.dialect: Dialect = dialect
        self.values = _values(atoms)
        """All that the value can be, if it is one of a few."""
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

    def least(self, *keywords: str) -> int | float | None:
        """The strictest upper limit that its atoms set by one of `keywords`."""
        return min(self._numbers(keywords), default=None)

    def most(self, *keywords: str) -> int | float | None:
        """The strictest lower limit."""
        return max(self._numbers(keywords), default=None)

    def lower(self) -> Bound | None:
        """The strictest lower bound of a number."""
        found = [(limit, False) for limit in self._numbers(("minimum",))]
        found += [(limit, True) for limit in self._numbers(("exclusiveMinimum",))]
        return max(found, default=None)

    def upper(self) -> Bound | None:
        """The strictest upper bound of a number."""
        found = [(limit, False) for limit in self._numbers(("maximum",))]
        found += [(limit, True) for limit in self._numbers(("exclusiveMaximum",))]
        return min(found, key=lambda bound: (bound[0], not bound[1]), default=None)

    def has(self, keyword: str, value: object) -> bool:
        """Whether an atom has this scalar under `keyword`."""
        return any(keyword in atom and scalar(atom[keyword]) == scalar(value) for atom in self.atoms)

    @cached_property
    def required(self) -> set[str]:
        """The keys that are in every object."""
        return {key for atom in self.atoms for key in part(atom, "required", list) if isinstance(key, str)}

    @cached_property
    def declared(self) -> dict[str, None]:
        """The keys that objects are said to have, in order."""
        return {key: None for atom in self.atoms for key in part(atom, "properties", dict) if isinstance(key, str)}

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
        sends or reads what nobody declared does so at its own risk.
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
        """Whether patterns say which schema holds for which key."""
        return any(part(atom, "patternProperties", dict) for atom in self.atoms)

    def lacks(self, key: str) -> bool:
        """Whether no value has `key`, as far as the interface goes: it is undeclared beside keys that are declared."""
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
        """How many first items have schemas of their own."""
        return max((len(positions(atom, dialect=self.dialect)[0]) for atom in self.atoms), default=0)

    def _numbers(self, keywords: Iterable[str]) -> list[int | float]:
        found = [atom.get(keyword) for atom in self.atoms for keyword in keywords]
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
    """What stands under a keyword, or an empty `kind` if that is something else."""
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
    """How many things a schema lists: what it costs to read it."""
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
