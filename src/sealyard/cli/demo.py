"""`sealyard demo`: a scripted agent works on five MCP servers through the gateway, and every token is counted.

Nothing is staged but the agent's own words: servers, gateway, sandbox and answers are the real ones, and the figures
are counted from what went over the wire in this run.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from mcp import Client

from sealyard.broker import Answer
from sealyard.broker.answers import read_answer
from sealyard.broker.call import OnProgress
from sealyard.broker.upstreams import Upstream
from sealyard.cli.demo_attacks import show_attacks
from sealyard.cli.demo_learning import show_learning
from sealyard.cli.demo_skills import show_skills
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import columns, plain, screen
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, SandboxConfig, StoreConfig
from sealyard.errors import SandboxBroken
from sealyard.examples import MAIL_RULE, demo_upstreams
from sealyard.metrics import tokens
from sealyard.serve.mcp import build_server, text_of
from sealyard.values import UpstreamConfig
from sealyard.yard import Yard, open_yard

_SHOWN_LINES = 14
_SHOWN_CHARACTERS = 700


class _Step(NamedTuple):
    """One request of the agent."""

    title: str
    tool: str
    arguments: dict[str, Any]
    fails: bool = False


_SESSION = "audit"

_AUDIT = """\
from collections import Counter
from servers.expenses import list_expenses

rows = list_expenses()
bills = Counter((r["employee"], r["merchant"], r["amount"]) for r in rows)
print(len(rows), "expenses,", round(sum(r["amount"] for r in rows)), "dollars")
result = [[*bill, f"{n} times"] for bill, n in bills.items() if n > 2]
"""

_TRIP = """\
import asyncio
from servers.files import write_file
from servers.trips import find_parks, list_campgrounds, weather_forecast

parks = find_parks(activity="stargazing")
asked = [weather_forecast(park_id=park["id"], days=3) for park in parks]
weather = await asyncio.gather(*asked)
rain = {w["park_id"]: sum(day["rain_mm"] for day in w["days"]) for w in weather}
dry = [p for p in parks if rain[p["id"]] < 8 and "hiking" in p["activities"]]
found = await asyncio.gather(*[list_campgrounds(park_id=p["id"]) for p in dry])
offers = sorted((c["price_per_night"], c["name"]) for each in found for c in each)
text = "\\n".join(f"- {name}: {price} dollars a night" for price, name in offers)
write_file(path="notes/trip.md", text=text)
result = {"parks": len(parks), "dry": len(dry), "cheapest": offers[:3]}
"""

_ARCHIVE = """\
from servers.files import list_archive

paths = list_archive()
tests = [path for path in paths if "billing/tests/" in path]
print(len(paths), "paths,", len(tests), "tests of billing")
result = [path.rpartition("/")[2] for path in tests[:5]]
"""

_CARELESS = """\
from servers.expenses import list_expenses

list_expenses()
"""

_MISTAKE = """\
from servers.expenses import get_budgets

result = get_budgets()
"""

_SAVE = """\
import glob, json
from collections import defaultdict

rows = json.load(open(glob.glob("results/*.json")[0]))
same_day = defaultdict(list)
for row in rows:
    if 450 <= row["amount"] < 500:
        same_day[f"{row['employee']}, {row['date']}"].append(row["expense_id"])
split = {day: found for day, found in same_day.items() if len(found) > 2}
json.dump(split, open("split.json", "w"))
result = {day: len(found) for day, found in split.items()}
"""

_FLAG = """\
import json
from servers.expenses import flag_expense

for day, found in json.load(open("split.json")).items():
    for expense_id in found:
        flag_expense(expense_id=expense_id, reason="one purchase split up?")
    print(day, "-", len(found), "flagged")
"""

_MAIL = """\
from servers.customers import list_customers
from servers.mail import send_mail

rows = [r for r in list_customers(plan="pro", country="PL") if r["spent"] > 3000]
for row in rows:
    send_mail(to=row["email"], subject="Thank you", body=f"Dear {row['first_name']}, thank you!")
