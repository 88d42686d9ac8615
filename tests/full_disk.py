"""A disk without room, as far as this process can see."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def room(size_bytes: int) -> Iterator[None]:
    """No file can grow beyond this, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
