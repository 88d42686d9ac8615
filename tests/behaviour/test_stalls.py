"""Nothing that a guest, an upstream or a client sends holds up the others, or a deadline: refused, or looked at beside.

How long anything takes is measured by `benchmarks stalls`. Here whoever would be held up is let go on first.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.broker.upstreams.mcp import Upstream
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, StoreConfig
from sealyard.errors import InvalidRequest, SealyardError, ToolFailed, UpstreamError
from sealyard.offload import Offload
from sealyard.privacy.rules import Mode
from sealyard.sandbox import PoolOptions, open_sandbox
from sealyard.sandbox.policy import DEFAULT
from sealyard.testing import FakeUpstream
from sealyard.values.documents import MOST_NODES
from sealyard.values.runs import Limits
from sealyard.values.tools import UpstreamConfig
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
MAIL = "ottoline.fairweather@quillhaven.org"
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    number = json.dumps(asked.get("id"))
    match asked.get("method"):
        case "initialize":
            result = json.dumps({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                 "serverInfo": {"name": "s", "version": "1"}})
        case "tools/list":
            result = json.dumps({"tools": [{"name": "give", "inputSchema": {"type": "object"}}]})
        case "tools/call":
            result = asked["params"]["arguments"]["result"]
        case _:
            result = "{}"
    if asked.get("id") is not None:
        print('{"jsonrpc":"2.0","id":%s,"result":%s}' % (number, result), flush=True)
"""


def office() -> FakeUpstream:
    """A server that takes anything, gives private rows, and sends mails."""
    mails: list[str] = []

    def take(value: Any = None) -> str:
        """Take something."""
        return "taken"

    def rows(count: int) -> list[dict[str, Any]]:
        """Customers."""
        return [{"email": f"{number}.{MAIL}", "orders": number} for number in range(count)]

    def send(to: str) -> str:
        """Send a mail."""
        mails.append(to)
        return "sent"

    upstream = FakeUpstream("office", take=take, rows=rows, send=send)
    upstream.mails = mails  # type: ignore[attr-defined]
    return upstream


@contextlib.asynccontextmanager
async def opened(folder: Path, upstream: FakeUpstream, mode: Mode = "strict") -> AsyncIterator[Yard]:
    """A yard over one fake, with its store in `folder`."""
    config = Config(store=StoreConfig(path=folder / "sealyard.db"), privacy=PrivacyConfig(mode=mode))
    async with open_yard(config, policy=PLAIN, upstreams={upstream.name: upstream}) as yard:
        yield yard


async def run(yard: Yard, code: str, *, principal: str = "local", **more: Any) -> Any:
    """The outcome of code that can call the office."""
    request = ExecuteRequest(code=f"from servers.office import *\n{code}", **more)
    return (await yard.execute(request, principal=principal)).outcome


@contextlib.asynccontextmanager
async def held(yard: Yard, who: str) -> AsyncIterator[None]:
    """While all that `who` sends to be looked through has to wait."""
    assert yard.guards.offload is not None
    asked, release = asyncio.Event(), asyncio.Event()

    async def answer(question: Any) -> Any:
        asked.set()
        await release.wait()

    params = {"name": "c", "inputs": None, "output": None}
    work = yard.guards.offload.run("read_skill", params, b"from servers.a import b\nb()\n", who=who, on_query=answer)
    task = asyncio.create_task(work)
    await asked.wait()
    try:
        yield
    finally:
        release.set()
        await asyncio.gather(task, return_exceptions=True)


# Deadlines and others


async def test_a_deadline_ends_a_run_whose_arguments_are_being_looked_through(tmp_path: Path) -> None:
    """However long that takes: the run ends as one that ran out of time, and nothing was sent."""
    upstream = office()
    async with opened(tmp_path, upstream) as yard, held(yard, "mallory"):
        outcome = await run(yard, "take(value='a\\tb\\n' * 100_000)", principal="mallory", timeout_seconds=1)

    assert (outcome.status, outcome.failure.type) == ("timeout", "WallTimeExceeded")
    assert upstream.calls == []


@pytest.mark.behaviour("run.stalls")
async def test_others_go_on_while_something_is_looked_through(tmp_path: Path) -> None:
    """One principal's argument that takes for ever costs another's run nothing."""
    async with opened(tmp_path, office()) as yard, held(yard, "mallory"):
        code = "take(value='a\\tb\\n' * 100_000)"
        slow = asyncio.create_task(run(yard, code, principal="mallory", timeout_seconds=60))
        other = await run(yard, code, principal="anna")

        assert other.result == "taken"
        assert not slow.done()
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)


