"""Attacks on importing skills: archives and folders that lie, escape, explode or pass for somebody else's.

Each attack changes one thing of an archive or a folder that is read as it is; the first test of each part shows that.
"""

import json
import os
import random
import stat
import struct
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sealyard.errors import InvalidSkill
from sealyard.skills.sharing import SigningKey, load_folder, read_archive, write_archive
from sealyard.skills.sharing.archive import ENTRIES_MOST, UNPACKED_BYTES_MOST, read_zip
from sealyard.skills.sharing.files import BYTES_MOST, SkillFolder

ADVICE = (
    "Archives of skills are .zip files, as `sealyard skills export` writes them; unpack others and import the folder."
)
FOLDER = SkillFolder(
    name="total",
    files={"SKILL.md": b"---\nname: total\ndescription: d\n---\n", "scripts/total.py": b"total = 1\n" * 50},
)


class Entry:
    """One entry of an archive, of which any field may lie."""

    def __init__(self, name: str | bytes, content: bytes = b"", **fields: Any) -> None:
        self.name = name if isinstance(name, bytes) else name.encode()
        self.content = content
        packing = zlib.compressobj(9, zlib.DEFLATED, -15)
        self.packed = fields.pop("packed", packing.compress(content) + packing.flush())
        known = {"flags": 1 << 11, "method": 8, "crc": zlib.crc32(content), "size": len(content), "system": 3}
        known |= {
            "packed_size": len(self.packed),
            "mode": stat.S_IFREG | 0o644,
            "extra": b"",
            "offset": None,
            "local": {},
        }
        self.fields = known | fields

    def local(self) -> bytes:
        """Its own header, and its data."""
        fields = self.fields | {"name": self.name} | self.fields["local"]
        return (
            struct.pack(
                "<4s5H3L2H",
                b"PK\3\4",
                20,
                fields["flags"],
                fields["method"],
                0,
                33,
                fields["crc"],
                fields["packed_size"],
                fields["size"],
                len(fields["name"]),
                len(fields["extra"]),
            )
            + fields["name"]
            + fields["extra"]
            + self.packed
        )

    def central(self, offset: int) -> bytes:
        """Its line in the directory."""
        fields = self.fields
        return (
            struct.pack(
                "<4s6H3L5H2L",
                b"PK\1\2",
                fields["system"] << 8 | 20,
                20,
                fields["flags"],
                fields["method"],
                0,
                33,
                fields["crc"],
                fields["packed_size"],
                fields["size"],
                len(self.name),
                len(fields["extra"]),
                0,
                0,
                0,
                fields["mode"] << 16,
                offset if fields["offset"] is None else fields["offset"],
            )
            + self.name
            + fields["extra"]
        )


def zipped(*entries: Entry, before: bytes = b"", between: bytes = b"", after: bytes = b"", **end: int) -> bytes:
    """An archive of these entries."""
    content, directory = before, b""
    for entry in entries:
        directory += entry.central(len(content))
        content += entry.local()
    content += between
    known = {"count": len(entries), "size": len(directory), "start": len(content), "comment": len(after)} | end
    mark = struct.pack(
        "<4s4H2LH", b"PK\5\6", 0, 0, known["count"], known["count"], known["size"], known["start"], known["comment"]
    )
    return content + directory + mark + after


def unfinished(content: bytes) -> bytes:
    """Packed whole, but for the mark that nothing follows."""
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packing.compress(content) + packing.flush(zlib.Z_SYNC_FLUSH)


GOOD = Entry("total/SKILL.md", FOLDER.files["SKILL.md"])
CODE = Entry("total/scripts/total.py", FOLDER.files["scripts/total.py"])


