"""Tokens by their definition: what the agent wrote and was sent, and what it would have read without a gateway.

Every figure here is counted by the test itself from what went over the wire. An agent talks to the gateway over MCP.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mcp_types as types
import msgspec
import pytest
from mcp import Client

from sealyard.broker.policy import PolicySettings, Rule
from sealyard.broker.upstreams import Response, ResponseFile
from sealyard.config import Config
from sealyard.config.settings import MetricsConfig, PrivacyConfig, StoreConfig, SurfaceConfig
from sealyard.metrics import tokens
from sealyard.sandbox.policy import DEFAULT
from sealyard.serve.mcp import build_server
from sealyard.testing import FakeUpstream
from sealyard.values.facts import Tokens
from sealyard.values.tools import ToolSpec
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())

ROWS = [
    {"id": number, "amount": round(number * 1.37, 2), "category": ("food", "travel", "größeres")[number % 3]}
    for number in range(300)
]
FEW = ROWS[:3]


def list_expenses(since: str = "") -> list[dict[str, Any]]:
    """List the expenses since a date."""
    return ROWS


def recent_expenses() -> list[dict[str, Any]]:
    """List the newest expenses."""
    return FEW


def delete_expense(expense: int) -> str:
    """Delete an expense."""
    return "gone"


def fail() -> str:
    """Always fails."""
    raise ValueError("no luck with this")


def chart() -> Response:
    """Draw the expenses."""
    return Response(
        value={"file": "chart.png"}, files=(ResponseFile(name="chart.png", mime="image/png", content=b"\x89PNG" * 100),)
    )


def count(*texts: str) -> int:
    """The tokens of texts."""
    return sum(map(tokens.count, texts))


def as_json(value: Any) -> str:
    """What goes over the wire of a value."""
    return msgspec.json.encode(value).decode()


def definition(spec: ToolSpec) -> str:
    """A tool as a plain server lists it."""
    return as_json({"name": spec.full_name, "description": spec.description, "inputSchema": spec.input_schema})


class Agent:
    """A client that keeps what it reads."""

    def __init__(self, yard: Yard, client: Client) -> None:
        self.yard = yard
        self.client = client

    async def ask(self, tool: str, /, **arguments: Any) -> str:
        """The text that answers a call."""
        result = await self.client.call_tool(tool, arguments)
        (block,) = result.content
        assert isinstance(block, types.TextContent)
        return block.text

    async def bills(self) -> list[Tokens]:
        """What was recorded, the first bill first."""
        await self.yard.observer.accounting.settled()
        await self.yard.store.flush()
        found = await self.yard.store.metrics.facts("tokens", since=0.0, limit=1_000)
        return sorted((each for each in found if isinstance(each, Tokens)), key=lambda bill: bill.at)

    async def surface(self) -> int:
        """What it was shown before it did anything."""
        listed = (await self.client.list_tools()).tools
        own = [tool for tool in listed if not tool.name.startswith("mcp__")]
        shown = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in own]
        direct = [self.yard.tools.catalog.snapshot.tools[tool.name] for tool in listed if tool not in own]
        return count(as_json([self.client.instructions or "", *shown]), *map(definition, direct))


@contextlib.asynccontextmanager
async def connected(folder: Path, *, surface: SurfaceConfig | None = None, **settings: Any) -> AsyncIterator[Agent]:
    """An agent over one server, with nothing hidden: texts can be compared."""
    server = FakeUpstream(
        "expenses",
        list_expenses=list_expenses,
        recent_expenses=recent_expenses,
        delete_expense=delete_expense,
        fail=fail,
        chart=chart,
    )
    surface = surface or SurfaceConfig()
    config = Config(
        store=StoreConfig(path=folder / "sealyard.db"),
        surface=surface,
        privacy=PrivacyConfig(mode="off"),
        **settings,
    )
    async with (
        open_yard(config, policy=PLAIN, upstreams={"expenses": server}) as yard,
        Client(build_server(yard, surface)) as client,
    ):
        yield Agent(yard, client)


def definitions(yard: Yard) -> int:
    """What a plain client would have read of the tools."""
    found = yard.tools.catalog.snapshot.tools.values()
    assert len(found) == 5
    return count(*map(definition, found))


def parts(bill: Tokens) -> dict[str, int]:
    """What is on a bill, without what is not."""
    names = ("definitions", "data", "surface", "searches", "code", "results", "uncounted_bytes")
    return {name: getattr(bill, name) for name in names if getattr(bill, name)}


async def test_each_surface_is_billed_to_those_who_are_shown_it(tmp_path: Path) -> None:
    """Two clients of one principal in different modes have a visit each, and neither pays for the other's tools."""
    async with (
        connected(tmp_path) as code,
        Client(build_server(code.yard.beside(), SurfaceConfig(), mode="search")) as client,
    ):
        search = Agent(code.yard, client)
        shown = [await code.surface(), await search.surface()]
        await code.ask("search_tools", query="expenses")
        await search.ask("search_tools", query="expenses")
        await code.ask("search_tools", query="expenses")
        bills = await code.bills()

    assert [each.surface for each in bills if each.surface] == shown
    assert shown[1] < shown[0]
    assert [each.definitions for each in bills if each.definitions] == [bills[0].definitions] * 2
    assert len({each.session for each in bills}) == 2


