"""The request path is short: few frames of our own, in few files, from the MCP handler to the upstream's `call`."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import AsyncGeneratorType, FrameType
from typing import Any, ClassVar

import mcp_types as types
import msgspec
import pytest
from mcp import Client
from mcp.server.lowlevel import Server
from tests.mcp.upstreams import config, gateway, memory

import sealyard
from sealyard.broker import FinishedCall, OpenCall
from sealyard.broker.upstreams import Response
from sealyard.config import Config
from sealyard.config.settings import StoreConfig
from sealyard.errors import ToolFailed
from sealyard.observe.recorder import Run, RunEnd, RunObserver
from sealyard.sandbox.policy import DEFAULT
from sealyard.sandbox.worker import Worker
from sealyard.serve.modes import Modes
from sealyard.testing import FakeUpstream
from sealyard.values.tools import Definition, ToolAnnotations
from sealyard.yard import ExecuteRequest, open_yard

MOST_FRAMES = 10
MOST_FILES = 6
PLAIN = msgspec.structs.replace(DEFAULT, packages=())
SRC = str(Path(sealyard.__file__).parent)

Frame = tuple[str, str]
"""A file of ours and a function in it."""


class Walk:
    """Follows one request through its tasks, as far as our own code goes."""

    def __init__(self) -> None:
        self.path: list[Frame] = []
        self._made: dict[asyncio.Task[Any], list[Frame]] = {}

    def install(self) -> None:
        """Remember from now on by which frames each task of this loop is made."""
        loop = asyncio.get_running_loop()

        def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> "asyncio.Task[Any]":
            task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
            self._made[task] = own(running(sys._getframe(1)))
            return task

        loop.set_task_factory(make)  # type: ignore[arg-type]

    def note(self, handler: Frame) -> None:
        """Note the way from the MCP handler to the caller: the parked request, what made this task, and this task."""
        here = own(running(sys._getframe(1)))
        task = asyncio.current_task()
        assert task is not None
        asked = [way for way in map(parked, asyncio.all_tasks() - {task}) if handler in way]
        assert len(asked) == 1
        self.path = [*asked[0], *self._made.get(task, []), *here]

    def check(self) -> None:
        """Fail if the way is longer than promised, and show it."""
        files = {file for file, _ in self.path}
        shown = "\n".join(f"{file} {name}" for file, name in self.path)
        assert self.path, "nothing was called"
        assert len(self.path) <= MOST_FRAMES, shown
        assert len(files) <= MOST_FILES, shown


def own(frames: Iterator[FrameType]) -> list[Frame]:
    """Those of our own, the outermost first."""
    found = [frame.f_code for frame in frames]
    return [
        (Path(code.co_filename).relative_to(SRC).as_posix(), code.co_name)
        for code in found
        if code.co_filename.startswith(SRC)
    ]


def running(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame that runs and those that called it, the outermost first."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return reversed(frames)


def parked(task: "asyncio.Task[Any]") -> list[Frame]:
    """The frames of a task that waits, the outermost first."""
    frames: list[FrameType] = []
    waits: Any = task.get_coro()
    while waits is not None:
        kind = next((each for each in ("cr", "gi", "ag") if hasattr(waits, f"{each}_frame")), None)
        if kind is None:  # a future, or the step of an asynchronous generator, which does not say of which
            waits = next((each for each in gc.get_referents(waits) if isinstance(each, AsyncGeneratorType)), None)
            continue
        frames.append(getattr(waits, f"{kind}_frame"))
        waits = getattr(waits, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
    return own(iter(frames))


@pytest.fixture
def walk() -> Walk:
    """A walk that nobody has taken yet."""
    return Walk()


@asynccontextmanager
async def agent(tmp_path: Path, walk: Walk) -> AsyncIterator[Client]:
    """A client of a gateway in this process, whose only upstream notes how it was reached."""

    class Noting(FakeUpstream):
        async def call(self, tool: str, arguments: dict[str, Any], **options: Any) -> Response:
            walk.note(("serve/mcp.py", "call_tool"))
            return await super().call(tool, arguments, **options)

    upstream = Noting("data", rows=lambda: [{"n": 1}, {"n": 2}])
    schema = {"type": "object", "properties": {}}
    upstream.definitions["rows"] = Definition(
        name="rows", description="Rows to work with.", input_schema=schema, annotations=ToolAnnotations(read_only=True)
    )
    settings = Config(store=StoreConfig(path=tmp_path / "sealyard.db"))
    walk.install()
    async with (
        open_yard(settings, policy=PLAIN, upstreams={"data": upstream}) as yard,
        Client(Modes(settings, "code").build_server(yard)) as client,
    ):
        yield client


@pytest.mark.behaviour("path.short")
async def test_code_reaches_a_tool_by_a_short_way(tmp_path: Path, walk: Walk) -> None:
    """`execute_code`, whose code calls a tool."""
    async with agent(tmp_path, walk) as client:
        answer = await client.call_tool("execute_code", {"code": "from servers.data import rows\nlen(rows())"})

    assert text_of(answer) == "2"
    walk.check()


async def test_analysis_reaches_a_tool_by_a_short_way(tmp_path: Path, walk: Walk) -> None:
    """`execute_analysis`, whose rows come from a tool."""
    asked = {
        "analysis_type": "filter",
        "source": {"tool": "mcp__data__rows", "arguments": {}},
        "parameters": {"conditions": [{"field": "n", "operator": ">", "value": 1}]},
    }
    async with agent(tmp_path, walk) as client:
        answer = await client.call_tool("execute_analysis", asked)

    assert '"n":2' in text_of(answer)
    walk.check()


async def test_rehearsal_reaches_a_tool_by_a_short_way(tmp_path: Path, walk: Walk) -> None:
    """`save_skill`, which runs the skill's example and asks a tool that changes nothing."""
    code = "from servers.data import rows\n\n\ndef count() -> int:\n    return len(rows())\n"
    asked = {"name": "count", "code": code, "description": "Count the rows.", "examples": [{"inputs": {}}]}
    async with agent(tmp_path, walk) as client:
        answer = await client.call_tool("save_skill", asked)

    assert '"status":"active"' in text_of(answer)
    walk.check()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_relayed_call_reaches_its_upstream_by_a_short_way(walk: Walk, mode: Any) -> None:
    """`proxy` mode in both eras: the upstream's `call` is the request on its link."""

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="ping", input_schema={"type": "object"})])

    async def call_tool(ctx: Any, params: Any) -> types.CallToolResult:
        walk.note(("serve/relay/server.py", "call_tool"))
        return types.CallToolResult(content=[types.TextContent(text="pong")])

    server: Server[Any] = Server("pings", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with gateway(lambda _: memory(server), config("pings")) as url, Client(url, mode=mode) as client:
        answer = await client.call_tool("ping", {})

    assert text_of(answer) == "pong"
    assert ("serve/relay/links.py", "request") in walk.path
    walk.check()


def text_of(answer: Any) -> str:
    """The text of a result."""
    return "".join(block.text for block in answer.content)


class Diary(RunObserver):
    """Writes down what an observer sees of a run."""

    pages: ClassVar[list[list[str]]] = []

    def __init__(self, run: Run) -> None:
        self._page = [f"{run.form} of {run.grant.principal}"]
        self.pages.append(self._page)

    def call_started(self, call: OpenCall) -> None:
        """Note the tool."""
        self._page.append(f"calls {call.spec.name}")

    def call_finished(self, call: FinishedCall) -> None:
        """Note what came of it."""
        self._page.append(f"{call.number}: {call.arguments} {call.failure or call.answer_bytes}")

    def ended(self, end: RunEnd) -> None:
        """Note the end."""
        self._page.append(f"{end.status}: {end.text}")


async def test_a_sink_of_ones_own_sees_every_form_of_execution(tmp_path: Path) -> None:
    """One class and one line: it gets each call once, and then the end."""
    Diary.pages.clear()

    def pay(amount: int) -> int:
        if amount > 100:
            raise ValueError("too much")
        return amount

    settings = Config(store=StoreConfig(path=tmp_path / "sealyard.db"))
    bank = FakeUpstream("bank", pay=pay)
    async with open_yard(settings, policy=PLAIN, upstreams={"bank": bank}, sinks=[Diary]) as yard:
        await yard.execute(ExecuteRequest(code="from servers.bank import pay\npay(amount=2)"))
        with pytest.raises(ToolFailed):
            await yard.call("mcp__bank__pay", {"amount": 200}, principal="alice")

    failure = "ToolFailed: ValueError: too much"
    assert Diary.pages == [
        ["code of local", "calls pay", "1: {'amount': 2} 1", "ok: 2"],
        ["call of alice", "calls pay", f"1: {{'amount': 200}} {failure}", f"failed: {failure}"],
    ]


@pytest.mark.behaviour("path.answer_first")
async def test_observers_see_calls_and_ends_after_they_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metrics, tokens, live views and learning cost the caller nothing; the journal and the audit log come first."""
    happened: list[str] = []

    class Slow(RunObserver):
        """Stands for every sink that keeps no durable record."""

        def __init__(self, run: Run) -> None:
            pass

        def call_finished(self, call: FinishedCall) -> None:
            happened.append("call observed")

        def ended(self, end: RunEnd) -> None:
            happened.append("end observed")

    class Durable(Slow):
        """Stands for the journal and the audit log."""

        is_durable = True

        def call_finished(self, call: FinishedCall) -> None:
            pass

        def ended(self, end: RunEnd) -> None:
            happened.append("end recorded")

    real_send = Worker._send

    def send(self: Worker, parts: list[bytes | memoryview]) -> None:
        real_send(self, parts)
        happened.append("call answered")

    monkeypatch.setattr(Worker, "_send", send)
    settings = Config(store=StoreConfig(path=tmp_path / "sealyard.db"))
    bank = FakeUpstream("bank", pay=lambda amount: amount)
    async with open_yard(settings, policy=PLAIN, upstreams={"bank": bank}, sinks=[Slow, Durable]) as yard:
        result = await yard.execute(ExecuteRequest(code="from servers.bank import pay\npay(amount=2)"))
        happened.append(f"answered {result.text}")
        await asyncio.sleep(0)

    assert happened == ["call answered", "call observed", "end recorded", "answered 2", "end observed"]


def test_only_journal_and_audit_log_are_recorded_before_the_answer() -> None:
    """A sink that would make the caller wait has to be added here, with its reason."""
    durable = {each.__name__ for each in subclasses(RunObserver) if each.is_durable and each.__module__ in OBSERVERS}

    assert durable == {"AuditSink", "JournalSink"}


OBSERVERS = ("sealyard.observe.sinks", "sealyard.observe.recorder", "sealyard.observe.sinks")


def subclasses(kind: type[RunObserver]) -> Iterator[type[RunObserver]]:
    """Every class below `kind`."""
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


async def test_the_record_of_a_call_cannot_be_changed_by_an_observer(tmp_path: Path) -> None:
    """All observers get the same record, so that none can falsify what the journal and the audit log write."""
    refused: list[str] = []

    class Forger(RunObserver):
        """Tries to change the record."""

        def __init__(self, run: Run) -> None:
            pass

        def call_finished(self, call: FinishedCall) -> None:
            try:
                call.number = 7  # type: ignore[misc]
            except AttributeError as error:
                refused.append(str(error))

    def pay(amount: int) -> int:
        return amount

    settings = Config(store=StoreConfig(path=tmp_path / "sealyard.db"))
    bank = FakeUpstream("bank", pay=pay)
    async with open_yard(settings, policy=PLAIN, upstreams={"bank": bank}, sinks=[Forger]) as yard:
        await yard.execute(ExecuteRequest(code="from servers.bank import pay\npay(amount=1)"))

    assert len(refused) == 1
