"""Attacks of a client on what its profile leaves out. Each has a control that succeeds where nothing is left out."""

import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests import warm
from tests.conftest import Kept, polled
from tests.surfaces.conftest import ROOT, child, config_text, serving
from tests.surfaces.test_http import ACCEPT, HELLO
from tests.surfaces.test_surface import text_of

MORE = f"""
[upstreams.outside]
{child("-m", "tests.mcp.everything_server")}
cwd = {json.dumps(str(ROOT))}

[surface]
direct = ["mcp__*"]

[surface.clients]
"opencode*" = "proxy"
"direct*" = "hybrid"
"weak*" = "search"

[profiles.money]
upstreams = ["expenses"]

[profiles.direct]
upstreams = ["expenses"]
mode = "hybrid"

[profiles.outside]
upstreams = ["outside"]
"""
TOOL = "mcp__outside__test_simple_text"
SAID = "This is a simple text response for testing."
MODERN = "2026-07-28"


@contextlib.asynccontextmanager
async def shared() -> AsyncIterator[str]:
    """The URL of a gateway with a profile that leaves one of its two servers out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sealyard.toml"
        path.write_text(config_text(Path(folder) / "sealyard.db", MORE), encoding="utf-8")
        async with serving(path) as url:
            yield url


@contextlib.asynccontextmanager
async def connected(url: str, mode: str = "auto", name: str = "t") -> AsyncIterator[Client]:
    """A client with a name of its choice."""
    async with Client(url, mode=mode, cache=None, client_info=types.Implementation(name=name, version="1")) as client:
        yield client


async def run(client: Client, code: str, **arguments: Any) -> types.CallToolResult:
    """What came of code."""
    return await client.call_tool("execute_code", {"code": code, **arguments})


async def refusal(client: Client, name: str, arguments: dict[str, Any] | None = None) -> str:
    """The reason why a call by name is refused."""
    try:
        answer = await client.call_tool(name, arguments or {})
    except MCPError as error:
        return error.message
    assert answer.is_error
    return text_of(answer)


@pytest.mark.behaviour("profiles.narrow")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_code_reaches_nothing_outside_its_profile(kept: Kept, mode: str) -> None:
    """Not by import, by full name, by a name put together, by another spelling, by a search or by walking files."""
    url = await kept(shared)
    calls = [
        "from servers.outside import test_simple_text\ntest_simple_text()",
        f"call_tool({TOOL!r}, {{}})",
        "call_tool('mcp__outside__test_' + 'simple_text', {})",
        "call_tool('outside.test_simple_text', {})",
        "call_tool('outside/test_simple_text', {})",
        "test_simple_text()",
        "import importlib\nimportlib.import_module('servers.' + 'outside').test_simple_text()",
    ]
    looks = [
        "from tool_discovery import search_tools\nstr(search_tools('simple text response', limit=50))",
        "import servers, os\nstr([dir(servers), [os.listdir(path) for path in servers.__path__]])",
    ]
    async with connected(f"{url}/p/money", mode) as narrow, connected(url, mode) as wide:
        refused = [await run(narrow, code) for code in calls]
        seen = [text_of(await run(narrow, code)) for code in looks]
        wide_calls = [text_of(await run(wide, code)) for code in calls]
        wide_looks = [text_of(await run(wide, code)) for code in looks]
        server = await refusal(narrow, "search_tools", {"query": "text", "server": "outside"})
        rows = await narrow.call_tool(
            "execute_analysis", {"analysis_type": "filter", "source": {"tool": TOOL}, "parameters": {}}
        )

    assert all(each.is_error and SAID not in text_of(each) for each in refused)
    assert wide_calls == [SAID] * len(calls)
    assert all("expenses" in each and "outside" not in each for each in seen)
    assert all("outside" in each for each in wide_looks)
    assert "No server named 'outside'. There are: expenses." in server
    assert rows.is_error


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("name", ["t", "opencode", "direct", "weak", "claude-code", "*", "", "proxy", "x" * 100_000])
async def test_no_name_of_a_client_and_no_query_widens_a_profile(kept: Kept, mode: str, name: str) -> None:
    """They choose between surfaces that all reach the same: a call by name finds nothing outside in any of them."""
    url = await kept(shared)
    for query in ("", "?codemode=false", "?codemode=true", "?profile=outside", "?codemode=off&profile="):
        async with connected(f"{url}/p/money{query}", mode, name) as client:
            listed = [tool.name for tool in (await client.list_tools()).tools]
            said = [await refusal(client, TOOL), await refusal(client, "test_simple_text")]
            if "call_tool" in listed:
                said.append(await refusal(client, "call_tool", {"name": TOOL}))
        assert not any("outside" in each or "test_simple" in each for each in listed), (query, listed)
        assert all(SAID not in each for each in said), (query, said)
    async with connected(f"{url}/p/outside?codemode=false", mode, name) as control:
        assert text_of(await control.call_tool("test_simple_text", {})) == SAID


@pytest.mark.parametrize("info", [None, 7, [], "opencode", {}, {"name": None}, {"name": ["opencode"]}, {"name": {}}])
async def test_a_malformed_introduction_is_refused_and_fells_nothing(kept: Kept, info: Any) -> None:
    """The name is looked at before the protocol's own checks; the next client is served."""
    url = await kept(shared)
    params = {**HELLO["params"], "clientInfo": info}  # type: ignore[dict-item]
    async with httpx2.AsyncClient(headers=ACCEPT) as client:
        answer = await client.post(f"{url}/p/money", json={**HELLO, "params": params})
        control = await client.post(f"{url}/p/money", json=HELLO)

    assert answer.status_code in (200, 400)
    assert "Invalid" in answer.text
    assert '"serverInfo"' in control.text


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_resources_and_prompts_of_others_stay_outside(kept: Kept, mode: str) -> None:
    """Without a code mode too, where those of the profile's own servers are passed on."""
    url = await kept(shared)
    async with (
        connected(f"{url}/p/money?codemode=false", mode) as narrow,
        connected(f"{url}?codemode=false", mode) as wide,
    ):
        control = await wide.read_resource("test://static-text")
        prompt = await wide.get_prompt("mcp__outside__test_simple_prompt")
        assert [each.name for each in (await wide.list_prompts()).prompts]
        for attack in (
            lambda: narrow.read_resource("test://static-text"),
            lambda: narrow.get_prompt("mcp__outside__test_simple_prompt"),
            lambda: narrow.get_prompt("test_simple_prompt"),
            narrow.list_resources,
            narrow.list_prompts,
        ):
            try:
                answer = await attack()
            except MCPError:
                continue
            found = [*getattr(answer, "resources", ()), *getattr(answer, "prompts", ())]
            assert not any("test" in each.name for each in found), answer
            assert not getattr(answer, "contents", None)
            assert not getattr(answer, "messages", None)

    assert control.contents
    assert prompt.messages


