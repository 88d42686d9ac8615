"""Agent frameworks in Python, as their users write with them: the examples of `docs/howto/frameworks.md`.

Each runs in the environment of its framework, with a home folder of its own and a model on loopback.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests import reaper
from tests.clients.model import Model

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "frameworks"
PROMPT = "Go on."
SECONDS = 240
"""For one conversation. It takes ten to thirty."""
LEAVING_SECONDS = 30
"""In which whatever an agent started must end after it: a run would take longer."""
KILL = signal.SIGUSR1
"""The reaper kills its program then."""
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

    is_cancelled: bool = False
    """Its agents are tasks that can be cancelled: by those in `cancelled`."""
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
        Framework("pydantic_ai", "Pydantic AI", "agents-sdk2", shows_forms=True, is_cancelled=True),
        Framework("openai", "OpenAI Agents SDK", "agents-sdk2", is_cancelled=True),
        Framework("langchain", "LangChain", "agents-sdk1", shows_forms=True, is_cancelled=True),
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
        """A program of this home under the reaper, which is killed at the end. See `tests/reaper.py` for its status."""
        environ = {"HOME": str(self.path), "LANG": "C.UTF-8"} | QUIET | self.environ
        environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", reaper.__file__, str(LEAVING_SECONDS), *command],
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
                if process.poll() is None:
                    process.send_signal(KILL)

    def run(self, *command: str) -> str:
        """Run a program to its end, which must be a good one. Returns what it printed."""
        with self.running(*command) as process:
            out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, (out, err)
        return out

    @contextlib.contextmanager
    def serving(self) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
        """The gateway over HTTP, at this address. It must end in order."""
        with self.running("sealyard", "serve", "sealyard.toml", "--http", "127.0.0.1:0") as process:
            assert process.stderr is not None
            said = ""
            while not (found := re.search(r"at (http://\S+)", said)):
                line = process.stderr.readline()
                assert line, f"The gateway ended before it listened: {said}"
                said += line
            rest: list[str] = []
            reading = threading.Thread(target=lambda: rest.append(process.stderr.read()))
            reading.start()  # or it stops when the pipe is full
            yield found[1], process
            process.terminate()
            reading.join()
        assert process.returncode == 128 + signal.SIGTERM, rest

    @contextlib.contextmanager
    def asking(self) -> Iterator[Iterator[str]]:
        """The ids of calls that wait for approval, as they come."""
        with self.running("sealyard", "approvals", "watch") as watching:
            assert watching.stdout is not None
            yield (found[1] for line in watching.stdout if (found := re.match(r"([0-9a-f]{12}) waits", line)))


@contextlib.contextmanager
def conversing(
    framework: Framework, home: Home, model: Model, example: Path | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """The example of a framework, or another one, which finds its model on loopback."""
    home.environ.update(
        {
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_AUTH_TOKEN": "none",
            "ENABLE_TOOL_SEARCH": "true",  # off where the model is not the vendor's
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": "none",
        }
    )
    own = EXAMPLES / f"{framework.name}_agent.py"
    with home.running(framework.python, example or own, PROMPT, stderr=subprocess.STDOUT) as process:
        yield process


def converse(framework: Framework, home: Home, model: Model) -> list[str]:
    """Have one conversation to its end, with a user who approves whatever is asked. Returns what processes it left."""
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
    assert process.returncode in (0, reaper.LEFT), "".join(said)[-4_000:]
    return [line for line in said if line.startswith("left: ")]
