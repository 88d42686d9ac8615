"""The rights of a worker, as data: isolation levels, policies and presets.

Marked for security review: a change here changes what hostile code may use.
"""

from sealyard.sandbox.policy.levels import (
    ANALYSIS,
    DATABASE_READONLY,
    DEFAULT,
    FILTERING,
    LEVELS,
    PRESETS,
    IsolationLevel,
    IsolationPolicy,
)

__all__ = (
    "ANALYSIS",
    "DATABASE_READONLY",
    "DEFAULT",
    "FILTERING",
    "LEVELS",
    "PRESETS",
    "IsolationLevel",
    "IsolationPolicy",
)
