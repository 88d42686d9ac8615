"""Private values found by their own form and by where they stand."""

__all__ = ()
