"""A worker's life: from the fork to the seal, and only then the agent's code.

Marked for security review. The invariant: no byte of the agent's code is read before `_seal` has returned, and after
it this process has no capability, no user of another worker, no way to make a namespace, a socket or a process (unless
the policy allows forks), and can write only to its workspace and its temporary directory.
"""

import base64
import errno
import gc
import json
import os
import resource
import socket
import struct
import tempfile
import threading
from _thread import _count as count_threads
from collections.abc import Callable, Iterable
from time import sleep  # the real one: a replayed run has another
from typing import Any

import attacks
import kernel
import runner
import template
import wire

BROKEN = 70  # exit status of a worker that could not be sealed

_LEAST_ABI = 3  # an older one does not stop a file from being truncated
_CONNECTION = 3  # descriptor of the connection to the gateway, the same in every worker
_RULESET = 4  # descriptor of the landlock ruleset, the same in every worker
_KILLED_SECONDS = 1.0  # within which the gateway kills a worker that is done; to end is work for the kernel, not urgent
_IDLE_SECONDS = 0.005  # after this long without a run a worker has time to warm up; under load none waits longer
_LIMITS = {
    "address_bytes": resource.RLIMIT_AS,
    "cpu_seconds": resource.RLIMIT_CPU,
    "file_bytes": resource.RLIMIT_FSIZE,
    "open_files": resource.RLIMIT_NOFILE,
    "tasks": resource.RLIMIT_NPROC,
}
# Python's own hook after a fork has the thread look up its new id; not every version need have it.
_note_native_id: Callable[[], None] | None = getattr(threading.main_thread(), "_set_native_id", None)
# Signals that may wait for a worker: the kernel keeps each in memory, and counts them for the gateway's user as well.
_WAITING_SIGNALS = 128


_REHEARSALS = 16  # Python 3.11 adapts code from the eighth time on that it runs, and then some of it step by step
_REHEARSED_FORK = {"user": 1, "cores": None, "waits": True, "library": None}
_REHEARSED_ORDER = {
    "user": 1,
    "workspace": None,
    "temp": None,
    "cores": None,
    "address_bytes": 1 << 30,
    "cpu_seconds": 1,
    "file_bytes": 1 << 20,
    "open_files": 64,
    "tasks": None,
    "library": None,
    "own_network": False,
    "temp_room": None,
    "workspace_room": None,
    "nice": 0,
}


