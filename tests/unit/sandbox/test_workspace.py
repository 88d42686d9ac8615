"""A workspace as the host sees it: names in it are the agent's, and none of them leads the host astray."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.errors import InvalidRequest
from sealyard.sandbox.sessions.workspace import (
    Workspace,
    WorkspaceFile,
    check_session_name,
    directory_usage,
    remove_directory,
)


@pytest.fixture
def workspace(tmp_path: Path, drivers: list[Any]) -> Iterator[Workspace]:
    """An empty workspace in a folder of its own; `outside` beside it must stay as it is."""
    for driver in drivers:  # what other tests run must not open or close descriptors meanwhile
        driver.wait(driver.sandbox.settle())
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("of the host", encoding="utf-8")
    root_fd = os.open(tmp_path / "inside", os.O_RDONLY | os.O_DIRECTORY)
    yield Workspace("s", 1, root_fd)
    os.close(root_fd)
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["file"]
    assert (tmp_path / "outside" / "file").read_text(encoding="utf-8") == "of the host"


def refusal(attempt: object, *args: object) -> str:
    """The message with which `attempt` is refused."""
    with pytest.raises(InvalidRequest) as caught:
        attempt(*args)  # type: ignore[operator]
    return str(caught.value)


def open_descriptors() -> int:
    """How many descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))


BAD_PATHS = [
    "",
    "/",
    "/etc/passwd",
    "..",
    ".",
    "a/..",
    "../outside/file",
    "a//b",
    "a/",
    "./a",
    "a/../../b",
    "a\0b",
    "\ud800",
]


@pytest.mark.parametrize("number", range(len(BAD_PATHS)))
def test_path_that_could_leave_the_workspace_is_refused(workspace: Workspace, number: int) -> None:
    """Absolute paths, dots, empty parts and what cannot be a name, for reading and for writing."""
    path = BAD_PATHS[number]
    message = f"{path!r} is not a path inside the workspace. Give one like 'results/rows.json'."
    before = open_descriptors()

    assert refusal(workspace.read_bytes, path) == message
    assert refusal(workspace.write_bytes, path, b"x") == message
    assert (workspace.files(), open_descriptors()) == ([], before)


@given(path=st.text(max_size=30))
def test_any_path_is_a_file_or_refused(path: str) -> None:
    """Whatever text a model sends as a path, the host answers with a file or with `InvalidRequest`."""
    root_fd = os.open("/proc/self/fdinfo", os.O_RDONLY | os.O_DIRECTORY)
    try:
        Workspace("s", 1, root_fd).read_bytes(path)
    except InvalidRequest:
        pass
    finally:
        os.close(root_fd)


def test_what_is_written_is_read_back(workspace: Workspace) -> None:
    """Folders are made on the way, files replaced, and everybody inside may change them."""
    workspace.write_bytes("a/b/größe.bin", b"\x00\xff")
    workspace.write_bytes("a/b/größe.bin", b"new")
    root = Path(f"/proc/self/fd/{workspace.root_fd}")

    assert workspace.read_bytes("a/b/größe.bin") == b"new"
    assert workspace.files() == [
        WorkspaceFile(path="a", kind="folder", bytes=(root / "a").stat().st_size),
        WorkspaceFile(path="a/b", kind="folder", bytes=(root / "a/b").stat().st_size),
        WorkspaceFile(path="a/b/größe.bin", kind="file", bytes=3),
    ]
    assert [oct(stat.S_IMODE((root / path).stat().st_mode)) for path in ("a", "a/b", "a/b/größe.bin")] == [
        "0o777",
        "0o777",
        "0o666",
    ]


def test_links_are_neither_read_nor_written_nor_walked(workspace: Workspace, tmp_path: Path) -> None:
    """At the end of a path or in its middle; the fixture looks that the outside has not changed."""
    inside = tmp_path / "inside"
    (inside / "file").symlink_to(tmp_path / "outside" / "file")
    (inside / "folder").symlink_to(tmp_path / "outside")
    (inside / "loop").symlink_to("loop")
    (inside / "missing").symlink_to(tmp_path / "outside" / "new")
    before = open_descriptors()

    assert [refusal(workspace.read_bytes, path) for path in ("file", "folder/file", "loop", "missing")] == [
        "'file' cannot be read: Too many levels of symbolic links. List the workspace's files.",
        "'folder/file' cannot be reached: Not a directory.",
        "'loop' cannot be read: Too many levels of symbolic links. List the workspace's files.",
        "'missing' cannot be read: Too many levels of symbolic links. List the workspace's files.",
    ]
    assert [
        refusal(workspace.write_bytes, path, b"x") for path in ("file", "folder/file", "folder/x/y", "missing")
    ] == [
        "'file' cannot be written: Too many levels of symbolic links.",
        "'folder/file' cannot be reached: Not a directory.",
        "'folder/x/y' cannot be reached: Not a directory.",
        "'missing' cannot be written: Too many levels of symbolic links.",
    ]
    assert [(file.path, file.kind) for file in workspace.files()] == [
        ("file", "link"),
        ("folder", "link"),
        ("loop", "link"),
        ("missing", "link"),
    ]
    assert open_descriptors() == before


