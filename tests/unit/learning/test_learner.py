"""Learning from the journal: the same in every order of work, whatever breaks, and nothing that was forgotten."""

import asyncio
import logging
import tempfile
import zlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sealyard.config.settings import LearningConfig
from sealyard.errors import InvalidRequest, StoreError
from sealyard.learning import learner as module
from sealyard.learning.learner import PARTS, Learner, Model, prepare, without_forgotten
from sealyard.store import Store, open_store
from sealyard.store.learning import EventPage
from sealyard.values.facts import (
    Assessed,
    Executed,
    Fact,
    Forgotten,
    Hinted,
    LearningEvent,
    RunEvidence,
    Searched,
    Used,
)
from sealyard.values.runs import CallRecord, ExecutionRecord, Failure, Outcome, Usage

HALF_LIFE = 30 * 86_400.0
Scope = Literal["shared", "principal", "domain"]
BASE = 1_728_000_000.0
PAY, MAIL, QUERY = "mcp__bank__pay", "mcp__mail__send_mail", "mcp__warehouse__sql_query"
TOOLS = (PAY, MAIL, QUERY)
DOMAINS = {"ann": "communication", "ben": "data"}
"""As configured; the others have none."""
FUNCTIONS = {PAY: "bank pay", MAIL: "mail send_mail", QUERY: "warehouse sql_query"}

Entry = list[Fact | ExecutionRecord | CallRecord]
"""What one thing that happened puts into the journal."""


def search(at: int = 0, *, principal: str = "ann", found: Sequence[str] = TOOLS, ranks: Sequence[int] = ()) -> Entry:
    """Somebody searched, and used the first that was found."""
    known: dict[str, Any] = {"principal": principal, "session": f"{principal}-visit", "search_id": f"s{at}"}
    searched = Searched(
        at=BASE + at,
        place="agent",
        detail_level="full",
        seconds=0.1,
        query="pay a bill by mail",
        found=tuple(found),
        text_ranks=tuple(ranks),
        domain=DOMAINS.get(principal, ""),
        **known,
    )
    used = [Used(at=BASE + at + 1, tool=tool, rank=1, seconds=1.0, **known) for tool in found[:1]]
    return [searched, *used]


def run(at: int = 0, *, principal: str = "ann", tools: Sequence[str] = (PAY, MAIL), is_ok: bool = True) -> Entry:
    """A run that was looked at before it began, called tools, and ended well or with a KeyError."""
    name = f"e{principal}{at}"
    lines = ["from servers.{} import {}".format(*FUNCTIONS[tool].split()) for tool in tools]
    lines += [f"r{place} = {FUNCTIONS[tool].split()[1]}(id='order-{at}')" for place, tool in enumerate(tools)]
    code = "\n".join([*lines, "print(r0['name'])" if tools else "print(1)"])
    usage = Usage(wall_seconds=0.5, memory_peak_bytes=50 << 20)
    failure = None if is_ok else Failure(kind="error", type="KeyError", message="'name'", line=len(lines) + 1)
    status: Any = "ok" if is_ok else "failed"
    outcome = Outcome(execution_id=name, status=status, failure=failure, usage=usage, tier="t", level="production")
    limits: dict[str, Any] = {"wall_seconds": 30.0, "memory_mib": 512, "usual_seconds": 30.0, "usual_mib": 512}
    told = {"at": BASE + at, "principal": principal, "session": f"{principal}-visit", "execution_id": name}
    return [
        *(
            CallRecord(
                execution_id=name,
                number=place + 1,
                tool=tool,
                digest="d",
                arguments={"id": f"order-{at}"},
                answer={"name": f"order-{at}", "state": "open", "amount": at},
                started_at=BASE + at,
                seconds=0.1,
                answer_bytes=60,
            )
            for place, tool in enumerate(tools)
        ),
        ExecutionRecord(
            execution_id=name,
            principal=principal,
            session=f"{principal}:main",
            code=code,
            started_at=BASE + at,
            ended_at=BASE + at + 0.5,
            status=status,
            outcome=outcome,
        ),
        Executed(
            form="code",
            status=status,
            failure="" if is_ok else "error",
            error_type="" if is_ok else "KeyError",
            seconds=0.5,
            memory_bytes=50 << 20,
            calls=len(tools),
            tools=tuple(sorted(tools)),
            use_case="workflow",
            level="production",
            domain=DOMAINS.get(principal, ""),
            assessed=Assessed(risk="medium", chance=0.25, **limits),
            **told,
        ),
    ]