def refused(tmp_path: Path, content: bytes) -> str:
    """What is said of the archive; nothing is written and nothing stays open."""
    path = tmp_path / "a.zip"
    path.write_bytes(content)
    held = os.listdir("/proc/self/fd")
    with pytest.raises(InvalidSkill) as caught:
        read_archive(path, trusted={}, allow_unsigned=True)
    assert os.listdir("/proc/self/fd") == held
    assert os.listdir(tmp_path) == ["a.zip"]
    said = str(caught.value)
    assert said.startswith(f"The archive {str(path)!r} ")
    return said.removeprefix(f"The archive {str(path)!r} ")


# Names


def test_the_archive_that_the_attacks_change_is_read(tmp_path: Path) -> None:
    """The control: with folders of its own, streamed sizes, extra fields and stored data, by us and by the library."""
    path = tmp_path / "a.zip"
    sizes = struct.pack("<3L", zlib.crc32(CODE.content), len(CODE.packed), len(CODE.content))
    streamed = Entry(CODE.name, CODE.content, flags=1 << 3, local={"crc": 0, "size": 0, "packed_size": 0})
    for descriptor in (b"PK\7\x08" + sizes, sizes):
        streamed.packed = CODE.packed + descriptor
        stored = Entry(GOOD.name, packed=GOOD.content, method=0, crc=GOOD.fields["crc"], size=len(GOOD.content))
        stored.fields["extra"] = struct.pack("<2H", 0x5455, 5) + bytes(5)
        path.write_bytes(zipped(Entry("total/", mode=stat.S_IFDIR, packed=b"", method=0), stored, streamed))

        assert read_archive(path, trusted={}, allow_unsigned=True).folders == (FOLDER,)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/etc/cron.d/x", "which is not a path inside of the folder"),
        ("../x", "which is not a path inside of the folder"),
        ("total/../../x", "which is not a path inside of the folder"),
        ("total/./x", "which is not a path inside of the folder"),
        ("total//x", "which is not a path inside of the folder"),
        ("total/x/../", "which is not a path inside of the folder"),
        ("total//", "which is not a path inside of the folder"),
        ("", "which is not a path inside of the folder"),
        ("/", "which is not a path inside of the folder"),
        ("total\\..\\x", "whose name has a backslash, a colon or a character that cannot be seen"),
        ("C:/x", "whose name has a backslash, a colon or a character that cannot be seen"),
        ("total/x:stream", "whose name has a backslash, a colon or a character that cannot be seen"),
        ("total/x\x00.py", "whose name has a backslash, a colon or a character that cannot be seen"),
        ("total/\x1b[2J", "whose name has a backslash, a colon or a character that cannot be seen"),
        ("total/\u202eyp.x", "whose name has a backslash, a colon or a character that cannot be seen"),
        ("total/x\n", "whose name has a backslash, a colon or a character that cannot be seen"),
        ("total/x.", "whose name ends with a dot or a space"),
        ("total/x /y", "whose name ends with a dot or a space"),
        ("total/" + "a/" * 9 + "x", "whose path has more than 512 bytes or 8 parts"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    """Whatever system it would lead somewhere on, and whatever else is sound."""
    mode = stat.S_IFDIR if name.endswith("/") else stat.S_IFREG
    said = refused(tmp_path, zipped(GOOD, Entry(name, mode=mode)))

    assert said == f"holds {name.removesuffix('/')!r}, {reason}. Rename or remove it."


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("total/x", "total/x"),
        ("total/x", "total/X"),
        ("total/é", "total/e\u0301"),
        ("total/straße", "total/STRASSE"),
        ("total/A/x", "total/a/y"),
        ("total/x", "total/x/y"),
        ("total/x/y", "total/x"),
        ("total/x/", "total/x"),
        ("total/x", "total/X/"),
        ("Total/x", "total/y"),
    ],
)
def test_two_names_of_one_file_are_refused(tmp_path: Path, first: str, second: str) -> None:
    """One of them would be seen by the reader and the other one by the machine."""
    entries = [Entry(name, mode=stat.S_IFDIR if name.endswith("/") else stat.S_IFREG) for name in (first, second)]

    said = refused(tmp_path, zipped(GOOD, *entries))

    assert said.endswith(", which are one file where case does not count. Rename or remove one of them.")


