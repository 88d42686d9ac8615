"""Finds tools by what is asked for. `Index` ranks by words; `sealyard.discovery.semantic` adds meaning as an extra."""

from sealyard.discovery.index import Index, Ranking
from sealyard.discovery.learned import Learned, LearnedWord

__all__ = ("Index", "Learned", "LearnedWord", "Ranking")
