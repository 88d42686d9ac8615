"""The tools that exist: their names, versions and Python stubs, the shapes of their answers, checks of arguments.

Everything an upstream says is hostile text: names, descriptions and schemas.
"""

from sealyard.catalog.answers import LearnedShape
from sealyard.catalog.arguments import check_arguments
from sealyard.catalog.cache import Recent
from sealyard.catalog.catalog import Catalog, Change
from sealyard.catalog.drift import DriftWatch
from sealyard.catalog.snapshot import Snapshot
from sealyard.catalog.stubs import stub_files

__all__ = (
    "Catalog",
    "Change",
    "DriftWatch",
    "LearnedShape",
    "Recent",
    "Snapshot",
    "check_arguments",
    "stub_files",
)
