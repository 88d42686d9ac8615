"""Nothing of a gateway is left when it ends in the middle of its work, however it ends.

What SIGKILL leaves on disk, since nobody is there to remove it, is swept when the next sandbox is opened.
"""

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attack.legs import Environment, environment_for, missing_features

MISSING = missing_features()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

USERS = ("root", "unprivileged") if os.geteuid() == 0 else ("unprivileged",)
CONTROL_GROUPS = Path("/sys/fs/cgroup")


@pytest.fixture(scope="module", params=USERS)
def gateways(request: pytest.FixtureRequest) -> Iterator["Gateways"]:
    """Starts gateways of one user."""
    with environment_for(request.param) as environment:
        yield Gateways(request.param, environment)


class Gateways:
    """Gateways of one user, as processes."""

    def __init__(self, user: str, environment: Environment) -> None:
        self._user = user
        self._environment = environment
        self.has_forks = False
        """Whether the code of the last one could fork."""

    def start(self, tier: str) -> "subprocess.Popen[str]":
        """A gateway with everything under way."""
        process = self._environment.start(self._user, "attack.gateway", tier)
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], 60)
        assert readable == [process.stdout]
        said = process.stdout.readline()
        assert said in ("ready\n", "ready, with forks\n")
        self.has_forks = said != "ready\n"
        return process

    def sweep(self, tier: str) -> None:
        """Open and close a sandbox."""
        with self._environment.start(self._user, "attack.gateway", tier, "sweep") as process:
            assert process.wait(60) == 0


@pytest.mark.behaviour("leftovers.gateway_end")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize("tier", ["namespace", "landlock"])
def test_nothing_is_left_of_a_gateway_that_ends_in_mid_run(gateways: Gateways, tier: str, number: int) -> None:
    """No process, mount, control group, named socket or directory of it, though its runs ignore every signal."""
    mounts, sockets = _mounts(), _named_sockets()
    gateway = gateways.start(tier)
    mark = f"{gateway.pid}.{_start_time(gateway.pid)}"
    family = _family(gateway.pid)
    # One zygote, with its helper in the namespace tier, three runs, two workers that wait, and perhaps a run's fork.
    assert len(family) == (7 if tier == "namespace" else 6) + gateways.has_forks
    if tier == "landlock":
        assert len(_directories(mark)) == 1

    gateway.send_signal(number)
    with gateway:
        gateway.wait(60)

    assert _becomes(lambda: {each for each in family if _is_alive(*each)}, set()) == set()
    if number == signal.SIGKILL:
        gateways.sweep(tier)
    assert _becomes(lambda: _directories(mark) + _control_groups(mark), []) == []
    assert _mounts() == mounts
    assert _named_sockets() - sockets == set()


def test_another_gateways_files_are_not_swept(gateways: Gateways) -> None:
    """The control: a gateway that starts while another works leaves the other's directory where it is."""
    gateway = gateways.start("landlock")
    mark = f"{gateway.pid}.{_start_time(gateway.pid)}"
    try:
        before = _directories(mark)
        gateways.sweep("landlock")

        assert len(before) == 1
        assert _directories(mark) == before
        assert gateway.poll() is None
    finally:
        gateway.kill()
        with gateway:
            gateway.wait(60)
    gateways.sweep("landlock")
    assert _directories(mark) == []


def _becomes(look: Callable[[], object], wanted: object) -> object:
    """What `look` sees once that is `wanted`, or after half a minute."""
    deadline = time.monotonic() + 30
    while (seen := look()) != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    return seen


def _start_time(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]


def _is_alive(pid: int, started: str) -> bool:
    try:
        return _start_time(pid) == started
    except (FileNotFoundError, ProcessLookupError):
        return False


def _family(pid: int) -> set[tuple[int, str]]:
    """Everything that descends from `pid`, each with its start time."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(folder.name)] = (int(stat[1]), stat[19])
    found: set[int] = {pid}
    while below := {child for child, (parent, _) in parents.items() if parent in found} - found:
        found |= below
    return {(child, parents[child][1]) for child in found - {pid}}


def _directories(mark: str) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"sealyard-{mark}-*"))


def _control_groups(mark: str) -> list[Path]:
    """By a walk that goes on when a group disappears meanwhile, as those of a gateway that ends do."""
    return [
        Path(folder, name)
        for folder, names, _ in os.walk(CONTROL_GROUPS)
        for name in names
        if name.startswith(f"sealyard-{mark}-")
    ]


def _mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()


def _named_sockets() -> set[str]:
    lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    return {line.split()[7] for line in lines if len(line.split()) > 7 and "sealyard" in line}
