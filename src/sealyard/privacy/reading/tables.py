"""Tables in a text: CSV and its kin, and tables drawn with bars. Cells keep their offsets.

Lines are split, counted and put into columns a run at a time, and equal lines are examined once: a text may consist of
short lines only, and most lines begin no table.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise, zip_longest
from operator import add, is_not

from sealyard.privacy.reading.fields import Cells, Field, Leaf
from sealyard.privacy.reading.lexicon import MOST_COLUMNS, is_header
from sealyard.privacy.reading.literals import PlacedText, place
from sealyard.privacy.reading.views import rewritten

_BARS = re.compile(r"[|│┃]")
_BORDER = re.compile(r"[\s|+:=\-─━┄│┃┌┬┐├┼┤└┴┘╞╪╡┏┳┓┗┻┛┠╂┨╒╤╕╘╧╛]+")
_DELIMITERS = "\t;,"
_LONGEST_LINE = 200_000  # a longer line is not a header
_SENTENCE = frozenset("the and or a an to is are was in for with that which und der die et le la y el e o en".split())
_FEW_ROWS = 12
"""Rows that are put into the columns one by one: to turn them into columns first costs more."""
_MOST_PADDED = 4
"""Padding may make the cells of a run this many times as many, to give all rows the same length."""


class Lines:
    """The lines of a stretch of a text, without their line breaks."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._written = written = text[start:end]
        self.texts = written.split("\n")
        if written.endswith("\n"):
            self.texts.pop()
        self._start = start
        self._starts: list[int] = []
        self._headers: dict[tuple[str, str], bool] = {}
        if "\r" in written:
            self.starts  # noqa: B018 - while the lines are as long as they are written
            self.texts = [line.removesuffix("\r") for line in self.texts]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def starts(self) -> list[int]:
        """The start of each line in the text."""
        if not self._starts:
            self._starts = list(accumulate(map(_WITH_BREAK, map(len, self.texts)), initial=self._start))
        return self._starts

    def span(self, index: int) -> tuple[int, int]:
        """The start of a line, and its end before the line break."""
        start = self.starts[index]
        return start, start + len(self.texts[index])

    def beginnings(self) -> list[int]:
        """The numbers of the lines that may begin a table, judged by a line and the next one, in order."""
        found: set[int] = set()
        texts = self.texts
        for delimiter in _DELIMITERS:
            if delimiter in self._written:
                found.update(self._delimited(delimiter))
        if any(sign in self._written for sign in "|│┃"):
            found.update(index for index, line in enumerate(texts) if _BARS.search(line))
        return sorted(index for index in found if index + 1 < len(texts) and len(texts[index]) <= _LONGEST_LINE)

    def is_header(self, line: str, delimiter: str) -> bool:
        """Returns True if a line without cells in quotation marks names columns when it is split at every such sign."""
        known = self._headers.get((line, delimiter))
        if known is None:
            known = _is_compact(line, delimiter) and is_header([cell.strip() for cell in line.split(delimiter)])
            self._headers[line, delimiter] = known
        return known

    def _delimited(self, delimiter: str) -> Iterator[int]:
        """The numbers of the lines that may begin a table with that sign between its cells."""
        first = {
            line
            for line, following in pairwise(self.texts)
            if delimiter in line and (delimiter in following or '"' in following or '"' in line)
        }
        # A table without a header has at least three columns.
        first = {
            line
            for line in first
            if line.count(delimiter) > 1 or _has_quoted(line, delimiter) or self.is_header(line, delimiter)
        }
        if first:
            for index, line in enumerate(self.texts):
                if line in first:
                    yield index


_WITH_BREAK = (1).__add__


def read_table(text: str, lines: Lines, index: int) -> tuple[Field, int] | None:
    """The table whose first line has that number, as a record of columns, and the number of the line after it."""
    line = lines.texts[index]
    if len(_BARS.findall(line, 0, 4_000)) > 1 or (" | " in line and _is_border(lines.texts[index + 1])):
        return _read_bars(lines, index)
    for delimiter in _DELIMITERS:
        if delimiter in line:
            found = _read_delimited(text, lines, index, delimiter)
            if found is not None:
                return found
    return None


def _is_border(line: str) -> bool:
    return len(line) > 2 and _BORDER.fullmatch(line) is not None and any(each in line for each in "-─━=")


def _columns(table: Field, names: list[str]) -> list[Field]:
    columns = [table.child(name or f"#{position}") for position, name in enumerate(names)]
    for column in columns:
        column.leaves = Cells()
    return columns


