"""The tools and skills that a piece of code uses, as far as its text proves it.

An import of a tool counts as a use. What cannot be known, such as `call_tool(name)`, is reported with its line, never
guessed: a check of compatibility sees only the dependencies found here.
"""

import ast
from typing import NamedTuple

import msgspec

from sealyard.code.names import Names, Scope

_UNKNOWN_KEPT = 50  # a bound: hostile code could have one on each line
_SHOWN_CHARACTERS = 80  # of a name in a reason: it stays on one line
_CALLERS = frozenset(("builtins.call_tool", "servers.call_tool", "tool_discovery.call_tool"))
_LOADERS = frozenset(("skills.load",))
_NO_SKILLS = frozenset(("SkillInputError",))
"""Names in `skills` that are not skills."""
_IMPORTERS = frozenset(("builtins.__import__", "importlib.import_module"))
_EVALUATORS = frozenset(("builtins.eval", "builtins.exec"))
_HARMLESS = frozenset(f"builtins.{name}" for name in ("dir", "hasattr", "help", "id", "print", "repr", "str", "type"))
"""Functions that only look at their arguments."""
_OPEN = frozenset(("__dict__", "__getattr__", "__getattribute__"))
"""Attributes of a module through which everything in it is reached."""


class Ref(msgspec.Struct, frozen=True):
    """A tool or a skill as code names it."""

    name: str
    """Of a tool `servers.<module>.<function>`, or what `call_tool` gets."""
    pin: str | None = None
    """`1.2` in `skills.load("x@1.2")`."""
    lines: tuple[int, ...] = ()
    """The import and each use, in order."""


