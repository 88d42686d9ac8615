"""What the store gives to learn from, what it keeps of it, and what it is told to forget."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.errors import InvalidRequest, StoreError
from sealyard.store import Store, open_store
from sealyard.store import learning as tables
from sealyard.store.backup.copies import restore_backup, write_backup
from sealyard.store.database import APPLICATION_ID, MIGRATIONS
from sealyard.store.learning import EventPage, SavedModel
from sealyard.values.facts import (
    Assessed,
    CallEvidence,
    Executed,
    Forgotten,
    Hinted,
    RunEvidence,
    Saw,
    Searched,
    Tokens,
    Used,
)
from sealyard.values.runs import CallRecord, ExecutionRecord, Failure, Outcome, Usage
from sealyard.values.skills import SkillUse

DAY = 86_400
BASE = 20_000.0 * DAY
"""A day in 2024."""
LIMITS: dict[str, Any] = {"wall_seconds": 5.0, "memory_mib": 64, "usual_seconds": 30.0, "usual_mib": 512}


def executed(at: float = BASE, **changes: Any) -> Executed:
    """A good run of code, but for the changes."""
    known: dict[str, Any] = {"form": "code", "status": "ok", "seconds": 0.5, "use_case": "compute", "session": "v1"}
    return Executed(at=at, **{"execution_id": "e1", "principal": "ann"} | known | changes)


def execution(at: float = BASE, **changes: Any) -> ExecutionRecord:
    """An execution that is over, but for the changes."""
    known: dict[str, Any] = {"execution_id": "e1", "principal": "ann", "session": "ann:main", "code": "1 + 1"}
    return ExecutionRecord(started_at=at - 0.5, ended_at=at, **{"status": "ok"} | known | changes)


def call(number: int = 1, **changes: Any) -> CallRecord:
    """A good call, but for the changes."""
    known: dict[str, Any] = {"execution_id": "e1", "tool": "mcp__bank__pay", "digest": "d1", "version": "1.2.0"}
    known |= {"arguments": {"amount": 5}, "answer": {"id": "p1"}, "seconds": 0.25, "answer_bytes": 12}
    return CallRecord(number=number, started_at=BASE, **known | changes)


def failed(**changes: Any) -> Outcome:
    """The outcome of a run that raised."""
    failure = Failure(kind="error", type="KeyError", message="'name'", line=3, **changes)
    usage = Usage(wall_seconds=0.5)
    return Outcome(execution_id="e1", status="failed", failure=failure, usage=usage, tier="t", level="l")


async def page(store: Store, after: int = 0, limit: int = 100) -> EventPage:
    """What there is to learn from, once everything is written."""
    await store.flush()
    return await store.learning.events(after, limit)


def query(path: Path, text: str, *values: Any) -> list[tuple[Any, ...]]:
    """What another program reads or does in the database."""
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(text, values).fetchall()


# Evidence


async def test_facts_that_teach_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Searches, hits, runs and hints are given as they were written; what teaches nothing is passed over."""
    search = Searched(at=BASE, search_id="s", place="agent", detail_level="full", seconds=0.1, found=("a", "b"))
    used = Used(at=BASE, search_id="s", tool="a", rank=1, seconds=2.0)
    told = Assessed(risk="high", chance=0.75, reasons=("tools",), **LIMITS)
    hint = Hinted(at=BASE, hint="chain", subject="mcp__bank__pay", mark="m")
    async with open_store(tmp_path / "s.db") as store:
        noise = [Saw(at=BASE, event="begin"), Tokens(at=BASE, use_case="compute", tokenizer="none")]
        relayed = executed(form="proxy", execution_id="e2")  # the journal has no answers of it
        for fact in (noise[0], search, used, noise[1], executed(assessed=told), hint, relayed):
            store.metrics.record(fact)
        store.record_end(execution())

        found = await page(store)

    run = RunEvidence(fact=executed(assessed=told), code="1 + 1", session="ann:main", started_at=BASE - 0.5)
    events = [(2, search), (3, used), (5, run), (6, hint)]
    assert found == EventPage(events=events, last=7, is_end=True, forgotten=0)


