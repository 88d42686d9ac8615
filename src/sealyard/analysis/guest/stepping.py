"""Reads the steps of a transformation, each an object of one key, and the parameters that other analyses share."""

from collections.abc import Callable
from typing import Any

from .conditions import parse_conditions
from .errors import AnalysisError, listed, nearest, shown
from .expressions import parse_expression
from .parameters import (
    MAX_ITEMS,
    as_count,
    as_flag,
    as_list,
    as_names,
    as_object,
    as_text,
    as_word,
    below,
    only,
    repeated,
)
from .plan import (
    Cast,
    CastTo,
    CastType,
    Compute,
    Distinct,
    Drop,
    Explode,
    Field,
    Flatten,
    Join,
    JoinKind,
    Rename,
    Select,
    Slice,
    Sort,
    SortKey,
    Step,
    Unpivot,
    Where,
)
from .reductions import outputs, parse_group, parse_pivot
from .sources import parse_source

_CASTS: dict[str, CastType] = {
    "int": "int",
    "integer": "int",
    "float": "float",
    "number": "float",
    "str": "str",
    "string": "str",
    "text": "str",
    "bool": "bool",
    "boolean": "bool",
    "date": "date",
    "datetime": "datetime",
}
_JOINS: dict[str, JoinKind] = {"inner": "inner", "left": "left", "right": "right", "outer": "outer", "full": "outer"}
_DIRECTIONS = {"asc": False, "ascending": False, "desc": True, "descending": True}


def parse_steps(given: Any, at: str) -> list[Step]:
    """The steps of a list, in its order.

    Raises:
        AnalysisError: One cannot be read; the message names its place.
    """
    steps: list[Step] = []
    for place, each in enumerate(as_list(given, at)):
        here = below(at, place)
        if not isinstance(each, dict) or len(each) != 1:
            raise AnalysisError(f"{here} is {shown(each)}. A step is an object of one key: {listed(STEPS)}.")
        [(name, value)] = each.items()
        if name not in STEPS:
            raise AnalysisError(f"No step {name!r} ({here}).{nearest(str(name), STEPS)} Steps: {listed(STEPS)}.")
        steps.append(parse_step(name, value, below(here, name)))
    return steps


def parse_step(name: str, given: Any, at: str) -> Step:
    """One step by its name in `STEPS`.

    Raises:
        AnalysisError: It cannot be read.
    """
    return STEPS[name](given, at)


def parse_slice(parameters: dict[str, Any], at: str = "") -> list[Step]:
    """The `offset` and `limit` of parameters, if they have any.

    Raises:
        AnalysisError: One is no whole number.
    """
    offset, limit = parameters.get("offset"), parameters.get("limit")
    if offset is None and limit is None:
        return []
    return [
        Slice(
            at=below(at, "limit"),
            offset=0 if offset is None else as_count(offset, below(at, "offset")),
            limit=None if limit is None else as_count(limit, below(at, "limit")),
        )
    ]


def _where(given: Any, at: str) -> Where:
    return Where(at=at, condition=parse_conditions(given, at))


def _select(given: Any, at: str) -> Select:
    return Select(at=at, outputs=outputs(given, at))


def _drop(given: Any, at: str) -> Drop:
    return Drop(at=at, fields=_fields(given, at))


def _fields(given: Any, at: str) -> tuple[Field, ...]:
    return tuple(Field(name, place) for name, place in as_names(given, at))


def _entries(given: Any, at: str, example: str) -> dict[str, Any]:
    if isinstance(given, dict) and given and len(given) <= MAX_ITEMS and all(type(key) is str for key in given):
        return given
    raise AnalysisError(f"{at} is {shown(given)}. Give an object such as {example}.")


def _rename(given: Any, at: str) -> Rename:
    names = [
        (Field(old, below(at, old)), as_text(new, below(at, old)))
        for old, new in _entries(given, at, "{'old': 'new'}").items()
    ]
    new_names = [new for _, new in names]
    if twice := repeated(new_names):
        raise AnalysisError(f"{at} makes {listed(twice)} twice. Give each field a name of its own.")
    return Rename(at=at, names=tuple(names))


def _cast(given: Any, at: str) -> Cast:
    return Cast(
        at=at,
        fields=tuple(
            _cast_to(name, entry, below(at, name)) for name, entry in _entries(given, at, "{'amount': 'float'}").items()
        ),
    )


def _cast_to(name: str, given: Any, at: str) -> CastTo:
    shown_as = ("int", "float", "str", "bool", "date", "datetime")
    if isinstance(given, str):
        return CastTo(field=Field(name, at), type=as_word(given, at, _CASTS, shown_as=shown_as))
    entry = as_object(given, at, ("to", "invalid"))
    kind = as_word(only(entry, at, "to"), below(at, "to"), _CASTS, shown_as=shown_as)
    invalid = as_word(entry.get("invalid", "error"), below(at, "invalid"), {"error": False, "null": True})
    return CastTo(field=Field(name, at), type=kind, invalid="null" if invalid else "error")


def _compute(given: Any, at: str) -> Compute:
    entries = _entries(given, at, "{'total': 'price * quantity'}")
    return Compute(
        at=at, fields=tuple((name, parse_expression(text, below(at, name))) for name, text in entries.items())
    )


