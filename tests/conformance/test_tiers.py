"""What every tier promises, in one suite: the same code, the same outcomes, whichever walls stand around it."""

import asyncio
import os
import runpy
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard import former
from sealyard.errors import InvalidRequest, LevelUnavailable, SandboxBroken
from sealyard.sandbox import IsolationLevel, PoolOptions, Sandbox, open_sandbox, probe
from sealyard.sandbox.importable import add_own, find_packages
from sealyard.sandbox.policy import DEFAULT, LEVELS
from sealyard.sandbox.report import shortfall
from sealyard.sandbox.spawn import Setup, is_privileged
from sealyard.values.runs import Limits, Tier

SMALL = msgspec.structs.replace(
    DEFAULT, packages=(), workspace_mib=4, workspace_files=200, temp_mib=4, temp_files=100, memory_mib=128
)
PROBES: dict[str, tuple[str, object]] = runpy.run_path(str(Path(__file__).parents[1] / "everyday.py"))["PROBES"]
TIERS: dict[str, tuple[Tier, bool]] = {
    "namespace": ("namespace", True),
    "namespace as an ordinary user": ("namespace", False),
    "landlock": ("landlock", False),
}
if not is_privileged():
    del TIERS["namespace"]  # the way in which root builds it
Held = Callable[..., Awaitable[dict[str, Any]]]


@asynccontextmanager
async def open_tier(name: str, *, size: int = 1, own: dict[str, Path] | None = None) -> AsyncIterator[Sandbox]:
    """A sandbox of exactly this tier, built in exactly this way."""
    tier, privileged = TIERS[name]
    packages = add_own(find_packages(()), own or {})
    sandbox = Sandbox(
        Setup(policy=SMALL, tier=tier, privileged=privileged, packages=packages), options=PoolOptions(size=size)
    )
    try:
        await sandbox.start()
        await sandbox.fill()
        yield sandbox
    finally:
        await sandbox.close()


@pytest.fixture(scope="module", params=TIERS)
def tier(request: pytest.FixtureRequest, drive: Any) -> Any:
    """A driver of each tier in turn."""
    return drive(open_tier(request.param))


async def echo(tool: str, args: dict[str, Any]) -> Any:
    """Answers with what it was asked."""
    return [tool, args]


