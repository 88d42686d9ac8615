"""The requests of agents, and executions in the background: start them, read their state and result, cancel them."""

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Literal

import msgspec

from sealyard.errors import SealyardError, UnknownExecution
from sealyard.values.runs import ExecutionRecord, ExecutionState, Result

_KEPT = 256  # finished executions of one principal whose result is kept; the journal has all results
_SHOWN_CHARACTERS = 4_000  # at the end of a background run's output
_LOOK_SECONDS = 5.0  # for which a caller waits for the end by default


class ExecuteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's request to run code."""

    code: str
    language: str = "python"
    context: dict[str, Any] | None = None
    session: str | None = None
    timeout_seconds: float | None = None
    timeout: float | None = None
    """Another name of `timeout_seconds`."""
    isolation_level: str | None = None
    """A stricter level than that of the principal, for this run alone."""
    form: Literal["code", "analysis"] = "code"
    """`analysis`: sealyard wrote the code, and its context is the request."""


class AnalyzeRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question about some rows."""

    analysis_type: str
    """`filter`, `aggregate`, `transform`, `validate` or `statistics`."""
    data: Any = None
    """The rows."""
    source: dict[str, Any] | None = None
    """The place of the rows, without `data`: `{"workspace": path}`, or `{"tool": name, "arguments": {…}}`."""
    parameters: dict[str, Any] = {}
    session: str | None = None
    timeout_seconds: float | None = None
    timeout: float | None = None
    """Another name of `timeout_seconds`."""
    isolation_level: str | None = None
    """A stricter level than that of the principal, for this run alone."""


class Execution:
    """One execution as it happens."""

    def __init__(
        self, request: ExecuteRequest, principal: str, *, background: bool = False, execution_id: str | None = None
    ) -> None:
        self.id = execution_id or secrets.token_hex(8)
        self.request = request
        self.principal = principal
        self.background = background
        self.recorded = asyncio.Event()
        """Set when the journal has the execution."""
        self.record: ExecutionRecord | None = None
        """Its record in the journal, after its end."""
        self.is_queued = False
        """True while it waits for its turn."""
        self.task: asyncio.Task[Result] | None = None
        self.part: Executions | None = None
        """The part of the gateway that runs it in the background."""
        self._output: list[str] = []
        self._characters = 0

    def on_output(self, text: str) -> None:
        """Keep the end of what the code prints."""
        self._output.append(text)
        self._characters += len(text)
        while self._characters - len(self._output[0]) > _SHOWN_CHARACTERS:
            self._characters -= len(self._output.pop(0))

    @property
    def output(self) -> str:
        """The end of the output so far."""
        return "".join(self._output)[-_SHOWN_CHARACTERS:]


_Work = Callable[[Execution], Coroutine[Any, Any, Result]]


class Executions:
    """The background executions of one gateway. `run` runs one."""

    def __init__(self, run: _Work, known: "OrderedDict[str, Execution] | None" = None) -> None:
        """`known` are those of the whole gateway, for a part of it that answers about its own alone."""
        self.run = run
        self._is_whole = known is None
        self._known: OrderedDict[str, Execution] = OrderedDict() if known is None else known

    def part(self, run: _Work) -> "Executions":
        """Those of a part of the gateway, which the whole knows too."""
        return Executions(run, self._known)

    def handle(self, request: ExecuteRequest, *, principal: str) -> Execution:
        """A handle of an execution in the foreground, for a caller that wants its id and its record."""
        return Execution(request, principal)

    async def start(
        self, request: ExecuteRequest, *, principal: str, execution_id: str | None = None
    ) -> ExecutionState:
        """Begin, and return when the journal has the execution. `execution_id` must be new.

        Raises:
            InvalidRequest: The request is invalid.
            QueueFull: Too many runs wait for their turn.
        """
        execution = Execution(request, principal, background=True, execution_id=execution_id)
        execution.part = self
        execution.task = asyncio.create_task(self.run(execution))
        self._known[execution.id] = execution
        recorded = asyncio.create_task(execution.recorded.wait())
        try:
            await asyncio.wait({execution.task, recorded}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            execution.task.cancel()
            raise
        finally:
            recorded.cancel()
            if not execution.recorded.is_set():
                self._known.pop(execution.id, None)
        if not execution.recorded.is_set():
            await execution.task  # raises the fault of the request
        self._forget_old(principal)
        return self.state(execution.id, principal=principal)

    def state(self, execution_id: str, *, principal: str) -> ExecutionState:
        """The current state. Raises `UnknownExecution`, also for an execution of another principal."""
        execution = self._get(execution_id, principal)
        task = execution.task
        assert task is not None
        if not task.done():
            state: Literal["queued", "running"] = "queued" if execution.is_queued else "running"
            return ExecutionState(execution_id=execution_id, state=state, output=execution.output)
        if task.cancelled():
            return ExecutionState(execution_id=execution_id, state="cancelled", output=execution.output)
        error = task.exception()
        if error is not None:
            if not isinstance(error, SealyardError):
                raise error
            return ExecutionState(execution_id=execution_id, state="failed", error=str(error))
        return ExecutionState(execution_id=execution_id, state="done", result=task.result())

    async def look(self, execution_id: str, *, principal: str, seconds: float = _LOOK_SECONDS) -> ExecutionState:
        """The state at its end, or after `seconds`, so that callers need not poll often."""
        task = self._get(execution_id, principal).task
        assert task is not None
        await asyncio.wait({task}, timeout=seconds)
        return self.state(execution_id, principal=principal)

    async def cancel(self, execution_id: str, *, principal: str) -> ExecutionState:
        """Kill it and return its state. A finished execution stays unchanged."""
        task = self._get(execution_id, principal).task
        assert task is not None
        task.cancel()
        await asyncio.wait({task})
        return self.state(execution_id, principal=principal)

    async def close(self) -> None:
        """Cancel all executions."""
        tasks = [each.task for each in self._known.values() if each.task is not None and not each.task.done()]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError, SealyardError):
                await task

    def _get(self, execution_id: str, principal: str) -> Execution:
        execution = self._known.get(execution_id)
        is_own = execution is not None and (self._is_whole or execution.part is self)
        if execution is None or not is_own or execution.principal != principal:
            raise UnknownExecution(f"No execution {execution_id!r} is known. Start one with background=true.")
        return execution

    def _forget_old(self, principal: str) -> None:
        """Drop old executions of this principal only, so that nobody can push out another's unread results."""
        over = [each.id for each in self._known.values() if _is_over(each) and each.principal == principal]
        for execution_id in over[: max(0, len(over) - _KEPT)]:
            del self._known[execution_id]


def _is_over(execution: Execution) -> bool:
    return execution.task is not None and execution.task.done()
