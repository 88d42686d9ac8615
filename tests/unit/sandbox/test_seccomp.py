"""The seccomp programs, run by a small BPF interpreter for both machines and by the kernel for this one.

The expected verdicts are written down here a second time, in plain Python, and share nothing with the module.
"""

import errno
import functools
import importlib.util
import json
import pathlib
import platform
import re
import signal
import struct
import subprocess
import sys
import sysconfig
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sealyard.errors import SandboxUnavailable
from sealyard.sandbox.policy import LEVELS, IsolationLevel, IsolationPolicy
from sealyard.sandbox.policy.seccomp import AUDIT_ARCH, Filters, build_filters, numbers

ALLOW = 0x7FFF0000
KILL = 0x80000000
EPERM = 0x00050000 | 1
EAGAIN = 0x00050000 | 11
ENOTTY = 0x00050000 | 25
ENOSYS = 0x00050000 | 38
EOPNOTSUPP = 0x00050000 | 95
PRETENDED = 0x00050000

MACHINES = ("x86_64", "aarch64")
TIERS = ("namespace", "landlock")
POLICIES = {str(level): policy for level, policy in LEVELS.items()}
EVERYWHERE = pytest.mark.parametrize(
    ("machine", "tier", "level"),
    [(machine, tier, level) for machine in MACHINES for tier in TIERS for level in POLICIES],
)
OWN_PID = 4321

ALLOWED = set(
    """
    open openat openat2 creat close close_range read write readv writev pread64 pwrite64 preadv pwritev preadv2
    pwritev2 lseek dup dup2 dup3 flock fsync fdatasync truncate ftruncate fallocate fadvise64 sendfile copy_file_range
    stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2 getdents getdents64 getcwd chdir fchdir
    mkdir mkdirat rmdir rename renameat renameat2 link linkat unlink unlinkat symlink symlinkat readlink readlinkat
    chmod fchmod fchmodat fchmodat2 umask utime utimes futimesat utimensat
    getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
    brk munmap mremap madvise msync get_mempolicy membarrier
    exit exit_group wait4 waitid futex futex_waitv set_robust_list set_tid_address rseq restart_syscall
    sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min getcpu
    getpid getppid gettid getpgid getpgrp getsid getuid geteuid getgid getegid getresuid getresgid getgroups getpriority
    getrlimit getrusage capget uname sysinfo getrandom
    rt_sigaction rt_sigprocmask rt_sigpending rt_sigreturn rt_sigsuspend rt_sigtimedwait sigaltstack
    pause alarm getitimer setitimer nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times
    timerfd_create timerfd_settime timerfd_gettime
    pipe pipe2 eventfd eventfd2 poll ppoll select pselect6
    epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
    shutdown getsockname getpeername
    """.split()
)
MODE_AND_TIME = set("chmod fchmod fchmodat fchmodat2 utime utimes futimesat utimensat".split())
ATTRIBUTES = set("getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr".split())
CHECKED = set(
    """
    clone clone3 fork vfork mmap mprotect ioctl fcntl prctl prlimit64 socketpair getsockopt
    sendto recvfrom sendmsg recvmsg kill tkill tgkill
    """.split()
)
SETUP = set(
    """
    capset landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp setresuid setresgid setgroups
    setrlimit sched_setaffinity setpriority pidfd_open
    """.split()
)
NAMESPACE_SETUP = set("unshare setns mount umount2 move_mount open_tree".split())
DENIED_BY_TOPIC = {
    "network": "socket connect accept accept4 bind listen setsockopt sendmmsg recvmmsg",
    "programs": "execve execveat uselib",
    "memory outside the limits": """
        memfd_create memfd_secret shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
        mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr mlock mlock2 mlockall munlock munlockall
        mbind set_mempolicy set_mempolicy_home_node migrate_pages move_pages remap_file_pages mincore cachestat
        readahead pkey_mprotect pkey_alloc pkey_free map_shadow_stack mseal
    """,
    "other processes": """
        ptrace pidfd_send_signal process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd
        get_robust_list
        rt_sigqueueinfo rt_tgsigqueueinfo setpgid setsid sched_setparam sched_setscheduler sched_setattr
        sched_getattr sched_rr_get_interval ioprio_set ioprio_get
    """,
    "identity": """
        setuid setgid setreuid setregid setfsuid setfsgid lsm_get_self_attr lsm_set_self_attr lsm_list_modules
    """,
    "file system": """
        pivot_root chroot fspick fsopen fsconfig fsmount mount_setattr
        open_tree_attr statmount listmount listns mknod mknodat chown fchown lchown fchownat
        name_to_handle_at open_by_handle_at fanotify_init fanotify_mark inotify_init inotify_init1 inotify_add_watch
        inotify_rm_watch setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr setxattrat getxattrat
        listxattrat removexattrat file_getattr file_setattr quotactl quotactl_fd sync syncfs sync_file_range ustat sysfs
        lookup_dcookie nfsservctl splice tee vmsplice
    """,
    "kernel interfaces": """
        add_key request_key keyctl io_uring_setup io_uring_enter io_uring_register io_setup io_destroy io_getevents
        io_submit io_cancel io_pgetevents userfaultfd bpf perf_event_open signalfd signalfd4 timer_create timer_settime
        timer_gettime timer_getoverrun timer_delete futex_wake futex_wait futex_requeue uretprobe uprobe
    """,
    "the machine": """
        acct swapon swapoff reboot kexec_load kexec_file_load init_module finit_module delete_module create_module
        query_module get_kernel_syms iopl ioperm modify_ldt set_thread_area get_thread_area arch_prctl personality
        syslog settimeofday adjtimex clock_settime clock_adjtime sethostname setdomainname vhangup
    """,
    "never implemented": """
        _sysctl getpmsg putpmsg afs_syscall tuxcall security vserver epoll_ctl_old epoll_wait_old
    """,
}
DENIED = {name for names in DENIED_BY_TOPIC.values() for name in names.split()}

