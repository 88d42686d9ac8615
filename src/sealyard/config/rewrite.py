"""Puts sealyard into a client's file in place of its servers, and takes it out again. All other text stays as it is."""

import os
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from sealyard.config import jsonc
from sealyard.config.clients import Place, find_places, read_document, read_servers
from sealyard.config.display import diff
from sealyard.config.files import Backup, digest, find_backups, read_bytes
from sealyard.config.machine import Machine
from sealyard.config.toml import dump_toml, replace_table
from sealyard.errors import InvalidConfig, InvalidRequest, SealyardError
from sealyard.former import FORMER, PRESENT

_SERVERS_HEADER = re.compile(r"\s*\[\[?\s*([\"']?)mcp_servers\1\s*[.\]]")
_HEADER = re.compile(r"\s*\[\[?[^\[\]]+\]\]?\s*(#.*)?$")
_REMARK = re.compile(r"\s*(#.*)?$")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One client's file before and after. `None`: there is no file."""

    client: str
    path: Path
    old: bytes | None
    new: bytes | None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Change(client={self.client!r}, path={self.path!r})"

    def diff(self) -> str:
        """What changes, with dots for secrets."""
        old, new = ((content or b"").decode("utf-8-sig", "replace") for content in (self.old, self.new))
        parsed = [_parse(text, self.path) for text in (old, new) if text.strip()]
        return diff(old, new, str(self.path), values=parsed)


def plan_apply(client: str, machine: Machine, *, command: str, args: tuple[str, ...]) -> list[Change]:
    """How every file of the client that holds servers changes so that sealyard is the only one.

    A client that has none gets sealyard in its user's file. A server that cannot be read stays.

    Raises:
        InvalidConfig: A file cannot be read.
    """
    places = [place for place in find_places(machine) if place.client == client]
    documents = {place.path: read_document(place.path) if os.path.exists(place.path) else {} for place in places}
    chosen = [place for place in places if walk(documents[place.path], place.keys)]
    chosen = chosen or [place for place in places if place.project is None]
    entry: dict[str, Any] = {"command": command, "args": list(args)}
    if client == "vscode":
        entry = {"type": "stdio", **entry}
    changes = []
    for path in dict.fromkeys(place.path for place in chosen):
        change = _plan_file([place for place in chosen if place.path == path], documents[path], entry)
        if change.old != change.new:
            changes.append(change)
    return changes


class Restoration(msgspec.Struct, frozen=True, kw_only=True):
    """How one file goes back to what it was."""

    change: Change
    backups: tuple[Backup, ...]
    """What was undone step by step, the newest first; the last one is what the file was."""
    is_forced: bool
    """The file is not what sealyard wrote: what it is now is to be kept beside it."""


def plan_undo(clients: Iterable[str], machine: Machine, *, force: bool) -> list[Restoration]:
    """How the files of these clients go back to their newest backups.

    Raises:
        InvalidRequest: A file has changed since sealyard wrote it, and `force` is not given.
    """
    places = [place for place in find_places(machine) if place.client in clients]
    restorations = []
    for path in dict.fromkeys(place.path for place in places):
        backups = _find_steps(path)
        if not backups:
            continue
        now, backup, original = read_bytes(path), backups[0], backups[-1].read_original()
        new = original
        is_forced = now != backup.read_original() and (now is None or digest(now) != backup.digest)
        if is_forced and not force:
            raise InvalidRequest(
                f"{str(path)!r} has changed since sealyard wrote it. Give --force to put back its servers all the "
                "same; the file as it is now is kept beside it."
            )
        if is_forced and now is not None and path.suffix != ".toml":
            merged = _put_back(now, original, [place for place in places if place.path == path])
            new = original if merged is None else merged
        owner = next(place.client for place in places if place.path == path)
        change = Change(client=owner, path=path, old=now, new=new)
        restorations.append(Restoration(change=change, backups=backups, is_forced=is_forced))
    return restorations


def _find_steps(path: Path) -> tuple[Backup, ...]:
    """The newest backup, and those before it that an undo must not stop at.

    That is where what the newest one holds was written under the product's former name: it starts a program that is
    gone.
    """
    steps: list[Backup] = []
    for backup in find_backups(path):
        if steps and not (backup.is_former and backup.digest == digest(steps[-1].read_original())):
            break
        steps.append(backup)
    return tuple(steps)


def _put_back(current: bytes, original: bytes | None, places: list[Place]) -> bytes | None:
    """The present file with the servers of the original one, or `None` if that cannot be done in its text."""
    try:
        text = current.decode()
        before = jsonc.parse(original.decode("utf-8-sig")).value if original else {}
        for place in places:
            servers = walk(before, place.keys)
            if servers or walk(jsonc.parse(text).value, place.keys):
                text = jsonc.put(text, place.keys, servers or {})
    except (UnicodeDecodeError, jsonc.InvalidJson):
        return None
    return text.encode()


