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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from sealyard.errors import SealyardError, StoreError
from sealyard.store import Store

if TYPE_CHECKING:
    from sealyard.sandbox.run import Sandbox

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
        self._told: set[PartName] = set()

    async def look(self) -> Mapping[PartName, Part]:
        """The state of every part, at most seconds old."""
        async with self._looking:
            if time.monotonic() - self._looked_at >= _FRESH_SECONDS or self._is_opening():
                parts: dict[PartName, Part] = (
                    {} if self._opening is None else {"sandbox": await self._look_at_sandbox()}
                )
                parts["store"] = await self._look_at_store()
                self.parts = parts | await asyncio.to_thread(self._look_at_machine)
                self._looked_at = time.monotonic()
                self._tell()
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
                _log.exception("Whether the gateway is ready could not be found out.")
            await asyncio.sleep(_EVERY_SECONDS)

    def _is_opening(self) -> bool:
        return self._opening is not None and not self._opening.done()

    def _tell(self) -> None:
        for name, part in self.parts.items():
            if part.reason not in (None, _BUILDING) and name not in self._told:
                self._told.add(name)
                _log.warning("Not ready: %s", part.reason)
            elif part.ok and name in self._told:
                self._told.discard(name)
                _log.warning("Ready again: %s.", name)

    async def _look_at_sandbox(self) -> Part:
        assert self._opening is not None
        if not self._opening.done():
            return Part(ok=False, reason=_BUILDING)
        if self._opening.cancelled():
            return Part(ok=False, reason="The gateway is closing.")
        error = self._opening.exception()
        if error is not None:
            return Part(ok=False, reason=str(error))
        is_fresh = time.monotonic() - self._proven_at < _PROVEN_SECONDS
        if is_fresh and all(folder.is_dir() for folder in self._own_folders()):  # else a run has to make them anew
            return Part(ok=True)
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await self._opening.result().prove()
        except (SealyardError, OSError) as failure:
            return Part(ok=False, reason=str(failure))
        except TimeoutError:
            return Part(
                ok=False, reason=f"A worker did not start within {_PROBE_SECONDS:g} s. Look at the machine's load."
            )
        self._proven_at = time.monotonic()
        return Part(ok=True)

    async def _look_at_store(self) -> Part:
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await self._store.probe()
        except StoreError as error:
            return Part(ok=False, reason=str(error))
        except TimeoutError:
            return Part(ok=False, reason=f"The store took no write within {_PROBE_SECONDS:g} s. Look at its disk.")
        return Part(ok=True)

    # In a thread

    def _look_at_machine(self) -> dict[PartName, Part]:
        return {
            "temporary": self._look_at_files(),  # which finds out where temporary files go
            "disk": self._look_at_disk(),
            "descriptors": _look_at_descriptors(),
        }

    def _look_at_disk(self) -> Part:
        left: int | None = None
        for folder in (str(self._folder), tempfile.tempdir or "/"):
            try:
                status = os.statvfs(folder)
            except OSError as error:
                return Part(ok=False, reason=f"{folder!r} cannot be looked at: {error.strerror}. Make it anew.")
            free = status.f_bavail * status.f_frsize
            if free < _LEAST_BYTES or (status.f_files and not status.f_favail):
                what = f"{free:,} bytes" if free < _LEAST_BYTES else "no more files"
                reason = f"There is room for {what} under {folder!r}. Remove what is not needed there."
                return Part(ok=False, reason=reason, left=free)
            left = free if left is None else min(left, free)
        return Part(ok=True, left=left)

    def _look_at_files(self) -> Part:
        """Write a temporary file and report if that works."""
        try:
            with tempfile.TemporaryFile() as file:
                file.write(b"x")
        except OSError as error:
            where = tempfile.tempdir or "TMPDIR"
            reason = f"No temporary file can be written in {where!r}: {error.strerror}. Make it writable."
            return Part(ok=False, reason=reason)
        return Part(ok=True)

    def _own_folders(self) -> list[Path]:
        assert self._opening is not None
        sandbox = self._opening.result()
        library = [] if sandbox.library is None else [sandbox.library.path]
        return library if sandbox.pool.directory is None else [*library, sandbox.pool.directory]


def _look_at_descriptors() -> Part:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return Part(ok=True)
    try:
        left = soft - len(os.listdir("/proc/self/fd"))
    except OSError as error:  # it takes a descriptor itself
        return Part(
            ok=False, reason=f"No descriptor can be opened: {error.strerror}. Raise the limit (ulimit -n).", left=0
        )
    if left < _LEAST_DESCRIPTORS:
        reason = f"{left:,} of {soft:,} descriptors are left. Raise the limit (ulimit -n)."
        return Part(ok=False, reason=reason, left=left)
    return Part(ok=True, left=left)
