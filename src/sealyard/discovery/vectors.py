"""Sentence vectors as the mean of word vectors, on the CPU. Imported only when ranking by meaning is switched on.

The vectors and the tokenizer are files of the installed package `wordllama`, pinned by their SHA-256, or of a folder
that the configuration names. Nothing is downloaded, and no code of `wordllama` is run: importing it reconfigures
logging.
"""

import hashlib
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# By name, so that types are checked without the extra.
_safetensors: Any = importlib.import_module("safetensors.numpy")
_tokenizers: Any = importlib.import_module("tokenizers")

_PACKAGE = "wordllama"
_PINNED = {
    "weights/l2_supercat_256.safetensors": "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    "tokenizers/l2_supercat_tokenizer_config.json": "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
}
_FOLDER = ("model.safetensors", "tokenizer.json")
"""The files of a folder, as Model2Vec and sentence-transformers write them for static embeddings."""
_TOKENS = 256  # of one text: bounds the work for a hostile description


class WordVectors:
    """Unit vectors as 16-bit floats.

    Args:
        folder: Holds `model.safetensors`, one table with a row for each token, and `tokenizer.json`. Without one, the
            vectors are those of `wordllama`.

    Raises:
        ImportError: `wordllama` is not installed.
        OSError: A file cannot be read.
        ValueError: A file is not the pinned one, or the files do not fit together.
    """

    def __init__(self, folder: Path | None = None) -> None:
        weights, tokenizer = _pinned() if folder is None else [(folder / name).read_bytes() for name in _FOLDER]
        try:
            (table,) = _safetensors.load(weights).values()
            self._tokenizer = _tokenizers.Tokenizer.from_str(tokenizer.decode())
            rows, dimensions = table.shape
            fits = rows >= self._tokenizer.get_vocab_size()
        except Exception as error:  # tokenizers raises nothing more specific
            raise ValueError(f"{folder or _PACKAGE} holds no table of vectors with its tokenizer") from error
        if not fits:
            raise ValueError(f"{folder or _PACKAGE} holds {rows} vectors, too few for its tokenizer")
        self._tokenizer.enable_truncation(_TOKENS)
        self._tokenizer.no_padding()
        self._table = table.astype(np.float16)
        digest = hashlib.sha256(weights + tokenizer).hexdigest()
        self.model = f"word-vectors/1/{digest[:16]}"
        self.vector_bytes = dimensions * 2

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """One vector for each text; tokens past the 256th are not read."""
        vectors = []
        for encoding in self._tokenizer.encode_batch(list(texts), add_special_tokens=False):
            total = self._table[encoding.ids].sum(axis=0, dtype=np.float32)
            vectors.append((total / (np.linalg.norm(total) or 1.0)).astype("<f2").tobytes())
        return vectors

    def stacked(self, vectors: Sequence[bytes]) -> Callable[[bytes], list[float]]:
        """The cosine of a vector with each of these."""
        rows = np.frombuffer(b"".join(vectors), "<f2").reshape(-1, self._table.shape[1]).astype(np.float32)

        def nearness(vector: bytes) -> list[float]:
            found: list[float] = (rows @ np.frombuffer(vector, "<f2").astype(np.float32)).tolist()
            return found

        return nearness


def _pinned() -> list[bytes]:
    """The pinned files of `wordllama`, which is found without importing it."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"No package named {_PACKAGE!r}")
    contents = []
    for file, sha256 in _PINNED.items():
        path = Path(spec.submodule_search_locations[0]) / file
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != sha256:
            raise ValueError(f"{path} is not the file that is pinned here")
        contents.append(content)
    return contents
