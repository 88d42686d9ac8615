"""Which tools exist, what they are called here, their Python stubs, and whether a call's arguments fit.

Everything an upstream says is hostile text: names, descriptions and schemas.
"""

from sealyard.catalog.arguments import check_arguments
from sealyard.catalog.catalog import Catalog, Change
from sealyard.catalog.snapshot import Snapshot
from sealyard.catalog.stubs import stub_files

__all__ = ("Catalog", "Change", "Snapshot", "check_arguments", "stub_files")
