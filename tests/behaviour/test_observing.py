"""What a gateway tells of itself: facts for every run, search and decision, tokens, and events while code runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.broker.policy import PolicySettings, Rule
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, StoreConfig
from sealyard.errors import UpstreamError
from sealyard.metrics import tokens
from sealyard.observe.accounting import definition_text
from sealyard.sandbox.policy import DEFAULT
from sealyard.testing import FakeUpstream
from sealyard.values.access import Approval
from sealyard.values.facts import Executed, Hidden, Saw, Searched, SecurityEvent, Tokens, Used
from sealyard.values.runs import LiveEvent
from sealyard.yard import AnalyzeRequest, ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())

ROWS = [{"id": number, "amount": number * 1.5, "mail": f"user{number}@example.com"} for number in range(200)]


def list_expenses(since: str = "") -> list[dict[str, Any]]:
    """List the expenses since a date."""
    return ROWS


def delete_expense(expense_id: int) -> str:
    """Delete an expense."""
    return "gone"


def fail() -> str:
    """Always fails."""
    raise ValueError("no")


@contextlib.asynccontextmanager
async def opened(folder: Path, **settings: Any) -> AsyncIterator[Yard]:
    """A yard over one fake server."""
    server = FakeUpstream("expenses", list_expenses=list_expenses, delete_expense=delete_expense, fail=fail)
    server.tools |= settings.pop("tools", {})
    config = Config(store=StoreConfig(path=folder / "sealyard.db"), **settings)
    async with open_yard(config, policy=PLAIN, upstreams={"expenses": server}) as yard:
        yield yard


async def facts(yard: Yard, kind: type[Any]) -> list[Any]:
    """The facts of a kind, the oldest first."""
    await asyncio.sleep(0)  # which shows the last end to those who observe
    await yard.observer.accounting.settled()
    await asyncio.sleep(0)
    await yard.store.flush()
    found = await yard.store.metrics.facts(kind.__struct_config__.tag, since=0.0, limit=1_000)
    return sorted(found, key=lambda fact: fact.at)


async def run(yard: Yard, code: str, **options: Any) -> Any:
    """Run code and return the outcome."""
    return (await yard.execute(ExecuteRequest(code=code, **options), principal="alice")).outcome


@pytest.mark.parametrize(
    ("code", "use_case"),
    [
        ("sum(range(10))", "compute"),
        ("from servers.expenses import list_expenses\nlen(list_expenses())", "filtering"),
        (
            "from servers.expenses import list_expenses, delete_expense\ndelete_expense(list_expenses()[0]['id'])",
            "workflow",
        ),
        ("from servers.expenses import list_expenses\nfor _ in range(3): list_expenses(since='2024')", "polling"),
        ("from servers.expenses import delete_expense\nfor i in range(5): delete_expense(i)", "filtering"),
    ],
)
async def test_a_run_is_one_fact_that_says_what_it_was_for(tmp_path: Path, code: str, use_case: str) -> None:
    """Told from what it did: which tools, how often, with what."""
    async with opened(tmp_path) as yard:
        outcome = await run(yard, code)
        (fact,) = await facts(yard, Executed)

    assert (fact.execution_id, fact.principal, fact.form) == (outcome.execution_id, "alice", "code")
    assert (fact.status, fact.level, fact.tier, fact.use_case) == ("ok", "production", outcome.tier, use_case)
    assert fact.code_characters == len(code)
    assert fact.calls == outcome.usage.tool_calls


async def test_failures_are_told_by_names_of_a_closed_set(tmp_path: Path) -> None:
    """A class that code makes up never gets into a fact as its error's type."""
    async with opened(tmp_path) as yard:
        await run(yard, "1 / 0")
        await run(yard, "class Mine(Exception): pass\nraise Mine('x')")
        await run(yard, "import subprocess")
        await run(yard, "from servers.expenses import fail\nfail()")
        found = await facts(yard, Executed)
        security = await facts(yard, SecurityEvent)

    assert [(fact.status, fact.failure, fact.error_type) for fact in found][:2] == [
        ("failed", "exception", "ZeroDivisionError"),
        ("failed", "exception", "other"),
    ]
    assert found[2].failure in ("refused", "import")
    assert found[3].error_type in ("ToolFailed", "other")
    assert [fact.event for fact in security] == (["review_refused"] if found[2].failure == "refused" else [])


