"""Output in pieces is concealed as if it had come at once."""

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.privacy.known import KnownValues
from sealyard.privacy.span import Span
from sealyard.privacy.stream import ConcealedStream

KNOWN = KnownValues()
KNOWN.add("Anna Schmidt", "person")
KNOWN.add("bob@example.org", "email")
KNOWN.add("12 Long Road", "address")
KNOWN.add("77777", "text")


def _token(kind, value):
    return f"<{kind} {len(value.split())}>"


class _Searched:
    """A stream whose texts are searched here, as a door searches them for a gateway."""

    def __init__(self, find, **options):
        self._find = find
        self.stream = ConcealedStream(_token, **options)

    def __getattr__(self, name):
        return lambda *piece: self._text(getattr(self.stream, name)(*piece))

    def _text(self, search):
        found = None
        while True:
            try:
                found = self._find(search.send(found))
            except StopIteration as end:
                return end.value


def _stream(find=KNOWN.find, **options):
    return _Searched(find, **options)


def _sent(pieces, find=KNOWN.find, **options):
    stream = _stream(find, **options)
    return [*(stream.add(piece) for piece in pieces), stream.close()]


def _whole(text, find=KNOWN.find):
    for span in reversed(find(text)):
        text = text[: span.start] + _token(span.type, text[span.start : span.end]) + text[span.end :]
    return text


def test_line_is_sent_once_the_next_one_is_complete():
    """A value may go on in the next line: until that is there, a line waits."""
    assert _sent(["one\ntw", "o\nthr", "ee\n", "12 Long\n", "Road\n"]) == [
        "",
        "one\n",
        "two\n",
        "three\n",
        "",
        "<address 3>\n",
    ]


def test_flush_sends_complete_lines_and_the_rest_is_still_concealed():
    """When nothing follows for a while nothing waits but a line's beginning; what follows of a value stays hidden."""
    stream = _stream()
    assert stream.add("working ...\n50 %") == ""
    assert stream.flush() == "working ...\n"
    assert stream.flush() == ""
    assert stream.add(" done\n12 Long\n") == "50 % done\n"
    assert stream.flush() == "12 Long\n"
    assert stream.add("Road\n") + stream.close() == "<address 1>\n"


def test_progress_bar_is_sent_line_by_line():
    """A carriage return ends a line."""
    assert _sent(["10 %\r", "20 %\r", "bob@example.org\r\n"]) == ["", "10 %\r", "20 %\r", "<email 1>\r\n"]


def test_long_line_is_sent_in_parts_without_parting_a_value():
    """A line without an end does not wait for ever, and its values are whole."""
    text = "x, Anna Schmidt, bob@example.org; " * 400
    sent = _sent(text[start : start + 50] for start in range(0, len(text), 50))
    assert "".join(sent) == _whole(text)
    assert max(map(len, sent)) < 8192
    assert len([part for part in sent if part]) > 3


WORDS = ["Anna", "Schmidt", "Anna Schmidt", "bob@example.org", "77777", "12", "Long", "Road", "12 Long Road", "x"]
BETWEEN = ["\n", "\r\n", "\r", " ", "  ", ", ", "lorem ipsum", "\n\n", "7" * 30, "a" * 300, "é"]


@given(
    st.lists(st.sampled_from(WORDS + BETWEEN), max_size=60),
    st.lists(st.integers(1, 40), min_size=1, max_size=20),
    st.sampled_from([512, 4096]),
)
def test_pieces_are_concealed_as_the_whole_text(words, cuts, hold_characters):
    """Whatever the text and wherever it is cut: what is sent is what concealing it at once gives.

    Of a value that runs over three lines the first may be sent, never the whole.
    """
    text = "".join(words)
    pieces = []
    start = 0
    while start < len(text):
        length = cuts[len(pieces) % len(cuts)]
        pieces.append(text[start : start + length])
        start += length
    sent = "".join(_sent(pieces, hold_characters=hold_characters))
    assert KNOWN.find(sent) == []
    if all(len(re.findall(r"[\r\n]", text[span.start : span.end])) <= 1 for span in KNOWN.find(text)):
        assert sent == _whole(text)


def _find_second_column(text):
    """Finds by structure: the second column of a table whose header says `name`."""
    lines = list(re.finditer(r"[^\n]+", text))
    header = next((index for index, line in enumerate(lines) if line.group() == "id,name"), None)
    if header is None:
        return []
    spans = []
    for line in lines[header + 1 :]:
        cells = next(csv.reader(io.StringIO(line.group())))
        if len(cells) == 2:
            spans.append(Span(line.end() - len(cells[1]), line.end(), "person"))
    return spans


def test_rows_are_judged_by_a_header_sent_long_before():
    """The first lines of a paragraph stay context, however many lines followed."""
    text = "Rows:\nid,name\n" + "".join(f"{number},Name{number}\n" for number in range(2000))
    pieces = [line + "\n" for line in text.splitlines()]
    sent = "".join(_sent(pieces, _find_second_column))
    assert sent == "Rows:\nid,name\n" + "".join(f"{number},<person 1>\n" for number in range(2000))


def _find_keys(text):
    """Finds keys from their first line to their last, or as far as they go."""
    return [
        Span(*match.span(), "private_key")
        for match in re.finditer(r"-----BEGIN KEY-----[A-Za-z0-9\n]*(?:-----END KEY-----)?", text)
    ]


@pytest.mark.parametrize("lines", [3, 40, 400])
def test_key_of_many_lines_is_never_sent_in_part(lines):
    """A key is held until its end; one too long for that is concealed in parts, to its last line."""
    body = [f"{number:04}".ljust(64, "k") for number in range(lines)]
    text = "\n".join(["before", "-----BEGIN KEY-----", *body, "-----END KEY-----", "after", ""])
    for size in (7, 65, 1000):
        sent = "".join(_sent([text[start : start + size] for start in range(0, len(text), size)], _find_keys))
        assert "kkk" not in sent
        assert sent.startswith("before\n<private_key ")
        assert sent.endswith("after\n")
    if lines == 3:
        assert sent == "before\n<private_key 7>\nafter\n"


def test_what_is_held_is_bounded():
    """A text that is one endless finding is sent on, concealed, without being kept."""
    stream = _stream(lambda text: [Span(0, len(text), "text")] if text else [], hold_characters=100)
    sent = "".join(stream.add("word ") for _ in range(1000))
    assert "word" not in sent
    assert len(stream.stream._held) <= 205
    assert sent.count("<text") > 10


def test_find_is_called_on_bounded_texts():
    """Each call searches the new lines and a context of fixed length."""
    longest = 0

    def find(text):
        nonlocal longest
        longest = max(longest, len(text))
        return []

    _sent((f"line {number} of many\n" for number in range(3000)), find, hold_characters=1024)
    assert longest < 400
