"""Tools as Python source: a function per tool, a package per upstream.

Text from an upstream enters these files only as literals, docstrings and names that are made here, so that it is never
executed. One file costs microseconds and is cached: an unchanged tool is not written again.
"""

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import msgspec

from sealyard.catalog.cache import Recent
from sealyard.catalog.shapes.places import LearnedShape
from sealyard.catalog.snapshot import Snapshot
from sealyard.catalog.stubs.types import (
    annotation,
    is_vague,
    learned_text,
    literal,
    optional,
    shape,
    wrap,
)
from sealyard.values.naming import assign, identifier
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare import resolve, unwrapped
from sealyard.wording import one_line, plain

# Characters that keep a stub readable for a model, and the work on a hostile schema small. Chosen, not measured.

_WIDTH = 100  # of a line
_SUMMARY_CHARACTERS = 120  # of a description where a tool has one line
_DESCRIPTION_CHARACTERS = 2000  # of a description; the stub says how to get the rest
_NOTES_CHARACTERS = 2000  # on all parameters of one tool
_SIGNATURE_CHARACTERS = 2000  # of a call on one line
_NOTE_CHARACTERS = 300  # on one parameter
_CHOICES = 20  # values of an enumeration that are listed
_BRANCHES = 16  # alternatives of a schema that are read
_KEPT = 20_000  # files: more than a large gateway has tools

_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "format": "format {}",
    "pattern": "pattern {}",
}
_SEEN = "As its answers were so far; the server does not declare it. A key with ? was not always there."

_written: Recent[tuple[str, ...], str] = Recent(_KEPT)
"""Files by the names and digests that they are made from."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a tool's function."""

    name: str
    """As Python code writes it."""
    key: str
    """The upstream's name for it."""
    schema: Any
    required: bool
    annotation: str
    default: str | None = None
    """The Python literal in the signature of an optional parameter."""

    @property
    def text(self) -> str:
        """Its text in the signature."""
        return f"{self.name}: {self.annotation}" + (f" = {self.default}" if self.default is not None else "")


def stub_files(snapshot: Snapshot) -> dict[str, str]:
    """Relative path -> text of every file under `servers`."""
    return stub_packages(snapshot) | dict(tool_stubs(snapshot))


