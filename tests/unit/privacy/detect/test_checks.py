"""Check digits: real numbers pass, one wrong digit fails, and no text at all makes a check raise."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.privacy.detect import checks, registers
from sealyard.privacy.detect.registers import FORMATS, Format

BY_NAME: dict[str, Format] = {form.name: form for forms in FORMATS.values() for form in forms}
REGISTERS = {
    "ae_id": "784-1234-1234567-2",
    "ar_cuit": "20-05536168-2",
    "at_svnr": "1237 010180",
    "au_abn": "51 824 753 556",
    "au_medicare": "2123 45670 1",
    "au_tfn": "123456782",
    "au_tfn_old": "12345677",
    "baltic": "36805280109",
    "be_register": "85.07.30-033.28",
    "bg_egn": "7523169263",
    "br_cnpj": "16.727.230/0001-97",
    "br_cpf": "390.533.447-05",
    "ca_sin": "123-456-782",
    "ch_ahv": "756.9217.0769.85",
    "cl_rut": "12.531.909-2",
    "cn_resident": "11010519491231002X",
    "codice_fiscale": "RSSMRA85T10A562S",
    "mx_curp": "BOXW310820HNERXN09",
    "cz_birth": "736028/5163",
    "de_pension": "15070649C103",
    "de_tax": "86095742719",
    "es_dni": "12345678Z",
    "es_nie": "X1234567L",
    "fi_hetu": "131052-308T",
    "fr_nir": "2 55 08 14 168 025 38",
    "gr_amka": "01013099997",
    "in_gstin": "27AAPFU0939F1ZV",
    "hk_id": "A123456(3)",
    "hr_oib": "33392005961",
    "ie_pps": "1234567T",
    "il_id": "123456782",
    "in_aadhaar": "2341 2341 2346",
    "jmbg": "0101006500006",
    "jp_number": "123456789018",
    "is_kennitala": "120174-3399",
    "mx_rfc": "GODE561231GR8",
    "nl_bsn": "111222333",
    "no_birth": "15108695088",
    "pl_pesel": "44051401359",
    "pt_nif": "123456789",
    "ro_cnp": "1800101221144",
    "ru_inn": "500100732259",
    "ru_inn_company": "7707083893",
    "ru_snils": "112-233-445 95",
    "se_person": "811228-9874",
    "sg_nric": "S1234567D",
    "th_id": "1-2345-45678-78-1",
    "tr_tckn": "10000000146",
    "tw_id": "A123456789",
    "uk_nhs": "943 476 5919",
    "za_id": "8001015009087",
}
"""Numbers that the registers themselves or the literature about them give as examples."""
WITHOUT_CHECK_DIGIT = {
    "dk_cpr": ("211062-5629", "991062-5629"),
    "in_pan": ("ACUPA7085R", "ACUXA7085R"),
    "kr_rrn": ("971013-1019902", "971313-1019902"),
    "my_nric": ("770305-02-1234", "771305-02-1234"),
    "uk_nino": ("AB 12 34 56 C", "QQ 12 34 56 C"),
    "us_itin": ("912-90-3456", "912-20-3456"),
}


@pytest.mark.parametrize(("name", "value"), REGISTERS.items())
def test_number_of_a_register_passes_and_fails_with_another_last_place(name: str, value: str) -> None:
    """Of all other endings of the same kind at most one may pass."""
    check = BY_NAME[name].check
    at = -2 if value.endswith(")") else -1
    last = value[at]
    others = "0123456789" if last.isdigit() else "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    endings = [value[:at] + other + value[len(value) + at + 1 :] for other in others if other != last]
    # The last digit of these counts the card or says the century.
    endings = [] if name in {"au_medicare", "is_kennitala"} else endings

    assert check(value)
    assert sum(map(check, endings)) <= 1


@pytest.mark.parametrize(("name", "values"), WITHOUT_CHECK_DIGIT.items())
def test_number_without_a_check_digit_must_have_a_possible_date_or_prefix(name: str, values: tuple[str, str]) -> None:
    """Some registers keep no check digit: what else is known of them decides."""
    possible, impossible = values

    assert BY_NAME[name].check(possible)
    assert not BY_NAME[name].check(impossible)


def test_every_check_of_a_register_is_tested() -> None:
    """A check that is added comes with an example."""
    assert BY_NAME.keys() == {*REGISTERS, *WITHOUT_CHECK_DIGIT, "vat"}


@pytest.mark.parametrize(
    "value",
    [
        "DE136695976",
        "ATU13585627",
        "BE0428759497",
        "FR40303265045",
        "IT00743110157",
        "NL004495445B01",
        "PL8567346215",
        "PT501964843",
        "SE123456789701",
        "GB980780684",
        "DK13585628",
        "FI20774740",
        "BG175074752",
        "BG7523169263",
        "CY10259033P",
        "CZ25123891",
        "CZ7103192745",
        "CZ640903926",
        "EE100931558",
        "EL094259216",
        "ESB58378431",
        "ES54362315K",
        "ESX5253868R",
        "HR33392005961",
        "HU12892312",
        "IE6433435F",
        "IE6433435OA",
        "IE8D79739I",
        "LT119511515",
        "LT100001919017",
        "LU15027442",
        "LV40003521600",
        "LV16117519997",
        "MT11679112",
        "RO18547290",
        "SI50223054",
        "SK2022749619",
        "XI980780684",
    ],
)
def test_vat_number_passes_and_fails_with_another_digit(value: str) -> None:
    """The check digits of each country are its own."""
    place = 5
    changed = value[:place] + str((int(value[place]) + 1) % 10) + value[place + 1 :]

    assert registers.is_vat(value)
    assert not registers.is_vat(changed) or value.startswith("NL")


def test_every_country_with_a_check_of_vat_numbers_has_an_example() -> None:
    """The 27 countries of the Union, the United Kingdom, and Northern Ireland with letters of its own."""
    assert len(registers._VAT) == 29


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ie_pps", "6433435FT"),
        ("ie_pps", "6433435FW"),
        ("ie_pps", "6433435OA"),
        ("fr_nir", "7 55 08 14 168 025 79"),
        ("fr_nir", "8 55 08 14 168 025 29"),
        ("br_cnpj", "12.ABC.345/01DE-35"),
    ],
)
def test_other_forms_of_a_number_pass_too(name: str, value: str) -> None:
    """Older numbers of Ireland, numbers of France that are not final yet, letters in those of Brazilian companies."""
    assert BY_NAME[name].check(value)


def test_no_check_raises_for_any_value_of_its_shape() -> None:
    """Shapes come from hostile text: digits and letters may be any."""
    chance = random.Random(4)
    for shape, forms in FORMATS.items():
        for _ in range(200):
            value = "".join(
                chance.choice("0123456789") if place == "9" else chance.choice("ABXYZabkm") if place == "A" else place
                for place in shape
            )
            assert all(form.check(value) in {True, False} for form in forms)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("4111 1111 1111 1111", True),
        ("4111-1111-1111-1112", False),
        ("378282246310005", True),
        ("30569309025904", True),
        ("6011111111111117", True),
        ("3530111333300000", True),
        ("5555555555554444", True),
        ("2223003122003222", True),
        ("6200000000000005", True),
        ("2200000000000004", True),
        ("0000000000000000", False),
        ("1234567812345670", False),
        ("411111111111", False),
    ],
)
def test_card_needs_issuer_length_and_luhn(value: str, expected: bool) -> None:
    """The issuers' own test numbers; 1234… passes Luhn but nobody issues it."""
    assert checks.is_card(value) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("DE89 3704 0044 0532 0130 00", True),
        ("GB29NWBK60161331926819", True),
        ("fr1420041010050500013m02606", True),
        ("NO9386011117947", True),
        ("DE89 3704 0044 0532 0130 01", False),
        ("DE8937040044053201300", False),
        ("ZZ89370400440532013000", False),
        ("", False),
    ],
)
def test_iban_needs_country_length_and_mod_97(value: str, expected: bool) -> None:
    """Examples of the registry."""
    assert checks.is_iban(value) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("219-09-9999", True),
        ("000-12-3456", False),
        ("666-12-3456", False),
        ("900-12-3456", False),
        ("123-00-4567", False),
        ("123-45-0000", False),
        ("111111111", False),
        ("12345", False),
    ],
)
def test_ssn_needs_area_group_and_serial(value: str, expected: bool) -> None:
    """The rules of the Social Security Administration."""
    assert checks.is_ssn(value) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("10.0.0.1", True),
        ("127.0.0.1", True),
        ("255.255.255.255", True),
        ("255.255.240.0", False),
        ("256.1.1.1", False),
        ("01.2.3.4", False),
        ("1.2.3", False),
        ("\u0661.2.3.4", False),
    ],
)
def test_ipv4_is_an_address_and_no_netmask(value: str, expected: bool) -> None:
    """A netmask says nothing of anybody."""
    assert checks.is_ipv4(value) is expected


