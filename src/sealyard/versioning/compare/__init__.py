"""How two definitions of a tool differ: what changed, what is proven to be the same, and which version that makes."""

__all__ = ()
