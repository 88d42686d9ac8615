"""Reads the parameters of `filter`, `aggregate` and `transform` into the steps of a plan."""

import re
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, cast

from .errors import AnalysisError, listed, nearest, shown
from .expressions import parse_conditions, parse_expression
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
    Aggregate,
    Cast,
    CastTo,
    CastType,
    Compute,
    Distinct,
    Drop,
    Explode,
    Expression,
    Field,
    Flatten,
    Function,
    Group,
    Join,
    JoinKind,
    Limits,
    Output,
    Pivot,
    Plan,
    Rename,
    Select,
    Slice,
    Sort,
    SortKey,
    Source,
    Step,
    Unpivot,
    Where,
)
from .sources import parse_source

Planned: TypeAlias = Literal["filter", "aggregate", "transform"]

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
_ALIASES: dict[Function, str] = {
    "count": "size",
    "sum": "total",
    "mean": "avg average",
    "median": "",
    "min": "minimum",
    "max": "maximum",
    "std": "stddev stdev",
    "variance": "var",
    "percentile": "quantile",
    "distinct": "count_distinct nunique",
    "first": "",
    "last": "",
}
_FUNCTIONS: dict[str, Function] = {
    word: name for name, aliases in _ALIASES.items() for word in (name, *aliases.split())
}
_SHORT = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_RANKED = re.compile(r"[pP]([0-9]{1,2}(?:\.[0-9]+)?|100)")
_HINT = " Write [{'function': 'sum', 'field': 'amount', 'as': 'total'}] or {'total': 'sum(amount)'}."


def parse_plan(kind: Planned, parameters: dict[str, Any], source: Source, limits: Limits) -> Plan:
    """The checked plan of a request."""
    parse = {"filter": _filter_steps, "aggregate": _aggregate_steps, "transform": _transform_steps}[kind]
    return Plan(source=source, steps=tuple(parse(parameters)), limits=limits)


def parse_limits(given: Any) -> Limits:
    """The bounds of an answer."""
    entry = as_object({} if given is None else given, "limits", ("rows", "bytes"))
    bounds = {key: as_count(value, below("limits", key)) for key, value in entry.items() if value is not None}
    return Limits(**bounds)


def _filter_steps(given: dict[str, Any]) -> list[Step]:
    parameters = as_object(given, "", _FILTER)
    steps = [
        *_given_steps(parameters, *_FIRST),
        *_condition_steps(parameters),
        *_given_steps(parameters, "distinct", "sort"),
    ]
    return [*steps, *parse_slice(parameters), *_select_steps(parameters, "fields", "output_fields")]


def _aggregate_steps(given: dict[str, Any]) -> list[Step]:
    parameters = as_object(given, "", _AGGREGATE)
    group = parse_group(parameters)
    steps = [*_given_steps(parameters, *_FIRST), *_condition_steps(parameters), group]
    if parameters.get("having"):
        steps.append(Where(at="having", condition=parse_conditions(parameters["having"], "having")))
    return [*steps, *_given_steps(parameters, "sort"), *parse_slice(parameters)]


def _transform_steps(given: dict[str, Any]) -> list[Step]:
    parameters = as_object(given, "", _TRANSFORM)
    if "steps" in parameters:
        if beside := [key for key in parameters if key != "steps"]:
            raise AnalysisError(f"Beside 'steps' there is {listed(beside)}. Make steps of them.")
        return parse_steps(parameters["steps"], "steps")
    before = _given_steps(parameters, *(name for name in STEPS if name not in ("select", *_AFTER)))
    selected = _select_steps(parameters, "select", "output_fields")
    after = _given_steps(parameters, *(name for name in _AFTER if name not in ("offset", "limit")))
    return [*_condition_steps(parameters), *before, *selected, *after, *parse_slice(parameters)]


def _condition_steps(parameters: dict[str, Any]) -> list[Step]:
    given = parameters.get("conditions")
    condition = parse_conditions(given or [], "conditions", logic=parameters.get("logic") or "AND")
    return [Where(at="conditions", condition=condition)] if given else []


def _select_steps(parameters: dict[str, Any], *names: str) -> list[Step]:
    given = [name for name in names if parameters.get(name) is not None]
    if len(given) > 1:
        raise AnalysisError(f"{listed(given)} say the same. Give one of them.")
    return [STEPS["select"](parameters[name], name) for name in given]


def _given_steps(parameters: dict[str, Any], *names: str) -> list[Step]:
    given = [name for name in names if parameters.get(name) is not None and parameters[name] is not False]
    return [STEPS[name](parameters[name], name) for name in given]


