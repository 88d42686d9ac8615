"""Numbers that registers and tax offices give to people, by their shape and their check digits.

`registers.toml` has the shapes and describes the checks of most numbers. A check that it cannot describe is a function
here, or an expression of `_BRIEF`: it takes a value that has one of the shapes, so that the count of digits and letters
is right. Separators may be among them.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from typing import NamedTuple

from sealyard.privacy.detect.checks import digits_of, is_date, iso7064_11_10, luhn, verhoeff, weighted

Check = Callable[[str], bool]


class Format(NamedTuple):
    """One kind of number."""

    name: str
    type: str
    check: Check
    alone: bool
    """True if its form is enough; any other, mostly a bare run of digits, also needs a word that names its kind."""


_SHAPE = str.maketrans(
    {
        **dict.fromkeys("0123456789", "9"),
        **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "A"),
    }
)


def shape_of(value: str) -> str:
    """The value with `9` for each digit and `A` for each letter."""
    return value.translate(_SHAPE)


def _is_day(year: str, month: str, day: str) -> bool:
    """True if two digits each are a day of the last century or this one."""
    return any(is_date(century + int(year), int(month), int(day)) for century in (1900, 2000))


# Checks that the data file cannot describe


def is_es_dni(value: str) -> bool:
    """A letter by mod 23."""
    return value[-1].upper() == "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits_of(value)) % 23]


def is_es_nie(value: str) -> bool:
    """As a DNI with its first letter as a digit."""
    first = "XYZ".find(value[0].upper())
    return first >= 0 and is_es_dni(str(first) + value[1:])


_ODD = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
"""The values of characters at odd places in Italy and Cyprus: a digit has that of the letter with its place."""


def is_codice_fiscale(value: str) -> bool:
    """The check letter by mod 26."""
    places = [ord(character) - (48 if character.isdigit() else 65) for character in value.upper()]
    total = sum(_ODD[place] for place in places[:15:2]) + sum(places[1:15:2])
    return total % 26 == places[15]


def is_fr_nir(value: str) -> bool:
    """Sex, month, mod 97 key; Corsica has letters."""
    compact = value.upper().replace(" ", "")
    body = compact[:-2].replace("2A", "19", 1) if compact[5:7] == "2A" else compact[:-2].replace("2B", "18", 1)
    month = int(digits_of(compact[3:5]) or 0)
    return (
        compact[0] in "1278"  # 7 and 8 until the final number is given
        and (1 <= month <= 12 or 20 <= month <= 42 or month >= 50)
        and body.isdigit()
        and 97 - int(body) % 97 == int(digits_of(compact[-2:]) or 0)
    )


def is_de_tax(value: str) -> bool:
    """One digit twice or thrice among the first ten, ISO 7064."""
    digits = digits_of(value)
    counts = sorted(digits[:10].count(digit) for digit in set(digits[:10]))
    return digits[0] != "0" and counts[-1] in {2, 3} and counts[-2] == 1 and iso7064_11_10(digits)


def is_de_pension(value: str) -> bool:
    """Area, date of birth, initial."""
    compact = value.upper().replace(" ", "")
    letter = f"{ord(compact[8]) - 64:02}"
    digits = compact[:8] + letter + compact[9:11]
    total = sum(
        sum(divmod(int(digit) * weight, 10))
        for digit, weight in zip(digits, (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1), strict=True)
    )
    return 1 <= int(compact[4:6]) <= 12 and total % 10 == int(compact[11])


def is_be_register(value: str) -> bool:
    """Date, mod 97 of either century."""
    digits = digits_of(value)
    body, check = digits[:9], int(digits[9:])
    is_month = int(digits[2:4]) % 20 <= 12 and int(digits[4:6]) <= 31
    return is_month and check in {97 - int(body) % 97, 97 - int("2" + body) % 97}


def is_se_person(value: str) -> bool:
    """Date and Luhn."""
    digits = digits_of(value)[-10:]
    day = int(digits[4:6])  # a coordination number has 60 added to it
    return _is_day(digits[:2], digits[2:4], str(day - 60 if day > 60 else day)) and luhn(digits)


def is_no_birth(value: str) -> bool:
    """A date; a number for a foreigner has 40 added to its day."""
    digits = digits_of(value)
    day = int(digits[:2])
    return _is_day(digits[4:6], digits[2:4], f"{day - 40 if day > 40 else day:02}")


def is_ie_pps(value: str) -> bool:
    """A letter by mod 23. A second letter counts; `T` and `X` of older numbers may also not."""
    code = value.upper()
    extra = ord(code[8]) - 64 if len(code) == 9 else 0
    total = weighted(code[:7], (8, 7, 6, 5, 4, 3, 2), 10_000)
    extras = {extra, 0} if code[8:] in {"T", "X"} else {extra}
    return any(code[7] == "WABCDEFGHIJKLMNOPQRSTUV"[(total + 9 * each) % 23] for each in extras)


def is_ean13(digits: str) -> bool:
    """The check digit of an article number of thirteen digits."""
    return weighted(digits, (1, 3) * 6 + (1,), 10) == 0


def is_cz_birth(value: str) -> bool:
    """Date with the sex in the month, mod 11."""
    digits = digits_of(value)
    month = int(digits[2:4])
    plain = next((month - step for step in (70, 50, 20, 0) if month > step), 0)
    is_born = _is_day(digits[:2], str(plain), digits[4:6])
    return is_born and (int(digits) % 11 == 0 or (int(digits[:9]) % 11 == 10 and digits[9] == "0"))


def is_ro_cnp(value: str) -> bool:
    """The last digit is a weighted sum modulo 11, or 1 where that is 10."""
    rest = weighted(value, (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9), 11)
    return (1 if rest == 10 else rest) == int(value[12])


def _in_two_rounds(digits: str, first: Sequence[int], second: Sequence[int]) -> bool:
    rest = weighted(digits[:-1], first, 11)
    return (weighted(digits[:-1], second, 11) % 10 if rest == 10 else rest) == int(digits[-1])


def is_br_cnpj(value: str) -> bool:
    """Two check digits modulo 11, over digits and, since 2026, capital letters as well."""
    code = re.sub(r"[./\-]", "", value)
    weights = (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)
    rests = weighted(code, weights[1:], 11), weighted(code, weights, 11)
    return len(set(code)) > 1 and all(
        -rest % 11 % 10 == int(digit) for rest, digit in zip(rests, code[12:], strict=True)
    )


def is_cl_rut(value: str) -> bool:
    """Mod 11 with K."""
    digits = digits_of(value[:-1])
    rest = 11 - sum(int(digit) * (2 + place % 6) for place, digit in enumerate(reversed(digits))) % 11
    return value[-1].upper() == {11: "0", 10: "K"}.get(rest, str(rest))


def is_mx_curp(value: str) -> bool:
    """The last digit by mod 10, over digits and letters."""
    letters = "0123456789ABCDEFGHIJKLMN?OPQRSTUVWXYZ"
    total = sum(letters.index(character) * (18 - place) for place, character in enumerate(value[:17].upper()))
    return (10 - total % 10) % 10 == int(value[17])


def is_mx_rfc(value: str) -> bool:
    """The last character by mod 11, over digits and letters."""
    code = value.upper()
    letters = "0123456789ABCDEFGHIJKLMN&OPQRSTUVWXYZ "
    total = sum(letters.index(character) * (13 - place) for place, character in enumerate(code[:12]))
    return "0123456789A"[-total % 11] == code[12]


def is_in_gstin(value: str) -> bool:
    """The last character by mod 36, over digits and letters."""
    total = 0
    for place, character in enumerate(value[:14]):
        total += sum(divmod(int(character, 36) * (1 + place % 2), 36))
    return (36 - total % 36) % 36 == int(value[14], 36)


def is_sg_nric(value: str) -> bool:
    """A letter by weights."""
    code = value.upper()
    total = weighted(code[1:8], (2, 7, 6, 5, 4, 3, 2), 10_000)
    if code[0] in "ST":
        return "JZIHGFEDCBA"[(total + (4 if code[0] == "T" else 0)) % 11] == code[8]
    if code[0] in "FG":
        return "XWUTRQPNMLK"[(total + (4 if code[0] == "G" else 0)) % 11] == code[8]
    return code[0] == "M" and "XWUTRQPNJLK"[10 - (total + 3) % 11] == code[8]


def is_tw_id(value: str) -> bool:
    """The letter as two digits, weights."""
    place = "ABCDEFGHJKLMNPQRSTUVXYWZIO".find(value[0].upper()) + 10
    digits = f"{place}{value[1:]}"
    return digits[2] in "1289" and weighted(digits, (1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1), 10) == 0


def is_hk_id(value: str) -> bool:
    """Weights with A for ten."""
    code = re.sub(r"[()]", "", value.upper())
    letters = code[:-7].rjust(2)
    values = [36 if letter == " " else ord(letter) - 55 for letter in letters] + [int(digit) for digit in code[-7:-1]]
    total = sum(number * weight for number, weight in zip(values, (9, 8, 7, 6, 5, 4, 3, 2), strict=True))
    check = 10 if code[-1] == "A" else int(code[-1], 36)
    return (total + check) % 11 == 0


# VAT numbers, without the letters of their country


def is_at_vat(value: str) -> bool:
    """Luhn with another start."""
    total = sum(sum(divmod(int(digit) * (1 + place % 2), 10)) for place, digit in enumerate(value[1:8]))
    return (96 - total) % 10 == int(value[8])


def is_bg_vat(value: str) -> bool:
    """A firm has nine digits; a person, a foreigner and everybody else ten, with weights of their own."""
    if len(value) == 9:
        return _in_two_rounds(value, range(1, 9), range(3, 11))
    return (
        weighted(value, (2, 4, 8, 5, 10, 9, 7, 3, 6), 11) % 10 == int(value[9])
        or weighted(value, (21, 19, 17, 13, 11, 9, 7, 3, 1), 10) == int(value[9])
        or weighted(value, (4, 3, 2, 7, 6, 5, 4, 3, 2, 1), 11) == 0
    )


def is_cy_vat(value: str) -> bool:
    """A letter by mod 26."""
    total = sum(_ODD[int(digit)] for digit in value[:8:2]) + sum(map(int, value[1:8:2]))
    return ord(value[8]) - ord("A") == total % 26


def is_cz_vat(value: str) -> bool:
    """A firm has eight digits; a person the number of birth, or nine digits from 6 on."""
    if len(value) == 8:
        return value[0] != "9" and ((11 - weighted(value, range(8, 1, -1), 11)) % 11 or 1) % 10 == int(value[7])
    if len(value) == 10:
        return is_cz_birth(value)
    return value[0] == "6" and 8 - (10 - weighted(value[1:8], range(8, 1, -1), 11)) % 11 == int(value[8])


def is_es_vat(value: str) -> bool:
    """The number of a person or foreigner, or that of a firm: Luhn, written as a digit or a letter."""
    if value[0].isdigit():
        return is_es_dni(value)
    if value[0] in "XYZ":
        return is_es_nie(value)
    if value[0] in "KLM":
        return is_es_dni(value[1:])
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in value[1:8:2])
    check = -(sum(doubled) + sum(map(int, value[2:8:2]))) % 10
    return value[0] in "ABCDEFGHJNPQRSUVW" and value[8] in (str(check), "JABCDEFGHI"[check])


def is_lt_vat(value: str) -> bool:
    """The last digit in two rounds of weights."""
    places = range(len(value) - 1)
    return _in_two_rounds(value, [1 + at % 9 for at in places], [1 + (at + 2) % 9 for at in places])


def is_lv_vat(value: str) -> bool:
    """A firm begins with 4 or more; a person has the personal code."""
    if value[0] > "3":
        return weighted(value, (9, 1, 4, 8, 3, 10, 2, 5, 7, 6, 1), 11) == 3
    return (1 + weighted(value, (10, 5, 8, 4, 2, 1, 6, 3, 7, 9), 11)) % 11 % 10 == int(value[10])


def is_si_vat(value: str) -> bool:
    """The last digit by mod 11; a rest of zero is never given."""
    rest = weighted(value, range(8, 1, -1), 11)
    return rest > 0 and (11 - rest) % 10 == int(value[7])


def is_vat(value: str) -> bool:
    """A VAT number of a country whose check digits are known."""
    code = re.sub(r"[ .\-]", "", value).upper()
    found = _VAT.get(code[:2])
    return found is not None and found[0].fullmatch(code[2:]) is not None and found[1](code[2:])


_BRIEF: dict[str, Check] = {
    # The month holds the century.
    "pl_birth": lambda value: 1 <= int(value[2:4]) % 20 <= 12 and 1 <= int(value[4:6]) <= 31,
    # The rest of the second weights counts where that of the first is 10.
    "baltic": lambda value: _in_two_rounds(value, (1, 2, 3, 4, 5, 6, 7, 8, 9, 1), (3, 4, 5, 6, 7, 8, 9, 1, 2, 3)),
    "ru_snils": lambda value: (
        weighted(digits_of(value), (9, 8, 7, 6, 5, 4, 3, 2, 1), 101) % 100 == int(digits_of(value)[9:])
    ),
    "nl_bsn": lambda value: weighted(digits_of(value).zfill(9), (9, 8, 7, 6, 5, 4, 3, 2, -1), 11) == 0,
    "fi_hetu": lambda value: "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(digits_of(value)[:9]) % 31] == value[10].upper(),
    "cn_resident": lambda value: (
        "10X98765432"[weighted(value, (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2), 11)] == value[17].upper()
    ),
    "th_id": lambda value: (11 - weighted(digits_of(value), range(13, 1, -1), 11)) % 10 == int(digits_of(value)[12]),
    "au_abn": lambda value: (
        value[0] != "0" and weighted(digits_of(value), (10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19), 89) == 10
    ),
    "not_zero": lambda value: value.strip("0 -") != "",  # no register begins to count at zero
    # A number of one digit passes many checks, and is a placeholder.
    "varied": lambda value: len(set(digits_of(value))) > 1,
    "be_vat": lambda value: 97 - int(value[:8]) % 97 == int(value[8:]),
    "fr_vat": lambda value: (12 + 3 * (int(value[2:]) % 97)) % 97 == int(value[:2]) and luhn(value[2:]),
    # The newer rule adds 55.
    "gb_vat": lambda value: (weighted(value, (8, 7, 6, 5, 4, 3, 2), 10_000) + int(value[7:9])) % 97 in {0, 42},
    # An older number has its first digit before a letter.
    "ie_vat": lambda value: is_ie_pps(value if value[1].isdigit() else f"0{value[2:7]}{value[0]}{value[7]}"),
    "lu_vat": lambda value: int(value[:6]) % 89 == int(value[6:]),
    # Weights count from the right.
    "ro_vat": lambda value: (
        10 * weighted(value[:-1].zfill(9), (7, 5, 3, 2, 1, 7, 5, 3, 2), 11) % 11 % 10 == int(value[-1])
    ),
    "se_vat": lambda value: luhn(value[:10]),  # the last two digits are always the same
    "sk_vat": lambda value: int(value) % 11 == 0,
}
"""The checks that are one expression. Sums, their weights and moduli are those that each register publishes."""


# From the data file


def _sum_check(arguments: Sequence[str]) -> Check:
    """The check `sum`: the weights, `mod`, the modulus, and which digit the rest makes, if any."""
    end = arguments.index("mod")
    weights, modulus = tuple(map(int, arguments[:end])), int(arguments[end + 1])
    made = arguments[end + 2 :]
    if not made:
        return lambda digits: weighted(digits, weights, modulus) == 0
    sign = 1 if made == ["rest"] else -1
    return lambda digits: sign * weighted(digits, weights, modulus) % modulus % 10 == int(digits[end])


def _digit_check(words: Sequence[str]) -> Check | None:
    """A check of the digits of a value; None if it is one of the whole value."""
    name, arguments = words[0], words[1:]
    if name == "starts":
        return lambda digits: digits.startswith(tuple(arguments))
    if name == "at":
        return lambda digits: digits[int(arguments[0])] in arguments[1:]
    if name == "between":
        start, end, low, high = map(int, arguments)
        return lambda digits: low <= int(digits[start:end]) <= high
    if name == "date":
        year, month, day = (slice(at, at + 2) for at in map(arguments[0].index, "ymd"))
        return lambda digits: _is_day(digits[year], digits[month], digits[day])
    if name == "sum":
        return _sum_check(arguments)
    return {"luhn": luhn, "verhoeff": verhoeff, "iso7064": iso7064_11_10, "ean13": is_ean13}.get(name)


def _value_check(words: Sequence[str]) -> Check:
    """A check of a whole value: a pattern, an expression, or the function `is_...`."""
    name = words[0]
    if name == "form":
        pattern = re.compile(words[1])
        return lambda value: pattern.fullmatch(value) is not None
    found: Check = _BRIEF.get(name) or globals()[f"is_{name}"]
    return found


def _check(written: Iterable[str]) -> Check:
    """All of these checks as one, those of the digits first."""
    described = [each.split() for each in written]
    of_digits = [each for words in described if (each := _digit_check(words))]
    of_value = [_value_check(words) for words in described if _digit_check(words) is None]
    if not of_digits and len(of_value) == 1:
        return of_value[0]

    def check(value: str) -> bool:
        digits = digits_of(value)
        return all(each(digits) for each in of_digits) and all(each(value) for each in of_value)

    return check


_DATA = tomllib.loads(files("sealyard.privacy.detect").joinpath("registers.toml").read_text(encoding="utf-8"))
_VAT = {country: (re.compile(pattern), _check(checks)) for country, (pattern, *checks) in _DATA["vat"].items()}


def _by_shape() -> dict[str, tuple[Format, ...]]:
    """Every shape with what may have it, those that need no word first."""
    found: dict[str, tuple[Format, ...]] = {}
    checks = [_check(each["checks"]) for each in _DATA["number"]]
    for key in ("alone", "word"):
        for each, check in zip(_DATA["number"], checks, strict=True):
            for shape in each[key].split("|") if key in each else ():
                form = Format(each["name"], each["type"], check, key == "alone")
                found[shape] = (*found.get(shape, ()), form)
    return found


FORMATS = _by_shape()
"""By shape: what such a value may be."""

_LEAST_WORD = 15
"""Characters. A shorter one is found as a number."""


def _pattern_of(shape: str) -> str:
    return re.sub("9+|A+", lambda run: f"[{'0-9' if run[0][0] == '9' else 'A-Za-z'}]{{{len(run[0])}}}", shape)


_WORD_SHAPES = [
    shape
    for shape, forms in FORMATS.items()
    if len(shape) >= _LEAST_WORD and shape.isalnum() and any(form.alone for form in forms)
]
REGISTERED_WORD = (
    rf"(?=[A-Za-z0-9]{{{_LEAST_WORD},{max(map(len, _WORD_SHAPES))}}}+(?![A-Za-z0-9]))"
    rf"(?:{'|'.join(map(_pattern_of, _WORD_SHAPES))})(?![A-Za-z0-9])"
)
"""A word with the shape of a number that needs no label, as a pattern. Its length rules out most words."""
