"""Where values stand in data and text, and what names and single values say by themselves."""

__all__ = ()
