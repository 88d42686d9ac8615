"""Usage: tools and their versions, combinations of tools, principals, code, use cases and skills.

Figures are exact over the rows of the journal. Beyond `MOST_ROWS` of calls or of facts, older rows are not read: the
answer's `since` is later then.
"""

import math
import sqlite3
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from sealyard.metrics.sums import OUTCOMES_FAILED, OUTCOMES_OUTSIDE, outcome_of
from sealyard.store.columns import Columns
from sealyard.store.metrics.sums import decode_fact, snapshot
from sealyard.values.facts import Executed, Saw, Searched

_N = TypeVar("_N", int, float)

MOST_ROWS = 100_000
"""Calls, and facts, in one answer: bounds the time of the read and the memory of its percentiles."""

_LISTED = 100
"""Entries of each list, those with the most calls, runs or uses: what a page of the dashboard shows."""

_Window = tuple[float, float, str | None, str | None]
"""Two times, and twice the principal."""

_CALL_TIMES = "SELECT started_at FROM calls WHERE started_at >= ? AND started_at < ? ORDER BY started_at"
_FACT_TIMES = "SELECT at FROM facts WHERE at >= ? AND at < ? AND kind IN ('execution', 'session', 'search') ORDER BY at"
_CALLS = (
    "SELECT tool, upstream, coalesce(nullif(version, ''), '1.0.0'), started_at, seconds, substr(error, 1, 100)"
    " FROM calls WHERE started_at >= ? AND started_at < ? AND (? IS NULL OR EXISTS (SELECT 1 FROM executions"
    " WHERE executions.execution_id = calls.execution_id AND principal = ?))"
)
_FACT_ROWS = (
    "SELECT CAST(fact AS BLOB) FROM facts WHERE at >= ? AND at < ? AND kind IN ('execution', 'session', 'search')"
    " AND (? IS NULL OR principal = ?)"
)


class ToolUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one version of a tool."""

    tool: str
    """Its full name."""
    upstream: str
    """Empty for calls recorded without it."""
    version: str
    calls: int
    errors: int
    """Failed calls that were meant to reach the server."""
    refused: int
    """Calls that ended in the gateway: denied, refused by a person, over a limit, with wrong arguments, cancelled."""
    p50_seconds: float
    p95_seconds: float
    last_at: float
    """The time of the last call, in seconds since the epoch."""


class CombinationUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Two or more tools that the same run called."""

    tools: tuple[str, ...]
    """Full names, sorted; the first twenty."""
    runs: int
    ok: int


class PrincipalUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The activity of one principal."""

    principal: str
    sessions: int
    """Visits that began."""
    executions: int
    failed: int
    searches: int
    calls: int
    code_share: float | None
    """The share of those visits that ran code. None without a visit."""


class CodeUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The length of executed code. None without a run."""

    runs: int
    mean_characters: float | None
    p50_characters: int | None
    p95_characters: int | None


class SkillUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The uses of one version of a skill."""

    namespace: str
    name: str
    version: str
    uses: int
    """Runs that used it."""
    failures: int
    """Failed calls of it."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Usage from `since` until just before `until`. Each list is bounded, the busiest first."""

    since: float
    """Later than asked for if there were too many rows."""
    until: float
    tools: tuple[ToolUsage, ...]
    combinations: tuple[CombinationUsage, ...]
    principals: tuple[PrincipalUsage, ...]
    code: CodeUsage
    use_cases: dict[str, int]
    """Runs by use case."""
    skills: tuple[SkillUsage, ...]


_SKILLS = Columns("skill_uses", SkillUsage, read={"uses": "count(*)", "failures": "sum(failures)"})
_USED = (
    "WHERE at >= ? AND at < ? AND (? IS NULL OR principal = ?)"
    " GROUP BY namespace, name, version ORDER BY 4 DESC, 1, 2, 3 LIMIT ?"
)


def read_usage(connection: sqlite3.Connection, since: float, until: float, principal: str | None = None) -> Usage:
    """The usage between two times, of one principal or of all. Raises `StoreError` if the store cannot be read."""
    facts = _Facts()
    with snapshot(connection):
        since = _first_counted(connection, since, until)
        window = (since, until, principal, principal)
        tools = _read_tools(connection, window)
        facts.add(connection, window)
        skills = _SKILLS.all(connection, _USED, (*window, _LISTED))
    return Usage(
        since=since,
        until=until,
        tools=tools,
        combinations=facts.combinations(),
        principals=facts.principals(),
        code=facts.code(),
        use_cases=dict(facts.use_cases.most_common()),
        skills=tuple(skills),
    )


