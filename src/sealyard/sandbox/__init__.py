"""Runs agent code that is hostile from its first byte.

`open_sandbox` builds the strongest walls this machine offers and proves them; `Sandbox.run` runs code in a sealed,
single-use worker. What the code does wrong is a result; only a failure of the host raises.

Five packages below have doors of their own: `policy` is the rights of a worker, `review` judges code before it runs,
`pool` decides which run comes next, `sessions` keeps files between runs, `importable` is what code can import.

Names are imported on first use: a zygote is started before the rest is needed.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.sandbox.policy import IsolationLevel, IsolationPolicy
    from sealyard.sandbox.pool import PoolOptions
    from sealyard.sandbox.probe import examine, open_sandbox
    from sealyard.sandbox.report import Report
    from sealyard.sandbox.run import ReplayClock, Sandbox

__all__ = (
    "IsolationLevel",
    "IsolationPolicy",
    "PoolOptions",
    "ReplayClock",
    "Report",
    "Sandbox",
    "examine",
    "open_sandbox",
)

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__,
        policy="IsolationLevel IsolationPolicy",
        pool="PoolOptions",
        probe="examine open_sandbox",
        report="Report",
        run="ReplayClock Sandbox",
    )
