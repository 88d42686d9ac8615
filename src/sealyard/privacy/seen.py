"""What one guard tells another of the same session: the values that it has seen."""

import msgspec

__all__ = ("Seen",)


class Seen(msgspec.Struct, kw_only=True):
    """Values that a guard has come to know, in the order in which it did. Types and texts."""

    known: list[tuple[str, str]] = []
    """Hidden: looked for in what enters."""
    held: list[tuple[str, str]] = []
    """In the code's hands: looked for in what leaves."""
    public: list[str] = []
    """Declared to be no secret."""
