"""How much of what the store holds."""

import sqlite3

import msgspec

__all__ = ("Census", "read_census")


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is."""

    size_bytes: int
    skills: dict[str, int]
    """The newest version of each, by its status."""


def read_census(connection: sqlite3.Connection) -> Census:
    """Count."""
    pages, page_bytes = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    skills = connection.execute(
        "SELECT status, COUNT(*) FROM skills AS each WHERE deleted_at IS NULL AND number = (SELECT MAX(number)"
        " FROM skills WHERE namespace = each.namespace AND name = each.name AND deleted_at IS NULL) GROUP BY status"
    )
    return Census(size_bytes=pages * page_bytes, skills=dict(skills))
