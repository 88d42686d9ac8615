"""Proofs that a tool with a changed schema still takes what it took, or still gives what it gave.

`compatible` is proven: with an input schema every value that fitted still fits, with an output schema every value that
fits now would have fitted. `breaking` is everything else, also what is too large, too deep or too strange to judge.

Keys that a schema neither declares nor gives a schema to are not part of the interface: a tool may declare such a key
later and it may begin to refuse unknown ones. A key that was declared must stay declared, even where the schema would
let it pass as an unknown one. What an explicit `additionalProperties: true` promised may not be withdrawn.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

from sealyard.versioning.compare.schemas import (
    NULLABLE,
    Bound,
    Budget,
    Case,
    Document,
    Exhausted,
    Numbers,
    TooLarge,
    cases_of,
    kind_of,
    kinds_of,
    part,
    place_of,
    positions,
    scalar,
)

Limit = Callable[[Case, str, dict[str, Any]], bool]
"""True if every value of a case and kind meets a keyword of a goal; false also if that is not known."""

OBJECT = frozenset({"object"})
_NUMBER = frozenset({"integer", "fraction"})
_STRING = frozenset({"string"})
_ARRAY = frozenset({"array"})


def at_least(found: float | None, wanted: Any) -> bool:
    """True if a known lower limit, if any, is as strict as the wanted one of a length."""
    return _is_number(wanted) and (wanted <= 0 or (found is not None and found >= wanted))


def at_most(found: float | None, wanted: Any) -> bool:
    """True if a known upper limit, if any, is as strict as the wanted one."""
    return _is_number(wanted) and found is not None and found <= wanted


def _type(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    kinds = kinds_of(goal)
    return kinds is not None and kind in kinds


def _enum(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    return _is_among(case, kind, goal["enum"])


def _const(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    return _is_among(case, kind, [goal["const"]])


def _is_among(case: Case, kind: str, allowed: object) -> bool:
    values = case.of_kind(kind)
    if values is None and kind in ("null", "boolean"):
        values = [None] if kind == "null" else [False, True]
    if values is None or not isinstance(allowed, list):
        return False
    known = {scalar(value) for value in allowed}
    return all(not isinstance(value, dict | list) and scalar(value) in known for value in values)


def _minimum(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    return _is_bounded(case, kind, _wanted(goal, "minimum", "exclusiveMinimum"), case.lower(), 1)


def _maximum(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    return _is_bounded(case, kind, _wanted(goal, "maximum", "exclusiveMaximum"), case.upper(), -1)


def _is_bounded(case: Case, kind: str, wanted: Bound | None, found: Bound | None, direction: int) -> bool:
    """True if all values lie within the wanted bound, or a known one is as strict; `direction` is 1 for lower ones."""
    if wanted is None:
        return False
    values = case.of_kind(kind)
    if values is not None:
        return all(_is_within((value, False), wanted, direction) for value in values)
    return found is not None and _is_within(_whole(found, kind, direction), _whole(wanted, kind, direction), direction)


def _is_within(found: Bound, wanted: Bound, direction: int) -> bool:
    if found[0] == wanted[0]:
        return found[1] or not wanted[1]
    return (found[0] > wanted[0]) == (direction > 0)


def _whole(bound: Bound, kind: str, step: int) -> Bound:
    """For integers, `more than 4` is `at least 5`."""
    limit, excluded = bound
    return (limit + step, False) if kind == "integer" and excluded and isinstance(limit, int) else bound


def _wanted(goal: dict[str, Any], keyword: str, exclusive: str) -> Bound | None:
    """The bound that a goal sets; `None` if it sets none."""
    limit, strict = goal.get(keyword), goal.get(exclusive)
    if isinstance(strict, bool) or strict is None:  # as an old draft writes it
        return (limit, strict is True) if isinstance(limit, int | float) and _is_number(limit) else None
    if not isinstance(strict, int | float):
        return None
    if limit is None:
        return strict, True
    if not isinstance(limit, int | float) or not _is_number(limit):
        return None
    stricter = strict >= limit if keyword == "minimum" else strict <= limit
    return (strict, True) if stricter else (limit, False)


def _multiple(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    step = goal["multipleOf"]
    if not _is_int(step) or step <= 0:
        return False
    values = case.of_kind(kind)
    if values is not None:
        return all(_is_int(value) and value % step == 0 for value in values)
    known = [atom.get("multipleOf") for atom in case.atoms]
    return (step == 1 and kind == "integer") or any(_is_int(value) and value % step == 0 for value in known)


def _shortest(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    values = case.of_kind(kind)
    return at_least(min(map(len, values)) if values else case.most("minLength"), goal["minLength"])


def _longest(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    values = case.of_kind(kind)
    return at_most(max(map(len, values)) if values else case.least("maxLength"), goal["maxLength"])


def _fewest_items(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    return at_least(case.most("minItems"), goal["minItems"])


def _most_items(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    return at_most(case.least("maxItems"), goal["maxItems"])


def _unique(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    most = case.least("maxItems")
    return goal["uniqueItems"] is False or case.has("uniqueItems", True) or (most is not None and most <= 1)


def _required(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    wanted = goal["required"]
    return isinstance(wanted, list) and all(isinstance(key, str) and key in case.required for key in wanted)


def _fewest(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    return at_least(max(len(case.required), case.most("minProperties") or 0), goal["minProperties"])


def _most(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    found = case.least("maxProperties")
    if case.others is None:  # no keys but these
        count = len({*case.declared, *case.required})
        found = count if found is None else min(count, found)
    return at_most(found, goal["maxProperties"])


def _unproven(case: Case, kind: str, goal: dict[str, Any]) -> bool:
    return False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


LIMITS: dict[str, tuple[frozenset[str] | None, Limit]] = {
    "type": (None, _type),
    "enum": (None, _enum),
    "const": (None, _const),
    "minimum": (_NUMBER, _minimum),
    "exclusiveMinimum": (_NUMBER, _minimum),
    "maximum": (_NUMBER, _maximum),
    "exclusiveMaximum": (_NUMBER, _maximum),
    "multipleOf": (_NUMBER, _multiple),
    "minLength": (_STRING, _shortest),
    "maxLength": (_STRING, _longest),
    "pattern": (_STRING, _unproven),
    "format": (_STRING, _unproven),
    "minItems": (_ARRAY, _fewest_items),
    "maxItems": (_ARRAY, _most_items),
    "uniqueItems": (_ARRAY, _unique),
    "contains": (_ARRAY, _unproven),
    "unevaluatedItems": (_ARRAY, _unproven),
    "required": (OBJECT, _required),
    "minProperties": (OBJECT, _fewest),
    "maxProperties": (OBJECT, _most),
    "dependentRequired": (OBJECT, _unproven),
    "dependentSchemas": (OBJECT, _unproven),
    "dependencies": (OBJECT, _unproven),
    "unevaluatedProperties": (OBJECT, _unproven),
    "$dynamicRef": (None, _unproven),
    "$recursiveRef": (None, _unproven),
    "if": (None, _unproven),
    "then": (None, _unproven),
    "else": (None, _unproven),
}
"""Keyword -> the kinds of values that it says something of (`None`: all), and its check."""


Keep = Literal["left", "right"]

_LEVELS = 100  # each takes about five frames of Python's stack
_SPLIT = 64
_TEXT = {"type": "string"}
_ARRAY = frozenset({"array"})
# Keyword -> the kinds of values that it says something of; `None`: all.
_STRUCTURE: dict[str, frozenset[str] | None] = {
    **dict.fromkeys(("items", "prefixItems", "additionalItems"), _ARRAY),
    **dict.fromkeys(("properties", "additionalProperties", "patternProperties", "propertyNames"), OBJECT),
    **dict.fromkeys(("$ref", "allOf", "anyOf", "oneOf", "not"), None),
}
_ALL = {**_STRUCTURE, **{keyword: kinds for keyword, (kinds, _) in LIMITS.items()}}
# Keywords that mean something only together.
_GROUPS = {
    "minimum": ("minimum", "exclusiveMinimum"),
    "maximum": ("maximum", "exclusiveMaximum"),
    "contains": ("contains", "minContains", "maxContains"),
    "additionalProperties": ("additionalProperties", "properties", "patternProperties"),
    **dict.fromkeys(("if", "then", "else"), ("if", "then", "else")),
    **dict.fromkeys(("items", "prefixItems", "additionalItems"), ("items", "prefixItems", "additionalItems")),
    # What these say depends on everything beside them, or on where they are reached from.
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "$ref", "$dynamicRef", "$recursiveRef"), ()),
}


class Prover:
    """Proves that what fits schemas of `left` fits schemas of `right`, both numbered by `numbers`.

    `keep` says whose declared keys must be declared by the other: `left` where `left` is what callers send, `right`
    where `right` is what readers look for. With `growing`, a schema that forbids undeclared keys does not: readers
    ignore what they do not know.
    """

    def __init__(
        self, left: Document, right: Document, *, numbers: Numbers, budget: Budget, keep: Keep, growing: bool = False
    ) -> None:
        self.left = left
        self.right = right
        self._numbers = numbers
        self._budget = budget
        self._keep = keep
        self._growing = growing
        self._level = 0
        self._open: set[object] = set()
        self._known: dict[object, tuple[bool, object]] = {}
        self._proven: list[object] = []

    def proves(self, facts: Iterable[object], goal: object, *, top: bool = False) -> bool:
        """True if every value that fits all `facts` fits `goal`; `top` if it is the arguments of a tool.

        Raises:
            Exhausted: The budget is used up.
        """
        self._budget.spend()
        facts = tuple(facts)
        if goal is True or goal == {} or any(self.same(fact, goal) for fact in facts):
            return True
        key = (tuple(map(id, facts)), id(goal), top)
        if key in self._open:
            return True  # it is being proven, and this is a part of that value
        if key in self._known:
            return self._known[key][0]
        self._open.add(key)
        begin = len(self._proven)
        result = self._try(facts, goal, top=top)
        self._open.discard(key)
        if not result:
            # What was proven on the assumption that just failed is not proven.
            for other in self._proven[begin:]:
                del self._known[other]
            del self._proven[begin:]
        else:
            self._proven.append(key)
        self._known[key] = result, (facts, goal)  # kept alive: the key is made of their addresses
        return result

    def same(self, fact: object, goal: object, keyword: str | None = None) -> bool:
        """True if two parts are equal, with all that they refer to."""
        place = "schema" if keyword is None else place_of(keyword, goal)
        if not self._numbers.same(fact, goal, place):
            return False
        if self.left.root is self.right.root:
            return True
        if self.left.dialect != self.right.dialect and self._numbers.is_disputed(goal, place):
            return False
        references = self._numbers.references(goal, place)
        return references is not None and (not references or self._lead_to_same(references))

    def satisfies(self, case: Case, kind: str, goal: object, *, without: frozenset[str] = frozenset()) -> bool:
        """True if every value of this case and kind fits `goal`, leaving out some of its keywords."""
        self._level += 1
        satisfied = self._level < _LEVELS and self._satisfies(case, kind, goal, without)
        self._level -= 1
        return satisfied

    def excludes(self, case: Case, kind: str, goal: object) -> bool:
        """True if no value of this case and kind fits `goal`."""
        self._level += 1
        excluded = self._level < _LEVELS and self._excludes(case, kind, goal)
        self._level -= 1
        return excluded

    def inside(self, facts: Iterable[object], goal: object) -> bool:
        """`proves` for a part of the value."""
        self._level += 1
        proven = self.proves(facts, goal)
        self._level -= 1
        return proven

    def _satisfies(self, case: Case, kind: str, goal: object, without: frozenset[str]) -> bool:
        self._budget.spend(1 + len(case.atoms) // 8)
        if isinstance(goal, bool) or not isinstance(goal, dict):
            return goal is True
        self._budget.spend((len(part(goal, "enum", list)) + len(part(goal, "required", list))) // 8)
        if any(self.same(atom, goal) for atom in case.atoms):
            return True
        if kind == NULLABLE:
            # What else the case says does not hold for this null.
            return goal.get("nullable") is True or self.satisfies(Case(()), "null", goal, without=without)
        for keyword in goal.keys() & _ALL.keys() - without:
            kinds = _ALL[keyword]
            if (kinds is None or kind in kinds) and not self._is_held(case, goal, keyword):
                if keyword in LIMITS:
                    fits = LIMITS[keyword][1](case, kind, goal)
                else:
                    fits = self._fits(case, kind, goal, keyword)
                if not fits:
                    return False
        return True

    def _excludes(self, case: Case, kind: str, goal: object) -> bool:
        self._budget.spend()
        if isinstance(goal, bool) or not isinstance(goal, dict):
            return goal is False
        if kind == NULLABLE:
            return False
        if "$ref" in goal:
            return self.excludes(case, kind, self.right.target(goal["$ref"]))
        kinds = kinds_of(goal)
        if kinds is not None and kind not in kinds:
            return True
        if self._has_other_values(case, kind, goal) or self._has_other_fields(case, kind, goal):
            return True
        if any(self.excludes(case, kind, every) for every in part(goal, "allOf", list)):
            return True
        return any(
            all(self.excludes(case, kind, branch) for branch in branches)
            for keyword in ("anyOf", "oneOf")
            if (branches := part(goal, keyword, list))
        )

    def _try(self, facts: tuple[object, ...], goal: object, *, top: bool) -> bool:
        cases = cases_of(self.left, facts, self._budget, top=top)
        if not all(self.satisfies(case, kind, goal) for case in cases for kind in case.kinds):
            return False
        cases = [case for case in cases if "object" in case.kinds]
        return not cases or self._keeps_names(cases, goal, top=top)

    def _keeps_names(self, cases: list[Case], goal: object, *, top: bool) -> bool:
        """True if no key that callers may send, or readers may look for, is gone."""
        goals = [case for case in cases_of(self.right, [goal], self._budget, top=top) if "object" in case.kinds]
        left = {key for case in cases for key in case.declared}
        right = {key for case in goals for key in case.declared}
        if self._keep == "left":
            return left <= right or any(case.others is not None for case in goals)
        return right <= left or any(case.others is not None for case in cases)

    def _lead_to_same(self, references: frozenset[str]) -> bool:
        """True if references lead to equal parts in both documents, which again do."""
        if self.left.rebased or self.right.rebased:
            return False
        todo, seen = list(references), set(references)
        while todo:
            self._budget.spend()
            reference = todo.pop()
            target = self.right.target(reference)
            more = self._numbers.references(target, "schema")
            if more is None or not self._numbers.same(self.left.target(reference), target):
                return False
            todo += more - seen
            seen |= more
        return True

    def _is_held(self, case: Case, goal: dict[str, Any], keyword: str) -> bool:
        """True if an atom says the same under `keyword` and all that it goes with."""
        group = _GROUPS.get(keyword, (keyword,))
        return bool(group) and any(
            all(
                (key in atom) == (key in goal) and (key not in goal or self.same(atom[key], goal[key], key))
                for key in group
            )
            for atom in case.atoms
        )

    def _fits(self, case: Case, kind: str, goal: dict[str, Any], keyword: str) -> bool:
        """True if every value of this case and kind fits a keyword that holds schemas."""
        wanted = goal[keyword]
        match keyword:
            case "$ref":
                target = self.right.target(wanted)
                return target is not None and self.satisfies(case, kind, target)
            case "allOf":
                return isinstance(wanted, list) and all(self.satisfies(case, kind, every) for every in wanted)
            case "anyOf":
                return isinstance(wanted, list) and self._fits_some(case, kind, wanted)
            case "oneOf":
                return isinstance(wanted, list) and self._fits_one(case, kind, wanted)
            case "not":
                return self.excludes(case, kind, wanted)
            case "properties":
                return isinstance(wanted, dict) and all(
                    case.lacks(key) or self.inside(case.under(key), schema) for key, schema in wanted.items()
                )
            case "additionalProperties":
                return self._fits_others(case, wanted, part(goal, "properties", dict))
            case "patternProperties":
                return isinstance(wanted, dict) and all(
                    self._fits_others(case, schema, {}) for schema in wanted.values()
                )
            case "propertyNames":
                return self._fits_names(case, wanted)
            case _:
                return self._fits_items(case, goal)

    def _fits_some(self, case: Case, kind: str, branches: list[Any]) -> bool:
        if any(self.satisfies(case, kind, branch) for branch in branches):
            return True
        return self._each(case, kind, lambda single: self._fits_some(single, kind, branches))

    def _fits_one(self, case: Case, kind: str, branches: list[Any]) -> bool:
        for number, branch in enumerate(branches):
            if self.satisfies(case, kind, branch):
                self._budget.spend(len(branches))
                others = branches[:number] + branches[number + 1 :]
                return all(self.excludes(case, kind, other) for other in others)
        return self._each(case, kind, lambda single: self._fits_one(single, kind, branches))

    def _each(self, case: Case, kind: str, check: Callable[[Case], bool]) -> bool:
        """True if a check holds for each single value of a case that has few."""
        values = case.of_kind(kind)
        if values is None or not 1 < len(values) <= _SPLIT or any(isinstance(value, dict | list) for value in values):
            return False
        return all(check(Case((*case.atoms, {"const": value}), top=case.top, dialect=case.dialect)) for value in values)

    def _fits_others(self, case: Case, wanted: object, named: dict[str, Any]) -> bool:
        """True if the values of all keys that are not `named` fit."""
        if wanted is False and self._growing:
            return True
        keys = [key for key in {**case.declared, **dict.fromkeys(case.required)} if key not in named]
        if not all(self.inside(case.under(key), wanted) for key in keys):
            return False
        return case.others is None or self.inside(case.others, wanted)

    def _fits_names(self, case: Case, wanted: object) -> bool:
        keys = {**case.declared, **dict.fromkeys(case.required)}
        if not all(self.inside([{"const": key}], wanted) for key in keys):
            return False
        facts = [atom["propertyNames"] for atom in case.atoms if "propertyNames" in atom]
        return case.others is None or self.inside([_TEXT, *facts], wanted)

    def _fits_items(self, case: Case, goal: dict[str, Any]) -> bool:
        items = goal.get("items", True)
        if self.right.dialect == "2020":
            is_known = isinstance(items, dict | bool) and isinstance(goal.get("prefixItems", []), list)
        else:
            is_known = isinstance(items, dict | bool | list) and "prefixItems" not in goal
        if not is_known:
            return False
        first, rest = positions(goal, dialect=self.right.dialect)
        count, most = max(case.positioned(), len(first)), case.least("maxItems")
        # The item after all that have schemas of their own stands for every further one.
        checked = count + 1 if most is None or most > count else int(most)
        return all(
            self.inside(case.item(place), first[place] if place < len(first) else True if rest is None else rest)
            for place in range(checked)
        )

    def _has_other_values(self, case: Case, kind: str, goal: dict[str, Any]) -> bool:
        """True if the goal lists values and none is of this case."""
        allowed = goal["enum"] if "enum" in goal else [goal["const"]] if "const" in goal else None
        if not isinstance(allowed, list):
            return False
        self._budget.spend(len(allowed) // 8)
        if all(kind_of(value) != kind for value in allowed):
            return True
        values = case.of_kind(kind)
        if values is None or any(isinstance(value, dict | list) for value in [*values, *allowed]):
            return False
        return {scalar(value) for value in values}.isdisjoint(scalar(value) for value in allowed)

    def _has_other_fields(self, case: Case, kind: str, goal: dict[str, Any]) -> bool:
        """True if every object of this case has a key whose value the goal does not take."""
        if kind != "object":
            return False
        wanted = part(goal, "properties", dict)
        for key in case.required & wanted.keys():
            inside = cases_of(self.left, case.under(key), self._budget)
            if all(self.excludes(one, each, wanted[key]) for one in inside for each in one.kinds):
                return True
        return False


Schema = dict[str, Any] | bool
Verdict = Literal["compatible", "breaking"]

STEPS = 10_000
"""The cost that one comparison may have, in steps of a proof."""


def input_verdict(before: Schema, after: Schema, *, top: bool = True) -> Verdict:
    """True if every value that fits `before` fits `after`. `top`: they are schemas of a tool's arguments."""
    return _verdict(before, after, keep="left", top=top)


def output_verdict(before: Schema, after: Schema) -> Verdict:
    """True if every value that fits `after` fits `before`."""
    return _verdict(after, before, keep="right", top=False)


def _verdict(left: Schema, right: Schema, *, keep: Literal["left", "right"], top: bool) -> Verdict:
    if left is right:
        return "compatible"
    documents, numbers = (Document(left), Document(right)), Numbers()
    try:
        for document in documents:
            numbers.add(document)
        prover = Prover(*documents, numbers=numbers, budget=Budget(STEPS), keep=keep)
        return "compatible" if prover.proves([left], right, top=top) else "breaking"
    except (TooLarge, Exhausted, RecursionError):  # the last one only where the caller is deep down already
        return "breaking"
