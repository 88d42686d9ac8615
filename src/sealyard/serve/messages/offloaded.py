"""Relayed messages as a helper process looks through them: bytes in, bytes out."""

import re
import secrets
from typing import Any

import msgspec

from sealyard.broker.answers import read_leniently, short
from sealyard.errors import UpstreamError
from sealyard.offload.child import Ask
from sealyard.privacy import Guard, Mirror, Sent
from sealyard.serve.messages.scribe import Scribe, conceal
from sealyard.serve.messages.structure import shape_of
from sealyard.values import ToolSpec

remember = Mirror.remember

_INTERNAL_ERROR = -32603


class Made(msgspec.Struct, kw_only=True):
    """What became of a document."""

    changed: bool
    kind: str
    """`error` for a message that was to be a result and is an error."""
    fields: list[tuple[str, int]] = []
    """Of a result in a whole message, the lengths of its fields in the document; else one without a name."""
    items: list[int] = []
    """The lengths of the items of a list, behind the fields."""


class _Given(msgspec.Struct):
    kind: str
    method: str
    spec: ToolSpec
    sent: dict[str, Any]
    is_message: bool = False
    """Whether the document is a whole message as it came."""
    version: str = ""
    """The protocol that the client speaks: a result in a whole message gets the form that this version gives it."""
    items: str = ""
    """The field of a result in a whole message that is a list whose items are wanted one by one."""


def relay(params: Any, body: bytes, mirror: Mirror | None, ask: Ask) -> tuple[Any, bytes]:
    """A document as a client may see it. Without a mirror nothing is private."""
    given = msgspec.convert(params, _Given)
    value = _read(given, body)
    if mirror is None:
        made, documents = _written(given, value, is_changed=True)
        return msgspec.to_builtins(made), b"".join(documents)
    mirror.begin()
    scribe = _LaterScribe(mirror)
    shown = _shown(mirror.guard, given, value, scribe)
    made, documents = _written(given, shown, is_changed=shown is not value)
    counted, settled = mirror.settle([*documents, *scribe.texts()], ask)
    done = scribe.done(settled[: len(documents)], settled[len(documents) :])
    lengths = [len(each) for each in done]
    made.fields = [(name, length) for (name, _), length in zip(made.fields, lengths, strict=False)]
    made.items = lengths[len(made.fields) :]
    return {**msgspec.to_builtins(made), **counted}, b"".join(done)


def relay_here(guard: Guard, params: Any, body: bytes) -> tuple[Made, bytes]:
    """The same in this process."""
    given = msgspec.convert(params, _Given)
    value = _read(given, body)
    shown = value if guard.is_off else _shown(guard, given, value, Scribe())
    made, documents = _written(given, shown, is_changed=shown is not value)
    return made, b"".join(documents)


def _shown(guard: Guard, given: _Given, value: Any, scribe: Scribe) -> Any:
    shape, sent = shape_of(given.kind, given.method), Sent.from_data(given.sent)
    shown = conceal(guard, shape, value, given.spec, sent, scribe=scribe)
    if given.is_message and shown is not value and "cacheScope" in shown:
        return {**shown, "cacheScope": "private"}  # tokens are one principal's
    return shown


def _read(given: _Given, body: bytes) -> Any:
    """The document, or the part of a message that is meant. An answer that is an error is read as one."""
    if not given.is_message:
        return msgspec.json.decode(body)
    try:
        try:
            data = msgspec.json.decode(body)
        except ValueError:
            data = read_leniently(body)
    except RecursionError:
        raise UpstreamError("The answer is nested too deeply to be read. Ask for less.") from None
    except ValueError as error:
        raise UpstreamError(f"The answer is no JSON: {short(str(error), 300)}.") from None
    data = data if isinstance(data, dict) else {}
    found = data.get("result" if given.kind == "result" else "params")
    if isinstance(found, dict) or given.kind != "result":
        return found if isinstance(found, dict) else {}
    words = data.get("error")
    fields = words if isinstance(words, dict) else {"message": words}
    code, said = fields.get("code"), fields.get("message")
    given.kind = "error"
    return [
        code if isinstance(code, int) and not isinstance(code, bool) else _INTERNAL_ERROR,
        said if isinstance(said, str) else "The server's answer is neither a result nor an error.",
        fields.get("data"),
    ]


def _written(given: _Given, value: Any, *, is_changed: bool) -> tuple[Made, list[bytes]]:
    """A value as JSON; a result in a whole message field by field."""
    made = Made(changed=is_changed, kind=given.kind)
    if not given.is_message and not is_changed:
        return made, []
    if not given.is_message or given.kind != "result":
        documents = [msgspec.json.encode(value)]
        made.fields = [("", len(documents[0]))]
        return made, documents
    if given.version:
        # Here and not above: a helper that never sees a large result does without the SDK.
        from sealyard.serve.messages.forms import finished, sieved  # noqa: PLC0415

        value = sieved(finished(value, given.method, given.version), given.method, given.version)
    items = value.get(given.items)
    items = items if given.items and isinstance(items, list) else []
    fields = {name: msgspec.json.encode(item) for name, item in value.items() if name != given.items}
    made.fields = [(name, len(document)) for name, document in fields.items()]
    documents = [*fields.values(), *map(msgspec.json.encode, items)]
    made.items = [len(document) for document in documents[len(fields) :]]
    return made, documents


class _LaterScribe(Scribe):
    """The same in a helper process, where tokens are known at the end: until then a mark stands for each blob."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._mark = f"blob-{secrets.token_hex(16)}-"
        self._blobs: list[tuple[str, str]] = []

    def kind_of(self, token: re.Match[str]) -> str:
        """The type of the value that a stand-in stands for."""
        return self._mirror.kind_of(token)

    def blob(self, text: str, encoding: str) -> str:
        """A mark for it."""
        self._blobs.append((text, encoding))
        return f"{self._mark}{len(self._blobs) - 1:08x}"

    def texts(self) -> list[bytes]:
        """Those whose tokens are to be written."""
        return [text.encode("utf-8", "surrogatepass") for text, _ in self._blobs]

    def done(self, documents: list[bytes], texts: list[bytes]) -> list[bytes]:
        """The documents with base64 of these texts in the place of the marks."""
        if not texts:
            return documents
        made = [
            super(_LaterScribe, self).blob(text.decode("utf-8", "surrogatepass"), encoding).encode()
            for text, (_, encoding) in zip(texts, self._blobs, strict=True)
        ]
        mark = re.compile(self._mark.encode() + rb"([0-9a-f]{8})")
        return [mark.sub(lambda match: made[int(match[1], 16)], each) for each in documents]
