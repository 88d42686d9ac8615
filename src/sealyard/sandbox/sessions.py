"""Sessions: workspaces by name, kept from run to run and across a change of zygote."""

import asyncio
import itertools
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sealyard.errors import InvalidRequest, SandboxBroken, SandboxClosed, UnknownSession
from sealyard.sandbox import spawn
from sealyard.sandbox.policy.levels import IsolationPolicy
from sealyard.sandbox.pool import Pool
from sealyard.sandbox.workspace import Workspace, check_session_name
from sealyard.sandbox.zygote import Zygote

__all__ = ("Sessions", "owner_of")


class Sessions:
    """The workspaces of one sandbox. `pool` is set by it, since each needs the other.

    What is before the first `:` of a session's name owns it. When no more workspaces can be made, owners have equal
    shares of them.
    """

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
    async def in_use(self, session: str | None, policy: IsolationPolicy) -> AsyncIterator[Workspace | None]:
        """The workspace for one run, made if need be, and safe from removal meanwhile; None without a session.

        It is as large as the policy of the first run says.
        """
        if session is None:
            yield None
            return
        if self.pool.is_closed:
            raise SandboxClosed("The sandbox is closed.")
        workspace = await self._open(check_session_name(session), policy)
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

    async def _open(self, session: str, policy: IsolationPolicy) -> Workspace:
        async with self._making:
            if session not in self._workspaces:
                await self._make_room(session)
                self._workspaces[session] = await self._make(session, next(self._numbers), policy)
                self._used[session] = time.monotonic()
            return self._workspaces[session]

    async def _make_room(self, session: str) -> None:
        """Give up a session if there are too many: of those that may go, the one that was unused longest.

        Whoever has less than a fair share gets room from whoever has more. Beyond that, only what was unused for long
        goes, and who has a share already gives up one of its own.
        """
        most, idle_seconds = self.pool.options.sessions, self.pool.options.session_idle_seconds
        owner = owner_of(session)
        busy = sum(runs > 0 and owner_of(each) == owner for each, runs in self._runs.items())
        if owner and busy >= max(1, most // 2):  # what runs cannot be given up: somebody else may come yet
            raise InvalidRequest(f"{busy} of your sessions have runs under way. Wait for one of them.")
        if len(self._workspaces) < most:
            return
        owned = Counter(map(owner_of, self._workspaces))
        share = max(1, most // len({*owned, owner}))
        is_below = owned[owner] < share
        long_ago = time.monotonic() - idle_seconds

        def may_go(each: str) -> bool:
            was_unused = self._used[each] <= long_ago and (is_below or owner_of(each) == owner)
            return was_unused or (is_below and owned[owner_of(each)] > share)

        idle = [each for each in self._workspaces if not self._runs.get(each) and may_go(each)]
        oldest = min(idle, key=lambda each: self._used[each], default=None)
        if oldest is None:
            raise InvalidRequest(
                f"{most} sessions have a workspace, the most there can be. Use one of them again, or wait: one that is "
                f"unused for {idle_seconds:g} s makes room."
            )
        await self.remove(oldest)

    async def _make(self, session: str, number: int, policy: IsolationPolicy) -> Workspace:
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
                number, size_bytes=policy.workspace_mib << 20, files=policy.workspace_files
            )
            user = pool.user_of(0, number)
            return Workspace(session, number, root_fd, user=None if user is None else spawn.FIRST_USER + user)


def owner_of(session: str) -> str:
    """Whose it is; sessions without a `:` in their name are all one owner's."""
    owner, colon, _ = session.partition(":")
    return owner if colon else ""
