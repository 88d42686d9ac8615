"""Signed archives of skills: what is packed is what comes out, the same bytes each time, and its signer is known."""

import errno
import io
import os
import random
import shutil
import stat
import subprocess
import threading
import zipfile
from pathlib import Path

import pytest

from sealyard.errors import InvalidSkill
from sealyard.skills.sharing import (
    SigningKey,
    load_folder,
    read_archive,
    read_folder,
    to_folder,
    write_archive,
)
from sealyard.skills.sharing.archive import Archive
from sealyard.skills.sharing.files import BYTES_MOST, SkillFolder, write_folder
from sealyard.values.skills import Skill, SkillExample


def a_folder(name: str = "total", **more: bytes) -> SkillFolder:
    """A small skill, with further files in `assets/`."""
    folder = to_folder(Skill(namespace="shared", name=name, code=f"{name} = 1\n"))
    return SkillFolder(name=folder.name, files={**folder.files, **{f"assets/{key}": more[key] for key in more}})


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    """Whose archives are trusted."""
    return SigningKey.load_or_make(tmp_path / "keys" / "skills.key")


def test_folders_come_out_as_they_were_packed(tmp_path: Path, key: SigningKey) -> None:
    """Sorted by name, with the name of the key that signed."""
    path = tmp_path / "new" / "skills.zip"
    folders = [a_folder("two"), a_folder("one", **{"é ü.bin": bytes(range(256)), "inner.zip": b"PK\3\4"})]

    digest = write_archive(path, folders, key)

    assert read_archive(path, trusted={"other": "00" * 32, "team": key.public.upper()}) == Archive(
        folders=(folders[1], folders[0]), signer="team", is_trusted=True, digest=digest
    )
    assert os.listdir(path.parent) == ["skills.zip"]


def test_the_same_folders_give_the_same_bytes(tmp_path: Path, key: SigningKey) -> None:
    """Whatever their order, and whenever they are packed."""
    first, second = a_folder("one"), a_folder("two")
    swapped = SkillFolder(name=first.name, files=dict(reversed(first.files.items())))

    digests = {
        write_archive(tmp_path / "a.zip", [first, second], key),
        write_archive(tmp_path / "b.zip", [second, swapped], key),
    }

    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert len(digests) == 1
    assert write_archive(tmp_path / "c.zip", [first], key) not in digests


def test_other_programs_read_the_archive(tmp_path: Path, key: SigningKey) -> None:
    """Unpacked with the standard library, each folder is the skill's."""
    folder = a_folder()
    write_archive(tmp_path / "a.zip", [folder], key)

    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path / "out")

    assert load_folder(tmp_path / "out" / "total") == folder.files
    assert sorted(os.listdir(tmp_path / "out")) == ["sealyard-manifest.json", "sealyard-manifest.sig", "total"]


def test_a_stranger_s_signature_is_named_by_its_key(tmp_path: Path, key: SigningKey) -> None:
    """It proves that nothing was changed; whom it belongs to is for a person to say."""
    write_archive(tmp_path / "a.zip", [a_folder()], key)

    found = read_archive(tmp_path / "a.zip", trusted={"team": "ab" * 32})

    assert (found.signer, found.is_trusted) == (f"ed25519:{key.public}", False)


def test_an_archive_without_a_signature_is_read_only_if_allowed(tmp_path: Path) -> None:
    """And has no signer."""
    folder = a_folder()
    digest = write_archive(tmp_path / "a.zip", [folder], None)

    with pytest.raises(InvalidSkill) as caught:
        read_archive(tmp_path / "a.zip", trusted={})
    assert str(caught.value) == (
        f"The archive {str(tmp_path / 'a.zip')!r} is not signed. Ask for a signed one, or allow unsigned ones if you"
        " know its origin."
    )
    assert read_archive(tmp_path / "a.zip", trusted={}, allow_unsigned=True) == Archive(
        folders=(folder,), signer=None, is_trusted=False, digest=digest
    )


@pytest.mark.parametrize("program", ["zip", "python"])
def test_a_zip_that_another_program_made_is_read(tmp_path: Path, program: str) -> None:
    """With its folders, times and streamed sizes, and with the digest ours would have."""
    folder = a_folder(data=b"x" * 1000)
    write_folder(folder, tmp_path / "in")
    path = tmp_path / "a.zip"
    if program == "zip":
        if (command := shutil.which("zip")) is None:
            pytest.skip("there is no zip here")
        subprocess.run([command, "-q", "-r", path, "total"], cwd=tmp_path / "in", check=True, timeout=60)
    else:
        target = Unseekable()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.mkdir("total")
            for name, content in folder.files.items():
                archive.writestr(f"total/{name}", content)
        path.write_bytes(target.getvalue())

    found = read_archive(path, trusted={}, allow_unsigned=True)

    assert found.folders == (folder,)
    assert found.digest == write_archive(tmp_path / "b.zip", [folder], None)


class Unseekable(io.BytesIO):
    """A stream: sizes must follow the data."""

    def seekable(self) -> bool:
        """It is not."""
        return False

    def tell(self) -> int:
        """Streams do not know."""
        raise OSError

    def seek(self, offset: int, whence: int = 0) -> int:
        """Streams cannot."""
        raise OSError