@pytest.mark.parametrize(("raw", "flags"), [(b"total/\xff", 1 << 11), (b"total/\x82", 0), (b"total/\xc3\xa9", 0)])
def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path, raw: bytes, flags: int) -> None:
    """Without the flag, what the bytes mean depends on who reads them."""
    said = refused(tmp_path, zipped(GOOD, Entry(raw, flags=flags)))

    assert said == f"holds {repr(raw)!r}, whose name is not UTF-8. Rename it."


def test_a_name_of_another_encoding_in_an_extra_field_is_refused(tmp_path: Path) -> None:
    """Some programs would take that one instead."""
    name = b"total/../../x"
    extra = struct.pack("<2HBL", 0x7075, 5 + len(name), 1, zlib.crc32(b"total/x")) + name

    said = refused(tmp_path, zipped(GOOD, Entry("total/x", extra=extra)))

    assert said == f"is not a sound .zip: 'total/x' has sizes or a name in an extension (zip64). {ADVICE}"


# Kinds


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFDIR])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: int) -> None:
    """A link to a file of this machine, above all."""
    said = refused(tmp_path, zipped(GOOD, Entry("total/x", b"/etc/passwd", mode=kind | 0o777)))

    assert said == "holds 'total/x', which is a link or something else than a file. Replace it by a plain file."


def test_a_folder_with_content_is_refused(tmp_path: Path) -> None:
    """It is a file to those who go by its size."""
    said = refused(tmp_path, zipped(GOOD, Entry("total/x/", b"content", mode=0)))

    assert said == "holds 'total/x/', which is a link or something else than a file. Replace it by a plain file."


@pytest.mark.parametrize("flag", [1 << 0, 1 << 6, 1 << 13])
def test_an_encrypted_entry_is_refused(tmp_path: Path, flag: int) -> None:
    """Nobody could review it."""
    said = refused(tmp_path, zipped(GOOD, Entry("total/x", flags=flag)))

    assert said == "holds 'total/x', which is encrypted. Pack it without a password."


@pytest.mark.parametrize("method", [1, 6, 9, 12, 14, 93, 98, 99])
def test_an_entry_of_another_method_is_refused(tmp_path: Path, method: int) -> None:
    """Only what everybody unpacks in the same way is taken."""
    said = refused(tmp_path, zipped(GOOD, Entry("total/x", method=method)))

    assert said == f"holds 'total/x', packed by method {method}. Pack it again with deflate."


# Bombs


