"""Workspaces: kept between runs of a session, kept apart between sessions, and the host is not led astray by them."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.errors import InvalidRequest, SandboxBroken, UnknownSession
from sealyard.sandbox import PoolOptions, open_sandbox
from sealyard.sandbox.policy import DEFAULT
from sealyard.sandbox.sessions.workspace import WorkspaceFile
from sealyard.values.runs import Limits

PLAIN = msgspec.structs.replace(DEFAULT, packages=())


@pytest.fixture
def session(request: pytest.FixtureRequest) -> str:
    """A session of the test's own."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:100].strip("-")


def test_files_stay_for_the_next_run_of_a_session(driver: Any, session: str) -> None:
    """Content, folders and permissions are as the run before left them, and can be changed."""
    driver.run(
        """
        import os
        os.makedirs("a/b")
        with open("a/b/rows.csv", "w") as file:
            file.write("1,2")
        os.chmod("a/b/rows.csv", 0o600)
        os.symlink("a/b", "shortcut")
        """,
        session=session,
    )
    outcome = driver.run(
        """
        import os
        with open("shortcut/rows.csv", "a") as file:
            file.write(",3")
        [os.getcwd(), open("/workspace/a/b/rows.csv").read(), oct(os.stat("a/b/rows.csv").st_mode & 0o777)]
        """,
        session=session,
    )

    assert outcome.result == ["/sandbox/workspace", "1,2,3", "0o600"]


def test_run_without_a_session_keeps_nothing(driver: Any) -> None:
    """Its workspace is its own and gone with it; so is every temporary directory."""
    write = "import os, tempfile\nopen('a', 'w').close()\ntempfile.mkstemp()\n"
    look = "[os.listdir('.'), os.listdir('/tmp'), os.listdir('/dev/shm')]"

    driver.run(write)

    assert driver.run(f"import os\n{look}").result == [[], [], []]


def test_temporary_files_do_not_stay_with_a_session(driver: Any, session: str) -> None:
    """Only the workspace is kept."""
    driver.run("import tempfile\ntempfile.mkstemp()\nopen('kept', 'w').close()", session=session)

    assert driver.run("import os\n[os.listdir('/tmp'), os.listdir('.')]", session=session).result == [[], ["kept"]]


def test_sessions_cannot_see_each_other(driver: Any, session: str) -> None:
    """Neither by name, nor through the places where the sandbox keeps workspaces."""
    driver.run("open('secret', 'w').write('of one')", session=f"{session}1"[-100:])
    outcome = driver.run(
        """
        import os
        seen = []
        for root in ("/sandbox", "/sessions", "/workspace", "/tmp"):
            for folder, _, files in os.walk(root):
                seen += [os.path.join(folder, name) for name in files]
        [seen, os.path.exists("secret")]
        """,
        session=f"{session}2"[-100:],
    )

    assert outcome.result == [[], False]


def test_two_runs_of_one_session_share_its_files_at_once(driver: Any, session: str) -> None:
    """A file that one run writes can be read by another that is under way."""

    async def scenario() -> Any:
        ready, written = asyncio.Event(), asyncio.Event()

        async def on_call(tool: str, args: dict[str, Any]) -> None:
            if tool == "wait":
                ready.set()
                await written.wait()
            else:
                await ready.wait()
                written.set()

        reader = driver.sandbox.run("call_tool('wait')\nopen('note').read()", session=session, on_call=on_call)
        writer = driver.sandbox.run(
            "with open('note', 'w') as file:\n    file.write('hello')\ncall_tool('written')",
            session=session,
            on_call=on_call,
        )
        return await asyncio.gather(reader, writer)

    assert driver.wait(scenario())[0].result == "hello"


def test_host_lists_everything_without_following_links(driver: Any, session: str) -> None:
    """Files with their size, folders and links, sorted by path."""
    driver.run(
        """
        import os
        os.mkdir("folder")
        with open("folder/größe.txt", "w") as file:
            file.write("12345")
        os.symlink("/etc", "link")
        os.symlink("folder", "inner")
        """,
        session=session,
    )
    files = driver.sandbox.workspace(session).files()

    assert [(file.path, file.kind) for file in files] == [
        ("folder", "folder"),
        ("folder/größe.txt", "file"),
        ("inner", "link"),
        ("link", "link"),
    ]
    assert files[1] == WorkspaceFile(path="folder/größe.txt", kind="file", bytes=5)


