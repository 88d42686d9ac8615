"""How a tool changed from one definition to the next, and which part of its version that raises.

Text is `patch`. What code written before cannot notice, except by using it, is `minor`: an optional parameter, a new
field of the answer, a wider input, a changed default, a declared output schema. What such code may stumble over is
`major`: a parameter removed, renamed, retyped, narrowed or newly required, a field of the answer removed, renamed,
retyped or optional, an answer that can be what it never was.

Annotations are `minor` where they admit to more effect than before, else `patch`: the code still works, and the policy
decides by the new ones what a person is asked. A parameter at another position is `minor`: calls that name their
arguments are not hit.
"""

import keyword
from collections.abc import Iterable
from typing import Any, Literal

from sealyard.values import ToolSpec
from sealyard.versioning.compare.cases import Budget, Exhausted
from sealyard.versioning.compare.changes import (
    BreakingChange,
    Change,
    Comparison,
    Deprecation,
    Replacement,
    highest,
)
from sealyard.versioning.compare.deprecations import newly_deprecated
from sealyard.versioning.compare.schemas import Document, TooLarge
from sealyard.versioning.compare.verdicts import STEPS, Schema
from sealyard.versioning.compare.walk import TooMany, Walk, full_path

_TEXT = 300
_HINTS = ("read_only", "destructive", "idempotent", "open_world")
_HOPS = 8
_PARTS = 10_000
"""Objects and lists of a schema that are compared: one with more counts as changed, and is then walked in bounds."""


def compare(
    before: ToolSpec,
    after: ToolSpec,
    *,
    output_before: Schema | None = None,
    output_after: Schema | None = None,
) -> Comparison:
    """What changed from one definition of a tool to another, field by field.

    `output_before` and `output_after` are learned schemas of what code gets to see; each is used where the definition
    declares none. Never raises, and never takes long: what is too large to be compared counts as changed.
    """
    changes = [*_names(before, after), *_texts(before, after), *_annotations(before, after)]
    found = newly_deprecated(*((f"{spec.title}. {spec.description}", False) for spec in (before, after)))
    deprecations = [found] if found is not None else []
    if not _is_same(before.input_schema, after.input_schema):
        walked = _walk("input", (before.input_schema,) * 2, (after.input_schema,) * 2)
        changes += walked[0]
        deprecations += walked[1]
    walked = _outputs(before, after, output_before, output_after)
    changes += walked[0]
    deprecations += walked[1]
    return Comparison(
        bump=highest(change.severity for change in changes),
        changes=tuple(changes),
        breaking=tuple(_breaking(change, after) for change in changes if change.severity == "major"),
        deprecations=tuple(deprecations),
    )


def _names(before: ToolSpec, after: ToolSpec) -> Iterable[Change]:
    if before.full_name != after.full_name:
        yield Change(
            kind="tool_renamed",
            side="tool",
            before=before.full_name,
            after=after.full_name,
            severity="major",
            reason=f"It is called {after.full_name!r} now.",
            replacement=Replacement(name=after.full_name, confidence=1.0, why="It was given as the same tool."),
        )


def _texts(before: ToolSpec, after: ToolSpec) -> Iterable[Change]:
    for name, was, is_now in (
        ("title", before.title, after.title),
        ("description", before.description, after.description),
    ):
        if was != is_now:
            reason = f"Its {name} changed."
            yield Change(
                kind="text", side="tool", before=was[:_TEXT], after=is_now[:_TEXT], severity="patch", reason=reason
            )


def _annotations(before: ToolSpec, after: ToolSpec) -> Iterable[Change]:
    for name in _HINTS:
        was, is_now = getattr(before.annotations, name), getattr(after.annotations, name)
        if was == is_now:
            continue
        worse = (name == "read_only" and was is True) or (name == "destructive" and is_now is True)
        words = [f"{name}: {'unsaid' if said is None else 'yes' if said else 'no'}" for said in (was, is_now)]
        yield Change(
            kind="annotations",
            side="tool",
            before=words[0],
            after=words[1],
            severity="minor" if worse else "patch",
            reason="It admits to more effect than before." if worse else "It says something else about its effects.",
        )


