"""Runs the official conformance suite against a server and says which scenarios it passed."""

import re
from collections.abc import Collection
from pathlib import Path

from tests.mcp import peers
from tests.mcp.processes import run

_SUMMARY = re.compile(
    r"^(?P<mark>[✓✗]) (?P<scenario>[a-z0-9-]+): (?P<passed>\d+) passed, (?P<failed>\d+) failed$", re.MULTILINE
)
_COUNT = re.compile(r"^Passed: (\d+)/\d+, (\d+) failed, (\d+) warnings$", re.MULTILINE)
_MORE_TRIES = 2


def required(revision: str) -> list[str]:
    """The scenarios that the suite itself says a server of this revision must pass."""
    package = Path(peers.conformance()[1]).parent.parent
    lines = (package / "requirements" / f"{revision}.yaml").read_text(encoding="utf-8").splitlines()
    section = lines[lines.index("server:") + 1 :]
    names = []
    for line in section:
        if not line.startswith("  - "):
            break
        names.append(line.removeprefix("  - "))
    return names


def passed(url: str, revision: str, expected: Collection[str]) -> list[str]:
    """The required scenarios that the server passes.

    The suite waits only half a second for some answers, so an expected one that failed is tried again by itself: a
    server that is wrong fails again, a machine that was busy is less so.
    """
    verdicts = _verdicts(run(peers.conformance("server", "--url", url, "--requirements", revision)).stdout)
    for scenario in expected:
        verdicts[scenario] = verdicts.get(scenario) or any(passes(url, revision, scenario) for _ in range(_MORE_TRIES))
    return [scenario for scenario in required(revision) if verdicts.get(scenario)]


def passes(url: str, revision: str, scenario: str) -> bool:
    """Whether the server passes one scenario."""
    checks = count_checks(url, revision, scenario)
    return checks["passed"] > 0 and checks["failed"] == 0


def count_checks(url: str, revision: str, scenario: str) -> dict[str, int]:
    """How many checks of one scenario the server passed and failed, and how many it was warned of."""
    chosen = ("--spec-version", revision, "--scenario", scenario, "--force")
    done = run(peers.conformance("server", "--url", url, *chosen))
    found = _COUNT.search(done.stdout)
    counts = (0, 1, 0) if found is None else map(int, found.groups())  # the suite itself failed
    return dict(zip(("passed", "failed", "warnings"), counts, strict=True))


def _verdicts(output: str) -> dict[str, bool]:
    return {found["scenario"]: found["mark"] == "✓" and int(found["passed"]) > 0 for found in _SUMMARY.finditer(output)}
