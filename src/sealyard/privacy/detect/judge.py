"""Decides which values are private: a column at a time by name, then all that is left together by value."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from sealyard.privacy.detect.deciding import applies, decide
from sealyard.privacy.detect.prose import find_in_prose
from sealyard.privacy.detect.values import find_values
from sealyard.privacy.reading.evidence import is_blank
from sealyard.privacy.reading.fields import Cells, Field, Leaf, Value, texts_of
from sealyard.privacy.span import TOKEN, Detector, Span, merge

__all__ = ("LEAST_SEARCHED", "Criteria", "Finding", "Judge", "Verdict")


class Finding(msgspec.Struct, gc=False):
    """A private value in a text."""

    start: int
    end: int
    type: str
    value: Value
    quote: str = ""
    """What must stand around its token where the value itself had no quotation marks."""


Verdict: TypeAlias = str | list[Finding]
"""The type of a value that is private as a whole, or what is private in it by offsets."""


class Criteria(msgspec.Struct, frozen=True):
    """What the scanner's rules come to."""

    types: frozenset[str]
    patterns: tuple[tuple[str, re.Pattern[str]], ...]
    allow: re.Pattern[str] | None
    detectors: tuple[Detector, ...]

    def is_allowed(self, value: str) -> bool:
        """Whether the rules say that this value is never concealed."""
        return self.allow is not None and self.allow.match(value) is not None


_BETWEEN = "\n\x00\n"
"""Stands between values that are searched together: no pattern crosses it."""
_COVER = "\ue000"
_EMAIL = re.compile(r"[^@\s,;<>()]{1,64}@[^@\s,;<>()]+\.[^@\s,;<>().]{2,}")
_ENTRY = re.compile(r"[^,;\n]+")
_FEW = 4
_UNSEARCHED_NUMBER = 10**11
LEAST_SEARCHED = 16
_SEARCHED = re.compile(r"[\d@:=<]|__")
"""A value shorter than that and without one of these is a word or two."""
_SEARCHED_CLOSELY = re.compile(r"[\d@:=<%&]|__| [A-ZÀ-ÖØ-ÞŁŚŻ]")
"""The same for an answer, which detectors search besides: an escape, or a title before a name, may be in it."""


