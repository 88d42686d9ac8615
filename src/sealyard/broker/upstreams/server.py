"""A server that offers tools, of any kind: its protocol, its answers as plain data, its progress.

Answers are read here from the result of a `tools/call`: a value and files. All input is written by an upstream and
hostile: any field may be missing or of another type than in the protocol.
"""

import asyncio
import base64
import binascii
import inspect
import json
import logging
import mimetypes
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from sealyard.errors import InvalidArguments, ToolFailed, UpstreamError
from sealyard.values.access import Grant
from sealyard.values.documents import read_exactly, read_leniently
from sealyard.values.tools import Definition, UpstreamStatus
from sealyard.wording import COMPLAINT_CHARACTERS, short

_log = logging.getLogger(__name__)

_KEPT_PROGRESS = 64  # reports that wait for their listener; older ones are dropped
_PROGRESS_CHARACTERS = 1_000  # of a report's message
_LAST_PROGRESS_SECONDS = 1.0  # for the last reports after the answer
_MOST_BLOCKS = 50_000
"""Blocks that are read, each in about a microsecond: more would hold up others for longer than they may notice."""
_COMPLAINT_BLOCKS = 1_000
"""Blocks of an error that are read: its text is cut in the middle anyway."""
_MOST_FILES = 256  # in one answer: each becomes a file in the workspace
_NAME_CHARACTERS = 80  # of a file's stem; file systems allow 255 bytes
_EXTENSIONS = {
    "application/gzip": ".gz",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/xml": ".xml",
    "audio/flac": ".flac",
    "audio/mp3": ".mp3",
    "audio/ogg": ".ogg",
    "audio/wav": ".wav",
    "audio/webm": ".webm",
    "audio/x-wav": ".wav",
    "text/markdown": ".md",
}
"""Of media types that Python does not know, or not in all of its versions."""
_KNOWN_TYPES = mimetypes.MimeTypes(filenames=())
"""Python's own table, without the files of the machine."""
_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int, float),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}
_NOT_JSON = object()

OnProgress = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""Progress so far, its total if known, and a message."""
OnTools = Callable[[str, list[Definition]], Awaitable[None]]
"""Gets an upstream's name and all its tools."""


class ResponseFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that came with an answer. `name` is a plain file name, unique in the answer."""

    name: str
    mime: str
    content: bytes
    title: str = ""
    """The server's own title, letter by letter."""


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's answer.

    In `value`, a file stands as `{"file": name, "mime_type": …, "bytes": …}`.
    """

    value: Any
    """`msgspec.Raw` where it is too large to be decoded on the event loop."""
    files: tuple[ResponseFile, ...] = ()
    message: bytes | bytearray = b""
    """The raw message, if it is too large to be decoded on the event loop; it then holds the whole answer."""
    sample: str | None = None
    """A sample of a value that was not decoded, as JSON; see `admission.sample_of`."""

    def read(self, *, unwrap: bool = False) -> "Response":
        """The answer; a message too large for the event loop is decoded here. Raises as the functions below do."""
        return to_answer(read_message(self.message), unwrap=unwrap) if self.message else self


class ToolServer(Protocol):
    """Something that answers calls: an MCP server, or functions of this process."""

    on_tools: OnTools | None
    """Called with its name and its tools after each listing."""

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
        unwrap: bool = False,
        grant: Grant | None = None,
    ) -> Response:
        """The tool's answer. Raises an `UpstreamError`.

        `grant` is that of the calling execution, for a function of this process: no other process gets it.
        """
        ...

    async def refresh(self) -> None:
        """Connect if need be and list the tools anew; they arrive through the callback given at construction."""
        ...

    def status(self) -> UpstreamStatus:
        """The upstream's current state."""
        ...

    async def close(self) -> None:
        """Stop it and leave nothing behind."""
        ...


