"""Tables in a text: CSV and its kin, tables drawn with bars, columns aligned by spaces. Cells keep their offsets."""

import re
from functools import lru_cache

from sealyard.privacy.fields import Field, Leaf
from sealyard.privacy.names import read_name
from sealyard.privacy.placed import PlacedText, place, undouble
from sealyard.privacy.span import TOKEN

__all__ = ("Line", "read_table")

Line = tuple[int, int]
"""Where a line begins, and where it ends before its line break."""

_BARS = re.compile(r"[|│┃]")
_BORDER = re.compile(r"[\s|+:=\-─━┄│┃┌┬┐├┼┤└┴┘╞╪╡┏┳┓┗┻┛┠╂┨╒╤╕╘╧╛]+")
_CELL = re.compile(r"[^\s](?:[^\s]|[ ](?![ ]))*")
_WORD = re.compile(r"\S+")
_DATA = re.compile(r"[-+$€£]?\d[\d.,:/\s%-]*|.*@.*|https?://.*", re.DOTALL)
_LONGEST_HEADER = 60
_SENTENCE = frozenset("the and or a an to is are was in for with that which und der die et le la y el e o en".split())
_MOST_COLUMNS = 20_000
_MOST_ALIGNED = 200
_LOOKED_AT = 20
"""Rows that decide whether a line is the header of an aligned table."""


def read_table(text: str, lines: list[Line], index: int) -> tuple[Field, int] | None:
    """The table whose first line is `lines[index]`, as a record of columns, and the index of the line after it."""
    start, end = lines[index]
    if end - start > 200_000:
        return None
    line = text[start:end]
    if len(_BARS.findall(line, 0, 4_000)) > 1 or (
        " | " in line and index + 1 < len(lines) and _is_border(text, lines[index + 1])
    ):
        return _read_bars(text, lines, index)
    for delimiter in "\t;,":
        if delimiter in line:
            found = _read_delimited(text, lines, index, delimiter)
            if found is not None:
                return found
    if "  " in line.strip():
        return _read_aligned(text, lines, index)
    return None


def is_header(names: list[str]) -> bool:
    """Whether a row's cells are the names of columns: short, different, no data, and at least one is known."""
    if len(names) - names.count("") < 2 or len(names) > _MOST_COLUMNS or len(set(names)) < len(names) - names.count(""):
        return False
    return _are_names(tuple(names))


@lru_cache(maxsize=2_000)
def _are_names(names: tuple[str, ...]) -> bool:
    for name in names:
        if len(name) > _LONGEST_HEADER or name.count(" ") > 5 or (name and _DATA.fullmatch(name)) or TOKEN.search(name):
            return False
    meanings = (read_name(name) for name in names if name)
    return any(meaning.kind or meaning.is_thing for meaning in meanings)


def _is_border(text: str, line: Line) -> bool:
    written = text[line[0] : line[1]]
    return len(written) > 2 and _BORDER.fullmatch(written) is not None and any(each in written for each in "-─━=")


def _columns(table: Field, names: list[str]) -> list[Field]:
    return [table.child(name or f"#{position}") for position, name in enumerate(names)]


def _fill(columns: list[Field], cells: list[Leaf]) -> None:
    """Puts a row's cells into the columns; what is more than there are goes into the last."""
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


def _read_delimited(text: str, lines: list[Line], index: int, delimiter: str) -> tuple[Field, int] | None:
    first, after = _row(text, lines, index, delimiter)
    if len(first) < 2 or len(first) > _MOST_COLUMNS or after >= len(lines):
        return None
    second, _ = _row(text, lines, after, delimiter)
    names = [str(cell).strip() for cell, _, _ in first]
    width = len(names)
    if len(second) < 2:
        return None
    table = Field("")
    if width >= len(second) and (delimiter != "," or _is_compact(text, lines[index])) and is_header(names):
        columns = _columns(table, names)
        _name_columns(columns, first)
        index = after
    else:
        if width < 3 or len(second) != width or not _repeats(text, lines, after, delimiter, width):
            return None
        columns = _columns(table, [""] * width)
    while index < len(lines):
        if text[lines[index][0] : lines[index][1]].strip() == "":
            break
        cells, after = _row(text, lines, index, delimiter)
        if len(cells) < 2:
            break
        _fill(columns, cells)
        index = after
    return table, index


def _is_compact(text: str, line: Line) -> bool:
    """Whether the commas of a line are a table's rather than a sentence's."""
    written = text[line[0] : line[1]]
    if written.count(", ") * 2 <= written.count(","):
        return True
    return not written.rstrip().endswith((".", ":", ";", "!", "?")) and _SENTENCE.isdisjoint(written.casefold().split())


def _repeats(text: str, lines: list[Line], index: int, delimiter: str, width: int) -> bool:
    """Whether the next two lines have as many cells."""
    for _ in range(2):
        if index >= len(lines):
            return False
        cells, index = _row(text, lines, index, delimiter)
        if len(cells) != width:
            return False
    return True


