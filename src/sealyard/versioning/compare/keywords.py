"""What each keyword of a schema that looks at one value alone demands, and whether all values of a case meet it."""

from collections.abc import Callable
from typing import Any

from sealyard.versioning.compare.cases import Bound, Case, kinds_of
from sealyard.versioning.compare.schemas import scalar

Limit = Callable[[Case, str, dict[str, Any]], bool]
"""Whether every value of a case and kind meets a keyword of a goal; false also if that is not known."""

OBJECT = frozenset({"object"})
_NUMBER = frozenset({"integer", "fraction"})
_STRING = frozenset({"string"})
_ARRAY = frozenset({"array"})


def at_least(found: float | None, wanted: Any) -> bool:
    """Whether a known lower limit, if any, is as strict as the wanted one of a length."""
    return _is_number(wanted) and (wanted <= 0 or (found is not None and found >= wanted))


def at_most(found: float | None, wanted: Any) -> bool:
    """Whether a known upper limit, if any, is as strict as the wanted one."""
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
    """Whether all values lie within the wanted bound, or a known one is as strict; `direction` is 1 for lower ones."""
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
    """The bound that a goal sets; `None` if what stands there is none."""
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
