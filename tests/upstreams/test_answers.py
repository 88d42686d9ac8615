"""What a tool's result is to code: data, files, text, an error."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.broker.upstreams.server import Declared, Response, ResponseFile, to_answer
from sealyard.errors import ToolFailed, UpstreamError

PNG = base64.b64encode(b"\x89PNG").decode()


def text(content: Any) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": content}


TEXTS = {
    "plain words": "plain words",
    "": "",
    '{"a": [1, 2.5, null]}': {"a": [1, 2.5, None]},
    " [1]\n": [1],
    '{"a": NaN, "b": Infinity}': {"a": None, "b": None},
    "{not json}": "{not json}",
    "[" * 100_000: "[" * 100_000,
    '"quoted"': '"quoted"',
    "true": True,
    "false": False,
    "null": None,
    "True": "True",
    "42": 42,
    "-1": -1,
    "2.5": 2.5,
    "007": "007",
    "1.50": "1.50",
    "12e4567": "12e4567",
    "1e5": "1e5",
    "-0": "-0",
    "12345678901234567890": 12345678901234567890,
    "0.1234567890123456789": "0.1234567890123456789",
    "٣": "٣",
    '{"n": 12345678901234567890123}': {"n": 12345678901234567890123},
}


@pytest.mark.parametrize("content", TEXTS, ids=lambda content: content[:30])
def test_text_is_data_if_nothing_is_lost_by_it(content: str) -> None:
    """Objects and lists always; a bare number only if it is written as Python writes it."""
    assert to_answer({"content": [text(content)]}) == Response(value=TEXTS[content])


def test_structured_content_comes_first() -> None:
    """The text beside it repeats it and is not read; a file beside it is kept."""
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    result = {"content": [text("one row"), image], "structuredContent": {"rows": 1}}

    answer = to_answer(result)

    assert (answer.value, [file.name for file in answer.files]) == ({"rows": 1}, ["image.png"])


def test_structured_content_has_no_limit_of_blocks_beside_it() -> None:
    """A server of the SDK repeats each item of a list as a block of its own, whatever their number."""
    names = [f"src/file_{number}.py" for number in range(100_000)]

    answer = to_answer({"content": [text(name) for name in names], "structuredContent": {"result": names}}, unwrap=True)

    assert answer == Response(value=names)


def test_error_of_many_blocks_is_the_tools_error() -> None:
    """It says what the tool says, and not that there are many blocks."""
    with pytest.raises(ToolFailed, match="no such row"):
        to_answer({"content": [text("no such row")] * 100_000, "isError": True})


def test_wrapped_result_is_unwrapped_only_if_asked() -> None:
    """And only if it is wrapped."""
    wrapped = {"structuredContent": {"result": [1]}}

    assert to_answer(wrapped).value == {"result": [1]}
    assert to_answer(wrapped, unwrap=True).value == [1]
    assert to_answer({"structuredContent": {"result": 1, "more": 2}}, unwrap=True).value == {"result": 1, "more": 2}


def test_several_texts_are_a_list_if_all_are_data_and_one_text_if_not() -> None:
    """Many servers send one block for each row."""
    assert to_answer({"content": [text('{"a": 1}'), text('{"a": 2}')]}).value == [{"a": 1}, {"a": 2}]
    assert to_answer({"content": [text('{"a": 1}'), text("and more")]}).value == '{"a": 1}\nand more'


def test_images_audio_and_blobs_become_files() -> None:
    """Their places stand in the value, in the order of the blocks."""
    blocks = [
        text("Here:"),
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "audio", "data": PNG, "mimeType": "audio/ogg; codecs=opus"},
        {"type": "resource", "resource": {"uri": "file:///a/report.pdf", "blob": PNG, "mimeType": "application/pdf"}},
        {"type": "resource", "resource": {"uri": "file:///a/notes.txt", "text": "notes"}},
        {"type": "resource_link", "uri": "file:///b", "name": "b", "mimeType": "text/csv"},
    ]

    answer = to_answer({"content": blocks})

    assert answer.value == [
        "Here:",
        {"file": "image.png", "mime_type": "image/png", "bytes": 4},
        {"file": "audio.ogg", "mime_type": "audio/ogg; codecs=opus", "bytes": 4},
        {"file": "report.pdf", "mime_type": "application/pdf", "bytes": 4},
        "notes",
        {"uri": "file:///b", "name": "b", "description": None, "mime_type": "text/csv"},
    ]
    assert answer.files == (
        ResponseFile(name="image.png", mime="image/png", content=b"\x89PNG"),
        ResponseFile(name="audio.ogg", mime="audio/ogg; codecs=opus", content=b"\x89PNG"),
        ResponseFile(name="report.pdf", mime="application/pdf", content=b"\x89PNG", title="report.pdf"),
    )


NAMES = {
    "file:///etc/../../passwd": "passwd.bin",
    "x://a/..": "resource.bin",
    "x://a/.bashrc": "bashrc.bin",
    "x://a/a\\..\\b\x00c.png": "a-..-b-c.png",
    "x://a/-rf": "rf.bin",
    "x://a/" + "n" * 500 + ".csv": "n" * 80 + ".csv",
    "x://a/naïve file.tar.gz": "na-ve-file.tar.gz",
    "": "resource.bin",
}


@pytest.mark.parametrize("uri", NAMES, ids=lambda uri: uri[:30])
def test_file_names_are_plain_and_short(uri: str) -> None:
    """Whatever the upstream calls them."""
    [file] = to_answer({"content": [{"type": "resource", "resource": {"uri": uri, "blob": PNG}}]}).files

    assert file.name == NAMES[uri]


def test_files_of_one_name_get_numbers() -> None:
    """So none is lost."""
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}

    assert [file.name for file in to_answer({"content": [image] * 3}).files] == [
        "image.png",
        "image-2.png",
        "image-3.png",
    ]


@pytest.mark.parametrize("data", ["no base64!", "ä", 5, None, "QQ==QQ=="], ids=repr)
def test_data_that_is_no_base64_is_said(data: Any) -> None:
    """The answer goes on without the file."""
    answer = to_answer({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})

    if data in (5, None):
        assert answer.value == {"file": "image.png", "mime_type": "image/png", "bytes": 0}
    else:
        assert answer.value == {"file": None, "mime_type": "image/png", "bytes": 0, "error": "Its data is not base64."}


@pytest.mark.parametrize("data", ["_-8", "_-8=", "/+8=", "/+\n8"])
def test_every_way_to_write_base64_is_read(data: str) -> None:
    """For the web, without padding, on several lines."""
    [file] = to_answer({"content": [{"type": "image", "data": data}]}).files

    assert file.content == b"\xff\xef"


FAILURES = {
    "its words": ({"content": [text("no such row"), text("try another")]}, "no such row\ntry another"),
    "its data": ({"content": [], "structuredContent": {"code": 7}}, '{"code":7}'),
    "nothing": ({}, "The tool failed without saying why."),
}


@pytest.mark.parametrize("case", FAILURES)
def test_error_is_raised_with_the_tools_own_words(case: str) -> None:
    """Or its data, or that there were none."""
    result, message = FAILURES[case]

    with pytest.raises(ToolFailed) as failure:
        to_answer({**result, "isError": True})

    assert str(failure.value) == message


def test_long_error_keeps_its_beginning_and_its_end() -> None:
    """At most 64,000 characters of it; it is cut to what is shown once it has been looked through."""
    with pytest.raises(ToolFailed) as failure:
        to_answer({"content": [text("begin" + "x" * 100_000 + "end")], "isError": True})

    message = str(failure.value)
    assert (message[:5], message[-3:], len(message) <= 64_000) == ("begin", "end", True)


def test_too_many_blocks_or_files_are_refused() -> None:
    """Nobody means a hundred thousand of them."""
    with pytest.raises(UpstreamError):
        to_answer({"content": [text("")] * 50_001})
    with pytest.raises(UpstreamError):
        to_answer({"content": [{"type": "image", "data": PNG}] * 257})


SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "integer"}, "rows": {"type": ["array", "null"]}, "any": True, "odd": {"type": 5}},
    "required": ["total"],
}
MISFITS: list[tuple[Any, str | None]] = [
    ({"total": 1}, None),
    ({"total": 1, "rows": None, "any": 5, "odd": []}, None),
    ({"total": 1, "rows": "x"}, "'rows' is not of type array or null"),
    ({"total": True}, "'total' is not of type integer"),
    ({"rows": []}, "'total' is missing"),
    ([1], "the answer is not of type object"),
]


@pytest.mark.parametrize(("value", "complaint"), MISFITS)
def test_misfit_names_what_is_not_as_declared(value: Any, complaint: str | None) -> None:
    """One level deep."""
    assert Declared(SCHEMA).misfit(value) == complaint


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "x"])},
    optional={"text": JSON, "data": JSON, "mimeType": JSON, "resource": JSON, "uri": JSON, "name": JSON},
)


@given(
    st.fixed_dictionaries(
        {}, optional={"content": st.lists(BLOCK | JSON, max_size=4) | JSON, "structuredContent": JSON, "isError": JSON}
    ),
    st.booleans(),
)
def test_any_result_is_an_answer_or_a_failure(result: dict[str, Any], unwrap: bool) -> None:
    """Nothing an upstream can send raises anything else."""
    try:
        answer = to_answer(result, unwrap=unwrap)
    except ToolFailed:
        return
    assert all("/" not in file.name and file.name not in {"", ".", ".."} for file in answer.files)


@given(JSON, JSON)
def test_any_schema_and_value_can_be_compared(schema: Any, value: Any) -> None:
    """A hostile schema raises nothing."""
    if isinstance(schema, dict):
        Declared(schema).misfit(value)
    Declared({"type": schema, "properties": {"a": schema}, "required": schema}).misfit(value)
    Declared({"properties": schema}).misfit({"a": value})