def hint(at: int = 0, *, principal: str = "ann", subject: str = PAY) -> Entry:
    """Somebody was told what usually follows a tool."""
    session = f"{principal}-visit"
    return [Hinted(at=BASE + at, principal=principal, session=session, hint="chain", subject=subject, mark="m" * 12)]


def week(*, without: Callable[[Entry], bool] = lambda entry: False) -> list[Entry]:
    """A journal with a bit of everything, of three principals, but for what is left out."""
    entries = []
    for day in range(6):
        for who, principal in enumerate(("ann", "ben", "mal")):
            at = day * 86_400 + who * 600
            tools = [TOOLS[(day + who) % 3], TOOLS[(day + who + 1) % 3]]
            entries.append(search(at, principal=principal, found=[tools[0], TOOLS[(day + who + 2) % 3]]))
            entries.append(hint(at + 1, principal=principal, subject=tools[0]))
            entries.append(run(at + 2, principal=principal, tools=tools, is_ok=day % 3 != who))
            entries.append(run(at + 60, principal=principal, tools=tools))
    return [entry for entry in entries if not without(entry)]


async def record(store: Store, entries: Iterable[Entry]) -> None:
    """Put all of it into the journal."""
    for each in (each for entry in entries for each in entry):
        if isinstance(each, CallRecord):
            store.record_call(each)
        elif isinstance(each, ExecutionRecord):
            store.record_end(each)
        else:
            store.metrics.record(each)
    await store.flush()


def state(learner: Learner) -> list[tuple[str, bytes]]:
    """All that was learned, byte for byte, in its order."""
    return [(name, model.encode()) for name, model in learner.models.items()]


def new(store: Store, scope: Scope = "shared") -> Learner:
    """A learner that has learned nothing yet."""
    return Learner(store, LearningConfig(scope=scope))


