"""Words that may be text in an encoding: none is missed, and few others are decoded."""

import base64
import codecs
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.privacy.detect.screens import WORD, Runs, find_candidates

MAIL = "Please write to bob@example.org about it."
CYRILLIC = "Пишите Марии"

_TEXTS = st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), min_size=16, max_size=900)
_WAYS = {
    "forwards": lambda word: word,
    "backwards": lambda word: word[::-1],
    "rotated": lambda word: codecs.encode(word, "rot13"),
}


def _anything(_data: bytes) -> bool:
    return True


def _is_ascii(data: bytes) -> bool:
    return data.isascii()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode().rstrip("=")


@given(_TEXTS, st.sampled_from(sorted(_WAYS)), st.text(alphabet="xyzXYZ019", max_size=5))
def test_text_in_base64_is_never_missed(text: str, way: str, junk: str) -> None:
    """Forwards, backwards and rotated, behind any junk, among other words."""
    word = _WAYS[way](junk + _base64(text))

    assert 1 in find_candidates(["src/plain/path_of_a_file", word, "0" * 40], _anything).base64


@given(_TEXTS, st.booleans(), st.sampled_from(["", "f", "0"]))
def test_text_in_hex_is_never_missed(text: str, is_backwards: bool, junk: str) -> None:
    """In both directions, wherever the pairs of digits begin."""
    word = junk + text.encode().hex()
    word = word[::-1] if is_backwards else word

    assert find_candidates(["deadbeef" * 4, word], _anything).hex[-1] == (1, word)


@given(_TEXTS)
def test_text_in_base32_is_never_missed(text: str) -> None:
    """In capitals and in small letters."""
    word = base64.b32encode(text.encode()).decode().rstrip("=")

    assert find_candidates([word, word.lower()], _anything).base32 == [(0, word), (1, word.lower())]


@pytest.mark.parametrize(
    "word",
    [
        base64.b64encode(MAIL.encode("utf-16-le")).decode().rstrip("="),
        base64.b64encode(MAIL.encode("utf-16-be")).decode().rstrip("="),
        base64.b64encode(CYRILLIC.encode()).decode().rstrip("="),
        base64.b64encode("é è à ù bob@xy.de é è à ù".encode("latin-1")).decode().rstrip("="),
        "path/eJzzTs3Myg9OzMlNzUl0KMqoLEnUS87PBQBhxAiH",
    ],
    ids=["utf-16", "utf-16 big-endian", "no ascii", "an old character set", "packed behind a word"],
)
def test_text_that_is_not_plain_ascii_is_not_missed(word: str) -> None:
    """What shows no long row of ASCII is told by other signs."""
    assert find_candidates([word], _anything).base64 == {0}


@pytest.mark.parametrize("beside", ["", "\n", "\r\n\t", "\0\1"])
@pytest.mark.parametrize("is_backwards", [False, True])
@pytest.mark.parametrize("junk", ["", "f"])
def test_text_of_another_script_in_hex_is_not_missed(beside: str, junk: str, *, is_backwards: bool) -> None:
    """UTF-8 is told from a hash by the bytes that follow each other, whatever control characters stand in it."""
    word = junk + f"{CYRILLIC[:6]}{beside}{CYRILLIC}{beside}".encode().hex()
    word = word[::-1] if is_backwards else word

    assert find_candidates([word], _anything).hex == [(0, word)]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_text_in_utf_16_in_hex_is_not_missed(encoding: str) -> None:
    """Every other byte is zero, which is a control character."""
    word = MAIL.encode(encoding).hex()

    assert find_candidates([word], _anything).hex == [(0, word)]


def test_few_random_words_are_decoded() -> None:
    """Of lines of an image a few in a hundred, and of hashes a tenth: their letters say that they are no text."""
    chance = random.Random(3)
    lines = [base64.b64encode(chance.randbytes(57)).decode() for _ in range(1000)]
    hashes = [chance.randbytes(20).hex() for _ in range(1000)]
    asked = []

    found = find_candidates([*lines, *hashes], lambda data: bool(asked.append(data)))

    assert len(asked) < 400
    assert len(found.base64) < 50
    assert len(found.hex) < 100


def test_a_long_word_is_decoded_twelve_times_at_most() -> None:
    """However often it reads like text in places, a word costs a fixed number of looks at it."""
    word = _base64(MAIL * 500)
    asked = []

    find_candidates([word], lambda data: bool(asked.append(data)))

    assert 0 < len(asked) <= 12
    assert find_candidates([word], _is_ascii).base64 == {0}


def test_nothing_to_look_at_is_nothing_found() -> None:
    """No words, and words of no encoding."""
    assert [*map(len, find_candidates([], _anything))] == [0, 0, 0, 0]


@given(st.text(alphabet="ab-_ \n./é", max_size=200), st.integers(1, 9))
def test_runs_are_those_that_a_pattern_finds(text: str, least: int) -> None:
    """The same places as a pattern of the same class and length, in any text."""
    expected = [match.span() for match in re.finditer(rf"[A-Za-z0-9_-]{{{least},}}", text)]

    assert list(Runs(WORD, least=least).find(text)) == expected
