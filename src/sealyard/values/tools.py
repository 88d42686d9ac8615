"""Tools and the upstreams that offer them: definitions, settings, states, search results, patterns over names."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from sealyard.errors import InvalidConfig, InvalidRequest

_SCHEMA_BYTES = 256 << 10
"""Of schemas in one search result: the largest definition alone, or two for each of fifty hits as people write them."""


class ToolAnnotations(msgspec.Struct, frozen=True, kw_only=True):
    """An upstream's claims about the effects of a tool. Untrusted; `None` means no claim."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """One tool as its upstream defines it, before the catalog names it."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations = ToolAnnotations()


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One tool of one upstream, with its names in the catalog."""

    upstream: str
    """The upstream's name in the configuration."""
    name: str
    """The upstream's own name for it."""
    full_name: str
    """`mcp__<upstream>__<tool>`: unique, valid as an MCP name, at most 128 characters."""
    module: str
    """Its function is in `servers.<module>`."""
    function: str
    """A Python identifier, unique in the module."""
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations = ToolAnnotations()
    digest: str
    """SHA-256 of the definition as the upstream gave it, in canonical JSON."""
    version: str = "1.0.0"
    """The catalog's version, from the history of the definition; not the upstream's."""

    @property
    def spellings(self) -> tuple[str, str]:
        """Its two names in the configuration: `mcp__mail__send` and `mail/send`."""
        return self.full_name, f"{self.upstream}/{self.name}"

    def without_empty(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`arguments` without each `None` that the schema has no place for: models write it for what they leave out."""
        if None not in arguments.values():
            return arguments
        required = self.input_schema.get("required")
        required = required if isinstance(required, list) else ()
        properties = self.input_schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        return {
            name: value
            for name, value in arguments.items()
            if value is not None or name in required or _accepts_null(properties.get(name, True))
        }


def _accepts_null(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return bool(schema)
    if isinstance(schema.get("enum"), list):
        return None in schema["enum"]
    if isinstance(schema.get("type"), str | list):
        return "null" in schema["type"]
    choices = [choice for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list) for choice in schema[key]]
    return any(map(_accepts_null, choices)) if choices else "$ref" not in schema and "const" not in schema


# Patterns over names, the same for rules, limits and lists of the configuration


@lru_cache(maxsize=1024)
def glob(*patterns: str) -> Callable[[str], object]:
    """Return a matcher for the patterns: `*` matches any characters, `?` one.

    Nothing else is special. Matching takes linear time, however many `*` there are.
    """
    return re.compile("|".join(map(_translate, patterns)), re.DOTALL).fullmatch


def checked_glob(patterns: Sequence[str], at: str) -> Callable[[str], object]:
    """Return `glob` for patterns of the configuration.

    Raises:
        InvalidConfig: A pattern is missing or empty; `at` is its place in the configuration.
    """
    if not patterns or not all(patterns):
        raise InvalidConfig(f"{at} has no pattern or an empty one, which fits nothing. Give one, or '*' for all.")
    return glob(*patterns)


def tool_names(patterns: Sequence[str], at: str) -> Callable[[ToolSpec], bool]:
    """Return a matcher for tools, by either spelling of their names. Raises as `checked_glob` does."""
    fits = checked_glob(patterns, at)
    return lambda spec: any(map(fits, spec.spellings))


def _translate(pattern: str) -> str:
    first, *rest = (re.escape(part).replace(r"\?", ".") for part in pattern.split("*"))
    if not rest:
        return first
    # An atomic group keeps the first match of each part, which makes matching linear.
    return first + "".join(f"(?>.*?{part})" for part in rest[:-1] if part) + ".*" + rest[-1]


# Upstreams


ReleaseKind = Literal["added", "changed", "removed", "returned", "renamed", "observed"]
"""`returned`: it was gone, or its upstream is reached in another way. `observed`: its answers changed, and its
definition does not say so."""

Transport = Literal["stdio", "http", "sse", "python"]


class OAuthConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The OAuth settings of an upstream. Without a secret, a person consents in the browser."""

    client_id: str | None = None
    client_secret: str | None = None
    issuer: str | None = None
    """The only authorization server that receives the secret. Without it the upstream chooses the server."""
    scopes: tuple[str, ...] = ()
    redirect_port: int = 8329


class UpstreamConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one upstream. References such as `${TOKEN}` are already expanded."""

    name: str
    transport: Transport
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """Environment of a stdio child, in addition to the few variables that any program needs."""
    cwd: str | None = None
    """The working directory of a child; the folder of a module that is not installed."""
    module: str | None = None
    """The Python module whose functions are the tools."""
    url: str | None = None
    headers: dict[str, str] = {}
    bearer_token: str | None = None
    oauth: OAuthConfig | None = None
    tools: tuple[str, ...] | None = None
    """Only these, by the upstream's own names; `*` is a wildcard. `None`: all."""
    without_tools: tuple[str, ...] = ()
    start_seconds: float = 30.0
    call_seconds: float = 60.0
    idle_seconds: float | None = 600.0
    """Idle time after which it is stopped. `None`: never."""
    concurrent_calls: int = 16
    answer_bytes: int = 64 << 20
    """A larger message from the upstream ends the call, not the gateway."""

    def against(self, tool: str) -> list[str]:
        """The patterns of `without_tools` that leave a tool out."""
        return [pattern for pattern in self.without_tools if glob(pattern)(tool)]

    def allows(self, tool: str) -> bool:
        """True if the gateway offers a tool that this upstream has."""
        return (self.tools is None or any(glob(pattern)(tool) for pattern in self.tools)) and not self.against(tool)


UpstreamState = Literal["stopped", "starting", "ready", "backing_off", "failed"]
"""`stopped`: not started yet, or idle. `backing_off`: it failed and restarts after a pause. `failed`: it restarts when
it is next needed."""


class UpstreamStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one upstream."""

    name: str
    transport: str
    """`stdio`, `http`, `sse` or `python`."""
    state: UpstreamState
    tools: int = 0
    protocol_version: str | None = None
    server: str | None = None
    """The name and version that the upstream reports."""
    restarts: int = 0
    calls: int = 0
    failures: int = 0
    error: str | None = None
    """The last error, in one sentence."""
    warnings: tuple[str, ...] = ()
    """For example dropped tools and changed definitions."""
    stderr: str = ""
    """The end of the child's standard error."""
    idle_patterns: tuple[str, ...] = ()
    """Patterns of `without_tools` that exclude no tool listed since the start."""


class Circuit(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one tool's circuit breaker."""

    tool: str
    state: Literal["closed", "open", "half_open"]
    """`open`: calls are refused. `half_open`: the next call tests the server."""
    failures: int
    """Of the server, in a row."""
    retry_seconds: float = 0.0
    """The time it stays open."""


# Searches


DetailLevel = Literal["name_only", "with_description", "full"]

_LEVELS: dict[str, DetailLevel] = {
    "name_only": "name_only",
    "with_description": "with_description",
    "name_and_description": "with_description",
    "full": "full",
}


_MOST_HITS = 50
"""In the answer to one search, of tools or of skills: what a model can read."""


def bounded_limit(limit: int) -> int:
    """The number of hits to give when `limit` are asked for. Raises `InvalidRequest` for less than one."""
    if limit < 1:
        raise InvalidRequest(f"limit is {limit!r}. Give 1 to {_MOST_HITS}.")
    return min(limit, _MOST_HITS)


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A search for tools."""

    query: str = ""
    detail_level: str = "with_description"
    """A `DetailLevel`, or `name_and_description`; hyphens count as underscores."""
    server: str | None = None
    """The name or module of the only upstream to search."""
    limit: int = 5

    @property
    def level(self) -> DetailLevel:
        """The detail of each hit. Raises `InvalidRequest`."""
        level = _LEVELS.get((self.detail_level or "with_description").replace("-", "_"))
        if level is None:
            raise InvalidRequest(f"detail_level is {self.detail_level!r}. Use name_only, with_description or full.")
        return level


class Hit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool in a search result. `name_only` has no description, `with_description` no signature."""

    name: str
    """The full name, for `call_tool`."""
    use: str
    """The import that makes it callable: `from servers.github import create_issue`."""
    description: str | None = None
    signature: str | None = None
    parameters: dict[str, str] | None = None
    """The meaning of each parameter, by its Python name."""
    input_schema: dict[str, Any] | None = None
    """With `full`, for programs: the text for a model leaves it out, since the signature says the same."""
    left_out: str | None = None
    """Where an `input_schema` does not fit beside those of better hits, how to get it."""
    returns: str | None = None
    """The declared or learned shape of its response."""
    hints: tuple[str, ...] = ()
    """From experience: tools used with it, arguments it needs, differences between its responses and its schema."""


def with_bounded_schemas(hits: Iterable[Hit]) -> list[Hit]:
    """The hits, of which the best have their schemas, as far as those fit."""
    room, found = _SCHEMA_BYTES, []
    for hit in hits:
        room -= len(msgspec.json.encode(hit.input_schema)) if hit.input_schema is not None and room >= 0 else 0
        if hit.input_schema is not None and room < 0:
            note = "input_schema did not fit. Search for this tool by its name, with limit=1."
            found.append(msgspec.structs.replace(hit, input_schema=None, left_out=note))
        else:
            found.append(hit)
    return found


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search."""

    hits: tuple[Hit, ...]
    unmatched: tuple[str, ...] = ()
    """Words of the query that occur in no tool."""
    total: int = 0
    """The number of searchable tools."""
    skills: tuple[str, ...] = ()
    """Matching saved skills, each with its import and its purpose."""
    text_ranks: tuple[int, ...] = ()
    """See `Searched.text_ranks`."""