async def test_a_session_is_good_for_the_url_that_opened_it_alone(kept: Kept) -> None:
    """Under another profile or query, or none, its id is as unknown as one that never was; at its own it works."""
    url = await kept(shared)
    places = ("", "/p/money", "/p/outside", "?codemode=false", "/p/money?codemode=false")
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    async with httpx2.AsyncClient(headers=ACCEPT, timeout=60) as client:
        statuses = {}
        for opened in places:
            session = {"mcp-session-id": (await client.post(f"{url}{opened}", json=HELLO)).headers["mcp-session-id"]}
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await client.post(f"{url}{opened}", json=ready, headers=session)
            for used in places:
                ended = await client.delete(f"{url}{used}", headers=session) if used != opened else None
                answer = await client.post(f"{url}{used}", json=listing, headers=session)
                assert ended is None or ended.status_code == 404
                statuses[opened, used] = answer.status_code

    assert statuses == {(opened, used): 200 if opened == used else 404 for opened in places for used in places}


async def test_a_skill_that_needs_what_is_outside_does_not_exist_inside(kept: Kept) -> None:
    """It is in no search and in no list of resources, and code cannot import it."""
    url = await kept(shared)
    code = "from servers.outside import test_simple_text\n\n\ndef say() -> str:\n    return test_simple_text()\n"
    other = "def twice(number: int) -> int:\n    return number * 2\n"
    use = "from skills import say\nsay()"
    async with connected(url) as wide, connected(f"{url}/p/money") as narrow:
        await run(wide, code + "\nsay()")  # whose answer the example gets
        for name, text in (("say", code), ("twice", other)):
            example = {"inputs": {"number": 2}, "output": 4} if name == "twice" else {"inputs": {}, "output": SAID}
            asked = {"name": name, "code": text, "description": f"To {name}.", "examples": [example]}
            saved = await wide.call_tool("save_skill", asked)
            assert '"status":"active"' in text_of(saved), text_of(saved)
        control = text_of(await run(wide, use))
        found = [text_of(await each.call_tool("find_skills", {"query": ""})) for each in (wide, narrow)]
        loaded = await narrow.call_tool("load_skill", {"name": "say"})
        deleted = await narrow.call_tool("delete_skill", {"name": "say"})
        used = await run(narrow, use)
        shared_use = text_of(await run(narrow, "from skills import twice\ntwice(21)"))
        still = text_of(await run(wide, use))
        listed = [[each.uri for each in (await side.list_resources()).resources] for side in (wide, narrow)]

    assert control == SAID
    assert [("say" in each, "twice" in each) for each in found] == [(True, True), (False, True)]
    assert loaded.is_error
    assert deleted.is_error
    assert still == SAID
    assert used.is_error
    assert SAID not in text_of(used)
    assert shared_use == "42"
    assert [any("say" in uri for uri in uris) for uris in listed] == [True, False]


