"""Reads where rows come from: the request itself, a file of the workspace, or the answer of a tool."""

from pathlib import PurePosixPath
from typing import Any

from .errors import AnalysisError, listed, shown
from .parameters import as_object, as_text, as_word, below
from .plan import FileFormat, Inline, Source, ToolAnswer, WorkspaceFile

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


def parse_source(given: dict[str, Any], at: str, data_field: Any) -> Source:
    """The source that the keys `data` and `source` of an object name; `data_field` says which part of it is rows.

    Raises:
        AnalysisError: There is none, there are two, or it cannot be read.
    """
    field = None if data_field is None else as_text(data_field, below(at, "data_field"))
    data, source = given.get("data"), given.get("source")
    if (data is None) == (source is None):
        missing = "lacks 'data' and 'source'" if data is None else "has 'data' and 'source'"
        raise AnalysisError(f"{at or 'The request'} {missing}. Give rows as 'data', or 'source' = {_EXAMPLE}.")
    if data is not None:
        return Inline(at=below(at, "data"), data=data, field=field)
    place = below(at, "source")
    if isinstance(source, dict) and "tool" in source:
        return _tool(source, place, field)
    return _file(source, place, field)


def _tool(given: dict[str, Any], at: str, field: str | None) -> ToolAnswer:
    entry = as_object(given, at, ("tool", "arguments", "path", "format"))
    arguments = entry.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise AnalysisError(f"{below(at, 'arguments')} is {shown(arguments)}. Give the tool's arguments as an object.")
    path = entry.get("path")
    kind = entry.get("format")
    return ToolAnswer(
        at=at,
        tool=as_text(entry["tool"], below(at, "tool")),
        arguments=arguments or {},
        format=None if kind is None else as_word(kind, below(at, "format"), _WORDS, shown_as=FORMATS[:3]),
        field=field if path is None else as_text(path, below(at, "path")),
    )


def _file(given: Any, at: str, field: str | None) -> WorkspaceFile:
    if not isinstance(given, dict) or "workspace" not in given:
        raise AnalysisError(f"{at} is {shown(given)}. Give {_EXAMPLE}.")
    entry = as_object(given, at, ("workspace", "format", "path"))
    path = as_text(entry["workspace"], below(at, "workspace"))
    word = entry.get("format", PurePosixPath(path).suffix.removeprefix("."))
    if "format" not in entry and str(word).lower() not in _WORDS:
        raise AnalysisError(
            f"{below(at, 'workspace')} is {shown(path)}, whose ending names no format. "
            f"Give 'format': one of {listed(FORMATS)}."
        )
    inner = entry.get("path")
    return WorkspaceFile(
        at=at,
        path=path,
        format=as_word(word, below(at, "format"), _WORDS, shown_as=FORMATS),
        field=field if inner is None else as_text(inner, below(at, "path")),
    )
