"""Conversations of each framework's agent, over standard input and output and over HTTP, had when a test first asks."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest
from tests.agents.programs import FRAMEWORKS, Framework, Home, converse
from tests.clients.model import Request, Step, serving

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


@dataclass(frozen=True)
class Conversation:
    """What the model was sent, and the results that it saw, the last one of a step that was repeated."""

    first: Request
    results: dict[str, str]
    left: list[int]
    """Processes that the agent left behind."""


class Conversations:
    """What each agent and its model said."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._had: dict[tuple[str, str], Conversation | Exception] = {}
        self._stack = contextlib.ExitStack()
        self._served: tuple[Home, dict[str, str]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def of(self, framework: Framework, transport: str) -> Conversation:
        """The conversation of this framework's agent over this transport."""
        key = framework.name, transport
        if key not in self._had:
            try:
                self._had[key] = self._have(framework, transport)
            except Exception as error:  # noqa: BLE001 - fails every test of it, and is not tried again
                self._had[key] = error
        if isinstance(had := self._had[key], Exception):
            raise had
        return had

    def _have(self, framework: Framework, transport: str) -> Conversation:
        home = Home(self._folder / f"{framework.name}-{transport}")
        operated = home
        if transport == "http":
            operated, address = self._gateway()
            home.environ.update(address)
        names = {id(step): name for name, step in STEPS.items()}
        try:
            with serving(list(STEPS.values())) as model, _operator(operated, framework):
                converse(framework, home, model)
            left = home.wait_until_empty()
        finally:
            home.clear()
        assert model.missing == set()
        called = [names[id(step)] for step in model.made]
        results = dict(zip(called, model.requests[-1].results, strict=True))
        return Conversation(model.requests[0], results, left)

    def _gateway(self) -> tuple[Home, dict[str, str]]:
        """A gateway that all agents meet over HTTP, and what tells them where it is."""
        if self._served is None:
            home = Home(self._folder / "gateway")
            made = json.loads(home.run("sealyard", "token", "agent", "--json"))
            home.configure(made["toml"])
            url = self._stack.enter_context(home.serving())
            self._served = home, {"SEALYARD_URL": url, "SEALYARD_TOKEN": made["token"]}
        return self._served


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


@pytest.fixture(scope="session")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversations]:
    """The conversations of all tests of this process."""
    with Conversations(tmp_path_factory.mktemp("agents")) as had:
        yield had


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> Framework:
    """Each framework in turn."""
    return FRAMEWORKS[request.param]


@pytest.fixture(params=["stdio", "http"])
def talk(request: pytest.FixtureRequest, framework: Framework, conversations: Conversations) -> Conversation:
    """What the framework's agent said, over each transport in turn."""
    return conversations.of(framework, request.param)
