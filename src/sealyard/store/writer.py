"""The thread that writes: it commits all waiting rows in one transaction, table by table.

No waiting row is dropped. When a write fails, every waiting caller gets the error, the rows keep their place, and the
thread tries again when a caller waits or a moment later, whichever comes first. A change is never made after its caller
got an error: it leaves the queue when its write fails. One that fails by itself costs its own caller only: the others
are committed without it. No exception of a write ends the thread.
"""

import asyncio
import logging
import os
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from sealyard.errors import StoreError
from sealyard.store.database import explain
from sealyard.store.gateways import open_as_gateway

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

WriteRows = Callable[[sqlite3.Connection, list[_T]], None]
"""Writes all rows of one kind that a transaction has, in their order; it is called again if that fails."""

Write = Callable[[sqlite3.Connection], object]
"""Executes statements inside a transaction, after its rows are written; it is called again if that fails."""

Around = Callable[[sqlite3.Connection], AbstractContextManager[None]]
"""Wraps a transaction and adds content about all its rows; it is called again if that fails."""

ROW_BYTES = 1024
"""Memory of a row beside its large values, roughly."""

_LINGER_SECONDS = 0.04
"""The time for which a row waits for others: it is on disk within 50 ms, even if the loop is a little late."""
_RETRY_SECONDS = 1.0
"""Between two attempts of a failed write that no caller waits for: a full disk is not made room on any faster."""
_MANY_ROWS = 512
"""Rows that are written without waiting for more: chosen, not measured."""
_BACKLOG_BYTES = 32 << 20
"""Memory of waiting rows, roughly, before `room` waits for their write: some seconds of calls with large answers."""
_LOOK_SECONDS = 0.05
"""The longest time between two checks of the file by `has_room`: as long as a row may wait."""


class _ChangeFailed(Exception):
    """A change failed by itself: the transaction is made again without it."""


class _Change(Generic[_T]):
    """Statements with a result, which are executed until they are committed or have failed."""

    value: _T

    def __init__(self, work: Callable[[sqlite3.Connection], _T]) -> None:
        self._work = work
        self.error: Exception | None = None
        self.is_committed = False

    def __call__(self, connection: sqlite3.Connection) -> None:
        if self.error is not None:
            return
        try:
            self.value = self._work(connection)
        except (sqlite3.Error, StoreError):
            raise
        except Exception as error:
            self.error = error
            raise _ChangeFailed from error

    def end(self, failure: str) -> None:
        """Note that its transaction is committed, or has failed."""
        self.is_committed = not failure
        if failure and self.error is None:
            self.error = StoreError(failure)


