"""Finds the tier of isolation this machine offers: each is built whole and attacked from inside before it is trusted.

Nothing is concluded from a distribution's name or a kernel's version. A control that fails means that the set-up does
not work, an attack that succeeds means that it does not protect; either rules the tier out.
"""

import contextlib
import os
import platform
import pwd
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from sealyard.errors import InvalidRequest, SandboxBroken, SandboxUnavailable
from sealyard.sandbox import spawn
from sealyard.sandbox.ahead import Ahead
from sealyard.sandbox.importable import Library, add_own, find_packages
from sealyard.sandbox.policy import DEFAULT, LEVELS, IsolationLevel, IsolationPolicy
from sealyard.sandbox.pool import PoolOptions, Slots
from sealyard.sandbox.report import Attack, Layer, LevelReport, LimitReport, Report, TierReport, shortfall
from sealyard.sandbox.run import Sandbox
from sealyard.values.runs import Limits, Tier

_OWN_FILE = os.path.abspath(__file__)
_HOST_SETTINGS = ("/etc/hosts", "/etc/hostname", "/etc/group")  # beside files that a worker may read
_PROBED_MIB = 64  # of memory: enough for any interpreter, and filled in some 20 ms
_USABLE_SHARE = 4  # a quarter of it must be usable: the interpreter, its libraries and rounding take less than the rest

TIERS: tuple[Tier, ...] = get_args(Tier)


@contextlib.asynccontextmanager
async def open_sandbox(
    policy: IsolationPolicy | IsolationLevel = DEFAULT,
    *,
    tier: Tier | None = None,
    allow_weaker: bool = False,
    pool: PoolOptions | None = None,
    environment: Path | None = None,
    library: Library | None = None,
    own: Mapping[str, Path] | None = None,
    folder: Path | None = None,
    slots: Slots | None = None,
    ahead: Ahead | None = None,
) -> AsyncIterator[Sandbox]:
    """A sandbox of the strongest tier that this machine has proven to offer.

    `environment` is the `site-packages` folder that holds the data packages; by default the gateway's own, of which
    only the packages that the policy names are shown to the code. `library` holds the tools that code can import.
    `own` are folders of the gateway's Python files by the name under which code imports them at every level; they are
    shown read-only and imported before any run. `folder` is where the landlock tier keeps files, by default the
    system's temporary directory. `slots` says who runs when, by default as the options of the pool do. `ahead` is a
    sandbox that was begun with these arguments and this library.

    Raises:
        LevelUnavailable: The machine cannot honour the policy's level and `allow_weaker` is not set.
        SandboxUnavailable: No tier works here.
    """
    if isinstance(policy, IsolationLevel):
        policy = LEVELS[policy]
    packages = ahead.packages if ahead else add_own(find_packages(policy.packages, environment=environment), own or {})
    setup = spawn.Setup(policy=policy, packages=packages, library=None if library is None else library.path)
    parts = {"library": library, "folder": folder, "slots": slots, "ahead": ahead, "allow_weaker": allow_weaker}
    sandbox, report = await _open_best(setup, tier, options=pool or PoolOptions(), **parts)
    try:
        sandbox.report = report
        sandbox.check(policy)
        await sandbox.fill()
        yield sandbox
    finally:
        await sandbox.close()


async def examine(policy: IsolationPolicy = DEFAULT, *, environment: Path | None = None) -> Report:
    """Build and attack every tier, and report the levels that follow."""
    tiers: list[TierReport] = []
    control = "none"
    packages = find_packages(policy.packages, environment=environment)
    for tier in TIERS:
        try:
            setup = spawn.Setup(policy=policy, tier=tier, packages=packages)
            sandbox, report = await _open_tier(setup, options=PoolOptions(size=0))
        except SandboxUnavailable as error:
            tiers.append(TierReport(name=tier, available=False, reason=str(error)))
            continue
        if control == "none":
            control = sandbox.resource_control
        await sandbox.close()
        tiers.append(report)
    levels = {str(level): _level_report(LEVELS[level], tiers) for level in IsolationLevel}
    return Report(
        machine=platform.machine(),
        kernel=platform.release(),
        python=f"{platform.python_version()} ({spawn.interpreter()})",
        user=f"{_user_name()} ({'root' if spawn.is_privileged() else 'unprivileged'})",
        resource_control=control,
        tiers=tuple(tiers),
        levels=levels,
        packages=packages.versions,
    )


