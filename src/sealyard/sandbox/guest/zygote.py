"""The zygote: a warm interpreter inside the walls that forks one worker per run.

Marked for security review. It is executed by the gateway with one descriptor and nothing of its environment, never
sees a secret, and takes orders only from that descriptor. When the descriptor closes it ends, and every worker with it.
Standard library only.
"""

import base64
import gc
import importlib
import json
import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

# Python's own hooks after a fork, except those that only reset locks: `kernel.fork` runs none of them.
_hooks: list[Callable[[], object]] = []
_LOCKS_ONLY = ("concurrent.futures.thread", "logging", "threading")
_register_at_fork = os.register_at_fork


def _note_hooks(**hooks: Callable[[], object]) -> None:
    """Stand in for `os.register_at_fork` while modules are imported."""
    _register_at_fork(**hooks)
    hook = hooks.get("after_in_child")
    if hook is not None and hook.__module__ not in _LOCKS_ONLY:
        _hooks.append(hook)


os.register_at_fork = _note_hooks  # type: ignore[assignment]
# asyncio does without it: every fork would carry it along, and code can still import it after `_preload`.
sys.modules["ssl"] = None  # type: ignore[assignment]
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernel
import seal
import template
import wire

del sys.path[0]  # the gateway's code is not importable by what runs here


_MOST_DESCRIPTORS = 4  # of one order: a connection, an output and two control groups
_SETUP_BYTES = 1 << 20  # of the set-up: filters, names of modules and syscall numbers, some tens of kB
_ORDER_BYTES = 16 << 10  # an order has some hundred; a larger buffer would be mapped and unmapped for each


class Control:
    """The gateway's orders: one JSON object a packet, with descriptors.

    Between two forks it touches as little memory as can be: each page costs a copy after every fork.
    """

    def __init__(self, fd: int) -> None:
        self.socket = socket.socket(fileno=fd)
        self._room = socket.CMSG_SPACE(_MOST_DESCRIPTORS * 4)

    def receive(self, most_bytes: int = _ORDER_BYTES) -> tuple[dict[str, Any], tuple[int, ...]]:
        """The next order. Ends the process when the gateway is gone."""
        packet, ancillary, _, _ = self.socket.recvmsg(most_bytes, self._room)
        if not packet:
            os._exit(0)
        descriptors: tuple[int, ...] = ()
        for _, _, data in ancillary:
            descriptors = struct.unpack(f"{len(data) // 4}i", data)
        return wire.parsed(packet), descriptors

    def send(self, message: dict[str, Any]) -> None:
        """Answer the gateway."""
        self.send_text(json.dumps(message))

    def send_text(self, message: str, descriptor: int | None = None) -> None:
        """Answer it with JSON that is text already, and a descriptor."""
        if descriptor is None:
            self.socket.send(message.encode())
        else:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", descriptor))
            self.socket.sendmsg([message.encode()], [rights])


