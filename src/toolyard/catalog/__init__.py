"""Which tools exist, what they are called here, their Python stubs, and whether a call's arguments fit.

Everything an upstream says is hostile text: names, descriptions and schemas.
"""

from toolyard.catalog.arguments import check_arguments
from toolyard.catalog.catalog import Catalog, Change
from toolyard.catalog.snapshot import Snapshot
from toolyard.catalog.stubs import stub_files

__all__ = ("Catalog", "Change", "Snapshot", "check_arguments", "stub_files")
