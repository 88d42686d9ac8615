"""Finds the tools that fit a query. `Index` ranks by words; `Semantic` adds meaning, with the extra `semantic`."""

from sealyard.discovery.index import Index, Learned, LearnedWord, Ranking
from sealyard.discovery.semantic import Semantic, load_encoder

__all__ = ("Index", "Learned", "LearnedWord", "Ranking", "Semantic", "load_encoder")
