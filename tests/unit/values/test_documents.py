"""JSON that strangers send, read in a time that its length bounds."""

import json
import math
import sys
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sealyard.values.documents import read_exactly

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(PLAIN)
@example([1e308, 5e-324, -0.0, 1e22])
def test_a_document_is_read_as_it_was_written(value: Any) -> None:
    """By whichever of the two readers, to the last bit of each number."""
    for document in (json.dumps(value), json.dumps(value, ensure_ascii=False), msgspec.json.encode(value).decode()):
        found = read_exactly(document)
        assert (found, repr(found)) == (value, repr(value))
        assert read_exactly(document.encode()) == value


@pytest.mark.parametrize(
    "document",
    [
        *("[1e400]", "[-1e400]", "[NaN, 1e1]", "[Infinity, 1e1]", "[1e1, -Infinity]", "[1e1", "1e", "", "[01e1]"),
        *(
            r'["\ud800", 1e1]',
            r'{"\uDFFF": 1e1}',
            '["\t", 1e1]',
            f"[1e1, {'9' * 5_000}]",
            b'["\xff", 1e1]',
            b"\xef\xbb\xbf1e1",
        ),
    ],
)
def test_a_document_that_one_reader_refuses_is_refused_by_the_other(document: str | bytes) -> None:
    """A number with an exponent in it changes nothing about what is JSON."""
    for each in (
        document,
        document.replace(b"1e1", b"1") if isinstance(document, bytes) else document.replace("1e1", "1"),
    ):
        with pytest.raises(ValueError, match=r"."):
            read_exactly(each)


def test_each_number_with_an_exponent_is_read_by_python() -> None:
    """The other reader holds everything up for up to 40 µs with each."""
    read: list[str] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == "_finite":
            read.append(frame.f_locals["text"])

    sys.setprofile(watch)
    try:
        found = read_exactly("[1e308, 2E-308, 3.5e+9]")
    finally:
        sys.setprofile(None)

    assert (found, read) == ([1e308, 2e-308, 3.5e9], ["1e308", "2E-308", "3.5e+9"])
    assert all(map(math.isfinite, found))
