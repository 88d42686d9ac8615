"""Python functions as tools: what a module offers, how signatures become schemas, and how calls end."""

import asyncio
import datetime
import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from tests.upstreams.waiting import until

from sealyard import CallContext, Response, ResponseFile, report_progress, tool
from sealyard.broker.upstreams.python import Functions, describe
from sealyard.errors import (
    InvalidRequest,
    ToolFailed,
    UnknownTool,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from sealyard.values.access import Grant
from sealyard.values.tools import Definition, ToolAnnotations, UpstreamConfig

GRANT = Grant(execution_id="e1", principal="anna", session="anna:default", tools={})
_numbers = itertools.count(1)
Offer = Callable[..., Functions]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offer]:
    """Writes a module and gives the upstream of it, which has imported nothing."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)

    def offer(text: str, **config: Any) -> Functions:
        name = f"functions_of_test_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(text)
        settings = {"name": "shop", "transport": "python", "module": name, "cwd": str(tmp_path)}
        return Functions(UpstreamConfig(**(settings | config)))

    yield offer
    for name in set(sys.modules) - before:
        if name.startswith("functions_of_test_"):
            del sys.modules[name]


def functions(*added: Callable[..., Any], **config: Any) -> Functions:
    """An upstream of these functions."""
    upstream = Functions(UpstreamConfig(name="shop", transport="python", **config))
    for function in added:
        upstream.add(function)
    return upstream


async def listed(upstream: Functions) -> dict[str, Definition]:
    """The tools that an upstream hands over."""
    found: dict[str, Definition] = {}

    async def on_tools(name: str, definitions: list[Definition]) -> None:
        found.update({each.name: each for each in definitions})

    upstream.on_tools = on_tools
    await upstream.refresh()
    return found


# Modules


@pytest.mark.behaviour("functions.module")
async def test_public_functions_of_a_module_are_tools(offer: Offer) -> None:
    """Those that it defines: not what it imports, classes, and names with an underscore."""
    upstream = offer(
        "from json import dumps\n\n__version__ = '2.1'\n\nclass Price: ...\n\ndef price(item: str) -> int:\n"
        "    '''The price.'''\n    return _cents(item)\n\ndef _cents(item): return len(item)\n\n"
        "async def stock():\n    return 3\n"
        "cost = price\n"
    )

    found = await listed(upstream)
    answer = await upstream.call("price", {"item": "jam"})
    status = upstream.status()

    assert (sorted(found), answer.value) == (["price", "stock"], 3)
    assert found["price"].description == "The price."
    assert (status.state, status.tools, status.warnings) == ("ready", 2, ())
    assert (status.transport, status.server) == ("python", f"{upstream.config.module} 2.1")


async def test_all_decides_where_a_module_has_it(offer: Offer) -> None:
    """It may name imported functions; a name that the module lacks is reported."""
    upstream = offer(
        "from bisect import bisect_left\nfrom statistics import mean\n\n"
        "__all__ = ['mean', 'lost', 'LIMIT']\nLIMIT = 3\n"
        "def hidden(): ...\n"
    )

    found = await listed(upstream)
    answer = await upstream.call("mean", {"data": [1, 3]})

    assert (sorted(found), answer.value) == (["mean"], 2)
    assert upstream.status().warnings == ("'lost' is in __all__, and the module has none. Correct __all__.",)


async def test_decorator_names_a_tool_and_states_its_effects(offer: Offer) -> None:
    """The function itself stays as it is."""
    upstream = offer(
        "from sealyard import tool\n\n@tool(name='price_of', read_only=True, idempotent=True)\n"
        "def price(item: str) -> int: return len(item)\n\n@tool\ndef plain(): return price('plum')\n"
    )

    found = await listed(upstream)
    answer = await upstream.call("plain", {})

    assert sorted(found) == ["plain", "price_of"]
    assert found["price_of"].annotations == ToolAnnotations(read_only=True, idempotent=True)
    assert (found["plain"].annotations, answer.value) == (ToolAnnotations(), 4)


_BAD = {
    "def f(*rest): ...": "it takes *rest, and no schema has a name for that. Name each parameter",
    "def f(**more: int): ...": "it takes **more, and no schema has a name for that. Name each parameter",
    "def f(a, /): ...": "'a' cannot be given by name, because of the '/'. Take the '/' out",
    "def f(): yield 1": "it is a generator, whose values come one by one. Return a list",
    "async def f(): yield 1": "it is a generator, whose values come one by one. Return a list",
    "def f(a: 'Gone'): ...": "its annotations name 'Gone', which its module does not define. Define it there",
    "import enum\ndef f(a: 'enum.Gone'): ...": (
        "its annotations cannot be read: AttributeError: module 'enum' has no attribute 'Gone'. Correct them"
    ),
    "def f(a: '1 / 0'): ...": "its annotations cannot be read: ZeroDivisionError: division by zero. Correct them",
    "from sealyard import CallContext\ndef f(a: CallContext, b: CallContext): ...": (
        "it has two parameters of the type CallContext. Take one out"
    ),
    "from pydantic import Field\ndef f(a: int = Field(3)): ...": (
        "the default of 'a' is pydantic's Field. Write Annotated[type, Field(…)] = default"
    ),
}


@pytest.mark.parametrize("text", _BAD, ids=range(len(_BAD)))
@pytest.mark.behaviour("functions.bad")
async def test_function_that_cannot_be_described_costs_only_itself(offer: Offer, text: str) -> None:
    """The status says why and what to do; the others are tools."""
    upstream = offer(f"{text}\ndef good(): return 1\n")

    found = await listed(upstream)
    status = upstream.status()

    assert sorted(found) == ["good"]
    assert (status.state, status.warnings) == ("ready", (f"Function 'f' is not a tool: {_BAD[text]}.",))


@pytest.mark.parametrize(
    "annotation", ["complex", "list[complex]", "Callable[[int], int]", "Held", "type", "list[CallContext]"]
)
async def test_type_without_a_json_form_is_reported_with_its_name(offer: Offer, annotation: str) -> None:
    """As a parameter and as an answer; a field of the context's type is no way to give one."""
    upstream = offer(
        "from collections.abc import Callable\nfrom dataclasses import dataclass\nfrom sealyard import CallContext\n"
        f"@dataclass\nclass Held:\n    caller: CallContext\n"
        f"def takes(a: {annotation}): ...\ndef gives() -> {annotation}: ...\ndef good(): ...\n"
    )

    found = await listed(upstream)
    takes, gives = upstream.status().warnings

    assert sorted(found) == ["good"]
    assert takes.startswith("Function 'takes' is not a tool: the annotation of 'a', ")
    assert gives.startswith("Function 'gives' is not a tool: the annotation of its answer, ")
    assert all(" has no JSON form: " in each and each.endswith("dataclasses or models.") for each in (takes, gives))


