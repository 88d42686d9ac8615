"""The sentence for an edit, for one viewer: our own words, filled with names that this viewer has anyway.

A name is shown if it is an identifier of few words and is a tool, parameter or declared field of the viewer's own view
of the catalog, a field of what tools answered to its own run, or in its own code. Nothing else ever is.
"""

import itertools
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any

from sealyard.catalog import Snapshot
from sealyard.catalog.parameters import parameter_names
from sealyard.catalog.shapes import resolve, unwrapped
from sealyard.learning.causes import Cause
from sealyard.learning.recoveries import Edit
from sealyard.learning.recovery_rules import FUNCTIONS, METHODS
from sealyard.learning.sketch import is_name
from sealyard.learning.telling import is_field
from sealyard.values import ToolSpec

__all__ = ("Shapes", "Wording", "answered_fields", "answered_names")

Shapes = Callable[[ToolSpec], dict[str, Any] | None]
"""The JSON schema that was learned of a tool's answers, if any."""

_FIELDS = 400
_PACKAGES = frozenset("numpy pandas polars scipy duckdb yaml dateutil openpyxl".split())
_OPTIONS = frozenset("key default encoding errors exist_ok newline reverse indent ensure_ascii mode strict".split())
_CAUGHT = frozenset(
    "ToolError KeyError ValueError TypeError IndexError AttributeError Exception OSError StopIteration".split()
)
_KINDS = {
    "none": "None",
    "bool": "True or False",
    "int": "a whole number",
    "float": "a number",
    "list": "a list",
    "dict": "an object",
    "empty": "an empty text",
    "date": "a date such as 2024-05-31",
    "time": "a date and time such as 2024-05-31T10:00:00Z",
    "other_date": "a date in another form",
    "digits": "a number in quotes",
    "url": "a whole URL",
    "address": "an e-mail address",
    "absolute": "an absolute path",
    "relative": "a relative path",
    "json": "JSON text",
    "upper": "text in capital letters",
    "lower": "text in small letters",
    "title": "a capitalized word",
    "text": "text",
}
_PLAIN = {
    "subscripted": "Read it with [...], not as an attribute.",
    "indexed": "Take one item first, such as [0].",
    "looped": "Loop over the items.",
    "sliced": "Take a part of it: [:n].",
    "guarded": "Check for None or nothing before using it.",
    "checked": "Check with `in` that it is there.",
    "awaited": "Write `await` before the call.",
    "fstring": "Use an f-string.",
    "global": "Declare the name `global`, or pass it in.",
    "defaulted": "Give a default: next(…, None).",
    "whole_division": "Divide with //.",
    "zone": "Give both times a time zone: timezone.utc.",
    "relative": "Use a path relative to the working directory.",
    "opened": "Open the file in another mode.",
    "called": "Call it with ().",
    "waited": "Wait between the calls: `time.sleep(…)`.",
    "gathered": "Make the calls at the same time: `await asyncio.gather(*[… for …])`.",
    "ungathered": "Make the calls one after the other.",
    "again": "Run the same code again: it was not the code.",
}


