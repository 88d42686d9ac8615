"""Checks that separate real numbers and wallet addresses from look-alikes: check digits, lengths, dates, prefixes.

All are pure functions over text. Each takes a value as it was found, ignores its separators and never raises.
"""

import datetime
import hashlib
import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from operator import mul

_NO_DIGIT = re.compile(r"[^0-9]")
_SEPARATORS = re.compile(r"[ .\-/]")


def digits_of(value: str) -> str:
    """Only the ASCII digits of the value."""
    return _NO_DIGIT.sub("", value)


_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


def luhn(digits: str) -> bool:
    """True if the digits pass the Luhn check. All zeros do not count."""
    numbers = [ord(digit) - 48 for digit in reversed(digits)]
    total = sum(numbers[::2]) + sum(_DOUBLED[number] for number in numbers[1::2])
    return total % 10 == 0 and any(numbers)


def weighted(digits: str, weights: Sequence[int], modulus: int) -> int:
    """The remainder of the sum of each digit times its weight."""
    return sum((ord(digit) - 48) * weight for digit, weight in zip(digits, weights, strict=False)) % modulus


def iso7064_11_10(digits: str) -> bool:
    """True if the last digit is the ISO 7064 mod 11,10 check digit of those before it."""
    product = 10
    for digit in digits[:-1]:
        product = ((ord(digit) - 48 + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == ord(digits[-1]) - 48


def _verhoeff_tables() -> tuple[list[list[int]], list[list[int]]]:
    """The multiplication of the dihedral group of ten elements, and the powers of the permutation."""
    product = [
        [(a + b) % 5 + 5 * (b > 4) if a < 5 else (a - b) % 5 + 5 * (b < 5) for b in range(10)] for a in range(10)
    ]
    permutations = [list(range(10)), [1, 5, 7, 6, 2, 8, 3, 0, 9, 4]]
    while len(permutations) < 8:
        permutations.append([permutations[-1][step] for step in permutations[1]])
    return product, permutations


_PRODUCT, _PERMUTATIONS = _verhoeff_tables()


def verhoeff(digits: str) -> bool:
    """True if the digits pass the Verhoeff check."""
    state = 0
    for place, digit in enumerate(reversed(digits)):
        state = _PRODUCT[state][_PERMUTATIONS[place % 8][ord(digit) - 48]]
    return state == 0


def is_date(year: int, month: int, day: int) -> bool:
    """True if there is such a day."""
    try:
        datetime.date(year, month, day)
    except ValueError:
        return False
    return True


_ISSUERS = tuple(
    (low, int(high or low), lengths)
    for lengths, prefixes in (
        ((13, 16, 19), "4"),  # Visa
        ((15,), "34 37 1800 2131"),  # American Express, JCB
        ((16,), "51-55 2221-2720 60 82 508 9792"),  # Mastercard, RuPay, Troy
        (range(13, 20), "5018-5020 5038 56-58 67"),  # Maestro, Dankort
        (range(14, 20), "300-305 3095 36 38-39"),  # Diners Club
        # JCB, Discover, UnionPay, Mir, Verve, Maestro
        (range(16, 20), "3528-3589 6011 644-649 65 62 81 2200-2204 5060-5061 63"),
    )
    for low, _, high in (prefix.partition("-") for prefix in prefixes.split())
)
"""The first and the last prefix of a range of numbers, and the digits that a number with one of them has."""


def is_card(value: str) -> bool:
    """True if the digits are a card number: a known issuer, one of its lengths, the Luhn check."""
    digits = digits_of(value)
    if not 13 <= len(digits) <= 19 or not luhn(digits):
        return False
    return any(
        int(low) <= int(digits[: len(low)]) <= high and len(digits) in lengths for low, high, lengths in _ISSUERS
    )


_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO",
        16: "BE",
        18: "DK FI FO GL NL SD",
        19: "MK SI",
        20: "AT BA EE KZ LT LU MN XK",
        21: "CH CR HR LI LV",
        22: "BG BH DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
    for country in countries.split()
}
"""The length of an account number by its country, as the registry has it."""


def iban_length(country: str) -> int:
    """The length of an account number of the country; 0 for a country without them."""
    return _IBAN_LENGTHS.get(country.upper(), 0)


def is_iban(value: str) -> bool:
    """True if the value is an account number: a country of the registry, its length, the mod 97 check."""
    compact = _SEPARATORS.sub("", value).upper()
    if not (compact.isascii() and compact.isalnum()) or len(compact) != iban_length(compact[:2]):
        return False
    return int("".join(str(int(character, 36)) for character in compact[4:] + compact[:4])) % 97 == 1


def is_ssn(value: str) -> bool:
    """True if the nine digits can be a social security number: area, group and serial are in use."""
    digits = digits_of(value)
    if len(digits) != 9 or digits[0] == "9" or digits[:3] in {"000", "666"}:
        return False
    return digits[3:5] != "00" and digits[5:] != "0000" and len(set(digits)) > 1


def is_ipv4(value: str) -> bool:
    """True if the value is an address, and not a netmask such as 255.255.240.0."""
    try:
        hosts = 0xFFFFFFFF - int(ipaddress.IPv4Address(value))
    except ValueError:
        return False
    return not (hosts and value.startswith("255.") and hosts & (hosts + 1) == 0)


def is_ipv6(value: str) -> bool:
    """True if the value is an address other than `::`."""
    try:
        return int(ipaddress.IPv6Address(value)) > 0
    except ValueError:
        return False


_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_NO_PLACE = 255  # of a character outside the alphabet: `find` gives -1
_PLACES = bytes(_BASE58.find(chr(code)) % (_NO_PLACE + 1) for code in range(256))
_MOST_BASE58 = 120  # the longest keys have 111 characters; bounds the table of powers
_POWERS = tuple(58**place for place in range(_MOST_BASE58))


def is_base58_checked(value: str) -> bool:
    """True if the last four bytes of the base 58 value are the double SHA-256 of those before them."""
    places = value.encode("ascii", "replace").translate(_PLACES)
    if len(places) > _MOST_BASE58 or _NO_PLACE in places:
        return False
    number = sum(map(mul, reversed(places), _POWERS))
    raw = b"\0" * (len(value) - len(value.lstrip(_BASE58[0]))) + number.to_bytes((number.bit_length() + 7) // 8, "big")
    body, check = raw[:-4], raw[-4:]
    return len(body) >= 20 and hashlib.sha256(hashlib.sha256(body).digest()).digest()[:4] == check


_BECH32 = {character: place for place, character in enumerate("qpzry9x8gf2tvdw0s3jn54khce6mua7l")}
_BECH32_STEPS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_BECH32_SUMS = (1, 0x2BC830A3)
"""The remainders of a bech32 and of a bech32m address."""


def is_bech32(value: str) -> bool:
    """True if the value passes the check of bech32 or bech32m."""
    lower = value.lower()
    prefix, _, body = lower.rpartition("1")
    if value not in {lower, value.upper()} or not prefix or len(body) < 6 or len(value) > 128:
        return False
    letters = [_BECH32.get(character) for character in body]
    head = [ord(character) >> 5 for character in prefix] + [0] + [ord(character) & 31 for character in prefix]
    known = [letter for letter in letters if letter is not None]
    return len(known) == len(letters) and _remainder([*head, *known]) in _BECH32_SUMS


def _remainder(numbers: Iterable[int]) -> int:
    """The remainder of a polynomial of five-bit numbers."""
    state = 1
    for number in numbers:
        top = state >> 25
        state = (state & (1 << 25) - 1) << 5 ^ number
        for bit, step in enumerate(_BECH32_STEPS):
            if top >> bit & 1:
                state ^= step
    return state


_SHAPES: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "phone": r"(?:tel:)?\+?(?:[ ().\-/]{0,3}[0-9]){5,17}(?:\s?(?:x|ext\.?|#)\s?[0-9]{1,6})?",
        "national_id": r"(?=(?:[^0-9]*[0-9]){4})[A-Z0-9][A-Z0-9 .\-/()]{3,29}",
        "tax_id": r"(?=(?:[^0-9]*[0-9]){4})[A-Z0-9][A-Z0-9 .\-/&]{3,29}",
        "passport": r"(?=(?:[^0-9]*[0-9]){3})[A-Z0-9][A-Z0-9 <\-]{4,19}",
        "driver_license": r"(?=(?:[^0-9]*[0-9]){3})[A-Z0-9*][A-Z0-9 *\-/]{3,24}",
        "medical_id": r"(?=(?:[^0-9]*[0-9]){3})[A-Z0-9][A-Z0-9 .\-/]{3,29}",
        "credit_card": r"(?:[0-9][ \-]?){12,19}",
        "iban": r"[A-Z]{2}[0-9]{2}(?:[ \-]?[A-Z0-9]){10,30}",
        "bank_account": r"(?=(?:[^0-9]*[0-9]){4})[A-Z0-9][A-Z0-9 .\-/]{3,33}",
    }.items()
}
"""The form of a number by its type. The word before it and the form decide together, so the form is generous."""


