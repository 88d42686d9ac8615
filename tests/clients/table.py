"""The table of clients and abilities in `docs/howto/clients.md`, made of what the tests have seen."""

import re
from pathlib import Path

from tests.clients.conversations import TRANSPORTS
from tests.clients.programs import PROGRAMS

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "clients.md"
HEADING = "## What works in each client"
ROWS = (
    "version",
    "settings in the entry",
    "the tools are in the first request",
    "search",
    "results of every kind",
    "a megabyte of result",
    "a failure",
    "skills",
    "a background run, to its end",
    "a background run, cancelled",
    "an operator approves a call",
    "an operator refuses a call",
    "Ctrl-C ends the run",
    "a killed client leaves nothing",
    "a wrong token",
    "tokens that sealyard adds to a request",
    "tokens that the client adds for it",
)
NOTES = {
    "by model": "Not for models with Codex's own `tool_search`, such as gpt-5.5: they see the name of the gateway and "
    "its instructions, and its tools after a search. Codex has no setting for that.",
    "tells the model": "It starts without the tools, and tells the model that the token was rejected.",
    "ends": "It ends with exit code 1 and an error about authentication.",
    "silent": "It starts without the tools and says nothing; `mcp list` of the client says that the gateway failed.",
    "log": "It starts without the tools and says nothing, also in its `mcp list`; its log has the reason.",
    "resources": "Three tools for resources, which Codex adds for any server.",
    "parameter": "A parameter `wait_for_previous`, which Gemini CLI adds to every tool.",
}
"""What a cell cannot say in a word, by its key; a cell refers to one with `[key]`."""
INTRODUCTION = """{heading}

Each cell is what a test saw of the client without a terminal, with a scripted model in place of its vendor's.
`init` had configured it, over standard input and output and over HTTP with a token, and *yes* holds for both.
Tokens are those of `o200k_base`, rounded up to hundreds.

"""
YES = "yes"


class Table:
    """The cells that have been found, each compared with the page unless the page is to be written."""

    def __init__(self, *, is_written: bool) -> None:
        self._found: dict[tuple[str, str], dict[str, str]] = {}
        self._page = None if is_written else read_cells()

    def add(self, row: str, client: str, cell: str = YES, transport: str = "") -> None:
        """Note what was seen of a client, over one transport or whichever."""
        assert row in ROWS
        self._found.setdefault((row, client), {})[transport] = cell
        if self._page is not None:
            assert cell == _part(self._page[row, client], transport), f"The page is wrong about {row!r}."

    def cells(self) -> dict[tuple[str, str], str]:
        """The text of each cell; one that needs both transports is there when both were seen."""
        found = {}
        for key, seen in self._found.items():
            if seen.keys() in ({""}, set(TRANSPORTS)):
                same = len(set(seen.values())) == 1
                parts = (f"{transport}: {cell}" for transport, cell in sorted(seen.items(), reverse=True))
                found[key] = next(iter(seen.values())) if same else "; ".join(parts)
        return found

    def section(self) -> str:
        """The section of the page, from its heading on."""
        cells = self.cells()
        used = [key for key in NOTES if any(f"[{key}]" in cell for cell in cells.values())]
        clients = list(PROGRAMS.values())
        lines = [["", *(client.title for client in clients)], ["---", *("---" for _ in clients)]]
        lines += [[row, *(cells.get((row, client.name), "") for client in clients)] for row in ROWS]
        text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        for number, key in enumerate(used, 1):
            text = text.replace(f"[{key}]", f" ({number})")
        notes = "".join(f"{number}. {NOTES[key]}\n" for number, key in enumerate(used, 1))
        return INTRODUCTION.format(heading=HEADING) + text + (f"\n{notes}" if notes else "")


def read_section() -> str:
    """The section as it is on the page."""
    return _parts()[1]


def read_cells() -> dict[tuple[str, str], str]:
    """The text of each cell on the page, by row and client, with the keys of its notes."""
    section = read_section()
    for number, note in re.findall(r"^(\d+)\. (.*)$", section, re.MULTILINE):
        key = next((key for key, words in NOTES.items() if words == note), "not a note")
        section = section.replace(f" ({number})", f"[{key}]")
    _, _, *lines = (line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|"))
    return {(row, client): cell for row, *cells in lines for client, cell in zip(PROGRAMS, cells, strict=True)}


def _part(cell: str, transport: str) -> str:
    """What a cell says of one transport."""
    parts = dict(part.split(": ", 1) for part in re.split(r"; (?=http: )", cell)) if cell.startswith("stdio: ") else {}
    return parts.get(transport, cell)


def write_section(section: str) -> None:
    """Replace the section of the page."""
    before, _, after = _parts()
    PAGE.write_text(before + section + after, encoding="utf-8")


def _parts() -> tuple[str, str, str]:
    before, heading, rest = PAGE.read_text(encoding="utf-8").partition(HEADING + "\n")
    section, following, after = rest.partition("\n## ")
    return before, heading + section, following + after
