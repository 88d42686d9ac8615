"""Results in the form that the client's version of the protocol gives them."""

from typing import Any

from mcp_types import SERVER_INFO_META_KEY
from mcp_types import methods as wire
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from sealyard.errors import UpstreamError

_CORE = ("complete", "input_required")


def finished(result: dict[str, Any], method: str, version: str) -> dict[str, Any]:
    """A result as this server's own: without the upstream's name, with what the client's era demands."""
    result = dict(result)
    meta = result.get("_meta")
    if isinstance(meta, dict):
        result["_meta"] = {key: value for key, value in meta.items() if key != SERVER_INFO_META_KEY}
    if version in MODERN_PROTOCOL_VERSIONS:
        result.setdefault("resultType", "complete")
        if method in wire.CACHEABLE_METHODS and not wire.is_input_required(result):
            result = {"ttlMs": 0, "cacheScope": "private", **result}
    return result


def sieved(result: dict[str, Any], method: str, version: str) -> dict[str, Any]:
    """A finished result as the SDK sends it, for one that the SDK does not see.

    Raises:
        UpstreamError: The protocol knows no such result.
    """
    is_extension = version in MODERN_PROTOCOL_VERSIONS and result.get("resultType") not in _CORE
    if method not in wire.SPEC_CLIENT_METHODS or is_extension:
        return result
    try:
        return wire.serialize_server_result(method, version, result)
    except (ValidationError, KeyError):
        raise UpstreamError("The answer is not as the protocol wants it.") from None
