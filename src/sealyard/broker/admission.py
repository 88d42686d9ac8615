"""An upstream's answer on its way in: read, bounded, and without what is private.

A small one is admitted here and at once. A large one goes through a helper process as bytes and comes back as bytes:
the gateway neither decodes nor scans it, and hands it to the code unchanged. `admit_in_helper` is that task.
"""

import asyncio
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import PurePath
from typing import Any

import msgspec

from sealyard.broker.upstreams.server import Response, ResponseFile, read_message, renamed, to_answer
from sealyard.errors import HelperFailed, UpstreamError
from sealyard.offload import Offload, Query, short_work
from sealyard.privacy import Guard, Mirror, Sent
from sealyard.values.documents import LARGE, MOST_DEPTH, is_large, is_too_deep, read_exactly, signs_of
from sealyard.values.runs import CALL_VALUE_BYTES
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare import is_wrapped

_ANSWER_BYTES = 32 << 20  # the worker's connection holds at most twice as much unread
_DECODED_BYTES = 256 << 10
"""Larger values stay JSON: the evidence kept to explain a failure is never larger."""
_DECODED_SIGNS = 20_000
"""Of structure in a value that is decoded: 4 ms at worst."""
SAMPLE_BYTES = 16 << 10
"""Of a sample as JSON: agent code makes thousands of calls and must not fill the disk."""

