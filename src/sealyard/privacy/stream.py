"""Concealment of output that arrives in pieces: no private value leaves in part, wherever the pieces were cut.

Only whole lines are sent, and a line only once the next one is complete, since a value may go on there. Lines that were
sent stay as context: a table's header decides about its rows. New lines are searched together with their context and
replaced alone. The result equals that of concealing the whole text at once, as long as findings depend only on the
lines beside them, the first lines of their paragraph and the last ones before them.
"""

import re
from collections.abc import Callable, Generator, Sequence

from sealyard.privacy.span import Span, united

Search = Generator[str, list[Span], str]
"""Yields a text to be searched, is sent its private spans, and returns the text that may be sent on."""

_LINE_END = re.compile(r"\r\n|\n|\r")
_BLANK_LINE = re.compile(r"\n[ \t]*\r?\n")
_BOUNDARY = " \t,;|\"'"
"""Characters at which an overlong line may be cut."""


class ConcealedStream:
    """Takes pieces of text and gives back what may be sent of them, concealed.

    Holds back `hold_characters` besides the last piece, or twice that for a value that is not at its end; a
    longer one is sent in parts. A quarter of that is kept as context. Each call that sends something searches the
    context anew: many lines in one piece cost less than a piece for each line.
    """

    def __init__(self, replace: Callable[[str, str], str], *, hold_characters: int = 4096) -> None:
        self._replace = replace
        self._hold_characters = hold_characters
        self._held = ""
        self._head = ""
        self._head_length = 0
        self._tail = ""

    def add(self, piece: str) -> Search:
        """Take a piece; send what may be sent now: whole lines, or nothing."""
        self._held += piece
        if len(self._held) <= self._hold_characters and not _LINE_END.search(piece):
            return ""
        ends = [match.end() for match in _LINE_END.finditer(self._held)]
        last = ends[-1] if ends else 0
        if len(self._held) - last > self._hold_characters:
            # An overlong line is cut at a boundary in the older half of the held text.
            newest = len(self._held) - self._hold_characters // 2
            cut = max(self._held.rfind(sign, 0, newest) for sign in _BOUNDARY) + 1
            return (yield from self._sent(cut or newest))
        return (yield from self._sent(ends[-2])) if len(ends) > 1 else ""

    def flush(self) -> Search:
        """Send the last line too, if it is complete: nothing has followed for a while."""
        ends = [match.end() for match in _LINE_END.finditer(self._held)]
        return (yield from self._sent(ends[-1])) if ends else ""

    def close(self) -> Search:
        """Send all the rest."""
        return (yield from self._sent(len(self._held), is_last=True))

    def _sent(self, end: int, *, is_last: bool = False) -> Search:
        """The held text up to `end`, or up to the line before if a finding goes on there, concealed."""
        context = self._tail if self._head_length <= len(self._tail) else f"{self._head}\n{self._tail}"
        spans = yield context + self._held
        found = [
            Span(span.start - len(context), span.end - len(context), span.type)
            for span in united(spans)
            if span.end > len(context)
        ]
        if not is_last:
            end = self._complete(end, found)
        if end <= 0:
            return ""
        sent = self._concealed(found, end)
        self._remember(self._held[:end], next((span for span in found if span.start < end < span.end), None))
        self._held = self._held[end:]
        return sent

    def _complete(self, end: int, found: Sequence[Span]) -> int:
        """The end, moved back to the line in which a finding begins that is not complete there."""
        for span in reversed(found):
            if span.start < end < span.end:
                begin = max(0, span.start)
                line = max(self._held.rfind("\n", 0, begin), self._held.rfind("\r", 0, begin)) + 1
                if len(self._held) - begin > 2 * self._hold_characters:
                    return end  # Too much to hold: this part of the finding is concealed on its own.
                end = line if len(self._held) - line <= self._hold_characters else begin
        return end

    def _concealed(self, found: Sequence[Span], end: int) -> str:
        parts: list[str] = []
        done = 0
        for span in found:
            start, stop = max(done, span.start), min(span.end, end)
            while start < stop and self._held[start].isspace():
                start += 1
            if start < stop:
                parts += (self._held[done:start], self._replace(span.type, self._held[start:stop]))
                done = stop
        return "".join([*parts, self._held[done:end]])

    def _remember(self, sent: str, parted: Span | None) -> None:
        """Keep the first lines of the paragraph and the last lines as context."""
        longest = self._hold_characters // 8
        blank = [match.end() for match in _BLANK_LINE.finditer(sent)]
        begin = blank[-1] if blank else 0
        is_new = begin > 0
        if parted is not None:
            # The first part, such as the first line of a key, decides the type of the rest.
            begin = max(0, parted.start)
            is_new = parted.start >= 0
        if is_new:
            self._head, self._head_length = "", 0
        if self._head_length == len(self._head):
            self._head += sent[begin : begin + longest - len(self._head)]
        self._head_length += len(sent) - begin
        self._tail = (self._tail + sent)[-longest:]
