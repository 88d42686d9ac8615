"""Measures what experience does to search: usage is made from sets of tools and questions, and replayed.

Half of a set's questions were asked before: each search is written to the journal of a real store with what text found,
followed by a run that called the right tools, and the learner reads it. The other half is then searched for with what
was learned and without. Of two random halves each is once the past and once the test, for several splits into halves.
In a noisy past every fifth run called a wrong tool instead, one of those shown or any of the set.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from benchmarks.discovery import LabelledQuery, Sets, marks
from sealyard.config.settings import LearningConfig
from sealyard.discovery import Index
from sealyard.discovery.index import Request
from sealyard.learning.learner import Learner, Model
from sealyard.learning.part import Viewer
from sealyard.store import Store, open_store
from sealyard.values.facts import Executed, Searched, Used
from sealyard.values.runs import CallRecord, ExecutionRecord
from sealyard.values.tools import ToolSpec

HALF_LIFE = LearningConfig().half_life_days * 86_400.0
PRINCIPAL = "local"

_SHOWN = 5
_DEPTH = 10
_SPLITS = 3
_PAST = 300
"""Questions that were asked before, at most, and those that are asked of one half."""
_ASKED = 120
_NOISE = 0.2
_MINUTE = 60.0
_WAYS = ("before", "after", "after_noisy")

_Mark = tuple[float, float]
"""Of a question: whether the first is right, and the discounted gain of ten."""


class _Read(NamedTuple):
    """A question as an index reads it: what text makes of it is the same for every past."""

    asked: LabelledQuery
    request: Request
    scores: dict[int, float]


class Past(msgspec.Struct, frozen=True):
    """A question that was asked, what was shown, and what was then called."""

    query: str
    found: list[str]
    called: list[str]


async def measure_ranking(sets: Sets, pool: dict[str, ToolSpec]) -> dict[str, Any]:
    """`sets`, `worst_set_change` and `worst_split_change`, both also noisy, `unseen` and `unseen_change`."""
    figures: dict[str, dict[str, Any]] = {}
    for name, (tools, queries) in sets.items():
        for label, others in {name: {}, f"{name}+pool": pool}.items():
            if label == name or pool:
                figures[label] = await _measure_set(label, Index((others | tools).values()), list(tools), queries)
    changes = {
        way: min(figure["ndcg_at_10"][way] - figure["ndcg_at_10"]["before"] for figure in figures.values())
        for way in _WAYS[1:]
    }
    split = {way: min(figure["worst_split"][way] for figure in figures.values()) for way in _WAYS[1:]}
    unseen = await _measure_unseen(sets, pool) if len(sets) > 1 else {}
    return {
        "sets": figures,
        "worst_set_change": changes["after"],
        "worst_set_change_noisy": changes["after_noisy"],
        "worst_split_change": split["after"],
        "worst_split_change_noisy": split["after_noisy"],
        "unseen": unseen,
        "unseen_change": min(unseen.values(), default=None),
    }


async def _measure_set(label: str, index: Index, tools: list[str], queries: Sequence[LabelledQuery]) -> dict[str, Any]:
    found: dict[str, list[list[_Mark]]] = {way: [] for way in _WAYS}
    past_size = 0
    reads = [_read(index, query) for query in queries]
    for split in range(_SPLITS):
        order = list(reads)
        seeded(f"{label} {split}").shuffle(order)
        halves = [order[: len(order) // 2], order[len(order) // 2 :]]
        for past, test in (halves, halves[::-1]):
            asked = test[:_ASKED]
            past_size += len(past[:_PAST])
            found["before"].append([_asked(index, read, None, 0.0) for read in asked])
            for way, noise in (("after", 0.0), ("after_noisy", _NOISE)):
                made = _past_of(index, past[:_PAST], tools, noise=noise, chance=seeded(f"{label} {split} {noise}"))
                model, now = await learned_from(made)
                found[way].append([_asked(index, read, model, now) for read in asked])
    marked = {way: [mark for half in halves for mark in half] for way, halves in found.items()}
    before = list(map(_gain, found["before"]))
    return {
        "queries": len(marked["before"]),
        "history": past_size,
        "tools": len(index.specs),
        "hit_at_1": {way: statistics.fmean(hit for hit, _ in marked[way]) for way in _WAYS},
        "ndcg_at_10": {way: _gain(marked[way]) for way in _WAYS},
        "worst_split": {
            way: min(_gain(half) - had for half, had in zip(found[way], before, strict=True)) for way in _WAYS[1:]
        },
    }


def _gain(marked: Sequence[_Mark]) -> float:
    return statistics.fmean(gain for _, gain in marked)


async def _measure_unseen(sets: Sets, pool: dict[str, ToolSpec]) -> dict[str, float]:
    """A set's questions after a past of each other set: their like was never asked. All tools are listed."""
    index = Index(
        {
            name: spec for tools in (pool, *(tools for tools, _ in sets.values())) for name, spec in tools.items()
        }.values()
    )
    chance = seeded("unseen")
    reads = {
        name: [_read(index, query) for query in chance.sample(queries, min(_PAST, len(queries)))]
        for name, (_, queries) in sets.items()
    }
    changes: dict[str, float] = {}
    for other, past in reads.items():
        model, now = await learned_from(_past_of(index, past, list(sets[other][0]), noise=0.0, chance=chance))
        for name, asked in reads.items():
            if name != other:
                gains = [
                    _asked(index, read, model, now)[1] - _asked(index, read, None, now)[1] for read in asked[:_ASKED]
                ]
                changes[f"{name} after {other}"] = statistics.fmean(gains)
    return changes


def seeded(text: str) -> Random:
    """Chance that is the same each time."""
    return Random(text)  # noqa: S311 - nothing is to be kept secret by it


def past_of(
    index: Index, queries: Sequence[LabelledQuery], tools: Sequence[str], *, noise: float, chance: Random
) -> list[Past]:
    """The past of these questions: what text showed, and the tools that were called."""
    return _past_of(index, [_read(index, query) for query in queries], tools, noise=noise, chance=chance)


def _read(index: Index, query: LabelledQuery) -> _Read:
    request = index.read(query.query)
    return _Read(query, request, index.scores(request, limit=_DEPTH, among=None))


def _past_of(index: Index, reads: Sequence[_Read], tools: Sequence[str], *, noise: float, chance: Random) -> list[Past]:
    past = []
    for query, request, scores in reads:
        found = index.ranked(request, scores, limit=_SHOWN, among=None).names
        called = query.relevant
        if chance.random() < noise:
            called = [chance.choice(found if found and chance.random() < 0.5 else tools)]
        past.append(Past(query.query, found, called))
    return past


async def learned_from(past: Sequence[Past]) -> tuple[Model, float]:
    """The model that a learner makes of a journal with this in it, and the time of that."""
    started = time.time() - len(past) * _MINUTE
    with tempfile.TemporaryDirectory(prefix="sealyard-benchmark-") as folder:
        async with open_store(Path(folder) / "store.db") as store:
            for number, each in enumerate(past):
                _write(store, each, f"{number:06}", started + number * _MINUTE)
                if number % 50 == 0:
                    await store.flush()
            await store.flush()
            learner = Learner(store, LearningConfig())
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


def _asked(index: Index, read: _Read, model: Model | None, now: float) -> _Mark:
    query, request, scores = read
    learned = None
    if model is not None:
        learned = model.ranking.recall(query.query, Viewer(PRINCIPAL, now, HALF_LIFE))
    names = index.ranked(request, scores, limit=_DEPTH, among=None, learned=learned).names
    hit, _, gain = marks(query.relevant, names)
    return hit, gain
