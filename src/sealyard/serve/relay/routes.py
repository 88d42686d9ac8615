"""Names and addresses of several upstreams in one list, and the way back from each to the upstream it belongs to."""

import asyncio
import hashlib
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp_types import INVALID_PARAMS
from mcp_types import methods as wire
from pydantic import ValidationError

from sealyard.broker.upstreams.mcp import definition_of
from sealyard.catalog import Snapshot
from sealyard.offload import short_work
from sealyard.serve.cursors import read_cursor
from sealyard.serve.relay.bulk import Json
from sealyard.values.naming import assign, full_name, tool_part, upstream_part
from sealyard.values.tools import ToolSpec, UpstreamConfig

logger = logging.getLogger(__name__)

LISTS = {
    "tools/list": ("tools", "tools", "name"),
    "prompts/list": ("prompts", "prompts", "name"),
    "resources/list": ("resources", "resources", "uri"),
    "resources/templates/list": ("resources", "resourceTemplates", "uriTemplate"),
}
"""Of each list: the capability it needs, the key its items stand under, and the field that identifies one."""

_NAMES_HERE = 1_000  # made on the event loop, which takes about 4 ms; more go to a thread
_COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Fields that the newer era demands in every list."""


class Routes:
    """The lists of the upstreams. With one upstream there is nothing to route, and every name is its own."""

    def __init__(self, upstreams: Mapping[str, UpstreamConfig]) -> None:
        self._upstreams = upstreams
        self._is_single = len(upstreams) == 1
        self._prefixes = assign(upstreams, upstream_part)
        self._parts: dict[tuple[str, str], dict[str, str]] = {}
        self._owners: dict[str, dict[str, tuple[str, str]]] = {method: {} for method in LISTS}
        self._specs: dict[tuple[str, str], ToolSpec] = {}
        self._places: dict[str, ToolSpec] = {}
        self._unlisted = set(upstreams)
        self._is_complete = False

    def complete(self) -> Snapshot | None:
        """All tools, the first time that every upstream has listed its own; None before and after that."""
        if self._unlisted or self._is_complete:
            return None
        self._is_complete = True
        by_upstream: dict[str, list[ToolSpec]] = {name: [] for name in self._upstreams}
        for (upstream, _), spec in self._specs.items():
            by_upstream[upstream].append(spec)
        return Snapshot(by_upstream)

    async def admit(self, method: str, version: str, upstream: str, page: Json, *, is_first: bool) -> None:
        """Leave in a page what may be shown: well-formed, configured, and under a name that leads back."""
        _, key, field = LISTS[method]
        items = await _well_formed(method, version, key, page.get(key), upstream)
        if key == "tools":
            items = [item for item in items if self.is_configured(upstream, item["name"])]
        names = {item[field]: item[field] for item in items}
        if field == "name":
            make = partial(self._full_names, method, upstream, names, is_first=is_first)
            names = await asyncio.to_thread(make) if len(names) > _NAMES_HERE else make()
        if key == "tools":
            for item in items:
                async with short_work():
                    self._specs[upstream, item["name"]] = _spec(upstream, names[item["name"]], item)
            if page.get("nextCursor") is None:
                self._unlisted.discard(upstream)
        page[key] = items if self._is_single else self._renamed(method, upstream, items, names, is_first=is_first)

    def _renamed(
        self, method: str, upstream: str, items: list[Json], names: Mapping[str, str], *, is_first: bool
    ) -> list[Json]:
        owners, field = self._owners[method], LISTS[method][2]
        if is_first:
            for name in [name for name, (owner, _) in owners.items() if owner == upstream]:
                del owners[name]
        shown = []
        for item in items:
            own, name = item[field], names[item[field]]
            if owners.setdefault(name, (upstream, own)) == (upstream, own):
                shown.append({**item, field: name})
            else:
                logger.warning("Upstream %r lists %r, which another one has already; it is left out.", upstream, name)
        return shown

    def _full_names(self, method: str, upstream: str, own: Iterable[str], *, is_first: bool) -> dict[str, str]:
        prefix = self._prefixes[upstream]
        kept = self._parts.get((method, upstream), {})
        parts = assign(own, lambda name: tool_part(name, upstream=prefix), kept=kept)
        self._parts[method, upstream] = parts if is_first else kept | parts
        return {name: full_name(prefix, part) for name, part in parts.items()}

    def find(self, method: str, name: str) -> tuple[str, str] | None:
        """The upstream that listed it and its name there; an address may also fit a template."""
        if self._is_single:
            return next(iter(self._upstreams)), name
        if (found := self._owners[method].get(name)) is not None or method != "resources/list":
            return found
        for template, (upstream, _) in self._owners["resources/templates/list"].items():
            if _fits(template, name):
                return upstream, name
        return None

    def find_spec(self, upstream: str, tool: str) -> ToolSpec | None:
        """A tool as the upstream listed it last, by its own name."""
        return self._specs.get((upstream, tool))

    def bare_spec(self, upstream: str, tool: str) -> ToolSpec:
        """A tool that the upstream does not list: nothing is known of it but its name."""
        prefix = self._prefixes[upstream]
        name = full_name(prefix, tool_part(tool, upstream=prefix))
        return _spec(upstream, name, {"name": tool, "inputSchema": {}})

    def place(self, upstream: str) -> ToolSpec:
        """The stand-in for everything of an upstream but its tools: rules for all of its tools apply to it too."""
        if upstream not in self._places:
            name = full_name(self._prefixes.get(upstream, upstream), "")
            self._places[upstream] = _spec(upstream, name, {"name": "", "inputSchema": {}})
        return self._places[upstream]

    def is_configured(self, upstream: str, tool: str) -> bool:
        """True if the configuration exposes this tool."""
        return self._upstreams[upstream].allows(tool)


def _spec(upstream: str, name: str, item: Json) -> ToolSpec:
    """A tool by its definition, which is well-formed."""
    definition = definition_of(item)
    try:
        digest = hashlib.sha256(msgspec.json.encode(definition, order="sorted")).hexdigest()
    except (ValueError, TypeError, OverflowError, RecursionError):
        digest = ""  # it cannot be written as JSON, so no client can be sent it either
    return ToolSpec(
        upstream=upstream,
        full_name=name,
        module="",
        function="",
        digest=digest,
        **{field: getattr(definition, field) for field in definition.__struct_fields__},
    )


async def _well_formed(method: str, version: str, key: str, items: Any, upstream: str) -> list[Json]:
    """The items that the protocol allows. One bad one costs only itself."""
    kept: list[Json] = []
    for item in items if isinstance(items, list) else ():
        async with short_work():
            try:
                wire.validate_server_result(method, version, {key: [item], **_COMPLETE})
            except ValidationError:
                logger.warning("Upstream %r lists something malformed in %s; it is left out.", upstream, method)
            else:
                kept.append(item)
    return kept


def _fits(template: str, uri: str) -> bool:
    try:
        return UriTemplate.parse(template).match(uri) is not None
    except InvalidUriTemplate:
        return False


def opened_cursor(sealed: str | None, upstreams: list[str]) -> tuple[str, str | None]:
    """The upstream where a list continues, and its own cursor. Raises `MCPError` for any other cursor."""
    if sealed is None:
        return upstreams[0], None
    found = read_cursor(sealed, str)
    if found is None or found[0] not in upstreams:
        raise MCPError(INVALID_PARAMS, f"The cursor {sealed!r} is not one of this list. Begin again without one.")
    return found


def merged_capabilities(offers: Iterable[Json]) -> Json:
    """The capabilities of several upstreams together, without extensions: their methods name no upstream."""
    merged: Json = {}
    for offer in offers:
        for kind in ("tools", "resources", "prompts", "completions", "logging"):
            if isinstance(offer.get(kind), dict):
                flags = merged.setdefault(kind, {})
                flags.update({flag: True for flag, value in offer[kind].items() if value is True})
    return merged


def hints(results: Iterable[Json]) -> Json:
    """Cache hints for merged results: the shortest time and the narrowest scope."""
    results = list(results)
    times = [time for result in results if isinstance(time := result.get("ttlMs"), int) and time >= 0]
    if len(times) < len(results):
        return {}
    is_public = all(result.get("cacheScope") == "public" for result in results)
    return {"ttlMs": min(times, default=0), "cacheScope": "public" if is_public and results else "private"}
