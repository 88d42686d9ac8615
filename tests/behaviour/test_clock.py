"""The wall limit stands still while the clock of a run is paused; nothing else does."""

import asyncio
from typing import Any

import msgspec

from sealyard.sandbox import PoolOptions, open_sandbox
from sealyard.sandbox.policy import DEFAULT
from sealyard.sandbox.pool import RunClock, Slots
from sealyard.values.runs import Limits

PLAIN = msgspec.structs.replace(DEFAULT, packages=())


def test_the_deadline_does_not_run_out_while_the_clock_is_paused(driver: Any) -> None:
    """A call that takes longer than the whole run may take, while a person thinks, is answered."""
    clock = RunClock()

    async def on_call(tool: str, arguments: dict[str, Any]) -> str:
        with clock.paused():
            await asyncio.sleep(1.5)
        return "yes"

    outcome = driver.run("call_tool('ask', {})", limits=Limits(wall_seconds=1), on_call=on_call, clock=clock)

    assert (outcome.status, outcome.result) == ("ok", "yes")
    assert outcome.usage.wall_seconds < 1.5


async def test_what_came_before_a_run_is_taken_off_its_time() -> None:
    """A run that has to be over by a certain time is, however long its limit is; a pause puts that time off."""
    loop, reached = asyncio.get_running_loop(), asyncio.Event()
    clock = RunClock()
    clock.end_by = loop.time() - 1
    assert clock.start(60, reached.set) == 0.0
    await reached.wait()

    clock = RunClock()
    clock.end_by = loop.time() + 0.2
    with clock.paused():
        later = loop.create_future()
        loop.call_later(0.3, later.set_result, None)
        await later
    assert clock.start(60, reached.set) > 0.0
    clock.stop()


def test_a_run_whose_time_was_over_before_it_began_says_so(driver: Any) -> None:
    """Reading long code is part of it: else a run lives for longer than anybody gave it."""
    clock = RunClock()
    clock.end_by = 0.0
    outcome = driver.run("while True: pass", limits=Limits(wall_seconds=30), clock=clock)

    assert outcome.status == "timeout"
    assert outcome.failure.message == "The code was stopped: 30.0 of its 30 s were over before it began."


def test_a_call_that_does_not_pause_the_clock_runs_into_the_deadline(driver: Any) -> None:
    """The positive control: the same wait without the pause ends the run."""

    async def on_call(tool: str, arguments: dict[str, Any]) -> str:
        await asyncio.sleep(60)
        return "yes"

    outcome = driver.run("call_tool('ask', {})", limits=Limits(wall_seconds=1), on_call=on_call, clock=RunClock())

    assert outcome.status == "timeout"


def test_the_deadline_goes_on_where_it_stood_after_the_last_pause(driver: Any) -> None:
    """Two pauses at once: the clock goes when both are over, and code without end is stopped then."""
    clock = RunClock()
    paused: list[bool] = []

    async def on_call(tool: str, arguments: dict[str, Any]) -> str:
        with clock.paused():
            await asyncio.sleep(arguments["seconds"])
        paused.append(clock._holds > 0)
        return "yes"

    code = """
        import asyncio
        await asyncio.gather(*[call_tool('ask', {'seconds': seconds}) for seconds in (0.5, 1.2)])
        print('both')
        while True: pass
    """
    outcome = driver.run(code, limits=Limits(wall_seconds=1), on_call=on_call, clock=clock)

    assert (outcome.status, outcome.output, paused) == ("timeout", "both\n", [True, False])


def test_code_that_computes_while_the_clock_is_paused_runs_into_its_cpu_limit(driver: Any) -> None:
    """An ask that nobody answers does not buy time to compute."""
    clock = RunClock()

    async def on_call(tool: str, arguments: dict[str, Any]) -> str:
        with clock.paused():
            await asyncio.sleep(60)
        return "yes"

    code = """
        import threading
        threading.Thread(target=lambda: call_tool('ask', {}), daemon=True).start()
        while True: pass
    """
    outcome = driver.run(code, limits=Limits(wall_seconds=10, cpu_seconds=1), on_call=on_call, clock=clock)

    assert (outcome.status, outcome.failure.kind) == ("limit", "cpu_time")


