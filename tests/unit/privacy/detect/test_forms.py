"""Private values by their form: found whole where they are, left where they only look alike, in linear time."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.privacy import TYPES
from sealyard.privacy.detect.forms import find_values
from sealyard.privacy.span import Span


def found(text: str) -> list[tuple[str, str]]:
    """Type and text of every finding."""
    return [(span.type, text[span.start : span.end]) for span in find_values(text)]


ALONE = [
    ("email", "ada@example.org"),
    ("email", "ada.lovelace+notes@mail.example.co.uk"),
    ("email", "o'brien@example.ie"),
    ("email", "josé@correo.es"),
    ("email", "info@münchen.example"),
    ("email", "用户@例子.公司"),
    ("email", "ada@xn--mnchen-3ya.de"),
    ("email", "ada@[192.0.2.1]"),
    ("credit_card", "4111 1111 1111 1111"),
    ("credit_card", "4111-1111-1111-1111"),
    ("credit_card", "4111111111111111"),
    ("credit_card", "3782 822463 10005"),
    (
        "credit_card",
        "\uff16\uff10\uff11\uff11 \uff11\uff11\uff11\uff11 \uff11\uff11\uff11\uff11 \uff11\uff11\uff11\uff17",
    ),
    ("iban", "DE89370400440532013000"),
    ("iban", "DE89 3704 0044 0532 0130 00"),
    ("iban", "GB29 NWBK 6016 1331 9268 19"),
    ("iban", "de89370400440532013000"),
    ("ip", "192.168.17.4"),
    ("ip", "127.0.0.1"),
    ("ip", "2001:db8:85a3::8a2e:370:7334"),
    ("ip", "fe80::1ff:fe23:4567:890a"),
    ("ip", "::ffff:10.1.2.3"),
    ("mac", "00:1B:44:11:3A:B7"),
    ("mac", "00-1b-44-11-3a-b7"),
    ("mac", "001b.4411.3ab7"),
    ("ssn", "219-09-9999"),
    ("ssn", "XXX-XX-4321"),
    ("phone", "+49 30 901820"),
    ("phone", "+14155552671"),
    ("phone", "+44 (0)20 7946 0958"),
    ("phone", "0049 30 901820"),
    ("phone", "(415) 555-2671"),
    ("phone", "415-555-2671"),
    ("phone", "415.555.2671 ext. 12"),
    ("phone", "030/901820-12"),
    ("phone", "06 12 34 56 78"),
    ("phone", "020 7946 0958"),
    ("phone", "(11) 91234-5678"),
    ("phone", "8 (912) 345-67-89"),
    ("phone", "138 1234 5678"),
    ("phone", "98765 43210"),
    ("url", "https://ada:secret@example.org/a"),
    ("url", "postgresql://app:pw@db:5432/x"),
    ("url", "https://example.org/a?b=1&token=abcdef12"),
    ("url", "https://hooks.slack.com/services/T00000000/B00000000/abcdefghijkl"),
    ("wallet", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
    ("wallet", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"),
    ("wallet", "0x52908400098527886E0F7030069857D2E4169EE7"),
    ("national_id", "12345678Z"),
    ("national_id", "X1234567L"),
    ("national_id", "RSSMRA85T10A562S"),
    ("national_id", "131052-308T"),
    ("national_id", "811228-9874"),
    ("national_id", "85.07.30-033.28"),
    ("national_id", "390.533.447-05"),
    ("national_id", "756.9217.0769.85"),
    ("national_id", "11010519491231002X"),
    ("national_id", "2341 2341 2346"),
    ("national_id", "AB123456C"),
    ("national_id", "S1234567D"),
    ("national_id", "12.531.909-2"),
    ("national_id", "A123456(3)"),
    ("tax_id", "DE136695976"),
    ("tax_id", "ACUPA7085R"),
    ("tax_id", "912-90-3456"),
    ("tax_id", "16.727.230/0001-97"),
]
FRAMES = ["{}", "it is {}.", '{{"a": "{}", "b": 1}}', "x\t{}\ty", "a,{},b", "see <{}>", "('{}')", "- {}\n- x", "é {} é"]


@pytest.mark.parametrize(("name", "value"), ALONE)
def test_value_is_found_whole_in_any_surroundings(name: str, value: str) -> None:
    """Prose, JSON, tables, markup, code: the span is the value and nothing else."""
    assert [found(frame.format(value)) for frame in FRAMES] == [[(name, value)]] * len(FRAMES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Phone: 5551234567", ("phone", "5551234567")),
        ("call me on 5551234567", ("phone", "5551234567")),
        ('{"homePhone": 5551234567}', ("phone", "5551234567")),
        ("Phone:\n60-56-85-91", ("phone", "60-56-85-91")),
        ("Telefonnummer 612 345 678", ("phone", "612 345 678")),
        ("电话\uff1a13812345678", ("phone", "13812345678")),
        ("тел. 84951234567", ("phone", "84951234567")),
        ("9469 9966 (office)", ("phone", "9469 9966")),
        ("SSN 219099999", ("ssn", "219099999")),
        ("social security number: 219 09 9999", ("ssn", "219 09 9999")),
        ("PESEL 44051401359", ("national_id", "44051401359")),
        ("BSN: 111222333", ("national_id", "111222333")),
        ("Steuer-ID 86095742719", ("national_id", "86095742719")),
        ("T.C. Kimlik 10000000146", ("national_id", "10000000146")),
        ("Aadhaar 123456789012", ("national_id", "123456789012")),
        ("identity card 10000000146", ("national_id", "10000000146")),
        ("his tax ID number 91-3456789", ("tax_id", "91-3456789")),
        ("USt-IdNr. DE 123456789", ("tax_id", "DE 123456789")),
        ("my card 501864667909", ("credit_card", "501864667909")),
        ("credit card 4111 1111 1111 1112", ("credit_card", "4111 1111 1111 1112")),
        ("account number 12345678", ("bank_account", "12345678")),
        ("IBAN DE00 1234 5678 9012 3456 78", ("iban", "DE00 1234 5678 9012 3456 78")),
        ("passport X1234567", ("passport", "X1234567")),
        ("driver\u2019s license K932-778-3840", ("driver_license", "K932-778-3840")),
        ("MRN 00987654", ("medical_id", "00987654")),
        ("NHS number 9434765919", ("medical_id", "9434765919")),
    ],
)
def test_weak_form_is_found_by_the_word_before_it(text: str, expected: tuple[str, str]) -> None:
    """In several languages; a word that names the number makes up for its check digit."""
    assert found(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "order 5551234567",
        "5551234567",
        "id: 44051401359",
        "phone: none, order 5551234567",
        '{"phone": null, "order_id": 5551234567}',
        "identity card 10000000111",
        "219099999",
        "4111 1111 1111 1112",
        "1234567812345670",
        "EAN 4006381333931",
        "4006381333931",
        "ISBN 978-3-16-148410-0",
        "ISBN 0-306-40615-2",
        "2024-05-17 10:22:33",
        "2024-05-17T10:22:33.123456Z",
        "17.05.2024 10",
        "05/17/2024",
        "$1 234 567 890",
        "1 234 567 890",
        "EUR 12.345.678,90",
        "52.520008, 13.404954",
        "1700000000000",
        "version 1.2.3.4",
        "v10.0.0.1",
        "Chrome/120.0.0.0",
        "lib-1.2.3.4.jar",
        "255.255.255.0",
        "1.3.6.1.4.1.311",
        "300.1.2.3",
        "12:30:45",
        "std::vector<int>",
        "a::b",
        "Foo::Bar::baz",
        "rows[::2]",
        "rows[0::40]",
        "text of 120000 characters",
        "::",
        "00:00:00:00:00:00",
        "16:27:ac:a5:76:28:2d:36:63:1b:56:4d:eb:df:a6:48",
        "550e8400-e29b-41d4-a716-446655440000",
        "icon@2x.png",
        "@app.route",
        "lodash@4.17.21",
        "git@github.com:a/b.git",
        "A@B.T",
        "https://example.org/a?page=2",
        "http://localhost:8080/x",
        "Part number: 555-123-4567-A",
        "TRANS4305200",
        "DE00 3704 0044 0532 0130 00",
        "240115-0013",
        "0x0000000000000000000000000000000000000000",
        "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb",
        "000-12-3456",
        "Q3 2023 1234567",
        "__PII_phone_0123456789ab__",
        "__PII_email_012345678912__",
        "",
        " ",
    ],
)
def test_look_alikes_are_left(text: str) -> None:
    """Numbers of things, times, versions, ids, wrong check digits, and tokens of our own."""
    assert found(text) == []


def test_values_that_touch_are_told_apart() -> None:
    """A list without separators between kinds is still read."""
    text = "ada@example.org123-45-6789 +49 30 901820, 4111111111111111;DE89370400440532013000"

    assert found(text) == [
        ("email", "ada@example.org"),
        ("ssn", "123-45-6789"),
        ("phone", "+49 30 901820"),
        ("credit_card", "4111111111111111"),
        ("iban", "DE89370400440532013000"),
    ]


def test_values_of_a_form_and_of_a_log_line_are_all_found() -> None:
    """What stands next to a value does not hide it."""
    line = '203.0.113.9 - - [17/May/2024:10:22:33 +0000] "GET /?email=ada%40example.org HTTP/1.1" 200 512'
    escaped = '{"note": "call\\n+49 30 901820\\nor write\\nada@example.org"}'

    assert found(line) == [("ip", "203.0.113.9"), ("email", "ada%40example.org")]
    assert found(escaped) == [("phone", "+49 30 901820"), ("email", "ada@example.org")]


def test_typographic_spaces_and_dashes_separate_like_plain_ones() -> None:
    """Text from a word processor: no-break spaces and hyphens, full-width and Arabic digits."""
    assert found("tel +49\u00a030\u202f901820") == [("phone", "+49\u00a030\u202f901820")]
    assert found("219\u201109\u20119999") == [("ssn", "219\u201109\u20119999")]
    assert found("ip \uff11\uff19\uff12.168.0.1") == [("ip", "\uff11\uff19\uff12.168.0.1")]
    assert found("+\u0664\u0669 \u0663\u0660 \u0669\u0660\u0661\u0668\u0662\u0660") == [
        ("phone", "+\u0664\u0669 \u0663\u0660 \u0669\u0660\u0661\u0668\u0662\u0660")
    ]


@given(st.text(max_size=200) | st.text(alphabet="0123456789 -.:/@+()ABXZabx_=\"'", max_size=120))
def test_findings_are_in_order_within_the_text_and_do_not_overlap(text: str) -> None:
    """Whatever the text is. A lone surrogate is text too."""
    spans = find_values(text + "\ud800 ada@example.org")

    assert all(0 <= span.start < span.end <= len(text) + 17 and span.type in TYPES for span in spans)
    assert all(first.end <= second.start for first, second in itertools.pairwise(spans))
    assert Span(len(text) + 2, len(text) + 17, "email") in spans


HOSTILE = [
    *"1aA-@.:/=_+$\"' \\é\uff11",
    *(
        "a@",
        "1-",
        "1 ",
        "1.",
        "0 ",
        "eyJ",
        "-eyJ",
        "eyJ.",
        "sk-",
        "AKIA",
        "a@b.",
        "a.b@",
        "@a.b",
        "://",
        "https://a:b@",
    ),
    *(
        "password=",
        'password: "',
        '"key":"',
        "?key=",
        "token ",
        "bearer ",
        "key key",
        "DE89",
        "DE89 3704 ",
        "bc1q",
        "0x",
    ),
    *("+1 ", "(1)", "1:", "a::", "ab:", "00-", "aa-bb-", "-----BEGIN PRIVATE KEY-----", "$2b$10$", "phone ", "01 23 "),
    *("phone 1234567 ", "1/2/2020 ", "4111 1111 1111 1111 ", "LS0tLS1CRUdJTi", "a1_", "%40", 'secret="', "1,", "Aa0!"),
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_repetition_of_anything_is_read_in_linear_time(unit: str) -> None:
    """At this size a quadratic step would run for minutes: the suite's time limit is the assertion."""
    text = (unit * 150_000)[:150_000] + " ada@example.org"

    assert find_values(text)[-1].end == 150_016


@pytest.mark.parametrize("value", ["12.ABC.345/01DE-35", "SK2022749619", "IE8D79739I", "ESB58378431", "6433435FT"])
@pytest.mark.parametrize("frame", ["{}", "Invoice of {}, due now.", '{{"a": "{}"}}', "x/y-z {}/a-b"])
def test_tax_numbers_with_letters_are_found_whole(value: str, frame: str) -> None:
    """Their form and their check digits are enough, wherever they stand."""
    text = frame.format(value)
    start = text.index(value)

    assert [(span.start, span.end) for span in find_values(text)] == [(start, start + len(value))]


def test_tax_number_of_a_company_with_a_wrong_digit_is_left() -> None:
    """The check digits count letters too."""
    assert find_values("12.ABC.345/01DE-36") == []
