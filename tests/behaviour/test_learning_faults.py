"""Learning that is broken, slow or empty: requests answer exactly as they do without it, and the log says so."""

import asyncio
import logging
import shutil
import sqlite3
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest

from sealyard.config import Config
from sealyard.config.settings import LearningConfig, StoreConfig
from sealyard.errors import StoreError
from sealyard.learning.learner import PARTS, Model
from sealyard.sandbox.policy import DEFAULT
from sealyard.testing import FakeUpstream
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
GOOD = "from servers.bank import list_bills, pay\nbill = list_bills()[0]\nresult = pay(amount=bill['amount'])"
BAD = "from servers.bank import list_bills\nlen(list_bills()) / 0"
REJECTED = "from servers.bank import pay\npay(amount=0)"
LEFT_OUT = "Lookup in {} failed; the part is off for five minutes."
TOO_SLOW = "Lookups in {} are slow; the part is off for five minutes."


def bank() -> FakeUpstream:
    """A server with two tools."""

    def list_bills() -> list[dict[str, Any]]:
        """List the bills that are open."""
        return [{"id": "b1", "amount": 30}, {"id": "b2", "amount": 70}]

    def pay(amount: int) -> dict[str, Any]:
        """Pay a bill."""
        if not amount:
            raise ValueError("There is nothing to pay.")
        return {"paid": amount}

    return FakeUpstream("bank", list_bills=list_bills, pay=pay)


def opened(folder: Path, **learning: Any) -> Any:
    """A gateway over the store in `folder`."""
    config = Config(store=StoreConfig(path=folder / "sealyard.db"), learning=LearningConfig(**learning))
    return open_yard(config, upstreams={"bank": bank()}, policy=PLAIN)


async def answers(yard: Yard) -> list[Any]:
    """What an agent gets: a search, a run that ends well, one that fails and one whose call is rejected."""
    found = await yard.search("pay a bill", detail_level="with_description")
    bad = await yard.execute(ExecuteRequest(code=BAD))
    good = await yard.execute(ExecuteRequest(code=GOOD))
    rejected = await yard.execute(ExecuteRequest(code=REJECTED))
    return [msgspec.to_builtins(found), good.text, bad.text, rejected.text]


def is_refused(told: list[Any]) -> bool:
    """Whether the failing code was not even run."""
    return "LikelyToFail" in told[2]


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged as a warning or an error."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A folder with the store of a gateway at which the same code failed again and again."""
    folder = tmp_path / "journal"

    async def work() -> None:
        async with opened(folder, enabled=False) as yard:
            await answers(yard)
            for _ in range(4):
                await yard.execute(ExecuteRequest(code=BAD))

    asyncio.run(work())
    return folder


@pytest.fixture
def usual(journal: Path, tmp_path: Path) -> list[Any]:
    """What is answered without learning."""
    shutil.copytree(journal, tmp_path / "usual")

    async def work() -> list[Any]:
        async with opened(tmp_path / "usual", enabled=False) as yard:
            return await answers(yard)

    return asyncio.run(work())


class Broken:
    """A model every part of which is something else."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ValueError(f"{name} is not what it should be")


class Slow:
    """A part that does what another does, after 50 ms of work."""

    def __init__(self, part: Any) -> None:
        self._part = part

    def __getattr__(self, name: str) -> Any:
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        return getattr(self._part, name)


def slow_model() -> Any:
    """An empty model that dawdles."""
    model, empty = Broken(), Model()
    for part in PARTS:
        setattr(model, part, Slow(getattr(empty, part)))
    return model


def raising(*_: object, **__: object) -> NoReturn:
    """Nothing that can be called."""
    raise RecursionError("too deep")


async def test_learning_that_works_changes_what_is_answered(journal: Path, usual: list[Any]) -> None:
    """Else the tests below would prove nothing."""
    async with opened(journal) as yard:
        await yard.guidance.learner.once()
        told = await answers(yard)

    assert told != usual
    assert (is_refused(told), is_refused(usual)) == (True, False)


@pytest.mark.behaviour("learning.faults")
@pytest.mark.parametrize("model_for", [lambda *_: Broken(), raising], ids=["every lookup raises", "there is no model"])
async def test_a_model_that_raises_is_left_out(
    journal: Path, usual: list[Any], model_for: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Each part is asked once, is logged with its traceback, and is not asked again for five minutes."""
    async with opened(journal) as yard:
        await yard.guidance.learner.once()
        yard.guidance.learner.model_for = model_for  # type: ignore[method-assign]
        told = await answers(yard)
        again = await answers(yard)
        full = await yard.search("pay a bill", detail_level="full")
        faults = dict(yard.guidance.barrier.faults)

    assert told == usual
    assert again == usual
    assert [hit.name for hit in full.hits] == [hit["name"] for hit in usual[0]["hits"]]
    assert sorted(messages(caplog)) == sorted(LEFT_OUT.format(part) for part in faults)
    assert set(faults) >= ({"model"} if model_for is raising else {"risk", "resources", "failures"})
    assert set(faults.values()) == {1}


