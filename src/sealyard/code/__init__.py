"""Agent code, read once for each text: its syntax tree, its names, and the tools and skills that it uses.

`Source.names` is the one table of scopes, imports and calls. Review, skills, learning and migration ask it.
"""

from sealyard.code.names import Names
from sealyard.code.source import MAX_CODE_BYTES, Source, parse, read
from sealyard.code.uses import SkillRef, ToolRef, find_uses

__all__ = ("MAX_CODE_BYTES", "Names", "SkillRef", "Source", "ToolRef", "find_uses", "parse", "read")
