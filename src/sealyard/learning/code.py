"""Prints and sketches of a piece of code: the tools it calls and its structure, without any value.

Two pieces have the same print if only their literals and the names of their variables differ. Two sketches are compared
by their differences: the changes that an agent made between two runs. Code and arguments are hostile, so the cost is
linear in the code, long code is not read, and only short identifiers are kept.
"""

import ast
import builtins
import hashlib
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from sealyard.code import Names, Source, read
from sealyard.learning.disclosure import IDENTIFIER, NAME_CHARACTERS, is_field, is_name, kind_of, plain
from sealyard.values import CallEvidence

# Tuned values. A bound limits memory or the cost of hostile input. Without a source named, a value was chosen, not
# measured.

_CODE_BYTES = 12 << 10  # measured: parsing this much holds the event loop for up to 30 ms; agents write a tenth of it
_SAMPLE = 64  # hashes in the sample of a print; the error of a similarity is about 1/8
_SHINGLE = 4  # nodes in a row that are hashed together
_WORDS = 64  # words of names kept in a print: a bound
_NAMES = 40  # tools, imports and skills kept in a print: a bound
_NAME_CHARACTERS = 128  # the longest full name of a tool
_NODES = 8_000  # nodes walked for a sketch: a bound
_FEATURES = 400  # features of a sketch: a bound
_DEPTH = 12  # levels of an expression that are followed to its origin: a bound
_MODULE_PARTS = 4  # parts of a dotted name that are followed to its module: a bound
_ARGUMENTS = 40  # arguments of a call that are sketched: a bound
_SHORT_TEXT = 100  # characters below which the length of a text is no reason to fail

# Prints

_OURS = ("servers", "skills")
_FULL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class CodePrint(msgspec.Struct, frozen=True, kw_only=True):
    """The print of a piece of code."""

    digest: str
    """The same for code that differs in its literals and the names of its variables only."""
    exact: str
    """The same for the same text only."""
    sample: tuple[int, ...]
    """The smallest hashes of its parts, sorted."""
    tools: tuple[str, ...] = ()
    """`module.function` of the tools that it imports from `servers`, and full names that it calls by; sorted."""
    imports: tuple[str, ...] = ()
    """The top names of other modules, sorted."""
    skills: tuple[str, ...] = ()
    """The saved skills that it imports, sorted."""
    words: tuple[str, ...] = ()
    """Of the names in it, in lower case, sorted."""
    statements: int = 0


def syntax_tree(code: str) -> ast.Module | None:
    """The tree of `code`; None if it is not Python, or too long to be read."""
    source = read(code)
    return None if source.is_larger(_CODE_BYTES) else source.tree


def names_of(code: str) -> Names | None:
    """The names of `code`; None if it has no `syntax_tree`."""
    source = read(code)
    return None if source.is_larger(_CODE_BYTES) else source.names


def code_print(code: str) -> CodePrint | None:
    """The print of `code`; None if it has no `syntax_tree`, or an empty one. It is made once for each text."""
    source = read(code)
    return None if source.is_larger(_CODE_BYTES) else source.of(_print)


def _print(source: Source) -> CodePrint | None:
    tree = source.tree
    if tree is None or not tree.body:
        return None
    reading = _Reading(tree)
    shingles = {
        zlib.crc32("\0".join(reading.tokens[at : at + _SHINGLE]).encode("utf-8", "replace"))
        for at in range(max(1, len(reading.tokens) - _SHINGLE + 1))
    }
    return CodePrint(
        digest=_digest(reading.structure().encode("utf-8", "replace")),
        exact=source.digest,
        sample=tuple(sorted(shingles)[:_SAMPLE]),
        tools=tuple(sorted(reading.tools)[:_NAMES]),
        imports=tuple(sorted(reading.imports)[:_NAMES]),
        skills=tuple(sorted(reading.skills)[:_NAMES]),
        words=tuple(sorted(reading.words)[:_WORDS]),
        statements=reading.statements,
    )


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def similarity(one: CodePrint, other: CodePrint) -> float:
    """The share of parts that two pieces of code have in common: between 0 and 1, approximately."""
    if one.digest == other.digest:
        return 1.0
    mine, theirs = set(one.sample), set(other.sample)
    smallest = sorted(mine | theirs)[:_SAMPLE]
    return len(mine & theirs & set(smallest)) / len(smallest) if smallest else 0.0


