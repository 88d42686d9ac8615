"""What every test may use: coroutine tests, a sandbox on a thread of its own, and a count of what we hold."""

import asyncio
import compileall
import inspect
import os
import signal
import sys
import tempfile
import textwrap
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import settings

from sealyard import sandbox as walls
from sealyard.sandbox import PoolOptions, Sandbox, open_sandbox
from sealyard.sandbox.cgroup import _candidates, owner_mark
from sealyard.sandbox.policy import DEFAULT
from sealyard.values.runs import Outcome

_T = TypeVar("_T")

LONGEST = ("load/test_load.py", "behaviour/test_soak.py", "security/test_attacks.py", "dashboard/test_dashboard.py")
"""Files whose tests take ten seconds and more."""
MEMORY = Path("/dev/shm")
"""A file system in memory. Most tests make a store, and a disk would sync each of its commits."""
MEMORY_BYTES = 4 << 30
"""Free there, or the disk is used: the files of all tests of a run are 1 GiB."""


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers, how hypothesis runs, and where temporary folders are."""
    if _is_roomy(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    config.addinivalue_line("markers", "soak: thousands of runs in a row; deselect with -m 'not soak'")
    config.addinivalue_line("markers", "behaviour(id): the test shows that behaviour of tests/behaviours.toml")
    settings.register_profile("sealyard", deadline=None)  # a busy machine is not a failure
    settings.load_profile("sealyard")
    if not sys.dont_write_bytecode:  # a zygote writes none, and hundreds are started
        compileall.compile_dir(Path(walls.__file__).parent / "guest", quiet=1)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job; what tests start would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest tests first, so that no process of a run is still at one when the others have nothing left."""
    last = len(LONGEST)
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, last))


def _is_roomy(folder: Path) -> bool:
    """Says whether the files of a test run fit in, and programs among them can be started."""
    if not folder.is_dir():
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= MEMORY_BYTES and not found.f_flag & os.ST_NOEXEC


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine on an event loop of its own, or on that of what its file keeps open."""
    if not inspect.iscoroutinefunction(pyfuncitem.function):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.function).parameters}
    kept = pyfuncitem.funcargs.get("kept")
    run = kept.runner.run if isinstance(kept, Kept) else asyncio.run
    run(_strictly(pyfuncitem.function(**arguments)))
    return True


async def _strictly(work: Coroutine[Any, Any, Any]) -> Any:
    """Await `work`; an error in the background of its loop, which nobody awaits, fails it too."""
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    value = await work
    assert errors == []
    return value


async def polled(look: Callable[[], Awaitable[_T]], is_right: Callable[[_T], object]) -> _T:
    """What `look` finds once it is right. It looks every 20 ms: a loop without a pause slows down what it waits for."""
    while not is_right(found := await look()):  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.02)  # the test's own time limit bounds this
    return found


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a background run of a gateway in this process waits half a second for its end, instead of five."""
    from sealyard.yard.executions import Executions

    monkeypatch.setitem(Executions.look.__kwdefaults__, "seconds", 0.5)


