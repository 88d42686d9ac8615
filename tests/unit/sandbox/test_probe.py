"""The start-up probe: each of its attacks has a target that exists, so that a failure shows a wall."""

import os
from typing import Any

import msgspec
import pytest

from sealyard.sandbox import PoolOptions, Sandbox, open_sandbox
from sealyard.sandbox.policy import DEFAULT


@pytest.mark.parametrize("settings", [("/not/there", "/etc/group"), ("/not/there",)])
async def test_files_and_programs_that_the_probe_attacks_exist(
    monkeypatch: pytest.MonkeyPatch, settings: tuple[str, ...]
) -> None:
    """A host without /etc/hosts or /bin/true would let two attacks fail whatever the walls are."""
    jobs: list[dict[str, Any]] = []
    attack = Sandbox.attack

    async def noting(self: Sandbox, job: dict[str, Any]) -> Any:
        jobs.append(job)
        return await attack(self, job)

    monkeypatch.setattr(Sandbox, "attack", noting)
    monkeypatch.setattr("sealyard.sandbox.probe._HOST_SETTINGS", settings)
    async with open_sandbox(msgspec.structs.replace(DEFAULT, packages=()), pool=PoolOptions(size=0)) as sandbox:
        assert sandbox.report is not None
        held = {each.name: each.held for each in sandbox.report.attacks}

    assert os.access(jobs[0]["host_setting"], os.R_OK)
    assert os.access(jobs[0]["program"], os.X_OK)
    assert (held["read a setting of the host"], held["run a program"]) == (True, True)
