"""Users' files are replaced whole or not at all, and come back byte for byte."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sealyard.config import Machine, read_machine
from sealyard.config.clients.backups import Backup, backup_folder, find_backups
from sealyard.config.clients.rewrite import Change, replace_file
from sealyard.errors import InvalidConfig, InvalidRequest

OLD = b'{"old": "\xff\x00"}\r\n'
NEW = b'{"new": 1}\n'


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A home, with a project in it."""
    (tmp_path / "shop").mkdir()
    return read_machine(environ={"HOME": str(tmp_path)}, directory=tmp_path / "shop", platform="linux")


@pytest.fixture
def file(machine: Machine) -> Path:
    """A file that only its owner and group read."""
    file = machine.directory / "mcp.json"
    file.write_bytes(OLD)
    file.chmod(0o640)
    return file


def change(machine: Machine, file: Path, *, old: bytes | None, new: bytes, inside: Path | None = None) -> Backup:
    """Change a file, and find the backup."""
    kept_in = backup_folder(machine)
    path = Change(client="cursor", path=file, inside=inside, old=old, new=new, kept_in=kept_in).write()
    return next(backup for backup in find_backups(machine)[0] if backup.path == path)


def undo(machine: Machine, file: Path, backup: Backup) -> None:
    """Put back what the file was before its only change."""
    kept_in, new = backup_folder(machine), backup.read_original()
    undoing = Change(client="cursor", path=file, old=NEW, new=new, kept_in=kept_in, backups=(backup,))
    assert undoing.write() is None


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(each.name for each in folder.iterdir())


def test_change_keeps_the_mode_and_leaves_a_backup(machine: Machine, file: Path) -> None:
    """The backup is in a folder that only the user reads, not beside the file, and restoring it leaves no trace."""
    backup = change(machine, file, old=OLD, new=NEW)
    folder = machine.home / ".local" / "share" / "sealyard" / "clients"

    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (NEW, 0o640)
    assert (backup.read_original(), backup.path.parent, names(file.parent)) == (OLD, folder, ["mcp.json"])
    assert [stat.S_IMODE(each.stat().st_mode) for each in (backup.path, folder, folder.parent)] == [0o600, 0o700, 0o700]
    undo(machine, file, backup)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode), names(folder)) == (OLD, 0o640, [])


def test_file_that_was_not_there_goes_away_again(machine: Machine) -> None:
    """It is readable by nobody else while it exists, and its folder is made."""
    file = machine.directory / "deep" / "new.json"
    backup = change(machine, file, old=None, new=NEW)

    assert (stat.S_IMODE(file.stat().st_mode), backup.read_original()) == (0o600, None)
    undo(machine, file, backup)
    assert names(file.parent) == []


def test_backup_that_was_altered_is_not_used(machine: Machine, file: Path) -> None:
    """Its record has the digest of the content, and one that cannot be read is named."""
    backup = change(machine, file, old=OLD, new=NEW)
    backup.path.write_bytes(backup.path.read_bytes() + b" ")
    with pytest.raises(InvalidConfig, match="has changed"):
        backup.read_original()

    backup.path.write_bytes(b"[1]\n")
    assert find_backups(machine) == (
        [],
        [f"{str(backup.path)!r} is no backup that sealyard can read. Look into it, and remove it."],
    )


def test_path_of_any_bytes_is_kept(machine: Machine) -> None:
    """The name of a folder need not be text."""
    file = machine.directory / os.fsdecode(b"\xff") / "mcp.json"
    backup = change(machine, file, old=None, new=NEW)

    assert Path(backup.record.file) == file


def test_own_link_is_followed(machine: Machine, file: Path) -> None:
    """A home kept under version control consists of links; they stay links."""
    link = machine.home / "mcp.json"
    link.symlink_to("shop/mcp.json")
    change(machine, link, old=OLD, new=NEW)

    assert (link.is_symlink(), file.read_bytes()) == (True, NEW)


@pytest.mark.behaviour("clients.links")
@pytest.mark.parametrize("way", ["file", "folder"])
def test_link_out_of_a_project_is_not_followed(machine: Machine, way: str) -> None:
    """A cloned project must not choose which file of the user is written; a link within it is its own matter."""
    target = machine.home / "mine" / "mcp.json"
    target.parent.mkdir()
    target.write_bytes(OLD)
    link = machine.directory / ".cursor" / "mcp.json"
    if way == "folder":
        link.parent.symlink_to("../mine")
    else:
        link.parent.mkdir()
        link.symlink_to("../../mine/mcp.json")
    with pytest.raises(InvalidRequest) as caught:
        change(machine, link, old=OLD, new=NEW, inside=machine.directory)

    assert str(caught.value) == (
        f"{str(link)!r} leads to {str(target)!r}, which is not in the project {str(machine.directory)!r}. It stays as"
        " it is; a project must not choose what else is written, so change that file by hand."
    )
    assert (target.read_bytes(), find_backups(machine)) == (OLD, ([], []))

    own = machine.directory / "own.json"
    own.write_bytes(OLD)
    inner = machine.directory / "inner.json"
    inner.symlink_to("own.json")
    change(machine, inner, old=OLD, new=NEW, inside=machine.directory)
    assert own.read_bytes() == NEW


