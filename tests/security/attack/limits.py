"""Bombs: memory, disk, files, descriptors, threads, processes, output, time.

Known gaps: in the landlock tier the workspace is watched, not enforced, so a bomb gets a little further before it ends
the run; threads are watched where all workers are one user.
"""

from attack.model import Area, Attempt, Expectation, Facts, outcomes

bombs = Area("bombs")

SMALL = {"memory_mib": 64, "wall_seconds": 20.0}
MEMORY = outcomes("limit:memory:MemoryExceeded")
DISK = outcomes("limit:workspace:WorkspaceExceeded")
WALL = outcomes("timeout:wall_time:WallTimeExceeded")
OUTPUT = outcomes("limit:output:OutputExceeded")
FILES = outcomes("limit:open_files:OpenFilesExceeded")
PROCESSES = outcomes("limit:processes:ProcessesExceeded")


def _bomb(name: str, code: str, expect: Expectation, **limits: object) -> Attempt:
    return bombs.block(name, code, expect, limits=SMALL | limits)


def _fork_bomb(facts: Facts) -> frozenset[str]:
    return frozenset(["got held"] if facts.can_fork else ["EAGAIN"])


def _memory_by_forks(facts: Facts) -> frozenset[str]:
    return frozenset(["got 0", "got 1", *MEMORY(facts)]) if facts.can_fork else frozenset(["EAGAIN"])


def _processor_by_forks(facts: Facts) -> frozenset[str]:
    return frozenset(["limit:cpu_time:CpuTimeExceeded"] if facts.can_fork else ["EAGAIN"])


def _sixteen_threads(facts: Facts) -> frozenset[str]:
    return frozenset(["got 16"] if facts.holds_threads else ["limit:processes:ProcessesExceeded"])


MEMORY_BOMBS = (
    _bomb("fill memory with one block", "kept = bytearray(1 << 31)", MEMORY),
    _bomb("fill memory with blocks", "kept = []\nwhile True:\n    kept.append(bytearray(1 << 20))", MEMORY),
    _bomb("fill memory with small values", "kept = []\nwhile True:\n    kept.append(str(len(kept)) * 100)", MEMORY),
    _bomb("fill memory by multiplying", "kept = 'x' * (1 << 31)", MEMORY),
    _bomb(
        "fill memory with a shared mapping",
        """
libc.mmap.restype = ctypes.c_void_p
kept = libc.mmap(None, ctypes.c_size_t(1 << 28), 3, 0x21, -1, ctypes.c_long(0))
if kept == ctypes.c_void_p(-1).value:
    raise MemoryError
ctypes.memset(kept, 1, 1 << 28)
""",
        MEMORY,
    ),
    _bomb(
        "fill memory behind the buffers of pipes and sockets",
        """
kept, held = [], 0
try:
    while True:
        kept.append(socket.socketpair())
        kept[-1][0].setblocking(False)
        try:
            while True:
                held += kept[-1][0].send(bytes(1 << 16))
        except BlockingIOError:
            pass
except OSError as error:
    result = f"{errno.errorcode[error.errno]} {held < 64 << 20}"
""",
        outcomes("EMFILE True"),
    ),
    _bomb(
        "fill memory by forks",
        """
def bomb():
    children, readers = [], []
    for _ in range(4):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                kept = bytearray(b"x") * (50 << 20)
                os.write(writer, b"held")
                time.sleep(60)
            finally:
                os._exit(0)
        os.close(writer)
        children.append(child)
        readers.append(reader)
    for reader in readers:
        os.read(reader, 4)
    return sum(os.waitpid(child, os.WNOHANG) == (0, 0) for child in children)
result = attempt(bomb)
""",
        _memory_by_forks,
    ),
    _bomb(
        "fill memory that was mapped before",
        """
room = module("sealyard_analysis").room
for page in range(0, len(room), 4096):
    room[page] = 1
time.sleep(60)
""",
        MEMORY,
    ),
    _bomb("recurse without end", "def down():\n    return down()\ndown()", outcomes("failed:exception:RecursionError")),
    _bomb(
        "overflow the stack",
        """
sys.setrecursionlimit(1 << 30)
def down(value):
    return down([value])
class Deep:
    def __repr__(self):
        return repr(self)
repr(Deep())
""",
        outcomes("broken:crash:InterpreterCrashed", "limit:memory:MemoryExceeded", "failed:exception:RecursionError"),
    ),
)

