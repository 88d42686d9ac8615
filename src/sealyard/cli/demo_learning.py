"""The demo's scene about learning: one agent fails and repairs it, and the next one is told how."""

import tempfile
from pathlib import Path

from sealyard.cli.terminal import plain, screen
from sealyard.config import Config
from sealyard.config.settings import SandboxConfig, StoreConfig
from sealyard.errors import SandboxBroken
from sealyard.examples import demo_upstreams
from sealyard.yard import ExecuteRequest, Yard, open_yard

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


async def show_learning() -> None:
    """Show it. Raises `SandboxBroken` if something goes otherwise than planned."""
    with tempfile.TemporaryDirectory(prefix="sealyard-demo-") as folder:
        config = Config(
            upstreams={"expenses": demo_upstreams(Path(folder))["expenses"]},
            store=StoreConfig(path=Path(folder) / "sealyard.db"),
            sandbox=SandboxConfig(allow_weaker=True),
        )
        async with open_yard(config) as yard:
            await _run(yard, _FAILING, "An agent fails", fails=True)
            await _run(yard, _REPAIRED, "and repairs it", fails=False)
            await yard.guidance.learner.once()
            told = await _run(yard, _LATER, "Other code fails likewise, and is told what helped", fails=True)
            if "helped" not in told:
                raise SandboxBroken(f"A step of the demo went otherwise than planned: {told}")
            await _run(yard, _WRONG, "Code that cannot work is not run at all", fails=True)


async def _run(yard: Yard, code: str, title: str, *, fails: bool) -> str:
    screen.print()
    screen.rule(plain(title), align="left", style="dim")
    screen.print(plain(code, "cyan"))
    result = await yard.execute(ExecuteRequest(code=code))
    if result.is_error is not fails:
        raise SandboxBroken(f"A step of the demo went otherwise than planned: {result.text}")
    screen.print(plain(result.text, "yellow" if fails else "green"))
    return result.text
