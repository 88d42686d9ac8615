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
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self
from urllib.parse import urlsplit

from sealyard.config.settings import Machine, UpstreamEntry
from sealyard.values.tools import UpstreamConfig

_REFERENCE = re.compile(
    r"\$\{(?: (?P<env>env:)? (?P<name>[A-Za-z_]\w*) (?: :- (?P<default>[^}]*) )? | (?P<sign>/)"
    r" | input: (?P<input>[^:}]+) | (?P<kind>[A-Za-z_]\w*) : [^}]* )\}",
    re.ASCII | re.VERBOSE,
)
_DOTS = "…"
_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|credential|authoriz|cookie|api[-_]?key|[-_]key$|^key$|(^|[-_])(auth|pat|pwd)$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"""^(bearer|basic)\s+\S | \bbearer\s+\S{8} | \bgh[a-z]_\w{20} | \bgithub_pat_\w{20}
    | \bglpat-\w | \bsk-[\w-]{16} | \bxox[a-z]-\w | \bAKIA[0-9A-Z]{16} | \bAIza[\w-]{30} | \bnpm_\w{30}
    | \beyJ[\w-]{8,}\.[\w-]+\. | ://[^/\s:@]*:[^/\s@]+@ | -----BEGIN\ """,
    re.IGNORECASE | re.VERBOSE,
)
_PAIR = re.compile(
    r"""(?<![\w./@-]) (?P<name>[\w.-]+) [\\"']*
    (?= = [\\"']* (?P<word>[^\s&"']+) | : (?!//) \s* [\\"']* (?P<line>[^"']+) )""",
    re.VERBOSE,
)
"""A name and its value within an argument: an option, a variable, a part of a query, a header, a member of JSON."""
_HEADER_OPTION = re.compile(r"(?:-H|--?headers?)(?:=|\s)?\s*(?P<name>[\w-]+):(?!//)\s*(?=\S)")
_OPEN_NAMES = frozenset({"accept", "bearer_token_env_var", "content-type", "user-agent"})
_WHOLLY_SECRET = frozenset({"env", "environment", "envs", "headers", "http_headers", "auth"})
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


