"""Expensive work on hostile input, in helper processes that can be killed.

One regular expression, one parse or one JSON document holds the interpreter until it is done, in a thread as much as on
the event loop. What may take longer than a few milliseconds is therefore done by a helper process: the loop goes on,
and a deadline ends the work by killing the helper.
"""

from sealyard.offload.documents import (
    LARGE,
    MOST_DEPTH,
    MOST_NODES,
    check_document,
    check_values,
    decode,
    depth_exceeds,
    is_dense,
    is_large,
    signs_of,
)
from sealyard.offload.pool import Answered, Memory, Offload
from sealyard.offload.turns import turn

__all__ = (
    "LARGE",
    "MOST_DEPTH",
    "MOST_NODES",
    "Answered",
    "Memory",
    "Offload",
    "check_document",
    "check_values",
    "decode",
    "depth_exceeds",
    "is_dense",
    "is_large",
    "signs_of",
    "turn",
)
