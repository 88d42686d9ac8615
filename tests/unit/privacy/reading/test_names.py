"""What field names mean."""

import pytest

from sealyard.privacy.reading import read_name, split_name
from sealyard.privacy.reading.lexicon import Meaning


@pytest.mark.parametrize(
    "name",
    ["given_name", "givenName", "GivenName", "given-name", "Given Name", "GIVEN_NAME", "given.name", "givenname"],
)
def test_spellings_of_one_name_mean_the_same(name: str) -> None:
    """Case, underscores, hyphens, dots and spaces only separate words."""
    assert (read_name(name).kind, read_name(name).is_sure) == ("person", True)


def test_words_are_split_at_capitals_digits_and_accents() -> None:
    """An abbreviation in capitals is one word, and accents are dropped."""
    assert split_name("customerIPAddress2") == ["customer", "ip", "address", "2"]
    assert split_name("Straße") == ["strasse"]
    assert split_name("prénom_de_l'élève") == ["prenom", "de", "l", "eleve"]
    assert split_name("E-Mail") == ["email"]


SURE = {
    "person": """first_name vorname Nachname prenom apellido1 cognome sobrenome achternaam imie fornamn efternavn
        etunimi
        soyadi 氏名 姓名 성명 фамилия customerFirstName CUST_LNAME MothersMaiden cardholder_name nomFamille kontoinhaber
        customerfirstname お客様氏名 middleInitial first_nm""",
    "email": """
        email eMail E-Mail-Adresse emailAddress correo_electronico courriel epost sahkoposti 邮箱 メールアドレス
        work_email email2""",
    "phone": """
        phone tel Telefon mobileNo telefono_movil celular numero_de_telefone telefoonnummer puhelin 電話番号
        手机号 contact_no""",
    "address": """
        street Strasse StreetAddress address_line_1 addr2 hausnummer calle rua ulica gatuadress katuosoite 住所
        地址 адрес""",
    "date_of_birth": """
        dob birthDate date_of_birth Geburtsdatum fecha_nacimiento DataDeNascimento geboortedatum 生年月日
        birth_year""",
    "username": "username userName login screen_name benutzername gebruikersnaam twitterHandle 用户名",
    "password": """
        password passwd user_pwd passphrase Kennwort mot_de_passe contraseña senha wachtwoord haslo 密码
        confirm_password""",
    "ssn": "ssn SSN social_security_number ssnLast4",
    "national_id": """
        national_id NationalID dni cpf pesel personnummer bsn codice_fiscale aadhaar tc_kimlik_no 身份证号 nino""",
    "tax_id": "tax_id ein vatNumber steuernummer partita_iva nip",
    "passport": "passport_no passportNumber reisepassnummer numero_pasaporte 护照号码",
    "driver_license": "drivers_license driving_licence_number license_plate kennzeichen",
    "medical_id": "mrn patient_id health_insurance_number nhsNumber versichertennummer",
    "credit_card": "card_number cardNumber ccNum CVV2 credit_card_number numero_de_tarjeta",
    "bank_account": "account_number acct_no routing_number sortCode kontonummer numero_de_cuenta",
    "iban": "iban IBAN bankIban",
    "wallet": "wallet_address btcAddress",
    "mac": "mac_address macAddress",
    "ip": "ip_address clientIp",
    "api_key": "api_key apiKey client_secret aws_secret_access_key",
    "auth_token": "access_token refreshToken authorization set-cookie",
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in SURE.items() for name in names.split()])
def test_a_name_alone_is_enough(kind: str, name: str) -> None:
    """In a dozen languages and many spellings."""
    assert (read_name(name).kind, read_name(name).is_sure) == (kind, True)


@pytest.mark.parametrize(
    "name",
    """email_template email_verified phone_type phone_count address_count is_email_valid has_phone password_policy
    password_reset_at name_length page_token next_page_token max_tokens zip_file street_view username_column
    birthday_list host_address memory_address show_password country_code TelephoneCountryCode card_type last4
    user_agent order_id created_at status""".split(),
)
def test_another_word_makes_it_something_else(name: str) -> None:
    """What describes a field, counts it or switches it on is not the field."""
    assert read_name(name).kind == ""


@pytest.mark.parametrize(
    "name", "product_name file_name company_name hostName brandName event_name vendor_name bank_name".split()
)
def test_the_name_of_a_thing_is_no_persons(name: str) -> None:
    """A firm's name is one of a firm, and everything else's is nothing."""
    assert read_name(name).kind in ("", "org?", "goods")


@pytest.mark.parametrize(
    "name", "customer_name ClientName nombre_cliente patientName owner_name Kundenname created_by_name".split()
)
def test_the_name_of_a_role_is_likely_a_persons(name: str) -> None:
    """Its values have the last word: a customer may be a firm."""
    assert (read_name(name).kind, read_name(name).is_sure) == ("person?", False)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("name", "name?"), ("city", "place?"), ("country", "region?"), ("owner", "role?"), ("employer", "org?")],
)
def test_an_ambiguous_name_needs_evidence(name: str, kind: str) -> None:
    """The neighbours decide about these."""
    assert (read_name(name).kind, read_name(name).is_sure) == (kind, False)


def test_a_name_says_what_the_keys_below_it_are() -> None:
    """A dictionary by name has names as its keys."""
    assert read_name("salary_by_name").keys == "person"
    assert read_name("usersByEmail").keys == "email"
    assert read_name("sorted_by").keys == ""
    assert read_name("hours_by_created_by").keys == "person"


def test_a_name_of_any_length_is_read_at_once() -> None:
    """What is longer than a name is a value, and is searched as one."""
    assert read_name("name " * 100_000) == Meaning(may_be_private=True)
    assert read_name("") == Meaning(is_number=True)