# Skills that reach outside by a way round

DIRECT = "from servers.outside import test_simple_text\n\n\ndef {name}() -> str:\n    return test_simple_text()\n"
THROUGH = "from skills import {inner}\n\n\ndef {name}() -> str:\n    return {inner}()\n"
COMPUTED = "def {name}() -> str:\n    return call_tool('mcp__outside__' + 'test_simple_text', {{}})\n"
PLAIN = "def {name}() -> str:\n    return 'plain'\n"
SAYS = [{"inputs": {}, "output": SAID}]


async def save(client: Client, name: str, code: str, **arguments: Any) -> types.CallToolResult:
    """The answer to saving a skill."""
    asked = {"name": name, "code": code, "description": f"The skill {name}.", **arguments}
    return await client.call_tool("save_skill", asked)


async def saved(client: Client, name: str, code: str, examples: Any = ()) -> str:
    """The version of a skill that is saved and active."""
    text = text_of(await save(client, name, code, examples=examples))
    assert '"status":"active"' in text, text
    return str(json.loads(text)["version"])


async def skill_uris(client: Client) -> list[str]:
    """The resources of the skills extension."""
    return [str(each.uri) for each in (await client.list_resources()).resources]


@pytest.mark.behaviour("profiles.skills")
@pytest.mark.parametrize("how", ["import", "import of an import", "computed name", "computed name in an import"])
async def test_a_skill_that_reaches_outside_by_a_way_round_does_not_exist_inside(kept: Kept, how: str) -> None:
    """Neither in a search, a load, an import, a resource, a suggestion or a message, and nothing can be put over it."""
    url = await kept(shared)
    mark = "".join(word[0] for word in how.split()) + str(len(how))
    inner, between, outer = f"deep{mark}", f"middle{mark}", f"outer{mark}"
    codes = {inner: (COMPUTED if "computed" in how else DIRECT).format(name=inner)}
    if "of" in how.split():
        codes[between] = THROUGH.format(name=between, inner=inner)
    if "import" in how:
        codes[outer] = THROUGH.format(name=outer, inner=[*codes][-1])
    name = [*codes][-1]
    use = f"from skills import {name}\n{name}()"
    thief = f"def {name}() -> str:\n    return call_tool('mcp__outside__test_' + 'simple_text', {{}})\n"
    async with connected(url) as wide, connected(f"{url}/p/money") as narrow:
        await run(wide, "from servers.outside import test_simple_text\ntest_simple_text()")  # which examples repeat
        for each, code in codes.items():
            await saved(wide, each, code, SAYS)
        control = [text_of(await run(wide, use)), *map(str, await skill_uris(wide))]
        seen = [
            text_of(await narrow.call_tool("find_skills", {"query": "the skill"})),
            text_of(await narrow.call_tool("find_skills", {"query": ""})),
            text_of(await narrow.call_tool("list_skills", {"limit": 50})),
            text_of(await narrow.call_tool("search_tools", {"query": "simple text by a skill"})),
            str(await skill_uris(narrow)),
        ]
        said = [
            text_of(await narrow.call_tool("load_skill", {"name": f"{name}_"})),
            text_of(await narrow.call_tool("load_skill", {"name": name})),
            text_of(await narrow.call_tool("load_skill", {"name": f"{name}@1.0.0"})),
            text_of(await narrow.call_tool("load_skill", {"name": name, "version": "7"})),
            text_of(await narrow.call_tool("delete_skill", {"name": name})),
            text_of(await narrow.call_tool("delete_skill", {"name": name, "version": "all"})),
            text_of(await run(narrow, use)),
            text_of(await run(narrow, f"from skills import load\nload('{name}')()")),
        ]
        over = [
            text_of(await save(narrow, name, code))
            for code in (PLAIN.format(name=name), thief, f"result = 'script for {name}'")
        ]
        using = await save(narrow, f"user{mark}", THROUGH.format(name=f"user{mark}", inner=name))
        after = [text_of(await run(wide, use)), *map(str, await skill_uris(wide))]
        versions = text_of(await wide.call_tool("load_skill", {"name": name, "version": "7"}))

    assert control[0] == SAID
    assert after == control
    assert "It has 1.0.0: name" in versions
    assert [each for each in seen if any(one in each for one in codes)] == []
    assert [SAID in each or "1.0.0" in each or "Nearest" in each for each in said] == [False] * len(said)
    assert all(each.startswith("UnknownSkill: No skill named") for each in said[:6]), said
    assert over == [f"InvalidSkill: The name '{name}' is taken. Use another one."] * 3
    assert using.is_error
    assert SAID not in text_of(using)


