"""The time that a run may take, which stands still while a person is asked about one of its calls."""

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterator


class RunClock:
    """The wall clock of one run. Its other limits, such as CPU time, do not stand still with it."""

    def __init__(self) -> None:
        self._holds = 0
        self._since = 0.0
        self._still_seconds = 0.0
        self._left_seconds = 0.0
        self._on_deadline: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.end_by = math.inf
        """The latest end of the run by the loop's clock, if this one never pauses. Set before the start."""
        self.on_change: Callable[[bool], None] | None = None
        """Called with True when it pauses, and with False when it goes on."""

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Hold the clock. It goes on when all holders have let go."""
        self._holds += 1
        if self._holds == 1:
            self._stand()
        try:
            yield
        finally:
            self._holds -= 1
            if not self._holds:
                self._go()

    @property
    def still_seconds(self) -> float:
        """For how long it stood still so far."""
        now = asyncio.get_running_loop().time()
        return self._still_seconds + (now - self._since if self._holds else 0.0)

    def start(self, seconds: float, on_deadline: Callable[[], None]) -> float:
        """Call `on_deadline` after `seconds` of this clock, or at `end_by`; returns the seconds that are left."""
        left = self.end_by + self.still_seconds - asyncio.get_running_loop().time()
        self._left_seconds = max(0.0, min(seconds, left))
        self._on_deadline = on_deadline
        if not self._holds:
            self._set_timer()
        return self._left_seconds

    def stop(self) -> None:
        """Forget the deadline."""
        self._on_deadline = None
        self._cancel_timer()

    def _stand(self) -> None:
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        if self._timer is not None:
            self._left_seconds = max(0.0, self._timer.when() - self._since)
            self._cancel_timer()
        if self.on_change is not None:
            self.on_change(True)

    def _go(self) -> None:
        self._still_seconds += asyncio.get_running_loop().time() - self._since
        if self._on_deadline is not None:
            self._set_timer()
        if self.on_change is not None:
            self.on_change(False)

    def _set_timer(self) -> None:
        assert self._on_deadline is not None
        self._timer = asyncio.get_running_loop().call_later(self._left_seconds, self._on_deadline)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