def test_what_packs_too_well_is_packed_so_that_it_can_be_read(tmp_path: Path, key: SigningKey) -> None:
    """A recording that repeats itself is no bomb."""
    folder = a_folder(zeros=bytes(2_000_000), noise=random.Random(1).randbytes(200_000))

    write_archive(tmp_path / "a.zip", [folder], key)

    assert read_archive(tmp_path / "a.zip", trusted={}).folders == (folder,)


def test_the_largest_archive_that_is_written_is_read(tmp_path: Path, key: SigningKey) -> None:
    """Four folders of the largest size are too much with their manifest, a little less is not."""
    zeros = bytes(BYTES_MOST - 2000)
    folders = [a_folder(f"s{n}", zeros=zeros) for n in range(4)]

    with pytest.raises(InvalidSkill) as caught:
        write_archive(tmp_path / "a.zip", [*folders, a_folder("s4", zeros=bytes(8000))], key)
    assert str(caught.value) == (
        "5 skills are too much for one archive: it takes 4,096 files and 64 MiB. Write several."
    )
    assert not (tmp_path / "a.zip").exists()

    write_archive(tmp_path / "a.zip", folders, key)
    assert read_archive(tmp_path / "a.zip", trusted={}).folders == tuple(folders)


def test_a_path_of_the_longest_kind_survives(tmp_path: Path, key: SigningKey) -> None:
    """The name of its folder in the archive does not count against it."""
    files = {"SKILL.md": b"", "/".join("abcdefgh"): b"deep", "x" * 512: b"long"}
    folder = SkillFolder(name="n" * 64, files=files)

    write_archive(tmp_path / "a.zip", [folder], key)

    assert read_archive(tmp_path / "a.zip", trusted={}).folders == (folder,)


def test_an_archive_is_replaced_only_on_purpose(tmp_path: Path, key: SigningKey) -> None:
    """What is there is there."""
    path = tmp_path / "a.zip"
    path.write_bytes(b"mine")

    with pytest.raises(InvalidSkill) as caught:
        write_archive(path, [a_folder()], key)
    assert str(caught.value) == f"{str(path)!r} exists. Choose another name, or replace it on purpose."
    assert path.read_bytes() == b"mine"

    write_archive(path, [a_folder()], key, replace=True)
    assert read_archive(path, trusted={}).folders == (a_folder(),)


@pytest.mark.parametrize("names", [[], ["a_b", "a__b"]])
def test_folders_must_have_names_of_their_own(tmp_path: Path, key: SigningKey, names: list[str]) -> None:
    """Two skills may become one folder name; neither is lost silently."""
    with pytest.raises(InvalidSkill):
        write_archive(tmp_path / "a.zip", [a_folder(name) for name in names], key)
    assert not (tmp_path / "a.zip").exists()


def test_a_directory_that_cannot_be_written_is_said_so(tmp_path: Path, key: SigningKey) -> None:
    """Here a file is in the way."""
    (tmp_path / "file").write_bytes(b"")
    path = tmp_path / "file" / "a.zip"

    with pytest.raises(InvalidSkill) as caught:
        write_archive(path, [a_folder()], key)

    assert str(caught.value) == (
        f"{str(path)!r} cannot be written: {os.strerror(errno.EEXIST)}. Make room and check the rights."
    )


def test_a_skill_goes_through_an_archive_exactly(tmp_path: Path, key: SigningKey) -> None:
    """From the shelf of one machine to the import of another."""
    example = SkillExample(inputs={"a": [1, None, {"b": 2.5}]}, output="x")
    skill = Skill(namespace="shared", name="total", code="total = 1\n", description="d", examples=(example,))
    write_archive(tmp_path / "a.zip", [to_folder(skill)], key)

    (folder,) = read_archive(tmp_path / "a.zip", trusted={}).folders

    found = read_folder(folder.files, name=folder.name)
    assert (found.name, found.code, found.description, found.examples) == ("total", "total = 1\n", "d", (example,))
    assert found.warnings == ()


# Keys


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    """The second time it is read."""
    path = tmp_path / "new" / "skills.key"

    first, second = SigningKey.load_or_make(path), SigningKey.load_or_make(path)

    assert first.public == second.public
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["skills.key"]


def test_all_who_make_a_key_at_once_have_the_same_one(tmp_path: Path) -> None:
    """No archive is signed by a key that is on no disk."""
    ready = threading.Barrier(8)
    made: list[str] = []

    def make() -> None:
        ready.wait(10)
        made.append(SigningKey.load_or_make(tmp_path / "skills.key").public)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert made == [SigningKey.load_or_make(tmp_path / "skills.key").public] * 8
    assert os.listdir(tmp_path) == ["skills.key"]


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    """It may not be its owner's alone any more."""
    path = tmp_path / "skills.key"
    SigningKey.load_or_make(path)
    path.chmod(0o640)

    with pytest.raises(InvalidSkill) as caught:
        SigningKey.load_or_make(path)

    assert str(caught.value) == (
        f"The signing key {str(path)!r} can be used by others: its mode is 0640. Run `chmod 600` on it, and remove it"
        " if somebody may have read it."
    )


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_file_that_is_no_key_is_kept_and_refused(tmp_path: Path, content: bytes) -> None:
    """It is not replaced by a new one: it may be somebody's."""
    path = tmp_path / "skills.key"
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(InvalidSkill) as caught:
        SigningKey.load_or_make(path)

    assert str(caught.value) == f"The signing key {str(path)!r} is not a key. Restore it from a copy."
    assert path.read_bytes() == content
