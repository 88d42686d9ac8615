"""Memory limits by control groups: version 2 when a subtree is delegated to us, else version 1, else none.

Without one, address-space limits set by the worker itself hold memory down; a sandbox says which it uses. A group also
counts the processor time of all processes in it, which no limit of a single process can.
"""

import contextlib
import os
from pathlib import Path

__all__ = ("ControlGroup", "Leaf", "open_control_group", "owner_is_alive", "owner_mark")

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "sealyard-"
_GATEWAY = f"{_PREFIX}gateway"


class Leaf:
    """The control group of one worker."""

    def __init__(self, path: Path, *, version: int, cpu_path: Path | None = None) -> None:
        self._path = path
        self._version = version
        self._cpu_path = cpu_path
        self._limit: int | None = None

    def limit(self, memory_bytes: int) -> None:
        """Set the memory limit. Its file stays open: opening one waits for whoever makes or removes a group."""
        if self._limit is None:
            name = "memory.max" if self._version == 2 else "memory.limit_in_bytes"
            self._limit = os.open(self._path / name, os.O_WRONLY | os.O_CLOEXEC)
        os.write(self._limit, str(memory_bytes).encode())

    def forbid_swap(self) -> None:
        """Have the memory limit bound what is swapped out, too."""
        name = "memory.swap.max" if self._version == 2 else "memory.swappiness"
        with contextlib.suppress(FileNotFoundError):  # a kernel that cannot swap
            _write(self._path / name, "0")

    def open_entrances(self) -> list[int]:
        """Descriptors that move whoever writes `0` to each into this group; what it allocates from then on counts.

        A process that moves itself takes no lock that all forks of the machine wait for, as being moved does: that
        costs milliseconds. Version 2 has no such way for a process, but there at least the gateway does not wait.
        """
        name = "cgroup.procs" if self._version == 2 else "tasks"
        paths = {self._path, self._cpu_path or self._path}
        with contextlib.ExitStack() as unwanted:
            opened = []
            for path in paths:
                opened.append(os.open(path / name, os.O_WRONLY | os.O_CLOEXEC))
                unwanted.callback(os.close, opened[-1])
            unwanted.pop_all()
        return opened

    @property
    def counts_cpu(self) -> bool:
        """Whether it counts processor time."""
        return self._cpu_path is not None

    def cpu_seconds(self) -> float:
        """Processor time of all processes of this group together, ended ones too; 0 where nobody counts it."""
        if self._cpu_path is None:
            return 0.0
        if self._version == 1:
            return int((self._cpu_path / "cpuacct.usage").read_text(encoding="ascii")) / 1e9
        usage = (self._cpu_path / "cpu.stat").read_text(encoding="ascii").split()
        return int(usage[usage.index("usage_usec") + 1]) / 1e6

    def was_out_of_memory(self) -> bool:
        """Whether the kernel killed a process of this group for its memory."""
        name = "memory.events" if self._version == 2 else "memory.oom_control"
        for line in (self._path / name).read_text(encoding="ascii").splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill":
                return int(value) > 0
        return False

    def remove(self) -> bool:
        """Remove the group; False while the kernel still counts a process of it."""
        if self._limit is not None:
            os.close(self._limit)
            self._limit = None
        try:
            for path in {self._path, self._cpu_path or self._path}:
                with contextlib.suppress(FileNotFoundError):
                    path.rmdir()
        except OSError:
            return False
        return True


