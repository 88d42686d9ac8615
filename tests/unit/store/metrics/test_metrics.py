"""Facts and their sums in the store: counted once, counted again to the same, and kept while rows go."""

import asyncio
import math
import sqlite3
import tempfile
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sealyard.errors import InvalidRequest, StoreError
from sealyard.metrics.sums.sums import CallRow, Sums
from sealyard.store import Store, open_store
from sealyard.store.database import APPLICATION_ID, MIGRATIONS
from sealyard.store.metrics import Rebuilt, tables
from sealyard.store.metrics.sums import FOLD_ROWS
from sealyard.store.metrics.tables import Pruned, drop_sums
from sealyard.values.facts import Executed, Fact, Hidden, Saw, Searched, SecurityEvent, Tokens, UpstreamEvent
from sealyard.values.runs import CallRecord, ExecutionRecord
from sealyard.values.skills import SkillUse

DAY = 86_400
HOUR = 3_600
BASE = 20_000 * DAY
"""A day in 2024."""


def executed(at: float, **changes: Any) -> Executed:
    """A good run of code, but for the changes."""
    known: dict[str, Any] = {"form": "code", "status": "ok", "seconds": 0.25, "use_case": "compute"}
    return Executed(at=at, **known | {"level": "production", "tier": "namespace"} | changes)


def call(at: float, **changes: Any) -> CallRecord:
    """A good call, but for the changes."""
    known: dict[str, Any] = {"execution_id": "e1", "number": 1, "tool": "mcp__bank__pay", "digest": "d1"}
    known |= {"upstream": "bank", "arguments": {"amount": 5}, "seconds": 0.25, "answer_bytes": 10}
    return CallRecord(started_at=at, **known | changes)


def execution(at: float, execution_id: str = "e1", **changes: Any) -> ExecutionRecord:
    """An execution that is over, but for the changes."""
    known: dict[str, Any] = {"principal": "local", "session": "main", "code": "1 + 1", "ended_at": at + 1}
    return ExecutionRecord(execution_id=execution_id, started_at=at, **{"status": "ok"} | known | changes)


def direct(records: Iterable[Fact | CallRecord], since: float = -math.inf, until: float = math.inf) -> Sums:
    """What the records of that time add up to, without any store."""
    sums = Sums()
    for record in records:
        if isinstance(record, CallRecord):
            if since <= record.started_at < until:
                sums.add_call(
                    CallRow(
                        tool=record.tool,
                        upstream=record.upstream,
                        error=record.error,
                        seconds=record.seconds,
                        answer_bytes=record.answer_bytes,
                    )
                )
        elif since <= record.at < until:
            sums.add_fact(record)
    return sums


def record(store: Store, records: Iterable[Fact | CallRecord | ExecutionRecord]) -> None:
    """Give all of them to the store."""
    for each in records:
        if isinstance(each, CallRecord):
            store.record_call(each)
        elif isinstance(each, ExecutionRecord):
            store.record_end(each)
        else:
            store.metrics.record(each)


async def fold_all(store: Store) -> int:
    """Fold until nothing is left; how many rows."""
    count = 0
    while taken := await store.metrics.fold():
        count += taken
    return count


def query(path: Path, text: str, *values: Any) -> list[tuple[Any, ...]]:
    """What another program reads or does in the database."""
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(text, values).fetchall()


def stored(path: Path) -> list[tuple[Any, ...]]:
    """Every sum as it is kept."""
    return query(path, "SELECT span, start, name, labels, count, total, buckets FROM metric_sums ORDER BY 1, 2, 3, 4")


# Recording and folding


async def test_what_was_recorded_counts_at_once_and_after_folding(tmp_path: Path) -> None:
    """Whoever reads gets the sums and what is not in them yet."""
    records = [executed(BASE + 1.0), call(BASE + 2.0), Hidden(at=BASE + 3.0, values={"email": 2})]
    async with open_store(tmp_path / "s.db") as store:
        record(store, records)
        await store.flush()
        before = await store.metrics.sums()
        assert await fold_all(store) == 3
        after = await store.metrics.sums()
        assert await store.metrics.fold() == 0

    assert before == direct(records)
    assert after == direct(records)


async def test_sums_are_kept_for_all_time_each_day_and_each_hour(tmp_path: Path) -> None:
    """UTC, by when it happened, whatever order it was recorded in."""
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        record(
            store, [executed(BASE + DAY), executed(BASE + HOUR - 0.001), executed(BASE + HOUR), call(BASE + DAY - 1)]
        )
        await fold_all(store)

    name = "sealyard_execution_total"
    spans = query(path, "SELECT span, start, total FROM metric_sums WHERE name = ? ORDER BY 1, 2", name)
    assert spans == [
        ("day", BASE, 2),
        ("day", BASE + DAY, 1),
        ("hour", BASE, 1),
        ("hour", BASE + HOUR, 1),
        ("hour", BASE + DAY, 1),
        ("total", 0, 3),
    ]