async def test_a_visit_is_billed_once_with_all_definitions_and_the_surface(tmp_path: Path) -> None:
    """Whatever it begins with, and however much follows."""
    async with connected(tmp_path) as agent:
        surface = await agent.surface()
        await agent.ask("search_tools", query="expenses")
        await agent.ask("execute_code", code="1")
        await agent.ask("execute_code", code="2")
        bills = await agent.bills()

        assert parts(bills[0]) == {"definitions": definitions(agent.yard), "surface": surface}
        assert [each.definitions for each in bills[1:]] == [0, 0, 0]
        assert len({each.session for each in bills}) == 1


async def test_tools_that_are_advertised_directly_are_part_of_the_surface(tmp_path: Path) -> None:
    """In hybrid mode the agent reads their definitions, so they are paid for."""
    surface = SurfaceConfig(mode="hybrid", direct=("recent_expenses", "delete_expense"))
    async with connected(tmp_path, surface=surface) as agent:
        shown = await agent.surface()
        await agent.ask("search_tools", query="expenses")
        bills = await agent.bills()

    assert bills[0].surface == shown


async def test_a_search_costs_its_words_and_its_answer(tmp_path: Path) -> None:
    """Also one that finds nothing, and one that is wrong."""
    async with connected(tmp_path) as agent:
        asked = [{"query": "list expenses"}, {"query": "zebra", "detail_level": "full"}]
        read = [await agent.ask("search_tools", **each) for each in asked]
        _, *bills = await agent.bills()

    assert [parts(each) for each in bills] == [
        {"code": count(as_json(wrote)), "searches": count(text)} for wrote, text in zip(asked, read, strict=True)
    ]
    assert {each.use_case for each in bills} == {"discovery"}


async def test_code_costs_what_was_written_and_what_came_back(tmp_path: Path) -> None:
    """And would have cost every answer of every call: also of those whose rows were thrown away."""
    code = (
        "from servers.expenses import list_expenses, recent_expenses\n"
        "rows = list_expenses()\nlist_expenses(since='2024')\nrecent_expenses()\nprint('größer')\nlen(rows)"
    )
    async with connected(tmp_path) as agent:
        text = await agent.ask("execute_code", code=code)
        _, bill = await agent.bills()

    assert text == "output:\ngrößer\nresult:\n300"
    assert parts(bill) == {
        "data": 2 * count(as_json(ROWS)) + count(as_json(FEW)),
        "code": count(code),
        "results": count(text),
    }
    assert bill.use_case == "workflow"


async def test_the_context_was_written_by_the_agent_too(tmp_path: Path) -> None:
    """Rows that it passes in were in its own context."""
    async with connected(tmp_path) as agent:
        text = await agent.ask("execute_code", code="len(rows)", context={"rows": FEW})
        _, bill = await agent.bills()

    assert parts(bill) == {"code": count("len(rows)\n" + as_json({"rows": FEW})), "results": count(text)}


async def test_a_run_that_fails_costs_its_error(tmp_path: Path) -> None:
    """The agent reads it. A call that fails brought no data."""
    code = "from servers.expenses import fail, recent_expenses\nrecent_expenses()\nfail()"
    async with connected(tmp_path) as agent:
        text = await agent.ask("execute_code", code=code)
        refused = await agent.ask("execute_code", code="import subprocess")
        _, failed, denied = await agent.bills()

    assert "no luck" in text
    assert parts(failed) == {"data": count(as_json(FEW)), "code": count(code), "results": count(text)}
    assert parts(denied) == {"code": count("import subprocess"), "results": count(refused)}


async def test_an_analysis_costs_its_request_and_its_answer(tmp_path: Path) -> None:
    """And would have cost the rows it looked through."""
    wrote = {
        "analysis_type": "aggregate",
        "source": {"tool": "mcp__expenses__list_expenses", "arguments": {}},
        "parameters": {"group_by": ["category"], "aggregations": [{"function": "sum", "field": "amount"}]},
    }
    async with connected(tmp_path) as agent:
        text = await agent.ask("execute_analysis", **wrote)
        _, bill = await agent.bills()

    assert "größeres" in text
    assert bill.data == count(as_json(ROWS))
    assert bill.results == count(text)
    written = {"analysis_type": wrote["analysis_type"], "parameters": wrote["parameters"], "source": wrote["source"]}
    assert bill.code == count(as_json(written))
    assert bill.use_case == "analysis"


