"""Promises of every upstream, in one suite: real servers over stdio and HTTP, functions, and the double for tests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from tests import warm
from tests.ports import free_port
from tests.upstreams import shop
from tests.upstreams.shop import Blocks, Shop, ShopServer
from tests.upstreams.waiting import until

from sealyard import report_progress
from sealyard.broker.upstreams import ToolServer
from sealyard.broker.upstreams.python import Functions, Mark
from sealyard.broker.upstreams.server import ResponseFile, to_answer
from sealyard.errors import (
    InvalidArguments,
    ToolFailed,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from sealyard.testing import FakeUpstream
from sealyard.values.tools import Definition, UpstreamConfig
from sealyard.wording import COMPLAINT_CHARACTERS

Open = Callable[..., AbstractAsyncContextManager[ToolServer]]
LONG = "x" * 2 * COMPLAINT_CHARACTERS
LONGEST = COMPLAINT_CHARACTERS - 20 + len(" […] ")  # `short` keeps two halves
NAMES = sorted(name for name in vars(Shop) if not name.startswith("_"))


async def _report(*progress: Any) -> None:
    report_progress(*progress)


def fake_shop() -> FakeUpstream:
    """The shop without a process."""
    fake = FakeUpstream("shop")
    own = Shop(report=_report, changed=fake.refresh)
    fake.tools = own.tools
    _answer_with_blocks(own)
    return fake


def function_shop() -> Functions:
    """The functions of the shop, added one by one."""

    async def changed() -> None:
        for name, function in own.tools.items():
            functions.add(function, Mark(name=name))
        await functions.refresh()

    functions = Functions(UpstreamConfig(name="shop", transport="python"))
    own = Shop(report=_report, changed=changed)
    _answer_with_blocks(own)
    for name, function in own.tools.items():
        functions.add(function, Mark(name=name))
    return functions


def _answer_with_blocks(own: Shop) -> None:
    for name in ("words", "data", "picture"):
        own.tools[name] = _answering(own.tools[name])


def _answering(function: Callable[[], Blocks]) -> Callable[[], Any]:
    def answer() -> Any:
        return to_answer({"content": function()})

    answer.__doc__ = function.__doc__
    return answer


@pytest.fixture(params=["fake", "python", "stdio", "http"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of upstream in turn."""
    return str(request.param)


@pytest.fixture
def open_shop(kind: str, connect: Any, serve: Any) -> Open:
    """Opens an upstream with the shop's tools."""

    @asynccontextmanager
    async def open_shop(**options: Any) -> AsyncIterator[ToolServer]:
        async with asyncio.timeout(60):
            if kind in ("fake", "python"):
                fake = fake_shop() if kind == "fake" else function_shop()
                fake.on_tools = options.get("on_tools")
                yield fake
                await fake.close()
            elif kind == "stdio":
                command, *args = warm.python(str(shop.__file__))
                async with connect(
                    name="shop", transport="stdio", command=command, args=tuple(args), **options
                ) as upstream:
                    yield upstream
            else:
                app = ShopServer().server.streamable_http_app()
                async with (
                    serve(app) as address,
                    connect(name="shop", transport="http", url=f"{address}/mcp", **options) as upstream,
                ):
                    yield upstream

    return open_shop


@pytest.mark.behaviour("upstream.double")
async def test_tools_are_listed_with_name_description_and_schema(open_shop: Open) -> None:
    """`on_tools` gets all of them, and the status counts them; before that nothing is started."""
    seen: list[tuple[str, list[Definition]]] = []

    async def on_tools(name: str, definitions: list[Definition]) -> None:
        seen.append((name, definitions))

    async with open_shop(on_tools=on_tools) as upstream:
        before = upstream.status()
        await upstream.refresh()
        after = upstream.status()

    assert (before.name, before.state, before.tools, before.calls) == ("shop", "stopped", 0, 0)
    assert (after.name, after.state, after.tools, after.calls) == ("shop", "ready", len(NAMES), 0)
    [(name, definitions)] = seen
    listed = {each.name: each for each in definitions}
    assert (name, sorted(listed)) == ("shop", NAMES)
    assert listed["price"] == Definition(
        name="price",
        description="The price of an item.",
        input_schema={
            "type": "object",
            "properties": {
                "item": {"type": "string"},
                "pieces": {"type": "integer", "default": 1},
                "notes": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": None},
            },
            "required": ["item"],
            "additionalProperties": False,
        },
    )


async def test_same_tools_are_handed_over_once(open_shop: Open) -> None:
    """Another refresh hands over nothing new."""
    seen: list[int] = []

    async def on_tools(name: str, definitions: list[Definition]) -> None:
        seen.append(len(definitions))

    async with open_shop(on_tools=on_tools) as upstream:
        await upstream.refresh()
        await upstream.refresh()
        await upstream.call("nothing", {})
        await upstream.refresh()

    assert seen == [len(NAMES)]


