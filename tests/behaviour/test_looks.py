"""What is remembered of code that runs again and again: its verdict and the look at it, until anything changes."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.config import Config
from sealyard.config.settings import LearningConfig, PrivacyConfig, StoreConfig
from sealyard.learning.guidance import RunAdvice
from sealyard.learning.part import Viewer
from sealyard.learning.risk import RiskModel
from sealyard.sandbox.policy import DEFAULT, LEVELS, IsolationLevel
from sealyard.sandbox.review import offloaded_review
from sealyard.testing import FakeUpstream
from sealyard.values.runs import ExecutionRecord, Limits
from sealyard.yard import Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
CODE = "from servers.bank import pay\nresult = pay(amount=1)"


def pay(amount: int) -> dict[str, Any]:
    """Pay a bill."""
    return {"paid": amount}


class Clock:
    """A clock that a test moves."""

    now = 1_700_000_000.0

    def viewer(self, principal: str) -> Viewer:
        """A principal at this time, for whom evidence fades within a month."""
        return Viewer(principal, self.now, 30 * 86_400.0)


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Yard]:
    """A yard with one tool."""
    config = Config(
        store=StoreConfig(path=folder / "sealyard.db"), privacy=PrivacyConfig(mode="off"), learning=LearningConfig()
    )
    async with open_yard(config, policy=PLAIN, upstreams={"bank": FakeUpstream("bank", pay=pay)}) as yard:
        yield yard


async def look(
    yard: Yard, *, principal: str = "ann", session: str = "s", context: Any = None, **changed: Any
) -> RunAdvice:
    """A look at the code before it runs."""
    snapshot = await yard.snapshot()
    review = await yard.runner.review(CODE, PLAIN, snapshot, (), principal)
    record = ExecutionRecord(
        execution_id="e", principal=principal, session=session, code=CODE, context=context, started_at=0.0
    )
    return await yard.guidance.look(
        record,
        review,
        snapshot=snapshot,
        policy=changed.get("policy", PLAIN),
        limits=changed.get("limits", Limits()),
    )


async def test_a_look_is_taken_anew_whenever_what_it_depends_on_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same again is the same look; another second, principal, session, context, limit or lesson is another one."""
    clock, asked = Clock(), list[str]()
    assess = RiskModel.assess

    def counting(self: RiskModel, form: Any, viewer: Viewer, **kwargs: Any) -> Any:
        asked.append(viewer.principal)
        return assess(self, form, viewer, **kwargs)

    monkeypatch.setattr(RiskModel, "assess", counting)
    async with opened(tmp_path) as yard:
        monkeypatch.setattr(yard.guidance.learner, "viewer", clock.viewer)
        first = await look(yard)
        assert await look(yard) is first
        assert len(asked) == 1
        clock.now += 1
        await look(yard)
        await look(yard, principal="bob")
        await look(yard, session="other")
        await look(yard, context={})
        await look(yard, context={})
        await look(yard, limits=Limits(wall_seconds=7.0))
        await look(yard, policy=msgspec.structs.replace(PLAIN, memory_mib=64))
        assert len(asked) == 8
        await look(yard)
        await yard.guidance.learner.forget("principal", "bob")
        await look(yard)
        assert len(asked) == 10


async def test_a_look_without_a_part_that_failed_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the part answers again, it is heard."""
    asked: list[str] = []

    def failing(self: RiskModel, *args: Any, **kwargs: Any) -> Any:
        asked.append("now")
        raise KeyError("gone")

    async with opened(tmp_path) as yard:
        assess = RiskModel.assess
        monkeypatch.setattr(yard.guidance.learner, "viewer", Clock().viewer)
        monkeypatch.setattr(RiskModel, "assess", failing)
        without = await look(yard)
        monkeypatch.setattr(RiskModel, "assess", assess)
        yard.guidance.barrier._off_until.clear()
        heard = await look(yard)

    assert asked == ["now"]
    assert (without.assessment.chance, heard.assessment.chance > 0) == (0.0, True)


async def test_a_verdict_is_remembered_for_its_policy_and_its_packages() -> None:
    """Code that one policy allows may be refused by another."""
    code = "import numpy\nfrom servers.bank import pay\npay(amount=1)"
    production, hardened = LEVELS[IsolationLevel.PRODUCTION], LEVELS[IsolationLevel.HARDENED]

    async def verdict(policy: Any, packages: frozenset[str]) -> Any:
        return await offloaded_review(code, policy, packages, offload=None, who="ann")

    packages = frozenset(("numpy",))
    first = await verdict(production, packages)
    again = await verdict(msgspec.structs.replace(production), frozenset(("numpy",)))
    refused = [(await verdict(*case)).verdict for case in ((hardened, packages), (production, frozenset(("pandas",))))]

    assert first.verdict == "allow"
    assert again is first
    assert refused == ["refuse"] * 2
    assert (await verdict(production, packages)).verdict == "allow"
