"""The commands around the gateway, as a user starts them: from a client's own file, over real servers."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import warm

Command = Callable[..., subprocess.CompletedProcess[str]]


def write_servers(folder: Path, expenses: list[str]) -> None:
    """The client's own file: a server that works, and one that does not."""
    servers = {
        "expenses": {"command": expenses[0], "args": expenses[1:]},
        "broken": {"command": sys.executable, "args": ["-c", "import sys; sys.exit('no licence found')"]},
    }
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with nothing but an `.mcp.json`, and a home that is empty."""
    write_servers(tmp_path, warm.python("-m", "sealyard.examples.expenses"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "SEALYARD_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_search_finds_tools_of_a_clients_file(installed: Command, project: Path) -> None:
    """No other config is needed; a server that does not start is named and costs only itself."""
    done = installed("search", "list", "the", "expenses", "--detail", "full", "--json", "--limit", "1")

    (hit,) = json.loads(done.stdout)["hits"]
    assert hit["name"] == "mcp__expenses__list_expenses"
    assert hit["signature"].startswith("list_expenses(")
    assert "broken did not list its tools" in done.stderr
    assert done.returncode == 0


def test_search_that_finds_nothing_exits_with_one(sealyard: Command, project: Path) -> None:
    """A script can tell."""
    done = sealyard("search", "xylophone")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "None of 6 tools fits.")


def test_tools_lists_functions_and_says_what_is_wrong(installed: Command, project: Path) -> None:
    """Exit code 1: one server did not answer."""
    done = installed("tools")

    assert [line.split()[:2] for line in done.stdout.splitlines()[1:3]] == [
        ["expenses", "add_note"],
        ["expenses", "approve_expense"],
    ]
    assert "warning: broken: " in done.stderr
    assert done.returncode == 1


def test_status_shows_what_a_child_wrote_to_standard_error(sealyard: Command, project: Path) -> None:
    """The reason stands where the operator looks."""
    done = sealyard("tools", "--status")

    assert "broken stderr: no licence found" in done.stdout
    assert [line.split()[:3] for line in done.stdout.splitlines() if line.startswith("expenses ")] == [
        ["expenses", "ready", "6"]
    ]


def test_run_imports_the_configured_tools(sealyard: Command, project: Path) -> None:
    """The whole value is printed, however long it is."""
    code = "from servers.expenses import list_expenses\n[r['expense_id'] for r in list_expenses()]"
    done = sealyard("run", "-c", code)

    assert (done.returncode, len(json.loads(done.stdout))) == (0, 5000)


def test_run_without_tools_starts_nothing(sealyard: Command, project: Path) -> None:
    """The sandbox alone, and no record of it."""
    done = sealyard("run", "--no-tools", "-c", "import servers.expenses")

    assert done.returncode == 1
    assert "This run has no tools" in done.stderr
    assert list((project / "home").iterdir()) == []


def test_prompt_names_the_servers_and_shows_examples(installed: Command, project: Path) -> None:
    """It can be put into an agent as it is."""
    done = installed("prompt")

    assert "Connected servers: broken, expenses." in done.stdout
    assert "from servers.expenses import list_expenses" in done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "sealyard.toml"), ("[surface]\nmode = 'cod'\n", "surface.mode"), ("[upstreams.x]\n", "upstreams.x")],
)
@pytest.mark.parametrize("command", [["serve"], ["search", "x"], ["tools"], ["prompt"], ["run", "-c", "1"]])
def test_a_wrong_config_is_explained_without_a_traceback(
    sealyard: Command, project: Path, command: list[str], text: str, message: str
) -> None:
    """File, key and what to do; exit code 2."""
    (project / "sealyard.toml").write_text(text, encoding="utf-8")

    done = sealyard(*command)

    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_client_that_hangs_up_ends_the_gateway_and_its_children(project: Path) -> None:
    """Closing standard input ends `sealyard serve` and every server it started."""
    write_servers(project, [sys.executable, "-m", "sealyard.examples.expenses"])
    process = subprocess.Popen(
        [sys.executable, "-m", "sealyard", "serve", ".mcp.json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    call = {"name": "search_tools", "arguments": {"query": "expenses"}}
    for message in (
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    children = _children(process.pid)
    process.communicate(timeout=60)

    assert process.returncode == 0
    assert "mcp__expenses__list_expenses" in answers[1]["result"]["content"][0]["text"]
    assert children
    deadline = time.monotonic() + 60
    while (left := [pid for pid in children if Path(f"/proc/{pid}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []


def test_sigterm_ends_the_gateway_in_order(project: Path) -> None:
    """Nothing is left, and nothing is said but where the dashboard is and what it serves."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sealyard", "serve", "--http", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    first, second = process.stderr.readline(), process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=60)

    assert re.fullmatch(r"The dashboard, [\w ]+: http://127\.0\.0\.1:\d+/#key=[\w-]{32}\n", first)
    assert second.startswith("sealyard serves 2 servers at http://127.0.0.1:")
    assert (process.returncode, rest) == (143, "")


def _children(pid: int) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(entry))
    return found


def test_an_upstream_config_is_never_shown_with_its_secrets(sealyard: Command, project: Path) -> None:
    """Neither in a table nor in JSON."""
    servers = {"x": {"command": "missing-program", "env": {"API_KEY": "sk-very-secret-0123456789"}}}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")

    shown = [sealyard("tools", "--status"), sealyard("tools", "--json"), sealyard("search", "x", "--json")]

    assert [("very-secret" in done.stdout, "very-secret" in done.stderr) for done in shown] == [(False, False)] * 3
