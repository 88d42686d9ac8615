"""Versions of skills, what was made of them, and how their migrations ended; shared by all who have the store open.

A version is never changed but for its status, its note and what its examples gave. Saves of one name, of whatever
gateway, become versions in the order in which they are written. What could not be written, and whose caller was told
so, is not written later.
"""

import asyncio
import math
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

import msgspec

from sealyard.errors import InvalidSkill, UnknownSkill
from sealyard.store import skill_rows as rows
from sealyard.store import skill_use_rows as use_rows
from sealyard.store.reader import Reader
from sealyard.store.skill_rows import ShelfLimits
from sealyard.store.skill_use_rows import MigrationRecord, SkillRecord, UseShare
from sealyard.store.writer import Writer
from sealyard.values import Skill, SkillExample, SkillStatus, SkillUse
from sealyard.versioning.compare.changes import Severity
from sealyard.versioning.compare.semver import Version

__all__ = ("MigrationRecord", "ShelfLimits", "SkillRecord", "SkillTable", "UseShare")

_T = TypeVar("_T")
_USES_KEPT = 50_000
"""Single uses, of all skills together; older ones are kept as sums."""


class SkillTable:
    """The skills of one store."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader
        self._turn = asyncio.Lock()

    # Versions

    async def add(self, skill: Skill, bump: Callable[[Skill | None], Severity], *, limits: ShelfLimits) -> Skill:
        """Keep a skill as the newest version of its name, durably, and return it as it is kept.

        `bump` says what the change from the newest version that is not deleted raises; it may be asked again if
        another gateway was faster. A skill that is the newest one already, by digest, status and level, is not kept
        again.

        Raises:
            InvalidSkill: A limit is reached, or something in it is no JSON. Nothing was kept.
            StoreError: It could not be written. Nothing was kept.
        """
        text, examples = await asyncio.to_thread(rows.encode, skill, limits)
        async with self._turn:  # of this gateway; against others, the transaction looks whether `head` still holds
            while True:
                number, newest = await self._reader.read(rows.read_head, skill.namespace, skill.name)
                if number is not None and newest is not None and rows.is_same(newest, skill):
                    return await self._reader.read(rows.read_number, number)
                created_at = skill.modified_at if newest is None else newest.created_at
                skill = msgspec.structs.replace(skill, created_at=created_at)
                severity = await asyncio.to_thread(bump, newest)  # it compares schemas that an agent wrote
                write = partial(
                    rows.insert,
                    skill=skill,
                    text=text,
                    examples=examples,
                    severity=severity,
                    head=number,
                    limits=limits,
                )
                kept = await self._write(write, len(text) + len(examples or b""))
                if isinstance(kept, InvalidSkill):
                    raise kept
                if kept is not None:
                    return msgspec.structs.replace(skill, version=str(kept))

    async def get(
        self, namespace: str, name: str, version: str, *, with_examples: bool = True, with_deleted: bool = False
    ) -> Skill | None:
        """One version; None if there is none."""
        place = (namespace, name, Version.parse(version))
        return await self._reader.read(rows.read_one, *place, with_examples=with_examples, with_deleted=with_deleted)

    async def versions(self, namespace: str, name: str, *, with_examples: bool = False) -> list[Skill]:
        """Every version of a skill that is not deleted, the newest first."""
        return await self._reader.read(rows.read_versions, namespace, name, with_examples)

    async def statuses(self, namespaces: Sequence[str], name: str) -> list[tuple[str, str, SkillStatus]]:
        """Namespace, version and status of every version of that name: namespace by namespace, the newest first.

        Deleted versions are left out. It is cheaper than `versions`.
        """
        return await self._reader.read(rows.read_statuses, tuple(namespaces), name)

    async def deleted(self, namespace: str, name: str) -> dict[str, float]:
        """When each deleted version of a skill was deleted, the newest version first."""
        return await self._reader.read(rows.read_deleted, namespace, name)

    async def newest(self, namespaces: Sequence[str], *, status: SkillStatus | None = None) -> list[Skill]:
        """The newest version of each skill in these namespaces, without examples, by namespace and name.

        Deleted versions, and those of another status if one is given, are passed over.
        """
        return await self._reader.read(rows.read_newest, tuple(namespaces), status)

    async def names(self) -> list[tuple[str, str]]:
        """The namespace and name of every skill that is not deleted."""
        return await self._reader.read(rows.read_names)

    async def stamp(self) -> int:
        """A number that grows with every change to a version of a skill, by whatever gateway."""
        return await self._reader.read(rows.read_stamp)

    async def set_status(
        self,
        namespace: str,
        name: str,
        version: str,
        status: SkillStatus,
        note: str = "",
        *,
        examples: Sequence[SkillExample] | None = None,
        limits: ShelfLimits | None = None,
    ) -> None:
        """Give a version another status and note, durably, and other examples if they were run again.

        Raises:
            UnknownSkill: There is no such version, or it is deleted.
            InvalidSkill, StoreError: As `add` does.
        """
        data = None
        if examples is not None:
            data = await asyncio.to_thread(rows.compress, tuple(examples), limits or ShelfLimits())
        place = (namespace, name, *rows.numbers(version))
        write = partial(rows.update, place=place, status=status, note=rows.unicode(note), examples=data)
        if not await self._write(write, 1024 + len(data or b"")):
            raise UnknownSkill(f"The skill {name!r} has no version {version!r}. `sealyard skills history` lists them.")

    async def delete(self, namespace: str, name: str, version: str | None, now: float) -> int:
        """Delete one version, or all of them, durably; how many there were. `restore` brings back what they were."""
        numbers = None if version is None else rows.numbers(version)
        return await self._write(partial(rows.delete, namespace=namespace, name=name, numbers=numbers, now=now))

    async def restore(
        self,
        namespace: str,
        name: str,
        version: str,
        bump: Callable[[Skill, Skill | None], Severity],
        *,
        author: str,
        now: float,
        limits: ShelfLimits,
    ) -> Skill:
        """Keep an older version, deleted or not, as the newest one again. `bump` gets it first. Raises as `add` does.

        Raises:
            UnknownSkill: There never was such a version.
        """
        old = await self.get(namespace, name, version, with_deleted=True)
        if old is None:
            raise UnknownSkill(f"The skill {name!r} has no version {version!r}. `sealyard skills history` lists them.")
        skill = msgspec.structs.replace(old, origin=f"restored from {old.version}", author=author, modified_at=now)
        return await self.add(skill, partial(bump, skill), limits=limits)

    # What came of them

    def record_uses(self, uses: Sequence[SkillUse]) -> None:
        """Record what executions made of skills. Only enqueues; uses by one execution add up."""
        if uses:
            values = [use_rows.use_row(use) for use in uses]
            self._writer.put(partial(use_rows.add_uses, values=values), 1024 * len(values))

    async def uses(self, since: float | None = None) -> list[SkillRecord]:
        """What was made of each version that was used since then, by namespace, name and version.

        Uses that were rolled up have one time, that of the last of them.
        """
        return await self._reader.read(use_rows.read_uses, -math.inf if since is None else since)

    async def reuse(self) -> tuple[int, int]:
        """How many executions of the journal used a skill, and how many there are."""
        return await self._reader.read(use_rows.read_reuse)

    async def roll_up(self, before: float) -> int:
        """Keep the uses from before a time, and all but the newest fifty thousand, as sums; how many these were.

        No total changes. Raises `StoreError`.
        """
        total = 0
        while done := await self._write(partial(use_rows.roll_up, before=before, most=_USES_KEPT)):
            total += done
        return total

    async def record_migration(self, record: MigrationRecord) -> None:
        """Keep how a migration ended, durably. Raises `StoreError`."""
        values = [rows.unicode(each) if isinstance(each, str) else each for each in msgspec.structs.astuple(record)]
        await self._write(partial(use_rows.insert_migration, values=values))

    async def migrations(self) -> list[MigrationRecord]:
        """How every migration ended, the oldest first."""
        return await self._reader.read(use_rows.read_migrations)

    async def _write(self, work: Callable[[sqlite3.Connection], _T], size_bytes: int = 1024) -> _T:
        attempt = _Attempt(work)
        self._writer.put(attempt, size_bytes)
        try:
            await self._writer.flush()
        except BaseException:
            attempt.is_given_up = True
            raise
        return attempt.value


class _Attempt(Generic[_T]):
    """A write with an answer. The writer keeps what failed and tries again; this one then does nothing."""

    value: _T

    def __init__(self, work: Callable[[sqlite3.Connection], _T]) -> None:
        self._work = work
        self.is_given_up = False

    def __call__(self, connection: sqlite3.Connection) -> None:
        if not self.is_given_up:
            self.value = self._work(connection)
