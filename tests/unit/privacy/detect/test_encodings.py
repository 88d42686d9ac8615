"""Attacks: each way to print a private value encoded, and the runs that only look like one."""

import base64
import gzip
import hashlib
import html
import json
import quopri
import random
import re
import textwrap
import urllib.parse
import zlib
from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.privacy.detect.encodings import EncodedValues
from sealyard.privacy.known import KnownValues
from sealyard.privacy.span import Span

PERSON = "Anna Schmidt"
EMAIL = "bob@example.org"
FOREIGN = "Jürgen Groß"
KNOWN = KnownValues()
KNOWN.add(PERSON, "person")
KNOWN.add(EMAIL, "email")
KNOWN.add(FOREIGN, "person")


def _base64(text):
    return base64.b64encode(text.encode()).decode()


def _hex(text):
    return text.encode().hex()


ENCODERS = {
    "base64": _base64,
    "base64url": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 without padding": lambda text: _base64(text).rstrip("="),
    "base64 in lines": lambda text: "\n".join(textwrap.wrap(_base64(text), 7)),
    "base64 of latin-1": lambda text: base64.b64encode(text.encode("latin-1")).decode(),
    "base64 of utf-16": lambda text: base64.b64encode(text.encode("utf-16-le")).decode(),
    "hex": _hex,
    "hex in mixed case": lambda text: "".join(random.Random(7).choice([digit, digit.upper()]) for digit in _hex(text)),
    "hex in pairs": lambda text: text.encode().hex(" "),
    "hex with colons": lambda text: text.encode().hex(":"),
    "percent": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "backslash u": lambda text: "".join(f"\\u{ord(character):04x}" for character in text),
    "backslash x": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
    "backslash octal": lambda text: "".join(f"\\{byte:03o}" for byte in text.encode()),
    "entities": lambda text: "".join(f"&#{ord(character)};" for character in text),
    "entities in hex": lambda text: "".join(f"&#x{ord(character):x};" for character in text),
    "quoted-printable": lambda text: "".join(f"={byte:02X}" for byte in text.encode()),
    "reversed": lambda text: text[::-1],
    "codes": lambda text: str([ord(character) for character in text]),
    "codes of bytes": lambda text: str(list(text.encode())),
    "codes in hex": lambda text: ", ".join(hex(ord(character)) for character in text),
    "codes in lines": lambda text: "\n".join(str(ord(character)) for character in text),
    "spaced": " ".join,
    "dotted": ".".join,
    "dashed": "-".join,
    "in lines": "\n".join,
    "as a list": lambda text: str(list(text)),
    "as a JSON list": lambda text: json.dumps(list(text), ensure_ascii=False),
    "zero-width": "\u200b".join,
    "soft hyphens": "\u00ad".join,
    "full-width": lambda text: text.translate({code: code + 0xFEE0 for code in range(33, 127)}),
    "gzip": lambda text: base64.b64encode(gzip.compress(text.encode())).decode(),
    "zlib": lambda text: base64.b64encode(zlib.compress(text.encode())).decode(),
    "gzip in hex": lambda text: gzip.compress(text.encode()).hex(),
}
"""What is spread over several lines or keeps its digits comes apart under some of the others: see `PAIRS`."""
PAIRS = [
    ("base64", "base64"),
    ("base64", "hex"),
    ("base64", "reversed"),
    ("reversed", "base64"),
    ("base64", "percent"),
    ("percent", "percent"),
    ("backslash u", "backslash x"),
    ("hex", "base64"),
    ("hex", "reversed"),
    ("spaced", "base64"),
    ("base64", "spaced"),
    ("codes", "base64"),
    ("zlib", "percent"),
    ("gzip", "base64"),
    ("entities", "percent"),
    ("zero-width", "base64"),
    ("full-width", "hex"),
    ("quoted-printable", "base64"),
]


def find_encoded(text, find):
    """The findings of the thorough search."""
    return EncodedValues(lambda texts: list(map(find, texts)), is_thorough=True).find(text)


def find_quickly(text):
    """The findings of the search that answers of tools go through."""
    return EncodedValues(lambda texts: list(map(KNOWN.find, texts))).find(text)


