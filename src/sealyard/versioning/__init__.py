"""How a tool changed, what that means for code that calls it, and that code rewritten. Pure: it keeps nothing."""

__all__ = ()
