"""References in a configuration, such as `${TOKEN}`, and secrets, which are never shown.

`${X}`, `${env:X}` and `${input:x}` stand for a variable, `${X:-text}` for `text` when it is unset or empty, and
`${workspaceFolder}`, `${workspaceFolderBasename}`, `${userHome}` and `${pathSeparator}` for a place or a sign. `$X` is
left unchanged, and the value of a reference is not read again.
"""

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
_BLANK = "\x1f"
"""Stands for each character of a reference where literal text is searched: no value holds it, and it is white space."""
_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|credential|authoriz|cookie|api[-_]?key|[-_]key$|^key$|(^|[-_])(auth|pat|pwd|pin)$",
    re.IGNORECASE,
)
_COUNT_NAME = re.compile(r"tokens|max|min|limit|count|size|length|ttl|expir|timeout|seconds|budget", re.IGNORECASE)
"""Names under which a number is a number, such as `--max-tokens`."""
# Arguments come from cloned projects and may be megabytes, so each pattern reads a text once: repetitions without a
# bound are possessive, and no two attempts begin in the same run of characters.
_SECRET_VALUE = re.compile(
    r"""^(?:bearer|basic)\s++\S | \b(?:bearer|basic)\s++\S{8} | \bgh[a-z]_\w{20} | \bgithub_pat_\w{20}
    | \bglpat-\w | \bsk-[\w-]{16} | \b[rs]k_(?:live|test)_\w{8} | \bxox[a-z]-\w | \bAKIA[0-9A-Z]{16} | \bAIza[\w-]{30}
    | \bhf_\w{20} | \bnpm_\w{30} | (?<![\w-])eyJ[\w-]{8,}+\.[\w-]{2} | -----BEGIN\ """,
    re.IGNORECASE | re.VERBOSE,
)
_PORT = re.compile(r"\d{1,5}[/?#]")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{0,30}://", re.IGNORECASE)
_PAIR = re.compile(r"""(?<![\w./@-])(?P<name>[\w.-]++)[\\"']*+[ \t]*+(?:=|(?P<colon>:)(?!//))[ \t\r\n]*+[\\"']*+""")
"""A name and the sign before its value: an option, a variable, a part of a query, a header, a member of JSON."""
_WORD = re.compile(r"""[^ \t\r\n&"']*+""")
_LINE = re.compile(r"""[^"']*+""")
_SCHEME = re.compile(r"(?:bearer|basic|token)\s", re.IGNORECASE)
_OPTION = re.compile(
    r"""(?: (?:-H|--?headers?[=\s])=?+\s*+(?P<header>[\w-]++):(?!//)\s*+ | (?:-e|--env[=\s])=?+\s*+\w++=
    | (?:-u|--user[=\s])=?+\s*+[^\s:=]++:(?!\d++$) )(?=\S)""",
    re.VERBOSE,
)
"""An option with a header, a variable or a user, up to its value; numbers are ids of a user and a group."""
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
    for reference in _references(text):
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


def _references(text: str) -> Iterator[re.Match[str]]:
    # One that no brace closes would be searched to the end of the text from each of its beginnings.
    return _REFERENCE.finditer(text, 0, text.rfind("}") + 1)


def _literal(text: str) -> str:
    """The text with `_BLANK` in place of references, character by character. Their defaults stay: they are literal."""
    parts, done = [], 0
    for reference in _references(text):
        start, end = reference.span("default")
        if start < 0:
            start = end = reference.end()
        parts += [text[done : reference.start()], _BLANK * (start - reference.start()), text[start:end]]
        parts.append(_BLANK * (reference.end() - end))
        done = reference.end()
    return "".join((*parts, text[done:]))


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
    """True if literal text under this name looks like a secret, by its name or its form.

    Text beside a reference and a default in one are literal too.
    """
    literal = _literal(value)
    return _is_secret(name, literal) or _find_secret(literal) is not None


def _is_secret(name: str, literal: str) -> bool:
    """True if the name says that the value is secret, and it is more than a reference, a switch or a count."""
    if _SECRET_NAME.search(name) is None or not _is_literal(literal):
        return False
    return not (literal.isdigit() and _COUNT_NAME.search(name))


def _is_literal(literal: str) -> bool:
    """True if there is text beside references, other than a switch or the word for the kind of a token."""
    rest = _SCHEME.sub("", literal, count=1).strip()
    return rest not in ("", _DOTS) and rest.lower() not in ("true", "false")


def _find_secret(literal: str) -> int | None:
    """Where the first text begins that has the form of a secret."""
    by_form = _SECRET_VALUE.search(literal)
    found = [by_form.start()] if by_form else []
    return min((*found, *_find_user(literal)), default=None)


def _find_user(literal: str) -> Iterator[int]:
    """The places of users in addresses: with a password, or over HTTP, where a name alone is a token."""
    done = 0
    while (at := literal.find("@", done)) >= 0:
        scheme, done = literal.rfind("://", done, at), at + 1
        if scheme < 0 or re.search(r"[ \t\r\n]", literal[scheme:at]):
            continue
        user, colon, password = literal[scheme + 3 : at].partition(":")
        if re.search(r"[/?#]", user) or (colon and _PORT.match(password)):
            continue  # the sign is in the path or in the query
        is_http = literal[max(0, scheme - 5) : scheme].lower().endswith(("http", "https"))
        if _is_literal(password if colon else user if is_http else ""):
            yield scheme + 3


