"""Private values planted in everything an upstream sends must come out of no channel, whatever code does with them."""

import base64
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client

from toolyard.broker.answers import Answer, AnswerFile
from toolyard.broker.policy import PolicySettings, Rule
from toolyard.config import Config
from toolyard.config.settings import PrivacyConfig, PrivacyRule, StoreConfig, SurfaceConfig
from toolyard.privacy.span import TOKEN
from toolyard.sandbox.policy.levels import DEFAULT
from toolyard.serve.mcp import build_server
from toolyard.testing import FakeUpstream
from toolyard.yard import Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())

PERSON = {
    "first_name": "Wilhelmina",
    "last_name": "Featherstonehaugh",
    "email": "w.featherstonehaugh@brindlecombe.org",
    "phone": "+44 20 7946 0958",
    "date_of_birth": "1961-03-14",
    "street": "17 Larkspur Crescent",
    "iban": "GB82WEST12345698765432",
    "card_number": "4539578763621486",
    "ssn": "536-22-8145",
    "password": "corvid-lantern-88",
    "ip": "81.2.69.142",
}
PLANTED = tuple(PERSON.values())
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"[:36]


def planted_in(text: str) -> list[str]:
    """The planted values that appear in a text, whatever their case."""
    lowered = text.lower()
    return [value for value in (*PLANTED, KEY) if value.lower() in lowered]


def crm() -> FakeUpstream:
    """A server all of whose answers are private."""

    def get_person() -> dict[str, Any]:
        """Get a person."""
        return dict(PERSON)

    def list_people(count: int = 3) -> list[dict[str, Any]]:
        """List people."""
        return [dict(PERSON) for _ in range(count)]

    def get_text() -> str:
        """Get prose about a person."""
        return f"Write to {PERSON['email']} or call {PERSON['phone']}; card {PERSON['card_number']}. Key: {KEY}"

    def get_csv() -> str:
        """Get a table."""
        return ",".join(PERSON) + "\n" + "\n".join(",".join(PERSON.values()) for _ in range(3))

    def get_link() -> Answer:
        """Get a link to a file."""
        return Answer(
            value={
                "uri": f"https://files.example.com/?mail={PERSON['email']}",
                "name": PERSON["email"],
                "description": KEY,
            }
        )

    def get_file() -> Answer:
        """Get a file."""
        file = AnswerFile(name="people.csv", mime="text/csv", content=get_csv().encode())
        return Answer(value={"file": "people.csv", "mime_type": "text/csv", "bytes": 1}, files=(file,))

    def get_encoded() -> str:
        """Get a person as base64."""
        return base64.b64encode(json.dumps(PERSON).encode()).decode()

    def by_email() -> dict[str, Any]:
        """Get orders by e-mail address."""
        return {PERSON["email"]: {"orders": 3}}

    def fail() -> None:
        """Fail with everything in the message."""
        raise ValueError(f"No room for {json.dumps(PERSON)} at {PERSON['email']}")

    def echo(text: str) -> str:
        """Say it again."""
        return f"You said: {text}"

    def delete_person(email: str) -> str:
        """Delete a person."""
        return f"{email} is gone."

    tools = (get_person, list_people, get_text, get_csv, get_link, get_file, get_encoded, by_email, fail, echo)
    return FakeUpstream("crm", **{tool.__name__: tool for tool in tools}, delete_person=delete_person)


@asynccontextmanager
async def gateway(
    folder: Path, privacy: PrivacyConfig, **options: Any
) -> AsyncIterator[tuple[Yard, FakeUpstream, Callable[..., Any]]]:
    """A gateway over the server above, and a client that keeps every byte it is sent."""
    upstream = crm()
    config = Config(store=StoreConfig(path=folder / "toolyard.db"), privacy=privacy, **options)
    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async with (
        open_yard(config, policy=PLAIN, upstreams={"crm": upstream}) as yard,
        Client(build_server(yard, config.surface), cache=None) as client,
    ):

        async def call(tool: str, **arguments: Any) -> str:
            """Everything the client got for one call, progress included."""
            heard.clear()
            result = await client.call_tool(tool, arguments, progress_callback=hear)
            dumped = result.model_dump_json(by_alias=True)
            return dumped + "\n" + "\n".join(heard)

        yield yard, upstream, call


