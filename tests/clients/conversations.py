"""What the tests look at: each client's conversations, over each transport, had once and several at a time."""

import contextlib
import hashlib
import json
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.clients.model import Model, Request, Step, serving
from tests.clients.programs import KILL, PROGRAMS, SECONDS, Home
from tests.conftest import _descendants, is_sandboxed

MILLION = 1_000_000
REASON = "Not before noon."
AT_ONCE = 3
"""Conversations: they wait for each other's processes half of the time, and two cores are enough for three."""
TRANSPORTS = ("stdio", "http")
VARIABLE = "SEALYARD_TOKEN"
TOKENS = {name: f"token of {name}" for name in PROGRAMS}

WAITING = """import os, time
print('waiting')
while not os.path.exists('go'):
    time.sleep(0.1)
6 * 7"""
MAILING = """from servers.mail import send_mail
send_mail(to='ann@example.com', subject={subject!r}, body='x')['number'] > 0"""
LONG = "import time\ntime.sleep(100)"


def _ids(results: Sequence[str]) -> list[str]:
    """The ids of background runs, the newest last."""
    return [found for each in results for found in re.findall(r'"execution_id": ?"([0-9a-f]{16})"', each)]


def _looks(results: Sequence[str]) -> dict[str, Any]:
    return {"execution_id": _ids(results)[-1]}


def _code(code: str, **more: Any) -> Step:
    return Step("execute_code", {"code": code, **more})


def steps(name: str) -> dict[str, Step]:
    """The conversation of a client: each step is a turn of the model, and its key is what tests call its result."""
    return {
        "search": Step("search_tools", {"query": "list the expenses", "limit": 1}),
        "number": _code("41"),
        "list": _code("[1, 2]"),
        "object": _code("{'a': 1}"),
        "true": _code("1 < 2"),
        "text": _code("'some words'"),
        "printed": _code("print(7)"),
        "nothing": _code("x = 1"),
        "unicode": _code("'größer ≥ 東京 🙂'"),
        "error": _code("x = 1\nx / 0"),
        "megabyte": _code(f"'x' * {MILLION}"),
        "tool": _code("from servers.expenses import list_expenses\nlen(list_expenses())"),
        "optional": _code("5", language="python", session="", execution_id=""),
        "save": Step(
            "save_skill",
            {
                "name": "doubled",
                "code": "def doubled(n: int) -> int:\n    return 2 * n",
                "description": "Twice a number",
                "examples": [{"inputs": {"n": 2}, "output": 4}],
            },
        ),
        "skill": _code("from skills import doubled\ndoubled(21)"),
        "background": _code(WAITING, background=True),
        "state": Step("execute_code", _looks),
        "go": _code("open('go', 'w').close()"),
        "end": Step("execute_code", _looks, again=lambda result: '"running"' in result),
        "long": _code(LONG, background=True, timeout_seconds=SECONDS),
        "cancel": Step("execute_code", lambda results: _looks(results) | {"cancel": True}),
        "approved": _code(MAILING.format(subject=f"ask for yes, {name}")),
        "refused": _code(MAILING.format(subject=f"ask for no, {name}")),
    }


@dataclass(frozen=True)
class Talk:
    """All that a client sent to its model in a conversation with the gateway."""

    before: Request
    """The first request of the same client without it."""
    requests: list[Request]
    results: dict[str, str]
    """By the keys of `steps`: the last of each."""
    settings: dict[str, Any]
    """What `sealyard init` wrote into the client's entry besides the way to the gateway."""
    mails: list[str]
    """The subjects of the mails that left."""


@dataclass(frozen=True)
class Cut:
    """A client that was ended while its code ran."""

    runs: list[str]
    """The status of its runs in the journal, after the gateway had noticed."""
    left: list[str]
    """The commands of processes below the client that did not end."""
    files: list[str]
    """What the gateway left among the temporary files of a client that started it, or the next after it."""


@dataclass(frozen=True)
class Turned:
    """A client whose token is wrong."""

    status: int
    requests: list[Request]
    said: str
    listed: str
    """What its command `mcp list` says."""


@dataclass(frozen=True)
class End:
    """What a gateway over HTTP left when it was ended after all conversations."""

    status: int
    """Another one than that of SIGTERM if it leaves a process."""
    running: int
    files: list[str]