async def test_second_function_of_a_name_is_reported(offer: Offer) -> None:
    """The first has it."""
    upstream = offer("from sealyard import tool\ndef price(): return 1\n@tool(name='price')\ndef cost(): return 2\n")

    await listed(upstream)

    assert upstream.status().warnings == (
        "Function 'cost' is not a tool: 'price' has the name 'price' already. Rename one.",
    )
    assert (await upstream.call("price", {})).value == 1


_UNIMPORTABLE = {
    "raise KeyboardInterrupt": "cannot be imported: KeyboardInterrupt (line 1 of ",
    "raise KeyError('hush')": "cannot be imported: KeyError: 'hush' (line 1 of ",
    "import sys\nsys.exit(3)": "cannot be imported: SystemExit: 3 (line 2 of ",
    "def f(:": "cannot be imported: SyntaxError: ",
    "import no_such_dependency": "cannot be imported: ModuleNotFoundError: No module named 'no_such_dependency' (",
}


async def test_all_that_is_no_list_of_names_is_a_fault_of_the_module(offer: Offer) -> None:
    """It is reported like an import that fails."""
    upstream = offer("__all__ = 5\ndef f(): ...\n")

    with pytest.raises(UpstreamUnavailable):
        await upstream.refresh()

    name = upstream.config.module
    assert upstream.status().error == f"__all__ of {name!r} is not a list of names. Correct it, then start again."


