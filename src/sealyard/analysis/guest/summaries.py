"""Statistics of fields: summary, percentiles, correlation, covariance, outliers, histogram.

`run_statistics` chooses the operation. Nulls and missing fields are left out and counted. An undefined figure (the
standard deviation of one value, a correlation with a constant) is null, with a note where the reason is not plain.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal, cast

from .aggregates import Matrix, correlation, covariance, deviation, mean, quantile
from .errors import AnalysisError, comma_list, kind_of, quoted, shortened
from .evaluation import evaluate, truth
from .expressions import parse_conditions
from .hypotheses import chi_square, kolmogorov_smirnov, mann_whitney, t_test
from .limits import MAX_FIELDS, MAX_MATRIX
from .parameters import Parameters
from .plan import Field, Limits, Row
from .tables import Table, bounded_answer, field_names, number_fields, numbers_of
from .time_series import resample, rolling
from .values import NUMBERS, WrongKind, as_float, keys_of, moment_of

_NUMBERING = "Rows are numbered among those that meet conditions."
_LIMITS = Limits()
_TOP = 5  # most frequent values of a field
_TOP_CHARACTERS = 80  # of each of them
_PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
# Bounds of what one answer lists, so that it fits a model's context.
_MOST_PERCENTILES = 100  # all of them
_MOST_FIELDS = 20  # each takes a line of about ten numbers
_ROW_NUMBERS = 100  # of outliers: more are counted only
_MOST_SAMPLES = 100  # whole rows, so the largest part of an answer
_MOST_BINS = 500  # two numbers each; no diagram shows more
_THRESHOLDS = {"iqr": 1.5, "z_score": 3.0, "mad": 3.5}
# The median absolute deviation of a normal distribution, in standard deviations.
_NORMAL_MAD = 0.6744897501960817


def run_statistics(parameters: dict[str, Any], rows: list[Row], limits: Limits = _LIMITS) -> dict[str, Any]:
    """One statistic of the rows, or of those that meet `conditions`; `limits` bound the rows of a series."""
    name = Parameters({"operation": parameters.get("operation")}, ("operation",)).word("operation", tuple(OPERATIONS))
    operation, known = OPERATIONS[name]
    request = Parameters(parameters, ("operation", *known, "conditions", "logic"))
    table = Table(rows)
    if request.has("conditions"):
        table = _narrowed(table, request)
    try:
        answer = operation(request, table)
    except AnalysisError as error:
        if not request.has("conditions"):
            raise
        raise AnalysisError(f"{error} {_NUMBERING}") from None
    notes = answer.pop("notes", [])
    full: dict[str, Any] = {"rows_in": len(rows)}
    if request.has("conditions"):
        full["rows_used"] = len(table.rows)
        notes = [*notes, _NUMBERING] if name == "outliers" else notes
    full |= {"operation": name, **answer}
    if "rows" in answer:
        made = bounded_answer(answer["rows"], name=name, rows_in=len(rows), limits=limits, engine="python", notes=notes)
        return full | made
    return full | ({"notes": notes} if notes else {})


def _narrowed(table: Table, request: Parameters) -> Table:
    condition = parse_conditions(
        request.value("conditions"), request.at("conditions"), logic=request.value("logic") or "AND"
    )
    met = [truth(value) for value in evaluate(condition, table, request.at("conditions"))]
    return table.fewer([row for row, is_met in zip(table.rows, met, strict=True) if is_met])


def describe(request: Parameters, table: Table) -> dict[str, Any]:
    """The number of values and of distinct values of each field, and figures by their kind."""
    fields = request.fields(most=MAX_FIELDS)
    names = [] if fields else field_names(table.rows)
    notes = []
    if len(names) > MAX_FIELDS:
        notes.append(f"Only the first {MAX_FIELDS} of {len(names)} fields are described. Name others in fields.")
    fields = fields or [Field(name, "fields") for name in names[:MAX_FIELDS]]
    return {"fields": [_described(field.name, table.read(field)) for field in fields], "notes": notes}


def _described(name: str, column: list[Any]) -> dict[str, Any]:
    values = [value for value in column if not (value is None or (type(value) is float and not math.isfinite(value)))]
    kinds = Counter(kind_of(value).removeprefix("a ").removeprefix("an ") for value in values)
    kind = "mixed" if len(kinds) > 1 else next(iter(kinds), "empty")
    moments = _moments(values) if kind == "text" else None
    kind = "date" if moments is not None else kind
    keys = keys_of(values)
    counts = Counter(keys)
    described: dict[str, Any] = {"field": name, "kind": kind, "count": len(values)}
    described |= {"missing": len(column) - len(values), "distinct": len(counts)}
    if kind == "mixed":
        described["kinds"] = dict(kinds)
    if moments is not None:
        described["earliest"] = values[moments.index(min(moments))]
        described["latest"] = values[moments.index(max(moments))]
    elif kind in _FIGURES:
        described |= _FIGURES[kind](values)
    if kind in ("text", "boolean", "mixed") and counts and counts.most_common(1)[0][1] > 1:
        first = dict(zip(reversed(keys), reversed(values), strict=True))
        described["top"] = [
            {"value": shortened(first[key], _TOP_CHARACTERS), "count": n} for key, n in counts.most_common(_TOP)
        ]
    return described


def _moments(values: Sequence[str]) -> list[datetime] | None:
    """The moments of texts if all of them are ISO dates or times."""
    try:
        return [moment_of(value) for value in values]
    except WrongKind:
        return None


def _number_figures(values: list[Any]) -> dict[str, Any]:
    ordered = sorted(values)
    numbers = [number for number in map(as_float, ordered) if number is not None]
    if len(numbers) < len(ordered):
        return {"min": ordered[0], "max": ordered[-1]}  # whole numbers beyond any float have no mean here
    return {
        "mean": mean(numbers),
        "std": deviation(numbers),
        "min": ordered[0],
        "p25": quantile(numbers, 0.25),
        "median": quantile(numbers, 0.5),
        "p75": quantile(numbers, 0.75),
        "max": ordered[-1],
    }


def _length_figures(values: list[Any]) -> dict[str, Any]:
    lengths = [len(value) for value in values]
    return {"min_length": min(lengths), "mean_length": sum(lengths) / len(lengths), "max_length": max(lengths)}


_FIGURES: dict[str, Callable[[list[Any]], dict[str, Any]]] = {
    "number": _number_figures,
    "text": _length_figures,
    "list": _length_figures,
    "object": _length_figures,
    "boolean": lambda values: {"true": sum(values), "false": len(values) - sum(values)},
}


def percentiles(request: Parameters, table: Table) -> dict[str, Any]:
    """Percentiles of fields, interpolated linearly."""
    fields, notes = _number_columns(request, table, MAX_FIELDS)
    wanted = _percentiles_wanted(request)
    described = []
    for name, column in fields.items():
        ordered = sorted(value for value in column if value is not None)
        figures = {_percentile_name(share): quantile(ordered, share / 100) if ordered else None for share in wanted}
        described.append({"field": name, "count": len(ordered), "missing": len(column) - len(ordered), **figures})
    return {"fields": described, "notes": notes}


def _percentiles_wanted(request: Parameters) -> Sequence[float]:
    given = request.value("percentiles")
    if given is None:
        return _PERCENTILES
    wanted = given if isinstance(given, list) else [given]
    for place, share in enumerate(wanted):
        if type(share) not in NUMBERS or not 0 <= share <= 100:
            raise AnalysisError(f"percentiles[{place}] is {quoted(share)}. Give a number from 0 to 100.")
    if not 0 < len(wanted) <= _MOST_PERCENTILES:
        raise AnalysisError(f"percentiles has {len(wanted)} numbers. Give 1 to {_MOST_PERCENTILES}.")
    return list(dict.fromkeys(wanted))


def _percentile_name(share: float) -> str:
    return f"p{int(share) if share == int(share) else share}"


def correlate(request: Parameters, table: Table) -> dict[str, Any]:
    """The correlation of every pair of fields, over the rows that have both."""
    method = request.word("method", ("pearson", "spearman"), "pearson")
    fields, notes = _number_columns(request, table, MAX_MATRIX)
    matrix = correlation(list(fields.values()), cast(Literal["pearson", "spearman"], method))
    return {"method": method, **_matrix_answer(matrix, list(fields), notes, "its values there are all the same")}


def covary(request: Parameters, table: Table) -> dict[str, Any]:
    """The covariance of every pair of fields, over the rows that have both."""
    fields, notes = _number_columns(request, table, MAX_MATRIX)
    matrix = covariance(list(fields.values()))
    return _matrix_answer(matrix, list(fields), notes, "the figure is beyond what a number can hold")


def _matrix_answer(matrix: Matrix, names: list[str], notes: list[str], otherwise: str) -> dict[str, Any]:
    undefined = [(i, j) for i in range(len(names)) for j in range(i, len(names)) if matrix.values[i][j] is None]
    if undefined:
        i, j = undefined[0]
        reason = "fewer than two rows have both" if matrix.counts[i][j] < 2 else otherwise
        notes = [*notes, f"{len(undefined)} values are null; of {names[i]!r} and {names[j]!r}, because {reason}."]
    return {"fields": names, "matrix": matrix.values, "counts": matrix.counts, "notes": notes}


def _number_columns(request: Parameters, table: Table, most: int) -> tuple[dict[str, list[float | None]], list[str]]:
    """The named columns, or those of all fields of numbers, and notes about the ones left out."""
    ignore = request.ignores_others()
    fields = request.fields(most=most)
    notes = []
    if not fields:
        found = number_fields(table, "fields")
        if not found and table.rows:
            known = comma_list(field_names(table.rows))
            raise AnalysisError(f"No field holds numbers only, so name some in fields. Fields: {known}.")
        if len(found) > most:
            notes.append(f"Only the first {most} of {len(found)} fields of numbers are used. Name others in fields.")
        fields = found[:most]
    return {field.name: numbers_of(table, field, ignore_others=ignore) for field in fields}, notes


@dataclass(frozen=True, slots=True)
class _Fence:
    """Outside of these a value is an outlier; its score is its distance from `middle` in units of `scale`."""

    lower: float
    upper: float
    middle: float
    scale: float
    note: str | None = None

    def score(self, value: float) -> float | None:
        return as_float((value - self.middle) / self.scale) if self.scale else None


def outliers(request: Parameters, table: Table) -> dict[str, Any]:
    """The rows of each field with a value outside the fence of a method."""
    method = request.word("method", tuple(_THRESHOLDS), "iqr")
    threshold = request.number("threshold", _THRESHOLDS[method], above=0)
    samples = request.whole("samples", 5, least=0, most=_MOST_SAMPLES)
    ignore = request.ignores_others()
    fields = request.fields(most=_MOST_FIELDS) or number_fields(table, "fields")
    described, notes = [], []
    if len(fields) > _MOST_FIELDS:
        notes.append(
            f"Only the first {_MOST_FIELDS} of {len(fields)} fields of numbers are used. Name others in fields."
        )
    for field in fields[:_MOST_FIELDS]:
        column = numbers_of(table, field, ignore_others=ignore)
        figures, note = _outside(column, method, threshold, samples)
        described.append({"field": field.name, **figures})
        notes += [f"{field.name}: {note}"] if note else []
    return {"method": method, "threshold": threshold, "fields": described, "notes": notes}


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
        "lower": as_float(fence.lower),
        "upper": as_float(fence.upper),
        "outliers": len(found),
        "rows": [row for row, _ in found[:_ROW_NUMBERS]],
        "samples": [{"row": row, "value": value, "score": fence.score(value)} for row, value in farthest],
    }, fence.note


def _quartile_fence(ordered: Sequence[float], threshold: float) -> _Fence:
    low, middle, high = (quantile(ordered, share) for share in (0.25, 0.5, 0.75))
    reach = (high - low) * threshold
    return _Fence(low - reach, high + reach, middle, high - low)


def _deviation_fence(ordered: Sequence[float], threshold: float) -> _Fence:
    middle, scale = mean(ordered), deviation(ordered)
    if middle is None or scale is None:
        note = "The values are too large for a standard deviation, so none is an outlier."
        return _Fence(-math.inf, math.inf, 0.0, 0.0, note)
    if scale == 0.0:
        middle = ordered[0]  # the mean may differ from the only value in the last digit
    return _Fence(middle - scale * threshold, middle + scale * threshold, middle, scale)


def _median_fence(ordered: Sequence[float], threshold: float) -> _Fence:
    middle = quantile(ordered, 0.5)
    scale = quantile(sorted(abs(value - middle) for value in ordered), 0.5) / _NORMAL_MAD
    note = None
    if scale == 0.0 and ordered[0] != ordered[-1]:
        note = "More than half of the values are the same, so every other one is an outlier and has no score."
    return _Fence(middle - scale * threshold, middle + scale * threshold, middle, scale, note)


_FENCES = {"iqr": _quartile_fence, "z_score": _deviation_fence, "mad": _median_fence}


def histogram(request: Parameters, table: Table) -> dict[str, Any]:
    """The number of values in each bin; a value on an edge belongs to the bin above, the highest edge to the last."""
    field = request.field("field")
    ignore = request.ignores_others()
    column = numbers_of(table, field, ignore_others=ignore)
    values = [value for value in column if value is not None]
    if request.has("bins") and request.has("edges"):
        raise AnalysisError("bins and edges are both given. Give one of them.")
    edges = _edges_given(request) if request.has("edges") else _edges_made(values, request)
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
    outside = {"below": below, "above": above} if request.has("edges") else {}
    missing = len(column) - len(values)
    return {"field": field.name, "count": len(values), "missing": missing, **outside, "bins": bins}


def _edges_given(request: Parameters) -> list[float]:
    given = request.value("edges")
    if not isinstance(given, list) or not 2 <= len(given) <= _MOST_BINS + 1:
        raise request.fail("edges", f"a list of 2 to {_MOST_BINS + 1} ascending numbers")
    for place, edge in enumerate(given):
        if type(edge) not in NUMBERS or not abs(edge) < math.inf or (place and edge <= given[place - 1]):
            raise AnalysisError(f"edges[{place}] is {quoted(edge)}. Give finite numbers, each above the one before.")
    return given


def _edges_made(values: Sequence[float], request: Parameters) -> list[float]:
    bins = request.whole("bins", 10, least=1, most=_MOST_BINS)
    if not values:
        return []
    low, high = min(values), max(values)
    if low == high:
        return [low, high]  # one bin for the only value
    # Two products, not a difference, which may overflow; and no edge twice where floats are too coarse for the bins.
    made = [low * (1 - place / bins) + high * (place / bins) for place in range(1, bins)]
    return [low, *sorted({edge for edge in made if low < edge < high}), high]


_COLUMNS = ("field", "fields", "invalid")
_SAMPLES = ("field", "fields", "group_by", "groups", "invalid", "alternative")

OPERATIONS: dict[str, tuple[Callable[[Parameters, Table], dict[str, Any]], tuple[str, ...]]] = {
    "describe": (describe, ("field", "fields")),
    "percentiles": (percentiles, (*_COLUMNS, "percentiles")),
    "correlation": (correlate, (*_COLUMNS, "method")),
    "covariance": (covary, _COLUMNS),
    "resample": (resample, ("time", "every", "group_by", "aggregations", "fill")),
    "rolling": (rolling, ("aggregations", "window", "min_count", "time", "group_by")),
    "outliers": (outliers, (*_COLUMNS, "method", "threshold", "samples")),
    "histogram": (histogram, ("field", "invalid", "bins", "edges")),
    "t_test": (t_test, (*_SAMPLES, "mean", "paired", "equal_variances")),
    "mann_whitney": (mann_whitney, (*_SAMPLES, "method")),
    "kolmogorov_smirnov": (kolmogorov_smirnov, (*_SAMPLES[:-1], "distribution", "mean", "std")),
    "chi_square": (chi_square, ("field", "fields", "expected", "correction")),
}
"""Every operation, with its parameters besides `operation`, `conditions` and `logic`."""
