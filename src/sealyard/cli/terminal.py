"""What goes to the terminal, made safe: text from agent code may hold sequences that command a terminal."""

import sys

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

screen = Console(highlight=False, markup=False, emoji=False)
errors = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r"}


def visible(text: str) -> str:
    """The text with control characters spelled out, so that a terminal shows them instead of obeying them."""
    return text.translate(_CONTROLS)


def plain(text: str, style: str = "") -> Text:
    """The text for a rich table or line, visible and never read as markup."""
    return Text(visible(text), style=style)


def write(text: str) -> None:
    """Write to standard output at once: made visible on a terminal, as it is into a file or a pipe."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    click.echo(visible(text) if on_terminal else text, nl=False)


def columns(*names: str) -> Table:
    """An empty table without lines; cells fold rather than lose text."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_header=bool(names))
    for name in names:
        table.add_column(name, overflow="fold")
    return table
