"""Frozen values that cross package borders, one module per border.

They are plain data: `msgspec.json.encode` and `msgspec.to_builtins` work on all of them. Methods only derive from it.
Exported here are those that a program meets which runs code in a sandbox of its own.
"""

from sealyard.values.runs import Failure, Limits, Outcome, Reply, Spill, Usage

__all__ = ("Failure", "Limits", "Outcome", "Reply", "Spill", "Usage")
