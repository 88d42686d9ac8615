"""One leg: `python -m attack USER TIER LEVEL`, or `python -m attack USER outside -` for the controls on the host.

Prints one JSON object a line: first the facts of the leg, then each attack with its verdict and what it touched.
"""

import asyncio
import json
import os
import platform
import sys
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from attack.catalog import ATTEMPTS
from attack.model import Attempt, Facts
from attack.scenes import SCENES
from attack.stage import SECRET, Stage, Targets, run_outside
from sealyard.sandbox import IsolationLevel, PoolOptions, open_sandbox
from sealyard.sandbox.policy import LEVELS
from sealyard.values.runs import Limits


def tell(name: str, verdict: str, touched: list[str]) -> None:
    """One line of the report."""
    print(json.dumps({"name": name, "verdict": verdict[:2_000], "touched": touched}), flush=True)


async def echo(tool: str, args: dict[str, Any]) -> Any:
    """Answers the calls of attacks."""
    if tool == "never":
        await asyncio.Event().wait()
    return args


async def attack(user: str, tier: Any, level: str) -> None:
    """Every attack of one leg."""
    targets = Targets()
    # Few files, since on some disks the landlock tier makes and deletes them slowly.
    policy = msgspec.structs.replace(LEVELS[IsolationLevel(level)], packages=(), workspace_files=300, temp_files=100)
    try:
        own = {"sealyard_analysis": Path(__file__).parent / "roomy"}
        async with open_sandbox(policy, tier=tier, allow_weaker=True, pool=PoolOptions(size=2), own=own) as sandbox:
            stage = Stage(sandbox, targets)
            facts = Facts(
                user=user,
                tier=sandbox.tier,
                level=level,
                machine=platform.machine(),
                resource_control=sandbox.resource_control,
                own_users=sandbox.pool.has_own_users,
            )
            print(json.dumps(asdict(facts)), flush=True)
            await _run_attempts(stage, [each for each in ATTEMPTS if each.machine in (None, facts.machine)])
            for scene in SCENES:
                tell(scene.id, await scene.play(stage), targets.touched())
    finally:
        targets.close()


async def _run_attempts(stage: Stage, attempts: list[Attempt]) -> None:
    together: dict[str, dict[str, str]] = defaultdict(dict)
    for each in attempts:
        if not each.is_block:
            together[each.area][each.id] = each.code
    for expressions in together.values():
        seen = await stage.run_all(expressions)
        touched = stage.targets.touched()
        for name in expressions:
            tell(name, seen[name], touched)
    for each in attempts:
        if each.is_block and not each.is_slow:
            tell(each.id, await _run_block(stage, each), stage.targets.touched())
    slow = [each for each in attempts if each.is_slow]
    verdicts = await asyncio.gather(*[_run_block(stage, each) for each in slow])
    touched = stage.targets.touched()
    for each, verdict in zip(slow, verdicts, strict=True):
        tell(each.id, verdict, touched)


async def _run_block(stage: Stage, attempt: Attempt) -> str:
    limits = None if attempt.limits is None else Limits(**attempt.limits)
    return await stage.run(attempt.code, limits=limits, on_call=echo)


def control(user: str) -> None:
    """The attacks that plain Python on the host must succeed with."""
    targets = Targets()
    try:
        print(json.dumps({"user": user, "machine": platform.machine()}), flush=True)
        for each in ATTEMPTS:
            if each.outside and each.machine in (None, platform.machine()):
                verdict = run_outside(each.code, is_block=each.is_block, names=targets.names())
                tell(each.id, verdict, targets.touched())
    finally:
        targets.close()


if __name__ == "__main__":
    os.environ["GATEWAY_SECRET"] = SECRET  # where a gateway would have its own
    if sys.argv[2] == "outside":
        control(sys.argv[1])
    else:
        asyncio.run(attack(*sys.argv[1:4]))
