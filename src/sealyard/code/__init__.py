"""Reads each text of agent code once: its syntax tree, or why it has none, shared by all who need it."""

from sealyard.code.nodes import children, fields_of
from sealyard.code.source import MAX_CODE_BYTES, Fault, Source, is_larger, read

__all__ = ("MAX_CODE_BYTES", "Fault", "Source", "children", "fields_of", "is_larger", "read")
