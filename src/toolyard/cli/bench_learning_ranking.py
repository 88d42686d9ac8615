"""Measures what experience does to search: usage is made from sets of tools and questions, and replayed.

Half of a set's questions were asked before: each search is written to the journal of a real store with what text found,
followed by a run that called the right tools, and the learner reads it. The other half is then searched for with what
was learned and without. Of two random halves each is once the past and once the test. In a noisy past every fifth run
called a wrong tool instead, one of those shown or any of the set.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from toolyard.cli.bench_discovery import LabelledQuery, Sets, marks
from toolyard.discovery import Index
from toolyard.learning.learner import Learner
from toolyard.learning.model import Model
from toolyard.store import Store, open_store
from toolyard.values import CallRecord, Executed, ExecutionRecord, Searched, ToolSpec, Used

__all__ = ("HALF_LIFE", "PRINCIPAL", "learned_from", "measure_ranking", "past_of", "seeded")

HALF_LIFE = 30 * 86_400.0
PRINCIPAL = "local"

_SHOWN = 5
_DEPTH = 10
_SPLITS = 2
_PAST = 300
"""Questions that were asked before, at most, and those that are asked of one half."""
_ASKED = 120
_NOISE = 0.2
_MINUTE = 60.0
_WAYS = ("before", "after", "after_noisy")

_Marks = list[tuple[float, float]]
"""Of each question: whether the first is right, and the discounted gain of ten."""


class Past(msgspec.Struct, frozen=True):
    """A question that was asked, what was shown, and what was then called."""

    query: str
    found: list[str]
    called: list[str]


async def measure_ranking(sets: Sets, pool: dict[str, ToolSpec]) -> dict[str, Any]:
    """`sets`, `worst_set_change`, `worst_set_change_noisy`, `unseen` and `unseen_change`."""
    figures: dict[str, dict[str, Any]] = {}
    for name, (tools, queries) in sets.items():
        for label, others in {name: {}, f"{name}+pool": pool}.items():
            if label == name or pool:
                figures[label] = await _measure_set(label, Index((others | tools).values()), list(tools), queries)
    changes = [
        [figure["ndcg_at_10"][way] - figure["ndcg_at_10"]["before"] for figure in figures.values()]
        for way in ("after", "after_noisy")
    ]
    unseen = await _measure_unseen(sets, pool) if len(sets) > 1 else {}
    return {
        "sets": figures,
        "worst_set_change": min(changes[0]),
        "worst_set_change_noisy": min(changes[1]),
        "unseen": unseen,
        "unseen_change": min(unseen.values(), default=None),
    }


async def _measure_set(label: str, index: Index, tools: list[str], queries: Sequence[LabelledQuery]) -> dict[str, Any]:
    found: dict[str, _Marks] = {way: [] for way in _WAYS}
    past_size = asked_size = 0
    for split in range(_SPLITS):
        order = list(queries)
        seeded(f"{label} {split}").shuffle(order)
        halves = [order[: len(order) // 2], order[len(order) // 2 :]]
        for past, test in (halves, halves[::-1]):
            asked = test[:_ASKED]
            past_size, asked_size = past_size + len(past[:_PAST]), asked_size + len(asked)
            found["before"] += [_asked(index, query, None, 0.0) for query in asked]
            for way, noise in (("after", 0.0), ("after_noisy", _NOISE)):
                made = past_of(index, past[:_PAST], tools, noise=noise, chance=seeded(f"{label} {split} {noise}"))
                model, now = await learned_from(made)
                found[way] += [_asked(index, query, model, now) for query in asked]
    return {
        "queries": asked_size,
        "history": past_size,
        "tools": len(index.specs),
        "hit_at_1": {way: statistics.fmean(hit for hit, _ in found[way]) for way in _WAYS},
        "ndcg_at_10": {way: statistics.fmean(gain for _, gain in found[way]) for way in _WAYS},
    }


async def _measure_unseen(sets: Sets, pool: dict[str, ToolSpec]) -> dict[str, float]:
    """How questions change whose like was never asked: the past is of another set, and all tools are there."""
    index = Index(
        {
            name: spec for tools in (pool, *(tools for tools, _ in sets.values())) for name, spec in tools.items()
        }.values()
    )
    names = list(sets)
    changes: dict[str, float] = {}
    for number, name in enumerate(names):
        other = names[(number + 1) % len(names)]
        tools, queries = sets[other]
        chance = seeded(f"{name} {other}")
        past = past_of(index, chance.sample(queries, min(_PAST, len(queries))), list(tools), noise=0.0, chance=chance)
        model, now = await learned_from(past)
        test = sets[name][1]
        asked = chance.sample(test, min(_ASKED, len(test)))
        gains = [_asked(index, query, model, now)[1] - _asked(index, query, None, now)[1] for query in asked]
        changes[f"{name} after {other}"] = statistics.fmean(gains)
    return changes


def seeded(text: str) -> Random:
    """Chance that is the same each time."""
    return Random(text)  # noqa: S311 - nothing is to be kept secret by it


def past_of(
    index: Index, queries: Sequence[LabelledQuery], tools: Sequence[str], *, noise: float, chance: Random
) -> list[Past]:
    """What happened when these were asked: what text showed, and the tools that were called."""
    past = []
    for query in queries:
        found = index.search(query.query, limit=_SHOWN).names
        called = query.relevant
        if chance.random() < noise:
            called = [chance.choice(found if found and chance.random() < 0.5 else tools)]
        past.append(Past(query.query, found, called))
    return past


async def learned_from(past: Sequence[Past]) -> tuple[Model, float]:
    """What a learner makes of a journal with this in it, and when that was."""
    started = time.time() - len(past) * _MINUTE
    with tempfile.TemporaryDirectory(prefix="toolyard-bench-") as folder:
        async with open_store(Path(folder) / "store.db") as store:
            for number, each in enumerate(past):
                _write(store, each, f"{number:06}", started + number * _MINUTE)
                if number % 50 == 0:
                    await store.flush()
            await store.flush()
            learner = Learner(store, half_life=HALF_LIFE)
            await learner.once()
            return learner.model_for(PRINCIPAL), time.time()


def _write(store: Store, past: Past, mark: str, at: float) -> None:
    """One search, and the run that followed it in the same visit."""
    visit = f"visit{mark}"
    whose: dict[str, Any] = {"principal": PRINCIPAL, "session": visit}
    store.metrics.record(
        Searched(
            at=at,
            **whose,
            search_id=f"search{mark}",
            place="agent",
            detail_level="with_description",
            seconds=0.001,
            query=past.query[:500],
            found=tuple(past.found),
        )
    )
    code = "\n".join(f"call_tool({tool!r}, {{}})" for tool in past.called)
    run = ExecutionRecord(execution_id=mark, principal=PRINCIPAL, session="", code=code, started_at=at + 1)
    store.record_start(run)
    for number, tool in enumerate(past.called, 1):
        store.record_call(
            CallRecord(
                execution_id=mark, number=number, tool=tool, digest="", arguments={}, started_at=at + 1, seconds=0.1
            )
        )
    hit = next((tool for tool in past.called if tool in past.found), None)
    if hit is not None:  # a search is a hit once, with the tool that is called first
        rank = past.found.index(hit) + 1
        store.metrics.record(
            Used(at=at + 1, **whose, execution_id=mark, search_id=f"search{mark}", tool=hit, rank=rank, seconds=1.0)
        )
    store.record_end(msgspec.structs.replace(run, status="ok", ended_at=at + 2))
    store.metrics.record(
        Executed(
            at=at + 2,
            **whose,
            execution_id=mark,
            form="code",
            status="ok",
            seconds=1.0,
            calls=len(past.called),
            tools=tuple(sorted(past.called)),
            use_case="workflow" if len(past.called) > 1 else "filtering",
        )
    )


def _asked(index: Index, query: LabelledQuery, model: Model | None, now: float) -> tuple[float, float]:
    learned = None
    if model is not None:
        learned = model.ranking.recall(query.query, principal=PRINCIPAL, now=now, half_life=HALF_LIFE)
    names = index.search(query.query, limit=_DEPTH, learned=learned).names
    hit, _, gain = marks(query.relevant, names)
    return hit, gain
