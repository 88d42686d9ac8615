"""Who answers an ask in Claude Code: the person at its form, and without a terminal an operator, never the client."""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.conversations import write_config
from tests.clients.model import OVER, Model, Step, serving
from tests.clients.programs import PROGRAMS, PROMPT, SECONDS, Home

from sealyard.broker import Approvals
from sealyard.broker.policy import PolicySettings
from sealyard.serve.dialogue import READING_SECONDS
from sealyard.store import open_store
from sealyard.values.access import Approval

TOOL = "mcp__mail__send_mail"
CODE = "from servers.mail import send_mail\nsend_mail(to='ann@example.com', subject='ask me', body='x')['message']"
SENT = "Sent to ann@example.com."
STEPS = [Step("execute_code", {"code": CODE})]


def settled(folder: Path, model: Model, more: str = "") -> Home:
    """A home in which Claude Code has a gateway that asks about a mail."""
    home = Home(folder / "claude", model)
    home.project.mkdir(parents=True)
    home.temporary.mkdir()
    write_config(home)
    with (home.project / "sealyard.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n[privacy]\nmode = 'off'\n{more}")
    done = home.run("sealyard", "init", "--apply", "claude-code", "--output", "sealyard.toml", "--yes")
    assert done.returncode == 0, done.stderr
    return home


async def answered(home: Home) -> list[dict[str, object]]:
    """Allow the call that waits, once its client has answered without a person; that answer's entry in the log."""
    async with asyncio.timeout(SECONDS), open_store(home.path / "store.db") as store:
        approvals = Approvals(store, PolicySettings())
        while not (dropped := await store.audit_entries(limit=10, kind="approval.unattended")):  # noqa: ASYNC110
            await asyncio.sleep(0.1)  # another process writes it
        (ask,) = await approvals.waiting()
        yes = Approval(decision="once", by="alice", channel="cli", answered_at=time.time())
        await approvals.answer(ask.id, yes)
        return [entry.body for entry in dropped]


def test_without_a_terminal_an_operator_is_asked(tmp_path: Path) -> None:
    """Claude Code declares forms and refuses them itself; the run waits for the operator all the same."""
    found: list[dict[str, object]] = []
    with serving(STEPS) as model:
        home = settled(tmp_path, model)
        operator = threading.Thread(target=lambda: found.extend(asyncio.run(answered(home))))
        operator.start()
        PROGRAMS["claude-code"].converse(home)
        operator.join()

    assert [(each["tool"], each["action"]) for each in found] == [(TOOL, "cancel")]
    assert model.requests[-1].results[0].startswith(SENT)


def test_without_a_terminal_and_an_operator_the_model_is_told_what_to_do(tmp_path: Path) -> None:
    """At once: nobody else may answer."""
    with serving(STEPS) as model:
        home = settled(tmp_path, model, '\n[approval]\nchannels = ["client"]\n')
        PROGRAMS["claude-code"].converse(home)

    (said,) = model.requests[-1].results
    assert f"ApprovalRefused: {TOOL} refused: the client answered within " in said
    assert 'put "operator" into approval.channels and answer with `sealyard approvals`' in said


# With a terminal

POINTER = "\u276f"
"""Stands before the line that Enter is about."""
RIGHT, DOWN, ENTER, ESCAPE = "\x1b[C", "\x1b[B", "\r", "\x1b"
_ESCAPES = re.compile(r"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|\s", re.DOTALL)


class Screen:
    """The terminal of a person at Claude Code."""

    def __init__(self, descriptor: int, process: "subprocess.Popen[bytes]") -> None:
        self._descriptor = descriptor
        self._process = process
        self._drawn = bytearray()
        self._columns = 160
        os.set_blocking(descriptor, False)

    def type(self, keys: str) -> None:
        """Types them."""
        os.write(self._descriptor, keys.encode())

    def until(self, words: str) -> None:
        """Return when the words are on the screen, whatever white space is among them.

        The program draws what has changed, character by character. It draws all of it when the window is resized.
        """
        wanted, shown = "".join(words.split()), ""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            self._drawn.clear()
            self._columns ^= 1
            size = struct.pack("HHHH", 50, self._columns, 0, 0)
            fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, size)
            os.kill(self._process.pid, signal.SIGWINCH)
            time.sleep(0.3)  # it draws ten times in a second at most
            with contextlib.suppress(BlockingIOError):
                while data := os.read(self._descriptor, 1 << 16):
                    self._drawn += data
            shown = _ESCAPES.sub("", self._drawn.decode(errors="replace"))
            if wanted in shown:
                return
        raise AssertionError((words, shown[-3_000:]))


@contextlib.contextmanager
def at_terminal(home: Home) -> Iterator[Screen]:
    """Claude Code in a terminal, with the questions of its first start answered, and its servers connected."""
    program = PROGRAMS["claude-code"].prepare(home)[0]
    path = home.path / ".claude.json"
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    known = {"hasCompletedOnboarding": True, "theme": "dark", "bypassPermissionsModeAccepted": True}
    known |= {"projects": {str(home.project): project}}
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | known), encoding="utf-8")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [program, "--dangerously-skip-permissions", "--model", "claude-sonnet-4-5"],
        cwd=home.project,
        env=home.environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        screen = Screen(ours, process)
        screen.until("bypass permissions on")
        screen.type("/mcp")
        screen.until(f"{POINTER} /mcp Manage MCP servers")
        screen.type(ENTER)
        screen.until("✔ sealyard 6 tools")
        screen.type(ESCAPE)
        screen.until("bypass permissions on")
        yield screen
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(SECONDS)
        os.close(ours)


async def given(home: Home) -> list[tuple[object, object, object]]:
    """The answers in the audit log: who gave which, through which channel."""
    async with open_store(home.path / "store.db") as store:
        entries = await store.audit_entries(limit=10, kind="approval.answer")
    return [(entry.body["by"], entry.body["decision"], entry.body["channel"]) for entry in entries]


@pytest.mark.parametrize(
    ("place", "choice", "result", "answer"),
    [
        (0, "Allow this call once", SENT, "once"),
        (4, "Refuse this call", f"ApprovalRefused: {TOOL} refused by local (elicitation)", "refuse"),
    ],
)
def test_the_person_at_its_form_decides(tmp_path: Path, place: int, choice: str, result: str, answer: str) -> None:
    """The form shows the whole call, has nothing chosen, and cannot be accepted like that."""
    with serving(STEPS) as model:
        home = settled(tmp_path, model)
        with at_terminal(home) as screen:
            screen.type(PROMPT)
            screen.until(f"{POINTER} {PROMPT}")
            screen.type(ENTER)
            screen.until(f'{TOOL}(to="ann@example.com", subject="ask me", body="x")')
            screen.until(f"{POINTER} * Decision: ▸ not set")
            time.sleep(READING_SECONDS)  # a person reads it
            screen.type(DOWN)
            screen.until(f"{POINTER} Reason")
            screen.type(DOWN)
            screen.until(f"{POINTER} Accept")
            screen.type(ENTER)
            screen.until("This field is required")
            screen.type(RIGHT)
            screen.until("Space to select")
            for _ in range(place):
                screen.type(DOWN)
            screen.until(f"{POINTER} ◯ {choice}")
            screen.type(ENTER)
            screen.until(f"Decision: {choice}")
            screen.type(DOWN)
            screen.until(f"{POINTER} Accept")
            screen.type(ENTER)
            screen.until(OVER)

    assert model.requests[-1].results[0].startswith(result)
    assert asyncio.run(given(home)) == [("local", answer, "elicitation")]
