"""Measures limits that follow experience, against fixed ones: the same real runs in a real sandbox.

Jobs are run for a while, then once more under the level's own limits and under fitted ones, side by side. Among them
are jobs that need longer than the level gives, jobs that suddenly hang, jobs that need much memory, and traps: runs
that need more than they ever did, which must not be killed for it.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from sealyard.learning.part import Lesson, Viewer
from sealyard.learning.prints import CodePrint, code_print
from sealyard.learning.resources import Resources, fit_seconds
from sealyard.sandbox import PoolOptions, Sandbox, open_sandbox
from sealyard.sandbox.policy import DEFAULT
from sealyard.values.facts import Assessed, Executed, RunEvidence
from sealyard.values.runs import Limits, Outcome

_POLICY = msgspec.structs.replace(DEFAULT, packages=())
_MAX_SECONDS = 120.0
_HALF_LIFE = 30 * 86_400.0
_PRINCIPAL = "bench"
_TIMES = 6  # that each job ran before, except those that are longer than the level allows
_TOGETHER = 2

_HASH = "import hashlib\nfor _ in range(n): digest = hashlib.sha256(b'x' * 10_000).hexdigest()\ndigest"
_SORT = "rows = sorted((i * 7919 % 10_007, str(i)) for i in range(n))\nlen(rows)"
_FILL = "block = bytearray(n << 20)\nfor at in range(0, len(block), 4096): block[at] = 1\nlen(block)"
_COPY = "parts = [bytes(1 << 20) + b'x' for _ in range(n)]\nsum(map(len, parts))"
_WRITE = "open('file', 'wb').write(b'x' * (n << 20))"
_WAIT = "import time\ntime.sleep(n)\n{number}"
_STUCK = "import threading\ngate = threading.Event()\nif n == 0: gate.set()\ngate.wait()\n{number}"
_LITERAL = "import time\ntime.sleep({seconds})\n'done'"

_Kind = Literal["plain", "long", "hanging", "trap"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of code, what it was given before, and what it is given when it counts."""

    kind: _Kind
    code: str
    before: tuple[int, ...]
    now: int
    code_now: str = ""
    """If other code than before."""


class _Passed(msgspec.Struct, frozen=True):
    """One run that counts."""

    job: Job
    wall_seconds: float
    outcome: Outcome
    seconds: float


def measure() -> dict[str, Any]:
    """Every figure. It takes a good minute, most of which is waiting for runs that hang."""
    return asyncio.run(_measure())


async def _measure() -> dict[str, Any]:
    resources = Resources()
    jobs = _jobs()
    started = time.perf_counter()
    async with open_sandbox(_POLICY, allow_weaker=True, pool=PoolOptions(size=4, running=64)) as sandbox:
        long = [asyncio.create_task(_teach(sandbox, resources, job)) for job in jobs if job.kind == "long"]
        await asyncio.gather(*(_teach(sandbox, resources, job) for job in jobs if job.kind != "long"))
        await asyncio.gather(*long)
        usual = _POLICY.wall_seconds
        limits = [_fitted(resources, job.code_now or job.code) for job in jobs]
        fixed, fitted = await asyncio.gather(
            asyncio.gather(*(_pass(sandbox, job, usual) for job in jobs)),
            asyncio.gather(*(_pass(sandbox, job, each) for job, each in zip(jobs, limits, strict=True))),
        )
        tier, control = sandbox.tier, sandbox.resource_control
    return {
        **_figures(fixed, fitted),
        "runs": resources.runs + len(fixed) + len(fitted),
        "seconds": round(time.perf_counter() - started, 1),
        "tier": tier,
        "resource_control": control,
    }


