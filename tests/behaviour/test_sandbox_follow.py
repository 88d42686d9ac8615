"""The pool follows demand: more waiting workers, other packages loaded, and nothing else is different."""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from sealyard.learning.guidance import PoolFollowing
from sealyard.learning.learner import Model
from sealyard.learning.part import Lesson
from sealyard.sandbox import PoolOptions, Sandbox, open_sandbox
from sealyard.sandbox.policy.levels import DEFAULT, FILTERING
from sealyard.sandbox.spawn import Tier
from sealyard.values.facts import Executed, RunEvidence
from sealyard.values.runs import Limits

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
WITH_NUMPY = msgspec.structs.replace(DEFAULT, packages=("numpy",))
MOST = min(8, 2 * len(os.sched_getaffinity(0)))
LOADED = "import sys\nsorted({'numpy', 'socketserver', 'msgspec', 'sealyard', 'ftplib'} & set(sys.modules))"
NOW = 1_800_000_000.0
Held = Callable[..., Awaitable[dict[str, Any]]]


def waiting(sandbox: Sandbox) -> int:
    """How many workers wait."""
    return len(sandbox.pool._waiting)


def let_time_pass(sandbox: Sandbox) -> None:
    """As if nothing had been run for an hour, and the zygote were as old."""
    sandbox.pool._taken_at -= 3_600
    sandbox.pool._renewed_at -= 3_600


async def loaded(sandbox: Sandbox) -> list[str]:
    """What the next run finds imported."""
    outcome = await sandbox.run(LOADED)
    assert outcome.failure is None
    found: list[str] = outcome.result
    return found


@pytest.mark.parametrize("tier", ["namespace", "landlock"])
async def test_pool_grows_and_shrinks_and_leaves_nothing_behind(tier: Tier, held: Held) -> None:
    """Workers that are not wanted any more are gone, with everything they held."""
    async with open_sandbox(PLAIN, tier=tier, allow_weaker=True, pool=PoolOptions(size=1)) as sandbox:
        before = await held(sandbox)
        sizes = []
        for size in (3, 2, 1):
            sandbox.follow(size, ())
            await sandbox.settle()
            sizes.append(waiting(sandbox))
            assert (await sandbox.run("n", context={"n": size})).result == size
            await sandbox.settle()
            sizes.append(waiting(sandbox))

        assert sizes == [3, 3, 2, 2, 1, 1]
        assert await held(sandbox) == before


@pytest.mark.parametrize(
    ("configured", "asked", "found"),
    [(1, 1_000_000, MOST), (2, 0, 2), (2, -5, 2), (MOST + 1, 1, MOST + 1), (MOST + 1, 1_000, MOST + 1), (0, 5, 0)],
)
async def test_pool_stays_within_its_bounds_whatever_is_asked(configured: int, asked: int, found: int) -> None:
    """Never fewer than configured, nor more than 8 or twice the processors; none where none are to wait."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=configured)) as sandbox:
        sandbox.follow(asked, ())
        await sandbox.settle()

        assert (sandbox.pool.size, waiting(sandbox)) == (found, found)


async def test_pool_that_is_made_in_batches_grows_at_once() -> None:
    """`refill_below` says when to make the next batch, not how many are wanted."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=2, refill_below=1)) as sandbox:
        sandbox.follow(MOST, ())
        await sandbox.settle()

        assert waiting(sandbox) == MOST


async def test_asking_for_less_while_the_pool_fills_stops_it(held: Held) -> None:
    """The worker that was on its way is not kept."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1)) as sandbox:
        before = await held(sandbox)
        sandbox.follow(MOST, ())
        await asyncio.sleep(0)
        sandbox.follow(1, ())

        assert await held(sandbox) == before
        assert waiting(sandbox) == 1


@pytest.mark.parametrize("tier", ["namespace", "landlock"])
async def test_packages_that_are_not_wanted_are_not_loaded_but_can_be_imported(tier: Tier, held: Held) -> None:
    """What is loaded before a run changes how long an import takes, and nothing else."""
    async with open_sandbox(WITH_NUMPY, tier=tier, allow_weaker=True, pool=PoolOptions(size=1)) as sandbox:
        before = await held(sandbox)
        found = [await loaded(sandbox)]
        for packages in ((), ("numpy",)):
            await sandbox.settle()
            let_time_pass(sandbox)
            sandbox.follow(1, packages)
            await sandbox.settle()
            found.append(await loaded(sandbox))
            outcome = await sandbox.run("import numpy\nint(numpy.arange(5).sum())")
            assert (outcome.failure, outcome.result) == (None, 10)

        assert found == [["numpy"], [], ["numpy"]]
        assert await held(sandbox) == before


async def test_strange_packages_are_never_loaded() -> None:
    """Only those of the level's own list are, whatever was imported by whom."""
    strange = ("socketserver", "msgspec", "sealyard", "ftplib", "../numpy", "numpy.linalg", "")
    async with open_sandbox(WITH_NUMPY, pool=PoolOptions(size=1)) as sandbox:
        await sandbox.settle()
        let_time_pass(sandbox)
        sandbox.follow(1, strange)
        await sandbox.settle()
        found = await loaded(sandbox)
        outcome = await sandbox.run("import msgspec")

    assert found == []
    assert outcome.failure is not None
    assert outcome.failure.message == "Importing 'msgspec' is not allowed at level 'production'."