def peak_bytes(work: Callable[[], object]) -> int:
    """The most that Python held at once while it ran."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bomb_that_says_its_size_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """By its sum, and by its ratio where the sum would do."""
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = b"".join(packing.compress(bytes(2**20)) for _ in range(65)) + packing.flush()
    large = Entry("total/x", packed=packed, size=65 * 2**20)
    small = Entry("total/x", bytes(2**20))

    said: list[str] = []
    peak = peak_bytes(lambda: said.extend(refused(tmp_path, zipped(GOOD, entry)) for entry in (large, small)))

    assert said == [
        "would unpack to more than 64 MiB. Split it.",
        "holds 'total/x', which would unpack to more than 100 times its size. Store it without compression.",
    ]
    assert peak < 2**20


@pytest.mark.parametrize("claimed", [0, 10, 60_000])
def test_a_bomb_that_lies_about_its_size_is_unpacked_no_further_than_it_says(tmp_path: Path, claimed: int) -> None:
    """What claims to be small costs what it claims."""
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = b"".join(packing.compress(bytes(2**20)) for _ in range(128)) + packing.flush()
    content = zipped(GOOD, Entry("total/x", packed=packed, size=claimed))

    said: list[str] = []
    peak = peak_bytes(lambda: said.append(refused(tmp_path, content)))

    assert said == [
        "is not a sound .zip: 'total/x' is not of the size or the checksum that the directory says. " + ADVICE
    ]
    assert peak < 2 * len(content) + 2**20


def test_many_entries_are_refused_before_any_is_read(tmp_path: Path) -> None:
    """One more than are taken, and a count that is a lie."""
    entries = [Entry(f"total/{number}") for number in range(ENTRIES_MOST)]

    assert refused(tmp_path, zipped(GOOD, *entries)) == "has 4,097 entries; at most 4,096 are taken. Split it."
    assert refused(tmp_path, zipped(GOOD, count=65_535)) == "has 65,535 entries; at most 4,096 are taken. Split it."


def test_many_files_that_share_their_data_are_refused(tmp_path: Path) -> None:
    """The bomb without recursion: entries that overlap."""
    kernel = Entry("total/a", bytes(60_000))
    shared = [
        Entry(f"total/{n}", bytes(60_000), packed=b"", packed_size=len(kernel.packed), offset=0) for n in range(9)
    ]

    said = refused(tmp_path, zipped(kernel, *shared))

    assert said.startswith("is not a sound .zip: something is before 'total/0', or it overlaps with another entry. ")


def test_an_archive_in_an_archive_is_a_file(tmp_path: Path) -> None:
    """Nothing is unpacked twice."""
    inner = zipped(Entry("total/x", bytes(10_000_000), size=10_000_000))
    path = tmp_path / "a.zip"
    path.write_bytes(zipped(GOOD, Entry("total/inner.zip", inner)))

    (folder,) = read_archive(path, trusted={}, allow_unsigned=True).folders

    assert folder.files["inner.zip"] == inner


def test_a_folder_of_the_archive_obeys_the_limits_of_a_folder(tmp_path: Path) -> None:
    """Its archive could be larger."""
    path = tmp_path / "a.zip"
    noise = random.Random(1).randbytes(BYTES_MOST)
    stored = {"packed": noise, "method": 0, "crc": zlib.crc32(noise), "size": len(noise)}
    path.write_bytes(zipped(GOOD, Entry("total/x", **stored)))

    with pytest.raises(InvalidSkill) as caught:
        read_archive(path, trusted={}, allow_unsigned=True)

    assert str(caught.value) == "The skill folder 'total' has more than 16 MiB. Remove what the skill does not need."
    assert len(noise) < UNPACKED_BYTES_MOST


def test_a_file_that_never_ends_is_not_read(tmp_path: Path) -> None:
    """A device, a pipe that nobody writes to, and a file with a hole of a terabyte."""
    pipe, hole = tmp_path / "pipe", tmp_path / "hole"
    os.mkfifo(pipe)
    with hole.open("wb") as file:
        file.truncate(2**40)

    said = []
    for path in (Path("/dev/zero"), pipe, tmp_path, hole):
        with pytest.raises(InvalidSkill) as caught:
            read_archive(path, trusted={})
        said.append(str(caught.value).removeprefix(f"The archive {str(path)!r} "))

    assert said == ["is not a file. Give the path of one."] * 3 + ["has more than 72 MiB. Split it."]


# Lies about the layout


@pytest.mark.behaviour("skills.archives")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            zipped(GOOD, CODE, before=b"#!/bin/sh\n"),
            "something is before 'total/SKILL.md', or it overlaps with another",
        ),
        (zipped(GOOD, CODE, between=b"hidden"), "something is between its entries and its directory"),
        (
            zipped(GOOD, CODE, after=b"comment"),
            None,
        ),
        (zipped(GOOD, CODE) + b"\0", None),
        (zipped(GOOD, CODE) + zipped(GOOD), "its directory is not where its end mark says"),
        (zipped(GOOD, CODE, comment=9), "its directory is not where its end mark says"),
        (zipped(GOOD, CODE, count=1), "its directory holds more than it counts"),
        (zipped(GOOD, CODE, count=3), "its directory is cut off"),
        (zipped(GOOD, CODE, size=10), "its directory is not where its end mark says"),
        (zipped(GOOD, CODE, start=0xFFFFFFFF), "its directory is not where its end mark says"),
        (zipped(GOOD, Entry("total/x", size=0xFFFFFFFF)), "'total/x' has sizes or a name in an extension (zip64)"),
        (zipped(GOOD, Entry("total/x", packed_size=0xFFFFFFFF)), "'total/x' has sizes or a name in an extension"),
        (zipped(GOOD, Entry("total/x", offset=0xFFFFFFFF)), "'total/x' has sizes or a name in an extension (zip64)"),
        (
            zipped(GOOD, Entry("total/x", extra=struct.pack("<2HQQ", 1, 16, 5, 5))),
            "'total/x' has sizes or a name in an extension (zip64)",
        ),
        (zipped(GOOD, Entry("total/x", extra=b"\1")), "'total/x' has sizes or a name in an extension (zip64)"),
        (
            zipped(GOOD, Entry("total/x", extra=struct.pack("<2H", 9, 99))),
            "'total/x' has sizes or a name in an extension (zip64)",
        ),
        (zipped(GOOD, Entry("total/x", local={"name": b"total/y"})), "'total/x' is described in two ways"),
        (zipped(GOOD, Entry("total/x", local={"method": 0})), "'total/x' is described in two ways"),
        (zipped(GOOD, Entry("total/x", local={"size": 7})), "'total/x' is described in two ways"),
        (zipped(GOOD, Entry("total/x", local={"flags": 1 << 11 | 1})), "'total/x' is described in two ways"),
        (
            zipped(GOOD, Entry("total/x", local={"extra": struct.pack("<2H", 1, 0)})),
            "'total/x' is described in two ways",
        ),
        (zipped(GOOD, Entry("total/x", flags=1 << 3)), "'total/x' is described in two ways"),
        (
            zipped(GOOD, Entry("total/x", b"x", crc=1)),
            "'total/x' is not of the size or the checksum that the directory",
        ),
        (
            zipped(GOOD, Entry("total/x", b"x", size=2)),
            "'total/x' is not of the size or the checksum that the directory",
        ),
        (zipped(GOOD, Entry("total/x", b"x", packed=b"\xff\xff")), "'total/x' cannot be unpacked"),
        (
            zipped(
                GOOD, Entry("total/x", packed=zlib.compress(b"x", wbits=-15) + b"tail", size=1, crc=zlib.crc32(b"x"))
            ),
            "'total/x' is not of the size or the checksum that the directory says",
        ),
        (
            zipped(GOOD, Entry("total/x", b"x", packed=unfinished(b"x"))),
            "'total/x' is not of the size or the checksum that the directory says",
        ),
        (
            zipped(GOOD, Entry("total/x", packed=zlib.compress(b"x" * 99, wbits=-15)[:-2], size=99)),
            "'total/x' is not of the size or the checksum that the directory says",
        ),
        (zipped(GOOD, Entry("total/x", offset=0)), "something is before 'total/x', or it overlaps with another entry"),
        (zipped(GOOD, Entry("total/x", offset=7)), "something is before 'total/x', or it overlaps with another entry"),
        (b"", None),
        (b"PK\5\6", None),
        (b"\x1f\x8b\x08" + bytes(600), None),
        (bytes(257) + b"ustar" + bytes(800), None),
    ],
)
def test_an_archive_that_can_be_read_in_two_ways_is_refused(tmp_path: Path, content: bytes, reason: str | None) -> None:
    """What one reader reviews must be what another one runs."""
    said = refused(tmp_path, content)

    if reason is None:
        assert said == f"is not a .zip, or something follows its end. {ADVICE}"
    else:
        assert said.startswith(f"is not a sound .zip: {reason}")
        assert said.endswith(ADVICE)


@settings(max_examples=300)
@given(st.data())
def test_a_zip_with_any_bytes_changed_is_the_same_or_refused(data: st.DataObject) -> None:
    """Every byte counts: none can be changed so that another file comes out without a new checksum."""
    content = bytearray(zipped(GOOD, CODE))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        files = read_zip(bytes(content), what="It")
    except InvalidSkill:
        return
    assert set(files.values()) == set(FOLDER.files.values())


@given(st.binary(max_size=300))
@example(b"PK\5\6" + bytes(18))
def test_any_bytes_are_an_archive_or_a_refusal(content: bytes) -> None:
    """No other exception, whatever they are."""
    try:
        assert read_zip(content, what="It") == {}
    except InvalidSkill:
        pass


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], "holds no skill. Give one that has a folder with a SKILL.md."),
        ([GOOD, Entry("readme.txt")], "holds 'readme.txt' outside of any skill folder. Remove it."),
    ],
)
def test_an_archive_of_anything_else_than_skill_folders_is_refused(
    tmp_path: Path, entries: list[Entry], expected: str
) -> None:
    """It is said what is in the way."""
    assert refused(tmp_path, zipped(*entries)) == expected


@pytest.mark.parametrize("name", ["__MACOSX/total/x", "other/x"])
def test_a_folder_that_is_no_skill_is_refused_with_all(tmp_path: Path, name: str) -> None:
    """Nothing of an archive is taken if not all of it is."""
    path = tmp_path / "a.zip"
    path.write_bytes(zipped(GOOD, CODE, Entry(name)))

    with pytest.raises(InvalidSkill):
        read_archive(path, trusted={}, allow_unsigned=True)


# Signatures


class Signed:
    """An archive that a trusted key has signed, taken apart."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "a.zip"
        self.key = SigningKey.load_or_make(folder / "key")
        write_archive(self.path, [FOLDER], self.key)
        with zipfile.ZipFile(self.path) as archive:
            self.files = {name: archive.read(name) for name in archive.namelist()}

    def read(self) -> str | None:
        """Who signed what these files are now, if it is read at all."""
        self.path.write_bytes(zipped(*(Entry(name, content) for name, content in self.files.items())))
        found = read_archive(self.path, trusted={"team": self.key.public}, allow_unsigned=False)
        assert found.is_trusted == (found.signer == "team")
        return found.signer

    def refusal(self) -> str:
        """Why it is not read."""
        with pytest.raises(InvalidSkill) as caught:
            self.read()
        return str(caught.value).removeprefix(f"The archive {str(self.path)!r} ")