class _Reading:
    """One walk over a syntax tree, in the order of the text."""

    def __init__(self, tree: ast.Module) -> None:
        self.tokens: list[str] = []
        """The kind of each node: similar code has many runs of them in common."""
        self.tools: set[str] = set()
        self.imports: set[str] = set()
        self.skills: set[str] = set()
        self.words: set[str] = set()
        self._noted: set[str] = set()
        self.statements = 0
        self._shapes: list[str] = []
        """The number of nodes in each one, and where: with the tokens, that is the whole tree."""
        self._named: list[str] = []
        self._bound: set[str] = set()
        """Names that the code gives a value itself: what they are called does not matter."""
        self._roots: dict[str, str] = {}
        """The modules that imported names stand for."""
        self._dotted: list[tuple[str, str, str]] = []
        for node, shape in _walk(tree):
            self._shapes.append(shape)
            self._READERS.get(type(node), _Reading._read_other)(self, node)
        for path in self._dotted:  # now that all imports are known, wherever they stand
            self._find_tool(*path)

    def structure(self) -> str:
        """The same for code that differs in literals and in what its variables are called, and only for that."""
        numbers: dict[str, str] = {}
        names = [numbers.setdefault(each, str(len(numbers))) if each in self._bound else each for each in self._named]
        return "\1".join("\0".join(part) for part in (self.tokens, self._shapes, names))

    def _read_name(self, node: ast.Name) -> None:
        # A variable's own name says what the code is about, but not how it is built.
        self.tokens.append("name")
        self._note(node.id)
        self._named.append(node.id)
        if not isinstance(node.ctx, ast.Load):
            self._bound.add(node.id)

    def _read_constant(self, node: ast.Constant) -> None:
        self.tokens.append(f"={type(node.value).__name__}")

    def _read_keyword(self, node: ast.keyword) -> None:
        self.tokens.append(f"{node.arg}=")
        self._note(node.arg or "")

    def _read_other(self, node: ast.AST) -> None:
        self.tokens.append(type(node).__name__)
        if isinstance(node, ast.stmt):
            self.statements += 1
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._note(node.name)
        # The name that it gives a value, beside those that are nodes of their own.
        kind = type(node)
        field = _naming_fields.get(kind)
        if field is None:
            field = _naming_fields[kind] = next(iter(_NAMING.intersection(kind._fields)), "")
        if field and isinstance(name := getattr(node, field), str):
            self._named.append(name)
            self._bound.add(name)

    def _read_attribute(self, node: ast.Attribute) -> None:
        self.tokens.append(f".{node.attr}")
        self._note(node.attr)
        match node.value:
            case ast.Name(id=root):
                self._dotted.append((root, node.attr, ""))
            case ast.Attribute(value=ast.Name(id=root), attr=middle):
                self._dotted.append((root, middle, node.attr))

    def _read_call(self, node: ast.Call) -> None:
        if not isinstance(node.func, ast.Name) or node.func.id != "call_tool":
            self.tokens.append("Call")
            return
        # A tool that is called by its full name.
        self.tokens.append("call_tool")
        named = [each.value for each in node.keywords if each.arg == "name"]
        match [*node.args[:1], *named]:
            case [ast.Constant(value=str(name)), *_] if _FULL_NAME.fullmatch(name):
                self.tools.add(name)

    def _read_import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.statements += 1
        origin = None if isinstance(node, ast.Import) else "." * node.level + (node.module or "")
        for alias in node.names:
            self.tokens.append(f"import {alias.name}" if origin is None else f"from {origin} {alias.name}")
            self._note(alias.name)
            path = alias.name if origin is None else f"{origin}.{alias.name}"
            top = alias.name.partition(".")[0]
            name = alias.asname or top
            self._named.append(name)
            self._bound.add(name)
            # `import a.b` gives a value to `a` alone.
            self._read_module(path, name=name, stands_for=top if origin is None and not alias.asname else path)

    def _read_module(self, path: str, *, stands_for: str, name: str) -> None:
        root, *rest = path.split(".")
        if root not in _OURS:
            if IDENTIFIER.fullmatch(root):
                self.imports.add(root)
            return
        self._roots[name] = stands_for
        self._add_use(root, rest)

    def _find_tool(self, name: str, first: str, second: str) -> None:
        """Notes an attribute of an imported module if the module is one of `servers` or `skills`."""
        path = self._roots.get(name)
        if path is not None:
            root, *rest = path.split(".")
            self._add_use(root, [*rest, first, *([second] if second else [])])

    def _add_use(self, root: str, rest: list[str]) -> None:
        if not all(len(each) <= _NAME_CHARACTERS and each.isidentifier() for each in rest):
            return
        if root == "servers" and len(rest) >= 2:
            self.tools.add(f"{rest[0]}.{rest[1]}")
        elif root == "skills" and rest:
            self.skills.add(rest[0])

    def _note(self, name: str) -> None:
        if name not in self._noted:
            self._noted.add(name)
            self.words.update(word.lower() for word in _WORD.findall(name[:_NAME_CHARACTERS]) if len(word) > 2)

    _READERS: ClassVar[dict[type[ast.AST], Callable[["_Reading", Any], None]]] = {
        ast.Name: _read_name,
        ast.Constant: _read_constant,
        ast.Attribute: _read_attribute,
        ast.Import: _read_import,
        ast.ImportFrom: _read_import,
        ast.keyword: _read_keyword,
        ast.Call: _read_call,
    }
    """All other kinds of nodes are read by `_read_other`."""