def _exposed(encoded):
    """What is left of an encoded value in a text around it, when every finding is cut out."""
    text = rest = f"value: «{encoded}» end."
    for span in reversed(find_encoded(text, KNOWN.find)):
        rest = rest[: span.start] + rest[span.end :]
    return rest.removeprefix("value: «").removesuffix("» end.")


@pytest.mark.parametrize("value", [PERSON, EMAIL, FOREIGN])
@pytest.mark.parametrize("name", ENCODERS)
def test_encoded_value_is_found_whole(name, value):
    """Nothing of the encoded value but the brackets and quotes around a list is left."""
    encoded = ENCODERS[name](value)
    if name in {"zero-width", "soft hyphens", "full-width"}:
        # `KnownValues` reads through these itself; another detector does not.
        text = f"value = {encoded} end."
        spans = find_encoded(text, lambda read: [Span(*match.span(), "x") for match in re.finditer(value, read)])
        assert [text[span.start : span.end] for span in spans] == [encoded]
    else:
        assert _exposed(encoded).strip("['\"]") == ""


@pytest.mark.parametrize(("inner", "outer"), PAIRS)
def test_value_encoded_twice_is_found(inner, outer):
    """Two encodings on top of each other hide nothing."""
    assert _exposed(ENCODERS[outer](ENCODERS[inner](PERSON))).strip("=") == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (urllib.parse.urlencode({"to": EMAIL, "n": 1}), [("bob%40example.org", "email")]),
        (json.dumps({"who": FOREIGN}), [("J\\u00fcrgen Gro\\u00df", "person")]),
        (repr(FOREIGN.encode()), [("J\\xc3\\xbcrgen Gro\\xc3\\x9f", "person")]),
        (html.escape("<b>") + "bob&commat;example.org", [("bob&commat;example.org", "email")]),
        (quopri.encodestring(FOREIGN.encode()).decode(), [("J=C3=BCrgen Gro=C3=9F", "person")]),
        (f"https://h.example/?u={_base64(EMAIL)}", [(_base64(EMAIL), "email")]),
        (f"name_of_user_{_base64(EMAIL)}", [(_base64(EMAIL), "email")]),
        (f"a,{_hex(PERSON)},b", [(_hex(PERSON), "person")]),
    ],
)
def test_span_is_the_encoded_run_alone(text, expected):
    """What stands around the run stays, and the type is that of the value in it."""
    assert [(text[span.start : span.end], span.type) for span in find_encoded(text, KNOWN.find)] == expected


def test_long_base64_with_line_breaks_is_one_finding():
    """A value anywhere in a block of lines conceals the block, whose other lines tell the rest."""
    text = base64.encodebytes(("lorem ipsum " * 20 + PERSON + " dolor" * 20).encode()).decode()
    assert find_encoded(text, KNOWN.find) == [Span(0, len(text.rstrip()), "person")]


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(random.Random(1).randbytes(30_000)).decode(),
        base64.encodebytes(b"\x89PNG\r\n\x1a\n" + random.Random(2).randbytes(30_000)).decode(),
        "\n".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(200)),
        ", ".join(map(str, range(32, 127))),
        "1 2 3 4 5 6 7 8 9 0 " * 20,
        _base64("The quick brown fox jumps over the lazy dog."),
        "\n".join(f"| {number} | a-b_c | {number * 7 % 13}.50 |" for number in range(100)),
        "__PII_email_3f9a1c20b7de__ and __PII_person_0123456789ab__",
    ],
    ids=["image", "image in lines", "hashes", "numbers", "digits", "harmless text", "table", "tokens"],
)
def test_what_only_looks_encoded_is_left_alone(text):
    """Images, hashes, tables and tokens decode to nothing private. Digits set apart are not read as one number."""

    def find(read):
        return [*KNOWN.find(read), *(Span(*match.span(), "card") for match in re.finditer(r"\b\d{13,19}\b", read))]

    assert find_encoded(text, find) == []


def test_data_that_unpacks_to_too_much_is_concealed_unread():
    """A bomb costs a bounded amount of memory, and what was not read does not pass."""
    bomb = base64.b64encode(zlib.compress(b"\0" * 50_000_000, 9)).decode()
    longest = 0

    def find(read):
        nonlocal longest
        longest = max(longest, len(read))
        return []

    text = f"{bomb} {_base64('x' * 90)} {bomb[:-8]}"
    assert find_encoded(text, find) == [
        Span(0, len(bomb), "text"),
        Span(len(text) - len(bomb) + 8, len(text), "text"),
    ]
    assert longest <= (1 << 20) + 8 * len(text)


