"""Code that is as good as certain to fail, through a real gateway: refused, asked for or told, by policy."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from tests.conftest import polled

from sealyard.config import Config
from sealyard.config.settings import LearningConfig, PrivacyConfig, StoreConfig
from sealyard.sandbox.policy import DEFAULT
from sealyard.testing import FakeUpstream
from sealyard.values.access import Approval
from sealyard.values.runs import Failure
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
CODE = "from servers.team import hours\nrows = hours(of='ann')\nresult = rows['minutes']"
WRONG = "from servers.team import hours\nresult = hours(person='ann')"


def hours(of: str) -> dict[str, int]:
    """Hours of somebody."""
    return {"total": len(of)}


@contextlib.asynccontextmanager
async def opened(folder: Path, critical: Literal["warn", "ask", "refuse"] = "refuse") -> AsyncIterator[Yard]:
    """A yard with one tool."""
    config = Config(
        store=StoreConfig(path=folder / "sealyard.db"),
        privacy=PrivacyConfig(mode="off"),
        learning=LearningConfig(critical=critical),
    )
    team = FakeUpstream("team", hours=hours)
    async with asyncio.timeout(240), open_yard(config, policy=PLAIN, upstreams={"team": team}) as yard:
        await yard.snapshot()
        yield yard


async def run(yard: Yard, code: str, **fields: Any) -> Failure | None:
    """How it fails, once what came of it is learned."""
    principal = fields.pop("principal", "local")
    result = await yard.execute(ExecuteRequest(code=code, **fields), principal=principal)
    await yard.guidance.learner.once()
    return result.outcome.failure


async def types_of(yard: Yard, code: str, times: int, **fields: Any) -> list[str]:
    """With what it fails each time; nothing if it does not."""
    found = [await run(yard, code, **fields) for _ in range(times)]
    return ["" if failure is None else failure.type for failure in found]


async def test_the_fourth_run_of_code_that_failed_three_times_is_refused_until_something_changes(
    tmp_path: Path,
) -> None:
    """A change of the code or a run of the workspace that ends well is enough, and nobody else is touched."""
    async with opened(tmp_path) as yard:
        assert await types_of(yard, CODE, 3) == ["KeyError"] * 3
        refused = await run(yard, CODE)
        again = await run(yard, CODE)
        assert await types_of(yard, CODE, 1, principal="bob") == ["KeyError"]
        assert await types_of(yard, CODE, 1, session="other") == ["KeyError"]
        assert await types_of(yard, CODE, 1, context={"a": 1}) == ["KeyError"]
        assert await types_of(yard, CODE.replace("minutes", "total"), 1) == [""]
        assert await types_of(yard, CODE, 1) == ["KeyError"]
        census = await yard.guidance.learner.census()
        told = [item.text for part in census if part.part == "risk" for item in part.items]

    assert refused is not None
    assert refused == again
    assert (refused.kind, refused.line, refused.source_line) == ("refused", 3, "result = rows['minutes']")
    assert refused.message == (
        "This very code failed 3 times in the last hour, last with KeyError at line 3. Change it instead of repeating"
        " it. Nothing that it depends on has changed; try it as it is in 10 min."
    )
    assert not any("critical" in text for text in told)  # none of them ran


async def test_a_call_that_cannot_fit_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """Nothing was learned yet: the tool's own schema says so."""
    async with opened(tmp_path) as yard:
        refused = await run(yard, WRONG)
        caught = await types_of(
            yard,
            "from servers.team import hours\ntry:\n    hours(person='ann')\nexcept TypeError:\n    result = 1",
            1,
        )

    assert refused is not None
    assert refused.message == (
        "Line 2 gives team.hours a parameter that it does not have. It takes: of. Change that call before running this."
    )
    assert caught == [""]


async def test_refused_call_is_told_what_it_probably_means(tmp_path: Path) -> None:
    """It is not run, so the stub cannot say so."""
    async with opened(tmp_path) as yard:
        misspelled = await run(yard, "from servers.team import hours\nhours(off='ann')")
        empty = await run(yard, "from servers.team import hours\nhours()")

    assert misspelled is not None
    assert empty is not None
    changed = "It was not run, so nothing has changed. Change the code and run it again."
    assert (misspelled.hint, empty.hint) == (f"{changed} Did you mean of=, not off=?", f"{changed} It also needs of.")


async def test_what_is_refused_would_have_failed(tmp_path: Path) -> None:
    """Where it is only told, it runs, and the figures say how it ended."""
    async with opened(tmp_path, "warn") as yard:
        assert await types_of(yard, WRONG, 2) == ["TypeError"] * 2
        census = await yard.guidance.learner.census()
        told = {item.subject: item.text for part in census for item in part.items}

    assert told["critical"] == "Of 2 runs assessed critical, 100% failed; 98% was expected."


@pytest.mark.parametrize(("decision", "end"), [("once", "TypeError"), ("refuse", "LikelyToFail")])
async def test_a_person_is_asked_for_one_run_at_a_time(
    tmp_path: Path, decision: Literal["once", "refuse"], end: str
) -> None:
    """The answer to one run says nothing about the next."""
    async with opened(tmp_path, "ask") as yard:
        for _ in range(2):
            running = asyncio.create_task(run(yard, WRONG))
            asks = await polled(yard.approvals.waiting, bool)
            answer = Approval(decision=decision, by="alice", channel="cli", answered_at=time.time())
            await yard.approvals.answer(asks[0].id, answer)
            failure = await running
            assert failure is not None
            assert (failure.type, asks[0].tool, asks[0].arguments) == (end, "execute_code", {"code": WRONG})


async def test_run_that_a_person_refused_says_why_once(tmp_path: Path) -> None:
    """It is the failure already, and no note beside it."""
    async with opened(tmp_path, "ask") as yard:
        running = asyncio.create_task(yard.execute(ExecuteRequest(code=WRONG)))
        asks = await polled(yard.approvals.waiting, bool)
        answer = Approval(decision="refuse", by="alice", channel="cli", answered_at=time.time())
        await yard.approvals.answer(asks[0].id, answer)
        result = await running

    assert result.text.count("gives team.hours a parameter that it does not have") == 1


async def test_code_that_ended_well_is_not_told_that_it_sleeps_too_long(tmp_path: Path) -> None:
    """Its limit may be longer than the level's, or it may never get there."""
    code = "import time\nif result != 1:\n    time.sleep(90)"
    async with opened(tmp_path) as yard:
        well = await yard.execute(ExecuteRequest(code=f"result = 1\n{code}"))
        badly = await yard.execute(ExecuteRequest(code=f"result = 1\n{code}\n1 / 0"))

    assert well.outcome.ok
    assert "outlasts" not in well.text
    assert "Sleeping for 90 s outlasts the wall limit" in badly.text
