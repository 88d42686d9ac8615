"""A directory of skill folders as a marketplace: what is listed, what is pinned, and what is refused."""

import json
import os
from pathlib import Path

import pytest

from sealyard.errors import InvalidSkill, UnknownSkill
from sealyard.skills.sharing import Market, to_folder
from sealyard.skills.sharing import market as market_module
from sealyard.skills.sharing.files import SkillFolder, write_folder
from sealyard.values.skills import MarketEntry, Skill, ToolNeed


def a_folder(name: str, description: str = "d", version: str = "1.0.0") -> SkillFolder:
    """A skill with a tag and a tool."""
    return to_folder(
        Skill(
            namespace="shared",
            name=name,
            version=version,
            code=f"{name} = 1\n",
            description=description,
            tags=("money",),
            tools=(ToolNeed(tool="mcp__a__b", version="1.2.0", digest=""),),
        )
    )


def an_entry(folder: SkillFolder, path: str, problem: str = "", version: str = "1.0.0") -> MarketEntry:
    """How `a_folder` is listed."""
    return MarketEntry(
        name=folder.name,
        path=path,
        version=version,
        description="d",
        tags=("money",),
        tools=("mcp__a__b@1.2.0",),
        digest=folder.digest,
        problem=problem,
    )


@pytest.fixture
def market(tmp_path: Path) -> Market:
    """One with two skills in different depths, in a checkout."""
    write_folder(a_folder("one"), tmp_path)
    write_folder(a_folder("two_three"), tmp_path / "skills" / "money")
    (tmp_path / ".git" / "one").mkdir(parents=True)
    (tmp_path / ".git" / "one" / "SKILL.md").write_bytes(b"")
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_bytes(b"")
    return Market(tmp_path)


def test_every_skill_folder_is_listed(market: Market) -> None:
    """By path, with what can be searched."""
    assert market.entries() == [
        an_entry(a_folder("one"), "one"),
        an_entry(a_folder("two_three"), "skills/money/two-three"),
    ]


def test_folders_deeper_than_three_are_not_looked_at(tmp_path: Path) -> None:
    """Nor is what is inside of a skill folder."""
    write_folder(a_folder("seen"), tmp_path / "a" / "b")
    write_folder(a_folder("unseen"), tmp_path / "a" / "b" / "c")
    write_folder(a_folder("inner"), tmp_path / "a" / "b" / "seen")

    assert [entry.path for entry in Market(tmp_path).entries()] == ["a/b/seen"]


def test_a_folder_that_is_one_skill_is_a_market_of_one(tmp_path: Path) -> None:
    """As a checkout of a single skill is."""
    written = write_folder(a_folder("one"), tmp_path)
    market = Market(written)

    assert market.entries() == [an_entry(a_folder("one"), ".")]
    assert market.get("one") == a_folder("one").files
    with pytest.raises(InvalidSkill) as caught:
        market.write_index()
    assert str(caught.value) == (
        f"{str(written)!r} is a skill folder itself. Write the index in the directory above it."
    )
    assert not (written / "index.json").exists()


def test_a_skill_is_had_by_either_spelling_of_its_name(market: Market) -> None:
    """As the folder has it, and as code does."""
    assert market.get("two-three") == a_folder("two_three").files
    assert market.get("two_three") == a_folder("two_three").files


def test_a_name_that_is_not_there_is_unknown(market: Market) -> None:
    """A path is no name."""
    for name in ("three", "../one", "skills/money/two-three", ""):
        with pytest.raises(UnknownSkill) as caught:
            market.get(name)
        assert str(caught.value) == (
            f"No skill named {name!r} is in the market {str(market.path)!r}. List what is there."
        )


