"""The namespaces and the file tree that every worker of a zygote shares, built once.

Marked for security review. The invariant: after `enter` returns, this process sees the interpreter's standard
library, the system's shared libraries, the packages that were named, five harmless devices, and nothing else of the
host: no `/proc`, no network, no other process, no file of the gateway. Where workers need a user namespace of their own
it keeps a descriptor of `/proc` for them, which each closes before it reads anything from its connection.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import kernel

WORKSPACE = "/sandbox/workspace"
TEMP = "/sandbox/tmp"
SESSIONS = "/sessions"
PACKAGES = "/packages"
LIBRARY = "/servers"

_DEVICES = ("null", "zero", "full", "random", "urandom")
_FILES = ("/etc/ld.so.cache", "/etc/localtime")
_TREES = ("/usr/share/zoneinfo",)
_EMPTY = "/empty"
_NESTED = "sys/user/max_user_namespaces"
# Bounds the workers alive at once, far above what any machine bears; each of them sets 0 in its own namespace.
_MOST_WORKERS = 65_536
_NAMESPACES = kernel.NEW_MOUNT | kernel.NEW_NET | kernel.NEW_IPC | kernel.NEW_UTS | kernel.NEW_CGROUP


class Entered(NamedTuple):
    """The parts of the host that the zygote keeps."""

    pid_namespace: int
    """A descriptor of its own pid namespace."""
    memory: int
    """A descriptor of its own memory figures."""
    proc: int | None
    """A descriptor of `/proc`, where workers need a user namespace of their own."""
    missing: list[str]
    """The names of the layers that could not be set up."""


def enter(setup: dict[str, Any]) -> Entered:
    """Build the template and continue in it as pid 1 of its own pid namespace.

    The process that called does not return: it waits for the new one and ends with it.
    """
    missing: list[str] = []
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sources = [*interpreter_trees(), *library_directories(proc)]
    if setup["privileged"]:
        # Real root builds the tree while it can still read every source, then gives that power up for good.
        kernel.unshare(kernel.NEW_MOUNT)
        _build_root(sources, setup)
        _enter_mapped_users(proc, setup["users"])
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        kernel.unshare(_NAMESPACES)
    else:
        user, group = os.getuid(), os.getgid()
        kernel.unshare(kernel.NEW_USER)
        kernel.write_file(proc, "self/setgroups", "deny")
        kernel.write_file(proc, "self/uid_map", f"1000 {user} 1")
        kernel.write_file(proc, "self/gid_map", f"1000 {group} 1")
        kernel.unshare(_NAMESPACES)
        _build_root(sources, setup)
    kernel.call("sethostname", b"sandbox", 7)
    if "platform" in sys.modules:
        sys.modules["platform"]._uname_cache = None  # type: ignore[attr-defined]  # it remembers the host's name
    try:
        kernel.write_file(proc, _NESTED, "0" if setup["privileged"] else str(_MOST_WORKERS))
    except OSError:  # a read-only /proc/sys, as containers have it; seccomp forbids new namespaces all the same
        missing.append("no nested user namespaces")
    kernel.unshare(kernel.NEW_PID)
    child = os.fork()
    if child:
        _follow(child)
    kernel.set_death_signal()
    pid_namespace = os.open("self/ns/pid", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    memory = os.open("self/statm", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    if setup["privileged"]:
        os.close(proc)
        return Entered(pid_namespace, memory, None, missing)
    return Entered(pid_namespace, memory, proc, missing)


def _enter_mapped_users(proc: int, users: str) -> None:
    """Continue as root of a new user namespace, which a child that stays outside gives the range `users`."""
    moved, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(tell)
        status = 0
        try:
            if os.read(moved, 1):  # nothing comes from a parent that could not move
                for name in ("uid_map", "gid_map"):
                    kernel.write_file(proc, f"{os.getppid()}/{name}", users)
        except OSError as error:
            status = error.errno or errno.EIO
        os._exit(status)
    try:
        kernel.unshare(kernel.NEW_USER)
        os.write(tell, b"1")
    finally:
        os.close(moved)
        os.close(tell)
        _, status = os.waitpid(child, 0)
    if status:
        code = os.waitstatus_to_exitcode(status)
        raise OSError(code, f"the workers' users could not be mapped: {os.strerror(code)}")


def enter_own_users(proc: int, namespaces: int, *, forbid_nested: bool) -> None:
    """Continue in a user namespace of this worker's own, and in new `namespaces` that belong to it.

    The kernel counts the tasks of one user per user namespace, so that `RLIMIT_NPROC` then bounds this worker and no
    other. The user is the same inside and outside of it. All capabilities are back afterwards, for set-up.
    """
    user, group = os.getuid(), os.getgid()
    kernel.unshare(kernel.NEW_USER | namespaces)
    kernel.write_file(proc, "self/uid_map", f"{user} {user} 1")
    kernel.write_file(proc, "self/gid_map", f"{group} {group} 1")
    if forbid_nested:
        kernel.write_file(proc, _NESTED, "0")
    kernel.drop_bounding_set()


class Sessions:
    """The zygote's folder for the workspaces of sessions.

    Mounted with the first of them, so that until then no worker has to unmount it.
    """

    is_open = False

    @classmethod
    def path(cls, number: int) -> str:
        """The place of one workspace."""
        if not cls.is_open:
            kernel.mount_tmpfs(SESSIONS, "size=1m,nr_inodes=64k,mode=700")
            cls.is_open = True
        return f"{SESSIONS}/{number}"

    @classmethod
    def hide(cls) -> None:
        """Take all of them out of this mount namespace."""
        if cls.is_open:
            kernel.unmount(SESSIONS)


class Library:
    """A worker's part of the library: one folder of it, or nothing.

    The folder is laid over the whole, in this mount namespace only. What is covered cannot be reached again without
    the power to unmount.
    """

    shown: str | None = None

    @classmethod
    def show(cls, folder: str | None) -> None:
        """Cover all but `folder`; costs nothing when it is the one that is shown."""
        if folder is not None and folder == cls.shown:
            return
        if cls.shown is not None:
            kernel.unmount(LIBRARY)
            cls.shown = None
        fd = kernel.clone_mount(_EMPTY if folder is None else f"{LIBRARY}/{folder}")
        kernel.attach_mount(fd, LIBRARY)
        kernel.close(fd)
        cls.shown = folder

    @classmethod
    def guess(cls, folder: str) -> None:
        """Show ahead of time what the worker's run will likely ask for."""
        try:
            cls.show(folder)
        except FileNotFoundError:
            return  # removed meanwhile: no run will ask for it


