"""Private values: found by what they are and where they stand, replaced by tokens, turned back for tools only."""

__all__ = ()