async def test_run_comes_with_its_code_calls_failure_and_skills(tmp_path: Path) -> None:
    """A run is complete: what its code was, what it called, how it ended, and which skills it used."""
    fact = executed(status="failed", failure="error", error_type="KeyError", skills=2, tools=("mcp__bank__pay",))
    error = "UpstreamError: no funds"
    use: dict[str, Any] = {"execution_id": "e1", "principal": "ann", "at": BASE, "calls": 1, "seconds": 1.0}
    async with open_store(tmp_path / "s.db") as store:
        store.record_call(call(2, answer=None, error=error, answer_bytes=0))
        store.record_call(call(1))
        names = (("shared", "clean"), ("ann", "report"))
        store.skills.record_uses(
            [SkillUse(namespace=space, name=name, version="1.0.0", failures=0, **use) for space, name in names]
        )
        store.record_end(execution(status="failed", outcome=failed(), code="x\ny\nz['name']", context={"a": 1}))
        store.metrics.record(fact)

        found = await page(store)

    known: dict[str, Any] = {"tool": "mcp__bank__pay", "version": "1.2.0", "arguments": {"amount": 5}}
    known |= {"started_at": BASE, "seconds": 0.25}
    assert found.events == [
        (
            1,
            RunEvidence(
                fact=fact,
                code="x\ny\nz['name']",
                context_digest="abd04f5426c58fe48d04555e",
                session="ann:main",
                started_at=BASE - 0.5,
                failure_type="KeyError",
                failure_message="'name'",
                failure_line=3,
                calls=(
                    CallEvidence(number=1, answer={"id": "p1"}, has_answer=True, answer_bytes=12, **known),
                    CallEvidence(number=2, error=error, **known),
                ),
                skills=("ann/report", "shared/clean"),
            ),
        )
    ]


async def test_answer_of_nothing_is_an_answer_and_one_that_was_cut_is_none(tmp_path: Path) -> None:
    """A tool that answers null has answered; what was too large for the journal is not known."""
    async with open_store(tmp_path / "s.db") as store:
        store.record_call(call(1, answer=None, answer_bytes=4))
        store.record_call(call(2, answer="x" * 70_000, answer_bytes=70_002, arguments={"text": "y" * 70_000}))
        store.record_end(execution())
        store.metrics.record(executed())

        (_, run) = (await page(store)).events[0]

    assert isinstance(run, RunEvidence)
    assert [(each.has_answer, each.answer, each.arguments, each.answer_bytes) for each in run.calls] == [
        (True, None, {"amount": 5}, 4),
        (False, None, None, 70_002),
    ]


async def test_contexts_are_told_apart_by_their_digests(tmp_path: Path) -> None:
    """Runs with the same values have the same digest, those without any none, and those that were cut one each."""
    large = {"text": "x" * (1 << 20)}
    contexts = [None, {"a": 1}, {"a": 1}, {"a": 2}, large, large]
    async with open_store(tmp_path / "s.db") as store:
        for place, context in enumerate(contexts):
            store.record_end(execution(execution_id=f"e{place}", context=context))
            store.metrics.record(executed(execution_id=f"e{place}"))

        digests = [run.context_digest for _, run in (await page(store)).events if isinstance(run, RunEvidence)]

    none, one, same, other, cut, cut_too = digests
    assert none == ""
    assert one == same
    assert len({none, one, other, cut, cut_too}) == 5


async def test_pages_follow_each_other_without_gap_or_repetition(tmp_path: Path) -> None:
    """Whatever the size of a page, all events come once; facts that teach nothing count for the size too."""
    async with open_store(tmp_path / "s.db") as store:
        for number in range(1, 11):
            is_noise = number % 3 == 0
            store.metrics.record(Saw(at=BASE, event="begin") if is_noise else executed(execution_id=f"e{number}"))
        await store.flush()
        for limit in (1, 2, 3, 4, 10, 11):
            after, numbers, is_end = 0, [], False
            while not is_end:
                found = await store.learning.events(after, limit)
                numbers += [number for number, _ in found.events]
                after, is_end = found.last, found.is_end
            assert numbers == [1, 2, 4, 5, 7, 8, 10]
            assert after == 10
        assert await store.learning.newest() == 10


async def test_page_ends_early_when_much_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large values end a page before its last fact, and the next one goes on there."""
    monkeypatch.setattr(tables, "_PAGE_BYTES", 100_000)
    async with open_store(tmp_path / "s.db") as store:
        for number in range(1, 5):
            store.record_call(call(execution_id=f"e{number}", answer="x" * 60_000, answer_bytes=60_002))
            store.record_end(execution(execution_id=f"e{number}"))
            store.metrics.record(executed(execution_id=f"e{number}"))

        first = await page(store)
        second = await page(store, first.last)

    assert [[number for number, _ in each.events] for each in (first, second)] == [[1, 2], [3, 4]]
    assert [each.is_end for each in (first, second)] == [False, True]


async def test_run_with_huge_calls_gives_the_first_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls after the hundredth are left out, and so are values after the first few megabytes."""
    monkeypatch.setattr(tables, "_RUN_BYTES", 200_000)
    async with open_store(tmp_path / "s.db") as store:
        for number in range(1, 121):
            store.record_call(call(number, answer="x" * 60_000, answer_bytes=60_002))
        store.record_end(execution())
        store.metrics.record(executed())

        (_, run) = (await page(store)).events[0]

    assert isinstance(run, RunEvidence)
    assert [each.number for each in run.calls] == list(range(1, 101))
    assert [each.number for each in run.calls if each.has_answer] == [1, 2, 3]
    assert [each.number for each in run.calls if each.arguments is not None] == [1, 2, 3]


