"""The print of a piece of code: the tools it calls and its structure, without any value.

Two pieces have the same print if only their literals and the names of their variables differ. Code is hostile, so the
cost is linear in the code, long code is not read, and only short identifiers are kept.
"""

import ast
import re
import zlib
from collections.abc import Collection, Iterator

import msgspec

from sealyard.code import Names, Source, find_uses, read
from sealyard.learning.disclosure import IDENTIFIER, mark_of

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_CODE_BYTES = 12 << 10  # measured: parsing this much holds the event loop for up to 30 ms; agents write a tenth of it
_SAMPLE = 64  # hashes in the sample of a print; the error of a similarity is about 1/8
_SHINGLE = 4  # nodes in a row that are hashed together
_NAMES = 40  # tools, imports and skills kept in a print: a bound

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
    tools = {ref.name.removeprefix("servers.") for ref in uses.tools}
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


def short_hash(text: str) -> int:
    """A hash of 32 bits in place of a text: two of them may be equal by chance."""
    return zlib.crc32(text.encode("utf-8", "replace"))
