"""Evidence: what the journal says about a run, for who learns from it. Everything in it is concealed already."""

from typing import Any, Literal

import msgspec

from sealyard.values.facts import Executed, Hinted, Searched, Used


class CallEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a run."""

    number: int
    tool: str
    """The full name."""
    version: str
    """The tool's, at that time."""
    arguments: Any = None
    """What the journal kept; `None` if it was too large."""
    answer: Any = None
    has_answer: bool = False
    """Whether `answer` is what the tool answered: not if it failed, or answered too much for the journal."""
    sample: Any = None
    """Of an answer that was too much: what it is made of, with a few of its rows and without long texts."""
    error: str | None = None
    """The name of our exception, a colon, and its text, which may be an upstream's: never to be shown."""
    started_at: float
    seconds: float
    answer_bytes: int = 0


class RunEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is over."""

    fact: Executed
    code: str = ""
    """Empty if it was a single call."""
    context_digest: str = ""
    """Of the values that the code was given; runs with the same had the same."""
    session: str = ""
    """The workspace that it ran in."""
    started_at: float
    failure_type: str = ""
    """As the agent was told: the name of the exception or limit. Any text, if the agent's code made it."""
    failure_message: str = ""
    """Any text."""
    failure_line: int | None = None
    calls: tuple[CallEvidence, ...] = ()
    """In their order; the first hundred."""
    skills: tuple[str, ...] = ()
    """The saved skills that it used, as `namespace/name`."""


LearningEvent = Searched | Used | Hinted | RunEvidence
"""One thing to learn from, in the order of the journal."""


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """What was to be forgotten: everything about a tool or a principal up to here."""

    what: Literal["tool", "principal", "all"]
    subject: str
    """A full name, a principal, or nothing."""
    number: int
    """The last fact of the journal that it is about."""
    at: float
