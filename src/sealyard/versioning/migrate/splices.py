"""Changes to a text, collected by place and made at once: everything else stays as it is.

Places come from the positions of `ast` nodes, in characters. `ast` keeps no parentheses, commas or comments, so these
are found in the text around a node. A place whose text is not what the node says is refused.
"""

import ast
import bisect
import itertools
import json
import math
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

from sealyard.versioning.migrate.abstract import arguments_of

_NESTED = 50  # texts before a place that are looked at for one around it: nobody nests deeper
_SPACE = re.compile(r"(?:\s|\\\r?\n)*")
_NAME = re.compile(r"\w+")
_LETTERS = "bfruBFRU"  # before the quotes of a text
_FROM = re.compile(r"from[\s\\]+(.+?)[\s\\]+import\b", re.DOTALL)
_Splice = tuple[int, int, str]


class Overlap(Exception):
    """Changes cannot be made together, or not here; the message says why."""


class Part(NamedTuple):
    """An argument, an entry of a mapping or an imported name."""

    start: int
    end: int
    after: int
    """The end of its comma."""
    has_comma: bool


class Sources:
    """The text of a module, and the changes to it."""

    def __init__(self, tree: ast.Module, code: str) -> None:
        self.code = code
        self._lines = [0, *(found.end() for found in re.finditer(r"\r\n|\r|\n", code))]
        self._is_ascii = code.isascii()
        self._columns: dict[int, list[int]] = {}
        """The place of each character of a line in bytes."""
        self._splices: list[_Splice] = []
        self._formatted: list[_Splice] = []
        """The quotes that each formatted text begins with. Other ones in it make changed code that does not compile."""
        self._quoting: list[tuple[int, int]] = []
        """The expressions in `f"{name=}"`."""
        self._removed: dict[ast.Call | ast.Dict | ast.ImportFrom, set[int]] = {}
        self._closers: set[int] = set()
        """The brackets that end calls, which are not parentheses around an argument."""
        self._bare = self._without_comments(tree)
        """The code with blanks for comments."""
        self._read(tree)

    def _without_comments(self, tree: ast.Module) -> str:
        kinds = (ast.Constant, ast.JoinedStr)
        strings = sorted(self.span(node) for node in ast.walk(tree) if isinstance(node, kinds))
        parts: list[str] = []
        at, number = 0, 0
        for found in re.finditer(r"#", self.code):
            start = found.start()
            while number < len(strings) and strings[number][1] <= start:
                number += 1
            if start < at or (number < len(strings) and strings[number][0] <= start):
                continue
            end = self._line_end(self._line_at(start))
            parts += [self.code[at:start], " " * (end - start)]
            at = end
        return "".join(parts) + self.code[at:]

    def _read(self, tree: ast.Module) -> None:
        specs = set()
        values: list[ast.expr] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.FormattedValue):
                specs.add(id(node.format_spec))
                values.append(node.value)
            elif isinstance(node, ast.Call):
                self._closers.add(self.span(node)[1] - 1)
            elif isinstance(node, ast.JoinedStr) and id(node) not in specs:
                start, end = self.span(node)
                self._formatted.append((start, end, self.code[start:end].lstrip(_LETTERS)[:1]))
        for value in values:
            start, end = self.whole(value)
            sign = self._skip(end)
            if self._bare.startswith("=", sign):
                self._quoting.append((start, sign))
        self._formatted.sort()
        self._quoting.sort()

    # Places

    def span(self, node: ast.AST) -> tuple[int, int]:
        """The start and end of a node, without parentheses around it."""
        place: Any = node
        return self._offset(place.lineno, place.col_offset), self._offset(place.end_lineno, place.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        """The place of a column, which `ast` counts in bytes."""
        start = self._lines[line - 1]
        if self._is_ascii:
            return start + column
        if line not in self._columns:
            text = self.code[start : self._line_end(line - 1)]
            self._columns[line] = [0, *itertools.accumulate(len(each.encode()) for each in text)]
        return start + bisect.bisect_left(self._columns[line], column)

    def whole(self, node: ast.expr) -> tuple[int, int]:
        """The start and end of an expression, with the parentheses around it."""
        start, end = self.span(node)
        while True:
            before = self._skip_back(start)
            after = self._skip(end)
            around = self._bare[before - 1 : before] == "(" and self._bare[after : after + 1] == ")"
            if not around or after in self._closers:
                return start, end
            start, end = before - 1, after + 1

    def line(self, node: ast.AST) -> int:
        """The line on which a node begins, counted from 1."""
        return getattr(node, "lineno", 1)

    def text(self, node: ast.AST) -> str:
        """The source of a node."""
        start, end = self.span(node)
        return self.code[start:end]

    def name(self, node: ast.Name | ast.Attribute | ast.keyword) -> tuple[int, int]:
        """The start and end of the identifier of a name, an attribute or a keyword."""
        start, end = self.span(node)
        if isinstance(node, ast.Attribute):
            start = self._skip(self._bare.rindex(".", start, end) + 1)
        elif isinstance(node, ast.keyword):
            found = _NAME.match(self.code, start)
            end = found.end() if found else start
        wanted = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else node.arg
        if unicodedata.normalize("NFKC", self.code[start:end]) != wanted:
            raise Overlap(f"Line {self.line(node)}: the place of `{wanted}` in the text is not known.")
        return start, end

    def parts(self, node: ast.Call | ast.Dict | ast.ImportFrom) -> list[Part]:
        """The arguments of a call, the entries of a mapping or the names of an import, in order."""
        start, end = self.span(node)
        if isinstance(node, ast.Call):
            at = self._skip(self.whole(node.func)[1]) + 1
            values = [each.value for each in arguments_of(node)]
        elif isinstance(node, ast.Dict):
            at, values = start + 1, node.values
        else:
            return [self._part(*self.span(alias), end) for alias in node.names]
        found = []
        for value in values:
            first = self._skip(at)
            if isinstance(value, ast.GeneratorExp) and self.span(value)[1] == end:  # `f(x for x in y)`
                found.append(Part(first, end - 1, end - 1, False))
                break
            found.append(self._part(first, self.whole(value)[1], end))
            at = found[-1].after
        return found

    def _part(self, start: int, end: int, last: int) -> Part:
        comma = self._skip(end)
        has_comma = comma < last and self._bare.startswith(",", comma)
        return Part(start, end, comma + 1 if has_comma else end, has_comma)

    def _skip(self, at: int) -> int:
        """The first place from `at` on that is neither space nor comment."""
        found = _SPACE.match(self._bare, at)
        return found.end() if found else at

    def _skip_back(self, at: int) -> int:
        while at and (self._bare[at - 1].isspace() or self._bare[at - 1] == "\\"):
            at -= 1
        return at

    def _line_at(self, offset: int) -> int:
        return bisect.bisect_right(self._lines, offset) - 1

    def _line_end(self, line: int) -> int:
        """The end of a line, without its ending."""
        end = self._lines[line + 1] if line + 1 < len(self._lines) else len(self.code)
        return self._lines[line] + len(self.code[self._lines[line] : end].rstrip("\r\n"))

    # Changes

    def replace(self, start: int, end: int, text: str) -> None:
        """Put `text` in the place of what is there; the earlier of two insertions at one place comes first."""
        self._splices.append((start, end, text))

    def rename(self, node: ast.Name | ast.Attribute | ast.keyword, name: str) -> None:
        """Write another name."""
        self.replace(*self.name(node), name)

    def replace_literal(self, node: ast.Constant, text: str) -> None:
        """Put `text` in the place of a literal."""
        self._check(node)
        self.replace(*self.span(node), text)

    def replace_alias(self, alias: ast.alias, name: str) -> None:
        """Import `name`, under the same name as before if one is given."""
        self.replace(*self.span(alias), f"{name} as {alias.asname}" if alias.asname else name)

    def module(self, statement: ast.ImportFrom) -> tuple[int, int]:
        """The start and end of the module's name in `from … import …`."""
        start, _ = self.span(statement)
        found = _FROM.match(self.code, start)
        if found is None:
            raise Overlap(f"Line {statement.lineno}: the place of the module in the text is not known.")
        return found.span(1)

    def wrap(self, node: ast.expr, before: str, after: str) -> None:
        """Put text around an expression."""
        self._check(node)
        start, end = self.whole(node)
        self.replace(start, start, before)
        self.replace(end, end, after)

    def _check(self, node: ast.expr) -> None:
        """Refuse a place whose text does not read as the node."""
        try:
            found = ast.parse(f"({self.text(node)})", mode="eval").body
        except SyntaxError:
            found = None
        if found is None or _dump(found) != _dump(node):
            raise Overlap(f"Line {self.line(node)}: the place of an expression in the text is not known.")

    def remove(self, node: ast.Call | ast.Dict | ast.ImportFrom, number: int) -> None:
        """Take one of the `parts` of a node out, with its comma."""
        self._removed.setdefault(node, set()).add(number)

    def _remove_all(self, parts: Sequence[Part], numbers: set[int]) -> None:
        last = max(set(range(len(parts))) - numbers, default=-1)
        for number in sorted(numbers):
            start, _, after, _ = parts[number]
            if self._is_alone(start, after):
                line, below = self._line_at(start), self._line_at(after) + 1
                self.replace(self._lines[line], self._lines[below], "")
            elif number < last:
                self.replace(start, parts[number + 1].start, "")
            else:
                before = parts[last].end if last >= 0 else start
                if last < 0 or number != last + 1 or "#" in self.code[before:start]:
                    self.replace(start, after, "")  # the comma in front may stay
                else:
                    self.replace(before, parts[-1].end, "")
                    break

    def append(self, node: ast.Call | ast.Dict, text: str) -> None:
        """Put `text` after the last of the `parts` of a node."""
        parts = self.parts(node)
        if not parts:
            close = self.span(node)[1] - 1
            self.replace(close, close, text)
            return
        start, end, after, has_comma = parts[-1]
        if not self._is_alone(start, after):
            self.replace(end, end, f", {text}")
            return
        indent = self.code[self._lines[self._line_at(start)] : start]
        line = self._line_at(after)
        below = self._lines[line + 1]
        if not has_comma:
            self.replace(end, end, ",")
        ending = self.code[self._line_end(line) : below]
        self.replace(below, below, f"{indent}{text}{',' if has_comma else ''}{ending}")

    def has_own_line(self, statement: ast.stmt) -> bool:
        """True if nothing else stands on the lines of a statement."""
        start, end = self.span(statement)
        first, last = self._lines[self._line_at(start)], self._line_end(self._line_at(end))
        return not self._bare[first:start].strip() and not self._bare[end:last].strip()

    def remove_statement(self, statement: ast.stmt, *, alone: bool) -> None:
        """Take a statement out that has its own line; if it is `alone` in its block, the block stays with `pass`."""
        start, end = self.span(statement)
        if alone:
            self.replace(start, end, "pass")
            return
        first, line = self._lines[self._line_at(start)], self._line_at(end) + 1
        last = self._lines[line] if line < len(self._lines) else len(self.code)
        self.replace(first, last, "")

    def _is_alone(self, start: int, end: int) -> bool:
        """True if a part has its line, or lines, for itself."""
        line, last = self._line_at(start), self._line_at(end)
        if last + 1 >= len(self._lines) or self.code[self._lines[line] : start].strip():
            return False
        return not self._bare[end : self._lines[last + 1]].strip()

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

    def requoted(self, node: ast.Constant, text: str) -> str | None:
        """A literal of `text` in the quotes that `node` has, if it may stand there."""
        start, end = self.span(node)
        like = re.search(r"['\"]", self.code[start:end])
        return self.quoted(text, start, like[0] if like else None)

    def quoted(self, text: str, offset: int, like: str | None = None) -> str | None:
        """A literal of `text` that may stand at `offset`, where a literal with the quotes `like` stands now.

        Inside a formatted text not all quotes may.
        """
        last = bisect.bisect_left(self._formatted, (offset,))
        around = {quote for _, end, quote in self._formatted[max(0, last - _NESTED) : last] if offset < end}
        quotes = [quote for quote in ('"', "'") if quote == like or quote not in around]
        quotes.sort(key=lambda quote: quote != like)
        if not quotes:
            return None
        quote = quotes[0]
        if quote in text and len(quotes) > 1 and quotes[1] not in text:
            quote = quotes[1]
        body = json.dumps(text, ensure_ascii=not text.isprintable())[1:-1].replace('\\"', '"')
        body = body.replace(quote, "\\" + quote)
        return None if around and "\\" in body else f"{quote}{body}{quote}"

    # The end

    def changed(self) -> str:
        """The new text.

        Raises:
            Overlap: Two changes are in each other's way.
        """
        for node, numbers in self._removed.items():
            self._remove_all(self.parts(node), numbers)
        self._removed = {}
        order = sorted(range(len(self._splices)), key=lambda number: (*self._splices[number][:2], number))
        kept: list[_Splice] = []
        for splice in (self._splices[number] for number in order):
            if kept and splice[0] < kept[-1][1]:
                if splice[1] > kept[-1][1] or kept[-1][2]:
                    raise Overlap("Two changes would touch the same text. Write the code in separate statements.")
                continue  # inside of what is taken out
            kept.append(splice)
            if self._is_quoted(splice[0]):
                raise Overlap('A text such as `f"{name=}"` shows the source that would change.')
        parts: list[str] = []
        at = 0
        for start, end, text in kept:
            parts += [self.code[at:start], text]
            at = end
        return "".join(parts) + self.code[at:]

    def _is_quoted(self, offset: int) -> bool:
        last = bisect.bisect_right(self._quoting, (offset, len(self.code)))
        return any(offset <= end for _, end in self._quoting[max(0, last - _NESTED) : last])


def _dump(node: ast.expr) -> str:
    return ast.dump(node).replace("Store()", "Load()")