@pytest.fixture
def signed(tmp_path: Path) -> Signed:
    """What the attacks change."""
    return Signed(tmp_path)


def test_the_signed_archive_that_the_attacks_change_is_trusted(signed: Signed) -> None:
    """The control: taken apart and packed again by another program it is still the team's."""
    assert signed.read() == "team"


def test_a_file_that_was_changed_added_or_removed_is_found(signed: Signed) -> None:
    """The manifest names every file."""
    whole = dict(signed.files)
    said = []
    for changes in ({"total/scripts/total.py": b"evil"}, {"total/scripts/a.py": b"evil"}, {"evil/SKILL.md": b""}):
        signed.files = whole | changes
        said.append(signed.refusal())
    signed.files = {name: content for name, content in whole.items() if name != "total/scripts/total.py"}
    said.append(signed.refusal())

    assert said == [
        f"does not fit its manifest: {name!r} was changed, added or removed. Do not use it."
        for name in ("total/scripts/total.py", "total/scripts/a.py", "evil/SKILL.md", "total/scripts/total.py")
    ]


def test_a_manifest_that_was_changed_is_not_the_signed_one(signed: Signed) -> None:
    """Not even by a space."""
    signed.files["sealyard-manifest.json"] += b" "

    assert signed.refusal() == "has a signature that is not of its manifest: it was changed. Do not use it."


