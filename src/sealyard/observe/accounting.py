"""Counts tokens, exactly and out of the way: in a thread, while nothing runs, or in small steps while something does.

A tokenizer in Python reads a megabyte in a second and holds up everything else meanwhile. Answers of tools that cannot
be counted without getting in the way, because too much waits, are left out of the figures and their bytes are reported
beside them. What the agent wrote and was sent is little, and left out only when twice as much waits: else what was
saved would be made to look like more.
"""

import asyncio
import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from sealyard.metrics import tokens
from sealyard.values.facts import Fact, Tokens, UseCase
from sealyard.values.tools import ToolSpec

_log = logging.getLogger(__name__)

_WAITING_BYTES = 32 << 20  # of text that waits to be counted; answers beyond it are not counted
_QUIET_SECONDS = 0.05  # between runs of a busy client; also the longest pause of the counting
_SLICE_SECONDS = 0.002
"""The longest counting between two pauses while something runs."""
_GATHER_SECONDS = 0.1
"""Texts wait this long for others before the thread is woken: by then the answer is sent."""
_HOLD_SECONDS = 1.0
"""Facts wait this long for others: each batch is a write to the disk."""
_CLOSE_SECONDS = 5.0  # for the rest of the counting when the gateway ends
_DEFINITIONS_KEPT = 50_000  # counts of tool definitions in memory


class Bill:
    """The costs of one run, search or visit. They are added up in the thread and become a fact when it is closed."""

    def __init__(self, *, principal: str, session: str, execution_id: str, use_case: UseCase, at: float) -> None:
        self.principal = principal
        self.session = session
        self.execution_id = execution_id
        self.use_case: UseCase = use_case
        self.at = at
        self.counted = dict.fromkeys(("definitions", "data", "surface", "searches", "code", "results"), 0)
        self.uncounted_bytes = 0

    def to_fact(self) -> Tokens:
        """The fact."""
        return Tokens(
            at=self.at,
            principal=self.principal,
            session=self.session,
            execution_id=self.execution_id,
            use_case=self.use_case,
            tokenizer=tokens.TOKENIZER,
            uncounted_bytes=self.uncounted_bytes,
            **self.counted,
        )


