"""What a principal may see and use: its tools, its isolation, its guard."""

__all__ = ()
