"""Traces as a collector gets them: a real exporter, a real HTTP receiver, real spans of runs and calls."""

import asyncio
import contextlib
import gzip
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests import warm

from sealyard.config import Config
from sealyard.config.settings import OtelConfig, StoreConfig
from sealyard.errors import InvalidConfig
from sealyard.metrics.otel import Tracing
from sealyard.sandbox.policy import DEFAULT
from sealyard.testing import FakeUpstream
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())


class Collector:
    """Takes OTLP over HTTP and keeps what it got."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.services: set[str] = set()
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.headers.append({key.lower(): value for key, value in self.headers.items()})
                collector.take(self.path, body)
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, path: str, body: bytes) -> None:
        """Read one request."""
        assert path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.services |= {
                each.value.string_value for each in resource.resource.attributes if each.key == "service.name"
            }
            for scope in resource.scope_spans:
                self.spans += [(scope.scope.name, span) for span in scope.spans]

    def find(self, name: str) -> Any:
        """The one span of a name."""
        (found,) = [span for _, span in self.spans if span.name == name]
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that listens."""
    found = Collector()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def pay(amount: int) -> dict[str, Any]:
    """Pay."""
    if amount > 100:
        raise ValueError("too much for john.doe@example.com")
    return {"paid": amount}


@contextlib.asynccontextmanager
async def opened(folder: Path, url: str) -> AsyncIterator[Yard]:
    """A yard that sends traces."""
    config = Config(
        store=StoreConfig(path=folder / "sealyard.db"),
        otel=OtelConfig(endpoint=url, headers={"x-key": "k"}, service_name="yard-test"),
    )
    async with open_yard(config, policy=PLAIN, upstreams={"bank": FakeUpstream("bank", pay=pay)}) as yard:
        yield yard


def attributes(span: Any) -> dict[str, Any]:
    """Its attributes as plain data."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


async def test_a_run_and_its_calls_are_one_trace(tmp_path: Path, collector: Collector) -> None:
    """Parent and child, with the attributes of the conventions, and sent before the gateway is gone."""
    async with opened(tmp_path, collector.url) as yard:
        code = "from servers.bank import pay\npay(amount=3)"
        result = await yard.execute(ExecuteRequest(code=code), principal="alice")

    run, call = collector.find("execute_tool execute_code"), collector.find("tools/call mcp__bank__pay")
    assert (call.trace_id, call.parent_span_id) == (run.trace_id, run.span_id)
    assert collector.services == {"yard-test"}
    assert collector.headers[0]["x-key"] == "k"
    told = attributes(run)
    assert told["gen_ai.operation.name"] == "execute_tool"
    assert told["gen_ai.tool.name"] == "execute_code"
    assert told["sealyard.execution.id"] == result.outcome.execution_id
    assert (told["sealyard.execution.status"], told["sealyard.principal"]) == ("ok", "alice")
    assert told["sealyard.execution.bytes_out"] == len(result.text.encode())
    assert attributes(call)["mcp.method.name"] == "tools/call"
    assert attributes(call)["gen_ai.tool.call.id"] == f"{result.outcome.execution_id}:1"
    assert run.start_time_unix_nano <= call.start_time_unix_nano <= call.end_time_unix_nano <= run.end_time_unix_nano


async def test_what_failed_is_marked_and_says_nothing_private(tmp_path: Path, collector: Collector) -> None:
    """The kind of error, and no message."""
    async with opened(tmp_path, collector.url) as yard:
        await yard.execute(ExecuteRequest(code="from servers.bank import pay\npay(amount=1000)"))

    run, call = collector.find("execute_tool execute_code"), collector.find("tools/call mcp__bank__pay")
    assert attributes(call)["error.type"] == "ToolFailed"
    assert attributes(run)["error.type"] in ("ToolFailed", "other")
    assert (run.status.code, call.status.code) == (2, 2)
    assert "example.com" not in str(collector.spans)


async def test_runs_at_the_same_time_do_not_mix(tmp_path: Path, collector: Collector) -> None:
    """Each call hangs below its own run."""
    async with opened(tmp_path, collector.url) as yard:
        code = "from servers.bank import pay\nimport asyncio\nawait asyncio.gather(*[pay(amount=i) for i in range(3)])"
        await asyncio.gather(*[yard.execute(ExecuteRequest(code=code)) for _ in range(4)])

    runs = {span.span_id: span for _, span in collector.spans if span.name.startswith("execute_tool")}
    calls = [span for _, span in collector.spans if span.name.startswith("tools/call")]
    assert (len(runs), len(calls)) == (4, 12)
    for call in calls:
        parent = runs[call.parent_span_id]
        assert attributes(call)["gen_ai.tool.call.id"].startswith(attributes(parent)["sealyard.execution.id"])


async def test_spans_of_others_leave_without_their_words(tmp_path: Path, collector: Collector) -> None:
    """What the SDK records of an exception may hold anything."""
    async with opened(tmp_path, collector.url) as yard:
        tracing = yard.observer.tracing
        assert isinstance(tracing, Tracing)
        tracer = tracing.provider.get_tracer("mcp-python-sdk")
        with (
            contextlib.suppress(ValueError),
            tracer.start_as_current_span(
                "tools/call john.doe@example.com",
                attributes={
                    "mcp.method.name": "tools/call",
                    "arguments": "secret",
                    "gen_ai.tool.name": "a@example.com",
                },
            ),
        ):
            raise ValueError("jane.roe@example.com")

    (span,) = [span for scope, span in collector.spans if scope == "mcp-python-sdk"]
    told = attributes(span)
    assert told["mcp.method.name"] == "tools/call"
    assert "arguments" not in told
    assert list(span.events) == []
    assert "example.com" not in str(span)
    assert "secret" not in str(span)


async def test_a_collector_that_is_away_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs end as they do without one, and so does the gateway."""
    monkeypatch.setattr("sealyard.metrics.otel._CLOSE_SECONDS", 0.3)
    async with opened(tmp_path, "http://127.0.0.1:9") as yard:
        result = await yard.execute(ExecuteRequest(code="1 + 1"))

    assert result.outcome.result == 2


