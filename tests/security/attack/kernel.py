"""Powers of the kernel, asked for by raw system calls.

Arguments are such that a call which gets through does no harm: a wrong magic number, a name that does not exist.
"""

from attack.model import Area, Attempt, Facts, outcomes

keyring = Area("keyring")
kernel_interfaces = Area("kernel interfaces")
mounts = Area("mounts")
namespaces = Area("namespaces")
machine = Area("machine")
raw_calls = Area("raw calls")
kernel = Area("kernel")
identity = Area("identity")

REFUSED = outcomes("EPERM")


def _calls(area: Area, **named: str) -> tuple[Attempt, ...]:
    return tuple(area.attack(name.replace("_", " "), f"call({code})", REFUSED) for name, code in named.items())


CALLS: tuple[Attempt, ...] = (
    kernel.control(
        "an ordinary call by number works", "call('getpid') == os.getpid()", outcomes("got True"), outside=True
    ),
    keyring.attack("join a session", "call('keyctl', 1, 0, 0, 0, 0)", REFUSED, outside=True),
    *_calls(
        keyring,
        read_a_key="'keyctl', 11, -3, 0, 0, 0",
        add_a_key="'add_key', b'user', b'name', b'x', 1, -3",
        request_a_key="'request_key', b'user', b'name', 0, -3",
    ),
    *_calls(
        kernel_interfaces,
        set_up_io_uring="'io_uring_setup', 1, bytes(120)",
        enter_io_uring="'io_uring_enter', 3, 0, 0, 0, 0, 0",
        register_with_io_uring="'io_uring_register', 3, 0, 0, 0",
        set_up_asynchronous_input="'io_setup', 1, bytes(8)",
        handle_page_faults="'userfaultfd', 1",
        load_a_program="'bpf', 5, bytes(120), 120",
        make_a_map="'bpf', 0, bytes(120), 120",
        count_events="'perf_event_open', bytes(120), 0, -1, -1, 0",
        splice_pipes="'splice', 3, 0, 1, 0, 1, 0",
        splice_memory="'vmsplice', 1, bytes(16), 1, 0",
        duplicate_a_pipe="'tee', 3, 1, 1, 0",
        share_memory="'shmget', 0, 4096, 0o1777",
        share_semaphores="'semget', 0, 1, 0o1777",
        share_a_queue="'msgget', 0, 0o1777",
        open_a_named_queue="'mq_open', b'name', 0o102, 0o600, 0",
        lock_memory="'mlock', 0, 4096",
        bind_memory="'mbind', 0, 4096, 0, 0, 0, 0",
        protect_by_key="'pkey_alloc', 0, 0",
        read_page_residency="'mincore', 0, 4096, bytes(8)",
        read_file_residency="'cachestat', 0, bytes(16), bytes(40), 0",
        write_disks_back="'sync'",
    ),
    kernel_interfaces.attack(
        "read signals by descriptor", "call('signalfd4', -1, bytes(8), 8, 0)", REFUSED, outside=True
    ),
    *_calls(
        mounts,
        mount_a_file_system="'mount', b'tmpfs', b'.', b'tmpfs', 0, 0",
        bind_a_directory="'mount', b'/', b'.', 0, 4096, 0",
        make_the_root_writable="'mount', 0, b'/', 0, 4096 | 32, 0",
        unmount="'umount2', b'.', 2",
        pivot_the_root="'pivot_root', b'.', b'.'",
        open_a_file_system="'fsopen', b'tmpfs', 0",
        mount_an_open_file_system="'fsmount', 3, 0, 0",
        configure_a_file_system="'fsconfig', 3, 0, 0, 0, 0",
        pick_a_mount="'fspick', -100, b'.', 0",
        copy_a_mount="'open_tree', -100, b'.', 1",
        move_a_mount="'move_mount', 3, b'', -100, b'.', 4",
        change_a_mount="'mount_setattr', -100, b'/', 0, bytes(32), 32",
        list_mounts="'listmount', bytes(32), bytes(64), 8, 0",
        read_a_mount="'statmount', bytes(32), bytes(512), 512, 0",
    ),
    *(
        namespaces.attack(f"make a {name} namespace", f"call('unshare', {flag:#x})", REFUSED, outside=name == "user")
        for name, flag in (
            ("mount", 0x20000),
            ("control group", 0x2000000),
            ("host name", 0x4000000),
            ("ipc", 0x8000000),
            ("user", 0x10000000),
            ("pid", 0x20000000),
            ("network", 0x40000000),
            ("time", 0x80),
        )
    ),
    *(
        namespaces.attack(f"clone into a {name} namespace", f"call('clone', {flag | 17:#x}, 0, 0, 0, 0)", REFUSED)
        for name, flag in (
            ("mount", 0x20000),
            ("control group", 0x2000000),
            ("host name", 0x4000000),
            ("ipc", 0x8000000),
            ("user", 0x10000000),
            ("pid", 0x20000000),
            ("network", 0x40000000),
        )
    ),
    mounts.attack(
        "mount in namespaces of its own",
        "call('unshare', 0x10020000) or call('mount', b'tmpfs', b'.', b'tmpfs', 0, 0)",
        REFUSED,
        outside=True,
    ),
    *_calls(namespaces, join_a_namespace="'setns', 3, 0", list_namespaces="'listns', bytes(40), bytes(64), 8, 0"),
    *_calls(
        identity,
        become_root="'setuid', 0",
        become_root_for_good="'setresuid', 0, 0, 0",
        become_roots_group="'setresgid', 0, 0, 0",
        join_groups="'setgroups', 1, bytes(4)",
        read_files_as_root="'setfsuid', 0",
        take_capabilities="'capset', struct.pack('Ii', 0x20080522, 0), b'\\xff' * 24",
        keep_capabilities="'prctl', 8, 1, 0, 0, 0",
        raise_an_ambient_capability="'prctl', 47, 2, 21, 0, 0",
        unlock_the_secure_bits="'prctl', 28, 0, 0, 0, 0",
        change_what_is_dumped="'prctl', 4, 1, 0, 0, 0",
        let_others_trace="'prctl', 0x59616D61, -1, 0, 0, 0",
        add_a_filter="'seccomp', 1, 0, bytes(16)",
        add_a_filter_the_old_way="'prctl', 22, 2, bytes(16), 0, 0",
        make_a_ruleset="'landlock_create_ruleset', bytes(8), 8, 0",
        read_security_attributes="'lsm_get_self_attr', 100, bytes(64), bytes(4), 0",
        change_the_personality="'personality', 0x0400000",
        move_the_own_memory_map="'prctl', 35, 1, 0, 0, 0",
        trap_system_calls="'prctl', 59, 0, 0, 0, 0",
    ),
    identity.control(
        "no capability is held",
        "(lambda data: call('capget', struct.pack('Ii', 0x20080522, 0), data) or any(data))((ctypes.c_int * 6)())",
        outcomes("got False"),
    ),
    machine.control("the machine's name is read", "call('uname', bytes(400))", outcomes("got 0"), outside=True),
    *_calls(
        machine,
        reboot="'reboot', 0, 0, 0, 0",
        swap="'swapon', b'missing', 0",
        load_a_module="'init_module', b'', 0, b''",
        load_a_module_from_a_file="'finit_module', -1, b'', 0",
        unload_a_module="'delete_module', b'missing', 0",
        replace_the_kernel="'kexec_load', 0, 0, 0, -1",
        replace_the_kernel_from_a_file="'kexec_file_load', -1, -1, 0, 0, -1",
        read_the_kernel_log="'syslog', 10, 0, 0",
        account_processes="'acct', b'missing'",
        set_a_quota="'quotactl', -1, b'missing', 0, 0",
        name_the_host="'sethostname', b'attacked', 8",
        name_the_domain="'setdomainname', b'attacked', 8",
        set_the_time="'settimeofday', 0, 0",
        set_a_clock="'clock_settime', 0, bytes(16)",
        adjust_a_clock="'clock_adjtime', 0, bytes(208)",
        adjust_the_time="'adjtimex', bytes(208)",
        hang_up_the_terminal="'vhangup'",
    ),
    *(
        machine.attack(name, f"call({code})", REFUSED, machine="x86_64")
        for name, code in (
            ("open the ports", "'iopl', 3"),
            ("open one port", "'ioperm', 0x80, 1, 1"),
            ("change the segment table", "'modify_ldt', 1, bytes(16), 16"),
            ("change the segment base", "'arch_prctl', 0x1003, bytes(8)"),
        )
    ),
)