async def test_code_that_is_too_long_is_left_out(tmp_path: Path) -> None:
    """Nobody learns from code over 256 KiB; the rest of the run is given."""
    async with open_store(tmp_path / "s.db") as store:
        store.record_end(execution(code="#" * (256 << 10)))
        store.record_end(execution(execution_id="e2", code="#" * ((256 << 10) + 1)))
        store.metrics.record(executed())
        store.metrics.record(executed(execution_id="e2"))

        runs = [run for _, run in (await page(store)).events if isinstance(run, RunEvidence)]

    assert [len(run.code) for run in runs] == [256 << 10, 0]
    assert [run.session for run in runs] == ["ann:main", "ann:main"]


async def test_run_whose_row_is_gone_is_what_its_fact_says(tmp_path: Path) -> None:
    """Old executions go before their facts do: what is left teaches without code and calls."""
    async with open_store(tmp_path / "s.db") as store:
        store.metrics.record(executed())
        store.metrics.record(executed(execution_id=""))

        runs = [run for _, run in (await page(store)).events]

    assert runs == [
        RunEvidence(fact=executed(), started_at=BASE - 0.5),
        RunEvidence(fact=executed(execution_id=""), started_at=BASE - 0.5),
    ]


async def test_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    """Facts of a newer version, of no time, or damaged by another program hide nothing that comes after them."""
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        for number in range(1, 9):
            store.metrics.record(executed(execution_id=f"e{number}"))
            store.record_end(execution(execution_id=f"e{number}", outcome=failed(), code=f"{number}"))
            store.record_call(call(execution_id=f"e{number}"))
        await store.flush()
        for text, *values in (
            ("UPDATE facts SET fact = ? WHERE number = 1", '{"kind":"execution","form":"dream","at":1}'),
            ("UPDATE facts SET fact = CAST(x'ff7b7d' AS TEXT) WHERE number = 2",),
            ("UPDATE facts SET at = -1.0 WHERE number = 3",),
            ("UPDATE facts SET at = 1e300 WHERE number = 4",),
            ("UPDATE executions SET outcome = '[[[', started_at = 'never' WHERE execution_id = 'e5'",),
            ("UPDATE executions SET outcome = CAST(x'ff' AS TEXT) WHERE execution_id = 'e6'",),
            (
                "UPDATE calls SET arguments = '{', answer = CAST(x'ff' AS TEXT), tool = CAST(x'61ff' AS TEXT)"
                " WHERE execution_id = 'e6'",
            ),
            ("UPDATE calls SET seconds = 'long' WHERE execution_id = 'e7'",),
            ("UPDATE codes SET code = x'ff' WHERE sha256 = (SELECT code_sha256 FROM executions WHERE code_sha256 = ?"
             " OR execution_id = 'e7')", ""),
        ):  # fmt: skip
            query(path, text, *values)

        found = await store.learning.events(0, 100)

    runs = {number: run for number, run in found.events if isinstance(run, RunEvidence)}
    assert sorted(runs) == [5, 6, 7, 8]
    assert runs[5] == RunEvidence(fact=executed(execution_id="e5"), started_at=BASE - 0.5)
    assert (runs[6].failure_type, runs[6].code) == ("", "6")
    assert [(each.tool, each.arguments, each.has_answer) for each in runs[6].calls] == [("a\ufffd", None, False)]
    assert (runs[7].calls, runs[7].code, runs[7].failure_type) == ((), "", "KeyError")
    assert (len(runs[8].calls), runs[8].code) == (1, "8")


async def test_rehearsals_teach_nothing(tmp_path: Path) -> None:
    """What was run to try a skill out has no fact, not even after facts were derived."""
    async with open_store(tmp_path / "s.db") as store:
        store.record_end(execution(session="ann:rehearsal-1", form="rehearsal"))
        await store.flush()
        await store.metrics.derive()

        assert (await page(store)).events == []


# Models


