"""What a request asks for, read from its query and its body. What is wrong is named with what would be right."""

import functools
from collections.abc import Iterable
from typing import Any, Literal, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from sealyard.serve.envelope import Refusal
from sealyard.wording import suggest

_MOST_PARAMETERS = 50
_SHOWN_CHARACTERS = 100

_T = TypeVar("_T")


def read_query(request: Request, kind: Any) -> Any:
    """The query as a `kind`, or None if that is None. Raises `Refusal`."""
    if kind is None and not request.scope["query_string"]:
        return None
    text = request.scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS, errors="strict")
    except ValueError:
        message = f"The query is no text in UTF-8, or has more than {_MOST_PARAMETERS} parameters. Encode it anew."
        raise Refusal("invalid_request", message) from None
    known = _fields(kind)
    _check_names((name for name, _ in pairs), known, "parameter")
    given = dict(pairs)
    if len(given) < len(pairs):
        twice = next(name for name in given if sum(name == each for each, _ in pairs) > 1)
        raise Refusal("invalid_request", f"{twice} is given more than once. Give it once.")
    if kind is None:
        return None
    query = _convert(given, kind, "query", is_text=True)
    nothing = next((name for name in given if getattr(query, name) is None), None)
    if nothing is not None:  # "null" is text here, and none that this parameter can be
        raise Refusal("invalid_request", f"{nothing} is {given[nothing]!r}. Leave it out, or give it a value.")
    return query


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """The whole body. Raises `Refusal` if it is too long; a slow one is cut off by its `HttpConnection`."""
    message = f"The body has more than {limit_bytes:,} bytes. Send less."
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > limit_bytes:
        raise Refusal("too_large", message)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit_bytes:
            raise Refusal("too_large", message)
    return bytes(body)


def to_body(body: bytes, content_type: str, kind: Any) -> Any:
    """The body as a `kind`; None if that is None, and then the body must say nothing. Raises `Refusal`."""
    if kind is None and not body:
        return None
    media = content_type.partition(";")[0].strip().lower()
    if media != "application/json":  # which a form of a foreign page cannot send
        raise Refusal("invalid_request", f"The body is {media[:_SHOWN_CHARACTERS]!r}. Send application/json.")
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal("invalid_request", f"The body is no JSON: {error}. {_example(kind)}") from None
    if not isinstance(value, dict):
        raise Refusal("invalid_request", f"The body is no JSON object. {_example(kind)}")
    _check_names(value, _fields(kind), "field")
    return None if kind is None else _convert(value, kind, "body", is_text=False)


def _convert(value: dict[str, Any], kind: type[_T], where: str, *, is_text: bool) -> _T:
    try:
        return msgspec.convert(value, kind, strict=not is_text)
    except msgspec.ValidationError as error:
        told = str(error).replace(" - at `$.", ", in `").removesuffix(" - at `$`")
        raise Refusal("invalid_request", f"The {where} is wrong: {told}. {_expected(kind, told)}") from None
    except (RecursionError, OverflowError):
        raise Refusal("invalid_request", f"The {where} holds what cannot be read. {_takes(kind)}") from None


def _check_names(names: Iterable[str], known: tuple[str, ...], what: str) -> None:
    for name in names:
        if name not in known:
            advice = suggest(name, known, _listed(known, what))
            raise Refusal("invalid_request", f"There is no {what} {name[:_SHOWN_CHARACTERS]!r} here. {advice}")


@functools.cache
def _fields(kind: Any) -> tuple[str, ...]:
    return () if kind is None else tuple(field.encode_name for field in msgspec.structs.fields(kind))


def _expected(kind: Any, told: str) -> str:
    """The words that the field at fault takes, if they are few; else which fields there are."""
    fields = msgspec.structs.fields(kind)
    words = next((_words(field.type) for field in fields if told.endswith(f", in `{field.encode_name}`")), ())
    return f"Use {', '.join(words)}." if words else _takes(kind)


def _words(kind: Any) -> tuple[str, ...]:
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(word for each in get_args(kind) for word in _words(each))


def _takes(kind: Any) -> str:
    return f"It takes {', '.join(_fields(kind))}."


def _listed(known: tuple[str, ...], what: str) -> str:
    return f"There are: {', '.join(known)}." if known else f"It takes no {what}s."


def _example(kind: Any) -> str:
    if kind is None:
        return "Send none."
    needed = [field.encode_name for field in msgspec.structs.fields(kind) if field.required] or _fields(kind)[:1]
    return "Send {" + ", ".join(f'"{name}": …' for name in needed) + "}."
