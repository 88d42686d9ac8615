"""Expensive work on hostile input, in helper processes that can be killed.

One regular expression, one parse or one JSON document holds the interpreter until it is done, in a thread as much as on
the event loop. What may take longer than a few milliseconds is therefore done by a helper process: the loop goes on,
and a deadline ends the work by killing the helper.
"""

from sealyard.offload.documents import check_values, decode
from sealyard.offload.pool import HelperResult, Memory, Offload
from sealyard.offload.turns import short_work

__all__ = ("HelperResult", "Memory", "Offload", "check_values", "decode", "short_work")
