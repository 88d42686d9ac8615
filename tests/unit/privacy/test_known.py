"""Values seen before are found again, however they are written, and nothing else is."""

import random
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sealyard.errors import LimitReached
from sealyard.privacy.known import KnownValues

VALUES = {
    "Anna Schmidt": "person",
    "Jürgen Groß": "person",
    "王小明": "person",
    "Rose": "person",
    "Mark May": "person",
    "bob@example.org": "email",
    "+49 30 1234567": "phone",
    "+000 0000": "phone",
    "4111 1111 1111 1111": "credit_card",
    "DE89 3704 0044 0532 0130 00": "iban",
    "QQ 12 34 56 C": "national_id",
    "12 Main Street, Springfield": "address",
    "Hill House\n7 Lower Lane": "address",
    "62704": "address",
    "12": "address",
    "pa$$w0rd!": "password",
    "!?!?": "password",
    "null": "text",
}

WIDE = "Anna Schmidt".translate({code: code + 0xFEE0 for code in range(33, 127)})


def _known(values=VALUES):
    known = KnownValues()
    for value, kind in values.items():
        known.add(value, kind)
    return known


def _found(text, values=VALUES):
    return [(text[span.start : span.end], span.type) for span in _known(values).find(text)]


@pytest.mark.parametrize("value", [value for value in VALUES if value not in {"12", "null"}])
def test_every_value_is_found_as_it_came(value):
    """What was added is found between other words, or as the whole text if it is an everyday word."""
    text = value if value == "Rose" else f"it is {value} here"
    assert _found(text) == [(value, VALUES[value])]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ANNA  schmidt", ("ANNA  schmidt", "person")),
        ("Anna\n    Schmidt", ("Anna\n    Schmidt", "person")),
        ("anna_schmidt", ("anna_schmidt", "person")),
        ("annaschmidt", ("annaschmidt", "person")),
        ("A\u200bnna Sch\u00admidt", ("A\u200bnna Sch\u00admidt", "person")),
        (WIDE, (WIDE, "person")),
        ("JURGEN GROSS", ("JURGEN GROSS", "person")),
        ("Ju\u0308rgen Groß", ("Ju\u0308rgen Groß", "person")),
        ("我叫王小明住在北京", ("王小明", "person")),
        (r"'Dear\nAnna Schmidt'", ("Anna Schmidt", "person")),
        (r"C:\bob@example.org", ("bob@example.org", "email")),
        ("<mailto:BOB@EXAMPLE.ORG>", ("BOB@EXAMPLE.ORG", "email")),
        ("tel:+49301234567", ("+49301234567", "phone")),
        ("(030) 123 45 67", ("030) 123 45 67", "phone")),
        ("0049-30-1234567", ("0049-30-1234567", "phone")),
        ("4111-1111-1111-1111", ("4111-1111-1111-1111", "credit_card")),
        ("4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", ("4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "credit_card")),
        ("de89370400440532013000", ("de89370400440532013000", "iban")),
        ("QQ123456C", ("QQ123456C", "national_id")),
        ("12 main street springfield", ("12 main street springfield", "address")),
        ("7 Lower Lane", ("7 Lower Lane", "address")),
        ("62704.0", ("62704", "address")),
    ],
)
def test_value_is_found_however_it_is_written(text, expected):
    """Case, accents, width, invisible characters, white space and the separators of numbers do not matter."""
    assert _found(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "Annabel Schmidtke",
        "xbob@example.org",
        "Anna" + "." * 40 + "Schmidt".lower(),
        "schmidt",
        "14111 1111 1111 11112",
        "62704.55",
        "3.62704",
        "null",
        "You may mark a rose. Mark the date.",
        "12",
        "there are 12 rows",
    ],
)
def test_text_that_only_resembles_a_value_is_left_alone(text):
    """Longer words, decimal numbers, everyday words and counts are no findings."""
    assert [found for found in _found(text) if found[0] != "Anna"] == []


def test_parts_of_a_name_are_found_when_they_are_not_written_small():
    """A given name or surname alone is private too, unless it is an everyday word."""
    assert _found("Dear Anna, Ms SCHMIDT and anna, Mark") == [("Anna", "person"), ("SCHMIDT", "person")]


def test_words_in_separate_cells_get_a_span_each():
    """Replacing a value that was split into strings or columns does not break the structure around it."""
    each = [("Anna", "person"), ("Schmidt", "person")]
    assert _found('["Anna", "Schmidt"]') == each
    assert _found("Anna\tSchmidt") == each
    assert _found("Anna,Schmidt") == each
    assert _found("<td>Anna</td><td>Schmidt</td>") == each


