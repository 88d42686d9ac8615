"""Limits of calls: what is refused and until when, what waits, what is tried again, and what opens the breaker."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sealyard.broker import limits as module
from sealyard.broker.limits import Throttle
from sealyard.broker.policy import UNLIMITED, ToolLimits
from sealyard.errors import (
    InvalidArguments,
    LimitReached,
    SealyardError,
    ToolFailed,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from sealyard.values.tools import Circuit, ToolSpec


class Clock:
    """Time that passes when somebody says so, or sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        """What time it is."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Pass the time at once."""
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Server:
    """Answers with what it is given, in order, and keeps the seconds it was allowed."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.allowed: list[float | None] = []

    async def __call__(self, seconds: float | None) -> Any:
        """The next answer, or `ok` when there are no more."""
        self.allowed.append(seconds)
        answer = self.answers.pop(0) if self.answers else "ok"
        if isinstance(answer, Exception):
            raise answer
        return answer


def tool(name: str = "send") -> ToolSpec:
    """A tool."""
    return ToolSpec(
        upstream="mail",
        name=name,
        full_name=f"mcp__mail__{name}",
        module="mail",
        function=name,
        input_schema={},
        digest="0" * 64,
    )


class Gate:
    """A throttle, its clock, and one way to call through it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.throttle = Throttle(clock=self.clock, sleep=self.clock.sleep, jitter=lambda: 0.5)
        self.runs: defaultdict[str, dict[str, int]] = defaultdict(dict)

    async def call(
        self,
        limits: ToolLimits,
        server: Callable[[float | None], Awaitable[Any]],
        *,
        run: str = "run",
        name: str = "send",
        idempotent: bool = False,
    ) -> Any:
        """What the server answers."""
        turn = self.throttle.turn(tool(name), limits, self.runs[run], is_idempotent=idempotent)
        async with turn as attempts:
            async for attempt in attempts:
                with attempt:
                    answer = await server(attempt.seconds)
        return answer

    async def refusal(self, limits: ToolLimits, *, run: str = "run", name: str = "send") -> str:
        """The message of a call that a limit refuses, before it reaches the server."""
        server = Server()
        with pytest.raises(LimitReached) as caught:
            await self.call(limits, server, run=run, name=name)
        assert server.allowed == []
        return str(caught.value)

    async def failure(self, limits: ToolLimits, error: Exception, **options: Any) -> None:
        """A call in which the server raises `error`."""
        with pytest.raises(type(error)):
            await self.call(limits, Server(error), **options)


async def test_without_limits_a_call_is_only_made() -> None:
    """Nothing is counted or kept."""
    gate, server = Gate(), Server("answer")

    assert await gate.call(UNLIMITED, server) == "answer"
    assert server.allowed == [None]
    assert gate.throttle._tools == {}
    assert gate.runs == {"run": {}}


async def test_calls_of_a_run_are_counted_by_tool() -> None:
    """Another run and another tool have their own."""
    gate, limits = Gate(), ToolLimits(calls_per_run=2)
    for _ in range(2):
        await gate.call(limits, Server())

    assert await gate.refusal(limits) == (
        "'mcp__mail__send' may be called 2 times in one run. Do the rest in another run."
    )
    assert await gate.call(limits, Server(), run="other") == "ok"
    assert await gate.call(limits, Server(), name="list") == "ok"


async def test_calls_that_fail_count_too() -> None:
    """Else a loop around a failing tool would have no end."""
    gate, limits = Gate(), ToolLimits(calls_per_run=1)
    await gate.failure(limits, ToolFailed("no"))

    assert await gate.refusal(limits) == "'mcp__mail__send' may be called once in one run. Do the rest in another run."


async def test_calls_of_a_run_made_at_once_are_counted_before_they_wait() -> None:
    """A hundred at once are not a hundred firsts."""
    gate, limits = Gate(), ToolLimits(calls_per_run=3, concurrent_calls=1)
    results = await asyncio.gather(*(gate.call(limits, Server()) for _ in range(100)), return_exceptions=True)

    assert results.count("ok") == 3
    assert sum(isinstance(result, LimitReached) for result in results) == 97