def test_verhoeff_finds_every_single_wrong_digit_and_every_swap() -> None:
    """What the check was made for."""
    right = "234123412346"
    wrong = {right[:place] + digit + right[place + 1 :] for place in range(12) for digit in "0123456789"} - {right}
    swapped = {right[:place] + right[place + 1] + right[place] + right[place + 2 :] for place in range(11)} - {right}

    assert checks.verhoeff(right)
    assert not any(map(checks.verhoeff, wrong | swapped))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("phone", "(020) 7946 0958 ext. 12"),
        ("credit_card", "4111 1111 1111 1112"),
        ("iban", "GB00 AAAA 0000 0000 0000 00"),
        ("passport", "C01X00T47"),
    ],
)
def test_number_after_a_word_that_names_its_kind_is_plausible_without_check_digits(name: str, value: str) -> None:
    """The word says what it is; the form must only allow it."""
    assert checks.is_plausible(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("phone", "12"),
        ("phone", "see below"),
        ("credit_card", "Visa"),
        ("iban", "n/a"),
    ],
)
def test_what_cannot_be_of_the_type_is_not_plausible(name: str, value: str) -> None:
    """A brand of cards is not the number of one."""
    assert not checks.is_plausible(name, value)


@given(st.sampled_from(sorted(checks._SHAPES)), st.text(max_size=300))
def test_plausibility_never_raises(name: str, value: str) -> None:
    """Cells hold anything."""
    assert checks.is_plausible(name, value) in {True, False}


@pytest.mark.parametrize("name", checks._SHAPES)
@pytest.mark.parametrize("unit", ["1", "a", " ", "1-", "a@", "a1", "\n", ".", "x ", "1 "])
def test_plausibility_of_a_huge_cell_is_decided_in_one_pass(name: str, unit: str) -> None:
    """A pattern that backtracks over its own repetition would not come to an end here."""
    assert checks.is_plausible(name, unit * 100_000) in {True, False}


@given(st.text(max_size=60))
def test_checks_of_wallets_and_addresses_never_raise(value: str) -> None:
    """They are handed whatever matched a pattern, and sometimes more."""
    for check in (checks.is_base58_checked, checks.is_bech32, checks.is_ipv4, checks.is_ipv6, checks.is_iban):
        assert check(value) in {True, False}
