"""Conceals private values in relayed messages, on the event loop and in helper processes alike.

No part of a message is skipped. A shape walks a value and hands every string and number in it to a `Leaf`, with its
kind, and takes its replacement:

- `text`, `uri`, `blob` (base64), `form` (a text in a form's schema), `structured` (a tool's structured answer) and
  `data` (any JSON) are searched for all that is private. Everything that the protocol does not define is `data`,
  so that nothing an upstream invents is missed.
- `echo` (any JSON) describes an upstream or its messages: descriptions, icons, media types, sizes. It is searched only
  for values that were sent to upstreams.
- `handle` is a string that comes back to the upstream unchanged: a cursor, a state, a name, a key. If it contains a
  value that was sent to an upstream, all of it becomes one token, revealed when it comes back (`Screen.handles`).

Only the protocol's own words (`_word`) stay unchanged, and only with values that the protocol defines.

Helper processes use this module, so it imports nothing of the SDK.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sealyard.broker.upstreams import decode_answer
from sealyard.offload import Query
from sealyard.privacy import TOKEN, Guard, Mirror, Sent
from sealyard.values.tools import ToolSpec

Leaf = Callable[[str, Any], Any]
Shape = Callable[[Any, Leaf], Any]

_OWN_META = "io.modelcontextprotocol/"
"""Prefix of the protocol's own keys in `_meta`; an upstream's are data."""


def _leaf(kind: str) -> Shape:
    """A string of this kind; any other value is data."""
    return lambda value, leaf: leaf(kind if isinstance(value, str) else "data", value)


def _echo(value: Any, leaf: Leaf) -> Any:
    return value if value is None or isinstance(value, bool) else leaf("echo", value)


def _handle(value: Any, leaf: Leaf) -> Any:
    return leaf("handle", value) if isinstance(value, str) else _echo(value, leaf)


_LEAVES: dict[str, Shape] = {
    **{kind: _leaf(kind) for kind in ("text", "uri", "blob", "data")},
    "structured": lambda value, leaf: leaf("structured", value),
    "echo": _echo,
    "handle": _handle,
}


def _word(*known: str) -> Shape:
    """A word of the protocol. Any other text in its place is the upstream's."""
    return lambda value, leaf: value if isinstance(value, str) and value in known else _echo(value, leaf)


def _each(shape: Shape) -> Shape:
    def walk(value: Any, leaf: Leaf) -> Any:
        return [shape(item, leaf) for item in value] if isinstance(value, list) else leaf("data", value)

    return walk


def _one_or_each(shape: Shape) -> Shape:
    every = _each(shape)
    return lambda value, leaf: every(value, leaf) if isinstance(value, list) else shape(value, leaf)


def _fields(*parts: Mapping[str, Shape], **names: str) -> dict[str, Shape]:
    """Shapes of fields by their names. `parts` have theirs; each keyword is a kind, with the names of its fields."""
    fields = {name: _LEAVES[kind] for kind, those in names.items() for name in those.split()}
    for part in parts:
        fields |= part
    return fields


def _object(*parts: Mapping[str, Shape], rest: str = "data", **names: str) -> Shape:
    """An object with these `_fields`. All other fields together are one leaf of the kind `rest`."""
    known = _fields(*parts, **names)

    def walk(value: Any, leaf: Leaf) -> Any:
        if not isinstance(value, dict):
            return leaf(rest, value)
        made = {name: known[name](item, leaf) for name, item in value.items() if name in known}
        others = {name: item for name, item in value.items() if name not in known}
        return {**made, **leaf(rest, others)} if others else made

    return walk


def _meta(value: Any, leaf: Leaf) -> Any:
    if not isinstance(value, dict):
        return leaf("data", value)
    own = {key: item for key, item in value.items() if key == "progressToken" or key.startswith(_OWN_META)}
    rest = {key: item for key, item in value.items() if key not in own}
    return {**(leaf("echo", own) if own else {}), **(leaf("data", rest) if rest else {})}


def _form(value: Any, leaf: Leaf) -> Any:
    """A form's schema: its structure stays, and its field names are handles, since the input comes back under them."""
    names = value.get("properties") if isinstance(value, dict) else None
    return _form_part(value, leaf, names if isinstance(names, dict) else {})


