"""Attacks in which the host takes part: two workers at once, reading a workspace back, a gateway under load.

Each is a coroutine that gets the stage and returns a verdict.
"""

import asyncio
import contextlib
import os
import resource
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from attack.model import Expectation, outcomes
from sealyard.errors import InvalidRequest
from sealyard.values.runs import Limits

if TYPE_CHECKING:
    from attack.stage import Stage


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One attack of this kind."""

    area: str
    name: str
    expect: Expectation
    play: Callable[["Stage"], Awaitable[str]]
    is_control: bool = False

    @property
    def id(self) -> str:
        """As it appears in the name of the test."""
        return f"{self.area}: {self.name}"


SCENES: list[Scene] = []


def _scene(area: str, name: str, expect: Expectation, *, is_control: bool = False) -> Callable[..., Any]:
    def add(play: Callable[["Stage"], Awaitable[str]]) -> Callable[["Stage"], Awaitable[str]]:
        SCENES.append(Scene(area=area, name=name, expect=expect, play=play, is_control=is_control))
        return play

    return add


# --- Two workers at once

OWNER = """
fill("mine", "private")
fill(os.path.join(os.environ["TMPDIR"], "mine"), "private")
module("fcntl").fcntl(0, 4, os.O_NONBLOCK)
module("fcntl").flock(os.open(os.__file__, 0), 5)
call_tool("ready", {"pid": os.getpid(), "workspace": os.getcwd(), "temp": os.environ["TMPDIR"], "user": os.getuid()})
result = read("mine")
"""


async def _beside(stage: "Stage", thief: str, *, owner_session: str | None = None) -> str:
    """What `thief` comes to while another worker, which wrote files, is held in a call; then that one must finish."""
    ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    gone = asyncio.Event()

    async def on_call(tool: str, args: dict[str, Any]) -> None:
        ready.set_result(args)
        await gone.wait()

    owner = asyncio.create_task(stage.run(OWNER, on_call=on_call, session=owner_session))
    try:
        async with asyncio.timeout(60):
            other = await ready
        verdict = await stage.run(thief, context={"other": other})
    finally:
        gone.set()
    ended = await owner
    return verdict if ended == "private" else f"the other run came to {ended}"


def _against_the_other(name: str, code: str, expect: Expectation, *, session: str | None = None) -> None:
    async def play(stage: "Stage") -> str:
        return await _beside(stage, code, owner_session=session)

    _scene("neighbours", name, expect)(play)


# In the namespace tier both have the same paths, each with files of its own behind them.
_against_the_other(
    "read another worker's workspace",
    "result = attempt(lambda: read(other['workspace'] + '/mine'))",
    outcomes("ENOENT", landlock="EACCES"),
)
_against_the_other(
    "read another worker's temporary files",
    "result = attempt(lambda: read(other['temp'] + '/mine'))",
    outcomes("ENOENT", landlock="EACCES"),
)
_against_the_other(
    "read another session's workspace",
    "result = attempt(lambda: read(other['workspace'] + '/mine'))",
    outcomes("ENOENT", landlock="EACCES"),
    session="owned",
)
_against_the_other(
    "list another worker's workspace",
    "result = attempt(lambda: os.listdir(other['workspace']))",
    outcomes("got []", landlock="EACCES"),
)
_against_the_other(
    "overwrite another worker's file",
    "result = attempt(lambda: os.truncate(other['workspace'] + '/mine', 0))",
    outcomes("ENOENT", landlock="EACCES"),
)
_against_the_other(
    "close another worker's workspace",
    """
result = attempt(lambda: os.chmod(other["workspace"], 0o000) if other["workspace"] != os.getcwd() else "the same path")
""",
    outcomes("got 'the same path'", landlock="got None"),
)
_against_the_other(
    "list all workspaces",
    """
