"""Private values that are numbers: addresses of machines, cards, accounts, telephone and register numbers.

One pass over the text finds runs of digits and their separators. Everything else looks only at such a run and at the
few characters around it, so the cost is that of the pass plus a bounded amount per run.

- A label is the word before a number that decides its kind: a bare run of digits may be an order number or a telephone
  number. The nearest word counts, and only if nothing but filling stands between: a comma, a brace or another number
  ends its reach.
- Telephone numbers follow rules of our own instead of a metadata package: answers hold numbers of any country without
  naming it, many of them made up or mistyped, so the shape that people write counts, not assignment by an operator.
"""

import re
import tomllib
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from sealyard.privacy.detect.checks import digits_of, iban_length, is_card, is_iban, is_ipv4, is_plausible, is_ssn, luhn
from sealyard.privacy.detect.registers import FORMATS, is_ean13, shape_of
from sealyard.privacy.span import Span


class _Label(NamedTuple):
    """The kind that a word in front of a number gives it."""

    type: str
    is_exact: bool
    """The word names one kind of number, so its check digit need not fit."""


_REACH = 44  # characters before a number in which a word can label it
_OTHER_SCRIPTS = re.compile(
    "(?P<phone>电话|手机|電話|携帯|전화|휴대폰|هاتف|جوال|फोन|טלפון)"
    "|(?P<national_id>身份证|身分證|マイナンバー|주민등록번호|תעודת זהות)"
    "|(?P<tax_id>税号)|(?P<credit_card>信用卡|カード番号)|(?P<bank_account>账号|银行卡)|(?P<passport>护照|パスポート|여권)"
)
_LABEL_WORD = re.compile(r"[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])|[A-Z][^\W\d_A-Z]*")
_LABEL_END = re.compile(r"[0-9,;{}|\t\n]")
_LABEL_ENDS = frozenset("0123456789,;{}|\t\n")


def _labels() -> tuple[dict[str, _Label], dict[str, _Label]]:
    """The labels by their words, and those that a word only has to start with."""
    words: dict[str, _Label] = {}
    starts: dict[str, _Label] = {}
    data = tomllib.loads(files("sealyard.privacy.detect").joinpath("labels.toml").read_text(encoding="utf-8"))
    for each in data["label"]:
        label = _Label(each["type"], each["exact"])
        for word in each["words"].split():
            target, key = (starts, word[:-1]) if word.endswith("*") else (words, word.replace("_", " "))
            target.setdefault(key, label)
    return words, starts


_BY_WORDS, _BY_START = _labels()
_STARTS = tuple(_BY_START)


def _label_before(text: str, start: int) -> _Label | None:
    """The label in the nearest word before the place; None if no word reaches it."""
    if not start or (text[start - 1] in _LABEL_ENDS and text[max(0, start - 2) : start] != ":\n"):
        return None
    # In a form the word stands on a line of its own.
    window = text[max(0, start - _REACH) : start].replace(":\n", ": ")
    if end := _LABEL_END.search(window[::-1]):
        window = window[len(window) - end.start() :]
    if not window.isascii() and (other := _OTHER_SCRIPTS.search(window)) and other.lastgroup:
        return _Label(other.lastgroup, is_exact=True)
    words = _LABEL_WORD.findall(window.replace("'s", "s"))
    for place in range(len(words) - 1, -1, -1):
        label = _label(words, place)
        if label and not label.is_exact and place:
            # The more exact word of "tax id number" counts.
            label = max(label, _label(words, place - 1) or label, key=lambda found: found.is_exact)
        if label:
            return label if label.type else None
    return None


def _label(words: list[str], place: int) -> _Label | None:
    """The label that ends with the word at the place: three words, two, the word, or its start."""
    lower = words[place].lower()
    for length in (3, 2):
        phrase = " ".join(words[place - length + 1 : place + 1]).lower() if place >= length - 1 else ""
        if phrase in _BY_WORDS:
            return _BY_WORDS[phrase]
    # A few count in capitals only: `SIN` and `RUN` are words as well.
    if found := _BY_WORDS.get(words[place]) or _BY_WORDS.get(lower):
        return found
    if lower.startswith(_STARTS):
        return next(label for start, label in _BY_START.items() if lower.startswith(start))
    return None