async def test_a_collector_that_refuses_is_not_asked_again_and_again_by_a_gateway_that_closes(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits to be sent is sent once; the next attempt would come a second later."""
    monkeypatch.setattr("sealyard.metrics.otel._CLOSE_SECONDS", 0.3)
    collector.status = 503
    async with opened(tmp_path, collector.url) as yard:
        await yard.execute(ExecuteRequest(code="1 + 1"))

    assert len(collector.headers) == 1


async def test_an_endpoint_that_is_none_is_refused(tmp_path: Path) -> None:
    """With what it should look like."""
    with pytest.raises(InvalidConfig, match=r"otel\.endpoint is 'localhost:4318'. Give the URL of a collector"):
        async with opened(tmp_path, "localhost:4318"):
            pass


async def test_a_served_gateway_links_client_run_and_call_in_one_trace(tmp_path: Path, collector: Collector) -> None:
    """The client's trace goes on through the SDK's span for the request, our run and its call."""
    config = tmp_path / "sealyard.toml"
    command, *rest = warm.python("-m", "sealyard.examples.expenses")
    config.write_text(
        f"[upstreams.expenses]\ncommand = {command!r}\nargs = {rest!r}\n"
        f"[store]\npath = {str(tmp_path / 'sealyard.db')!r}\n[otel]\nendpoint = {collector.url!r}\n"
        "[sandbox]\nallow_weaker = true\ndata_packages = false\n",
        encoding="utf-8",
    )
    command, *rest = warm.python("-m", "sealyard", "serve", str(config))
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with Client(StdioServerParameters(command=command, args=rest), cache=None) as client:
        code = "from servers.expenses import list_employees\nlen(list_employees())"
        result = await client.call_tool("execute_code", {"code": code}, meta={"traceparent": parent})
        assert not result.is_error, result

    ours = collector.find("execute_tool execute_code")
    (call,) = [span for _, span in collector.spans if span.name.startswith("tools/call mcp__expenses__")]
    (request,) = [
        span for scope, span in collector.spans if scope != "sealyard" and span.span_id == ours.parent_span_id
    ]
    assert request.name == "tools/call execute_code"
    assert request.parent_span_id.hex() == "b7ad6b7169203331"
    assert {span.trace_id.hex() for span in (request, ours, call)} == {"0af7651916cd43dd8448eb211c80319c"}
    assert call.parent_span_id == ours.span_id


def test_without_the_extra_the_message_says_what_to_install() -> None:
    """And only who asks for traces needs it."""
    code = (
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        "from sealyard.metrics.otel import open_tracing\n"
        "try:\n"
        "    open_tracing('http://x', headers={}, service_name='s', version='1', conceal=str).__enter__()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("InvalidConfig otel.endpoint is set, and 'opentelemetry.sdk")
    assert "pip install 'sealyard[otel]'" in done.stdout


def test_nothing_is_traced_unless_asked_for() -> None:
    """The process keeps the provider that it has."""
    assert not isinstance(trace.get_tracer_provider(), Tracing)
