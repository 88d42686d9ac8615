"""An upstream whose tools are Python functions of this process.

Coroutine functions run on the event loop. Every other function runs in a thread of its own, which cannot be killed: it
keeps its turn until it returns, so that there are never more threads than `concurrent_calls`. The threads are daemons,
because one that hangs must not keep the process alive.
"""

import asyncio
import contextlib
import contextvars
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from sealyard.broker.upstreams.python.author import REPORT, Mark
from sealyard.broker.upstreams.python.description import FunctionTool, describe, encode
from sealyard.broker.upstreams.python.module import ToolModule, read_module
from sealyard.broker.upstreams.server import (
    OnProgress,
    OnTools,
    Progress,
    Response,
    check_sendable,
    to_message,
    with_plain_names,
)
from sealyard.errors import (
    InvalidConfig,
    ToolFailed,
    UnknownTool,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from sealyard.values.access import Grant
from sealyard.values.documents import read_exactly
from sealyard.values.tools import Definition, UpstreamConfig, UpstreamState, UpstreamStatus
from sealyard.wording import COMPLAINT_CHARACTERS, short

_log = logging.getLogger(__name__)

_LARGE_BYTES = 64 << 10
"""Of an answer that is decoded on the event loop, as for other upstreams; a larger one stays JSON."""
_KEPT_PROGRESS = 64  # reports of a thread that wait for the event loop; older ones are dropped
_ENDING_SECONDS = 1.0  # for functions to clean up when the upstream is closed
_T = TypeVar("_T")
_Value = tuple[bytes, Response]
"""A function's value as JSON, and what came with it."""


class Functions:
    """Functions as an upstream: those of the configured module, or those that are added one by one."""

    def __init__(self, config: UpstreamConfig, *, on_tools: OnTools | None = None) -> None:
        """Imports nothing. `on_tools` is called whenever its tools change."""
        self.config = config
        self.on_tools = on_tools
        self._tools: dict[str, FunctionTool] = {}
        self._module: ToolModule | None = None
        self._importing: asyncio.Future[Any] | None = None
        self._error: str | None = None
        self._is_ready = self._is_closed = False
        self._delivered: list[Definition] | None = None
        self._loading, self._delivering = asyncio.Lock(), asyncio.Lock()
        self._slots = asyncio.Semaphore(config.concurrent_calls)
        self._running: dict[asyncio.Future[Any], asyncio.Future[None]] = {}
        """The work of each function that has not ended, and what closing resolves to end the wait for it."""
        self._calls = self._failures = 0

    def add(self, function: Callable[..., Any], mark: Mark | None = None) -> None:
        """Offer a function from the next listing on, in place of one of the same name.

        Raises:
            InvalidRequest: It cannot be a tool; the message says why.
        """
        tool = describe(function, mark)
        self._tools = self._tools | {tool.definition.name: tool}

    def remove(self, name: str) -> None:
        """Offer a function no more. Raises `UnknownTool`."""
        if name not in self._tools:
            raise UnknownTool(f"{self.config.name!r} has no tool {name!r}. It has: {', '.join(self._tools) or 'none'}.")
        self._tools = {key: tool for key, tool in self._tools.items() if key != name}

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
        unwrap: bool = False,
        grant: Grant | None = None,
    ) -> Response:
        """Call a function and return its value. Imports the module if that has not happened.

        Cancelling the call, or letting it time out, cancels a coroutine function; another one runs to its end unseen.

        Raises:
            UnknownTool: The config leaves this tool out.
            InvalidArguments: The arguments cannot be written as JSON.
            UpstreamUnavailable: The module cannot be imported, or the upstream was closed; the call did not happen.
            UpstreamTimeout: The function did not return in time; the call may have happened.
            ToolFailed: The arguments do not fit, the function raised, its value is not JSON, or there is no such tool.
            UpstreamError: The upstream was closed during the call, the answer is too large, or the function raised it.
        """
        if not self.config.allows(tool):
            raise UnknownTool(f"The config of {self.config.name!r} leaves {tool!r} out.")
        encoded = check_sendable(tool, arguments)
        self._calls += 1
        try:
            self._check_open()
            await self._load()
            found = self._find(tool)
            if found is None:
                raise ToolFailed(f"Unknown tool: {tool}")
            seconds = self.config.call_seconds if timeout_seconds is None else timeout_seconds
            return self._respond(found, *await self._turn(found, encoded, seconds, on_progress, grant), unwrap=unwrap)
        except ToolFailed:
            raise
        except UpstreamError:
            self._failures += 1
            raise

    async def refresh(self) -> None:
        """Hand over the tools to `on_tools` if they changed; a module is imported first, again if that failed.

        Raises:
            UpstreamUnavailable: The module cannot be imported, or the upstream was closed.
        """
        self._check_open()
        self._error = None
        await self._load()
        async with self._delivering:
            # Functions that are added meanwhile are handed over too.
            while (on_tools := self.on_tools) is not None and (listed := self._definitions()) != self._delivered:
                await on_tools(self.config.name, list(listed))
                self._delivered = listed

    def status(self) -> UpstreamStatus:
        """Its current state. Its warnings name the functions that are no tools."""
        state: UpstreamState = "ready" if self._is_ready else "starting" if self._importing else "stopped"
        idle = self._idle_patterns()
        said = [
            f"without_tools names {each!r}, which fits none of its tools. Correct it, or take it out." for each in idle
        ]
        return UpstreamStatus(
            name=self.config.name,
            transport=self.config.transport,
            state="stopped" if self._is_closed else "failed" if self._error else state,
            tools=sum(map(self.config.allows, self._tools)) if self._is_ready else 0,
            server=None if self._module is None else self._module.described,
            calls=self._calls,
            failures=self._failures,
            error=self._error,
            warnings=(*(() if self._module is None else self._module.problems), *said),
            idle_patterns=idle,
        )

    async def close(self) -> None:
        """End every running call, and refuse further ones. A function in a thread goes on until it returns."""
        self._is_closed = True
        running = dict(self._running)
        for work, closing in running.items():
            if isinstance(work, asyncio.Task):
                work.cancel()
            if not closing.done():
                closing.set_result(None)
        if running:
            await asyncio.wait(running, timeout=_ENDING_SECONDS)

    # The tools

    def _check_open(self) -> None:
        if self._is_closed:
            raise UpstreamUnavailable(f"{self.config.name!r} was closed.")

    async def _load(self) -> None:
        """Import the module, unless that has happened. Raises `UpstreamUnavailable`."""
        if self.config.module is not None and self._module is None:
            async with self._loading:
                await self._import(self.config.module, self.config.cwd or "")
            if self._module is None:
                raise UpstreamUnavailable(
                    f"{self.config.name!r} is not available, because its module cannot be imported. "
                    "`sealyard tools --status` shows the reason."
                )
        self._is_ready = True

    async def _import(self, module: str, folder: str) -> None:
        if self._module is not None or self._error is not None:
            return
        if self._importing is None:
            self._importing = _in_thread(lambda: read_module(module, folder))
            self._importing.add_done_callback(_retrieve)
        done, _ = await asyncio.wait({self._importing}, timeout=self.config.start_seconds)
        if done:
            self._take(self._importing)
        else:  # which a later listing waits for again
            self._error = (
                f"Importing {module!r} took more than {self.config.start_seconds:g} s. Do less at its import, or raise "
                "start_seconds in the config."
            )

    def _take(self, importing: "asyncio.Future[Any]") -> None:
        self._importing = None
        try:
            self._module = importing.result()
        except InvalidConfig as error:
            self._error = str(error)
            return
        self._tools = dict(self._module.tools)
        for problem in self._module.problems:
            _log.warning("%s: %s", self.config.name, problem)

    def _find(self, name: str) -> FunctionTool | None:
        return self._tools.get(name)

    def _definitions(self) -> list[Definition]:
        return [tool.definition for name, tool in self._tools.items() if self.config.allows(name)]

    def _idle_patterns(self) -> tuple[str, ...]:
        """Patterns of `without_tools` that fit no function, once these are known."""
        if self._module is None:
            return ()
        used = {pattern for name in self._tools for pattern in self.config.against(name)}
        return tuple(pattern for pattern in self.config.without_tools if pattern not in used)

    # One call

    async def _turn(
        self, tool: FunctionTool, encoded: bytes, seconds: float, on_progress: OnProgress | None, grant: Grant | None
    ) -> _Value:
        """The function's value, once it has a turn."""
        name, began_at = self.config.name, asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise UpstreamTimeout(
                f"{name!r} was busy for {seconds:g} s with {self.config.concurrent_calls} other calls; "
                f"{tool.definition.name!r} was not called. Make fewer calls at once."
            ) from None
        progress = None if on_progress is None else Progress(on_progress)
        context = contextvars.copy_context()
        reporter = None if progress is None else _Reporter(progress)
        context.run(REPORT.set, reporter)
        try:
            work = self._start(tool, encoded, grant, context)
        except RuntimeError as error:  # the system has no thread left
            self._slots.release()
            raise UpstreamError(
                f"{tool.definition.name!r} of {name!r} was not called: {error}. Call it later."
            ) from None
        closing = self._running[work] = asyncio.get_running_loop().create_future()
        work.add_done_callback(self._end)
        left = began_at + seconds - asyncio.get_running_loop().time()
        try:
            await asyncio.wait({work, closing}, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
            if closing.done() and (work.cancelled() or not work.done()):
                raise UpstreamError(f"{name!r} was closed during {tool.definition.name!r}, which may have happened.")
            if not work.done():
                raise UpstreamTimeout(
                    f"{name!r} did not answer {tool.definition.name!r} within {seconds:g} s. The call may have "
                    "happened: check before calling again, or give it more time."
                )
            if work.cancelled():  # by itself, which must not look like a cancelled run
                raise ToolFailed(f"{tool.definition.name!r} cancelled itself.")
            value: _Value = work.result()
            if progress is not None:
                await progress.finish()
            return value
        finally:
            if isinstance(work, asyncio.Task):  # a thread cannot be ended
                work.cancel()
            if reporter is not None:
                reporter.end()

    def _start(
        self, tool: FunctionTool, encoded: bytes, grant: Grant | None, context: contextvars.Context
    ) -> "asyncio.Future[_Value]":
        """Begin a call. The future is done when the function has ended."""
        if tool.is_async:
            return asyncio.get_running_loop().create_task(_run_here(tool, encoded, grant), context=context)
        loop = asyncio.get_running_loop()
        return _in_thread(lambda: context.run(_run, tool, encoded, grant, loop))

    def _end(self, work: "asyncio.Future[Any]") -> None:
        """Give the turn of a function that has ended to the next call."""
        del self._running[work]
        self._slots.release()
        _retrieve(work)

    def _respond(self, tool: FunctionTool, encoded: bytes, answer: Response, *, unwrap: bool) -> Response:
        if answer.message:
            return answer
        size = len(encoded) + sum(len(file.content) for file in answer.files)
        if size > self.config.answer_bytes:
            raise UpstreamError(
                f"{tool.definition.name!r} of {self.config.name!r} was called, but its answer of {size:,} bytes is "
                f"larger than {self.config.answer_bytes:,}. Ask for less, or raise answer_bytes in the config."
            )
        if size > _LARGE_BYTES:
            return Response(value=None, message=to_message(encoded, answer.files))
        value = read_exactly(encoded)  # a copy without objects of the host, which nothing would scan
        if unwrap and isinstance(value, dict) and value.keys() == {"result"}:
            value = value["result"]
        return Response(value=value, files=answer.files)


def _retrieve(work: "asyncio.Future[Any]") -> None:
    """Look at the exception of work that nobody may wait for any more: otherwise asyncio would log it."""
    if not work.cancelled():
        work.exception()


async def _run_here(tool: FunctionTool, encoded: bytes, grant: Grant | None) -> _Value:
    """Call a coroutine function. Raises `UpstreamError` for whatever it raises."""
    try:
        return _finished(tool, await tool.function(**tool.bind(encoded, grant)))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise _failure(error) from None  # its own, which must not look like a cancelled run
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - a function may raise anything
        raise _failure(error) from None


def _run(tool: FunctionTool, encoded: bytes, grant: Grant | None, loop: asyncio.AbstractEventLoop) -> _Value:
    """Call any other function, in a thread. Raises `UpstreamError` for whatever it raises."""
    try:
        value = tool.function(**tool.bind(encoded, grant))
        if inspect.isawaitable(value):
            value = asyncio.run_coroutine_threadsafe(_awaited(value), loop).result()
        return _finished(tool, value)
    except BaseException as error:  # noqa: BLE001 - a function may raise anything, and only this call may end by it
        raise _failure(error) from None


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _finished(tool: FunctionTool, value: Any) -> _Value:
    """The value as JSON, with the files that come with it."""
    answer = with_plain_names(value) if isinstance(value, Response) else Response(value=value)
    if answer.message:
        return b"", answer
    try:
        return encode(answer.value), answer
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ToolFailed(
            f"{tool.definition.name!r} answered with something that is not JSON: {error}. Have its author return data."
        ) from None


def _failure(error: BaseException) -> UpstreamError:
    """The type and the words of an exception, which may hold private values: it is not logged."""
    if isinstance(error, UpstreamError):
        return error
    kind = type(error).__name__
    try:
        # An error about a file names a path of this machine.
        words = error.strerror if isinstance(error, OSError) and error.filename is not None else str(error)
    except Exception:  # noqa: BLE001 - its text is code of the author too
        words = ""
    return ToolFailed(short(f"{kind}: {words}" if words else kind, COMPLAINT_CHARACTERS))


def _in_thread(work: Callable[[], _T]) -> "asyncio.Future[_T]":
    """The result of `work` in a thread of its own. Cancelling does not end it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)

    def run() -> None:
        value: Any = None
        failure: BaseException | None = None
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - raised where the result is awaited
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=run, name="sealyard-function", daemon=True).start()
    return done


class _Reporter:
    """Hands progress that any thread reports to the event loop, in order, and none after the call is over."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiting: deque[tuple[float, float | None, str | None]] = deque(maxlen=_KEPT_PROGRESS)
        self._is_called = self._is_over = False

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self._waiting.append((progress, total, message))
        if threading.get_ident() == self._thread:
            self._flush()
        elif not self._is_called:  # one wake-up for many reports
            self._is_called = True
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody listens
                self._loop.call_soon_threadsafe(self._flush)

    def end(self) -> None:
        """Stop reporting."""
        self._is_over = True
        self._progress.stop()

    def _flush(self) -> None:
        self._is_called = False
        while self._waiting:
            report = self._waiting.popleft()
            if not self._is_over:
                self._progress.push(*report)
