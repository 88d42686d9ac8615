"""What one guard tells another of the same session: the values that it has seen."""

import msgspec

__all__ = ("NOTHING_SEEN", "Position", "Seen")

Position = tuple[int, int, int, int, int]
"""How much of each kind was told already, in the order of the fields of `Seen`."""
NOTHING_SEEN: Position = (0, 0, 0, 0, 0)


class Seen(msgspec.Struct, kw_only=True):
    """Values that a guard has come to know, in the order in which it did. Types and texts."""

    known: list[tuple[str, str]] = []
    """Hidden: looked for in what enters."""
    held: list[tuple[str, str]] = []
    """In the code's hands: looked for in what leaves."""
    public: list[str] = []
    """Declared to be no secret."""
    handed: list[list[tuple[str, str | None]]] = []
    """Strings that tools were handed, in pieces: looked for in what enters, whatever stands beside them."""
    own: list[str] = []
    """Parts of those that code wrote itself: left as they are in what enters."""
