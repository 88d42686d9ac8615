"""Lists of tools: long, malformed, changing, endless."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.upstreams.tool_server import ToolServer
from tests.upstreams.waiting import listed, until, until_ended

from sealyard.errors import UpstreamError
from sealyard.values.tools import Definition, ToolAnnotations

Connect = Callable[..., Any]
Child = Callable[..., dict[str, Any]]
OBJECT = {"type": "object"}


async def test_every_page_is_read(connect: Connect, child: Child) -> None:
    """Eleven tools, two on a page, with all that is said of them."""
    async with connect(**child()) as upstream:
        definitions = await listed(upstream)

    assert len(definitions) == 11
    assert definitions[0] == Definition(
        name="echo",
        description="The tool echo.",
        input_schema=OBJECT,
        annotations=ToolAnnotations(read_only=True),
    )


async def test_one_malformed_tool_costs_only_itself(connect: Connect, child: Child) -> None:
    """What can be repaired is, what cannot is left out, and each is said in a warning."""
    async with connect(**child("Malformed")) as upstream:
        definitions = await listed(upstream)
        answer = await upstream.call("untyped", {"a": "b"})
        warnings = upstream.status().warnings

    assert definitions == [
        Definition(name="echo", description="Echoes.", input_schema=OBJECT),
        Definition(name="untyped", input_schema={"properties": {"a": {"type": "string"}}, "type": "object"}),
        Definition(name="no_schema", input_schema=OBJECT),
        Definition(name="bad_properties", input_schema={"type": "object", "properties": [], "required": "a"}),
        Definition(name="odd", input_schema=OBJECT),
        Definition(name="hints", title="Hints", input_schema=OBJECT),
    ]
    assert answer.value == {"a": "b"}
    assert warnings == (
        "A tool without a usable name was left out: None.",
        "A tool without a usable name was left out: None.",
        "A tool without a usable name was left out: ''.",
        "Tool 'untyped' has an inputSchema without type 'object'; it was taken as one.",
        "Tool 'no_schema' has an inputSchema without type 'object'; it was taken as one.",
        "Tool 'bad_schema' was left out: its inputSchema is [1, 2], not an object.",
        "Tool 'odd' has an outputSchema that is not an object; it was ignored.",
        "Tool 'echo' is listed twice; the first definition is used.",
    )


async def test_definition_that_is_too_large_is_named_once(
    connect: Connect, child: Child, caplog: pytest.LogCaptureFixture
) -> None:
    """It is left out, and its name and size are among the warnings and in the log."""
    async with connect(**child("Bulky")) as upstream:
        definitions = await listed(upstream)
        await upstream.refresh()
        warnings = upstream.status().warnings

    size = len(json.dumps({"name": "bulky", "description": "x" * 300_000, "inputSchema": {"type": "object"}}))
    said = f"Tool 'bulky' was left out: its definition has {size:,} bytes, more than the 262,144 that are read."
    assert [each.name for each in definitions] == ["slim"]
    assert warnings == (said,)
    assert [record.getMessage() for record in caplog.records if "left out" in record.getMessage()] == [f"test: {said}"]


async def test_list_without_end_is_cut(connect: Connect, child: Child) -> None:
    """A server that always has another page holds nobody up."""
    async with connect(**child("EndlessPages")) as upstream:
        definitions = await listed(upstream)
        warnings = upstream.status().warnings

    assert len(definitions) == 200
    assert warnings == ("The list of tools has more than 200 pages; the rest was left out.",)


@pytest.mark.behaviour("upstream.changed_tools")
async def test_changed_tools_arrive_while_the_server_runs(connect: Connect, child: Child) -> None:
    """Once for the first list and once for many announcements in a row."""
    seen: list[tuple[str, int]] = []
    changed = asyncio.Event()

    async def on_tools(name: str, definitions: list[Definition]) -> None:
        seen.append((name, len(definitions)))
        if len(definitions) == 14:
            changed.set()

    async with connect(**child(), on_tools=on_tools) as upstream, asyncio.timeout(60):
        await upstream.refresh()
        listed = list(seen)
        await asyncio.gather(*(upstream.call("add_tool", {"name": f"new-{n}"}) for n in range(3)))
        await changed.wait()
        status = upstream.status()

    assert (listed, seen[-1], status.tools) == ([("test", 11)], ("test", 14), 14)


async def test_changes_are_listened_for_before_the_first_list(connect: Connect, serve: Any) -> None:
    """Else one that happens in between would be missed."""
    tools = ToolServer()
    async with (
        serve(tools.server.streamable_http_app()) as address,
        connect(transport="http", url=f"{address}/mcp") as upstream,
    ):
        await upstream.refresh()

    assert tools.asked[:2] == ["listen", "list"]


async def test_server_that_changes_without_end_is_not_listed_without_end(connect: Connect, child: Child) -> None:
    """At the start, at once after it, and then once a second."""
    lists: list[tuple[str, float]] = []

    async def on_tools(name: str, definitions: list[Definition]) -> None:
        lists.append((definitions[0].name, asyncio.get_running_loop().time()))

    async with connect(**child("Restless"), on_tools=on_tools) as upstream:
        await upstream.refresh()
        await until(lambda: len(lists) == 3)

    assert [name for name, _ in lists] == ["t1", "t2", "t3"]
    assert lists[2][1] - lists[0][1] > 1.0  # it never comes early, however slow the machine is


async def test_same_tools_are_not_handed_over_twice(connect: Connect, child: Child) -> None:
    """Not by a refresh, and not by another start."""
    seen: list[int] = []

    async def on_tools(name: str, definitions: list[Definition]) -> None:
        seen.append(len(definitions))

    async with connect(**child("Raw", idle_seconds=0.05), on_tools=on_tools) as upstream:
        await upstream.refresh()
        await upstream.refresh()
        await until_ended(upstream)
        await upstream.call("echo", {})
        await upstream.refresh()

    assert seen == [1]


async def test_callback_that_fails_is_heard_by_who_asked(connect: Connect, child: Child) -> None:
    """A refresh raises what `on_tools` raised; the upstream goes on, and hands the tools over next time."""
    seen: list[int] = []

    async def on_tools(name: str, definitions: list[Definition]) -> None:
        seen.append(len(definitions))
        if len(seen) <= 2:
            raise OSError("the disk is full")

    async with connect(**child("Raw"), on_tools=on_tools) as upstream:
        await upstream.call("echo", {})
        await until(lambda: seen == [1])
        with pytest.raises(OSError, match="the disk is full"):
            await upstream.refresh()
        await upstream.refresh()
        answer = await upstream.call("echo", {"n": 1})

    assert (answer.value, seen) == ({"n": 1}, [1, 1, 1])


async def test_server_without_a_list_can_be_called(connect: Connect, child: Child) -> None:
    """Listing fails with the server's words; calling works."""
    script = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    m = json.loads(line)\n"
        "    if m.get('method') == 'initialize':\n"
        "        r = {'result': {'protocolVersion': '2025-06-18', 'capabilities': {}}}\n"
        "    elif m.get('method') == 'tools/call':\n"
        "        r = {'result': {'content': [{'type': 'text', 'text': 'called'}]}}\n"
        "    else:\n"
        "        r = {'error': {'code': -32603, 'message': 'no list today'}}\n"
        "    if 'id' in m:\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], **r}), flush=True)\n"
    )
    async with connect(transport="stdio", command="python3", args=("-c", script)) as upstream:
        with pytest.raises(UpstreamError) as refusal:
            await listed(upstream)
        answer = await upstream.call("anything", {})

    assert str(refusal.value) == "'test' does not list its tools: no list today."
    assert answer.value == "called"
