"""Any JSON data as a tree of fields. The records of a list share their fields, in whatever shape the data has them."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import repeat
from typing import Any, TypeAlias

from sealyard.privacy.reading.fields import Field
from sealyard.privacy.reading.names import read_name
from sealyard.privacy.reading.tables import is_header
from sealyard.privacy.span import TOKEN

Container: TypeAlias = tuple[Any, int, Any]
"""A dict or list of the data, the index of the one that holds it, and its key in there."""

Treatments: TypeAlias = Mapping[str, str]
"""`whole` or `visible` by the name of a field in small letters."""

_LABELS = (
    "name",
    "key",
    "field",
    "label",
    "attribute",
    "property",
    "question",
    "header",
    "field_name",
    "fieldName",
    "column",
    "title",
)
_KINDS = ("type", "system", "kind", "id", "code")
_VALUES = ("value", "val", "values", "valueString", "answer", "stringValue", "displayValue", "display_value")
_CONTENTS = ("text", "content", "response", "data")
_HEADERS = ("columns", "headers", "header", "fields", "column_names", "columnNames", "cols")
_ROWS = ("rows", "data", "values", "records", "results", "items", "body")
WRAPPING = frozenset(
    """S N stringValue integerValue doubleValue string value text plain_text content raw #text _text $ _ @value v en
    en-US en-GB de de-DE fr fr-FR es es-ES it ja""".split()
)
"""The only key of a dictionary that stands for its value."""
_VALUED = frozenset((*_VALUES, *_CONTENTS, *_HEADERS))
NAMING = _VALUED | frozenset((*_LABELS, *_KINDS, *_ROWS))
"""Keys of a dictionary of which one may say what another holds."""
_KEYED = re.compile(r".*(?:\d|@)|[0-9a-f-]{16,}|[A-Z]{2,}[-_]", re.DOTALL)
_MOST_LABELLED = 12
_MOST_REMEMBERED = 200
"""Keys of a record whose form is remembered."""


def collect(
    value: Any, root: Field, treatments: Treatments, schema: Mapping[str, Any] | None = None
) -> list[Container]:
    """Adds every value to the tree below `root`; returns the data's containers, parents first. Never recurses."""
    return collect_all((value,), root, treatments, schema)


def collect_all(
    values: Iterable[Any], root: Field, treatments: Treatments, schema: Mapping[str, Any] | None = None
) -> list[Container]:
    """The same for more than one document."""
    collector = _Collector(root, treatments, schema)
    for value in values:
        collector.take(value)
    return collector.containers


class _Collector:
    def __init__(self, root: Field, treatments: Treatments, schema: Mapping[str, Any] | None) -> None:
        self._treatments = treatments
        self._schema = schema
        self._root = root
        self.containers: list[Container] = []
        self._stack: list[tuple[Any, Field, int, Any, list[str] | None]] = []
        self._plans: dict[tuple[int, tuple[Any, ...]], list[Field]] = {}
        root.schema = schema

    def take(self, value: Any) -> None:
        # A list around it gives a bare value a container too.
        self.containers.append(([value], -1, None))
        self._take(value, self._root, len(self.containers) - 1, 0)
        stack = self._stack
        while stack:
            each, field, holder, key, columns = stack.pop()
            index = len(self.containers)
            self.containers.append((each, holder, key))
            below = len(stack)
            if isinstance(each, dict):
                self._dict(each, field, index)
            elif columns is not None:
                self._row(each, field, index, columns)
            else:
                self._list(each, field, index)
            if len(stack) - below > 1:
                stack[below:] = stack[below:][::-1]

    def _take(self, value: Any, field: Field, index: int, key: Any) -> None:
        if isinstance(value, str):
            field.leaves.append((value, index, key))
        elif value is None:
            return
        elif isinstance(value, (dict, list, tuple)):
            self._stack.append((value, field, index, key, None))
        elif isinstance(value, (int, float)) and (not isinstance(value, bool) or field.treatment == "whole"):
            field.leaves.append((value, index, key))

    def _child(self, field: Field, name: str) -> Field:
        found = field.children.get(name)
        if found is None:
            found = field.children[name] = Field(name, field)
            if self._treatments:
                found.treatment = field.treatment or self._treatments.get(name.casefold(), "")
            if field.schema is not None and self._schema is not None:
                found.schema = below(self._schema, field.schema, name)
        return found

    def _dict(self, each: dict[Any, Any], field: Field, index: int) -> None:
        keys = tuple(each)
        known = id(field), keys
        plan = self._plans.get(known)
        if plan is None:
            form = _form(keys) if len(keys) <= _MOST_REMEMBERED else _form.__wrapped__(keys)
            if form == "keyed" and _is_keyed(each):
                for key, value in each.items():
                    if read_name(key).may_be_private:
                        self._child(field, key)  # it is no record's field, but what it says may be private itself
                    self._take(value, field, index, key)
                return
            if form == "wrapped":
                self._take(each[keys[0]], field, index, keys[0])
                return
            if form == "special" and self._special(each, field, index):
                return
            plan = self._children(field, keys)
            if not form:
                self._plans[known] = plan
        stack = self._stack
        for child, (key, value) in zip(plan, each.items(), strict=True):
            kind = type(value)
            if kind is str or kind is int or kind is float:
                child.leaves.append((value, index, key))
            elif kind is dict or kind is list:
                stack.append((value, child, index, key, None))
            elif value is not None:
                self._take(value, child, index, key)

    def _children(self, field: Field, keys: tuple[Any, ...]) -> list[Field]:
        if field.children or self._treatments or field.schema is not None:
            return [self._child(field, str(key)) for key in keys]
        plan = [Field(str(key), field) for key in keys]
        field.children = dict(zip(map(str, keys), plan, strict=True))
        return plan

    def _special(self, each: dict[Any, Any], field: Field, index: int) -> bool:
        """Takes a dictionary that names its value by another, or its rows' columns. False if it does neither."""
        label = _label(each)
        columns = _columns(each)
        if label is None and columns is None:
            return False
        for key, value in each.items():
            child = self._child(field, str(key))
            if label is not None and key in label[1]:
                self._take(value, self._child(field, label[0]), index, key)
            elif label is not None and key == label[2]:
                self._take(value, self._child(field, "label"), index, key)
            elif columns is not None and key in _ROWS and isinstance(value, list):
                self._matrix(value, child, index, key, columns)
            else:
                self._take(value, child, index, key)
        return True

    def _list(self, each: Any, field: Field, index: int) -> None:
        if len(each) > 1 and isinstance(each[0], (list, tuple)):
            columns, headers = _matrix_columns(each)
            if columns is not None:
                for position, row in enumerate(each):
                    self._stack.append((row, field, index, position, None if position < headers else columns))
                return
        if each and isinstance(each[0], dict):
            field.in_list = True
        if each and set(map(type, each)) == {str}:
            field.leaves.extend(zip(each, repeat(index), range(len(each))))
            return
        for position, value in enumerate(each):
            self._take(value, field, index, position)

    def _matrix(self, rows: list[Any], field: Field, holder: int, key: Any, columns: list[str]) -> None:
        index = len(self.containers)
        self.containers.append((rows, holder, key))
        for position, row in enumerate(rows):
            if isinstance(row, (list, tuple)):
                self._stack.append((row, field, index, position, columns))
            else:
                self._take(row, field, index, position)

    def _row(self, row: Any, field: Field, index: int, columns: list[str]) -> None:
        last = len(columns) - 1
        for position, value in enumerate(row):
            self._take(value, self._child(field, columns[min(position, last)]), index, position)


