"""Keeps what can be searched and imported in step with the catalog."""

import asyncio
import functools
import logging
import re
from collections.abc import Mapping
from typing import Any

from toolyard.broker.call import ToolServer
from toolyard.catalog import Catalog, Snapshot
from toolyard.catalog.prose import plain
from toolyard.catalog.stubs import parameter_notes, returns, signature, stub_files
from toolyard.discovery import Index
from toolyard.discovery.semantic import Semantic
from toolyard.errors import InvalidRequest, UpstreamError
from toolyard.sandbox.library import Library
from toolyard.values import DetailLevel, Hit, SearchAnswer, ToolSpec

__all__ = ("Finder",)

_log = logging.getLogger(__name__)

_SHORT_CHARACTERS = 110
_LONG_CHARACTERS = 2_000
_MOST_HITS = 50
_LEVELS: dict[str, DetailLevel] = {
    "name_only": "name_only",
    "with_description": "with_description",
    "name_and_description": "with_description",
    "full": "full",
}


class Finder:
    """Searches the catalog, and sees to it that its tools are listed, indexed and importable."""

    def __init__(self, catalog: Catalog, library: Library, upstreams: Mapping[str, ToolServer]) -> None:
        self._catalog = catalog
        self._library = library
        self._upstreams = upstreams
        self._listed = set(catalog.snapshot.by_upstream)
        self._listing: dict[str, asyncio.Task[None]] = {}
        self._index: tuple[str, Index] | None = None
        self._meaning: Semantic | None = None
        self._embedding: asyncio.Task[None] | None = None
        self._indexing = asyncio.Lock()
        self._publishing = asyncio.Lock()

    def start_listing(self) -> None:
        """Ask every upstream whose tools nobody knows yet, in the background. The others start when they are called."""
        for name, upstream in self._upstreams.items():
            if name not in self._listed and name not in self._listing:
                task = asyncio.create_task(self._list(upstream))
                self._listing[name] = task
                task.add_done_callback(functools.partial(self._end_listing, name))

    async def refresh(self) -> None:
        """Ask every upstream for its tools anew; one that fails says so in its status."""
        await asyncio.gather(*map(self._list, self._upstreams.values()))

    def _end_listing(self, name: str, task: "asyncio.Task[None]") -> None:
        del self._listing[name]

    def note_listed(self, upstream: str) -> None:
        """Its tools are known now."""
        self._listed.add(upstream)

    async def listed(self, seconds: float) -> None:
        """Wait until every upstream has listed its tools once or failed to, but no longer than `seconds`."""
        if len(self._listed) < len(self._upstreams):
            self.start_listing()
            if self._listing:
                await asyncio.wait(self._listing.values(), timeout=seconds)

    async def ready(self) -> Snapshot:
        """The catalog as it is, when its stubs can be imported."""
        snapshot = self._catalog.snapshot
        if self._library.version != snapshot.version:
            async with self._publishing:
                snapshot = self._catalog.snapshot
                if self._library.version != snapshot.version:
                    files = await asyncio.to_thread(stub_files, snapshot)
                    await self._library.publish(snapshot.version, files)
        return snapshot

    async def search(
        self, query: str, *, detail_level: str = "with_description", server: str | None = None, limit: int = 5
    ) -> SearchAnswer:
        """The tools that fit `query` best. Raises `InvalidRequest`."""
        level = _LEVELS.get(detail_level.replace("-", "_"))
        if level is None:
            raise InvalidRequest(f"detail_level is {detail_level!r}. Use name_only, with_description or full.")
        if not 1 <= limit <= _MOST_HITS:
            raise InvalidRequest(f"limit is {limit!r}. Give 1 to {_MOST_HITS}.")
        snapshot = self._catalog.snapshot
        if server is not None:
            server = _find_server(snapshot, self._upstreams, server)
        index = await self._current_index(snapshot)
        if self._meaning is None:
            ranking = index.search(query, limit=limit, server=server)
        else:
            ranking = await self._meaning.search(index, query, limit=limit, server=server)
        hits = tuple(_hit(snapshot.tools[name], level) for name in ranking.names)
        return SearchAnswer(hits=hits, unmatched=tuple(ranking.unmatched), total=len(snapshot.tools))

    def unlisted(self) -> list[str]:
        """Upstreams that have not listed their tools yet."""
        return sorted(set(self._upstreams) - self._listed)

    async def close(self) -> None:
        """Stop listing and embedding."""
        tasks = [*self._listing.values(), *([] if self._embedding is None else [self._embedding])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _current_index(self, snapshot: Snapshot) -> Index:
        async with self._indexing:
            if self._index is None or self._index[0] != snapshot.version:
                earlier = None if self._index is None else self._index[1]
                index = await asyncio.to_thread(Index, snapshot.tools.values(), earlier=earlier)
                self._index = (snapshot.version, index)
                await self._embed(snapshot)
            return self._index[1]

    def use_meaning(self, meaning: Semantic) -> None:
        """Rank by meaning too, from the next search on and as far as tools are embedded by then."""
        self._meaning = meaning
        self._index = None

    async def _embed(self, snapshot: Snapshot) -> None:
        """Embed what is new in the background; what an older catalog was being embedded for starts over from there."""
        if self._meaning is None:
            return
        if self._embedding is not None:
            self._embedding.cancel()
            await asyncio.gather(self._embedding, return_exceptions=True)
        self._embedding = asyncio.create_task(self._meaning.embed(list(snapshot.tools.values())))
        self._embedding.add_done_callback(_report)

    async def _list(self, upstream: ToolServer) -> None:
        try:
            await upstream.refresh()
        except UpstreamError:
            return  # its status says so; the others go on


def _report(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("Tools could not be embedded and are ranked by words: %s", error)


def _hit(spec: ToolSpec, level: DetailLevel) -> Hit:
    use = f"from servers.{spec.module} import {spec.function}"
    if level == "name_only":
        return Hit(name=spec.full_name, use=use)
    if level == "with_description":
        return Hit(name=spec.full_name, use=use, description=_first_sentence(plain(spec.description or spec.title)))
    return Hit(
        name=spec.full_name,
        use=use,
        description=plain(spec.description or spec.title, limit=_LONG_CHARACTERS),
        signature=signature(spec),
        parameters=parameter_notes(spec),
        returns=returns(spec),
    )


def _first_sentence(text: str) -> str:
    text = " ".join(text.split())
    sentence = re.match(r"(.+?[.!?])(?=\s|$)", text)
    return _cut(sentence[1] if sentence and len(sentence[1]) > 20 else text, _SHORT_CHARACTERS)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"


def _find_server(snapshot: Snapshot, upstreams: Mapping[str, Any], server: str) -> str:
    """The upstream that is meant, by its name or by its module's."""
    if server in upstreams:
        return server
    key = re.sub(r"[\W_]+", "", server).lower()
    for name in upstreams:
        if re.sub(r"[\W_]+", "", name).lower() == key:
            return name
    known = ", ".join(sorted(upstreams)) or "none is configured"
    raise InvalidRequest(f"No server named {server!r}. There are: {known}.")