async def test_a_minute_slides() -> None:
    """Of the whole gateway: another run is counted too. The message says when there is room again."""
    gate, limits = Gate(), ToolLimits(calls_per_minute=2)
    await gate.call(limits, Server())
    gate.clock.now += 40
    await gate.call(limits, Server(), run="other")

    assert await gate.refusal(limits) == "'mcp__mail__send' may be called 2 times a minute. Try again in 20 s."
    gate.clock.now += 19.9
    assert await gate.refusal(limits) == "'mcp__mail__send' may be called 2 times a minute. Try again in 1 s."
    assert await gate.call(limits, Server(), name="list") == "ok"
    gate.clock.now += 0.1
    await gate.call(limits, Server())
    assert await gate.refusal(limits) == "'mcp__mail__send' may be called 2 times a minute. Try again in 40 s."


async def test_a_call_that_waited_is_counted_when_it_begins() -> None:
    """What queues up in one minute cannot all begin in the next."""
    gate, limits = Gate(), ToolLimits(calls_per_minute=2, concurrent_calls=1)
    first = Server()
    release = asyncio.Event()

    async def slow(seconds: float | None) -> str:
        await release.wait()
        return "slow"

    calls = [asyncio.create_task(gate.call(limits, each)) for each in (slow, first, Server(), Server())]
    await asyncio.sleep(0)
    gate.clock.now += 59
    release.set()
    results = await asyncio.gather(*calls, return_exceptions=True)

    assert results[:2] == ["slow", "ok"]
    assert [type(result) for result in results[2:]] == [LimitReached, LimitReached]


async def test_what_is_refused_anyway_does_not_wait_for_its_turn() -> None:
    """Nor is it counted as a call of its run."""
    gate, limits = Gate(), ToolLimits(calls_per_minute=1, concurrent_calls=1, calls_per_run=2)
    release = asyncio.Event()

    async def slow(seconds: float | None) -> str:
        await release.wait()
        return "slow"

    call = asyncio.create_task(gate.call(limits, slow))
    await asyncio.sleep(0)
    for _ in range(5):
        message = await asyncio.wait_for(gate.refusal(limits), 5)
        assert message == "'mcp__mail__send' may be called once a minute. Try again in 60 s."
    release.set()
    assert await call == "slow"
    gate.clock.now += 60
    assert await gate.call(limits, Server()) == "ok"


async def test_calls_beyond_those_at_once_wait_in_order() -> None:
    """Two run, the others begin as they came, whatever run they are of."""
    gate, limits = Gate(), ToolLimits(concurrent_calls=2)
    begun: list[int] = []
    ends = [asyncio.Event() for _ in range(5)]

    def server(number: int) -> Callable[[float | None], Awaitable[int]]:
        async def answer(seconds: float | None) -> int:
            begun.append(number)
            await ends[number].wait()
            return number

        return answer

    calls = [asyncio.create_task(gate.call(limits, server(number), run=f"run {number}")) for number in range(5)]
    await asyncio.sleep(0)
    assert begun == [0, 1]
    for number, expected in ((1, [0, 1, 2]), (0, [0, 1, 2, 3]), (3, [0, 1, 2, 3, 4])):
        ends[number].set()
        assert await calls[number] == number
        await asyncio.sleep(0)
        assert begun == expected
    for end in ends:
        end.set()
    assert await asyncio.gather(*calls) == [0, 1, 2, 3, 4]


async def test_a_call_cancelled_while_it_waits_or_runs_gives_its_turn_away() -> None:
    """No turn is ever lost."""
    gate, limits = Gate(), ToolLimits(concurrent_calls=1)
    forever = asyncio.Event()

    async def hang(seconds: float | None) -> None:
        await forever.wait()

    running = asyncio.create_task(gate.call(limits, hang))
    waiting = asyncio.create_task(gate.call(limits, Server()))
    last = asyncio.create_task(gate.call(limits, Server("last")))
    await asyncio.sleep(0)
    waiting.cancel()
    running.cancel()
    assert await asyncio.wait_for(last, 5) == "last"
    assert [type(each) for each in await asyncio.gather(running, waiting, return_exceptions=True)] == [
        asyncio.CancelledError,
        asyncio.CancelledError,
    ]
    assert await asyncio.wait_for(gate.call(limits, Server("again")), 5) == "again"
    assert gate.throttle._tools["mcp__mail__send"].calls == 0


