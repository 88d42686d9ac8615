"""When an upstream starts, stops, fails and starts again; and what it leaves behind."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import _descendants, _open_descriptors
from tests.upstreams.waiting import is_alive, until, until_ended, until_in_flight

from sealyard.broker.upstreams.server import read_message, to_answer
from sealyard.errors import UpstreamError, UpstreamTimeout, UpstreamUnavailable

Connect = Callable[..., Any]
Child = Callable[..., dict[str, Any]]


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@pytest.mark.usefixtures("settled")
async def test_nothing_runs_until_somebody_asks(connect: Connect, child: Child) -> None:
    """Making an upstream and asking for its state starts no process; a call does."""
    before = _descendants(os.getpid())
    async with connect(**child("Raw")) as upstream:
        assert (upstream.status().state, _descendants(os.getpid()) - before) == ("stopped", set())

        pid = (await upstream.call("env", {})).value["pid"]

        assert (upstream.status().state, pid in _descendants(os.getpid())) == ("ready", True)


async def test_calls_at_once_share_one_start(connect: Connect, child: Child) -> None:
    """Ten first calls are answered by one process."""
    async with connect(**child("Raw")) as upstream:
        answers = await asyncio.gather(*(upstream.call("env", {}) for _ in range(10)))

    assert len({answer.value["pid"] for answer in answers}) == 1


async def test_cancelled_waiter_does_not_cancel_the_start_for_others(connect: Connect, child: Child) -> None:
    """The start belongs to nobody in particular."""
    async with connect(**child("Raw")) as upstream:
        first = asyncio.create_task(upstream.call("echo", {"n": 1}))
        second = asyncio.create_task(upstream.call("echo", {"n": 2}))
        await asyncio.sleep(0)
        first.cancel()
        async with asyncio.timeout(60):
            answer = await second
        with pytest.raises(asyncio.CancelledError):
            await first

    assert answer.value == {"n": 2}


async def test_idle_upstream_stops_and_starts_again_when_called(connect: Connect, child: Child) -> None:
    """Its tools stay known meanwhile, and a call finds another process."""
    async with connect(**child("Raw", idle_seconds=0.05)) as upstream:
        first = (await upstream.call("env", {})).value["pid"]
        await until_ended(upstream)
        status = upstream.status()
        second = (await upstream.call("env", {})).value["pid"]

    assert (status.state, status.tools, status.error) == ("stopped", 1, None)
    assert first != second


async def test_upstream_in_use_is_not_idle(connect: Connect, child: Child) -> None:
    """A call that takes longer than the idle time is answered."""
    async with connect(**child("Raw", idle_seconds=0.05)) as upstream:
        with pytest.raises(UpstreamTimeout):
            await upstream.call("hang", {}, timeout_seconds=0.5)
        state = upstream.status().state
        await until_ended(upstream)

    assert (state, upstream.status().error) == ("ready", None)


async def test_call_in_flight_at_a_crash_says_that_it_may_have_happened(connect: Connect, child: Child) -> None:
    """And the next start waits for half a second, with the reason and the last words in the refusal."""
    clock = Clock()
    async with connect(**child("Raw"), clock=clock) as upstream:
        with pytest.raises(UpstreamError) as crash:
            await upstream.call("crash", {})
        with pytest.raises(UpstreamUnavailable) as refusal:
            await upstream.call("echo", {})
        state = upstream.status().state
        clock.now += 0.5
        later = upstream.status().state
        answer = await upstream.call("echo", {"again": True})
        status = upstream.status()

    assert str(crash.value) == (
        "'test' ended the connection during 'crash', which may have happened: It ended with exit code 3. "
        "It last said: I am about to crash."
    )
    assert str(refusal.value) == (
        "'test' is not available: It ended with exit code 3. It can be started again in 0.5 s. "
        "It last said: I am about to crash."
    )
    assert (state, later, answer.value) == ("backing_off", "failed", {"again": True})
    assert (status.state, status.restarts, status.calls, status.failures, status.error) == ("ready", 1, 3, 2, None)


async def test_killed_in_mid_call_fails_that_call_and_only_that(connect: Connect, child: Child) -> None:
    """A kill from outside is noticed at once, not by a timeout."""
    clock = Clock()
    async with connect(**child("Raw"), clock=clock) as upstream:
        pid = (await upstream.call("env", {})).value["pid"]
        hanging = asyncio.create_task(upstream.call("hang", {}))
        await until_in_flight(upstream, 1)
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            with pytest.raises(UpstreamError, match="which may have happened: It was ended by SIGKILL"):
                await hanging
        await until_ended(upstream)
        clock.now += 1
        answer = await upstream.call("echo", {"n": 1})

    assert answer.value == {"n": 1}


async def test_last_answer_of_a_server_that_ends_is_not_lost(connect: Connect, child: Child) -> None:
    """It is read before the connection is given up."""
    async with connect(**child("Last")) as upstream:
        answer = await upstream.call("echo", {})

    assert len(to_answer(read_message(answer.message)).value) == 1_000_000


async def test_pauses_double_up_to_a_minute_and_an_answer_resets_them(
    connect: Connect, child: Child, tmp_path: Path
) -> None:
    """The nth failure in a row costs 0.5, 1, 2, … seconds; calls in between start nothing."""
    clock = Clock()
    starts = tmp_path / "starts"
    pauses = []
    # Every failed start counts twice: it is tried again with the old handshake, in case the new one was its end.
    async with connect(**child("FailsAtFirst", str(starts), env={"FAILURES": "18"}), clock=clock) as upstream:
        for _ in range(9):
            with pytest.raises(UpstreamUnavailable):
                await upstream.call("echo", {})
            with pytest.raises(UpstreamUnavailable):
                await upstream.call("echo", {})
            pauses.append(upstream._life._retry_at - clock.now)
            clock.now = upstream._life._retry_at
        await upstream.call("echo", {})
        with pytest.raises(UpstreamError):
            await upstream.call("crash", {})
        await until_ended(upstream)
        pauses.append(upstream._life._retry_at - clock.now)

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 0.5]
    assert len(starts.read_text(encoding="utf-8").splitlines()) == 19


async def test_command_that_does_not_exist_is_named(connect: Connect) -> None:
    """The error says which command and why."""
    async with connect(transport="stdio", command="no-such-program") as upstream:
        with pytest.raises(UpstreamUnavailable) as refusal:
            await upstream.call("echo", {})

    assert str(refusal.value) == (
        "'test' is not available: Its command 'no-such-program' cannot be started: No such file or directory. "
        "It can be started again in 0.5 s."
    )


@pytest.mark.usefixtures("settled")
async def test_upstream_that_never_answers_its_greeting_fails_after_start_seconds(
    connect: Connect, child: Child
) -> None:
    """It is killed although it ignores the request to end, and its last words are kept."""
    before = _descendants(os.getpid())
    async with connect(**child("Hangs", start_seconds=2.0)) as upstream:
        with pytest.raises(UpstreamUnavailable) as refusal:
            await upstream.call("echo", {})
        left = _descendants(os.getpid()) - before
        status = upstream.status()

    assert str(refusal.value).startswith("'test' is not available: It did not start within 2 s.")
    assert (left, status.stderr) == (set(), "I will hang.\n")


@pytest.mark.parametrize("scenario", ["Raw", "DiesOnProbe", "IgnoresProbe"])
async def test_server_of_2024_is_spoken_to_in_its_own_way(connect: Connect, child: Child, scenario: str) -> None:
    """Whether it refuses the newest protocol's greeting, ignores it, or dies of it."""
    async with connect(**child(scenario, start_seconds=6.0)) as upstream:
        answer = await upstream.call("echo", {"a": [1]})
        status = upstream.status()

    assert answer.value == {"a": [1]}
    assert (status.protocol_version, status.server, status.tools) == ("2024-11-05", "raw 0.9", 1)


