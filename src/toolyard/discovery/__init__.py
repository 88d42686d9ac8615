"""Finds tools by what is asked for. `Index` ranks by words; `toolyard.discovery.semantic` adds meaning as an extra."""

from toolyard.discovery.index import Index, Ranking
from toolyard.discovery.learned import Learned, LearnedWord

__all__ = ("Index", "Learned", "LearnedWord", "Ranking")
