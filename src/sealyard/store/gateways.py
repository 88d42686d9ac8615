"""Which gateways use a store, and what becomes of the executions of one that is gone.

Each holds a lock on a file of its own in `<store>.d` for as long as it lives; the kernel lets go of it when the process
ends, however it ends. Whose lock can be taken is gone. Opening happens one at a time, under a lock in the same folder.
"""

import fcntl
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from sealyard.errors import StoreError
from sealyard.former import copy_beside
from sealyard.store.database import BUSY_SECONDS, connect, explain, take_over
from sealyard.store.replacement import roll_back

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.01


@contextmanager
def open_as_gateway(path: Path) -> Iterator[tuple[sqlite3.Connection, str]]:
    """A connection that writes and the id of this gateway, whose running executions no other one declares lost.

    Raises:
        StoreError: The store cannot be opened.
    """
    with ExitStack() as held:
        try:
            connection, owner = _enter(path, held)
        except (OSError, sqlite3.Error) as error:
            raise explain(path, "opened", error) from error
        yield connection, owner


def is_alive(path: Path, owner: str) -> bool:
    """Whether the gateway of that id, which has opened the store at some time, still has it open."""
    try:
        descriptor = os.open(path.with_name(f"{path.name}.d") / f"{owner}.lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def keep_closed(path: Path) -> Iterator[Path]:
    """Nobody has the store open, or can open it, until the block ends. It gives the folder `<store>.d`.

    Raises:
        StoreError: A gateway has it open.
    """
    with ExitStack() as held:
        try:
            folder = _close_door(path, held)
            alive = len(_find_alive(folder))
        except OSError as error:
            raise explain(path, "locked", error) from error
        if alive:
            which = "a gateway has" if alive == 1 else f"{alive} gateways have"
            raise StoreError(
                f"The store {str(path)!r} cannot be replaced: {which} it open. Stop `sealyard serve` first."
            )
        yield folder


def _close_door(path: Path, held: ExitStack) -> Path:
    """Keep others from opening the store, and put back what an interrupted restore has left of it."""
    take_over(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = path.with_name(f"{path.name}.d")
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _lock(folder / "opening", held, wait_seconds=BUSY_SECONDS):
        raise StoreError(f"The store {str(path)!r} is being opened by another program. End it, or wait for it.")
    roll_back(path)
    return folder


def _enter(path: Path, held: ExitStack) -> tuple[sqlite3.Connection, str]:
    with ExitStack() as opening:
        folder = _close_door(path, opening)
        alive = _find_alive(folder)
        keep = partial(_keep_former, path, is_open=bool(alive))
        connection = held.enter_context(closing(connect(path, on_former=keep)))
        _declare_lost(connection, alive=alive)
        owner = secrets.token_hex(8)
        own = folder / f"{owner}.lock"
        _lock(own, held)
        held.callback(own.unlink, missing_ok=True)
    return connection, owner


def _keep_former(path: Path, *, is_open: bool) -> None:
    """Keep a copy of a store of the product's former name, whose rows are about to be renamed."""
    if is_open:  # it would go on counting under names that nobody looks for any more
        raise StoreError(
            f"The store {str(path)!r} is open in a gateway of the product's former name. Stop that gateway, then start"
            " again: the store is taken over then."
        )
    kept = copy_beside(path)
    _log.warning("The store %s was made under the product's former name. A copy is in %s.", path, kept)


def _find_alive(folder: Path) -> list[str]:
    """The gateways that hold their lock; the files of the others are removed."""
    alive = []
    for file in folder.glob("*.lock"):
        with ExitStack() as lock:
            if _lock(file, lock):
                file.unlink(missing_ok=True)
            else:
                alive.append(file.stem)
    return alive


def _declare_lost(connection: sqlite3.Connection, *, alive: list[str]) -> None:
    marks = ", ".join("?" * len(alive))
    connection.execute(
        f"UPDATE executions SET status = 'lost' WHERE status = 'running' AND owner NOT IN ({marks})",  # noqa: S608
        alive,
    )


def _lock(file: Path, held: ExitStack, *, wait_seconds: float = 0) -> bool:
    """Hold the lock on `file`, which is made if need be, until `held` is closed; False if somebody else holds it."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    held.callback(os.close, descriptor)
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True
