"""The ways to the tools of all suites: plain MCP, the gateway in several settings, and FastMCP's code mode.

Each has servers of its own, and beside them a socket to each server that chooses tasks and asks for judgements. No
agent has that.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from benchmarks.tasks.scripts import Call
from benchmarks.tasks.talks import Policy, Scene, Talk
from benchmarks.yardsticks import text_of
from sealyard.broker.policy import PolicySettings, Preset
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, PrivacyMode, PrivacyRule, SandboxConfig, StoreConfig
from sealyard.metrics import tokens
from sealyard.privacy import TOKEN
from sealyard.sandbox.policy import DEFAULT
from sealyard.serve.mcp import build_server
from sealyard.values.access import Approval, ApprovalDecision
from sealyard.values.tools import UpstreamConfig
from sealyard.yard import Yard, open_yard

SUITES = ("workspace", "travel", "banking", "slack")
"""By their names in the package."""
PYTHON = Path(__file__).parents[2] / ".venv" / "tasks" / "bin" / "python"
_PROGRAM = Path(__file__).with_name("dojo.py")
_RESULT_TOKENS = 50_000  # so that nothing is cut where a script returns all that it read
_POLL_SECONDS = 0.02  # of who answers asks; a run waits for it meanwhile
_LINE_BYTES = 1 << 24  # of what a suite tells the harness: a world has some kilobytes
# Tools that take prose, and the addresses of pages with people's names in them. The others are left as by default.
_TEXTS = (
    *("append_to_file", "create_calendar_event", "create_file", "get_webpage", "post_webpage"),
    *("send_channel_message", "send_direct_message", "send_email"),
)
_INSIDE = PrivacyRule(tools=tuple(f"*/{name}" for name in _TEXTS), reveal="inside")
# The ground truth asks for the address of one hotel and its answer has that of another.
_CORRECTED = {("travel", "user_task_5"): (3, {"hotel_name": "Cozy Stay"})}

_RIVAL = r"""
import asyncio, contextlib, json, sys
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server import create_proxy

async def main():
    server = FastMCP("rival", transforms=[CodeMode()])
    async with contextlib.AsyncExitStack() as stack:
        for name, (program, *arguments) in json.loads(sys.argv[1]).items():
            client = await stack.enter_async_context(Client(StdioTransport(program, arguments)))
            server.mount(create_proxy(client), namespace=name)
        await server.run_async(show_banner=False)
asyncio.run(main())
"""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a gateway is set."""

    preset: Preset = "open"
    privacy: PrivacyMode = "strict"
    rules: tuple[PrivacyRule, ...] = (_INSIDE,)
    person: bool = False
    """True if a person answers asks: they allow what the task needs and nothing else."""


SETTINGS = {
    "open": Settings(),
    "open, tokens only whole": Settings(rules=()),
    "guarded, nobody to ask": Settings(preset="guarded"),
    "guarded, a person answers": Settings(preset="guarded", person=True),
    "readonly": Settings(preset="readonly"),
}
"""Those in which attacks are tried. Tasks are replayed in the first, and in `OUTPUT`."""
OUTPUT = Settings(privacy="output")