def _plan_file(places: list[Place], document: Any, entry: dict[str, Any]) -> Change:
    client, path = places[0].client, places[0].path
    old = read_bytes(path)
    text, notes = (old or b"").decode(), []
    if path.resolve() != path:
        notes.append(f"{path} is a link: {path.resolve()} is what changes")
    for place in places:
        readable = {found.name for found in read_servers(document, place)[0]}
        servers = walk(document, place.keys) or {}
        kept = {name: raw for name, raw in servers.items() if name not in readable and name not in (PRESENT, FORMER)}
        if kept:
            notes.append(f"{', '.join(map(repr, kept))} stays: sealyard cannot read it")
        wanted = {"sealyard": entry, **kept}
        if servers == wanted:
            continue  # in whatever layout
        try:
            text, lost = (_put_toml if path.suffix == ".toml" else _put_json)(text, place.keys, wanted)
        except jsonc.InvalidJson as error:
            raise InvalidConfig(f"{str(path)!r} cannot be changed: {error}. Correct it there.") from None
        notes += lost
        document = _replace(document, place.keys, wanted)
        _check_text(text, path, document)
    return Change(client=client, path=path, old=old, new=text.encode(), notes=tuple(notes))


def put_servers(
    text: str, path: Path, keys: tuple[str, ...], document: Any, changed: dict[str, Any]
) -> tuple[str, Any]:
    """A client's file, as text and as it is parsed, in which these servers are other ones. The rest stays.

    Raises:
        SealyardError: It cannot be changed.
    """
    wanted = {**(walk(document, keys) or {}), **changed}
    if path.suffix == ".toml":
        text, _ = _put_toml(text, keys, wanted)
    else:
        for name, entry in changed.items():
            text = jsonc.put(text, (*keys, name), entry)
    document = _replace(document, keys, wanted)
    _check_text(text, path, document)
    return text, document


def _check_text(text: str, path: Path, document: Any) -> None:
    if _parse(text.removeprefix("\ufeff"), path) != document:
        raise SealyardError(f"{str(path)!r} cannot be changed without harm to the rest of it. Change it by hand.")


def _put_json(text: str, keys: tuple[str, ...], servers: dict[str, Any]) -> tuple[str, list[str]]:
    if not text.strip():
        return jsonc.put("{}", keys, servers) + "\n", []
    node: jsonc.Node | None = jsonc.parse(text)
    for key in keys:
        node = (node.members or {}).get(key) if node else None
    notes = [f"the comments inside {keys[-1]!r} go with its entries"] if node and node.has_comments else []
    return jsonc.put(text, keys, servers), notes


def _put_toml(text: str, keys: tuple[str, ...], servers: dict[str, Any]) -> tuple[str, list[str]]:
    """Swap the tables line by line, since a parser takes the remarks above a table for a part of the one before it.

    Where servers are not written as tables, the parser replaces them, and only if it cannot, the file is written anew.
    """
    wanted = tomllib.loads(text.removeprefix("\ufeff")) | {keys[0]: servers}
    line = "\r\n" if "\r\n" in text else "\n"
    swapped = _swap_tables(text, dump_toml({keys[0]: servers}).replace("\n", line), line)
    try:
        if tomllib.loads(swapped.removeprefix("\ufeff")) == wanted:
            return swapped, []
    except tomllib.TOMLDecodeError:
        pass  # a line only looked like the head of a table
    replaced = replace_table(text, keys[0], servers)
    if replaced is not None:
        return replaced, [f"the comments inside {keys[0]!r} go with its entries"]
    return dump_toml(wanted), ["the file is written anew, without its comments: its servers are not in tables"]


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
    """Remarks at the end of a table, which are about what comes after it."""
    count = len(lines)
    while count and _REMARK.match(lines[count - 1]):
        count -= 1
    return lines[count:]


def walk(document: Any, keys: tuple[str, ...]) -> dict[str, Any] | None:
    """The object at the end of a way through a parsed file, if there is one."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else None


def _replace(document: Any, keys: tuple[str, ...], value: Any) -> Any:
    if not keys:
        return value
    document = document if isinstance(document, dict) else {}
    return {**document, keys[0]: _replace(document.get(keys[0]), keys[1:], value)}


def _parse(text: str, path: Path) -> Any:
    try:
        return tomllib.loads(text) if path.suffix == ".toml" else jsonc.parse(text).value
    except (tomllib.TOMLDecodeError, jsonc.InvalidJson):
        return {}