async def test_model_is_kept_unless_it_knows_less(tmp_path: Path) -> None:
    """Of two gateways that save, the one that knows more facts is kept; other forms are others."""
    async with open_store(tmp_path / "s.db") as one, open_store(tmp_path / "s.db") as other:
        for number in range(9):
            one.metrics.record(executed(execution_id=f"e{number}"))
        assert await one.learning.load("f") is None

        one.learning.save("f", 5, 0, b"five")
        await one.flush()
        other.learning.save("f", 3, 0, b"three")
        other.learning.save("g", 2, 0, b"two")
        await other.flush()

        assert await one.learning.load("f") == SavedModel(number=5, forgotten=0, model=b"five")
        assert await one.learning.load("g") == SavedModel(number=2, forgotten=0, model=b"two")
        other.learning.save("f", 6, 0, b"six")
        await other.flush()
        assert await one.learning.load("f") == SavedModel(number=6, forgotten=0, model=b"six")


async def test_model_that_is_too_large_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one before stays."""
    monkeypatch.setattr(tables, "MODEL_BYTES", 10)
    async with open_store(tmp_path / "s.db") as store:
        for number in range(9):
            store.metrics.record(executed(execution_id=f"e{number}"))
        store.learning.save("f", 1, 0, b"x" * 10)
        store.learning.save("f", 2, 0, b"x" * 11)
        await store.flush()

        assert await store.learning.load("f") == SavedModel(number=1, forgotten=0, model=b"x" * 10)


async def test_models_of_few_forms_are_kept(tmp_path: Path) -> None:
    """Every version and setting has its own form: those saved last are kept, and others go."""
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        store.metrics.record(executed())
        for place in range(6):
            store.learning.save(f"f{place}", 1, 0, b"model")
            await store.flush()

    assert query(path, "SELECT form FROM learning_models ORDER BY form") == [("f2",), ("f3",), ("f4",), ("f5",)]


async def test_model_of_facts_that_are_not_there_is_not_given(tmp_path: Path) -> None:
    """A model that claims to know more than the journal holds belongs to another journal."""
    async with open_store(tmp_path / "s.db") as store:
        store.metrics.record(executed())
        store.learning.save("f", 2, 0, b"model")
        await store.flush()

        assert await store.learning.load("f") is None


# Forgetting


async def test_forgetting_covers_what_was_recorded_before_it(tmp_path: Path) -> None:
    """Also what was only enqueued; a page says that something was forgotten since."""
    async with open_store(tmp_path / "s.db") as store:
        for number in range(3):
            store.metrics.record(executed(execution_id=f"e{number}"))

        first = await store.learning.forget("tool", "mcp__bank__pay", BASE)
        store.metrics.record(executed(execution_id="e4"))
        second = await store.learning.forget("principal", "ann", BASE + 1)

        assert first == Forgotten(what="tool", subject="mcp__bank__pay", number=3, at=BASE)
        assert second == Forgotten(what="principal", subject="ann", number=4, at=BASE + 1)
        assert await store.learning.forgotten() == [first, second]
        assert (await page(store)).forgotten == 2


async def test_forgetting_again_takes_the_place_of_what_was_forgotten_before(tmp_path: Path) -> None:
    """One row for each subject is enough, and one for all of them."""
    async with open_store(tmp_path / "s.db") as store:
        await store.learning.forget("tool", "a", BASE)
        other = await store.learning.forget("principal", "a", BASE)
        store.metrics.record(executed())
        again = await store.learning.forget("tool", "a", BASE + 1)

        assert await store.learning.forgotten_until() == (3, [other, again])

        everything = await store.learning.forget("all", "", BASE + 2)

        assert await store.learning.forgotten_until() == (4, [everything])


async def test_forgetting_removes_saved_models_and_keeps_old_ones_out(tmp_path: Path) -> None:
    """A gateway that has not noticed yet cannot save what it should have forgotten."""
    async with open_store(tmp_path / "s.db") as store, open_store(tmp_path / "s.db") as unaware:
        for number in range(9):
            store.metrics.record(executed(execution_id=f"e{number}"))
        store.learning.save("f", 5, 0, b"before")
        await store.flush()

        await store.learning.forget("all", "", BASE)
        unaware.learning.save("f", 9, 0, b"unaware")
        await unaware.flush()
        assert await store.learning.load("f") is None
        assert query(tmp_path / "s.db", "SELECT count(*) FROM learning_models") == [(0,)]

        store.learning.save("f", 4, 1, b"after")
        await store.flush()
        assert await unaware.learning.load("f") == SavedModel(number=4, forgotten=1, model=b"after")


@pytest.mark.parametrize(
    ("what", "subject", "message"),
    [
        ("skill", "x", "There is no 'skill' to be forgotten. Use one of tool, principal, all."),
        ("tool", "", "Name the tool or the principal that is to be forgotten, and nothing to forget all."),
        ("all", "ann", "Name the tool or the principal that is to be forgotten, and nothing to forget all."),
        ("tool", "x" * 257, "Name the tool or the principal that is to be forgotten, and nothing to forget all."),
    ],
)
async def test_forgetting_nothing_in_particular_is_refused(
    tmp_path: Path, what: Any, subject: str, message: str
) -> None:
    """Nothing is written then."""
    async with open_store(tmp_path / "s.db") as store:
        with pytest.raises(InvalidRequest) as refused:
            await store.learning.forget(what, subject, BASE)

        assert str(refused.value) == message
        assert await store.learning.forgotten_until() == (0, [])


async def test_forgetting_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forgotten one by one is bounded; the same again and everything at once can always be forgotten."""
    monkeypatch.setattr(tables, "_FORGOTTEN", 2)
    async with open_store(tmp_path / "s.db") as store:
        await store.learning.forget("tool", "a", BASE)
        await store.learning.forget("tool", "b", BASE)
        with pytest.raises(InvalidRequest) as refused:
            await store.learning.forget("tool", "c", BASE)
        assert str(refused.value) == "2 things are forgotten one by one already. Forget all instead."
        await store.learning.forget("tool", "a", BASE + 1)
        await store.learning.forget("all", "", BASE + 2)

        assert [each.what for each in await store.learning.forgotten()] == ["all"]