def test_host_reads_files_but_no_links(driver: Any, session: str, tmp_path: Path) -> None:
    """A link, wherever it leads and wherever in the path it stands, is refused; so is what is not a file."""
    (tmp_path / "host.txt").write_text("of the host", encoding="utf-8")
    driver.run(
        """
        import os
        os.makedirs("real")
        with open("real/data", "wb") as file:
            file.write(b"\\x00\\xff")
        os.symlink(host, "absolute")
        os.symlink("real", "folder")
        os.symlink("real/data", "near")
        os.symlink(os.path.dirname(host), "outside")
        """,
        session=session,
        context={"host": str(tmp_path / "host.txt")},
    )
    workspace = driver.sandbox.workspace(session)

    def attempt(path: str) -> str:
        with pytest.raises(InvalidRequest) as caught:
            workspace.read_bytes(path)
        return str(caught.value)

    assert workspace.read_bytes("real/data") == b"\x00\xff"
    assert {path: attempt(path) for path in ("absolute", "near", "folder/data", "outside/host.txt", "real")} == {
        "absolute": "'absolute' cannot be read: Too many levels of symbolic links. List the workspace's files.",
        "near": "'near' cannot be read: Too many levels of symbolic links. List the workspace's files.",
        "folder/data": "'folder/data' cannot be reached: Not a directory.",
        "outside/host.txt": "'outside/host.txt' cannot be reached: Not a directory.",
        "real": "'real' is not a regular file.",
    }


def test_host_writes_files_that_the_code_can_use(driver: Any, session: str) -> None:
    """Folders are made on the way; the code can read, change and delete what came from the host."""
    driver.run("1", session=session)
    driver.sandbox.workspace(session).write_bytes("in/deep/rows.csv", b"1,2\n")
    outcome = driver.run(
        """
        import os
        with open("in/deep/rows.csv", "a") as file:
            file.write("3,4")
        text = open("in/deep/rows.csv").read()
        open("in/deep/other", "w").close()
        os.unlink("in/deep/rows.csv")
        [text, os.listdir("in/deep")]
        """,
        session=session,
    )

    assert (outcome.failure, outcome.result) == (None, ["1,2\n3,4", ["other"]])


def test_host_never_writes_through_a_link(driver: Any, session: str, tmp_path: Path) -> None:
    """A link that the code left under a name the host writes to is refused, and its target stays as it is."""
    target = tmp_path / "host.txt"
    target.write_text("untouched", encoding="utf-8")
    driver.run(
        "import os\nos.symlink(target, 'file')\nos.symlink(os.path.dirname(target), 'folder')",
        session=session,
        context={"target": str(target)},
    )
    workspace = driver.sandbox.workspace(session)

    messages = []
    for path in ("file", "folder/host.txt", "folder/new/host.txt"):
        with pytest.raises(InvalidRequest) as caught:
            workspace.write_bytes(path, b"changed")
        messages.append(str(caught.value))

    assert messages == [
        "'file' cannot be written: Too many levels of symbolic links.",
        "'folder/host.txt' cannot be reached: Not a directory.",
        "'folder/new/host.txt' cannot be reached: Not a directory.",
    ]
    assert (target.read_text(encoding="utf-8"), sorted(tmp_path.iterdir())) == ("untouched", [target])


def test_host_cannot_write_more_than_fits(driver: Any, session: str) -> None:
    """A full workspace is full for the host too."""
    driver.run("1", session=session)

    with pytest.raises(InvalidRequest) as caught:
        driver.sandbox.workspace(session).write_bytes("big", bytes(65 << 20))

    assert str(caught.value) == "'big' cannot be written: No space left on device."


@pytest.mark.parametrize(
    "name", ["", "..", ".hidden", "-x", "a/b", "a b", "a\n", "größe", "a\0", "x" * 101, "/etc", "a/../b", "_x"]
)
def test_name_that_cannot_be_a_session_is_refused(driver: Any, name: str) -> None:
    """Names are plain, so that they can be shown and stored anywhere."""
    with pytest.raises(InvalidRequest) as caught:
        driver.run("1", session=name)

    assert str(caught.value) == (
        f"{name[:100]!r} cannot name a session. Use 1 to 100 letters, digits and . _ @ : - beginning with a letter or "
        "digit."
    )


@pytest.mark.parametrize("name", ["a", "0", "user@example.org:tab-1_x.y", "x" * 100])
def test_name_of_letters_digits_and_a_few_signs_is_a_session(driver: Any, name: str) -> None:
    """Addresses and identifiers can name a session."""
    assert driver.run("1", session=name).session == name
    assert name in driver.sandbox.sessions()


