"""References in a configuration, such as `${TOKEN}`, and text that must not be shown.

`${X}`, `${env:X}` and `${input:x}` stand for a variable, `${X:-text}` for `text` when it is unset or empty, and
`${workspaceFolder}`, `${workspaceFolderBasename}`, `${userHome}` and `${pathSeparator}` for what their names say. `$X`
is left as it is, and what a reference stands for is not read again.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import msgspec

_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_INPUT = re.compile(r"input:([^:]+)")
_SPECIAL = re.compile(r"([A-Za-z_]\w*):", re.ASCII)
_NESTING = 20


class Unresolved(Exception):
    """A reference stands for nothing here; the message says which and why, and holds no value."""


class Hidden(str):
    """Text for programs, not for people: its `repr` is what the configuration says, or a mere `…`.

    `msgspec` refuses to encode it, so that it cannot get into a record or an answer by accident.
    """

    shown: str

    def __new__(cls, value: str, shown: str = "…") -> Self:
        """Hide `value` behind `shown`."""
        text = super().__new__(cls, value)
        text.shown = shown
        return text

    def __repr__(self) -> str:
        return repr(self.shown)


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What references stand for."""

    variables: Mapping[str, str]
    folder: Path
    home: Path

    def __repr__(self) -> str:
        return f"Scope(folder={self.folder!r}, home={self.home!r})"

    def find_place(self, name: str) -> str | None:
        """What `${workspaceFolder}` and its like stand for."""
        return {
            "workspaceFolder": str(self.folder),
            "workspaceFolderBasename": self.folder.name,
            "userHome": str(self.home),
            "pathSeparator": os.sep,
            "/": os.sep,
        }.get(name)


def has_reference(text: str) -> bool:
    """Whether the text holds something that `expand` would replace or refuse."""
    return any(_VARIABLE.fullmatch(body) or _SPECIAL.match(body) for body in _parts(text)[1::2])


def name_of_input(identifier: str) -> str:
    """The variable that stands for an input which VS Code would ask for: `github-token` is `GITHUB_TOKEN`."""
    name = re.sub(r"[^A-Z0-9]+", "_", identifier.upper()).strip("_")
    return f"INPUT_{name}" if name[:1].isdigit() or not name else name


def expand(text: str, scope: Scope) -> str:
    """The text with its references replaced; hidden if one of them stood for a variable.

    Raises:
        Unresolved: A variable is not set, or the reference is of a kind that sealyard does not know.
    """
    return _expand(text, scope, _NESTING)


def _expand(text: str, scope: Scope, nesting: int) -> str:
    value, shown, hidden = "", "", False
    parts = iter(_parts(text))
    for plain in parts:
        value += plain
        shown += plain
        body = next(parts, None)
        if body is None:
            break
        place = scope.find_place(body)
        variable = _INPUT.fullmatch(body) or _VARIABLE.fullmatch(body)
        if place is not None:
            value += place
            shown += place
        elif variable is not None:
            name = variable[1] if variable.re is _VARIABLE else name_of_input(variable[1])
            default = variable[2] if variable.re is _VARIABLE else None
            value += _look_up(name, default, scope, nesting)
            shown += f"${{{name}}}"
            hidden = True
        elif special := _SPECIAL.match(body):
            raise Unresolved(f"${{{special[1]}:…}} is a reference that sealyard does not know")
        else:
            value += f"${{{body}}}"
            shown += f"${{{body}}}"
    return Hidden(value, shown) if hidden else value


def _look_up(name: str, default: str | None, scope: Scope, nesting: int) -> str:
    value = scope.variables.get(name)
    if value or (value is not None and default is None):
        return value
    if default is None:
        raise Unresolved(f"the variable {name} is not set")
    if nesting == 0:
        raise Unresolved(f"the default of ${{{name}}} holds references more than {_NESTING} deep")
    return _expand(default, scope, nesting - 1)


def _parts(text: str) -> list[str]:
    """Plain text and the bodies of `${…}` in turn, plain text first and last."""
    return list(_split(text))


def _split(text: str) -> Iterator[str]:
    done = 0
    while (start := text.find("${", done)) >= 0:
        end = _find_closing(text, start + 2)
        if end is None:
            break
        yield text[done:start]
        yield text[start + 2 : end]
        done = end + 1
    yield text[done:]


def _find_closing(text: str, start: int) -> int | None:
    """Where the brace that was opened before `start` is closed. A default may hold braces of its own."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return start + brace.start()
    return None
