"""The engine for large files: DuckDB does the first steps of a plan, the Python engine the rest.

The invariant: DuckDB reads one file, which is named before it is locked, and nothing else; it writes nowhere, loads no
extension, sees no variable of Python, and no text of a request or a file is ever SQL.

Answers equal those of the Python engine. Where DuckDB cannot give them, for a pattern in Python's syntax or a field of
mixed kinds, `begin` gives up, or leaves that step to Python.
"""

# ruff: noqa: S608 - see the invariant

import contextlib
import json
import math
import os
import resource
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .duck_files import CsvFile, JsonFile, ParquetFile, RowFile
from .duck_sql import Query, Unsupported
from .errors import AnalysisError
from .plan import (
    MAX_ROWS,
    AllOf,
    AnyOf,
    Call,
    Comparison,
    Constant,
    Expression,
    Field,
    FileFormat,
    Group,
    Join,
    Not,
    Row,
    Slice,
    Sort,
    Step,
    ToolAnswer,
    Where,
    fields_of,
)

if TYPE_CHECKING:
    import duckdb

LEAST_BYTES = 4 << 20
"""The smallest file for DuckDB: Python finishes smaller ones before it has started. Parquet of any size is for it."""

_MEMORY_SHARE = 6  # DuckDB's share is a sixth of the address space: it maps about twice that, Python the rest
_MOST_MEMORY = 4 << 30  # where the run has no limit
_CHUNK = 1 << 20  # bytes of a file searched at once
_FETCHED = 10_000  # rows fetched at once
# DuckDB reads this file when it starts, and ends the whole process if the file exists and cannot be read.
_LOOKED_UP = "/proc/self/cgroup"

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "allow_unsigned_extensions": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_file_cache": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}


@dataclass(frozen=True, slots=True)
class Started:
    """The work that DuckDB has done: the rows so far, the number of rows in the file, and the remaining steps."""

    rows: list[Row]
    rows_in: int
    steps: tuple[Step, ...]


def is_usable() -> bool:
    """True if DuckDB is installed and can run in this sandbox."""
    try:
        with open(_LOOKED_UP, "rb"):
            pass
    except FileNotFoundError:
        pass
    except OSError:
        return False
    try:
        import duckdb  # noqa: F401, PLC0415 - a slow import
    except ImportError:
        return False
    return True


def begin(
    file: str, file_format: FileFormat, steps: Sequence[Step], *, least_bytes: int = LEAST_BYTES
) -> Started | None:
    """Do as many of the first steps as DuckDB can; None if the Python engine should do the whole plan.

    A remaining step may name a field of rows that are filtered out already: if the Python engine finds a mistake in the
    remaining steps, it has to do the whole plan.
    """
    if file_format != "parquet" and os.path.getsize(file) < least_bytes:
        return None
    if any(isinstance(step, Join) and isinstance(step.source, ToolAnswer) for step in steps):
        return None  # a second attempt by Python would call the tool again
    parts, after = _opening(steps)
    if not parts and not isinstance(after[0] if after else None, Group | Sort | Slice):
        return None
    if not is_usable() or (file_format.startswith("json") and _has_dotted_name(file, fields_of(tuple(steps)))):
        return None
    import duckdb  # noqa: PLC0415 - a slow import

    try:
        with _open(file) as (connection, link):
            rows = _ROW_FILES[file_format](connection, link)
            rows.profile(fields_of((parts, tuple(after[:1]))))
            return _carry_out(connection, rows, parts, after)
    except (
        Unsupported,
        duckdb.Error,
        ValueError,
        RecursionError,
    ):  # Python reports the mistake, if any
        return None


def read_parquet(file: str) -> list[Row]:
    """Every row of a Parquet file, as JSON values."""
    if not is_usable():
        raise AnalysisError(
            "Parquet is read by DuckDB, which this sandbox does not offer. Save the rows as CSV or JSON lines."
        )
    import duckdb  # noqa: PLC0415 - a slow import

    name = os.path.basename(file)
    try:
        with _open(file) as (connection, link):
            rows = ParquetFile(connection, link)
            rows.profile(())
            if rows.rows > MAX_ROWS:
                raise AnalysisError(
                    f"{name!r} has {rows.rows} rows, and at most {MAX_ROWS} are read at once. "
                    "Begin with a filter or an aggregate."
                )
            query = Query({})
            return rows.rows_of(_rows(connection, f"SELECT * FROM {rows.relation(query, whole=True)}", query))
    except Unsupported:
        raise AnalysisError(f"{name!r} has a column of a type that has no form in JSON. Leave it out.") from None
    except duckdb.Error:  # its message may quote the file
        raise AnalysisError(f"{name!r} is no Parquet file that can be read here. Write it anew.") from None