result = [(row["first_name"], row["email"], row["spent"]) for row in rows[:2]]
"""

_TOTALS = {
    "analysis_type": "aggregate",
    "source": {"tool": "mcp__expenses__list_expenses", "arguments": {}},
    "parameters": {
        "group_by": ["category"],
        "aggregations": [{"function": "sum", "field": "amount", "as": "total"}, {"function": "count", "as": "bills"}],
        "sort": [{"field": "total", "descending": True}],
        "limit": 3,
    },
}

_SCRIPT = (
    _Step("search for tools", "search_tools", {"query": "list expenses"}),
    _Step("read every row, return what matters", "execute_code", {"code": _AUDIT}),
    _Step("ask about rows without code", "execute_analysis", _TOTALS),
    _Step("one run, two servers, calls side by side", "execute_code", {"code": _TRIP}),
    _Step("fifty thousand paths, five names", "execute_code", {"code": _ARCHIVE}),
    _Step("careless: return every row", "execute_code", {"code": _CARELESS, "session": _SESSION}),
    _Step("a mistake", "execute_code", {"code": _MISTAKE, "session": _SESSION}, fails=True),
    _Step("use the careless run's file, save another", "execute_code", {"code": _SAVE, "session": _SESSION}),
    _Step("go on from that file, and write", "execute_code", {"code": _FLAG, "session": _SESSION}),
    _Step("write to customers whose names nobody sees", "execute_code", {"code": _MAIL}),
)


class _Paid(NamedTuple):
    """What one part cost, in tokens."""

    title: str
    plain: int
    sealyard: int


@click.command()
def demo() -> int:
    """Show the gateway at work.

    A scripted agent searches, runs code over five MCP servers and makes mistakes; every token is counted beside what
    plain MCP would have cost, and the gateway says what it has counted itself. What works is kept as a skill, which
    survives a change of its tool. What helped after a failure is told the next time. Then code attacks the sandbox.
    Exit code 1: an attack got through.
    """
    return run_to_end(_show_all())


async def _show_all() -> int:
    paid = await _show_agent()
    _show_costs(paid)
    await show_skills()
    await show_learning()
    screen.print()
    screen.rule(plain("Last: code that attacks the sandbox"), align="left", style="dim")
    stopped, attempts = await show_attacks()
    screen.print(
        plain(f"{stopped} of {attempts} attacks stopped.", "bold green" if stopped == attempts else "bold red")
    )
    return 0 if stopped == attempts else 1


async def _show_agent() -> list[_Paid]:
    async with _open_gateway() as (yard, servers, agent):
        specs = (await yard.snapshot()).tools.values()
        surface = (await agent.list_tools()).tools
        first = _Paid(
            "definitions and instructions",
            sum(tokens.count_definition(spec.name, spec.description, spec.input_schema) for spec in specs),
            sum(tokens.count_definition(tool.name, tool.description or "", tool.input_schema) for tool in surface)
            + tokens.count(agent.instructions or ""),
        )
        screen.print(
            plain(
                f"{len(servers)} MCP servers with {len(specs)} tools are behind sealyard. A client of plain MCP reads "
                f"{first.plain:,} tokens of definitions before it begins, a client of sealyard {first.sealyard:,}."
            )
        )
        seen: dict[str, int] = {}
        paid = [first, *[await _show_step(agent, servers, step, seen) for step in _SCRIPT]]
        await _show_report(yard)
        return paid


async def _show_report(yard: Yard) -> None:
    """What the gateway itself has counted meanwhile, which `sealyard metrics` and the dashboard show."""
    await yard.observer.accounting.settled()
    report = await yard.report()
    execution, discovery, hidden = report.execution, report.discovery, report.security.hidden_total
    screen.print()
    screen.rule(plain("What the gateway says of itself: sealyard metrics"), align="left", style="dim")
    table = columns("", "")
    table.add_row("runs", f"{execution.count}, {execution.ok} of them well; errors: {_spell(execution.errors)}")
    table.add_row("searches", f"{discovery.queries}, {discovery.hits} of which led to a call")
    table.add_row("calls of tools", ", ".join(f"{name} {each.calls}" for name, each in report.upstreams.items()))
    table.add_row("private values hidden", f"{hidden:,}")
    table.add_row("kept out of the context", f"{report.tokens.saved:,} tokens, {report.tokens.saved_share or 0:.1%}")
    screen.print(table)
    screen.print(plain("It counts every answer that a tool gave, also one that it gave before.", "dim"))


def _spell(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


async def _show_step(agent: Client, servers: list["_Weighed"], step: _Step, seen: dict[str, int]) -> _Paid:
    screen.print()
    screen.rule(plain(step.title), align="left", style="dim")
    screen.print(plain(_asked(step), "cyan"))
    result = await agent.call_tool(step.tool, step.arguments)
    text = text_of(result)
    if result.is_error != step.fails:
        raise SandboxBroken(f"A step of the demo went otherwise than planned: {text}")
    passed = [each for server in servers for each in server.take()]
    own = tokens.count_json(step.arguments) + tokens.count(text)
    new, known = await asyncio.to_thread(_weigh, passed, seen)
    screen.print(plain(_beginning(text), "red" if step.fails else "green"))
    through = f"{len(passed)} tool calls of {new + known:,} tokens stayed behind it" if passed else "no tool was called"
    screen.print(plain(f"The agent paid {own:,} tokens; {through}.", "bold"))
    return _Paid(step.title, new, own)


def _asked(step: _Step) -> str:
    """What the agent wrote."""
    if "code" in step.arguments:
        return str(step.arguments["code"]).rstrip()
    told = ", ".join(f"{key}={value!r}" for key, value in step.arguments.items())
    return f"{step.tool}({told})"


def _weigh(passed: list[str], seen: dict[str, int]) -> tuple[int, int]:
    """What calls and answers cost in a context: those that are new to it, and those that it holds already."""
    known = sum(seen[each] for each in passed if each in seen)
    new = {each: tokens.count(each) for each in passed if each not in seen}
    seen.update(new)
    return sum(new.values()), known


def _beginning(text: str) -> str:
    """As much of what the agent read as a screen bears."""
    shown = "\n".join(text.splitlines()[:_SHOWN_LINES])[:_SHOWN_CHARACTERS]
    return shown if shown == text else f"{shown}…\n(the agent read {len(text) - len(shown):,} characters more)"


def _show_costs(paid: list[_Paid]) -> None:
    screen.print()
    screen.rule(plain("What it cost"), align="left", style="dim")
    table = columns("", "plain MCP, tokens", "sealyard, tokens")
    for part in paid:
        table.add_row(plain(part.title), f"{part.plain:,}", f"{part.sealyard:,}")
    before, after = sum(part.plain for part in paid), sum(part.sealyard for part in paid)
    table.add_row("together", f"{before:,}", f"{after:,}", style="bold")
    table.add_row("in dollars, assumed price", f"${tokens.dollars(before):.4f}", f"${tokens.dollars(after):.4f}")
    screen.print(table)
    note = (
        f"{1 - after / before:.1%} fewer tokens. Counted in this run with {tokens.TOKENIZER}; an answer that plain MCP "
        f"has in its context already is not counted again. Assumed: ${tokens.DOLLARS_PER_MILLION:g} per million tokens."
    )
    screen.print(plain(note, "dim"), "")


class _Weighed(Upstream):
    """An upstream that keeps what passed: with plain MCP, all of it would have been in the agent's context."""

    def __init__(self, config: UpstreamConfig) -> None:
        super().__init__(config)
        self._passed: list[str] = []

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
        unwrap: bool = False,
    ) -> Answer:
        answer = await super().call(
            tool, arguments, timeout_seconds=timeout_seconds, on_progress=on_progress, unwrap=unwrap
        )
        value = read_answer(answer, unwrap=unwrap).value
        self._passed.append(msgspec.json.encode([arguments, value]).decode())
        return answer

    def take(self) -> list[str]:
        """The calls since the last time, each with its answer."""
        passed, self._passed = self._passed, []
        return passed


@asynccontextmanager
async def _open_gateway() -> AsyncIterator[tuple[Yard, list[_Weighed], Client]]:
    """The gateway over the example servers, and a client in the place of the agent; all of it gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="sealyard-demo-") as folder:
        place = Path(folder)
        files = place / "files"
        files.mkdir()
        servers = {name: _Weighed(config) for name, config in demo_upstreams(files).items()}
        config = Config(
            store=StoreConfig(path=place / "sealyard.db"),
            sandbox=SandboxConfig(allow_weaker=True),
            privacy=PrivacyConfig(rules=(MAIL_RULE,)),
        )
        async with (
            open_yard(config, upstreams=servers) as yard,
            Client(build_server(yard, config.surface)) as agent,
        ):
            yield yard, list(servers.values()), agent
