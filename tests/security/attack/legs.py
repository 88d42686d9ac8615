"""The legs: which user, tier and level every attack is made from, and how each is started as a process of its own."""

import contextlib
import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from sealyard.sandbox import spawn

ROOT = Path(__file__).parents[3]
USER = 12_345
"""Somebody who owns nothing."""


@dataclass(frozen=True, kw_only=True)
class Leg:
    """One process that makes every attack."""

    user: str
    """`root`, `unprivileged`, or `root-open`: root with an interpreter that every user can reach."""
    tier: str
    level: str = "-"

    def __str__(self) -> str:
        return f"{self.user}-{self.tier}-{self.level}"


def _users() -> tuple[str, ...]:
    return ("root", "unprivileged") if os.geteuid() == 0 else ("unprivileged",)


def all_legs() -> tuple[Leg, ...]:
    """Every user, tier and level."""
    legs = [
        Leg(user=user, tier=tier, level=level)
        for user in _users()
        for tier in ("namespace", "landlock")
        for level in ("development", "production", "hardened")
    ]
    if os.geteuid() == 0 and not is_open_to_all(spawn.interpreter()):
        # Only then can workers of the landlock tier have users of their own.
        legs.append(Leg(user="root-open", tier="landlock", level="production"))
    return tuple(legs)


def outside_legs() -> tuple[Leg, ...]:
    """The controls on the host, one a user."""
    return tuple(Leg(user=user, tier="outside") for user in _users())


def missing_features() -> str | None:
    """Why this machine cannot run the legs; None when it can, and then each must."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return f"The sandbox needs Linux on x86_64 or aarch64; this is {sys.platform} on {platform.machine()}."
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if restricted.exists() and restricted.read_text(encoding="ascii").strip() == "1":
        return f"User namespaces are restricted: {restricted} is 1."
    return (
        subprocess.run([sys.executable, "-I", "-c", _LOOK], capture_output=True, text=True, check=True).stdout or None
    )


_LOOK = """
import ctypes
libc = ctypes.CDLL(None)
if libc.syscall(444, None, 0, 1) < 1:
    print("The kernel has no landlock.", end="")
elif libc.unshare(0x10000000) != 0:
    print("No user namespace can be made here.", end="")
"""


def is_open_to_all(path: str) -> bool:
    """Whether every user can run this program."""
    real = Path(os.path.realpath(path))
    return bool(real.stat().st_mode & 0o005 == 0o005) and all(each.stat().st_mode & 0o001 for each in real.parents)


@dataclass(frozen=True)
class Environment:
    """An interpreter, and the folders from which it imports sealyard and the attacks."""

    interpreter: str
    path: str

    def start(self, user: str, *arguments: str, stderr: int | None = None) -> "subprocess.Popen[str]":
        """A process of that user in this environment."""
        nobody = USER if user == "unprivileged" and os.geteuid() == 0 else None
        return subprocess.Popen(
            [self.interpreter, "-B", "-m", *arguments],
            env={"PATH": os.defpath, "PYTHONPATH": self.path, "LANG": "C.UTF-8"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            user=nobody,
            group=nobody,
            extra_groups=None if nobody is None else [],
            stderr=stderr,
        )


@contextlib.contextmanager
def environment_for(user: str) -> Iterator[Environment]:
    """Our own environment, or for a user who cannot reach it one that everybody can."""
    if user == "root" or os.geteuid() != 0:
        folders = [ROOT / "src", Path(__file__).parents[1], Path(msgspec.__file__).parents[1]]
        yield Environment(sys.executable, ":".join(map(str, folders)))
        return
    folder = Path(tempfile.mkdtemp(prefix="attack-", dir="/tmp"))
    try:
        interpreter = next(each for each in (spawn.interpreter(), "/usr/bin/python3") if is_open_to_all(each))
        shutil.copytree(ROOT / "src" / "sealyard", folder / "sealyard")
        shutil.copytree(Path(__file__).parent, folder / "attack")
        _install(interpreter, folder)
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        yield Environment(interpreter, str(folder))
    finally:
        shutil.rmtree(folder)


def _install(interpreter: str, folder: Path) -> None:
    """What sealyard needs: copied if it was built for the same Python, else installed as pinned."""
    code = "import sys; print(sys.version_info[0], sys.version_info[1])"
    theirs = subprocess.run([interpreter, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.split()
    if tuple(map(int, theirs)) == sys.version_info[:2]:
        for package in (msgspec, click):
            origin = Path(str(package.__file__)).parent
            shutil.copytree(origin, folder / origin.name)
        return
    command = [interpreter, "-m", "pip", "install", "--quiet", "--require-hashes", "--target", str(folder)]
    subprocess.run([*command, "-r", str(ROOT / "requirements" / "runtime.txt")], check=True, timeout=120)


class Results:
    """What the legs came to. Each is run once, by whichever test process needs it first."""

    def __init__(self, shared: Path, legs: tuple[Leg, ...]) -> None:
        self._shared = shared
        self._legs = legs
        self._known: dict[Leg, dict[str, Any]] = {}

    def of(self, leg: Leg) -> dict[str, Any]:
        """The report of one leg: its facts, its attacks by name, and its last words if it ended badly."""
        while leg not in self._known:
            # While another process runs this one, run those that come after it.
            order = self._legs[self._legs.index(leg) :]
            if not any(self._run_or_read(each) for each in order if each not in self._known):
                with self._lock(leg, fcntl.LOCK_EX):
                    continue
        return self._known[leg]

    def _run_or_read(self, leg: Leg) -> bool:
        file = self._shared / f"{leg}.json"
        try:
            with self._lock(leg, fcntl.LOCK_EX | fcntl.LOCK_NB):
                if not file.exists():
                    file.write_text(json.dumps(run(leg)), encoding="utf-8")
                self._known[leg] = json.loads(file.read_text(encoding="utf-8"))
        except BlockingIOError:
            return False
        return True

    @contextlib.contextmanager
    def _lock(self, leg: Leg, mode: int) -> Iterator[None]:
        with open(self._shared / f"{leg}.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, mode)
            yield


def run(leg: Leg) -> dict[str, Any]:
    """Make all attacks of a leg."""
    with environment_for(leg.user) as environment:
        process = environment.start(leg.user, "attack", leg.user, leg.tier, leg.level, stderr=subprocess.PIPE)
        try:
            output, errors = process.communicate(timeout=500)
        finally:
            process.kill()
    lines = [json.loads(line) for line in output.splitlines()]
    return {
        "facts": lines[0] if lines else None,
        "attacks": {line["name"]: line for line in lines[1:]},
        "status": process.returncode,
        "errors": errors[-4_000:],
    }
