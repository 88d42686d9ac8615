"""The rights of a worker, as declarative data: isolation levels, policies and presets.

Marked for security review: a change here changes what hostile code may use. Nothing here acts; `spawn.py`,
`seccomp.py` and the guest enforce it.
"""

import enum
from typing import Any, Literal

import msgspec

from sealyard import former
from sealyard.errors import InvalidRequest
from sealyard.values.runs import MAX_SECONDS, Limits

__all__ = (
    "ANALYSIS",
    "DATABASE_READONLY",
    "DEFAULT",
    "FILTERING",
    "LEVELS",
    "PRESETS",
    "IsolationLevel",
    "IsolationPolicy",
)


class IsolationLevel(enum.StrEnum):
    """The trust that the agent's code gets inside the walls. The walls are the same for all three."""

    DEVELOPMENT = "development"
    PRODUCTION = "production"
    HARDENED = "hardened"


class IsolationPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a worker may use, one field a limit. Build variants with `with_limits` or `msgspec.structs.replace`.

    Raises:
        InvalidRequest: A field is out of its range; the message names it.
    """

    name: str
    level: IsolationLevel
    wall_seconds: float = 30.0
    cpu_seconds: float = 30.0
    memory_mib: int = 512
    cores: int = 1
    processes: int = 1
    """1 means that the code cannot fork."""
    threads: int = 32
    open_files: int = 128
    workspace_mib: int = 64
    workspace_files: int = 4096
    temp_mib: int = 32
    temp_files: int = 1024
    output_bytes: int = 1 << 20
    result_bytes: int = 16 << 20
    """Hard cap of a result, inline or spilled."""
    inline_bytes: int = 8_000
    """A larger result of a run with a session is spilled to its workspace and previewed."""
    call_bytes: int = 4 << 20
    """Hard cap of one call's arguments."""
    tool_calls: int = 10_000
    concurrent_calls: int = 64
    imports: Literal["installed", "standard", "listed"] = "standard"
    """`installed`: everything. `standard`: the standard library and the packages. `listed`: only `modules`."""
    modules: tuple[str, ...] = ()
    """With `listed`, the allow-list; with `standard`, modules allowed in addition."""
    refused_modules: tuple[str, ...] = ()
    """With `listed` or `standard`, what is refused although the rest would allow it, each with its submodules."""
    packages: tuple[str, ...] = ()
    """Distributions made visible and pre-warmed when the guest environment has them."""
    executable_memory: bool = True
    """False forbids mapping memory executable, so no new native code can be loaded."""
    own_network: bool = False
    """True gives each worker an empty network namespace of its own; else those of a sandbox share an empty one.

    No code can open a socket in either.
    """
    every_layer: bool = False
    """True refuses to start when any layer of the tier is missing."""

    def __post_init__(self) -> None:
        for field, (low, high) in _RANGES.items():
            value = getattr(self, field)
            kind, numbers = ("number", int | float) if field.endswith("_seconds") else ("whole number", int)
            if isinstance(value, bool) or not isinstance(value, numbers) or not low <= value <= high:
                raise InvalidRequest(f"{field} is {value!r}. Give a {kind} from {low:,} to {high:,}.")

    def with_limits(self, limits: Limits | None) -> "IsolationPolicy":
        """The same policy with the limits that are set in `limits`.

        A longer wall time brings CPU time with it, unless `limits` sets that too or the policy keeps it shorter.

        Raises:
            InvalidRequest: A limit is out of its range; the message names it.
        """
        if limits is None:
            return self
        changes: dict[str, Any] = {
            field: value for field in limits.__struct_fields__ if (value := getattr(limits, field)) is not None
        }
        wall_seconds = changes.get("wall_seconds", self.wall_seconds)
        if "cpu_seconds" not in changes and self.wall_seconds <= self.cpu_seconds < wall_seconds:
            changes["cpu_seconds"] = wall_seconds
        return msgspec.structs.replace(self, **changes) if changes else self

    def within(self, other: "IsolationPolicy") -> "IsolationPolicy":
        """This policy without anything that `other` does not allow."""
        changes: dict[str, Any] = {field: min(getattr(self, field), getattr(other, field)) for field in _RANGES}
        stricter = max(self, other, key=lambda each: _IMPORTS.index(each.imports))
        changes["imports"] = stricter.imports
        changes["modules"] = stricter.modules
        if self.imports == other.imports:
            changes["modules"] = tuple(name for name in self.modules if name in other.modules)
        changes["refused_modules"] = tuple(dict.fromkeys((*self.refused_modules, *other.refused_modules)))
        changes["packages"] = tuple(name for name in self.packages if name in other.packages)
        changes["executable_memory"] = self.executable_memory and other.executable_memory
        changes["own_network"] = self.own_network or other.own_network
        changes["every_layer"] = self.every_layer or other.every_layer
        return msgspec.structs.replace(self, **changes)

    def allowed_modules(self, *, stdlib: frozenset[str], packages: frozenset[str]) -> frozenset[str] | None:
        """Top-level and dotted names that the agent's own imports may name; `None` means all.

        A name that is allowed allows its submodules. `refused_modules` and their submodules are refused all the same:
        look there first.
        """
        if self.imports == "installed":
            return None
        names = frozenset((*self.modules, *GUEST_MODULES, *LANGUAGE_MODULES))
        if self.imports == "standard":
            names |= stdlib | packages
        return names - frozenset(self.refused_modules)