async def test_rows_given_to_an_analysis_are_paid_for_as_written(tmp_path: Path) -> None:
    """They were in the agent's context, so nothing is saved by that."""
    async with connected(tmp_path) as agent:
        text = await agent.ask("execute_analysis", analysis_type="filter", data=ROWS, parameters={"limit": 1})
        _, bill = await agent.bills()

    assert (bill.data, bill.results) == (0, count(text))
    assert bill.code >= count(as_json(ROWS))


async def test_a_call_without_code_saves_nothing_of_its_answer(tmp_path: Path) -> None:
    """The agent reads it whole, as it would have, and wrote the call."""
    async with connected(tmp_path, surface=SurfaceConfig(mode="search")) as agent:
        call = {"name": "mcp__expenses__recent_expenses", "arguments": {}}
        text = await agent.ask("call_tool", **call)
        _, bill = await agent.bills()

    assert text == as_json(FEW)
    assert parts(bill) == {"data": count(text), "code": count(as_json(call)), "results": count(text)}
    assert bill.use_case == "direct"


async def test_a_call_without_code_whose_answer_is_cut_costs_what_was_sent(tmp_path: Path) -> None:
    """Not the whole answer."""
    async with connected(tmp_path, surface=SurfaceConfig(mode="search", result_tokens=500)) as agent:
        text = await agent.ask("call_tool", name="mcp__expenses__list_expenses", arguments={})
        _, bill = await agent.bills()

    assert "(cut:" in text
    assert (bill.data, bill.results) == (count(as_json(ROWS)), count(text))


async def test_a_call_without_code_that_fails_costs_its_error(tmp_path: Path) -> None:
    """As every answer."""
    async with connected(tmp_path, surface=SurfaceConfig(mode="search")) as agent:
        text = await agent.ask("call_tool", name="mcp__expenses__fail", arguments={})
        _, bill = await agent.bills()

    assert "no luck" in text
    assert (bill.data, bill.results) == (0, count(text))


async def test_files_that_tools_send_are_told_as_bytes(tmp_path: Path) -> None:
    """A picture is no text: what it would have cost is not made up, and not kept quiet."""
    async with connected(tmp_path) as agent:
        await agent.ask("execute_code", code="from servers.expenses import chart\nlen(chart())")
        _, bill = await agent.bills()

    assert bill.uncounted_bytes == 400
    assert bill.data == count(as_json({"file": "chart.png"}))


async def test_skills_cost_what_was_written_and_read(tmp_path: Path) -> None:
    """Saving, finding and reading one; a run that imports one is their reuse."""
    wrote = {
        "name": "total",
        "code": "def total() -> float:\n    from servers.expenses import list_expenses\n"
        "    return sum(row['amount'] for row in list_expenses())\n",
        "description": "The sum of all expenses.",
    }
    async with connected(tmp_path) as agent:
        saved = await agent.ask("save_skill", **wrote)
        found = await agent.ask("find_skills", query="sum")
        code = "from skills import total\ntotal()"
        text = await agent.ask("execute_code", code=code)
        _, *bills = await agent.bills()

    assert [parts(each) for each in bills] == [
        {"code": count(as_json(wrote)), "results": count(saved)},
        {"code": count(as_json({"query": "sum"})), "results": count(found)},
        {"data": count(as_json(ROWS)), "code": count(code), "results": count(text)},
    ]
    assert {each.use_case for each in bills} == {"skill_reuse"}


async def test_a_background_run_costs_each_answer_that_was_read(tmp_path: Path) -> None:
    """The one that it began, each look at it, and its result each time that it is read."""
    code = "from servers.expenses import recent_expenses\nlen(recent_expenses())"
    async with connected(tmp_path) as agent:
        begun = await agent.ask("execute_code", code=code, background=True)
        execution_id = msgspec.json.decode(begun)["execution_id"]
        looks = [await agent.ask("execute_code", execution_id=execution_id) for _ in range(3)]
        bills = await agent.bills()

    assert looks[-1] == "3"
    assert sum(each.data for each in bills) == count(as_json(FEW))
    # The result is billed when the run ends, and what is read beside it when it is read.
    expected = count(begun) + sum(count(look) for look in looks)
    assert sum(each.results for each in bills) >= expected


