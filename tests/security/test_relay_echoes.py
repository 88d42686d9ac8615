"""A server behind the `proxy` mode copies what it was handed into every place that a message has, one at a time."""

import base64
import copy
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from tests.mcp.upstreams import Json, config, post, served

from sealyard.config import Config
from sealyard.config.settings import StoreConfig
from sealyard.privacy import TOKEN
from sealyard.serve.relay import build_relay
from sealyard.serve.relay.border import Screen
from sealyard.serve.relay.routes import Routes
from sealyard.yard import open_border

SECRET = "w.featherstonehaugh@brindlecombe.org"
TRICKS: dict[str, Callable[[str], str]] = {
    "glued": lambda text: f"zz{text}zz",
    "in base64": lambda text: base64.b64encode(f"ab{text}z".encode()).decode(),
    "in capitals": str.upper,
}

META: Json = {
    "example/x": "y",
    "progressToken": "p",
    "io.modelcontextprotocol/serverInfo": {"name": "n", "version": "1"},
}
ICONS = [{"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["48x48"]}]
NOTES: Json = {"audience": ["user"], "priority": 1, "lastModified": "2025-01-12T15:00:58Z"}
SCHEMA: Json = {
    "type": "object",
    "properties": {"amount": {"type": "integer", "title": "A", "description": "D", "enum": ["x"], "enumNames": ["X"]}},
    "required": ["amount"],
}
RESOURCE: Json = {
    "uri": "crm://x/y",
    "name": "n",
    "title": "t",
    "description": "d",
    "mimeType": "text/plain",
    "size": 5,
    "icons": ICONS,
    "annotations": NOTES,
    "_meta": META,
}
BLOCKS: list[Json] = [
    {"type": "text", "text": "x", "annotations": NOTES, "_meta": META},
    {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "crm://x", "mimeType": "text/plain", "text": "x", "_meta": META}},
    {"type": "resource", "resource": {"uri": "crm://x", "mimeType": "text/plain", "blob": "AAAA"}},
    {"type": "resource_link", **RESOURCE},
    {"type": "tool_use", "id": "1", "name": "n", "input": {"a": "b"}},
    {
        "type": "tool_result",
        "toolUseId": "1",
        "content": [{"type": "text", "text": "x"}],
        "structuredContent": {"a": "b"},
    },
    {"type": "invented", "anything": "x"},
]
SAMPLING: Json = {
    "messages": [{"role": "user", "content": BLOCKS, "_meta": META}],
    "systemPrompt": "s",
    "includeContext": "none",
    "temperature": 0.5,
    "maxTokens": 9,
    "stopSequences": ["stop"],
    "modelPreferences": {"hints": [{"name": "m"}], "costPriority": 0.1},
    "metadata": {"a": "b"},
    "tools": [{"name": "n", "description": "d", "inputSchema": SCHEMA}],
    "toolChoice": {"mode": "auto"},
    "_meta": META,
}
FORM: Json = {"message": "m", "requestedSchema": SCHEMA, "mode": "form", "_meta": META}
URL: Json = {"message": "m", "mode": "url", "url": "https://example.org/pay", "elicitationId": "e"}
PAGE: Json = {"nextCursor": "c", "ttlMs": 5, "cacheScope": "public", "resultType": "complete", "_meta": META}
RESULTS: dict[str, Json] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": True}, "experimental": {"x": {"y": "z"}}},
        "serverInfo": {"name": "n", "title": "t", "version": "1", "websiteUrl": "https://example.org", "icons": ICONS},
        "instructions": "i",
    },
    "server/discover": {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "n", "version": "1"},
        "instructions": "i",
        **PAGE,
    },
    "tools/list": {
        "tools": [
            {
                "name": "n",
                "title": "t",
                "description": "d",
                "inputSchema": SCHEMA,
                "outputSchema": SCHEMA,
                "annotations": {"title": "t", "readOnlyHint": True},
                "icons": ICONS,
                "execution": {"taskSupport": "forbidden"},
                "_meta": META,
            }
        ],
        **PAGE,
    },
    "tools/call": {
        "content": BLOCKS,
        "structuredContent": {"a": ["b"]},
        "isError": False,
        "requestState": "s",
        "inputRequests": {
            "k": {"method": "elicitation/create", "params": FORM},
            "u": {"method": "elicitation/create", "params": URL},
            "m": {"method": "sampling/createMessage", "params": SAMPLING},
            "r": {"method": "roots/list", "params": {}},
        },
        **PAGE,
    },
    "resources/list": {"resources": [RESOURCE], **PAGE},
    "resources/templates/list": {
        "resourceTemplates": [{"uriTemplate": "crm://{x}", **{k: v for k, v in RESOURCE.items() if k != "uri"}}],
        **PAGE,
    },
    "resources/read": {
        "contents": [
            {"uri": "crm://x", "mimeType": "text/plain", "text": "x", "_meta": META},
            {"uri": "crm://x", "mimeType": "text/plain", "blob": "AAAA"},
        ],
        **PAGE,
    },
    "prompts/list": {
        "prompts": [
            {
                "name": "n",
                "title": "t",
                "description": "d",
                "arguments": [{"name": "a", "title": "t", "description": "d", "required": True}],
                "icons": ICONS,
                "_meta": META,
            }
        ],
        **PAGE,
    },
    "prompts/get": {"description": "d", "messages": [{"role": "user", "content": BLOCKS[0]}], **PAGE},
    "completion/complete": {"completion": {"values": ["v"], "total": 1, "hasMore": False}, **PAGE},
    "resources/subscribe": {"_meta": META},
    "crm/export": {"anything": ["x", {"y": "z"}]},
}
NOTIFICATIONS: dict[str, Json] = {
    "notifications/message": {"level": "info", "logger": "l", "data": {"a": ["b"]}, "_meta": META},
    "notifications/resources/updated": {"uri": "crm://x", "_meta": META},
    "notifications/resources/list_changed": {"_meta": META},
    "notifications/elicitation/complete": {"elicitationId": "e"},
    "notifications/subscriptions/acknowledged": {"notifications": {"resourceSubscriptions": ["crm://x"]}},
    "notifications/invented": {"x": "y"},
}
REQUESTS: dict[str, Json] = {
    "sampling/createMessage": SAMPLING,
    "elicitation/create": FORM,
    "roots/list": {"_meta": META},
    "invented/request": {"x": "y"},
}


