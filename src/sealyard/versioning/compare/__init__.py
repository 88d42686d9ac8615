"""How two definitions of a tool differ: what changed, what is proven to be the same, and which version that makes."""

from sealyard.versioning.compare.changes import Change, Comparison, Severity, Version, fit, highest, matches
from sealyard.versioning.compare.comparison import compare

__all__ = ("Change", "Comparison", "Severity", "Version", "compare", "fit", "highest", "matches")