def interpreter_trees() -> list[str]:
    """The directories this interpreter imports its standard library from."""
    return [os.path.realpath(path) for path in sys.path if os.path.isdir(path)]


def library_directories(proc: int) -> list[str]:
    """The directories of the shared libraries that are mapped here, and the system's own."""
    directories = {"/lib64", "/usr/lib64", *(f"{base}/{_multiarch()}" for base in ("/lib", "/usr/lib"))}
    with open(os.open("self/maps", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc), encoding="utf-8") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")
            name = "/" + path[2]
            if ".so" in os.path.basename(name) and "(deleted)" not in name:
                directories.add(os.path.dirname(name))
    return [os.path.realpath(path) for path in sorted(directories) if os.path.isdir(path)]


def _multiarch() -> str:
    return str(getattr(sys.implementation, "_multiarch", "") or "no-multiarch")


def foreign_packages(trees: Iterable[str]) -> list[str]:
    """Directories below `trees` that hold installed packages, which must stay out of sight."""
    found = []
    for tree in trees:
        candidates = [tree]
        try:
            names = os.listdir(tree)
        except PermissionError:
            names = []
        candidates += [os.path.join(tree, name) for name in names if name.startswith("python")]
        for candidate in candidates:
            for name in ("site-packages", "dist-packages"):
                path = os.path.join(candidate, name)
                if os.path.isdir(path):
                    found.append(path)
    return found


