"""One MCP server: its tools and the calls to them.

`connection.py` starts and stops it. A call is never sent twice, except when the server provably did not look at it:
the first may have happened.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, HEADER_MISMATCH, REQUEST_TIMEOUT
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from sealyard.broker.upstreams import OnProgress, OnTools, Progress, check_sendable
from sealyard.broker.upstreams.mcp.connection import Connection, Life, reason
from sealyard.broker.upstreams.mcp.http import DELIVERY, Delivery, open_in_browser
from sealyard.broker.upstreams.mcp.session import call_tool, list_tools
from sealyard.broker.upstreams.mcp.transport import CLOSED, too_large, whole_message
from sealyard.broker.upstreams.server import Declared, Response, to_answer
from sealyard.errors import (
    ToolFailed,
    UnknownTool,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from sealyard.values.access import Grant
from sealyard.values.tools import Definition, UpstreamConfig, UpstreamStatus
from sealyard.wording import COMPLAINT_CHARACTERS, short

_log = logging.getLogger(__name__)

_PING_SECONDS = 10.0  # for a sign of life
_CHANGES_SETTLE_SECONDS = 0.1  # servers announce several changes at once
_LIST_AGAIN_SECONDS = 1.0  # between two listings, however often a server announces changes
_MOST_SILENT_CALLS = 3
"""After this many calls in a row without any answer, the server is pinged."""
_MOST_ROUNDS = 10  # a server may ask for another round without end
_ROUND_SECONDS = 0.1  # between two rounds
_MOST_WARNINGS = 50  # shown for one upstream


class Upstream:
    """One MCP server, by its config."""

    def __init__(
        self,
        config: UpstreamConfig,
        *,
        on_tools: OnTools | None = None,
        token_folder: Path | None = None,
        open_url: Callable[[str], bool] = open_in_browser,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Starts nothing. `on_tools` is called whenever its tools change.

        OAuth tokens are kept in `token_folder`; without one they are forgotten with the process.
        """
        self.config = config
        self.on_tools = on_tools
        self._slots = asyncio.Semaphore(config.concurrent_calls)
        self._life = Life(
            config,
            token_folder=token_folder,
            open_url=open_url,
            clock=clock,
            first=self._list_first,
            beside=(self._follow_changes, self._watch),
        )
        self._definitions: list[Definition] | None = None
        self._delivered: list[Definition] | None = None
        self._delivering = asyncio.Lock()
        self._declared: dict[str, Declared] = {}
        self._listing_warnings: list[str] = []
        self._logged: set[str] = set()
        self._idle: tuple[str, ...] = ()
        self._misfits: dict[str, str] = {}
        self._calls = self._failures = 0

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
        """Call a tool and return its answer. Starts the server if it does not run.

        Cancelling the call, or letting it time out, notifies the server; the connection stays usable.

        Raises:
            UnknownTool: The config leaves this tool out.
            InvalidArguments: The arguments cannot be written as JSON.
            UpstreamUnavailable: The server does not run and cannot be started now; the call did not happen.
            UpstreamTimeout: It did not answer in time; the call may have happened.
            ToolFailed: It answered with an error.
            UpstreamError: The connection failed; the call may have happened.
        """
        if not self.config.allows(tool):
            raise UnknownTool(f"The config of {self.config.name!r} leaves {tool!r} out.")
        check_sendable(tool, arguments)
        seconds = self.config.call_seconds if timeout_seconds is None else timeout_seconds
        self._calls += 1
        try:
            result = await self._ask_once(tool, arguments, seconds, on_progress)
        except ToolFailed:
            self._life.thrive()
            raise
        except UpstreamError:
            self._failures += 1
            raise
        self._life.thrive()
        if (message := whole_message(result)) is not None:
            return Response(value=None, message=message)
        if (declared := self._declared.get(tool)) is not None and tool not in self._misfits:
            self._compare(tool, declared, result)
        return to_answer(result, unwrap=unwrap)

    async def refresh(self) -> None:
        """List the tools again, starting the server if necessary; returns after `on_tools` was called.

        Raises:
            UpstreamError: The server does not run, or does not list its tools.
        """
        fresh = self._life.connection is None
        connection = await self._life.connected()
        with connection:
            if not fresh:
                await self._list(connection)
            elif connection.listing_error is not None:
                raise UpstreamError(connection.listing_error)
            await self._deliver()

    def status(self) -> UpstreamStatus:
        """Its current state."""
        life = self._life
        warnings = [*self._listing_warnings, *self._misfits.values()]
        if life.noise:
            warnings.append(f"It sent {life.noise} lines or events that are no JSON-RPC; they were ignored.")
        if len(warnings) > _MOST_WARNINGS:
            warnings[_MOST_WARNINGS:] = [f"There are {len(warnings) - _MOST_WARNINGS} warnings more."]
        return UpstreamStatus(
            name=self.config.name,
            transport=self.config.transport,
            state=life.state,
            tools=len(self._definitions or ()),
            protocol_version=life.version,
            server=life.described,
            restarts=life.restarts,
            calls=self._calls,
            failures=self._failures,
            error=life.error,
            warnings=tuple(warnings),
            stderr=life.stderr.text(),
            idle_patterns=self._idle,
        )

    async def close(self) -> None:
        """Stop it for good and leave no process, task or descriptor behind."""
        await self._life.close()

    # One call

    async def _ask_once(
        self, tool: str, arguments: dict[str, Any], seconds: float, on_progress: OnProgress | None
    ) -> dict[str, Any]:
        delivery = Delivery()
        connection = self._life.connection or await self._life.connected()
        try:
            return await self._ask(connection, tool, arguments, seconds, on_progress, delivery)
        except UpstreamError:
            if not delivery.stale:
                raise
        # The server forgot the session, so it did not look at the call: sending it again is safe, once.
        self._life.retire(connection)
        connection = await self._life.connected()
        return await self._ask(connection, tool, arguments, seconds, on_progress, Delivery())

    async def _ask(
        self,
        connection: Connection,
        tool: str,
        arguments: dict[str, Any],
        seconds: float,
        on_progress: OnProgress | None,
        delivery: Delivery,
    ) -> dict[str, Any]:
        """The result, unchanged, or the error that states how the call ended."""
        progress = Progress(on_progress) if on_progress is not None else None
        sent = False
        before = DELIVERY.set(delivery)
        try:
            with connection:
                async with asyncio.timeout(seconds), self._slots:
                    sent = True
                    result = await self._converse(connection, tool, arguments, progress)
            connection.silent_calls = 0
            if progress is not None:
                await progress.finish()
            return result
        except TimeoutError:
            raise self._timed_out(connection, tool, seconds, sent) from None
        except MCPError as error:
            raise self._failed(connection, tool, error, delivery) from error
        except (ValidationError, anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError) as error:
            raise UpstreamError(
                f"{self.config.name!r} failed in {tool!r}, which may have happened: {reason(error)}"
            ) from error
        finally:
            DELIVERY.reset(before)
            if progress is not None:
                progress.stop()

    async def _converse(
        self, connection: Connection, tool: str, arguments: dict[str, Any], progress: Progress | None
    ) -> dict[str, Any]:
        """Send the call, and repeat it with the state the server returns while it asks for another round."""
        channel = connection.channel
        token = None if progress is None else channel.follow(progress)
        state: str | None = None
        relisted = False
        try:
            for _ in range(_MOST_ROUNDS):
                try:
                    result = await call_tool(
                        connection.session,
                        channel.child,
                        tool,
                        arguments,
                        token=token,
                        request_state=state,
                    )
                except MCPError as error:
                    if error.code != HEADER_MISMATCH or relisted:
                        raise
                    # The server did not process the call: it requires headers that only a newer listing declares.
                    relisted = True
                    await self._list(connection)
                    continue
                if result.get("resultType") != "input_required":
                    return result
                state = self._state_to_return(tool, result)
                await asyncio.sleep(_ROUND_SECONDS)
        finally:
            if token is not None:
                channel.unfollow(token)
        raise UpstreamError(
            f"{tool!r} of {self.config.name!r} asked to be called again {_MOST_ROUNDS} times without an answer."
        )

    def _state_to_return(self, tool: str, result: dict[str, Any]) -> str:
        state = result.get("requestState")
        if result.get("inputRequests") or not isinstance(state, str):
            raise UpstreamError(
                f"{tool!r} of {self.config.name!r} asks a person or a model for input, which code cannot give. Call it "
                "with arguments that leave nothing open, or through a client in proxy mode."
            )
        return state

    def _timed_out(self, connection: Connection, tool: str, seconds: float, sent: bool) -> UpstreamTimeout:
        name = self.config.name
        if not sent:
            return UpstreamTimeout(
                f"{name!r} was busy for {seconds:g} s with {self.config.concurrent_calls} other calls; {tool!r} was "
                "not called. Make fewer calls at once."
            )
        connection.silent_calls += 1
        if connection.silent_calls >= _MOST_SILENT_CALLS:
            connection.suspected.set()
        return UpstreamTimeout(
            f"{name!r} did not answer {tool!r} within {seconds:g} s. The call may have happened: check before calling "
            "again, or give it more time."
        )

    def _failed(self, connection: Connection, tool: str, error: MCPError, delivery: Delivery) -> UpstreamError:
        name = self.config.name
        if delivery.stale:
            return UpstreamError(f"{name!r} no longer knows our session; {tool!r} was not called.")
        if delivery.undelivered:
            self._life.fail(connection, f"It cannot be reached: {delivery.fault}.")
            return UpstreamUnavailable(f"{name!r} cannot be reached; {tool!r} was not called: {delivery.fault}.")
        if error.code == CONNECTION_CLOSED:
            why = self._life.fault or reason(error)
            if error.message == CLOSED:
                self._life.fail(connection)
            return UpstreamError(
                f"{name!r} ended the connection during {tool!r}, which may have happened: {why}{self._life.last_words}"
            )
        if error.message == too_large(self.config.answer_bytes):
            return UpstreamError(f"{tool!r} of {name!r} was called, but its answer was not taken: {error.message}")
        if delivery.fault is not None and not delivery.answered:
            why = short(delivery.fault, COMPLAINT_CHARACTERS)
            return UpstreamError(f"{name!r} failed in {tool!r}, which may have happened: {why}.")
        return ToolFailed(short(error.message, COMPLAINT_CHARACTERS) or f"{tool!r} failed without saying why.")

    def _compare(self, tool: str, declared: Declared, result: dict[str, Any]) -> None:
        """Warn, once per tool, that its answer does not match its declaration. The answer is still returned."""
        if result.get("isError") is True or len(self._misfits) >= _MOST_WARNINGS:
            return
        structured = result.get("structuredContent")
        complaint = "there is no structured content" if structured is None else declared.misfit(structured)
        if complaint is not None:
            self._misfits[tool] = f"Tool {tool!r} does not answer as its output schema says: {complaint}."

    # Tools

    async def _list_first(self, connection: Connection) -> None:
        """List the tools of a new connection. Calls work without a listing."""
        try:
            await self._list(connection)
        except UpstreamError as error:
            connection.listing_error = str(error)
            self._listing_warnings = [str(error)]

    async def _list(self, connection: Connection) -> None:
        """Ask for the tools and remember them. Raises `UpstreamError`."""
        name, effective = self.config.name, set[str]()

        def allows(tool: str) -> bool:
            effective.update(self.config.against(tool))
            return self.config.allows(tool)

        try:
            async with connection.listing, asyncio.timeout(self.config.call_seconds):
                listing = await list_tools(connection.session, allows)
        except TimeoutError:
            raise UpstreamTimeout(f"{name!r} did not list its tools within {self.config.call_seconds:g} s.") from None
        except (MCPError, ValidationError, RuntimeError) as error:
            raise UpstreamError(f"{name!r} does not list its tools: {reason(error)}") from error
        self._idle = tuple(pattern for pattern in self.config.without_tools if pattern not in effective)
        said = [
            f"without_tools names {pattern!r}, which fits none of its tools. Correct it, or take it out."
            for pattern in self._idle
        ]
        self._listing_warnings = [*listing.warnings, *said]
        self._log_left_out(listing.left_out)
        if listing.definitions != self._definitions:
            self._definitions = listing.definitions
            self._declared = {one.name: Declared(one.output_schema) for one in listing.definitions if one.output_schema}
            self._misfits.clear()

    def _log_left_out(self, warnings: list[str]) -> None:
        """Log, once, the tools that are left out."""
        for warning in warnings:
            if warning not in self._logged and len(self._logged) < _MOST_WARNINGS:
                self._logged.add(warning)
                _log.warning("%s: %s", self.config.name, warning)

    async def _deliver(self) -> None:
        """Pass the tools to `on_tools` if they changed."""
        async with self._delivering:
            definitions = self._definitions
            if self.on_tools is None or definitions is None or definitions is self._delivered:
                return
            await self.on_tools(self.config.name, list(definitions))
            self._delivered = definitions

    async def _watch(self, connection: Connection) -> None:
        """End a server that answers neither calls nor pings, so that the next call starts a new one."""
        while True:
            await connection.suspected.wait()
            connection.suspected.clear()
            if not await self._is_alive(connection):
                self._life.fail(connection, "It left calls without an answer and does not respond.")
            connection.silent_calls = 0

    async def _is_alive(self, connection: Connection) -> bool:
        """True if the server answers a request that every server of its era answers. An error is an answer too."""
        session = connection.session
        try:
            async with asyncio.timeout(min(_PING_SECONDS, self.config.call_seconds)):
                if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    await session.send_discover(LATEST_MODERN_VERSION)
                else:
                    await session.send_ping()
        except TimeoutError:
            return False
        except MCPError as error:
            return error.code not in {CONNECTION_CLOSED, REQUEST_TIMEOUT}
        except ValidationError:
            return True
        return True

    async def _follow_changes(self, connection: Connection) -> None:
        """List again soon after the server announces changed tools; several announcements cause one listing."""
        listed_at = -math.inf
        while True:
            try:
                await self._deliver()
            except Exception:  # noqa: BLE001 - the gateway's own callback; the connection goes on without it
                _log.exception("The tools of %r could not be taken over.", self.config.name)
            await self._life.changed.wait()
            await anyio.sleep(max(_CHANGES_SETTLE_SECONDS, listed_at + _LIST_AGAIN_SECONDS - time.monotonic()))
            self._life.changed.clear()
            listed_at = time.monotonic()
            try:
                await self._list(connection)
            except UpstreamError as error:
                self._listing_warnings = [str(error)]
