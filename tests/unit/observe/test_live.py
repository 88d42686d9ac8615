"""Who watches a gateway: events in their order, nothing of others, nobody slowed down."""

import asyncio

from sealyard.observe.live import Live, LiveRun, Watched
from sealyard.values.runs import LiveEvent


def begin(live: Live, execution_id: str = "one", principal: str = "alice") -> Watched:
    """A run that begins."""
    run = LiveRun(
        execution_id=execution_id,
        principal=principal,
        form="code",
        session="default",
        started_at=1.0,
        background=False,
        calls=0,
        output_characters=0,
        asks=0,
    )
    return live.begin(run, code_characters=3)


async def collected(live: Live, count: int, **wanted: object) -> list[LiveEvent]:
    """The first events that a watcher gets."""
    async with live.follow(**wanted) as events:  # type: ignore[arg-type]
        return [await asyncio.wait_for(anext(events), 5) for _ in range(count)]


async def test_one_run_is_told_from_its_beginning_to_its_end() -> None:
    """Who comes late to a run still sees how it began, and the stream ends with the run."""
    live = Live()
    watched = begin(live)
    begin(live, "two").output("not this one")
    watched.output("hello")
    async with live.follow(execution_id="one") as events:
        watched.emit("call", {"number": 1, "tool": "t"})
        watched.end({"status": "ok"})
        seen = [event async for event in events]

    assert [event.kind for event in seen] == ["started", "output", "call", "ended"]
    assert seen[1].body == {"text": "hello"}
    assert [event.number for event in seen] == sorted(event.number for event in seen)
    assert [run.execution_id for run in live.running()] == ["two"]


async def test_a_principal_sees_nothing_of_another() -> None:
    """Neither its events nor its runs."""
    live = Live()
    async with live.follow(principal="bob") as events:
        begin(live, "one", "alice").output("secret")
        begin(live, "two", "bob")
        first = await anext(events)

    assert (first.execution_id, first.kind) == ("two", "started")
    assert [run.execution_id for run in live.running(principal="bob")] == ["two"]


async def test_a_watcher_goes_on_where_it_was() -> None:
    """After a lost connection it names the last event that it has seen."""
    live = Live()
    watched = begin(live)
    for text in "abc":
        watched.output(text)
    last = (await collected(live, 2, after=0))[-1]

    rest = await collected(live, 2, after=last.number)

    assert [event.body["text"] for event in rest] == ["b", "c"]


async def test_a_slow_watcher_is_told_that_it_missed_something() -> None:
    """Its queue is bounded; the run does not wait, and the end of a watched run is never missed."""
    live = Live()
    watched = begin(live)
    async with live.follow(execution_id="one") as events:
        for number in range(5_000):
            watched.emit("call", {"number": number})
        watched.end({"status": "ok"})
        seen = [event async for event in events]

    assert len(seen) < 1_000
    assert [event.kind for event in seen][-2:] == ["lagged", "ended"]


async def test_events_that_are_gone_are_told_as_a_gap() -> None:
    """Who was away for too long knows it."""
    live = Live()
    watched = begin(live)
    for number in range(3_000):
        watched.emit("call", {"number": number})

    seen = await collected(live, 2, after=5)

    assert seen[0].kind == "lagged"
    assert seen[1].number > 6


async def test_long_output_is_several_events() -> None:
    """No event is larger than a few kilobytes, so what is kept of all of them is bounded."""
    live = Live()
    watched = begin(live)
    watched.output("x" * 10_000)

    events = await collected(live, 4, after=0)

    assert [len(event.body["text"]) for event in events[1:]] == [4_096, 4_096, 1_808]
    assert live.running()[0].output_characters == 10_000


async def test_a_watcher_leaves_nothing_behind() -> None:
    """However it goes."""
    live = Live()
    begin(live)
    async with live.follow() as events:
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        assert live.is_watched("one", "alice")
        waiting.cancel()

    assert not live.is_watched("one", "alice")
