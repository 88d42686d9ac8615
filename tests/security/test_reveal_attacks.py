"""Attacks on what tools are handed: code glues, encodes and cuts values, and asks questions about them.

The server is a real one that says again whatever it is told. Each attack is shown to work where privacy is off.
"""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.shared.exceptions import MCPError
from tests import warm
from tests.mcp.upstreams import memory, served
from tests.security.echo_server import PERSON, TRICKS, Echo

from sealyard.broker.policy import PolicySettings, Rule
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, PrivacyRule, StoreConfig
from sealyard.privacy import TOKEN, Sent
from sealyard.privacy.echo import Echoes, find_echoes
from sealyard.sandbox.policy import DEFAULT
from sealyard.serve.mcp import build_server
from sealyard.serve.relay import build_relay
from sealyard.values.access import Approval
from sealyard.values.tools import UpstreamConfig
from sealyard.yard import ExecuteRequest, Yard, open_border, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
INSIDE = PrivacyConfig(rules=(PrivacyRule(tools=("*",), reveal="inside"),))
OFF = PrivacyConfig(mode="off")
FIELDS = sorted(PERSON)
FRAGMENT = 8
"""Characters of what the server said that may be left of it, at the most, one less."""

Say = Callable[..., Awaitable[str]]
"""Calls a tool with a text in which `{field}` stands for a person's field, and returns all that came of it."""


def told(body: dict[str, Any]) -> str:
    """What the audit log says of a call, but for the arguments, which are as code wrote them."""
    return json.dumps({**body, "arguments": None})


@asynccontextmanager
async def opened(folder: Path, privacy: PrivacyConfig, **settings: Any) -> AsyncIterator[tuple[Yard, Client]]:
    """A gateway over the server, and a client of it."""
    command, *arguments = warm.python("-m", "tests.security.echo_server")
    server = UpstreamConfig(
        name="crm", transport="stdio", command=command, args=tuple(arguments), cwd=str(Path(__file__).parents[2])
    )
    store = StoreConfig(path=folder / "sealyard.db")
    config = Config(upstreams={"crm": server}, store=store, privacy=privacy, **settings)
    async with (
        open_yard(config, policy=PLAIN) as yard,
        Client(build_server(yard, config.surface), cache=None) as client,
    ):
        await yard.snapshot()
        yield yard, client


@asynccontextmanager
async def by_code(folder: Path, privacy: PrivacyConfig) -> AsyncIterator[Say]:
    """A gateway whose code calls the tools."""
    async with opened(folder, privacy) as (yard, client):

        async def say(text: str, *, tool: str = "say", **arguments: Any) -> str:
            code = (
                "import os\nfrom servers.crm import *\np = get_person()\n"
                "print('tokens', *[each for each in p.values() if 'PII' in each])\n"
                "try:\n"
                f"    answer = call_tool('mcp__crm__{tool}', {{'text': {text!r}.format(**p), **{arguments!r}}})\n"
                "except Exception as error:\n    answer = str(error)\n"
                "files = [(name, open('files/' + name).read()) for name in os.listdir('files')] "
                "if os.path.isdir('files') else []\n"
                "print(answer, files)\nresult = [answer, files]"
            )
            heard: list[str] = []

            async def hear(progress: float, total: float | None, message: str | None) -> None:
                heard.append(message or "")

            result = await client.call_tool("execute_code", {"code": code}, progress_callback=hear)
            await yard.store.flush()
            shown = [result.model_dump_json(by_alias=True), result.content[0].text, *heard]  # type: ignore[union-attr]
            journal = await yard.store.audit_entries(limit=2, kind="call")
            return "\n".join([*shown, *(told(entry.body) for entry in journal)])

        yield say


