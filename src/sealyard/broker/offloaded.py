"""An answer as a helper process admits it: bytes in, bytes out."""

from typing import Any

import msgspec

from sealyard.broker.admission import check_answer, parts_of, plain_names
from sealyard.broker.answers import Answer, AnswerFile, read_message, renamed, to_answer
from sealyard.broker.samples import sample_of
from sealyard.catalog.shapes import is_wrapped
from sealyard.offload.child import Ask
from sealyard.privacy import Mirror, Sent
from sealyard.store.rows import CALL_VALUE_BYTES
from sealyard.values import ToolSpec

remember = Mirror.remember


class _Given(msgspec.Struct):
    spec: ToolSpec
    sent: dict[str, Any]
    is_message: bool
    lengths: list[int]
    files: list[tuple[str, str, str]]


def answer(params: Any, body: bytes, mirror: Mirror | None, ask: Ask) -> tuple[Any, bytes]:
    """Read an answer for `broker.admission.admit`: its value, a sample, the journal's copy, and its files.

    Without a mirror nothing is private.
    """
    given = msgspec.convert(params, _Given)
    found = _read(given, body)
    encoded = check_answer(given.spec, found)
    if mirror is None:
        parts = [encoded, _sample(encoded, found.value), encoded, *(file.content for file in found.files)]
        return _told(parts, [(file.name, file.mime) for file in found.files], {"hidden": {}, "failures": 0})
    mirror.begin()
    guard, spec, sent = mirror.guard, given.spec, Sent.from_data(given.sent)
    names = plain_names(guard, spec, found, sent)
    value = guard.admit(spec, renamed(found.value, names) if names else found.value, sent=sent)
    encoded = encoded if value is found.value else msgspec.json.encode(value)
    sample = _sample(encoded, value) if guard.is_admitted_concealed(spec) else b""
    told = msgspec.json.encode(guard.conceal_admitted(spec, value)) if len(encoded) <= CALL_VALUE_BYTES else b""
    files = [_Text(mirror, spec, sent, file) for file in found.files]
    counted, (encoded, sample, told, *texts) = mirror.settle(
        [encoded, sample, told, *(each.text for each in files)], ask
    )
    contents = [each.content(text) for each, text in zip(files, texts, strict=True)]
    kept = told if len(encoded) <= CALL_VALUE_BYTES else b""
    described = [(names.get(file.name, file.name), file.mime) for file in found.files]
    return _told([encoded, sample, kept, *contents], described, counted)


def _read(given: _Given, body: bytes) -> Answer:
    first, *contents = parts_of(body, given.lengths)
    if given.is_message:
        return to_answer(read_message(first), unwrap=is_wrapped(given.spec.output_schema))
    files = tuple(
        AnswerFile(name=name, mime=mime, title=title, content=content)
        for (name, mime, title), content in zip(given.files, contents, strict=True)
    )
    return Answer(value=msgspec.json.decode(first), files=files)


def _sample(encoded: bytes, value: Any) -> bytes:
    if len(encoded) <= CALL_VALUE_BYTES:
        return b""
    return (sample_of(value) or "").encode()


def _told(parts: list[bytes], files: list[tuple[str, str]], counted: dict[str, Any]) -> tuple[Any, bytes]:
    if len(parts[0]) > CALL_VALUE_BYTES:
        parts[2] = b""
    return {"lengths": [len(part) for part in parts], "files": files, **counted}, b"".join(parts)


class _Text:
    """A file as text while its tokens are still unknown; no text if it is binary or holds nothing private."""

    def __init__(self, mirror: Mirror, spec: ToolSpec, sent: Sent, file: AnswerFile) -> None:
        self._file = file
        self._encoding = mirror.guard.file_encoding(spec, file.content, sent=sent)
        self.text = b""
        if self._encoding is not None:
            text = file.content.decode(self._encoding)
            admitted = mirror.guard.admit(spec, text, sent=sent)
            if admitted is not text:
                self.text = str(admitted).encode("utf-8", "surrogatepass")

    def content(self, text: bytes) -> bytes:
        """The file with its tokens in it."""
        if not self.text or self._encoding is None:
            return self._file.content
        return text.decode("utf-8", "surrogatepass").encode(self._encoding, "replace")