place = os.path.dirname(os.path.dirname(other["workspace"]))
result = attempt(lambda: [name for name in os.listdir(place) if name.startswith(("run-", "session-"))])
""",
    outcomes("got []", landlock="EACCES"),
)
_against_the_other(
    "list all sessions",
    "result = attempt(lambda: os.listdir('/sessions'))",
    outcomes("got []", landlock="ENOENT"),
)
_against_the_other(
    "signal another worker",
    """
result = attempt(lambda: os.kill(other["pid"], 9) if other["pid"] != os.getpid() else "the same number")
""",
    outcomes("got 'the same number'", landlock="EPERM"),
)
_against_the_other(
    "trace another worker", "result = attempt(lambda: call('ptrace', 0x4206, other['pid'], 0, 0))", outcomes("EPERM")
)
_against_the_other(
    "read another worker's memory",
    """
result = attempt(lambda: os.open(f"/proc/{other['pid']}/mem", os.O_RDONLY))
""",
    outcomes("ENOENT", landlock="EACCES"),
)
_against_the_other(
    "read through another worker's directory",
    """
result = attempt(lambda: read(f"/proc/{other['pid']}/cwd/mine"))
""",
    outcomes("ENOENT", landlock="EACCES"),
)
# Workers share an empty network namespace, where only the refusal of sockets keeps them apart.
for _name, _code in {
    "open a socket that could reach another worker": "call('socket', 1, 1, 0)",
    "put up a name for another worker": "call('bind', socket.socketpair()[0].detach(), b'\\1\\0\\0meet', 7)",
    "connect to the name of another worker": ("call('connect', socket.socketpair()[0].detach(), b'\\1\\0\\0meet', 7)"),
    "ask the kernel for the sockets of other workers": "call('socket', 16, 3, 4)",
    "change the network that other workers see": "call('socket', 16, 3, 0)",
    "take the network along into another namespace": "call('unshare', 0x40000000)",
}.items():
    _against_the_other(_name, f"result = attempt(lambda: {_code})", outcomes("EPERM"))
_against_the_other(
    "list the sockets of other workers",
    "result = attempt(lambda: read('/proc/net/unix'))",
    outcomes("ENOENT", landlock="EACCES"),
)
_against_the_other(
    "see a flag that another worker set",
    """
result = f"got {bool(module('fcntl').fcntl(0, 3) & os.O_NONBLOCK)}"
""",
    outcomes("got False"),
)


@_scene("neighbours", "each of two workers reads its own files", outcomes("got 'mine too'"), is_control=True)
async def _own_files(stage: "Stage") -> str:
    return await _beside(stage, "fill('mine', 'mine too')\nresult = attempt(lambda: read('mine'))")


_against_the_other(
    "be another worker's user",
    "result = 'the same' if os.getuid() == other['user'] else 'different'",
    # Without own users it is the namespaces and landlock that keep workers apart, as the other scenes show.
    lambda facts: frozenset(["different" if facts.own_users else "the same"]),
)
_against_the_other(
    "see a lock that another worker holds",
    "result = attempt(lambda: module('fcntl').flock(os.open(os.__file__, 0), 6))",
    outcomes("EAGAIN"),  # gap: workers that conspire can tell each other one bit by a file that all may read
)


@_scene("neighbours", "find what an earlier run left", outcomes("got [] []"))
async def _leavings(stage: "Stage") -> str:
    await stage.run("fill('left')\nfill(os.path.join(os.environ['TMPDIR'], 'left'))")
    return await stage.run("result = f\"got {os.listdir('.')} {os.listdir(os.environ['TMPDIR'])}\"")


@_scene("neighbours", "a session finds its own files again", outcomes("got 'kept'"), is_control=True)
async def _kept(stage: "Stage") -> str:
    await stage.run("fill('left', 'kept')", session="again")
    return await stage.run("result = attempt(lambda: read('left'))", session="again")


@_scene("neighbours", "rewrite the guest for the next run", outcomes("untouched"))
async def _rewrite(stage: "Stage") -> str:
    await stage.run("""