async def test_one_fold_takes_a_bounded_number_of_rows(tmp_path: Path) -> None:
    """However much has piled up, others get to write in between."""
    async with open_store(tmp_path / "s.db") as store:
        record(store, [executed(BASE + number) for number in range(FOLD_ROWS)])
        record(store, [call(BASE + number) for number in range(500)])
        assert [await store.metrics.fold() for _ in range(3)] == [FOLD_ROWS, 500, 0]


async def test_a_backlog_is_counted_in_the_background_and_reading_stays_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade there may be millions of rows: a reader adds the first of them, and says how many are left."""
    monkeypatch.setattr(tables, "UNFOLDED_ROWS", 100)
    facts = [executed(BASE + number) for number in range(3 * FOLD_ROWS)]
    async with open_store(tmp_path / "store.db") as store:
        for fact in facts:
            store.metrics.record(fact)
        await store.flush()
        before = (await store.metrics.sums()).value("sealyard_execution_total"), await store.metrics.uncounted()
        await store.metrics.fold()
        during = (await store.metrics.sums()).value("sealyard_execution_total"), await store.metrics.uncounted()
        while await store.metrics.fold():
            pass
        after = (await store.metrics.sums()).value("sealyard_execution_total"), await store.metrics.uncounted()

    assert before == (100, 3 * FOLD_ROWS - 100)
    assert during == (FOLD_ROWS + 100, 2 * FOLD_ROWS - 100)
    assert after == (3 * FOLD_ROWS, 0)


async def test_two_gateways_that_fold_at_once_count_nothing_twice(tmp_path: Path) -> None:
    """Both record and fold, many times over; every row is in the sums once."""
    path = tmp_path / "s.db"
    records = [executed(BASE + number * 60, bytes_in=number) for number in range(400)]
    records_of_calls = [call(BASE + number * 60, answer_bytes=number) for number in range(400)]

    async def work(store: Store, start: int) -> int:
        folded = 0
        for number in range(start, 400, 2):
            record(store, [records[number], records_of_calls[number]])
            folded += await store.metrics.fold()
        return folded

    async with open_store(path) as one, open_store(path) as two:
        counts = await asyncio.gather(work(one, 0), work(two, 1), work(one, 400))
        assert sum(counts) + await fold_all(one) >= 800  # one of those who share a store may be told of another's
        assert await one.metrics.sums() == direct([*records, *records_of_calls])
        assert await two.metrics.sums() == direct([*records, *records_of_calls])
        assert (await two.metrics.rebuild()).differences == 0


async def test_fold_that_cannot_be_written_is_tried_again_once(tmp_path: Path) -> None:
    """While the store fails, those who fold are told so, and nothing is counted twice afterwards."""
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        record(store, [executed(BASE + 1.0)])
        await store.flush()
        broken = ["the disk is full", "the disk is full", "the disk is full"]

        def fail(connection: sqlite3.Connection) -> None:
            if broken:
                raise sqlite3.OperationalError(broken.pop())

        store._writer.put(fail, 0)
        with pytest.raises(StoreError, match="the disk is full"):
            await store.metrics.fold()
        while broken:
            with suppress(StoreError):
                await store.metrics.fold()
        await fold_all(store)
        assert (await store.metrics.sums()).value("sealyard_execution_total") == 1
    assert query(path, "SELECT total FROM metric_sums WHERE span = 'total' AND name = 'sealyard_execution_total'") == [
        (1,)
    ]


async def test_recording_only_enqueues(tmp_path: Path) -> None:
    """A fact is encoded and written by the writer's thread; the loop is not held up by a locked database."""
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for number in range(1_000):
                store.metrics.record(executed(BASE + number))
            assert await store.metrics.facts("execution") == []
            other.execute("ROLLBACK")
        await store.flush()
        assert len(await store.metrics.facts("execution")) == 1_000


async def test_facts_are_listed_newest_first(tmp_path: Path) -> None:
    """Of one kind, from a time on, at most so many."""
    async with open_store(tmp_path / "s.db") as store:
        record(store, [executed(BASE + number) for number in (3, 1, 2)])
        record(store, [Saw(at=BASE + 9.0, event="begin")])
        await store.flush()
        found = await store.metrics.facts("execution", since=BASE + 2.0)
        newest = await store.metrics.facts("execution", limit=1)
    assert found == [executed(BASE + 3), executed(BASE + 2)]
    assert newest == [executed(BASE + 3)]


# Hostile rows


