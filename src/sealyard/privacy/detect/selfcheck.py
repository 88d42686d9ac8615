"""A self-check of detection: made-up samples that every sensible configuration finds.

No sample belongs to anybody. Numbers with check digits are computed, not listed: scanners of source code would take
them for leaked secrets. The same samples are made every time.
"""

import base64
import random
import re
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from string import ascii_letters, ascii_uppercase, digits, hexdigits

import msgspec

from sealyard.privacy.detect.scanner import Scanner

_VALUES = 5
"""Samples of each type; each stands in every place listed for the type."""


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """The number of samples that were found."""

    samples: int
    found: int
    missed: dict[str, int]
    """By type."""

    @property
    def rate(self) -> float | None:
        """The share that was found; None if the rules cover none of the types."""
        return self.found / self.samples if self.samples else None


def check_detection(scanner: Scanner) -> Detection:
    """Look for the samples of all types that the scanner's rules ask for. It takes some 20 ms: use a thread.

    A value that the rules allow does not count as a sample. A sample found as another type counts as found.
    """
    rules = scanner.rules
    made = random.Random(6)  # noqa: S311 - the same samples every time, on purpose
    missed: Counter[str] = Counter()
    count = 0
    for kind, (form, *places) in _SAMPLES.items():
        for _ in range(_VALUES):
            value = _made(form, made)
            if kind not in rules.types or any(_fits(value, pattern) for pattern in rules.allow):
                continue
            for place in places:
                count += 1
                missed[kind] += not _is_found(scanner, place, value)
    return Detection(samples=count, found=count - missed.total(), missed=dict(+missed))


def _fits(value: str, pattern: str) -> bool:
    return fnmatchcase(value.casefold(), pattern.casefold())


def _is_found(scanner: Scanner, place: str, value: str) -> bool:
    """True if nothing of the value is left of it in the place: a text with `{}`, or else the name of a field."""
    sample = place.replace("{}", value) if "{}" in place else {"id": 7, place: value}
    concealed = scanner.conceal(sample, lambda *_: "")
    return value not in (concealed if isinstance(concealed, str) else concealed[place])


# Samples

_CHARACTERS = {"9": digits, "a": ascii_letters + digits, "A": ascii_uppercase, "x": hexdigits.lower()}
_PART = re.compile(r"<([^<>]+)>")


def _made(form: str, made: random.Random) -> str:
    """A value of this form.

    `<word>` and `<Word>` stand for a made-up word, `<9*4>` for four of `_CHARACTERS`, `<01..12>` for a number of two
    digits from 1 to 12, and the names of `_COMPUTED` for what these make.
    """
    return _PART.sub(lambda part: _made_part(part[1], made), form)


def _made_part(part: str, made: random.Random) -> str:
    first, is_range, last = part.partition("..")
    if is_range:
        return str(made.randint(int(first), int(last))).zfill(len(first))
    characters, is_repeated, count = part.partition("*")
    if is_repeated:
        return "".join(made.choices(_CHARACTERS[characters], k=int(count)))
    if part in _COMPUTED:
        return _COMPUTED[part](made)
    word = "".join(map(made.choice, ("bdklmnrst", "aeiou", "lmnr", ("ana", "eto", "ika"))))
    return word.capitalize() if part == "Word" else word


def _card(made: random.Random) -> str:
    stem = _made("4<9*14>", made)
    doubled = [sum(divmod(2 * int(each), 10)) for each in stem[::2]]
    return stem + str(-(sum(doubled) + sum(map(int, stem[1::2]))) % 10)


def _iban(made: random.Random) -> str:
    account = _made("<9*18>", made)
    return f"DE{98 - int(account + '131400') % 97:02}{account}"


def _jwt(made: random.Random) -> str:
    parts = ('{"alg":"HS256","typ":"JWT"}', _made('{"sub":"<word>","iat":1700000000}', made))
    encoded = [base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, _made("<a*43>", made)])


_COMPUTED: dict[str, Callable[[random.Random], str]] = {"card": _card, "iban": _iban, "jwt": _jwt}
_NUMBER = "<A*1><9*8>"
_SECRET = "<Word>-<9*4>-<a*5>"  # noqa: S105 - a form
_ENDS = [f"-----{word} {'PRIVATE'} KEY-----" for word in ("BEGIN", "END")]

_SAMPLES: dict[str, tuple[str, ...]] = {
    "person": ("<Word> <Word>son", "full_name", "customer_name"),
    "email": ("<word>.<word>@<word>.example", "email", "note", "Write to {} before noon."),
    "phone": ("+1 415 555 <0100..9999>", "phone", "Call {} tomorrow.", '{"mobile": "{}"}'),
    "address": ("<1..199> <Word> Street", "street_address"),
    "date_of_birth": ("19<40..98>-<01..12>-<01..28>", "date_of_birth", "dob"),
    "username": ("<word><10..98>", "username"),
    "ssn": ("<100..664>-<10..98>-<1000..9998>", "ssn", "SSN {} is on file."),
    "national_id": (_NUMBER, "national_id"),
    "tax_id": (_NUMBER, "tax_id"),
    "passport": (_NUMBER, "passport_number"),
    "driver_license": (_NUMBER, "driver_license"),
    "medical_id": (_NUMBER, "patient_id"),
    "credit_card": ("<card>", "card_number", "value", "Paid with {} today."),
    "iban": ("<iban>", "iban", "value", "Transfer it to {} please."),
    "bank_account": (_NUMBER, "account_number"),
    "wallet": ("0x<x*40>", "wallet", "Send it to {} now."),
    "ip": ("203.0.113.<1..254>", "ip_address", "Request from {} was slow."),
    "mac": ("02" + ":<x*2>" * 5, "mac_address", "Device {} is offline."),
    "url": (f"https://<word>:{_SECRET}@<word>.example/path", "value", "Fetched {} twice."),
    "api_key": ("gh" + "p_<a*36>", "api_key", "export TOKEN={}", "value"),
    "auth_token": ("<jwt>", "token", "Authorization: Bearer {}"),
    "private_key": (
        "\n<a*64>".join([_ENDS[0], "", "", "", ""]) + f"\n{_ENDS[1]}",
        "value",
        "The file held\n{}\nand no more.",
    ),
    "password": (_SECRET, "password", "password={}"),
}
"""The form of the values of each type, and the places where they stand."""
