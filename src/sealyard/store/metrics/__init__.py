"""Facts and their sums: recorded, folded, rebuilt, pruned, and read as usage."""

from sealyard.store.metrics.ledger import MetricTables, Pruned
from sealyard.store.metrics.rebuild import Rebuilt
from sealyard.store.metrics.usage import Usage, UsageTable

__all__ = ("MetricTables", "Pruned", "Rebuilt", "Usage", "UsageTable")
