"""The one database: executions, their calls and code, tool definitions and vectors.

SQLite in WAL mode. One thread writes, what waits is committed together, and `Store.flush` returns when it is on disk.
"""

from toolyard.store.learning import LearningTables
from toolyard.store.rows import SeenDefinition
from toolyard.store.store import Store, open_store
from toolyard.store.traces import TraceBudget

__all__ = ("LearningTables", "SeenDefinition", "Store", "TraceBudget", "open_store")
