"""Private values planted in everything an upstream sends must come out of no channel, whatever code does with them."""

import asyncio
import base64
import contextlib
import hashlib
import json
import logging
import sqlite3
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client

from sealyard.broker.policy import PolicySettings, Rule
from sealyard.broker.upstreams import Response, ResponseFile
from sealyard.broker.upstreams.python import describe
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, PrivacyRule, StoreConfig, SurfaceConfig
from sealyard.metrics import exposition
from sealyard.privacy import TOKEN
from sealyard.sandbox.policy import DEFAULT
from sealyard.serve.mcp import build_server
from sealyard.skills.sharing import to_folder
from sealyard.testing import FakeUpstream
from sealyard.values.skills import SaveSkill, SkillExample, SkillSource, Trace, TraceCall
from sealyard.values.tools import ToolAnnotations
from sealyard.yard import Yard, open_yard

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

    def get_link() -> Response:
        """Get a link to a file."""
        return Response(
            value={
                "uri": f"https://files.example.com/?mail={PERSON['email']}",
                "name": PERSON["email"],
                "description": KEY,
            }
        )

    def get_file() -> Response:
        """Get a file."""
        file = ResponseFile(name="people.csv", mime="text/csv", content=get_csv().encode())
        return Response(value={"file": "people.csv", "mime_type": "text/csv", "bytes": 1}, files=(file,))

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
    config = Config(store=StoreConfig(path=folder / "sealyard.db"), privacy=privacy, **options)
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


@pytest.mark.behaviour("privacy.channels")
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


@pytest.mark.behaviour("privacy.strict")
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


@pytest.mark.behaviour("privacy.reveal")
async def test_values_reach_the_tool_that_tokens_are_handed_to(tmp_path: Path) -> None:
    """Whole, inside longer text, in another case, and as dictionary keys."""
    code = (
        "p = get_person()\n"
        "echo(text=p['email'])\n"
        "echo(text=f\"Dear {p['first_name']} {p['last_name']}, is {p['phone']} right?\")\n"
        "echo(text=p['email'].upper())\n"
        "echo(text=f\"https://x.example.com/?q={p['email']}&r={p['iban']}\")\n"
    )
    inside = PrivacyConfig(rules=(PrivacyRule(tools=("mcp__*__echo",), reveal="inside"),))
    async with gateway(tmp_path, inside) as (_, upstream, call):
        received = await call("execute_code", code=PREFIX + code)

    sent = [arguments["text"] for tool, arguments in upstream.calls if tool == "echo"]
    assert sent == [
        PERSON["email"],
        f"Dear {PERSON['first_name']} {PERSON['last_name']}, is {PERSON['phone']} right?",
        PERSON["email"],
        f"https://x.example.com/?q={PERSON['email'].replace('@', '%40')}&r={PERSON['iban']}",
    ]
    assert not planted_in(received)


@pytest.mark.usefixtures("quick_looks")
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


