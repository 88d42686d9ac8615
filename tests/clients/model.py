"""A scripted model on loopback, behind the wires of four vendors, for real clients to talk to.

It follows a list of steps: with so many results of tools in the conversation, that step is next. It keeps every
request, so that a test sees what a client would have sent to a real model, and what of it the gateway caused.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

Json = dict[str, Any]
_RANDOM = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}")
OVER = "All done."
"""What the model says after its last step."""


@dataclass(frozen=True)
class Step:
    """A call that the model makes."""

    tool: str
    arguments: Json | Callable[[Sequence[str]], Json]
    """Or what makes them of the results so far."""
    again: Callable[[str], object] = lambda result: False
    """True of a result after which the model makes the same call once more."""


@dataclass(frozen=True)
class Request:
    """One request of a client for the next turn of a conversation."""

    tools: dict[str, Json]
    """The definitions that it offers, by the names it gives them."""
    results: list[str]
    """The texts of all results of tools so far."""
    body: Json


@dataclass
class Model:
    """Answers with its steps, one after the other."""

    steps: Sequence[Step]
    url: str = ""
    home: str = ""
    """The home of its client. Requests are kept with `/home` for it and without random ids: two can be compared."""
    requests: list[Request] = field(default_factory=list)
    made: list[Step] = field(default_factory=list)
    """The step of each result."""
    missing: set[str] = field(default_factory=set)
    """Tools that a step needed and the client did not offer."""

    def __post_init__(self) -> None:
        self._coming = iter(self.steps)

    def next(self, request: Request) -> Step | str:
        """The next call, under the client's name for the tool, or the last words."""
        if not request.tools:  # a client asks for a title of the conversation, too
            return OVER
        self.requests.append(request)
        step = self._step(request.results)
        if step is None:
            return Step("final_answer", {"answer": OVER}) if "final_answer" in request.tools else OVER  # smolagents
        for name, definition in request.tools.items():
            if name == step.tool or name.endswith((f"_{step.tool}", f".{step.tool}", f"-{step.tool}")):
                arguments = step.arguments(request.results) if callable(step.arguments) else step.arguments
                return Step(name, arguments | _required(definition, arguments))
        self.missing.add(step.tool)
        return OVER

    def _step(self, results: Sequence[str]) -> Step | None:
        if len(results) < len(self.made):  # a client repeats a request
            return self.made[len(results)]
        again = self.made and self.made[-1].again(results[-1])
        step = self.made[-1] if again else next(self._coming, None)
        if step is not None:
            self.made.append(step)
        return step


def _required(definition: Json, given: Json) -> Json:
    """What a model gives for arguments that it has to give and does not need: null, the default, or what is empty."""
    function = definition.get("function", definition)
    schema = function.get("parameters") or function.get("input_schema") or {}
    needless = [name for name in schema.get("required", ()) if given.get(name) is None]
    return {name: _nothing(schema["properties"][name]) for name in needless}


def _nothing(schema: Json) -> Any:
    if "anyOf" in schema:
        return None
    if "enum" in schema:
        return schema.get("default", schema["enum"][0])
    empty = {"string": "", "object": {}, "array": [], "boolean": False, "number": 0, "integer": 0}
    return schema.get("default", empty[schema["type"]])


