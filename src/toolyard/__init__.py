"""Runs agent-written Python in a sealed Linux sandbox.

Imports run downward only: cli > sandbox > values > errors (`make check` proves it). This module imports nothing
heavy, so that `toolyard --help` starts at once: take the library from `toolyard.sandbox`.
"""

from toolyard.errors import ToolyardError

__all__ = ("ToolyardError", "__version__")

__version__ = "0.1.0"
