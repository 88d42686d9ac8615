"""Traces for OpenTelemetry: a span for every run and one for every call that it makes.

Names and attributes follow the conventions for generative AI and for MCP, and stand here and nowhere else. The MCP SDK
makes spans of its own around requests; those are exported with a few known attributes and without their texts.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from sealyard.errors import InvalidConfig

_log = logging.getLogger(__name__)

_SCOPE = "sealyard"
_PATH = "/v1/traces"
_CLOSE_SECONDS = 3.0  # a gateway that stops does not wait longer for its collector

EXECUTION = {
    "operation": "gen_ai.operation.name",
    "tool": "gen_ai.tool.name",
    "tool_type": "gen_ai.tool.type",
    "visit": "gen_ai.conversation.id",
    "execution_id": "sealyard.execution.id",
    "principal": "sealyard.principal",
    "status": "sealyard.execution.status",
    "level": "sealyard.sandbox.level",
    "tier": "sealyard.sandbox.tier",
    "use_case": "sealyard.use_case",
    "calls": "sealyard.execution.calls",
    "bytes_in": "sealyard.execution.bytes_in",
    "bytes_out": "sealyard.execution.bytes_out",
    "error": "error.type",
}
"""A fact about a run -> its attribute."""

CALL = {
    "operation": "gen_ai.operation.name",
    "method": "mcp.method.name",
    "tool": "gen_ai.tool.name",
    "call_id": "gen_ai.tool.call.id",
    "upstream": "sealyard.upstream",
    "version": "sealyard.tool.version",
    "bytes": "sealyard.call.answer_bytes",
    "error": "error.type",
}
"""The same for a call."""

_FOREIGN = frozenset(
    """
    error.type gen_ai.operation.name gen_ai.tool.name jsonrpc.request.id mcp.method.name mcp.protocol.version
    mcp.session.id network.transport rpc.response.status_code
    """.split()
)
"""Attributes of other scopes that are exported."""

_TOOLS = {"code": "execute_code", "analysis": "execute_analysis", "call": "call_tool", "proxy": "call_tool"}


class SpanHandle:
    """A span that is current until the code that began it ends it."""

    def __init__(self, span: Span, names: dict[str, str]) -> None:
        self._span = span
        self._names = names
        self.calls: dict[int, SpanHandle] = {}
        """Spans of a run's calls that are not over, by number."""
        self.context = trace.set_span_in_context(span)
        self._token = otel_context.attach(self.context)

    def end(self, *, error: str | None = None, **facts: Any) -> None:
        """Ends the span, with the facts known by now."""
        otel_context.detach(self._token)
        _set(self._span, self._names, facts)
        if error is not None:
            self._span.set_attribute(self._names["error"], error)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


class Tracing:
    """Makes spans and sends them; `open_tracing` makes it."""

    def __init__(self, provider: Any) -> None:
        self.provider = provider
        self._tracer: Tracer = provider.get_tracer(_SCOPE)

    def make_global(self) -> None:
        """Sends the spans of all libraries of this process too. Only for a process that is nothing but a gateway."""
        trace.set_tracer_provider(self.provider)

    def begin_run(self, form: str, **facts: Any) -> SpanHandle:
        """Begins the span of a run, the parent of every span until it ends."""
        tool = _TOOLS[form]
        span = self._tracer.start_span(f"execute_tool {tool}", kind=SpanKind.INTERNAL)
        _set(span, EXECUTION, {"operation": "execute_tool", "tool": tool, "tool_type": "function", **facts})
        return SpanHandle(span, EXECUTION)

    def begin_call(self, run: SpanHandle, tool: str, **facts: Any) -> SpanHandle:
        """Begins the span of a call, below its run even in another task."""
        span = self._tracer.start_span(f"tools/call {tool}", context=run.context, kind=SpanKind.INTERNAL)
        _set(span, CALL, {"operation": "execute_tool", "method": "tools/call", "tool": tool, **facts})
        return SpanHandle(span, CALL)


@contextlib.contextmanager
def open_tracing(
    endpoint: str, *, headers: dict[str, str], service_name: str, version: str, conceal: Callable[[str], str]
) -> Iterator[Tracing]:
    """Sends spans to an OTLP collector until closed; closing waits a moment for the last ones.

    `conceal` is applied to texts that others wrote into a span.

    Raises:
        InvalidConfig: The extra `otel` is not installed, or the endpoint is not a URL.
    """
    if not endpoint.startswith(("http://", "https://")):
        raise InvalidConfig(
            f"otel.endpoint is {endpoint!r}. Give the URL of a collector, such as http://127.0.0.1:4318."
        )
    try:
        sdk = import_module("opentelemetry.sdk.trace")
        export = import_module("opentelemetry.sdk.trace.export")
        resources = import_module("opentelemetry.sdk.resources")
        exporter = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ImportError as error:
        raise InvalidConfig(
            f"otel.endpoint is set, and {error.name!r} is not installed. Install it: pip install 'sealyard[otel]'."
        ) from None
    url = endpoint.rstrip("/")
    sending = exporter.OTLPSpanExporter(endpoint=url if url.endswith(_PATH) else url + _PATH, headers=headers)
    resource = resources.Resource.create({"service.name": service_name, "service.version": version})
    provider = sdk.TracerProvider(resource=resource, shutdown_on_exit=False)
    discreet = _Discreet(sending, sdk.ReadableSpan, conceal)
    provider.add_span_processor(export.BatchSpanProcessor(discreet))
    try:
        yield Tracing(provider)
    finally:
        # Shutting down sends what waits, with seconds between attempts, and has no limit that it keeps.
        closing = threading.Thread(target=provider.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)
        discreet.shutdown()  # the attempts end


def _set(span: Span, names: dict[str, str], facts: dict[str, Any]) -> None:
    span.set_attributes({names[key]: value for key, value in facts.items() if value is not None})


class _Discreet:
    """An exporter that passes our spans as they are, and only harmless attributes of others."""

    def __init__(self, exporter: Any, span_type: Any, conceal: Callable[[str], str]) -> None:
        self._exporter = exporter
        self._span_type = span_type
        self._conceal = conceal
        self._is_over = False

    def export(self, spans: Sequence[Any]) -> Any:
        """Exports spans."""
        return self._exporter.export([self._discreet(span) for span in spans])

    def shutdown(self) -> None:
        """Stops exporting. May be called again."""
        if not self._is_over:
            self._is_over = True
            self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Exports the waiting spans."""
        return bool(self._exporter.force_flush(timeout_millis))

    def _discreet(self, span: Any) -> Any:
        if span.instrumentation_scope is not None and span.instrumentation_scope.name == _SCOPE:
            return span
        attributes = {
            key: self._conceal(value) if isinstance(value, str) else value
            for key, value in (span.attributes or {}).items()
            if key in _FOREIGN
        }
        return self._span_type(
            name=self._conceal(span.name),
            context=span.context,
            parent=span.parent,
            resource=span.resource,
            attributes=attributes,
            kind=span.kind,
            status=Status(span.status.status_code),
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )
