"""Figures about private values: what is found of them, and what hiding them costs."""

__all__ = ()
