"""The border of the relay: no real value passes it towards a client, no token towards an upstream.

What an upstream says is concealed where it enters, in `relay_links.Link`, before anything else sees it; what a client
says is revealed before it is routed. Both happen once: what was revealed is never read for tokens again.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from sealyard.errors import CallRefused, SealyardError
from sealyard.privacy.echo import Sent
from sealyard.privacy.guard import Guard, Reveal, text_encoding
from sealyard.privacy.span import TOKEN
from sealyard.serve.relay_shapes import (
    ERROR_DATA,
    RESOURCES,
    Shape,
    notification_shape,
    request_shape,
    result_shape,
)
from sealyard.values import ToolSpec
from sealyard.yard.guards import Guards

__all__ = ("Json", "Places", "Screen", "Screens")

Json = dict[str, Any]

_ORDER = {"structured": 0, "data": 1}
"""Fields say what is private; then the texts beside them are searched for the same values."""
_WORDS = frozenset({"structured", "data", "text"})
_OPAQUE = frozenset({"_meta", "name", "cursor", "requestState", "level"})
"""Parameters of a client that are the protocol's own."""
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*:(?://)?)?(.*)", re.IGNORECASE | re.ASCII | re.DOTALL)
_CONCEALED_ADDRESS = re.compile(rf"([a-z][a-z0-9+.-]*:(?://)?)?({TOKEN.pattern})/?", re.IGNORECASE | re.ASCII)
"""As `Screen` makes them. Some clients put a slash behind what they take for a host."""

_ADDRESS_PARTS = re.compile(r"[/?#&=:]")
"""What separates the parts of an address."""


class Places(Protocol):
    """Knows by which rules an answer is handled: `relay_routes.Routes`."""

    def find_spec(self, upstream: str, tool: str) -> ToolSpec | None:
        """A tool as its upstream listed it."""
        ...

    def place(self, upstream: str) -> ToolSpec:
        """What stands for everything of an upstream that is no tool it listed."""
        ...


class Screens:
    """One screen for each principal."""

    def __init__(self, guards: Guards, places: Places) -> None:
        self._guards = guards
        self._places = places
        self._screens: dict[str, Screen] = {}

    def of(self, principal: str) -> "Screen":
        """The principal's screen, always the same."""
        if principal not in self._screens:
            self._screens[principal] = Screen(self._guards, self._places, principal)
        return self._screens[principal]


class Screen:
    """Stands between one principal's clients and the upstreams. `refresh` it before each request of a client."""

    def __init__(self, guards: Guards, places: Places, principal: str) -> None:
        self.principal = principal
        self.session = f"{principal}:proxy"
        self._guard: Guard | None = None
        self._guards = guards
        self._places = places
        self._under_way = 0
        self._sent = Sent()
        """What requests under way have handed over, to be found in whatever an upstream says to them."""

    @property
    def guard(self) -> Guard:
        """The principal's guard as it was at the last `refresh`."""
        assert self._guard is not None, "no request of a client came before this"
        return self._guard

    @property
    def is_private(self) -> bool:
        """Whether a request under way has handed over something private."""
        return bool(self._sent)

    async def refresh(self) -> None:
        """Take note of what was erased meanwhile.

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
        """While a request is under way, no upstream's word shows what was handed over with it, however little it is."""
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
        """A tool's arguments as it gets them. Raises `CallRefused`, such as for a token that is none."""
        return await self.guard.reveal_latest(spec, arguments, self._sent)

    async def params(self, method: str, params: Mapping[str, Any]) -> Json:
        """A client's parameters as an upstream gets them; not a tool's arguments, which go by its schema.

        Raises:
            MCPError: A token in them is none of this principal.
        """
        own = _OPAQUE | {"arguments"} if method == "tools/call" else _OPAQUE
        return {name: value if name in own else await self._revealed(name, value) for name, value in params.items()}

    async def answer(self, answer: Json) -> Json:
        """A client's answer to an upstream's question. Raises `MCPError` as `params` does."""
        return {name: value if name == "_meta" else await self._revealed(name, value) for name, value in answer.items()}

    async def _revealed(self, name: str, value: Any) -> Any:
        if name == "uri" and isinstance(value, str):
            return await self._address(value)
        if name == "notifications" and isinstance(value, dict) and value.get("resourceSubscriptions"):
            followed = [await self._address(uri) for uri in value["resourceSubscriptions"]]
            return {**value, "resourceSubscriptions": followed}
        return (await self._reveal({name: value}))[name]

    async def _address(self, uri: str) -> str:
        found = _CONCEALED_ADDRESS.fullmatch(uri)
        if found is None:
            # An address is a text that a token is inside of. As a whole part of it nothing of code's own touches it.
            is_apart = not any(TOKEN.sub("", part) and TOKEN.search(part) for part in _ADDRESS_PARTS.split(uri))
            return str((await self._reveal({"uri": uri}, how="inside" if is_apart else None))["uri"])
        return (found[1] or "") + str((await self._reveal({"rest": found[2]}))["rest"])

    async def _reveal(self, values: Json, *, how: Reveal | None = None) -> Json:
        try:
            return await self.guard.reveal_latest(self._places.place(""), values, self._sent, how=how)
        except CallRefused as error:
            raise MCPError(INVALID_PARAMS, f"{type(error).__name__}: {error}") from None

    # From an upstream

    async def result(self, upstream: str, method: str, params: Json, result: Json) -> Json:
        """A result as a client may see it."""
        spec = self._places.find_spec(upstream, str(params.get("name"))) if method == "tools/call" else None
        return _own(result, await self._conceal(result_shape(method), result, spec or self._places.place(upstream)))

    async def resources(self, upstream: str, page: Json) -> Json:
        """A page of resources as a client may see it."""
        return _own(page, await self._conceal(RESOURCES, page, self._places.place(upstream)))

    async def request(self, upstream: str, method: str, params: Json) -> Json:
        """The parameters of a request to the client."""
        found: Json = await self._conceal(request_shape(method), params, self._places.place(upstream))
        return found

    async def notification(self, upstream: str, method: str, params: Json) -> Json:
        """The parameters of a notification."""
        found: Json = await self._conceal(notification_shape(method), params, self._places.place(upstream))
        said = {name: params[name] for name in ("data", "message") if isinstance(params.get(name), str)}
        told = {name: self.guard.admit_said(found[name], said=each, sent=self._sent) for name, each in said.items()}
        return {**found, **told} if told else found

    async def error(self, upstream: str, error: MCPError) -> MCPError:
        """The same error, of the same class, with nothing private in it."""
        message, data = await self._conceal(_error, [error.message, error.data], self._places.place(upstream))
        return error if (message, data) == (error.message, error.data) else type(error)(error.code, message, data)

    async def words(self, upstream: str, text: str) -> str:
        """A text: a progress report, or a reason why something failed."""
        found = str(await self._conceal(lambda value, leaf: leaf("text", value), text, self._places.place(upstream)))
        return self.guard.admit_said(found, said=text, sent=self._sent)

    async def address(self, uri: str) -> str:
        """An address that was revealed, as the client knows it."""
        return str(await self._conceal(lambda value, leaf: leaf("uri", value), uri, self._places.place("")))

    async def leaving(self, value: Any) -> Any:
        """What a client said, as a record may hold it."""
        return await self.guard.door.conceal(value)

    async def _conceal(self, shape: Shape, value: Any, spec: ToolSpec) -> Any:
        if self.guard.is_off:
            return value
        try:
            leaves = _leaves(shape, value)
            made = await self._replace(leaves, spec)
            if all(new is old for new, (_, old) in zip(made, leaves, strict=True)):
                return value
            rest = iter(made)
            return shape(value, lambda *_: next(rest))
        except RecursionError:
            raise MCPError(INTERNAL_ERROR, f"The upstream {spec.upstream!r} sent data nested too deeply.") from None
        except SealyardError as error:  # a scope that is full, a store that is closed
            raise MCPError(INTERNAL_ERROR, f"{type(error).__name__}: {error}") from None

    async def _replace(self, leaves: list[tuple[str, Any]], spec: ToolSpec) -> list[Any]:
        order = sorted(range(len(leaves)), key=lambda number: _ORDER.get(leaves[number][0], 2))
        files = {number: _TextBlob.find(leaves[number][1]) for number in order if leaves[number][0] == "blob"}
        given = [leaves[number][1] if number not in files else _text_in(files[number]) for number in order]
        shown = await self.guard.door.admit_texts(spec, given, self._sent)
        made: list[Any] = [None] * len(leaves)
        for number, old, new in zip(order, given, shown, strict=True):
            kind, value = leaves[number]
            if isinstance(new, msgspec.Raw):
                new = msgspec.json.decode(new)
            blob = files.get(number)
            if kind == "blob":
                made[number] = value if blob is None or new == old else blob.with_text(new)
            elif kind == "uri":
                made[number] = value if new == value else self._token_address(value)
            elif kind == "form":
                made[number] = await self._form(value, new)
            else:
                made[number] = new
        words = [number for number, (kind, _) in enumerate(leaves) if kind in _WORDS]
        if len(words) > 1:  # a value may be in pieces, one in each
            whole = await self.guard.door.admit_echoes([made[number] for number in words], sent=self._sent)
            for number, each in zip(words, whole, strict=True):
                made[number] = made[number] if made[number] == each else each
        return made

    async def _form(self, value: str, found: str) -> str:
        """A text of a form. What only looks like a name stays: one of many choices cannot be told from a person's."""
        if any(kind[1].lower() != "person" for kind in TOKEN.finditer(found)):
            return found
        return str(await self.guard.door.admit_echoes(value, sent=self._sent))

    def _token_address(self, value: str) -> str:
        """An address that leads back to exactly itself: all but its scheme as one token."""
        found = _ADDRESS.fullmatch(value)
        assert found is not None
        assert self.guard.scope is not None
        return (found[1] or "") + self.guard.scope.token("text", found[2])


class _TextBlob(msgspec.Struct, frozen=True):
    """Base64 of a text."""

    text: str
    encoding: str

    @classmethod
    def find(cls, value: str) -> "_TextBlob | None":
        """What is in it; None for anything that is no text."""
        try:
            content = base64.b64decode(value)
        except (binascii.Error, ValueError):
            return None
        encoding = text_encoding(content)
        return None if encoding is None else cls(content.decode(encoding), encoding)

    def with_text(self, text: Any) -> str:
        """The same with another text in it."""
        return base64.b64encode(str(text).encode(self.encoding, "replace")).decode()


def _text_in(blob: _TextBlob | None) -> str:
    return "" if blob is None else blob.text


def _own(result: Json, concealed: Json) -> Json:
    """Tokens are one principal's: nobody may keep them for others."""
    if concealed is not result and "cacheScope" in concealed:
        return {**concealed, "cacheScope": "private"}
    return concealed


def _leaves(shape: Shape, value: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []

    def note(kind: str, each: Any) -> Any:
        found.append((kind, each))
        return each

    shape(value, note)
    return found


def _error(value: Any, leaf: Callable[[str, Any], Any]) -> Any:
    message, data = value
    return [leaf("text", message), None if data is None else ERROR_DATA(data, leaf)]
