"""An MCP server with every tool, prompt and resource the conformance suite asks for, in both eras of the protocol.

`python -m tests.mcp.everything_server` speaks stdio; with `--http` it prints its URL and serves there.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import struct
import sys
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.uri_template import UriTemplate
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from tests.mcp.serving import serve_http, serve_stdio

Context = ServerRequestContext[Any, Any]
Json = dict[str, Any]
Tool = Callable[[Context, types.CallToolRequestParams], Awaitable[Json]]

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second", "Third"), 1)]
CONDITIONAL: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def png() -> str:
    """One red pixel."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")), chunk(b"IEND", b""))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()


def wav() -> str:
    """One silent sample."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    body = b"WAVE" + form + struct.pack("<4sIB", b"data", 1, 128) + b"\0"
    return base64.b64encode(b"RIFF" + struct.pack("<I", len(body)) + body).decode()


def text(words: str) -> Json:
    """A text block."""
    return {"type": "text", "text": words}


def image() -> Json:
    """An image block."""
    return {"type": "image", "data": png(), "mimeType": "image/png"}


def embedded(uri: str, mime: str, words: str) -> Json:
    """A block that holds a resource."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": words}}


def answer(*blocks: Json) -> Json:
    """A tool's result."""
    return {"content": list(blocks)}


def form(message: str, *, required: list[str], **properties: Json) -> Json:
    """An elicitation, as the parameters of its request."""
    schema = {"type": "object", "properties": properties, "required": required}
    return {"message": message, "requestedSchema": schema}


def sampling(words: str, *, tokens: int) -> Json:
    """A request to the client's model, as its parameters."""
    return {"messages": [{"role": "user", "content": text(words)}], "maxTokens": tokens}


def finished(kind: type[types.Result], result: Json) -> Any:
    """The result with the fields its era demands; one that asks for input stays as it is."""
    return result if "inputRequests" in result else kind.model_validate(result)


