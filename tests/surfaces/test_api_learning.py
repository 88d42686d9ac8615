"""`/api/v1/learning`: what was learned for who may observe, risk for one's own code, forgetting for who may approve."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.surfaces.api_gateway import TEAM, Gateway, expenses, gateway
from tests.surfaces.test_api import error, run

from sealyard.config.settings import HttpConfig, LearningConfig

GOOD = "from servers.expenses import list_expenses\nrows = list_expenses(user='{}')\nlen(rows)"
BAD = "from servers.expenses import list_expenses\nlist_expenses(user='{}')['amount']"
WRONG = "from servers.expenses import get_budget\nget_budget(departement='Sales')"
SECRET = "Zanzibar-4711"


async def work(gate: Gateway, *principals: str) -> None:
    """Each runs good and failing code, which is then learned."""
    for principal in principals:
        client = await gate.client(principal)
        for number in range(3):
            await run(client, GOOD.format(f"{SECRET}-{principal}-{number}"))
        await run(client, BAD.format(f"{SECRET}-{principal}"))
    await gate.yard.guidance.learner.once()


async def insights(client: httpx2.AsyncClient) -> dict[str, Any]:
    """What was learned."""
    answer = await client.get("learning/insights")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_who_may_observe_sees_what_was_learned_and_no_value_of_anybody(tmp_path: Path) -> None:
    """From how many runs, and how often it was right; what principals gave to tools is nowhere in it."""
    async with gateway(tmp_path, expenses(), http=TEAM) as gate:
        await work(gate, "ann", "bob")
        answer = await (await gate.client("obs")).get("learning/insights")
    found = answer.json()

    parts = {each["part"]: each for each in found["parts"]}
    assert (parts["risk"]["evidence"], parts["shapes"]["learned"]) == (8, 1)
    levels = [item for item in parts["risk"]["items"] if item["kind"] == "risk"]
    assert sum(item["checked"] for item in levels) == 8
    assert (found["enabled"], found["scope"], found["is_ready"], found["partitions"]) == (True, "shared", True, [""])
    assert SECRET not in answer.text
    assert "Zanzibar" not in answer.text


async def test_rights_are_asked_for(tmp_path: Path) -> None:
    """To see all takes `observe`, to have it forgotten `approve`, and a look at one's own code nothing."""
    subject = {"subject": "ALL"}
    async with gateway(tmp_path, expenses(), http=TEAM) as gate:
        ann, obs, ops = [await gate.client(name) for name in ("ann", "obs", "ops")]
        refused = [
            await error(await ann.get("learning/insights")),
            await error(await ann.post("learning/forget", json=subject)),
            await error(await obs.post("learning/forget", json=subject)),
        ]
        allowed = [
            (await ann.post("learning/assess", json={"code": "1 + 1"})).status_code,
            (await obs.get("learning/insights")).status_code,
            (await ops.post("learning/forget", json=subject)).status_code,
        ]
        forgotten = await gate.yard.store.learning.forgotten()

    advice = (
        "may not have anything forgotten. Use `sealyard insights --forget`, log in with the key that the gateway "
        "printed, or use the token of a client that has `approve = true`."
    )
    assert refused == [
        (
            403,
            "forbidden",
            "'ann' may not see what all principals do. Use the token of a client that has `observe = true` in its "
            "http.principals.",
        ),
        (403, "forbidden", f"'ann' {advice}"),
        (403, "forbidden", f"'obs' {advice}"),
    ]
    assert (allowed, len(forgotten)) == ([200, 200, 200], 1)


async def test_code_is_looked_at_and_not_run(tmp_path: Path) -> None:
    """What can never fit is told with its line; nothing of it is in the journal."""
    async with gateway(tmp_path, expenses(), http=TEAM) as gate:
        ann = await gate.client("ann")
        told = (await ann.post("learning/assess", json={"code": WRONG})).json()
        fine = (await ann.post("learning/assess", json={"code": GOOD.format("x"), "session": "s"})).json()
        runs = (await ann.get("executions")).json()["executions"]
        number = await gate.yard.store.learning.newest()

    assert (told["risk"], told["line"], told["reasons"]) == ("critical", 2, ["arguments"])
    assert "department" in told["text"]
    assert fine["risk"] == "low"
    assert (runs, number) == ([], 0)


