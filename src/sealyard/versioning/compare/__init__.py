"""The differences of two definitions of a tool, and what is proven to be the same."""

from sealyard.versioning.compare.comparison import compare
from sealyard.versioning.compare.schemas import is_wrapped, kind_of, lookup, resolve, unwrapped
from sealyard.versioning.compare.successors import find_renamed

__all__ = ("compare", "find_renamed", "is_wrapped", "kind_of", "lookup", "resolve", "unwrapped")
