"""The review of code against the tools that a principal sees."""

import asyncio

import pytest

from sealyard.access.runner import Runner
from sealyard.catalog import Snapshot
from sealyard.sandbox import PoolOptions
from sealyard.sandbox.policy import DEFAULT, LEVELS
from sealyard.sandbox.pool import Slots
from sealyard.sandbox.review import Finding, Review
from sealyard.values.tools import ToolSpec

SEARCH = "Call search_tools to find one that exists."


def spec(upstream: str, name: str) -> ToolSpec:
    """A tool without arguments."""
    return ToolSpec(
        upstream=upstream,
        name=name,
        full_name=f"mcp__{upstream}__{name}",
        module=upstream.replace("-", "_"),
        function=name.replace("-", "_"),
        input_schema={"type": "object"},
        digest=f"{upstream}.{name}",
    )


TOOLS = Snapshot(
    {
        "expenses": [spec("expenses", "add_expense"), spec("expenses", "list_expenses")],
        "git-hub": [spec("git-hub", "create-issue")],
        "my__notes": [spec("my__notes", "find")],
    }
)


async def reviewed(code: str, view: Snapshot = TOOLS) -> Review:
    """The verdict over code that may call the tools of `view`."""
    runner = Runner(
        DEFAULT,
        levels=LEVELS.__getitem__,
        scopes={},
        profiles={},
        opening=None,
        slots=Slots(PoolOptions()),
        offload=None,
        result_tokens=2_000,
    )
    return await runner.review(code, DEFAULT, view, (), "ann")


UNKNOWN: dict[str, tuple[int, str, str]] = {
    "call_tool('mcp__expenses__list_expnses', {})": (
        1,
        "No tool named 'mcp__expenses__list_expnses'.",
        "Nearest: 'mcp__expenses__list_expenses', 'mcp__expenses__add_expense'. search_tools finds others.",
    ),
    "call_tool(name='send_mail')": (1, "No tool named 'send_mail'.", SEARCH),
    "await call_tool('list_expense')": (
        7,
        "No tool named 'list_expense'.",
        "Nearest: 'mcp__expenses__list_expenses', 'mcp__expenses__add_expense'. search_tools finds others.",
    ),
    "from servers.expenses import list_expenses, add_expence": (
        45,
        "No tool named 'add_expence' on server 'expenses'.",
        "Nearest: 'servers.expenses.add_expense'. search_tools finds others.",
    ),
    "from servers import expense": (
        21,
        "No server named 'expense'.",
        "Nearest: 'expenses'. search_tools finds others.",
    ),
    "import servers.mail": (8, "No server named 'mail'.", SEARCH),
    "import servers.expenses as e; e.zzz()": (31, "No tool named 'zzz' on server 'expenses'.", SEARCH),
    "import servers; servers.mail.send()": (17, "No server named 'mail'.", SEARCH),
    "from servers import git_hub as g; g.create_issues()": (
        35,
        "No tool named 'create_issues' on server 'git_hub'.",
        "Nearest: 'servers.git_hub.create_issue'. search_tools finds others.",
    ),
    "from servers.expenses.zzz import zzz": (1, "No tool named 'zzz' on server 'expenses'.", SEARCH),
    f"call_tool({'x' * 200!r})": (1, f"No tool named '{'x' * 80}'.", SEARCH),
    "call_tool('\\ud800')": (1, "No tool named '\\\\ud800'.", SEARCH),
}


@pytest.mark.parametrize("code", UNKNOWN)
async def test_a_tool_that_does_not_exist_is_refused_with_the_nearest(code: str) -> None:
    """The run would fail at that line; the names that do exist save a search."""
    column, message, hint = UNKNOWN[code]

    verdict = await reviewed(code)

    assert verdict.verdict == "refuse"
    assert verdict.findings == (
        Finding(
            severity="refuse",
            rule="unknown-tool",
            line=1,
            column=column,
            source_line=verdict.references[0].source_line,
            message=message,
            hint=hint,
        ),
    )


@pytest.mark.parametrize(
    "code",
    [
        "call_tool('mcp__expenses__list_expenses', {})",
        "call_tool('expenses.list_expenses')",
        "call_tool('list_expenses')",
        "from servers.expenses import list_expenses as rows\nrows()",
        "from servers.expenses import *",
        "from servers.git_hub import create_issue",
        "from servers.my__notes import find",
        "import servers\nservers.__path__\nservers.expenses.add_expense()\nservers.expenses.__file__",
        "from servers import call_tool, expenses\nexpenses.list_expenses()",
    ],
)
async def test_tools_that_exist_are_allowed_however_they_are_reached(code: str) -> None:
    """By full name, another spelling, as a function, as an attribute."""
    assert (await reviewed(code)).findings == ()


async def test_without_tools_no_tool_exists() -> None:
    """A principal may see none."""
    assert (await reviewed("from servers.expenses import list_expenses", Snapshot({}))).verdict == "refuse"


async def test_unknown_names_among_ten_thousand_tools_do_not_hold_the_loop() -> None:
    """A few of them get their nearest, and others have a turn after each search."""
    names = (f"list_open_items_{number}_{'of_the_team_' * 6}" for number in range(10_000))
    view = Snapshot({"server7": [spec("server7", name) for name in names]})
    view.nearest("list")  # the table is made once for each catalog
    code = "\n".join(f'call_tool("list_opne_items_{number}_{"of_the_team_" * 6}")' for number in range(8))
    passes = 0

    async def count() -> None:
        nonlocal passes
        while True:
            await asyncio.sleep(0)
            passes += 1

    counting = asyncio.create_task(count())
    verdict = await reviewed(code, view)
    counting.cancel()

    hints = [each.hint for each in verdict.findings]
    assert [hint == SEARCH for hint in hints] == [False] * 3 + [True] * 5
    assert passes >= 2
