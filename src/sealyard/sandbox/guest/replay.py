"""A repeatable run: its clock stands, sleeping moves it, and randomness comes from a seed.

It changes the interpreter of its own worker, which is used for nothing else. This is for equal results, not for
keeping anything from the code. Standard library only.
"""

import asyncio
import ctypes
import datetime
import gc
import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable
from fractions import Fraction
from time import monotonic, sleep  # the real ones: the event loop and its timers go on living by them
from typing import Any

_SECOND = 10**9  # in nanoseconds
_UPTIME = 1_000 * _SECOND  # where clocks of durations begin
_TICK = 1_000
"""The step of duration clocks at each read: no duration is zero, and waiting for one to pass ends."""

_real_sleep = asyncio.sleep


class _Clock:
    """Counts nanoseconds, so that no addition loses any."""

    def __init__(self, at: float) -> None:
        self._start = _nanoseconds(at)
        self._slept = 0
        self._ticks = 0
        self._lock = threading.Lock()

    def now(self) -> int:
        """Since the epoch."""
        return self._start + self._slept

    def measured(self) -> int:
        """Since some moment before the run."""
        with self._lock:
            self._ticks += _TICK
            return _UPTIME + self._slept + self._ticks

    def pass_by(self, span: int) -> None:
        with self._lock:
            self._slept += span

    def pass_until(self, moment: int) -> None:
        """Let time pass until then, unless it has passed already."""
        with self._lock:
            self._slept = max(self._slept, moment - self._start)


def install(at: float, seed: int) -> None:
    """Stop the clock at `at`, in seconds since the epoch, and seed every source of chance."""
    clock = _Clock(at)
    _replace_time(clock)
    _replace_sleep(clock)
    _replace_calendar(clock)
    _replace_chance(seed)


def _nanoseconds(seconds: Any) -> int:
    return round(Fraction(seconds) * _SECOND)


def _replace_time(clock: _Clock) -> None:
    localtime, strftime, asctime = time.localtime, time.strftime, time.asctime

    def now() -> float:
        return clock.now() / _SECOND

    def moment(number: int) -> int:
        return clock.now() if number == time.CLOCK_REALTIME else clock.measured()

    def at_now(real: Callable[[float], Any]) -> Callable[..., Any]:
        return lambda seconds=None: real(now() if seconds is None else seconds)

    _put(time, "time", now)
    _put(time, "time_ns", clock.now)
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        _put(time, name, lambda: clock.measured() / _SECOND)
        _put(time, f"{name}_ns", clock.measured)
    _put(time, "clock_gettime", lambda number: moment(number) / _SECOND)
    _put(time, "clock_gettime_ns", moment)
    for name in ("gmtime", "localtime", "ctime"):
        _put(time, name, at_now(getattr(time, name)))
    _put(time, "asctime", lambda moment=None: asctime(localtime(now()) if moment is None else moment))
    _put(time, "strftime", lambda form, moment=None: strftime(form, localtime(now()) if moment is None else moment))
    asyncio.BaseEventLoop.time = lambda self: monotonic()  # type: ignore[method-assign]


def _replace_sleep(clock: _Clock) -> None:
    def sleep_at_once(seconds: float) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        sleep(0)
        clock.pass_by(_nanoseconds(seconds))

    async def sleep_in_loop(delay: float, result: Any = None) -> Any:
        """Side by side, sleeps take as long as the longest of them."""
        end = clock.now() + max(0, _nanoseconds(delay))
        await _real_sleep(0)
        clock.pass_until(end)
        return result

    _put(time, "sleep", sleep_at_once)
    for module in (asyncio, asyncio.tasks):
        _put(module, "sleep", sleep_in_loop)


def _replace_calendar(clock: _Clock) -> None:
    """Patches the classes themselves: modules that have already imported them, such as pandas, see it too."""

    def now(kind: Any, tz: datetime.tzinfo | None = None) -> Any:
        return kind.fromtimestamp(clock.now() / _SECOND, tz)

    def utcnow(kind: Any) -> Any:
        return kind.fromtimestamp(clock.now() / _SECOND, datetime.UTC).replace(tzinfo=None)

    def today(kind: Any) -> Any:
        return kind.fromtimestamp(clock.now() / _SECOND)

    _put_native(datetime.date, today=today)
    _put_native(datetime.datetime, now=now, utcnow=utcnow)


def _replace_chance(seed: int) -> None:
    source = random.Random(seed)  # noqa: S311 - to be guessed is its purpose
    seed_really = random.Random.seed

    def seed_instance(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed_really(self, source.getrandbits(64) if a is None else a, version)

    def urandom(size: int, /) -> bytes:
        return source.randbytes(size)

    _put(os, "urandom", urandom)
    _put(os, "getrandom", lambda size, flags=0: source.randbytes(size))
    random._urandom = urandom  # type: ignore[attr-defined]  # what SystemRandom and so `secrets` take
    random.Random.seed = seed_instance  # type: ignore[method-assign]
    random.seed = random._inst.seed
    random.seed(seed)
    uuid._generate_time_safe = None  # type: ignore[attr-defined]  # the C library's own clock
    uuid._node = source.getrandbits(48) | 1 << 40  # type: ignore[attr-defined]  # marked as no real address
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def _put(module: Any, name: str, function: Callable[..., Any]) -> None:
    if hasattr(module, name):  # not every system has every clock
        setattr(module, name, function)


def _put_native(kind: type, **methods: Callable[..., Any]) -> None:
    """Replace class methods of a class that does not let itself be changed."""
    names = gc.get_referents(vars(kind))[0]  # the real namespace behind the read-only view
    for name, method in methods.items():
        names[name] = classmethod(method)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))  # or lookups that were remembered would still find the old