class Progress:
    """Hands a call's progress to a callback, one after the other. If the callback is too slow, the oldest goes."""

    def __init__(self, callback: Callable[[float, float | None, str | None], Awaitable[None] | None]) -> None:
        self._callback = callback
        self._waiting: deque[tuple[float, float | None, str | None]] = deque(maxlen=_KEPT_PROGRESS)
        self._task: asyncio.Task[None] | None = None

    def push(self, progress: Any, total: Any, message: Any) -> None:
        """Take in a notification; an invalid one is dropped."""
        if not _is_number(progress):
            return
        said = message[:_PROGRESS_CHARACTERS] if isinstance(message, str) else None
        self._waiting.append((float(progress), float(total) if _is_number(total) else None, said))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._hand_over())

    async def finish(self) -> None:
        """Wait, for a bounded time, until the callback has received everything."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_LAST_PROGRESS_SECONDS)
            self.stop()

    def stop(self) -> None:
        """Stop reporting."""
        if self._task is not None:
            self._task.cancel()

    async def _hand_over(self) -> None:
        while self._waiting:
            try:
                given = self._callback(*self._waiting.popleft())
                if inspect.isawaitable(given):
                    await given
            except Exception:  # noqa: BLE001 - the caller's own callback; the call goes on without it
                _log.exception("A progress callback failed.")
                return


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def check_sendable(tool: str, arguments: dict[str, Any]) -> bytes:
    """The arguments as JSON. Raises `InvalidArguments` for other values, which would end a connection of the SDK."""
    try:
        encoded = msgspec.json.encode(arguments)
        # msgspec writes NaN as `null` without an error.
        if b"null" in encoded:
            json.dumps(arguments, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArguments(f"The arguments of {tool!r} cannot be written as JSON: {error}.") from error
    return encoded


# Reading answers


def to_answer(result: Mapping[str, Any], *, unwrap: bool = False) -> Response:
    """The answer in a `tools/call` result, as it came over the wire.

    The value is `structuredContent` if there is any; else the one content block, or a list of them; else `None`.
    Beside structured content, text blocks are a second copy of it and are not read: a server that lists 50,000 names
    sends a block for each. Files among the blocks are read either way.
    A text that is JSON becomes data. With `unwrap`, `{"result": x}` becomes `x`.

    Raises:
        ToolFailed: The result says that it is an error.
        UpstreamError: It has more blocks or files than are read.
    """
    blocks = result.get("content")
    blocks = blocks if isinstance(blocks, list) else []
    structured = result.get("structuredContent")
    if result.get("isError") is True:
        texts = [_read(block, []) for block in blocks[:_COMPLAINT_BLOCKS]]
        raise ToolFailed(_complaint("\n".join(text for text in texts if isinstance(text, str)), structured))
    if structured is not None:
        blocks = [block for block in blocks if not isinstance(block, dict) or block.get("type") != "text"]
    if len(blocks) > _MOST_BLOCKS:
        raise UpstreamError(
            f"The answer has {len(blocks):,} content blocks; at most {_MOST_BLOCKS:,} are read. "
            "Ask the tool for fewer, or for structured content."
        )
    files: list[ResponseFile] = []
    parts = [_read(block, files) for block in blocks]
    if structured is not None:
        if unwrap and isinstance(structured, dict) and structured.keys() == {"result"}:
            structured = structured["result"]
        return Response(value=structured, files=tuple(files))
    return Response(value=_value(parts), files=tuple(files))


def read_message(message: bytes | bytearray) -> dict[str, Any]:
    """The result in a JSON-RPC message that answers a call.

    Raises:
        ToolFailed: It holds an error.
        UpstreamError: It holds neither, or is not JSON.
    """
    data = decode_answer(message)
    result = data.get("result") if isinstance(data, dict) else None
    if isinstance(result, dict):
        return result
    words = data.get("error") if isinstance(data, dict) else None
    words = words.get("message") if isinstance(words, dict) else words
    if isinstance(words, str):
        raise ToolFailed(short(words, COMPLAINT_CHARACTERS))
    raise UpstreamError("The server's answer is neither a result nor an error.")


def decode_answer(message: bytes | bytearray) -> Any:
    """The JSON in an upstream's message, read as leniently as possible. Raises `UpstreamError` if it cannot be read."""
    try:
        try:
            return read_exactly(message)
        except ValueError:
            return read_leniently(message)
    except RecursionError:
        raise UpstreamError("The answer is nested too deeply to be read. Ask for less.") from None
    except ValueError as error:
        raise UpstreamError(f"The answer is not JSON: {short(str(error), 300)}.") from None


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """`value` with other names for its files."""
    if isinstance(value, dict):
        if isinstance(name := value.get("file"), str) and name in names:
            return value | {"file": names[name]}
        return {key: renamed(item, names) for key, item in value.items()}
    return [renamed(item, names) for item in value] if isinstance(value, list) else value


