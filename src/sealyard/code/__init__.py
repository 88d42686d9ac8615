"""Agent code, read once: the syntax tree of a text, or why it has none, for everybody who asks about that text."""

from sealyard.code.source import MAX_CODE_BYTES, Fault, Source, is_larger, read

__all__ = ("MAX_CODE_BYTES", "Fault", "Source", "is_larger", "read")
