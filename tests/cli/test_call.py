"""`sealyard call` as a user meets it: real servers, a real store, and a real terminal where a person is asked."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import warm
from tests.conftest import polled

from sealyard.store import open_store
from sealyard.values.access import ApprovalRequest

Command = Callable[..., subprocess.CompletedProcess[str]]

SERVER = '''
import os
import signal
from typing import Any, Literal

from sealyard.examples.toolbox import Media, Refused, Toolbox

toolbox = Toolbox("desk", instructions="")


@toolbox.tool()
def echo(
    text: str,
    number: int | None = None,
    share: float = 0.5,
    flag: bool = False,
    tags: list[str] = [],
    either: int | str = 0,
    kind: Literal["1", "two"] = "two",
    anything: Any = None,
) -> dict[str, Any]:
    """Give back the arguments."""
    return {key: value for key, value in locals().items() if value not in (None, [], 0, 0.5, False, "two")}


@toolbox.tool()
def read(name: str) -> Media:
    """Give a picture."""
    return Media(name=name, mime="image/png", content=b"\\x89PNG\\r\\n")


@toolbox.tool(destructive=True)
def wipe(reason: str = "") -> str:
    """Wipe the desk."""
    return f"wiped\\x1b[2J {reason}".rstrip()


@toolbox.tool()
def fail() -> int:
    """Fail."""
    raise Refused("The desk is \\x1b[2Jlocked. Ask its owner.")


@toolbox.tool(read_only=True)
def owner() -> dict[str, str]:
    """Say who owns the desk."""
    return {"name": "Ada Lovelace", "email": "ada@example.com"}


@toolbox.tool()
def hang(place: str) -> int:
    """Leave a sign there, and never answer."""
    with open(place + ".part", "w") as file:
        file.write(str(os.getpid()))
    os.rename(place + ".part", place)
    while True:
        signal.pause()


toolbox.run()
'''
SIGNATURE = (
    "echo(text: str, number: int | None = None, share: float = 0.5, flag: bool = False, tags: list[str] = [],"
    ' either: int | str = 0, kind: Literal["1", "two"] = "two", anything: Any = None) -> dict[str, Any]'
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with the server above, and a second one that shares one tool's name with it."""
    (tmp_path / "desk.py").write_text(SERVER, encoding="utf-8")
    (tmp_path / "other.py").write_text(SERVER.replace("def wipe", "def polish"), encoding="utf-8")
    file = tmp_path / "sealyard.toml"
    file.write_text('[store]\npath = "store.db"\n', encoding="utf-8")
    add_server(file, "desk")
    return file


def add_server(config: Path, name: str) -> None:
    """Adds the server of that script."""
    command, *arguments = warm.python("-P", str(config.with_name(f"{name}.py")))
    with config.open("a", encoding="utf-8") as file:
        file.write(f"[upstreams.{name}]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n")


def add(config: Path, text: str) -> None:
    """Adds lines to the configuration."""
    with config.open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture
def call(sealyard: Command, config: Path) -> Command:
    """Runs `sealyard call` with that configuration."""
    return lambda *arguments, **options: sealyard("call", *arguments, "--config", str(config), **options)