def is_plausible(type: str, value: str) -> bool:  # noqa: A002
    """True if a number can be of the type, given that the word before it says so.

    It may lack the right check digits: people mistype, and a wrong number is as private.
    """
    return _SHAPES[type].fullmatch(value) is not None


_BASE58_LETTER = "[1-9A-HJ-NP-Za-km-z]"
_BECH32_LETTER = "[02-9ac-hj-np-z]"

WALLET = re.compile(
    rf"""
    (?<![A-Za-z0-9])(?:
      (?P<ethereum>0x[0-9a-fA-F]{{40}})
    | (?P<bech32>(?:bc|tb|ltc|vtc|dgb|addr|stake|cosmos|osmo|juno|terra|inj|band|kava|celestia|erd|zs|bnb|one|sei|thor
        |axelar)1{_BECH32_LETTER}{{20,110}}+|(?:BC|TB|LTC|ADDR)1[02-9AC-HJ-NP-Z]{{20,110}}+)
    | (?P<base58>(?:[13LMmn2DAX79TQztkKSV]|tz[1-4]|KT1){_BASE58_LETTER}{{24,35}}+)
    )(?![A-Za-z0-9])
    """,
    re.VERBOSE,
)
"""Bitcoin, Ethereum, Litecoin, Dogecoin, Dash, Zcash, Tron, Tezos, Cardano, Cosmos and their like."""
WALLET_FORM = rf"(?x:{re.sub(r'[?]P<[a-z0-9]+>', '?:', WALLET.pattern)})"
"""The same as a part of other patterns. Without names the engine passes over most branches by their first character."""


def is_wallet(text: str) -> bool:
    """True if the text begins with an address that passes the check that its currency has."""
    wallet = WALLET.match(text)
    return wallet is not None and _CHECKS[wallet.lastgroup or ""](wallet[0])


_CHECKS: dict[str, Callable[[str], bool]] = {
    # No check digit in most of them: any but the empty address and a run of one digit.
    "ethereum": lambda value: len(set(value[2:].lower())) > 4,
    "bech32": is_bech32,
    "base58": is_base58_checked,
}
