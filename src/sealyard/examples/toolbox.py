"""Python functions as the tools of an MCP server: a function's signature is its schema, its docstring the description.

Arguments are checked against the signature before the function is called. A refusal is an answer marked as an error,
with advice; the SDK reports an unexpected exception.
"""

import base64
import contextlib
import inspect
import typing
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sealyard import __version__

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Json = dict[str, Any]


class Refused(Exception):
    """The request cannot be done. The message is for the caller: the reason, and what to do instead."""


class Media(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is not JSON: an image, or any other file."""

    name: str
    mime: str
    content: bytes


class _Tool(msgspec.Struct, frozen=True, kw_only=True):
    function: Callable[..., Any]
    arguments: type[msgspec.Struct]
    definition: types.Tool


class Toolbox:
    """The tools of one server, in the order they were written."""

    def __init__(self, name: str, *, instructions: str) -> None:
        self.server: Server[Any] = Server(
            name,
            version=__version__,
            instructions=instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        self._tools: dict[str, _Tool] = {}

    def tool(
        self, *, read_only: bool = False, destructive: bool = False, idempotent: bool = False
    ) -> Callable[[_Function], _Function]:
        """Makes a tool of the function below, with these claims about its effects."""
        annotations = types.ToolAnnotations(
            read_only_hint=read_only,
            destructive_hint=destructive,
            idempotent_hint=read_only or idempotent,
            open_world_hint=False,
        )

        def add(function: _Function) -> _Function:
            self._tools[function.__name__] = _describe(function, annotations)
            return function

        return add

    def definitions(self) -> list[_Json]:
        """Every tool as a client of the newest protocol sees it."""
        return [tool.definition.model_dump(by_alias=True, exclude_none=True) for tool in self._tools.values()]

    def run(self) -> None:
        """Serve on standard input and output until the input ends or Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt):  # it reaches the whole group: the parent process ends us
            anyio.run(self._serve)

    async def _serve(self) -> None:
        async with stdio_server() as (incoming, outgoing):
            await self.server.run(incoming, outgoing, self.server.create_initialization_options())

    async def _list_tools(
        self, context: ServerRequestContext[Any], _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        tools = [tool.definition for tool in self._tools.values()]
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            tools = [tool if _is_object(tool.output_schema) else _without_output_schema(tool) for tool in tools]
        return types.ListToolsResult(tools=tools)

    async def _call_tool(
        self, context: ServerRequestContext[Any], call: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            return _error(f"No tool named {call.name!r}. The tools of this server are {', '.join(self._tools)}.")
        try:
            arguments = msgspec.convert(call.arguments or {}, tool.arguments)
            answer = tool.function(**{name: getattr(arguments, name) for name in tool.arguments.__struct_fields__})
        except msgspec.ValidationError as error:
            known = ", ".join(tool.arguments.__struct_fields__) or "none"
            return _error(f"The arguments do not fit {call.name!r}: {error}. Its parameters are: {known}.")
        except Refused as error:
            return _error(str(error))
        if isinstance(answer, Media):
            return types.CallToolResult(content=[_media_block(answer)])
        return _json_result(answer, modern=context.protocol_version in MODERN_PROTOCOL_VERSIONS)


def _describe(function: Callable[..., Any], annotations: types.ToolAnnotations) -> _Tool:
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    fields: list[Any] = [
        (each.name, hints[each.name]) if each.default is each.empty else (each.name, hints[each.name], each.default)
        for each in parameters
    ]
    arguments = msgspec.defstruct(function.__name__, fields, kw_only=True, forbid_unknown_fields=True)
    returns = hints["return"]
    definition = types.Tool(
        name=function.__name__,
        title=function.__name__.replace("_", " ").capitalize(),
        description=inspect.getdoc(function),
        input_schema=_schema(arguments),
        output_schema=None if returns is Media else _schema(returns),
        annotations=annotations,
    )
    return _Tool(function=function, arguments=arguments, definition=definition)


def _schema(kind: Any) -> _Json:
    (schema,), shared = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    if "$ref" in schema:  # MCP wants the object itself at the root
        schema = shared.pop(schema["$ref"].rpartition("/")[2])
        schema.pop("title")
    return {**schema, "$defs": shared} if shared else schema


def _is_object(schema: _Json | None) -> bool:
    return schema is None or schema.get("type") == "object"


def _without_output_schema(tool: types.Tool) -> types.Tool:
    """Before 2026-07-28 an answer with a schema is an object; lists travel as text alone."""
    return tool.model_copy(update={"output_schema": None})


def _json_result(answer: Any, *, modern: bool) -> types.CallToolResult:
    text = types.TextContent(type="text", text=msgspec.json.encode(answer).decode())
    value = msgspec.to_builtins(answer)
    if modern or isinstance(value, dict):
        return types.CallToolResult(content=[text], structured_content=value)
    return types.CallToolResult(content=[text])


def _media_block(media: Media) -> types.ContentBlock:
    data = base64.b64encode(media.content).decode()
    if media.mime.startswith("image/"):
        return types.ImageContent(type="image", data=data, mime_type=media.mime)
    blob = types.BlobResourceContents(uri=f"file:///{media.name}", mime_type=media.mime, blob=data)
    return types.EmbeddedResource(type="resource", resource=blob)


def _error(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=message)], is_error=True)