def result(done: subprocess.CompletedProcess[str]) -> Any:
    """The value that `--json` shows, of a call that the tool answered."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["result"]


@pytest.mark.behaviour("cli.call")
def test_answer_is_printed_and_the_footer_names_the_tool(installed: Command, config: Path) -> None:
    """JSON goes to standard output, and one line about the call to standard error."""
    done = installed("call", "desk.echo", "text=hello", "number=3", "--config", str(config))

    assert (done.returncode, json.loads(done.stdout)) == (0, {"text": "hello", "number": 3})
    words = done.stderr.split()
    assert words[:2] + words[-1:] == ["ok", "in", "(mcp__desk__echo)"]


def test_json_is_one_object_with_everything(call: Command) -> None:
    """For programs; standard error stays empty."""
    done = call("desk.wipe", "reason=dust", "--json")

    answer = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (len(answer.pop("execution_id")), answer.pop("execution_time_ms") >= 0) == (16, True)
    assert answer == {
        "tool": "mcp__desk__wipe",
        "status": "ok",
        "success": True,
        "result": "wiped\x1b[2J dust",
        "failure": None,
        "error": None,
        "files": [],
    }


@pytest.mark.parametrize(
    ("item", "value"),
    [
        ("text=5", {"text": "5"}),
        ("text=", {"text": ""}),
        ("text=a=b:=c", {"text": "a=b:=c"}),
        ("text=[1]", {"text": "[1]"}),
        ("number=5", {"number": 5}),
        ("number=-5", {"number": -5}),
        ("share=0.25", {"share": 0.25}),
        ("flag=true", {"flag": True}),
        ("flag=True", {"flag": True}),
        ('tags=["a","b"]', {"tags": ["a", "b"]}),
        ("either=7", {"either": "7"}),
        ("either:=7", {"either": 7}),
        ("kind=1", {"kind": "1"}),
        ('anything={"n": [1, null]}', {"anything": {"n": [1, None]}}),
        ("anything=plain words", {"anything": "plain words"}),
        ('anything:="7"', {"anything": "7"}),
    ],
)
def test_value_has_the_type_that_the_schema_takes(call: Command, item: str, value: dict[str, Any]) -> None:
    """A text stays one where a text fits; elsewhere it is read as JSON; `:=` is JSON in any case."""
    rest = [] if "text" in value else ["text=x"]

    assert result(call("echo", item, *rest, "--json")) == {"text": "x"} | value


def test_values_and_whole_objects_come_from_files_and_standard_input(call: Command, tmp_path: Path) -> None:
    """`@` reads one value, typed as if it stood there; items add to an object."""
    (tmp_path / "letter.txt").write_text("Dear Ada,\n", encoding="utf-8")
    (tmp_path / "tags.json").write_text('["a"]', encoding="utf-8")
    (tmp_path / "all.json").write_text('{"text": "from a file", "number": 1}', encoding="utf-8")
    given = b'{"text": "from input", "number": 2}'

    assert result(call("echo", f"text=@{tmp_path}/letter.txt", f"tags=@{tmp_path}/tags.json", "--json")) == {
        "text": "Dear Ada,\n",
        "tags": ["a"],
    }
    assert result(call("echo", "--arguments", f"{tmp_path}/all.json", "flag=true", "--json")) == {
        "text": "from a file",
        "number": 1,
        "flag": True,
    }
    for named in (["-"], ["--arguments", "-"]):
        assert result(call("echo", *named, "--json", stdin=given)) == {"text": "from input", "number": 2}
    assert result(call("echo", "--arguments", '{"text": "written here"}', "--json")) == {"text": "written here"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["echo", "words"],
            "'words' is not an argument. Write name=value, such as limit=5, or name:=JSON or name=@FILE.",
        ),
        (["echo", "=x"], "'=x' is not an argument. Write name=value, such as limit=5, or name:=JSON or name=@FILE."),
        (
            ["echo", "tags=a", "tags=b"],
            "'tags' is given twice. Give one value, or a list as JSON: tags:='[1, 2]'.",
        ),
        (
            ["echo", "--arguments", '{"text": "x"}', "text=y"],
            "'text' is given twice. Give one value, or a list as JSON: text:='[1, 2]'.",
        ),
        (["echo", "-", "-"], "Give the object of arguments once: with - or with --arguments."),
        (
            ["echo", "text=@/nowhere/at/all"],
            "'/nowhere/at/all' cannot be read: No such file or directory."
            " For the text itself write text:='\"@/nowhere/at/all\"'.",
        ),
        (
            ["echo", "text=x", "number=many"],
            f"Wrong arguments for echo: 'number' is 'many'; it must be int | None. Call it as {SIGNATURE}.",
        ),
        (
            ["echo", "txt=x"],
            "Wrong arguments for echo: 'text' is missing; it must be str; 'txt' is not one of its parameters; the"
            f" nearest is 'text'. Call it as {SIGNATURE}.",
        ),
        (
            ["desk.eco"],
            "No tool named 'desk.eco'. Nearest: 'mcp__desk__echo', 'mcp__desk__read', 'mcp__desk__wipe'.",
        ),
        (["zzz"], "No tool named 'zzz'. `sealyard tools` lists those there are."),
    ],
)
def test_mistake_in_the_request_is_one_sentence_and_exit_code_2(
    call: Command, arguments: list[str], message: str
) -> None:
    """It says what to write instead, and nothing reached the server."""
    done = call(*arguments)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {message}\n")


def test_arguments_that_are_not_json_are_a_mistake_in_the_request(call: Command) -> None:
    """The parser's own words stand between ours."""
    one, whole = call("echo", "tags:=[a]"), call("echo", "-", stdin=b"[1]")

    assert (one.returncode, one.stderr.startswith("error: tags is not JSON: ")) == (2, True)
    assert one.stderr.endswith(" Write tags=… for text.\n")
    assert (whole.returncode, whole.stderr) == (
        2,
        "error: Standard input is '[1]', not a JSON object. Give one such as '{\"n\": 3}'.\n",
    )


