"""Time series: calendar buckets and moving windows, measured against pandas and against counting by hand."""

import json
import math
import random
import statistics
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealyard.analysis.guest import AnalysisError, run
from sealyard.analysis.guest.limits import MAX_REDUCED
from sealyard.analysis.guest.plan import Limits
from sealyard.analysis.guest.summaries import run_statistics
from sealyard.analysis.guest.values import UNITS, bucket_start, bucket_text, moment_of, next_bucket

MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9998, 12, 31))
EVERYTHING = Limits(rows=1_000_000, bytes=1_000_000_000)
FREQUENCIES = {
    "second": "s",
    "minute": "min",
    "hour": "h",
    "day": "D",
    "week": "W",
    "month": "M",
    "quarter": "Q",
    "year": "Y",
}


def _rows(parameters: dict[str, Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(run_statistics(parameters, rows, EVERYTHING)["rows"])


def test_resampling_aggregates_each_bucket() -> None:
    """Weeks begin on Monday; rows without a time are left out and said."""
    rows = [
        {"at": "2025-01-06", "v": 5, "who": "a"},
        {"at": "2025-01-01T10:00:00+02:00", "v": 1, "who": "a"},
        {"at": "2025-01-05T23:59:59", "v": 2, "who": "b"},
        {"at": None, "v": 100, "who": "b"},
        {"at": "2025-01-20", "v": None, "who": "a"},
    ]
    parameters = {
        "operation": "resample",
        "time": "at",
        "every": "week",
        "aggregations": ["count", "sum(v)", "mean(v)", "max(who)"],
    }
    assert run_statistics(parameters, rows) == {
        "rows_in": 5,
        "operation": "resample",
        "every": "week",
        "rows_out": 3,
        "rows": [
            {"at": "2024-12-30", "count": 2, "sum_v": 3, "mean_v": 1.5, "max_who": "b"},
            {"at": "2025-01-06", "count": 1, "sum_v": 5, "mean_v": 5.0, "max_who": "a"},
            {"at": "2025-01-20", "count": 1, "sum_v": 0, "mean_v": None, "max_who": "a"},
        ],
        "notes": ["1 rows have no time and are left out."],
        "engine": "python",
    }


@pytest.mark.parametrize(
    ("fill", "gap"),
    [
        ("null", {"total": 0, "top": None}),
        ("zero", {"total": 0, "top": 0}),
        ("previous", {"total": 7, "top": 7}),
    ],
)
def test_gaps_are_filled_as_asked(fill: str, gap: dict[str, Any]) -> None:
    """Each group has its own first and last bucket; rows are in the order of time."""
    rows = [
        {"d": "2025-11-30", "g": 1, "v": 7},
        {"d": "2026-02-01", "g": 1, "v": 1},
        {"d": "2025-12-15", "g": 2, "v": 3},
    ]
    parameters = {
        "operation": "resample",
        "time": "d",
        "every": "month",
        "fill": fill,
        "group_by": ["g"],
        "aggregations": {"total": "sum(v)", "top": "max(v)"},
    }
    assert _rows(parameters, rows) == [
        {"d": "2025-11-01", "g": 1, "total": 7, "top": 7},
        {"d": "2025-12-01", "g": 1, **gap},
        {"d": "2025-12-01", "g": 2, "total": 3, "top": 3},
        {"d": "2026-01-01", "g": 1, **gap},
        {"d": "2026-02-01", "g": 1, "total": 1, "top": 1},
    ]


@pytest.mark.parametrize("unit", UNITS)
def test_buckets_are_pandas(unit: str) -> None:
    """The start of the bucket of random moments over three centuries."""
    draw = random.Random(unit)
    for _ in range(200):
        moment = datetime(1850, 1, 1) + timedelta(seconds=draw.randrange(9_000_000_000), microseconds=5)
        assert (
            bucket_start(moment, unit) == pd.Timestamp(moment).to_period(FREQUENCIES[unit]).start_time.to_pydatetime()
        )


@given(MOMENTS, st.sampled_from(UNITS))
def test_a_moment_lies_in_its_bucket(moment: datetime, unit: str) -> None:
    """Buckets meet without a gap, from the first year to the last."""
    start = bucket_start(moment, unit)
    assert start <= moment < next_bucket(start, unit)
    assert bucket_start(start, unit) == start
    assert bucket_start(next_bucket(start, unit), unit) == next_bucket(start, unit)
    assert moment_of(bucket_text(start, unit)) == start


@pytest.mark.parametrize("factor", [1, 1_000, 1_000_000, 1_000_000_000])
def test_epoch_numbers_are_read_in_any_unit(factor: int) -> None:
    """Seconds, milliseconds, microseconds and nanoseconds, told apart by their size."""
    moment = datetime(2025, 3, 31, 12, tzinfo=UTC)
    assert moment_of(int(moment.timestamp()) * factor) == moment.replace(tzinfo=None)
    assert moment_of(float(moment.timestamp()) * factor) == moment.replace(tzinfo=None)


FUNCTIONS = ("count", "sum", "mean", "median", "min", "max", "std", "variance", "distinct", "first", "last")
BY_HAND: dict[str, Any] = {
    "count": len,
    "sum": sum,
    "mean": lambda inside: float(Fraction(sum(map(Fraction, inside)), len(inside))),
    "median": statistics.median,
    "min": min,
    "max": max,
    "std": lambda inside: statistics.stdev(inside) if len(inside) > 1 else None,
    "variance": lambda inside: statistics.variance(inside) if len(inside) > 1 else None,
    "distinct": lambda inside: len(set(inside)),
    "first": lambda inside: inside[0],
    "last": lambda inside: inside[-1],
}


@settings(max_examples=60)
@given(st.lists(st.none() | st.integers(-9, 9), max_size=30), st.integers(1, 8), st.data())
def test_windows_of_rows_are_what_one_gets_by_hand(values: list[int | None], width: int, data: Any) -> None:
    """Every function over every window, nulls left out, null where too few values are inside."""
    least = data.draw(st.integers(1, width))
    rows = [{"v": value} for value in values]
    parameters = {"operation": "rolling", "window": width, "min_count": least}
    made = _rows({**parameters, "aggregations": {name: f"{name}(v)" for name in FUNCTIONS}}, [*rows, {"v": 0}])[:-1]
    for place, row in enumerate(made):
        inside = [value for value in values[max(0, place + 1 - width) : place + 1] if value is not None]
        for name in FUNCTIONS:
            expected = BY_HAND[name](inside) if len(inside) >= least else None
            assert row[name] == (expected if expected is None else pytest.approx(expected, rel=1e-12, abs=1e-12)), name


def test_windows_of_a_duration_are_pandas() -> None:
    """Irregular moments, in any order in the input, in groups."""
    draw = random.Random(7)
    start = datetime(2025, 1, 1)
    rows = [
        {
            "at": (start + timedelta(minutes=draw.randrange(20_000))).isoformat(),
            "v": draw.gauss(0, 1),
            "g": draw.choice("ab"),
        }
        for _ in range(300)
    ]
    parameters = {"operation": "rolling", "time": "at", "window": "36 hours", "group_by": "g"}
    made = _rows({**parameters, "aggregations": {"m": "mean(v)", "s": "std(v)", "n": "count(v)"}}, rows)
    assert [row["at"] for row in made] == sorted(row["at"] for row in rows)
    for name in "ab":
        frame = pd.DataFrame([row for row in made if row["g"] == name])
        frame.index = pd.to_datetime(frame["at"])
        moving = frame["v"].rolling("36h")
        assert list(frame["m"]) == pytest.approx(list(moving.mean()), rel=1e-9, abs=1e-9)
        assert list(frame["n"]) == list(moving.count())
        assert list(frame["s"])[1:] == pytest.approx(list(moving.std())[1:], rel=1e-9, nan_ok=True)


def test_a_million_steps_add_no_rounding_error() -> None:
    """A huge number that enters a window and leaves it again takes nothing with it."""
    values = [0.1, 1e300, -1e-300, *([0.1, 0.2, 0.3] * 5)]
    made = _rows({"operation": "rolling", "window": 3, "aggregations": "sum(v)"}, [{"v": value} for value in values])
    for place in range(2, len(values)):
        assert made[place]["sum_v"] == math.fsum(values[place - 2 : place + 1])


def test_a_huge_window_of_a_sum_costs_no_more_than_a_small_one() -> None:
    """A window as wide as the input: each value is added once."""
    rows = [{"v": number} for number in range(20_000)]
    parameters = {"operation": "rolling", "window": 1_000_000_000, "min_count": 1}
    made = _rows({**parameters, "aggregations": ["sum(v)", "first(v)", "std(v)"]}, rows)
    assert made[-1]["sum_v"] == 199_990_000
    assert made[-1]["first_v"] == 0
    assert made[-1]["std_v"] == pytest.approx(statistics.stdev(range(20_000)))


def test_windows_that_hold_too_many_values_to_reduce_are_refused() -> None:
    """A median reads each window anew, so the values of all windows are bounded; of groups together, too."""
    rows = [{"v": number, "g": number % 2} for number in range(10_000)]
    parameters = {"operation": "rolling", "window": 4_000, "aggregations": "median(v)"}
    with pytest.raises(AnalysisError) as raised:
        run_statistics(parameters, rows)
    assert str(raised.value) == (
        f"aggregations: the windows of 'median' hold more than {MAX_REDUCED} values together. Use a smaller window, "
        "fewer rows, or 'mean', which is not bounded."
    )
    with pytest.raises(AnalysisError):
        run_statistics({**parameters, "window": 2_900, "min_count": 1, "group_by": "g"}, rows)
    assert len(_rows({**parameters, "aggregations": "mean(v)"}, rows)) == 10_000


def test_a_million_groups_make_a_bounded_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many groups as rows: the answer shows the first and the file of the workspace has all."""
    monkeypatch.chdir(tmp_path)
    rows = [{"d": "2025-01-01", "g": f"group {number}", "v": number} for number in range(30_000)]
    request = {
        "analysis_type": "statistics",
        "data": rows,
        "parameters": {
            "operation": "resample",
            "time": "d",
            "every": "day",
            "group_by": ["g"],
            "aggregations": {"total": "sum(v)"},
        },
    }
    answer = run(request, lambda name, arguments: None)
    assert (answer["rows_in"], answer["rows_out"], len(answer["rows"])) == (30_000, 30_000, 100)
    assert answer["truncated"] is True
    lines = (tmp_path / answer["file"]).read_text().splitlines()
    assert len(lines) == 30_000
    assert json.loads(lines[-1]) == {"d": "2025-01-01", "g": "group 29999", "total": 29_999}
    made = _rows({"operation": "rolling", "window": 2, "min_count": 1, "group_by": "g", "aggregations": "sum(v)"}, rows)
    assert [row["sum_v"] for row in made] == list(range(30_000))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"operation": "resample", "time": "d", "every": "second", "aggregations": "count", "fill": "zero"},
            "every is 'second', which makes more than 100000 rows. Use a longer one, or leave the gaps open with fill "
            "'none'.",
        ),
        (
            {"operation": "resample", "time": "d", "every": "fortnight", "aggregations": "count"},
            "every is 'fortnight'. Give one of 'second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'.",
        ),
        (
            {"operation": "resample", "time": "g", "every": "day", "aggregations": "count"},
            "time: row 0 has 'a' in field 'g', which is not a time. Expected ISO text like '2025-03-31T14:00:00Z' or "
            "'2025-03-31', or seconds since 1970.",
        ),
        (
            {"operation": "resample", "time": "d", "every": "day"},
            "parameters lacks 'aggregations'. Give what to compute, like {'average': 'mean(price)'}.",
        ),
        (
            {"operation": "resample", "time": "d", "every": "day", "aggregations": {"d": "count"}},
            "time is 'd', and so is another result. Give that another name with 'as'.",
        ),
        (
            {"operation": "resample", "time": "d", "every": "day", "aggregations": "sum(g)"},
            "aggregations: 'sum' takes numbers, and row 0 has 'a' (text). Cast the field first, or filter such rows "
            "out.",
        ),
        (
            {"operation": "rolling", "window": "2 days", "aggregations": "sum(v)"},
            "parameters lacks 'time'. Give the field whose moments the window is measured by.",
        ),
        (
            {"operation": "rolling", "window": "2 months", "time": "d", "aggregations": "sum(v)"},
            "window is '2 months': 'months' is not a unit of fixed length. Nearest: 'minute'. Units: second, minute, "
            "hour, day, week.",
        ),
        (
            {"operation": "rolling", "window": "a week", "time": "d", "aggregations": "sum(v)"},
            "window is 'a week'. Expected a number of rows, or a duration like '7 days'.",
        ),
        (
            {"operation": "rolling", "window": 0, "aggregations": "sum(v)"},
            "window is 0. Give a whole number from 1 to 1000000000.",
        ),
        (
            {"operation": "rolling", "window": 2, "min_count": 3, "aggregations": "sum(v)"},
            "min_count is 3. Give a whole number from 1 to 2, the window.",
        ),
        (
            {"operation": "rolling", "window": 2, "aggregations": {"v": "sum(v)"}},
            "aggregations.v makes 'v', a field of the rows. Give another name with 'as'.",
        ),
        (
            {"operation": "rolling", "window": 2, "aggregations": "sum(w)"},
            "No field 'w' in the rows (aggregations). Fields: 'd', 'g', 'v'.",
        ),
    ],
)
def test_wrong_parameters_of_a_series_are_named(parameters: dict[str, Any], message: str) -> None:
    """The path, the value, what was expected, and the nearest word or field."""
    rows = [{"d": "2025-01-01", "g": "a", "v": 1}, {"d": "2025-06-01", "g": "b", "v": 2}]
    with pytest.raises(AnalysisError) as raised:
        run_statistics(parameters, rows)
    assert str(raised.value) == message


def test_series_of_no_rows_are_empty() -> None:
    """Nothing in, nothing out."""
    for parameters in (
        {"operation": "resample", "time": "d", "every": "day", "aggregations": "count", "fill": "zero"},
        {"operation": "rolling", "window": 3, "aggregations": "mean(v)"},
    ):
        assert _rows(parameters, []) == []