def _row(text: str, lines: list[Line], index: int, delimiter: str) -> tuple[list[Leaf], int]:
    """The cells of the row that begins in a line, and the index of the line after it. A quoted cell may hold breaks."""
    start, end = lines[index]
    line = text[start:end]
    cells: list[Leaf] = []
    if '"' not in line:
        for written in line.split(delimiter):
            if written and (written[0] <= " " or written[-1] <= " "):
                cells.append(_stripped(written, start))
            else:
                cells.append((written, start, None))
            start += len(written) + 1
        return cells, index + 1
    position = start
    quoted = _QUOTED[delimiter]
    while True:
        match = quoted.match(text, position)
        if match is not None and match.end(1) - match.start(1) < 100_000:
            begin, stop = match.span(1)
            written = text[begin:stop]
            decoded, pieces = undouble(written) if '""' in written else (written, None)
            cells.append((place(decoded, begin, stop, pieces, '"'), begin, None))
            position = match.end()
            while position > end and index + 1 < len(lines):
                index += 1
                end = lines[index][1]
        else:
            stop = text.find(delimiter, position, end)
            stop = end if stop < 0 else stop
            cells.append(_stripped(text[position:stop], position))
            position = stop
        if position >= end:
            return cells, index + 1
        position += 1


_QUOTED = {
    delimiter: re.compile(rf'[ ]?"((?:[^"]+|"")*+)"[ \r]*(?={re.escape(delimiter)}|\n|\Z)') for delimiter in "\t;,"
}


def _stripped(written: str, start: int) -> Leaf:
    kept = written.strip()
    return kept, start + len(written) - len(written.lstrip()), None


# Drawn with bars


def _read_bars(text: str, lines: list[Line], index: int) -> tuple[Field, int] | None:
    header = _bar_cells(text, lines[index])
    names = [str(cell) for cell, _, _ in header]
    following = index + 1
    while following < len(lines) and _is_border(text, lines[following]):
        following += 1
    if following >= len(lines) or len(_bar_cells(text, lines[following])) < 2:
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
        if not _is_border(text, lines[index]):
            cells = _bar_cells(text, lines[index])
            if len(cells) < 2:
                break
            _fill(columns, cells)
        index += 1
    return table, index


def _bar_cells(text: str, line: Line) -> list[Leaf]:
    start, end = line
    cells: list[Leaf] = []
    for written in _BARS.split(text[start:end]):
        cells.append(_stripped(written, start))
        start += len(written) + 1
    if cells and not cells[0][0]:
        del cells[0]
    if cells and not cells[-1][0]:
        cells.pop()
    return cells


# Aligned by spaces


def _read_aligned(text: str, lines: list[Line], index: int) -> tuple[Field, int] | None:
    start = lines[index][0]
    following = index + 2 if _is_border(text, lines[index + 1]) else index + 1
    headers = [_cells(pattern, text, lines[index]) for pattern in (_CELL, _WORD)]
    headers = [each for each in headers if len(each) <= _MOST_ALIGNED and is_header([str(cell) for cell in each])]
    if not headers:
        return None
    header = _best_header(headers, [_cells(_CELL, text, line) for line in lines[following : following + _LOOKED_AT]])
    if header is None:
        return None
    table = Field("")
    columns = [table.child(str(cell)) for cell in header]
    _name_columns(columns, [(cell, cell.start, None) for cell in header])
    edges = [(cell.start - start, cell.end - start) for cell in header]
    index = following
    while index < len(lines):
        cells = _cells(_CELL, text, lines[index])
        if not cells:
            break
        if len(cells) == len(columns) + 1:  # a frame's index stands before the columns
            table.child("#").leaves.append((cells[0], cells.pop(0).start, None))
        for position, cell in enumerate(cells):
            if len(cells) != len(columns):
                position = _nearest(edges, cell.start - lines[index][0], cell.end - lines[index][0])
            columns[position].leaves.append((cell, cell.start, None))
        index += 1
    return table, index


def _best_header(headers: list[list[PlacedText]], rows: list[list[PlacedText]]) -> list[PlacedText] | None:
    """The header, split at wide gaps or at every one, that has as many names as most rows have cells."""
    rows = rows[: next((at for at, cells in enumerate(rows) if not cells), len(rows))]
    best: tuple[int, list[PlacedText] | None] = (0, None)
    for header in headers:
        fitting = sum(len(cells) > 1 and len(cells) in (len(header), len(header) + 1) for cells in rows)
        best = max(best, (fitting, header), key=lambda each: each[0])
    return best[1] if best[0] * 2 >= len(rows) else None


def _cells(pattern: re.Pattern[str], text: str, line: Line) -> list[PlacedText]:
    return [place(match.group(), match.start(), match.end()) for match in pattern.finditer(text, *line)]


def _nearest(edges: list[Line], start: int, end: int) -> int:
    """The column whose header lies over the cell, or is nearest to it."""
    return min(range(len(edges)), key=lambda at: max(edges[at][0] - end, start - edges[at][1]))