def test_a_broken_folder_costs_only_itself(market: Market) -> None:
    """It is listed with its problem, and cannot be had."""
    for name, content in (("bad", b"\xff"), ("text", b"---\nname: text\ndescription: d\n---\n")):
        (market.path / name).mkdir()
        (market.path / name / "SKILL.md").write_bytes(content)
    (market.path / "link").mkdir()
    (market.path / "link" / "SKILL.md").symlink_to(market.path / "one" / "SKILL.md")

    problems = {entry.name: entry.problem for entry in market.entries()}

    assert problems == {
        "bad": "'SKILL.md' is not UTF-8: byte 0 is invalid. Save it as UTF-8.",
        "link": f"The skill folder {str(market.path / 'link')!r} holds 'SKILL.md', which is a link. Replace it by a"
        " plain file or remove it.",
        "one": "",
        "text": "The skill folder 'text' has no Python script in 'scripts/', so there is nothing to run. Add"
        " 'scripts/text.py', or give the folder to the agent as instructions instead.",
        "two-three": "",
    }
    with pytest.raises(InvalidSkill) as caught:
        market.get("bad")
    assert str(caught.value) == (
        "The skill 'bad' in 'bad' cannot be used. 'SKILL.md' is not UTF-8: byte 0 is invalid. Save it as UTF-8."
    )
    assert market.get("one") == a_folder("one").files


