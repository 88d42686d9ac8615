"""Reads a skill before it is saved: its form, its inputs and output, and the tools and skills that it uses.

Dependencies come from the code, never from the caller. The code is parsed, not run and not compiled.
"""

import ast
import builtins
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from sealyard.catalog.stubs import annotation, literal
from sealyard.code import Names, Ref, find_uses, parse
from sealyard.errors import InvalidSkill
from sealyard.offload import Query
from sealyard.skills.declarations import (
    Declared,
    Inputs,
    Unreadable,
    agree,
    check_schema,
    literal_of,
    nullable,
    object_schema,
    read_inputs,
    read_output,
    schema_of,
    script_inputs,
)
from sealyard.values.skills import ShelfLimits, Skill, SkillForm, ToolNeed
from sealyard.values.tools import ToolSpec

_WARNINGS = 50  # a bound on the answer
_GIVEN = frozenset((*dir(builtins), "ToolError", "__class__", "__module__", "__qualname__", "call_tool"))
"""Names that code has without binding them."""
_SCRIPT_GIVEN = frozenset(("context", "result"))
_ALL_NAMES = frozenset(("context", "eval", "exec", "globals", "locals", "vars"))
"""Through these a script may read an input without naming it."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The form, schemas and dependencies of a skill, read from its text."""

    form: SkillForm
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    tools: tuple[ToolNeed, ...] = ()
    skills: tuple[Ref, ...] = ()
    warnings: tuple[str, ...] = ()
    """Each a sentence that names the line."""


def read_skill(
    name: str,
    code: str,
    *,
    inputs: Any = None,
    output: Any = None,
    find: Callable[[str], ToolSpec | None],
) -> Reading:
    """Read `code` as a skill called `name`, together with the inputs and output that its author declares.

    Raises:
        InvalidSkill: The code is not Python, uses a tool that does not exist, or contradicts a declaration; the
            message names the line.
    """
    names = parse(code, most_bytes=ShelfLimits().code_bytes)
    if (node := names.unbound.get("call_mcp_tool")) is not None:
        raise InvalidSkill(
            f"Line {node.lineno}: call_mcp_tool is for runs alone. Import the tool instead, with "
            "`from servers.<server> import <tool>`."
        )
    uses = find_uses(names)
    declared = read_inputs(inputs)
    said = read_output(output)
    same_name = [node for node in names.tree.body if isinstance(node, _Function) and node.name == name]
    function = same_name[-1] if same_name else None  # the last one counts, as in Python
    warnings: list[str] = []
    if function is not None:
        reader = _Signature(function, declared, warnings)
        input_schema, output_schema = reader.input_schema(), reader.output_schema(said)
        warnings += [f"Line {line}: nothing defines {each!r}." for each, line in _unbound(names, _GIVEN).items()]
    else:
        input_schema, output_schema = script_inputs(declared), said
        _check_script(names, input_schema["properties"], warnings)
    check_schema(input_schema, "inputs")
    if output_schema is not None:
        check_schema(output_schema, "output")
    return Reading(
        form="script" if function is None else "function",
        input_schema=input_schema,
        output_schema=output_schema,
        tools=_tool_needs(uses.tools, find),
        skills=uses.skills,
        warnings=tuple((warnings + [str(each) for each in uses.unknown])[:_WARNINGS]),
    )


def read_in_helper(params: Any, body: bytes, memory: Any, ask: Query) -> tuple[Any, bytes]:
    """Run `read_skill` in a helper process, and ask the gateway for the tool that a name means."""

    def find(name: str) -> ToolSpec | None:
        found: ToolSpec | None = msgspec.convert(ask(name), ToolSpec | None)
        return found

    found = read_skill(params["name"], body.decode(), inputs=params["inputs"], output=params["output"], find=find)
    return msgspec.to_builtins(found), b""


def signature_of(skill: Skill) -> str:
    """The signature of a skill on one line: `monthly_total(user_id: str, since: str = "2024-01-01") -> dict`."""
    root = skill.input_schema
    required = root.get("required", ())
    parts = []
    for name, schema in root.get("properties", {}).items():
        text = f"{name}: {annotation(schema, root)}"
        if name not in required:
            has_default = isinstance(schema, dict) and "default" in schema
            text += f" = {(literal(schema['default']) if has_default else None) or '...'}"
        parts.append(text)
    if root.get("additionalProperties", False) is not False:
        parts.append("**more")
    answer = "Any" if skill.output_schema is None else annotation(skill.output_schema, skill.output_schema)
    text = f"{skill.name}({', '.join(parts)})" + ("" if answer == "Any" else f" -> {answer}")
    return text.replace("dict[str, Any]", "dict").replace("list[Any]", "list")


