"""Keeps files as they were before sealyard changed them, in the user's own folder, with a record of each change.

An undo trusts these records and nothing else: a file beside the client's own may have come with a cloned project. The
first line of a backup is the record, and all after it is the content as it was.
"""

import datetime
import hashlib
import json
import os
import re
import secrets
from pathlib import Path

import msgspec

from sealyard.config.settings import Machine
from sealyard.disk import drafted, locked
from sealyard.errors import InvalidConfig, InvalidRequest

_NAME = re.compile(r".*-[0-9]{8}T[0-9]{12}Z-[0-9a-f]{8}", re.DOTALL)
_NAME_CHARACTERS = 40
"""Of the file's own name, so that a long one leaves room for the rest."""


class Table(msgspec.Struct, frozen=True):
    """An object of servers in which sealyard took the place of others."""

    keys: tuple[str, ...]
    """The path to it in the file."""
    names: tuple[str, ...]
    """The entries that were taken out."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a file."""

    file: str
    client: str
    """Empty for a file of sealyard's own."""
    at: str
    written: str
    """The digest of what was written: another one means that somebody has changed the file since."""
    original: str | None
    """The digest of what was there; `None` if there was no file."""
    mode: int
    inside: str | None = None
    """The project of the file, as in a `Place`."""
    tables: tuple[Table, ...] = ()
    """Empty if the change only renamed what is started, which an undo leaves."""


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A record, and the file that holds it and the content."""

    path: Path
    record: Record
    is_former: bool = False
    """The product made it under its former name, beside the client's file: it is the content alone."""

    def read_original(self) -> bytes | None:
        """The file as it was; `None` if there was none.

        Raises:
            InvalidConfig: The backup is not as it was made.
        """
        if self.record.original is None:
            return None
        try:
            content = self.path.read_bytes()
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
            raise InvalidConfig(
                f"The backup {str(self.path)!r} {why}. Put {self.record.file!r} back by hand."
            ) from None
        content = content if self.is_former else content.partition(b"\n")[2]
        if not self.is_former and digest(content) != self.record.original:
            raise InvalidConfig(f"The backup {str(self.path)!r} has changed. Put {self.record.file!r} back by hand.")
        return content


def digest(content: bytes | None) -> str:
    """A name for a file's content."""
    return hashlib.sha256(content or b"").hexdigest()


def stamp() -> str:
    """The present moment, in a form that sorts."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%fZ")


def backup_folder(machine: Machine) -> Path:
    """The folder of all backups, beside the default store."""
    return machine.data_folder / "clients"


def write_backup(folder: Path, record: Record, content: bytes) -> Backup:
    """Write a backup that only its owner can read, wholly or not at all.

    Raises:
        InvalidRequest: It cannot be written.
    """
    name = Path(record.file).name[:_NAME_CHARACTERS]
    path = folder / f"{name}-{record.at}-{secrets.token_hex(4)}"
    # Paths may hold bytes that are no text, which only escapes can express.
    line = json.dumps(msgspec.to_builtins(record)).encode() + b"\n"
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        with locked(folder), drafted(path, draft_name=".draft") as file:
            file.write(line + content)
    except OSError as error:
        raise InvalidRequest(
            f"No backup of {record.file!r} can be written to {str(folder)!r}: {error.strerror}. The file is as it was;"
            " make the folder writable."
        ) from None
    return Backup(path=path, record=record)


def find_backups(machine: Machine) -> tuple[list[Backup], list[str]]:
    """All backups, and a sentence about each that cannot be read."""
    folder, found, problems = backup_folder(machine), [], []
    for path in sorted(folder.iterdir()) if os.path.isdir(folder) else ():
        if _NAME.fullmatch(path.name) and path.is_file():
            try:
                with open(path, "rb") as file:
                    record = msgspec.convert(json.loads(file.readline()), Record)
            except (OSError, ValueError, msgspec.ValidationError):
                problems.append(f"{str(path)!r} is no backup that sealyard can read. Look into it, and remove it.")
            else:
                found.append(Backup(path=path, record=record))
    return found, problems
