"""Linux calls that Python has no names for, by `ctypes`.

Marked for security review: every wall of the sandbox is put up through this file. Each function either does what
its name says or raises `OSError`; none of them returns a failure. Standard library only: this runs in the zygote.
"""

import contextlib
import ctypes
import fcntl
import os
import select
import struct
from collections.abc import Iterable, Iterator
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_quick = ctypes.CDLL(None, use_errno=True).syscall  # the same for numbers alone, which need no objects of their own
_quick.restype = ctypes.c_long
_quick.argtypes = [ctypes.c_long] * 6
_fork = ctypes.PyDLL(None, use_errno=True).fork  # keeps the interpreter's lock, which parent and child both need
_numbers: dict[str, int] = {}

# Flags of the kernel's headers: CLONE_NEW* of linux/sched.h, MOUNT_ATTR_* and MS_* of linux/mount.h, AT_* of
# linux/fcntl.h, MNT_DETACH of linux/fs.h, and the version of linux/capability.h. They are the same on every machine.

NEW_MOUNT = 0x00020000
NEW_CGROUP = 0x02000000
NEW_UTS = 0x04000000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PID = 0x20000000
NEW_NET = 0x40000000

ATTR_READ_ONLY = 0x01
ATTR_NO_SUID = 0x02
ATTR_NO_DEV = 0x04
ATTR_NO_EXEC = 0x08

_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_MNT_DETACH = 2
_CAPABILITY_HEADER = ctypes.create_string_buffer(struct.pack("II", 0x20080522, 0))
_NO_CAPABILITY = ctypes.create_string_buffer(24)
_LIMIT = struct.Struct("QQ")
_limit = ctypes.create_string_buffer(_LIMIT.size)
_MS_REC_PRIVATE = 0x4000 | 0x40000
_MS_NO_SUID_DEV_EXEC = 2 | 4 | 8


def use_numbers(numbers: dict[str, int]) -> None:
    """Take the syscall numbers of this machine; the gateway holds the tables."""
    _numbers.update(numbers)


