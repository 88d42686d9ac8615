"""What gives a person away in plain sentences: few, certain signs. Names in prose are not promised."""

import re
from collections.abc import Iterable, Iterator

from sealyard.privacy.span import Span

__all__ = ("find_in_prose",)

_WORD = r"[A-ZÀ-ÖØ-ÞŁŚŻ][a-zà-öø-ÿłśżźćńąęğışőű'\u2019\-]+"
_BETWEEN = r"(?:[A-Z]\.[ ]|(?:van|von|de|da|del|di|der|den|la|le|bin|al)[ ])?"
_NAME = rf"({_WORD}(?:[ ]{_BETWEEN}{_WORD}){{0,3}})"
_FULL = rf"({_WORD}(?:[ ]{_BETWEEN}{_WORD}){{1,3}})"
_DATE = (
    r"(\d{1,4}[./-]\d{1,2}[./-]\d{1,4}"
    r"|(?:\d{1,2}(?:st|nd|rd|th)?\.?[ ])?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
    r"[ ]\d{1,4}(?:st|nd|rd|th)?(?:,?[ ]\d{4})?)"
)
_PLACE = (
    r"(\d{1,6}[ ][\w.' \-]{3,60}?(?:,[ ][\w.' \-]{2,40}){0,3}"
    r"|[\w.\-]{3,40}[ ]\d{1,5}[a-z]?(?:,[ ][\w.' \-]{2,40}){0,2})(?=[.;\n,]|$)"
)

_TITLED = re.compile(
    r"(?:M(?:rs?|s|iss|me|lle|onsieur|adame)|Dr|Prof|Herrn?|Frau|S(?:eñora?|ra?|ignora?|ig))\.?[ ]" + _NAME
)
_INTRODUCED = re.compile(
    r"[MmJj](?:y (?:full )?name(?: is|'s|:)|ein Name ist|e m'appelle|e llamo|i chiamo|eu nome é|ijn naam is)[ ]" + _NAME
)
"""These two begin with a few letters and nothing before them, so that the engine passes over all others at once."""
_GREETED = re.compile(rf"Dear[ ](?!Sir|Madam|Customer|Team|Colleague|All|Friend|User|Hiring|Editor|Valued){_FULL}")
_MAILBOX = re.compile(r" <(?=[^<>\s@]{1,64}@)")
_BEFORE_MAILBOX = re.compile(rf"{_NAME},?\"?\Z")
_LONGEST_BEFORE = 160
"""Characters before a mailbox that may be the name: four words and what is between them."""

_BIRTHS = tuple(
    "born,dob,d.o.b,date of birth,geboren am,né le,née le,nacio el,nació el,nato il,nata il,birthday".split(",")
)
_BORN = re.compile(
    r"\b(?:born(?: on| in)?|DOB|D\.O\.B\.?|date of birth|geboren am|née? le|naci[oó] el|nat[oa] il|birthday)"
    rf"(?: is| was| on)?:?[ ]{{1,2}}{_DATE}",
    re.IGNORECASE,
)
_LIVES = tuple("live at,lives at,living at,resides at,residing at,address is,wohnt in der,habite au,vive en".split(","))
_HOME = re.compile(
    r"\b(?:lives? at|living at|resid(?:es|ing) at|address is|wohnt in der|habite au|vive en)[ ]" + _PLACE
)


def find_in_prose(text: str) -> Iterator[Span]:
    """Names after `my name is` or `Dear Mr.`, before `<mail@…>`; dates after `born on`; addresses after `lives at`."""
    if " " not in text:
        return
    yield from _values("person", _INTRODUCED.finditer(text))
    yield from _values("person", (match for match in _TITLED.finditer(text) if _begins(text, match.start())))
    if "Dear " in text:
        yield from _values("person", (match for match in _GREETED.finditer(text) if _begins(text, match.start())))
    if "@" in text and " <" in text:
        yield from _values("person", _mailboxes(text))
    lower = text.lower()
    if len(lower) == len(text):  # one letter of Turkish becomes two
        yield from _values("date_of_birth", _placed(_BORN, text, lower, _BIRTHS))
    else:
        yield from _values("date_of_birth", _BORN.finditer(text))
    yield from _values("address", _placed(_HOME, text, text, _LIVES))


def _values(kind: str, matches: Iterable[re.Match[str]]) -> Iterator[Span]:
    for match in matches:
        start = match.start(1)
        yield Span(start, start + len(match[1].rstrip(".,-' ")), kind)


def _begins(text: str, start: int) -> bool:
    """Whether a word begins there."""
    return not start or not (text[start - 1].isalnum() or text[start - 1] == "_")


def _mailboxes(text: str) -> Iterator[re.Match[str]]:
    done = 0
    for mailbox in _MAILBOX.finditer(text):
        name = _BEFORE_MAILBOX.search(text, max(done, mailbox.start() - _LONGEST_BEFORE), mailbox.start())
        if name is not None:
            yield name
        done = mailbox.end()


def _placed(pattern: re.Pattern[str], text: str, lower: str, stems: tuple[str, ...]) -> Iterator[re.Match[str]]:
    """The matches that begin with one of the stems. A search for a plain text is far faster than for a pattern."""
    for stem in stems:
        start = lower.find(stem)
        while start >= 0:
            match = pattern.match(text, start)
            if match is not None:
                yield match
            start = lower.find(stem, start + len(stem))