async def test_a_request_that_is_refused_costs_what_was_written_and_the_refusal(tmp_path: Path) -> None:
    """The agent wrote it and reads why."""
    async with connected(tmp_path) as agent:
        text = await agent.ask("search_tools", query="expenses", detail_level="everything")
        bills = await agent.bills()

    assert "detail_level" in text
    assert sum(each.results + each.searches for each in bills) == count(text)


async def test_a_call_that_is_denied_brings_no_data(tmp_path: Path) -> None:
    """Nothing came from the tool."""
    policy = PolicySettings(rules=(Rule(tools=("mcp__expenses__delete_expense",), decision="deny"),))
    async with connected(tmp_path, policy=policy) as agent:
        code = (
            "try:\n    call_tool('expenses.delete_expense', {'expense': 1})\n"
            "except Exception as error:\n    print(error)"
        )
        text = await agent.ask("execute_code", code=code)
        bills = await agent.bills()

    assert parts(bills[-1]) == {"code": count(code), "results": count(text)}


async def test_the_report_is_the_sum_of_the_bills_and_names_the_tokenizer(tmp_path: Path) -> None:
    """Per part and per use case, with money at the configured prices: code is output, the rest is input."""
    prices = MetricsConfig(input_price=2.0, output_price=10.0)
    async with connected(tmp_path, metrics=prices) as agent:
        await agent.ask("search_tools", query="list expenses")
        await agent.ask("execute_code", code="from servers.expenses import list_expenses\nlen(list_expenses())")
        await agent.ask("execute_code", code="40 + 2")
        bills = await agent.bills()
        report = (await agent.yard.report()).tokens
        tokenizer = (await agent.yard.report()).tokenizer

    baseline = sum(each.definitions + each.data for each in bills)
    read = sum(each.surface + each.searches + each.results for each in bills)
    code = sum(each.code for each in bills)
    assert (report.baseline, report.actual, report.saved) == (baseline, read + code, baseline - read - code)
    per_session = report.per_session
    assert per_session is not None
    assert (per_session.sessions, per_session.baseline, per_session.actual) == (1, baseline, read + code)
    assert report.baseline_parts == {
        "data": sum(each.data for each in bills),
        "definitions": sum(each.definitions for each in bills),
    }
    assert sum(each.baseline for each in report.by_use_case.values()) == baseline
    assert set(report.by_use_case) == {"discovery", "filtering", "compute"}
    assert report.dollars_baseline == pytest.approx(baseline * 2 / 1e6)
    assert report.dollars_actual == pytest.approx((read * 2 + code * 10) / 1e6)
    assert report.dollars_saved == pytest.approx(report.dollars_baseline - report.dollars_actual)
    assert tokenizer == tokens.TOKENIZER
    assert {each.tokenizer for each in bills} == {tokens.TOKENIZER}


async def test_a_conversation_on_average_is_what_all_took_divided_by_their_number(tmp_path: Path) -> None:
    """Two agents in one store: each is charged with all definitions and all answers, or with what it was sent."""
    async with connected(tmp_path) as agent:
        before = (await agent.yard.report()).tokens.per_session
        for principal, code in (
            ("ann", "1 + 1"),
            ("bob", "from servers.expenses import list_expenses\nlist_expenses()"),
        ):
            await agent.yard.execute(ExecuteRequest(code=code), principal=principal)
        bills = await agent.bills()
        found = (await agent.yard.report()).tokens.per_session

    assert before is None
    assert found is not None
    assert found.sessions == len({each.session for each in bills}) == 2
    assert found.baseline == sum(each.definitions + each.data for each in bills) / 2
    assert found.actual == sum(each.surface + each.code + each.results for each in bills) / 2
    assert found.saved == found.baseline - found.actual


@pytest.mark.behaviour("tokens.savings")
async def test_ten_thousand_rows_that_stay_inside_save_almost_everything(tmp_path: Path) -> None:
    """The worked example: one row in a hundred is wanted."""
    rows = [{"id": number, "amount": number % 1_000, "note": f"taxi {number}"} for number in range(10_000)]
    server = FakeUpstream("expenses", list_expenses=lambda: rows)
    config = Config(store=StoreConfig(path=tmp_path / "sealyard.db"), privacy=PrivacyConfig(mode="off"))
    code = (
        "from servers.expenses import list_expenses\nbig = [row for row in list_expenses() if row['amount'] > 990]\n"
        "print(len(big))\nbig[:3]"
    )
    async with (
        open_yard(config, policy=PLAIN, upstreams={"expenses": server}) as yard,
        Client(build_server(yard, SurfaceConfig())) as client,
    ):
        agent = Agent(yard, client)
        await agent.ask("execute_code", code=code)
        bill = (await agent.bills())[-1]

    assert bill.data == count(as_json(rows))
    assert (bill.code + bill.results) / bill.data < 0.01
