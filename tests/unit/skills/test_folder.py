"""Skills as Agent Skills folders: what is written comes back, others read it, and text stays text."""

import errno
import hashlib
import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skills_ref import read_properties, validate

from sealyard.errors import InvalidSkill
from sealyard.skills.sharing import files as files_module
from sealyard.skills.sharing import load_folder, read_folder, to_folder
from sealyard.skills.sharing.files import FILES_MOST, SkillFolder, files_digest, files_manifest, write_folder
from sealyard.skills.sharing.folder import FRONTMATTER_BYTES, folder_name, read_frontmatter, read_skill_md
from sealyard.values.skills import ImportedSkill, Skill, SkillExample, SkillNeed, ToolNeed, Trace, TraceCall

CODE = "from servers.expenses import list_expenses\r\n\ndef monthly_total(user):\n    return 'é'\n"
FULL = Skill(
    namespace="ada",
    name="monthly_total",
    version="1.2.0",
    status="active",
    form="function",
    code=CODE,
    description="Adds up a month.",
    input_schema={
        "type": "object",
        "properties": {"user": {"type": "string", "description": "Whose."}, "month": {"type": "string"}},
        "required": ["user"],
    },
    output_schema={"type": "number"},
    tags=("money", "months, years"),
    examples=(
        SkillExample(
            inputs={"user": "u1"},
            output=12.5,
            trace=Trace(
                recorded_at=1730000000.25,
                calls=(
                    TraceCall(tool="mcp__expenses__list_expenses", version="1.2.0", arguments={"a": 1}, answer=[None]),
                ),
            ),
            passed=True,
        ),
    ),
    tools=(ToolNeed(tool="mcp__expenses__list_expenses", version="1.2.0", digest="ab" * 32, lines=(1,)),),
    skills=(SkillNeed(name="other", version="0.1.0", lines=(2,)),),
    author="ada",
    level="production",
    created_at=1.5,
    modified_at=2.5,
    digest="sha256:" + "0" * 64,
)
SKILL_MD = b"---\nname: pdf-rows\ndescription: Reads rows.\n---\n# PDF\n"

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
HOSTILE = st.lists(
    st.sampled_from(
        [
            "---",
            "\n",
            "\r",
            "name: evil",
            '"',
            "\\",
            "`",
            "```",
            "|",
            "# ",
            "<b>",
            "\u2028",
            "\u202e",
            "\x00",
            "*a",
            "&b",
            "😀",
        ]
    )
    | TEXTS,
    max_size=12,
).map("".join)


def a_skill(**changes: Any) -> Skill:
    """A small skill, but for the changes."""
    known: dict[str, Any] = {"namespace": "shared", "name": "total", "code": "total = 1\n"}
    return Skill(**known | changes)


def on_disk(folder: SkillFolder, place: Path) -> Path:
    """The folder where a validator can see it."""
    return write_folder(folder, place)


def refusal(files: dict[str, bytes]) -> str:
    """What is said of files that are no skill."""
    with pytest.raises(InvalidSkill) as caught:
        read_folder(files)
    return str(caught.value)


# Writing


def test_a_skill_that_was_written_comes_back_exactly() -> None:
    """Code, schemas, examples and needs are the same; only that its examples have passed is not believed."""
    folder = to_folder(FULL, signature="monthly_total(user: str) -> float")

    found = read_folder(folder.files, name=folder.name)

    assert found == ImportedSkill(
        name="monthly_total",
        folder="monthly-total",
        code=CODE,
        description="Adds up a month.",
        form="function",
        inputs=FULL.input_schema,
        output=FULL.output_schema,
        tags=FULL.tags,
        examples=(msgspec.structs.replace(FULL.examples[0], passed=False),),
        tools=FULL.tools,
        skills=FULL.skills,
        version="1.2.0",
        author="ada",
        digest=folder.digest,
        warnings=(),
    )
    assert list(found.inputs or {}) == list(FULL.input_schema)


def test_the_script_is_the_code_byte_for_byte() -> None:
    """Whoever reads the script reads what would run; the code is in no other file."""
    folder = to_folder(FULL)

    assert sorted(folder.files) == ["SKILL.md", "assets/skill.json", "scripts/monthly_total.py"]
    assert folder.files["scripts/monthly_total.py"] == CODE.encode()
    assert b"list_expenses(" not in folder.files["assets/skill.json"]
    assert "code" not in json.loads(folder.files["assets/skill.json"])
    assert "namespace" not in json.loads(folder.files["assets/skill.json"])


