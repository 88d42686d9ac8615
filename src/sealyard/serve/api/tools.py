"""`/api/v1/tools`, the search for them, the upstreams they come from, and the rules for calling them."""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from sealyard.broker.policy import Preset, Rule, ToolLimits
from sealyard.catalog.stubs import Stub
from sealyard.errors import InvalidRequest, UnknownTool
from sealyard.serve.api.declare import Call, Cursor, Limit, Reply, endpoint, from_cursor, page_of, view_of
from sealyard.values.tools import Hit, ToolAnnotations, ToolSpec, UpstreamState

_Tool = TypeVar("_Tool", bound="ToolSummary")

_RELEASES = 20  # of a tool's history: the latest


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The search."""

    query: Annotated[str, Meta(max_length=2_000, description="Words, or a tool's name.")] = ""
    detail_level: Annotated[str, Meta(description="name_only, with_description or full.")] = "with_description"
    server: Annotated[str, Meta(description="Only tools of this upstream.")] | None = None
    limit: Annotated[int, Meta(ge=1, description="How many at most; more than 50 means 50.")] = 5


class FoundTools(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of the MCP tool search_tools."""

    tools: list[Hit]
    unmatched: list[str] = []
    """Words of the query that are in no tool."""
    servers: list[str] = []
    """All there are, where nothing is searched for."""
    hint: str = ""
    not_available_yet: list[str] = []
    """Servers that have not listed their tools yet."""


class ToolsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects tools."""

    server: Annotated[str, Meta(description="Only tools of this upstream.")] | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class ToolSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One tool in a list."""

    name: str
    """For `call_tool`."""
    upstream: str
    use: str
    """The import that makes it callable."""
    title: str
    description: str
    version: str
    annotations: ToolAnnotations


class ToolPage(msgspec.Struct, frozen=True, kw_only=True):
    """Tools in the order of their names."""

    tools: list[ToolSummary]
    total: int
    next_cursor: str | None


class ToolRelease(msgspec.Struct, frozen=True, kw_only=True):
    """One step in a tool's history."""

    version: str
    kind: str
    released_at: float
    changes: list[str]


class ToolView(ToolSummary, frozen=True, kw_only=True):
    """One tool."""

    signature: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    digest: str
    releases: list[ToolRelease]
    """The newest first, at most twenty."""


class UpstreamView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one upstream. Errors are shown to principals with `observe`."""

    name: str
    transport: str
    state: UpstreamState
    tools: int
    server: str | None
    """Name and version that it gives itself."""
    protocol_version: str | None
    restarts: int
    calls: int
    failures: int
    circuit_open: bool
    """True if calls of one of its tools are refused for a while after failures."""
    error: str | None
    warnings: list[str]


class UnmatchedName(msgspec.Struct, frozen=True, kw_only=True):
    """A name in the config that fits nothing."""

    at: str
    """Its place in the config, such as `policy.rules[2].tools`."""
    pattern: str
    nearest: str | None
    """The closest name that exists."""
    message: str


class PolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """The rules by which calls are allowed, asked for and denied."""

    preset: Preset
    """Applies where no rule matches."""
    rules: tuple[Rule, ...]
    limits: tuple[ToolLimits, ...]
    trusted: list[str]
    """Upstreams whose tool annotations are trusted."""
    unmatched: list[UnmatchedName]
    """Names in rules, limits, privacy rules and direct tools that fit nothing."""


class Upstreams(msgspec.Struct, frozen=True, kw_only=True):
    """All that the principal may know of."""

    upstreams: list[UpstreamView]


class ProfileView(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the gateway under a URL of its own."""

    name: str
    path: str
    """Of its URL."""
    upstreams: list[str]
    """Those that the principal may use there."""
    mode: str | None
    """`null`: as without the profile."""
    level: str
    """The isolation level of the principal's runs there."""
    principals: list[str]
    """Those that may use some profiles alone, and this is one of them; empty without `observe`."""


class Profiles(msgspec.Struct, frozen=True, kw_only=True):
    """The profiles of the config."""

    profiles: list[ProfileView]


@endpoint("GET", "mcp/tools/search")
async def search_tools(call: Call[SearchQuery, None]) -> Reply[FoundTools]:
    """Find tools by words. Answers as the MCP tool search_tools does, and `full` hits have their `input_schema`."""
    query, yard = call.query, call.yard
    text = await yard.search_text(
        query.query,
        detail_level=query.detail_level,
        server=query.server,
        limit=query.limit,
        principal=call.principal,
        schemas=True,
    )
    yard.note_exchange(call.principal, "discovery", wrote=query.query, read=text, part="searches")
    return Reply(encoded=text.encode())


