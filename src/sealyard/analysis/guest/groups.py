"""The step that groups rows, and the pivot: their spellings in a request, and the aggregates of their groups."""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast

from .aggregates import reducer
from .errors import AnalysisError, comma_list, quoted
from .evaluation import evaluate
from .expressions import parse_expression
from .limits import MAX_COLUMNS
from .parameters import as_list, as_names, as_object, as_text, as_word, exactly_one, path_to, repeated
from .plan import Aggregate, Expression, Field, Function, Group, Output, Row
from .tables import Change, Table, rows_of
from .values import keys_of, sorted_by, text_of

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


def parse_group(entry: dict[str, Any], at: str = "") -> Group:
    """A grouping from `group_by` and `aggregations`."""
    keys_at, aggregations_at = path_to(at, "group_by"), path_to(at, "aggregations")
    keys = outputs(entry["group_by"], keys_at) if entry.get("group_by") else ()
    aggregates = tuple(_aggregates(entry.get("aggregations", []), aggregations_at))
    if not aggregates and not keys:
        raise AnalysisError(f"{aggregations_at} is empty. Say what to compute.{_HINT}")
    names = [output.name for output in keys] + [aggregate.name for aggregate in aggregates]
    if twice := repeated(names):
        raise AnalysisError(
            f"{aggregations_at} makes {comma_list(twice)} twice. Give one of them another name with 'as'."
        )
    return Group(at=at or "aggregations", keys=keys, aggregates=aggregates)


def outputs(given: Any, at: str) -> tuple[Output, ...]:
    """Fields of an answer: names, `{"field", "as"}` objects, or an object of new names and old ones."""
    if isinstance(given, dict):
        pairs = [(as_text(new, at), as_text(old, path_to(at, new)), path_to(at, new)) for new, old in given.items()]
    elif isinstance(given, list) and any(isinstance(each, dict) for each in given):
        pairs = [_named_output(each, path_to(at, place)) for place, each in enumerate(as_list(given, at))]
    else:
        pairs = [(name, name, place) for name, place in as_names(given, at)]
    names = [name for name, _, _ in pairs]
    if twice := repeated(names):
        raise AnalysisError(f"{at} makes {comma_list(twice)} twice. Give each a name of its own.")
    return tuple(Output(name=new, field=Field(old, place)) for new, old, place in pairs)


def _named_output(given: Any, at: str) -> tuple[str, str, str]:
    if isinstance(given, str):
        return as_text(given, at), given, at
    named = as_object(given, at, ("field", "as"))
    old = as_text(exactly_one(named, at, "field"), path_to(at, "field"))
    return as_text(named.get("as", old), path_to(at, "as")), old, path_to(at, "field")


def _aggregates(given: Any, at: str) -> list[Aggregate]:
    if isinstance(given, str):
        return [_short(given, at, None)]
    if isinstance(given, dict) and isinstance(given.get("function"), str) and _FUNCTIONS.get(given["function"].lower()):
        return [_long(given, at, None)]
    if isinstance(given, dict):
        return [each for name, value in given.items() for each in _of_name(as_text(name, at), value, path_to(at, name))]
    if not isinstance(given, list):
        raise AnalysisError(f"{at} is {quoted(given)}.{_HINT}")
    return [_one(each, path_to(at, place), None) for place, each in enumerate(as_list(given, at))]


def _of_name(name: str, given: Any, at: str) -> list[Aggregate]:
    """The aggregates under one name of the short form; a list of functions applies to the field of that name."""
    if isinstance(given, list):
        return [_bare(each, name, path_to(at, place), None) for place, each in enumerate(as_list(given, at))]
    return [_one(given, at, name)]


def _one(given: Any, at: str, name: str | None) -> Aggregate:
    return _short(given, at, name) if isinstance(given, str) else _long(given, at, name)


def _long(given: Any, at: str, name: str | None) -> Aggregate:
    entry = as_object(given, at, ("function", "field", "expression", "percentile", "as"), hint=_HINT)
    word = exactly_one(entry, at, "function")
    function, percentile = _function(word, entry.get("percentile"), path_to(at, "function"))
    if entry.get("field") is not None and entry.get("expression") is not None:
        raise AnalysisError(f"{at} has 'field' and 'expression'. Give one of them.")
    value: Expression | None = None
    text = ""
    if entry.get("field") is not None and (entry["field"], function) != ("*", "count"):
        text = as_text(entry["field"], path_to(at, "field"))
        value = Field(text, path_to(at, "field"))
    elif entry.get("expression") is not None:
        value, text = parse_expression(entry["expression"], path_to(at, "expression")), quoted(entry["expression"])
    named = entry.get("as", name)
    label = _label(function, percentile, text) if named is None else as_text(named, path_to(at, "as"))
    return _aggregate(label, function, value, percentile, at)


def _short(given: str, at: str, name: str | None) -> Aggregate:
    """`sum(amount)`, `percentile(amount, 95)`, `p95(amount)`, `count`."""
    found = _SHORT.fullmatch(given)
    if found is None:
        raise AnalysisError(f"{at} is {quoted(given)}.{_HINT}")
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
    raise AnalysisError(f"{at} takes 'percentile', a number from 0 to 100, and it is {quoted(given)}.")


def _aggregate(name: str, function: Function, value: Expression | None, percentile: float | None, at: str) -> Aggregate:
    if value is None and function != "count":
        raise AnalysisError(f"{at} lacks 'field', which {function!r} takes. Only 'count' works without one.")
    return Aggregate(name=name, function=function, value=value, percentile=percentile, at=at)


def _label(function: Function, percentile: float | None, text: str) -> str:
    prefix = f"p{percentile:g}" if percentile is not None else cast(str, function)
    return f"{prefix}_{text}" if text else prefix


