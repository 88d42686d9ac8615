"""The OpenAPI document, derived from the declarations, so that it cannot claim anything else."""

import re
from typing import Any, get_args

import msgspec

from sealyard import __version__
from sealyard.serve.api.declare import Endpoint, Events, Text
from sealyard.serve.envelope import CODES, Code, ErrorEnvelope
from sealyard.serve.gate import COOKIE
from sealyard.values.runs import LiveKind

EVERYWHERE: tuple[Code, ...] = ("invalid_request", "forbidden", "rate_limited", "unavailable")
"""Errors that every endpoint may have: an unknown parameter, a foreign page, too many requests, a broken store."""

_REF = "#/components/schemas/{name}"
_STATUSES = {
    200: "What was asked for.",
    202: "It has begun.",
    204: "There is nothing more to come.",
}
_EVENT = {
    "description": "One event of the stream. Its data is a JSON object; what else is in it depends on the event.",
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "event": {"enum": list(get_args(LiveKind))},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {
                "type": "object",
                "properties": {
                    "at": {"type": "number"},
                    "execution_id": {"type": "string"},
                    "principal": {"type": "string"},
                },
                "required": ["at", "execution_id", "principal"],
            },
        },
        "retry": {"type": "integer"},
    },
}
_NAMES = {
    "id": "Its id in the list.",
    "name": "Its name.",
    "rule": "The rule's name.",
}


def build_document(endpoints: tuple[Endpoint, ...]) -> dict[str, Any]:
    """The document of these endpoints."""
    kinds = [kind for each in endpoints for kind in (each.body, each.answer) if kind not in (None, Events, Text)]
    kinds = list(dict.fromkeys([ErrorEnvelope, *kinds]))
    refs, schemas = msgspec.json.schema_components(kinds, ref_template=_REF)
    by_kind = dict(zip(kinds, refs, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sealyard",
            "version": __version__,
            "description": "Everything is for the principal whose token is sent. Times are seconds since the epoch.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"cookie": []}, {}],
        "tags": [{"name": name} for name in dict.fromkeys(_tag(each) for each in endpoints)],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {code: _error(code, by_kind[ErrorEnvelope]) for code in CODES},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
        },
    }


def errors_of(each: Endpoint) -> tuple[Code, ...]:
    """The errors that an endpoint may answer with."""
    found = {*EVERYWHERE, *each.errors, "unauthorized"}
    if each.method != "GET":
        found.add("too_large")
    return tuple(code for code in CODES if code in found)


def _operation(each: Endpoint, by_kind: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "tags": [_tag(each)],
        "parameters": [*_path_parameters(each), *_query_parameters(each), *_header_parameters(each)],
        "responses": {
            **{str(status): _answer(each, status, by_kind) for status in each.statuses},
            **{str(CODES[code][0]): {"$ref": f"#/components/responses/{code}"} for code in errors_of(each)},
        },
    }
    if each.description:
        operation["description"] = each.description
    if each.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": by_kind[each.body]}}}
    if each.needs is not None:
        operation["x-needs"] = each.needs
    if each.is_open:
        operation["security"] = []
    return operation


def _answer(each: Endpoint, status: int, by_kind: dict[Any, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": _STATUSES[status]}
    if status == 204:
        return answer
    if each.answer is Events:
        answer["content"] = {"text/event-stream": {"schema": _EVENT}}
    elif each.answer is Text:
        kinds = ("text/plain", "application/openmetrics-text")
        answer["content"] = {kind: {"schema": {"type": "string"}} for kind in kinds}
    else:
        answer["content"] = {"application/json": {"schema": by_kind[each.answer]}}
    return answer


def _error(code: Code, schema: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": CODES[code][1], "content": {"application/json": {"schema": schema}}}
    if code == "rate_limited":
        seconds = {"description": "In how many seconds to try again.", "schema": {"type": "integer"}}
        answer["headers"] = {"Retry-After": seconds}
    return answer


def _path_parameters(each: Endpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _NAMES[name],
            "schema": {"type": "string", "minLength": 1},
        }
        for name in re.findall(r"{(\w+)}", each.path)
    ]


def _query_parameters(each: Endpoint) -> list[dict[str, Any]]:
    if each.query is None:
        return []
    (_, schemas) = msgspec.json.schema_components([each.query])
    whole = schemas[each.query.__name__]
    found = []
    for name, schema in whole["properties"].items():
        parameter: dict[str, Any] = {"name": name, "in": "query", "required": name in whole["required"]}
        # None means not given; a query expresses that by leaving the parameter out.
        given = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
        bare = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        bare |= given[0] if given else {}
        if schema.get("default") is not None:
            bare["default"] = schema["default"]
        if "description" in bare:
            parameter["description"] = bare.pop("description")
        found.append(parameter | {"schema": bare})
    return found


def _header_parameters(each: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "required": False, "description": meaning, "schema": {"type": "string"}}
        for name, meaning in each.headers.items()
    ]


def _tag(each: Endpoint) -> str:
    return each.path.removeprefix("/api/v1/").removeprefix("/").partition("/")[0]