def test_the_text_says_what_the_skill_is() -> None:
    """A person or a model reads the whole of it."""
    text = to_folder(FULL, signature="monthly_total(user: str) -> float").files["SKILL.md"].decode()

    assert text == (
        """---
name: "monthly-total"
description: "Adds up a month."
compatibility: "Needs sealyard with mcp__expenses__list_expenses@1.2.0."
metadata:
  version: "1.2.0"
  language: "python"
  author: "ada"
  tags: "money, months, years"
  tools: "mcp__expenses__list_expenses@1.2.0"
  skills: "other@0.1.0"
  sealyard-form: "function"
  sealyard-status: "active"
  sealyard-digest: "sha256:"""
        + "0" * 64
        + """"
---

# monthly_total

## Use

In code that sealyard runs:

```python
from skills import monthly_total

# monthly_total(user: str) -> float
monthly_total(user=..., month=...)
```

The code is in `scripts/monthly_total.py`. It calls tools through sealyard, so it does not run alone.

## Inputs

| input | type | required | meaning |
|---|---|---|---|
| `user` | `str` | yes | Whose. |
| `month` | `str` | no |  |

## Answer

```python
float
```

## Tools

- `mcp__expenses__list_expenses` 1.2.0

## Examples

Inputs:

```json
{
  "user": "u1"
}
```

Answer:

```json
12.5
```

What the tools answered to them is in `assets/skill.json`.
"""
    )


def test_the_command_of_the_format_takes_the_folder(tmp_path: Path) -> None:
    """`agentskills validate`, as its users run it; and it refuses a folder of another name."""
    command = Path(sys.executable).with_name("agentskills")
    written = on_disk(to_folder(FULL), tmp_path)

    good = subprocess.run([command, "validate", written], capture_output=True, timeout=60, check=False)
    bad = subprocess.run(
        [command, "validate", written.rename(tmp_path / "other")], capture_output=True, timeout=60, check=False
    )

    assert (good.returncode, good.stderr) == (0, b"")
    assert bad.returncode == 1


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("", "The skill total. Nobody has described it."),
        (" \n", "The skill total. Nobody has described it."),
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1022 + " …"),
        ("word " * 3000, ("word " * 205)[:1022].rstrip() + " …"),
    ],
)
def test_a_description_of_any_length_is_written(tmp_path: Path, description: str, expected: str) -> None:
    """The format takes 1 to 1,024 characters; the whole one comes back."""
    folder = to_folder(a_skill(description=description))

    written = on_disk(folder, tmp_path)

    assert validate(written) == []
    assert read_properties(written).description == expected
    assert read_folder(folder.files).description == description
    assert read_folder(folder.files).warnings == ()


