"""Backups of a store: one file that holds all of it, checked as a whole before it replaces anything."""

__all__ = ()
