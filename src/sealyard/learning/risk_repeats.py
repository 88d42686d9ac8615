"""Code that is run again and again as it is, and fails each time in the same way.

Only a principal's own runs count, in the same workspace with the same values. Whatever could make the next run end
otherwise starts the count anew: a run of that workspace that ended well, other answers of tools, another error, another
version of a tool.
"""

import builtins
import hashlib
from collections.abc import Mapping

import msgspec

from sealyard import errors
from sealyard.learning.code import CodePrint
from sealyard.learning.evidence import put_last
from sealyard.values import RunEvidence, ToolSpec

__all__ = ("AGAIN_SECONDS", "HOUR", "TIMES", "Repeat", "Repeats", "is_known_error", "is_own_failure")

TIMES = 3
HOUR = 3_600.0
AGAIN_SECONDS = 600.0
"""So long after the last failure one more try is not taken for a certain failure: the world may have changed."""

_SESSIONS = 512
_CODES = 16
_KEPT = 8
_TOOLS = 20
_OWN_KINDS = frozenset(("exception", "refused", "syntax", "import", "result"))
_OWN_ERRORS = frozenset(("InvalidRequest", "InvalidArguments", "UnknownTool"))
_OTHERS = frozenset(errors.__all__) - _OWN_ERRORS
"""Errors of ours that tell of something else than the code: an upstream, a person, a limit, the gateway itself."""
_MISTAKES = frozenset(
    "AttributeError ImportError IndentationError IndexError InvalidArguments InvalidRequest KeyError"
    " ModuleNotFoundError NameError SyntaxError TypeError UnboundLocalError UnknownTool ValueError"
    " ZeroDivisionError".split()
)
"""What code that has had answers of tools fails with by mistake. What it raises itself, such as `RuntimeError`, may
mean that it waits for an answer to change."""


def is_own_failure(run: RunEvidence) -> bool:
    """Whether a run failed by its own code, and not by an upstream, a limit, a person or the gateway."""
    fact = run.fact
    return fact.status == "failed" and fact.failure in _OWN_KINDS and fact.error_type not in _OTHERS


class Repeat(msgspec.Struct, array_like=True):
    """The same failure of the same code."""

    mark: str
    """The same as long as everything about it that was seen is the same."""
    times: list[float]
    """When it happened, the last eight."""
    error: str
    """Its name if that is a known one, else nothing."""
    line: int | None
    versions: dict[str, str]
    """Of the tools that it names or called, by full name; empty for one of which nothing is known."""

    def recent(self, now: float) -> int:
        """How often it happened in the last hour."""
        return sum(now - HOUR < at <= now for at in self.times)

    def is_certain(self, specs: Mapping[str, ToolSpec], now: float) -> bool:
        """Whether it will be the same once more."""
        if self.recent(now) < TIMES or not now - AGAIN_SECONDS < self.times[-1] <= now:
            return False
        there = {spec.full_name: spec.version for spec in specs.values()}
        return all(there.get(name) == version for name, version in self.versions.items())


class Repeats(msgspec.Struct, array_like=True):
    """What failed last in each workspace."""

    sessions: dict[str, dict[str, Repeat]] = {}
    """By what stands for the workspace, then by code and values; what failed last is at the end of each."""

    def note(self, run: RunEvidence, print_: CodePrint | None, versions: Mapping[str, str]) -> None:
        """Remember a failure, or forget those of its workspace when a run ends well.

        `versions` are those of the tools that the code names, as they were then.
        """
        if run.fact.status == "ok":
            self.sessions.pop(_workspace(run.session), None)
            return
        if print_ is None or print_.skills or run.skills or not is_own_failure(run):
            return  # a saved skill may be another one the next time
        if run.calls and run.fact.error_type not in _MISTAKES:
            return
        used = {**versions, **{call.tool: call.version for call in run.calls}}
        if len(used) > _TOOLS:
            return  # so much can change that nothing is certain
        workspace = _workspace(run.session)
        codes = put_last(self.sessions, workspace, self.sessions.get(workspace, {}), _SESSIONS)
        key = _key(run.fact.principal, print_.exact, run.context_digest)
        found, mark = codes.get(key), _mark(run)
        times = found.times if found is not None and found.mark == mark else []
        repeat = Repeat(
            mark=mark,
            times=[*times, run.fact.at][-_KEPT:],
            error=run.fact.error_type if is_known_error(run.fact.error_type) else "",
            line=run.failure_line,
            versions=used,
        )
        put_last(codes, key, repeat, _CODES)

    def find(self, principal: str, session: str, exact: str, context_digest: str) -> Repeat | None:
        """The failure of this code with these values, if that was the last that was seen of it."""
        return self.sessions.get(_workspace(session), {}).get(_key(principal, exact, context_digest))


def is_known_error(name: str) -> bool:
    """Whether it is Python's or ours: code can give an error of its own any name."""
    return hasattr(builtins, name) or name in errors.__all__


def _workspace(session: str) -> str:
    """What stands for a workspace: its name is an agent's text."""
    return hashlib.blake2b(session.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _key(principal: str, exact: str, context_digest: str) -> str:
    return f"{principal}\n{exact}\n{context_digest}"


def _mark(run: RunEvidence) -> str:
    # The size of an answer stands for the answer: reading all of them is no work for here.
    seen = [(call.tool, call.version, call.answer_bytes, (call.error or "").partition(":")[0]) for call in run.calls]
    text = repr((run.fact.failure, run.fact.error_type, run.failure_line, seen))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