class Judge:
    """Applies the criteria to the fields of one value."""

    def __init__(self, criteria: Criteria, *, foreign_tokens: bool) -> None:
        self._criteria = criteria
        self._foreign = foreign_tokens
        self._searches_names = bool(criteria.patterns or criteria.detectors)
        self._signs = _SEARCHED_CLOSELY if criteria.detectors else _SEARCHED

    @property
    def _searches_all(self) -> bool:
        """Whether even the shortest value must be searched: somebody else's detector may know it.

        What is found by name is known from then on, so it is asked when everything by name has been decided.
        """
        return bool(self._criteria.patterns) or any(map(_knows_words, self._criteria.detectors))

    def by_name(self, fields: Iterable[Field], undecided: list[Sequence[Leaf]]) -> Iterator[tuple[Leaf, Verdict]]:
        """Every value of a private field; all others are added to `undecided`, a column at a time."""
        for field in fields:
            if not field.leaves or field.treatment == "visible":
                continue
            kind = decide(field)
            if not kind or kind.removesuffix("?") not in self._criteria.types:
                undecided.append(field.leaves)
                continue
            rest: list[Leaf] = []
            is_simple = kind not in ("person?", "text") and self._criteria.allow is None
            for leaf in field.leaves:
                value = leaf[0]
                if is_simple and isinstance(value, str) and "@" not in value and "__" not in value:
                    if len(value) > 24 or not is_blank(value):
                        yield leaf, kind
                elif not applies(kind, value):
                    rest.append(leaf)
                else:
                    verdict = self._whole(kind.removesuffix("?"), value)
                    if verdict:
                        yield leaf, verdict
            undecided.append(rest)

    def by_value(self, leaves: Sequence[Leaf]) -> Iterator[tuple[Leaf, Verdict]]:
        """Every value that holds something private, searched as one text.

        What is only searched because a detector may know it is searched by detectors alone.
        """
        if not self._searches_all:
            yield from self._by_value(leaves, is_form_searched=True)
            return
        searched: list[Leaf] = []
        known: list[Leaf] = []
        signs = self._signs.search
        for leaf in leaves:
            value = leaf[0]
            if isinstance(value, str):
                (searched if len(value) >= LEAST_SEARCHED or signs(value) else known).append(leaf)
            else:
                (searched if _is_long_number(value) else known).append(leaf)
        yield from self._by_value(searched, is_form_searched=True)
        yield from self._by_value(known, is_form_searched=False)

    def _by_value(self, leaves: Sequence[Leaf], *, is_form_searched: bool) -> Iterator[tuple[Leaf, Verdict]]:
        if not leaves:
            return
        texts = [leaf[0] if isinstance(leaf[0], str) else str(leaf[0]) for leaf in leaves]
        joined = _BETWEEN.join(texts)
        spans = iter(self._search(joined, is_form_searched=is_form_searched))
        span = next(spans, None)
        start = 0
        for leaf, text in zip(leaves, texts, strict=True):
            if span is None:
                return
            end = start + len(text)
            findings = []
            while span is not None and span.start < end:
                if span.start >= start and span.end <= end:
                    findings.append(
                        Finding(span.start - start, span.end - start, span.type, joined[span.start : span.end])
                    )
                span = next(spans, None)
            if findings and not isinstance(leaf[0], str):
                if len(findings) == 1 and findings[0].end == len(text):
                    yield leaf, findings[0].type
            elif findings:
                yield leaf, findings
            start = end + len(_BETWEEN)

    def searched(self, columns: Iterable[Sequence[Leaf]]) -> Iterator[Leaf]:
        """Those values of some columns that can hold something private by value."""
        if self._searches_all:
            for column in columns:
                yield from column
            return
        signs = self._signs.search
        for column in columns:
            if isinstance(column, Cells):
                texts = column.texts
                if signs("\n".join(texts)):
                    for text, start in zip(texts, column.starts, strict=True):
                        if len(text) >= LEAST_SEARCHED or signs(text):
                            yield text, start, None
                elif max(map(len, texts), default=0) >= LEAST_SEARCHED:
                    for text, start in zip(texts, column.starts, strict=True):
                        if len(text) >= LEAST_SEARCHED:
                            yield text, start, None
                continue
            is_signed = len(column) < _FEW or signs("\n".join(texts_of(column)))  # one look at many
            for leaf in column:
                value = leaf[0]
                if not isinstance(value, str):
                    if _is_long_number(value):
                        yield leaf
                elif len(value) >= LEAST_SEARCHED or (is_signed and signs(value)):
                    yield leaf

    def private_names(self, fields: Sequence[Field], searched: list[str]) -> dict[str, list[Finding]]:
        """The names of fields that are private themselves; those that may be by value are added to `searched`."""
        found: dict[str, list[Finding]] = {}
        candidates: dict[str, None] = {}
        for field in fields:
            name = field.name
            if not name or field.treatment == "visible":
                continue
            kind = field.parent.meaning.keys if field.parent is not None else ""
            if kind and kind in self._criteria.types:
                verdict = self._whole(kind, name) if applies(kind, name) else []
                if verdict:
                    found[name] = verdict
            elif self._searches_names or field.meaning.may_be_private:
                candidates[name] = None
        searched += (name for name in candidates if name not in found)
        return found

    def _whole(self, kind: str, value: Value) -> list[Finding]:
        """A value that is private as it stands, but for the tokens in it."""
        if not isinstance(value, str):
            return [] if self._criteria.is_allowed(str(value)) else [Finding(0, len(str(value)), kind, value)]
        kept = value.strip()
        if self._criteria.is_allowed(kept):
            return []
        if kind not in ("email", "text") and _EMAIL.fullmatch(kept) and "email" in self._criteria.types:
            kind = "email"  # the same token wherever the address stands
        elif kind == "email" and not _EMAIL.fullmatch(kept) and _EMAIL.search(kept) and TOKEN.search(kept) is None:
            types = self._criteria.types
            return [
                each
                for each in _mailboxes(value)
                if each.type in types and not self._criteria.is_allowed(str(each.value))
            ]
        tokens = [] if self._foreign or "__" not in value else [match.span() for match in TOKEN.finditer(value)]
        if not tokens:
            start = len(value) - len(value.lstrip())
            return [Finding(start, start + len(kept), kind, kept)]
        findings = []
        for begin, stop in zip(
            [0, *(end for _, end in tokens)], [*(start for start, _ in tokens), len(value)], strict=True
        ):
            findings += _rest(value, begin, stop, kind)
        return findings

    def _search(self, text: str, *, is_form_searched: bool) -> list[Span]:
        """What is private in a text by value alone, sorted and without overlap."""
        criteria = self._criteria
        found: list[Span] = []
        covered = text
        if "__" in text and TOKEN.search(text):
            covered = TOKEN.sub(lambda match: _COVER * len(match.group()), text)
            if self._foreign:
                found += [Span(*match.span(), "literal") for match in TOKEN.finditer(text)]
        if is_form_searched:
            found += find_values(covered)
            found += find_in_prose(covered)
        for name, pattern in criteria.patterns:
            found += _matches(name, pattern, covered)
        for detector in criteria.detectors:
            found += detector.find(covered)
        kept = [
            span
            for span in found
            if span.type in criteria.types
            and not criteria.is_allowed(text[span.start : span.end])
            and (span.type == "literal" or _COVER not in covered[span.start : span.end])
        ]
        return merge(kept)


def _is_long_number(value: float) -> bool:
    return isinstance(value, int) and abs(value) >= _UNSEARCHED_NUMBER


def _knows_words(detector: Detector) -> bool:
    """Whether a detector may find something in a word or two: not if it says otherwise, or knows nothing yet."""
    return bool(detector) and getattr(detector, "knows_words", True)


def _mailboxes(value: str) -> Iterator[Finding]:
    """Each address in a list of them, and the name beside it: `Ann Lee <ann@lee.example>, bo@lee.example`."""
    for entry in _ENTRY.finditer(value):
        last = entry.start()
        for match in _EMAIL.finditer(value, *entry.span()):
            yield from _rest(value, last, match.start(), "person")
            yield Finding(*match.span(), "email", match.group())
            last = match.end()
        yield from _rest(value, last, entry.end(), "email" if last == entry.start() else "person")


def _rest(value: str, start: int, end: int, kind: str) -> list[Finding]:
    """What stands between two tokens, if there is a letter or digit in it."""
    while start < end and not value[start].isalnum():
        start += 1
    while end > start and not value[end - 1].isalnum():
        end -= 1
    return [Finding(start, end, kind, value[start:end])] if end > start else []


def _matches(name: str, pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    group: int | str = "value" if "value" in pattern.groupindex else min(1, pattern.groups)
    for match in pattern.finditer(text):
        start, end = match.span(group)
        if end > start:
            yield Span(start, end, name)
