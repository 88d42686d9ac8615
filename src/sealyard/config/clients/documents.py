"""Clients' files as text: TOML, YAML, or JSON with comments and trailing commas. All are read, and changed in place.

Comments and trailing commas of JSON are blanked out with spaces, so that the standard library reads the rest and every
place in it is one in the text. YAML is in a module of its own, as few files are. Messages hold a line and a column and
nothing of the content, which may be secret.
"""

import importlib
import json
import re
import stat
import tomllib
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from sealyard.errors import InvalidConfig, SealyardError

# One that does not end goes to the end of the text: another attempt at each quote would take quadratic time.
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMA = re.compile(rf"{_STRING}|,(?=[ \t\r\n]*[}}\]])", re.DOTALL)
_BRACKET = re.compile(rf"{_STRING}|[{{}}\[\]]", re.DOTALL)
_GAP = re.compile(r"[ \t\r\n]*")
_STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}
_DEPTH = 100
"""Levels of nesting: ten times what clients write, and a tenth of what recursion bears."""
_MOST_BYTES = {".yaml": 256 << 10, ".yml": 256 << 10}
"""The parser of YAML reads about 100 KB in a second, and clients write 10 KB."""
_MOST_OTHER_BYTES = 64 << 20
"""Claude Code keeps histories in its file, which grows to tens of megabytes."""
LISTED = "[]"
"""The last key of a path that leads to a list of servers, each with its `name` in it."""
_SERVERS_HEADER = re.compile(r"\s*\[\[?\s*([\"']?)mcp_servers\1\s*[.\]]")
_HEADER = re.compile(r"\s*\[\[?[^\[\]]+\]\]?\s*(#.*)?$")
_REMARK = re.compile(r"\s*(#.*)?$")

_Span = tuple[int, int]
"""The place of a value: its start and its end."""


class InvalidJson(ValueError):
    """The text is not JSON, not even with comments; the message names the place."""


def read_bytes(path: Path) -> bytes | None:
    """The file's content; `None` if there is no file.

    Raises:
        InvalidConfig: It is not a file that can be read, or larger than any client's file is.
    """
    most = _MOST_BYTES.get(path.suffix, _MOST_OTHER_BYTES)
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):  # opening a pipe would wait for its other end
            raise InvalidConfig(f"{str(path)!r} is not a regular file. Give one.")
        if state.st_size > most:
            raise InvalidConfig(f"{str(path)!r} has more than {most:,} bytes. Shorten it.")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InvalidConfig(f"{str(path)!r} cannot be read: {error.strerror}. Check the path and its rights.") from None


def read_document(path: Path) -> Any:
    """The parsed content of a file. That of an empty one, or of none, is an empty object.

    Raises:
        InvalidConfig: It cannot be read; the message names the file, and the line if it has one.
    """
    return parse_file(decode(read_bytes(path) or b"", path), path)


