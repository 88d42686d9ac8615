"""Facts and their sums: recorded, folded, rebuilt, pruned, and read as usage."""

__all__ = ()
