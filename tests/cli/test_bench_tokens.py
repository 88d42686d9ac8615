"""`sealyard bench tokens`: what it counts, and what it says of a file it cannot use."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from benchmarks.tokens import PROMISES
from sealyard.metrics import tokens

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_tokens_are_counted_for_the_tools_of_a_file(installed: Command, tmp_path: Path) -> None:
    """Definitions cost by their number with plain MCP and not behind sealyard; parts add up and promises are kept."""
    tools = [
        {
            "server": f"server {number % 7}",
            "name": f"make_thing_{number}",
            "description": f"Make thing {number} of the many things that can be made here. " * 3,
            "inputSchema": {"type": "object", "properties": {"size": {"type": "integer", "description": "How large"}}},
        }
        for number in range(300)
    ]
    file = tmp_path / "tools.jsonl"
    file.write_text("".join(json.dumps(tool) + "\n" for tool in tools), encoding="utf-8")
    keys = ("name", "description", "inputSchema")
    of_the_file = sum(
        tokens.count(json.dumps({key: tool[key] for key in keys}, separators=(",", ":"))) for tool in tools
    )

    done = installed("bench", "tokens", "--json", "--tools", str(file))

    assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads(done.stdout)
    assert figures["promises"] == PROMISES
    assert (figures["servers"], figures["tools"], figures["task_rows"]) == (8, 306, 5_000)
    assert of_the_file < figures["plain"]["definitions"] < of_the_file + 1_000
    assert figures["plain_tokens"] == sum(figures["plain"].values())
    assert figures["sealyard_tokens"] == sum(figures["sealyard"].values())
    assert figures["surface_tokens"] == figures["sealyard"]["definitions"] + figures["sealyard"]["instructions"]
    assert figures["surface_tokens"] <= 1_000
    assert figures["search_tokens_default"] <= 300
    assert figures["saving"] == 1 - figures["sealyard_tokens"] / figures["plain_tokens"]
    assert figures["saving"] >= 0.99


def test_file_that_holds_no_tools_is_named_with_the_line(sealyard: Command, tmp_path: Path) -> None:
    """A line that is no tool is a mistake of the request, with its number."""
    file = tmp_path / "tools.jsonl"
    file.write_text('{"server": "a", "name": "b", "inputSchema": {}}\n\n{"server": "a"}\n', encoding="utf-8")

    done = sealyard("bench", "tokens", "--tools", str(file))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: Line 3 of {str(file)!r} is no tool: Object missing required field `name`. "
        "Give one JSON object a line with server, name and inputSchema.\n"
    )