@settings(max_examples=60)
@given(description=HOSTILE, tags=st.lists(HOSTILE, max_size=5), author=HOSTILE, meaning=HOSTILE, signature=HOSTILE)
def test_no_text_of_a_skill_can_be_markup(
    tmp_path_factory: pytest.TempPathFactory,
    description: str,
    tags: list[str],
    author: str,
    meaning: str,
    signature: str,
) -> None:
    """Two parsers that nobody here wrote see the same values, and no text adds a field, a heading or a row."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": meaning}}}
    skill = a_skill(description=description, tags=tuple(tags), author=author, input_schema=schema)

    folder = to_folder(skill, signature=signature)

    written = on_disk(folder, tmp_path_factory.mktemp("skills"))
    assert validate(written) == []
    fields = read_frontmatter(folder.files["SKILL.md"])
    assert list(fields) == ["name", "description", "compatibility", "metadata"]
    properties = read_properties(written)
    assert (properties.name, properties.description) == ("total", fields["description"].strip())
    assert properties.metadata == fields["metadata"]
    assert read_folder(folder.files).description == description
    assert read_folder(folder.files).tags == tuple(tags)
    assert read_folder(folder.files).warnings == ()
    assert headings(folder.files["SKILL.md"].decode()) == ["# total", "## Use", "## Inputs"]


def test_fences_and_cells_hold_whatever_is_in_them() -> None:
    """A long description with fences of its own, an example with one, and a meaning that would be a link and a row."""
    meaning = "a | b <img src=x> [c](d) ![e](f)\n# g\n`h` *i* &lt; \\|"
    skill = a_skill(
        description="```\n# evil\n````\n" * 99,
        input_schema={"type": "object", "properties": {"a\\|`b": {"type": "string", "description": meaning}}},
        examples=(SkillExample(output="```\n# evil"),),
    )

    text = to_folder(skill).files["SKILL.md"].decode()

    assert headings(text) == ["# total", "## Use", "## Inputs", "## Examples"]
    assert [line for line in text.split("\n") if line.startswith("| ")][1:] == [
        r"| `a/\|'b` | `str` | no | a \| b \<img src=x\> \[c\](d) \!\[e\](f) \# g \`h\` \*i\* \&lt; \\\| |"
    ]


def headings(text: str) -> list[str]:
    """The headings of Markdown outside of fences, as CommonMark finds them."""
    found = []
    fence = ""
    for line in text.split("---\n", 2)[2].replace("\r", "\n").split("\n"):
        marks = line[: len(line) - len(line.lstrip("`"))]
        if fence:
            fence = "" if line == fence else fence
        elif len(marks) >= 3:
            fence = marks
        elif line.startswith("#"):
            found.append(line)
    assert fence == ""
    return found


def test_the_largest_frontmatter_is_one_that_is_read() -> None:
    """Every list in it is cut, and what was cut is in the record."""
    wide = "\U000e0001" * 200
    tools = tuple(ToolNeed(tool=f"mcp__x__{'t' * 100}{n}", version="1.0.0", digest="") for n in range(900))
    skill = a_skill(description=wide * 9, tags=(wide,) * 900, author=wide * 9, tools=tools)

    folder = to_folder(skill)

    assert len(folder.files["SKILL.md"]) < FRONTMATTER_BYTES
    assert read_folder(folder.files).tools == tools
    assert read_folder(folder.files).tags == skill.tags
    assert read_folder(folder.files).warnings == ()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("total", "total"), ("monthly_total", "monthly-total"), ("a__b_", "a-b"), ("_x", "x"), ("x" * 80, "x" * 64)],
)
def test_every_skill_name_has_a_folder_name(name: str, expected: str) -> None:
    """The format knows no underscores and no two hyphens in a row; the record keeps the name."""
    assert folder_name(name) == expected
    assert read_folder(to_folder(a_skill(name=name)).files).name == name


@pytest.mark.parametrize("name", ["", "../x", "a b", "_", "a/b", "1a"])
def test_a_name_that_is_none_is_not_written(name: str) -> None:
    """It would be a path."""
    with pytest.raises(InvalidSkill) as caught:
        to_folder(a_skill(name=name))

    assert str(caught.value) == f"The skill {name!r} cannot be a folder. Save it under a name of a-z, 0-9 and _."


@pytest.mark.parametrize("changes", [{"code": "'\ud800'"}, {"description": "\ud800"}, {"tags": ("\ud800",)}])
def test_half_a_character_is_not_written(changes: dict[str, Any]) -> None:
    """It has no bytes in UTF-8."""
    with pytest.raises(InvalidSkill) as caught:
        to_folder(a_skill(**changes))

    assert str(caught.value) == (
        "The skill 'total' cannot be written as files: UnicodeEncodeError. Save it again without half characters and"
        " deeply nested examples."
    )


# Manifest


def test_the_digest_depends_on_every_path_and_every_byte() -> None:
    """Anybody can compute it: the hash of the manifest as compact JSON."""
    folder = SkillFolder(name="a", files={"b/c.txt": b"xy", "SKILL.md": b"z"})
    entries = [
        {"path": path, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        for path, content in (("SKILL.md", b"z"), ("b/c.txt", b"xy"))
    ]

    assert msgspec.to_builtins(files_manifest(folder.files)) == entries
    text = json.dumps(entries, separators=(",", ":"))
    assert folder.digest == "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    others = [
        {"b/c.txt": b"xy", "SKILL.md": b"y"},
        {"b/d.txt": b"xy", "SKILL.md": b"z"},
        {"SKILL.md": b"z"},
        {"b/c.txt": b"xy", "SKILL.md": b"z", "e": b""},
    ]
    assert folder.digest not in {files_digest(other) for other in others}
    assert files_digest({"SKILL.md": b"z", "b/c.txt": b"xy"}) == folder.digest


# Reading


def test_a_foreign_folder_with_one_script_is_a_skill() -> None:
    """What its frontmatter says is told; what is not taken over is warned of."""
    text = b"""---