NAMESPACE_FLAGS = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
THREAD_FLAGS = 0x003D0F00  # what the C library passes to start a thread
FORK_FLAGS = 0x01200011
TERMINAL_AND_DESCRIPTOR_IOCTLS = {0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451}
FICLONE = 0x40049409
FCNTLS = {0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032}
SOCKET_OPTIONS = {3, 4, 7, 8, 30, 38, 39}


def expected(name: str, arguments: tuple[int, ...], *, policy: IsolationPolicy, tier: str) -> int:
    """The verdict that both stages together owe a call of agent code in a worker whose pid is `OWN_PID`."""
    low = [argument & 0xFFFFFFFF for argument in arguments]
    can_fork = policy.processes > 1 and tier == "namespace"
    if tier == "landlock" and name in MODE_AND_TIME:
        return PRETENDED
    if tier == "landlock" and name in ATTRIBUTES:
        return EOPNOTSUPP
    if name in ALLOWED:
        return ALLOW
    if name in DENIED | SETUP | NAMESPACE_SETUP:
        return EPERM
    if name == "clone3":
        return ENOSYS
    if name in {"fork", "vfork"}:
        return ALLOW if can_fork else EAGAIN
    if name == "clone":
        if any(low[0] & flag for flag in NAMESPACE_FLAGS):
            return EPERM
        return ALLOW if can_fork or low[0] & 0x10000 else EAGAIN
    if name in {"mmap", "mprotect"}:
        return EPERM if low[2] & 4 and not policy.executable_memory else ALLOW
    if name == "ioctl":
        if low[1] == FICLONE:
            return EOPNOTSUPP
        return ALLOW if low[1] in TERMINAL_AND_DESCRIPTOR_IOCTLS else ENOTTY
    if name in {"kill", "tgkill"}:
        if tier == "namespace":
            return EPERM if name == "kill" and low[0] == 0 else ALLOW
        return ALLOW if low[0] == OWN_PID else EPERM
    permitted = {
        "tkill": tier == "namespace",
        "fcntl": low[1] in FCNTLS,
        "prctl": low[0] in {3, 15, 16},
        "prlimit64": arguments[2] == 0,
        "socketpair": low[0] == 1 and low[1] % 16 in {1, 5},
        "getsockopt": low[2] in SOCKET_OPTIONS,
        "sendto": low[3] % 2 == 0,
        "recvfrom": low[3] % 2 == 0,
        "sendmsg": low[2] % 2 == 0,
        "recvmsg": low[2] % 2 == 0,
    }
    return ALLOW if permitted[name] else EPERM


@functools.cache
def filters_for(machine: str, tier: str, level: str) -> Filters:
    """The programs of a level, built once."""
    return build_filters(POLICIES[level], machine=machine, tier=tier)  # type: ignore[arg-type]


def with_pid(filters: Filters, pid: int) -> bytes:
    """The worker stage as a worker with this pid installs it."""
    worker = bytearray(filters.worker)
    for offset in filters.pid_offsets:
        worker[offset : offset + 4] = struct.pack("<I", pid)
    return bytes(worker)


@functools.cache
def decode(program: bytes) -> list[tuple[int, int, int, int]]:
    """The instructions: opcode, jump if true, jump if false, operand."""
    return list(struct.iter_unpack("<HBBI", program))


def interpret(program: bytes, *, number: int, arch: int, arguments: tuple[int, ...] = (0,) * 6) -> int:
    """Run a classic BPF program as the kernel does."""
    call = struct.pack("<IIQ6Q", number, arch, 0, *arguments)
    instructions = decode(program)
    accumulator = position = 0
    while True:
        opcode, if_true, if_false, operand = instructions[position]
        position += 1
        if opcode == 0x20:
            (accumulator,) = struct.unpack_from("<I", call, operand)
        elif opcode == 0x54:
            accumulator &= operand
        elif opcode == 0x15:
            position += if_true if accumulator == operand else if_false
        elif opcode == 0x35:
            position += if_true if accumulator >= operand else if_false
        elif opcode == 0x06:
            return operand
        else:
            raise AssertionError(f"unknown opcode {opcode:#x}")


