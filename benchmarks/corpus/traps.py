"""Code that looks as if it could be migrated safely and cannot, or only after a close look.

Nothing here has to be migrated. What is accepted is judged by running it, for each of some changes to the tool.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.corpus.cases import Case
from benchmarks.corpus.changes import Mutation, Truth, changed, edited, with_field
from sealyard.values.tools import ToolSpec

_PROPERTIES: dict[str, Any] = {
    "repo_path": {"type": "string", "description": "Where the repository lies on disk."},
    "limit": {"type": "integer", "description": "At most so many of the newest.", "default": 10},
    "author": {"type": "string", "description": "Only what this person wrote."},
    "depth": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "description": "How far to go back."},
}
_ROW: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "The first line of the message."},
        "size": {"type": "integer", "description": "How many lines were changed by it."},
        "sub": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
    },
    "required": ["title", "size", "sub"],
}
_LOG = changed(
    ToolSpec(
        upstream="git",
        name="log",
        full_name="mcp__git__log",
        module="git",
        function="log",
        description="List what was committed to a repository.",
        input_schema={"type": "object", "properties": _PROPERTIES, "required": ["repo_path"]},
        output_schema={
            "type": "object",
            "properties": {"rows": {"type": "array", "items": _ROW}, "title": {"type": "string"}},
            "required": ["rows", "title"],
        },
        digest="",
    )
)
_PEEK = changed(_LOG, name="peek", full_name="mcp__git__peek", function="peek", description="Look at something else.")


def trap_cases() -> Iterator[Case]:
    """Every trap with every change."""
    for mutation in _mutations():
        for name, code in TRAPS.items():
            yield Case(
                mutation=mutation,
                code=f"{code.strip()}\n",
                form="function",
                inputs={"place": "here", "number": 3},
                held_out=({"place": "there", "number": 1}, {"place": "here", "number": 0}),
                styles=(f"trap: {name}",),
                other=_PEEK,
                is_demanded=False,
            )


def _mutations() -> Iterator[Mutation]:
    def renamed(before: str, after: str) -> dict[str, Any]:
        return {after if key == before else key: schema for key, schema in _PROPERTIES.items()}

    others = {key: schema for key, schema in _PROPERTIES.items() if key != "limit"}
    texts = {"type": "string", "description": _PROPERTIES["limit"]["description"]}
    depth = {**_PROPERTIES["depth"], "anyOf": [{"type": "string"}, {"type": "null"}]}
    extra = {"type": "string", "description": "How strictly to look.", "default": "normal"}
    required = ["repo_path"]

    def mutation(operation: str, after: ToolSpec, **truth: Any) -> Mutation:
        truths = (Truth(**truth),)
        return Mutation(operation=f"trap: {operation}", before=_LOG, after=after, truths=truths, is_mechanical=False)

    yield mutation("parameter renamed", edited(_LOG, renamed("limit", "most"), required), renamed={"limit": "most"})
    yield mutation(
        "required renamed", edited(_LOG, renamed("repo_path", "folder"), ["folder"]), renamed={"repo_path": "folder"}
    )
    yield mutation("parameter removed", edited(_LOG, others, required), removed=("limit",))
    yield mutation(
        "parameter retyped", edited(_LOG, {**_PROPERTIES, "limit": texts}, required), retyped={"limit": "string"}
    )
    yield mutation(
        "nullable retyped", edited(_LOG, {**_PROPERTIES, "depth": depth}, required), retyped={"depth": "string"}
    )
    yield mutation(
        "parameter added", edited(_LOG, {"mode": extra, **_PROPERTIES}, ["mode", *required]), added={"mode": "normal"}
    )
    yield mutation("tool renamed", changed(_LOG, name="history", full_name="mcp__git__history", function="history"))
    for steps, after in ((("rows", "[]", "title"), "subject"), (("title",), "caption"), (("rows",), "commits")):
        truth = {"field": steps, "field_after": after}
        yield mutation(f"field renamed, {'.'.join(steps)}", with_field(_LOG, steps, after), **truth)


def _read(file: Path) -> dict[str, str]:
    parts = (part.partition("\n") for part in file.read_text(encoding="utf-8").split("=== ")[1:])
    return {name: code for name, _, code in parts}


TRAPS = _read(Path(__file__).with_suffix(".txt"))
"""Code by what is tricky about it; it calls `log` of server `git`, and `peek`, which does not change."""
