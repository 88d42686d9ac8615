"""TOML as text: written, and changed in one table while the comments, the order and the layout of the rest stay."""

import tomllib
from collections.abc import Mapping
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError


def dump_toml(table: Mapping[str, Any]) -> str:
    """The document that `tomllib.loads` reads as `table`: plain values first, then a section for each table in it.

    TOML has no `None`: a key that has it is left out.
    """
    return tomlkit.dumps(_without_none(table))


def replace_table(text: str, key: str, table: Mapping[str, Any]) -> str | None:
    """The text with another table at the top-level key, however that was written; `None` if that cannot be done."""
    plain = text.replace("\r\n", "\n").removeprefix("\ufeff")
    wanted = tomllib.loads(plain) | {key: table}
    for in_place in (True, False):
        try:
            document = tomlkit.parse(plain)
            if not in_place:  # its parts are scattered over the file
                del document[key]
            document[key] = table
            changed = tomlkit.dumps(document)
            if tomllib.loads(changed) == wanted:
                break
        except (TOMLKitError, tomllib.TOMLDecodeError):
            continue
    else:
        return None
    changed = changed.replace("\n", "\r\n") if "\r\n" in text else changed
    return "\ufeff" + changed if text.startswith("\ufeff") else changed


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if value is not None
    }
