"""`sealyard demo`: a scripted agent works on five MCP servers through the gateway, and every token is counted.

Nothing is staged but the agent's own words: servers, gateway, sandbox and answers are the real ones, and the figures
are counted from what went over the wire in this run.
"""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from mcp import Client
from mcp_types import TextContent

from sealyard.broker.upstreams import OnProgress, Response
from sealyard.broker.upstreams.mcp import Upstream
from sealyard.cli import chat
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import columns, counts, plain, say, screen, show_facts, write
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, SandboxConfig, StoreConfig
from sealyard.errors import SandboxBroken
from sealyard.examples import MAIL_RULE, demo_upstreams
from sealyard.metrics import tokens
from sealyard.sandbox import IsolationLevel, open_sandbox
from sealyard.sandbox.policy import LEVELS
from sealyard.serve import build_server
from sealyard.skills import migrate_skills
from sealyard.values.access import Grant
from sealyard.values.runs import Outcome
from sealyard.values.tools import UpstreamConfig
from sealyard.yard import Yard, open_yard

_SHOWN_LINES = 14
"""Of an answer: a whole step fits a terminal of 40 lines."""
_SHOWN_CHARACTERS = 700  # of an answer as well: about nine lines of 80, should one of its lines be long


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
    """The cost of one part, in tokens."""

    title: str
    plain: int
    sealyard: int


@click.command()
def demo() -> int:
    """Show the gateway at work.

    A scripted agent searches, runs code over five MCP servers and makes mistakes; every token is counted beside what
    plain MCP would have cost, and the gateway says what it has counted itself. What works is kept as a skill, which
    survives a change of its tool. What helped after a failure is shown the next time. Then code attacks the sandbox,
    and last an agent answers in a chat. Exit code 1: an attack got through, or a question was not answered.
    """
    return run_to_end(_show_all())


async def _show_all() -> int:
    paid = await _show_agent()
    _show_costs(paid)
    await _show_skills()
    await _show_learning()
    _show_title("Code that attacks the sandbox")
    stopped, attempts = await _show_attacks()
    say(f"{stopped} of {attempts} attacks stopped.", "bold green" if stopped == attempts else "bold red")
    _show_title("Last: a chat, as `sealyard chat --demo` has it")
    return max(await chat.show_demo(), 0 if stopped == attempts else 1)


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
        say(
            f"{len(servers)} MCP servers with {len(specs)} tools are behind sealyard. A client of plain MCP reads "
            f"{first.plain:,} tokens of definitions before it begins, a client of sealyard {first.sealyard:,}."
        )
        seen: dict[str, int] = {}
        paid = [first, *[await _show_step(agent, servers, step, seen) for step in _SCRIPT]]
        await _show_report(yard)
        return paid


async def _show_report(yard: Yard) -> None:
    """Show what the gateway has counted itself, as `sealyard metrics` and the dashboard do."""
    await yard.observer.accounting.settled()
    report = await yard.report()
    execution, discovery, hidden = report.execution, report.discovery, report.security.hidden_total
    _show_title("What the gateway says of itself: sealyard metrics")
    show_facts(
        {
            "runs": f"{execution.count}, {execution.ok} of them well; errors: {counts(execution.errors)}",
            "searches": f"{discovery.queries}, {discovery.hits} of which led to a call",
            "calls of tools": ", ".join(f"{name} {each.calls}" for name, each in report.upstreams.items()),
            "private values hidden": f"{hidden:,}",
            "kept out of the context": f"{report.tokens.saved:,} tokens, {report.tokens.saved_share or 0:.1%}",
        }
    )
    say("It counts every answer that a tool gave, also one that it gave before.", "dim")


async def _show_step(agent: Client, servers: list["_Weighed"], step: _Step, seen: dict[str, int]) -> _Paid:
    _, own = await _ask(agent, step)
    passed = [each for server in servers for each in server.take()]
    new, known = await asyncio.to_thread(_weigh, passed, seen)
    through = f"{len(passed)} tool calls of {new + known:,} tokens stayed behind it" if passed else "no tool was called"
    say(f"The agent paid {own:,} tokens; {through}.", "bold")
    return _Paid(step.title, new, own)