def test_bare_name_is_enough_if_one_server_has_it(call: Command, config: Path) -> None:
    """All spellings call the same tool; a name that two servers have is refused with both."""
    add_server(config, "other")

    spelled = [call(name, "--json") for name in ("wipe", "desk.wipe", "desk/wipe", "mcp__desk__wipe")]
    ambiguous = call("echo", "text=x")

    assert [json.loads(done.stdout)["tool"] for done in spelled] == ["mcp__desk__wipe"] * 4
    assert (ambiguous.returncode, ambiguous.stderr) == (
        2,
        "error: No tool named 'echo'. Nearest: 'mcp__desk__echo', 'mcp__other__echo'.\n",
    )


def test_tool_that_fails_exits_with_1(call: Command) -> None:
    """Its own words are shown, and as data with --json."""
    done, as_json = call("fail"), call("fail", "--json")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == "ToolFailed: The desk is \\x1b[2Jlocked. Ask its owner."
    answer = json.loads(as_json.stdout)
    assert (as_json.returncode, answer["status"], answer["result"]) == (1, "failed", None)
    assert (answer["success"], answer["error"]) == (False, "ToolFailed: The desk is \x1b[2Jlocked. Ask its owner.")
    assert answer["failure"] == {"type": "ToolFailed", "message": "The desk is \x1b[2Jlocked. Ask its owner."}


def test_server_that_does_not_start_is_named(call: Command, config: Path) -> None:
    """Its tools are unknown, so the reason stands beside that."""
    add(config, '[upstreams.gone]\ncommand = "/nowhere/at/all"\n')

    done = call("gone.read")

    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "warning: gone did not list its tools. See `sealyard tools --status`."


