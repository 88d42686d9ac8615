"""The differences of two definitions of a tool, what is proven to be the same, and the version that follows."""

from sealyard.versioning.compare.changes import Change, Comparison, Severity, Version, highest, major_of, matches
from sealyard.versioning.compare.comparison import compare

__all__ = ("Change", "Comparison", "Severity", "Version", "compare", "highest", "major_of", "matches")