@contextmanager
def serving(steps: Sequence[Step]) -> Iterator[Model]:
    """A model with these steps, at a free port."""
    model = Model(steps)

    class Handler(_Handler):
        pass

    Handler.model = model
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ClassVar[Model]

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        """Answer a client that looks whether somebody is there."""
        self._reply(b"", "text/plain")

    def do_GET(self) -> None:
        """Answer a client that asks which models there are."""
        self._reply(b'{"data": [], "models": []}', "application/json")

    def do_POST(self) -> None:
        """Answer with the next turn, in the wire of the path."""
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        if home := self.model.home:
            text = text.replace(home, "/home").replace(home.replace("/", "-"), "-home")
        body = json.loads(_RANDOM.sub("0", text) or "{}")
        path = self.path.partition("?")[0]
        for ending, wire in _WIRES.items():
            if path.endswith(ending):
                request, answer, whole = wire
                asked = request(body)
                turn = self.model.next(asked), len(asked.results), body.get("model", "")
                if whole is not None and not body.get("stream"):
                    return self._reply(json.dumps(whole(*turn)).encode(), "application/json")
                return self._reply("".join(answer(*turn)).encode(), "text/event-stream")
        return self._reply(b'{"input_tokens": 1}', "application/json")  # counts of tokens, figures for the vendor

    def _reply(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _text(content: Any) -> str:
    """The text of a result, which comes as a string or in parts."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if "text" in part)


def _data(event: Json) -> str:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


# Anthropic: /v1/messages


def _messages(body: Json) -> Request:
    parts = [part for each in body["messages"] if isinstance(each["content"], list) for part in each["content"]]
    results = [_text(part.get("content")) for part in parts if part["type"] == "tool_result"]
    return Request({tool["name"]: tool for tool in body.get("tools", ())}, results, body)


def _answer_messages(turn: Step | str, number: int, name: str) -> Iterator[str]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": name, "content": []}
    ends: Json = {"stop_reason": None, "stop_sequence": None}
    yield _data(
        {"type": "message_start", "message": {**message, **ends, "usage": {"input_tokens": 1, "output_tokens": 1}}}
    )
    if isinstance(turn, str):
        block: Json = {"type": "text", "text": ""}
        delta: Json = {"type": "text_delta", "text": turn}
    else:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": turn.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(turn.arguments)}
    yield _data({"type": "content_block_start", "index": 0, "content_block": block})
    yield _data({"type": "content_block_delta", "index": 0, "delta": delta})
    yield _data({"type": "content_block_stop", "index": 0})
    reason = "end_turn" if isinstance(turn, str) else "tool_use"
    yield _data({"type": "message_delta", "delta": {**ends, "stop_reason": reason}, "usage": {"output_tokens": 1}})
    yield _data({"type": "message_stop"})


# OpenAI: /v1/responses


def _responses(body: Json) -> Request:
    found = [item for item in body["input"] if item.get("type") == "tool_search_output"]
    tools: dict[str, Json] = {}
    for tool in [*body.get("tools", ()), *(tool for item in found for tool in item["tools"])]:
        if tool["type"] == "namespace":  # the tools of one MCP server
            tools |= {f"{tool['name']}.{each['name']}": each for each in tool["tools"]}
        elif tool["type"] in ("function", "tool_search"):
            tools[tool.get("name", tool["type"])] = tool
    outputs = [item for item in body["input"] if item.get("type") in ("function_call_output", "tool_search_output")]
    results = [_text(item["output"]) if "output" in item else json.dumps(item["tools"]) for item in outputs]
    return Request(tools, results, body)


def _response(turn: Step | str, number: int, name: str) -> Json:
    if isinstance(turn, str):
        part = {"type": "output_text", "text": turn, "annotations": []}
        item: Json = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [part]}
    else:
        server, _, tool = turn.tool.rpartition(".")
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": tool}
        item |= {"arguments": json.dumps(turn.arguments)} | ({"namespace": server} if server else {})
        if tool == "tool_search":  # of the client itself
            item |= {"type": "tool_search_call", "execution": "client", "arguments": turn.arguments}
    usage: Json = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    response = {"id": "resp_1", "object": "response", "created_at": 1, "model": name, "status": "completed"}
    return response | {"output": [item], "usage": usage}


def _answer_responses(turn: Step | str, number: int, name: str) -> Iterator[str]:
    response = _response(turn, number, name)
    (item,) = response["output"]
    yield _data({"type": "response.created", "response": response | {"status": "in_progress", "output": []}})
    yield _data({"type": "response.output_item.added", "output_index": 0, "item": item})
    yield _data({"type": "response.output_item.done", "output_index": 0, "item": item})
    yield _data({"type": "response.completed", "response": response})


# OpenAI and compatible: /v1/chat/completions


def _chat(body: Json) -> Request:
    tools = {tool["function"]["name"]: tool for tool in body.get("tools") or ()}
    texts = [(each["role"], _text(each["content"])) for each in body["messages"]]
    # smolagents gives results as words of the user
    return Request(tools, [text for role, text in texts if role == "tool" or text.startswith("Observation:")], body)


def _completion(turn: Step | str, number: int, name: str) -> Json:
    message: Json = {"role": "assistant", "content": turn}
    if isinstance(turn, Step):
        function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "stop" if isinstance(turn, str) else "tool_calls"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "c_1", "object": "chat.completion", "created": 1, "model": name, "choices": [choice], "usage": usage}


def _answer_chat(turn: Step | str, number: int, name: str) -> Iterator[str]:
    whole = _completion(turn, number, name)
    (choice,) = whole["choices"]
    chunk = whole | {"object": "chat.completion.chunk", "usage": None}
    yield _data({**chunk, "choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]})
    yield _data({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    yield _data({**chunk, "choices": [], "usage": whole["usage"]})
    yield "data: [DONE]\n\n"


# Google: /v1beta/models/NAME:streamGenerateContent


def _contents(body: Json) -> Request:
    declared = [each for tool in body.get("tools", ()) for each in tool.get("functionDeclarations", ())]
    parts = [part for each in body["contents"] for part in each.get("parts", ())]
    answers = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    results = [str(answer.get("output", answer.get("error"))) for answer in answers]
    return Request({each["name"]: each for each in declared}, results, body)


def _answer_contents(turn: Step | str, number: int, name: str) -> Iterator[str]:
    part: Json = {"text": turn}
    if isinstance(turn, Step):
        part = {"functionCall": {"id": f"call_{number}", "name": turn.tool, "args": turn.arguments}}
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    yield _data({"candidates": [candidate], "usageMetadata": usage})


_WIRES: dict[str, tuple[Any, Any, Any]] = {
    "/v1/messages": (_messages, _answer_messages, None),
    "/v1/responses": (_responses, _answer_responses, _response),
    "/v1/chat/completions": (_chat, _answer_chat, _completion),
    ":streamGenerateContent": (_contents, _answer_contents, None),
}
"""The end of a path to the reader of its requests, and the writers of answers as a stream and as a whole."""