class Conversations:
    """Begins all conversations of some clients when the first is asked for, and keeps what was said."""

    def __init__(self, folder: Path, clients: Iterable[str], transports: Sequence[str]) -> None:
        self._folder = folder
        self._clients = list(clients)
        self._transports = transports
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._had: dict[tuple[str, ...], Future[Any]] = {}
        self._closing = contextlib.ExitStack()

    def talk(self, name: str, transport: str) -> Talk:
        """The whole conversation of this client."""
        return self._get("talk", name, transport)

    def cut(self, name: str, transport: str, how: signal.Signals) -> Cut:
        """What was left when this client got that signal in mid-run."""
        return self._get("cut", name, transport, how.name)

    def searched(self) -> list[Request]:
        """The requests of Codex to a model that it has its own search of tools for."""
        return self._get("searched")

    def turned(self, name: str) -> Turned:
        """What this client did with a wrong token."""
        return self._get("turned", name)

    def end(self) -> End:
        """What the gateway over HTTP left, after all conversations."""
        return self._get("end")

    def close(self) -> None:
        """Wait for all, and end the gateway."""
        self._pool.shutdown(cancel_futures=True)
        self._closing.close()

    def _get(self, *key: str) -> Any:
        if not self._had:
            self._begin()
        return self._had[key].result()

    def _begin(self) -> None:
        """Whatever waits for another conversation stands behind it, so that a full pool cannot wait for itself."""
        for name in self._clients:
            self._start(self._before, "before", name)
        if "http" in self._transports:
            self._start(self._serve, "gateway")
        for transport in self._transports:
            for name in self._clients:
                self._start(self._talk, "talk", name, transport)
        if "codex" in self._clients:
            self._start(self._search, "searched")
        for transport in self._transports:
            for name in self._clients:
                for how in (signal.SIGINT, signal.SIGKILL):
                    self._start(self._cut, "cut", name, transport, how.name)
        if "http" in self._transports:
            for name in self._clients:
                self._start(self._turn_away, "turned", name)
            self._start(self._finish, "end")

    def _start(self, work: Callable[..., Any], *key: str) -> None:
        self._had[key] = self._pool.submit(work, *key[1:])

    def _before(self, name: str) -> Request:
        with serving([]) as model:
            PROGRAMS[name].converse(self._home(model, "before", name))
            return model.requests[0]

    def _talk(self, name: str, transport: str) -> Talk:
        script = steps(name)
        with serving(list(script.values())) as model:
            home = self._home(model, "talk", name, transport)
            settings = self._connect(home, name, transport)
            with _operator(home) if transport == "stdio" else contextlib.nullcontext():
                PROGRAMS[name].converse(home)
        assert model.missing == set()
        keys = {id(step): key for key, step in script.items()}
        results = {keys[id(step)]: text for step, text in zip(model.made, model.requests[-1].results, strict=True)}
        mails = _mails(self._at(home, transport))
        return Talk(self._had["before", name].result(), model.requests, results, settings, mails)

    def _cut(self, name: str, transport: str, how: str) -> Cut:
        subject = f"begun, {name}, {how}"
        with serving([_code(f"{MAILING.format(subject=subject)}\n{LONG}", timeout_seconds=SECONDS)]) as model:
            home = self._home(model, "cut", name, transport, how)
            self._connect(home, name, transport)
            at = self._at(home, transport)
            with home.running(*PROGRAMS[name].prepare(home)) as process:
                _until(lambda: subject in _mails(at) or process.poll() is not None)
                assert process.poll() is None, process.communicate()
                pid = process.pid if transport == "stdio" else self._get("gateway").process.pid
                assert any(map(is_sandboxed, _descendants(pid)))
                process.send_signal(KILL if how == "SIGKILL" else signal.Signals[how])
                _, complained = process.communicate(timeout=SECONDS)
            left = [line for line in complained.splitlines() if line.startswith("left: ")]
            if transport == "stdio" and how == "SIGINT" and ("running" in _runs(at, subject) or _ours(home)):
                home.run("sealyard", "serve")  # without input: the next after one that its client killed
            _until(lambda: (runs := _runs(at, subject)) and "running" not in runs, fails=False)
            return Cut(_runs(at, subject), left, _ours(home))

    def _search(self) -> list[Request]:
        with serving([Step("tool_search", {"query": "run python code"}), _code("41")]) as model:
            home = self._home(model, "searched")
            self._connect(home, "codex", "stdio")
            PROGRAMS["codex"].converse(home, "--model", "gpt-5.5")
        return model.requests

    def _turn_away(self, name: str) -> Turned:
        with serving([]) as model:
            home = self._home(model, "turned", name)
            self._connect(home, name, "http")
            home.environ[VARIABLE] = "the token of somebody else"
            command = PROGRAMS[name].prepare(home)
            done = home.run(*command)
            listed = home.run(*command[: 2 if Path(command[0]).name == "node" else 1], "mcp", "list")
        return Turned(done.returncode, model.requests, done.stdout + done.stderr, listed.stdout + listed.stderr)

    def _home(self, model: Model, *key: str) -> Home:
        home = Home(self._folder / "-".join(key), model)
        home.project.mkdir(parents=True)
        model.home = str(home.path)
        write_config(home)
        return home

    def _connect(self, home: Home, name: str, transport: str) -> dict[str, Any]:
        """Let `sealyard init` lead the client to a gateway. Returns the settings that it wrote."""
        more = ["--output", "sealyard.toml"]  # the servers are in the project alone
        if transport == "http":
            home.environ[VARIABLE] = TOKENS[name]
            more = ["--url", self._get("gateway").url, "--token-env", VARIABLE]
        done = home.run("sealyard", "init", "--apply", name, *more, "--yes", "--json")
        assert done.returncode == 0, done.stderr
        return _settings(Path(json.loads(done.stdout)["changed"][-1]["file"]))

    def _at(self, home: Home, transport: str) -> Path:
        """The home of the client's gateway."""
        return home.path if transport == "stdio" else self._get("gateway").home.path

    def _serve(self) -> "_Gateway":
        home = self._home(Model([]), "gateway")
        write_config(home, TOKENS)
        process = self._closing.enter_context(home.running("sealyard", "serve", "--http", "127.0.0.1:0"))
        said = ""
        while not (found := re.search(r"at (http://\S+)", said)):
            line = process.stderr.readline()
            assert line, f"The gateway ended before it listened: {said}"
            said += line
        threading.Thread(target=process.stderr.read, daemon=True).start()  # it may log more than a pipe holds
        self._closing.enter_context(_operator(home))
        return _Gateway(home, process, found[1])

    def _finish(self) -> End:
        for key, each in self._had.items():
            if key != ("end",):
                each.exception()  # waits, and leaves failures to the tests of that conversation
        gateway = self._get("gateway")
        gateway.process.terminate()
        status = gateway.process.wait(SECONDS)
        running = len(_select(gateway.home.path, "SELECT 1 FROM executions WHERE status = 'running'"))
        return End(status, running, _ours(gateway.home))


