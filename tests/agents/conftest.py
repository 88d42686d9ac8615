"""Conversations of each framework's agent, over standard input and output and over HTTP, had once and two at a time."""

import contextlib
import json
import re
import sqlite3
import subprocess
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.agents.programs import FRAMEWORKS, KILL, SECONDS, Framework, Home, converse, conversing
from tests.clients.conversations import TRANSPORTS, _select, _until
from tests.clients.model import Request, Step, serving
from tests.conftest import _descendants, is_sandboxed

Process: TypeAlias = subprocess.Popen[str]
KINDS = {"talk", "killed", "cancelled"}
"""Of what tests look at, each a fixture."""
MILLION = 1_000_000
APPROVE = "from servers.expenses import approve_expense\napprove_expense(expense_id='x00042')['status']"

STEPS = {
    "search": Step("search_tools", {"query": "list the expenses", "limit": 1}),
    "number": Step("execute_code", {"code": "41"}),
    "list": Step("execute_code", {"code": "[1, 2]"}),
    "object": Step("execute_code", {"code": "{'a': 1}"}),
    "true": Step("execute_code", {"code": "1 < 2"}),
    "text": Step("execute_code", {"code": "'some words'"}),
    "printed": Step("execute_code", {"code": "print(7)"}),
    "nothing": Step("execute_code", {"code": "x = 1"}),
    "unicode": Step("execute_code", {"code": "'größer ≥ 東京 🙂'"}),
    "error": Step("execute_code", {"code": "x = 1\nx / 0"}),
    "megabyte": Step("execute_code", {"code": f"'x' * {MILLION}"}),
    "tool": Step("execute_code", {"code": "from servers.expenses import list_expenses\nlen(list_expenses())"}),
    "empty": Step("execute_code", {"code": "5", "session": "", "execution_id": ""}),
    "null": Step("execute_code", {"code": "6", "session": None, "execution_id": None, "timeout_seconds": None}),
    "rows": Step("execute_analysis", {"analysis_type": "statistics", "source": {"tool": "expenses.list_expenses"},
                                      "parameters": {"operation": "describe"}}),
    "write": Step("execute_code", {"code": "open('kept.txt', 'w').write('kept')", "session": "notes"}),
    "read": Step("execute_code", {"code": "open('kept.txt').read()", "session": "notes"}),
    "save": Step("save_skill", {"name": "doubled", "code": "def doubled(n: int) -> int:\n    return 2 * n",
                                "description": "Twice a number", "examples": [{"inputs": {"n": 2}, "output": 4}]}),
    "skill": Step("execute_code", {"code": "from skills import doubled\ndoubled(21)"}),
    "slow": Step("execute_code", {"code": "import time\ntime.sleep(6)\n'awake'"}),
    "endless": Step("execute_code", {"code": "while True: pass", "timeout_seconds": 1}),
    "background": Step("execute_code", {"code": "21 + 21", "background": True}),
    "followed": Step("execute_code", lambda results: {"execution_id": started(results)},
                     again=lambda result: '"state"' in result),
    "approved": Step("execute_code", {"code": APPROVE}),
}  # fmt: skip
"""Each step is a turn of the model, and its key is what the tests call its result.

Six seconds are more than the five after which some frameworks give up by default.
"""


def started(results: list[str]) -> str:
    """The id of the background run that was started last."""
    return next(found[1] for each in reversed(results) if (found := re.search(r'"execution_id":"(\w+)"', each)))


LONG = """from servers.expenses import list_employees
import time
list_employees()
time.sleep(100)"""
LONG_STEP = Step("execute_code", {"code": LONG, "timeout_seconds": 110})
AT_ONCE = 2
"""Conversations: they wait for each other's processes, and for seconds that pass, about half of the time."""


@dataclass(frozen=True)
class Conversation:
    """What the model was sent, and the results that it saw, the last one of a step that was repeated."""

    first: Request
    results: dict[str, str]
    left: list[str]
    """The processes that the agent left behind."""


@dataclass(frozen=True)
class Ended:
    """An agent whose code was running when it was killed, or its task cancelled."""

    runs: list[str]
    """The status of each run in the journal, after the gateway noticed the end of the first."""
    status: int
    """Of the agent."""
    results: list[str]
    """What the model saw in the conversation after a cancelled one, with the same connection."""


