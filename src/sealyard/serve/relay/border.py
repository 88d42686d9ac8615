"""The border of the relay: no real value passes it towards a client, no token towards an upstream.

Messages of an upstream are concealed where they enter, in `links.Link`, before any other code sees them; messages of a
client are revealed before they are routed. Both happen once: revealed text is never searched for tokens again.
"""

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from sealyard.access import Guards
from sealyard.errors import CallRefused, HelperFailed, SealyardError, UpstreamError
from sealyard.offload import short_work
from sealyard.privacy import TOKEN, Guard, Reveal, Sent
from sealyard.serve.relay.bulk import Json, read_fields
from sealyard.serve.relay.concealment import Made, conceal, relay_here, shape_of
from sealyard.serve.relay.routes import LISTS, Routes
from sealyard.values.documents import is_large, read_exactly, signs_of
from sealyard.values.tools import ToolSpec

logger = logging.getLogger(__name__)

_OPAQUE = frozenset({"_meta", "name", "cursor", "requestState", "level", "ref"})
"""Parameters of a client that are the protocol's own. `Screen.handles` reveals those that an upstream gave out."""
_HANDLES = frozenset({"name", "cursor", "requestState"})
_CONCEALED_ADDRESS = re.compile(rf"([a-z][a-z0-9+.-]*:(?://)?)?({TOKEN.pattern})/?", re.IGNORECASE | re.ASCII)
"""Addresses as `Screen` makes them. Some clients append a slash to a presumed host."""

_ADDRESS_PARTS = re.compile(r"[/?#&=:]")
"""Separators of the parts of an address."""


_ITEM_BYTES = 256 << 10  # of one item of a large list; a larger one is left out. Decoding takes 15 ms at worst.
_PARAMS_BYTES = 4 << 20  # see `_PARAMS_SIGNS`
_PARAMS_SIGNS = 20_000
"""Of an upstream's request or notification to a client: decoding and writing it takes 20 ms at worst."""


