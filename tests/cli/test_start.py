"""`sealyard serve` answers a client before its yard is open: the tools at once, everything else as soon as it can."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import reaper, warm
from tests.conftest import _descendants, is_sandboxed
from tests.reaper import LEFT

from sealyard.disk import locked
from sealyard.privacy.vault import KEY_FILE
from sealyard.serve.logs import _WITHHELD
from sealyard.serve.stdio import _LINE_BYTES
from sealyard.yard.surface import surface_tools

Message = dict[str, Any]

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
REAPER = [sys.executable, "-I", "-S", reaper.__file__, "60"]
"""Begins a command line whose program must leave no process behind."""


class Started:
    """A gateway that was just started, and the client at the other end of its pipes."""

    def __init__(self, folder: Path, *options: str, command: list[str] | None = None) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*(command or warm.python("-m", "sealyard")), "serve", *options],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def send(self, number: int | None, method: str, **params: Any) -> None:
        """Send a request, or a notification if it has no number."""
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": number} if number else {})
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def greet(self) -> None:
        """Send the handshake as number 1, and do not wait for its answer."""
        self.send(1, "initialize", **HELLO)
        self.send(None, "notifications/initialized")

    def call(self, number: int, tool: str, **arguments: Any) -> None:
        """Call a tool, and do not wait for its answer."""
        self.send(number, "tools/call", name=tool, arguments=arguments)

    def answers(self, *numbers: int) -> list[Message]:
        """The next answers, which are of these requests, by their numbers."""
        assert self.process.stdout is not None
        found = [json.loads(self.process.stdout.readline()) for _ in numbers]
        assert sorted(each["id"] for each in found) == sorted(numbers)
        return sorted(found, key=lambda each: numbers.index(each["id"]))

    def end(self) -> tuple[int, str, str]:
        """Hang up; the exit code and what is left on standard output and standard error."""
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err


Start = Callable[..., Started]
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts gateways over a store in an empty folder, and sees to it that they end."""
    started: list[Started] = []

    def run(*options: str, config: str = "", **more: Any) -> Started:
        (tmp_path / "sealyard.toml").write_text(f'{config}\n[store]\npath = "data/s.db"\n', encoding="utf-8")
        started.append(Started(tmp_path, *options, **more))
        return started[-1]

    yield run
    for each in started:
        with each.process:
            each.process.kill()


@contextmanager
def held_up(folder: Path) -> Iterator[Path]:
    """While this is open no yard can be: whoever makes the key of a vault waits for the lock on its folder."""
    data = folder / "data"
    data.mkdir(mode=0o700)
    with locked(data):
        yield data


def files_in(folder: Path) -> set[str]:
    """The paths below a folder."""
    return {str(each.relative_to(folder)) for each in folder.rglob("*")}


def expenses(*python: str) -> str:
    """The lines of a config with one server, which starts warm unless a Python is given."""
    program, *arguments = *(python or warm.python()), "-m", "sealyard.examples.expenses"
    return f"[upstreams.expenses]\ncommand = {json.dumps(program)}\nargs = {json.dumps(arguments)}\n"


def text_of(answer: Message) -> str:
    """What a model reads of an answer."""
    return str(answer["result"]["content"][0]["text"])


@pytest.mark.behaviour("start.early")
@pytest.mark.parametrize("mode", ["code", "search"])
def test_tools_are_listed_while_the_yard_still_opens(start: Start, tmp_path: Path, mode: str) -> None:
    """A call waits for the yard, and gets its answer."""
    with held_up(tmp_path):
        gateway = start("--mode", mode)
        gateway.greet()
        gateway.call(2, "search_tools", query="anything")
        gateway.send(3, "resources/list")
        gateway.send(4, "tools/list")
        hello, listed = gateway.answers(1, 4)
    searched, resources = gateway.answers(2, 3)

    assert hello["result"]["serverInfo"]["name"] == "sealyard"
    assert [each["name"] for each in listed["result"]["tools"]] == [each["name"] for each in surface_tools(mode)]
    assert "None of 0 tools fits" in text_of(searched)
    assert resources["result"]["resources"] == []
    assert gateway.end() == (0, "", "")


