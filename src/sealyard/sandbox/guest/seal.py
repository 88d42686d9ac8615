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
from typing import Any

import attacks
import kernel
import runner
import template
import wire

BROKEN = 70  # exit status of a worker that could not be sealed

_LEAST_ABI = 3  # an older one does not stop a file from being truncated
_CONNECTION = 3
_RULESET = 4
# Signals that may wait for a worker: the kernel keeps each in memory, and counts them for the gateway's user as well.
_WAITING_SIGNALS = 128


class Seal:
    """Everything prepared once in the zygote so that sealing a worker takes a handful of calls."""

    def __init__(self, setup: dict[str, Any], *, mapped_bytes: int, entered: template.Entered | None) -> None:
        self._setup = setup
        self._entered = entered
        self._mapped_bytes = mapped_bytes
        self._namespace = setup["tier"] == "namespace"
        self._filters = {name: base64.b64decode(each["program"]) for name, each in setup["filters"]["worker"].items()}
        self._abi = kernel.landlock_abi()
        if not self._namespace and self._abi < _LEAST_ABI:
            raise OSError(
                errno.ENOSYS, f"landlock ABI {self._abi}, and this tier needs {_LEAST_ABI}: Linux 6.2 or newer"
            )
        self._coarse: list[tuple[str, int]] = []
        self._ruleset = self._prepare_ruleset() if self._abi else None

    def live(self, order: dict[str, Any], connection: int, output: int, entrances: tuple[int, ...]) -> None:
        """Be a worker until the end. Raises `EOFError` if the gateway drops it before it gets a run."""
        kernel.set_death_signal()
        for entrance in entrances:
            os.write(entrance, b"0")
        if self._entered is not None:
            self._enter_own_namespaces(order, self._entered)
        self._lay_descriptors(connection, output)
        self._settle(order)
        runner.reseed()
        channel = wire.Channel(socket.socket(fileno=_CONNECTION))
        if order["waits"] and not channel.has_news():
            runner.prewarm()
        order, descriptors = channel.receive_with_descriptors()
        self._seal(order, descriptors)
        channel.send('{"t":"sealed"}')
        job = channel.receive()
        if job["kind"] == "attacks":
            channel.send(json.dumps({"t": "attacked", "findings": attacks.attempt(job)}))
        else:
            gc.enable()
            runner.run(job, channel)
        os._exit(0)

    def _prepare_ruleset(self) -> int:
        if self._namespace:
            # Rules on a directory hold for mounts below it, so one ruleset serves every worker.
            rules = [("/", kernel.READ), ("/sandbox", kernel.READ_WRITE), ("/dev", kernel.READ | kernel.DEVICE)]
        else:
            rules = _visible_paths(self._setup)
            apart = [path for path in (self._setup["workspaces"], self._setup["library"]) if path is not None]
            self._coarse = _coarse_paths(rules, apart)
        return kernel.move_away(kernel.landlock_ruleset(self._abi, rules))

    def _enter_own_namespaces(self, order: dict[str, Any], entered: template.Entered) -> None:
        setup = self._setup
        namespaces = kernel.NEW_MOUNT | kernel.NEW_IPC | kernel.NEW_UTS | kernel.NEW_NET
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
        kernel.mount_tmpfs(template.TEMP, f"size={setup['temp_bytes']},nr_inodes={setup['temp_files']},mode=777")
        kernel.mount_tmpfs(
            template.WORKSPACE, f"size={setup['workspace_bytes']},nr_inodes={setup['workspace_files']},mode=777"
        )
        if order["library"] is not None:
            template.Library.guess(order["library"])

    def _lay_descriptors(self, connection: int, output: int) -> None:
        # Opened anew: a flag or lock that one worker sets on a shared one would be seen by all others.
        os.dup2(os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(connection, _CONNECTION, inheritable=False)
        first_unused = _RULESET
        if self._ruleset is not None:
            os.dup2(self._ruleset, _RULESET, inheritable=False)
            first_unused += 1
        kernel.close_from(first_unused)

    def _seal(self, order: dict[str, Any], descriptors: list[int]) -> None:
        if self._namespace:
            self._furnish(order, descriptors)
        workspace = order["workspace"] or template.WORKSPACE
        temp = order["temp"] or template.TEMP
        own_paths = None
        if self._ruleset is not None and not self._namespace:
            own = [(workspace, kernel.READ_WRITE), (temp, kernel.READ_WRITE)]
            if order["library"] is not None:
                own.append((os.path.join(self._setup["library"], order["library"]), kernel.READ))
            own_paths = kernel.landlock_ruleset(self._abi, self._coarse + own)
        self._settle(order)
        os.chdir(workspace)
        tempfile.tempdir = temp
        os.environ.update(HOME=workspace, TMPDIR=temp)
        self._limit(order)
        if self._setup["capabilities"]:
            kernel.drop_capabilities()
        if self._ruleset is not None:
            kernel.restrict_self(_RULESET)
            os.close(_RULESET)
        if own_paths is not None:
            kernel.restrict_self(own_paths)
            os.close(own_paths)
        offsets = self._setup["filters"]["worker"][order["filter"]]["pid_offsets"]
        kernel.install_filter(_with_pid(self._filters[order["filter"]], offsets))

    def _furnish(self, order: dict[str, Any], descriptors: list[int]) -> None:
        """Mount what belongs to this run: less room than usual, its session's workspace, its part of the library."""
        for place, options in ((template.TEMP, order["temp_room"]), (template.WORKSPACE, order["workspace_room"])):
            if options is not None:
                kernel.mount_tmpfs(place, options)
        if descriptors:
            kernel.attach_mount(descriptors[0], template.WORKSPACE)
            os.close(descriptors[0])
        if self._setup["library"] is not None:
            template.Library.show(order["library"])

    def _settle(self, order: dict[str, Any]) -> None:
        """Take a user and cores: those of a worker at its fork, those of a session or a limit at the seal."""
        user = order["user"]
        if user is not None:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            kernel.set_death_signal()  # a change of user clears it
        if order["cores"]:
            os.sched_setaffinity(0, order["cores"])

    def _limit(self, order: dict[str, Any]) -> None:
        if order["nice"]:
            os.nice(order["nice"])  # for good: to take it back needs a power that no worker has
        for name, value in (
            (resource.RLIMIT_AS, self._mapped_bytes + order["address_bytes"]),
            (resource.RLIMIT_CPU, order["cpu_seconds"]),
            (resource.RLIMIT_FSIZE, order["file_bytes"]),
            (resource.RLIMIT_NOFILE, order["open_files"]),
            (resource.RLIMIT_NPROC, order["tasks"]),
        ):
            if value is None:
                continue
            hard = resource.getrlimit(name)[1]
            if hard != resource.RLIM_INFINITY:
                value = min(value, hard)  # a service manager may have set a lower one already
            resource.setrlimit(name, (value, value))


def lock_zygote(setup: dict[str, Any]) -> dict[str, Any]:
    """Give up for good what neither the zygote nor any worker needs; says which layers are there."""
    if setup["bounding_set"]:
        kernel.drop_bounding_set()
    kernel.forbid_new_privileges()
    for name in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        resource.setrlimit(name, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_SIGPENDING)[1]
    most = _WAITING_SIGNALS if hard == resource.RLIM_INFINITY else min(_WAITING_SIGNALS, hard)
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (most, most))
    return {"landlock_abi": kernel.landlock_abi()}


def warm(setup: dict[str, Any]) -> None:
    """Touch what every run touches, before the fork, so that no run pays for it."""
    kernel.limit_malloc_arenas()
    threading.stack_size(2 << 20)
    runner.set_import_rule(setup["allowed_modules"], setup["refused_modules"], setup["level"])
    runner.warm()
    runner.prepare_streams()


def report_broken(error: BaseException) -> None:
    """Tell the gateway that this worker could not be sealed. Only trusted code has run by then."""
    body = json.dumps({"t": "broken", "error": f"{type(error).__name__}: {error}"}).encode()
    try:
        os.write(_CONNECTION, struct.pack("<I", len(body)) + body)
    except OSError:
        return  # the exit status says it too


def _with_pid(program: bytes, offsets: list[int]) -> bytes:
    if not offsets:
        return program
    patched = bytearray(program)
    for offset in offsets:
        struct.pack_into("<I", patched, offset, os.getpid())
    return bytes(patched)


def _visible_paths(setup: dict[str, Any]) -> list[tuple[str, int]]:
    """What a worker of the landlock tier may read at most, and the one place it may write below."""
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
    """Rules that open `tree` but for what is hidden below it; landlock has no way to take back a part."""
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
