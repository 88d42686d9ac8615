"""Conceals private values in relayed messages, on the event loop and in helper processes alike.

Helper processes import this package. It is separate from `relay`, whose door needs the whole MCP SDK.
"""

from sealyard.serve.messages.offloaded import Made, conceal, relay_here
from sealyard.serve.messages.structure import loosened, shape_of

__all__ = ("Made", "conceal", "loosened", "relay_here", "shape_of")
