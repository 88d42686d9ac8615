"""Python functions through the whole gateway: of a configured module, and added to an open yard."""

import contextlib
import itertools
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client

import sealyard
from sealyard import CallContext
from sealyard.broker.policy import PolicySettings, Rule
from sealyard.config import Config, load_config
from sealyard.config.settings import HttpConfig, PrincipalEntry, StoreConfig, SurfaceConfig
from sealyard.errors import InvalidConfig, InvalidRequest, PolicyRefused, UnknownTool, UpstreamUnavailable
from sealyard.sandbox.policy import DEFAULT
from sealyard.serve.modes import Modes
from sealyard.testing import FakeUpstream
from sealyard.values.tools import ToolAnnotations
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
MAIL = "ottoline.fairweather@quillhaven.org"
_numbers = itertools.count(1)
Project = Callable[..., Path]

SHOP = '''
"""The shop's own functions."""

from dataclasses import dataclass
from datetime import date

from sealyard import CallContext, tool

@dataclass
class Row:
    name: str
    email: str
    since: date

@tool(read_only=True)
def customer(name: str) -> Row:
    """Get a customer."""
    return Row(name, "ottoline.fairweather@quillhaven.org", date(2024, 5, 1))

def send(to: str, caller: CallContext) -> str:
    """Send a mail."""
    return f"{caller.principal} wrote to {len(to)} letters"

@tool(destructive=True)
def wipe(all: bool = False) -> str:
    """Delete everything."""
    return "gone"

def spoil(rows: list[int]) -> int:
    """Change what it was given."""
    rows.clear()
    return len(rows)

def broken(*rest): ...
'''


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Writes a module and a configuration that names it; returns the configuration."""
    monkeypatch.setattr(sys, "path", [*sys.path])

    def project(text: str = SHOP, *, name: str = "", more: str = "") -> Path:
        name = name or f"shop_of_test_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(text)
        file = tmp_path / "sealyard.toml"
        file.write_text(f'[store]\npath = "{tmp_path}/s.db"\n[upstreams.shop]\ntools = "{name}"\n{more}')
        return file

    return project


@contextlib.asynccontextmanager
async def opened(file: Path, **config: Any) -> AsyncIterator[Yard]:
    """A yard over a configuration file."""
    settings = msgspec.structs.replace(load_config(file, environ={"HOME": str(file.parent)}), **config)
    async with open_yard(settings, policy=PLAIN) as yard:
        yield yard


@contextlib.asynccontextmanager
async def bare(folder: Path, **config: Any) -> AsyncIterator[Yard]:
    """A yard without upstreams."""
    async with open_yard(Config(store=StoreConfig(path=folder / "s.db"), **config), policy=PLAIN) as yard:
        yield yard


async def run(yard: Yard, code: str, **options: Any) -> str:
    """The text that the agent gets."""
    return (await yard.execute(ExecuteRequest(code=code), **options)).text


def giving(number: int) -> Callable[[], int]:
    """A function that returns it."""

    def give() -> int:
        return number

    return give


# A configured module


@pytest.mark.behaviour("functions.path")
async def test_function_is_under_privacy_policy_and_record_like_any_tool(project: Project) -> None:
    """Code gets a token, the function the value; a rule denies; the record is of what code gave."""
    rules = PolicySettings(rules=(Rule(tools=("shop/wipe",), decision="deny", when={"all": True}, reason="Never."),))
    async with opened(project(), policy=rules) as yard:
        row = await run(yard, "from servers.shop import customer\ncustomer('Otto')['email']")
        sent = await run(yard, "from servers.shop import customer, send\nsend(customer('Otto')['email'])")
        spoilt = await yard.execute(ExecuteRequest(code="from servers.shop import spoil\nspoil(rows=[1, 2])"))
        assert spoilt.outcome is not None
        (call,) = await yard.store.calls(spoilt.outcome.execution_id)
        with pytest.raises(PolicyRefused):
            await yard.call("mcp__shop__wipe", {"all": True})
        [status] = yard.tools.statuses()
        found = await yard.search("customer", detail_level="full")
        entries = await yard.store.audit_entries(kind="call")

    assert re.fullmatch("__PII_email_[0-9a-f]+__", row)
    assert sent == f"local wrote to {len(MAIL)} letters"
    assert (spoilt.text, call.arguments) == ("0", {"rows": [1, 2]})
    assert (status.state, status.tools, status.transport) == ("ready", 4, "python")
    assert status.warnings == (
        "Function 'broken' is not a tool: it takes *rest, and no schema has a name for that. Name each parameter.",
    )
    assert {each.body["tool"] for each in entries} >= {"mcp__shop__customer", "mcp__shop__send", "mcp__shop__spoil"}
    assert found.hits[0].signature is not None
    assert "name: str" in found.hits[0].signature
    assert found.hits[0].returns is not None


@pytest.mark.behaviour("functions.version")
async def test_changed_module_has_a_new_version_at_the_next_start(project: Project) -> None:
    """Its tools are listed anew at each start, and the history says what changed."""
    name = f"shop_of_test_{next(_numbers)}"
    versions = []
    for text in ("def price(item: str): ...\n", "def price(item: str, pieces: int = 1): ...\n", "def cost(): ...\n"):
        sys.modules.pop(name, None)  # another process
        async with opened(project(text, name=name)) as yard:
            snapshot = await yard.snapshot()
            versions.append({spec.name: spec.version for spec in snapshot.tools.values()})

    assert versions == [{"price": "1.0.0"}, {"price": "1.1.0"}, {"cost": "1.0.0"}]


async def test_failed_import_keeps_the_other_upstreams_and_the_known_tools(project: Project, tmp_path: Path) -> None:
    """The tools are known from the last start; a call of one says where the reason is."""
    name = f"shop_of_test_{next(_numbers)}"
    async with opened(project("def price(): return 1\n", name=name)) as yard:
        await yard.snapshot()
    sys.modules.pop(name)
    (tmp_path / "other_of_test.py").write_text("def cost(): return 2\n")
    file = project("1 / 0\n", name=name, more='[upstreams.other]\ntools = "other_of_test"\n')
    async with opened(file) as yard:
        cost = await yard.call("mcp__other__cost", {})
        with pytest.raises(UpstreamUnavailable, match="`sealyard tools --status` shows the reason"):
            await yard.call("mcp__shop__price", {})
        other, shop = yard.tools.statuses()

    assert (cost.value, other.state, shop.state) == (2, "ready", "failed")
    assert shop.error is not None
    assert "ZeroDivisionError: division by zero (line 1 of " in shop.error


async def test_modes_show_functions_as_they_show_other_tools(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    """Hybrid passes one through; proxy has no server to pass on, says so, and serves the others."""
    config = load_config(project(), environ={})
    config = msgspec.structs.replace(config, surface=SurfaceConfig(direct=("shop/customer",)))
    async with open_yard(config, policy=PLAIN) as yard:
        async with Client(Modes(config, "hybrid").build_server(yard)) as client:
            shown = [tool.name for tool in (await client.list_tools()).tools]
            row = await client.call_tool("mcp__shop__customer", {"name": "Otto"})
        async with Client(Modes(config, "proxy").build_server(yard)) as client:
            passed = (await client.list_tools()).tools

    assert "mcp__shop__customer" in shown
    assert '"since":"2024-05-01"' in row.content[0].text  # type: ignore[union-attr]
    assert passed == []
    assert [each.message for each in caplog.records if "proxy" in each.message] == [
        "Clients in the mode proxy do not see shop: functions are no MCP server, whose messages could be passed on. "
        "Use another mode for them."
    ]


_WRONG = {
    'tools = "*"': "tools is '*'. Give a list of patterns, or the name of a Python module in a sealyard.toml.",
    'tools = "a-b"': "tools is 'a-b'. Give a list of patterns, or the name of a Python module in a sealyard.toml.",
    'tools = "shop"\ncommand = "uvx"': (
        "has command and tools = 'shop', a Python module. Take one out, or write a pattern in a list."
    ),
    'tools = "shop"\nenv = {A = "1"}': (
        "has env and tools = 'shop', a Python module. Take one out, or write a pattern in a list."
    ),
}


@pytest.mark.parametrize("text", _WRONG)
def test_entry_that_is_no_module_is_refused(tmp_path: Path, text: str) -> None:
    """Two sentences say what it is and what to write."""
    file = tmp_path / "sealyard.toml"
    file.write_text(f"[upstreams.it]\n{text}\n")

    with pytest.raises(InvalidConfig) as refused:
        load_config(file, environ={"HOME": str(tmp_path)})

    assert str(refused.value).endswith(_WRONG[text])


# Functions of an open yard


@pytest.mark.behaviour("functions.yard")
async def test_added_function_is_a_tool_of_the_next_execution(tmp_path: Path) -> None:
    """It is found by a search; another of its name replaces it, and one that is removed is gone."""
    async with bare(tmp_path) as yard:

        @yard.tool
        def price(item: str) -> int:
            """Get the price of an item."""
            return len(item)

        first = await run(yard, "from servers.functions import price\nprice('jam')")
        found = await yard.search("price of an item")

        @yard.tool(name="price", read_only=True)
        async def better(item: str, pieces: int = 2) -> int:
            """Get the price of pieces."""
            return len(item) * pieces

        second = await run(yard, "from servers.functions import price\nprice('jam')")
        spec = (await yard.snapshot()).tools["mcp__functions__price"]
        yard.remove_tool("price")
        third = await run(yard, "from servers.functions import price\nprice('jam')")
        hits = (await yard.search("price of an item")).hits
        with pytest.raises(UnknownTool, match=r"^'functions' has no tool 'price'\. It has: none\.$"):
            yard.remove_tool("price")

    assert (first, second) == ("3", "6")
    assert (spec.version, spec.annotations) == ("1.1.0", ToolAnnotations(read_only=True))
    assert [hit.name for hit in found.hits] == ["mcp__functions__price"]
    assert third.startswith("Refused: No server named 'functions'.")
    assert hits == ()
    assert better.__name__ == "better"


async def test_every_function_that_is_added_is_there_at_the_next_execution(tmp_path: Path) -> None:
    """Also while earlier ones are still being stored: a hundred times another function just before a call."""
    async with bare(tmp_path) as yard:
        values = []
        for number in range(100):
            yard.tool(name=f"give_{number}")(giving(number))
            values.append((await yard.call(f"mcp__functions__give_{number}", {})).value)

    assert values == list(range(100))


async def test_functions_have_a_server_of_another_name_on_request(tmp_path: Path) -> None:
    """The name of another upstream is refused, and so is a function that cannot be a tool."""
    settings = Config(store=StoreConfig(path=tmp_path / "s.db"))
    async with open_yard(settings, policy=PLAIN, upstreams={"shop": FakeUpstream("shop")}) as yard:
        yard.tool(server="till")(sealyard.tool(name="count", destructive=True)(lambda: 7))
        with pytest.raises(InvalidRequest) as taken:
            yard.tool(server="shop")(len)
        with pytest.raises(InvalidRequest, match=r"^Function 'f' is not a tool: it takes \*a, and "):
            exec("def f(*a): ...\nyard.tool(f)", {"yard": yard})
        with pytest.raises(UnknownTool):
            yard.remove_tool("count", server="shop")
        answer = await run(yard, "from servers.till import count\ncount()")
        spec = (await yard.snapshot()).tools["mcp__till__count"]

    assert str(taken.value) == "'shop' is an upstream already, not a place for functions. Name another."
    assert (answer, spec.annotations) == ("7", ToolAnnotations(destructive=True))


async def test_scope_of_a_principal_holds_for_added_functions(tmp_path: Path) -> None:
    """A principal without the upstream does not see it; one with it does."""
    digest = "0" * 63
    http = HttpConfig(
        principals={
            "anna": PrincipalEntry(token_sha256=f"{digest}1", upstreams=("functions",)),
            "bob": PrincipalEntry(token_sha256=f"{digest}2", upstreams=("other",)),
        }
    )
    async with bare(tmp_path, http=http) as yard:
        yard.tool(name="price")(lambda: 3)
        seen = [len((await yard.search("price", principal=who)).hits) for who in ("anna", "bob")]
        with pytest.raises(UnknownTool):
            await yard.call("mcp__functions__price", {}, principal="bob")

    assert seen == [1, 0]


async def test_context_is_that_of_the_calling_execution(tmp_path: Path) -> None:
    """From code and without code, for each principal and session its own."""

    def who(caller: CallContext) -> list[str]:
        return [caller.principal, caller.session, caller.execution_id]

    async with bare(tmp_path) as yard:
        yard.tool(who)
        code = ExecuteRequest(code="from servers.functions import who\nwho()", session="notes")
        result = await yard.execute(code, principal="anna", execution_id="e1")
        direct = await yard.call("mcp__functions__who", {}, principal="bob", execution_id="e2")

    assert result.text == '["anna","anna:notes","e1"]'
    assert direct.value == ["bob", "bob:default", "e2"]
