"""Puts sealyard into a client's file in place of its servers, and takes it out again. All other text stays unchanged.

A crash leaves the old file or the new one, and the replaced content is kept for an undo; see `backups`.
`take_over_files` changes configurations and clients' entries of the product's former name in the same way.
"""

import difflib
import itertools
import os
import re
import stat
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sealyard.config.clients.backups import (
    Backup,
    Record,
    Table,
    backup_folder,
    digest,
    find_backups,
    stamp,
    write_backup,
)
from sealyard.config.clients.documents import (
    decode,
    find_table,
    format_name,
    parse,
    parse_file,
    put,
    read_bytes,
    render,
)
from sealyard.config.clients.known import Gateway
from sealyard.config.clients.servers import Place, find_places, is_no_server, read_servers
from sealyard.config.references import conceal
from sealyard.config.settings import Machine
from sealyard.disk import drafted, locked
from sealyard.errors import InvalidConfig, InvalidRequest, SealyardError
from sealyard.former import FORMER, PRESENT, starts

_FORMER_BACKUP = re.compile(rf"\.{FORMER}-backup-([0-9]{{8}}T[0-9]{{12}}Z)-([0-9a-f]{{16}})(-new)?")
_OLD, _NEW = f"{FORMER}.toml", f"{PRESENT}.toml"
_OWN = (PRESENT, FORMER)
_EXAMPLES = f"{FORMER}.examples.".encode()
"""The servers to try the product with, which a configuration may start."""
_STARTED = re.compile(rb"[\"'/\\]" + FORMER.encode() + rb"(\.exe)?[\"'\[@=<>~!]")
"""A mark in the text of every entry that starts the former program. Files without it are not parsed."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A file before and after. `None`: there is no file."""

    client: str
    """Empty for a file of sealyard's own: a new one needs no backup."""
    everywhere: bool = False
    """True if a server in the file counts in every folder."""
    in_project: bool = False
    """True if one counts in the project alone. A file may have both."""
    path: Path
    inside: Path | None = None
    """As in a `Place`."""
    old: bytes | None
    new: bytes | None
    notes: tuple[str, ...] = ()
    kept_in: Path
    """The folder of backups."""
    tables: tuple[Table, ...] = ()
    """The objects of servers that it changes."""
    backups: tuple[Backup, ...] = ()
    """Of an undo: the backups that it passes, the newest first. The last one is the original."""
    is_partial: bool = False
    """True if something could not be put back: the backups stay."""

    def __repr__(self) -> str:
        return f"Change(client={self.client!r}, path={self.path!r})"

    def diff(self) -> str:
        """The settings that differ, with dots for secrets. Comments and layout are left out: they may hold any secret.

        A text that cannot be parsed is left out too.
        """
        values: list[Any] = []
        for content in (self.old, self.new):
            text = (content or b"").decode(errors="replace")
            try:
                values.append(parse(text, self.path))
            except (ValueError, RecursionError):
                values.append(f"({len(text):,} characters that are not {format_name(self.path)})\n")
        texts = [
            each if isinstance(each, str) else render(conceal(each), self.path) if each else ""
            for each in _differences(*values)
        ]
        old, new = (each.splitlines() for each in texts)
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path), lineterm="")
        return "".join(f"{line}\n" for line in lines)

    def write(self) -> Path | None:
        """Write the file, or remove it; returns the backup that was made. An undo removes its backups instead.

        Raises:
            InvalidRequest: The file is not `old` any more, or cannot be written.
        """
        if self.backups:
            replace_file(self.path, old=self.old, new=self.new, inside=self.inside, mode=self.backups[-1].record.mode)
            for backup in () if self.is_partial else self.backups:
                backup.path.unlink()
            return None
        if self.old is None and not self.client:
            replace_file(self.path, old=None, new=self.new, inside=self.inside)
            return None
        record = Record(
            file=str(self.path),
            client=self.client,
            at=stamp(),
            written=digest(self.new),
            original=None if self.old is None else digest(self.old),
            mode=stat.S_IMODE(self.path.stat().st_mode) if self.path.exists() else 0o600,
            inside=None if self.inside is None else str(self.inside),
            tables=self.tables,
        )
        backup = write_backup(self.kept_in, record, self.old or b"")
        try:
            replace_file(self.path, old=self.old, new=self.new, inside=self.inside)
        except SealyardError:
            backup.path.unlink()
            raise
        return backup.path