def call(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Make the syscall `name`; raises `OSError` with the name in it."""
    result: int = _syscall(
        ctypes.c_long(_numbers[name]),
        *[ctypes.c_long(value) if isinstance(value, int) else value for value in arguments],
    )
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    return result


def quick(name: str, first: int, second: int = 0, third: int = 0) -> int:
    """Make a syscall that takes numbers alone, and touch as little memory as can be."""
    result: int = _quick(_numbers[name], first, second, third, 0, 0)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    return result


class Prepared:
    """A syscall whose arguments are laid out ahead, so that making it touches as little memory as can be."""

    def __init__(self, name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char]) -> None:
        self.name = name
        self._kept = [ctypes.create_string_buffer(each) if isinstance(each, bytes) else each for each in arguments]
        numbers = [each if isinstance(each, int) else ctypes.addressof(each) for each in self._kept]
        self._arguments = _numbers[name], *numbers, *[0] * (5 - len(numbers))

    def keep(self, buffer: ctypes.Array[ctypes.c_char]) -> None:
        """Keep memory that an argument points to."""
        self._kept.append(buffer)

    def make(self) -> int:
        """Make it. Raises `OSError`."""
        result: int = _quick(*self._arguments)
        if result == -1:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), self.name)
        return result


@contextlib.contextmanager
def pretending() -> Iterator[None]:
    """Turn every syscall of this file into one that does nothing, for a rehearsal in the zygote.

    The same instructions run on the same objects, which leaves the interpreter's caches as a worker needs them. The
    real calls are back when this is left, whatever happens inside.
    """
    global _quick, _syscall
    real = _quick, _syscall
    _quick, _syscall = _pretended(_quick), _pretended(_syscall)
    try:
        yield
    finally:
        _quick, _syscall = real


def _pretended(function: Any) -> Any:
    idle = ctypes.CDLL(None, use_errno=True).getuid  # takes no argument, and ignores those it is given
    idle.restype = function.restype
    idle.argtypes = function.argtypes
    return idle


def unshare(flags: int) -> None:
    """Move this process (or, for pids, its next child) into new namespaces."""
    quick("unshare", flags)


def enter_namespace(fd: int, kind: int) -> None:
    """Join the namespace behind `fd`."""
    quick("setns", fd, kind)


def make_mounts_private() -> None:
    """Stop mounts of this namespace from reaching the one it was copied from."""
    call("mount", None, b"/", None, _MS_REC_PRIVATE, None)


def mount_tmpfs(target: str, options: str, *, executable: bool = False) -> None:
    """Mount an empty tmpfs without devices or set-uid files."""
    tmpfs_mount(target, options, executable=executable).make()


def tmpfs_mount(target: str, options: str, *, executable: bool = False) -> Prepared:
    """The call of `mount_tmpfs`, laid out ahead."""
    flags = 2 | 4 if executable else _MS_NO_SUID_DEV_EXEC
    return Prepared("mount", b"tmpfs", target.encode(), b"tmpfs", flags, options.encode())


def unmount(target: str) -> None:
    """Detach the mount at `target` and everything below it."""
    call("umount2", target.encode(), _MNT_DETACH)


def pivot_here() -> None:
    """Make the current directory the root and drop the old root."""
    call("pivot_root", b".", b".")
    unmount(".")
    os.chdir("/")


def clone_mount(path: str) -> int:
    """A detached copy of the mount tree at `path`, as a descriptor."""
    return call("open_tree", _AT_FDCWD, path.encode(), 1 | os.O_CLOEXEC | _AT_RECURSIVE)


def attach_mount(fd: int, target: str) -> None:
    """Put the detached mount behind `fd` at `target`."""
    call("move_mount", fd, b"", _AT_FDCWD, target.encode(), 4)


def restrict_mount(fd: int, attributes: int) -> None:
    """Add `attributes` to the mount tree behind `fd`."""
    argument = struct.pack("QQQQ", attributes, 0, 0, 0)
    call("mount_setattr", fd, b"", _AT_EMPTY_PATH | _AT_RECURSIVE, argument, len(argument))


def restrict_mount_at(path: str, attributes: int) -> None:
    """Add `attributes` to the single mount at `path`."""
    argument = struct.pack("QQQQ", attributes, 0, 0, 0)
    call("mount_setattr", _AT_FDCWD, path.encode(), 0, argument, len(argument))


def set_death_signal() -> None:
    """Have the kernel kill this process when its parent dies. A fork and a change of user both clear this."""
    quick("prctl", 1, 9)


def forbid_new_privileges() -> None:
    """No program run from here on gains privileges; also what lets an unprivileged process install filters."""
    call("prctl", 38, 1, 0, 0, 0)


def drop_bounding_set() -> None:
    """Empty the capability bounding set and lock the rules by which a change of user would give some back."""
    for capability in range(64):
        try:
            call("prctl", 24, capability, 0, 0, 0)
        except OSError:
            if capability < 38:  # every kernel with landlock knows at least these
                raise
            break
    call("prctl", 28, 0x2F, 0, 0, 0)


def drop_capabilities() -> None:
    """Give up every capability of this process."""
    quick("capset", ctypes.addressof(_CAPABILITY_HEADER), ctypes.addressof(_NO_CAPABILITY))


def move_away(fd: int) -> int:
    """Renumber a descriptor, out of the way of the low numbers that a worker lays its own on."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)
    os.close(fd)
    return moved


def close_from(first: int) -> None:
    """Close every descriptor from `first` on."""
    quick("close_range", first, 0xFFFFFFFF)


def close(fd: int) -> None:
    """Close a descriptor."""
    quick("close", fd)


def lay_over(fd: int, number: int, *, stays_on_exec: bool = True) -> None:
    """Give a descriptor a second number, in place of whatever has it."""
    quick("dup3", fd, number, 0 if stays_on_exec else os.O_CLOEXEC)


def opening_null() -> Prepared:
    """The call that opens `/dev/null`, laid out ahead."""
    return Prepared("openat", _AT_FDCWD, b"/dev/null", os.O_RDWR | os.O_CLOEXEC)


def wait_for_news(fd: int, seconds: float) -> Prepared:
    """The call that waits for something to read from `fd`, and is 0 if nothing came in time, laid out ahead."""
    whole = int(seconds)
    entry = ctypes.create_string_buffer(struct.pack("ihh", fd, select.POLLIN, 0))
    return Prepared("ppoll", entry, 1, struct.pack("qq", whole, round((seconds - whole) * 1e9)))


def write_file(directory: int, name: str, text: str) -> None:
    """Write to an existing file below the directory behind a descriptor."""
    fd = call("openat", directory, name.encode(), os.O_WRONLY | os.O_CLOEXEC)
    try:
        call("write", fd, text.encode(), len(text.encode()))
    finally:
        close(fd)


def change_of_directory(path: str) -> Prepared:
    """The call that makes `path` the working directory, laid out ahead."""
    return Prepared("chdir", path.encode())


def become(user: int) -> None:
    """Take a user and the group of the same number, and no other group."""
    quick("setgroups", 0, 0)
    quick("setresgid", user, user, user)
    quick("setresuid", user, user, user)


def limit(resource: int, value: int) -> None:
    """Set the soft and the hard limit of a resource."""
    _LIMIT.pack_into(_limit, 0, value, value)
    quick("prlimit64", 0, resource, ctypes.addressof(_limit))


def fork() -> int:
    """Fork with the C library's handlers but without those of Python, which cost half a millisecond a fork.

    Only for a process of one thread, where nobody else can hold a lock: resetting locks is nearly all that Python's
    own do. The caller sees to the rest.
    """
    pid: int = _fork()
    if pid == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "fork")
    return pid


