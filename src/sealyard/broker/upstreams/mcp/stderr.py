"""Keeps the end of what a child writes to standard error, and no more than that."""

import re

__all__ = ("Tail",)

_KEPT_BYTES = 64 << 10
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Tail:
    """The last bytes of a stream of any length."""

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._data = bytearray()

    def write(self, data: bytes) -> None:
        """Take in more; what no longer fits is forgotten from the front."""
        self._data += data[-self._kept_bytes :]
        if len(self._data) > self._kept_bytes:
            del self._data[: -self._kept_bytes]

    def text(self) -> str:
        """All that is kept. Without control characters: it is shown on terminals, and its writer is not trusted."""
        return _CONTROL.sub("", self._data.decode("utf-8", "replace"))

    def last_lines(self, count: int, characters: int = 400) -> str:
        """The last lines that say anything, as one short line."""
        lines = [line.strip() for line in self.text().splitlines() if line.strip()]
        return " | ".join(lines[-count:])[-characters:]