def _jobs() -> list[Job]:
    grown = tuple(range(100, 100 + 20 * _TIMES, 20))
    jobs = [
        Job(kind="plain", code=_HASH, before=grown, now=600),
        Job(kind="plain", code=_SORT, before=tuple(n * 100 for n in grown), now=60_000),
        Job(kind="plain", code=_FILL + "\n1", before=(90,) * _TIMES, now=120),
        Job(kind="plain", code=_COPY, before=(30,) * _TIMES, now=45),
        Job(kind="plain", code=_COPY + "\n1", before=(150,) * _TIMES, now=180),
        # Three times the memory; files, which are memory too; seven times as long as ever; and other values in the same
        # code, of which the quick ones say nothing.
        Job(kind="trap", code=_FILL, before=(40,) * _TIMES, now=130),
        Job(kind="trap", code=_WRITE, before=(1,) * _TIMES, now=50),
        Job(kind="trap", code=_WAIT.format(number=0), before=(2,) * _TIMES, now=14),
        Job(
            kind="trap",
            code=_LITERAL.format(seconds=0.1),
            before=(0,) * (2 * _TIMES),
            now=0,
            code_now=_LITERAL.format(seconds=15),
        ),
    ]
    usual = round(_POLICY.wall_seconds)
    jobs += [Job(kind="long", code=_WAIT.format(number=n), before=(usual + n,), now=usual + n) for n in (1, 2, 3)]
    jobs += [Job(kind="hanging", code=_STUCK.format(number=n), before=(0,) * _TIMES, now=1) for n in (1, 2, 3)]
    return jobs


async def _teach(sandbox: Sandbox, resources: Resources, job: Job) -> None:
    """Make the past: runs that are learned from, a few at a time with the limits that follow from the last."""
    for at in range(0, len(job.before), _TOGETHER):
        limits = _fitted(resources, job.code)
        numbers = job.before[at : at + _TOGETHER]
        for outcome, seconds in await asyncio.gather(*(_run(sandbox, job.code, n, limits) for n in numbers)):
            _learn(resources, job.code, limits, outcome, seconds)


def _fitted(resources: Resources, code: str) -> float:
    prediction = resources.predict(_print(code), Viewer(_PRINCIPAL, time.time(), _HALF_LIFE), tools=())
    return fit_seconds(prediction, _POLICY.wall_seconds, most=_MAX_SECONDS)


def _print(code: str) -> CodePrint:
    found = code_print(code)
    assert found is not None
    return found


async def _pass(sandbox: Sandbox, job: Job, wall_seconds: float) -> _Passed:
    outcome, seconds = await _run(sandbox, job.code_now or job.code, job.now, wall_seconds)
    return _Passed(job, wall_seconds, outcome, seconds)


async def _run(sandbox: Sandbox, code: str, number: int, wall_seconds: float) -> tuple[Outcome, float]:
    started = time.perf_counter()
    outcome = await sandbox.run(code, context={"n": number}, limits=Limits(wall_seconds=wall_seconds))
    return outcome, time.perf_counter() - started


def _learn(resources: Resources, code: str, wall_seconds: float, outcome: Outcome, seconds: float) -> None:
    """As the journal would tell it."""
    now = time.time()
    fact = Executed(
        at=now,
        principal=_PRINCIPAL,
        execution_id=outcome.execution_id,
        form="code",
        status=outcome.status,
        failure=outcome.failure.kind if outcome.failure is not None else "",
        seconds=seconds,
        memory_bytes=outcome.usage.memory_peak_bytes,
        use_case="compute",
        assessed=Assessed(
            risk="low",
            chance=0.0,
            wall_seconds=wall_seconds,
            memory_mib=_POLICY.memory_mib,
            usual_seconds=_POLICY.wall_seconds,
            usual_mib=_POLICY.memory_mib,
        ),
    )
    run = RunEvidence(fact=fact, code=code, started_at=now - seconds)
    resources.learn(Lesson(number=0, event=run, code=_print(code)), _HALF_LIFE)


def _figures(fixed: Sequence[_Passed], fitted: Sequence[_Passed]) -> dict[str, Any]:
    pairs = list(zip(fixed, fitted, strict=True))
    good = [pair for pair in pairs if pair[0].job.kind != "hanging"]
    hung = [pair for pair in pairs if pair[0].job.kind == "hanging"]
    lost = [sum(each[side].seconds for each in hung) for side in (0, 1)]
    return {
        "good_runs": len(good),
        "timeouts": {"fixed": _timeouts(good, 0), "fitted": _timeouts(good, 1)},
        "timeouts_avoided": _timeouts(good, 0) - _timeouts(good, 1),
        "hanging_runs": len(hung),
        "hanging_seconds": {"fixed": round(lost[0], 1), "fitted": round(lost[1], 1)},
        "hanging_ratio": round(lost[1] / lost[0], 3),
        "wrong_kills": sum(before.outcome.ok and not after.outcome.ok for before, after in good),
    }


def _timeouts(pairs: Sequence[tuple[_Passed, _Passed]], side: int) -> int:
    return sum(pair[side].outcome.status == "timeout" for pair in pairs)
