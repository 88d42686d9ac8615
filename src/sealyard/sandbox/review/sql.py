"""SQL that code puts together from values and hands to a tool: a value can become part of the command.

Only text that begins as SQL counts, and only where it reaches a tool's argument, directly or by a name. The work is
bounded: names that are used again and again would make it more than linear.
"""

import ast
import re
from collections.abc import Iterator, Sequence

MESSAGE = "This SQL is put together from values, and a value can change what it does."
HINT = "Keep the text constant and pass values in the tool's own parameters, if it has them; else check each value."

_CHARACTERS = 4_000
"""Characters of a text that are read: the words that make it SQL come earlier."""
_READ = 1_000_000
"""Characters of all texts that are read: four times the longest code that is reviewed."""
_DEPTH = 12
"""Names and levels of an expression that are followed: the bound keeps the cost linear."""
_HOLE = "\0"
"""Stands for a value in a text."""
_ORDERS = {
    "select": "from",
    "insert": "into",
    "replace": "into",
    "update": "set",
    "delete": "from",
    "with": "as",
    "merge": "into",
    "create": "table",
    "drop": "table",
    "alter": "table",
    "truncate": "table",
}
"""The word that SQL begins with, and the one that follows some time later."""
_BEGINS = re.compile(rf"[\s(]*({'|'.join(_ORDERS)})\b", re.IGNORECASE)
_SPOKEN = re.compile(rf"\b(?:{'|'.join(_ORDERS)})\b", re.IGNORECASE)
"""Without one of these words there is no SQL, and the tree need not be walked."""
_MARKS = re.compile(
    rf"[*=;]|['\"]{_HOLE}|\b(?:where|values|limit|order by|group by|join)\b.{{0,60}}?[\d({_HOLE}]",
    re.IGNORECASE | re.DOTALL,
)
"""Signs that prose beginning with `select` or `update` does not have."""
_FORMATTING = frozenset(("format", "format_map", "replace"))
_TRIMMING = frozenset(("strip", "lstrip", "rstrip", "dedent", "cleandoc", "lower", "upper"))
_NUMBERS = frozenset(("int", "float", "len", "bool"))


def assembled_sql(code: str, tree: ast.Module, tool_calls: Sequence[ast.Call]) -> list[ast.expr]:
    """The expressions in `code` that put SQL together for one of `tool_calls`."""
    return list(_Reading(tree, tool_calls).found()) if _SPOKEN.search(code) else []


