"""Arguments as clients write them: what they leave out spelled as null, and names that other programs use for ours."""

import functools
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

from sealyard.errors import InvalidRequest

SPELLINGS = {"detail": "detail_level", "keyword": "query", "skill_name": "name"}
"""Accepted beside our own names, and advertised nowhere."""
_JSON_CHARACTERS = 1 << 18
"""Of JSON in a text: decoded in a few milliseconds, whatever is in it. More rows belong in a file of the workspace."""
_STRUCTURES = (inspect.AnyType, inspect.DictType, inspect.ListType, inspect.VarTupleType)


def as_meant(given: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The arguments under our names. One that is null is absent, and so is an optional one that is `""` or `{}`.

    Where an object or a list belongs, JSON in a text is one too: some clients declare it as a text.

    Raises:
        InvalidRequest: Two names of one argument have different values.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    meant: dict[str, Any] = {}
    for name, value in given.items():
        known = name if name in fields else SPELLINGS.get(name, name)
        known = known if known in fields else name
        is_required = name in fields and fields[name].required
        if value is None or (value in ("", {}) and known in fields and not is_required):
            continue
        if known in meant and meant[known] != value:
            other = next(each for each in given if each != name and SPELLINGS.get(each, each) == known)
            raise InvalidRequest(f"{other} and {name} differ. Give one of them: they mean the same.")
        meant[known] = _decoded(value) if isinstance(value, str) and known in _structures(kind) else value
    return meant


@functools.cache
def _structures(kind: type[msgspec.Struct]) -> frozenset[str]:
    """The arguments that may be an object or a list and have no meaning as a text."""
    found = set()
    for field in msgspec.structs.fields(kind):
        info = inspect.type_info(field.type)
        types = info.types if isinstance(info, inspect.UnionType) else (info,)
        if any(isinstance(each, _STRUCTURES) for each in types):
            found.add(field.encode_name)
    return frozenset(found)


def _decoded(text: str) -> Any:
    """The object or list that a text holds, or the text."""
    if len(text) > _JSON_CHARACTERS or not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
