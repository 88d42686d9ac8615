"""Moments in rows (ISO text or epoch numbers), calendar buckets and durations. All in UTC.

An epoch number is in seconds, or in milli-, micro- or nanoseconds if it is too large for a moment before the year 5138
in the coarser unit.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from .errors import AnalysisError, nearest, shown
from .values import NUMBERS, Unfit, to_datetime

UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
"""The lengths of a calendar bucket."""

# Like every moment here, in UTC without saying so.
_EPOCH = datetime(1970, 1, 1)
_EPOCH_LIMIT = 1e11
_LENGTHS = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DURATION = re.compile(r"\s*([0-9]{1,9})\s*([A-Za-z]+)\s*")


def read_moments(column: Sequence[Any], name: str, at: str) -> list[datetime | None]:
    """The moment of each value, null for null.

    Raises:
        AnalysisError: A value is neither ISO text nor an epoch number; names its row.
    """
    moments: list[datetime | None] = []
    for row, value in enumerate(column):
        try:
            moments.append(None if value is None else moment_of(value))
        except (Unfit, OverflowError):
            raise AnalysisError(
                f"{at}: row {row} has {shown(value)} in field {name!r}, which is no moment. Expected ISO text like "
                "'2025-03-31T14:00:00Z' or '2025-03-31', or seconds since 1970."
            ) from None
    return moments


def moment_of(value: Any) -> datetime:
    """One moment in UTC, without a time zone of its own; a time without a zone is taken as UTC."""
    if type(value) in NUMBERS:
        seconds = value
        for _ in range(3):
            if abs(seconds) >= _EPOCH_LIMIT:
                seconds = seconds / 1000
        return _EPOCH + timedelta(seconds=seconds)
    moment = to_datetime(value)
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def bucket_start(unit: str) -> Callable[[datetime], datetime]:
    """The function that gives the first moment of the `unit` which a moment lies in; weeks begin on Monday."""
    return _STARTS[unit]


def next_bucket(start: datetime, unit: str) -> datetime:
    """The start of the bucket after the one that begins at `start`."""
    if unit in _LENGTHS:
        return start + _LENGTHS[unit]
    months = start.year * 12 + start.month - 1 + _MONTHS[unit]
    return start.replace(year=months // 12, month=months % 12 + 1)


def bucket_text(start: datetime, unit: str) -> str:
    """A bucket as the answer names it: a date, or a time for those shorter than a day."""
    return moment_text(start) if unit in ("second", "minute", "hour") else start.date().isoformat()


def moment_text(moment: datetime) -> str:
    """A moment as ISO text in UTC."""
    return f"{moment.isoformat()}Z"


def read_duration(text: str, at: str) -> timedelta:
    """A duration such as `7 days` or `90 minutes`.

    Raises:
        AnalysisError: `text` is none, or its unit has no fixed length.
    """
    found = _DURATION.fullmatch(text)
    if not found:
        raise AnalysisError(f"{at} is {shown(text)}. Expected a number of rows, or a duration like '7 days'.")
    unit = found[2].lower()
    unit = unit if unit in _LENGTHS else unit.removesuffix("s")
    if unit not in _LENGTHS:
        raise AnalysisError(
            f"{at} is {shown(text)}: {found[2]!r} is no unit of a fixed length.{nearest(unit, _LENGTHS)} "
            f"Units: {', '.join(_LENGTHS)}."
        )
    try:
        duration = int(found[1]) * _LENGTHS[unit]
    except OverflowError:
        duration = timedelta(0)
    if not duration:
        raise AnalysisError(f"{at} is {shown(text)}. Expected a duration above zero and under 2,700,000 years.")
    return duration


def _month_start(months: int) -> Callable[[datetime], datetime]:
    def start(moment: datetime) -> datetime:
        return _day_start(moment).replace(month=(moment.month - 1) // months * months + 1, day=1)

    return start


def _day_start(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _week_start(moment: datetime) -> datetime:
    # The year 1 begins on a Monday, so that this never leaves the calendar.
    return _day_start(moment) - timedelta(days=moment.weekday())


_STARTS: dict[str, Callable[[datetime], datetime]] = {
    "second": lambda moment: moment.replace(microsecond=0),
    "minute": lambda moment: moment.replace(second=0, microsecond=0),
    "hour": lambda moment: moment.replace(minute=0, second=0, microsecond=0),
    "day": _day_start,
    "week": _week_start,
    "month": _month_start(1),
    "quarter": _month_start(3),
    "year": _month_start(12),
}
