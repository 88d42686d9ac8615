"""One conversation of each client, which its tests look at."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.clients.model import Model, Request, Step, serving
from tests.clients.programs import PROGRAMS, Home

MILLION = 1_000_000
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
    "optional": Step("execute_code", {"code": "5", "language": "python", "session": "", "execution_id": ""}),
    "save": Step("save_skill", {"name": "doubled", "code": "def doubled(n: int) -> int:\n    return 2 * n",
                                "description": "Twice a number", "examples": [{"inputs": {"n": 2}, "output": 4}]}),
    "skill": Step("execute_code", {"code": "from skills import doubled\ndoubled(21)"}),
    "background": Step("execute_code", {"code": "1 + 1", "background": True}),
}  # fmt: skip
"""One conversation: each step is a turn of the model, and its key is what the tests call its result."""


@dataclass(frozen=True)
class Conversation:
    """The requests of a client to its model: the first one before it had the gateway, and all of it with it."""

    before: Request
    requests: list[Request]


class Conversations:
    """What each client and its model said, had when a test first asks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._had: dict[str, Conversation] = {}

    def of(self, name: str) -> Conversation:
        """The conversation of this client."""
        if name not in self._had:
            self._had[name] = self._have(name)
        return self._had[name]

    def _have(self, name: str) -> Conversation:
        with serving([]) as model:
            home = make_home(self._folder / name, model)
            PROGRAMS[name].converse(home)
            (before,) = model.requests
        with serving(list(STEPS.values())) as model:
            home = replace(home, model=model)
            done = home.run("sealyard", "init", "--apply", name, "--yes")
            assert done.returncode == 0, done.stderr
            PROGRAMS[name].converse(home)
        assert model.missing == set()
        return Conversation(before, model.requests)


def make_home(folder: Path, model: Model) -> Home:
    """A folder for a client, with a project that has a gateway's configuration."""
    home = Home(folder, model)
    home.project.mkdir(parents=True)
    (home.project / "sealyard.toml").write_text(
        '[store]\npath = "store.db"\n[upstreams.expenses]\n'
        f'command = {json.dumps(sys.executable)}\nargs = ["-m", "sealyard.examples.expenses"]\n',
        encoding="utf-8",
    )
    return home


@pytest.fixture(scope="session")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> Conversations:
    """The conversations of all tests of this process."""
    return Conversations(tmp_path_factory.mktemp("clients"))


@pytest.fixture(params=PROGRAMS)
def client(request: pytest.FixtureRequest) -> str:
    """Each client in turn."""
    return str(request.param)


@pytest.fixture
def results(client: str, conversations: Conversations) -> dict[str, str]:
    """What the model saw of each step."""
    return dict(zip(STEPS, conversations.of(client).requests[-1].results, strict=True))
