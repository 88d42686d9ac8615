"""Runs agent code that is hostile from its first byte.

`open_sandbox` builds the strongest walls this machine offers and proves them; `Sandbox.run` runs code in a sealed,
single-use worker. What the code does wrong is a result; only a failure of the host raises.
"""

from toolyard.sandbox.policy.levels import IsolationLevel, IsolationPolicy
from toolyard.sandbox.pool import PoolOptions, Sandbox
from toolyard.sandbox.probe import open_sandbox

__all__ = ("IsolationLevel", "IsolationPolicy", "PoolOptions", "Sandbox", "open_sandbox")