@dataclass(frozen=True)
class _Gateway:
    home: Home
    process: "subprocess.Popen[str]"
    url: str


def write_config(home: Home, tokens: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write a gateway's configuration: two upstreams, a rule that asks a person, and these tokens."""
    python = json.dumps(sys.executable)
    principals = (
        f"[http.principals.{name}]\ntoken_sha256 = {json.dumps(hashlib.sha256(token.encode()).hexdigest())}\n"
        for name, token in tokens.items()
    )
    (home.project / "sealyard.toml").write_text(
        f"[store]\npath = {json.dumps(str(home.path / 'store.db'))}\n"
        f'[upstreams.expenses]\ncommand = {python}\nargs = ["-m", "sealyard.examples.expenses"]\n'
        f"[upstreams.mail]\ncommand = {python}\n"
        f'args = ["-m", "sealyard.examples.mail", "--outbox", {json.dumps(str(home.path / "outbox"))}]\n'
        '[[policy.rules]]\ndecision = "ask"\ntools = ["mail/send_mail"]\nwhen = { subject = "ask*" }\n'
        + "".join(principals),
        encoding="utf-8",
    )


@contextmanager
def _operator(home: Home) -> Iterator[None]:
    """A person in another shell, who answers by the subject of the mail."""
    with home.running("sealyard", "approvals", "watch") as watching:

        def answer() -> None:
            ask = ""
            for line in watching.stdout:
                if found := re.match(r"(\w+) waits", line):
                    ask = found[1]
                elif 'subject = "ask for yes' in line:
                    home.run("sealyard", "approvals", "approve", ask)
                elif 'subject = "ask for no' in line:
                    home.run("sealyard", "approvals", "refuse", ask, "--reason", REASON)

        answering = threading.Thread(target=answer)
        answering.start()
        try:
            yield
        finally:
            watching.send_signal(KILL)
            answering.join()


def _settings(path: Path) -> dict[str, Any]:
    """What the entry named `sealyard` in a client's file says besides how the gateway is reached."""
    text = path.read_text(encoding="utf-8")
    waiting: list[Any] = [tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)]
    ways = {"command", "args", "type", "url", "httpUrl", "headers", "bearer_token_env_var"}
    while waiting:
        table = waiting.pop()
        if isinstance(table, dict):
            if isinstance(entry := table.get("sealyard"), dict):
                return {key: value for key, value in entry.items() if key not in ways}
            waiting += table.values()
    raise AssertionError(f"No entry in {path}: {text}")


def _ours(home: Home) -> list[str]:
    """What gateways have left in the folder for temporary files."""
    return [path.name for path in home.temporary.glob("sealyard-*")]


def _mails(folder: Path) -> list[str]:
    outbox = folder / "outbox"
    lines = outbox.read_text(encoding="utf-8").splitlines(keepends=True) if outbox.exists() else []
    return [json.loads(line)["subject"] for line in lines if line.endswith("\n")]


def _runs(folder: Path, subject: str) -> list[str]:
    """The status of runs whose code has this subject."""
    query = "SELECT status FROM executions JOIN codes ON codes.sha256 = code_sha256 WHERE instr(code, ?)"
    return [status for (status,) in _select(folder, query, subject)]


def _select(folder: Path, query: str, *values: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(f"file:{folder / 'store.db'}?mode=ro", uri=True)) as store:
        return store.execute(query, values).fetchall()


def _until(is_so: Callable[[], object], *, fails: bool = True) -> None:
    """Wait until it is so: it is about processes that announce nothing."""
    end = time.monotonic() + SECONDS
    while not is_so():
        if time.monotonic() > end:
            assert not fails, "It never became so."
            return
        time.sleep(0.02)