def _outputs(
    before: ToolSpec, after: ToolSpec, output_before: Schema | None, output_after: Schema | None
) -> tuple[list[Change], list[Deprecation]]:
    """How the answers changed."""
    declared = before.output_schema is not None, after.output_schema is not None
    if declared == (True, False):
        reason = "Nothing is promised about its answers any more."
        gone = Change(kind="output_undeclared", side="output", before="declared", severity="major", reason=reason)
        return [gone], []
    changes: list[Change] = []
    if declared == (False, True):
        reason = "It declares what it answers now."
        changes.append(Change(kind="output_declared", side="output", after="declared", severity="minor", reason=reason))
    old = _seen(before.output_schema) if declared[0] else (output_before, output_before)
    new = _seen(after.output_schema) if declared[1] else (output_after, output_after)
    same = declared == (True, True) and _is_same(before.output_schema, after.output_schema)
    if old[1] is None or new[1] is None or same:
        return changes, []
    walked, deprecations = _walk("output", old, new, learned=declared != (True, True))
    return changes + walked, deprecations


def _is_same(before: Any, after: Any) -> bool:
    """Whether two schemas are the same, with their keys in the same order: that of parameters means something."""
    waiting = [(before, after)]
    seen: set[tuple[int, int]] = set()
    while waiting:
        one, other = waiting.pop()
        if one is other or (id(one), id(other)) in seen:
            continue
        if type(one) is not type(other):
            return False
        if isinstance(one, dict | list):
            seen.add((id(one), id(other)))  # a part may stand in many places
            if len(one) != len(other) or len(seen) > _PARTS or (isinstance(one, dict) and list(one) != list(other)):
                return False
            waiting += zip(*((each.values() if isinstance(each, dict) else each) for each in (one, other)), strict=True)
        elif one != other:
            return False
    return True


def _seen(schema: dict[str, Any] | None) -> tuple[Any, Any]:
    """A declared schema, and that part of it which describes what code gets: that of `result` if it is the only key."""
    document = Document(schema)
    place: object = schema
    for _ in range(_HOPS):
        place = document.target(place["$ref"]) if isinstance(place, dict) and "$ref" in place else place
    properties = place.get("properties") if isinstance(place, dict) else None
    wrapped = isinstance(properties, dict) and properties.keys() == {"result"}
    return schema, properties["result"] if wrapped and properties else schema


def _walk(
    side: Literal["input", "output"], old: tuple[Any, Any], new: tuple[Any, Any], *, learned: bool = False
) -> tuple[list[Change], list[Deprecation]]:
    """Compare two schemas, each given with the document it is in."""
    walk = None
    try:
        walk = Walk(Document(old[0]), Document(new[0]), side=side, budget=Budget(STEPS), learned=learned)
        walk.compare("", (old[1],), (new[1],))
    except (TooLarge, Exhausted, TooMany, RecursionError):
        unknown = Change(
            kind="parameter_narrowed" if side == "input" else "output_unknown",
            side=side,
            severity="major",
            reason="It is too large or too deep to be compared, so it counts as changed.",
        )
        return [*(walk.changes if walk else ()), unknown], walk.deprecations if walk else []
    return walk.changes, walk.deprecations


_CASTS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


def _breaking(change: Change, after: ToolSpec) -> BreakingChange:
    return BreakingChange(
        field=full_path(change.side, change.field),
        old_type=change.before,
        new_type=change.after,
        reason=change.reason,
        migration_code=_advice(change, after),
    )


def _advice(change: Change, after: ToolSpec) -> str:
    """One line of Python that follows the change, as far as it is known."""
    name = change.field.rsplit(".", 1)[-1]
    new = change.after
    match change.kind:
        case "tool_renamed":
            return f"from servers.{after.module} import {after.function}"
        case "parameter_renamed":
            return f"{new}={name}" if _is_name(name) and _is_name(new) else f"# pass {new!r} instead of {name!r}"
        case "parameter_removed":
            return f"# leave out {name!r}"
        case "parameter_added" | "parameter_required":
            return f"{name}=...  # {new}" if _is_name(name) else f"# pass {name!r}: {new}"
        case "parameter_retyped" if new in _CASTS and _is_name(name):
            return f"{name}={_CASTS[new]}({name})"
        case "output_renamed":
            return f"[{new!r}]  # was [{change.before!r}]"
        case "output_removed":
            return f"# {name!r} is not in the answer"
        case "output_optional":
            return f".get({name!r})"
        case "output_retyped" if new in _CASTS:
            return f"# {name or 'the answer'} is {new} now"
        case _:
            return f"# check {name!r}: {change.reason}" if name else f"# check the tool: {change.reason}"


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)
