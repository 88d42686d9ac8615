"""The `proxy` mode: upstream servers passed through to clients as if the gateway were not there.

`server` answers clients, and takes each call of a tool through the broker; `border` lets no private value out and no
token in, as `concealment` and `forms` write it; `links` and `clients` hold the connections on both sides; `bulk` writes
results too large for the SDK.

Names are imported on first use: helper processes import `concealment` and do without the MCP SDK.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.serve.relay.bulk import BulkServer, written
    from sealyard.serve.relay.server import build_relay

__all__ = ("BulkServer", "build_relay", "written")

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(__name__, bulk="BulkServer written", server="build_relay")
