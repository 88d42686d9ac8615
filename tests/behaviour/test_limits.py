"""Every limit ends a run under its own name, with what was printed so far, and can be set for one run."""

import os
from typing import Any

import msgspec
import pytest

from sealyard.errors import InvalidRequest
from sealyard.sandbox import IsolationLevel, open_sandbox
from sealyard.sandbox.policy import DEFAULT, LEVELS
from sealyard.values.runs import Failure, Limits, Outcome

WALL = Failure(
    kind="wall_time",
    type="WallTimeExceeded",
    message="The code ran longer than 1 s and was stopped.",
    hint="Do less in one run, or ask for a longer timeout (at most 120 s).",
)

ENDLESS = {
    "infinite loop": "while True: pass",
    "huge power": "10 ** 10 ** 8",
    "catastrophic regex": "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')",
    "ignored signals": (
        "import signal\n"
        "for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        "while True: pass"
    ),
    "caught everything": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "sleeping thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()",
    "sleeping main": "import time\ntime.sleep(60)",
    "event nobody sets": "import asyncio\nawait asyncio.Event().wait()",
    "lock held twice": "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
    "generator without end": "import itertools\nlist(0 for _ in itertools.repeat(None) if False)",
    "thread that never ends": (
        "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin).start()"
    ),
    "reading its own pipe": "import os\nr, w = os.pipe()\nos.read(r, 1)",
}


@pytest.mark.behaviour("run.wall_limit")
@pytest.mark.parametrize("name", ENDLESS)
def test_code_without_end_stops_at_the_wall_limit(driver: Any, name: str) -> None:
    """Whatever it does instead of ending, it is reported as a timeout with what it had printed."""
    outcome = driver.run(f"print('before', end='')\n{ENDLESS[name]}", limits=Limits(wall_seconds=1))

    assert (outcome.status, outcome.output, outcome.result, outcome.failure) == ("timeout", "before", None, WALL)


def test_cpu_time_is_a_limit_of_its_own(driver: Any) -> None:
    """Code that computes too long is told apart from code that waits too long."""
    outcome = driver.run("print('before')\nwhile True: pass", limits=Limits(wall_seconds=20, cpu_seconds=1))

    assert (outcome.status, outcome.output) == ("limit", "before\n")
    assert outcome.failure == Failure(
        kind="cpu_time",
        type="CpuTimeExceeded",
        message="The code used more than 1 s of CPU time.",
        hint="Do less in one run: filter earlier, avoid nested loops over all the data.",
    )


@pytest.mark.behaviour("run.memory_limit")
@pytest.mark.parametrize(
    "code",
    [
        "block = bytearray(3 << 30)",
        "text = 'x' * (3 << 30)",
        "blocks = []\nwhile True:\n    blocks.append(bytearray(1 << 20))",
        "rows = []\nwhile True:\n    rows.append({'id': len(rows), 'name': 'x' * 100})",
    ],
    ids=["one block", "one text", "many blocks", "many rows"],
)
def test_memory_past_its_limit_ends_the_run(driver: Any, code: str) -> None:
    """One big allocation or many small ones: the failure names memory."""
    outcome = driver.run(f"print('before')\n{code}", limits=Limits(memory_mib=64, wall_seconds=20))

    assert (outcome.status, outcome.output) == ("limit", "before\n")
    assert (outcome.failure.kind, outcome.failure.type) == ("memory", "MemoryExceeded")


def test_code_that_ignores_failed_allocations_does_not_get_more(driver: Any) -> None:
    """A control group ends it for its memory; an address space that is full just stays full until the deadline."""
    code = "blocks = []\nwhile True:\n    try:\n        blocks.append(bytearray(1 << 20))\n    except MemoryError: pass"

    outcome = driver.run(code, limits=Limits(memory_mib=64, wall_seconds=3))

    ends = {"rlimits": "wall_time", "cgroup v1": "memory", "cgroup v2": "memory"}
    assert outcome.failure.kind == ends[driver.sandbox.resource_control]


def test_memory_within_its_limit_is_there_to_use(driver: Any) -> None:
    """A limit of 256 MiB leaves room for most of 256 MiB."""
    outcome = driver.run("block = bytearray(200 << 20)\nlen(block)", limits=Limits(memory_mib=256))

    assert (outcome.failure, outcome.result) == (None, 200 << 20)


def test_failed_allocation_can_be_caught(driver: Any) -> None:
    """A block that can never fit is refused with an exception, and the run goes on."""
    code = "try:\n    bytearray(1 << 40)\nexcept MemoryError:\n    result = 'went on'"

    assert driver.run(code).result == "went on"


@pytest.mark.behaviour("run.output_limit")
def test_output_past_its_limit_ends_the_run(driver: Any) -> None:
    """Exactly the allowed bytes are kept."""
    outcome = driver.run("while True:\n    print('x' * 99)", limits=Limits(output_bytes=5000))

    assert (outcome.status, outcome.output) == ("limit", ("x" * 99 + "\n") * 50)
    assert outcome.failure == Failure(
        kind="output",
        type="OutputExceeded",
        message="The code wrote more than 5,000 bytes of output.",
        hint="Print less: put data into `result` or a file of the workspace.",
    )


