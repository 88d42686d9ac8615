"""A shop whose tools show what a caller of an upstream can rely on; as a script it is an MCP server over stdio.

The functions are the same wherever they run. `Functions` call them as they are, `ShopServer` behind the protocol.
"""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

from sealyard.broker.upstreams.python import Mark, describe

PICTURE = "iVBORw0KGgo="
"""The first eight bytes of every PNG."""


class Blocks(list[dict[str, Any]]):
    """Content blocks, where any other value of a tool is structured content."""


class Shop:
    """The tools. `report` reports progress, `changed` says that the list of tools is another one."""

    def __init__(self, *, report: Callable[..., Awaitable[None]], changed: Callable[[], Awaitable[None]]) -> None:
        self._report = report
        self._changed = changed
        self._ended: list[str] = []
        self._here = 0
        self._all_here = asyncio.Event()
        self.tools: dict[str, Callable[..., Any]] = {
            name: value for name, value in inspect.getmembers(self, inspect.ismethod) if not name.startswith("_")
        }

    def price(self, item: str, pieces: int = 1, notes: list[str] | None = None) -> dict[str, Any]:
        """The price of an item."""
        return {"item": item, "cents": 250 * pieces, "notes": notes}

    def nothing(self) -> None:
        """No value at all."""

    def wrapped(self) -> dict[str, Any]:
        """A list, as servers declare what is no object."""
        return {"result": [1, 2, 3]}

    def words(self) -> Any:
        """Two texts."""
        return Blocks([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])

    def data(self) -> Any:
        """A text that is JSON."""
        return Blocks([{"type": "text", "text": '{"sum": 7}'}])

    def picture(self) -> Any:
        """A text and an image."""
        return Blocks([{"type": "text", "text": "see"}, {"type": "image", "data": PICTURE, "mimeType": "image/png"}])

    def fail(self, words: str) -> None:
        """Raise."""
        raise ValueError(words)

    def time_out(self) -> None:
        """Raise what a slow server would make the gateway raise."""
        raise TimeoutError("the till is slow")

    async def count(self, to: int) -> str:
        """Report every step."""
        for number in range(1, to + 1):
            await self._report(number, to, f"step {number}")
        return "counted"

    async def meet(self, parties: int) -> str:
        """Return when that many calls are under way."""
        self._here += 1
        if self._here == parties:
            self._all_here.set()
        await self._all_here.wait()
        return "met"

    async def hang(self, name: str) -> None:
        """Never return, and remember the end."""
        try:
            await asyncio.Event().wait()
        finally:
            self._ended.append(name)

    def ended(self) -> list[str]:
        """The calls of `hang` that were cancelled."""
        return self._ended

    async def grow(self, name: str) -> str:
        """Have one tool more."""
        self.tools[name] = self.nothing
        await self._changed()
        return "grown"


class ShopServer:
    """The shop behind the protocol."""

    def __init__(self) -> None:
        self.shop = Shop(report=self.report, changed=self.announce)
        self.bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self.bus)
        self.context: contextvars.ContextVar[Any] = contextvars.ContextVar("context")
        self.server = Server(
            "shop",
            version="1.0",
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_subscriptions_listen=self.listen,
        )

    async def report(self, *progress: Any) -> None:
        """Send a notification about the call under way."""
        await self.context.get().session.report_progress(*progress)

    async def announce(self) -> None:
        """Say that the tools changed."""
        await self.bus.publish(ToolsListChanged())

    async def list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        """The functions as their signatures say."""
        defined = [describe(tool, Mark(name=name)).definition for name, tool in self.shop.tools.items()]
        return types.ListToolsResult(
            tools=[
                types.Tool(name=each.name, description=each.description, input_schema=each.input_schema)
                for each in defined
            ]
        )

    async def call_tool(self, context: Any, params: Any) -> types.CallToolResult:
        """The function's value, or its exception as a result that says so."""
        if params.name not in self.shop.tools:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        self.context.set(context)
        try:
            value = self.shop.tools[params.name](**(params.arguments or {}))
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its answer
            text = types.TextContent(type="text", text=f"{type(error).__name__}: {error}")
            return types.CallToolResult(content=[text], is_error=True)
        if isinstance(value, Blocks):
            return types.CallToolResult.model_validate({"content": value})
        return types.CallToolResult(content=[], structured_content=value)


if __name__ == "__main__":
    from tool_server import serve_stdio  # beside this script

    asyncio.run(serve_stdio(ShopServer().server))