async def test_versions_that_reach_outside_are_not_told_from_those_that_never_were(kept: Kept) -> None:
    """Inside there is the version before; a list, a pin, an import and a deletion know no other."""
    url = await kept(shared)
    name = "mixed"
    async with connected(url) as wide, connected(f"{url}/p/money") as narrow:
        await run(wide, "from servers.outside import test_simple_text\ntest_simple_text()")
        first = await saved(wide, name, PLAIN.format(name=name), [{"inputs": {}, "output": "plain"}])
        second = await saved(wide, name, COMPUTED.format(name=name), SAYS)
        use = f"from skills import {name}\n{name}()"
        used = [text_of(await run(each, use)) for each in (wide, narrow)]
        loads = [
            text_of(await each.call_tool("load_skill", {"name": name} | ({"version": pin} if pin else {})))
            for each in (wide, narrow)
            for pin in ("", second, "9")
        ]
        found = json.loads(text_of(await narrow.call_tool("find_skills", {"query": f"the skill {name}"})))
        over = text_of(await save(narrow, name, PLAIN.format(name=name)))
        deleted = text_of(await narrow.call_tool("delete_skill", {"name": name, "version": "all"}))
        again = text_of(await narrow.call_tool("load_skill", {"name": name}))
        still = text_of(await run(wide, use))
        gone = text_of(await wide.call_tool("delete_skill", {"name": name}))
        over_deleted = text_of(await save(narrow, name, PLAIN.format(name=name)))
        after_deletion = text_of(await narrow.call_tool("load_skill", {"name": name, "version": second}))

    assert (first, second) == ("1.0.0", "1.0.1")
    assert used == [SAID, "plain"]
    assert [second in each for each in loads] == [True, True, True, False, True, False]
    assert loads[4] == loads[5].replace("'9'", f"'{second}'")
    assert f"{name}@" not in str(found)
    assert over == over_deleted == f"InvalidSkill: The name '{name}' is taken. Use another one."
    assert deleted == f'{{"skill":"{name}","deleted":["{first}"]}}'
    assert again == after_deletion == f"UnknownSkill: The skill '{name}' was deleted. Restore it, or save it again."
    assert still == SAID
    assert gone == f'{{"skill":"{name}","deleted":["{second}"]}}'


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_profile_over_standard_input_hides_skills_as_its_url_does(tmp_path: Path, mode: str) -> None:
    """Also while the server outside cannot be started, so that nobody lists its tools."""
    path, flag = tmp_path / "sealyard.toml", tmp_path / "down"
    more = DENIED.format(command=json.dumps(sys.executable), code=json.dumps(FLAKY.format(flag=str(flag))))
    path.write_text(config_text(tmp_path / "sealyard.db", f"{more}{MONEY}"), encoding="utf-8")
    said = []
    for arguments in ((), ("--profile", "money")):
        command, *rest = warm.python("-m", "sealyard", "serve", str(path), *arguments)
        async with Client(StdioServerParameters(command=command, args=rest), mode=mode, cache=None) as client:
            if not arguments:
                await run(client, "from servers.outside import test_simple_text\ntest_simple_text()")
                await saved(client, "say", COMPUTED.format(name="say"), SAYS)
                await saved(client, "tell", THROUGH.format(name="tell", inner="say"), SAYS)
            for name in ("say", "tell"):
                said += [text_of(await client.call_tool("load_skill", {"name": name}))]
                said += [text_of(await save(client, name, PLAIN.format(name=name)))] if arguments else []
        flag.touch()
        # Another command is another server, whose tools nobody remembers.
        path.write_text(path.read_text("utf-8").replace('"-c"', '"-B", "-c"'), encoding="utf-8")

    assert [name in said[index] for index, name in enumerate(("def say", "def tell"))] == [True, True]
    none = "UnknownSkill: No skill named {!r}. Call find_skills to find one that exists."
    taken = "InvalidSkill: The name {!r} is taken. Use another one."
    assert said[2:] == [text.format(name) for name in ("say", "tell") for text in (none, taken)]


