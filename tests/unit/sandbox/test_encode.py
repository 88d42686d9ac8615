"""The result encoder of the guest: what becomes of each kind of value, and that no value can break it."""

import array
import collections
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import fractions
import importlib
import itertools
import json
import pathlib
import subprocess
import sys
import types
import uuid
from typing import NamedTuple

import msgspec
import numpy
import pandas
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

GUEST = pathlib.Path(__file__).parents[3] / "src/sealyard/sandbox/guest"
MODULE = GUEST / "encode.py"


def _load(name):
    """Load a module as the sandbox does: by its own name, without the package around it."""
    sys.path.insert(0, str(GUEST))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(GUEST))


guest = _load("encode")
preview = _load("preview")
ample = 1 << 20
patient = settings(deadline=None)


def _encoded(value):
    return guest.encode(value, max_bytes=ample)


def _refusal(value, **options):
    __tracebackhide__ = True  # A report of a failure must not look at a hostile value.
    try:
        guest.encode(value, max_bytes=ample, **options)
    except guest.Unrepresentable as error:
        return str(error) if type(error) is guest.Unrepresentable else "a class of another's making"
    return "not refused"


def _size(value):
    return len(msgspec.json.encode(value))


def _made(name, *bases, meta=type, **namespace):
    """Make a class; most of those below exist for one line of a table."""
    return meta(name, bases, namespace)


def _raising(error):
    def method(*args, **kwargs):
        raise error

    return method


class Foreign(BaseException):
    """Neither an `Exception` nor one that the encoder knows."""


class Colour(enum.Enum):
    """Members whose values are plain and not so plain."""

    RED = 1
    SIZED = ("a", 2)


class Word(enum.StrEnum):
    """A text by itself."""

    YES = "yes"


class Flags(enum.IntFlag):
    """A number by itself."""

    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Point:
    """Holds anything, and has a pseudo-field that is no part of the value."""

    x: object
    y: object = None
    kind: dataclasses.InitVar[str] = "p"


@dataclasses.dataclass(slots=True, frozen=True)
class Slotted:
    """Has no `__dict__`."""

    name: str


class Pair(NamedTuple):
    """A tuple with names."""

    left: object
    right: object


