"""What an agent sees and can do, the same over every transport and in both eras of the protocol."""

import asyncio
import json
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from tests.surfaces.conftest import Connect, Reach

from sealyard.metrics import tokens
from sealyard.store import open_store
from sealyard.yard.surface import ARGUMENTS


def text_of(result: types.CallToolResult) -> str:
    """The one text of a result."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def meta_of(result: types.CallToolResult) -> dict[str, Any]:
    """What a program is told beside the text."""
    assert result.meta is not None
    meta: dict[str, Any] = result.meta["sealyard/execution"]
    return meta


@pytest.mark.behaviour("surface.few_tools")
async def test_the_advertised_tools_are_few_small_and_annotated(connect: Connect) -> None:
    """Everything an agent loads costs at most 1,000 tokens."""
    async with connect() as agent:
        listed = await agent.client.list_tools()
        instructions = agent.client.instructions

    definitions = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in listed.tools]
    assert [tool.name for tool in listed.tools] == [
        "search_tools",
        "execute_code",
        "execute_analysis",
        "save_skill",
        "find_skills",
        "load_skill",
    ]
    assert all(tool.annotations is not None for tool in listed.tools)
    assert tokens.count(json.dumps(definitions, separators=(",", ":"))) + tokens.count(instructions or "") < 1_000
    assert "not the whole catalogue" in (instructions or "")


@pytest.mark.behaviour("surface.search")
async def test_a_search_is_small_and_has_the_keys_of_its_level(connect: Connect) -> None:
    """A default search costs at most 300 tokens; each level adds exactly what it promises."""
    async with connect() as agent:
        default = text_of(await agent.call("search_tools", query="list the expenses of a person"))
        names = json.loads(text_of(await agent.call("search_tools", query="expenses", detail_level="name-only")))
        full = json.loads(text_of(await agent.call("search_tools", keyword="list_expenses", detail_level="full")))

    found = json.loads(default)
    assert tokens.count(default) <= 300
    assert found["tools"][0]["name"] == "mcp__expenses__list_expenses"
    assert {tuple(sorted(hit)) for hit in found["tools"]} == {("description", "name", "use")}
    assert {tuple(sorted(hit)) for hit in names["tools"]} == {("name", "use")}
    assert sorted(full["tools"][0]) == ["description", "name", "parameters", "returns", "signature", "use"]
    assert full["tools"][0]["use"] == "from servers.expenses import list_expenses"


async def test_words_that_no_tool_contains_are_named(reach: Reach) -> None:
    """The agent learns which of its words did not help."""
    agent = await reach()
    answer = json.loads(text_of(await agent.call("search_tools", query="xylophone expenses")))

    assert answer["unmatched"] == ["xylophone"]


@pytest.mark.behaviour("surface.code")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_code_calls_tools_and_returns_only_its_value(reach: Reach, mode: str) -> None:
    """More than a thousand rows stay inside; the answer is sent once, with metadata beside it."""
    agent = await reach(mode)
    result = await agent.execute(
        "from servers.expenses import list_expenses\n"
        "rows = list_expenses(limit=1500)\n"
        "print(len(rows) > 1000)\n"
        "result = {'all_have_amounts': all(r['amount'] for r in rows), 'n': n}",
        context={"n": 3},
    )

    assert text_of(result) == 'output:\nTrue\nresult:\n{"all_have_amounts":true,"n":3}'
    assert (result.is_error, result.structured_content) == (False, None)
    assert (meta_of(result)["status"], meta_of(result)["usage"]["tool_calls"]) == ("ok", 1)


@pytest.mark.behaviour("surface.budget")
async def test_a_careless_result_costs_at_most_the_budget_and_nothing_is_lost(reach: Reach) -> None:
    """Twenty thousand rows come back as a preview; the next run of the session reads all of them."""
    agent = await reach()
    careless = await agent.execute("[{'id': n, 'name': f'row {n}', 'amount': n / 7} for n in range(20_000)]")
    path = "results/" + meta_of(careless)["file"].rpartition("/")[2]
    again = await agent.execute(f"import json\nlen(json.load(open({path!r})))")

    assert tokens.count(text_of(careless)) <= 2000
    assert text_of(careless).startswith("(list of 20000 objects with keys id, name, amount; ")
    assert path in text_of(careless)
    assert text_of(again) == "20000"


async def test_careless_output_costs_at_most_the_budget_and_nothing_is_lost(reach: Reach) -> None:
    """What is printed is bounded like a value, with its beginning and its end."""
    agent = await reach()
    careless = await agent.execute("for n in range(20_000): print('line', n)")
    path = f"results/{meta_of(careless)['execution_id']}.txt"
    again = await agent.execute(f"len(open({path!r}).readlines())")

    assert tokens.count(text_of(careless)) <= 2000
    assert text_of(careless).startswith("line 0\nline 1\n")
    assert text_of(careless).endswith("line 19999")
    assert path in text_of(careless)
    assert text_of(again) == "20000"


async def test_an_error_names_the_line_and_what_to_do(reach: Reach) -> None:
    """A failure is a result that the model can act on."""
    agent = await reach()
    raised = await agent.execute("x = 1\ny = x + missing")
    unknown = await agent.execute("from servers.expenses import lst_expenses")
    refused = await agent.execute("import socket")

    assert raised.is_error
    assert text_of(raised).splitlines()[:2] == [
        "NameError: name 'missing' is not defined",
        "line 2: y = x + missing",
    ]
    assert "Nearest: 'servers.expenses.list_expenses'" in text_of(unknown)
    assert refused.is_error


async def test_wrong_arguments_of_a_tool_are_named_before_anything_is_sent(reach: Reach) -> None:
    """The message names the parameter and what is expected of it."""
    agent = await reach()
    result = await agent.execute("from servers.expenses import list_expenses\nlist_expenses(limit='many')")

    assert result.is_error
    assert text_of(result).startswith("InvalidArguments: ")
    assert "limit" in text_of(result)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"code": ""}, "InvalidRequest: The code is empty. Give at least one statement."),
        ({"code": "1", "language": "ruby"}, "InvalidRequest: language is 'ruby'. Only 'python' is run here."),
        ({"code": "1", "timeout_seconds": 500}, "InvalidRequest: timeout_seconds is 500. Give 1 to 120."),
        (
            {"execution_id": "nobody"},
            "UnknownExecution: No execution 'nobody' is known. Start one with background=true.",
        ),
    ],
)
async def test_a_wrong_request_says_what_to_do(reach: Reach, arguments: dict[str, Any], message: str) -> None:
    """It is a tool error, so that the model sees it."""
    agent = await reach()
    result = await agent.call("execute_code", **arguments)

    assert (result.is_error, text_of(result)) == (True, message)


ACCEPTED = {
    "search_tools": ["detail", "keyword"],
    "execute_code": ["isolation_level", "timeout"],
    "execute_analysis": ["isolation_level", "timeout", "timeout_seconds"],
    "find_skills": ["detail_level", "keyword"],
    "load_skill": ["skill_name"],
}
"""Arguments that are taken and not advertised."""
UNUSED: dict[str, dict[str, Any]] = {
    "search_tools": {"detail_level": "", "server": "", "limit": "", "keyword": "", "detail": ""},
    "execute_code": {
        "language": "",
        "context": "",
        "session": "",
        "timeout_seconds": "",
        "timeout": "",
        "isolation_level": "",
        "background": "",
        "execution_id": "",
        "cancel": "",
    },
    "execute_analysis": {
        "source": "",
        "parameters": "",
        "session": "",
        "timeout_seconds": "",
        "timeout": "",
        "isolation_level": "",
    },
    "save_skill": {"inputs": "", "output": "", "tags": "", "examples": ""},
    "find_skills": {"query": "", "limit": "", "detail_level": "", "keyword": ""},
    "load_skill": {"version": "", "skill_name": ""},
    "call_tool": {"arguments": ""},
}
"""Every optional argument of each tool, empty."""
USED: dict[str, dict[str, Any]] = {
    "search_tools": {"query": "expenses"},
    "execute_code": {"code": "6 * 7"},
    "execute_analysis": {"analysis_type": "filter", "data": [{"a": 1}]},
    "save_skill": {"name": "six", "code": "result = 6", "description": "Six."},
    "find_skills": {},
    "load_skill": {"name": "six"},
    "call_tool": {"name": "list_employees"},
}


@pytest.mark.behaviour("surface.absent")
@pytest.mark.parametrize("empty", [None, ""])
async def test_an_argument_that_is_null_or_empty_counts_as_absent(connect: Connect, empty: object) -> None:
    """Clients in strict modes fill in every argument of a tool, one at a time and all together."""
    wrong: list[str] = []
    async with connect() as agent:
        for tool in [name for name in UNUSED if name != "call_tool"]:
            for unused in (*({name: empty} for name in UNUSED[tool]), dict.fromkeys(UNUSED[tool], empty)):
                answer = await agent.call(
                    tool, **USED[tool], **{n: v for n, v in unused.items() if n not in USED[tool]}
                )
                wrong += [f"{tool} {unused}: {text_of(answer)}"] if answer.is_error else []

    assert wrong == []
    assert {name: sorted({*USED[name], *UNUSED[name]}) for name in UNUSED if name != "call_tool"} == {
        name: sorted({*ARGUMENTS[name], *ACCEPTED.get(name, ())}) for name in USED if name != "call_tool"
    }


async def test_a_call_without_arguments_takes_null_for_them(connect: Connect) -> None:
    """In the mode `search` as well; an argument of the tool itself is passed on as it is."""
    async with connect('[surface]\nmode = "search"\n') as agent:
        answers = [await agent.call("call_tool", name="list_employees", arguments=empty) for empty in (None, "")]

    assert [answer.is_error for answer in answers] == [False, False]


async def test_a_required_argument_that_is_null_is_missing(reach: Reach) -> None:
    """The message lists the arguments of this tool, those that are not advertised last."""
    agent = await reach()
    skill = await agent.call("save_skill", name=None, code="1", description="One.")
    kind = await agent.call("execute_analysis", analysis_type=None, data=[])

    assert text_of(skill) == (
        "InvalidRequest: The arguments of save_skill are wrong: Object missing required field `name`. It takes name, "
        "code, description, inputs, examples, output, tags."
    )
    assert text_of(kind) == (
        "InvalidRequest: The arguments of execute_analysis are wrong: Object missing required field `analysis_type`. "
        "It takes analysis_type, data, source, parameters, session."
    )


@pytest.mark.parametrize("language", ["Python", "PYTHON", "python3", "Py", " python "])
async def test_python_goes_by_several_names(reach: Reach, language: str) -> None:
    """Models write the language in their own way."""
    agent = await reach()

    assert text_of(await agent.execute("6 * 7", language=language)) == "42"


OTHER_NAMES = ("execute_python", "list_skills", "search_skills", "delete_skill")


@pytest.mark.behaviour("surface.deletes_named_versions")
@pytest.mark.parametrize("version", [{}, {"version": ""}, {"version": None}])
async def test_no_argument_that_was_left_out_or_filled_in_deletes_all_versions(
    reach: Reach, version: dict[str, Any]
) -> None:
    """Where there are several, the one to delete is named, or all of them by that word."""
    agent = await reach()
    name = f"several{len(str(version))}"
    for result in (1, 2, 3):
        await agent.call("save_skill", name=name, code=f"result = {result}", description=f"Says {result}.")
    refused = await agent.call("delete_skill", name=name, **version)
    kept = text_of(await agent.call("load_skill", name=name))
    one = text_of(await agent.call("delete_skill", name=f"{name}@1.0.1", **version))
    rest = text_of(await agent.call("delete_skill", name=name, version="all"))
    last = await agent.call("load_skill", name=name)

    assert refused.is_error
    assert text_of(refused) == (
        f"InvalidRequest: The skill '{name}' has 3 versions, such as 1.0.2, 1.0.1, 1.0.0. Name the one to delete, or "
        "'all'."
    )
    assert kept.endswith("result = 3")
    assert one == f'{{"skill":"{name}@1.0.1","deleted":["1.0.1"]}}'
    assert rest == f'{{"skill":"{name}","deleted":["1.0.2","1.0.0"]}}'
    assert last.is_error


@pytest.mark.behaviour("surface.other_names")
async def test_what_other_programs_call_a_tool_or_an_argument_is_understood(reach: Reach) -> None:
    """Agents that were taught those names go on as they are used to."""
    agent = await reach()
    ran = await agent.call("execute_python", code="n * 2", context={"n": 21}, timeout=5, language="Python3")
    for name in ("seven", "eight"):
        await agent.call("save_skill", name=name, code=f"result = '{name}'", description=f"Says {name}.")
    both = json.loads(text_of(await agent.call("list_skills", detail="full")))["skills"]
    one = json.loads(text_of(await agent.call("search_skills", keyword="says eight", limit=100)))["skills"]
    loaded = text_of(await agent.call("load_skill", skill_name="seven"))
    gone = text_of(await agent.call("delete_skill", skill_name="seven"))
    again = await agent.call("delete_skill", name="seven", version="1.0.0")
    await agent.call("delete_skill", name="eight")
    found = json.loads(text_of(await agent.call("search_tools", keyword="expenses", detail="name-only")))["tools"]

    assert text_of(ran) == "42"
    assert {"seven", "eight"} <= {skill["name"] for skill in both}
    assert one[0]["name"] == "eight"
    assert loaded.endswith("result = 'seven'")
    assert gone == '{"skill":"seven","deleted":["1.0.0"]}'
    assert text_of(again) == (
        "UnknownSkill: No skill named 'seven' of version 1.0.0 is there. find_skills shows those that are; only a "
        "person deletes a shared one."
    )
    assert set(found[0]) == {"name", "use"}


async def test_two_names_of_one_argument_must_agree(reach: Reach) -> None:
    """Neither is taken over the other in silence."""
    agent = await reach()
    same = await agent.execute("1", timeout=5, timeout_seconds=5)
    times = await agent.execute("1", timeout=5, timeout_seconds=10)
    words = await agent.call("search_tools", keyword="money", query="time")

    assert text_of(same) == "1"
    assert text_of(times) == (
        "InvalidRequest: timeout is 5 and timeout_seconds 10. Give one of them: they mean the same."
    )
    assert text_of(words) == "InvalidRequest: keyword and query differ. Give one of them: they mean the same."


async def test_other_names_are_advertised_nowhere(connect: Connect) -> None:
    """They cost no token: not in the list, in the instructions, or in the message about an unknown tool."""
    async with connect() as agent:
        listed = await agent.client.list_tools()
        instructions = agent.client.instructions or ""
        with pytest.raises(MCPError) as caught:
            await agent.call("execute_ruby")
        wrong = await agent.call("execute_python", kode="1")

    said = [listed.model_dump_json(), instructions, caught.value.error.message, text_of(wrong).partition(":")[2]]
    assert [(name, text) for name in OTHER_NAMES[1:] for text in said if name in text] == []
    assert [text for text in said[:3] if "execute_python" in text] == []


async def test_without_code_no_name_runs_code(connect: Connect) -> None:
    """In the mode `search` the other names are as unknown as the tools themselves."""
    async with connect('[surface]\nmode = "search"\n') as agent:
        for name in ("execute_code", *OTHER_NAMES):
            with pytest.raises(MCPError):
                await agent.call(name, code="1", name="x")


async def test_an_unknown_tool_is_a_protocol_error(reach: Reach) -> None:
    """As the specification asks; the message says how to find tools."""
    agent = await reach()
    with pytest.raises(MCPError) as caught:
        await agent.call("list_expenses")

    assert caught.value.error.code == types.INVALID_PARAMS


@pytest.mark.behaviour("run.session_files")
async def test_files_stay_for_the_next_run_of_a_session_and_of_no_other(reach: Reach) -> None:
    """A session names a workspace."""
    agent = await reach()
    await agent.execute("open('note.txt', 'w').write('kept')", session="a")
    same = await agent.execute("open('note.txt').read()", session="a")
    other = await agent.execute("import os\nos.listdir()", session="b")

    assert (text_of(same), text_of(other)) == ("kept", "[]")


@pytest.mark.behaviour("surface.progress")
async def test_output_streams_while_the_code_runs(connect: Connect) -> None:
    """The client sees a line before the run that printed it has ended."""
    seen: list[str] = []
    printed = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message or "")
        printed.set()

    async with connect() as agent, anyio.create_task_group() as group:

        async def run() -> None:
            code = "import time\nprint('first')\nwhile True: time.sleep(0.05)"
            await agent.client.call_tool(
                "execute_code", {"code": code, "timeout_seconds": 120}, progress_callback=on_progress
            )

        group.start_soon(run)
        async with asyncio.timeout(60):
            await printed.wait()
        group.cancel_scope.cancel()

    assert "".join(seen).startswith("first")


@pytest.mark.behaviour("surface.background")
async def test_a_background_run_is_looked_at_and_read(reach: Reach) -> None:
    """Its id is answered at once; its result is there when it is over, and it ran once."""
    agent = await reach()
    started = await agent.execute("open('runs', 'a').write('x')\nprint('hello')\n6 * 7", background=True)
    execution = meta_of(started)["execution_id"]
    async with asyncio.timeout(60):
        while "state" in meta_of(result := await agent.call("execute_code", execution_id=execution)):
            pass
    again = await agent.call("execute_code", execution_id=execution)
    runs = await agent.execute("open('runs').read()")

    assert text_of(result) == text_of(again) == "output:\nhello\nresult:\n42"
    assert text_of(runs) == "x"


@pytest.mark.usefixtures("quick_looks")
async def test_a_background_run_shows_its_output_and_can_be_cancelled(reach: Reach) -> None:
    """Cancelling kills it; its state then says so."""
    agent = await reach()
    started = await agent.execute(
        "import time\nprint('on it')\nwhile True: time.sleep(0.1)", background=True, timeout_seconds=100
    )
    execution = meta_of(started)["execution_id"]
    async with asyncio.timeout(60):
        while "output_so_far" not in meta_of(looked := await agent.call("execute_code", execution_id=execution)):
            pass
    cancelled = await agent.call("execute_code", execution_id=execution, cancel=True)

    assert meta_of(looked) == {"execution_id": execution, "state": "running", "output_so_far": "on it\n"}
    assert meta_of(cancelled)["state"] == "cancelled"


async def test_hybrid_mode_adds_the_listed_tools_and_passes_them_through(connect: Connect) -> None:
    """What is listed in `surface.direct` is callable by its full name, beside the code mode's tools."""
    surface = '[surface]\nmode = "hybrid"\ndirect = ["mcp__expenses__get_*"]\n'
    async with connect(surface) as agent:
        listed = await agent.client.list_tools()
        answer = await agent.call("mcp__expenses__get_budget", department="Sales")
        wrong = await agent.call("mcp__expenses__get_budget", department=3)

    own = ["search_tools", "execute_code", "execute_analysis", "save_skill", "find_skills", "load_skill"]
    assert [tool.name for tool in listed.tools] == [*own, "mcp__expenses__get_budget"]
    assert json.loads(text_of(answer))["department"] == "Sales"
    assert wrong.is_error