def _flatten(given: Any, at: str) -> Flatten:
    if not isinstance(given, dict):
        return Flatten(at=at, fields=None if given is True or given == "*" else _fields(given, at))
    entry = as_object(given, at, ("field", "fields", "separator"))
    separator = entry.get("separator", ".")
    if not isinstance(separator, str):
        raise AnalysisError(f"{below(at, 'separator')} is {shown(separator)}. Give a text, for instance '_'.")
    named = {"field", "fields"}.intersection(entry)
    fields = _fields(only(entry, at, "field", "fields"), at) if named else None
    return Flatten(at=at, fields=fields, separator=separator)


def _explode(given: Any, at: str) -> Explode:
    if isinstance(given, dict):
        given = only(as_object(given, at, ("field",)), at, "field")
    return Explode(at=at, field=Field(as_text(given, at), at))


def _unpivot(given: Any, at: str) -> Unpivot:
    entry = as_object(given, at, ("index", "fields", "name", "value"))
    index = outputs(entry["index"], below(at, "index")) if entry.get("index") else ()
    fields = None if entry.get("fields") is None else _fields(entry["fields"], below(at, "fields"))
    name = as_text(entry.get("name", "name"), below(at, "name"))
    value = as_text(entry.get("value", "value"), below(at, "value"))
    names = [output.name for output in index] + [name, value]
    if twice := repeated(names):
        raise AnalysisError(f"{at} makes {listed(twice)} twice. Set 'name' and 'value' to other names.")
    return Unpivot(at=at, index=index, fields=fields, name=name, value=value)


def _join(given: Any, at: str) -> Join:
    known = ("data", "source", "data_field", "on", "left_on", "right_on", "how", "suffix")
    entry = as_object(given, at, known)
    suffix = entry.get("suffix", "_right")
    return Join(
        at=at,
        source=parse_source(entry, at, entry.get("data_field")),
        on=_on(entry, at),
        how=as_word(entry.get("how", "inner"), below(at, "how"), _JOINS, shown_as=("inner", "left", "right", "outer")),
        suffix=as_text(suffix, below(at, "suffix")),
    )


def _on(entry: dict[str, Any], at: str) -> tuple[tuple[Field, Field], ...]:
    if "left_on" in entry or "right_on" in entry:
        lefts = _fields(only(entry, at, "left_on"), below(at, "left_on"))
        rights = _fields(only(entry, at, "right_on"), below(at, "right_on"))
        if len(lefts) != len(rights) or "on" in entry:
            raise AnalysisError(f"{at} needs as many fields in 'right_on' as in 'left_on', and no 'on'.")
        return tuple(zip(lefts, rights, strict=True))
    given, place = only(entry, at, "on"), below(at, "on")
    if isinstance(given, dict):
        pairs = _entries(given, place, "{'customer_id': 'id'}").items()
        return tuple((Field(left, place), Field(as_text(right, place), place)) for left, right in pairs)
    return tuple((field, field) for field in _fields(given, place))


def _sort(given: Any, at: str) -> Sort:
    entries = given if isinstance(given, list) else [given]
    keys = tuple(_sort_key(each, below(at, place)) for place, each in enumerate(as_list(entries, at)))
    return Sort(at=at, keys=keys)


def _sort_key(given: Any, at: str) -> SortKey:
    if isinstance(given, str):
        name = as_text(given.removeprefix("-"), at)
        return SortKey(field=Field(name, at), descending=given.startswith("-"))
    entry = as_object(given, at, ("field", "descending", "order"))
    field = Field(as_text(only(entry, at, "field"), below(at, "field")), below(at, "field"))
    if "order" in entry:
        if "descending" in entry:
            raise AnalysisError(f"{at} has 'descending' and 'order', which say the same. Give one of them.")
        return SortKey(field=field, descending=as_word(entry["order"], below(at, "order"), _DIRECTIONS))
    return SortKey(field=field, descending=as_flag(entry.get("descending", False), below(at, "descending")))


def _limit(given: Any, at: str) -> Slice:
    if not isinstance(given, dict):
        return Slice(at=at, limit=as_count(given, at))
    entry = as_object(given, at, ("limit", "offset"))
    limit = None if entry.get("limit") is None else as_count(entry["limit"], below(at, "limit"))
    return Slice(at=at, offset=as_count(entry.get("offset", 0), below(at, "offset")), limit=limit)


def _offset(given: Any, at: str) -> Slice:
    return Slice(at=at, offset=as_count(given, at))


def _distinct(given: Any, at: str) -> Distinct:
    return Distinct(at=at, fields=None if given is True or given == [] else _fields(given, at))


def _group(given: Any, at: str) -> Step:
    entry = as_object(given, at, ("group_by", "aggregations"))
    return parse_group(
        entry.get("group_by"),
        entry.get("aggregations", []),
        at,
        keys_at=below(at, "group_by"),
        aggregations_at=below(at, "aggregations"),
    )


STEPS: dict[str, Callable[[Any, str], Step]] = {
    "filter": _where,
    "flatten": _flatten,
    "explode": _explode,
    "join": _join,
    "cast": _cast,
    "compute": _compute,
    "aggregate": _group,
    "pivot": parse_pivot,
    "unpivot": _unpivot,
    "select": _select,
    "drop": _drop,
    "rename": _rename,
    "distinct": _distinct,
    "sort": _sort,
    "offset": _offset,
    "limit": _limit,
}
"""What reads each step, in the order in which they are carried out if they stand beside each other in parameters."""
