"""Clients and upstreams that send what is not quite JSON, or stop listening: nobody else hears of it, nobody hangs."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests import warm
from tests.conftest import _descendants

from sealyard.config.clients.documents import dump_toml

UPSTREAM = r"""
import json, os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
half = '"half \\ud83d"'
text = '{"type": "text", "text": %s}' % half
results = {
    "initialize": '{"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, '
    '"serverInfo": {"name": "u", "version": "1"}}',
    "tools/list": '{"tools": [{"name": "cut", "description": %s, "inputSchema": {"type": "object"}}, '
    '{"name": "fail", "inputSchema": {"type": "object"}}]}' % half,
    "cut": '{"content": [%s]}' % text,
    "fail": '{"isError": true, "content": [%s]}' % text,
}
for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params", {})
    token = params.get("_meta", {}).get("progressToken")
    if method == "tools/call" and token is not None:
        print('{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": %s, "progress": 1, '
              '"message": %s}}' % (json.dumps(token), half), flush=True)
    result = results.get(params.get("name", ""), results.get(method))
    answer = '"result": ' + result if result else '"error": {"code": -32601, "message": "no"}'
    if "id" in message:
        print('{"jsonrpc": "2.0", "id": %s, %s}' % (json.dumps(message["id"]), answer), flush=True)
"""
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


class Wire:
    """`sealyard serve`, spoken to in bytes."""

    def __init__(
        self, process: asyncio.subprocess.Process, listening: asyncio.StreamReader, ear: asyncio.BaseTransport
    ) -> None:
        self.process = process
        self.ear = ear
        self._listening = listening

    def send(self, line: bytes) -> None:
        """Write one line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")

    def ask(self, number: int, method: str, **params: Any) -> None:
        """Send a request."""
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())

    def call(self, number: int, tool: str, /, **arguments: Any) -> None:
        """Call a tool and ask for its progress."""
        self.ask(number, "tools/call", name=tool, arguments=arguments, _meta={"progressToken": number})

    async def hear(self) -> Any:
        """The next line; None at the end."""
        async with asyncio.timeout(60):
            line = await self._listening.readline()
        return json.loads(line) if line else None

    async def answer(self, number: int | None) -> Any:
        """The answer to a request; what comes before it is passed over."""
        while True:
            message = await self.hear()
            assert message is not None
            if "id" in message and message["id"] == number and "method" not in message:
                return message

    async def end(self) -> int:
        """The exit code."""
        async with asyncio.timeout(60):
            return await self.process.wait()


Serve = Callable[..., contextlib.AbstractAsyncContextManager[Wire]]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Starts a gateway over the upstream above."""

    @contextlib.asynccontextmanager
    async def start(mode: str = "code", *, is_warm: bool = True) -> AsyncIterator[Wire]:
        config = tmp_path / "sealyard.toml"
        document = {
            "upstreams": {"u": {"command": sys.executable, "args": ["-c", UPSTREAM]}},
            "surface": {"mode": mode, "direct": ["*"]},
            "sandbox": {"allow_weaker": True, "pool_size": 1, "data_packages": False},
            "store": {"path": str(tmp_path / "sealyard.db")},
        }
        config.write_text(dump_toml(document), encoding="utf-8")
        near, far = os.pipe()
        python = warm.python if is_warm else lambda *arguments: [sys.executable, *arguments]
        command = python("-m", "sealyard", "serve", str(config))
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=far, stderr=asyncio.subprocess.PIPE
        )
        os.close(far)
        listening = asyncio.StreamReader(limit=1 << 26)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(listening), os.fdopen(near, "rb", buffering=0)
        )
        wire = Wire(process, listening, transport)
        try:
            wire.ask(0, "initialize", **HELLO)
            await wire.answer(0)
            wire.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
            yield wire
        finally:
            transport.close()
            assert process.stdin is not None
            process.stdin.close()
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            await process.communicate()

    return start


def text_of(answer: Any) -> str:
    """The text of a tool's result."""
    text: str = answer["result"]["content"][0]["text"]
    return text


