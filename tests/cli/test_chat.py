"""`sealyard chat` as a user meets it: a real terminal, real servers and runs, a scripted model behind a real wire."""

import asyncio
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.cells import cell_len
from tests.cli.test_call import SERVER, add, add_server, answer, terminal
from tests.clients.model import Step, _answer_chat
from tests.conftest import polled

from sealyard.agent.scripted import PLAYED, QUESTIONS
from sealyard.cli.terminal import Margin, errors
from sealyard.store import open_store
from sealyard.values.access import ApprovalRequest

Command = Callable[..., subprocess.CompletedProcess[str]]
Json = dict[str, Any]
Reply = str | int | Step | Callable[[Sequence[str]], str | Step]
"""Words, a status of HTTP, a call, or what makes one of them of the results so far. Words with `<wait>` in them stop
there until `Script.may_end` is set."""

ASKS = '[[policy.rules]]\ntools = ["desk/wipe"]\ndecision = "ask"\n'
WIPE = "from servers.desk import wipe\nwipe(reason='dust')"
SLEEP = "import time\nprint('asleep', flush=True)\ntime.sleep(100)"
EMAIL = "ada@example.com"
FAKE = "Type 1234 to allow it once; anything else refuses: "


@dataclass
class Script:
    """Gives one reply to each request."""

    replies: list[Reply]
    requests: list[Json] = field(default_factory=list)
    may_end: threading.Event = field(default_factory=threading.Event)
    complaint: str = "busy"
    """The message of a status."""

    @property
    def read(self) -> str:
        """All that was sent to the model."""
        return json.dumps(self.requests)


class _Handler(BaseHTTPRequestHandler):
    script: ClassVar[Script]

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """Give the next reply."""
        script = self.script
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        script.requests.append(body)
        reply = script.replies.pop(0)
        if isinstance(reply, int):
            self.send_response(reply)
            self.send_header("x-should-retry", "false")  # otherwise the vendor's SDK repeats it for seconds
            self.end_headers()
            self.wfile.write(json.dumps({"error": {"message": script.complaint}}).encode())
            return
        if callable(reply):
            reply = reply([each["content"] for each in body["messages"] if each["role"] == "tool"])
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        head, _, tail = reply.partition("<wait>") if isinstance(reply, str) else (reply, "", "")
        events = list(_answer_chat(head, len(script.requests), "x"))
        self.wfile.write(events[0].encode())
        if tail:
            self.wfile.flush()
            script.may_end.wait(60)
            self.wfile.write(next(_answer_chat(tail, 0, "x")).encode())
        self.wfile.write("".join(events[1:]).encode())


@contextmanager
def scripted(config: Path, *replies: Reply) -> Iterator[Script]:
    """A model with these replies, which the configuration names."""

    class Handler(_Handler):
        script = Script(list(replies))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    add(config, f'[agent]\nmodel = "openai-chat:x"\nurl = "http://127.0.0.1:{server.server_port}"\napi_key = "k"\n')
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Handler.script
    finally:
        Handler.script.may_end.set()
        server.shutdown()
        thread.join()
        server.server_close()


def runs(code: str) -> Step:
    """A call that runs code."""
    return Step("execute_code", {"code": code})


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with the server of `sealyard call`'s tests."""
    (tmp_path / "desk.py").write_text(SERVER, encoding="utf-8")
    file = tmp_path / "sealyard.toml"
    file.write_text('[store]\npath = "store.db"\n', encoding="utf-8")
    add_server(file, "desk")
    return file


class Screen:
    """A chat at a terminal: what is typed, and what is shown."""

    def __init__(self, process: terminal, shown: Iterator[str]) -> None:
        self.process, self.shown, self.text = process, shown, ""

    def until(self, words: str) -> str:
        """What is shown from now on until these words, and a little more perhaps."""
        text = ""
        while words not in text:
            text += next(self.shown)
        self.text += text
        return text

    def say(self, line: str, *, until: str = "you> ") -> str:
        """Type a line, and return what is shown until the next prompt."""
        self.process.type(f"{line}\n")
        return self.until(until)

    def press(self, key: str) -> str:
        """Press a key, and return what is shown until the next prompt."""
        self.process.type(key)
        return self.until("you> ")

    def end(self, typed: str = "\x04") -> int:
        """Type the last thing, Ctrl-D by default, and return the exit code."""
        if typed:
            self.process.type(typed)
        self.text += "".join(self.shown)
        return self.process.wait(60)