_IMPORTS = ("installed", "standard", "listed")  # the loosest first
_RANGES: dict[str, tuple[float, float]] = {
    "wall_seconds": (1, MAX_SECONDS),
    "cpu_seconds": (1, 120),
    "memory_mib": (32, 65_536),
    "cores": (1, 256),
    "processes": (1, 1_024),
    "threads": (1, 1_024),
    "open_files": (16, 65_536),
    "workspace_mib": (1, 65_536),
    "workspace_files": (16, 10_000_000),
    "temp_mib": (1, 65_536),
    "temp_files": (16, 10_000_000),
    "output_bytes": (1_024, 1 << 30),
    "result_bytes": (1_024, 1 << 30),
    "inline_bytes": (256, 1 << 30),
    "call_bytes": (1_024, 1 << 30),
    "tool_calls": (0, 10_000_000),
    "concurrent_calls": (1, 4_096),
}

GUEST_MODULES = ("servers", "skills", "tool_discovery", "sealyard_analysis", former.ANALYSIS)
"""Modules the guest itself provides; allowed at every level."""
LANGUAGE_MODULES = ("__future__",)
"""Imports that are part of the syntax; allowed at every level."""

# Modules of the standard library that start processes, open connections or call native code. The kernel
# refuses all of that anyway; refusing the import gives the agent an error it can act on.
PROCESS_MODULES = ("_multiprocessing", "_posixsubprocess", "multiprocessing", "pty", "subprocess")
NETWORK_MODULES = (
    "_socket",
    "_ssl",
    "asynchat",
    "asyncore",
    "ftplib",
    "http.client",
    "http.server",
    "imaplib",
    "nntplib",
    "poplib",
    "smtpd",
    "smtplib",
    "socket",
    "socketserver",
    "ssl",
    "telnetlib",
    "urllib.request",
    "webbrowser",
    "wsgiref",
    "xmlrpc",
)
NATIVE_MODULES = (
    "_ctypes",
    "_interpreters",
    "_testcapi",
    "_testinternalcapi",
    "_xxsubinterpreters",
    "cffi",
    "ctypes",
    "fcntl",
    "ptrace",
    "resource",
)
DATA_PACKAGES = ("duckdb", "numpy", "pandas", "polars", "scipy")

HARDENED_MODULES = (
    "collections",
    "datetime",
    "decimal",
    "functools",
    "itertools",
    "json",
    "math",
    "re",
    "statistics",
)

_DEVELOPMENT = IsolationPolicy(
    name="development",
    level=IsolationLevel.DEVELOPMENT,
    wall_seconds=60.0,
    cpu_seconds=60.0,
    cores=2,
    processes=16,
    threads=64,
    open_files=256,
    imports="installed",
    packages=DATA_PACKAGES,
)
_PRODUCTION = IsolationPolicy(
    name="production",
    level=IsolationLevel.PRODUCTION,
    cores=2,
    refused_modules=PROCESS_MODULES + NETWORK_MODULES + NATIVE_MODULES,
    packages=DATA_PACKAGES,
)
_HARDENED = IsolationPolicy(
    name="hardened",
    level=IsolationLevel.HARDENED,
    wall_seconds=10.0,
    cpu_seconds=10.0,
    memory_mib=128,
    threads=8,
    open_files=64,
    workspace_mib=16,
    workspace_files=512,
    temp_mib=8,
    temp_files=256,
    imports="listed",
    modules=HARDENED_MODULES,
    executable_memory=False,
    own_network=True,
    every_layer=True,
)

LEVELS: dict[IsolationLevel, IsolationPolicy] = {
    IsolationLevel.DEVELOPMENT: _DEVELOPMENT,
    IsolationLevel.PRODUCTION: _PRODUCTION,
    IsolationLevel.HARDENED: _HARDENED,
}

DEFAULT = _PRODUCTION
ANALYSIS = msgspec.structs.replace(
    _PRODUCTION, name="analysis", wall_seconds=60.0, cpu_seconds=60.0, memory_mib=1_024, workspace_mib=256
)
DATABASE_READONLY = msgspec.structs.replace(
    _PRODUCTION, name="database_readonly", imports="listed", modules=(*HARDENED_MODULES, "csv", "sqlite3", "string")
)
FILTERING = msgspec.structs.replace(
    _PRODUCTION,
    name="filtering",
    wall_seconds=10.0,
    cpu_seconds=10.0,
    memory_mib=256,
    imports="listed",
    modules=(*HARDENED_MODULES, "csv", "heapq", "operator", "string"),
)

PRESETS: dict[str, IsolationPolicy] = {
    **{str(level): policy for level, policy in LEVELS.items()},
    "default": DEFAULT,
    "analysis": ANALYSIS,
    "database_readonly": DATABASE_READONLY,
    "filtering": FILTERING,
}
"""Policies by the name a configuration or `sealyard doctor --policy` gives them."""
