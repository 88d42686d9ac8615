"""Between requests and what was learned: a lookup that fails or dawdles is left out, and the request goes on."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

_log = logging.getLogger(__name__)

_OFF_SECONDS = 300.0
_SLOW_SECONDS = 0.02
_SLOW_IN_A_ROW = 3
_FORGIVEN = 0.1
_BESIDE_SECONDS = 1.0
_KEPT = 1_000

_T = TypeVar("_T")


class Barrier:
    """Switches a part off for five minutes when it raises, or takes too long three times in a row or every other time.

    It is off for `who` asked alone: code and answers that are made to be slow must not take it from everybody.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        spent: Callable[[], float] = time.thread_time,
        beside_seconds: float = _BESIDE_SECONDS,
    ) -> None:
        """`beside_seconds` is for how long a request waits for what is done in a thread.

        `spent` tells what a lookup costs: processor time, so that a busy machine is no fault of what was learned.
        """
        self._clock = clock
        self._spent = spent
        self._beside_seconds = beside_seconds
        self._off_until: dict[tuple[str, str], float] = {}
        self._slow: dict[tuple[str, str], float] = {}
        self.faults: dict[str, int] = {}
        """How often each part was switched off."""

    def watch(self, who: str = "") -> "Watch":
        """For several lookups in a row."""
        return Watch(self, who, self._spent)

    def ask(self, part: str, look: Callable[[], _T], otherwise: _T, *, who: str = "") -> _T:
        """What `look` finds; `otherwise` if the part is off or fails."""
        return self.watch(who).ask(part, look, otherwise)

    async def ask_beside(self, part: str, look: Callable[[], _T], otherwise: _T, *, who: str = "") -> _T:
        """The same for work that takes its time, in a thread. `look` must not touch what was learned.

        After a second the request goes on without it.
        """
        if self.is_off(part, who):
            return otherwise
        limit = asyncio.timeout(self._beside_seconds)
        try:
            async with limit:
                found = await asyncio.to_thread(look)
        except TimeoutError:
            if limit.expired():
                self.note_time(part, who, is_slow=True)
            else:  # it is its own
                self.fail(part, who)
            return otherwise
        except Exception:  # noqa: BLE001 - as above
            self.fail(part, who)
            return otherwise
        self.note_time(part, who, is_slow=False)
        return found

    def is_off(self, part: str, who: str = "") -> bool:
        """Whether it is left out now."""
        return bool(self._off_until) and self._clock() < self._off_until.get((part, who), 0.0)

    def note_time(self, part: str, who: str, *, is_slow: bool) -> None:
        """Count a lookup that has ended."""
        if not is_slow and not self._slow:
            return
        # One request may ask a part several times: a quick answer makes up for a tenth of a slow one, not for all.
        score = self._slow.pop((part, who), 0.0) + (1.0 if is_slow else -_FORGIVEN)
        if score > 0:
            self._slow[part, who] = score
            _keep_last(self._slow)
        if score >= _SLOW_IN_A_ROW:
            _log.error("What was learned takes too long to look up: %s is left out for five minutes.", part)
            self._switch_off(part, who)

    def fail(self, part: str, who: str = "") -> None:
        """Leave a part out that has just raised what is being handled."""
        _log.exception("What was learned is of no use: %s is left out for five minutes.", part)
        self._switch_off(part, who)

    def _switch_off(self, part: str, who: str) -> None:
        self._slow.pop((part, who), None)
        self.faults[part] = self.faults.get(part, 0) + 1
        self._off_until.pop((part, who), None)
        self._off_until[part, who] = self._clock() + _OFF_SECONDS
        _keep_last(self._off_until)


class Watch:
    """Lookups of one request in a row: the end of each is the beginning of the next, so that the clock is read once."""

    def __init__(self, barrier: Barrier, who: str, spent: Callable[[], float]) -> None:
        self._barrier = barrier
        self._who = who
        self._spent = spent
        self._at = spent()
        self.is_clean = True
        """Whether every part that was asked has answered in time."""

    def ask(self, part: str, look: Callable[[], _T], otherwise: _T) -> _T:
        """As `Barrier.ask`."""
        if self._barrier.is_off(part, self._who):
            self.is_clean = False
            return otherwise
        try:
            found = look()
        except Exception:  # noqa: BLE001 - whatever was learned, the request is worth more
            self._barrier.fail(part, self._who)
            self.is_clean = False
            return otherwise
        before, self._at = self._at, self._spent()
        is_slow = self._at - before > _SLOW_SECONDS
        self.is_clean = self.is_clean and not is_slow
        self._barrier.note_time(part, self._who, is_slow=is_slow)
        return found


def _keep_last(some: dict[tuple[str, str], Any]) -> None:
    while len(some) > _KEPT:
        del some[next(iter(some))]
