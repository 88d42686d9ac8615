"""Analysis without code: filter, aggregate, transform, validate and statistics over rows, carried out in the sandbox.

`guest` is shipped into the sandbox, where it is called `sealyard_analysis`.
"""

from pathlib import Path

from sealyard import former

__all__ = ("GUEST", "GUESTS")

GUEST = Path(__file__).parent / "guest"
"""The folder of the package `sealyard_analysis`."""
GUESTS = {"sealyard_analysis": GUEST, former.ANALYSIS: GUEST.with_name("guest_alias")}
"""All folders that go into the sandbox, by the name that code imports them by."""
