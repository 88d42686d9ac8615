"""Limits on calls of a tool: rate, concurrency, time and retries.

Each tool is counted by itself over the whole gateway; each run counts its own calls. A tool without limits
costs nothing here.
"""

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from types import TracebackType
from typing import Self

from sealyard.broker.policy import UNLIMITED, ToolLimits
from sealyard.errors import LimitReached, ToolFailed, UpstreamError
from sealyard.values.tools import Circuit, ToolSpec

_WINDOW_SECONDS = 60.0  # the minute of `calls_per_minute`
_FIRST_PAUSE_SECONDS = 0.25  # before the first retry, above a usual round trip; it doubles with each
_LONGEST_PAUSE_SECONDS = 8.0  # five doublings of the first; chosen, not measured
_MOST_TOOLS = 1_000  # tools without a record are forgotten beyond it


class Throttle:
    """Runs calls within the limits of their tools. `clock` counts seconds, `jitter` gives 0 to 1."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.clock = clock
        self.sleep = sleep
        self._jitter = jitter
        self._tools: dict[str, _Tool] = {}
        self._room = _MOST_TOOLS

    def turn(
        self,
        spec: ToolSpec,
        limits: ToolLimits,
        counted: dict[str, int],
        *,
        is_idempotent: bool,
    ) -> AbstractAsyncContextManager["Attempts"]:
        """The attempts of one call, within the limits of its tool. `counted` holds the calls of its run so far.

        They are made so::

            async with throttle.turn(…) as attempts:
                async for attempt in attempts:
                    with attempt:
                        answer = await ask(attempt.seconds)

        The body runs again if that is safe and allowed. `is_idempotent` must come from a trusted upstream: a call that
        failed may have happened.

        Entering it, and going on to the next attempt, raises `LimitReached` when a limit is used up.
        """
        if limits is UNLIMITED:
            return nullcontext(Attempts(self))
        tool = self._tool(spec.full_name, limits)
        return self._limited_turn(tool, counted, limits.retries if is_idempotent else 0)

    @asynccontextmanager
    async def _limited_turn(self, tool: "_Tool", counted: dict[str, int], retries: int) -> AsyncIterator["Attempts"]:
        tool.check(self.clock())
        tool.count(counted)
        tool.calls += 1
        try:
            async with tool.turns:
                yield Attempts(self, tool, retries)
        finally:
            tool.calls -= 1

    def circuits(self) -> list[Circuit]:
        """Every circuit breaker that has seen a failure and no success since, by the tool's name."""
        now = self.clock()
        return [tool.circuit(now) for _, tool in sorted(self._tools.items()) if tool.failures]

    def pause(self, attempt: int) -> float:
        """Doubles each time, with jitter, so that calls that failed together are not retried together."""
        return min(_FIRST_PAUSE_SECONDS * (1 << attempt), _LONGEST_PAUSE_SECONDS) * (0.5 + self._jitter())

    def _tool(self, name: str, limits: ToolLimits) -> "_Tool":
        tool = self._tools.get(name)
        if tool is None or (tool.limits is not limits and tool.limits != limits):
            if len(self._tools) >= self._room:
                now = self.clock()
                self._tools = {name: tool for name, tool in self._tools.items() if not tool.is_idle(now)}
                self._room = max(_MOST_TOOLS, 2 * len(self._tools))
            tool = self._tools[name] = _Tool(name, limits)
        return tool


class Attempts:
    """The attempts of one call, one after the other. A tool without limits has one."""

    def __init__(self, throttle: Throttle, tool: "_Tool | None" = None, retries: int = 0) -> None:
        self._throttle = throttle
        self._tool = tool
        self._retries = retries
        self._number = 0
        self._failure: UpstreamError | None = None
        self._pause_seconds = 0.0
        self._is_probe = False
        self._is_answered = False
        self.seconds = None if tool is None else tool.limits.timeout_seconds
        """The time limit of each attempt; None for no limit."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Self:
        if self._is_answered:
            raise StopAsyncIteration
        tool, failure = self._tool, self._failure
        if tool is None:
            return self
        if failure is not None:
            await self._throttle.sleep(self._pause_seconds)
        try:
            self._is_probe = tool.begin(self._throttle.clock())
        except LimitReached:
            if failure is None:
                raise
            raise failure from None  # the failure explains more than the used-up limit
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Record the attempt. True, which starts the next one, if it failed and may be repeated."""
        tool = self._tool
        if error is None:
            self._is_answered = True
        if tool is None:
            return False
        if error is None or isinstance(error, ToolFailed):  # the server is well: it answered
            tool.succeed(self._is_probe)
            return False
        if not isinstance(error, UpstreamError):  # cancelled or refused before the server: no evidence about it
            tool.give_back(self._is_probe)
            return False
        tool.fail(self._is_probe, self._throttle.clock())
        self._failure, self._pause_seconds = error, self._throttle.pause(self._number)
        is_last = self._number >= self._retries
        self._number += 1
        return not (is_last or tool.is_open)


