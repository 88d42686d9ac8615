"""Files, links, `/proc` and devices of the host.

Known gaps of the landlock tier are stated as what happens there: it has no file tree of its own, so metadata of the
host's files can be read, and a change of mode or times is pretended to succeed, since landlock cannot tell whose it is.
"""

from attack.model import Area, Attempt, outcomes

files = Area("files")
links = Area("links")
proc = Area("proc")
devices = Area("devices")

# In the namespace tier the host's files do not exist; in the landlock tier they cannot be opened.
UNSEEN = outcomes("ENOENT", landlock="EACCES")

FILES: tuple[Attempt, ...] = (
    files.control(
        "a file of the workspace is read back",
        "fill('mine', 'inside') or read('mine')",
        outcomes("got 'inside'"),
        outside=True,
    ),
    files.control(
        "a temporary file is written",
        "fill(os.path.join(os.environ['TMPDIR'], 'mine'))",
        outcomes("got None"),
    ),
    files.control(
        "the standard library is read",
        "'def getenv' in read(os.__file__)",
        outcomes("got True"),
        outside=True,
    ),
    files.attack("read a file of the host", "read(f'{host}/readable')", UNSEEN, outside=True),
    files.attack("read the password hashes", "read('/etc/shadow')", UNSEEN),
    files.attack(
        "read the host's users",
        "'root:' in read('/etc/passwd')",
        outcomes("got False", landlock="EACCES"),
        outside=True,
    ),
    files.attack("read the gateway's source", "read(gateway_source)", UNSEEN, outside=True),
    files.attack("read the guest's own source", "read(guest_source)", UNSEEN, outside=True),
    files.attack("read the gateway's packages", "read(gateway_package)", UNSEEN, outside=True),
    files.attack(
        "import the gateway",
        "importable('sealyard')",
        outcomes("got False"),
    ),
    files.attack("import a package of the gateway", "importable('msgspec')", outcomes("got False")),
    files.attack(
        "list the interpreter's own packages",
        "bool(os.listdir(foreign_packages))",
        # gap: landlock cannot close a directory below one that it opens, so names below the standard library show
        outcomes("got False", "ENOENT", landlock=("EACCES", "ENOENT", "got True")),
        outside=True,
    ),
    files.attack("read the interpreter's own packages", "bool(read(foreign_package))", UNSEEN, outside=True),
    files.attack(
        "list the directory that the gateway runs from",
        "os.listdir(gateway_directory)",
        UNSEEN,
        outside=True,
    ),
    files.attack(
        "climb out by the parent directory",
        "read('../' * 30 + host.strip('/') + '/readable')",
        UNSEEN,
        outside=True,
    ),
    files.attack(
        "look at a file of the host",
        "os.stat(f'{host}/readable').st_size",
        outcomes("ENOENT", landlock="got 6"),
        outside=True,  # gap: metadata is not covered by landlock
    ),
    files.attack(
        "read where a link of the host leads",
        "os.readlink(f'{host}/link')",
        outcomes("ENOENT", landlock="got 'readable'"),
        outside=True,  # gap: metadata
    ),
    files.attack(
        "read an extended attribute of the host",
        "os.getxattr(f'{host}/readable', 'user.note')",
        outcomes("ENOENT", landlock="ENOTSUP"),
    ),
    files.attack(
        "list extended attributes of the host",
        "os.listxattr(f'{host}/readable')",
        outcomes("ENOENT", landlock="ENOTSUP"),
        outside=True,
    ),
    files.attack("set an extended attribute", "os.setxattr('.', 'user.note', b'x')", outcomes("EPERM")),
    files.attack("list a directory of the host", "os.listdir(host)", UNSEEN, outside=True),
    files.attack(
        "work in a directory of the host",
        "os.chdir(host) or os.listdir('.')",
        UNSEEN,
        outside=True,
    ),
    files.attack(
        "create a file of the host",
        "fill(f'{host}/new')",
        UNSEEN,
        outside=True,
        outside_touches=("files",),
    ),
    files.attack(
        "create a directory of the host",
        "os.mkdir(f'{host}/new')",
        UNSEEN,
        outside=True,
        outside_touches=("files",),
    ),
    files.attack(
        "overwrite a file of the host",
        "fill(f'{host}/writable')",
        UNSEEN,
        outside=True,
        outside_touches=("files",),
    ),
    files.attack(
        "truncate a file of the host",
        "os.truncate(f'{host}/writable', 0)",
        UNSEEN,
        outside=True,
        outside_touches=("files",),
    ),
    files.attack(
        "delete a file of the host",
        "os.unlink(f'{host}/writable')",
        UNSEEN,
        outside=True,
        outside_touches=("files",),
    ),
    files.attack(
        "move a file of the host away",
        "os.rename(f'{host}/writable', f'{host}/moved')",
        UNSEEN,
        outside=True,
        outside_touches=("files",),
    ),
    files.attack("move a file of the host in", "os.rename(f'{host}/writable', 'moved')", UNSEEN),
    files.attack(
        "change the mode of a file of the host",
        "os.chmod(f'{host}/writable', 0o4777)",
        outcomes("ENOENT", landlock="got None"),
        outside=True,
        outside_touches=("files",),  # pretended
    ),
    files.attack(
        "change the mode of the host's directory",
        "os.chmod(host, 0o700)",
        outcomes("ENOENT", landlock="got None"),
        outside=True,
        outside_touches=("files",),  # pretended
    ),
    files.attack(
        "change the times of a file of the host",
        "os.utime(f'{host}/writable', (1, 1))",
        outcomes("ENOENT", landlock="got None"),
        outside=True,
        outside_touches=("files",),  # pretended
    ),
    files.attack(
        "change the mode of the standard library by descriptor",
        "os.fchmod(os.open(os.__file__, os.O_RDONLY), 0o666)",
        outcomes("EROFS", landlock="got None"),  # pretended
    ),
    files.attack(
        "change the times of the standard library by descriptor",
        "os.utime(os.open(os.__file__, os.O_RDONLY), (1, 1))",
        outcomes("EROFS", landlock="got None"),  # pretended
    ),
    files.attack(
        "change the mode by a path descriptor",
        "call('fchmodat2', os.open(f'{host}/writable', os.O_PATH), b'', 0o777, 0x1000)",
        outcomes("ENOENT", landlock="got 0"),  # pretended
    ),
    files.attack("append to the standard library", "open(os.__file__, 'a')", outcomes("EACCES")),
    files.attack("create a file in the root", "fill('/new')", outcomes("EROFS", landlock="EACCES")),
    files.attack("create a file beside the devices", "fill('/dev/new')", outcomes("EROFS", landlock="EACCES")),
    files.attack("give a file away", "os.chown('.', 0, 0)", outcomes("EPERM")),
    files.attack("change the root", "os.chroot('.')", outcomes("EPERM")),
    files.attack(
        "read through a path descriptor",
        "os.read(os.open(f'{host}/readable', os.O_PATH), 9)",
        outcomes("ENOENT", landlock="EBADF"),
    ),
    files.attack(
        "open a path descriptor again",
        "os.open(f\"/proc/self/fd/{os.open(f'{host}/readable', os.O_PATH)}\", os.O_RDONLY)",
        UNSEEN,
        outside=True,
    ),
    files.attack(
        "walk from a directory descriptor of the host",
        "os.open('readable', os.O_RDONLY, dir_fd=os.open(host, os.O_PATH))",
        UNSEEN,
        outside=True,
    ),
    files.attack("open by handle", "call('open_by_handle_at', -100, bytes(64), 0)", outcomes("EPERM")),
    files.attack(
        "make a handle",
        "call('name_to_handle_at', -100, b'.', struct.pack('Ii', 56, 0) + bytes(56), bytes(4), 0)",
        outcomes("EPERM"),
    ),
    files.attack("watch the host's files", "call('inotify_init1', 0)", outcomes("EPERM"), outside=True),
    files.attack("watch the whole file system", "call('fanotify_init', 0, 0)", outcomes("EPERM")),
    files.block(
        "make a program that runs as its owner",
        """
file = os.open("tool", os.O_CREAT | os.O_WRONLY, 0o4755)
os.fchmod(file, 0o4755)
os.close(file)
attempt(lambda: os.chmod(".", 0o777))
result = attempt(lambda: os.execv("./tool", ["tool"]))
""",
        outcomes("EPERM"),
    ),
)

