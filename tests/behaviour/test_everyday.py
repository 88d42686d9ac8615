"""Everyday Python runs at production as it runs anywhere."""

import runpy
from pathlib import Path
from typing import Any

import pytest

PROBES: dict[str, tuple[str, object]] = runpy.run_path(str(Path(__file__).parents[1] / "everyday.py"))["PROBES"]


def test_there_are_at_least_sixty_four_probes() -> None:
    """The promise is a number."""
    assert len(PROBES) >= 64


@pytest.mark.behaviour("isolation.everyday")
@pytest.mark.parametrize("name", PROBES)
def test_everyday_code_gives_its_result(driver: Any, name: str) -> None:
    """The result is what the probe says, and nothing went wrong on the way."""
    code, result = PROBES[name]

    outcome = driver.wait(driver.sandbox.run(code))

    assert (outcome.failure, outcome.result) == (None, result)
