"""Adds meaning to words: fuses an index's scores with the nearness of sentence vectors. Needs the `semantic` extra.

A vector belongs to a definition, not to a catalog: it is kept by digest, and only definitions without one are
embedded. Until that is done, and wherever the extra is missing, tools are ranked by words alone.
"""

import asyncio
import importlib
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sealyard.discovery.index import Index, Learned, Ranking, Request
from sealyard.discovery.words import parts, spelled
from sealyard.store import Store
from sealyard.values.tools import ToolSpec

if TYPE_CHECKING:  # it needs the extra
    from sealyard.discovery.vectors import WordVectors

_MEANING = 0.5
"""The share of nearness in a fused score; the rest is the share of words."""
_BATCH = 64  # texts between two reports of progress
_DESCRIPTION_CHARACTERS = 500  # what a tool does is said first; notes on parameters follow

_log = logging.getLogger(__name__)


class _Stack(NamedTuple):
    tools: Index
    vectors: Mapping[str, bytes]
    numbers: list[int]
    """The tools of the index that have a vector."""
    nearness: Callable[[bytes], list[float]]


def load_encoder(folder: Path | None = None) -> "WordVectors | None":
    """The encoder of the `semantic` extra, or with the vectors in `folder`; `None`, with a warning, if it fails."""
    try:
        module: Any = importlib.import_module("sealyard.discovery.vectors")
        encoder: WordVectors = module.WordVectors(folder)
    except (ImportError, OSError, ValueError) as error:
        ours = folder is None or isinstance(error, ImportError)
        advice = "Install `sealyard[semantic]` to rank by meaning too" if ours else "Correct `discovery.vectors`"
        _log.warning("Tools are ranked by words alone: %s. %s.", error, advice)
        return None
    return encoder


class Semantic:
    """Searches any index by words and, as far as its tools have been embedded, by meaning."""

    def __init__(self, encoder: "WordVectors", store: Store | None = None) -> None:
        self._encoder = encoder
        self._store = store
        self._vectors: Mapping[str, bytes] = {}
        self._stack: _Stack | None = None

    @classmethod
    def load(cls, store: Store | None = None, *, folder: Path | None = None) -> "Semantic | None":
        """A ranker with the encoder of `load_encoder`; `None`, with a warning, if there is none. It takes a moment."""
        encoder = load_encoder(folder)
        return None if encoder is None else cls(encoder, store)

    async def embed(self, specs: Iterable[ToolSpec], *, on_progress: Callable[[int, int], None] | None = None) -> None:
        """Gives each of these tools its vector, from the store or from the encoder, which runs in a thread.

        Searches meanwhile see the vectors of the last call. A cancelled call has stored the batches that it finished.
        """
        texts = {spec.digest: _text(spec) for spec in specs}
        vectors = {digest: self._vectors[digest] for digest in texts if digest in self._vectors}
        if self._store is not None:
            stored = await self._store.get_vectors(self._encoder.model, texts.keys() - vectors.keys())
            vectors |= {key: value for key, value in stored.items() if len(value) == self._encoder.vector_bytes}
        missing = sorted(texts.keys() - vectors.keys())
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            encoded = await asyncio.to_thread(self._encoder.encode, [texts[digest] for digest in batch])
            made = dict(zip(batch, encoded, strict=True))
            if self._store is not None:
                await self._store.put_vectors(self._encoder.model, made)
            vectors |= made
            if on_progress is not None:
                on_progress(start + len(batch), len(missing))
        self._vectors = vectors

    async def search(
        self, index: Index, query: str, *, limit: int = 5, server: str | None = None, learned: Learned | None = None
    ) -> Ranking:
        """As `Index.search`; tools of a similar meaning are found too."""
        among = index.among(server)
        request, scores, scale = await asyncio.to_thread(self._scores, index, query, limit, among)
        return index.ranked(request, scores, limit=limit, among=among, learned=learned, scale=scale)

    def _scores(
        self, index: Index, query: str, limit: int, among: frozenset[int] | None
    ) -> tuple[Request, dict[int, float], float]:
        """The parsed query, the scores of tools, and the factor of a score by words in them."""
        stack = self._stacked(index)
        request = index.read(query)
        by_words = index.scores(request, limit=limit, among=among)
        if not stack.numbers or not (request.counts or request.unmatched):
            return request, by_words, 1.0
        (vector,) = self._encoder.encode([query])
        nearness = dict(zip(stack.numbers, stack.nearness(vector), strict=True))
        scores = _fused(by_words, nearness)
        if among is not None:
            scores = {number: score for number, score in scores.items() if number in among}
        return request, scores, (1 - _MEANING) / max(by_words.values(), default=1.0)

    def _stacked(self, index: Index) -> _Stack:
        vectors, stack = self._vectors, self._stack
        if stack is None or stack.tools is not index or stack.vectors is not vectors:
            numbers = [number for number, spec in enumerate(index.specs) if spec.digest in vectors]
            nearness = self._encoder.stacked([vectors[index.specs[number].digest] for number in numbers])
            stack = self._stack = _Stack(index, vectors, numbers, nearness)
        return stack


def _fused(by_words: Mapping[int, float], by_meaning: Mapping[int, float]) -> dict[int, float]:
    """Both divided by their largest and added by their shares; a tool without a vector counts by its words alone."""
    most = max(by_words.values(), default=1.0)
    nearest = max(by_meaning.values()) if by_meaning else 0.0
    fused = {number: score / most for number, score in by_words.items()}
    for number, nearness in by_meaning.items():
        words = fused.get(number, 0.0)
        meaning = nearness / nearest if nearness > 0 else 0.0
        fused[number] = words + _MEANING * (meaning - words)
    return fused


def _text(spec: ToolSpec) -> str:
    """The embedded text: only parts that the digest pins, so that servers with the same tool share its vector."""
    name = " ".join(part for word in spelled(spec.name) for part in parts(word))
    return f"{name}: {spec.description[:_DESCRIPTION_CHARACTERS]}"