async def test_loaded_package_stays_refused_where_it_is_not_listed() -> None:
    """A stricter policy of one principal holds, though the zygote has it in its memory."""
    strict = msgspec.structs.replace(FILTERING, packages=("numpy",))
    async with open_sandbox(WITH_NUMPY, pool=PoolOptions(size=1)) as sandbox:
        sandbox.follow(2, ("numpy",))
        await sandbox.settle()
        outcome = await sandbox.run("import numpy", policy=strict)

    assert outcome.failure is not None
    assert (outcome.failure.type, outcome.failure.message) == (
        "ImportRefused",
        "Importing 'numpy' is not allowed at level 'production'.",
    )


async def test_own_modules_of_the_gateway_stay_loaded(tmp_path: Any) -> None:
    """They belong to every run, and nobody imports them by demand."""
    (tmp_path / "__init__.py").write_text("VALUE = 7\n", encoding="utf-8")
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1), own={"sealyard_analysis": tmp_path}) as sandbox:
        zygote = sandbox.zygote
        let_time_pass(sandbox)
        sandbox.follow(1, ())
        await sandbox.settle()
        outcome = await sandbox.run("import sys\n'sealyard_analysis' in sys.modules")

        assert (outcome.result, sandbox.zygote is zygote) == (True, True)


async def test_zygote_is_not_replaced_while_something_runs_or_soon_after() -> None:
    """Nor twice within ten minutes: following demand must not cost those who ask."""
    async with open_sandbox(WITH_NUMPY, pool=PoolOptions(size=1)) as sandbox:
        zygotes = [sandbox.zygote]
        arrived, gate = asyncio.Event(), asyncio.Event()

        async def hold(tool: str, args: dict[str, Any]) -> None:
            arrived.set()
            await gate.wait()

        async def follow(packages: tuple[str, ...]) -> None:
            sandbox.follow(1, packages)
            await sandbox.settle()
            zygotes.append(sandbox.zygote)

        await follow(())  # new
        let_time_pass(sandbox)
        run = asyncio.create_task(sandbox.run("call_tool('a')", on_call=hold))
        await arrived.wait()
        sandbox.pool._taken_at -= 3_600
        await follow(())  # under way
        gate.set()
        await run
        await sandbox.settle()
        sandbox.pool._taken_at += 3_600
        await follow(())  # just over
        let_time_pass(sandbox)
        await follow(())
        sandbox.pool._taken_at -= 3_600
        await follow(("numpy",))  # the second within ten minutes

        assert [each is zygotes[0] for each in zygotes] == [True, True, True, True, False, False]
        assert zygotes[4] is zygotes[5]


async def test_files_of_sessions_are_there_after_the_change() -> None:
    """Workspaces are handed from one zygote to the next."""
    async with open_sandbox(WITH_NUMPY, pool=PoolOptions(size=1)) as sandbox:
        await sandbox.run("open('kept', 'w').write('yes')", session="s")
        await sandbox.settle()
        let_time_pass(sandbox)
        old = sandbox.zygote
        sandbox.follow(2, ())
        await sandbox.settle()
        outcome = await sandbox.run("open('kept').read()", session="s")

        assert (outcome.result, sandbox.zygote is old) == ("yes", False)


