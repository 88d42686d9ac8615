import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from sealyard.config import Config, StoreConfig
from sealyard.testing import FakeUpstream
from sealyard.yard import ExecuteRequest, open_yard

PAGE = 30
ISSUES: dict[int, dict[str, Any]] = {
    number: {
        "number": number,
        "title": f"Crash in step {number}",
        "state": "closed" if number % 10 == 0 else "open",
        "labels": ["bug", "needs-info"] if number % 3 == 0 else ["bug"],
        "comments": number % 4,
        "updated": f"2026-{number % 12 + 1:02}-15",
    }
    for number in range(1, 101)
}


def list_issues(state: str = "open", page: int = 1) -> list[dict[str, Any]]:
    """List the issues of the repository, 30 a page."""
    found = [issue for issue in ISSUES.values() if issue["state"] == state]
    return found[(page - 1) * PAGE : page * PAGE]


def add_label(number: int, label: str) -> list[str]:
    """Add a label to an issue, and return all of its labels."""
    ISSUES[number]["labels"].append(label)
    return ISSUES[number]["labels"]


def add_comment(number: int, body: str) -> int:
    """Comment on an issue, and return the number of its comments."""
    ISSUES[number]["comments"] += 1
    return ISSUES[number]["comments"]


def close_issue(number: int) -> str:
    """Close an issue."""
    ISSUES[number]["state"] = "closed"
    return "closed"


CODE = """
import asyncio
from servers.issues import add_comment, add_label, close_issue, list_issues

issues, page = [], 1
while rows := list_issues(state="open", page=page):
    issues += rows
    page += 1

stale = [
    issue for issue in issues
    if "needs-info" in issue["labels"] and issue["comments"] == 0 and issue["updated"] < before
]


async def retire(issue):
    try:
        await add_label(number=issue["number"], label="stale")
        await add_comment(number=issue["number"], body="Closed: nobody answered the question.")
        await close_issue(number=issue["number"])
    except ToolError as error:
        return f"{issue['number']}: {error}"


failed = [each for each in await asyncio.gather(*map(retire, stale)) if each]
result = {"open": len(issues), "closed": [issue["number"] for issue in stale], "failed": failed}
"""


async def main() -> None:
    tools = FakeUpstream(
        "issues", list_issues=list_issues, add_label=add_label, add_comment=add_comment, close_issue=close_issue
    )
    config = Config(store=StoreConfig(path=Path("issues.db")))
    async with open_yard(config, upstreams={"issues": tools}) as yard:
        done = await yard.execute(ExecuteRequest(code=CODE, context={"before": "2026-06-01"}))
        print(done.text)
        calls = await yard.store.calls(done.outcome.execution_id)
        print(Counter(call.tool.removeprefix("mcp__issues__") for call in calls))
        print(ISSUES[12])


asyncio.run(main())
