"""Several upstreams as one: names lead back to their owners, and one that is wrong or dead costs only itself."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from tests.mcp.upstreams import Connect, Context, Conversing, Json, Person, config, gateway, memory, scripted

from sealyard.broker.policy import PolicySettings, Rule
from sealyard.config import Config
from sealyard.values.tools import UpstreamConfig

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


class Library:
    """A server with something of everything, in pages of one."""

    def __init__(self, shelf: str, *, names: tuple[str, ...] = ("borrow", "return")) -> None:
        self.shelf = shelf
        self._names = names

    def build(self) -> Server[Any]:
        """The server."""
        return Server(
            self.shelf,
            version="1",
            instructions=f"About {self.shelf}.",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_completion=self._complete,
        )

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        number = int((params and params.cursor) or 0)
        tool = types.Tool(name=self._names[number], input_schema={"type": "object"})
        following = str(number + 1) if number + 1 < len(self._names) else None
        return types.ListToolsResult(
            tools=[tool], next_cursor=following, ttl_ms=len(self.shelf) * 100, cache_scope="public"
        )

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=f"{self.shelf}: {params.name} {params.arguments}")])

    async def _list_prompts(self, ctx: Context, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name="advise")])

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        words = types.TextContent(text=f"{self.shelf}: {params.name}")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=words)])

    async def _list_resources(self, ctx: Context, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(uri=f"{self.shelf}://index", name="index")])

    async def _list_templates(self, ctx: Context, params: Any) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(uri_template=f"{self.shelf}://books/{{number}}", name="book")
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        text = types.TextResourceContents(uri=str(params.uri), text=f"read by {self.shelf}")
        return types.ReadResourceResult(contents=[text])

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        return types.CompleteResult(completion=types.Completion(values=[f"{self.shelf} {params.argument.value}"]))


def connecting(servers: Mapping[str, Server[Any]]) -> Connect:
    """Connects each upstream to the server of its name."""
    return lambda upstream: memory(servers[upstream.name])


async def all_tools(client: Client) -> list[str]:
    """Every tool's name, page by page."""
    names: list[str] = []
    cursor = None
    while True:
        page = await client.list_tools(cursor=cursor)
        names += [tool.name for tool in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            return names


@ERAS
async def test_lists_follow_each_other_in_the_configured_order(mode: str) -> None:
    """Pages of several upstreams are one list, the same every time."""
    servers = {"maps": Library("maps").build(), "art": Library("art").build()}
    async with gateway(connecting(servers), config("maps"), config("art")) as url, Client(url, mode=mode) as client:
        names = await all_tools(client)
        again = await all_tools(client)

        assert names == ["mcp__maps__borrow", "mcp__maps__return", "mcp__art__borrow", "mcp__art__return"]
        assert again == names
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == [
            "mcp__maps__advise",
            "mcp__art__advise",
        ]
        assert [str(one.uri) for one in (await client.list_resources()).resources] == ["maps://index", "art://index"]


@ERAS
async def test_names_and_addresses_reach_the_upstream_they_belong_to(mode: str) -> None:
    """Tools, prompts, resources, templates and completion, each without any list having been read before."""
    servers = {"maps": Library("maps").build(), "art": Library("art").build()}
    async with gateway(connecting(servers), config("maps"), config("art")) as url, Client(url, mode=mode) as client:
        called = await client.call_tool("mcp__art__return", {"days": 3})
        prompt = await client.get_prompt("mcp__art__advise")
        index = await client.read_resource("art://index")
        book = await client.read_resource("art://books/7")
        ref = types.PromptReference(name="mcp__art__advise")
        by_prompt = await client.complete(ref, {"name": "topic", "value": "x"})
        template = types.ResourceTemplateReference(uri="art://books/{number}")
        by_template = await client.complete(template, {"name": "number", "value": "y"})

    assert called.content == [types.TextContent(text="art: return {'days': 3}")]
    assert prompt.messages[0].content == types.TextContent(text="art: advise")
    assert [one.text for one in (*index.contents, *book.contents)] == ["read by art", "read by art"]  # type: ignore[union-attr]
    assert (by_prompt.completion.values, by_template.completion.values) == (["art x"], ["art y"])


@ERAS
async def test_what_no_upstream_lists_is_refused_with_its_name(mode: str) -> None:
    """Unknown names, addresses and cursors are the client's mistake."""
    servers = {"maps": Library("maps").build(), "art": Library("art").build()}
    async with gateway(connecting(servers), config("maps"), config("art")) as url, Client(url, mode=mode) as client:
        with pytest.raises(MCPError) as tool:
            await client.call_tool("borrow", {})
        with pytest.raises(MCPError) as resource:
            await client.read_resource("music://index")
        with pytest.raises(MCPError) as cursor:
            await client.list_tools(cursor="WyJteXN0ZXJ5IiwgIjEiXQ==")

    assert (tool.value.code, tool.value.message) == (types.INVALID_PARAMS, "No upstream lists the name 'borrow'.")
    assert (resource.value.code, resource.value.data) == (types.INVALID_PARAMS, {"uri": "music://index"})
    assert cursor.value.code == types.INVALID_PARAMS


async def test_merged_lists_may_be_kept_as_long_as_the_shortest_lived_of_them() -> None:
    """Cache hints of several upstreams become one that is true for all."""
    servers = {"maps": Library("maps", names=("a",)).build(), "art": Library("art", names=("b",)).build()}
    async with gateway(connecting(servers), config("maps"), config("art")) as url, Client(url) as client:
        page = await client.list_tools()

    assert (page.ttl_ms, page.cache_scope) == (300, "public")


@ERAS
async def test_a_dead_upstream_costs_only_itself(mode: str) -> None:
    """Lists go on without it, calls to the others work, and a call to it says what is wrong."""

    @asynccontextmanager
    async def connect(upstream: UpstreamConfig) -> AsyncIterator[Any]:
        if upstream.name == "dead":
            raise FileNotFoundError("no such program")
        async with memory(Library("maps").build()) as streams:
            yield streams

    async with gateway(connect, config("dead"), config("maps")) as url, Client(url, mode=mode) as client:
        names = await all_tools(client)
        called = await client.call_tool("mcp__maps__borrow", {})

    assert names == ["mcp__maps__borrow", "mcp__maps__return"]
    assert called.content == [types.TextContent(text="maps: borrow {}")]


@ERAS
async def test_the_only_upstream_being_dead_is_said_in_the_error(mode: str) -> None:
    """With nothing to fall back to, the client learns why."""

    @asynccontextmanager
    async def connect(upstream: UpstreamConfig) -> AsyncIterator[Any]:
        raise FileNotFoundError("no such program")
        yield

    async with gateway(connect, config("dead")) as url, Client(url, mode=mode) as client:
        with pytest.raises(MCPError) as refused:
            await client.list_tools()

    assert refused.value.message == "The upstream 'dead' could not be started: no such program."


@ERAS
async def test_capabilities_and_instructions_are_those_of_all(mode: str) -> None:
    """A client sees what the upstreams offer together, and nothing that none of them does."""
    talk = Conversing().server
    servers = {"maps": Library("maps").build(), "talk": talk}
    async with gateway(connecting(servers), config("maps"), config("talk")) as url, Client(url, mode=mode) as client:
        capabilities, words = client.server_capabilities, client.instructions

    assert words == "maps: About maps."
    assert {name for name, value in capabilities.model_dump().items() if value is not None} == {
        "tools",
        "resources",
        "prompts",
        "completions",
    }


@ERAS
async def test_the_only_upstream_is_mirrored(mode: str) -> None:
    """One upstream keeps its names, its capabilities and its instructions; the name is the gateway's."""
    async with (
        gateway(lambda _: memory(Conversing().server), config("talk")) as url,
        Client(url, mode=mode) as client,
    ):
        names = await all_tools(client)
        server, capabilities = client.server_info, client.server_capabilities

    assert names == ["converse"]
    assert server is not None
    assert (server.name, server.version) == ("gateway", "7")
    assert (capabilities.resources, capabilities.prompts) == (None, None)


@ERAS
async def test_tools_left_out_by_the_configuration_are_neither_seen_nor_called(mode: str) -> None:
    """What the configuration hides stays hidden also from who knows its name."""
    library = Library("maps", names=("borrow", "buy_map", "burn_map")).build()
    upstream = config("maps", tools=("b*",), without_tools=("burn_*",))
    async with gateway(lambda _: memory(library), upstream) as url, Client(url, mode=mode) as client:
        names = await all_tools(client)
        with pytest.raises(MCPError) as refused:
            await client.call_tool("burn_map", {})

    assert names == ["borrow", "buy_map"]
    assert refused.value.message == "No upstream lists the name 'burn_map'."


async def test_a_rule_that_fits_no_relayed_tool_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A misspelled rule denies nothing, in this mode too; the gateway knows when all upstreams have listed."""
    servers = {"maps": Library("maps").build(), "books": Library("books").build()}
    rule = Rule(decision="deny", tools=("mpas/borrow", "books/borrow"))
    settings = Config(policy=PolicySettings(rules=(rule,)))
    async with (
        gateway(connecting(servers), config("maps"), config("books"), settings=settings) as url,
        Client(url) as client,
    ):
        await all_tools(client)
        await all_tools(client)

    assert [record.getMessage() for record in caplog.records if record.name == "sealyard.access.unmatched"] == [
        "policy.rules[0].tools names 'mpas/borrow', which fits no tool. Did you mean 'maps/borrow'?"
    ]


async def test_question_of_one_of_several_upstreams_reaches_the_caller() -> None:
    """Merging changes names, not conversations."""
    person = Person("ada")
    servers = {"maps": Library("maps").build(), "talk": Conversing().server}
    async with (
        gateway(connecting(servers), config("maps"), config("talk")) as url,
        person.client(url, modern=False) as client,
    ):
        words = await person.converse(client, "mcp__talk__converse")

    assert words == 'ada said {"name": "ada"}'


# What an upstream sends is not believed


GOOD: Json = {"name": "good", "inputSchema": {"type": "object"}}
SCRIPTS: list[Any] = [GOOD, {"name": "no schema"}, {"inputSchema": {"type": "object"}}, "nonsense", None, 7]


@ERAS
async def test_one_malformed_tool_is_left_out_and_the_rest_stays(mode: str) -> None:
    """A list is as good as its good items."""
    async with (
        gateway(lambda _: scripted({"tools/list": {"tools": SCRIPTS}}), config("odd")) as url,
        Client(url, mode=mode) as client,
    ):
        assert await all_tools(client) == ["good"]


@ERAS
@pytest.mark.parametrize("tools", [None, "nonsense", 7, {"a": 1}])
async def test_a_list_that_is_none_is_empty(mode: str, tools: Any) -> None:
    """Nonsense instead of a list breaks nothing."""
    async with (
        gateway(lambda _: scripted({"tools/list": {"tools": tools}}), config("odd")) as url,
        Client(url, mode=mode) as client,
    ):
        assert await all_tools(client) == []


@ERAS
async def test_metadata_is_kept_and_the_upstreams_name_is_not(mode: str) -> None:
    """What the gateway does not know in `_meta` passes; whose answer it was is the gateway's business."""
    stamp = {"name": "scripted", "version": "1"}
    result = {
        "content": [{"type": "text", "text": "x"}],
        "_meta": {"example.org/kept": [1, {"a": None}], "io.modelcontextprotocol/serverInfo": stamp},
    }
    answers = {"tools/list": {"tools": [GOOD]}, "tools/call": result}
    async with gateway(lambda _: scripted(answers), config("odd")) as url, Client(url, mode=mode) as client:
        called = await client.call_tool("good", {})

    kept = {key: value for key, value in (called.meta or {}).items() if key != "io.modelcontextprotocol/serverInfo"}
    assert kept == {"example.org/kept": [1, {"a": None}]}
    assert "scripted" not in str(called.meta)


@ERAS
@pytest.mark.parametrize(
    "nonsense",
    [{"capabilities": ["tools"]}, {"capabilities": {"tools": 7}}, {"capabilities": {"tools": {}}, "instructions": [1]}],
    ids=str,
)
async def test_an_upstream_that_greets_with_nonsense_spoils_nobody_elses_greeting(mode: str, nonsense: Json) -> None:
    """What it says of itself is left out where it is no sense; the others are offered as before."""
    greeting = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "odd", "version": "1"}, **nonsense}

    def connect(upstream: UpstreamConfig) -> Any:
        return scripted({"initialize": greeting}) if upstream.name == "odd" else memory(Library("maps").build())

    async with gateway(connect, config("odd"), config("maps")) as url, Client(url, mode=mode) as client:
        names = await all_tools(client)
        words = client.instructions

    assert names == ["mcp__maps__borrow", "mcp__maps__return"]
    assert words == "maps: About maps."


async def test_wrong_cache_hints_of_one_upstream_do_not_cost_the_list() -> None:
    """Hints that are no sense are none."""
    odd = {"tools/list": {"tools": [GOOD], "ttlMs": "for ever", "cacheScope": 7}}

    def connect(upstream: UpstreamConfig) -> Any:
        return scripted(odd) if upstream.name == "odd" else memory(Library("maps", names=("a",)).build())

    async with gateway(connect, config("odd"), config("maps")) as url, Client(url) as client:
        page = await client.list_tools()

    assert [tool.name for tool in page.tools] == ["mcp__odd__good", "mcp__maps__a"]
    assert (page.ttl_ms, page.cache_scope) == (0, "private")


async def test_stream_that_concerns_no_upstream_opens_empty_and_ends() -> None:
    """Following what nobody lists is answered, not left hanging."""
    servers = {"maps": Library("maps").build(), "art": Library("art").build()}
    async with (
        gateway(connecting(servers), config("maps"), config("art")) as url,
        Client(url) as client,
        client.listen(resource_subscriptions=["music://index"]) as stream,
    ):
        events = [event async for event in stream]

    assert (stream.honored.resource_subscriptions, events) == (None, [])