@asynccontextmanager
async def by_proxy(folder: Path, privacy: PrivacyConfig) -> AsyncIterator[Say]:
    """A relay whose client calls the tools."""
    server = Echo().build()
    config = UpstreamConfig(name="crm", transport="stdio")
    async with open_border(Config(store=StoreConfig(path=folder / "sealyard.db"), privacy=privacy)) as border:
        relay = build_relay({"crm": config}, border, connect=lambda _: memory(server), name="gateway", version="7")
        heard: list[str] = []

        async def log(params: Any) -> None:
            heard.append(json.dumps(params.data))

        async with served(relay) as url, Client(url, mode="legacy", logging_callback=log, cache=None) as client:
            person: Any = (await client.call_tool("get_person", {})).structured_content

            async def hear(progress: float, total: float | None, message: str | None) -> None:
                heard.append(message or "")

            async def say(text: str, *, tool: str = "say", **arguments: Any) -> str:
                heard[:] = [f"tokens {' '.join(each for each in person.values() if 'PII' in each)}"]
                given = {"text": text.format(**person), **arguments}
                try:
                    result = await client.call_tool(tool, given, progress_callback=hear)
                    heard.append(result.model_dump_json(by_alias=True))
                    heard.append(json.dumps(result.structured_content))
                    heard.extend(getattr(block, "text", "") for block in result.content)
                except MCPError as error:
                    heard.extend((error.message, json.dumps(error.data)))
                await border.store.flush()
                entries = await border.store.audit_entries(limit=1, kind="call")
                return "\n".join([*heard, *(told(entry.body) for entry in entries)])

            yield say


WAYS = {"code": by_code, "proxy": by_proxy}


def pieces(said: Any) -> set[str]:
    """Every stretch of what a server says that is long enough to tell something, in each way it may be shown."""
    forms = {said} if isinstance(said, str) else {json.dumps(said), repr(said), msgspec.json.encode(said).decode()}
    forms |= {json.dumps(form)[1:-1] for form in forms}
    return {form[at : at + FRAGMENT] for form in forms for at in range(max(1, len(form) - FRAGMENT + 1))}


def left(trick: str, before: str, value: str, after: str, received: str) -> list[str]:
    """What `received` holds of what a trick makes of the value, and would not hold of another value."""
    other = "".join(each if not each.isalnum() else "5" if each.isdigit() and each != "5" else "7" for each in value)
    telling = pieces(TRICKS[trick](before + value + after)) - pieces(TRICKS[trick](before + other + after))
    shown = TOKEN.sub(" ", received)
    return sorted(piece for piece in telling if piece in shown)


@pytest.mark.parametrize("way", WAYS)
async def test_no_trick_brings_back_what_a_call_handed_over(tmp_path: Path, way: str) -> None:
    """Whatever letters code glues to a value and however the tool turns it: its token comes back and nothing of it."""
    leaks: dict[str, list[str]] = {}
    async with WAYS[way](tmp_path, INSIDE) as say:
        for trick in TRICKS:
            for field in ("card_number", "email", "last_name", "iban", "phone", "ssn", "date_of_birth", "password"):
                received = await say(f"q{{{field}}}q", trick=trick)
                if found := left(trick, "q", PERSON[field], "q", received):
                    leaks[f"{trick}: {field}"] = found
    assert leaks == {}


@pytest.mark.parametrize("way", WAYS)
async def test_every_trick_works_where_privacy_is_off(tmp_path: Path, way: str) -> None:
    """Else nothing would be proven."""
    async with WAYS[way](tmp_path, OFF) as say:
        for trick in TRICKS:
            received = await say("q{card_number}q", trick=trick)
            assert left(trick, "q", PERSON["card_number"], "q", received), trick