@pytest.mark.parametrize("text", _UNIMPORTABLE)
@pytest.mark.behaviour("functions.import")
async def test_import_that_fails_is_explained_to_the_operator_alone(offer: Offer, text: str, tmp_path: Path) -> None:
    """A caller only learns where to look. The next listing imports again."""
    upstream = offer(text)

    with pytest.raises(UpstreamUnavailable) as caught:
        await upstream.refresh()
    with pytest.raises(UpstreamUnavailable):
        await upstream.call("f", {})
    broken = upstream.status()
    (tmp_path / f"{upstream.config.module}.py").write_text("def f(): return 'mended at last'\n")
    await upstream.refresh()
    answer = await upstream.call("f", {})

    assert str(caught.value) == (
        "'shop' is not available, because its module cannot be imported. `sealyard tools --status` shows the reason."
    )
    assert broken.state == "failed"
    assert broken.error is not None
    assert broken.error.startswith(f"The module {upstream.config.module!r} {_UNIMPORTABLE[text]}")
    assert (answer.value, upstream.status().state) == ("mended at last", "ready")


async def test_missing_module_names_the_folder_to_put_it_into(offer: Offer, tmp_path: Path) -> None:
    """Also if only its package is missing."""
    upstream = offer("", module="no_such_package.tools")

    with pytest.raises(UpstreamUnavailable):
        await upstream.refresh()

    assert upstream.status().error == (
        f"There is no module 'no_such_package'. Install it where sealyard is, or put it into {str(tmp_path)!r}."
    )


async def test_file_in_the_folder_never_takes_the_place_of_an_installed_module(offer: Offer, tmp_path: Path) -> None:
    """The folder is searched last."""
    (tmp_path / "colorsys.py").write_text("def planted(): ...\n")
    upstream = offer("import colorsys\ndef place() -> str: return colorsys.__file__\n")

    answer = await upstream.call("place", {})

    assert Path(answer.value).parent != tmp_path