def combined(*verdicts: int) -> int:
    """What the kernel makes of several verdicts, newest filter first: the lowest action, and of equals the newest."""
    order = [KILL, 0x00050000, ALLOW]
    return min(verdicts, key=lambda verdict: order.index(verdict & 0xFFFF0000))


def verdict(
    machine: str, tier: str, level: str, number: int, arguments: tuple[int, ...] = (0,) * 6, *, arch: int | None = None
) -> int:
    """The verdict of both stages in a worker whose pid is `OWN_PID`."""
    filters = filters_for(machine, tier, level)
    arch = AUDIT_ARCH[machine] if arch is None else arch
    return combined(
        interpret(with_pid(filters, OWN_PID), number=number, arch=arch, arguments=arguments),
        interpret(filters.template, number=number, arch=arch, arguments=arguments),
    )


def first(*values: int) -> tuple[int, ...]:
    """Six arguments that begin with `values`."""
    return (*values, *(0,) * (6 - len(values)))


# --- Numbers


def test_well_known_numbers_are_the_kernels() -> None:
    """Spot checks that need no header file, of old and new calls on both machines."""
    names = ("read", "clone", "execve", "socket", "ptrace", "seccomp", "landlock_restrict_self", "fchmodat2")

    assert {machine: [numbers(machine)[name] for name in names] for machine in MACHINES} == {
        "x86_64": [0, 56, 59, 41, 101, 317, 446, 452],
        "aarch64": [63, 220, 221, 198, 117, 277, 446, 452],
    }


def test_numbers_agree_with_the_headers_of_this_machine() -> None:
    """Every number of a header that is installed is in the table under the same name, up to the table's end."""
    differences = {}
    for machine, path in (
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        ("aarch64", "/usr/include/asm-generic/unistd.h"),
    ):
        header = pathlib.Path(path)
        if header.exists():
            table = numbers(machine)
            found = _header_numbers(header.read_text(encoding="utf-8"), last=max(table.values()))
            in_header = set(found.values())
            known = {(name, number) for name, number in table.items() if number in in_header}
            differences[machine] = (known - set(found.items()), in_header - set(table.values()))

    assert differences == dict.fromkeys(differences, (set(), set()))


def _header_numbers(text: str, *, last: int) -> dict[str, int]:
    found = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)", text)}
    wide = {name: int(number) for name, number in re.findall(r"#define __NR3264_(\w+)\s+(\d+)", text)}
    aliases = re.findall(r"#define __NR_(\w+)\s+__NR3264_(\w+)", text)
    found |= {name: wide[target] for name, target in aliases if target in wide}
    for marker in ("arch_specific_syscall", "syscalls"):
        found.pop(marker, None)
    only_32_bit = range(403, 424)
    return {name: number for name, number in found.items() if number <= last and number not in only_32_bit}


def test_names_that_a_machine_lacks_are_absent_from_its_table() -> None:
    """The old calls that aarch64 never had are not there under any number."""
    missing = ("open", "stat", "fork", "vfork", "pipe", "dup2", "epoll_wait", "arch_prctl")

    assert [name for name in missing if name in numbers("aarch64")] == []


def test_machine_without_a_table_is_refused() -> None:
    """A machine whose numbers are not known gets no sandbox rather than a wrong one."""
    with pytest.raises(SandboxUnavailable) as caught:
        build_filters(LEVELS[IsolationLevel.PRODUCTION], machine="riscv64", tier="namespace")

    assert str(caught.value) == "No system call table for 'riscv64'. Run on x86_64 or aarch64."


def test_every_known_call_belongs_to_exactly_one_group() -> None:
    """A call that is added to a table must be judged here before it can be allowed."""
    groups = [ALLOWED, CHECKED, SETUP, NAMESPACE_SETUP, DENIED]
    known = set(numbers("x86_64")) | set(numbers("aarch64"))

    assert sum(map(len, groups)) == len(set().union(*groups))
    assert set().union(*groups) == known


# --- Verdicts by number


@EVERYWHERE
def test_every_call_gets_the_verdict_of_its_group(machine: str, tier: str, level: str) -> None:
    """All calls of the machine, with all arguments zero."""
    table = numbers(machine)

    assert {name: verdict(machine, tier, level, number) for name, number in table.items()} == {
        name: expected(name, (0,) * 6, policy=POLICIES[level], tier=tier) for name in table
    }


@EVERYWHERE
def test_template_alone_allows_only_agent_calls_and_what_its_tier_needs_for_setup(
    machine: str, tier: str, level: str
) -> None:
    """The control for the test above: set-up calls are denied by the worker stage, not because they never worked."""
    template = filters_for(machine, tier, level).template
    allowed = {
        name
        for name, number in numbers(machine).items()
        if interpret(template, number=number, arch=AUDIT_ARCH[machine]) == ALLOW
    }
    checked_to_allow_zeros = CHECKED - {"clone3", "ioctl", "socketpair", "getsockopt"}
    setup = SETUP | (NAMESPACE_SETUP if tier == "namespace" else set())

    uncovered = MODE_AND_TIME | ATTRIBUTES if tier == "landlock" else set()

    assert allowed == ((ALLOWED - uncovered) | checked_to_allow_zeros | setup) & set(numbers(machine))


