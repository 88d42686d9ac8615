"""A sample of an answer that is too large for the journal: what it is made of, and a few of its rows.

It is taken from what is concealed already, and nothing in it is a part of a text: a longer one is left empty. An object
keeps all of its fields, so that none seems to be missing; one with too many of them keeps no key. Taking it costs the
same however large the answer is.
"""

from typing import Any

from sealyard.store.rows import encode_within

SAMPLE_BYTES = 16 << 10
"""Of a sample as JSON: agent code makes thousands of calls and must not fill the disk."""

_ROWS = (20, 5, 1)
"""So many rows of a list are tried; of a list in a list a quarter of it."""
_VISITS = 1_200
_DEPTH = 9
_KEYS = 64
_TEXT_CHARACTERS = 64
_LARGEST = 10**18
_KEY = "\0key"
"""The prefix of a key that is not kept. No field has such a name."""


def sample_of(value: Any) -> str | None:
    """JSON text of a few parts of a concealed answer; None if there is too much in each of them."""
    for rows in _ROWS:
        sampling = _Sampling()
        taken = sampling.take(value, rows, _DEPTH)
        text, _ = encode_within(taken, SAMPLE_BYTES) if sampling.left >= 0 else (None, True)
        if text is not None:
            return text
    return None


class _Sampling:
    """One walk, in bounds."""

    def __init__(self) -> None:
        self.left = _VISITS
        """Less than nothing, if there was too much."""

    def take(self, value: Any, rows: int, depth: int) -> Any:
        """The sample of one value."""
        self.left -= 1
        match value:
            case str():
                return value if len(value) <= _TEXT_CHARACTERS else ""
            case None | bool():
                return value
            case int() | float():
                return value if -_LARGEST < value < _LARGEST else type(value)(_LARGEST)
        if self.left < 0 or not depth:
            return None
        if isinstance(value, dict):
            return self._fields(value, rows, depth)
        return self._rows(value, rows, depth) if isinstance(value, list | tuple) else ""

    def _rows(self, value: list[Any] | tuple[Any, ...], rows: int, depth: int) -> list[Any]:
        """The first ones, and as many from all over the rest, which may be others."""
        count = min(len(value), rows)
        first = (count + 1) // 2
        places = [first + number * (len(value) - first) // (count - first) for number in range(count - first)]
        return [self.take(value[place], max(1, rows // 4), depth - 1) for place in (*range(first), *places)]

    def _fields(self, value: dict[str, Any], rows: int, depth: int) -> dict[str, Any]:
        if len(value) > _KEYS:  # its keys are data
            some = list(zip(range(rows), value.values(), strict=False))
            return {f"{_KEY}{number}": self.take(inner, max(1, rows // 4), depth - 1) for number, inner in some}
        return {
            key if len(key) <= _TEXT_CHARACTERS else f"{_KEY}{number}": self.take(inner, rows, depth - 1)
            for number, (key, inner) in enumerate(value.items())
        }
