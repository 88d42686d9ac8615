"""The border between real values and tokens, for one session.

A real value passes it in one direction only: out to a tool, in `Guard.reveal`. Everything bound for the model, the
journal, the audit log or a log file goes through `Guard.conceal`, and through nothing else.
"""

import asyncio
import codecs
import re
import secrets
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

import msgspec

from sealyard.errors import ApprovalRefused, HelperFailed, SealyardError, UnknownToken, UpstreamError
from sealyard.offload import HelperResult, Offload, short_work
from sealyard.privacy.detect.encodings import EncodedValues
from sealyard.privacy.detect.scanner import Scanner, ScanRules
from sealyard.privacy.echo import Echo, Echoes, Leaves, OwnWords, Piece, Sent, find_echoes, nearest
from sealyard.privacy.known import Event, KnownValues
from sealyard.privacy.rules import Described, Handling, Privacy, Reveal, is_quick
from sealyard.privacy.span import TOKEN, TYPES, Detector, Span, without_tokens
from sealyard.privacy.stream import ConcealedStream, Search
from sealyard.privacy.vault.scope import Scope, count_tokens
from sealyard.values.documents import is_large, read_exactly, signs_of
from sealyard.values.tools import ToolSpec

_MANY_TOKENS = 50
"""As many are revealed and remembered in about 5 ms."""
_NOTED_CHARACTERS = 256  # of each; a longer string is looked through again
_MOST_NOTED = 10_000
"""Strings remembered as sent, and the length of each, at most: a few megabytes."""
_SAID_CHARACTERS = 512
"""Of earlier messages of a call, to find a value that comes in pieces."""
_BY_PLACE = frozenset(
    "person address username password national_id tax_id passport driver_license medical_id bank_account text".split()
)
"""Types that follow from where a value stands. Their values are remembered, to be found again in prose too."""
_SENT_AT_ONCE = 5_000
_SENT_CHARACTERS = 1 << 18
"""Events that a helper is sent in one message, and their characters: a few milliseconds to encode."""
_DECODED_BYTES = 256 << 10  # of the value itself
_DECODED_SIGNS = 20_000
"""Of structure in a value that is decoded here: 4 ms at worst."""
_LONG_CHARACTERS = 1 << 14
"""A longer value is taken in by parts, and its token is made in a thread."""
_TOKENS_AT_ONCE = 100
"""Tokens that are made in one go: one or two milliseconds."""

_T = TypeVar("_T")
_E = TypeVar("_E", bound=SealyardError)


