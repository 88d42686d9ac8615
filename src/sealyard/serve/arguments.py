"""Arguments as clients write them: what they leave out spelled as null, and names that other programs use for ours."""

from collections.abc import Mapping
from typing import Any

import msgspec

from sealyard.errors import InvalidRequest

SPELLINGS = {"detail": "detail_level", "keyword": "query", "skill_name": "name"}
"""Accepted beside our own names, and advertised nowhere."""


def as_meant(given: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The arguments under our names. One that is null is absent, and so is an optional one that is an empty string.

    Raises:
        InvalidRequest: Two names of one argument have different values.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    meant: dict[str, Any] = {}
    for name, value in given.items():
        known = name if name in fields else SPELLINGS.get(name, name)
        known = known if known in fields else name
        is_required = name in fields and fields[name].required
        if value is None or (value == "" and known in fields and not is_required):
            continue
        if known in meant and meant[known] != value:
            other = next(each for each in given if each != name and SPELLINGS.get(each, each) == known)
            raise InvalidRequest(f"{other} and {name} differ. Give one of them: they mean the same.")
        meant[known] = value
    return meant
