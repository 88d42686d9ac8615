"""Fifty users at once, against a real `sealyard serve --http`: no error, and memory that does not grow.

Half a minute in the suite; `make load` lets them work for five.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import programs

SECONDS = int(os.environ.get("SEALYARD_LOAD_SECONDS", "30"))
USERS = 50
SAMPLE_SECONDS = 0.5
GROWTH_BYTES = 16 << 20
"""What caches, the allocator and answers that wait to be counted may take from the second quarter on to the last."""
BEHIND = "sealyard.observe.accounting: Not all tokens were counted before the gateway closed"
"""What it may say at its end: it was ended in the middle of the work."""


class Gateway:
    """A gateway that serves, and what it takes of the machine's memory."""

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.process = process
        self.url = url
        self.resident: list[int] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """Look at its memory all the time."""
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join()

    def _sample(self) -> None:
        status = Path(f"/proc/{self.process.pid}/status")
        while not self._is_over.wait(SAMPLE_SECONDS):
            found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text(encoding="utf-8"))
            assert found is not None
            self.resident.append(int(found[1]) << 10)


@contextmanager
def serving(folder: Path) -> Iterator[Gateway]:
    """`sealyard serve --http` with an upstream and all of privacy, and without a limit of requests."""
    config = folder / "sealyard.toml"
    config.write_text(
        '[store]\npath = "store.db"\n[http]\nrequests_per_minute = 0\n[privacy]\nmode = "strict"\n'
        "[alerts]\nenabled = false\n"  # these users search for more than they call, which is one
        f"[upstreams.expenses]\ncommand = {json.dumps(sys.executable)}\n"
        'args = ["-P", "-m", "sealyard.examples.expenses"]\n',
        encoding="utf-8",
    )
    complaints: list[str] = []
    command = [sys.executable, "-m", "sealyard", "serve", str(config), "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = None
            while found is None:
                line = process.stderr.readline()
                assert line, "It ended at once."
                found = re.search(r"(http://127\.0\.0\.1:\d+)/mcp", line)
            reader = threading.Thread(target=complaints.extend, args=(process.stderr,))
            reader.start()
            yield Gateway(process, found[1])
        finally:
            process.terminate()
        reader.join()
    assert (process.returncode, [line for line in complaints if not line.startswith(BEHIND)]) == (143, [])


def locust(gateway: Gateway, folder: Path) -> dict[str, Any]:
    """What Locust reports of its users."""
    command = [
        programs.outside("locust"), "--locustfile", str(Path(__file__).with_name("locustfile.py")), "--headless",
        "--users", str(USERS), "--spawn-rate", "25", "--run-time", f"{SECONDS}s", "--host", gateway.url,
        "--stop-timeout", "60", "--json-file", str(folder / "report"), "--loglevel", "ERROR",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=SECONDS + 200, check=False)
    print(done.stderr)
    found: list[dict[str, Any]] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    for each in found:
        slowest = each["max_response_time"] / 1e3
        print(
            f"{each['method']} {each['name']}: {each['num_requests'] / SECONDS:.1f} a second, {slowest:.2f} s at most"
        )
    return {
        "exit": done.returncode,
        "requests": {f"{each['method']} {each['name']}": each["num_requests"] for each in found},
        "failures": {each["name"]: each["num_failures"] for each in found if each["num_failures"]},
    }


@pytest.mark.timeout(SECONDS + 400)
def test_fifty_users_see_no_error_and_memory_is_flat(tmp_path: Path) -> None:
    """Searches, runs, analyses, lists and figures, all at once, with privacy on."""
    with serving(tmp_path) as gateway, gateway.sampled():
        report = locust(gateway, tmp_path)
    quarter = len(gateway.resident) // 4
    before = statistics.median(gateway.resident[quarter : 2 * quarter])
    after = statistics.median(gateway.resident[-quarter:])
    print(f"{before / 2**20:.1f} MiB after warming up, {after / 2**20:.1f} MiB at the end")

    assert (report["failures"], report["exit"]) == ({}, 0)
    assert set(report["requests"]) == {
        "GET mcp/tools/search", "POST executions", "POST analyses", "GET executions", "GET executions/{id}",
        "GET metrics",
    }  # fmt: skip
    assert after - before < GROWTH_BYTES
