"""Tools as importable functions: stub files on the host, loaded lazily inside, never writable there."""

import asyncio
import contextlib
import itertools
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from sealyard.config import Config, SandboxConfig, StoreConfig
from sealyard.errors import InvalidRequest, StoreError
from sealyard.sandbox import PoolOptions, Sandbox, open_sandbox
from sealyard.sandbox.importable import Library, open_library
from sealyard.sandbox.policy import DEFAULT
from sealyard.testing import FakeUpstream
from sealyard.values.runs import Outcome, Reply
from sealyard.yard import ExecuteRequest, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())

LIST = '''"""Expenses of a person."""

from typing import Any, Literal

from sealyard_guest import tool


@tool("mcp__expenses__list_expenses", {"from_": "from"})
def list_expenses(user_id: str, since: str = "2024-10-01", from_: int | None = None) -> list[dict[str, Any]]:
    """List them."""
    ...
'''
ANY = '''from typing import Any

from sealyard_guest import tool


@tool("mcp__expenses__any")
def anything(**arguments: Any) -> Any:
    """Takes what it is given."""
    ...
'''
IMPORT = "import servers.expenses\nsorted(servers.expenses.__all__)"
FILES = {
    "__init__.py": '"""Servers: expenses."""\n',
    "expenses/__init__.py": '"""Money that was spent."""\n\n__all__ = ["anything", "list_expenses"]\n',
    "expenses/list_expenses.py": LIST,
    "expenses/anything.py": ANY,
}


@contextlib.asynccontextmanager
async def opened(tier: str = "namespace", files: dict[str, str] = FILES) -> AsyncIterator[tuple[Sandbox, Library]]:
    """A sandbox with a library in version `v1`."""
    async with open_library() as library:
        await library.publish("v1", files)
        async with open_sandbox(
            PLAIN, tier=tier, allow_weaker=True, library=library, pool=PoolOptions(size=1)
        ) as sandbox:
            yield sandbox, library


@pytest.fixture(scope="module", params=["namespace", "landlock"])
def run(request: pytest.FixtureRequest, drive: Any) -> Callable[[str], Outcome]:
    """Runs code beside the library; every call is answered with its tool and arguments."""

    @contextlib.asynccontextmanager
    async def one() -> AsyncIterator[Sandbox]:
        async with opened(request.param) as (sandbox, _):
            yield sandbox

    driver = drive(one())

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        return [tool, args]

    return lambda code: driver.run(code, on_call=on_call)


CALL = "mcp__expenses__list_expenses"


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("from servers.expenses import list_expenses\nlist_expenses('u')", [CALL, {"user_id": "u"}]),
        ("from servers.expenses import list_expenses\nawait list_expenses('u')", [CALL, {"user_id": "u"}]),
        (
            "from servers.expenses import list_expenses as f\nf(user_id='u', from_=3)",
            [CALL, {"user_id": "u", "from": 3}],
        ),
        ("import servers\nservers.expenses.list_expenses('u')", [CALL, {"user_id": "u"}]),
        ("import servers.expenses\nservers.expenses.list_expenses('u')", [CALL, {"user_id": "u"}]),
        ("from servers import expenses\nexpenses.list_expenses('u')", [CALL, {"user_id": "u"}]),
        ("from servers.expenses import *\nlist_expenses('u')", [CALL, {"user_id": "u"}]),
        ("from servers.expenses.list_expenses import list_expenses\nlist_expenses('u')", [CALL, {"user_id": "u"}]),
        ("import servers.expenses.list_expenses as f\nf('u')", [CALL, {"user_id": "u"}]),
        (
            "from servers.expenses.list_expenses import list_expenses\n"
            "from servers.expenses import list_expenses as f\nf('u')",
            [CALL, {"user_id": "u"}],
        ),
        ("from servers.expenses import anything\nanything(a=1, b=None)", ["mcp__expenses__any", {"a": 1, "b": None}]),
        (
            "import asyncio\nfrom servers.expenses import list_expenses as f\nawait asyncio.gather(f('a'), f('b'))",
            [[CALL, {"user_id": "a"}], [CALL, {"user_id": "b"}]],
        ),
        (
            "from tool_discovery import search_tools\nsearch_tools('money', limit=2)",
            ["search_tools", {"query": "money", "detail_level": "with_description", "server": None, "limit": 2}],
        ),
        (
            "from tool_discovery import search_tools\nawait search_tools(keyword='money')",
            ["search_tools", {"query": "money", "detail_level": "with_description", "server": None, "limit": 5}],
        ),
    ],
)
def test_every_way_to_import_a_tool_calls_it(run: Callable[[str], Outcome], code: str, answer: Any) -> None:
    """What was left out is not sent, and names that Python forbids are spelled as the tool spells them."""
    outcome = run(code)

    assert (outcome.failure, outcome.result) == (None, answer)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "from servers.expenses import lst_expenses",
            "No tool named 'lst_expenses' on server 'expenses'. Nearest: list_expenses.",
        ),
        (
            "import servers\nservers.expenses.lst_expenses()",
            "No tool named 'lst_expenses' on server 'expenses'. Nearest: list_expenses.",
        ),
        ("from servers.expense import list_expenses", "No server named 'expense'. Nearest: expenses."),
        (
            "import servers.nothing_like_it",
            "No server named 'nothing_like_it'. Call search_tools to find one that exists.",
        ),
        (
            "from servers.expenses import list_expenses\nlist_expenses()",
            "list_expenses(): missing a required argument: 'user_id'. Its signature: list_expenses(user_id: str, "
            "since: str = '2024-10-01', from_: int | None = None) -> list[dict[str, typing.Any]]",
        ),
        (
            "from servers.expenses import list_expenses\nlist_expenses('u', sinse='x')",
            "list_expenses(): got an unexpected keyword argument 'sinse'. Its signature: list_expenses(user_id: str, "
            "since: str = '2024-10-01', from_: int | None = None) -> list[dict[str, typing.Any]]",
        ),
    ],
)
def test_a_wrong_name_or_argument_says_what_is_right(run: Callable[[str], Outcome], code: str, message: str) -> None:
    """The error comes from inside, before any call."""
    outcome = run(code)

    assert outcome.failure is not None
    assert outcome.failure.message == message
    assert outcome.usage.tool_calls == 0