def test_what_is_not_a_file_is_not_read(workspace: Workspace, tmp_path: Path) -> None:
    """A pipe that nobody writes to does not hold up the host, and a folder is no file."""
    os.mkfifo(tmp_path / "inside" / "pipe")
    (tmp_path / "inside" / "folder").mkdir()
    before = open_descriptors()

    assert [refusal(workspace.read_bytes, path) for path in ("pipe", "folder", "none", "none/x", "pipe/x")] == [
        "'pipe' is not a regular file.",
        "'folder' is not a regular file.",
        "'none' cannot be read: No such file or directory. List the workspace's files.",
        "'none/x' cannot be reached: No such file or directory.",
        "'pipe/x' cannot be reached: Not a directory.",
    ]
    assert [refusal(workspace.write_bytes, path, b"x") for path in ("pipe", "folder")] == [
        "'pipe' cannot be written: No such device or address.",
        "'folder' cannot be written: Is a directory.",
    ]
    assert [(file.path, file.kind) for file in workspace.files()] == [("folder", "folder"), ("pipe", "other")]
    assert open_descriptors() == before


def test_file_larger_than_asked_for_is_refused(workspace: Workspace) -> None:
    """Nothing of it is read."""
    workspace.write_bytes("rows", b"x" * 1001)

    assert refusal(lambda: workspace.read_bytes("rows", max_bytes=1000)) == (
        "'rows' has 1,001 bytes, more than the 1,000 asked for."
    )
    assert len(workspace.read_bytes("rows", max_bytes=1001)) == 1001


def test_names_that_are_not_unicode_are_listed_so_that_they_can_be_sent(workspace: Workspace, tmp_path: Path) -> None:
    """Agents may use any bytes as a name; the list is plain data all the same."""
    with open(os.fsencode(tmp_path / "inside") + b"/\xff", "wb") as file:
        file.write(b"x")

    assert msgspec.json.encode(workspace.files()) == rb'[{"path":"\\xff","kind":"file","bytes":1}]'


def test_folders_are_listed_to_a_depth(workspace: Workspace, tmp_path: Path) -> None:
    """However deep the code digs, the list ends, with one descriptor open."""
    depth = 200
    folder = tmp_path / "inside" / "/".join(["d"] * depth)
    folder.mkdir(parents=True)

    assert 16 <= len(workspace.files()) < 20


def test_many_folders_do_not_use_up_the_descriptors(workspace: Workspace, tmp_path: Path) -> None:
    """A workspace of thousands of folders can be listed."""
    for n in range(1500):
        (tmp_path / "inside" / f"f{n}").mkdir()
    before = open_descriptors()

    assert (len(workspace.files()), open_descriptors()) == (1500, before)


@pytest.mark.parametrize("name", ["a", "A1", "user@example.org:tab-1_x.y", "9" * 100])
def test_session_names_that_are_fine(name: str) -> None:
    """They come back as they were given."""
    assert check_session_name(name) == name


def test_usage_counts_blocks_and_entries_without_following_links(tmp_path: Path) -> None:
    """Links count as entries, what they lead to does not count; a missing folder is empty."""
    inside = tmp_path / "inside"
    (inside / "folder").mkdir(parents=True)
    (inside / "folder" / "file").write_bytes(bytes(100_000))
    (tmp_path / "big").write_bytes(bytes(1_000_000))
    (inside / "link").symlink_to(tmp_path / "big")
    used, entries = directory_usage(inside)

    assert entries == 3
    assert 100_000 <= used < 200_000
    assert directory_usage(tmp_path / "none") == (0, 0)


def test_sparse_file_counts_what_it_takes(tmp_path: Path) -> None:
    """A hole costs nothing."""
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 30)

    assert directory_usage(tmp_path)[0] < 1 << 20


def test_directory_is_removed_whatever_the_code_left_in_it(tmp_path: Path) -> None:
    """Deep folders, taken-away permissions, links to the host, odd names and pipes."""
    inside = tmp_path / "inside"
    inside.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (inside / "link").symlink_to(outside)
    (inside / ".removed-1").mkdir()
    (inside / ".removed-1" / "file").touch()
    os.mkfifo(inside / "pipe")
    (inside / "\n").mkdir()
    closed = inside / "closed"
    (closed / "deeper").mkdir(parents=True)
    (closed / "deeper" / "file").touch()
    closed.chmod(0)
    here = os.open(inside, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deep", dir_fd=here)
        deeper = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    before = open_descriptors()

    remove_directory(inside)

    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert [path.name for path in outside.iterdir()] == ["kept"]
    assert open_descriptors() == before
    remove_directory(inside)
