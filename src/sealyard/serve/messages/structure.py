"""The structure of the protocol's messages, and how each part is searched. No part is skipped.

A shape walks a value and hands every string and number in it to a `Leaf`, with its kind, and takes its replacement:

- `text`, `uri`, `blob` (base64), `form` (a text in a form's schema), `structured` (a tool's structured answer) and
  `data` (any JSON) are searched for all that is private. Everything that the protocol does not define is `data`,
  so that nothing an upstream invents is missed.
- `echo` (any JSON) describes an upstream or its messages: descriptions, icons, media types, sizes. It is searched only
  for values that were sent to upstreams.
- `handle` is a string that comes back to the upstream unchanged: a cursor, a state, a name, a key. If it contains a
  value that was sent to an upstream, all of it becomes one token, revealed when it comes back (`Screen.handles`).

Only the protocol's own words (`_word`) stay unchanged, and only with values that the protocol defines.

This module imports nothing of the SDK: helper processes use it too.
"""

from collections.abc import Callable, Mapping
from typing import Any

Leaf = Callable[[str, Any], Any]
Shape = Callable[[Any, Leaf], Any]

_OWN_META = "io.modelcontextprotocol/"
"""Prefix of the protocol's own keys in `_meta`; an upstream's are data."""


def _echo(value: Any, leaf: Leaf) -> Any:
    return value if value is None or isinstance(value, bool) else leaf("echo", value)


def _word(*known: str) -> Shape:
    """A word of the protocol. Any other text in its place is the upstream's."""
    return lambda value, leaf: value if isinstance(value, str) and value in known else _echo(value, leaf)


def _leaf(kind: str) -> Shape:
    def walk(value: Any, leaf: Leaf) -> Any:
        return leaf(kind if isinstance(value, str) else "data", value)

    return walk


def _handle(value: Any, leaf: Leaf) -> Any:
    return leaf("handle", value) if isinstance(value, str) else _echo(value, leaf)


def _structured(value: Any, leaf: Leaf) -> Any:
    return leaf("structured", value)


def _each(shape: Shape) -> Shape:
    def walk(value: Any, leaf: Leaf) -> Any:
        return [shape(item, leaf) for item in value] if isinstance(value, list) else leaf("data", value)

    return walk


def _one_or_each(shape: Shape) -> Shape:
    every = _each(shape)
    return lambda value, leaf: every(value, leaf) if isinstance(value, list) else shape(value, leaf)


def _fields(known: Mapping[str, Shape], rest: str = "data") -> Shape:
    """An object: the fields that the protocol knows by their shapes, all others together as data, or as `rest`."""

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
    return _fields({"method": _word(*_REQUESTS, "roots/list"), "params": _request_shape(str(method))})(value, leaf)


_text, _uri, _blob, _data = (_leaf(kind) for kind in ("text", "uri", "blob", "data"))
_ANNOTATIONS = _fields({"audience": _echo, "priority": _echo, "lastModified": _echo})
_UNKNOWN = _fields({"type": _echo, "mimeType": _echo, "uri": _uri, "annotations": _ANNOTATIONS, "_meta": _meta})
_CONTENTS = _fields({"uri": _uri, "mimeType": _echo, "text": _text, "blob": _blob, "_meta": _meta})
_RESOURCE: dict[str, Shape] = {
    "uri": _uri,
    "name": _text,
    "title": _text,
    "description": _text,
    "mimeType": _echo,
    "size": _echo,
    "icons": _echo,
    "annotations": _ANNOTATIONS,
    "_meta": _meta,
}
_KINDS = ("text", "image", "audio", "resource", "resource_link", "tool_use", "tool_result")
_IN_BLOCK: dict[str, Shape] = {"type": _word(*_KINDS), "annotations": _ANNOTATIONS, "_meta": _meta}
_MEDIA = _fields({**_IN_BLOCK, "data": _blob, "mimeType": _echo})
_BLOCKS: dict[str, Shape] = {
    "text": _fields({**_IN_BLOCK, "text": _text}),
    "image": _MEDIA,
    "audio": _MEDIA,
    "resource": _fields({**_IN_BLOCK, "resource": _CONTENTS}),
    "resource_link": _fields({**_IN_BLOCK, **_RESOURCE}),
    "tool_use": _fields({**_IN_BLOCK, "id": _handle, "name": _handle, "input": _data}),
    "tool_result": _fields(
        {
            **_IN_BLOCK,
            "toolUseId": _handle,
            "isError": _echo,
            "content": _each(_block),
            "structuredContent": _data,
        }
    ),
}
_MESSAGE = _fields({"role": _word("user", "assistant"), "content": _one_or_each(_block), "_meta": _meta})
_IN_RESULT: dict[str, Shape] = {
    "_meta": _meta,
    "resultType": _word("complete", "input_required"),
    "ttlMs": _echo,
    "cacheScope": _word("public", "private"),
    "nextCursor": _handle,
    "requestState": _handle,
    "inputRequests": _questions,
}
_COMPLETION = _fields({"values": _each(_text), "total": _echo, "hasMore": _echo})