async def learned(entries: Iterable[Entry], scope: Scope = "shared") -> list[tuple[str, bytes]]:
    """What is learned from a journal in one go."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_store(Path(folder) / "s.db") as store:
            await record(store, entries)
            learner = new(store, scope)
            await learner.once()
            return state(learner)


def principal_of(entry: Entry) -> str:
    """Who did it."""
    return entry[-1].principal if isinstance(entry[-1], Fact) else ""


# The same, however it is learned


async def test_nothing_is_learned_from_an_empty_journal(tmp_path: Path) -> None:
    """There is a model to ask before, while and after."""
    async with open_store(tmp_path / "s.db") as store:
        learner = new(store)
        assert (learner.model_for("ann"), learner.is_ready) == (Model(), False)

        assert await learner.once() == 0

        assert (learner.model_for("ann"), learner.is_ready) == (Model(), True)
        assert [each.part for each in await learner.census()] == list(PARTS)
        assert {each.learned for each in await learner.census()} == {0}


async def test_every_part_learns(tmp_path: Path) -> None:
    """A week of work leaves its mark in each of them, and none fails."""
    async with open_store(tmp_path / "s.db") as store:
        await record(store, week())
        learner = new(store)
        assert await learner.once() == len([fact for entry in week() for fact in entry if isinstance(fact, Fact)])
        assert await learner.once() == 0

    model = learner.model_for("ann")
    assert model.faults == {}
    for part in PARTS:
        assert getattr(model, part) != getattr(Model(), part)
    assert [each.part for each in await learner.census()] == list(PARTS)


_ENTRIES = st.builds(
    lambda kind, principal, tools, is_ok: (kind, principal, tuple(tools), is_ok),
    st.sampled_from(("search", "run", "run", "hint")),
    st.sampled_from(("ann", "ben", "mal")),
    st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3, unique=True),
    st.booleans(),
)


def _entry(at: int, kind: str, principal: str, tools: tuple[str, ...], *, is_ok: bool) -> Entry:
    if kind == "search":
        return search(at, principal=principal, found=tools)
    if kind == "hint":
        return hint(at, principal=principal, subject=tools[0])
    return run(at, principal=principal, tools=tools, is_ok=is_ok)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(_ENTRIES, st.sampled_from(("", "once", "save", "restart"))), max_size=20),
    st.sampled_from(("shared", "principal", "domain")),
    st.sampled_from((1, 3, 500)),
)
def test_learning_bit_by_bit_is_the_same_as_learning_anew(
    steps: list[tuple[tuple[str, str, tuple[str, ...], bool], str]], scope: Scope, page: int
) -> None:
    """Whatever happened, wherever it was looked at, saved or begun again: the same bytes as from the whole journal."""

    async def check(folder: Path) -> None:
        async with open_store(folder / "s.db") as store:
            learner = new(store, scope)
            for place, ((kind, principal, tools, is_ok), work) in enumerate(steps):
                await record(store, [_entry(place * 3_600, kind, principal, tools, is_ok=is_ok)])
                if work:
                    await learner.once()
                if work in ("save", "restart"):
                    await learner.save()
                    await store.flush()
                if work == "restart":
                    learner = new(store, scope)
            await learner.once()
            anew = new(store, scope)
            await anew.rebuild()

            assert state(learner) == state(anew)
            assert [*learner.models] == [*anew.models]
            assert learner.number == anew.number

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(module, "_PAGE_FACTS", page)
        asyncio.run(check(Path(folder)))


async def test_next_start_goes_on_from_what_was_saved(tmp_path: Path) -> None:
    """Nothing is read twice, and what comes then is learned as if there had been no end."""
    entries = week()
    async with open_store(tmp_path / "s.db") as store:
        await record(store, entries[:40])
        first = new(store)
        await first.once()
        await first.close()
    async with open_store(tmp_path / "s.db") as store:
        second = new(store)
        assert await second.once() == 0
        assert state(second) == state(first)
        await record(store, entries[40:])
        await second.once()

        assert state(second) == await learned(entries)


async def test_model_is_saved_in_pieces_that_make_the_same_bytes(tmp_path: Path) -> None:
    """Whatever its size: who saves holds nobody up, and what is read again is what was learned."""
    async with open_store(tmp_path / "s.db") as store:
        await record(store, week())
        learner = new(store)
        await learner.once()
    model = learner.model_for("ann")
    for number in range(70_000):
        model.faults[f"fault {number}"] = number
    for part in [*(getattr(model, part) for part in PARTS), model]:
        assert b"".join(module._pieces(part)) == msgspec.msgpack.encode(part)

    packed = await module.pack({"": model, "ann": Model()})

    assert module.unpack(packed) == {"": model, "ann": Model()}


async def test_other_half_life_or_scope_is_learned_anew(tmp_path: Path) -> None:
    """What was learned in one way is not taken for what would be learned in another."""
    async with open_store(tmp_path / "s.db") as store:
        await record(store, week())
        first = new(store)
        await first.once()
        await first.close()
        await store.flush()
        other = Learner(store, LearningConfig(half_life_days=15))

        assert await other.once() > 0
        assert await new(store, "principal").once() > 0


async def test_what_is_known_serves_while_everything_is_learned_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told less meanwhile; only at the very first what was learned so far is served."""
    monkeypatch.setattr(module, "_PAGE_FACTS", 20)
    async with open_store(tmp_path / "s.db") as store:
        await record(store, week())
        learner = new(store)
        real = store.learning.events
        served: list[bytes] = []

        async def events(after: int, limit: int) -> EventPage:
            served.append(learner.model_for("ann").encode())
            return await real(after, limit)

        monkeypatch.setattr(store.learning, "events", events)
        await learner.once()
        assert len(served) == len(set(served)) > 3
        served.clear()
        await learner.rebuild()

        assert set(served) == {learner.model_for("ann").encode()}
        assert len(served) > 3