name: pdf-rows
description: >
  Reads rows
  of a PDF.
license: MIT
allowed-tools: Bash(rm:*)
metadata: {version: 1.10, author: someone, tags: "pdf, rows,,pdf",
  tools: "mcp__a__b@1.2 x mcp__c__d@3.0.1", nested: {a: b}}
---
# PDF
"""
    files = {"SKILL.md": text, "scripts/extract.py": b"print(1)\n", "references/x.md": b"", "scripts/run.sh": b""}

    found = read_folder(files, name="pdf")

    assert found == ImportedSkill(
        name="pdf_rows",
        folder="pdf-rows",
        code="print(1)\n",
        description="Reads rows of a PDF.",
        tags=("pdf", "rows"),
        tools=(
            ToolNeed(tool="mcp__a__b", version="1.2", digest=""),
            ToolNeed(tool="mcp__c__d", version="3.0.1", digest=""),
        ),
        version="1.10",
        author="someone",
        digest=files_digest(files),
        warnings=(
            "The folder is named 'pdf', but its SKILL.md says 'pdf-rows'.",
            "Not taken over, because a skill here is one script: 'references/x.md', 'scripts/run.sh'.",
        ),
    )


@pytest.mark.parametrize(
    ("scripts", "expected"),
    [
        (["scripts/a.py"], "scripts/a.py"),
        (["scripts/a.py", "scripts/pdf_rows.py"], "scripts/pdf_rows.py"),
        (["scripts/a.py", "scripts/pdf-rows.py"], "scripts/pdf-rows.py"),
        (["scripts/a.py", "scripts/deep/b.py", "c.py"], "scripts/a.py"),
    ],
)
def test_the_script_named_like_the_skill_is_its_code(scripts: list[str], expected: str) -> None:
    """Or the only one there is."""
    files = {"SKILL.md": SKILL_MD, **{path: path.encode() for path in scripts}}

    assert read_folder(files).code == expected


def test_a_folder_without_a_python_script_is_refused() -> None:
    """There is nothing to run, and it is said."""
    assert refusal({"SKILL.md": SKILL_MD, "scripts/run.sh": b"", "x.py": b""}) == (
        "The skill folder 'pdf-rows' has no Python script in 'scripts/', so there is nothing to run. Add"
        " 'scripts/pdf_rows.py', or give the folder to the agent as instructions instead."
    )


def test_a_folder_with_several_scripts_and_no_choice_is_refused() -> None:
    """Nothing is guessed."""
    assert refusal({"SKILL.md": SKILL_MD, "scripts/a.py": b"", "scripts/b.py": b""}) == (
        "The skill folder 'pdf-rows' has 2 scripts and none is named like it: 'scripts/a.py', 'scripts/b.py'. Name the"
        " one to run 'scripts/pdf_rows.py'."
    )


@pytest.mark.parametrize(("name", "expected"), [("3d-plot", "skill_3d_plot"), ("import", "skill_import"), ("a", "a")])
def test_a_foreign_name_becomes_one_that_code_can_import(name: str, expected: str) -> None:
    """Folders may be named with a digit first, or like a keyword."""
    text = f"---\nname: {name}\ndescription: d\n---\n".encode()

    assert read_folder({"SKILL.md": text, "scripts/x.py": b""}).name == expected


def test_what_was_changed_after_the_export_is_said_and_counts() -> None:
    """A person may edit the text; who approves it sees that, and that the code is another one."""
    files = dict(to_folder(FULL).files)
    text = (
        files["SKILL.md"].decode().replace("Adds up a month.", "Adds up a year.").replace('"1.2.0"\n', '"9.0.0"\n', 1)
    )
    files["SKILL.md"] = text.replace("money, months, years", "sums").encode()
    files["scripts/monthly_total.py"] = b"def monthly_total(): pass\n"

    found = read_folder(files)

    assert (found.description, found.version, found.tags) == ("Adds up a year.", "9.0.0", ("sums",))
    assert found.code == "def monthly_total(): pass\n"
    assert found.warnings == (
        "scripts/monthly_total.py was changed after it was exported.",
        "SKILL.md was changed after it was exported: description, version, tags.",
    )


def test_without_its_record_an_export_is_read_as_a_foreign_folder() -> None:
    """The script and the text are enough."""
    files = {path: content for path, content in to_folder(FULL).files.items() if path != "assets/skill.json"}

    found = read_folder(files)

    assert (found.name, found.code, found.inputs, found.examples) == ("monthly_total", CODE, None, ())
    assert found.tools == (ToolNeed(tool="mcp__expenses__list_expenses", version="1.2.0", digest=""),)


def test_a_foreign_file_at_the_place_of_the_record_is_left_alone() -> None:
    """Only a text that says it is sealyard's makes the record one."""
    files = {"SKILL.md": SKILL_MD, "scripts/a.py": b"1", "assets/skill.json": b"[not json"}

    assert read_folder(files).code == "1"


