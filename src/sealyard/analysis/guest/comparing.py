"""Hypothesis tests over rows: which samples the parameters name, and what the answer says of a test."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from . import hypothesis_tests as tests
from .asking import Asked, numbers_of
from .errors import AnalysisError, listed, nearest, shown
from .fields import Table
from .moments import mean, quantile, spread
from .values import NUMBERS, keys_of, text_of

MAX_CELLS = 100_000
"""Most cells of a table of counts."""
_SHOWN_CELLS = 100
_ALTERNATIVES = ("two_sided", "less", "greater")
_NAME_CHARACTERS = 80
# Within this and its reciprocal no expected count vanishes.
_LEAST_WEIGHT = 1e-12


@dataclass(frozen=True, slots=True)
class _Sample:
    """Numbers under the name that the answer gives them."""

    name: str
    values: list[float]
    missing: int

    def told(self, *, median: bool) -> dict[str, Any]:
        """The sample's figures for an answer."""
        values = self.values
        figures: dict[str, Any] = {"name": _short(self.name), "count": len(values), "missing": self.missing}
        if median:
            return figures | {"median": quantile(sorted(values), 0.5) if values else None}
        figures["mean"] = mean(values) if values else None
        deviation = spread(values) if len(values) > 1 else None
        return figures | {"std": deviation if deviation is None or math.isfinite(deviation) else None}


def t_test(asked: Asked, table: Table) -> dict[str, Any]:
    """Whether means differ: one sample's from a number, two samples', or those of pairs."""
    alternative = cast(tests.Alternative, asked.word("alternative", _ALTERNATIVES, "two_sided"))
    paired = asked.flag("paired", default=False)
    equal = asked.flag("equal_variances", default=False)
    if asked.has("mean"):
        _refuse(asked, "mean", "fields", "group_by", "groups", "paired", "equal_variances")
        sample, expected = _one_sample(asked, table), asked.number("mean")
        outcome = tests.t_test_one(sample.values, expected, alternative)
        return _told("one_sample", outcome, [sample], {"expected_mean": expected, "alternative": alternative})
    if paired:
        _refuse(asked, "paired", "field", "group_by", "groups", "equal_variances")
        first, second = _pairs(asked, table)
        outcome = tests.t_test_paired(first.values, second.values, alternative)
        test = "paired"
    else:
        first, second = _two_samples(asked, table)
        outcome = tests.t_test_two(first.values, second.values, equal_variances=equal, alternative=alternative)
        test = "student" if equal else "welch"
    difference = mean(first.values) - mean(second.values) if first.values and second.values else math.inf
    more = {"difference": difference if math.isfinite(difference) else None, "alternative": alternative}
    return _told(test, outcome, [first, second], more)


def mann_whitney(asked: Asked, table: Table) -> dict[str, Any]:
    """Whether the values of one sample tend to be larger than those of another."""
    alternative = cast(tests.Alternative, asked.word("alternative", _ALTERNATIVES, "two_sided"))
    method = cast(Literal["auto", "exact", "asymptotic"], asked.word("method", ("auto", "exact", "asymptotic"), "auto"))
    samples = _filled(_two_samples(asked, table))
    outcome = tests.mann_whitney(samples[0].values, samples[1].values, alternative=alternative, method=method)
    return _told("mann_whitney", outcome, samples, {"alternative": alternative}, median=True)


def kolmogorov_smirnov(asked: Asked, table: Table) -> dict[str, Any]:
    """Whether two samples come from one law, or one sample from a normal law."""
    asked.word("distribution", ("normal",), "normal")
    if asked.has("fields") or asked.has("group_by"):
        _refuse(asked, "fields" if asked.has("fields") else "group_by", "distribution", "mean", "std")
        samples = _filled(_two_samples(asked, table))
        outcome = tests.kolmogorov_smirnov_two(samples[0].values, samples[1].values)
        return _told("two_sample", outcome, samples, {}, median=True)
    (sample,) = _filled([_one_sample(asked, table)])
    deviation = spread(sample.values) if len(sample.values) > 1 else 0.0
    middle = asked.number("mean", mean(sample.values))
    if not asked.has("std") and not 0.0 < deviation < math.inf:
        note = "The values have no spread to take the normal law's from. Give 'std'."
        return _told("one_sample", tests.Outcome(None, None, {}, (note,)), [sample], {"distribution": "normal"})
    scale = asked.number("std", deviation, above=0)
    outcome = tests.kolmogorov_smirnov_normal(sample.values, middle, scale)
    answer = _told("one_sample", outcome, [sample], {"distribution": "normal", "law": {"mean": middle, "std": scale}})
    if not (asked.has("mean") and asked.has("std")):
        answer["notes"].append(
            "The law's mean and std are not both given but taken from the sample, which makes the p-value too large."
        )
    return answer