async def test_rows_that_cannot_be_read_are_skipped_and_told(tmp_path: Path) -> None:
    """A newer version's fact, broken text, times that are none: never fatal, and the rest counts."""
    path = tmp_path / "s.db"
    good = [executed(BASE + 1.0), call(BASE + 1.0)]
    async with open_store(path) as store:
        record(store, good)
        record(store, [executed(math.nan), executed(math.inf), executed(-5.0), executed(1e300), call(-1.0), call(1e15)])
        store.metrics.record(executed(BASE + 1.0, seconds=math.nan))
        await store.flush()
        texts: list[Any] = ["", "{", "[]", '{"kind":"newer","at":1}', "[" * 100_000, b"\xff\xfe", b"\0"]
        texts.append('{"kind":"execution","at":1,"form":"odd","status":"ok","seconds":1,"use_case":"compute"}')
        for text in texts:
            insert = "INSERT INTO facts (at, kind, principal, execution_id, fact) VALUES (?, 'x', '', '', ?)"
            query(path, insert, BASE + 1.0, text)
        query(path, "INSERT INTO facts (at, kind, principal, execution_id, fact) VALUES ('soon', 'x', '', '', '{}')")
        query(path, "UPDATE facts SET fact = CAST(x'ff' AS TEXT) WHERE fact = '{'")
        copy = (
            "INSERT INTO calls SELECT execution_id, number, tool, digest, arguments, arguments_cut, answer, answer_cut,"
        )
        copy += " {}, error, started_at, {}, version, CAST(x'ff' AS TEXT), NULL FROM calls LIMIT 1"
        query(path, copy.format("'many'", "seconds"))
        query(path, copy.format("1.5", "seconds"))
        query(path, copy.format("answer_bytes", "'long'"))

        rebuilt = await store.metrics.rebuild()

        assert rebuilt.skipped == 4 + 2 + 1 + len(texts) + 1 + 3
        assert (rebuilt.differences, rebuilt.days) == (0, 1)
        assert await store.metrics.sums() == direct(good)
        assert await store.metrics.sums(since=0.0) == direct(good)
        assert await store.metrics.fold() == 0


async def test_huge_figures_never_break_the_store(tmp_path: Path) -> None:
    """They are bounded before they are added, and a sum that is full stays full."""
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        record(store, [executed(BASE + 1.0, bytes_in=10**300, seconds=1e300)])
        await fold_all(store)
        query(path, "UPDATE metric_sums SET total = ? WHERE name = 'sealyard_filtering_bytes_in_total'", (1 << 63) - 1)
        record(store, [executed(BASE + 1.0, bytes_in=10**300)])
        await fold_all(store)
        assert (await store.metrics.sums()).value("sealyard_filtering_bytes_in_total") == (1 << 63) - 1


async def test_half_a_character_in_a_fact_is_no_obstacle(tmp_path: Path) -> None:
    """Text of an agent may hold a lone surrogate, which no database takes."""
    async with open_store(tmp_path / "s.db") as store:
        odd = "a\ud800\0"
        query = Searched(
            at=BASE, search_id="a", place="agent", detail_level="full", seconds=0.1, query=odd, principal=odd
        )
        record(store, [query])
        await fold_all(store)
        assert (await store.metrics.sums()).value("sealyard_discovery_queries_total") == 1
        (found,) = await store.metrics.facts("search")
    assert found == msgspec.structs.replace(query, query="a?\0", principal="a?\0")


async def test_sums_of_another_version_are_left_out(tmp_path: Path) -> None:
    """A metric that is not known, labels or buckets that are others: not read, and no error."""
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        record(store, [executed(BASE + 1.0)])
        await fold_all(store)
        insert = "INSERT INTO metric_sums VALUES ('total', 0, ?, ?, 1, 1, ?)"
        query(path, insert, "sealyard_newer_total", "[]", "[]")
        query(path, insert, "sealyard_execution_total", '["code"]', "[]")
        query(path, insert, "sealyard_discovery_hits_total", "{}", "[]")
        query(path, insert, "sealyard_execution_calls", '["x"]', "[1]")
        query(path, insert, "sealyard_sdk_generation_seconds", "[]", "[1, 2]")
        query(path, insert, "sealyard_approval_wait_seconds", "[]", "x")
        query(path, insert, "sealyard_skill_runs_total", b"[]", 5)
        query(path, "INSERT INTO metric_sums VALUES ('total', 0, 'sealyard_skill_runs_total', '[]', 'a', 'b', '[]')")
        query(path, "INSERT INTO metric_marks VALUES ('newer', 5), ('hours', 'soon')")
        assert await store.metrics.sums() == direct([executed(BASE + 1.0)])
        record(store, [executed(BASE + 1.0, skills=1)])
        await fold_all(store)
        assert (await store.metrics.sums()).value("sealyard_skill_runs_total") == 1


async def test_upstreams_beyond_the_bound_are_the_same_however_they_are_counted(tmp_path: Path) -> None:
    """Those that were told apart first stay so: in later folds, in windows and when all is counted anew."""
    async with open_store(tmp_path / "s.db") as store:
        record(store, [call(BASE + 60 * number, upstream=f"u{number % 300}") for number in range(250)])
        await fold_all(store)
        record(store, [call(BASE + 60 * number, upstream=f"u{number}") for number in range(299, -1, -1)])
        await fold_all(store)
        whole = await store.metrics.sums()
        assert whole.by("sealyard_upstream_calls_total", "upstream")["other"] == 150
        assert (await store.metrics.rebuild()).differences == 0
        assert await store.metrics.sums() == whole
        assert await store.metrics.sums(since=0.0) == whole
        late = await store.metrics.sums(since=BASE + 60 * 249.5)
        assert late.by("sealyard_upstream_calls_total", "upstream") == {"other": 50}