LINKS: tuple[Attempt, ...] = (
    links.control(
        "a link inside the workspace is followed",
        "fill('target', 'inside') or os.symlink('target', 'good') or read('good')",
        outcomes("got 'inside'"),
    ),
    links.control(
        "a second name inside the workspace is made",
        "fill('first', 'inside') or os.link('first', 'second') or read('second')",
        outcomes("got 'inside'"),
    ),
    links.attack(
        "read the host through a link",
        "os.symlink(f'{host}/readable', 'out') or read('out')",
        UNSEEN,
    ),
    links.attack(
        "write the host through a link",
        "os.symlink(f'{host}/writable', 'over') or fill('over')",
        UNSEEN,
    ),
    links.attack(
        "list the host through a link to a directory",
        "os.symlink(host, 'folder') or os.listdir('folder')",
        UNSEEN,
    ),
    links.attack("read the root through a link", "os.symlink('/etc', 'etc') or read('etc/shadow')", UNSEEN),
    links.attack(
        "give a file of the host a second name",
        "os.link(f'{host}/readable', 'hard')",
        outcomes("ENOENT", landlock=("EXDEV", "EPERM")),
    ),
    links.attack(
        "give a descriptor a second name",
        "call('linkat', os.open(os.__file__, os.O_RDONLY), b'', -100, b'named', 0x1000)",
        outcomes("EXDEV", landlock=("EXDEV", "EPERM")),
    ),
    links.attack(
        "give the standard library a second name",
        "os.link(os.__file__, 'library')",
        outcomes("EXDEV", landlock=("EXDEV", "EPERM")),  # the latter where another user's file may not be linked at all
    ),
)