def test_work_is_bounded_by_the_length_of_the_text():
    """Whatever a hostile text is made of, what is searched is a small multiple of it."""
    hostile = [
        "%25" * 3000,
        "\\\\" * 3000,
        "&amp;" * 2000,
        "QUJD" * 3000,
        "a b " * 3000,
        "65 66 " * 2000,
        "\u200ba" * 3000,
    ]
    for text in [*hostile, "".join(hostile)]:
        searched = 0

        def find(read):
            nonlocal searched
            searched += len(read)
            return []

        find_encoded(text, find)
        assert searched <= 40 * len(text)


@given(st.text(max_size=300))
def test_any_text_is_searched_without_failing(text):
    """No text breaks a decoder, and findings stay inside the text, in order and apart."""
    spans = find_encoded(text, lambda read: [Span(0, len(read), "x")] if read else [])
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    assert all(first.end <= second.start for first, second in pairwise(spans))


_WORD = re.compile(r"[A-Za-z0-9+/=_%&#;\\-]{16,}")


@pytest.mark.parametrize(
    "names",
    [
        names
        for names in [*((name,) for name in ENCODERS), *PAIRS]
        if _WORD.fullmatch(reduce(lambda text, name: ENCODERS[name](text), names, EMAIL))
        and not {"reversed", "spaced", "codes"}.intersection(names)
    ],
    ids=" then ".join,
)
def test_encoded_value_in_one_word_is_found_the_quick_way_too(names):
    """Each of the ways, and two of them on top of each other, as far as a single long word comes of it."""
    word = reduce(lambda text, name: ENCODERS[name](text), names, EMAIL)

    assert find_encoded(word, KNOWN.find)
    assert find_quickly(f"src/plain/path.py {word} and so on")


@pytest.mark.parametrize(
    "text",
    [
        f"uploads/{_base64('<' + EMAIL + '>?>?')}",
        f"Reports/{_base64(EMAIL)}",
        ENCODERS["quoted-printable"](ENCODERS["percent"](EMAIL)),
        "%25".join(["", *(f"{byte:02x}" for byte in EMAIL.encode())]),
        "".join(f"%{byte:02x}" if place % 2 else f"&#{byte};" for place, byte in enumerate(EMAIL.encode())),
        "\n".join(textwrap.wrap(_base64("lorem ipsum " * 4 + EMAIL + " dolor sit" * 9), 76)),
        EMAIL.encode().hex(" "),
        EMAIL.encode().hex(":"),
        f"{_base64('one more of them')}\n{_base64(EMAIL)}\n{_base64('and another one')}",
    ],
    ids=[
        "behind a word",
        "behind a capital",
        "percent in quoted",
        "percent twice",
        "two kinds of escapes",
        "wrapped",
        "hex in pairs",
        "hex with colons",
        "a list",
    ],
)
def test_value_in_part_of_a_word_in_lines_or_in_mixed_escapes_is_found(text):
    """A path with something encoded in it, escapes of several kinds in one word, and more words than one."""
    assert find_quickly(f"It says: {text} and so on")


def test_of_a_list_of_encoded_values_only_those_that_are_private_are_found():
    """Lines of base64 are one text only if they are wrapped as such."""
    listed = [_base64(each) for each in ("one more of the same", EMAIL, "and yet another one of these")]
    text = "\n".join(listed)

    assert [text[span.start : span.end] for span in find_quickly(text)] == [listed[1]]


def test_words_that_unpack_to_too_much_are_findings_themselves():
    """What cannot be read is hidden; all words of an answer share the bytes that may be unpacked."""
    bomb = base64.b64encode(zlib.compress(bytes(8 << 20), 9)).decode()

    found = find_quickly(f"{bomb} {_base64(EMAIL)}")

    assert found == [
        Span(0, len(bomb), "text"),
        Span(len(bomb) + 1, len(bomb) + 1 + len(_base64(EMAIL)), "email"),
    ]
