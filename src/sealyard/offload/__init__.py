"""Expensive work on hostile input, in helper processes that can be killed.

One regular expression, one parse or one JSON document holds the interpreter until it is done, in a thread as much as on
the event loop. What may take longer than a few milliseconds is therefore done by a helper process: the loop goes on,
and a deadline ends the work by killing the helper.
"""

from sealyard.offload.child import Query
from sealyard.offload.documents import check_dense, decode
from sealyard.offload.pool import HelperResult, Offload
from sealyard.offload.process import Process, execute
from sealyard.offload.turns import short_work

__all__ = ("HelperResult", "Offload", "Process", "Query", "check_dense", "decode", "execute", "short_work")