async def test_import_that_takes_too_long_is_waited_for_again(offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on meanwhile, and is not begun twice."""
    go = threading.Event()
    monkeypatch.setattr(sys, "functions_of_test_go", go, raising=False)
    upstream = offer("import sys\nsys.functions_of_test_go.wait(60)\ndef f(): return 1\n", start_seconds=0.05)

    with pytest.raises(UpstreamUnavailable):
        await upstream.refresh()
    error = upstream.status().error
    go.set()
    await until(lambda: upstream._importing is not None and upstream._importing.done())
    await upstream.refresh()

    assert error == (
        f"Importing {upstream.config.module!r} took more than 0.05 s. Do less at its import, or raise start_seconds in "
        "the config."
    )
    assert (await upstream.call("f", {})).value == 1


async def test_tools_that_the_config_leaves_out_do_not_exist(offer: Offer) -> None:
    """They are not listed and not called, and a pattern that fits nothing is reported."""
    upstream = offer("def read(): return 1\ndef wipe(): return 2\n", without_tools=("wi*", "gone"))

    found = await listed(upstream)
    with pytest.raises(UnknownTool, match=r"^The config of 'shop' leaves 'wipe' out\.$"):
        await upstream.call("wipe", {})

    status = upstream.status()
    assert (sorted(found), status.tools, status.idle_patterns) == (["read"], 1, ("gone",))
    assert status.warnings == ("without_tools names 'gone', which fits none of its tools. Correct it, or take it out.",)


# Signatures

_TYPES = """
import datetime
import enum
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict

import msgspec
import pydantic

class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"

@dataclass
class Item:
    name: str
    tags: list[str] = field(default_factory=list)

class Place(TypedDict):
    street: str

class Point(msgspec.Struct):
    x: float

class Person(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=2)
    born: datetime.date | None = None

@dataclass
class Order:
    person: Person

def f(value: {annotation}) -> Any:
    return type(value[0] if isinstance(value, list) else value).__name__, str(value)
"""
_CASES: dict[str, tuple[Any, Any, Any, list[Any]]] = {
    # annotation: schema, a value that fits, what the function gets, values that do not fit
    "int": ({"type": "integer"}, 3, ["int", "3"], ["3", 1.5, None, True]),
    "float": ({"type": "number"}, 3, ["float", "3.0"], ["3", None]),
    "bool": ({"type": "boolean"}, True, ["bool", "True"], [1, "yes"]),
    "object": ({}, None, ["NoneType", "None"], []),
    "Optional[int]": ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, ["NoneType", "None"], ["x"]),
    "Literal['a', 'b']": ({"enum": ["a", "b"]}, "b", ["str", "b"], ["c", None]),
    "Size": ({"$ref": "#/$defs/Size"}, "s", ["Size", "Size.SMALL"], ["x"]),
    "datetime.datetime": (
        {"type": "string", "format": "date-time"},
        "2026-01-02T03:04:05",
        ["datetime", "2026-01-02 03:04:05"],
        ["yesterday", 3],
    ),
    "list[datetime.date]": (
        {"type": "array", "items": {"type": "string", "format": "date"}},
        ["2026-01-02"],
        ["date", "[datetime.date(2026, 1, 2)]"],
        ["2026-01-02", ["x"]],
    ),
    "uuid.UUID": (
        {"type": "string", "format": "uuid"},
        "00000000-0000-0000-0000-000000000001",
        ["UUID", "00000000-0000-0000-0000-000000000001"],
        ["1"],
    ),
    "Annotated[int, msgspec.Meta(ge=1, description='pieces')]": (
        {"type": "integer", "minimum": 1, "description": "pieces"},
        1,
        ["int", "1"],
        [0],
    ),
    "Annotated[str, 'the city']": ({"type": "string", "description": "the city"}, "Ulm", ["str", "Ulm"], [1]),
    "Annotated[int, pydantic.Field(le=5, description='stars')]": (
        {"type": "integer", "maximum": 5, "description": "stars"},
        5,
        ["int", "5"],
        [6, "5"],
    ),
    "Item": ({"$ref": "#/$defs/Item"}, {"name": "jam"}, ["Item", "Item(name='jam', tags=[])"], [{}, {"name": 1}]),
    "Place": ({"$ref": "#/$defs/Place"}, {"street": "A"}, ["dict", "{'street': 'A'}"], [{}, "A"]),
    "Point": ({"$ref": "#/$defs/Point"}, {"x": 1}, ["Point", "Point(x=1.0)"], [{}]),
    "dict[str, Point]": (
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/Point"}},
        {"a": {"x": 1}},
        ["dict", "{'a': Point(x=1.0)}"],
        [{"a": 1}],
    ),
    "list[Person]": (
        {"type": "array", "items": {"$ref": "#/$defs/Person"}},
        [{"name": "Anna", "born": "2000-01-02"}],
        ["Person", "[Person(name='Anna', born=datetime.date(2000, 1, 2))]"],
        [[{"name": "A"}], [{}], {}, [{"name": "Anna", "born": "then"}]],
    ),
    "Order": (
        {"type": "object", "properties": {"person": {"$ref": "#/$defs/Person"}}, "required": ["person"]},
        {"person": {"name": "Bo"}},
        ["Order", "Order(person=Person(name='Bo', born=None))"],
        [{"person": {"name": "B"}}, {}],
    ),
}


@pytest.mark.parametrize("annotation", _CASES)
@pytest.mark.behaviour("functions.signature")
async def test_annotation_is_the_schema_and_the_type_of_the_value(offer: Offer, annotation: str) -> None:
    """What fits is converted; what does not fit is refused, without the value in the message."""
    schema, fitting, got, unfit = _CASES[annotation]
    upstream = offer(_TYPES.replace("{annotation}", annotation))

    found = await listed(upstream)
    assert upstream.status().warnings == ()
    shown = found["f"].input_schema["properties"]["value"]
    assert {key: each for key, each in shown.items() if key != "title"} == schema
    if name := shown.get("$ref", "").rpartition("/")[2]:
        assert name in found["f"].input_schema["$defs"]
    assert (await upstream.call("f", {"value": fitting})).value == got
    for wrong in unfit:
        with pytest.raises(ToolFailed, match=r"^The arguments of 'f' do not fit: ") as refused:
            await upstream.call("f", {"value": wrong})
        assert repr(wrong) not in str(refused.value)


def test_defaults_stay_those_of_the_function() -> None:
    """One that is JSON is in the schema; any is the very object that the signature has."""
    sentinel = object()

    def find(text: str, limit: int = 5, tags: list[str] = [], mark: Any = sentinel) -> Any:  # noqa: B006
        return mark is sentinel

    described = describe(find)

    assert described.definition.input_schema == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "limit": {"type": "integer", "default": 5},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            "mark": {},
        },
        "required": ["text"],
        "additionalProperties": False,
    }
    assert described.bind(b'{"text":"a"}', None) == {"text": "a"}


def test_constraints_that_cannot_be_hashed_are_constraints() -> None:
    """As is a point in time that may be left out."""

    def find(
        since: datetime.datetime | None = None,
        name: Annotated[str, msgspec.Meta(min_length=2, extra_json_schema={"examples": ["Bo"]})] = "Anna",
        caller: CallContext | None = None,
    ) -> None: ...

    properties = describe(find).definition.input_schema["properties"]

    assert properties == {
        "since": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": None},
        "name": {"type": "string", "minLength": 2, "examples": ["Bo"], "default": "Anna"},
    }


_GOOGLE = """Find rows.

    Slow on Mondays.

    Args:
        text (str): What to look for,
            in any case.
        limit: How many: at most 5.

    Returns:
        The rows.
    """
_NUMPY = """Find rows.

    Slow on Mondays.

    Parameters
    ----------
    text : str
        What to look for,
        in any case.
    limit : int, optional
        How many: at most 5.

    Returns
    -------
    list
        The rows.
    """
_SPHINX = """Find rows.

    Slow on Mondays.

    :param str text: What to look for,
        in any case.
    :type limit: int
    :param limit: How many: at most 5.
    :returns: The rows.
    """


@pytest.mark.parametrize("text", [_GOOGLE, _NUMPY, _SPHINX], ids=["google", "numpy", "sphinx"])
@pytest.mark.behaviour("functions.docstring")
def test_docstring_describes_the_tool_and_its_parameters(text: str) -> None:
    """In three styles; what it says about the answer stays in the description."""

    def find(text: str, limit: int = 5) -> list[Any]:
        return []

    find.__doc__ = text
    definition = describe(find).definition

    properties = definition.input_schema["properties"]
    assert properties["text"]["description"] == "What to look for, in any case."
    assert properties["limit"]["description"] == "How many: at most 5."
    assert definition.description.startswith("Find rows.\n\nSlow on Mondays.\n\n")
    assert "The rows." in definition.description
    assert "look for" not in definition.description


_ANSWERS = {
    "int": {"type": "integer"},
    "list[int]": {"type": "array", "items": {"type": "integer"}},
    "Any": None,
    "None": None,
    "dict[str, Any]": None,
    "list[dict]": None,
    "Place": {
        "title": "Place",
        "type": "object",
        "properties": {"street": {"type": "string"}},
        "required": ["street"],
        "$defs": {
            "Place": {
                "title": "Place",
                "type": "object",
                "properties": {"street": {"type": "string"}},
                "required": ["street"],
            }
        },
    },
}


@pytest.mark.parametrize("annotation", _ANSWERS)
async def test_annotation_of_the_answer_is_its_schema(offer: Offer, annotation: str) -> None:
    """Only if it says something: the shape of other answers is learned."""
    upstream = offer(_TYPES.replace("{annotation}", "str") + f"\ndef g() -> {annotation}: ...\n")

    assert (await listed(upstream))["g"].output_schema == _ANSWERS[annotation]


async def test_objects_become_data(offer: Offer) -> None:
    """Models, dataclasses, dates and sets in an answer, at any depth: nothing of the host's is left in it."""
    upstream = offer(
        _TYPES.replace("{annotation}", "str")
        + "\ndef g() -> Any:\n    return {'p': [Person(name='Bo')], 'i': Item('jam'), 'd': datetime.date(2026, 1, 2),"
        " 's': {1}, 't': (Size.LARGE,)}\n"
    )

    answer = await upstream.call("g", {})

    assert answer.value == {
        "p": [{"name": "Bo", "born": None}],
        "i": {"name": "jam", "tags": []},
        "d": "2026-01-02",
        "s": [1],
        "t": ["l"],
    }


# Calls


@pytest.mark.behaviour("functions.threads")
async def test_plain_function_does_not_hold_the_event_loop() -> None:
    """Others go on while it blocks: it ends only because the loop lets it."""
    began, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def block() -> str:
        loop.call_soon_threadsafe(began.set)
        return "done" if go.wait(60) else "stuck"

    upstream = functions(block)
    call = asyncio.create_task(upstream.call("block", {}))
    await asyncio.wait_for(began.wait(), 60)
    go.set()

    assert (await call).value == "done"


async def test_thread_that_hangs_keeps_its_turn_until_it_ends() -> None:
    """Its caller is let go in time, and there are never more threads than calls at a time."""
    go = threading.Event()
    upstream = functions(lambda_named("block", lambda: go.wait(60)), concurrent_calls=1)

    with pytest.raises(UpstreamTimeout) as late:
        await upstream.call("block", {}, timeout_seconds=0.05)
    with pytest.raises(UpstreamTimeout) as busy:
        await upstream.call("block", {}, timeout_seconds=0.05)
    go.set()
    answer = await upstream.call("block", {}, timeout_seconds=60)

    assert str(late.value) == (
        "'shop' did not answer 'block' within 0.05 s. The call may have happened: check before calling again, or give "
        "it more time."
    )
    assert str(busy.value) == (
        "'shop' was busy for 0.05 s with 1 other calls; 'block' was not called. Make fewer calls at once."
    )
    assert (answer.value, upstream.status().failures) == (True, 2)


def lambda_named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under a name."""
    function.__name__ = name
    return function


async def test_coroutine_that_ignores_its_cancellation_does_not_keep_its_caller() -> None:
    """It keeps its turn, as a thread does."""
    go = asyncio.Event()

    async def stubborn() -> str:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    upstream = functions(stubborn, concurrent_calls=1)
    with pytest.raises(UpstreamTimeout, match="did not answer 'stubborn'"):
        await upstream.call("stubborn", {}, timeout_seconds=0.05)
    with pytest.raises(UpstreamTimeout, match="was not called"):
        await upstream.call("stubborn", {}, timeout_seconds=0.05)
    go.set()

    assert (await upstream.call("stubborn", {})).value == "at last"


_WRAPPED = """
import asyncio, functools

def run(f):
    @functools.wraps(f)
    def plain(**given): return asyncio.run(f(**given))
    return plain

def later(f):
    @functools.wraps(f)
    async def wrapped(**given): return f(**given)
    return wrapped

def passed(f):
    @functools.wraps(f)
    def plain(**given): return f(**given)
    return plain

@run
async def one(n: int): return n

@later
def two(n: int): return n

@passed
async def three(n: int): return n

__all__ = ['one', 'two', 'three']
"""


async def test_wrapped_function_runs_as_what_it_is(offer: Offer) -> None:
    """A plain wrapper of a coroutine function, and a coroutine function around a plain one."""
    upstream = offer(_WRAPPED)

    assert [(await upstream.call(name, {"n": 5})).value for name in ("one", "two", "three")] == [5, 5, 5]


_RAISED = {
    "raise ValueError('no jam')": "ValueError: no jam",
    "raise KeyError": "KeyError",
    "raise TimeoutError('slow')": "TimeoutError: slow",
    "open('/no/such/place/of/this/machine')": "FileNotFoundError: No such file or directory",
    "import sys; sys.exit(2)": "SystemExit: 2",
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "raise StopIteration('end')": "StopIteration: end",
    "import asyncio; raise asyncio.CancelledError('mine')": "CancelledError: mine",
    "raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})": "Mute",
    "from sealyard.errors import ToolFailed; raise ToolFailed('Sold out.')": "Sold out.",
    "from sealyard.errors import StoreError; raise StoreError('mine')": "StoreError: mine",
}


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("text", _RAISED)
@pytest.mark.behaviour("functions.errors")
async def test_exception_is_the_error_of_the_tool(offer: Offer, kind: str, text: str) -> None:
    """With its own words and nothing of the host, and whatever it is: the gateway goes on."""
    expected = _RAISED[text]
    if kind == "async def" and "StopIteration" in text:
        expected = "RuntimeError: coroutine raised StopIteration"
    upstream = offer(f"{kind} f():\n    {text}\n")

    with pytest.raises(ToolFailed) as failed:
        await upstream.call("f", {})

    assert (str(failed.value), failed.value.__cause__) == (expected, None)
    assert (upstream.status().calls, upstream.status().failures) == (1, 0)


async def test_function_that_cancels_itself_is_an_error_of_the_tool() -> None:
    """Its caller is not taken for cancelled."""

    async def give_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(ToolFailed, match=r"^'give_up' cancelled itself\.$"):
        await functions(give_up).call("give_up", {})


async def test_upstream_error_of_a_function_counts_as_a_failure_of_its_upstream() -> None:
    """So an author can say that what is behind the function is down."""

    def down() -> None:
        raise UpstreamUnavailable("The database is down. Call it later.")

    upstream = functions(down)
    with pytest.raises(UpstreamUnavailable, match=r"^The database is down\. Call it later\.$"):
        await upstream.call("down", {})

    assert upstream.status().failures == 1


async def test_value_that_is_not_json_is_an_error_with_its_type() -> None:
    """The value itself is not shown."""

    def give() -> Any:
        return {"rows": [object()]}

    with pytest.raises(ToolFailed) as failed:
        await functions(give).call("give", {})

    assert str(failed.value) == (
        "'give' answered with something that is not JSON: a value of the type object. Have its author return data."
    )


async def test_large_answer_stays_json_until_it_is_read() -> None:
    """Nothing large is decoded on the event loop, and more than the config takes is not taken."""
    rows = [{"n": number} for number in range(20_000)]
    upstream = functions(lambda_named("rows", lambda: rows), answer_bytes=400_000)
    small = functions(lambda_named("rows", lambda: rows), answer_bytes=100_000)

    answer = await upstream.call("rows", {})
    with pytest.raises(UpstreamError) as refused:
        await small.call("rows", {})

    assert answer.message
    assert answer.read().value == rows
    assert str(refused.value) == (
        "'rows' of 'shop' was called, but its answer of 228,891 bytes is larger than 100,000. Ask for less, or raise "
        "answer_bytes in the config."
    )


async def test_files_have_plain_names_and_a_place_in_the_value() -> None:
    """A name is data, perhaps of an attachment: it never leads out of the workspace."""
    content = b"a,b"
    away = ResponseFile(name="../../etc/pass wd", mime="text/csv", content=content)
    upstream = functions(
        lambda_named("alone", lambda: Response(value=None, files=(away,))),
        lambda_named("placed", lambda: Response(value={"it": {"file": away.name}}, files=(away, away))),
    )

    alone = await upstream.call("alone", {})
    placed = await upstream.call("placed", {})

    assert alone.value == {"file": "pass-wd.csv", "mime_type": "text/csv", "bytes": 3}
    assert [(each.name, each.title, each.content) for each in alone.files] == [("pass-wd.csv", "pass wd", content)]
    assert [each.name for each in placed.files] == ["pass-wd.csv", "pass-wd-2.csv"]
    assert placed.value["it"]["file"] in {each.name for each in placed.files}


async def test_large_file_comes_as_a_message_and_is_the_same_when_it_is_read() -> None:
    """Its name, its place in the value and its bytes."""
    large = ResponseFile(name="my report.csv", mime="text/csv", content=b"a,b\n" * 50_000)
    small = ResponseFile(name="my report.csv", mime="text/csv", content=b"a")
    upstream = functions(lambda_named("give", lambda: Response(value=None, files=(large, small))))

    answer = await upstream.call("give", {})
    read = answer.read()

    assert answer.message
    assert [(each["file"], each["bytes"]) for each in read.value] == [
        ("my-report.csv", 200_000),
        ("my-report-2.csv", 1),
    ]
    assert [(each.name, each.content) for each in read.files] == [
        ("my-report.csv", large.content),
        ("my-report-2.csv", small.content),
    ]


async def test_function_gets_arguments_of_its_own() -> None:
    """What it changes in them changes nothing of its caller's, which are recorded."""

    def spoil(rows: list[Any]) -> int:
        rows.append("spoilt")
        return len(rows)

    given: dict[str, Any] = {"rows": [1]}
    answer = await functions(spoil).call("spoil", given)

    assert (answer.value, given) == (2, {"rows": [1]})


async def test_thread_reports_progress_in_order_and_never_after_the_call() -> None:
    """Its reports arrive before its answer; those of one whose caller has gone are dropped."""
    steps: list[Any] = []
    go, ended = threading.Event(), threading.Event()

    def count(to: int, wait: bool = False) -> str:
        for number in range(1, to + 1):
            report_progress(number, to)
        if wait:
            go.wait(60)
            report_progress(99)
            ended.set()
        return "counted"

    upstream = functions(count)
    answer = await upstream.call("count", {"to": 3}, on_progress=lambda *step: steps.append(step[0]))
    given = {"to": 1, "wait": True}
    call = asyncio.create_task(upstream.call("count", given, on_progress=lambda *step: steps.append(step[0])))
    await until(lambda: len(steps) == 4)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    go.set()
    await until(ended.is_set)
    await upstream.call("count", {"to": 0})

    assert (answer.value, steps) == ("counted", [1.0, 2.0, 3.0, 1.0])


async def test_function_is_told_of_its_caller_and_the_schema_shows_nothing_of_it() -> None:
    """The context is filled by the gateway alone."""

    def who(caller: CallContext, greeting: str = "hello") -> list[str]:
        """Say who calls.

        Args:
            caller: Is filled in.
            greeting: A word.
        """
        return [greeting, caller.principal, caller.session, caller.execution_id]

    upstream = functions(who)
    answer = await upstream.call("who", {}, grant=GRANT)
    with pytest.raises(ToolFailed, match=r"^'who' has to know its caller\. Call it through a gateway\.$"):
        await upstream.call("who", {})

    assert answer.value == ["hello", "anna", "anna:default", "e1"]
    assert "caller" not in json.dumps((await listed(upstream))["who"].input_schema)


def test_functions_without_a_name_are_refused() -> None:
    """An operator would not find them."""
    with pytest.raises(
        InvalidRequest, match=r"^A function without a name cannot be a tool\. Give it one with `name`\.$"
    ):
        describe(lambda: 1)


def test_mark_is_all_that_the_decorator_leaves() -> None:
    """A marked function is the very same one."""

    def price() -> int:
        return 3

    assert tool(price) is price
    assert tool(name="cost")(price)() == 3
    assert describe(price).definition.name == "cost"
