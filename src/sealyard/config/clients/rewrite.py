"""Puts sealyard into a client's file in place of its servers, and takes it out again. All other text stays unchanged.

A crash leaves the old file or the new one, and the replaced content is kept beside it for an undo.
`take_over_files` changes configurations and clients' entries of the product's former name in the same way.
"""

import datetime
import hashlib
import itertools
import os
import re
import stat
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from sealyard.config.clients.documents import find_table, format_name, mask, parse, put, read_document
from sealyard.config.clients.known import Gateway
from sealyard.config.clients.servers import Place, find_places, is_no_server, read_servers
from sealyard.config.references import diff
from sealyard.config.settings import Machine
from sealyard.disk import drafted, locked
from sealyard.errors import InvalidConfig, InvalidRequest, SealyardError
from sealyard.former import FORMER, PRESENT, starts

_BACKUP = re.compile(rf"\.({PRESENT}|{FORMER})-backup-([0-9]{{8}}T[0-9]{{12}}Z)-([0-9a-f]{{16}})(-new)?")
_OLD, _NEW = f"{FORMER}.toml", f"{PRESENT}.toml"
_EXAMPLES = f"{FORMER}.examples.".encode()
"""The servers to try the product with, which a configuration may start."""
_STARTED = re.compile(rb"[\"'/\\]" + FORMER.encode() + rb"(\.exe)?[\"'\[@=<>~!]")
"""A mark in the text of every entry that starts the former program. Files without it are not parsed."""


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was before sealyard changed it. Its name holds everything that an undo must know."""

    path: Path
    digest: str
    """The digest of the text that sealyard wrote: another one means that somebody changed the file since."""
    was_absent: bool
    is_former: bool = False
    """The product made it under its former name."""

    def read_original(self) -> bytes | None:
        """The file as it was; `None` if there was none."""
        return None if self.was_absent else read_bytes(self.path)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A file before and after. `None`: there is no file."""

    client: str
    """Empty for a file of sealyard's own: a new one needs no backup."""
    everywhere: bool = False
    """True if a server in the file counts in every folder."""
    path: Path
    old: bytes | None
    new: bytes | None
    notes: tuple[str, ...] = ()
    backups: tuple[Backup, ...] = ()
    """Of an undo: the backups that it passes, the newest first. The last one is the original."""
    is_partial: bool = False
    """True if something could not be put back: the backups stay."""

    def __repr__(self) -> str:
        return f"Change(client={self.client!r}, path={self.path!r})"

    def diff(self) -> str:
        """The diff, with dots for secrets. They are not known in a text that cannot be parsed: it is left out."""
        texts, values = [], []
        for content in (self.old, self.new):
            text = (content or b"").decode("utf-8-sig", "replace")
            try:
                values.append(parse(text, self.path))
            except (ValueError, RecursionError):
                text = f"({len(text):,} characters that are not {format_name(self.path)})\n"
            texts.append(text)
        old, new = texts
        return diff(old, new, str(self.path), values=values, mask=partial(mask, path=self.path))

    def write(self) -> Path | None:
        """Write the file, or remove it; returns the backup that was made. An undo removes its backups instead.

        Raises:
            InvalidRequest: The file is not `old` any more, or cannot be written.
        """
        if self.backups:
            _check_unchanged(self.path, self.old)
            if self.new is None:
                Path(os.path.realpath(self.path)).unlink(missing_ok=True)
            else:
                replace_file(self.path, self.new, mode=_mode(self.backups[-1].path))
            for backup in () if self.is_partial else self.backups:
                backup.path.unlink()
            return None
        assert self.new is not None  # only an undo removes a file
        if self.old is None and not self.client:
            replace_file(self.path, self.new)
            return None
        return change_file(self.path, old=self.old, new=self.new).path


