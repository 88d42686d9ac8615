"""One MCP server in front of all your MCP servers: agents search for tools and use them from sandboxed Python.

Imports run downward only: cli > examples > serve > testing > yard > learning > skills > observe > access > config >
broker | sandbox | discovery | analysis > catalog > store > privacy | versioning | metrics > code | offload > values >
doors | former | signing | wording > disk | errors (`make check` proves it). This module imports nothing heavy, so
`sealyard --help` starts at once. Import the library from `sealyard.yard`.
"""

from sealyard.errors import SealyardError

__all__ = ("SealyardError", "__version__")

__version__ = "0.1.0"
