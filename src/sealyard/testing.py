"""Doubles for tests and measurements that need no process: they pass the same conformance suite as the real parts."""

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from sealyard.broker import Answer
from sealyard.broker.call import OnProgress, OnTools
from sealyard.errors import ToolFailed, UpstreamUnavailable
from sealyard.values import (
    Definition,
    UpstreamState,
    UpstreamStatus,
)

__all__ = ("FakeUpstream",)

_TYPES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
}


class FakeUpstream:
    """An upstream whose tools are Python functions of this process, plain or `async`.

    A tool's definition comes from its function's signature and docstring. An exception it raises is the tool's error.
    """

    def __init__(self, name: str, /, **tools: Callable[..., Any]) -> None:
        self.name = name
        self.tools: dict[str, Callable[..., Any]] = dict(tools)
        self.definitions: dict[str, Definition] = {}
        """Used instead of what the signature says, for those that are here."""
        self.on_tools: OnTools | None = None
        self.is_dead = False
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
        unwrap: bool = False,
    ) -> Answer:
        """The function's value. Raises `ToolFailed` with what it raised."""
        if self.is_dead:
            raise UpstreamUnavailable(f"Server {self.name!r} is dead.")
        self.calls.append((tool, arguments))
        try:
            value = self.tools[tool](**arguments)
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:
            raise ToolFailed(f"{type(error).__name__}: {error}") from error
        return value if isinstance(value, Answer) else Answer(value=value)

    async def refresh(self) -> None:
        """List the functions."""
        if self.is_dead:
            raise UpstreamUnavailable(f"Server {self.name!r} is dead.")
        if self.on_tools is not None:
            await self.on_tools(self.name, [self._define(name) for name in self.tools])

    def status(self) -> UpstreamStatus:
        """Always well, until it is made dead."""
        state: UpstreamState = "failed" if self.is_dead else "ready"
        return UpstreamStatus(name=self.name, transport="memory", state=state, calls=len(self.calls))

    async def close(self) -> None:
        """Nothing is held."""

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
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(each) for each in typing.get_args(hint)]}
    if hint is type(None):
        return {"type": "null"}
    if origin is list:
        return {"type": "array", "items": _schema(typing.get_args(hint)[0])}
    kind = _TYPES.get(origin or hint)
    return {} if kind is None else {"type": kind}
