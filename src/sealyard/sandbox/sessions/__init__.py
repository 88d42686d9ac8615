"""Sessions: workspaces by name, kept from run to run, across a change of zygote, and on disk while nobody runs in them.

A workspace takes memory, so only some of them are kept open; the files of the others are packed and put on the shelf,
and come back with the next run of the session. A session in use is never put away.
"""

import asyncio
import itertools
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from sealyard.errors import InvalidRequest, SandboxBroken, SandboxClosed, UnknownSession
from sealyard.sandbox import spawn
from sealyard.sandbox.policy import IsolationPolicy
from sealyard.sandbox.pool import Pool
from sealyard.sandbox.sessions.shelf import Parcel, Shelf
from sealyard.sandbox.sessions.workspace import Workspace, check_session_name
from sealyard.sandbox.zygote import Zygote

__all__ = ("Sessions", "Workspace", "check_session_name", "owner_of")

_log = logging.getLogger(__name__)


class _Session:
    """One session. It has a workspace, or a parcel on the shelf, or neither yet."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.owner = owner_of(name)
        self.number = number
        """The number of its workspace, the same whenever that is made: the user that owns its files depends on it."""
        self.workspace: Workspace | None = None
        self.parcel: Parcel | None = None
        self.size_bytes = 0
        self.files = 0
        self.users = 0
        """Runs that use it, and readers of the files that a run left."""
        self.used_at = 0.0
        self.changing = asyncio.Lock()
        """Held while its files are made, packed, unpacked or deleted. `Pool.renewing` is taken after it."""

    @property
    def is_nothing(self) -> bool:
        return not self.users and self.workspace is None and self.parcel is None


class Sessions:
    """The workspaces of one sandbox.

    The part before the first `:` of a session's name is its owner. The owner with the most open workspaces is the
    first whose idle ones are put on the shelf; the owner with the most on the shelf is the first whose oldest are
    deleted there.
    """

    def __init__(self, pool: Pool, shelf: Shelf) -> None:
        self.pool = pool
        self._sessions: dict[str, _Session] = {}
        self._numbers = itertools.count(1)
        self._shelf = shelf
        self._shelf_bytes = 0
        self._opened: set[_Session] = set()
        """Those that have an open workspace."""
        self._tidying: asyncio.Task[None] | None = None
        self._tidied = asyncio.Condition()
        self._trouble: Exception | None = None
        """The reason why the last one could not be put away."""

    def names(self) -> list[str]:
        """All sessions that have files, open or on the shelf."""
        return sorted(each.name for each in self._sessions.values() if each.workspace or each.parcel)

    def find(self, session: str) -> Workspace | None:
        """The workspace of a session, if it is open."""
        found = self._sessions.get(session)
        return None if found is None else found.workspace

    def get(self, session: str) -> Workspace:
        """The workspace of a session. Raises `UnknownSession`, and `InvalidRequest` if it is not open."""
        workspace = self.find(session)
        if workspace is None:
            if self._known(session).parcel is not None:
                raise InvalidRequest(f"The files of session {session!r} are on disk. A run that names it opens them.")
            raise _unknown(session)
        return workspace

    @contextmanager
    def keep(self, session: str) -> Iterator[_Session]:
        """Keep a session from being put away or removed; it need not exist yet."""
        kept = self._sessions.get(session)
        if kept is None:
            kept = self._sessions[session] = _Session(check_session_name(session), next(self._numbers))
        kept.users += 1
        try:
            yield kept
        finally:
            kept.users -= 1
            kept.used_at = time.monotonic()
            self._forget_if_nothing(kept)
            self._tidy()

    @asynccontextmanager
    async def in_use(self, session: str, policy: IsolationPolicy) -> AsyncIterator[Workspace]:
        """The workspace for one run, made or unpacked if need be; as large as the policy of the first run says."""
        if self.pool.is_closed:
            raise SandboxClosed("The sandbox is closed.")
        with self.keep(session) as kept:
            while (workspace := kept.workspace) is None or kept.changing.locked():
                # A caller that gives up does not stop it half way: another one may wait for the same.
                await asyncio.shield(self.pool.do_later(self._open(kept, policy)))
            self.pool.catch_up()  # the last run's worker may be there still, and this one waits for its end
            await workspace.quiet()
            yield workspace

    async def remove(self, session: str) -> None:
        """Delete a session's files. Raises `InvalidRequest` while a run of it is under way."""
        found = self._known(session)
        async with found.changing:
            if found.workspace is not None:
                await found.workspace.quiet()
            if found.users:
                raise InvalidRequest(f"A run of session {session!r} is under way. Wait for it or cancel it first.")
            if found.is_nothing:
                raise _unknown(session)
            await self._close_workspace(found)
            await self._drop(found)
            self._forget_if_nothing(found)

    async def hand_over(self, zygote: Zygote) -> None:
        """Give every open workspace to a new zygote.

        A descriptor can be given away once. While the old zygote lives it makes another one for that, so that nothing
        is lost if the new one fails; else ours is used up, and a workspace that was lost with it is forgotten.
        """
        old = self.pool.zygote
        for session in list(self._opened):
            workspace = session.workspace
            if workspace is None or workspace.directory is not None:
                continue
            spare = await old.lease_workspace(workspace.number) if old.is_alive else os.dup(workspace.root_fd)
            try:
                root_fd = await zygote.adopt_workspace(workspace.number, spare)
            except SandboxBroken:
                if old.is_alive or not zygote.is_alive:
                    raise
                workspace.close()
                self._note_closed(session)
                self._forget_if_nothing(session)
                continue
            finally:
                os.close(spare)
            os.close(workspace.root_fd)
            workspace.root_fd = root_fd

    async def close(self) -> None:
        """Let go of all of them, and delete what is on the shelf."""
        self._sessions.clear()
        while self._opened:
            workspace = self._opened.pop().workspace
            if workspace is not None:
                await asyncio.to_thread(workspace.close)
        await asyncio.to_thread(self._shelf.close)

    def _known(self, session: str) -> _Session:
        try:
            return self._sessions[session]
        except KeyError:
            raise _unknown(session) from None

    def _forget_if_nothing(self, session: _Session) -> None:
        if session.is_nothing and self._sessions.get(session.name) is session:
            del self._sessions[session.name]

    # Opening.

    async def _open(self, session: _Session, policy: IsolationPolicy) -> None:
        with self.keep(session.name):  # for itself: the caller may leave meanwhile
            async with session.changing:
                if session.workspace is None:
                    is_new = session.parcel is None
                    await self._open_now(session, policy)
                    if is_new and session.users == 1:  # the caller is gone, and nothing is in it
                        await self._close_workspace(session)

    async def _open_now(self, session: _Session, policy: IsolationPolicy) -> None:
        await self._wait_for_room(session.owner)
        if session.parcel is None:
            session.size_bytes, session.files = policy.workspace_mib << 20, policy.workspace_files
            await self._make(session, session.files)
            return
        parcel = session.parcel
        workspace = await self._make(session, session.files + parcel.linked)
        try:
            # The owner of its files on the host.
            user = workspace.user if workspace.directory is None else self.pool.user_of(0, workspace.number)
            with _held(workspace) as root:
                await asyncio.to_thread(self._shelf.take, parcel, root, user)
        except (OSError, ValueError) as error:
            await self._close_workspace(session)
            name = session.name.removeprefix(f"{session.owner}:")
            if isinstance(error, OSError):  # such as too many open files: the parcel is whole
                raise SandboxBroken(
                    f"The files of session {name!r} could not be brought back from disk: {error}. They are kept. Run "
                    "again, or delete the session."
                ) from error
            await self._drop(session)
            raise SandboxBroken(
                f"The files of session {name!r} on disk are damaged and lost: {error}. Run again: it begins with an "
                "empty workspace."
            ) from error
        session.parcel = None
        self._shelf_bytes -= parcel.bytes

    async def _make(self, session: _Session, files: int) -> Workspace:
        pool, number = self.pool, session.number
        if pool.directory is not None:
            directory = pool.directory / f"session-{number}"
            directory.mkdir(mode=0o700)
            user = pool.user_of(0, number)
            if user is not None:
                os.chown(directory, user, user)
            root_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            return self._note_opened(session, Workspace(session.name, number, root_fd, directory=directory))
        if not pool.zygote.is_alive:
            await pool.renew()
        async with pool.renewing:  # a zygote that is being replaced hands over only what it knows of
            root_fd = await pool.zygote.create_workspace(number, size_bytes=session.size_bytes, files=files)
            user = pool.user_of(0, number)
            host_user = None if user is None else spawn.FIRST_USER + user
            return self._note_opened(session, Workspace(session.name, number, root_fd, user=host_user))

    def _note_opened(self, session: _Session, workspace: Workspace) -> Workspace:
        session.workspace = workspace
        self._opened.add(session)
        return workspace

    def _note_closed(self, session: _Session) -> None:
        session.workspace = None
        self._opened.discard(session)

    async def _close_workspace(self, session: _Session) -> None:
        workspace = session.workspace
        if workspace is None:
            return
        try:
            async with self.pool.renewing:
                self._note_closed(session)
                if workspace.directory is None and not self.pool.is_closed and self.pool.zygote.is_alive:
                    await self.pool.zygote.remove_workspace(workspace.number)
        finally:
            await asyncio.to_thread(workspace.close)

    # Putting away.

    async def _wait_for_room(self, owner: str) -> None:
        """Wait while there are far too many open workspaces, if this owner has its share of them already.

        A disk may be slower than the sessions that fill it. An owner with fewer than its share does not wait for that.
        Raises `SandboxBroken` if they cannot be put away at all.
        """
        most = self.pool.options.sessions + self.pool.options.running

        def has_room() -> bool:
            counts = self._counts()
            is_below = counts[owner] < max(1, most // max(1, len(counts)))
            return len(self._opened) < most or is_below or self._next_idle() is None

        async with self._tidied:
            while not has_room() and not self.pool.is_closed:
                self._tidy()
                await self._tidied.wait()
                if self._trouble is not None:
                    raise SandboxBroken(
                        f"The files of idle sessions cannot be put on disk: {self._trouble}. Make room on the disk, or "
                        "use a session again that was used lately."
                    )

    def _counts(self) -> Counter[str]:
        return Counter(each.owner for each in self._opened)

    def _next_idle(self) -> _Session | None:
        """The next to put away: of the owner with the most open workspaces, the one unused longest."""
        if len(self._opened) <= self.pool.options.sessions:
            return None
        counts = self._counts()
        idle = (each for each in self._opened if not each.users)
        return min(idle, key=lambda each: (-counts[each.owner], each.used_at), default=None)

    def _tidy(self) -> None:
        """Put away, in the background, what is idle and too many."""
        is_busy = self._tidying is not None and not self._tidying.done()
        if not is_busy and not self.pool.is_closed and self._next_idle() is not None:
            self._tidying = self.pool.do_later(self._put_away())

    async def _put_away(self) -> None:
        self._trouble = None
        try:
            while not self.pool.is_closed and (session := self._next_idle()) is not None:
                await self._put_on_shelf(session)
                await self._keep_within_budget()
                await self._notify()
        except (OSError, ValueError, SandboxBroken) as error:
            self._trouble = error
            _log.warning("The files of an idle session cannot be put on disk, and stay in memory: %s", error)
        await self._notify()

    async def _notify(self) -> None:
        async with self._tidied:
            self._tidied.notify_all()

    async def _put_on_shelf(self, session: _Session) -> None:
        async with session.changing:
            workspace = session.workspace
            if workspace is None or session.users > 0:
                return
            await workspace.quiet()
            with _held(workspace) as root:
                parcel = await asyncio.to_thread(self._shelf.put, workspace.number, root)
            if session.users > 0:  # taken again meanwhile, and found as it was
                if parcel is not None:
                    await asyncio.to_thread(self._shelf.drop, parcel)
                return
            session.parcel = parcel
            self._shelf_bytes += 0 if parcel is None else parcel.bytes
            await self._close_workspace(session)
            self._forget_if_nothing(session)

    async def _keep_within_budget(self) -> None:
        """Delete the oldest parcels of the owner with the most on the shelf, until the rest fits."""
        while self._shelf_bytes > self.pool.options.idle_bytes:
            sizes: Counter[str] = Counter()
            idle = []
            for each in self._sessions.values():
                if each.parcel is not None:
                    sizes[each.owner] += each.parcel.bytes
                    if not each.users:
                        idle.append(each)
            if not idle:
                return
            oldest = min(idle, key=lambda each: (-sizes[each.owner], each.used_at))
            await self._drop(oldest)
            self._forget_if_nothing(oldest)

    async def _drop(self, session: _Session) -> None:
        parcel = session.parcel
        if parcel is not None:
            session.parcel = None
            self._shelf_bytes -= parcel.bytes
            await asyncio.to_thread(self._shelf.drop, parcel)


@contextmanager
def _held(workspace: Workspace) -> Iterator[int]:
    """A descriptor of its root for a thread: its own is replaced with the zygote."""
    root = os.dup(workspace.root_fd)
    try:
        yield root
    finally:
        os.close(root)


def owner_of(session: str) -> str:
    """The owner of a session; sessions without a `:` in their name share one owner."""
    owner, colon, _ = session.partition(":")
    return owner if colon else ""


def _unknown(session: str) -> UnknownSession:
    return UnknownSession(f"No session is called {session!r}. A run that names it makes one.")
