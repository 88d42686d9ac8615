"""References in a configuration, such as `${TOKEN}`, and secrets, which are never shown.

`${X}`, `${env:X}` and `${input:x}` stand for a variable, `${X:-text}` for `text` when it is unset or empty, and
`${workspaceFolder}`, `${workspaceFolderBasename}`, `${userHome}` and `${pathSeparator}` for a place or a sign. `$X` is
left unchanged, and the value of a reference is not read again.
"""

import difflib
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from sealyard.config.settings import UpstreamEntry
from sealyard.values.tools import UpstreamConfig

_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_INPUT = re.compile(r"input:([^:]+)")
_SPECIAL = re.compile(r"([A-Za-z_]\w*):", re.ASCII)
_NESTING = 20  # of defaults within defaults: ends hostile recursion
_DOTS = "…"
_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|credential|authoriz|cookie|api[-_]?key|[-_]key$|^key$|(^|[-_])(auth|pat|pwd)$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"""^(bearer|basic)\s+\S | \bgh[a-z]_\w{20} | \bgithub_pat_\w{20} | \bglpat-\w | \bsk-[\w-]{16} | \bxox[a-z]-\w
    | \bAKIA[0-9A-Z]{16} | \bAIza[\w-]{30} | \bnpm_\w{30} | \beyJ[\w-]{8,}\.[\w-]+\.
    | ://[^/\s:@]*:[^/\s@]+@ | -----BEGIN\ """,
    re.IGNORECASE | re.VERBOSE,
)
_OPEN_NAMES = frozenset({"accept", "bearer_token_env_var", "content-type", "user-agent"})
_WHOLLY_SECRET = frozenset({"env", "headers", "http_headers", "auth"})
"""Every value in these is hidden, whatever its name."""


class Unresolved(Exception):
    """A reference cannot be resolved; the message names it and the reason, and holds no value."""


class Hidden(str):
    """A secret text: its `repr` is the reference in the configuration, or `…`.

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
    """The values of references."""

    variables: Mapping[str, str]
    folder: Path
    home: Path

    def __repr__(self) -> str:
        return f"Scope(folder={self.folder!r}, home={self.home!r})"

    def find_place(self, name: str) -> str | None:
        """The value of `${workspaceFolder}` and the like."""
        return {
            "workspaceFolder": str(self.folder),
            "workspaceFolderBasename": self.folder.name,
            "userHome": str(self.home),
            "pathSeparator": os.sep,
            "/": os.sep,
        }.get(name)


def has_reference(text: str) -> bool:
    """True if the text holds a reference that `expand` replaces or refuses."""
    return any(_VARIABLE.fullmatch(body) or _SPECIAL.match(body) for body in _parts(text)[1::2])


def name_of_input(identifier: str) -> str:
    """The variable in place of an input that VS Code asks for: `github-token` is `GITHUB_TOKEN`."""
    name = re.sub(r"[^A-Z0-9]+", "_", identifier.upper()).strip("_")
    return f"INPUT_{name}" if name[:1].isdigit() or not name else name


def expand(text: str, scope: Scope) -> str:
    """The text with its references replaced; hidden if one of them is a variable.

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
            is_input = variable.re is _INPUT
            name, default = (name_of_input(variable[1]), None) if is_input else (variable[1], variable[2])
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
    parts, done = [], 0
    while (start := text.find("${", done)) >= 0 and (end := _find_closing(text, start + 2)) is not None:
        parts += [text[done:start], text[start + 2 : end]]
        done = end + 1
    return [*parts, text[done:]]