async def _ask(agent: Client, step: _Step) -> tuple[str, int]:
    """Send one request of an agent and show it; return the answer and what both cost in tokens."""
    _show_title(step.title)
    arguments = ", ".join(f"{key}={value!r}" for key, value in step.arguments.items())
    say(str(step.arguments.get("code", f"{step.tool}({arguments})")).rstrip(), "cyan")
    result = await agent.call_tool(step.tool, step.arguments)
    text = "".join(block.text for block in result.content if isinstance(block, TextContent))
    _expect(result.is_error == step.fails, text)
    say(_beginning(text), "red" if step.fails else "green")
    return text, tokens.count_json(step.arguments) + tokens.count(text)


def _weigh(passed: list[str], seen: dict[str, int]) -> tuple[int, int]:
    """Return the tokens of calls and answers that are new to a context, and of those that it holds already."""
    known = sum(seen[each] for each in passed if each in seen)
    new = {each: tokens.count(each) for each in passed if each not in seen}
    seen.update(new)
    return sum(new.values()), known


def _beginning(text: str) -> str:
    """Cut what the agent read to what fits a screen."""
    shown = "\n".join(text.splitlines()[:_SHOWN_LINES])[:_SHOWN_CHARACTERS]
    return shown if shown == text else f"{shown}…\n(the agent read {len(text) - len(shown):,} characters more)"


def _show_costs(paid: list[_Paid]) -> None:
    _show_title("What it cost")
    before, after = sum(part.plain for part in paid), sum(part.sealyard for part in paid)
    rows = [(part.title, f"{part.plain:,}", f"{part.sealyard:,}") for part in paid]
    table = columns("", "plain MCP, tokens", "sealyard, tokens", rows=rows)
    table.add_row("together", f"{before:,}", f"{after:,}", style="bold")
    table.add_row("in dollars, assumed price", f"${tokens.dollars(before):.4f}", f"${tokens.dollars(after):.4f}")
    screen.print(table)
    note = (
        f"{1 - after / before:.1%} fewer tokens. Counted in this run with {tokens.TOKENIZER}; an answer that plain MCP "
        f"has in its context already is not counted again. Assumed: ${tokens.DOLLARS_PER_MILLION:g} per million tokens."
    )
    screen.print(plain(note, "dim"), "")


class _Weighed(Upstream):
    """An upstream that keeps all calls: with plain MCP, they would have been in the agent's context."""

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
        grant: Grant | None = None,
    ) -> Response:
        answer = await super().call(
            tool, arguments, timeout_seconds=timeout_seconds, on_progress=on_progress, unwrap=unwrap, grant=grant
        )
        value = answer.read(unwrap=unwrap).value
        self._passed.append(msgspec.json.encode([arguments, value]).decode())
        return answer

    def take(self) -> list[str]:
        """Return the calls since the last time, each with its answer."""
        passed, self._passed = self._passed, []
        return passed


@asynccontextmanager
async def _open_gateway() -> AsyncIterator[tuple[Yard, list[_Weighed], Client]]:
    """Open the gateway over the example servers, and a client in the place of the agent."""
    with tempfile.TemporaryDirectory(prefix="sealyard-demo-") as folder:
        place = Path(folder)
        files = place / "files"
        files.mkdir()
        servers = {name: _Weighed(config) for name, config in demo_upstreams(files).items()}
        config = _config(place, privacy=PrivacyConfig(rules=(MAIL_RULE,)))
        async with (
            open_yard(config, upstreams=servers) as yard,
            Client(build_server(yard, config.surface)) as agent,
        ):
            yield yard, list(servers.values()), agent


def _config(folder: Path, **settings: Any) -> Config:
    store = StoreConfig(path=folder / "sealyard.db")
    return Config(store=store, sandbox=SandboxConfig(allow_weaker=True), **settings)


