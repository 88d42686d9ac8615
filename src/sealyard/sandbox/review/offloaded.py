"""A review as a helper process makes it."""

from typing import Any

import msgspec

from sealyard.offload.child import Ask
from sealyard.sandbox.policy.levels import IsolationPolicy
from sealyard.sandbox.review import ToolNames, review


def remember(memory: Any, params: Any, body: bytes) -> ToolNames:
    """The names of tools that code may call."""
    return ToolNames.from_json(body)


class _Given(msgspec.Struct):
    policy: IsolationPolicy
    packages: list[str]


def review_code(params: Any, body: bytes, memory: ToolNames, ask: Ask) -> tuple[Any, bytes]:
    """`review`. The gateway is asked about names that are spelled in another way."""
    given = msgspec.convert(params, _Given)
    memory.is_known = ask
    found = review(body.decode(), given.policy, tools=memory, packages=frozenset(given.packages))
    return msgspec.to_builtins(found), b""
