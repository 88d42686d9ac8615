"""A guard's methods for the event loop: they wait instead of blocking it, and are cancelled with their caller.

A small value is searched at once. A large one goes to a helper process, which finds the private values in it and asks
here for their tokens. The keys of the vault stay in the gateway.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from sealyard.errors import ApprovalRefused, HelperFailed, SealyardError, UpstreamError
from sealyard.offload import HelperResult, Offload, turn
from sealyard.offload.documents import is_large, signs_of
from sealyard.offload.turns import spend
from sealyard.privacy.echo import Sent
from sealyard.privacy.known import NOTHING_SEEN, Seen
from sealyard.privacy.rules import Described
from sealyard.privacy.span import Span
from sealyard.privacy.stream import Search
from sealyard.values.tools import ToolSpec

if TYPE_CHECKING:
    from sealyard.privacy.guard import Guard

_T = TypeVar("_T")
_E = TypeVar("_E", bound=SealyardError)

_SENT_AT_ONCE = 5_000
"""Values that a helper is sent in one message: a few milliseconds to encode."""
_DECODED_BYTES = 256 << 10
_DECODED_SIGNS = 20_000
"""Of structure in a value that is decoded here: 4 ms at worst."""
_LONG_CHARACTERS = 1 << 14
"""A longer value is taken in by parts, and its token is made in a thread."""
_TOKENS_AT_ONCE = 100
"""Tokens that are made in one go: one or two milliseconds."""


class Door:
    """The way through one guard, and the memory that helpers keep of that guard."""

    def __init__(self, guard: "Guard", offload: Offload | None, described: Described | None, *, who: str) -> None:
        """`who` is the principal that helpers work for. Without helpers, or rules for them, a thread does the work."""
        self.key = secrets.token_hex(8)
        self._guard = guard
        self._offload = offload if described is not None else None
        self._described = described
        self._who = who

    async def conceal(self, value: Any) -> Any:
        """`Guard.conceal`. Raises what that does."""
        return (await self.conceal_each([value]))[0]

    async def conceal_each(self, values: list[Any]) -> list[Any]:
        """`Guard.conceal` for several values, each on its own. A large changed one is returned as `msgspec.Raw`."""
        guard = self._guard
        if guard.is_off or all(map(guard.shows_plain, values)):
            return values
        is_much = is_large(values) and not guard.conceals_quickly(values)
        if not is_much or self._offload is None:
            return await self._here(lambda: [guard.conceal(each) for each in values], is_much=is_much)
        try:
            return await self._replaced("conceal", None, values)
        except HelperFailed as error:
            raise self._withheld(error) from None

    async def conceal_document(self, document: bytes) -> msgspec.Raw:
        """`Guard.conceal` for a value in JSON. Raises what that does."""
        guard = self._guard
        if guard.is_off:
            return msgspec.Raw(document)
        if self._offload is None:
            shown = await asyncio.to_thread(lambda: msgspec.json.encode(guard.conceal(msgspec.json.decode(document))))
            return msgspec.Raw(shown)
        try:
            answered = await self.run("conceal", None, b"[%b]" % document)
        except HelperFailed as error:
            raise self._withheld(error) from None
        return msgspec.Raw(answered.document[1:-1] if answered.result["changed"] else document)

    def _withheld(self, error: HelperFailed) -> SealyardError:
        self._guard.count_failure()
        return SealyardError(f"What was to be shown is withheld: {error}")

    async def admit_text(self, text: str, *, sent: Sent | None = None) -> str:
        """`Guard.admit_text`."""
        guard = self._guard
        if guard.is_off:
            return text
        is_much = is_large(text)
        if not is_much or self._offload is None:
            return await self._here(lambda: guard.admit_text(text, sent=sent), is_much=is_much)
        try:
            (admitted,) = await self._replaced("words", {"sent": (sent or Sent()).to_data()}, [text])
        except HelperFailed as error:
            guard.count_failure()
            return f"(Withheld: {error})"
        if sent is not None:
            guard.note_said(sent, text)
        return str(admitted)

    async def admit_error(self, error: _E, *, sent: Sent | None = None) -> _E:
        """The same error as code may see it. Words of a server or a person are looked through.

        Ours hold nothing that the code did not write itself. To conceal that would show it which of its guesses are
        right.
        """
        if self._guard.is_off or not isinstance(error, UpstreamError | ApprovalRefused):
            return error
        message = await self.admit_text(str(error), sent=sent)
        return error if message == str(error) else type(error)(message)

    async def search(self, search: Search) -> str:
        """The text that a stream sends on, see `ConcealedStream`. Raises `HelperFailed`: then nothing may be sent."""
        found: list[Span] | None = None
        while True:
            try:
                text = next(search) if found is None else search.send(found)
            except StopIteration as end:
                return str(end.value)
            found = await self._find(text)

    async def _find(self, text: str) -> list[Span]:
        is_much = is_large(text)
        if not is_much or self._offload is None:
            return await self._here(lambda: self._guard.find(text), is_much=is_much)
        answered = await self.run("find", None, text.encode("utf-8", "surrogatepass"))
        return msgspec.json.decode(answered.document, type=list[Span])

    async def run(self, task: str, params: Any, document: bytes | bytearray) -> HelperResult:
        """Run a task that works with this guard, and add its counts. Raises `HelperFailed` too."""
        assert self._offload is not None
        answered = await self._offload.run(
            task, params, document, who=self._who, memory=self, on_query=self._answer_helper
        )
        self._guard.count(answered.result["hidden"], answered.result["failures"])
        return answered

    @property
    def has_helpers(self) -> bool:
        """True if `run` can be used."""
        return self._offload is not None

    def since(self, position: Any) -> tuple[Any, bytes, Any]:
        """For the helpers: what this guard has seen since."""
        if position is None:
            return self._described, b"", NOTHING_SEEN
        seen, position = self._guard.seen_since(position, _SENT_AT_ONCE)
        return None, msgspec.json.encode(seen), position

    @staticmethod
    def bare(spec: ToolSpec) -> ToolSpec:
        """The parts of a tool that a helper needs."""
        return msgspec.structs.replace(spec, title="", description="", input_schema={})

    @staticmethod
    async def _here(work: Callable[[], _T], *, is_much: bool) -> _T:
        """The result of work that needs no helper: much of it runs in a thread, little on the event loop."""
        if is_much:
            return await asyncio.to_thread(work)
        await turn()
        started = time.perf_counter()
        try:
            return work()
        finally:
            spend(started)

    async def _replaced(self, task: str, params: Any, values: list[Any]) -> list[Any]:
        try:
            document = msgspec.json.encode(values)
        except (TypeError, ValueError, RecursionError) as error:
            raise HelperFailed(f"it is no JSON ({type(error).__name__}).") from None
        answered = await self.run(task, params, document)
        changed = answered.result["changed"]
        if not changed:
            return values
        parts = msgspec.json.decode(answered.document, type=list[msgspec.Raw])
        made = dict(zip(changed, map(_decoded, parts), strict=True))
        return [made.get(number, value) for number, value in enumerate(values)]

    # Requests of a helper

    async def _answer_helper(self, asked: Any) -> Any:
        if "wanted" in asked:
            return await self._tokens(asked["wanted"])
        seen = msgspec.convert(asked["seen"], Seen)
        for part in _pieces(seen):
            await self._here(partial(self._guard.learn, part), is_much=False)
        return None

    async def _tokens(self, wanted: list[tuple[str, Any, Any]]) -> list[str]:
        scope = self._guard.scope
        assert scope is not None
        tokens: list[str] = []
        for start in range(0, len(wanted), _TOKENS_AT_ONCE):
            part = wanted[start : start + _TOKENS_AT_ONCE]
            is_much = sum(len(value) for _, value, _ in part if isinstance(value, str)) > _LONG_CHARACTERS
            tokens += await self._here(partial(scope.tokens, part), is_much=is_much)
        # A helper finds values faster than they are written: without this, the next caller of the store waits for all.
        await scope.room()
        return tokens


def _decoded(part: msgspec.Raw) -> Any:
    """A value from a helper: undecoded if decoding could take long."""
    data = bytes(part)
    is_text = data.startswith(b'"')
    is_small = len(data) <= _DECODED_BYTES and signs_of(data) <= _DECODED_SIGNS
    return msgspec.json.decode(data) if is_text or is_small else part.copy()


def _pieces(seen: Seen) -> Iterator[Seen]:
    """The values one by one, a long one in parts, then all that are public."""
    for kind, text in seen.known:
        yield from (Seen(known=[(kind, part)]) for part in _parts(text))
    for kind, text in seen.held:
        yield from (Seen(held=[(kind, part)]) for part in _parts(text))
    if seen.public:
        yield Seen(public=seen.public)


def _parts(text: str) -> Iterator[str]:
    """A text in parts of bounded length, cut at white space where there is any."""
    start = 0
    while len(text) - start > _LONG_CHARACTERS:
        end = start + _LONG_CHARACTERS
        blank = max(text.rfind(" ", start + 1, end), text.rfind("\n", start + 1, end))
        end = blank if blank > start else end
        yield text[start:end]
        start = end
    yield text[start:]