def outermost(paths: Iterable[str]) -> list[str]:
    """`paths` without those that lie below another of them."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(path == other or path.startswith(other + "/") for other in kept):
            kept.append(path)
    return kept


def _build_root(sources: list[str], setup: dict[str, Any]) -> None:
    kernel.make_mounts_private()
    os.umask(0o022)
    trees = outermost([*sources, *(path for path in _TREES if os.path.isdir(path))])
    hidden = foreign_packages(trees)
    read_only = kernel.ATTR_READ_ONLY | kernel.ATTR_NO_SUID
    # Copies of all sources are taken first, so that the new root can lie over any directory, even one of theirs.
    binds = [(_restricted_copy(path, read_only | kernel.ATTR_NO_DEV), path) for path in trees]
    binds += [
        (_restricted_copy(os.path.realpath(path), read_only | kernel.ATTR_NO_DEV), path)
        for path in _FILES
        if os.path.exists(path)
    ]
    binds += [
        (_restricted_copy(source, read_only | kernel.ATTR_NO_DEV), f"{PACKAGES}/{name}")
        for source, name in setup["packages"]
    ]
    own = [
        (os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), name) for source, name in setup["own_packages"]
    ]
    if setup["library"] is not None:
        no_code = kernel.ATTR_NO_DEV | kernel.ATTR_NO_EXEC
        binds.append((_restricted_copy(setup["library"], read_only | no_code), LIBRARY))
    binds += [
        (_restricted_copy(f"/dev/{name}", kernel.ATTR_NO_SUID | kernel.ATTR_NO_EXEC), f"/dev/{name}")
        for name in _DEVICES
    ]
    links = {name: os.readlink(f"/{name}") for name in ("lib", "lib64") if os.path.islink(f"/{name}")}
    base = next(path for path in ("/tmp", "/mnt", "/var", "/opt") if os.path.isdir(path))  # noqa: S108
    kernel.mount_tmpfs(base, "size=4m,nr_inodes=16k,mode=755", executable=True)
    os.chdir(base)
    for directory in (WORKSPACE, TEMP, SESSIONS, PACKAGES, _EMPTY, "/etc", "/dev", "/proc"):
        os.makedirs("." + directory, exist_ok=True)
    os.mkdir("." + LIBRARY)
    for name, target in links.items():
        os.symlink(target, name)
    os.symlink("sandbox/workspace", "workspace")
    os.symlink("sandbox/tmp", "tmp")
    os.symlink("/sandbox/tmp", "dev/shm")
    with open("etc/passwd", "w", encoding="utf-8") as passwd:
        passwd.write("sandbox:x:1000:1000::/workspace:/sbin/nologin\n")
    for fd, target in binds:
        _attach(fd, target)
    for fd, name in own:
        _copy_own(fd, f".{PACKAGES}/{name}")
    for path in hidden:
        _attach(_restricted_copy("." + _EMPTY, read_only | kernel.ATTR_NO_DEV | kernel.ATTR_NO_EXEC), path)
    kernel.pivot_here()
    kernel.restrict_mount_at("/", read_only | kernel.ATTR_NO_DEV)


def _copy_own(folder: int, place: str) -> None:
    """Copy the Python files of one of our packages: workers can read them however strictly it is installed."""
    os.mkdir(place)
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            source = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
            with open(source, "rb") as original, open(f"{place}/{name}", "wb") as copy:
                copy.write(original.read())
    os.close(folder)


def _restricted_copy(path: str, attributes: int) -> int:
    fd = kernel.clone_mount(path)
    kernel.restrict_mount(fd, attributes)
    return fd


def _attach(fd: int, target: str) -> None:
    """Attach at `target` of the new root, which is the current directory."""
    place = "." + target
    if not os.path.lexists(place):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            os.makedirs(place)
        else:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    kernel.attach_mount(fd, place)
    os.close(fd)


def _follow(child: int) -> None:
    """End when the zygote ends. Keeps no descriptor, so that the gateway sees the zygote's end at once."""
    kernel.close_from(0)
    os.waitpid(child, 0)
    os._exit(0)