def test_a_stub_looks_like_the_function_it_stands_for(run: Callable[[str], Outcome]) -> None:
    """Signature, docstring and the listing of a module are real."""
    outcome = run(
        """
        import inspect, servers
        from servers.expenses import list_expenses
        result = [str(inspect.signature(list_expenses)), list_expenses.__doc__, dir(servers), dir(servers.expenses),
                  servers.expenses.__doc__]
        """
    )

    assert outcome.result == [
        "(user_id: str, since: str = '2024-10-01', from_: int | None = None) -> list[dict[str, typing.Any]]",
        "List them.",
        ["expenses"],
        ["anything", "list_expenses"],
        "Money that was spent.",
    ]


def test_only_imported_stubs_are_loaded(run: Callable[[str], Outcome]) -> None:
    """A module that nobody asked for is not among those that were executed."""
    outcome = run(
        """
        import sys
        from servers.expenses import list_expenses
        sorted(name for name in sys.modules if name.startswith("servers"))
        """
    )

    assert outcome.result == ["servers", "servers.expenses", "servers.expenses.list_expenses"]


def test_stubs_can_be_browsed_but_not_changed(run: Callable[[str], Outcome]) -> None:
    """The files are readable text below `servers.__path__`, and every way to write there fails."""
    outcome = run(
        """
        import os, servers
        root = servers.__path__[0]
        text = open(f"{root}/expenses/list_expenses.py").read()
        failed = []
        for attempt in (
            lambda: open(f"{root}/expenses/list_expenses.py", "w"),
            lambda: open(f"{root}/new.py", "w"),
            lambda: os.mkdir(f"{root}/expenses/more"),
            lambda: os.remove(f"{root}/expenses/anything.py"),
            lambda: os.rename(f"{root}/expenses", f"{root}/other"),
            lambda: os.symlink("/", f"{root}/link"),
        ):
            try:
                attempt()
            except OSError:
                failed.append(True)
        result = [text.splitlines()[0], sorted(os.listdir(root)), len(failed)]
        """
    )

    assert outcome.result == ['"""Expenses of a person."""', ["__init__.py", "expenses"], 6]


async def test_a_new_version_reaches_workers_that_wait_already() -> None:
    """Stubs are made per catalog version, not per run or per worker."""
    async with opened() as (sandbox, library):
        await sandbox.fill()
        await library.publish("v2", FILES | {"travel/__init__.py": '"""Trips."""\n__all__ = []\n'})
        outcome = await sandbox.run("import os, servers\n[dir(servers), sorted(os.listdir('/servers'))]")

    assert outcome.result == [["expenses", "travel"], ["__init__.py", "expenses", "travel"]]


