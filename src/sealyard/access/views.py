"""Views of the catalog by principal: the tools of its upstreams, without those that the policy always denies."""

from collections.abc import Iterable, Mapping

from sealyard.broker import Policy
from sealyard.catalog import Snapshot
from sealyard.values import PrincipalScope
from sealyard.values.naming import glob


class Views:
    """Cuts the catalog down to the tools a principal may see. A tool outside its view does not exist for it."""

    def __init__(self, policy: Policy, scopes: Mapping[str, PrincipalScope]) -> None:
        self._policy = policy
        self._scopes = scopes
        self._catalog: Snapshot | None = None
        self._by_principal: dict[str, Snapshot] = {}
        self._by_hidden: dict[frozenset[str], Snapshot] = {}

    def scope(self, principal: str) -> PrincipalScope:
        """The principal's scope in the config; one that the config does not name may use everything."""
        return self._scopes.get(principal) or PrincipalScope(name=principal)

    def of(self, snapshot: Snapshot, principal: str) -> Snapshot:
        """The tools that `principal` may see: `snapshot` itself if that is all of them.

        Asked again for the same snapshot it costs nothing, and principals who see the same share one view.
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

        One that has listed its tools is known by those that can be seen; one that has not, by the scope alone.
        """
        seen = self.of(snapshot, principal).by_upstream
        return sorted(
            name
            for name in names
            if self._is_in_scope(name, principal) and (name in seen or not snapshot.by_upstream.get(name))
        )

    def _cut(self, snapshot: Snapshot, principal: str) -> Snapshot:
        outside = {name for name in snapshot.by_upstream if not self._is_in_scope(name, principal)}
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

    def _is_in_scope(self, upstream: str, principal: str) -> bool:
        patterns = self.scope(principal).upstreams
        return patterns is None or any(glob(pattern)(upstream) for pattern in patterns)