def test_a_hybrid_list_waits_for_the_tools_of_the_servers(start: Start, tmp_path: Path) -> None:
    """It names tools that only an open yard knows, so it is answered after other requests."""
    with held_up(tmp_path):
        gateway = start("--mode", "hybrid", config=f'{expenses()}[surface]\ndirect = ["expenses/list_expenses"]')
        gateway.greet()
        gateway.send(2, "tools/list")
        gateway.send(3, "ping")
        gateway.answers(1, 3)
    (listed,) = gateway.answers(2)

    own = [each["name"] for each in surface_tools("hybrid")]
    assert [each["name"] for each in listed["result"]["tools"]] == [*own, "mcp__expenses__list_expenses"]
    assert gateway.end() == (0, "", "")


@pytest.mark.parametrize("command", [None, [sys.executable, "-m", "sealyard"]], ids=["warm", "cold"])
def test_code_sent_at_once_runs(start: Start, command: list[str] | None) -> None:
    """A client need not wait for anything before its first call."""
    gateway = start(command=command)
    gateway.greet()
    gateway.call(2, "execute_code", code="6 * 7")
    _, ran = gateway.answers(1, 2)

    assert text_of(ran) == "42"
    assert gateway.end() == (0, "", "")


@pytest.mark.behaviour("start.failed")
@pytest.mark.parametrize("config", ["", '[otel]\nendpoint = "http://127.0.0.1:9"'], ids=["plain", "traced"])
def test_an_opening_that_fails_ends_the_process_and_answers_who_waits(
    start: Start, tmp_path: Path, config: str
) -> None:
    """The reason is for the operator alone; each waiting request fails, whatever it is."""
    with held_up(tmp_path) as data:
        gateway = start(config=config)
        gateway.greet()
        for number in (2, 3, 4):
            gateway.call(number, "execute_code", code="1")
        gateway.send(5, "tools/list")
        gateway.answers(1, 5)
        (data / KEY_FILE).touch(mode=0o600)
        (data / KEY_FILE).write_text("not a key", encoding="utf-8")
    waiting = gateway.answers(2, 3, 4)
    code, out, err = gateway.end()

    assert [each["error"]["message"] for each in waiting] == ["Connection closed"] * 3
    assert (code, out) == (2, "")
    assert err.startswith("error: The file ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "options", [(), ("--http", "127.0.0.1:0"), ("--mode", "proxy")], ids=["stdio", "http", "proxy"]
)
def test_a_store_that_cannot_be_opened_ends_the_process_with_the_reason(
    start: Start, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """The same line however it serves."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "s.db").write_bytes(b"not a database at all " * 400)
    gateway = start(*options)
    code = gateway.process.wait(120)
    _, out, err = gateway.end()

    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "s.db" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("wrong", ['conceal = ["nobody"]', 'reveal = ["nobody"]', 'patterns = {badge = "("}'])
def test_privacy_that_cannot_be_had_is_refused_before_anything_is_made(
    start: Start, tmp_path: Path, wrong: str
) -> None:
    """Corrected, the config starts as if it were new."""
    gateway = start(config=f"[privacy]\n{wrong}")
    code = gateway.process.wait(120)
    _, out, err = gateway.end()

    assert (code, out) == (2, "")
    assert err.startswith(("error: [privacy] names the type 'nobody'", "error: The pattern 'badge' is no regular"))
    assert files_in(tmp_path) == {"sealyard.toml"}


@pytest.mark.parametrize("is_told", [False, True], ids=["hangs up", "hangs up and signals"])
def test_a_client_that_leaves_while_the_yard_opens_leaves_nothing_behind(
    start: Start, tmp_path: Path, *, is_told: bool
) -> None:
    """No process, although its sandbox was starting, and no file but those of the store."""
    with held_up(tmp_path) as data:
        gateway = start(command=[*REAPER, sys.executable, "-m", "sealyard"])
        gateway.greet()
        gateway.call(2, "execute_code", code="1")
        gateway.answers(1)
        while not any(is_sandboxed(pid) for pid in _descendants(gateway.process.pid)):
            time.sleep(0.02)  # nothing announces it, and the test's own time limit bounds this
        assert gateway.process.stdin is not None
        gateway.process.stdin.close()
        gateway.process.stdin = None
        if is_told:
            gateway.process.send_signal(signal.SIGTERM)
    code, out, err = gateway.end()

    assert (code, err) == (143 if is_told else 0, "")
    assert json.loads(out)["error"]["message"] == "Connection closed"
    # Of the keys there are those that it came to; `run` is empty, and elsewhere if workers could not reach it here.
    assert files_in(data) - {"vault.key", "s.db.audit.key", "run"} == {"s.db", "s.db.d", "s.db.d/opening"}


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ("", "code"),
        ("< /dev/null", "code"),
        ("< /dev/null > /dev/null", "code"),
        ("<&-", "code"),
        ("<&- >&- 2>&-", "code"),
        ("< /dev/null", "proxy"),
        ("<&-", "proxy"),
    ],
)
def test_a_gateway_without_input_ends_in_order(start: Start, tmp_path: Path, given: str, mode: str) -> None:
    """Whatever stands in its place: an empty pipe, the null device, or nothing. Every process that it started ends."""
    command = ["sh", "-c", f'exec "$@" {given}', "sh", sys.executable, "-m", "sealyard"]
    gateway = start("--mode", mode, config=expenses(sys.executable), command=[*REAPER, *command])

    assert gateway.end() == (0, "", "")
    assert (tmp_path / "data" / "s.db").exists()


def test_processes_that_outlive_a_gateway_are_seen(tmp_path: Path) -> None:
    """The control of the tests that none is left: in a session and an environment of its own, one is."""
    command = ["sh", "-c", "env -i setsid sleep 1000 & exit 3"]
    done = subprocess.run([*REAPER[:-1], "0.1", *command], capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stderr) == (LEFT, "left: sleep 1000 \n")


def test_lines_about_a_client_are_withheld_until_there_is_a_guard(start: Start, tmp_path: Path) -> None:
    """They may have its words. One about a message that never ends is logged while the yard opens."""
    with held_up(tmp_path):
        gateway = start()
        gateway.greet()
        gateway.answers(1)
        assert gateway.process.stdin is not None
        assert gateway.process.stderr is not None
        with contextlib.suppress(BrokenPipeError):  # of what it no longer reads
            gateway.process.stdin.write("x" * (_LINE_BYTES + 1))
            gateway.process.stdin.flush()
        line = gateway.process.stderr.readline()

    assert line == f"sealyard.serve.stdio: {_WITHHELD}\n"


def test_listing_tools_over_pipes_imports_neither_the_yard_nor_a_web_page() -> None:
    """What is not needed for the list is imported after it, or never."""
    late = ("sealyard.access", "sealyard.privacy.detect", "sealyard.sandbox.run", "sealyard.store.store")
    late += ("sealyard.yard.assembly", "sealyard.yard.opening")
    never = ("sealyard.serve.api", "sealyard.serve.dashboard", "sealyard.serve.http", "sealyard.serve.relay.server")
    code = f"""
import json, sys
import sealyard.cli.serve as serve
serve.wires.build_server, serve.wires.serve_stdio, serve.wires.filter_log
before = [name for name in {late + never} if name in sys.modules]
serve.yards.open_yard
after = [name for name in {never} if name in sys.modules]
print(json.dumps([before, after]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)

    assert json.loads(done.stdout) == [[], []]


@pytest.mark.parametrize("command", [("skills", "list"), ("tools", "--versions"), ("search", "expenses")])
def test_commands_that_need_no_server_do_without_the_sdk(
    sealyard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """Its import takes longer than all that they do; the tools of servers are remembered."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sealyard.toml").write_text(f'[store]\npath = "s.db"\n{expenses()}', encoding="utf-8")
    listed = sealyard("tools")
    code = f"""
import sys
from sealyard.cli import main
sys.argv = {["sealyard", *command]}
try:
    main()
except SystemExit as end:
    sdk = {{"mcp", "mcp_types"}} & set(sys.modules)
    print(end.code, *sdk, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)

    assert listed.returncode == 0
    assert done.stderr.splitlines()[-1] in ("None", "0")
