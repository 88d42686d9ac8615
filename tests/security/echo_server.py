"""An MCP server that says again what it is told, in every way and on every channel there is, and keeps it for later.

`python -m tests.security.echo_server` speaks stdio.
"""

import asyncio
import base64
import html
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from tests.mcp.serving import serve_stdio

Context = ServerRequestContext[Any, Any]

PERSON = {
    "first_name": "Wilhelmina",
    "last_name": "Featherstonehaugh",
    "email": "w.featherstonehaugh@brindlecombe.org",
    "phone": "+44 20 7946 0958",
    "iban": "GB82WEST12345698765432",
    "card_number": "4539578763621486",
    "ssn": "536-22-8145",
    "password": "corvid-lantern-88!",
    "date_of_birth": "1961-03-14",
}


def grouped(text: str, by: str, size: int) -> str:
    """The text with something between every few characters."""
    return by.join(text[at : at + size] for at in range(0, len(text), size))


TRICKS: dict[str, Callable[[str], Any]] = {
    "as it is": lambda text: text,
    "in capitals": str.upper,
    "in small letters": str.lower,
    "in other case": str.swapcase,
    "backwards": lambda text: text[::-1],
    "between letters": lambda text: f"zz{text}zz",
    "between digits": lambda text: f"77{text}77",
    "between underscores": lambda text: f"_{text}_",
    "in groups": lambda text: grouped(text, " ", 4),
    "in dashed pairs": lambda text: grouped(text, "-", 2),
    "letter by letter": lambda text: grouped(text, " ", 1),
    "over lines": lambda text: grouped(text, "\n", 5),
    "with invisible signs": lambda text: grouped(text, "\u200b", 3),
    "in full width": lambda text: "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in text),
    "as part of a URL": lambda text: f"https://example.org/find?q={quote(text, safe='')}&page=2",
    "in percent signs": lambda text: "".join(f"%{each:02X}" for each in text.encode()),
    "in HTML": lambda text: f"<b>{html.escape(text)}</b>",
    "in HTML codes": lambda text: "".join(f"&#{ord(each)};" for each in text),
    "in HTML hex codes": lambda text: "".join(f"&#x{ord(each):x};" for each in text),
    "in JSON": lambda text: json.dumps({"said": text}),
    "in JSON in JSON": lambda text: json.dumps(json.dumps({"said": text})),
    "in JSON escapes": lambda text: "".join(f"\\u{ord(each):04x}" for each in text),
    "in hex escapes": lambda text: "".join(f"\\x{ord(each):02x}" for each in text),
    "in hex": lambda text: text.encode().hex(),
    "in hex with colons": lambda text: text.encode().hex(":"),
    "in base64": lambda text: base64.b64encode(text.encode()).decode(),
    "in base64 behind one": lambda text: base64.b64encode(f"a{text}z".encode()).decode(),
    "in base64 behind two": lambda text: base64.b64encode(f"ab{text}z".encode()).decode(),
    "in base64 of a longer text": lambda text: base64.b64encode(f"???>>>{text} and so on???>>>".encode()).decode(),
    "in base64 for URLs": lambda text: base64.urlsafe_b64encode(f"???>>{text}?>".encode()).decode().rstrip("="),
    "in base64 in lines": lambda text: grouped(base64.b64encode(text.encode()).decode(), "\n", 8),
    "in base64 in a word": lambda text: f"x{base64.b64encode(text.encode()).decode()}",
    "in base64 of capitals": lambda text: base64.b64encode(text.upper().encode()).decode(),
    "in wide base64": lambda text: base64.b64encode(text.encode("utf-16-le")).decode(),
    "without its ends": lambda text: text[1:-1],
    "its first half and more": lambda text: text[: len(text) // 2 + 4],
    "as a list of characters": list,
    "as rows of characters": lambda text: [{"row": number, "c": each} for number, each in enumerate(text)],
    "as a list of codes": lambda text: list(text.encode()),
    "in pairs": lambda text: [text[at : at + 2] for at in range(0, len(text), 2)],
    "as a key": lambda text: {f"k{text}": 1},
    "in Arabic digits": lambda text: "".join(chr(0x660 + int(each)) if each.isdigit() else each for each in text),
    "in nested data": lambda text: {"a": [{"b": {"c": f"x{text}"}}]},
}


PROBES: dict[str, dict[str, Any]] = {
    "probe_unique": {"type": "array", "uniqueItems": True},
    "probe_choice": {"enum": ["1961-03-14", "x"]},
    "probe_constant": {"const": "1961-03-14"},
    "probe_pattern": {"type": "string", "pattern": "^1961"},
    "probe_longest": {"type": "string", "maxLength": 10},
    "probe_shortest": {"type": "string", "minLength": 11},
    "probe_least": {"type": "integer", "minimum": 4539578763621486},
    "probe_kind": {"type": "integer"},
    "probe_any": {"anyOf": [{"const": "1961-03-14"}, {"type": "integer"}]},
    "probe_not": {"not": {"const": "1961-03-14"}},
    "probe_if": {
        "type": "object",
        "if": {"properties": {"day": {"const": "1961-03-14"}}},
        "then": {"required": ["more"]},
    },
    "probe_names": {"type": "object", "propertyNames": {"pattern": "^1961"}},
}
"""Parameters whose schemas ask something about a value."""


class Echo:
    """The server, and what it was told to keep."""

    def __init__(self) -> None:
        self._kept = ""
        self._record: dict[str, Any] = {}

    def build(self) -> Server[Any]:
        """The server."""
        return Server("echo", version="1", on_list_tools=self._list_tools, on_call_tool=self._call_tool)

    async def _list_tools(self, ctx: Context, params: Any) -> types.ListToolsResult:
        words = {"text": {"type": "string"}, "trick": {"type": "string"}, "channel": {"type": "string"}}
        schema = {"type": "object", "properties": words}
        number = {"type": "object", "properties": {"number": {"type": "integer"}, "add": {"type": "integer"}}}
        probes = {name: {"type": "object", "properties": {"value": each}} for name, each in PROBES.items()}
        names = {
            **probes,
            "get_person": {"type": "object"},
            "say": schema,
            "keep": schema,
            "recall": schema,
            "count": number,
            "write": {"type": "object"},
            "append": schema,
            "download": schema,
        }
        tools = [types.Tool(name=name, description=name, input_schema=each) for name, each in names.items()]
        return types.ListToolsResult(tools=tools, ttl_ms=1000, cache_scope="public")

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        given = params.arguments or {}
        if params.name == "get_person":
            return _answer(dict(PERSON))
        if params.name in PROBES:
            return _answer({"ok": True})
        if params.name == "count":
            return _answer({"n": given["number"] + given.get("add", 0)})
        if params.name == "write":
            self._record |= given
            return _answer(self._record)
        if params.name == "append":
            self._kept += given["text"]
            return _answer({"ok": True})
        if params.name == "download":
            blob = base64.b64encode(self._kept.encode()).decode()
            return _resource({"uri": "file:///kept.bin", "mimeType": "application/octet-stream", "blob": blob})
        if params.name == "keep":
            self._kept = given["text"]
            return _answer({"ok": True})
        text = self._kept if params.name == "recall" else given["text"]
        said = TRICKS[given.get("trick") or "as it is"](text)
        return await self._say(ctx, said, given.get("channel") or "answer")

    async def _say(self, ctx: Context, said: Any, channel: str) -> types.CallToolResult:
        words = said if isinstance(said, str) else json.dumps(said)
        if channel == "error":
            return types.CallToolResult(content=[types.TextContent(text=f"Wrong: {words}")], is_error=True)
        if channel == "protocol error":
            raise MCPError(-32010, f"Wrong: {words}", {"said": said})
        if channel == "progress":
            await ctx.session.report_progress(1, 2, f"Doing {words}")
        if channel == "progress in pieces":
            for at in range(0, len(words), 4):
                await ctx.session.report_progress(at, None, words[at : at + 4])
        if channel == "log":
            note = types.LoggingMessageNotificationParams(level="info", data={"said": said})
            await ctx.session.send_notification(types.LoggingMessageNotification(params=note), ctx.request_id)
        if channel == "blocks":
            parts = said if isinstance(said, list) else [words]
            return types.CallToolResult(content=[types.TextContent(text=str(each)) for each in parts])
        if channel == "file":
            blob = base64.b64encode(f"said,{words}\n".encode()).decode()
            return _resource({"uri": "file:///said.csv", "mimeType": "text/csv", "blob": blob})
        if channel == "file name":
            uri = f"file:///{quote(words, safe='')}.csv"
            return _resource({"uri": uri, "mimeType": "text/csv", "blob": "YSxiCjEsMgo="})
        if channel == "link":
            link = {"type": "resource_link", "uri": f"crm://x{quote(words)}", "name": f"n{words}", "description": words}
            return types.CallToolResult.model_validate({"content": [link]})
        return _answer({"title": said, "n": 1}) if channel == "answer" else _answer({"ok": True})


def _answer(value: Any) -> types.CallToolResult:
    text = types.TextContent(text=json.dumps(value))
    return types.CallToolResult(content=[text], structured_content=value)


def _resource(resource: dict[str, str]) -> types.CallToolResult:
    return types.CallToolResult.model_validate({"content": [{"type": "resource", "resource": resource}]})


if __name__ == "__main__":
    asyncio.run(serve_stdio(Echo().build()))
