"""Gets rows: from the request, from a JSON, CSV or Parquet file within the working directory, or by calling a tool."""

import csv
import io
import json
import os
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from .duck import read_parquet
from .errors import AnalysisError, comma_list, kind_of, nearest, quoted
from .limits import MAX_BYTES
from .parameters import as_object, as_text, as_word, path_to, repeated
from .plan import FileFormat, Inline, Row, Source, ToolAnswer, WorkspaceFile
from .tables import rows_of
from .values import as_float

FORMATS: tuple[FileFormat, ...] = ("json", "jsonl", "csv", "parquet")
"""The formats of files."""
_WORDS: dict[str, FileFormat] = {
    "json": "json",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "csv": "csv",
    "tsv": "csv",
    "parquet": "parquet",
}
_EXAMPLE = "{'workspace': 'data/rows.csv'} or {'tool': 'server.tool', 'arguments': {...}}"
CallTool = Callable[[str, dict[str, Any]], Any]


_SEARCHED_DEPTH = 4  # levels in which lists of objects are looked for, to name them in a message
_DELIMITERS = ",;\t|"
# Only numbers with three digits in the exponent may be too large for a float.
_LARGE_EXPONENT = re.compile(r"[0-9][eE]\+?[0-9]{3}")
# A zero before other digits marks an identifier, such as a postal code.
_WHOLE = re.compile(r"[ \t]*[+-]?(?:0|[1-9][0-9]{0,999})[ \t]*")
_NUMBER = re.compile(r"[ \t]*[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?[ \t]*")
_QUOTED = re.compile(r'"[^"]*"')
_BOOLEANS = {"true": True, "false": False}


def parse_source(given: dict[str, Any], at: str, data_field: Any) -> Source:
    """The source that the keys `data` and `source` of an object name; `data_field` says which part of it is rows."""
    field = None if data_field is None else as_text(data_field, path_to(at, "data_field"))
    data, source = given.get("data"), given.get("source")
    if (data is None) == (source is None):
        missing = "lacks 'data' and 'source'" if data is None else "has 'data' and 'source'"
        raise AnalysisError(f"{at or 'The request'} {missing}. Give rows as 'data', or 'source' = {_EXAMPLE}.")
    if data is not None:
        return Inline(at=path_to(at, "data"), data=data, field=field)
    place = path_to(at, "source")
    if isinstance(source, dict) and "tool" in source:
        return _tool(source, place, field)
    return _file(source, place, field)


def _tool(given: dict[str, Any], at: str, field: str | None) -> ToolAnswer:
    entry = as_object(given, at, ("tool", "arguments", "path", "format"))
    arguments = entry.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise AnalysisError(
            f"{path_to(at, 'arguments')} is {quoted(arguments)}. Give the tool's arguments as an object."
        )
    texts = {word: kind for word, kind in _WORDS.items() if kind != "parquet"}
    word = entry.get("format")
    kind = None if word is None else as_word(word, path_to(at, "format"), texts, shown_as=FORMATS[:3])
    return ToolAnswer(
        at=at,
        tool=as_text(entry["tool"], path_to(at, "tool")),
        arguments=arguments or {},
        format=kind,
        field=_place(entry, at, field, kind or "json"),
    )


def _place(entry: dict[str, Any], at: str, field: str | None, kind: FileFormat) -> str | None:
    """The place of the rows in a JSON document: the `path` of a source, or the `data_field` of all."""
    if entry.get("path") is not None:
        field = as_text(entry["path"], path_to(at, "path"))
    if field is not None and kind != "json":
        raise AnalysisError(
            f"{at}: {quoted(field)} is a place in a JSON document, and the format is {kind!r}. Leave the path out."
        )
    return field


def _file(given: Any, at: str, field: str | None) -> WorkspaceFile:
    if not isinstance(given, dict) or "workspace" not in given:
        raise AnalysisError(f"{at} is {quoted(given)}. Give {_EXAMPLE}.")
    entry = as_object(given, at, ("workspace", "format", "path"))
    path = as_text(entry["workspace"], path_to(at, "workspace"))
    word = entry.get("format", PurePosixPath(path).suffix.removeprefix("."))
    if "format" not in entry and str(word).lower() not in _WORDS:
        raise AnalysisError(
            f"{path_to(at, 'workspace')} is {quoted(path)}, whose ending names no format. "
            f"Give 'format': one of {comma_list(FORMATS)}."
        )
    kind = as_word(word, path_to(at, "format"), _WORDS, shown_as=FORMATS)
    return WorkspaceFile(at=at, path=path, format=kind, field=_place(entry, at, field, kind))