def _level_report(policy: IsolationPolicy, tiers: list[TierReport]) -> LevelReport:
    for report in tiers:
        if report.available:
            reason = shortfall(policy, report)
            fine = "Every wall it needs stands."
            if policy.processes > 1 and not report.can_fork:
                fine += " Code cannot start processes: no control group holds the memory of several."
            return LevelReport(honoured=reason is None, tier=report.name, reason=reason or fine)
    return LevelReport(honoured=False, tier=None, reason="No tier of isolation works on this machine.")


async def _open_best(setup: spawn.Setup, tier: Tier | None, **parts: Any) -> tuple[Sandbox, TierReport]:
    if tier is not None and tier not in TIERS:
        raise InvalidRequest(f"No tier is called {tier!r}. There are: {', '.join(TIERS)}.")
    reasons = []
    for candidate in TIERS if tier is None else (tier,):
        try:
            return await _open_tier(msgspec.structs.replace(setup, tier=candidate), **parts)
        except SandboxUnavailable as error:
            reasons.append(f"{candidate}: {error}")
    raise SandboxUnavailable("No sandbox can be built here. " + " ".join(reasons))


async def _open_tier(setup: spawn.Setup, **parts: Any) -> tuple[Sandbox, TierReport]:
    """Build a sandbox of one tier, of its other `parts`, and prove it. Raises `SandboxUnavailable` with the reason."""
    # Root in a container may lack what building as root takes, and can then still do what any user can.
    routes = [True, False] if setup.tier == "namespace" and spawn.is_privileged() else [False]
    failures: list[str] = []
    for privileged in routes:
        sandbox = Sandbox(msgspec.structs.replace(setup, privileged=privileged), **parts)
        try:
            await sandbox.start()
            return sandbox, await _prove(sandbox)
        except (SandboxUnavailable, SandboxBroken) as error:
            failures.append(str(error))
            await sandbox.close()
        except BaseException:
            await sandbox.close()
            raise
    raise SandboxUnavailable(" Then, as an ordinary user: ".join(failures))


