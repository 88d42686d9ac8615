"""Facts and their sums: recorded, folded, rebuilt, pruned, and read as usage."""

from sealyard.store.metrics.rebuild import Rebuilt
from sealyard.store.metrics.retention import Pruned
from sealyard.store.metrics.usage import Usage
from sealyard.store.metrics.windows import MetricTables

__all__ = ("MetricTables", "Pruned", "Rebuilt", "Usage")
