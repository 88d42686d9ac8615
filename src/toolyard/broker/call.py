"""The only road from sandboxed code to a tool: in the grant? arguments right? then the upstream, then the journal."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from toolyard.broker.answers import Answer
from toolyard.catalog.arguments import check_arguments
from toolyard.catalog.shapes import is_wrapped
from toolyard.errors import ToolyardError, UnknownTool, UpstreamError, UpstreamUnavailable
from toolyard.values import CallRecord, Definition, Grant, ToolSpec, UpstreamStatus

__all__ = ("Broker", "OnProgress", "OnTools", "ToolServer")

_ANSWER_BYTES = 32 << 20  # the worker's connection holds at most twice as much unread

OnProgress = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""Progress so far, its total if known, and a message."""


OnTools = Callable[[str, list[Definition]], Awaitable[None]]


class ToolServer(Protocol):
    """Something that answers calls: `broker.upstream.Upstream`, and `testing.FakeUpstream` without any process."""

    on_tools: OnTools | None
    """Told its name and its tools whenever they were listed."""

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
        unwrap: bool = False,
    ) -> Answer:
        """The tool's answer. Raises an `UpstreamError`."""
        ...

    async def refresh(self) -> None:
        """Connect if need be and list the tools anew; they arrive through the callback given at construction."""
        ...

    def status(self) -> UpstreamStatus:
        """How it is."""
        ...

    async def close(self) -> None:
        """Stop it and leave nothing behind."""
        ...


class Broker:
    """Calls tools for executions, within their grants."""

    def __init__(self, upstreams: Mapping[str, ToolServer], *, record: Callable[[CallRecord], None]) -> None:
        self._upstreams = upstreams
        self._record = record

    async def call(
        self,
        grant: Grant,
        spec: ToolSpec,
        arguments: dict[str, Any],
        *,
        number: int,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> tuple[Answer, bytes]:
        """Call a granted tool and return its answer, and the answer's value as JSON.

        The call is in the journal whatever comes of it.

        Raises:
            UnknownTool: It is not in the grant.
            InvalidArguments: The arguments do not fit its schema; nothing left the gateway.
            UpstreamError: The server failed or did not answer in time, or the tool answered with an error.
        """
        if grant.tools.get(spec.full_name) is not spec:
            raise UnknownTool(f"No tool named {spec.full_name!r} in this execution. Call search_tools to find one.")
        upstream = self._upstreams.get(spec.upstream)
        if upstream is None:
            raise UpstreamUnavailable(f"Server {spec.upstream!r} of {spec.full_name!r} is not configured any more.")
        arguments = _without_empty(spec, arguments)
        started_at, started = time.time(), time.perf_counter()
        answer, encoded, failure = None, b"", "The call was cancelled."
        try:
            check_arguments(spec, arguments)
            answer = await upstream.call(
                spec.name,
                arguments,
                timeout_seconds=timeout_seconds,
                on_progress=on_progress,
                unwrap=is_wrapped(spec.output_schema),
            )
            encoded = _encode(spec, answer)
        except ToolyardError as error:
            failure = f"{type(error).__name__}: {error}"
            raise
        finally:
            self._record(
                CallRecord(
                    execution_id=grant.execution_id,
                    number=number,
                    tool=spec.full_name,
                    digest=spec.digest,
                    arguments=arguments,
                    answer=None if answer is None else answer.value,
                    error=None if encoded else failure,
                    started_at=started_at,
                    seconds=time.perf_counter() - started,
                    answer_bytes=len(encoded),
                )
            )
        return answer, encoded


def _encode(spec: ToolSpec, answer: Answer) -> bytes:
    try:
        encoded = msgspec.json.encode(answer.value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UpstreamError(f"{spec.full_name!r} answered with something that is no JSON: {error}.") from error
    size = len(encoded) + sum(len(file.content) for file in answer.files)
    if size > _ANSWER_BYTES:
        raise UpstreamError(
            f"{spec.full_name!r} answered with {size:,} bytes, more than the {_ANSWER_BYTES:,} that code is handed. "
            "Ask it for less: filter, or take it in pages."
        )
    return encoded


def _without_empty(spec: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    """`arguments` without each `None` that the schema has no place for: models write it for what they leave out."""
    if None not in arguments.values():
        return arguments
    required = spec.input_schema.get("required")
    required = required if isinstance(required, list) else ()
    properties = spec.input_schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    return {
        name: value
        for name, value in arguments.items()
        if value is not None or name in required or _accepts_null(properties.get(name, True))
    }


def _accepts_null(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return bool(schema)
    if isinstance(schema.get("enum"), list):
        return None in schema["enum"]
    if isinstance(schema.get("type"), str | list):
        return "null" in schema["type"]
    choices = [choice for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list) for choice in schema[key]]
    return any(map(_accepts_null, choices)) if choices else "$ref" not in schema and "const" not in schema
