"""Control groups: one leaf a worker, limits that the kernel keeps, and nothing left by gateways that are gone."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sealyard.sandbox.cgroup import ControlGroup, open_control_group, owner_is_alive, owner_mark

ENTER = "import os, signal\nos.write({entrance}, b'0')\nos.close({entrance})\n"
HUNGRY = f"{ENTER}blocks = []\nwhile True: blocks.append(bytearray(1 << 20))"
BURN = """
for _ in range(3):
    if os.fork() == 0:
        while time.process_time() < 0.2: pass
        os._exit(0)
try: os.wait()
except ChildProcessError: pass
"""
IDLE = f"{ENTER}print(flush=True)\nsignal.pause()"
HOLDER = f"{ENTER}held = bytearray(4 << 20)\nheld[::4096] = bytes(1024)\nprint(flush=True)\nsignal.pause()"


@pytest.fixture
def group() -> Iterator[ControlGroup]:
    """A group of the test's own."""
    group = open_control_group(secrets.token_hex(4))
    if group is None:
        pytest.skip("no control group is delegated to this process: run the tests as root or with Delegate=yes")
    yield group
    group.close()


def start(code: str, entrance: int) -> subprocess.Popen[bytes]:
    """A process that goes through `entrance` into a leaf and then does as `code` says."""
    return subprocess.Popen(
        [sys.executable, "-S", "-c", code.format(entrance=entrance)], pass_fds=[entrance], stdout=subprocess.PIPE
    )


def test_process_over_its_memory_is_killed_and_told_apart(group: ControlGroup) -> None:
    """The kernel ends it at the limit, and the leaf knows why."""
    leaf = group.add(memory_bytes=32 << 20)
    before = leaf.was_out_of_memory()
    with start(HUNGRY, *leaf.entrances()) as process:
        status = process.wait(30)

    assert (before, status, leaf.was_out_of_memory()) == (False, -signal.SIGKILL, True)
    assert leaf.remove()


def test_leaf_knows_a_kill_from_running_out_of_memory(group: ControlGroup) -> None:
    """A process that somebody killed was not out of memory."""
    leaf = group.add(memory_bytes=64 << 20)
    with start(IDLE, *leaf.entrances()) as process:
        process.stdout.read(1)  # type: ignore[union-attr]
        process.kill()
        process.wait(30)

    assert not leaf.was_out_of_memory()
    assert leaf.remove()


def test_leaf_with_a_process_stays_until_that_is_gone(group: ControlGroup) -> None:
    """Closing can be tried again; the group itself goes last."""
    leaf = group.add(memory_bytes=64 << 20)
    with start(IDLE, *leaf.entrances()) as process:
        process.stdout.read(1)  # type: ignore[union-attr]
        group.discard(leaf)
        while_alive = leaf._path.exists(), group.close()
        process.kill()
        process.wait(30)
    afterwards = group.close()

    assert (while_alive, afterwards) == ((True, False), True)
    assert not group._path.exists()
    assert group.close()


def test_leaf_is_used_again_as_good_as_new(group: ControlGroup) -> None:
    """With the limit that is asked for, and without what the kernel had to do to the worker before."""
    leaf = group.add(memory_bytes=32 << 20)
    with start(HUNGRY, *leaf.entrances()) as process:
        process.wait(30)
    before = leaf.was_out_of_memory()
    group.discard(leaf)
    again = group.add(memory_bytes=64 << 20)
    name = "memory.max" if group.version == 2 else "memory.limit_in_bytes"
    limit = int((again._path / name).read_text(encoding="ascii"))
    told = again.was_out_of_memory()
    with start(HUNGRY, *again.entrances()) as process:
        process.wait(30)

    assert again is leaf
    assert (before, limit, told, again.was_out_of_memory()) == (True, 64 << 20, False, True)
    assert again.remove()


def test_leaf_that_holds_memory_is_not_used_again(group: ControlGroup) -> None:
    """What an earlier worker left there would be taken off the memory of the next one."""
    leaf = group.add(memory_bytes=64 << 20)
    with start(HOLDER, *leaf.entrances()) as process:
        process.stdout.read(1)  # type: ignore[union-attr]
        group.discard(leaf)
        other = group.add(memory_bytes=64 << 20)
        process.kill()
        process.wait(30)

    assert other is not leaf
    assert other.remove()
    assert group.close()


def test_leaf_that_counted_processor_time_is_not_used_again(group: ControlGroup) -> None:
    """It cannot be set back, and the next worker would be ended for the time of the one before."""
    if not group.can_count_cpu:
        pytest.skip("this machine has no controller that counts processor time")
    leaf = group.add(memory_bytes=64 << 20, count_cpu=True)
    group.discard(leaf)
    others = [group.add(memory_bytes=64 << 20, count_cpu=True), group.add(memory_bytes=64 << 20)]

    assert leaf not in others
    assert [other.remove() for other in others] == [True, True]


def test_leaf_counts_the_processor_time_of_all_its_processes(group: ControlGroup) -> None:
    """Of those that nobody waited for as well, which no process can tell; a leaf that was not asked to counts none."""
    if not group.can_count_cpu:
        pytest.skip("this machine has no controller that counts processor time")
    leaf, other = group.add(memory_bytes=64 << 20, count_cpu=True), group.add(memory_bytes=64 << 20)
    entrances = leaf.entrances()
    enter = "".join(f"os.write({each}, b'0')\nos.close({each})\n" for each in entrances)
    code = f"import os, signal, time\n{enter}signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n{BURN}"
    with subprocess.Popen([sys.executable, "-S", "-c", code], pass_fds=entrances) as process:
        process.wait(60)

    assert (leaf.counts_cpu, leaf.cpu_seconds() >= 0.6) == (True, True)
    assert (group.version == 1) <= (not other.counts_cpu and other.cpu_seconds() == 0)
    assert leaf.remove()
    assert other.remove()


def test_limit_of_a_leaf_can_be_changed(group: ControlGroup) -> None:
    """The new limit is the kernel's at once."""
    leaf = group.add(memory_bytes=64 << 20)
    leaf.limit(128 << 20)
    name = "memory.max" if group.version == 2 else "memory.limit_in_bytes"

    assert int((leaf._path / name).read_text(encoding="ascii")) == 128 << 20
    assert leaf.remove()


def test_group_says_its_version(group: ControlGroup) -> None:
    """The name is what a sandbox reports as its resource control."""
    assert group.name == f"cgroup v{group.version}"


def test_groups_of_gateways_that_are_gone_are_swept(group: ControlGroup) -> None:
    """Opening a group removes what dead gateways left, and nothing of those that live."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        started = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    dead = group._path.parent / f"sealyard-{process.pid}.{started}-x"
    (dead / "w1").mkdir(parents=True)
    (dead / "w2").mkdir()
    alive = group._path.parent / f"sealyard-{owner_mark()}-{secrets.token_hex(4)}"
    alive.mkdir()

    other = open_control_group(secrets.token_hex(4))

    assert (dead.exists(), alive.exists(), group._path.exists()) == (False, True, True)
    assert other is not None
    assert other.close()
    alive.rmdir()


def test_owner_is_known_by_number_and_start_time() -> None:
    """A later process of the same number is another owner, and nonsense is nobody."""
    pid, _, started = owner_mark().partition(".")

    assert (int(pid), owner_is_alive(owner_mark())) == (os.getpid(), True)
    assert [owner_is_alive(mark) for mark in (f"{pid}.{int(started) + 1}", "x.1", "", "-1.5", "0.0", f"{2**40}.1")] == [
        False
    ] * 6
