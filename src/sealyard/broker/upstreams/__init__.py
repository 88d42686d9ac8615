"""Connections to what offers tools, one package for each kind of source."""

__all__ = ()