@EVERYWHERE
def test_calls_of_another_architecture_kill_the_process_in_each_stage(machine: str, tier: str, level: str) -> None:
    """A number means another call there. i386, arm, the other machine, and nonsense."""
    filters = filters_for(machine, tier, level)
    others = {0x40000003, 0x40000028, 0xC000003E, 0xC00000B7, 0, 0xFFFFFFFF} - {AUDIT_ARCH[machine]}

    assert {
        interpret(program, number=number, arch=arch)
        for program in (filters.template, filters.worker)
        for number in range(500)
        for arch in others
    } == {KILL}


@pytest.mark.parametrize("tier", TIERS)
def test_x32_calls_kill_the_process_in_each_stage(tier: str) -> None:
    """The second numbering of x86_64 would get around every rule by number."""
    filters = filters_for("x86_64", tier, "production")

    assert {
        interpret(program, number=bit | number, arch=AUDIT_ARCH["x86_64"])
        for program in (filters.template, filters.worker)
        for bit in (0x40000000, 0x80000000, 0xC0000000)
        for number in range(600)
    } == {KILL}


@EVERYWHERE
def test_numbers_without_a_name_are_denied(machine: str, tier: str, level: str) -> None:
    """Gaps are refused; numbers past the table look like a kernel without them, so that a newer libc falls back."""
    table = numbers(machine)
    last = max(table.values())
    gaps = set(range(last)) - set(table.values())
    past = {last + 1, last + 2, 512, 547, 548, 1000, 65_535, 0x3FFFFFFF}

    assert gaps
    assert {verdict(machine, tier, level, number) for number in gaps} == {EPERM}
    assert {verdict(machine, tier, level, number) for number in past} == {ENOSYS}


# --- Verdicts by argument

CASES = [
    ("clone", first(THREAD_FLAGS), ALLOW),
    ("clone", first(FORK_FLAGS), EAGAIN),
    ("clone", first(17), EAGAIN),
    *[("clone", first(FORK_FLAGS | flag), EPERM) for flag in NAMESPACE_FLAGS],
    *[("clone", first(THREAD_FLAGS | flag), EPERM) for flag in NAMESPACE_FLAGS],
    ("clone", first(1 << 32 | THREAD_FLAGS), ALLOW),
    ("mmap", first(0, 4096, 3), ALLOW),
    ("mmap", first(0, 4096, 7), ALLOW),
    ("prctl", first(15), ALLOW),
    ("prctl", first(16), ALLOW),
    ("prctl", first(3), ALLOW),
    ("prctl", first(1), EPERM),
    ("prctl", first(4), EPERM),
    ("prctl", first(22), EPERM),
    ("prctl", first(38), EPERM),
    ("prctl", first(0x53564D41), EPERM),
    ("prctl", first(1 << 32 | 22), EPERM),
    ("prlimit64", first(0, 7, 0, 0x7FFF_FFFF_0000), ALLOW),
    ("prlimit64", first(0, 7, 0x1000), EPERM),
    ("prlimit64", first(0, 7, 0x7F00_0000_0000), EPERM),
    ("prlimit64", first(0, 7, 0x7F00_0000_1000), EPERM),
    ("ioctl", first(0, 0x5401), ALLOW),
    ("ioctl", first(0, 0x5421), ALLOW),
    ("ioctl", first(0, 0x5412), ENOTTY),
    ("ioctl", first(0, 0x541C), ENOTTY),
    ("ioctl", first(0, 0x8901), ENOTTY),
    ("ioctl", first(0, 0x400454CA), ENOTTY),
    ("ioctl", first(0, FICLONE), EOPNOTSUPP),
    ("fcntl", first(0, 3), ALLOW),
    ("fcntl", first(0, 1030), ALLOW),
    ("fcntl", first(0, 38), ALLOW),
    ("fcntl", first(0, 8), EPERM),
    ("fcntl", first(0, 10), EPERM),
    ("fcntl", first(0, 15), EPERM),
    ("fcntl", first(0, 1024), EPERM),
    ("fcntl", first(0, 1026), EPERM),
    ("fcntl", first(0, 1031), EPERM),
    ("fcntl", first(0, 1033), EPERM),
    ("socketpair", first(1, 1), ALLOW),
    ("socketpair", first(1, 0o2004000 | 1), ALLOW),
    ("socketpair", first(1, 5), ALLOW),
    ("socketpair", first(1, 2), EPERM),
    ("socketpair", first(1, 3), EPERM),
    ("socketpair", first(1, 0o2000000 | 2), EPERM),
    *[("socketpair", first(family, 1), EPERM) for family in (0, 2, 10, 16, 17, 30, 38, 40)],
    ("getsockopt", first(3, 1, 3), ALLOW),
    ("getsockopt", first(3, 1, 17), EPERM),
    ("getsockopt", first(3, 1, 77), EPERM),
    ("sendto", first(3, 0, 1, 0x4000), ALLOW),
    ("sendto", first(3, 0, 1, 1), EPERM),
    ("recvfrom", first(3, 0, 1, 0x41), EPERM),
    ("sendmsg", first(3, 0, 0x4000), ALLOW),
    ("sendmsg", first(3, 0, 0x4001), EPERM),
    ("recvmsg", first(3, 0, 0x40000000), ALLOW),
    ("recvmsg", first(3, 0, 1), EPERM),
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("name", "arguments", "answer"), CASES)
def test_arguments_decide_at_the_production_level(
    machine: str, tier: str, name: str, arguments: tuple[int, ...], answer: int
) -> None:
    """Each rule at its edges, in both tiers and on both machines."""
    assert verdict(machine, tier, "production", numbers(machine)[name], arguments) == answer


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["mmap", "mprotect"])
def test_executable_memory_is_denied_only_where_the_policy_says_so(machine: str, name: str) -> None:
    """Native code can be loaded in production and not in hardened; plain memory works in both."""
    number = numbers(machine)[name]
    requests = [first(0, 4096, protection) for protection in (0, 1, 3, 4, 5, 7, 1 << 32 | 3, 1 << 32 | 4)]

    assert [verdict(machine, "namespace", "production", number, request) for request in requests] == [ALLOW] * 8
    assert [verdict(machine, "namespace", "hardened", number, request) for request in requests] == [
        ALLOW,
        ALLOW,
        ALLOW,
        EPERM,
        EPERM,
        EPERM,
        ALLOW,
        EPERM,
    ]


