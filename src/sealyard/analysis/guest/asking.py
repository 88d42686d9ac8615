"""The parameters of one statistic or one rule, read one by one, and the numbers of a field that they name."""

import math
from collections.abc import Sequence
from typing import Any

from .errors import AnalysisError, kind_of, shown
from .fields import Table, field_names
from .parameters import as_flag, as_names, as_object, as_text, as_word, below
from .plan import Field
from .values import NUMBERS

# It says which rows there are, and has been followed by the time that anybody reads the other parameters.
_EVERYWHERE = "data_field"


class Asked:
    """Parameters, of which only `known` may be given; `at` is the path to them. Null is as good as absent."""

    def __init__(self, parameters: Any, known: Sequence[str], at: str = "") -> None:
        if isinstance(parameters, dict):
            parameters = {name: value for name, value in parameters.items() if name != _EVERYWHERE}
        self._parameters = as_object(parameters, at, known)
        self._at = at

    def at(self, name: str) -> str:
        """The path to a parameter."""
        return below(self._at, name)

    def has(self, name: str) -> bool:
        """Whether a parameter is given."""
        return self._parameters.get(name) is not None

    def value(self, name: str) -> Any:
        """A parameter as it is, None if it is absent."""
        return self._parameters.get(name)

    def fail(self, name: str, wanted: str) -> AnalysisError:
        """The error for a parameter that is not what it should be."""
        if not self.has(name):
            return AnalysisError(f"{self._at or 'parameters'} lacks {name!r}. Give {wanted}.")
        return AnalysisError(f"{self.at(name)} is {shown(self.value(name))}. Give {wanted}.")

    def word(self, name: str, words: Sequence[str], default: str | None = None) -> str:
        """One word of a closed list."""
        if not self.has(name) and default is not None:
            return default
        if not self.has(name):
            raise self.fail(name, f"one of {', '.join(words)}")
        return as_word(self.value(name), self.at(name), {word: word for word in words})

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        return as_flag(self.value(name), self.at(name)) if self.has(name) else default

    def whole(self, name: str, default: int, *, least: int, most: int) -> int:
        """A whole number within bounds."""
        given = self.value(name)
        if given is None:
            return default
        if type(given) is not int or not least <= given <= most:
            raise self.fail(name, f"a whole number from {least} to {most}")
        return given

    def number(self, name: str, default: float | None = None, *, above: float | None = None) -> float:
        """A finite number, above a bound if there is one."""
        given = self.value(name)
        if given is None and default is not None:
            return default
        number = as_float(given) if type(given) in NUMBERS else None
        if number is None or (above is not None and number <= above):
            raise self.fail(name, "a number" if above is None else f"a number above {above:g}")
        return number

    def field(self, name: str) -> Field:
        """The name of one field."""
        if not self.has(name):
            raise self.fail(name, "the name of a field")
        return Field(as_text(self.value(name), self.at(name)), self.at(name))

    def fields(self, name: str = "fields", *, single: str | None = "field", most: int) -> list[Field]:
        """The names of several fields; also one as text, or in the parameter `single`. Empty if none is given."""
        if single is not None and self.has(single):
            if self.has(name):
                raise AnalysisError(f"{self.at(single)} and {self.at(name)} are both given. Give one of them.")
            return [self.field(single)]
        if not self.has(name):
            return []
        names = as_names(self.value(name), self.at(name))
        if len(names) > most:
            raise AnalysisError(f"{self.at(name)} names {len(names)} fields. Give at most {most}.")
        return [Field(each, at) for each, at in names]


def numbers_of(table: Table, field: Field, *, ignore_others: bool = False) -> list[float | None]:
    """The numbers of a field, None for null and for what no float can hold.

    Args:
        table: The rows.
        field: Which of their fields.
        ignore_others: Whether text, booleans, lists and objects count as null instead of being an error.

    Raises:
        AnalysisError: No row has the field, or a value in it is no number; names the row.
    """
    numbers: list[float | None] = []
    for row, value in enumerate(table.read(field)):
        if type(value) in NUMBERS:
            numbers.append(as_float(value))
        elif value is None or ignore_others:
            numbers.append(None)
        else:
            raise AnalysisError(
                f"{field.at}: {shown(value)} ({kind_of(value)}) in field {field.name!r} is not a number, in row {row}. "
                'Cast the field in a transform first, or leave such values out with "invalid": "ignore".'
            )
    return numbers


def number_fields(table: Table, at: str) -> list[Field]:
    """The fields of the rows that hold numbers and nulls only, and not only nulls."""
    found = []
    for name in field_names(table.rows):
        field = Field(name, at)
        kinds = set(map(type, table.read(field))) - {type(None)}
        if kinds and kinds <= NUMBERS:
            found.append(field)
    return found


def as_float(value: float) -> float | None:
    """The number as a finite float, None if there is none."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