# Windows and series


async def test_windows_are_exact_wherever_they_begin_and_end(tmp_path: Path) -> None:
    """Whole days, whole hours and ragged ends, folded or not, equal the sum over the rows themselves."""
    records: list[Fact | CallRecord] = []
    for number in range(600):
        at = BASE + (number * 7919) % (4 * DAY) + number / 7
        records.append(executed(at, bytes_in=number) if number % 3 else call(at, answer_bytes=number))
    edges = [-5.0, 0.0, BASE, BASE + 0.5, BASE + HOUR, BASE + 1.5 * HOUR, BASE + DAY, BASE + DAY - 0.001]
    edges += [BASE + 2.5 * DAY, BASE + 3 * DAY + 61.0, BASE + 4 * DAY, BASE + 9 * DAY, 1e13]
    async with open_store(tmp_path / "s.db") as store:
        record(store, records[:500])
        await fold_all(store)
        record(store, records[500:])
        await store.flush()
        for since in edges:
            assert await store.metrics.sums(since=since) == direct(records, since)
            assert await store.metrics.sums(until=since) == direct(records, until=since)
            for until in edges:
                assert await store.metrics.sums(since, until) == direct(records, since, until)


@pytest.mark.parametrize("step", ["minute", "hour", "day"])
async def test_series_has_every_step_with_what_happened_in_it(tmp_path: Path, step: str) -> None:
    """Folded or not; a step in which nothing happened is there and empty."""
    size = {"minute": 60, "hour": HOUR, "day": DAY}[step]
    records = [executed(BASE + number * size / 3, bytes_in=number) for number in range(60)]
    records_of_calls = [call(BASE + number * size * 2) for number in range(10)]
    since, until = BASE + size * 2.5, BASE + size * 21.5
    async with open_store(tmp_path / "s.db") as store:
        record(store, [*records[:40], *records_of_calls])
        await fold_all(store)
        record(store, records[40:])
        await store.flush()
        found = await store.metrics.series(since, until, step)

    starts = [BASE + size * place for place in range(2, 22)]
    assert [start for start, _ in found] == starts
    everything = [*records, *records_of_calls]
    assert [sums for _, sums in found] == [direct(everything, start, start + size) for start in starts]


async def test_series_that_cannot_be_given_are_refused(tmp_path: Path) -> None:
    """An unknown step, or more points than anybody draws."""
    async with open_store(tmp_path / "s.db") as store:
        with pytest.raises(InvalidRequest, match=r"There is no step 'week'\. Use one of minute, hour, day\."):
            await store.metrics.series(0.0, 1.0, "week")
        with pytest.raises(InvalidRequest, match=r"That would be 1,501 points, and at most 1,500 are given\."):
            await store.metrics.series(0.0, 60.0 * 1500.5, "minute")
        assert await store.metrics.series(5.0, 5.0, "day") == [(0.0, Sums())]
        assert await store.metrics.series(DAY * 2.0, 1.0, "day") == []


# Retention


async def test_pruning_removes_rows_of_old_days_and_keeps_their_sums(tmp_path: Path) -> None:
    """Executions, calls, facts, code that nobody else has, and keys; totals and days stay as they were."""
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        for day in range(3):
            at = BASE + day * DAY + 5.0
            record(store, [execution(at, f"e{day}", code=f"{day} + 1"), execution(at, f"same{day}", code="1")])
            record(store, [call(at, execution_id=f"e{day}"), executed(at, execution_id=f"e{day}")])
            record(store, [executed(at, execution_id=f"same{day}")])
            query(path, "INSERT INTO idempotency_keys VALUES ('local', ?, '', '', ?)", str(day), at)
        record(store, [call(BASE + 3 * DAY), executed(BASE + 3 * DAY)])
        await store.flush()
        before = await store.metrics.sums()

        pruned = await store.metrics.prune(BASE + 2 * DAY + 4000.0, BASE + DAY + 4000.0)

        assert pruned == Pruned(executions=4, calls=2, facts=4, codes=2, keys=2, hours=_hours(1))
        assert {each.execution_id for each in await store.executions()} == {"e2", "same2"}
        assert query(path, "SELECT CAST(code AS TEXT) FROM codes ORDER BY 1") == [("1",), ("2 + 1",)]
        assert query(path, "SELECT key FROM idempotency_keys") == [("2",)]
        assert await store.metrics.sums() == before
        assert query(path, "SELECT DISTINCT start FROM metric_sums WHERE span = 'hour' ORDER BY 1") == [
            (BASE + day * DAY,) for day in (1, 2, 3)
        ]
        assert (await store.metrics.rebuild()).differences == 0
        assert await store.metrics.sums() == before
        again = await store.metrics.prune(BASE + 2 * DAY, BASE + DAY)
        assert again == Pruned(executions=0, calls=0, facts=0, codes=0, keys=0, hours=0)
    assert query(path, "PRAGMA foreign_key_check") == []


