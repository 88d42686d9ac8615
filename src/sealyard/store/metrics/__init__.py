"""Facts and their sums: kept, folded, counted anew, removed when they are old, and read as usage."""

__all__ = ()