class Zygote:
    """The process that every worker is forked from, and its loop."""

    def __init__(self, control: Control, sealing: seal.Seal, pid_namespace: int | None) -> None:
        self._control = control
        self._seal = sealing
        self._pid_namespace = pid_namespace
        self._workers: dict[int, tuple[int, int]] = {}
        """The pid and the slot of each worker, by the descriptor of its process."""
        self._poll = select.poll()
        self._orders: dict[str, Callable[[dict[str, Any], tuple[int, ...]], None]] = {
            "fork": self._fork,
            "kill": self._kill,
            "create": self._create_workspace,
            "adopt": self._adopt_workspace,
            "lease": self._lease_workspace,
            "remove": self._remove_workspace,
        }

    def serve(self) -> None:
        """Carry out orders until the gateway goes away."""
        control = self._control.socket.fileno()
        self._poll.register(control, select.POLLIN)
        while True:
            for fd, _ in self._poll.poll():
                if fd == control:
                    self._obey(*self._control.receive())
                else:
                    self._reap(fd)

    def _obey(self, order: dict[str, Any], descriptors: tuple[int, ...]) -> None:
        name = order["op"]
        try:
            self._orders[name](order, descriptors)
        except Exception as error:  # reported to the gateway, which decides; the next order may still succeed
            answer = {"op": "failed", "order": name, "error": f"{type(error).__name__}: {error}"}
            self._control.send(answer | {key: order[key] for key in ("slot", "ticket") if key in order})
        finally:
            for fd in descriptors:
                os.close(fd)

    def _fork(self, order: dict[str, Any], descriptors: tuple[int, ...]) -> None:
        slot = order["slot"]
        if self._pid_namespace is not None:
            kernel.unshare(kernel.NEW_PID)
        try:
            pid = kernel.fork()
            if pid == 0:
                self._become_worker(order, *descriptors)
        finally:
            if self._pid_namespace is not None:
                kernel.enter_namespace(self._pid_namespace, kernel.NEW_PID)
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            raise
        self._workers[pidfd] = pid, slot
        self._poll.register(pidfd, select.POLLIN)
        self._control.send_text(f'{{"op":"forked","slot":{slot}}}', pidfd)

    def _kill(self, order: dict[str, Any], _: tuple[int, ...]) -> None:
        """Kill the worker of a slot: the gateway got no descriptor of its process."""
        for pid, slot in self._workers.values():
            if slot == order["slot"]:
                os.kill(pid, 9)  # it is not reaped yet, so the number is its own

    def _become_worker(self, order: dict[str, Any], connection: int, output: int, *entrances: int) -> None:
        try:
            self._seal.live(order, connection, output, entrances, _hooks)
        except EOFError:
            os._exit(0)  # the gateway dropped this worker before it got a run
        except BaseException as error:
            seal.report_broken(error)
        os._exit(seal.BROKEN)

    def _reap(self, pidfd: int) -> None:
        """Collect a worker that has ended, and with it everything that it started."""
        pid, slot = self._workers.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status, usage = os.wait4(pid, 0)
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else "null"
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else "null"
        self._control.send_text(
            f'{{"op":"exited","slot":{slot},"signal":{ended_by},"code":{code},'
            f'"cpu_seconds":{usage.ru_utime + usage.ru_stime:.6f},"memory_peak_bytes":{usage.ru_maxrss * 1024}}}'
        )

    def _create_workspace(self, order: dict[str, Any], _: tuple[int, ...]) -> None:
        path = template.Sessions.path(order["number"])
        os.mkdir(path)
        try:
            kernel.mount_tmpfs(path, f"size={order['bytes']},nr_inodes={order['files']},mode=777")
            self._answer_with_mount(order, path)
        except OSError:
            os.rmdir(path)
            raise

    def _adopt_workspace(self, order: dict[str, Any], descriptors: tuple[int, ...]) -> None:
        path = template.Sessions.path(order["number"])
        os.mkdir(path)
        kernel.attach_mount(descriptors[0], path)
        self._answer_with_mount(order, path)

    def _lease_workspace(self, order: dict[str, Any], _: tuple[int, ...]) -> None:
        self._answer_with_mount(order, template.Sessions.path(order["number"]))

    def _remove_workspace(self, order: dict[str, Any], _: tuple[int, ...]) -> None:
        path = template.Sessions.path(order["number"])
        kernel.unmount(path)
        os.rmdir(path)
        self._control.send({"op": "done", "ticket": order["ticket"]})

    def _answer_with_mount(self, order: dict[str, Any], path: str) -> None:
        fd = kernel.clone_mount(path)
        try:
            self._control.send_text(f'{{"op":"mount","ticket":{order["ticket"]}}}', fd)
        finally:
            os.close(fd)


