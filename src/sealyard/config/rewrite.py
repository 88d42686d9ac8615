"""Puts sealyard into a client's file in place of its servers, and takes it out again. All other text stays unchanged.

`take_over_files` does the same for configurations and clients' entries of the product's former name.
"""

import itertools
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sealyard.config import jsonc
from sealyard.config.clients import Place, find_places, read_document, read_servers
from sealyard.config.files import Backup, Machine, change_file, digest, find_backups, read_bytes, replace_file
from sealyard.config.merging import dump_toml
from sealyard.config.references import diff
from sealyard.disk import locked
from sealyard.errors import InvalidConfig, InvalidRequest, SealyardError
from sealyard.former import FORMER, PRESENT, starts

_SERVERS_HEADER = re.compile(r"\s*\[\[?\s*([\"']?)mcp_servers\1\s*[.\]]")
_HEADER = re.compile(r"\s*\[\[?[^\[\]]+\]\]?\s*(#.*)?$")
_REMARK = re.compile(r"\s*(#.*)?$")
_OLD, _NEW = f"{FORMER}.toml", f"{PRESENT}.toml"
_EXAMPLES = f"{FORMER}.examples.".encode()
"""The servers to try the product with, which a configuration may start."""
_STARTED = re.compile(rb"[\"'/\\]" + FORMER.encode() + rb"(\.exe)?[\"'\[@=<>~!]")
"""A mark in the text of every entry that starts the former program. Files without it are not parsed."""


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
        """The diff, with dots for secrets."""
        old, new = ((content or b"").decode("utf-8-sig", "replace") for content in (self.old, self.new))
        parsed = [_parse(text, self.path) for text in (old, new) if text.strip()]
        return diff(old, new, str(self.path), values=parsed)


def plan_apply(client: str, machine: Machine, *, command: str, args: tuple[str, ...]) -> list[Change]:
    """The changes of every file of the client that holds servers, after which sealyard is the only one.

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
    """The undo of one file."""

    change: Change
    backups: tuple[Backup, ...]
    """The backups on the way, the newest first; the last one is the original."""


def plan_undo(clients: Iterable[str], machine: Machine) -> list[Restoration]:
    """The undo of every file of these clients.

    A file that sealyard wrote last gets its bytes of before. In one that has changed since, only the servers change:
    those of before come back, and those that were added since stay.

    Raises:
        SealyardError: The present text of a file cannot be changed without harm to the rest of it.
    """
    places = [place for place in find_places(machine) if place.client in clients]
    restorations = []
    for path in dict.fromkeys(place.path for place in places):
        backups = _find_steps(path)
        if not backups:
            continue
        now, backup, original = read_bytes(path), backups[0], backups[-1].read_original()
        is_ours = now is None or now == backup.read_original() or digest(now) == backup.digest
        own = [place for place in places if place.path == path]
        new = original if is_ours else _put_back(now or b"", original, own)
        restorations.append(
            Restoration(change=Change(client=own[0].client, path=path, old=now, new=new), backups=backups)
        )
    return restorations


def _find_steps(path: Path) -> tuple[Backup, ...]:
    """The newest backup, and those before it that an undo must not stop at.

    Those are the ones written under the product's former name: they start a program that is gone.
    """
    steps: list[Backup] = []
    for backup in find_backups(path):
        if steps and not (backup.is_former and backup.digest == digest(steps[-1].read_original())):
            break
        steps.append(backup)
    return tuple(steps)


def _put_back(now: bytes, original: bytes | None, places: list[Place]) -> bytes:
    """The present file with the servers of the original one in place of sealyard."""
    path = places[0].path
    document, text = read_document(path), now.decode()
    before = {} if original is None else _parse(original.decode("utf-8-sig"), path)
    for place in places:
        servers = walk(document, place.keys) or {}
        added = {name: raw for name, raw in servers.items() if name not in (PRESENT, FORMER)}
        text, document, _ = _put(text, document, place, {**added, **(walk(before, place.keys) or {})})
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
        text, document, lost = _put(text, document, place, {PRESENT: entry, **kept})
        notes += lost
    return Change(client=client, path=path, old=old, new=text.encode(), notes=tuple(notes))


def _put(text: str, document: Any, place: Place, servers: dict[str, Any]) -> tuple[str, Any, list[str]]:
    """A file, as text and parsed, with these servers at a place, and notes on what is lost.

    Raises:
        SealyardError: It cannot be changed.
    """
    if (walk(document, place.keys) or {}) == servers:
        return text, document, []  # it is as wanted, in whatever layout
    try:
        text, notes = (_put_toml if place.path.suffix == ".toml" else _put_json)(text, place.keys, servers)
    except (jsonc.InvalidJson, tomllib.TOMLDecodeError) as error:
        raise InvalidConfig(f"{str(place.path)!r} cannot be changed: {error}. Correct it there.") from None
    document = _replace(document, place.keys, servers)
    _check_text(text, place.path, document)
    return text, document, notes


def put_servers(
    text: str, path: Path, keys: tuple[str, ...], document: Any, changed: dict[str, Any]
) -> tuple[str, Any]:
    """A client's file, as text and parsed, with these servers replaced. The rest stays.

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
    notes = [f"the comments inside {keys[-1]!r} go with its entries"] if jsonc.has_comments(text, keys) else []
    return jsonc.put(text, keys, servers), notes


