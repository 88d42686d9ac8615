"""Other processes: seeing, signalling, tracing, slowing and starting them.

Known gaps of the landlock tier: without a pid namespace a worker knows its real number and its zygote's, and can ask
whether a process exists and how it is scheduled.
"""

import os

from attack.model import Area, Attempt, Expectation, outcomes

signals = Area("signals")
processes = Area("processes")
programs = Area("programs")

REFUSED = outcomes("EPERM")
# In a pid namespace of its own a worker cannot even name another process.
NOBODY = outcomes("ESRCH", landlock="EPERM")


def _forks(allowed: str) -> Expectation:
    return lambda facts: frozenset([allowed if facts.can_fork else "EAGAIN"])


def _signals(number: int, name: str) -> Attempt:
    return signals.attack(
        f"send {name} to another process",
        f"os.kill(victim, {number})",
        NOBODY,
        outside=True,
        outside_touches=("victim",),
    )


SIGNALS: tuple[Attempt, ...] = (
    signals.control(
        "a signal to oneself is handled",
        "signal.signal(10, lambda *_: seen.append('handled')) or os.kill(os.getpid(), 10) or seen",
        outcomes("got ['handled']"),
        outside=True,
    ),
    _signals(15, "SIGTERM"),
    _signals(9, "SIGKILL"),
    _signals(19, "SIGSTOP"),
    signals.attack("signal the gateway", "os.kill(gateway, 0)", NOBODY, outside=True),
    signals.attack(
        "signal the first process of the host",
        "os.getpid() == 1 or os.kill(1, 0)",
        outcomes("got True", landlock="EPERM"),
    ),
    signals.attack("signal everybody", "os.kill(-1, 0)", NOBODY),
    signals.attack("signal the own process group", "os.kill(0, 0)", REFUSED, outside=True),
    signals.attack("signal another process group", "os.kill(-victim, 0)", NOBODY, outside=True),
    signals.attack("signal a thread of another process", "call('tgkill', victim, victim, 0)", NOBODY, outside=True),
    signals.attack("signal a thread by its number", "call('tkill', victim, 0)", NOBODY, outside=True),
    signals.attack("queue a signal", "call('rt_sigqueueinfo', victim, 15, bytes(128))", REFUSED),
    signals.attack("open another process", "os.pidfd_open(victim)", REFUSED, outside=True),
    signals.attack("signal through a descriptor", "signal.pidfd_send_signal(3, 15)", REFUSED),
    signals.attack("have the kernel signal another process", "module('fcntl').fcntl(3, 8, victim)", REFUSED),
    signals.attack("have a timer signal", "call('timer_create', 0, 0, bytes(8))", REFUSED, outside=True),
    signals.attack("have a lease signal", "module('fcntl').fcntl(os.open('.', 0), 1026, 1)", REFUSED),
)

