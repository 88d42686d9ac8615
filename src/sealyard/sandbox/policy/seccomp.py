"""Builds the two seccomp programs that bound which system calls the guest can make.

Marked for security review. The invariant: after both stages are installed, agent code can make only the calls listed
here, with only the arguments checked here. It cannot open a connection, start a program, enter or make a namespace,
mount, trace or signal anything outside its own worker, nor widen a limit set on it. A call that is not named is denied.

The *template* stage is installed once in the zygote and inherited by every worker: an allow-list of what agent code may
use, with the argument rules that hold for the zygote too, and of what the zygote and a worker that has not yet sealed
itself still need. The *worker* stage is installed by each worker as it seals itself and takes the latter away again.
The kernel runs all installed programs and the most restrictive answer wins, so the worker stage need not repeat the
template. It is kept short because every worker pays for it: at installation the kernel walks the program once for
every call number that the template allows.

Every program checks the architecture first, since a number means another call on another architecture.
"""

import errno
import functools
import struct
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from sealyard.errors import SandboxUnavailable
from sealyard.sandbox.policy import IsolationPolicy
from sealyard.values.runs import Tier

AUDIT_ARCH: Mapping[str, int] = MappingProxyType({"x86_64": 0xC000003E, "aarch64": 0xC00000B7})
"""The kernel's value of `seccomp_data.arch` for a native 64-bit call on each machine."""


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Two programs of 8-byte BPF instructions, ready for `struct sock_fprog`. Both need `no_new_privs`."""

    template: bytes
    """Installed once in the zygote, inherited by all workers."""
    worker: bytes
    """Installed by each worker when it seals itself, as the last thing it does before agent code runs."""
    pid_offsets: tuple[int, ...]
    """Offsets in `worker` where each worker writes its pid as 4 little-endian bytes; empty in the namespace tier.

    Left unwritten, the program denies all signals.
    """


def build_filters(policy: IsolationPolicy, *, machine: str, tier: Tier) -> Filters:
    """Build the programs for workers of `policy` on `machine`, as `platform.machine()` spells it.

    Raises:
        SandboxUnavailable: This machine has no system call table.
    """
    table = numbers(machine)
    setup_calls = _SETUP_CALLS + (_NAMESPACE_SETUP_CALLS if tier == "namespace" else ())
    template_rules = {**dict.fromkeys(_AGENT_CALLS + setup_calls, _ALLOW), **_TEMPLATE_RULES}
    if tier == "landlock":
        template_rules |= _LANDLOCK_RULES
    worker_rules = {**dict.fromkeys(setup_calls, _DENY), **_worker_rules(policy, tier)}

    passed = {table[name]: action for name, action in template_rules.items() if name in table}
    # A number from after this table gets the answer of a kernel without it, so that a newer C library falls back.
    beyond: dict[int, _Action] = {max(table.values()) + 1: _errno(errno.ENOSYS)}
    if machine == "x86_64":
        beyond[_X32_BIT] = _KILL
    template = _choose(_NUMBER, passed, otherwise=_DENY, beyond=beyond)

    narrowed = {table[name]: action for name, action in worker_rules.items() if name in table}
    worker = _Branch(_NUMBER, _ALL_BITS, _worker_steps(passed, narrowed, beyond))

    worker_program = _assemble(_choose(_ARCHITECTURE, {AUDIT_ARCH[machine]: worker}, otherwise=_KILL))
    template_program = _assemble(_choose(_ARCHITECTURE, {AUDIT_ARCH[machine]: template}, otherwise=_KILL))
    return Filters(
        template=_encode(template_program),
        worker=_encode(worker_program),
        pid_offsets=tuple(
            position * _INSTRUCTION.size + _OPERAND_OFFSET
            for position, instruction in enumerate(worker_program)
            if instruction.operand == _OWN_PID
        ),
    )


@functools.cache
def numbers(machine: str) -> Mapping[str, int]:
    """The system call numbers of `machine`, spelled as `platform.machine()` spells it, by name: see `syscalls.toml`.

    Raises:
        SandboxUnavailable: This machine has no table.
    """
    if machine not in AUDIT_ARCH:
        raise SandboxUnavailable(f"No system call table for {machine!r}. Run on {' or '.join(AUDIT_ARCH)}.")
    rows = tomllib.loads(Path(__file__).with_name("syscalls.toml").read_text(encoding="utf-8"))
    table: dict[str, int] = {}
    for row in f"{rows[machine]}{rows['both']}".strip().splitlines():
        first, *names = row.split()
        table.update((name, int(first) + position) for position, name in enumerate(names))
    return MappingProxyType(table)


class _Branch(NamedTuple):
    """A choice by one 32-bit word of the call: the last step whose bound is not above `word & mask` is taken."""

    word: int
    """Offset in `struct seccomp_data`."""
    mask: int
    steps: "tuple[tuple[int, _Action], ...]"
    """Ascending bounds, the first of them 0."""


_Action = int | _Branch
"""A verdict for the kernel, or a further choice."""


def _choose(
    word: int,
    cases: Mapping[int, _Action],
    *,
    otherwise: _Action,
    beyond: Mapping[int, _Action] | None = None,
    mask: int = 0xFFFFFFFF,
) -> _Branch:
    """A branch with one action for each exact value in `cases`; `beyond` gives actions for all values from a bound."""
    bounds: dict[int, _Action] = {0: otherwise}
    bounds.update((value + 1, otherwise) for value in cases)
    bounds.update(cases)
    bounds.update(beyond or {})
    return _Branch(word, mask, _merged(bounds))


def _allow_only(word: int, values: Iterable[int], *, otherwise: int) -> _Branch:
    return _choose(word, dict.fromkeys(values, _ALLOW), otherwise=otherwise)


def _any_bit(word: int, bits: int, *, then: _Action, otherwise: _Action) -> _Branch:
    return _choose(word, {0: otherwise}, otherwise=then, mask=bits)


def _merged(bounds: Mapping[int, _Action]) -> tuple[tuple[int, _Action], ...]:
    """The bounds in order, without those that change nothing."""
    steps: list[tuple[int, _Action]] = []
    for bound, action in sorted(bounds.items(), key=lambda item: item[0]):
        if not steps or steps[-1][1] != action:
            steps.append((bound, action))
    return tuple(steps)


def _worker_steps(
    passed: Mapping[int, _Action], narrowed: Mapping[int, _Action], beyond: Mapping[int, _Action]
) -> tuple[tuple[int, _Action], ...]:
    """The worker stage's steps: exact for every number the template passes on, whatever is shortest for the others.

    Of two stages that both answer with an error the kernel takes the worker's, so a number that the template refuses
    may here fall only under `_ALLOW`, which leaves the template's error, or under the same `_DENY`.
    """
    bounds: dict[int, _Action] = {0: _ALLOW}
    for number in sorted(passed):
        action = narrowed.get(number, _ALLOW)
        bounds[number] = action
        if action not in (_ALLOW, _DENY):
            bounds[number + 1] = _DENY
    bounds.update((bound, action if action == _KILL else _ALLOW) for bound, action in beyond.items())
    return _merged(bounds)


# Verdicts, by the kernel's names SECCOMP_RET_ALLOW, _KILL_PROCESS and _ERRNO.
_ALLOW = 0x7FFF0000
_KILL = 0x80000000


def _errno(code: int) -> int:
    return 0x00050000 | code


_DENY = _errno(errno.EPERM)

# Offsets in `struct seccomp_data`. An argument is 64 bits wide; a rule on its low half is sound only where the kernel
# itself takes the argument as 32 bits, or where all the bits of interest lie there.
_NUMBER = 0
_ARCHITECTURE = 4


def _low(argument: int) -> int:
    return 16 + 8 * argument


def _high(argument: int) -> int:
    return _low(argument) + 4


_ALL_BITS = 0xFFFFFFFF  # a mask that leaves a word of 32 bits as it is
_X32_BIT = 0x40000000  # __X32_SYSCALL_BIT of asm/unistd.h: calls of the x32 ABI begin here


def _words(*texts: str) -> tuple[str, ...]:
    return tuple(" ".join(texts).split())


_FILE_CALLS = """
    open openat openat2 creat close close_range read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2
    lseek dup dup2 dup3 fcntl ioctl flock fsync fdatasync truncate ftruncate fallocate fadvise64 sendfile
    copy_file_range stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2 getdents getdents64
    getcwd chdir fchdir mkdir mkdirat rmdir rename renameat renameat2 link linkat unlink unlinkat symlink symlinkat
    readlink readlinkat umask
