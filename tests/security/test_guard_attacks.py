"""Attacks on the border as it is wired: what code, servers and guesses try to get past the guard of a session."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client

from sealyard.broker.policy import PolicySettings, Rule
from sealyard.broker.upstreams.server import Response, ResponseFile, to_answer
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, PrivacyRule, StoreConfig, SurfaceConfig
from sealyard.privacy import TOKEN
from sealyard.sandbox.policy import DEFAULT
from sealyard.sandbox.worker import Worker
from sealyard.serve.mcp import build_server
from sealyard.testing import FakeUpstream
from sealyard.yard import Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())

PERSON = {
    "email": "w.feather@brindle.org",
    "first_name": "May",
    "last_name": "Featherstonehaugh",
    "date_of_birth": "1961-03-14",
    "pin": "4711",
    "cvv": "123",
    "house_number": "17",
    "address": "Flat 12, The Old Rectory, 17 Larkspur Crescent, Brindlecombe Magna, Wessex WX1 2AB",
}
TABLE = "first_name,email\nRené,r.feather@brindle.org\n"


def get_person() -> dict[str, Any]:
    """Get a person."""
    return dict(PERSON)


def echo(text: str) -> str:
    """Say it again."""
    return f"You said: {text}"


def count(number: int) -> dict[str, Any]:
    """Say a number again."""
    return {"n": number}


def keep(data: dict[str, Any]) -> str:
    """Keep data."""
    return "kept"


def news() -> str:
    """Speak of somebody."""
    return f"The prize goes to {PERSON['email']}, born on {PERSON['date_of_birth']}."


def fail() -> Response:
    """Fail with a long message."""
    text = "x " * 985 + "w.featherstonehaugh@brindlecombe.org " + "y " * 4_000
    return to_answer({"isError": True, "content": [{"type": "text", "text": text}]})


def crm(**tools: Callable[..., Any]) -> FakeUpstream:
    """A server with the tools above, and these."""
    own = {tool.__name__: tool for tool in (get_person, echo, count, keep, news, fail)}
    return FakeUpstream("crm", **own, **tools)


@asynccontextmanager
async def gateway(
    folder: Path, privacy: PrivacyConfig | None = None, *, upstream: FakeUpstream | None = None, **options: Any
) -> AsyncIterator[tuple[Yard, FakeUpstream, Callable[..., Any]]]:
    """A gateway over the server above, and what runs code there."""
    upstream = upstream or crm()
    privacy = privacy or PrivacyConfig()
    config = Config(store=StoreConfig(path=folder / "sealyard.db"), privacy=privacy, **options)
    async with (
        open_yard(config, policy=PLAIN, upstreams={"crm": upstream}) as yard,
        Client(build_server(yard, config.surface), cache=None) as client,
    ):

        async def call(code: str, tool: str = "execute_code", **arguments: Any) -> str:
            if tool == "execute_code":
                arguments["code"] = f"from servers.crm import *\n{code}"
            result = await client.call_tool(tool, arguments)
            text: str = result.content[0].text  # type: ignore[union-attr]
            return text

        yield yard, upstream, call


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Everything that is sent to a worker, as it is written to its connection."""
    sent: list[bytes] = []
    send = Worker._send

    def spy(self: Worker, parts: list[bytes | memoryview]) -> None:
        sent.append(b"".join(parts))
        send(self, parts)

    monkeypatch.setattr(Worker, "_send", spy)
    return sent


@pytest.mark.parametrize("field", sorted(PERSON))
async def test_a_tool_that_repeats_its_argument_shows_no_value_however_short(
    tmp_path: Path, field: str, frames: list[bytes]
) -> None:
    """A PIN says nothing by itself, but the answer to the call that was handed it must not show it."""
    code = f"p = get_person()\necho(text=p[{field!r}]), echo(text='x ' + p[{field!r}] + ' y')"
    inside = PrivacyConfig(rules=(PrivacyRule(tools=("*",), reveal="inside"),))
    async with gateway(tmp_path, inside) as (_, upstream, call):
        received = await call(code)

    assert upstream.calls[1:] == [("echo", {"text": PERSON[field]}), ("echo", {"text": f"x {PERSON[field]} y"})]
    assert len(TOKEN.findall(received)) == 2
    assert not any(f": {PERSON[field]}".encode() in frame or f"x {PERSON[field]}".encode() in frame for frame in frames)


async def test_a_number_that_comes_back_as_a_number_is_concealed(tmp_path: Path) -> None:
    """The schema asks for an integer, so the tool gets one, and so does its answer hold one."""
    async with gateway(tmp_path) as (_, upstream, call):
        received = await call("count(number=get_person()['pin'])")

    assert upstream.calls[-1] == ("count", {"number": 4711})
    assert "4711" not in received


