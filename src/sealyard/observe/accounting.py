"""Counts tokens exactly, in a thread of its own: the tokenizer is compiled, and other threads run meanwhile.

Answers of tools that cannot be counted because too much waits are left out of the figures, and their bytes are reported
beside them. What the agent wrote and was sent is little, and left out only when twice as much waits: else the savings
would be made to look larger.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from sealyard.catalog import Recent
from sealyard.metrics import tokens
from sealyard.values.facts import Fact, Tokens, UseCase
from sealyard.values.tools import ToolSpec

_log = logging.getLogger(__name__)

_WAITING_BYTES = 32 << 20  # of text that waits to be counted; answers beyond it are not counted
_GATHER_SECONDS = 1.0  # texts wait for others: by then the answer is sent, and the facts of a batch are one write
_CLOSE_SECONDS = 5.0  # for the rest of the answers when the gateway ends
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

    def skip(self, size_bytes: int) -> None:
        """Note bytes that are not counted."""
        self.uncounted_bytes += size_bytes

    def to_fact(self) -> Tokens:
        """The bill as a fact of the journal."""
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
        self._thread = ThreadPoolExecutor(1, "sealyard-tokens")
        self._gathered: list[Callable[[], Fact | None]] = []
        self._gathered_bytes = 0
        self._waiting_bytes = 0
        self._waking: asyncio.TimerHandle | None = None
        self._batches: set[asyncio.Future[list[Fact]]] = set()
        self._definitions: Recent[str, int] = Recent(_DEFINITIONS_KEPT)
        self._is_hasty = False
        """The end is near: answers are not counted any more."""
        self._is_closed = False

    def add(self, bill: Bill, part: str, *texts: str | bytes) -> None:
        """Add the tokens of texts, each by itself, to a part of the bill. Bytes are UTF-8."""
        size_bytes = sum(map(_size, texts))
        most = _WAITING_BYTES if part == "data" else 2 * _WAITING_BYTES
        if self._waiting_bytes + size_bytes > most:
            self.skip(bill, size_bytes)
        else:
            self._put(lambda: self._count(bill, part, texts), size_bytes)

    def skip(self, bill: Bill, size_bytes: int) -> None:
        """Note bytes that are not counted."""
        self._put(lambda: bill.skip(size_bytes))

    def add_definitions(self, bill: Bill, specs: Iterable[ToolSpec]) -> None:
        """Add what the definitions of tools would cost if all were in the context. `specs` must not change."""
        self._put(lambda: self._count_definitions(bill, specs))

    def close_bill(self, bill: Bill) -> None:
        """Record the bill once all that was added to it is counted."""
        self._put(bill.to_fact)

    async def settled(self) -> None:
        """Wait until all that was added so far is counted and recorded."""
        self._start_batch()
        if self._batches:
            await asyncio.wait(self._batches)

    async def close(self) -> None:
        """Count what waits, for a moment, and record all bills; answers that are left are uncounted bytes then."""
        if self._is_closed:
            return
        self._start_batch()
        if self._batches:  # the time to load the vocabulary is not time to count
            await asyncio.to_thread(tokens.load)
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.settled()
        except TimeoutError:
            _log.warning("Not all tokens were counted before the gateway closed; the figures are lower by that.")
            self._is_hasty = True
            await self.settled()
        self._is_closed = True
        await asyncio.to_thread(self._thread.shutdown)

    def _put(self, work: Callable[[], Fact | None], size_bytes: int = 0) -> None:
        if self._is_closed:
            return
        self._gathered.append(work)
        self._gathered_bytes += size_bytes
        self._waiting_bytes += size_bytes
        if self._waking is None:
            self._waking = self._loop.call_later(_GATHER_SECONDS, self._start_batch)

    def _start_batch(self) -> None:
        if self._waking is None:
            return
        self._waking.cancel()
        self._waking = None
        batch = self._loop.run_in_executor(self._thread, _carry_out, self._gathered)
        self._batches.add(batch)
        batch.add_done_callback(partial(self._end_batch, self._gathered_bytes))
        self._gathered, self._gathered_bytes = [], 0

    def _end_batch(self, size_bytes: int, batch: "asyncio.Future[list[Fact]]") -> None:
        self._batches.discard(batch)
        self._waiting_bytes -= size_bytes
        for fact in batch.result():
            self._record(fact)

    # In the thread

    def _count(self, bill: Bill, part: str, texts: Sequence[str | bytes]) -> None:
        for text in texts:
            total = 0
            for count in tokens.count_slowly(text.decode("utf-8", "replace") if isinstance(text, bytes) else text):
                if self._is_hasty and part == "data":
                    bill.skip(_size(text))
                    break
                total += count
            else:
                bill.counted[part] += total

    def _count_definitions(self, bill: Bill, specs: Iterable[ToolSpec]) -> None:
        for spec in specs:
            known = self._definitions.find(spec.digest)
            if known is None:
                known = tokens.count(definition_text(spec))
                self._definitions.put(spec.digest, known)
            bill.counted["definitions"] += known


def _carry_out(gathered: Sequence[Callable[[], Fact | None]]) -> list[Fact]:
    """Count in order; returns the facts of the bills that were closed."""
    facts = []
    for work in gathered:
        try:
            fact = work()
        except Exception:  # noqa: BLE001 - one text that cannot be counted must not be the last one
            _log.exception("A text could not be counted.")
        else:
            facts += [] if fact is None else [fact]
    return facts


def _size(text: str | bytes) -> int:
    """The size of a text as UTF-8."""
    return len(text if isinstance(text, bytes) or text.isascii() else text.encode("utf-8", "surrogatepass"))


def definition_text(spec: ToolSpec) -> str:
    """A tool as a plain MCP server lists it to a model."""
    return tokens.definition_text(spec.full_name, spec.description, spec.input_schema)
