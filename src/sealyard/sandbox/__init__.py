"""Runs agent code that is hostile from its first byte.

`open_sandbox` builds the strongest walls this machine offers and proves them; `Sandbox.run` runs code in a sealed,
single-use worker. What the code does wrong is a result; only a failure of the host raises.
"""

from sealyard.sandbox.policy.levels import IsolationLevel, IsolationPolicy
from sealyard.sandbox.pool import PoolOptions
from sealyard.sandbox.probe import open_sandbox
from sealyard.sandbox.run import ReplayClock, Sandbox

__all__ = ("IsolationLevel", "IsolationPolicy", "PoolOptions", "ReplayClock", "Sandbox", "open_sandbox")
