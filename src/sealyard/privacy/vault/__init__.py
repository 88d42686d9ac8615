"""Tokens and the private values they stand for, sealed at rest."""

__all__ = ()