class Steps(collections.abc.Sequence):
    """A sequence that is no list."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return ("one", "two")[index]


_never = _raising(Foreign)
Text = _made("Text", str, __str__=_never, __len__=_never, isascii=_never, encode=_never)
Whole = _made("Whole", int, __index__=_never, __int__=_never, __repr__=_never, bit_length=_never)
Real = _made("Real", float, __float__=_never, __sub__=_never, __repr__=_never)
Items = _made("Items", list)
Pairs = _made("Pairs", dict, items=_never, keys=_never, __iter__=_never, __len__=_never, __getitem__=_never)
Row = _made("Row", _asdict=lambda self: {"id": 1})
Anything = _made("Anything")

reordered = collections.OrderedDict(a=1, b=2)
reordered.move_to_end("a")

NOON = datetime.datetime(2024, 5, 1, 12, 0, 0, 5, tzinfo=datetime.UTC)
BYTES_NOTE = "bytes became base64 in an object with the key $bytes"
KEY_NOTE = "keys that are not text became text"
SURROGATE_NOTE = "surrogates in text were joined or became U+FFFD"

STANDARD = {
    "null": (None, "null", []),
    "true": (True, "true", []),
    "zero": (0, "0", []),
    "negative zero": (-0.0, "-0.0", []),
    "beyond 2**53": (2**70, "1180591620717411303424", []),
    "4300 digits": (10**4300 - 1, "9" * 4300, []),
    "text": ('é"\n\x00', '"é\\"\\n\\u0000"', []),
    "empty": ([{}, [], ""], '[{},[],""]', []),
    "nested": ({"a": [1, 2.5, {"b": None}]}, '{"a":[1,2.5,{"b":null}]}', []),
    "tuple": ((1, (2,)), "[1,[2]]", []),
    "nan": ([float("nan"), {"a": float("nan")}], '[null,{"a":null}]', ["NaN became null (2 times)"]),
    "infinity": ([float("-inf")], "[null]", ["Infinity became null"]),
    "number keys": (
        {1: "a", 2.5: "b", None: "c", False: "d"},
        '{"1":"a","2.5":"b","null":"c","false":"d"}',
        [KEY_NOTE + " (4 times)"],
    ),
    "date key": ({datetime.date(2024, 5, 1): 1}, '{"2024-05-01":1}', []),
    "enum key": ({Word.YES: 1, Colour.RED: 2}, '{"yes":1,"1":2}', [KEY_NOTE]),
    "lone surrogate": ({"\ud800": "a\udfff"}, '{"�":"a�"}', [SURROGATE_NOTE + " (2 times)"]),
    "surrogate pair": ("\ud83d\ude00", '"😀"', [SURROGATE_NOTE]),
    "datetime": (NOON, '"2024-05-01T12:00:00.000005+00:00"', []),
    "date": (datetime.date(2024, 5, 1), '"2024-05-01"', []),
    "time": (datetime.time(1, 2), '"01:02:00"', []),
    "timedelta": (datetime.timedelta(days=1, milliseconds=500), "86400.5", []),
    "decimal": (decimal.Decimal("1.10"), '"1.10"', []),
    "decimal nan": (decimal.Decimal("sNaN"), "null", ["NaN became null"]),
    "decimal infinity": (decimal.Decimal("-Infinity"), "null", ["Infinity became null"]),
    "fraction": (fractions.Fraction(1, 3), '"1/3"', []),
    "uuid": (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"', []),
    "path": (pathlib.PurePosixPath("/a/b"), '"/a/b"', []),
    "set": ({3, 10, 2}, "[2,3,10]", []),
    "set of decimals": (
        {decimal.Decimal(10), decimal.Decimal(9)},
        '["10","9"]',
        [],
    ),
    "set of many kinds": ({"b", 1, None, "a"}, '["a","b",1,null]', []),
    "set without order": (
        {decimal.Decimal("NaN"), 1},
        "[1,null]",
        ["NaN became null"],
    ),
    "set of sets": ({frozenset({2}), frozenset({1, 3})}, "[[1,3],[2]]", []),
    "bytes": (b"\xff\x00", '{"$bytes":"/wA="}', [BYTES_NOTE]),
    "bytearray": (bytearray(b"ab"), '{"$bytes":"YWI="}', [BYTES_NOTE]),
    "memoryview": (memoryview(b"abcd")[::2], '{"$bytes":"YWM="}', [BYTES_NOTE]),
    "namedtuple": ([Pair(1, [2])], '[{"left":1,"right":[2]}]', []),
    "dataclass": (Point(1, Slotted("n")), '{"x":1,"y":{"name":"n"}}', []),
    "asdict": (Row(), '{"id":1}', []),
    "enum": ([Colour.RED, Colour.SIZED], '[1,["a",2]]', []),
    "enum of text": ([Word.YES, Flags.READ | Flags.WRITE], '["yes",3]', []),
    "exception": (KeyError("k"), '{"type":"KeyError","message":"\'k\'"}', []),
    "range": (range(3), "[0,1,2]", []),
    "deque": (collections.deque([1, {2}]), "[1,[2]]", []),
    "array": (array.array("d", [1, 2]), "[1.0,2.0]", []),
    "counter": (collections.Counter("aab"), '{"a":2,"b":1}', []),
    "defaultdict": (collections.defaultdict(list, a=[1]), '{"a":[1]}', []),
    "ordered dict": (reordered, '{"b":2,"a":1}', []),
    "ordered keys": (reordered.keys(), '["b","a"]', []),
    "chain map": (collections.ChainMap({"a": 1}, {"a": 2}), '{"a":1}', []),
    "mapping proxy": (types.MappingProxyType({"a": 1}), '{"a":1}', []),
    "user classes": (
        [collections.UserDict(a=1), collections.UserList([1]), collections.UserString("s")],
        '[{"a":1},[1],"s"]',
        [],
    ),
    "dict views": ([{"a": 1}.keys(), {"a": 1}.values(), {"a": 1}.items()], '[["a"],[1],[["a",1]]]', []),
    "sequence": (Steps(), '["one","two"]', []),
    "subclasses": (
        [Text("true text"), Whole(7), Real(0.5), Items([1, 2]), Pairs(a=1), _made("Nameless", tuple)("ab")],
        '["true text",7,0.5,[1,2],{"a":1},["a","b"]]',
        [],
    ),
}


@pytest.mark.parametrize(("value", "text", "notes"), STANDARD.values(), ids=STANDARD.keys())
def test_standard_value_has_its_documented_form(value, text, notes):
    """Each kind of value of the standard library has one form, and what was changed is noted."""
    assert _encoded(value) == (text, notes)


days = pandas.to_datetime(["2024-05-01", None])
sales = pandas.DataFrame({"shop": ["a", "a", "b"], "kind": ["x", "y", "x"], "amount": [1, 2, 4]})
by_shop = sales.groupby("shop").amount
records = numpy.array([(1, "a")], dtype=[("n", "i4"), ("s", "U1")])
masked = numpy.ma.array([1, 2], mask=[False, True])

DATA = {
    "numpy scalars": (
        [numpy.int64(1), numpy.float32(0.5), numpy.float64(0.25), numpy.bool_(True), numpy.str_("s")],
        '[1,0.5,0.25,true,"s"]',
        [],
    ),
    "numpy nan": (numpy.float32("nan"), "null", ["NaN became null"]),
    "long double": (numpy.longdouble(1.5), "1.5", ["long double became a 64-bit float"]),
    "array": (numpy.arange(4).reshape(2, 2), "[[0,1],[2,3]]", []),
    "array of floats": (numpy.array([0.5, numpy.nan]), "[0.5,null]", ["NaN became null"]),
    "array of texts": (numpy.array(["a", "b"]), '["a","b"]', []),
    "array of nothing": (numpy.array([]), "[]", []),
    "array without shape": (numpy.array(5), "5", []),
    "array of objects": (
        numpy.array([None, datetime.date(2024, 5, 1)], dtype=object),
        '[null,"2024-05-01"]',
        [],
    ),
    "array of nanoseconds": (
        numpy.array(["2024-05-01", "NaT"], dtype="M8[ns]"),
        '["2024-05-01T00:00:00.000000000",null]',
        ["NaT became null"],
    ),
    "array of durations": (
        numpy.array([1, "NaT"], dtype="m8[m]"),
        "[60.0,null]",
        ["NaT became null"],
    ),
    "timestamps": (
        [pandas.Timestamp("2024-05-01", tz="UTC"), pandas.NaT, pandas.NA, pandas.Timedelta("1h")],
        '["2024-05-01T00:00:00+00:00",null,null,3600.0]',
        ["NaT became null", "NA became null"],
    ),
    "period and interval": (
        [pandas.Period("2024-05"), pandas.Interval(0, 1)],
        '["2024-05","(0, 1]"]',
        [],
    ),
    "categorical": (pandas.Categorical(["a", "b", "a"]), '["a","b","a"]', []),
    "index": ([pandas.Index([1, 2]), pandas.MultiIndex.from_tuples([("a", 1)])], '[[1,2],[["a",1]]]', []),
    "series": (pandas.Series([1, 2]), "[1,2]", []),
    "labelled series": (by_shop.sum(), '{"a":3,"b":4}', []),
    "series by two labels": (
        sales.groupby(["shop", "kind"]).amount.sum().head(2),
        '[{"shop":"a","kind":"x","amount":1},{"shop":"a","kind":"y","amount":2}]',
        [],
    ),
    "series with a label twice": (
        pandas.Series([1, 2], index=["a", "a"]),
        '[{"index":"a","value":1},{"index":"a","value":2}]',
        [],
    ),
    "frame": (
        pandas.DataFrame({"d": days, "n": pandas.array([1, None], dtype="Int64"), "f": [0.5, None]}),
        '[{"d":"2024-05-01T00:00:00","n":1,"f":0.5},{"d":null,"n":null,"f":null}]',
        ["NaT became null", "NaN became null"],
    ),
    "frame with an index": (
        sales[sales.amount > 2][["amount"]],
        '[{"index":2,"amount":4}]',
        [],
    ),
    "frame with a named index": (sales.head(1).set_index("shop"), '[{"shop":"a","kind":"x","amount":1}]', []),
    "frame with two indexes": (
        pandas.DataFrame({"n": [1]}, index=pandas.MultiIndex.from_tuples([("a", "b")])),
        '[{"level_0":"a","level_1":"b","n":1}]',
        [],
    ),
    "frame with levels of columns": (
        sales.groupby("shop").agg({"amount": ["min", "max"]}).reset_index(),
        '[{"shop":"a","amount_min":1,"amount_max":2},{"shop":"b","amount_min":4,"amount_max":4}]',
        [],
    ),
    "frame with numbered columns": (
        pandas.DataFrame([[1, 2]]),
        '[{"0":1,"1":2}]',
        [KEY_NOTE + " (2 times)"],
    ),
    "empty frame": (pandas.DataFrame({"a": []}), "[]", []),
}


@pytest.mark.parametrize(("value", "text", "notes"), DATA.values(), ids=DATA.keys())
def test_numpy_or_pandas_value_has_its_documented_form(value, text, notes):
    """Arrays are lists and tables are rows, with missing values as null."""
    assert _encoded(value) == (text, notes)


async def _forgotten():
    raise Foreign


async def _produced():
    yield 1


loop = {"rows": [{}]}
loop["rows"][0]["parent"] = loop["rows"]
deep = []
for _ in range(200):
    deep = [deep]

NO_JSON = "which JSON cannot hold. Return plain data:"
COMPLEX = "convert it with [value.real, value.imag] first."
CALL = "call it first, or take its name."
FIELDS = "convert it with vars(...) first, or take the fields you need."
READ = "Return plain data: dict, list, str, int, float, bool and None."

REFUSED = {
    "function": (
        {"rows": [0, 0, 0, {"f": len}]},
        f'result["rows"][3]["f"] is of type builtin_function_or_method, {NO_JSON} {CALL}',
    ),
    "class": (Anything, f"result is of type type, {NO_JSON} {CALL}"),
    "module": ([json], f"result[0] is of type module, {NO_JSON} take the values you need from it."),
    "generator": (
        (item for item in ()),
        f"result is of type generator, {NO_JSON} convert it with list(...) first.",
    ),
    "iterator": (iter([]), f"result is of type list_iterator, {NO_JSON} convert it with list(...) first."),
    "async generator": (
        _produced(),
        f"result is of type async_generator, {NO_JSON} collect it with [item async for item in ...] first.",
    ),
    "complex": (1 + 2j, f"result is of type complex, {NO_JSON} {COMPLEX}"),
    "numpy complex": (numpy.array([1j]), f"result[0] is of type complex128, {NO_JSON} {COMPLEX}"),
    "model": (
        _made("Model", model_dump=_never)(),
        f"result is of type Model, {NO_JSON} convert it with .model_dump() first.",
    ),
    "attrs": (
        _made("Attrs", __attrs_attrs__=())(),
        f"result is of type Attrs, {NO_JSON} convert it with attrs.asdict(...) first.",
    ),
    "struct": (
        _made("Struct", __struct_fields__=())(),
        f"result is of type Struct, {NO_JSON} convert it with msgspec.to_builtins(...) first.",
    ),
    "grouped": (
        sales.groupby("shop"),
        f"result is of type DataFrameGroupBy, {NO_JSON} aggregate it, as .sum() does.",
    ),
    "instance": (Anything(), f"result is of type Anything, {NO_JSON} {FIELDS}"),
    "object": (
        object(),
        f"result is of type object, {NO_JSON} convert it with str(...) first, or take the parts you need.",
    ),
    "long integer": (
        {"n": -(10**4300)},
        'result["n"] is an integer of more than 4300 digits. Return plain data: convert it with hex(...) first.',
    ),
    "loop": (loop, 'result["rows"][0]["parent"] is result["rows"] again, a loop without end. Leave the loop out.'),
    "depth": (deep, f"result{'[0]' * 6}…{'[0]' * 5} is nested deeper than 200 levels. Make it flatter."),
    "tuple key": (
        [{(1, 2): 3}],
        "a key of result[0] is of type tuple, and JSON keys are text. Use text as keys, or a list of rows.",
    ),
    "object key": ({"a": {Anything(): 3}}, f'a key of result["a"] is of type Anything, {NO_JSON} {FIELDS}'),
    "equal keys": ({1: "a", "1": "b"}, "result has two keys that both become \"1\": 1 and '1'. Rename one of them."),
    "equal date keys": (
        {"2024-05-01": 1, datetime.date(2024, 5, 1): 2},
        "result has two keys that both become \"2024-05-01\": '2024-05-01' and one of type date. Rename one of them.",
    ),
    "equal columns": (
        {"t": pandas.DataFrame([[1, 2]], columns=["a", "a"])},
        'result["t"] has several columns of one name. Rename them.',
    ),
    "record": (records, f"result[0] is of type void, {NO_JSON} convert it with .tolist() first."),
    "masked array": (masked, f"result is of type MaskedArray, {NO_JSON} convert it with .filled(...) first."),
    "months": (
        numpy.timedelta64(1, "M"),
        f"result is of type timedelta64 and could not be read: that raised TypeError. {READ}",
    ),
    "long key": ({"k" * 100: Anything()}, f'result["{"k" * 39}…"] is of type Anything, {NO_JSON} {FIELDS}'),
}


@pytest.mark.parametrize(("value", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_value_without_honest_form_is_refused_with_place_type_and_advice(value, message):
    """The message names the path, the type and the next thing to write."""
    assert _refusal(value) == message


def test_forgotten_await_is_named_as_such():
    """A coroutine is the one mistake that deserves its own words."""
    coroutine = _forgotten()

    message = _refusal([coroutine])
    coroutine.close()

    expected = "result[0] is of type coroutine: you forgot await. Put await before the call that made it."
    assert message == expected


def test_root_names_the_value_in_messages():
    """Arguments of a call are passed, not returned, and go by their own name."""
    message = _refusal({"f": len}, root="args")

    expected = f'args["f"] is of type builtin_function_or_method, {NO_JSON.replace("Return", "Pass")} {CALL}'
    assert message == expected


def test_200_levels_are_encoded():
    """The deepest value that is allowed does not reach the interpreter's own limit."""
    assert _encoded(deep[0]) == ("[" * 200 + "]" * 200, [])