@contextmanager
def chatting(*arguments: str, columns: int = 400) -> Iterator[Screen]:
    """A chat at a terminal, after its first prompt."""
    with terminal("chat", *arguments, screen=True, columns=columns) as (process, shown):
        screen = Screen(process, shown)
        screen.until("you> ")
        yield screen


def below(pid: int) -> set[int]:
    """The processes that a process has started, and theirs."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            children = [int(each) for each in task.read_text().split()]
            found |= set(children)
            waiting += children
    return found


def running(pids: set[int]) -> set[int]:
    """Those that still run."""
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


# One turn


@pytest.mark.behaviour("chat.turn")
def test_message_is_one_turn_whose_words_are_standard_output(installed: Command, config: Path) -> None:
    """Code is folded to its first line, its output stands beside it, and the result is a line with its size."""
    code = "from servers.desk import owner\n\nprint('one')\nprint('two')\nresult = {'names': len(owner())}"
    with scripted(config, runs(code), "There is one owner.") as model:
        done = installed("chat", "Who owns the desk?", "--config", str(config))

    assert (done.returncode, done.stdout) == (0, "There is one owner.\n")
    *lines, end = done.stderr.splitlines()
    assert lines == [
        "  code from servers.desk import owner (5 lines)",
        "  | one",
        "  | two",
        '  result {"names":2} (35 characters)',
    ]
    assert end.endswith(" 1 run, 4 tokens")
    assert "Who owns the desk?" in model.read


def test_events_for_programs_are_one_json_object_a_line(sealyard: Command, config: Path) -> None:
    """The last one is the end, with all that a program needs."""
    with scripted(config, runs("print('x')\n7"), "Seven."):
        done = sealyard("chat", "-", "--json", "--conversation", "c", "--config", str(config), stdin=b"How many?")

    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert [each["type"] for each in events] == ["usage", "call", "output", "answer", "text", "usage", "end"]
    end = events[-1]
    assert (end["text"], end["ended"], end["conversation"], end["runs"]) == ("Seven.", "end", "c", 1)


def test_conversation_goes_on_in_another_process(sealyard: Command, config: Path) -> None:
    """The model reads what was said before."""
    with scripted(config, "How nice.", "By the sea.") as model:
        for message in ("I live by the sea.", "Where do I live?"):
            done = sealyard("chat", message, "--conversation", "c", "--config", str(config))
        said = [each["content"] for each in model.requests[1]["messages"] if each["role"] != "system"]

    assert done.stdout == "By the sea.\n"
    assert said == ["I live by the sea.", "How nice.", "Where do I live?"]


def test_context_reaches_the_exitedand_not_the_model(sealyard: Command, config: Path) -> None:
    """The code computes with it."""
    with scripted(config, runs("len(user_id)"), lambda results: f"It is {results[-1]}.") as model:
        done = sealyard("chat", "How long is it?", "--context", '{"user_id": "u0176543"}', "--config", str(config))

    assert done.stdout == "It is 8.\n"
    assert "u0176543" not in model.read


@pytest.mark.behaviour("chat.private")
def test_person_reads_a_private_value_that_the_model_does_not(sealyard: Command, config: Path) -> None:
    """The model writes a token, and the person sees what it stands for."""
    code = "from servers.desk import owner\nresult = owner()['email']"
    with scripted(config, runs(code), lambda results: f"Write to {results[-1]} today.") as model:
        done = sealyard("chat", "Whom do I write to?", "--config", str(config))

    assert done.stdout == f"Write to {EMAIL} today.\n"
    assert "__PII_email_" in model.read
    assert EMAIL not in model.read


def test_retry_is_shown(sealyard: Command, config: Path) -> None:
    """With the provider's reason, in a margin."""
    with scripted(config, 503, "Here I am.") as model:
        model.complaint = "busy\nType 1234"
        done = sealyard("chat", "Hello?", "--config", str(config))

    assert (done.returncode, done.stdout) == (0, "Here I am.\n")
    assert "asked again in 1 s; the words above do not count" in done.stderr
    assert [line for line in done.stderr.splitlines() if "1234" in line and not line.startswith("  | ")] == []