def filter_of(program: bytes) -> Prepared:
    """The call that puts this thread, and everything it starts, under a seccomp program, laid out ahead."""
    code = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code)))
    call = Prepared("seccomp", 1, 0, header)
    call.keep(code)
    return call


def limit_malloc_arenas() -> None:
    """Keep one heap for all threads: each further one would reserve 64 MiB of the address space that is limited."""
    _libc.mallopt(-8, 1)


def release_free_memory() -> None:
    """Give pages that the heap does not use back to the kernel: every fork copies the tables of all that is there."""
    _libc.malloc_trim(0)


# Landlock access rights, in the order the kernel added them.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _MAKE_SYM = 16, 32, 128, 256, 4096
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}

READ = _READ_FILE | _READ_DIR
LIST = _READ_DIR
DEVICE = _READ_FILE | _WRITE_FILE
READ_WRITE = READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM | _REFER | _TRUNCATE


def landlock_abi() -> int:
    """The landlock version of the running kernel, 0 when it has none."""
    try:
        return call("landlock_create_ruleset", None, 0, 1)
    except OSError:
        return 0


def landlock_ruleset(abi: int, rules: Iterable[tuple[str, int]]) -> int:
    """A ruleset that denies all files, TCP and, where the kernel can, signals, except `rules` (path, rights)."""
    handled = (1 << _RIGHTS_BY_ABI[min(abi, 5)]) - 1
    words = [handled]
    if abi >= 4:
        words.append(0b11)  # TCP bind and connect
    if abi >= 6:
        words.append(0b11)  # abstract unix sockets and signals stay inside the domain
    attributes = struct.pack(f"{len(words)}Q", *words)
    ruleset = call("landlock_create_ruleset", attributes, len(attributes), 0)
    for path, rights in rules:
        allow_path(ruleset, path, rights & handled)
    return ruleset


def allow_path(ruleset: int, path: str, rights: int) -> None:
    """Add one rule; on a file only the rights a file can have are kept, as the kernel demands."""
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(path):
            rights &= _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
        call("landlock_add_rule", ruleset, 1, struct.pack("=Qi", rights, fd), 0)
    finally:
        os.close(fd)


def restrict_self(ruleset: int) -> None:
    """Put this thread, and what it starts, under `ruleset` for good."""
    quick("landlock_restrict_self", ruleset)
