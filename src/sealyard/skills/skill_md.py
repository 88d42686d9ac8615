"""`SKILL.md`: its frontmatter, written so that no value can be anything but a text, and read as nothing but texts.

What is read here comes from strangers: anchors, tags and deep nesting are refused before anything is built from them.
"""

import re
from collections.abc import Hashable, Mapping
from typing import Any

import msgspec
import yaml

from sealyard.catalog.text import one_line
from sealyard.errors import InvalidSkill
from sealyard.skills.files import is_folder_name, shown

FRONTMATTER_BYTES = 64 * 2**10
_DEPTH = 16
_NODES = 2000
_REASON = 120
_FILE = "'SKILL.md'"
_BEGIN = re.compile(r"---[ \t]*\r?\n")
_END = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class SkillText(msgspec.Struct, frozen=True, kw_only=True):
    """What a `SKILL.md` says of its skill."""

    name: str
    description: str
    metadata: dict[str, str]
    """Entries that are texts; others are left out."""


def frontmatter_text(fields: Mapping[str, str], metadata: Mapping[str, str]) -> str:
    """The lines from `---` to `---`. Keys are the caller's own words; values may be any text."""
    lines = [f"{key}: {_quoted(value)}" for key, value in fields.items()]
    lines += ["metadata:", *(f"  {key}: {_quoted(value)}" for key, value in metadata.items())]
    return "\n".join(("---", *lines, "---", ""))


def read_skill_md(content: bytes) -> SkillText:
    """The parts of the frontmatter that the Agent Skills format demands, and its metadata.

    Raises:
        InvalidSkill: They are missing or cannot be read.
    """
    fields = read_frontmatter(content)
    name, description, metadata = (fields.get(key) for key in ("name", "description", "metadata"))
    if not isinstance(name, str) or not is_folder_name(name.strip()):
        raise InvalidSkill(
            f"{_FILE} names its skill {shown(str(name))}. Write `name:` with 1 to 64 of a-z, 0-9 and single hyphens."
        )
    if not isinstance(description, str) or not description.strip():
        raise InvalidSkill(f"{_FILE} has no description. Write `description:` and what the skill does.")
    if metadata is not None and metadata != "" and not isinstance(metadata, dict):
        raise InvalidSkill(f"{_FILE} has metadata that are no mapping. Write one `key: value` in each line below it.")
    texts = {key: value for key, value in (metadata or {}).items() if isinstance(value, str)}
    return SkillText(name=name.strip(), description=description.strip(), metadata=texts)


def read_frontmatter(content: bytes) -> dict[str, Any]:
    """The frontmatter as it is written: every scalar is a text, `1.10` as well as `yes`.

    Raises:
        InvalidSkill: There is none, it is not plain YAML, or too much.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidSkill(f"{_FILE} is not UTF-8: byte {error.start} is none. Save it as UTF-8.") from None
    begin = _BEGIN.match(text)
    end = _END.search(text, begin.end()) if begin is not None else None
    if begin is None or end is None:
        raise InvalidSkill(
            f"{_FILE} has no frontmatter. Begin it with a line `---` and end that part with another one."
        )
    source = text[begin.end() : end.start()]
    if len(source.encode()) > FRONTMATTER_BYTES:
        raise InvalidSkill(f"{_FILE} has a frontmatter of more than {FRONTMATTER_BYTES:,} bytes. Shorten it.")
    try:
        fields = _Texts(source).get_single_data()
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: escapes that are no character
        raise InvalidSkill(f"{_FILE} has a frontmatter that is no plain YAML: {_reason(error)}. Correct it.") from None
    if not isinstance(fields, dict):
        raise InvalidSkill(f"{_FILE} has a frontmatter that is no mapping. Write `name:` and `description:` in it.")
    return fields


class _Texts(yaml.BaseLoader):
    """Builds texts, lists and mappings, and refuses what makes more of YAML than that."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._open = 0
        self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "anchor", None) is not None:  # an alias has one too
            raise yaml.MarkedYAMLError(problem="it has an anchor or an alias", problem_mark=event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(problem="it has a tag", problem_mark=event.start_mark)
        self._open += 1
        self._nodes += 1
        if self._open > _DEPTH or self._nodes > _NODES:
            raise yaml.MarkedYAMLError(
                problem="it is nested too deep or has too many values", problem_mark=event.start_mark
            )
        node = super().compose_node(parent, index)
        self._open -= 1
        return node

    def construct_scalar(self, node: yaml.ScalarNode) -> str:
        text = str(super().construct_scalar(node))
        text.encode()  # an escape may have made half of a character
        return text

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value):
            raise yaml.MarkedYAMLError(problem="it has a key twice", problem_mark=node.start_mark)
        return mapping


def _reason(error: Exception) -> str:
    """What the parser says, on one line, with the line in the file."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return "it has a character that YAML does not allow"
    said = one_line(error.problem or error.context or "it is odd", limit=_REASON)
    return f"{said} (line {error.problem_mark.line + 2})" if error.problem_mark is not None else said


def _quoted(text: str) -> str:
    """`text` as a double-quoted scalar on one line, without two hyphens in a row: some readers split at any `---`."""
    quoted = "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escaped(c)) for c in text)
    return '"' + quoted.replace("--", "-\\x2d") + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