async def test_half_a_character_from_an_upstream_is_replaced_wherever_it_comes(serve: Serve) -> None:
    """A server that cuts a text within a character loses neither its tools nor its answer, nor anybody's connection."""
    async with serve() as wire:
        wire.call(1, "search_tools", query="half", detail_level="full")
        found = json.loads(text_of(await wire.answer(1)))["tools"]
        wire.call(2, "execute_code", code="from servers.u import cut\ncut()")
        progress = await wire.hear()
        value = text_of(await wire.answer(2))
        wire.call(3, "execute_code", code="from servers.u import fail\nfail()")
        error = text_of(await wire.answer(3))

    assert [hit["description"] for hit in found if hit["name"] == "mcp__u__cut"] == ["half \ufffd"]
    assert progress["params"]["message"] == "[1 half \ufffd]\n"
    assert value == "half \ufffd"
    assert error.startswith("ToolFailed: half \ufffd\n")


@pytest.mark.parametrize("mode", ["search", "hybrid", "proxy"])
async def test_half_a_character_ends_no_connection_in_the_other_modes(serve: Serve, mode: str) -> None:
    """Where an upstream's words go out as they are, they can be written."""
    tool, arguments = ("call_tool", {"name": "fail", "arguments": {}}) if mode == "search" else (None, {})
    async with serve(mode) as wire:
        wire.ask(1, "tools/list")
        names = [each["name"] for each in (await wire.answer(1))["result"]["tools"]]
        wire.call(2, tool or next(name for name in names if name.endswith("fail")), **arguments)
        failed = await wire.answer(2)
        wire.ask(3, "tools/list")
        again = [each["name"] for each in (await wire.answer(3))["result"]["tools"]]

    assert text_of(failed).endswith("half \ufffd")
    assert again == names


async def test_every_line_of_a_client_is_answered(serve: Serve) -> None:
    """Who sends half a character is understood; who sends no message is told so instead of being left to wait."""
    call = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "execute_code", "arguments": %s}}'
    async with serve() as wire:
        wire.send(call % b'{"code": "print(ascii(\'\\ud83d\'))"}')
        understood = text_of(await wire.answer(1))
        refused = []
        for line in (b"nonsense", b"\xff\xfe", b"[]", b'"text"', b"[" * 100_000, b'{"jsonrpc": "1.0", "id": 7}'):
            wire.send(line)
            message = await wire.hear()
            refused.append((message["id"], message["error"]["code"]))
        wire.ask(8, "tools/list")
        alive = await wire.answer(8)

    assert understood == "'\\ufffd'"
    assert refused == [(None, -32700), (None, -32700), (None, -32600), (None, -32600), (None, -32700), (7, -32600)]
    assert len(alive["result"]["tools"]) == 6


async def test_a_client_that_closed_its_ear_ends_the_gateway(serve: Serve) -> None:
    """Its standard input may still be open: nobody is left to answer to."""
    async with serve() as wire:
        wire.ear.close()
        wire.ask(1, "tools/list")

        assert await wire.end() == 0


async def test_a_client_that_closes_its_ear_and_says_nothing_ends_the_gateway(serve: Serve) -> None:
    """There is nothing to write, so no write fails."""
    async with serve() as wire:
        wire.ask(1, "tools/list")
        await wire.answer(1)
        wire.ear.close()

        assert await wire.end() == 0


async def test_a_message_without_end_ends_the_connection_and_says_so(serve: Serve) -> None:
    """More than 64 MiB in one line is not kept, and the operator can read why the gateway went away."""
    async with serve() as wire:
        assert wire.process.stdin is not None
        assert wire.process.stderr is not None
        with contextlib.suppress(ConnectionError):
            for _ in range(140):
                wire.process.stdin.write(b"a" * (1 << 20))
                await wire.process.stdin.drain()

        assert await wire.end() == 0
        assert "more than 67108864 bytes" in (await wire.process.stderr.read()).decode()


@pytest.mark.parametrize("how", ["input closed", "SIGTERM"])
async def test_an_end_in_mid_run_leaves_no_process(serve: Serve, how: str) -> None:
    """Neither the code that runs nor an upstream that ignores being asked to end outlives the gateway."""
    async with serve(is_warm=False) as wire:
        wire.call(1, "execute_code", code="from servers.u import cut\ncut()\nprint('runs')\nwhile True: pass")
        while "runs" not in json.dumps(await wire.hear()):
            pass
        below = _descendants(wire.process.pid)
        assert wire.process.stdin is not None
        if how == "SIGTERM":
            wire.process.send_signal(signal.SIGTERM)
        else:
            wire.process.stdin.close()

        assert await wire.end() == (143 if how == "SIGTERM" else 0)
        assert len(below) >= 3
        async with asyncio.timeout(60):
            while [pid for pid in below if Path(f"/proc/{pid}").exists()]:  # noqa: ASYNC110 - the kernel ends them
                await asyncio.sleep(0.02)