def test_a_signature_by_another_key_is_no_trusted_one(signed: Signed, tmp_path: Path) -> None:
    """The attacker signs all of it anew: it is named by that key, whatever it claims."""
    other = SigningKey.load_or_make(tmp_path / "other")
    write_archive(tmp_path / "b.zip", [FOLDER], other)
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        signed.files["sealyard-manifest.sig"] = archive.read("sealyard-manifest.sig")

    assert signed.read() == f"ed25519:{other.public}"


@pytest.mark.parametrize(
    "change",
    [
        {"public_key": "00" * 32},
        {"public_key": ""},
        {"public_key": "zz"},
        {"signature": "00" * 64},
        {"signature": ""},
        {"algorithm": "none"},
        {"algorithm": "ED25519"},
        {"public_key": None},
    ],
)
def test_a_forged_signature_is_refused(signed: Signed, change: dict[str, Any]) -> None:
    """Naming the trusted key is not having it; and having no algorithm is no signature."""
    found = json.loads(signed.files["sealyard-manifest.sig"])
    signed.files["sealyard-manifest.sig"] = json.dumps(found | change).encode()

    assert signed.refusal() == "has a signature that is not of its manifest: it was changed. Do not use it."


def test_a_signature_for_another_purpose_is_none(signed: Signed) -> None:
    """The plain bytes of a manifest, signed by the very key, are not what is signed here."""
    found = json.loads(signed.files["sealyard-manifest.sig"])
    found["signature"] = signed.key.sign(signed.files["sealyard-manifest.json"])
    signed.files["sealyard-manifest.sig"] = json.dumps(found).encode()

    assert signed.refusal() == "has a signature that is not of its manifest: it was changed. Do not use it."