def record_with(**changes: Any) -> dict[str, bytes]:
    """An export whose record was changed."""
    files = dict(to_folder(FULL).files)
    files["assets/skill.json"] = json.dumps(json.loads(files["assets/skill.json"]) | changes).encode()
    return files


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, "The folder has no 'SKILL.md', so it is not a skill. Give a folder that has one."),
        ({"SKILL.md": b"\xff"}, "'SKILL.md' is not UTF-8: byte 0 is invalid. Save it as UTF-8."),
        (
            {"SKILL.md": SKILL_MD, "scripts/a.py": b"x = '\xe9'"},
            "'scripts/a.py' is not UTF-8: byte 5 is invalid. Save it as UTF-8.",
        ),
        (
            {"SKILL.md": b"# Just text"},
            "'SKILL.md' has no frontmatter. Begin it with a line `---` and end that part with another one.",
        ),
        (
            {"SKILL.md": b"---\nname: x\n"},
            "'SKILL.md' has no frontmatter. Begin it with a line `---` and end that part with another one.",
        ),
        (
            {"SKILL.md": b"---\n- a\n---\n"},
            "'SKILL.md' has a frontmatter that is not a mapping. Write `name:` and `description:` in it.",
        ),
        (
            {"SKILL.md": b"---\ndescription: d\n---\n"},
            "'SKILL.md' names its skill 'None'. Write `name:` with 1 to 64 of a-z, 0-9 and single hyphens.",
        ),
        (
            {"SKILL.md": b"---\nname: ../../x\ndescription: d\n---\n"},
            "'SKILL.md' names its skill '../../x'. Write `name:` with 1 to 64 of a-z, 0-9 and single hyphens.",
        ),
        (
            {"SKILL.md": b"---\nname: x\ndescription: ''\n---\n"},
            "'SKILL.md' has no description. Write `description:` and what the skill does.",
        ),
        (
            {"SKILL.md": b"---\nname: x\ndescription: d\nmetadata: [1]\n---\n"},
            "'SKILL.md' has metadata that is not a mapping. Write one `key: value` in each line below it.",
        ),
        (
            record_with(name="weekly_total"),
            "'assets/skill.json' is of the skill 'weekly_total', 'SKILL.md' of 'monthly-total'. Make them agree.",
        ),
        (
            record_with(name="../monthly_total"),
            "The skill '../monthly_total' cannot be a folder. Save it under a name of a-z, 0-9 and _.",
        ),
        (
            record_with(name="monthly__total"),
            "The skill folder 'monthly-total' has no 'scripts/monthly__total.py'. Put its code there.",
        ),
        (
            record_with(sealyard_skill=2),
            "'assets/skill.json' has the format 2; this sealyard reads 1. Update sealyard.",
        ),
        (
            {"SKILL.md": SKILL_MD, "../x": b""},
            "The skill folder holds '../x', which is not a path inside of the folder. Rename or remove it.",
        ),
    ],
)
def test_what_is_no_skill_is_refused_by_file_and_reason(files: dict[str, bytes], expected: str) -> None:
    """Each message says which file, what about it, and what to do."""
    assert refusal(files) == expected


@pytest.mark.parametrize("changes", [{"tags": "x"}, {"form": "y" * 10_000}, {"language": "ruby"}, {"examples": [1]}])
def test_a_record_of_another_shape_is_refused_in_few_words(changes: dict[str, Any]) -> None:
    """The reason is the decoder's, cut: part of it may be the record's own text."""
    said = refusal(record_with(**changes))

    assert said.startswith("'assets/skill.json' cannot be read: ")
    assert said.endswith(". Restore it, or remove it to take the rest of the folder.")
    assert len(said) < 350


