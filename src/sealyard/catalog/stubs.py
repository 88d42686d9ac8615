"""Tools as Python source: a function per tool, a package per upstream.

What an upstream wrote gets into these files only as literals, docstrings and names that were made here, so that no text
of it is ever executed. One file costs microseconds and is kept: an unchanged tool is not written again.
"""

import hashlib
from collections.abc import Iterator

import msgspec

from sealyard.catalog.learned import LearnedShape
from sealyard.catalog.parameters import Parameter, note, parameters, rest
from sealyard.catalog.prose import docstring_text, literal, one_line, plain, wrap
from sealyard.catalog.recent import Recent
from sealyard.catalog.shapes import annotation, is_vague, learned_text, shape, unwrapped
from sealyard.catalog.snapshot import Snapshot
from sealyard.values import ToolSpec

_WIDTH = 100
_SUMMARY_CHARACTERS = 120
_DESCRIPTION_CHARACTERS = 2000
_NOTES_CHARACTERS = 2000
_SIGNATURE_CHARACTERS = 2000

_SEEN = "As its answers were so far; the server does not declare it. A key with ? was not always there."

# (names and digests) -> the file
_written: Recent[tuple[str, ...], str] = Recent(20_000)


def stub_files(snapshot: Snapshot) -> dict[str, str]:
    """Relative path -> text of every file under `servers`."""
    return stub_packages(snapshot) | dict(tool_stubs(snapshot))


def tool_stubs(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Relative path and text of each tool's file, made as it is asked for."""
    for name, spec in snapshot.tools.items():
        yield f"{spec.module}/{spec.function}.py", stub_file(spec, snapshot.shapes.get(name))


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


def stub_file(spec: ToolSpec, learned: LearnedShape | None = None) -> str:
    """The text of one tool's file."""
    learned = _told(spec, learned)
    key: tuple[str, ...] = (spec.full_name, spec.module, spec.function, spec.digest)
    if learned is not None:
        key = (*key, hashlib.sha256(msgspec.json.encode(learned.schema)).hexdigest())
    text = _written.find(key)
    if text is None:
        text = _stub(spec, _summary(spec), learned)
        _written.put(key, text)
    return text


def signature(spec: ToolSpec, learned: LearnedShape | None = None) -> str:
    """The call of a tool on one line: `list_expenses(user_id: str, limit: int | None = None) -> list[Any]`."""
    text = _call(spec, parameters(spec), _told(spec, learned))
    return text if len(text) <= _SIGNATURE_CHARACTERS else text[:_SIGNATURE_CHARACTERS] + "…"


def parameter_notes(spec: ToolSpec) -> dict[str, str]:
    """What each parameter means, by its Python name; those of which nothing is said are left out."""
    notes: dict[str, str] = {}
    room = _NOTES_CHARACTERS
    for parameter in parameters(spec):
        text = note(parameter, spec)
        if text and room > 0:
            notes[parameter.name] = text
            room -= len(parameter.name) + len(text)
    return notes


def returns(spec: ToolSpec) -> str:
    """The declared shape of a tool's answer, such as `[{"id": int, "note": str | None}]`; `Any` if it has none."""
    return shape(unwrapped(spec.output_schema), spec.output_schema or {})


def returns_text(spec: ToolSpec, learned: LearnedShape | None) -> str:
    """The shape of a tool's answer as it is declared, else as it was learned, with how many answers say so."""
    told = _told(spec, learned)
    if told is None:
        return returns(spec)
    return f"{learned_text(told.schema)} (learned from {told.answers} answer{'' if told.answers == 1 else 's'})"


def _told(spec: ToolSpec, learned: LearnedShape | None) -> LearnedShape | None:
    """What was learned, if it says more than what is declared."""
    is_more = learned is not None and is_vague(returns(spec)) and not is_vague(learned_text(learned.schema))
    return learned if is_more else None


def _line(spec: ToolSpec) -> str:
    summary = _summary(spec)
    return f"{spec.function}: {summary}" if summary else spec.function


def _summary(spec: ToolSpec) -> str:
    return one_line(spec.description or spec.title, limit=_SUMMARY_CHARACTERS)


def _stub(spec: ToolSpec, summary: str, learned: LearnedShape | None) -> str:
    taken = parameters(spec)
    renamed = {parameter.name: parameter.key for parameter in taken if parameter.name != parameter.key}
    mapping = ", ".join(f"{literal(name)}: {_key_literal(key)}" for name, key in renamed.items())
    source = f"(server `{plain(spec.upstream, limit=60)}`, tool `{one_line(spec.name, limit=80)}`)"
    return (
        f'"""{docstring_text(f"{summary}  {source}".lstrip())}"""\n'
        "from typing import Any, Literal\n\n"
        "from sealyard_guest import tool\n\n\n"
        f"@tool({literal(spec.full_name)}{f', {{{mapping}}}' if mapping else ''})\n"
        f"def {_call(spec, taken, learned)}:\n"
        f'    """{docstring_text(_documentation(spec, taken, learned))}\n'
        '    """\n'
        "    ...\n"
    )


def _call(spec: ToolSpec, taken: tuple[Parameter, ...], learned: LearnedShape | None) -> str:
    inside = [parameter.text for parameter in taken]
    others = rest(spec)
    if others is not None:
        name, names = "arguments", {parameter.name for parameter in taken}
        while name in names:
            name += "_"
        inside.append(f"**{name}: {others}")
    if learned is None:
        answer = annotation(unwrapped(spec.output_schema), spec.output_schema or {})
    else:
        answer = annotation(learned.schema, learned.schema)
    return f"{spec.function}({', '.join(inside)}) -> {answer}"


def _documentation(spec: ToolSpec, taken: tuple[Parameter, ...], learned: LearnedShape | None) -> str:
    text = plain(spec.description or spec.title, limit=_DESCRIPTION_CHARACTERS)
    if len(spec.description) > _DESCRIPTION_CHARACTERS:
        text += f'\n\nThe rest: search_tools("{spec.full_name}", detail_level="full")'
    lines = wrap(text or "The server says nothing about this tool.", width=_WIDTH, indent="    ")
    lines[0] = lines[0].lstrip()
    noted = [line for parameter in taken if (said := note(parameter, spec)) for line in _entry(parameter.name, said)]
    if noted:
        lines += ["", "    Args:", *_within(noted, spec)]
    answer = returns(spec) if learned is None else f"{learned_text(learned.schema)}\n{_SEEN}"
    if answer != "Any":
        lines += ["", "    Returns:", *wrap(answer, width=_WIDTH, indent="        ")]
    return "\n".join(lines)


def _entry(name: str, said: str) -> list[str]:
    return wrap(f"{name}: {said}", width=_WIDTH, indent="        ", hanging="    ")


def _within(lines: list[str], spec: ToolSpec) -> list[str]:
    """As many of `lines` as a docstring should hold."""
    room = _NOTES_CHARACTERS
    for number, line in enumerate(lines):
        room -= len(line)
        if room < 0:
            return [*lines[:number], f'        … The rest: search_tools("{spec.full_name}", detail_level="full")']
    return lines


def _package(title: str, lines: list[str], names: list[str]) -> str:
    listed = docstring_text("\n".join([title, "", *lines]))
    return (
        f'"""{listed}\n"""\n\n__all__ = ({", ".join(f"{literal(name)}" for name in names)}{"," * (len(names) == 1)})\n'
    )


def _key_literal(key: str) -> str:
    """A parameter's own name, of whatever length: it is sent as it is."""
    return literal(key) or repr(key)
