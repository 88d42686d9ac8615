"""Prints and sketches of a piece of code: the tools it calls and its structure, without any value.

Two pieces have the same print if only their literals and the names of their variables differ. Two sketches are compared
by their differences: the changes that an agent made between two runs. Code and arguments are hostile, so the cost is
linear in the code, long code is not read, and only short identifiers are kept.
"""

import ast
import builtins
import re
import sys
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from sealyard.code import Names, Source, find_uses, read
from sealyard.learning.disclosure import IDENTIFIER, NAME_CHARACTERS, is_field, is_name, kind_of, mark_of, plain
from sealyard.values.facts import CallEvidence

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_CODE_BYTES = 12 << 10  # measured: parsing this much holds the event loop for up to 30 ms; agents write a tenth of it
_SAMPLE = 64  # hashes in the sample of a print; the error of a similarity is about 1/8
_SHINGLE = 4  # nodes in a row that are hashed together
_NAMES = 40  # tools, imports and skills kept in a print: a bound
_NODES = 8_000  # nodes walked for a sketch: a bound
_FEATURES = 400  # features of a sketch: a bound
_DEPTH = 12  # levels of an expression that are followed to its origin: a bound
_MODULE_PARTS = 4  # parts of a dotted name that are followed to its module: a bound
_ARGUMENTS = 40  # arguments of a call that are sketched: a bound
_SHORT_TEXT = 100  # shorter texts do not fail for their length

# Prints

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}|[^\W\d]\w{,127}\.[^\W\d]\w{,127}")
"""A full name, or the names of a module and a function."""
_SKILL_NAME = re.compile(r"[^\W\d]\w{,127}")


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
    statements: int = 0


def names_of(code: str) -> Names | None:
    """The names of `code`; None if it is not Python, or too long to be read."""
    source = read(code)
    return None if source.is_larger(_CODE_BYTES) else source.names


def code_print(code: str) -> CodePrint | None:
    """The print of `code`; None if it has no names to read, or is empty. It is made once for each text."""
    source = read(code)
    return None if source.is_larger(_CODE_BYTES) else source.of(_print)


def _print(source: Source) -> CodePrint | None:
    names = source.names
    if names is None or not names.tree.body:
        return None
    structure = _Structure(names.tree)
    shingles = {
        short_hash("\0".join(structure.tokens[at : at + _SHINGLE]))
        for at in range(max(1, len(structure.tokens) - _SHINGLE + 1))
    }
    uses = find_uses(names)
    tools = {ref.full_name or f"{ref.module}.{ref.function}" for ref in uses.tools}
    modules = {module.partition(".")[0] for module in names.imports}
    # Code that imports the package and spells out no skill loads one by a name that is known only when it runs.
    skills = {ref.name for ref in uses.skills} or ({"load"} if "skills" in modules else set())
    return CodePrint(
        digest=mark_of(structure.text(), 12),
        exact=source.digest,
        sample=tuple(sorted(shingles)[:_SAMPLE]),
        tools=_kept(tools, _TOOL_NAME),
        imports=_kept(modules - {"servers", "skills"}, IDENTIFIER),
        skills=_kept(skills, _SKILL_NAME),
        statements=structure.statements,
    )


def _kept(found: set[str], form: re.Pattern[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in found if form.fullmatch(name))[:_NAMES])


def similarity(one: Collection[int], other: Collection[int]) -> float:
    """The share of parts that two pieces of code have in common, from their samples: between 0 and 1, approximately."""
    mine, theirs = set(one), set(other)
    smallest = sorted(mine | theirs)[:_SAMPLE]
    return len(mine & theirs & set(smallest)) / len(smallest) if smallest else 0.0


class _Structure:
    """The kinds, shapes and names of all nodes, in the order of the text."""

    def __init__(self, tree: ast.Module) -> None:
        self.tokens: list[str] = []
        """The kind of each node. Similar code has many runs of tokens in common."""
        self.statements = 0
        self._shapes: list[str] = []
        """With the tokens, the whole tree."""
        self._named: list[str] = []
        self._bound: set[str] = set()
        """Names that the code binds, so their spelling does not matter."""
        for node, shape in _walk(tree):
            self._shapes.append(shape)
            self.statements += isinstance(node, ast.stmt)
            self._add(node)

    def text(self) -> str:
        """The same for code that differs in literals and in the names of variables, and only for that."""
        numbers: dict[str, str] = {}
        names = [numbers.setdefault(each, str(len(numbers))) if each in self._bound else each for each in self._named]
        return "\1".join("\0".join(part) for part in (self.tokens, self._shapes, names))

    def _add(self, node: ast.AST) -> None:
        match node:
            case ast.Name():
                self.tokens.append("name")
                self._named.append(node.id)
                if not isinstance(node.ctx, ast.Load):
                    self._bound.add(node.id)
            case ast.Constant():
                self.tokens.append(f"={type(node.value).__name__}")
            case ast.Attribute():
                self.tokens.append(f".{node.attr}")
            case ast.keyword():
                self.tokens.append(f"{node.arg}=")
            case ast.Call(func=ast.Name(id="call_tool")):
                self.tokens.append("call_tool")
            case ast.Import() | ast.ImportFrom():
                origin = "import" if isinstance(node, ast.Import) else f"from {'.' * node.level}{node.module or ''}"
                for alias in node.names:
                    self.tokens.append(f"{origin} {alias.name}")
                    self._bind(alias.asname or alias.name.partition(".")[0])
            case ast.alias():
                self.tokens.append("alias")
            case _:
                self.tokens.append(type(node).__name__)
                # A name that is not a node: of a function, class, parameter, handler or pattern.
                for field in _NAMING.intersection(node._fields):
                    if isinstance(name := getattr(node, field), str):
                        self._bind(name)

    def _bind(self, name: str) -> None:
        self._named.append(name)
        self._bound.add(name)


