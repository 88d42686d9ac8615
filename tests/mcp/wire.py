"""`sealyard serve` as a process, and a client that speaks JSON over its standard input and output, line by line.

The client keeps every line it got: what is in none of them did not reach it.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
from tests import warm
from tests.mcp.peers import ROOT

from sealyard.config.clients.documents import dump_toml

Json = dict[str, Any]
Answer = Callable[[Json], Json]

WAIT_SECONDS = 60
_CAPABILITIES: Json = {"elicitation": {}, "sampling": {}}
_CLIENT = {"name": "wire", "version": "1"}


class Wire:
    """One client. `answers` say what it tells an upstream that asks, by the method of the question."""

    def __init__(self, process: asyncio.subprocess.Process, *, modern: bool) -> None:
        self.modern = modern
        self.lines: list[str] = []
        self.answers: dict[str, Answer] = {}
        self._process = process
        self._number = 0

    @property
    def text(self) -> str:
        """All that reached the client, as JSON spells it without escapes."""
        return "\n".join(json.dumps(json.loads(line), ensure_ascii=False) for line in self.lines)

    def notifications(self, method: str) -> list[Json]:
        """The parameters of every notification of that method."""
        messages = map(json.loads, self.lines)
        return [message["params"] for message in messages if message.get("method") == method and "id" not in message]

    async def greet(self) -> None:
        """Introduce the client, as its era wants it."""
        if not self.modern:
            hello = {"protocolVersion": "2025-11-25", "capabilities": _CAPABILITIES, "clientInfo": _CLIENT}
            await self.request("initialize", hello)
            await self._send({"method": "notifications/initialized"})

    async def result(self, method: str, params: Json | None = None) -> Json:
        """The result of a request; rounds that ask for something are answered."""
        params = params or {}
        while True:
            reply = await self.request(method, params)
            assert "result" in reply, reply
            result: Json = reply["result"]
            if result.get("resultType") != "input_required":
                return result
            given = {key: self.answers[one["method"]](one["params"]) for key, one in result["inputRequests"].items()}
            params = {**params, "inputResponses": given, "requestState": result["requestState"]}

    async def request(self, method: str, params: Json | None = None) -> Json:
        """The reply to a request; what the gateway asks meanwhile is answered."""
        self._number += 1
        number = self._number
        meta: Json = {"progressToken": number}
        if self.modern:
            meta |= {
                types.PROTOCOL_VERSION_META_KEY: "2026-07-28",
                types.CLIENT_INFO_META_KEY: _CLIENT,
                types.CLIENT_CAPABILITIES_META_KEY: _CAPABILITIES,
                types.LOG_LEVEL_META_KEY: "debug",
            }
        await self._send({"id": number, "method": method, "params": {**(params or {}), "_meta": meta}})
        while True:
            message = await self._receive()
            if "method" in message and "id" in message:
                await self._send({"id": message["id"], "result": self.answers[message["method"]](message["params"])})
            elif message.get("id") == number:
                return message

    async def _send(self, message: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await self._process.stdin.drain()

    async def _receive(self) -> Json:
        assert self._process.stdout is not None
        async with asyncio.timeout(WAIT_SECONDS):
            line = await self._process.stdout.readline()
        self.lines.append(line.decode())
        message: Json = json.loads(line)
        return message


@contextlib.asynccontextmanager
async def wired(folder: Path, upstreams: dict[str, list[str]], *, modern: bool, **tables: Any) -> AsyncIterator[Wire]:
    """A client of a gateway in proxy mode over these upstreams; `tables` are further ones of its config."""
    config = write_config(folder, upstreams, **tables)
    process = await asyncio.create_subprocess_exec(
        *warm.python("-m", "sealyard", "serve", str(config), "--mode", "proxy"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        limit=1 << 26,
    )
    try:
        wire = Wire(process, modern=modern)
        await wire.greet()
        yield wire
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(WAIT_SECONDS):
            await process.wait()


@contextlib.asynccontextmanager
async def serving_http(
    folder: Path, upstreams: dict[str, list[str]], environment: dict[str, str], **tables: Any
) -> AsyncIterator[str]:
    """The URL of such a gateway over HTTP."""
    config = write_config(folder, upstreams, **tables)
    process = await asyncio.create_subprocess_exec(
        *warm.python("-m", "sealyard", "serve", str(config), "--mode", "proxy", "--http", "127.0.0.1:0"),
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd=ROOT,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            line = (await process.stderr.readline()).decode()
            found = re.search(r"at (http://\S+)", line)
            assert found is not None, line
        yield found[1]
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(WAIT_SECONDS):
            await process.communicate()


def write_config(folder: Path, upstreams: dict[str, list[str]], **tables: Any) -> Path:
    """A config of these upstreams and tables, in the folder, where its store is too."""
    path = folder / "sealyard.toml"
    servers = {
        name: {"command": command[0], "args": command[1:], "cwd": str(ROOT)} for name, command in upstreams.items()
    }
    store = {"path": str(folder / "store" / "sealyard.db")}
    path.write_text(dump_toml({"upstreams": servers, "store": store, **tables}), encoding="utf-8")
    return path
