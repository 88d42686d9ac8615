"""Skills as Agent Skills folders: `SKILL.md`, the code as a script, and a record of the rest.

The code is only in the script, so a reader of the script sees what would run. Folders come from strangers: YAML
anchors, tags and deep nesting are refused before anything is built from them. In the `SKILL.md` that we write, each
value of the author is quoted, fenced or escaped: it is never markup.
"""

import hashlib
import keyword
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import yaml

from sealyard.catalog.stubs import annotation, shape
from sealyard.errors import InvalidSkill
from sealyard.former import decode, spell
from sealyard.skills.sharing.files import (
    NAME_MOST,
    SkillFolder,
    check_files,
    files_digest,
    is_folder_name,
    shown,
)
from sealyard.values.skills import ImportedSkill, Skill, SkillExample, SkillForm, SkillNeed, SkillStatus, ToolNeed
from sealyard.versioning.compare import resolve
from sealyard.wording import one_line, plain

FRONTMATTER_BYTES = 64 * 2**10
"""Of a frontmatter: those in the wild have a few hundred."""
_YAML_DEPTH = 16  # levels; ours has two
_NODES = 2000
"""Nesting and values in a frontmatter: it is meant for a few short texts."""
_YAML_REASON = 120  # of the YAML parser's message
_FILE = "'SKILL.md'"
_BEGIN = re.compile(r"---[ \t]*\r?\n")
_END = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
FORM = "sealyard-form"
"""The frontmatter key that marks our own export."""
_DESCRIPTION = 1024  # of the description
_COMPATIBILITY = 500
"""Characters that the Agent Skills format allows for each."""
_METADATA = 1000  # of a list in the metadata; this and the next six: chosen, not measured
_AUTHOR = 200  # of the author's name
_CELL = 300  # of a table cell, or of inline code
_ROWS = 40  # of the tables of inputs and of tools
_EXAMPLES = 3  # shown; the record has all of them
_EXAMPLE = 1500  # of the inputs and the answer of an example; a longer one is in the record only
_FULL = 6000
"""Limits of our `SKILL.md`: characters of a value, an author, a table cell, rows of a table, examples and their
characters, and characters of a long description. An agent reads all of it."""
_IN_CODE = str.maketrans({"`": "'", "\\": "/", "|": "\\|"})
"""In code only the bar can be escaped, and only in a table."""
_RECORD = "assets/skill.json"
_FORMAT = 1  # the version of the record's format
_LEFT_OUT = 5  # the rest are counted
_REASON = 200
"""Files named in a message, and characters of a reason."""
_DECLARED = re.compile(r"([A-Za-z0-9_.-]{1,200})@([0-9]{1,9}(?:\.[0-9]{1,9}){0,2})")


# Frontmatter


class SkillText(msgspec.Struct, frozen=True, kw_only=True):
    """The frontmatter of a `SKILL.md`."""

    name: str
    description: str
    metadata: dict[str, str]
    """Its texts; other entries are left out."""


def read_skill_md(content: bytes) -> SkillText:
    """Read the parts of the frontmatter that the Agent Skills format requires, and its metadata.

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
        raise InvalidSkill(f"{_FILE} has metadata that is not a mapping. Write one `key: value` in each line below it.")
    texts = {key: value for key, value in (metadata or {}).items() if isinstance(value, str)}
    return SkillText(name=name.strip(), description=description.strip(), metadata=texts)


def read_frontmatter(content: bytes) -> dict[str, Any]:
    """Read the frontmatter as it is written: every scalar is a text, `1.10` as well as `yes`.

    Raises:
        InvalidSkill: It is missing, too large, or not plain YAML.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidSkill(f"{_FILE} is not UTF-8: byte {error.start} is invalid. Save it as UTF-8.") from None
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
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: escapes of no character
        raise InvalidSkill(f"{_FILE} has a frontmatter that is not plain YAML: {_reason(error)}. Correct it.") from None
    if not isinstance(fields, dict):
        raise InvalidSkill(f"{_FILE} has a frontmatter that is not a mapping. Write `name:` and `description:` in it.")
    return fields


class _Texts(yaml.BaseLoader):
    """Builds texts, lists and mappings, and refuses the rest of YAML."""

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
        if self._open > _YAML_DEPTH or self._nodes > _NODES:
            raise yaml.MarkedYAMLError(
                problem="it is nested too deep or has too many values", problem_mark=event.start_mark
            )
        node = super().compose_node(parent, index)
        self._open -= 1
        return node

    def construct_scalar(self, node: yaml.ScalarNode) -> str:
        text = str(super().construct_scalar(node))
        text.encode()  # raises for half of a surrogate pair
        return text

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value):
            raise yaml.MarkedYAMLError(problem="it has a key twice", problem_mark=node.start_mark)
        return mapping


