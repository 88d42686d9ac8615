"""Who answers an ask in Claude Code: an operator where it runs without a terminal, and its user where it has one."""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.clients.conversations import write_config
from tests.clients.model import Model, Step, serving
from tests.clients.programs import PROGRAMS, SECONDS, Home

from sealyard.broker import Approvals
from sealyard.broker.policy import PolicySettings
from sealyard.store import open_store
from sealyard.values.access import Approval

TOOL = "mcp__mail__send_mail"
CODE = "from servers.mail import send_mail\nsend_mail(to='ann@example.com', subject='ask me', body='x')['message']"
SENT = "Sent to ann@example.com."
STEPS = [Step("execute_code", {"code": CODE})]
CONTROL = re.compile(r"\x1b\[[0-9;?>]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\x1b[=>78]|\s")
"""What a terminal obeys, and blanks: programs move over these instead of writing them."""
RIGHT, ENTER = b"\x1b[C", b"\r"
POINTER = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"


def settled(folder: Path, model: Model, more: str = "") -> Home:
    """A home in which Claude Code has a gateway that asks about a mail."""
    home = Home(folder / "claude", model)
    home.project.mkdir(parents=True)
    home.temporary.mkdir()
    write_config(home)
    with (home.project / "sealyard.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n[privacy]\nmode = 'off'\n{more}")
    done = home.run("sealyard", "init", "--apply", "claude-code", "--yes")
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


class Terminal:
    """A program in a terminal, and what it has written since the last key."""

    def __init__(self, keyboard: int, process: "subprocess.Popen[bytes]") -> None:
        self._keyboard = keyboard
        self._process = process
        self._written = b""

    def press(self, keys: bytes, expected: str) -> str:
        """Press keys, and return what it writes until that has a text, without blanks."""
        self._written = b""
        os.write(self._keyboard, keys)
        return self.read(expected)

    def read(self, expected: str) -> str:
        """All that it has written since the last key that was pressed, once it has a text."""
        end = time.monotonic() + SECONDS
        while expected not in self._text():
            assert time.monotonic() < end, (expected, self._text()[-2_000:])
            self._read()
        return self._text()

    def pause(self, keys: bytes) -> None:
        """Press keys, and read what it writes for a second."""
        os.write(self._keyboard, keys)
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            self._read()

    def _read(self) -> None:
        if select.select([self._keyboard], [], [], 0.2)[0]:
            self._written += os.read(self._keyboard, 1 << 16)

    def _text(self) -> str:
        return CONTROL.sub("", self._written.decode(errors="replace"))


@contextlib.contextmanager
def terminal(home: Home, *command: str) -> Iterator[Terminal]:
    """A program of a home in a terminal of 110 columns, ended at the end."""
    keyboard, screen = pty.openpty()
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
    process = subprocess.Popen(
        command,
        cwd=home.project,
        env=home.environment(),
        stdin=screen,
        stdout=screen,
        stderr=screen,
        start_new_session=True,
    )
    os.close(screen)
    try:
        yield Terminal(keyboard, process)
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(OSError):  # what it still writes, until it closes its side
            while os.read(keyboard, 1 << 16):
                pass
        process.wait(SECONDS)
        os.close(keyboard)


def test_in_a_terminal_accepting_means_what_was_chosen(tmp_path: Path) -> None:
    """Its user sees the call; "Accept" with nothing chosen is refused by the form itself, and a choice counts."""
    with serving(STEPS) as model:
        home = settled(tmp_path, model)
        binary, *_ = PROGRAMS["claude-code"].prepare(home)
        past_questions(home)
        with terminal(home, binary, "--dangerously-skip-permissions", "--model", "claude-sonnet-4-5") as shown:
            shown.press(b"", POINTER)
            while not any("execute_code" in name for each in model.requests for name in each.tools):
                shown.pause(b"Go on.")  # the gateway may not be there yet, and its absence is not shown
                shown.pause(ENTER)
            form = shown.read("Decision:")
            shown.press(ENTER, "Typesomething")
            shown.press(ENTER, f"{POINTER}Accept")
            shown.press(ENTER, "Thisfieldisrequired")
            (before,) = asyncio.run(waiting(home))
            shown.press(RIGHT, "Allowthiscallonce")
            shown.press(ENTER, "Typesomething")
            shown.press(ENTER, f"{POINTER}Accept")
            while not model.requests[-1].results:  # the button takes no key in the moment after it is reached
                shown.pause(ENTER)

    assert f'{TOOL}(to="ann@example.com",subject="askme",body="x")' in form
    assert before == TOOL
    assert model.requests[-1].results[0].startswith(SENT)


def past_questions(home: Home) -> None:
    """Answer what Claude Code asks on its first day: theme, trust in the folder and its servers."""
    path = home.path / ".claude.json"
    settings = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    project["enableAllProjectMcpServers"] = True
    settings |= {"hasCompletedOnboarding": True, "theme": "dark", "bypassPermissionsModeAccepted": True}
    settings["projects"] = settings.get("projects", {}) | {str(home.project): project}
    path.write_text(json.dumps(settings), encoding="utf-8")


async def waiting(home: Home) -> list[str]:
    """The tools of the calls that wait."""
    async with open_store(home.path / "store.db") as store:
        return [ask.tool for ask in await Approvals(store, PolicySettings()).waiting()]