OUTCOMES: dict[str, tuple[str, object]] = {
    "result": ("result = {'a': [1, None]}", {"a": [1, None]}),
    "last expression": ("1 + 1", 2),
    "top-level await": ("import asyncio\nawait asyncio.sleep(0, 'slept')", "slept"),
    "threads": (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n"
        "    squares = list(pool.map(lambda n: n * n, range(5)))\nsquares",
        [0, 1, 4, 9, 16],
    ),
    "workspace is the current directory": (
        "import os\nopen('f', 'w').write('x')\n[os.listdir('.'), os.path.samefile('.', os.environ['TMPDIR'])]",
        [["f"], False],
    ),
    "temporary files": (
        "import os, tempfile\nwith tempfile.TemporaryDirectory() as folder:\n    there = os.path.isdir(folder)\n"
        "[there, os.path.exists(folder)]",
        [True, False],
    ),
    "sqlite in the workspace": (
        "import sqlite3\ndb = sqlite3.connect('rows.db')\ndb.execute('create table t (n)')\n"
        "db.executemany('insert into t values (?)', [(1,), (2,)])\ndb.commit()\n"
        "db.execute('select sum(n) from t').fetchone()[0]",
        3,
    ),
    "time zones": (
        "from datetime import datetime\nfrom zoneinfo import ZoneInfo\n"
        "str(datetime(2024, 7, 1, tzinfo=ZoneInfo('Europe/Paris')).utcoffset())",
        "2:00:00",
    ),
    "lazy imports": ("import wave, colorsys, tomllib\ntomllib.loads('a = 1')", {"a": 1}),
    "one call": ("call_tool('a', {'n': 1})", ["a", {"n": 1}]),
    "gathered calls": (
        "import asyncio\nawait asyncio.gather(*[call_tool('t', {'n': n}) for n in range(3)])",
        [["t", {"n": 0}], ["t", {"n": 1}], ["t", {"n": 2}]],
    ),
    "rename, link and delete": (
        "import os\nopen('a', 'w').close()\nos.rename('a', 'b')\nos.symlink('b', 'c')\nos.makedirs('d/e')\n"
        "os.replace('b', 'd/e/b')\nos.unlink('c')\nos.listdir('d/e')",
        ["b"],
    ),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_code_gives_the_same_result_on_every_tier(tier: Any, name: str) -> None:
    """What works on one works on all."""
    code, result = OUTCOMES[name]

    outcome = tier.run(code, on_call=echo)

    assert (outcome.failure, outcome.result, outcome.status) == (None, result, "ok")


def test_everyday_python_works_on_every_tier(tier: Any) -> None:
    """All probes, one after the other in one sandbox."""
    outcomes = {name: tier.wait(tier.sandbox.run(code)) for name, (code, _) in PROBES.items()}

    assert {name: outcome.failure for name, outcome in outcomes.items()} == dict.fromkeys(PROBES)
    assert {name: outcome.result for name, outcome in outcomes.items()} == {
        name: result for name, (_, result) in PROBES.items()
    }


FAILURES: dict[str, tuple[str, Limits, str, str, str]] = {
    "exception": ("1 / 0", Limits(), "failed", "exception", "ZeroDivisionError"),
    "syntax": ("x = = 1", Limits(), "failed", "syntax", "SyntaxError"),
    "import": ("import socket", Limits(), "failed", "import", "ImportRefused"),
    "result": ("object()", Limits(), "failed", "result", "Unrepresentable"),
    "exit": ("import os\nos._exit(3)", Limits(), "broken", "exit", "InterpreterExited"),
    "crash": (
        "import mmap\nfile = open('f', 'wb+')\nfile.truncate(4096)\nview = mmap.mmap(file.fileno(), 4096)\n"
        "file.truncate(0)\nview[0]",
        Limits(),
        "broken",
        "crash",
        "InterpreterCrashed",
    ),
    "protocol": (
        "import os, time\nos.write(3, b'\\xff\\xff\\xff\\xff')\ntime.sleep(60)",
        Limits(),
        "broken",
        "protocol",
        "ProtocolBroken",
    ),
    "wall time": ("while True: pass", Limits(wall_seconds=1), "timeout", "wall_time", "WallTimeExceeded"),
    "cpu time": ("while True: pass", Limits(wall_seconds=20, cpu_seconds=1), "limit", "cpu_time", "CpuTimeExceeded"),
    "memory at once": ("bytearray(3 << 30)", Limits(), "limit", "memory", "MemoryExceeded"),
    "memory bit by bit": (
        "rows = []\nwhile True:\n    rows.append('x' * 10_000 + str(len(rows)))",
        Limits(wall_seconds=20),
        "limit",
        "memory",
        "MemoryExceeded",
    ),
    "output": ("while True: print('x' * 99)", Limits(output_bytes=2000), "limit", "output", "OutputExceeded"),
    "fork": ("import os\nos.fork()", Limits(), "limit", "processes", "ProcessesExceeded"),
    "threads": (
        "import threading\nwhile True:\n    threading.Thread(target=threading.Event().wait, daemon=True).start()",
        Limits(),
        "limit",
        "processes",
        "ProcessesExceeded",
    ),
    "open files": (
        "files = []\nwhile True:\n    files.append(open('/dev/null'))",
        Limits(),
        "limit",
        "open_files",
        "OpenFilesExceeded",
    ),
    "bytes of the workspace": (
        "import itertools\nfor n in itertools.count():\n    with open(f'f{n}', 'wb') as file:\n"
        "        file.write(bytes(1 << 20))",
        Limits(wall_seconds=20),
        "limit",
        "workspace",
        "WorkspaceExceeded",
    ),
    "files of the workspace": (
        "import itertools\nfor n in itertools.count():\n    open(f'f{n}', 'w').close()",
        Limits(wall_seconds=20),
        "limit",
        "workspace",
        "WorkspaceExceeded",
    ),
    "bytes of temporary files": (
        "import tempfile\nwhile True:\n    with tempfile.NamedTemporaryFile(delete=False) as file:\n"
        "        file.write(bytes(1 << 20))",
        Limits(wall_seconds=20),
        "limit",
        "workspace",
        "WorkspaceExceeded",
    ),
    "calls": ("while True: call_tool('a')", Limits(tool_calls=2), "limit", "calls", "CallsExceeded"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failure_has_the_same_name_on_every_tier(tier: Any, name: str) -> None:
    """Each kind of failure is told apart from all others, with what was printed before."""
    code, limits, status, kind, type_name = FAILURES[name]

    outcome = tier.run(f"print('before', end='')\n{code}", limits=limits, on_call=echo)

    assert (outcome.status, outcome.failure.kind, outcome.failure.type) == (status, kind, type_name)
    assert outcome.output[:6] == ("before" if name != "syntax" else "")


def test_session_keeps_its_files_and_shows_them_to_no_other(tier: Any) -> None:
    """Across runs and a change of zygote; readable and writable by the host; gone when removed."""
    tier.run("open('f', 'w').write('one')", session="one")
    tier.run("open('f', 'w').write('two')", session="two")
    tier.wait(tier.sandbox.recycle())
    tier.sandbox.workspace("one").write_bytes("in/host", b"of the host")
    texts = [
        tier.run("import os\n[open('f').read(), sorted(os.listdir('.'))]", session=name).result
        for name in ("one", "two")
    ]
    host = tier.run("open('in/host').read()", session="one").result
    read = tier.sandbox.workspace("two").read_bytes("f")
    listed = [(file.path, file.kind) for file in tier.sandbox.workspace("one").files()]
    tier.wait(tier.sandbox.remove_session("one"))
    again = tier.run("import os\nos.listdir('.')", session="one").result
    for name in ("one", "two"):
        tier.wait(tier.sandbox.remove_session(name))

    assert (texts, host, read, again) == ([["one", ["f", "in"]], ["two", ["f"]]], "of the host", b"two", [])
    assert listed == [("f", "file"), ("in", "folder"), ("in/host", "file")]


def test_one_session_cannot_reach_anothers_files(tier: Any) -> None:
    """Not even by the path at which the other knows them."""
    there = tier.run("import os\nopen('secret', 'w').write('x')\nos.path.realpath('secret')", session="owner").result
    attempt = """
        import os
        try:
            result = open(path).read()
        except OSError as error:
            result = type(error).__name__
    """
    other = tier.run(attempt, context={"path": there}, session="other").result
    single = tier.run(attempt, context={"path": there}).result
    owner = tier.run(attempt, context={"path": there}, session="owner").result
    for name in ("owner", "other"):
        tier.wait(tier.sandbox.remove_session(name))

    assert owner == "x"
    assert {other, single} <= {"FileNotFoundError", "PermissionError"}


def test_big_result_is_spilled_to_where_the_next_run_finds_it(tier: Any) -> None:
    """The reported path is valid inside, and the host reads the same."""
    outcome = tier.run("list(range(5000))", session="spill", execution_id="e1")
    after = tier.run("import json\nlen(json.load(open(path)))", context={"path": outcome.spill.path}, session="spill")
    size = len(tier.sandbox.workspace("spill").read_bytes("results/e1.json"))
    tier.wait(tier.sandbox.remove_session("spill"))

    assert (outcome.spill.shape, outcome.spill.bytes, after.result) == ("list of 5000 numbers", size, 5000)


def test_link_left_by_the_code_does_not_lead_the_host_out(tier: Any, tmp_path: Path) -> None:
    """Neither reading nor removing follows it."""
    target = tmp_path / "host.txt"
    target.write_text("of the host", encoding="utf-8")
    tier.run(
        "import os\nos.symlink(target, 'link')\nos.symlink(os.path.dirname(target), 'folder')",
        context={"target": str(target)},
        session="links",
    )
    with pytest.raises(InvalidRequest):
        tier.sandbox.workspace("links").read_bytes("link")
    tier.wait(tier.sandbox.remove_session("links"))

    assert target.read_text(encoding="utf-8") == "of the host"


def test_runs_at_once_do_not_mix(tier: Any) -> None:
    """Held in mid-flight together, each has its own answers, output and files."""

    async def scenario() -> list[Any]:
        arrived: list[str] = []
        all_here = asyncio.Event()

        async def on_call(tool: str, args: dict[str, Any]) -> str:
            arrived.append(tool)
            if len(arrived) == 8:
                all_here.set()
            await all_here.wait()
            return tool

        code = "open('f', 'w').write(name)\nprint(name)\nanswer = call_tool(name)\n[answer, open('f').read()]"
        return await asyncio.gather(
            *(tier.sandbox.run(code, context={"name": f"n{n}"}, on_call=on_call) for n in range(8))
        )

    outcomes = tier.wait(scenario())

    assert [(outcome.result, outcome.output) for outcome in outcomes] == [
        ([f"n{n}", f"n{n}"], f"n{n}\n") for n in range(8)
    ]


@pytest.mark.parametrize("name", TIERS)
async def test_tier_leaves_nothing_behind(held: Held, name: str) -> None:
    """After runs that ended in every way, a death of the zygote and a close in mid-run."""
    before = await held()
    async with open_tier(name, size=2) as sandbox:
        settled = await held(sandbox)
        await asyncio.gather(
            *(sandbox.run("open('f', 'w').write('x')", session=f"s{n}") for n in range(2)),
            sandbox.run("while True: pass", limits=Limits(wall_seconds=1)),
            sandbox.run("import os\nos._exit(1)"),
            sandbox.run("1 / 0"),
        )
        for n in range(2):
            await sandbox.remove_session(f"s{n}")
        afterwards = await held(sandbox)
        started = asyncio.Event()

        async def on_call(tool: str, args: dict[str, Any]) -> None:
            started.set()
            await asyncio.Event().wait()

        run = asyncio.create_task(sandbox.run("call_tool('a')", on_call=on_call, session="s"))
        await started.wait()
        sandbox.zygote._process.child.kill()
        with pytest.raises(SandboxBroken):
            await run
        again = await sandbox.run("1", session="s")

    assert (again.result, afterwards) == (1, settled)
    assert await held() == before


@pytest.mark.parametrize("name", TIERS)
async def test_own_package_is_loaded_read_only_and_shows_nothing_around_it(name: str, tmp_path: Path) -> None:
    """Runs find it imported; neither its files can be changed nor its neighbours in the gateway be seen."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    (folder / "__init__.py").write_text("from .inner import answer\n", encoding="utf-8")
    (folder / "inner.py").write_text("def answer():\n    return 42\n", encoding="utf-8")
    (tmp_path / "secret.py").write_text("KEY = 1\n", encoding="utf-8")
    code = """
import os, sys
loaded = "sealyard_analysis.inner" in sys.modules
import sealyard_analysis
here = os.path.dirname(sealyard_analysis.__file__)

def attempt(path, mode):
    try:
        open(path, mode).close()
    except OSError:
        return "refused"
    return "done"

result = {
    "answer": sealyard_analysis.answer(),
    "loaded": loaded,
    "files": sorted(name for name in os.listdir(here) if name != "__pycache__"),
    "neighbours": sorted(os.listdir(os.path.dirname(here))),
    "secret": attempt(secret, "r"),
    "change": attempt(os.path.join(here, "inner.py"), "a"),
    "addition": attempt(os.path.join(here, "more.py"), "w"),
    "read": attempt(os.path.join(here, "inner.py"), "r"),
}
"""

    async with open_tier(name, own={"sealyard_analysis": folder}) as sandbox:
        first = await sandbox.run(code, context={"secret": str(tmp_path / "secret.py")})
        await sandbox.recycle()
        second = await sandbox.run(code, context={"secret": str(tmp_path / "secret.py")})

    assert (
        first.result
        == second.result
        == {
            "answer": 42,
            "loaded": True,
            "files": ["__init__.py", "inner.py"],
            "neighbours": ["sealyard_analysis"],
            "secret": "refused",
            "change": "refused",
            "addition": "refused",
            "read": "done",
        }
    )


def test_own_package_under_a_name_that_no_level_allows_is_refused(tmp_path: Path) -> None:
    """A package that code could not import would be shown for nothing."""
    with pytest.raises(InvalidRequest) as caught:
        add_own(find_packages(()), {"sealyard": tmp_path})

    assert str(caught.value) == (
        "No guest module is called 'sealyard'. There are: servers, skills, tool_discovery, sealyard_analysis,"
        f" {former.ANALYSIS}."
    )


@pytest.mark.parametrize("level", IsolationLevel)
async def test_own_package_can_be_imported_at_every_level(level: IsolationLevel, tmp_path: Path) -> None:
    """Its own imports are its business: `os` is not on the list of the hardened level."""
    (tmp_path / "__init__.py").write_text("import os\nhere = os.getcwd\n", encoding="utf-8")
    policy = msgspec.structs.replace(LEVELS[level], packages=())

    async with open_sandbox(policy, own={"sealyard_analysis": tmp_path}) as sandbox:
        outcome = await sandbox.run("from sealyard_analysis import here\nhere()")

    assert (outcome.failure, outcome.result) == (None, "/sandbox/workspace")


@pytest.mark.parametrize("level", IsolationLevel)
async def test_level_that_needs_namespaces_is_refused_without_them(level: IsolationLevel) -> None:
    """The landlock tier is weaker than any level promises; it is used only where that is accepted."""
    policy = msgspec.structs.replace(LEVELS[level], packages=())
    with pytest.raises(LevelUnavailable) as caught:
        async with open_sandbox(policy, tier="landlock"):
            pass
    async with open_sandbox(policy, tier="landlock", allow_weaker=True) as sandbox:
        outcome = await sandbox.run("1")

    assert str(caught.value) == (
        f"Level '{level}' cannot be honoured here: only the 'landlock' tier works, which has no namespaces. "
        "Run `sealyard doctor` for what to do, or set allow_weaker to accept it."
    )
    assert (outcome.result, outcome.tier, outcome.level) == (1, "landlock", str(level))


async def test_best_tier_is_taken_and_its_proof_kept() -> None:
    """Every attempt of the probe ended as it must, and the sandbox can show it."""
    async with open_sandbox(SMALL) as sandbox:
        report = sandbox.report

    assert report is not None
    assert (sandbox.tier, report.name, report.available) == ("namespace", "namespace", True)
    assert [attack.name for attack in report.attacks if not attack.held] == []
    assert len(report.attacks) >= 17


@pytest.mark.parametrize("name", TIERS)
async def test_report_says_who_holds_threads_and_they_are_held(name: str) -> None:
    """The probe has tried it: root's processes have no limit of threads in the kernel, so theirs are watched.

    A level that needs every layer is then not honoured, and code that would have to be counted cannot fork.
    """
    bomb = "import threading, time\nthreading.stack_size(65536)\nfor _ in range(40):\n"
    bomb += "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\ntime.sleep(60)"
    async with open_tier(name, size=0) as sandbox:
        report = await probe._prove(sandbox)
        held = {limit.name: limit.held for limit in report.limits}
        bombed = await sandbox.run(bomb, limits=Limits(threads=8, wall_seconds=20))
        is_kernels = sandbox.pool.has_own_users or (sandbox.tier == "namespace" and os.geteuid() != 0)

    assert (held["threads"], held["memory_mib"]) == ("kernel" if is_kernels else "watched", "kernel")
    assert bombed.failure is not None
    assert (bombed.status, bombed.failure.kind) == ("limit", "processes")
    assert is_kernels or not report.can_fork
    hardened = shortfall(LEVELS[IsolationLevel.HARDENED], report)
    assert (hardened is None) == (is_kernels and sandbox.tier == "namespace" and not report.missing)
