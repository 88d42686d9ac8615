"""Measures a worker from the host, for limits that the kernel does not hold for all of the worker together.

Looking costs some 30 µs, so it is done ten times a second and only where it is needed. A run that is found over a limit
is ended; what it can do in a tenth of a second is bounded by the limits of its one process.
"""

import os
from pathlib import Path

from sealyard.sandbox.policy.levels import IsolationPolicy
from sealyard.sandbox.worker import Worker
from sealyard.values import FailureKind


class Watch:
    """One worker's use of memory, threads and processor time."""

    def __init__(
        self, worker: Worker, policy: IsolationPolicy, *, tasks: bool, memory_base: int | None, cpu: bool
    ) -> None:
        """Say what to look at: `tasks`, memory beyond `memory_base`, and `cpu` time of all processes together."""
        self._worker = worker
        self._policy = policy
        self._tasks = tasks
        self._memory_base = memory_base
        self._leaf = worker.leaf if cpu else None
        self._status: Path | None = None

    @property
    def is_needed(self) -> bool:
        """True if there is anything to measure."""
        return self._tasks or self._memory_base is not None or self._leaf is not None

    def excess(self) -> tuple[FailureKind, str] | None:
        """The limit that the worker is over, with the words for it; None if it is over none, or gone."""
        policy = self._policy
        try:
            if self._leaf is not None and self._leaf.cpu_seconds() > policy.cpu_seconds:
                return "cpu_time", f"The code used more than {policy.cpu_seconds:g} s of CPU time."
            if self._tasks or self._memory_base is not None:
                return self._excess_of(self._read_status())
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile, which its own run deals with
            return None
        return None

    def _excess_of(self, status: dict[str, int]) -> tuple[FailureKind, str] | None:
        policy = self._policy
        if self._tasks and status["Threads"] > policy.threads + policy.processes:
            return "processes", f"The code started more than {policy.threads:,} threads."
        used = (status["RssAnon"] + status["RssShmem"] + status["VmSwap"]) << 10
        if self._memory_base is not None and used > self._memory_base + (policy.memory_mib << 20):
            return "memory", f"The code used more than {policy.memory_mib:,} MiB of memory."
        return None

    def _read_status(self) -> dict[str, int]:
        """The figures of the worker's process; it is the only one wherever this is called."""
        if self._status is None:
            self._status = Path(f"/proc/{_pid_of(self._worker.fork.pidfd)}/status")
        figures = dict.fromkeys(("Threads", "RssAnon", "RssShmem", "VmSwap"), 0)
        for line in self._status.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name in figures:
                figures[name] = int(value.split()[0])
        return figures


def _pid_of(pidfd: int | None) -> int:
    """The number of the process behind a descriptor. Raises `ProcessLookupError` when it is gone or not born."""
    if pidfd is None:
        raise ProcessLookupError
    for line in os.fsdecode(Path(f"/proc/self/fdinfo/{pidfd}").read_bytes()).splitlines():
        if line.startswith("Pid:") and int(line.split()[1]) > 0:
            return int(line.split()[1])
    raise ProcessLookupError