runner = sys._getframe(1).f_globals
runner["_success"] = lambda *_: '{"t":"done","ok":true,"result":"rewritten","cpu_seconds":0,"memory_peak_bytes":0}'
os.getcwd = lambda: "rewritten"
module("builtins").len = None
""")
    return await stage.run("result = 'untouched' if len(os.getcwd()) > 9 else 'rewritten'")


async def _meanwhile(stage: "Stage", greedy: str, look: Callable[[], Awaitable[str]]) -> str:
    """What `look` comes to while `greedy` holds all that it could get, or was ended for that."""
    holding, done = asyncio.Event(), asyncio.Event()

    async def on_call(tool: str, args: dict[str, Any]) -> None:
        holding.set()
        await done.wait()

    running = asyncio.create_task(stage.run(f"{greedy}\ncall_tool('holding')", on_call=on_call))
    waiting = asyncio.create_task(holding.wait())
    try:
        async with asyncio.timeout(60):
            await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
            return await look()
    finally:
        done.set()
        waiting.cancel()
        await running


@_scene("neighbours", "leave a neighbour no threads", outcomes("got 8"))
async def _no_threads(stage: "Stage") -> str:
    greedy = """
threading.stack_size(64 << 10)
try:
    for _ in range(1_100):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
except RuntimeError:
    pass
"""
    modest = """
done = threading.Event()
threads = [threading.Thread(target=done.wait) for _ in range(8)]
for thread in threads:
    thread.start()
done.set()
result = f"got {len(threads)}"
"""
    return await _meanwhile(stage, greedy, lambda: stage.run(modest))


@_scene("neighbours", "use up the signals that the gateway's user may have waiting", outcomes("few"))
async def _signals_waiting(stage: "Stage") -> str:
    greedy = """
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
for _ in range(2_000):
    os.kill(os.getpid(), 40)
"""

    async def look() -> str:
        words = Path("/proc/self/status").read_text(encoding="utf-8").split()
        waiting = words[words.index("SigQ:") + 1]
        return "few" if int(waiting.partition("/")[0]) < 1_000 else waiting

    return await _meanwhile(stage, greedy, look)


# --- Reading a workspace back


def _read_back(name: str, code: str, expect: Expectation, path: str = "trap", *, is_control: bool = False) -> None:
    async def play(stage: "Stage") -> str:
        session = f"trap-{len(stage.sandbox.sessions())}"
        await stage.run(code, session=session)
        workspace = stage.sandbox.workspace(session)
        try:
            content = workspace.read_bytes(path, max_bytes=1_000)
        except InvalidRequest:
            return "refused"
        finally:
            workspace.files()
            await stage.sandbox.remove_session(session)
        return f"read {content.decode()}"

    _scene("read back", name, expect, is_control=is_control)(play)


_read_back("a file is read back", "fill('trap', 'good')", outcomes("read good"), is_control=True)
_read_back(
    "a file in a directory is read back",
    "os.mkdir('a')\nfill('a/trap', 'good')",
    outcomes("read good"),
    "a/trap",
    is_control=True,
)
for _name, _code, _path in (
    ("lead the gateway to a file of the host", "os.symlink('/etc/shadow', 'trap')", "trap"),
    ("lead the gateway to the host by a relative link", "os.symlink('../' * 20 + 'etc/passwd', 'trap')", "trap"),
    ("lead the gateway through a linked directory", "os.symlink('/etc', 'trap')", "trap/passwd"),
    ("lead the gateway through a linked root", "os.symlink('/', 'trap')", "trap/etc/passwd"),
    (
        "swap a directory by a link",
        "os.mkdir('trap')\nos.rename('trap', 'was')\nos.symlink('/etc', 'trap')",
        "trap/passwd",
    ),
    ("lead the gateway through its own descriptors", "os.symlink('/proc/self/root', 'trap')", "trap/etc/passwd"),
    ("give the gateway a directory", "os.mkdir('trap')", "trap"),
    ("give the gateway a file that is too long", "fill('trap', 'x' * 1_001)", "trap"),
    ("climb out by the path", "os.mkdir('trap')", "trap/../../etc/passwd"),
    ("name a path from the root", "pass", "/etc/passwd"),
):
    _read_back(_name, _code, outcomes("refused"), _path)


@contextlib.contextmanager
def _few_descriptors() -> Iterator[None]:
    """Only a handful more can be opened meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _listing(name: str, code: str, expect: Expectation) -> None:
    async def play(stage: "Stage") -> str:
        session = f"list-{len(stage.sandbox.sessions())}"
        await stage.run(code, session=session)
        try:
            with _few_descriptors():
                files = stage.sandbox.workspace(session).files()
            msgspec.json.encode(files)
        finally:
            await stage.sandbox.remove_session(session)
        kinds = [each.kind for each in files]
        return ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))

    _scene("read back", name, expect)(play)


