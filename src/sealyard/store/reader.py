"""The thread that reads, on a connection that cannot write."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from sealyard.errors import StoreError
from sealyard.store.database import connect_reader, explain

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Reader:
    """Reads one query at a time. It never waits for the writer, nor the writer for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(1, "sealyard-store-reader")
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False

    async def read(
        self, query: Callable[Concatenate[sqlite3.Connection, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """What `query` returns for the connection and the arguments. Raises `StoreError` if it cannot be read."""
        if self._is_closed:
            raise StoreError(f"The store {str(self._path)!r} is closed. Open it again to read it.")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: self._read(lambda c: query(c, *args, **kwargs)))

    async def close(self) -> None:
        """Let go of the store, after the queries that wait."""
        self._is_closed = True
        done = self._executor.submit(self._close)
        self._executor.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(done))  # who stops waiting must not keep it open

    def _read(self, query: Callable[[sqlite3.Connection], _T]) -> _T:
        try:
            if self._connection is None:
                self._connection = connect_reader(self._path)
            return query(self._connection)
        except sqlite3.Error as error:
            raise explain(self._path, "read", error) from error
        except msgspec.DecodeError as error:
            raise StoreError(
                f"The store {str(self._path)!r} holds a value that cannot be read: {error}."
                " Use the version of sealyard that wrote it."
            ) from error

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
