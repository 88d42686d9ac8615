"""Files that are written wholly or not at all, on a real disk that fails in real ways."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.full_disk import room

from sealyard.disk import drafted, locked, new_file

OLD, NEW = b"old", b"new" * 10_000
DRAFT = "draft"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that is there already, alone in its folder."""
    (tmp_path / "kept").mkdir()
    path = tmp_path / "kept" / "file"
    path.write_bytes(OLD)
    return path


def write(path: Path, content: bytes, *, mode: int = 0o600, draft_name: str | None = None) -> None:
    """Write it all in one block."""
    with drafted(path, mode=mode, draft_name=draft_name) as draft:
        draft.write(content)


@pytest.mark.parametrize("draft_name", [None, DRAFT])
def test_new_content_replaces_the_old_when_the_block_ends(file: Path, draft_name: str | None) -> None:
    """Whoever reads meanwhile gets the old content, and no draft stays."""
    with drafted(file, draft_name=draft_name) as draft:
        draft.write(NEW)
        draft.flush()
        during = file.read_bytes()

    assert (during, file.read_bytes(), os.listdir(file.parent)) == (OLD, NEW, ["file"])


@pytest.mark.parametrize("draft_name", [None, DRAFT])
@pytest.mark.parametrize("size_bytes", [0, 1, len(NEW) - 1])
def test_full_disk_leaves_the_old_content_and_no_draft(file: Path, size_bytes: int, draft_name: str | None) -> None:
    """Wherever the content stops fitting, also when only closing the file finds out."""
    with room(size_bytes), pytest.raises(OSError, match="too large"):
        write(file, NEW, draft_name=draft_name)

    assert (file.read_bytes(), os.listdir(file.parent)) == (OLD, ["file"])
    with room(len(NEW)):
        write(file, NEW, draft_name=draft_name)
    assert file.read_bytes() == NEW


def test_failure_of_the_rename_leaves_no_draft(tmp_path: Path) -> None:
    """The content is on disk already when the folder in its place refuses to be replaced."""
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        write(tmp_path / "folder", NEW)

    assert os.listdir(tmp_path) == ["folder"]


def test_folder_that_takes_no_files_gets_none() -> None:
    """Not even root creates files in `/proc`; the error reaches the caller as it is."""
    with pytest.raises(OSError, match=r"/proc/\.file\."):
        write(Path("/proc/file"), NEW)


def test_interrupted_block_leaves_no_draft(file: Path) -> None:
    """Ctrl-C is not an `Exception`."""
    with pytest.raises(KeyboardInterrupt), drafted(file):
        signal.raise_signal(signal.SIGINT)

    assert (file.read_bytes(), os.listdir(file.parent)) == (OLD, ["file"])


def test_nobody_else_can_read_a_draft_at_any_moment(file: Path) -> None:
    """It has its mode from its creation, also where the old file had another one."""
    file.chmod(0o644)
    with drafted(file) as draft:
        during = stat.S_IMODE(os.fstat(draft.fileno()).st_mode)

    assert (during, stat.S_IMODE(file.stat().st_mode)) == (0o600, 0o600)


def test_mode_is_subject_to_the_umask(file: Path) -> None:
    """A file for everybody is for those that its user wants."""
    before = os.umask(0o027)
    try:
        write(file, NEW, mode=0o666)
    finally:
        os.umask(before)

    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_link_in_the_place_of_the_file_is_replaced(file: Path) -> None:
    """What it led to stays as it is."""
    link = file.with_name("link")
    link.symlink_to("file")
    write(link, NEW)

    assert (link.is_symlink(), link.read_bytes(), file.read_bytes()) == (False, NEW, OLD)


@pytest.mark.parametrize("is_link", [True, False])
def test_draft_of_a_killed_process_is_removed_and_never_written_through(file: Path, is_link: bool) -> None:
    """Somebody may have put a link there."""
    left = file.with_name(DRAFT)
    left.symlink_to("file") if is_link else left.write_bytes(b"left")
    write(file.with_name("other"), NEW, draft_name=DRAFT)

    assert sorted(os.listdir(file.parent)) == ["file", "other"]
    assert (file.read_bytes(), file.with_name("other").read_bytes()) == (OLD, NEW)


def test_new_file_never_touches_one_that_exists(file: Path) -> None:
    """Neither a file nor a link, whether it leads anywhere or not."""
    link = file.with_name("link")
    link.symlink_to("nowhere")
    for path in (file, link):
        with pytest.raises(FileExistsError), new_file(path) as opened:
            opened.write(NEW)

    assert file.read_bytes() == OLD
    assert not file.with_name("nowhere").exists()


TRY = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)"


def test_lock_on_a_folder_excludes_other_processes_until_it_is_released(tmp_path: Path) -> None:
    """The one that is locked out can go on at once afterwards."""

    def try_lock() -> int:
        tried = subprocess.run([sys.executable, "-c", TRY, tmp_path], capture_output=True, timeout=30, check=False)
        return tried.returncode

    with locked(tmp_path):
        during = try_lock()

    assert (during, try_lock()) == (1, 0)