class Guard:
    """Conceals and reveals for one session. Its methods may run in any thread."""

    def __init__(
        self,
        privacy: Privacy,
        scope: Scope | None,
        *,
        refresh: Callable[[], Awaitable[object]] | None = None,
        offload: Offload | None = None,
        principal: str = "",
    ) -> None:
        """`refresh` brings the scope up to date with what other processes added to it.

        `offload` searches large values for `door`, in the turn of `principal`; without it a thread does.
        """
        self._privacy = privacy
        self._refresh = refresh
        self.scope = scope
        """None when nothing is concealed."""
        self._known = KnownValues()
        """Hidden values: searched for in what enters."""
        self._echoes = Echoes(is_later=True)
        """Values that tools were handed: searched for in what enters, whatever stands beside them."""
        self._guessed = Echoes()
        """The same values, to find every part of one in what code writes."""
        self._noted: set[tuple[str, bool]] = set()
        """Short strings with tokens that were handed over, as code wrote them, and whether to a tool in `strict`."""
        self._own = OwnWords()
        """The parts that were found there: they stay as code wrote them."""
        self._held = KnownValues()
        """Values that code may hold as they are: searched for in what leaves. Code that prints a guess at anything else
        must not learn whether it is right."""
        self._public: dict[str, None] = {}
        """In the order in which they were declared."""
        self._log: list[Event] = []
        """Everything above in the order in which it came, for other processes of the session."""
        self._reported = 0
        self.door = Door(self, offload, None if offload is None else privacy.described, who=principal)
        """The way through this guard for the event loop."""
        self._counts: Counter[str] = Counter()
        """Values that became tokens, by type, and under an empty one the things withheld whole."""
        self._counting = threading.Lock()
        scanner = privacy.scanner
        self._entry = scanner.with_detectors([self._known, EncodedValues(scanner.find_each)])
        self._repeated = _only(self._known)
        self._encoded = EncodedValues(lambda texts: list(map(self._find_plain, texts)), is_thorough=True)
        if privacy.mode == "off":
            self._exit = _only(self._held, self._encoded)
        elif privacy.is_relaxed:
            self._exit = scanner.with_detectors([self._held, self._encoded])
        else:
            # Code holds nothing real, and must not learn by printing guesses which of them a tool has sent.
            self._exit = scanner.with_detectors([EncodedValues(scanner.find_each)])

    @property
    def is_off(self) -> bool:
        """True if nothing is concealed."""
        return self.scope is None

    @property
    def is_holding_values(self) -> bool:
        """True if code may hold real values: the gateway's mode, or that of one of its tools, is not `strict`."""
        return self._privacy.is_relaxed

    def conceals_quickly(self, value: Any) -> bool:
        """True if `conceal` of a value takes little time, however long it is."""
        # Where code may hold real values, its output is searched in every known encoding.
        return not self._privacy.is_relaxed and self._privacy.plain is not None and is_quick(value)

    def admits_quickly(self, value: Any, sent: Sent) -> bool:
        """The same for `admit`. Finding the values that tools were handed takes longer than all the rest."""
        return not sent and not self._echoes and self.conceals_quickly(value)

    @property
    def is_remembering(self) -> bool:
        """True if something would be lost with this guard."""
        return bool(self._known.texts or self._held.texts or self._public)

    def take_counts(self) -> tuple[dict[str, int], int]:
        """The number of values that became tokens, by type, and of things withheld whole; both since the last call."""
        with self._counting:
            hidden = dict(self._counts)
            self._counts.clear()
        failures = hidden.pop("", 0)
        return hidden, failures

    def count(self, hidden: Mapping[str, int], failures: int) -> None:
        """Add counts of work done elsewhere for this session."""
        with self._counting:
            self._counts.update({**hidden, "": failures})

    def count_failure(self) -> None:
        """Something was withheld whole."""
        self.count({}, 1)

    def for_principal(self, principal: str) -> "Guard":
        """This guard with all its memory, for another principal: helpers search large values in that one's turn."""
        guard = copy(self)
        guard.door = self.door.for_principal(guard, principal)
        return guard

    # Its memory, for a guard of the same session in another process

    def learn(self, events: Iterable[Event]) -> None:
        """Know these too, and log those that are new. Raises `LimitReached`."""
        for event in events:
            match event.what:
                case "known":
                    is_new = self._known.add(event.text, event.type)
                case "held":
                    is_new = self._held.add(event.text, event.type)
                case "public":
                    is_new = event.text not in self._public
                    self._public[event.text] = None
                case "handed":
                    is_new = self._echoes.add(event.pieces)
                case _:
                    is_new = self._own.add(event.text)
            if is_new:
                self._log.append(event)

    def seen_since(self, position: int) -> tuple[list[Event], int]:
        """Some of the events after a position in the log, and the position after them."""
        events = self._log[position : position + _SENT_AT_ONCE]
        sizes = accumulate(event.characters for event in events)
        count = sum(1 for size in sizes if size <= _SENT_CHARACTERS)
        events = events[: max(1, count)]
        return events, position + len(events)

    def take_news(self) -> list[Event]:
        """The events since the last call."""
        events = self._log[self._reported :]
        self._reported += len(events)
        return events

    # To tools

    def reveal(
        self, spec: ToolSpec, arguments: dict[str, Any], sent: Sent | None = None, *, how: Reveal | None = None
    ) -> dict[str, Any]:
        """The arguments as the tool gets them. Each string with a private value in it is added to `sent`.

        `how` counts instead of what the config says of the tool.

        Raises:
            UnknownToken: They hold something that looks like a token and is not one of this session.
            CallRefused: A token is inside a longer text, and the tool is handed only those that stand alone.
            LimitReached: The session has handed over more than it can keep track of.
        """
        if self.scope is None:
            return arguments
        how = how or self._privacy.reveal(spec)
        revealed = arguments
        if how != "never":
            note = partial(self._hand_over, sent, self._privacy.handling(spec).mode == "strict")
            schema, is_inside = spec.input_schema, how == "inside"
            revealed = self.scope.reveal(arguments, schema=schema, is_inside=is_inside, on_text=note)
        self.learn(Event("own", text=part) for part in self._own.parts(arguments, self._guessed))
        return revealed

    def _hand_over(self, sent: Sent | None, is_strict: bool, written: str, pieces: list[Piece]) -> None:
        """Remember a string that a tool is handed, as code wrote it and in revealed pieces."""
        # By what code wrote, not by the values: time must not show whether two tokens stand for the same.
        noted = (written, is_strict)
        if noted not in self._noted:
            for text, kind in pieces:
                if kind is not None:
                    # In `output` the answer may repeat it, and goes to the code unchanged.
                    self._remember(kind, text, is_held=not is_strict)
            self.learn([Event("handed", pieces=tuple(nearest(pieces)))])
            self._guessed.add(pieces)
            if len(written) <= _NOTED_CHARACTERS and len(self._noted) < _MOST_NOTED:
                self._noted.add(noted)
        if sent is not None:
            sent.add(pieces)

    async def reveal_latest(
        self, spec: ToolSpec, arguments: dict[str, Any], sent: Sent | None = None, *, how: Reveal | None = None
    ) -> dict[str, Any]:
        """The same, with what another gateway has given out in the meantime. Raises as `reveal` does."""
        if self.scope is None:
            return arguments
        tokens = count_tokens(arguments, _MANY_TOKENS)
        if not tokens and not self._guessed:
            return arguments
        # In a thread where there is so much to reveal or to look through that others would have to wait.
        is_much = tokens >= _MANY_TOKENS or (bool(self._guessed) and is_large(arguments))
        work = partial(self.reveal, spec, arguments, sent, how=how)
        try:
            return await asyncio.to_thread(work) if is_much else work()
        except UnknownToken:
            if self._refresh is None:
                raise
        await self._refresh()
        return await asyncio.to_thread(work) if is_much else work()

    def _remember(self, kind: str, value: str | float, *, is_held: bool = False) -> None:
        """Know a hidden value from now on; it is held if code may hold it as it is."""
        text = str(value)
        if text not in self._known.texts:
            self.learn([Event("known", kind, text)])
        if is_held and text not in self._held.texts:
            self.learn([Event("held", kind, text)])

    # From tools

    def admit(self, spec: ToolSpec, value: Any, *, sent: Sent | None = None) -> Any:
        """An upstream's answer as the code may see it; `sent` is what the call handed over.

        In `strict` everything private is a token from here on. In the other modes it stays, and what was found is
        remembered: to be concealed when it leaves, or never to be if the tool's mode is `off`.

        Raises:
            UpstreamError: It cannot be searched, so it is withheld.
            LimitReached: There are more private values than the session can have.
        """
        if self.scope is None:
            return value
        with self._withholding(UpstreamError, f"The answer of {spec.full_name!r}"):
            handling = self._privacy.handling(spec)
            if self._is_plain_entering(spec, handling, value, sent):
                return value
            found: dict[str, Any] = {"schema": spec.output_schema, "whole": handling.whole, "visible": handling.visible}
            if handling.mode == "off":
                # A value hidden by another tool's mode stays hidden, whichever tool repeats it.
                value = self._conceal_entering(self._repeated, value, sent)
                self._publish(value, schema=spec.output_schema)
                return value
            if handling.visible:
                hidden = {str(each) for _, each in self._privacy.scanner.find_values(value, **found)}
                self._publish(value, schema=spec.output_schema, but=hidden)
            if handling.mode == "strict":
                return self._conceal_entering(self._entry, value, sent, **found)
            for kind, each in self._privacy.scanner.find_values(value, **found):
                self._remember(kind, each, is_held=True)
            return value

    def admits_plain(self, spec: ToolSpec, value: Any, sent: Sent) -> bool:
        """True if `admit` returns an answer unchanged, decided in microseconds; False where that takes a search."""
        return self.scope is not None and self._is_plain_entering(spec, self._privacy.handling(spec), value, sent)

    def _is_plain_entering(self, spec: ToolSpec, handling: Handling, value: Any, sent: Sent | None) -> bool:
        plain = self._privacy.plain
        if plain is None or value not in plain or handling.whole or self._privacy.describes(spec):
            return False
        if not sent and not self._echoes and not self._known:
            return True
        leaves = Leaves(value)
        texts = leaves.texts()
        if self._known.may_hold(texts):
            return False
        if sent and (not sent.values.keys().isdisjoint(texts) or sent.known.may_hold(texts)):
            return False
        if sent and _without_numbers(value, sent.numbers, lambda kind, number: kind) != value:
            return False
        return not leaves.find(self._indexes(sent), self._own)

    def admit_file(self, spec: ToolSpec, content: bytes, *, sent: Sent | None = None) -> bytes:
        """A file of an answer as the code may see it: text is treated like the answer, anything else is left alone."""
        encoding = None if self.scope is None else self.file_encoding(spec, content, sent=sent)
        if encoding is None:
            return content
        text = content.decode(encoding)
        admitted = self.admit(spec, text, sent=sent)
        return content if admitted is text else str(admitted).encode(encoding, "replace")

    def file_encoding(self, spec: ToolSpec, content: bytes, *, sent: Sent | None = None) -> str | None:
        """The encoding of a file of an answer, if it is text.

        Raises:
            UpstreamError: It looks like UTF-16 and holds something private in another encoding.
        """
        encoding = _text_encoding(content)
        if encoding is not None and encoding.startswith("utf-16"):
            # Code that writes to a file may have made it look so, to hide what it appends as plain text.
            other = b"\n".join(_PLAIN_BYTES.findall(content)).decode("utf-8", "replace")
            if self.admit(spec, other, sent=sent) != other:
                raise UpstreamError(
                    f"The answer of {spec.full_name!r} is withheld: a file in it is UTF-16 and holds a private value "
                    "in another encoding."
                )
        return encoding

    def admit_text(self, text: str, *, sent: Sent | None = None) -> str:
        """An upstream's message beside its answers, such as progress, as anybody may see it."""
        if self.scope is None:
            return text
        try:
            found = self._entry.conceal(self.admit_said(text, said=text, sent=sent), self._replace_entering)
            return str(self._conceal_sent(found, sent))
        except SealyardError:
            raise
        except Exception as error:  # noqa: BLE001 - as in `_withholding`
            self.count_failure()
            return f"(Withheld: {_blame(error)}.)"

    def admit_said(self, text: str, *, said: str, sent: Sent | None) -> str:
        """An admitted message without the rest of a value that earlier ones began; `said` is how the server sent it."""
        indexes = self._indexes(sent)
        if sent is None or not indexes:
            return text
        earlier = f"{sent.said}\n"
        self.note_said(sent, said)
        size = len(earlier)
        found = [
            echo for echo in find_echoes(without_tokens(earlier + text), indexes, own=self._own) if echo.end > size
        ]
        ours = [echo._replace(start=max(0, echo.start - size), end=echo.end - size) for echo in found]
        return self._write_echoes(text, ours)

    @staticmethod
    def note_said(sent: Sent, said: str) -> None:
        """Remember the end of a message: the next one may go on with a value that this one begins."""
        sent.said = f"{sent.said}\n{said}"[-_SAID_CHARACTERS:]

    def admit_echoes(self, value: Any, *, sent: Sent | None = None) -> Any:
        """`value` with only the values that tools were sent concealed: for text admitted in parts, or not searched.

        Raises:
            UpstreamError: It cannot be looked through.
        """
        if self.scope is None:
            return value
        with self._withholding(UpstreamError, "What a server says"):
            return self._conceal_sent(value, sent)

    def is_repeated_to(self, sent: Sent | None) -> bool:
        """True if anything was handed over that a server could repeat."""
        return bool(sent) or bool(self._echoes)

    # To everybody else

    def conceal(self, value: Any) -> Any:
        """The one way out: `value`, any JSON data, with a token in the place of everything private.

        Raises:
            SealyardError: It cannot be looked through, so it cannot be shown.
        """
        if self.scope is None:
            return value
        with self._withholding(SealyardError, "What was to be shown"):
            if self.shows_plain(value):
                return value
            if self._privacy.is_relaxed and _has_pieces(value):
                # A value in pieces: a list of its characters or of their codes. Only as one text they can be read.
                text = msgspec.json.encode(value).decode()
                spans = self._encoded.find(text)
                for span in reversed(spans):
                    token = self._replace_leaving(span.type, text[span.start : span.end])
                    text = f"{text[: span.start]}{token}{text[span.end :]}"
                if spans:
                    return self._exit.conceal(text, self._replace_leaving)
            return self._exit.conceal(value, self._replace_leaving)

    def shows_plain(self, value: Any) -> bool:
        """True if `conceal` returns a value unchanged, decided in microseconds; False where that takes a search."""
        plain = self._privacy.plain
        if plain is None or value not in plain:
            return False
        # Where code may hold real values, numbers may spell one, and names may be one.
        return not self._privacy.is_relaxed or value is None or not (self._held.texts or _has_pieces(value))

    def conceal_admitted(self, spec: ToolSpec, value: Any) -> Any:
        """The same for an admitted answer: one that is concealed already is not looked through again."""
        return value if self.is_admitted_concealed(spec) else self.conceal(value)

    def is_admitted_concealed(self, spec: ToolSpec) -> bool:
        """True if nothing private is left in an admitted answer of this tool, or nothing is private at all."""
        return self.is_off or self._privacy.handling(spec).mode == "strict"

    def stream(self) -> ConcealedStream:
        """The same for output that leaves in pieces."""
        return ConcealedStream(self._replace_leaving)

    def find(self, text: str) -> list[Span]:
        """The private spans of an outgoing text."""
        return self._exit.find(text)

    @contextmanager
    def _withholding(self, kind: type[SealyardError], what: str) -> Iterator[None]:
        """Raise an error of this kind in the place of any other than ours: its message may quote a private value."""
        try:
            yield
        except SealyardError:
            raise
        except Exception as error:  # noqa: BLE001 - nothing of it may be shown
            self.count_failure()
            raise kind(f"{what} is withheld: {_blame(error)}.") from None

    def _find_plain(self, text: str) -> list[Span]:
        found = self._held.find(text)
        return found if self._privacy.mode == "off" else [*self._privacy.scanner.find(text), *found]

    def _conceal_entering(self, scanner: Scanner, value: Any, sent: Sent | None, **found: Any) -> Any:
        """`value` without what tools were handed and what the scanner finds.

        Whole values that something stands beside come first: of two in a row the scanner might find one, with half of
        the other. A string that is one value is left to it, since the rest of its column is judged by it, and so are
        fragments, which may be parts of other values that it finds.
        """
        indexes = self._indexes(sent)
        leaves = Leaves(value)
        echoes = leaves.find(indexes, self._own)
        parts = echoes.parts()
        has_parts = bool(parts)
        if has_parts:
            bare = _only().conceal(value, self._replace_entering, foreign_tokens=True)
            if bare is not value:
                leaves = Leaves(bare)
                parts = leaves.find(indexes, self._own).parts()
            value = leaves.replaced(parts, self._write_echoes)
        replace = self._replace_restored if has_parts else self._replace_entering
        value = scanner.conceal(value, replace, foreign_tokens=not has_parts, **found)
        return self._conceal_sent(value, sent, with_echoes=bool(echoes))

    def _conceal_sent(self, value: Any, sent: Sent | None, *, with_echoes: bool = True) -> Any:
        """`value` without what tools were handed; of what this very call handed over, however little it says."""
        if with_echoes and (echoes := (leaves := Leaves(value)).find(self._indexes(sent), self._own)):
            value = leaves.replaced(echoes, self._write_echoes)
        if not sent:
            return value
        value = _only(sent.known).conceal(value, self._replace_entering)
        return _without_numbers(value, sent.numbers, self._replace_entering)

    def _indexes(self, sent: Sent | None) -> list[Echoes]:
        return [each for each in (sent.echoes if sent else None, self._echoes) if each]

    def _write_echoes(self, text: str, echoes: Sequence[Echo]) -> str:
        """The text with the token of its value in the place of each echo."""
        parts: list[str] = []
        done = 0
        for echo in echoes:
            echo = echo.word(text)
            if echo.end > done:
                parts += (text[done : max(done, echo.start)], self._replace_entering(echo.type, echo.value))
                done = echo.end
        return "".join((*parts, text[done:]))

    def _replace_entering(self, kind: str, value: str | float) -> str:
        assert self.scope is not None
        # If some tool shows its values, all values that others hide are remembered: it must not show those.
        if self._privacy.is_relaxed or kind in _BY_PLACE or kind not in TYPES:
            text = str(value)
            # A single word of an address is a city or a number: others speak of it without meaning the person.
            if kind != "address" or " " in text.strip():
                self._remember(kind, text)
        self._count(kind)
        return self.scope.token(kind, value)

    def _replace_restored(self, kind: str, value: str | float) -> str:
        """The same where echoes are tokens already: the token of a whole field stands for what was there."""
        assert self.scope is not None
        if isinstance(value, str) and TOKEN.search(value):
            with suppress(UnknownToken):  # text that only begins like a token stays
                value = str(self.scope.reveal(value))
        return self._replace_entering(kind, value)

    def _replace_leaving(self, kind: str, value: str | float) -> str:
        assert self.scope is not None
        text = str(value)
        if text in self._public:
            return text
        self._count(kind)
        # A value that code cannot hold is its own guess: the token must not show whether a tool has sent the same.
        return self.scope.token(kind, value, origin="tool" if text in self._held.texts else "code")

    def _count(self, kind: str) -> None:
        with self._counting:
            self._counts[kind if kind in TYPES else "custom"] += 1

    def _publish(self, value: Any, *, schema: Any, but: Collection[str] = ()) -> None:
        """Let values pass that the config declares public: the findings in `value`, without `but`."""
        found = {str(each) for _, each in self._privacy.scanner.find_values(value, schema=schema)}
        self.learn(Event("public", text=text) for text in sorted(found.difference(but)))


