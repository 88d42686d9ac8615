"""Test doubles that need no process.

`FakeUpstream` passes the same suite as real servers over stdio and HTTP: `tests/upstreams/test_conformance.py`.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from sealyard.broker.upstreams import OnTools, Response
from sealyard.broker.upstreams.python import Functions, FunctionTool, Mark, describe
from sealyard.errors import UpstreamUnavailable
from sealyard.values.tools import Definition, UpstreamConfig, UpstreamStatus

__all__ = ("FakeUpstream",)


class FakeUpstream(Functions):
    """Functions as an upstream that a test can change, watch and break."""

    def __init__(self, name: str, /, **tools: Callable[..., Any]) -> None:
        super().__init__(UpstreamConfig(name=name, transport="python"))
        self.name = name
        self.tools: dict[str, Callable[..., Any]] = dict(tools)
        self.definitions: dict[str, Definition] = {}
        """Definitions that replace those from signatures. Their functions get the arguments as they are."""
        self.is_dead = False
        """Every call and every refresh raises `UpstreamUnavailable`."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        """The received calls."""
        self._described: dict[str, FunctionTool] = {}

    @property
    def on_tools(self) -> OnTools | None:
        """Receives the name and the tools whenever they change. Assigning it reopens the upstream."""
        return self._on_tools

    @on_tools.setter
    def on_tools(self, on_tools: OnTools | None) -> None:
        self._on_tools, self._delivered = on_tools, None
        self._is_ready = self._is_closed = False

    async def call(self, tool: str, arguments: dict[str, Any], **options: Any) -> Response:
        """Keep the call, unless the upstream is dead or closed, and answer as `Functions` do."""
        if not (self.is_dead or self._is_closed):
            self.calls.append((tool, arguments))
        return await super().call(tool, arguments, **options)

    def status(self) -> UpstreamStatus:
        """The state: stopped before the first use and after closing, failed while it is dead, otherwise ready."""
        status = super().status()
        if not self.is_dead:
            return status
        return msgspec.structs.replace(status, state="failed", error=f"Server {self.config.name!r} is dead.")

    def _check_open(self) -> None:
        if self.is_dead:
            raise UpstreamUnavailable(f"Server {self.config.name!r} is dead.")
        super()._check_open()

    async def _load(self) -> None:
        if not self._is_ready:
            self._definitions()
            self._is_ready = True

    def _find(self, name: str) -> FunctionTool | None:
        """The function as it is now. Each is described once, as that takes a millisecond."""
        if name not in self.tools:
            return None
        known, function, definition = self._described.get(name), self.tools[name], self.definitions.get(name)
        if known is None or known.function != function or definition not in (None, known.definition):
            if definition is None:
                known = describe(function, Mark(name=name))
            else:
                known = FunctionTool(function=function, definition=definition)
            self._described[name] = known
        return known

    def _definitions(self) -> list[Definition]:
        self._tools = {name: tool for name in self.tools if (tool := self._find(name)) is not None}
        return super()._definitions()
