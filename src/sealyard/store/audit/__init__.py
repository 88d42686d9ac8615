"""The audit log of a store: written, exported, and proved to be as it was written."""

__all__ = ()
