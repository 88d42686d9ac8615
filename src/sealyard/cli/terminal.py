"""Output of commands, safe to show: text from agent code may hold sequences that command a terminal."""

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import click
import msgspec
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

Cell: TypeAlias = str | int | Text

screen = Console(highlight=False, markup=False, emoji=False)
errors = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}
_BIDI = {code: f"\\u{code:04x}" for code in (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))}
_SPELLED = _CONTROLS | _BIDI
_PIECE = re.compile(r"\n|[^\S\n]+|\S+")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def visible(text: str) -> str:
    """Spell out control characters, so that a terminal shows them instead of obeying them.

    A carriage return that does not end a line would let what follows overwrite it, and others begin another line or
    show the text in another order than it is written in.
    """
    return text.replace("\r\n", "\n").translate(_SPELLED)


def plain(text: str, style: str = "") -> Text:
    """Return the text for a rich table or line, visible and never read as markup."""
    return Text(visible(text), style=style)


def say(text: str | Text, style: str = "") -> None:
    """Print a text, wrapped between words to the width of the terminal."""
    screen.print(plain(text, style) if isinstance(text, str) else text)


def say_unwrapped(text: str, style: str = "") -> None:
    """Print one line, however long it is: a path or a command that is to be copied."""
    screen.print(plain(text, style), soft_wrap=True)


def remark(text: str, style: str = "") -> None:
    """Print a text on standard error."""
    errors.print(plain(text, style))


def warn(text: str) -> None:
    """Print a warning on standard error."""
    remark(f"warning: {text}", "yellow")


def show_hint(hint: str | None) -> None:
    """Print what to do after a failure, if it is known, on standard error."""
    if hint:
        remark(f"hint: {hint}", "yellow")


class _Output:
    def __init__(self) -> None:
        self._waiting: list[str] | None = None
        """Texts that wait for the end of a question; None while none is open."""
        self._is_line_open = False

    def write(self, text: str) -> None:
        """Write to standard output at once, or after an open question.

        It is made visible on a terminal, and as it is in a file or a pipe.
        """
        if self._waiting is not None:
            self._waiting.append(text)
        elif text:
            self._is_line_open = not text.endswith("\n")
            click.echo(visible(text) if _is_shown() else text, nl=False)

    def end_line(self) -> None:
        """End the line of standard output that `write` left open, if any."""
        if self._is_line_open:
            self.write("\n")

    @contextmanager
    def hold(self) -> Iterator[None]:
        """While a question is open on standard error, at the beginning of a line, have what is written wait.

        Otherwise code could write between a question and its answer, or make its own text a part of the question.
        """
        if self._is_line_open and _is_shown():
            errors.print()
        self._waiting = []
        try:
            yield
        finally:
            waiting, self._waiting = "".join(self._waiting), None
            self.write(waiting)


def _is_shown() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


_output = _Output()
write, end_line, hold_output = _output.write, _output.end_line, _output.hold


def write_json(value: Any, *, indent: int | None = None) -> None:
    """Write a value as JSON, on one line or indented."""
    encoded = msgspec.json.encode(value)
    write((encoded if indent is None else msgspec.json.format(encoded, indent=indent)).decode() + "\n")


def columns(*names: str, rows: Iterable[Iterable[Cell]] = ()) -> Table:
    """Return a table without lines; cells are made visible, and fold rather than lose text."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_header=bool(names))
    for name in names:
        table.add_column(plain(name), overflow="fold")
    for row in rows:
        texts = (f"{cell:,}" if isinstance(cell, int) else cell for cell in row)
        table.add_row(*(plain(text) if isinstance(text, str) else text for text in texts))
    return table


def show_table(*names: str, rows: Iterable[Iterable[Cell]], title: str = "") -> None:
    """Print a table, below its title; nothing if it has no rows."""
    table = columns(*names, rows=rows)
    if not table.row_count:
        return
    if title:
        say(title, "bold")
    screen.print(table)


def show_facts(facts: Mapping[str, str | Text]) -> None:
    """Print a table of names and values, without those that are empty."""
    screen.print(columns(rows=[(name, value) for name, value in facts.items() if value]))


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on standard error. Call the function with the step, the work done and the total, or 0."""
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda step, done, total: bar.update(task, description=step, completed=done, total=total or None)