class _Signature:
    """A function's parameters and answer, joined with their declarations."""

    def __init__(self, function: _Function, declared: Inputs, warnings: list[str]) -> None:
        self._function = function
        self._declared = declared
        self._warnings = warnings

    def input_schema(self) -> dict[str, Any]:
        arguments = self._function.args
        for refused, sign in ((arguments.vararg, "*"), (next(iter(arguments.posonlyargs), None), "/")):
            if refused is not None:
                raise InvalidSkill(
                    f"Line {refused.lineno}: the parameter {refused.arg!r} cannot be given by name, because of the"
                    f" {sign!r}. Inputs are given by name: take a list, or name each parameter."
                )
        properties: dict[str, Any] = {}
        required: list[str] = []
        for argument, default in _parameters(arguments):
            declared = self._declared.named.get(argument.arg, Declared())
            schema = self._schema(argument.annotation, f"{argument.arg!r}", argument.lineno)
            if default is None:
                required.append(argument.arg)
            else:
                schema = self._with_default(schema, default)
            properties[argument.arg] = self._agree(argument, schema, declared, is_required=default is None)
        rest = self._rest(arguments, properties)
        return object_schema(properties, required, rest=rest) | self._declared.definitions

    def output_schema(self, said: dict[str, Any] | None) -> dict[str, Any] | None:
        returns = self._function.returns
        own = {} if returns is None else self._schema(returns, "the answer", returns.lineno)
        together = agree(own, said or {}, "the answer")
        return together or None

    def _rest(self, arguments: ast.arguments, properties: dict[str, Any]) -> bool | dict[str, Any]:
        """The schema of arguments beyond the parameters; false if there are none."""
        others = {name: each for name, each in self._declared.named.items() if name not in properties}
        if arguments.kwarg is None:
            if others:
                has = ", ".join(properties) or "none"
                raise InvalidSkill(
                    f"Line {self._function.lineno}: `inputs` declares {next(iter(others))[:80]!a}, which is not"
                    f" a parameter of the function. Its parameters are: {has}. Make them agree."
                )
            return False
        properties |= {name: each.schema for name, each in others.items()}
        note = arguments.kwarg.annotation
        return (self._schema(note, f"'**{arguments.kwarg.arg}'", note.lineno) if note else {}) or True

    def _schema(self, note: ast.expr | None, what: str, line: int) -> dict[str, Any]:
        if note is None:
            return {}
        try:
            return schema_of(note)
        except Unreadable as error:
            said = str(error)[:80]
            self._warnings.append(f"Line {line}: {said!r} is not a JSON type, so that {what} is not checked.")
            return {}

    def _with_default(self, schema: dict[str, Any], default: ast.expr) -> dict[str, Any]:
        try:
            value = literal_of(default)
        except Unreadable:
            return schema
        return {**(nullable(schema) if value is None else schema), "default": value}

    def _agree(
        self, argument: ast.arg, schema: dict[str, Any], declared: Declared, *, is_required: bool
    ) -> dict[str, Any]:
        """The schema of one parameter, from its signature and its declaration."""
        place = f"Line {argument.lineno}: the parameter {argument.arg!r}"
        if declared.required is not None and declared.required != is_required:
            here, there = ("has no default", "optional") if is_required else ("has a default", "required")
            raise InvalidSkill(f"{place} {here} in the code, and `inputs` declares it as {there}. Make them agree.")
        said = dict(declared.schema)
        if "default" in said:
            value = said.pop("default")
            if is_required or ("default" in schema and schema["default"] != value):
                code = "has no default" if is_required else f"has the default {schema['default']!r}"
                raise InvalidSkill(f"{place} {code} in the code, and {value!r} in `inputs`. Make them agree.")
        return agree(schema, said, f"{argument.arg!r} (line {argument.lineno})")


def _parameters(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """The parameters that have a name, each with its default."""
    missing = [None] * (len(arguments.args) - len(arguments.defaults))
    yield from zip(arguments.args, [*missing, *arguments.defaults], strict=True)
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)


def _check_script(names: Names, properties: dict[str, Any], warnings: list[str]) -> None:
    """Refuse a script that reads names nothing defines, and warn of inputs that it does not read."""
    unbound = _unbound(names, _GIVEN | _SCRIPT_GIVEN | properties.keys())
    if unbound:
        said = ", ".join(f"{each!r} (line {line})" for each, line in list(unbound.items())[:5])
        raise InvalidSkill(
            f"Line {min(unbound.values())}: the script reads names that nothing defines: {said}. Declare"
            " them in `inputs`, or define them."
        )
    found = ((node.id, names.find(node.id, scope)) for node, scope in names.loads())
    read = {name for name, variable in found if variable is None or variable.scope is names.module}
    if read.isdisjoint(_ALL_NAMES):
        warnings += [f"The input {name!r} is declared and never read." for name in properties if name not in read]


def _unbound(names: Names, given: frozenset[str]) -> dict[str, int]:
    """Names that are read and not bound, with the first line of each; empty where `import *` may bind any."""
    return {name: node.lineno for name, node in names.unbound.items() if name not in given}


def _tool_needs(refs: tuple[Ref, ...], find: Callable[[str], ToolSpec | None]) -> tuple[ToolNeed, ...]:
    """The tools that the code uses, in their present versions."""
    needs: dict[str, ToolNeed] = {}
    for ref in refs:
        spec = find(ref.name)
        if spec is None:
            raise InvalidSkill(
                f"Line {ref.lines[0]}: the code uses {ref.name[:160]!r}, and there is no such tool."
                " Call search_tools to find one that exists."
            )
        known = needs.get(spec.full_name)
        lines = set(ref.lines) | set(known.lines if known else ())
        needs[spec.full_name] = ToolNeed(
            tool=spec.full_name, version=spec.version, digest=spec.digest, lines=tuple(sorted(lines))
        )
    return tuple(needs.values())