def group(step: Group, table: Table) -> Table:
    """A row for each group, in the order of their first rows."""
    columns = [table.read(output.field) for output in step.keys]
    numbers, firsts = numbered(columns, len(table.rows))
    results: list[Sequence[Any]] = [[column[first] for first in firsts] for column in columns]
    values: dict[str, tuple[list[Any], list[list[Any]]]] = {}
    for aggregate in step.aggregates:
        # Several aggregates of one field share its values.
        name = aggregate.value.name if isinstance(aggregate.value, Field) else ""
        column, buckets = values.get(name) or _buckets(aggregate, table, numbers, len(firsts))
        if name:
            values[name] = column, buckets
        results.append(list(map(reducer(aggregate, column), buckets)))
    names = [output.name for output in step.keys] + [aggregate.name for aggregate in step.aggregates]
    return Table(rows_of(dict(zip(names, results, strict=True))))


def pivot(given: Any, at: str) -> Change:
    """A row for each combination of `index`, with a column for each value of `columns`, in the order of values.

    A cell is the aggregate of its `values`; `count` of no rows is 0, anything else is null. Without a `function` a cell
    may have one value only: more are an error. A null in `columns` makes the column `null`.
    """
    entry = as_object(given, at, ("index", "columns", "values", "function", "percentile"))
    columns_at, values_at = path_to(at, "columns"), path_to(at, "values")
    columns = Field(as_text(exactly_one(entry, at, "columns"), columns_at), columns_at)
    value = None if entry.get("values") is None else Field(as_text(entry["values"], values_at), values_at)
    function: Function = "count" if value is None else "first"
    percentile = None
    if entry.get("function") is not None:
        function, percentile = _function(entry["function"], entry.get("percentile"), path_to(at, "function"))
    if value is None and function != "count":
        raise AnalysisError(f"{at} lacks 'values', the field that {function!r} takes. Give it, or use 'count'.")
    index = outputs(exactly_one(entry, at, "index"), path_to(at, "index"))
    aggregate = Aggregate(name="", function=function, value=value, percentile=percentile, at=at)
    is_single = value is not None and entry.get("function") is None

    def change(table: Table) -> Table:
        labels = [table.read(output.field) for output in index]
        heads = table.read(columns)
        names = _column_names(columns, heads, index, at)
        rows, row_firsts = numbered(labels, len(table.rows))
        cells, cell_firsts = numbered([*labels, heads], len(table.rows))
        column, buckets = _buckets(aggregate, table, cells, len(cell_firsts))
        for bucket, first in zip(buckets, cell_firsts, strict=True) if is_single else ():
            if len(bucket) > 1:
                named = [*zip((output.name for output in index), labels, strict=True), (columns.name, heads)]
                cell = ", ".join(f"{name} {quoted(label[first])}" for name, label in named)
                raise AnalysisError(f"{at}: the cell of {cell} has {len(bucket)} values. Give 'function', like 'sum'.")
        empty = 0 if function == "count" else None
        answer: list[Row] = [
            {output.name: label[first] for output, label in zip(index, labels, strict=True)}
            | dict.fromkeys(names.values(), empty)
            for first in row_firsts
        ]
        keys = keys_of(heads)
        for first, result in zip(cell_firsts, map(reducer(aggregate, column), buckets), strict=True):
            answer[rows[first]][names[keys[first]]] = result
        return Table(answer)

    return change


def numbered(columns: Sequence[Sequence[Any]], count: int) -> tuple[list[int], list[int]]:
    """The number of each row's group, and the first row of each group; one group without columns."""
    if not columns:
        return [0] * count, [0]
    keys = keys_of(columns[0]) if len(columns) == 1 else list(zip(*map(keys_of, columns), strict=True))
    seen: defaultdict[Any, int] = defaultdict()
    seen.default_factory = seen.__len__
    numbers = [seen[key] for key in keys]
    firsts = dict(zip(reversed(numbers), range(count - 1, -1, -1), strict=True))
    return numbers, [firsts[number] for number in range(len(seen))]


def values_of(aggregate: Aggregate, table: Table) -> list[Any]:
    """The values that an aggregate is taken of; for a count of rows, something for each row."""
    return [True] * len(table.rows) if aggregate.value is None else evaluate(aggregate.value, table, aggregate.at)


def _buckets(aggregate: Aggregate, table: Table, numbers: list[int], count: int) -> tuple[list[Any], list[list[Any]]]:
    """The values of an aggregate, and for each group those that are not null."""
    column = values_of(aggregate, table)
    buckets: list[list[Any]] = [[] for _ in range(count)]
    add = [bucket.append for bucket in buckets]
    for number, value in zip(numbers, column, strict=True):
        if value is not None:
            add[number](value)
    return column, buckets


def _column_names(columns: Field, heads: list[Any], index: Sequence[Output], at: str) -> dict[Any, str]:
    """The name of the column of each value, in the order of the values."""
    keys = keys_of(heads)
    by_key = dict(zip(reversed(keys), reversed(heads), strict=True))
    if len(by_key) > MAX_COLUMNS:
        raise AnalysisError(
            f"{columns.at}: {columns.name!r} has {len(by_key)} values, and a pivot has at most {MAX_COLUMNS} columns. "
            "Choose a field with fewer, or group by it."
        )
    ordered = sorted_by(list(by_key), list(by_key.values()), descending=False)
    names = {key: "null" if by_key[key] is None else text_of(by_key[key]) for key in ordered}
    if twice := repeated([*names.values(), *(output.name for output in index)]):
        raise AnalysisError(f"{at} makes the columns {comma_list(twice)} twice. Rename the index or cast the field.")
    return names
