"""Words that say what the number after them is, in several languages.

A bare run of digits is an order number as well as a telephone number. The word in front of it decides. The nearest
word counts, and only if nothing but filling stands between: a comma, a brace or another number ends its reach.
"""

import re
from typing import NamedTuple

__all__ = ("Label", "label_before")


class Label(NamedTuple):
    """What a word in front of a number makes of it."""

    type: str
    is_exact: bool
    """The word names one kind of number, so its check digit need not fit."""


_REACH = 44
_WORDS: tuple[tuple[str, bool, str], ...] = (
    (
        "phone",
        True,
        """
        phone phones telephone telephones tel tél mobile mobil mobiles cell cellular cellphone fax whatsapp sms
        call calls called calling dial dialed dialing texted texting text_me hotline ring desk direct answering
        messages_to message_to handy handynummer rufnummer mobilnummer rückruf anrufen téléphone téléphoner
        portable teléfono telefono móvil movil celular llame llamar telefone telemóvel ligue cellulare chiamare
        chiami mobiel gsm matkapuhelin tlf mobilnr msisdn contact_number contact_no reach_me reach_us reached_at
        reach_him reach_her reach_them nomor_hp no_hp điện_thoại cep_telefonu моб мобильный telefon* telefoon*
        puhelin* телефон* тел звон* komórk* appel* τηλ*
        """,
    ),
    (
        "ssn",
        True,
        """
        ssn ssns social_security social_sec soc_sec
        """,
    ),
    (
        "national_id",
        True,
        """
        aadhaar aadhar adhaar adhar uidai pesel bsn burgerservicenummer sofinummer rijksregister*
        registre_national idnr numéro_national steuer_id steueridentifikationsnummer steuer_idnr
        identifikationsnummer sozialversicherungsnummer rentenversicherungsnummer versicherungsnummer svnr ahv avs
        dni nif nuss curp cpf cédula cedula cuil codice_fiscale personnummer samordningsnummer fødselsnummer
        fodselsnummer personnr cpr henkilötunnus hetu kennitala nino national_insurance ni_number insee
        sécurité_sociale securite_sociale pps ppsn rodné_číslo rodne_cislo cnp egn егн oib jmbg emšo emso amka
        αμκα asmens_kodas isikukood personas_kods snils снилс tckn kimlik social_insurance nric fin_number hkid
        mykad my_number mynumber rrn national_id national_number national_identification nationalid citizen_id
        citizen_number citizenship_number personalausweis* ausweisnummer teudat_zehut emirates_id voter_id rsa_id
        sa_id SIN RUT RUN NIE NIR NIN BVN NIK KTP EPIC RG
        """,
    ),
    (
        "national_id",
        False,
        """
        id_number id_no id_card identity_number identity_card identity_no identification_number identification_no
        personal_code personal_number personal_id ausweis identité identidad identità
        """,
    ),
    (
        "tax_id",
        True,
        """
        tax_id tax_identification tax_number tax_no taxpayer_id taxpayer_identification taxpayer_number taxid
        tax_file tax_code tax_reference ein fein itin employer_identification vat vat_id vat_number vat_no ust_id
        ustid ust_idnr st_id_nr id_nr umsatzsteuer* tfn abn gst gstin pan_card pan_number pan_no steuernummer
        numéro_fiscal siret siren tva partita_iva p_iva rfc cuit cnpj инн btw* TIN NIT NIP INN PAN CIF UTR
        """,
    ),
    (
        "credit_card",
        False,
        """
        card cards cc karte carte carta karta
        """,
    ),
    (
        "credit_card",
        True,
        """
        credit_card debit_card payment_card bank_card visa_card amex_card card_number card_no card_num cardnumber
        visa mastercard amex american_express ccn ccnum kreditkarte* kartennummer carte_bancaire tarjeta cartão
        carta_di_credito numer_karty карта карты
        """,
    ),
    (
        "bank_account",
        True,
        """
        account_number account_no account_num account_nr acct_number acct_no bank_account checking_account
        savings_account acct accountnumber routing routing_number routing_no aba_routing rtn sort_code kontonummer
        kontonr konto bankleitzahl blz compte_bancaire cuenta clabe conto_corrente rekening* ifsc agência
        conta_corrente счет счёт accnum RIB CBU BSB ABA ACC
        """,
    ),
    (
        "iban",
        True,
        """
        iban
        """,
    ),
    (
        "passport",
        True,
        """
        passport passports passport_number passport_no reisepass* passeport pasaporte passaporto passaporte
        paspoort* паспорт*
        """,
    ),
    (
        "driver_license",
        True,
        """
        driver_license drivers_license driver_licence drivers_licence driving_licence driving_license dl_number
        dl_no license_number license_no licence_number licence_no führerschein* fuehrerschein* permis_de_conduire
        licencia_de_conducir patente_di_guida habilitação cnh rijbewijs* körkort*
        """,
    ),
    (
        "medical_id",
        True,
        """
        nhs nhs_number nhs_no medicare medicaid mrn medical_record patient_id patient_number patient_no
        patient_identifier health_card health_insurance health_id member_id insurance_id insurance_number
        insurance_no insurance_policy insurance_member policy_number policy_no policy_id krankenversicher*
        versichertennummer carte_vitale MBI NPI DEA
        """,
    ),
    (
        "",
        True,
        """
        order orders invoice invoices ticket tickets case tracking ref reference sku isbn ean upc asin product
        item serial version build revision commit port amount total price timestamp epoch bytes qty quantity
        transaction tx txn booking confirmation claim incident bug issue user_id user_number customer_id
        customer_number client_id client_number session_id request_id message_id employee_id employee_number
        student_id rechnung* bestell* auftrag* facture commande pedido factura ordine fattura
        """,
    ),
)
"""Type, whether the words name one kind of number, the words. `_` joins a phrase, `*` stands for any ending."""
_OTHER_SCRIPTS = re.compile(
    "(?P<phone>电话|手机|電話|携帯|전화|휴대폰|هاتف|جوال|फोन|טלפון)"
    "|(?P<national_id>身份证|身分證|マイナンバー|주민등록번호|תעודת זהות)"
    "|(?P<tax_id>税号)|(?P<credit_card>信用卡|カード番号)|(?P<bank_account>账号|银行卡)|(?P<passport>护照|パスポート|여권)"
)
_WORD = re.compile(r"[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])|[A-Z][^\W\d_A-Z]*")
_END = re.compile(r"[0-9,;{}|\t\n]")
_ENDS = frozenset("0123456789,;{}|\t\n")


