"""The one database: the journal, tool definitions, skills, approvals, alerts, the vault, and learned models.

SQLite in WAL mode. One thread writes, waiting rows are committed together, and `Store.flush` returns when they are on
disk. The signed log is in `audit/`, facts and their sums are in `metrics/`, and copies of a store in `backup/`.

Names are imported on first use: every command knows where the store is, and few open it.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.store.database import take_over
    from sealyard.store.journal import TraceBudget
    from sealyard.store.store import Store, open_store
    from sealyard.store.tools import LastRelease, Release, SeenShape

__all__ = ("LastRelease", "Release", "SeenShape", "Store", "TraceBudget", "open_store", "take_over")

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__,
        database="take_over",
        journal="TraceBudget",
        store="Store open_store",
        tools="LastRelease Release SeenShape",
    )
