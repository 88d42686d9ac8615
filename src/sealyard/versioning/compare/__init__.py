"""How two definitions of a tool differ: what changed, what is proven to be the same, and which version that makes."""

from sealyard.versioning.compare.changes import Change, Comparison, Severity, highest
from sealyard.versioning.compare.comparison import compare
from sealyard.versioning.compare.semver import Version, fit, matches

__all__ = ("Change", "Comparison", "Severity", "Version", "compare", "fit", "highest", "matches")