DIGIT_LIMITS = {
    0: (10**4300, "is an integer of more than 4300 digits. Return plain data: convert it with hex(...) first."),
    640: (10**700, f"is of type int and could not be read: that raised ValueError. {READ}"),
}


@pytest.mark.parametrize("digits", DIGIT_LIMITS)
def test_digit_limit_of_the_code_changes_only_what_is_refused(digits):
    """Code may move its own interpreter's limit, not that of the reader."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(digits)
    try:
        message = _refusal(DIGIT_LIMITS[digits][0])
    finally:
        sys.set_int_max_str_digits(before)

    expected = f"result {DIGIT_LIMITS[digits][1]}"
    assert message == expected


Endless = _made("Endless", collections.abc.Sequence, __len__=lambda self: 1, __getitem__=lambda self, index: None)
EndlessMapping = _made(
    "EndlessMapping",
    collections.abc.Mapping,
    __len__=lambda self: 0,
    __iter__=lambda self: itertools.count(),
    __getitem__=lambda self, key: Endless(),
)
laughs = ["ha"]
for _ in range(60):
    laughs = [laughs, laughs]

TOO_LARGE = {
    "endless sequence": Endless(),
    "endless mapping": EndlessMapping(),
    "endless range": range(10**30),
    "shared lists": laughs,
    "shared text": ["x" * 10**6] * 10**6,
    "many items": [None] * 10**6,
    "many keys": dict.fromkeys(range(10**5)),
    "many bytes": bytes(10**6),
    "large array": numpy.zeros(10**6),
    "large frame": pandas.DataFrame({"a": range(10**5)}),
    "large series": pandas.Series(range(10**5), index=range(1, 10**5 + 1)),
    "escapes": "\x00" * 9_000,
}


@pytest.mark.parametrize("value", TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_large_value_is_refused_without_being_built(value):
    """Reading stops when the limit cannot be met any more."""
    with pytest.raises(guest.TooLarge) as caught:
        guest.encode(value, max_bytes=10_000)

    assert type(caught.value) is guest.TooLarge
    assert caught.value.bytes > 10_000
    assert str(caught.value) == (
        f"The value is at least {caught.value.bytes} bytes as JSON, and the limit is 10000. "
        "Use less of it: filter it, aggregate it, or write it to a file in the workspace."
    )


exits = _raising(SystemExit)


def _unreadable(value, name, error):
    return value, f"result is of type {name} and could not be read: that raised {error}. {READ}"


def _hostile():
    """Make the table in here: pytest itself trips over some of these classes when it finds them in the module."""
    liar = _made("Liar", __class__=dict)
    raiser = _made(
        "Raiser",
        __class__=property(exits),
        **dict.fromkeys(("__repr__", "__str__", "__len__", "__iter__", "__getattr__", "__hash__", "__eq__"), exits),
    )
    meta = _made(
        "Meta",
        type,
        **dict.fromkeys(("__name__", "__mro__", "__dict__", "__module__", "__doc__"), property(_never)),
        **dict.fromkeys(("__instancecheck__", "__subclasscheck__", "__getattr__", "__iter__", "__repr__"), _never),
    )
    guarded = _made("Guarded", meta=meta)
    equal = _made("Equal", type, __eq__=lambda cls, other: other is str, __hash__=lambda cls: hash(str))
    impostor = _made("Impostor", meta=equal, __class__=property(_never))
    homeless = _made("Homeless", meta=_made("Unhashable", type, __hash__=_never, __eq__=_never))
    named = _made(_made("Name", str, __str__=_never, __format__=_never, encode=_never)("Named" + "x" * 100))
    deepening = _made("Deepening", Steps, __iter__=lambda self: iter([deepening()]))
    released = memoryview(b"a")
    released.release()
    return {
        "class lies": (liar(), f"result is of type Liar, {NO_JSON} {FIELDS}"),
        "everything raises": (
            [raiser()],
            f"result[0] is of type Raiser, {NO_JSON} convert it with list(...) first.",
        ),
        "metaclass raises": (
            guarded(),
            f"result is of type Guarded and could not be read: that raised Foreign. {READ}",
        ),
        "metaclass equals": (
            [impostor()],
            f"result[0] is of type Impostor and could not be read: that raised TypeError. {READ}",
        ),
        "metaclass has no hash": (
            {"a": homeless()},
            f'result["a"] is of type Homeless and could not be read: that raised Foreign. {READ}',
        ),
        "key": (
            {guarded(): 1},
            f"a key of result is of type Guarded and could not be read: that raised Foreign. {READ}",
        ),
        "name": (named(), f"result is of type Named{'x' * 54}…, {NO_JSON} {FIELDS}"),
        "ever deeper": (
            deepening(),
            f"result{'[0]' * 6}…{'[0]' * 5} is nested deeper than 200 levels. Make it flatter.",
        ),
        "sequence": _unreadable(_made("Raising", Steps, __iter__=_never)(), "Raising", "Foreign"),
        "mapping": _unreadable(
            _made("Raising", collections.UserDict, __getitem__=_raising(GeneratorExit))(a=1), "Raising", "GeneratorExit"
        ),
        "recursion": _unreadable(
            _made("Raising", Steps, __iter__=_raising(RecursionError))(), "Raising", "RecursionError"
        ),
        "exception": _unreadable(_made("Failing", Exception, __str__=exits)(), "Failing", "SystemExit"),
        "time zone": _unreadable(
            datetime.datetime(2024, 5, 1, tzinfo=_made("Zone", datetime.tzinfo, utcoffset=_never)()),
            "datetime",
            "Foreign",
        ),
        "asdict raises": _unreadable(_made("Raising", _asdict=_never)(), "Raising", "Foreign"),
        "asdict lies": _unreadable(_made("Odd", _asdict=lambda self: [("a", 1)])(), "Odd", "AttributeError"),
        "namedtuple lies": _unreadable(_made("Odd", tuple, _asdict=_never)("a"), "Odd", "Foreign"),
        "dataclass lies": _unreadable(_made("Odd", __dataclass_fields__=5)(), "Odd", "AttributeError"),
        "dataclass raises": _unreadable(
            _made("Raising", __dataclass_fields__=Point.__dataclass_fields__, x=property(_never))(),
            "Raising",
            "Foreign",
        ),
        "released": _unreadable(released, "memoryview", "ValueError"),
    }


HOSTILE = _hostile()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_value_is_refused_like_any_other(name):
    """Whatever a value's own code raises or claims, the answer is a clear refusal."""
    message = _refusal(HOSTILE[name][0])

    expected = HOSTILE[name][1]
    assert message == expected


