"""Gets the rows of a source: from the request, from a file within the working directory, or by calling a tool."""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .duck import read_parquet
from .errors import AnalysisError, kind_of, listed, nearest, shown
from .fields import rows_of
from .plan import FileFormat, Inline, Row, Source, ToolAnswer, WorkspaceFile
from .tables import rows_of_csv, rows_of_lines, value_of_json

CallTool = Callable[[str, dict[str, Any]], Any]

MAX_BYTES = 128 * 1024 * 1024
"""Largest file that is read as a whole."""

_SEARCHED_DEPTH = 4
_SEARCHED_LISTS = 20


def read_rows(source: Source, call_tool: CallTool) -> list[Row]:
    """All rows of a source.

    Raises:
        AnalysisError: There are none to be found, or they are broken.
    """
    match source:
        case Inline(at=at, data=data, field=field):
            return rows_within(data, at, field)
        case ToolAnswer(at=at, tool=tool, arguments=arguments, format=kind, field=field):
            answer = call_tool(tool, arguments)
            answer = answer.removeprefix("\ufeff") if isinstance(answer, str) else answer
            if kind is not None and isinstance(answer, str):
                return _rows_of_text(answer, kind, at, field)
            return rows_within(answer, at, field)
        case WorkspaceFile(format="parquet", field=None):
            return read_parquet(str(find_file(source)))
        case WorkspaceFile(at=at, format="parquet", field=str(field)):
            raise _pathless(at, "parquet", field)
        case WorkspaceFile(at=at, format=kind, field=field):
            return _rows_of_text(_text(find_file(source), source), kind, at, field)


def find_file(source: WorkspaceFile) -> Path:
    """The file of a source, within the working directory even after links are followed.

    Raises:
        AnalysisError: It is outside, there is none, or it is no plain file.
    """
    root = Path.cwd().resolve()
    try:
        path = (root / source.path).resolve()
        inside = path.is_relative_to(root)
        mode = path.stat().st_mode if inside else 0
    except FileNotFoundError:
        raise AnalysisError(_absent(source, root)) from None
    except (OSError, ValueError, RuntimeError) as error:
        raise AnalysisError(f"{source.at}.workspace: {shown(source.path)} cannot be read: {error}.") from None
    if not inside:
        raise AnalysisError(
            f"{source.at}.workspace is {shown(source.path)}, outside the workspace. Give a path within it."
        )
    if not stat.S_ISREG(mode):
        raise AnalysisError(f"{source.at}.workspace is {shown(source.path)}, which is no file. Name a file.")
    return path


def rows_within(value: Any, at: str, field: str | None = None) -> list[Row]:
    """The rows of a value: a list of objects, an object with one such list in it, or an object of columns.

    A list of plain values is rows of the one field `value`. Text is read as JSON first.

    Raises:
        AnalysisError: It holds no rows, or several lists of them.
    """
    if isinstance(value, str):
        value = value_of_json(value, at)
    if field is not None:
        value = _reached(value, at, field)
    if type(value) is list:
        return _rows_of_list(value, at)
    if type(value) is not dict:
        raise AnalysisError(f"{at} is {kind_of(value)}, {shown(value)}. Give a list of objects.")
    lists = [name for name, inner in value.items() if _is_rows(inner)]
    if len(lists) == 1:
        return _rows_of_list(value[lists[0]], f"{at}.{lists[0]}")
    if lists:
        raise AnalysisError(f"{at} has several lists of rows: {listed(lists)}. Name one as parameters.data_field.")
    columns = [inner for inner in value.values() if type(inner) is list]
    if columns and not any(columns):
        return []  # what a page without rows looks like
    if columns and len(columns) == len(value):
        return _rows_of_columns(value, at)
    if not value:
        raise AnalysisError(f"{at} is an empty object. Give a list of objects.")
    deeper = listed(_lists_in(value))
    hint = f"Lists are at {deeper}: name one as parameters.data_field." if deeper else "Give a list of objects."
    raise AnalysisError(f"{at} is an object of {listed(value)}, none of them rows. {hint}")