def planted(value: Any, word: str) -> Iterator[tuple[str, Any]]:
    """The value with the word in the place of one string, number or key, for each of them, and where that is."""
    if isinstance(value, dict):
        for key in value:
            yield f"key {key}", {word if name == key else name: item for name, item in value.items()}
            for at, made in planted(value[key], word):
                yield f"{key}.{at}", {**value, key: made}
    elif isinstance(value, list):
        for number, item in enumerate(value):
            for at, made in planted(item, word):
                yield f"{number}.{at}", [*value[:number], made, *value[number + 1 :]]
    elif not isinstance(value, bool):
        yield "value", word


@asynccontextmanager
async def screened(folder: Path) -> AsyncIterator[Screen]:
    """A screen of which an upstream was just handed the secret."""
    settings = Config(store=StoreConfig(path=folder / "sealyard.db"))
    upstreams = {"crm": config("crm")}
    async with open_border(settings) as border:
        screen = Screen(border.guards, Routes(upstreams), "local")
        await screen.refresh()
        shown = await screen.result("crm", "tools/call", {"name": "n"}, {"structuredContent": {"email": SECRET}})
        token = shown["structuredContent"]["email"]
        with screen.sending():
            given = await screen.arguments(Routes(upstreams).bare_spec("crm", "n"), {"to": token})
            assert given == {"to": SECRET}
            yield screen