DISK_BOMBS = (
    _bomb(
        "fill the workspace with one file",
        "file = open('big', 'wb')\nwhile True:\n    file.write(bytes(1 << 20))",
        DISK,
        memory_mib=512,
    ),
    _bomb(
        "fill the workspace with files",
        """
number = 0
while True:
    with open(str(number), "wb") as file:
        file.write(bytes(1 << 20))
    number += 1
""",
        DISK,
        memory_mib=512,
    ),
    _bomb(
        "fill the temporary directory",
        """
number = 0
while True:
    with open(f"{os.environ['TMPDIR']}/{number}", "wb") as file:
        file.write(bytes(1 << 20))
    number += 1
""",
        DISK,
        memory_mib=512,
    ),
    _bomb(
        "use up the workspace's files",
        "number = 0\nwhile True:\n    open(str(number), 'w').close()\n    number += 1",
        DISK,
    ),
    _bomb(
        "use up the workspace's directories",
        "number = 0\nwhile True:\n    os.mkdir(str(number))\n    number += 1",
        DISK,
    ),
    _bomb(
        "use up the workspace's links",
        "number = 0\nwhile True:\n    os.symlink('x', str(number))\n    number += 1",
        DISK,
    ),
    _bomb("make a file longer than the limit", "open('big', 'wb').truncate(1 << 40)", DISK),
    _bomb(
        "reserve more than the limit", "os.posix_fallocate(os.open('big', os.O_CREAT | os.O_RDWR), 0, 1 << 40)", DISK
    ),
    _bomb(
        "hide files behind a directory that cannot be listed",
        """
os.mkdir("closed", 0o300)
for number in range(200):
    with open(f"closed/{number}", "wb") as file:
        file.write(bytes(1 << 20))
time.sleep(60)
""",
        DISK,
        memory_mib=512,
    ),
    _bomb(
        "hide files at the end of a path that is too long",
        """
for _ in range(40):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
for number in range(200):
    with open(str(number), "wb") as file:
        file.write(bytes(1 << 20))
time.sleep(60)
""",
        DISK,
        memory_mib=512,
    ),
    _bomb(
        "hide files by deleting them while they are open",
        """
kept = []
for number in range(20):
    kept.append(open(str(number), "wb"))
    os.unlink(str(number))
    for _ in range(8):
        kept[-1].write(bytes(1 << 20))
        kept[-1].flush()
result = "got 160 MiB"
""",
        # Gap: what has no name cannot be measured from outside. Their blocks are free again when the run has ended.
        outcomes("limit:workspace:WorkspaceExceeded", landlock="got 160 MiB"),
        memory_mib=512,
    ),
)

COUNT_BOMBS = (
    _bomb("open files without end", "kept = []\nwhile True:\n    kept.append(open('/dev/null'))", FILES),
    _bomb("make pipes without end", "kept = []\nwhile True:\n    kept.append(os.pipe())", FILES),
    _bomb("duplicate a descriptor without end", "while True:\n    os.dup(0)", FILES),
    _bomb("make pollers without end", "kept = []\nwhile True:\n    kept.append(module('select').epoll())", FILES),
    _bomb(
        "hide descriptors in messages",
        """
left, right = socket.socketpair()
left.setblocking(False)
sent = 0
try:
    while True:
        socket.send_fds(left, [b"x"], [0] * 50)
        sent += 50
except OSError as error:
    result = f"{errno.errorcode[error.errno]} {sent <= 50_000}"
""",
        outcomes("ETOOMANYREFS True"),
    ),
    _bomb(
        "start threads without end",
        """
while True:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
""",
        PROCESSES,
        memory_mib=512,
    ),
    _bomb(
        "have more threads than allowed",
        """
threading.stack_size(64 << 10)
made = 0
try:
    while made < 500:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        made += 1
    time.sleep(60)
except RuntimeError:
    result = f"got {made}"
""",
        _sixteen_threads,
        threads=16,
        processes=1,
        memory_mib=128,
    ),
    _bomb(
        "start processes without end",
        """
def bomb():
    made = 0
    try:
        while made < 5_000:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            made += 1
    except BlockingIOError:
        if made == 0:
            raise
        return made
result = attempt(bomb)
if result.startswith("got"):
    result = "got held" if 0 < int(result[4:]) <= 80 else result
""",
        _fork_bomb,
        memory_mib=512,
    ),
    _bomb(
        "start processes that start processes",
        """
deadline = time.monotonic() + 10
first = os.getpid()
refused = None
while time.monotonic() < deadline:
    try:
        os.fork()
    except OSError as error:
        refused = errno.errorcode[error.errno]
        if os.getpid() == first:
            break
if os.getpid() != first:
    os._exit(0)
result = refused
""",
        outcomes("EAGAIN"),
        memory_mib=512,
    ),
)