async def test_a_run_keeps_the_version_it_began_with() -> None:
    """What it imports later comes from the same version, which is deleted only when nobody uses it."""
    async with opened() as (sandbox, library):

        async def on_call(tool: str, args: dict[str, Any]) -> Any:
            await library.publish("v2", {"__init__.py": '"""Nothing."""\n'})
            return len(list(library.path.iterdir()))

        outcome = await sandbox.run(
            "during = call_tool('change')\nfrom servers.expenses import list_expenses\nduring", on_call=on_call
        )
        await library.publish("v3", FILES)

        assert outcome.result == 2
        assert [library.has(version) for version in ("v1", "v2", "v3")] == [False, False, True]
        assert len(list(library.path.iterdir())) == 1


async def test_without_a_library_the_import_says_so() -> None:
    """A sandbox that serves no tools explains the failed import."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1)) as sandbox:
        outcome = await sandbox.run("from servers.x import y")

    assert outcome.failure is not None
    assert outcome.failure.message == "This run has no tools: no MCP server is configured."


async def test_files_of_an_answer_lie_in_the_workspace() -> None:
    """Binary content comes beside the value, not in it."""
    async with opened() as (sandbox, _):

        async def on_call(tool: str, args: dict[str, Any]) -> Any:
            return Reply(value={"file": "files/1-a.png"}, files={"files/1-a.png": b"\x00\xff"})

        outcome = await sandbox.run(
            "value = call_tool('picture')\n[value, list(open(value['file'], 'rb').read())]",
            on_call=on_call,
            session="s",
        )

        assert outcome.result == [{"file": "files/1-a.png"}, [0, 255]]
        assert sandbox.workspace("s").read_bytes("files/1-a.png") == b"\x00\xff"


@pytest.mark.parametrize("path", ["../out.py", "/etc/out.py", "a/../../out.py"])
async def test_a_path_out_of_the_library_is_refused(path: str) -> None:
    """Names come from upstreams in the end; none may lead elsewhere on the host."""
    async with open_library() as library:
        with pytest.raises(InvalidRequest):
            await library.publish("v1", {path: ""})

        assert library.version is None


async def test_closing_leaves_no_directory(held: Callable[..., Coroutine[Any, Any, dict[str, Any]]]) -> None:
    """The library's directory is gone with it, whatever was published."""
    before = await held()
    async with opened() as (sandbox, library):
        await sandbox.run("1")
        await library.publish("v2", FILES)

    assert await held() == before


def many_tools(count: int) -> FakeUpstream:
    """A server with this many tools, each of which says its number."""

    def saying(number: int) -> Callable[[], str]:
        return lambda: str(number)

    return FakeUpstream("many", **{f"tool_{number}": saying(number) for number in range(count)})