def _reason(error: Exception) -> str:
    """The parser's message on one line, with the line in the file."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return "it has a character that YAML does not allow"
    said = one_line(error.problem or error.context or "it is odd", limit=_YAML_REASON)
    return f"{said} (line {error.problem_mark.line + 2})" if error.problem_mark is not None else said


def _quoted(text: str) -> str:
    """A double-quoted scalar on one line, without two hyphens in a row: some readers split at any `---`."""
    quoted = "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escaped(c)) for c in text)
    return '"' + quoted.replace("--", "-\\x2d") + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# The text of SKILL.md


def frontmatter(name: str, skill: Skill) -> str:
    """The frontmatter of a skill."""
    tools = [f"{need.tool}@{need.version}" for need in skill.tools]
    metadata = {
        "version": skill.version,
        "language": skill.language,
        "author": skill.author[:_AUTHOR],
        "tags": tags_text(skill.tags),
        "tools": _listed(tools, " ", _METADATA),
        "skills": _listed([f"{need.name}@{need.version}" for need in skill.skills], " ", _METADATA),
        FORM: skill.form,
        "sealyard-status": skill.status,
        "sealyard-digest": skill.digest,
    }
    needs = f"Needs sealyard with {_listed(tools, ', ', _COMPATIBILITY - 40)}." if tools else "Needs sealyard."
    fields = {"name": name, "description": description_text(skill.name, skill.description), "compatibility": needs}
    lines = [f"{key}: {_quoted(value)}" for key, value in fields.items()]
    lines += ["metadata:", *(f"  {key}: {_quoted(value)}" for key, value in metadata.items() if value)]
    return "\n".join(("---", *lines, "---", ""))


def description_text(name: str, description: str) -> str:
    """The description within the 1 to 1,024 characters of the format."""
    text = description.strip() or f"The skill {name}. Nobody has described it."
    return text if len(text) <= _DESCRIPTION else text[: _DESCRIPTION - 2].rstrip() + " …"


def tags_text(tags: Sequence[str]) -> str:
    """The tags in one text."""
    return _listed(tags, ", ", _METADATA)


def skill_md_text(skill: Skill, *, signature: str, record: str) -> str:
    """The text after the frontmatter: purpose, use, inputs, answer, tools and examples."""
    parts = [f"# {skill.name}"]
    description = skill.description.strip()
    if len(description) > _DESCRIPTION:  # the frontmatter cuts it
        parts.append(_fenced(plain(description, limit=_FULL), "text"))
    parts += ["## Use", *_use(skill, signature)]
    parts += _inputs(skill.input_schema)
    if skill.output_schema is not None:
        parts += ["## Answer", _fenced(shape(skill.output_schema, skill.output_schema), "python")]
    if skill.tools:
        needs = [f"- {_inline(need.tool)} {_cell(need.version)}" for need in skill.tools[:_ROWS]]
        if len(skill.tools) > _ROWS:
            needs.append(f"- {len(skill.tools) - _ROWS} more in `{record}`")
        parts += ["## Tools", "\n".join(needs)]
    parts += _examples(skill.examples, record)
    return "\n" + "\n\n".join(parts) + "\n"


def _use(skill: Skill, signature: str) -> list[str]:
    properties = skill.input_schema.get("properties")
    names = properties if isinstance(properties, dict) else {}
    call = one_line(f"{skill.name}({', '.join(f'{name}=...' for name in names)})", limit=_FULL)
    comment = one_line(signature, limit=_FULL)
    code = f"from skills import {skill.name}\n\n" + (f"# {comment}\n" if comment else "") + call
    where = f"The code is in `scripts/{skill.name}.py`."
    if skill.tools or skill.skills:
        where += " It calls tools through sealyard, so it does not run alone."
    return ["In code that sealyard runs:", _fenced(code, "python"), where]


def _inputs(schema: dict[str, Any]) -> list[str]:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not properties:
        return []
    demanded = {key for key in required if isinstance(key, str)} if isinstance(required, list) else set()
    rows = ["| input | type | required | meaning |", "|---|---|---|---|"]
    for key, value in list(properties.items())[:_ROWS]:
        said = resolve(value, schema).get("description")
        meaning = _cell(said) if isinstance(said, str) else ""
        kind = _inline(annotation(value, schema))
        rows.append(f"| {_inline(str(key))} | {kind} | {'yes' if key in demanded else 'no'} | {meaning} |")
    return ["## Inputs", "\n".join(rows)]


def _examples(examples: Sequence[SkillExample], record: str) -> list[str]:
    """Examples that are short enough to be read."""
    parts = []
    for example in examples[:_EXAMPLES]:
        texts = [
            msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
            for value in (example.inputs, example.output)
        ]
        if sum(map(len, texts)) <= _EXAMPLE:
            parts += ["Inputs:", _fenced(plain(texts[0]), "json"), "Answer:", _fenced(plain(texts[1]), "json")]
    if not examples:
        return []
    is_recorded = any(example.trace is not None for example in examples)
    what = "What the tools answered to them is" if is_recorded else "All of them are"
    return ["## Examples", *parts, f"{what} in `{record}`."]


def _listed(words: Iterable[str], separator: str, most: int) -> str:
    """Join words within `most` characters, and count those that do not fit."""
    kept: list[str] = []
    words = list(words)
    for word in words:
        if len(separator.join((*kept, word))) > most - 20:
            return separator.join((*kept, f"and {len(words) - len(kept)} more"))
        kept.append(word)
    return separator.join(kept)


def _fenced(text: str, language: str) -> str:
    """Fence `text` with more backticks than it contains."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{language}\n{text}\n{fence}"