async def test_other_runs_take_the_turn_of_one_that_waits_for_a_person() -> None:
    """With room for a single run, a second one starts and ends while the first is suspended, and the first goes on."""
    clock = RunClock()
    asked, answered = asyncio.Event(), asyncio.Event()

    async def on_call(tool: str, arguments: dict[str, Any]) -> str:
        with clock.paused():
            asked.set()
            await answered.wait()
        return "yes"

    async with asyncio.timeout(60), open_sandbox(PLAIN, pool=PoolOptions(size=1, running=1)) as sandbox:
        first = asyncio.create_task(sandbox.run("call_tool('ask', {})", on_call=on_call, clock=clock))
        await asked.wait()
        second = await sandbox.run("6 * 7")
        assert not first.done()
        answered.set()
        outcome = await first
        third = await sandbox.run("'after'")

    assert (second.result, outcome.result, third.result) == (42, "yes", "after")


async def test_no_more_turns_are_lent_than_there_are() -> None:
    """Runs that wait for people hold memory, so they do not make room without end."""
    slots = Slots(PoolOptions(running=1))
    first, second, third = RunClock(), RunClock(), RunClock()

    async with slots.one(first):
        with first.paused():
            async with slots.one(second):
                with second.paused():
                    waiting = asyncio.create_task(_take(slots, third))
                    await asyncio.sleep(0)
                    assert not waiting.done()
                    waiting.cancel()
                    await asyncio.wait({waiting})
    async with asyncio.timeout(60), slots.one(third):
        assert not third._holds


async def test_a_turn_that_comes_to_one_who_left_goes_to_the_next() -> None:
    """Nothing is lost when a run is cancelled while it waits for its turn."""
    slots = Slots(PoolOptions(running=1))
    async with slots.one(RunClock()):
        left = asyncio.create_task(_take(slots, RunClock()))
        stays = asyncio.create_task(_take(slots, RunClock()))
        await asyncio.sleep(0)
        left.cancel()
    async with asyncio.timeout(60):
        await stays


async def _take(slots: Slots, clock: RunClock) -> None:
    async with slots.one(clock):
        pass


async def test_a_run_of_an_owner_with_many_begins_when_the_one_before_is_over_or_old() -> None:
    """Where somebody with fewer runs was there a moment ago: the event loop is not full of others when that returns."""
    slots, order = Slots(PoolOptions(running=8, weights={"light": 1.0, "heavy": 1.0})), list[str]()
    first_is_in, end = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with slots.one(RunClock(), "heavy"):
            first_is_in.set()
            await end.wait()
            order.append("first is over")

    async def next_one() -> None:
        async with slots.one(RunClock(), "heavy"):
            order.append("next began")

    with slots.enter("light"):
        pass
    running = asyncio.create_task(first())
    await first_is_in.wait()
    others = [asyncio.create_task(next_one()) for _ in range(3)]
    await asyncio.sleep(0)
    end.set()
    await asyncio.gather(running, *others)

    assert order == ["first is over", "next began", "next began", "next began"]


async def test_an_owner_with_one_run_never_waits_for_others_to_come_back() -> None:
    """Only who has more than others gives way: else each of many would wait for all."""
    slots, steps = Slots(PoolOptions(running=8)), list[int]()
    with slots.enter("gone"):
        pass
    async with slots.one(RunClock(), "single"):
        before = asyncio.create_task(asyncio.sleep(0))
        for number in range(3):
            await slots.step("single")
            steps.append(number)
        is_at_once = not before.done()

    assert (steps, is_at_once) == ([0, 1, 2], True)