@pytest.mark.parametrize("source", ["name: a\n...\nb: c", "a: b: c", "\t", "? [a]\n: b", "%YAML 9.9\n---\na: b"])
def test_a_frontmatter_that_is_no_yaml_is_refused(source: str) -> None:
    """In one line, with the parser's reason."""
    with pytest.raises(InvalidSkill) as caught:
        read_skill_md(f"---\n{source}\n---\n".encode())

    assert "\n" not in str(caught.value)


def test_deep_json_in_the_record_is_refused_by_its_depth() -> None:
    """In a place where anything may stand."""
    files = record_with()
    files["assets/skill.json"] = files["assets/skill.json"].replace(b"12.5", b"[" * 50_000 + b"]" * 50_000, 1)

    assert refusal(files) == (
        "'assets/skill.json' cannot be read: it is nested too deep. Restore it, or remove it to take the rest of the"
        " folder."
    )


# Frontmatter of strangers


def laughs() -> str:
    """Few bytes that stand for a billion."""
    lines = ["a0: &a0 ha"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (laughs(), "it has an anchor or an alias (line 2)"),
        ("name: &x a", "it has an anchor or an alias (line 2)"),
        ("name: a\nb: *x", "it has an anchor or an alias (line 3)"),
        ("name: !!python/object/apply:os.system [id]", "it has a tag (line 2)"),
        ("name: !!str a", "it has a tag (line 2)"),
        ("a: " + "[" * 60_000, "it is nested too deep or has too many values (line 2)"),
        ("- " * 30_000, "it is nested too deep or has too many values (line 2)"),
        ("a: [" + "x," * 30_000 + "]", "it is nested too deep or has too many values (line 2)"),
        ("name: a\nname: b", "it has a key twice (line 2)"),
        ('name: "\\U99999999"', "it has a character that YAML does not allow"),
        ('name: "\\ud800"', "it has a character that YAML does not allow"),
        ("name: a\x00", "it has a character that YAML does not allow"),
    ],
)
def test_yaml_that_is_more_than_texts_is_refused(source: str, reason: str) -> None:
    """Before anything is built from it: it stays small."""
    with pytest.raises(InvalidSkill) as caught:
        read_skill_md(f"---\n{source}\n---\n".encode())

    assert str(caught.value) == f"'SKILL.md' has a frontmatter that is not plain YAML: {reason}. Correct it."


def test_a_frontmatter_is_read_up_to_its_limit() -> None:
    """One byte more is refused."""
    start = "name: a\ndescription: "
    text = "x" * (FRONTMATTER_BYTES - len(start) - 1)

    assert read_skill_md(f"---\n{start}{text}\n---\n".encode()).description == text
    with pytest.raises(InvalidSkill) as caught:
        read_skill_md(f"---\n{start}{text}x\n---\n".encode())
    assert str(caught.value) == "'SKILL.md' has a frontmatter of more than 65,536 bytes. Shorten it."


def test_scalars_are_the_texts_that_were_written() -> None:
    """`1.10` is a version and no number, and `no` is a word."""
    assert read_frontmatter(b"\xef\xbb\xbf---\r\na: 1.10\r\nb: no\r\nc: 2024-01-01\r\nd: 'x'\r\n---\r\n") == {
        "a": "1.10",
        "b": "no",
        "c": "2024-01-01",
        "d": "x",
    }


@given(st.binary(max_size=200) | st.text("-:[]{}&*!|>'\"%@` \n\tab\\U0#?,", max_size=60).map(str.encode))
def test_any_bytes_are_a_frontmatter_or_a_refusal(content: bytes) -> None:
    """No other exception, whatever they are."""
    try:
        fields = read_frontmatter(b"---\n" + content + b"\n---\n")
    except InvalidSkill:
        return
    assert msgspec.json.decode(msgspec.json.encode(fields)) == fields


# On disk


def test_a_folder_on_disk_is_what_was_written(tmp_path: Path) -> None:
    """And nothing else is left beside it."""
    folder = to_folder(FULL)

    written = write_folder(folder, tmp_path / "new" / "place")

    assert written == tmp_path / "new" / "place" / "monthly-total"
    assert load_folder(written) == folder.files
    assert os.listdir(written.parent) == ["monthly-total"]


def test_the_history_of_a_checkout_is_not_part_of_the_skill(tmp_path: Path) -> None:
    """Its digest is that of the skill's files."""
    folder = to_folder(FULL)
    written = write_folder(folder, tmp_path)
    (written / ".git").mkdir()
    (written / ".git" / "config").write_bytes(b"x")

    assert load_folder(written) == folder.files


