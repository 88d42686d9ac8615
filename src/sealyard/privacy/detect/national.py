"""Numbers that registers and tax offices give to people, by their shape and their check digits.

A shape has `9` for a digit, `A` for a letter, and separators as they are. A format that is *alone* is told by its own
form. One that is not, mostly a bare run of digits, also needs a word near it that says what it is.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from sealyard.privacy.detect import national_checks as check

__all__ = ("FORMATS", "REGISTERED_WORD", "Format", "shape_of")


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


_ALONE: tuple[tuple[str, Callable[[str], bool], str], ...] = (
    ("national_id", check.is_es_dni, "99999999A|99999999-A|99.999.999-A"),
    ("national_id", check.is_es_nie, "A9999999A|A-9999999-A|A9999999-A"),
    ("national_id", check.is_codice_fiscale, "AAAAAA99A99A999A"),
    (
        "national_id",
        check.is_fr_nir,
        "999999999999999|9 99 99 99 999 999 99|9 99 99 99 999 999|99999A999999999|9 99 99 9A 999 999 99",
    ),
    ("national_id", check.is_de_pension, "99999999A999|99 999999 A 999"),
    ("national_id", check.is_be_register, "99.99.99-999.99"),
    ("national_id", check.is_se_person, "999999-9999|99999999-9999|999999+9999"),
    ("national_id", check.is_kennitala, "999999-9999"),
    ("national_id", check.is_fi_hetu, "999999-999A|999999-9999|999999+999A|999999A999A|999999A9999"),
    ("national_id", check.is_no_birth, "999999 99999"),
    ("national_id", check.is_uk_nino, "AA999999A|AA 99 99 99 A|AA 999999 A"),
    ("national_id", check.is_ie_pps, "9999999A|9999999AA"),
    ("national_id", check.is_ch_ahv, "999.9999.9999.99|9999999999999"),
    ("national_id", check.is_at_svnr, "9999 999999|9999-999999"),
    ("national_id", check.is_cz_birth, "999999/9999"),
    ("national_id", check.is_ru_snils, "999-999-999 99|999-999-999-99"),
    ("national_id", check.is_br_cpf, "999.999.999-99"),
    ("tax_id", check.is_br_cnpj, "99.999.999/9999-99"),
    ("national_id", check.is_cl_rut, "99.999.999-9|99.999.999-A|9.999.999-9|9.999.999-A"),
    ("tax_id", check.is_ar_cuit, "99-99999999-9"),
    ("national_id", check.is_curp, "AAAA999999AAAAAA99|AAAA999999AAAAAAA9"),
    (
        "tax_id",
        check.is_mx_rfc,
        "AAAA999999AA9|AAAA999999A99|AAAA9999999A9|AAAA999999999|AAAA999999AAA|AAAA9999999AA|AAAA99999999A|AAAA999999A9A",
    ),
    ("national_id", check.is_ca_sin, "999-999-999"),
    ("tax_id", check.is_us_itin, "999-99-9999"),
    ("national_id", check.is_in_aadhaar, "9999 9999 9999|9999-9999-9999"),
    ("tax_id", check.is_in_pan, "AAAAA9999A"),
    ("tax_id", check.is_gstin, "99AAAAA9999A9A9|99AAAAA9999A9AA|99AAAAA9999AAAA|99AAAAA9999AAA9"),
    ("national_id", check.is_cn_resident, "999999999999999999|99999999999999999A"),
    ("national_id", check.is_kr_rrn, "999999-9999999"),
    ("national_id", check.is_sg_nric, "A9999999A"),
    ("national_id", check.is_tw_id, "A999999999"),
    ("national_id", check.is_hk_id, "A999999(9)|AA999999(9)|A999999(A)|AA999999(A)"),
    ("national_id", check.is_my_nric, "999999-99-9999"),
    ("national_id", check.is_th_id, "9-9999-99999-99-9|9 9999 99999 99 9"),
    ("national_id", check.is_ae_id, "999-9999-9999999-9"),
    (
        "tax_id",
        check.is_vat,
        "AA99999999|AA999999999|AA9999999999|AA99999999999|AA999999999999|AAA99999999|AA999999999A99",
    ),
)
_WITH_A_WORD: tuple[tuple[str, Callable[[str], bool], str], ...] = (
    ("national_id", check.is_de_tax, "99999999999|99 999 999 999"),
    ("national_id", check.is_pl_pesel, "99999999999"),
    ("national_id", check.is_nl_bsn, "999999999|99999999|999.999.999|9999.99.999"),
    ("national_id", check.is_be_register, "99999999999"),
    ("national_id", check.is_se_person, "9999999999|999999999999"),
    ("national_id", check.is_no_birth, "99999999999"),
    ("national_id", check.is_dk_cpr, "999999-9999|9999999999|999999 9999"),
    ("medical_id", check.is_uk_nhs, "9999999999|999 999 9999|999-999-9999"),
    ("national_id", check.is_pt_nif, "999999999|999 999 999"),
    ("national_id", check.is_at_svnr, "9999999999"),
    ("national_id", check.is_cz_birth, "9999999999"),
    ("national_id", check.is_ro_cnp, "9999999999999"),
    ("national_id", check.is_bg_egn, "9999999999"),
    ("national_id", check.is_hr_oib, "99999999999"),
    ("national_id", check.is_jmbg, "9999999999999"),
    ("national_id", check.is_gr_amka, "99999999999"),
    ("national_id", check.is_baltic, "99999999999"),
    ("national_id", check.is_ru_snils, "99999999999"),
    ("tax_id", check.is_ru_inn, "9999999999|999999999999"),
    ("national_id", check.is_tr_tckn, "99999999999"),
    ("national_id", check.is_br_cpf, "99999999999"),
    ("national_id", check.is_cl_rut, "99999999-9|99999999-A|9999999-9|9999999-A"),
    ("national_id", check.is_ca_sin, "999999999|999 999 999"),
    ("national_id", check.is_in_aadhaar, "999999999999"),
    ("national_id", check.is_th_id, "9999999999999"),
    ("national_id", check.is_jp_number, "999999999999|9999 9999 9999"),
    ("national_id", check.is_il_id, "999999999"),
    ("national_id", check.is_za_id, "9999999999999|999999 9999 999"),
    ("tax_id", check.is_au_tfn, "999999999|999 999 999|99999999"),
    ("tax_id", check.is_au_abn, "99999999999|99 999 999 999"),
    ("medical_id", check.is_au_medicare, "9999999999|9999 99999 9"),
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
"""A word with the shape of a number that is told by its own form, as a pattern. Its length rules out most words."""
