"""Forks a child for every program that `launcher.py` asks for. `python forks.py SOCKET`; prints `+` once it listens.

It has imported what the programs import, runs no thread and no event loop, and changes no signal, so that a fork of it
is as good as a Python that just started. It lives until its standard input ends; then it kills what it started and
removes the folder of its socket.
"""

import atexit
import contextlib
import gc
import importlib
import io
import locale
import marshal
import os
import runpy
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import types
from typing import Any

_IMPORTED = (
    "mcp.server.stdio",
    "mcp.client.stdio",
    "mcp.server.subscriptions",
    "sealyard.testing",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.auto",
)
_REQUEST_BYTES = 1 << 20

Request = dict[str, Any]


def main() -> None:
    """Fork for everyone who asks. The child comes back here too, and runs its program as the last thing it does."""
    _import_all()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(sys.argv[1])
    listener.listen()
    assert len(os.listdir("/proc/self/task")) == 1, "An imported module has started a thread."
    os.write(1, b"+")
    os.close(1)
    gc.collect()
    gc.freeze()  # the children's collector need not touch, and so copy, what they share
    if (found := Forks(listener).serve()) is not None:
        _become(*found)
        _run_to_end(found[0]["arguments"])
    else:
        shutil.rmtree(os.path.dirname(sys.argv[1]))


def _import_all() -> None:
    """What the programs import, but for modules that look at the environment or the terminal, and the programs."""
    for name in _IMPORTED:
        importlib.import_module(name)
    commands = importlib.import_module("sealyard.cli")
    for name in commands._COMMANDS:
        commands.find_command(name)
    importlib.import_module("sealyard.metrics.tokens").load()
    for name in [name for name in sys.modules if name.startswith(("sealyard.cli", "sealyard.examples"))]:
        del sys.modules[name]
    for name in ("cli", "examples"):
        vars(sys.modules["sealyard"]).pop(name, None)


class Forks:
    """The children, and the launchers that stand for them."""

    def __init__(self, listener: socket.socket) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(0, selectors.EVENT_READ, self._end)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._children: dict[socket.socket, int] = {}
        self._over = False
        self._child: tuple[Request, list[int]] | None = None

    def serve(self) -> tuple[Request, list[int]] | None:
        """Until standard input ends; in a child, at once, with what it was asked for and its standard streams."""
        while not self._over:
            key, _ = self._selector.select()[0]  # one by one, for each may end another
            key.data(key.fileobj)
            if self._child is not None:
                return self._child
        for process in self._children.values():
            signal.pidfd_send_signal(process, signal.SIGKILL)
            os.waitid(os.P_PIDFD, process, os.WEXITED)
        return None

    def _end(self, _: Any) -> None:
        self._over = not os.read(0, 1)

    def _accept(self, listener: socket.socket) -> None:
        link, _ = listener.accept()
        self._selector.register(link, selectors.EVENT_READ, self._hear)

    def _hear(self, link: socket.socket) -> None:
        """A request with three descriptors, then signals by their number; its end is that of the launcher."""
        try:
            message, descriptors, *_ = socket.recv_fds(link, _REQUEST_BYTES, 3)
        except ConnectionResetError:
            message, descriptors = b"", []
        if descriptors:
            self._fork(link, marshal.loads(message), descriptors)
        elif link in self._children:
            signal.pidfd_send_signal(self._children[link], message[0] if message else signal.SIGKILL)
        if not message:
            self._selector.unregister(link)
            if link not in self._children:
                link.close()

    def _fork(self, link: socket.socket, request: Request, descriptors: list[int]) -> None:
        pid = os.fork()
        if pid == 0:
            for key in list(self._selector.get_map().values()):
                if not isinstance(key.fileobj, int):
                    key.fileobj.close()  # type: ignore[attr-defined]
            for other in self._children:
                other.close()
            self._selector.close()
            self._child = request, descriptors
            return
        for fd in descriptors:
            os.close(fd)
        process = os.pidfd_open(pid)
        self._children[link] = process
        self._selector.register(process, selectors.EVENT_READ, lambda _: self._ended(link, pid))
        _tell(link, b"+")

    def _ended(self, link: socket.socket, pid: int) -> None:
        _, status = os.waitpid(pid, 0)
        process = self._children.pop(link)
        self._selector.unregister(process)
        os.close(process)
        if link in self._selector.get_map():
            self._selector.unregister(link)
            _tell(link, status.to_bytes(4, sys.byteorder))
        link.close()


def _tell(link: socket.socket, message: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the launcher was killed; we hear of it next
        link.send(message)


def _become(request: Request, descriptors: list[int]) -> None:
    """Take on what makes a process another one: streams, environment, folder, session, and what Python made of them."""
    os.setsid()
    for number, fd in enumerate(descriptors):
        os.dup2(fd, number)
    os.closerange(3, 1 << 16)
    os.environb.clear()
    os.environb.update(request["environment"])
    os.chdir(request["folder"])
    os.umask(request["umask"])
    locale.setlocale(locale.LC_CTYPE, "")
    time.tzset()
    tempfile.tempdir = None
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    encoding, *errors = request["text"]
    for fd, (name, how) in enumerate(zip(("stdin", "stdout", "stderr"), (*errors, "backslashreplace"), strict=True)):
        stream = _stream(fd, encoding, how)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _stream(fd: int, encoding: str, errors: str) -> io.TextIOWrapper:
    """A standard stream as Python opens it."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    raw = io.FileIO(fd, "w" if fd else "r")
    buffer: Any = io.BufferedReader(raw) if fd == 0 else raw if unbuffered else io.BufferedWriter(raw)
    lines = not unbuffered and (fd == 2 or (fd == 1 and os.isatty(fd)))
    stream = io.TextIOWrapper(buffer, encoding, errors, "\n", line_buffering=lines, write_through=unbuffered)
    vars(raw)["name"] = ("<stdin>", "<stdout>", "<stderr>")[fd]
    vars(stream)["mode"] = "w" if fd else "r"
    return stream


def _run_to_end(arguments: list[str]) -> None:
    """Run the program and end with its status, without the 80 ms in which Python takes apart all that was imported.

    An end with an exception or with streams that cannot be written to is left to Python. Otherwise this does what it
    does for a program: waits for threads, calls what is registered, finalizes what is left, writes what is buffered.
    """
    status: Any = 0
    try:
        _run(arguments)
    except SystemExit as end:
        status = 0 if end.code is None else end.code
    if not isinstance(status, int) or None in (sys.stdout, sys.stderr):
        sys.exit(status)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.modules.pop("__main__", None)
        for _ in range(2):  # finalizers may write too
            for stream in (sys.stdout, sys.stderr):
                if not stream.closed:
                    stream.flush()
            gc.collect()  # of what was made since the fork
    except OSError:
        sys.exit(status)  # Python says so, and ends with 120
    os._exit(status & 0xFF)


def _run(arguments: list[str]) -> None:
    """As `python` does with the same arguments."""
    sys.orig_argv = [sys.executable, *arguments]
    del sys.path[0]  # our own folder
    imports_from_here = arguments[0] != "-P"
    kind, *rest = arguments if imports_from_here else arguments[1:]
    sys.argv = rest if kind == "-m" else ["-c", *rest[1:]] if kind == "-c" else [kind, *rest]
    if imports_from_here:
        here = {"-m": os.getcwd(), "-c": ""}
        sys.path.insert(0, here[kind] if kind in here else os.path.dirname(os.path.abspath(kind)))
    if kind == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        program = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), vars(program))
    else:
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    main()