def plan_apply(client: str, machine: Machine, gateway: Gateway) -> list[Change]:
    """The changes of every file of the client that holds servers, after which sealyard is the only one.

    A client that has none gets sealyard in its user's file. A server that cannot be read stays.

    Raises:
        InvalidConfig: A file cannot be read.
        InvalidRequest: The client cannot reach the gateway.
    """
    places = [place for place in find_places(machine) if place.client == client]
    documents = {place.path: read_document(place.path) if os.path.exists(place.path) else {} for place in places}
    chosen = [place for place in places if find_table(documents[place.path], place.keys)]
    users = [place for place in places if place.project is None]
    chosen = chosen or [place for place in users if os.path.exists(place.path)] or users[:1]
    return [
        _plan_file([place for place in chosen if place.path == path], documents[path], gateway)
        for path in dict.fromkeys(place.path for place in chosen)
    ]


def plan_undo(clients: Iterable[str], machine: Machine) -> tuple[list[Change], list[str]]:
    """The undo of every file of these clients, and a sentence for each file where it cannot be done.

    A file that sealyard wrote last gets its bytes of before. In one that has changed since, sealyard goes and the
    servers that it replaced come back, entry by entry; one that has got its name since stays.
    """
    places = [place for place in find_places(machine) if place.client in clients]
    changes, problems = [], []
    for path in dict.fromkeys(place.path for place in places):
        try:
            if backups := tuple(find_backups(path)):
                changes.append(_plan_undo([place for place in places if place.path == path], backups))
        except SealyardError as error:
            problems.append(str(error))
    return changes, problems


def _plan_undo(places: list[Place], backups: tuple[Backup, ...]) -> Change:
    path = places[0].path
    now, originals = read_bytes(path), [backup.read_original() for backup in backups]
    is_ours = now is None or now == originals[0] or digest(now) == backups[0].digest
    # Each step led to the next one, or did not get beyond its backup.
    steps = zip(originals, originals[1:], backups[1:], strict=False)
    is_ours = is_ours and all(digest(new) == backup.digest or new == old for new, old, backup in steps)
    new, notes = (originals[-1], []) if is_ours else _put_back((now or b"").decode(), backups, places)
    return Change(
        client=places[0].client,
        path=path,
        old=now,
        new=new,
        notes=(*_link_notes(path), *notes),
        backups=backups,
        is_partial=bool(notes),
    )


def _link_notes(path: Path) -> list[str]:
    return [] if path.resolve() == path else [f"{path} is a link: {path.resolve()} is what changes"]


def _put_back(text: str, backups: tuple[Backup, ...], places: list[Place]) -> tuple[bytes | None, list[str]]:
    """The present text without sealyard and with the servers that it replaced, and a note on each that stays out."""
    path, notes = places[0].path, []
    document = read_document(path)
    texts = [_read_text(backup) for backup in reversed(backups)]
    try:
        olds = [parse(each, path) for each in texts]
    except (ValueError, RecursionError):
        raise InvalidConfig(f"A backup of {str(path)!r} cannot be read. Change the file by hand.") from None
    for place in places:
        present = {name: raw for name, raw in find_table(document, place.keys).items() if not _is_ours(name, raw)}
        replaced = {name: raw for old in olds for name, raw in _replaced(old, place).items()}
        first = find_table(olds[0], place.keys)
        if PRESENT in first and not _is_former(first[PRESENT]):
            replaced[PRESENT] = first[PRESENT]  # written by hand before
        changed = [
            name for name in present if name in (PRESENT, FORMER) or replaced.get(name, present[name]) != present[name]
        ]
        notes += [
            f"{name!r} in {str(path)!r} was changed since and stays as it is. What it was is in"
            f" {backups[-1].path.name!r}, which stays"
            for name in changed
        ]
        wanted = replaced | present
        ordered = {name: wanted[name] for name in (*first, *wanted) if name in wanted}
        text, _ = put(text, path, place.keys, ordered, like=texts[0])
    return text.encode(), notes


def _read_text(backup: Backup) -> str:
    return (backup.read_original() or b"").decode("utf-8-sig", "replace")