class Seal:
    """Everything prepared once in the zygote so that sealing a worker takes a handful of calls."""

    def __init__(
        self, setup: dict[str, Any], channel: wire.Channel, *, mapped_bytes: int, entered: template.Entered | None
    ) -> None:
        self._setup = setup
        self._entered = entered
        self._mapped_bytes = mapped_bytes
        self._namespace = setup["tier"] == "namespace"
        self._programs = {name: base64.b64decode(each["program"]) for name, each in setup["filters"]["worker"].items()}
        self._filters = {name: kernel.filter_of(program) for name, program in self._programs.items()}
        self._hard_limits = {name: resource.getrlimit(name)[1] for name in _LIMITS.values()}
        self._channel = channel
        self._mounts = [
            kernel.tmpfs_mount(place, f"size={setup[f'{name}_bytes']},nr_inodes={setup[f'{name}_files']},mode=777")
            for place, name in ((template.TEMP, "temp"), (template.WORKSPACE, "workspace"))
        ]
        self._news = kernel.wait_for_news(_CONNECTION, _IDLE_SECONDS)
        self._open_null = kernel.opening_null()
        self._enter_workspace = kernel.change_of_directory(template.WORKSPACE)
        self._abi = kernel.landlock_abi()
        if not self._namespace and self._abi < _LEAST_ABI:
            raise OSError(
                errno.ENOSYS, f"landlock ABI {self._abi}, and this tier needs {_LEAST_ABI}: Linux 6.2 or newer"
            )
        self._coarse: list[tuple[str, int]] = []
        self._ruleset = self._prepare_ruleset() if self._abi else None
        if self._ruleset is None:
            _reserve(_RULESET, os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))

    def live(
        self,
        order: dict[str, Any],
        connection: int,
        output: int,
        entrances: Iterable[int],
        hooks: Iterable[Callable[[], object]],
    ) -> None:
        """Be a worker until the end. Raises `EOFError` if the gateway drops it before it gets a run."""
        job = self._arrive(order, connection, output, entrances, hooks)
        channel = self._channel
        if job["kind"] == "attacks":
            channel.send(json.dumps({"t": "attacked", "findings": attacks.attempt(job)}))
        else:
            gc.enable()
            runner.run(job, channel)
            if not count_threads():  # another thread would go on with what nobody waits for
                sleep(_KILLED_SECONDS)
        os._exit(0)

    def _arrive(
        self,
        order: dict[str, Any],
        connection: int,
        output: int,
        entrances: Iterable[int],
        hooks: Iterable[Callable[[], object]],
    ) -> dict[str, Any]:
        """Prepare, wait for a run, seal this process, and return its job."""
        kernel.set_death_signal()
        for entrance in entrances:
            os.write(entrance, b"0")
        if self._entered is not None:
            self._enter_own_namespaces(order, self._entered)
        self._lay_descriptors(connection, output)
        self._settle(order)
        for hook in hooks:
            hook()
        if _note_native_id is not None:
            _note_native_id()
        runner.reseed()
        channel = self._channel
        if order["waits"] and not self._news.make():
            runner.prewarm()
        order, descriptors = channel.receive_with_descriptors()
        self._seal(order, descriptors)
        channel.send('{"t":"sealed"}')
        return channel.receive()

    def rehearse(self, gateway: socket.socket, hooks: Iterable[Callable[[], object]]) -> None:
        """Play a worker's whole life in the zygote, with syscalls that do nothing and `gateway` as the other end.

        Python rewrites its own instructions and fills its caches when it runs code for the first times. Done here,
        it is shared by all workers; done after the fork, each of them would pay for it in copied pages.
        """
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        first, job = _rehearsed_frames(next(iter(self._filters)))
        with kernel.pretending():
            for _ in range(_REHEARSALS):
                socket.send_fds(gateway, [first], [null])
                gateway.sendall(job)
                received = self._arrive(_REHEARSED_FORK, null, null, (null, null), hooks)
                runner.rehearse(received, self._channel)
                gateway.recv(1 << 16)
        os.close(null)

    def _prepare_ruleset(self) -> int:
        if self._namespace:
            # Rules on a directory hold for mounts below it, so one ruleset serves every worker.
            rules = [("/", kernel.READ), ("/sandbox", kernel.READ_WRITE), ("/dev", kernel.READ | kernel.DEVICE)]
        else:
            rules = _visible_paths(self._setup)
            apart = [path for path in (self._setup["workspaces"], self._setup["library"]) if path is not None]
            self._coarse = _coarse_paths(rules, apart)
        return _reserve(_RULESET, kernel.landlock_ruleset(self._abi, rules))

    def _enter_own_namespaces(self, order: dict[str, Any], entered: template.Entered) -> None:
        setup = self._setup
        namespaces = kernel.NEW_MOUNT | kernel.NEW_IPC | kernel.NEW_UTS
        if setup["own_network"]:
            namespaces |= kernel.NEW_NET
        if entered.proc is None:
            kernel.unshare(namespaces)
            template.Sessions.hide()
        else:
            if template.Sessions.is_open:  # what comes from another user's mount namespace cannot be unmounted
                kernel.unshare(kernel.NEW_MOUNT)
                template.Sessions.hide()
            forbid_nested = "no nested user namespaces" not in entered.missing
            template.enter_own_users(entered.proc, namespaces, forbid_nested=forbid_nested)
            kernel.set_death_signal()  # a change of credentials may clear it
        for mount in self._mounts:
            mount.make()
        if order["library"] is not None:
            template.Library.guess(order["library"])

    def _lay_descriptors(self, connection: int, output: int) -> None:
        # Opened anew: a flag or lock that one worker sets on a shared one would be seen by all others.
        kernel.lay_over(self._open_null.make(), 0)
        kernel.lay_over(output, 1)
        kernel.lay_over(output, 2)
        kernel.lay_over(connection, _CONNECTION, stays_on_exec=False)
        kernel.close_from(_RULESET if self._ruleset is None else _RULESET + 1)

    def _seal(self, order: dict[str, Any], descriptors: list[int]) -> None:
        if self._namespace:
            self._furnish(order, descriptors)
        workspace, temp = order["workspace"] or template.WORKSPACE, order["temp"] or template.TEMP
        own_paths = None
        if self._ruleset is not None and not self._namespace:
            own = [(workspace, kernel.READ_WRITE), (temp, kernel.READ_WRITE)]
            if order["library"] is not None:
                own.append((os.path.join(self._setup["library"], order["library"]), kernel.READ))
            own_paths = kernel.landlock_ruleset(self._abi, self._coarse + own)
        self._settle(order)
        enter = self._enter_workspace if workspace is template.WORKSPACE else kernel.change_of_directory(workspace)
        enter.make()
        if tempfile.tempdir != temp:
            set_places(workspace, temp)
        self._limit(order)
        if self._setup["capabilities"]:
            kernel.drop_capabilities()
        if self._ruleset is not None:
            kernel.restrict_self(_RULESET)
            kernel.close(_RULESET)
        if own_paths is not None:
            kernel.restrict_self(own_paths)
            os.close(own_paths)
        name = order["filter"]
        offsets = self._setup["filters"]["worker"][name]["pid_offsets"]
        last = kernel.filter_of(_with_pid(self._programs[name], offsets)) if offsets else self._filters[name]
        last.make()

    def _furnish(self, order: dict[str, Any], descriptors: list[int]) -> None:
        """Mount what belongs to this run: less room than usual, its session's workspace, its part of the library."""
        for place, options in ((template.TEMP, order["temp_room"]), (template.WORKSPACE, order["workspace_room"])):
            if options is not None:
                kernel.mount_tmpfs(place, options)
        if order["own_network"] and not self._setup["own_network"]:
            kernel.unshare(kernel.NEW_NET)
        if descriptors:
            kernel.attach_mount(descriptors[0], template.WORKSPACE)
            os.close(descriptors[0])
        if self._setup["library"] is not None:
            template.Library.show(order["library"])

    def _settle(self, order: dict[str, Any]) -> None:
        """Take a user and cores: those of a worker at its fork, those of a session or a limit at the seal."""
        user = order["user"]
        if user is not None:
            kernel.become(user)
            kernel.set_death_signal()  # a change of user clears it
        if order["cores"]:
            os.sched_setaffinity(0, order["cores"])

    def _limit(self, order: dict[str, Any]) -> None:
        if order["nice"]:
            os.nice(order["nice"])  # for good: to take it back needs a power that no worker has
        for field, name in _LIMITS.items():
            value = order[field]
            if value is None:
                continue
            if field == "address_bytes":
                value += self._mapped_bytes
            hard = self._hard_limits[name]
            if hard != resource.RLIM_INFINITY:
                value = min(value, hard)  # a service manager may have set a lower one already
            kernel.limit(name, value)