def _only(*detectors: Detector) -> Scanner:
    """Finds what these find and nothing else, as a type that no rule can leave out: what has a token keeps that."""
    return Scanner(ScanRules(types=frozenset()), [_AnyType(each) for each in detectors])


def _without_numbers(value: Any, sent: Mapping[float, str], replace: Callable[[str, str | float], str]) -> Any:
    if isinstance(value, dict):
        return {key: _without_numbers(item, sent, replace) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_numbers(item, sent, replace) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool) and value in sent:
        return replace(sent[value], value)
    return value


def _blame(error: Exception) -> str:
    """The reason why something could not be searched, without the error's message: it may quote the value."""
    return f"it could not be looked through for private values ({type(error).__name__})"


_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_SAMPLE_BYTES = 4096  # the start of a file shows whether it is text
_PLAIN_BYTES = re.compile(rb"[^\x00-\x1f]{4,}")
"""Text that is not UTF-16, in which every other byte of most letters is zero."""


def _text_encoding(content: bytes) -> str | None:
    """The encoding if it is text: Unicode, or without a control character in it, as an older program writes it."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        guesses = ["utf-16"]
    else:
        sample = content[:_SAMPLE_BYTES]
        guesses = ["utf-8-sig" if content.startswith(codecs.BOM_UTF8) else "utf-8"]
        guesses += [
            name
            for name, zeros in (("utf-16-le", sample[1::2]), ("utf-16-be", sample[::2]))
            if zeros and zeros.count(0) > len(zeros) // 2
        ]
        guesses = guesses[1:] or guesses  # text in UTF-16 can be read as UTF-8 too, with a NUL in it
        if _CONTROL.search(content) is None:
            guesses += ["cp1252", "latin-1"]
    for name in guesses:
        try:
            content.decode(name)
        except UnicodeDecodeError:
            continue
        return name
    return None


_PIECES = 6  # items: fewer spell nothing of use


def _has_pieces(value: Any) -> bool:
    """True if a list in it has enough numbers or single characters in a row to spell something."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            in_a_row = 0
            for item in each:
                in_a_row = in_a_row + 1 if _is_piece(item) else 0
                if in_a_row == _PIECES:
                    return True
            waiting += each
    return False