def decode(content: bytes, path: Path) -> str:
    """The text of a file, with its byte order mark if it has one.

    Raises:
        InvalidConfig: It is not UTF-8.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"{str(path)!r} is not UTF-8 after byte {error.start}. Save it as UTF-8 text.") from None


def parse_file(text: str, path: Path) -> Any:
    """The value of the text of a file.

    Raises:
        InvalidConfig: It cannot be read; the message names the file, and the line if it has one.
    """
    try:
        return parse(text, path)
    except ValueError as error:
        raise InvalidConfig(f"{str(path)!r} is not {format_name(path)}: {error}. Correct it there.") from None
    except RecursionError:
        raise InvalidConfig(f"{str(path)!r} is nested too deeply. Correct it there.") from None


def format_name(path: Path) -> str:
    """The format of a file, by its name."""
    return {".toml": "TOML", ".yaml": "YAML", ".yml": "YAML"}.get(path.suffix, "JSON")


def parse(text: str, path: Path) -> Any:
    """The value of the text of a file. The name of the file gives the format.

    Raises:
        ValueError: The text is not in that format.
        RecursionError: TOML is nested too deeply.
    """
    text = text.removeprefix("\ufeff")
    match format_name(path):
        case "TOML":
            return tomllib.loads(text)
        case "YAML":
            return _yaml().parse_yaml(text)
    return parse_json(text) if text.strip() else {}


def render(value: Any, path: Path) -> str:
    """The text of a file that has this value, in the plainest layout of its format."""
    match format_name(path):
        case "TOML":
            return dump_toml(value)
        case "YAML":
            spelled: str = _yaml().dump_yaml(value)
            return spelled
    return _spell(value, indent=2) + "\n"


def _yaml() -> ModuleType:
    """The module for YAML, whose library every command would import for nothing."""
    return importlib.import_module("sealyard.config.clients.blocks")


def find_table(document: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """The object at the end of a path through a parsed file; an empty one if there is none."""
    for key in keys:
        if key == LISTED:
            document = _by_name(document)
        else:
            document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def _by_name(document: Any) -> dict[str, Any]:
    return {each["name"]: each for each in document if _is_named(each)} if isinstance(document, list) else {}


def _is_named(each: Any) -> bool:
    return isinstance(each, dict) and isinstance(each.get("name"), str)


def put(
    text: str, path: Path, keys: tuple[str, ...], table: dict[str, Any], *, like: str = ""
) -> tuple[str, list[str]]:
    """The text of a file with `table` at the path `keys`, and notes on what is lost. All other text stays unchanged.

    Where `like`, another text of the file, has the same servers, they are spelled as there.

    Raises:
        InvalidConfig: The text cannot be read, or something on the path is not an object.
        SealyardError: The rest of the text would change its meaning.
    """
    try:
        document = parse(text, path)
        if find_table(document, keys) == table:
            return text, []  # it is as wanted, in whatever layout
        wanted = _replace(document, keys, table)
        match format_name(path):
            case "TOML":
                changed, loses_comments = _put_toml(text, keys[0], wanted, like)
            case "YAML":
                changed, loses_comments = _yaml().put_yaml(text, keys[0], wanted, like)
            case _:
                text = text if text.removeprefix("\ufeff").strip() else "{}\n"
                changed = put_json(text, keys, table, like=like)
                loses_comments = _has_comments(text, keys) and not _has_comments(changed, keys)
        is_whole = parse(changed, path) == wanted
    except (ValueError, RecursionError) as error:
        raise InvalidConfig(f"{str(path)!r} cannot be changed: {error}. Correct it there.") from None
    if not is_whole:
        raise SealyardError(f"{str(path)!r} cannot be changed without harm to the rest of it. Change it by hand.")
    names = [key for key in keys if key != LISTED]
    return changed, [f"the comments inside {names[-1]!r} go with its entries"] if loses_comments else []


def _replace(document: Any, keys: tuple[str, ...], value: Any, at: str = "the whole") -> Any:
    if keys[:1] == (LISTED,):
        if document is not None and not isinstance(document, list):
            raise ValueError(f"{at} is not a list")  # nobody can tell what it means
        unnamed = [each for each in document or () if not _is_named(each)]
        return [*unnamed, *_replace(_by_name(document), keys[1:], value, at).values()]
    if document is not None and not isinstance(document, dict):
        raise ValueError(f"{at} is not an object")
    if not keys:
        return value
    document = document or {}
    return {**document, keys[0]: _replace(document.get(keys[0]), keys[1:], value, keys[0])}


# JSON


def parse_json(text: str) -> Any:
    """The value of the text.

    Raises:
        InvalidJson: It holds none, or more than one.
    """
    plain = _blank_commas(_blank_comments(text))
    depth = max(accumulate(_STEPS.get(each[0], 0) for each in _BRACKET.finditer(plain)), default=0)
    if depth > _DEPTH:
        raise InvalidJson(f"values are nested more than {_DEPTH} deep")
    try:
        return json.loads(plain, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise InvalidJson(f"line {error.lineno}, column {error.colno}: {error.msg.lower().rstrip(': ')}") from None
    except ValueError:
        raise InvalidJson("a number is too long or infinite") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)  # such as NaN, which the standard library reads and JSON does not have


def _has_comments(text: str, keys: tuple[str, ...]) -> bool:
    """True if a comment is inside the value at the path `keys`. Raises as `put_json` does."""
    bare = _blank_comments(text)
    span = _find(_blank_commas(bare), keys)
    return span is not None and bare[slice(*span)] != text[slice(*span)]


def put_json(text: str, keys: tuple[str, ...], value: dict[str, Any], *, like: str = "") -> str:
    """The text with `value` at the path `keys`, in the indentation of the rest; all other text stays unchanged.

    What `like`, another text of the file in the same layout, has in the same place is spelled as there, and so are
    entries that stay.

    Raises:
        InvalidJson: The text cannot be read, or something on the path is not an object.
    """
    parse_json(text)
    plain = _blank_commas(_blank_comments(text))
    depth, span = len(keys), _find(plain, keys)
    while span is None:  # something on the path is missing
        depth -= 1
        span = _find(plain, keys[:depth])
    if depth == len(keys):
        table = _spelled(like, text, keys, value) or _render_table(text, like, keys, value)
        return text[: span[0]] + table + text[span[1] :]
    for key in reversed(keys[depth + 1 :]):
        value = {key: value}
    return _insert(text, span, keys[depth], value, depth)


def _spelled(like: str, text: str, keys: tuple[str, ...], value: dict[str, Any]) -> str | None:
    """The value as another text of the file spells it in this place."""
    plain, span = _look(like, text, keys)
    return like[slice(*span)] if span is not None and json.loads(plain[slice(*span)]) == value else None


def _look(like: str, text: str, keys: tuple[str, ...]) -> tuple[str, _Span | None]:
    """A text without comments, and the place of an object in it; none if its layout is not that of `text`."""
    try:
        if not like.strip() or _layout(like) != _layout(text):
            return "", None
        parse_json(like)
        plain = _blank_commas(_blank_comments(like))
        span = _find(plain, keys)
    except InvalidJson:
        return "", None
    return plain, span if span is not None and plain[span[0]] == "{" else None


def _render_table(text: str, like: str, keys: tuple[str, ...], table: dict[str, Any]) -> str:
    """The table in the layout of the text; entries that this text or the other one has are spelled as there."""
    line, unit = _layout(text)
    known: dict[str, str] = {}
    for source in (text, like):
        plain, span = _look(source, text, keys)
        for name, place in (_members(plain, span) if span is not None else {}).items():
            if name in table and json.loads(plain[slice(*place)]) == table[name]:
                known[name] = source[slice(*place)]
    depth = len(keys)
    gap = line + unit * (depth + 1)
    members = [
        f"{gap}{_spell(name)}:{' ' if line else ''}{known.get(name) or _render(text, each, depth + 1)}"
        for name, each in table.items()
    ]
    return f"{{{','.join(members)}{line + unit * depth}}}" if members else "{}"


def _blank_comments(text: str) -> str:
    text = " " + text[1:] if text.startswith("\ufeff") else text
    return _COMMENT.sub(_blank_comment, text)


def _blank_comment(found: re.Match[str]) -> str:
    text = found[0]
    is_comment = text.startswith("//") or (text.startswith("/*") and text.endswith("*/") and len(text) >= len("/**/"))
    return re.sub(r"[^\r\n]", " ", text) if is_comment else text


def _blank_commas(bare: str) -> str:
    """The text without trailing commas; one that follows no value stays, and is an error."""

    def blank(found: re.Match[str]) -> str:
        before = found.start() - 1
        while before >= 0 and bare[before] in " \t\r\n":
            before -= 1
        return " " if found[0] == "," and before >= 0 and bare[before] not in "[{,:" else found[0]

    return _COMMA.sub(blank, bare)


def _find(plain: str, keys: tuple[str, ...]) -> _Span | None:
    """The place of the value at a path. Raises `InvalidJson` if something on the way is not an object."""
    start = _skip(plain, 0)
    span = (start, len(plain.rstrip()))
    for depth, key in enumerate(keys):
        if plain[span[0]] != "{":
            raise InvalidJson(f"{'.'.join(keys[:depth]) or 'the whole'} is not an object")
        found = _members(plain, span).get(key)
        if found is None:
            return None
        span = found
    return span


def _members(plain: str, span: _Span) -> dict[str, _Span]:
    """The places of the members of an object; of two with one key that of the last, which counts."""
    found, at, decoder = {}, _skip(plain, span[0] + 1), json.JSONDecoder()
    while plain[at] != "}":
        key, at = decoder.raw_decode(plain, at)
        start = _skip(plain, _skip(plain, at) + 1)
        _, end = decoder.raw_decode(plain, start)
        found[key] = (start, end)
        at = _skip(plain, end)
        at = _skip(plain, at + 1) if plain[at] == "," else at
    return found


def _skip(plain: str, at: int) -> int:
    gap = _GAP.match(plain, at)
    assert gap is not None  # it matches nothing too
    return gap.end()


def _insert(text: str, span: _Span, key: str, value: Any, depth: int) -> str:
    """Add a member at the end of an object; a comment behind its last member stays behind that member."""
    bare = _blank_comments(text)
    members = _members(_blank_commas(bare), span)
    line, unit = _layout(text)
    member = f"{_spell(key)}:{' ' if line else ''}{_render(text, value, depth + 1)}"
    close = span[1] - 1
    before = text[:close].rstrip()
    last = max((end for _, end in members.values()), default=close)
    if members and "," not in bare[last:close]:
        before = f"{before[:last]},{before[last:]}"
    if not line:
        return f"{before}{member}{text[close:]}"
    gap = text[len(text[:close].rstrip()) : close]
    end = gap if "\n" in gap else line + unit * depth
    return f"{before}{line}{unit * (depth + 1)}{member}{end}{text[close:]}"


def _render(text: str, value: Any, depth: int) -> str:
    line, unit = _layout(text)
    if not line:
        return _spell(value, separators=(",", ":"))
    return _spell(value, indent=unit).replace("\n", line + unit * depth)


def _spell(value: Any, **layout: Any) -> str:
    spelled = json.dumps(value, ensure_ascii=False, **layout)
    try:
        spelled.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can express
        return json.dumps(value, **layout)
    return spelled


def _layout(text: str) -> tuple[str, str]:
    """The line break and the indentation of the text; both empty if it is one line."""
    if "\n" not in text.strip() and len(text.strip()) > len("{}"):
        return "", ""
    first = re.search(r"^([ \t]+)\"", text, re.MULTILINE)
    return "\r\n" if "\r\n" in text else "\n", first[1] if first else "  "


# TOML


def dump_toml(table: Mapping[str, Any]) -> str:
    """The document that `tomllib.loads` reads as `table`: plain values first, then a section for each table in it.

    TOML has no `None`: a key that has it is left out.
    """
    import tomlkit  # noqa: PLC0415 - every command imports this module, and few write TOML

    return tomlkit.dumps(_without_none(table))


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if value is not None
    }


def _put_toml(text: str, key: str, wanted: dict[str, Any], like: str) -> tuple[str, bool]:
    """The text with the table of `wanted` at the top-level `key`, and whether comments inside the old one may be lost.

    Tables are swapped line by line, because a parser takes the comments above a table for a part of the one before it.
    Where servers are not written as tables, the parser replaces them. If it cannot either, the text stays as it is.
    """
    line = "\r\n" if "\r\n" in text else "\n"
    block = _tables_of(like, key, wanted[key]) or dump_toml({key: wanted[key]})
    swapped = _swap_tables(text, block.replace("\r\n", "\n").replace("\n", line), line)
    try:
        if tomllib.loads(swapped.removeprefix("\ufeff")) == wanted:
            return swapped, False
    except tomllib.TOMLDecodeError:
        pass  # a line only looked like the head of a table
    return _replace_table(text, key, wanted) or text, True


def _tables_of(like: str, key: str, value: Any) -> str | None:
    """The lines of another text of the file that hold the same value; `None` if they do not stand together."""
    lines = like.splitlines(keepends=True)
    heads = [number for number, each in enumerate(lines) if _HEADER.match(each)]
    own = [number for number in heads if _SERVERS_HEADER.match(lines[number])]
    if not own:
        return None
    end = next((number for number in heads if number > own[-1]), len(lines))
    block = lines[own[0] : end]
    block = block[: len(block) - len(_last_remarks(block))]
    try:
        return "".join(block) if tomllib.loads("".join(block)) == {key: value} else None
    except tomllib.TOMLDecodeError:
        return None


def _swap_tables(text: str, block: str, line: str) -> str:
    kept: list[str] = []
    removed: list[str] = []
    place, inside = None, False
    for each in text.splitlines(keepends=True):
        if _HEADER.match(each):
            inside = _SERVERS_HEADER.match(each) is not None
            if not inside:
                kept += _last_remarks(removed)
            removed = []
            if inside and place is None:
                place = len(kept)
        (removed if inside else kept).append(each)
    kept += _last_remarks(removed)
    before, after = "".join(kept[:place]), "".join(kept[place:] if place is not None else [])
    if before and not before.endswith(("\n", "\r")):
        before += line
    if before.strip() and place is None:
        before += line
    if after.strip() and not after.startswith(("\n", "\r")):
        block += line
    return before + block + after


def _last_remarks(lines: list[str]) -> list[str]:
    """The comments at the end of a table, which belong to the next one."""
    count = len(lines)
    while count and _REMARK.match(lines[count - 1]):
        count -= 1
    return lines[count:]


def _replace_table(text: str, key: str, wanted: dict[str, Any]) -> str | None:
    """The text with another table at the top-level key, in whatever layout; `None` if that fails."""
    import tomlkit  # noqa: PLC0415 - every command imports this module, and few write TOML
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    plain = text.replace("\r\n", "\n").removeprefix("\ufeff")
    for in_place in (True, False):
        try:
            document = tomlkit.parse(plain)
            if not in_place:  # its parts are scattered over the file
                del document[key]
            document[key] = wanted[key]
            changed = tomlkit.dumps(document)
            if tomllib.loads(changed) == wanted:
                changed = changed.replace("\n", "\r\n") if "\r\n" in text else changed
                return "\ufeff" + changed if text.startswith("\ufeff") else changed
        except (TOMLKitError, tomllib.TOMLDecodeError):
            continue
    return None
