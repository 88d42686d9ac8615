"""Begins a sandbox before the rest of a gateway is imported, which takes as long as a zygote needs to get ready.

Little is imported here, since all of it delays the gateway's first answer.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from sealyard.sandbox import spawn
from sealyard.sandbox.importable import Library, add_own, find_packages, open_library
from sealyard.sandbox.policy import IsolationPolicy
from sealyard.values.runs import Tier


class Ahead:
    """A zygote on its way, for the first that asks for one like it, and the library that it shows to workers."""

    def __init__(self, setup: spawn.Setup, library: Library) -> None:
        self.library = library
        self.packages = setup.packages
        self._setup = setup
        self._started: spawn.ZygoteProcess | None = spawn.start(setup, None)

    def take(self, setup: spawn.Setup, directory: Path | None) -> spawn.ZygoteProcess | None:
        """Hand the zygote over; None if it was taken before, or if anything about the one asked for is different."""
        started = self._started
        if started is None or directory is not None or setup != self._setup:
            return None
        if (started.process.child.poll() or 0) < 0:  # killed; one that failed says why to whoever takes it
            return None
        self._started = None
        return started

    def close(self) -> None:
        """End a zygote that nobody took."""
        if self._started is not None:
            self._started.process.kill()
            self._started.process.reap()
            self._started.process.connection.close()
            os.close(self._started.stderr_fd)


@contextlib.asynccontextmanager
async def begin_sandbox(
    policy: IsolationPolicy, *, tier: Tier | None, own: Mapping[str, Path], folder: Path
) -> AsyncIterator[Ahead]:
    """Start the zygote that `open_sandbox` needs first when it gets the same arguments and this library.

    Raises:
        OSError: The library's directory cannot be made.
        SandboxUnavailable: The zygote cannot be executed.
    """
    async with open_library(folder) as library:
        setup = spawn.Setup(
            policy=policy,
            tier=tier or "namespace",
            privileged=spawn.is_privileged(),
            packages=add_own(find_packages(policy.packages), own),
            library=library.path,
        )
        ahead = Ahead(setup, library)
        try:
            yield ahead
        finally:
            ahead.close()