async def test_callback_that_fails_is_heard_by_the_caller_and_tried_again(open_shop: Open) -> None:
    """A refresh raises what `on_tools` raised, and the next one hands the tools over."""
    seen: list[int] = []
    is_full = True

    async def on_tools(name: str, definitions: list[Definition]) -> None:
        if is_full:
            raise OSError("the disk is full")
        seen.append(len(definitions))

    async with open_shop(on_tools=on_tools) as upstream:
        with pytest.raises(OSError, match="the disk is full"):
            await upstream.refresh()
        is_full = False
        await upstream.refresh()
        await upstream.refresh()

    assert seen == [len(NAMES)]


async def test_tools_that_change_are_handed_over_unasked(open_shop: Open) -> None:
    """The server's word is enough, and the new tool can be called."""
    seen: list[set[str]] = []

    async def on_tools(name: str, definitions: list[Definition]) -> None:
        seen.append({each.name for each in definitions})

    async with open_shop(on_tools=on_tools) as upstream:
        await upstream.refresh()
        await upstream.call("grow", {"name": "more"})
        await until(lambda: len(seen) == 2)
        answer = await upstream.call("more", {})
        status = upstream.status()

    assert seen == [set(NAMES), {*NAMES, "more"}]
    assert (answer.value, status.tools) == (None, len(NAMES) + 1)


async def test_structured_content_is_the_value(open_shop: Open) -> None:
    """Whatever kinds of JSON are in it; `result` alone is unwrapped for those who ask for it."""
    async with open_shop() as upstream:
        answer = await upstream.call("price", {"item": "jam \u2603", "pieces": 3, "notes": ["a", ""]})
        nothing = await upstream.call("nothing", {})
        wrapped = await upstream.call("wrapped", {})
        unwrapped = await upstream.call("wrapped", {}, unwrap=True)
        unaffected = await upstream.call("price", {"item": "tea"}, unwrap=True)

    assert (answer.value, answer.files) == ({"item": "jam \u2603", "cents": 750, "notes": ["a", ""]}, ())
    assert (nothing.value, wrapped.value, unwrapped.value) == (None, {"result": [1, 2, 3]}, [1, 2, 3])
    assert unaffected.value == {"item": "tea", "cents": 250, "notes": None}


async def test_text_blocks_are_the_value(open_shop: Open) -> None:
    """Several are lines of one text; one that is JSON is data."""
    async with open_shop() as upstream:
        words = await upstream.call("words", {})
        data = await upstream.call("data", {})

    assert (words.value, data.value) == ("one\ntwo", {"sum": 7})


async def test_image_is_a_file_with_its_place_in_the_value(open_shop: Open) -> None:
    """The value says which file it is, the bytes come beside it."""
    async with open_shop() as upstream:
        answer = await upstream.call("picture", {})

    assert answer.value == ["see", {"file": "image.png", "mime_type": "image/png", "bytes": 8}]
    assert answer.files == (ResponseFile(name="image.png", mime="image/png", content=b"\x89PNG\r\n\x1a\n"),)


async def test_error_of_a_tool_is_its_own_words(open_shop: Open) -> None:
    """It is no failure of the server, also if it is about time; very long words are cut in the middle."""
    async with open_shop() as upstream:
        said = []
        for tool, arguments in (("fail", {"words": "no jam"}), ("time_out", {}), ("fail", {"words": LONG})):
            with pytest.raises(ToolFailed) as failure:
                (await upstream.call(tool, arguments)).read()  # a large one is read by whoever takes it in
            said.append(str(failure.value))
        status = upstream.status()

    assert said[:2] == ["ValueError: no jam", "TimeoutError: the till is slow"]
    assert said[2].startswith("ValueError: xxx")
    assert " [\u2026] " in said[2]
    assert len(said[2]) == LONGEST
    assert (status.state, status.calls, status.failures) == ("ready", 3, 0)


async def test_unknown_tool_is_an_error_of_the_server(open_shop: Open) -> None:
    """As is a call with arguments that the tool has not."""
    async with open_shop() as upstream:
        with pytest.raises(ToolFailed, match=r"^Unknown tool: no_such_tool$"):
            await upstream.call("no_such_tool", {})
        with pytest.raises(ToolFailed, match=r"unexpected.*'colour'|'colour'.*unexpected"):
            await upstream.call("price", {"item": "jam", "colour": "red"})