def _fill(columns: list[Field], cells: list[Leaf]) -> None:
    """Puts a row's cells into the columns; surplus cells go into the last."""
    if len(cells) > len(columns):
        columns = columns + columns[-1:] * (len(cells) - len(columns))
    for column, cell in zip(columns, cells, strict=False):
        if cell[0]:
            column.leaves.append(cell)


def _name_columns(columns: list[Field], cells: list[Leaf]) -> None:
    for column, (name, start, _) in zip(columns, cells, strict=True):
        column.header = [
            *column.header,
            name if isinstance(name, PlacedText) else place(str(name), start, start + len(str(name))),
        ]


# Delimited


def _read_delimited(text: str, lines: Lines, index: int, delimiter: str) -> tuple[Field, int] | None:
    width, after = _width(text, lines, index, delimiter)
    if width < 2 or width > MOST_COLUMNS or after >= len(lines):
        return None
    second, _ = _width(text, lines, after, delimiter)
    if second < 2:
        return None
    table = Field("")
    if width >= second and _is_named(text, lines, index, delimiter):
        first, _ = _row(text, lines, index, delimiter)
        columns = _columns(table, [str(cell).strip() for cell, _, _ in first])
        _name_columns(columns, first)
        index = after
    else:
        if width < 3 or second != width or not _repeats(text, lines, after, delimiter, width):
            return None
        if lines.texts[index].isspace():
            return None  # a table ends there, so none begins
        columns = _columns(table, [""] * width)
    texts = lines.texts
    while index < len(lines):
        after = _run(texts, index, delimiter)
        if after > index:
            _fill_run(columns, texts[index:after], lines.starts[index:after], delimiter)
            index = after
            continue
        if texts[index].strip() == "":
            break
        cells, after = _row(text, lines, index, delimiter)
        if len(cells) < 2:
            break
        _fill(columns, cells)
        index = after
    return table, index


def _width(text: str, lines: Lines, index: int, delimiter: str) -> tuple[int, int]:
    """The number of cells in the row that begins in a line, and the number of the line after it."""
    line = lines.texts[index]
    if not _has_quoted(line, delimiter):
        return line.count(delimiter) + 1, index + 1
    cells, after = _row(text, lines, index, delimiter)
    return len(cells), after


def _has_quoted(line: str, delimiter: str) -> bool:
    """Returns True if a cell of the line begins with a quotation mark."""
    return '"' in line and (line.startswith(('"', ' "')) or f'{delimiter}"' in line or f'{delimiter} "' in line)


def _is_named(text: str, lines: Lines, index: int, delimiter: str) -> bool:
    """Returns True if the row that begins in a line names columns."""
    line = lines.texts[index]
    if not _has_quoted(line, delimiter):
        return lines.is_header(line, delimiter)
    cells, _ = _row(text, lines, index, delimiter)
    return _is_compact(line, delimiter) and is_header([str(cell).strip() for cell, _, _ in cells])


def _is_compact(line: str, delimiter: str) -> bool:
    """True if the commas of a line are a table's rather than a sentence's."""
    if delimiter != "," or line.count(", ") * 2 <= line.count(","):
        return True
    return not line.rstrip().endswith((".", ":", ";", "!", "?")) and _SENTENCE.isdisjoint(line.casefold().split())


def _repeats(text: str, lines: Lines, index: int, delimiter: str, width: int) -> bool:
    """True if the next two rows have as many cells."""
    for _ in range(2):
        if index >= len(lines):
            return False
        cells, index = _width(text, lines, index, delimiter)
        if cells != width:
            return False
    return True


def _run(texts: list[str], index: int, delimiter: str) -> int:
    """The number of the first line that is not a row, or has quotation marks."""
    for after in range(index, len(texts)):
        line = texts[after]
        if delimiter not in line or line.isspace() or _has_quoted(line, delimiter):
            return after
    return len(texts)