def _find_closing(text: str, start: int) -> int | None:
    """The place of the brace that closes the one before `start`. A default may hold braces of its own."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return start + brace.start()
    return None


def describe_upstream(config: UpstreamConfig | UpstreamEntry) -> str:
    """The command or address of a server in one line, without values of its environment or headers."""
    if config.command is not None:
        arguments = " ".join(shlex.quote(each) if _DOTS not in each else each for each in hide_arguments(config.args))
        how = f"{shlex.quote(_show(config.command))} {arguments}".rstrip()
        named = ("env", list(config.env))
    else:
        how = _hide_in_url(_show(config.url or ""))
        named = ("headers", list(config.headers) + ["Authorization"] * (config.bearer_token is not None))
    return f"{how} ({named[0]}: {', '.join(named[1])})" if named[1] else how


def looks_secret(name: str, value: str) -> bool:
    """True if a literal value under this name looks like a secret, by its name or its form."""
    if not value or has_reference(value):
        return False
    by_name = _SECRET_NAME.search(name) is not None and value.lower() not in ("true", "false") and not value.isdigit()
    return by_name or _SECRET_VALUE.search(value) is not None


def hide_arguments(arguments: Iterable[str]) -> list[str]:
    """The arguments with dots for secrets: alone, in `--name=value`, or after a `--name`."""
    hidden, flag = [], ""
    for argument in map(_show, arguments):
        name, equals, value = argument.partition("=")
        if equals and looks_secret(name, value):
            hidden.append(f"{name}={_DOTS}")
        elif looks_secret(flag, argument) and not argument.startswith("-"):
            hidden.append(_DOTS)
        else:
            hidden.append(argument)
        flag = argument if argument.startswith("-") and not equals else ""
    return hidden


def find_literals(entry: UpstreamEntry) -> Iterator[str]:
    """The keys of literal secrets in the entry, never their values."""
    yield from (f"env.{name}" for name, value in entry.env.items() if looks_secret(name, value))
    yield from (f"headers.{name}" for name, value in entry.headers.items() if looks_secret(name, value))
    if entry.bearer_token and looks_secret("token", entry.bearer_token):
        yield "bearer_token"
    if list(entry.args) != hide_arguments(entry.args):
        yield "args"
    if entry.url and entry.url != _hide_in_url(entry.url):
        yield "url"


def diff(old: str, new: str, name: str, *, values: Iterable[Any]) -> str:
    """The unified diff of two texts, with dots for the secrets in the parsed `values` of both."""
    secrets = sorted({secret for value in values for secret in _secrets(value)}, key=len, reverse=True)
    old, new = _hide(old, secrets), _hide(new, secrets)
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _show(text: str) -> str:
    return text.shown if isinstance(text, Hidden) else text


def _hide_in_url(url: str) -> str:
    parts = urlsplit(url)
    query = re.sub(r"=([^&]*)", lambda match: match[0] if has_reference(match[1]) else f"={_DOTS}", parts.query)
    host = parts.netloc.rpartition("@")
    netloc = f"{_DOTS}@{host[2]}" if host[1] and not has_reference(host[0]) else parts.netloc
    return parts._replace(netloc=netloc, query=query).geturl()


def _secrets(value: Any, name: str = "", wholly: bool = False) -> Iterator[str]:
    """Every string in parsed JSON or TOML that should not be shown."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _secrets(each, key, wholly or key.lower() in _WHOLLY_SECRET)
    elif isinstance(value, list | tuple):
        texts = [each for each in value if isinstance(each, str)]
        for text, hidden in zip(texts, hide_arguments(texts), strict=True):
            if text != hidden:
                yield text[len(hidden) - len(_DOTS) :]
        for each in value:
            yield from _secrets(each, "", wholly)
    elif isinstance(value, str) and value and not has_reference(value) and name.lower() not in _OPEN_NAMES:
        in_url = name.lower().endswith("url") and value != _hide_in_url(value)
        if wholly or in_url or looks_secret(name, value):
            yield value


def _hide(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        for spelled in {json.dumps(secret), json.dumps(secret, ensure_ascii=False)}:
            for quoted in (spelled, spelled.replace("/", "\\/")):
                text = text.replace(quoted, f'"{_DOTS}"')
                if len(secret) >= 6:  # a shorter one, such as a port, occurs in other words too
                    text = text.replace(quoted[1:-1], _DOTS)
        text = text.replace(f"'{secret}'", f"'{_DOTS}'")
    return text