async def test_workspaces_and_background_runs_of_others_stay_outside(kept: Kept) -> None:
    """A profile has files, sessions and executions of its own; no name of a session leads out of it."""
    url = await kept(shared)
    write = "open('secret.txt', 'w').write('kept')\n'written'"
    read = "import os\nopen('secret.txt').read() if os.path.exists('secret.txt') else sorted(os.listdir('.'))"
    names = ("default", ":money:default", ":default", "..:default", "local:default", "a/../default")
    async with connected(url) as wide, connected(f"{url}/p/money") as narrow, connected(f"{url}/p/outside") as third:
        await run(wide, write)
        began = json.loads(text_of(await run(wide, "'from outside'", background=True)))
        seen = [text_of(await run(narrow, read, session=name)) for name in names]
        control = text_of(await run(wide, read))
        await run(narrow, "open('own.txt', 'w').write('kept')")
        others = [text_of(await run(each, "import os\nos.path.exists('own.txt')")) for each in (wide, third, narrow)]
        looked = [
            await each.call_tool("execute_code", {"execution_id": began["execution_id"]}) for each in (narrow, wide)
        ]
        from_wide = text_of(await run(wide, read, session=":money:default"))

    assert control == "kept"
    assert all("kept" not in each for each in seen)
    assert others == ["false", "false", "true"]
    assert [each.is_error for each in looked] == [True, False]
    assert "UnknownExecution" in text_of(looked[0])
    assert "cannot name a session" in from_wide


@pytest.mark.parametrize("query", ["", "?codemode=off"])
async def test_a_token_of_another_profile_stands_for_nothing(kept: Kept, query: str) -> None:
    """A profile that may not read people cannot have a tool write to one whose token it was handed."""
    url = await kept(shared)
    read = "from servers.expenses import list_employees\nlist_employees()[0]['email']"
    async with connected(url) as wide, connected(f"{url}/p/money{query}") as narrow:
        token = text_of(await run(wide, read))
        code = f"from servers.expenses import get_budget\nget_budget({token!r})"
        control = text_of(await run(wide, code))
        if query:
            said = text_of(await narrow.call_tool("get_budget", {"department": token}))
        else:
            said = text_of(await run(narrow, code))

    assert token.startswith("__PII_email_")
    assert "UnknownToken" in said
    assert "UnknownToken" not in control


async def test_no_list_may_be_kept_for_other_clients(kept: Kept) -> None:
    """A server says that its lists are the same for all; at the same URL another client gets another list."""
    url = await kept(shared)
    async with connected(url) as code, connected(f"{url}/p/outside?codemode=0") as plain:
        scopes = [(await each.list_tools()).cache_scope for each in (code, plain)]
        scopes.append((await plain.list_resources()).cache_scope)

    assert scopes == ["private"] * 3


