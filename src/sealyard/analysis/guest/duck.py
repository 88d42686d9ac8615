"""The engine for large files: DuckDB does the first steps of a plan, the Python engine the rest.

The invariant: DuckDB reads one file, which is named before it is locked, and nothing else; it writes nowhere, loads no
extension, sees no variable of Python, and no text of a request or a file is ever SQL.

DuckDB tests fields against constants, groups by fields with aggregates of fields, and sorts for a limit. Answers equal
those of the Python engine, to which `begin` leaves anything else: arithmetic, a pattern in Python's syntax, a field of
mixed kinds, a path into nested objects.
"""

# ruff: noqa: S608 - see the invariant

import contextlib
import math
import os
import resource
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .duck_sql import CsvFile, JsonFile, ParquetFile, Query, RowFile, Unsupported, numbered
from .errors import AnalysisError
from .limits import MAX_ROWS
from .plan import AllOf, Expression, FileFormat, Group, Row, Slice, Sort, Where, fields_of
from .tables import Step

if TYPE_CHECKING:
    import duckdb

LEAST_BYTES = 4 << 20
"""The smallest file for DuckDB: Python finishes smaller ones before it has started. Parquet of any size is for it."""

_MEMORY_SHARE = 6  # DuckDB's share is a sixth of the address space: it maps about twice that, Python the rest
_MOST_MEMORY = 4 << 30  # where the run has no limit
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
    """The work that DuckDB has done, and the remaining steps."""

    rows: list[Row]
    before: list[Row]
    """Rows before the conditions, where none is left: they have the fields that the remaining steps name."""
    rows_in: int
    """The number of rows in the file."""
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
    parts, after = _opening(steps)
    if not parts and not isinstance(after[0] if after else None, Group | Sort | Slice):
        return None
    if not is_usable():
        return None
    import duckdb  # noqa: PLC0415 - a slow import

    try:
        with _open(file) as (connection, link):
            rows = _ROW_FILES[file_format](connection, link)
            rows.profile([field.name for field in fields_of((parts, tuple(after[:1])))])
            return _carry_out(rows, parts, after)
    except (Unsupported, duckdb.Error, ValueError, RecursionError):  # Python reports the mistake, if any
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
            if rows.count > MAX_ROWS:
                raise AnalysisError(
                    f"{name!r} has {rows.count} rows, and at most {MAX_ROWS} are read at once. "
                    "Begin with a filter or an aggregate."
                )
            return rows.matching(Query(rows.columns))
    except Unsupported:
        raise AnalysisError(f"{name!r} has two columns of one name. Rename one of them.") from None
    except duckdb.Error:  # its message may quote the file
        raise AnalysisError(f"{name!r} cannot be read as a Parquet file. Write it anew.") from None


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


def _carry_out(rows: RowFile, parts: tuple[Expression, ...], after: list[Step]) -> Started | None:
    """The leading conditions up to the first that SQL cannot test, then a group or the first rows in an order."""
    query = Query(rows.columns)
    tests: list[str] = []
    with contextlib.suppress(Unsupported):
        tests.extend(query.condition(part) for part in parts)
    where = " AND ".join(tests) or "TRUE"
    if len(tests) < len(parts):
        after = [Where(at="conditions", condition=AllOf(parts[len(tests) :]), is_rest=True), *after]
    elif after and isinstance(after[0], Group):
        with contextlib.suppress(Unsupported):
            return Started(_grouped(rows, query, where, after[0]), [], rows.count, tuple(after[1:]))
    order, window, left = _first_of(query, after)
    if not tests and not window:
        return None
    found = rows.matching(query, where=where, order=order, window=window)
    # Names of fields are checked against a row of the file where none is left.
    before = rows.matching(Query(rows.columns), window="LIMIT 1") if left and not found else []
    return Started(found, before, rows.count, tuple(left))


def _grouped(rows: RowFile, query: Query, where: str, group: Group) -> list[Row]:
    """A row for each group, in the order of their first rows."""
    keys = [query.column(output.field).sql for output in group.keys]
    aggregates = [query.aggregate(aggregate, "place") for aggregate in group.aggregates]
    relation = rows.relation(query, whole=False)
    by = ""
    if keys or any(aggregate.function in ("first", "last") for aggregate in group.aggregates):
        relation = numbered(relation)
    if keys:
        by = f"GROUP BY {', '.join(dict.fromkeys(keys))} ORDER BY min(place)"
    found = rows.fetched(f"SELECT {', '.join([*keys, *aggregates])} FROM {relation} WHERE {where} {by}", query)
    names = [*(output.name for output in group.keys), *(aggregate.name for aggregate in group.aggregates)]
    groups = [dict(zip(names, row, strict=True)) for row in found]
    if any(type(value) is float and not math.isfinite(value) for group in groups for value in group.values()):
        raise Unsupported  # a sum overflowed
    return groups


def _first_of(query: Query, after: list[Step]) -> tuple[str, str, list[Step]]:
    """SQL of an order and a limit, if they follow, and the steps after that."""
    order = ""
    rest = after
    if rest and isinstance(rest[0], Sort):
        keys = [(query.columns.get(key.field.name), key.descending) for key in rest[0].keys]
        if not all(column is not None for column, _ in keys):
            return "", "", after
        by = [f"{column.sql} {'DESC' if down else 'ASC'} NULLS LAST" for column, down in keys if column]
        order, rest = f"ORDER BY {', '.join([*by, 'place'])}", rest[1:]
    if not rest or not isinstance(rest[0], Slice) or rest[0].limit is None:
        return "", "", after
    window = f"LIMIT {query.bind(rest[0].limit, 'BIGINT')} OFFSET {query.bind(rest[0].offset, 'BIGINT')}"
    return order, window, rest[1:]


@contextlib.contextmanager
def _open(file: str) -> Iterator[tuple["duckdb.DuckDBPyConnection", str]]:
    """A connection that can read `file` and nothing else, and the name by which it reads it."""
    import duckdb  # noqa: PLC0415 - a slow import

    room = resource.getrlimit(resource.RLIMIT_AS)[0]
    memory_bytes = _MOST_MEMORY if room == resource.RLIM_INFINITY else min(_MOST_MEMORY, room // _MEMORY_SHARE)
    settings = _SETTINGS | {"threads": len(os.sched_getaffinity(0)), "memory_limit": f"{memory_bytes}B"}
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