# Time passes


async def test_retention_removes_what_was_forgotten_with_its_facts(tmp_path: Path) -> None:
    """Only the newest is kept always, so that no number is given twice; models that nobody saved since go too."""
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        store.metrics.record(executed(BASE))
        await store.learning.forget("tool", "a", BASE)
        store.metrics.record(executed(BASE + 5 * DAY, execution_id="e2"))
        kept = await store.learning.forget("tool", "b", BASE)
        newest = await store.learning.forget("tool", "c", BASE)
        store.learning.save("f", 1, 3, b"model")
        await store.flush()
        query(path, "UPDATE learning_models SET at = ?", BASE)

        await store.metrics.prune(BASE + 2 * DAY, 0)

        assert await store.learning.forgotten_until() == (3, [kept, newest])
        assert await store.learning.load("f") is None


async def test_store_of_an_older_version_learns_from_what_it_holds(tmp_path: Path) -> None:
    """The tables are added, and runs that were recorded before are there to learn from."""
    path = tmp_path / "s.db"
    with closing(sqlite3.connect(path)) as connection:
        for migration in MIGRATIONS[:5]:
            connection.executescript(migration)
        connection.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 5")
        connection.execute("INSERT INTO codes VALUES ('c', CAST('2 + 2' AS BLOB))")
        connection.execute(
            "INSERT INTO executions VALUES ('e1', 'o', 'ann', 'ann:main', 'c', NULL, 0, ?, ?, 'ok', NULL, 'v', 0)",
            (BASE - 0.5, BASE),
        )
        text = msgspec.json.encode(executed()).decode()
        connection.execute("INSERT INTO facts VALUES (1, ?, 'execution', 'ann', 'e1', ?)", (BASE, text))
        connection.commit()
    async with open_store(path) as store:
        found = await page(store)

    run = RunEvidence(fact=executed(), code="2 + 2", session="ann:main", started_at=BASE - 0.5)
    assert found.events == [(1, run)]
    assert query(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]


async def test_store_that_is_closed_says_so(tmp_path: Path) -> None:
    """Reading after the end raises; nothing is read from a connection that is gone."""
    async with open_store(tmp_path / "s.db") as store:
        pass

    for read in (store.learning.events(0, 1), store.learning.newest(), store.learning.load("f")):
        with pytest.raises(StoreError):
            await read


async def test_what_was_learned_and_forgotten_is_in_a_backup(tmp_path: Path) -> None:
    """A store that was restored goes on from there, and does not learn again what was to be forgotten."""
    path, other = tmp_path / "s.db", tmp_path / "other.db"
    async with open_store(path) as store:
        store.metrics.record(executed())
        forgotten = await store.learning.forget("principal", "ann", BASE)
        store.learning.save("f", 1, 1, b"model")
        await store.flush()
        await asyncio.to_thread(write_backup, path, tmp_path / "backup")
    await asyncio.to_thread(restore_backup, tmp_path / "backup", other)
    async with open_store(other) as store:
        assert await store.learning.load("f") == SavedModel(number=1, forgotten=1, model=b"model")
        assert await store.learning.forgotten() == [forgotten]
