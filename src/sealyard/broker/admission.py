"""An upstream's answer on its way in: read, bounded, and without what is private.

A small one is admitted here and at once. A large one goes through a helper process as bytes and comes back as bytes:
the gateway neither decodes it nor looks at it, and hands it to the code as it is.
"""

import asyncio
import time
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import PurePath
from typing import Any

import msgspec

from sealyard.broker.answers import Answer, AnswerFile, read_answer, renamed
from sealyard.broker.samples import sample_of
from sealyard.catalog.shapes import is_wrapped
from sealyard.errors import HelperFailed, UpstreamError
from sealyard.offload import LARGE, MOST_DEPTH, Offload, depth_exceeds, is_large, signs_of, turn
from sealyard.offload.turns import spend
from sealyard.privacy import Guard, Sent
from sealyard.store.rows import CALL_VALUE_BYTES
from sealyard.values import ToolSpec

_ANSWER_BYTES = 32 << 20  # the worker's connection holds at most twice as much unread
_DECODED_BYTES = 256 << 10
"""Larger values stay JSON: the evidence kept to explain a failure is never larger."""
_DECODED_SIGNS = 20_000
"""Of structure in a value that is decoded: 4 ms at worst."""


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as the code may see it."""

    answer: Answer
    encoded: bytes
    """Its value as JSON."""
    told: Any = None
    """The value with private parts concealed, if it is small enough for the journal."""

    @property
    def size_bytes(self) -> int:
        """Its bytes, with its files."""
        return len(self.encoded) + sum(len(file.content) for file in self.answer.files)


async def admit_answer(
    guard: Guard, spec: ToolSpec, answer: Answer, sent: Sent, *, offload: Offload | None, who: str
) -> Admitted:
    """The answer as the code may see it.

    Raises:
        ToolFailed: The answer is an error, which shows only after decoding.
        UpstreamError: The answer is not JSON, is too large, nested too deeply, or cannot be scanned.
        LimitReached: There are more private values than the session can have.
    """
    value = answer.value
    if not (answer.message or answer.files) and guard.admits_plain(spec, value, sent):
        shown = answer if not answer.text and answer.sample is None else Answer(value=value)
        return Admitted(answer=shown, encoded=_encoded(spec, value), told=guard.conceal_admitted(spec, value))
    most = LARGE - sum(len(file.content) for file in answer.files)
    is_much = is_large(value, most) and (bool(answer.files) or not guard.admits_quickly(value, sent))
    if not answer.message and (guard.is_off or not is_much):
        await turn()
        started = time.perf_counter()
        try:
            return admit(guard, spec, answer, sent)
        finally:
            spend(started)
    if offload is None or not (guard.is_off or guard.door.has_helpers):
        return await asyncio.to_thread(admit, guard, spec, answer, sent)
    try:
        return await _admit_beside(guard, spec, answer, sent, offload, who)
    except HelperFailed as error:
        guard.count_failure()
        raise UpstreamError(f"The answer of {spec.full_name!r} is withheld: {error}") from None


def admit(guard: Guard, spec: ToolSpec, answer: Answer, sent: Sent) -> Admitted:
    """The same in this thread, however long it takes."""
    answer = read_answer(answer, unwrap=is_wrapped(spec.output_schema))
    encoded = check_answer(spec, answer)
    value, files = answer.value, answer.files
    if not guard.is_off:
        names = plain_names(guard, spec, answer, sent)
        files = tuple(
            AnswerFile(
                name=names.get(file.name, file.name),
                mime=file.mime,
                content=guard.admit_file(spec, file.content, sent=sent),
            )
            for file in files
        )
        value = guard.admit(spec, renamed(value, names) if names else value, sent=sent)
        encoded = encoded if value is answer.value else msgspec.json.encode(value)
    is_kept = len(encoded) <= CALL_VALUE_BYTES
    # Only from the concealed value: a part alone does not show that the whole is private.
    sample = sample_of(value) if not is_kept and guard.is_admitted_concealed(spec) else None
    told = guard.conceal_admitted(spec, value) if is_kept else None
    # `text` is a second copy of what is in `value` and of no use to code.
    return Admitted(answer=Answer(value=value, files=files, sample=sample), encoded=encoded, told=told)


def check_answer(spec: ToolSpec, answer: Answer) -> bytes:
    """The value as JSON. Raises `UpstreamError` if it is not JSON, too large or nested too deeply."""
    if depth_exceeds(answer.value, MOST_DEPTH):
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
        raise UpstreamError(f"{spec.full_name!r} answered with something that is no JSON: {error}.") from error


def plain_names(guard: Guard, spec: ToolSpec, answer: Answer, sent: Sent) -> dict[str, str]:
    """Other names for the files whose own ones hold something private: code sees the name of a file as it is."""
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
    guard: Guard, spec: ToolSpec, answer: Answer, sent: Sent, offload: Offload, who: str
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
    encoded, sample, told, *contents = parts_of(answered.document, made.lengths)
    files = tuple(
        AnswerFile(name=name, mime=mime, content=content)
        for (name, mime), content in zip(made.files, contents, strict=True)
    )
    is_decoded = len(encoded) <= _DECODED_BYTES and signs_of(encoded) <= _DECODED_SIGNS
    value = msgspec.json.decode(encoded) if is_decoded else msgspec.Raw(encoded)
    return Admitted(
        answer=Answer(value=value, files=files, sample=sample.decode() if sample else None),
        encoded=encoded,
        told=msgspec.json.decode(told) if told else None,
    )


class _Made(msgspec.Struct):
    lengths: list[int]
    files: list[tuple[str, str]]
