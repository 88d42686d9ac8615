"""Turns any Python value into JSON text, or says exactly what cannot be turned and where it is.

Whatever a value's own methods raise becomes `Unrepresentable`, so that each result has a report.

Standard library only. numpy, pandas and polars are never imported here: a value of theirs can only exist when the
agent's code has imported them, so they are looked up in `sys.modules`.
"""

from __future__ import annotations

import binascii
import collections
import collections.abc
import enum
import sys
import types

from words import SCALARS, dumps, name_of, quoted, shown

TYPE_CHECKING = False
if TYPE_CHECKING:  # The real `typing` takes longer to import than all of the above.
    from collections.abc import Callable, Iterable
    from typing import Any

    _Handler = Callable[["_Conversion", Any], Any]

MAX_DEPTH = 200
"""Deepest nesting of containers that is encoded."""
MAX_DIGITS = 4_300
"""Longest integer that is encoded; CPython, which reads it on the other side, refuses longer ones by default."""
_BIG = 10**MAX_DIGITS


class Unrepresentable(TypeError):
    """A value has no honest form in JSON; the message says where it is, what it is and what to do."""


class TooLarge(ValueError):
    """The JSON text is over the limit. `bytes` is its size as far as it was known: at least that many."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"The value is at least {size} bytes as JSON, and the limit is {limit}. "
            "Use less of it: filter it, aggregate it, or write it to a file in the workspace."
        )
        self.bytes = size


def encode(value: object, *, max_bytes: int, root: str = "result") -> tuple[str, list[str]]:
    """Return `value` as compact JSON text and notes on what was lost, such as `NaN became null (2 times)`.

    Other changes of form carry no note: tuples, ranges, arrays and sets become lists, dataclasses and named tuples
    become objects, dates ISO 8601 text, decimals, fractions, paths and UUIDs text, members of an enum their values. A
    duration becomes its seconds, a DataFrame a list of row objects, with its index as a column unless that only
    numbers the rows. `root` is the name of the value in error messages. The size is watched while reading, so that an
    endless structure stops early.

    Raises:
        Unrepresentable: A part of `value` has no honest form in JSON.
        TooLarge: The text would have more than `max_bytes` bytes in UTF-8.
    """
    try:
        if _plain_cost((value,), max_bytes, _PLAIN_DEPTH) is not None:
            text = dumps(value)
            if len(text) <= max_bytes and text.isascii():
                return text, []
    except (RuntimeError, ValueError):
        pass  # another thread changes the value, or the code lowered the limit of digits: the long way names the fault
    conversion = _Conversion(max_bytes, root)
    try:
        text = dumps(conversion.convert(value))
        size = len(text) if text.isascii() else len(text.encode())
    except (MemoryError, KeyboardInterrupt, Unrepresentable, TooLarge):
        raise
    except BaseException as error:
        raise conversion.broken(type(error), type(value)) from None
    if size > max_bytes:
        raise TooLarge(size, max_bytes)
    return text, conversion.counted_notes()


# --- Conversion to plain data -----------------------------------------------------------------------------------------

_PLAIN_DEPTH = 8  # levels: plain results have fewer, and one of more goes the long way
_FIRST_STEPS, _LAST_STEPS = 6, 5  # of a longer path: they lead to the part, and to the place in it
_KEY = object()
"""Step of a path that leads to a key, not to a value."""


def _plain_cost(value: Any, limit: int, levels: int) -> int | None:
    """Return how many bytes `value` takes at least, or `None` if it is not plain, too deep or over the limit.

    Most results are plain. This finds it out for little more than what `json.dumps` takes.
    """
    if levels == 0:
        return None
    cost = 1 + len(value)
    items = value
    if type(value) is dict:
        cost += 3 * len(value)
        for key in value:
            if type(key) is not str or not (key.isascii() or _is_unicode(key)):
                return None
            cost += len(key)
        items = value.values()
    for item in items:
        kind = type(item)
        if kind is str:
            if not (item.isascii() or _is_unicode(item)):
                return None
            cost += len(item) + 2
        elif kind is int:
            if not -_BIG < item < _BIG:
                return None
            cost += 1
        elif kind is float:
            if item - item != 0.0:
                return None
            cost += 3
        elif kind is dict or kind is list or kind is tuple:
            inner = _plain_cost(item, limit - cost, levels - 1)
            if inner is None:
                return None
            cost += inner
        elif kind is bool or item is None:
            cost += 4
        else:
            return None
        if cost > limit:
            return None
    return cost


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Conversion:
    """One pass over a value: the place it has reached, the bytes that are left, and what was changed so far."""

    def __init__(self, max_bytes: int, root: str) -> None:
        self.max_bytes = max_bytes
        self.left = max_bytes
        self.root = root
        self.path: list[object] = []
        self.notes: dict[str, int] = {}
        self.opened: dict[int, tuple[int, type]] = {}
        self.handlers = _BUILTIN

    def convert(self, value: Any) -> Any:
        """Return `value` as plain `dict`, `list`, `tuple`, `str`, `int`, `float`, `bool` or `None`."""
        kind = type(value)
        if kind is str:
            self.spend(len(value) + 2)
            return value if value.isascii() else self.repaired(value)
        if kind is int:
            self.spend((value.bit_length() - 1) * 3 // 10 + 1)
            if not -_BIG < value < _BIG:
                raise self.refusal(f"is an integer of more than {MAX_DIGITS} digits", self.advice("hex(...)"))
            return value
        if kind is bool or value is None:
            self.spend(4)
            return value
        if kind is float:
            self.spend(3)
            return value if value - value == 0.0 else self.null("NaN" if value != value else "Infinity")
        mark = id(value)
        if mark in self.opened:
            same = self.where(self.path[: self.opened[mark][0]])
            raise self.refusal(f"is {same} again, a loop without end", "Leave the loop out.")
        if len(self.opened) >= MAX_DEPTH:
            raise self.refusal(f"is nested deeper than {MAX_DEPTH} levels", "Make it flatter.")
        self.opened[mark] = (len(self.path), kind)
        handler = self.handlers.get(kind) or self.find_handler(kind)
        plain = handler(self, value)
        del self.opened[mark]
        return plain

    def find_handler(self, kind: type) -> _Handler:
        """Return the handler of the nearest class that `kind` inherits from."""
        if self.handlers is _BUILTIN:
            self.handlers = _handlers_of_loaded_modules()
        handler = next((self.handlers[base] for base in kind.__mro__ if base in self.handlers), None)
        if handler is None:
            handler = next((found for name, found in _BY_ATTRIBUTE if _has(kind, name)), _refuse_unknown)
        self.handlers[kind] = handler
        return handler

    def is_plain(self, value: Any) -> bool:
        """Return True if the open `value` can stay unchanged, and then spend its cost."""
        cost = _plain_cost(value, self.left, min(_PLAIN_DEPTH, MAX_DEPTH + 1 - len(self.opened)))
        if cost is not None:
            self.spend(cost)
        return cost is not None

    def sequence(self, items: Iterable[Any]) -> list[Any] | tuple[Any, ...]:
        if type(items) is list or type(items) is tuple:
            self.room(2 * len(items))
            if self.is_plain(items):
                return items
        self.spend(1)
        plain = []
        for index, item in enumerate(items):
            self.spend(1)
            self.path.append(index)
            plain.append(self.convert(item))
            self.path.pop()
        return plain

    def keyed(self, pairs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
        self.spend(1)
        plain: dict[str, Any] = {}
        origins: dict[str, Any] = {}
        for key, item in pairs:
            self.spend(2)
            name = self.convert(key) if type(key) is str else self.key(key)
            if name in plain:
                both = f"{shown(origins[name])} and {shown(key)}"
                raise self.refusal(f"has two keys that both become {quoted(name)}: {both}", "Rename one of them.")
            origins[name] = key
            self.path.append(name)
            plain[name] = self.convert(item)
            self.path.pop()
        return plain

    def key(self, key: Any) -> str:
        self.path.append(_KEY)
        name = self.convert(key)
        if type(name) is not str:
            if type(name) not in SCALARS:
                what = f"is of type {name_of(type(key))}, and JSON keys are text"
                raise self.refusal(what, "Use text as keys, or a list of rows.")
            self.note("keys that are not text became text")
            name = dumps(name)
        self.path.pop()
        return name

    def repaired(self, text: str) -> str:
        if _is_unicode(text):
            return text
        self.note("surrogates in text were joined or became U+FFFD")
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def null(self, what: str) -> None:
        self.note(f"{what} became null")

    def note(self, text: str) -> None:
        self.notes[text] = self.notes.get(text, 0) + 1

    def counted_notes(self) -> list[str]:
        return [text if times == 1 else f"{text} ({times} times)" for text, times in self.notes.items()]

    def room(self, at_least: int) -> None:
        """Stop now if `at_least` more bytes cannot fit."""
        if at_least > self.left:
            raise TooLarge(self.max_bytes - self.left + at_least, self.max_bytes)

    def spend(self, at_least: int) -> None:
        if at_least > self.left:
            self.room(at_least)
        self.left -= at_least

    def where(self, path: list[object]) -> str:
        if _KEY in path:
            return f"a key of {self.where(path[: path.index(_KEY)])}"
        steps = [f"[{quoted(step)}]" if isinstance(step, str) else f"[{step}]" for step in path]
        if len(steps) > _FIRST_STEPS + _LAST_STEPS + 1:
            steps = [*steps[:_FIRST_STEPS], "…", *steps[-_LAST_STEPS:]]
        return self.root + "".join(steps)

    def refusal(self, what: str, advice: str) -> Unrepresentable:
        return Unrepresentable(f"{self.where(self.path)} {what}. {advice}")

    def advice(self, how: str) -> str:
        how = f"convert it with {how} first" if how.endswith(")") else how
        return f"{'Return' if self.root == 'result' else 'Pass'} plain data: {how}."

    def broken(self, error: type, kind: type) -> Unrepresentable:
        if self.opened:
            kind = next(reversed(self.opened.values()))[1]
        what = f"is of type {name_of(kind)} and could not be read: that raised {name_of(error)}"
        return self.refusal(what, self.advice("dict, list, str, int, float, bool and None"))


# --- One function for each kind of value ------------------------------------------------------------------------------


def _to(form: Callable[[Any], Any]) -> _Handler:
    return lambda c, value: c.convert(form(value))


def _iterable(c: _Conversion, value: Any) -> Any:
    return c.sequence(value)


def _tuple(c: _Conversion, value: Any) -> Any:
    return c.keyed(value._asdict().items()) if _has(type(value), "_asdict") else c.sequence(value)


def _dict(c: _Conversion, value: Any) -> Any:
    # A subclass may give anything as its items; what it holds is the value.
    c.room(5 * dict.__len__(value))
    return value if type(value) is dict and c.is_plain(value) else c.keyed(dict.items(value))


def _mapping(c: _Conversion, value: Any) -> Any:
    return c.keyed((key, value[key]) for key in value)


def _set(c: _Conversion, value: Any) -> Any:
    items = c.sequence(value)
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=dumps)


def _bytes(c: _Conversion, value: Any) -> Any:
    view = memoryview(value)
    c.room(view.nbytes * 4 // 3)
    c.note("bytes became base64 in an object with the key $bytes")
    return c.keyed([("$bytes", binascii.b2a_base64(view.tobytes(), newline=False).decode())])


def _dataclass(c: _Conversion, value: Any) -> Any:
    return c.keyed((field.name, getattr(value, field.name)) for field in sys.modules["dataclasses"].fields(value))


def _decimal(c: _Conversion, value: Any) -> Any:
    if not value.is_finite():
        return c.null("NaN" if value.is_nan() else "Infinity")
    return c.convert(str(value))


def _as_null(what: str) -> _Handler:
    return lambda c, value: c.null(what)


def _tolist(c: _Conversion, value: Any) -> Any:
    c.room(2 * len(value))
    return c.convert(value.tolist())


def _array(c: _Conversion, value: Any) -> Any:
    c.room(2 * value.size)
    if value.dtype.kind in "biufUO":
        return c.convert(value.tolist())
    # `tolist` would turn datetime64[ns] into bare integers.
    return c.sequence(value) if value.ndim else c.convert(value[()])


def _datetime64(c: _Conversion, value: Any) -> Any:
    text = str(value)
    return c.null("NaT") if text == "NaT" else c.convert(text)


def _timedelta64(c: _Conversion, value: Any) -> Any:
    if str(value) == "NaT":
        return c.null("NaT")
    return c.convert(float(value / type(value)(1, "s")))


def _floating(c: _Conversion, value: Any) -> Any:
    if value.dtype.itemsize > 8:
        c.note("long double became a 64-bit float")
    return c.convert(float(value))


def _frame(c: _Conversion, value: Any) -> Any:
    c.room(5 * value.size)
    table = value if _only_numbers_rows(value.index) else value.reset_index()
    table = table.set_axis([_joined(label) for label in table.columns], axis="columns")
    if not table.columns.is_unique:  # `to_dict` would leave all but one of them out
        raise c.refusal("has several columns of one name", "Rename them.")
    return c.sequence(table.to_dict("records"))


def _series(c: _Conversion, value: Any) -> Any:
    c.room(2 * value.size)
    index = value.index
    if _only_numbers_rows(index):
        return c.sequence(value.tolist())
    if index.nlevels == 1 and index.is_unique:
        return c.keyed(zip(index.tolist(), value.tolist(), strict=True))
    return _frame(c, value.to_frame("value" if value.name is None else value.name))


def _only_numbers_rows(index: Any) -> bool:
    is_range = type(index) is sys.modules["pandas"].RangeIndex
    return is_range and (index.start, index.step, index.name) == (0, 1, None)


def _joined(label: Any) -> Any:
    """Join the levels of a column label, as in `amount_mean`; an empty level says nothing."""
    return "_".join(str(part) for part in label if part != "") if type(label) is tuple else label


def _polars_frame(c: _Conversion, value: Any) -> Any:
    c.room(5 * value.height * value.width)
    return c.sequence(value.rows(named=True))


def _polars_series(c: _Conversion, value: Any) -> Any:
    c.room(2 * len(value))
    return c.sequence(value.to_list())


def _refuse(how: str) -> _Handler:
    def handler(c: _Conversion, value: Any) -> Any:
        raise c.refusal(f"is of type {name_of(type(value))}, which JSON cannot hold", c.advice(how))

    return handler


def _refuse_awaitable(c: _Conversion, value: Any) -> Any:
    raise c.refusal(f"is of type {name_of(type(value))}: you forgot await", "Put await before the call that made it.")


_refuse_unknown = _refuse("convert it with str(...) first, or take the parts you need")
# No form of a complex number in JSON is usual enough to be read back as one.
_refuse_complex = _refuse("convert it with [value.real, value.imag] first")

_EMPTY: dict[str, Any] = {}
_BUILTIN: dict[type, _Handler] = {
    str: _to(str.__str__),
    int: _to(int.__index__),
    float: _to(float.__float__),
    list: _iterable,
    tuple: _tuple,
    dict: _dict,
    collections.OrderedDict: lambda c, value: c.keyed(collections.OrderedDict.items(value)),  # in its own order
    type(_EMPTY.keys()): _iterable,
    type(_EMPTY.values()): _iterable,
    type(_EMPTY.items()): _iterable,
    set: _set,
    frozenset: _set,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
    range: _iterable,
    collections.deque: _iterable,
    collections.abc.Sequence: _iterable,
    collections.abc.Mapping: _mapping,
    types.MappingProxyType: _mapping,
    collections.UserString: _to(lambda value: value.data),
    BaseException: lambda c, value: c.keyed([("type", name_of(type(value))), ("message", str(value))]),
    enum.Enum: _to(lambda value: value.value),
    complex: _refuse_complex,
    type: _refuse("call it first, or take its name"),
    types.ModuleType: _refuse("take the values you need from it"),
}

_LAZY: tuple[tuple[str, str, _Handler], ...] = (
    ("array", "array", _tolist),
    ("datetime", "date", _to(lambda value: value.isoformat())),
    ("datetime", "time", _to(lambda value: value.isoformat())),
    ("datetime", "timedelta", _to(lambda value: value.total_seconds())),
    ("decimal", "Decimal", _decimal),
    ("fractions", "Fraction", _to(str)),
    ("pathlib", "PurePath", _to(str)),
    ("uuid", "UUID", _to(str)),
    ("numpy", "bool_", _to(bool)),
    ("numpy", "integer", _to(int)),
    ("numpy", "floating", _floating),
    ("numpy", "complexfloating", _refuse_complex),
    ("numpy", "datetime64", _datetime64),
    ("numpy", "timedelta64", _timedelta64),
    ("numpy", "ndarray", _array),
    ("numpy.ma", "MaskedArray", _refuse(".filled(...)")),
    ("pandas", "DataFrame", _frame),
    ("pandas", "Series", _series),
    ("pandas", "Index", _tolist),
    ("pandas.api.extensions", "ExtensionArray", _tolist),
    ("pandas", "Period", _to(str)),
    ("pandas", "Interval", _to(str)),
    ("pandas", "NaT", _as_null("NaT")),
    ("pandas", "NA", _as_null("NA")),
    ("polars", "DataFrame", _polars_frame),
    ("polars", "Series", _polars_series),
)
"""Classes, or sole instances of one, by the module that must be loaded for a value of theirs to exist."""

_BY_ATTRIBUTE: tuple[tuple[str, _Handler], ...] = (
    ("__dataclass_fields__", _dataclass),
    ("_asdict", lambda c, value: c.keyed(value._asdict().items())),
    ("__await__", _refuse_awaitable),
    ("__anext__", _refuse("collect it with [item async for item in ...] first")),
    ("__next__", _refuse("list(...)")),
    ("model_dump", _refuse(".model_dump()")),
    ("__attrs_attrs__", _refuse("attrs.asdict(...)")),
    ("__struct_fields__", _refuse("msgspec.to_builtins(...)")),
    ("agg", _refuse("aggregate it, as .sum() does")),
    ("collect", _refuse(".collect()")),
    ("to_dict", _refuse(".to_dict()")),
    ("tolist", _refuse(".tolist()")),
    ("__call__", _refuse("call it first, or take its name")),
    ("keys", _refuse("dict(...)")),
    ("__iter__", _refuse("list(...)")),
    ("__dict__", _refuse("convert it with vars(...) first, or take the fields you need")),
)
"""Encoders for classes that nothing above knows, chosen by what the class defines; the first that fits counts."""


def _handlers_of_loaded_modules() -> dict[type, _Handler]:
    handlers = dict(_BUILTIN)
    for module, name, handler in _LAZY:
        found = getattr(sys.modules.get(module), name, None)
        if found is not None:
            handlers[found if isinstance(found, type) else type(found)] = handler
    return handlers


def _has(kind: type, name: str) -> bool:
    return any(name in vars(base) for base in kind.__mro__)
