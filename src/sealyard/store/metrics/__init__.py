"""Facts and their sums: recorded, folded, rebuilt, pruned, and read as usage."""

from sealyard.store.metrics.tables import Rebuilt
from sealyard.store.metrics.usage import Usage

__all__ = ("Rebuilt", "Usage")