def main() -> None:
    """Build the walls, warm up, report, serve."""
    control = Control(kernel.move_away(int(sys.argv[1])))
    setup, _ = control.receive(_SETUP_BYTES)
    kernel.use_numbers(setup["syscalls"])
    stage = "importing the standard library"
    try:
        _preload(setup["preload"])
        stage = "building the walls"
        entered: template.Entered | None = None
        if setup["tier"] == "namespace":
            entered = _moved_away(template.enter(setup))
            statm = entered.memory
        else:
            statm = kernel.move_away(os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC))
        _empty_environment()
        stage = "importing packages"
        packages = _import_packages(setup)
        stage = "warming up"
        channel, gateway = seal.warm(setup)
        mapped_bytes, touched_bytes = _memory_figures(statm)
        sealing = seal.Seal(setup, channel, mapped_bytes=mapped_bytes, entered=entered)
        zygote = Zygote(control, sealing, None if entered is None else entered.pid_namespace)
        stage = "locking down"
        if entered is not None:
            gc.freeze()  # each rehearsal collects, and would look through every imported package
            sealing.rehearse(gateway, _hooks)
            gc.unfreeze()  # or the last collection would not, and workers would copy a tenth more pages
        gateway.close()
        layers = seal.lock_zygote(setup)
        _cover_tracks()
        gc.collect()
        gc.freeze()
        gc.disable()
        kernel.release_free_memory()
        kernel.filter_of(base64.b64decode(setup["filters"]["template"])).make()
    except Exception as error:
        control.send({"op": "failed", "order": stage, "error": f"{type(error).__name__}: {error}"})
        os._exit(1)
    missing = [] if entered is None else entered.missing
    ready = {"op": "ready", "missing": missing, "layers": layers, "packages": packages, "touched_bytes": touched_bytes}
    control.send(ready)
    zygote.serve()


def _cover_tracks() -> None:
    """Remove the gateway's names from the first things the code sees; they are not secret, but irrelevant to it."""
    guest = os.path.dirname(os.path.abspath(__file__))
    for name, module in list(sys.modules.items()):
        if name != "__main__" and os.path.dirname(getattr(module, "__file__", None) or "") == guest:
            del sys.modules[name]
    sys.argv[:] = ["<agent>"]
    os.register_at_fork = _register_at_fork


def _preload(names: list[str]) -> None:
    """Import what code imports all the time, without what only serves connections."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:  # some builds of Python leave parts of the standard library out
            continue
    del sys.modules["ssl"]


def _empty_environment() -> None:
    os.environ.clear()
    os.environ.update(
        HOME="/workspace",
        LANG="C.UTF-8",
        OMP_NUM_THREADS="1",
        OPENBLAS_NUM_THREADS="1",
        MKL_NUM_THREADS="1",
        POLARS_MAX_THREADS="2",
    )


def _import_packages(setup: dict[str, Any]) -> dict[str, str]:
    """Import the named packages from where only they can be seen; returns the failures with their reasons."""
    sys.path.append(setup["package_path"])
    failed = {}
    for name in setup["package_imports"]:
        try:
            importlib.import_module(name)
        except (ImportError, OSError) as error:  # not installed whole, or not readable for workers
            failed[name] = str(error)
    return failed


def _moved_away(entered: template.Entered) -> template.Entered:
    proc = None if entered.proc is None else kernel.move_away(entered.proc)
    pid_namespace, memory = kernel.move_away(entered.pid_namespace), kernel.move_away(entered.memory)
    return entered._replace(pid_namespace=pid_namespace, memory=memory, proc=proc)


def _memory_figures(statm: int) -> tuple[int, int]:
    """The bytes mapped here, and those of them that belong to no file; every worker begins with both."""
    try:
        mapped, resident, of_files = (int(word) for word in os.read(statm, 128).split()[:3])
    finally:
        os.close(statm)
    page = os.sysconf("SC_PAGE_SIZE")
    return mapped * page, (resident - of_files) * page


if __name__ == "__main__":
    main()