@pytest.mark.parametrize("machine", MACHINES)
def test_forks_need_both_the_policy_and_the_namespace_tier(machine: str) -> None:
    """Without a pid namespace a fork could outlive its worker, so the landlock tier never allows one."""
    clone = numbers(machine)["clone"]
    answers = {
        (tier, level): verdict(machine, tier, level, clone, first(FORK_FLAGS)) for tier in TIERS for level in POLICIES
    }

    assert answers == {
        ("namespace", "development"): ALLOW,
        ("namespace", "production"): EAGAIN,
        ("namespace", "hardened"): EAGAIN,
        ("landlock", "development"): EAGAIN,
        ("landlock", "production"): EAGAIN,
        ("landlock", "hardened"): EAGAIN,
    }


def test_number_of_processes_decides_about_forks_at_every_level() -> None:
    """The field decides, not the level's name."""
    policy = msgspec.structs.replace(LEVELS[IsolationLevel.HARDENED], processes=2)
    filters = build_filters(policy, machine="x86_64", tier="namespace")
    arch = AUDIT_ARCH["x86_64"]

    assert [interpret(filters.worker, number=numbers("x86_64")[name], arch=arch) for name in ("fork", "vfork")] == [
        ALLOW,
        ALLOW,
    ]


@pytest.mark.parametrize("machine", MACHINES)
def test_signals_reach_only_the_own_process_in_the_landlock_tier(machine: str) -> None:
    """The host's processes are in reach there; groups (0, negative numbers) are refused as well."""
    table = numbers(machine)
    targets = (OWN_PID, 1 << 32 | OWN_PID, 1, OWN_PID + 1, 0, 0xFFFFFFFF, -OWN_PID & (1 << 64) - 1, -1 & (1 << 64) - 1)

    for name in ("kill", "tgkill"):
        assert [verdict(machine, "landlock", "production", table[name], first(target, 9)) for target in targets] == [
            ALLOW,
            ALLOW,
            *[EPERM] * 6,
        ]
    assert verdict(machine, "landlock", "production", table["tkill"], first(OWN_PID, 9)) == EPERM


