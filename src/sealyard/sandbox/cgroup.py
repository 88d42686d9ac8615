"""Memory limits by control groups: version 2 when a subtree is delegated to us, else version 1, else none.

Without one, address-space limits set by the worker itself hold memory down; a sandbox says which it uses. A group also
counts the processor time of all processes in it, which no limit of a single process can.
"""

import contextlib
import itertools
import os
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "sealyard-"
_GATEWAY = f"{_PREFIX}gateway"
# Memory that may remain in a reused group: the kernel charges each processor's pages by the quarter mebibyte.
_LEFT_BYTES = 1 << 20
_MOST_IDLE = 16  # groups that wait to be used again


class Leaf:
    """The control group of one worker, and after its end of another one."""

    def __init__(self, path: Path, *, version: int, cpu_path: Path | None = None) -> None:
        self._path = path
        self._version = version
        self._cpu_path = cpu_path
        self._opened: dict[str, int] = {}
        """Descriptors of its files, which stay open: opening one waits for every creation or removal of a group."""
        self._memory_bytes = 0
        self._kills = 0
        """Processes that the kernel had killed here for their memory before the present worker."""

    def limit(self, memory_bytes: int) -> None:
        """Set the memory limit."""
        if memory_bytes != self._memory_bytes:
            fd = self._open("memory.max" if self._version == 2 else "memory.limit_in_bytes", os.O_WRONLY)
            os.write(fd, str(memory_bytes).encode())
            self._memory_bytes = memory_bytes

    def forbid_swap(self) -> None:
        """Have the memory limit bound what is swapped out, too."""
        name = "memory.swap.max" if self._version == 2 else "memory.swappiness"
        with contextlib.suppress(FileNotFoundError):  # a kernel that cannot swap
            _write(self._path / name, "0")

    def entrances(self) -> list[int]:
        """Descriptors that move the process that writes `0` to each into this group; its later allocations count.

        A process that moves itself takes no lock that all forks of the machine wait for, as being moved does: that
        costs milliseconds. Version 2 has no such way for a process, but there at least the gateway does not wait.
        """
        name = "cgroup.procs" if self._version == 2 else "tasks"
        places = {self._path, self._cpu_path or self._path}
        return [self._open(str(place / name), os.O_WRONLY) for place in places]

    def _open(self, name: str, flags: int) -> int:
        fd = self._opened.get(name)
        if fd is None:
            fd = self._opened[name] = os.open(self._path / name, flags | os.O_CLOEXEC)
        return fd

    def renew(self, memory_bytes: int) -> bool:
        """Make it as good as new for another worker; False where it cannot be.

        Files that a worker wrote or was the first to read may outlive it and count here. They would be taken off the
        memory of the next one, so a group that holds more than a little is not used again; nor is one that counts
        processor time, which begins at zero only once.
        """
        if self._cpu_path is not None:
            return False
        usage = self._open("memory.current" if self._version == 2 else "memory.usage_in_bytes", os.O_RDONLY)
        if int(os.pread(usage, 32, 0)) > _LEFT_BYTES:
            return False
        self.limit(memory_bytes)
        self._kills = self._count_kills()
        return True

    @property
    def counts_cpu(self) -> bool:
        """True if it counts processor time."""
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
        """True if the kernel killed a process of the present worker for its memory."""
        return self._count_kills() > self._kills

    def _count_kills(self) -> int:
        events = self._open("memory.events" if self._version == 2 else "memory.oom_control", os.O_RDONLY)
        for line in os.pread(events, 4096, 0).decode("ascii").splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill":
                return int(value)
        return 0

    def remove(self) -> bool:
        """Remove the group; False while the kernel still counts a process of it."""
        while self._opened:
            os.close(self._opened.popitem()[1])
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
        """The group that counts processor time: the same group in version 2, one of another hierarchy in version 1."""
        self._numbers = itertools.count(1)
        self._idle: list[Leaf] = []
        """Of workers that are gone."""
        self._leaves: list[Leaf] = []
        """To be removed."""

    @property
    def can_count_cpu(self) -> bool:
        """True if leaves can count processor time."""
        return self._cpu_path is not None

    @property
    def name(self) -> str:
        """Its kind, such as `cgroup v2`."""
        return f"cgroup v{self.version}"

    def add(self, *, memory_bytes: int, count_cpu: bool = False) -> Leaf:
        """A leaf with a memory limit; with `count_cpu` it counts processor time where the machine can.

        A leaf of a worker that has ended is reused if it can be.
        """
        while self._idle and not count_cpu:
            idle = self._idle.pop()
            try:
                if idle.renew(memory_bytes):
                    return idle
            except OSError:  # such as one removed from outside
                pass
            self._remove(idle)
        path = self._path / f"w{next(self._numbers)}"
        cpu_path = self._cpu_path / path.name if self._cpu_path is not None and count_cpu else None
        path.mkdir()
        leaf = Leaf(path, version=self.version, cpu_path=cpu_path)
        try:
            leaf.forbid_swap()
            leaf.limit(memory_bytes)
            leaf.renew(memory_bytes)  # which opens its files
            if cpu_path is not None and cpu_path != path:
                cpu_path.mkdir()
        except OSError:
            leaf.remove()
            raise
        return leaf

    def discard(self, leaf: Leaf) -> None:
        """Take back a leaf whose worker is gone."""
        if len(self._idle) < _MOST_IDLE and not leaf.counts_cpu:
            self._idle.append(leaf)
        else:
            self._remove(leaf)

    def _remove(self, leaf: Leaf) -> None:
        """Remove a leaf now or, if the kernel is not done with it, later."""
        self._leaves = [old for old in (*self._leaves, leaf) if not old.remove()]

    def remove_idle(self) -> None:
        """Remove what waits to be used again."""
        self._leaves = [old for old in (*self._leaves, *self._idle) if not old.remove()]
        self._idle.clear()

    def close(self) -> bool:
        """Remove everything; False if a process is still being torn down."""
        self.remove_idle()
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
            probe = group.add(memory_bytes=64 << 20, count_cpu=True)
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
    """An id of this process; the start time distinguishes it from a later one with the same number."""
    return f"{os.getpid()}.{_start_time(os.getpid())}"


def owner_is_alive(mark: str) -> bool:
    """True if the process that made `mark` still runs."""
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