def _put_toml(text: str, keys: tuple[str, ...], servers: dict[str, Any]) -> tuple[str, list[str]]:
    """Swap the tables line by line, because a parser takes the comments above a table for a part of the one before it.

    Where servers are not written as tables, the parser replaces them. If it cannot either, the text stays as it is.
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
    return replaced or text, [f"the comments inside {keys[0]!r} go with its entries"]


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


def walk(document: Any, keys: tuple[str, ...]) -> dict[str, Any] | None:
    """The object at the end of a path through a parsed file, if there is one."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else None


def _replace(document: Any, keys: tuple[str, ...], value: Any) -> Any:
    if not keys:
        return value
    document = document if isinstance(document, dict) else {}
    return {**document, keys[0]: _replace(document.get(keys[0]), keys[1:], value)}


def replace_table(text: str, key: str, table: Mapping[str, Any]) -> str | None:
    """The text with another table at the top-level key, in whatever layout; `None` if that fails."""
    import tomlkit  # noqa: PLC0415 - every command imports this module, and few write TOML
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    plain = text.replace("\r\n", "\n").removeprefix("\ufeff")
    wanted = tomllib.loads(plain) | {key: table}
    for in_place in (True, False):
        try:
            document = tomlkit.parse(plain)
            if not in_place:  # its parts are scattered over the file
                del document[key]
            document[key] = table
            changed = tomlkit.dumps(document)
            if tomllib.loads(changed) == wanted:
                break
        except (TOMLKitError, tomllib.TOMLDecodeError):
            continue
    else:
        return None
    changed = changed.replace("\n", "\r\n") if "\r\n" in text else changed
    return "\ufeff" + changed if text.startswith("\ufeff") else changed


def _parse(text: str, path: Path) -> Any:
    try:
        return tomllib.loads(text) if path.suffix == ".toml" else jsonc.parse(text)
    except (tomllib.TOMLDecodeError, jsonc.InvalidJson):
        return {}


def take_over_files(machine: Machine, own: Sequence[str]) -> list[str]:
    """Take over the files here and in the user's folders; returns a sentence for each change and each failure.

    `own` is the command that starts this program. Nothing to do costs a look at each file.
    """
    taking = _Taking(machine, own)
    for new in (machine.directory / _NEW, machine.config_folder / _NEW):
        taking.take_config(machine.former_config(new), new)
    places = find_places(machine)
    for path in dict.fromkeys(place.path for place in places):
        try:
            content = (read_bytes(path) if _is_readable(path) else None) or b""
            if FORMER.encode() in content and _STARTED.search(content):  # the plain search is ten times as fast
                with locked(path.parent):  # a second process finds nothing to change
                    taking.change_client([place for place in places if place.path == path])
        except (SealyardError, OSError) as error:
            taking.notes.append(f"{str(path)!r} may still start the former program. {error}")
    return taking.notes