def leaks(shown: Any, word: str) -> bool:
    """Whether the word can be read in what is shown."""
    text = json.dumps(shown, ensure_ascii=False)
    return word in text or SECRET.lower() in text.lower()


@pytest.mark.parametrize("trick", TRICKS)
async def test_no_place_in_any_message_shows_what_was_handed_over(tmp_path: Path, trick: str) -> None:
    """Every string, number and key of every kind of message, in each place by itself."""
    word = TRICKS[trick](SECRET)
    found: list[str] = []
    places = 0
    async with screened(tmp_path) as screen:
        kinds: list[tuple[str, dict[str, Json], Callable[[str, Json], Any]]] = [
            ("result", RESULTS, lambda method, made: _result(screen, method, made)),
            ("notification", NOTIFICATIONS, lambda method, made: screen.notification("crm", method, made)),
            ("request", REQUESTS, lambda method, made: screen.request("crm", method, made)),
        ]
        for kind, examples, show in kinds:
            for method, example in examples.items():
                before = copy.deepcopy(example)
                for at, made in planted(example, word):
                    places += 1
                    if leaks(await show(method, made), word):
                        found.append(f"{kind} {method}: {at}")
                assert example == before
        for at, made in planted({"data": {"uri": "crm://x", "elicitations": [FORM, URL], "supported": ["v"]}}, word):
            error = await screen.error("crm", MCPError(-32010, "m", made.get("data", made)))
            found += [f"error: {at}"] if leaks([error.message, error.data], word) else []
        error = await screen.error("crm", MCPError(-32010, word))
        found += ["error: message"] if leaks(error.message, word) else []

    assert found == []
    assert places > 500


async def _result(screen: Screen, method: str, made: Json) -> Json:
    shown = await screen.result("crm", method, {"name": "n"}, made)
    return await screen.resources("crm", shown) if method == "resources/list" else shown


async def test_messages_that_repeat_nothing_stay_as_they_are(tmp_path: Path) -> None:
    """What holds neither a value nor an echo passes unchanged, whatever was handed over."""
    async with screened(tmp_path) as screen:
        shown = [
            *[await _result(screen, method, example) == example for method, example in RESULTS.items()],
            *[await screen.notification("crm", each, made) == made for each, made in NOTIFICATIONS.items()],
            *[await screen.request("crm", method, example) == example for method, example in REQUESTS.items()],
        ]

    assert shown == [True] * len(shown)


async def test_number_that_was_handed_over_is_no_code_and_no_progress(tmp_path: Path) -> None:
    """An error keeps its message under another code; a report with such a number is not passed on."""
    card = 4539578763621486
    async with screened(tmp_path) as screen:
        said = {"structuredContent": {"card_number": str(card)}}
        token = (await screen.result("crm", "tools/call", {"name": "n"}, said))["structuredContent"]["card_number"]
        await screen.arguments(Routes({"crm": config("crm")}).bare_spec("crm", "n"), {"to": token})
        error = await screen.error("crm", MCPError(card, "No."))
        told = [
            await screen.may_report("crm", *numbers)
            for numbers in ((float(card), None), (1.0, float(card)), (1.0, 2.0))
        ]

    assert (error.code, error.message) == (types.INTERNAL_ERROR, "No.")
    assert told == [False, False, True]


# What comes back


@asynccontextmanager
async def copying(heard: list[Json]) -> AsyncIterator[tuple[Any, Any]]:
    """A modern upstream whose cursor, state, keys and names hold what it was handed."""
    async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as tasks:
        hears, says = theirs
        word = ""

        async def serve() -> None:
            nonlocal word
            async for item in hears:
                request = item.message
                if not isinstance(request, types.JSONRPCRequest):
                    continue
                params = {key: value for key, value in (request.params or {}).items() if key != "_meta"}
                heard.append({"method": request.method, **params})
                if isinstance(to := (params.get("arguments") or {}).get("to"), str):
                    word = f"zz{to}zz"
                result = _copied(request.method, params, word)
                await says.send(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=result)))

        tasks.start_soon(serve)
        try:
            yield ours
        finally:
            tasks.cancel_scope.cancel()