def _hours(count: int) -> int:
    """How many sums a run and a call have in one hour, so often."""
    return count * len(direct([executed(BASE), call(BASE)]))


async def test_what_is_running_is_left_alone(tmp_path: Path) -> None:
    """Also its calls and facts, however long ago it began."""
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        store.record_start(execution(BASE, "runs", ended_at=None, status="running", code="forever"))
        record(store, [execution(BASE, "over"), call(BASE, execution_id="runs"), call(BASE, execution_id="over")])
        record(store, [Hidden(at=BASE, execution_id="runs", values={"email": 1}), call(BASE + 9 * DAY)])
        record(store, [Saw(at=BASE + 9 * DAY, event="begin")])
        pruned = await store.metrics.prune(BASE + DAY, BASE + DAY)
        assert (pruned.executions, pruned.calls, pruned.facts) == (1, 1, 0)
        assert [each.execution_id for each in await store.executions()] == ["runs"]
        assert len(await store.calls("runs")) == 1
        assert (await store.metrics.rebuild()).differences == 0


async def test_recordings_of_skills_outlive_the_journal(tmp_path: Path) -> None:
    """What a skill was made of and how it was used has its own keeping."""
    path = tmp_path / "s.db"
    use = SkillUse(
        namespace="local", name="pay", version="1.0.0", execution_id="e1", principal="local", at=BASE, seconds=1.0
    )
    async with open_store(path) as store:
        record(store, [execution(BASE), call(BASE)])
        store.traces.keep("e1", 1, b'"' + b"x" * 70_000 + b'"')
        store.skills.record_uses([use])
        await store.flush()
        await store.metrics.prune(BASE + DAY, BASE + DAY)
        assert await store.executions() == []
    assert query(path, "SELECT count(*) FROM trace_answers") == [(1,)]
    assert query(path, "SELECT count(*) FROM skill_uses") == [(1,)]


async def test_the_highest_number_is_never_given_again(tmp_path: Path) -> None:
    """After everything old is removed, what comes next is still counted, once."""
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        record(store, [executed(BASE + number) for number in range(5)])
        record(store, [call(BASE + number) for number in range(5)])
        pruned = await store.metrics.prune(BASE + 9 * DAY, BASE + 9 * DAY)
        assert (pruned.facts, pruned.calls) == (4, 4)
        query(path, "DELETE FROM codes")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")  # must not give the rows other numbers
    async with open_store(path) as store:
        record(store, [executed(BASE + 9 * DAY), call(BASE + 9 * DAY)])
        assert await fold_all(store) == 2
        found = await store.metrics.sums()
        assert (found.value("sealyard_execution_total"), found.value("sealyard_upstream_calls_total")) == (6, 6)


async def test_where_rows_are_gone_whole_hours_or_days_count(tmp_path: Path) -> None:
    """A window that begins among them begins with the hour or the day; what came late for such a day counts too."""
    records = [executed(BASE + day * DAY + hour * HOUR + 1.0) for day in range(4) for hour in (2, 3, 5)]
    async with open_store(tmp_path / "s.db") as store:
        record(store, records)
        await store.metrics.prune(BASE + 2 * DAY, BASE + DAY)
        record(store, late := [executed(BASE + 3 * HOUR), executed(BASE + DAY + 3 * HOUR + 10.0)])
        everything = [*records, *late]
        await store.flush()
        for _ in range(2):
            for since, start in ((BASE + 2.5 * HOUR, BASE), (BASE + DAY + 3.5 * HOUR, BASE + DAY + 3 * HOUR)):
                assert await store.metrics.sums(since=since) == direct(everything, start)
            assert await store.metrics.sums(until=BASE + 2.5 * HOUR) == direct(everything, until=BASE + DAY)
            until = BASE + DAY + 2.5 * HOUR
            assert await store.metrics.sums(until=until) == direct(everything, until=BASE + DAY + 3 * HOUR)
            since, until = BASE + DAY + 4 * HOUR, BASE + 2 * DAY + 3 * HOUR
            assert await store.metrics.sums(since, until) == direct(everything, since, until)
            hours = dict(await store.metrics.series(BASE + DAY, BASE + 2 * DAY, "hour"))
            assert hours[BASE + DAY + 3.0 * HOUR].value("sealyard_execution_total") == 2
            await fold_all(store)
        assert (await store.metrics.rebuild()).differences == 0
        assert await store.metrics.sums() == direct(everything)


