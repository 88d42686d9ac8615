"""Where data stands in the messages of the protocol. What else is in them is the protocol's own and never touched.

A shape walks a value and hands each piece of data in it to a `Leaf`, with its kind, for what takes its place:
`text`, `uri`, `blob` (base64), `form` (a text in a form's schema), `structured` (a tool's structured answer) and `data`
(any JSON). Everything that is not where the protocol puts it is `data`, so that nothing an upstream invents is missed.
"""

from collections.abc import Callable, Mapping
from typing import Any

from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
)

__all__ = (
    "ERROR_DATA",
    "RESOURCES",
    "Leaf",
    "Shape",
    "loosened",
    "notification_shape",
    "request_shape",
    "result_shape",
)

Leaf = Callable[[str, Any], Any]
Shape = Callable[[Any, Leaf], Any]


def _kept(value: Any, _: Leaf) -> Any:
    return value


def _leaf(kind: str) -> Shape:
    def walk(value: Any, leaf: Leaf) -> Any:
        return leaf(kind if isinstance(value, str) else "data", value)

    return walk


def _structured(value: Any, leaf: Leaf) -> Any:
    return leaf("structured", value)


def _each(shape: Shape) -> Shape:
    def walk(value: Any, leaf: Leaf) -> Any:
        return [shape(item, leaf) for item in value] if isinstance(value, list) else leaf("data", value)

    return walk


def _one_or_each(shape: Shape) -> Shape:
    every = _each(shape)
    return lambda value, leaf: every(value, leaf) if isinstance(value, list) else shape(value, leaf)


def _fields(known: Mapping[str, Shape]) -> Shape:
    """An object: the fields that the protocol knows by their shapes, all others together as data."""

    def walk(value: Any, leaf: Leaf) -> Any:
        if not isinstance(value, dict):
            return leaf("data", value)
        made = {name: known[name](item, leaf) for name, item in value.items() if name in known}
        rest = {name: item for name, item in value.items() if name not in known}
        return {**made, **leaf("data", rest)} if rest else made

    return walk


def _form(value: Any, leaf: Leaf) -> Any:
    """A form's schema: its structure stays, whatever the fields are called."""
    if isinstance(value, dict):
        return {name: _form(item, leaf) for name, item in value.items()}
    if isinstance(value, list):
        return [_form(item, leaf) for item in value]
    return leaf("form", value) if isinstance(value, str) else value


def _block(value: Any, leaf: Leaf) -> Any:
    """A piece of content, or of a sampled message."""
    kind = value.get("type") if isinstance(value, dict) else None
    return (_BLOCKS.get(kind, _UNKNOWN) if isinstance(kind, str) else _UNKNOWN)(value, leaf)


def _questions(value: Any, leaf: Leaf) -> Any:
    """What a modern result asks the client for, by the upstream's own keys."""
    if not isinstance(value, dict):
        return leaf("data", value)
    return {key: _question(item, leaf) for key, item in value.items()}


def _question(value: Any, leaf: Leaf) -> Any:
    method = value.get("method") if isinstance(value, dict) else None
    return _fields({"method": _kept, "params": request_shape(str(method))})(value, leaf)