COUNTRY_CODES = frozenset(
    "1 7 20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63 64 65 66 81 82 84 86"
    " 90 91 92 93 94 95 98 211 212 213 216 218 220 221 222 223 224 225 226 227 228 229 230 231 232 233 234 235 236 237"
    " 238 239 240 241 242 243 244 245 246 247 248 249 250 251 252 253 254 255 256 257 258 260 261 262 263 264 265 266"
    " 267 268 269 290 291 297 298 299 350 351 352 353 354 355 356 357 358 359 370 371 372 373 374 375 376 377 378 379"
    " 380 381 382 383 385 386 387 389 420 421 423 500 501 502 503 504 505 506 507 508 509 590 591 592 593 594 595 596"
    " 597 598 599 670 672 673 674 675 676 677 678 679 680 681 682 683 685 686 687 688 689 690 691 692 800 808 850 852"
    " 853 855 856 870 878 880 881 882 883 886 888 960 961 962 963 964 965 966 967 968 970 971 972 973 974 975 976 977"
    " 979 992 993 994 995 996 998".split()
)

_EXTENSION = re.compile(
    r"[ ,;]{0,2}(?:x|ext\.?|extension|#|durchwahl|poste|int\.?)[ :.]{0,2}([0-9]{1,6})(?![0-9A-Za-z])", re.IGNORECASE
)
"""The extension within a house that may follow a number."""

_INTERNATIONAL = re.compile(
    r"(?<![A-Za-z0-9_])(?:\+|(?<![0-9] )00(?=[1-9]))[ (]{0,2}[1-9](?:[ ().\-/]{0,3}[0-9]){5,14}+"
)
"""A country code and what belongs to it. `_is_international` decides."""


def _is_international(value: str) -> bool:
    """True if the digits start with a country code and are as many as its numbers have."""
    digits = digits_of(value)
    if not value.lstrip().startswith("+"):
        digits = digits.removeprefix("00")
    if digits[:1] in {"1", "7"}:
        return len(digits) == 11
    code = next((digits[:length] for length in (2, 3) if digits[:length] in COUNTRY_CODES), None)
    return code is not None and 5 <= len(digits) - len(code) <= 13 and 8 <= len(digits) <= 15


_NATIONAL = re.compile(
    r"""
    (?<![A-Za-z0-9_])(?<![A-Za-z0-9][.\-/])
    (?:
      (?:1[ .\-])?\(?[0-9]{3}\)?[ ]?[.\-][ ]?[0-9]{3}[ .\-][0-9]{4}      # 555-123-4567, (555)-123-4567
    | (?:1[ .\-])?\([0-9]{3}\)[ ]?[0-9]{3}[ .\-]?[0-9]{4}                # (555) 123-4567
    | (?<![0-9][ ])(?:1[ .\-])?[2-9][0-9]{2}[ ][2-9][0-9]{2}[ \-][0-9]{4}             # 555 234 4567
    | [2-9][0-9]{2}/[0-9]{3}-[0-9]{4}                                    # 555/123-4567
    | \(0[0-9]{1,5}\)(?:[ .\-/]{0,2}[0-9]{2,8}){1,4}                     # (030) 1234 5678
    | (?<![0-9][ ])0[0-9]{1,5}(?:[ .\-/][0-9]{2,8}){1,5}                              # 030 1234567, 06 12 34 56 78
    | (?<![0-9][ ])0[0-9]{1,4}[ ]?[\-/][ ]?[0-9]{3,8}(?:[ \-][0-9]{2,5}){0,3}         # 030 / 123456
    | \([1-9][0-9]{1,3}\)[ ]?[0-9]{3,5}[ \-]?[0-9]{3,5}                  # (11) 91234-5678
    | [1-9][0-9][ ]9?[0-9]{4}-[0-9]{4}                                   # 11 91234-5678
    | 8[ \-]?\(?[3-9][0-9]{2}\)?[ \-][0-9]{3}[ \-][0-9]{2}[ \-]?[0-9]{2} # 8 (912) 345-67-89
    | 1[3-9][0-9][ \-][0-9]{4}[ \-][0-9]{4}                              # 138 1234 5678
    | [6-9][0-9]{4}[ \-][0-9]{5}                                         # 98765 43210
    | 1[38]00[ \-][0-9]{3}[ \-][0-9]{3}                                  # 1300 123 456
    )
    (?![0-9])(?![.\-/](?:[0-9]|[A-Za-z]{1,2}(?![A-Za-z])))(?![A-WYZa-wyz_])
    """,
    re.VERBOSE,
)
"""A number as people write it at home. `_is_national` decides."""

