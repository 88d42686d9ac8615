"""Values: how they compare, sort, count as equal and turn into text, numbers, dates and times.

Times are in UTC. An epoch number is in seconds, or in milli-, micro- or nanoseconds if it is too large for a time
before the year 5138 in the coarser unit.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

from .errors import AnalysisError, kind_of, nearest, quoted
from .limits import MAX_INTEGER, MAX_TEXT
from .plan import CastType

NUMBERS = frozenset((int, float))
"""The types of a number; a boolean's is neither."""

Item = TypeVar("Item")

_PLAIN = frozenset((int, float, str, type(None)))
_WHOLE = re.compile(r"[ \t\r\n]*[+-]?[0-9]{1,4000}[ \t\r\n]*")
_DECIMAL = re.compile(r"[ \t\r\n]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?[ \t\r\n]*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ].*)?", re.DOTALL)
_TRUE, _FALSE = frozenset(("true", "yes", "1")), frozenset(("false", "no", "0"))
UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
"""The lengths of a calendar bucket."""

# Naive, like every time here: UTC is implied.
_EPOCH = datetime(1970, 1, 1)
_EPOCH_LIMIT = 1e11  # larger epoch numbers are milliseconds or finer: in seconds this is the year 5138
_LENGTHS = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DURATION = re.compile(r"\s*([0-9]{1,9})\s*([A-Za-z]+)\s*")


class WrongKind(AnalysisError):
    """A value of the wrong kind; a caller that knows the row and the parameter completes the message."""


def same(left: Any, right: Any) -> bool:
    """`==`: same kind and same value."""
    if type(left) in _PLAIN and type(right) in _PLAIN:
        return bool(left == right)
    return bool(_key(left) == _key(right))


def keys_of(column: Sequence[Any]) -> Sequence[Any]:
    """A hashable key for each value, equal for equal values."""
    return column if _PLAIN.issuperset(map(type, column)) else [_key(value) for value in column]


def order_keys(column: Sequence[Any]) -> Sequence[Any]:
    """Keys that sort as the values do; none of them may be null."""
    kinds = set(map(type, column))
    if kinds <= NUMBERS or kinds == {str}:
        return column
    return [_order(value) for value in column]


def sorted_by(items: Sequence[Item], column: Sequence[Any], *, descending: bool) -> list[Item]:
    """The items in the order of their values in `column`, equals as they stood, nulls last."""
    present = [place for place, value in enumerate(column) if value is not None]
    keys = order_keys([column[place] for place in present])
    order = sorted(range(len(present)), key=keys.__getitem__, reverse=descending)
    absent = (place for place, value in enumerate(column) if value is None)
    return [items[present[place]] for place in order] + [items[place] for place in absent]


def text_of(value: Any) -> str:
    """The text of a value that is not null."""
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    return repr(value) if type(value) in NUMBERS else json_text(value, sort_keys=False)


def short(text: str) -> str:
    """The text. Raises `WrongKind` if it is longer than a value may be."""
    if len(text) > MAX_TEXT:
        raise WrongKind(f"a text of {len(text)} characters is over the limit of {MAX_TEXT}")
    return text


def as_float(value: float | str) -> float | None:
    """The number, or that of its digits, as a finite float; None if there is none."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def json_text(value: Any, *, sort_keys: bool = True) -> str:
    """A list or an object as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)


