"""A review that does not hold up the event loop: of long code it is made by a helper process."""

import secrets
import time
from collections.abc import Collection
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from sealyard.errors import HelperFailed
from sealyard.offload import Offload, turn
from sealyard.offload.turns import spend
from sealyard.sandbox.policy.levels import IsolationPolicy
from sealyard.sandbox.review import Finding, Review, ToolNames, review

__all__ = ("review_beside",)

_LONG_CHARACTERS = 2_000
"""Longer code is read by a helper: it takes 6 ms here at worst."""
_memories: "WeakKeyDictionary[ToolNames, _Names]" = WeakKeyDictionary()


async def review_beside(
    code: str,
    policy: IsolationPolicy,
    names: ToolNames,
    packages: Collection[str],
    *,
    offload: Offload | None,
    who: str,
) -> Review:
    """`review` of code for the principal `who`. Code that takes too long to be read is refused."""
    document = _encoded(code)
    if len(code) <= _LONG_CHARACTERS or offload is None or document is None:
        await turn()
        started = time.perf_counter()
        try:
            return review(code, policy, tools=names, packages=packages)
        finally:
            spend(started)
    memory = _memories.get(names) or _memories.setdefault(names, _Names(names))

    async def answer(asked: str) -> bool:
        return names.is_known(asked)

    params = {"policy": policy, "packages": sorted(packages)}
    try:
        answered = await offload.run("review", params, document, who=who, memory=memory, on_ask=answer)
    except HelperFailed as error:
        hint = "Pass data in through `context` or a file in the workspace, and split long expressions."
        message = f"The code could not be read: {error}"
        return Review(verdict="refuse", findings=(Finding(severity="refuse", rule="size", message=message, hint=hint),))
    return msgspec.convert(answered.result, Review)


def _encoded(code: str) -> bytes | None:
    try:
        return code.encode()
    except UnicodeEncodeError:
        return None  # which a review says at once


class _Names:
    """The names of tools, as helpers remember them."""

    def __init__(self, names: ToolNames) -> None:
        self.key = secrets.token_hex(8)
        self._document = names.to_json()

    def since(self, position: Any) -> tuple[Any, bytes, Any]:
        """All of them, once."""
        return None, self._document if position is None else b"", "all"