def _show_title(title: str) -> None:
    screen.print()
    screen.rule(plain(title), align="left", style="dim")


def _expect(is_so: bool, text: str) -> None:
    if not is_so:
        raise SandboxBroken(f"A step of the demo went otherwise than planned: {text}")


# Skills

_TOOL = "mcp__expenses__list_expenses"

_SKILL_CODE = '''\
def biggest_merchants(since: str, count: int = 3) -> list:
    """The merchants that got most since a day."""
    from servers.expenses import list_expenses

    totals = {}
    for row in list_expenses(since=since):  # the newest first
        totals[row["merchant"]] = totals.get(row["merchant"], 0) + row["amount"]
    best = sorted(totals.items(), key=lambda item: -item[1])[:count]
    return [[name, round(amount)] for name, amount in best]
'''
_SKILL: dict[str, Any] = {
    "name": "biggest_merchants",
    "code": _SKILL_CODE,
    "description": "Which merchants got most money since a day.",
    "examples": [{"inputs": {"since": "2024-12-01"}}],
}
_USE: dict[str, Any] = {"code": "from skills import biggest_merchants\n\nbiggest_merchants(since='2024-11-01')"}


async def _show_skills() -> None:
    """One agent keeps what works, another uses it, and it survives a change of its tool."""
    with tempfile.TemporaryDirectory(prefix="sealyard-demo-") as folder:
        expenses = demo_upstreams(Path(folder))["expenses"]
        config = _config(Path(folder), upstreams={"expenses": expenses})
        async with open_yard(config) as yard:
            async with Client(build_server(yard, config.surface)) as agent:
                _, cost = await _ask(agent, _Step("An agent keeps what worked", "save_skill", _SKILL))
            async with Client(build_server(yard, config.surface)) as agent:
                query = {"query": "who got the most money"}
                await _ask(agent, _Step("Another one looks for it", "find_skills", query))
                _, reuse = await _ask(agent, _Step("and uses it", "execute_code", _USE))
        say(f"Written once for {cost:,} tokens, used for {reuse:,} each time.", "bold")
        await _show_change(config, expenses)


async def _show_change(config: Config, expenses: UpstreamConfig) -> None:
    _show_title("The server is upgraded: since is called start_date now")
    changed = msgspec.structs.replace(expenses, args=(*expenses.args, "--release", "2"))
    config = msgspec.structs.replace(config, upstreams={"expenses": changed})
    async with open_yard(config) as yard, Client(build_server(yard, config.surface)) as agent:
        await yard.tools.finder.refresh()
        for check in await yard.skills.check_all():
            need = f"{check.name} {check.version} needs {check.tool} {check.need}, which is {check.current} now"
            say(f"{need}: {check.state}, {check.difficulty}", "yellow")
        await _ask(agent, _Step("It still works: its calls are translated", "execute_code", _USE))
        _show_title("Migrated in its syntax tree, and proven by replaying its example")
        (done,) = await migrate_skills(yard.skills, _TOOL)
        _expect(done.outcome == "migrated", done.reason)
        write(done.diff)
        say(f"{done.name} is {done.to_version} now; {done.from_version} can be restored.", "green")


# Learning

_FAILING = """\
from servers.expenses import list_expenses
len(list_expenses(since="December 2024"))"""
_REPAIRED = """\
from servers.expenses import list_expenses
len(list_expenses(since="2024-12-01"))"""
_LATER = """\
from servers.expenses import list_expenses
rows = list_expenses(since="1st of November", category="travel")
sum(row["amount"] for row in rows)"""
_WRONG = """\
from servers.expenses import list_expenses
len(list_expenses(sinse="2024-11-01"))"""


