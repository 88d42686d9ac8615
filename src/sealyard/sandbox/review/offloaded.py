"""Reviews that do not hold up the event loop: a helper process reviews long code."""

from collections.abc import Collection
from typing import Any

import msgspec

from sealyard.code import Source, read
from sealyard.errors import HelperFailed
from sealyard.offload import Offload, short_work
from sealyard.offload.child import Query
from sealyard.sandbox.policy.levels import IsolationPolicy
from sealyard.sandbox.review import Finding, Review, review

_LONG_CHARACTERS = 2_000
"""Longer code is read by a helper: it takes 6 ms here at worst."""


async def offloaded_review(
    code: str,
    policy: IsolationPolicy,
    packages: Collection[str],
    *,
    offload: Offload | None,
    who: str,
) -> Review:
    """`review` of code for the principal `who`. Code that takes too long to be read is refused.

    Verdicts over sources that are kept are remembered: the same text costs a lookup.
    """
    known = read(code).of(_Verdicts)
    verdict = known.find(policy, packages)
    if verdict is None:
        document = _encoded(code) if len(code) > _LONG_CHARACTERS and offload is not None else None
        if document is None or offload is None:
            verdict = await _review_here(code, policy, packages)
        else:
            try:
                verdict = await _review_there(document, policy, packages, offload, who)
            except HelperFailed as error:
                return _unreadable(error)
        known.keep(policy, packages, verdict)
    return verdict


async def _review_here(code: str, policy: IsolationPolicy, packages: Collection[str]) -> Review:
    async with short_work():
        return review(code, policy, packages=packages)


async def _review_there(
    document: bytes, policy: IsolationPolicy, packages: Collection[str], offload: Offload, who: str
) -> Review:
    params = {"policy": policy, "packages": sorted(packages)}
    answered = await offload.run("review", params, document, who=who)
    return msgspec.convert(answered.result, Review)


def _unreadable(error: HelperFailed) -> Review:
    hint = "Pass data in through `context` or a file in the workspace, and split long expressions."
    message = f"The code could not be read: {error}"
    return Review(verdict="refuse", findings=(Finding(severity="refuse", rule="size", message=message, hint=hint),))


def _encoded(code: str) -> bytes | None:
    try:
        return code.encode()
    except UnicodeEncodeError:
        return None  # the review says so at once


class _Verdicts:
    """The last two verdicts over one source: the same text may run under two policies."""

    def __init__(self, source: Source) -> None:
        self._found: list[tuple[tuple[IsolationPolicy, Collection[str]], Review]] = []

    def find(self, policy: IsolationPolicy, packages: Collection[str]) -> Review | None:
        wanted = (policy, packages)
        for key, verdict in self._found:
            if key == wanted:
                return verdict
        return None

    def keep(self, policy: IsolationPolicy, packages: Collection[str], verdict: Review) -> None:
        self._found = [*self._found[-1:], ((policy, packages), verdict)]


# In the helper


class _Given(msgspec.Struct):
    policy: IsolationPolicy
    packages: list[str]


def review_code(params: Any, body: bytes, memory: Any, ask: Query) -> tuple[Any, bytes]:
    """`review` in the helper."""
    given = msgspec.convert(params, _Given)
    found = review(body.decode(), given.policy, packages=frozenset(given.packages))
    return msgspec.to_builtins(found), b""