@EVERYWHERE
def test_pid_offsets_mark_the_one_operand_of_each_signal_rule(machine: str, tier: str, level: str) -> None:
    """Writing a pid changes exactly those operands; without it no pid at all is accepted."""
    filters = filters_for(machine, tier, level)
    before, after = decode(filters.worker), decode(with_pid(filters, OWN_PID))
    changed = [position * 8 + 4 for position in range(len(before)) if before[position] != after[position]]

    assert len(filters.pid_offsets) == (2 if tier == "landlock" else 0)
    assert changed == list(filters.pid_offsets)
    assert [after[offset // 8] for offset in filters.pid_offsets] == [(0x15, 1, 0, OWN_PID)] * len(changed)
    if tier == "landlock":
        kill = numbers(machine)["kill"]
        pids = [0, 1, OWN_PID, 1 << 22, 0xFFFFFFFF]
        assert {
            interpret(filters.worker, number=kill, arch=AUDIT_ARCH[machine], arguments=first(pid)) for pid in pids
        } == {EPERM}


# --- Any call at all

INTERESTING = st.sampled_from(
    sorted(
        {value for _, arguments, _ in CASES for value in arguments}
        | {high << 32 | low for high in (0, 1, 0xFFFFFFFF) for low in (0, 1, 2, 3, 4, 5, 7, OWN_PID, THREAD_FLAGS)}
    )
)
ARGUMENTS = st.tuples(*[st.one_of(INTERESTING, st.integers(0, (1 << 64) - 1))] * 6)


@settings(max_examples=1500, deadline=None)
@given(
    machine=st.sampled_from(MACHINES),
    tier=st.sampled_from(TIERS),
    level=st.sampled_from(sorted(POLICIES)),
    position=st.integers(0, 1000),
    arguments=ARGUMENTS,
)
@example(machine="x86_64", tier="landlock", level="hardened", position=62, arguments=first(OWN_PID))
def test_known_calls_with_any_arguments_get_exactly_their_verdict(
    machine: str, tier: str, level: str, position: int, arguments: tuple[int, ...]
) -> None:
    """Neither unusual bits nor the upper half of an argument change what a rule says."""
    table = numbers(machine)
    name = sorted(table)[position % len(table)]

    assert verdict(machine, tier, level, table[name], arguments) == expected(
        name, arguments, policy=POLICIES[level], tier=tier
    )


@settings(max_examples=1500, deadline=None)
@given(
    machine=st.sampled_from(MACHINES),
    tier=st.sampled_from(TIERS),
    level=st.sampled_from(sorted(POLICIES)),
    number=st.one_of(st.integers(0, 600), st.integers(0, 0xFFFFFFFF)),
    arch=st.one_of(st.sampled_from([0xC000003E, 0xC00000B7, 0x40000003]), st.integers(0, 0xFFFFFFFF)),
    arguments=ARGUMENTS,
)
def test_nothing_outside_the_lists_is_ever_allowed(
    machine: str, tier: str, level: str, number: int, arch: int, arguments: tuple[int, ...]
) -> None:
    """Any number on any architecture: allowed means native, named and on a list."""
    answer = verdict(machine, tier, level, number, arguments, arch=arch)
    names = {value: name for name, value in numbers(machine).items()}

    if arch != AUDIT_ARCH[machine] or (machine == "x86_64" and number >= 0x40000000):
        assert answer == KILL
    elif answer == ALLOW:
        assert names[number] in ALLOWED | CHECKED


@EVERYWHERE
def test_programs_pass_the_kernels_rules(machine: str, tier: str, level: str) -> None:
    """Short, aligned loads, jumps forward and inside, every path ends in a verdict we know."""
    filters = filters_for(machine, tier, level)
    verdicts = {ALLOW, KILL, EPERM, EAGAIN, ENOTTY, ENOSYS, EOPNOTSUPP, PRETENDED}

    for program in (filters.template, filters.worker):
        instructions = decode(program)
        assert 0 < len(instructions) < 4096
        for position, (opcode, if_true, if_false, operand) in enumerate(instructions):
            following = {
                0x20: [1],
                0x54: [1],
                0x15: [1 + if_true, 1 + if_false],
                0x35: [1 + if_true, 1 + if_false],
                0x06: [],
            }[opcode]
            assert all(position + step < len(instructions) for step in following)
            if opcode == 0x20:
                assert operand in range(0, 64, 4)
            if opcode == 0x06:
                assert operand in verdicts


@EVERYWHERE
def test_worker_stage_is_short_enough_to_install_for_every_run(machine: str, tier: str, level: str) -> None:
    """The kernel walks it for every allowed number at installation: few instructions, short paths."""
    worker = filters_for(machine, tier, level).worker

    assert len(worker) // 8 <= 120


# --- The kernel of this machine

SEAL = """
import ctypes, json, os, struct, sys
_libc = ctypes.CDLL(None, use_errno=True)
_programs, NUMBERS, PACKAGES = json.loads(sys.argv[1])
def raw(name, *arguments):
    number = NUMBERS[name] if isinstance(name, str) else name
    result = _libc.syscall(ctypes.c_long(number), *[
        ctypes.c_long(value) if isinstance(value, int) else value for value in arguments])
    return ctypes.get_errno() if result == -1 else 0
def seal():
    assert raw("prctl", 38, 1, 0, 0, 0) == 0
    for program, offsets in _programs:
        program = bytearray.fromhex(program)
        for offset in offsets:
            struct.pack_into("<I", program, offset, os.getpid())
        code = ctypes.create_string_buffer(bytes(program), len(program))
        header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
        assert raw("seccomp", 1, 0, header) == 0
"""


def run_guest(code: str, *, tier: str = "namespace", level: str = "production", packages: str = "") -> Any:
    """Run `code` in a process of its own, where `seal()` installs both stages; returns the JSON it prints."""
    done = start_guest(code, tier=tier, level=level, packages=packages)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def start_guest(
    code: str, *, tier: str = "namespace", level: str = "production", packages: str = ""
) -> subprocess.CompletedProcess[str]:
    """The same for a process that may be killed."""
    filters = filters_for(platform.machine(), tier, level)
    programs = [[filters.template.hex(), []], [filters.worker.hex(), filters.pid_offsets]]
    setup = json.dumps([programs, dict(numbers(platform.machine())), packages])
    command = [sys.executable, "-I", "-S", "-W", "error", "-c", SEAL + code, setup]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)


EVERYDAY = """
seal()
import asyncio, concurrent.futures, mmap, shutil, socket, sqlite3, tempfile, threading, time
seen = {}
seen["json"] = json.loads(json.dumps({"a": [1, 2.5, None]}))
database = sqlite3.connect(":memory:")
database.execute("create table t (n)")
database.executemany("insert into t values (?)", [(n,) for n in range(10)])
seen["sqlite3"] = database.execute("select sum(n) from t").fetchone()[0]
database.close()
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    seen["threads"] = sum(pool.map(abs, range(-5, 5)))
async def main():
    left, right = socket.socketpair()
    _, writer = await asyncio.open_connection(sock=left)
    reader, other = await asyncio.open_connection(sock=right)
    writer.write(b"ping" + bytes([10]))
    await writer.drain()
    line = await reader.readline()
    for end in (writer, other):
        end.close()
        await end.wait_closed()
    return line.decode().strip(), await asyncio.to_thread(sum, [1, 2]), await asyncio.gather(asyncio.sleep(0, "slept"))
seen["asyncio"] = asyncio.run(main())
with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "a")
    with open(path, "wb") as file:
        file.write(b"x" * 8192)
        file.flush()
        os.fsync(file.fileno())
    os.mkdir(os.path.join(directory, "sub"))
    shutil.copy2(path, os.path.join(directory, "sub", "b"))
    os.symlink("a", os.path.join(directory, "link"))
    os.link(path, os.path.join(directory, "hard"))
    os.rename(path, os.path.join(directory, "c"))
    os.chmod(os.path.join(directory, "c"), 0o600)
    with open(os.path.join(directory, "c"), "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[0:1] = b"y"
        seen["mmap"] = [len(mapped), mapped[0:2].decode()]
    with open(os.path.join(directory, "c"), "rb") as source, open(os.path.join(directory, "d"), "wb") as target:
        seen["copied"] = [os.copy_file_range(source.fileno(), target.fileno(), 4096),
                          os.sendfile(target.fileno(), source.fileno(), 4096, 4096)]
    with sqlite3.connect(os.path.join(directory, "db")) as database:
        seen["wal"] = database.execute("pragma journal_mode = wal").fetchone()[0]
        database.execute("create table t (n)")
    database.close()
    os.chdir(directory)
    seen["walk"] = sorted(name for _, directories, names in os.walk(".") for name in directories + names)
    os.chdir("/")
read, write = os.pipe()
os.write(write, b"through")
seen["pipe"] = os.read(read, 7).decode()
seen["random"] = len(os.urandom(8))
seen["affinity"] = len(os.sched_getaffinity(0)) > 0
seen["signal"] = []
import signal
signal.signal(signal.SIGUSR1, lambda *_: seen["signal"].append("handled"))
signal.raise_signal(signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGUSR1)
seen["isatty"] = os.isatty(0)
seen["clock"] = time.monotonic() > 0
print(json.dumps(seen))
"""


@pytest.mark.parametrize("tier", TIERS)
def test_everyday_python_works_under_both_stages(tier: str) -> None:
    """Files, threads, asyncio, sqlite, mappings, pipes and signals to oneself, imported after the seal."""
    assert run_guest(EVERYDAY, tier=tier) == {
        "json": {"a": [1, 2.5, None]},
        "sqlite3": 45,
        "threads": 25,
        "asyncio": ["ping", 3, ["slept"]],
        "mmap": [8192, "yx"],
        "copied": [4096, 4096],
        "wal": "wal",
        "walk": ["b", "c", "d", "db", "hard", "link", "sub"],
        "pipe": "through",
        "random": 8,
        "affinity": True,
        "signal": ["handled", "handled"],
        "isatty": False,
        "clock": True,
    }


ATTEMPTS = """
import socket
def attempt(action):
    try:
        action()
    except OSError as error:
        return error.errno
    return 0
def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
def datagrams():
    for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM):
        end.close()
def outcomes():
    return {
        "fork": attempt(fork),
        "execve": attempt(lambda: os.execv("/nonexistent", ["x"])),
        "unix socket": attempt(lambda: socket.socket(socket.AF_UNIX).close()),
        "internet socket": attempt(lambda: socket.socket(socket.AF_INET).close()),
        "datagram pair": attempt(datagrams),
        "memfd_create": attempt(lambda: os.close(os.memfd_create("x"))),
        "prctl": raw("prctl", 4, 1, 0, 0, 0),
        "setpriority": attempt(lambda: os.nice(1)),
        "sched_setaffinity": attempt(lambda: os.sched_setaffinity(0, os.sched_getaffinity(0))),
        "pidfd_open": attempt(lambda: os.close(os.pidfd_open(os.getpid()))),
    }
before = outcomes()
seal()
print(json.dumps([before, outcomes()]))
"""


@pytest.mark.parametrize("tier", TIERS)
def test_escapes_that_work_before_the_seal_fail_after_it(tier: str) -> None:
    """Each attempt is its own positive control."""
    before, after = run_guest(ATTEMPTS, tier=tier)

    assert before == dict.fromkeys(before, 0) | {"execve": errno.ENOENT}
    assert after == dict.fromkeys(before, errno.EPERM) | {"fork": errno.EAGAIN}


def test_raw_calls_to_the_kernel_are_denied_after_the_seal() -> None:
    """The same through ctypes, past everything Python would check; getppid is the control."""
    names = """
        ptrace keyctl add_key bpf perf_event_open io_uring_setup userfaultfd mount umount2 unshare setns seccomp capset
        setresuid landlock_create_ruleset process_vm_readv kcmp open_by_handle_at personality execveat memfd_secret
        timer_create splice shmget mq_open
    """.split()
    code = f"""
seal()
print(json.dumps({{name: raw(name, 0, 0, 0, 0, 0, 0) for name in {names!r} + ["clone3", "getppid"]}}))
"""

    assert run_guest(code) == dict.fromkeys(names, errno.EPERM) | {"clone3": errno.ENOSYS, "getppid": 0}


def test_signals_to_others_are_denied_by_the_kernel_in_the_landlock_tier() -> None:
    """The pid written at the offsets is the one the kernel compares; signal 0 only asks whether it may be sent."""
    code = """
others = [1, os.getppid(), 0, -1]
before = [raw("kill", pid, 0) for pid in [os.getpid(), os.getppid(), 0]]
seal()
print(json.dumps([before, raw("kill", os.getpid(), 0), [raw("kill", pid, 0) for pid in others]]))
"""

    assert run_guest(code, tier="landlock") == [[0, 0, 0], 0, [errno.EPERM] * 4]


def test_hardened_level_maps_no_executable_memory() -> None:
    """Writable memory is still there, in mappings, in threads and after mprotect."""
    code = """
import mmap, threading
def map_memory(protection):
    try:
        mmap.mmap(-1, 4096, prot=protection).close()
    except OSError as error:
        return error.errno
    return 0
before = [map_memory(3), map_memory(7)]
seal()
threads = []
thread = threading.Thread(target=lambda: threads.append("ran"))
thread.start()
thread.join()
print(json.dumps([before, map_memory(3), map_memory(7), raw("mprotect", 0, 0, 5), raw("mprotect", 0, 0, 3), threads]))
"""

    assert run_guest(code, level="hardened") == [[0, 0], 0, errno.EPERM, errno.EPERM, 0, ["ran"]]


def test_development_level_forks_but_does_not_run_programs() -> None:
    """A policy with several processes lets fork through; execve stays shut at every level."""
    code = """
seal()
child = os.fork()
if child == 0:
    try:
        os.execv("/nonexistent", ["x"])
    except OSError as error:
        os._exit(error.errno)
print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
"""

    assert run_guest(code, level="development") == errno.EPERM


def test_kernel_kills_a_process_that_calls_by_a_number_of_another_numbering() -> None:
    """x32 on x86_64; on aarch64, which has none, the same number is merely unknown."""
    done = start_guest("seal()\nprint(raw(0x40000000 | 39))")

    if platform.machine() == "x86_64":
        assert (done.returncode, done.stdout) == (-signal.SIGSYS, "")
    else:
        assert (done.returncode, done.stdout) == (0, f"{errno.ENOSYS}\n")


DATA_JOBS = {
    "numpy": """
import numpy as np
matrix = np.arange(250_000, dtype=float).reshape(500, 500)
singular = np.linalg.svd(np.eye(50))[1]
spectrum = np.fft.fft(np.ones(8))
seen = [float((matrix @ np.eye(500)).sum()), float(singular.sum()), float(spectrum[0].real)]
seen.append(bool(0 <= np.random.default_rng().random() < 1))
""",
    "pandas": """
import io
import pandas as pd
frame = pd.DataFrame({"kind": ["a", "b"] * 500, "value": range(1000)})
means = frame.groupby("kind")["value"].mean().to_dict()
again = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
seen = [means, int(again["value"].sum()), len(frame.merge(frame.head(2), on="kind"))]
""",
}
DATA_ANSWERS = {
    "numpy": [31_249_875_000.0, 50.0, 8.0, True],
    "pandas": [{"a": 499.0, "b": 500.0}, 499_500, 1000],
}


@pytest.mark.parametrize("package", sorted(DATA_JOBS))
def test_data_packages_load_and_work_under_both_stages(package: str) -> None:
    """Imported after the seal, with their native libraries and threads."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed in this environment")
    code = "seal()\nsys.path.append(PACKAGES)\n" + DATA_JOBS[package] + "print(json.dumps(seen))"

    assert run_guest(code, packages=sysconfig.get_path("purelib")) == DATA_ANSWERS[package]
