"""Skills as agents use them over the wire: in both eras of the protocol, over both transports, by several clients."""

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic import RootModel
from tests import warm
from tests.surfaces.conftest import config_text, over_stdio
from tests.surfaces.test_surface import text_of

ERAS = {"auto": "2026-07-28", "legacy": "2025-11-25"}
TOOLS = ["search_tools", "execute_code", "execute_analysis", "save_skill", "find_skills", "load_skill"]

CODE = '''\
def biggest(since: str, count: int = 1) -> list:
    """Merchants that got most."""
    from servers.expenses import list_expenses

    totals = {}
    for row in list_expenses(since=since):
        totals[row["merchant"]] = totals.get(row["merchant"], 0) + row["amount"]
    return sorted(totals, key=totals.get, reverse=True)[:count]
'''
SAVE = {
    "name": "biggest",
    "code": CODE,
    "description": "Which merchants got most money since a day.",
    "examples": [{"inputs": {"since": "2024-12-01"}}],
}
USE = "from skills import biggest\n\nbiggest('2024-12-01', count=2)"


class Agent:
    """What a test does as a client of any era."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def tools(self) -> list[str]:
        """The names of what is advertised."""
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def ask(self, tool: str, /, **arguments: Any) -> str:
        """The text of an answer that is no error and is sent once."""
        result = await self.client.call_tool(tool, arguments)
        assert (result.is_error, result.structured_content) == (False, None), text_of(result)
        return text_of(result)

    async def refused(self, tool: str, /, **arguments: Any) -> str:
        """The text of an answer that is an error which the model reads."""
        result = await self.client.call_tool(tool, arguments)
        assert (result.is_error, result.structured_content) == (True, None), text_of(result)
        return text_of(result)

    async def skill_uris(self) -> list[str]:
        """What the skills extension serves."""
        request = types.Request[dict[str, Any], str](method="skills/list", params={})
        answer = (await self.client.session.send_request(request, RootModel[dict[str, Any]])).root
        return [each["uri"] for each in answer["skills"]]


@contextlib.contextmanager
def serving(config: Path) -> Iterator[str]:
    """`sealyard serve --http` on a free port; gives the URL of `/mcp`."""
    process = subprocess.Popen(
        warm.python("-m", "sealyard", "serve", str(config), "--http", "127.0.0.1:0"), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    drained = threading.Thread(target=process.stderr.read)
    try:
        said = line = process.stderr.readline()
        while line and "at http://" not in line:
            line = process.stderr.readline()
            said += line
        assert line, f"The gateway ended before it listened: {said}"
        drained.start()
        yield line.partition("at ")[2].split()[0]
    finally:
        process.terminate()
        process.wait(20)
        drained.join(20)
        process.stderr.close()
    assert process.returncode == 143


@contextlib.asynccontextmanager
async def connected(url: str, *, mode: str = "auto", token: str = "") -> AsyncIterator[Agent]:
    """A client of a gateway over HTTP."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, cache=None) as client,
    ):
        assert client.protocol_version == ERAS[mode]
        yield Agent(client)


@pytest.mark.parametrize("mode", ERAS)
async def test_what_one_agent_saves_the_next_one_finds_reads_and_uses(config: Callable[..., Path], mode: str) -> None:
    """The second is another process over the same store; each answer is sent once, as the text that a model reads."""
    path = config()
    async with over_stdio(path, mode=mode) as first:
        agent = Agent(first.client)
        advertised = await agent.tools()
        nothing = await agent.ask("find_skills", query="merchants")
        saved = json.loads(await agent.ask("save_skill", **SAVE))
        await agent.ask("save_skill", **SAVE | {"code": CODE.replace("got most", "got the most")})
        draft = json.loads(await agent.ask("save_skill", **SAVE | {"name": "same", "examples": []}))
    async with over_stdio(path, mode=mode) as second:
        agent = Agent(second.client)
        assert second.client.protocol_version == ERAS[mode]
        again = await agent.tools()
        found = json.loads(await agent.ask("find_skills", query="who got the most money", limit=1))
        everything = json.loads(await agent.ask("find_skills"))
        loaded = await agent.ask("load_skill", name="biggest@1.0.0")
        used = json.loads(await agent.ask("execute_code", code=USE))

    assert advertised == again == TOOLS
    assert nothing == '{"skills":[],"hint":"No skill fits. Write the code, and save it when it works."}'
    assert saved == {
        "skill": "biggest",
        "version": "1.0.0",
        "status": "active",
        "use": "from skills import biggest",
        "signature": "biggest(since: str, count: int = 1) -> list",
        "tools": {"mcp__expenses__list_expenses": "1.0.0"},
    }
    assert (draft["status"], draft["note"]) == ("draft", "It has no example.")
    assert found == {
        "skills": [
            {
                "name": "biggest",
                "version": "1.0.1",
                "use": "from skills import biggest",
                "signature": "biggest(since: str, count: int = 1) -> list",
                "description": "Which merchants got most money since a day.",
                "status": "active",
            }
        ]
    }
    assert [(each["name"], each["status"]) for each in everything["skills"]] == [
        ("same", "draft"),
        ("biggest", "active"),
    ]
    assert loaded == (
        "biggest 1.0.0 (active): Which merchants got most money since a day.\n"
        "use: from skills import biggest\n"
        "signature: biggest(since: str, count: int = 1) -> list\n"
        "tools: mcp__expenses__list_expenses 1.0.0\n"
        "versions: 1.0.1, 1.0.0\n"
        f"\n{CODE}"
    )
    assert len(used) == 2


