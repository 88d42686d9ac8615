"""The tools of a gateway as each principal sees them."""

import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

import msgspec

from sealyard.access.finder import Finder
from sealyard.access.unmatched import NameCheck, Unmatched
from sealyard.broker.policy import Policy
from sealyard.broker.upstreams import OnTools, ToolServer, python
from sealyard.catalog import Catalog, DriftWatch, Recent, Snapshot
from sealyard.errors import InvalidRequest, UnknownTool
from sealyard.values.access import PrincipalScope, Profile
from sealyard.values.tools import ToolSpec, UpstreamConfig, UpstreamStatus
from sealyard.values.variants import variant

_VIEWS_KEPT = 8  # whose names are kept: as many as have an index


class Tools:
    """The catalog, its views, and their indexes and stubs."""

    def __init__(
        self,
        catalog: Catalog,
        finder: Finder,
        views: "Views",
        upstreams: MutableMapping[str, ToolServer],
        observed: DriftWatch,
        names: NameCheck,
        *,
        on_tools: OnTools,
        on_published: Callable[[float, int], None],
    ) -> None:
        """`on_tools` gets the tools that an upstream lists.

        `on_published` gets the seconds it took to publish the stubs of a view, and the number of its tools.
        """
        self.catalog = catalog
        self.finder = finder
        self.views = views
        self.upstreams = upstreams
        self.observed = observed
        """Watches the answers of tools that declare no output."""
        self._added: dict[str, python.Functions] = {}
        """Upstreams of functions that were added one by one."""
        self._name_check = names
        self._on_tools = on_tools
        self._on_published = on_published
        self._functions: Recent[str, dict[str, str]] = Recent(_VIEWS_KEPT)
        """By the version of a view."""

    def add_function(self, function: Callable[..., Any], mark: "python.Mark", *, server: str) -> None:
        """Offer a function as a tool of an upstream of that name, which begins with its first function.

        Raises:
            InvalidRequest: The function cannot be a tool, or another kind of upstream has the name.
        """
        functions = self._added.get(server)
        if functions is None:
            if server in self.upstreams:
                raise InvalidRequest(f"{server!r} is an upstream already, not a place for functions. Name another.")
            functions = python.Functions(UpstreamConfig(name=server, transport="python"), on_tools=self._on_tools)
        functions.add(function, mark)
        self.upstreams[server] = self._added[server] = functions
        self.finder.list_again(server)

    def remove_function(self, name: str, *, server: str) -> None:
        """Offer a function no more. Raises `UnknownTool`."""
        if server not in self._added:
            raise UnknownTool(f"No function was added to {server!r}. Name the server that it was added to.")
        self._added[server].remove(name)
        self.finder.list_again(server)

    def narrowed(self, profile: Profile) -> "Tools":
        """The same as principals see them through a profile."""
        return variant(self, views=self.views.narrowed(profile))

    def seen_by(self, principal: str) -> Snapshot:
        """The part of the catalog that a principal sees now."""
        return self.views.of(self.catalog.snapshot, principal)

    async def view(self, principal: str | None = None) -> Snapshot:
        """As `seen_by`, or the whole catalog, once every upstream has listed its tools or failed to."""
        await self.finder.listed()
        return self.catalog.snapshot if principal is None else self.seen_by(principal)

    async def publish(self, view: Snapshot) -> None:
        """Make the tools of a view importable by code."""
        if self.finder.is_published(view):
            return
        started = time.perf_counter()
        await self.finder.ready(view)
        self._on_published(time.perf_counter() - started, len(view.tools))

    def reaches(self, upstream: str, principal: str) -> bool:
        """True once it is known that the principal may use something of an upstream besides its tools.

        It is not while the policy may hide tools and the upstream has not listed its own, which starts with this then.
        """
        if self.views.may_hide_tools and not self.finder.has_listed(upstream):
            self.finder.start_listing()
            return False
        return bool(self.views.servers([upstream], self.catalog.snapshot, principal))

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

    def functions(self, view: Snapshot) -> Mapping[str, str]:
        """The full names of tools by `module.function`."""
        names = self._functions.find(view.version)
        if names is None:
            names = {f"{spec.module}.{spec.function}": name for name, spec in view.tools.items()}
            self._functions.put(view.version, names)
        return names


class Views:
    """Cuts the catalog down to the tools of a principal's upstreams, without those that the policy always denies.

    A tool outside its view does not exist for the principal.
    """

    def __init__(self, policy: Policy, scopes: Mapping[str, PrincipalScope], *, profile: Profile | None = None) -> None:
        """`profile` narrows all of them."""
        self._policy = policy
        self._scopes = scopes
        self._profile = profile
        self._catalog: Snapshot | None = None
        self._by_principal: dict[str, Snapshot] = {}
        self._by_hidden: dict[frozenset[str], Snapshot] = {}

    def narrowed(self, profile: Profile) -> "Views":
        """Views of no more than a profile lets through, whatever a principal's scope."""
        return Views(self._policy, self._scopes, profile=profile)

    def of(self, snapshot: Snapshot, principal: str) -> Snapshot:
        """The tools that `principal` may see: `snapshot` itself if that is all of them.

        Views are cached, and shared by principals who see the same tools.
        """
        if snapshot is not self._catalog:
            self._catalog = snapshot
            self._by_principal.clear()
            self._by_hidden.clear()
        view = self._by_principal.get(principal)
        if view is None:
            view = self._by_principal[principal] = self._cut(snapshot, principal)
        return view

    def servers(self, names: Iterable[str], snapshot: Snapshot, principal: str) -> list[str]:
        """The upstreams in `names` that `principal` may see, sorted.

        An upstream with listed tools is known by its visible ones; one without, by the scope alone.
        """
        seen = self.of(snapshot, principal).by_upstream
        return sorted(
            name
            for name in names
            if self.may_use(name, principal) and (name in seen or not snapshot.by_upstream.get(name))
        )

    def _cut(self, snapshot: Snapshot, principal: str) -> Snapshot:
        outside = {name for name in snapshot.by_upstream if not self.may_use(name, principal)}
        hidden = self._policy.hidden(snapshot.tools, principal)
        hidden |= {name for name, spec in snapshot.tools.items() if spec.upstream in outside} if outside else set()
        if not hidden:
            return snapshot
        view = self._by_hidden.get(hidden)
        if view is None:
            kept = {
                upstream: [spec for spec in specs if spec.full_name not in hidden]
                for upstream, specs in snapshot.by_upstream.items()
            }
            view = self._by_hidden[hidden] = Snapshot(
                {upstream: specs for upstream, specs in kept.items() if specs}, snapshot.shapes
            )
        return view

    @property
    def may_hide_tools(self) -> bool:
        """True if the policy hides tools from some principal."""
        return self._policy.may_hide

    def are_whole(self, principal: str) -> bool:
        """True if nothing is ever hidden from the principal, whatever the upstreams list."""
        scopes = (self._profile, self._scopes.get(principal))
        return not self._policy.may_hide and all(each is None or each.upstreams is None for each in scopes)

    def may_see(self, spec: ToolSpec, principal: str) -> bool:
        """True if the principal may see the tool, also one that is not listed now."""
        return self.may_use(spec.upstream, principal) and not self._policy.is_hidden(spec, principal)

    def may_use(self, upstream: str, principal: str) -> bool:
        """True if the config lets the principal use the upstream. A principal without an entry may use all."""
        return all(each is None or each.has(upstream) for each in (self._profile, self._scopes.get(principal)))
