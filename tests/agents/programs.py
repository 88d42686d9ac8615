"""Agent frameworks in Python, as their users write with them: the examples of `docs/howto/frameworks.md`.

Each runs in the environment of its framework, with a home folder of its own and a model on loopback.
"""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.clients.model import Model

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "frameworks"
PROMPT = "Go on."
SECONDS = 240
"""For one conversation. It takes ten to thirty."""
PERSON_SECONDS = 1.0
"""In which nobody has read a question and answered it; the gateway tells persons from programs by that."""

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}
"""Nothing is sent to vendors."""


@dataclass(frozen=True)
class Framework:
    """A framework, and how its agents meet the gateway."""

    name: str
    """As its example is called."""
    title: str
    """On the page, and in its table."""
    environment: str
    """In `.venv`, from the requirements of the same name."""
    shows_forms: bool = False
    """The agent asks its user about approvals."""

    is_a_program: bool = False
    """Its agent is a process beside the script, and goes on until its call is over if the script is killed."""

    @property
    def python(self) -> Path:
        """Its interpreter. The test is skipped without one, and fails in CI."""
        path = ROOT / ".venv" / self.environment / "bin" / "python"
        if not path.exists():
            words = f"Not installed: {self.environment}. Run `make test-agents`."
            (pytest.fail if os.environ.get("CI") else pytest.skip)(words)
        return path


FRAMEWORKS = {
    each.name: each
    for each in (
        Framework("pydantic_ai", "Pydantic AI", "agents-sdk2", shows_forms=True),
        Framework("openai", "OpenAI Agents SDK", "agents-sdk2"),
        Framework("langchain", "LangChain", "agents-sdk1", shows_forms=True),
        Framework("smolagents", "smolagents", "agents-sdk1"),
        Framework("claude", "Claude Agent SDK", "agents-sdk1", is_a_program=True),
        Framework("crewai", "CrewAI", "agents-crewai"),
    )
}


@dataclass(frozen=True)
class Home:
    """A folder in which one agent, or one gateway, is at home. It has a gateway's configuration."""

    path: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.path.mkdir()
        self.configure()

    def configure(self, more: str = "") -> None:
        """Write the gateway's configuration."""
        (self.path / "sealyard.toml").write_text(
            f'[store]\npath = "store.db"\n[upstreams.expenses]\ncommand = {json.dumps(sys.executable)}\n'
            'args = ["-m", "sealyard.examples.expenses"]\n'
            f'[[policy.rules]]\ndecision = "ask"\ntools = ["expenses/approve_expense"]\n{more}',
            encoding="utf-8",
        )

    @contextlib.contextmanager
    def running(self, *command: str | Path, stderr: int = subprocess.PIPE) -> Iterator["subprocess.Popen[str]"]:
        """A program of this home, which is ended."""
        environ = {"HOME": str(self.path), "LANG": "C.UTF-8"} | QUIET | self.environ
        environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
        process = subprocess.Popen(
            command,
            cwd=self.path,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            encoding="utf-8",
            start_new_session=True,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    def clear(self) -> None:
        """End what is at home here: a framework that fails may leave its gateway behind."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def processes(self) -> list[int]:
        """All processes that are at home here."""
        mark = f"HOME={self.path}".encode()
        found = []
        for each in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                if mark in each.read_bytes().split(b"\0"):
                    found.append(int(each.parent.name))
        return found

    def wait_until_empty(self) -> list[int]:
        """Wait for the processes that are at home here to end. Returns those that do not."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError), open(os.pidfd_open(pid), "rb") as ended:
                select.select([ended], [], [], SECONDS)
        return self.processes()

    def run(self, *command: str) -> str:
        """Run a program to its end, which must be a good one. Returns what it printed."""
        with self.running(*command) as process:
            out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, (out, err)
        return out

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """The gateway over HTTP: gives its address."""
        with self.running("sealyard", "serve", "sealyard.toml", "--http", "127.0.0.1:0") as process:
            assert process.stderr is not None
            said = ""
            while not (found := re.search(r"at (http://\S+)", said)):
                line = process.stderr.readline()
                assert line, f"The gateway ended before it listened: {said}"
                said += line
            threading.Thread(target=process.stderr.read).start()  # or it stops when the pipe is full
            yield found[1]
            process.terminate()
            process.wait(SECONDS)

    @contextlib.contextmanager
    def asking(self) -> Iterator[Iterator[str]]:
        """The ids of calls that wait for approval, as they come."""
        with self.running("sealyard", "approvals", "watch") as watching:
            assert watching.stdout is not None
            yield (found[1] for line in watching.stdout if (found := re.match(r"([0-9a-f]{12}) waits", line)))


@contextlib.contextmanager
def conversing(framework: Framework, home: Home, model: Model) -> Iterator["subprocess.Popen[str]"]:
    """The example of a framework, which finds its model on loopback."""
    home.environ.update(
        {
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_AUTH_TOKEN": "none",
            "ENABLE_TOOL_SEARCH": "true",  # off where the model is not the vendor's
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": "none",
        }
    )
    example = EXAMPLES / f"{framework.name}_agent.py"
    with home.running(framework.python, example, PROMPT, stderr=subprocess.STDOUT) as process:
        yield process


def converse(framework: Framework, home: Home, model: Model) -> None:
    """Have one conversation to its end, with a user who approves whatever is asked in the terminal."""
    with conversing(framework, home, model) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("Without an answer it is refused"):
                time.sleep(PERSON_SECONDS)
                process.stdin.write("once\n")
                process.stdin.flush()
        process.wait(SECONDS)
    assert process.returncode == 0, "".join(said)[-4_000:]
