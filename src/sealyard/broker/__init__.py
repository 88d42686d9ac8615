"""The only road from sandboxed code to a tool.

`Broker.call` is the road, and `Approvals` asks people. Two packages have doors of their own: `policy` decides calls,
`upstreams` has what offers tools.

Exported names are imported on first use: the road needs the store and the catalog, and a command that shows the policy
needs neither.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.broker.approvals import Approvals
    from sealyard.broker.call import Broker, FinishedCall, OpenCall, Passage
    from sealyard.broker.limits import Attempts

__all__ = ("Approvals", "Attempts", "Broker", "FinishedCall", "OpenCall", "Passage")

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__,
        approvals="Approvals",
        call="Broker FinishedCall OpenCall Passage",
        limits="Attempts",
    )