OTHERS: tuple[Attempt, ...] = (
    processes.control("the own number is known", "os.getpid() == 1", outcomes("got True", landlock="got False")),  # gap
    processes.attack(
        "learn the parent's number", "os.getppid() == 0", outcomes("got True", landlock="got False")
    ),  # gap
    processes.attack(
        "learn how another process is scheduled",
        "os.getpriority(0, victim)",
        outcomes("ESRCH", landlock=f"got {os.getpriority(os.PRIO_PROCESS, 0)}"),  # as all that this run starts
        outside=True,
    ),  # gap
    processes.attack(
        "learn the session of another process",
        "os.getsid(victim) > 0",
        outcomes("ESRCH", landlock="got True"),
        outside=True,
    ),  # gap
    processes.attack(
        "slow another process", "call('setpriority', 0, victim, 19)", REFUSED, outside=True, outside_touches=("victim",)
    ),
    processes.attack("move another process to one core", "os.sched_setaffinity(victim, [0])", REFUSED, outside=True),
    processes.attack(
        "limit another process",
        "module('resource').prlimit(victim, 7, (9, 9))",
        outcomes("EPERM"),
        outside=True,
        outside_touches=("victim",),
    ),
    processes.attack("wait for another process", "os.waitpid(victim, os.WNOHANG)", outcomes("ECHILD")),
    processes.attack("trace another process", "call('ptrace', 0x4206, victim, 0, 0)", REFUSED, outside=True),
    processes.attack("trace the gateway", "call('ptrace', 16, gateway, 0, 0)", REFUSED),
    processes.attack("be traced", "call('ptrace', 0, 0, 0, 0)", REFUSED, outside=True),
    processes.attack(
        "read another process's memory", "call('process_vm_readv', victim, bytes(16), 1, bytes(16), 1, 0)", REFUSED
    ),
    processes.attack(
        "write another process's memory", "call('process_vm_writev', victim, bytes(16), 1, bytes(16), 1, 0)", REFUSED
    ),
    processes.attack(
        "read the gateway's memory", "call('process_vm_readv', gateway, bytes(16), 1, bytes(16), 1, 0)", REFUSED
    ),
    processes.attack("advise another process's memory", "call('process_madvise', 3, bytes(16), 1, 20, 0)", REFUSED),
    processes.attack("free another process's memory", "call('process_mrelease', 3, 0)", REFUSED),
    processes.attack("compare with another process", "call('kcmp', os.getpid(), victim, 1, 0, 0)", REFUSED),
    processes.attack("take a descriptor of another process", "call('pidfd_getfd', 3, 0, 0)", REFUSED),
    processes.attack(
        "read another process's locks", "call('get_robust_list', victim, bytes(8), bytes(8))", REFUSED, outside=True
    ),
    processes.attack("move another process's pages", "call('migrate_pages', victim, 1, bytes(8), bytes(8))", REFUSED),
    processes.attack(
        "be in the gateway's process group", "os.getpgrp() == gateway_group", outcomes("got False"), outside=True
    ),
    processes.attack("leave the session", "os.setsid()", REFUSED),
    processes.attack("leave the process group", "os.setpgid(0, 0)", REFUSED),
    processes.attack("survive the zygote", "call('prctl', 1, 0, 0, 0, 0)", REFUSED, outside=True),
    processes.attack("adopt orphans", "call('prctl', 36, 1, 0, 0, 0)", REFUSED, outside=True),
    processes.attack(
        "run with real-time priority", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))", REFUSED
    ),
    processes.attack(
        "run with another scheduler",
        "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))",
        REFUSED,
        outside=True,
    ),
    processes.attack("run with a higher priority", "os.nice(-5)", REFUSED),
    processes.attack("read and write disks first", "call('ioprio_set', 1, 0, 0x4000)", REFUSED, outside=True),
    processes.attack("use more cores", "os.sched_setaffinity(0, range(4))", REFUSED, outside=True),
    processes.attack(
        "raise the limit of descriptors", "call('prlimit64', 0, 7, struct.pack('QQ', 9999, 9999), 0)", REFUSED
    ),
    processes.attack("lower a limit", "call('prlimit64', 0, 7, struct.pack('QQ', 9, 9), 0)", REFUSED, outside=True),
    processes.attack(
        "raise the limit of memory", "call('prlimit64', 0, 9, struct.pack('QQ', 1 << 40, 1 << 40), 0)", REFUSED
    ),
    processes.attack("set a limit the old way", "call('setrlimit', 9, struct.pack('QQ', 1 << 40, 1 << 40))", REFUSED),
    processes.control("the own limits are read", "module('resource').getrlimit(4)", outcomes("got (0, 0)")),
)

FORK = """
def forked():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "forked"
result = attempt(forked)
"""
STARTING: tuple[Attempt, ...] = (
    programs.control(
        "a thread is started",
        "(lambda thread: thread.start() or thread.join() or seen)(threading.Thread(target=seen.append, args=('ran',)))",
        outcomes("got ['ran']"),
        outside=True,
    ),
    programs.block("fork", FORK, _forks("got 'forked'"), outside=True),
    *(
        # A child that could be made would run this very code, so it ends at once.
        programs.block(
            f"fork by {name}",
            f"result = attempt(lambda: {code} or os._exit(0)).rstrip('0123456789 ')",
            _forks("got"),
            machine=machine,
        )
        for name, code, machine in (
            ("the old call", "call('fork')", "x86_64"),
            ("a bare clone", "call('clone', 17, 0, 0, 0, 0)", None),
        )
    ),
    programs.attack(
        "clone with arguments in memory",
        "call('clone3', struct.pack('8Q', 0, 0, 0, 0, 17, 0, 0, 0), 64)",
        outcomes("ENOSYS"),
    ),
    programs.attack("run a program", "os.execv('/bin/true', ['true'])", REFUSED),
    programs.attack("run the interpreter again", "os.execv(interpreter, [interpreter, '-c', ''])", REFUSED),
    programs.attack("run a program by descriptor", "os.execve(os.open(os.__file__, 0), ['x'], {})", REFUSED),
    programs.attack("make a file in memory", "os.memfd_create('x')", REFUSED, outside=True),
    programs.attack("make a secret file in memory", "call('memfd_secret', 0)", REFUSED),
    programs.attack("run a program that is nowhere", "call('execveat', 3, b'', 0, 0, 0x1000)", REFUSED),
    programs.attack("use a library as a program", "call('uselib', b'/lib/x')", REFUSED, machine="x86_64"),
    programs.block(
        "start a program",
        """
result = attempt(lambda: module("subprocess").run(["/bin/true"]).returncode)
""",
        _forks("EPERM"),
        outside=True,
    ),
    programs.block(
        "start a shell",
        """
result = attempt(lambda: os.system("exit 7") >> 8)
""",
        outcomes("got 127"),
        outside="got 7",
    ),
    programs.block(
        "start a program by the C library",
        """
result = attempt(lambda: os.posix_spawn("/bin/true", ["true"], {}))
""",
        _forks("EPERM"),
    ),
)

ATTEMPTS = SIGNALS + OTHERS + STARTING