def test_hostile_module_in_place_of_a_known_one_is_survived(monkeypatch):
    """Code can put what it likes into `sys.modules`."""
    monkeypatch.setitem(sys.modules, "polars", _made("Evil", types.ModuleType, __getattr__=exits)("polars"))

    expected = f"result is of type Anything and could not be read: that raised SystemExit. {READ}"
    assert _refusal(Anything()) == expected


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_end_of_memory_and_interrupt_pass_through(error):
    """They are not the value's fault, and the runner has its own answer to them."""
    value = _made("Ends", Steps, __iter__=_raising(error))()

    with pytest.raises(error):
        guest.encode(value, max_bytes=ample)


def test_value_that_was_refused_leaves_nothing_behind():
    """Each call starts afresh: what one class taught the encoder ends with the call."""
    _refusal([Anything()])

    assert _encoded([1]) == ("[1]", [])


json_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
json_values = st.recursive(
    json_scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30
)


@patient
@given(json_values)
def test_json_value_round_trips_identically(value):
    """Plain data comes back as it was, with no note."""
    text, notes = _encoded(value)

    assert repr(json.loads(text)) == repr(value)
    assert notes == []


any_text = st.text(st.characters())
hashables = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | any_text
    | st.dates()
    | st.datetimes(timezones=st.none() | st.just(datetime.UTC))
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.uuids()
    | st.binary()
    | st.sampled_from([*Colour, *Word, pathlib.PurePosixPath("a"), Slotted("s"), pandas.NaT, pandas.NA])
    | st.integers(-128, 127).map(numpy.int8)
    | st.floats(width=32).map(numpy.float32)
)
supported = st.recursive(
    hashables
    | st.decimals()
    | st.binary().map(bytearray)
    | st.lists(st.floats()).map(numpy.array)
    | st.lists(st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))).map(pandas.to_datetime)
    | st.lists(st.tuples(st.integers(-9, 9), any_text)).map(lambda rows: pandas.DataFrame(rows, columns=["n", "s"]))
    | st.builds(ValueError, any_text),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.lists(inner).map(collections.deque)
        | st.frozensets(hashables)
        | st.dictionaries(st.text(), inner)
        | st.dictionaries(st.integers(), inner)
        | st.dictionaries(st.dates(), inner).map(collections.OrderedDict)
        | st.dictionaries(st.text(), inner).map(types.MappingProxyType)
        | st.builds(Pair, inner, inner)
        | st.builds(Point, inner, inner)
    ),
    max_leaves=20,
)