class _Taking:
    """The takeover at one start of a command."""

    def __init__(self, machine: Machine, own: Sequence[str]) -> None:
        self.notes: list[str] = []
        self._machine = machine
        self._own = own

    def take_config(self, old: Path, new: Path) -> None:
        """Copy a configuration to its present place, unless there is one. Links are left alone."""
        if os.path.exists(new) or not os.path.isfile(old) or os.path.islink(old):
            return
        try:
            new.parent.mkdir(parents=True, exist_ok=True)
            with locked(new.parent):
                if os.path.exists(new):
                    return  # another process was faster
                text = (read_bytes(old) or b"").replace(_EXAMPLES, _EXAMPLES.replace(FORMER.encode(), PRESENT.encode()))
                replace_file(new, text, mode=stat.S_IMODE(old.stat().st_mode))
        except (InvalidRequest, OSError):
            return  # `load_config` reads it where it is, and says so
        self.notes.append(
            f"{str(old)!r} was copied to {str(new)!r}, which counts from now on. The old file stays as a backup."
        )

    def change_client(self, places: list[Place]) -> None:
        """Make the entries of one file that start the former program start this one. The rest of them stays."""
        path = places[0].path
        old, document = read_bytes(path), read_document(path)
        text = (old or b"").decode()
        names: list[str] = []
        for place in _with_projects(places, document):
            servers = walk(document, place.keys) or {}
            changed = {name: self._rename(raw, place) for name, raw in servers.items() if _is_former(raw)}
            if changed:
                names += changed
                text, document = put_servers(text, path, place.keys, document, changed)
        if names:
            backup = change_file(path, old=old, new=text.encode())
            which = ", ".join(map(repr, dict.fromkeys(names)))
            self.notes.append(f"{which} in {str(path)!r} starts {PRESENT} now. A copy of it is {backup.path.name!r}.")

    def _rename(self, raw: dict[str, Any], place: Place) -> dict[str, Any]:
        """The entry with another command and, where they name the program or its configuration, other arguments."""
        command, arguments = raw["command"], list(_arguments(raw))
        if starts(command, (), names=(FORMER,)):
            first = self._rename_program(command)
        elif ("-m", FORMER) in itertools.pairwise(arguments):
            after = arguments.index(FORMER, arguments.index("-m")) + 1
            first, arguments = self._rename_module(command, arguments[:after]), arguments[after:]
        else:  # a launcher that finds it by the name of its package
            first = [command]
            arguments = [re.sub(rf"^{FORMER}(?=$|[\[@=<>~!])", PRESENT, each) for each in arguments]
        command, arguments = first[0], [*first[1:], *arguments]
        folder = place.project or self._machine.directory
        return {**raw, "command": command, "args": [self._follow(each, folder) for each in arguments]}

    def _rename_program(self, command: str) -> list[str]:
        """A name stays a name, which may be shared by a team; a path stays in its folder if this program is there."""
        renamed = re.sub(rf"(?i){FORMER}(\.exe)?$", rf"{PRESENT}\1", command)
        is_name = not os.path.dirname(command)
        return [renamed] if is_name or os.path.isfile(renamed) else list(self._own)

    def _rename_module(self, command: str, before: list[str]) -> list[str]:
        """An interpreter at a path may lack this program; one given by name most likely has it."""
        is_ours = os.path.dirname(command) in ("", os.path.dirname(self._own[0]))
        return [command, *before[:-1], PRESENT] if is_ours else list(self._own)

    def _follow(self, argument: str, folder: Path) -> str:
        """The argument; if it names a configuration of the former name, the one that takes its place."""
        old = folder / argument
        if old.name != _OLD:
            return argument
        users = self._machine.config_folder / _NEW
        new = users if old == self._machine.former_config(users) else old.with_name(_NEW)
        self.take_config(old, new)
        if not os.path.exists(new):
            return argument
        return str(new) if new == users else argument.removesuffix(_OLD) + _NEW


def _is_readable(path: Path) -> bool:
    """True for a regular file that can be read; opening a pipe would wait."""
    return os.path.isfile(path) and os.access(path, os.R_OK)


def _with_projects(places: list[Place], document: Any) -> list[Place]:
    """The places; of a file that has servers for each project, those of all projects."""
    found = []
    for place in places:
        if place.keys[0] != "projects":
            found.append(place)
            continue
        found += [
            Place(client=place.client, path=place.path, keys=("projects", key, *place.keys[2:]), project=Path(key))
            for key in walk(document, ("projects",)) or {}
        ]
    return found


def _is_former(raw: Any) -> bool:
    if not isinstance(raw, dict) or not isinstance(raw.get("command"), str):
        return False
    return starts(raw["command"], _arguments(raw), names=(FORMER,))


def _arguments(raw: dict[str, Any]) -> tuple[str, ...]:
    arguments = raw.get("args")
    return tuple(each for each in arguments if isinstance(each, str)) if isinstance(arguments, list) else ()
