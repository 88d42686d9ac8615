"""Reads what turns many rows into few: groups with their aggregates, and pivots."""

import re
from typing import Any, cast

from .errors import AnalysisError, listed, shown
from .expressions import parse_expression
from .parameters import as_list, as_names, as_object, as_text, as_word, below, only, repeated
from .plan import Aggregate, Expression, Field, Function, Group, Output, Pivot

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


def parse_group(keys: Any, aggregations: Any, at: str, *, keys_at: str, aggregations_at: str) -> Group:
    """A grouping from its parameters.

    Raises:
        AnalysisError: A part cannot be read, or two results have the same name.
    """
    key_outputs = outputs(keys, keys_at) if keys else ()
    aggregates = tuple(_aggregates(aggregations, aggregations_at))
    if not aggregates and not key_outputs:
        raise AnalysisError(f"{aggregations_at} is empty. Say what to compute.{_HINT}")
    names = [output.name for output in key_outputs] + [aggregate.name for aggregate in aggregates]
    if twice := repeated(names):
        raise AnalysisError(f"{aggregations_at} makes {listed(twice)} twice. Give one of them another name with 'as'.")
    return Group(at=at, keys=key_outputs, aggregates=aggregates)


def parse_pivot(given: Any, at: str) -> Pivot:
    """A pivot from its parameters.

    Raises:
        AnalysisError: A part cannot be read.
    """
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
    """Fields of an answer: names, `{"field", "as"}` objects, or an object of new names and old ones.

    Raises:
        AnalysisError: They cannot be read, or two have the same name.
    """
    if isinstance(given, dict):
        pairs = [(as_text(new, at), as_text(old, below(at, new)), below(at, new)) for new, old in given.items()]
    elif isinstance(given, list) and any(isinstance(each, dict) for each in given):
        pairs = [_named(each, below(at, place)) for place, each in enumerate(as_list(given, at))]
    else:
        pairs = [(name, name, place) for name, place in as_names(given, at)]
    names = [name for name, _, _ in pairs]
    if twice := repeated(names):
        raise AnalysisError(f"{at} makes {listed(twice)} twice. Give each a name of its own.")
    return tuple(Output(name=new, field=Field(old, place)) for new, old, place in pairs)


def _named(given: Any, at: str) -> tuple[str, str, str]:
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
    """The aggregates under one name of the short form; a list of functions is of the field of that name."""
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