class _Tool:
    """The state of one tool: the calls of the last minute, the turns, the circuit breaker."""

    def __init__(self, name: str, limits: ToolLimits) -> None:
        self.name = name
        self.limits = limits
        self.calls = 0
        """Calls that run or wait for their turn."""
        self.turns: asyncio.Semaphore | nullcontext[None] = nullcontext()
        if limits.concurrent_calls is not None:
            self.turns = asyncio.Semaphore(limits.concurrent_calls)
        self.failures = 0
        self.open_until: float | None = None
        """The breaker is closed while this is `None`, and half-open from then on."""
        self.is_probing = False
        self._started: deque[float] = deque()

    @property
    def is_open(self) -> bool:
        return self.open_until is not None

    def check(self, now: float) -> None:
        """Raise `LimitReached` if no call may begin now."""
        if self.open_until is not None and (now < self.open_until or self.is_probing):
            again = "once the call that tries it is back" if self.is_probing else f"in {_spell(self.open_until - now)}"
            raise LimitReached(
                f"{self.name!r} is not called: its server failed {_times(self.failures)} in a row. Try again {again}, "
                "or use another tool."
            )
        most = self.limits.calls_per_minute
        if most is not None and self._recent(now) >= most:
            wait = _spell(self._started[0] + _WINDOW_SECONDS - now)
            raise LimitReached(f"{self.name!r} may be called {_times(most)} a minute. Try again in {wait}.")

    def count(self, counted: dict[str, int]) -> None:
        """Count a call of a run. Raises `LimitReached` after the most that one run may make."""
        most, calls = self.limits.calls_per_run, counted.get(self.name, 0)
        if most is None:
            return
        if calls >= most:
            raise LimitReached(f"{self.name!r} may be called {_times(most)} in one run. Do the rest in another run.")
        counted[self.name] = calls + 1

    def begin(self, now: float) -> bool:
        """Count a call that begins now; returns True if it tests the server. Raises as `check` does."""
        self.check(now)
        if self.limits.calls_per_minute is not None:
            self._started.append(now)
        if self.open_until is None:
            return False
        self.is_probing = True
        return True

    def succeed(self, is_probe: bool) -> None:
        """The server answered. A call that began before the breaker opened does not close it."""
        if is_probe or self.open_until is None:
            self.failures, self.open_until, self.is_probing = 0, None, False

    def fail(self, is_probe: bool, now: float) -> None:
        if self.limits.breaker_failures is None or (self.open_until is not None and not is_probe):
            return
        self.failures += 1
        if is_probe or self.failures >= self.limits.breaker_failures:
            self.open_until, self.is_probing = now + self.limits.breaker_seconds, False

    def give_back(self, is_probe: bool) -> None:
        """The call ended without evidence about the server: another may test it."""
        if is_probe:
            self.is_probing = False

    def is_idle(self, now: float) -> bool:
        """True if forgetting it would lose nothing."""
        return not self.calls and not self.failures and not self._recent(now)

    def circuit(self, now: float) -> Circuit:
        if self.open_until is None:
            return Circuit(tool=self.name, state="closed", failures=self.failures)
        left = max(0.0, self.open_until - now)
        return Circuit(
            tool=self.name, state="open" if left else "half_open", failures=self.failures, retry_seconds=left
        )

    def _recent(self, now: float) -> int:
        while self._started and self._started[0] <= now - _WINDOW_SECONDS:
            self._started.popleft()
        return len(self._started)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _spell(seconds: float) -> str:
    return f"{max(1, math.ceil(seconds))} s"