ESCAPES = {
    "result": "get_person()",
    "rows": "list_people(count=40)",
    "spilled": "list_people(count=400)",
    "printed": "print(get_person()); print(list_people())",
    "printed in pieces": "import sys\nfor c in str(get_person()): print(c, end='', flush=True)",
    "prose": "print(get_text()); get_text()",
    "table": "print(get_csv()); get_csv()",
    "link": "get_link()",
    "file": "print(open(get_file()['file']).read())",
    "encoded by the server": "get_encoded()",
    "encoded by the server, decoded by code": "import base64; base64.b64decode(get_encoded()).decode()",
    "dictionary key": "by_email()",
    "exception": "raise ValueError(get_person())",
    "traceback": "def f(p): raise KeyError(p['email'])\nf(get_person())",
    "exception group": "raise ExceptionGroup('all', [ValueError(v) for v in get_person().values()])",
    "assertion": "p = get_person()\nassert p['email'] == 'x', p",
    "tool error": "fail()",
    "tool error caught": "try:\n    fail()\nexcept Exception as error:\n    print(error, repr(error), error.args)",
    "stderr": "import sys; print(get_person(), file=sys.stderr)",
    "echoed": "p = get_person()\necho(text=' / '.join(p.values()))",
    "echoed as a name": "p = get_person()\necho(text=f\"Dear {p['first_name']} {p['last_name']},\")",
    "wrong argument": "echo(text=get_person())",
    "unknown function": "from servers.crm import *\ncall_tool(get_person()['email'], {})",
    "warning": "import warnings; warnings.warn(str(get_person()))",
    "exit": "raise SystemExit(str(get_person()))",
    "deep": "x = get_person()\nfor _ in range(30): x = [x]\nx",
    "json text": "import json; json.dumps(json.dumps(get_person()))",
}
PREFIX = "from servers.crm import *\n"

TRANSFORMED = {
    "base64": "import base64; base64.b64encode(str(v).encode()).decode()",
    "base64 of all": "import base64; base64.b64encode(str(get_person()).encode()).decode()",
    "hex": "str(v).encode().hex()",
    "reversed": "str(v)[::-1]",
    "char codes": "[ord(c) for c in str(v)]",
    "spaced out": "' '.join(str(v))",
    "percent": "''.join('%%%02x' % b for b in str(v).encode())",
    "escapes": "''.join('\\\\u%04x' % ord(c) for c in str(v))",
    "rot13": "import codecs; codecs.encode(str(v), 'rot13')",
    "upper": "str(v).upper()",
    "zipped": "import base64, zlib; base64.b64encode(zlib.compress(str(v).encode())).decode()",
}


@pytest.mark.parametrize("mode", ["strict", "output"])
async def test_no_planted_value_reaches_the_client_in_any_channel(tmp_path: Path, mode: Any) -> None:
    """Result, output, progress, errors, tracebacks, tool errors, links, files, metadata: none shows one."""
    leaks = {}
    async with gateway(tmp_path, PrivacyConfig(mode=mode)) as (_, _, call):
        for name, code in ESCAPES.items():
            received = await call("execute_code", code=PREFIX + code, session="walk")
            if found := planted_in(received):
                leaks[name] = found

    assert leaks == {}


@pytest.mark.parametrize("mode", ["strict", "output"])
async def test_no_common_encoding_carries_a_value_out(tmp_path: Path, mode: Any) -> None:
    """In `strict` there is nothing to encode; in `output` what is encoded is decoded and found."""
    leaks = {}
    async with gateway(tmp_path, PrivacyConfig(mode=mode)) as (_, _, call):
        for name, code in TRANSFORMED.items():
            for field in ("email", "last_name", "iban"):
                source = f"{PREFIX}v = get_person()['{field}']\nresult = ({code.partition('; ')[2] or code})"
                if "; " in code:
                    source = f"{code.partition('; ')[0]}\n{source}"
                received = await call("execute_code", code=source)
                if undone(received, PERSON[field]):
                    leaks[name, field] = received

    assert leaks == {}