async def test_wrong_arguments_are_told_in_tokens(tmp_path: Path, frames: list[bytes]) -> None:
    """The message about a value that does not fit holds the token that code passed, not what it stands for."""
    code = (
        "told = []\n"
        "for value in get_person().values():\n"
        "    for arguments in ({'number': value}, {'number': [value]}, {'number': 1, value: 2}, {value: {}}):\n"
        "        try:\n"
        "            count(**arguments)\n"
        "        except Exception as error:\n"
        "            told.append(str(error))\n"
        "told"
    )
    async with gateway(tmp_path) as (_, _, call):
        received = await call(code)

    assert "it must be int" in received
    shown = received + b"".join(frames).decode()
    assert [value for value in ("May", "Featherst", "feather@", "Flat 12", "Wessex", "1961-03") if value in shown] == []


GUESSES = {
    "as a key beside the token": "keep(data={token: 1, guess: 2})",
    "as a name of an argument": "keep(data={}, **{token: 1, guess: 2})",
    "in a wrong argument": "keep(data='x ' + guess)",
    "in an unknown tool": "call_tool('q' * 40 + guess, {})",
    "as a cut token": "echo(text='__PII_' + guess)",
    "printed": "print(guess)",
    "raised": "raise ValueError(guess)",
}


@pytest.mark.parametrize("relaxed", [(), ("mcp__crm__news",)], ids=["strict", "one tool off"])
@pytest.mark.parametrize("way", sorted(GUESSES))
async def test_code_cannot_tell_whether_a_guess_is_right(tmp_path: Path, way: str, relaxed: tuple[str, ...]) -> None:
    """A right guess and a wrong one end alike, and what is shown of either is not the token of the real value."""
    rules = (PrivacyRule(tools=relaxed, mode="off"),) if relaxed else ()
    async with gateway(tmp_path, PrivacyConfig(rules=rules)) as (_, _, call):
        for field, guesses in {
            "email": ("w.feather@brindle.org", "x.feather@brindle.org"),
            "last_name": ("Featherstonehaugh", "Fotheringtonhaugh"),
        }.items():
            told = []
            for guess in guesses:
                code = f"guess = {guess!r}\ntoken = get_person()[{field!r}]\nprint(token)\n{GUESSES[way]}"
                received = await call(code)
                token = TOKEN.search(received)
                assert token is not None
                if "token" not in GUESSES[way]:
                    assert received.count(token[0]) == 1
                told.append(TOKEN.sub("T", received).replace(guess, "G"))
            assert told[0] == told[1]


async def test_names_of_files_are_concealed_and_their_files_are_found(tmp_path: Path, frames: list[bytes]) -> None:
    """What a server calls a file is part of its answer."""

    def get_file() -> Response:
        """Get a file."""
        resource = {"uri": "file:///536-22-8145.csv", "blob": "YSxiCjEsMgo=", "mimeType": "text/csv"}
        return to_answer({"content": [{"type": "resource", "resource": resource}]})

    async with gateway(tmp_path, upstream=crm(get_file=get_file)) as (_, _, call):
        received = await call("import os\nf = get_file()\nopen(f['file']).read(), os.listdir('files')")

    assert "a,b" in received
    assert "8145" not in received + b"".join(frames).decode()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le", "utf-16-be"])
async def test_text_files_are_concealed_in_whatever_encoding(tmp_path: Path, encoding: str) -> None:
    """A table as another program wrote it is no binary file."""

    def get_file() -> Response:
        """Get a file."""
        file = ResponseFile(name="people.csv", mime="text/csv", content=TABLE.encode(encoding))
        return Response(value={"file": "people.csv"}, files=(file,))

    code = f"text = open(get_file()['file'], encoding={encoding!r}).read()\n'René' in text, 'feather' in text, text"
    async with gateway(tmp_path, upstream=crm(get_file=get_file)) as (_, _, call):
        received = msgspec.json.decode(await call(code))

    assert received[:2] == [False, False]
    assert TOKEN.sub("T", received[2]) == "first_name,email\nT,T\n"


async def test_a_binary_file_stays_as_it_is(tmp_path: Path) -> None:
    """Nothing is changed in what is no text."""
    content = b"\x89PNG\r\n\x1a\n\x00\x00a.b@example.org\xff"

    def get_file() -> Response:
        """Get a file."""
        return Response(value={"file": "a.png"}, files=(ResponseFile(name="a.png", mime="image/png", content=content),))

    code = f"open(get_file()['file'], 'rb').read() == {content!r}"
    async with gateway(tmp_path, upstream=crm(get_file=get_file)) as (_, _, call):
        received = await call(code)

    assert received == "true"


async def test_a_long_error_is_looked_through_before_it_is_cut(tmp_path: Path) -> None:
    """Half of an address would not be found."""
    async with gateway(tmp_path) as (_, _, call):
        received = await call("fail()")

    assert "feather" not in received


async def test_a_long_exception_of_code_ends_before_a_value_that_was_cut(tmp_path: Path) -> None:
    """The sandbox cuts the message before anybody can look through it."""
    async with gateway(tmp_path, PrivacyConfig(mode="output")) as (_, _, call):
        received = [
            await call(f"raise ValueError('x' * {3_980 + n} + ' ' + get_person()['email'])") for n in (0, 8, 16)
        ]
        kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    assert "ValueError" in received[0]
    assert "feath" not in "".join(received)
    assert b"x w.f" not in kept


