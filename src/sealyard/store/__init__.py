"""The one database: the journal, tool definitions, skills, approvals, alerts, the vault, and learned models.

SQLite in WAL mode. One thread writes, waiting rows are committed together, and `Store.flush` returns when they are on
disk. The signed log is in `audit/`, facts and their sums are in `metrics/`, and copies of a store in `backup/`.
"""

from sealyard.store.journal import TraceBudget
from sealyard.store.skills import ShelfLimits
from sealyard.store.store import Store, open_store
from sealyard.store.tools import Release
from sealyard.values.skills import MigrationRecord, SkillRecord

__all__ = ("MigrationRecord", "Release", "ShelfLimits", "SkillRecord", "Store", "TraceBudget", "open_store")