def test_a_stripped_signature_makes_an_unsigned_archive(signed: Signed) -> None:
    """With or without the manifest: it is refused, unless unsigned ones are allowed."""
    del signed.files["sealyard-manifest.sig"]
    first = signed.refusal()
    del signed.files["sealyard-manifest.json"]

    expected = "is not signed. Ask for a signed one, or allow unsigned ones if you know its origin."
    assert [first, signed.refusal()] == [expected, expected]


def test_a_signature_without_a_manifest_is_refused(signed: Signed) -> None:
    """It would be one of nothing."""
    del signed.files["sealyard-manifest.json"]

    assert signed.refusal() == ("has a signature but no 'sealyard-manifest.json'. Ask for it to be exported again.")


@pytest.mark.parametrize("manifest", [b"", b"{}", b'{"x":' + b"[" * 60_000, b"\xff", b'{"format": 1, "files": 3}'])
def test_an_unsigned_manifest_that_is_none_is_refused(signed: Signed, manifest: bytes) -> None:
    """What is there must fit."""
    del signed.files["sealyard-manifest.sig"]
    signed.files["sealyard-manifest.json"] = manifest
    signed.path.write_bytes(zipped(*(Entry(name, content) for name, content in signed.files.items())))

    with pytest.raises(InvalidSkill) as caught:
        read_archive(signed.path, trusted={}, allow_unsigned=True)

    assert str(caught.value) == (
        f"The archive {str(signed.path)!r} has a 'sealyard-manifest.json' that cannot be read. Ask for it to be"
        " exported again."
    )


# Folders