def parse_steps(given: Any, at: str) -> list[Step]:
    """The steps of a list, in its order."""
    steps: list[Step] = []
    for place, each in enumerate(as_list(given, at)):
        here = below(at, place)
        if not isinstance(each, dict) or len(each) != 1:
            raise AnalysisError(f"{here} is {shown(each)}. A step is an object of one key: {listed(STEPS)}.")
        [(name, value)] = each.items()
        if name not in STEPS:
            raise AnalysisError(f"No step {name!r} ({here}).{nearest(str(name), STEPS)} Steps: {listed(STEPS)}.")
        steps.append(STEPS[name](value, below(here, name)))
    return steps


def parse_slice(parameters: dict[str, Any], at: str = "") -> list[Step]:
    """The `offset` and `limit` of parameters, if they have any."""
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


def _distinct(given: Any, at: str) -> Distinct:
    return Distinct(at=at, fields=None if given is True or given == [] else _fields(given, at))


def _group(given: Any, at: str) -> Step:
    return parse_group(as_object(given, at, ("group_by", "aggregations")), at)


def parse_group(entry: dict[str, Any], at: str = "") -> Group:
    """A grouping from `group_by` and `aggregations`."""
    keys_at, aggregations_at = below(at, "group_by"), below(at, "aggregations")
    keys = outputs(entry["group_by"], keys_at) if entry.get("group_by") else ()
    aggregates = tuple(_aggregates(entry.get("aggregations", []), aggregations_at))
    if not aggregates and not keys:
        raise AnalysisError(f"{aggregations_at} is empty. Say what to compute.{_HINT}")
    names = [output.name for output in keys] + [aggregate.name for aggregate in aggregates]
    if twice := repeated(names):
        raise AnalysisError(f"{aggregations_at} makes {listed(twice)} twice. Give one of them another name with 'as'.")
    return Group(at=at or "aggregations", keys=keys, aggregates=aggregates)


def parse_pivot(given: Any, at: str) -> Pivot:
    """A pivot from its parameters."""
    pivot = as_object(given, at, ("index", "columns", "values", "function", "percentile"))
    columns = as_text(only(pivot, at, "columns"), below(at, "columns"))
    value = pivot.get("values")
    field = None if value is None else Field(as_text(value, below(at, "values")), below(at, "values"))
    function: Function | None = None if field is not None else "count"
    percentile = None
    if pivot.get("function") is not None:
        function, percentile = _function(pivot["function"], pivot.get("percentile"), below(at, "function"))
    if field is None and function != "count":
        raise AnalysisError(f"{at} lacks 'values', the field that {function!r} takes. Give it, or use 'count'.")
    index = outputs(only(pivot, at, "index"), below(at, "index"))
    return Pivot(
        at=at,
        index=index,
        columns=Field(columns, below(at, "columns")),
        value=field,
        function=function,
        percentile=percentile,
    )


def outputs(given: Any, at: str) -> tuple[Output, ...]:
    """Fields of an answer: names, `{"field", "as"}` objects, or an object of new names and old ones."""
    if isinstance(given, dict):
        pairs = [(as_text(new, at), as_text(old, below(at, new)), below(at, new)) for new, old in given.items()]
    elif isinstance(given, list) and any(isinstance(each, dict) for each in given):
        pairs = [_named_output(each, below(at, place)) for place, each in enumerate(as_list(given, at))]
    else:
        pairs = [(name, name, place) for name, place in as_names(given, at)]
    names = [name for name, _, _ in pairs]
    if twice := repeated(names):
        raise AnalysisError(f"{at} makes {listed(twice)} twice. Give each a name of its own.")
    return tuple(Output(name=new, field=Field(old, place)) for new, old, place in pairs)


def _named_output(given: Any, at: str) -> tuple[str, str, str]:
    if isinstance(given, str):
        return as_text(given, at), given, at
    named = as_object(given, at, ("field", "as"))
    old = as_text(only(named, at, "field"), below(at, "field"))
    return as_text(named.get("as", old), below(at, "as")), old, below(at, "field")


def _aggregates(given: Any, at: str) -> list[Aggregate]:
    if isinstance(given, str):
        return [_short(given, at, None)]
    if isinstance(given, dict) and isinstance(given.get("function"), str) and _FUNCTIONS.get(given["function"].lower()):
        return [_long(given, at, None)]
    if isinstance(given, dict):
        return [each for name, value in given.items() for each in _of_name(as_text(name, at), value, below(at, name))]
    if not isinstance(given, list):
        raise AnalysisError(f"{at} is {shown(given)}.{_HINT}")
    return [_one(each, below(at, place), None) for place, each in enumerate(as_list(given, at))]


def _of_name(name: str, given: Any, at: str) -> list[Aggregate]:
    """The aggregates under one name of the short form; a list of functions applies to the field of that name."""
    if isinstance(given, list):
        return [_bare(each, name, below(at, place), None) for place, each in enumerate(as_list(given, at))]
    return [_one(given, at, name)]


def _one(given: Any, at: str, name: str | None) -> Aggregate:
    return _short(given, at, name) if isinstance(given, str) else _long(given, at, name)


