"""Starts the zygote.

Marked for security review. The invariant: the new process inherits nothing but one descriptor, and receives no value
that the agent's code may not know.
"""

import base64
import os
import platform
import socket
import sys
from pathlib import Path
from typing import Any

import msgspec

from sealyard.errors import SandboxUnavailable
from sealyard.offload import Process, execute
from sealyard.sandbox.importable.packages import GuestPackages
from sealyard.sandbox.policy import IsolationPolicy
from sealyard.sandbox.policy.seccomp import build_filters, numbers
from sealyard.values.runs import Tier

FIRST_USER = 2_000_000_000
"""The first of the workers' users on the host when root runs the gateway: far from real users."""
USERS = 65_536  # as many as are commonly mapped for one container, the id of `nobody` among them

_CHANGE_USER = (1 << 6) | (1 << 7)  # setgid and setuid
_SETPCAP = 1 << 8  # CAP_SETPCAP, as linux/capability.h numbers it
_SYS_ADMIN = 1 << 21  # CAP_SYS_ADMIN

_GUEST = Path(__file__).parent / "guest"

# Modules that agent code imports often, and those of the runner. Loaded before any worker is forked.
_PRELOAD = """
    abc ast asyncio base64 bisect calendar collections collections.abc concurrent.futures contextlib copy csv
    dataclasses datetime decimal difflib enum fnmatch fractions functools glob gzip hashlib heapq html inspect io
    itertools json linecache math operator os pathlib pprint random re select shutil signal statistics string
    tempfile textwrap threading time traceback types typing unicodedata urllib.parse uuid warnings zlib zoneinfo
""".split()


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a sandbox that each of its zygotes is built with."""

    policy: IsolationPolicy
    tier: Tier = "namespace"
    privileged: bool = False
    """True to build namespaces as root of the host."""
    packages: GuestPackages
    library: Path | None = None
    """The folder of stubs that workers can be shown."""


class ZygoteProcess(msgspec.Struct):
    """A started zygote, and a file that takes its last words."""

    process: Process
    stderr_fd: int

    def last_words(self) -> str:
        """The text it wrote to standard error."""
        size = os.fstat(self.stderr_fd).st_size
        return os.pread(self.stderr_fd, min(size, 4_000), max(0, size - 4_000)).decode("utf-8", "replace").strip()


def start(given: Setup, directory: Path | None) -> ZygoteProcess:
    """Execute a zygote and send it its set-up. Raises `SandboxUnavailable` when it cannot even be executed.

    `directory` holds the files of the `landlock` tier.
    """
    policy, tier, packages = given.policy, given.tier, given.packages
    if sys.platform != "linux":
        raise SandboxUnavailable(f"The {tier} tier needs Linux; this is {sys.platform}.")
    machine = platform.machine()
    # One run may be held to less than this policy allows, so workers get all of them to choose from.
    filters = {
        filter_of(each): build_filters(each, machine=machine, tier=tier)
        for processes in (1, 2)
        for executable in {False, policy.executable_memory}
        for each in [msgspec.structs.replace(policy, processes=processes, executable_memory=executable)]
    }
    allowed = policy.allowed_modules(stdlib=frozenset(sys.stdlib_module_names), packages=packages.modules)
    setup: dict[str, Any] = {
        "tier": tier,
        "privileged": given.privileged,
        "users": f"0 {FIRST_USER} {USERS}",
        "capabilities": tier == "namespace" or held_capabilities() != 0,
        "bounding_set": tier == "namespace" or bool(held_capabilities() & _SETPCAP),
        "syscalls": dict(numbers(machine)),
        "preload": _PRELOAD,
        "packages": packages.entries,
        "own_packages": packages.own,
        "package_path": package_folder(directory),
        "package_imports": packages.imports,
        "level": policy.level,
        "own_network": policy.own_network,
        "allowed_modules": None if allowed is None else sorted(allowed),
        "refused_modules": policy.refused_modules,
        "workspaces": None if directory is None else str(directory),
        "library": None if given.library is None else str(given.library),
        "workspace_bytes": policy.workspace_mib << 20,
        "workspace_files": policy.workspace_files,
        "temp_bytes": policy.temp_mib << 20,
        "temp_files": policy.temp_files,
        "filters": {
            "template": base64.b64encode(filters[filter_of(policy)].template).decode(),
            "worker": {
                name: {"program": base64.b64encode(each.worker).decode(), "pid_offsets": each.pid_offsets}
                for name, each in filters.items()
            },
        },
    }
    program = [interpreter(), "-I", "-S", "-B", "-X", "utf8", str(_GUEST / "zygote.py")]
    environment = {"LD_BIND_NOW": "1"}  # symbols that are looked up after a fork cost every worker copied pages
    stderr_fd = os.memfd_create("sealyard-zygote", os.MFD_CLOEXEC)
    try:
        process = execute(program, socket.SOCK_SEQPACKET, environment=environment, stderr=stderr_fd)
    except OSError as error:
        os.close(stderr_fd)
        raise SandboxUnavailable(f"The interpreter {interpreter()!r} could not be started: {error}.") from error
    process.connection.send(msgspec.json.encode(setup))
    process.connection.setblocking(False)
    return ZygoteProcess(process, stderr_fd)


def package_folder(directory: Path | None) -> str:
    """The folder from which workers import packages; in the `landlock` tier below `directory`."""
    return "/packages" if directory is None else str(directory / "packages")


def filter_of(policy: IsolationPolicy, *, can_fork: bool = True) -> str:
    """The name of the seccomp program for a run under `policy`; without `can_fork` it is one process at most."""
    forks = "forking" if policy.processes > 1 and can_fork else "single"
    return forks if policy.executable_memory else f"{forks}, no new code"


def interpreter() -> str:
    """The real interpreter behind this process, not a virtual environment's link to it."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def held_capabilities() -> int:
    """The effective capabilities of this process, as a mask."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def can_change_user() -> bool:
    """True if workers can be given users of their own."""
    return held_capabilities() & _CHANGE_USER == _CHANGE_USER


def is_privileged() -> bool:
    """True if this process may build namespaces as root and give workers users of their own."""
    return os.geteuid() == 0 and can_change_user() and bool(held_capabilities() & _SYS_ADMIN)