_NAMING = frozenset(("name", "arg", "rest"))
"""Fields that hold a name; no node has two of them."""
_naming_fields: dict[type[ast.AST], str] = {ast.alias: ""}
"""The one of each kind of node that was met; empty for those that have none, or whose name was read before."""
_SHAPELESS = frozenset((ast.Name, ast.Constant, ast.alias))
"""Nodes that hold no other node that matters."""


def _walk(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Every node, parents before their children, without recursion, each with its shape.

    The shape is the number of nodes in each field, which are left out, and the flags. It does not tell reads of a name
    from writes.
    """
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        kind = type(node)
        if kind in _SHAPELESS or not node._fields:
            yield node, ""
            continue
        inner: list[ast.AST] = []
        shape = []
        for field in node._fields:
            if field == "ctx":
                continue
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                inner.append(value)
                shape.append("+")
            elif isinstance(value, list):
                shape.append(str(len(value)))
                if value:
                    there = [each for each in value if isinstance(each, ast.AST)]
                    inner += there
                    if len(there) < len(value):
                        shape += [str(place) for place, each in enumerate(value) if each is None]
            elif not isinstance(value, str):
                shape.append(str(value))
        yield node, ",".join(shape)
        inner.reverse()
        waiting += inner


# Sketches

_BUILTINS = frozenset(name for name in vars(builtins) if not name.startswith("_"))
_STDLIB = frozenset(sys.stdlib_module_names)


def tool_name(full_name: str) -> str:
    """`module.function` as code most likely writes it; empty for text that cannot be a tool's name."""
    upstream, mark, tool = full_name.removeprefix("mcp__").partition("__")
    parts = [re.sub(r"\W", "_", part) for part in (upstream, tool)]
    return ".".join(parts) if mark and all(map(_is_part, parts)) else ""


def _is_key(name: object) -> bool:
    """True if a key in code is the name of a field, and not of a person."""
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
        for node, is_looped in _walk_in_order(tree):
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
        """True if a name stands for something imported."""
        return name in self._dotted

    def is_of_module(self, node: ast.Attribute) -> bool:
        """True if it is an attribute of a module, imported or not."""
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
        """The tool whose answer an expression is made of; empty if there is none."""
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
        """Follows the values that functions of the code return at their end; true if there are any."""
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


def read_sketch(code: str) -> Reading | None:
    """The sketch of code; None if it is not Python, or too long to be read."""
    tree = syntax_tree(code)
    return None if tree is None else Reading(tree)


def _written(value: ast.expr) -> str:
    """Identifies an argument at a glance: its value, or the variable that has it."""
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


def _walk_in_order(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """Every node in the order of the text, and whether it is inside a loop; not more than eight thousand."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    for _ in range(_NODES):
        if not waiting:
            return
        node, is_looped = waiting.pop()
        yield node, is_looped
        loops = isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.GeneratorExp | ast.DictComp)
        waiting.extend((child, is_looped or loops) for child in reversed(list(ast.iter_child_nodes(node))))