def _first_counted(connection: sqlite3.Connection, since: float, until: float) -> float:
    """The time from which on there are no more rows than are read. Reads only indices."""
    for times in (_CALL_TIMES, _FACT_TIMES):
        row = connection.execute(f"{times} DESC LIMIT 1 OFFSET ?", (since, until, MOST_ROWS)).fetchone()
        if row is not None:
            since = math.nextafter(row[0], math.inf)
    return since


# Calls


class _ToolCalls:
    """The calls of one version of a tool."""

    def __init__(self) -> None:
        self.seconds = array("d")
        self.errors = self.refused = 0
        self.last_at = 0.0

    def usage(self, tool: str, upstream: str, version: str) -> ToolUsage:
        seconds = sorted(self.seconds)
        return ToolUsage(
            tool=tool,
            upstream=upstream,
            version=version,
            calls=len(seconds),
            errors=self.errors,
            refused=self.refused,
            p50_seconds=_rank(seconds, 0.5),
            p95_seconds=_rank(seconds, 0.95),
            last_at=self.last_at,
        )


def _read_tools(connection: sqlite3.Connection, window: _Window) -> tuple[ToolUsage, ...]:
    tools: defaultdict[tuple[str, str, str], _ToolCalls] = defaultdict(_ToolCalls)
    for tool, upstream, version, at, seconds, error in connection.execute(_CALLS, window):
        calls = tools[tool, upstream, version]
        outcome = outcome_of(error)
        calls.seconds.append(seconds)
        calls.errors += outcome in OUTCOMES_FAILED
        calls.refused += outcome not in OUTCOMES_OUTSIDE
        calls.last_at = max(at, calls.last_at)
    busiest = sorted(tools.items(), key=lambda each: (-len(each[1].seconds), each[0]))[:_LISTED]
    return tuple(calls.usage(*key) for key, calls in busiest)


# Facts


class _Person:
    """Counters of one principal."""

    def __init__(self) -> None:
        self.executions = self.failed = self.searches = self.calls = 0
        self.begun: set[str] = set()
        self.with_code: set[str] = set()


class _Facts:
    """Adds up runs, searches and visits."""

    def __init__(self) -> None:
        self.use_cases: Counter[str] = Counter()
        self._people: dict[str, _Person] = {}
        self._runs: Counter[tuple[str, ...]] = Counter()
        self._ok: Counter[tuple[str, ...]] = Counter()
        self._characters: array[int] = array("q")

    def add(self, connection: sqlite3.Connection, window: _Window) -> None:
        for (text,) in connection.execute(_FACT_ROWS, window):
            fact = decode_fact(text)
            if fact is None:
                continue
            person = self._people.setdefault(fact.principal, _Person())
            if isinstance(fact, Searched):
                person.searches += 1
            elif isinstance(fact, Saw):
                (person.begun if fact.event == "begin" else person.with_code).add(fact.session)
            elif isinstance(fact, Executed):
                self._add_run(fact, person)

    def _add_run(self, fact: Executed, person: _Person) -> None:
        is_ok = fact.status == "ok"
        person.executions += 1
        person.failed += not is_ok
        person.calls += fact.calls
        self.use_cases[fact.use_case] += 1
        if fact.form == "code":
            self._characters.append(fact.code_characters)
        if len(fact.tools) > 1:
            self._runs[fact.tools] += 1
            self._ok[fact.tools] += is_ok

    def combinations(self) -> tuple[CombinationUsage, ...]:
        busiest = sorted(self._runs, key=lambda tools: (-self._runs[tools], tools))[:_LISTED]
        return tuple(CombinationUsage(tools=each, runs=self._runs[each], ok=self._ok[each]) for each in busiest)

    def principals(self) -> tuple[PrincipalUsage, ...]:
        busiest = sorted(self._people, key=lambda name: (-self._people[name].executions, name))[:_LISTED]
        return tuple(_principal(name, self._people[name]) for name in busiest)

    def code(self) -> CodeUsage:
        lengths = sorted(self._characters)
        if not lengths:
            return CodeUsage(runs=0, mean_characters=None, p50_characters=None, p95_characters=None)
        return CodeUsage(
            runs=len(lengths),
            mean_characters=sum(lengths) / len(lengths),
            p50_characters=_rank(lengths, 0.5),
            p95_characters=_rank(lengths, 0.95),
        )


def _principal(name: str, person: _Person) -> PrincipalUsage:
    # A visit that began before the window counts in neither: its share is unknown here.
    with_code = len(person.begun & person.with_code)
    return PrincipalUsage(
        principal=name,
        sessions=len(person.begun),
        executions=person.executions,
        failed=person.failed,
        searches=person.searches,
        calls=person.calls,
        code_share=with_code / len(person.begun) if person.begun else None,
    )


def _rank(ordered: Sequence[_N], share: float) -> _N:
    """The smallest value that at least this share of the values does not exceed."""
    return ordered[math.ceil(share * len(ordered)) - 1]