def read_rows(source: Source, call_tool: CallTool) -> list[Row]:
    """All rows of a source."""
    match source:
        case Inline(at=at, data=data, field=field):
            return rows_within(data, at, field)
        case ToolAnswer(at=at, tool=tool, arguments=arguments, format=kind, field=field):
            answer = call_tool(tool, arguments)
            answer = answer.removeprefix("\ufeff") if isinstance(answer, str) else answer
            if kind is not None and isinstance(answer, str):
                return _rows_of_text(answer, kind, at, field)
            return rows_within(answer, at, field)
        case WorkspaceFile(format="parquet"):
            return read_parquet(str(find_file(source)))
        case WorkspaceFile(at=at, format=kind, field=field):
            return _rows_of_text(_text(find_file(source), source), kind, at, field)


def find_file(source: WorkspaceFile) -> Path:
    """The file of a source, within the working directory even after links are followed."""
    root = Path.cwd().resolve()
    try:
        path = (root / source.path).resolve()
        inside = path.is_relative_to(root)
        mode = path.stat().st_mode if inside else 0
    except FileNotFoundError:
        raise AnalysisError(_absent(source, root)) from None
    except (OSError, ValueError, RuntimeError) as error:
        raise AnalysisError(f"{source.at}.workspace: {quoted(source.path)} cannot be read: {error}.") from None
    if not inside:
        raise AnalysisError(
            f"{source.at}.workspace is {quoted(source.path)}, outside the workspace. Give a path within it."
        )
    if not stat.S_ISREG(mode):
        raise AnalysisError(f"{source.at}.workspace is {quoted(source.path)}, which is not a file. Name a file.")
    return path


def rows_within(value: Any, at: str, field: str | None = None) -> list[Row]:
    """The rows of a value: a list of objects, an object with one such list in it, or an object of columns.

    A list of plain values is rows of the one field `value`. Text is read as JSON first.
    """
    if isinstance(value, str):
        value = value_of_json(value, at)
    if field is not None:
        value = _reached(value, at, field)
    if type(value) is list:
        return _rows_of_list(value, at)
    if type(value) is not dict:
        raise AnalysisError(f"{at} is {kind_of(value)}, {quoted(value)}. Give a list of objects.")
    lists = [name for name, inner in value.items() if _is_rows(inner)]
    if len(lists) == 1:
        return _rows_of_list(value[lists[0]], f"{at}.{lists[0]}")
    if lists:
        raise AnalysisError(f"{at} has several lists of rows: {comma_list(lists)}. Name one as parameters.data_field.")
    columns = [inner for inner in value.values() if type(inner) is list]
    if columns and not any(columns):
        return []  # a page without rows
    if columns and len(columns) == len(value):
        return _rows_of_columns(value, at)
    if not value:
        raise AnalysisError(f"{at} is an empty object. Give a list of objects.")
    deeper = comma_list(_lists_in(value))
    hint = f"Lists are at {deeper}: name one as parameters.data_field." if deeper else "Give a list of objects."
    raise AnalysisError(f"{at} is an object of {comma_list(value)}, none of them rows. {hint}")


def _rows_of_list(value: Sequence[Any], at: str) -> list[Row]:
    kinds = set(map(type, value))
    if kinds <= {dict}:
        return list(value)
    if not kinds & {dict, list}:
        return [{"value": each} for each in value]
    number = next(place for place, each in enumerate(value) if type(each) is not dict)
    raise AnalysisError(f"{at}[{number}] is {kind_of(value[number])}, {quoted(value[number])}. Each row is an object.")


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
    """The value at a dotted path; a whole number is a place in a list."""
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
            known = f" There: {comma_list(names)}." if names else f" It is {kind_of(value)}."
            raise AnalysisError(f"Nothing at {name!r} in {here}, on the way to {field!r}.{nearest(name, names)}{known}")
        here = f"{here}.{name}"
    return value


def _is_rows(value: Any) -> bool:
    return type(value) is list and bool(value) and type(value[0]) is dict


def _lists_in(value: Any, path: str = "", depth: int = _SEARCHED_DEPTH) -> list[str]:
    """The paths of lists of objects within objects, for a message."""
    if type(value) is not dict or not depth:
        return [path] if _is_rows(value) else []
    return [each for name, inner in value.items() for each in _lists_in(inner, path_to(path, name), depth - 1)]