def test_link_to_nothing_is_not_followed(tmp_path: Path) -> None:
    """A cloned project may hold a link to a file that a shell or a desktop would obey once it is there."""
    link = tmp_path / ".mcp.json"
    link.symlink_to(tmp_path / "absent")
    with pytest.raises(InvalidRequest) as caught:
        replace_file(link, old=None, new=NEW)

    assert str(caught.value) == (
        f"{str(link)!r} is a link to {str(tmp_path / 'absent')!r}, where there is no file. Remove the link."
    )
    assert names(tmp_path) == [".mcp.json"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_owner_stays_the_owner(file: Path) -> None:
    """With sudo, a user's file does not become root's."""
    os.chown(file, 12345, 23456)
    replace_file(file, old=OLD, new=NEW)

    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 23456)


def test_read_only_file_is_left_alone(machine: Machine, file: Path) -> None:
    """A new file could take its place in a writable folder, but somebody meant it to stay; no backup is left."""
    file.chmod(0o440)
    with pytest.raises(InvalidRequest) as caught:
        change(machine, file, old=OLD, new=NEW)

    assert str(caught.value) == f"{str(file)!r} is read-only. It is as it was; make it writable first."
    assert (file.read_bytes(), names(file.parent), names(backup_folder(machine))) == (OLD, ["mcp.json"], [])


def test_file_that_somebody_else_changed_is_left_alone(machine: Machine, file: Path) -> None:
    """A client may write its file while its user reads the diff."""
    with pytest.raises(InvalidRequest) as caught:
        change(machine, file, old=b"what the diff was made of", new=NEW)

    assert str(caught.value) == (
        f"{str(file)!r} was changed by somebody else just now. It is as they left it; try again."
    )
    assert (file.read_bytes(), names(file.parent), names(backup_folder(machine))) == (OLD, ["mcp.json"], [])


BETWEEN = """
import sys
from pathlib import Path
from sealyard.config.clients.rewrite import replace_file
from sealyard.errors import InvalidRequest

file = Path(sys.argv[1])

def hook(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".new"):
        file.write_bytes(b"by the client")

old = file.read_bytes()
sys.addaudithook(hook)
try:
    replace_file(file, old=old, new=b"new")
except InvalidRequest as error:
    print(error)
"""


def test_file_that_its_client_writes_during_the_change_is_left_alone(file: Path) -> None:
    """It is looked at again when the new text is on disk, just before that takes its place."""
    command = [sys.executable, "-c", BETWEEN, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)

    assert "was changed by somebody else just now" in done.stdout
    assert (file.read_bytes(), names(file.parent)) == (b"by the client", ["mcp.json"])


def test_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Even root cannot make a folder inside a file."""
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequest) as caught:
        replace_file(tmp_path / "file" / "x.json", old=None, new=NEW)

    assert str(caught.value).startswith(f"{str(tmp_path / 'file' / 'x.json')!r} cannot be written: ")


KILLED = """
import os, signal, sys
from pathlib import Path
from sealyard.config.clients.rewrite import Change

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
old, kept_in = file.read_bytes(), Path(sys.argv[3])
Change(client="cursor", path=file, old=old, new=b"new" * 100_000, kept_in=kept_in).write()
"""


def test_death_at_any_step_leaves_the_old_file_or_the_new_one(machine: Machine, file: Path) -> None:
    """Killed before the first write, the second, and so on until it gets through; then an undo has all it needs."""
    steps = 0
    done = -9
    while done == -9:
        steps += 1
        command = [sys.executable, "-c", KILLED, str(file), str(steps), str(backup_folder(machine))]
        done = subprocess.run(command, capture_output=True, timeout=30, check=False).returncode
        assert file.read_bytes() == (OLD if done == -9 else b"new" * 100_000)

    assert (done, steps > 3) == (0, True)
    backups, problems = find_backups(machine)
    assert problems == []
    assert {backup.read_original() for backup in backups} == {OLD}
