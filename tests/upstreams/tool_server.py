"""A well-behaved MCP server on the SDK; as a script it serves stdio."""

import asyncio
import os
import sys
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

OBJECT = {"type": "object"}
NUMBERS = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


class ToolServer:
    """Tools that show what a client does: echo, wait, progress, change, lie, fail."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.listeners = ListenHandler(self.bus)
        self.asked: list[str] = []
        self.waiting = 0
        self.all_here = asyncio.Event()
        self.cancelled: list[str] = []
        self.names = ["echo", "meet", "hang", "cancelled", "count", "add_tool", "lie", "fail", "crash", "env", "big"]
        self.server = Server(
            "tool-server",
            version="1.2.3",
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_subscriptions_listen=self.listen,
        )

    async def listen(self, context: Any, params: Any) -> types.SubscriptionsListenResult:
        """A stream of changes."""
        self.asked.append("listen")
        return await self.listeners(context, params)

    async def list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        """Two tools on every page."""
        self.asked.append("list")
        start = int(params.cursor) if params and params.cursor else 0
        page = [
            types.Tool(
                name=name,
                description=f"The tool {name}.",
                input_schema=OBJECT,
                output_schema=NUMBERS if name == "lie" else None,
                annotations=types.ToolAnnotations(read_only_hint=name == "echo"),
            )
            for name in self.names[start : start + 2]
        ]
        following = str(start + 2) if start + 2 < len(self.names) else None
        return types.ListToolsResult(tools=page, next_cursor=following)

    async def call_tool(self, context: Any, params: Any) -> types.CallToolResult:
        """Dispatch by the tool's name."""
        arguments = params.arguments or {}
        if params.name not in self.names:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await getattr(self, f"call_{params.name}")(context, arguments)

    async def call_echo(self, context: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """What it was given."""
        return types.CallToolResult(content=[], structured_content=arguments)

    async def call_meet(self, context: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """Answers when `parties` calls are in flight."""
        self.waiting += 1
        if self.waiting == arguments["parties"]:
            self.all_here.set()
        await self.all_here.wait()
        return text("met")

    async def call_hang(self, context: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """Never answers; remembers that it was cancelled."""
        try:
            await asyncio.Event().wait()
        except BaseException:
            self.cancelled.append(arguments["name"])
            raise

    async def call_cancelled(self, context: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """The calls of `hang` that were cancelled."""
        return types.CallToolResult(content=[], structured_content={"names": self.cancelled})

    async def call_count(self, context: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """Reports progress on its way."""
        for number in range(1, arguments["to"] + 1):
            await context.session.report_progress(number, arguments["to"], f"step {number}")
        return text("counted")

    async def call_add_tool(self, context: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """Has one tool more from now on, and says so."""
        self.names.append(arguments["name"])
        if context.session.protocol_version >= "2026":
            await self.bus.publish(ToolsListChanged())
        else:
            await context.session.send_tool_list_changed()
        return text("added")

    async def call_lie(self, context: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """Not what its schema says."""
        return types.CallToolResult(content=[], structured_content={"total": "many"})

    async def call_fail(self, context: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """Answers with an error."""
        return types.CallToolResult(content=[types.TextContent(type="text", text="no such row")], is_error=True)

    async def call_crash(self, context: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """Ends in mid-call."""
        print("I am about to crash.", file=sys.stderr, flush=True)
        os._exit(3)

    async def call_env(self, context: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """Its environment, working directory and process."""
        return types.CallToolResult(
            content=[], structured_content={"env": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()}
        )

    async def call_big(self, context: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """A text of so many bytes."""
        return text("x" * arguments["bytes"])


def text(content: str) -> types.CallToolResult:
    """A result of one text block."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=content)])


async def serve_stdio(server: Server[Any]) -> None:
    """Until standard input ends."""
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


if __name__ == "__main__":
    asyncio.run(serve_stdio(ToolServer().server))