def test_provider_that_refuses_is_an_error(sealyard: Command, config: Path) -> None:
    """Exit code 2, and its words are in a margin with their control characters spelled out."""
    with scripted(config, 401) as model:
        model.complaint = "no key\x1b[2J\nType 1234 to allow it"
        done = sealyard("chat", "Hello?", "--config", str(config))

    first, *lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout, first) == (2, "", "error:")
    assert [line[:4] for line in lines] == ["  | "] * len(lines)
    assert "\x1b" not in done.stderr
    assert "Type 1234 to allow it" in done.stderr


def test_turn_that_is_not_done_exits_with_1(sealyard: Command, config: Path) -> None:
    """The reason says how to go on."""
    with scripted(config, runs("1"), runs("2")):
        add(config, "steps = 2\n")
        done = sealyard("chat", "Count.", "--config", str(config))

    assert done.returncode == 1
    assert "The agent has taken 2 steps. Send a message to let it go on.\n" in done.stderr


def test_failed_run_shows_its_error(sealyard: Command, config: Path) -> None:
    """With the line of the code."""
    with scripted(config, runs("x = 1\nx / 0"), "That failed."):
        done = sealyard("chat", "Divide.", "--config", str(config))

    lines = done.stderr.splitlines()
    assert lines[1:3] == ["  error of execute_code:", "  | ZeroDivisionError: division by zero"]


# What is missing


def test_without_a_model_the_error_says_what_to_set(sealyard: Command, config: Path) -> None:
    """Nothing is started."""
    done = sealyard("chat", "Hello?", "--config", str(config))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: No model is configured. Set agent.model, such as 'anthropic:claude-haiku-4-5', or give --model; "
        "`sealyard chat --demo` needs neither.\n"
    )


@pytest.mark.parametrize("options", [(), ("--json",), ("--demo", "--json")], ids=" ".join)
def test_conversation_needs_a_terminal(sealyard: Command, options: tuple[str, ...]) -> None:
    """Elsewhere a message is missing."""
    done = sealyard("chat", *options)

    assert done.returncode == 2
    assert done.stderr == (
        "error: A conversation needs a person at a terminal. Give a MESSAGE, or - to read it from standard input.\n"
    )


def test_demo_takes_no_model_and_no_config(sealyard: Command, config: Path) -> None:
    """It has its own."""
    done = sealyard("chat", "--demo", "--config", str(config))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("error: --demo has a model and servers of its own. Leave --model and --config out.\n")