def _replaced(old: Any, place: Place) -> dict[str, Any]:
    """The servers that sealyard has taken out of a file: those that it can read, without itself."""
    table = find_table(old, place.keys)
    names = {found.name for found in read_servers(old, place)[0]}
    return {name: raw for name, raw in _without_own(table).items() if name in names}


def _is_ours(name: str, raw: Any) -> bool:
    """True for an entry that `sealyard init` wrote, not for another server that has got its name since."""
    if name not in (PRESENT, FORMER) or not isinstance(raw, dict):
        return False
    command, arguments = _command(raw)
    return command is None or starts(command, arguments) or any(PRESENT in each for each in arguments)


def _plan_file(places: list[Place], document: Any, gateway: Gateway) -> Change:
    client, path = places[0].client, places[0].path
    old = read_bytes(path)
    text, notes = (places[0].new.encode() if old is None else old).decode(), _link_notes(path)
    for place in places:
        readable = {found.name for found in read_servers(document, place)[0]}
        others = _without_own(find_table(document, place.keys))
        kept = {name: raw for name, raw in others.items() if name not in readable}
        if unread := [name for name, raw in kept.items() if not is_no_server(raw, client)]:
            notes.append(f"{', '.join(map(repr, unread))} stays: sealyard cannot read it")
        entry = gateway.entry(client, everywhere=place.project is None)
        text, lost = put(text, path, place.keys, {PRESENT: entry, **kept})
        notes += lost
    everywhere = any(place.project is None for place in places)
    return Change(client=client, path=path, old=old, new=text.encode(), notes=tuple(notes), everywhere=everywhere)


def _without_own(servers: dict[str, Any]) -> dict[str, Any]:
    return {name: raw for name, raw in servers.items() if name not in (PRESENT, FORMER)}


# Files and their backups


def digest(content: bytes | None) -> str:
    """A short name for a file's content."""
    return hashlib.sha256(content or b"").hexdigest()[:16]


def read_bytes(path: Path) -> bytes | None:
    """The file's content; `None` if there is no file.

    Raises:
        InvalidRequest: It cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidRequest(f"{str(path)!r} cannot be read: {error.strerror}. Check its rights.") from None


def change_file(path: Path, *, old: bytes | None, new: bytes) -> Backup:
    """Write `new` in place of `old`, after a backup of `old` is on disk beside it.

    Raises:
        InvalidRequest: The file is not `old` any more, or cannot be written.
    """
    _check_unchanged(path, old)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%fZ")
    name = f"{path.name}.sealyard-backup-{now}-{digest(new)}{'-new' if old is None else ''}"
    backup = Backup(path=path.with_name(name), digest=digest(new), was_absent=old is None)
    replace_file(backup.path, old or b"", mode=_mode(path))
    try:
        replace_file(path, new)
    except InvalidRequest:
        backup.path.unlink()
        raise
    return backup


def _check_unchanged(path: Path, old: bytes | None) -> None:
    if read_bytes(path) != old:
        raise InvalidRequest(f"{str(path)!r} was changed by somebody else just now. It is as they left it; try again.")


def find_backups(path: Path) -> list[Backup]:
    """All backups of the file, the newest first. A link is not one."""
    found = []
    for file in path.parent.glob("*") if path.parent.is_dir() else ():
        match = _BACKUP.fullmatch(file.name.removeprefix(path.name)) if file.name.startswith(path.name) else None
        if match and not file.is_symlink() and file.is_file():  # a cloned project may hold a link to any file
            backup = Backup(path=file, digest=match[3], was_absent=match[4] is not None, is_former=match[1] == FORMER)
            found.append((match[2], backup))
    return [backup for _, backup in sorted(found, key=lambda each: each[0], reverse=True)]


def replace_file(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Put `content` in place of the file in one step, with the mode and owner of the old one; links are followed.

    `mode` is for a file that does not exist yet.

    Raises:
        InvalidRequest: The file is read-only, a link to nothing, or cannot be written here.
    """
    target = Path(os.path.realpath(path))
    if os.path.islink(path) and not target.exists():  # a cloned project may hold a link to any place
        raise InvalidRequest(f"{str(path)!r} is a link to {str(target)!r}, where there is no file. Remove the link.")
    try:
        _replace(target, content, mode)
    except OSError as error:
        raise InvalidRequest(
            f"{str(path)!r} cannot be written: {error.strerror}. It is as it was; check its rights and its folder's."
        ) from None