CHANNELS = ("answer", "error", "protocol error", "progress", "progress in pieces", "log", "blocks", "file", "link")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("privacy", [INSIDE, OFF], ids=["strict", "off"])
async def test_no_channel_brings_back_what_a_call_handed_over(tmp_path: Path, way: str, privacy: PrivacyConfig) -> None:
    """Answers, errors, progress, log messages, files, their names and links are one border; without it all leak."""
    value = PERSON["card_number"]
    leaks = []
    async with WAYS[way](tmp_path, privacy) as say:
        for channel in (*CHANNELS, "file name"):
            received = await say("q{card_number}q", channel=channel)
            if way == "proxy" and channel == "file":
                blobs = re.findall(r'"blob":"([A-Za-z0-9+/=]+)"', received)
                received = "".join(base64.b64decode(blob).decode() for blob in blobs)
            if channel == "progress in pieces":
                received = received.replace("\n", "")
            is_left = any(value[at : at + 5] in TOKEN.sub(" ", received) for at in range(len(value) - 4))
            leaks += [channel] if is_left else []
    # From code no message of a server's log reaches anybody, and of quick progress only some.
    unheard = {"log", "progress in pieces"} if way == "code" else set()
    assert set(leaks) - unheard == (set() if privacy is INSIDE else {*CHANNELS, "file name"} - unheard)


GLUED = (
    ("{email}{phone}", ("email", "phone")),
    ("{phone}{card_number}", ("phone", "card_number")),
    ("{first_name}{last_name}", ("first_name", "last_name")),
    ("x{iban}y{ssn}z", ("iban", "ssn")),
    ("{email}{email}", ("email",)),
    ("1{card_number}1", ("card_number",)),
    ("%71{last_name}%71", ("last_name",)),
    ("&#113;{last_name}&#113;", ("last_name",)),
)


@pytest.mark.parametrize("way", WAYS)
async def test_two_values_in_a_row_give_away_no_part_of_either(tmp_path: Path, way: str) -> None:
    """Not the domain of an address, nor the beginning of a number: both come back as their tokens."""
    async with WAYS[way](tmp_path, INSIDE) as say:
        for text, fields in GLUED:
            for trick in ("as it is", "in capitals", "in base64 behind one", "backwards", "over lines"):
                received = await say(text, trick=trick)
                # Ids are random, and may hold four digits of anything.
                shown = re.sub(r"[0-9a-f]{12,}", " ", TOKEN.sub(" ", received).casefold())
                for field in fields:
                    parts = re.findall(r"[^\W_]{4,}", PERSON[field].casefold())
                    assert [part for part in parts if part in shown or part[::-1] in shown] == [], (text, trick)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("privacy", [INSIDE, OFF], ids=["strict", "off"])
async def test_what_was_stored_with_letters_glued_to_it_is_not_read_back(
    tmp_path: Path, way: str, privacy: PrivacyConfig
) -> None:
    """The second step of the attack: a later call, which is handed nothing, reads what the first one wrote."""
    tricks = ("as it is", "in capitals", "backwards", "in base64 behind two", "in hex", "over lines", "in JSON escapes")
    leaks = []
    async with WAYS[way](tmp_path, privacy) as say:
        for field in ("card_number", "email", "last_name", "first_name", "iban", "ssn", "phone"):
            await say(f"q{{{field}}}q", tool="keep")
            for trick in tricks:
                received = await say("", tool="recall", trick=trick)
                leaks += [(field, trick)] if left(trick, "q", PERSON[field], "q", received) else []
    assert bool(leaks) == (privacy is OFF)


@pytest.mark.parametrize("way", WAYS)
async def test_the_token_that_was_handed_over_comes_back_as_itself(tmp_path: Path, way: str) -> None:
    """Code can go on with it: what the tool says is the token with code's own letters beside it."""
    async with WAYS[way](tmp_path, INSIDE) as say:
        received = await say("q{card_number}q")
        later = await say("", tool="recall") if (await say("x{card_number}y", tool="keep")) else ""
    tokens = re.search(r"tokens (.*)", received.replace("\\n", "\n"))
    assert tokens is not None
    token = next(each for each in tokens[1].split() if "credit_card" in each)
    assert f"q{token}q" in received
    assert f"x{token}y" in later