_ARTICLE_NUMBER = re.compile(r"97[89][ \-]|[0-9]-[0-9]{2,7}-[0-9]{2,7}-[0-9X]")


def _is_national(value: str) -> bool:
    """True if a text of the form `_NATIONAL` has as many digits as a number, and is not an ISBN."""
    digits = digits_of(value)
    if _ARTICLE_NUMBER.match(value) or len(set(digits)) < 2:
        return False
    if digits.startswith("00"):
        return _is_international(value)
    return (8 if value[0] == "(" else 9) <= len(digits) <= 12


_RUN = re.compile(
    # not a whole cell that is a plain number or a day, nor the rest of one
    r"[0-9](?:(?=[0-9 ().\-/]{5})(?<![0-9][0-9])(?<![0-9]\.[0-9])"
    r"(?!(?<=[\n\t,;|][0-9])(?:[0-9]{0,11}(?:\.[0-9]{1,20})?|[0-9]{3}-[0-9]{2}-[0-9]{2})[\n\t,;|])[0-9 ().\-/]{5,}"
    r"|[0-9]{3}[A-Z](?![A-Za-z0-9])"  # the end of an Indian PAN
    # the start of an IBAN with a bank's letters
    r"|(?<=[A-Za-z]{2}[0-9])(?<![A-Za-z0-9][A-Za-z]{2}[0-9])[0-9][ \-]?[A-Za-z0-9]{4})"
)
_GLUE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+(")
_STAMP = re.compile(
    r"(?:19|20)(?<![A-Za-z0-9.\-/][0-9]{2})[0-9]{2}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9]"
    r"(?::[0-5][0-9])?(?:[.,][0-9]{1,9})?(?![0-9])"
)
"""A day with a time, frequent in logs and never private."""
_LEAST_ALONE = 13
"""Fewer bare digits than this are private only if a word says so."""
_LONGEST_DAY = 13  # characters of a written date
_ENDS = frozenset(("", *"\n\t,;|"))
"""Signs around a number that no word reaches."""
_GLUED = re.compile(r"[A-Za-z0-9_\-]{0,24}")
_GLUED_BEFORE = re.compile(r"[A-Za-z0-9_\-]{1,24}|[+(]{1,2}")
_WIDE = re.compile(r" {2,}")
_MONEY = frozenset("$€£¥₹₽₩")

# Excluded beside a complete number: letters, or further digits after a separator.
_BEFORE = r"(?<![A-Za-z0-9_])(?<![A-Za-z0-9][.\-/])"
_AFTER = r"(?![A-Za-z0-9_])(?![.\-/][A-Za-z0-9])"

_DATE = re.compile(
    rf"{_BEFORE}(?:(?:19|20)[0-9]{{2}}([.\-/])(?:0?[1-9]|1[0-2])\1[0-3]?[0-9]"
    rf"|[0-3]?[0-9]([.\-/])[0-3]?[0-9]\2(?:(?:19|20)[0-9]{{2}}|[0-9]{{2}})){_AFTER}"
)
_IPV4 = re.compile(rf"{_BEFORE}[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}}(?![A-Za-z0-9_])(?!\.[0-9])")
_VERSION = re.compile(
    r"(?:\b(?:v|ver|version|release|build|firmware|revision|update|upgrade|package)s?[ :=\"'.]*|[A-Za-z][/\-_@]v?)$",
    re.IGNORECASE,
)
_SSN = re.compile(rf"{_BEFORE}[0-9]{{3}}-[0-9]{{2}}-[0-9]{{4}}{_AFTER}")
_CARD = re.compile(
    rf"{_BEFORE}(?:[0-9]{{13,19}}|[0-9]{{4}}([ \-.])[0-9]{{4}}\1[0-9]{{4}}\1[0-9]{{1,4}}(?:\1[0-9]{{1,3}})?"
    rf"|[0-9]{{4}}([ \-])[0-9]{{6}}\2[0-9]{{4,5}}|[0-9]{{6}}[ \-][0-9]{{7,13}}|[0-9]{{4}}[ \-][0-9]{{9,12}}"
    rf"|[0-9]{{8}}[ \-][0-9]{{8}}){_AFTER}"
)
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9.\-/+()]*(?<=[A-Za-z0-9)])")
_IBAN = re.compile(r"[A-Za-z]{2}[0-9]{2}(?:[ \-]?[A-Za-z0-9]){11,30}")
_SEPARATORS = frozenset(" ()./")
_NO_NUMBER = frozenset(
    date + time
    for date in (
        "9999-99-99 9999-9-9 9999-9-99 9999-99-9 9999/99/99 9999.99.99 99/99/9999 9/9/9999 99/9/9999 9/99/9999"
        " 99-99-9999 99.99.9999 9.9.9999 9.99.9999 99.9.9999 99/99/99 99-99-99 99.99.99".split()
    )
    for time in ("", " 99", " 9", "A99", "A9")
)
"""The shapes of days, alone or with an hour. Answers are full of them."""
_WORD_BEHIND = re.compile(r"-[A-Za-z]{3,}$")
_NUMBER_CHARACTERS = 40
"""No number of a register is longer."""


