"""Three MCP servers to try toolyard with: `python -m toolyard.examples.expenses`, `trips` and `files`.

Their data is made up when they start, always the same, and forgotten when they end. Only the files server touches
the disk, and only inside the directory it is given.
"""

import sys
from pathlib import Path

from toolyard.values import UpstreamConfig

__all__ = ("demo_upstreams",)


def demo_upstreams(directory: Path) -> dict[str, UpstreamConfig]:
    """How to start the three, by name. The files server gets `directory` and puts its samples there if it is empty."""
    arguments = {"expenses": (), "trips": (), "files": ("--samples", str(directory))}
    return {
        name: UpstreamConfig(
            name=name,
            transport="stdio",
            command=sys.executable,
            args=("-P", "-m", f"{__name__}.{name}", *more),  # -P: what lies in the current directory is not imported
        )
        for name, more in arguments.items()
    }