def _replace(target: Path, content: bytes, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    old = target.stat() if target.exists() else None
    if old is not None and (not stat.S_ISREG(old.st_mode) or not old.st_mode & 0o222 or not os.access(target, os.W_OK)):
        # A new file could replace it all the same, but its owner meant it to stay.
        raise InvalidRequest(
            f"{str(target)!r} is read-only or no regular file. It is as it was; make it writable first."
        )
    with drafted(target) as file:
        file.write(content)
        if not hasattr(os, "fchown"):  # Windows, where a new file has the rights of its folder
            return
        if old is not None and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(file.fileno(), old.st_uid, old.st_gid)
        os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode) if old is not None else mode)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600


# Files of the former name


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
            is_readable = os.path.isfile(path) and os.access(path, os.R_OK)  # opening a pipe would wait
            content = (read_bytes(path) if is_readable else None) or b""
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
            for name, raw in find_table(document, place.keys).items():
                if _is_former(raw):
                    names.append(name)
                    text, _ = put(text, path, (*place.keys, name), self._rename(raw, place))
        if names:
            backup = change_file(path, old=old, new=text.encode())
            which = ", ".join(map(repr, dict.fromkeys(names)))
            self.notes.append(f"{which} in {str(path)!r} starts {PRESENT} now. A copy of it is {backup.path.name!r}.")

    def _rename(self, raw: dict[str, Any], place: Place) -> dict[str, Any]:
        """The entry with another command and, where they name the program or its configuration, other arguments."""
        command, arguments = raw["command"], list(_command(raw)[1])
        if is_list := isinstance(command, list):
            command = command[0]
        if starts(command, (), names=(FORMER,)):
            first = self._rename_program(command)
        elif ("-m", FORMER) in itertools.pairwise(arguments):
            after = arguments.index(FORMER, arguments.index("-m")) + 1
            first, arguments = self._rename_module(command, arguments[:after]), arguments[after:]
        else:  # a launcher that finds it by the name of its package
            first = [command]
            arguments = [re.sub(rf"^{FORMER}(?=$|[\[@=<>~!])", PRESENT, each) for each in arguments]
        folder = place.project or self._machine.directory
        arguments = [*first[1:], *(self._follow(each, folder) for each in arguments)]
        return raw | ({"command": [first[0], *arguments]} if is_list else {"command": first[0], "args": arguments})

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


def _with_projects(places: list[Place], document: Any) -> list[Place]:
    """The places; of a file that has servers for each project, those of all projects."""
    found = []
    for place in places:
        if place.keys[0] != "projects":
            found.append(place)
            continue
        found += [
            Place(client=place.client, path=place.path, keys=("projects", key, *place.keys[2:]), project=Path(key))
            for key in find_table(document, ("projects",))
        ]
    return found


def _is_former(raw: Any) -> bool:
    if not isinstance(raw, dict):
        return False
    command, arguments = _command(raw)
    return "command" in raw and starts(command, arguments, names=(FORMER,))


def _command(raw: dict[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """The program that an entry starts, and its arguments; some clients have both in one list."""
    command, arguments = raw.get("command", raw.get("cmd")), raw.get("args")
    if isinstance(command, list) and command:
        command, arguments = command[0], command[1:]
    texts = tuple(each for each in arguments if isinstance(each, str)) if isinstance(arguments, list) else ()
    return (command if isinstance(command, str) else None), texts
