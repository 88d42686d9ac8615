"""The base of all tables of a store, and the methods that run a query of theirs in one of the store's threads."""

import sqlite3
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from sealyard.store.database import Reader
from sealyard.store.writer import Writer

_P = ParamSpec("_P")
_T = TypeVar("_T")

Query = Callable[Concatenate[sqlite3.Connection, _P], _T]
Method = Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]


class Table:
    """Some tables of one store, written by `writer` and read by `reader`."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def flush(self) -> None:
        """Wait until everything enqueued earlier is on disk; concurrent callers share one write.

        Raises:
            StoreError: It could not be written. The records stay, and a later `flush` tries again.
        """
        await self._writer.flush()


def reads(query: Query[_P, _T]) -> Method[_P, _T]:
    """Make a method that runs `query` in the thread of the object's `_reader`. Raises `StoreError` if that fails."""

    @wraps(query)
    async def read(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        reader: Reader = self._reader
        return await reader.read(query, *args, **kwargs)

    return read


def writes(query: Query[_P, _T]) -> Method[_P, _T]:
    """Make a method that runs `query` in a transaction of the object's `_writer`, and returns once it is on disk.

    Raises `StoreError` if it could not be written, and then never writes it. `query` may run again, so no argument is
    an iterator.
    """

    @wraps(query)
    async def change(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        writer: Writer = self._writer
        return await writer.change(lambda connection: query(connection, *args, **kwargs))

    return change
