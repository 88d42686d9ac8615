"""Runs that can be had again: a clock that stands, sleep that takes no time, and chance that comes from a seed."""

from typing import Any

import msgspec
import pytest

from sealyard.sandbox import IsolationLevel, PoolOptions, ReplayClock, open_sandbox
from sealyard.sandbox.policy import DEFAULT, LEVELS
from sealyard.values.runs import Outcome

AT = 1730000000.123456
CLOCK = ReplayClock(at=AT, seed=7)


def value(outcome: Outcome) -> Any:
    """The result of a run that did not fail."""
    assert outcome.failure is None
    return outcome.result


@pytest.mark.parametrize(
    ("code", "moment"),
    [
        ("import time\ntime.time()", AT),
        ("from time import time\ntime()", AT),
        ("import time\ntime.time_ns() // 1000", 1730000000123456),
        ("import time\ntime.clock_gettime(time.CLOCK_REALTIME)", AT),
        ("import time\ntime.gmtime()[:6]", [2024, 10, 27, 3, 33, 20]),
        ("import time\ntime.mktime(time.localtime())", 1730000000.0),
        ("import time\ntime.ctime() == time.ctime(1730000000) == time.asctime()", True),
        ("import time\ntime.strftime('%s'), time.strftime('%Y', time.gmtime(0))", ["1730000000", "1970"]),
        ("import time\n[time.gmtime(0)[:3], time.ctime(0) == time.asctime(time.localtime(0))]", [[1970, 1, 1], True]),
        ("import datetime\ndatetime.datetime.now(datetime.timezone.utc)", "2024-10-27T03:33:20.123456+00:00"),
        ("from datetime import datetime\ndatetime.now().timestamp()", AT),
        ("from datetime import datetime\ndatetime.utcnow()", "2024-10-27T03:33:20.123456"),
        ("from datetime import datetime\ndatetime.today() == datetime.now()", True),
        ("from datetime import date, datetime\ndate.today() == datetime.now().date()", True),
        ("from datetime import datetime\nfrom zoneinfo import ZoneInfo\ndatetime.now(tz=ZoneInfo('UTC')).hour", 3),
        ("from datetime import datetime\nclass D(datetime): ...\n[type(D.now()) is D, D.now() == datetime.now()]",
         [True, True]),
        ("import logging\nlogging.makeLogRecord({}).created", AT),
    ],
)  # fmt: skip
def test_every_way_to_ask_for_the_time_gives_the_same_moment(driver: Any, code: str, moment: Any) -> None:
    """Module and names imported from it, with and without a zone; a moment that is given is left as it is."""
    assert value(driver.run(code, replay=CLOCK)) == moment


def test_dates_are_still_dates(driver: Any) -> None:
    """Their classes are the real ones: instances, pickles, copies, parsing and arithmetic work as ever."""
    outcome = driver.run(
        """
        import copy, datetime, pickle
        from datetime import datetime as kind, timedelta
        now = kind.now()
        result = [
            isinstance(now, kind), isinstance(now, datetime.date), type(now) is kind, type(now) is datetime.datetime,
            pickle.loads(pickle.dumps(now)) == now, copy.deepcopy(now) == now,
            kind.fromisoformat(now.isoformat()) == now,
            kind.strptime("2024-10-27", "%Y-%m-%d").date() == now.date(), now + timedelta(days=1) > now,
        ]
        """,
        replay=CLOCK,
    )

    assert value(outcome) == [True] * 9


def test_sleep_takes_no_time_and_moves_the_clock(driver: Any) -> None:
    """Hours pass at once, on every clock; waiting for a moment to come ends."""
    outcome = driver.run(
        """
        import asyncio, time
        from time import sleep
        clocks = (time.time, time.monotonic, time.perf_counter, time.process_time)
        before = [clock() for clock in clocks]
        sleep(3600)
        await asyncio.sleep(1800.5)
        passed = [round(clock() - start, 3) for clock, start in zip(clocks, before)]
        end = time.monotonic() + 0.01
        while time.monotonic() < end:
            pass
        try:
            time.sleep(-1)
        except ValueError as error:
            refused = str(error)
        result = [passed, refused, await asyncio.sleep(0, "value")]
        """,
        replay=CLOCK,
    )

    assert value(outcome) == [[5400.5] * 4, "sleep length must be non-negative", "value"]


def test_durations_are_never_nothing_and_always_the_same(driver: Any) -> None:
    """Code that divides by what it measured works, and comes to the same again."""
    code = "from time import perf_counter\nstart = perf_counter()\n1 / (perf_counter() - start)"

    first, second = (value(driver.run(code, replay=CLOCK)) for _ in range(2))

    assert first > 0
    assert first == second


