"""Clients' files in YAML, which are changed block by block: the lines of an entry that stays are not touched.

Only the core that JSON has is read. Messages hold a line and a column and nothing of the content.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import yaml

_DEPTH = 100
"""Levels of nesting: ten times what clients write, and a tenth of what recursion bears."""
_REMARK = re.compile(r"\s*(#.*)?$")


class InvalidYaml(ValueError):
    """The text is not YAML, or uses what no client's file needs; the message names the place."""


class _Loader(yaml.SafeLoader):
    """Reads the core of YAML 1.2: `yes` is a text. An alias, which could unfold into gigabytes, is an error."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node, unless it is an alias or nested too deeply."""
        if self.check_event(yaml.AliasEvent):
            raise InvalidYaml(f"{_at(self.peek_event())}: an alias, which sealyard does not read")  # type: ignore[no-untyped-call]
        self.depth += 1
        if self.depth > _DEPTH:
            raise InvalidYaml(f"values are nested more than {_DEPTH} deep")
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]{0,17})", list("-+0123456789")),
    ("float", r"[-+]?(?:0|[1-9][0-9]{0,17})?\.[0-9]{1,17}", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^{_pattern}$"), _first)


def _at(place: Any) -> str:
    mark = getattr(place, "start_mark", place)
    return f"line {mark.line + 1}, column {mark.column + 1}"


def parse_yaml(text: str) -> Any:
    """The value of the text. That of an empty one is an empty object.

    Raises:
        InvalidYaml: It holds none, more than one, an alias, or keys that are not texts.
    """
    value = _load(text, lambda loader: loader.get_single_data())
    _check_keys(value)
    return {} if value is None else value


def _load(text: str, read: Callable[[_Loader], Any]) -> Any:
    try:
        loader = _Loader(text)
        try:
            return read(loader)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        raise InvalidYaml(_at(place) if place else "it cannot be read") from None
    except yaml.YAMLError:  # its message quotes the text
        raise InvalidYaml("a character is not allowed") from None


def _check_keys(value: Any) -> None:
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, str):
                raise InvalidYaml("a key is not a text")
            _check_keys(each)
    elif isinstance(value, list):
        for each in value:
            _check_keys(each)


class _Entry(msgspec.Struct, frozen=True):
    """A key with its value in the lines of a text."""

    first: int
    """The first line of the remarks before it, which belong to it."""
    key: int
    end: int
    """The line behind the last."""
    column: int
    node: yaml.Node


def _entries(lines: list[str], node: yaml.Node | None, start: int, end: int) -> dict[str, _Entry]:
    """The entries of a mapping that has each on lines of its own, all of them from the line `start` to `end`."""
    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        return {}
    found = {}
    for index, (key, value) in enumerate(node.value):
        behind = node.value[index + 1][0].start_mark.line if index + 1 < len(node.value) else end
        while behind > key.start_mark.line + 1 and _REMARK.match(lines[behind - 1]):
            behind -= 1
        found[key.value] = _Entry(start, key.start_mark.line, behind, key.start_mark.column, value)
        start = behind
    return found


def put_yaml(text: str, key: str, wanted: dict[str, Any], like: str) -> tuple[str, bool]:
    """The text with the value of `wanted` at the top-level `key`, and whether comments inside the old one are lost.

    Entries that stay as they are keep their lines. Where the text is not written in blocks, it stays as it is.
    """
    line = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    root = _load(text, lambda loader: loader.get_single_node())
    if root is not None and (not isinstance(root, yaml.MappingNode) or root.flow_style):
        return text, False
    own = _entries(lines, root, 0, _document_end(lines))
    block = _block_in(like, key, wanted[key])
    if block is None:
        block = _render_block({key: wanted[key]}, _lines_of(lines, own.get(key)) | _lines_in(like, key), line)
    if key in own:
        before, old, after = lines[: own[key].key], lines[own[key].key : own[key].end], lines[own[key].end :]
    else:
        end = _document_end(lines) if root is not None else len(lines)
        before, old, after = lines[:end], [], lines[end:]
    if before and not before[-1].endswith(("\n", "\r")):
        before[-1] += line
    loses = any("#" in each and each not in block for each in old)
    return "".join(before) + block + "".join(after), loses


def dump_yaml(value: Any) -> str:
    """The value as a text in blocks."""
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1 << 20)
    return text


def _document_end(lines: list[str]) -> int:
    return next((number for number, each in enumerate(lines) if each.startswith("...")), len(lines))


class _Spelled(msgspec.Struct, frozen=True):
    """A value, and the lines that spell it."""

    value: Any
    text: str
    column: int


def _block_in(like: str, key: str, value: Any) -> str | None:
    """The lines of another text of the file that hold the same value."""
    try:
        entry, lines = _entry_in(like, key)
        block = "".join(lines[entry.key : entry.end]) if entry is not None else ""
        return block if block.endswith("\n") and parse_yaml(block) == {key: value} else None
    except InvalidYaml:
        return None


def _entry_in(text: str, key: str) -> tuple[_Entry | None, list[str]]:
    lines = text.splitlines(keepends=True)
    root = _load(text, lambda loader: loader.get_single_node())
    return _entries(lines, root, 0, _document_end(lines)).get(key), lines


def _lines_in(like: str, key: str) -> dict[str, _Spelled]:
    try:
        entry, lines = _entry_in(like, key)
        return _lines_of(lines, entry)
    except InvalidYaml:
        return {}


def _lines_of(lines: list[str], entry: _Entry | None) -> dict[str, _Spelled]:
    """The value and the lines of each entry below this one, by its name."""
    found = {}
    for name, each in _entries(lines, entry.node, entry.key + 1, entry.end).items() if entry is not None else ():
        text = "".join(lines[each.first : each.end])
        found[name] = _Spelled(parse_yaml(text)[name], text, each.column)
    return found


def _render_block(table: dict[str, Any], spelled: Mapping[str, _Spelled], line: str) -> str:
    """The table of one key as lines; its entries as they are spelled already, if they are in one indentation."""
    ((key, value),) = table.items()
    values = value if isinstance(value, dict) else {}
    kept = {name: spelled[name] for name in values if name in spelled and spelled[name].value == values[name]}
    columns = {each.column for each in kept.values()}
    if len(columns) != 1:
        return dump_yaml(table).replace("\n", line)
    indent = " " * columns.pop()
    entries = [
        kept[name].text
        if name in kept
        else re.sub("^(?=.)", indent, dump_yaml({name: each}), flags=re.MULTILINE).replace("\n", line)
        for name, each in values.items()
    ]
    entries = [each if each.endswith(("\n", "\r")) else each + line for each in entries]
    return f"{key}:{line}{''.join(entries)}"
