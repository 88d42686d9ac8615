"""Packing a workspace: as an ordinary user whose own code has closed folders and files to it."""

import os
from pathlib import Path

import pytest

from sealyard.sandbox.sessions.shelf import pack, unpack
from sealyard.sandbox.sessions.workspace import acting_as

USER = 65_534 if os.geteuid() == 0 else None  # an ordinary user has no power over what is closed to it


def tree(root: Path) -> dict[str, tuple[int, bytes | None]]:
    """Permissions and content by path, read with every power that the tests have."""
    found: dict[str, tuple[int, bytes | None]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            found[str(path.relative_to(root))] = (path.lstat().st_mode, path.read_bytes() if path.is_file() else None)
    return found


@pytest.mark.skipif(USER is None, reason="The tree is compared by root.")
def test_what_is_closed_to_its_owner_is_packed_and_left_closed(tmp_path: Path) -> None:
    """Permissions that the code took away are put back on the source and set on the copy, without any power of root."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "closed" / "deeper").mkdir(parents=True)
    (source / "closed" / "file").write_bytes(b"content")
    target.mkdir()
    for path, mode in (
        (target, 0o700),
        (source / "closed" / "file", 0),
        (source / "closed" / "deeper", 0o400),
        (source / "closed", 0),
        (source, 0o700),
    ):
        os.chown(path, 65_534, 65_534)
        path.chmod(mode)
    roots = [os.open(place, os.O_RDONLY | os.O_DIRECTORY) for place in (source, target)]
    before = tree(source)
    with (tmp_path / "packed").open("xb") as file, acting_as(USER):
        linked = pack(roots[0], file)
    with (tmp_path / "packed").open("rb") as file, acting_as(USER):
        unpack(file, roots[1])
    for root in roots:
        os.close(root)

    assert (linked, set(before)) == (0, {"closed", "closed/file", "closed/deeper"})
    assert (tree(source), tree(target)) == (before, before)


def test_an_empty_workspace_packs_to_nothing(tmp_path: Path) -> None:
    """There is nothing to keep of it."""
    (tmp_path / "source").mkdir()
    root = os.open(tmp_path / "source", os.O_RDONLY | os.O_DIRECTORY)
    with (tmp_path / "packed").open("xb") as file:
        linked = pack(root, file)
    os.close(root)

    assert (linked, (tmp_path / "packed").stat().st_size) == (0, 0)
