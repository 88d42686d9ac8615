"""Slots: the number of runs at once, and the order of those that wait.

Every run belongs to an owner, the principal that requested it. Owners share the slots by their weights: the next slot
goes to the owner that has the fewest for its weight. A few slots stay free for owners that have less than their share,
so that one which comes to a busy gateway need not wait for the end of another owner's run.
"""

import asyncio
import contextlib
import math
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from sealyard.errors import InvalidRequest, OwnQueueFull, QueueFull
from sealyard.sandbox.worker import RunClock

# Chosen, not measured, unless a reason is given.
_RESERVED_SHARE = 8  # one slot in eight stays free: 4 of 32, enough for a few owners to come at once; at least one
_NICE_STEP = 1.25  # what one step of niceness means to the kernel: a share of the processor smaller by this factor
_LONGEST_RETRY_SECONDS = 60.0  # of the advice to a refused caller: a longer wait would leave free slots unused
_FIRST_GUESS_SECONDS = 1.0  # of how long a run takes, before one has ended
_CALL_SECONDS = 0.004
"""The least time between two calls of an owner that gives way: a few times what one takes on the event loop."""
_START_SECONDS = 0.03
"""The least time between two starts of its runs, unless a run is over sooner: then the pause is as long as the run."""
_LATELY_SECONDS = 1.0
"""The time for which others give way to an owner after its last activity: its next run may follow soon."""
_MEMORY = 0.1  # the share of the newest run in the mean duration, so that the last twenty or so decide
_OTHERS_WEIGHT = 2  # all runs of one owner together then weigh about half as much as the only run of another

_LEAST = {"size": 0, "running": 1, "queue": 0, "queue_each": 0, "recycle_after": 1, "sessions": 0, "idle_bytes": 0}


class PoolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of workers that wait, run and live."""

    size: int = 2
    """Workers kept waiting."""
    running: int = 32
    """Runs at once; more wait their turn, before their deadline starts."""
    queue: int = 2_000
    """Runs of all owners that may wait for their turn; one more is refused."""
    queue_each: int = 500
    """Runs of one owner that may wait for their turn; one more is refused."""
    weights: Mapping[str, float] = {}
    """Owners that are known to come, and the weight by which each shares the turns; 1 for all others."""
    recycle_after: int = 10_000
    """Forks after which the zygote is executed afresh."""
    sessions: int = 64
    """Workspaces that stay open in memory while nobody runs in them; the files of others are put on disk."""
    idle_bytes: int = 1 << 30
    """Bytes of idle sessions on disk. Beyond it, the oldest sessions of the owner with the most are deleted."""
    idle_folder: Path | None = None
    """Their folder; by default below the temporary directory."""

    def __post_init__(self) -> None:
        for field, low in _LEAST.items():
            if getattr(self, field) < low:
                raise InvalidRequest(f"{field} of the pool is {getattr(self, field)!r}. Give at least {low}.")


class _Owner:
    """The runs of one principal."""

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.runs = 0
        """Its runs, whether they hold a slot, wait for one or have lent theirs."""
        self.active = 0
        """Its runs that hold a slot."""
        self.served = 0
        """The number of its last slot, in the count of all slots given out."""
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.calls = _Lane(_CALL_SECONDS)
        self.starts = _Lane(_START_SECONDS)


class _Lane:
    """The next steps of one owner's runs on the event loop: see `Slots.step`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.free_at = 0.0
        """The time when the next step may be done."""
        self.last: object = None
        self.timer: asyncio.TimerHandle | None = None


class Slot:
    """The slot of one run, from the request until the run is over: waited for, held, or lent."""

    def __init__(self, slots: "Slots", owner: str) -> None:
        self._slots = slots
        self.owner = owner
        self.nice = 0
        """The nice value of its worker beside those of other owners, set when it gets its slot."""
        self.is_first = True
        """True if its owner had no other run under way when it got its slot."""
        self.is_light = False
        """True if this is the only run of its owner while several owners are known."""
        self.on_wait: Callable[[bool], None] = lambda is_waiting: None
        """Called with True when it has to wait, and with False when it no longer does."""

    def hold(self, clock: RunClock) -> contextlib.AbstractAsyncContextManager[None]:
        """Wait for the slot and hold it. While `clock` stands still, another run may have it."""
        return self._slots.hold(self, clock)

    async def step(self) -> None:
        """Wait before something that takes time on the event loop: see `Slots.step`."""
        await self._slots.step(self.owner)