class Kept:
    """What several tests of a file use one after the other: opened by the first, closed after the last."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self._values: dict[object, Any] = {}
        self._holding: list[asyncio.Task[None]] = []
        self._closing = asyncio.Event()

    async def __call__(self, opened: Callable[..., AbstractAsyncContextManager[Any]], *given: Any) -> Any:
        """What `opened(*given)` opens, or has opened before."""
        if (opened, given) not in self._values:
            ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._holding.append(asyncio.create_task(self._hold(opened(*given), ready)))
            self._values[opened, given] = await ready
        return self._values[opened, given]

    async def _hold(self, opened: AbstractAsyncContextManager[Any], ready: "asyncio.Future[Any]") -> None:
        """Open and close in one task, as some need it."""
        try:
            async with opened as value:
                ready.set_result(value)
                await self._closing.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def close(self) -> None:
        """Close all of it."""
        self._closing.set()
        await asyncio.gather(*self._holding)


class Driver:
    """A sandbox on an event loop in a thread, so that tests which only run code need no loop and share one pool."""

    def __init__(self, opened: AbstractAsyncContextManager[Sandbox]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._opened = opened
        try:
            self.sandbox: Sandbox = self.wait(self._opened.__aenter__())
        except BaseException:
            self._stop()
            raise

    def run(self, code: str, **options: Any) -> Outcome:
        """The outcome of `code`, which may be indented as it stands in the test."""
        outcome: Outcome = self.wait(self.sandbox.run(textwrap.dedent(code).strip("\n"), **options))
        return outcome

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The value of a coroutine that runs beside the sandbox."""
        return asyncio.run_coroutine_threadsafe(_strictly(work), self._loop).result(240)

    def close(self) -> None:
        """End the sandbox and its thread."""
        try:
            self.wait(self._opened.__aexit__(None, None, None))
        finally:
            self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def kept() -> Iterator[Kept]:
    """What the tests of a file share."""
    kept = Kept()
    with kept.runner:
        yield kept
        kept.runner.run(_strictly(kept.close()))


@pytest.fixture(scope="session")
def drivers() -> Iterator[list[Driver]]:
    """Every driver of this process; they are closed when its tests are over."""
    drivers: list[Driver] = []
    yield drivers
    with ExitStack() as stack:
        for driver in drivers:
            stack.callback(driver.close)


@pytest.fixture(scope="session")
def drive(drivers: list[Driver]) -> Callable[[AbstractAsyncContextManager[Sandbox]], Driver]:
    """Opens a sandbox on a thread of its own that lasts as long as the tests of this process."""

    def start(opened: AbstractAsyncContextManager[Sandbox]) -> Driver:
        drivers.append(Driver(opened))
        return drivers[-1]

    return start


@pytest.fixture(scope="session")
def driver(drive: Callable[[AbstractAsyncContextManager[Sandbox]], Driver]) -> Driver:
    """Production without data packages, shared by all tests of this process."""
    return drive(open_sandbox(msgspec.structs.replace(DEFAULT, packages=()), pool=PoolOptions(size=1)))


@pytest.fixture
def settled(drivers: list[Driver]) -> None:
    """No worker of a sandbox that tests share begins or ends meanwhile, so that processes can be counted."""
    for driver in drivers:
        driver.wait(driver.sandbox.settle())


@pytest.fixture
def held(settled: None) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Counts what this process holds of the machine, once the given sandboxes have settled."""

    async def count(*sandboxes: Sandbox) -> dict[str, Any]:
        for sandbox in sandboxes:
            await sandbox.settle()
            if sandbox.pool._group is not None:
                sandbox.pool._group.remove_idle()  # which are as many as were in use at once
        return {
            "descriptors": _open_descriptors(),
            "processes": len(_descendants(os.getpid())),
            "directories": _folders_of_ours(Path(tempfile.gettempdir())),
            "control groups": sum(_folders_of_ours(parent) for _, parent in _candidates()),
        }

    return count


def _folders_of_ours(parent: Path) -> int:
    """How many folders are in those of this process, by a walk that goes on when one disappears meanwhile."""
    return sum(1 for own in parent.glob(f"sealyard-{owner_mark()}-*") for _ in os.walk(own))


def _open_descriptors() -> dict[str, int]:
    """How many there are of each kind; those of control groups, which each worker has of its own, are one."""
    kinds: Counter[str] = Counter()
    for fd in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{fd}").partition("[")[0]
        except FileNotFoundError:
            continue  # the one that lists the folder
        kinds[Path(name).name if name.startswith("/sys/fs/cgroup/") else name] += 1
    return dict(kinds)


def _descendants(pid: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(folder.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def is_sandboxed(pid: int) -> bool:
    """True for a process in a process namespace other than ours, such as that of a sandbox."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid")
    except OSError:  # it has ended
        return False
