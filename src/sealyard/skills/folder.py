"""Skills as Agent Skills folders: `SKILL.md` for whoever reads it, the code as a script, and a record of the rest.

The code is nowhere but in the script, so that who has read the script has read what would run.
"""

import hashlib
import keyword
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from sealyard.catalog.text import one_line
from sealyard.errors import InvalidSkill
from sealyard.former import decode, spell
from sealyard.skills.files import (
    NAME_MOST,
    SkillFolder,
    check_files,
    files_digest,
    is_folder_name,
    shown,
)
from sealyard.skills.folder_text import FORM, description_text, frontmatter, skill_md_text, tags_text
from sealyard.skills.skill_md import SkillText, read_skill_md
from sealyard.values import Skill, SkillExample, SkillForm, SkillNeed, SkillStatus, ToolNeed

_RECORD = "assets/skill.json"
_FORMAT = 1
_LEFT_OUT = 5
_REASON = 200
_DECLARED = re.compile(r"([A-Za-z0-9_.-]{1,200})@([0-9]{1,9}(?:\.[0-9]{1,9}){0,2})")


class ImportedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder says a skill is. Nothing of it is proven: the code is to be read, reviewed and tried anew."""

    name: str
    """As code imports it: a Python identifier."""
    folder: str
    """As `SKILL.md` has it, with hyphens."""
    code: str
    description: str
    form: SkillForm | None = None
    """`None` in folders that sealyard did not write; so are the schemas."""
    inputs: dict[str, Any] | None = None
    output: dict[str, Any] | None = None
    tags: tuple[str, ...] = ()
    examples: tuple[SkillExample, ...] = ()
    """As none that has passed: that it did elsewhere counts for nothing here."""
    tools: tuple[ToolNeed, ...] = ()
    """As they are declared; the code decides. An empty digest was not given."""
    skills: tuple[SkillNeed, ...] = ()
    version: str = ""
    author: str = ""
    digest: str
    """Of all files of the folder."""
    warnings: tuple[str, ...] = ()
    """What the person who approves it should know."""


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
    """The Agent Skills name of a skill: `monthly_total` is `monthly-total`.

    Raises:
        InvalidSkill: Nothing of the name can stand in a folder's.
    """
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:NAME_MOST].strip("-")
    if not name.isidentifier() or not is_folder_name(words):
        raise InvalidSkill(f"The skill {shown(name)} cannot be a folder. Save it under a name of a-z, 0-9 and _.")
    return words


def to_folder(skill: Skill, *, signature: str = "") -> SkillFolder:
    """The skill as a folder. `signature` is its Python one, for the text.

    Raises:
        InvalidSkill: The skill cannot be written as files: its name, half a character in its text, or its size.
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
    """The skill in these files: our own export, or any Agent Skills folder with a Python script.

    `name` is the folder's, if it has one.

    Raises:
        InvalidSkill: They are no skill; the message names the file.
    """
    check_files(files, what="The skill folder")
    if "SKILL.md" not in files:
        raise InvalidSkill("The folder has no 'SKILL.md', so it is no skill. Give a folder that has one.")
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
    """What sealyard exported. Where a person has changed `SKILL.md` since, that counts, and is said."""
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
        "description": (text.description, description_text(record.name, record.description), record.description),
        "version": (text.metadata.get("version", ""), record.version, record.version),
        "tags": (text.metadata.get("tags", ""), tags_text(record.tags), record.tags),
    }
    changed = [key for key, (now, exported, _) in said.items() if now != exported]
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
        digest="",
    )


def _foreign(files: Mapping[str, bytes], text: SkillText, warnings: list[str]) -> ImportedSkill:
    """What somebody else wrote: the text, and the one script that is meant."""
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
        digest="",
    )


def _script(files: Mapping[str, bytes], folder: str, name: str) -> str:
    """The path of the script that is the skill's code."""
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
        raise InvalidSkill(f"{script!r} is not UTF-8: byte {error.start} is none. Save it as UTF-8.") from None


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