def _inline(text: str) -> str:
    """A short text as inline code, also in a table."""
    return f"`{one_line(text, limit=_CELL).translate(_IN_CODE)}`"


def _cell(text: str) -> str:
    """A text on one line without markup."""
    return re.sub(r"([\\`*\[\]<>#|!~&])", r"\\\1", " ".join(plain(text, limit=_CELL).split()))


# Folders


class _Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`assets/skill.json`: a skill without its code and its namespace."""

    sealyard_skill: int
    name: str
    version: str
    status: SkillStatus
    form: SkillForm
    language: Literal["python"]
    description: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    tags: tuple[str, ...] = ()
    tools: tuple[ToolNeed, ...] = ()
    skills: tuple[SkillNeed, ...] = ()
    author: str = ""
    level: str = ""
    origin: str = ""
    note: str = ""
    created_at: float = 0.0
    modified_at: float = 0.0
    digest: str = ""
    code_sha256: str
    examples: tuple[SkillExample, ...] = ()


def folder_name(name: str) -> str:
    """The Agent Skills name of a skill: `monthly_total` becomes `monthly-total`.

    Raises:
        InvalidSkill: No part of the name is allowed there.
    """
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:NAME_MOST].strip("-")
    if not name.isidentifier() or not is_folder_name(words):
        raise InvalidSkill(f"The skill {shown(name)} cannot be a folder. Save it under a name of a-z, 0-9 and _.")
    return words


def to_folder(skill: Skill, *, signature: str = "") -> SkillFolder:
    """Write a skill as a folder. `signature` is its Python signature, for the text.

    Raises:
        InvalidSkill: It cannot be written as files because of its name, half a character in its text, or its size.
    """
    name = folder_name(skill.name)
    try:
        code = skill.code.encode()
        fields = {key: getattr(skill, key) for key in _Record.__struct_fields__ if hasattr(skill, key)}
        record = _Record(sealyard_skill=_FORMAT, code_sha256=hashlib.sha256(code).hexdigest(), **fields)
        text = frontmatter(name, skill) + skill_md_text(skill, signature=signature, record=_RECORD)
        files = {
            "SKILL.md": text.encode(),
            _RECORD: msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n",
            f"scripts/{skill.name}.py": code,
        }
    except (ValueError, OverflowError, RecursionError, TypeError) as error:
        raise InvalidSkill(
            f"The skill {skill.name!r} cannot be written as files: {type(error).__name__}. Save it again without half"
            " characters and deeply nested examples."
        ) from error
    return SkillFolder(name=name, files=files)


def read_folder(files: Mapping[str, bytes], *, name: str = "") -> ImportedSkill:
    """Read the skill in these files: our own export, or any Agent Skills folder with a Python script.

    `name` is the folder's, if it has one.

    Raises:
        InvalidSkill: They are not a skill; the message names the file.
    """
    check_files(files, what="The skill folder")
    if "SKILL.md" not in files:
        raise InvalidSkill("The folder has no 'SKILL.md', so it is not a skill. Give a folder that has one.")
    text = read_skill_md(files["SKILL.md"])
    warnings = []
    if name and name != text.name:
        warnings.append(f"The folder is named {shown(name)}, but its SKILL.md says {text.name!r}.")
    if {FORM, spell(FORM)} & text.metadata.keys() and _RECORD in files:
        found = _own(files, text, _read_record(files[_RECORD]), warnings)
    else:
        found = _foreign(files, text, warnings)
    return msgspec.structs.replace(found, digest=files_digest(files), warnings=tuple(warnings))


def _own(files: Mapping[str, bytes], text: SkillText, record: _Record, warnings: list[str]) -> ImportedSkill:
    """Read our own export. Later edits of `SKILL.md` count, with a warning."""
    if folder_name(record.name) != text.name:
        raise InvalidSkill(
            f"{_RECORD!r} is of the skill {record.name!r}, 'SKILL.md' of {text.name!r}. Make them agree."
        )
    script = f"scripts/{record.name}.py"
    if script not in files:
        raise InvalidSkill(f"The skill folder {text.name!r} has no {script!r}. Put its code there.")
    if hashlib.sha256(files[script]).hexdigest() != record.code_sha256:
        warnings.append(f"{script} was changed after it was exported.")
    said = {
        "description": (text.description, description_text(record.name, record.description)),
        "version": (text.metadata.get("version", ""), record.version),
        "tags": (text.metadata.get("tags", ""), tags_text(record.tags)),
    }
    changed = [key for key, (now, exported) in said.items() if now != exported]
    if changed:
        warnings.append(f"SKILL.md was changed after it was exported: {', '.join(changed)}.")
    _warn_of_others(files, {"SKILL.md", _RECORD, script}, warnings)
    return ImportedSkill(
        name=record.name,
        folder=text.name,
        code=_code(files, script),
        description=text.description if "description" in changed else record.description,
        form=record.form,
        inputs=record.input_schema,
        output=record.output_schema,
        tags=_tags(text) if "tags" in changed else record.tags,
        examples=tuple(msgspec.structs.replace(each, passed=False, problem="") for each in record.examples),
        tools=record.tools,
        skills=record.skills,
        version=text.metadata.get("version", ""),
        author=record.author,
    )


def _foreign(files: Mapping[str, bytes], text: SkillText, warnings: list[str]) -> ImportedSkill:
    """Read a foreign folder: its text, and the one script that it means."""
    name = text.name.replace("-", "_")
    if not name.isidentifier() or keyword.iskeyword(name):
        name = f"skill_{name}"[:NAME_MOST]
    script = _script(files, text.name, name)
    _warn_of_others(files, {"SKILL.md", script}, warnings)
    return ImportedSkill(
        name=name,
        folder=text.name,
        code=_code(files, script),
        description=text.description,
        tags=_tags(text),
        tools=tuple(
            ToolNeed(tool=tool, version=version, digest="")
            for tool, version in _DECLARED.findall(text.metadata.get("tools", ""))
        ),
        version=text.metadata.get("version", ""),
        author=text.metadata.get("author", ""),
    )


def _script(files: Mapping[str, bytes], folder: str, name: str) -> str:
    """The path of the skill's script."""
    scripts = [path for path in files if re.fullmatch(r"scripts/[^/]+\.py", path)]
    named = [path for path in (f"scripts/{name}.py", f"scripts/{folder}.py") if path in scripts]
    if named or len(scripts) == 1:
        return (named or scripts)[0]
    if not scripts:
        raise InvalidSkill(
            f"The skill folder {folder!r} has no Python script in 'scripts/', so there is nothing to run. Add"
            f" 'scripts/{name}.py', or give the folder to the agent as instructions instead."
        )
    raise InvalidSkill(
        f"The skill folder {folder!r} has {len(scripts)} scripts and none is named like it: {_some(scripts)}. Name the"
        f" one to run 'scripts/{name}.py'."
    )


