"""All that agent code can import besides the standard library: the stubs of tools, and guest packages."""

from sealyard.sandbox.importable.library import Library, open_library
from sealyard.sandbox.importable.packages import GuestPackages, add_own, find_packages

__all__ = ("GuestPackages", "Library", "add_own", "find_packages", "open_library")
