"""Arguments over MCP as frameworks write them: each has the obvious result, or an error that says what to give."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mcp import Client

from sealyard.config import Config, SandboxConfig, StoreConfig
from sealyard.config.settings import SurfaceConfig
from sealyard.serve.mcp import build_server
from sealyard.testing import FakeUpstream
from sealyard.yard import open_yard

ROWS = [{"a": 1}, {"a": 2}]
NOTHING = (None, "", "null", "None")
USUAL: dict[str, dict[str, Any]] = {
    "search_tools": {"query": "pay"},
    "execute_code": {"code": "n + 1", "context": {"n": 1}},
    "execute_python": {"code": "n + 1", "context": {"n": 1}},
    "execute_analysis": {"analysis_type": "filter", "data": ROWS},
    "find_skills": {"query": "seven"},
    "search_skills": {"query": "seven"},
    "list_skills": {},
    "load_skill": {"name": "seven"},
}
SAME: list[tuple[str, str, Any]] = [
    *(("search_tools", name, each) for name in ("server", "detail_level") for each in (None, "")),
    *(("search_tools", "limit", each) for each in (*NOTHING, 5, 5.0, "5")),
    *(
        ("search_tools", "detail_level", each)
        for each in ("with-description", "With_Description", " WITH_DESCRIPTION ")
    ),
    *(
        (tool, "language", each)
        for tool in ("execute_code", "execute_python")
        for each in (None, "", "Python", "PYTHON3")
    ),
    *(
        ("execute_code", name, each)
        for name in ("timeout_seconds", "timeout", "background", "cancel")
        for each in NOTHING
    ),
    *(("execute_code", name, each) for name in ("session", "execution_id", "isolation_level") for each in (None, "")),
    *(("execute_code", "timeout_seconds", each) for each in (9, 9.0, "9", "9.0")),
    *(("execute_code", name, each) for name in ("background", "cancel") for each in (False, "false", "False", 0)),
    ("execute_code", "context", '{"n": 1}'),
    ("execute_code", "isolation_level", "Production"),
    *(("execute_analysis", name, each) for name in ("source", "parameters") for each in (*NOTHING, {}, "{}")),
    *(("execute_analysis", "analysis_type", each) for each in ("Filter", "FILTER")),
    *(("execute_analysis", "timeout_seconds", each) for each in (*NOTHING, "9")),
    ("execute_analysis", "data", '[{"a": 1}, {"a": 2}]'),
    *(
        (tool, "limit", each)
        for tool in ("find_skills", "search_skills", "list_skills")
        for each in (*NOTHING, "50", 50.0)
    ),
    *(("list_skills", "query", each) for each in (None, "")),
    *(("load_skill", "version", each) for each in (None, "", "1")),
]
"""What says the same as the usual arguments."""
WRONG: list[tuple[str, str, Any, str]] = [
    ("search_tools", "limit", 5.5, "Expected `int`, got `float` - at `$.limit`"),
    ("search_tools", "limit", True, "Expected `int`, got `bool` - at `$.limit`"),
    ("search_tools", "detail_level", "None", "Use name_only, with_description or full."),
    ("search_tools", "server", "null", "No server named 'null'. There are: bank."),
    ("execute_code", "language", "None", "language is 'None'. Only 'python' is run here."),
    ("execute_code", "timeout_seconds", "soon", "Expected `float | null`, got `str` - at `$.timeout_seconds`"),
    ("execute_code", "timeout_seconds", True, "Expected `float | null`, got `bool` - at `$.timeout_seconds`"),
    ("execute_code", "context", "[1]", "Expected `object | null`, got `array` - at `$.context`"),
    ("execute_code", "context", "n = 1", "Expected `object | null`, got `str` - at `$.context`"),
    ("execute_code", "isolation_level", "None", "isolation_level is 'none'. Give production or hardened"),
    ("execute_code", "execution_id", "None", "No execution 'None' is known. Start one with background=true."),
    ("execute_code", "cancel", True, "Give execution_id to stop a run, or leave out cancel to run code."),
    ("execute_analysis", "analysis_type", "None", "Use filter, aggregate, transform, validate, statistics."),
    ("execute_analysis", "data", {}, "Give either data or source, not both"),
    ("execute_analysis", "parameters", "[1]", "Expected `object`, got `array` - at `$.parameters`"),
    ("save_skill", "name", None, "Object missing required field `name`. It takes name, code, description"),
    ("save_skill", "inputs", "None", "`inputs` has to be an object or a list. Write it as"),
    ("save_skill", "examples", {"inputs": {}}, "Expected `array`, got `object` - at `$.examples`"),
    ("save_skill", "tags", "a, b", "Expected `array`, got `str` - at `$.tags`"),
    ("load_skill", "version", "None", "'None' is not a version. Write it as `1`, `1.2` or `1.2.3`."),
    ("load_skill", "name", None, "Object missing required field `name`. It takes name, version."),
]
"""What says nothing that can be done, and the part of the error that says what to give."""


@contextlib.asynccontextmanager
async def _agent(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a gateway that has a tool and a skill."""
    sandbox = SandboxConfig(allow_weaker=True, pool_size=1, data_packages=False)
    config = Config(store=StoreConfig(path=tmp_path / "sealyard.db"), sandbox=sandbox)

    def pay(amount: int) -> int:
        """Pay an amount."""
        return amount

    async with (
        open_yard(config, upstreams={"bank": FakeUpstream("bank", pay=pay)}) as yard,
        Client(build_server(yard, SurfaceConfig())) as client,
    ):
        yield client


async def _ask(agent: Client, tool: str, arguments: dict[str, Any]) -> tuple[bool, str]:
    answer = await agent.call_tool(tool, arguments)
    return bool(answer.is_error), "".join(getattr(block, "text", "") for block in answer.content)


async def test_what_frameworks_write_for_an_argument_means_what_it_says(tmp_path: Path) -> None:
    """Nothing in any spelling, numbers and objects in texts, and capitals: the answer is the usual one."""
    seven = {"name": "seven", "code": "result = 7", "description": "Seven.", "examples": '[{"inputs": {}}]'}
    async with _agent(tmp_path) as agent:
        saved = await _ask(
            agent, "save_skill", {**seven, "inputs": "", "output": None, "tags": "null", "language": "Python"}
        )
        usual = {tool: await _ask(agent, tool, arguments) for tool, arguments in USUAL.items()}
        found = [(row, await _ask(agent, row[0], {**USUAL[row[0]], row[1]: row[2]})) for row in SAME]

    assert (saved[0], '"status":"active"' in saved[1]) == (False, True)
    assert [tool for tool, (is_error, _) in usual.items() if is_error] == []
    assert [(row, answer) for row, answer in found if answer != usual[row[0]]] == []


async def test_an_argument_that_cannot_be_meant_gets_an_error_that_says_what_to_give(tmp_path: Path) -> None:
    """The error names the argument or the choices, and never a fault of ours."""
    seven = {"name": "seven", "code": "result = 7", "description": "Seven."}
    usual = {**USUAL, "save_skill": seven}
    async with _agent(tmp_path) as agent:
        await _ask(agent, "save_skill", seven)
        found = [(row, await _ask(agent, row[0], {**usual[row[0]], row[1]: row[2]})) for row in WRONG]

    assert [(row, answer) for row, answer in found if not answer[0] or row[3] not in answer[1]] == []