@endpoint("GET", "tools")
async def list_tools(call: Call[ToolsQuery, None]) -> ToolPage:
    """The tools that the principal may use."""
    after = from_cursor(call.query.cursor, "tools", str)
    view = await call.yard.snapshot(call.principal)
    server = call.query.server
    names = sorted(name for name, spec in view.tools.items() if server in (None, spec.upstream, spec.module))
    if server is not None and not names:
        known = ", ".join(view.by_upstream) or "none yet"
        raise InvalidRequest(f"No server named {server[:100]!r} has tools. There are: {known}.")
    rest = [name for name in names if after is None or name > after]
    page, more = page_of("tools", rest, call.query.limit, str)
    shown = [_shown(ToolSummary, view.tools[name]) for name in page]
    return ToolPage(tools=shown, total=len(names), next_cursor=more)


@endpoint("GET", "tools/{name}", errors=("not_found",))
async def get_tool(call: Call[None, None]) -> ToolView:
    """One tool, by its full name or as `server.tool`, with its history."""
    name = call.path["name"]
    view = await call.yard.snapshot(call.principal)
    spec = view.find(name)
    if spec is None:
        near = ", ".join(view.nearest(name))
        advice = f"Nearest: {near}." if near else "Search for one: GET mcp/tools/search."
        raise UnknownTool(f"No tool named {name[:100]!r}. {advice}")
    history = await call.yard.store.releases.history(spec.upstream, spec.name)
    releases = [
        view_of(ToolRelease, each, changes=[change.reason for change in each.changes]) for each in history[:_RELEASES]
    ]
    return _shown(ToolView, spec, signature=Stub(spec).signature, releases=releases)


@endpoint("GET", "upstreams")
async def list_upstreams(call: Call[None, None]) -> Upstreams:
    """The state of the MCP servers behind the gateway."""
    yard = call.yard
    names = yard.tools.views.servers(yard.tools.upstreams, yard.tools.catalog.snapshot, call.principal)
    log = await yard.guards.of("log")
    circuits = yard.operations.upkeep.open_circuits()
    found = []
    for status in yard.tools.statuses():
        if status.name not in names:
            continue
        may_observe = call.scope.observe
        found.append(
            view_of(
                UpstreamView,
                status,
                circuit_open=status.name in circuits,
                error=await log.door.conceal(status.error) if may_observe and status.error else None,
                warnings=await log.door.conceal_each(list(status.warnings)) if may_observe else [],
            )
        )
    return Upstreams(upstreams=found)


@endpoint("GET", "profiles")
async def list_profiles(call: Call[None, None]) -> Profiles:
    """The profiles of the config. Each is served at a URL of its own and narrows what the principal may use."""
    tools, runner = call.yard.tools, call.yard.runner
    seen = tools.views.servers(tools.upstreams, tools.catalog.snapshot, call.principal)
    found = []
    for name, profile in runner.profiles.items():
        views = tools.views.narrowed(profile)
        upstreams = [each for each in seen if views.may_use(each, call.principal)]
        level = str(runner.narrowed(profile).policy_of(call.principal).level)
        scopes = runner.scopes.values() if call.whose is None else ()
        bound = sorted(scope.name for scope in scopes if scope.profiles is not None and name in scope.profiles)
        path, mode = f"/mcp/p/{name}", profile.mode
        shown = ProfileView(name=name, path=path, upstreams=upstreams, mode=mode, level=level, principals=bound)
        found.append(shown)
    return Profiles(profiles=found)


@endpoint("GET", "policy", needs="observe")
async def get_policy(call: Call[None, None]) -> PolicyView:
    """The rules for calls, and the names in the config that fit no tool."""
    rules = call.yard.recorder.broker.policy
    found = await call.yard.tools.unmatched()
    return PolicyView(
        preset=rules.preset,
        rules=rules.settings.rules,
        limits=rules.settings.limits,
        trusted=sorted(rules.trusted),
        unmatched=[view_of(UnmatchedName, each) for each in found],
    )


def _shown(kind: type[_Tool], spec: ToolSpec, **others: Any) -> _Tool:
    use = f"from servers.{spec.module} import {spec.function}"
    return view_of(kind, spec, name=spec.full_name, use=use, **others)