class _Reading:
    """One tree: what its names are bound to, and which calls are of tools."""

    def __init__(self, tree: ast.Module, tool_calls: Sequence[ast.Call]) -> None:
        self._values: dict[str, list[ast.expr]] = {}
        """The expressions assigned to each name, in the order of the walk."""
        self._added: dict[str, list[ast.expr]] = {}
        """The expressions added to it by `+=`."""
        self._bound: dict[str, int] = {}
        """The number of times it is bound in any way."""
        self._calls = tool_calls
        self._seen: set[int] = set()
        self._names: set[str] = set()
        self._left = _READ
        self._constant: dict[int, bool] = {}
        for node in ast.walk(tree):
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                self._values.setdefault(name, []).append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._values.setdefault(name, []).append(value)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                self._added.setdefault(name, []).append(value)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                self._bound[name] = self._bound.get(name, 0) + 1

    def found(self) -> Iterator[ast.expr]:
        """The assembled SQL that reaches a tool."""
        waiting: list[ast.expr] = []
        for call in self._calls:
            waiting += [*call.args, *(word.value for word in call.keywords)]
        while waiting:
            node = waiting.pop()
            if id(node) in self._seen:
                continue
            self._seen.add(id(node))
            match node:
                case ast.Name(id=name) if name not in self._names:
                    self._names.add(name)
                    waiting += self._values.get(name, ())
                    yield from self._grown(name)
                case ast.Name():
                    pass
                case ast.Dict(values=inner) | ast.List(elts=inner) | ast.Tuple(elts=inner):
                    waiting += inner
                case ast.IfExp(body=one, orelse=other):
                    waiting += (one, other)
                case ast.Starred(value=inner) | ast.NamedExpr(value=inner) | ast.Await(value=inner):
                    waiting.append(inner)
                case _ if (trimmed := _trimmed(node)) is not None:
                    waiting.append(trimmed)
                case _ if self._is_assembled(node):
                    yield node

    def _grown(self, name: str) -> Iterator[ast.expr]:
        """The values added to a text that begins as SQL."""
        begins = any(_is_sql(self._text(value)) for value in self._values.get(name, ()))
        for added in self._added.get(name, ()) if begins else ():
            if not self._is_constant(added):
                yield added

    def _is_assembled(self, node: ast.expr) -> bool:
        text = self._text(node)
        return _HOLE in text and _is_sql(text)

    def _text(self, node: ast.expr) -> str:
        """The constant parts of a text, with a hole for each value; one hole for anything else."""
        text, has_hole = "", False
        for part in self._parts(node):
            self._left -= len(part) + 1
            if self._left < 0 or (has_hole and len(text) >= _CHARACTERS):
                break
            has_hole = has_hole or part == _HOLE
            text += part[: _CHARACTERS - len(text)]
        return text + _HOLE * has_hole

    def _parts(self, node: ast.expr) -> Iterator[str]:
        waiting, names = [node], 0
        while waiting:
            part = waiting.pop()
            match part:
                case ast.Constant(value=value):
                    yield value if isinstance(value, str) else ""
                case ast.JoinedStr(values=inner):
                    waiting += reversed(inner)
                case ast.FormattedValue(value=inner):
                    yield "0" if self._is_constant(inner) else _HOLE
                case ast.BinOp(left=left, op=ast.Add(), right=right):
                    waiting += (right, left)
                case ast.BinOp(left=left, op=ast.Mod(), right=right):
                    waiting += (ast.FormattedValue(value=right, conversion=-1), left)
                case ast.Call(func=ast.Attribute(value=left, attr=attr), args=args, keywords=words) if (
                    attr in _FORMATTING
                ):
                    given = [*args, *(word.value for word in words)]
                    waiting += (*(ast.FormattedValue(value=each, conversion=-1) for each in given), left)
                case ast.Name(id=name) if self._values.get(name) and names < _DEPTH:
                    names += 1  # a name may stand for itself: the bound ends that
                    waiting.append(self._values[name][0])
                case _ if (trimmed := _trimmed(part)) is not None:
                    waiting.append(trimmed)
                case _:
                    yield "0" if self._is_constant(part) else _HOLE

    def _is_constant(self, node: ast.expr, depth: int = 0) -> bool:
        """True if no text from outside can be in it: literals, numbers, and names and lists of such."""
        known = self._constant.get(id(node))
        if known is None:
            known = depth < _DEPTH and self._looks_constant(node, depth + 1)
            if depth < _DEPTH:
                self._constant[id(node)] = known
        return known

    def _looks_constant(self, node: ast.expr, depth: int) -> bool:
        match node:
            case ast.Constant():
                return True
            case ast.Name(id=name):
                values = self._values.get(name, ())
                return len(values) == self._bound.get(name, 0) == 1 and self._is_constant(values[0], depth)
            case ast.Call(func=ast.Name(id=name)):
                return name in _NUMBERS
            case ast.Call(func=ast.Attribute(value=joint, attr="join"), args=[joined]):
                return self._is_constant(joint, depth) and self._is_constant(joined, depth)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self._is_constant(left, depth) or self._is_constant(right, depth)
            case ast.BinOp(left=left, right=right):
                return self._is_constant(left, depth) and self._is_constant(right, depth)
            case ast.List(elts=inner) | ast.Tuple(elts=inner) | ast.JoinedStr(values=inner):
                return all(self._is_constant(each, depth) for each in inner)
            case ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner) | ast.FormattedValue(value=inner):
                return self._is_constant(inner, depth)
            case ast.IfExp(body=one, orelse=other):
                return self._is_constant(one, depth) and self._is_constant(other, depth)
        return False


def _trimmed(node: ast.expr) -> ast.expr | None:
    """The text that a call such as `text.strip()` or `dedent(text)` gives back."""
    match node:
        case ast.Call(func=ast.Attribute(attr=attr), args=[text]) if attr in _TRIMMING:
            return text
        case ast.Call(func=ast.Attribute(value=text, attr=attr), args=[]) if attr in _TRIMMING:
            return text
        case ast.Call(func=ast.Name(id=name), args=[text]) if name in _TRIMMING:
            return text
    return None


def _is_sql(text: str) -> bool:
    """True if a text begins as SQL does. Words in capitals are enough; others need a sign that prose has not."""
    begin = _BEGINS.match(text)
    if begin is None:
        return False
    second = re.compile(rf"\b{_ORDERS[begin[1].lower()]}\b", re.IGNORECASE).search(text, begin.end())
    if second is None:
        return False
    return (begin[1].isupper() and second[0].isupper()) or _MARKS.search(text, begin.end()) is not None