"""
_MODE_AND_TIME_CALLS = "chmod fchmod fchmodat fchmodat2 utime utimes futimesat utimensat"
_ATTRIBUTE_CALLS = "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr"
_MEMORY_CALLS = """
    brk mmap munmap mremap mprotect madvise msync get_mempolicy membarrier
"""
_PROCESS_CALLS = """
    clone fork vfork exit exit_group wait4 waitid futex futex_waitv set_robust_list set_tid_address rseq restart_syscall
    sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min getcpu
    getpid getppid gettid getpgid getpgrp getsid getuid geteuid getgid getegid getresuid getresgid getgroups getpriority
    getrlimit prlimit64 getrusage prctl capget uname sysinfo getrandom
"""
_SIGNAL_AND_TIME_CALLS = """
    rt_sigaction rt_sigprocmask rt_sigpending rt_sigreturn rt_sigsuspend rt_sigtimedwait sigaltstack kill tkill tgkill
    pause alarm getitimer setitimer nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times
    timerfd_create timerfd_settime timerfd_gettime
"""
# For the sockets a worker was given and the pairs it makes; it can neither make a single one nor connect any.
_SOCKET_AND_WAIT_CALLS = """
    socketpair sendto recvfrom sendmsg recvmsg shutdown getsockname getpeername getsockopt pipe pipe2 eventfd eventfd2
    poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
