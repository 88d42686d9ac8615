"""Everyday Python, as agents write it: each probe is code and the result it must give, as JSON data.

The standard library only, and nothing that depends on time, place or chance. The result is `result`, or else the last
expression. All of it must pass the review with `allow`, and run, at level `production`.
"""

PROBES: dict[str, tuple[str, object]] = {
    "last_expression": ("1 + 1", 2),
    "result_wins_over_last_expression": ("result = [1, 2]\n'ignored'", [1, 2]),
    "print_and_result": ("print('working')\nresult = {'done': True}", {"done": True}),
    "main_guard": (
        """
def main():
    return sum(range(10))

if __name__ == "__main__":
    result = main()
""",
        45,
    ),
    "class_with_init_and_repr": (
        """
class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __repr__(self):
        return f"{self.__class__.__name__}({self.x}, {self.y})"

    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)

result = [repr(Point(1, 2)), Point(1, 2) == Point(1, 2), Point.__doc__, sorted(Point(3, 4).__dict__)]
""",
        ["Point(1, 2)", True, None, ["x", "y"]],
    ),
    "inheritance_and_super": (
        """
class Account:
    rate = 1

    def __init__(self, owner):
        self.owner = owner

    def fee(self):
        return self.rate * 10

class Savings(Account):
    rate = 2

    def __init__(self, owner, bonus):
        super().__init__(owner)
        self.bonus = bonus

    def fee(self):
        return super().fee() - self.bonus

account = Savings("kim", 5)
result = [account.owner, account.fee(), isinstance(account, Account), Savings.__mro__[1].__name__]
""",
        ["kim", 15, True, "Account"],
    ),
    "multiple_inheritance": (
        """
class Loud:
    def speak(self):
        return super().speak().upper()

class Polite:
    def speak(self):
        return super().speak() + ", please"

class Speaker:
    def speak(self):
        return "tea"

class Guest(Loud, Polite, Speaker):
    pass

Guest().speak()
""",
        "TEA, PLEASE",
    ),
    "abstract_class": (
        """
from abc import ABC, abstractmethod

class Shape(ABC):
    @abstractmethod
    def area(self): ...

class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side ** 2

try:
    Shape()
    result = "made"
except TypeError:
    result = Square(3).area()
""",
        9,
    ),
    "properties_and_setters": (
        """
class Celsius:
    def __init__(self, degrees):
        self.degrees = degrees

    @property
    def degrees(self):
        return self._degrees

    @degrees.setter
    def degrees(self, value):
        if value < -273.15:
            raise ValueError("too cold")
        self._degrees = value

    @classmethod
    def from_fahrenheit(cls, value):
        return cls((value - 32) * 5 / 9)

    @staticmethod
    def unit():
        return "C"

result = [Celsius.from_fahrenheit(212).degrees, Celsius.unit()]
try:
    Celsius(-300)
except ValueError as error:
    result.append(str(error))
""",
        [100.0, "C", "too cold"],
    ),
    "operator_overloading": (
        """
class Money:
    def __init__(self, cents):
        self.cents = cents

    def __add__(self, other):
        return Money(self.cents + other.cents)

    def __lt__(self, other):
        return self.cents < other.cents

    def __radd__(self, other):
        return self if other == 0 else NotImplemented

    def __bool__(self):
        return self.cents != 0

    def __len__(self):
        return self.cents

wallet = [Money(5), Money(1), Money(3)]
result = [sum(wallet).cents, min(wallet).cents, bool(Money(0)), len(Money(7))]
""",
        [9, 1, False, 7],
    ),
    "iterator_protocol": (
        """
class Countdown:
    def __init__(self, start):
        self.start = start

    def __iter__(self):
        return self

    def __next__(self):
        if self.start <= 0:
            raise StopIteration
        self.start -= 1
        return self.start + 1

    def __contains__(self, item):
        return item == 42

    def __getitem__(self, index):
        return index * 2

result = [list(Countdown(3)), 42 in Countdown(1), Countdown(1)[21]]
""",
        [[3, 2, 1], True, 42],
    ),
    "slots_and_attribute_hooks": (
        """
class Row:
    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

class Loose:
    def __getattr__(self, name):
        return name.upper()

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * 2)

    def __call__(self, *numbers):
        return sum(numbers)

loose = Loose()
loose.known = 4
try:
    Row("a").other = 1
    refused = False
except AttributeError:
    refused = True
result = [refused, loose.missing, loose.known, loose(1, 2, 3), hasattr([], "append")]
""",
        [True, "MISSING", 8, 6, True],
    ),
    "init_subclass_registry": (
        """
class Plugin:
    known = {}

    def __init_subclass__(cls, *, key, **rest):
        super().__init_subclass__(**rest)
        Plugin.known[key] = cls

class Csv(Plugin, key="csv"): ...
class Json(Plugin, key="json"): ...

{key: kind.__name__ for key, kind in Plugin.known.items()}
""",
        {"csv": "Csv", "json": "Json"},
    ),
    "metaclass": (
        """
class Upper(type):
    def __new__(mcs, name, bases, body):
        body = {key.upper() if not key.startswith("_") else key: value for key, value in body.items()}
        return super().__new__(mcs, name, bases, body)

class Settings(metaclass=Upper):
    debug = True
    level = 3

[Settings.DEBUG, Settings.LEVEL, hasattr(Settings, "debug")]
""",
        [True, 3, False],
    ),
    "dataclasses": (
        """
from dataclasses import asdict, dataclass, field, replace

@dataclass(order=True)
class Item:
    price: float
    name: str = field(compare=False)
    tags: list[str] = field(default_factory=list, compare=False)

    def __post_init__(self):
        self.name = self.name.strip()

@dataclass(frozen=True, slots=True)
class Key:
    a: int
    b: int = 2

items = [Item(2.5, " pen "), Item(1.0, "ink", ["blue"])]
result = {
    "cheapest": asdict(min(items)),
    "names": [item.name for item in sorted(items)],
    "key": asdict(replace(Key(1), b=5)),
    "same": len({Key(1), Key(1)}),
}
""",
        {
            "cheapest": {"price": 1.0, "name": "ink", "tags": ["blue"]},
            "names": ["ink", "pen"],
            "key": {"a": 1, "b": 5},
            "same": 1,
        },
    ),
    "enums": (
        """
from enum import Enum, IntEnum, auto

class Status(Enum):
    OPEN = "open"
    CLOSED = "closed"

class Priority(IntEnum):
    LOW = auto()
    HIGH = auto()

[Status("open").name, [status.value for status in Status], Priority.HIGH > Priority.LOW, int(Priority.HIGH)]
""",
        ["OPEN", ["open", "closed"], True, 2],
    ),
    "named_tuples": (
        """
from collections import namedtuple
from typing import NamedTuple

Pair = namedtuple("Pair", "left right")

class Employee(NamedTuple):
    name: str
    age: int = 30

pair = Pair(1, 2)
result = [pair.left + pair.right, pair._asdict(), Employee("ada")._replace(age=36).age]
""",
        [3, {"left": 1, "right": 2}, 36],
    ),
    "typing_generics_and_protocol": (
        """
from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    import requests

T = TypeVar("T")

class Sized(Protocol):
    def size(self) -> int: ...

class Box(Generic[T]):
    def __init__(self, items: list[T]) -> None:
        self.items = items

    def first(self) -> T | None:
        return self.items[0] if self.items else None

    def size(self) -> int:
        return len(self.items)

def total(boxes: list[Sized], session: requests.Session | None = None) -> int:
    return sum(box.size() for box in boxes)

[Box([5, 6]).first(), total([Box([1]), Box([2, 3])])]
""",
        [5, 3],
    ),
    "generators": (
        """
def fibonacci():
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b

def take(count, source):
    for _, value in zip(range(count), source):
        yield value

list(take(8, fibonacci()))
""",
        [0, 1, 1, 2, 3, 5, 8, 13],
    ),
    "generator_send_and_yield_from": (
        """
def averager():
    total = count = 0
    average = None
    while True:
        value = yield average
        total += value
        count += 1
        average = total / count

def flatten(items):
    for item in items:
        if isinstance(item, list):
            yield from flatten(item)
        else:
            yield item

running = averager()
next(running)
result = [[running.send(value) for value in (10, 20, 60)], list(flatten([1, [2, [3, [4]]], 5]))]
""",
        [[10.0, 15.0, 30.0], [1, 2, 3, 4, 5]],
    ),
    "reading_an_iterator_to_its_end": (
        """
iterator = iter([1, 2, 3])
seen = []
try:
    while True:
        seen.append(next(iterator))
except StopIteration:
    pass
seen
""",
        [1, 2, 3],
    ),
    "async_top_level_await": (
        """
import asyncio

async def double(number):
    await asyncio.sleep(0)
    return number * 2

result = await double(21)
""",
        42,
    ),
    "async_gather": (
        """
import asyncio

async def work(number):
    await asyncio.sleep(0.001 * (3 - number))
    return number ** 2

results = await asyncio.gather(*(work(number) for number in range(3)))
failed = await asyncio.gather(work(1), asyncio.wait_for(asyncio.sleep(5), 0.01), return_exceptions=True)
[list(results), failed[0], isinstance(failed[1], TimeoutError)]
""",
        [[0, 1, 4], 1, True],
    ),
    "async_generators_and_comprehensions": (
        """
import asyncio

async def ticks(count):
    for number in range(count):
        await asyncio.sleep(0)
        yield number

odd = [number async for number in ticks(6) if number % 2]
total = 0
async for number in ticks(4):
    total += number
result = {"odd": odd, "total": total}
""",
        {"odd": [1, 3, 5], "total": 6},
    ),
    "async_context_manager": (
        """
import asyncio

class Session:
    def __init__(self, log):
        self.log = log

    async def __aenter__(self):
        self.log.append("open")
        return self

    async def __aexit__(self, *error):
        self.log.append("closed")

async def main():
    log = []
    async with Session(log) as session:
        session.log.append("used")
    return log

await main()
""",
        ["open", "used", "closed"],
    ),
    "asyncio_run": (
        """
import asyncio

async def main():
    queue = asyncio.Queue()
    semaphore = asyncio.Semaphore(2)

    async def produce(number):
        async with semaphore:
            await queue.put(number * 10)

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(produce(number))
    return sorted([await queue.get() for _ in range(3)])

result = asyncio.run(main())
""",
        [0, 10, 20],
    ),
    "context_managers": (
        """
from contextlib import ExitStack, contextmanager, suppress

log = []

class Timer:
    def __enter__(self):
        log.append("start")
        return self

    def __exit__(self, kind, error, trace):
        log.append(kind.__name__ if kind else "end")
        return True

@contextmanager
def tag(name):
    log.append(f"<{name}>")
    try:
        yield name
    finally:
        log.append(f"</{name}>")

with Timer(), tag("a") as name:
    raise KeyError(name)
with suppress(ZeroDivisionError):
    1 / 0
with ExitStack() as stack:
    for name in "bc":
        stack.enter_context(tag(name))
log
""",
        ["start", "<a>", "</a>", "KeyError", "<b>", "<c>", "</c>", "</b>"],
    ),
    "custom_exceptions": (
        """
class ApiError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code

class NotFound(ApiError):
    def __init__(self, what):
        super().__init__(404, f"{what} is missing")

def load(name):
    try:
        {}[name]
    except KeyError as error:
        raise NotFound(name) from error

try:
    load("invoice")
except ApiError as error:
    result = [error.code, str(error), type(error.__cause__).__name__]
""",
        [404, "invoice is missing", "KeyError"],
    ),
    "try_else_finally": (
        """
def attempt(text):
    steps = []
    try:
        number = int(text)
    except (ValueError, TypeError):
        steps.append("bad")
        return steps
    else:
        steps.append(number)
    finally:
        steps.append("done")
    return steps

[attempt("7"), attempt("x"), attempt(None)]
""",
        [[7, "done"], ["bad", "done"], ["bad", "done"]],
    ),
    "exception_groups": (
        """
caught = []
try:
    raise ExceptionGroup("many", [ValueError("a"), KeyError("b"), ValueError("c")])
except* ValueError as group:
    caught.append(len(group.exceptions))
except* KeyError as group:
    caught.append(type(group.exceptions[0]).__name__)
caught
""",
        [2, "KeyError"],
    ),
    "optional_import": (
        """
try:
    import orjson as fast_json
except ImportError:
    import json as fast_json

fast_json.loads('{"a": [1, 2]}')
""",
        {"a": [1, 2]},
    ),
    "match_statement": (
        """
def describe(value):
    match value:
        case {"type": "circle", "radius": radius}:
            return f"circle {radius}"
        case {"type": kind, **rest}:
            return f"{kind} {sorted(rest)}"
        case [first, *others] if others:
            return f"{first} and {len(others)}"
        case int() | float() as number:
            return f"number {number}"
        case str(text):
            return text.upper()
        case None:
            return "nothing"
        case _:
            return "other"

values = [{"type": "circle", "radius": 2}, {"type": "box", "w": 1}, [1, 2, 3], 2.5, "hi", None, ()]
[describe(value) for value in values]
""",
        ["circle 2", "box ['w']", "1 and 2", "number 2.5", "HI", "nothing", "other"],
    ),
    "match_class_patterns": (
        """
from dataclasses import dataclass

@dataclass
class Move:
    x: int
    y: int

def act(command):
    match command:
        case Move(x=0, y=0):
            return "stay"
        case Move(x, y):
            return x + y

[act(Move(0, 0)), act(Move(3, 4))]
""",
        ["stay", 7],
    ),
    "walrus": (
        """
rows = ["a=1", "skip", "b=22"]
pairs = {parts[0]: int(parts[1]) for row in rows if len(parts := row.split("=")) == 2}
while (size := len(pairs)) < 4:
    pairs[f"extra{size}"] = size
pairs
""",
        {"a": 1, "b": 22, "extra2": 2, "extra3": 3},
    ),
    "star_arguments": (
        """
def report(title, /, *values, sep="-", **options):
    return f"{title}:{sep.join(map(str, values))}:{sorted(options.items())}"

defaults = {"sep": "+", "width": 3}
result = [report("a", 1, 2), report("b", *[3, 4], **defaults, bold=True)]
""",
        ["a:1-2:[]", "b:3+4:[('bold', True), ('width', 3)]"],
    ),
    "unpacking": (
        """
first, *middle, last = range(6)
(a, b), c = (1, 2), 3
a, b = b, a
merged = {**{"x": 1, "y": 2}, "y": 3} | {"z": 4}
[first, middle, last, a, b, c, merged, [*range(2), *"hi"]]
""",
        [0, [1, 2, 3, 4], 5, 2, 1, 3, {"x": 1, "y": 3, "z": 4}, [0, 1, "h", "i"]],
    ),
    "comprehensions": (
        """
matrix = [[row * 3 + column for column in range(3)] for row in range(3)]
transposed = [[row[index] for row in matrix] for index in range(3)]
lengths = {word: len(word) for word in ("tea", "milk")}
vowels = sorted({letter for letter in "programming" if letter in "aeiou"})
[transposed, lengths, vowels, sum(n * n for n in range(5) if n % 2 == 0)]
""",
        [[[0, 3, 6], [1, 4, 7], [2, 5, 8]], {"tea": 3, "milk": 4}, ["a", "i", "o"], 20],
    ),
    "slicing_and_del": (
        """
numbers = list(range(10))
del numbers[2:5]
numbers[0:2] = ["a", "b", "c"]
record = {"keep": 1, "drop": 2}
del record["drop"]
temporary = 5
del temporary
try:
    temporary
except NameError as error:
    gone = error.name
[numbers[::-2], record, gone, "abcdef"[-3:], numbers[slice(1, 3)]]
""",
        [[9, 7, 5, "b"], {"keep": 1}, "temporary", "def", ["b", "c"]],
    ),
    "loops_with_else": (
        """
primes = []
for candidate in range(2, 20):
    for prime in primes:
        if candidate % prime == 0:
            break
    else:
        primes.append(candidate)
count = 0
while count < 3:
    count += 1
    if count == 2:
        continue
else:
    primes.append(-1)
primes
""",
        [2, 3, 5, 7, 11, 13, 17, 19, -1],
    ),
    "retry_loop": (
        """
attempts = 0
while True:
    attempts += 1
    try:
        if attempts < 3:
            raise ConnectionError("try again")
        break
    except ConnectionError:
        continue
attempts
""",
        3,
    ),
    "closures_and_nonlocal": (
        """
def counter():
    count = 0

    def increase(step=1):
        nonlocal count
        count += step
        return count

    return increase

total = 0

def remember(value):
    global total
    total += value

one, other = counter(), counter()
one(), one(5)
for value in (1, 2, 3):
    remember(value)
[one(), other(), total, [make() for make in [lambda n=n: n * n for n in range(3)]]]
""",
        [7, 1, 6, [0, 1, 4]],
    ),
    "decorators": (
        """
import functools

def logged(prefix):
    def decorate(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            calls.append(f"{prefix}{function.__name__}{args}")
            return function(*args, **kwargs)
        return inner
    return decorate

calls = []

@logged("> ")
def add(a, b):
    "Adds."
    return a + b

[add(1, 2), calls, add.__name__, add.__doc__, add.__wrapped__(3, 4)]
""",
        [3, ["> add(1, 2)"], "add", "Adds.", 7],
    ),
    "recursion_and_cache": (
        """
from functools import cache, lru_cache

@cache
def ways(steps):
    return 1 if steps < 2 else ways(steps - 1) + ways(steps - 2)

@lru_cache(maxsize=None)
def ackermann(m, n):
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))

[ways(50), ackermann(2, 3), ways.cache_info().currsize]
""",
        [20365011074, 9, 51],
    ),
    "functools_tools": (
        """
from functools import cached_property, partial, reduce, singledispatch, total_ordering

@singledispatch
def show(value):
    return "thing"

@show.register
def _(value: int):
    return "int"

@show.register(list)
def _(value):
    return f"list of {len(value)}"

@total_ordering
class Version:
    def __init__(self, text):
        self.text = text

    @cached_property
    def parts(self):
        return tuple(map(int, self.text.split(".")))

    def __eq__(self, other):
        return self.parts == other.parts

    def __lt__(self, other):
        return self.parts < other.parts

power = partial(pow, 2)
[show(1), show([1]), show(1.5), Version("1.10") >= Version("1.9"), power(10), reduce(lambda a, b: a * b, range(1, 6))]
""",
        ["int", "list of 1", "thing", True, 1024, 120],
    ),
    "itertools_tools": (
        """
from itertools import accumulate, chain, combinations, count, groupby, islice, pairwise, product, takewhile

rows = [("a", 1), ("a", 2), ("b", 3)]
{
    "groups": {key: [value for _, value in group] for key, group in groupby(rows, key=lambda row: row[0])},
    "running": list(accumulate([1, 2, 3, 4])),
    "pairs": [list(pair) for pair in combinations("abc", 2)],
    "grid": len(list(product(range(3), repeat=2))),
    "flat": list(chain.from_iterable([[1], [2, 3]])),
    "steps": [b - a for a, b in pairwise([1, 4, 9])],
    "some": list(islice(count(10, 5), 3)),
    "small": list(takewhile(lambda n: n < 3, count())),
}
""",
        {
            "groups": {"a": [1, 2], "b": [3]},
            "running": [1, 3, 6, 10],
            "pairs": [["a", "b"], ["a", "c"], ["b", "c"]],
            "grid": 9,
            "flat": [1, 2, 3],
            "steps": [3, 5],
            "some": [10, 15, 20],
            "small": [0, 1, 2],
        },
    ),
    "collections_tools": (
        """
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque

words = "the cat and the hat and the bat".split()
index = defaultdict(list)
for position, word in enumerate(words):
    index[word[0]].append(position)
recent = deque(maxlen=3)
recent.extend(range(5))
order = OrderedDict(a=1, b=2)
order.move_to_end("a")
[Counter(words).most_common(2), dict(index), list(recent), list(order), ChainMap({"x": 1}, {"x": 2, "y": 3})["y"]]
""",
        [
            [["the", 3], ["and", 2]],
            {"t": [0, 3, 6], "c": [1], "a": [2, 5], "h": [4], "b": [7]},
            [2, 3, 4],
            ["b", "a"],
            3,
        ],
    ),
    "sorting": (
        """
from operator import attrgetter, itemgetter

people = [{"name": "Bo", "age": 30}, {"name": "Al", "age": 30}, {"name": "Cy", "age": 25}]
by_age = sorted(people, key=lambda person: (-person["age"], person["name"]))
names = list(map(itemgetter("name"), by_age))
people.sort(key=itemgetter("age"))
[names, people[0]["name"], sorted("bca", reverse=True), max(people, key=lambda person: len(person["name"]))["age"]]
""",
        [["Al", "Bo", "Cy"], "Cy", ["c", "b", "a"], 25],
    ),
    "builtin_functions": (
        """
numbers = [3, -1, 4]
[
    any(n < 0 for n in numbers), all(numbers), abs(-5), divmod(17, 5), round(2.567, 1), min(numbers), sum(numbers),
    list(zip("ab", numbers, strict=False)), list(enumerate("xy", start=1)), list(filter(None, [0, 1, "", "a"])),
    list(reversed(numbers)), bin(10), hex(255), int("ff", 16), ord("a"), chr(98), isinstance(True, int), callable(len),
    pow(3, 4, 5), format(1234567.891, ",.2f"), sorted(vars(type("T", (), {"a": 1})()).keys()), len(repr("x")),
]
""",
        [
            *(True, True, 5, [3, 2], 2.6, -1, 6),
            *([["a", 3], ["b", -1]], [[1, "x"], [2, "y"]], [1, "a"]),
            *([4, -1, 3], "0b1010", "0xff", 255, 97, "b", True, True),
            *(1, "1,234,567.89", [], 3),
        ],
    ),
    "string_methods": (
        """
text = "  Hello, World  "
[
    text.strip().lower(), text.split(","), "-".join("abc"), "a,b,,c".split(","), "x=1;y=2".partition(";"),
    "title case".title(), "42".zfill(5), "abc".center(7, "*"), "naïve".encode().decode("utf-8"), "a\\tb".expandtabs(4),
    "banana".replace("a", "o", 2), "prefix_name".removeprefix("prefix_"), "Straße".casefold(), "ab" * 3, "é" in "café",
]
""",
        [
            *("hello, world", ["  Hello", " World  "], "a-b-c", ["a", "b", "", "c"], ["x=1", ";", "y=2"]),
            *("Title Case", "00042", "**abc**", "naïve", "a   b"),
            *("bonona", "name", "strasse", "ababab", True),
        ],
    ),
    "f_strings": (
        """
name, value, when = "tax", 1234.5678, 7
width = 12
[f"{name!r:>8}", f"{value:,.2f}", f"{value:{width}.1f}", f"{when:03d}", f"{0.256:.1%}", f"{when=}", f"{255:#x}", "{}"]
""",
        ["   'tax'", "1,234.57", "      1234.6", "007", "25.6%", "when=7", "0xff", "{}"],
    ),
    "csv_reading_and_writing": (
        """
import csv
import io

text = "name,amount\\nrent,1200.50\\n\\"food, drink\\",300\\n"
rows = list(csv.DictReader(io.StringIO(text)))
total = sum(float(row["amount"]) for row in rows)
out = io.StringIO()
writer = csv.DictWriter(out, fieldnames=["name", "amount"])
writer.writeheader()
writer.writerows(sorted(rows, key=lambda row: float(row["amount"])))
result = {"total": total, "lines": out.getvalue().splitlines()}
""",
        {"total": 1500.5, "lines": ["name,amount", '"food, drink",300', "rent,1200.50"]},
    ),
    "json_round_trip": (
        """
import json
from datetime import date

class Encoder(json.JSONEncoder):
    def default(self, value):
        return value.isoformat() if isinstance(value, date) else super().default(value)

text = json.dumps({"when": date(2024, 10, 1), "tags": ["a"], "n": None}, cls=Encoder, sort_keys=True)
result = [text, json.loads('[1, 2.5, true, null, "\\\\u00e9"]')]
""",
        ['{"n": null, "tags": ["a"], "when": "2024-10-01"}', [1, 2.5, True, None, "é"]],
    ),
    "regular_expressions": (
        r"""
import re

log = "2024-10-01 ERROR db: timeout after 30s\n2024-10-02 INFO ok\n2024-10-03 ERROR net: lost"
pattern = re.compile(r"^(?P<day>\d{4}-\d\d-\d\d) (?P<level>[A-Z]+) (?P<text>.*)$", re.MULTILINE)
errors = [match.groupdict() for match in pattern.finditer(log) if match["level"] == "ERROR"]
[
    [error["day"] for error in errors],
    re.findall(r"\b\w{2}\b", log),
    re.sub(r"(\d+)s", lambda match: f"{int(match[1]) * 1000}ms", errors[0]["text"]),
    re.split(r"[,;]\s*", "a, b;c"),
    bool(re.fullmatch(r"[\w.]+@[\w.]+", "kim@example.org")),
]
""",
        [
            ["2024-10-01", "2024-10-03"],
            ["10", "01", "db", "10", "02", "ok", "10", "03"],
            "db: timeout after 30000ms",
            ["a", "b", "c"],
            True,
        ],
    ),
    "dates_and_times": (
        """
from datetime import date, datetime, timedelta, timezone

start = datetime(2024, 2, 28, 22, 30, tzinfo=timezone.utc)
later = start + timedelta(hours=26)
parsed = datetime.strptime("01/10/2024 07:05", "%d/%m/%Y %H:%M")
[
    later.isoformat(), (date(2024, 12, 25) - date(2024, 10, 1)).days, parsed.strftime("%Y-%m-%d"),
    datetime.fromisoformat("2024-10-01T00:00:00+02:00").astimezone(timezone.utc).hour, date(2024, 10, 1).isoweekday(),
    timedelta(minutes=90).total_seconds(),
]
""",
        ["2024-03-01T00:30:00+00:00", 85, "2024-10-01", 22, 2, 5400.0],
    ),
    "calendar_months": (
        """
import calendar

[calendar.monthrange(2024, 2)[1], calendar.isleap(1900), calendar.month_name[10], calendar.day_abbr[0]]
""",
        [29, False, "October", "Mon"],
    ),
    "decimals_and_fractions": (
        """
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

price = Decimal("19.99") * 3
with localcontext() as context:
    context.prec = 5
    third = Decimal(1) / 3
[
    str(price), str((price * Decimal("0.075")).quantize(Decimal("0.01"), ROUND_HALF_UP)), str(third),
    str(Fraction(1, 3) + Fraction(1, 6)), 0.1 + 0.2 == 0.3, Decimal("0.1") + Decimal("0.2") == Decimal("0.3"),
]
""",
        ["59.97", "4.50", "0.33333", "1/2", False, True],
    ),
    "statistics_and_math": (
        """
import math
import statistics

data = [2, 4, 4, 4, 5, 5, 7, 9]
[
    statistics.mean(data), statistics.median(data), statistics.mode(data), statistics.pstdev(data),
    [round(cut, 2) for cut in statistics.quantiles(data, n=4)], math.isclose(math.sqrt(2) ** 2, 2), math.gcd(12, 18),
    math.comb(5, 2), math.prod([2, 3, 4]), math.floor(-1.5), math.inf > 10**300, round(math.log10(1000), 6),
]
""",
        [5, 4.5, 4, 2.0, [4.0, 4.5, 6.5], True, 6, 10, 24, -2, True, 3.0],
    ),
    "group_and_aggregate_rows": (
        """
rows = [
    {"team": "red", "month": "2024-09", "amount": 120.0},
    {"team": "blue", "month": "2024-09", "amount": 80.5},
    {"team": "red", "month": "2024-10", "amount": 30.0},
]
totals = {}
for row in rows:
    totals.setdefault(row["team"], []).append(row["amount"])
summary = [{"team": team, "total": sum(amounts), "largest": max(amounts)} for team, amounts in totals.items()]
sorted(summary, key=lambda entry: entry["total"], reverse=True)
""",
        [{"team": "red", "total": 150.0, "largest": 120.0}, {"team": "blue", "total": 80.5, "largest": 80.5}],
    ),
    "join_two_tables": (
        """
users = [{"id": 1, "name": "kim"}, {"id": 2, "name": "lee"}]
orders = [{"user": 1, "sum": 5}, {"user": 1, "sum": 7}, {"user": 3, "sum": 1}]
names = {user["id"]: user["name"] for user in users}
joined = [{**order, "name": names.get(order["user"], "?")} for order in orders]
missing = {order["user"] for order in orders} - names.keys()
{"joined": [f"{row['name']}:{row['sum']}" for row in joined], "missing": sorted(missing)}
""",
        {"joined": ["kim:5", "kim:7", "?:1"], "missing": [3]},
    ),
    "sqlite_in_memory": (
        """
import sqlite3

connection = sqlite3.connect(":memory:")
connection.execute("create table sale (city text, amount real)")
connection.executemany("insert into sale values (?, ?)", [("Oslo", 10), ("Rome", 4), ("Oslo", 2.5)])
rows = connection.execute("select city, sum(amount) from sale group by city order by 2 desc").fetchall()
connection.close()
rows
""",
        [["Oslo", 12.5], ["Rome", 4.0]],
    ),
    "files_in_the_workspace": (
        """
from pathlib import Path

folder = Path("reports")
folder.mkdir(exist_ok=True)
for name, text in {"a.txt": "one\\ntwo\\n", "b.txt": "three\\n"}.items():
    (folder / name).write_text(text, encoding="utf-8")
with open("reports/a.txt", "a", encoding="utf-8") as file:
    file.write("four\\n")
lines = [line for path in sorted(folder.glob("*.txt")) for line in path.read_text(encoding="utf-8").splitlines()]
sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
for path in folder.iterdir():
    path.unlink()
folder.rmdir()
{"lines": lines, "sizes": dict(sorted(sizes.items())), "left": folder.exists()}
""",
        {"lines": ["one", "two", "four", "three"], "sizes": {"a.txt": 13, "b.txt": 6}, "left": False},
    ),
    "temporary_files": (
        """
import json
import os
import tempfile

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "data.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"n": [1, 2, 3]}, file)
    with open(path, encoding="utf-8") as file:
        loaded = json.load(file)
    names = os.listdir(folder)
[loaded, names, os.path.exists(folder), os.path.splitext("a/b.tar.gz")]
""",
        [{"n": [1, 2, 3]}, ["data.json"], False, ["a/b.tar", ".gz"]],
    ),
    "zip_and_gzip": (
        """
import gzip
import io
import zipfile
import zlib

buffer = io.BytesIO()
with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("notes/a.txt", "hello " * 50)
with zipfile.ZipFile(buffer) as archive:
    names = archive.namelist()
    text = archive.read("notes/a.txt").decode()
[names, len(text), gzip.decompress(gzip.compress(b"data")).decode(), zlib.crc32(b"sealyard")]
""",
        [["notes/a.txt"], 300, "data", 166567135],
    ),
    "hashing_and_encoding": (
        """
import base64
import binascii
import hashlib
import hmac

[
    hashlib.sha256(b"abc").hexdigest()[:16], hashlib.md5(b"").hexdigest()[:8],
    base64.b64encode("héllo".encode()).decode(), base64.urlsafe_b64decode("-_8=").hex(),
    hmac.new(b"key", b"text", "sha1").hexdigest()[:8], binascii.hexlify(b"ok").decode(),
]
""",
        ["ba7816bf8f01cfea", "d41d8cd9", "aMOpbGxv", "fbff", "369e2959", "6f6b"],
    ),
    "bytes_and_struct": (
        """
import array
import struct

packed = struct.pack(">Hif", 7, -2, 1.5)
view = memoryview(bytearray(b"abcdef"))
view[0:2] = b"XY"
[
    packed.hex(), list(struct.unpack(">Hif", packed)), bytes(view).decode(), int.from_bytes(b"\\x01\\x00", "big"),
    (1000).to_bytes(2, "little").hex(), array.array("i", [1, 2, 3]).tolist(), bytes([104, 105]).decode("ascii"),
]
""",
        ["0007fffffffe3fc00000", [7, -2, 1.5], "XYcdef", 256, "e803", [1, 2, 3], "hi"],
    ),
    "parsing_addresses": (
        """
from urllib.parse import parse_qs, quote, urlencode, urljoin, urlsplit

parts = urlsplit("https://example.org:8080/a/b?q=1&q=2&x=%20y#top")
[
    parts.hostname, parts.port, parse_qs(parts.query), quote("a b/ü"), urlencode({"k": "v w"}),
    urljoin("https://example.org/a/b", "../c"),
]
""",
        [
            *("example.org", 8080, {"q": ["1", "2"], "x": [" y"]}, "a%20b/%C3%BC", "k=v+w"),
            "https://example.org/c",
        ],
    ),
    "xml_and_html": (
        """
import html
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.found.append(dict(attrs).get("href"))

root = ET.fromstring("<items><item id='1'>pen</item><item id='2'>ink</item></items>")
links = Links()
links.feed('<p><a href="/x">x</a> <a href="/y">y</a></p>')
[{item.get("id"): item.text for item in root.iter("item")}, links.found, html.escape("<b>&"), html.unescape("&eacute;")]
""",
        [{"1": "pen", "2": "ink"}, ["/x", "/y"], "&lt;b&gt;&amp;", "é"],
    ),
    "text_tools": (
        """
import difflib
import string
import textwrap
from string import Template

[
    textwrap.wrap("the quick brown fox jumps", width=10), textwrap.dedent("  a\\n    b"),
    Template("$name owes $$${sum}").substitute(name="Kim", sum=5), string.ascii_lowercase[:5],
    difflib.get_close_matches("appel", ["ape", "apple", "peach"], n=1), textwrap.shorten("one two three", 9),
]
""",
        [["the quick", "brown fox", "jumps"], "a\n  b", "Kim owes $5", "abcde", ["apple"], "one [...]"],
    ),
    "heaps_and_bisect": (
        """
import bisect
import heapq

queue = []
for priority, task in [(3, "c"), (1, "a"), (2, "b")]:
    heapq.heappush(queue, (priority, task))
order = [heapq.heappop(queue)[1] for _ in range(3)]
scores = [10, 20, 30]
bisect.insort(scores, 25)
grade = "FDCBA"[bisect.bisect([60, 70, 80, 90], 85)]
[order, scores, heapq.nlargest(2, [5, 1, 9]), grade, list(heapq.merge([1, 4], [2]))]
""",
        [["a", "b", "c"], [10, 20, 25, 30], [9, 5], "B", [1, 2, 4]],
    ),
    "shortest_path": (
        """
import heapq

graph = {"a": {"b": 1, "c": 4}, "b": {"c": 2, "d": 6}, "c": {"d": 3}, "d": {}}

def shortest(start, goal):
    best = {start: 0}
    heap = [(0, start, [start])]
    while heap:
        cost, node, path = heapq.heappop(heap)
        if node == goal:
            return cost, path
        for neighbour, weight in graph[node].items():
            if cost + weight < best.get(neighbour, float("inf")):
                best[neighbour] = cost + weight
                heapq.heappush(heap, (cost + weight, neighbour, [*path, neighbour]))
    return None

shortest("a", "d")
""",
        [6, ["a", "b", "c", "d"]],
    ),
    "topological_order": (
        """
from graphlib import CycleError, TopologicalSorter

order = list(TopologicalSorter({"deploy": {"test"}, "test": {"build"}, "build": set()}).static_order())
try:
    list(TopologicalSorter({"a": {"b"}, "b": {"a"}}).static_order())
except CycleError:
    order.append("cycle")
order
""",
        ["build", "test", "deploy", "cycle"],
    ),
    "seeded_random": (
        """
import random

generator = random.Random(42)
again = random.Random(42)
deck = list(range(10))
generator.shuffle(deck)
other = list(range(10))
again.shuffle(other)
random.seed(7)
sample = random.sample(range(100), 5)
[deck == other, sorted(deck) == list(range(10)), 0 <= random.random() < 1, random.choice(["only"]), len(sample)]
""",
        [True, True, True, "only", 5],
    ),
    "identifiers_and_secrets": (
        """
import secrets
import uuid

[
    str(uuid.uuid5(uuid.NAMESPACE_DNS, "example.org")), len({str(uuid.uuid4()) for _ in range(100)}),
    len(secrets.token_hex(8)), uuid.UUID(int=1).hex[-4:],
]
""",
        ["aad03681-8b63-5304-89e0-8ca8f49461b5", 100, 16, "0001"],
    ),
    "copying": (
        """
import copy

original = {"rows": [[1], [2]], "self": None}
shallow, deep = copy.copy(original), copy.deepcopy(original)
original["rows"][0].append(9)
[shallow["rows"], deep["rows"], original is shallow, list(original) == list(deep)]
""",
        [[[1, 9], [2]], [[1], [2]], False, True],
    ),
    "pickling": (
        """
import pickle

class Money:
    def __init__(self, cents):
        self.cents = cents

value = {"when": (2024, 10), "tags": {"a"}, "money": Money(250)}
loaded = pickle.loads(pickle.dumps(value))
[loaded["when"] == (2024, 10), loaded["tags"] == {"a"}, loaded["money"].cents]
""",
        [True, True, 250],
    ),
    "threads": (
        """
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

lock = threading.Lock()
total = 0

def add(number):
    global total
    with lock:
        total += number

workers = [threading.Thread(target=add, args=(number,)) for number in range(5)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
with ThreadPoolExecutor(max_workers=4) as pool:
    squares = list(pool.map(lambda number: number ** 2, range(5)))
    done = sorted(future.result() for future in as_completed([pool.submit(len, "ab"), pool.submit(len, "c")]))
[total, squares, done]
""",
        [10, [0, 1, 4, 9, 16], [1, 2]],
    ),
    "producer_and_consumer": (
        """
import queue
import threading

jobs, done = queue.Queue(), []

def consume():
    while True:
        job = jobs.get()
        if job is None:
            break
        done.append(job * 2)
        jobs.task_done()

worker = threading.Thread(target=consume)
worker.start()
for job in range(4):
    jobs.put(job)
jobs.put(None)
worker.join()
done
""",
        [0, 2, 4, 6],
    ),
    "logging_and_warnings": (
        """
import io
import logging
import warnings

stream = io.StringIO()
logger = logging.getLogger("job")
logger.setLevel(logging.INFO)
handler = logging.StreamHandler(stream)
handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
logger.addHandler(handler)
logger.propagate = False
logger.debug("hidden")
logger.info("read %d rows", 3)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warnings.warn("old", DeprecationWarning)
[stream.getvalue(), caught[0].category.__name__]
""",
        ["INFO job read 3 rows\n", "DeprecationWarning"],
    ),
    "introspection": (
        """
import inspect
import traceback

def pay(amount: float, *, currency: str = "EUR") -> bool:
    "Pays."
    return amount > 0

try:
    pay("x")
except TypeError:
    last = traceback.format_exc().splitlines()[-1].split(":")[0]
signature = inspect.signature(pay)
[str(signature), list(signature.parameters), inspect.getdoc(pay), pay.__annotations__["amount"].__name__, last]
""",
        ["(amount: float, *, currency: str = 'EUR') -> bool", ["amount", "currency"], "Pays.", "float", "TypeError"],
    ),
    "command_line_parsing": (
        """
import argparse
import shlex

parser = argparse.ArgumentParser()
parser.add_argument("files", nargs="+")
parser.add_argument("--limit", type=int, default=10)
parser.add_argument("-v", "--verbose", action="store_true")
arguments = parser.parse_args(shlex.split("a.txt 'b c.txt' --limit 3 -v"))
vars(arguments)
""",
        {"files": ["a.txt", "b c.txt"], "limit": 3, "verbose": True},
    ),
    "configuration_files": (
        """
import configparser
import tomllib

config = configparser.ConfigParser()
config.read_string("[db]\\nhost = localhost\\nport = 5432\\n")
[config.getint("db", "port"), tomllib.loads('title = "x"\\n[a]\\nb = [1, 2]'), config.sections()]
""",
        [5432, {"title": "x", "a": {"b": [1, 2]}}, ["db"]],
    ),
    "measuring_time": (
        """
import time

started = time.perf_counter()
time.sleep(0.001)
elapsed = time.perf_counter() - started
[elapsed > 0, time.monotonic() > 0, time.strftime("%Y", time.gmtime(0))]
""",
        [True, True, "1970"],
    ),
    "ipaddresses": (
        """
import ipaddress

network = ipaddress.ip_network("10.0.0.0/29")
address = ipaddress.ip_address("10.0.0.3")
[network.num_addresses, str(network[1]), address in network, ipaddress.ip_address("::1").version]
""",
        [8, "10.0.0.1", True, 6],
    ),
    "number_formats": (
        """
import pprint
from numbers import Number

[
    0b1010 + 0o17 + 0xFF, 1_000_000, 7 // -2, -7 % 3, 2**60, 1e3, complex(3, 4).real, float("1e-3"), int(3.99),
    round(0.5), round(1.5), (0.1).as_integer_ratio()[1] > 0, isinstance(1.5, Number), pprint.pformat({"b": 1, "a": 2}),
]
""",
        [
            *(280, 1000000, -4, 2, 2**60, 1000.0, 3.0, 0.001, 3),
            *(0, 2, True, True, "{'a': 2, 'b': 1}"),
        ],
    ),
    "weak_references": (
        """
import gc
import weakref

class Node:
    pass

node = Node()
seen = weakref.WeakValueDictionary(a=node)
reference = weakref.ref(node)
alive = reference() is node
del node
gc.collect()
[alive, reference() is None, len(seen)]
""",
        [True, True, 0],
    ),
    "simulation_with_matrix": (
        """
def step(grid):
    height, width = len(grid), len(grid[0])

    def neighbours(y, x):
        return sum(
            grid[(y + dy) % height][(x + dx) % width]
            for dy in (-1, 0, 1)
            for dx in (-1, 0, 1)
            if (dy, dx) != (0, 0)
        )

    def lives(y, x):
        return int(neighbours(y, x) == 3 or (grid[y][x] and neighbours(y, x) == 2))

    return [[lives(y, x) for x in range(width)] for y in range(height)]

grid = [[0] * 5 for _ in range(5)]
for x in (1, 2, 3):
    grid[2][x] = 1
step(grid)
""",
        [[0, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]],
    ),
    "pagination_loop": (
        """
def fetch(page):
    pages = {1: ["a", "b"], 2: ["c"]}
    return {"items": pages.get(page, []), "next": page + 1 if page + 1 in pages else None}

items, page = [], 1
while True:
    answer = fetch(page)
    items.extend(answer["items"])
    if not answer["next"]:
        break
    page = answer["next"]
items
""",
        ["a", "b", "c"],
    ),
    "conditional_expressions": (
        """
def grade(score):
    return "A" if score >= 90 else "B" if score >= 80 else "C"

value = None
[grade(95), grade(85), grade(10), value or "default", 0 < 5 < 10, not [] and True, 1 if [] else 2, None is value]
""",
        ["A", "B", "C", "default", True, True, 2, True],
    ),
    "dictionary_methods": (
        """
stock = {"pen": 3, "ink": 0}
stock.update(ink=5, pad=1)
removed = stock.pop("pad")
missing = stock.get("cup", -1)
inverse = {count: name for name, count in stock.items()}
[stock, removed, missing, inverse[5], sorted(stock.keys() & {"pen", "cup"}), dict.fromkeys("ab", 0), stock.popitem()]
""",
        [{"pen": 3}, 1, -1, "ink", ["pen"], {"a": 0, "b": 0}, ["ink", 5]],
    ),
    "set_operations": (
        """
a, b = {1, 2, 3}, frozenset([3, 4])
[sorted(a | b), sorted(a & b), sorted(a - b), sorted(a ^ b), a >= {1}, len({b: 1}), a.isdisjoint({9})]
""",
        [[1, 2, 3, 4], [3], [1, 2], [1, 2, 4], True, 1, True],
    ),
    "no_result": ("for number in range(3):\n    print(number)", None),
}
