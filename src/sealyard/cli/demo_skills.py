"""The demo's scene about skills: one agent keeps what works, another uses it, and it survives a change of its tool."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec
from mcp import Client

from sealyard.cli.terminal import plain, screen, write
from sealyard.config import Config
from sealyard.config.settings import SandboxConfig, StoreConfig
from sealyard.errors import SandboxBroken
from sealyard.examples import demo_upstreams
from sealyard.metrics import tokens
from sealyard.serve.mcp import build_server, text_of
from sealyard.skills import migrate_skills
from sealyard.values import UpstreamConfig
from sealyard.yard import open_yard

_TOOL = "mcp__expenses__list_expenses"

_CODE = '''\
def biggest_merchants(since: str, count: int = 3) -> list:
    """The merchants that got most since a day."""
    from servers.expenses import list_expenses

    totals = {}
    for row in list_expenses(since=since):  # the newest first
        totals[row["merchant"]] = totals.get(row["merchant"], 0) + row["amount"]
    best = sorted(totals.items(), key=lambda item: -item[1])[:count]
    return [[name, round(amount)] for name, amount in best]
'''
_SAVE: dict[str, Any] = {
    "name": "biggest_merchants",
    "code": _CODE,
    "description": "Which merchants got most money since a day.",
    "examples": [{"inputs": {"since": "2024-12-01"}}],
}
_USE: dict[str, Any] = {"code": "from skills import biggest_merchants\n\nbiggest_merchants(since='2024-11-01')"}


async def show_skills() -> None:
    """Show it. Raises `SandboxBroken` if something goes otherwise than planned."""
    with tempfile.TemporaryDirectory(prefix="sealyard-demo-") as folder:
        expenses = demo_upstreams(Path(folder))["expenses"]
        config = Config(
            upstreams={"expenses": expenses},
            store=StoreConfig(path=Path(folder) / "sealyard.db"),
            sandbox=SandboxConfig(allow_weaker=True),
        )
        async with open_yard(config) as yard:
            async with Client(build_server(yard, config.surface)) as agent:
                cost = await _say(agent, "save_skill", _SAVE, "An agent keeps what worked")
            async with Client(build_server(yard, config.surface)) as agent:
                await _say(agent, "find_skills", {"query": "who got the most money"}, "Another one looks for it")
                reuse = await _say(agent, "execute_code", _USE, "and uses it")
        screen.print(plain(f"Written once for {cost:,} tokens, used for {reuse:,} each time.", "bold"))
        await _show_change(config, expenses)


async def _show_change(config: Config, expenses: UpstreamConfig) -> None:
    _rule("The server is upgraded: since is called start_date now")
    changed = msgspec.structs.replace(expenses, args=(*expenses.args, "--release", "2"))
    config = msgspec.structs.replace(config, upstreams={"expenses": changed})
    async with open_yard(config) as yard, Client(build_server(yard, config.surface)) as agent:
        await yard.tools.finder.refresh()
        for check in await yard.skills.check_all():
            told = f"{check.name} {check.version} needs {check.tool} {check.need}, which is {check.current} now"
            screen.print(plain(f"{told}: {check.state}, {check.difficulty}", "yellow"))
        await _say(agent, "execute_code", _USE, "It still works: its calls are translated")
        _rule("Migrated in its syntax tree, and proven by replaying its example")
        (done,) = await migrate_skills(yard.skills, _TOOL)
        if done.outcome != "migrated":
            raise SandboxBroken(f"A step of the demo went otherwise than planned: {done.reason}")
        write(done.diff)
        screen.print(plain(f"{done.name} is {done.to_version} now; {done.from_version} can be restored.", "green"))


async def _say(agent: Client, tool: str, arguments: dict[str, Any], title: str) -> int:
    """Ask for something, show it, and return what it cost in tokens."""
    _rule(title)
    screen.print(plain(arguments.get("code", "").rstrip() or f"{tool}({arguments.get('query')!r})", "cyan"))
    result = await agent.call_tool(tool, arguments)
    text = text_of(result)
    if result.is_error:
        raise SandboxBroken(f"A step of the demo went otherwise than planned: {text}")
    screen.print(plain(text, "green"))
    return tokens.count_json(arguments) + tokens.count(text)


def _rule(title: str) -> None:
    screen.print()
    screen.rule(plain(title), align="left", style="dim")
