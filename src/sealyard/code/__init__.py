"""Agent code, read once for each text: its syntax tree, its names, and the tools and skills that it uses.

`Source.names` is the one table of scopes, imports and calls. Review, skills, learning and migration ask it.
"""

from sealyard.code.names import Names, Place, Variable
from sealyard.code.source import Source, parse, read
from sealyard.code.uses import Ref, find_uses

__all__ = ("Names", "Place", "Ref", "Source", "Variable", "find_uses", "parse", "read")