def chi_square(asked: Asked, table: Table) -> dict[str, Any]:
    """Whether two fields are independent, or whether one field's values fall as expected."""
    if asked.has("fields"):
        _refuse(asked, "fields", "expected")
        return _independence(asked, table)
    _refuse(asked, "field", "correction")
    field = asked.field("field")
    values = [value for value in table.read(field) if value is not None]
    counts = Counter(map(_category, values))
    weights = _weights(asked, counts)
    if len(weights) > MAX_CELLS:
        raise AnalysisError(
            f"field: {field.name!r} has {len(weights)} different values. At most {MAX_CELLS} are counted."
        )
    names = sorted(weights)
    outcome = tests.chi_square_fit([counts[name] for name in names], [weights[name] for name in names])
    expected = outcome.details.pop("expected", [None] * len(names))
    rows = [
        {"value": _short(name), "observed": counts[name], "expected": mean_}
        for name, mean_ in zip(names, expected, strict=True)
    ]
    more = {"count": len(values), "missing": len(table.rows) - len(values), "categories": rows[:_SHOWN_CELLS]}
    answer = _told("goodness_of_fit", outcome, [], more)
    if len(rows) > _SHOWN_CELLS:
        answer["notes"].append(f"Only {_SHOWN_CELLS} of {len(rows)} categories are shown.")
    return answer


def _weights(asked: Asked, counts: Counter[str]) -> dict[str, float]:
    """How often each category is expected, in any unit: as the parameter says, else all alike."""
    if not asked.has("expected"):
        return dict.fromkeys(counts, 1.0)
    given = asked.value("expected")
    if not isinstance(given, dict) or not given:
        raise asked.fail("expected", 'an object of shares or counts by value, like {"red": 0.5, "blue": 0.5}')
    for name, weight in given.items():
        if type(weight) not in NUMBERS or not _LEAST_WEIGHT <= weight <= 1 / _LEAST_WEIGHT:
            raise AnalysisError(f"expected.{name} is {shown(weight)}. Give a share or a count above 0.")
    for name in counts:
        if name not in given:
            raise AnalysisError(
                f"expected lacks the value {shown(name)}, which {counts[name]} rows have.{nearest(name, given)} "
                "Give a share for every value."
            )
    return {name: float(weight) for name, weight in given.items()}


def _independence(asked: Asked, table: Table) -> dict[str, Any]:
    fields = asked.fields(single=None, most=2)
    if len(fields) != 2:
        raise asked.fail("fields", "two fields, or one in 'field'")
    first, second = (table.read(field) for field in fields)
    both = [
        (_category(one), _category(two))
        for one, two in zip(first, second, strict=True)
        if not (one is None or two is None)
    ]
    if not both:
        raise AnalysisError(f"No row has both {fields[0].name!r} and {fields[1].name!r}. Name fields that have values.")
    counts = Counter(both)
    across, down = sorted({one for one, _ in both}), sorted({two for _, two in both})
    if len(across) * len(down) > MAX_CELLS:
        raise AnalysisError(
            f"fields: {len(across)} values of {fields[0].name!r} by {len(down)} of {fields[1].name!r} make more than "
            f"{MAX_CELLS} cells. Group the values first."
        )
    grid = [[counts[one, two] for two in down] for one in across]
    outcome = tests.chi_square_independence(grid, correction=asked.flag("correction", default=True))
    answer = _told("independence", outcome, [], {"count": len(both), "missing": len(table.rows) - len(both)})
    if len(across) * len(down) <= _SHOWN_CELLS:
        answer["table"] = {"rows": [*map(_short, across)], "columns": [*map(_short, down)], "counts": grid}
    else:
        answer["notes"].append(f"The table of {len(across)} by {len(down)} values is too large to show.")
    return answer


def _category(value: Any) -> str:
    """The text that a value is counted under; 2 and 2.0 are one number."""
    return text_of(int(value) if type(value) is float and value.is_integer() else value)


def _short(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 1]}…"


