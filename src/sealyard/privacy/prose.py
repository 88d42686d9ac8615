"""What gives a person away in plain sentences: few, certain signs. Names in prose are not promised."""

import re
from collections.abc import Iterator

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

_SIGNS: tuple[tuple[str, re.Pattern[str], re.Pattern[str]], ...] = (
    (
        "person",
        re.compile(r"[Mm](?:y (?:full )?name|ein Name|e llamo|i chiamo|eu nome|ijn naam)|[Jj]e m'appelle"),
        re.compile(
            r"(?:[Mm]y (?:full )?name(?: is|'s|:)|[Mm]ein Name ist|[Jj]e m'appelle|[Mm]e llamo|[Mm]i chiamo"
            rf"|[Mm]eu nome é|[Mm]ijn naam is)[ ]{_NAME}"
        ),
    ),
    (
        "person",
        re.compile(r"\b(?:Mr|Mrs|Ms|Miss|Dr|Prof|Herrn?|Frau|Mme|Mlle|Monsieur|Madame|Señora?|Sra?|Sig|Signora?)\b"),
        re.compile(
            r"\b(?:Mr|Mrs|Ms|Miss|Dr|Prof|Herrn?|Frau|Mme|Mlle|Monsieur|Madame|Señora?|Sra?|Sig|Signora?)\.?[ ]"
            rf"{_NAME}"
        ),
    ),
    (
        "person",
        re.compile(r"\bDear\b"),
        re.compile(rf"\bDear[ ](?!Sir|Madam|Customer|Team|Colleague|All|Friend|User|Hiring|Editor|Valued){_FULL}"),
    ),
    ("person", re.compile(r"<[^<>\s]{1,64}@"), re.compile(rf"{_NAME},?\"?[ ]<(?=[^<>\s@]{{1,64}}@)")),
    (
        "date_of_birth",
        re.compile(r"\b(?:born|DOB|[Dd]ate of birth|[Gg]eboren|née?|naci[oó]|nat[oa]|[Bb]irthday|D\.O\.B)\b"),
        re.compile(
            r"\b(?:born(?: on| in)?|DOB|D\.O\.B\.?|date of birth|geboren am|née? le|naci[oó] el|nat[oa] il|birthday)"
            rf"(?: is| was| on)?:?[ ]{{1,2}}{_DATE}",
            re.IGNORECASE,
        ),
    ),
    (
        "address",
        re.compile(r"\b(?:lives? at|living at|resid(?:es|ing) at|address is|wohnt in der|habite au|vive en)\b"),
        re.compile(
            r"\b(?:lives? at|living at|resid(?:es|ing) at|address is|wohnt in der|habite au|vive en)[ ]" + _PLACE
        ),
    ),
)
"""Of each: the type, a cheap sign that a text may hold it, and the pattern whose group is the value."""

_ANY_SIGN = re.compile(
    r"[Nn]ame|pelle|llamo|chiamo|nome|naam|Dear|M[rs]|Miss|Dr|Prof|Herr|Frau|M[ml]|adame|onsieur|Señor|Sra?|Sig|<[^<>\s]+@"
    r"|born|DOB|D\.O|irth|boren|n[ée]e?\b|naci|nat[oa]|live|living|resid|address|wohnt|habite|vive"
)


def find_in_prose(text: str) -> Iterator[Span]:
    """Names after `my name is` or `Dear Mr.`, before `<mail@…>`; dates after `born on`; addresses after `lives at`."""
    if _ANY_SIGN.search(text) is None:
        return
    for kind, sign, pattern in _SIGNS:
        if sign.search(text) is not None:
            for match in pattern.finditer(text):
                start = match.start(1)
                yield Span(start, start + len(match[1].rstrip(".,-' ")), kind)