def test_the_folder_that_the_attacks_change_is_read(tmp_path: Path) -> None:
    """The control."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(b"x")

    assert load_folder(tmp_path) == {"a/b/c": b"x"}


@pytest.mark.parametrize("target", ["/etc/passwd", "/etc", "secret", "nowhere", "."])
def test_a_link_in_a_folder_is_never_followed(tmp_path: Path, target: str) -> None:
    """To a file, a folder, a neighbour, nowhere or itself."""
    (tmp_path / "secret").write_bytes(b"")
    (tmp_path / "x").symlink_to(target)

    with pytest.raises(InvalidSkill) as caught:
        load_folder(tmp_path)

    assert str(caught.value) == (
        f"The skill folder {str(tmp_path)!r} holds 'x', which is a link. Replace it by a plain file or remove it."
    )


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """Whoever is asked to import it is not shown where it leads."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    with pytest.raises(InvalidSkill) as caught:
        load_folder(tmp_path / "link")

    assert str(caught.value) == f"{str(tmp_path / 'link')!r} is not a folder, or is a link. Give the folder itself."


def test_a_pipe_in_a_folder_does_not_hold_the_import_up(tmp_path: Path) -> None:
    """Nobody writes to it, and nobody reads it."""
    os.mkfifo(tmp_path / "x")

    with pytest.raises(InvalidSkill) as caught:
        load_folder(tmp_path)

    assert str(caught.value) == (
        f"The skill folder {str(tmp_path)!r} holds 'x', which is a pipe. Replace it by a plain file or remove it."
    )


def test_a_file_that_is_swapped_for_a_link_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the opening there is time for that."""
    (tmp_path / "x").write_bytes(b"mine")
    real = os.stat

    def stat_then_swap(path: Any, *args: Any, **options: Any) -> os.stat_result:
        found = real(path, *args, **options)
        if path == "x":
            (tmp_path / "x").unlink()
            (tmp_path / "x").symlink_to("/etc/passwd")
        return found

    monkeypatch.setattr(os, "stat", stat_then_swap)
    with pytest.raises(InvalidSkill) as caught:
        load_folder(tmp_path)

    assert str(caught.value).startswith(f"The skill folder {str(tmp_path)!r} cannot be read: ")


def test_a_file_with_a_hole_of_a_terabyte_is_read_no_further_than_the_limit(tmp_path: Path) -> None:
    """What it holds in memory is bounded too."""
    with (tmp_path / "x").open("wb") as file:
        file.truncate(2**40)

    def load() -> None:
        with pytest.raises(InvalidSkill) as caught:
            load_folder(tmp_path)
        assert str(caught.value) == (
            f"The skill folder {str(tmp_path)!r} has more than 16 MiB. Remove what the skill does not need."
        )

    assert peak_bytes(load) < 3 * BYTES_MOST


def test_a_name_in_a_folder_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """The message can still be printed."""
    with open(os.fsencode(tmp_path) + b"/\xff.py", "wb"):
        pass

    with pytest.raises(InvalidSkill) as caught:
        load_folder(tmp_path)

    assert str(caught.value) == (
        f"The skill folder {str(tmp_path)!r} holds '\\udcff.py', whose name is not UTF-8. Rename or remove it."
    )
    assert str(caught.value).encode()


@pytest.mark.parametrize("name", ["a\\b", "c:", "\u202etxt", "a\nb", "end."])
def test_a_name_that_other_systems_read_otherwise_is_refused(tmp_path: Path, name: str) -> None:
    """In folders as in archives."""
    (tmp_path / name).write_bytes(b"")

    with pytest.raises(InvalidSkill):
        load_folder(tmp_path)


def test_folders_in_folders_without_end_are_refused(tmp_path: Path) -> None:
    """No recursion goes deeper than the depth that is taken."""
    deep = tmp_path
    for _ in range(200):
        deep /= "d"
    deep.mkdir(parents=True)
    before = sys.getrecursionlimit()

    with pytest.raises(InvalidSkill) as caught:
        load_folder(tmp_path)

    name = "/".join("d" * 9)
    assert str(caught.value) == (
        f"The skill folder {str(tmp_path)!r} holds {name!r}, whose path has more than 512 bytes or 8 parts. Rename or"
        " remove it."
    )
    assert sys.getrecursionlimit() == before
