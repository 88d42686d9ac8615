"""What job a piece of code does, however it is written: the same for a script and for a function that was saved of it.

Names of variables, literals, annotations, imports under another name, prints and the order of statements make little or
no difference. Which tools are called, which functions reduce their answers and which fields are read does. Code is
hostile: the cost is linear in its length, and long code has no print.
"""

import ast
import builtins
import hashlib
from collections.abc import Iterator, Sequence

import msgspec

from sealyard.code import Source, read
from sealyard.learning.code import syntax_tree

__all__ = ("JobPrint", "job_print", "likeness")

_NODES = 8_000
_PARTS = 160
_FEWEST_PARTS = 5
_NAMES = 40
_REPEATS = 3
"""The same part counts so often."""

_NEUTRAL = frozenset(
    "abs bool bytes dict enumerate float format frozenset hasattr int isinstance iter list next print range repr round"
    " set str tuple type zip open super getattr setattr object Exception ValueError KeyError TypeError RuntimeError"
    " json.dumps json.loads"
    " .add .append .capitalize .clear .copy .decode .encode .endswith .extend .format .get .insert .isoformat .items"
    " .join .keys .lower .lstrip .pop .read .replace .rstrip .setdefault .split .splitlines .startswith .strip .title"
    " .update .upper .values .write".split()
)
"""Functions and methods that shape or move data. All others decide what the job is."""
_TELLING = _NEUTRAL | {"len", "sorted"}
"""What a print that only tells how far the code is may call besides."""
_DECIDING = (
    *(ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow),
)
_ALIKE = {"LtE": "Lt", "GtE": "Gt"}