def test_file_in_an_answer_is_noted(call: Command) -> None:
    """The answer says what it is, and a line how code gets it."""
    done = call("read", "name=dot.png")

    files = json.loads(call("read", "name=dot.png", "--json").stdout)["files"]
    assert done.returncode == 0
    assert [(each["mime"], each["bytes"]) for each in files] == [("image/png", 6)]
    assert "`sealyard run` keeps files for code." in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_signal_ends_a_call_in_order(config: Path, number: signal.Signals, code: int) -> None:
    """The server is ended, the record says that the call was cancelled, and nothing is printed."""
    place = config.with_name("sign")
    command = [sys.executable, "-m", "sealyard", "call", "hang", f"place={place}", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # noqa: ASYNC220

        async def has_begun() -> bool:
            return place.exists()

        async def is_gone() -> bool:
            return not Path(f"/proc/{server}").exists()

        async with asyncio.timeout(100):
            await polled(has_begun, bool)
            server = int(place.read_text(encoding="utf-8"))
            process.send_signal(number)
            printed, errors = await asyncio.to_thread(process.communicate)
            await polled(is_gone, bool)
    async with open_store(config.with_name("store.db")) as store:
        (record,) = await store.executions(limit=5)

    assert (process.returncode, printed, errors.strip()) == (code, b"", b"")
    assert (record.form, record.status) == ("call", "cancelled")


async def test_call_goes_through_policy_journal_audit_and_metrics(sealyard: Command, config: Path) -> None:
    """It is an execution like any other: a rule stops it, and every record has it."""
    add(
        config,
        '[[policy.rules]]\ntools = ["desk/wipe"]\ndecision = "deny"\nreason = "Not today."\n'
        'when = { reason = "dust" }\n[[policy.rules]]\ntools = ["desk/fail"]\ndecision = "deny"\n',
    )
    given = ("--config", str(config))
    allowed = await asyncio.to_thread(sealyard, "call", "echo", "text=x", "--json", *given)
    denied = await asyncio.to_thread(sealyard, "call", "wipe", "reason=dust", *given)
    hidden = await asyncio.to_thread(sealyard, "call", "fail", *given)
    async with open_store(config.with_name("store.db")) as store:
        executions = await store.executions(limit=5)
    logged = await asyncio.to_thread(sealyard, "audit", "tail", *given, "--json")
    report = await asyncio.to_thread(sealyard, "metrics", "--format", "json", str(config))

    assert (denied.returncode, denied.stdout) == (1, ""), denied.stderr
    assert denied.stderr.splitlines()[0] == ("PolicyRefused: mcp__desk__wipe is denied by policy.rules[0]. Not today.")
    assert (hidden.returncode, hidden.stderr.splitlines()[0]) == (
        1,
        "PolicyRefused: The policy denies mcp__desk__fail. `sealyard policy explain mcp__desk__fail` names the rule.",
    )
    assert [(each.form, each.status, each.principal) for each in executions] == [
        ("call", "failed", "local"),
        ("call", "failed", "local"),
        ("call", "ok", "local"),
    ]
    assert executions[2].execution_id == json.loads(allowed.stdout)["execution_id"]
    assert '"verdict":"deny"' in logged.stdout.replace(" ", "")
    figures = json.loads(report.stdout)
    assert figures["execution"]["by_form"] == {"call": 3}
    assert figures["execution"]["use_cases"] == {"direct": 3}
    assert figures["upstreams"]["desk"]["errors"] == {"refused": 1}


def test_private_values_come_as_tokens_and_go_back_as_values(call: Command) -> None:
    """As for code: what is printed holds no value, and a token of one command means the same in the next."""
    shown = call("owner")
    email = json.loads(shown.stdout)["email"]

    echoed = call("echo", f"text=to {email}")
    whole = call("echo", f"text={email}", "--json")

    assert (email.startswith("__PII_email_"), "ada@" in shown.stdout + echoed.stdout + whole.stdout) == (True, False)
    assert result(whole) == {"text": email}


def test_text_of_a_server_commands_no_terminal(config: Path) -> None:
    """Escape sequences are spelled out on a terminal; a pipe gets them as they are."""
    with terminal("call", "wipe", "--config", str(config), screen=True) as (process, shown):
        text = "".join(shown)
        assert process.wait(60) == 0

    assert "wiped\\x1b[2J" in text


# A person


@pytest.fixture
def asking(config: Path) -> Path:
    """The configuration with a rule that asks before the desk is wiped."""
    add(config, '[[policy.rules]]\ntools = ["desk/wipe"]\ndecision = "ask"\n')
    return config


async def test_ask_without_a_terminal_says_how_to_answer(sealyard: Command, asking: Path) -> None:
    """A line on standard error has the command; an answer from there lets the call go on."""
    given = ("--config", str(asking))
    async with asyncio.timeout(100), open_store(asking.with_name("store.db")) as store:
        calling = asyncio.create_task(asyncio.to_thread(sealyard, "call", "wipe", *given))

        async def waiting() -> list[ApprovalRequest]:
            return await store.approvals.waiting()

        (ask,) = await polled(waiting, bool)
        await asyncio.to_thread(sealyard, "approvals", "approve", ask.id, *given)
        done = await calling

    assert (done.returncode, done.stdout) == (0, "wiped\n")
    assert done.stderr.splitlines()[0] == (f"mcp__desk__wipe waits for approval: sealyard approvals approve {ask.id}")


@pytest.mark.behaviour("approval.terminal")
@pytest.mark.parametrize("command", [["call", "wipe"], ["run", "-c", "from servers.desk import wipe\nwipe()"]])
@pytest.mark.parametrize(
    ("typed", "code"), [("{id}", 0), ("{id} always", 0), ("yes", 1), ("{id} forever", 1), ("{id}{id}", 1)]
)
def test_person_at_the_terminal_is_asked(asking: Path, command: list[str], typed: str, code: int) -> None:
    """Only the id of that very question allows the call."""
    with terminal(*command, "--config", str(asking)) as (process, shown):
        answer(process, shown, typed)
        rest = "".join(shown)

    assert process.wait(60) == code
    assert ("ApprovalRefused" in rest) == bool(code)


@pytest.mark.behaviour("approval.terminal")
def test_code_cannot_get_its_own_question_answered(asking: Path) -> None:
    """What was typed at a prompt that code has printed answers nothing: the real question comes after it."""
    code = (
        "import sys\nfrom servers.desk import wipe\n"
        "print('Type yes to see the result: ', flush=True)\n"
        "print(wipe('dust'))"
    )
    with terminal("run", "-c", code, "--config", str(asking), screen=True) as (process, shown):
        process.type("yes\n")  # before anything is asked: it waits in the terminal, and would refuse
        text = answer(process, shown, "{id}")
        text += "".join(shown)

    assert process.wait(60) == 0
    assert "tool: mcp__desk__wipe" in text
    assert "wiped\\x1b[2J dust" in text


def test_wrapped_row_of_a_fact_does_not_look_like_another_fact(asking: Path) -> None:
    """A value whose spaces reach to the edge of the terminal begins its next row deeper than a fact begins."""
    reason = f"reason={' ' * 52}  tool: mcp__desk__read"
    with terminal("call", "wipe", reason, "--config", str(asking), columns=80) as (process, shown):
        text = answer(process, shown, "{id}")
        "".join(shown)

    rows = text.splitlines()
    assert process.wait(60) == 0
    assert max(map(len, rows[:-1])) < 80
    assert [row for row in rows if row.startswith("  tool")] == ["  tool: mcp__desk__wipe"]
    assert [row for row in rows if "mcp__desk__read" in row] == ['      tool: mcp__desk__read"']


@pytest.mark.behaviour("approval.undisturbed")
def test_nothing_that_code_writes_comes_between_a_question_and_its_answer(asking: Path) -> None:
    """Nor onto a line of the question, nor over one; it is shown after the answer."""
    code = (
        "import asyncio\nfrom servers.desk import echo, wipe\n"
        "async def shout():\n    for _ in range(20):\n"
        "        print('\\rThis is harmless', end='', flush=True)\n        await echo(text='x')\n"
        "print('Nothing is asked: ', end='', flush=True)\n"
        "await asyncio.gather(wipe(), shout())"
    )

    async def until_shouted() -> None:
        async with asyncio.timeout(60), open_store(asking.with_name("store.db")) as store:
            await polled(lambda: store.audit_entries(limit=50, kind="call"), lambda calls: len(calls) == 20)

    with terminal("run", "-c", code, "--config", str(asking), screen=True) as (process, shown):
        text = ""
        while "anything else refuses: " not in text:
            text += next(shown)
        asyncio.run(until_shouted())
        own = text.rpartition("Type ")[2].split()[0]
        process.type(f"{own}\n")
        rest = "".join(shown)

    assert process.wait(60) == 0
    assert "  tool: mcp__desk__wipe" in text.splitlines()
    assert text.endswith("anything else refuses: ")
    assert rest.startswith(f"{own}\r\n")
    assert (text + rest).count("\\x0dThis is harmless") == 20


def test_a_question_that_ends_without_an_answer_leaves_its_line(asking: Path) -> None:
    """What code writes afterwards does not look like the end of the question."""
    add(asking, "[policy]\nask_seconds = 1.0\n")
    code = "from servers.desk import wipe\ntry:\n    wipe()\nexcept ToolError:\n    print('Done.')"
    with terminal("run", "-c", code, "--config", str(asking), screen=True) as (process, shown):
        text = "".join(shown)

    assert process.wait(60) == 0
    assert "anything else refuses: \r\nIt does not wait any more.\r\nDone.\r\n" in text


def test_operators_that_may_not_answer_are_not_asked_here(asking: Path) -> None:
    """With `policy.operators = false` the terminal is none of the ways to a person either."""
    add(asking, "[policy]\noperators = false\n")
    with terminal("call", "wipe", "--config", str(asking)) as (process, shown):
        text = "".join(shown)

    assert process.wait(60) == 1
    assert "Type " not in text
    assert "ApprovalRefused" in text


class terminal:  # noqa: N801 - reads as a function
    """A command in the foreground of a terminal: its process, and an iterator over what the terminal shows.

    Standard output is a pipe to nowhere unless it is the `screen`.
    """

    _ATTACH = (
        "import fcntl, os, sys, termios\n"
        "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'sealyard', *sys.argv[1:]])"
    )

    def __init__(self, *arguments: str, screen: bool = False, columns: int = 400) -> None:
        self._main, side = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", self._ATTACH, *arguments],
            stdin=side,
            stdout=side if screen else subprocess.DEVNULL,
            stderr=side,
            env={**os.environ, "TERM": "dumb", "COLUMNS": str(columns)},
            start_new_session=True,
        )
        os.close(side)
        self.pid, self.wait = self._process.pid, self._process.wait

    def __enter__(self) -> "tuple[terminal, Iterator[str]]":
        return self, self._shown()

    def __exit__(self, *_: object) -> None:
        os.close(self._main)  # hangs up a command that is still there
        self._process.wait(60)

    def type(self, text: str) -> None:
        """Types it."""
        os.write(self._main, text.encode())

    def _shown(self) -> Iterator[str]:
        while True:
            try:
                piece = os.read(self._main, 4096)
            except OSError:  # the last process has closed the terminal
                return
            if not piece:
                return
            yield piece.decode(errors="replace")


def answer(process: terminal, shown: Iterator[str], typed: str) -> str:
    """Types an answer when it is asked for, with the id that the question names; returns what was shown until then."""
    text = ""
    while "anything else refuses: " not in text:
        text += next(shown)
    _, _, after = text.rpartition("Type ")
    process.type(typed.format(id=after.split()[0]) + "\n")
    return text
