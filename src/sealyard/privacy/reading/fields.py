"""The fields of any data, and the meaning that names of neighbouring fields give each other.

Every reader of data or text ends in a tree of `Field`s. The records of a list share one, so that each decision is made
once a column. A field that is private by its name alone is private in every cell.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, TypeAlias, overload

from sealyard.privacy.reading.names import NOTHING, Meaning, read_name, split_name
from sealyard.privacy.span import TYPES

Value: TypeAlias = str | int | float

Leaf: TypeAlias = tuple[Value, int, Any]
"""A value, the number of the container that holds it, and its key in there. Of a value in a table or line that is not
escaped: the offset at which it stands in the text, and None.
"""

_MOST_REMEMBERED = 200
"""Names of a record whose sum is remembered."""
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


class Cells(Sequence[Leaf]):
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

    @overload
    def __getitem__(self, index: int) -> Leaf: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Leaf]: ...

    def __getitem__(self, index: int | slice) -> Leaf | Sequence[Leaf]:
        if isinstance(index, slice):
            return list(zip(self.texts[index], self.starts[index], repeat(None)))
        return self.texts[index], self.starts[index], None


def texts_of(leaves: Sequence[Leaf]) -> list[str]:
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
        self.leaves: list[Leaf] | Cells = []

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