# Lines of others


class Margin:
    """Puts a margin before each line of a text that comes in pieces.

    Words that do not fit are wrapped here, since a terminal would begin its next row without the margin.
    """

    def __init__(self, margin: str, *, further: str = "") -> None:
        """`further` is the margin of wrapped rows, if it is another."""
        self._margin = margin
        self._further = further or margin
        self._width = 0
        """Of the terminal now: a person may resize it."""
        self._column = 0
        self._held = ""
        """A word that may go on."""

    def take(self, text: str) -> str:
        """What can be shown of the text so far."""
        self._width = max(errors.width - 1, len(self._further) + 2)
        pieces = _PIECE.findall(self._held + visible(text).expandtabs(4))
        self._held = ""
        if pieces and not pieces[-1].isspace() and len(pieces[-1]) < self._width:
            self._held = pieces.pop()
        return "".join(map(self._placed, pieces))

    def end(self) -> str:
        """The rest. What follows begins at the edge of a new line."""
        rest, self._held = self._placed(self._held) if self._held else "", ""
        self._column = 0
        return rest

    def _placed(self, piece: str) -> str:
        if piece == "\n":
            start = "" if self._column else self._margin.rstrip()
            self._column = 0
            return f"{start}\n"
        placed = ""
        room = self._width - len(self._further)
        for part in [piece] if cell_len(piece) <= room else chop_cells(piece, room):
            if self._column and self._column + cell_len(part) > self._width:
                placed += f"\n{self._further}"
                self._column = len(self._further)
                if part.isspace():
                    continue
            elif not self._column:
                placed += self._margin
                self._column = len(self._margin)
            placed += part
            self._column += cell_len(part)
        return placed


def in_margin(text: str, margin: str, further: str = "") -> str:
    """A whole text with a margin before each line, and `further` before each wrapped row."""
    lines = Margin(margin, further=further)
    return lines.take(text) + lines.end()


# Figures as words


def count(number: int, noun: str) -> str:
    """Such as `1 skill` or `2 skills`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def counts(found: Mapping[str, int]) -> str:
    """Such as `ok 12, failed 3`, the largest first."""
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {number:,}" for name, number in ordered if number) or "none"


def share(part: float | None) -> str:
    """Such as `97.5 %`; a dash if there is nothing to divide by. Only all of it is `100.0 %`."""
    if part is None:
        return "-"
    return "> 99.9 %" if 0.9995 <= part < 1 else f"{part * 100:.1f} %"


def seconds(taken: float | None) -> str:
    """Such as `12 ms` or `3.4 s`."""
    if taken is None:
        return "-"
    return f"{taken * 1e3:.3g} ms" if taken < 1 else f"{taken:.3g} s"


def size(bytes_: float) -> str:
    """Such as `3.4 MiB`."""
    unit = 0
    while abs(bytes_) >= 1024 and unit < len(_UNITS) - 1:
        bytes_, unit = bytes_ / 1024, unit + 1
    return f"{bytes_:,.0f} bytes" if unit == 0 else f"{bytes_:,.1f} {_UNITS[unit]}"


def dollars(amount: float) -> str:
    """Such as `$12.34`; less than a cent has more digits."""
    return f"{'-' if amount < 0 else ''}${abs(amount):,.{2 if abs(amount) >= 0.01 or not amount else 5}f}"


def day(at: float) -> str:
    """Such as `2026-03-01`, in UTC; a dash for no time."""
    return time.strftime("%Y-%m-%d", time.gmtime(at)) if at else "-"


def minute(at: float) -> str:
    """Such as `2026-03-01 14:05`, in UTC; a dash for no time."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at)) if at else "-"
