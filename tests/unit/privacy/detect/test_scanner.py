"""What the scanner conceals, leaves, and never does, over whole records and hostile data."""

import copy
import json
import string
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.privacy.detect.shapes import BUSINESS, PERSONAL

from sealyard.errors import InvalidConfig
from sealyard.privacy import TYPES
from sealyard.privacy.detect import Scanner, ScanRules
from sealyard.privacy.span import Span

EVERYTHING = frozenset(TYPES)


class Tokens:
    """The same token for the same value, as a vault gives them."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Any], str] = {}

    def replace(self, kind: str, value: str | float) -> str:
        """The token of a value."""
        return self._known.setdefault((kind, value), f"__PII_{kind}_{len(self._known):012x}__")


def private(scanner: Scanner, value: Any, **options: Any) -> dict[str, list[Any]]:
    """What is private in some data, by type, sorted."""
    found = defaultdict(list)
    for kind, each in scanner.find_values(value, **options):
        found[kind].append(each)
    return {kind: sorted(values, key=str) for kind, values in found.items()}


# Records


@pytest.mark.parametrize("shape", PERSONAL)
def test_private_fields_of_a_record_are_concealed_and_nothing_else(shape: str) -> None:
    """Names, neighbours, parents and values together say what is private."""
    data, expected = PERSONAL[shape]
    assert private(Scanner(), data) == {kind: sorted(values, key=str) for kind, values in expected.items()}


@pytest.mark.parametrize("shape", BUSINESS)
def test_business_data_is_left_alone(shape: str) -> None:
    """The very same object comes back."""
    data = BUSINESS[shape]
    assert Scanner().conceal(data, lambda kind, value: f"{kind}: {value}") is data


@pytest.mark.parametrize("shape", [*PERSONAL, *BUSINESS])
def test_text_and_data_are_judged_alike(shape: str) -> None:
    """What `find` sees in JSON is what `conceal` replaces in the data, and both come to the same text."""
    data = PERSONAL[shape][0] if shape in PERSONAL else BUSINESS[shape]
    scanner = Scanner(ScanRules(types=EVERYTHING))
    tokens = Tokens()
    for text in (json.dumps(data), json.dumps(data, indent=2, ensure_ascii=False)):
        concealed = scanner.conceal(text, tokens.replace)
        assert json.loads(concealed) == scanner.conceal(data, tokens.replace)
        assert len(scanner.find(text)) == len(list(scanner.find_values(data)))


@pytest.mark.parametrize("shape", PERSONAL)
def test_concealing_twice_changes_nothing_more(shape: str) -> None:
    """Data and text, and the input stays as it was."""
    data = PERSONAL[shape][0]
    before = copy.deepcopy(data)
    scanner = Scanner(ScanRules(types=EVERYTHING))
    tokens = Tokens()
    concealed = scanner.conceal(data, tokens.replace)
    assert data == before
    assert scanner.conceal(concealed, tokens.replace) is concealed
    assert scanner.find(json.dumps(concealed)) == []


@pytest.mark.parametrize("shape", PERSONAL)
def test_no_private_value_is_left_in_what_is_concealed(shape: str) -> None:
    """Not as a value, not as a key, not inside a string."""
    data, expected = PERSONAL[shape]
    concealed = json.dumps(Scanner().conceal(data, Tokens().replace), ensure_ascii=False)
    left = [each for values in expected.values() for each in values if len(str(each)) > 3 and str(each) in concealed]
    assert left == []


@pytest.mark.parametrize("shape", [shape for shape in PERSONAL if not shape.startswith("keyed by")])
def test_a_list_of_records_is_judged_as_one(shape: str) -> None:
    """Twenty copies hold twenty times as much."""
    data = PERSONAL[shape][0]
    scanner = Scanner()
    once = list(scanner.find_values([data]))
    assert len(list(scanner.find_values([data] * 20))) == 20 * len(once)


def test_a_name_is_a_persons_or_a_things_by_its_parent() -> None:
    """The same value under a customer, a firm and a product."""
    data = {
        "customer": {"name": "Ines Vidal"},
        "product": {"name": "Ines Vidal", "price": 3},
        "company": {"name": "Ines Vidal"},
    }
    assert Scanner().conceal(data, lambda kind, value: kind) == {**data, "customer": {"name": "person"}}


def test_a_city_is_private_beside_a_person_only() -> None:
    """Postal codes and cities of a gazetteer are nobody's."""
    scanner = Scanner()
    assert private(scanner, {"city": "Bonn", "zip": "53111", "population": 3}) == {}
    assert private(scanner, {"city": "Bonn", "zip": "53111", "dob": "1.2.1980"}) == {
        "address": ["53111", "Bonn"],
        "date_of_birth": ["1.2.1980"],
    }