def _listing(key: str, **known: Shape) -> Shape:
    """A list of an upstream's offers. Its descriptions are not data, but may repeat values that were sent to it."""
    item = _fields(known, rest="echo")
    return _fields({**_IN_RESULT, key: _each(item)}, rest="echo")


_TOOLS = _listing("tools", name=_handle)
_RESULTS: dict[str, Shape] = {
    "tools/call": _fields({**_IN_RESULT, "content": _each(_block), "structuredContent": _structured, "isError": _echo}),
    "resources/read": _fields({**_IN_RESULT, "contents": _each(_CONTENTS)}),
    "prompts/get": _fields({**_IN_RESULT, "description": _text, "messages": _each(_MESSAGE)}),
    "completion/complete": _fields({**_IN_RESULT, "completion": _COMPLETION}),
    "initialize": _fields({"protocolVersion": _echo}, rest="echo"),
    "server/discover": _fields({**_IN_RESULT, "supportedVersions": _echo}, rest="echo"),
    "tools/list": _TOOLS,
    "prompts/list": _listing("prompts", name=_handle),
    "resources/templates/list": _listing("resourceTemplates", uriTemplate=_handle),
    # Resources are data. They are searched once their addresses can be mapped back: see "resources".
    "resources/list": _fields({**_IN_RESULT, "resources": lambda value, _: value}, rest="echo"),
}
_REQUESTS: dict[str, Shape] = {
    "sampling/createMessage": _fields(
        {
            "messages": _each(_MESSAGE),
            "systemPrompt": _text,
            "_meta": _meta,
            "includeContext": _word("none", "thisServer", "allServers"),
            "tools": _each(_fields({"name": _handle}, rest="echo")),
            **dict.fromkeys(("modelPreferences", "temperature", "maxTokens", "stopSequences", "toolChoice"), _echo),
        }
    ),
    "elicitation/create": _fields(
        {
            "message": _text,
            "requestedSchema": _form,
            "_meta": _meta,
            "mode": _word("form", "url"),
            # A page that the user opens. With a token in its address it does not open, and the value is not shown.
            "url": _echo,
            "elicitationId": _handle,
        }
    ),
}
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_NOTIFICATIONS: dict[str, Shape] = {
    "notifications/message": _fields({"level": _word(*_LEVELS), "logger": _text, "data": _data, "_meta": _meta}),
    "notifications/resources/updated": _fields({"uri": _uri, "_meta": _meta}),
    "notifications/elicitation/complete": _fields({"elicitationId": _handle, "_meta": _meta}),
    "notifications/subscriptions/acknowledged": _fields(
        {"notifications": _fields({"resourceSubscriptions": _each(_uri)}), "_meta": _meta}
    ),
}
_RESOURCES = _fields(
    {**_IN_RESULT, "nextCursor": lambda value, _: value, "resources": _each(_fields(_RESOURCE))}, rest="echo"
)
"""A page of a list of resources, whose cursor is a handle already."""
_ERROR_DATA = _fields(
    {
        "uri": _uri,
        "elicitations": _each(_REQUESTS["elicitation/create"]),
        **dict.fromkeys(("requiredCapabilities", "supported", "requested"), _echo),
    }
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
    return {"resources": _RESOURCES, "error": _error, "text": _text, "uri": _uri, "echo": _echo}[kind]


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


_ANY_RESULT = _fields(_IN_RESULT)
_ANY_PARAMS = _fields({"_meta": _meta})