async def test_the_time_to_read_the_code_is_part_of_the_time_of_a_run(tmp_path: Path) -> None:
    """Code that is long to read is stopped earlier: whoever waits for the run waits no longer than it was given."""
    code = "x = 'a\\tb\\n'\n" * 1_000 + "while True: pass"
    async with opened(tmp_path, office()) as yard:
        async with held(yard, "mallory"):
            running = asyncio.create_task(run(yard, code, principal="mallory", timeout_seconds=4))
            await asyncio.wait({running}, timeout=0.5)
        outcome = await running

    assert (outcome.status, outcome.failure.type) == ("timeout", "WallTimeExceeded")
    assert outcome.failure.message.endswith("of its 4 s were over before it began.")


@pytest.mark.parametrize("what", ["code", "context"])
async def test_what_takes_longer_to_look_through_than_a_run_has_is_refused(tmp_path: Path, what: str) -> None:
    """Before anything is recorded or run."""
    long = "x = 'a\\tb\\n'\n" * 1_000
    given = {"code": long} if what == "code" else {"code": "1", "context": {"text": long}}
    async with opened(tmp_path, office()) as yard, held(yard, "mallory"):
        request = ExecuteRequest(timeout_seconds=1, **given)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="took longer than the 1 s that the run has"):
            await yard.execute(request, principal="mallory")
        kept = await yard.store.executions(limit=10)

    assert kept == []


async def test_a_run_that_was_stopped_is_told_of_although_its_output_cannot_be_looked_through(tmp_path: Path) -> None:
    """What it printed last is there, and a word about the rest."""
    code = "for n in range(5_000): print('line', n)\nwhile True: pass"
    async with opened(tmp_path, office()) as yard:
        await run(yard, "take()", principal="mallory")
        started = asyncio.create_task(run(yard, code, principal="mallory", timeout_seconds=1))
        while not yard.live.running(principal="mallory"):  # its code was looked through  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        async with held(yard, "mallory"):
            outcome = await started

    lines = outcome.output.splitlines()
    assert outcome.failure.type == "WallTimeExceeded"
    assert lines[0].startswith("… (left out: there was no time left")
    assert lines[-1] == "line 4999"


# Bounds


async def test_code_that_is_too_large_is_refused_before_anybody_reads_it(tmp_path: Path) -> None:
    """To run it, to assess it: nothing is recorded, and no helper is needed."""
    code = "a\tb\n" * 500_000
    async with opened(tmp_path, office()) as yard, held(yard, "local"):
        for refused in (yard.execute(ExecuteRequest(code=code)), yard.assess(code)):
            with pytest.raises(InvalidRequest, match="larger than 262,144 bytes"):
                await refused
        assert await yard.store.executions(limit=10) == []


async def test_arguments_with_too_many_values_are_refused(tmp_path: Path) -> None:
    """As an error in the code that made the call, which goes on."""
    upstream = office()
    async with opened(tmp_path, upstream) as yard:
        refused = await run(yard, "take(value=[[]] * 200_000)")
        allowed = await run(yard, "take(value=[['x'] * 100] * 500)")

    assert f"holds more than {MOST_NODES:,} values" in refused.failure.message
    assert allowed.result == "taken"
    assert [len(arguments["value"]) for _, arguments in upstream.calls] == [500]


@pytest.mark.parametrize("padding", [0, 200_000])
async def test_arguments_nested_deeper_than_code_can_write_them_are_refused(tmp_path: Path, padding: int) -> None:
    """In a frame that code writes itself, small or large: nothing is sent."""
    forge = f"""
import os, struct
body = b'{{"t":"call","id":77,"tool":"mcp__office__take","args":{{"value":["' + b"x" * {padding} + b'",'
body += b"[" * 300 + b"]" * 300 + b"]}}}}"
os.write(3, struct.pack("<I", len(body)) + body)
take(value="control")
"""
    upstream = office()
    async with opened(tmp_path, upstream) as yard:
        await run(yard, forge)

    assert [arguments["value"] for _, arguments in upstream.calls] == ["control"]


async def test_a_context_with_too_many_values_is_refused(tmp_path: Path) -> None:
    """Where it came in as data already, too."""
    async with opened(tmp_path, office()) as yard:
        with pytest.raises(InvalidRequest, match="The context holds more than 100,000 values"):
            await yard.execute(ExecuteRequest(code="1", context={"rows": [[] for _ in range(200_000)]}))


@pytest.mark.parametrize("size", [20_000, 200_000, 8_000_000])
async def test_a_forged_result_that_belongs_into_a_file_breaks_the_protocol(tmp_path: Path, size: int) -> None:
    """A worker that writes its last frame itself is not believed to have a small result."""
    forge = f"""
import os, struct
body = b'{{"t":"done","ok":true,"result":"' + b"x" * {size} + b'","cpu_seconds":0,"memory_peak_bytes":0}}'
body = struct.pack("<I", len(body)) + body
while body:
    body = body[os.write(3, body):]
"""
    async with opened(tmp_path, office()) as yard:
        forged = await run(yard, forge)
        honest = await run(yard, f"'x' * {size}")

    assert (forged.status, forged.failure.type) == ("broken", "ProtocolBroken")
    assert honest.ok
    assert honest.spill.bytes == size + 2