def test_region_and_employer_are_found_when_their_types_are_on() -> None:
    """They are off unless configured, and stand beside a person in any case."""
    data = {"first_name": "Ula", "country": "Norway", "employer": "Nord Oil"}
    assert private(Scanner(), data) == {"person": ["Ula"]}
    assert private(Scanner(ScanRules(types=EVERYTHING)), data) == {
        "person": ["Ula"],
        "location": ["Norway"],
        "organization": ["Nord Oil"],
    }
    assert private(Scanner(ScanRules(types=EVERYTHING)), {"country": "Norway", "employer": "Nord Oil"}) == {}


def test_a_private_field_without_data_is_left() -> None:
    """Blanks, flags, counts and words of a short list."""
    data = {
        "email": None,
        "phone": "",
        "first_name": "N/A",
        "ssn": False,
        "phones": 3,
        "last_name": "unknown",
        "dob": "-",
    }
    assert Scanner().conceal(data, lambda kind, value: "T") is data


def test_a_number_becomes_a_text() -> None:
    """Its type is the field's, and what is handed over is the number."""
    given: list[Any] = []
    data = {"phone": 4915112345678, "zip": 10115, "age": 30}
    assert Scanner().conceal(data, lambda kind, value: str(given.append(value) or kind)) == {
        "phone": "phone",
        "zip": "address",
        "age": 30,
    }
    assert given == [4915112345678, 10115]


def test_an_address_is_an_email_in_whatever_field_it_stands() -> None:
    """The same token wherever it stands."""
    data = {"username": "ula@holt.example", "login": "ula@holt.example", "note": "to ula@holt.example"}
    assert private(Scanner(), data) == {"email": ["ula@holt.example"] * 3}


def test_each_address_of_a_list_has_its_own_token() -> None:
    """So that code can write to each; the names beside them are persons."""
    data = {"emails": 'Ann Lee <ann@lee.example>, bo@lee.example; "Day, Kim" <kim@day.example>, nobody'}
    assert Scanner().conceal(data, lambda kind, value: f"[{kind} {value}]") == {
        "emails": "[person Ann Lee] <[email ann@lee.example]>, [email bo@lee.example]; "
        '"[email Day], [person Kim]" <[email kim@day.example]>, [email nobody]'
    }


def test_spaces_around_a_value_stay_outside() -> None:
    """So that the same value has the same token."""
    assert Scanner().conceal({"first_name": "  Ula "}, lambda kind, value: f"<{value}>") == {"first_name": "  <Ula> "}


def test_keys_keep_their_order_when_some_are_private() -> None:
    """And what is below a private key is judged too."""
    data = {"a": 1, "ula@holt.example": {"first_name": "Ula"}, "z": 2}
    concealed = Scanner().conceal(data, lambda kind, value: f"<{kind}>")
    assert list(concealed.items()) == [("a", 1), ("<email>", {"first_name": "<person>"}), ("z", 2)]


# Schemas and rules


def test_a_schema_says_what_a_field_is() -> None:
    """Its format, its title, a short description, or a mark, through references and lists."""
    schema = {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
            "loop": {"$ref": "#/properties/loop"},
        },
        "$defs": {
            "row": {
                "properties": {
                    "a": {"type": "string", "description": "First name of the customer."},
                    "b": {"type": "string", "title": "Phone number"},
                    "c": {"type": "string", "format": "password"},
                    "d": {"type": "string", "x-pii": True},
                    "e": {"type": "string", "x-pii": "medical_id"},
                    "f": {"type": "string", "description": "Free text."},
                }
            }
        },
    }
    data = {
        "rows": [{"a": "Ula", "b": "555 0100 22", "c": "x1", "d": "note", "e": "K 7", "f": "hello"}],
        "loop": {"x": "y"},
    }
    assert private(Scanner(), data, schema=schema) == {
        "person": ["Ula"],
        "phone": ["555 0100 22"],
        "password": ["x1"],
        "text": ["note"],
        "medical_id": ["K 7"],
    }


def test_a_field_is_concealed_whole_or_left_visible_by_rule() -> None:
    """With everything below it, whatever it holds, also in JSON in a string."""
    data = {"notes": {"a": "hi", "n": 5, "flag": True}, "email": "ula@holt.example", "body": '{"Notes": "hi"}'}
    concealed = Scanner().conceal(data, lambda kind, value: kind, whole=["notes"], visible=["Email"])
    assert concealed == {
        "notes": {"a": "text", "n": "text", "flag": "text"},
        "email": "ula@holt.example",
        "body": '{"Notes": "text"}',
    }