async def test_old_journal_is_learned_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild is bounded: the newest facts count, and a model that is far behind is not caught up but left."""
    entries = week()
    facts = [fact for entry in entries[-8:] for fact in entry if isinstance(fact, Fact)]
    async with open_store(tmp_path / "s.db") as store:
        await record(store, entries[:8])
        behind = new(store)
        await behind.once()
        await behind.close()
        await record(store, entries[8:])
        monkeypatch.setattr(module, "REBUILD_FACTS", len(facts))
        learner = new(store)

        assert await learner.once() == len(facts)
        assert state(learner) == await learned(entries[-8:])


# Whatever breaks


async def test_read_that_fails_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever between two pages the store fails, what was learned stays and the rest is learned the next time."""
    entries = week()[:8]
    expected = await learned(entries)
    monkeypatch.setattr(module, "_PAGE_FACTS", 2)
    async with open_store(tmp_path / "s.db") as store:
        await record(store, entries)
        real, count = store.learning.events, 0
        fails_at = 0

        async def events(after: int, limit: int) -> EventPage:
            nonlocal count
            count += 1
            if count == fails_at:
                raise StoreError("The disk is gone.")
            return await real(after, limit)

        monkeypatch.setattr(store.learning, "events", events)
        await new(store).once()
        pages = count
        assert pages > 4
        for is_known in (False, True):
            for fails_at in range(1, pages + 1):  # noqa: B007 - `events` reads it
                learner = new(store)
                if is_known:  # then it goes on from where it was, else it starts anew
                    await learner.once()
                    learner._state = msgspec.structs.replace(learner._state, models={}, number=0)
                count = 0
                with pytest.raises(StoreError):
                    await learner.once()
                assert isinstance(learner.model_for("ann"), Model)
                await learner.once()
                assert state(learner) == expected


