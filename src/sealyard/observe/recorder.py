"""One execution, whatever its form: room in the store, its beginning, its calls, its status, its end, and the flush.

Code, analyses, single calls, rehearsals and relayed calls all go through `Recorder.open`. Observers see what happens in
an execution. The journal and the audit log observe every execution and are on disk before its answer; the other
observers are in `sinks`. A new one is a class derived from `RunObserver` and a line in `Observer.sinks`.
"""

import asyncio
import contextlib
import hashlib
import logging
import re
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Self

import msgspec

from sealyard.broker import Broker, FinishedCall, OpenCall, Passage
from sealyard.broker.upstreams import OnProgress, Response
from sealyard.errors import HelperFailed, InvalidRequest, SealyardError, StoreError
from sealyard.observe.visits import Visit
from sealyard.privacy import Guard
from sealyard.sandbox.pool import RunClock
from sealyard.store import Store
from sealyard.values.access import AuditEntry, Grant
from sealyard.values.documents import is_large
from sealyard.values.facts import Assessed, CallEvidence, UseCase
from sealyard.values.runs import (
    CALL_VALUE_BYTES,
    CallRecord,
    ExecutionRecord,
    Form,
    OnOutput,
    Outcome,
    RecordStatus,
)
from sealyard.values.tools import ToolSpec
from sealyard.versioning import Plan

_log = logging.getLogger(__name__)