_listing("have the gateway list the host", "os.symlink('/', 'root')\nos.symlink('.', 'loop')", outcomes("2 link"))
_listing(
    "nest directories beyond every limit",
    "for _ in range(60):\n    os.mkdir('d' * 100)\n    os.chdir('d' * 100)",
    outcomes("17 folder"),
)
_listing(
    "use up the gateway's descriptors",
    """
for number in range(60):
    os.mkdir(str(number))
    fill(f"{number}/file")
""",
    outcomes("60 file, 60 folder"),
)
_listing("name a file in no encoding", "fill(b'\\xff\\xfe')", outcomes("1 file"))
_listing("close a directory", "os.mkdir('closed', 0)", outcomes("1 folder"))
_listing(
    "take the names that removal uses",
    """
for number in range(20):
    os.makedirs(f"{number}/deeper")
    os.makedirs(f".removed-{number}/full/deeper")
    fill(f".removed-{number}/file")
""",
    outcomes("20 file, 100 folder"),
)


@_scene("read back", "write through a link that was left", outcomes("refused"))
async def _write_through(stage: "Stage") -> str:
    await stage.run("os.symlink(f'{host}/writable', 'trap')", session="link")
    try:
        stage.sandbox.workspace("link").write_bytes("trap", b"overwritten")
    except InvalidRequest:
        return "refused"
    return "written"


@_scene("read back", "write through a directory that was swapped", outcomes("refused"))
async def _write_through_directory(stage: "Stage") -> str:
    await stage.run("os.symlink(host, 'trap')", session="swap")
    try:
        stage.sandbox.workspace("swap").write_bytes("trap/writable", b"overwritten")
    except InvalidRequest:
        return "refused"
    return "written"


@_scene("read back", "swap a directory while the gateway reads and writes", outcomes("only its own"))
async def _swap(stage: "Stage") -> str:
    ready = asyncio.Event()

    async def on_call(tool: str, args: dict[str, Any]) -> None:
        ready.set()

    swapping = asyncio.create_task(
        stage.run(
            """
os.mkdir("inside")
fill("inside/readable", "its own")
os.symlink(host, "outside")
os.symlink("inside", "trap")
call_tool("ready")
while not os.path.exists("stop"):
    for name in ("inside", "outside"):
        os.rename("trap", "aside")
        os.rename(name, "trap")
        os.rename("trap", name)
        os.rename("aside", "trap")
""",
            session="swapped",
            on_call=on_call,
        )
    )
    await ready.wait()
    workspace = stage.sandbox.workspace("swapped")
    seen = set()
    for _ in range(3_000):
        for path in ("trap/readable", "inside/readable", "outside/readable"):
            with contextlib.suppress(InvalidRequest):
                seen.add(workspace.read_bytes(path).decode())
        with contextlib.suppress(InvalidRequest):
            workspace.write_bytes("trap/writable", b"overwritten")
        await asyncio.sleep(0)
    workspace.write_bytes("stop", b"")
    await swapping
    return "only its own" if seen == {"its own"} else str(seen)


