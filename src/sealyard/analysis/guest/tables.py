"""Reads rows out of text: JSON, JSON lines and CSV; what is broken is named by its line."""

import csv
import io
import json
import math
import re
from collections.abc import Callable
from typing import Any

from .errors import AnalysisError, kind_of, listed, shown
from .fields import rows_of
from .parameters import repeated
from .plan import Row

_DELIMITERS = ",;\t|"
# A number of three digits in an exponent may be beyond what a float holds; others need no second look.
_LARGE_EXPONENT = re.compile(r"[0-9][eE]\+?[0-9]{3}")
# A zero before other digits marks an identifier, such as a postal code.
_WHOLE = re.compile(r"[ \t]*[+-]?(?:0|[1-9][0-9]{0,999})[ \t]*")
_NUMBER = re.compile(r"[ \t]*[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?[ \t]*")
_QUOTED = re.compile(r'"[^"]*"')
_BOOLEANS = {"true": True, "false": False}


def value_of_json(text: str, at: str) -> Any:
    """The value of JSON text; NaN and infinities are null.

    Raises:
        AnalysisError: It is no JSON.
    """
    try:
        return _decoder(text).decode(text)
    except (ValueError, RecursionError) as error:
        raise AnalysisError(f"{at} is no JSON: {_reason(error)}. Give the format if it is another.") from None


def rows_of_lines(text: str, at: str) -> list[Row]:
    """The objects of JSON lines; empty lines are skipped.

    Raises:
        AnalysisError: A line is no object.
    """
    decode = _decoder(text).decode
    rows: list[Row] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line or line.isspace():
            continue
        try:
            row = decode(line)
        except (ValueError, RecursionError) as error:
            raise AnalysisError(f"{at}: line {number} is no JSON: {_reason(error)}. Correct {shown(line)}.") from None
        if type(row) is not dict:
            raise AnalysisError(f"{at}: line {number} is {kind_of(row)}, {shown(row)}. Each line must be an object.")
        rows.append(row)
    return rows


def rows_of_csv(text: str, at: str) -> list[Row]:
    """The rows below a header; empty cells are null.

    A column is of whole numbers, of numbers or of booleans if all its cells that are not empty are; otherwise it is
    text. Digits after a leading zero are no number. The header's most frequent of `,;` tab and `|` separates cells.

    Raises:
        AnalysisError: The header or a line is broken.
    """
    csv.field_size_limit(max(len(text), csv.field_size_limit()))  # a cell is as long as it is
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    try:
        header = next(filter(None, reader), [])
        records = _records(reader, header, at)
    except csv.Error as error:
        raise AnalysisError(f"{at}: line {reader.line_num} is no CSV: {error}. Correct it.") from None
    if not header:
        return []
    if "" in header:
        raise AnalysisError(f"{at}: column {header.index('') + 1} has no name in the header. Name it.")
    if twice := repeated(header):
        raise AnalysisError(f"{at}: the header has {listed(twice)} twice. Give each column a name of its own.")
    columns = (_typed(column) for column in zip(*records, strict=True))
    return rows_of(dict(zip(header, columns, strict=False)))  # there are no columns at all below a header alone


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
        turn = _number
    elif all(cell.lower() in _BOOLEANS for cell in present):
        turn = _boolean
    else:
        return [cell or None for cell in cells]
    return [turn(cell) if cell else None for cell in cells]


def _number(cell: str) -> float | None:
    value = float(cell)
    return value if math.isfinite(value) else None


def _boolean(cell: str) -> bool:
    return _BOOLEANS[cell.lower()]


def _decoder(text: str) -> json.JSONDecoder:
    parse_float = _number if _LARGE_EXPONENT.search(text) else None
    return json.JSONDecoder(parse_float=parse_float, parse_constant=lambda _: None)


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