def map_texts(value: Any, change: Callable[[str, str], str], path: str = "") -> Any:
    """The same tables and lists with each text replaced by `change(text, path)`; the path names the keys on the way."""
    if isinstance(value, Mapping):
        return {key: map_texts(each, change, f"{path}.{key}".lstrip(".")) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [map_texts(each, change, path) for each in value]
    return change(value, path) if isinstance(value, str) else value


def has_reference(text: str) -> bool:
    """True if the text holds a reference that `expand` replaces or refuses."""
    return _REFERENCE.search(text) is not None


def name_of_input(identifier: str) -> str:
    """The variable in place of an input that VS Code asks for: `github-token` is `GITHUB_TOKEN`."""
    name = re.sub(r"[^A-Z0-9]+", "_", identifier.upper()).strip("_")
    return f"INPUT_{name}" if name[:1].isdigit() or not name else name


def expand(text: str, machine: Machine) -> str:
    """The text with its references replaced; hidden if one of them is a variable.

    Raises:
        Unresolved: A variable is not set, a default holds a brace, or sealyard does not know the kind of reference.
    """
    value, shown, hidden, done = "", "", False, 0
    places = _places(machine)
    for reference in _REFERENCE.finditer(text):
        plain = text[done : reference.start()]
        done = reference.end()
        place = places.get(reference[0][2:-1])
        if place is not None:
            value += plain + place
            shown += plain + place
        else:
            name, found = _look_up(reference, machine)
            value += plain + found
            shown += f"{plain}${{{name}}}"
            hidden = True
    value += text[done:]
    return Hidden(value, shown + text[done:]) if hidden else value


def _places(machine: Machine) -> dict[str, str]:
    """The values of the references that stand for a place or a sign."""
    return {
        "workspaceFolder": str(machine.directory),
        "workspaceFolderBasename": machine.directory.name,
        "userHome": str(machine.home),
        "pathSeparator": os.sep,
        "/": os.sep,
    }


def _look_up(reference: re.Match[str], machine: Machine) -> tuple[str, str]:
    """The name and the value of the variable that a reference stands for."""
    if reference["kind"]:
        raise Unresolved(f"${{{reference['kind']}:…}} is a reference that sealyard does not know")
    name = name_of_input(reference["input"]) if reference["input"] else reference["name"]
    default = reference["default"]
    if default is not None and "{" in default:
        raise Unresolved(f"the default of ${{{name}}} holds a brace, such as that of another reference")
    value = machine.environ.get(name)
    if value or (value is not None and default is None):
        return name, value
    if default is None:
        raise Unresolved(f"the variable {name} is not set")
    return name, default


def _literals(text: str) -> list[str]:
    """The text; in place of one with references, their defaults."""
    defaults = [reference["default"] or "" for reference in _REFERENCE.finditer(text)]
    return defaults or [text]


def describe_upstream(config: UpstreamConfig | UpstreamEntry) -> str:
    """The command or address of a server in one line, without values of its environment or headers."""
    if config.module is not None:
        return f"functions of {config.module}"
    if config.command is not None:
        arguments = " ".join(shlex.quote(each) if _DOTS not in each else each for each in hide_arguments(config.args))
        how = f"{shlex.quote(*hide_arguments((config.command,)))} {arguments}".rstrip()
        named = ("env", list(config.env))
    else:
        how = _hide_in_url(_show(config.url or ""))
        named = ("headers", list(config.headers) + ["Authorization"] * (config.bearer_token is not None))
    return f"{how} ({named[0]}: {', '.join(named[1])})" if named[1] else how


def looks_secret(name: str, value: str) -> bool:
    """True if a literal value under this name looks like a secret, by its name or its form.

    A default in a reference is a literal value too.
    """
    by_name = _SECRET_NAME.search(name) is not None
    return any(
        (by_name and literal != "" and literal.lower() not in ("true", "false") and not literal.isdigit())
        or _SECRET_VALUE.search(literal) is not None
        for literal in _literals(value)
    )


def hide_arguments(arguments: Iterable[str], *, with_headers: bool = True) -> list[str]:
    """The arguments with dots for secrets: alone, after a `--name`, or as `name=value` or `Name: value` in one.

    With headers, the value of every header is hidden, whatever its name, as in a server's `headers`.
    """
    hidden, flag = [], ""
    for argument in map(_show, arguments):
        option = argument if flag == "" else f"{flag}={argument}"
        header = _HEADER_OPTION.match(option) if with_headers else None
        if header and not has_reference(option) and header["name"].lower() not in _OPEN_NAMES:
            hidden.append(argument[: len(header[0]) - len(option)] + _DOTS)
        else:
            hidden.append(_hide_argument(argument, flag))
        flag = argument if argument.startswith("-") and "=" not in argument else ""
    return hidden


def _hide_argument(argument: str, flag: str) -> str:
    """The argument with dots for a secret and for everything after it."""
    if not argument.startswith("-") and _SECRET_NAME.search(flag) and looks_secret(flag, argument):
        return _DOTS
    for pair in _PAIR.finditer(argument):
        part = "line" if pair["word"] is None else "word"
        if looks_secret(pair["name"], pair[part]):
            return argument[: pair.start(part)] + _DOTS
    return _DOTS if looks_secret("", argument) else argument


def find_literals(entry: UpstreamEntry) -> Iterator[str]:
    """The keys of literal secrets in the entry, never their values."""
    yield from (f"env.{name}" for name, value in entry.env.items() if looks_secret(name, value))
    yield from (f"headers.{name}" for name, value in entry.headers.items() if looks_secret(name, value))
    if entry.bearer_token and looks_secret("token", entry.bearer_token):
        yield "bearer_token"
    if list(entry.args) != hide_arguments(entry.args, with_headers=False):
        yield "args"
    if entry.url and entry.url != _hide_in_url(entry.url):
        yield "url"


def diff(
    old: str,
    new: str,
    name: str,
    *,
    values: Iterable[Any],
    mask: Callable[[str, list[str]], str] = lambda text, _: text,
) -> str:
    """The unified diff of two texts, with dots for the secrets in the parsed `values` of both.

    `mask` hides those that the format of the texts spells in a way of its own.
    """
    secrets = sorted({secret for value in values for secret in _secrets(value)}, key=len, reverse=True)
    old, new = _hide(mask(old, secrets), secrets), _hide(mask(new, secrets), secrets)
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _show(text: str) -> str:
    return text.shown if isinstance(text, Hidden) else text


def _hide_in_url(url: str) -> str:
    """The URL without its user, the values of its query, its fragment, and what looks like a key in its path."""
    parts = urlsplit(url)
    query = re.sub(r"=([^&]*)", lambda match: match[0] if _is_reference(match[1]) else f"={_DOTS}", parts.query)
    path = re.sub(r"[^/]+", lambda match: _DOTS if looks_secret("", match[0]) else match[0], parts.path)
    host = parts.netloc.rpartition("@")
    netloc = f"{_DOTS}@{host[2]}" if host[1] and not _is_reference(host[0]) else parts.netloc
    fragment = parts.fragment if _is_reference(parts.fragment) else _DOTS
    return parts._replace(netloc=netloc, path=path, query=query, fragment=fragment).geturl()


def _is_reference(text: str) -> bool:
    """True if references are all that the text may hide: they have no defaults."""
    return not any(_literals(text))


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
    elif isinstance(value, str) and name.lower() not in _OPEN_NAMES:
        in_url = name.lower().endswith("url") and value != _hide_in_url(value)
        if looks_secret(name, value) or ((wholly or in_url) and not has_reference(value)):
            yield from filter(None, _literals(value))


def _hide(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        for spelled in {json.dumps(secret), json.dumps(secret, ensure_ascii=False)}:
            for quoted in (spelled, spelled.replace("/", "\\/")):
                text = text.replace(quoted, f'"{_DOTS}"')
                if len(secret) >= 6:  # a shorter one, such as a port, occurs in other words too
                    text = text.replace(quoted[1:-1], _DOTS)
        text = text.replace(f"'{secret}'", f"'{_DOTS}'")
    return text