class Wording:
    """Makes sentences for one viewer and one failure."""

    def __init__(self, view: Snapshot, cause: Cause | None, shapes: Shapes | None = None) -> None:
        self._view = view
        self._cause = cause or Cause()
        self._names = frozenset(self._cause.names)
        self._shapes = shapes
        self._is_vouched = True
        self._parameters: dict[str, Collection[str]] = {}
        self._fields: dict[str, Collection[str]] = {}

    def spec(self, tool: str) -> ToolSpec | None:
        """The tool that `module.function` means for this viewer."""
        return self._view.find(tool) if tool else None

    def sentence(self, edit: Edit, *, is_vouched: bool = True) -> str | None:
        """What to do, or None if something in it is not for this viewer.

        Who is sent to another server's tool has made that experience, or more than one other has: `is_vouched`.
        """
        self._is_vouched = is_vouched
        if edit.kind in _PLAIN:
            return _PLAIN[edit.kind]
        spec = self.spec(edit.tool)
        if (edit.tool and spec is None) or self._is_beside(edit):
            return None
        return self._of_tool(edit, spec) if spec is not None else self._of_python(edit)

    def _is_beside(self, edit: Edit) -> bool:
        """Whether it is about another name than this failure, or the code does so already."""
        name, done = self._cause.name, self._cause.features
        match edit.kind:
            case "field_renamed" | "param_renamed" | "renamed" | "attributed":
                return bool(name) and edit.name != name
            case "unwrapped" | "field_added":
                return any(f"field|{edit.tool}|{edit.to}|{how}" in done for how in ("sub", "get"))
            case "param_added":
                return any(
                    key.startswith((f"arg|{edit.tool}|{edit.to}|", f"sent|{edit.tool}|{edit.to}|")) for key in done
                )
            case "tool_first":
                return f"call|{edit.to}" in done
        return False

    def _of_tool(self, edit: Edit, spec: ToolSpec) -> str | None:
        match edit.kind:
            case "param_renamed" if self._takes(spec, edit.to) and edit.name in self._names:
                return f"Pass {edit.to}= to {spec.function}, not {edit.name}=."
            case "param_added" if self._takes(spec, edit.to):
                return f"Pass {edit.to}= to {spec.function} too."
            case "param_dropped" if edit.name in self._names:
                return f"Leave {edit.name}= out of the call of {spec.function}."
            case "value_kind" if self._takes(spec, edit.name) and edit.to in _KINDS:
                return f"Pass {edit.name}= of {spec.function} as {_KINDS[edit.to]}."
            case "smaller" | "larger" if self._takes(spec, edit.name):
                return f"Pass {'less' if edit.kind == 'smaller' else 'more'} as {edit.name}= of {spec.function}."
            case "tool_first" if self._takes(spec, edit.name):
                other = self._other(edit.to, spec)
                return other and f"Call {other} first: what it answers gives {edit.name}= of {spec.function}."
            case "tool_instead":
                other = self._other(edit.to, spec)
                return other and f"Use {other} instead of {spec.function}."
            case "tool_imported":
                return f"Import it first: `from servers.{spec.module} import {spec.function}`."
            case "uncalled":
                return f"Call {spec.function} once instead of in a loop."
            case "field_renamed" if self._has(spec, edit.to):
                return f"{spec.function} answers with {edit.to!r}; read that."
            case "unwrapped" if self._has(spec, edit.to):
                return f"In what {spec.function} answers, it is inside [{edit.to!r}]."
            case "field_added" if self._has(spec, edit.to):
                return f"Use the field {edit.to!r} of what {spec.function} answers."
            case "field_optional" if self._has(spec, edit.name) or edit.name in self._names:
                return f"{edit.name!r} is not in every answer of {spec.function}: read it with .get({edit.name!r})."
        return None if edit.to in (edit.tool, "") else self._of_python(edit)

    def _of_python(self, edit: Edit) -> str | None:
        match edit.kind:
            case "used" if edit.to in FUNCTIONS:
                return f"Use `{edit.to}(…)`."
            case "unused" if edit.name in FUNCTIONS or edit.name == "print":
                return f"Leave out `{edit.name}`."
            case "method" if edit.to in METHODS:
                return f"Use `.{edit.to}(…)`."
            case "option" if edit.name in FUNCTIONS and edit.to in _OPTIONS:
                return f"Pass {edit.to}= to `{edit.name}`."
            case "caught" if edit.to in _CAUGHT:
                return f"Catch {edit.to} around it and go on without."
            case "imported":
                return self._import(edit.to)
            case "renamed" | "attributed" if edit.to in self._names or edit.to in METHODS:
                return f"Write {edit.to} instead of {edit.name}." if edit.name in self._names else None
            case "field_renamed" | "unwrapped" if self._is_own_field(edit.to):
                return f"Read {edit.to!r}."
            case "field_optional" if edit.name in self._names:
                return f"{edit.name!r} is not always there: read it with .get({edit.name!r})."
            case "tool_instead" if self._is_vouched:
                other = self.spec(edit.to)
                if other is None or other.annotations.destructive is True or not is_name(other.function):
                    return None
                return f"Use `from servers.{other.module} import {other.function}`."
        return None

    def _import(self, dotted: str) -> str | None:
        module, _, name = dotted.rpartition(".")
        known = sys.stdlib_module_names | _PACKAGES
        if dotted in known:
            return f"Use `import {dotted}`."
        root, *inner = module.split(".")
        if root not in known or not self._names.issuperset(inner):  # who writes `os.anything` can write any words
            return f"Use `import {root}`." if root in known else None
        return f"Use `from {module} import {name}`." if name in self._names else f"Use `import {module}`."

    def _takes(self, spec: ToolSpec, name: str) -> bool:
        if spec.full_name not in self._parameters:
            self._parameters[spec.full_name] = parameter_names(spec)
        return is_name(name) and name in self._parameters[spec.full_name]

    def _other(self, tool: str, spec: ToolSpec) -> str | None:
        """Another tool of the same server, or one of any server that only reads. None that destroys."""
        other = self.spec(tool)
        if other is None or other.annotations.destructive is True or not is_name(other.function):
            return None
        if other.upstream != spec.upstream and not (self._is_vouched and other.annotations.read_only is True):
            return None
        return other.function if other.upstream == spec.upstream else f"servers.{other.module}.{other.function}"

    def _has(self, spec: ToolSpec, field: str) -> bool:
        return is_name(field) and is_field(field) and (self._is_own_field(field) or field in self.fields(spec))

    def _is_own_field(self, field: str) -> bool:
        return field in self._names or any(field in names for names in self._cause.fields.values())

    def fields(self, spec: ToolSpec) -> Collection[str]:
        """The fields of a tool's answers: those of this run, declared ones and learned ones."""
        found = self._fields.get(spec.full_name)
        if found is None:
            own = self._cause.fields.get(f"{spec.module}.{spec.function}", ())
            learned = self._shapes(spec) if self._shapes is not None else None
            declared = answered_fields(unwrapped(spec.output_schema), spec.output_schema or {})
            found = dict.fromkeys((*own, *declared, *answered_fields(learned, learned or {})))
            self._fields[spec.full_name] = found
        return found


def answered_fields(schema: object, root: dict[str, Any]) -> list[str]:
    """The names of fields in a schema that may be shown, those nearest to the top first."""
    return [name for name in answered_names(schema, root) if is_name(name) and is_field(name)]


def answered_names(schema: object, root: dict[str, Any]) -> list[str]:
    """The keys in a schema, those nearest to the top first, each once: four hundred, however many it has."""
    return list(dict.fromkeys(itertools.islice(_names(schema, root), _FIELDS)))


def _names(schema: object, root: dict[str, Any]) -> Iterator[str]:
    waiting: list[object] = [schema]
    for place in range(_FIELDS):
        if place >= len(waiting):
            return
        whole = resolve(waiting[place], root)
        properties = whole.get("properties")
        if isinstance(properties, dict):
            yield from (key for key in properties if isinstance(key, str))
            waiting += list(properties.values())[:_FIELDS]
        waiting += [whole[key] for key in ("items", "additionalProperties") if isinstance(whole.get(key), dict)]
        for key in ("anyOf", "oneOf", "allOf"):
            if isinstance(whole.get(key), list):
                waiting += whole[key][:8]
