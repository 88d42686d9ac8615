"""What was learned reaches requests: through a real gateway, its journal and its sandbox."""

import asyncio
from pathlib import Path

import pytest

from sealyard.config import Config
from sealyard.config.settings import LearningConfig, SandboxConfig, StoreConfig
from sealyard.testing import FakeUpstream
from sealyard.values.facts import Executed
from sealyard.yard import ExecuteRequest, open_yard

USE = "from servers.shop import {0}\n{0}(case='a1')"


def reimburse(case: str) -> dict[str, str]:
    """Give money back."""
    return {"case": case}


def list_cases(case: str) -> dict[str, str]:
    """List unhappy buyer cases."""
    return {"case": case}


def config(folder: Path, learning: LearningConfig) -> Config:
    """A gateway that learns as it is told."""
    return Config(
        store=StoreConfig(path=folder / "sealyard.db"),
        sandbox=SandboxConfig(allow_weaker=True, data_packages=False),
        learning=learning,
    )


def shop() -> FakeUpstream:
    """An upstream of two tools."""
    return FakeUpstream("shop", reimburse=reimburse, list_cases=list_cases)


async def test_search_finds_what_worked_for_the_same_words(tmp_path: Path) -> None:
    """Text alone does not know it; the fact of the search says where text would have had it."""
    query = "placate zebra shopper"
    async with open_yard(config(tmp_path, LearningConfig()), upstreams={"shop": shop()}) as yard:
        before = [hit.name for hit in (await yard.search(query)).hits]
        for _ in range(2):
            await yard.search(query)
            assert (await yard.execute(ExecuteRequest(code=USE.format("reimburse")))).outcome.ok
            await yard.guidance.learner.once()
        after = await yard.search(query)

    assert before == []
    assert [hit.name for hit in after.hits] == ["mcp__shop__reimburse"]
    assert after.text_ranks == (0,)


async def test_run_that_is_as_good_as_certain_to_fail_is_told_so_before_it_runs(tmp_path: Path) -> None:
    """With the policy `warn`: over progress, before anything of the code has happened."""
    told: list[str | None] = []
    seen: list[int] = []
    upstream = shop()

    def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)
        seen.append(len(upstream.calls))

    async with open_yard(config(tmp_path, LearningConfig(critical="warn")), upstreams={"shop": upstream}) as yard:
        code = "from servers.shop import list_cases, reimburse\nlist_cases(case='a1')\nreimburse(csae='a1')"
        result = await yard.execute(ExecuteRequest(code=code), on_progress=on_progress)

    assert result.is_error
    assert [message is not None and message.startswith("likely to fail: Line 3") for message in told] == [True]
    assert seen == [0]
    assert len(upstream.calls) == 1  # it ran all the same


async def test_limits_follow_what_the_same_code_needed_unless_that_is_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that needed nearly all its time gets more than the level's; what the agent asks for is left alone."""
    monkeypatch.setattr("sealyard.learning.resources._MORE_SECONDS", 40.0)  # so that a quick run needs more
    given: dict[bool, list[tuple[float, float]]] = {}
    for is_on in (True, False):
        folder = tmp_path / str(is_on)
        folder.mkdir()
        async with open_yard(config(folder, LearningConfig(limits=is_on)), upstreams={"shop": shop()}) as yard:
            await yard.execute(ExecuteRequest(code=USE.format("reimburse")))
            await yard.guidance.learner.once()
            await yard.execute(ExecuteRequest(code=USE.format("reimburse")))
            await yard.execute(ExecuteRequest(code=USE.format("reimburse"), timeout_seconds=20))
            await asyncio.sleep(0)  # which shows the last end to those who observe
            await yard.store.flush()
            facts = await yard.store.metrics.facts("execution")
        told = [fact.assessed for fact in facts if isinstance(fact, Executed) and fact.assessed is not None]
        given[is_on] = [(each.wall_seconds, each.usual_seconds) for each in told][:2]

    assert given[False] == [(20.0, 20.0), (30.0, 30.0)]
    (asked, (fitted, usual)) = given[True]
    assert (asked, usual) == ((20.0, 20.0), 30.0)
    assert 40.0 <= fitted < 60.0