def _strict(constant):
    raise AssertionError(constant)


@patient
@given(supported)
def test_any_nesting_of_supported_values_is_strict_json(value):
    """Both readers on the other side accept the text, and read the same from it."""
    text, notes = _encoded(value)

    assert msgspec.json.decode(text.encode()) == json.loads(text, parse_constant=_strict)
    assert len(notes) == len(set(notes))


@patient
@given(supported)
@example(pandas.DataFrame([(0, "")], columns=["n", "s"]))
def test_limit_is_met_to_the_byte(value):
    """Early stops never refuse what would have fitted."""
    text, _ = _encoded(value)
    size = len(text.encode())

    assert guest.encode(value, max_bytes=size)[0] == text
    with pytest.raises(guest.TooLarge) as caught:
        guest.encode(value, max_bytes=size - 1)
    assert caught.value.bytes == size


DESCRIBED = {
    "null": (None, "null"),
    "number": (1.5, "number"),
    "boolean": (True, "boolean"),
    "text": ("x" * 120_000, "text of 120000 characters"),
    "character": ("x", "text of 1 character"),
    "empty list": ([], "empty list"),
    "numbers": ([1, 2.5], "list of 2 numbers"),
    "one text": (["a"], "list of 1 text"),
    "mixed": ([1, "a", None], "list of 3 values"),
    "lists": ([[1], [2]], "list of 2 lists"),
    "rows": ([{"id": i, "amount": 1} for i in range(20_000)], "list of 20000 objects with keys id, amount"),
    "uneven rows": ([{"id": 1}, {"x y": 1, "id": 2}], 'list of 2 objects with keys id, "x y"'),
    "empty rows": ([{}], "list of 1 object without keys"),
    "object": ({"total": 1, "top": []}, "object with keys total, top"),
    "one key": ({"total": 1}, "object with key total"),
    "no keys": ({}, "object without keys"),
    "many keys": (
        {f"field_{i}": i for i in range(100)},
        f"object with keys {', '.join(f'field_{i}' for i in range(17))} and 83 more",
    ),
    "long key": ({"k" * 999: 1}, f'object with key "{"k" * 39}…"'),
    "other": (numpy.int8(1), "value of type int8"),
}