def test_a_folder_that_is_a_link_is_not_followed(market: Market, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a checkout links to is not part of it."""
    elsewhere = write_folder(a_folder("elsewhere"), tmp_path_factory.mktemp("other"))
    (market.path / "elsewhere").symlink_to(elsewhere)

    assert [entry.name for entry in market.entries()] == ["one", "two-three"]


def test_two_folders_of_one_name_are_no_choice(market: Market) -> None:
    """Neither is had, so that nobody can put theirs in the place of another; a broken one is not in the way."""
    write_folder(a_folder("one", version="9.0.0"), market.path / "skills")
    (market.path / "docs" / "two-three").mkdir()
    (market.path / "docs" / "two-three" / "SKILL.md").write_bytes(b"")

    problems = {entry.path: entry.problem for entry in market.entries()}

    assert problems["one"] == "Another folder has the same name: 'skills/one'. Rename one."
    assert problems["skills/one"] == "Another folder has the same name: 'one'. Rename one."
    with pytest.raises(InvalidSkill):
        market.get("one")
    assert market.get("two-three") == a_folder("two_three").files


# Pins


def test_an_index_pins_every_skill_to_its_files(market: Market) -> None:
    """It is a file that other programs can read and write."""
    path = market.write_index()

    assert path == market.path / "index.json"
    assert json.loads(path.read_bytes()) == {
        "skills": [
            {"name": folder.name, "path": where, "version": "1.0.0", "digest": folder.digest, "description": "d"}
            for folder, where in ((a_folder("one"), "one"), (a_folder("two_three"), "skills/money/two-three"))
        ]
    }
    assert [entry.problem for entry in market.entries()] == ["", ""]
    assert market.get("one") == a_folder("one").files


@pytest.mark.parametrize("change", ["edit", "add", "remove"])
def test_what_has_changed_since_it_was_indexed_is_refused(market: Market, change: str) -> None:
    """Whatever was changed of it; until the index is written anew."""
    market.write_index()
    script = market.path / "one" / "scripts" / "one.py"
    if change == "edit":
        script.write_bytes(b"one = 2\n")
    elif change == "add":
        (market.path / "one" / "new.txt").write_bytes(b"")
    else:
        (market.path / "one" / "assets" / "skill.json").unlink()

    with pytest.raises(InvalidSkill) as caught:
        market.get("one")

    assert str(caught.value) == (
        "The skill 'one' in 'one' cannot be used. It has changed since it was indexed. Read it again, then write the"
        " index again."
    )
    assert [entry.problem for entry in market.entries()][1:] == [""]
    market.write_index()
    assert market.get("one")["scripts/one.py"] == script.read_bytes()


def test_a_digest_that_is_given_must_be_that_of_the_files(market: Market) -> None:
    """With or without an index; the new one is said, so that it can be pinned after a look."""
    digest = a_folder("one").digest
    assert market.get("one", digest=digest) == a_folder("one").files

    changed = a_folder("one", description="new")
    write_folder(changed, market.path, replace=True)
    market.write_index()

    for wrong in (digest, ""):
        with pytest.raises(InvalidSkill) as caught:
            market.get("one", digest=wrong)
        assert str(caught.value) == (
            f"The skill 'one' in 'one' has changed since it was pinned: it is {changed.digest} now. Read it again"
            " before you pin that."
        )
    assert market.get("one", digest=changed.digest) == changed.files


def test_a_skill_that_is_only_in_the_index_is_listed_as_gone(market: Market) -> None:
    """And one that is not in it is had without a pin."""
    market.write_index()
    (market.path / "one" / "SKILL.md").unlink()
    write_folder(a_folder("new"), market.path)

    problems = {entry.name: entry.problem for entry in market.entries()}

    assert problems == {
        "new": "",
        "one": "It is in the index, but there is no such skill folder.",
        "two-three": "",
    }
    assert market.get("new") == a_folder("new").files


def test_broken_folders_are_not_indexed(market: Market) -> None:
    """What cannot be read cannot be vouched for."""
    (market.path / "bad").mkdir()
    (market.path / "bad" / "SKILL.md").write_bytes(b"")

    names = [skill["name"] for skill in json.loads(market.write_index().read_bytes())["skills"]]

    assert names == ["one", "two-three"]


@pytest.mark.parametrize("path", ["../one", "/etc", "one/../one", "./one"])
def test_a_path_in_an_index_is_compared_and_never_opened(market: Market, path: str) -> None:
    """It names nothing that was found."""
    pin = {"name": "one", "path": path, "digest": "sha256:00"}
    (market.path / "index.json").write_text(json.dumps({"skills": [pin]}), encoding="utf-8")

    entries = {entry.path: entry.problem for entry in market.entries()}

    assert entries == {
        path: "It is in the index, but there is no such skill folder.",
        "one": "",
        "skills/money/two-three": "",
    }


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b"\xff", b'{"skills": [{"name": 1}]}', b'{"x": ' + b"[" * 100_000, b'{"skills": 1e999}'],
)
def test_an_index_that_cannot_be_read_stops_the_market(market: Market, content: bytes) -> None:
    """Without it nobody knows what was pinned; a new one can be written."""
    (market.path / "index.json").write_bytes(content)

    for use in (market.entries, lambda: market.get("one")):
        with pytest.raises(InvalidSkill) as caught:
            use()
        assert str(caught.value).startswith(f"The index {str(market.path / 'index.json')!r} cannot be used: ")
        assert str(caught.value).endswith(". Write it again, or remove it.")
    market.write_index()
    assert market.get("one") == a_folder("one").files


def test_an_index_that_names_a_path_twice_is_refused(market: Market) -> None:
    """Which of the two pins would count?"""
    pins = [{"name": "one", "path": "one", "digest": digest} for digest in ("sha256:00", a_folder("one").digest)]
    (market.path / "index.json").write_text(json.dumps({"skills": pins}), encoding="utf-8")

    with pytest.raises(InvalidSkill) as caught:
        market.entries()

    assert str(caught.value) == (
        f"The index {str(market.path / 'index.json')!r} names a path twice. Write it again, or remove it."
    )


def test_a_pipe_in_the_place_of_the_index_does_not_hold_the_market_up(market: Market) -> None:
    """It is no file."""
    os.mkfifo(market.path / "index.json")

    with pytest.raises(InvalidSkill) as caught:
        market.entries()

    assert str(caught.value) == f"The index {str(market.path / 'index.json')!r} is not a file. Give the path of one."


# Bounds


def test_a_market_with_too_many_folders_is_refused(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit it is read: itself, two folders on the way, and those of the skills and the documents."""
    monkeypatch.setattr(market_module, "FOLDERS_MOST", 6)
    assert len(market.entries()) == 2

    monkeypatch.setattr(market_module, "FOLDERS_MOST", 5)
    with pytest.raises(InvalidSkill) as caught:
        market.entries()
    assert str(caught.value) == f"The market {str(market.path)!r} has more than 5 folders. Give a part of it."


@pytest.mark.parametrize("kind", ["gone", "file"])
def test_a_market_that_is_no_directory_is_refused(tmp_path: Path, kind: str) -> None:
    """By its path."""
    path = tmp_path / kind
    if kind == "file":
        path.write_bytes(b"")

    with pytest.raises(InvalidSkill) as caught:
        Market(path).entries()

    assert str(caught.value).startswith(f"The market {str(path)!r} cannot be read: ")


def test_folders_whose_names_cannot_be_shown_are_not_listed(market: Market) -> None:
    """Their paths could not be printed."""
    for name in (b"\xff", "\u202ea".encode()):
        os.mkdir(os.fsencode(market.path) + b"/" + name)
        with open(os.fsencode(market.path) + b"/" + name + b"/SKILL.md", "wb"):
            pass

    assert [entry.name for entry in market.entries()] == ["one", "two-three"]