def test_thread_bomb_meets_the_limit_of_processes(driver: Any) -> None:
    """Threads past the limit cannot be started; the failure says so."""
    outcome = driver.run(
        """
        import threading
        started = 0
        while True:
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            started += 1
            print(started, end=" ")
        """,
        limits=Limits(threads=8),
    )

    assert outcome.status == "limit"
    assert outcome.failure == Failure(
        kind="processes",
        type="ProcessesExceeded",
        message="The code started more threads or processes than its limit allows. "
        "(RuntimeError: can't start new thread)",
        line=4,
        source_line="threading.Thread(target=threading.Event().wait, daemon=True).start()",
        traceback="line 4, in <module>\n    threading.Thread(target=threading.Event().wait, daemon=True).start()",
        hint="Use fewer threads; code here cannot start processes unless its policy allows them.",
    )
    started = len(outcome.output.split())
    # Without a user per worker the kernel counts the threads of all of them together.
    most = 8 if driver.sandbox.pool.has_own_users else 9 * driver.sandbox.pool.options.running
    assert started == 8 or 8 < started <= most


def test_fork_is_refused_where_processes_is_one(driver: Any) -> None:
    """Production code cannot fork, and is told why."""
    outcome = driver.run("import os\nos.fork()")

    assert (outcome.status, outcome.failure.kind, outcome.failure.message) == (
        "limit",
        "processes",
        "The code started more threads or processes than its limit allows. "
        "(BlockingIOError: [Errno 11] Resource temporarily unavailable)",
    )


def test_open_files_past_their_limit_end_the_run(driver: Any) -> None:
    """The failure names the limit, and standard streams and connection count."""
    outcome = driver.run(
        "files = []\nwhile True:\n    files.append(open('/dev/null'))\n    print(len(files), end=' ')",
        limits=Limits(open_files=16),
    )

    assert outcome.status == "limit"
    assert outcome.failure == Failure(
        kind="open_files",
        type="OpenFilesExceeded",
        message="The code opened more files than its limit allows. "
        "(OSError: [Errno 24] Too many open files: '/dev/null')",
        line=3,
        source_line="files.append(open('/dev/null'))",
        traceback="line 3, in <module>\n    files.append(open('/dev/null'))",
        hint="Close files when done: use `with open(...)`.",
    )
    assert outcome.output == "".join(f"{n} " for n in range(1, 13))


@pytest.fixture(scope="module")
def small(drive: Any) -> Any:
    """A sandbox whose workspace and temporary directory are as small as they can be."""
    policy = msgspec.structs.replace(
        DEFAULT, packages=(), workspace_mib=1, workspace_files=16, temp_mib=1, temp_files=16, memory_mib=128
    )
    return drive(open_sandbox(policy))


FULL = {
    "bytes of one file": "with open('big', 'wb') as file:\n    while True:\n        file.write(bytes(65536))",
    "bytes of many files": "for n in range(14):\n    with open(f'f{n}', 'wb') as f:\n        f.write(bytes(100_000))",
    "number of files": "for n in range(100):\n    open(f'f{n}', 'w').close()",
    "number of folders": "import os\nfor n in range(100):\n    os.mkdir(f'd{n}')",
    "bytes of a temporary file": "import tempfile\nwith tempfile.TemporaryFile() as file:\n    while True:\n"
    "        file.write(bytes(65536))",
    "number of temporary files": "import tempfile\nkept = [tempfile.NamedTemporaryFile() for _ in range(100)]",
    "bytes past an unlinked file": "import os\nfile = open('gone', 'wb')\nos.unlink('gone')\nwhile True:\n"
    "    file.write(bytes(65536))\n    file.flush()",
}


@pytest.mark.parametrize("name", FULL)
def test_full_workspace_ends_the_run(small: Any, name: str) -> None:
    """Bytes and files are limited, in the workspace and in the temporary directory, and the failure says so."""
    outcome = small.run(f"print('before')\n{FULL[name]}")

    assert (outcome.status, outcome.output) == ("limit", "before\n")
    assert (outcome.failure.kind, outcome.failure.type, outcome.failure.hint) == (
        "workspace",
        "WorkspaceExceeded",
        "Delete files that are no longer needed, or write less.",
    )


def test_full_workspace_of_a_session_stays_full_until_files_are_deleted(small: Any) -> None:
    """The limit is the session's, not the run's."""
    fill = "with open(name, 'wb') as file:\n    file.write(bytes(700_000))\n'fits'"

    first = small.run(fill, context={"name": "a"}, session="fills")
    second = small.run(fill, context={"name": "b"}, session="fills")
    third = small.run("import os\nos.unlink('a')\nos.unlink('b')", session="fills")
    fourth = small.run(fill, context={"name": "b"}, session="fills")

    assert [outcome.status for outcome in (first, second, third, fourth)] == ["ok", "limit", "ok", "ok"]


