"""A bounded cache of computed values; the least recently used is dropped first."""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Recent(Generic[_Key, _Value]):
    """At most `capacity` values by key. Safe for threads: stubs are made in one while the loop checks arguments."""

    def __init__(self, capacity: int) -> None:
        self._lock = threading.Lock()
        self._capacity = capacity
        self._values: OrderedDict[_Key, _Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def find(self, key: _Key) -> _Value | None:
        """The value of `key`, if it is still cached."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: _Key, value: _Value) -> None:
        """Cache `value`."""
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._capacity:
                self._values.popitem(last=False)