class JobPrint(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a job."""

    parts: tuple[int, ...]
    """Hashes of its expressions, each with what is directly in it; sorted, the smallest if there are many."""
    tools: tuple[str, ...] = ()
    """`module.function` of the tools that it calls, sorted."""
    acts: tuple[str, ...] = ()
    """The functions, methods and operators that decide what it does, sorted."""
    skills: tuple[str, ...] = ()
    """The saved skills that it imports, sorted."""
    fields: tuple[str, ...] = ()
    """The constant keys that it reads, sorted."""
    made: tuple[str, ...] = ()
    """Those of them that it gives its data itself: it could as well have called them otherwise."""


def job_print(code: str) -> JobPrint | None:
    """The print of `code`; None if it is no Python, says too little to be told from others, or is too long.

    It is made once for each text.
    """
    return read(code).of(_print)


def _print(source: Source) -> JobPrint | None:
    tree = syntax_tree(source.text)
    if tree is None:
        return None
    nodes = list(_walk(tree))
    found = _Reading(nodes).print() if len(nodes) < _NODES else None
    return found if found is not None and len(found.parts) >= _FEWEST_PARTS else None


def likeness(one: JobPrint, other: JobPrint) -> float:
    """From 0 to 1; 0 unless both call the same tools, read the same fields, and do the same with them."""
    if one.tools != other.tools or one.acts != other.acts or not _reads_the_same(one, other):
        return 0.0
    mine, theirs = set(one.parts), set(other.parts)
    common = len(mine & theirs)
    return common / len(mine | theirs) if common else 0.0


def _reads_the_same(one: JobPrint, other: JobPrint) -> bool:
    """Whether both read the same keys, but for those that each of them made up."""
    mine, theirs = set(one.fields) - set(other.fields), set(other.fields) - set(one.fields)
    return len(mine) == len(theirs) and mine <= set(one.made) and theirs <= set(other.made)


class _Reading:
    """Two walks over a syntax tree: first for what names mean, then for what is done."""

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        self._bound: set[str] = set()
        self._imported: dict[str, str] = {}
        """Names that stand for something imported -> `servers.x.y`, `statistics.mean`."""
        self._counts: dict[str, int] = {}
        self._tools: set[str] = set()
        self._acts: set[str] = set()
        self._fields: set[str] = set()
        self._made: set[str] = set()
        """Keys that the code itself gives its data."""
        self._skills: set[str] = set()
        for node in nodes:
            self._bind(node)
        for node in nodes:
            self._read(node)

    def print(self) -> JobPrint:
        """What was read."""
        parts = sorted(_hash(f"{count} {part}") for part, most in self._counts.items() for count in range(most))
        return JobPrint(
            parts=tuple(parts[:_PARTS]),
            tools=tuple(sorted(self._tools)[:_NAMES]),
            acts=tuple(sorted(self._acts)[:_NAMES]),
            skills=tuple(sorted(self._skills)[:_NAMES]),
            fields=tuple(sorted(self._fields)[:_NAMES]),
            made=tuple(sorted(self._made & self._fields)[:_NAMES]),
        )

    # What names mean

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Import():
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    self._imported[alias.asname or whole] = whole
            case ast.ImportFrom(level=0, module=str(module)):
                for alias in node.names:
                    self._imported[alias.asname or alias.name] = f"{module}.{alias.name}"
                    if module == "skills":
                        self._skills.add(alias.name[:64])
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                self._bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                self._bound.add(name)

    def _meaning(self, node: ast.expr) -> str | None:
        """What an expression stands for outside of the code: a builtin or something imported; None if it is data."""
        steps: list[str] = []
        while isinstance(node, ast.Attribute):
            steps.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        known = self._imported.get(node.id)
        if known is None and (steps or node.id in self._bound or not hasattr(builtins, node.id)):
            return "call_tool" if node.id == "call_tool" and node.id not in self._bound and not steps else None
        return ".".join([known or node.id, *reversed(steps)])

    # What is done

    def _read(self, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            self._note_call(node)
        elif isinstance(node, _DECIDING):
            self._acts.add(_ALIKE.get(type(node).__name__, type(node).__name__))
        elif isinstance(node, ast.Subscript):
            self._note_field(node)
        elif isinstance(node, ast.Dict):
            self._made.update(str(key.value)[:64] for key in node.keys if isinstance(key, ast.Constant))
        part = self._part(node)
        if part is not None and self._counts.get(part, 0) < _REPEATS:
            self._counts[part] = self._counts.get(part, 0) + 1

    def _note_field(self, node: ast.Subscript) -> None:
        is_input = isinstance(node.value, ast.Name) and node.value.id not in self._bound  # such as context["since"]
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) and not is_input:
            (self._fields if isinstance(node.ctx, ast.Load) else self._made).add(node.slice.value[:64])

    def _note_call(self, call: ast.Call) -> None:
        named = self._tool(call)
        if named is not None:
            self._tools.add(named[:128])
            return
        act = self._meaning(call.func) or (f".{call.func.attr}" if isinstance(call.func, ast.Attribute) else None)
        if act is not None and act not in _NEUTRAL and not act.startswith("skills."):
            self._acts.add(act[:64])

    def _tool(self, call: ast.Call) -> str | None:
        """`module.function` of the tool that is called, also by its full name."""
        meaning = self._meaning(call.func)
        if meaning == "call_tool" and call.args and isinstance(call.args[0], ast.Constant):
            _, _, place = str(call.args[0].value).partition("__")
            return place.replace("__", ".", 1)
        return meaning.removeprefix("servers.") if meaning and meaning.startswith("servers.") else None

    def _part(self, node: ast.AST) -> str | None:
        """An expression or the head of a statement with what is directly in it; None if that says nothing."""
        match node:
            case ast.Call():
                if self._meaning(node.func) == "print":
                    return None
                inside = [self._label(each) for each in node.args] + [f"{each.arg}=" for each in node.keywords]
                return f"{self._label(node)}({' '.join(sorted(inside))})"
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                return f"for {self._label(node.iter)}"
            case ast.If() | ast.While() | ast.IfExp():
                return f"if {self._label(node.test)}"
            case ast.AugAssign():
                return f"{type(node.op).__name__}= {self._label(node.target)} {self._label(node.value)}"
            case ast.Assign(targets=[ast.Subscript() as target]):
                return f"set {self._label(target)} {self._label(node.value)}"
            case ast.JoinedStr() | ast.Constant() | ast.Name() | ast.Await() | ast.Lambda() | ast.Attribute():
                return None
            case ast.expr():
                children = [self._label(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
                return f"{self._label(node)}[{' '.join(children)}]"
            case _:
                return None

    def _label(self, node: ast.AST) -> str:
        """One expression in a word. Data is all the same, be it a literal or in a variable."""
        match node:
            case ast.Await(value=value):
                return self._label(value)
            case ast.Call():
                tool = self._tool(node)
                method = f".{node.func.attr}" if isinstance(node.func, ast.Attribute) else "call"
                return f"tool {tool}" if tool is not None else self._meaning(node.func) or method
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                return f"[{key[:64]}]"
            case ast.BinOp(op=op) | ast.UnaryOp(op=op) | ast.BoolOp(op=op):
                return type(op).__name__
            case ast.Compare(ops=ops):
                return " ".join(type(op).__name__ for op in ops)
            case ast.Constant() | ast.Name() | ast.JoinedStr() | ast.Starred():
                return "data"
            case ast.Attribute():
                return self._meaning(node) or f".{node.attr}"
            case _:
                return type(node).__name__


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).digest())


def _walk(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node but annotations, and prints that only tell how far the code is; without recursion."""
    waiting: list[ast.AST] = [tree]
    for _ in range(_NODES):
        if not waiting:
            return
        node = waiting.pop()
        yield node
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns", "decorator_list", "type_params"):
                inside = value if isinstance(value, list) else [value]
                waiting += [each for each in inside if isinstance(each, ast.AST) and not _is_telling(each)]


def _is_telling(node: ast.AST) -> bool:
    """Whether a statement prints, and does nothing else that matters."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id="print")) as call):
            return all(_name_of(each.func) in _TELLING for each in ast.walk(call) if isinstance(each, ast.Call))
    return False


def _name_of(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=name):
            return f".{name}"
    return ""
