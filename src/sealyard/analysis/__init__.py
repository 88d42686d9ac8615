"""Analysis without code: filter, aggregate, transform, validate and statistics over rows, carried out in the sandbox.

`guest` is shipped into the sandbox, where it is called `sealyard_analysis`.
"""

from pathlib import Path

__all__ = ("GUEST",)

GUEST = Path(__file__).parent / "guest"
"""The folder of the package `sealyard_analysis`."""