_SHORT_CODE = 1_000
"""Characters of code that are scanned at once: a timer would cost more."""
_CALLS_KEPT = 8
"""Calls that an explanation of a failure looks at."""
_EVIDENCE_BYTES = 256 << 10
"""Of an answer that is kept for it: what is larger is not decoded in the gateway."""
_ERROR_CHARACTERS = 2_000
"""Of an error that is kept for it."""
_POLLS = 3
"""The same call this often is polling."""
_ASKS_COUNTED = 1_000
"""Different calls of a run that are counted: code may make any number of them."""
_POLLED_CHARACTERS = 10_000
"""Of arguments that are compared; nobody polls with longer ones."""
_QUIET_SECONDS = 0.2  # after which a line that may still go on is taken for complete
_SENT_CHARACTERS = 256 << 10
"""At once: the last part of what was printed before anyone listened."""
_LAST_CHARACTERS = 400  # of output, which are scanned in no time
_FIRST_CHARACTERS = 80
"""Of texts left to scan when no time is left: few enough to take none."""
_LEFT_OUT = "left out: there was no time left to look through it for private values"
_CUT_MARK = re.compile(r"… \(\+[\d,]+ characters?\)\Z")
_RAGGED_CHARACTERS = 200
"""Where a text was cut before it was scanned, its end may be the beginning of a private value."""


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The record of how an execution ended, the same for every observer."""

    status: RecordStatus
    outcome: Outcome | None
    """Concealed; None if the run has none."""
    text: str
    """The text sent to the agent."""
    ended_at: float
    """Seconds since the epoch."""
    seconds: float
    """Without those that people took to decide."""


class RunObserver:
    """Sees one execution, made when that begins. It must not wait."""

    is_durable: ClassVar[bool] = False
    """True if its record of the end must be on disk before the execution is answered.

    The others see the end in the turn of the event loop after the answer.
    """

    def queued(self, is_waiting: bool) -> None:
        """The execution waits for its turn, or its turn has come."""

    def call_started(self, call: OpenCall) -> None:
        """A tool is about to be called."""

    def call_finished(self, call: FinishedCall) -> None:
        """A call is over, and code has its answer."""

    def ended(self, end: RunEnd) -> None:
        """The execution is over. Raises `StoreError` if that cannot be recorded."""


class Tally(RunObserver):
    """Adds up the calls of an execution, and keeps the last of them."""

    def __init__(self) -> None:
        self.calls = 0
        self.bytes_in = 0
        self.tools: set[str] = set()
        self.last_calls: deque[CallEvidence] = deque(maxlen=_CALLS_KEPT)
        """As the code saw them, to explain a failure."""
        self.answer: Response | None = None
        """The last one."""
        self._asked: Counter[tuple[str, int]] = Counter()

    @property
    def is_polling(self) -> bool:
        """True if a tool was called with the same arguments again and again."""
        return bool(self._asked) and self._asked.most_common(1)[0][1] >= _POLLS

    def call_started(self, call: OpenCall) -> None:
        """Count the call."""
        self.calls += 1

    def call_finished(self, call: FinishedCall) -> None:
        """Add the call up."""
        tool, admitted = call.spec.full_name, call.admitted
        self.tools.add(tool)
        if len(self._asked) < _ASKS_COUNTED:
            self._asked[tool, _print_of(call.written)] += 1
        has_answer, error = False, None
        if admitted is not None:
            self.answer = admitted.answer
            self.bytes_in += admitted.size_bytes
            has_answer = len(admitted.encoded) <= _EVIDENCE_BYTES
        else:
            self.bytes_in += call.answer_bytes  # as relayed: nothing admits such an answer
            error = "CancelledError: " if call.error is None else f"{type(call.error).__name__}: {call.error}"
        self.last_calls.append(
            CallEvidence(
                number=call.number,
                tool=tool,
                version=call.spec.version,
                arguments=call.written,
                answer=admitted.answer.value if admitted is not None and has_answer else None,
                has_answer=has_answer,
                error=None if error is None else error[:_ERROR_CHARACTERS],
                started_at=call.started_at,
                seconds=call.seconds + call.waited_seconds,
                answer_bytes=call.answer_bytes,
            )
        )


def _sees(observer: RunObserver, event: str) -> bool:
    """True if the observer handles an event: a run may make thousands of calls."""
    return getattr(type(observer), event) is not getattr(RunObserver, event)


Sink = Callable[["Run"], RunObserver]
"""Makes the observer of one execution."""


class Run:
    """One execution from its beginning to its end."""

    def __init__(
        self,
        record: ExecutionRecord,
        grant: Grant,
        guard: Guard,
        *,
        form: Form,
        wrote: str,
        code_characters: int,
        visit: Visit | None,
        sinks: Sequence[Sink],
        **passing: Any,
    ) -> None:
        self.record = record
        """The journal's record of the execution; complete once it is over."""
        self.grant = grant
        self.guard = guard
        self.form: Form = form
        self.wrote = wrote
        """The text of the agent's request."""
        self.code_characters = code_characters
        self._visit = visit
        self.clock = RunClock()
        self.output = OutputStream(guard)
        """Passes its output to listeners."""
        self.assessed: Assessed | None = None
        """The forecast for the run."""
        self.skills = 0
        """The number of saved skills it used."""
        self.tally = Tally()
        self.status: RecordStatus = "cancelled"
        self.outcome: Outcome | None = None
        self.text = ""
        """The text sent to the agent."""
        self.queued_seconds = 0.0
        """The time that it waited for its turn."""
        self._queued_at: float | None = None
        self._started = time.perf_counter()
        self.observers: tuple[RunObserver, ...] = ()
        self.observers = (self.tally, *(sink(self) for sink in sinks))
        self.passage = Passage(
            grant,
            guard,
            pause=self.clock.paused,
            on_start=[each.call_started for each in self.observers if _sees(each, "call_started")],
            on_finish=[each.call_finished for each in self.observers if _sees(each, "call_finished")],
            **passing,
        )

    @property
    def id(self) -> str:
        """The id of the execution."""
        return self.grant.execution_id

    @property
    def visit(self) -> Visit:
        """The visit that it is part of. Rehearsals have none, nor have calls of a gateway of relays alone."""
        assert self._visit is not None
        return self._visit

    @property
    def use_case(self) -> UseCase:
        """The kind of work that it is an example of."""
        if self.form in ("call", "proxy"):
            return "direct"
        if self.form == "analysis":
            return "analysis"
        if self.skills:
            return "skill_reuse"
        if self.tally.is_polling:
            return "polling"
        if len(self.tally.tools) > 1:
            return "workflow"
        return "filtering" if self.tally.tools else "compute"

    def queued(self, is_waiting: bool) -> None:
        """Note that it waits for its turn, or that its turn has come."""
        if is_waiting:
            self._queued_at = time.perf_counter()
        else:
            self._note_queued()
        for observer in self.observers:
            observer.queued(is_waiting)

    def answer(self) -> Response:
        """The answer to its only call, as code would get it."""
        self.passage.settle()
        assert self.tally.answer is not None
        return self.tally.answer

    async def conceal(self, outcome: Outcome, *, seconds: float | None = None) -> Outcome:
        """The outcome as shown outside the sandbox.

        Parts that cannot be scanned within `seconds` are left out: then there is the end of what was printed and the
        beginning of each word about a failure, which take no time.
        """
        guard = self.guard
        is_bare = not (outcome.output or outcome.notes) and outcome.failure is None and outcome.spill is None
        if guard.is_off or (is_bare and guard.shows_plain(outcome.result)):
            return outcome
        try:
            async with asyncio.timeout(seconds):
                return await _concealed(outcome, guard)
        except TimeoutError:
            return await _concealed(_shortened(outcome), guard)

    def finish(self, status: RecordStatus, text: str, outcome: Outcome | None = None) -> None:
        """Note the result. `outcome` is concealed."""
        self.status, self.text, self.outcome = status, text, outcome

    def end(self) -> RunEnd:
        """The record of the end, which is now."""
        self._note_queued()  # if it waited until its end
        seconds = max(0.0, time.perf_counter() - self._started - self.clock.still_seconds)
        return RunEnd(status=self.status, outcome=self.outcome, text=self.text, ended_at=time.time(), seconds=seconds)

    def _note_queued(self) -> None:
        if self._queued_at is not None:
            self.queued_seconds = time.perf_counter() - self._queued_at
            self._queued_at = None