@pytest.mark.parametrize("limit", [5.0, None])
async def test_an_attempt_has_the_time_of_its_tool(limit: float | None) -> None:
    """Without a limit the upstream's own counts."""
    server = Server()
    await Gate().call(ToolLimits(timeout_seconds=limit, retries=1), server)

    assert server.allowed == [limit]


async def test_waiting_for_a_turn_is_not_counted_as_the_tools_time() -> None:
    """The seconds begin when the call does."""
    gate, limits = Gate(), ToolLimits(concurrent_calls=1, timeout_seconds=5)
    server, release = Server(), asyncio.Event()

    async def slow(seconds: float | None) -> None:
        await release.wait()

    calls = [asyncio.create_task(gate.call(limits, each)) for each in (slow, server)]
    await asyncio.sleep(0)
    gate.clock.now += 100
    release.set()
    await asyncio.gather(*calls)

    assert server.allowed == [5]


@pytest.mark.parametrize("error", [UpstreamUnavailable("down"), UpstreamTimeout("late"), UpstreamError("lost")])
async def test_a_failure_of_the_server_is_tried_again_if_that_is_safe(error: UpstreamError) -> None:
    """Twice as long between attempts; the answer is all that is seen of it."""
    gate, server = Gate(), Server(error, error, "answer")

    assert await gate.call(ToolLimits(retries=2), server, idempotent=True) == "answer"
    assert gate.clock.slept == [0.25, 0.5]


async def test_retries_end() -> None:
    """The last failure is what the code gets."""
    gate = Gate()
    server = Server(*(UpstreamTimeout(str(number)) for number in range(9)))

    with pytest.raises(UpstreamTimeout, match=r"^2$"):
        await gate.call(ToolLimits(retries=2), server, idempotent=True)
    assert len(server.allowed) == 3


@pytest.mark.parametrize(
    ("error", "idempotent", "retries"),
    [
        (UpstreamTimeout("late"), False, 5),
        (UpstreamUnavailable("down"), False, 5),
        (UpstreamTimeout("late"), True, 0),
        (ToolFailed("no such address"), True, 5),
        (InvalidArguments("to is missing"), True, 5),
        (LimitReached("no"), True, 5),
    ],
)
async def test_nothing_else_is_tried_again(error: SealyardError, idempotent: bool, retries: int) -> None:
    """A write that may have happened, what the tool itself refuses, and mistakes are made once."""
    gate, server = Gate(), Server(error)

    with pytest.raises(type(error)):
        await gate.call(ToolLimits(retries=retries), server, idempotent=idempotent)
    assert (len(server.allowed), gate.clock.slept) == (1, [])


async def test_retries_count_as_calls_of_the_minute() -> None:
    """They reach the server like any other; without room the failure itself is raised."""
    gate, limits = Gate(), ToolLimits(retries=5, calls_per_minute=2)
    server = Server(*(UpstreamUnavailable("down") for _ in range(9)))

    with pytest.raises(UpstreamUnavailable):
        await gate.call(limits, server, idempotent=True)
    assert len(server.allowed) == 2


async def test_pauses_differ_and_have_an_end() -> None:
    """Calls that failed together do not come back together, and none sleeps for minutes."""
    throttle = Throttle(jitter=iter([0.0, 1.0, 0.0, 1.0]).__next__)

    assert [throttle.pause(attempt) for attempt in (0, 0, 10, 10)] == [0.125, 0.375, 4.0, 12.0]


BREAKER = ToolLimits(breaker_failures=2, breaker_seconds=30)


