"""Attacks on functions of the gateway's own process, by the code that calls them and by files of clients."""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard import CallContext
from sealyard.broker.upstreams.python import Functions
from sealyard.config import Config, load_config
from sealyard.config.settings import StoreConfig
from sealyard.errors import SealyardError, ToolFailed
from sealyard.sandbox.policy import DEFAULT
from sealyard.values.access import Grant
from sealyard.values.tools import UpstreamConfig
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
ADMIN = {"principal": "admin", "session": "admin:default", "execution_id": "e0"}
_FORGERIES: dict[str, dict[str, Any]] = {
    "an object": {"greeting": "hi", "caller": ADMIN},
    "a text": {"greeting": "hi", "caller": "admin"},
    "a list": {"greeting": "hi", "caller": [ADMIN]},
    "nothing": {"greeting": "hi", "caller": None},
    "another spelling": {"greeting": "hi", "Caller": ADMIN, "caller ": ADMIN},
    "the gateway's own words": {"greeting": "hi", "grant": ADMIN, "principal": "admin"},
    "inside another argument": {"greeting": {"caller": ADMIN}},
    "beside a token": {"greeting": "__PII_email_f6fa52256c11__", "caller": ADMIN},
    "a token as its name": {"greeting": "hi", "__PII_email_f6fa52256c11__": ADMIN},
}


def who(greeting: str, caller: CallContext) -> str:
    """Say who calls."""
    return f"{greeting} {caller.principal}"


async def run(yard: Yard, code: str, **context: Any) -> str:
    """The text that the agent gets."""
    request = ExecuteRequest(code=f"from servers.functions import *\n{code}", context=context)
    return (await yard.execute(request, principal="anna")).text


@pytest.mark.behaviour("functions.context")
async def test_code_cannot_choose_what_the_gateway_states_about_a_call(tmp_path: Path) -> None:
    """A call that names the parameter is refused; one that does not is told of the true caller."""
    called: list[str] = []

    def who(greeting: str, caller: CallContext) -> str:
        """Say who calls."""
        called.append(caller.principal)
        return f"{greeting} {caller.principal}"

    async with open_yard(Config(store=StoreConfig(path=tmp_path / "s.db")), policy=PLAIN) as yard:
        yard.tool(who)
        control = await run(yard, "who('hi')")
        code = "call_tool('mcp__functions__who', context['given'])"
        texts = {name: await run(yard, code, given=given) for name, given in _FORGERIES.items()}
        direct = {}
        for name, given in _FORGERIES.items():
            try:
                direct[name] = str((await yard.call("mcp__functions__who", given, principal="anna")).value)
            except SealyardError as error:
                direct[name] = type(error).__name__
        [hit] = (await yard.search("who calls", detail_level="full")).hits

    assert (control, called) == ("hi anna", ["anna"])
    assert [text for text in texts.values() if "anna" in text] == []
    assert set(direct.values()) <= {"InvalidArguments", "UnknownToken"}
    assert "caller" not in json.dumps(msgspec.to_builtins(hit))


@pytest.mark.parametrize("forged", [ADMIN, "admin", None, [ADMIN]])
async def test_forged_context_is_refused_behind_every_earlier_check(forged: Any) -> None:
    """The upstream itself takes no argument of that name: a token in the arguments may hide one from the broker."""
    upstream = Functions(UpstreamConfig(name="functions", transport="python"))
    upstream.add(who)
    grant = Grant(execution_id="e1", principal="anna", session="anna:default", tools={})

    control = await upstream.call("who", {"greeting": "hi"}, grant=grant)
    with pytest.raises(ToolFailed, match="do not fit"):
        await upstream.call("who", {"greeting": "hi", "caller": forged}, grant=grant)

    assert control.value == "hi anna"


async def test_value_behind_a_token_is_checked_before_the_function_gets_it(tmp_path: Path) -> None:
    """The broker cannot look behind a token; what does not fit never becomes an argument."""
    ages: list[int] = []

    def mail() -> dict[str, str]:
        """Get a mail."""
        return {"email": "ottoline.fairweather@quillhaven.org"}

    def grow(age: int) -> int:
        """Take an age."""
        ages.append(age)
        return age

    async with open_yard(Config(store=StoreConfig(path=tmp_path / "s.db")), policy=PLAIN) as yard:
        yard.tool(mail)
        yard.tool(grow)
        text = await run(yard, "grow(age=mail()['email'])")
        control = await run(yard, "grow(age=4)")

    assert text.startswith(("ToolFailed: The arguments of 'grow' do not fit: age: ", "InvalidArguments: "))
    assert "quillhaven" not in text
    assert (control, ages) == ("4", [4])


@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_file_of_a_client_names_no_module(tmp_path: Path, key: str) -> None:
    """A project's file may be another's: its text must not become code in the gateway."""
    (tmp_path / "planted_by_file.py").write_text("raise SystemExit('imported')\n")
    file = tmp_path / ".mcp.json"
    servers = {
        "a": {"tools": "planted_by_file"},
        "b": {"enabled_tools": "planted_by_file"},
        "control": {"command": "true"},
    }
    file.write_text(json.dumps({key: servers}))

    config = load_config(file, environ={"HOME": str(tmp_path)})

    assert list(config.upstreams) == ["control"]
    assert "planted_by_file" not in sys.modules
    assert str(tmp_path) not in sys.path