def _rows_of_text(text: str, kind: FileFormat, at: str, field: str | None) -> list[Row]:
    if kind == "csv":
        return rows_of_csv(text, at)
    return rows_of_lines(text, at) if kind == "jsonl" else rows_within(value_of_json(text, at), at, field)


def _text(path: Path, source: WorkspaceFile) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        size = os.stat(path).st_size
        raise AnalysisError(
            f"{source.at}.workspace: {quoted(source.path)} has {size} bytes, and this analysis reads at most "
            f"{MAX_BYTES}. Filter it into a smaller file first."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise AnalysisError(
            f"{source.at}.workspace: {quoted(source.path)} is not UTF-8 in line {line}. Convert it first."
        ) from None


def _absent(source: WorkspaceFile, root: Path) -> str:
    parent = (root / source.path).parent
    names = sorted(os.listdir(parent)) if parent.is_dir() and parent.resolve().is_relative_to(root) else []
    known = f" There: {comma_list(names)}." if names else ""
    wanted = Path(source.path).name
    return f"{source.at}.workspace: no file {quoted(source.path)} in the workspace.{nearest(wanted, names)}{known}"


def value_of_json(text: str, at: str) -> Any:
    """The value of JSON text; NaN and infinities are null."""
    try:
        return _decoder(text).decode(text)
    except (ValueError, RecursionError) as error:
        raise AnalysisError(f"{at} is not JSON: {_reason(error)}. Give the format if it is another.") from None


def rows_of_lines(text: str, at: str) -> list[Row]:
    """The objects of JSON lines; empty lines are skipped."""
    decode = _decoder(text).decode
    rows: list[Row] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line or line.isspace():
            continue
        try:
            row = decode(line)
        except (ValueError, RecursionError) as error:
            raise AnalysisError(f"{at}: line {number} is not JSON: {_reason(error)}. Correct {quoted(line)}.") from None
        if type(row) is not dict:
            raise AnalysisError(f"{at}: line {number} is {kind_of(row)}, {quoted(row)}. Each line must be an object.")
        rows.append(row)
    return rows


def rows_of_csv(text: str, at: str) -> list[Row]:
    """The rows below a header; empty cells are null.

    A column is of whole numbers, of numbers or of booleans if all its cells that are not empty are; otherwise it is
    text. Digits after a leading zero are no number. The header's most frequent of `,;` tab and `|` separates cells.
    """
    csv.field_size_limit(max(len(text), csv.field_size_limit()))  # the module refuses cells beyond 128 KiB otherwise
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    try:
        header = next(filter(None, reader), [])
        records = _records(reader, header, at)
    except csv.Error as error:
        raise AnalysisError(f"{at}: line {reader.line_num} is not CSV: {error}. Correct it.") from None
    if not header:
        return []
    if "" in header:
        raise AnalysisError(f"{at}: column {header.index('') + 1} has no name in the header. Name it.")
    if twice := repeated(header):
        raise AnalysisError(f"{at}: the header has {comma_list(twice)} twice. Give each column a name of its own.")
    columns = (_typed(column) for column in zip(*records, strict=True))
    return rows_of(dict(zip(header, columns, strict=False)))  # below a header alone there are no columns


def _delimiter(text: str) -> str:
    text = text.lstrip("\r\n")
    header = _QUOTED.sub("", text[: text.find("\n")] if "\n" in text else text)
    return max(_DELIMITERS, key=header.count)


def _records(reader: Any, header: list[str], at: str) -> list[list[str]]:
    records: list[list[str]] = []
    for record in reader:
        if len(record) == len(header):
            records.append(record)
        elif record:
            raise AnalysisError(
                f"{at}: line {reader.line_num} has {len(record)} cells, and the header {len(header)}. Correct it."
            )
    return records


def _typed(cells: tuple[str, ...]) -> list[Any]:
    present = [cell for cell in cells if cell]
    if all(map(_WHOLE.fullmatch, present)):
        turn: Callable[[str], Any] = int
    elif all(map(_NUMBER.fullmatch, present)):
        turn = as_float
    elif all(cell.lower() in _BOOLEANS for cell in present):
        return [_BOOLEANS.get(cell.lower()) for cell in cells]
    else:
        return [cell or None for cell in cells]
    return [turn(cell) if cell else None for cell in cells]


def _decoder(text: str) -> json.JSONDecoder:
    parse_float = as_float if _LARGE_EXPONENT.search(text) else None
    return json.JSONDecoder(parse_float=parse_float, parse_constant=lambda _: None)


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
