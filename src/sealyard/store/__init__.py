"""The one database: the journal, tool definitions, skills, approvals, alerts, the vault, and learned models.

SQLite in WAL mode. One thread writes, waiting rows are committed together, and `Store.flush` returns when they are on
disk. The signed log is in `audit/`, facts and their sums are in `metrics/`, and copies of a store in `backup/`.
"""

from sealyard.store.database import take_over
from sealyard.store.journal import TraceBudget
from sealyard.store.store import Store, open_store
from sealyard.store.tools import LastRelease, Release, SeenShape

__all__ = ("LastRelease", "Release", "SeenShape", "Store", "TraceBudget", "open_store", "take_over")