# A worker may not make any call that is not named here; every other number of the table is tried with arguments that
# are all -1. Calls that are named are tried one by one above, or are what Python lives on.
SWEEP = """
allowed = set('''
    open openat openat2 creat close close_range read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2
    lseek dup dup2 dup3 fcntl ioctl flock fsync fdatasync truncate ftruncate fallocate fadvise64 sendfile
    copy_file_range stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2 getdents getdents64
    getcwd chdir fchdir mkdir mkdirat rmdir rename renameat renameat2 link linkat unlink unlinkat symlink symlinkat
    readlink readlinkat umask chmod fchmod fchmodat fchmodat2 utime utimes futimesat utimensat getxattr lgetxattr
    fgetxattr listxattr llistxattr flistxattr
    brk mmap munmap mremap mprotect madvise msync get_mempolicy membarrier
    clone fork vfork exit exit_group wait4 waitid futex futex_waitv set_robust_list set_tid_address rseq restart_syscall
    sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min getcpu
    getpid getppid gettid getpgid getpgrp getsid getuid geteuid getgid getegid getresuid getresgid getgroups getpriority
    getrlimit prlimit64 getrusage prctl capget uname sysinfo getrandom
    rt_sigaction rt_sigprocmask rt_sigpending rt_sigreturn rt_sigsuspend rt_sigtimedwait sigaltstack kill tkill tgkill
    pause alarm getitimer setitimer nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times
    timerfd_create timerfd_settime timerfd_gettime
    socketpair sendto recvfrom sendmsg recvmsg shutdown getsockname getpeername getsockopt pipe pipe2 eventfd eventfd2
    poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
'''.split())
passed = {}
# The kernel lets these two past every filter; they signal whoever calls them from outside a probe.
tried = set(numbers) - allowed - {"uprobe", "uretprobe"}
for name in sorted(tried):
    verdict = attempt(lambda: call(name, -1, -1, -1, -1, -1, -1))
    if verdict not in ("EPERM", "ENOSYS"):
        passed[name] = verdict
result = f"got {passed}, tried {len(tried) > 150}"
"""
UNKNOWN = """
last = max(numbers.values())
unknown = [*range(last + 1, last + 400), 2_000, 99_999]
result = ",".join(sorted({attempt(lambda: call(number, -1, -1, -1, -1, -1, -1)) for number in unknown}))
"""
INT80 = """
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
place = libc.mmap(None, 4096, 7, 0x22, -1, 0)
if place in (None, ctypes.c_void_p(-1).value):
    result = errno.errorcode[ctypes.get_errno()]
else:
    # mov eax, 20 (getpid of 32-bit programs); int 0x80; ret
    ctypes.memmove(place, bytes.fromhex("b814000000cd80c3"), 8)
    result = f"got {ctypes.CFUNCTYPE(ctypes.c_int)(place)() == os.getpid()}"
"""


