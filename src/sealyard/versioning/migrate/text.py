"""Changes to a text, collected by place and made at once: what is not touched stays byte for byte."""

import bisect
import json
import math
import re
from collections.abc import Sequence
from typing import Any

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

from sealyard.versioning.migrate.scopes import parts_of

_SHOWN_CHARACTERS = 400
_NESTED = 50
"""So many formatted texts before a place are looked at: one around it is among them."""


class Overlap(Exception):
    """Changes cannot be made together, or not here; the message says why."""


class Sources:
    """A parsed module, its bytes, and the changes to them."""

    def __init__(self, module: cst.Module, code: str) -> None:
        self.bytes = code.encode()
        self._spans = MetadataWrapper(module, unsafe_skip_copy=True).resolve(ByteSpanPositionProvider)
        self._lines = [0, *(found.end() for found in re.finditer(rb"\r\n|\r|\n", self.bytes))]
        self._splices: list[tuple[int, int, str]] = []
        self._shown: list[tuple[int, int, str]] = []
        self._texts: list[tuple[int, int, str]] = []
        self._quoting: list[tuple[int, int]] = []
        self._removed: dict[int, tuple[Sequence[Any], set[int]]] = {}
        self._find_texts(module)

    def _find_texts(self, node: cst.CSTNode) -> None:
        for child in parts_of(node):
            if isinstance(child, cst.FormattedString):
                start, end = self.span(child)
                self._texts.append((start, end, child.quote[0]))
            elif isinstance(child, cst.FormattedStringExpression) and child.equal is not None:
                self._quoting.append(self.span(child))
            self._find_texts(child)

    # Places

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Where a node begins and ends, without parentheses around it."""
        found = self._spans[node]
        return found.start, found.start + found.length

    def whole(self, node: cst.BaseExpression) -> tuple[int, int]:
        """Where an expression begins and ends, with the parentheses around it."""
        start, end = self.span(node)
        if node.lpar:
            start = self.span(node.lpar[0])[0]
        if node.rpar:
            end = self.span(node.rpar[-1])[1]
        return start, end

    def line(self, node: cst.CSTNode) -> int:
        """The line on which a node begins, counted from 1."""
        return self._line_at(self.span(node)[0]) + 1 if node in self._spans else 1

    def text(self, node: cst.CSTNode) -> str:
        """What a node looks like in the source."""
        start, end = self.span(node)
        return self.bytes[start:end].decode()

    def _line_at(self, offset: int) -> int:
        return bisect.bisect_right(self._lines, offset) - 1

    # Changes

    def show(self, node: cst.CSTNode, reason: str) -> None:
        """Report the changes in `node` with this reason."""
        start, end = self.span(node)
        self._shown.append((start, end, reason))

    def replace(self, start: int, end: int, text: str) -> None:
        """Put `text` in the place of what is there; the earlier of two insertions at one place comes first."""
        self._splices.append((start, end, text))

    def replace_node(self, node: cst.CSTNode, text: str) -> None:
        """Put `text` in the place of a node."""
        self.replace(*self.span(node), text)

    def wrap(self, node: cst.BaseExpression, before: str, after: str) -> None:
        """Put text around an expression."""
        start, end = self.whole(node)
        self.replace(start, start, before)
        self.replace(end, end, after)

    def remove(self, parts: Sequence[Any], number: int) -> None:
        """Take one of `parts` (arguments, elements of a mapping, imported names) out, with its comma."""
        self._removed.setdefault(id(parts), (parts, set()))[1].add(number)

    def _remove_all(self, parts: Sequence[Any], numbers: set[int]) -> None:
        last = max(set(range(len(parts))) - numbers, default=-1)
        for number in sorted(numbers):
            start, end = self.span(parts[number])
            comma = parts[number].comma
            after_comma = self.span(comma)[1] if isinstance(comma, cst.Comma) else end
            if self._is_alone(start, after_comma):
                line, below = self._line_at(start), self._line_at(after_comma) + 1
                self.replace(self._lines[line], self._lines[below], "")
            elif number < last:
                self.replace(start, self.span(parts[number + 1])[0], "")
            else:
                before = self.span(parts[last])[1] if last >= 0 else start
                if last < 0 or number != last + 1 or b"#" in self.bytes[before:start]:
                    self.replace(start, after_comma, "")  # the comma in front may stay
                else:
                    self.replace(before, self.span(parts[-1])[1], "")
                    break

    def append(self, parts: Sequence[Any], text: str, close: int) -> None:
        """Put `text` after the last of `parts`, or, if there are none, before the bracket that ends at `close`."""
        if not parts:
            self.replace(close - 1, close - 1, text)
            return
        start, end = self.span(parts[-1])
        comma = parts[-1].comma
        has_comma = isinstance(comma, cst.Comma)
        after_comma = self.span(comma)[1] if has_comma else end
        if not self._is_alone(start, after_comma):
            self.replace(end, end, f", {text}")
            return
        line = self._line_at(start)
        indent = self.bytes[self._lines[line] : start].decode()
        below = self._lines[self._line_at(after_comma) + 1]
        ending = self.bytes[:below].decode()[-1:]
        if not has_comma:
            self.replace(end, end, ",")
        self.replace(below, below, f"{indent}{text}{',' if has_comma else ''}{ending}")

    def remove_statement(self, line: cst.SimpleStatementLine, *, alone: bool) -> None:
        """Take a line out; if it is `alone` in its block, the block stays with `pass`."""
        start, end = self.span(line)
        first = self._lines[self._line_at(start)]
        after = bisect.bisect_left(self._lines, end)
        last = self._lines[after] if after < len(self._lines) else len(self.bytes)
        rest = self.bytes[end:last].strip()
        if alone or (rest and not rest.startswith(b"#")) or self.bytes[first:start].strip():
            body = (self.span(line.body[0])[0], self.span(line.body[-1])[1])
            self.replace(*body, "pass")
        else:
            self.replace(first, last, "")
            self._shown.append((first, last, "the parameter is gone"))

    def _is_alone(self, start: int, end: int) -> bool:
        """Whether a part has its line, or lines, for itself."""
        line, last = self._line_at(start), self._line_at(end)
        if last + 1 >= len(self._lines) or self.bytes[self._lines[line] : start].strip():
            return False
        rest = self.bytes[end : self._lines[last + 1]].strip()
        return not rest or rest.startswith(b"#")

    # Literals

    def literal(self, value: Any, offset: int) -> str | None:
        """JSON data as a Python literal that may stand at `offset`; None if there is none."""
        if isinstance(value, str):
            return self.quoted(value, offset)
        if isinstance(value, bool) or value is None:
            return repr(value)
        if isinstance(value, int | float):
            return repr(value) if math.isfinite(value) else None
        if isinstance(value, list):
            parts = [self.literal(item, offset) for item in value]
            return None if None in parts else f"[{', '.join(part or '' for part in parts)}]"
        if isinstance(value, dict):
            pairs = [(self.literal(key, offset), self.literal(item, offset)) for key, item in value.items()]
            if any(key is None or item is None for key, item in pairs):
                return None
            return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
        return None

    def quoted(self, text: str, offset: int, like: str = '"') -> str | None:
        """A literal of `text` in quotes that may stand at `offset`: inside a formatted text not all may."""
        last = bisect.bisect_left(self._texts, (offset,))
        around = {quote for start, end, quote in self._texts[max(0, last - _NESTED) : last] if offset < end}
        quotes = [quote for quote in (like, "'" if like == '"' else '"') if quote not in around]
        if not quotes:
            return None
        quote = quotes[0]
        if quote in text and len(quotes) > 1 and quotes[1] not in text:
            quote = quotes[1]
        body = json.dumps(text, ensure_ascii=not text.isprintable())[1:-1].replace('\\"', '"')
        body = body.replace(quote, "\\" + quote)
        return None if around and "\\" in body else f"{quote}{body}{quote}"

    # The end

    def changed(self) -> tuple[str, list[tuple[int, str, str, str]]]:
        """The new text, and each change with its line, the text before and after, and the reason.

        Raises:
            Overlap: Two changes are in each other's way.
        """
        for parts, numbers in self._removed.values():
            self._remove_all(parts, numbers)
        self._removed = {}
        order = sorted(range(len(self._splices)), key=lambda number: (*self._splices[number][:2], number))
        splices = [self._splices[number] for number in order]
        kept: list[tuple[int, int, str]] = []
        for splice in splices:
            if kept and splice[0] < kept[-1][1]:
                if splice[1] > kept[-1][1] or kept[-1][2]:
                    raise Overlap("Two changes would touch the same text. Write the code in separate statements.")
                continue  # inside of what is taken out
            kept.append(splice)
            if self._is_quoted(splice[0]):
                raise Overlap('A text such as `f"{name=}"` shows the source that would change.')
        return self._applied(kept, 0, len(self.bytes)), self._report(kept)

    def _is_quoted(self, offset: int) -> bool:
        last = bisect.bisect_right(self._quoting, (offset, len(self.bytes)))
        return any(offset <= end for _, end in self._quoting[max(0, last - _NESTED) : last])

    def _report(self, splices: Sequence[tuple[int, int, str]]) -> list[tuple[int, str, str, str]]:
        """What changed, each place once: with what is inside of it and all reasons."""
        places: list[tuple[int, int, list[str]]] = []
        for start, end, reason in sorted(self._shown, key=lambda each: (each[0], -each[1])):
            if not places or end > places[-1][1]:
                places.append((start, end, []))
            if reason not in places[-1][2]:
                places[-1][2].append(reason)
        found = []
        for start, end, reasons in places:
            before, after = self.bytes[start:end].decode(), self._applied(splices, start, end)
            if before != after:
                found.append((self._line_at(start) + 1, _short(before), _short(after), "; ".join(reasons)))
        return found

    def _applied(self, splices: Sequence[tuple[int, int, str]], start: int, end: int) -> str:
        parts: list[str] = []
        at = start
        for number in range(bisect.bisect_left(splices, (start,)), len(splices)):
            first, last, text = splices[number]
            if last > end:
                break
            parts += [self.bytes[at:first].decode(), text]
            at = last
        return "".join(parts) + self.bytes[at:end].decode()


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