_NAMING = frozenset(("name", "arg", "rest"))
"""Fields that hold a name; no node has two of them."""
_SHAPELESS = frozenset((ast.Name, ast.Constant, ast.alias))
"""Nodes that hold no other node that matters."""


def _walk(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Every node, parents before their children, without recursion, each with its shape.

    The shape is the number of nodes in each field, the places of missing ones, and the flags. It is the same for reads
    and writes of a name.
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
_KIND_FEATURES: dict[type[ast.AST], str] = {
    **dict.fromkeys((ast.If, ast.IfExp, ast.While), "check|if"),
    **dict.fromkeys((ast.AsyncFor, ast.AsyncWith), "async"),
    **dict.fromkeys((ast.Global, ast.Nonlocal), "global"),
    ast.Await: "await",
    ast.JoinedStr: "fstring",
    ast.Slice: "slice",
}
"""Nodes that are counted by their kind alone."""


def tool_name(full_name: str) -> str:
    """`module.function` as code most likely writes it; empty for text that cannot be a tool's name."""
    upstream, mark, tool = full_name.removeprefix("mcp__").partition("__")
    parts = [re.sub(r"\W", "_", part) for part in (upstream, tool)]
    return ".".join(parts) if mark and all(map(_is_part, parts)) else ""


def _is_key(name: object) -> bool:
    """True if a key in code names a field, and not a person."""
    return is_name(name) and is_field(name)


def _is_part(name: str) -> bool:
    return IDENTIFIER.fullmatch(name) is not None


def sent(call: CallEvidence) -> Iterator[tuple[str, int]]:
    """The features of a call's arguments, from the journal."""
    tool = tool_name(call.tool)
    if not tool or not isinstance(call.arguments, Mapping):
        return
    for name, value in list(call.arguments.items())[:_ARGUMENTS]:
        if is_name(name):
            yield f"sent|{tool}|{name}|{kind_of(value)}", 1
            if written := plain(value):
                yield f"was|{tool}|{name}", short_hash(written)
            if type(value) is int and value > 0:
                yield f"size|{tool}|{name}", value.bit_length()
            elif isinstance(value, str | list):
                length = len(value) // _SHORT_TEXT if isinstance(value, str) else len(value)
                yield f"size|{tool}|{name}", length.bit_length()


class Reading:
    """One walk over the code: its features, and the tool that each value may come from."""

    def __init__(self, table: Names) -> None:
        self.features: Counter[str] = Counter()
        self.nodes: list[ast.AST] = []
        self.names: set[str] = set()
        """Every name, attribute, keyword and short text in the code that may be shown."""
        self._table = table
        self._scopes = {node: place.scope for node, place in table.noted}
        self._origins: dict[str, str] = {}
        """Variables whose value comes from one tool's answer, by spelling: `row` in a lambda is a row too."""
        self._loops: set[int] = set()
        for node, is_looped in _walk_in_order(table.tree):
            self.nodes.append(node)
            if is_looped:
                self._loops.add(id(node))
        self._follow_all()
        if self._follow_functions():
            self._follow_all()
        for node in self.nodes:
            self._count(node)
            if len(self.features) >= _FEATURES:
                break

    # Names

    def is_imported(self, node: ast.Name) -> bool:
        """True if a name stands for something imported."""
        variable = self._table.of.get(node)
        return variable is not None and any(binding.dotted is not None for binding in variable.bindings)

    def is_of_module(self, node: ast.Attribute) -> bool:
        """True if it is an attribute of a module, imported or not."""
        root: ast.expr = node
        for _ in range(_MODULE_PARTS):
            if not isinstance(root, ast.Attribute):
                break
            root = root.value
        return isinstance(root, ast.Name) and (root.id in _STDLIB or self.is_imported(root))

    def dotted(self, node: ast.expr) -> str:
        """The dotted name of the import or built-in thing that an expression stands for; empty if it is data."""
        if not isinstance(node, ast.Name | ast.Attribute):
            return ""
        found = self._table.meanings(node, self._scopes[node]) - {None}
        return str(next(iter(found))).removeprefix("builtins.") if len(found) == 1 else ""

    def tool_of(self, node: ast.AST | None) -> str:
        """The tool that a call calls; empty if it calls none."""
        if not isinstance(node, ast.Call):
            return ""
        parts = self.dotted(node.func).split(".")
        if parts[-1] == "call_tool":
            first = node.args[0] if node.args else None
            return tool_name(first.value) if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
        return ".".join(parts[1:]) if parts[0] == "servers" and len(parts) == 3 and all(map(_is_part, parts)) else ""

    def origin(self, node: ast.AST | None, depth: int = _DEPTH) -> str:
        """The tool from whose answer an expression is made; empty if there is none."""
        if not depth:
            return ""
        match node:
            case ast.Name():
                return self._origins.get(node.id, "")
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

    def _follow_all(self) -> None:
        for node in self.nodes:
            targets, value = _assigned(node)
            origin = self.origin(value)
            for target in targets if origin else ():
                for each in ast.walk(target):
                    if isinstance(each, ast.Name):
                        self._origins.setdefault(each.id, origin)

    def _follow_functions(self) -> bool:
        """Follow the values that functions of the code return at their end; true if there are any."""
        found = False
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and isinstance(node.body[-1], ast.Return):
                origin = self.origin(node.body[-1].value)
                if origin:
                    self._origins.setdefault(node.name, origin)
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
            case ast.BoolOp(op=ast.Or()):
                self._add("check", "or")
            case ast.Compare():
                for operator, side in zip(node.ops, node.comparators, strict=True):
                    if isinstance(side, ast.Constant) and side.value is None:
                        self._add("check", "none")
                    elif isinstance(operator, ast.In | ast.NotIn):
                        self._add("check", "in")
            case ast.ExceptHandler(type=ast.expr() as caught):
                for each in ast.walk(caught):
                    if isinstance(each, ast.Name) and is_name(each.id):
                        self._add("except", each.id)
            case ast.BinOp():
                self._add("op", type(node.op).__name__)
            case _ if type(node) in _KIND_FEATURES:
                self._add(_KIND_FEATURES[type(node)])

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
                    self.features[f"as|{tool}|{name}"] = short_hash(written)
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
                for word in node.keywords:
                    if is_name(word.arg):
                        self._add("option", name, str(word.arg))
                given = len(node.args) + len(node.keywords)
                self.features[f"given|{name}"] = max(self.features[f"given|{name}"], given)
        elif isinstance(node.func, ast.Attribute) and is_name(node.func.attr):
            self._count_method(node, node.func)
        if name == "open" and node.args and isinstance(node.args[0], ast.Constant):
            kind = kind_of(node.args[0].value)
            self._add("open", "absolute" if kind == "absolute" else "relative")

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
    names = names_of(code)
    return None if names is None else Reading(names)


def _assigned(node: ast.AST) -> tuple[Sequence[ast.expr], ast.expr | None]:
    """The targets to which a node gives a value, and that value."""
    match node:
        case ast.Assign():
            return node.targets, node.value
        case ast.AnnAssign() | ast.NamedExpr():
            return [node.target], node.value
        case ast.For() | ast.AsyncFor() | ast.comprehension():
            return [node.target], node.iter
        case ast.withitem(optional_vars=ast.expr() as target):
            return [target], node.context_expr
    return (), None


def _written(value: ast.expr) -> str:
    """A short identity of an argument: its value, or the variable that holds it."""
    match value:
        case ast.Constant():
            return plain(value.value)
        case ast.Name():
            return f"={value.id}"
    return ""


def short_hash(text: str) -> int:
    """A hash of 32 bits in place of a text: two of them may be equal by chance."""
    return zlib.crc32(text.encode("utf-8", "replace"))


def _arguments(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The named arguments of a tool's call."""
    for word in node.keywords:
        if word.arg is not None and is_name(word.arg):
            yield word.arg, word.value
    for argument in node.args:
        if isinstance(argument, ast.Dict):
            for key, value in zip(argument.keys, argument.values, strict=False):
                if isinstance(key, ast.Constant) and is_name(key.value):
                    yield str(key.value), value


def _walk_in_order(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """Every node in the order of the text, at most 8,000, and true if it is inside a loop."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    for _ in range(_NODES):
        if not waiting:
            return
        node, is_looped = waiting.pop()
        yield node, is_looped
        loops = isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.GeneratorExp | ast.DictComp)
        waiting.extend((child, is_looped or loops) for child in reversed(list(ast.iter_child_nodes(node))))