def _rehearsed_frames(filter_name: str) -> tuple[bytes, bytes]:
    """The two frames that the gateway would send: the order to seal, and a job."""
    bodies = json.dumps(_REHEARSED_ORDER | {"filter": filter_name}), json.dumps(runner.WARM_JOB)
    first, job = (struct.pack("<I", len(body)) + body.encode() for body in bodies)
    return first, job


def _reserved_connection() -> tuple[socket.socket, socket.socket]:
    """A socket under the number that the connection of every worker has, and its other end.

    Each worker lays its own connection over the first.
    """
    connection, other_end = socket.socketpair()
    _reserve(_CONNECTION, connection.fileno())
    return connection, socket.socket(fileno=kernel.move_away(other_end.detach()))


def _reserve(number: int, fd: int) -> int:
    """Make sure that a descriptor has the number which it has in every worker: those of orders never get it then."""
    if fd != number:
        raise OSError(errno.EBUSY, f"descriptor {number} is in use")
    return fd


def lock_zygote(setup: dict[str, Any]) -> dict[str, Any]:
    """Give up for good what neither the zygote nor any worker needs; returns the layers in place."""
    if setup["bounding_set"]:
        kernel.drop_bounding_set()
    kernel.forbid_new_privileges()
    for name in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        resource.setrlimit(name, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_SIGPENDING)[1]
    most = _WAITING_SIGNALS if hard == resource.RLIM_INFINITY else min(_WAITING_SIGNALS, hard)
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (most, most))
    return {"landlock_abi": kernel.landlock_abi()}


