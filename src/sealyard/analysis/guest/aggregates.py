"""The aggregates of a group's values, by the rules that `plan` states."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from .errors import AnalysisError, kind_of, quoted
from .measures import mean, quantile, spread
from .plan import MAX_INTEGER, Aggregate, Function
from .values import NUMBERS, keys_of, order_keys

OF_NUMBERS = frozenset(("sum", "mean", "median", "std", "variance", "percentile"))
"""The functions that take numbers only."""

Reducer = Callable[[list[Any]], Any]


def check_numbers(aggregate: Aggregate, column: Sequence[Any]) -> frozenset[type]:
    """Return the types in a column except null. Raises `AnalysisError` if the aggregate does not take one of them."""
    kinds = frozenset(map(type, column)) - {type(None)}
    if aggregate.function in OF_NUMBERS and not kinds <= NUMBERS:
        row = next(place for place, value in enumerate(column) if value is not None and type(value) not in NUMBERS)
        raise AnalysisError(
            f"{aggregate.at}: {aggregate.function!r} takes numbers, and row {row} has {quoted(column[row])} "
            f"({kind_of(column[row])}). Cast the field first, or filter such rows out."
        )
    return kinds


def reducer(aggregate: Aggregate, column: Sequence[Any]) -> Reducer:
    """Return the function from values of `column`, none of them null, to their aggregate."""
    kinds = check_numbers(aggregate, column)
    if aggregate.function == "sum":
        return _finite(math.fsum) if float in kinds else lambda values: whole_sum(sum(values), aggregate.at)
    if aggregate.function == "percentile":
        share = (aggregate.percentile or 0.0) / 100
        return _finite(lambda values: quantile(sorted(values), share), least=1)
    return _REDUCERS[aggregate.function]


def whole_sum(total: int, at: str) -> int:
    """The sum of whole numbers. Raises `AnalysisError` if it is beyond the largest whole number."""
    if -MAX_INTEGER <= total <= MAX_INTEGER:
        return total
    raise AnalysisError(f"{at}: the sum is beyond {MAX_INTEGER}. Cast the field to float first.")


def _finite(reduce: Callable[[list[Any]], float], *, least: int = 0) -> Reducer:
    """The function, returning null for fewer than `least` values or a result that is not a finite float."""

    def reduced(values: list[Any]) -> float | None:
        if len(values) < least:
            return None
        try:
            result = reduce(values)
        except OverflowError:
            return None
        return result if math.isfinite(result) else None

    return reduced


def _variance(values: list[Any]) -> float:
    middle = mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def _extreme(choose: Callable[..., Any]) -> Reducer:
    def reduced(values: list[Any]) -> Any:
        keys = order_keys(values)
        if not values or keys is values:
            return choose(values, default=None)
        return values[choose(range(len(values)), key=keys.__getitem__)]

    return reduced


_REDUCERS: dict[Function, Reducer] = {
    "count": len,
    "mean": _finite(mean, least=1),
    "median": _finite(lambda values: quantile(sorted(values), 0.5), least=1),
    "min": _extreme(min),
    "max": _extreme(max),
    "std": _finite(spread, least=2),  # its squares neither overflow nor vanish
    "variance": _finite(_variance, least=2),
    "distinct": lambda values: len(set(keys_of(values))),
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
}