class Conversations:
    """Begins everything that the selected tests look at when the first of them asks."""

    def __init__(self, folder: Path, wanted: Iterable[tuple[str, str, str]]) -> None:
        self._folder = folder
        self._wanted = list(wanted)
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._had: dict[tuple[str, str, str], Future[Any]] = {}

    def of(self, *key: str) -> Any:
        """The conversation of a kind, with a framework, over a transport."""
        for each in self._wanted if not self._had else ():
            kind, *rest = each
            self._had[each] = self._pool.submit(getattr(self, f"_{kind}"), *rest)
        return self._had[key[0], key[1], key[2]].result()

    def close(self) -> None:
        """Wait for those that have begun."""
        self._pool.shutdown(cancel_futures=True)

    def _talk(self, name: str, transport: str) -> Conversation:
        names = {id(step): key for key, step in STEPS.items()}
        with (
            self._at_home("talk", name, transport) as (home, operated, _),
            serving(list(STEPS.values())) as model,
            _operator(operated, FRAMEWORKS[name]),
        ):
            left = converse(FRAMEWORKS[name], home, model)
        assert model.missing == set()
        called = [names[id(step)] for step in model.made]
        return Conversation(model.requests[0], dict(zip(called, model.requests[-1].results, strict=True)), left)

    def _killed(self, name: str, transport: str) -> Ended:
        with (
            self._at_home("killed", name, transport) as (home, operated, gateway),
            serving([LONG_STEP]) as model,
            conversing(FRAMEWORKS[name], home, model) as process,
        ):
            _wait_for_run(operated, process, gateway)
            process.send_signal(KILL)
            process.communicate(timeout=SECONDS)
            _until(lambda: _runs(operated.path) != ["running"], fails=False)
            return Ended(_runs(operated.path), process.returncode, [])

    def _cancelled(self, name: str, transport: str) -> Ended:
        example = Path(__file__).parent / "cancelled" / f"{name}_agent.py"
        with (
            self._at_home("cancelled", name, transport) as (home, operated, gateway),
            serving([LONG_STEP]) as model,
            serving([STEPS["number"]]) as following,
        ):
            home.environ["NEXT_BASE_URL"] = f"{following.url}/v1"
            with conversing(FRAMEWORKS[name], home, model, example) as process:
                _wait_for_run(operated, process, gateway)
                _say(process, "cancel")
                _until(lambda: _runs(operated.path) != ["running"], fails=False)
                said, _ = process.communicate("go on\n", timeout=SECONDS)
            assert following.requests, said
            return Ended(_runs(operated.path), process.returncode, following.requests[-1].results)

    @contextlib.contextmanager
    def _at_home(self, *key: str) -> Iterator[tuple[Home, Home, Process | None]]:
        """The home of an agent and that of its gateway, which over HTTP is a process of its own."""
        home = Home(self._folder / "-".join(key))
        if key[-1] == "stdio":
            yield home, home, None
            return
        operated = Home(self._folder / "-".join(("gateway", *key)))
        made = json.loads(operated.run("sealyard", "token", "agent", "--json"))
        operated.configure(made["toml"])
        with operated.serving() as (url, gateway):
            home.environ.update({"SEALYARD_URL": url, "SEALYARD_TOKEN": made["token"]})
            yield home, operated, gateway


def _wait_for_run(operated: Home, process: Process, gateway: Process | None) -> None:
    """Wait until the agent's code runs, and something below it, or below its gateway, is in a sandbox."""

    def runs() -> bool:
        return _runs(operated.path) == ["running"] and any(map(is_sandboxed, _descendants((gateway or process).pid)))

    _until(lambda: process.poll() is not None or runs())
    assert process.poll() is None, process.communicate()


def _runs(folder: Path) -> list[str]:
    """The status of each run in the journal."""
    try:
        return [status for (status,) in _select(folder, "SELECT status FROM executions ORDER BY rowid")]
    except sqlite3.OperationalError:  # the store is still being made
        return []


def _say(process: Process, line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


@contextlib.contextmanager
def _operator(home: Home, framework: Framework) -> Iterator[None]:
    """Somebody who approves in a shell what the agent's user is not asked about."""
    if framework.shows_forms:
        yield
        return

    def approve() -> None:
        for each in asks:
            home.run("sealyard", "approvals", "approve", each)

    with home.asking() as asks:
        thread = threading.Thread(target=approve)
        thread.start()
        yield
    thread.join()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test is one for each framework that can do it, over each transport."""
    names = {
        "talk": FRAMEWORKS,
        "killed": [name for name, each in FRAMEWORKS.items() if not each.is_a_program],
        "cancelled": [name for name, each in FRAMEWORKS.items() if each.is_cancelled],
    }
    for kind in KINDS & set(metafunc.fixturenames):
        metafunc.parametrize("name", list(names[kind]), scope="session")
        metafunc.parametrize("transport", TRANSPORTS, scope="session")


@pytest.fixture(scope="session")
def conversations(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversations]:
    """What the selected tests look at."""
    wanted = {
        (kind, item.callspec.params["name"], item.callspec.params["transport"]): None
        for item in request.session.items
        for kind in KINDS & set(getattr(item, "fixturenames", ()))
    }
    had = Conversations(tmp_path_factory.mktemp("agents"), wanted)
    yield had
    had.close()


@pytest.fixture
def talk(name: str, transport: str, conversations: Conversations) -> Conversation:
    """What a framework's agent said."""
    return conversations.of("talk", name, transport)


@pytest.fixture
def killed(name: str, transport: str, conversations: Conversations) -> Ended:
    """What became of an agent that was killed in mid-run."""
    return conversations.of("killed", name, transport)


@pytest.fixture
def cancelled(name: str, transport: str, conversations: Conversations) -> Ended:
    """What became of an agent whose task was cancelled in mid-run."""
    return conversations.of("cancelled", name, transport)