def _labels() -> tuple[dict[str, Label], dict[str, Label]]:
    """The labels by their words, and those that a word only has to start with."""
    words: dict[str, Label] = {}
    starts: dict[str, Label] = {}
    for name, is_exact, listed in _WORDS:
        for word in listed.split():
            target, key = (starts, word[:-1]) if word.endswith("*") else (words, word.replace("_", " "))
            target.setdefault(key, Label(name, is_exact))
    return words, starts


_BY_WORDS, _BY_START = _labels()
_STARTS = tuple(_BY_START)


def label_before(text: str, start: int) -> Label | None:
    """What the nearest word before the place says; None if no word reaches it."""
    if not start or (text[start - 1] in _ENDS and text[max(0, start - 2) : start] != ":\n"):
        return None
    # In a form the word stands on a line of its own.
    window = text[max(0, start - _REACH) : start].replace(":\n", ": ")
    if end := _END.search(window[::-1]):
        window = window[len(window) - end.start() :]
    if not window.isascii() and (other := _OTHER_SCRIPTS.search(window)) and other.lastgroup:
        return Label(other.lastgroup, is_exact=True)
    words = _WORD.findall(window.replace("'s", "s"))
    for place in range(len(words) - 1, -1, -1):
        label = _label(words, place)
        if label and not label.is_exact and place:
            # The more exact word of "tax id number" counts.
            label = max(label, _label(words, place - 1) or label, key=lambda found: found.is_exact)
        if label:
            return label if label.type else None
    return None


def _label(words: list[str], place: int) -> Label | None:
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
