"""How a tool changed, what that means for code that calls it, and that code rewritten. Pure: nothing is read or kept."""

__all__ = ()