_ROW_FILES: dict[FileFormat, Callable[["duckdb.DuckDBPyConnection", str], RowFile]] = {
    "json": lambda connection, file: JsonFile(connection, file, lines=False),
    "jsonl": lambda connection, file: JsonFile(connection, file, lines=True),
    "csv": CsvFile,
    "parquet": ParquetFile,
}


def _opening(steps: Sequence[Step]) -> tuple[tuple[Expression, ...], list[Step]]:
    """The conditions at the beginning of a plan, all of them to be met, and the steps after them."""
    parts: list[Expression] = []
    rest = list(steps)
    while rest and isinstance(rest[0], Where):
        condition = rest.pop(0).condition  # type: ignore[union-attr]
        parts += condition.parts if isinstance(condition, AllOf) else (condition,)
    return tuple(parts), rest


def _carry_out(
    connection: "duckdb.DuckDBPyConnection", rows: RowFile, parts: tuple[Expression, ...], after: list[Step]
) -> Started | None:
    ours, theirs = _shared_out(rows, parts)
    if theirs:
        after = [Where(at="conditions", condition=AllOf(theirs)), *after]
    elif after and isinstance(after[0], Group):
        with contextlib.suppress(Unsupported):
            return _grouped(connection, rows, ours, after[0], after[1:])
    return _kept(connection, rows, ours, after)


def _shared_out(rows: RowFile, parts: tuple[Expression, ...]) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """The conditions that SQL tests, and those that Python tests.

    Conditions after one that may be an error are for Python too: they may rely on being tested only then.
    """
    ours: list[Expression] = []
    theirs: list[Expression] = []
    may_fail = False
    for part in parts:
        try:
            if may_fail:
                raise Unsupported
            Query(rows.columns).condition(part)
            ours.append(part)
        except Unsupported:
            theirs.append(part)
            may_fail = may_fail or not _never_fails(part)
    if any(field.name not in rows.columns for part in theirs for field in _compared(part)):
        raise Unsupported  # if no row is left, Python explains it from all rows
    return tuple(ours), tuple(theirs)


def _compared(part: Expression) -> list[Field]:
    """The fields that a condition compares with a value."""
    match part:
        case Comparison(_, Field() as field, Constant()):
            return [field]
        case AllOf(parts) | AnyOf(parts):
            return [field for each in parts for field in _compared(each)]
        case Not(operand):
            return _compared(operand)
    return []


def _never_fails(part: Expression) -> bool:
    """True for a condition of patterns alone."""
    match part:
        case Call("matches", (Field(), Constant())):
            return True
        case AllOf(parts) | AnyOf(parts):
            return all(map(_never_fails, parts))
        case Not(operand):
            return _never_fails(operand)
    return False


def _grouped(
    connection: "duckdb.DuckDBPyConnection",
    rows: RowFile,
    parts: tuple[Expression, ...],
    group: Group,
    after: list[Step],
) -> Started:
    """A row for each group, in the order of their first rows."""
    query = Query(rows.columns)
    where = " AND ".join(map(query.condition, parts)) or "TRUE"
    keys = [query.compile(output.field).sql for output in group.keys]
    aggregates = [query.aggregate(aggregate, "place") for aggregate in group.aggregates]
    relation = rows.relation(query, whole=False)
    by = ""
    if keys or any(aggregate.function in ("first", "last") for aggregate in group.aggregates):
        relation = _numbered(relation)
    if keys:
        by = f"GROUP BY {', '.join(dict.fromkeys(keys))} ORDER BY min(place)"
    shown = ", ".join(["count(*)", *keys, *aggregates])
    found = list(_rows(connection, f"SELECT {shown} FROM {relation} WHERE {where} {by}", query))
    _check_reason(query, sum(row[0] for row in found), [])
    names = [*(output.name for output in group.keys), *(aggregate.name for aggregate in group.aggregates)]
    groups = [dict(zip(names, row[1:], strict=True)) for row in found]
    if any(type(value) is float and not math.isfinite(value) for group in groups for value in group.values()):
        raise Unsupported  # a sum overflowed
    return Started(groups, rows.rows, tuple(after))