def test_unknown_session_has_no_workspace(driver: Any) -> None:
    """Asking for one that no run has named is the caller's mistake."""
    with pytest.raises(UnknownSession) as caught:
        driver.sandbox.workspace("never-named")
    with pytest.raises(UnknownSession):
        driver.wait(driver.sandbox.remove_session("never-named"))

    assert str(caught.value) == "No session is called 'never-named'. A run that names it makes one."


def test_removed_session_is_gone_and_its_name_free(driver: Any, session: str) -> None:
    """A later run of the same name starts with an empty workspace."""
    driver.run("open('old', 'w').close()", session=session)
    driver.wait(driver.sandbox.remove_session(session))
    gone = session not in driver.sandbox.sessions()
    outcome = driver.run("import os\nos.listdir('.')", session=session)

    assert (gone, outcome.result) == (True, [])


def test_session_in_use_cannot_be_removed(driver: Any, session: str) -> None:
    """The run under way keeps its files; afterwards the session can go."""

    async def scenario() -> tuple[str, Any]:
        started, go = asyncio.Event(), asyncio.Event()

        async def on_call(tool: str, args: dict[str, Any]) -> None:
            started.set()
            await go.wait()

        run = asyncio.create_task(
            driver.sandbox.run(
                "open('f', 'w').write('x')\ncall_tool('a')\nopen('f').read()", session=session, on_call=on_call
            )
        )
        await started.wait()
        with pytest.raises(InvalidRequest) as caught:
            await driver.sandbox.remove_session(session)
        go.set()
        outcome = await run
        await driver.sandbox.remove_session(session)
        return str(caught.value), outcome

    message, outcome = driver.wait(scenario())

    assert message == f"A run of session {session!r} is under way. Wait for it or cancel it first."
    assert outcome.result == "x"
    assert session not in driver.sandbox.sessions()


def test_failed_and_stopped_runs_keep_what_they_wrote(driver: Any, session: str) -> None:
    """Files are there for the next attempt, however the run ended."""
    write = "open(name, 'w').write(name)\n"

    driver.run(f"{write}1 / 0", session=session, context={"name": "failed"})
    driver.run(f"{write}while True: pass", session=session, context={"name": "stopped"}, limits=Limits(wall_seconds=1))
    driver.run(f"{write}import os\nos._exit(1)", session=session, context={"name": "left"})

    assert driver.run("import os\nsorted(os.listdir('.'))", session=session).result == ["failed", "left", "stopped"]


async def test_workspaces_outlive_the_zygote_that_made_them() -> None:
    """Recycling on demand, by count, or after the zygote's death keeps every session's files, for code and host."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1)) as sandbox:
        for name in ("a", "b"):
            await sandbox.run("open('f', 'w').write(name)", context={"name": name}, session=name)
        await sandbox.recycle()
        await sandbox.recycle()
        await sandbox.run("open('f', 'a').write('+')", session="a")
        await sandbox.settle()
        sandbox.zygote._process.child.kill()
        async with asyncio.timeout(60):
            await asyncio.shield(sandbox.pool._waiting[0].fork.exited)  # the host knows of its end
        texts = [(await sandbox.run("open('f').read()", session=name)).result for name in ("a", "b")]
        read = [sandbox.workspace(name).read_bytes("f") for name in ("a", "b")]

        assert sandbox.sessions() == ["a", "b"]
    assert (texts, read) == (["a+", "b"], [b"a+", b"b"])


async def test_sessions_made_and_removed_while_the_zygote_changes_are_not_lost() -> None:
    """Creating, using, removing and recycling may overlap in any order."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1, running=8)) as sandbox:
        await asyncio.gather(*(sandbox.run("1", session=f"old{n}") for n in range(4)))
        await asyncio.gather(
            sandbox.recycle(),
            *(sandbox.run("open('f', 'w').write('x')", session=f"new{n}") for n in range(4)),
            *(sandbox.remove_session(f"old{n}") for n in range(4)),
            sandbox.recycle(),
        )
        texts = [(await sandbox.run("open('f').read()", session=f"new{n}")).result for n in range(4)]

        assert sandbox.sessions() == ["new0", "new1", "new2", "new3"]
    assert texts == ["x"] * 4


