"""Large answers, kept within a budget."""

import msgspec

from sealyard.store import TraceBudget, open_store
from sealyard.values.runs import CallRecord, ExecutionRecord


def _execution(execution_id: str, started_at: float, principal: str = "local") -> ExecutionRecord:
    return ExecutionRecord(
        execution_id=execution_id, principal=principal, session="s", code="x", started_at=started_at, status="ok"
    )


def _call(execution_id: str, number: int, answer: object, size: int = 100) -> CallRecord:
    return CallRecord(
        execution_id=execution_id,
        number=number,
        tool="t",
        digest="d",
        version="1.4.0",
        arguments={"n": number},
        answer=answer,
        started_at=0.0,
        seconds=0.0,
        answer_bytes=size,
    )


def _record(store, execution_id: str, started_at: float, answer: object, principal: str = "local") -> None:
    encoded = msgspec.json.encode(answer)
    store.record_start(_execution(execution_id, started_at, principal))
    store.record_call(_call(execution_id, 1, answer, len(encoded)))
    store.traces.keep(execution_id, 1, encoded)


async def test_a_large_answer_is_there_to_be_replayed(tmp_path):
    """The journal leaves it out; the trace has it."""
    answer = [{"id": number, "text": "word " * 5} for number in range(4_000)]
    async with open_store(tmp_path / "s.db") as store:
        _record(store, "e1", 1.0, answer)
        await store.flush()
        assert (await store.calls("e1"))[0].answer is None
        found = (await store.traces.calls("local"))[0]
        assert found.answer == answer
        assert found.version == "1.4.0"


async def test_calls_are_those_of_the_principals_newest_executions(tmp_path):
    """In the order of each; nobody sees another's; executions without calls do not count."""
    async with open_store(tmp_path / "s.db") as store:
        for number in range(4):
            _record(store, f"e{number}", float(number), f"answer {number}")
        store.record_start(_execution("silent", 9.0))
        _record(store, "other", 5.0, "secret", principal="eve")
        await store.flush()
        found = await store.traces.calls("local", executions=2)
        assert [(call.execution_id, call.answer) for call in found] == [("e3", "answer 3"), ("e2", "answer 2")]


async def test_an_execution_keeps_no_more_than_its_share(tmp_path):
    """Code that asks for megabytes in a loop does not push out what others recorded."""
    answer = "x" * 100_000
    async with open_store(tmp_path / "s.db", traces=TraceBudget(answer_bytes=250_000)) as store:
        for number in range(4):
            store.record_call(_call("e", number, None, 100_002))
            store.traces.keep("e", number, msgspec.json.encode(answer))
        store.record_start(_execution("e", 1.0))
        await store.flush()
        kept = [call.answer is not None for call in await store.traces.calls("local")]
        assert kept == [True, True, False, False]


async def test_the_oldest_answers_go_when_the_budget_is_used_up(tmp_path):
    """Those recorded last stay."""
    budget = TraceBudget(total_bytes=20_000)
    async with open_store(tmp_path / "s.db", traces=budget) as store:
        for number in range(40):
            noise = "".join(chr(33 + (number * 7919 + position * position) % 90) for position in range(70_000))
            _record(store, f"e{number:02}", float(number), noise)
            await store.flush()
        found = await store.traces.calls("local", executions=40)
        kept = [call.execution_id for call in found if call.answer is not None]
        assert "e39" in kept
        assert "e00" not in kept


async def test_answers_that_are_too_old_go(tmp_path):
    """With the first one that is kept after that."""
    async with open_store(tmp_path / "s.db") as store:
        _record(store, "e1", 1.0, "x" * 70_000)
        await store.flush()
    async with open_store(tmp_path / "s.db", traces=TraceBudget(seconds=-1.0)) as store:
        _record(store, "e2", 2.0, "y" * 70_000)
        await store.flush()
        assert [call.answer for call in await store.traces.calls("local")] == [None, None]
