"""Skills and changes of tools, made to measure migration: what a change really was, and whether code followed it."""

__all__ = ()