def tool_stubs(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Relative path and text of each tool's file, made lazily."""
    for name, spec in snapshot.tools.items():
        yield f"{spec.module}/{spec.function}.py", Stub(spec, snapshot.shapes.get(name)).text


def stub_packages(snapshot: Snapshot) -> dict[str, str]:
    """Relative path -> text of the packages, which name every tool with a line about it."""
    files: dict[str, str] = {}
    modules = []
    for upstream, specs in snapshot.by_upstream.items():
        if not specs:
            continue
        module = specs[0].module
        title = f"Tools of the server `{plain(upstream, limit=60)}`. Import them: from servers.{module} import …"
        files[f"{module}/__init__.py"] = _package(title, list(map(_line, specs)), [spec.function for spec in specs])
        modules.append((module, f"{module}: {len(specs)} tool{'s' if len(specs) > 1 else ''}"))
    modules.sort()
    title = "A package per tool server; the text of each lists its functions, as does /servers/<name>/__init__.py."
    files["__init__.py"] = _package(title, [line for _, line in modules], [module for module, _ in modules])
    return files


def _line(spec: ToolSpec) -> str:
    summary = _summary(spec)
    return f"{spec.function}: {summary}" if summary else spec.function


def _summary(spec: ToolSpec) -> str:
    return one_line(spec.description or spec.title, limit=_SUMMARY_CHARACTERS)


def _package(title: str, lines: list[str], names: list[str]) -> str:
    listed = _docstring("\n".join([title, "", *lines]))
    return (
        f'"""{listed}\n"""\n\n__all__ = ({", ".join(f"{literal(name)}" for name in names)}{"," * (len(names) == 1)})\n'
    )


def _docstring(text: str) -> str:
    """`text` made safe between triple double quotes."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


class Stub:
    """One tool as a Python function. Each part is computed on first use."""

    def __init__(self, spec: ToolSpec, learned: LearnedShape | None = None) -> None:
        """A learned shape of its answers counts if it is more precise than the declared one."""
        self._spec = spec
        self._learned = learned if learned and self.is_vague and not is_vague(learned_text(learned.schema)) else None

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Required ones first, then in the order of the schema."""
        root = self._spec.input_schema
        properties, required = _all(root)
        names = assign(properties, _parameter_name)
        found = [_parameter(names[key], key, schema, key in required, root) for key, schema in properties.items()]
        return tuple(sorted(found, key=lambda parameter: not parameter.required))

    @cached_property
    def rest(self) -> str | None:
        """The annotation of further keywords if the tool takes any: it declares so, or declares no parameters."""
        root = self._spec.input_schema
        schema = resolve(root, root)
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            return annotation(others, root)
        if others is True or isinstance(schema.get("patternProperties"), dict):
            return "Any"
        silent = not any(key in schema for key in ("properties", "allOf", "anyOf", "oneOf"))
        return "Any" if others is None and silent else None

    @property
    def signature(self) -> str:
        """The call on one line: `list_expenses(user_id: str, limit: int | None = None) -> list[Any]`."""
        text = self._call()
        return text if len(text) <= _SIGNATURE_CHARACTERS else text[:_SIGNATURE_CHARACTERS] + "…"

    @property
    def notes(self) -> dict[str, str]:
        """The description of each parameter, by its Python name; those without one are left out."""
        notes: dict[str, str] = {}
        room = _NOTES_CHARACTERS
        for parameter in self.parameters:
            text = _note(parameter, self._spec)
            if text and room > 0:
                notes[parameter.name] = text
                room -= len(parameter.name) + len(text)
        return notes

    @property
    def returns(self) -> str:
        """The shape of the answer, such as `[{"id": int, "note": str | None}]`; `Any` if it is unknown.

        With a learned shape, the number of answers behind it.
        """
        learned = self._learned
        if learned is None:
            return self._declared
        count = f"{learned.answers} answer{'' if learned.answers == 1 else 's'}"
        return f"{learned_text(learned.schema)} (learned from {count})"

    @property
    def is_vague(self) -> bool:
        """True if the declared shape of the answer names no field and no useful type."""
        return self._spec.output_schema is None or is_vague(self._declared)

    @property
    def text(self) -> str:
        """The text of the tool's file."""
        spec, learned = self._spec, self._learned
        key: tuple[str, ...] = (spec.full_name, spec.module, spec.function, spec.digest)
        if learned is not None:
            key = (*key, hashlib.sha256(msgspec.json.encode(learned.schema)).hexdigest())
        text = _written.find(key)
        if text is None:
            text = self._write()
            _written.put(key, text)
        return text

    @cached_property
    def _declared(self) -> str:
        return shape(unwrapped(self._spec.output_schema), self._spec.output_schema or {})

    def _write(self) -> str:
        spec = self._spec
        renamed = {parameter.name: parameter.key for parameter in self.parameters if parameter.name != parameter.key}
        mapping = ", ".join(f"{literal(name)}: {literal(key) or repr(key)}" for name, key in renamed.items())
        source = f"(server `{plain(spec.upstream, limit=60)}`, tool `{one_line(spec.name, limit=80)}`)"
        return (
            f'"""{_docstring(f"{_summary(spec)}  {source}".lstrip())}"""\n'
            "from typing import Any, Literal\n\n"
            "from sealyard_guest import tool\n\n\n"
            f"@tool({literal(spec.full_name)}{f', {{{mapping}}}' if mapping else ''})\n"
            f"def {self._call()}:\n"
            f'    """{_docstring(self._documentation())}\n'
            '    """\n'
            "    ...\n"
        )

    def _call(self) -> str:
        inside = [parameter.text for parameter in self.parameters]
        if self.rest is not None:
            name, names = "arguments", {parameter.name for parameter in self.parameters}
            while name in names:
                name += "_"
            inside.append(f"**{name}: {self.rest}")
        if self._learned is None:
            output = self._spec.output_schema
            answer = annotation(unwrapped(output), output or {})
        else:
            answer = annotation(self._learned.schema, self._learned.schema)
        return f"{self._spec.function}({', '.join(inside)}) -> {answer}"

    def _documentation(self) -> str:
        spec = self._spec
        text = plain(spec.description or spec.title, limit=_DESCRIPTION_CHARACTERS)
        if len(spec.description) > _DESCRIPTION_CHARACTERS:
            text += f'\n\nThe rest: search_tools("{spec.full_name}", detail_level="full")'
        lines = wrap(text or "The server says nothing about this tool.", width=_WIDTH, indent="    ")
        lines[0] = lines[0].lstrip()
        noted: list[str] = []
        for parameter in self.parameters:
            if said := _note(parameter, spec):
                noted += wrap(f"{parameter.name}: {said}", width=_WIDTH, indent="        ", hanging="    ")
        if noted:
            lines += ["", "    Args:", *_within(noted, spec)]
        learned = self._learned
        answer = self._declared if learned is None else f"{learned_text(learned.schema)}\n{_SEEN}"
        if answer != "Any":
            lines += ["", "    Returns:", *wrap(answer, width=_WIDTH, indent="        ")]
        return "\n".join(lines)


def _within(lines: list[str], spec: ToolSpec) -> list[str]:
    """The first of `lines`, within the length of a docstring."""
    room = _NOTES_CHARACTERS
    for number, line in enumerate(lines):
        room -= len(line)
        if room < 0:
            return [*lines[:number], f'        … The rest: search_tools("{spec.full_name}", detail_level="full")']
    return lines


# Parameters


def _note(parameter: Parameter, spec: ToolSpec) -> str:
    """The description and the limits of a parameter on one line; empty if the schema has none."""
    schema = resolve(parameter.schema, spec.input_schema)
    said = schema.get("description")
    parts = [" ".join(plain(said, limit=_NOTE_CHARACTERS).split())] if isinstance(said, str) and said.strip() else []
    bounds = ", ".join(_bounds(schema))
    if bounds:
        parts.append(f"({bounds})")
    choices = schema.get("enum")
    if isinstance(choices, list) and "Literal" not in parameter.annotation:
        texts = [text for choice in choices[:_CHOICES] if (text := literal(choice)) and len(text) <= 60]
        parts.append(f"One of {', '.join(texts)}{', …' if len(choices) > len(texts) else ''}")
    if "dict[" in parameter.annotation:
        inside = shape(schema, spec.input_schema)
        if "{" in inside:
            parts.append(f"Shape: {inside}")
    return " ".join(parts)


def _all(root: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Every parameter's schema by its key, and the keys of the required ones."""
    properties, required = _declared(root, root)
    return {**properties, **dict.fromkeys(sorted(required - properties.keys()), True)}, required


def _declared(schema: object, root: dict[str, Any], *, depth: int = 2) -> tuple[dict[str, Any], set[str]]:
    """The properties of an object schema and the required ones, including those of its parts and alternatives."""
    whole = resolve(schema, root)
    own = whole.get("properties")
    properties = {key: value for key, value in own.items() if isinstance(key, str)} if isinstance(own, dict) else {}
    demanded = whole.get("required")
    required = {key for key in demanded if isinstance(key, str)} if isinstance(demanded, list) else set()
    if not depth:
        return properties, required
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = whole.get(keyword)
        if not isinstance(branches, list) or not branches:
            continue
        inside = [_declared(branch, root, depth=depth - 1) for branch in branches[:_BRANCHES]]
        for more, _ in inside:
            properties |= {key: value for key, value in more.items() if key not in properties}
        sets = [keys for _, keys in inside]
        required |= set.union(*sets) if keyword == "allOf" else set.intersection(*sets)
    return properties, required


def _parameter(name: str, key: str, schema: object, required: bool, root: dict[str, Any]) -> Parameter:
    kind = annotation(schema, root)
    default = None
    if not required:
        whole = schema if isinstance(schema, dict) else {}
        default = literal(whole["default"]) if "default" in whole else None
        default = default or "None"
        kind = optional(kind) if default == "None" else kind
    return Parameter(name=name, key=key, schema=schema, required=required, annotation=kind, default=default)


def _parameter_name(key: str) -> str:
    name = identifier(key, fallback="parameter")
    return name + "_" if name == "self" else name


def _bounds(schema: dict[str, Any]) -> list[str]:
    """The limits of a value in words."""
    found = []
    for key in schema.keys() & _BOUNDS.keys():
        value = schema[key]
        text = plain(value, limit=60) if isinstance(value, str) else literal(value)
        if isinstance(value, str | int | float) and not isinstance(value, bool) and text:
            found.append(_BOUNDS[key].format(text))
    return sorted(found)
