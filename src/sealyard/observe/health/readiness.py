"""Checks each part that the gateway needs to do its work, regularly and on request.

A part that fails is logged once, and once more when it works again.
"""

import asyncio
import contextlib
import logging
import os
import resource
import tempfile
import time
from collections.abc import Awaitable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from sealyard.errors import SealyardError
from sealyard.store import Store

if TYPE_CHECKING:
    from sealyard.sandbox import Sandbox

_log = logging.getLogger(__name__)

PartName = Literal["sandbox", "store", "disk", "temporary", "descriptors"]

_BUILDING = "The sandbox is being built."
_EVERY_SECONDS = 60.0  # between looks when nobody asks
_FRESH_SECONDS = 2.0  # a result is reused this long: a check costs a write to the disk
_PROVEN_SECONDS = 30.0  # a finished run proves for this long that workers start: starting one costs some 10 ms
_PROBE_SECONDS = 5.0  # a disk or a worker that takes longer is as good as broken
_LEAST_BYTES = 64 << 20  # on disk: what the store may hold back in memory, twice
_LEAST_DESCRIPTORS = 64  # a run takes about ten, and an upstream four


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one part of the gateway."""

    ok: bool
    reason: str | None = None
    """The fault and its remedy. None if the part works."""
    left: int | None = None
    """Bytes of disk, or descriptors."""


class Readiness:
    """Tries out what the gateway needs, over its store and, unless it is None, the sandbox that is being built."""

    def __init__(self, store: Store, store_path: Path, opening: "asyncio.Future[Sandbox] | None") -> None:
        self._store = store
        self._folder = store_path.parent
        self._opening = opening
        self._looking = asyncio.Lock()
        self._looked_at = self._proven_at = -_EVERY_SECONDS
        self.parts: dict[PartName, Part] = {}
        """As they were found last; empty before the first look."""
        self._reported: set[PartName] = set()

    async def look(self) -> Mapping[PartName, Part]:
        """The state of every part, at most seconds old."""
        async with self._looking:
            is_opening = self._opening is not None and not self._opening.done()
            if is_opening or time.monotonic() - self._looked_at >= _FRESH_SECONDS:
                parts: dict[PartName, Part] = {}
                if self._opening is not None:
                    parts["sandbox"] = await _try(self._look_at_sandbox(self._opening))
                parts["store"] = await _try(self._look_at_store())
                parts["temporary"] = await _try(asyncio.to_thread(_look_at_files))  # finds out where these files go
                parts["disk"] = await _try(asyncio.to_thread(self._look_at_disk))
                parts["descriptors"] = await _try(asyncio.to_thread(_look_at_descriptors))
                self.parts = parts
                self._looked_at = time.monotonic()
                self._log_changes()
            return self.parts

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Check from time to time, so that the log reports faults although nobody asks."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - whatever it is, the next look must come
                _log.exception("The readiness of the gateway could not be checked.")
            await asyncio.sleep(_EVERY_SECONDS)

    def _log_changes(self) -> None:
        for name, part in self.parts.items():
            if part.reason not in (None, _BUILDING) and name not in self._reported:
                self._reported.add(name)
                _log.warning("Not ready: %s", part.reason)
            elif part.ok and name in self._reported:
                self._reported.discard(name)
                _log.warning("Ready again: %s.", name)

    async def _look_at_sandbox(self, opening: "asyncio.Future[Sandbox]") -> None:
        if not opening.done():
            raise _Fault(_BUILDING)
        if opening.cancelled():
            raise _Fault("The gateway is closing.")
        if (error := opening.exception()) is not None:
            raise _Fault(str(error))
        sandbox = opening.result()
        folders = [None if sandbox.library is None else sandbox.library.path, sandbox.pool.directory]
        is_fresh = time.monotonic() - self._proven_at < _PROVEN_SECONDS
        if is_fresh and all(folder.is_dir() for folder in folders if folder is not None):
            return  # without its folders, a run has to make them anew
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await sandbox.prove()
        except TimeoutError:
            raise _Fault(f"A worker did not start within {_PROBE_SECONDS:g} s. Look at the machine's load.") from None
        self._proven_at = time.monotonic()

    async def _look_at_store(self) -> None:
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await self._store.probe()
        except TimeoutError:
            raise _Fault(f"The store took no write within {_PROBE_SECONDS:g} s. Look at its disk.") from None

    # In a thread

    def _look_at_disk(self) -> int:
        free = []
        for folder in (str(self._folder), tempfile.tempdir or "/"):
            try:
                status = os.statvfs(folder)
            except OSError as error:
                raise _Fault(f"{folder!r} cannot be looked at: {error.strerror}. Make it anew.") from None
            free.append(status.f_bavail * status.f_frsize)
            if free[-1] < _LEAST_BYTES or (status.f_files and not status.f_favail):
                what = f"{free[-1]:,} bytes" if free[-1] < _LEAST_BYTES else "no more files"
                raise _Fault(f"There is room for {what} under {folder!r}. Remove what is not needed there.", free[-1])
        return min(free)


class _Fault(Exception):
    """A part does not work."""

    def __init__(self, reason: str, left: int | None = None) -> None:
        super().__init__(reason)
        self.left = left


async def _try(check: Awaitable[int | None]) -> Part:
    """The state of the part that `check` looks at: it returns how much is left, or raises."""
    try:
        return Part(ok=True, left=await check)
    except _Fault as fault:
        return Part(ok=False, reason=str(fault), left=fault.left)
    except (SealyardError, OSError) as error:
        return Part(ok=False, reason=str(error))


def _look_at_files() -> None:
    """Write a temporary file."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"x")
    except OSError as error:
        where = tempfile.tempdir or "TMPDIR"
        raise _Fault(f"No temporary file can be written in {where!r}: {error.strerror}. Make it writable.") from None


def _look_at_descriptors() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    try:
        left = soft - len(os.listdir("/proc/self/fd"))
    except OSError as error:  # it takes a descriptor itself
        raise _Fault(f"No descriptor can be opened: {error.strerror}. Raise the limit (ulimit -n).", 0) from None
    if left < _LEAST_DESCRIPTORS:
        raise _Fault(f"{left:,} of {soft:,} descriptors are left. Raise the limit (ulimit -n).", left)
    return left