async def test_server_that_died_of_the_new_greeting_is_not_given_it_again(connect: Connect, child: Child) -> None:
    """The second start takes one process, not two."""
    async with connect(**child("DiesOnProbe", idle_seconds=0.05)) as upstream:
        await upstream.call("echo", {})
        await until_ended(upstream)
        first = upstream.status().stderr
        await upstream.call("echo", {})
        second = upstream.status().stderr

    assert (first, second) == ("what is that?\n", "what is that?\n")


@pytest.mark.usefixtures("settled")
async def test_close_leaves_no_process_task_or_descriptor(connect: Connect, child: Child) -> None:
    """Not even of a server whose descendant ignores the end and holds its pipes."""
    before = (_descendants(os.getpid()), _open_descriptors(), len(asyncio.all_tasks()))
    for scenario in (None, "Raw", "Family"):
        async with connect(**child(scenario, alone=True)) as upstream:
            if scenario == "Family":
                pid = (await upstream.call("echo", {})).value["pid"]
            else:
                await upstream.call("echo", {})

    assert (_descendants(os.getpid()), _open_descriptors(), len(asyncio.all_tasks())) == before
    await until(lambda: _is_over(pid))


def _is_over(pid: int) -> bool:
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.usefixtures("settled")
async def test_close_in_the_middle_of_a_start_ends_it(connect: Connect, child: Child) -> None:
    """Whoever waited for it learns that it was closed."""
    before = _descendants(os.getpid())
    async with connect(**child("Hangs")) as upstream:
        waiting = asyncio.create_task(upstream.call("echo", {}))
        await until(lambda: upstream.status().stderr != "")
        async with asyncio.timeout(60):
            await upstream.close()
        with pytest.raises(UpstreamUnavailable, match="was closed"):
            await waiting

    assert _descendants(os.getpid()) == before