def bounded(value: Any) -> Any:
    """The result of a computation: null if it is not finite. Raises `WrongKind` beyond the largest whole number."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if -MAX_INTEGER <= value <= MAX_INTEGER:
        return value
    raise WrongKind(f"a whole number is beyond {MAX_INTEGER}; compute with float() of its operands")


def to_date(value: Any) -> date:
    """The day of ISO text, with or without a time."""
    if type(value) is str and _DATE.fullmatch(value):
        try:
            return date.fromisoformat(value[:10])
        except ValueError:
            pass  # the 31st of a short month
    raise _wrong_kind(value, "a date like '2025-03-31'")


def to_datetime(value: Any) -> datetime:
    """The moment of ISO text; midnight for a date alone."""
    if type(value) is str and _DATE.fullmatch(value):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            pass  # a time of day that does not exist
    raise _wrong_kind(value, "a time like '2025-03-31T14:00:00'")


def _key(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    # In a tuple, because `True == 1` holds in Python.
    return (value,) if kind is bool else ("json", json_text(value))


def _order(value: Any) -> tuple[int, Any]:
    kind = type(value)
    if kind in NUMBERS:
        return 1, value
    if kind is str:
        return 2, value
    return (0, value) if kind is bool else (3, json_text(value))


def _to_int(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) in (bool, float) or (type(value) is str and _WHOLE.fullmatch(value)):
        return int(bounded(int(value)))
    raise _wrong_kind(value, "a whole number")


def _to_float(value: Any) -> float | None:
    if type(value) in (bool, int, float) or (type(value) is str and _DECIMAL.fullmatch(value)):
        return as_float(value)
    raise _wrong_kind(value, "a number")


def _to_bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    word = text_of(value).strip().lower() if type(value) in (str, int) else ""
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise _wrong_kind(value, "a boolean")


def _wrong_kind(value: Any, wanted: str) -> WrongKind:
    return WrongKind(f"{quoted(value)} ({kind_of(value)}) is not {wanted}")


CASTS: dict[CastType, Callable[[Any], Any]] = {
    "int": _to_int,
    "float": _to_float,
    "str": lambda value: short(text_of(value)),
    "bool": _to_bool,
    "date": lambda value: to_date(value).isoformat(),
    "datetime": lambda value: to_datetime(value).isoformat(),
}
"""The function that casts a value that is not null to each type. A value without such a form raises `WrongKind`."""


def read_moments(column: Sequence[Any], name: str, at: str) -> list[datetime | None]:
    """The moment of each value, null for null."""
    moments: list[datetime | None] = []
    for row, value in enumerate(column):
        try:
            moments.append(None if value is None else moment_of(value))
        except WrongKind:
            raise AnalysisError(
                f"{at}: row {row} has {quoted(value)} in field {name!r}, which is not a time. Expected ISO text like "
                "'2025-03-31T14:00:00Z' or '2025-03-31', or seconds since 1970."
            ) from None
    return moments


def moment_of(value: Any) -> datetime:
    """A naive time in UTC; a time without a zone is taken as UTC."""
    try:
        if type(value) in NUMBERS:
            seconds = value
            for _ in range(3):
                if abs(seconds) >= _EPOCH_LIMIT:
                    seconds = seconds / 1000
            return _EPOCH + timedelta(seconds=seconds)
        moment = to_datetime(value)
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:  # in UTC it is before the year 1 or after 9999
        raise _wrong_kind(value, "a time of the years 1 to 9999") from None


def bucket_start(moment: datetime, unit: str) -> datetime:
    """The start of the `unit` that holds a time; weeks begin on Monday."""
    # The calendar begins on a Monday at midnight, so that lengths since then begin where buckets do.
    start = moment - (moment - datetime.min) % _LENGTHS.get(unit, _LENGTHS["day"])
    if unit in _MONTHS:
        return start.replace(month=(start.month - 1) // _MONTHS[unit] * _MONTHS[unit] + 1, day=1)
    return start


def next_bucket(start: datetime, unit: str) -> datetime:
    """The start of the bucket after the one that begins at `start`."""
    if unit in _LENGTHS:
        return start + _LENGTHS[unit]
    months = start.year * 12 + start.month - 1 + _MONTHS[unit]
    return start.replace(year=months // 12, month=months % 12 + 1)


def bucket_text(start: datetime, unit: str) -> str:
    """A bucket as the answer names it: a date, or a time for those shorter than a day."""
    return f"{start.isoformat()}Z" if unit in ("second", "minute", "hour") else start.date().isoformat()


def read_duration(text: str, at: str) -> timedelta:
    """A duration such as `7 days` or `90 minutes`."""
    found = _DURATION.fullmatch(text)
    if not found:
        raise AnalysisError(f"{at} is {quoted(text)}. Expected a number of rows, or a duration like '7 days'.")
    unit = found[2].lower()
    unit = unit if unit in _LENGTHS else unit.removesuffix("s")
    if unit not in _LENGTHS:
        raise AnalysisError(
            f"{at} is {quoted(text)}: {found[2]!r} is not a unit of fixed length.{nearest(unit, _LENGTHS)} "
            f"Units: {', '.join(_LENGTHS)}."
        )
    try:
        duration = int(found[1]) * _LENGTHS[unit]
    except OverflowError:
        duration = timedelta(0)
    if not duration:
        raise AnalysisError(f"{at} is {quoted(text)}. Expected a duration above zero and under 2,700,000 years.")
    return duration
