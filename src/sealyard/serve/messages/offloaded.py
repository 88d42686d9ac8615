"""Conceals private values in relayed messages, on the event loop and in helper processes alike."""

import base64
import binascii
import re
import secrets
from typing import Any

import msgspec

from sealyard.broker.answers import read_leniently, short
from sealyard.errors import UpstreamError
from sealyard.offload.child import Ask
from sealyard.privacy import TOKEN, Guard, Mirror, Sent
from sealyard.serve.messages.structure import Shape, shape_of
from sealyard.values.tools import ToolSpec

_ORDER = {"structured": 0, "data": 1}
"""Fields come first: they show which values are private, and the texts beside them are then searched for these."""
_WORDS = frozenset({"structured", "data", "text"})
_REPEATING = frozenset({"echo", "handle"})
_SEARCHED = _WORDS | _REPEATING | {"blob"}
"""A blob too: it may not be base64, or may encode text."""
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*:(?://)?)?(.*)", re.IGNORECASE | re.ASCII | re.DOTALL)


class Scribe:
    """Writes parts that depend on the values behind tokens, where the tokens are final."""

    def kind_of(self, token: re.Match[str]) -> str:
        """The type of the value that a token stands for."""
        return token[1].lower()

    def blob(self, text: str, encoding: str) -> str:
        """A text with tokens as base64."""
        return base64.b64encode(text.encode(encoding, "replace")).decode()


_SCRIBE = Scribe()


def conceal(guard: Guard, shape: Shape, value: Any, spec: ToolSpec, sent: Sent, *, scribe: Scribe = _SCRIBE) -> Any:
    """A part of a message as a client may see it; the very same if nothing in it is private.

    Raises what `Guard.admit` does, and `RecursionError` for data that is nested too deeply.
    """
    leaves: list[tuple[str, Any]] = []

    def note(kind: str, each: Any) -> Any:
        leaves.append((kind, each))
        return each

    shape(value, note)
    made = _replaced(guard, leaves, spec, sent, scribe)
    if all(new is old or new == old for new, (_, old) in zip(made, leaves, strict=True)):
        return value
    rest = iter(made)
    return shape(value, lambda *_: next(rest))


def _replaced(guard: Guard, leaves: list[tuple[str, Any]], spec: ToolSpec, sent: Sent, scribe: Scribe) -> list[Any]:
    made: list[Any] = [None] * len(leaves)
    for number in sorted(range(len(leaves)), key=lambda number: _ORDER.get(leaves[number][0], 2)):
        kind, value = leaves[number]
        if kind in _REPEATING:
            made[number] = _unforged(guard, value) if kind == "echo" else value
        elif kind == "blob":
            made[number] = _blob(guard, value, spec, sent, scribe)
        else:
            new = guard.conceal_admitted(spec, guard.admit(spec, value, sent=sent))
            if kind == "uri":
                new = value if new == value else _token_address(guard, value)
            elif kind == "form":
                new = _form(guard, value, new, sent, scribe)
            made[number] = new
    _without_echoes(guard, leaves, made, sent)
    for number, (kind, value) in enumerate(leaves):
        if kind == "handle":
            made[number] = _handle(guard, value, made[number])
    return made


def _without_echoes(guard: Guard, leaves: list[tuple[str, Any]], made: list[Any], sent: Sent) -> None:
    """Conceal values that were sent: in leaves searched for nothing else, and where a value is split over leaves."""
    searched = [number for number, (kind, _) in enumerate(leaves) if kind in _SEARCHED]
    if not guard.is_repeated_to(sent) or (len(searched) == 1 and leaves[searched[0]][0] in _WORDS):
        return
    whole = guard.admit_echoes([made[number] for number in searched], sent=sent)
    for number, each in zip(searched, whole, strict=True):
        made[number] = made[number] if made[number] == each else each


def _unforged(guard: Guard, value: Any) -> Any:
    """Conceal text that only looks like a token, so that it comes back as that text and not as a value."""
    assert guard.scope is not None
    scope = guard.scope
    if isinstance(value, str):
        return value if TOKEN.search(value) is None else TOKEN.sub(lambda match: scope.token("text", match[0]), value)
    if isinstance(value, dict):
        made = {_unforged(guard, key): _unforged(guard, item) for key, item in value.items()}
        return made if any(made.get(key) is not item for key, item in value.items()) else value
    if isinstance(value, list):
        items = [_unforged(guard, item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _handle(guard: Guard, value: str, shown: str) -> str:
    """A string that comes back to the upstream: one token if it may not be shown or looks like a token."""
    assert guard.scope is not None
    return value if shown == value and TOKEN.search(value) is None else guard.scope.token("text", value)


def _blob(guard: Guard, value: str, spec: ToolSpec, sent: Sent, scribe: Scribe) -> str:
    """Base64 of a text with private values concealed; any other value unchanged."""
    try:
        content = base64.b64decode(value)
    except (binascii.Error, ValueError):
        return value
    if (encoding := guard.file_encoding(spec, content, sent=sent)) is None:
        return value
    text = content.decode(encoding)
    shown = guard.conceal_admitted(spec, guard.admit(spec, text, sent=sent))
    return value if shown == text else scribe.blob(str(shown), encoding)


def _form(guard: Guard, value: str, found: str, sent: Sent, scribe: Scribe) -> str:
    """A text of a form. Mere names of persons stay: they look the same as one of many choices."""
    if any(scribe.kind_of(token) != "person" for token in TOKEN.finditer(found)):
        return found
    return str(guard.admit_echoes(value, sent=sent))


def _token_address(guard: Guard, value: str) -> str:
    """An address that leads back to exactly itself: all but its scheme as one token."""
    found = _ADDRESS.fullmatch(value)
    assert found is not None
    assert guard.scope is not None
    return (found[1] or "") + guard.scope.token("text", found[2])


remember = Mirror.remember

_INTERNAL_ERROR = -32603  # of JSON-RPC; the SDK's constant would import the SDK


class Made(msgspec.Struct, kw_only=True):
    """The outcome for a document."""

    changed: bool
    kind: str
    """`error` for a message that was to be a result and is an error."""
    fields: list[tuple[str, int]] = []
    """Of a result in a whole message, the lengths of its fields in the document; else one without a name."""
    items: list[int] = []
    """The lengths of the items of a list, behind the fields."""


class _Given(msgspec.Struct):
    kind: str
    method: str
    spec: ToolSpec
    sent: dict[str, Any]
    is_message: bool = False
    """True if the document is a whole message as received."""
    version: str = ""
    """The protocol that the client speaks: a result in a whole message gets the form that this version gives it."""
    items: str = ""
    """The list field of a result in a whole message whose items are returned one by one."""


def relay(params: Any, body: bytes, mirror: Mirror | None, ask: Ask) -> tuple[Any, bytes]:
    """Return a document as a client may see it. Without a mirror nothing is private."""
    given = msgspec.convert(params, _Given)
    value = _read(given, body)
    if mirror is None:
        made, documents = _written(given, value, is_changed=True)
        return msgspec.to_builtins(made), b"".join(documents)
    mirror.begin()
    scribe = _LaterScribe(mirror)
    shown = _shown(mirror.guard, given, value, scribe)
    made, documents = _written(given, shown, is_changed=shown is not value)
    counted, settled = mirror.settle([*documents, *scribe.texts()], ask)
    done = scribe.done(settled[: len(documents)], settled[len(documents) :])
    lengths = [len(each) for each in done]
    made.fields = [(name, length) for (name, _), length in zip(made.fields, lengths, strict=False)]
    made.items = lengths[len(made.fields) :]
    return {**msgspec.to_builtins(made), **counted}, b"".join(done)


def relay_here(guard: Guard, params: Any, body: bytes) -> tuple[Made, bytes]:
    """The same in this process."""
    given = msgspec.convert(params, _Given)
    value = _read(given, body)
    shown = value if guard.is_off else _shown(guard, given, value, Scribe())
    made, documents = _written(given, shown, is_changed=shown is not value)
    return made, b"".join(documents)


def _shown(guard: Guard, given: _Given, value: Any, scribe: Scribe) -> Any:
    shape, sent = shape_of(given.kind, given.method), Sent.from_data(given.sent)
    shown = conceal(guard, shape, value, given.spec, sent, scribe=scribe)
    if given.is_message and shown is not value and "cacheScope" in shown:
        return {**shown, "cacheScope": "private"}  # tokens are one principal's
    return shown


def _read(given: _Given, body: bytes) -> Any:
    """The document, or the part of a message that is meant. An answer that is an error is read as one."""
    if not given.is_message:
        return msgspec.json.decode(body)
    try:
        try:
            data = msgspec.json.decode(body)
        except ValueError:
            data = read_leniently(body)
    except RecursionError:
        raise UpstreamError("The answer is nested too deeply to be read. Ask for less.") from None
    except ValueError as error:
        raise UpstreamError(f"The answer is no JSON: {short(str(error), 300)}.") from None
    data = data if isinstance(data, dict) else {}
    found = data.get("result" if given.kind == "result" else "params")
    if isinstance(found, dict) or given.kind != "result":
        return found if isinstance(found, dict) else {}
    words = data.get("error")
    fields = words if isinstance(words, dict) else {"message": words}
    code, said = fields.get("code"), fields.get("message")
    given.kind = "error"
    return [
        code if isinstance(code, int) and not isinstance(code, bool) else _INTERNAL_ERROR,
        said if isinstance(said, str) else "The server's answer is neither a result nor an error.",
        fields.get("data"),
    ]


def _written(given: _Given, value: Any, *, is_changed: bool) -> tuple[Made, list[bytes]]:
    """A value as JSON; a result in a whole message field by field."""
    made = Made(changed=is_changed, kind=given.kind)
    if not given.is_message and not is_changed:
        return made, []
    if not given.is_message or given.kind != "result":
        documents = [msgspec.json.encode(value)]
        made.fields = [("", len(documents[0]))]
        return made, documents
    if given.version:
        # Here and not above: a helper that never sees a large result does without the SDK.
        from sealyard.serve.messages.forms import finished, sieved  # noqa: PLC0415

        value = sieved(finished(value, given.method, given.version), given.method, given.version)
    items = value.get(given.items)
    items = items if given.items and isinstance(items, list) else []
    fields = {name: msgspec.json.encode(item) for name, item in value.items() if name != given.items}
    made.fields = [(name, len(document)) for name, document in fields.items()]
    documents = [*fields.values(), *map(msgspec.json.encode, items)]
    made.items = [len(document) for document in documents[len(fields) :]]
    return made, documents


class _LaterScribe(Scribe):
    """The same in a helper process, where tokens are final only at the end: a mark replaces each blob until then."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._mark = f"blob-{secrets.token_hex(16)}-"
        self._blobs: list[tuple[str, str]] = []

    def kind_of(self, token: re.Match[str]) -> str:
        """The type of the value that a stand-in stands for."""
        return self._mirror.kind_of(token)

    def blob(self, text: str, encoding: str) -> str:
        """A mark for it."""
        self._blobs.append((text, encoding))
        return f"{self._mark}{len(self._blobs) - 1:08x}"

    def texts(self) -> list[bytes]:
        """The texts of blobs, which still need their tokens."""
        return [text.encode("utf-8", "surrogatepass") for text, _ in self._blobs]

    def done(self, documents: list[bytes], texts: list[bytes]) -> list[bytes]:
        """The documents with base64 of these texts in the place of the marks."""
        if not texts:
            return documents
        made = [
            super(_LaterScribe, self).blob(text.decode("utf-8", "surrogatepass"), encoding).encode()
            for text, (_, encoding) in zip(texts, self._blobs, strict=True)
        ]
        mark = re.compile(self._mark.encode() + rb"([0-9a-f]{8})")
        return [mark.sub(lambda match: made[int(match[1], 16)], each) for each in documents]