async def _show_learning() -> None:
    """One agent fails and repairs it, and the next one reads how."""
    with tempfile.TemporaryDirectory(prefix="sealyard-demo-") as folder:
        config = _config(Path(folder), upstreams={"expenses": demo_upstreams(Path(folder))["expenses"]})
        async with open_yard(config) as yard, Client(build_server(yard, config.surface)) as agent:

            async def run(title: str, code: str, *, fails: bool) -> str:
                answer, _ = await _ask(agent, _Step(title, "execute_code", {"code": code}, fails))
                return answer

            await run("An agent fails", _FAILING, fails=True)
            await run("and repairs it", _REPAIRED, fails=False)
            await yard.guidance.learner.once()
            answer = await run("Other code fails likewise, and reads what helped", _LATER, fails=True)
            _expect("helped" in answer, answer)
            await run("Code that cannot work is not run at all", _WRONG, fails=True)


# Attacks from inside the sandbox. Each is first run outside, where it must succeed: an attack that cannot work proves
# nothing by failing.

_READ_FILE = "result = open(path).read()"

_CONNECT = """\
import socket

with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
    result = connection.recv(64).decode()
"""

_SIGNAL = """\
import os, signal

os.kill(gateway_pid, signal.SIGUSR1)
result = "sent"
"""


async def _show_attacks() -> tuple[int, int]:
    """Run each attack outside and inside; return the number of stopped ones, and of all."""
    table = columns("attack", "outside", "what happened in the sandbox")
    stopped = 0
    # The most permissive level, so that nothing but the kernel stands in the way. The code is our own, so the weaker
    # tier will do where a container offers no other.
    level = LEVELS[IsolationLevel.DEVELOPMENT]
    async with open_sandbox(level, allow_weaker=True) as sandbox, _open_target() as target:
        attacks = (
            ("read a file of the host", f"path = {target.path!r}\n{_READ_FILE}"),
            ("connect to a port of the host", f"port = {target.port}\n{_CONNECT}"),
            ("send the gateway a signal", f"gateway_pid = {os.getpid()}\n{_SIGNAL}"),
        )
        for title, code in attacks:
            target.hits = 0
            printed = await _run_bare(f"{code}\nprint(result)")
            if not (target.hits or target.secret in printed):
                raise SandboxBroken(f"The attack {title!r} does not even work outside the sandbox.")
            target.hits = 0
            outcome = await sandbox.run(code)
            got_through = outcome.ok or target.hits > 0 or target.secret in f"{outcome.result}{outcome.output}"
            stopped += not got_through
            verdict = plain("got through", "bold red") if got_through else plain(_outcome_text(outcome), "green")
            table.add_row(title, "works", verdict)
        screen.print(table)
    return stopped, len(attacks)


@dataclass
class _Target:
    """The target of the attacks: a file, a listening port and this process, each of which notes that it was reached."""

    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    path: str = ""
    port: int = 0
    hits: int = 0

    async def answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hits += 1
        writer.write(self.secret.encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def _open_target() -> AsyncIterator[_Target]:
    target = _Target()

    def note_signal(*_: object) -> None:
        target.hits += 1

    with tempfile.NamedTemporaryFile("w", prefix="sealyard-demo-", encoding="utf-8") as file:
        file.write(target.secret)
        file.flush()
        target.path = file.name
        before = signal.signal(signal.SIGUSR1, note_signal)
        try:
            async with await asyncio.start_server(target.answer, "127.0.0.1", 0) as server:
                target.port = server.sockets[0].getsockname()[1]
                yield target
        finally:
            signal.signal(signal.SIGUSR1, before)


async def _run_bare(code: str) -> str:
    """Run code with the system's Python, outside any sandbox; return its output."""

    def run() -> str:
        system = Path("/usr/bin/python3")
        python = system if system.exists() else Path(sys.executable).resolve()
        done = subprocess.run(
            [str(python), "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            env={},
            timeout=30,
        )
        return done.stdout.decode(errors="replace")

    return await asyncio.to_thread(run)


def _outcome_text(outcome: Outcome) -> str:
    return f"{outcome.failure.type}: {outcome.failure.message}" if outcome.failure else f"result {outcome.result!r}"