async def test_tokens_are_those_of_the_texts_that_went_by(tmp_path: Path) -> None:
    """Baseline: all definitions once, and every answer. Actual: the code and the result. Both counted."""
    code = "from servers.expenses import list_expenses\nlen(list_expenses())"
    async with opened(tmp_path, privacy=PrivacyConfig(mode="off")) as yard:
        result = await yard.execute(ExecuteRequest(code=code), principal="alice")
        await yard.execute(ExecuteRequest(code=code), principal="alice")
        visit, first, second = await facts(yard, Tokens)
        definitions = sum(tokens.count(definition_text(spec)) for spec in yard.tools.catalog.snapshot.tools.values())

    assert (visit.use_case, visit.definitions, visit.surface, visit.execution_id) == ("discovery", definitions, 0, "")
    assert first.data == tokens.count(msgspec.json.encode(ROWS).decode())
    assert (first.code, first.results) == (tokens.count(code), tokens.count(result.text))
    assert (first.definitions, first.use_case, first.uncounted_bytes) == (0, "filtering", 0)
    assert (second.data, second.code) == (first.data, first.code)


async def test_a_search_whose_tool_is_then_called_is_a_hit(tmp_path: Path) -> None:
    """Whoever searched: the agent, or code inside the sandbox."""
    async with opened(tmp_path) as yard:
        await yard.search("weather", principal="alice", detail_level="name_and_description")
        await yard.search("list expenses", principal="alice", detail_level="name-only")
        await run(yard, "from servers.expenses import list_expenses\nlen(list_expenses())")
        await run(
            yard,
            "from tool_discovery import search_tools\nsearch_tools('delete')\ncall_tool("
            "'mcp__expenses__delete_expense', {'expense_id': 1})",
        )
        searches = await facts(yard, Searched)
        hits = await facts(yard, Used)

    assert [(each.place, each.detail_level, each.is_continued) for each in searches] == [
        ("agent", "with_description", False),
        ("agent", "name_only", True),
        ("code", "with_description", False),
    ]
    assert searches[1].query == "list expenses"
    used = {each.search_id: each.tool for each in hits}
    assert used[searches[1].search_id] == "mcp__expenses__list_expenses"
    assert used[searches[2].search_id] == "mcp__expenses__delete_expense"


async def test_a_visit_begins_once_and_has_code_once(tmp_path: Path) -> None:
    """A search alone is a visit without code."""
    async with opened(tmp_path) as yard:
        await yard.search("expenses", principal="bob")
        await run(yard, "1")
        await run(yard, "2")
        seen = await facts(yard, Saw)

    assert [(each.principal, each.event) for each in seen] == [("bob", "begin"), ("alice", "begin"), ("alice", "code")]


async def test_what_was_hidden_is_counted_by_type(tmp_path: Path) -> None:
    """Each value that became a token, and never a value itself."""
    async with opened(tmp_path) as yard:
        await run(yard, "from servers.expenses import list_expenses\nlen(list_expenses())")
        (fact,) = await facts(yard, Hidden)

    assert fact.values["email"] >= 200
    assert "example.com" not in msgspec.json.encode(fact).decode()


async def test_an_ask_is_told_while_it_waits_and_when_it_is_answered(tmp_path: Path) -> None:
    """In events for who watches, and in facts with how long a person took."""
    rules = (Rule(tools=("mcp__expenses__delete_expense",), decision="ask"),)
    async with opened(tmp_path, policy=PolicySettings(rules=rules)) as yard:
        code = "from servers.expenses import delete_expense\ndelete_expense(1)"
        events: list[LiveEvent] = []
        async with yard.live.follow() as live:
            running = asyncio.create_task(run(yard, code))
            async for event in live:
                events.append(event)
                if event.kind == "asked":
                    assert [each.asks for each in yard.live.running()] == [1]
                    yes = Approval(decision="once", by="me", channel="http", answered_at=event.at + 2)
                    await yard.approvals.answer(event.body["id"], yes)
                if event.kind == "ended":
                    break
            outcome = await running
        security = await facts(yard, SecurityEvent)

    assert outcome.result == "gone"
    assert [event.kind for event in events] == ["started", "call", "asked", "answered", "called", "ended"]
    assert [event.event for event in security] == ["asked", "approved"]
    assert security[1].seconds == pytest.approx(2, abs=1)