async def test_hours_that_are_pruned_are_counted_from_rows_while_there_are_any(tmp_path: Path) -> None:
    """Sums of single hours go earlier than the rows, by default."""
    path = tmp_path / "s.db"
    records = [executed(BASE + number * 1000.0) for number in range(200)]
    async with open_store(path) as store:
        record(store, records[1:])
        await store.metrics.prune(BASE, BASE + DAY)
        record(store, records[:1])
        await fold_all(store)
        assert (await store.metrics.rebuild()).differences == 0
        assert query(path, "SELECT min(start) FROM metric_sums WHERE span = 'hour'") == [(BASE + DAY,)]
        for since, until in (
            (BASE + 5.5 * HOUR, BASE + 30.3 * HOUR),
            (BASE, BASE + 3 * HOUR),
            (BASE + 100, BASE + 200),
        ):
            assert await store.metrics.sums(since, until) == direct(records, since, until)
        for start, sums in await store.metrics.series(BASE, BASE + 30 * HOUR, "hour"):
            assert sums == direct(records, start, start + HOUR)


# Rebuilding


async def test_damaged_sums_are_counted_anew(tmp_path: Path) -> None:
    """Wrong, missing and invented sums are set right; a check only says how many there are."""
    path = tmp_path / "s.db"
    records = [executed(BASE + number * HOUR) for number in range(60)]
    calls = [call(BASE + number * HOUR) for number in range(60)]
    steps: list[tuple[int, int]] = []
    async with open_store(path) as store:
        record(store, [*records, *calls])
        await fold_all(store)
        before = stored(path)
        query(path, "UPDATE metric_sums SET total = total + 5 WHERE name = 'sealyard_execution_total'")
        query(path, "DELETE FROM metric_sums WHERE span = 'hour' AND start < ?", BASE + 10 * HOUR)
        query(path, "DELETE FROM metric_sums WHERE span = 'total' AND name = 'sealyard_upstream_calls_total'")
        query(
            path, "INSERT INTO metric_sums VALUES ('day', ?, 'sealyard_discovery_hits_total', '[]', 9, 9, '[]')", BASE
        )
        damaged = stored(path)
        check = await store.metrics.rebuild(check=True)
        assert stored(path) == damaged
        rebuilt = await store.metrics.rebuild(lambda done, total: steps.append((done, total)))
        again = await store.metrics.rebuild()

    assert stored(path) == before
    assert check.differences >= 50
    assert msgspec.structs.replace(rebuilt, differences=0) == again
    assert again == Rebuilt(days=3, facts=60, calls=60, skipped=0, differences=0)
    assert (steps[0], steps[-1]) == ((0, 240), (240, 240))
    assert steps == sorted(steps)


async def test_the_store_is_readable_and_takes_more_while_it_is_rebuilt(tmp_path: Path) -> None:
    """At every step the sums are those of all that was recorded, and another gateway goes on recording and folding."""
    path = tmp_path / "s.db"
    records = [executed(BASE + number * HOUR, bytes_in=number) for number in range(100)]
    more: list[Executed] = []
    async with open_store(path) as store, open_store(path) as other:
        record(store, records)
        await fold_all(store)

        async def disturb() -> None:
            for number in range(20):
                more.append(executed(BASE + (number % 5) * DAY + 7.0, bytes_in=number))
                other.metrics.record(more[-1])
                await fold_all(other)
                assert await other.metrics.sums() == direct([*records, *more])
                assert await other.metrics.sums(since=BASE + 60.0) == direct([*records, *more], BASE + 60.0)

        _, *rebuilt = await asyncio.gather(disturb(), *(store.metrics.rebuild() for _ in range(5)))
        assert {each.differences for each in rebuilt} == {0}
        assert await other.metrics.sums() == direct([*records, *more])
        assert (await other.metrics.rebuild()).differences == 0


@pytest.mark.parametrize("is_folded", [True, False])
async def test_rows_that_a_rebuild_keeps_in_their_sums_count_once(tmp_path: Path, is_folded: bool) -> None:
    """Days that retention has half removed keep their sums, and none of their remaining rows is added again."""
    path = tmp_path / "s.db"
    records = [executed(BASE + 7.0 * number) for number in range(40)] + [executed(BASE + 3 * DAY)]
    late = executed(BASE + 5.0)
    async with open_store(path) as store:
        record(store, records)
        await fold_all(store)
        await store._writer.change(lambda connection: tables._mark(connection, days=BASE + DAY, hours=0))
        query(path, "DELETE FROM facts WHERE number <= 20")  # as a removal that was killed in the middle
        query(path, "UPDATE metric_sums SET total = total + 5 WHERE start >= ?", BASE + DAY)
        assert (await store.metrics.rebuild(check=True)).differences
        record(store, [late])
        await store.flush()
        if is_folded:
            await fold_all(store)
        await store._writer.change(drop_sums)
        assert await store.metrics.sums() == direct([*records, late])
        await store._writer.change(drop_sums)  # by another process, before all is folded
        await store.metrics.prune(BASE + 2 * DAY, 0)
        assert await store.metrics.sums() == direct([*records, late])
        assert (await store.metrics.rebuild()).differences == 0