def _one_sample(asked: Asked, table: Table) -> _Sample:
    field = asked.field("field")
    column = numbers_of(table, field, ignore_others=_ignores(asked))
    return _sample(field.name, column)


def _pairs(asked: Asked, table: Table) -> tuple[_Sample, _Sample]:
    """Two fields, over the rows that have both."""
    fields = asked.fields(single=None, most=2)
    if len(fields) != 2:
        raise asked.fail("fields", "the two fields of a pair")
    columns = [numbers_of(table, field, ignore_others=_ignores(asked)) for field in fields]
    both = [(one, two) for one, two in zip(*columns, strict=True) if one is not None and two is not None]
    missing = len(table.rows) - len(both)
    return (
        _Sample(fields[0].name, [one for one, _ in both], missing),
        _Sample(fields[1].name, [two for _, two in both], missing),
    )


def _two_samples(asked: Asked, table: Table) -> list[_Sample]:
    if asked.has("group_by"):
        _refuse(asked, "group_by", "fields")
        return _grouped(asked, table)
    if not asked.has("fields"):
        raise asked.fail("group_by", "the field that tells two samples apart, or two fields in 'fields'")
    _refuse(asked, "fields", "groups", "field")
    fields = asked.fields(single=None, most=2)
    if len(fields) != 2:
        raise asked.fail("fields", "two fields, or one in 'field' with 'group_by'")
    return [_sample(each.name, numbers_of(table, each, ignore_others=_ignores(asked))) for each in fields]


def _grouped(asked: Asked, table: Table) -> list[_Sample]:
    """The values of one field, apart by the two values of another."""
    column = numbers_of(table, asked.field("field"), ignore_others=_ignores(asked))
    by = asked.field("group_by")
    groups = table.read(by)
    wanted = asked.value("groups")
    if wanted is not None and (not isinstance(wanted, list) or len(wanted) != 2):
        raise asked.fail("groups", f"the two values of {by.name!r} to compare")
    keys = keys_of([*groups, *(wanted or ()), True])[:-1]
    found = dict.fromkeys(key for key, group in zip(keys, groups, strict=False) if group is not None)
    chosen = list(keys[len(groups) :]) if wanted is not None else list(found)
    names = {
        key: text_of(group) for key, group in zip(keys, [*groups, *(wanted or ())], strict=True) if group is not None
    }
    for place, key in enumerate(chosen if wanted is not None else ()):
        if key not in found:
            given = shown(wanted[place] if wanted else None)
            near = nearest(names.get(key, ""), [names[each] for each in found])
            raise AnalysisError(
                f"groups[{place}] is {given}, which no row has in {by.name!r}.{near} "
                f"Values: {listed(names[each] for each in found)}."
            )
    if len(set(chosen)) != 2:
        raise AnalysisError(
            f"group_by: {by.name!r} has {len(found)} different values ({listed(names[each] for each in found)}). "
            "Name the two to compare in groups."
        )
    samples: dict[Any, list[float | None]] = {key: [] for key in chosen}
    for key, value in zip(keys, column, strict=False):
        if key in samples:
            samples[key].append(value)
    return [_sample(names[key], samples[key]) for key in chosen]


def _sample(name: str, column: Sequence[float | None]) -> _Sample:
    values = [value for value in column if value is not None]
    return _Sample(name, values, len(column) - len(values))


def _filled(samples: Sequence[_Sample]) -> Sequence[_Sample]:
    for sample in samples:
        if not sample.values:
            raise AnalysisError(f"{sample.name!r} has no values to test. Name a field or group that has some.")
    return samples


def _ignores(asked: Asked) -> bool:
    return asked.word("invalid", ("error", "ignore"), "error") == "ignore"


def _refuse(asked: Asked, given: str, *others: str) -> None:
    """Raises if a parameter that has no meaning beside `given` is there too."""
    for other in others:
        if asked.has(other) and asked.value(other) is not False:
            raise AnalysisError(f"{other} has no meaning beside {given}. Leave out one of them.")


def _told(
    test: str, outcome: tests.Outcome, samples: Sequence[_Sample], more: dict[str, Any], *, median: bool = False
) -> dict[str, Any]:
    statistic = outcome.statistic
    return {
        "test": test,
        **more,
        **({"samples": [sample.told(median=median) for sample in samples]} if samples else {}),
        "statistic": statistic if statistic is None or math.isfinite(statistic) else None,
        "p_value": outcome.p_value,
        **outcome.details,
        "notes": list(outcome.notes),
    }
