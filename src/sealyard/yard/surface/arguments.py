"""Arguments as clients write them: what they leave out spelled as null, and names that other programs use for ours."""

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from sealyard.errors import InvalidRequest
from sealyard.values.documents import check_values, read_exactly
from sealyard.yard.surface.definitions import ARGUMENTS

SPELLINGS = {"detail": "detail_level", "keyword": "query", "skill_name": "name"}
"""Accepted beside our own names, and advertised nowhere."""
_CHOICES = frozenset(("analysis_type", "detail_level", "isolation_level"))
"""Arguments with a few words to choose from, all of them in small letters."""
_NOTHING = frozenset(("null", "none"))
_JSON_CHARACTERS = 1 << 17
"""Of JSON in all texts of a request: decoded in 20 ms, whatever is in it. More rows belong in a file."""
_OBJECTS = (inspect.AnyType, inspect.DictType)
_TEXTS = (inspect.AnyType, inspect.StrType)
_LISTS = (inspect.ListType, inspect.VarTupleType)
_SECONDS = (inspect.FloatType,)  # no argument of another meaning is a float

_ADVERTISED = {
    "delete_skill": "load_skill",
    "execute_python": "execute_code",
    "list_skills": "find_skills",
    "search_skills": "find_skills",
}
"""Names that are answered and not advertised, and the tool whose arguments they take."""
_K = TypeVar("_K", bound=msgspec.Struct)


class SearchArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Those of `search_tools`."""

    query: str = ""
    detail_level: str = "with_description"
    server: str | None = None
    limit: int = 5


class ExecuteArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Those of `execute_code`."""

    code: str = ""
    language: str = "python"
    context: dict[str, Any] | None = None
    session: str | None = None
    timeout_seconds: float | None = None
    timeout: float | None = None
    isolation_level: str | None = None
    background: bool = False
    execution_id: str | None = None
    cancel: bool = False


class CallArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Those of `call_tool`."""

    name: str
    arguments: dict[str, Any] = {}


class FindArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Those of `find_skills`."""

    query: str = ""
    limit: int = 5
    detail_level: str = ""
    """Taken and without effect: what is found of a skill is always shown whole."""


class ListArguments(FindArguments):
    """Those of `list_skills`."""

    limit: int = 50


class LoadArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Those of `load_skill`."""

    name: str
    version: str | None = None


def convert(tool: str, given: Mapping[str, Any], kind: type[_K]) -> _K:
    """The arguments of a tool as `kind`. Raises `InvalidRequest`, which lists those that are advertised."""
    try:
        return msgspec.convert(as_meant(with_decoded(given, kind), kind), kind, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(ARGUMENTS[_ADVERTISED.get(tool, tool)])
        raise InvalidRequest(f"The arguments of {tool} are wrong: {error}. It takes {known}.") from None


def as_meant(given: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The arguments under our names. One that is null is absent, and so is an optional one that is empty.

    Empty is `""`, 0 for seconds, `{}` where an object belongs, and `null` or `None` as a text where no text belongs.

    Raises:
        InvalidRequest: Two names of one argument have different values.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    meant: dict[str, Any] = {}
    for name, value in given.items():
        known = name if name in fields else SPELLINGS.get(name, name)
        known = known if known in fields else name
        is_required = name in fields and fields[name].required
        is_empty = value == "" or (value == {} and known in _fields_of(kind, *_OBJECTS))
        is_empty = is_empty or (type(value) in (int, float) and not value and known in _fields_of(kind, *_SECONDS))
        if isinstance(value, str) and known in _CHOICES:
            value = value.strip().lower()
        elif isinstance(value, str) and value.strip().lower() in _NOTHING and known not in _fields_of(kind, *_TEXTS):
            is_empty = True
        if value is None or (is_empty and known in fields and not is_required):
            continue
        if known in meant and meant[known] != value:
            other = next(each for each in given if each != name and SPELLINGS.get(each, each) == known)
            raise InvalidRequest(f"{other} and {name} differ. Give one of them: they mean the same.")
        meant[known] = value
    return meant


def with_decoded(given: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The arguments, with JSON in a text decoded where an object or a list belongs: some clients declare it as text.

    Raises:
        InvalidRequest: A text holds too many values or levels.
    """
    structures = _fields_of(kind, *_OBJECTS, *_LISTS)
    texts = {
        name: value
        for name, value in given.items()
        if name in structures and isinstance(value, str) and value.lstrip().startswith(("{", "["))
    }
    if sum(map(len, texts.values())) > _JSON_CHARACTERS:
        return dict(given)
    return {**given, **{name: _decoded(name, text) for name, text in texts.items()}}


@functools.cache
def _fields_of(kind: type[msgspec.Struct], *types: type[inspect.Type]) -> frozenset[str]:
    """The arguments whose type is one of these, or a union with one of them."""
    found = set()
    for field in msgspec.structs.fields(kind):
        info = inspect.type_info(field.type)
        if any(isinstance(each, types) for each in (info.types if isinstance(info, inspect.UnionType) else (info,))):
            found.add(field.encode_name)
    return frozenset(found)


def _decoded(name: str, text: str) -> Any:
    """The object or list that a text holds, or the text."""
    try:
        value = read_exactly(text)
    except (ValueError, RecursionError):
        return text
    check_values(name, value)
    return value