async def test_missing_facts_of_executions_are_made_from_the_journal(tmp_path: Path) -> None:
    """Status, time, calls, bytes and use case; once, and not for what runs, ended just now, or has no facts at all."""
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        record(store, [execution(BASE, "flow", form="code", code="é + 1", background=True)])
        record(
            store, [call(BASE, execution_id="flow", number=number, tool=f"mcp__bank__{number}") for number in (1, 2)]
        )
        record(
            store, [execution(BASE, "compute", form="code", principal="eve"), execution(BASE, "rows", form="analysis")]
        )
        record(store, [execution(BASE, "direct", form="call", code=""), call(BASE, execution_id="direct")])
        lost = execution(time.time(), "lost", form="code", status="lost", ended_at=None)
        record(store, [lost, call(lost.started_at + 5.0, execution_id="lost")])
        record(
            store, [execution(BASE, "rehearsed", form="rehearsal"), execution(BASE, "relayed", form="proxy", code="")]
        )
        record(store, [execution(BASE, "former"), execution(time.time(), "fresh", form="code")])
        record(store, [execution(BASE, "known", form="code"), executed(BASE, execution_id="known", status="timeout")])
        store.record_start(execution(BASE, "runs", form="code", ended_at=None, status="running"))
        await store.flush()

        assert await store.metrics.derive(time.time() - DAY) == 1
        assert await store.metrics.derive() == 4
        assert await store.metrics.derive() == 0
        found = {fact.execution_id: fact for fact in await store.metrics.facts("execution")}
        whole = await store.metrics.sums()

    def made(execution_id: str, **changes: Any) -> Executed:
        plain: dict[str, Any] = {"at": BASE + 1.0, "form": "code", "status": "ok", "seconds": 1.0, "code_characters": 5}
        return Executed(execution_id=execution_id, **plain | {"use_case": "compute"} | changes)

    assert found == {
        "known": executed(BASE, execution_id="known", status="timeout"),
        "flow": made(
            "flow",
            calls=2,
            tools=("mcp__bank__1", "mcp__bank__2"),
            bytes_in=20,
            use_case="workflow",
            is_background=True,
        ),
        "compute": made("compute", principal="eve"),
        "rows": made("rows", form="analysis", code_characters=0, use_case="analysis"),
        "direct": made(
            "direct", form="call", calls=1, tools=("mcp__bank__pay",), bytes_in=10, code_characters=0, use_case="direct"
        ),
        "lost": made(
            "lost",
            at=lost.started_at + 5.25,
            status="lost",
            seconds=pytest.approx(5.25),
            calls=1,
            tools=("mcp__bank__pay",),
            bytes_in=10,
            use_case="filtering",
        ),
    }
    assert whole.value("sealyard_execution_total") == 6


async def test_an_execution_without_an_id_gets_no_fact(tmp_path: Path) -> None:
    """Another program's row: a fact without an id would never be found again, so it would be made without end."""
    async with open_store(tmp_path / "s.db") as store:
        record(store, [execution(BASE, "", form="code", status="lost")])
        await store.flush()
        assert await store.metrics.derive() == 0
        assert await store.metrics.facts("execution") == []


async def test_a_store_of_the_schema_before_is_upgraded_with_its_history(tmp_path: Path) -> None:
    """Its calls count at once and nothing twice; its executions have no facts, and none are made up."""
    path = tmp_path / "s.db"
    with closing(sqlite3.connect(path)) as connection:
        for number in range(4):
            connection.executescript(MIGRATIONS[number])
        connection.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 4")
        connection.execute("INSERT INTO codes VALUES ('c', x'3131')")
        for number in range(300):
            at = BASE + number * HOUR
            connection.execute(
                "INSERT INTO executions VALUES (?, 'o', 'local', 'main', 'c', NULL, 0, ?, ?, 'ok', NULL, '', 0)",
                (f"e{number}", at, at + 2.0),
            )
            connection.execute(
                "INSERT INTO calls VALUES (?, 1, 'mcp__bank__pay', 'd', '{}', 0, '1', 0, 1, NULL, ?, 0.5, '')",
                (f"e{number}", at + 1.0),
            )
        connection.commit()

    async with open_store(path) as store:
        at_once = await store.metrics.sums()
        assert at_once.by("sealyard_upstream_calls_total", "upstream") == {"bank": 300}
        await fold_all(store)
        assert await store.metrics.derive() == 0
        rebuilt = await store.metrics.rebuild()
        assert (rebuilt.facts, rebuilt.calls, rebuilt.differences) == (0, 300, 0)
        record(store, [executed(BASE + 1.0), call(BASE + 1.0)])
        await fold_all(store)
        assert (await store.metrics.rebuild()).differences == 0
        assert (await store.metrics.sums()).value("sealyard_execution_total") == 1


# Any order of anything

