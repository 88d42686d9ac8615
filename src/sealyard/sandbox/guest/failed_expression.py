"""The place in the agent's code where an exception arose: the expression, what its names stand for, names like them.

Nothing is run to find a value: only plain dicts, lists and modules are looked into. Standard library only.
"""

import ast
import builtins
import difflib
import itertools
import re
import types
from collections.abc import Iterable
from typing import Any

UNKNOWN = object()
"""Marks a value that cannot be found."""

_KEYS_NAMED = 12  # named in a hint: most objects of tools have fewer, and a hint stays one line
_KEYS_READ = 200  # of a dict, which may be huge: a record has fewer
_SEGMENT_BYTES = 4_000  # of an expression that is parsed again: longer ones are data, not one mistake
_SOURCE_BYTES = 64 << 10  # of code that is parsed again: a few milliseconds
_STEPS = 12  # of attribute and item access followed in one expression: written code has fewer
_FIELD_CHARACTERS = 40  # of a key that is shown: longer ones are data
_NAME_CHARACTERS = 80  # of a name that is compared with others, which costs the product of both lengths
# A key that begins with a capital letter may be the name of a person.
_FIELD = re.compile(r"[@$]?[a-z_][\w$]*(?:-[\w$]+)*")
_DATA = re.compile(r"\d{4}|^(?=[a-fA-F_-]*\d)[0-9a-fA-F_-]{8,}$|(?i:__PII_)")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Place:
    """The place of a failure in the agent's code: the expression that failed, and the names around it."""

    def __init__(self, frame: types.FrameType | None, position: Any, source: list[str]) -> None:
        self._frame = frame
        self._source = source
        self.node = _node(position, source)

    def value(self, node: ast.AST | None, steps: int = _STEPS) -> Any:
        """The value of an expression, found without running anything; `UNKNOWN` if that fails."""
        if self._frame is None or not steps:
            return UNKNOWN
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                for names in (self._frame.f_locals, self._frame.f_globals, vars(builtins)):
                    if node.id in names:
                        return names[node.id]
            case ast.Subscript():
                return _item(self.value(node.value, steps - 1), self.value(node.slice, steps - 1))
            case ast.Attribute():
                owner = self.value(node.value, steps - 1)
                return vars(owner).get(node.attr, UNKNOWN) if isinstance(owner, types.ModuleType) else UNKNOWN
            case ast.Await():
                return self.value(node.value, steps - 1)
        return UNKNOWN

    def owner(self) -> Any:
        """The object that was subscripted, called or asked for an attribute."""
        match self.node:
            case ast.Subscript() | ast.Attribute():
                return self.value(self.node.value)
            case ast.Call(func=ast.Attribute() as function):
                return self.value(function.value)
        return UNKNOWN

    def looped_dict(self, names: Iterable[str] = ()) -> dict[Any, Any] | None:
        """The dict that a loop around here goes over itself, for these names if any are given."""
        wanted = set(names)
        for node in ast.walk(_tree("".join(self._source))):
            if isinstance(node, ast.For | ast.comprehension):
                targets = {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
                looped = self.value(node.iter) if not wanted or targets & wanted else UNKNOWN
                if type(looped) is dict:
                    return looped
        return None

    def names(self) -> list[str]:
        """Every name that code could have meant here."""
        around = {} if self._frame is None else {**self._frame.f_globals, **self._frame.f_locals}
        return [name for name in (*around, *vars(builtins)) if not name.startswith("_")]


def place_of(frame: types.FrameType | None, lasti: int, source: list[str]) -> Place:
    """The place of a frame's instruction in its source."""
    position = None
    if frame is not None and lasti >= 0:
        position = next(itertools.islice(frame.f_code.co_positions(), lasti // 2, None), None)
    return Place(frame, position, source)


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name most like `name`: the same letters, then a similar spelling, then a word in common."""
    names = {_squeezed(each): each for each in reversed(list(known)[:_KEYS_READ])}
    squeezed = _squeezed(name[:_NAME_CHARACTERS])
    if squeezed in names:
        return names[squeezed]
    close = difflib.get_close_matches(squeezed, list(names), n=1, cutoff=cutoff)
    if close:
        return names[close[0]]
    words = {word.lower() for word in _WORD.findall(name[:_NAME_CHARACTERS])}
    shared = [each for each in names.values() if words & {word.lower() for word in _WORD.findall(each)}]
    return shared[0] if len(shared) == 1 else None


def _squeezed(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


def fields(value: Any) -> list[str]:
    """The keys of a dict, or the columns of a table, that look like names of fields."""
    if type(value) is dict:
        keys = list(itertools.islice(value, _KEYS_READ))
    elif type(value).__name__ == "DataFrame" and type(value).__module__.startswith("pandas"):
        keys = list(value.columns[:_KEYS_READ])
    else:
        return []
    return [key for key in keys if type(key) is str and is_field_name(key)]


def is_field_name(key: str) -> bool:
    """True if a key looks like the name of a field, and not like data."""
    return len(key) <= _FIELD_CHARACTERS and _FIELD.fullmatch(key) is not None and _DATA.search(key) is None


def listed(keys: list[str], subject: str = "It has") -> str:
    """A sentence that names the keys; nothing if there are none."""
    return f"{subject} the keys {joined(keys)}." if keys else ""


def joined(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f", and {len(names) - _KEYS_NAMED} more" if len(names) > _KEYS_NAMED else ""
    return ", ".join(names[:_KEYS_NAMED]) + more


def _item(owner: Any, key: Any) -> Any:
    try:
        return owner[key] if type(owner) in (dict, list, tuple) and type(key) in (str, int) else UNKNOWN
    except (KeyError, IndexError):
        return UNKNOWN


def _node(position: Any, source: list[str]) -> ast.AST | None:
    """The expression at a position, parsed from its text."""
    if position is None or None in position:
        return None
    first, last, start, end = position
    lines = [line.encode() for line in source[first - 1 : last]]
    if not lines:
        return None
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    text = b"".join(lines)
    if len(text) > _SEGMENT_BYTES:
        return None
    try:
        return ast.parse(f"({text.decode()})", mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _tree(source: str) -> ast.AST:
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree: ast.AST = compile(source[:_SOURCE_BYTES], "<agent>", "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])
    return tree