def test_allowed_values_stay() -> None:
    """Globs without regard to case, for values found by name and by form."""
    scanner = Scanner(ScanRules(allow=("*@ours.example", "support desk", "10.0.0.*")))
    data = {
        "email": "Jo@Ours.Example",
        "first_name": "Support Desk",
        "text": "jo@ours.example, ula@holt.example, 10.0.0.7",
    }
    assert scanner.conceal(data, lambda kind, value: kind) == {**data, "text": "jo@ours.example, email, 10.0.0.7"}


def test_a_pattern_adds_a_type() -> None:
    """Its group is the value; even the shortest values and keys are searched."""
    scanner = Scanner(ScanRules(patterns={"badge": r"\bB-(?P<value>\d+)", "ward": r"W\d"}))
    assert scanner.conceal({"W7": "see B-12", "x": "W1"}, lambda kind, value: f"<{kind} {value}>") == {
        "<ward W7>": "see B-<badge 12>",
        "x": "<ward W1>",
    }


def test_detectors_see_every_value_and_their_spans_are_merged() -> None:
    """Numbers and names of fields too; an overlap is covered as a whole."""

    class Finder:
        def find(self, text: str) -> Iterator[Span]:
            for needle, kind in (("ab", "person"), ("bc", "phone"), ("42", "medical_id")):
                start = text.find(needle)
                if start >= 0:
                    yield Span(start, start + len(needle), kind)

    scanner = Scanner(detectors=[]).with_detectors([Finder()])
    assert scanner.conceal({"x": "abc", "n": 42}, lambda kind, value: f"<{kind} {value}>") == {
        "x": "<person ab><phone c>",
        "n": "<medical_id 42>",
    }


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            {"patterns": {"badge": "("}},
            "The pattern 'badge' is no regular expression: "
            "missing ), unterminated subpattern at position 0. Correct it.",
        ),
        (
            {"patterns": {"Bad Name": "x"}},
            "The pattern 'Bad Name' has no name of small letters, digits and underscores. Rename it.",
        ),
        (
            {"types": frozenset({"shoe"})},
            f"No type of private value is named 'shoe'. Name one of {', '.join(TYPES)}.",
        ),
    ],
)
def test_rules_that_cannot_be_used_are_refused(rules: dict[str, Any], message: str) -> None:
    """The message says which, and what to do."""
    with pytest.raises(InvalidConfig) as raised:
        Scanner(ScanRules(**rules))
    assert str(raised.value) == message


# Tokens

TOKEN = "__PII_email_3f9a1c20b7de__"


def test_tokens_are_never_touched_or_split() -> None:
    """In private fields, in text, as keys, in any case; what stands beside them is still concealed."""
    data = {
        "email": TOKEN,
        "first_name": f"Dr. {TOKEN} Holt",
        "note": f"{TOKEN.upper()}: {TOKEN}@x.example, 4111 1111 1111 1111",
        TOKEN: {"name": TOKEN, "phone": f"{TOKEN}, {TOKEN}"},
    }
    concealed = Scanner().conceal(data, lambda kind, value: f"<{kind} {value}>")
    assert concealed == {
        "email": TOKEN,
        "first_name": f"<person Dr>. {TOKEN} <person Holt>",
        "note": f"{TOKEN.upper()}: {TOKEN}@x.example, <credit_card 4111 1111 1111 1111>",
        TOKEN: {"name": TOKEN, "phone": f"{TOKEN}, {TOKEN}"},
    }


def test_tokens_of_a_stranger_are_concealed() -> None:
    """An upstream has no business sending one: it would be revealed as somebody's value."""
    data = {"email": TOKEN, "note": f"see {TOKEN.upper()}", TOKEN: 1}
    assert Scanner().conceal(data, lambda kind, value: f"<{kind} {value}>", foreign_tokens=True) == {
        "email": f"<literal {TOKEN}>",
        "note": f"see <literal {TOKEN.upper()}>",
        f"<literal {TOKEN}>": 1,
    }


# Hostile data


def test_data_of_any_depth_is_read() -> None:
    """A thousand levels of data, and more of text."""
    data: Any = {"email": "ula@holt.example"}
    for _ in range(1_000):
        data = {"a": [data]}
    scanner = Scanner()
    assert private(scanner, data) == {"email": ["ula@holt.example"]}
    text = '{"a":[' * 1_000 + '{"email":"ula@holt.example"}' + "]}" * 1_000
    assert [text[span.start : span.end] for span in scanner.find(text)] == ["ula@holt.example"]
    deep = "[" * 50_000 + '{"first_name": "Ula"}' + "]" * 50_000
    assert [deep[span.start : span.end] for span in scanner.find(deep)] == ["Ula"]


