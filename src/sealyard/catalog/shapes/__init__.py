"""The shapes of tools' answers: read, recorded, and built into schemas; and a watch for answers that change."""

from sealyard.catalog.shapes.places import Audience, Copying, Place, Reading, build_schema, children_of, fits, is_named

__all__ = ("Audience", "Copying", "Place", "Reading", "build_schema", "children_of", "fits", "is_named")
