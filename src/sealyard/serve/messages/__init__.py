"""Relayed messages read for what is private: the work itself, for the event loop and for helper processes alike.

Helper processes import this package. It stands beside `relay`, whose door needs the whole MCP SDK.
"""

from sealyard.serve.messages.offloaded import Made, conceal, relay_here
from sealyard.serve.messages.structure import loosened, shape_of

__all__ = ("Made", "conceal", "loosened", "relay_here", "shape_of")
