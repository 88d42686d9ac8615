"""Large parts of messages, kept beside the SDK: it gets a key in their place, since it copies what it is given."""

import asyncio
import secrets
from collections import OrderedDict
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Kept(Generic[_T]):
    """Holds things for a while, each under a key that nobody can guess, and gives each out once."""

    def __init__(self, *, seconds: float, most_bytes: int) -> None:
        """Beyond `most_bytes` the oldest is dropped for a new one."""
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._things: OrderedDict[str, tuple[_T, int]] = OrderedDict()

    def put(self, thing: _T, size: int) -> str:
        """Keep a thing of `size` bytes; returns its key."""
        key = secrets.token_hex(16)
        self._things[key] = (thing, size)
        # Nobody asks for the answer to a request that was cancelled meanwhile.
        asyncio.get_running_loop().call_later(self._seconds, self._things.pop, key, None)
        while len(self._things) > 1 and sum(size for _, size in self._things.values()) > self._most_bytes:
            self._things.popitem(last=False)
        return key

    def take(self, key: object) -> _T | None:
        """Remove and return the thing under a key."""
        found = self._things.pop(key, None) if isinstance(key, str) else None
        return None if found is None else found[0]
