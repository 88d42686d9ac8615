"""Sessions: workspaces by name, kept from run to run and across a change of zygote."""

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolyard.errors import InvalidRequest, SandboxBroken, SandboxClosed, UnknownSession
from toolyard.sandbox import spawn
from toolyard.sandbox.pool import Pool
from toolyard.sandbox.workspace import Workspace, check_session_name
from toolyard.sandbox.zygote import Zygote

__all__ = ("Sessions",)


class Sessions:
    """The workspaces of one sandbox. `pool` is set by it, since each needs the other."""

    pool: Pool

    def __init__(self) -> None:
        self._workspaces: dict[str, Workspace] = {}
        self._runs: dict[str, int] = {}
        self._used: dict[str, float] = {}
        self._making = asyncio.Lock()
        self._numbers = itertools.count(1)

    def names(self) -> list[str]:
        """All sessions that have a workspace."""
        return sorted(self._workspaces)

    def get(self, session: str) -> Workspace:
        """The workspace of a session. Raises `UnknownSession`."""
        try:
            return self._workspaces[session]
        except KeyError:
            raise UnknownSession(f"No session is called {session!r}. A run that names it makes one.") from None

    @asynccontextmanager
    async def in_use(self, session: str | None) -> AsyncIterator[Workspace | None]:
        """The workspace for one run, made if need be, and safe from removal meanwhile; None without a session."""
        if session is None:
            yield None
            return
        if self.pool.is_closed:
            raise SandboxClosed("The sandbox is closed.")
        workspace = await self._open(check_session_name(session))
        self._runs[session] = self._runs.get(session, 0) + 1
        try:
            await workspace.quiet()
            yield workspace
        finally:
            self._runs[session] -= 1
            self._used[session] = time.monotonic()

    async def remove(self, session: str) -> None:
        """Delete a session's workspace. Raises `InvalidRequest` while a run of it is under way."""
        async with self.pool.renewing:
            workspace = self.get(session)
            await workspace.quiet()
            if self._runs.get(session):
                raise InvalidRequest(f"A run of session {session!r} is under way. Wait for it or cancel it first.")
            del self._workspaces[session]
            self._runs.pop(session, None)
            self._used.pop(session, None)
            if workspace.directory is None and self.pool.zygote.is_alive:
                await self.pool.zygote.remove_workspace(workspace.number)
        await asyncio.to_thread(workspace.close)

    async def hand_over(self, zygote: Zygote) -> None:
        """Give every workspace to a new zygote.

        A descriptor can be given away once. While the old zygote lives it makes another one for that, so that nothing
        is lost if the new one fails; else ours is used up, and a workspace that was lost with it is forgotten.
        """
        old = self.pool.zygote
        for session, workspace in list(self._workspaces.items()):
            if workspace.directory is not None:
                continue
            spare = await old.lease_workspace(workspace.number) if old.is_alive else os.dup(workspace.root_fd)
            try:
                root_fd = await zygote.adopt_workspace(workspace.number, spare)
            except SandboxBroken:
                if old.is_alive or not zygote.is_alive:
                    raise
                workspace.close()
                del self._workspaces[session]
                continue
            finally:
                os.close(spare)
            os.close(workspace.root_fd)
            workspace.root_fd = root_fd

    def close(self) -> None:
        """Let go of all of them."""
        while self._workspaces:
            self._workspaces.popitem()[1].close()

    async def _open(self, session: str) -> Workspace:
        async with self._making:
            if session not in self._workspaces:
                await self._make_room()
                self._workspaces[session] = await self._make(session, next(self._numbers))
                self._used[session] = time.monotonic()
            return self._workspaces[session]

    async def _make_room(self) -> None:
        """Give up the session that was unused longest, if there are too many and that was long enough."""
        most, idle_seconds = self.pool.options.sessions, self.pool.options.session_idle_seconds
        if len(self._workspaces) < most:
            return
        idle = [session for session in self._workspaces if not self._runs.get(session)]
        oldest = min(idle, key=lambda session: self._used[session], default=None)
        if oldest is None or time.monotonic() - self._used[oldest] < idle_seconds:
            raise InvalidRequest(
                f"{most} sessions have a workspace, the most there can be. Use one of them again, or wait: one that is "
                f"unused for {idle_seconds:g} s makes room."
            )
        await self.remove(oldest)

    async def _make(self, session: str, number: int) -> Workspace:
        pool = self.pool
        if pool.directory is not None:
            directory = pool.directory / f"session-{number}"
            directory.mkdir(mode=0o700)
            root_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            return Workspace(session, number, root_fd, directory=directory)
        if not pool.zygote.is_alive:
            await pool.renew()
        async with pool.renewing:  # a zygote that is being replaced hands over only what it knows of
            root_fd = await pool.zygote.create_workspace(
                number, size_bytes=pool.policy.workspace_mib << 20, files=pool.policy.workspace_files
            )
            user = pool.user_of(0, number)
            return Workspace(session, number, root_fd, user=None if user is None else spawn.FIRST_USER + user)
