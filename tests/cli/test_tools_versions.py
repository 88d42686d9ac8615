"""`sealyard tools --versions`: which version each tool has, and all that changed about one."""

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import warm

from sealyard.catalog import Catalog
from sealyard.cli.tools import show_compatibility
from sealyard.store import open_store
from sealyard.values.skills import SkillCheck
from sealyard.values.tools import Definition

Command = Callable[..., subprocess.CompletedProcess[str]]


def tool(description: str, **parameters: Any) -> Definition:
    """The tool `report` of a server that no longer exists."""
    schema = {"type": "object", "properties": parameters, "required": list(parameters)}
    return Definition(name="report", description=description, input_schema=schema)


async def remember(path: Path, *listings: list[Definition]) -> None:
    """Put listings of `expenses` into a store, as an earlier gateway did."""
    async with open_store(path) as store:
        catalog = Catalog(store)
        for number, listing in enumerate(listings):
            await catalog.update("expenses", listing, declared=f"expenses {number}.0")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A config with one server, and a store in which its tools were others before."""
    folder = tmp_path_factory.mktemp("project")
    command, *arguments = warm.python("-m", "sealyard.examples.expenses")
    server = f"command = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
    text = f"[store]\npath = {json.dumps(str(folder / 'store.db'))}\n\n[upstreams.expenses]\n{server}"
    (folder / "sealyard.toml").write_text(text, encoding="utf-8")
    words, number = {"type": "string"}, {"type": "integer"}
    asyncio.run(
        remember(
            folder / "store.db",
            [tool("Reports.", month=words)],
            [tool("Reports\x1b[2J all.", month=words)],
            [tool("Reports\x1b[2J all.", **{"ye\x1b[2Jar": number})],
        )
    )
    return str(folder / "sealyard.toml")


def test_versions_of_all_tools_are_listed(sealyard: Command, config: str) -> None:
    """Those that are there, then those that went away lately; `--json` has each version too."""
    listed = json.loads(sealyard("tools", "--json", "--config", config).stdout)["tools"]
    done = sealyard("tools", "--versions", "--config", config)

    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["tool", "version", "released", "last", "change"]
    assert [line[:2] for line in lines[1:-1]] == [
        *([each["full_name"], each["version"]] for each in listed),
        ["mcp__expenses__report", "2.0.0"],
    ]
    assert {each["version"] for each in listed} == {"1.0.0"}
    assert " ".join(lines[-2][3:]) == "removed: The server does not list it any more."
    assert done.returncode == 0


def test_changelog_of_a_removed_tool_is_shown(sealyard: Command, config: str) -> None:
    """Every release with its changes and what to do about them; nothing in it commands the terminal."""
    done = sealyard("tools", "--versions", "expenses/report", "--config", config)

    lines = done.stdout.splitlines()
    heads = [line.split() for line in lines if line[:1].isdigit()]
    assert [(head[0], head[2].strip(",")) for head in heads] == [
        ("2.0.0", "removed"),
        ("2.0.0", "changed"),
        ("1.0.1", "changed"),
        ("1.0.0", "added"),
    ]
    assert lines[0] == "mcp__expenses__report"
    assert "\x1b" not in done.stdout
    assert any(line.startswith("  major  input month: ") for line in lines)
    assert any(line.startswith("  migrate month: ") for line in lines)
    assert done.returncode == 0


def test_changelog_as_json_has_every_change(sealyard: Command, config: str) -> None:
    """For programs: the newest first, field by field."""
    done = sealyard("tools", "--versions", "mcp__expenses__report", "--json", "--config", config)

    releases = json.loads(done.stdout)["releases"]
    assert [(each["kind"], each["version"], each["declared"]) for each in releases[-3:]] == [
        ("changed", "2.0.0", "expenses 2.0"),
        ("changed", "1.0.1", "expenses 1.0"),
        ("added", "1.0.0", "expenses 0.0"),
    ]
    assert releases[-2]["changes"][0]["kind"] == "text"
    assert {each["field"] for each in releases[-3]["breaking"]} == {"month", "ye\x1b[2Jar"}


def test_tool_that_never_was_is_an_error(sealyard: Command, config: str) -> None:
    """With the name that was probably meant."""
    done = sealyard("tools", "--versions", "list_expense", "--config", config)

    assert (done.returncode, done.stdout) == (2, "")
    error = done.stderr.splitlines()[-1]
    assert error.startswith("error: No tool is or was named 'list_expense'. Nearest: 'mcp__expenses__list_expenses'")


def test_tool_without_versions_is_one_argument_too_many(sealyard: Command, config: str) -> None:
    """It says how it is meant."""
    done = sealyard("tools", "list_expenses", "--config", config)

    assert done.returncode == 2
    assert "Say --versions to see what changed about it." in done.stderr


def test_compatibility_is_shown_without_obeying_it(capsys: pytest.CaptureFixture[str]) -> None:
    """A reason may hold an upstream's text."""
    check = SkillCheck(
        namespace="shared",
        name="total",
        version="1.0.0",
        status="active",
        tool="mcp__x__y",
        need="1.2.0",
        current=None,
        state="missing",
        difficulty="impossible",
        reason="since\x1b[2J\nis gone.",
    )
    show_compatibility([check])
    show_compatibility([])

    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "mcp__x__y" in shown
    assert shown.splitlines()[-1] == "No skill uses a tool."