"""
_AGENT_CALLS = _words(
    _FILE_CALLS,
    _MODE_AND_TIME_CALLS,
    _ATTRIBUTE_CALLS,
    _MEMORY_CALLS,
    _PROCESS_CALLS,
    _SIGNAL_AND_TIME_CALLS,
    _SOCKET_AND_WAIT_CALLS,
)

_SETUP_CALLS = _words("""
    capset landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp setresuid setresgid setgroups
    setrlimit sched_setaffinity setpriority pidfd_open
""")
_NAMESPACE_SETUP_CALLS = _words("""
    unshare setns mount umount2 move_mount open_tree
""")

# CLONE_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID and _NEWNET. CLONE_NEWTIME shares a bit with the exit
# signal, so clone cannot ask for it.
_CLONE_NEW = 0x7E020000
# From linux/sched.h, asm-generic/mman-common.h, linux/socket.h, linux/net.h and linux/fs.h, by the kernel's names.
_CLONE_THREAD = 0x00010000
_PROT_EXEC = 0x4
_MSG_OOB = 0x1
_AF_UNIX = 1
_SOCKET_TYPE = 0xF  # SOCK_TYPE_MASK, without SOCK_NONBLOCK and SOCK_CLOEXEC
_SOCK_STREAM = 1
_SOCK_SEQPACKET = 5
_FICLONE = 0x40049409
_IOCTLS = (
    0x5401,  # TCGETS
    0x5413,  # TIOCGWINSZ
    0x541B,  # FIONREAD
    0x5421,  # FIONBIO
    0x5450,  # FIONCLEX
    0x5451,  # FIOCLEX
)
_FCNTLS = (
    *range(8),  # F_DUPFD to F_SETLKW
    *range(36, 39),  # F_OFD_GETLK to F_OFD_SETLKW
    1030,  # F_DUPFD_CLOEXEC
    1032,  # F_GETPIPE_SZ
)
_SOCKET_OPTIONS = (
    3,  # SO_TYPE
    4,  # SO_ERROR
    7,  # SO_SNDBUF
    8,  # SO_RCVBUF
    30,  # SO_ACCEPTCONN
    38,  # SO_PROTOCOL
    39,  # SO_DOMAIN
)
_PRCTLS = (
    3,  # PR_GET_DUMPABLE
    15,  # PR_SET_NAME
    16,  # PR_GET_NAME
)

# No process has this pid. It marks the operands that a worker overwrites with its own, and matches nothing until then.
_OWN_PID = 0x7FFFFFFF

_TEMPLATE_RULES: Mapping[str, _Action] = {
    # Its flags lie in memory, out of reach of a filter; the C library falls back to clone.
    "clone3": _errno(errno.ENOSYS),
    "clone": _any_bit(_low(0), _CLONE_NEW, then=_DENY, otherwise=_ALLOW),
    # `pathlib.Path.copy` tries FICLONE first and goes on only after an error like this one.
    "ioctl": _choose(
        _low(1),
        {**dict.fromkeys(_IOCTLS, _ALLOW), _FICLONE: _errno(errno.EOPNOTSUPP)},
        otherwise=_errno(errno.ENOTTY),
    ),
    # Leaves out the commands that signal another process, take leases or enlarge pipes.
    "fcntl": _allow_only(_low(1), _FCNTLS, otherwise=_DENY),
    # A datagram socket of a pair can still send to any named socket of the host; these two types cannot.
    "socketpair": _choose(
        _low(0),
        {
            _AF_UNIX: _choose(
                _low(1), {_SOCK_STREAM: _ALLOW, _SOCK_SEQPACKET: _ALLOW}, otherwise=_DENY, mask=_SOCKET_TYPE
            )
        },
        otherwise=_DENY,
    ),
    # Leaves out options that reveal or hand over something about the gateway, such as SO_PEERPIDFD.
    "getsockopt": _allow_only(_low(2), _SOCKET_OPTIONS, otherwise=_DENY),
    # Out-of-band data on Unix sockets has been a way into the kernel and nothing here needs it.
    "sendto": _any_bit(_low(3), _MSG_OOB, then=_DENY, otherwise=_ALLOW),
    "recvfrom": _any_bit(_low(3), _MSG_OOB, then=_DENY, otherwise=_ALLOW),
    "sendmsg": _any_bit(_low(2), _MSG_OOB, then=_DENY, otherwise=_ALLOW),
    "recvmsg": _any_bit(_low(2), _MSG_OOB, then=_DENY, otherwise=_ALLOW),
}

# Landlock covers neither the mode and times of a file nor its attributes, and files of the host may belong to the
# worker's user. Setting the former is pretended, since every copy of a file does it.
_LANDLOCK_RULES: Mapping[str, _Action] = {
    **dict.fromkeys(_words(_MODE_AND_TIME_CALLS), _errno(0)),
    **dict.fromkeys(_words(_ATTRIBUTE_CALLS), _errno(errno.EOPNOTSUPP)),
}


def _worker_rules(policy: IsolationPolicy, tier: Tier) -> dict[str, _Action]:
    rules: dict[str, _Action] = {
        "prctl": _allow_only(_low(0), _PRCTLS, otherwise=_DENY),
        # Reading a limit is harmless; the pointer to a new one must be null in both halves.
        "prlimit64": _choose(_low(2), {0: _choose(_high(2), {0: _ALLOW}, otherwise=_DENY)}, otherwise=_DENY),
    }
    if policy.processes == 1 or tier == "landlock":
        again = _errno(errno.EAGAIN)
        thread = _any_bit(_low(0), _CLONE_THREAD, then=_ALLOW, otherwise=again)
        rules["clone"] = _any_bit(_low(0), _CLONE_NEW, then=_DENY, otherwise=thread)
        rules["fork"] = rules["vfork"] = again
    if not policy.executable_memory:
        rules["mmap"] = rules["mprotect"] = _any_bit(_low(2), _PROT_EXEC, then=_DENY, otherwise=_ALLOW)
    if tier == "landlock":
        # Without a pid namespace the host's processes are in reach.
        rules["kill"] = rules["tgkill"] = _allow_only(_low(0), (_OWN_PID,), otherwise=_DENY)
        rules["tkill"] = _DENY
    else:
        rules["kill"] = _choose(_low(0), {0: _DENY}, otherwise=_ALLOW)  # a process group may reach out of a namespace
    return rules


class _Instruction(NamedTuple):
    """One `struct sock_filter`."""

    opcode: int
    if_true: int
    if_false: int
    operand: int


_INSTRUCTION = struct.Struct("<HBBI")
_OPERAND_OFFSET = 4  # of `k` in `struct sock_filter`
_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
_JUMP_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_JUMP_NOT_BELOW = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K


def _encode(program: Iterable[_Instruction]) -> bytes:
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)


def _assemble(action: _Action) -> list[_Instruction]:
    if isinstance(action, int):
        return [_Instruction(_RETURN, 0, 0, action)]
    program = [_Instruction(_LOAD, 0, 0, action.word)]
    if action.mask != _ALL_BITS:
        program.append(_Instruction(_AND, 0, 0, action.mask))
    return program + _search(action.steps)


def _search(steps: tuple[tuple[int, _Action], ...]) -> list[_Instruction]:
    """A balanced binary search for the step that holds the loaded word."""
    if len(steps) == 1:
        return _assemble(steps[0][1])
    if len(steps) == 3 and steps[0][1] == steps[2][1] and steps[2][0] == steps[1][0] + 1:
        return _split(_JUMP_EQUAL, steps[1][0], yes=_assemble(steps[1][1]), no=_assemble(steps[0][1]))
    middle = len(steps) // 2
    return _split(_JUMP_NOT_BELOW, steps[middle][0], yes=_search(steps[middle:]), no=_search(steps[:middle]))


def _split(opcode: int, operand: int, *, yes: list[_Instruction], no: list[_Instruction]) -> list[_Instruction]:
    """`no` comes first and is jumped over. A jump reaches 255 instructions; `_encode` raises on a longer one."""
    return [_Instruction(opcode, len(no), 0, operand), *no, *yes]
