"""Measures failure hints: code that fails, is repaired by one agent, and fails for another later, in real gateways.

One gateway learns and one does not, so that it is seen which hints are owed to experience.
"""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from benchmarks.learning.failure_kinds import KINDS, UNKNOWN, Kind, broken_server, servers
from sealyard.config import Config
from sealyard.config.settings import LearningConfig, SandboxConfig, StoreConfig
from sealyard.errors import SandboxBroken
from sealyard.examples import demo_upstreams
from sealyard.values.runs import Failure
from sealyard.yard import ExecuteRequest, Yard, open_yard

_SOURCES = ("failure", "fix", "advice", "missed")
"""The source of the hint that names the fix: the failure itself; a learned fix; advice without experience; none."""
_FIXES = ("This helped", "One other agent got past this")


def measure() -> dict[str, Any]:
    """Every figure. It takes about half a minute."""
    return asyncio.run(_measure())


async def _measure() -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sealyard-benchmark-")))
        plain, learning = [await _open(stack, folder, name) for name in ("plain", "learning")]
        for kind in KINDS:
            await _repair(learning, kind)
        await learning.guidance.learner.once()
        by_kind = {kind.name: await _source(kind, plain, learning) for kind in KINDS}
        unknown = [await _told(learning, code, "stranger") for _, code in UNKNOWN]
    return {
        "hint_hit_rate": sum(source != "missed" for source in by_kind.values()) / len(by_kind),
        "kinds": len(by_kind),
        "by_source": {each: sum(source == each for source in by_kind.values()) for each in _SOURCES},
        "by_kind": by_kind,
        "unknown": len(unknown),
        "false_hint_rate": sum(map(bool, unknown)) / len(unknown),
    }


async def _open(stack: AsyncExitStack, folder: Path, name: str) -> Yard:
    examples = demo_upstreams(folder)
    config = Config(
        upstreams={name: examples[name] for name in ("expenses", "trips")},
        store=StoreConfig(path=folder / f"{name}.db"),
        sandbox=SandboxConfig(allow_weaker=True, data_packages=False),
        learning=LearningConfig(enabled=name == "learning"),
    )
    return await stack.enter_async_context(open_yard(config, upstreams={**servers(), "broken": broken_server()}))


async def _run(yard: Yard, code: str, principal: str, seconds: float | None) -> Failure | None:
    result = await yard.execute(ExecuteRequest(code=code, timeout_seconds=seconds), principal=principal)
    return result.outcome.failure


async def _repair(yard: Yard, kind: Kind) -> None:
    """Do what the first agent did. Raises `SandboxBroken` if its code does not fail, or its repair does."""
    if await _run(yard, kind.fails, "first", kind.seconds) is None:
        raise SandboxBroken(f"The code of {kind.name!r} was to fail, and did not. Report it.")
    failure = await _run(yard, kind.works, "first", None)
    if failure is not None:
        raise SandboxBroken(f"The repair of {kind.name!r} failed: {failure.type}: {failure.message}. Report it.")


async def _source(kind: Kind, plain: Yard, learning: Yard) -> str:
    """Who named the fix to another agent."""
    without = await _told(plain, kind.later, "other", kind.seconds)
    told = await _told(learning, kind.later, "other", kind.seconds)
    if not _names_fix(kind, told):
        return "missed"
    if _names_fix(kind, without):
        return "failure"
    return "fix" if any(lead in told for lead in _FIXES) else "advice"


def _names_fix(kind: Kind, told: str) -> bool:
    return all(want in told for want in kind.wants)


async def _told(yard: Yard, code: str, principal: str, seconds: float | None = None) -> str:
    """The hint that an agent gets when its code fails, as it gets it."""
    failure = await _run(yard, code, principal, seconds)
    if failure is None:
        raise SandboxBroken(f"This code was to fail, and did not: {code!r}. Report it.")
    return failure.hint or ""