async def _prove(sandbox: Sandbox) -> TierReport:
    """Attack the sandbox from inside. Raises `SandboxUnavailable` if a control fails or an attack succeeds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        findings = await sandbox.attack(
            {
                "kind": "attacks",
                "host_file": _OWN_FILE,
                # Files that are there: an attack on one that is not proves nothing.
                "host_setting": next((path for path in _HOST_SETTINGS if os.access(path, os.R_OK)), _OWN_FILE),
                "program": spawn.interpreter(),
                "outside": f"{_OWN_FILE}.probe",
                "port": listener.getsockname()[1],
                "gateway_pid": os.getpid(),
            }
        )
    # A limit that the kernel does not hold is watched from then on, and rules nothing out.
    sandbox.pool.holds_tasks = all(not finding.done for finding in findings if finding.kind == "limit")
    attacks = tuple(
        Attack(
            name=finding.name,
            held=finding.done if finding.kind == "control" else not finding.done,
            detail=finding.detail,
        )
        for finding in findings
        if finding.kind != "limit"
    )
    wrong = [attack for attack in attacks if not attack.held]
    if wrong or not attacks:
        failures = "; ".join(f"{attack.name} ({attack.detail})" for attack in wrong) or "the probe said nothing"
        raise SandboxUnavailable(f"The walls were built but did not prove themselves: {failures}.")
    return TierReport(
        name=sandbox.tier,
        available=True,
        reason=f"Built and attacked: {len(attacks)} attempts ended as they must.",
        layers=_layers(sandbox),
        attacks=attacks,
        limits=_limits(sandbox, holds_memory=await _holds_memory(sandbox)),
        can_fork=sandbox.pool.can_fork,
    )


async def _holds_memory(sandbox: Sandbox) -> bool:
    """True if code that wants twice its memory is ended. Raises `SandboxUnavailable` if it cannot get a quarter."""
    mib = min(_PROBED_MIB, sandbox.policy.memory_mib)
    code = f"kept = b'x' * ({mib // _USABLE_SHARE} << 20)\nprint('held')\nkept = b'x' * ({mib * 2} << 20)"
    outcome = await sandbox.run_beside(code, limits=Limits(memory_mib=mib))
    if outcome.output != "held\n":
        raise SandboxUnavailable(
            f"Code that may use {mib} MiB of memory could not use {mib // _USABLE_SHARE}: {outcome.failure}."
        )
    return outcome.failure is not None and outcome.failure.kind == "memory"


def _limits(sandbox: Sandbox, *, holds_memory: bool) -> tuple[LimitReport, ...]:
    """The mechanism behind each limit of the policy here."""
    pool, namespaces = sandbox.pool, sandbox.tier == "namespace"
    group = None if pool.resource_control == "rlimits" else pool.resource_control
    whose = "user" if pool.has_own_users else "user namespace"
    room = "a tmpfs of that size" if namespaces else "the sizes of files; one that is deleted and open is not seen"
    memory = f"{group} of each worker" if group else "RLIMIT_AS of its one process, and its resident memory is watched"
    cpu = "RLIMIT_CPU of each process"
    processes = "seccomp, which allows one whatever the policy says: nothing here holds several together"
    if pool.can_fork:
        cpu += f"; of several together {group} counts it, and it is watched"
        processes = f"seccomp for one, RLIMIT_NPROC of the worker's own {whose} for several"
    return (
        LimitReport(name="wall_seconds", held="gateway", by="a timer, and a kill of all that the worker started"),
        LimitReport(name="cpu_seconds", held="kernel", by=cpu),
        LimitReport(name="memory_mib", held="kernel" if holds_memory else "no", by=memory),
        LimitReport(name="cores", held="kernel", by="CPU affinity"),
        LimitReport(name="processes", held="kernel", by=processes),
        LimitReport(name="threads", held="kernel", by=f"RLIMIT_NPROC of the worker's own {whose}")
        if pool.holds_tasks
        else LimitReport(name="threads", held="watched", by="the number of threads; RLIMIT_NPROC is without effect"),
        LimitReport(name="open_files", held="kernel", by="RLIMIT_NOFILE of each process"),
        *(
            LimitReport(name=name, held="kernel" if namespaces else "watched", by=room)
            for name in ("workspace_mib", "workspace_files", "temp_mib", "temp_files")
        ),
        LimitReport(name="output_bytes", held="gateway", by="what is read of the output's pipe"),
    )


_NAMESPACES = {
    "user namespace": "Powers inside the sandbox are none outside.",
    "mount namespace": "The host's files do not exist inside.",
    "pid namespace": "No other process can be seen, and killing the worker kills all it started.",
    "network namespace": "There is no network device but a loopback that is down.",
    "ipc namespace": "No shared memory or queue of the host can be reached.",
}
_USER_NAMESPACES = "docs/howto/user-namespaces.md says how to allow user namespaces."
_OTHER_LAYERS = {
    "no nested user namespaces": (
        "The kernel itself refuses a worker a namespace in which it would be root.",
        "Make /proc/sys writable for the gateway, or rely on seccomp, which forbids it too.",
    ),
    "landlock": (
        "Files outside the allowed folders cannot be opened even where they are visible.",
        "Use a kernel of 5.13 or newer with landlock in its list of security modules.",
    ),
    "seccomp": ("System calls that ordinary Python does not need are refused.", ""),
    "capabilities dropped": ("The worker has no special power of the kernel, even in its own namespaces.", ""),
}
"""The purpose of each layer, and the advice if it is missing."""


def _layers(sandbox: Sandbox) -> tuple[Layer, ...]:
    abi, has_namespaces = sandbox.zygote.landlock_abi, sandbox.tier == "namespace"
    details = dict.fromkeys(("mount namespace", "pid namespace", "ipc namespace"), "one per worker")
    details["network namespace"] = "one per worker" if sandbox.policy.own_network else "shared by workers of one policy"
    details = details if has_namespaces else {}
    details |= {"landlock": f"ABI {abi}" if abi else "", "seccomp": "two stages"}
    missing = set() if has_namespaces else {*_NAMESPACES, "no nested user namespaces"}
    missing |= {"no nested user namespaces"} & set(sandbox.zygote.missing_layers)
    missing |= set() if abi > 0 else {"landlock"}
    texts = {name: (meaning, _USER_NAMESPACES) for name, meaning in _NAMESPACES.items()} | _OTHER_LAYERS
    return tuple(
        Layer(name=name, present=name not in missing, detail=details.get(name, ""), meaning=meaning, remedy=remedy)
        for name, (meaning, remedy) in texts.items()
    )


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
