"""Large messages in the `proxy` mode: they reach the client as they are, and are decoded nowhere on the event loop."""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.mcp.upstreams import Json, post, served
from tests.mcp.wire import wired

from sealyard.broker.upstreams.mcp import open_transport
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, StoreConfig
from sealyard.serve.relay import build_relay
from sealyard.values.tools import UpstreamConfig
from sealyard.yard import open_border

EMAIL = "w.featherstonehaugh@brindlecombe.org"
SERVER = f"""
import json, sys
EMAIL = {EMAIL!r}
def say(**message): print(json.dumps({{"jsonrpc": "2.0", **message}}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    number, method, params = asked.get("id"), asked.get("method"), asked.get("params") or {{}}
    if method == "initialize":
        greeting = {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}, "resources": {{}}}}}}
        say(id=number, result={{**greeting, "serverInfo": {{"name": "large", "version": "1"}}}})
    elif method == "tools/list":
        names = ["give", *(f"tool_{{i}}" for i in range(2000))]
        tools = [{{"name": name, "description": "x" * 50, "inputSchema": {{"type": "object"}}}} for name in names]
        say(id=number, result={{"tools": [*tools, {{"name": 5}}]}})
    elif method == "resources/list":
        say(id=number, result={{"resources": [{{"uri": f"crm://{{i}}/{{EMAIL}}", "name": "n"}} for i in range(3000)]}})
    elif method == "tools/call":
        kind = params["arguments"]["kind"]
        if kind == "blocks":
            blocks = [{{"type": "text", "text": f"file_{{i}}.txt"}} for i in range(20000)]
            say(id=number, result={{"content": [*blocks, {{"type": "text", "text": EMAIL}}], "_meta": {{"a/b": 1}}}})
        elif kind == "rows":
            rows = [{{"id": i, "email": EMAIL}} for i in range(20000)]
            say(id=number, result={{"content": [], "structuredContent": {{"rows": rows}}, "isError": False}})
        elif kind == "error":
            say(id=number, error={{"code": -32010, "message": "x" * 100000 + " " + EMAIL, "data": [EMAIL]}})
        elif kind == "log":
            say(method="notifications/message", params={{"level": "info", "data": "x" * 100000 + " " + EMAIL}})
            say(id=number, result={{"content": []}})
        elif kind == "ask":
            text = {{"type": "text", "text": "x" * 100000 + " " + EMAIL}}
            message = {{"role": "user", "content": text}}
            say(method="sampling/createMessage", id="own", params={{"messages": [message], "maxTokens": 9}})
            answer = json.loads(sys.stdin.readline())
            say(id=number, result={{"content": [{{"type": "text", "text": answer["result"]["content"]["text"]}}]}})
        else:
            say(id=number, result={{"content": [{{"type": "text", "text": str(len(params["arguments"]["x"]))}}]}})
    elif number is not None:
        say(id=number, error={{"code": -32601, "message": "no"}})
"""


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all that this process decodes with many signs of structure in it."""
    sizes: list[int] = []
    decode = msgspec.json.decode

    def note(data: Any, **options: Any) -> Any:
        size = len(data) if isinstance(data, str | bytes | bytearray) else len(memoryview(data))
        if "type" not in options and size > 256 << 10:
            sizes.append(size)
        return decode(data, **options)

    monkeypatch.setattr(msgspec.json, "decode", note)
    return sizes


async def ask(folder: Path, *kinds: str, mode: str = "strict", method: str = "tools/call") -> list[Json]:
    """The replies to calls of a modern client."""
    settings = Config(store=StoreConfig(path=folder / "sealyard.db"), privacy=PrivacyConfig(mode=mode))  # type: ignore[arg-type]
    upstream = UpstreamConfig(name="large", transport="stdio", command=sys.executable, args=("-c", SERVER))
    async with open_border(settings) as border:
        server = build_relay({"large": upstream}, border, connect=open_transport)
        async with served(server) as url:
            return [
                await post(url, method, {"name": "give", "arguments": {"kind": kind}} if method == "tools/call" else {})
                for kind in kinds
            ]


@pytest.mark.parametrize("mode", ["strict", "off"])
async def test_large_answers_arrive_whole_and_are_not_decoded_here(
    tmp_path: Path, mode: str, decoded: list[int]
) -> None:
    """With tokens in the place of what is private, and in the form that the client's version wants."""
    blocks, rows = await ask(tmp_path, "blocks", "rows", mode=mode)

    texts = [block["text"] for block in blocks["result"]["content"]]
    assert texts[:-1] == [f"file_{number}.txt" for number in range(20_000)]
    assert (texts[-1] == EMAIL) == (mode == "off")
    assert blocks["result"]["resultType"] == "complete"
    assert blocks["result"]["_meta"]["a/b"] == 1
    assert "io.modelcontextprotocol/serverInfo" in blocks["result"]["_meta"]
    assert len(rows["result"]["structuredContent"]["rows"]) == 20_000
    assert (EMAIL in json.dumps(rows)) == (mode == "off")
    assert decoded == []


async def test_large_error_keeps_its_code(tmp_path: Path) -> None:
    """Its words and data are looked through as those of a small one."""
    (reply,) = await ask(tmp_path, "error")

    assert reply["error"]["code"] == -32010
    assert reply["error"]["message"].startswith("x" * 100_000)
    assert EMAIL not in json.dumps(reply)


@pytest.mark.parametrize(
    ("method", "key", "count"), [("tools/list", "tools", 2001), ("resources/list", "resources", 3000)]
)
async def test_large_lists_arrive_without_what_is_malformed(
    tmp_path: Path, method: str, key: str, count: int, decoded: list[int]
) -> None:
    """One item after the other is looked at."""
    (reply,) = await ask(tmp_path, "", method=method)

    assert len(reply["result"][key]) == count
    assert EMAIL not in json.dumps(reply)
    assert decoded == []


async def test_large_questions_and_logs_reach_a_client_over_pipes(tmp_path: Path) -> None:
    """So do large answers; what a client sends with too many values is refused, and the next request is served."""
    async with wired(tmp_path, {"large": [sys.executable, "-c", SERVER]}, modern=False) as wire:
        wire.answers["sampling/createMessage"] = lambda params: {
            "role": "assistant",
            "model": "m",
            "content": {"type": "text", "text": str(len(params["messages"][0]["content"]["text"]) > 100_000)},
        }
        blocks = await wire.result("tools/call", {"name": "give", "arguments": {"kind": "blocks"}})
        await wire.result("tools/call", {"name": "give", "arguments": {"kind": "log"}})
        asked = await wire.result("tools/call", {"name": "give", "arguments": {"kind": "ask"}})
        many = {"name": "give", "arguments": {"kind": "", "x": [[] for _ in range(200_000)]}}
        refused = await wire.request("tools/call", many)
        counted = await wire.result("tools/call", {"name": "give", "arguments": {"kind": "", "x": "y" * 1_000_000}})

    assert len(blocks["content"]) == 20_001
    assert len(wire.notifications("notifications/message")[0]["data"]) > 100_000
    assert asked["content"][0]["text"] == "True"
    assert "more than 100,000 values" in refused["error"]["message"]
    assert counted["content"][0]["text"] == "1000000"
    assert EMAIL not in wire.text