class Accounting:
    """The tokens of one gateway. `record` takes the facts, in the event loop."""

    def __init__(self, record: Callable[[Fact], None]) -> None:
        self._record = record
        self._loop = asyncio.get_running_loop()
        self._gathered: list[Callable[[], None]] = []
        self._waking: asyncio.TimerHandle | None = None
        self._waiting: queue.SimpleQueue[list[Callable[[], None]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting_bytes = 0
        self._busy = 0
        self._busy_at = 0.0
        self._hurry = threading.Event()
        self._loaded = threading.Event()
        self._slice_ends = 0.0
        self._definitions: OrderedDict[str, int] = OrderedDict()
        self._settled: list[Fact] = []
        self._settled_at = 0.0
        self._thread: threading.Thread | None = None
        self._is_hasty = False
        """The end is near: answers are not counted any more."""
        self._is_closed = False

    def begin_work(self) -> None:
        """Something runs: counting gets out of its way."""
        self._busy += 1

    def end_work(self) -> None:
        """It is over."""
        self._busy -= 1
        self._busy_at = time.monotonic()

    def add(self, bill: Bill, part: str, *texts: str | bytes) -> None:
        """Add the tokens of texts, each by itself, to a part of the bill. Bytes are UTF-8."""
        size_bytes = sum(map(_size, texts))
        most = _WAITING_BYTES if part == "data" else 2 * _WAITING_BYTES
        with self._lock:
            if self._waiting_bytes + size_bytes > most:
                bill.uncounted_bytes += size_bytes
                return
            self._waiting_bytes += size_bytes
        self._put(lambda: self._count(bill, part, texts, size_bytes))

    def skip(self, bill: Bill, size_bytes: int) -> None:
        """Note what is not counted, from any thread."""
        with self._lock:
            bill.uncounted_bytes += size_bytes

    def add_definitions(self, bill: Bill, specs: Iterable[ToolSpec]) -> None:
        """Add what the definitions of tools would cost if all were in the context. `specs` must not change."""
        self._put(lambda: self._count_definitions(bill, specs))

    def close_bill(self, bill: Bill) -> None:
        """Record it once all that was added is counted."""
        self._put(lambda: self._settle(bill))

    async def settled(self) -> None:
        """Wait until all that was added so far is counted and recorded, without any consideration for others."""
        if not self._wake():
            return
        done: asyncio.Future[None] = self._loop.create_future()
        self._hurry.set()

        def finish() -> None:
            self._hand_over()
            self._call(partial(_finish, done))

        self._waiting.put([finish])
        try:
            await done
        finally:
            self._hurry.clear()

    async def close(self) -> None:
        """Count what waits, for a moment, and record what there is; answers that are left are uncounted bytes then."""
        if not self._wake() or self._thread is None:
            return
        self._hurry.set()
        await asyncio.to_thread(self._loaded.wait)  # what is not left out cannot be counted without the vocabulary
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.settled()
        except TimeoutError:
            _log.warning("Not all tokens were counted before the gateway closed; the figures are lower by that.")
            self._is_hasty = True
            self._hurry.set()
        self._is_closed = True
        self._waiting.put(None)
        await asyncio.to_thread(self._thread.join)

    def _put(self, work: Callable[[], None]) -> None:
        if self._is_closed:
            return
        self._gathered.append(work)
        if self._waking is None:
            self._waking = self._loop.call_later(_GATHER_SECONDS, self._wake)

    def _wake(self) -> bool:
        """Give the gathered texts to the thread; returns False without one."""
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        if self._is_closed:
            return False
        gathered, self._gathered = self._gathered, []
        if gathered:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sealyard-tokens", daemon=True)
                self._thread.start()
            self._waiting.put(gathered)
        return self._thread is not None

    # In the thread

    def _run(self) -> None:
        while True:
            wait = None
            if self._settled:
                wait = 0.0 if self._hurry.is_set() else max(0.0, self._settled_at + _HOLD_SECONDS - time.monotonic())
            try:
                given = self._waiting.get(timeout=wait) if wait is None or wait > 0 else self._waiting.get_nowait()
            except queue.Empty:
                self._hand_over()
                continue
            if given is None:
                break
            for work in given:
                self._work(work)
        self._hand_over()

    def _work(self, work: Callable[[], None]) -> None:
        self._give_way()
        try:
            if not self._loaded.is_set():
                tokens.load()
            work()
        except Exception:  # noqa: BLE001 - one text that cannot be counted must not be the last one
            _log.exception("A text could not be counted.")
        finally:
            self._loaded.set()

    def _hand_over(self) -> None:
        facts, self._settled = self._settled, []
        if facts:
            self._call(partial(self._record_all, facts))

    def _record_all(self, facts: list[Fact]) -> None:
        for fact in facts:
            self._record(fact)

    def _count(self, bill: Bill, part: str, texts: Sequence[str | bytes], size_bytes: int) -> None:
        for text in texts:
            count = self._count_text(text.decode("utf-8", "replace") if isinstance(text, bytes) else text, part)
            if count is None:
                self.skip(bill, _size(text))
            else:
                bill.counted[part] += count
        with self._lock:
            self._waiting_bytes -= size_bytes

    def _count_definitions(self, bill: Bill, specs: Iterable[ToolSpec]) -> None:
        for spec in specs:
            known = self._definitions.get(spec.digest)
            if known is None:
                known = self._definitions[spec.digest] = self._count_text(definition_text(spec)) or 0
                while len(self._definitions) > _DEFINITIONS_KEPT:
                    self._definitions.popitem(last=False)
            bill.counted["definitions"] += known

    def _count_text(self, text: str, part: str = "") -> int | None:
        """The number of tokens; None for an answer once no time is left to count."""
        total = 0
        for count in tokens.count_slowly(text):
            if self._is_hasty and part == "data":
                return None
            total += count
            self._give_way()
        return total

    def _give_way(self) -> None:
        """Go on at once while nothing runs, else a little after every pause."""
        if self._hurry.is_set():
            return
        now = time.monotonic()
        if now < self._slice_ends or (not self._busy and now - self._busy_at > _QUIET_SECONDS):
            return
        self._hurry.wait(_QUIET_SECONDS)
        self._slice_ends = time.monotonic() + _SLICE_SECONDS

    def _settle(self, bill: Bill) -> None:
        if not self._settled:
            self._settled_at = time.monotonic()
        self._settled.append(bill.to_fact())

    def _call(self, work: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:  # the loop is closed, and with it the gateway
            self._is_closed = True
            self._waiting.put(None)


def _size(text: str | bytes) -> int:
    """Its bytes."""
    return len(text if isinstance(text, bytes) or text.isascii() else text.encode("utf-8", "surrogatepass"))


def _finish(done: "asyncio.Future[None]") -> None:
    if not done.done():  # such as cancelled
        done.set_result(None)


def definition_text(spec: ToolSpec) -> str:
    """A tool as a plain MCP server lists it to a model."""
    return tokens.definition_text(spec.full_name, spec.description, spec.input_schema)
