"""What a gateway learns of answers that nobody declares, where its agents and their code read it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, StoreConfig
from sealyard.sandbox.policy import DEFAULT
from sealyard.testing import FakeUpstream
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
TOOL = "mcp__team__hours"


@contextlib.asynccontextmanager
async def opened(folder: Path, upstream: FakeUpstream) -> AsyncIterator[Yard]:
    """A yard that conceals nothing: what keeps a value from being told is not the guard."""
    config = Config(store=StoreConfig(path=folder / "sealyard.db"), privacy=PrivacyConfig(mode="off"))
    async with open_yard(config, policy=PLAIN, upstreams={upstream.name: upstream}) as yard:
        await yard.snapshot()
        yield yard


async def learned(yard: Yard) -> None:
    """Let it learn from what was done so far, and make its stubs of that: by itself it does so now and then."""
    await yard.guidance.learner.once()
    async with asyncio.timeout(60):
        while TOOL not in yard.tools.catalog.snapshot.shapes:
            await yard.guidance.follow()
            await asyncio.sleep(0.01)


async def stub(yard: Yard, principal: str = "local") -> str:
    """What code of a principal reads."""
    code = "result = open('/servers/team/hours.py').read()"
    result = await yard.execute(ExecuteRequest(code=code), principal=principal)
    text: str = result.outcome.result
    return text


def hours(of: str = "") -> dict[str, Any]:
    """Hours of everybody."""
    found: dict[str, Any] = {
        "status": "open" if len(of) % 2 else "closed",
        "total": len(of),
        "contact": "ann@lee.example",
    }
    return found | ({of: 8} if of else {})


async def test_code_reads_what_was_learned_of_answers(tmp_path: Path) -> None:
    """The stub names fields and types once a few answers were seen, and the tool is called as before."""
    async with opened(tmp_path, FakeUpstream("team", hours=hours)) as yard:
        assert "Returns:" not in await stub(yard)
        for _ in range(6):
            await yard.call(TOOL, {})
        await learned(yard)

        assert '        {"status": str, "total": int, "contact": str}\n' in await stub(yard)
        code = "from servers.team import hours\nresult = hours()['total']"
        assert (await yard.execute(ExecuteRequest(code=code))).outcome.result == 0


async def test_a_run_keeps_the_stubs_that_it_began_with(tmp_path: Path) -> None:
    """New ones are written while it is on; what it imports afterwards is still there."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> int:
        begun.set()
        await go_on.wait()
        return 1

    async with opened(tmp_path, FakeUpstream("team", hours=hours, wait=wait)) as yard:
        code = "from servers.team import wait\nwait()\nfrom servers.team import hours\nresult = hours()['total']"
        run = asyncio.create_task(yard.execute(ExecuteRequest(code=code)))
        await asyncio.wait_for(begun.wait(), 60)
        for _ in range(6):
            await yard.call(TOOL, {})
        await learned(yard)
        after = await stub(yard)
        go_on.set()
        result = await run

    assert "As its answers were so far" in after
    assert result.outcome.result == 0


async def test_what_one_principal_was_answered_is_in_nobody_else_s_stub(tmp_path: Path) -> None:
    """Keys that are values of one of them, in a gateway that does not know that it has two."""
    async with opened(tmp_path, FakeUpstream("team", hours=hours)) as yard:
        for principal in ("one", "two"):
            for _ in range(6):
                await yard.call(TOOL, {}, principal=principal)
        for _ in range(6):
            await yard.call(TOOL, {"of": "falcon_project"}, principal="one")
        await learned(yard)
        texts = [await stub(yard, principal) for principal in ("one", "two", "three")]

    assert texts[0] == texts[1] == texts[2]
    assert '        {"status": str, "total": int, "contact": str}\n' in texts[0]
    assert "falcon" not in texts[0]


async def test_key_that_a_tool_was_given_is_nobodys_field(tmp_path: Path) -> None:
    """Not even if two agents gave it: the third learns that there are values, and not under which keys."""
    async with opened(tmp_path, FakeUpstream("team", hours=hours)) as yard:
        for principal in ("one", "two", "three"):
            for _ in range(6):
                await yard.call(TOOL, {} if principal == "three" else {"of": "falcon_project"}, principal=principal)
        await learned(yard)
        text = await stub(yard, "three")
        (hit, *_) = (await yard.search("hours", detail_level="full", principal="three")).hits

    assert '"total": int' in text
    assert "falcon" not in f"{text}{hit}"


async def test_forgotten_shape_is_told_no_more_where_one_principal_is_alone(tmp_path: Path) -> None:
    """Nor after a new start: what versions are told from is kept, and is nothing that anybody is shown."""
    upstream = FakeUpstream("books", list_rows=lambda: [{"month": "2024-10", "amount": 40.5}])
    told = []
    async with opened(tmp_path, upstream) as yard:
        for _ in range(6):
            await yard.execute(ExecuteRequest(code="from servers.books import list_rows\nlen(list_rows())"))
        await yard.tools.observed.settled()
        await yard.store.flush()
        await yard.guidance.learner.once()
        told += [(await yard.search("list_rows", detail_level="full")).hits[0].returns]
        await yard.guidance.follow()
        await yard.guidance.forget("ALL", principal="local")
        await yard.guidance.learner.once()
        told += [(await yard.search("list_rows", detail_level="full")).hits[0].returns]
    async with opened(tmp_path, upstream) as yard:
        told += [(await yard.search("list_rows", detail_level="full")).hits[0].returns]

    assert told[0] != "Any"
    assert told[1:] == ["Any", "Any"]
