"""Rewrites single arguments: their names and, where a parameter takes another type, what is given."""

import ast
import keyword
from collections.abc import Callable, Sequence
from typing import Any

import libcst as cst

from sealyard.versioning.migrate.flow import Flow
from sealyard.versioning.migrate.scopes import parts_of
from sealyard.versioning.migrate.signature import Retype, Rules
from sealyard.versioning.migrate.text import Sources
from sealyard.versioning.migrate.values import NOTHING, PLAIN, SCALAR, Text, Value
from sealyard.versioning.steps import Untranslatable, convert

_NEVER_NONE = frozenset("str int float bool len round abs repr format sum".split())
_WHOLE = frozenset("int len ord id hash".split())
_HARMLESS = _NEVER_NONE | frozenset("list tuple dict set sorted min max range".split())
_ACTS = (cst.Await, cst.NamedExpr, cst.Yield)
_COLLECTIONS = (cst.List, cst.Tuple, cst.Set, cst.Dict, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


class Conversion:
    """The arguments of one piece of code, rewritten into `sources`."""

    def __init__(self, flow: Flow, sources: Sources, refuse: Callable[[cst.CSTNode, str], None]) -> None:
        self.flow = flow
        self.sources = sources
        self.refuse = refuse

    # Names

    def rename(self, node: cst.BaseExpression, after: str) -> None:
        """Give an argument another name: a keyword, or a literal that is a key."""
        if isinstance(node, cst.Name):
            self.check_name(node, after)
            self.sources.replace_node(node, after)
            return
        like = node.quote[0] if isinstance(node, cst.SimpleString) else '"'
        text = self.sources.quoted(after, self.sources.span(node)[0], like)
        if text is None:
            self.refuse(node, f"`{after}` cannot be written here")
        else:
            self.sources.replace_node(node, text)

    def check_name(self, node: cst.CSTNode, name: str) -> None:
        """Refuse a name that is none in Python."""
        if not name.isidentifier() or keyword.iskeyword(name):
            self.refuse(node, f"`{name}` is no name that Python code can give an argument by")

    def drop(self, parts: Sequence[Any], number: int, value: cst.BaseExpression, name: str) -> None:
        """Take an argument out, if nobody notices that it is not evaluated."""
        if self.is_idle(value):
            self.sources.remove(parts, number)
        else:
            reason = f"the parameter `{name}` is gone, and what it was given does something when it is evaluated"
            self.refuse(value, reason)

    def is_idle(self, node: cst.CSTNode) -> bool:
        """Whether nobody notices when an expression is not evaluated."""
        if isinstance(node, _ACTS) or (isinstance(node, cst.Call) and self._called(node) not in _HARMLESS):
            return False
        return isinstance(node, cst.Lambda) or all(self.is_idle(child) for child in parts_of(node))

    # Values

    def passes(self, node: cst.BaseExpression, name: str, rules: Rules, held: Value = NOTHING) -> bool:
        """Whether what is given is known, and the new tool takes it as it is."""
        found, value = _literal(self.sources.text(node))
        if found:
            return rules.passes(name, [value])
        texts = [atom.text for atom in held if isinstance(atom, Text)]
        return len(texts) == len(held) and rules.passes(name, texts)

    def retype(self, node: cst.BaseExpression, retype: Retype, name: str, held: Value = NOTHING) -> None:
        """Convert what is given for a parameter; `held` is what it may stand for."""
        found, value = _literal(self.sources.text(node))
        if found and not isinstance(value, list | dict | tuple | set | bytes):
            self._retype_literal(node, retype, name, value)
            return
        if retype.before == "number" and retype.to == "integer" and self._is_whole(node):
            return
        template = self.template(retype, node)
        if template is None or isinstance(node, _COLLECTIONS):
            self.refuse(node, f"`{name}` is {retype.to} now, and what it is given cannot be converted for certain")
            return
        before, after = template
        if not retype.may_be_none or self._is_something(node, held):
            self.sources.wrap(node, before, after)
        elif isinstance(node, cst.Name):
            self.sources.wrap(node, f"None if {node.value} is None else {before}", after)
        elif not _holds(node, _ACTS):
            self.sources.wrap(node, f"(lambda value: None if value is None else {before}value{after})(", ")")
        else:
            self.refuse(node, f"`{name}` is {retype.to} now, and what it is given may be `None`")

    def template(self, retype: Retype, node: cst.CSTNode) -> tuple[str, str] | None:
        """What goes before and after an expression at the place of `node` to convert it."""
        if (retype.before, retype.to, retype.words) != ("string", "boolean", True):
            template = retype.template
            hidden = template is not None and template[0].removesuffix("(") in self.flow.scopes.bindings
            return None if hidden else template
        text = self.sources.quoted("true", self.sources.span(node)[0])
        return None if text is None else ("(", f" == {text})")

    def _retype_literal(self, node: cst.BaseExpression, retype: Retype, name: str, value: Any) -> None:
        try:
            converted = convert(value, retype.to, name)
        except Untranslatable as error:
            self.refuse(node, str(error))
            return
        if converted == value and type(converted) is type(value):
            return
        text = self.sources.literal(converted, self.sources.span(node)[0])
        if text is None:
            self.refuse(node, f"the value of `{name}` cannot be written here")
        else:
            self.sources.replace_node(node, text)

    def _is_something(self, node: cst.BaseExpression, held: Value) -> bool:
        """Whether an expression is certainly not `None`."""
        match node:
            case cst.FormattedString() | cst.BinaryOperation() | cst.Comparison() | cst.UnaryOperation():
                return True
            case cst.SimpleString() | cst.ConcatenatedString() | cst.Integer() | cst.Float():
                return True
            case cst.Call() if self._called(node) in _NEVER_NONE:
                return True
            case cst.IfExp():
                return self._is_something(node.body, NOTHING) and self._is_something(node.orelse, NOTHING)
            case cst.BooleanOperation(operator=cst.Or()):
                return self._is_something(node.right, NOTHING)
        return bool(held) and all(isinstance(atom, Text) or atom in (PLAIN, SCALAR) for atom in held)

    def _is_whole(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is certainly an integer."""
        match node:
            case cst.Integer():
                return True
            case cst.BinaryOperation(operator=cst.Add() | cst.Subtract() | cst.Multiply()):
                return self._is_whole(node.left) and self._is_whole(node.right)
            case cst.Call():
                return self._called(node) in _WHOLE
        return False

    def _called(self, node: cst.Call) -> str | None:
        """The built-in function that is called, by its name."""
        if isinstance(node.func, cst.Name) and node.func not in self.flow.scopes.of:
            return node.func.value
        return None


def literal_text(node: cst.BaseExpression | None) -> str | None:
    """The text that a literal is."""
    if isinstance(node, cst.SimpleString | cst.ConcatenatedString) and isinstance(node.evaluated_value, str):
        return node.evaluated_value
    return None


def _literal(text: str) -> tuple[bool, Any]:
    """Whether an expression is a literal, and its value."""
    try:
        return True, ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return False, None


def _holds(node: cst.CSTNode, kinds: tuple[type, ...]) -> bool:
    return isinstance(node, kinds) or any(_holds(child, kinds) for child in parts_of(node))