def _executable_memory(facts: Facts) -> frozenset[str]:
    return frozenset(["EPERM" if facts.level == "hardened" else "got True"])


RAW: tuple[Attempt, ...] = (
    raw_calls.block("make every call that is not needed", SWEEP, outcomes("got {}, tried True")),
    raw_calls.block("make calls of kernels to come", UNKNOWN, outcomes("ENOSYS")),
    raw_calls.block(
        "make a call of the x32 numbering",
        "result = attempt(lambda: call(0x40000000 | 39))",
        outcomes("broken:crash:ForbiddenSystemCall"),
        machine="x86_64",
    ),
    raw_calls.block(
        "make a call of 32-bit programs",
        INT80,
        lambda facts: frozenset(["EPERM" if facts.level == "hardened" else "broken:crash:ForbiddenSystemCall"]),
        outside=True,
        machine="x86_64",
    ),
    raw_calls.attack(
        "make memory executable at once",
        "bool(call('mmap', 0, 4096, 7, 0x22, -1, 0))",
        _executable_memory,
        outside=True,
    ),
    raw_calls.attack(
        "make memory executable later",
        "call('mprotect', call('mmap', 0, 4096, 3, 0x22, -1, 0), 4096, 5) == 0",
        _executable_memory,
        outside=True,
    ),
    raw_calls.attack("make memory executable by a key", "call('pkey_mprotect', 0, 4096, 5, 0)", REFUSED),
)

ATTEMPTS = CALLS + RAW