def _form_part(value: Any, leaf: Leaf, names: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {
            name if name in _FORM_WORDS else leaf("handle", name): _form_part(item, leaf, names)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_form_part(item, leaf, names) for item in value]
    if isinstance(value, str):
        return value if value in _FORM_TYPES else leaf("handle" if value in names else "form", value)
    return _echo(value, leaf)


_FORM_WORDS = frozenset(
    "$schema type properties required title description default enum enumNames oneOf anyOf const items format minimum "
    "maximum minLength maxLength minItems maxItems".split()
)
_FORM_TYPES = frozenset("object string number integer boolean array email uri date date-time".split())


def _block(value: Any, leaf: Leaf) -> Any:
    """A piece of content, or of a sampled message."""
    kind = value.get("type") if isinstance(value, dict) else None
    return (_BLOCKS.get(kind, _UNKNOWN) if isinstance(kind, str) else _UNKNOWN)(value, leaf)


def _questions(value: Any, leaf: Leaf) -> Any:
    """The questions of a modern result to the client, by the upstream's own keys."""
    if not isinstance(value, dict):
        return leaf("data", value)
    return {leaf("handle", key): _question(item, leaf) for key, item in value.items()}


def _question(value: Any, leaf: Leaf) -> Any:
    method = value.get("method") if isinstance(value, dict) else None
    return _object({"method": _word(*_REQUESTS, "roots/list"), "params": _request_shape(str(method))})(value, leaf)


_META: dict[str, Shape] = {"_meta": _meta}
_NOTES: dict[str, Shape] = {**_META, "annotations": _object(echo="audience priority lastModified")}
_UNKNOWN = _object(_NOTES, echo="type mimeType", uri="uri")
_CONTENTS = _object(_META, uri="uri", echo="mimeType", text="text", blob="blob")
_RESOURCE = _fields(_NOTES, uri="uri", text="name title description", echo="mimeType size icons")
_KINDS = ("text", "image", "audio", "resource", "resource_link", "tool_use", "tool_result")
_IN_BLOCK: dict[str, Shape] = {**_NOTES, "type": _word(*_KINDS)}
_MEDIA = _object(_IN_BLOCK, blob="data", echo="mimeType")
_BLOCKS: dict[str, Shape] = {
    "text": _object(_IN_BLOCK, text="text"),
    "image": _MEDIA,
    "audio": _MEDIA,
    "resource": _object(_IN_BLOCK, {"resource": _CONTENTS}),
    "resource_link": _object(_IN_BLOCK, _RESOURCE),
    "tool_use": _object(_IN_BLOCK, handle="id name", data="input"),
    "tool_result": _object(
        _IN_BLOCK, {"content": _each(_block)}, handle="toolUseId", echo="isError", data="structuredContent"
    ),
}
_MESSAGE = _object(_META, {"role": _word("user", "assistant"), "content": _one_or_each(_block)})
_IN_RESULT = _fields(
    _META,
    {
        "resultType": _word("complete", "input_required"),
        "cacheScope": _word("public", "private"),
        "inputRequests": _questions,
    },
    echo="ttlMs",
    handle="nextCursor requestState",
)
_COMPLETION = _object({"values": _each(_LEAVES["text"])}, echo="total hasMore")


def _listing(key: str, name: str) -> Shape:
    """A list of an upstream's offers. Its descriptions are not data, but may repeat values that were sent to it."""
    return _object(_IN_RESULT, {key: _each(_object(handle=name, rest="echo"))}, rest="echo")


_RESULTS: dict[str, Shape] = {
    "tools/call": _object(_IN_RESULT, {"content": _each(_block)}, structured="structuredContent", echo="isError"),
    "resources/read": _object(_IN_RESULT, {"contents": _each(_CONTENTS)}),
    "prompts/get": _object(_IN_RESULT, {"messages": _each(_MESSAGE)}, text="description"),
    "completion/complete": _object(_IN_RESULT, {"completion": _COMPLETION}),
    "initialize": _object(echo="protocolVersion", rest="echo"),
    "server/discover": _object(_IN_RESULT, echo="supportedVersions", rest="echo"),
    "tools/list": _listing("tools", "name"),
    "prompts/list": _listing("prompts", "name"),
    "resources/templates/list": _listing("resourceTemplates", "uriTemplate"),
    # Resources are data. They are searched once their addresses can be mapped back: see "resources".
    "resources/list": _object(_IN_RESULT, {"resources": lambda value, _: value}, rest="echo"),
}
_REQUESTS: dict[str, Shape] = {
    "sampling/createMessage": _object(
        _META,
        {
            "messages": _each(_MESSAGE),
            "includeContext": _word("none", "thisServer", "allServers"),
            "tools": _each(_object(handle="name", rest="echo")),
        },
        text="systemPrompt",
        echo="modelPreferences temperature maxTokens stopSequences toolChoice",
    ),
    "elicitation/create": _object(
        _META,
        {"requestedSchema": _form, "mode": _word("form", "url")},
        text="message",
        # A page that the user opens. With a token in its address it does not open, and the value is not shown.
        echo="url",
        handle="elicitationId",
    ),
}
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_FOLLOWED = _object({"resourceSubscriptions": _each(_LEAVES["uri"])})
_NOTIFICATIONS: dict[str, Shape] = {
    "notifications/message": _object(_META, {"level": _word(*_LEVELS)}, text="logger", data="data"),
    "notifications/resources/updated": _object(_META, uri="uri"),
    "notifications/elicitation/complete": _object(_META, handle="elicitationId"),
    "notifications/subscriptions/acknowledged": _object(_META, {"notifications": _FOLLOWED}),
}
_RESOURCES = _object(
    _IN_RESULT,
    {"nextCursor": lambda value, _: value, "resources": _each(_object(_RESOURCE))},
    rest="echo",
)
"""A page of a list of resources, whose cursor is a handle already."""
_ERROR_DATA = _object(
    {"elicitations": _each(_REQUESTS["elicitation/create"])},
    uri="uri",
    echo="requiredCapabilities supported requested",
)


def _error(value: Any, leaf: Leaf) -> Any:
    code, message, data = value
    return [_echo(code, leaf), leaf("text", message), None if data is None else _ERROR_DATA(data, leaf)]


_SCHEMA_LEVELS = 64  # far deeper than real schemas: bounds the recursion
_OF_TEXT = frozenset({"format", "pattern", "minLength", "maxLength", "contentEncoding", "contentMediaType"})
_IN_SCHEMA = frozenset(
    "items prefixItems additionalProperties anyOf oneOf allOf not if then else contains unevaluatedProperties".split()
)
_OF_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


def shape_of(kind: str, method: str = "") -> Shape:
    """The shape of a part of a message.

    It is a `result`, `request` or `notification` of a method, a page of `resources`, an `error`, which is a list of
    its code, message and data, or a single `text`, `uri` or `echo`.
    """
    match kind:
        case "result":
            return _RESULTS.get(method, _ANY_RESULT)
        case "request":
            return _request_shape(method)
        case "notification":
            return _NOTIFICATIONS.get(method, _ANY_PARAMS)
    return {"resources": _RESOURCES, "error": _error}.get(kind) or _LEAVES[kind]


def _request_shape(method: str) -> Shape:
    return _REQUESTS.get(method, _ANY_PARAMS)


def loosened(schema: Any, levels: int = _SCHEMA_LEVELS) -> Any:
    """Return an output schema that also accepts a token in place of any text or number.

    Clients validate answers against it. Levels deeper than `_SCHEMA_LEVELS` stay unchanged.
    """
    if isinstance(schema, list):
        return [loosened(each, levels) for each in schema]
    if not isinstance(schema, dict) or not levels:
        return schema
    found = {key: each for key, each in schema.items() if key not in _OF_TEXT}
    for key in _IN_SCHEMA & found.keys():
        found[key] = loosened(found[key], levels - 1)
    for key in _OF_SCHEMAS & found.keys():
        if isinstance(found[key], dict):
            found[key] = {name: loosened(each, levels - 1) for name, each in found[key].items()}
    kinds = found.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if not {"integer", "number"}.isdisjoint(kind for kind in kinds if isinstance(kind, str)):
        found["type"] = [*kinds, *(["string"] if "string" not in kinds else [])]
    return found


_ANY_RESULT = _object(_IN_RESULT)
_ANY_PARAMS = _object(_META)


# Concealment

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
            made[number] = _concealed_blob(guard, value, spec, sent, scribe)
        else:
            new = guard.conceal_admitted(spec, guard.admit(spec, value, sent=sent))
            if kind == "uri":
                new = value if new == value else _token_address(guard, value)
            elif kind == "form":
                new = _concealed_form(guard, value, new, sent, scribe)
            made[number] = new
    _without_echoes(guard, leaves, made, sent)
    for number, (kind, value) in enumerate(leaves):
        if kind == "handle":
            made[number] = _concealed_handle(guard, value, made[number])
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


def _concealed_handle(guard: Guard, value: str, shown: str) -> str:
    """A string that comes back to the upstream: one token if it may not be shown or looks like a token."""
    assert guard.scope is not None
    return value if shown == value and TOKEN.search(value) is None else guard.scope.token("text", value)


def _concealed_blob(guard: Guard, value: str, spec: ToolSpec, sent: Sent, scribe: Scribe) -> str:
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


def _concealed_form(guard: Guard, value: str, found: str, sent: Sent, scribe: Scribe) -> str:
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


def relay(params: Any, body: bytes, mirror: Mirror | None, ask: Query) -> tuple[Any, bytes]:
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
    data = decode_answer(body)
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
        from sealyard.serve.relay.forms import finished, sieved  # noqa: PLC0415

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