async def test_output_reaches_a_watcher_concealed_and_also_one_who_comes_late(tmp_path: Path) -> None:
    """What was printed before anybody watched is not lost to who begins to."""
    code = (
        "import time\nfrom servers.expenses import ready\nprint('mail alice.smith@example.com')\nready()\n"
        "while not __import__('os').path.exists('go'): time.sleep(0.01)\nprint('after')"
    )
    is_ready = asyncio.Event()

    def ready() -> None:
        """Say that the code has come so far."""
        is_ready.set()

    async with opened(tmp_path, tools={"ready": ready}) as yard:
        running = asyncio.create_task(run(yard, code))
        await asyncio.wait_for(is_ready.wait(), 60)
        (watched,) = yard.live.running()
        async with yard.live.follow(execution_id=watched.execution_id) as live:
            seen = []
            async for event in live:
                seen.append(event)
                if event.kind == "output" and "mail" in event.body["text"]:
                    await run(yard, "open('go', 'w').close()")
        await running

    text = "".join(event.body["text"] for event in seen if event.kind == "output")
    assert text.startswith("mail __PII_email_")
    assert "after" in text
    assert "alice.smith" not in msgspec.json.encode(seen).decode()


async def test_a_call_without_code_is_told_too(tmp_path: Path) -> None:
    """As a run of its own form, whether it works or not."""
    async with opened(tmp_path) as yard:
        await yard.call("mcp__expenses__delete_expense", {"expense_id": 1}, principal="alice")
        with pytest.raises(UpstreamError):
            await yard.call("mcp__expenses__fail", {}, principal="alice")
        found = await facts(yard, Executed)

    assert [(fact.form, fact.status, fact.use_case, fact.calls) for fact in found] == [
        ("call", "ok", "direct", 1),
        ("call", "failed", "direct", 1),
    ]


async def test_an_analysis_is_a_run_of_our_own_code_over_rows_of_a_tool(tmp_path: Path) -> None:
    """The rows never reach the agent; the answer does, and the journal has it."""
    request = AnalyzeRequest(
        analysis_type="filter",
        source={"tool": "mcp__expenses__list_expenses", "arguments": {}},
        parameters={"conditions": [{"field": "amount", "operator": ">", "value": 295}]},
    )
    async with opened(tmp_path) as yard:
        result = await yard.analyze(request, principal="alice")
        (fact,) = await facts(yard, Executed)

    assert not result.is_error, result.text
    assert result.outcome.result["rows_in"] == 200
    assert [row["id"] for row in result.outcome.result["rows"]] == [197, 198, 199]
    assert (fact.form, fact.use_case, fact.calls, fact.tools) == (
        "analysis",
        "analysis",
        1,
        ("mcp__expenses__list_expenses",),
    )


async def test_a_wrong_analysis_is_told_without_a_line_of_code(tmp_path: Path) -> None:
    """The agent wrote none."""
    request = AnalyzeRequest(
        analysis_type="filter",
        data=[{"amount": 1}],
        parameters={"conditions": [{"field": "ammount", "operator": "==", "value": 1}]},
    )
    async with opened(tmp_path) as yard:
        result = await yard.analyze(request, principal="alice")

    assert result.is_error
    assert "'amount'" in result.text
    assert "line" not in result.text.split(":")[0]
    assert "sealyard_analysis" not in result.text


async def test_the_report_has_what_was_told(tmp_path: Path) -> None:
    """Up to this moment, folded or not."""
    async with opened(tmp_path) as yard:
        await run(yard, "from servers.expenses import list_expenses\nlen(list_expenses())")
        await run(yard, "1 / 0")
        await facts(yard, Executed)
        before = await yard.report()
        await yard.operations.upkeep.once()
        after = await yard.report()

    assert before.execution == after.execution
    assert (after.execution.count, after.execution.ok, after.execution.errors) == (2, 1, {"ZeroDivisionError": 1})
    assert after.upstreams["expenses"].calls == 1
    assert after.tokens.saved == after.tokens.baseline - after.tokens.actual > 0
    assert after.sessions.count == after.sessions.with_code == 1
