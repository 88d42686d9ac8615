"""Saved agent code: the shelf, what a skill needs, recorded answers to test it against, and sharing."""

__all__ = ()