TIMES = st.integers(0, 5 * DAY * 8).map(lambda eighths: BASE + eighths / 8)
SECONDS = st.floats(0, 300)
AMOUNTS = st.integers(0, 10**6)
WORDS = st.sampled_from(("ok", "failed", "timeout", "odd", "", "production", "KeyError"))
NAMES = st.sampled_from(("bank", "mail", "files", "x\ny", ""))
FACTS = st.one_of(
    st.builds(
        Executed,
        at=TIMES,
        form=st.sampled_from(("code", "analysis", "call")),
        status=WORDS,
        level=WORDS,
        failure=WORDS,
        error_type=WORDS,
        seconds=SECONDS,
        cpu_seconds=st.none() | SECONDS,
        memory_bytes=st.none() | AMOUNTS,
        calls=AMOUNTS,
        bytes_in=AMOUNTS,
        use_case=st.sampled_from(("filtering", "compute")),
    ),
    st.builds(Tokens, at=TIMES, use_case=st.just("filtering"), tokenizer=WORDS, data=AMOUNTS, code=AMOUNTS),
    st.builds(Hidden, at=TIMES, values=st.dictionaries(WORDS, AMOUNTS, max_size=2), failures=AMOUNTS),
    st.builds(SecurityEvent, at=TIMES, event=st.just("approved"), seconds=st.none() | SECONDS),
    st.builds(UpstreamEvent, at=TIMES, upstream=NAMES, event=st.just("restarted")),
)
CALLS = st.builds(
    call,
    at=TIMES,
    upstream=NAMES,
    seconds=SECONDS,
    answer_bytes=AMOUNTS,
    error=st.sampled_from((None, "ToolFailed: x", "LimitReached: x", "odd")),
)
STEPS = st.one_of(
    st.tuples(st.just("record"), st.lists(FACTS | CALLS, min_size=1, max_size=8)),
    st.tuples(st.just("fold"), st.none()),
    st.tuples(st.just("reopen"), st.none()),
    st.tuples(st.just("prune"), st.tuples(st.integers(-1, 5), st.integers(-1, 5))),
    st.tuples(st.just("rebuild"), st.booleans()),
    st.tuples(st.just("window"), st.tuples(TIMES, TIMES)),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(STEPS, max_size=12))
@example([("record", [executed(BASE + 1.0), call(BASE + 1.0)]), ("prune", (1, 0)), ("rebuild", True), ("fold", None)])
def test_whatever_is_done_in_whatever_order_nothing_is_lost_or_counted_twice(steps: list[tuple[str, Any]]) -> None:
    """Recording, folding, reopening, pruning and rebuilding: sums are those of all that was ever recorded."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_live(Path(folder) / "s.db", steps))


async def _live(path: Path, steps: list[tuple[str, Any]]) -> None:
    records: list[Fact | CallRecord] = []
    days = hours = 0
    while True:
        async with open_store(path) as store:
            while steps and steps[0][0] != "reopen":
                (step, value), *steps = steps
                days, hours = await _do(store, path, step, value, records, days, hours)
        if not steps:
            break
        steps = steps[1:]
    async with open_store(path) as store:
        await fold_all(store)
        assert await store.metrics.sums() == direct(records)
    _check_stored(path, records, hours)


async def _do(
    store: Store, path: Path, step: str, value: Any, records: list[Fact | CallRecord], days: int, hours: int
) -> tuple[int, int]:
    if step == "record":
        record(store, value)
        records += value
        await store.flush()
    elif step == "fold":
        await store.metrics.fold()
    elif step == "prune":
        days, hours = max(days, BASE + value[0] * DAY), max(hours, BASE + value[1] * DAY)
        await store.metrics.prune(BASE + value[0] * DAY, BASE + value[1] * DAY)
    elif step == "rebuild":
        if value:  # what can be counted again may be lost before
            kept = "(span = 'total' OR start >= ?)"
            query(path, f"DELETE FROM metric_sums WHERE {kept}", days)
            await store.metrics.rebuild()
        assert (await store.metrics.rebuild()).differences == 0
    elif step == "window":
        since, until = max(days, min(value)), max(days, *value)
        assert await store.metrics.sums(since, until) == direct(records, since, until)
    assert await store.metrics.sums() == direct(records)
    return days, hours


def _check_stored(path: Path, records: list[Fact | CallRecord], hours: int) -> None:
    """Every span holds what was recorded of its time, and no other span is there."""
    times = [each.started_at if isinstance(each, CallRecord) else each.at for each in records]
    expected = {("total", 0): direct(records)} if records else {}
    for at in times:
        day, hour = int(at) // DAY * DAY, int(at) // HOUR * HOUR
        expected["day", day] = direct(records, day, day + DAY)
        if hour >= hours:
            expected["hour", hour] = direct(records, hour, hour + HOUR)
    found: dict[tuple[str, int], dict[Any, tuple[int, int, list[int]]]] = {}
    for span, start, name, labels, count, total, buckets in stored(path):
        key = name, tuple(msgspec.json.decode(labels))
        found.setdefault((span, start), {})[key] = (count, total, msgspec.json.decode(buckets))
    assert found == {
        span: {key: (each.count, each.total, each.buckets) for key, each in sums.items()}
        for span, sums in expected.items()
        if sums
    }