class Side:
    """A way to the tools: a client of each suite or of all, and the channels to the suites."""

    def __init__(self, clients: Mapping[str, Client], dojos: "Mapping[str, _Dojo]") -> None:
        self.clients = clients
        self.definitions: dict[str, int] = {}
        self._dojos = dojos
        self._number = 0
        self._scene: Scene | None = None

    @property
    def scene(self) -> Scene:
        """The task at hand."""
        assert self._scene is not None
        return self._scene

    async def learn(self) -> None:
        """Count what a model is shown before it begins."""
        for name, client in self.clients.items():
            listed = (await client.list_tools()).tools
            counted = (tokens.count_definition(each.name, each.description or "", each.input_schema) for each in listed)
            self.definitions[name] = sum(counted) + tokens.count(client.instructions or "")

    async def names(self, suite: str) -> dict[str, list[str]]:
        """The names of tasks, attacks and tools of a suite."""
        return msgspec.convert(await self._dojos[suite].order("list"), dict[str, list[str]])

    async def begin(self, suite: str, task: str, attack: str | None = None) -> Scene:
        """A new world."""
        self._number += 1
        begun = await self._dojos[suite].order("begin", task, attack)
        self._scene = scene = msgspec.convert({**begun, "suite": suite, "task": task}, Scene)
        if place := _CORRECTED.get((suite, task)):
            scene.calls[place[0]] = msgspec.structs.replace(scene.calls[place[0]], args=place[1])
        return scene

    async def judge(self, output: str) -> tuple[bool, bool]:
        """True if the task at hand is done; and if the attack is."""
        judged = await self._dojos[self.scene.suite].order("judge", output)
        return judged["utility"], bool(judged["attacked"])

    async def play(self, policy: Policy) -> Talk:
        """Let a policy work on the task at hand."""
        talk = Talk(start=sum(self.definitions.values()) + tokens.count(self.scene.prompt))
        step = await anext(policy)
        while not isinstance(step, str):
            answers = [await self.call(*message) for message in step]
            written = "\n".join(f"{name} {msgspec.json.encode(arguments).decode()}" for name, arguments in step)
            talk.add(written, answers)
            step = await policy.asend(answers)
        talk.add(step)
        return talk

    async def call(self, name: str, arguments: dict[str, Any], *, client: str | None = None) -> str:
        """The text of an answer. A run has a workspace, and so tokens, of its own for each task."""
        session = {"session": f"{self.scene.task}-{self._number}"} if name == "execute_code" else {}
        chosen = self.clients.get(client or self.scene.suite) or self.clients["all"]
        return text_of(await chosen.call_tool(name, {**arguments, **session}))

    async def answers(self, calls: Iterable[Call]) -> list[Any]:
        """The answers to calls, as data."""
        client = self.clients[self.scene.suite]
        results = [await client.call_tool(call.function, call.args) for call in calls]
        return [(result.structured_content or {})["result"] for result in results]


class Gateway(Side):
    """The way through a gateway, whose holder can see values behind tokens."""

    def __init__(self, client: Client, whole: Client, dojos: "Mapping[str, _Dojo]", yard: Yard) -> None:
        super().__init__({"all": client}, dojos)
        self._whole = whole
        self._yard = yard

    async def run(self, code: str) -> str:
        """The text of a run, of any length."""
        answer = await self._whole.call_tool("execute_code", {"code": code, "session": f"whole-{self._number}"})
        return text_of(answer)

    async def reveal(self, text: str) -> str:
        """A text with values in place of tokens, as a user with the right to see them gets it."""
        for token in {match.group() for match in TOKEN.finditer(text)}:
            found = await self._yard.reveal(token, principal="local")
            text = text.replace(token, str(found[0].value)) if found else text
        return text

    async def answer_asks(self) -> None:
        """Allow the calls of the task at hand, as a person does who knows what they asked for, and no other."""
        approvals = self._yard.approvals
        while True:
            for waiting in await approvals.waiting():
                ask = await approvals.get(waiting.id)
                values = await approvals.reveal(ask, by="person", channel="cli")
                call = (ask.tool.rpartition("__")[2], _revealed(ask.arguments, values))
                wanted = [(each.function, each.args) for each in self.scene.calls]
                decision: ApprovalDecision = "once" if call in wanted else "refuse"
                answer = Approval(decision=decision, by="person", channel="cli", answered_at=time.time())
                await approvals.answer(ask.id, answer)
            await asyncio.sleep(_POLL_SECONDS)