_ROWS = (20, 5, 1)
"""Rows of a list to try, most first; of a list in a list a quarter of them."""
_VISITS = 1_200  # values looked at for one sample, so that its cost is bounded
_DEPTH = 9  # deeper values are left out
_KEYS = 64  # an object with more keys is taken for data
_TEXT_CHARACTERS = 64  # longer texts and keys are left out whole
_LARGEST = 10**18  # larger numbers are cut to this: only their type and sign matter
_KEY = "\0key"
"""The prefix of a key that is not kept. No field has such a name."""
remember = Mirror.remember
"""Helper processes look for it here, by this name: see `offload.child`."""


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as the code may see it."""

    answer: Response
    encoded: bytes
    """Its value as JSON."""
    concealed: Any = None
    """The value with private parts concealed, if it is small enough for the journal."""

    @property
    def size_bytes(self) -> int:
        """Its bytes, with its files."""
        return len(self.encoded) + sum(len(file.content) for file in self.answer.files)


async def admit_answer(
    guard: Guard, spec: ToolSpec, answer: Response, sent: Sent, *, offload: Offload | None, who: str
) -> Admitted:
    """The answer as the code may see it.

    Raises:
        ToolFailed: The answer is an error, which shows only after decoding.
        UpstreamError: The answer is not JSON, is too large, nested too deeply, or cannot be scanned.
        LimitReached: There are more private values than the session can have.
    """
    value = answer.value
    if not (answer.message or answer.files) and guard.admits_plain(spec, value, sent):
        return Admitted(
            answer=Response(value=value), encoded=_encoded(spec, value), concealed=guard.conceal_admitted(spec, value)
        )
    most = LARGE - sum(len(file.content) for file in answer.files)
    is_much = is_large(value, most) and (bool(answer.files) or not guard.admits_quickly(value, sent))
    if not answer.message and (guard.is_off or not is_much):
        async with short_work():
            return admit(guard, spec, answer, sent)
    if offload is None or not (guard.is_off or guard.door.has_helpers):
        return await asyncio.to_thread(admit, guard, spec, answer, sent)
    try:
        return await _admit_beside(guard, spec, answer, sent, offload, who)
    except HelperFailed as error:
        guard.count_failure()
        raise UpstreamError(f"The answer of {spec.full_name!r} is withheld: {error}") from None


def admit(guard: Guard, spec: ToolSpec, answer: Response, sent: Sent) -> Admitted:
    """The same in this thread, however long it takes."""
    answer = answer.read(unwrap=is_wrapped(spec.output_schema))
    names, value, encoded, sample = _scan(guard, spec, answer, sent)
    files = tuple(
        ResponseFile(
            name=names.get(file.name, file.name),
            mime=file.mime,
            content=guard.admit_file(spec, file.content, sent=sent),
        )
        for file in answer.files
    )
    concealed = guard.conceal_admitted(spec, value) if len(encoded) <= CALL_VALUE_BYTES else None
    return Admitted(answer=Response(value=value, files=files, sample=sample), encoded=encoded, concealed=concealed)


def _scan(
    guard: Guard | None, spec: ToolSpec, answer: Response, sent: Sent
) -> tuple[dict[str, str], Any, bytes, str | None]:
    """New names of files, the value as code may see it, its JSON, and a sample if it is too large for the journal."""
    names: dict[str, str] = {}
    value, encoded = answer.value, check_answer(spec, answer)
    if guard is not None and not guard.is_off:
        names = plain_names(guard, spec, answer, sent)
        value = guard.admit(spec, renamed(value, names) if names else value, sent=sent)
        encoded = encoded if value is answer.value else msgspec.json.encode(value)
    # Only from the concealed value: a part alone does not show that the whole is private.
    is_sampled = len(encoded) > CALL_VALUE_BYTES and (guard is None or guard.is_admitted_concealed(spec))
    return names, value, encoded, sample_of(value) if is_sampled else None


def check_answer(spec: ToolSpec, answer: Response) -> bytes:
    """The value as JSON. Raises `UpstreamError` if it is not JSON, too large or nested too deeply."""
    if is_too_deep(answer.value):
        raise UpstreamError(
            f"{spec.full_name!r} answered with data nested more than {MOST_DEPTH} levels deep. Ask it for less."
        )
    encoded = _encoded(spec, answer.value)
    size = len(encoded) + sum(len(file.content) for file in answer.files)
    if size > _ANSWER_BYTES:
        raise UpstreamError(
            f"{spec.full_name!r} answered with {size:,} bytes, more than the {_ANSWER_BYTES:,} that code is handed. "
            "Ask it for less: filter, or take it in pages."
        )
    return encoded


def _encoded(spec: ToolSpec, value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UpstreamError(f"{spec.full_name!r} answered with something that is not JSON: {error}.") from error


def plain_names(guard: Guard, spec: ToolSpec, answer: Response, sent: Sent) -> dict[str, str]:
    """Other names for files whose own names hold something private: code sees file names unconcealed."""
    names: dict[str, str] = {}
    for number, file in enumerate(answer.files, 1):
        own = [file.title or file.name, PurePath(file.name).stem]
        if guard.admit(spec, own, sent=sent) != own:
            names[file.name] = f"private-{number}{PurePath(file.name).suffix}"
    return names


def parts_of(document: bytes | bytearray, lengths: Sequence[int]) -> list[bytes]:
    """A document cut into parts of these lengths."""
    view = memoryview(document)
    return [bytes(view[start:end]) for start, end in pairwise(accumulate(lengths, initial=0))]


async def _admit_beside(
    guard: Guard, spec: ToolSpec, answer: Response, sent: Sent, offload: Offload, who: str
) -> Admitted:
    """The same in a helper process."""
    first = answer.message or _encoded(spec, answer.value)
    params = {
        "spec": guard.door.bare(spec),
        "sent": sent.to_data(),
        "is_message": bool(answer.message),
        "lengths": [len(first), *(len(file.content) for file in answer.files)],
        "files": [(file.name, file.mime, file.title) for file in answer.files],
    }
    document = b"".join((first, *(file.content for file in answer.files))) if answer.files else first
    if guard.is_off:
        answered = await offload.run("answer", params, document, who=who)
    else:
        answered = await guard.door.run("answer", params, document)
    made = msgspec.convert(answered.result, _Made)
    encoded, sample, concealed, *contents = parts_of(answered.document, made.lengths)
    files = tuple(
        ResponseFile(name=name, mime=mime, content=content)
        for (name, mime), content in zip(made.files, contents, strict=True)
    )
    is_decoded = len(encoded) <= _DECODED_BYTES and signs_of(encoded) <= _DECODED_SIGNS
    value = read_exactly(encoded) if is_decoded else msgspec.Raw(encoded)
    return Admitted(
        answer=Response(value=value, files=files, sample=sample.decode() if sample else None),
        encoded=encoded,
        concealed=read_exactly(concealed) if concealed else None,
    )


class _Made(msgspec.Struct):
    lengths: list[int]
    files: list[tuple[str, str]]


def sample_of(value: Any) -> str | None:
    """JSON text of a few parts of a concealed answer too large for the journal; None if each part holds too much.

    No text in it is a part of a longer one: a long text is left empty. An object keeps all of its fields, so that none
    seems to be missing; one with too many of them keeps no key. The cost does not depend on the answer's size.
    """
    for rows in _ROWS:
        sampling = _Sampling()
        taken = sampling.take(value, rows, _DEPTH)
        if sampling.left < 0:
            continue
        try:
            text = msgspec.json.encode(taken)
        except UnicodeEncodeError:  # half of a surrogate pair
            return None
        if len(text) <= SAMPLE_BYTES:
            return text.decode()
    return None


class _Sampling:
    """One walk, in bounds."""

    def __init__(self) -> None:
        self.left = _VISITS
        """Less than nothing, if there was too much."""

    def take(self, value: Any, rows: int, depth: int) -> Any:
        self.left -= 1
        match value:
            case str():
                return value if len(value) <= _TEXT_CHARACTERS else ""
            case None | bool():
                return value
            case int() | float():
                return value if -_LARGEST < value < _LARGEST else type(value)(_LARGEST)
        if self.left < 0 or not depth:
            return None
        if isinstance(value, dict):
            return self._fields(value, rows, depth)
        return self._rows(value, rows, depth) if isinstance(value, list | tuple) else ""

    def _rows(self, value: list[Any] | tuple[Any, ...], rows: int, depth: int) -> list[Any]:
        """The first ones, and as many from all over the rest, which may be others."""
        count = min(len(value), rows)
        first = (count + 1) // 2
        places = [first + number * (len(value) - first) // (count - first) for number in range(count - first)]
        return [self.take(value[place], max(1, rows // 4), depth - 1) for place in (*range(first), *places)]

    def _fields(self, value: dict[str, Any], rows: int, depth: int) -> dict[str, Any]:
        if len(value) > _KEYS:  # its keys are data
            some = list(zip(range(rows), value.values(), strict=False))
            return {f"{_KEY}{number}": self.take(inner, max(1, rows // 4), depth - 1) for number, inner in some}
        return {
            key if len(key) <= _TEXT_CHARACTERS else f"{_KEY}{number}": self.take(inner, rows, depth - 1)
            for number, (key, inner) in enumerate(value.items())
        }


class _Given(msgspec.Struct):
    spec: ToolSpec
    sent: dict[str, Any]
    is_message: bool
    lengths: list[int]
    files: list[tuple[str, str, str]]


def admit_in_helper(params: Any, body: bytes, mirror: Mirror | None, ask: Query) -> tuple[Any, bytes]:
    """Admit a large answer in a helper process: its value, a sample, the journal's copy, and its files.

    Without a mirror nothing is private.
    """
    given = msgspec.convert(params, _Given)
    spec, found, sent = given.spec, _read(given, body), Sent.from_data(given.sent)
    if mirror is None:
        _, _, encoded, sample = _scan(None, spec, found, sent)
        parts = [encoded, (sample or "").encode(), encoded, *(file.content for file in found.files)]
        return _packed(parts, [(file.name, file.mime) for file in found.files], {"hidden": {}, "failures": 0})
    mirror.begin()
    names, value, encoded, sample = _scan(mirror.guard, spec, found, sent)
    is_kept = len(encoded) <= CALL_VALUE_BYTES
    concealed = msgspec.json.encode(mirror.guard.conceal_admitted(spec, value)) if is_kept else b""
    files = [_Text(mirror, spec, sent, file) for file in found.files]
    texts = [encoded, (sample or "").encode(), concealed, *(each.text for each in files)]
    counted, parts = mirror.settle(texts, ask)
    contents = [each.content(text) for each, text in zip(files, parts[3:], strict=True)]
    described = [(names.get(file.name, file.name), file.mime) for file in found.files]
    return _packed([*parts[:3], *contents], described, counted)


def _read(given: _Given, body: bytes) -> Response:
    first, *contents = parts_of(body, given.lengths)
    if given.is_message:
        return to_answer(read_message(first), unwrap=is_wrapped(given.spec.output_schema))
    files = tuple(
        ResponseFile(name=name, mime=mime, title=title, content=content)
        for (name, mime, title), content in zip(given.files, contents, strict=True)
    )
    return Response(value=msgspec.json.decode(first), files=files)


def _packed(parts: list[bytes], files: list[tuple[str, str]], counted: dict[str, Any]) -> tuple[Any, bytes]:
    """The parts as one document. The journal's copy is left out if tokens made the value too large for it."""
    if len(parts[0]) > CALL_VALUE_BYTES:
        parts[2] = b""
    return {"lengths": [len(part) for part in parts], "files": files, **counted}, b"".join(parts)


class _Text:
    """A file as text while its tokens are still unknown; no text if it is binary or holds nothing private."""

    def __init__(self, mirror: Mirror, spec: ToolSpec, sent: Sent, file: ResponseFile) -> None:
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
