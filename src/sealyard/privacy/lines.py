"""Fields outside of tables and brackets: `key: value` and `key=value` lines, YAML, vCards, tags of XML and HTML.

What they hold is only looked at for its name here; the text around and in them is searched by value as it stands.
"""

import re
from collections.abc import Iterator

from sealyard.privacy.fields import Field
from sealyard.privacy.literals import read_literal
from sealyard.privacy.placed import PlacedFloat, PlacedInt, PlacedText, place

__all__ = ("read_inserts", "read_lines", "read_pairs", "read_tags")

_LINE = re.compile(
    r"""^([ \t>]{0,200}(?:(?:[-*•+]|\d{1,3}[.)])[ \t]+)?)[*_"'`]{0,3}([^\W\d_][\w .\-/()'&]{0,48}?)"""
    r"""(?:;[A-Za-z][^:\n]{0,100})?["'`*_]{0,3}[ \t]*(?::(?!//)|=(?!=)|\t|->)\*{0,3}(?:[ \t]+|(?=[^\s])|$)([^\n]*)$""",
    re.MULTILINE,
)
_INNER = re.compile(r"[,;|][ \t]*(?=[^\W\d_][\w ]{0,30}[ \t]?[:=][ \t]?[^\s:=/])")
_INNER_PAIR = re.compile(r"[ \t]*([^\W\d_][\w ]{0,30}?)[ \t]?[:=][ \t]*(.*)", re.DOTALL)
_PAIR = re.compile(r"""(?<![\w.\-/])([A-Za-z_][\w.\-]{0,60})=(?:"([^"\n]*)"|'([^'\n]*)'|([^\s"',;&)\]}>|]+))""")
_TAG = re.compile(
    r"""<(/?)([A-Za-z_][\w:.\-]{0,60})((?:\s+[\w:.\-]{1,60}\s*=\s*(?:"[^"]*"|'[^']*'))*)\s*(/?)>([^<]*)"""
)
_ATTRIBUTE = re.compile(r"""([\w:.\-]{1,60})\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_CODE = re.compile(
    r"[A-Za-z_][\w.]*[(\[].*|\$\{?\w+\}?|<[^<>]*>|\{\{.*\}\}|self\.[\w.]+|process\.[\w.]+|os\.[\w.]+.*", re.DOTALL
)
"""What a program says a field is to hold."""
_VCARD = {
    "fn": "full name",
    "n": "full name",
    "tel": "phone",
    "adr": "home address",
    "org": "organization",
    "bday": "birthday",
}
_INSERT = re.compile(r"\binsert\s+into\s+[^\s(]{1,200}\s*\(([^()]{1,5000})\)\s*values\s*(?=\()", re.IGNORECASE)
_NEXT_ROW = re.compile(r"\s*,\s*(?=\()")
_TRANSPARENT = frozenset(
    "a b i u em strong span font small big code p div tt mark label cite abbr time sub sup".split()
)
"""What stands in one of these belongs to the tag around it."""
_VOID = frozenset("br hr img input meta link area base col embed source track wbr".split())
_LONGEST = 2_000
"""A line's value longer than this is prose."""


def read_lines(text: str, start: int, end: int) -> Iterator[Field]:
    """The records that consecutive `key: value` lines make. Lines indented under a key are its fields."""
    roots: dict[tuple[str, ...], Field] = {}
    block: list[tuple[int, str, PlacedText]] = []
    last = start
    in_card = False
    for match in _LINE.finditer(text, start, end):
        if text.count("\n", last, match.start()) > 1 or text[last : match.start()].strip():
            yield from _block(block, roots)
            block = []
        last = match.end()
        name, begin = match[2].strip(), match.start(3)
        value = match[3]
        if name == "BEGIN" and value.strip().upper() == "VCARD":
            in_card = True
        kept = value.strip().rstrip(",;").strip()
        begin += len(value) - len(value.lstrip())
        if len(kept) > 1 and kept[0] in "\"'" and kept[-1] == kept[0]:
            kept = kept[1:-1]
            begin += 1
        if in_card:
            name = _VCARD.get(name.split(";")[0].casefold(), name)
        if len(kept) <= _LONGEST and _CODE.fullmatch(kept) is None:
            block.append((len(match[1]), name, place(kept, begin, begin + len(kept))))
    yield from _block(block, roots)
    yield from roots.values()


def _block(block: list[tuple[int, str, PlacedText]], roots: dict[tuple[str, ...], Field]) -> Iterator[Field]:
    """Adds a block of lines to the record of those with the same names, or yields a tree if it is indented."""
    if not block:
        return
    inner = [(indent, name, value) for indent, name, value in block]
    if all(value for _, _, value in inner) and len({indent for indent, _, _ in inner}) == 1:
        pairs = [pair for _, name, value in inner for pair in _inner_pairs(name, value)]
        root = roots.setdefault(tuple(sorted({name for name, _ in pairs})), Field(""))
        for name, value in pairs:
            root.child(name).leaves.append((value, value.start, None))
        return
    root = Field("")
    open_fields: list[tuple[int, Field]] = [(-1, root)]
    for indent, name, value in inner:
        while len(open_fields) > 1 and indent <= open_fields[-1][0]:
            open_fields.pop()
        above = open_fields[-1][1]
        if value:
            for key, each in _inner_pairs(name, value):
                above.child(key).leaves.append((each, each.start, None))
        else:
            open_fields.append((indent, above.child(name)))
    yield root


def _inner_pairs(name: str, value: PlacedText) -> list[tuple[str, PlacedText]]:
    """`Name: Jane Doe, Phone: 555` is two fields on one line."""
    breaks = list(_INNER.finditer(value))
    if not breaks:
        return [(name, value)]
    starts = [0, *(match.end() for match in breaks)]
    stops = [*(match.start() for match in breaks), len(value)]
    found = [(name, _cut(value, 0, stops[0]))]
    for begin, stop in zip(starts[1:], stops[1:], strict=True):
        pair = _INNER_PAIR.match(value, begin, stop)
        if pair is not None:
            found.append((pair[1], _cut(value, *pair.span(2))))
    return found


def _cut(value: PlacedText, begin: int, stop: int) -> PlacedText:
    kept = value[begin:stop].rstrip()
    return place(kept, value.start + begin, value.start + begin + len(kept))


def read_pairs(text: str, start: int, end: int) -> Iterator[Field]:
    """The records of `key=value` pairs on one line: logs, query strings, what Python prints for objects."""
    roots: dict[tuple[str, ...], Field] = {}
    row: list[tuple[str, PlacedText]] = []
    last = start
    for match in _PAIR.finditer(text, start, end):
        if row and "\n" in text[last : match.start()]:
            _add_row(row, roots)
            row = []
        last = match.end()
        group = match.lastindex or 4
        if group == 4 and _CODE.fullmatch(match[4]) is not None:
            continue
        row.append((match[1], place(match[group], *match.span(group))))
    _add_row(row, roots)
    yield from roots.values()


def _add_row(row: list[tuple[str, PlacedText]], roots: dict[tuple[str, ...], Field]) -> None:
    if row:
        root = roots.setdefault(tuple(sorted({name for name, _ in row})), Field(""))
        for name, value in row:
            root.child(name).leaves.append((value, value.start, None))


def read_inserts(text: str, start: int, end: int) -> Iterator[Field]:
    """The rows of SQL's `INSERT INTO table (columns) VALUES (…), (…)`."""
    for match in _INSERT.finditer(text, start, end):
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


def read_tags(text: str, start: int, end: int) -> Field | None:
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
            _close_tag(open_fields, tag)
            if tag in _TRANSPARENT:
                _add_content(open_fields[-1][0], match)
            continue
        found = True
        above = open_fields[-1][0]
        if tag in ("tr", "table"):
            column = 0
        elif tag == "th":
            headers[column:] = [content.strip() or "#"]
            column += 1
        field = above if tag in _TRANSPARENT else above.child(name)
        if tag == "td":
            field = above.child(headers[column]) if column < len(headers) else field
            column += 1
        for attribute in _ATTRIBUTE.finditer(attributes):
            group = attribute.lastindex or 2
            begin = match.start(3) + attribute.start(group)
            placed = place(attribute[group], begin, begin + len(attribute[group]))
            field.child(attribute[1]).leaves.append((placed, begin, None))
        if tag != "th":
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