async def test_headers_that_repeat_arguments_must_agree_with_them_for_a_direct_tool(kept: Kept) -> None:
    """A proxy may route by the header, so that a call with another argument would pass it under a false flag."""
    url = await kept(shared)
    name = "mcp__outside__test_mirrored_header"
    meta = {
        types.PROTOCOL_VERSION_META_KEY: MODERN,
        types.CLIENT_INFO_META_KEY: {"name": "direct", "version": "1"},
        types.CLIENT_CAPABILITIES_META_KEY: {},
    }
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": {"region": "south"}, "_meta": meta},
    }
    headers = ACCEPT | {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": name}
    async with connected(url) as client:
        await client.call_tool("search_tools", {"query": "mirrored"})  # by then both servers have listed their tools
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        right = await http.post(url, json=body, headers={"mcp-param-region": "south"})
        wrong = await http.post(url, json=body, headers={"mcp-param-region": "north"})

    assert right.status_code == 200
    assert "south" in right.text
    assert wrong.status_code == 400
    assert "error" in wrong.json()


FLAKY = """
import os, runpy, sys
if os.path.exists({flag!r}):
    sys.exit(1)
runpy.run_module("tests.mcp.everything_server", run_name="__main__")
"""
DENIED = f"""
[upstreams.outside]
command = {{command}}
args = ["-c", {{code}}]
cwd = {json.dumps(str(ROOT))}

[[policy.rules]]
decision = "deny"
tools = ["mcp__outside__*"]
principals = ["clerk"]

[http.principals.clerk]
token = "c-secret"

[http.principals.boss]
token = "b-secret"

[profiles.outside]
upstreams = ["outside"]
"""
MONEY = """
[profiles.money]
upstreams = ["expenses"]
"""
RESOURCE = "test://static-text"


@pytest.mark.behaviour("relay.unlisted")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_server_that_was_down_at_first_is_no_way_around_the_policy(tmp_path: Path, mode: str) -> None:
    """Nothing is known of its tools when the client comes; once it is up, its resources are as closed as its tools."""
    flag, path = tmp_path / "down", tmp_path / "sealyard.toml"
    flag.touch()
    more = DENIED.format(command=json.dumps(sys.executable), code=json.dumps(FLAKY.format(flag=str(flag))))
    path.write_text(config_text(tmp_path / "sealyard.db", more), encoding="utf-8")

    async with serving(path) as url, contextlib.AsyncExitStack() as stack:

        async def client(token: str) -> Client:
            headers = {"authorization": f"Bearer {token}"}
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
            transport = streamable_http_client(f"{url}?codemode=off", http_client=http)
            return await stack.enter_async_context(Client(transport, mode=mode, cache=None))

        async def read(one: Client) -> str:
            try:
                return str((await one.read_resource(RESOURCE)).contents)
            except MCPError as error:
                return error.message

        clerk, boss = await client("c-secret"), await client("b-secret")
        before = [await read(clerk), [each.name for each in (await clerk.list_resources()).resources]]
        flag.unlink()
        control = await polled(lambda: read(boss), lambda said: "static text" in said)
        attack = await polled(lambda: read(clerk), lambda said: "could not be started" not in said)
        lists = [(await clerk.list_resources()).resources, (await clerk.list_prompts()).prompts]
        tools = [tool.name for tool in (await clerk.list_tools()).tools]
        own = [each.name for each in (await boss.list_prompts()).prompts]

    assert before == [f"No upstream lists the address '{RESOURCE}'.", []]
    assert "static text" in control
    assert attack == f"No upstream lists the address '{RESOURCE}'."
    assert lists == [[], []]
    assert any("list_expenses" in each for each in tools)
    assert not any("outside" in each for each in tools)
    assert "mcp__outside__test_simple_prompt" in own


async def test_no_list_may_be_kept_for_others_where_rules_name_principals(tmp_path: Path) -> None:
    """The server says that its list is the same for all; one principal has all of it, and another one has not."""
    path = tmp_path / "sealyard.toml"
    more = DENIED.format(command=json.dumps(sys.executable), code=json.dumps(FLAKY.format(flag="")))
    more = more.replace("mcp__outside__*", "mcp__outside__test_simple_text")
    path.write_text(config_text(tmp_path / "sealyard.db", more), encoding="utf-8")
    seen = []
    async with serving(path, "--mode", "proxy") as url:
        for token in ("b-secret", "c-secret"):
            headers = {"authorization": f"Bearer {token}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=60) as http,
                Client(streamable_http_client(f"{url}/p/outside", http_client=http), mode="auto", cache=None) as client,
            ):
                listed = await client.list_tools()
                seen.append(("test_simple_text" in [tool.name for tool in listed.tools], listed.cache_scope))

    assert seen == [(True, "private"), (False, "private")]
