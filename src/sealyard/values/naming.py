"""The names of tools: valid as MCP names and as Python identifiers, and stable.

An assigned name is kept; later tools get other names. Among names of one listing the exact spelling wins and the others
get a suffix made from their own text, so that the order of a list does not matter.
"""

import hashlib
import itertools
import keyword
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

_FULL_CHARACTERS = 128  # the longest tool name that MCP allows
_SUFFIX_CHARACTERS = 7  # `_` and the six of a mark
_UPSTREAM_CHARACTERS = 48  # leaves the tool more than half of a full name
_IDENTIFIER_BYTES = 120  # as a file name, with its suffix, it fits every file system
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]+")
_UNDERSCORES = re.compile(r"_{2,}")
_NOT_WORD = re.compile(r"\W+")
# `from servers.x import print` would silence the code that does it; the others are used by the stubs themselves.
_RESERVED = frozenset({"print", "tool", "Any", "Literal"})


def assign(
    names: Iterable[str], clean: Callable[[str], str], *, kept: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Map each of `names` to its cleaned form, all different; those in `kept` keep their form."""
    every = sorted(set(names))
    given = {name: kept[name] for name in every if name in kept} if kept else {}
    taken = set(given.values())
    claims: defaultdict[str, list[str]] = defaultdict(list)
    for name in every:
        if name in given:
            continue
        claims[clean(name)].append(name)
    late = []
    for wanted, claimants in claims.items():
        winner = wanted if wanted in claimants else claimants[0] if len(claimants) == 1 else None
        if winner is not None and wanted not in taken:
            given[winner] = wanted
        late += [(name, wanted) for name in claimants if name not in given]
    taken.update(given.values())
    for name, wanted in sorted(late):
        given[name] = _apart(name, wanted, taken)
        taken.add(given[name])
    return given


def identifier(name: str, *, fallback: str = "tool") -> str:
    """A Python identifier as close to `name` as possible; equal in every gateway."""
    text = name if name.isascii() else unicodedata.normalize("NFKC", name)
    if not text.isidentifier():
        text = _NOT_WORD.sub(" ", text).strip().replace(" ", "_")
        if text[:1].isdigit() or (text and not text.isidentifier()):
            text = "_" + text
        if not text.isidentifier():  # a word character for patterns, but not for Python
            text = "".join(character for character in text if ("_" + character).isidentifier()).strip("_")
            text = unicodedata.normalize("NFKC", text)
            text = text if text.isidentifier() else f"{fallback}_{_mark(name)}"
    if len(text) > _IDENTIFIER_BYTES // 4 and len(text.encode()) > _IDENTIFIER_BYTES:
        text = text.encode()[: _IDENTIFIER_BYTES - _SUFFIX_CHARACTERS].decode(errors="ignore") + "_" + _mark(name)
    if keyword.iskeyword(text) or (text.startswith("__") and text.endswith("__")):
        text += "_"
    return text


def function_name(name: str) -> str:
    """The identifier of a tool's function."""
    text = identifier(name)
    return text + "_" if text in _RESERVED else text


def upstream_part(name: str) -> str:
    """An upstream in a full name. It has no `__` inside and no `_` at its ends: a full name splits in one way."""
    text = _UNDERSCORES.sub("_", _ILLEGAL.sub("_", name)).strip("_")
    if not text:
        text = f"server-{_mark(name)}"
    if len(text) > _UPSTREAM_CHARACTERS:
        text = text[: _UPSTREAM_CHARACTERS - _SUFFIX_CHARACTERS].rstrip("_") + "-" + _mark(name)
    return text


def tool_part(name: str, *, upstream: str) -> str:
    """A tool in a full name, short enough for the room that `upstream` leaves."""
    text = _ILLEGAL.sub(" ", name).strip(" ").replace(" ", "_") or f"tool-{_mark(name)}"
    room = _FULL_CHARACTERS - _SUFFIX_CHARACTERS - len(full_name(upstream, ""))
    return text if len(text) <= room else text[: room - _SUFFIX_CHARACTERS] + "-" + _mark(name)


def full_name(upstream: str, tool: str) -> str:
    """`mcp__<upstream>__<tool>`, from the parts that `upstream_part` and `tool_part` made."""
    return f"mcp__{upstream}__{tool}"


def spelled(name: str) -> str:
    """One form for all spellings of a tool's name: `mcp__my-db__list`, `servers.my_db.list` and `my_db.list`."""
    text = name.lower().removeprefix("servers.")
    if text.startswith("mcp__"):
        text = text.removeprefix("mcp__").replace("__", ".", 1)
    return ".".join(_UNDERSCORES.sub("_", _NOT_WORD.sub("_", part)).strip("_") for part in text.split(".", 1))


def _apart(name: str, wanted: str, taken: set[str]) -> str:
    """`wanted` with a suffix from the text of `name` that makes it different from everything in `taken`."""
    candidates = (f"{wanted}_{_mark(name + '!' * again)}" for again in itertools.count())
    return next(candidate for candidate in candidates if candidate not in taken)


def _mark(name: str) -> str:
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:6]
