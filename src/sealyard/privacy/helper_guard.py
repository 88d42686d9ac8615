"""A session's guard inside a helper process: it finds private values, and asks the gateway for their tokens.

Only the gateway holds tokens and their keys. A helper writes a stand-in for each value: it has the form of a token, so
that no search looks into it, and a random type, so that nobody else can write one. At the end all of them are exchanged
for tokens at once.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from sealyard.offload import Query
from sealyard.privacy.echo import Sent
from sealyard.privacy.guard import Guard
from sealyard.privacy.known import Event
from sealyard.privacy.rules import Described, Privacy
from sealyard.privacy.vault.seal import Origin, PrivateValue

_AT_ONCE = 1_000
"""Values that the gateway is asked about in one message: some milliseconds of its time."""
_CHARACTERS = 1 << 16
"""Of all values in one message. A longer one is asked about alone."""


def conceal(params: Any, body: bytes, mirror: "Mirror", ask: Query) -> tuple[Any, bytes]:
    """`Guard.conceal` for each value of a list."""
    return mirror.replace(msgspec.json.decode(body), mirror.guard.conceal, ask)


def words(params: Any, body: bytes, mirror: "Mirror", ask: Query) -> tuple[Any, bytes]:
    """`Guard.admit_text` for each text of a list."""
    sent = Sent.from_data(params["sent"])
    return mirror.replace(msgspec.json.decode(body), lambda text: mirror.guard.admit_text(text, sent=sent), ask)


def find(params: Any, body: bytes, mirror: "Mirror", ask: Query) -> tuple[Any, bytes]:
    """`Guard.find` in one text."""
    spans = mirror.guard.find(body.decode("utf-8", "surrogatepass"))
    return {"hidden": {}, "failures": 0}, msgspec.json.encode(spans)


class Mirror:
    """A guard without a vault, and the report of its work to the gateway."""

    def __init__(self, privacy: Privacy) -> None:
        self._scope = _StandIns()
        self.guard = Guard(privacy, self._scope)  # type: ignore[arg-type]

    @classmethod
    def remember(cls, mirror: "Mirror | None", params: Any, body: bytes) -> "Mirror":
        """The mirror of a guard, updated with the values that guard has seen since; a new one if there is none yet."""
        if mirror is None:
            mirror = cls(msgspec.convert(params, Described).build())
        if body:
            mirror.guard.learn(msgspec.json.decode(body, type=list[Event]))
            mirror.guard.take_news()  # the gateway has it from there
        return mirror

    def replace(self, values: list[Any], show: Callable[[Any], Any], ask: Query) -> tuple[Any, bytes]:
        """The numbers of the values that `show` changes, the counts, and those values with tokens."""
        self.begin()
        changed: list[int] = []
        shown: list[Any] = []
        for number, value in enumerate(values):
            if (new := show(value)) is not value:
                changed.append(number)
                shown.append(new)
        document = msgspec.json.encode(shown) if shown else b""
        counted, (document,) = self.settle([document], ask)
        return {"changed": changed, **counted}, document

    def begin(self) -> None:
        """Forget what an earlier request, which may have failed, left behind."""
        self._scope.begin()
        self.guard.take_news()
        self.guard.take_counts()

    def settle(self, documents: list[bytes], ask: Query) -> tuple[dict[str, Any], list[bytes]]:
        """Report the seen values to the gateway; return the counts, and the documents with their tokens."""
        for news in _batches(self.guard.take_news(), lambda event: event.characters):
            ask({"seen": news})
        tokens: list[bytes] = []
        for wanted in _batches(self._scope.wanted, lambda each: len(str(each[1]))):
            tokens += (token.encode() for token in ask({"wanted": wanted}))
        hidden, failures = self.guard.take_counts()
        if tokens:
            documents = [self._scope.stand_in.sub(lambda match: tokens[int(match[1], 16)], each) for each in documents]
        return {"hidden": hidden, "failures": failures}, documents

    def kind_of(self, token: re.Match[str]) -> str:
        """The type of the value that a token, or a stand-in for one, stands for."""
        found = self._scope.stand_in.fullmatch(token[0].encode())
        return token[1].lower() if found is None else self._scope.wanted[int(found[1], 16)][0]


remember = Mirror.remember


class _StandIns:
    """In the place of a `Scope`: gives a stand-in for each value."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget all of them."""
        self._kind = f"z{secrets.token_hex(15)}"
        self.stand_in = re.compile(rf"__PII_{self._kind}_([0-9a-f]{{12}})__".encode())
        self.wanted: list[tuple[str, PrivateValue, str]] = []
        self._numbers: dict[tuple[str, str], int] = {}

    def token(self, kind: str, value: PrivateValue, *, origin: Origin = "tool") -> str:
        """The stand-in of a value: the same one for the same text, as with the tokens of a scope."""
        text = str(value)
        number = self._numbers.get((origin, text))
        if number is None:
            number = self._numbers[origin, text] = len(self.wanted)
            self.wanted.append((kind, text if isinstance(value, str) else value, origin))
        return f"__PII_{self._kind}_{number:012x}__"

    def reveal(self, value: str) -> str:
        """A text with values in place of stand-ins. Tokens stay: only the gateway knows their values."""
        return re.sub(self.stand_in.pattern.decode(), lambda match: str(self.wanted[int(match[1], 16)][1]), value)


def _batches(items: Sequence[Any], size: Callable[[Any], int]) -> Iterator[list[Any]]:
    """The items in lists that can be sent at once."""
    part: list[Any] = []
    left = _CHARACTERS
    for item in items:
        left -= size(item)
        if part and (left < 0 or len(part) >= _AT_ONCE):
            yield part
            part, left = [], _CHARACTERS - size(item)
        part.append(item)
    if part:
        yield part