PROC: tuple[Attempt, ...] = (
    proc.attack("list the processes", "os.listdir('/proc')", outcomes("got []", landlock="EACCES"), outside=True),
    *(
        proc.attack(name, f"os.open(f'/proc/{path}', os.O_RDONLY)", UNSEEN, outside=outside)
        for name, path, outside in (
            ("read the gateway's environment", "{gateway}/environ", True),
            ("read the gateway's memory", "{gateway}/mem", False),
            ("read the gateway's command", "{gateway}/cmdline", True),
            ("read the environment of another process", "{victim}/environ", True),
            ("read the memory of another process", "{victim}/mem", True),
            ("read the first process's environment", "1/environ", False),
            ("read a file through the gateway's root", "{gateway}/root/{host}/readable", True),
            ("read through a descriptor of the gateway", "{gateway}/fd/0", False),
            ("read the own memory map", "self/maps", True),
            ("read the own memory", "self/mem", True),
            ("read the own mounts", "self/mountinfo", True),
            ("read the own root", "self/root/{host}/readable", True),
            ("read the kernel's symbols", "kallsyms", False),
            ("read the host's name", "sys/kernel/hostname", True),
        )
    ),
    proc.attack("list the gateway's descriptors", "os.listdir(f'/proc/{gateway}/fd')", UNSEEN, outside=True),
    proc.attack("learn the gateway's program", "os.readlink(f'/proc/{gateway}/exe')", UNSEEN, outside=True),
    *(
        proc.attack(name, f"os.open({path!r}, os.O_WRONLY)", UNSEEN)
        for name, path in (
            ("write the program that handles crashes", "/proc/sys/kernel/core_pattern"),
            ("write the limit of user namespaces", "/proc/sys/user/max_user_namespaces"),
            ("write the own out-of-memory score", "/proc/self/oom_score_adj"),
            ("write the own user map", "/proc/self/uid_map"),
        )
    ),
    *(
        # Not every kernel has these.
        proc.attack(name, f"os.open('/proc/{path}', {flags})", outcomes("ENOENT", landlock=("EACCES", "ENOENT")))
        for name, path, flags in (
            ("read the kernel's memory", "kcore", 0),
            ("write the kernel's magic key", "sysrq-trigger", 1),
        )
    ),
    proc.attack("leave the own control group", "os.listdir('/sys/fs/cgroup')", UNSEEN),
    proc.attack("list the hardware", "os.listdir('/sys/class')", UNSEEN, outside=True),
)

DEVICES: tuple[Attempt, ...] = (
    devices.control(
        "zeros are read", "os.read(os.open('/dev/zero', 0), 2)", outcomes(r"got b'\x00\x00'"), outside=True
    ),
    devices.control("random bytes are read", "len(os.read(os.open('/dev/urandom', 0), 8))", outcomes("got 8")),
    devices.control("nothing is written", "os.write(os.open('/dev/null', 1), b'x')", outcomes("got 1")),
    *(
        # In the landlock tier the host's device is there but closed, or not there.
        devices.attack(
            f"open {name}",
            f"os.open('/dev/{name}', os.O_RDWR)",
            outcomes("ENOENT", landlock=("EACCES", "ENOENT", "ENOTDIR")),
        )
        for name in "mem kmsg kvm fuse net/tun vda sda tty console ptmx loop-control vhost-net vsock rfkill".split()
    ),
    devices.attack(
        "list the devices",
        "sorted(os.listdir('/dev'))",
        outcomes("got ['full', 'null', 'random', 'shm', 'urandom', 'zero']", landlock="EACCES"),
    ),
    devices.attack("make a device", "os.mknod('disk', 0o60666, os.makedev(254, 0))", outcomes("EPERM")),
    devices.attack(
        "make a pipe with a name, for the gateway to wait on", "os.mkfifo('pipe')", outcomes("EPERM"), outside=True
    ),
    devices.attack(
        "make a device in a directory", "call('mknodat', -100, b'memory', 0o20666, 0x101)", outcomes("EPERM")
    ),
    devices.attack("type into the terminal", "module('fcntl').ioctl(0, 0x5412, b'x')", outcomes("ENOTTY")),
    devices.attack("take the terminal", "module('fcntl').ioctl(0, 0x540E, 0)", outcomes("ENOTTY")),
    devices.attack("make a terminal", "os.openpty()", outcomes("ENOENT", landlock="EACCES"), outside=True),
    devices.attack(
        "make a file immutable", "module('fcntl').ioctl(os.open('.', 0), 0x40086602, bytes(8))", outcomes("ENOTTY")
    ),
    devices.attack(
        "write over the entropy device's state",
        "module('fcntl').ioctl(os.open('/dev/urandom', 0), 0x5206, 0)",
        outcomes("ENOTTY"),
    ),
)

ATTEMPTS = FILES + LINKS + PROC + DEVICES
