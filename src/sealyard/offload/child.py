"""A helper process: carries out one order after the other until the gateway hangs up.

It is executed by its path, with nothing but a descriptor. Tasks are named in `TASKS` and nowhere else; each is a pure
function of its parameters, its document and the memory that the gateway sent.
"""

import importlib
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

if __name__ == "__main__":  # as a script it has no package around it
    sys.path.append(str(Path(__file__).parents[2]))

import msgspec

from sealyard.errors import SealyardError

Query = Callable[[Any], Any]
"""Asks the gateway for something in the middle of a task."""
Task = Callable[[Any, bytes, Any, Query], tuple[Any, bytes]]
"""Gets the parameters, the document, its memory and a way to ask; returns a small result and a document."""

TASKS = {
    "warm": "sealyard.offload.child:warm",
    "document": "sealyard.offload.documents:judge",
    "conceal": "sealyard.privacy.helper_guard:conceal",
    "find": "sealyard.privacy.helper_guard:find",
    "words": "sealyard.privacy.helper_guard:words",
    "answer": "sealyard.broker.admission:admit_in_helper",
    "relay": "sealyard.serve.relay.concealment:relay",
    "review": "sealyard.sandbox.review:review_in_helper",
    "read_skill": "sealyard.skills.reading:read_in_helper",
    "rewrite": "sealyard.versioning.migrate.migration:rewrite",
}
"""The function of each task. The `remember` of its module, if any, takes the gateway's additions to a memory."""

_MEMORY_BYTES = 2 << 30
"""Of address space. A document of 32 MiB that is nothing but empty lists takes 1.2 GiB when it is read."""
_NICER = 5
"""Helpers give way to the gateway, whose event loop serves everybody: five steps leave them a third of its share."""
_GRACE_SECONDS = 2
"""After the deadline of an order, so that the gateway, if it lives, is the one that ends the helper."""

# Frames between the gateway and a helper: two lengths, a head of JSON, and a body of plain bytes.

LENGTHS = struct.Struct("<II")
MOST_HEAD = 64 << 20
"""Bytes of a request beside its document: the names of ten thousand tools are half a megabyte."""
MOST_BODY = 256 << 20
"""An answer of 32 MiB in which every value became a longer token stays far below."""


class Order(msgspec.Struct, kw_only=True):
    """A message of the gateway to a helper."""

    do: Literal["run", "remember", "forget", "reply"]
    task: str = ""
    """For `run`: which one."""
    key: str = ""
    """Of the memory that is meant; empty for none."""
    params: Any = None
    seconds: float = 0.0
    """For `run`: a helper that is not killed then ends itself soon after."""


class Report(msgspec.Struct, kw_only=True):
    """A message of a helper: it asks for something, is done, or has failed."""

    is_done: bool = False
    result: Any = None
    error: str = ""
    """The name of the exception; then `result` is its message if that may be shown."""
    resident_bytes: int = 0


def pack(head: Order | Report, body_bytes: int) -> bytes:
    """The lengths and the head; the body follows."""
    encoded = msgspec.json.encode(head)
    return LENGTHS.pack(len(encoded), body_bytes) + encoded


def unpack_lengths(data: bytes) -> tuple[int, int]:
    """The lengths of head and body. Raises `ValueError` for more than either may have."""
    head, body = LENGTHS.unpack(data)
    if head > MOST_HEAD or body > MOST_BODY:
        raise ValueError(f"a frame of {head} and {body} bytes")
    return head, body


def warm(params: Any, body: bytes, memory: Any, ask: Query) -> tuple[Any, bytes]:
    """Import what every task needs, ahead of the first."""
    for place in TASKS.values():
        importlib.import_module(place.partition(":")[0])
    return None, b""


def main(descriptor: int) -> None:
    """Serve one gateway over a connected socket."""
    os.nice(_NICER)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with socket.socket(fileno=descriptor) as connection:
        _Helper(connection).serve()


def _most_resident_bytes() -> int:
    """The most memory that this process had: `getrusage` counts what the gateway had when it started this one."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0


class _Helper:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._memories: dict[str, Any] = {}
        self._decoder = msgspec.json.Decoder(Order)

    def serve(self) -> None:
        while (read := self._read()) is not None:
            order, body = read
            match order.do:
                case "forget":
                    self._memories.pop(order.key, None)
                case "remember":
                    module = importlib.import_module(TASKS[order.task].partition(":")[0])
                    self._memories[order.key] = module.remember(self._memories.get(order.key), order.params, body)
                case _:
                    self._run(order, body)

    def _run(self, order: Order, body: bytes) -> None:
        signal.alarm(round(order.seconds) + _GRACE_SECONDS)  # the kernel's own: it also ends one long call
        document = b""
        try:
            module, _, name = TASKS[order.task].partition(":")
            task: Task = getattr(importlib.import_module(module), name)
            result, document = task(order.params, body, self._memories.get(order.key), self._ask)
            report = Report(is_done=True, result=result)
        except SealyardError as error:
            report = Report(error=type(error).__name__, result=str(error).encode("utf-8", "replace").decode())
        except Exception as error:  # noqa: BLE001 - its message may quote private values
            report = Report(error=type(error).__name__)
        signal.alarm(0)
        report.resident_bytes = _most_resident_bytes()
        self._send(report, document)

    def _ask(self, wanted: Any) -> Any:
        self._send(Report(result=wanted), b"")
        read = self._read()
        if read is None:
            raise SystemExit
        return read[0].params

    def _read(self) -> tuple[Order, bytes] | None:
        lengths = self._take(LENGTHS.size)
        if lengths is None:
            return None
        head_bytes, body_bytes = unpack_lengths(bytes(lengths))
        head, body = self._take(head_bytes), self._take(body_bytes)
        return None if head is None or body is None else (self._decoder.decode(head), bytes(body))

    def _take(self, size: int) -> bytearray | None:
        data = bytearray(size)
        view, done = memoryview(data), 0
        while done < size:
            count = self._connection.recv_into(view[done:])
            if not count:
                return None
            done += count
        return data

    def _send(self, report: Report, body: bytes) -> None:
        self._connection.sendall(pack(report, len(body)))
        self._connection.sendall(body)


if __name__ == "__main__":
    main(int(sys.argv[1]))
