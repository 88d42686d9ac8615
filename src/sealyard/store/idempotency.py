"""Keys that requests carry, so that one which is sent twice is carried out once.

A key is on disk, with the id of the execution it is for, before that begins. Who asks again with it within a day finds
that execution, in this gateway or in another one of the same store, and after a crash too.
"""

import sqlite3
import time
from functools import partial

import msgspec

from sealyard.store.writer import Writer

_KEPT_SECONDS = 86_400.0
_ROW_BYTES = 1024


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a key stands for."""

    execution_id: str
    request_sha256: str
    is_new: bool
    """Whether nobody had claimed it before."""


class IdempotencyTable:
    """The keys of one store, each principal's apart."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def claim(self, principal: str, key: str, *, request_sha256: str, execution_id: str) -> Claim:
        """Let the key stand for this execution, durably, unless it stands for one; what holds then.

        Raises:
            StoreError: It could not be written. Then `release` it before anybody is told so.
        """
        held: list[Claim] = []
        row = (principal, key, request_sha256, execution_id)
        self._writer.put(partial(_claim, row=row, now=time.time(), held=held), _ROW_BYTES)
        await self._writer.flush()
        return held[-1]

    def release(self, principal: str, key: str, execution_id: str) -> None:
        """Nothing was begun for the key: it is free again. Only enqueues."""
        self._writer.put(partial(_release, principal=principal, key=key, execution_id=execution_id), _ROW_BYTES)


def _claim(connection: sqlite3.Connection, row: tuple[str, str, str, str], now: float, held: list[Claim]) -> None:
    connection.execute("DELETE FROM idempotency_keys WHERE at < ?", (now - _KEPT_SECONDS,))
    connection.execute(
        "INSERT INTO idempotency_keys (principal, key, request_sha256, execution_id, at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (principal, key) DO NOTHING",
        (*row, now),
    )
    request_sha256, execution_id = connection.execute(
        "SELECT request_sha256, execution_id FROM idempotency_keys WHERE principal = ? AND key = ?", row[:2]
    ).fetchone()
    held.append(Claim(execution_id=execution_id, request_sha256=request_sha256, is_new=execution_id == row[3]))


def _release(connection: sqlite3.Connection, principal: str, key: str, execution_id: str) -> None:
    connection.execute(
        "DELETE FROM idempotency_keys WHERE principal = ? AND key = ? AND execution_id = ?",
        (principal, key, execution_id),
    )