def test_other_commands_import_nothing_of_the_agent() -> None:
    """Nor does the chat import a provider before it opens one."""
    code = (
        "import sys\nfrom sealyard import cli\n"
        "for name in ('run', 'call', 'serve', 'approvals', 'tools', 'skills'):\n    cli.find_command(name)\n"
        "print('sealyard.agent' in sys.modules)\n"
        "cli.find_command('chat')\nprint('sealyard.agent' in sys.modules, 'pydantic_ai' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.split() == ["False", "True", "False"]


# The demo


@pytest.mark.behaviour("chat.demo")
def test_demo_without_a_terminal_plays_its_questions(
    installed: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In real runs: thousands of rows and a slow tool are behind single lines; a private value is shown at the end."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    done = installed("chat", "--demo")

    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0].startswith("The model is a script")
    assert [line for line in lines if line.startswith("you> ")] == [f"you> {question}" for question in PLAYED]
    assert "  | 5000 expenses read" in lines
    assert "  | route: 0%" in lines
    assert "| It is Dana, who has spent 3,405.51 dollars. The address is dana.endo774@example.com." in done.stdout
    assert '  result {"email":"__PII_email_' in done.stdout
    assert [*tmp_path.iterdir()] == []


def test_demo_at_a_terminal_takes_numbers_and_asks_before_it_books() -> None:
    """What is not in the script is answered with what is."""
    with chatting("--demo") as screen:
        unknown = screen.say("Sing a song!")
        screen.say("4", until="anything else refuses: ")
        own = screen.text.rpartition("Type ")[2].split()[0]
        booked = screen.say(own)
        exited = screen.end()

    assert exited == 0
    assert [f"| {number}. {question}" in unknown for number, question in enumerate(QUESTIONS, 1)] == [True] * 4
    assert "  tool: mcp__trips__book_campsite" in screen.text.splitlines()
    assert "| Booked: b0001, 2 nights from 2025-06-06, for 102 dollars." in booked


# At the terminal


@pytest.mark.behaviour("chat.stream")
def test_words_are_shown_before_the_reply_is_whole(config: Path) -> None:
    """The model has not ended when its first words are read."""
    with scripted(config, "One moment, <wait>please.") as model, chatting("--config", str(config)) as screen:
        first = screen.say("Hello?", until="One moment,")
        model.may_end.set()
        screen.until("please.")
        exited = screen.end()

    assert "please" not in first
    assert exited == 0


@pytest.mark.behaviour("chat.approval")
def test_call_is_asked_about_in_the_conversation(config: Path) -> None:
    """The code waits for the answer, and nothing that it prints comes between the two."""
    add(config, ASKS)
    with (
        scripted(
            config, runs(f"print('Nearly there', flush=True)\n{WIPE}"), "Wiped.", runs(WIPE), "You refused."
        ) as model,
        chatting("--config", str(config)) as screen,
    ):
        screen.process.type("Wipe it.\n")
        asked = answer(screen.process, screen.shown, "{id}")
        allowed = screen.until("you> ")
        screen.process.type("Once more.\n")
        answer(screen.process, screen.shown, "yes")
        refused = screen.until("you> ")
        exited = screen.end("/quit\n")

    assert exited == 0
    assert "  tool: mcp__desk__wipe" in asked.splitlines()
    assert "  | Nearly there" in (asked + allowed).splitlines()
    assert asked.endswith("anything else refuses: ")
    assert "  result wiped" in allowed
    assert "| Wiped." in allowed
    assert "ApprovalRefused" in refused
    assert len(model.requests) == 4


@pytest.mark.parametrize("channel", ["client", "operator"])
def test_person_at_the_terminal_is_both_client_and_operator(config: Path, channel: str) -> None:
    """Whichever of them may answer alone."""
    add(config, f'{ASKS}channels = ["{channel}"]\n')
    with scripted(config, runs(WIPE), "Wiped."), chatting("--config", str(config)) as screen:
        screen.process.type("Wipe it.\n")
        answer(screen.process, screen.shown, "{id}")
        allowed = screen.until("you> ")
        exited = screen.end()

    assert exited == 0
    assert "| Wiped." in allowed
    assert "error" not in allowed


@pytest.mark.parametrize("options", [(), ("--json",)], ids=" ".join)
def test_without_a_person_a_call_for_the_client_alone_is_refused(
    sealyard: Command, config: Path, options: tuple[str, ...]
) -> None:
    """At once: nobody else may answer."""
    add(config, f'{ASKS}channels = ["client"]\n')
    with scripted(config, runs(WIPE), "Refused.") as model:
        done = sealyard("chat", "Wipe it.", *options, "--config", str(config))

    assert done.returncode == 0
    assert "ApprovalRefused" in model.read


async def test_question_ends_when_it_is_answered_elsewhere(sealyard: Command, config: Path) -> None:
    """The turn goes on with that answer."""
    add(config, ASKS)

    async def waiting() -> ApprovalRequest:
        async with asyncio.timeout(60), open_store(config.with_name("store.db")) as store:
            return (await polled(store.approvals.waiting, bool))[0]

    with scripted(config, runs(WIPE), "Wiped."), chatting("--config", str(config)) as screen:
        await asyncio.to_thread(screen.say, "Wipe it.", until="anything else refuses: ")
        ask = await waiting()
        await asyncio.to_thread(sealyard, "approvals", "approve", ask.id, "--config", str(config))
        after = await asyncio.to_thread(screen.until, "you> ")
        exited = screen.end()

    assert exited == 0
    assert "It does not wait any more." in after
    assert "| Wiped." in after


@pytest.mark.behaviour("chat.cancel")
def test_ctrl_c_cancels_the_turn_and_keeps_the_conversation(config: Path) -> None:
    """Its run is killed, the next message is answered, and the model learns that the call was cut short."""
    with scripted(config, runs(SLEEP), "Good morning.") as model, chatting("--config", str(config)) as screen:
        screen.say("Sleep.", until="  | asleep")
        before = below(screen.process.pid)
        cancelled = screen.press("\x03")
        again = screen.say("Awake?")
        exited = screen.end()

    assert exited == 0
    assert "cancelled; the conversation is kept" in cancelled
    assert "| Good morning." in again
    assert "It is unknown whether this call was made" in model.read
    assert running(before) == set()


def test_ctrl_c_at_a_question_cancels_the_turn(config: Path) -> None:
    """The call is not made."""
    add(config, ASKS)
    with scripted(config, runs(WIPE)), chatting("--config", str(config)) as screen:
        screen.say("Wipe it.", until="anything else refuses: ")
        cancelled = screen.press("\x03")
        exited = screen.end()

    assert exited == 0
    assert "cancelled; the conversation is kept" in cancelled


def test_ctrl_c_twice_at_the_prompt_ends(config: Path) -> None:
    """The first one says so; a message between them begins anew."""
    with scripted(config, "Hello."), chatting("--config", str(config)) as screen:
        first = screen.press("\x03")
        screen.say("Hello?")
        screen.press("\x03")
        exited = screen.end("\x03")

    assert "Ctrl-C again ends" in first
    assert exited == 130


@pytest.mark.parametrize(
    ("end", "code"), [(signal.SIGHUP, 143), (signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["hup", "term", "int"]
)
def test_end_in_a_single_turn_leaves_nothing_behind(config: Path, end: signal.Signals, code: int) -> None:
    """No process of a run or of a server."""
    with (
        scripted(config, runs(SLEEP)),
        terminal("chat", "Sleep.", "--config", str(config), screen=True) as (process, shown),
    ):
        screen = Screen(process, shown)
        screen.until("  | asleep")
        before = below(process.pid)
        os.kill(process.pid, end)
        exited = screen.end("")

    assert exited == code
    assert len(before) > 1
    assert running(before) == set()


@pytest.mark.parametrize("end", [signal.SIGHUP, signal.SIGTERM])
def test_end_of_the_terminal_in_a_conversation_leaves_nothing_behind(config: Path, end: signal.Signals) -> None:
    """Though its turn is under way."""
    with scripted(config, runs(SLEEP)), chatting("--config", str(config)) as screen:
        screen.say("Sleep.", until="  | asleep")
        before = below(screen.process.pid)
        os.kill(screen.process.pid, end)
        exited = screen.end("")

    assert exited == 143
    assert len(before) > 1
    assert running(before) == set()


@pytest.mark.behaviour("chat.commands")
def test_commands_show_cost_tools_exitedand_conversations(config: Path) -> None:
    """And an unknown one shows what there is; none of them reaches the model."""
    code = "from servers.desk import echo\n\ndef double(text: str) -> str:\n    return text * 2\n\ndouble('a')"
    with (
        scripted(config, runs(code), "Doubled.", "Hello.") as model,
        chatting("--config", str(config), "--conversation", "c") as screen,
    ):
        nothing = screen.say("/save-skill double")
        screen.say("Double it.")
        shown = {line: screen.say(line) for line in ("/cost", "/tools wipe", "/tools", "/code", "/conversations")}
        unnamed, saved = screen.say("/save-skill"), screen.say("/save-skill double Doubles a text.")
        unknown, helped = screen.say("/nothing"), screen.say("/help")
        screen.say("/new d")
        screen.say(" /not a command")
        both = screen.say("/conversations")
        exited = screen.end("/quit\n")

    assert exited == 0
    assert "No run of this conversation has succeeded." in nothing
    rows = [line.split() for line in shown["/cost"].splitlines() if line.startswith(("this", "today"))]
    assert rows == [
        ["this", "turn", "2", "2", "-"],
        ["this", "conversation", "2", "2", "-"],
        ["today", "2", "2", "-"],
    ]
    assert "mcp__desk__wipe" in shown["/tools wipe"]
    assert "echo" in shown["/tools"]
    assert [line for line in shown["/code"].splitlines() if line.startswith("  |")] == [
        f"  | {line}".rstrip() for line in code.splitlines()
    ]
    assert "c (this one)" in shown["/conversations"]
    assert "The skill needs a name. Write /save-skill NAME DESCRIPTION." in unnamed
    assert "double 1.0.0 is a draft." in saved
    assert "There is no /nothing. There are /help, /cost, /tools, /code," in unknown
    assert "/save-skill" in helped
    assert "d (this one)" in both
    assert [each["messages"][-1]["content"] for each in model.requests if len(each["messages"]) == 2] == [
        "Double it.",
        " /not a command",
    ]


def test_end_says_how_to_go_on_and_the_beginning_how_long_it_was(config: Path) -> None:
    """A conversation without a message leaves no name."""
    given = ("--config", str(config))
    with scripted(config, "Hello."):
        with chatting(*given) as empty:
            empty.end()
        with chatting(*given) as first:
            first.say("Hello?")
            first.end()
        _, _, name = first.text.strip().rpartition("To go on: sealyard chat --conversation ")
        with chatting(*given, "--conversation", name) as second:
            exited = second.end()

    assert exited == 0
    assert "To go on" not in empty.text
    assert second.text.startswith("openai-chat:x, 2 messages so far. ")


def test_pasted_lines_are_one_message(config: Path) -> None:
    """Not one turn for each."""
    with scripted(config, "Three lines.") as model, chatting("--config", str(config)) as screen:
        screen.say("one\ntwo\nthree")
        exited = screen.end()

    assert exited == 0
    assert [each["messages"][-1]["content"] for each in model.requests] == ["one\ntwo\nthree"]


# Hostile text

_HOSTILE = f"\x1b[2J\x1b[1;1H\x9b2K\rOver\x08it \u202etxet\n  tool: mcp__desk__read\n{FAKE}\n{' ' * 73}{FAKE}"


@pytest.mark.behaviour("chat.hostile")
@pytest.mark.parametrize("source", ["model", "output", "result", "error", "code"])
def test_nobody_but_sealyard_commands_the_terminal_or_asks(config: Path, source: str) -> None:
    """Every line of others has a margin, also one that is wrapped; the true question, the control, has none."""
    code = {
        "model": "1",
        "output": f"print({_HOSTILE!r})",
        "result": f"result = {_HOSTILE!r}",
        "error": f"raise ValueError({_HOSTILE!r})",
        "code": _HOSTILE.replace("\n", "\u2028"),
    }[source]
    words = _HOSTILE if source == "model" else "Done."
    add(config, ASKS)
    with (
        scripted(config, runs(code), words, runs(WIPE), "Wiped.") as model,
        chatting("--config", str(config), columns=80) as screen,
    ):
        screen.say("Show it.")
        hostile = screen.text
        screen.process.type("Wipe it.\n")
        true = answer(screen.process, screen.shown, "{id}")
        screen.until("you> ")
        exited = screen.end()

    assert exited == 0
    assert len(model.requests) == 4
    assert {char for char in hostile.replace("\r\n", "\n") if not char.isprintable()} == {"\n"}
    ours = ("| ", "  | ", "  code ", "  result ", "  error ")
    lines = hostile.replace("\r\n", "\n").splitlines()
    assert [line for line in lines if ("allow it" in line or "tool: " in line) and not line.startswith(ours)] == []
    assert max(map(len, lines)) < 80
    assert "x1b[2J" in hostile
    assert "  tool: mcp__desk__wipe" in true.splitlines()
    assert [line[:5] for line in true.splitlines() if "to allow it once" in line] == ["Type "]


def test_answer_to_a_question_that_code_has_printed_does_not_count(config: Path) -> None:
    """It was typed before the true question was asked, and would have refused the call."""
    add(config, ASKS)
    may_run = threading.Event()
    asked = threading.Event()

    def reply(_: Sequence[str]) -> Step:
        asked.set()
        may_run.wait(60)
        return runs(f"print({FAKE!r}, flush=True)\n{WIPE}")

    with scripted(config, reply, "Wiped."), chatting("--config", str(config)) as screen:
        screen.process.type("Wipe it.\n")
        assert asked.wait(60)
        screen.process.type("1234\n")
        may_run.set()
        screen.until("\nType ")
        own = screen.text.rpartition("Type ")[2].split()[0]
        wiped = screen.say(own)
        exited = screen.end()

    assert exited == 0
    assert f"  | {FAKE.rstrip()}" in screen.text.splitlines()
    assert "| Wiped." in wiped


def test_margin_stands_before_every_row_however_a_text_is_cut_into_pieces() -> None:
    """Also with characters that take two columns or none, and no row is wider than the terminal."""
    chance = random.Random(7)
    letters = "ab \n\t\r\x1b\u202e\u3042\u0301\U0001f600\u200d "
    for _ in range(300):
        text = "".join(chance.choices(letters, k=chance.randint(0, 400)))
        cuts = sorted(chance.choices(range(len(text) + 1), k=4))
        margin = Margin("| ", further="|  ")
        shown = "".join(margin.take(text[i:j]) for i, j in itertools.pairwise([0, *cuts, len(text)])) + margin.end()
        rows = shown.removesuffix("\n").split("\n") if shown else []
        assert [row for row in rows if not row.startswith("|") or cell_len(row) >= errors.width] == []
        assert [char for char in shown if not char.isprintable() and char not in "\n\u200d"] == []
