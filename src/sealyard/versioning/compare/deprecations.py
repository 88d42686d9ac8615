"""Announcements in texts that something will go, and what they say to use instead."""

import re

from sealyard.versioning.compare.changes import Deprecation

_CHARACTERS = 4_000
_GUIDANCE = 300
_SAID = re.compile(r"\bdeprecat(?:ed|ion|es)\b|\bobsolete\b|\bno longer supported\b|\bwill be removed\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_NAME = r"[`'\"]?([A-Za-z_][\w.\-]{0,63}[\w])[`'\"]?"
_INSTEAD = (
    re.compile(rf"\buse\s+(?:the\s+)?{_NAME}(?:\s+(?:tool|parameter|field|argument))?\s+instead\b", re.IGNORECASE),
    re.compile(rf"\b(?:in favou?r of|replaced by|superseded by|renamed to)\s+(?:the\s+)?{_NAME}", re.IGNORECASE),
    re.compile(rf"\binstead,?\s+use\s+(?:the\s+)?{_NAME}", re.IGNORECASE),
    re.compile(r"\b[Uu]se\s+(?:the\s+)?(?:`([A-Za-z_][\w.\-]{0,63})`|([a-z]+_\w{1,60}|[a-z]+[A-Z]\w{1,60})\b)"),
)
_REMOVED_IN = re.compile(
    r"\bremoved\s+(?:in|with|from)\s+(?:version\s+|release\s+)?v?(\d+(?:\.\d+){0,2})", re.IGNORECASE
)


def newly_deprecated(before: tuple[str, bool], after: tuple[str, bool]) -> Deprecation | None:
    """What a text, or a flag beside it, announces that did not stand there before; its `field` is empty."""
    text, flagged = after[0][:_CHARACTERS], after[1]
    said = _SAID.search(text)
    if (said is None and not flagged) or _SAID.search(before[0][:_CHARACTERS]) or before[1]:
        return None
    if said is None:
        return Deprecation(field="", guidance="It is marked as deprecated.")
    sentences = _SENTENCE.split(text)
    first = next(number for number, sentence in enumerate(sentences) if _SAID.search(sentence))
    near = " ".join(sentences[first : first + 2])
    found = next((match for pattern in _INSTEAD if (match := pattern.search(near))), None)
    removed = _REMOVED_IN.search(near)
    return Deprecation(
        field="",
        replacement=next(name for name in found.groups() if name) if found else None,
        removed_in=removed[1] if removed else None,
        guidance=near.strip()[:_GUIDANCE],
    )
