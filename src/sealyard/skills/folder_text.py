"""The text of `SKILL.md` for a skill. What its author wrote is quoted, fenced or escaped: it is never markup."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from sealyard.catalog.text import annotation, one_line, plain, resolve, shape
from sealyard.skills.skill_md import frontmatter_text
from sealyard.values import Skill, SkillExample

FORM = "sealyard-form"
"""The key of the frontmatter that marks a folder as our own export."""
_DESCRIPTION = 1024
_COMPATIBILITY = 500
_METADATA = 1000
_AUTHOR = 200
_CELL = 300
_ROWS = 40
_EXAMPLES = 3
_EXAMPLE = 1500
_FULL = 6000
_IN_CODE = str.maketrans({"`": "'", "\\": "/", "|": "\\|"})
"""Nothing can be escaped in code but the bar, and that only in a table."""


def frontmatter(name: str, skill: Skill) -> str:
    """Everything between the two lines of hyphens, and them."""
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
    return frontmatter_text(fields, {key: value for key, value in metadata.items() if value})


def description_text(name: str, description: str) -> str:
    """The description as the format takes it: of 1 to 1,024 characters."""
    text = description.strip() or f"The skill {name}. Nobody has described it."
    return text if len(text) <= _DESCRIPTION else text[: _DESCRIPTION - 2].rstrip() + " …"


def tags_text(tags: Sequence[str]) -> str:
    """The tags in one text."""
    return _listed(tags, ", ", _METADATA)


def skill_md_text(skill: Skill, *, signature: str, record: str) -> str:
    """What follows the frontmatter: what the skill does, takes and answers, and how it is used."""
    parts = [f"# {skill.name}", *_full_description(skill), "## Use", *_use(skill, signature)]
    parts += _inputs(skill.input_schema)
    if skill.output_schema is not None:
        parts += ["## Answer", _fenced(shape(skill.output_schema, skill.output_schema), "python")]
    if skill.tools:
        needs = [f"- {_code(need.tool)} {_cell(need.version)}" for need in skill.tools[:_ROWS]]
        parts += ["## Tools", "\n".join((*needs, *_more(len(skill.tools), record)))]
    parts += _examples(skill.examples, record)
    return "\n" + "\n\n".join(parts) + "\n"


def _full_description(skill: Skill) -> list[str]:
    """The description, if the frontmatter has not room for it."""
    text = skill.description.strip()
    return [_fenced(plain(text, limit=_FULL), "text")] if len(text) > _DESCRIPTION else []


def _use(skill: Skill, signature: str) -> list[str]:
    properties = skill.input_schema.get("properties")
    names = properties if isinstance(properties, dict) else {}
    call = one_line(f"{skill.name}({', '.join(f'{name}=...' for name in names)})", limit=_FULL)
    told = one_line(signature, limit=_FULL)
    code = f"from skills import {skill.name}\n\n" + (f"# {told}\n" if told else "") + call
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
        kind = _code(annotation(value, schema))
        rows.append(f"| {_code(str(key))} | {kind} | {'yes' if key in demanded else 'no'} | {meaning} |")
    return ["## Inputs", "\n".join(rows)]


def _examples(examples: Sequence[SkillExample], record: str) -> list[str]:
    """Some examples that are short enough to be read."""
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


def _more(count: int, record: str) -> list[str]:
    return [f"- {count - _ROWS} more in `{record}`"] if count > _ROWS else []


def _listed(words: Iterable[str], separator: str, most: int) -> str:
    """The words in one text of at most `most` characters; those that do not fit are counted."""
    kept: list[str] = []
    words = list(words)
    for word in words:
        if len(separator.join((*kept, word))) > most - 20:
            return separator.join((*kept, f"and {len(words) - len(kept)} more"))
        kept.append(word)
    return separator.join(kept)


def _fenced(text: str, language: str) -> str:
    """`text` between fences that are longer than any in it."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{language}\n{text}\n{fence}"


def _code(text: str) -> str:
    """A short text as code, also in a table."""
    return f"`{one_line(text, limit=_CELL).translate(_IN_CODE)}`"


def _cell(text: str) -> str:
    """A text on one line without markup."""
    return re.sub(r"([\\`*\[\]<>#|!~&])", r"\\\1", " ".join(plain(text, limit=_CELL).split()))