def hide_arguments(arguments: Iterable[str], *, by_place: bool = True) -> list[str]:
    """The arguments with dots for secrets: alone, after a `--name`, or as `name=value` or `Name: value` in one.

    `by_place` also hides every value of a header, a variable, a query and a user, as where a server has them as keys.
    """
    hidden, flag = [], ""
    for argument in map(_show, arguments):
        option = argument if flag == "" else f"{flag}={argument}"
        place = _OPTION.match(option) if by_place else None
        if (
            place
            and _is_literal(_literal(option[place.end() :]))
            and (place["header"] or "").lower() not in _OPEN_NAMES
        ):
            hidden.append(argument[: len(place[0]) - len(option)] + _DOTS)
        elif by_place and _ADDRESS.match(argument):
            hidden.append(_hide_in_url(argument))
        else:
            hidden.append(_hide_argument(argument, flag))
        flag = argument if re.match(r"--?[A-Za-z]", argument) and "=" not in argument else ""
    return hidden


def _hide_argument(argument: str, flag: str = "") -> str:
    """The argument with dots for a secret and for everything after it."""
    literal = _literal(argument)
    if not re.fullmatch(r"--?[A-Za-z][\w-]*+(?:=.*+)?", argument, re.DOTALL) and _is_secret(flag, literal):
        return _DOTS
    places = [place for place in (_find_pair(literal), _find_secret(literal)) if place is not None]
    return argument[: min(places)] + _DOTS if places else argument


def _find_pair(literal: str) -> int | None:
    """Where the first value begins whose name says that it is secret."""
    done = 0
    while (pair := _PAIR.search(literal, done)) is not None:
        done = pair.end()
        if _SECRET_NAME.search(pair["name"]):
            value = (_LINE if pair["colon"] else _WORD).match(literal, done)
            assert value is not None  # it matches nothing too
            if _is_secret(pair["name"], value[0]):
                return done
            done = value.end()
    return None


def find_literals(entry: UpstreamEntry) -> Iterator[str]:
    """The keys of literal secrets in the entry, never their values."""
    yield from (f"env.{name}" for name, value in entry.env.items() if looks_secret(name, value))
    yield from (f"headers.{name}" for name, value in entry.headers.items() if looks_secret(name, value))
    if entry.bearer_token and looks_secret("token", entry.bearer_token):
        yield "bearer_token"
    if list(entry.args) != hide_arguments(entry.args, by_place=False):
        yield "args"
    if entry.url and entry.url != _hide_in_url(entry.url):
        yield "url"


def conceal(value: Any, name: str = "", *, wholly: bool = False) -> Any:
    """The value of a file with dots for secrets; `name` is its key, and `wholly` hides all but references."""
    if isinstance(value, Mapping):
        return {key: conceal(each, key, wholly=wholly or key.lower() in _WHOLLY_SECRET) for key, each in value.items()}
    if isinstance(value, list | tuple):
        # A number is an argument too, if the file is wrong.
        texts = [
            each if isinstance(each, str) else str(each) if isinstance(each, int | float) else "" for each in value
        ]
        return [
            hidden if hidden != text and not wholly else conceal(each, "", wholly=wholly)
            for each, text, hidden in zip(value, texts, hide_arguments(texts), strict=True)
        ]
    if isinstance(value, bool) or value is None or name.lower() in _OPEN_NAMES:
        return value
    literal = _literal(str(value))
    if (wholly and _is_literal(literal)) or _is_secret(name, literal):
        return _DOTS
    if not isinstance(value, str):
        return value
    return _hide_in_url(value) if _ADDRESS.match(value) else _hide_argument(value)


def _show(text: str) -> str:
    return text.shown if isinstance(text, Hidden) else text


def _hide_in_url(url: str) -> str:
    """The URL without its user, the values of its query, its fragment, and what looks like a key in its path."""
    try:
        parts = urlsplit(url)
    except ValueError:  # it has brackets that hold no address
        return _DOTS
    query = "&".join(map(_hide_in_query, parts.query.split("&")))
    path = re.sub(r"[^/]+", lambda match: _hide_argument(match[0]), parts.path)
    host = parts.netloc.rpartition("@")
    netloc = f"{_DOTS}@{host[2]}" if _is_literal(_literal(host[0]).replace(":", "")) else parts.netloc
    fragment = _DOTS if _is_literal(_literal(parts.fragment)) else parts.fragment
    shown = parts._replace(netloc=netloc, path=path, query=query, fragment=fragment).geturl()
    # A password with a slash in it ends the host before its sign.
    return shown if _find_secret(_literal(shown)) is None else _hide_argument(url)


def _hide_in_query(part: str) -> str:
    name, sign, value = part.rpartition("=")
    return f"{name}{sign}{_DOTS}" if _is_literal(_literal(value)) else part