class Writer:
    """Owns the connection that writes. Its methods are for the event loop that made it."""

    owner: str
    """The id of this gateway in the store, set when `open` returns."""

    def __init__(self, path: Path, around: Around) -> None:
        self._path = path
        self._name = str(path)
        self._around = around
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._failure = ""
        self._broke = f"The writer of the store {self._name!r} broke. Restart the gateway and report this."
        """The failure by a fault of our own."""
        self._file: tuple[int, int] | None = None
        """The identity of the store's file; set by the thread before `_opened`."""
        self._seen_at = 0.0
        """The time of the last check that the file is in its place."""
        self._timer: asyncio.TimerHandle | None = None
        """Fires when the oldest waiting row has waited long enough."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        # Both threads change these, under the lock.
        self._waiting: list[tuple[WriteRows[Any], Any]] = []
        self._flushes: list[asyncio.Future[None]] = []
        self._backlog_bytes = 0
        self._is_writing = False
        self._is_urgent = False
        self._is_closing = False
        self._has_ended = False
        # A daemon: an interpreter that ends without closing the store does not hang.
        threading.Thread(target=self._run, name="sealyard-store-writer", daemon=True).start()

    async def open(self) -> None:
        """Wait until the store is open. Raises `StoreError` if it cannot be opened."""
        await self._opened

    def put(self, write: Write, size_bytes: int) -> None:
        """Enqueue statements whose values take about `size_bytes` of memory. Raises as `put_row` does."""
        self.put_row(_write_each, write, size_bytes)

    async def change(self, work: Callable[[sqlite3.Connection], _T], size_bytes: int = ROW_BYTES) -> _T:
        """Execute statements and return their result once it is on disk.

        What else `work` raises is raised here. After an error nothing of it is written, now or later.

        Raises:
            StoreError: It could not be written.
        """
        change = _Change(work)
        self.put(change, size_bytes)
        try:
            await self.flush()
        except StoreError:
            if change.error is None and not change.is_committed:
                raise
        if change.error is not None:
            raise change.error
        return change.value

    def put_row(self, write: WriteRows[_T], row: _T, size_bytes: int) -> None:
        """Enqueue a row that takes about `size_bytes` of memory; `write` gets all its rows of a transaction at once.

        Raises `StoreError` once the store is closed.
        """
        with self._lock:
            if self._is_closing:
                raise StoreError(f"The store {self._name!r} is closed. Open it again to record more.")
            self._waiting.append((write, row))
            self._backlog_bytes += size_bytes
            count = len(self._waiting)
            if count == _MANY_ROWS:
                self._hurry()
        if count == 1:
            # A timer of the loop: waking the thread only to wait costs both a turn, and most rows are flushed earlier.
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(_LINGER_SECONDS, self._end_linger)

    async def flush(self) -> None:
        """Wait until every earlier row is on disk. Raises as `start_flush` does."""
        if (done := self.start_flush()) is not None:
            await done

    def start_flush(self) -> "asyncio.Future[None] | None":
        """Start to write every earlier row; the future is done when all are on disk, None if they already are.

        Raises:
            StoreError: It could not be written, which the future raises too. The rows stay for a later attempt.
        """
        with self._lock:
            if not self._waiting and not self._is_writing:
                return None
            if self._has_ended:
                raise StoreError(self._failure)
            done: asyncio.Future[None] = self._loop.create_future()
            self._flushes.append(done)
            self._hurry()
        return done

    async def room(self, most_bytes: int = _BACKLOG_BYTES) -> None:
        """Return at once while at most `most_bytes` wait and writing works, otherwise when all rows are written.

        Raises:
            StoreError: The store's file is gone, or what `flush` raises.
        """
        if gone := self._gone():
            raise StoreError(gone)
        if self._backlog_bytes > most_bytes or self._failure:
            await self.flush()

    def has_room(self) -> bool:
        """True if `room` would return at once, without another check of the file."""
        is_seen = time.monotonic() - self._seen_at < _LOOK_SECONDS
        return is_seen and self._backlog_bytes <= _BACKLOG_BYTES and not self._failure

    async def close(self) -> None:
        """Write the waiting rows and close the store. Raises `StoreError` for rows that could not be written."""
        with self._lock:
            self._is_closing = True
            self._hurry()
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.shield(self._ended)

    def _end_linger(self) -> None:
        with self._lock:
            if self._waiting:
                self._hurry()

    def _hurry(self) -> None:
        """Wake the thread to write the waiting rows; the caller holds the lock."""
        self._is_urgent = True
        self._changed.notify()

    # In the thread

    def _run(self) -> None:
        failure = self._broke
        try:
            with open_as_gateway(self._path) as (connection, owner):
                self.owner = owner
                self._file = _identify(self._name)
                self._settle([self._opened])
                while self._write_batch(connection):
                    pass
            failure = self._failure
        except StoreError as error:
            failure = str(error)
        finally:
            with self._lock:
                self._is_closing = True
                self._has_ended = True
                self._failure = failure
                is_all_written = not self._waiting and not self._is_writing
            self._settle([self._opened, *self._flushes], failure)
            self._settle([self._ended], "" if is_all_written else f"Not all was recorded. {failure}")

    def _write_batch(self, connection: sqlite3.Connection) -> bool:
        """Write the waiting rows; False if the store is being closed and this was the last write."""
        with self._lock:
            self._changed.wait_for(lambda: self._is_urgent, _RETRY_SECONDS if self._failure else None)
            batch, self._waiting = self._waiting, []
            flush_count = len(self._flushes)
            size_bytes = self._backlog_bytes
            is_last = self._is_closing
            self._is_urgent = False
            self._is_writing = True
        self._failure = self._commit(connection, batch) if batch else ""
        for _, row in batch:
            if isinstance(row, _Change):
                row.end(self._failure)
        with self._lock:
            self._is_writing = False
            flushes, self._flushes = self._flushes[:flush_count], self._flushes[flush_count:]
            if self._failure:
                self._waiting = [each for each in batch if not isinstance(each[1], _Change)] + self._waiting
            else:
                self._backlog_bytes -= size_bytes
        self._settle(flushes, self._failure)
        return not is_last

    def _gone(self) -> str:
        """The error if the store's file is not in its place, otherwise empty."""
        if _identify(self._name) == self._file:
            self._seen_at = time.monotonic()
            return ""
        # SQLite would continue to write into the old file, which no reader can open.
        return f"The store {self._name!r} was removed or replaced while it was open. Restart the gateway."

    def _commit(self, connection: sqlite3.Connection, batch: list[tuple[WriteRows[Any], Any]]) -> str:
        """Commit rows; returns the error, or an empty text."""
        if gone := self._gone():
            return gone
        rows: defaultdict[WriteRows[Any], list[Any]] = defaultdict(list)
        for write, row in batch:
            rows[write].append(row)
        statements = rows.pop(_write_each, [])
        failure = None
        while failure is None:
            failure = self._transact(connection, rows, statements)
        return failure

    def _transact(
        self, connection: sqlite3.Connection, rows: dict[WriteRows[Any], list[Any]], statements: list[Write]
    ) -> str | None:
        """Make one transaction; returns the error, an empty text, or None if it is to be made without a change."""
        try:
            connection.execute("BEGIN IMMEDIATE")
            with self._around(connection):
                for write, some in rows.items():
                    write(connection, some)
                _write_each(connection, statements)
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - rows that cannot be written now must not be lost with the thread
            if connection.in_transaction:  # some errors already end it
                connection.execute("ROLLBACK")
            return None if isinstance(error, _ChangeFailed) else self._explain(error)
        return ""

    def _explain(self, error: Exception) -> str:
        if isinstance(error, sqlite3.Error):
            return str(explain(self._path, "written", error))
        if isinstance(error, StoreError):
            return str(error)
        if self._failure != self._broke:  # else it is the same again
            _log.error("%s", self._broke, exc_info=error)
        return self._broke

    def _settle(self, futures: Iterable[asyncio.Future[None]], failure: str = "") -> None:
        with suppress(RuntimeError):  # the loop is closed: no caller waits
            self._loop.call_soon_threadsafe(_settle, list(futures), failure)


def _write_each(connection: sqlite3.Connection, writes: list[Write]) -> None:
    for write in writes:
        write(connection)


def _settle(futures: list[asyncio.Future[None]], failure: str) -> None:
    for future in futures:
        if future.done():  # such as cancelled
            continue
        if failure:
            future.set_exception(StoreError(failure))
        else:
            future.set_result(None)


def _identify(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