async def test_failures_in_a_row_open_the_breaker() -> None:
    """Then nothing reaches the server until its time is over; the state can be read."""
    gate = Gate()
    await gate.failure(BREAKER, UpstreamUnavailable("down"))
    assert gate.throttle.circuits() == [Circuit(tool="mcp__mail__send", state="closed", failures=1)]
    await gate.failure(BREAKER, UpstreamTimeout("late"))
    gate.clock.now += 10

    assert await gate.refusal(BREAKER, run="other") == (
        "'mcp__mail__send' is not called: its server failed 2 times in a row. Try again in 20 s, or use another tool."
    )
    assert gate.throttle.circuits() == [Circuit(tool="mcp__mail__send", state="open", failures=2, retry_seconds=20.0)]
    assert await gate.call(BREAKER, Server(), name="list") == "ok"
    gate.clock.now += 20
    assert gate.throttle.circuits() == [Circuit(tool="mcp__mail__send", state="half_open", failures=2)]


async def test_an_answer_between_two_failures_keeps_the_breaker_closed() -> None:
    """A tool's own error is an answer; bad arguments and refusals say nothing."""
    gate = Gate()
    for between in (ToolFailed("no"), "ok"):
        await gate.failure(BREAKER, UpstreamUnavailable("down"))
        if isinstance(between, Exception):
            await gate.failure(BREAKER, between)
        else:
            await gate.call(BREAKER, Server(between))
        assert gate.throttle.circuits() == []
    for neutral in (InvalidArguments("x"), LimitReached("x"), InvalidArguments("x")):
        await gate.failure(BREAKER, neutral)
    assert gate.throttle.circuits() == []
    await gate.failure(BREAKER, UpstreamUnavailable("down"))
    await gate.failure(BREAKER, InvalidArguments("x"))
    await gate.failure(BREAKER, UpstreamUnavailable("down"))
    assert [circuit.state for circuit in gate.throttle.circuits()] == ["open"]


async def opened() -> Gate:
    """A gate whose breaker is half-open."""
    gate = Gate()
    for _ in range(2):
        await gate.failure(BREAKER, UpstreamUnavailable("down"))
    gate.clock.now += 30
    return gate


async def test_one_call_alone_tries_the_server() -> None:
    """Others are refused meanwhile; its success closes the breaker."""
    gate = await opened()
    begun, release = asyncio.Event(), asyncio.Event()

    async def probe(seconds: float | None) -> str:
        begun.set()
        await release.wait()
        return "back"

    trying = asyncio.create_task(gate.call(BREAKER, probe))
    await asyncio.wait_for(begun.wait(), 5)
    assert await gate.refusal(BREAKER) == (
        "'mcp__mail__send' is not called: its server failed 2 times in a row. Try again once the call that tries it is "
        "back, or use another tool."
    )
    release.set()
    assert await trying == "back"
    assert await gate.call(BREAKER, Server()) == "ok"
    assert gate.throttle.circuits() == []


async def test_a_breaker_opens_and_closes_any_number_of_times() -> None:
    """Each time one call tries the server."""
    gate = await opened()
    for _ in range(3):
        assert await gate.call(BREAKER, Server("back")) == "back"
        for _ in range(2):
            await gate.failure(BREAKER, UpstreamUnavailable("down"))
        assert [circuit.state for circuit in gate.throttle.circuits()] == ["open"]
        gate.clock.now += 30


async def test_a_try_that_fails_opens_the_breaker_again() -> None:
    """For the whole time, and it is not retried."""
    gate = await opened()
    server = Server(UpstreamTimeout("late"))
    with pytest.raises(UpstreamTimeout):
        await gate.call(BREAKER, server, idempotent=True)

    assert len(server.allowed) == 1
    assert gate.throttle.circuits() == [Circuit(tool="mcp__mail__send", state="open", failures=3, retry_seconds=30.0)]


