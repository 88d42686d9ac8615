"""Measures what it costs to look up what was learned, beside the search that it is looked up for."""

import time
from random import Random
from typing import Any

from benchmarks.discovery import LabelledQuery, Sets
from benchmarks.learning.ranking import HALF_LIFE, PRINCIPAL, learned_from, past_of, seeded
from sealyard.catalog import Snapshot
from sealyard.discovery import Index
from sealyard.learning.learner import Model
from sealyard.learning.part import Viewer
from sealyard.values.tools import ToolSpec

_TOOLS = 1_500
_QUERIES = 200
_ROUNDS = 5
_SHOWN = 5
_VERBS = "create list delete update send find count merge export import archive share rename verify schedule".split()
_THINGS = (
    "invoice customer ticket meeting folder branch release deployment payment shipment campaign article photo "
    "recipe flight hotel contract employee sensor playlist".split()
)
_KINDS = "monthly private shared draft overdue".split()


async def measure_lookups(sets: Sets, pool: dict[str, ToolSpec]) -> dict[str, Any]:
    """`lookup_ratio`: all lookups of a search of five hits to the search by text alone, in a catalog of many tools."""
    chance = seeded("lookups")
    tools, queries = _made_up() if not sets else _gathered(sets, pool, chance)
    index = Index(tools.values())
    chance.shuffle(queries)
    past, test = queries[: len(queries) // 2], queries[len(queries) // 2 :]
    model, now = await learned_from(past_of(index, past, list(tools), noise=0.0, chance=chance))
    view = Snapshot({"all": tools.values()})
    searching = looking = 0.0
    for query in test:
        samples = [_time(index, model, view, query.query, now) for _ in range(_ROUNDS)]
        best = min(plain for plain, _ in samples)
        searching += best
        looking += max(0.0, min(whole for _, whole in samples) - best)
    return {
        "lookup_ratio": looking / searching,
        "lookups": {
            "tools": len(tools),
            "search_ms": searching / len(test) * 1e3,
            "lookup_ms": looking / len(test) * 1e3,
        },
    }


def _time(index: Index, model: Model, view: Snapshot, query: str, now: float) -> tuple[float, float]:
    """The seconds of a search by text, and of one with recalling, another order and tips at the hits."""
    start = time.perf_counter()
    index.search(query, limit=_SHOWN)
    middle = time.perf_counter()
    learned = model.ranking.recall(query, Viewer(PRINCIPAL, now, HALF_LIFE))
    for name in index.search(query, limit=_SHOWN, learned=learned).names:
        model.chains.tips(view.tools[name], Viewer(PRINCIPAL, now, HALF_LIFE), view=view)
    return middle - start, time.perf_counter() - middle


def _gathered(sets: Sets, pool: dict[str, ToolSpec], chance: Random) -> tuple[dict[str, ToolSpec], list[LabelledQuery]]:
    """Tools of all sets, as far as questions need them, filled up with others; and questions."""
    queries: list[LabelledQuery] = []
    tools: dict[str, ToolSpec] = {}
    share = max(1, 2 * _QUERIES // len(sets))
    for own, asked in sets.values():
        chosen = chance.sample(asked, min(share, len(asked)))
        queries += chosen
        tools |= {name: own[name] for query in chosen for name in query.relevant}
    others = [spec for each in (*(own for own, _ in sets.values()), pool) for spec in each.values()]
    chance.shuffle(others)
    for spec in others[: max(0, _TOOLS - len(tools))]:
        tools.setdefault(spec.full_name, spec)
    if len(tools) < _TOOLS:
        tools |= _made_up()[0]
    return tools, queries


def _made_up() -> tuple[dict[str, ToolSpec], list[LabelledQuery]]:
    """Tools and questions for who has none."""
    tools = {}
    queries = []
    for verb in _VERBS:
        for thing in _THINGS:
            for kind in _KINDS:
                name = f"{verb}_{kind}_{thing}"
                full_name = f"mcp__{thing}s__{name}"
                tools[full_name] = ToolSpec(
                    upstream=f"{thing}s",
                    name=name,
                    full_name=full_name,
                    module=f"{thing}s",
                    function=name,
                    description=f"{verb.title()} a {kind} {thing} of your team and tell what has become of it.",
                    input_schema={"type": "object", "properties": {f"{thing}_id": {"type": "string"}}},
                    digest=full_name,
                )
                queries.append(
                    LabelledQuery(query=f"please {verb} the {kind} {thing} of my team", relevant=[full_name])
                )
    return tools, seeded("queries").sample(queries, 2 * _QUERIES)