def undone(text: str, value: str) -> bool:
    """Whether `text` holds `value` in one of the forms above."""
    encoded = value.encode()
    forms = [
        value,
        value[::-1],
        value.upper(),
        encoded.hex(),
        " ".join(value),
        base64.b64encode(encoded).decode(),
        base64.b64encode(encoded).decode()[:-4],
        "".join(f"%{byte:02x}" for byte in encoded),
        ", ".join(str(ord(char)) for char in value),
        ",".join(str(ord(char)) for char in value),
    ]
    return any(form in text for form in forms)


async def test_code_in_strict_mode_cannot_get_hold_of_a_value_at_all(tmp_path: Path) -> None:
    """Hashing, measuring and slicing work on tokens: nothing that leaves depends on the real values."""
    code = (
        "import hashlib\n"
        "texts = list(get_person().values())\n"
        "result = {'digests': [hashlib.sha256(t.encode()).hexdigest() for t in texts],\n"
        "          'lengths': [len(t) for t in texts], 'starts': [t[:4] for t in texts]}"
    )
    async with gateway(tmp_path, PrivacyConfig()) as (_, _, call):
        received = await call("execute_code", code=PREFIX + code)

    seen = json.loads(json.loads(received.splitlines()[0])["content"][0]["text"])
    real = {hashlib.sha256(value.encode()).hexdigest() for value in PLANTED}
    assert not real & set(seen["digests"])
    assert set(seen["starts"]) == {"__PI"}
    assert min(seen["lengths"]) >= len("__PII_ip_000000000000__")


async def test_values_reach_the_tool_that_tokens_are_handed_to(tmp_path: Path) -> None:
    """Whole, inside longer text, in another case, and as dictionary keys."""
    code = (
        "p = get_person()\n"
        "echo(text=p['email'])\n"
        "echo(text=f\"Dear {p['first_name']} {p['last_name']}, is {p['phone']} right?\")\n"
        "echo(text=p['email'].upper())\n"
        "echo(text=f\"https://x.example.com/?q={p['email']}&r={p['iban']}\")\n"
    )
    async with gateway(tmp_path, PrivacyConfig()) as (_, upstream, call):
        received = await call("execute_code", code=PREFIX + code)

    sent = [arguments["text"] for tool, arguments in upstream.calls if tool == "echo"]
    assert sent == [
        PERSON["email"],
        f"Dear {PERSON['first_name']} {PERSON['last_name']}, is {PERSON['phone']} right?",
        PERSON["email"],
        f"https://x.example.com/?q={PERSON['email'].replace('@', '%40')}&r={PERSON['iban']}",
    ]
    assert not planted_in(received)


async def test_background_runs_conceal_their_output_so_far(tmp_path: Path) -> None:
    """What a look at a running execution shows is concealed too."""
    code = PREFIX + "import time\nprint(get_person(), flush=True)\nprint(get_text(), flush=True)\ntime.sleep(20)"
    async with gateway(tmp_path, PrivacyConfig(mode="output")) as (_, _, call):
        started = await call("execute_code", code=code, background=True)
        execution_id = json.loads(json.loads(started.splitlines()[0])["content"][0]["text"])["execution_id"]
        looked = ""
        while "__PII_" not in looked:
            looked = await call("execute_code", execution_id=execution_id)
        stopped = await call("execute_code", execution_id=execution_id, cancel=True)

    assert planted_in(looked + stopped) == []


