"""Steps that make few rows of many: groups with their aggregates, and pivots."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from .errors import AnalysisError, kind_of, listed, shown
from .evaluating import evaluate
from .fields import Table, rows_of
from .moments import spread
from .parameters import repeated
from .plan import MAX_INTEGER, Aggregate, Field, Function, Group, Output, Pivot, Row
from .values import NUMBERS, keys_of, order_keys, sorted_by, text_of

MAX_COLUMNS = 1_000
"""Most columns of a pivot."""

_OF_NUMBERS = frozenset(("sum", "mean", "median", "std", "variance", "percentile"))


def group(step: Group, table: Table) -> Table:
    """A row for each group, in the order of their first rows."""
    columns = [table.read(output.field) for output in step.keys]
    numbers, firsts = _numbered(columns, len(table.rows))
    results: list[Sequence[Any]] = [[column[first] for first in firsts] for column in columns]
    values: dict[str, tuple[list[Any], list[list[Any]]]] = {}
    for aggregate in step.aggregates:
        if aggregate.value is None:
            counts = Counter(numbers)
            results.append([counts[number] for number in range(len(firsts))])
            continue
        # Several aggregates of one field share its values.
        name = aggregate.value.name if isinstance(aggregate.value, Field) else ""
        column, buckets = values.get(name) or _buckets(aggregate, table, numbers, len(firsts))
        if name:
            values[name] = column, buckets
        results.append(_reduced(aggregate, column, buckets))
    names = [output.name for output in step.keys] + [aggregate.name for aggregate in step.aggregates]
    return Table(rows_of(dict(zip(names, results, strict=True))))


def pivot(step: Pivot, table: Table) -> Table:
    """A row for each combination of the index, a column for each value of a field.

    Raises:
        AnalysisError: Columns are too many or share a name, or a cell has several values and no function.
    """
    index = [table.read(output.field) for output in step.index]
    heads = table.read(step.columns)
    names = _column_names(step, heads)
    rows, row_firsts = _numbered(index, len(table.rows))
    cells, cell_firsts = _numbered([*index, heads], len(table.rows))
    aggregate = Aggregate(
        name="", function=step.function or "first", value=step.value, percentile=step.percentile, at=step.at
    )
    if step.value is None:
        counts = Counter(cells)
        results: list[Any] = [counts[number] for number in range(len(cell_firsts))]
    else:
        column, buckets = _buckets(aggregate, table, cells, len(cell_firsts))
        if step.function is None:
            _require_single(step, buckets, cell_firsts, table)
        results = _reduced(aggregate, column, buckets)
    empty = 0 if step.function == "count" else None
    answer: list[Row] = [
        {output.name: column[first] for output, column in zip(step.index, index, strict=True)}
        | dict.fromkeys(names.values(), empty)
        for first in row_firsts
    ]
    keys = keys_of(heads)
    for first, result in zip(cell_firsts, results, strict=True):
        answer[rows[first]][names[keys[first]]] = result
    return Table(answer)


def percentile(ordered: Sequence[Any], rank: float) -> float | None:
    """The value at `rank` (0 to 100) of sorted numbers, interpolated linearly; null if there are none."""
    if not ordered:
        return None
    place = (len(ordered) - 1) * (rank / 100)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    below, above, rest = ordered[low], ordered[high], place - low
    try:
        result = float(below + (above - below) * rest)
        # The difference of the two largest floats of opposite sign overflows, and their mean does not.
        return result if math.isfinite(result) else below * (1 - rest) + above * rest
    except OverflowError:
        return None


def _numbered(columns: Sequence[Sequence[Any]], count: int) -> tuple[list[int], list[int]]:
    """The number of each row's group, and the first row of each group; one group without columns."""
    if not columns:
        return [0] * count, [0]
    keys = keys_of(columns[0]) if len(columns) == 1 else list(zip(*map(keys_of, columns), strict=True))
    seen: defaultdict[Any, int] = defaultdict()
    seen.default_factory = seen.__len__
    numbers = [seen[key] for key in keys]
    firsts = dict(zip(reversed(numbers), range(count - 1, -1, -1), strict=True))
    return numbers, [firsts[number] for number in range(len(seen))]


def _buckets(aggregate: Aggregate, table: Table, numbers: list[int], count: int) -> tuple[list[Any], list[list[Any]]]:
    """The values of an aggregate, and for each group those that are not null."""
    assert aggregate.value is not None
    column = evaluate(aggregate.value, table, aggregate.at)
    buckets: list[list[Any]] = [[] for _ in range(count)]
    add = [bucket.append for bucket in buckets]
    for number, value in zip(numbers, column, strict=True):
        if value is not None:
            add[number](value)
    return column, buckets