OUTPUT_BOMBS = (
    _bomb("print without end", "while True:\n    print('x' * 1000)", OUTPUT),
    _bomb("print to the error stream without end", "while True:\n    print('x' * 1000, file=sys.stderr)", OUTPUT),
    _bomb("write to the output descriptor without end", "while True:\n    os.write(1, bytes(1 << 16))", OUTPUT),
    _bomb("return too much", "result = ['x' * 1000] * 100_000", outcomes("failed:result:TooLarge"), memory_mib=512),
    _bomb(
        "return a structure that grows when it is read",
        """
result = "x" * 100
for _ in range(40):
    result = [result, result]
""",
        outcomes("failed:result:TooLarge"),
    ),
    _bomb(
        "raise an endless message",
        "raise ValueError('x' * (30 << 20))",
        outcomes("failed:exception:ValueError"),
        memory_mib=256,
    ),
)

DEADLINES = tuple(
    bombs.block(name, code, WALL, limits=SMALL | {"wall_seconds": 1.0}, is_slow=True)
    for name, code in (
        ("loop without end", "while True:\n    pass"),
        ("calculate without end", "10 ** 10 ** 8"),
        ("match without end", "re.match('(a+)+$', 'a' * 64 + 'b')"),
        ("sleep without end", "time.sleep(10_000)"),
        ("wait for a signal", "signal.pause()"),
        (
            "ignore every signal",
            "for number in set(range(32)) - {0, 9, 19}:\n    signal.signal(number, signal.SIG_IGN)\nwhile 1:\n    pass",
        ),
        ("leave a thread behind", "threading.Thread(target=time.sleep, args=(10_000,)).start()"),
        (
            "catch everything",
            "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
        ),
        ("wait for a tool that never answers", "call_tool('never', {})"),
        ("wait on a lock", "lock = threading.Lock()\nlock.acquire()\nlock.acquire()"),
    )
)

TIME_BOMBS = (
    *DEADLINES,
    bombs.block(
        "use up the processor in processes that nobody waits for",
        """
def bomb():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        if os.fork() == 0:
            until = time.process_time() + 0.2
            while time.process_time() < until:
                pass
            os._exit(0)
        time.sleep(0.2)
result = attempt(bomb)
""",
        _processor_by_forks,
        limits=SMALL | {"cpu_seconds": 1.0},
        is_slow=True,
    ),
    bombs.block(
        "use up the processor",
        "while True:\n    pass",
        outcomes("limit:cpu_time:CpuTimeExceeded"),
        limits=SMALL | {"cpu_seconds": 1.0},
        is_slow=True,
    ),
)

WITHIN = tuple(
    bombs.block(name, code, outcomes("fine"), limits=SMALL, is_control=True)
    for name, code in (
        ("memory within the limit is had", "kept = bytearray(b'x') * (20 << 20)\nresult = 'fine'"),
        (
            "files within the limit are written",
            "fill('a', 'x' * (1 << 20))\nos.mkdir('b')\nfill('b/c')\nresult = 'fine'",
        ),
        ("descriptors within the limit are had", "kept = [open('/dev/null') for _ in range(20)]\nresult = 'fine'"),
        ("output within the limit is written", "print('x' * 10_000)\nresult = 'fine'"),
        ("time within the limit is had", "time.sleep(0.2)\nsum(range(100_000))\nresult = 'fine'"),
        ("a tool that answers is waited for", "call_tool('echo', {'a': 1})\nresult = 'fine'"),
    )
)

ATTEMPTS = MEMORY_BOMBS + DISK_BOMBS + COUNT_BOMBS + OUTPUT_BOMBS + TIME_BOMBS + WITHIN