@_scene("read back", "name a session like a path", outcomes("refused"))
async def _session_name(stage: "Stage") -> str:
    for name in ("../other", "/etc", "", "a/b", ".", "..", "a\0b", "x" * 101):
        try:
            await stage.run("result = 1", session=name)
        except InvalidRequest:
            continue
        return f"{name!r} was taken"
    return "refused"


# --- The gateway under load


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _growth(stage: "Stage", code: str, **options: Any) -> str:
    """Runs `code` and says by how much the gateway grew meanwhile, at its worst."""
    before = peak = _resident_bytes()
    running = asyncio.create_task(stage.run(code, limits=Limits(wall_seconds=5.0), **options))
    while not running.done():
        await asyncio.wait([running], timeout=0.01)
        peak = max(peak, _resident_bytes())
    await running
    return "small" if peak - before < 192 << 20 else f"{(peak - before) >> 20} MiB"


@_scene("gateway", "never read the answers", outcomes("small"))
async def _unread(stage: "Stage") -> str:
    async def big(tool: str, args: dict[str, Any]) -> str:
        return "x" * (1 << 20)

    return await _growth(
        stage,
        """
for number in range(400):
    send(b'{"t":"call","id":%d,"tool":"big","args":{}}' % number)
time.sleep(60)
""",
        on_call=big,
    )


@_scene("gateway", "never read the refusals", outcomes("small"))
async def _unread_refusals(stage: "Stage") -> str:
    return await _growth(
        stage,
        """
name = b"n" * (1 << 20)
for number in range(400):
    send(b'{"t":"call","id":%d,"tool":"%s","args":{}}' % (number, name))
time.sleep(60)
""",
    )


@_scene("gateway", "call more tools at once than allowed", outcomes("8"))
async def _at_once(stage: "Stage") -> str:
    live = most = 0
    full = asyncio.Event()

    async def on_call(tool: str, args: dict[str, Any]) -> None:
        nonlocal live, most
        live += 1
        most = max(most, live)
        if live >= 8:
            full.set()
        await full.wait()
        await asyncio.sleep(0)
        live -= 1

    await stage.run(
        """
send(*[b'{"t":"call","id":%d,"tool":"a","args":{}}' % number for number in range(1_000)])
for number in range(1_000):
    receive()
result = "answered"
""",
        on_call=on_call,
        limits=Limits(wall_seconds=10.0, concurrent_calls=8),
    )
    return str(most)


@_scene("gateway", "leave descriptors with the gateway", outcomes("none"))
async def _descriptors(stage: "Stage") -> str:
    async def echo(tool: str, args: dict[str, Any]) -> None:
        return None

    async def count() -> int:
        await stage.sandbox.settle()
        return len(os.listdir("/proc/self/fd"))

    before = await count()
    for _ in range(5):
        await stage.run(
            """
for number in range(20):
    socket.send_fds(line, [frame(b'{"t":"call","id":%d,"tool":"a","args":{}}' % number)], [0, 1, 3] * 10)
    receive()
""",
            on_call=echo,
        )
    after = await count()
    return "none" if after <= before else f"{after - before}"


@_scene("gateway", "outlive the run", outcomes("gone"))
async def _outlive(stage: "Stage") -> str:
    name = f"late{os.getpid() % 10_000_000}"
    await stage.run(f"""
call("prctl", 15, {name.encode()!r}, 0, 0, 0)
def live():
    try:
        for _ in range(3):
            if os.fork():
                os._exit(0)
    except OSError:
        pass
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    time.sleep(600)
try:
    child = os.fork()
except OSError:
    child = None
if child == 0:
    live()
    os._exit(0)
result = "left behind"
""")
    await stage.sandbox.settle()
    return "gone" if not _processes_called(name) else "still there"


def _processes_called(name: str) -> list[int]:
    found = []
    for each in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{each}/comm", encoding="utf-8", errors="replace") as comm:
                if comm.read().strip() == name:
                    found.append(int(each))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@_scene("gateway", "the sandbox still works after all this", outcomes("42"), is_control=True)
async def _still_works(stage: "Stage") -> str:
    return await stage.run("result = 6 * 7")
