"""Rows on their way through the steps, the columns read from them, and the bounded answer at the end."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, TypeAlias

from .errors import AnalysisError, comma_list, kind_of, nearest, quoted
from .plan import Field, Group, Join, Limits, Row, Slice, Sort, Where
from .values import NUMBERS, as_float

_MISSING = object()
_FOLDER = "results"
_MOST_FILES = 10_000  # in one workspace: ends the search for a free name

Column: TypeAlias = Callable[[Sequence[Row]], list[Any]]
"""A function from rows to a value for each."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, and the rows before a filter: a field of those is known, even if no remaining row has it."""

    rows: list[Row]
    before: Sequence[Row] = ()
    added: frozenset[str] = frozenset()

    def fewer(self, rows: list[Row]) -> "Table":
        """Some of these rows, in any order."""
        return Table(rows, self.before or self.rows, self.added)

    def changed(self, rows: list[Row], *added: str) -> "Table":
        """These rows with some fields added or replaced."""
        return Table(rows, self.before, self.added.union(added))

    def reader(self, field: Field) -> Column:
        """The function that reads a field from some of the rows. All rows decide if its name is a path."""
        name, path = field.name, field.path
        if self.has(name):
            return lambda some: _values(name, some)
        if len(path) > 1 and any(reach(row, path, _MISSING) is not _MISSING for row in self._all()):
            return lambda some: [reach(row, path) for row in some]
        raise unknown_field(field, self._names(path))

    def read(self, field: Field) -> list[Any]:
        """The value of a field in each row."""
        return self.reader(field)(self.rows)

    def has(self, name: str) -> bool:
        """True if a row has a field of exactly this name, or if there never were rows."""
        if name in self.added or any(name in row for row in self._all()):
            return True
        return not self.rows and not self.before

    def require(self, fields: Iterable[Field]) -> None:
        """Refuses a field that no row has by exactly this name."""
        for field in fields:
            if not self.has(field.name):
                raise unknown_field(field, self._names(()))

    def _all(self) -> Iterable[Row]:
        yield from self.rows
        yield from self.before

    def _names(self, path: tuple[str, ...]) -> list[str]:
        """The fields of the rows, after those of the object that a dotted path points into."""
        inner: dict[str, Any] = {}
        for row in self._all() if len(path) > 1 else ():
            below = reach(row, path[:-1])
            if type(below) is dict:
                inner.update(below)
        return [".".join((*path[:-1], name)) for name in inner] + field_names(self._all()) + sorted(self.added)


Change: TypeAlias = Callable[[Table], Table]
"""A step that only the Python engine carries out: the function from the rows before it to the rows after it."""
Step: TypeAlias = Where | Group | Join | Sort | Slice | Change


def field_names(rows: Iterable[Row]) -> list[str]:
    """Every field of the rows, in the order in which they first appear."""
    names: dict[str, Any] = {}
    for row in rows:
        names.update(row)
    return list(names)


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[Row]:
    """A row for each place in columns of the same length."""
    # Copies of one empty row share its keys, which is the fastest way to make many small objects.
    empty: Row = dict.fromkeys(columns)
    rows = [empty.copy() for _ in next(iter(columns.values()), ())]
    for name, column in columns.items():
        for row, value in zip(rows, column, strict=True):
            row[name] = value
    return rows


def unknown_field(field: Field, names: Iterable[str]) -> AnalysisError:
    """The error for a field that is not among `names`."""
    known = list(dict.fromkeys(names))
    where = f" ({field.at})" if field.at else ""
    return AnalysisError(
        f"No field {field.name!r} in the rows{where}.{nearest(field.name, known)} Fields: {comma_list(known)}."
    )


def _values(name: str, rows: Sequence[Row]) -> list[Any]:
    try:
        return list(map(itemgetter(name), rows))
    except KeyError:
        return [row.get(name) for row in rows]


def reach(value: Any, path: Sequence[str], missing: Any = None) -> Any:
    """The value at the end of a path into nested objects; `missing` if there is none."""
    for name in path:
        if type(value) is not dict or name not in value:
            return missing
        value = value[name]
    return value


def numbers_of(table: Table, field: Field, *, ignore_others: bool = False) -> list[float | None]:
    """The numbers of a field, None for null and for what no float can hold.

    Args:
        table: The rows.
        field: One of their fields.
        ignore_others: True to count text, booleans, lists and objects as null instead of raising an error.
    """
    numbers: list[float | None] = []
    for row, value in enumerate(table.read(field)):
        if type(value) in NUMBERS:
            numbers.append(as_float(value))
        elif value is None or ignore_others:
            numbers.append(None)
        else:
            raise AnalysisError(
                f"{field.at}: {quoted(value)} ({kind_of(value)}) in field {field.name!r} is not a number, in row {row}."
                ' Cast the field in a transform first, or leave such values out with "invalid": "ignore".'
            )
    return numbers


def number_fields(table: Table, at: str) -> list[Field]:
    """The fields of the rows that hold numbers and nulls only, and not only nulls."""
    found = []
    for name in field_names(table.rows):
        field = Field(name, at)
        kinds = set(map(type, table.read(field))) - {type(None)}
        if kinds and kinds <= NUMBERS:
            found.append(field)
    return found


# Answers: the first rows, the number of rows, and a file with all of them if there are more


def bounded_answer(
    rows: Iterable[Row],
    *,
    name: str,
    rows_in: int,
    limits: Limits,
    engine: Literal["python", "duckdb"],
    notes: Iterable[str] = (),
) -> dict[str, Any]:
    """The answer of an analysis that gives rows; `rows` is read once, and not kept beyond the limits.

    More rows than `limits` allow are all written to a file `results/<name>-<number>.jsonl` of the working directory.
    """
    source = iter(rows)
    shown: list[Row] = []
    size = 0
    rest: Row | None = None
    for row in source:
        size += len(_line(row))
        if len(shown) >= limits.rows or size > limits.bytes:
            rest = row
            break
        shown.append(row)
    answer: dict[str, Any] = {"rows_in": rows_in, "rows_out": len(shown), "rows": shown}
    said = list(notes)
    if rest is not None:
        answer["truncated"] = True
        answer |= _kept(chain(shown, (rest,), source), name, said)
    if said:
        answer["notes"] = said
    answer["engine"] = engine
    return answer


def _kept(rows: Iterator[Row], name: str, notes: list[str]) -> dict[str, Any]:
    """The count of all rows, and the file that holds them if it can be written."""
    count = 0
    try:
        path = _new_file(name)
        try:
            with path.open("wb") as file:
                for row in rows:
                    count += 1
                    file.write(_line(row))
        except OSError:  # the disk is full: a part of the rows would pass for all
            path.unlink()
            raise
    except OSError as error:
        count += sum(1 for _ in rows)
        notes.append(f"The other rows are not kept: {_FOLDER} cannot be written ({error.strerror}).")
        return {"rows_out": count}
    return {"rows_out": count, "file": str(path)}


def _new_file(name: str) -> Path:
    folder = Path(_FOLDER)
    folder.mkdir(exist_ok=True)
    for number in range(1, _MOST_FILES):
        path = folder / f"{name}-{number}.jsonl"
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        except FileExistsError:
            continue
        return path
    raise OSError(0, f"it holds {_MOST_FILES} files")


def _line(row: Row) -> bytes:
    try:
        return f"{json.dumps(row, ensure_ascii=False, separators=(',', ':'))}\n".encode()
    except UnicodeEncodeError:  # half of a surrogate pair can be written in JSON, but not in UTF-8
        return f"{json.dumps(row, separators=(',', ':'))}\n".encode()
