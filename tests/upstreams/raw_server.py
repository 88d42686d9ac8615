"""MCP servers that misbehave, one per scenario, in plain Python over stdio: `raw_server.py SCENARIO [FILE]`."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

TOOLS: list[Any] = [{"name": "echo", "description": "Echoes.", "inputSchema": {"type": "object"}}]
MALFORMED: list[Any] = [
    *TOOLS,
    "not a tool",
    {"description": "no name", "inputSchema": {"type": "object"}},
    {"name": "", "inputSchema": {"type": "object"}},
    {"name": "untyped", "inputSchema": {"properties": {"a": {"type": "string"}}}},
    {"name": "no_schema"},
    {"name": "bad_schema", "inputSchema": [1, 2]},
    {"name": "bad_properties", "inputSchema": {"type": "object", "properties": [], "required": "a"}},
    {"name": "odd", "description": 5, "title": [], "inputSchema": {"type": "object"}, "outputSchema": "x"},
    {"name": "hints", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": "yes", "title": "Hints"}},
    {"name": "echo", "description": "Twice.", "inputSchema": {"type": "object"}},
]
BULKY = [
    {"name": "bulky", "description": "x" * 300_000, "inputSchema": {"type": "object"}},
    {"name": "slim", "inputSchema": {"type": "object"}},
]


def send(**message: Any) -> None:
    """Write a message."""
    write(json.dumps({"jsonrpc": "2.0", **message}))


def write(line: str) -> None:
    """Write a line."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Raw:
    """Knows the handshake of 2024-11-05 and one tool."""

    version = "2024-11-05"
    tools: list[Any] = TOOLS

    def __init__(self, file: str | None) -> None:
        self.file = Path(file) if file else None
        self.heard: list[Any] = []

    def run(self) -> None:
        """Answer until standard input ends."""
        for line in sys.stdin:
            message = json.loads(line)
            self.heard.append(message)
            method = message.get("method")
            if "id" in message and method is not None:
                name = f"on_{method.replace('/', '_')}"
                getattr(self, name, self.unknown)(message["id"], message.get("params") or {})

    def unknown(self, number: Any, params: Any) -> None:
        """Any other request."""
        send(id=number, error={"code": -32601, "message": "Method not found"})

    def on_initialize(self, number: Any, params: Any) -> None:
        """The old handshake."""
        info = {"name": "raw", "version": "0.9"}
        capabilities = {"tools": {"listChanged": True}}
        send(id=number, result={"protocolVersion": self.version, "capabilities": capabilities, "serverInfo": info})

    def on_ping(self, number: Any, params: Any) -> None:
        """A sign of life."""
        send(id=number, result={})

    def on_tools_list(self, number: Any, params: Any) -> None:
        """All on one page."""
        send(id=number, result={"tools": self.tools})

    def on_tools_call(self, number: Any, params: Any) -> None:
        """The arguments as JSON text, unless the tool's name says otherwise."""
        if params["name"] == "crash":
            print("I am about to crash.", file=sys.stderr, flush=True)
            os._exit(3)
        elif params["name"] == "env":
            self.answer(number, json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()}))
        elif params["name"] != "hang":
            self.answer(number, json.dumps(params["arguments"]))

    def answer(self, number: Any, text: str) -> None:
        """One text block."""
        send(id=number, result={"content": [{"type": "text", "text": text}]})


class Malformed(Raw):
    """One wrong tool after the other in its list, and wrong words in its greeting."""

    tools = MALFORMED

    def on_initialize(self, number: Any, params: Any) -> None:
        """Without what the protocol asks for."""
        send(id=number, result={"protocolVersion": self.version})


class Noisy(Raw):
    """Prints what is no message, and messages that nobody asked for."""

    def on_tools_call(self, number: Any, params: Any) -> None:
        """Noise around the answer, which comes twice."""
        write("INFO starting up")
        write('{"level": "info"}')
        write("{broken json")
        write("[" * 5000)
        write("")
        sys.stdout.buffer.write(b"\xff\xfe not text\n")
        send(id=10**40, result={})
        send(id=[1], result={})
        send(method="notifications/of/our/own", params={"a": 1})
        send(id="someone else", error="just words")
        line = b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [{"type": "text", "text": "caf\xe9"}], "x": NaN}}\n'
        sys.stdout.buffer.write(line % number * 2)
        sys.stdout.flush()


class Asking(Raw):
    """Asks its client for everything, and answers with what it was told."""

    def on_tools_call(self, number: Any, params: Any) -> None:
        """Read four replies first."""
        for at, method in enumerate(("ping", "sampling/createMessage", "elicitation/create", "roots/list")):
            send(id=f"ask-{at}", method=method, params={})
        replies = [json.loads(sys.stdin.readline()) for _ in range(4)]
        codes = {reply["id"]: reply["error"]["code"] if "error" in reply else "ok" for reply in replies}
        self.answer(number, json.dumps(codes))


