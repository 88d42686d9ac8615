"""Names of people and places in prose, found with Presidio and spaCy. Needs the `presidio` extra.

It reads ten to thirty kilobytes a second and is never complete: even large models miss names. Values with a form or a
field of their own are left to the built-in detectors.
"""

import importlib
import importlib.util
import threading
from collections.abc import Iterator
from typing import Any

from sealyard.errors import InvalidConfig
from sealyard.privacy.span import Span

_ENTITIES = {"PERSON": "person", "LOCATION": "location", "ORGANIZATION": "organization"}
"""Presidio's entities and the types they are concealed as."""
_LANGUAGE = "en"
_CALL_CHARACTERS = 10_000
"""The most that one call analyses: the memory of spaCy grows with it."""
_SIZES = ("trf", "lg", "md", "sm")


class PresidioDetector:
    """A detector of the scanner, with the largest installed English model.

    Loads its model on first use, which takes seconds and some hundred megabytes.

    Raises:
        InvalidConfig: The extra or a model is not installed.
    """

    def __init__(self) -> None:
        self._model = _installed_model()
        self._loading = threading.Lock()
        self._analyzer: Any = None

    def find(self, text: str) -> Iterator[Span]:
        """The entities in the text."""
        analyzer = self._loaded()
        start = 0
        while start < len(text):
            end = _cut(text, start)
            for found in analyzer.analyze(text[start:end], language=_LANGUAGE, entities=list(_ENTITIES)):
                yield Span(start + found.start, start + found.end, _ENTITIES[found.entity_type])
            start = end

    def _loaded(self) -> Any:
        with self._loading:
            if self._analyzer is None:
                presidio: Any = importlib.import_module("presidio_analyzer")
                engines: Any = importlib.import_module("presidio_analyzer.nlp_engine")
                models = [{"lang_code": _LANGUAGE, "model_name": self._model}]
                engine = engines.SpacyNlpEngine(
                    models=models,
                    # By default, Presidio drops organisations.
                    ner_model_configuration=engines.NerModelConfiguration(labels_to_ignore=["CARDINAL", "ORDINAL"]),
                )
                self._analyzer = presidio.AnalyzerEngine(nlp_engine=engine, supported_languages=[_LANGUAGE])
            return self._analyzer


def _installed_model() -> str:
    """The spaCy model to use. Presidio itself would try to download one that is missing."""
    if importlib.util.find_spec("presidio_analyzer") is None or importlib.util.find_spec("spacy") is None:
        raise InvalidConfig(
            "The detector `presidio` is not installed. "
            "Run `pip install 'sealyard[presidio]'`, or take it out of `privacy.detectors`."
        )
    util: Any = importlib.import_module("spacy.util")
    installed: list[str] = util.get_installed_models()
    fitting = [name for name in installed if name.startswith(f"{_LANGUAGE}_")]
    if not fitting:
        raise InvalidConfig(
            f"No spaCy model '{_LANGUAGE}_*' is installed, only {installed!r}. Run `pip install 'sealyard[presidio]'`."
        )
    return min(fitting, key=lambda name: next((rank for rank, size in enumerate(_SIZES) if f"_{size}" in name), 9))


def _cut(text: str, start: int) -> int:
    """The end of a call's text: after a line or a word, if there is one in its second half."""
    end = start + _CALL_CHARACTERS
    if end >= len(text):
        return len(text)
    half = start + _CALL_CHARACTERS // 2
    return max(text.rfind("\n", half, end), -1) + 1 or max(text.rfind(" ", half, end), -1) + 1 or end