async def test_a_look_is_for_ones_own_experience(tmp_path: Path) -> None:
    """Code that failed for bob again and again is as good as certain to fail for bob, and not for ann."""
    code = BAD.format("x")
    async with gateway(tmp_path, expenses(), http=TEAM) as gate:
        ann, bob = await gate.client("ann"), await gate.client("bob")
        for _ in range(4):
            await run(bob, code)
        await gate.yard.guidance.learner.once()
        own = (await bob.post("learning/assess", json={"code": code})).json()
        other = (await ann.post("learning/assess", json={"code": code})).json()

    assert own["risk"] == "critical"
    assert other["risk"] != "critical"


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("assess", {"code": " "}, "The code is empty. Give at least one statement."),
        (
            "assess",
            {"code": ""},
            "The body is wrong: Expected `str` of length >= 1, in `code`. It takes code, session.",
        ),
        ("assess", {"cod": "1"}, "There is no field 'cod' here. Did you mean 'code'?"),
        ("assess", {"code": "1", "session": "../x"}, None),
        ("forget", {}, "The body is wrong: Object missing required field `subject`. It takes subject."),
        ("forget", {"subject": "all"}, "Nothing was learned of 'all'. Give a tool, a principal, or ALL."),
        (
            "forget",
            {"subject": "list_expense"},
            "Nothing was learned of 'list_expense'. Did you mean 'mcp__expenses__list_expenses'?",
        ),
        (
            "forget",
            {"subject": "x" * 201},
            "The body is wrong: Expected `str` of length <= 200, in `subject`. It takes subject.",
        ),
    ],
)
async def test_what_is_wrong_is_said(tmp_path: Path, path: str, body: dict[str, str], message: str | None) -> None:
    """With what to do about it; and nothing is forgotten."""
    async with gateway(tmp_path, expenses(), http=TEAM, with_sandbox=path == "assess") as gate:
        ops = await gate.client("ops")
        await gate.yard.snapshot()
        status, code, said = await error(await ops.post(f"learning/{path}", json=body))
        forgotten = await gate.yard.store.learning.forgotten()

    assert (status, code, forgotten) == (400, "invalid_request", [])
    assert message in (said, None)


async def test_forgetting_is_at_once_and_audited(tmp_path: Path) -> None:
    """The answer that comes after it has nothing of it, nor has any that comes when the journal was read again."""
    async with gateway(tmp_path, expenses(), http=TEAM) as gate:
        await work(gate, "ann", "bob")
        ops = await gate.client("ops")
        before = await insights(ops)
        done = (await ops.post("learning/forget", json={"subject": "principal:bob"})).json()
        at_once = await insights(ops)
        await gate.yard.guidance.learner.once()
        after = await insights(ops)
        await ops.post("learning/forget", json={"subject": "expenses.list_expenses"})
        await gate.yard.guidance.learner.once()
        nothing = await insights(ops)
        audit = await gate.yard.store.audit_entries(kind="learning.forget")

    def runs(found: dict[str, Any]) -> int:
        return sum(part["evidence"] for part in found["parts"] if part["part"] == "risk")

    assert (done["what"], done["subject"]) == ("principal", "bob")
    assert (runs(before), runs(after), runs(nothing)) == (8, 4, 0)
    assert runs(at_once) in (0, 4)
    assert [(each["what"], each["subject"]) for each in nothing["forgotten"]] == [
        ("tool", "mcp__expenses__list_expenses"),
        ("principal", "bob"),
    ]
    assert [(each.principal, each.body) for each in audit] == [
        ("ops", {"what": "tool", "subject": "mcp__expenses__list_expenses"}),
        ("ops", {"what": "principal", "subject": "bob"}),
    ]


async def test_requests_are_limited_as_all_others(tmp_path: Path) -> None:
    """A look at code is a request."""
    http = HttpConfig(principals=TEAM.principals, requests_per_minute=1)
    async with gateway(tmp_path, http=http) as gate:
        ann = await gate.client("ann")
        answers = [await ann.post("learning/assess", json={"code": "1"}) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 429]


async def test_learning_that_is_off_has_nothing_to_tell(tmp_path: Path) -> None:
    """It is said so, and what is there can still be seen and forgotten."""
    async with gateway(tmp_path, expenses(), http=TEAM, learning=LearningConfig(enabled=False)) as gate:
        ops = await gate.client("ops")
        told = await error(await ops.post("learning/assess", json={"code": "1"}))
        found = await insights(ops)
        done = await ops.post("learning/forget", json={"subject": "ALL"})

    assert told == (
        400,
        "invalid_request",
        "Learning is switched off, so there is nothing to tell. Set learning.enabled to true.",
    )
    assert (found["enabled"], found["is_ready"], done.status_code) == (False, False, 200)