@pytest.mark.parametrize("turns", [1, 3, 10, 30, 60])
async def test_learning_that_is_stopped_in_the_middle_of_a_page_learns_nothing_twice(
    turns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway ends while a page is being learned: what was learned of it is saved, and the rest comes next time."""
    monkeypatch.setattr(module, "SLICE_SECONDS", 0.0)
    entries = week()
    async with open_store(tmp_path / "s.db") as store:
        await record(store, entries[:4])
        learner = new(store)
        await learner.once()
        start = learner.number
        await record(store, entries[4:])
        task = asyncio.create_task(learner.once())
        async with asyncio.timeout(20):
            while learner.number < start + turns:  # noqa: ASYNC110 - learning goes on while this gives way
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        await learner.close()
    async with open_store(tmp_path / "s.db") as store:
        again = new(store)
        await again.once()

        assert state(again) == await learned(entries)


@pytest.mark.parametrize("part", PARTS)
async def test_part_that_breaks_neither_stops_nor_changes_the_others(
    part: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is counted and told, and every other part learns just what it would have."""
    entries = week()
    ((_, content),) = await learned(entries)
    whole = msgspec.msgpack.decode(content, type=Model)

    def fail(*given: Any, **named: Any) -> None:
        raise ZeroDivisionError("broken")

    for name in ("learn", "items"):
        monkeypatch.setattr(type(getattr(Model(), part)), name, fail)
    async with open_store(tmp_path / "s.db") as store:
        await record(store, entries)
        learner = new(store)
        with caplog.at_level(logging.CRITICAL, "sealyard.learning"):
            await learner.once()

            found = learner.model_for("ann")
            assert list(found.faults) == [part]
            for each in PARTS:
                expected = getattr(Model() if each == part else whole, each)
                assert msgspec.msgpack.encode(getattr(found, each)) == msgspec.msgpack.encode(expected)
            census = await learner.census()
            assert [each.learned > 0 for each in census if each.part == part] == [False]


async def test_a_principal_without_a_domain_is_told_from_what_all_do(tmp_path: Path) -> None:
    """One with a domain is told from what was done in it, and nothing of the others is learned there."""
    async with open_store(tmp_path / "s.db") as store:
        await record(store, week())
        learner = new(store, "domain")
        await learner.once()

        assert set(learner.models) == {"", "communication", "data"}
        assert learner.model_for("mal") is learner.model_for("zoe") is learner.models[""]
        assert learner.model_for("ann") is learner.models["communication"]
        assert learner.model_for("ann", "data") is learner.models["data"]
        assert {name: model.chains.runs for name, model in learner.models.items()} == {
            "": 30,
            "communication": 10,
            "data": 10,
        }
        assert [*learner.models["data"].chains.visits] == ["ben ben-visit"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("prepare_answers", ["shapes"]),
        ("prepare_cause", ["failures"]),
        ("code_print", ["code"]),
    ],
)
async def test_run_that_cannot_be_prepared_for_one_part_is_learned_by_the_others(
    name: str, parts: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Hostile code and answers may break what looks at them."""

    def fail(*given: Any, **named: Any) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(module, name, fail)
    async with open_store(tmp_path / "s.db") as store:
        await record(store, week())
        learner = new(store, "domain")
        with caplog.at_level(logging.CRITICAL, "sealyard.learning"):
            await learner.once()

    model = learner.model_for("ann")
    assert list(model.faults) == parts
    assert model.faults[parts[0]] > 0
    assert model.ranking != Model().ranking
    assert model.resources != Model().resources or name == "code_print"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        zlib.compress(b"garbage"),
        zlib.compress(msgspec.msgpack.encode([["", {}, {}]])),
        zlib.compress(msgspec.msgpack.encode([["", dict.fromkeys(PARTS, b"\xc0"), {}]])),
        zlib.compress(msgspec.msgpack.encode([["", dict.fromkeys(PARTS, b"\x91" * 5_000 + b"\xc0"), {}]])),
        zlib.compress(msgspec.msgpack.encode(["" * 3]))[:-4],
        zlib.compress(b"\x91" * 100_000),
    ],
)
async def test_saved_model_of_garbage_is_learned_anew(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody notices but the log."""
    entries = week()[:12]
    async with open_store(tmp_path / "s.db") as store:
        await record(store, entries)
        learner = new(store)
        store.learning.save(learner._form, 3, 0, content)
        await store.flush()
        await learner.once()

        assert state(learner) == await learned(entries)
        assert [each.levelname for each in caplog.records] == ["WARNING"]


async def test_watching_survives_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A store that fails and an error that nobody thought of are told in the log; then it goes on."""
    monkeypatch.setattr(module, "_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(module, "_SAVE_SECONDS", 0.0)
    entries = week()[:12]
    async with open_store(tmp_path / "s.db") as store:
        await record(store, entries)
        real = store.learning.events
        errors = [StoreError("The disk is gone."), ZeroDivisionError("broken")]
        learner = new(store)
        served = []
        saved = asyncio.Event()

        async def events(after: int, limit: int) -> EventPage:
            served.append(learner.model_for("ann"))
            if errors:
                raise errors.pop()
            return await real(after, limit)

        monkeypatch.setattr(store.learning, "events", events)
        monkeypatch.setattr(store.learning, "save", lambda *given: saved.set())
        task = asyncio.create_task(learner.watch())
        async with asyncio.timeout(20):
            await saved.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert state(learner) == await learned(entries)
        assert served[:3] == [Model()] * 3
        assert [each.levelname for each in caplog.records] == ["ERROR", "ERROR"]


async def test_store_that_is_closed_leaves_what_was_learned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Who asks gets the model that there is, and closing says what was not saved."""
    async with open_store(tmp_path / "s.db") as store:
        await record(store, week())
        learner = new(store)
        await learner.once()
    before = state(learner)
    with pytest.raises(StoreError):
        await learner.once()
    with pytest.raises(StoreError):
        await learner.forget("all")
    await learner.close()

    assert state(learner) == before
    assert [each.levelname for each in caplog.records] == ["ERROR"]


async def test_event_loop_goes_on_while_much_is_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two slices everybody else has a turn."""
    monkeypatch.setattr(module, "SLICE_SECONDS", 0.0)
    async with open_store(tmp_path / "s.db") as store:
        await record(store, week())
        learner = new(store)
        turns = 0

        async def tick() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(tick())
        count = await learner.once()
        task.cancel()

        assert turns >= count > 80


# Forgetting


FORGOTTEN = {
    "principal": ("principal", "mal", lambda entry: principal_of(entry) == "mal"),
    "all": ("all", "", lambda entry: True),
}


@pytest.mark.parametrize("scope", ["shared", "principal", "domain"])
@pytest.mark.parametrize("kind", FORGOTTEN)
async def test_what_is_forgotten_was_never_learned(kind: str, scope: Scope, tmp_path: Path) -> None:
    """At once nothing of it is told; then all is as if it had never been in the journal, also after a new start."""
    what, subject, is_gone = FORGOTTEN[kind]
    later = [run(90_000_000, principal="mal"), search(90_000_100)]
    expected = await learned([*week(without=is_gone), *later], scope)
    async with open_store(tmp_path / "s.db") as store:
        await record(store, week())
        learner = new(store, scope)
        await learner.once()
        await learner.save()

        await learner.forget(what, subject)  # type: ignore[arg-type]

        assert learner.model_for("mal") == Model()
        assert not learner.is_ready
        await learner.once()
        assert learner.is_ready
        await record(store, later)
        await learner.once()
        assert state(learner) == expected
        await learner.close()
    async with open_store(tmp_path / "s.db") as store:
        again = new(store, scope)
        await again.once()
        assert state(again) == expected
        await again.rebuild()
        assert state(again) == expected


async def test_forgotten_tool_is_taken_out_of_searches_and_its_runs_are_dropped(tmp_path: Path) -> None:
    """As if the tool had never been found, used, imported or told of."""
    entries = [
        search(0, found=[PAY, MAIL], ranks=[2, 1]),
        search(100, found=[MAIL, PAY]),
        run(200, tools=[PAY]),
        run(300, tools=[MAIL]),
        hint(400, subject=PAY),
        hint(500, subject=MAIL),
    ]
    searched, used = search(0, found=[MAIL], ranks=[1]), search(100, found=[MAIL])
    # What was told of a whole run names no tool: it stays, and waits for an end that does not come.
    expected = await learned([searched[:1], used, run(200, tools=[PAY])[:1], entries[3], entries[5]])
    async with open_store(tmp_path / "s.db") as store:
        await record(store, entries)
        learner = new(store)
        await learner.once()

        await learner.forget("tool", PAY)
        await learner.once()

        assert state(learner) == expected
        assert PAY.encode() not in learner.model_for("ann").encode()


async def test_gateways_of_one_store_forget_together(tmp_path: Path) -> None:
    """What one is told to forget the other notices, and neither can save what it should have forgotten."""
    expected = await learned(week(without=lambda entry: principal_of(entry) == "mal"))
    async with open_store(tmp_path / "s.db") as one, open_store(tmp_path / "s.db") as other:
        await record(one, week())
        first, second = new(one), new(other)
        await asyncio.gather(first.once(), second.once())
        assert state(first) == state(second)

        await first.forget("principal", "mal")
        await second.save()
        await other.flush()
        assert await one.learning.load(second._form) is None
        await asyncio.gather(first.once(), second.once())

        assert state(first) == state(second) == expected


@pytest.mark.parametrize("is_own", [True, False])
async def test_forgetting_in_the_middle_of_learning_is_obeyed(
    is_own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever page is being learned, and whoever asks: nothing of it is there when that is over."""
    monkeypatch.setattr(module, "_PAGE_FACTS", 20)
    expected = await learned(week(without=lambda entry: principal_of(entry) == "mal"))
    facts = [fact for entry in week() for fact in entry if isinstance(fact, Fact)]
    for place in range(1, len(facts) // 20 + 2):
        async with open_store(tmp_path / f"{place}.db") as store:
            await record(store, week())
            learner = new(store)
            _forget_at_page(store, place, learner.forget if is_own else partial(store.learning.forget, at=BASE))
            await learner.once()
            if is_own:
                assert b"mal" not in learner.model_for("ann").encode()
            await learner.once()

            assert state(learner) == expected


def _forget_at_page(store: Store, place: int, forget: Callable[..., Awaitable[Forgotten]]) -> None:
    """Forget a principal when that page has been read and not been learned yet."""
    real, count = store.learning.events, 0

    async def events(after: int, limit: int) -> EventPage:
        nonlocal count
        count += 1
        page = await real(after, limit)
        if count == place:
            await forget("principal", "mal")
        return page

    store.learning.events = events  # type: ignore[method-assign]


async def test_forgetting_is_obeyed_when_the_store_fails_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what cannot hold it is served, and as soon as the store can be read the rest is learned anew, once."""
    expected = await learned(week(without=lambda entry: principal_of(entry) == "mal"), "principal")
    async with open_store(tmp_path / "s.db") as store:
        await record(store, week())
        learner = new(store, "principal")
        await learner.once()
        await learner.forget("principal", "mal")
        real, errors = store.learning.newest, [StoreError("The disk is gone.")]

        async def newest() -> int:
            if errors:
                raise errors.pop()
            return await real()

        monkeypatch.setattr(store.learning, "newest", newest)
        with pytest.raises(StoreError):
            await learner.once()
        assert (learner.model_for("mal"), learner.is_ready) == (Model(), False)
        assert list(learner.models) == ["ann", "ben"]
        await learner.save()
        await learner.once()

        assert state(learner) == expected


async def test_what_cannot_be_forgotten_is_refused(tmp_path: Path) -> None:
    """What was learned stays then."""
    async with open_store(tmp_path / "s.db") as store:
        await record(store, week())
        learner = new(store)
        await learner.once()
        before = state(learner)
        with pytest.raises(InvalidRequest):
            await learner.forget("tool")

        assert state(learner) == before


def _only(entry: Entry, kind: type[Fact]) -> LearningEvent:
    (fact,) = [each for each in entry if isinstance(each, kind)]
    return RunEvidence(fact=fact, started_at=0.0) if isinstance(fact, Executed) else fact  # type: ignore[return-value]


def _code(text: str) -> LearningEvent:
    """A run that called nothing."""
    return msgspec.structs.replace(_only(run(tools=[]), Executed), code=text)


@pytest.mark.parametrize(
    ("event", "is_left"),
    [
        (_only(search(found=[PAY]), Used), False),
        (_only(search(found=[MAIL]), Used), True),
        (_only(run(tools=[PAY]), Executed), False),
        (_only(run(tools=[MAIL]), Executed), True),
        (_only(hint(subject=PAY), Hinted), False),
        (_only(hint(subject=f"{MAIL} {PAY}"), Hinted), False),
        (_only(hint(subject="mcp__bank__pay_back"), Hinted), True),
        (_code("from servers.bank import pay"), False),
        (_code("call_tool('mcp__bank__pay')"), False),
        (_code("from servers.bank import payee"), True),
    ],
)
def test_what_names_a_forgotten_tool_is_dropped(event: LearningEvent, is_left: bool) -> None:
    """By the calls it made, the functions it imports, or what it is about; only up to when it was forgotten."""
    forgotten = Forgotten(what="tool", subject=PAY, number=5, at=BASE)

    assert (without_forgotten(prepare(event, 5), [forgotten]) is not None) == is_left
    assert without_forgotten(prepare(event, 6), [forgotten]) == prepare(event, 6)


@pytest.mark.parametrize(("forgotten", "is_left"), [("mcp__ab__c", True), ("mcp__a-b__c", False)])
def test_tools_that_differ_in_an_underscore_are_not_confused(forgotten: str, is_left: bool) -> None:
    """Code imports `servers.a_b.c`: a tool of the server `ab` is another one, and one of `a-b` is the same."""
    event = _code("from servers.a_b import c\nc()")

    left = without_forgotten(prepare(event, 5), [Forgotten(at=9.0, number=9, what="tool", subject=forgotten)])

    assert (left is not None) == is_left


def test_search_without_a_forgotten_tool_keeps_the_others_in_their_places() -> None:
    """With the ranks that they had by text."""
    event = _only(search(found=[PAY, MAIL, QUERY], ranks=[3, 1, 0]), Searched)
    forgotten = Forgotten(what="tool", subject=MAIL, number=5, at=BASE)

    left = without_forgotten(prepare(event, 5), [forgotten])

    assert left is not None
    assert isinstance(left.event, Searched)
    assert (left.event.found, left.event.text_ranks) == ((PAY, QUERY), (3, 0))


# Apart


async def test_principals_that_learn_apart_share_nothing(tmp_path: Path) -> None:
    """What one did changes nothing of what another is told; who has done nothing is told nothing."""
    entries = week()
    ann = await learned([entry for entry in entries if principal_of(entry) == "ann"])
    async with open_store(tmp_path / "s.db") as store:
        await record(store, entries)
        learner = new(store, "principal")
        await learner.once()

        assert sorted(learner.models) == ["ann", "ben", "mal"]
        assert learner.model_for("ann").encode() == ann[0][1]
        assert learner.model_for("ann", "data").encode() == ann[0][1]
        assert learner.model_for("zoe") == Model()


async def test_domain_learns_from_those_who_work_on_it_and_all_from_everything(tmp_path: Path) -> None:
    """A domain that nobody has worked on yet is told what is known of all."""
    entries = [run(place * 100, principal="ann", tools=[MAIL]) for place in range(5)]
    entries += [run(place * 100 + 50, principal="ben", tools=[QUERY]) for place in range(5)]
    async with open_store(tmp_path / "s.db") as store:
        await record(store, entries)
        learner = new(store, "domain")
        await learner.once()

        assert set(learner.models) == {"", "communication", "data"}
        assert learner.model_for("", "communication") is learner.models["communication"]
        assert learner.model_for("", "travel") is learner.models[""]
        assert QUERY.encode() not in learner.models["communication"].encode()
        assert MAIL.encode() not in learner.models["data"].encode()
        assert learner.models[""].encode() == (await learned(entries))[0][1]


async def test_partitions_that_learned_last_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many principals there are; who only asks keeps nothing alive, so that a rebuild gives the same."""
    monkeypatch.setattr(module, "PARTITIONS", 3)
    entries = [run(place, principal=name, tools=[PAY]) for place, name in enumerate("abcad")]
    async with open_store(tmp_path / "s.db") as store:
        learner = new(store, "principal")
        for entry in entries:
            await record(store, [entry])
            await learner.once()
            learner.model_for("a")

        assert list(learner.models) == ["c", "a", "d"]
        await learner.rebuild()
        assert list(learner.models) == ["c", "a", "d"]


async def test_insights_of_all_partitions_are_added_up(tmp_path: Path) -> None:
    """Each part is told of once; a principal's own are of its partition alone."""
    async with open_store(tmp_path / "s.db") as store:
        await record(store, week())
        learner = new(store, "principal")
        await learner.once()

        every = {each.part: each.evidence for each in await learner.census()}
        own = [{each.part: each.evidence for each in await learner.census(name)} for name in ("ann", "ben", "mal")]

    assert list(every) == list(PARTS)
    assert every == {part: sum(each[part] for each in own) for part in PARTS}
    assert every["resources"] > 0
