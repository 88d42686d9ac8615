"""Private values for the person, in a model's words that arrive in pieces.

The model writes tokens, which stand for values of the conversation's own session. The person reads the values; each is
in the audit log before it is shown.

Words that a hostile tool has put into the model's mouth must not carry a value away when the person's program renders
them. So a token stays a token where it is a part of an address: of a link, of the source of an image, of a host.
"""

import re

from sealyard.privacy import TOKEN
from sealyard.yard import Yard

_LONGEST = 64  # characters of a token: see `TOKEN`
_BEGUN = re.compile(r"_(?:_(?:P(?:I(?:I(?:_\w*)?)?)?)?)?\Z", re.IGNORECASE | re.ASCII)
"""The beginning of a token at the end of a text, or a whole one."""
_BEHIND = 2
"""Characters after a token that say whether an address goes on there."""
_GOES_ON = re.compile(r"[^\s)\]}>\"'*_~,;:!?|.]|\.[^\s)\]}>\"'*_~,;:!?|.]")
_ADDRESS = re.compile(r"[/\\?&%=@]|www\.|(?:https?|ftp|wss?|file|data|javascript):", re.IGNORECASE)
"""Marks of an address in the word that a token stands in."""
_WORD_CHARACTERS = 1_000  # before a token: no word of a language is as long, an address may be
_TAG = re.compile(r"<[a-z/!]", re.IGNORECASE)


class Revealing:
    """Replaces tokens in the text of a reply, piece by piece."""

    def __init__(self, yard: Yard, *, principal: str, session: str, is_on: bool) -> None:
        self._yard = yard
        self._principal = principal
        self._session = session
        self._is_on = is_on
        self._known: dict[str, str] = {}
        self._text = ""
        """The reply so far."""
        self._shown = 0
        """The characters of it that were given."""

    async def piece(self, piece: str) -> str:
        """The next piece, without an end that may go on as a token or that a token's neighbours are still to follow."""
        self._text += piece
        if not self._is_on:
            return self._given(len(self._text), {})
        end = len(self._text)
        begun = _BEGUN.search(self._text, max(self._shown, end - _LONGEST - _BEHIND))
        end = begun.start() if begun else end
        for match in TOKEN.finditer(self._text, self._shown):
            if match.end() + _BEHIND > len(self._text):
                end = min(end, match.start())
        return await self._revealed(end)

    async def rest(self) -> str:
        """The end that was held back, after which the next reply begins."""
        shown = await self._revealed(len(self._text))
        self._text, self._shown = "", 0
        return shown

    async def whole(self, text: str) -> str:
        """A whole reply."""
        self._text, self._shown = text, 0
        return await self.rest()

    async def _revealed(self, end: int) -> str:
        values = {}
        for match in TOKEN.finditer(self._text, self._shown, end) if self._is_on else ():
            if not self._is_in_address(match):
                token = match.group().lower()
                if token not in self._known:
                    self._known[token] = await self._value(token, match.group())
                values[match.span()] = self._known[token]
        return self._given(end, values)

    def _given(self, end: int, values: dict[tuple[int, int], str]) -> str:
        parts, place = [], self._shown
        for (start, stop), value in values.items():
            parts += [self._text[place:start], value]
            place = stop
        self._shown = end
        return "".join([*parts, self._text[place:end]])

    def _is_in_address(self, match: re.Match[str]) -> bool:
        before = self._text[: match.start()]
        tail = before[-_WORD_CHARACTERS:]
        word = tail.split()[-1] if tail and not tail[-1].isspace() else ""
        tag = _TAG.search(before)
        return bool(
            _GOES_ON.match(self._text, match.end())
            or _ADDRESS.search(word)
            or len(word) == _WORD_CHARACTERS
            or before.rfind("](") > before.rfind(")")
            or (tag and before.find("//", tag.start()) >= 0)  # quotes may hold a `>`: see it as open to the end
        )

    async def _value(self, token: str, written: str) -> str:
        found = await self._yard.reveal(token, principal=self._principal, session=self._session)
        return str(found[0].value) if found else written
