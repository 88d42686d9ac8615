"""Check digits: real numbers pass, one wrong digit fails, and no text at all makes a check raise."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.privacy import TYPES
from sealyard.privacy.detect import checks, registers
from sealyard.privacy.detect.registers import FORMATS

REGISTERS = {
    "is_ae_id": "784-1234-1234567-2",
    "is_ar_cuit": "20-05536168-2",
    "is_at_svnr": "1237 010180",
    "is_au_abn": "51 824 753 556",
    "is_au_medicare": "2123 45670 1",
    "is_au_tfn": "123456782",
    "is_baltic": "36805280109",
    "is_be_register": "85.07.30-033.28",
    "is_bg_egn": "7523169263",
    "is_br_cnpj": "16.727.230/0001-97",
    "is_br_cpf": "390.533.447-05",
    "is_ca_sin": "123-456-782",
    "is_ch_ahv": "756.9217.0769.85",
    "is_cl_rut": "12.531.909-2",
    "is_cn_resident": "11010519491231002X",
    "is_codice_fiscale": "RSSMRA85T10A562S",
    "is_curp": "BOXW310820HNERXN09",
    "is_cz_birth": "736028/5163",
    "is_de_pension": "15070649C103",
    "is_de_tax": "86095742719",
    "is_es_dni": "12345678Z",
    "is_es_nie": "X1234567L",
    "is_fi_hetu": "131052-308T",
    "is_fr_nir": "2 55 08 14 168 025 38",
    "is_gr_amka": "01013099997",
    "is_gstin": "27AAPFU0939F1ZV",
    "is_hk_id": "A123456(3)",
    "is_hr_oib": "33392005961",
    "is_ie_pps": "1234567T",
    "is_il_id": "123456782",
    "is_in_aadhaar": "2341 2341 2346",
    "is_jmbg": "0101006500006",
    "is_jp_number": "123456789018",
    "is_kennitala": "120174-3399",
    "is_mx_rfc": "GODE561231GR8",
    "is_nl_bsn": "111222333",
    "is_no_birth": "15108695088",
    "is_pl_pesel": "44051401359",
    "is_pt_nif": "123456789",
    "is_ro_cnp": "1800101221144",
    "is_ru_inn": "500100732259",
    "is_ru_snils": "112-233-445 95",
    "is_se_person": "811228-9874",
    "is_sg_nric": "S1234567D",
    "is_th_id": "1-2345-45678-78-1",
    "is_tr_tckn": "10000000146",
    "is_tw_id": "A123456789",
    "is_uk_nhs": "943 476 5919",
    "is_za_id": "8001015009087",
}
"""Numbers that the registers themselves or the literature about them give as examples."""
WITHOUT_CHECK_DIGIT = {
    "is_dk_cpr": ("211062-5629", "991062-5629"),
    "is_in_pan": ("ACUPA7085R", "ACUXA7085R"),
    "is_kr_rrn": ("971013-1019902", "971313-1019902"),
    "is_my_nric": ("770305-02-1234", "771305-02-1234"),
    "is_uk_nino": ("AB 12 34 56 C", "QQ 12 34 56 C"),
    "is_us_itin": ("912-90-3456", "912-20-3456"),
}


@pytest.mark.parametrize(("name", "value"), REGISTERS.items())
def test_number_of_a_register_passes_and_fails_with_another_last_place(name: str, value: str) -> None:
    """Of all other endings of the same kind at most one may pass."""
    check = getattr(registers, name)
    at = -2 if value.endswith(")") else -1
    last = value[at]
    others = "0123456789" if last.isdigit() else "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    endings = [value[:at] + other + value[len(value) + at + 1 :] for other in others if other != last]
    # The last digit of these counts the card or says the century.
    endings = [] if name in {"is_au_medicare", "is_kennitala"} else endings

    assert check(value)
    assert sum(map(check, endings)) <= 1


@pytest.mark.parametrize(("name", "values"), WITHOUT_CHECK_DIGIT.items())
def test_number_without_a_check_digit_must_have_a_possible_date_or_prefix(name: str, values: tuple[str, str]) -> None:
    """Some registers keep no check digit: what else is known of them decides."""
    possible, impossible = values

    assert getattr(registers, name)(possible)
    assert not getattr(registers, name)(impossible)


def test_every_check_of_a_register_is_tested() -> None:
    """A check that is added comes with an example."""
    checked = {form.check.__name__ for forms in FORMATS.values() for form in forms}

    assert checked == {*REGISTERS, *WITHOUT_CHECK_DIGIT, "is_vat"}


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
    ],
)
def test_vat_number_passes_and_fails_with_another_digit(value: str) -> None:
    """The check digits of each country are its own."""
    place = 5
    changed = value[:place] + str((int(value[place]) + 1) % 10) + value[place + 1 :]

    assert registers.is_vat(value)
    assert not registers.is_vat(changed) or value.startswith("NL")


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
        ("person", "Ada Lovelace"),
        ("email", "ada@example.org"),
        ("phone", "(020) 7946 0958 ext. 12"),
        ("date_of_birth", "1815-12-10"),
        ("username", "ada99"),
        ("ssn", "900 59 0289"),
        ("credit_card", "4111 1111 1111 1112"),
        ("credit_card", "737"),
        ("iban", "GB00 AAAA 0000 0000 0000 00"),
        ("ip", "[2001:db8::1]:443"),
        ("mac", "00-1B-44-11-3A-B7"),
        ("passport", "C01X00T47"),
        ("api_key", "anything-long"),
        ("custom", "whatever"),
    ],
)
def test_cell_of_a_named_field_is_plausible_without_check_digits(name: str, value: str) -> None:
    """The field says what it is; the form must only allow it."""
    assert checks.is_plausible(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("person", "42"),
        ("person", " "),
        ("person", "N/A"),
        ("email", "ada"),
        ("phone", "12"),
        ("phone", "see below"),
        ("ssn", "yes"),
        ("credit_card", "Visa"),
        ("iban", "n/a"),
        ("ip", "localhost"),
        ("date_of_birth", "unknown"),
    ],
)
def test_cell_that_cannot_be_of_the_type_is_not_plausible(name: str, value: str) -> None:
    """A column of card brands is no column of cards."""
    assert not checks.is_plausible(name, value)


@given(st.sampled_from([*TYPES, "custom"]), st.text(max_size=300))
def test_plausibility_never_raises(name: str, value: str) -> None:
    """Cells hold anything."""
    assert checks.is_plausible(name, value) in {True, False}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("unit", ["1", "a", " ", "1-", "a@", "a1", "\n", ".", "x ", "1 "])
def test_plausibility_of_a_huge_cell_is_decided_in_one_pass(name: str, unit: str) -> None:
    """A pattern that backtracks over its own repetition would not come to an end here."""
    assert checks.is_plausible(name, unit * 100_000) in {True, False}


@given(st.text(max_size=60))
def test_checks_of_wallets_and_addresses_never_raise(value: str) -> None:
    """They are handed whatever matched a pattern, and sometimes more."""
    for check in (checks.is_base58_checked, checks.is_bech32, checks.is_ipv4, checks.is_ipv6, checks.is_iban):
        assert check(value) in {True, False}
