"""What an expression may stand for, as far as a migration has to know: tools, their answers, own containers, texts.

A value is a set of atoms, one for each thing that an expression may be. `OTHER` among them: something nobody knows.
Nodes of the syntax tree are told apart by identity, so that an atom can say where it comes from.
"""

import libcst as cst
import msgspec

from sealyard.versioning.steps import Plan, RenameField, split_path

ITEM = "[]"
"""In a path: an item of a list."""
_ANY_KEY = "{}"


class Plain(msgspec.Struct, frozen=True):
    """A thing without parts that matter, by its sort."""

    sort: str


OTHER = Plain("other")
"""Anything at all, but no tool that changed and nothing that it answered."""
NONE = Plain("none")
SCALAR = Plain("scalar")
"""A number or a truth value."""
PLAIN = Plain("text")
"""A literal text that is no name of anything that changed."""


class Text(msgspec.Struct, frozen=True):
    """A literal text that may be a name of something that changed."""

    node: cst.BaseExpression
    text: str


class Library(msgspec.Struct, frozen=True):
    """Something imported or built in, by its dotted name: `builtins.sorted`, `asyncio.gather`."""

    name: str


class Instance(msgspec.Struct, frozen=True):
    """What a class of a library made: `concurrent.futures.ThreadPoolExecutor`."""

    name: str


class Package(msgspec.Struct, frozen=True):
    """`servers`, or a module in it."""

    parts: tuple[str, ...]


class Tool(msgspec.Struct, frozen=True):
    """The function of a tool that has a plan, by the number of that plan."""

    plan: int


class Answer(msgspec.Struct, frozen=True):
    """A part of what a tool answered in which something has another name now."""

    plan: int
    path: tuple[str, ...]


class Site(msgspec.Struct, frozen=True):
    """A container, by the place that makes it. One place may make several, one in another."""

    node: cst.CSTNode
    level: int = 0


class Local(msgspec.Struct, frozen=True):
    """A function that the code defines."""

    node: cst.FunctionDef | cst.Lambda


class Partial(msgspec.Struct, frozen=True):
    """What this call of `functools.partial` made."""

    node: cst.Call


class Getter(msgspec.Struct, frozen=True):
    """What this call of `operator.itemgetter` made."""

    node: cst.Call


Atom = Plain | Text | Library | Instance | Package | Tool | Answer | Site | Local | Partial | Getter
Value = frozenset[Atom]
NOTHING: Value = frozenset()


class Shape:
    """Where in a tool's answer something changed: a tree of the old names that lead there."""

    __slots__ = ("after", "blocked", "inside")

    def __init__(self) -> None:
        self.inside: dict[str, Shape] = {}
        self.after: str | None = None
        """The new name of the field that leads here."""
        self.blocked: str | None = None
        """Why code that reads this cannot be migrated."""

    def at(self, path: tuple[str, ...]) -> "Shape | None":
        """The part at `path`; None if nothing changed there or below."""
        found: Shape | None = self
        for step in path:
            found = found.step(step) if found is not None else None
        return found

    def step(self, key: str) -> "Shape | None":
        """What one key, or an index, leads to."""
        return self.inside.get(key) or (self.inside.get(_ANY_KEY) if key != ITEM else None)

    @property
    def is_list(self) -> bool:
        """Whether items were named."""
        return ITEM in self.inside

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields that lead to something changed."""
        return tuple(key for key in self.inside if key != ITEM)


def shapes_of(plan: Plan) -> Shape:
    """The changes of a plan's answer as a tree."""
    root = Shape()
    changes: list[tuple[str, str | None, str | None]]
    changes = [(step.path, step.after, None) for step in plan.steps if isinstance(step, RenameField)]
    changes += [(each.field, None, each.reason) for each in plan.obstacles if each.side == "output"]
    for path, after, blocked in changes:
        place = root
        for step in split_path(path):
            place = place.inside.setdefault(step, Shape())
        place.after = after or place.after
        place.blocked = blocked or place.blocked
    return root
