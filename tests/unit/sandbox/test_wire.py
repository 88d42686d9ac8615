"""Frames: any bytes, however they arrive, are frames or a `ProtocolError`; nothing else, and never too much of them."""

import itertools
import json
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sealyard.sandbox.wire import (
    Attacked,
    Broken,
    Call,
    Done,
    Finding,
    FrameReader,
    ProtocolError,
    Sealed,
    notes_of,
    pack,
    parse,
)
from sealyard.values.runs import Failure, Spill

LIMIT = 1000
JSON_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | JSON_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(JSON_TEXT, inner, max_size=4),
    max_leaves=12,
)


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` in pieces, cut at the given places."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(places)] or [b""]


def read(pieces: list[bytes], *, max_bytes: int = LIMIT) -> tuple[list[bytes], str | None, int]:
    """The bodies that came out, the error that ended it, and the most bytes that were kept between two pieces."""
    reader = FrameReader(max_bytes)
    bodies: list[bytes] = []
    kept = 0
    for piece in pieces:
        try:
            bodies.extend(reader.feed(piece))
        except ProtocolError as error:
            return bodies, str(error), kept
        kept = max(kept, len(reader._buffer))
    return bodies, None, kept


@given(st.lists(st.binary(max_size=200), max_size=6), st.lists(st.integers(min_value=0), max_size=8))
def test_what_is_packed_comes_out_in_any_chunking(bodies: list[bytes], cuts: list[int]) -> None:
    """Frames are cut out of the stream as they were put in, wherever the pieces end."""
    data = b"".join(pack(body) for body in bodies)

    assert read(chunks(data, cuts))[:2] == (bodies, None)


@given(st.binary(max_size=400), st.lists(st.integers(min_value=0), max_size=8))
def test_any_bytes_are_frames_or_a_protocol_error(data: bytes, cuts: list[int]) -> None:
    """No other exception, the same answer however they arrive, and no more kept than one frame may have."""
    pieces = chunks(data, cuts)
    bodies, error, kept = read(pieces)

    assert (bodies, error) == read([data])[:2] == read([bytes([byte]) for byte in data])[:2]
    assert kept <= LIMIT + 4
    for body in bodies:
        try:
            parse(body)
        except ProtocolError:
            continue


@given(st.integers(min_value=LIMIT + 1, max_value=0xFFFFFFFF))
def test_length_over_the_limit_is_refused_before_anything_is_kept(length: int) -> None:
    """Four bytes are enough to know."""
    head = struct.pack("<I", length)

    assert read([head]) == ([], f"a frame of {length:,} bytes where at most {LIMIT:,} are taken", 0)
    assert read([head[:3], head[3:]])[1] is not None


def test_frame_of_exactly_the_limit_is_taken() -> None:
    """The limit is what is allowed."""
    assert read([pack(b"x" * LIMIT)]) == ([b"x" * LIMIT], None, 0)


def test_frames_before_a_bad_one_are_still_given() -> None:
    """What was complete before the stream went wrong counts."""
    assert read([pack(b"a") + pack(b"") + b"\xff\xff\xff\xff"])[0] == [b"a", b""]


@pytest.mark.parametrize(
    ("data", "inside"), [(b"", False), (b"\x01", True), (pack(b"x")[:-1], True), (pack(b"x"), False)]
)
def test_reader_knows_whether_it_is_inside_a_frame(data: bytes, inside: bool) -> None:
    """Half a frame at the end of a connection is a broken protocol."""
    reader = FrameReader(LIMIT)
    list(reader.feed(data))

    assert reader.is_inside_frame is inside


def test_reader_may_be_left_in_the_middle() -> None:
    """A caller that stops after one frame finds the others with the next piece."""
    reader = FrameReader(LIMIT)
    frames = reader.feed(pack(b"a") + pack(b"b"))
    first = next(frames)
    del frames

    assert (first, list(reader.feed(pack(b"c")))) == (b"a", [b"b", b"c"])


FRAMES = [
    ({"t": "sealed"}, Sealed()),
    ({"t": "broken", "error": "no"}, Broken(error="no")),
    ({"t": "call", "id": 1, "tool": "a", "args": {"x": [None]}}, Call(id=1, tool="a", args={"x": [None]})),
    (
        {"t": "done", "ok": True, "result": 2**100, "notes": ["n"], "cpu_seconds": 0.5, "memory_peak_bytes": 1},
        Done(
            ok=True,
            result=msgspec.Raw(b"%d" % 2**100),
            notes=msgspec.Raw(b'["n"]'),
            cpu_seconds=0.5,
            memory_peak_bytes=1,
        ),
    ),
    (
        {
            "t": "done",
            "ok": True,
            "spill": {"path": "p", "bytes": 3, "shape": "s"},
            "cpu_seconds": 1,
            "memory_peak_bytes": 1,
        },
        Done(ok=True, spill=Spill(path="p", bytes=3, shape="s"), cpu_seconds=1.0, memory_peak_bytes=1),
    ),
    (
        {
            "t": "done",
            "ok": False,
            "failure": {"kind": "exception", "type": "E", "message": "m", "line": 3},
            "cpu_seconds": 0,
            "memory_peak_bytes": 0,
        },
        Done(
            ok=False,
            failure=Failure(kind="exception", type="E", message="m", line=3),
            cpu_seconds=0.0,
            memory_peak_bytes=0,
        ),
    ),
    (
        {"t": "attacked", "findings": [{"name": "n", "kind": "attack", "done": False, "detail": "d"}]},
        Attacked(findings=[Finding(name="n", kind="attack", done=False, detail="d")]),
    ),
]


def test_frame_of_each_type_is_understood() -> None:
    """As the guest sends it, it arrives."""
    assert [parse(json.dumps(data).encode()) for data, _ in FRAMES] == [frame for _, frame in FRAMES]


WRONG = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b'"sealed"',
    b'{"t":"reply"}',
    b'{"t":"unknown"}',
    b'{"t":5}',
    b'{"t":"sealed","extra":1}',
    b'{"t":"sealed"}{}',
    b'{"t":"call","id":1,"tool":"a"}',
    b'{"t":"call","id":"1","tool":"a","args":{}}',
    b'{"t":"call","id":1.5,"tool":"a","args":{}}',
    b'{"t":"call","id":true,"tool":"a","args":{}}',
    b'{"t":"call","id":1,"tool":5,"args":{}}',
    b'{"t":"call","id":1,"tool":"a","args":[]}',
    b'{"t":"call","id":1,"tool":"\xff","args":{}}',
    b'{"t":"call","id":1,"tool":"\\ud800","args":{}}',
    b'{"t":"call","id":1,"tool":"a","args":{"\\ud800":1}}',
    b'{"t":"call","id":1,"tool":"a","args":{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    b'{"t":"call","id":1,"tool":"a","args":{"x":NaN}}',
    b'{"t":"call","id":1,"tool":"a","args":{"x":1e999}}',
    b'{"t":"done","ok":true}',
    b'{"t":"done","ok":true,"cpu_seconds":"1","memory_peak_bytes":1}',
    b'{"t":"done","ok":false,"failure":{"kind":"surprise","type":"","message":""},"cpu_seconds":0,"memory_peak_bytes":0}',
    b'{"t":"done","ok":true,"spill":{"path":"/x"},"cpu_seconds":0,"memory_peak_bytes":0}',
    b'{"t":"done","ok":true,"result":[,"cpu_seconds":0,"memory_peak_bytes":0}',
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_frame_that_is_not_exactly_right_is_refused(number: int) -> None:
    """A missing, wrong or additional field, text that is not Unicode, numbers without end, depth without end."""
    with pytest.raises(ProtocolError):
        parse(WRONG[number])


def test_lists_of_a_large_frame_are_not_decoded_with_it() -> None:
    """However many values they hold, they hold up nobody: the notes stay text, and no answer of a probe is so large."""
    finding = {"name": "n", "kind": "attack", "done": False, "detail": "d"}
    notes = ["n"] * 100_000
    done = parse(
        json.dumps({"t": "done", "ok": True, "notes": notes, "cpu_seconds": 0, "memory_peak_bytes": 0}).encode()
    )

    assert isinstance(done, Done)
    assert isinstance(done.notes, msgspec.Raw)
    assert notes_of(done) == notes
    with pytest.raises(ProtocolError):
        parse(json.dumps({"t": "attacked", "findings": [finding] * 2_000}).encode())


@given(JSON)
@example({"t": "call", "id": 1, "tool": "a", "args": {}})
def test_any_json_is_a_frame_or_a_protocol_error(value: object) -> None:
    """Whatever well-formed JSON a worker makes up."""
    try:
        frame = parse(json.dumps(value).encode())
    except ProtocolError:
        return
    assert isinstance(frame, Sealed | Broken | Call | Done | Attacked)


@given(st.sampled_from(FRAMES), st.integers(min_value=0), st.binary(max_size=3))
def test_damaged_frame_is_a_frame_or_a_protocol_error(
    known: tuple[dict[str, Any], object], place: int, damage: bytes
) -> None:
    """A few bytes overwritten in a good frame raise nothing else."""
    body = json.dumps(known[0]).encode()
    start = place % (len(body) + 1)
    try:
        parse(body[:start] + damage + body[start + len(damage) :])
    except ProtocolError:
        return


@given(JSON)
def test_arguments_and_results_survive_the_way(value: Any) -> None:
    """What JSON can hold arrives as it was, however long its integers are."""
    call = {"t": "call", "id": 1, "tool": "a", "args": {"value": value}}
    done = {"t": "done", "ok": True, "result": value, "cpu_seconds": 0, "memory_peak_bytes": 0}
    parsed = parse(json.dumps(call).encode()), parse(json.dumps(done).encode())

    assert isinstance(parsed[0], Call)
    assert isinstance(parsed[1], Done)
    assert parsed[0].args["value"] == msgspec.json.decode(parsed[1].result) == value