async def _concealed(outcome: Outcome, guard: Guard) -> Outcome:
    result, output = outcome.result, outcome.output
    if guard.is_holding_values:
        result = _without_ragged_ends(result) if outcome.spill is not None else result
        if not outcome.ok and not output.endswith("\n"):  # it was ended in the middle of a line
            output = output[: max(output.rfind("\n") + 1, len(output) - _RAGGED_CHARACTERS)]
    failure, spill = outcome.failure, outcome.spill
    texts = None
    if failure is not None:
        texts = {name: getattr(failure, name) for name in _FAILURE_TEXTS}
        texts = _without_ragged_ends(texts) if guard.is_holding_values else texts
    shape = "" if spill is None else spill.shape
    given = [result, output, texts, shape, list(outcome.notes)]
    result, output, texts, shape, notes = await guard.door.conceal_each(given)
    return msgspec.structs.replace(
        outcome,
        result=result,
        output=output,
        failure=None if failure is None else msgspec.structs.replace(failure, **texts),
        spill=None if spill is None else msgspec.structs.replace(spill, shape=shape),
        notes=tuple(notes),
    )


def _shortened(outcome: Outcome) -> Outcome:
    """The rest of an outcome that takes too long to scan."""
    output = outcome.output
    if len(output) > _LAST_CHARACTERS:
        # Not in the middle of a line: the second half of something private is not known alone.
        start = output.find("\n", len(output) - _LAST_CHARACTERS) + 1
        output = f"… ({_LEFT_OUT})\n" + (output[start:] if start else "")
    failure = outcome.failure
    if failure is not None:
        words = {name: (getattr(failure, name) or "")[:_FIRST_CHARACTERS] for name in _FAILURE_TEXTS}
        failure = msgspec.structs.replace(failure, **words)
    spill = outcome.spill and msgspec.structs.replace(outcome.spill, shape="")
    return msgspec.structs.replace(
        outcome, result=None, output=output, failure=failure, spill=spill, notes=(f"Its value was {_LEFT_OUT}.",)
    )