async def test_search_mode_calls_tools_by_name(connect: Connect) -> None:
    """For clients that cannot write code: two tools, the same catalogue, bounded answers."""
    async with connect('[surface]\nmode = "search"\n') as agent:
        listed = await agent.client.list_tools()
        answer = await agent.call("call_tool", name="mcp__expenses__get_budget", arguments={"department": "Sales"})
        big = await agent.call("call_tool", name="list_expenses", arguments={"limit": 1500})
        unknown = await agent.call("call_tool", name="mcp__expenses__get_bugdet")

    assert [tool.name for tool in listed.tools] == ["search_tools", "call_tool"]
    assert json.loads(text_of(answer))["department"] == "Sales"
    assert tokens.count(text_of(big)) <= 2000
    assert "Nearest: 'mcp__expenses__get_budget'" in text_of(unknown)


@pytest.mark.behaviour("surface.cancel")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_cancels_kills_its_run(connect: Connect, tmp_path: Path, mode: str) -> None:
    """The journal says that it was cancelled, long before the time it was allowed."""
    printed = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        printed.set()

    async with connect(mode=mode) as agent:

        async def run() -> None:
            code = "import time\nprint('on')\nwhile True: time.sleep(0.05)"
            await agent.client.call_tool(
                "execute_code", {"code": code, "timeout_seconds": 120}, progress_callback=on_progress
            )

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            async with asyncio.timeout(60):
                await printed.wait()
            group.cancel_scope.cancel()
        async with asyncio.timeout(60), open_store(tmp_path / "store" / "sealyard.db") as store:
            statuses: list[str] = []
            while statuses in ([], ["running"]):
                statuses = [record.status for record in await store.executions()]
        after = await agent.execute("1 + 1")

    assert statuses == ["cancelled"]
    assert text_of(after) == "2"
