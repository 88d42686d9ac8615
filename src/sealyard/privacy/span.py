"""Findings, the types of private values, and the form of a token."""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Protocol

import msgspec

TOKEN = re.compile(r"__PII_([a-z][a-z0-9_]{0,39}?)_([0-9a-f]{12})__", re.IGNORECASE | re.ASCII)
"""A token anywhere in a text. Code may have changed its case."""


class Span(msgspec.Struct, frozen=True):
    """One private value in a text: where it starts, where it has ended, and of what type it is."""

    start: int
    end: int
    type: str


class Detector(Protocol):
    """Finds private values in a text. Spans may overlap: the scanner decides."""

    def find(self, text: str) -> Iterable[Span]:
        """The spans that are private."""


class TypeInfo(msgspec.Struct, frozen=True):
    """The values that a type covers, and whether they are concealed by default."""

    description: str
    default: bool = True


TYPES: dict[str, TypeInfo] = {
    "person": TypeInfo("A person's name or a part of it, by its field"),
    "email": TypeInfo("An e-mail address"),
    "phone": TypeInfo("A telephone number"),
    "address": TypeInfo("Street, house number, city and postal code of an address"),
    "date_of_birth": TypeInfo("A date of birth, by its field"),
    "username": TypeInfo("A login name, by its field"),
    "ssn": TypeInfo("A social security number of the United States"),
    "national_id": TypeInfo("A person's number in another country's register, with its checksum or by its field"),
    "tax_id": TypeInfo("A tax number, with its checksum or by its field"),
    "passport": TypeInfo("A passport number, by its field"),
    "driver_license": TypeInfo("A driving licence's number, by its field"),
    "medical_id": TypeInfo("A patient's or an insurance's number, by its field"),
    "credit_card": TypeInfo("A card number that passes the Luhn check, and its security code by its field"),
    "iban": TypeInfo("An account number that passes the mod 97 check"),
    "bank_account": TypeInfo("A national account or routing number, by its field"),
    "wallet": TypeInfo("An address of a crypto currency"),
    "ip": TypeInfo("An IPv4 or IPv6 address"),
    "mac": TypeInfo("A hardware address"),
    "url": TypeInfo("A URL with a password or key in it"),
    "api_key": TypeInfo("A key in one of the known formats, or by its field"),
    "auth_token": TypeInfo("A JWT, a bearer token or a session's token"),
    "private_key": TypeInfo("A private key in PEM form"),
    "password": TypeInfo("A password, by its field"),
    "text": TypeInfo("A field that a rule conceals whole"),
    "literal": TypeInfo("Text of an upstream that only looks like a token"),
    "location": TypeInfo("Region and country of a person's address", default=False),
    "organization": TypeInfo("A person's employer or school", default=False),
}
"""Every built-in type. A custom pattern adds its own name."""


# Four rules for spans that overlap. These two are for findings of detectors; `scanner._settle` keeps the first finding
# of a text whole, and `echo.apart` joins echoes of the same value.


def merge(spans: Iterable[Span]) -> list[Span]:
    """The spans in order without overlap. Of two that overlap the longer one stays, and the rest of the other."""
    kept = list(spans)
    if all(one.end <= other.start for one, other in pairwise(kept)):
        return kept
    spans, kept = kept, []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        while kept and span.start < kept[-1].end < span.end:
            last = kept[-1]
            if span.end - span.start <= last.end - last.start:
                span = Span(last.end, span.end, span.type)
            elif span.start <= last.start:
                kept.pop()
            else:
                kept[-1] = Span(last.start, span.start, last.type)
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


def united(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, those that overlap as one, of the longest one's type: no rest of any is left uncovered."""
    kept: list[Span] = []
    longest = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        length = span.end - span.start
        if kept and span.start < kept[-1].end:
            of_type = span.type if length > longest else kept[-1].type
            kept[-1] = Span(kept[-1].start, max(kept[-1].end, span.end), of_type)
            longest = max(longest, length)
        else:
            kept.append(span)
            longest = length
    return kept


def without_tokens(text: str) -> str:
    """The text with every token blanked out, so that nothing is found in one. Offsets stay."""
    return TOKEN.sub(lambda match: "\0" * len(match.group()), text) if "__" in text else text
