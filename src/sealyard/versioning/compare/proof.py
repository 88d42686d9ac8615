"""Proofs that a tool with a changed schema still takes what it took, or still gives what it gave.

With an input schema every value that fitted has to fit still, and with an output schema every value that fits now has
to be one that fitted before.

Keys that a schema neither declares nor gives a schema to are not part of the interface: a tool may declare such a key
later and it may begin to refuse unknown ones. A key that was declared must stay declared, even where the schema would
let it pass as an unknown one. What an explicit `additionalProperties: true` promised may not be withdrawn.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeGuard

from sealyard.versioning.compare.schemas import (
    NULLABLE,
    RANGES,
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

Keep = Literal["left", "right"]

_LEVELS = 100  # each takes about five frames of Python's stack
_SPLIT = 64  # values of one case that are looked at one by one: a bound on the cost
_TEXT = {"type": "string"}
_CONDITION = ("if", "then", "else")
_ITEMS = ("items", "prefixItems", "additionalItems")
_KEYWORDS: dict[frozenset[str] | None, str] = {
    None: "type enum const $ref $dynamicRef $recursiveRef allOf anyOf oneOf not if then else",
    frozenset({"integer", "fraction"}): "minimum exclusiveMinimum maximum exclusiveMaximum multipleOf",
    frozenset({"string"}): "minLength maxLength pattern format",
    frozenset({"array"}): ("items prefixItems additionalItems minItems maxItems uniqueItems contains unevaluatedItems"),
    frozenset({"object"}): (
        "properties additionalProperties patternProperties propertyNames required minProperties maxProperties"
        " dependentRequired dependentSchemas dependencies unevaluatedProperties"
    ),
}
"""The kinds of values (`None`: all), and the keywords that say something of them."""
_KINDS = {keyword: kinds for kinds, keywords in _KEYWORDS.items() for keyword in keywords.split()}
# Keywords that mean something only together.
_GROUPS = {
    "minimum": ("minimum", "exclusiveMinimum"),
    "maximum": ("maximum", "exclusiveMaximum"),
    "contains": ("contains", "minContains", "maxContains"),
    "additionalProperties": ("additionalProperties", "properties", "patternProperties"),
    **dict.fromkeys(_CONDITION, _CONDITION),
    **dict.fromkeys(_ITEMS, _ITEMS),
    # What these say depends on everything beside them, or on where they are reached from.
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "$ref", "$dynamicRef", "$recursiveRef"), ()),
}


def _is_limited(case: Case, kind: str, goal: dict[str, Any], keyword: str) -> bool:
    """True if every value of a case and kind meets a keyword without schemas; false also if that is not known."""
    wanted = goal[keyword]
    match keyword:
        case "type":
            kinds = kinds_of(goal)
            return kinds is not None and kind in kinds
        case "enum":
            return _is_among(case, kind, wanted)
        case "const":
            return _is_among(case, kind, [wanted])
        case "minimum" | "exclusiveMinimum":
            return _is_bounded(case, kind, goal, 1)
        case "maximum" | "exclusiveMaximum":
            return _is_bounded(case, kind, goal, -1)
        case "multipleOf":
            return _is_multiple(case, kind, wanted)
        case "minLength":
            values = case.of_kind(kind)
            return _is_at_least(min(map(len, values)) if values else case.most(keyword), wanted)
        case "maxLength":
            values = case.of_kind(kind)
            return _is_at_most(max(map(len, values)) if values else case.least(keyword), wanted)
        case "minItems":
            return _is_at_least(case.most(keyword), wanted)
        case "maxItems":
            return _is_at_most(case.least(keyword), wanted)
        case "uniqueItems":
            most = case.least("maxItems")
            return wanted is False or case.has(keyword, True) or (most is not None and most <= 1)
        case "required":
            return isinstance(wanted, list) and all(isinstance(key, str) and key in case.required for key in wanted)
        case "minProperties":
            return _is_at_least(max(len(case.required), case.most(keyword) or 0), wanted)
        case "maxProperties":
            limits = [case.least(keyword)]
            if case.others is None:  # no keys but these
                limits.append(len(case.names))
            return _is_at_most(min((limit for limit in limits if limit is not None), default=None), wanted)
    return False  # `pattern`, `format`, `if` and the like: nothing is proven of them


def _is_at_least(found: float | None, wanted: Any) -> bool:
    """True if a known lower limit, if any, is as strict as the wanted one of a length."""
    return _is_number(wanted) and (wanted <= 0 or (found is not None and found >= wanted))


def _is_at_most(found: float | None, wanted: Any) -> bool:
    return _is_number(wanted) and found is not None and found <= wanted


def _is_among(case: Case, kind: str, allowed: object) -> bool:
    values = case.of_kind(kind)
    if values is None and kind in ("null", "boolean"):
        values = [None] if kind == "null" else [False, True]
    if values is None or not isinstance(allowed, list):
        return False
    known = {scalar(value) for value in allowed}
    return all(not isinstance(value, dict | list) and scalar(value) in known for value in values)


def _is_bounded(case: Case, kind: str, goal: dict[str, Any], sign: int) -> bool:
    """True if all values lie above the lower bound of a goal; with a `sign` of -1, below the upper one."""
    wanted = _wanted(goal, sign)
    if wanted is None:
        return False
    values = case.of_kind(kind)
    if values is not None:
        return all((sign * value, False) >= wanted for value in values)
    found = case.bound(sign)
    return found is not None and _whole(found, kind) >= _whole(wanted, kind)


def _whole(bound: Bound, kind: str) -> Bound:
    """For integers, `more than 4` is `at least 5`."""
    limit, excluded = bound
    return (limit + 1, False) if kind == "integer" and excluded and isinstance(limit, int) else bound


def _wanted(goal: dict[str, Any], sign: int) -> Bound | None:
    """The bound that a goal sets; `None` if it sets none, or one that cannot be read."""
    limit, strict = (goal.get(keyword) for keyword in RANGES[sign])
    if isinstance(strict, bool) or strict is None:  # as an old draft writes it
        return (sign * limit, strict is True) if _is_number(limit) else None
    if not _is_number(strict) or not (limit is None or _is_number(limit)):
        return None
    return max((sign * strict, True), (sign * (strict if limit is None else limit), False))


def _is_multiple(case: Case, kind: str, step: Any) -> bool:
    if not _is_int(step) or step <= 0:
        return False
    values = case.of_kind(kind)
    if values is not None:
        return all(_is_int(value) and value % step == 0 for value in values)
    known = [atom.get("multipleOf") for atom in case.atoms]
    return (step == 1 and kind == "integer") or any(_is_int(value) and value % step == 0 for value in known)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


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
        for keyword in goal.keys() & _KINDS.keys() - without:
            kinds = _KINDS[keyword]
            is_said = kinds is None or kind in kinds
            if is_said and not self._is_held(case, goal, keyword) and not self._fits(case, kind, goal, keyword):
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
        """True if every value of this case and kind fits what a goal says under a keyword."""
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
            case "items" | "prefixItems" | "additionalItems":
                return self._fits_items(case, goal)
        return _is_limited(case, kind, goal, keyword)

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
        if not all(self.inside(case.under(key), wanted) for key in case.names if key not in named):
            return False
        return case.others is None or self.inside(case.others, wanted)

    def _fits_names(self, case: Case, wanted: object) -> bool:
        if not all(self.inside([{"const": key}], wanted) for key in case.names):
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

STEPS = 10_000
"""The cost that one comparison may have, in steps of a proof."""


def is_proven(left: Schema, right: Schema, *, keep: Keep = "left", top: bool = False) -> bool:
    """True if every value that fits `left` provably fits `right`; `top` if they are schemas of a tool's arguments.

    What is too large, too deep or too strange to judge is not proven. `keep` is that of `Prover`.
    """
    if left is right:
        return True
    documents = Document(left), Document(right)
    try:
        prover = Prover(*documents, numbers=Numbers(*documents), budget=Budget(STEPS), keep=keep)
        return prover.proves([left], right, top=top)
    except (TooLarge, Exhausted, RecursionError):  # the last one only where the caller is deep down already
        return False
