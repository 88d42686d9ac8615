"""What an attack is: code that runs inside, and the only verdicts it may end with.

The code first leaves the import rule behind, as any hostile code would: that rule is not the boundary. A verdict is
`got …` when an action worked, the name of the error when the kernel refused it, and `status:kind:type` when the whole
run was ended. `outside` is the control: the same code, run by plain Python on the host, must reach what it attacks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PRELUDE = """
import json
module = json.codecs.builtins.__import__
ctypes, errno, os, re, signal, socket, struct, sys, threading, time = map(
    module, "ctypes errno os re signal socket struct sys threading time".split()
)
seen = []
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def call(name, *arguments):
    number = name if isinstance(name, int) else numbers[name]
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    given = libc.syscall(ctypes.c_long(number), *words)
    if given == -1:
        raise OSError(ctypes.get_errno(), name)
    return given

def attempt(action):
    try:
        return f"got {action()!r}"
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    except Exception as error:
        return type(error).__name__

def fill(path, text="x"):
    with open(path, "w") as file:
        file.write(text)

def read(path):
    with open(path) as file:
        return file.read()

def importable(name):
    try:
        module(name)
    except ImportError:
        return False
    return True

def reach(family, address):
    with socket.socket(family) as one:
        one.settimeout(1)
        one.connect(address)

def named(path):
    return struct.pack("H108s", socket.AF_UNIX, path.encode())

def frame(body):
    return struct.pack("<I", len(body)) + body

def send(*bodies):
    line.sendall(b"".join(frame(body) for body in bodies))

def receive():
    size = struct.unpack("<I", line.recv(4, socket.MSG_WAITALL))[0]
    return json.loads(line.recv(size, socket.MSG_WAITALL))

try:
    line = socket.socket(fileno=3)
except OSError:
    line = None
"""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The leg, and what its sandbox turned out to be."""

    user: str
    tier: str
    level: str
    machine: str
    resource_control: str
    own_users: bool

    @property
    def can_fork(self) -> bool:
        """Only where a pid namespace ends whatever was forked, and a control group counts all of it together."""
        return self.tier == "namespace" and self.level == "development" and self.resource_control != "rlimits"

    @property
    def holds_threads(self) -> bool:
        """Whether the kernel counts the threads of each worker; they are watched where all workers are one user."""
        return self.tier == "namespace" or self.own_users


Expectation = Callable[[Facts], frozenset[str]]


def outcomes(*verdicts: str, landlock: str | tuple[str, ...] | None = None) -> Expectation:
    """One of `verdicts`; in the landlock tier one of `landlock`, where it differs."""

    def expect(facts: Facts) -> frozenset[str]:
        if facts.tier == "landlock" and landlock is not None:
            return frozenset([landlock] if isinstance(landlock, str) else landlock)
        return frozenset(verdicts)

    return expect


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attack or, with `is_control`, one thing that must work."""

    area: str
    name: str
    code: str
    """An expression whose value or error is the verdict, or a block that sets `result` to a verdict."""
    expect: Expectation
    is_control: bool = False
    is_block: bool = False
    """A block has a worker to itself; expressions of one area share one."""
    limits: dict[str, Any] | None = None
    is_slow: bool = False
    """It ends only at its deadline, so it is run beside others."""
    outside: bool | str = False
    """Whether the same code is run outside too, where its verdict must begin with `got`, or with this text."""
    outside_touches: tuple[str, ...] = ()
    """What of the host it changes there; nothing of it may change from inside."""
    machine: str | None = None
    """The only machine on which this can be tried."""

    @property
    def id(self) -> str:
        """As it appears in the name of the test."""
        return f"{self.area}: {self.name}"


class Area:
    """What a group of attacks is aimed at."""

    def __init__(self, name: str) -> None:
        self.name = name

    def attack(self, name: str, code: str, expect: Expectation, **more: Any) -> Attempt:
        """An attack of one expression, tried among the others of its area."""
        return Attempt(area=self.name, name=name, code=code, expect=expect, **more)

    def control(self, name: str, code: str, expect: Expectation, **more: Any) -> Attempt:
        """Something that must work, so that a broken set-up cannot look like safety."""
        return Attempt(area=self.name, name=name, code=code, expect=expect, is_control=True, **more)

    def block(self, name: str, code: str, expect: Expectation, **more: Any) -> Attempt:
        """An attack that has a worker to itself and sets `result` to its verdict."""
        return Attempt(area=self.name, name=name, code=code.strip(), expect=expect, is_block=True, **more)