async def test_zygote_that_cannot_be_replaced_goes_on(
    held: Held, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once, runs do not notice, and it is tried again later."""
    async with open_sandbox(WITH_NUMPY, pool=PoolOptions(size=1)) as sandbox:
        before = await held(sandbox)
        old = sandbox.zygote
        let_time_pass(sandbox)
        with monkeypatch.context() as broken, caplog.at_level(logging.WARNING):
            broken.setattr(sys, "_base_executable", "/nowhere/python")
            sandbox.follow(1, ())
            await sandbox.settle()
            sandbox.follow(1, ())
            await sandbox.settle()
        during = (sandbox.zygote is old, await loaded(sandbox), len(caplog.records))
        await sandbox.settle()
        let_time_pass(sandbox)
        sandbox.follow(1, ())
        await sandbox.settle()

        assert during == (True, ["numpy"], 1)
        assert (await loaded(sandbox), await held(sandbox)) == ([], before)


async def test_following_a_sandbox_that_closes_leaves_nothing(held: Held) -> None:
    """In the middle of growing and of replacing its zygote, and after its end."""
    before = await held()
    async with open_sandbox(WITH_NUMPY, pool=PoolOptions(size=1)) as sandbox:
        let_time_pass(sandbox)
        sandbox.follow(MOST, ())
        await asyncio.sleep(0)
        await sandbox.close()
        sandbox.follow(MOST, ("numpy",))

    assert await held() == before


async def test_less_memory_leaves_the_room_for_addresses_that_the_level_has() -> None:
    """Libraries map far more than they touch; what is touched is held down as before."""
    reserve = "import mmap\nroom = mmap.mmap(-1, 900 << 20, flags=mmap.MAP_PRIVATE | 0x4000)\nlen(room) >> 20"
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1)) as sandbox:
        if sandbox.resource_control == "rlimits":
            pytest.skip("Address space is what is limited here, and is never made less.")
        tight = Limits(memory_mib=128)
        mapped = await sandbox.run(reserve, limits=tight)
        touched = await sandbox.run("len(bytearray(200 << 20).replace(b'0', b'1'))", limits=tight)

    assert (mapped.failure, mapped.result) == (None, 900)
    assert touched.failure is not None
    assert touched.failure.kind == "memory"


class Journal:
    """Feeds a model with runs, as the learner does."""

    def __init__(self) -> None:
        self.models: dict[str, Model] = {}

    def burst(self, at: float, runs: int, *, partition: str = "", principal: str = "ann", code: str = "1 + 1") -> None:
        """So many runs at once."""
        model = self.models.setdefault(partition, Model())
        for _ in range(runs):
            fact = Executed(at=at, principal=principal, form="code", status="ok", seconds=0.1, use_case="compute")
            model.resources.learn(Lesson(number=0, event=RunEvidence(fact=fact, code=code, started_at=at)), 1e6)


async def test_principal_that_bursts_gets_a_pool_of_bounded_size_and_not_for_long() -> None:
    """A thousand runs at once, again and again, keep no more than a few workers waiting for a quarter of an hour."""
    journal = Journal()
    now = [NOW]
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1)) as sandbox:
        opened: asyncio.Future[Sandbox] = asyncio.get_running_loop().create_future()
        following = PoolFollowing(opened, lambda: journal.models, clock=lambda: now[0])
        await following.follow()  # it is not there yet
        opened.set_result(sandbox)
        sizes = []
        for after in (0, 1, 901):
            if after < 2:
                journal.burst(NOW + after, 1_000, principal="mallory")
            now[0] = NOW + after + 0.1
            await following.follow()
            await sandbox.settle()
            sizes.append(waiting(sandbox))

    assert sizes == [1, MOST, 1]


async def test_principals_who_learn_apart_share_the_pool() -> None:
    """Their runs at one time are one burst; what all share is not counted twice."""
    apart, shared = Journal(), Journal()
    for at in (NOW, NOW + 10):
        for principal in ("ann", "bob", "cat"):
            apart.burst(at, 1, partition=principal, principal=principal)
        for partition in ("", "data"):
            shared.burst(at, 2, partition=partition)
    sizes = []
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1)) as sandbox:
        opened: asyncio.Future[Sandbox] = asyncio.get_running_loop().create_future()
        opened.set_result(sandbox)
        for journal in (apart, shared):
            await PoolFollowing(opened, lambda models=journal.models: models, clock=lambda: NOW + 20).follow()  # type: ignore[misc]
            sizes.append(sandbox.pool.size)

    assert sizes == [3, 2]


async def test_sandbox_that_could_not_be_opened_is_not_followed() -> None:
    """Nor one that there is none of, or that was given up."""
    failed: asyncio.Future[Sandbox] = asyncio.get_running_loop().create_future()
    failed.set_exception(RuntimeError("no walls"))
    given_up: asyncio.Future[Sandbox] = asyncio.get_running_loop().create_future()
    given_up.cancel()

    for each in (failed, given_up, None):
        await PoolFollowing(each, dict).follow()