def _is_piece(item: Any) -> bool:
    return len(item) == 1 if isinstance(item, str) else type(item) is int and 8 < item < 0x110000


class _AnyType:
    """The same findings under a type that no rule can leave out."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector

    def find(self, text: str) -> Iterable[Span]:
        """The findings of the detector."""
        return [Span(span.start, span.end, "text") for span in self._detector.find(text)]


class Door:
    """The way through one guard for the event loop: it waits, and is cancelled with its caller.

    A small value is searched at once. A large one goes to a helper process, which finds the private values in it and
    asks here for their tokens. The keys of the vault stay in the gateway.
    """

    def __init__(
        self, guard: Guard, offload: Offload | None, described: Described | None, *, who: str, key: str = ""
    ) -> None:
        """`who` is the principal that helpers work for. Without helpers, or rules for them, a thread does the work."""
        self.key = key or secrets.token_hex(8)
        self._guard = guard
        self._offload = offload if described is not None else None
        self._described = described
        self._who = who

    def for_principal(self, guard: Guard, principal: str) -> "Door":
        """The door of a copy of the guard. Both share what helpers remember of it."""
        return Door(guard, self._offload, self._described, who=principal, key=self.key)

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
            return self._described, b"", 0
        events, position = self._guard.seen_since(position)
        return None, msgspec.json.encode(events), position

    @staticmethod
    def bare(spec: ToolSpec) -> ToolSpec:
        """The parts of a tool that a helper needs."""
        return msgspec.structs.replace(spec, title="", description="", input_schema={})

    @staticmethod
    async def _here(work: Callable[[], _T], *, is_much: bool) -> _T:
        """The result of work that needs no helper: much of it runs in a thread, little on the event loop."""
        if is_much:
            return await asyncio.to_thread(work)
        async with short_work():
            return work()

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
        for event in msgspec.convert(asked["seen"], list[Event]):
            # Whole if it is public: a part of it was never declared so.
            for text in [event.text] if event.what == "public" else _parts(event.text):
                part = msgspec.structs.replace(event, text=text)
                await self._here(partial(self._guard.learn, [part]), is_much=False)
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
    return read_exactly(data) if is_text or is_small else part.copy()


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
