"""Visits: the activity of one principal in one gateway, until half an hour passes without any.

The newest protocol has no connection that marks when a conversation begins or ends, so time decides. It
decides how often the definitions of all tools would have been read, and which search a call came from.
"""

import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from sealyard.catalog import Snapshot

_IDLE_SECONDS = 1_800.0  # half an hour without anything ends a visit
_VISITS_KEPT = 10_000  # one per principal; the longest unused goes first
_SEARCHES_KEPT = 20  # whose tools may still be called
_TOOLS_KEPT = 20  # called last


class _Search:
    """A search whose tools nobody has called yet."""

    def __init__(self, search_id: str, at: float, found: Sequence[str]) -> None:
        self.id = search_id
        self.at = at
        self.ranks = {name: rank for rank, name in enumerate(found, 1)}


class Visit:
    """One visit."""

    def __init__(self, principal: str, now: float) -> None:
        self.id = secrets.token_hex(8)
        self.principal = principal
        self.last_at = now
        self.has_run_code = False
        self._searches: deque[_Search] = deque(maxlen=_SEARCHES_KEPT)
        self._is_searching = False
        self.tools: deque[str] = deque(maxlen=_TOOLS_KEPT)
        """The tools that were called last, each once, the newest at the end."""
        self.hinted: set[str] = set()
        """Hints that are given once in a visit."""

    def note_search(self, search_id: str, found: Sequence[str]) -> bool:
        """Remember a search; returns True if the one before it led to no call."""
        is_continued = self._is_searching
        self._is_searching = True
        self._searches.append(_Search(search_id, self.last_at, found))
        return is_continued

    def note_call(self, tool: str) -> list[tuple[str, int, float]]:
        """The searches that found this tool and had led to no call so far: id, rank and the seconds since."""
        self._is_searching = False
        if not self.tools or self.tools[-1] != tool:
            if tool in self.tools:
                self.tools.remove(tool)
            self.tools.append(tool)
        if not self._searches:
            return []
        hits = [search for search in self._searches if tool in search.ranks]
        for search in hits:
            self._searches.remove(search)
        now = time.time()
        return [(search.id, search.ranks[tool], max(0.0, now - search.at)) for search in hits]


class Visits:
    """The visits of one gateway. `on_begin` gets each new one, with its view of the catalog."""

    def __init__(self, on_begin: Callable[[Visit, Snapshot], None]) -> None:
        self._on_begin = on_begin
        self._visits: OrderedDict[str, Visit] = OrderedDict()

    def of(self, principal: str, view: Snapshot) -> Visit:
        """The visit of a principal that sees `view` of the catalog: the current one, or a new one."""
        now = time.time()
        visit = self._visits.get(principal)
        if visit is None or now - visit.last_at > _IDLE_SECONDS:
            visit = self._visits[principal] = Visit(principal, now)
            self._on_begin(visit, view)
        visit.last_at = now
        self._visits.move_to_end(principal)
        while len(self._visits) > _VISITS_KEPT:
            self._visits.popitem(last=False)
        return visit
