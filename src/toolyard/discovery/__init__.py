"""Finds tools by what is asked for. `Index` ranks by words; `toolyard.discovery.semantic` adds meaning as an extra."""

from toolyard.discovery.index import Index, Ranking

__all__ = ("Index", "Ranking")
