"""Decisions on which values are private: first a column at a time by field name, then all others together by value.

A field's name decides if it is clear; otherwise its neighbours and values decide with it. `_decide` holds
these rules; `Judge` applies them, and the criteria of a scanner, to the fields of one value.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from sealyard.privacy.detect.forms import find_in_prose, find_values
from sealyard.privacy.reading import lexicon
from sealyard.privacy.reading.fields import Cells, Column, Field, Leaf, Value, texts_of
from sealyard.privacy.reading.lexicon import is_blank, read_name, split_name
from sealyard.privacy.span import TOKEN, TYPES, Detector, Span, merge


class Finding(msgspec.Struct, gc=False):
    """A private value in a text."""

    start: int
    end: int
    type: str
    value: Value
    quote: str = ""
    """The quotation mark to put around its token where the value itself had none."""


Verdict: TypeAlias = str | list[Finding]
"""The type of a value that is private as a whole, or the private parts of it by offsets."""


class Criteria(msgspec.Struct, frozen=True):
    """A scanner's rules in the form in which they are applied."""

    types: frozenset[str]
    patterns: tuple[tuple[str, re.Pattern[str]], ...]
    allow: re.Pattern[str] | None
    detectors: tuple[Detector, ...]

    def is_allowed(self, value: str) -> bool:
        """True if the rules say that this value is never concealed."""
        return self.allow is not None and self.allow.match(value) is not None


_BETWEEN = "\n\x00\n"
"""Stands between values that are searched together: no pattern crosses it."""
_COVER = "\ue000"
_EMAIL = re.compile(r"[^@\s,;<>()]{1,64}@[^@\s,;<>()]+\.[^@\s,;<>().]{2,}")
_ENTRY = re.compile(r"[^,;\n]+")
_FEW = 4  # values that are checked one by one; more are joined and checked at once
_UNSEARCHED_NUMBER = 10**11  # a number with fewer digits is private only by its field's name
LEAST_SEARCHED = 16  # characters
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
        """True if even the shortest value must be searched: somebody else's detector may know it.

        What is found by name is known from then on, so it is asked when everything by name has been decided.
        """
        # A detector may say that it finds nothing in a word or two, or know nothing yet.
        knowing = (bool(each) and getattr(each, "knows_words", True) for each in self._criteria.detectors)
        return bool(self._criteria.patterns) or any(knowing)

    def by_name(self, fields: Iterable[Field], undecided: list[Column]) -> Iterator[tuple[Leaf, Verdict]]:
        """Every value of a private field; all others are added to `undecided`, a column at a time."""
        for field in fields:
            if not field.leaves or field.treatment == "visible":
                continue
            kind = _decide(field)
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
                elif not _applies(kind, value):
                    rest.append(leaf)
                else:
                    verdict = self._whole(kind.removesuffix("?"), value)
                    if verdict:
                        yield leaf, verdict
            undecided.append(rest)

    def by_value(self, leaves: Sequence[Leaf]) -> Iterator[tuple[Leaf, Verdict]]:
        """Every value that holds something private, searched as one text.

        Values that only a detector could recognize are searched by detectors alone.
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

    def searched(self, columns: Iterable[Column]) -> Iterator[Leaf]:
        """Those values of some columns that can hold something private by value."""
        if self._searches_all:
            for column in columns:
                yield from column
            return
        signs = self._signs.search
        for column in columns:
            is_signed = len(column) < _FEW
            if not is_signed:  # one look at many
                texts = texts_of(column)
                is_signed = signs("\n".join(texts)) is not None
                if not is_signed and len(texts) == len(column) and max(map(len, texts)) < LEAST_SEARCHED:
                    continue
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
                verdict = self._whole(kind, name) if _applies(kind, name) else []
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
        """The private values in a text by value alone, sorted and without overlap."""
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
    """The text between two tokens, if it holds a letter or digit."""
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


_SAMPLE = 200  # values of a long column that decide about all of them
_CONCEALED = "__"
_KNOWING = frozenset("person email date_of_birth username password".split())
"""Kinds beside which a `name` in small letters is a login name."""
_INHERITING = frozenset(
    """number value values no nr num primary secondary home work mobile cell office main personal business other
    raw formatted text full e164 national international alt default current line address landline private day
    evening display content data plain entry date""".split()
)
"""Names that say nothing: the field is what its parent is."""
_REPEATING = {("email", "address?"), ("address", "name?"), ("address", "part?"), ("phone", "phone?")}
"""Parent and field that mean the parent: `street.name`."""
_SEPARATE = frozenset("type kind use system label status primary default verified id expiry expires country".split())
"""Fields beside an address or a name that do not belong to it."""
_POSSIBLE = frozenset("email phone ssn credit_card date_of_birth ip iban bank_account username person".split())
"""Types whose fields must hold at least one value that could be of the type."""
_NEVER_NUMBERS = frozenset("person person? email iban ip mac organization location url".split())
_LEAST_DIGITS = {"phone": 5, "ssn": 4, "credit_card": 3, "date_of_birth": 1, "ip": 1, "iban": 2, "bank_account": 4}
"""The least number of digits in a text of the type."""
_MIN_DIGITS = {"phone": 5, "ssn": 4, "credit_card": 3, "address": 1, "password": 1, "date_of_birth": 4}


def _decide(field: Field) -> str:
    """The type of everything in the field, or nothing if its values are to be looked at one by one.

    `person?` means those that `lexicon.is_full_name`: the records of a list are of more than one kind.
    """
    if field.treatment:
        return "text" if field.treatment == "whole" else ""
    kind = field.meaning.kind
    certain = kind if field.meaning.is_sure else _inherited(field)
    if certain:
        if certain not in TYPES:
            return ""
        if certain not in _POSSIBLE:
            return certain
        for leaf in field.leaves:
            if _is_possible(certain, _as_evidence(leaf[0])):
                return certain
        return ""
    leaves = field.leaves
    if not isinstance(leaves, Cells) and not kind and len(leaves) == 1 and not field.meaning.is_number:
        value = leaves[0][0]
        if not isinstance(value, str) or " " not in value:
            return ""  # most fields of a single record
    values = _values(leaves)
    return _RULES.get(kind, _by_values)(field, values) if values else ""


def _applies(kind: str, value: Value) -> bool:
    """True if a private field's value is concealed: anything but a blank, a flag or a count."""
    if isinstance(value, str):
        if kind == "person?":
            return lexicon.is_full_name(value)
        return not lexicon.is_blank(value)
    if isinstance(value, bool) or kind in _NEVER_NUMBERS:
        return kind == "text"
    if isinstance(value, float) and not value.is_integer():
        return kind in ("text", "password")
    return kind == "text" or len(str(abs(int(value)))) >= _MIN_DIGITS.get(kind, 4)