# Answers


async def call(result: str, **config: Any) -> Any:
    """What a server over stdio answers."""
    upstream = Upstream(
        UpstreamConfig(name="s", transport="stdio", command=sys.executable, args=("-c", SERVER), **config)
    )
    try:
        return await upstream.call("give", {"result": result}, timeout_seconds=30)
    finally:
        await upstream.close()


@pytest.mark.parametrize("levels", [1_000, 100_000])
async def test_an_answer_nested_too_deeply_is_an_error_at_once(tmp_path: Path, levels: int) -> None:
    """Nobody waits for a timeout of an answer that has come."""
    deep = "[" * levels + "]" * levels
    config = Config(
        store=StoreConfig(path=tmp_path / "sealyard.db"),
        upstreams={"s": UpstreamConfig(name="s", transport="stdio", command=sys.executable, args=("-c", SERVER))},
    )
    async with open_yard(config, with_sandbox=False) as yard:
        answered = await yard.call("mcp__s__give", {"result": json.dumps({"structuredContent": {"a": [[1]]}})})
        with pytest.raises((ToolFailed, UpstreamError), match=r"nested too deeply|levels deep"):
            await yard.call("mcp__s__give", {"result": '{"structuredContent":{"a":' + deep + "}}"})

    assert answered.value == {"a": [[1]]}


async def test_a_large_answer_over_a_wire_is_not_decoded_here(tmp_path: Path) -> None:
    """It comes as the message that it was, whoever the upstream is."""
    text = "lorem " * 50_000
    answer = await call(json.dumps({"content": [{"type": "text", "text": text}]}))
    small = await call(json.dumps({"content": [{"type": "text", "text": "lorem"}]}))
    forged = await call(json.dumps({"the whole message": "x", "structuredContent": {"a": 1}}))

    assert (answer.value, msgspec.json.decode(answer.message)["result"]["content"][0]["text"]) == (None, text)
    assert (small.value, small.message) == ("lorem", b"")
    assert (forged.value, forged.message) == ({"a": 1}, b"")


@pytest.mark.parametrize("mode", ["strict", "output", "off"])
async def test_a_large_answer_is_what_a_small_one_is(tmp_path: Path, mode: Mode) -> None:
    """Private values are tokens that lead back to them, in the mode that hides them."""
    upstream = office()
    code = "found = rows(count=5_000)\nsend(to=found[4_321]['email'])\nresult = [len(found), found[4_321]['email']]"
    async with opened(tmp_path, upstream, mode) as yard:
        outcome = await run(yard, code)
        (kept, *_) = await yard.store.calls(outcome.execution_id)

    assert outcome.ok
    assert outcome.result[0] == 5_000
    assert (MAIL in outcome.result[1]) is (mode == "off")
    assert upstream.mails == [f"4321.{MAIL}"]  # type: ignore[attr-defined]
    assert kept.answer is None
    assert kept.answer_bytes > 200_000


async def test_no_helper_is_left_when_a_yard_is_closed(tmp_path: Path) -> None:
    """Nor anything that it was asked."""
    async with opened(tmp_path, office()) as yard:
        await run(yard, "take(value='a\\tb\\n' * 10_000)")
    left = [
        each
        for each in Path("/proc").iterdir()
        if each.name.isdigit() and b"offload/child.py" in _command(each) and _parent(each) == os.getpid()
    ]

    assert left == []
    assert yard.guards.offload is not None
    with pytest.raises(SealyardError, match="closing"):
        await yard.guards.offload.run("document", None, b"[]", who="anna")


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


async def test_a_large_result_of_many_values_is_refused_and_not_decoded() -> None:
    """A megabyte of empty lists would take 60 ms of the event loop; a text of that size takes next to nothing."""
    offload = Offload()
    limits = Limits(inline_bytes=1 << 20)
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1)) as sandbox:
        dense = await sandbox.run("[[]] * 300_000", limits=limits, session="a", offload=offload)
        plain = await sandbox.run("'x' * 1_000_000", limits=limits, session="a", offload=offload)
    await offload.close()

    assert dense.failure is not None
    assert (dense.status, dense.failure.kind, dense.result) == ("failed", "result", None)
    assert dense.failure.message == (
        "The result holds more than 100,000 values. Send fewer, or one text that holds them."
    )
    assert (plain.status, plain.result) == ("ok", "x" * 1_000_000)