def test_sleep_side_by_side_takes_the_longest_of_them(driver: Any) -> None:
    """And not the sum; all give way to others first, in their order, and one that is cancelled moves no clock."""
    outcome = driver.run(
        """
        import asyncio, time
        start, woken = time.time(), []
        async def nap(seconds):
            await asyncio.sleep(seconds)
            woken.append([seconds, time.time() - start])
        given_up = asyncio.create_task(nap(50))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(nap(10), nap(30), nap(20))
        woken
        """,
        replay=ReplayClock(at=AT // 1, seed=1),
    )

    assert value(outcome) == [[10, 10.0], [30, 30.0], [20, 30.0]]


def test_timeouts_of_the_event_loop_still_end(driver: Any) -> None:
    """The loop itself lives by the real clock."""
    outcome = driver.run(
        """
        import asyncio
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            result = "ended"
        """,
        replay=CLOCK,
    )

    assert value(outcome) == "ended"


CHANCE = """
import os, random, secrets, tempfile, uuid
from random import choice
result = [
    random.random(), choice(range(1000)), random.Random().random(), random.SystemRandom().random(), os.urandom(8).hex(),
    secrets.token_hex(8), secrets.randbelow(10**9), uuid.uuid1(), uuid.uuid4(), os.path.basename(tempfile.mktemp()),
]
random.seed()
result.append(random.random())
"""


def test_chance_comes_from_the_seed(driver: Any) -> None:
    """The same seed gives the same, another gives another, and a run that is no replay gives what it likes."""
    first, again, other = (value(driver.run(CHANCE, replay=ReplayClock(at=AT, seed=seed))) for seed in (7, 7, 8))
    free = [value(driver.run(CHANCE)) for _ in range(2)]

    assert first == again
    assert [a for a, b in zip(first, other, strict=True) if a == b] == []
    assert [a for a, b in zip(*free, strict=True) if a == b] == []


def test_a_run_that_is_no_replay_has_a_clock_that_goes(driver: Any) -> None:
    """Nothing of a replay stays for the next run."""
    replayed = value(driver.run("import time\ntime.time()", replay=CLOCK))
    free = value(driver.run("import time\nfrom datetime import datetime\n[time.time(), datetime.now().timestamp()]"))

    assert replayed == AT
    assert all(moment > AT + 1_000_000 for moment in free)


def test_skills_live_by_the_same_clock(driver: Any) -> None:
    """And their uses are still reported with real seconds."""
    seconds = []

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        if tool == "load_skill":
            code = (
                "import random\nfrom time import sleep\nfrom datetime import datetime\n"
                "def roll():\n    sleep(600)\n    return [datetime.now().timestamp(), random.random()]"
            )
            named = {"name": "roll", "version": "1.0.0", "form": "function", "code": code, "inputs": {}}
            return named | {"status": "active", "warnings": [], "shims": [], "tools": {}}
        seconds.append(args.get("seconds", 0.0))
        return None

    first, second = (
        value(driver.run("from skills import roll\nroll()", on_call=on_call, replay=CLOCK)) for _ in range(2)
    )

    assert first == second
    assert first[0] == AT + 600
    assert all(0 <= each < 60 for each in seconds)


async def test_data_packages_take_part() -> None:
    """numpy's chance and pandas' clock."""
    code = """
import numpy as np, pandas as pd
now = pd.Timestamp.now("UTC")
result = [np.random.rand(), np.random.default_rng().random(), now, pd.Timestamp.today() == pd.Timestamp("now")]
"""
    policy = msgspec.structs.replace(DEFAULT, packages=("numpy", "pandas"))
    async with open_sandbox(policy, pool=PoolOptions(size=1)) as sandbox:
        first, second = [value(await sandbox.run(code, replay=CLOCK)) for _ in range(2)]

    assert first == second
    assert first[2:] == ["2024-10-27T03:33:20.123456+00:00", True]


@pytest.mark.parametrize("tier", ["namespace", "landlock"])
async def test_the_strictest_level_can_be_replayed(tier: str) -> None:
    """Where no new native code may be loaded, on either tier."""
    policy = msgspec.structs.replace(LEVELS[IsolationLevel.HARDENED], packages=(), every_layer=False)
    async with open_sandbox(policy, tier=tier, allow_weaker=True, pool=PoolOptions(size=1)) as sandbox:
        outcome = await sandbox.run("from datetime import datetime\ndatetime.now().timestamp()", replay=CLOCK)

    assert value(outcome) == AT