async def test_child_gets_only_the_environment_its_config_names(
    connect: Connect, child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secrets of the gateway's own environment stay there."""
    monkeypatch.setenv("GATEWAY_SECRET", "s3cret")
    async with connect(**child("Raw", env={"TOKEN": "t0ken"}, cwd=str(tmp_path))) as upstream:
        seen = (await upstream.call("env", {})).value

    allowed = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "TOKEN", "LC_CTYPE"}
    assert set(seen["env"]) - allowed == set()
    assert (seen["env"]["TOKEN"], seen["cwd"]) == ("t0ken", str(tmp_path))


async def test_standard_error_is_kept_at_its_end_only(connect: Connect, child: Child, capfd: Any) -> None:
    """64 KiB of it, without what a terminal would obey, and nothing reaches ours."""
    script = "import sys; sys.stderr.write('a' * 200_000 + '\\x1b[31mlast words\\n'); sys.exit(1)"
    async with connect(transport="stdio", command="python3", args=("-c", script)) as upstream:
        with pytest.raises(UpstreamUnavailable):
            await upstream.call("echo", {})
        kept = upstream.status().stderr

    assert (kept.endswith("a[31mlast words\n"), len(kept)) == (True, (64 << 10) - 1)
    assert tuple(capfd.readouterr()) == ("", "")


async def test_dead_server_shows_no_sign_of_life(connect: Connect, child: Child) -> None:
    """It answers neither a call nor a ping."""
    async with connect(**child("HangsInCall", call_seconds=0.2)) as upstream:
        with pytest.raises(UpstreamTimeout):
            await upstream.call("echo", {})

        assert not await is_alive(upstream)


async def test_ping_needs_an_answer(connect: Connect, child: Child) -> None:
    """A server of either era that lives answers it."""
    for scenario in (None, "Raw"):
        async with connect(**child(scenario)) as upstream:
            assert await is_alive(upstream)


async def test_server_that_hangs_for_good_is_replaced(connect: Connect, child: Child) -> None:
    """After three calls without an answer it is asked for a sign of life; without one it is ended."""
    clock = Clock()
    async with connect(**child("HangsInCall", call_seconds=0.2), clock=clock) as upstream:
        for _ in range(3):
            with pytest.raises(UpstreamTimeout):
                await upstream.call("echo", {}, timeout_seconds=0.05)
        await until_ended(upstream)
        with pytest.raises(UpstreamUnavailable) as refusal:
            await upstream.call("echo", {})

    assert str(refusal.value) == (
        "'test' is not available: It left calls without an answer and does not respond. "
        "It can be started again in 0.5 s."
    )


async def test_server_that_is_only_slow_is_kept(connect: Connect, child: Child) -> None:
    """As long as it answers when it is asked for a sign of life."""
    async with connect(**child("Raw")) as upstream:
        first = (await upstream.call("env", {})).value["pid"]
        for _ in range(4):
            with pytest.raises(UpstreamTimeout):
                await upstream.call("hang", {}, timeout_seconds=0.05)
        await until(lambda: upstream._life.connection.silent_calls < 3)
        second = (await upstream.call("env", {})).value["pid"]

    assert first == second
