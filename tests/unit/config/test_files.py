"""Users' files are replaced whole or not at all, and come back byte for byte."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sealyard.config.clients.rewrite import Backup, Change, change_file, find_backups, replace_file
from sealyard.errors import InvalidRequest

OLD = b'{"old": "\xff\x00"}\r\n'
NEW = b'{"new": 1}\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that only its owner and group read."""
    file = tmp_path / "mcp.json"
    file.write_bytes(OLD)
    file.chmod(0o640)
    return file


def undo(file: Path, backup: Backup) -> None:
    """Put back what the file was before its only change."""
    change = Change(client="", path=file, old=NEW, new=backup.read_original(), backups=(backup,))
    assert change.write() is None


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(each.name for each in folder.iterdir())


def test_change_keeps_the_mode_and_leaves_a_backup(file: Path) -> None:
    """The backup is the old file, and restoring it leaves no trace."""
    backup = change_file(file, old=OLD, new=NEW)

    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (NEW, 0o640)
    assert (backup.path.read_bytes(), stat.S_IMODE(backup.path.stat().st_mode)) == (OLD, 0o640)
    assert find_backups(file) == [backup]
    undo(file, backup)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode), names(file.parent)) == (OLD, 0o640, ["mcp.json"])


def test_file_that_was_not_there_goes_away_again(tmp_path: Path) -> None:
    """It is readable by nobody else while it exists, and its folder is made."""
    file = tmp_path / "deep" / "new.json"
    backup = change_file(file, old=None, new=NEW)

    assert (stat.S_IMODE(file.stat().st_mode), backup.read_original()) == (0o600, None)
    undo(file, backup)
    assert names(file.parent) == []


def test_newest_backup_comes_first(file: Path) -> None:
    """Backups of other files, and files that only look like one, are not taken for it."""
    change_file(file, old=OLD, new=NEW)
    newest = change_file(file, old=NEW, new=b"3")
    change_file(file.with_name("mcp.json5"), old=None, new=NEW)
    file.with_name("mcp.json.sealyard-backup-99999999T999999999999Z-nonsense").touch()

    assert find_backups(file)[0] == newest


def test_link_is_followed(file: Path, tmp_path: Path) -> None:
    """A home kept under version control consists of links; they stay links, and backups lie beside them."""
    link = tmp_path / "home" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to("../mcp.json")
    backup = change_file(link, old=OLD, new=NEW)

    assert (link.is_symlink(), file.read_bytes(), backup.path.parent) == (True, NEW, link.parent)


def test_link_to_nothing_is_not_followed(tmp_path: Path) -> None:
    """A cloned project may hold a link to a file that a shell or a desktop would obey once it is there."""
    link = tmp_path / ".mcp.json"
    link.symlink_to(tmp_path / "absent")
    with pytest.raises(InvalidRequest) as caught:
        replace_file(link, NEW)

    assert str(caught.value) == (
        f"{str(link)!r} is a link to {str(tmp_path / 'absent')!r}, where there is no file. Remove the link."
    )
    assert names(tmp_path) == [".mcp.json"]


def test_link_is_no_backup(file: Path, tmp_path: Path) -> None:
    """A cloned project may hold a link to a secret under the name of a backup."""
    backup = change_file(file, old=OLD, new=NEW)
    secret = tmp_path / "secret"
    backup.path.rename(secret)
    backup.path.symlink_to(secret)

    assert find_backups(file) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_owner_stays_the_owner(file: Path) -> None:
    """With sudo, a user's file does not become root's."""
    os.chown(file, 12345, 23456)
    replace_file(file, NEW)

    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 23456)


def test_read_only_file_is_left_alone(file: Path) -> None:
    """A new file could take its place in a writable folder, but somebody meant it to stay; no backup is left."""
    file.chmod(0o440)
    with pytest.raises(InvalidRequest) as caught:
        change_file(file, old=OLD, new=NEW)

    assert str(caught.value) == (
        f"{str(file)!r} is read-only or no regular file. It is as it was; make it writable first."
    )
    assert (file.read_bytes(), names(file.parent)) == (OLD, ["mcp.json"])


def test_file_that_somebody_else_changed_is_left_alone(file: Path) -> None:
    """A client may write its file while its user reads the diff."""
    with pytest.raises(InvalidRequest) as caught:
        change_file(file, old=b"what the diff was made of", new=NEW)

    assert str(caught.value) == (
        f"{str(file)!r} was changed by somebody else just now. It is as they left it; try again."
    )
    assert (file.read_bytes(), names(file.parent)) == (OLD, ["mcp.json"])


def test_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Even root cannot make a folder inside a file."""
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequest) as caught:
        replace_file(tmp_path / "file" / "x.json", NEW)

    assert str(caught.value).startswith(f"{str(tmp_path / 'file' / 'x.json')!r} cannot be written: ")


KILLED = """
import os, signal, sys
from pathlib import Path
from sealyard.config.clients.rewrite import change_file

left = int(sys.argv[2])

def hook(event, arguments):
    global left
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_WRONLY
    if writes or event in ("os.rename", "os.chmod", "os.chown"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

file = Path(sys.argv[1])
sys.addaudithook(hook)
change_file(file, old=file.read_bytes(), new=b"new" * 100_000)
"""


def test_death_at_any_step_leaves_the_old_file_or_the_new_one(file: Path) -> None:
    """Killed before the first write, the second, and so on until it gets through; then an undo has all it needs."""
    steps = 0
    done = -9
    while done == -9:
        steps += 1
        done = subprocess.run(
            [sys.executable, "-c", KILLED, file, str(steps)], capture_output=True, timeout=30, check=False
        ).returncode
        assert file.read_bytes() == (OLD if done == -9 else b"new" * 100_000)

    assert (done, steps > 3) == (0, True)
    backup = next(iter(find_backups(file)), None)
    assert backup is not None
    assert backup.read_original() == OLD
