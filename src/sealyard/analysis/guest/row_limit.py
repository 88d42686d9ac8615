"""Bounded answers: the first rows, the number of rows, and a file with all of them if there are more."""

import json
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from .plan import Limits, Row

_FOLDER = "results"
_MOST_FILES = 10_000  # in one workspace: ends the search for a free name


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