async def test_a_cursor_made_of_what_was_handed_over_leads_on(tmp_path: Path) -> None:
    """An encoded word with a value in it is one token, and the tool that is handed that gets the very word."""
    code = (
        "from servers.crm import *\np = get_person()\n"
        "alone = say(text=p['email'], trick='in base64')['title']\n"
        "cursor = say(text=p['email'], trick='in base64 of a longer text')['title']\n"
        "keep(text=cursor)\nagain = recall()['title']\n"
        "result = [cursor, again, alone, p['email']]"
    )
    async with opened(tmp_path, PrivacyConfig()) as (yard, client):
        received = await client.call_tool("execute_code", {"code": code})
        cursor, again, alone, email = msgspec.json.decode(received.content[0].text)  # type: ignore[union-attr]
        (kept,) = await yard.guards.find(cursor)

    assert TOKEN.fullmatch(cursor)
    assert again == cursor
    assert alone == email
    assert kept.value == TRICKS["in base64 of a longer text"](PERSON["email"])


@pytest.mark.parametrize("size", [3_000, 300_000])
async def test_no_file_is_read_in_an_encoding_that_hides_a_value(tmp_path: Path, size: int) -> None:
    """Code that appends to a file can make it look like UTF-16 and then append a value, which is plain text."""
    code = (
        "from servers.crm import *\np = get_person()\n"
        f"append(text='a\\0' * {size})\n"
        "clean = open(download()['file'], 'rb').read()\n"
        "append(text=p['card_number'])\n"
        "try:\n    content = open(download()['file'], 'rb').read()[-16:].decode()\n"
        "except Exception as error:\n    content = str(error)\n"
        "result = [len(clean), ''.join(chr(ord(each) + 128) for each in content)]"
    )
    async with opened(tmp_path, PrivacyConfig()) as (_, client):
        received = await client.call_tool("execute_code", {"code": code})

    length, content = msgspec.json.decode(received.content[0].text)  # type: ignore[union-attr]
    assert length == 2 * size
    assert "".join(chr(ord(each) - 128) for each in content) == (
        "The answer of 'mcp__crm__download' is withheld: a file in it is UTF-16 and holds a private value in another "
        "encoding."
    )


# Whole strings only


@pytest.mark.parametrize("way", WAYS)
async def test_by_default_a_token_is_revealed_only_where_it_is_a_whole_string(tmp_path: Path, way: str) -> None:
    """What stands beside a value is not for code to choose; the error says what to do instead."""
    async with WAYS[way](tmp_path, PrivacyConfig()) as say:
        refused = await say("q{card_number}q")
        answered = await say("{card_number}", trick="between letters")

    assert "only as the whole value of an argument" in refused
    assert '"verdict": null' in refused
    assert re.search(r"zz__PII_credit_card_[0-9a-f]{12}__zz", answered)
    assert PERSON["card_number"] not in refused + answered


@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_that_never_gets_values_gets_tokens(tmp_path: Path, way: str) -> None:
    """Such as one that computes: it counts the characters of the token."""
    rules = (PrivacyRule(tools=("mcp__crm__say",), reveal="never"),)
    async with WAYS[way](tmp_path, PrivacyConfig(rules=rules)) as say:
        received = await say("q{card_number}q", trick="in percent signs")

    assert "%5F%5F%50%49%49" in received  # __PII


# Questions about values


QUESTIONS = {
    "probe_unique": ["[p['date_of_birth'], '1961-03-14']", "[p['date_of_birth'], '1961-03-15']"],
    "probe_choice": ["p['date_of_birth']", "p['ssn']"],
    "probe_constant": ["p['date_of_birth']", "p['ssn']"],
    "probe_pattern": ["p['date_of_birth']", "p['ssn']"],
    "probe_longest": ["p['date_of_birth']", "p['ssn']"],
    "probe_shortest": ["p['date_of_birth']", "p['ssn']"],
    "probe_least": ["p['card_number']", "p['date_of_birth']"],
    "probe_kind": ["p['card_number']", "p['email']"],
    "probe_any": ["p['date_of_birth']", "p['ssn']"],
    "probe_not": ["p['date_of_birth']", "p['ssn']"],
    "probe_if": ["{'day': p['date_of_birth']}", "{'day': p['ssn']}"],
    "probe_names": ["{p['date_of_birth']: 1}", "{p['ssn']: 1}"],
}
"""By tool: an argument whose value the schema takes, and one that it does not, or the other way round."""