class Everything:
    """The tools, prompts and resources, and what they remember."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.tools: dict[str, tuple[types.Tool, Tool]] = {}
        self._level = "debug"
        self._key = secrets.token_bytes(32)
        self._subscribers: dict[str, list[Context]] = {}
        self._add_content_tools()
        self._add_conversation_tools()
        self._add_input_tools()

    def add(self, name: str, run: Tool, schema: Json | None = None) -> None:
        """Offer a tool."""
        schema = schema or {"type": "object", "properties": {}}
        self.tools[name] = (types.Tool(name=name, description=f"Tests: {name}.", input_schema=schema), run)

    def build(self) -> Server[Any]:
        """The server."""
        server: Server[Any] = Server(
            "everything",
            version="1.0.0",
            instructions="Call what the test needs.",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=ListenHandler(self.bus),
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
        )
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        return server

    # Tools that only answer

    def _add_content_tools(self) -> None:
        fixed = {
            "test_simple_text": answer(text("This is a simple text response for testing.")),
            "test_image_content": answer(image()),
            "test_audio_content": answer({"type": "audio", "data": wav(), "mimeType": "audio/wav"}),
            "test_embedded_resource": answer(
                embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
            ),
            "test_multiple_content_types": answer(
                text("Multiple content types test:"),
                image(),
                embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
            ),
            "test_error_handling": {
                **answer(text("This tool intentionally returns an error for testing")),
                "isError": True,
            },
        }
        for name, result in fixed.items():

            async def run(ctx: Context, params: types.CallToolRequestParams, result: Json = result) -> Json:
                return result

            self.add(name, run)
        self.add("json_schema_2020_12_tool", self._echo, CONDITIONAL)
        mirrored = {"type": "string", "x-mcp-header": "Region"}
        self.add("test_mirrored_header", self._echo, {"type": "object", "properties": {"region": mirrored}})

    async def _echo(self, ctx: Context, params: types.CallToolRequestParams) -> Json:
        return answer(text(json.dumps(params.arguments)))

    # Tools that talk while they run

    def _add_conversation_tools(self) -> None:
        self.add("test_tool_with_logging", self._log_thrice)
        self.add("test_logging_tool", self._log_thrice)
        self.add("test_tool_with_progress", self._progress)
        ask = {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}
        self.add("test_sampling", self._sample, ask)
        self.add("test_missing_capability", self._sample)
        ask = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
        self.add("test_elicitation", self._elicit, ask)
        self.add("test_elicitation_sep1034_defaults", self._elicit_defaults)
        self.add("test_elicitation_sep1330_enums", self._elicit_choices)
        self.add("test_trigger_tool_change", self._change_tools)
        self.add("test_trigger_prompt_change", self._change_prompts)
        touch = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
        self.add("test_touch_resource", self._touch, touch)

    async def _log_thrice(self, ctx: Context, params: types.CallToolRequestParams) -> Json:
        for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await self._log(ctx, words)
            await asyncio.sleep(0.05)  # the suite wants them apart
        return answer(text("Logged three times."))

    async def _log(self, ctx: Context, words: str) -> None:
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        wanted = (ctx.meta or {}).get(types.LOG_LEVEL_META_KEY) if modern else self._level
        if wanted is not None and LEVELS.index("info") >= LEVELS.index(wanted):
            params = types.LoggingMessageNotificationParams(level="info", logger="everything", data=words)
            note = types.LoggingMessageNotification(params=params)
            await ctx.session.send_notification(note, related_request_id=ctx.request_id)

    async def _progress(self, ctx: Context, params: types.CallToolRequestParams) -> Json:
        for done in (0, 50, 100):
            await ctx.session.report_progress(done, 100, f"{done} of 100")
            await asyncio.sleep(0.05)
        return answer(text("Progressed to the end."))

    async def _sample(self, ctx: Context, params: types.CallToolRequestParams) -> Json:
        self._require(ctx, "sampling")
        words = (params.arguments or {}).get("prompt", "Say something.")
        request = types.CreateMessageRequest.model_validate({"params": sampling(words, tokens=100)})
        reply = await self._ask(ctx, request, types.CreateMessageResult)
        return answer(text(f"LLM response: {reply.content.text}"))

    async def _elicit(self, ctx: Context, params: types.CallToolRequestParams) -> Json:
        username = {"type": "string", "description": "User's response"}
        email = {"type": "string", "description": "User's email address"}
        message = (params.arguments or {})["message"]
        asked = form(message, required=["username", "email"], username=username, email=email)
        return await self._elicited(ctx, asked, "User response: <action: {action}, content: {content}>")

    async def _elicit_defaults(self, ctx: Context, params: types.CallToolRequestParams) -> Json:
        asked = form(
            "Check the defaults",
            required=[],
            name={"type": "string", "default": "John Doe"},
            age={"type": "integer", "default": 30},
            score={"type": "number", "default": 95.5},
            status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            verified={"type": "boolean", "default": True},
        )
        return await self._elicited(ctx, asked, "Elicitation completed: action={action}, content={content}")

    async def _elicit_choices(self, ctx: Context, params: types.CallToolRequestParams) -> Json:
        names = ["Option One", "Option Two", "Option Three"]
        asked = form(
            "Choose",
            required=[],
            untitledSingle={"type": "string", "enum": OPTIONS},
            titledSingle={"type": "string", "oneOf": TITLED},
            legacyEnum={"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names},
            untitledMulti={"type": "array", "items": {"type": "string", "enum": OPTIONS}},
            titledMulti={"type": "array", "items": {"anyOf": TITLED}},
        )
        return await self._elicited(ctx, asked, "Elicitation completed: action={action}, content={content}")

    async def _elicited(self, ctx: Context, asked: Json, wording: str) -> Json:
        self._require(ctx, "elicitation")
        request = types.ElicitRequest.model_validate({"params": asked})
        reply = await self._ask(ctx, request, types.ElicitResult)
        return answer(text(wording.format(action=reply.action, content=json.dumps(reply.content))))

    async def _ask(self, ctx: Context, request: Any, result_type: Any) -> Any:
        related = ServerMessageMetadata(related_request_id=ctx.request_id)
        return await ctx.session.send_request(request, result_type, metadata=related)

    def _require(self, ctx: Context, capability: str) -> None:
        if getattr(ctx.session.client_capabilities, capability, None) is None:
            raise MCPError(
                types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                f"The client lacks {capability}",
                {"requiredCapabilities": {capability: {}}},
            )

    async def _change_tools(self, ctx: Context, params: types.CallToolRequestParams) -> Json:
        await self.bus.publish(ToolsListChanged())
        await ctx.session.send_tool_list_changed()
        return answer(text("Said that the tools changed."))

    async def _change_prompts(self, ctx: Context, params: types.CallToolRequestParams) -> Json:
        await self.bus.publish(PromptsListChanged())
        await ctx.session.send_prompt_list_changed()
        return answer(text("Said that the prompts changed."))

    async def _touch(self, ctx: Context, params: types.CallToolRequestParams) -> Json:
        uri = (params.arguments or {})["uri"]
        await self.bus.publish(ResourceUpdated(uri))
        for subscriber in self._subscribers.get(uri, []):
            await subscriber.session.send_resource_updated(uri)
        return answer(text(f"Touched {uri}"))

    # Tools that need more input, in the modern era's way

    def _add_input_tools(self) -> None:
        name = {"method": "elicitation/create", "params": self._question("What is your name?", "name")}
        capital = {"method": "sampling/createMessage", "params": sampling("What is the capital of France?", tokens=100)}
        greeting = {"method": "sampling/createMessage", "params": sampling("Generate a greeting", tokens=50)}
        confirm = {"method": "elicitation/create", "params": self._question("Please confirm", "ok", "boolean")}
        roots = {"method": "roots/list", "params": {}}
        one = [{"user_name": name}]
        self._add_rounds("test_input_required_result_elicitation", one)
        self._add_rounds("test_streaming_elicitation", one)
        self._add_rounds("test_input_required_result_sampling", [{"capital_question": capital}])
        self._add_rounds("test_input_required_result_list_roots", [{"client_roots": roots}])
        self._add_rounds("test_input_required_result_request_state", [{"confirm": confirm}], stateful=True)
        self._add_rounds("test_input_required_result_tampered_state", [{"confirm": confirm}], stateful=True)
        several = {"user_name": name, "greeting": greeting, "client_roots": roots}
        self._add_rounds("test_input_required_result_multiple_inputs", [several], stateful=True)
        self._add_rounds("test_input_required_result_capabilities", [{"user_name": name, "greeting": greeting}])
        steps = [
            ("step1", "Step 1: What is your name?", "name"),
            ("step2", "Step 2: What is your favorite color?", "color"),
        ]
        rounds = [
            {key: {"method": "elicitation/create", "params": self._question(q, field)}} for key, q, field in steps
        ]
        self._add_rounds("test_input_required_result_multi_round", rounds, stateful=True)

    @staticmethod
    def _question(message: str, field: str, kind: str = "string") -> Json:
        return form(message, required=[field], **{field: {"type": kind}})

    def _add_rounds(self, name: str, rounds: list[Json], *, stateful: bool = False) -> None:
        async def run(ctx: Context, params: types.CallToolRequestParams) -> Json:
            return self._next_round(ctx, params, rounds, stateful=stateful)

        self.add(name, run)

    def _next_round(self, ctx: Context, params: Any, rounds: list[Json], *, stateful: bool) -> Json:
        """Ask for what this round still lacks; the round stands in the signed state."""
        given = (ctx.params or {}).get("inputResponses") or {}
        number = self._opened(params.request_state) if params.request_state else 0
        wanted = self._answerable(ctx, rounds[number])
        if not all(self._usable(wanted[key], given.get(key)) for key in wanted):
            return self._input_required(wanted, number if stateful else None)
        if number + 1 < len(rounds):
            return self._input_required(rounds[number + 1], number + 1)
        said = "state-ok " if stateful else ""
        return answer(text(said + "Hello, " + json.dumps({key: given[key] for key in wanted}) + "!"))

    @staticmethod
    def _answerable(ctx: Context, requests: Json) -> Json:
        needs = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
        capabilities = ctx.session.client_capabilities
        possible = {k: r for k, r in requests.items() if getattr(capabilities, needs[r["method"]], None) is not None}
        return possible or requests

    @staticmethod
    def _usable(request: Json, response: Any) -> bool:
        keys = {"elicitation/create": "action", "sampling/createMessage": "content", "roots/list": "roots"}
        return isinstance(response, dict) and keys[request["method"]] in response

    def _input_required(self, requests: Json, number: int | None) -> Json:
        state = {} if number is None else {"requestState": self._sealed(number)}
        return {"resultType": "input_required", "inputRequests": requests, **state}

    def _sealed(self, number: int) -> str:
        return f"{number}." + hmac.new(self._key, str(number).encode(), hashlib.sha256).hexdigest()

    def _opened(self, state: str) -> int:
        number = state.partition(".")[0]
        if not number.isdecimal() or not hmac.compare_digest(state, self._sealed(int(number))):
            raise MCPError(types.INVALID_PARAMS, "The request state was altered")
        return int(number)

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool for tool, _ in self.tools.values()], ttl_ms=1000, cache_scope="public")

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        if params.name not in self.tools:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return finished(types.CallToolResult, await self.tools[params.name][1](ctx, params))

    # Resources

    async def _list_resources(self, ctx: Context, params: Any) -> Any:
        def entry(name: str, mime: str) -> Json:
            return {"uri": f"test://{name}", "name": name, "description": f"Tests: {name}.", "mimeType": mime}

        kinds = {"static-text": "text/plain", "static-binary": "image/png", "watched-resource": "text/plain"}
        resources = [entry(name, mime) for name, mime in kinds.items()]
        hints = {"ttlMs": 2000, "cacheScope": "public"}
        return finished(types.ListResourcesResult, {"resources": resources, **hints})

    async def _list_templates(self, ctx: Context, params: Any) -> Any:
        template = {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}
        templates = [{**template, "description": "Tests: a template."}]
        return finished(types.ListResourceTemplatesResult, {"resourceTemplates": templates})

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> Any:
        uri = str(params.uri)
        if uri == "test://static-text":
            content: Json = {"mimeType": "text/plain", "text": "This is the content of the static text resource."}
        elif uri == "test://static-binary":
            content = {"mimeType": "image/png", "blob": png()}
        elif uri == "test://watched-resource":
            content = {"mimeType": "text/plain", "text": "Watched."}
        elif (matched := UriTemplate.parse("test://template/{id}/data").match(uri)) is not None:
            data = {"id": matched["id"], "templateTest": True, "data": f"Data for ID: {matched['id']}"}
            content = {"mimeType": "application/json", "text": json.dumps(data)}
        else:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
        contents = [{"uri": uri, **content}]
        return finished(types.ReadResourceResult, {"contents": contents, "ttlMs": 3000, "cacheScope": "private"})

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self._subscribers.setdefault(str(params.uri), []).append(ctx)
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._subscribers.pop(str(params.uri), None)
        return types.EmptyResult()

    # Prompts, completion and the level of the log

    async def _list_prompts(self, ctx: Context, params: Any) -> Any:
        def entry(name: str, *arguments: str) -> Json:
            wanted = [{"name": argument, "required": True} for argument in arguments]
            return {"name": name, "description": f"Tests: {name}.", "arguments": wanted}

        prompts = [
            entry("test_simple_prompt"),
            entry("test_prompt_with_arguments", "arg1", "arg2"),
            entry("test_prompt_with_embedded_resource", "resourceUri"),
            entry("test_prompt_with_image"),
            entry("test_input_required_result_prompt"),
        ]
        return finished(types.ListPromptsResult, {"prompts": prompts})

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> Any:
        arguments = params.arguments or {}
        if params.name == "test_input_required_result_prompt":
            question = self._question("What context should the prompt use?", "context")
            wanted = {"user_context": {"method": "elicitation/create", "params": question}}
            round_ = self._next_round(ctx, params, [wanted], stateful=False)
            if "inputRequests" in round_:
                return round_
            blocks = round_["content"]
        elif params.name == "test_prompt_with_arguments":
            blocks = [text(f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'")]
        elif params.name == "test_prompt_with_embedded_resource":
            resource = embedded(arguments["resourceUri"], "text/plain", "Embedded resource content for testing.")
            blocks = [resource, text("Please process the embedded resource above.")]
        elif params.name == "test_prompt_with_image":
            blocks = [image(), text("Please analyze the image above.")]
        elif params.name == "test_simple_prompt":
            blocks = [text("This is a simple prompt for testing.")]
        else:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
        messages = [{"role": "user", "content": block} for block in blocks]
        return finished(types.GetPromptResult, {"messages": messages})

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> Any:
        values = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
        completion = {"values": values, "total": len(values), "hasMore": False}
        return finished(types.CompleteResult, {"completion": completion})

    async def _set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self._level = params.level
        return types.EmptyResult()


if __name__ == "__main__":
    asyncio.run((serve_http if "--http" in sys.argv else serve_stdio)(Everything().build()))