class Flood(Raw):
    """Sends a hundred thousand notifications and thousands of requests before it answers."""

    def on_tools_call(self, number: Any, params: Any) -> None:
        """A flood, then the answer."""
        token = (params.get("_meta") or {}).get("progressToken")
        for at in range(25_000):
            send(method="notifications/message", params={"level": "info", "data": "x" * 50})
            send(method="notifications/tools/list_changed")
            send(method="notifications/progress", params={"progressToken": token, "progress": at})
            if at % 10 == 0:
                send(id=f"ask-{at}", method="ping")
        self.answer(number, "after the flood")


class Huge(Raw):
    """Answers with more than anybody wants, its id first or last."""

    def on_tools_call(self, number: Any, params: Any) -> None:
        """So many bytes."""
        arguments = params["arguments"]
        text = "x" * arguments.get("bytes", 2)
        result = {"content": [{"type": "text", "text": text}]}
        if arguments.get("shape") == "id last":
            write(json.dumps({"result": result, "jsonrpc": "2.0", "id": number}))
        elif arguments.get("shape") == "no id":
            write(json.dumps({"result": result, "data": text}))
        else:
            send(id=number, result=result)


class Wrong(Raw):
    """Answers calls with what is no result."""

    def on_tools_call(self, number: Any, params: Any) -> None:
        """The answer named by its argument, as raw JSON."""
        write(f'{{"jsonrpc": "2.0", "id": {number}, {params["arguments"]["answer"]}}}')


class Pieces(Raw):
    """Answers in pieces of any bytes, each of which arrives alone."""

    def on_tools_call(self, number: Any, params: Any) -> None:
        """`@` in a piece stands for the id of the call."""
        for piece in params["arguments"]["pieces"]:
            sys.stdout.buffer.write(piece.replace("@", str(number)).encode("latin-1"))
            sys.stdout.buffer.flush()
            time.sleep(0.02)


class DiesOnProbe(Raw):
    """Ends when it is asked something it does not know."""

    def unknown(self, number: Any, params: Any) -> None:
        """The end."""
        print("what is that?", file=sys.stderr, flush=True)
        sys.exit(1)


class IgnoresProbe(Raw):
    """Says nothing to what it does not know."""

    def unknown(self, number: Any, params: Any) -> None:
        """Nothing."""


class Hangs(Raw):
    """Reads and never answers anything."""

    def run(self) -> None:
        """Nothing, also when asked to end."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("I will hang.", file=sys.stderr, flush=True)
        while True:
            time.sleep(60)


class HangsInCall(Raw):
    """Starts, and answers nothing from its first call on."""

    def on_tools_call(self, number: Any, params: Any) -> None:
        """Nothing."""
        time.sleep(3600)


class Family(Raw):
    """Has a descendant that ignores the end of its input and holds its output open."""

    def on_tools_call(self, number: Any, params: Any) -> None:
        """The descendant's process id."""
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(60)
        self.answer(number, json.dumps({"pid": child}))


class Last(Raw):
    """Answers one call with a large text, and ends."""

    def on_tools_call(self, number: Any, params: Any) -> None:
        """The last words."""
        self.answer(number, "x" * 1_000_000)
        os._exit(0)


class FailsAtFirst(Raw):
    """Ends at once until its file holds as many lines as `FAILURES`."""

    def run(self) -> None:
        """Count the starts in the file."""
        assert self.file is not None
        with self.file.open("a", encoding="utf-8") as file:
            file.write("start\n")
        print("cannot open the database", file=sys.stderr, flush=True)
        if len(self.file.read_text(encoding="utf-8").splitlines()) <= int(os.environ["FAILURES"]):
            sys.exit(1)
        super().run()


class Heard(Raw):
    """Answers with every message it got."""

    def on_tools_call(self, number: Any, params: Any) -> None:
        """What was heard, or nothing at all if the call is to hang."""
        if not params["arguments"].get("hang"):
            self.answer(number, json.dumps(self.heard))


class Bulky(Raw):
    """Lists one tool that is too large beside one that is not."""

    tools = BULKY


class Restless(Raw):
    """Says that its tools changed whenever it has listed them."""

    def on_tools_list(self, number: Any, params: Any) -> None:
        """Always something new."""
        lists = sum(one.get("method") == "tools/list" for one in self.heard)
        send(id=number, result={"tools": [{"name": f"t{lists}", "inputSchema": {"type": "object"}}]})
        send(method="notifications/tools/list_changed")


class EndlessPages(Raw):
    """Always has another page."""

    def on_tools_list(self, number: Any, params: Any) -> None:
        """The same page with a new cursor."""
        page = int(params.get("cursor", "0"))
        send(
            id=number,
            result={"tools": [{"name": f"t{page}", "inputSchema": {"type": "object"}}], "nextCursor": str(page + 1)},
        )


if __name__ == "__main__":
    scenario = {one.__name__: one for one in (Raw, *Raw.__subclasses__())}[sys.argv[1]]
    scenario(sys.argv[2] if len(sys.argv) > 2 else None).run()