def _read_record(content: bytes) -> _Record:
    try:
        record = decode(content, _Record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else one_line(str(error), limit=_REASON)
        raise InvalidSkill(
            f"{_RECORD!r} cannot be read: {reason}. Restore it, or remove it to take the rest of the folder."
        ) from None
    if record.sealyard_skill != _FORMAT:
        raise InvalidSkill(
            f"{_RECORD!r} has the format {record.sealyard_skill}; this sealyard reads {_FORMAT}. Update sealyard."
        )
    return record


def _code(files: Mapping[str, bytes], script: str) -> str:
    try:
        return files[script].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidSkill(f"{script!r} is not UTF-8: byte {error.start} is invalid. Save it as UTF-8.") from None


def _tags(text: SkillText) -> tuple[str, ...]:
    tags = (tag.strip() for tag in text.metadata.get("tags", "").split(","))
    return tuple(dict.fromkeys(tag for tag in tags if tag))


def _warn_of_others(files: Mapping[str, bytes], used: set[str], warnings: list[str]) -> None:
    others = sorted(files.keys() - used)
    if others:
        warnings.append(f"Not taken over, because a skill here is one script: {_some(others)}.")


def _some(paths: list[str]) -> str:
    names = ", ".join(map(shown, paths[:_LEFT_OUT]))
    return names if len(paths) <= _LEFT_OUT else f"{names} and {len(paths) - _LEFT_OUT} more"
