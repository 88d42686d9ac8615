"""The tables, as numbered migrations: the one at index n leads from schema n to n + 1.

Their text is in `schema.sql`. A released migration is never changed. Types and statements are kept to what PostgreSQL
understands too, except `BLOB`.
"""

import re
from pathlib import Path

from sealyard.former import RENAME_ROWS
from sealyard.former import SCHEMA as FORMER_SCHEMA

APPLICATION_ID = 0x79617264
"""Marks a database file as ours: `yard`."""


def _read_migrations() -> tuple[str, ...]:
    text = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
    sections = re.split(r"^-- schema \d+\n", text, flags=re.MULTILINE)[1:]
    sections.insert(FORMER_SCHEMA, RENAME_ROWS)
    return tuple(sections)


MIGRATIONS = _read_migrations()
