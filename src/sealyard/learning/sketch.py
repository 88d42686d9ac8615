"""A sketch of a run: what its code does and what it sent to tools, as counted features without any value.

Two sketches are compared by their differences, which is what an agent changed between them. It is made from code and
arguments that are hostile: the cost is linear in the code, and only identifiers of forty characters get into it.
"""

import ast
import builtins
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping

from sealyard.learning.code import IDENTIFIER, syntax_tree
from sealyard.learning.kinds import kind_of, plain
from sealyard.learning.telling import is_field
from sealyard.values import CallEvidence

__all__ = ("NAME_CHARACTERS", "Reading", "is_name", "read", "sent", "tool_name")

NAME_CHARACTERS = 40
"""Longer identifiers are left out: nobody needs them, and they could be sentences."""

_NODES = 8_000
_FEATURES = 400
_DEPTH = 12
_MODULE_PARTS = 4
_ARGUMENTS = 40
_PIECES = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WORDS = 6
_SHORT_TEXT = 100
"""Characters: of a text below that, the length is no reason to fail."""
_BUILTINS = frozenset(name for name in vars(builtins) if not name.startswith("_"))
_STDLIB = frozenset(sys.stdlib_module_names)


def is_name(name: object) -> bool:
    """Whether it is an identifier that may get into a sketch: short, and of few words."""
    return (
        isinstance(name, str)
        and len(name) <= NAME_CHARACTERS
        and IDENTIFIER.fullmatch(name) is not None
        and len(_PIECES.findall(name)) <= _WORDS
    )


def tool_name(full_name: str) -> str:
    """`module.function` as code most likely writes it; empty for what is no tool's name."""
    upstream, mark, tool = full_name.removeprefix("mcp__").partition("__")
    parts = [re.sub(r"\W", "_", part) for part in (upstream, tool)]
    return ".".join(parts) if mark and all(map(_is_part, parts)) else ""


def _is_key(name: object) -> bool:
    """Whether a key in code is the name of a field, and not of somebody."""
    return is_name(name) and is_field(name)


def _is_part(name: str) -> bool:
    return IDENTIFIER.fullmatch(name) is not None


def sent(call: CallEvidence) -> Iterator[tuple[str, int]]:
    """The features of a call's arguments, as the journal kept them."""
    tool = tool_name(call.tool)
    if not tool or not isinstance(call.arguments, Mapping):
        return
    for name, value in list(call.arguments.items())[:_ARGUMENTS]:
        if is_name(name):
            yield f"sent|{tool}|{name}|{kind_of(value)}", 1
            if written := plain(value):
                yield f"was|{tool}|{name}", _hash(written)
            if type(value) is int and value > 0:
                yield f"size|{tool}|{name}", value.bit_length()
            elif isinstance(value, str | list):
                length = len(value) // _SHORT_TEXT if isinstance(value, str) else len(value)
                yield f"size|{tool}|{name}", length.bit_length()


