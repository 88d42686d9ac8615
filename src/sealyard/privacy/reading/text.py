"""Any text taken apart: data in brackets, tables, named lines, tags, and the prose in between. Nothing is lost.

Lines of `key: value` and `key=value`, YAML, vCards and tags of XML and HTML give fields by name alone; the text around
and in them is searched by value as it stands.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeAlias

from sealyard.privacy.reading.fields import Container, Field, Leaf, Value
from sealyard.privacy.reading.lexicon import may_be_private, read_name
from sealyard.privacy.reading.literals import OPENING, PlacedFloat, PlacedInt, PlacedText, place, read_literal
from sealyard.privacy.reading.tables import Lines, read_table

_INK = re.compile(r"\S")
_TABULAR_SIGNS = ("\t", ",", ";", "|", "│", "┃")
_OPENINGS = re.compile(r"""(?:[{\[(]\s*+(?:"[^"\\\n]{0,200}+"\s*+:\s*+)?+){64,}+""")
"""More brackets in a row than data has, each with a key at most. Their content is read from the last one on."""
_FIRST = re.compile(r"\s*[{\[](?=\s*(?:[\"\[{\]}]|-?[0-9]|true\b|false\b|null\b))")
"""A text that may be JSON from end to end, whatever its first value."""
_SEPARATING = re.compile(r"[\s,;]*")


class Reading:
    """The parts of a text. Every character that is not punctuation is in one of these."""

    def __init__(self) -> None:
        self.data: list[Any] = []
        """Read from brackets. Values and keys are placed."""
        self.tables: list[Field] = []
        self.named: list[Field] = []
        """Fields of lines and tags: their values are part of `prose` too."""
        self.prose: list[PlacedText] = []

    def place_names(
        self, names: Collection[str], containers: Sequence[Container], fields: Sequence[Field]
    ) -> Iterator[str]:
        """Everywhere that one of the names stands, with its offsets."""
        for each, _, _ in containers:
            if isinstance(each, dict):
                yield from (key for key in each if key in names)
        yield from (cell for field in fields for cell in field.header if cell in names)


def place_leaf(leaf: Leaf) -> Value:
    """The value of a leaf of a text with its offsets."""
    value, start, _ = leaf
    return (
        value
        if isinstance(value, (PlacedText, PlacedInt, PlacedFloat))
        else place(str(value), start, start + len(str(value)))
    )


def read_text(text: str) -> Reading:
    """Takes a text apart. Reads each character a fixed number of times."""
    reading = Reading()
    position = 0
    bracket = _FIRST.match(text) or OPENING.search(text)
    while bracket:
        start = bracket.end() - 1 if bracket.re is _FIRST else bracket.start()
        if openings := _OPENINGS.match(text, start):
            start = max(text.rfind(sign, start, openings.end()) for sign in "{[(")
        data, end = read_literal(text, start)
        _read_plain(text, position, start, reading)
        reading.data.append(data)
        separating = _SEPARATING.match(text, end)
        assert separating is not None
        position = separating.end()
        bracket = OPENING.search(text, position)
    _read_plain(text, position, len(text), reading)
    return reading


def _read_plain(text: str, start: int, end: int, reading: Reading) -> None:
    """Tables, then the rest of the text between them."""
    if start >= end or _INK.search(text, start, end) is None:
        return
    if text.find("\n", start, end) < 0 or not any(text.find(sign, start, end) >= 0 for sign in _TABULAR_SIGNS):
        _read_prose(text, start, end, reading)
        return
    lines = Lines(text, start, end)
    plain = start
    after = 0
    for index in lines.beginnings():
        found = read_table(text, lines, index) if index >= after else None
        if found is None:
            continue
        table, after = found
        _read_prose(text, plain, lines.starts[index], reading)
        reading.tables.append(table)
        plain = lines.span(after - 1)[1]
    _read_prose(text, plain, end, reading)


def _read_prose(text: str, start: int, end: int, reading: Reading) -> None:
    written = text[start:end]
    if not written.strip():
        return
    reading.prose.append(place(written, start, end))
    if ":" in written or "=" in written or "->" in written:
        reading.named.extend(_read_lines(text, start, end))
    if "=" in written:
        reading.named.extend(_read_pairs(text, start, end))
    if "insert" in written.lower():
        reading.named.extend(_read_inserts(text, start, end))
    if "</" in written or "/>" in written:
        tree = _read_tags(text, start, end)
        if tree is not None:
            reading.named.append(tree)


_LINE = re.compile(
    r"""^([ \t>]{0,200}(?:(?:[-*•+]|\d{1,3}[.)])[ \t]+)?)[*_"'`]{0,3}([^\W\d_][\w .\-/()'&]{0,48}?)"""
    r"""(?:;[A-Za-z][^:\n]{0,100})?["'`*_]{0,3}[ \t]*(?::(?!//)|=>?(?!=)|->)"""
    r"""\*{0,3}(?:[ \t]+|(?=[^\s])|$)([^\n]*)$""",
    re.MULTILINE,
)
_INNER = re.compile(r"[,;|][ \t]*(?=[^\W\d_][\w ]{0,30}[ \t]?[:=][ \t]?[^\s:=/])")
_INNER_PAIR = re.compile(r"[ \t]*([^\W\d_][\w ]{0,30}?)[ \t]?[:=][ \t]*(.*)", re.DOTALL)
_PAIR_VALUE = re.compile(r"""=(?:"([^"\n]*)"|'([^'\n]*)'|([^\s"',;&)\]}>|]+))""")
_LONGEST_KEY = 61  # characters before the sign: a longer word is no name
_NAME_BACKWARDS = re.compile(rf"=[\w.\-]{{1,{_LONGEST_KEY}}}")
"""The name before the sign of a pair, in a text read backwards: the engine passes over all other characters at once."""
_NAME_STARTS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_NAME_GOES_ON = re.compile(r"[\w.\-/]")
_TAG = re.compile(
    r"""<(/?)([A-Za-z_][\w:.\-]{0,60})((?:\s+[\w:.\-]{1,60}\s*=\s*(?:"[^"]*"|'[^']*'))*)\s*(/?)>([^<]*)"""
)
_ATTRIBUTE = re.compile(r"""([\w:.\-]{1,60})\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_SPACED = re.compile(r"""="[^"\n ]* |='[^'\n ]* """)
"""A value of more than one word. Only such a value shows its kind where its name does not."""
_CODE = re.compile(
    r"[A-Za-z_][\w.]*[(\[].*|\$\{?\w+\}?|<[^<>]*>|\{\{.*\}\}|self\.[\w.]+|process\.[\w.]+|os\.[\w.]+.*", re.DOTALL
)
"""A program's expression for the value of a field."""
_VCARD = {
    "fn": "full name",
    "n": "full name",
    "tel": "phone",
    "adr": "home address",
    "org": "organization",
    "bday": "birthday",
}
_INSERT_ROWS = re.compile(r"\binsert\s+into\s+[^\s(]{1,200}\s*\(([^()]{1,5000})\)\s*values\s*(?=\()", re.IGNORECASE)
_NEXT_ROW = re.compile(r"\s*,\s*(?=\()")
_TRANSPARENT = frozenset(
    "a b i u em strong span font small big code p div tt mark label cite abbr time sub sup".split()
)
"""The content of one of these belongs to the tag around it."""
_TABLE_TAGS = frozenset(("table", "tr", "th", "td"))
_VOID = frozenset("br hr img input meta link area base col embed source track wbr".split())
_LONGEST = 2_000
"""A line's value longer than this is prose."""


def _read_lines(text: str, start: int, end: int) -> Iterator[Field]:
    """The records that consecutive `key: value` lines make. Lines indented under a key are its fields."""
    records = _Records()
    block: list[tuple[int, str, str, int]] = []
    last = start
    in_card = False
    for match in _LINE.finditer(text, start, end):
        indent, name, value = match.groups()
        begin = match.start()
        if block and begin - last > 1 and (text.count("\n", last, begin) > 1 or text[last:begin].strip()):
            records.add_block(block)
            block = []
        last = match.end()
        name = name.strip()
        kept = value.strip()
        if name == "BEGIN" and kept.upper() == "VCARD":
            in_card = True
        begin = match.start(3)
        if value[:1].isspace():
            begin += len(value) - len(value.lstrip())
        if kept.endswith((",", ";")):
            kept = kept.rstrip(",;").strip()
        if len(kept) > 1 and kept[0] in "\"'" and kept[-1] == kept[0]:
            kept = kept[1:-1]
            begin += 1
        if in_card:
            name = _VCARD.get(name.split(";")[0].casefold(), name)
        if len(kept) <= _LONGEST and _CODE.fullmatch(kept) is None:
            block.append((len(indent), name, kept, begin))
    if block:
        records.add_block(block)
    yield from records.fields()


_Pair: TypeAlias = tuple[str, str, int]
"""A name, a text, and where that begins."""


class _Records:
    """Records by the names of their fields. Those in which nothing can be private by name are never made."""

    def __init__(self) -> None:
        self._trees: list[Field] = []
        self._rows: defaultdict[tuple[str, ...], list[_Pair]] = defaultdict(list)

    def add(self, pairs: list[_Pair]) -> None:
        """Adds a row to the record of those with the same names."""
        names = (pairs[0][0],) if len(pairs) == 1 else tuple(sorted({name for name, _, _ in pairs}))
        self._rows[names] += pairs

    def add_block(self, block: list[tuple[int, str, str, int]]) -> None:
        """Adds lines that follow each other: as a row, or as a tree if they are indented."""
        first = block[0][0]
        if len(block) == 1 and block[0][2]:
            self.add(_inner_pairs(*block[0][1:]))
            return
        if all(value and indent == first for indent, _, value, _ in block):
            self.add([pair for _, name, value, start in block for pair in _inner_pairs(name, value, start)])
            return
        pairs = [(indent, value, _inner_pairs(name, value, start)) for indent, name, value, start in block]
        if not any(_is_private_among(each) for _, _, each in pairs):
            return
        root = Field("")
        open_fields: list[tuple[int, Field]] = [(-1, root)]
        for indent, value, each in pairs:
            while len(open_fields) > 1 and indent <= open_fields[-1][0]:
                open_fields.pop()
            above = open_fields[-1][1]
            if value:
                for key, kept, start in each:
                    above.child(key).leaves.append((kept, start, None))
            else:
                open_fields.append((indent, above.child(each[0][0])))
        self._trees.append(root)

    def fields(self) -> Iterator[Field]:
        """The roots of all records in which something may be private."""
        yield from self._trees
        for pairs in self._rows.values():
            if _is_private_among(pairs):
                root = Field("")
                for name, value, start in pairs:
                    root.child(name).leaves.append((value, start, None))
                yield root


def _is_private_among(pairs: list[_Pair]) -> bool:
    return any(may_be_private(name, value) for name, value, _ in pairs)


def _inner_pairs(name: str, value: str, start: int) -> list[_Pair]:
    """`Name: Jane Doe, Phone: 555` is two fields on one line."""
    if not ("," in value or ";" in value or "|" in value):
        return [(name, value, start)]
    breaks = list(_INNER.finditer(value))
    if not breaks:
        return [(name, value, start)]
    starts = [0, *(match.end() for match in breaks)]
    stops = [*(match.start() for match in breaks), len(value)]
    found = [(name, value[: stops[0]].rstrip(), start)]
    for begin, stop in zip(starts[1:], stops[1:], strict=True):
        pair = _INNER_PAIR.match(value, begin, stop)
        if pair is not None:
            found.append((pair[1], pair[2].rstrip(), start + pair.start(2)))
    return found


def _read_pairs(text: str, start: int, end: int) -> Iterator[Field]:
    """The records of `key=value` pairs on one line: logs, query strings, what Python prints for objects."""
    names = {name[:0:-1] for name in set(_NAME_BACKWARDS.findall(text[start:end][::-1]))}
    if not any(may_be_private(name, "") or read_name(name).is_number for name in names) and (
        _SPACED.search(text, start, end) is None
    ):
        return
    records = _Records()
    row: list[_Pair] = []
    last = position = start
    while match := _PAIR_VALUE.search(text, position, end):
        begin = match.start()
        position = begin + 1
        name = _NAME_BACKWARDS.match(text[max(last, begin - _LONGEST_KEY) : position][::-1])
        if name is None:
            continue
        before = position - len(name[0])
        if text[before] not in _NAME_STARTS or (before and _NAME_GOES_ON.match(text, before - 1)):
            continue
        if row and text.find("\n", last, before) >= 0:
            records.add(row)
            row = []
        last = position = match.end()
        group = match.lastindex or 3
        if group == 3 and _CODE.fullmatch(match[3]) is not None:
            continue
        row.append((text[before:begin], match[group], match.start(group)))
    if row:
        records.add(row)
    yield from records.fields()


def _read_inserts(text: str, start: int, end: int) -> Iterator[Field]:
    """The rows of SQL's `INSERT INTO table (columns) VALUES (…), (…)`."""
    for match in _INSERT_ROWS.finditer(text, start, end):
        names = [name.strip(" \t\n`\"[]'") for name in match[1].split(",")]
        table = Field("")
        row: re.Match[str] | None = match
        while row is not None:
            data, after = read_literal(text, row.end())
            for name, value in zip(names, data, strict=False):
                if isinstance(value, (PlacedText, PlacedInt, PlacedFloat)):
                    table.child(name).leaves.append((value, value.start, None))
            row = _NEXT_ROW.match(text, after, end)
        yield table


def _read_tags(text: str, start: int, end: int) -> Field | None:
    """The tree of tags in a text, with attributes as fields: what stands in `<email>` is one.

    A cell of an HTML table is a field of the name that its column's `<th>` gives it.
    """
    root = Field("")
    found = False
    open_fields = [(root, "")]
    headers: list[str] = []
    column = 0
    for match in _TAG.finditer(text, start, end):
        closing, name, attributes, empty, content = match.groups()
        tag = name.casefold()
        if closing:
            if open_fields[-1][1] == tag:
                open_fields.pop()
            else:
                _close_tag(open_fields, tag)
            if content and tag in _TRANSPARENT:
                _add_content(open_fields[-1][0], match)
            continue
        found = True
        above = open_fields[-1][0]
        field = above if tag in _TRANSPARENT else above.child(name)
        if tag in _TABLE_TAGS:
            if tag == "th":
                headers[column:] = [content.strip() or "#"]
                column += 1
            elif tag == "td":
                field = above.child(headers[column]) if column < len(headers) else field
                column += 1
            else:
                column = 0
        for attribute in _ATTRIBUTE.finditer(attributes) if attributes else ():
            group = attribute.lastindex or 2
            begin = match.start(3) + attribute.start(group)
            field.child(attribute[1]).leaves.append((attribute[group], begin, None))
        if content and tag != "th":
            _add_content(field, match)
        if not empty and tag not in _VOID:
            open_fields.append((field, tag))
    return root if found else None


def _close_tag(open_fields: list[tuple[Field, str]], tag: str) -> None:
    """Closes the nearest open tag of that name and those in it; a stray one closes nothing."""
    for depth in range(len(open_fields) - 1, max(0, len(open_fields) - 50), -1):
        if open_fields[depth][1] == tag:
            del open_fields[depth:]
            return


def _add_content(field: Field, match: re.Match[str]) -> None:
    content = match[5]
    kept = content.strip()
    if kept:
        begin = match.start(5) + len(content) - len(content.lstrip())
        field.leaves.append((kept, begin, None))
