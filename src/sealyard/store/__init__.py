"""The one database: executions, their calls and code, tool definitions and vectors.

SQLite in WAL mode. One thread writes, what waits is committed together, and `Store.flush` returns when it is on disk.
"""

from sealyard.store.learning import LearningTables
from sealyard.store.rows import SeenDefinition
from sealyard.store.store import Store, open_store
from sealyard.store.traces import TraceBudget

__all__ = ("LearningTables", "SeenDefinition", "Store", "TraceBudget", "open_store")