async def test_stubs_of_many_tools_are_made_on_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run does not wait for thousands of files: an import asks for the one it needs, and the rest can be listed."""
    held = threading.Event()
    fill = Library._fill

    def fill_later(self: Library, folder: str, more: Iterator[tuple[str, str]]) -> None:
        held.wait()
        fill(self, folder, more)

    monkeypatch.setattr(Library, "_fill", fill_later)
    code = (
        "import importlib, os, servers.many as many\nfrom servers.many import tool_7\n"
        "try:\n    importlib.import_module('servers.many.tool_' + '9' * 4)\n"
        "except ImportError as error:\n    wrong = str(error)\n"
        "[os.listdir('/servers/many'), len(dir(many)), tool_7(), wrong]"
    )
    config = Config(
        store=StoreConfig(path=tmp_path / "sealyard.db"),
        sandbox=SandboxConfig(allow_weaker=True, pool_size=1, data_packages=False),
    )
    async with open_yard(config, upstreams={"many": many_tools(300)}) as yard:
        try:
            early = await yard.execute(ExecuteRequest(code=code))
        finally:
            held.set()
        await yard.tools.finder._library.filled()
        late = await yard.execute(ExecuteRequest(code="import os\nlen(os.listdir('/servers/many'))"))

    assert early.outcome.failure is None
    listed, count, answer, wrong = early.outcome.result
    assert (listed, count, answer) == (["__init__.py"], 300, "7")
    assert wrong.startswith("No tool named 'tool_9999' on server 'many'.")
    assert late.outcome.result == 301


async def test_files_that_follow_stop_when_their_version_goes() -> None:
    """A catalog that changes while its files are written leaves none behind."""
    written = threading.Event()

    def endless() -> Iterator[tuple[str, str]]:
        for number in itertools.count():
            yield f"expenses/tool_{number}.py", ANY
            written.set()

    async with open_library() as library:
        await library.publish("v1", FILES, more=endless())
        await asyncio.to_thread(written.wait)
        await library.publish("v2", FILES)
        folders = sorted(path.name for path in library.path.iterdir())

        assert folders == [library.likely()]


@pytest.mark.parametrize("tier", ["namespace", "landlock"])
async def test_runs_go_on_after_somebody_removed_the_gateways_directories(tier: str) -> None:
    """What a cleaner takes is made anew: stubs when they are published again, and sessions without their files."""
    async with opened(tier) as (sandbox, library):
        before = await sandbox.run("open('kept', 'w').close()\n" + IMPORT, session="s")
        for place in {each.parent if each.name == "library" else each for each in sandbox.pool.directories}:
            shutil.rmtree(place, ignore_errors=True)  # one may lie in another
        was_there = library.has("v1")
        await library.publish("v1", FILES)
        after = [
            await sandbox.run(IMPORT),
            await sandbox.run(IMPORT, session="s"),
            await sandbox.run(IMPORT, session="t"),
        ]
        listed = [each.path for each in sandbox.workspace("s").files()]

        assert (was_there, library.has("v1")) == (False, True)

    assert [outcome.failure for outcome in (before, *after)] == [None] * 4
    assert [outcome.result for outcome in (before, *after)] == [["anything", "list_expenses"]] * 4
    assert listed == (["kept"] if tier == "namespace" else [])


async def test_directories_lie_where_they_are_asked_to_and_nobody_else_sweeps_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another gateway that shares the folder, from a container with processes of its own, leaves them alone."""
    monkeypatch.delenv("TMPDIR", raising=False)
    base = Path(tempfile.mkdtemp(dir="/tmp"))
    base.chmod(0o755)
    try:
        async with open_library(base / "run") as library:
            directory = library.path.parent
            stranger = directory.rename(directory.with_name("sealyard-1.1-live"))
            abandoned = base / "run" / "sealyard-1.1-dead"
            abandoned.mkdir()
            async with open_library(base / "run") as other:
                seen = sorted(path.name for path in (base / "run").iterdir())

                assert other.path.parent.parent == base / "run"
            assert seen == sorted([stranger.name, other.path.parent.name])
            stranger.rename(directory)
        monkeypatch.setenv("TMPDIR", str(base))
        async with open_library(base / "run") as library:
            assert library.path.parent.parent == Path(tempfile.gettempdir())
        assert list((base / "run").iterdir()) == []
    finally:
        shutil.rmtree(base)


@pytest.fixture
def open_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that every user can reach, so that the gateway keeps its directories in it whoever it runs as."""
    monkeypatch.delenv("TMPDIR", raising=False)
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("tier", ["namespace", "landlock"])
async def test_store_may_have_a_relative_path(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch, tier: Literal["namespace", "landlock"]
) -> None:
    """Workers find the gateway's directories although they have another working directory."""
    monkeypatch.chdir(open_folder)
    config = Config(
        store=StoreConfig(path=Path("sealyard.db")), sandbox=SandboxConfig(tier=tier, allow_weaker=True, pool_size=1)
    )
    async with open_yard(config, policy=PLAIN, upstreams={"bank": FakeUpstream("bank", pay=lambda: "paid")}) as yard:
        result = await yard.execute(ExecuteRequest(code="from servers.bank import pay\npay()"))

        assert (open_folder / "run").is_dir()
    assert result.text == "paid"


async def test_nothing_is_made_where_the_gateways_data_was_moved_from(open_folder: Path) -> None:
    """Whoever moves the folder of a running gateway can move it back, and the gateway goes on."""
    store, elsewhere = open_folder / "store", open_folder / "elsewhere"
    store.mkdir(mode=0o755)
    config = Config(store=StoreConfig(path=store / "sealyard.db"))
    async with open_yard(config, policy=PLAIN, upstreams={"bank": FakeUpstream("bank", pay=lambda: "paid")}) as yard:
        request = ExecuteRequest(code="from servers.bank import pay\npay()")
        await yard.execute(request)
        store.rename(elsewhere)
        with pytest.raises(StoreError):
            await yard.execute(request)
        elsewhere.rename(store)
        result = await yard.execute(request)

    assert result.text == "paid"
