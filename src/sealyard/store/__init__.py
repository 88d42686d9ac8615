"""The one database: the journal, tool definitions, skills, approvals, alerts, the vault, and what was learned.

SQLite in WAL mode. One thread writes, what waits is committed together, and `Store.flush` returns when it is on disk.
The log that proves itself is in `audit/`, facts and their sums are in `metrics/`, and copies of a store in `backup/`.
"""

from sealyard.store.journal import TraceBudget
from sealyard.store.skills import MigrationRecord, ShelfLimits, SkillRecord
from sealyard.store.store import Store, open_store
from sealyard.store.tools import Release

__all__ = (
    "MigrationRecord",
    "Release",
    "ShelfLimits",
    "SkillRecord",
    "Store",
    "TraceBudget",
    "open_store",
)
