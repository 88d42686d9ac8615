"""Models of providers, over the providers' own SDKs, against servers on loopback that speak their wires."""

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.clients.model import OVER, Step, serving

from sealyard.agent import open_agent, open_model
from sealyard.config import Config, StoreConfig
from sealyard.config.settings import AgentConfig, PrivacyConfig
from sealyard.errors import InvalidRequest, ModelError, ModelRejected, ModelUnavailable
from sealyard.testing import FakeUpstream
from sealyard.values.chat import (
    ModelMessage,
    ModelReply,
    ModelRequest,
    ToolMessage,
    ToolOffer,
    ToolText,
    ToolUse,
    UserMessage,
)
from sealyard.yard import open_yard

PROVIDERS = {"anthropic": "", "openai": "/v1", "openai-chat": "/v1", "google": ""}
"""Each with the path that follows the address of its servers."""
SCHEMA = {"type": "object", "properties": {"code": {"type": "string"}}}
OFFER = ToolOffer(name="execute_code", description="Runs code.", schema=SCHEMA)
EMAIL = "anna.schmidt@example.com"


async def asked(name: str, vendor: Any, *messages: Any) -> tuple[str, ModelReply]:
    """The pieces of a reply of this vendor's model, and the whole."""
    async with open_model(name, url=vendor.url + PROVIDERS.get(name.partition(":")[0], ""), key="secret-key") as model:
        return await replied(model, *messages)


async def replied(model: Any, *messages: Any) -> tuple[str, ModelReply]:
    """The pieces of a reply, and the whole."""
    request = ModelRequest(system="Be brief.", tools=(OFFER,), messages=messages)
    pieces = [piece async for piece in model.reply(request)]
    assert isinstance(pieces[-1], ModelReply)
    return "".join(piece for piece in pieces if isinstance(piece, str)), pieces[-1]


@pytest.mark.behaviour("agent.providers")
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_call_and_its_answer_go_over_the_wire_of_each_provider(provider: str) -> None:
    """The model's call comes back with its own id, beside the conversation and the definitions."""
    with serving([Step("execute_code", {"code": "1 + 1"})]) as vendor:
        _, first = await asked(f"{provider}:some-model", vendor, UserMessage("Add."))
        (use,) = first.message.uses
        answer = ToolMessage((ToolText(id=use.id, name=use.name, text="2"),))
        _, second = await asked(f"{provider}:some-model", vendor, UserMessage("Add."), first.message, answer)

    assert (use.name, use.arguments, use.unreadable) == ("execute_code", {"code": "1 + 1"}, "")
    assert first.usage.input_tokens == first.usage.output_tokens == 1
    assert first.stop == "end"
    assert vendor.requests[-1].results in (["2"], ["None"])  # Google's wire has another key for it
    assert '"2"' in json.dumps(vendor.requests[-1].body)
    assert "Be brief." in json.dumps(vendor.requests[-1].body)
    assert second.message.uses == ()


@pytest.mark.parametrize("provider", ["anthropic", "openai-chat", "google"])
async def test_words_come_as_they_are_streamed(provider: str) -> None:
    """Pieces add up to the text of the reply."""
    with serving([]) as vendor:
        pieces, reply = await asked(f"{provider}:some-model", vendor, UserMessage("Hi."))

    assert pieces == reply.message.text == OVER


async def test_a_reply_of_another_model_is_sent_by_its_words_and_calls() -> None:
    """Its provider's own form means nothing to this one."""
    use = ToolUse(id="call-1", name="execute_code", arguments={"code": "2"})
    message = ModelMessage(text="Let me see.", uses=(use,), native='[{"kind": "other"}]', source="other:model")
    with serving([]) as vendor:
        answer = ToolMessage((ToolText(id="call-1", name="execute_code", text="2", is_error=True),))
        await asked("anthropic:some-model", vendor, UserMessage("Hi."), message, answer)

    (_, own, given) = vendor.requests[-1].body["messages"]
    assert own["content"] == [
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "call-1", "name": "execute_code", "input": {"code": "2"}},
    ]
    assert given["content"][0]["is_error"] is True


@pytest.mark.behaviour("agent.cache")
async def test_requests_of_a_conversation_begin_with_the_same_bytes() -> None:
    """The provider reads them from its cache, where Anthropic wants the end of what is stable marked."""
    steps = [Step("execute_code", {"code": str(number)}) for number in range(3)]
    messages: list[Any] = [UserMessage("Count.")]
    with serving(steps) as vendor:
        for _ in range(3):
            _, reply = await asked("anthropic:some-model", vendor, *messages)
            use = reply.message.uses[0]
            messages += [reply.message, ToolMessage((ToolText(id=use.id, name=use.name, text="done"),))]

    bodies = [request.body for request in vendor.requests]
    assert all(body["system"] == bodies[0]["system"] and body["tools"] == bodies[0]["tools"] for body in bodies)
    assert bodies[0]["system"][-1]["cache_control"]["type"] == "ephemeral"
    for earlier, later in itertools.pairwise(bodies):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]


