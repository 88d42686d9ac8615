"""Facts that are missing, from the rest of the journal: of executions of an older version, and of those that were lost.

What the journal does not say is not made up: there are no tokens, no visits and no searches.
"""

import math
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from sealyard.metrics.names import METRICS, OTHER
from sealyard.store.metrics.fold import read_marks, write_facts
from sealyard.store.reader import Reader
from sealyard.store.writer import Write
from sealyard.values import Executed, Outcome, UseCase

_SETTLED_SECONDS = 600.0
"""After its end the gateway itself writes the fact, as soon as it can."""
_PAGE = 200
"""So many executions are looked at before others may read."""
_TOOLS = 20
_POLLS = 3

_ERROR_TYPES = frozenset(METRICS["sealyard_execution_errors_total"].labels["error_type"])
_OUTCOMES = msgspec.json.Decoder(Outcome)
_ENCODER = msgspec.json.Encoder()

_Place = tuple[float, str]
"""When an execution started, and its id."""

_HAS_FACT = "SELECT 1 FROM facts WHERE execution_id = ? AND execution_id <> '' AND kind = 'execution'"
_PAGE_END = (
    "SELECT started_at, execution_id FROM executions WHERE (started_at, execution_id) > (?, ?)"
    " ORDER BY started_at, execution_id LIMIT 1 OFFSET ?"
)
# What was run to try a skill out is nobody's use of anything.
_MISSING = (
    "SELECT execution_id, principal, code, started_at, ended_at, status, outcome, background"
    " FROM executions JOIN codes ON codes.sha256 = code_sha256"
    " WHERE (started_at, execution_id) > (?, ?) AND (started_at, execution_id) <= (?, ?)"
    " AND status <> 'running' AND coalesce(ended_at, started_at) < ?"
    " AND session NOT LIKE '%:rehearsal-%'"
    " AND NOT EXISTS (SELECT 1 FROM facts WHERE facts.execution_id = executions.execution_id"
    " AND facts.execution_id <> '' AND kind = 'execution')"
    " ORDER BY started_at, execution_id"
)
# By tool: how often it was called, how often with the same arguments at most, what it answered, and until when.
_CALLS = (
    "SELECT tool, sum(count), max(count), sum(bytes), max(until) FROM (SELECT tool, count(*) AS count,"
    " sum(answer_bytes) AS bytes, max(started_at + seconds) AS until FROM calls WHERE execution_id = ?"
    " GROUP BY tool, arguments, CASE WHEN arguments_cut THEN number END) GROUP BY tool ORDER BY tool"
)


async def derive(reader: Reader, write: Callable[[Write], Awaitable[None]] | None) -> int:
    """Record the facts that are missing, with `write` if it is given; how many there are."""
    settled = time.time() - _SETTLED_SECONDS
    days = (await reader.read(read_marks)).days  # of those before it the facts are gone, not missing
    count = 0
    after: _Place | None = (float(days), "")
    while after is not None:
        facts, after = await reader.read(_read_page, after, settled)
        count += len(facts)
        if facts and write is not None:
            await write(partial(_write_missing, facts=facts))
    return count


def _read_page(connection: sqlite3.Connection, after: _Place, settled: float) -> tuple[list[Executed], _Place | None]:
    """The facts that the next executions lack, and where to go on."""
    last: _Place | None = connection.execute(_PAGE_END, (*after, _PAGE - 1)).fetchone()
    rows = connection.execute(_MISSING, (*after, *(last or (math.inf, "")), settled)).fetchall()
    skills = _read_skills(connection, [row[0] for row in rows])
    return [_executed(connection, row, skills.get(row[0], 0)) for row in rows], last


def _executed(connection: sqlite3.Connection, row: tuple[Any, ...], skills: int) -> Executed:
    """What an execution, its code, its outcome and its calls say."""
    execution_id, principal, code, started_at, ended_at, status, text, background = row
    calls = connection.execute(_CALLS, (execution_id,)).fetchall()
    until = ended_at if ended_at is not None else max([started_at, *(call[4] for call in calls)])
    outcome = _decode(text)
    failure, usage = (None, None) if outcome is None else (outcome.failure, outcome.usage)
    bytes_in = sum(call[3] for call in calls)
    return Executed(
        at=until,
        principal=principal,
        execution_id=execution_id,
        form="code" if code else "call",
        status=status,
        failure="" if failure is None else failure.kind,
        error_type="" if failure is None else failure.type if failure.type in _ERROR_TYPES else OTHER,
        level="" if outcome is None else outcome.level,
        tier="" if outcome is None else outcome.tier,
        seconds=max(0.0, until - started_at),
        cpu_seconds=None if usage is None else usage.cpu_seconds,
        memory_bytes=None if usage is None else usage.memory_peak_bytes,
        calls=sum(call[1] for call in calls),
        tools=tuple(call[0] for call in calls[:_TOOLS]),
        bytes_in=bytes_in,
        bytes_out=_sent_bytes(outcome) if code else bytes_in,
        code_characters=len(code.decode("utf-8", "surrogatepass")),
        use_case=_use_case(calls, skills) if code else "direct",
        skills=skills,
        is_background=bool(background),
    )


def _use_case(calls: Sequence[tuple[Any, ...]], skills: int) -> UseCase:
    if skills:
        return "skill_reuse"
    if any(row[2] >= _POLLS for row in calls):
        return "polling"
    if len(calls) > 1:
        return "workflow"
    return "filtering" if calls else "compute"


def _sent_bytes(outcome: Outcome | None) -> int:
    """What was printed and what came out: the agent was sent that, as far as its budget went."""
    if outcome is None:
        return 0
    result = b"" if outcome.result is None else _ENCODER.encode(outcome.result)
    return len(result) + len(outcome.output.encode("utf-8", "surrogatepass"))


def _read_skills(connection: sqlite3.Connection, executions: Sequence[str]) -> dict[str, int]:
    """How many skills each of them imported."""
    marks = ", ".join("?" * len(executions))
    query = f"SELECT execution_id, count(*) FROM skill_uses WHERE execution_id IN ({marks}) GROUP BY execution_id"  # noqa: S608
    return dict(connection.execute(query, executions)) if executions else {}


def _decode(outcome: str | None) -> Outcome | None:
    try:
        return None if outcome is None else _OUTCOMES.decode(outcome)
    except msgspec.DecodeError:
        return None


def _write_missing(connection: sqlite3.Connection, facts: Sequence[Executed]) -> None:
    missing = [fact for fact in facts if connection.execute(_HAS_FACT, (fact.execution_id,)).fetchone() is None]
    write_facts(connection, missing)