class Unknown(NamedTuple):
    """A place where the code may use what its text does not name."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"Line {self.line}: {self.reason}"


_Lines = dict[tuple[str, str | None], set[int]]
"""The lines of each name with its pin."""


class Uses(msgspec.Struct, frozen=True, kw_only=True):
    """The tools and skills of one piece of code, in the order of the text."""

    tools: tuple[Ref, ...] = ()
    skills: tuple[Ref, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    """At most 50."""


def find_uses(names: Names) -> Uses:
    """The tools and skills that the code with these names uses."""
    finder = _Finder(names)
    for node, place in names.noted:
        finder.visit(node, place.scope)
    return finder.uses()


class _Finder:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._passed = names.owners | names.rebound
        """Nodes that another node covers."""
        self._tools: _Lines = {}
        self._skills: _Lines = {}
        self._unknown: dict[tuple[int, str], None] = {}

    def uses(self) -> Uses:
        unknown = sorted(self._unknown)[:_UNKNOWN_KEPT]
        return Uses(
            tools=_in_order(self._tools),
            skills=_in_order(self._skills),
            unknown=tuple(Unknown(line, reason) for line, reason in unknown),
        )

    def visit(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.Import():
                for alias in node.names:
                    self._visit_dotted(alias.name, node.lineno, is_import=True)
            case ast.ImportFrom() if node.module is not None and not node.level:
                for alias in node.names:
                    self._visit_from(node.module, alias.name, node.lineno)
            case ast.Call():
                self._visit_call(node, scope)
            case ast.Attribute() | ast.Name() if id(node) not in self._passed:
                self._visit_value(node, scope)

    def _visit_from(self, module: str, name: str, line: int) -> None:
        if name != "*":
            self._visit_dotted(f"{module}.{name}", line, is_import=True)
        elif module.partition(".")[0] in ("servers", "skills"):
            self._say(line, f"`from {module} import *` does not say what it imports.")

    def _visit_value(self, node: ast.Attribute | ast.Name, scope: Scope) -> None:
        meanings = self._names.meanings(node, scope)
        known = sorted(each for each in meanings if each is not None and _concerns(each))
        # A name may stand for an imported tool or for none; but a part of what may be a server may be anything.
        if known and len(meanings) > 1 and not (isinstance(node, ast.Name) and all(map(_is_whole, known))):
            self._say(node.lineno, f"`{_shown(node)}` may stand for more than one thing.")
            return
        for dotted in known:
            self._visit_dotted(dotted, node.lineno)

    def _visit_dotted(self, dotted: str, line: int, *, is_import: bool = False) -> None:
        """A use of `servers.<module>.<function>` or `skills.<name>`, or of something on the way there."""
        if dotted in _CALLERS | _LOADERS:
            if not is_import:
                shown = dotted.removeprefix("builtins.")
                self._say(line, f"`{shown}` is passed on, so what it is called with is unknown.")
            return
        root, *parts = dotted.split(".")
        if root == "servers":
            if len(parts) > 1 and parts[1] in _OPEN:
                self._say(line, f"`{dotted}` reaches every tool of the server.")
            elif len(parts) > 1 and not parts[1].startswith("_"):
                self._tools.setdefault((f"servers.{parts[0]}.{parts[1]}", None), set()).add(line)
            elif len(parts) < 2 and not is_import and not (parts and parts[0].startswith("_")):
                self._say(line, f"`{dotted}` is passed on, so which tools are used of it is unknown.")
        elif root == "skills":
            if parts and not parts[0].startswith("_") and parts[0] not in _NO_SKILLS:
                self._skills.setdefault((parts[0], None), set()).add(line)
            elif not is_import and (not parts or parts[0] in _OPEN):
                self._say(line, "`skills` is passed on, so which skills are used is unknown.")

    # Calls

    def _visit_call(self, node: ast.Call, scope: Scope) -> None:
        meanings = self._names.meanings(node.func, scope)
        if not meanings.isdisjoint(_CALLERS):
            self._passed.add(id(node.func))
            self._visit_tool_call(node, scope)
        elif not meanings.isdisjoint(_LOADERS):
            self._passed.add(id(node.func))
            self._visit_load(node, scope)
        elif not meanings.isdisjoint(_IMPORTERS):
            self._visit_importer(node, scope)
        elif not meanings.isdisjoint(_EVALUATORS):
            self._say(node.lineno, f"`{_shown(node.func)}` runs text, and what that uses is unknown.")
        elif meanings == {"builtins.getattr"} and len(node.args) > 1:
            self._visit_getattr(node, scope)
        elif meanings <= _HARMLESS:
            self._passed.update(id(each) for each in node.args)

    def _visit_tool_call(self, node: ast.Call, scope: Scope) -> None:
        text = self._argument(node, scope, "name")
        if text is None:
            self._say(node.lineno, "`call_tool` is called with a name that the code does not spell out.")
        elif text != "search_tools":  # every run has it, and it is not a tool
            self._tools.setdefault((text, None), set()).add(node.lineno)

    def _visit_load(self, node: ast.Call, scope: Scope) -> None:
        text = self._argument(node, scope, "reference")
        if text is None:
            self._say(node.lineno, "`skills.load` is called with a name that the code does not spell out.")
        else:
            name, _, pin = text.partition("@")
            self._skills.setdefault((name, pin or None), set()).add(node.lineno)

    def _visit_importer(self, node: ast.Call, scope: Scope) -> None:
        module = self._names.imported(node, scope)
        if module is None:
            self._say(node.lineno, "A module is imported by a name that the code does not spell out.")
        elif _concerns(module):
            self._visit_dotted(module, node.lineno, is_import=id(node) in self._passed)

    def _visit_getattr(self, node: ast.Call, scope: Scope) -> None:
        owners = self._names.meanings(node.args[0], scope)
        known = [each for each in owners if each is not None and each.partition(".")[0] in ("servers", "skills")]
        if not known:
            return
        self._passed.add(id(node.args[0]))
        name = self._names.text(node.args[1], scope)
        for owner in known:
            if name is None:
                self._say(node.lineno, f"`getattr` takes a name of `{owner}` that the code does not spell out.")
            else:
                self._visit_dotted(f"{owner}.{name}", node.lineno)

    def _argument(self, node: ast.Call, scope: Scope, name: str) -> str | None:
        given = node.args[:1] or [word.value for word in node.keywords if word.arg == name]
        return self._names.text(given[0], scope) if given else None

    def _say(self, line: int, reason: str) -> None:
        self._unknown.setdefault((line, reason))


def _concerns(dotted: str) -> bool:
    return dotted in _CALLERS or dotted.partition(".")[0] in ("servers", "skills")


def _is_whole(dotted: str) -> bool:
    """True if a dotted name leads as far as a tool or a skill."""
    return dotted not in _CALLERS | _LOADERS and dotted.count(".") >= (2 if dotted.startswith("servers") else 1)


def _shown(node: ast.expr) -> str:
    """A name with its attributes, as the code spells it, shortened."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    root = node.id if isinstance(node, ast.Name) else "…"
    text = ".".join((root, *reversed(attributes)))
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


def _in_order(found: _Lines) -> tuple[Ref, ...]:
    refs = (Ref(name, pin, tuple(sorted(lines))) for (name, pin), lines in found.items())
    return tuple(sorted(refs, key=lambda ref: (ref.lines[0], ref.name, ref.pin or "")))