def _differences(old: Any, new: Any) -> tuple[Any, Any]:
    """Both values without the members that are equal in both, at every level."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return old, new
    pairs = {key: _differences(old[key], new[key]) for key in old if key in new and old[key] != new[key]}
    olds = {key: pairs[key][0] if key in pairs else each for key, each in old.items() if key in pairs or key not in new}
    news = {key: pairs[key][1] if key in pairs else each for key, each in new.items() if key in pairs or key not in old}
    return olds, news


def plan_apply(client: str, machine: Machine, gateway: Gateway) -> list[Change]:
    """The changes of every file of the client that holds servers, after which sealyard is the only one.

    A client that has none gets sealyard in its user's file. A server that cannot be read stays.

    Raises:
        InvalidConfig: A file cannot be read.
        InvalidRequest: The client cannot reach the gateway, or a project's file is a link out of it.
    """
    places = [place for place in find_places(machine) if place.client == client]
    contents = {path: read_bytes(path) for path in dict.fromkeys(place.path for place in places)}
    # Read once: a client may write its file at any moment, and what is planned must be of one state of it.
    documents = {path: parse_file(decode(content or b"", path), path) for path, content in contents.items()}
    chosen = [place for place in places if find_table(documents[place.path], place.keys)]
    users = [place for place in places if place.project is None]
    chosen = chosen or [place for place in users if contents[place.path] is not None] or users[:1]
    return [
        _plan_file([place for place in chosen if place.path == path], contents[path], documents[path], gateway, machine)
        for path in dict.fromkeys(place.path for place in chosen)
    ]


def plan_undo(clients: Collection[str], machine: Machine) -> tuple[list[Change], list[str]]:
    """The undo of every file of these clients, wherever it is, and a sentence for each where it cannot be done.

    A file that sealyard wrote last gets its bytes of before. In one that has changed since, sealyard goes and the
    servers that it replaced come back, entry by entry; one that has got its name since stays. A file whose folder is
    gone is passed over, and its backup stays.
    """
    backups, problems = find_backups(machine)
    backups += _former_backups(machine)
    files: dict[str, list[Backup]] = {}
    for backup in sorted(backups, key=lambda each: each.record.at, reverse=True):
        files.setdefault(backup.record.file, []).append(backup)
    changes = []
    for file, found in files.items():
        while found and not found[-1].record.tables:  # before the first change that an undo undoes
            found.pop()
        if found and found[0].record.client in clients and os.path.isdir(os.path.dirname(file)):
            try:
                changes.append(_plan_undo(Path(file), tuple(found), machine))
            except SealyardError as error:
                problems.append(str(error))
    return changes, problems


def _plan_undo(path: Path, backups: tuple[Backup, ...], machine: Machine) -> Change:
    newest = backups[0].record
    inside = Path(newest.inside) if newest.inside is not None else None
    follow(path, inside)
    now, originals = read_bytes(path), [backup.read_original() for backup in backups]
    is_ours = now is None or now == originals[0] or digest(now).startswith(newest.written)
    # Each step led to the next one, or did not get beyond its backup.
    steps = zip(originals, originals[1:], backups[1:], strict=False)
    is_ours = is_ours and all(digest(new).startswith(backup.record.written) or new == old for new, old, backup in steps)
    new, notes = (originals[-1], []) if is_ours else _put_back(decode(now or b"", path), path, originals, backups)
    return Change(
        client=newest.client,
        path=path,
        inside=inside,
        old=now,
        new=new,
        notes=(*_link_notes(path), *notes),
        kept_in=backup_folder(machine),
        backups=backups,
        is_partial=bool(notes),
    )


def _link_notes(path: Path) -> list[str]:
    return [] if path.resolve() == path else [f"{path} is a link: {path.resolve()} is what changes"]


def _put_back(
    text: str, path: Path, originals: list[bytes | None], backups: tuple[Backup, ...]
) -> tuple[bytes, list[str]]:
    """The present text without sealyard and with the servers that it replaced, and a note on each that stays out."""
    document, notes = parse_file(text, path), []
    try:
        texts = [(content or b"").decode() for content in reversed(originals)]
        olds = [parse(each, path) for each in texts]
    except (ValueError, RecursionError):
        raise InvalidConfig(f"A backup of {str(path)!r} cannot be read. Change the file by hand.") from None
    steps = list(zip(olds, texts, (backup.record.tables for backup in reversed(backups)), strict=True))
    for keys in dict.fromkeys(table.keys for _, _, tables in steps for table in tables):
        own = [(old, like, table.names) for old, like, tables in steps for table in tables if table.keys == keys]
        first = find_table(own[0][0], keys)
        present = {name: raw for name, raw in find_table(document, keys).items() if not _is_ours(name, raw)}
        replaced = {
            name: raw
            for old, _, names in own
            for name, raw in find_table(old, keys).items()
            # One of sealyard's name comes back if it was there before the first step, and not of its former product.
            if name in names and (name not in _OWN or (name in first and not _is_former(first[name])))
        }
        replaced |= {name: first[name] for name in _OWN if name in replaced}
        changed = [name for name in present if name in _OWN or replaced.get(name, present[name]) != present[name]]
        notes += [
            f"{name!r} in {str(path)!r} was changed since and stays as it is. What it was is in"
            f" {str(backups[-1].path)!r}, which stays"
            for name in changed
        ]
        wanted = replaced | present
        ordered = {name: wanted[name] for name in (*first, *wanted) if name in wanted}
        text, _ = put(text, path, keys, ordered, like=own[0][1])
    return text.encode(), notes


def _former_backups(machine: Machine) -> list[Backup]:
    """The backups that the product made under its former name, beside clients' files in the user's own folders.

    Those in a project may have come with it.
    """
    found = []
    places = [place for place in find_places(machine) if place.inside is None]
    for path in dict.fromkeys(place.path for place in places):
        names = os.listdir(path.parent) if path.parent.is_dir() else []
        ends = ((name, _FORMER_BACKUP.fullmatch(name.removeprefix(path.name))) for name in sorted(names))
        files = [(path.with_name(name), match) for name, match in ends if match and name.startswith(path.name)]
        files = [(file, match) for file, match in files if file.is_file() and not file.is_symlink()]
        documents = [_read_quietly(file, path) for file, _ in files] + [_read_quietly(path, path)]
        for (file, match), old, new in zip(files, documents, documents[1:], strict=False):
            own = _with_projects([place for place in places if place.path == path], old)
            tables = (
                Table(keys=place.keys, names=_replaced(old, place))
                for place in own
                # It changed one project of all those in the file.
                if place.project is None or any(name in _OWN for name in find_table(new, place.keys))
            )
            record = Record(
                file=str(path),
                client=own[0].client,
                at=match[1],
                written=match[2],
                original=None if match[3] else digest(read_bytes(file)),
                mode=stat.S_IMODE(file.stat().st_mode),
                tables=tuple(tables),
            )
            found.append(Backup(path=file, record=record, is_former=True))
    return found


def _read_quietly(file: Path, path: Path) -> Any:
    """The value of another text of the file at `path`; an empty object if it cannot be read."""
    try:
        return parse_file(decode(read_bytes(file) or b"", path), path)
    except InvalidConfig:
        return {}


def _replaced(old: Any, place: Place) -> tuple[str, ...]:
    """The servers that sealyard takes out of a file: those that it can read, and itself."""
    table = find_table(old, place.keys)
    names = {found.name for found in read_servers(old, place)[0]}
    return tuple(name for name in table if name in names or name in _OWN)


def _is_ours(name: str, raw: Any) -> bool:
    """True for an entry that `sealyard init` wrote, not for another server that has got its name since."""
    if name not in _OWN or not isinstance(raw, dict):
        return False
    command, arguments = _command(raw)
    return command is None or starts(command, arguments) or any(PRESENT in each for each in arguments)


def _plan_file(places: list[Place], old: bytes | None, document: Any, gateway: Gateway, machine: Machine) -> Change:
    first, notes, tables = places[0], _link_notes(places[0].path), []
    follow(first.path, first.inside)
    text = first.new if old is None else decode(old, first.path)
    for place in places:
        table, names = find_table(document, place.keys), _replaced(document, place)
        kept = {name: raw for name, raw in table.items() if name not in names}
        if unread := [name for name, raw in kept.items() if not is_no_server(raw, place.client)]:
            notes.append(f"{', '.join(map(repr, unread))} stays: sealyard cannot read it")
        entry = gateway.entry(place.client, everywhere=place.project is None)
        text, lost = put(text, place.path, place.keys, {PRESENT: entry, **kept})
        notes += lost
        tables.append(Table(keys=place.keys, names=names))
    return Change(
        client=first.client,
        everywhere=any(place.project is None for place in places),
        in_project=any(place.project is not None for place in places),
        path=first.path,
        inside=first.inside,
        old=old,
        new=text.encode(),
        notes=tuple(notes),
        kept_in=backup_folder(machine),
        tables=tuple(tables),
    )


# Writing


def follow(path: Path, inside: Path | None) -> Path:
    """The file that a path leads to.

    Raises:
        InvalidRequest: A link leads out of the project that the file is `inside`, or to nothing.
    """
    target = Path(os.path.realpath(path))
    if inside is not None and not target.is_relative_to(os.path.realpath(inside)):
        raise InvalidRequest(
            f"{str(path)!r} leads to {str(target)!r}, which is not in the project {str(inside)!r}. It stays as it is;"
            " a project must not choose what else is written, so change that file by hand."
        )
    if os.path.islink(path) and not target.exists():
        raise InvalidRequest(f"{str(path)!r} is a link to {str(target)!r}, where there is no file. Remove the link.")
    return target


def replace_file(
    path: Path, *, old: bytes | None, new: bytes | None, inside: Path | None = None, mode: int = 0o600
) -> None:
    """Put `new` in place of `old` in one step, with the mode and owner of the file. Links are followed as by `follow`.

    `mode` is for a file that does not exist yet.

    Raises:
        InvalidRequest: The file is not `old` any more, is read-only, or cannot be written here.
    """
    target = follow(path, inside)
    try:
        if new is not None:
            _replace(path, target, old, new, mode)
        else:
            _check_unchanged(path, old)
            target.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidRequest(
            f"{str(path)!r} cannot be written: {error.strerror}. It is as it was; check its rights and its folder's."
        ) from None


def _replace(path: Path, target: Path, old: bytes | None, new: bytes, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    state = target.stat() if target.exists() else None
    if state is not None and (not state.st_mode & 0o222 or not os.access(target, os.W_OK)):
        # A new file could replace it all the same, but its owner meant it to stay.
        raise InvalidRequest(f"{str(target)!r} is read-only. It is as it was; make it writable first.")
    with drafted(target) as file:
        file.write(new)
        if hasattr(os, "fchown"):  # not on Windows, where a new file has the rights of its folder
            if state is not None and (state.st_uid, state.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), state.st_uid, state.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(state.st_mode) if state is not None else mode)
        file.flush()
        os.fsync(file.fileno())
        _check_unchanged(path, old)  # last, as a client may write it at any moment


def _check_unchanged(path: Path, old: bytes | None) -> None:
    if read_bytes(path) != old:
        raise InvalidRequest(f"{str(path)!r} was changed by somebody else just now. It is as they left it; try again.")


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
                replace_file(new, old=None, new=text, mode=stat.S_IMODE(old.stat().st_mode))
        except (SealyardError, OSError):
            return  # `load_config` reads it where it is, and says so
        self.notes.append(
            f"{str(old)!r} was copied to {str(new)!r}, which counts from now on. The old file stays as a backup."
        )

    def change_client(self, places: list[Place]) -> None:
        """Make the entries of one file that start the former program start this one. The rest of them stays."""
        path, inside = places[0].path, places[0].inside
        old = read_bytes(path)
        text = decode(old or b"", path)
        document = parse_file(text, path)
        names: list[str] = []
        for place in _with_projects(places, document):
            for name, raw in find_table(document, place.keys).items():
                if _is_former(raw):
                    names.append(name)
                    text, _ = put(text, path, (*place.keys, name), self._rename(raw, place))
        if names:
            kept_in = backup_folder(self._machine)
            client = places[0].client
            change = Change(client=client, path=path, inside=inside, old=old, new=text.encode(), kept_in=kept_in)
            which = ", ".join(map(repr, dict.fromkeys(names)))
            self.notes.append(
                f"{which} in {str(path)!r} starts {PRESENT} now. A copy of it is {str(change.write())!r}."
            )

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
