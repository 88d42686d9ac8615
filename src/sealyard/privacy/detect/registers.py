"""Numbers that registers and tax offices give to people, by their shape and their check digits.

A shape has `9` for a digit, `A` for a letter, and separators as they are. A format that is *alone* is recognised by its
own form; any other, mostly a bare run of digits, also needs a word near it that names its kind. A check takes a value
that already has its shape: the count of digits and letters is right, separators may be present.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from sealyard.privacy.detect.checks import digits_of, is_date, iso7064_11_10, luhn, verhoeff, weighted


class Format(NamedTuple):
    """One kind of number."""

    type: str
    check: Callable[[str], bool]
    alone: bool


_SHAPE = str.maketrans(
    {
        **dict.fromkeys("0123456789", "9"),
        **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "A"),
    }
)


def shape_of(value: str) -> str:
    """The value with `9` for each digit and `A` for each letter."""
    return value.translate(_SHAPE)


def _two_digit_year(digits: str) -> bool:
    """YYMMDD at the start, in either century."""
    year, month, day = int(digits[:2]), int(digits[2:4]), int(digits[4:6])
    return is_date(1900 + year, month, day) or is_date(2000 + year, month, day)


def _day_first(digits: str) -> bool:
    """DDMMYY at the start."""
    return _two_digit_year(digits[4:6] + digits[2:4] + digits[:2])


# Europe


def is_es_dni(value: str) -> bool:
    """Spain, DNI: a letter by mod 23."""
    return value[-1].upper() == "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits_of(value)) % 23]


def is_es_nie(value: str) -> bool:
    """Spain, NIE of a foreigner: as a DNI with its first letter as a digit."""
    first = "XYZ".find(value[0].upper())
    return first >= 0 and is_es_dni(str(first) + value[1:])


_CF = re.compile(
    r"[A-Z]{6}[0-9LMNPQRSTUV]{2}[ABCDEHLMPRST][0-9LMNPQRSTUV]{2}[A-Z][0-9LMNPQRSTUV]{3}[A-Z]", re.IGNORECASE
)
_CF_ODD = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)


def is_codice_fiscale(value: str) -> bool:
    """True if the sixteen characters are an Italian tax code with its check letter."""
    code = value.upper()
    if not _CF.fullmatch(code):
        return False
    places = [ord(character) - (48 if character.isdigit() else 65) for character in code]
    total = sum(_CF_ODD[place] for place in places[:15:2]) + sum(places[1:15:2])
    return total % 26 == places[15]


def is_fr_nir(value: str) -> bool:
    """France, social security: sex, month, mod 97 key; Corsica has letters."""
    compact = value.upper().replace(" ", "")
    body = compact[:-2].replace("2A", "19", 1) if compact[5:7] == "2A" else compact[:-2].replace("2B", "18", 1)
    month = int(digits_of(compact[3:5]) or 0)
    return (
        compact[0] in "12"
        and (1 <= month <= 12 or 20 <= month <= 42 or month >= 50)
        and body.isdigit()
        and 97 - int(body) % 97 == int(digits_of(compact[-2:]) or 0)
    )


def is_de_tax(value: str) -> bool:
    """Germany, tax id: one digit twice or thrice among the first ten, ISO 7064."""
    digits = digits_of(value)
    counts = sorted(digits[:10].count(digit) for digit in set(digits[:10]))
    return digits[0] != "0" and counts[-1] in {2, 3} and counts[-2] == 1 and iso7064_11_10(digits)


def is_de_pension(value: str) -> bool:
    """Germany, pension insurance: area, date of birth, initial."""
    compact = value.upper().replace(" ", "")
    letter = f"{ord(compact[8]) - 64:02}"
    digits = compact[:8] + letter + compact[9:11]
    total = sum(
        sum(divmod(int(digit) * weight, 10))
        for digit, weight in zip(digits, (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1), strict=True)
    )
    return 1 <= int(compact[4:6]) <= 12 and total % 10 == int(compact[11])


def is_pl_pesel(value: str) -> bool:
    """Poland, PESEL: date with the century in the month, weights."""
    digits = digits_of(value)
    month = int(digits[2:4]) % 20
    return (
        1 <= month <= 12
        and 1 <= int(digits[4:6]) <= 31
        and weighted(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1), 10) == 0
    )


def is_nl_bsn(value: str) -> bool:
    """Netherlands, BSN: the eleven test."""
    digits = digits_of(value).zfill(9)
    return weighted(digits, (9, 8, 7, 6, 5, 4, 3, 2, -1), 11) == 0 and int(digits) > 0


def is_be_register(value: str) -> bool:
    """Belgium, national register: date, mod 97 of either century."""
    digits = digits_of(value)
    body, check = digits[:9], int(digits[9:])
    is_month = int(digits[2:4]) % 20 <= 12 and int(digits[4:6]) <= 31
    return is_month and check in {97 - int(body) % 97, 97 - int("2" + body) % 97}


def is_se_person(value: str) -> bool:
    """Sweden, personnummer: date and Luhn."""
    digits = digits_of(value)[-10:]
    # A coordination number has 60 added to its day.
    day = int(digits[4:6])
    birth = digits[:4] + (f"{day - 60:02}" if day > 60 else digits[4:6])
    return _two_digit_year(birth) and luhn(digits)


def is_fi_hetu(value: str) -> bool:
    """Finland, henkilötunnus: date, century sign, mod 31."""
    code = value.upper()
    return (
        code[6] in "-+ABCDEFUVWXY"
        and _day_first(code)
        and "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(code[:6] + code[7:10]) % 31] == code[10]
    )


def is_no_birth(value: str) -> bool:
    """Norway, fødselsnummer: date and two check digits."""
    digits = digits_of(value)
    day = int(digits[:2])
    birth = f"{day - 40 if day > 40 else day:02}" + digits[2:6]
    return (
        _day_first(birth)
        and weighted(digits, (3, 7, 6, 1, 8, 9, 4, 5, 2, 1), 11) == 0
        and weighted(digits, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1), 11) == 0
    )


def is_dk_cpr(value: str) -> bool:
    """Denmark, CPR: a date; its check digit is no longer kept."""
    return _day_first(digits_of(value))


def is_kennitala(value: str) -> bool:
    """Iceland, kennitala: date, check digit, century."""
    digits = digits_of(value)
    return _day_first(digits) and digits[9] in "089" and weighted(digits, (3, 2, 7, 6, 5, 4, 3, 2, 1), 11) == 0


def is_uk_nino(value: str) -> bool:
    """United Kingdom, national insurance: prefixes in use."""
    compact = value.upper().replace(" ", "")
    prefix = compact[:2]
    return (
        prefix[0] not in "DFIQUV"
        and prefix[1] not in "DFIOQUV"
        and prefix not in {"BG", "GB", "KN", "NK", "NT", "TN", "ZZ"}
        and compact[-1] in "ABCD"
    )


def is_uk_nhs(value: str) -> bool:
    """England, NHS number: mod 11."""
    digits = digits_of(value)
    return weighted(digits, (10, 9, 8, 7, 6, 5, 4, 3, 2, 1), 11) == 0 and int(digits) > 0


def is_ie_pps(value: str) -> bool:
    """Ireland, PPS: a letter by mod 23."""
    code = value.upper()
    extra = ord(code[8]) - 64 if len(code) == 9 else 0
    total = weighted(code[:7], (8, 7, 6, 5, 4, 3, 2), 10_000) + 9 * extra
    return code[7] == "WABCDEFGHIJKLMNOPQRSTUV"[total % 23]


def is_pt_nif(value: str) -> bool:
    """Portugal, NIF: mod 11."""
    digits = digits_of(value)
    return digits[0] in "1235689" and (11 - weighted(digits, (9, 8, 7, 6, 5, 4, 3, 2), 11)) % 11 % 10 == int(digits[8])


def is_ean13(digits: str) -> bool:
    """The check digit of an article number of thirteen digits."""
    return weighted(digits, (1, 3) * 6 + (1,), 10) == 0


def is_ch_ahv(value: str) -> bool:
    """Switzerland, AHV: as an EAN of the country 756."""
    digits = digits_of(value)
    return digits.startswith("756") and is_ean13(digits)


def is_at_svnr(value: str) -> bool:
    """Austria, social insurance: check digit and date."""
    digits = digits_of(value)
    return (
        _day_first(digits[4:])
        and weighted(digits[:3] + digits[4:], (3, 7, 9, 5, 8, 4, 2, 1, 6), 11) == int(digits[3])
        and digits[0] != "0"
    )


def is_cz_birth(value: str) -> bool:
    """Czechia and Slovakia, rodné číslo: date with the sex in the month, mod 11."""
    digits = digits_of(value)
    month = int(digits[2:4])
    plain = next((month - step for step in (70, 50, 20, 0) if month > step), 0)
    is_born = plain <= 12 and _two_digit_year(f"{digits[:2]}{plain:02}{digits[4:6]}")
    return is_born and (int(digits) % 11 == 0 or (int(digits[:9]) % 11 == 10 and digits[9] == "0"))


def is_ro_cnp(value: str) -> bool:
    """Romania, CNP: date and weights."""
    digits = digits_of(value)
    rest = weighted(digits, (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9), 11)
    return digits[0] != "0" and _two_digit_year(digits[1:7]) and (1 if rest == 10 else rest) == int(digits[12])


def is_bg_egn(value: str) -> bool:
    """Bulgaria, EGN: weights."""
    digits = digits_of(value)
    return weighted(digits, (2, 4, 8, 5, 10, 9, 7, 3, 6), 11) % 10 == int(digits[9])


def is_hr_oib(value: str) -> bool:
    """Croatia, OIB: ISO 7064."""
    return iso7064_11_10(digits_of(value))


def is_jmbg(value: str) -> bool:
    """Former Yugoslavia, JMBG and EMŠO: date and weights."""
    digits = digits_of(value)
    rest = 11 - weighted(digits, (7, 6, 5, 4, 3, 2) * 2, 11)
    return int(digits[:2]) <= 31 and int(digits[2:4]) <= 12 and (0 if rest > 9 else rest) == int(digits[12])


def is_gr_amka(value: str) -> bool:
    """Greece, AMKA: date and Luhn."""
    digits = digits_of(value)
    return _day_first(digits) and luhn(digits)


def is_baltic(value: str) -> bool:
    """Estonia and Lithuania, personal code: date and two rounds of weights."""
    digits = digits_of(value)
    rest = weighted(digits, (1, 2, 3, 4, 5, 6, 7, 8, 9, 1), 11)
    if rest == 10:
        rest = weighted(digits, (3, 4, 5, 6, 7, 8, 9, 1, 2, 3), 11) % 10
    return digits[0] in "123456" and _two_digit_year(digits[1:7]) and rest == int(digits[10])


def is_ru_snils(value: str) -> bool:
    """Russia, SNILS: mod 101."""
    digits = digits_of(value)
    return weighted(digits, (9, 8, 7, 6, 5, 4, 3, 2, 1), 101) % 100 == int(digits[9:])


def is_ru_inn(value: str) -> bool:
    """Russia, INN of a person or a company."""
    digits = digits_of(value)
    if len(digits) == 10:
        return weighted(digits, (2, 4, 10, 3, 5, 9, 4, 6, 8), 11) % 10 == int(digits[9])
    return weighted(digits, (7, 2, 4, 10, 3, 5, 9, 4, 6, 8), 11) % 10 == int(digits[10]) and weighted(
        digits, (3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8), 11
    ) % 10 == int(digits[11])


def is_tr_tckn(value: str) -> bool:
    """Turkey, T.C. kimlik: two check digits."""
    digits = digits_of(value)
    odd, even = sum(map(int, digits[:9:2])), sum(map(int, digits[1:8:2]))
    return (
        digits[0] != "0"
        and (7 * odd - even) % 10 == int(digits[9])
        and sum(map(int, digits[:10])) % 10 == int(digits[10])
    )


# The Americas


def is_br_cpf(value: str) -> bool:
    """Brazil, CPF: two check digits."""
    digits = digits_of(value)
    first = weighted(digits, range(10, 1, -1), 11)
    second = weighted(digits, range(11, 1, -1), 11)
    return (
        len(set(digits)) > 1
        and (0 if first < 2 else 11 - first) == int(digits[9])
        and (0 if second < 2 else 11 - second) == int(digits[10])
    )


def is_br_cnpj(value: str) -> bool:
    """Brazil, CNPJ: two check digits."""
    digits = digits_of(value)
    weights = (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)
    first, second = weighted(digits, weights[1:], 11), weighted(digits, weights, 11)
    return (
        len(set(digits)) > 1
        and (0 if first < 2 else 11 - first) == int(digits[12])
        and (0 if second < 2 else 11 - second) == int(digits[13])
    )


def is_cl_rut(value: str) -> bool:
    """Chile, RUT: mod 11 with K."""
    digits = digits_of(value[:-1])
    rest = 11 - sum(int(digit) * (2 + place % 6) for place, digit in enumerate(reversed(digits))) % 11
    return value[-1].upper() == {11: "0", 10: "K"}.get(rest, str(rest))


def is_ar_cuit(value: str) -> bool:
    """Argentina, CUIT: kind and mod 11."""
    digits = digits_of(value)
    is_kind = digits[:2] in {"20", "23", "24", "27", "30", "33", "34"}
    return is_kind and (11 - weighted(digits, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2), 11)) % 11 == int(digits[10])


_CURP = re.compile(r"[A-Z][AEIOUX][A-Z]{2}[0-9]{6}[HMX](?:[A-Z]{2})[B-DF-HJ-NP-TV-Z]{3}[0-9A-Z][0-9]", re.IGNORECASE)


def is_curp(value: str) -> bool:
    """True if the eighteen characters are a Mexican register code with its check digit."""
    code = value.upper()
    if not _CURP.fullmatch(code) or not _two_digit_year(code[4:10]):
        return False
    letters = "0123456789ABCDEFGHIJKLMN?OPQRSTUVWXYZ"
    total = sum(letters.index(character) * (18 - place) for place, character in enumerate(code[:17]))
    return (10 - total % 10) % 10 == int(code[17])


def is_mx_rfc(value: str) -> bool:
    """Mexico, RFC of a person: date and mod 11."""
    code = value.upper().replace("-", "")
    letters = "0123456789ABCDEFGHIJKLMN&OPQRSTUVWXYZ "
    total = sum(letters.index(character) * (13 - place) for place, character in enumerate(code[:12]))
    return _two_digit_year(code[4:10]) and "0123456789A"[-total % 11] == code[12]


def is_ca_sin(value: str) -> bool:
    """Canada, SIN: Luhn."""
    digits = digits_of(value)
    return digits[0] not in "08" and luhn(digits)


def is_us_itin(value: str) -> bool:
    """United States, ITIN: a 9 and the groups in use."""
    digits = digits_of(value)
    return digits[0] == "9" and 50 <= int(digits[3:5]) <= 99


# Asia, Africa, Oceania


def is_in_aadhaar(value: str) -> bool:
    """India, Aadhaar: Verhoeff."""
    digits = digits_of(value)
    return digits[0] not in "01" and verhoeff(digits)


def is_in_pan(value: str) -> bool:
    """India, PAN: capitals, the fourth says what kind of holder."""
    return value[3] in "ABCFGHLJPT" and value.isupper()


def is_gstin(value: str) -> bool:
    """True if the fifteen characters are an Indian tax number with its check character."""
    code = value.upper()
    if not re.fullmatch(r"[0-3][0-9][A-Z]{5}[0-9]{4}[A-Z][1-9A-Z]Z[0-9A-Z]", code):
        return False
    total = 0
    for place, character in enumerate(code[:14]):
        total += sum(divmod(int(character, 36) * (1 + place % 2), 36))
    return (36 - total % 36) % 36 == int(code[14], 36)


def is_cn_resident(value: str) -> bool:
    """China, resident id: region, date, mod 11."""
    code = value.upper()
    if not 11 <= int(code[:2]) <= 91 or not 1900 <= int(code[6:10]) <= 2099:
        return False
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return (
        is_date(int(code[6:10]), int(code[10:12]), int(code[12:14]))
        and "10X98765432"[weighted(code, weights, 11)] == code[17]
    )


def is_kr_rrn(value: str) -> bool:
    """South Korea, resident registration."""
    # The check digit is no longer kept since October 2020: a date and the digit of sex and century must do.
    digits = digits_of(value)
    return _two_digit_year(digits) and digits[6] in "12345678"


def is_sg_nric(value: str) -> bool:
    """Singapore, NRIC and FIN: a letter by weights."""
    code = value.upper()
    total = weighted(code[1:8], (2, 7, 6, 5, 4, 3, 2), 10_000)
    if code[0] in "ST":
        return "JZIHGFEDCBA"[(total + (4 if code[0] == "T" else 0)) % 11] == code[8]
    if code[0] in "FG":
        return "XWUTRQPNMLK"[(total + (4 if code[0] == "G" else 0)) % 11] == code[8]
    return code[0] == "M" and "XWUTRQPNJLK"[10 - (total + 3) % 11] == code[8]


def is_tw_id(value: str) -> bool:
    """Taiwan, national id: the letter as two digits, weights."""
    place = "ABCDEFGHJKLMNPQRSTUVXYWZIO".find(value[0].upper()) + 10
    digits = f"{place}{value[1:]}"
    return digits[2] in "1289" and weighted(digits, (1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1), 10) == 0


def is_hk_id(value: str) -> bool:
    """Hong Kong, HKID: weights with A for ten."""
    code = re.sub(r"[()]", "", value.upper())
    letters = code[:-7].rjust(2)
    values = [36 if letter == " " else ord(letter) - 55 for letter in letters] + [int(digit) for digit in code[-7:-1]]
    total = sum(number * weight for number, weight in zip(values, (9, 8, 7, 6, 5, 4, 3, 2), strict=True))
    check = 10 if code[-1] == "A" else int(code[-1], 36)
    return (total + check) % 11 == 0


def is_my_nric(value: str) -> bool:
    """Malaysia, NRIC: date and place."""
    digits = digits_of(value)
    return _two_digit_year(digits) and 1 <= int(digits[6:8]) <= 93


def is_th_id(value: str) -> bool:
    """Thailand, national id: mod 11."""
    digits = digits_of(value)
    return digits[0] != "0" and (11 - weighted(digits, range(13, 1, -1), 11)) % 10 == int(digits[12])


def is_jp_number(value: str) -> bool:
    """Japan, individual number: mod 11."""
    digits = digits_of(value)
    rest = weighted(digits, (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2), 11)
    return (0 if rest < 2 else 11 - rest) == int(digits[11])


def is_il_id(value: str) -> bool:
    """Israel, teudat zehut: Luhn over nine digits."""
    return luhn(digits_of(value).zfill(9))


def is_ae_id(value: str) -> bool:
    """Emirates id: country 784 and Luhn."""
    digits = digits_of(value)
    return digits.startswith("784") and luhn(digits)


def is_za_id(value: str) -> bool:
    """South Africa, id number: date, status, Luhn."""
    digits = digits_of(value)
    return _two_digit_year(digits) and digits[10] in "012" and luhn(digits)


def is_au_tfn(value: str) -> bool:
    """Australia, tax file number: mod 11."""
    digits = digits_of(value)
    weights = (1, 4, 3, 7, 5, 8, 6, 9, 10) if len(digits) == 9 else (10, 7, 8, 4, 6, 3, 5, 1)
    return weighted(digits, weights, 11) == 0


def is_au_abn(value: str) -> bool:
    """Australia, business number: mod 89."""
    digits = digits_of(value)
    return int(digits[0]) > 0 and (weighted(digits, (10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19), 89) == 10)


def is_au_medicare(value: str) -> bool:
    """Australia, Medicare: weights."""
    digits = digits_of(value)
    return digits[0] in "23456" and weighted(digits, (1, 3, 7, 9, 1, 3, 7, 9), 10) == int(digits[8])


def is_vat(value: str) -> bool:
    """A VAT number of a European country whose check digits are known."""
    code = re.sub(r"[ .\-]", "", value).upper()
    shape = _VAT_SHAPES.get(code[:2])
    return shape is not None and shape.fullmatch(code[2:]) is not None and _VAT_CHECKS[code[:2]](code[2:])


def _fr_vat(code: str) -> bool:
    return code.isdigit() and (12 + 3 * (int(code[2:]) % 97)) % 97 == int(code[:2]) and luhn(code[2:])


def _gb_vat(code: str) -> bool:
    rest = weighted(code, (8, 7, 6, 5, 4, 3, 2), 10_000) + int(code[7:9])
    return rest % 97 in {0, 42}


def _at_vat(code: str) -> bool:
    total = sum(sum(divmod(int(digit) * (1 + place % 2), 10)) for place, digit in enumerate(code[1:8]))
    return (96 - total) % 10 == int(code[8])


_VAT_SHAPES = {
    "AT": re.compile(r"U[0-9]{8}"),
    "BE": re.compile(r"[01][0-9]{9}"),
    "DE": re.compile(r"[1-9][0-9]{8}"),
    "DK": re.compile(r"[1-9][0-9]{7}"),
    "FI": re.compile(r"[0-9]{8}"),
    "FR": re.compile(r"[0-9]{11}"),
    "GB": re.compile(r"[0-9]{9}"),
    "IT": re.compile(r"[0-9]{11}"),
    "NL": re.compile(r"[0-9]{9}B[0-9]{2}"),
    "PL": re.compile(r"[0-9]{10}"),
    "PT": re.compile(r"[0-9]{9}"),
    "SE": re.compile(r"[0-9]{10}01"),
}
_VAT_CHECKS: dict[str, Callable[[str], bool]] = {
    "AT": _at_vat,
    "BE": lambda code: 97 - int(code[:8]) % 97 == int(code[8:]),
    "DE": iso7064_11_10,
    "DK": lambda code: weighted(code, (2, 7, 6, 5, 4, 3, 2, 1), 11) == 0,
    "FI": lambda code: weighted(code, (7, 9, 10, 5, 8, 4, 2, 1), 11) == 0,
    "FR": _fr_vat,
    "GB": _gb_vat,
    "IT": luhn,
    "NL": lambda code: True,
    "PL": lambda code: weighted(code, (6, 5, 7, 2, 3, 4, 5, 6, 7), 11) == int(code[9]),
    "PT": is_pt_nif,
    "SE": lambda code: luhn(code[:10]),
}


_ALONE: tuple[tuple[str, Callable[[str], bool], str], ...] = (
    ("national_id", is_es_dni, "99999999A|99999999-A|99.999.999-A"),
    ("national_id", is_es_nie, "A9999999A|A-9999999-A|A9999999-A"),
    ("national_id", is_codice_fiscale, "AAAAAA99A99A999A"),
    (
        "national_id",
        is_fr_nir,
        "999999999999999|9 99 99 99 999 999 99|9 99 99 99 999 999|99999A999999999|9 99 99 9A 999 999 99",
    ),
    ("national_id", is_de_pension, "99999999A999|99 999999 A 999"),
    ("national_id", is_be_register, "99.99.99-999.99"),
    ("national_id", is_se_person, "999999-9999|99999999-9999|999999+9999"),
    ("national_id", is_kennitala, "999999-9999"),
    ("national_id", is_fi_hetu, "999999-999A|999999-9999|999999+999A|999999A999A|999999A9999"),
    ("national_id", is_no_birth, "999999 99999"),
    ("national_id", is_uk_nino, "AA999999A|AA 99 99 99 A|AA 999999 A"),
    ("national_id", is_ie_pps, "9999999A|9999999AA"),
    ("national_id", is_ch_ahv, "999.9999.9999.99|9999999999999"),
    ("national_id", is_at_svnr, "9999 999999|9999-999999"),
    ("national_id", is_cz_birth, "999999/9999"),
    ("national_id", is_ru_snils, "999-999-999 99|999-999-999-99"),
    ("national_id", is_br_cpf, "999.999.999-99"),
    ("tax_id", is_br_cnpj, "99.999.999/9999-99"),
    ("national_id", is_cl_rut, "99.999.999-9|99.999.999-A|9.999.999-9|9.999.999-A"),
    ("tax_id", is_ar_cuit, "99-99999999-9"),
    ("national_id", is_curp, "AAAA999999AAAAAA99|AAAA999999AAAAAAA9"),
    (
        "tax_id",
        is_mx_rfc,
        "AAAA999999AA9|AAAA999999A99|AAAA9999999A9|AAAA999999999|AAAA999999AAA|AAAA9999999AA|AAAA99999999A|AAAA999999A9A",
    ),
    ("national_id", is_ca_sin, "999-999-999"),
    ("tax_id", is_us_itin, "999-99-9999"),
    ("national_id", is_in_aadhaar, "9999 9999 9999|9999-9999-9999"),
    ("tax_id", is_in_pan, "AAAAA9999A"),
    ("tax_id", is_gstin, "99AAAAA9999A9A9|99AAAAA9999A9AA|99AAAAA9999AAAA|99AAAAA9999AAA9"),
    ("national_id", is_cn_resident, "999999999999999999|99999999999999999A"),
    ("national_id", is_kr_rrn, "999999-9999999"),
    ("national_id", is_sg_nric, "A9999999A"),
    ("national_id", is_tw_id, "A999999999"),
    ("national_id", is_hk_id, "A999999(9)|AA999999(9)|A999999(A)|AA999999(A)"),
    ("national_id", is_my_nric, "999999-99-9999"),
    ("national_id", is_th_id, "9-9999-99999-99-9|9 9999 99999 99 9"),
    ("national_id", is_ae_id, "999-9999-9999999-9"),
    (
        "tax_id",
        is_vat,
        "AA99999999|AA999999999|AA9999999999|AA99999999999|AA999999999999|AAA99999999|AA999999999A99",
    ),
)
_WITH_A_WORD: tuple[tuple[str, Callable[[str], bool], str], ...] = (
    ("national_id", is_de_tax, "99999999999|99 999 999 999"),
    ("national_id", is_pl_pesel, "99999999999"),
    ("national_id", is_nl_bsn, "999999999|99999999|999.999.999|9999.99.999"),
    ("national_id", is_be_register, "99999999999"),
    ("national_id", is_se_person, "9999999999|999999999999"),
    ("national_id", is_no_birth, "99999999999"),
    ("national_id", is_dk_cpr, "999999-9999|9999999999|999999 9999"),
    ("medical_id", is_uk_nhs, "9999999999|999 999 9999|999-999-9999"),
    ("national_id", is_pt_nif, "999999999|999 999 999"),
    ("national_id", is_at_svnr, "9999999999"),
    ("national_id", is_cz_birth, "9999999999"),
    ("national_id", is_ro_cnp, "9999999999999"),
    ("national_id", is_bg_egn, "9999999999"),
    ("national_id", is_hr_oib, "99999999999"),
    ("national_id", is_jmbg, "9999999999999"),
    ("national_id", is_gr_amka, "99999999999"),
    ("national_id", is_baltic, "99999999999"),
    ("national_id", is_ru_snils, "99999999999"),
    ("tax_id", is_ru_inn, "9999999999|999999999999"),
    ("national_id", is_tr_tckn, "99999999999"),
    ("national_id", is_br_cpf, "99999999999"),
    ("national_id", is_cl_rut, "99999999-9|99999999-A|9999999-9|9999999-A"),
    ("national_id", is_ca_sin, "999999999|999 999 999"),
    ("national_id", is_in_aadhaar, "999999999999"),
    ("national_id", is_th_id, "9999999999999"),
    ("national_id", is_jp_number, "999999999999|9999 9999 9999"),
    ("national_id", is_il_id, "999999999"),
    ("national_id", is_za_id, "9999999999999|999999 9999 999"),
    ("tax_id", is_au_tfn, "999999999|999 999 999|99999999"),
    ("tax_id", is_au_abn, "99999999999|99 999 999 999"),
    ("medical_id", is_au_medicare, "9999999999|9999 99999 9"),
)


def _by_shape() -> dict[str, tuple[Format, ...]]:
    """Every shape with what may have it, those that need no word first."""
    found: dict[str, tuple[Format, ...]] = {}
    for rows, alone in ((_ALONE, True), (_WITH_A_WORD, False)):
        for name, test, shapes in rows:
            for shape in shapes.split("|"):
                found[shape] = (*found.get(shape, ()), Format(name, test, alone))
    return found


FORMATS = _by_shape()
"""By shape: what such a value may be."""

_LEAST_WORD = 15
"""Characters. What is shorter is a number among others, and found as such."""


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
