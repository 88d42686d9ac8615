"""A guest package that maps much and touches nothing, as libraries for data do: every worker begins with the room."""

import mmap

room = mmap.mmap(-1, 256 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