@pytest.mark.parametrize("decision", ["deny", "ask", "allow"])
async def test_schemas_answer_no_question_about_a_value(tmp_path: Path, decision: Any) -> None:
    """Whether a value fits is not checked here: the policy decides first, and after it the server alone."""
    rule = Rule(tools=("crm/probe_*",), decision=decision, when={"value": {"exists": True}})
    policy = PolicySettings(rules=(rule,), operators=False)
    asked = ",\n".join(f"({tool!r}, {value})" for tool, values in QUESTIONS.items() for value in values)
    code = (
        "from servers.crm import get_person\np = get_person()\nresult = []\n"
        f"for tool, value in [{asked}]:\n    try:\n"
        "        result.append(str(call_tool('mcp__crm__' + tool, {'value': value})))\n"
        "    except Exception as error:\n        result.append(type(error).__name__)"
    )
    async with opened(tmp_path, INSIDE, policy=policy) as (_, client):
        received = await client.call_tool("execute_code", {"code": code})

    told = msgspec.json.decode(received.content[0].text)  # type: ignore[union-attr]
    expected = {"deny": "PolicyRefused", "ask": "ApprovalRefused", "allow": "{'ok': True}"}[decision]
    assert told == [expected] * (2 * len(QUESTIONS))


GUESSED = (
    "from servers.crm import *\np = get_person()\nresult = []\n"
    "for text in [p['date_of_birth'], p['date_of_birth'], '1961-03-14']:\n    try:\n        say(text=text)\n"
    "        result.append('allowed')\n"
    "    except Exception as error:\n        result.append(str(error).partition('(It was')[2])"
)


@pytest.mark.parametrize("decision", ["always", "refuse"])
async def test_what_a_person_said_of_a_token_says_nothing_of_a_guess(tmp_path: Path, decision: Any) -> None:
    """A call with a token and one with a guess in its place are two: a person is asked for each."""
    policy = PolicySettings(rules=(Rule(tools=("crm/say",), decision="ask"),))
    async with opened(tmp_path, INSIDE, policy=policy) as (yard, _):
        running = asyncio.create_task(yard.execute(ExecuteRequest(code=GUESSED)))
        for asked in range(2):
            while not (asks := await yard.approvals.waiting()):
                await asyncio.sleep(0)
                assert not running.done(), f"Asked only {asked} times."
            how = decision if not asked else "refuse"
            await yard.approvals.answer(
                asks[0].id, Approval(decision=how, by="ann", channel="cli", reason="", answered_at=1.0)
            )
        result = await running

    first = "allowed" if decision == "always" else ""
    again = "allowed" if decision == "always" else " asked for before in this run.)"
    assert result.outcome.result == [first, again, ""]


async def test_a_mistake_beside_a_token_is_told_before_anybody_is_asked(tmp_path: Path) -> None:
    """What is wrong whatever the token stands for: a name, a kind, a value that code wrote itself."""
    policy = PolicySettings(rules=(Rule(tools=("crm/*",), decision="ask"),), operators=False)
    code = (
        "token = '__PII_email_0123456789ab__'\nresult = []\n"
        "for tool, given in [('probe_kind', {'value': [token]}), ('probe_unique', {'value': {'a': token}}),\n"
        "    ('count', {'number': token, 'add': 'x'})]:\n    try:\n"
        "        call_tool('mcp__crm__' + tool, given)\n"
        "    except Exception as error:\n        result.append(str(error))"
    )
    async with opened(tmp_path, INSIDE, policy=policy) as (_, client):
        received = await client.call_tool("execute_code", {"code": code})

    told = msgspec.json.decode(received.content[0].text)  # type: ignore[union-attr]
    assert [each.startswith("Wrong arguments for ") for each in told] == [True] * 3
    assert "'add' is 'x'; it must be int" in told[2]
    assert "'number'" not in told[2].partition("Call it as")[0]


