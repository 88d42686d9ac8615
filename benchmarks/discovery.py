"""Measures how well tools are found, on sets of tools and questions that somebody else wrote.

A folder with `tools.jsonl` and `queries.jsonl` is a set; one without queries is a pool of distractors. Each set is
measured alone, and again with all pools added.
"""

import hashlib
import math
import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from rich.progress import Progress

from sealyard.cli.terminal import columns, errors, plain, screen
from sealyard.discovery import Index, Semantic
from sealyard.errors import InvalidRequest
from sealyard.store import open_store
from sealyard.values.tools import ToolSpec

_T = TypeVar("_T")
_DEPTH = 10
_MARKS = ("hit@1", "hit@5", "ndcg@10")


class _Tool(msgspec.Struct):
    id: str
    server: str
    name: str
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    title: str | None = None


class LabelledQuery(msgspec.Struct):
    """A question, and the ids of the tools that answer it."""

    query: str
    relevant: Annotated[list[str], msgspec.Meta(min_length=1)]


Sets: TypeAlias = dict[str, tuple[dict[str, ToolSpec], list[LabelledQuery]]]
"""By name: the tools by id, and the queries."""


async def measure(data: Path, *, semantic: bool = False, store: Path | None = None) -> dict[str, Any]:
    """Every figure of `benchmarks discovery`."""
    sets, pool = load_sets(data)
    async with AsyncExitStack() as stack:
        ranker = None
        if semantic:
            ranker = Semantic.load(await stack.enter_async_context(open_store(store)) if store else None)
            if ranker is None:
                raise InvalidRequest("The semantic ranker is not installed. Install `sealyard[semantic]`.")
            await _embed(ranker, [spec for tools, _ in sets.values() for spec in tools.values()] + list(pool.values()))
        figures, index_seconds, query_ms = await _measured(sets, pool, ranker)
    return {
        "sets": figures,
        "mean": {key: statistics.fmean(figure[key] for figure in figures.values()) for key in _MARKS},
        "index_seconds": index_seconds,
        "query_ms_p50": statistics.median(query_ms),
        "query_ms_p95": sorted(query_ms)[min(len(query_ms) - 1, int(len(query_ms) * 0.95))],
    }


def show(figures: dict[str, Any]) -> None:
    """The same figures as a table."""
    table = columns("set", *_MARKS, "tools", "queries")
    for name, figure in figures["sets"].items():
        cells = [f"{figure[mark]:.3f}" for mark in _MARKS]
        table.add_row(plain(name), *cells, f"{figure['tools']:,}", f"{figure['queries']:,}")
    table.add_row("mean", *(f"{figures['mean'][mark]:.3f}" for mark in _MARKS), "", "", style="bold")
    screen.print(table)
    screen.print(
        plain(
            f"index {figures['index_seconds']:.2f} s for the largest, "
            f"query p50 {figures['query_ms_p50']:.2f} ms, p95 {figures['query_ms_p95']:.2f} ms",
            "dim",
        )
    )


async def _embed(ranker: Semantic, specs: list[ToolSpec]) -> None:
    with Progress(console=errors, transient=True) as progress:
        task = progress.add_task("embedding tools", total=None)
        await ranker.embed(specs, on_progress=lambda done, of: progress.update(task, completed=done, total=of))


async def _measured(
    sets: Sets, pool: dict[str, ToolSpec], ranker: Semantic | None
) -> tuple[dict[str, dict[str, float]], float, list[float]]:
    """The figures of each set, the seconds to build the largest index, and the milliseconds of every query."""
    figures: dict[str, dict[str, float]] = {}
    largest = (0, 0.0)
    query_ms: list[float] = []
    for name, (tools, queries) in sets.items():
        for label, others in {name: {}, f"{name}+pool": pool}.items():
            if label == name or pool:
                started = time.perf_counter()
                index = Index((others | tools).values())
                largest = max(largest, (len(index.specs), time.perf_counter() - started))
                found = [marks(query.relevant, await _asked(index, ranker, query, query_ms)) for query in queries]
                means = [statistics.fmean(column) for column in zip(*found, strict=True)]
                figures[label] = dict(zip(_MARKS, means, strict=True))
                figures[label] |= {"tools": len(index.specs), "queries": len(queries)}
    return figures, largest[1], query_ms


async def _asked(index: Index, ranker: Semantic | None, query: LabelledQuery, query_ms: list[float]) -> list[str]:
    started = time.perf_counter()
    if ranker is None:
        ranking = index.search(query.query, limit=_DEPTH)
    else:
        ranking = await ranker.search(index, query.query, limit=_DEPTH)
    query_ms.append((time.perf_counter() - started) * 1e3)
    return ranking.names


def marks(relevant: list[str], names: list[str]) -> tuple[float, float, float]:
    """Hit at one, hit at five and nDCG at ten of a ranking, by the ids that are relevant."""
    places = [place for place, name in enumerate(names[:_DEPTH]) if name in relevant]
    gain = sum(1 / math.log2(place + 2) for place in places)
    ideal = sum(1 / math.log2(place + 2) for place in range(min(_DEPTH, len(set(relevant)))))
    return float(0 in places), float(any(place < 5 for place in places)), gain / ideal


def load_sets(data: Path) -> tuple[Sets, dict[str, ToolSpec]]:
    """The sets of a folder, and the tools of its pools. Raises `InvalidRequest`."""
    sets: Sets = {}
    pool: dict[str, ToolSpec] = {}
    for file in sorted(data.glob("*/tools.jsonl")):
        tools = {row.id: _spec(row) for row in _rows(file, _Tool)}
        asked = file.with_name("queries.jsonl")
        if not asked.exists():
            pool |= tools
            continue
        queries = _rows(asked, LabelledQuery)
        if not queries:
            raise InvalidRequest(f"{asked} holds no query. Add one, or remove the file to make the folder a pool.")
        for line, query in enumerate(queries, 1):
            for relevant in query.relevant:
                if relevant not in tools:
                    raise InvalidRequest(
                        f"{asked}, line {line}: {relevant!r} is relevant, but no tool in {file.name} has that id. "
                        "Correct the id or add the tool."
                    )
        sets[file.parent.name] = (tools, queries)
    if not sets:
        raise InvalidRequest(f"No folder in {str(data)!r} holds tools.jsonl and queries.jsonl. Name one that does.")
    return sets, pool


def _rows(file: Path, kind: type[_T]) -> list[_T]:
    decoder = msgspec.json.Decoder(kind)
    rows = []
    for line, text in enumerate(file.read_bytes().splitlines(), 1):
        try:
            rows.append(decoder.decode(text))
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"{file}, line {line}: {error}. Correct or remove the line.") from None
    return rows


def _spec(row: _Tool) -> ToolSpec:
    definition = [row.name, row.title, row.description, row.input_schema]
    return ToolSpec(
        upstream=row.server,
        name=row.name,
        full_name=row.id,
        module=row.server,
        function=row.name,
        title=row.title or "",
        description=row.description or "",
        input_schema=row.input_schema or {},
        digest=hashlib.sha256(msgspec.json.encode(definition, order="sorted")).hexdigest(),
    )