async def test_idle_sessions_go_to_disk_and_come_back_with_their_next_run(tmp_path: Path) -> None:
    """More sessions than stay in memory keep their files; those that were unused longest are the ones on disk."""
    options = PoolOptions(size=1, sessions=4, idle_folder=tmp_path / "idle")
    names = [f"s{number}" for number in range(40)]
    async with open_sandbox(PLAIN, pool=options) as sandbox:
        for name in names:
            await sandbox.run("open('f', 'w').write(name)", context={"name": name}, session=name)
        await sandbox.settle()
        opened = [name for name in names if sandbox.find_workspace(name) is not None]
        texts = [(await sandbox.run("open('f').read()", session=name)).result for name in names]
        await sandbox.settle()
        packed = len(list((tmp_path / "idle").glob("*/*")))

        assert sandbox.sessions() == sorted(names)
    assert (opened, texts, packed) == (names[-4:], names, 36)
    assert list((tmp_path / "idle").iterdir()) == []


async def test_two_hundred_sessions_at_once_all_get_their_turn(tmp_path: Path) -> None:
    """A spike of clients with a session each is queued, and nobody is refused."""
    options = PoolOptions(size=2, running=8, sessions=8, idle_folder=tmp_path)
    async with open_sandbox(PLAIN, pool=options) as sandbox:
        runs = [sandbox.run("open('f', 'w').write('x')", session=f"client:{number}") for number in range(200)]
        outcomes = await asyncio.gather(*runs)
        await sandbox.settle()

        assert [outcome.status for outcome in outcomes] == ["ok"] * 200
        assert len(sandbox.sessions()) == 200


LEAVE_EVERYTHING = """
import os
os.makedirs("deep/er")
with open("deep/er/secret", "w") as file:
    file.write("nobody reads this")
os.chmod("deep/er/secret", 0)
modes = [oct(os.lstat("deep/er/secret").st_mode & 0o7777)]
os.chmod("deep/er", 0)
os.symlink("/etc/passwd", "outside")
os.symlink("missing", "deep/dangling")
with open("sparse", "wb") as file:
    file.seek(40 << 20)
    file.write(b"end")
with open("one", "w") as file:
    file.write("shared")
os.link("one", "deep/other")
open(b"not \\xff text\\n", "w").close()
os.utime("one", ns=(5, 1_000_000_007))
os.chmod("one", 0o640)
place = os.getcwd()
for level in range(depth):
    os.mkdir("d" * 100)
    os.chdir("d" * 100)
open("bottom", "w").write("reached")
os.chdir(place)
modes + [oct(os.lstat(name).st_mode & 0o7777) for name in ("deep", "deep/er", "one")]
"""
FIND_EVERYTHING = """
import os
modes = [oct(os.lstat(name).st_mode & 0o7777) for name in ("deep", "deep/er", "one")]
os.chmod("deep/er", 0o700)
closed = oct(os.lstat("deep/er/secret").st_mode & 0o7777)
os.chmod("deep/er/secret", 0o600)
sparse = os.stat("sparse")
with open("sparse", "rb") as file:
    file.seek(40 << 20)
    end = file.read().decode()
with open("deep/other", "a") as file:
    file.write(" still")
found = {
    "modes": [closed, *modes],
    "secret": open("deep/er/secret").read(),
    "links": [os.readlink("outside"), os.readlink("deep/dangling")],
    "sparse": [sparse.st_size, sparse.st_blocks * 512 < 1 << 20, end],
    "one": [open("one").read(), os.stat("one").st_nlink],
    "names": sorted(map(repr, os.listdir(b"."))),
}
for level in range(depth):
    os.chdir("d" * 100)
found["bottom"] = open("bottom").read()
found
"""


@pytest.mark.parametrize(("tier", "depth"), [("namespace", 300), ("landlock", 3)])
async def test_a_session_comes_back_from_disk_exactly_as_its_code_left_it(
    tmp_path: Path, tier: Any, depth: int
) -> None:
    """Permissions, links, hard links, holes, names that are no text and folders deeper than a path can name."""
    options = PoolOptions(size=1, sessions=0, idle_folder=tmp_path)
    async with open_sandbox(PLAIN, tier=tier, allow_weaker=True, pool=options) as sandbox:
        left = await sandbox.run(LEAVE_EVERYTHING, session="s", context={"depth": depth})
        await sandbox.settle()
        [parcel] = tmp_path.glob("*/*")
        size, mode = parcel.stat().st_size, parcel.stat().st_mode & 0o777
        found = await sandbox.run(FIND_EVERYTHING, session="s", context={"depth": depth})

    assert (left.failure, found.failure) == (None, None)
    assert tier != "namespace" or left.result == ["0o0", "0o755", "0o0", "0o640"]  # the other tier refuses chmod
    assert (size < 1 << 20, mode) == (True, 0o600)
    assert found.result == {
        "modes": left.result,
        "secret": "nobody reads this",
        "links": ["/etc/passwd", "missing"],
        "sparse": [(40 << 20) + 3, True, "end"],
        "one": ["shared still", 2],
        "names": sorted(map(repr, [b"deep", b"outside", b"sparse", b"one", b"not \xff text\n", b"d" * 100])),
        "bottom": "reached",
    }


