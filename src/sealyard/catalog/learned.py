"""What was learned of a tool's answers, as the catalog shows it. It is worked out elsewhere, from the journal."""

from typing import Any

import msgspec


class LearnedShape(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of one major version of a tool, as whoever may see this has a right to know them."""

    schema: dict[str, Any]
    """A JSON Schema of what code gets to see. `required` was always there; no name, value or bound in it is private."""
    major: int
    answers: int
    """How many it was learned from. Old ones count less."""
    principals: int
    """Who got them; at most sixteen are counted."""
    last_at: float
    conflicts: tuple[str, ...] = ()
    """Sentences of ours: where the answers are not what the tool declares."""