def with_plain_names(answer: Response) -> Response:
    """The answer with a plain name for each file, and without a value with the place of each file in it.

    Raises `UpstreamError` if it has more files than are read.
    """
    if len(answer.files) > _MOST_FILES:
        raise UpstreamError(f"The answer has more than {_MOST_FILES} files.")
    files: list[ResponseFile] = []
    names: dict[str, str] = {}
    for file in answer.files:
        wanted = file.name.rstrip("/").rpartition("/")[2]
        name = _file_name(wanted, file.mime, "resource", {each.name for each in files})
        if name != file.name:
            names[file.name] = name
            file = msgspec.structs.replace(file, name=name, title=file.title or wanted)
        files.append(file)
    value = answer.value
    if value is None and files:
        places = [_place_of(file.name, file.mime, file.content) for file in files]
        value = places[0] if len(places) == 1 else places
    return msgspec.structs.replace(answer, value=renamed(value, names) if names else value, files=tuple(files))


def to_message(value: bytes, files: Sequence[ResponseFile]) -> bytes:
    """A message with an answer that is too large for the event loop: its value, which is JSON, and its files."""
    blocks = [
        {"type": "resource", "resource": {"uri": file.title or file.name, "mimeType": file.mime, "blob": file.content}}
        for file in files
    ]
    return b'{"result":{"structuredContent":%b,"content":%b}}' % (value, msgspec.json.encode(blocks))


def _place_of(name: str, mime: str, content: bytes) -> dict[str, Any]:
    """What stands for a file in a value."""
    return {"file": name, "mime_type": mime, "bytes": len(content)}


