"""One record of every execution and every call, and everything that reads it: journal, tokens, live views, alerts."""

__all__ = ()
