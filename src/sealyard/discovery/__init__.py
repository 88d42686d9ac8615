"""Finds the tools that fit a query. `Index` ranks by words; `Semantic` adds meaning, with the extra `semantic`.

Learning reads queries by the same words: `spelled`, `stems`, `terms` and `WEAK` are those of the index.
"""

from sealyard.discovery.index import Index, Learned, LearnedWord
from sealyard.discovery.semantic import Semantic
from sealyard.discovery.words import WEAK, spelled, stems, terms

__all__ = ("WEAK", "Index", "Learned", "LearnedWord", "Semantic", "spelled", "stems", "terms")