class Slots:
    """Gives out the slots of a pool. A run whose clock stands still lends its slot, and takes it back at once.

    At most as many as there are slots are lent at a time: what waits for people must not fill the memory.
    """

    def __init__(self, options: PoolOptions) -> None:
        self._count = options.running
        self._queue = options.queue
        self._queue_each = options.queue_each
        self._lent = 0
        self._served = 0
        self._runs = 0
        self._mean_seconds = _FIRST_GUESS_SECONDS
        self._weights = dict(options.weights)
        self._owners: dict[str, _Owner] = {}
        self._seen: OrderedDict[str, float] = OrderedDict()
        """The time of each owner's last activity, the earliest first, as far as it matters."""
        self._known = set(list(self._weights)[:2])
        """Of those that have or may have runs, as many as it takes to know that there are several."""

    @property
    def queued(self) -> int:
        """The number of runs that wait for a slot."""
        return sum(len(owner.waiting) for owner in self._owners.values())

    @contextlib.contextmanager
    def enter(self, name: str) -> Iterator[Slot]:
        """A slot for a run of an owner, which waits for it by `Slot.hold`.

        Raises:
            OwnQueueFull: This owner has too many runs already.
            QueueFull: All owners together have.
        """
        if len(self._known) < 2:
            self._known.add(name)
        owner = self._owners.get(name)
        if owner is not None and owner.runs >= self._most_of_one + self._queue_each:
            raise OwnQueueFull(
                f"{owner.runs:,} of your runs are under way or wait for their turn, the most that one client may "
                "have. Wait for some of them to end, or cancel some, and try again.",
                retry_seconds=self._retry_seconds(owner.runs),
            )
        if self._runs >= self._count + self._queue:
            raise QueueFull(
                f"The gateway is full: it has {self._runs:,} runs, with those that wait for their turn. Try again "
                "later.",
                retry_seconds=self._retry_seconds(self._runs),
            )
        if owner is None:
            owner = self._owners[name] = _Owner(self._weights.get(name, 1.0))
        owner.runs += 1
        self._note(name)
        self._runs += 1
        try:
            yield Slot(self, name)
        finally:
            owner.runs -= 1
            self._runs -= 1
            if not owner.runs:
                del self._owners[name]
                self._hand_out()  # the shares of the others have grown

    @contextlib.asynccontextmanager
    async def one(self, clock: RunClock, name: str = "") -> AsyncIterator[Slot]:
        """A slot of an owner, held. It raises what `enter` does."""
        with self.enter(name) as slot:
            async with slot.hold(clock):
                yield slot

    @contextlib.asynccontextmanager
    async def hold(self, slot: Slot, clock: RunClock) -> AsyncIterator[None]:
        """Hold a slot once it is free."""
        owner = self._owners[slot.owner]
        await self._take(owner, slot)
        started = time.monotonic()
        is_lent = False

        def on_change(is_still: bool) -> None:
            nonlocal is_lent
            if is_still and self._lent < self._count:
                is_lent = True
                self._lent += 1
                self._give_back(owner)
            elif is_lent:
                is_lent = False
                self._lent -= 1
                owner.active += 1  # more than there are, if another run has the slot by now

        clock.on_change = on_change
        start: object = None
        try:
            start = await self._pass(slot.owner, owner.starts)
            yield
        finally:
            clock.on_change = None
            if start is not None and owner.starts.last is start:
                self._free(slot.owner, owner, owner.starts)  # it is over: the next need not wait for longer
            self._mean_seconds += _MEMORY * (time.monotonic() - started - self._mean_seconds)
            if is_lent:
                self._lent -= 1
            else:
                self._give_back(owner)

    async def step(self, name: str) -> None:
        """Wait before something that takes time on the event loop: a tool call of a run.

        While another owner with fewer runs is active, the steps of this one are spaced out, however many of its runs
        are due: the loop, and the threads that need the interpreter, are free in between. So are the starts of its
        runs.
        """
        lane = self._owners[name].calls
        if len(self._seen) == 1 and name in self._seen and not lane.waiting:  # nobody else was there lately
            self._seen[name] = asyncio.get_running_loop().time()
            return
        await self._pass(name, lane)

    async def _pass(self, name: str, lane: _Lane) -> object:
        """Wait for the earlier steps of a lane. Returns a token of this step; the lane keeps that of its last one."""
        owner, loop = self._owners[name], asyncio.get_running_loop()
        self._note(name)
        if not lane.waiting and not self._gives_way(name, owner):
            lane.last = object()
            lane.free_at = loop.time() + lane.seconds
            return lane.last
        step: asyncio.Future[None] = loop.create_future()
        lane.waiting.append(step)
        if lane.timer is None:
            self._plan(name, owner, lane)
        await step
        return step

    def _note(self, name: str) -> None:
        """Record an owner's activity, and drop owners without any lately."""
        now = asyncio.get_running_loop().time()
        self._seen[name] = now
        self._seen.move_to_end(name)
        while next(iter(self._seen.values())) < now - _LATELY_SECONDS:
            self._seen.popitem(last=False)

    def _gives_way(self, name: str, owner: _Owner) -> bool:
        """True if an owner with fewer runs was active lately; one with none now would come with one."""
        size, lately = owner.runs / owner.weight, asyncio.get_running_loop().time() - _LATELY_SECONDS
        for each, seen_at in reversed(self._seen.items()):
            if seen_at < lately:
                break
            other = self._owners.get(each)
            runs, weight = (1, self._weights.get(each, 1.0)) if other is None else (other.runs, other.weight)
            if each != name and runs / weight < size:
                return True
        return False

    def _plan(self, name: str, owner: _Owner, lane: _Lane) -> None:
        loop = asyncio.get_running_loop()
        at = max(loop.time(), lane.free_at) if self._gives_way(name, owner) else loop.time()
        lane.timer = loop.call_at(at, self._go_on, name, owner, lane)

    def _free(self, name: str, owner: _Owner, lane: _Lane) -> None:
        """Let the next of a lane begin after as long a pause as this one took: the loop is for others half the time."""
        now = asyncio.get_running_loop().time()
        began = lane.free_at - lane.seconds
        lane.free_at = min(lane.free_at, now + (now - began))
        if lane.timer is not None:
            lane.timer.cancel()
            self._plan(name, owner, lane)

    def _go_on(self, name: str, owner: _Owner, lane: _Lane) -> None:
        lane.timer = None
        step = lane.waiting.popleft()
        if not step.done():  # such as cancelled
            step.set_result(None)
            lane.last = step
            lane.free_at = asyncio.get_running_loop().time() + lane.seconds
        if lane.waiting:
            self._plan(name, owner, lane)

    async def _take(self, owner: _Owner, slot: Slot) -> None:
        if owner.waiting or not self._room()(owner):
            await self._wait(owner, slot)
        else:
            self._start(owner)
        others = owner.active - 1  # which hold a slot beside this run
        slot.is_first = not others
        if self._reserved:
            slot.is_light = slot.is_first
            slot.nice = min(19, round(math.log(1 + _OTHERS_WEIGHT * others / owner.weight, _NICE_STEP)))

    async def _wait(self, owner: _Owner, slot: Slot) -> None:
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        owner.waiting.append(given)
        slot.on_wait(True)
        try:
            await given
        except asyncio.CancelledError:
            if not given.cancelled():
                self._give_back(owner)  # it came too late
            elif given in owner.waiting:
                owner.waiting.remove(given)
            raise
        slot.on_wait(False)

    def _start(self, owner: _Owner) -> None:
        owner.active += 1
        self._served += 1
        owner.served = self._served

    def _give_back(self, owner: _Owner) -> None:
        owner.active -= 1
        self._hand_out()

    def _hand_out(self) -> None:
        while (following := self._next()) is not None:
            given = following.waiting.popleft()
            if not given.done():  # such as cancelled
                given.set_result(None)
                self._start(following)

    def _next(self) -> _Owner | None:
        """The owner of the next slot: with room, the fewest for its weight, and of these the longest ago."""
        waiting = [owner for owner in self._owners.values() if owner.waiting]
        if not waiting:
            return None
        able = filter(self._room(), waiting)
        return min(able, key=lambda owner: (owner.active / owner.weight, owner.served), default=None)

    @property
    def _reserved(self) -> int:
        """Slots that stay free for owners with less than their share; none where only one owner is known."""
        several = len(self._known) > 1 and self._count > 1
        return max(1, self._count // _RESERVED_SHARE) if several else 0

    @property
    def _most_of_one(self) -> int:
        return self._count - self._reserved

    def _room(self) -> Callable[[_Owner], bool]:
        """A test for whether an owner may have one more slot now."""
        reserved, most = self._reserved, self._most_of_one
        # Slots that were lent and taken back may be more than an owner can have; the others do not pay for those.
        free = self._count - sum(min(each.active, most) for each in self._owners.values())
        weights = sum(each.weight for each in self._owners.values()) + (1.0 if reserved else 0.0)  # one more may come

        def has_room(owner: _Owner) -> bool:
            share = max(1.0, self._count * owner.weight / weights)
            return free > reserved or (free > 0 and owner.active < share)

        return has_room

    def _retry_seconds(self, runs: int) -> float:
        """The time until about a tenth of these runs are over."""
        return min(_LONGEST_RETRY_SECONDS, max(1.0, self._mean_seconds * runs / self._count / 10))
