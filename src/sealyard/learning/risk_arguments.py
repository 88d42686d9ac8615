"""Whether calls of tools in a piece of code can fit: their names and number of arguments, before anything runs.

The code is hostile text: it is parsed and walked, once. What is told to be certain is so by the way the stubs bind
their arguments; everything that could make a call be another one than it looks makes it uncertain.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from sealyard.catalog.parameters import parameters, rest
from sealyard.learning.code import syntax_tree
from sealyard.values import ToolSpec
from sealyard.versioning.scopes import Names

__all__ = ("WrongCall", "wrong_calls")

_CALLS = 100
_CERTAIN_EXPRESSIONS = (
    *(ast.Attribute, ast.Await, ast.BinOp, ast.Call, ast.Dict, ast.FormattedValue, ast.JoinedStr, ast.List),
    *(ast.NamedExpr, ast.Set, ast.Slice, ast.Starred, ast.Subscript, ast.Tuple, ast.UnaryOp, ast.keyword),
)
"""What evaluates all of its parts, if it is evaluated."""
_UNCERTAIN_NAMES = frozenset(
    "SystemExit exit quit _exit abort kill exec eval globals locals vars setattr delattr getattr __dict__"
    " __builtins__ __import__ builtins import_module importlib reload modules patch mock settrace setprofile"
    " as_completed create_task ensure_future gather run_coroutine_threadsafe shield wait wait_for".split()
)
"""Code that names one of these may end before a call, change what a name means, or never look at what a call raises."""


class WrongCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that cannot fit its tool."""

    line: int
    tool: ToolSpec
    problem: Literal["unknown", "missing", "many"]
    """It has no such parameter, one that it needs is not given, or more values are given than it takes."""
    names: tuple[str, ...]
    """Those that are missing, or else those that it takes, as the call has to write them."""
    is_certain: bool
    """Whether the code gets there in any case, and fails there."""


def wrong_calls(code: str, specs: Mapping[str, ToolSpec]) -> tuple[WrongCall, ...]:
    """The calls in `code` that do not fit the tools of `specs`, in the order of the text; a hundred are looked at."""
    tree = syntax_tree(code) if specs else None
    if tree is None:
        return ()
    names = Names(tree)
    found = list(_checked(names, specs))
    if not found:
        return ()
    is_plain = not names.stars and not _is_uncertain(tree)
    certain = {id(node) for node in _certain(tree)} if is_plain else set()
    told = [msgspec.structs.replace(wrong, is_certain=id(node) in certain) for node, wrong in found]
    return tuple(sorted(told, key=lambda wrong: wrong.line))


def _checked(names: Names, specs: Mapping[str, ToolSpec]) -> Iterator[tuple[ast.Call, WrongCall]]:
    """The calls of known tools that do not fit, each with what is wrong about it."""
    by_path = {f"servers.{spec.module}.{spec.function}": spec for spec in specs.values()}
    by_name = {spec.full_name: spec for spec in specs.values()}
    stubs: dict[str, _Stub] = {}
    left = _CALLS
    for node, scope in names.noted:
        if not isinstance(node, ast.Call) or not left:
            continue
        meanings = names.meanings(node.func, scope)
        path = (next(iter(meanings)) if len(meanings) == 1 else None) or ""
        if (spec := by_path.get(path)) is not None:
            stub = stubs.get(path) or stubs.setdefault(path, _stub(spec))
            problem = _check_function(node, stub)
        elif path == "builtins.call_tool" and (spec := by_name.get(_name(node))) is not None:
            problem = _check_by_name(node, spec)
        else:
            continue
        left -= 1
        if problem is not None:
            kind, about = problem
            yield node, WrongCall(line=node.lineno, tool=spec, problem=kind, names=about, is_certain=False)


def _name(node: ast.Call) -> str:
    match node.args:
        case [ast.Constant(value=str(name)), *_]:
            return name
    return ""


_Problem = tuple[Literal["unknown", "missing", "many"], tuple[str, ...]]


class _Stub(msgspec.Struct, frozen=True):
    """What a tool's function takes, as Python writes it."""

    names: tuple[str, ...]
    required: tuple[str, ...]
    has_rest: bool


def _stub(spec: ToolSpec) -> _Stub:
    taken = parameters(spec)
    names = tuple(parameter.name for parameter in taken)
    return _Stub(names, tuple(parameter.name for parameter in taken if parameter.required), rest(spec) is not None)


def _check_function(node: ast.Call, stub: _Stub) -> _Problem | None:
    """As the stub binds them."""
    names = stub.names
    named = {keyword.arg for keyword in node.keywords}
    if not stub.has_rest and any(name not in names for name in named if name is not None):
        return "unknown", names
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return None
    if len(node.args) > len(names):
        return "many", names
    given = named | set(names[: len(node.args)])
    missing = tuple(name for name in stub.required if name not in given)
    return ("missing", missing) if missing and None not in named else None


def _check_by_name(node: ast.Call, spec: ToolSpec) -> _Problem | None:
    """As the gateway checks them, which knows parameters by the upstream's own names."""
    match [*node.args[1:], *(keyword.value for keyword in node.keywords if keyword.arg == "arguments")]:
        case [ast.Dict(keys=keys)]:
            given = {key.value if isinstance(key, ast.Constant) else None for key in keys}
        case _:
            return None
    schema = spec.input_schema
    demanded, known = schema.get("required"), schema.get("properties")
    needed = [key for key in demanded if isinstance(key, str)] if isinstance(demanded, list) else []
    missing = tuple(key for key in needed if key not in given)
    if missing and None not in given:
        return "missing", missing
    is_closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    if is_closed and isinstance(known, dict) and any(key is not None and key not in known for key in given):
        return "unknown", tuple(known)
    return None


def _is_uncertain(tree: ast.Module) -> bool:
    """Whether something in the code could make a call end otherwise than it looks."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.alias(name=name) | ast.Attribute(attr=name):
                if name in _UNCERTAIN_NAMES or name.partition(".")[0] in _UNCERTAIN_NAMES:
                    return True
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            return True  # it may put another function in the place of a tool
    return False


def _certain(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls that are made in any case, unless the code has failed before."""
    for statement in tree.body:
        match statement:
            case ast.Expr(value=value) | ast.Assign(value=value) | ast.AugAssign(value=value):
                yield from _evaluated(value)
            case ast.AnnAssign(value=ast.expr() as value):
                yield from _evaluated(value)
            case ast.For(iter=value) | ast.If(test=value) | ast.While(test=value) | ast.Assert(test=value):
                yield from _evaluated(value)


def _evaluated(value: ast.expr) -> Iterator[ast.Call]:
    waiting: list[ast.AST] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            yield node
        if isinstance(node, ast.Compare):
            waiting += (node.left, node.comparators[0])
        elif isinstance(node, _CERTAIN_EXPRESSIONS):
            waiting += ast.iter_child_nodes(node)