def test_short_values_count_beside_another_finding_only():
    """A house number in a person's row is concealed; the same number elsewhere is a number."""
    assert _found("rows: 12\nAnna Schmidt,12,open\n") == [("Anna Schmidt", "person"), ("12", "address")]
    assert _found("Anna Schmidt has 12 orders") == [("Anna Schmidt", "person")]


def test_overlapping_values_leave_no_rest():
    """Of two values that share a word both are covered."""
    values = {"Anna Berg": "text", "Berg Road 5000": "address"}
    assert _found("to Anna Berg Road 5000!", values) == [("Anna Berg Road 5000", "address")]


def test_long_text_is_found_whole_and_in_part():
    """A text of many words is one finding when it is whole, and eight words of it that belong together are another."""
    words = [f"word{number}" for number in range(29)]
    known = KnownValues()
    known.add(" ".join(words), "text")
    whole = "so " + "  ".join(words) + " it goes"
    (span,) = known.find(whole)
    assert whole[span.start : span.end] == "  ".join(words)
    part = " ".join(words[8:16])
    assert [(span.start, span.end) for span in known.find(part)] == [(0, len(part))]


def test_known_value_keeps_its_first_type():
    """A value that comes again as something else does not change its token."""
    known = _known({"Anna Schmidt": "person"})
    known.add("anna schmidt", "username")
    assert [span.type for span in known.find("Anna Schmidt")] == ["person"]


def test_tokens_are_not_searched():
    """A value that happens to be part of a token does not break it."""
    token = "__PII_email_3f9a1c20b7de__"
    assert _found(f"{token} {token.upper()}", {"3f9a1c20b7de": "text", "email": "text"}) == []


def test_values_beyond_the_limit_are_refused():
    """Memory is bounded by refusing what brings more values, never by forgetting one."""
    known = KnownValues(limit=2)
    known.add("one@example.org", "email")
    known.add("two@example.org", "email")
    with pytest.raises(LimitReached):
        known.add("three@example.org", "email")
    assert len(known.find("one@example.org two@example.org")) == 2


def test_values_are_found_in_a_text_of_many_stretches():
    """A text too long to be looked at at once is cut where no value is missed."""
    known = _known({"Anna Schmidt": "person"})
    filler = "lorem ipsum dolor "
    for shift in range(18):
        text = "x" * shift + filler * 14560 + "Anna Schmidt " + filler * 20000 + "Anna Schmidt"
        assert [text[span.start : span.end] for span in known.find(text)] == ["Anna Schmidt", "Anna Schmidt"]


def test_many_values_are_kept_apart():
    """Of a hundred thousand values each is found and none is taken for another."""
    numbers = random.Random(4)
    letters = "abcdefghijklmnopqrstuvwxyz"
    known = KnownValues()
    values = []
    for _ in range(25_000):
        first, last = ("".join(numbers.choices(letters, k=8)) for _ in range(2))
        values += [
            (f"{first} {last}", "person"),
            (f"{first}@{last}.org", "email"),
            (f"+44 {numbers.randrange(10**9, 10**10)}", "phone"),
            (f"{numbers.randrange(100)} {last} road {first}", "address"),
        ]
    for value, kind in values:
        known.add(value, kind)
    picked = numbers.sample(values, 2000)
    text = " ... ".join(value for value, _ in picked)
    found = [(text[span.start : span.end], span.type) for span in known.find(text)]
    assert found == picked


@given(st.text(max_size=40), st.text(max_size=20), st.text(max_size=20))
@example(":" * 17, "", "")
@example("_" * 40, "", "")
def test_any_value_is_found_in_any_text(value, before, after):
    """Whatever the characters: a value of three words' weight is covered, and spans stay inside the text in order."""
    value = f"zq{value}qz 77777"
    text = f"{before} {value} {after}"
    known = KnownValues()
    known.add(value, "text")
    spans = known.find(text)
    assert spans == sorted(spans, key=lambda span: span.start)
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    covered = set().union(*(range(span.start, span.end) for span in spans))
    start = len(before) + 1
    if "__" not in text:
        assert {start, start + 1, start + len(value) - 1} <= covered


@pytest.fixture
def eager_switching():
    """Threads take turns all the time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_values_that_several_threads_add_at_once_are_all_found(eager_switching):
    """Regression: of two values around the same longest word, one was lost if threads noted the word together."""
    values = [f"{'x ' * before}longestword{' y' * after}" for before in range(4) for after in range(4)]

    def lost(threads):
        known = KnownValues()
        list(threads.map(lambda part: [known.add(value, "text") for value in part], (values[at::4] for at in range(4))))
        return [value for value in values if len(value) not in {span.end - span.start for span in known.find(value)}]

    with ThreadPoolExecutor(4) as threads:
        assert [lost(threads) for _ in range(1_000)] == [[]] * 1_000