def test_sessions_do_not_share_their_limit(small: Any) -> None:
    """One full workspace takes nothing from another."""
    fill = "with open('a', 'wb') as file:\n    file.write(bytes(700_000))\n'fits'"

    assert [small.run(fill, session=name).result for name in ("one", "two", "three")] == ["fits"] * 3


def test_cores_of_one_run_are_its_own(driver: Any) -> None:
    """`cores` is how many processors the code may use, by the policy or by the run's own limits, more or fewer."""
    count = "import os\nlen(os.sched_getaffinity(0))"
    available = len(os.sched_getaffinity(0))
    limits = [None, Limits(cores=1), Limits(cores=256), None]

    assert [driver.run(count, limits=each).result for each in limits] == [
        min(DEFAULT.cores, available),
        1,
        available,
        min(DEFAULT.cores, available),
    ]


DEVELOPMENT = msgspec.structs.replace(LEVELS[IsolationLevel.DEVELOPMENT], packages=())
FORK = "import os\npid = os.fork()\nif pid == 0:\n    os._exit(7)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"


async def test_processes_are_allowed_up_to_their_limit_where_the_policy_says_so() -> None:
    """Development code can fork where all its processes are counted, and a fork bomb ends as one; else it cannot."""
    bomb = "import os, signal\nwhile True:\n    if os.fork() == 0:\n        signal.pause()"

    async with open_sandbox(DEVELOPMENT) as sandbox:
        forked = await sandbox.run(FORK)
        bombed = await sandbox.run(bomb)

    assert bombed.failure is not None
    if sandbox.pool.can_fork:
        assert (forked.failure, forked.result) == (None, 7)
        assert (bombed.status, bombed.failure.kind) == ("limit", "processes")
    else:
        assert forked.failure is not None
        assert [each.failure.type for each in (forked, bombed) if each.failure] == ["ProcessesExceeded"] * 2


async def test_run_limited_to_one_process_cannot_fork() -> None:
    """`processes=1` for one run means what it means in a policy."""
    async with open_sandbox(DEVELOPMENT) as sandbox:
        outcome = await sandbox.run(FORK, limits=Limits(processes=1))

    assert outcome.failure is not None
    assert (outcome.status, outcome.failure.kind) == ("limit", "processes")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(wall_seconds=0.5), "wall_seconds is 0.5. Give a number from 1 to 120."),
        (Limits(wall_seconds=121), "wall_seconds is 121. Give a number from 1 to 120."),
        (Limits(wall_seconds=float("nan")), "wall_seconds is nan. Give a number from 1 to 120."),
        (Limits(wall_seconds=float("inf")), "wall_seconds is inf. Give a number from 1 to 120."),
        (Limits(cpu_seconds=0), "cpu_seconds is 0. Give a number from 1 to 120."),
        (Limits(memory_mib=31), "memory_mib is 31. Give a whole number from 32 to 65,536."),
        (Limits(memory_mib=1.5), "memory_mib is 1.5. Give a whole number from 32 to 65,536."),  # type: ignore[arg-type]
        (Limits(memory_mib=True), "memory_mib is True. Give a whole number from 32 to 65,536."),
        (Limits(cores=0), "cores is 0. Give a whole number from 1 to 256."),
        (Limits(processes=0), "processes is 0. Give a whole number from 1 to 1,024."),
        (Limits(threads=1025), "threads is 1025. Give a whole number from 1 to 1,024."),
        (Limits(open_files=15), "open_files is 15. Give a whole number from 16 to 65,536."),
        (Limits(output_bytes=0), "output_bytes is 0. Give a whole number from 1,024 to 1,073,741,824."),
        (Limits(result_bytes=1023), "result_bytes is 1023. Give a whole number from 1,024 to 1,073,741,824."),
        (Limits(inline_bytes=255), "inline_bytes is 255. Give a whole number from 256 to 1,073,741,824."),
        (Limits(call_bytes=-1), "call_bytes is -1. Give a whole number from 1,024 to 1,073,741,824."),
        (Limits(tool_calls=-1), "tool_calls is -1. Give a whole number from 0 to 10,000,000."),
        (Limits(concurrent_calls=0), "concurrent_calls is 0. Give a whole number from 1 to 4,096."),
    ],
)
def test_limit_out_of_its_range_is_refused(driver: Any, limits: Limits, message: str) -> None:
    """Before anything runs, with the range in the message."""
    with pytest.raises(InvalidRequest) as caught:
        driver.run("1", limits=limits)

    assert str(caught.value) == message


def test_limits_of_one_run_do_not_stay_for_the_next(driver: Any) -> None:
    """Each worker gets its own."""
    code = "'x' * 2000"

    outcomes: list[Outcome] = [
        driver.run(code, limits=limits) for limits in (Limits(result_bytes=1024), None, Limits(result_bytes=1024))
    ]

    assert [outcome.status for outcome in outcomes] == ["failed", "ok", "failed"]