def _kept(
    connection: "duckdb.DuckDBPyConnection", rows: RowFile, parts: tuple[Expression, ...], after: list[Step]
) -> Started | None:
    """The rows that meet the conditions, cut by a limit if one follows."""
    query = Query(rows.columns)
    where = " AND ".join(map(query.condition, parts)) or "TRUE"
    order, window, after = _first_of(query, after)
    if not parts and not window:
        return None
    relation = rows.relation(query, whole=True)
    if order:
        relation = _numbered(relation)
    found = rows.rows_of(
        _rows(connection, f"SELECT {rows.shown} FROM {relation} WHERE {where} {order} {window}", query)
    )
    _check_reason(query, len(found), after)
    return Started(found, rows.rows, tuple(after))


def _numbered(relation: str) -> str:
    return f"(SELECT *, row_number() OVER () AS place FROM {relation})"


def _check_reason(query: Query, count: int, after: list[Step]) -> None:
    """Raises if no row is left or a later field is unknown: the Python engine then explains it."""
    if not count and (query.is_odd or any(field.name not in query.columns for field in fields_of(tuple(after)))):
        raise Unsupported


def _first_of(query: Query, after: list[Step]) -> tuple[str, str, list[Step]]:
    """SQL of an order and a limit, if they follow, and the steps after that."""
    order = ""
    rest = after
    if rest and isinstance(rest[0], Sort):
        keys = [(query.columns.get(key.field.name), key.descending) for key in rest[0].keys]
        if not all(column is not None for column, _ in keys):
            return "", "", after
        listed = [f"{column.sql} {'DESC' if down else 'ASC'} NULLS LAST" for column, down in keys if column]
        order, rest = f"ORDER BY {', '.join([*listed, 'place'])}", rest[1:]
    if not rest or not isinstance(rest[0], Slice) or rest[0].limit is None:
        return "", "", after
    window = f"LIMIT {query.bind(rest[0].limit, 'BIGINT')} OFFSET {query.bind(rest[0].offset, 'BIGINT')}"
    return order, window, rest[1:]


def _rows(connection: "duckdb.DuckDBPyConnection", sql: str, query: Query) -> Iterator[tuple[Any, ...]]:
    done = connection.execute(sql, query.used(sql))
    while some := done.fetchmany(_FETCHED):
        yield from some


@contextlib.contextmanager
def _open(file: str) -> Iterator[tuple["duckdb.DuckDBPyConnection", str]]:
    """A connection that can read `file` and nothing else, and the name by which it reads it."""
    import duckdb  # noqa: PLC0415 - a slow import

    settings = _SETTINGS | {"threads": len(os.sched_getaffinity(0)), "memory_limit": f"{_memory_bytes()}B"}
    if not duckdb.__version__.startswith("1."):
        settings["async_threads"] = 0  # for remote files only
    with tempfile.TemporaryDirectory(prefix="duckdb-") as folder:
        # A neutral name: DuckDB finds patterns, compression, partitions and addresses in the names of files.
        link = os.path.join(folder, "rows")
        os.symlink(os.path.realpath(file), link)
        with duckdb.connect(":memory:", config=settings) as connection:
            connection.execute("SET allowed_paths = [CAST($1 AS VARCHAR)]", [link])
            connection.execute("SET enable_progress_bar = FALSE")  # it would be output of the run
            connection.execute("SET enable_external_access = FALSE")
            connection.execute("SET lock_configuration = TRUE")
            yield connection, link


def _memory_bytes() -> int:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return _MOST_MEMORY if limit == resource.RLIM_INFINITY else min(_MOST_MEMORY, limit // _MEMORY_SHARE)


def _has_dotted_name(file: str, fields: Sequence[Field]) -> bool:
    """True if a dotted name may be the literal name of a field in the file, not a path."""
    names = {field.name for field in fields if len(field.path) > 1}
    marks = [mark.encode() for name in names for mark in (f'"{name}"', json.dumps(name))]
    if not marks:
        return False
    overlap = max(map(len, marks))
    tail = b""
    with open(file, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            tail = tail[-overlap:] + chunk
            if any(mark in tail for mark in marks):
                return True
    return False
