"""Reads parts of a request strictly: anything unexpected is an error that names its path and the nearest word."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from .errors import AnalysisError, comma_list, nearest, quoted
from .limits import MAX_ITEMS
from .plan import Field
from .values import NUMBERS, as_float

Word = TypeVar("Word")


def path_to(at: str, key: str | int) -> str:
    """The path of a part: `conditions[1]`, `conditions[1].field`."""
    if isinstance(key, int):
        return f"{at}[{key}]"
    return f"{at}.{key}" if at else key


def as_object(value: Any, at: str, known: Sequence[str], *, hint: str = "") -> dict[str, Any]:
    """An object with known keys only."""
    if not isinstance(value, dict):
        raise AnalysisError(f"{at or 'parameters'} is {quoted(value)}. Give an object with {comma_list(known)}.{hint}")
    for key in value:
        if key not in known:
            place = f" in {at}" if at else ""
            raise AnalysisError(
                f"No parameter {key!r}{place}.{nearest(str(key), known)} Known: {comma_list(known)}.{hint}"
            )
    return value


def exactly_one(value: dict[str, Any], at: str, *keys: str) -> Any:
    """The value of the only one of these keys that is given."""
    given = [key for key in keys if key in value]
    if len(given) == 1:
        return value[given[0]]
    place = at or "parameters"
    if given:
        raise AnalysisError(f"{place} has {comma_list(given)}, of which only one is possible. Give one of them.")
    raise AnalysisError(f"{place} lacks {keys[0]!r}. Give it; this has {comma_list(value) or 'nothing'}.")


def as_text(value: Any, at: str) -> str:
    """Text that is not empty."""
    if isinstance(value, str) and value:
        return value
    raise AnalysisError(f"{at} is {quoted(value)}. Give a text.")


def as_scalar(value: Any, at: str) -> bool | int | float | str | None:
    """A plain value."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        raise AnalysisError(f"{at} is {value!r}. Give a finite number, or use 'is_null'.")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise AnalysisError(f"{at} is {quoted(value)}. Give one plain value: text, a number, a boolean or null.")


def as_list(value: Any, at: str, *, most: int = MAX_ITEMS) -> list[Any]:
    """A list."""
    if not isinstance(value, list | tuple):
        raise AnalysisError(f"{at} is {quoted(value)}. Give a list.")
    if len(value) > most:
        raise AnalysisError(f"{at} has {len(value)} items. At most {most} are possible.")
    return list(value)


def as_names(value: Any, at: str) -> list[tuple[str, str]]:
    """Names with their paths: a list of them, or one alone."""
    if isinstance(value, str):
        return [(as_text(value, at), at)]
    names = [(as_text(each, path_to(at, place)), path_to(at, place)) for place, each in enumerate(as_list(value, at))]
    if not names:
        raise AnalysisError(f"{at} is empty. Name a field.")
    if twice := repeated(name for name, _ in names):
        raise AnalysisError(f"{at} names {comma_list(twice)} twice. Name each field once.")
    return names


def as_count(value: Any, at: str, *, least: int = 0, most: int | None = None) -> int:
    """A whole number from `least` to `most`."""
    if type(value) is int and value >= least and (most is None or value <= most):
        return value
    to = "" if most is None else f" to {most}"
    raise AnalysisError(f"{at} is {quoted(value)}. Give a whole number from {least}{to}.")


def as_flag(value: Any, at: str) -> bool:
    """A boolean."""
    if isinstance(value, bool):
        return value
    raise AnalysisError(f"{at} is {quoted(value)}. Give true or false.")


def as_word(value: Any, at: str, words: Mapping[str, Word], *, shown_as: Sequence[str] = ()) -> Word:
    """The meaning of one of a fixed list of words, in any case; messages list `shown_as`."""
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    hint = nearest(value, words) if isinstance(value, str) else ""
    raise AnalysisError(f"{at} is {quoted(value)}.{hint} Give one of {comma_list(shown_as or words)}.")


def repeated(names: Iterable[str]) -> list[str]:
    """The names that occur more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


class Parameters:
    """The parameters of one statistic or rule, with `known` keys only; `at` is their path. Null counts as absent."""

    def __init__(self, parameters: Any, known: Sequence[str], at: str = "") -> None:
        self._parameters = as_object(parameters, at, known)
        self._at = at

    def at(self, name: str) -> str:
        """The path to a parameter."""
        return path_to(self._at, name)

    def has(self, name: str) -> bool:
        """True if a parameter is given."""
        return self._parameters.get(name) is not None

    def value(self, name: str) -> Any:
        """The raw parameter; None if absent."""
        return self._parameters.get(name)

    def fail(self, name: str, wanted: str) -> AnalysisError:
        """The error for a missing or wrong parameter."""
        if not self.has(name):
            return AnalysisError(f"{self._at or 'parameters'} lacks {name!r}. Give {wanted}.")
        return AnalysisError(f"{self.at(name)} is {quoted(self.value(name))}. Give {wanted}.")

    def read(self, name: str, as_value: Callable[[Any, str], Word], default: Word) -> Word:
        """A parameter as one of the functions above reads it, or the default."""
        return as_value(self.value(name), self.at(name)) if self.has(name) else default

    def word(self, name: str, words: Sequence[str], default: str | None = None) -> str:
        """One word of a closed list."""
        if default is None and not self.has(name):
            raise self.fail(name, f"one of {', '.join(words)}")
        return self.read(name, partial(as_word, words={word: word for word in words}), default or "")

    def whole(self, name: str, default: int, *, least: int, most: int) -> int:
        """A whole number within bounds."""
        return self.read(name, partial(as_count, least=least, most=most), default)

    def number(self, name: str, default: float | None = None, *, above: float | None = None) -> float:
        """A finite number, above a bound if there is one."""
        given = self.value(name)
        if given is None and default is not None:
            return default
        number = as_float(given) if type(given) in NUMBERS else None
        if number is None or (above is not None and number <= above):
            raise self.fail(name, "a number" if above is None else f"a number above {above:g}")
        return number

    def ignores_others(self) -> bool:
        """True if text, booleans, lists and objects among numbers count as null instead of being an error."""
        return self.word("invalid", ("error", "ignore"), "error") == "ignore"

    def field(self, name: str) -> Field:
        """The name of one field."""
        if not self.has(name):
            raise self.fail(name, "the name of a field")
        return Field(as_text(self.value(name), self.at(name)), self.at(name))

    def fields(self, name: str = "fields", *, single: str | None = "field", most: int) -> list[Field]:
        """The names of several fields, or of one, as text or in the parameter `single`. Empty if none is given."""
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

    def two_fields(self, wanted: str) -> list[Field]:
        """The names of two fields, which the message for another number of them describes as `wanted`."""
        fields = self.fields(single=None, most=2)
        if len(fields) != 2:
            raise self.fail("fields", wanted)
        return fields
