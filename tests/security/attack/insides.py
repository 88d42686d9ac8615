"""What is inside a worker: no secret of the gateway in its memory, its environment or behind its descriptors."""

from attack.model import Area, Attempt, outcomes

secrets = Area("secrets")

SCAN = r"""
gc = module("gc")
reader, writer = os.pipe()
libc.sbrk.restype = ctypes.c_void_p
known = {id(each) for each in gc.get_objects()} | {id(each) for each in vars(os).values()}
known |= {libc.sbrk(0) - 1, ctypes.cast(libc.write, ctypes.c_void_p).value}
known |= {ctypes.c_void_p.in_dll(libc, name).value for name in ("environ", "__libc_stack_end")}
spans = []
for address in sorted(known):
    if spans and address - spans[-1][1] < 256 << 20:
        spans[-1][1] = address
    else:
        spans.append([address, address])
pattern = re.compile(b"TYSECRET" + b"-[0-9a-f]{32}")
found, scanned = set(), 0
for first, last in spans:
    place, tail = (first - (16 << 20)) & ~4095, b""
    while place < last + (16 << 20):
        # The kernel copies what is readable and says where that ends; no address can crash the scan.
        copied = libc.write(writer, ctypes.c_void_p(place), 1 << 16)
        if copied > 0:
            page = tail + os.read(reader, copied)
            found.update(pattern.findall(page))
            tail = page[-64:]
            scanned += copied
        place += copied if copied > 0 else 4096
        if copied <= 0:
            tail = b""
found = {each.decode() for each in found}
others = sorted(found - {inside_secret})
result = f"got {others}, own value found: {inside_secret in found}, enough scanned: {scanned > 8 << 20}"
"""

ATTEMPTS: tuple[Attempt, ...] = (
    secrets.block(
        "find the gateway's secret in memory",
        SCAN,
        outcomes("got [], own value found: True, enough scanned: True"),
        outside="got ['TYSECRET-",
    ),
    secrets.attack(
        "read the gateway's environment",
        "sorted(name for name in os.environ if not name.endswith('_THREADS'))",
        outcomes("got ['HOME', 'LANG', 'TMPDIR']"),
        outside=True,
    ),
    secrets.attack(
        "read the gateway's secret by its name",
        "os.environ.get('GATEWAY_SECRET')",
        outcomes("got None"),
        outside="got 'TYSECRET-",
    ),
    secrets.block(
        "find descriptors of the gateway",
        """
def kind(fd):
    try:
        return format(os.fstat(fd).st_mode >> 12, "o")
    except OSError:
        return None
line.detach()
result = "got " + str({fd: kind(fd) for fd in range(2_000) if kind(fd)})
""",
        outcomes("got {0: '2', 1: '1', 2: '1', 3: '14'}"),
    ),
    secrets.control("a descriptor is seen by its number", "os.fstat(3).st_mode >> 12 == 12", outcomes("got True")),
    secrets.attack("read the gateway's command", "sys.argv", outcomes("got ['<agent>']")),
    secrets.attack(
        "read the host's name",
        "os.uname().nodename == host_name",
        outcomes("got False", landlock="got True"),
        outside=True,
    ),  # gap: no namespace for it
    secrets.attack(
        "be in a group of the gateway",
        "[group for group in os.getgroups() if group in gateway_groups and group != os.getgid()]",
        outcomes("got []"),
    ),
)
