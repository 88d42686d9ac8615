"""A port for what must listen at the same one again, or be told its port beforehand."""

import random
import socket
from pathlib import Path

__all__ = ("free_port",)

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000


def free_port() -> int:
    """A port that nobody has, below those that the system gives to whoever asks for any: nobody gets it by chance."""
    highest = int(_RANGE.read_text(encoding="utf-8").split()[0]) if _RANGE.exists() else 0
    for port in random.sample(range(_LOWEST, highest), 100) if highest >= _LOWEST + 100 else (0,):
        try:
            with socket.create_server(("127.0.0.1", port)) as listener:
                return int(listener.getsockname()[1])
        except OSError:
            continue
    raise AssertionError("No port is free.")
