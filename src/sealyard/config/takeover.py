"""Takes over configurations and clients' entries of the product's former name, before a command needs them.

The old configuration stays beside the new one; a client's file has a backup that `init --undo` knows. What cannot be
changed goes on working as it is, and is named in a sentence.
"""

import itertools
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sealyard.config.clients import Place, find_places, read_document
from sealyard.config.files import change_file, read_bytes, replace_file
from sealyard.config.machine import Machine
from sealyard.config.rewrite import put_servers, walk
from sealyard.errors import InvalidRequest, SealyardError
from sealyard.former import FORMER, PRESENT, locked, starts

_OLD, _NEW = f"{FORMER}.toml", f"{PRESENT}.toml"
_EXAMPLES = f"{FORMER}.examples.".encode()
"""The servers to try the product with, which a configuration may start."""
_STARTED = re.compile(rb"[\"'/\\]" + FORMER.encode() + rb"(\.exe)?[\"'\[@=<>~!]")
"""What every entry of a client that starts the former program has somewhere in its text. Files without it, which are
most, are not parsed."""


def take_over_files(machine: Machine, own: Sequence[str]) -> list[str]:
    """Take over what is here and in the user's folders; what was done or could not be, in sentences.

    `own` is the command that starts this program. Nothing to do costs a look at each file.
    """
    taking = _Taking(machine, own)
    for new in (machine.directory / _NEW, machine.config_folder / _NEW):
        taking.take_config(machine.former_config(new), new)
    places = find_places(machine)
    for path in dict.fromkeys(place.path for place in places):
        try:
            content = (read_bytes(path) if _is_readable(path) else None) or b""
            if FORMER.encode() in content and _STARTED.search(content):  # the first look is ten times as quick
                with locked(path.parent):  # who comes second finds nothing to change
                    taking.change_client([place for place in places if place.path == path])
        except (SealyardError, OSError) as error:
            taking.notes.append(f"{str(path)!r} may still start the former program. {error}")
    return taking.notes


class _Taking:
    """One start of a command."""

    def __init__(self, machine: Machine, own: Sequence[str]) -> None:
        self.notes: list[str] = []
        self._machine = machine
        self._own = own

    def take_config(self, old: Path, new: Path) -> None:
        """Copy a configuration to its present place, unless there is one. What a link leads to may not be ours."""
        if os.path.exists(new) or not os.path.isfile(old) or os.path.islink(old):
            return
        try:
            new.parent.mkdir(parents=True, exist_ok=True)
            with locked(new.parent):
                if os.path.exists(new):
                    return  # another process was quicker
                text = (read_bytes(old) or b"").replace(_EXAMPLES, _EXAMPLES.replace(FORMER.encode(), PRESENT.encode()))
                replace_file(new, text, mode=stat.S_IMODE(old.stat().st_mode))
        except (InvalidRequest, OSError):
            return  # `load_config` reads it where it is, and says so
        self.notes.append(
            f"{str(old)!r} was copied to {str(new)!r}, which counts from now on. The old file stays as a backup."
        )

    def change_client(self, places: list[Place]) -> None:
        """Let the entries of one file that start the former program start this one. All else in them stays."""
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
        """An interpreter at a path may be one that has not this program; one that is named is most likely ours."""
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
    """Not a pipe, which would be waited for, nor what the client cannot read either."""
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