def _rows_of_list(value: Sequence[Any], at: str) -> list[Row]:
    kinds = set(map(type, value))
    if kinds <= {dict}:
        return list(value)
    if not kinds & {dict, list}:
        return [{"value": each} for each in value]
    number = next(place for place, each in enumerate(value) if type(each) is not dict)
    raise AnalysisError(f"{at}[{number}] is {kind_of(value[number])}, {shown(value[number])}. Each row is an object.")


def _rows_of_columns(value: dict[str, list[Any]], at: str) -> list[Row]:
    lengths = {name: len(column) for name, column in value.items()}
    if len(set(lengths.values())) > 1:
        long, short = max(lengths, key=lengths.__getitem__), min(lengths, key=lengths.__getitem__)
        raise AnalysisError(
            f"{at}: column {long!r} has {lengths[long]} values and {short!r} {lengths[short]}. Make them equal, "
            "or name the list of rows as parameters.data_field."
        )
    return rows_of(value)


def _reached(value: Any, at: str, field: str) -> Any:
    """What lies at a dotted path; a whole number is a place in a list."""
    if type(value) is dict and field in value:
        return value[field]
    here = at
    for name in field.split("."):
        if type(value) is dict and name in value:
            value = value[name]
        elif type(value) is list and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            names = list(value) if type(value) is dict else []
            known = f" There: {listed(names)}." if names else f" It is {kind_of(value)}."
            raise AnalysisError(f"Nothing at {name!r} in {here}, on the way to {field!r}.{nearest(name, names)}{known}")
        here = f"{here}.{name}"
    return value


def _is_rows(value: Any) -> bool:
    return type(value) is list and bool(value) and type(value[0]) is dict


def _lists_in(value: Any) -> list[str]:
    """Where lists of objects are within objects, for a message."""

    def search(inner: Any, path: tuple[str, ...]) -> Iterator[str]:
        if _is_rows(inner):
            yield ".".join(path)
        elif type(inner) is dict and len(path) < _SEARCHED_DEPTH:
            for name, below in inner.items():
                yield from search(below, (*path, name))

    return [path for path, _ in zip(search(value, ()), range(_SEARCHED_LISTS), strict=False)]


def _rows_of_text(text: str, kind: FileFormat, at: str, field: str | None) -> list[Row]:
    if field is not None and kind != "json":
        raise _pathless(at, kind, field)
    match kind:
        case "csv":
            return rows_of_csv(text, at)
        case "jsonl":
            return rows_of_lines(text, at)
        case "json":
            return rows_within(value_of_json(text, at), at, field)
        case "parquet":
            raise AnalysisError(f"{at}.format is 'parquet', which is no text. Read Parquet from a file.")


def _pathless(at: str, kind: FileFormat, field: str) -> AnalysisError:
    return AnalysisError(
        f"{at}: {shown(field)} is a place in a JSON document, and the format is {kind!r}. Leave the path out."
    )


def _text(path: Path, source: WorkspaceFile) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        size = os.stat(path).st_size
        raise AnalysisError(
            f"{source.at}.workspace: {shown(source.path)} has {size} bytes, and this analysis reads at most "
            f"{MAX_BYTES}. Filter it into a smaller file first."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise AnalysisError(
            f"{source.at}.workspace: {shown(source.path)} is not UTF-8 in line {line}. Convert it first."
        ) from None


def _absent(source: WorkspaceFile, root: Path) -> str:
    parent = (root / source.path).parent
    names = sorted(os.listdir(parent)) if parent.is_dir() and parent.resolve().is_relative_to(root) else []
    known = f" There: {listed(names)}." if names else ""
    wanted = Path(source.path).name
    return f"{source.at}.workspace: no file {shown(source.path)} in the workspace.{nearest(wanted, names)}{known}"
