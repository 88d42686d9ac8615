"""Values far from the others, and how values spread over bins."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .asking import Asked, number_fields, numbers_of
from .errors import AnalysisError, shown
from .fields import Table
from .moments import mean, quantile, spread
from .values import NUMBERS

_MOST_FIELDS = 20
_ROW_NUMBERS = 100
_MOST_SAMPLES = 100
_MOST_BINS = 500
_THRESHOLDS = {"iqr": 1.5, "z_score": 3.0, "mad": 3.5}
# The median absolute deviation of a normal law, in standard deviations.
_NORMAL_MAD = 0.6744897501960817


@dataclass(frozen=True, slots=True)
class _Fence:
    """Outside of these a value is an outlier; its score is its distance from `middle` in units of `scale`."""

    lower: float
    upper: float
    middle: float
    scale: float
    note: str | None = None


def outliers(asked: Asked, table: Table) -> dict[str, Any]:
    """Which rows of each field have a value outside the fence that a method draws."""
    method = asked.word("method", tuple(_THRESHOLDS), "iqr")
    threshold = asked.number("threshold", _THRESHOLDS[method], above=0)
    samples = asked.whole("samples", 5, least=0, most=_MOST_SAMPLES)
    ignore = asked.word("invalid", ("error", "ignore"), "error") == "ignore"
    fields = asked.fields(most=_MOST_FIELDS) or number_fields(table, "fields")
    told, notes = [], []
    if len(fields) > _MOST_FIELDS:
        notes.append(
            f"Only the first {_MOST_FIELDS} of {len(fields)} fields of numbers are used. Name others in fields."
        )
    for field in fields[:_MOST_FIELDS]:
        column = numbers_of(table, field, ignore_others=ignore)
        figures, note = _outside(column, method, threshold, samples)
        told.append({"field": field.name, **figures})
        notes += [f"{field.name}: {note}"] if note else []
    return {"method": method, "threshold": threshold, "fields": told, "notes": notes}


def _outside(
    column: Sequence[float | None], method: str, threshold: float, samples: int
) -> tuple[dict[str, Any], str | None]:
    ordered = sorted(value for value in column if value is not None)
    counted = {"count": len(ordered), "missing": len(column) - len(ordered)}
    if len(ordered) < 2:
        nothing: dict[str, Any] = {"lower": None, "upper": None, "outliers": 0, "rows": [], "samples": []}
        return {**counted, **nothing}, "There are fewer than two values, so none can be an outlier."
    fence = _FENCES[method](ordered, threshold)
    found = [(row, v) for row, v in enumerate(column) if v is not None and not fence.lower <= v <= fence.upper]
    farthest = sorted(found, key=lambda pair: -abs(pair[1] / 2 - fence.middle / 2))[:samples]
    return {
        **counted,
        "lower": _finite(fence.lower),
        "upper": _finite(fence.upper),
        "outliers": len(found),
        "rows": [row for row, _ in found[:_ROW_NUMBERS]],
        "samples": [{"row": row, "value": value, "score": _score(value, fence)} for row, value in farthest],
    }, fence.note


def _quartile_fence(ordered: Sequence[float], threshold: float) -> _Fence:
    low, middle, high = (quantile(ordered, share) for share in (0.25, 0.5, 0.75))
    reach = (high - low) * threshold
    return _Fence(low - reach, high + reach, middle, high - low)


def _deviation_fence(ordered: Sequence[float], threshold: float) -> _Fence:
    middle, scale = mean(ordered), spread(ordered)
    if scale == 0.0:
        middle = ordered[0]  # the mean may be a last digit beside the one value there is
    return _Fence(middle - scale * threshold, middle + scale * threshold, middle, scale)


def _median_fence(ordered: Sequence[float], threshold: float) -> _Fence:
    middle = quantile(ordered, 0.5)
    scale = quantile(sorted(abs(value - middle) for value in ordered), 0.5) / _NORMAL_MAD
    note = None
    if scale == 0.0 and ordered[0] != ordered[-1]:
        note = "More than half of the values are the same, so every other one is an outlier and has no score."
    return _Fence(middle - scale * threshold, middle + scale * threshold, middle, scale, note)


_FENCES = {"iqr": _quartile_fence, "z_score": _deviation_fence, "mad": _median_fence}


def _score(value: float, fence: _Fence) -> float | None:
    return _finite((value - fence.middle) / fence.scale) if fence.scale else None


def histogram(asked: Asked, table: Table) -> dict[str, Any]:
    """How many values lie in each bin; a value on an edge belongs to the bin above, the highest edge to the last."""
    field = asked.field("field")
    ignore = asked.word("invalid", ("error", "ignore"), "error") == "ignore"
    column = numbers_of(table, field, ignore_others=ignore)
    values = [value for value in column if value is not None]
    if asked.has("bins") and asked.has("edges"):
        raise AnalysisError("bins and edges are both given. Give one of them.")
    edges = _edges_given(asked) if asked.has("edges") else _edges_made(values, asked)
    counts = [0] * max(0, len(edges) - 1)
    below = above = 0
    for value in values:
        if value < edges[0]:
            below += 1
        elif value > edges[-1]:
            above += 1
        else:
            counts[min(bisect_right(edges, value), len(counts)) - 1] += 1
    bins = [{"from": low, "to": high, "count": n} for (low, high), n in zip(pairwise(edges), counts, strict=True)]
    outside = {"below": below, "above": above} if asked.has("edges") else {}
    missing = len(column) - len(values)
    return {"field": field.name, "count": len(values), "missing": missing, **outside, "bins": bins}


def _edges_given(asked: Asked) -> list[float]:
    given = asked.value("edges")
    if not isinstance(given, list) or not 2 <= len(given) <= _MOST_BINS + 1:
        raise asked.fail("edges", f"a list of 2 to {_MOST_BINS + 1} ascending numbers")
    for place, edge in enumerate(given):
        if type(edge) not in NUMBERS or not abs(edge) < math.inf or (place and edge <= given[place - 1]):
            raise AnalysisError(f"edges[{place}] is {shown(edge)}. Give finite numbers, each above the one before.")
    return given


def _edges_made(values: Sequence[float], asked: Asked) -> list[float]:
    bins = asked.whole("bins", 10, least=1, most=_MOST_BINS)
    if not values:
        return []
    low, high = min(values), max(values)
    if low == high:
        return [low, high]  # one bin for the one value there is
    # Two products, not a difference, which may overflow; and no edge twice where floats are too coarse for the bins.
    made = [low * (1 - place / bins) + high * (place / bins) for place in range(1, bins)]
    return [low, *sorted({edge for edge in made if low < edge < high}), high]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
