"""How often, how many at once, how long and how stubbornly a tool is called.

Each tool is counted by itself over the whole gateway; calls of a run are counted for that run. A tool without limits
costs nothing here.
"""

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from itertools import count
from typing import Literal, TypeVar

import msgspec

from sealyard.broker.policy import UNLIMITED, ToolLimits
from sealyard.errors import LimitReached, ToolFailed, UpstreamError
from sealyard.values import ToolSpec

__all__ = ("Circuit", "Throttle")

_T = TypeVar("_T")
_WINDOW_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 8.0
_MOST_RUNS = 10_000  # those that began first are forgotten beyond it
_MOST_TOOLS = 1_000  # those that nothing is known of are forgotten beyond it


class Circuit(msgspec.Struct, frozen=True, kw_only=True):
    """How the circuit breaker of one tool stands."""

    tool: str
    state: Literal["closed", "open", "half_open"]
    """`open`: calls are refused. `half_open`: the next call tries whether the server is back."""
    failures: int
    """Of the server, in a row."""
    retry_seconds: float = 0.0
    """How long it stays open."""


class Throttle:
    """Runs calls within the limits of their tools. `clock` counts seconds, `jitter` gives 0 to 1."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        self._tools: dict[str, _Tool] = {}
        self._room = _MOST_TOOLS
        self._runs: dict[str, dict[str, int]] = {}

    async def run(
        self,
        spec: ToolSpec,
        limits: ToolLimits,
        execution_id: str,
        call: Callable[[float | None], Awaitable[_T]],
        *,
        is_idempotent: bool,
        timeout_seconds: float | None = None,
    ) -> _T:
        """What `call` returns. It is given the seconds it may take, and is called again if that is safe and allowed.

        `is_idempotent` must come from a trusted upstream: a call that failed may have happened. `timeout_seconds` is
        for all attempts together, from the moment it is the call's turn.

        Raises:
            LimitReached: A limit is used up; nothing was called.
        """
        if limits is UNLIMITED:
            return await call(timeout_seconds)
        tool = self._tool(spec.full_name, limits)
        tool.check(self._clock())
        if limits.calls_per_run is not None:
            self._count(execution_id, spec.full_name, limits.calls_per_run)
        tool.calls += 1
        try:
            async with tool.turns:
                return await self._attempt(tool, call, limits.retries if is_idempotent else 0, timeout_seconds)
        finally:
            tool.calls -= 1

    def forget(self, execution_id: str) -> None:
        """Free what was counted for a run that is over."""
        self._runs.pop(execution_id, None)

    def circuits(self) -> list[Circuit]:
        """Every circuit breaker that has seen a failure and no success since, by the tool's name."""
        now = self._clock()
        return [tool.circuit(now) for _, tool in sorted(self._tools.items()) if tool.failures]

    async def _attempt(
        self, tool: "_Tool", call: Callable[[float | None], Awaitable[_T]], retries: int, timeout_seconds: float | None
    ) -> _T:
        deadline = math.inf if timeout_seconds is None else self._clock() + timeout_seconds
        failure: UpstreamError | None = None
        for attempt in count():
            now = self._clock()
            if failure is not None and now >= deadline:
                raise failure
            try:
                is_probe = tool.begin(now)
            except LimitReached:
                if failure is None:
                    raise
                raise failure from None  # what went wrong says more than that it cannot be tried again
            left = min(tool.limits.timeout_seconds or math.inf, deadline - now)
            try:
                answer = await call(None if left == math.inf else left)
            except ToolFailed:  # the server is well: it answered
                tool.succeed(is_probe)
                raise
            except UpstreamError as error:
                tool.fail(is_probe, self._clock())
                pause = self._pause(attempt)
                if attempt >= retries or self._clock() + pause >= deadline or tool.is_open:
                    raise
                failure = error
            except BaseException:  # cancelled, or refused on the way: nothing is known of the server
                tool.give_back(is_probe)
                raise
            else:
                tool.succeed(is_probe)
                return answer
            await self._sleep(pause)
        raise AssertionError

    def _pause(self, attempt: int) -> float:
        """Twice as long each time and never the same, so that calls which failed together do not return together."""
        return min(_FIRST_PAUSE_SECONDS * (1 << attempt), _LONGEST_PAUSE_SECONDS) * (0.5 + self._jitter())

    def _tool(self, name: str, limits: ToolLimits) -> "_Tool":
        tool = self._tools.get(name)
        if tool is None or (tool.limits is not limits and tool.limits != limits):
            if len(self._tools) >= self._room:
                now = self._clock()
                self._tools = {name: tool for name, tool in self._tools.items() if not tool.is_idle(now)}
                self._room = max(_MOST_TOOLS, 2 * len(self._tools))
            tool = self._tools[name] = _Tool(name, limits)
        return tool

    def _count(self, execution_id: str, name: str, most: int) -> None:
        calls = self._runs.get(execution_id)
        if calls is None:
            if len(self._runs) >= _MOST_RUNS:
                del self._runs[next(iter(self._runs))]
            calls = self._runs[execution_id] = {}
        if calls.get(name, 0) >= most:
            raise LimitReached(f"{name!r} may be called {_times(most)} in one run. Do the rest in another run.")
        calls[name] = calls.get(name, 0) + 1


class _Tool:
    """The state of one tool: the calls of the last minute, the turns, the circuit breaker."""

    __slots__ = ("_started", "calls", "failures", "is_probing", "limits", "name", "open_until", "turns")

    def __init__(self, name: str, limits: ToolLimits) -> None:
        self.name = name
        self.limits = limits
        self.calls = 0
        """That run or wait for their turn."""
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
        """Open or half-open."""
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

    def begin(self, now: float) -> bool:
        """Count a call that begins now; whether it is the one that tries the server. Raises as `check` does."""
        self.check(now)
        if self.limits.calls_per_minute is not None:
            self._started.append(now)
        if self.open_until is None:
            return False
        self.is_probing = True
        return True

    def succeed(self, is_probe: bool) -> None:
        """The server answered. What began before the breaker opened does not close it."""
        if is_probe or self.open_until is None:
            self.failures, self.open_until, self.is_probing = 0, None, False

    def fail(self, is_probe: bool, now: float) -> None:
        """The server failed."""
        if self.limits.breaker_failures is None or (self.open_until is not None and not is_probe):
            return
        self.failures += 1
        if is_probe or self.failures >= self.limits.breaker_failures:
            self.open_until, self.is_probing = now + self.limits.breaker_seconds, False

    def give_back(self, is_probe: bool) -> None:
        """The call ended and says nothing about the server: another may try it."""
        if is_probe:
            self.is_probing = False

    def is_idle(self, now: float) -> bool:
        """Whether nothing would be lost by forgetting it."""
        return not self.calls and not self.failures and not self._recent(now)

    def circuit(self, now: float) -> Circuit:
        """How its breaker stands."""
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