@pytest.mark.parametrize(
    "wrong", [float("nan"), float("inf"), "\ud800", object()], ids=["nan", "infinity", "surrogate", "object"]
)
async def test_arguments_that_are_no_json_reach_nothing(open_shop: Open, wrong: Any) -> None:
    """They are refused here, and not counted as a call."""
    async with open_shop() as upstream:
        with pytest.raises(InvalidArguments, match=r"^The arguments of 'price' cannot be written as JSON: "):
            await upstream.call("price", {"item": wrong})
        status = upstream.status()

    assert (status.calls, status.failures) == (0, 0)


async def test_progress_arrives_in_order_before_the_answer(open_shop: Open) -> None:
    """At a coroutine or a plain function; one that raises loses the progress and not the call."""
    steps: list[Any] = []
    plain: list[Any] = []

    async def note(*step: Any) -> None:
        await asyncio.sleep(0)
        steps.append(step)

    def fail(*step: Any) -> None:
        raise KeyError(step)

    async with open_shop() as upstream:
        answers = [
            await upstream.call("count", {"to": 4}, on_progress=on_progress)
            for on_progress in (note, lambda *step: plain.append(step), fail, None)
        ]

    assert steps == plain == [(float(number), 4.0, f"step {number}") for number in range(1, 5)]
    assert [answer.value for answer in answers] == ["counted"] * 4


async def test_calls_overlap(open_shop: Open) -> None:
    """Four that wait for each other are all answered."""
    async with open_shop() as upstream:
        answers = await asyncio.gather(*(upstream.call("meet", {"parties": 4}) for _ in range(4)))

    assert [answer.value for answer in answers] == ["met"] * 4


async def test_timeout_and_cancellation_end_the_tool(open_shop: Open) -> None:
    """A late call is a failure that may have happened; a cancelled one is none; the upstream stays usable."""
    async with open_shop() as upstream:
        await upstream.refresh()
        with pytest.raises(UpstreamTimeout) as late:
            await upstream.call("hang", {"name": "late"}, timeout_seconds=0.3)
        call = asyncio.create_task(upstream.call("hang", {"name": "unwanted"}))
        await until(lambda: upstream.status().calls == 2)
        await upstream.call("nothing", {})  # which begins after the one that hangs
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        names: list[str] = []
        while len(names) < 2:
            names = (await upstream.call("ended", {})).value
        status = upstream.status()

    assert str(late.value) == (
        "'shop' did not answer 'hang' within 0.3 s. The call may have happened: check before calling again, or give it "
        "more time."
    )
    assert (names, status.state, status.failures) == (["late", "unwanted"], "ready", 1)


async def test_closing_ends_calls_and_refuses_others(open_shop: Open) -> None:
    """A call under way may have happened; a later one did not. Closing twice is as good as once."""
    async with open_shop() as upstream:
        await upstream.refresh()
        call = asyncio.create_task(upstream.call("hang", {"name": "under way"}))
        await until(lambda: upstream.status().calls == 1)
        await asyncio.sleep(0)
        await upstream.close()
        with pytest.raises(UpstreamError, match="'hang', which may have happened") as ended:
            await call
        for later in (upstream.call("nothing", {}), upstream.refresh()):
            with pytest.raises(UpstreamUnavailable, match=r"^'shop' was closed\.$"):
                await later
        await upstream.close()
        status = upstream.status()

    assert type(ended.value) is UpstreamError
    assert (status.state, status.calls, status.failures) == ("stopped", 2, 2)


async def test_upstream_that_cannot_be_reached_is_unavailable(kind: str, connect: Any) -> None:
    """Calls and refreshes say so, nothing happened, and the status has the reason."""
    fields = {
        "fake": {},
        "python": {"transport": "python", "module": "no_such_module"},
        "stdio": {"transport": "stdio", "command": "/no/such/program"},
        "http": {"transport": "http", "url": f"http://127.0.0.1:{free_port()}/mcp"},
    }[kind]
    fake = FakeUpstream("test")
    fake.is_dead = True
    async with connect(**(fields or {"transport": "stdio", "command": "unused"})) as real:
        upstream: ToolServer = real if fields else fake
        if kind == "python":
            upstream = Functions(real.config)
        with pytest.raises(UpstreamUnavailable):
            await upstream.refresh()
        with pytest.raises(UpstreamUnavailable):
            await upstream.call("price", {"item": "jam"})
        status = upstream.status()

    assert status.state in {"backing_off", "failed"}
    assert status.error
    assert (status.tools, status.calls, status.failures) == (0, 1, 1)


async def test_double_opens_again_for_another_gateway() -> None:
    """A test may hand one double to several gateways in turn, each of which closes it."""
    fake = fake_shop()
    seen: list[str] = []

    async def on_tools(name: str, definitions: list[Definition]) -> None:
        seen.append(name)

    for _ in range(2):
        fake.on_tools = on_tools
        await fake.refresh()
        await fake.close()

    assert seen == ["shop", "shop"]
