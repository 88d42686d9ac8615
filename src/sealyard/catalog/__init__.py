"""The tools that exist: their names and versions, checks of arguments, and what they answer.

Everything an upstream says is hostile text: names, descriptions and schemas. Stubs are in `stubs/`, the shapes of
answers in `shapes/`.
"""

from sealyard.catalog.arguments import check_arguments
from sealyard.catalog.bounded_schema import is_checkable
from sealyard.catalog.cache import Recent
from sealyard.catalog.catalog import Catalog
from sealyard.catalog.shapes.drift import DriftWatch
from sealyard.catalog.shapes.places import LearnedShape
from sealyard.catalog.snapshot import Snapshot

__all__ = ("Catalog", "DriftWatch", "LearnedShape", "Recent", "Snapshot", "check_arguments", "is_checkable")