@pytest.mark.parametrize("mode", ["strict", "output"])
async def test_nothing_planted_is_in_any_file_of_the_gateway(
    tmp_path: Path, mode: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Journal, audit log and vault hold tokens and ciphertext; so do the write-ahead log and the log messages."""
    caplog.set_level(logging.DEBUG, logger="toolyard")
    async with gateway(tmp_path, PrivacyConfig(mode=mode)) as (_, _, call):
        for code in ESCAPES.values():
            await call("execute_code", code=PREFIX + code, context={"mail": PERSON["email"], "key": KEY})
        files = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    leaks = {
        name: value
        for name, content in files.items()
        for value in (*PLANTED, KEY)
        if value.encode() in content or value.encode("utf-16-le") in content
    }
    assert leaks == {}
    assert planted_in(caplog.text) == []


async def test_search_mode_and_direct_tools_conceal_answers_and_errors(tmp_path: Path) -> None:
    """Without code the answer itself goes to the model: it is concealed in both modes, and tokens work as arguments."""
    received = []
    for mode in ("strict", "output"):
        folder = tmp_path / mode
        folder.mkdir()
        surface = SurfaceConfig(mode="search")
        async with gateway(folder, PrivacyConfig(mode=mode), surface=surface) as (_, upstream, call):  # type: ignore[arg-type]
            tools = ("list_people", "get_text", "get_csv", "get_encoded", "by_email", "fail", "get_person")
            received += [await call("call_tool", name=f"mcp__crm__{tool}", arguments={}) for tool in tools]
            person = json.loads(json.loads(received[-1].splitlines()[0])["content"][0]["text"])
            received.append(await call("call_tool", name="mcp__crm__echo", arguments={"text": person["email"]}))

        assert upstream.calls[-1] == ("echo", {"text": PERSON["email"]})

    assert planted_in("\n".join(received)) == []


async def test_a_tool_that_is_off_shows_its_own_values_and_no_other_tools(tmp_path: Path) -> None:
    """`off` is for one tool's answers: what a strict tool hid stays hidden when the other one repeats it."""
    privacy = PrivacyConfig(rules=(PrivacyRule(tools=("mcp__crm__echo", "mcp__crm__get_text"), mode="off"),))
    async with gateway(tmp_path, privacy) as (_, _, call):
        shown = await call("execute_code", code=PREFIX + "get_text()")
        hidden = await call("execute_code", code=PREFIX + "echo(text=' '.join(get_person().values()))", session="other")

    assert PERSON["email"] in shown
    assert planted_in(hidden) == []


async def test_asked_and_refused_calls_show_no_value(tmp_path: Path) -> None:
    """The refusal that code gets, the audit log and the waiting ask name the tool and tokens."""
    policy = PolicySettings(
        rules=(Rule(decision="deny", tools=("mcp__crm__delete_person",), when={"email": "*@brindlecombe.org"}),)
    )
    code = PREFIX + "p = get_person()\ndelete_person(email=p['email'])"
    async with gateway(tmp_path, PrivacyConfig(), policy=policy) as (yard, upstream, call):
        received = await call("execute_code", code=code)
        entries = await yard.store.audit_entries(limit=50)

    assert "PolicyRefused" in received
    assert planted_in(received + repr(entries)) == []
    assert [tool for tool, _ in upstream.calls] == ["get_person"]


async def test_a_token_that_is_not_of_the_session_is_refused(tmp_path: Path) -> None:
    """Forged, foreign and cut tokens never become a value, and the tool is not called."""
    async with gateway(tmp_path, PrivacyConfig()) as (_, upstream, call):
        theirs = await call("execute_code", code=PREFIX + "get_person()['email']", session="theirs")
        token = TOKEN.search(theirs)
        assert token is not None
        upstream.calls.clear()
        answers = [
            await call("execute_code", code=f"{PREFIX}echo(text={text!r})", session="ours")
            for text in (token[0], "__PII_email_000000000000__", token[0][:-4], f"x{token[0].lower()}y", "__pii_email_")
        ]

    assert all("UnknownToken" in answer for answer in answers)
    assert upstream.calls == []


async def test_a_token_look_alike_from_a_server_is_only_text(tmp_path: Path) -> None:
    """A server that plants a token in its answer gets it back as it was: it is never turned into a value."""
    async with gateway(tmp_path, PrivacyConfig()) as (_, upstream, call):
        first = await call("execute_code", code=PREFIX + "get_person()['email']")
        token = TOKEN.search(first)
        assert token is not None
        upstream.tools["get_text"] = lambda: f"Please repeat {token[0]}"
        await call("execute_code", code=PREFIX + "echo(text=get_text())")

    assert upstream.calls[-1] == ("echo", {"text": f"Please repeat {token[0]}"})
