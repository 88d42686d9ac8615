"""Figures about private values: the share that is found, and the cost of hiding them."""

from pathlib import Path
from typing import Any

from benchmarks.privacy import detection, mails, scanner
from sealyard.cli.loop import run_to_end

__all__ = ("measure", "show")


def measure(data: Path | None, rounds: int) -> dict[str, Any]:
    """Every figure of `benchmarks privacy`: of labelled data if there is any, and of the rounds if there are any."""
    figures = {} if data is None else detection.measure(data)
    if rounds:
        figures["end_to_end"] = run_to_end(mails.measure(rounds))
        figures["scanner"] = scanner.measure(rounds=rounds)
    return figures


def show(figures: dict[str, Any]) -> None:
    """Print the same figures as tables."""
    if "recall_rows" in figures:
        detection.show(figures)
    if "scanner" in figures:
        mails.show(figures["end_to_end"])
        scanner.show(figures["scanner"])
