"""What a piece of code is like, without its values: which tools it calls, and how it is built.

Two pieces are the same if only their literals and the names of their variables differ; how similar two are is told from
a sample of their parts. It is made from code that is hostile: the cost is linear in its length, and long code has none.
"""

import ast
import hashlib
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import msgspec

from sealyard.code import Source, is_larger, read

__all__ = ("IDENTIFIER", "CodePrint", "code_print", "similarity", "syntax_tree")

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""What may be named in a hint, if it matches whole."""

_CODE_BYTES = 12 << 10
"""Parsing this much holds the interpreter, and so the event loop, for up to 30 ms. Agents write a tenth of it."""
_SAMPLE = 64
_SHINGLE = 4
_WORDS = 64
_NAMES = 40
_NAME_CHARACTERS = 128
_OURS = ("servers", "skills")
_FULL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class CodePrint(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a piece of code."""

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
    """The tree of `code`; None if it is no Python, or too long to be looked at."""
    return None if is_larger(code, _CODE_BYTES) else read(code).tree


def code_print(code: str) -> CodePrint | None:
    """The print of `code`; None if it has no `syntax_tree`, or an empty one. It is made once for each text."""
    return None if is_larger(code, _CODE_BYTES) else read(code).of(_print)


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
    """How much of their parts two pieces of code have in common: between 0 and 1, about."""
    if one.digest == other.digest:
        return 1.0
    mine, theirs = set(one.sample), set(other.sample)
    smallest = sorted(mine | theirs)[:_SAMPLE]
    return len(mine & theirs & set(smallest)) / len(smallest) if smallest else 0.0


class _Reading:
    """One walk over a syntax tree, in the order of the text."""

    def __init__(self, tree: ast.Module) -> None:
        self.tokens: list[str] = []
        """What each node is: close code has many runs of them in common."""
        self.tools: set[str] = set()
        self.imports: set[str] = set()
        self.skills: set[str] = set()
        self.words: set[str] = set()
        self._noted: set[str] = set()
        self.statements = 0
        self._shapes: list[str] = []
        """How many nodes each one holds, and where: with the tokens, that is the whole tree."""
        self._named: list[str] = []
        self._bound: set[str] = set()
        """Names that the code gives a value itself: what they are called does not matter."""
        self._roots: dict[str, str] = {}
        """What names of imported modules stand for."""
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
        if isinstance(node, ast.alias):
            return
        # The names that it gives a value, beside those that are nodes of their own.
        for field in _NAMING.intersection(node._fields):
            name = getattr(node, field)
            if isinstance(name, str):
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
        """What an attribute of an imported module is, if it is one of `servers` or `skills`."""
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
_SHAPELESS = (ast.Name, ast.Constant, ast.alias)
"""What holds no other node that matters."""


def _walk(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Every node, parents before what is in them, without recursion, each with its shape.

    That is how many nodes are in each of its fields and which are left out, and the flags among them. Whether a name is
    read or written is none.
    """
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _SHAPELESS) or not node._fields:
            yield node, ""
            continue
        inner: list[ast.AST] = []
        told = []
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                there = [each for each in value if isinstance(each, ast.AST)]
                inner += there
                told.append(str(len(value)))
                if len(there) < len(value):
                    told += [str(place) for place, each in enumerate(value) if each is None]
            elif field == "ctx":
                continue
            elif isinstance(value, ast.AST):
                inner.append(value)
                told.append("+")
            elif not isinstance(value, str):
                told.append(str(value))
        yield node, ",".join(told)
        inner.reverse()
        waiting += inner