def _fill_run(columns: list[Field], texts: list[str], starts: Sequence[int], delimiter: str) -> None:
    """Puts many rows into the columns at once, as `_fill` does one by one."""
    rows = [line.split(delimiter) for line in texts]
    width = len(columns)
    if (
        len(rows) <= _FEW_ROWS
        or max(map(len, rows)) * len(rows) > _MOST_PADDED * sum(map(len, rows))
        or len(set(columns)) < width
    ):
        for row, start in zip(rows, starts, strict=True):
            _fill(columns, _placed_cells(row, start))
        return
    last: tuple[list[tuple[str, ...]], list[Sequence[int]]] = ([], [])
    for position, cells in enumerate(zip_longest(*rows, fillvalue="")):
        if position < width - 1:
            _add_cells(columns[position], cells, starts)
        else:
            last[0].append(cells)
            last[1].append(starts)
        starts = list(map(add, starts, map(_WITH_BREAK, map(len, cells))))
    if len(last[0]) == 1:
        _add_cells(columns[-1], last[0][0], last[1][0])
    elif last[0]:  # rows with more cells than there are columns
        _add_cells(
            columns[-1],
            list(chain.from_iterable(zip(*last[0], strict=True))),
            list(chain.from_iterable(zip(*last[1], strict=True))),
        )


def _add_cells(column: Field, written: Sequence[str], starts: Sequence[int]) -> None:
    kept = list(map(str.strip, written))
    if any(map(is_not, kept, written)):
        leaves = [_placed_cell(cell, start) for cell, start in zip(written, starts, strict=True)]
        column.leaves.extend(leaf for leaf in leaves if leaf[0])
        return
    if "" in kept:
        starts = [start for cell, start in zip(kept, starts, strict=True) if cell]
        kept = [cell for cell in kept if cell]
    assert isinstance(column.leaves, Cells)
    column.leaves.texts += kept
    column.leaves.starts += starts


def _placed_cells(row: list[str], start: int) -> list[Leaf]:
    cells = []
    for written in row:
        cells.append(_placed_cell(written, start))
        start += len(written) + 1
    return cells


def _placed_cell(written: str, start: int) -> Leaf:
    if written and (written[0] <= " " or written[-1] <= " "):
        return _stripped(written, start)
    return written, start, None


def _row(text: str, lines: Lines, index: int, delimiter: str) -> tuple[list[Leaf], int]:
    """The cells of the row that begins in a line, and the number of the line after it. Quoted cells may hold breaks."""
    start, end = lines.span(index)
    line = lines.texts[index]
    if not _has_quoted(line, delimiter):
        return _placed_cells(line.split(delimiter), start), index + 1
    cells: list[Leaf] = []
    position = start
    quoted = _QUOTED[delimiter]
    while True:
        match = quoted.match(text, position)
        if match is not None and match.end(1) - match.start(1) < 100_000:
            begin, stop = match.span(1)
            written = text[begin:stop]
            view = rewritten(written, _DOUBLED, lambda _: '"') if '""' in written else None
            cells.append((place(written if view is None else view.text, begin, stop, view, '"'), begin, None))
            position = match.end()
            while position > end and index + 1 < len(lines):
                index += 1
                end = lines.span(index)[1]
        else:
            stop = text.find(delimiter, position, end)
            stop = end if stop < 0 else stop
            cells.append(_stripped(text[position:stop], position))
            position = stop
        if position >= end:
            return cells, index + 1
        position += 1


_DOUBLED = re.compile('""')
"""A quotation mark in a quoted cell."""
_QUOTED = {
    delimiter: re.compile(rf'[ ]?"((?:[^"]+|"")*+)"[ \r]*(?={re.escape(delimiter)}|\n|\Z)') for delimiter in "\t;,"
}


def _stripped(written: str, start: int) -> Leaf:
    kept = written.strip()
    return kept, start + len(written) - len(written.lstrip()), None


# Drawn with bars


def _read_bars(lines: Lines, index: int) -> tuple[Field, int] | None:
    header = _bar_cells(lines, index)
    names = [str(cell) for cell, _, _ in header]
    following = index + 1
    while following < len(lines) and _is_border(lines.texts[following]):
        following += 1
    if following >= len(lines) or len(_bar_cells(lines, following)) < 2:
        return None
    table = Field("")
    if is_header(names):
        columns = _columns(table, names)
        _name_columns(columns, header)
        index = following
    elif len(names) >= 2:
        columns = _columns(table, [""] * len(names))
    else:
        return None
    while index < len(lines):
        if not _is_border(lines.texts[index]):
            cells = _bar_cells(lines, index)
            if len(cells) < 2:
                break
            _fill(columns, cells)
        index += 1
    return table, index


def _bar_cells(lines: Lines, index: int) -> list[Leaf]:
    start = lines.starts[index]
    cells: list[Leaf] = []
    for written in _BARS.split(lines.texts[index]):
        cells.append(_stripped(written, start))
        start += len(written) + 1
    if cells and not cells[0][0]:
        del cells[0]
    if cells and not cells[-1][0]:
        cells.pop()
    return cells