async def test_a_refusal_does_not_say_what_is_in_doubt_about_a_value(tmp_path: Path) -> None:
    """Code learns that the rule denies; the audit log says why."""
    rule = Rule(tools=("crm/say",), decision="deny", when={"text": "*brindlecombe.org"})
    policy = PolicySettings(rules=(rule,))
    code = (
        "from servers.crm import *\np = get_person()\nresult = []\n"
        "for text in [p['email'] + ' ', 'x@BRINDLECOMBE.org']:\n    try:\n        say(text=text)\n"
        "    except Exception as error:\n        result.append(str(error))"
    )
    async with opened(tmp_path, INSIDE, policy=policy) as (yard, client):
        received = await client.call_tool("execute_code", {"code": code})
        entries = await yard.store.audit_entries(kind="decision")

    private, own = msgspec.json.decode(received.content[0].text)  # type: ignore[union-attr]
    assert private.endswith("is in doubt, which counts as fitting.")
    assert own.endswith("counts as fitting: it differs only in case, spacing or spelling.")
    assert all("only in case" in entry.body["reason"] for entry in entries)


# Guesses at a part of a value, which is lengthened letter by letter


LENGTHENED = {
    "in the same call": "write(title=value, tags=guesses)['tags']",
    "in one string": "write(title=value, tags=' '.join(guesses))['tags'].split()",
    "in keys": "list(write(title=value, tags=dict.fromkeys(guesses, 1))['tags'])",
    "stored before": "[write(title='', tags=guesses), write(title=value)][1]['tags']",
    "read back later": "[write(title='', tags=guesses), write()][1]['tags']",
    "by windows": "[write(title='', tags=windows), write(title=value)][1]['tags']",
    "in base64": "write(title=value, tags=encoded)['tags']",
    "in percent signs": "write(title=value, tags=percented)['tags']",
    "sorted": "[write(title='', b=guesses[0][1:], a=[each[0] for each in guesses]), write(title=value)][1]['a']",
    "beside it": "write(title='zzzzz' + value, tags=beside)['tags']",
}
"""Ways of asking which of some guesses is right. Of each, code gets back what it wrote itself."""


@pytest.mark.parametrize("way", LENGTHENED)
async def test_no_answer_tells_which_guess_at_a_part_of_a_value_is_right(tmp_path: Path, way: str) -> None:
    """Else the rest of an address follows from its domain in a dozen calls, and a card's number from its bank."""
    code = (
        "import base64\nfrom urllib.parse import quote\nfrom servers.crm import *\np = get_person()\n"
        "write(title=p['email'])\nwrite(title=p['card_number'])\nresult = []\n"
        "for value, known, signs in [\n"
        "    (p['email'], 'brindlecombe.org', 'abcdefgh'), (p['card_number'], '621486', '0123456789')\n]:\n"
        "    guesses = [sign + known for sign in signs]\n"
        "    windows = [each[:8] for each in guesses]\n"
        "    encoded = [base64.b64encode(each.encode()).decode() for each in guesses]\n"
        "    percented = [quote(each.replace('.', '%')) for each in guesses]\n"
        "    beside = ['zzzzzw.' + sign for sign in signs] + ['zzzzz45' + sign for sign in signs]\n"
        f"    result.append({LENGTHENED[way]})"
    )
    async with opened(tmp_path, INSIDE) as (_, client):
        received = await client.call_tool("execute_code", {"code": code})

    answers = msgspec.json.decode(received.content[0].text)  # type: ignore[union-attr]
    assert [len(each) >= 8 for each in answers] == [True, True]
    assert TOKEN.search(json.dumps(answers)) is None


