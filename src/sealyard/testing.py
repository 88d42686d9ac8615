"""Test doubles that need no process.

`FakeUpstream` passes the same suite as real servers over stdio and HTTP: `tests/upstreams/test_conformance.py`.
"""

import asyncio
import inspect
import typing
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import msgspec

from sealyard.broker.upstreams import OnProgress, OnTools, Progress, Response, check_sendable
from sealyard.errors import ToolFailed, UpstreamError, UpstreamTimeout, UpstreamUnavailable
from sealyard.values.tools import Definition, UpstreamState, UpstreamStatus
from sealyard.wording import COMPLAINT_CHARACTERS, short

__all__ = ("FakeUpstream", "report_progress")

_PROGRESS: ContextVar[Progress | None] = ContextVar("progress", default=None)
"""Receives the progress of the call in this context."""


def report_progress(progress: float, total: float | None = None, message: str | None = None) -> None:
    """Report the progress of a `FakeUpstream` function to the caller."""
    if (following := _PROGRESS.get()) is not None:
        following.push(progress, total, message)


class FakeUpstream:
    """An upstream whose tools are Python functions of this process, plain or `async`.

    A tool's definition comes from its function's signature and docstring. Its value is the structured content; to
    return files, it returns a `Response`. An exception that it raises is the tool's error. In all else
    it behaves like a server behind `broker.upstreams.mcp.Upstream`.
    """

    def __init__(self, name: str, /, **tools: Callable[..., Any]) -> None:
        self.name = name
        self.tools: dict[str, Callable[..., Any]] = dict(tools)
        self.definitions: dict[str, Definition] = {}
        """Definitions that replace those from signatures."""
        self.is_dead = False
        """Every call and every refresh raises `UpstreamUnavailable`."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        """The received calls."""
        self._on_tools: OnTools | None = None
        self._listed: list[Definition] | None = None
        self._delivered: list[Definition] | None = None
        self._is_closed = False
        self._count = self._failures = 0
        self._running: dict[asyncio.Timeout, asyncio.Future[None]] = {}

    @property
    def on_tools(self) -> OnTools | None:
        """Receives the name and the tools whenever they change. Assigning it reopens the upstream."""
        return self._on_tools

    @on_tools.setter
    def on_tools(self, on_tools: OnTools | None) -> None:
        self._on_tools, self._listed, self._delivered, self._is_closed = on_tools, None, None, False

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
        unwrap: bool = False,
    ) -> Response:
        """Return the function's value. Cancellation and timeout cancel an `async` function.

        Raises:
            InvalidArguments: The arguments cannot be written as JSON.
            UpstreamUnavailable: It is dead or closed.
            UpstreamTimeout: The function did not return in time.
            ToolFailed: The function raised, or no tool has this name.
            UpstreamError: The upstream was closed during the call.
        """
        check_sendable(tool, arguments)
        self._count += 1
        progress = None if on_progress is None else Progress(on_progress)
        before = _PROGRESS.set(progress)
        try:
            self._check_alive()
            self._listed = self._listed or [self._define(name) for name in self.tools]
            self.calls.append((tool, arguments))
            if tool not in self.tools:
                raise ToolFailed(f"Unknown tool: {tool}")
            value = self.tools[tool](**arguments)
            if inspect.isawaitable(value):
                value = await self._within(timeout_seconds, tool, value)
            if progress is not None:
                await progress.finish()
        except ToolFailed:
            raise
        except UpstreamError:
            self._failures += 1
            raise
        except Exception as error:
            raise ToolFailed(short(f"{type(error).__name__}: {error}", COMPLAINT_CHARACTERS)) from error
        finally:
            _PROGRESS.reset(before)
            if progress is not None:
                progress.stop()
        if isinstance(value, Response):
            return value
        return Response(
            value=value["result"] if unwrap and isinstance(value, dict) and {*value} == {"result"} else value
        )

    async def refresh(self) -> None:
        """List the functions, and pass the list to `on_tools` if it changed."""
        self._check_alive()
        listed = self._listed = [self._define(name) for name in self.tools]
        if self._on_tools is not None and listed != self._delivered:
            await self._on_tools(self.name, list(listed))
            self._delivered = listed

    def status(self) -> UpstreamStatus:
        """The state: stopped before the first use and after closing, failed while it is dead, otherwise ready."""
        state: UpstreamState = "stopped" if self._is_closed or self._listed is None else "ready"
        return UpstreamStatus(
            name=self.name,
            transport="memory",
            state="failed" if self.is_dead else state,
            tools=len(self._listed or ()),
            calls=self._count,
            failures=self._failures,
            error=f"Server {self.name!r} is dead." if self.is_dead else None,
        )

    async def close(self) -> None:
        """End every running call, and refuse further ones."""
        self._is_closed = True
        for scope in self._running:
            scope.reschedule(0.0)  # in the past, so it expires at once
        if self._running:
            await asyncio.wait(set(self._running.values()))

    def _check_alive(self) -> None:
        if self.is_dead:
            raise UpstreamUnavailable(f"Server {self.name!r} is dead.")
        if self._is_closed:
            raise UpstreamUnavailable(f"{self.name!r} was closed.")

    async def _within(self, seconds: float | None, tool: str, work: Awaitable[Any]) -> Any:
        """Await `work`, which ends early on timeout or when the server is closed."""
        scope, ended = asyncio.timeout(seconds), asyncio.get_running_loop().create_future()
        self._running[scope] = ended
        try:
            async with scope:
                return await work
        except TimeoutError:
            if not scope.expired():
                raise
            if self._is_closed:
                raise UpstreamError(f"{self.name!r} was closed during {tool!r}, which may have happened.") from None
            raise UpstreamTimeout(
                f"{self.name!r} did not answer {tool!r} within {seconds:g} s. The call may have happened: check before "
                "calling again, or give it more time."
            ) from None
        finally:
            del self._running[scope]
            ended.set_result(None)

    def _define(self, name: str) -> Definition:
        if name in self.definitions:
            return self.definitions[name]
        function = self.tools[name]
        hints = typing.get_type_hints(function)
        properties: dict[str, Any] = {}
        required = []
        for parameter in inspect.signature(function).parameters.values():
            schema = _schema(hints.get(parameter.name, Any))
            if parameter.default is parameter.empty:
                required.append(parameter.name)
            else:
                schema = schema | {"default": parameter.default}
            properties[parameter.name] = schema
        return Definition(
            name=name,
            description=inspect.getdoc(function) or "",
            input_schema={"type": "object", "properties": properties, "required": required},
        )


def _schema(hint: Any) -> dict[str, Any]:
    """The schema of a parameter; an empty one, which allows everything, for a type that JSON does not have."""
    try:
        schema = msgspec.json.schema(hint)
    except TypeError:
        return {}
    return {} if "$defs" in schema else schema