HOSTILE = {
    "brackets": "[" * 100_000,
    "braces": '{"a":' * 20_000,
    "quotes": '{"' * 50_000,
    "unclosed": '{"a\n' * 25_000,
    "pipes": "|" * 100_000,
    "headers": "name  email\nx\ny\n" * 6_000,
    "rows": "a  b\n" * 20_000,
    "csv quotes": 'name,email\n"a,b\n' * 6_000,
    "keys": "name: x\n" * 12_000,
    "colons": "a:" * 50_000,
    "tags": '<a b="' * 16_000,
    "open tags": "<a>" * 30_000 + "</b>" * 25_000,
    "pairs": "a=b " * 25_000,
    "inserts": "insert into a (b) values (1)," * 3_500,
    "names": "My name is " + "Ab " * 33_000,
    "mail": "Aaaa Bbbb " * 10_000 + "<a@",
    "tokens": TOKEN * 4_000,
    "half tokens": "__PII_email_" * 8_000,
    "escapes": '{"a":"' + "\\u0041" * 16_000 + '"}',
    "one line": "word " * 20_000,
    "short rows": "a\tb\n" * 25_000,
    "short lines": "".join(f"{number:x}:{number:x}\n" for number in range(12_000)),
    "uneven rows": "id,kind\n" + "a,b\na,b,c,d,e,f\n" * 6_000,
    "one long row": "id,kind\n" + "a,b\n" * 10_000 + "a," * 15_000 + "\n",
    "equals signs": "=" * 100_000,
    "names before equals signs": "a" * 50_000 + "=" + "b=" * 25_000,
    "attributes": "<a " + "b='c d' " * 12_000 + "/>",
    "open attributes": "<a b=' </" * 11_000,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_text_takes_more_than_linear_time(kind: str) -> None:
    """Anything quadratic would need minutes. Next to nothing in these is private."""
    assert len(Scanner().find(HOSTILE[kind])) < 2


@pytest.mark.timeout(60)
def test_a_record_of_a_hundred_thousand_keys_is_read() -> None:
    """Whatever the keys are called."""
    scanner = Scanner()
    for stem, count in (("key", 100_000), ("first ", 10_000), ("state ", 10_000), ("a b c d e f ", 10_000)):
        record = {f"{stem}{number}": number for number in range(count)}
        assert scanner.conceal(record, lambda kind, value: kind) is record


def test_odd_values_are_no_failure() -> None:
    """Numbers of any size, no numbers, and names that are no names."""
    data = {"phone": 10**4_000, "ssn": float("inf"), "zip": float("nan"), "": {"": "x"}, "x" * 100_000: 1, "name": []}
    assert isinstance(Scanner().conceal(data, lambda kind, value: kind), dict)
    assert Scanner().find('{"phone": ' + "9" * 5_000 + "}") == [Span(10, 5_010, "phone")]
    assert Scanner().find('\ud800 {"first_name": "\\ud800"}') == [Span(18, 24, "person")]


WORDS = st.sampled_from(
    [
        "first_name",
        "email",
        "phone",
        "note",
        "id",
        "city",
        "name",
        "user",
        "items",
        "dob",
        "value",
        "type",
        "address",
        "k1",
        "rows",
    ]
)
TEXT = st.sampled_from(
    [
        "Ula Holt",
        "ula@holt.example",
        "+49 30 1234567",
        "red",
        "Bonn",
        "",
        "n/a",
        TOKEN,
        "a: b",
        '{"email": "x@y.example"}',
        "1980-05-03",
    ]
) | st.text(alphabet=string.printable + "äß漢\u2028", max_size=12)
LEAVES = st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False) | TEXT
DATA = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | TEXT, inner, max_size=5), max_leaves=25
)


@settings(max_examples=150, derandomize=True)
@given(DATA)
def test_any_data_is_judged_alike_as_data_and_as_text(data: Any) -> None:
    """And concealing what was concealed finds nothing new."""
    if isinstance(data, str):
        data = [data]
    scanner = Scanner(ScanRules(types=EVERYTHING))
    tokens = Tokens()
    before = copy.deepcopy(data)
    concealed = scanner.conceal(data, tokens.replace)
    assert data == before
    if isinstance(data, (dict, list)):
        assert json.loads(scanner.conceal(json.dumps(data), tokens.replace)) == concealed
    assert scanner.conceal(concealed, tokens.replace) == concealed


@settings(max_examples=300, derandomize=True)
@given(st.lists(TEXT | WORDS | st.sampled_from(list('{}[]",:=|\n\t;<> \\')), max_size=30).map("".join))
def test_any_text_is_read_without_failure(text: str) -> None:
    """Spans are in order, inside the text, apart from each other and from tokens."""
    spans = Scanner(ScanRules(types=EVERYTHING)).find(text)
    edges = [0, *(edge for span in spans for edge in (span.start, span.end)), len(text)]
    assert edges == sorted(edges)
    assert all(span.start < span.end and TOKEN not in text[span.start : span.end] for span in spans)