async def test_a_strict_rule_counts_where_the_rest_is_off(tmp_path: Path) -> None:
    """One server's answers can be concealed and all others left alone."""
    rule = PrivacyRule(tools=("mcp__crm__get_person",), mode="strict")
    async with gateway(tmp_path, PrivacyConfig(mode="off", rules=(rule,))) as (_, upstream, call):
        received = await call("p = get_person()\nprint(p, 'a.b@example.org')\necho(text=p['email'])")
        others = await call("news()", session="others")

    assert upstream.calls[1] == ("echo", {"text": PERSON["email"]})
    assert "feather" not in received
    assert "a.b@example.org" in received
    assert PERSON["email"] in others


async def test_an_output_rule_counts_where_the_rest_is_off(tmp_path: Path) -> None:
    """What such a tool gave to the code does not leave, encoded or not."""
    rule = PrivacyRule(tools=("mcp__crm__get_person",), mode="output")
    code = "import base64\np = get_person()\nassert '@' in p['email']\nprint(p['email'])\n"
    code += "base64.b64encode(p['email'].encode()).decode()"
    async with gateway(tmp_path, PrivacyConfig(mode="off", rules=(rule,))) as (_, _, call):
        received = await call(code)

    assert len(TOKEN.findall(received)) == 2
    assert "feather" not in received


async def test_what_one_tool_hides_another_that_is_off_does_not_show(tmp_path: Path) -> None:
    """Nobody has handed it over: the other server knows the value by itself."""
    rule = PrivacyRule(tools=("mcp__crm__news",), mode="off")
    async with gateway(tmp_path, PrivacyConfig(rules=(rule,))) as (_, _, call):
        hidden = await call("get_person()\nnews()")
        shown = await call("news()", session="other")

    assert TOKEN.sub("T", hidden) == "The prize goes to T, born on T."
    assert shown == news()


@pytest.mark.parametrize("mode", ["strict", "output"])
async def test_a_refused_token_puts_nothing_private_into_the_journal(tmp_path: Path, mode: Any) -> None:
    """The message quotes the argument; code may have written something real into it."""
    code = "p = get_person()\ntry:\n    echo(text='__PII_' + p['email'])\nexcept Exception as error:\n    print(error)"
    async with gateway(tmp_path, PrivacyConfig(mode=mode)) as (_, _, call):
        received = await call(code)
        kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    assert "is no token of this session" in received
    assert b"feather@" not in kept
    assert "feather@" not in received


async def test_sessions_that_saw_nothing_do_not_push_out_what_another_saw(tmp_path: Path) -> None:
    """Anybody can name new sessions: what the code of one holds must still be found when it leaves."""
    async with gateway(tmp_path, PrivacyConfig(mode="output")) as (yard, _, call):
        await call("open('x', 'w').write('Dear ' + get_person()['last_name'] + ', hello')", session="ours")
        for number in range(300):
            await yard.guards.of(f"local:{number}")
        received = await call("open('x').read()", session="ours")

    assert TOKEN.sub("T", received) == "Dear T, hello"


async def test_what_cannot_be_looked_through_is_withheld(tmp_path: Path, frames: list[bytes]) -> None:
    """A fault in a detector shows neither the value nor the fault's own words, which may quote it."""

    class Broken:
        def find(self, text: str) -> Any:
            raise KeyError(text)

    code = "try:\n    get_person()\nexcept Exception as error:\n    print(repr(error))"
    async with gateway(tmp_path) as (yard, _, call):
        guard = await yard.guards.of("local:default")
        guard._entry = guard._entry.with_detectors([Broken()])
        entering = await call(code)
        guard._exit = guard._exit.with_detectors([Broken()])
        leaving = await call("'a.b@example.org'")

    why = "it could not be looked through for private values (KeyError)"
    assert why in entering
    assert leaving == f"SealyardError: What was to be shown is withheld: {why}."
    assert b"feather" not in b"".join(frames)


async def test_a_call_of_a_hidden_tool_is_in_the_audit_log(tmp_path: Path) -> None:
    """It does not exist for who asks, and that they asked is written down, from code and without."""
    policy = PolicySettings(rules=(Rule(decision="deny", tools=("mcp__crm__keep",)),))
    async with gateway(tmp_path, policy=policy) as (yard, _, call):
        await call("call_tool('mcp__crm__' + 'keep', {})")
        seen = await yard.store.audit_entries(limit=20, kind="call")
    folder = tmp_path / "search"
    folder.mkdir()
    async with gateway(folder, policy=policy, surface=SurfaceConfig(mode="search")) as (yard, upstream, call):
        await call("", tool="call_tool", name="mcp__crm__keep")
        seen += await yard.store.audit_entries(limit=20, kind="call")

    assert [entry.body["tool"] for entry in seen] == ["mcp__crm__keep", "mcp__crm__keep"]
    assert all(entry.body["error"].startswith("UnknownTool: ") for entry in seen)
    assert upstream.calls == []