class ControlGroup:
    """The group under which this gateway makes one leaf per worker."""

    def __init__(self, path: Path, *, version: int, cpu_path: Path | None = None) -> None:
        self.version = version
        self._path = path
        self._cpu_path = cpu_path
        """Where processor time is counted: the same group in version 2, one of another hierarchy in version 1."""
        self._leaves: list[Leaf] = []

    @property
    def can_count_cpu(self) -> bool:
        """Whether leaves can count processor time."""
        return self._cpu_path is not None

    @property
    def name(self) -> str:
        """Such as `cgroup v2`."""
        return f"cgroup v{self.version}"

    def add(self, slot: int, *, memory_bytes: int, count_cpu: bool = False) -> Leaf:
        """A new leaf with a memory limit, which with `count_cpu` counts processor time where that can be had."""
        path = self._path / f"w{slot}"
        cpu_path = self._cpu_path / path.name if self._cpu_path is not None and count_cpu else None
        path.mkdir()
        leaf = Leaf(path, version=self.version, cpu_path=cpu_path)
        try:
            leaf.forbid_swap()
            leaf.limit(memory_bytes)
            if cpu_path is not None and cpu_path != path:
                cpu_path.mkdir()
        except OSError:
            leaf.remove()
            raise
        return leaf

    def discard(self, leaf: Leaf) -> None:
        """Remove a leaf now or, if the kernel is not done with it, later."""
        self._leaves = [old for old in (*self._leaves, leaf) if not old.remove()]

    def close(self) -> bool:
        """Remove everything; False if a process is still being torn down."""
        self._leaves = [old for old in self._leaves if not old.remove()]
        return Leaf(self._path, version=self.version, cpu_path=self._cpu_path).remove()


def open_control_group(name: str) -> ControlGroup | None:
    """A group called `name` under our own, after sweeping those of gateways that are gone; None without delegation."""
    for version, parent in _candidates():
        path = parent / f"{_PREFIX}{owner_mark()}-{name}"
        try:
            _sweep(parent)
            path.mkdir()
        except OSError:
            continue
        group = ControlGroup(path, version=version, cpu_path=_cpu_group(path, version))
        try:
            if version == 2:
                _write(path / "cgroup.subtree_control", "+memory")
            probe = group.add(0, memory_bytes=64 << 20, count_cpu=True)
            try:
                probe.was_out_of_memory()
                probe.cpu_seconds()
            finally:
                probe.remove()
        except (OSError, ValueError):
            group.close()
            continue
        return group
    return None


def _cpu_group(path: Path, version: int) -> Path | None:
    """The group that counts processor time beside the memory group `path`, made if need be; None if it cannot be."""
    if version == 2:
        return path
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, own = line.split(":", 2)
        if "cpuacct" in controllers.split(","):
            parent = _ROOT / "cpuacct" / own.lstrip("/")
            try:
                _sweep(parent)
                (parent / path.name).mkdir()
            except OSError:
                return None
            return parent / path.name
    return None


def owner_mark() -> str:
    """This process, told apart from a later one of the same number by its start time."""
    return f"{os.getpid()}.{_start_time(os.getpid())}"


def owner_is_alive(mark: str) -> bool:
    """Whether the process that made `mark` still runs."""
    pid, _, started = mark.partition(".")
    try:
        return _start_time(int(pid)) == started
    except (ValueError, OSError):
        return False


def _start_time(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return stat.rpartition(")")[2].split()[19]


def _candidates() -> list[tuple[int, Path]]:
    """Our own group's directory for the memory controller, per version."""
    found: dict[int, Path] = {}
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            for root in (_ROOT, _ROOT / "unified"):
                here = root / path.lstrip("/")
                if here.name == _GATEWAY:  # where an earlier sandbox of this process has moved it
                    here = here.parent
                if "memory" in _words(here / "cgroup.controllers") and _delegate(here):
                    found[2] = here
        elif "memory" in controllers.split(","):
            found[1] = _ROOT / "memory" / path.lstrip("/")
    return [(version, found[version]) for version in (2, 1) if version in found]


def _delegate(here: Path) -> bool:
    """Make the memory controller available to children of a version 2 group that is ours.

    A group with processes in it cannot have controlled children, so we first move ourselves one level down. It works
    only in a subtree delegated to us (`Delegate=yes` of a systemd unit, for example).
    """
    if "memory" in _words(here / "cgroup.subtree_control"):
        return True
    try:
        own = here / _GATEWAY
        own.mkdir(exist_ok=True)
        _write(own / "cgroup.procs", str(os.getpid()))
        _write(here / "cgroup.subtree_control", "+memory")
    except OSError:
        return False
    return True


def _sweep(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*.*-*"):
        mark = path.name.removeprefix(_PREFIX).rpartition("-")[0]
        if not owner_is_alive(mark):
            for leaf in path.glob("w*"):
                Leaf(leaf, version=1).remove()
            Leaf(path, version=1).remove()


def _words(path: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="ascii").split()
    return []


def _write(path: Path, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