@pytest.mark.behaviour("learning.faults")
async def test_a_shape_that_cannot_be_written_is_left_out(journal: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The hit keeps the signature that the tool declares."""

    class Nonsense:
        """Shapes that are none."""

        def shape_for(self, *_: object, **__: object) -> str:
            """Text in place of a shape."""
            return "nonsense"

    async with opened(journal.parent / "off", enabled=False) as yard:
        declared = await yard.search("pay a bill", detail_level="full")
    async with opened(journal.parent / "on") as yard:
        model = Model()
        model.shapes = Nonsense()  # type: ignore[assignment]
        yard.guidance.learner.model_for = lambda *_: model  # type: ignore[method-assign]
        found = await yard.search("pay a bill", detail_level="full")

    assert found == declared
    assert messages(caplog) == [LEFT_OUT.format("shapes")]


@pytest.mark.behaviour("learning.faults")
async def test_a_model_that_hangs_is_left_out_at_the_third_time(
    journal: Path, usual: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Until then, or a little longer where a request asks twice, it is waited for; all are answered as ever."""
    async with opened(journal) as yard:
        await yard.guidance.learner.once()
        slow = slow_model()
        yard.guidance.learner.model_for = lambda *_: slow  # type: ignore[method-assign]
        told = [await answers(yard) for _ in range(5)]
        faults = dict(yard.guidance.barrier.faults)

    assert told[0] == usual
    assert [each[1:] for each in told] == [usual[1:]] * 5
    assert set(faults) >= {"risk", "resources", "failures"}
    assert sorted(messages(caplog)) == sorted(TOO_SLOW.format(part) for part in faults)


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, zlib.compress(b"no model")], ids=["nothing", "zeros", "text"])
async def test_a_broken_model_in_the_store_is_learned_anew(
    journal: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The journal is the only source: what was kept beside it can be lost."""
    async with opened(journal) as yard:
        await yard.guidance.learner.once()
    with closing(sqlite3.connect(journal / "sealyard.db")) as connection, connection:
        assert connection.execute("UPDATE learning_models SET model = ?", (content,)).rowcount == 1
    caplog.clear()
    async with opened(journal) as yard:
        await yard.guidance.learner.once()
        told = await answers(yard)

    assert is_refused(told)
    assert [record.name for record in caplog.records if record.levelno >= logging.WARNING] == [
        "sealyard.learning.learner"
    ]


async def test_a_journal_that_cannot_be_read_teaches_nothing(
    journal: Path, usual: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Requests go on, and the next round tries again."""

    async def broken(*_: object) -> NoReturn:
        raise StoreError("The disk is gone.")

    async with opened(journal) as yard:
        tables = yard.store.learning
        tables.events = tables.newest = tables.forgotten_until = broken  # type: ignore[method-assign]
        with pytest.raises(StoreError):
            await yard.guidance.learner.once()
        told = await answers(yard)

    assert told == usual
    assert set(messages(caplog)) == {"Reading the journal failed; it is retried: The disk is gone."}


async def test_an_empty_store_answers_as_without_learning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first search and the first run of a new gateway."""
    async with opened(tmp_path / "off", enabled=False) as yard:
        without = await answers(yard)
    async with opened(tmp_path / "on") as yard:
        first = await answers(yard)
        await yard.guidance.learner.once()

    assert first == without
    assert messages(caplog) == []
