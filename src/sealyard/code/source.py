"""Sources of agent code, each parsed at most once, and a bounded memory of the latest ones.

The text is hostile: it is parsed, never compiled or run. Compiling 700 bytes of nested `finally` takes seconds. A tree
with its names takes up to 380 bytes per character, so the memory is bounded by characters. All readers of a text share
its tree, in every thread, so nobody may change it.
"""

import ast
import hashlib
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec

from sealyard.code.names import Names
from sealyard.errors import InvalidSkill

MAX_CODE_BYTES = 256 << 10
"""Parsing this much holds the interpreter for up to a second. Larger data belongs in `context` or a file."""

_KEPT_CHARACTERS = 64 << 10
"""The bound of all kept sources: their trees and names take 5 MiB as people write code, and 24 MiB at worst."""
_LONGEST_KEPT = 16 << 10
"""Longer sources are not kept: they would push out all others, and learning reads none of them."""
_LEAST_CHARACTERS = 256
"""The weight of even the shortest source, which bounds the number of sources: its verdicts take as much."""
_WORDS_CHARACTERS = 300  # of Python's message in one of ours: it may quote the code
_ADVICE = {
    "surrogate": "Send it as Unicode.",
    "null": "Take it out.",
    "size": "Pass data in as inputs instead.",
    "nested": "Split its expressions.",
    "parser": "Simplify it.",
    "syntax": "Change the code and try again.",
}
_OTHERWISE = ("await", "async", "__future__", "\r", "\f")
_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

_parser_lock = threading.Lock()
"""Held while warnings of the parser are off: that is process-wide, and two threads could leave them off."""

_T = TypeVar("_T")


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """The reason that a text has no syntax tree."""

    kind: Literal["surrogate", "size", "null", "syntax", "nested", "parser"]
    """Half of a surrogate pair, too large, a null byte, not Python, nested too deeply, or a failure of the parser."""
    line: int | None = None
    """1-based."""
    column: int | None = None
    """1-based, in characters; as Python reports it, which may be less than 1."""
    error: str = ""
    """The name of the exception, for `syntax`."""
    words: str = ""
    """Python's own message, for `syntax` and `parser`, with no half of a surrogate pair."""

    @property
    def message(self) -> str:
        """The reason as a sentence, without its line."""
        words = self.words if len(self.words) <= _WORDS_CHARACTERS else f"{self.words[:_WORDS_CHARACTERS]}…"
        match self.kind:
            case "surrogate":
                return "The code holds half of a surrogate pair."
            case "null":
                return "The code holds a null byte."
            case "size":
                return f"The code is larger than {MAX_CODE_BYTES:,} bytes."
            case "nested":
                return "The code is nested too deeply for Python's parser."
            case "parser":
                return f"Python's parser fails on this code: {words}."
        words = words.rstrip(".")
        return f"{self.error}: {words}{'' if words.endswith('?') else '.'}"