async def test_code_that_knows_a_part_of_a_value_still_gets_no_more_of_it(tmp_path: Path) -> None:
    """Only what it wrote itself is left as it is: a longer part of the value is not, nor the value."""
    code = (
        "from servers.crm import *\np = get_person()\nwrite(title=p['card_number'], known='621486')\n"
        "tricks = ('as it is', 'its first half and more')\n"
        "result = [say(text=p['card_number'], trick=each)['title'] for each in tricks]\n"
        "result.append(say(text='q' + p['card_number'])['title'])"
    )
    async with opened(tmp_path, INSIDE) as (_, client):
        received = await client.call_tool("execute_code", {"code": code})

    answers = msgspec.json.decode(received.content[0].text)  # type: ignore[union-attr]
    assert [TOKEN.sub("T", each) for each in answers] == ["T", "T", "qT"]


# What ordinary answers look like afterwards


ORDINARY = (
    "May is the month of the fair, and in May or maybe later 12 of 112 come; see 2012-12-12, id 3f12ab, v1.2.12.",
    "A weather report: a feather and stones, rather a long way, at her house, Williams and Wilhelm, Anna's banana.",
    '{"id": 4539, "order": "1961", "total": 1486.2, "rows": [4, 5, 3, 9], "sha": "9b2f4539d1e0814577"}',
    "card ending 1486, phone code 44 20, year 1961, brindle, lantern, corvid, .org, gb82",
)


@pytest.mark.parametrize("text", ORDINARY)
async def test_ordinary_answers_are_not_mangled_by_what_a_session_handed_over(text: str) -> None:
    """Short values and everyday words are found where they stand for the value, and nowhere else."""
    later = Echoes(is_later=True)
    sent = Sent()
    for kind, value in PERSON.items():
        for index in (later, sent):
            index.add([(value, kind)])
    for value in ("May", "12", "Rose", "Ann"):
        later.add([(value, "person")])
    assert find_echoes(text, [later, sent.echoes]) == []


async def test_a_short_value_is_found_where_it_stands_alone_and_where_code_glued_something_to_it() -> None:
    """`Anna` is in `user_anna1` and not in `Hannah`, unless code wrote `qAnnaq` itself."""
    sent = Sent()
    sent.add([("Anna", "person")])
    glued = Sent()
    glued.add([("q", None), ("Anna", "person"), ("q", None)])

    def found(index: Sent, text: str) -> list[str]:
        return [text[echo.start : echo.end] for echo in find_echoes(text, [index.echoes])]

    assert found(sent, "user_anna1, helloAnna, Hannah, Savannah, QW5uYQ==") == ["anna", "Anna", "QW5uYQ"]
    assert found(glued, "zhannazh") == ["anna"]


@pytest.mark.parametrize(
    "value", ["İbrahim Y\u0131ld\u0131z", "Łukasz Wiśniewski", "Øystein Sørensen", "Đorđe Đokić", "Weißenborn"]
)
def test_a_name_is_found_in_capitals_and_in_plain_letters(value: str) -> None:
    """Capitals lose the missing dot of a Turkish letter, and file names and slugs the stroke through one."""
    index = Echoes()
    index.add([(value, "person")])
    plain = value.translate(str.maketrans("İ\u0131ŁłśØøĐđć", "IiLlsOoDdc"))
    for text in (value.upper(), plain, plain.upper(), plain.lower().replace(" ", "-")):
        assert [text[echo.start : echo.end] for echo in find_echoes(f"x{text}x", [index])] != []
        assert (
            "".join(f"x{text}x"[: echo.start] + f"x{text}x"[echo.end :] for echo in find_echoes(f"x{text}x", [index]))
            == "xx"
        )


@given(st.text(max_size=60), st.text(min_size=12, max_size=40), st.text(max_size=60))
def test_a_value_is_found_whatever_stands_beside_it(before: str, value: str, after: str) -> None:
    """Any text beside any value that has twelve letters or digits: all of them are covered."""
    if sum(map(str.isalnum, value)) < 12 or TOKEN.search(before + value + after):
        return
    index = Echoes()
    index.add([(value, "text")])
    text = before + value + after
    shown = set(range(len(text)))
    for echo in find_echoes(text, [index]):
        shown -= set(range(echo.start, echo.end))
    covered = range(len(before), len(before) + len(value))
    assert [text[at] for at in covered if at in shown and text[at].isascii() and text[at].isalnum()] == []
