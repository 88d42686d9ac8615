"""An MCP server that puts a person's data into everything it says, in both eras of the protocol.

`python -m tests.mcp.private_server FILE` speaks stdio and writes each thing it is told as a line of JSON to FILE.
"""

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from tests.mcp.everything_server import form, png, sampling, text
from tests.mcp.serving import serve_stdio

Context = ServerRequestContext[Any, Any]
Json = dict[str, Any]

PERSON = {
    "first_name": "Wilhelmina",
    "last_name": "Featherstonehaugh",
    "email": "w.featherstonehaugh@brindlecombe.org",
    "phone": "+44 20 7946 0958",
    "iban": "GB82WEST12345698765432",
    "card_number": "4539578763621486",
    "password": "corvid-lantern-88",
}
EMAIL = PERSON["email"]
WORDS = f"{PERSON['first_name']} {PERSON['last_name']} <{EMAIL}> called from {PERSON['phone']}."
URI = f"crm://people/{EMAIL}"
TOOLS = ("get_person", "send_mail", "forge", "fail", "refuse", "talk", "drop_everything")


def encoded(words: str, encoding: str = "utf-8") -> str:
    """Base64 of a text."""
    return base64.b64encode(words.encode(encoding)).decode()


def resource() -> Json:
    """A resource whose every field says whose it is."""
    return {"uri": URI, "name": EMAIL, "title": WORDS, "description": WORDS, "mimeType": "text/plain"}


class Private:
    """The server, and what it was told."""

    def __init__(self, told: Path) -> None:
        self._told = told

    def build(self) -> Server[Any]:
        """The server."""
        server: Server[Any] = Server(
            "private",
            version="1",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
            on_subscribe_resource=self._subscribe,
        )
        server.add_request_handler("crm/export", types.RequestParams, self._export)
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        return server

    def _hear(self, **told: Any) -> None:
        with self._told.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")

    async def _list_tools(self, ctx: Context, params: Any) -> types.ListToolsResult:
        schema = {"type": "object", "properties": {"to": {"type": "string"}, "number": {"type": "integer"}}}
        tools = [types.Tool(name=name, description=name, input_schema=schema) for name in TOOLS]
        return types.ListToolsResult(tools=tools, ttl_ms=1000, cache_scope="public")

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        self._hear(tool=params.name, arguments=params.arguments)
        if params.name == "talk":
            return await self._talk(ctx, params)
        if params.name == "refuse":
            raise MCPError(-32010, f"No such person: {WORDS}", {"person": PERSON, "uri": URI, "note": WORDS})
        result: Json = {"content": [text(f"Nobody answers at {EMAIL}")], "isError": True}
        if params.name == "get_person":
            result = self._everything()
        elif params.name == "send_mail":
            result = {"content": [text(f"Sent to {(params.arguments or {}).get('to')}.")]}
        elif params.name == "forge":
            result = {"content": [text(f"__PII_email_{(params.arguments or {})['to']}__")]}
        return types.CallToolResult.model_validate(result)

    def _everything(self) -> Json:
        contents = {"uri": URI, "mimeType": "text/plain", "text": WORDS, "_meta": {"example/owner": EMAIL}}
        blob = {"uri": URI, "mimeType": "text/csv", "blob": encoded(f"email,phone\n{EMAIL},{PERSON['phone']}\n")}
        blocks = [
            {**text(json.dumps(PERSON)), "_meta": {"example/source": WORDS}},
            text(WORDS),
            {"type": "resource", "resource": contents},
            {"type": "resource", "resource": blob},
            {"type": "resource", "resource": {"uri": "crm://wide", "blob": encoded(WORDS, "utf-16")}},
            {"type": "resource_link", **resource()},
            {"type": "image", "data": png(), "mimeType": "image/png", "annotations": {"audience": ["user"]}},
        ]
        return {"content": blocks, "structuredContent": PERSON, "_meta": {"example/for": {"email": EMAIL}}}

    async def _talk(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        note = types.LoggingMessageNotificationParams(level="info", logger=EMAIL, data={"person": PERSON, "t": WORDS})
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS or (ctx.meta or {}).get(types.LOG_LEVEL_META_KEY):
            await ctx.session.send_notification(types.LoggingMessageNotification(params=note), ctx.request_id)
        await ctx.session.report_progress(1, 2, WORDS)
        address = {"type": "string", "default": EMAIL, "description": WORDS}
        asked = form(f"Is this you? {WORDS}", required=["address"], address=address)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            given = (ctx.params or {}).get("inputResponses")
            if given is None:
                model = {"method": "sampling/createMessage", "params": sampling(WORDS, tokens=9)}
                requests = {"form": {"method": "elicitation/create", "params": asked}, "model": model}
                return {"resultType": "input_required", "inputRequests": requests, "requestState": "begun"}
            answers = given
        else:
            related = ServerMessageMetadata(related_request_id=ctx.request_id)
            question = types.ElicitRequest.model_validate({"params": asked})
            model_question = types.CreateMessageRequest.model_validate({"params": sampling(WORDS, tokens=9)})
            form_reply = await ctx.session.send_request(question, types.ElicitResult, metadata=related)
            model_reply = await ctx.session.send_request(model_question, types.CreateMessageResult, metadata=related)
            answers = {"form": form_reply.model_dump(), "model": model_reply.model_dump()}
        self._hear(address=answers["form"]["content"]["address"], model=answers["model"]["content"]["text"])
        return types.CallToolResult(content=[types.TextContent(text=f"Thank you, {WORDS}")])

    async def _list_resources(self, ctx: Context, params: Any) -> types.ListResourcesResult:
        listed = {"resources": [resource()], "ttlMs": 1000, "cacheScope": "public"}
        return types.ListResourcesResult.model_validate(listed)

    async def _list_templates(self, ctx: Context, params: Any) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(uri_template="crm://people/{email}", name="person")
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        self._hear(uri=uri)
        if uri.endswith("nobody"):
            raise MCPError(types.INVALID_PARAMS, f"Not found: {uri}, ask {EMAIL}", {"uri": uri, "ask": EMAIL})
        contents = [{"uri": uri, "text": WORDS}, {"uri": uri, "blob": encoded(WORDS)}, {"uri": uri, "blob": png()}]
        return types.ReadResourceResult.model_validate({"contents": contents})

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self._hear(subscribed=str(params.uri))
        await ctx.session.send_resource_updated(str(params.uri))
        return types.EmptyResult()

    async def _list_prompts(self, ctx: Context, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name="write")])

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        self._hear(prompt=params.arguments)
        blocks = [text(WORDS), {"type": "resource", "resource": {"uri": URI, "text": json.dumps(PERSON)}}]
        messages = [{"role": "user", "content": block} for block in blocks]
        return types.GetPromptResult.model_validate({"description": WORDS, "messages": messages})

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        self._hear(completing=params.argument.value)
        return types.CompleteResult(completion=types.Completion(values=[EMAIL, PERSON["phone"]], total=2))

    async def _export(self, ctx: Context, params: Any) -> Json:
        self._hear(export=(ctx.params or {}).get("person"))
        return {"people": [PERSON], "words": WORDS, "count": 1}

    async def _set_level(self, ctx: Context, params: Any) -> types.EmptyResult:
        return types.EmptyResult()


if __name__ == "__main__":
    asyncio.run(serve_stdio(Private(Path(sys.argv[1])).build()))