def warm(setup: dict[str, Any]) -> tuple[wire.Channel, socket.socket]:
    """Make and touch what every run needs, before the fork, so that no run pays for it.

    Returns the channel of each worker, and the other end of it for a rehearsal.
    """
    kernel.limit_malloc_arenas()
    threading.stack_size(2 << 20)
    runner.set_import_rule(setup["allowed_modules"], setup["refused_modules"], setup["level"])
    connection, gateway = _reserved_connection()
    channel = wire.Channel(connection)
    runner.prepare(channel)
    runner.warm()
    runner.prepare_streams()
    if setup["tier"] == "namespace":
        set_places(template.WORKSPACE, template.TEMP)
    return channel, gateway


def set_places(workspace: str, temp: str) -> None:
    """Name the two places that the code may write to where Python and programs look for them."""
    tempfile.tempdir = temp
    os.environ.update(HOME=workspace, TMPDIR=temp)


def report_broken(error: BaseException) -> None:
    """Report to the gateway that this worker could not be sealed. Only trusted code has run by then."""
    body = json.dumps({"t": "broken", "error": f"{type(error).__name__}: {error}"}).encode()
    try:
        os.write(_CONNECTION, struct.pack("<I", len(body)) + body)
    except OSError:
        return  # the exit status says it too


def _with_pid(program: bytes, offsets: list[int]) -> bytes:
    patched = bytearray(program)
    for offset in offsets:
        struct.pack_into("<I", patched, offset, os.getpid())
    return bytes(patched)


def _visible_paths(setup: dict[str, Any]) -> list[tuple[str, int]]:
    """The most a worker of the landlock tier may read, and the one place it may write below."""
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        trees = template.outermost([*template.interpreter_trees(), *template.library_directories(proc)])
    finally:
        os.close(proc)
    hidden = set(template.foreign_packages(trees))
    rules: list[tuple[str, int]] = []
    for tree in trees:
        rules += _readable(tree, hidden)
    optional = ["/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/localtime"]
    optional += [source for source, _ in setup["packages"]]
    rules += [(path, kernel.READ) for path in optional if os.path.exists(path)]
    rules += [(f"/dev/{name}", kernel.DEVICE) for name in ("null", "zero", "full", "random", "urandom")]
    rules.append((setup["package_path"], kernel.READ))
    if setup["library"] is not None:
        rules.append((setup["library"], kernel.READ))
    rules.append((setup["workspaces"], kernel.READ_WRITE))
    return rules


def _coarse_paths(rules: list[tuple[str, int]], apart: list[str]) -> list[tuple[str, int]]:
    """A few wide rules that cover `rules` but nothing in `apart`.

    A worker is put under both rulesets, and the kernel grants what both grant: all of `rules`, and of what is apart
    only what the worker adds for itself. Repeating the long list for every worker would cost milliseconds.
    """
    coarse = {}
    for path, _ in rules:
        if path in apart:
            continue
        prefix = ""
        for part in path.strip("/").split("/"):
            prefix += "/" + part
            if not any((place + "/").startswith(prefix + "/") for place in apart):
                coarse[prefix] = kernel.READ | kernel.DEVICE if prefix == "/dev" else kernel.READ
                break
    return list(coarse.items())


def _readable(tree: str, hidden: set[str]) -> list[tuple[str, int]]:
    """Rules that open `tree` except what is hidden below it; landlock cannot take back a part."""
    if tree in hidden:
        return []
    if not any(path.startswith(tree + "/") for path in hidden):
        return [(tree, kernel.READ)]
    rules = [(tree, kernel.LIST)]
    for name in sorted(os.listdir(tree)):
        path = os.path.join(tree, name)
        if not os.path.islink(path):
            rules += _readable(path, hidden)
    return rules