def test_what_exists_is_replaced_only_on_purpose(tmp_path: Path) -> None:
    """And then as a whole: no file of the old one remains."""
    old, new = to_folder(a_skill(description="old")), to_folder(a_skill(description="new"))
    written = write_folder(old, tmp_path)
    (written / "notes.txt").write_bytes(b"mine")

    with pytest.raises(InvalidSkill) as caught:
        write_folder(new, tmp_path)
    assert str(caught.value) == f"{str(written)!r} exists. Choose another directory, or replace it on purpose."
    assert load_folder(written) == old.files | {"notes.txt": b"mine"}

    assert write_folder(new, tmp_path, replace=True) == written
    assert load_folder(written) == new.files
    assert os.listdir(tmp_path) == ["total"]


def test_what_is_no_skill_folder_is_never_replaced(tmp_path: Path) -> None:
    """A folder of the user's that has the name, a file, and a link."""
    elsewhere = write_folder(to_folder(a_skill()), tmp_path / "elsewhere")
    for name in ("folder", "file", "link"):
        (tmp_path / name).mkdir()
    (tmp_path / "folder" / "total").mkdir()
    (tmp_path / "file" / "total").write_bytes(b"mine")
    (tmp_path / "link" / "total").symlink_to(elsewhere)

    for name in ("folder", "file", "link"):
        target = tmp_path / name / "total"
        with pytest.raises(InvalidSkill) as caught:
            write_folder(to_folder(a_skill()), tmp_path / name, replace=True)
        assert str(caught.value) == (
            f"{str(target)!r} is not a skill folder, so it is not replaced. Remove it yourself if it may go."
        )
        assert os.listdir(tmp_path / name) == ["total"]
    assert (tmp_path / "file" / "total").read_bytes() == b"mine"


@pytest.mark.parametrize("writes", range(3))
def test_a_disk_that_is_full_leaves_the_old_folder_and_nothing_of_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """Whichever file it is that does not fit."""
    old = to_folder(a_skill(description="old"))
    written = write_folder(old, tmp_path)
    real = files_module.new_file
    done = []

    def full(path: Path, *, mode: int) -> AbstractContextManager[BinaryIO]:
        if len(done) == writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done.append(path)
        return real(path, mode=mode)

    monkeypatch.setattr(files_module, "new_file", full)
    with pytest.raises(InvalidSkill) as caught:
        write_folder(to_folder(a_skill(description="new")), tmp_path, replace=True)

    assert str(caught.value) == (
        f"{str(written)!r} cannot be written: {os.strerror(errno.ENOSPC)}. Make room and check the rights."
    )
    assert load_folder(written) == old.files
    assert os.listdir(tmp_path) == ["total"]


def test_a_folder_of_the_most_files_is_read_and_one_more_is_not(tmp_path: Path) -> None:
    """Folders do not count, but a tree of empty ones has an end too."""
    files, folders = tmp_path / "files", tmp_path / "folders"
    for number in range(FILES_MOST):
        (files / str(number)).mkdir(parents=True)
        (files / str(number) / "x").write_bytes(b"")
    assert len(load_folder(files)) == FILES_MOST

    (files / "1" / "more").write_bytes(b"")
    for number in range(2 * FILES_MOST + 1):
        (folders / str(number)).mkdir(parents=True)
    for path in (files, folders):
        with pytest.raises(InvalidSkill) as caught:
            load_folder(path)
        assert str(caught.value) == (
            f"The skill folder {str(path)!r} has more than 512 files. Remove what the skill does not need."
        )


def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    """By its path."""
    path = tmp_path / "gone"

    with pytest.raises(InvalidSkill) as caught:
        load_folder(path)

    assert str(caught.value) == (
        f"The skill folder {str(path)!r} cannot be read: {str(path)!r} is not there. Check the path."
    )


@pytest.mark.parametrize("name", ["", "A", "a_b", "a--b", "-a", "a-", "x" * 65, "../x", "ä"])
def test_a_folder_of_another_name_than_the_format_takes_cannot_be_made(name: str) -> None:
    """So that whatever holds one may join it to a path."""
    with pytest.raises(InvalidSkill):
        SkillFolder(name=name, files={"SKILL.md": b""})
    assert SkillFolder(name="a-1", files={"SKILL.md": b""}).name == "a-1"
