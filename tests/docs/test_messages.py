"""What pages quote from sealyard is what it says, and the commands that they show exist."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

import sealyard.cli

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sealyard"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
TROUBLE = ROOT / "docs" / "howto" / "troubleshooting.md"
SHORTEST = 6
"""Characters of a quoted piece that is looked for: shorter ones stand between two figures and are found anywhere."""


@cache
def fixed_parts() -> list[str]:
    """The texts in the code, each f-string in the pieces between its figures; docstrings are none."""
    found = []
    for file in SOURCE.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        comments = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in comments
        ]
    return found


def pieces(line: str) -> list[str]:
    """The fixed pieces of a quoted message, where `…` stands for names and figures, and a colon for another message."""
    return [piece for each in re.split("…|: ", line) if len(piece := each.strip(" .:,;()'")) >= SHORTEST]


def unknown(message: str, parts: list[str]) -> list[str]:
    """The pieces of a message that sealyard never says."""
    return [piece for piece in pieces(message) if not any(piece in part for part in parts)]


def quoted(page: Path) -> list[str]:
    """The messages that a page shows as text."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


@pytest.mark.behaviour("docs.messages")
def test_messages_on_the_troubleshooting_page_are_those_of_the_product() -> None:
    """A reader finds the page by the words on the screen, so each of them is in the code."""
    parts = fixed_parts()
    messages = quoted(TROUBLE)

    missing = {message: found for message in messages if (found := unknown(message, parts))}

    assert missing == {}
    assert len(messages) >= 15
    assert [message for message in messages if not pieces(message)] == []


def test_a_message_that_is_not_said_is_noticed() -> None:
    """The control of the test above: one word that was changed is found."""
    parts = fixed_parts()

    assert unknown("There is no file …. Give a sealyard.toml or an MCP client's file.", parts) == []
    assert unknown("There is no file …. Give a sealyard.toml or a client's file.", parts) == [
        "Give a sealyard.toml or a client's file"
    ]


def commands(page: Path) -> Iterator[str]:
    """The lines of a page's shell blocks that run sealyard."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^ *```(?:sh|console)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if (found := re.match(r"\s*(?:\$ )?(sealyard .*)", line)) is not None:
                yield found[1]


def mistake(line: str) -> str | None:
    """The command or the option of a line that does not exist; None if all do."""
    try:
        words = shlex.split(line, comments=True)[1:]
    except ValueError:  # a quoted argument that goes on in the next line
        words = line.split()[1:]
    for end in ("|", ">", ">>", "<", "&&", ";"):
        words = words[: words.index(end)] if end in words else words
    command: click.Command = sealyard.cli._sealyard
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        name = words.pop(0)
        if command is sealyard.cli._sealyard:
            if name not in sealyard.cli._COMMANDS:
                return name
            command = sealyard.cli.find_command(name)
        elif name in command.commands:
            command = command.commands[name]
        else:
            return name
    known = {each for parameter in command.params for each in (*parameter.opts, *parameter.secondary_opts)}
    given = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
    return next((each for each in given if each not in known | {"--help", "--version"}), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_on_a_page_exist(page: Path) -> None:
    """Every command and option that a reader is to type is known to sealyard."""
    assert {line: found for line in commands(page) if (found := mistake(line)) is not None} == {}


def test_a_command_that_does_not_exist_is_noticed() -> None:
    """The control of the test above."""
    assert mistake("sealyard skills serach money") == "serach"
    assert mistake("sealyard tools --stats | head") == "--stats"
    assert mistake("sealyard skills search 'a b' --limit 3  # --not-one") is None
