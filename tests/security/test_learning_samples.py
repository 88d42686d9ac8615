"""Attacks on samples of large answers: what is private in them must not get into the journal, nor half of it."""

import contextlib
import re
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, StoreConfig
from sealyard.learning.learner import Model, prepare_all
from sealyard.learning.part import Viewer
from sealyard.privacy import TOKEN
from sealyard.sandbox.policy import DEFAULT
from sealyard.testing import FakeUpstream
from sealyard.yard import Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
TOOL = "mcp__crm__contacts"
ROWS = 6_000
SECRETS = ("ann.lee@corp.example", "4111111111111111", "DE89370400440532013000", "bob.ray@corp.example")
MONTH = 30 * 86_400.0


def contacts() -> Any:
    """So many that the journal cannot have them, with private values in the first row, near row 5,000, and in texts."""
    found: list[dict[str, Any]] = [
        {"line": number, "state": ("new", "won", "lost")[number % 3]} for number in range(ROWS)
    ]
    for number in (0, *range(4_900, 5_500)):
        found[number] |= {"mail": SECRETS[0], "card": SECRETS[1], "bank": SECRETS[2]}
    for number in range(200):  # wherever a text would be cut, one of them would be cut in two
        found[number]["remark"] = f"{'word ' * (number // 5)}{'x' * (number % 5)} {SECRETS[3]} and on"
    return {"total": ROWS, "contacts": found}


@contextlib.asynccontextmanager
async def opened(path: Path, mode: Literal["strict", "output"]) -> AsyncIterator[Yard]:
    """A yard with a store there."""
    config = Config(store=StoreConfig(path=path), privacy=PrivacyConfig(mode=mode))
    async with open_yard(config, policy=PLAIN, upstreams={"crm": FakeUpstream("crm", contacts=contacts)}) as yard:
        await yard.snapshot()
        yield yard


def samples(path: Path) -> list[str | None]:
    """What the journal has in the place of large answers."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [text for (text,) in connection.execute("SELECT answer_sample FROM calls ORDER BY rowid")]


async def test_nothing_private_of_a_large_answer_is_in_its_sample(tmp_path: Path) -> None:
    """Neither of the first row nor of row 5,000, nor half of an address where a text is long; and no half token."""
    path = tmp_path / "sealyard.db"
    async with opened(path, "strict") as yard:
        await yard.call(TOOL, {})
        await yard.store.flush()
        (text,) = samples(path)
    assert text is not None
    taken = msgspec.json.decode(text)["contacts"]

    assert any(4_900 <= row["line"] < 5_500 for row in taken)
    assert not re.search(r"ann|lee|bob|ray|corp|4111|DE89|@", text)
    assert len(TOKEN.findall(text)) == text.count("__PII_") == text.count("__") / 2 > 3


async def test_answer_that_code_sees_plain_has_no_sample(tmp_path: Path) -> None:
    """In the mode `output` an answer is concealed where it leaves, as a whole; a part of it might not be."""
    path = tmp_path / "sealyard.db"
    async with opened(path, "output") as yard:
        await yard.call(TOOL, {})
        await yard.store.flush()
        found = samples(path)

    assert found == [None]


@pytest.mark.parametrize("principals", [("ann", "bob"), ("ann",)])
async def test_large_answers_teach_their_shape_from_the_journal_alone(
    tmp_path: Path, principals: tuple[str, ...]
) -> None:
    """What two principals saw is told to a third, what one saw to nobody else; learned anew it is the same."""
    async with opened(tmp_path / "sealyard.db", "strict") as yard:
        for principal in principals * 3:
            await yard.call(TOOL, {}, principal=principal)
        await yard.store.flush()
        page = await yard.store.learning.events(0, 1_000)
        spec = (await yard.snapshot()).tools[TOOL]
    models = [Model(), Model()]
    lessons = prepare_all(page.events)
    for model in models:
        for lesson in prepare_all(page.events):
            model.learn(lesson, MONTH)
    told = models[0].shapes.shape_for(spec, Viewer("cid", lessons[-1].at, MONTH))

    assert models[0].encode() == models[1].encode()
    if len(principals) == 1:
        assert told is None
        return
    assert told is not None
    rows = told.schema["properties"]["contacts"]["items"]
    assert told.schema["required"] == ["total", "contacts"]
    assert (list(rows["properties"]), rows["required"]) == (
        ["line", "state", "mail", "card", "bank", "remark"],
        ["line", "state"],
    )
    assert rows["properties"]["mail"] == {"type": "string"}
