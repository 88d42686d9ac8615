"""A self-check of detection: made-up samples that every sensible configuration finds.

No sample belongs to anybody. Numbers with check digits are computed, not listed: scanners of source code would take
them for leaked secrets. The same samples are made every time.
"""

import base64
import random
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from string import ascii_letters, ascii_lowercase, digits, hexdigits

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
        """The share that was found; None if the rules ask for none of the types."""
        return self.found / self.samples if self.samples else None


def check_detection(scanner: Scanner) -> Detection:
    """Look for the samples of all types that the scanner's rules ask for. It takes some 20 ms: use a thread.

    A value that the rules allow does not count as a sample. A sample found as another type counts as found.
    """
    rules = scanner.rules
    made = random.Random(6)  # noqa: S311 - the same samples every time, on purpose
    missed: Counter[str] = Counter()
    count = 0
    for kind, (make, *places) in _SAMPLES.items():
        for _ in range(_VALUES):
            value = make(made)
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


# How samples are made


def _pick(made: random.Random, characters: str, length: int) -> str:
    return "".join(made.choice(characters) for _ in range(length))


def _word(made: random.Random) -> str:
    return made.choice("bdklmnrst") + made.choice("aeiou") + made.choice("lmnr") + made.choice(("ana", "eto", "ika"))


def _name(made: random.Random) -> str:
    return f"{_word(made).capitalize()} {_word(made).capitalize()}son"


def _email(made: random.Random) -> str:
    return f"{_word(made)}.{_word(made)}@{_word(made)}.example"


def _phone(made: random.Random) -> str:
    return f"+1 415 555 {made.randrange(100, 10_000):04}"


def _ssn(made: random.Random) -> str:
    return f"{made.randrange(100, 665)}-{made.randrange(10, 99)}-{made.randrange(1000, 9999)}"


def _card(made: random.Random) -> str:
    stem = "4" + _pick(made, digits, 14)
    doubled = [sum(divmod(2 * int(each), 10)) for each in stem[::2]]
    return stem + str(-(sum(doubled) + sum(map(int, stem[1::2]))) % 10)


def _iban(made: random.Random) -> str:
    account = _pick(made, digits, 18)
    return f"DE{98 - int(account + '131400') % 97:02}{account}"


def _ip(made: random.Random) -> str:
    return f"203.0.113.{made.randrange(1, 255)}"


def _mac(made: random.Random) -> str:
    return ":".join(["02", *(f"{made.randrange(256):02x}" for _ in range(5))])


def _url(made: random.Random) -> str:
    return f"https://{_word(made)}:{_password(made)}@{_word(made)}.example/path"


def _password(made: random.Random) -> str:
    return f"{_word(made).capitalize()}-{_pick(made, digits, 4)}-{_pick(made, ascii_letters, 5)}"


def _api_key(made: random.Random) -> str:
    return "gh" + "p_" + _pick(made, ascii_letters + digits, 36)


def _jwt(made: random.Random) -> str:
    parts = ('{"alg":"HS256","typ":"JWT"}', f'{{"sub":"{_word(made)}","iat":1700000000}}')
    encoded = [base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, _pick(made, ascii_letters + digits, 43)])


def _private_key(made: random.Random) -> str:
    lines = "\n".join(_pick(made, ascii_letters + digits, 64) for _ in range(4))
    return f"-----BEGIN {'PRIVATE'} KEY-----\n{lines}\n-----END {'PRIVATE'} KEY-----"


def _wallet(made: random.Random) -> str:
    return "0x" + _pick(made, hexdigits.lower(), 40)


def _date(made: random.Random) -> str:
    return f"19{made.randrange(40, 99)}-{made.randrange(1, 13):02}-{made.randrange(1, 29):02}"


def _street(made: random.Random) -> str:
    return f"{made.randrange(1, 200)} {_word(made).capitalize()} Street"


def _login(made: random.Random) -> str:
    return f"{_word(made)}{made.randrange(10, 99)}"


def _number(made: random.Random) -> str:
    return made.choice(ascii_lowercase).upper() + _pick(made, digits, 8)


_SAMPLES: dict[str, tuple[Callable[[random.Random], str], *tuple[str, ...]]] = {
    "person": (_name, "full_name", "customer_name"),
    "email": (_email, "email", "note", "Write to {} before noon."),
    "phone": (_phone, "phone", "Call {} tomorrow.", '{"mobile": "{}"}'),
    "address": (_street, "street_address"),
    "date_of_birth": (_date, "date_of_birth", "dob"),
    "username": (_login, "username"),
    "ssn": (_ssn, "ssn", "SSN {} is on file."),
    "national_id": (_number, "national_id"),
    "tax_id": (_number, "tax_id"),
    "passport": (_number, "passport_number"),
    "driver_license": (_number, "driver_license"),
    "medical_id": (_number, "patient_id"),
    "credit_card": (_card, "card_number", "value", "Paid with {} today."),
    "iban": (_iban, "iban", "value", "Transfer it to {} please."),
    "bank_account": (_number, "account_number"),
    "wallet": (_wallet, "wallet", "Send it to {} now."),
    "ip": (_ip, "ip_address", "Request from {} was slow."),
    "mac": (_mac, "mac_address", "Device {} is offline."),
    "url": (_url, "value", "Fetched {} twice."),
    "api_key": (_api_key, "api_key", "export TOKEN={}", "value"),
    "auth_token": (_jwt, "token", "Authorization: Bearer {}"),
    "private_key": (_private_key, "value", "The file held\n{}\nand no more."),
    "password": (_password, "password", "password={}"),
}
"""The maker of a value of each type, and the places where it stands."""
