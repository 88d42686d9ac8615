"""Relayed messages read for what is private: the work itself, for the event loop and for helper processes alike.

Helper processes import this package. It stands beside `relay`, whose door needs the whole MCP SDK.
"""

__all__ = ()