class Reading:
    """One walk over the code: its features, and which tool each name's value may come from."""

    def __init__(self, tree: ast.Module) -> None:
        self.features: Counter[str] = Counter()
        self.nodes: list[ast.AST] = []
        self.names: set[str] = set()
        """Every name, attribute, keyword and short text in the code that could be named."""
        self.origins: dict[str, str] = {}
        """Variables whose value comes from one tool's answer."""
        self._dotted: dict[str, str] = {}
        self._loops: set[int] = set()
        for node, is_looped in _walk(tree):
            self.nodes.append(node)
            if is_looped:
                self._loops.add(id(node))
            self._bind(node)
        for node in self.nodes:
            self._follow(node)
        if self._follow_functions():
            for node in self.nodes:
                self._follow(node)
        for node in self.nodes:
            self._count(node)
            if len(self.features) >= _FEATURES:
                break

    # What names stand for

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Import():
                for alias in node.names:
                    root = alias.name.partition(".")[0]
                    self._dotted[alias.asname or root] = alias.name if alias.asname else root
            case ast.ImportFrom(module=str(module), level=0):
                for alias in node.names:
                    self._dotted[alias.asname or alias.name] = f"{module}.{alias.name}"

    def is_imported(self, name: str) -> bool:
        """Whether a name stands for something imported."""
        return name in self._dotted

    def is_of_module(self, node: ast.Attribute) -> bool:
        """Whether it is something of a module, imported or not."""
        root: ast.expr = node
        for _ in range(_MODULE_PARTS):
            if not isinstance(root, ast.Attribute):
                break
            root = root.value
        return isinstance(root, ast.Name) and (root.id in self._dotted or root.id in _STDLIB)

    def dotted(self, node: ast.AST | None) -> str:
        """The dotted name that an expression stands for; empty if it stands for none."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < _DEPTH:
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join((self._dotted.get(node.id, node.id), *reversed(parts)))

    def tool_of(self, node: ast.AST | None) -> str:
        """The tool that a call calls; empty if it calls none."""
        if not isinstance(node, ast.Call):
            return ""
        name = self.dotted(node.func)
        if name.rpartition(".")[2] == "call_tool":
            first = node.args[0] if node.args else None
            return tool_name(first.value) if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
        parts = name.split(".")
        return ".".join(parts[1:]) if parts[0] == "servers" and len(parts) == 3 and all(map(_is_part, parts)) else ""

    def origin(self, node: ast.AST | None, depth: int = _DEPTH) -> str:
        """The tool whose answer an expression is made of, if that can be told."""
        if not depth:
            return ""
        match node:
            case ast.Name():
                return self.origins.get(node.id, "")
            case ast.Subscript() | ast.Attribute() | ast.Await() | ast.Starred() | ast.NamedExpr():
                return self.origin(node.value, depth - 1)
            case ast.Call():
                tool = self.tool_of(node)
                if tool:
                    return tool
                inner = [node.func.value if isinstance(node.func, ast.Attribute) else node.func]
                found = (self.origin(each, depth - 1) for each in (*inner, *node.args[:3]))
                return next(filter(None, found), "")
            case ast.BoolOp():
                return next(filter(None, (self.origin(each, depth - 1) for each in node.values[:3])), "")
            case ast.IfExp():
                return self.origin(node.body, depth - 1)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return self.origin(node.generators[0].iter, depth - 1)
            case ast.BinOp():
                return self.origin(node.left, depth - 1)
        return ""

    def _follow(self, node: ast.AST) -> None:
        match node:
            case ast.Assign():
                targets, value = node.targets, node.value
            case ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
                targets = [node.target]
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                targets, value = [node.target], node.iter
            case ast.withitem(optional_vars=ast.expr() as target):
                targets, value = [target], node.context_expr
            case _:
                return
        origin = self.origin(value)
        if origin:
            for target in targets:
                for each in ast.walk(target):
                    if isinstance(each, ast.Name):
                        self.origins.setdefault(each.id, origin)

    def _follow_functions(self) -> bool:
        """What functions of the code itself return, if that is at their end; whether there are any."""
        found = False
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and isinstance(node.body[-1], ast.Return):
                origin = self.origin(node.body[-1].value)
                if origin:
                    self.origins.setdefault(node.name, origin)
                    found = True
        return found

    # Features

    def _add(self, *parts: str) -> None:
        self.features["|".join(parts)] += 1

    def _count(self, node: ast.AST) -> None:
        match node:
            case ast.Call():
                self._count_call(node)
            case ast.Subscript():
                self._count_subscript(node)
            case ast.Attribute():
                self._note(node.attr)
                origin = self.origin(node.value)
                if is_name(node.attr) and isinstance(node.ctx, ast.Load):
                    self._add("attr", origin, node.attr)
            case ast.Name():
                self._note(node.id)
                if is_name(node.id):
                    self._add("load" if isinstance(node.ctx, ast.Load) else "bind", node.id)
            case ast.Constant(value=str(text)):
                self._note(text)
            case ast.Await():
                self._add("await")
            case ast.AsyncFor() | ast.AsyncWith():
                self._add("async")
            case ast.For() | ast.comprehension():
                self._add("loop", self.origin(node.iter))
                if isinstance(node, ast.comprehension) and node.ifs:
                    self._add("check", "if")
            case ast.Import() | ast.ImportFrom():
                self._count_import(node)
            case _:
                self._count_other(node)

    def _count_other(self, node: ast.AST) -> None:
        match node:
            case ast.If() | ast.IfExp() | ast.While():
                self._add("check", "if")
            case ast.BoolOp(op=ast.Or()):
                self._add("check", "or")
            case ast.Compare():
                for operator, side in zip(node.ops, node.comparators, strict=False):
                    if isinstance(side, ast.Constant) and side.value is None:
                        self._add("check", "none")
                    elif isinstance(operator, ast.In | ast.NotIn):
                        self._add("check", "in")
            case ast.ExceptHandler():
                for each in ast.walk(node.type) if node.type is not None else ():
                    if isinstance(each, ast.Name) and is_name(each.id):
                        self._add("except", each.id)
            case ast.BinOp():
                self._add("op", type(node.op).__name__)
            case ast.JoinedStr():
                self._add("fstring")
            case ast.Global() | ast.Nonlocal():
                self._add("global")
            case ast.Slice():
                self._add("slice")

    def _count_call(self, node: ast.Call) -> None:
        tool = self.tool_of(node)
        if tool:
            self._add("call", tool)
            if id(node) in self._loops:
                self._add("looped", tool)
            for name, value in _arguments(node):
                self._note(name)
                self._add("arg", tool, name, kind_of(value.value) if isinstance(value, ast.Constant) else "made")
                if written := _written(value):
                    self.features[f"as|{tool}|{name}"] = _hash(written)
                source = self.origin(value)
                if source and source != tool:
                    self._add("flow", source, tool, name)
            return
        name = self.dotted(node.func)
        root, _, rest = name.partition(".")
        origin = self.origin(node.args[0]) if node.args else ""
        if root in _STDLIB or (not rest and root in _BUILTINS):
            if len(name) <= NAME_CHARACTERS and all(map(_is_part, name.split("."))):
                self._add("fn", name, origin)
                self._count_options(name, node)
        elif isinstance(node.func, ast.Attribute) and is_name(node.func.attr):
            self._count_method(node, node.func)
        if name == "open" and node.args and isinstance(node.args[0], ast.Constant):
            kind = kind_of(node.args[0].value)
            self._add("open", "absolute" if kind == "absolute" else "relative")

    def _count_options(self, name: str, node: ast.Call) -> None:
        for word in node.keywords:
            if is_name(word.arg):
                self._add("option", name, str(word.arg))
        self.features[f"given|{name}"] = max(self.features[f"given|{name}"], len(node.args) + len(node.keywords))

    def _count_method(self, node: ast.Call, function: ast.Attribute) -> None:
        origin = self.origin(function.value)
        self._add("method", function.attr, origin)
        first = node.args[0] if node.args else None
        if function.attr in ("get", "pop", "setdefault") and isinstance(first, ast.Constant) and _is_key(first.value):
            self._add(
                "field", origin, str(first.value), "get" if function.attr == "get" or len(node.args) > 1 else "sub"
            )
        for word in node.keywords:
            if is_name(word.arg):
                self._add("keyword", function.attr, str(word.arg))

    def _count_subscript(self, node: ast.Subscript) -> None:
        origin = self.origin(node.value)
        match node.slice:
            case ast.Constant(value=str(key)) if _is_key(key):
                self._add("field", origin, key, "sub")
            case ast.Constant(value=int()) | ast.UnaryOp():
                self._add("index", origin)

    def _count_import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        else:
            found = [(node.module or "", alias.name) for alias in node.names]
        for module, name in found:
            root = module.partition(".")[0]
            if root not in ("servers", "skills") and all(map(_is_part, module.split("."))):
                self._add("import", module[:NAME_CHARACTERS], name if is_name(name) else "")

    def _note(self, name: str | None) -> None:
        if is_name(name) and len(self.names) < _NODES:
            self.names.add(str(name))


def read(code: str) -> Reading | None:
    """What can be read in code; None if it is no Python, or too long to be looked at."""
    tree = syntax_tree(code)
    return None if tree is None else Reading(tree)


def _written(value: ast.expr) -> str:
    """What tells an argument from others, if that can be told at a glance: its value, or the variable that has it."""
    match value:
        case ast.Constant():
            return plain(value.value)
        case ast.Name():
            return f"={value.id}"
    return ""


def _hash(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "replace"))


def _arguments(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The arguments of a tool's call that have a name."""
    for word in node.keywords:
        if word.arg is not None and is_name(word.arg):
            yield word.arg, word.value
    for argument in node.args:
        if isinstance(argument, ast.Dict):
            for key, value in zip(argument.keys, argument.values, strict=False):
                if isinstance(key, ast.Constant) and is_name(key.value):
                    yield str(key.value), value


def _walk(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """Every node in the order of the text, and whether it is inside a loop; not more than eight thousand."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    for _ in range(_NODES):
        if not waiting:
            return
        node, is_looped = waiting.pop()
        yield node, is_looped
        loops = isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.GeneratorExp | ast.DictComp)
        waiting.extend((child, is_looped or loops) for child in reversed(list(ast.iter_child_nodes(node))))
