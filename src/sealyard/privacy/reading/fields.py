"""Any data as a tree of fields, and the meaning that names of neighbouring fields give each other.

Every reader of data or text ends in a tree of `Field`s. The records of a list share one, in whatever shape the data has
them, so that each decision is made once a column. A field that is private by its name alone is private in every cell.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, TypeAlias

from sealyard.privacy.reading.lexicon import NOTHING, Meaning, is_header, read_name, split_name
from sealyard.privacy.reading.literals import PlacedFlag
from sealyard.privacy.span import TOKEN, TYPES

Value: TypeAlias = str | int | float

Leaf: TypeAlias = tuple[Value, int, Any]
"""A value, the number of the container that holds it, and its key in there. Of a value in a table or line that is not
escaped: the offset at which it stands in the text, and None.
"""

_MOST_REMEMBERED = 200
"""Names of a record whose form and sum are remembered."""
_PERSONAL = frozenset(
    """person person? part? email phone date_of_birth username ssn national_id passport driver_license medical_id
    address trait credit_card iban bank_account password""".split()
)
"""Kinds that make their record one about a person."""
_WEIGHTS = {
    "person": 3,
    "person?": 2,
    "part?": 3,
    "date_of_birth": 4,
    "ssn": 4,
    "national_id": 3,
    "passport": 3,
    "driver_license": 3,
    "medical_id": 3,
    "trait": 2,
    "username": 2,
    "password": 2,
    "email": 2,
    "address": 1,
    "phone": 1,
    "phone?": 1,
    "credit_card": 1,
    "role?": 1,
    "goods": -3,
    "firm": -2,
}
"""The weight of each neighbour as evidence that a bare `name` is a person's."""
_SCHEMA_FORMATS = {"email": "email", "idn-email": "email", "password": "password", "phone": "phone", "tel": "phone"}


class _Counts(dict[str, int]):
    def __missing__(self, key: str) -> int:
        return 0


