"""The tools of a gateway as each principal sees them."""

import time
from collections.abc import Callable, Mapping

import msgspec

from sealyard.access.finder import Finder
from sealyard.access.unmatched import NameCheck, Unmatched
from sealyard.access.views import Views
from sealyard.broker.call import ToolServer
from sealyard.catalog import Catalog, Snapshot
from sealyard.catalog.observed import Observed
from sealyard.sandbox.review import ToolNames
from sealyard.values import UpstreamStatus

FIRST_LIST_SECONDS = 15.0  # for upstreams whose tools nobody knows yet, before a first search or run goes on without
_VIEWS_KEPT = 8  # whose names are kept: as many as have an index


class Tools:
    """The catalog, its views, and what makes the tools of a view searchable and importable."""

    def __init__(
        self,
        catalog: Catalog,
        finder: Finder,
        views: Views,
        upstreams: Mapping[str, ToolServer],
        observed: Observed,
        names: NameCheck,
        *,
        on_published: Callable[[float, int], None],
    ) -> None:
        """`on_published` gets the seconds it took to publish the stubs of a view, and the number of its tools."""
        self.catalog = catalog
        self.finder = finder
        self.views = views
        self.upstreams = upstreams
        self.observed = observed
        """Learned result shapes of tools that declare none."""
        self._name_check = names
        self._on_published = on_published
        self._names: dict[str, ToolNames] = {}
        self._functions: dict[str, dict[str, str]] = {}

    def seen_by(self, principal: str) -> Snapshot:
        """The part of the catalog that a principal sees now."""
        return self.views.of(self.catalog.snapshot, principal)

    async def view(self, principal: str | None = None) -> Snapshot:
        """The same, or the whole catalog, once every upstream has had its chance to list its tools."""
        await self.finder.listed(FIRST_LIST_SECONDS)
        return self.catalog.snapshot if principal is None else self.seen_by(principal)

    async def publish(self, view: Snapshot) -> None:
        """Make the tools of a view importable by code."""
        if self.finder.is_published(view):
            return
        started = time.perf_counter()
        await self.finder.ready(view)
        self._on_published(time.perf_counter() - started, len(view.tools))

    def statuses(self) -> list[UpstreamStatus]:
        """The state of every upstream, with definitions that changed since they were pinned among its warnings."""
        found = []
        for name in sorted(self.upstreams):
            status = self.upstreams[name].status()
            changes = self.catalog.changes_of(name)
            known = len(self.catalog.snapshot.by_upstream.get(name, ()))
            found.append(msgspec.structs.replace(status, tools=known, warnings=(*status.warnings, *changes)))
        return found

    async def unmatched(self) -> tuple[Unmatched, ...]:
        """The names in the config that match nothing."""
        return await self._name_check.look(self.catalog.snapshot, self.finder.unlisted(), self.finder.idle_patterns())

    def upstream_of(self, tool: str) -> str | None:
        """The upstream of a tool, by the tool's full name."""
        spec = self.catalog.snapshot.tools.get(tool)
        return None if spec is None else spec.upstream

    def names(self, view: Snapshot) -> ToolNames:
        """The names that code may call, for its review."""
        names = self._names.get(view.version)
        if names is None:
            functions = {name: (spec.module, spec.function) for name, spec in view.tools.items()}
            names = ToolNames(frozenset(functions), functions, lambda name: view.find(name) is not None)
            self._names = {**dict(list(self._names.items())[-_VIEWS_KEPT:]), view.version: names}
        return names

    def functions(self, view: Snapshot) -> Mapping[str, str]:
        """The full names of tools by `module.function`."""
        names = self._functions.get(view.version)
        if names is None:
            names = {f"{spec.module}.{spec.function}": name for name, spec in view.tools.items()}
            self._functions = {**dict(list(self._functions.items())[-_VIEWS_KEPT:]), view.version: names}
        return names