_text, _uri, _blob, _data = (_leaf(kind) for kind in ("text", "uri", "blob", "data"))
_META = _fields(
    dict.fromkeys(
        (
            "progressToken",
            CLIENT_CAPABILITIES_META_KEY,
            CLIENT_INFO_META_KEY,
            LOG_LEVEL_META_KEY,
            PROTOCOL_VERSION_META_KEY,
            SERVER_INFO_META_KEY,
            SUBSCRIPTION_ID_META_KEY,
        ),
        _kept,
    )
)
_ANNOTATIONS = _fields({"audience": _kept, "priority": _kept, "lastModified": _kept})
_UNKNOWN = _fields({"type": _kept, "mimeType": _kept, "uri": _uri, "annotations": _ANNOTATIONS, "_meta": _META})
_CONTENTS = _fields({"uri": _uri, "mimeType": _kept, "text": _text, "blob": _blob, "_meta": _META})
_RESOURCE: dict[str, Shape] = {
    "uri": _uri,
    "name": _text,
    "title": _text,
    "description": _text,
    "mimeType": _kept,
    "size": _kept,
    "icons": _kept,
    "annotations": _ANNOTATIONS,
    "_meta": _META,
}
_IN_BLOCK: dict[str, Shape] = {"type": _kept, "annotations": _ANNOTATIONS, "_meta": _META}
_MEDIA = _fields({**_IN_BLOCK, "data": _blob, "mimeType": _kept})
_BLOCKS: dict[str, Shape] = {
    "text": _fields({**_IN_BLOCK, "text": _text}),
    "image": _MEDIA,
    "audio": _MEDIA,
    "resource": _fields({**_IN_BLOCK, "resource": _CONTENTS}),
    "resource_link": _fields({"type": _kept, **_RESOURCE}),
    "tool_use": _fields({**_IN_BLOCK, "id": _kept, "name": _kept, "input": _data}),
    "tool_result": _fields(
        {
            **_IN_BLOCK,
            "toolUseId": _kept,
            "isError": _kept,
            "content": _each(_block),
            "structuredContent": _data,
        }
    ),
}
_MESSAGE = _fields({"role": _kept, "content": _one_or_each(_block), "_meta": _META})
_IN_RESULT: dict[str, Shape] = {
    "_meta": _META,
    "resultType": _kept,
    "ttlMs": _kept,
    "cacheScope": _kept,
    "nextCursor": _kept,
    "requestState": _kept,
    "inputRequests": _questions,
}
_COMPLETION = _fields({"values": _each(_text), "total": _kept, "hasMore": _kept})
_RESULTS: dict[str, Shape] = {
    "tools/call": _fields({**_IN_RESULT, "content": _each(_block), "structuredContent": _structured, "isError": _kept}),
    "resources/read": _fields({**_IN_RESULT, "contents": _each(_CONTENTS)}),
    "prompts/get": _fields({**_IN_RESULT, "description": _text, "messages": _each(_MESSAGE)}),
    "completion/complete": _fields({**_IN_RESULT, "completion": _COMPLETION}),
    # What an upstream says of itself and what it can do is no data; resources are, but their addresses lead back.
    **dict.fromkeys(
        (
            "initialize",
            "server/discover",
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
        ),
        _kept,
    ),
}
_REQUESTS: dict[str, Shape] = {
    "sampling/createMessage": _fields(
        {
            "messages": _each(_MESSAGE),
            "systemPrompt": _text,
            "_meta": _META,
            **dict.fromkeys(
                (
                    "modelPreferences",
                    "includeContext",
                    "temperature",
                    "maxTokens",
                    "stopSequences",
                    "tools",
                    "toolChoice",
                ),
                _kept,
            ),
        }
    ),
    "elicitation/create": _fields(
        {
            "message": _text,
            "requestedSchema": _form,
            "_meta": _META,
            # A page that the user opens: with a token in its address it would not open.
            **dict.fromkeys(("mode", "url", "elicitationId"), _kept),
        }
    ),
}
_NOTIFICATIONS: dict[str, Shape] = {
    "notifications/message": _fields({"level": _kept, "logger": _text, "data": _data, "_meta": _META}),
    "notifications/resources/updated": _fields({"uri": _uri, "_meta": _META}),
    "notifications/elicitation/complete": _fields({"elicitationId": _kept, "_meta": _META}),
    "notifications/subscriptions/acknowledged": _fields(
        {"notifications": _fields({"resourceSubscriptions": _each(_uri)}), "_meta": _META}
    ),
}
RESOURCES = _fields({**_IN_RESULT, "resources": _each(_fields(_RESOURCE))})
"""A page of a list of resources, once the way back from their addresses is known."""
ERROR_DATA = _fields(
    {
        "uri": _uri,
        "elicitations": _each(_REQUESTS["elicitation/create"]),
        **dict.fromkeys(("requiredCapabilities", "supported", "requested"), _kept),
    }
)


_SCHEMA_LEVELS = 64
_OF_TEXT = frozenset({"format", "pattern", "minLength", "maxLength", "contentEncoding", "contentMediaType"})
_IN_SCHEMA = frozenset(
    "items prefixItems additionalProperties anyOf oneOf allOf not if then else contains unevaluatedProperties".split()
)
_OF_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


def result_shape(method: str) -> Shape:
    """The shape of the result of a request to an upstream."""
    return _RESULTS.get(method, _ANY_RESULT)


def request_shape(method: str) -> Shape:
    """The shape of the parameters of an upstream's request to the client."""
    return _REQUESTS.get(method, _ANY_PARAMS)


def notification_shape(method: str) -> Shape:
    """The shape of the parameters of an upstream's notification."""
    return _NOTIFICATIONS.get(method, _ANY_PARAMS)


def loosened(schema: Any, levels: int = _SCHEMA_LEVELS) -> Any:
    """An output schema that a token fits too, wherever it stands for a text or a number.

    Clients check what they get against it. What is nested deeper than anybody nests is left as it is.
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
_ANY_PARAMS = _fields({"_meta": _META})