def _revealed(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _revealed(each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [_revealed(each, values) for each in value]
    if isinstance(value, str):
        return TOKEN.sub(lambda match: str(values.get(match.group(), match.group())), value)
    return value


class _Dojo:
    """The channel to one suite."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def order(self, order: str, *arguments: Any) -> Any:
        """The answer to an order."""
        self._writer.write(msgspec.json.encode([order, *arguments]) + b"\n")
        return msgspec.json.decode(await self._reader.readline())


class Place:
    """A folder for sockets and stores, and the data of the suites in place of their own."""

    def __init__(self, folder: Path, data: Path | None) -> None:
        self._folder = folder
        self._data = [] if data is None else [str(data)]
        self._opened = 0

    @contextlib.asynccontextmanager
    async def open_plain(self) -> AsyncIterator[Side]:
        """A client of each suite."""
        commands = self._commands()
        async with contextlib.AsyncExitStack() as stack:
            clients = {
                name: await stack.enter_async_context(Client(_program(command), cache=None))
                for name, command in commands.items()
            }
            side = Side(clients, await stack.enter_async_context(_dojos(commands)))
            await side.learn()
            yield side

    @contextlib.asynccontextmanager
    async def open_gateway(self, settings: Settings) -> AsyncIterator[Gateway]:
        """A gateway over all suites, with the real sandbox and the journal on disk."""
        commands = self._commands()
        config = Config(
            upstreams={
                name: UpstreamConfig(
                    name=name, transport="stdio", command=program, args=tuple(arguments), idle_seconds=None
                )
                for name, (program, *arguments) in commands.items()
            },
            trusted=frozenset(commands),
            store=StoreConfig(path=self._folder / f"{self._opened}" / "sealyard.db"),
            privacy=PrivacyConfig(mode=settings.privacy, rules=settings.rules),
            policy=PolicySettings(preset=settings.preset, operators=settings.person),
            sandbox=SandboxConfig(allow_weaker=True),
        )
        surface = msgspec.structs.replace(config.surface, result_tokens=_RESULT_TOKENS)
        async with open_yard(config, policy=msgspec.structs.replace(DEFAULT, packages=())) as yard:
            await yard.snapshot()
            await (await yard.sandbox()).settle()
            async with (
                Client(build_server(yard, config.surface), cache=None) as client,
                Client(build_server(yard, surface), cache=None) as whole,
                _dojos(commands) as dojos,
                asyncio.TaskGroup() as tasks,
            ):
                gateway = Gateway(client, whole, dojos, yard)
                await gateway.learn()
                person = tasks.create_task(gateway.answer_asks()) if settings.person else None
                yield gateway
                if person is not None:
                    person.cancel()

    @contextlib.asynccontextmanager
    async def open_code_mode(self, python: str) -> AsyncIterator[Side]:
        """FastMCP's proxy over all suites, with its code mode."""
        commands = self._commands()
        program = [python, "-c", _RIVAL, msgspec.json.encode(commands).decode()]
        environment = {"FASTMCP_LOG_LEVEL": "CRITICAL"}
        async with Client(_program(program, environment), cache=None) as client, _dojos(commands) as dojos:
            side = Side({"all": client}, dojos)
            await side.learn()
            yield side

    def _commands(self) -> dict[str, list[str]]:
        """The program of each suite, with a socket of its own before the data."""
        self._opened += 1
        return {
            name: [str(PYTHON), str(_PROGRAM), name, str(self._folder / f"{name}{self._opened}"), *self._data]
            for name in SUITES
        }


def _program(command: list[str], environment: dict[str, str] | None = None) -> Any:
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:], env=environment))


@contextlib.asynccontextmanager
async def _dojos(commands: Mapping[str, list[str]]) -> AsyncIterator[dict[str, _Dojo]]:
    sockets = {name: command[3] for name, command in commands.items()}
    ends = {name: await asyncio.open_unix_connection(path, limit=_LINE_BYTES) for name, path in sockets.items()}
    try:
        yield {name: _Dojo(*end) for name, end in ends.items()}
    finally:
        for _, writer in ends.values():
            writer.close()
