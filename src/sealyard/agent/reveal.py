"""Private values for the person, in a model's words that arrive in pieces.

The model writes tokens, which stand for values of the conversation's own session. The person reads the values; each is
in the audit log before it is shown.
"""

import re

from sealyard.privacy import TOKEN
from sealyard.yard import Yard

_LONGEST = 64  # characters of a token: see `TOKEN`
_BEGUN = re.compile(r"_(?:_(?:P(?:I(?:I(?:_\w*)?)?)?)?)?\Z", re.IGNORECASE | re.ASCII)
"""The beginning of a token at the end of a text, or a whole one."""


class Revealing:
    """Replaces tokens in a text. It holds back the end of a piece while that may be the beginning of a token."""

    def __init__(self, yard: Yard, *, principal: str, session: str, is_on: bool) -> None:
        self._yard = yard
        self._principal = principal
        self._session = session
        self._is_on = is_on
        self._known: dict[str, str] = {}
        self._held = ""

    async def text(self, text: str) -> str:
        """A whole text."""
        if not self._is_on or "__" not in text:
            return text
        for match in TOKEN.finditer(text):
            token = match.group().lower()
            if token not in self._known:
                self._known[token] = await self._value(token, match.group())
        return TOKEN.sub(lambda match: self._known[match.group().lower()], text)

    async def piece(self, piece: str) -> str:
        """The next piece, without an end that may go on as a token."""
        text = self._held + piece
        begun = _BEGUN.search(text, max(0, len(text) - _LONGEST)) if self._is_on else None
        cut = begun.start() if begun else len(text)
        self._held = text[cut:]
        return await self.text(text[:cut])

    async def rest(self) -> str:
        """What was held back: nothing follows."""
        held, self._held = self._held, ""
        return await self.text(held)

    async def _value(self, token: str, written: str) -> str:
        found = await self._yard.reveal(token, principal=self._principal, session=self._session)
        return str(found[0].value) if found else written
