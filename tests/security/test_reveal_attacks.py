"""Attacks on what tools are handed: code glues, encodes and cuts values, and asks questions about them.

The server is a real one that says again whatever it is told. Each attack is shown to work where privacy is off.
"""

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from tests.mcp.upstreams import memory, served
from tests.security.echo_server import PERSON, TRICKS, Echo

from sealyard.broker.policy import PolicySettings, Rule
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, PrivacyRule, StoreConfig
from sealyard.privacy.span import TOKEN
from sealyard.sandbox.policy.levels import DEFAULT
from sealyard.serve.mcp import build_server
from sealyard.serve.relay import build_relay
from sealyard.testing import FakeUpstream
from sealyard.values import UpstreamConfig
from sealyard.yard import open_yard
from sealyard.yard.opening import open_border

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
INSIDE = PrivacyConfig(rules=(PrivacyRule(tools=("*",), reveal="inside"),))
OFF = PrivacyConfig(mode="off")
FIELDS = sorted(PERSON)
FRAGMENT = 8
"""Characters of what the server said that may be left of it, at the most, one less."""

Say = Callable[..., Awaitable[str]]
"""Calls a tool with a text in which `{field}` stands for a person's field, and returns all that came of it."""


@asynccontextmanager
async def by_code(folder: Path, privacy: PrivacyConfig) -> AsyncIterator[Say]:
    """A gateway whose code calls the tools."""
    server = UpstreamConfig(
        name="crm",
        transport="stdio",
        command=sys.executable,
        args=("-m", "tests.security.echo_server"),
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    config = Config(upstreams={"crm": server}, store=StoreConfig(path=folder / "sealyard.db"), privacy=privacy)
    async with (
        open_yard(config, policy=PLAIN) as yard,
        Client(build_server(yard, config.surface), cache=None) as client,
    ):
        await yard.snapshot()

        async def say(text: str, *, tool: str = "say", times: int = 1, **arguments: Any) -> str:
            code = (
                "import os\nfrom servers.crm import *\np = get_person()\nprint('tokens', *p.values())\n"
                f"for _ in range({times}):\n    try:\n"
                f"        answer = call_tool('mcp__crm__{tool}', {{'text': {text!r}.format(**p), **{arguments!r}}})\n"
                "    except Exception as error:\n        answer = str(error)\n"
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
            journal = await yard.store.audit_entries(limit=50, kind="call")
            return "\n".join([*shown, *(json.dumps(entry.body) for entry in journal)])

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
                heard[:] = [f"tokens {' '.join(person.values())}"]
                given = {"text": text.format(**person), **arguments}
                try:
                    result = await client.call_tool(tool, given, progress_callback=hear)
                    heard.append(result.model_dump_json(by_alias=True))
                    heard.append(json.dumps(result.structured_content))
                    heard.extend(getattr(block, "text", "") for block in result.content)
                except MCPError as error:
                    heard.extend((error.message, json.dumps(error.data)))
                await border.store.flush()
                entries = await border.store.audit_entries(limit=50, kind="call")
                return "\n".join([*heard, *(json.dumps(entry.body) for entry in entries)])

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