def _copied(method: str, params: Json, word: str) -> Json:
    done = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "prompts": {}}, **done}
    if method == "tools/list":
        named = [{"name": word, "inputSchema": {"type": "object"}}] if word else []
        tools = [{"name": "send", "inputSchema": {"type": "object"}}, *named]
        return {"tools": tools, **({"nextCursor": word} if word and "cursor" not in params else {}), **done}
    if params.get("name") == "send" and "inputResponses" not in params:
        if params["arguments"].get("asks"):
            schema = {"type": "object", "properties": {word: {"type": "string"}}, "required": [word]}
            form = {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": schema}}
            return {"resultType": "input_required", "inputRequests": {word: form}, "requestState": word}
        return {"content": [], "structuredContent": {"email": SECRET}, **done}
    return {"content": [], **done}


@pytest.mark.parametrize("names", [["crm"], ["crm", "erp"]], ids=["one upstream", "several"])
async def test_what_an_upstream_wants_back_leads_back_to_it(tmp_path: Path, names: list[str]) -> None:
    """A cursor, a state, the keys of questions and of a form, and a tool's name are tokens for the client only."""
    heard: list[Json] = []
    others: list[Json] = []
    settings = Config(store=StoreConfig(path=tmp_path / "sealyard.db"))
    send = "send" if len(names) == 1 else "mcp__crm__send"
    async with open_border(settings) as border:
        upstreams = {name: config(name) for name in names}
        server = build_relay(upstreams, border, connect=lambda one: copying(heard if one.name == "crm" else others))
        async with served(server) as url:

            async def ask(method: str, **params: Any) -> Json:
                reply = await post(url, method, params, capabilities={"elicitation": {}})
                assert "result" in reply, reply
                replies.append(reply)
                result: Json = reply["result"]
                return result

            replies: list[Json] = []
            token = (await ask("tools/call", name=send, arguments={}))["structuredContent"]["email"]
            asked = await ask("tools/call", name=send, arguments={"to": token, "asks": True})
            ((key, question),) = asked["inputRequests"].items()
            ((field, _),) = question["params"]["requestedSchema"]["properties"].items()
            answer = {key: {"action": "accept", "content": {field: "x"}}}
            await ask(
                "tools/call",
                name=send,
                arguments={"to": token, "asks": True},
                inputResponses=answer,
                requestState=asked["requestState"],
            )
            first = await ask("tools/list")
            await ask("tools/list", cursor=first["nextCursor"])
            await ask("tools/call", name=first["tools"][-1]["name"], arguments={})

    word = f"zz{SECRET}zz"
    assert question["params"]["requestedSchema"]["required"] == [field]
    assert TOKEN.fullmatch(asked["requestState"]) is not None
    assert [reply for reply in replies if leaks(reply, word)] == []
    assert {"method": "tools/list", "cursor": word} in heard
    assert heard[-1] == {"method": "tools/call", "name": word, "arguments": {}}
    answered = [each for each in heard if "inputResponses" in each]
    assert [each["inputResponses"] for each in answered] == [{word: {"action": "accept", "content": {word: "x"}}}]
    assert [each["requestState"] for each in answered] == [word]


async def test_upstream_cannot_have_a_token_revealed_by_wanting_it_back(tmp_path: Path) -> None:
    """A true token that it sends as a cursor or a state comes back as that text, and not as the value."""
    async with screened(tmp_path) as screen:
        said = {"structuredContent": {"email": SECRET}}
        token = (await screen.result("crm", "tools/call", {"name": "n"}, said))["structuredContent"]["email"]
        page = await screen.result("crm", "tools/list", {}, {"tools": [], "nextCursor": token})
        sent = await screen.handles({"cursor": page["nextCursor"]})

    assert page["nextCursor"] != token
    assert sent == {"cursor": token}