@pytest.mark.behaviour("privacy.files")
@pytest.mark.parametrize("mode", ["strict", "output"])
async def test_nothing_planted_is_in_any_file_of_the_gateway(
    tmp_path: Path, mode: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Journal, audit log and vault hold tokens and ciphertext; so do the write-ahead log and the log messages."""
    caplog.set_level(logging.DEBUG, logger="sealyard")
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


@pytest.mark.behaviour("privacy.foreign_token")
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


# Skills


SPELLED = " + ".join(repr(PERSON["email"][start : start + 5]) for start in range(0, len(PERSON["email"]), 5))
"""The address in pieces that nobody would recognise, put together when it runs."""
TEXT = f"Write to {PERSON['email']}, card {PERSON['card_number']}, {PERSON['iban']}, key {KEY}."
READING = ("get_person", "list_people", "get_text", "by_email", "fail", "echo")

SKILLS: dict[str, dict[str, Any]] = {
    "plain_text": {
        "code": f"# {TEXT}\nADDRESS = {PERSON['email']!r}\n\ndef plain_text(n: int) -> str:\n    return ADDRESS\n",
        "description": TEXT,
        "tags": [PERSON["email"]],
        "output": {"type": "string", "description": TEXT, "examples": [PERSON["email"]]},
        "examples": [{"inputs": {"n": 1}}],
    },
    "with_inputs": {
        "code": "def with_inputs(mail: str = '', card: int = 0):\n    return [mail, card]\n",
        "inputs": {
            "mail": {"type": "string", "description": TEXT, "examples": [PERSON["email"]]},
            "card": {"type": "integer", "enum": [0, int(PERSON["card_number"])], "description": TEXT},
        },
        "examples": [{"inputs": {"mail": PERSON["email"]}, "output": [PERSON["email"], 0]}],
    },
    "answers": {
        "code": "from servers.crm import *\n\ndef answers(n: int):\n"
        "    return [get_person(), list_people(), get_text(), by_email()]\n",
        "examples": [{"inputs": {"n": 1}}],
    },
    "fails": {
        "code": "from servers.crm import *\n\ndef fails(n: int):\n    raise ValueError(get_person(), get_text())\n",
        "examples": [{"inputs": {"n": 1}}],
    },
    "tool_fails": {
        "code": "from servers.crm import *\n\ndef tool_fails(n: int):\n    return fail()\n",
        "examples": [{"inputs": {"n": 1}}],
    },
    "repeats": {
        "code": "from servers.crm import *\n\ndef repeats(n: int):\n    return echo(text=str(get_person()))\n",
        "examples": [{"inputs": {"n": 1}, "output": "something else"}],
    },
    "made_value": {"code": f"def made_value(n: int):\n    return {SPELLED}\n", "examples": [{"inputs": {"n": 1}}]},
    "made_error": {
        "code": f"def made_error(n: int):\n    raise KeyError({SPELLED})\n",
        "examples": [{"inputs": {"n": 1}}],
    },
    "made_argument": {
        "code": f"from servers.crm import *\n\ndef made_argument(n: int):\n    return echo(text={SPELLED})\n",
        "examples": [{"inputs": {"n": 1}}],
    },
    "wrong_argument": {
        "code": f"from servers.crm import *\n\ndef wrong_argument(n: int):\n    return list_people(count={SPELLED})\n",
        "examples": [{"inputs": {"n": 1}}],
    },
    "not_recorded": {
        "code": "from servers.crm import *\n\ndef not_recorded(email: str):\n    return delete_person(email=email)\n",
        "examples": [{"inputs": {"email": PERSON["email"]}}],
    },
    "refused": {"code": f"import subprocess  # {TEXT}\n{PERSON['email']!r}\n"},
    "unread": {"code": f"def unread(n: int):\n    return {PERSON['email']!r} +\n"},
    "undefined": {"code": "undefined_thing\n", "inputs": {PERSON["email"]: "string"}},
    PERSON["email"]: {"code": "1\n"},
}
USES = {
    "value": "from skills import answers\nanswers(1)",
    "printed": "from skills import answers\nprint(answers(1))",
    "error": "from skills import fails\nfails(1)",
    "tool error": "from skills import tool_fails\ntool_fails(1)",
    "error of its own": "from skills import made_error\nmade_error(1)",
    "wrong input": "from skills import answers\nfrom servers.crm import get_person\nanswers(n=get_person()['email'])",
    "wrong name": "from skills import answers\nfrom servers.crm import *\nanswers(**{get_person()['email']: 1})",
    "not there": "import skills\nfrom servers.crm import get_person\nskills.load(get_person()['last_name'].lower())",
    "forged report": (
        "from skills import answers\nfrom servers.crm import get_text\n"
        "told = {'name': 'answers', 'version': '1.0.0'}\n"
        "call_tool('skill_' + 'began', told)\ncall_tool('skill_' + 'ended', told | {'error': get_text()})"
    ),
}
MODES = {
    "strict": PrivacyConfig(),
    "output": PrivacyConfig(mode="output"),
    "mixed": PrivacyConfig(rules=(PrivacyRule(tools=("mcp__crm__echo",), mode="off"),)),
}


def rows_of(path: Path) -> str:
    """Everything that a store holds, what is packed unpacked."""
    found = []
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                for cell in row:
                    if isinstance(cell, bytes):
                        with contextlib.suppress(zlib.error):
                            cell = zlib.decompress(cell)
                        cell = cell.decode("utf-8", "replace")
                    found.append(str(cell))
    return "\n".join(found)


async def read_only(upstream: FakeUpstream) -> None:
    """Let the server say that its tools change nothing, so that saving a skill calls them."""
    for name in READING:
        known = describe(upstream.tools[name]).definition
        upstream.definitions[name] = msgspec.structs.replace(known, annotations=ToolAnnotations(read_only=True))
    await upstream.refresh()


@pytest.mark.parametrize("mode", MODES)
async def test_no_planted_value_gets_out_through_skills(
    tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What is saved, found, loaded, served, exported, tested, reported and recorded of skills holds tokens only."""
    caplog.set_level(logging.DEBUG, logger="sealyard")
    heard: dict[str, str] = {}
    async with gateway(tmp_path, MODES[mode]) as (yard, upstream, call):
        await read_only(upstream)
        for name, request in SKILLS.items():
            heard[f"save {name}"] = await call("save_skill", name=name, **({"description": "It does."} | request))
        for number in range(4):  # shapes of answers are learned from some of them
            for name, code in USES.items():
                heard[f"use {name} {number}"] = await call("execute_code", code=code)
        await yard.tools.observed.settled()
        for name in list(SKILLS)[:-1]:
            heard[f"load {name}"] = await call("load_skill", name=name)
        heard["find"] = await call("find_skills", query="", limit=50)
        heard["find one"] = await call("find_skills", query=TEXT, limit=50)
        for skill in await yard.skills.shelf.list_all():
            whole = await yard.skills.get(skill.namespace, skill.name)
            heard[f"export {skill.name}"] = repr(to_folder(whole).files)
            tested = await yard.skills.test(skill.namespace, skill.name, principal="local")
            heard[f"test {skill.name}"] = repr([each.example for each in tested.rehearsals])
            await yard.skills.approve(skill.namespace, skill.name, skill.version, principal="local")
        heard["served"] = repr(await yard.skills.folders("local"))
        heard["analysis"] = repr(await yard.skills.analyze())
        kept = {skill.name: skill.status for skill in await yard.skills.shelf.list_all()}
        statuses = [(each.name, each.uses > 0) for each in await yard.store.skills.uses()]
    heard["store"] = rows_of(tmp_path / "sealyard.db")
    heard["log"] = caplog.text

    assert {name: found for name, text in heard.items() if (found := planted_in(text))} == {}
    assert set(kept.values()) == {"active"}  # approved; ten of the requests are skills
    assert len(kept) == 11
    assert ("answers", True) in statuses
    assert "__PII_email_" in heard["served"]  # what is left out everywhere was there


@pytest.mark.parametrize("mode", ["strict", "output"])
async def test_no_planted_value_comes_in_with_a_skill_from_elsewhere(tmp_path: Path, mode: Any) -> None:
    """Neither in its text nor in what was recorded for its examples: not in the store, and not for who is served it."""
    calls = (
        TraceCall(tool="mcp__crm__echo", version="1.0.0", arguments={"text": TEXT}, answer=dict(PERSON), error=TEXT),
    )
    example = SkillExample(inputs={"mail": PERSON["email"]}, output=TEXT, trace=Trace(recorded_at=1.0, calls=calls))
    request = SaveSkill(name="came", code=f"def came(mail: str):\n    return {TEXT!r}\n", description=TEXT)
    async with gateway(tmp_path, PrivacyConfig(mode=mode)) as (yard, _, call):
        source = SkillSource(origin="import", author="elsewhere")
        saved = await yard.skills.add(request, (example,), source, namespace="local", principal="local")
        quarantined = await call("load_skill", name="came")
        await yard.skills.approve("local", "came", saved.skill.version, principal="local")
        heard = [quarantined, await call("load_skill", name="came"), repr(await yard.skills.folders("local"))]
    heard.append(rows_of(tmp_path / "sealyard.db"))

    assert planted_in("\n".join(heard)) == []
    assert "__PII_email_" in heard[2]


async def test_skills_saved_without_privacy_are_concealed_once_it_is_on(tmp_path: Path) -> None:
    """The text in the store is what it was; whoever is shown it, or served it, gets tokens."""
    request = {"name": "plain_text", **SKILLS["plain_text"]}
    async with gateway(tmp_path, PrivacyConfig(mode="off")) as (_, _, call):
        saved = await call("save_skill", **request)
        shown = await call("load_skill", name="plain_text")
    async with gateway(tmp_path, PrivacyConfig()) as (yard, _, call):
        heard = [
            await call("load_skill", name="plain_text"),
            await call("find_skills", query="write"),
            repr(await yard.skills.folders("local")),
            await call("execute_code", code="from skills import plain_text\nplain_text(1)"),
        ]

    assert "active" in saved
    assert PERSON["email"] in shown
    assert planted_in("\n".join(heard)) == []
    assert all("__PII_email_" in text for text in heard)


QUESTIONS: dict[str, dict[str, Any]] = {
    "filter": {"conditions": [{"field": "ip", "operator": "is_null", "value": False}]},
    "aggregate": {"group_by": ["email", "last_name"], "aggregations": [{"function": "count"}]},
    "transform": {"steps": [{"compute": {"all": "concat(first_name, ' ', last_name, ' ', iban)"}}]},
    "validate": {"rules": [{"field": "email", "type": "number"}, {"field": "phone", "max_length": 3}], "samples": 5},
    "statistics": {"operation": "describe"},
}


@pytest.mark.parametrize("mode", ["strict", "output"])
async def test_nobody_who_watches_asks_or_counts_sees_a_planted_value(tmp_path: Path, mode: Any) -> None:
    """Events while code runs, answers of analyses and their mistakes, facts, reports and what Prometheus reads."""
    seen: dict[str, str] = {}
    async with gateway(tmp_path, PrivacyConfig(mode=mode)) as (yard, _, call), yard.live.follow() as events:
        watching = asyncio.create_task(collect(events, len(ESCAPES)))
        for code in ESCAPES.values():
            await call("execute_code", code=PREFIX + code, session="walk")
        seen["events"] = await watching
        for kind, parameters in QUESTIONS.items():
            source = {"tool": "mcp__crm__list_people", "arguments": {"count": 5}}
            seen[kind] = await call("execute_analysis", analysis_type=kind, source=source, parameters=parameters)
            assert '"isError":true' not in seen[kind], seen[kind]
            wrong = {"conditions": [{"field": PERSON["email"], "operator": KEY, "value": PERSON["ssn"]}]}
            seen[f"wrong {kind}"] = await call("execute_analysis", analysis_type=kind, source=source, parameters=wrong)
        await call("search_tools", query=f"mail to {PERSON['email']} {KEY}")
        await yard.observer.accounting.settled()
        seen["report"] = msgspec.json.encode(await yard.report()).decode()
        exposed, _ = exposition.render(await yard.operations.figures.sums(), await yard.operations.gauges())
        seen["prometheus"] = exposed.decode()
        await yard.store.flush()
    with contextlib.closing(sqlite3.connect(tmp_path / "sealyard.db")) as connection:
        seen["facts"] = "\n".join(text for (text,) in connection.execute("SELECT fact FROM facts"))

    assert {name: found for name, text in seen.items() if (found := planted_in(text))} == {}
    assert seen["events"].count('"kind":"ended"') == len(ESCAPES)
    assert "__PII_email" in seen["facts"]  # the query that was searched for, concealed
    assert 'sealyard_privacy_hidden_total{type="email"}' in seen["prometheus"]


async def collect(events: Any, runs: int) -> str:
    """All that a watcher sees until so many runs are over."""
    found = []
    async for event in events:
        found.append(msgspec.json.encode(event).decode())
        runs -= event.kind == "ended"
        if not runs:
            break
    return "\n".join(found)