@pytest.mark.parametrize(("value", "shape"), DESCRIBED.values(), ids=DESCRIBED.keys())
def test_shape_is_described_in_words(value, shape):
    """A shape tells kind, number and keys."""
    assert preview.describe(value) == shape


@patient
@given(json_values)
def test_description_is_short(value):
    """However wild the keys, a description stays within 200 characters."""
    assert 0 < len(preview.describe(value)) <= 200


rows = [{"id": number, "name": "n" * 20} for number in range(20_000)]

PREVIEWED = {
    "rows": (rows, 150, [*rows[:3], {"…": "19997 more items"}]),
    "numbers": (list(range(1000)), 64, [*range(16), {"…": "984 more items"}]),
    "text": ("é" * 1000, 64, "é" * 12 + "… (+988 characters)"),
    "outline": (
        {"total": 7, "rows": rows, "note": "n" * 500, "ok": True},
        200,
        {
            "total": 7,
            "rows": [{"id": 0, "name": "n" * 20}, {"…": "19999 more items"}],
            "note": "n" * 12 + "… (+488 characters)",
            "ok": True,
        },
    ),
    "deep": (
        [[["x" * 100] * 9] * 9] * 9,
        120,
        [[["x" * 12 + "… (+88 characters)", {"…": "8 more items"}], {"…": "8 more items"}], {"…": "8 more items"}],
    ),
    "keys": ({f"k{i}": i for i in range(1000)}, 64, {**{f"k{i}": i for i in range(4)}, "…": "996 more keys"}),
    "own marker": (
        {"…": "x", "a": "y" * 99, "b": 1},
        80,
        {"a": "y" * 12 + "… (+87 characters)", "b": 1, "…": "1 more key"},
    ),
    "number": (10**99, 64, "… (a number too long to show)"),
    "long key": ({"k" * 90: 1, "b": [1, 2]}, 64, {"b": [1, 2], "…": "1 more key"}),
    "fits": ([1, 2], 64, [1, 2]),
}