def _values(leaves: Column) -> list[Value]:
    """The values of a field without blanks: all of a short column, a spread sample of a long one."""
    for step in (max(1, len(leaves) // _SAMPLE), 1):
        found = [
            _as_evidence(leaf[0])
            for leaf in leaves[::step]
            if not isinstance(leaf[0], str) or not lexicon.is_blank(leaf[0])
        ]
        if found or step == 1:
            return found
    return []


def _as_evidence(value: Value) -> Value:
    """The value as evidence: one with a token in it speaks for nothing, so that it is judged now as it was before."""
    return _CONCEALED if isinstance(value, str) and "__" in value and TOKEN.search(value) else value


def _texts(values: Iterable[Value]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def _share(values: list[str], test: Callable[[str], bool]) -> float:
    return sum(map(test, values)) / len(values) if values else 0.0


def _is_possible(kind: str, value: Value) -> bool:
    """True if the value could be of the kind at all: one such value makes the whole column private."""
    if not isinstance(value, str):
        return _applies(kind, value)
    if kind == "email":
        return "@" in value or " at " in value or "(at)" in value or "[at]" in value
    if kind in _LEAST_DIGITS:
        return lexicon.count_digits(value) >= _LEAST_DIGITS[kind]
    if kind == "username":
        return len(value) <= 100 and not value[:4].isdigit()
    if kind == "person":
        return "/" not in value or " " in value  # `full_name` of a repository
    return True


def _inherited(field: Field) -> str:
    """The parent's type for a field that only repeats it: `phones[].number`, `address.extra`, `name.text`."""
    above = field.parent
    if above is None or not above.name:
        return ""
    kind, meaning = above.meaning.kind, field.meaning
    name = field.name.casefold()
    if above.meaning.is_sure and kind in TYPES and kind != "person":
        if not meaning.kind and (name in _INHERITING or name.isdigit()):
            return kind
        if (kind, meaning.kind) in _REPEATING:
            return kind
    if meaning.is_sure or meaning.is_thing or name in _SEPARATE:
        return ""
    if kind in ("address?", "address"):
        is_unknown = not meaning.kind and len(split_name(field.name)) <= 2
        return "address" if meaning.kind in ("address?", "place?") or (is_unknown and _is_address(above)) else ""
    if kind in ("name?", "person", "person?") and (above.kinds["part?"] or above.kinds["person"]):
        return "person" if meaning.kind in ("part?", "name?", "person?") or name in _INHERITING else ""
    return ""


def _is_address(field: Field) -> bool:
    return bool(field.kinds["place?"] or field.kinds["address"])


def _region(field: Field, values: list[Value]) -> str:
    """State and country likewise. A code beside its own full name stays: programs decide by it."""
    above = field.parent
    if above is None or not (above.personal or above.meaning.kind in ("address?", "address")):
        return ""
    texts = _texts(values)
    if texts and all(len(text) <= 3 for text in texts):
        stem = "".join(split_name(field.name))
        if stem + "full" in above.names or stem + "name" in above.names:
            return ""
    return "location"


_HOUSES = frozenset("line via road house premise premises residence".split())
"""First words of the names of fields that may hold a part of an address, such as a house's name."""


def _address(field: Field, values: list[Value]) -> str:
    """A postal address rather than one on a network: it has words, or stands beside personal fields."""
    texts = _texts(values)
    if not texts or field.parent is None:
        return ""
    fits = _share(texts, lambda text: any(each.isalpha() for each in text) and " " in text.strip() and "@" not in text)
    if (
        field.meaning.kind == "address?"
        and read_name(field.name).kind == "address?"
        and split_name(field.name)[0] in _HOUSES
    ):
        return "address" if fits and (field.parent.personal or _is_address(field.parent)) else ""
    return "address" if fits >= 0.5 or (fits and field.parent.personal) else ""


def _name(field: Field, values: list[Value]) -> str:
    """A bare `name`: a person's if parent, neighbours and values say so together."""
    texts = _texts(values)
    above = field.parent
    if not texts or above is None:
        return ""
    score = _parent_score(above) + max(-6, min(6, above.weight)) + _name_score(texts)
    if score >= 3:
        return "person"
    if above.meaning.kind == "org?" and above.parent is not None and above.parent.personal:
        return "organization"
    is_known = not _KNOWING.isdisjoint(above.kinds) and (above.weight >= 3 or above.meaning.is_role)
    if is_known and _share(texts, lexicon.is_login) >= 0.8:
        return "username"
    return "person?" if above.personal and not above.meaning.is_thing else ""


def _parent_score(above: Field) -> int:
    """The evidence of the nearest named parent: a `name` below `customer` is a person's, below `product` it is not."""
    while not above.name and above.parent is not None:
        above = above.parent
    if above.meaning.is_role:
        return 3
    if above.meaning.is_thing:
        return -4
    return -2 if above.name.casefold() in ("item", "items", "element", "elements", "document", "documents") else 0


def _name_score(texts: list[str]) -> int:
    given = _share(texts, lexicon.has_given_name)
    shaped = _share(texts, lexicon.is_name)
    if _share(texts, lexicon.is_organization) >= 0.2:
        return -5
    score = 3 if given >= 0.4 else 2 if given >= 0.15 else 0
    if shaped < 0.5:
        return min(score, 1) - 3
    return score + (1 if shaped >= 0.6 else 0)


def _part(field: Field, values: list[Value]) -> str:
    """`first` and `last` are a name's parts when both are there."""
    above = field.parent
    if above is None:
        return ""
    texts = _texts(values)
    if not texts or _share(texts, lexicon.is_name) < 0.5:
        return ""
    return "person" if above.kinds["part?"] > 1 or above.kinds["person"] else ""


def _whose_name(field: Field, values: list[Value]) -> str:
    """`customer_name`: a person's unless most are firms, or no names at all."""
    texts = _texts(values)
    if not texts or _share(texts, lexicon.is_organization) > 0.5:
        return ""
    return "person" if _share(texts, lambda text: not _is_code(text)) >= 0.5 else ""


def _is_code(text: str) -> bool:
    return any(each.isdigit() for each in text) or "_" in text or "/" in text or len(text) > 80


def _role(field: Field, values: list[Value]) -> str:
    """`assignee`, `approved_by`: a name or a login name, if most values look like one."""
    texts = _texts(values)
    if not texts:
        return ""
    named = _share(texts, lambda text: lexicon.is_name(text) and (" " in text.strip() or lexicon.has_given_name(text)))
    if named >= 0.5:
        return "person"
    if _share(texts, lexicon.is_login) >= 0.8 and split_name(field.name)[-1] in _LOGIN_ROLES:
        return "username"
    return ""


_LOGIN_ROLES = frozenset("by to assignee reporter user committer reviewer requester actor creator approver".split())


def _by_values(field: Field, values: list[Value]) -> str:
    """For a name that says nothing: a column of full names or of streets is private all the same."""
    texts = _texts(values)
    if not texts or field.meaning.is_thing:
        return ""
    if any(" " in text for text in texts):
        if _share(texts, lexicon.is_street) >= 0.6:
            return "address"
        if (len(texts) >= 3 or field.meaning.is_number) and _share(texts, lexicon.is_full_name) >= 0.6:
            return "person"
    if not field.meaning.is_number:
        return ""
    given = _share(
        texts, lambda text: " " not in text.strip() and lexicon.is_name(text) and lexicon.has_given_name(text)
    )
    return "person" if given >= 0.5 and len(texts) >= 3 else ""


def _personal_number(field: Field, values: list[Value]) -> str:
    """A licence's number: a driver's, if the record is about a person."""
    is_personal = field.parent is not None and field.parent.personal
    return "driver_license" if is_personal and any(lexicon.count_digits(str(value)) > 3 for value in values) else ""


def _beside_person(kind: str) -> Callable[[Field, list[Value]], str]:
    """A rule for a name that is private beside personal fields: a city, a firm."""
    return lambda field, values: kind if field.parent is not None and field.parent.personal else ""


def _likely(kind: str, test: Callable[[str], bool]) -> Callable[[Field, list[Value]], str]:
    """A rule for a name that fits several things: believed when most values have the form."""

    def rule(field: Field, values: list[Value]) -> str:
        return kind if _share([str(value) for value in values], test) >= 0.5 else ""

    return rule


_RULES: dict[str, Callable[[Field, list[Value]], str]] = {
    "name?": _name,
    "named?": _by_values,
    "part?": _part,
    "person?": _whose_name,
    "role?": _role,
    "place?": _beside_person("address"),
    "region?": _region,
    "org?": _beside_person("organization"),
    "address?": _address,
    "phone?": _likely("phone", lambda text: 6 <= lexicon.count_digits(text) <= 17 and len(text) <= 30),
    "date_of_birth?": _likely("date_of_birth", lambda text: lexicon.count_digits(text) >= 4 and len(text) <= 40),
    "username?": _likely("username", lambda text: 2 < len(text) <= 40 and " " not in text and not text.isdigit()),
    "password?": _likely("password", lambda text: 4 <= len(text) <= 200 and " " not in text),
    "api_key?": _likely("api_key", lexicon.is_random),
    "auth_token?": _likely("auth_token", lexicon.is_random),
    "national_id?": _likely("national_id", lambda text: lexicon.count_digits(text) >= 6 and len(text) <= 30),
    "driver_license?": _personal_number,
    "credit_card?": _likely("credit_card", lambda text: 12 <= lexicon.count_digits(text) <= 19),
    "bank_account?": _likely("bank_account", lambda text: lexicon.count_digits(text) >= 6 and len(text) <= 40),
    "wallet?": _likely("wallet", lambda text: len(text) >= 25 and " " not in text),
    "mac?": _likely("mac", lambda text: len(text) in (12, 14, 17) and any(each in text for each in ":-.")),
}