async def test_who_has_the_most_on_disk_loses_its_oldest_first(tmp_path: Path) -> None:
    """One principal's many sessions push out its own, and never what another left."""
    write = "with open('f', 'wb') as file: file.write(bytes(200_000))"
    options = PoolOptions(size=1, sessions=0, idle_bytes=1_000_000, idle_folder=tmp_path)
    async with open_sandbox(PLAIN, pool=options) as sandbox:
        await sandbox.run(write, session="bob:1")
        for number in range(8):
            await sandbox.run(write, session=f"eve:{number}")
            await sandbox.settle()
        kept = sandbox.sessions()
        again = await sandbox.run("import os\nos.listdir('.')", session="eve:0")

    assert kept == ["bob:1", "eve:5", "eve:6", "eve:7"]
    assert again.result == []


async def test_who_opens_many_workspaces_puts_its_own_on_disk(tmp_path: Path) -> None:
    """The one that another principal left in memory stays there, although it was unused longest."""
    options = PoolOptions(size=1, sessions=4, idle_folder=tmp_path)
    async with open_sandbox(PLAIN, pool=options) as sandbox:
        await sandbox.run("1", session="bob:1")
        for number in range(8):
            await sandbox.run("open('f', 'w').close()", session=f"eve:{number}")
            await sandbox.settle()
        opened = [name for name in sandbox.sessions() if sandbox.find_workspace(name) is not None]

    assert opened == ["bob:1", "eve:5", "eve:6", "eve:7"]


async def test_a_session_in_use_is_never_put_on_disk(tmp_path: Path) -> None:
    """However many others come meanwhile, a run goes on with its files and so does who keeps them."""
    started, go = asyncio.Event(), asyncio.Event()

    async def on_call(tool: str, args: dict[str, Any]) -> None:
        started.set()
        await go.wait()

    code = "open('f', 'w').write('mine')\ncall_tool('wait')\nopen('f').read()"
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1, sessions=1, idle_folder=tmp_path)) as sandbox:
        with sandbox.keep("held"):
            held = asyncio.create_task(sandbox.run(code, session="held", on_call=on_call))
            await started.wait()
            for number in range(5):
                await sandbox.run("open('f', 'w').close()", session=f"s{number}")
            await sandbox.settle()
            go.set()
            outcome = await held
            read = sandbox.workspace("held").read_bytes("f")
        await sandbox.settle()

        assert (outcome.result, read) == ("mine", b"mine")
        with pytest.raises(InvalidRequest) as caught:
            sandbox.workspace("s0")
    assert str(caught.value) == "The files of session 's0' are on disk. A run that names it opens them."


async def test_a_run_that_leaves_while_its_workspace_is_made_leaves_none_that_nobody_knows(tmp_path: Path) -> None:
    """Whenever it is cancelled: what is open then is a session like any other."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1, idle_folder=tmp_path)) as sandbox:
        for steps in range(30):
            run = asyncio.create_task(sandbox.run("1", session=f"s{steps}"))
            for _ in range(steps):
                await asyncio.sleep(0)
            run.cancel()
            await asyncio.wait({run})
        await sandbox.settle()
        opened = {session.name for session in sandbox._sessions._opened}

        assert opened == set(sandbox.sessions())
        for name in opened:
            await sandbox.remove_session(name)
        assert sandbox.sessions() == []


async def test_a_session_on_disk_can_be_removed(tmp_path: Path) -> None:
    """Nothing of it is left there, and its name begins anew."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1, sessions=0, idle_folder=tmp_path)) as sandbox:
        await sandbox.run("open('f', 'w').close()", session="a")
        await sandbox.settle()
        await sandbox.remove_session("a")

        assert (sandbox.sessions(), list(tmp_path.glob("*/*"))) == ([], [])
        assert (await sandbox.run("import os\nos.listdir('.')", session="a")).result == []