class Vendor:
    """A server that answers every request in the same way, and keeps their bytes."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[bytes] = []


@contextmanager
def answering(status: int, body: bytes, *, kind: str = "application/json", **headers: str) -> Iterator[Vendor]:
    """Answers with this status and body."""
    vendor = Vendor()

    class Handler(BaseHTTPRequestHandler):
        protocol_version: ClassVar[str] = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            """Answer."""
            vendor.requests.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    vendor.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield vendor
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _error(message: str, kind: str = "some_error") -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message, "code": 1, "status": "X"}}).encode()


@pytest.mark.behaviour("agent.provider_errors")
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (429, ModelUnavailable),
        (500, ModelUnavailable),
        (503, ModelUnavailable),
        (529, ModelUnavailable),
        (400, ModelRejected),
        (401, ModelRejected),
        (404, ModelRejected),
    ],
)
async def test_each_refusal_of_a_provider_is_one_that_says_whether_to_try_again(
    provider: str, status: int, kind: type[ModelError]
) -> None:
    """Each is one request: trying again is the agent's, who tells the person so. The key is in no message."""
    with answering(status, _error("Some reason.")) as vendor, pytest.raises(ModelError) as caught:
        await asked(f"{provider}:some-model", vendor, UserMessage("Hi."))

    assert type(caught.value) is kind
    assert "Some reason." in str(caught.value)
    assert "secret-key" not in str(caught.value)
    assert len(vendor.requests) == 1


async def test_the_pause_that_a_provider_asks_for_is_known() -> None:
    """It is in a header of the refusal."""
    with (
        answering(429, _error("Slow down.", "rate_limit_error"), retry_after="7") as vendor,
        pytest.raises(ModelUnavailable) as caught,
    ):
        await asked("anthropic:some-model", vendor, UserMessage("Hi."))

    assert caught.value.retry_seconds == 7.0


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"data: {not json\n\n",
        b"data: [1, 2]\n\n",
        b'data: {"type": "unknown"}\n\n',
        b"\xff\xfe\x00",
        b"data: null\n\n",
    ],
    ids=["empty", "no JSON", "a list", "unknown", "no text", "null"],
)
async def test_an_answer_that_makes_no_sense_is_an_error_and_no_crash(provider: str, body: bytes) -> None:
    """A provider, or what stands between, may send anything."""
    with answering(200, body, kind="text/event-stream") as vendor:
        try:
            _, reply = await asked(f"{provider}:some-model", vendor, UserMessage("Hi."))
        except ModelError:
            return

    assert (reply.message.text, reply.message.uses) == ("", ())


async def test_a_provider_that_is_not_there_may_come_back() -> None:
    """The port is one that nobody listens at."""
    with answering(200, b"") as vendor:
        pass

    with pytest.raises(ModelUnavailable):
        await asked("openai-chat:some-model", vendor, UserMessage("Hi."))


@pytest.mark.parametrize(
    "name", ["", "claude", "nobody:model", "anthropic:"], ids=["empty", "no provider", "unknown", "no model"]
)
async def test_a_name_of_no_model_is_refused_with_an_example(name: str) -> None:
    """Before anything is sent; a name without a model is the provider's to refuse."""
    with (
        answering(404, _error("No such model.")) as vendor,
        pytest.raises((InvalidRequest, ModelRejected)) as caught,
    ):
        await asked(name, vendor, UserMessage("Hi."))

    assert "anthropic:" in str(caught.value)


async def test_a_provider_without_a_key_is_refused_with_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own message names the variable."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(InvalidRequest) as caught:
        async with open_model("anthropic:some-model"):
            pass

    assert "ANTHROPIC_API_KEY" in str(caught.value)


@pytest.mark.behaviour("agent.private")
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_no_private_value_is_in_the_bytes_that_leave(tmp_path: Path, provider: str) -> None:
    """Neither that of the person's message nor that of a tool; the person reads the model's words about them."""

    def customer() -> dict[str, str]:
        """The best customer."""
        return {"name": "Anna Schmidt", "email": EMAIL}

    def fail() -> None:
        """Fail with a value."""
        raise ValueError(f"No mail to {EMAIL}.")

    code = "from servers.shop import customer, fail\nprint(customer())\nfail()"
    with serving([Step("execute_code", {"code": code})]) as vendor:
        config = Config(
            store=StoreConfig(path=tmp_path / "s.db"),
            privacy=PrivacyConfig(mode="strict"),
            agent=AgentConfig(model=f"{provider}:some-model", url=vendor.url + PROVIDERS[provider], api_key="k"),
        )
        shop = FakeUpstream("shop", customer=customer, fail=fail)
        async with (
            open_yard(config, upstreams={"shop": shop}) as yard,
            open_agent(config, yard=yard) as agent,
        ):
            end = await agent.chat("Is bob.miller@example.org our best customer?", context={"user_id": "u-4711"})

    sent = json.dumps([request.body for request in vendor.requests])
    assert len(vendor.requests) == 2
    assert sent.count("__PII_email_") >= 3
    assert EMAIL not in sent
    assert "bob.miller" not in sent
    assert "u-4711" not in sent
    assert end.ended == "end"