def find_numbers(plain: str, text: str) -> list[Span]:
    """The private numbers of the text. `plain` is the text in ASCII, of the same length."""
    spans: list[Span] = []
    if ":" in plain and "-" in plain:
        plain = _STAMP.sub(lambda stamp: "#" * len(stamp[0]), plain)
    done = 0
    for run in _RUN.finditer(plain):
        left, right = run.span()
        if right <= done:
            continue
        if left > done and plain[left - 1] in _GLUE:
            glued = _GLUED_BEFORE.match(plain[max(done, left - 24) : left][::-1])
            left -= glued.end() if glued else 0
            if plain[left].isalpha() and (iban := find_iban(plain, left)):
                spans.append(iban)
                done = left = iban.end
        if plain[right - 1] not in _SEPARATORS:
            glued = _GLUED.match(plain, right, right + 24)
            right = glued.end() if glued else right
        done = max(done, right)
        piece = plain[left:right]
        if "  " in piece:
            for start, end in _without_wide_gaps(plain, left, right):
                spans += _in_piece(plain[start:end], start, plain, text)
        elif "_" not in piece and not (_is_bare(piece) and _is_alone(text, left, right)):
            spans += _in_piece(piece, left, plain, text)
    return spans


def _without_wide_gaps(plain: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a run between two or more spaces: the columns of a table."""
    for gap in _WIDE.finditer(plain, start, end):
        yield start, gap.start()
        start = gap.end()
    yield start, end


def _is_bare(piece: str) -> bool:
    """True if the number is not private without a label: few digits, a fraction, a day."""
    if piece.isdigit():
        return len(piece) < _LEAST_ALONE
    return _is_plain_shape(shape_of(piece)) if len(piece) <= _LONGEST_DAY else False


@lru_cache(maxsize=4096)
def _is_plain_shape(shape: str) -> bool:
    return shape in _NO_NUMBER or (shape.count(".") == 1 and not shape.strip("9."))


def _is_alone(text: str, start: int, end: int) -> bool:
    """True if no word reaches the place from either side."""
    before, after = text[start - 1 : start], text[end : end + 1]
    return after in _ENDS and before in _ENDS and not (before == "\n" and text[start - 2 : start] == ":\n")


def find_iban(plain: str, start: int) -> Span | None:
    """The account number that starts at the place, in one piece or in groups."""
    length = iban_length(plain[start : start + 2])
    if not length or not (found := _IBAN.match(plain, start)):
        return None
    left = length
    for place in range(start, found.end()):
        left -= plain[place].isalnum()
        if not left:
            value = plain[start : place + 1]
            is_whole = not plain[place + 1 : place + 2].isalnum()
            return Span(start, place + 1, "iban") if is_whole and is_iban(value) else None
    return None


def _in_piece(piece: str, offset: int, plain: str, text: str) -> list[Span]:
    """The findings in one run of digits and separators, with the letters that touch it."""
    value = piece.strip(" .-/").rstrip(" (")
    if value[-1:].isalpha():
        value = _WORD_BEHIND.sub("", value)
    shape = shape_of(value)
    if (
        len(value) < 6
        or shape in _NO_NUMBER
        or "_" in shape
        or (shape.count(".") == 1 and value.replace(".", "").isdigit())
    ):
        return []
    offset += piece.index(value)
    if offset and (text[offset - 1] in _MONEY or (text[offset - 1] == " " and text[offset - 2] in _MONEY)):
        return []
    if name := _registered(value, shape):
        return [Span(offset, offset + len(value), name)]
    is_word = "A" in shape and " " not in shape and "x" not in value
    found = [] if is_word or (value.isdigit() and len(value) < 13) else _forms(value, shape, offset, plain)
    if not found and (labelled := _labelled(value, shape, offset, text)):
        found.append(labelled)
    return found


def _forms(value: str, shape: str, offset: int, plain: str) -> list[Span]:
    """Numbers recognised by their form, the surest first."""
    if len(value) > 10 and _DATE.search(value):
        # A date is not private, and the text beside it is read without it.
        value = _DATE.sub(lambda date: "#" * len(date[0]), value)
    found: list[Span] = []
    if " " in shape:
        tokens = ((token, _registered(token[0], shape_of(token[0]))) for token in _TOKEN.finditer(value))
        found += (Span(offset + token.start(), offset + token.end(), name) for token, name in tokens if name)
        value = without(value, found, offset=offset)
    for name, pattern, check, may_be in _FORMS:
        accepted: list[Span] = []
        for match in pattern.finditer(value) if may_be(value, shape) else ():
            start, end = offset + match.start(), offset + match.end()
            if not check(match[0]) or (name == "ip" and _VERSION.search(plain[max(0, start - 16) : start])):
                continue
            if name == "phone" and (extension := _EXTENSION.match(plain, end)):
                end = extension.end()
            accepted.append(Span(start, end, name))
        if accepted:
            value = without(value, accepted, offset=offset)
            found += accepted
    return found


def without(text: str, spans: list[Span], *, offset: int = 0) -> str:
    """The text with findings masked, so that nothing is read twice. Spans must be in order."""
    parts: list[str] = []
    done = 0
    for span in spans:
        parts += (text[done : span.start - offset], "#" * (span.end - span.start))
        done = span.end - offset
    return "".join((*parts, text[done:])) if spans else text


def find_registered(value: str) -> str | None:
    """The type of a register's number that is recognised by its form alone."""
    return _registered(value, shape_of(value)) if len(value) <= _NUMBER_CHARACTERS else None


def _registered(value: str, shape: str) -> str | None:
    for form in FORMATS.get(shape, ()):
        if form.alone and form.check(value):
            return form.type
    return None


def _is_card_number(value: str) -> bool:
    """A card, unless thirteen bare digits are also the number of an article."""
    return is_card(value) and not (len(value) == 13 and is_ean13(value))


_FORMS: tuple[tuple[str, re.Pattern[str], Callable[[str], bool], Callable[[str, str], bool]], ...] = (
    ("ip", _IPV4, is_ipv4, lambda value, shape: shape.count(".") >= 3),
    ("ssn", _SSN, is_ssn, lambda value, shape: "999-99-9999" in shape),
    ("credit_card", _CARD, _is_card_number, lambda value, shape: shape.count("9") >= 13),
    ("phone", _INTERNATIONAL, _is_international, lambda value, shape: "+" in value or "00" in value),
    ("phone", _NATIONAL, _is_national, lambda value, shape: len(value) >= 10),
)
"""The surest first: the type, the form, the check of a match, and a cheap look at a value and its shape before both."""


_USE = re.compile(
    r"[ \-]{0,2}\(?(?:office|mobile|cell|fax|home|work|direct|phone|tel|büro|mobil|handy|privat|domicile)\b",
    re.IGNORECASE,
)
"""Marks that business cards put behind a telephone number."""
_COUNTRY_BEFORE = re.compile(r"\b[A-Z]{2} ")


def _labelled(value: str, shape: str, offset: int, text: str) -> Span | None:
    """The number labelled by the words before it."""
    digits = shape.count("9")
    if not (5 if digits == len(shape) else 4) <= digits <= 34:
        return None
    if digits >= 7 and _USE.match(text, offset + len(value)) and is_plausible("phone", value):
        return Span(offset, offset + len(value), "phone")
    label = _label_before(text, offset)
    if label is None or not _fits(label, value, shape):
        return None
    country = _COUNTRY_BEFORE.search(text, max(0, offset - 3), offset) if label.type == "tax_id" else None
    return Span(country.start() if country else offset, offset + len(value), label.type)


def _fits(label: _Label, value: str, shape: str) -> bool:
    """True if the value can be what the label says."""
    digits = digits_of(value)
    if label.type == "credit_card":
        return len(digits) >= 12 and is_plausible(label.type, value) and (label.is_exact or luhn(digits))
    if not label.is_exact:
        return any(form.check(value) for form in FORMATS.get(shape, ()))
    if label.type == "phone":
        return len(digits) >= 6 and is_plausible(label.type, value)
    if label.type == "ssn":
        # Numbers of the 900s are not issued, but written on many a form.
        return len(digits) == 9 and is_ssn("1" + digits[1:] if digits[0] == "9" else digits)
    return is_plausible(label.type, value)