async def test_files_that_cannot_be_brought_back_are_said_to_be_lost(tmp_path: Path) -> None:
    """The run that finds it out says so, and the next one begins with an empty workspace."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1, sessions=0, idle_folder=tmp_path)) as sandbox:
        await sandbox.run("open('f', 'w').write('x' * 10_000)", session="eve:a")
        await sandbox.settle()
        [parcel] = tmp_path.glob("*/*")
        os.truncate(parcel, 5_000)
        with pytest.raises(SandboxBroken) as caught:
            await sandbox.run("1", session="eve:a")
        again = await sandbox.run("import os\nos.listdir('.')", session="eve:a")

    assert str(caught.value) == (
        "The files of session 'a' on disk are damaged and lost: the packed file ends too early. Run again: it begins "
        "with an empty workspace."
    )
    assert again.result == []


async def test_files_of_a_session_that_cannot_be_opened_now_are_kept(tmp_path: Path) -> None:
    """Such as where the gateway has too many open files: the next run that can open them finds them."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1, sessions=0, idle_folder=tmp_path)) as sandbox:
        await sandbox.run("open('f', 'w').write('mine')", session="eve:a")
        await sandbox.settle()
        [parcel] = tmp_path.glob("*/*")
        parcel.rename(tmp_path / "moved")
        parcel.mkdir()
        with pytest.raises(SandboxBroken, match=r"They are kept\. Run again, or delete the session\."):
            await sandbox.run("1", session="eve:a")
        parcel.rmdir()
        (tmp_path / "moved").rename(parcel)
        again = await sandbox.run("open('f').read()", session="eve:a")

    assert again.result == "mine"


async def test_files_of_a_session_that_were_deleted_from_disk_are_lost(tmp_path: Path) -> None:
    """A clean-up from outside must not make the name useless."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1, sessions=0, idle_folder=tmp_path)) as sandbox:
        await sandbox.run("open('f', 'w').write('mine')", session="a")
        await sandbox.settle()
        [parcel] = tmp_path.glob("*/*")
        parcel.unlink()
        with pytest.raises(SandboxBroken, match="damaged and lost: the packed file was deleted"):
            await sandbox.run("1", session="a")
        again = await sandbox.run("import os\nos.listdir('.')", session="a")

    assert again.result == []


async def test_a_disk_that_takes_nothing_loses_no_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Idle sessions stay in memory, which the log says, until there are too many of them."""
    place = tmp_path / "idle"
    place.write_text("in the way of the folder", encoding="utf-8")
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1, running=2, sessions=1, idle_folder=place)) as sandbox:
        for name in ("a", "b", "c"):
            await sandbox.run("open('f', 'w').write(name)", session=name, context={"name": name})
        with pytest.raises(SandboxBroken) as caught:
            await sandbox.run("1", session="d")
        texts = [(await sandbox.run("open('f').read()", session=name)).result for name in ("a", "b", "c")]

    assert texts == ["a", "b", "c"]
    assert str(caught.value).startswith("The files of idle sessions cannot be put on disk: ")
    assert "The files of an idle session cannot be put on disk, and stay in memory" in caplog.text


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
import msgspec
from sealyard.sandbox import PoolOptions, open_sandbox
from sealyard.sandbox.policy import DEFAULT

async def main():
    policy = msgspec.structs.replace(DEFAULT, packages=())
    async with open_sandbox(policy, pool=PoolOptions(size=0, sessions=0, idle_folder=Path(sys.argv[1]))) as sandbox:
        await sandbox.run("open('f', 'w').close()", session="a")
        await sandbox.settle()
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_the_next_gateway_removes_what_a_killed_one_left_and_nothing_of_one_that_lives(tmp_path: Path) -> None:
    """Whose folder it is shows by its lock, which ends with the process however that ends."""
    options = PoolOptions(size=0, sessions=0, idle_folder=tmp_path)
    async with open_sandbox(PLAIN, pool=options) as living:
        await living.run("open('f', 'w').write('mine')", session="a")
        await living.settle()
        killed = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, str(tmp_path))
        ended = await killed.wait()
        left = len(list(tmp_path.iterdir()))
        async with open_sandbox(PLAIN, pool=options):
            swept = len(list(tmp_path.iterdir()))
        text = (await living.run("open('f').read()", session="a")).result

    assert (ended, left, swept, text) == (-9, 2, 1, "mine")
    assert list(tmp_path.iterdir()) == []
