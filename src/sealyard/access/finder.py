"""Keeps what can be searched and imported in step with the catalog."""

import asyncio
import logging
import re
from collections.abc import Collection, Mapping

from sealyard.broker.upstreams import ToolServer
from sealyard.catalog import Catalog, Recent, Snapshot
from sealyard.catalog.stubs import Stub, stub_files, stub_packages, tool_stubs
from sealyard.discovery import Index, Learned, Semantic
from sealyard.errors import InvalidRequest, UpstreamError
from sealyard.sandbox.importable import Library
from sealyard.values.tools import DetailLevel, Hit, SearchAnswer, SearchRequest, ToolSpec, bounded_limit
from sealyard.wording import plain

_log = logging.getLogger(__name__)

_FIRST_LIST_SECONDS = 15.0
"""Wait for upstreams that have never listed their tools: a slow server's start. A first run goes on without them."""
_SHORT_CHARACTERS = 110  # about one line of a result list
_LONG_CHARACTERS = 2_000  # of a description: servers write any length
_VIEWS_INDEXED = 8  # views whose index stays in memory: a bound
_WRITTEN_AHEAD = 200
"""Tools whose stubs are written before a first run: that takes 20 ms. The stubs of more follow in the background."""


class Finder:
    """Searches the catalog, and keeps its tools listed, indexed and importable.

    A view is the part of the catalog that one principal may see. It has its own index and stubs, so rankings, words
    without a match and folders reveal nothing of what the view leaves out.
    """

    def __init__(self, catalog: Catalog, library: Library, upstreams: Mapping[str, ToolServer]) -> None:
        self._catalog = catalog
        self._library = library
        self._upstreams = upstreams
        self._listed = set(catalog.snapshot.by_upstream)
        self._listing: dict[asyncio.Task[None], str] = {}
        """The name of the upstream that each task lists."""
        self._index: tuple[str, Index] | None = None
        """The index of the whole catalog, and the catalog's version."""
        self._view_indexes: Recent[str, Index] = Recent(_VIEWS_INDEXED)
        """By the version of a view."""
        self._meaning: Semantic | None = None
        self._embedding: asyncio.Task[None] | None = None
        self._indexing = asyncio.Lock()
        self._publishing = asyncio.Lock()

    def start_listing(self) -> None:
        """List, in the background, every upstream without known tools. The others start with their first call."""
        for name in self._upstreams:
            if name not in self._listed and name not in self._listing.values():
                self.list_again(name)

    def list_again(self, name: str) -> None:
        """List an upstream in the background. Whoever asks for the catalog from now on waits for it."""
        task = asyncio.create_task(self._list(self._upstreams[name]))
        self._listing[task] = name
        task.add_done_callback(self._listing.pop)

    async def refresh(self, names: Collection[str] | None = None) -> None:
        """List the tools of these upstreams, or of every one, again. A failure appears in the upstream's status."""
        await asyncio.gather(
            *(self._list(each) for name, each in self._upstreams.items() if names is None or name in names)
        )

    def has_listed(self, upstream: str) -> bool:
        """True if the upstream has listed its tools, now or in an earlier process."""
        return upstream in self._listed

    def note_listed(self, upstream: str) -> None:
        """Mark an upstream as listed."""
        self._listed.add(upstream)

    async def listed(self) -> None:
        """Wait until every upstream has listed its tools once or failed to, for a bounded time."""
        if len(self._listed) < len(self._upstreams):
            self.start_listing()
        if self._listing:
            await asyncio.wait([*self._listing], timeout=_FIRST_LIST_SECONDS)

    async def ready(self, view: Snapshot | None = None) -> Snapshot:
        """`view`, or the current catalog, once its stubs can be imported.

        They can until the catalog changes. `Sandbox.run` holds them from its first step on, so await this right before.
        """
        view = view or self._catalog.snapshot
        if not self.is_published(view):
            async with self._publishing:
                if not self.is_published(view):
                    is_large = len(view.tools) > _WRITTEN_AHEAD
                    files = await asyncio.to_thread(stub_packages if is_large else stub_files, view)
                    await self._library.publish(
                        view.stubs_version,
                        files,
                        catalog=self._catalog.snapshot.stubs_version,
                        more=tool_stubs(view) if is_large else None,
                    )
        return view

    def is_published(self, view: Snapshot) -> bool:
        """True if the view's stubs can be imported now."""
        is_whole = view is self._catalog.snapshot
        return self._library.has(view.stubs_version) and (not is_whole or self._library.version == view.stubs_version)

    async def search(
        self,
        request: SearchRequest,
        *,
        view: Snapshot | None = None,
        servers: Collection[str] | None = None,
        learned: Learned | None = None,
    ) -> SearchAnswer:
        """The tools of `view`, or of the whole catalog, that match best. Raises `InvalidRequest`.

        `servers` are those that may be named, by default those of the view. `learned` may change the order.
        """
        level, limit = request.level, bounded_limit(request.limit)
        whole = self._catalog.snapshot
        view = view or whole
        if servers is None:
            servers = self._upstreams if view is whole else view.by_upstream
        server = _find_server(servers, request.server) if request.server else None
        index = await self._index_of(view)
        if self._meaning is None:
            ranking = index.search(request.query, limit=limit, server=server, learned=learned)
        else:
            ranking = await self._meaning.search(index, request.query, limit=limit, server=server, learned=learned)
        return SearchAnswer(
            hits=tuple(_hit(view.tools[name], level) for name in ranking.names),
            unmatched=tuple(ranking.unmatched),
            total=len(view.tools),
            text_ranks=tuple(ranking.text_ranks),
        )

    def is_indexed(self, view: Snapshot) -> bool:
        """True if a search over the view finds an index that is already built."""
        is_whole = self._index is not None and self._index[0] == view.version
        return is_whole or self._view_indexes.find(view.version) is not None

    def unlisted(self) -> list[str]:
        """Upstreams that have not listed their tools yet."""
        return sorted(set(self._upstreams) - self._listed)

    def idle_patterns(self) -> dict[str, tuple[str, ...]]:
        """Exclusion patterns that exclude no tool, by upstream, for upstreams listed by this process."""
        idle = {name: upstream.status().idle_patterns for name, upstream in self._upstreams.items()}
        return {name: patterns for name, patterns in idle.items() if patterns}

    async def close(self) -> None:
        """Stop listing and embedding."""
        tasks = [*self._listing, *([] if self._embedding is None else [self._embedding])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _index_of(self, view: Snapshot) -> Index:
        async with self._indexing:
            whole = self._catalog.snapshot
            if self._index is None or self._index[0] != whole.version:
                earlier = None if self._index is None else self._index[1]
                index = await asyncio.to_thread(Index, whole.tools.values(), earlier=earlier)
                self._index = (whole.version, index)
                self._view_indexes = Recent(_VIEWS_INDEXED)
                await self._embed(whole)
            if view.version == whole.version:
                return self._index[1]
            found = self._view_indexes.find(view.version)
            if found is None:  # its tools have been read for the whole catalog
                found = await asyncio.to_thread(Index, view.tools.values(), earlier=self._index[1])
                self._view_indexes.put(view.version, found)
            return found

    def use_meaning(self, meaning: Semantic) -> None:
        """Rank by meaning too, from the next search on, for the tools that are embedded by then."""
        self._meaning = meaning
        self._index = None

    async def _embed(self, snapshot: Snapshot) -> None:
        """Embed new definitions in the background. Embedding for an older catalog stops; its vectors are kept."""
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
            return  # reported in its status; the others continue


def _report(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("Tools could not be embedded and are ranked by words: %s", error)


def _hit(spec: ToolSpec, level: DetailLevel) -> Hit:
    use = f"from servers.{spec.module} import {spec.function}"
    if level == "name_only":
        return Hit(name=spec.full_name, use=use)
    if level == "with_description":
        return Hit(name=spec.full_name, use=use, description=_first_sentence(plain(spec.description or spec.title)))
    stub = Stub(spec)
    return Hit(
        name=spec.full_name,
        use=use,
        description=plain(spec.description or spec.title, limit=_LONG_CHARACTERS),
        signature=stub.signature,
        parameters=stub.notes,
        input_schema=spec.input_schema,
        returns=stub.returns,
    )


def _first_sentence(text: str) -> str:
    text = " ".join(text.split())
    sentence = re.match(r"(.+?[.!?])(?=\s|$)", text)
    text = sentence[1] if sentence and len(sentence[1]) > 20 else text
    return text if len(text) <= _SHORT_CHARACTERS else text[: _SHORT_CHARACTERS - 1].rstrip() + "…"


def _find_server(upstreams: Collection[str], server: str) -> str:
    """The upstream with this name or module name."""
    if server in upstreams:
        return server
    key = re.sub(r"[\W_]+", "", server).lower()
    for name in upstreams:
        if re.sub(r"[\W_]+", "", name).lower() == key:
            return name
    known = ", ".join(sorted(upstreams)) or "none is configured"
    raise InvalidRequest(f"No server named {server!r}. There are: {known}.")