_FAILURE_TEXTS = ("type", "message", "source_line", "traceback", "hint")


def _without_ragged_ends(value: Any) -> Any:
    """`value`, a preview, whose cut texts end a little earlier."""
    if isinstance(value, dict):
        return {key: _without_ragged_ends(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_ragged_ends(item) for item in value]
    if isinstance(value, str) and (mark := _CUT_MARK.search(value)):
        return value[: max(0, mark.start() - _RAGGED_CHARACTERS)] + mark[0]
    return value


class Recorder:
    """Opens executions, and records each from its beginning to its end."""

    def __init__(self, store: Store, broker: Broker, sinks: Sequence[Sink] = ()) -> None:
        """`sinks` are those of executions in a visit."""
        self._store = store
        self.broker = broker
        self._sinks = sinks
        self._records: list[Sink] = [partial(each, store) for each in (JournalSink, AuditSink, TraceSink)]

    @contextlib.asynccontextmanager
    async def open(
        self,
        grant: Grant,
        guard: Guard,
        *,
        form: Form,
        wrote: str = "",
        code: str = "",
        context: dict[str, Any] | None = None,
        catalog_version: str = "",
        visit: Visit | None = None,
        background: bool = False,
        begin_seconds: float | None = None,
        sinks: Sequence[Sink] = (),
        own: Mapping[str, Callable[[dict[str, Any]], Awaitable[Any]]] | None = None,
        find: Callable[[str], tuple[ToolSpec, Plan | None]] | None = None,
        recorded: Callable[[str, dict[str, Any]], Awaitable[Any]] | None = None,
        on_progress: OnProgress | None = None,
    ) -> AsyncIterator[Run]:
        """Open an execution, which ends with the block. The caller notes its result with `Run.finish`.

        It is always recorded, and on disk when the block is left, by an error too. `sinks` are those of this
        execution alone. The parameters from `own` on are those of `Passage`.

        Raises:
            InvalidRequest: The code and its context could not be scanned within `begin_seconds`.
            StoreError: It could not be recorded: it was not begun, or its end is not on disk.
        """
        await self._store.room()  # what cannot be recorded is not begun
        try:
            async with asyncio.timeout(begin_seconds if context or len(code) > _SHORT_CODE else None):
                shown_code, shown_context = await guard.door.conceal_each([code, context])
        except TimeoutError:
            raise InvalidRequest(
                f"Looking through the code and its context took longer than the {begin_seconds:g} s that the run has. "
                "Pass less."
            ) from None
        record = ExecutionRecord(
            execution_id=grant.execution_id,
            principal=grant.principal,
            session=grant.session,
            code=shown_code,
            context=shown_context,
            started_at=time.time(),
            catalog_version=catalog_version,
            background=background,
            form=form,
        )
        self._store.record_start(record)
        code_sha256 = hashlib.sha256(shown_code.encode("utf-8", "surrogatepass")).hexdigest()
        body = {"code_sha256": code_sha256, "context": shown_context, "catalog_version": catalog_version}
        self._store.audit(AuditEntry.of(grant, "execution.start", body))
        run = Run(
            record,
            grant,
            guard,
            form=form,
            wrote=wrote,
            code_characters=len(code) if form == "code" else 0,
            visit=visit,
            sinks=[*self._records, *(self._sinks if visit is not None else ()), *sinks],
            own=own,
            find=find,
            recorded=recorded,
            on_progress=on_progress,
        )
        try:
            yield run
        except Exception as error:
            shown = (
                f"{type(error).__name__}: {error}" if isinstance(error, SealyardError) else ""
            )  # no internal details
            run.finish("failed" if form in ("call", "proxy") else "broken", shown)
            await self._end(run)
            raise
        except BaseException:
            end, flushing = self._conclude(run)
            _leave(flushing)
            self._show_later(run, end)
            raise
        await self._end(run)

    async def _end(self, run: Run) -> None:
        """End an execution, and wait until that is on disk. Raises `StoreError`."""
        end, flushing = self._conclude(run)
        try:
            await flushing
        finally:
            self._show_later(run, end)

    def _conclude(self, run: Run) -> "tuple[RunEnd, asyncio.Future[None]]":
        """Record the end and start to write it. The future raises `StoreError` if any of that failed."""
        self.broker.approvals.end_run(run.id)
        failures: list[StoreError] = []
        with _collected(failures):
            run.passage.settle()
        end = run.end()
        for observer in run.observers:
            if observer.is_durable:
                with _collected(failures):
                    observer.ended(end)
        flushing: asyncio.Future[None] | None = None
        with _collected(failures):
            flushing = self._store.start_flush()
        if flushing is None or failures:
            _leave(flushing)
            flushing = asyncio.get_running_loop().create_future()
            flushing.set_exception(failures[0])
        return end, flushing

    def _show_later(self, run: Run, end: RunEnd) -> None:
        """Show the end to the other observers in the next turn of the event loop, when the answer is on its way."""
        asyncio.get_running_loop().call_soon(_show_end, run, end)


def _show_end(run: Run, end: RunEnd) -> None:
    for observer in run.observers:
        if not observer.is_durable:
            try:
                observer.ended(end)
            except StoreError:
                _log.warning("The figures of execution %s are not recorded.", run.id, exc_info=True)


def _leave(flushing: "asyncio.Future[None] | None") -> None:
    """Let a flush go on that nobody waits for. If it fails, what it was to write is tried again."""
    if flushing is not None:
        flushing.add_done_callback(lambda done: done.cancelled() or done.exception())


@contextlib.contextmanager
def _collected(failures: list[StoreError]) -> Iterator[None]:
    """Keeps a `StoreError` for later, so that what comes after it is done all the same."""
    try:
        yield
    except StoreError as error:
        failures.append(error)


def _print_of(arguments: dict[str, Any]) -> int:
    """The same for the same arguments, within this process. Large ones, which nobody polls with, are never the same."""
    if is_large(arguments, _POLLED_CHARACTERS):
        return id(arguments)
    try:
        return hash(msgspec.json.encode(arguments, order="sorted"))
    except (TypeError, ValueError, RecursionError):  # which no tool is called with
        return 0


class JournalSink(RunObserver):
    """Writes the calls and the end of an execution into the journal, where its beginning is already."""

    is_durable = True

    def __init__(self, store: Store, run: Run) -> None:
        self._store = store
        self._run = run

    def call_finished(self, call: FinishedCall) -> None:
        """Record the call, with a sample of an answer that is too long for the journal."""
        admitted, size_bytes = call.admitted, call.answer_bytes
        is_kept = size_bytes <= CALL_VALUE_BYTES
        self._store.record_call(
            CallRecord(
                execution_id=call.grant.execution_id,
                number=call.number,
                tool=call.spec.full_name,
                digest=call.spec.digest,
                version=call.spec.version,
                upstream=call.spec.upstream,
                arguments=call.arguments,
                answer=admitted.concealed if admitted is not None and is_kept else None,
                error=call.failure,
                started_at=call.started_at,
                seconds=call.seconds,
                answer_bytes=size_bytes,
                answer_sample=admitted.answer.sample if admitted is not None and not is_kept else None,
            )
        )

    def ended(self, end: RunEnd) -> None:
        """Record the end in the place of the beginning."""
        run = self._run
        run.record = msgspec.structs.replace(run.record, ended_at=end.ended_at, status=end.status, outcome=end.outcome)
        self._store.record_end(run.record)


class AuditSink(RunObserver):
    """Writes the calls and the end of an execution into the audit log."""

    is_durable = True

    def __init__(self, store: Store, run: Run) -> None:
        self._store = store
        self._grant = run.grant

    def call_finished(self, call: FinishedCall) -> None:
        """Record which tool was called with what, and who allowed it."""
        body: dict[str, Any] = {
            "tool": call.spec.full_name,
            "number": call.number,
            "digest": call.spec.digest,
            "version": call.spec.version,
            "arguments": call.arguments,
            "verdict": None if call.decision is None else call.decision.verdict,
            "rule": None if call.decision is None else call.decision.rule,
            "answer_bytes": call.answer_bytes,
            "error": call.failure,
        }
        if call.approval is not None:
            body["approved_by"] = call.approval.by
            body["approved_for"] = call.approval.decision
        self._store.audit(AuditEntry.of(call.grant, "call", body))

    def ended(self, end: RunEnd) -> None:
        """Record how it ended."""
        body: dict[str, Any] = {"status": end.status}
        if (outcome := end.outcome) is not None:
            body["tool_calls"] = outcome.usage.tool_calls
            body["output_bytes"] = outcome.usage.output_bytes
            body["result"] = outcome.result
            if outcome.failure is not None:
                body["failure"] = {"type": outcome.failure.type, "message": outcome.failure.message}
        self._store.audit(AuditEntry.of(self._grant, "execution.end", body))


class TraceSink(RunObserver):
    """Keeps answers that hold nothing private, so that an example of a skill can be recorded from them."""

    def __init__(self, store: Store, run: Run) -> None:
        self._traces = store.traces

    def call_finished(self, call: FinishedCall) -> None:
        """Keep the answer, if it may be."""
        if call.is_traceable and call.admitted is not None:
            self._traces.keep(call.grant.execution_id, call.number, call.admitted.encoded)


class OutputStream:
    """Passes output on to its listeners while code runs, concealed. The sandbox calls `add`.

    Output is scanned only for a listener: until one arrives, it is held back.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._listeners: list[OnOutput] = []
        self._kept: list[str] = []
        """All output so far: the sandbox holds the same texts. Half of a private value would not be found alone."""
        self._is_open = False
        self._is_over = False
        self.last_seconds: float | None = None
        """The time to pass on the last output once the run is over; its result has the rest."""
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self._passing: asyncio.Task[None] | None = None

    def listen(self, listener: OnOutput) -> None:
        """Pass output to `listener` too, from now on."""
        self._listeners.append(listener)

    def open(self) -> None:
        """Pass on the held output and all that follows, if there is a listener."""
        if self._is_open or self._is_over or not self._listeners:
            return
        self._is_open = True
        kept = "".join(self._kept)
        self._kept.clear()
        if kept:
            self.add(kept)

    def add(self, text: str) -> None:
        """Take output of the code."""
        if not self._is_open:
            self._kept.append(text)
            return
        if self._guard.is_off:
            self._send(text)
            return
        if self._passing is None:  # not before: what prints nothing is not waited for
            self._passing = asyncio.create_task(_pass_on(self._pieces, self._guard, self._send))
        self._pieces.put_nowait(text)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        if self._passing is None:
            return
        try:
            if kind is None:
                self._pieces.put_nowait(None)
                await asyncio.wait({self._passing}, timeout=self.last_seconds)
                if self._passing.done():
                    await self._passing
        finally:
            self._passing.cancel()
            await asyncio.wait({self._passing})

    def _send(self, text: str) -> None:
        for listener in self._listeners:
            listener(text[-_SENT_CHARACTERS:])


async def _pass_on(pieces: "asyncio.Queue[str | None]", guard: Guard, listen: OnOutput) -> None:
    """Conceal pieces until a None, or until scanning fails: the run's result has them too."""
    stream, door = guard.stream(), guard.door
    piece: str | None = ""
    is_new = False
    while piece is not None:
        try:
            async with asyncio.timeout(_QUIET_SECONDS if is_new else None):
                piece = await pieces.get()
        except TimeoutError:
            is_new = False
            search = stream.flush()
        else:
            is_new = True
            search = stream.close() if piece is None else stream.add(piece)
        try:
            text = await door.search(search)
        except HelperFailed:
            return
        if text:
            listen(text)