@pytest.mark.parametrize(("value", "max_bytes", "shown"), PREVIEWED.values(), ids=PREVIEWED.keys())
def test_preview_shows_the_outline_and_what_was_left_out(value, max_bytes, shown):
    """First items, cut texts and counts of the rest."""
    assert preview.shorten(value, max_bytes=max_bytes) == shown


def test_preview_of_endless_depth_stops():
    """Data deeper than the interpreter could walk is shown as far as it goes."""
    value = "end"
    for _ in range(100_000):
        value = [value]

    shown = preview.shorten(value, max_bytes=2000)

    expected = [{"…": "1 more item"}]
    for _ in range(32):
        expected = [expected]
    assert shown == expected


def test_preview_refuses_a_limit_that_holds_nothing():
    """Below 64 bytes not even a marker would fit everywhere."""
    with pytest.raises(ValueError, match=r"^max_bytes is 63\. Give at least 64\.$"):
        preview.shorten([], max_bytes=63)


previewable = st.recursive(
    json_scalars | st.text(min_size=50) | st.integers().map(lambda number: number**20) | st.just("…" * 40),
    lambda inner: (
        st.lists(inner, max_size=40) | st.dictionaries(st.text() | st.just("…") | st.text(min_size=60), inner)
    ),
    max_leaves=60,
)


@patient
@given(previewable, st.integers(64, 600))
def test_preview_fits_and_keeps_the_kind(value, max_bytes):
    """A preview is valid JSON within the limit, never larger than the value, and always the same."""
    shown = preview.shorten(value, max_bytes=max_bytes)

    assert _size(shown) <= min(max_bytes, _size(value))
    assert (shown == value) == (_size(value) <= max_bytes)
    assert type(shown) is type(value) or (type(value) is int and shown == "… (a number too long to show)")
    assert preview.shorten(value, max_bytes=max_bytes) == shown


def test_module_runs_alone_and_loads_next_to_nothing():
    """The zygote preloads it with no site-packages, and pays for every module it pulls in."""
    code = (
        "import json, sys; before = set(sys.modules)\n"
        f"sys.path.insert(0, {str(MODULE.parent)!r})\n"
        "import encode; after = set(sys.modules)\n"
        "print(encode.encode({'a': (1, {2})}, max_bytes=99))\n"
        "print(sorted(after - before - {'__future__', 'binascii', 'collections.abc'}))"
    )
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, encoding="utf-8", check=True)

    assert ran.stdout == "('{\"a\":[1,[2]]}', [])\n['encode', 'words']\n"