def below(whole: Mapping[str, Any], schema: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The schema of a property, through lists, references and alternatives."""
    seen = [schema]
    for each in seen:
        if len(seen) > 30:
            break
        reference = each.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            seen.append(_resolve(whole, reference))
        seen += (each[key] for key in ("items", "additionalProperties") if isinstance(each.get(key), dict))
        for key in ("anyOf", "oneOf", "allOf"):
            alternatives = each.get(key)
            if isinstance(alternatives, list):
                seen.extend(option for option in alternatives[:10] if isinstance(option, dict))
        properties = each.get("properties")
        if isinstance(properties, dict) and isinstance(properties.get(name), dict):
            found: Mapping[str, Any] = properties[name]
            reference = found.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/"):
                return {**_resolve(whole, reference), **found}
            return found
    return None


def _resolve(whole: Mapping[str, Any], reference: str) -> Mapping[str, Any]:
    found: Any = whole
    for part in reference[2:].split("/"):
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


@lru_cache(maxsize=2_000)
def _form(keys: tuple[Any, ...]) -> str:
    """True if all keys look like data rather than names, one only wraps a value, or some may name others."""
    if len(keys) == 1 and keys[0] in WRAPPING:
        return "wrapped"
    if keys and all(
        isinstance(key, str) and (key.isdigit() or (_KEYED.match(key) is not None and not read_name(key).kind))
        for key in keys
    ):
        return "keyed"
    return "" if _VALUED.isdisjoint(keys) else "special"


def _is_keyed(each: dict[Any, Any]) -> bool:
    """True if the values are records of one kind, or cells of one column, as in a list."""
    if len(each) > 2 and all(key.isdigit() or TOKEN.fullmatch(key) for key in each):
        return True
    return all(isinstance(value, dict) for value in each.values())


def _label(each: dict[Any, Any]) -> tuple[str, tuple[str, ...], str] | None:
    """For `{"name": "First name", "value": "Jane"}`: the name, the keys whose values it names, and its own key."""
    if not 2 <= len(each) <= _MOST_LABELLED:
        return None
    valued = next((key for key in (*_VALUES, *_CONTENTS) if key in each), None)
    if valued is None:
        return None
    for key in (*_LABELS, *_KINDS):
        name = each.get(key)
        if isinstance(name, str) and 0 < len(name) <= 60 and key != valued:
            meaning = read_name(name)
            if meaning.kind and (key in _LABELS or meaning.is_sure or meaning.kind in ("phone?", "place?")):
                if key in _KINDS and valued in _CONTENTS:
                    return None
                return name, _VALUES if key in _KINDS else (*_VALUES, *_CONTENTS), key
    return None


def _columns(each: dict[Any, Any]) -> list[str] | None:
    """The names of columns that stand beside the rows they name."""
    for key in _HEADERS:
        names = each.get(key)
        if isinstance(names, list) and names and len(names) <= 5_000:
            found = [_column_name(name) for name in names]
            if all(found):
                return [name for name in found if name]
    return None


def _column_name(given: Any) -> str | None:
    if isinstance(given, dict):
        given = next((given[key] for key in ("name", "label", "title", "id", "field", "key") if key in given), None)
    return given if isinstance(given, str) and len(given) <= 100 else None


def _matrix_columns(rows: Any) -> tuple[list[str] | None, int]:
    """Names for the columns of a list of rows, and how many rows they take: a header's, or numbers."""
    first = rows[0]
    if not all(isinstance(row, (list, tuple)) for row in rows):
        return None, 0
    if len(first) > 1 and all(isinstance(cell, str) for cell in first) and is_header([str(cell) for cell in first]):
        return [str(cell) for cell in first], 1
    is_flat = not any(isinstance(cell, (dict, list, tuple)) for cell in first)
    if 1 < len(first) <= 200 and is_flat and all(len(row) == len(first) for row in rows):
        return [f"#{position}" for position in range(len(first))], 0
    return None, 0
