"""The configuration as one frozen value, its tables in `sealyard.toml`, and the machine that it is for.

Errors name the value and the right one.
"""

import hashlib
import os
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar, get_args

import msgspec
from msgspec import Meta, inspect

from sealyard.broker.policy import PolicySettings
from sealyard.errors import InvalidConfig
from sealyard.former import FORMER
from sealyard.values.access import ApprovalSettings, PrincipalScope, Profile
from sealyard.values.runs import Tier
from sealyard.values.tools import OAuthConfig, Transport, UpstreamConfig
from sealyard.wording import suggest

_T = TypeVar("_T", bound=msgspec.Struct)
_Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Level = Literal["development", "production", "hardened"]
"""Levels of isolation, the strictest last."""
PrivacyMode = Literal["strict", "output", "off"]
Mode = Literal["code", "hybrid", "search", "proxy"]
_DOMAIN = r"^[a-z][a-z0-9_-]{0,31}$"
_PATTERNS = {_DOMAIN: "a word of up to 32 small letters, digits, '-' or '_', such as 'data'"}
_RESERVED = ("local", "operator")
_PROFILE = r"[a-z0-9][a-z0-9_-]{0,23}"
"""Part of a URL, and of the name of a workspace, which has 100 characters."""
_SECRET_KEYS = {
    "api_key",
    "args",
    "bearer_token",
    "client_secret",
    "env",
    "headers",
    "token",
    "token_sha256",
    "tokens",
    "webhook",
    "webhook_secret",
}


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The environment that a configuration depends on. Tests give another one."""

    environ: Mapping[str, str]
    home: Path
    directory: Path
    """The project: where the command was started."""
    platform: str
    """As `sys.platform` says it: `linux`, `darwin`, `win32`."""

    def __repr__(self) -> str:  # the environment holds secrets
        return f"Machine(home={self.home!r}, directory={self.directory!r}, platform={self.platform!r})"

    @property
    def data_folder(self) -> Path:
        """The folder of sealyard's own data."""
        return self._folder("XDG_DATA_HOME", ".local/share", "LOCALAPPDATA", "Local") / "sealyard"

    @property
    def store_path(self) -> Path:
        """The store, unless the configuration names another."""
        return self.data_folder / "sealyard.db"

    @property
    def config_folder(self) -> Path:
        """The folder of a user's `sealyard.toml`."""
        return self._folder("XDG_CONFIG_HOME", ".config", "LOCALAPPDATA", "Local") / "sealyard"

    def former_config(self, path: Path) -> Path:
        """The place of the configuration at `path` under the product's former name."""
        folder = path.parent
        return (folder.with_name(FORMER) if folder == self.config_folder else folder) / f"{FORMER}.toml"

    @property
    def applications_folder(self) -> Path:
        """The folder in which each desktop program has a folder of settings."""
        return self._folder("XDG_CONFIG_HOME", ".config", "APPDATA", "Roaming")

    def _folder(self, xdg: str, unix: str, variable: str, windows: str) -> Path:
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return Path(self.environ.get(variable) or self.home / "AppData" / windows)
        given = Path(self.environ.get(xdg, ""))
        return given if given.is_absolute() else self.home / unix  # XDG says to ignore a relative one


def read_machine(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None, platform: str = sys.platform
) -> Machine:
    """The machine as the environment describes it; by default that of this process."""
    environ = os.environ if environ is None else environ
    home = environ.get("USERPROFILE" if platform == "win32" else "HOME")
    return Machine(
        environ=dict(environ),
        home=Path(home) if home else Path.home(),
        directory=(directory or Path.cwd()).absolute(),
        platform=platform,
    )


class UpstreamEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One `[upstreams.NAME]` as it is written: references are not expanded yet."""

    command: str | None = None
    args: tuple[str, ...] = ()
    cwd: str | None = None
    """Relative to the folder of the file, and that folder by default."""
    env_file: str | None = None
    """Lines such as `NAME=value`; `env` takes precedence."""
    url: str | None = None
    transport: Literal["stdio", "http", "streamable-http", "sse"] | None = None
    """By default `stdio` with a command and `http` with a URL."""
    bearer_token: str | None = None
    oauth: bool | OAuthConfig | None = None
    tools: str | tuple[str, ...] | None = None
    """Patterns over names of tools; or a Python module, whose functions are the tools."""
    without_tools: tuple[str, ...] = ()
    start_seconds: _Seconds = 30.0
    call_seconds: _Seconds = 60.0
    idle_seconds: Annotated[float, Meta(ge=0, le=31_536_000)] = 600.0
    """0: never stop."""
    concurrent_calls: Annotated[int, Meta(ge=1, le=1000)] = 16
    answer_bytes: Annotated[int, Meta(ge=1024, le=1 << 32)] = 64 << 20
    disabled: bool = False
    trusted: bool = False
    """True if annotations of its tools may relax the policy."""
    env: dict[str, str] = {}
    headers: dict[str, str] = {}

    @property
    def module(self) -> str | None:
        """The Python module whose functions are the tools."""
        return self.tools if isinstance(self.tools, str) else None

    @property
    def kind(self) -> Transport:
        """How it is reached."""
        if self.module is not None:
            return "python"
        if self.transport in (None, "streamable-http"):
            return "stdio" if self.command is not None else "http"
        return self.transport  # type: ignore[return-value]  # the other two returned above

    def __repr__(self) -> str:  # a file may hold secrets in place of references
        return f"UpstreamEntry(command={self.command!r}, transport={self.transport!r})"


class SurfaceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tools that the agent sees."""

    mode: Mode = "code"
    clients: dict[str, Mode] = {}
    """Modes by the name that a client gives itself, such as `"opencode*" = "search"`. The first that fits counts."""
    direct: tuple[str, ...] = ()
    """Upstream tools that `hybrid` passes through, by full name; patterns with `*` are allowed."""
    result_tokens: Annotated[int, Meta(ge=100, le=50_000)] = 2000
    name: str = "sealyard"
    instructions: str | None = None
    """Instructions for the model in place of sealyard's own."""


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The agent of `sealyard chat` and `open_agent`: its model, and the bounds of its work."""

    model: str | None = None
    """Such as `anthropic:claude-haiku-4-5` or `openai-chat:NAME` with a `url`."""
    url: str | None = None
    """The address of a compatible server, in place of the provider's."""
    api_key: str | None = None
    """In place of the provider's own environment variable."""
    mode: Mode | None = None
    """The surface that the model works with; by default `surface.mode`. `proxy` is none for it."""
    instructions: str = ""
    """Added to the system prompt: who the assistant is, and for whom."""
    reveal: bool = True
    """Shows the person private values where the model wrote their tokens."""
    reply_tokens: Annotated[int, Meta(ge=256, le=128_000)] = 8_192
    """The longest reply."""
    window_tokens: Annotated[int, Meta(ge=4_000, le=2_000_000)] = 100_000
    """The most that a request may hold. Older answers are shortened before that."""
    steps: Annotated[int, Meta(ge=1, le=1_000)] = 20
    """Replies of the model to one message of the person."""
    turn_seconds: _Seconds = 900.0
    """The time for one message of the person, approvals included."""
    conversation_tokens: Annotated[int, Meta(ge=1)] | None = None
    conversation_usd: Annotated[float, Meta(gt=0)] | None = None
    conversation_runs: Annotated[int, Meta(ge=1)] | None = None
    daily_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Of each principal in one day, UTC, as the two after it."""
    daily_usd: Annotated[float, Meta(gt=0)] | None = None
    daily_runs: Annotated[int, Meta(ge=1)] | None = None


class ProfileEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[profiles.NAME]`, at `/mcp/p/NAME`: it narrows what a client's principal may use, and never widens it."""

    upstreams: tuple[str, ...] | None = None
    """Patterns over names of upstreams. By default all."""
    mode: Mode | None = None
    level: Level | None = None
    """Not weaker than the sandbox's own. A principal with a stricter one keeps it."""
    direct: tuple[str, ...] | None = None
    """In place of `surface.direct`."""


class SandboxConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sandbox of agent code."""

    level: Level = "production"
    tier: Tier | None = None
    allow_weaker: bool = False
    pool_size: Annotated[int, Meta(ge=0, le=1000)] | None = None
    packages: tuple[str, ...] = ()
    """Installed packages that code may import beside those of the level."""
    data_packages: bool = True
    """Load the level's own (numpy, pandas and the like) where they are installed; without them it starts faster."""
    running: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    queue: Annotated[int, Meta(ge=0, le=100_000)] = 2_000
    """Runs of all principals that may wait for their turn; one more is refused with 503."""
    queue_each: Annotated[int, Meta(ge=0, le=100_000)] = 500
    """Runs of one principal that may wait for their turn; one more is refused with 429."""
    sessions: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    """Idle workspaces kept in memory; the files of others are moved to disk."""
    idle_mib: Annotated[int, Meta(ge=0, le=1 << 24)] = 1_024
    """Space for files of idle sessions on disk. Beyond it the principal with the most loses its oldest."""


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The database of executions, calls and tools."""

    path: Path = msgspec.field(default_factory=lambda: read_machine().store_path)


class PrincipalEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[http.principals.NAME]`: a client with a token of its own, and its permissions."""

    token: str | None = None
    token_sha256: str | None = None
    """In place of the token, or beside it while one replaces the other. `sealyard token NAME` makes both."""
    upstreams: tuple[str, ...] | None = None
    """Patterns over names of upstreams. By default all."""
    level: Level | None = None
    """Not weaker than the sandbox's own."""
    mode: Mode | None = None
    profiles: tuple[str, ...] | None = None
    """The only profiles that it may use, and then nothing else of the gateway. By default all, and `/mcp` itself."""
    reveal: bool = False
    """True if it may turn tokens back into values over HTTP."""
    approve: bool = False
    """True if it may answer approvals over HTTP. Never for the client of an agent."""
    observe: bool = False
    """True if it may see the work of all principals: their runs, metrics, alerts and the audit log."""
    domain: Annotated[str, Meta(pattern=_DOMAIN)] | None = None
    """Its field of work, such as `data` or `code`. By default derived from the tools that it uses."""
    weight: Annotated[float, Meta(ge=0.1, le=100)] = 1.0
    """Its weight in sharing turns to run: with 2 it gets twice as many as others under load."""

    def __repr__(self) -> str:  # a file may hold the token in place of a reference
        return f"PrincipalEntry(upstreams={self.upstreams!r}, level={self.level!r})"


class HttpConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Access over HTTP. Read tokens with `clients`, which refuses a missing one."""

    token: str | None = None
    """The token of the principal `http`; `$SEALYARD_TOKEN` by default."""
    tokens: dict[str, str] = {}
    """Tokens of principals without an entry in `principals`."""
    principals: dict[str, PrincipalEntry] = {}
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_request_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 4 << 20
    requests_per_minute: Annotated[int, Meta(ge=0, le=1_000_000)] = 1_200
    """Requests of one principal at `/api/v1`. 0: no limit."""
    dashboard: bool = True
    """True if `/` serves the dashboard."""
    compress: bool = True
    """True if answers are compressed for clients that accept it."""
    connections: Annotated[int, Meta(ge=8, le=100_000)] | None = None
    """Connections open at once. By default 2,048, and never more than half of the descriptors of the process."""
    header_seconds: _Seconds = 10.0
    """Time for the headers of a request, from the opening of the connection or the first byte of a further request."""
    body_seconds: _Seconds = 30.0
    """Time for the body, and a second more for every 16 KiB received."""
    answer_seconds: _Seconds = 60.0
    """Time for the client to read an answer, and a second more for every 16 KiB read."""
    idle_seconds: _Seconds = 75.0
    """Time between two requests."""
    unset: tuple[str, ...] = ()
    """Reasons why tokens of the file are missing."""
    digests: dict[str, str] = {}
    """SHA-256 of a token, in hex -> its principal. A loaded configuration has these in place of tokens."""

    def hashed(self) -> "HttpConfig":
        """The same with digests in place of tokens.

        Raises:
            InvalidConfig: Two principals have the same token.
        """
        digests = dict(self.digests)
        texts = [("http", self.token), *self.tokens.items(), *((name, e.token) for name, e in self.principals.items())]
        pairs = [(name, hash_token(text)) for name, text in texts if text is not None]
        pairs += [(name, each.token_sha256.lower()) for name, each in self.principals.items() if each.token_sha256]
        for name, digest in pairs:
            if digests.setdefault(digest, name) != name:
                raise InvalidConfig("two principals have the same token. Give each one of its own.")
        bare = {
            name: msgspec.structs.replace(each, token=None, token_sha256=None) for name, each in self.principals.items()
        }
        return msgspec.structs.replace(self, token=None, tokens={}, principals=bare, digests=digests)

    def clients(self) -> dict[bytes, str]:
        """The principal of every token, by the token's SHA-256. Empty if there are no tokens.

        Raises:
            InvalidConfig: A token refers to a variable that is not set: to serve without it would let in anyone. Or a
                principal could be taken for another.
        """
        if self.unset:
            raise InvalidConfig(f"HTTP cannot be served: {'; '.join(self.unset)}. Set it, or take the token out.")
        digests = self.hashed().digests
        for principal in (*self.principals, *digests.values()):
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,39}", principal) or principal in _RESERVED:
                raise InvalidConfig(
                    f"http.tokens or http.principals names the principal {principal!r}. Use 1 to 40 letters, digits "
                    "and . _ @ - beginning with a letter or digit, and not 'local' or 'operator', which are "
                    "reserved for callers without a token and for the holder of the gateway's own key."
                )
        return {bytes.fromhex(digest): principal for digest, principal in digests.items()}

    def scopes(self) -> dict[str, PrincipalScope]:
        """The permissions of each principal with a token."""
        entries = dict.fromkeys(self.hashed().digests.values(), PrincipalEntry()) | self.principals
        return {
            name: msgspec.convert({"name": name, **msgspec.structs.asdict(each)}, PrincipalScope)
            for name, each in entries.items()
        }


class DiscoveryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The search for tools."""

    semantic: bool = False
    """Rank by meaning too. Needs the extra `semantic`."""
    vectors: str | None = None
    """A folder with `model.safetensors` and `tokenizer.json`, whose vectors replace those of the extra."""


class PrivacyRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[privacy.rules]]`. The first that names a tool decides for it."""

    tools: tuple[str, ...]
    """Patterns over full names, `mcp__crm__*`, or over the servers' own, `crm/*`. One must fit."""
    mode: PrivacyMode | None = None
    whole: tuple[str, ...] = ()
    """Fields of its answers that are concealed whole, such as free text."""
    visible: tuple[str, ...] = ()
    """Fields of its answers that are left as they are."""
    reveal: Literal["whole", "inside", "never"] | None = None
    """The places in its arguments where a token becomes the value: a whole string, inside longer texts too, nowhere.
    By default `whole`, or `inside` where no tool's mode is `strict`."""


class PrivacyConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Private values, and the places where they are replaced."""

    mode: PrivacyMode = "strict"
    scope: Literal["session", "gateway"] = "session"
    """The extent within which the same value has the same token."""
    expires_seconds: Annotated[float, Meta(ge=60, le=31_536_000)] = 604_800.0
    """A token is forgotten this long after its last use."""
    key: Literal["auto", "environment", "file", "keyring"] = "auto"
    """The place of the vault's key. `auto`: `$SEALYARD_VAULT_KEY` if set, else `vault.key` beside the store."""
    conceal: tuple[str, ...] = ()
    """Further concealed types, such as `location`."""
    reveal: tuple[str, ...] = ()
    """Types that are not concealed."""
    allow: tuple[str, ...] = ()
    """Values that are not private, such as `support@example.com`; patterns with `*` are allowed."""
    patterns: dict[str, str] = {}
    """Regular expressions by the type that they find."""
    detectors: tuple[Literal["presidio"], ...] = ()
    """Further detectors, each an extra."""
    rules: tuple[PrivacyRule, ...] = ()
    vault_key: str | None = None
    """The value of `$SEALYARD_VAULT_KEY`."""


class SkillsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[skills]`: the place of saved skills, recordings for their tests, and trusted archives."""

    save_to: Literal["own", "shared"] = "own"
    """`own`: a saved skill belongs to its principal until somebody shares it. `shared`: to all principals."""
    trace_mib: Annotated[int, Meta(ge=0, le=1 << 20)] = 256
    """Space for recorded answers that are too large for the journal, compressed. 0: none are kept."""
    trace_days: Annotated[float, Meta(gt=0, le=3650)] = 7.0
    markets: dict[str, str] = {}
    """Folders of skills to import from, such as git checkouts, by a name."""
    trusted_keys: dict[str, str] = {}
    """Public keys whose archives may be imported, by the name of their holder."""


class MetricsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[metrics]`: prices of tokens, and the retention of the journal."""

    input_price: Annotated[float, Meta(ge=0, le=10_000)] = 3.0
    """Dollars for a million tokens that a model reads."""
    output_price: Annotated[float, Meta(ge=0, le=10_000)] = 15.0
    """Dollars for a million tokens that a model writes, such as code."""
    keep_days: Annotated[int, Meta(ge=1, le=36_500)] = 365
    """Older executions, calls and facts are removed. Their sums and the audit log stay."""
    keep_hours_days: Annotated[int, Meta(ge=1, le=36_500)] = 90
    """Days for which hourly sums are kept. Daily sums stay."""


AlertRule = Literal[
    "discovery_hit_rate",
    "error_rate",
    "slow_runs",
    "timeouts",
    "privacy_failures",
    "upstream_down",
    "audit_chain",
    "store_failing",
]


class AlertsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[alerts]`: thresholds and delivery of alerts."""

    enabled: bool = True
    window_seconds: Annotated[float, Meta(ge=60, le=86_400)] = 900.0
    """The time window of a judgement."""
    for_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    """The time for which a threshold must be exceeded before the alert fires."""
    minimum: Annotated[int, Meta(ge=1, le=1_000_000)] = 20
    """Fewer searches or runs than this are not judged."""
    hit_rate: Annotated[float, Meta(ge=0, le=1)] = 0.8
    """The lowest share of searches after which a found tool is called."""
    error_rate: Annotated[float, Meta(ge=0, le=1)] = 0.25
    """The highest share of failed runs."""
    p95_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 10.0
    """The highest 95th percentile of the duration of runs."""
    timeout_rate: Annotated[float, Meta(ge=0, le=1)] = 0.05
    off: tuple[AlertRule, ...] = ()
    """Rules that are not judged."""
    webhook: str | None = None
    """A URL that every change of an alert is posted to."""
    webhook_secret: str | None = None
    """Signs the posted body: `Sealyard-Signature: sha256=…`, the HMAC of the body."""

    def __repr__(self) -> str:  # a webhook's address is often its password
        return f"AlertsConfig(enabled={self.enabled!r}, webhook={'set' if self.webhook else None!r})"


class LearningConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[learning]`: the use of experience, and its sharing."""

    enabled: bool = True
    """True to learn and to use it. The journal is kept either way."""
    scope: Literal["shared", "principal", "domain"] = "shared"
    """`shared`: principals learn from all. `principal`: each from itself. `domain`: from those of the same domain."""
    domain: Annotated[str, Meta(pattern=_DOMAIN)] | None = None
    """The domain of principals without one of their own."""
    half_life_days: Annotated[float, Meta(ge=1, le=3_650)] = 30.0
    """An event this long ago counts half."""
    critical: Literal["warn", "ask", "refuse"] = "refuse"
    """The treatment of code that is almost certain to fail: a warning, a question to a person, or a refusal."""
    limits: bool = True
    """True if a run gets more time when similar runs needed it, unless the agent asks for a time."""

    def domain_of(self, principal: str, scopes: Mapping[str, PrincipalScope]) -> str:
        """The domain of a principal, by its scope if that names one; empty if there is none."""
        scope = scopes.get(principal)
        return (scope.domain if scope is not None else None) or self.domain or ""


class OtelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[otel]`: the collector of traces. Needs the extra `otel`."""

    endpoint: str | None = None
    """An OTLP collector over HTTP, such as http://127.0.0.1:4318. None: no traces are made."""
    headers: dict[str, str] = {}
    service_name: str = "sealyard"

    def __repr__(self) -> str:
        return f"OtelConfig(endpoint={self.endpoint!r}, service_name={self.service_name!r})"


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration of a gateway, references expanded."""

    upstreams: dict[str, UpstreamConfig] = {}
    surface: SurfaceConfig = SurfaceConfig()
    agent: AgentConfig = AgentConfig()
    profiles: dict[str, ProfileEntry] = {}
    sandbox: SandboxConfig = SandboxConfig()
    store: StoreConfig = msgspec.field(default_factory=StoreConfig)
    http: HttpConfig = HttpConfig()
    discovery: DiscoveryConfig = DiscoveryConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    policy: PolicySettings = PolicySettings()
    approval: ApprovalSettings = ApprovalSettings()
    skills: SkillsConfig = SkillsConfig()
    metrics: MetricsConfig = MetricsConfig()
    alerts: AlertsConfig = AlertsConfig()
    learning: LearningConfig = LearningConfig()
    otel: OtelConfig = OtelConfig()
    trusted: frozenset[str] = frozenset()
    """Upstreams whose tool annotations are trusted."""
    source: Path | None = None
    """The file it was read from."""
    warnings: tuple[str, ...] = ()

    def narrowings(self) -> dict[str, Profile]:
        """The profiles by name."""
        return {name: Profile(name=name, **msgspec.structs.asdict(each)) for name, each in self.profiles.items()}


class _StoreTable(msgspec.Struct):
    path: str | None = None


_TABLES: Mapping[str, type[msgspec.Struct]] = {
    "surface": SurfaceConfig,
    "agent": AgentConfig,
    "sandbox": SandboxConfig,
    "store": _StoreTable,
    "http": HttpConfig,
    "discovery": DiscoveryConfig,
    "privacy": PrivacyConfig,
    "policy": PolicySettings,
    "approval": ApprovalSettings,
    "skills": SkillsConfig,
    "metrics": MetricsConfig,
    "alerts": AlertsConfig,
    "learning": LearningConfig,
    "otel": OtelConfig,
}
"""The tables of `sealyard.toml` beside `[upstreams]` and `[profiles]`."""
_NOT_IN_FILES = {"http": {"unset", "digests"}, "privacy": {"vault_key"}}
"""Fields that `load_config` fills in."""


def hash_token(token: str) -> str:
    """The stored form of a token: its SHA-256 in hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_settings(document: Mapping[str, Any], file: Path, store: Path) -> tuple[Config, dict[str, UpstreamEntry]]:
    """The content of a `sealyard.toml`, checked key by key and not expanded, and its upstreams beside it.

    `store` is the path of the store if the file names none.

    Raises:
        InvalidConfig: A key is unknown or a value is wrong.
    """
    reader = _Reader(file)
    reader.check_keys(document, (), {"upstreams", "profiles", *_TABLES})
    entries, profiles = document.get("upstreams", {}), document.get("profiles", {})
    if not isinstance(entries, dict):
        reader.fail(("upstreams",), entries, "a table for each upstream, such as [upstreams.github]")
    if not isinstance(profiles, dict):
        reader.fail(("profiles",), profiles, "a table for each profile, such as [profiles.support]")
    tables: dict[str, Any] = {
        name: reader.read(kind, document.get(name, {}), (name,), without=_NOT_IN_FILES.get(name, ()))
        for name, kind in _TABLES.items()
    }
    tables["store"] = StoreConfig(path=store if tables["store"].path is None else Path(tables["store"].path))
    tables["profiles"] = {name: reader.read(ProfileEntry, each, ("profiles", name)) for name, each in profiles.items()}
    if not tables["approval"].channels:
        reader.fail(("approval", "channels"), [], '"client", "operator" or both')
    config = Config(**tables)
    for name, profile in config.profiles.items():
        if not re.fullmatch(_PROFILE, name):
            name_rule = "Use 1 to 24 small letters, digits, '-' or '_', beginning with a letter or digit"
            reader.fail_whole(("profiles", name), "has a name that cannot be part of a URL", name_rule)
        _check_level(("profiles", name, "level"), profile.level, config.sandbox, reader)
    for name, entry in config.http.principals.items():
        _check_principal(name, config.http, config.sandbox, reader)
        for each in set(entry.profiles or ()) - config.profiles.keys():
            known = ", ".join(config.profiles) or "none"
            reader.fail_whole(("http", "principals", name), f"names the profile {each!r}", f"There are: {known}")
    return config, {name: read_entry(name, table, file) for name, table in entries.items()}


def _check_principal(name: str, http: HttpConfig, sandbox: SandboxConfig, reader: "_Reader") -> None:
    path, entry = ("http", "principals", name), http.principals[name]
    digest = entry.token_sha256
    if entry.token is None and digest is None and name not in ("http", *http.tokens):
        reader.fail_whole(path, "has no token", f"Give it a token_sha256: `sealyard token {name}` makes one")
    if digest is not None and not re.fullmatch(r"[0-9A-Fa-f]{64}", digest):  # which may be the token itself
        reader.fail_whole((*path, "token_sha256"), "is not a SHA-256", f"Give 64 hex digits: `sealyard token {name}`")
    _check_level((*path, "level"), entry.level, sandbox, reader)


def _check_level(path: tuple[str, ...], level: Level | None, sandbox: SandboxConfig, reader: "_Reader") -> None:
    levels = get_args(Level)
    if level is not None and levels.index(level) < levels.index(sandbox.level):
        reader.fail(path, level, f"{sandbox.level!r}, which is sandbox.level, or a stricter one")


def read_entry(name: str, table: object, file: Path, *, at: tuple[str, ...] = ("upstreams",)) -> UpstreamEntry:
    """One `[upstreams.NAME]`, checked. `at` is its path in the file.

    Raises:
        InvalidConfig: A key is unknown or a value is wrong.
    """
    reader = _Reader(file)
    path = (*at, name)
    if not name.strip() or not name.isprintable() or len(name) > 100:
        reader.fail_whole(path, "has a name that cannot be used", "Give it 1 to 100 letters, digits, '-' or '_'")
    entry = reader.read(UpstreamEntry, table, path)
    if entry.module is not None:
        _check_module(path, entry.module, table, reader)
        return entry
    if (entry.command is None) == (entry.url is None):
        both = "neither" if entry.command is None else "both"
        reader.fail_whole(path, f"has {both} of command and url", "Give one of them")
    if entry.transport is not None and (entry.transport == "stdio") == (entry.command is None):
        right = "'stdio'" if entry.command is not None else "'http' or 'sse'"
        reader.fail((*path, "transport"), entry.transport, f"{right}, or leave it out")
    if entry.command is not None and not entry.command.strip():
        reader.fail((*path, "command"), entry.command, "the program to start")
    if entry.url is not None and "${" not in entry.url and not re.match(r"https?://[^/\s]", entry.url):
        reader.fail_whole(
            (*path, "url"), "is not the address of a server", "Give one that begins with https:// or http://"
        )
    for text in (entry.command, *entry.args, entry.cwd, *entry.env, *entry.env.values()):
        if text is not None and ("\0" in text or any("\ud800" <= char <= "\udfff" for char in text)):
            reader.fail_whole(path, "holds a character that no process can be given", "Take it out")
    return entry


_FOR_SERVERS = (
    "command",
    "url",
    "args",
    "bearer_token",
    "env",
    "env_file",
    "headers",
    "idle_seconds",
    "oauth",
    "transport",
)
"""Keys without a meaning for functions of the gateway's own process."""


def _check_module(path: tuple[str, ...], module: str, table: Any, reader: "_Reader") -> None:
    """Check the entry of a Python module. The file of a client names none: its text would be code in the gateway."""
    if path[0] != "upstreams" or not all(part.isidentifier() for part in module.split(".")):
        reader.fail((*path, "tools"), module, "a list of patterns, or the name of a Python module in a sealyard.toml")
    if (beside := next((key for key in _FOR_SERVERS if key in table), None)) is not None:
        reader.fail_whole(
            path, f"has {beside} and tools = {module!r}, a Python module", "Take one out, or write a pattern in a list"
        )


class _Reader:
    """Turns tables into structs, and reports errors in the words of the file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self, cls: type[_T], table: object, path: tuple[str, ...], *, without: Collection[str] = ()) -> _T:
        if not isinstance(table, dict):
            self.fail(path, table, "a table")
        fields = {field.name: field for field in msgspec.structs.fields(cls) if field.name not in without}
        self.check_keys(table, path, set(fields))
        missing = [name for name, field in fields.items() if field.required and name not in table]
        if missing:
            self.fail_whole(path, f"has no {missing[0]}", "Every one needs it")
        return cls(**{key: self._convert(value, fields[key].type, (*path, key)) for key, value in table.items()})

    def check_keys(self, table: Mapping[str, Any], path: tuple[str, ...], known: set[str]) -> None:
        for key in table:
            if key not in known:
                advice = suggest(key, known, f"Its keys are {', '.join(sorted(known))}.")
                raise InvalidConfig(f"In {str(self._file)!r}, {_spell_path(path)} has no key {key!r}. {advice}")

    def fail(self, path: tuple[str, ...], value: object, expected: str) -> NoReturn:
        is_secret = _SECRET_KEYS & set(path[1:]) or path[:-1] == ("http", "principals")
        given = _kind(value) if is_secret else _spell(value)
        self.fail_whole(path, f"is {given}", f"Give {expected}")

    def fail_whole(self, path: tuple[str, ...], what: str, advice: str) -> NoReturn:
        raise InvalidConfig(f"In {str(self._file)!r}, {_spell_path(path)} {what}. {advice}.")

    def _convert(self, value: Any, kind: Any, path: tuple[str, ...]) -> Any:
        info = inspect.type_info(kind)
        options = info.types if isinstance(info, inspect.UnionType) else (info,)
        for option in options:
            if isinstance(option, inspect.StructType) and isinstance(value, dict):
                return self.read(option.cls, value, path)
            if isinstance(option, inspect.DictType) and isinstance(value, dict):
                return {key: self._convert(each, _type(option.value_type), (*path, key)) for key, each in value.items()}
            if isinstance(option, inspect.VarTupleType) and isinstance(value, list):
                item = _type(option.item_type)
                return tuple(self._convert(each, item, (*path, str(number))) for number, each in enumerate(value))
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            self.fail(path, value, _expected(info))


def _type(info: inspect.Type) -> Any:
    """The type of the items of a list or a table."""
    match info:
        case inspect.StructType():
            return info.cls
        case inspect.LiteralType():
            return Literal[info.values]
        case inspect.AnyType():
            return Any
    return str


def _spell_path(path: tuple[str, ...]) -> str:
    return ".".join(key if re.fullmatch(r"[\w-]+", key) else repr(key) for key in path) or "the file"


def _spell(value: object) -> str:
    return f"{value!r}" if isinstance(value, str | int | float) and len(str(value)) <= 200 else _kind(value)


def _kind(value: object) -> str:
    names = {
        str: "a string",
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "a table",
    }
    return names.get(type(value), f"a {type(value).__name__}")


def _expected(info: inspect.Type) -> str:
    match info:
        case inspect.UnionType():
            return " or ".join(_expected(each) for each in info.types if not isinstance(each, inspect.NoneType))
        case inspect.LiteralType():
            *others, last = (repr(value) for value in info.values)
            return f"{', '.join(others)} or {last}"
        case inspect.IntType() | inspect.FloatType():
            kind = "a whole number" if isinstance(info, inspect.IntType) else "a number"
            low = f"from {info.ge:,}" if info.ge is not None else f"above {info.gt:,}"
            return f"{kind} {low} to {info.le:,}"
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return _PATTERNS.get(info.pattern or "", "a string")
        case inspect.VarTupleType():
            return "a list of tables" if isinstance(info.item_type, inspect.StructType) else "a list of strings"
    return "a table"