@pytest.mark.parametrize("neutral", [InvalidArguments("x"), None])
async def test_a_try_that_says_nothing_leaves_the_next_call_to_try(neutral: Exception | None) -> None:
    """Cancelled or refused on the way, it must not leave the breaker half-open for good."""
    gate = await opened()
    if neutral is not None:
        await gate.failure(BREAKER, neutral)
    else:
        begun = asyncio.Event()

        async def hang(seconds: float | None) -> None:
            begun.set()
            await asyncio.Event().wait()

        trying = asyncio.create_task(gate.call(BREAKER, hang))
        await asyncio.wait_for(begun.wait(), 5)
        trying.cancel()
        await asyncio.gather(trying, return_exceptions=True)

    assert [circuit.state for circuit in gate.throttle.circuits()] == ["half_open"]
    assert await gate.call(BREAKER, Server("back")) == "back"
    assert gate.throttle.circuits() == []


async def test_a_tools_own_error_closes_a_half_open_breaker() -> None:
    """The server is back, whatever it thinks of the call."""
    gate = await opened()
    await gate.failure(BREAKER, ToolFailed("no"))

    assert gate.throttle.circuits() == []


async def test_what_began_before_the_breaker_opened_does_not_close_it() -> None:
    """An answer to an old call says little about the server now, and an old failure does not count twice."""
    gate = Gate()
    release = asyncio.Event()

    async def slow(seconds: float | None) -> str:
        await release.wait()
        return "old"

    async def slow_failure(seconds: float | None) -> str:
        await release.wait()
        raise UpstreamTimeout("old")

    old = [asyncio.create_task(gate.call(BREAKER, each)) for each in (slow, slow_failure)]
    await asyncio.sleep(0)
    for _ in range(2):
        await gate.failure(BREAKER, UpstreamUnavailable("down"))
    release.set()
    await asyncio.gather(*old, return_exceptions=True)

    assert gate.throttle.circuits() == [Circuit(tool="mcp__mail__send", state="open", failures=2, retry_seconds=30.0)]


async def test_calls_that_wait_when_the_breaker_opens_are_refused() -> None:
    """A queue does not hammer a server that is down."""
    gate, limits = Gate(), ToolLimits(concurrent_calls=1, breaker_failures=1)
    release = asyncio.Event()
    waiting = Server()

    async def fail(seconds: float | None) -> None:
        await release.wait()
        raise UpstreamUnavailable("down")

    calls = [asyncio.create_task(gate.call(limits, each)) for each in (fail, waiting, waiting)]
    await asyncio.sleep(0)
    release.set()
    results = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(result) for result in results] == [UpstreamUnavailable, LimitReached, LimitReached]
    assert waiting.allowed == []


async def test_a_breaker_that_opens_ends_the_retries() -> None:
    """Its failures count each."""
    gate = Gate()
    server = Server(*(UpstreamUnavailable("down") for _ in range(9)))

    with pytest.raises(UpstreamUnavailable):
        await gate.call(ToolLimits(retries=9, breaker_failures=3), server, idempotent=True)
    assert (len(server.allowed), gate.clock.slept) == (3, [0.25, 0.5])


async def test_tools_that_come_and_go_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of which something is known stay: an open breaker, and calls of the last minute."""
    monkeypatch.setattr(module, "_MOST_TOOLS", 3)
    gate = Gate()
    gate.throttle._room = 3
    await gate.failure(ToolLimits(breaker_failures=1), UpstreamUnavailable("down"), name="down")
    await gate.call(ToolLimits(calls_per_minute=9), Server(), name="busy")
    for number in range(20):
        await gate.call(ToolLimits(retries=1), Server(), name=str(number))

    assert len(gate.throttle._tools) <= 4
    assert {"mcp__mail__down", "mcp__mail__busy"} <= set(gate.throttle._tools)


async def test_new_limits_of_a_tool_take_effect() -> None:
    """A changed config is not held to what an earlier one said."""
    gate = Gate()
    await gate.call(ToolLimits(calls_per_minute=1), Server())

    assert await gate.refusal(ToolLimits(calls_per_minute=1)) != ""
    assert await gate.call(ToolLimits(calls_per_minute=5), Server()) == "ok"