class Source:
    """One text of code, parsed when its tree is first asked for, and never again."""

    __slots__ = ("_features", "_names", "_parsed", "text")
    most_bytes = MAX_CODE_BYTES
    """The size of the largest text that is parsed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._parsed: ast.Module | Fault | None = None
        self._names: Names | None = None
        self._features: dict[Callable[[Source], Any], Any] = {}

    @property
    def is_read(self) -> bool:
        """True if the text was parsed already."""
        return self._parsed is not None

    @property
    def tree(self) -> ast.Module | None:
        """The syntax tree, which may `await` at its top; None if there is a `fault`. It is shared: change nothing."""
        parsed = self._read()
        return None if isinstance(parsed, Fault) else parsed

    @property
    def fault(self) -> Fault | None:
        """The reason that there is no tree."""
        parsed = self._read()
        return parsed if isinstance(parsed, Fault) else None

    @property
    def names(self) -> Names | None:
        """The scopes, names and calls of the tree; None if there is a `fault`."""
        if self._names is None and self.tree is not None:
            self._names = Names(self.tree)
        return self._names

    @property
    def value_span(self) -> tuple[int, int] | None:
        """The place of the last expression in the text, in characters, for the sandbox, which then parses no tree.

        The same number twice if the text ends with another statement; None for what the sandbox rewrites or counts
        otherwise: asynchronous code, other line ends than newlines, and text beyond ASCII, whose columns are of bytes.
        """
        return self.of(_value_span)

    @property
    def digest(self) -> str:
        """24 hexadecimal digits that identify the text."""
        return self.of(_digest)

    def of(self, feature: Callable[["Source"], _T]) -> _T:
        """The result of `feature`, a function of a module, for this source. It is made once, and must be small."""
        try:
            found: _T = self._features[feature]
        except KeyError:
            found = self._features[feature] = feature(self)
        return found

    def is_larger(self, most_bytes: int) -> bool:
        """True if the text takes more bytes than that in UTF-8."""
        return _is_larger(self.text, most_bytes)

    def _read(self) -> ast.Module | Fault:
        if self._parsed is None:
            with _parser_lock:
                if self._parsed is None:  # else another thread was first
                    self._parsed = _parse(self.text)
        return self._parsed


_kept: OrderedDict[str, Source] = OrderedDict()
_kept_lock = threading.Lock()
_kept_characters = 0  # the sum over `_kept`


def read(text: str) -> Source:
    """The source of `text`: the same one as before, if it is still kept. This costs a lookup; parsing comes later."""
    global _kept_characters  # noqa: PLW0603 - one memory for the process, like `lru_cache`
    if len(text) > _LONGEST_KEPT:
        return Source(text)
    with _kept_lock:
        source = _kept.get(text)
        if source is not None:
            _kept.move_to_end(text)
            return source
        source = _kept[text] = Source(text)
        _kept_characters += _weight(text)
        while _kept_characters > _KEPT_CHARACTERS:
            gone, _ = _kept.popitem(last=False)
            _kept_characters -= _weight(gone)
        return source


def parse(code: str, *, most_bytes: int = MAX_CODE_BYTES) -> Names:
    """The tree of `code` and its names.

    Raises:
        InvalidSkill: The code is too large, not Unicode or not Python; the message names the line.
    """
    source = read(code)
    if source.is_larger(most_bytes):
        raise InvalidSkill(f"The code is larger than {most_bytes:,} bytes. Pass data in as inputs instead.")
    if source.fault is not None:
        raise InvalidSkill(_sentence(source.fault))
    assert source.names is not None
    return source.names


def _sentence(fault: Fault) -> str:
    message = fault.message
    if fault.line is not None:
        message = f"Line {fault.line}: {message if fault.kind == 'syntax' else message[:1].lower() + message[1:]}"
    return f"{message} {_ADVICE[fault.kind]}"


def _is_larger(text: str, most_bytes: int) -> bool:
    return len(text) > most_bytes or (
        len(text) > most_bytes // 4 and len(text.encode("utf-8", "surrogatepass")) > most_bytes
    )


def _weight(text: str) -> int:
    return max(len(text), _LEAST_CHARACTERS)


def _digest(source: Source) -> str:
    return hashlib.blake2b(source.text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _parse(text: str) -> ast.Module | Fault:
    """The tree of `text`, for one thread at a time."""
    if _is_larger(text, MAX_CODE_BYTES):
        return Fault(kind="size")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return _fault_at("surrogate", text, error.start)
    if "\0" in text:
        return _fault_at("null", text, text.index("\0"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the agent's literals: nothing for the gateway's log
            tree = compile(text, "<agent>", "exec", _FLAGS, dont_inherit=True)
    except SyntaxError as error:
        return Fault(
            kind="syntax",
            line=error.lineno,
            column=error.offset,
            error=type(error).__name__,
            words=str(error.msg).encode(errors="replace").decode(),
        )
    except (RecursionError, MemoryError):
        return Fault(kind="nested")
    except (ValueError, OverflowError, SystemError) as error:  # Python 3.12.1 fails so on some damaged f-strings
        return Fault(kind="parser", words=str(error))
    assert isinstance(tree, ast.Module)
    return tree


def _fault_at(kind: Literal["surrogate", "null"], text: str, index: int) -> Fault:
    # Lines as Python counts them; `splitlines` would also split at form feeds and the like.
    before = text[:index].replace("\r\n", "\n").replace("\r", "\n")
    return Fault(kind=kind, line=before.count("\n") + 1, column=len(before) - before.rfind("\n"))


def _value_span(source: Source) -> tuple[int, int] | None:
    text, tree = source.text, source.tree
    if tree is None or not text.isascii() or any(word in text for word in _OTHERWISE):
        return None
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or last.end_lineno is None or last.end_col_offset is None:
        return len(text), len(text)
    lines = text.split("\n")
    start, end = (
        sum(len(line) + 1 for line in lines[: number - 1]) + column
        for number, column in ((last.lineno, last.col_offset), (last.end_lineno, last.end_col_offset))
    )
    return start, end
