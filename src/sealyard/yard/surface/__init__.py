"""The surface that an agent sees: definitions, arguments as models write them, and the texts of answers.

Names are imported on first use: a gateway lists its tools before it can answer a call.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.yard.surface.arguments import as_meant
    from sealyard.yard.surface.definitions import ARGUMENTS, instructions, surface_tools, system_prompt

__all__ = ("ARGUMENTS", "as_meant", "instructions", "surface_tools", "system_prompt")

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__,
        arguments="as_meant",
        definitions="ARGUMENTS instructions surface_tools system_prompt",
    )