PRINCIPALS = """
[http.principals.alice]
token = "a-secret"

[http.principals.bob]
token = "b-secret"

[http.principals.carol]
token = "c-secret"
upstreams = ["nothing"]
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A gateway with three principals, and its config."""
    folder = tmp_path_factory.mktemp("gateway")
    config = folder / "sealyard.toml"
    config.write_text(config_text(folder / "store" / "sealyard.db", PRINCIPALS), encoding="utf-8")
    with serving(config) as url:
        yield url, config


@pytest.mark.parametrize("mode", ERAS)
async def test_what_is_wrong_with_a_call_is_an_answer_that_a_model_can_act_on(
    shared: tuple[str, Path], mode: str
) -> None:
    """It names the argument, what may stand there, or the line; nothing of it is kept."""
    wrong: dict[str, dict[str, Any]] = {
        "The arguments of save_skill are wrong: Object missing required field `code`.": {"name": "x"},
        "The arguments of save_skill are wrong: Object contains unknown field `kode`.": {"name": "x", "kode": "1"},
        "The arguments of save_skill are wrong: Expected `array`, got `object` - at `$.examples`.": {
            "name": "x",
            "code": "1",
            "examples": {},
        },
        "A skill cannot be called '../x'.": {"name": "../x", "code": "result = 1"},
        "language is 'bash'. Only 'python' is kept here.": {"name": "x", "code": "ls", "language": "bash"},
        "Line 1: ": {"name": "x", "code": "import subprocess\nresult = 1"},
    }
    async with connected(shared[0], mode=mode, token="a-secret") as agent:
        for message, arguments in wrong.items():
            said = await agent.refused("save_skill", **arguments)
            assert said.startswith(("InvalidRequest: ", "InvalidSkill: "))
            assert said.partition(": ")[2].startswith(message)
        limit = await agent.refused("find_skills", query="x", limit=0)
        number = await agent.refused("find_skills", query="x", limit="many")
        unknown = await agent.refused("load_skill", name="nothing")
        nameless = await agent.refused("load_skill")
        imported = await agent.refused("execute_code", code="from skills import nothing")
        uris = await agent.skill_uris()

    assert limit == "InvalidRequest: limit is 0. Give 1 to 50."
    assert number == (
        "InvalidRequest: The arguments of find_skills are wrong: Expected `int`, got `str` - at `$.limit`. It takes"
        " query, limit."
    )
    assert unknown == "UnknownSkill: No skill named 'nothing'. Call find_skills to find one that exists."
    assert nameless == (
        "InvalidRequest: The arguments of load_skill are wrong: Object missing required field `name`. It takes name,"
        " version."
    )
    assert imported.startswith("ImportError: No skill named 'nothing'.")
    assert [uri for uri in uris if "/x/" in uri] == []


async def test_clients_have_shelves_of_their_own_beside_the_shared_one(shared: tuple[str, Path]) -> None:
    """What one keeps, another one does not find; a person shares it while the gateway runs, and an own one goes first.

    Whoever may not use a skill's tools does not find it at all.
    """
    url, config = shared
    async with (
        connected(url, token="a-secret") as alice,
        connected(url, token="b-secret", mode="legacy") as bob,
        connected(url, token="c-secret") as carol,
    ):
        names = [await each.tools() for each in (alice, bob, carol)]
        await alice.ask("save_skill", **SAVE)
        private = await bob.refused("load_skill", name="biggest")
        unseen = json.loads(await bob.ask("find_skills", query="merchants"))["skills"]
        share = [sys.executable, "-m", "sealyard", "skills", "share", "biggest", "--config", str(config)]
        done = await asyncio.to_thread(subprocess.run, share, capture_output=True, timeout=60, check=False)
        found = json.loads(await bob.ask("find_skills", query="merchants"))["skills"]
        used = json.loads(await bob.ask("execute_code", code=USE))
        served = [await each.skill_uris() for each in (alice, bob, carol)]
        mine = {"name": "biggest", "code": "def biggest(since: str, count: int = 1):\n    return 'mine'\n"}
        await bob.ask("save_skill", **mine, description="Mine.", examples=[{"inputs": {"since": ""}}])
        own = await bob.ask("execute_code", code=USE)
        hers = json.loads(await alice.ask("execute_code", code=USE))
        hidden = await carol.refused("load_skill", name="biggest")
        none = json.loads(await carol.ask("find_skills", query="merchants"))["skills"]

    assert names == [TOOLS, TOOLS, TOOLS]
    assert private == "UnknownSkill: No skill named 'biggest'. Call find_skills to find one that exists."
    assert unseen == []
    assert (done.returncode, done.stdout) == (0, b"shared/biggest 1.0.0 is there for everybody.\n")
    assert [(each["name"], each["shared"]) for each in found] == [("biggest", True)]
    assert used == hers
    assert len(used) == 2
    assert served == [["skill://own/biggest/SKILL.md"], ["skill://shared/biggest/SKILL.md"], []]
    assert own == "mine"
    assert "biggest" in hidden
    assert hidden.startswith("UnknownSkill: ")
    assert none == []