class Screen:
    """Stands between one principal's clients and the upstreams. `refresh` it before each request of a client."""

    def __init__(self, guards: Guards, routes: Routes, principal: str, *, place: str = "") -> None:
        self.principal = principal
        self.session = f"{principal}:{place}proxy"
        self._guard: Guard | None = None
        self._guards = guards
        self._routes = routes
        self._under_way = 0
        self._sent = Sent()
        """Values that requests under way have sent, to be concealed in the upstream's messages to them."""

    @property
    def guard(self) -> Guard:
        """The principal's guard as it was at the last `refresh`."""
        assert self._guard is not None, "no request of a client came before this"
        return self._guard

    @property
    def is_private(self) -> bool:
        """True if a request under way has sent something private."""
        return bool(self._sent)

    async def refresh(self) -> None:
        """Load the principal's guard anew, without values erased meanwhile.

        Raises:
            MCPError: The vault cannot be read: then nothing may pass.
        """
        if self._guard is not None and self._guard.is_off:
            return
        try:
            self._guard = await self._guards.of(self.session)
        except SealyardError as error:
            raise MCPError(INTERNAL_ERROR, f"{type(error).__name__}: {error}") from error

    # Towards an upstream

    @contextmanager
    def sending(self) -> Iterator[None]:
        """While a request is under way, conceal the values sent with it, however short, in all upstream messages."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._sent = Sent()

    async def error_of(self, error: SealyardError) -> SealyardError:
        """An error of a call as a client may see it."""
        return await self.guard.door.admit_error(error, sent=self._sent)

    async def arguments(self, spec: ToolSpec, arguments: Json) -> Json:
        """A tool's arguments as it gets them. Raises `CallRefused`, such as for an unknown token."""
        return await self.guard.reveal_latest(spec, arguments, self._sent)

    async def params(self, method: str, params: Mapping[str, Any]) -> Json:
        """A client's parameters as an upstream gets them; not a tool's arguments, which go by its schema.

        Raises:
            MCPError: They contain a token that this principal does not have.
        """
        own = _OPAQUE | {"arguments"} if method == "tools/call" else _OPAQUE
        return {name: value if name in own else await self._revealed(name, value) for name, value in params.items()}

    async def answer(self, answer: Json) -> Json:
        """A client's answer to an upstream's question. Raises `MCPError` as `params` does."""
        if isinstance(content := answer.get("content"), dict):  # of a form: under its fields' names
            answer = {**answer, "content": {await self._handle(key): value for key, value in content.items()}}
        return {name: value if name == "_meta" else await self._revealed(name, value) for name, value in answer.items()}

    async def handles(self, params: Json) -> Json:
        """Parameters with the upstream's own handles, where `serve.relay.concealment` replaced them by tokens.

        Raises:
            MCPError: They contain a token that this principal does not have.
        """
        if self._guard is None or self.guard.is_off:
            return params
        made = dict(params)
        for name in _HANDLES & made.keys():
            made[name] = await self._handle(made[name])
        if isinstance(given := made.get("inputResponses"), dict):
            made["inputResponses"] = {await self._handle(key): value for key, value in given.items()}
        if isinstance(ref := made.get("ref"), dict):
            own = {name: await self._handle(value) for name, value in ref.items()}
            made["ref"] = {**own, "uri": await self._address(own["uri"])} if isinstance(own.get("uri"), str) else own
        return made

    async def _handle(self, value: Any) -> Any:
        if not isinstance(value, str) or TOKEN.fullmatch(value) is None:
            return value
        return (await self._reveal({"handle": value}))["handle"]

    async def _revealed(self, name: str, value: Any) -> Any:
        if name == "uri" and isinstance(value, str):
            return await self._address(value)
        if name == "inputResponses" and isinstance(value, dict):
            return {key: await self.answer(each) if isinstance(each, dict) else each for key, each in value.items()}
        if name == "notifications" and isinstance(value, dict) and value.get("resourceSubscriptions"):
            followed = [await self._address(uri) for uri in value["resourceSubscriptions"]]
            return {**value, "resourceSubscriptions": followed}
        return (await self._reveal({name: value}))[name]

    async def _address(self, uri: str) -> str:
        found = _CONCEALED_ADDRESS.fullmatch(uri)
        if found is None:
            # A token that is a whole component of the address may be revealed; one that touches other text may not.
            is_apart = not any(TOKEN.sub("", part) and TOKEN.search(part) for part in _ADDRESS_PARTS.split(uri))
            return str((await self._reveal({"uri": uri}, how="inside" if is_apart else None))["uri"])
        return (found[1] or "") + str((await self._reveal({"rest": found[2]}))["rest"])

    async def _reveal(self, values: Json, *, how: Reveal | None = None) -> Json:
        try:
            return await self.guard.reveal_latest(self._routes.place(""), values, self._sent, how=how)
        except SealyardError as error:
            code = INVALID_PARAMS if isinstance(error, CallRefused) else INTERNAL_ERROR
            raise MCPError(code, f"{type(error).__name__}: {error}") from None

    # From an upstream

    async def result(self, upstream: str, method: str, params: Json, result: Json) -> Json:
        """A result as a client may see it."""
        return _own(result, await self._conceal("result", method, result, self._spec(upstream, method, params)))

    async def resources(self, upstream: str, page: Json) -> Json:
        """A page of resources as a client may see it."""
        return _own(page, await self._conceal("resources", "", page, self._routes.place(upstream)))

    async def request(self, upstream: str, method: str, params: Json) -> Json:
        """The parameters of a request to the client."""
        found: Json = await self._conceal("request", method, params, self._routes.place(upstream))
        return found

    async def notification(self, upstream: str, method: str, params: Json) -> Json:
        """The parameters of a notification."""
        found: Json = await self._conceal("notification", method, params, self._routes.place(upstream))
        said = {name: params[name] for name in ("data", "message") if isinstance(params.get(name), str)}
        shown = {name: self.guard.admit_said(found[name], said=each, sent=self._sent) for name, each in said.items()}
        return {**found, **shown} if shown else found

    async def error(self, upstream: str, error: MCPError) -> MCPError:
        """The same error, of the same class, with nothing private in it."""
        said = [error.code, error.message, error.data]
        code, message, data = await self._conceal("error", "", said, self._routes.place(upstream))
        if [code, message, data] == said:
            return error
        return type(error)(code if isinstance(code, int) else INTERNAL_ERROR, message, data)

    async def words(self, upstream: str, text: str) -> str:
        """A text: a progress report, or a reason why something failed."""
        found = str(await self._conceal("text", "", text, self._routes.place(upstream)))
        return self.guard.admit_said(found, said=text, sent=self._sent)

    async def may_report(self, upstream: str, *numbers: float | None) -> bool:
        """True if a progress report may be passed on: none of its numbers was sent as a private value."""
        said = [int(each) if each is not None and each.is_integer() else each for each in numbers]
        shown: list[Any] = await self._conceal("echo", "", said, self._routes.place(upstream))
        return shown == said

    async def address(self, uri: str) -> str:
        """An address that was revealed, as the client knows it."""
        return str(await self._conceal("uri", "", uri, self._routes.place("")))

    async def leaving(self, value: Any) -> Any:
        """A client's value as a record may hold it."""
        return await self.guard.door.conceal(value)

    # From an upstream, in a message that was not decoded

    async def large_result(
        self, upstream: str, method: str, params: Json, message: bytes | bytearray, version: str
    ) -> Json:
        """The result in a message, as a client of that version may see it; see `bulk`.

        Raises:
            MCPError: The message is an error, or cannot be looked through.
        """
        spec = self._spec(upstream, method, params)
        key = LISTS[method][1] if method in LISTS else ""
        version = "" if key else version
        made, document = await self._beside(
            "result", method, spec, message, is_message=True, version=version, items=key
        )
        if made.kind == "error":
            if signs_of(document) > _PARAMS_SIGNS:
                raise MCPError(
                    INTERNAL_ERROR, f"The error that {upstream!r} answered with is too large to be passed on."
                )
            code, said, data = read_exactly(document)
            raise MCPError(code if isinstance(code, int) else INTERNAL_ERROR, said, data)
        result = read_fields(made.fields, document)
        if key:
            result[key] = await self._items(upstream, made, document)
        return result

    async def large_params(self, upstream: str, kind: str, method: str, message: bytes | bytearray) -> Json:
        """The parameters of an upstream's request or notification in a message, as a client may see them.

        Raises:
            MCPError: They are too large for a client, or cannot be looked through.
        """
        _, document = await self._beside(kind, method, self._routes.place(upstream), message, is_message=True)
        if len(document) > _PARAMS_BYTES or signs_of(document) > _PARAMS_SIGNS:
            raise MCPError(INTERNAL_ERROR, f"What {upstream!r} asks or says is too large to be passed on.")
        found: Json = read_exactly(document)
        return found

    def _spec(self, upstream: str, method: str, params: Json) -> ToolSpec:
        """The tool whose rules apply to the answer to a request."""
        spec = self._routes.find_spec(upstream, str(params.get("name"))) if method == "tools/call" else None
        return spec or self._routes.place(upstream)

    async def _items(self, upstream: str, made: Made, document: bytes | bytearray) -> list[Any]:
        """The items of a list, decoded one by one while others go on."""
        found: list[Any] = []
        start = sum(length for _, length in made.fields)
        for length in made.items:
            async with short_work():
                if length <= _ITEM_BYTES:
                    found.append(read_exactly(document[start : start + length]))
                else:
                    logger.warning("Upstream %r lists something of %d bytes, which is left out.", upstream, length)
                start += length
        return found

    async def _beside(
        self, kind: str, method: str, spec: ToolSpec, document: bytes | bytearray, **about: Any
    ) -> tuple[Made, bytes | bytearray]:
        """Conceal a document in a helper process, or in a thread if there is none."""
        guard, offload = self.guard, self._guards.offload
        params = {"kind": kind, "method": method, "spec": guard.door.bare(spec), "sent": self._sent.to_data(), **about}
        with self._explained(spec):
            if guard.is_off and offload is not None:
                answered = await offload.run("relay", params, document, who=self.principal)
            elif guard.door.has_helpers:
                answered = await guard.door.run("relay", params, document)
            else:
                return await asyncio.to_thread(relay_here, guard, params, bytes(document))
        return msgspec.convert(answered.result, Made), answered.document

    async def _conceal(self, kind: str, method: str, value: Any, spec: ToolSpec) -> Any:
        if self.guard.is_off:
            return value
        if not is_large(value):
            with self._explained(spec):
                async with short_work():
                    return conceal(self.guard, shape_of(kind, method), value, spec, self._sent)
        with self._explained(spec):
            try:
                whole = msgspec.json.encode(value)
            except (TypeError, ValueError) as error:
                raise UpstreamError(f"{spec.upstream!r} sent something that is not JSON: {error}.") from None
        made, document = await self._beside(kind, method, spec, whole)
        return read_exactly(document) if made.changed else value

    @contextmanager
    def _explained(self, spec: ToolSpec) -> Iterator[None]:
        """Raise `MCPError` for what cannot be concealed."""
        try:
            yield
        except RecursionError:
            raise MCPError(INTERNAL_ERROR, f"The upstream {spec.upstream!r} sent data nested too deeply.") from None
        except HelperFailed as error:
            self.guard.count_failure()
            raise MCPError(INTERNAL_ERROR, f"What {spec.upstream!r} sent is withheld: {error}") from None
        except SealyardError as error:  # a scope that is full, a store that is closed
            raise MCPError(INTERNAL_ERROR, f"{type(error).__name__}: {error}") from None


def _own(result: Json, concealed: Json) -> Json:
    """Mark a concealed result as private: its tokens belong to one principal, so no shared cache may hold it."""
    if concealed is not result and "cacheScope" in concealed:
        return {**concealed, "cacheScope": "private"}
    return concealed