def _long(given: Any, at: str, name: str | None) -> Aggregate:
    entry = as_object(given, at, ("function", "field", "expression", "percentile", "as"), hint=_HINT)
    word = only(entry, at, "function")
    function, percentile = _function(word, entry.get("percentile"), below(at, "function"))
    if entry.get("field") is not None and entry.get("expression") is not None:
        raise AnalysisError(f"{at} has 'field' and 'expression'. Give one of them.")
    value: Expression | None = None
    text = ""
    if entry.get("field") is not None and (entry["field"], function) != ("*", "count"):
        text = as_text(entry["field"], below(at, "field"))
        value = Field(text, below(at, "field"))
    elif entry.get("expression") is not None:
        value, text = parse_expression(entry["expression"], below(at, "expression")), shown(entry["expression"])
    named = entry.get("as", name)
    label = _label(function, percentile, text) if named is None else as_text(named, below(at, "as"))
    return _aggregate(label, function, value, percentile, at)


def _short(given: str, at: str, name: str | None) -> Aggregate:
    """`sum(amount)`, `percentile(amount, 95)`, `p95(amount)`, `count`."""
    found = _SHORT.fullmatch(given)
    if found is None:
        raise AnalysisError(f"{at} is {shown(given)}.{_HINT}")
    word, inner = found[1], found[2]
    if inner is None and name is not None and word.lower() != "count":
        return _bare(word, name, at, name)
    percentile = None
    inner = (inner or "").strip()
    if _FUNCTIONS.get(word.lower()) == "percentile":
        inner, _, rank = inner.rpartition(",")
        percentile = _rank(rank, at)
    function, percentile = _function(word, percentile, at)
    value = None if inner in ("", "*") else parse_expression(inner, at)
    text = value.name if isinstance(value, Field) else inner
    return _aggregate(name or _label(function, percentile, text), function, value, percentile, at)


def _bare(word: Any, field: str, at: str, name: str | None) -> Aggregate:
    function, percentile = _function(word, None, at)
    return _aggregate(name or _label(function, percentile, field), function, Field(field, at), percentile, at)


def _function(word: Any, percentile: Any, at: str) -> tuple[Function, float | None]:
    ranked = _RANKED.fullmatch(word) if isinstance(word, str) else None
    if ranked is not None:
        return "percentile", float(ranked[1])
    function = as_word(word, at, _FUNCTIONS, shown_as=tuple(_ALIASES))
    if function == "percentile":
        return function, _rank(percentile, at)
    if percentile is not None:
        raise AnalysisError(f"{at} is {word!r}, which takes no 'percentile'. Leave it out.")
    return function, None


def _rank(given: Any, at: str) -> float:
    try:
        rank = float(given) if not isinstance(given, bool) else -1.0
    except (TypeError, ValueError):
        rank = -1.0
    if 0 <= rank <= 100:
        return rank
    raise AnalysisError(f"{at} takes 'percentile', a number from 0 to 100, and it is {shown(given)}.")


def _aggregate(name: str, function: Function, value: Expression | None, percentile: float | None, at: str) -> Aggregate:
    if value is None and function != "count":
        raise AnalysisError(f"{at} lacks 'field', which {function!r} takes. Only 'count' works without one.")
    return Aggregate(name=name, function=function, value=value, percentile=percentile, at=at)


def _label(function: Function, percentile: float | None, text: str) -> str:
    prefix = f"p{percentile:g}" if percentile is not None else cast(str, function)
    return f"{prefix}_{text}" if text else prefix


STEPS: dict[str, Callable[[Any, str], Step]] = {
    "filter": lambda given, at: Where(at=at, condition=parse_conditions(given, at)),
    "flatten": _flatten,
    "explode": _explode,
    "join": _join,
    "cast": _cast,
    "compute": _compute,
    "aggregate": _group,
    "pivot": parse_pivot,
    "unpivot": _unpivot,
    "select": lambda given, at: Select(at=at, outputs=outputs(given, at)),
    "drop": lambda given, at: Drop(at=at, fields=_fields(given, at)),
    "rename": _rename,
    "distinct": _distinct,
    "sort": _sort,
    "offset": lambda given, at: Slice(at=at, offset=as_count(given, at)),
    "limit": _limit,
}
"""The parser of each step, in the order in which steps beside each other in parameters are carried out."""


_FIRST = ("join", "compute")


_LAST = ("sort", "offset", "limit")


_FILTER = (*_FIRST, "conditions", "logic", "fields", "output_fields", "distinct", *_LAST)


_AGGREGATE = (*_FIRST, "conditions", "logic", "group_by", "aggregations", "having", *_LAST)


_TRANSFORM = ("steps", "conditions", "logic", "output_fields", *(name for name in STEPS if name != "filter"))


_AFTER = tuple(STEPS)[tuple(STEPS).index("select") + 1 :]
