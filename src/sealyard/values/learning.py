"""Evidence: the journal's data about runs, as learning reads it. Everything in it is already concealed."""

from typing import Any, Literal

import msgspec

from sealyard.values.facts import Executed, Hinted, Searched, Used


class CallEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a run."""

    number: int
    tool: str
    """The full name."""
    version: str
    """The version of the tool at that time."""
    arguments: Any = None
    """The stored arguments; `None` if they were too large."""
    answer: Any = None
    has_answer: bool = False
    """True if `answer` is the tool's response; false if the call failed or the response was too large to store."""
    sample: Any = None
    """A sample of a response that was too large: its structure and a few rows, without long texts."""
    error: str | None = None
    """`Type: message`. The message may come from an upstream, so it must never be shown."""
    started_at: float
    seconds: float
    answer_bytes: int = 0


class RunEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run."""

    fact: Executed
    code: str = ""
    """Empty if it was a single call."""
    context_digest: str = ""
    """The digest of the context; equal contexts have equal digests."""
    session: str = ""
    """The session, which names its workspace."""
    started_at: float
    failure_type: str = ""
    """The name of the exception or limit that the agent received. It can be any text, because code can define it."""
    failure_message: str = ""
    """Any text."""
    failure_line: int | None = None
    calls: tuple[CallEvidence, ...] = ()
    """The first hundred, in order."""
    skills: tuple[str, ...] = ()
    """The used skills, as `namespace/name`."""


LearningEvent = Searched | Used | Hinted | RunEvidence
"""One event to learn from, in journal order."""


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """A request to ignore everything about a tool or a principal up to a fact."""

    what: Literal["tool", "principal", "all"]
    subject: str
    """A full name, a principal, or empty."""
    number: int
    """The last fact that it covers."""
    at: float
