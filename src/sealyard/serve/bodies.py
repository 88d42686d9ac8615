"""Request bodies that take long to decode are refused before anybody decodes them.

Four megabytes of empty lists hold the event loop for half a second. Text of the same size takes a millisecond.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sealyard.errors import HelperFailed, InvalidRequest
from sealyard.offload import Offload, check_document, is_dense
from sealyard.serve.dialogue import PRINCIPAL
from sealyard.serve.envelope import Refusal, envelope
from sealyard.serve.gate import request_id_of


async def check_body(body: bytes, offload: Offload | None, *, who: str) -> None:
    """Raise `Refusal` for a body with too many values or levels. A helper counts those of one that may have them."""
    if offload is None or not is_dense(body):
        return
    try:
        check_document("The body", *(await offload.run("document", None, body, who=who)).result)
    except InvalidRequest as error:
        raise Refusal("too_large", str(error)) from None
    except HelperFailed as error:
        raise Refusal("unavailable", f"The body could not be looked at: {error}") from None


class BoundedBodies:
    """Stands before an application that decodes bodies itself."""

    def __init__(self, app: ASGIApp, offload: Offload | None, *, path: str, most_bytes: int) -> None:
        """Look at the bodies of requests to `path`; those over `most_bytes` the application refuses itself."""
        self._app = app
        self._offload = offload
        self._path = path
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or scope["path"] != self._path or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        messages: list[Message] = []
        parts: list[bytes] = []
        size = 0
        is_whole = False
        while not is_whole and size <= self._most_bytes:
            message = await receive()
            messages.append(message)
            if message["type"] != "http.request":
                break
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            is_whole = not message.get("more_body", False)
        try:
            if is_whole:
                await check_body(b"".join(parts), self._offload, who=str(scope.get(PRINCIPAL, "")))
        except Refusal as refusal:
            await envelope(refusal, request_id_of(scope))(scope, receive, send)
            return
        await self._app(scope, _replayed(messages, receive), send)


def _replayed(messages: list[Message], receive: Receive) -> Receive:
    waiting = iter(messages)

    async def replay() -> Message:
        for message in waiting:
            return message
        return await receive()

    return replay
