"""The `proxy` mode: upstream servers passed through to clients as if the gateway were not there.

`server` answers clients; `border` lets no private value out and no token in; `links` and `clients` hold the connections
on both sides; `calls` takes each call of a tool through the broker. `bulk` writes what is too large for the SDK.
"""

from sealyard.serve.relay.bulk import written
from sealyard.serve.relay.server import build_relay

__all__ = ("build_relay", "written")