class Declared:
    """The shape that a tool declares for its answers, one level deep, read once.

    It only causes a warning, so no schema of an upstream is ever evaluated: hostile patterns and references have no
    bound on cost.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        required, properties = schema.get("required"), schema.get("properties")
        self._types = _types(schema)
        self._required = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        fields = properties.items() if isinstance(properties, dict) else ()
        self._fields = [(name, _types(field)) for name, field in fields if isinstance(field, dict)]

    def misfit(self, value: Any) -> str | None:
        """The first difference between `value` and the schema; `None` if it fits."""
        if not _fits(self._types, value):
            return f"the answer is {_no(self._types)}"
        if not isinstance(value, dict):
            return None
        for name in self._required:
            if name not in value:
                return f"{short(name, 60)!r} is missing"
        for name, types in self._fields:
            if name in value and not _fits(types, value[name]):
                return f"{short(name, 60)!r} is {_no(types)}"
        return None


_Types = tuple[tuple[str, ...], tuple[type, ...]] | None
"""Names of JSON types, and their classes; None allows everything."""


def _types(schema: Mapping[str, Any]) -> _Types:
    """The types that a schema names, if all of them are known."""
    declared = schema.get("type")
    names = [declared] if isinstance(declared, str) else declared
    if not isinstance(names, list) or not all(isinstance(name, str) and name in _JSON_TYPES for name in names):
        return None
    return tuple(names), tuple(each for name in names for each in _JSON_TYPES[name])


def _fits(types: _Types, value: Any) -> bool:
    return types is None or ("boolean" in types[0] if isinstance(value, bool) else isinstance(value, types[1]))


def _no(types: _Types) -> str:
    return f"not of type {' or '.join(types[0]) if types else ''}"


def _value(parts: list[Any]) -> Any:
    if not parts:
        return None
    values = [_parse(part) if isinstance(part, str) else part for part in parts]
    if len(parts) == 1:
        return parts[0] if values[0] is _NOT_JSON else values[0]
    if any(value is _NOT_JSON for value in values) and all(isinstance(part, str) for part in parts):
        return "\n".join(parts)
    return [part if value is _NOT_JSON else value for part, value in zip(parts, values, strict=True)]


def _parse(text: str) -> Any:
    """The data in `text`, or `_NOT_JSON`. A bare number counts only if it is written as Python would write it.

    So nothing is lost: `1.50` and `007` and `12e4567` may be a price, a code and a hash.
    """
    stripped = text.strip()
    if stripped.startswith(("{", "[")):
        try:
            return read_exactly(stripped)
        except (ValueError, RecursionError):
            pass  # perhaps only because of NaN, which many servers write
        try:
            return json.loads(stripped, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            return _NOT_JSON
    if stripped in {"true", "false", "null"}:
        return {"true": True, "false": False, "null": None}[stripped]
    if len(stripped) <= 32 and re.fullmatch(r"-?\d+(\.\d+)?", stripped, re.ASCII):
        number = float(stripped) if "." in stripped else int(stripped)
        return number if repr(number) == stripped else _NOT_JSON
    return _NOT_JSON


def _read(block: Any, files: list[ResponseFile]) -> Any:
    """A content block as part of the value: a text, a file's path, a link, or itself if its type is unknown."""
    if not isinstance(block, dict):
        return block
    kind = block.get("type")
    if kind == "text":
        return _text(block.get("text"))
    if kind in {"image", "audio"}:
        return _keep(block.get("data"), block.get("mimeType"), "", kind, files)
    if kind == "resource" and isinstance(resource := block.get("resource"), dict):
        if "blob" in resource:
            name = _text(resource.get("uri")).rstrip("/").rpartition("/")[2]
            return _keep(resource["blob"], resource.get("mimeType"), name, "resource", files)
        return _text(resource.get("text"))
    if kind == "resource_link":
        keys = {"uri": "uri", "name": "name", "description": "description", "mime_type": "mimeType"}
        return {key: block.get(wire) for key, wire in keys.items()}
    return block


def _keep(data: Any, mime: Any, name: str, kind: str, files: list[ResponseFile]) -> Any:
    """Take a file out of a block; returns its path, or the reason why the file is missing."""
    mime = mime if isinstance(mime, str) and len(mime) <= 120 else "application/octet-stream"
    try:
        text = _text(data).translate(_STANDARD_ALPHABET)
        content = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return {"file": None, "mime_type": mime, "bytes": 0, "error": "Its data is not base64."}
    if len(files) >= _MOST_FILES:
        raise UpstreamError(f"The answer has more than {_MOST_FILES} files.")
    title = name
    name = _file_name(title, mime, kind, {file.name for file in files})
    files.append(ResponseFile(name=name, mime=mime, content=content, title=title))
    return _place_of(name, mime, content)


_STANDARD_ALPHABET = {ord("-"): "+", ord("_"): "/", ord("\n"): None, ord("\r"): None, ord(" "): None}


def _file_name(wanted: str, mime: str, kind: str, taken: set[str]) -> str:
    kind_of_file = mime.partition(";")[0].strip().lower()
    extension = _EXTENSIONS.get(kind_of_file) or _KNOWN_TYPES.guess_extension(kind_of_file, strict=False) or ".bin"
    stem, dot, suffix = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).strip(".-_").rpartition(".")
    if not dot:
        stem, suffix = suffix, ""
    if not re.fullmatch(r"[A-Za-z0-9]{1,8}", suffix):
        stem, suffix = f"{stem}.{suffix}".strip("."), extension[1:]
    stem = stem[:_NAME_CHARACTERS] or kind
    number = 1
    name = f"{stem}.{suffix}"
    while name in taken:
        number += 1
        name = f"{stem}-{number}.{suffix}"
    return name


def _complaint(text: str, structured: Any) -> str:
    if not text.strip() and structured is not None:
        text = msgspec.json.encode(structured).decode()
    return short(text.strip(), COMPLAINT_CHARACTERS) or "The tool failed without saying why."


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
