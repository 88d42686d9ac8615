"""Access of each principal: the tools that it sees, the guard of its session, and the sandbox that runs its code."""

from sealyard.access.finder import Finder
from sealyard.access.guards import Guards
from sealyard.access.runner import Runner
from sealyard.access.tools import Tools, Views
from sealyard.access.unmatched import NameCheck, Unmatched
from sealyard.values.access import OPERATOR

__all__ = ("OPERATOR", "Finder", "Guards", "NameCheck", "Runner", "Tools", "Unmatched", "Views")