def _reduced(aggregate: Aggregate, column: list[Any], buckets: list[list[Any]]) -> list[Any]:
    kinds = set(map(type, column)) - {type(None)}
    if aggregate.function in _OF_NUMBERS and not kinds <= NUMBERS:
        row = next(place for place, value in enumerate(column) if value is not None and type(value) not in NUMBERS)
        raise AnalysisError(
            f"{aggregate.at}: {aggregate.function!r} takes numbers, and row {row} has {shown(column[row])} "
            f"({kind_of(column[row])}). Cast the field first, or filter such rows out."
        )
    if aggregate.function == "percentile":
        rank = aggregate.percentile or 0.0
        return [percentile(sorted(bucket), rank) for bucket in buckets]
    if aggregate.function == "sum":
        return [_total(bucket, whole=float not in kinds, at=aggregate.at) for bucket in buckets]
    reduce = _REDUCTIONS[aggregate.function]
    return [reduce(bucket) for bucket in buckets]


def _total(values: list[Any], *, whole: bool, at: str) -> Any:
    if not whole:
        return _finite(math.fsum, values)
    total = sum(values)
    if -MAX_INTEGER <= total <= MAX_INTEGER:
        return total
    raise AnalysisError(f"{at}: the sum is beyond {MAX_INTEGER}. Cast the field to float first.")


def _finite(reduce: Callable[[list[Any]], float], values: list[Any]) -> float | None:
    try:
        result = reduce(values)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None


def _mean(values: list[Any]) -> float | None:
    if not values:
        return None
    if float in set(map(type, values)):
        return _finite(lambda some: math.fsum(some) / len(some), values)
    return _finite(lambda some: sum(some) / len(some), values)


def _variance(values: list[Any]) -> float | None:
    mean = _mean(values)
    if mean is None or len(values) < 2:
        return None
    return _finite(lambda some: math.fsum((value - mean) ** 2 for value in some) / (len(some) - 1), values)


def _deviation(values: list[Any]) -> float | None:
    return None if len(values) < 2 else _finite(spread, values)  # whose squares neither overflow nor vanish


def _least(values: list[Any]) -> Any:
    keys = order_keys(values)
    if not values or keys is values:
        return min(values, default=None)
    return values[min(range(len(values)), key=keys.__getitem__)]


def _greatest(values: list[Any]) -> Any:
    keys = order_keys(values)
    if not values or keys is values:
        return max(values, default=None)
    return values[max(range(len(values)), key=keys.__getitem__)]


_REDUCTIONS: dict[Function, Callable[[list[Any]], Any]] = {
    "count": len,
    "mean": _mean,
    "median": lambda values: percentile(sorted(values), 50),
    "min": _least,
    "max": _greatest,
    "std": _deviation,
    "variance": _variance,
    "distinct": lambda values: len(set(keys_of(values))),
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
}


def _column_names(step: Pivot, heads: list[Any]) -> dict[Any, str]:
    """The name of the column of each value, in the order of the values."""
    keys = keys_of(heads)
    by_key = dict(zip(reversed(keys), reversed(heads), strict=True))
    if len(by_key) > MAX_COLUMNS:
        raise AnalysisError(
            f"{step.columns.at}: {step.columns.name!r} has {len(by_key)} values, and a pivot has at most {MAX_COLUMNS} "
            "columns. Choose a field with fewer, or group by it."
        )
    ordered = sorted_by(list(by_key), list(by_key.values()), descending=False)
    names = {key: "null" if by_key[key] is None else text_of(by_key[key]) for key in ordered}
    every = [*names.values(), *(output.name for output in step.index)]
    if twice := repeated(every):
        raise AnalysisError(f"{step.at} makes the columns {listed(twice)} twice. Rename the index or cast the field.")
    return names


def _require_single(step: Pivot, buckets: list[list[Any]], firsts: list[int], table: Table) -> None:
    for bucket, first in zip(buckets, firsts, strict=True):
        if len(bucket) > 1:
            fields = [*step.index, Output(name=step.columns.name, field=step.columns)]
            cell = ", ".join(
                f"{each.name} {shown(table.reader(each.field)(table.rows[first:][:1])[0])}" for each in fields
            )
            raise AnalysisError(
                f"{step.at}: the cell of {cell} has {len(bucket)} values. Give 'function', such as 'sum'."
            )