class Cells:
    """The leaves of a table's column: a list of texts and one of their offsets, and no tuple until one is looked at."""

    __slots__ = ("starts", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.starts: list[int] = []

    def append(self, leaf: Leaf) -> None:
        """Adds a text with its offset."""
        self.texts.append(str(leaf[0]) if not isinstance(leaf[0], str) else leaf[0])
        self.starts.append(leaf[1])

    def extend(self, leaves: Iterable[Leaf]) -> None:
        """Adds texts with their offsets."""
        for leaf in leaves:
            self.append(leaf)

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[Leaf]:
        return zip(self.texts, self.starts, repeat(None))

    def __getitem__(self, part: slice) -> list[Leaf]:
        return list(zip(self.texts[part], self.starts[part], repeat(None)))


Column: TypeAlias = list[Leaf] | Cells
"""The values of a field."""


def texts_of(leaves: Column) -> list[str]:
    """The values that are texts."""
    return leaves.texts if isinstance(leaves, Cells) else [leaf[0] for leaf in leaves if isinstance(leaf[0], str)]


class Field:
    """One key path of the data, whatever the record: its name, the fields below it and the values in it."""

    header: Sequence[str] = ()
    """The cells of a table's first row that gave it its name."""
    meaning: Meaning = NOTHING
    in_list = False
    """True if it stood for more than one record of its parent."""
    schema: Mapping[str, Any] | None = None
    treatment = ""
    """`whole` or `visible` where a rule says so, for everything below too."""
    personal = False
    """True if its record, or one above, is about a person."""
    weight = 0
    """The weight of its fields as evidence for a person, or against."""
    kinds: Mapping[str, int] = _Counts()
    """The count of each kind among the fields right below it."""
    names: Collection[str] = ()
    """The names of its regions, folded."""

    def __init__(self, name: str, parent: "Field | None" = None) -> None:
        self.name = name
        self.parent = parent
        self.children: dict[str, Field] = {}
        self.leaves: Column = []

    def child(self, name: str) -> "Field":
        """The field below it of that name."""
        found = self.children.get(name)
        if found is None:
            found = self.children[name] = Field(name, self)
        return found


def gather(root: Field) -> list[Field]:
    """Every field, parents first, each with its meaning and what its neighbours say."""
    fields = [root]
    records = []
    for field in fields:
        if field.children:
            fields.extend(field.children.values())
            records.append(field)
        field.meaning = read_name(field.name)
        if field.schema is not None and not field.meaning.is_sure:
            field.meaning = _described(field.schema, field.meaning)
    for field in reversed(records):
        _weigh(field)
    for field in records:
        if field.meaning.is_role or (field.parent is not None and field.parent.personal):
            field.personal = True
    return fields


def _weigh(field: Field) -> None:
    """Sums what a record's fields say. Records of fields that only group count as its own: `contact_info`."""
    children = field.children
    nested = [child for child in children.values() if child.children]
    plain = tuple(name for name, child in children.items() if not child.children) if nested else tuple(children)
    if field.schema is None and len(plain) <= _MOST_REMEMBERED:
        facts = _facts_by_name(plain)
    else:
        facts = _facts((name, children[name].meaning) for name in plain)
    counted, field.names, personal, weight = facts
    kinds = set()
    if nested:
        counted = _Counts(counted)
    for child in nested:
        kind = child.meaning.kind
        counted[kind] += 1
        if child.leaves:
            kinds.add(kind)
        elif kind in ("name?", "person", "person?") and (child.kinds["part?"] or child.kinds["person"]):
            kinds.add("person")
        elif kind == "address?":
            kinds.add("address")
        elif not (child.in_list or child.meaning.is_role or child.meaning.is_thing or kind == "name?"):
            weight += child.weight
            personal = personal or child.personal
    field.kinds = counted
    field.personal = personal or not kinds.isdisjoint(_PERSONAL)
    field.weight = weight + sum(_WEIGHTS.get(kind, 0) for kind in kinds if kind not in facts[0])


_Facts: TypeAlias = tuple[_Counts, frozenset[str], bool, int]
"""The count of each kind, the names of regions, whether the record is personal, and its weight."""


@lru_cache(maxsize=2_000)
def _facts_by_name(names: tuple[str, ...]) -> _Facts:
    return _facts((name, read_name(name)) for name in names)


def _facts(named: Iterable[tuple[str, Meaning]]) -> _Facts:
    counted = _Counts()
    regions = set()
    for name, meaning in named:
        if meaning.kind:
            counted[meaning.kind] += 1
            if meaning.kind == "region?":
                regions.add("".join(split_name(name)))
    weight = sum(_WEIGHTS.get(kind, 0) for kind in counted)
    return counted, frozenset(regions), not _PERSONAL.isdisjoint(counted), weight


def is_described(schema: Mapping[str, Any]) -> bool:
    """True if a property's schema gives it a meaning that a name without one lacks."""
    return _described(schema, NOTHING) is not NOTHING


def _described(schema: Mapping[str, Any], meaning: Meaning) -> Meaning:
    """The meaning that a property's schema gives it: its format, its title, a short description."""
    marked = schema.get("x-pii") or schema.get("x-privacy") or schema.get("x-sensitive")
    if isinstance(marked, str) and marked in TYPES:
        return Meaning(marked, is_sure=True)
    if marked:
        return Meaning("text", is_sure=True)
    form = schema.get("format")
    if isinstance(form, str) and form in _SCHEMA_FORMATS:
        return Meaning(_SCHEMA_FORMATS[form], is_sure=True)
    for key in ("title", "description"):
        text = schema.get(key)
        if isinstance(text, str) and len(text) <= 80:
            said = _read_sentence(text)
            if said.kind and (said.is_sure or not meaning.kind):
                return said
    return meaning


def _read_sentence(text: str) -> Meaning:
    """The meaning of a short description: its first words, as if they were a name."""
    words = split_name(text.split(".")[0].split("(")[0].split(",")[0])
    words = [word for word in words if word not in ("the", "a", "an", "user", "s", "their", "his", "her", "this")]
    for end in range(min(len(words), 5), 0, -1):
        found = read_name(" ".join(words[:end]))
        if found.is_sure and found.kind in TYPES:
            return found
    return NOTHING


# JSON data

Container: TypeAlias = tuple[Any, int, Any]
"""A dict or list of the data, the index of the one that holds it, and its key in there."""

Treatments: TypeAlias = Mapping[str, str]
"""`whole` or `visible` by the name of a field in small letters."""

_LABELS = tuple("name key field label attribute property question header field_name fieldName column title".split())
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
"""Keys of a dictionary that may label each other's values."""
_KEYED = re.compile(r".*(?:\d|@)|[0-9a-f-]{16,}|[A-Z]{2,}[-_]", re.DOTALL)
_MOST_LABELLED = 12  # keys of an object that labels a value; larger ones are records


def collect(
    values: Iterable[Any], root: Field, treatments: Treatments, schema: Mapping[str, Any] | None = None
) -> list[Container]:
    """Adds every value of these documents to the tree below `root`. Never recurses.

    Returns the containers of the data, parents first.
    """
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
                for position, item in enumerate(each):
                    column = columns[min(position, len(columns) - 1)]
                    self._take(item, self._child(field, column), index, position)
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
        elif isinstance(value, (int, float)) and (
            field.treatment == "whole" or not isinstance(value, (bool, PlacedFlag))
        ):
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
                        self._child(field, key)  # not a field of a record, but the key itself may be private
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
    """`keyed` if all keys look like data, `wrapped` if one stands for its value, `special` if some may name others."""
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
    """Names for the columns of a list of rows, and the number of rows they take: a header's, or numbers."""
    first = rows[0]
    if not all(isinstance(row, (list, tuple)) for row in rows):
        return None, 0
    if len(first) > 1 and all(isinstance(cell, str) for cell in first) and is_header([str(cell) for cell in first]):
        return [str(cell) for cell in first], 1
    is_flat = not any(isinstance(cell, (dict, list, tuple)) for cell in first)
    if 1 < len(first) <= 200 and is_flat and all(len(row) == len(first) for row in rows):
        return [f"#{position}" for position in range(len(first))], 0
    return None, 0
