"""Names of people and places in prose, found with Presidio and spaCy. Needs the `presidio` extra.

It reads ten to thirty kilobytes a second and is never complete: even large models miss names. Values with a form or a
field of their own are left to the built-in detectors, unless the config names Presidio's entities.
"""

import importlib
import importlib.util
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from sealyard.errors import InvalidConfig
from sealyard.privacy.span import Span

ENTITIES: Mapping[str, str] = {
    "PERSON": "person",
    "LOCATION": "location",
    "ORGANIZATION": "organization",
    "EMAIL_ADDRESS": "email",
    "PHONE_NUMBER": "phone",
    "CREDIT_CARD": "credit_card",
    "IBAN_CODE": "iban",
    "IP_ADDRESS": "ip",
    "MAC_ADDRESS": "mac",
    "CRYPTO": "wallet",
    "US_SSN": "ssn",
    "US_ITIN": "tax_id",
    "US_PASSPORT": "passport",
    "US_DRIVER_LICENSE": "driver_license",
    "US_BANK_NUMBER": "bank_account",
    "MEDICAL_LICENSE": "medical_id",
    "UK_NHS": "medical_id",
    "UK_NINO": "national_id",
    "ES_NIF": "tax_id",
    "ES_NIE": "national_id",
    "IT_FISCAL_CODE": "tax_id",
    "IT_DRIVER_LICENSE": "driver_license",
    "IT_PASSPORT": "passport",
    "IT_IDENTITY_CARD": "national_id",
    "PL_PESEL": "national_id",
    "SG_NRIC_FIN": "national_id",
    "AU_TFN": "tax_id",
    "AU_MEDICARE": "medical_id",
    "IN_PAN": "tax_id",
    "IN_AADHAAR": "national_id",
    "IN_PASSPORT": "passport",
    "FI_PERSONAL_IDENTITY_CODE": "national_id",
}
"""Presidio's entities and the types they are concealed as."""

_CALL_CHARACTERS = 10_000
"""The most that one call analyses: the memory of spaCy grows with it."""
_SIZES = ("trf", "lg", "md", "sm")


class PresidioDetector:
    """A detector of the scanner. Loads its model on first use, which takes seconds and some hundred megabytes.

    Args:
        language: A language for which a spaCy model is installed.
        model: Name of that model; if empty, the largest installed one of the language.
        score: What Presidio must be sure of at least, from 0 to 1; spaCy's names always have 0.85.
        entities: What to look for, by Presidio's names: keys of `ENTITIES`.

    Raises:
        InvalidConfig: The extra or a model is not installed, or an entity is unknown.
    """

    def __init__(
        self,
        *,
        language: str = "en",
        model: str = "",
        score: float = 0.5,
        entities: tuple[str, ...] = ("PERSON", "LOCATION", "ORGANIZATION"),
    ) -> None:
        unknown = sorted(set(entities) - ENTITIES.keys())
        if unknown:
            raise InvalidConfig(f"Unknown Presidio entities {unknown!r}. Use some of: {', '.join(sorted(ENTITIES))}.")
        self._language = language
        self._score = score
        self._entities = list(entities)
        self._model = _installed_model(language, model)
        self._loading = threading.Lock()
        self._analyzer: Any = None

    def find(self, text: str) -> Iterator[Span]:
        """The entities in the text."""
        analyzer = self._loaded()
        start = 0
        while start < len(text):
            end = _cut(text, start)
            for found in analyzer.analyze(
                text[start:end], language=self._language, entities=self._entities, score_threshold=self._score
            ):
                yield Span(start + found.start, start + found.end, ENTITIES[found.entity_type])
            start = end

    def _loaded(self) -> Any:
        with self._loading:
            if self._analyzer is None:
                presidio: Any = importlib.import_module("presidio_analyzer")
                engines: Any = importlib.import_module("presidio_analyzer.nlp_engine")
                models = [{"lang_code": self._language, "model_name": self._model}]
                engine = engines.SpacyNlpEngine(
                    models=models,
                    # By default, Presidio drops organisations.
                    ner_model_configuration=engines.NerModelConfiguration(labels_to_ignore=["CARDINAL", "ORDINAL"]),
                )
                self._analyzer = presidio.AnalyzerEngine(nlp_engine=engine, supported_languages=[self._language])
            return self._analyzer


def _installed_model(language: str, wanted: str) -> str:
    """The spaCy model to use. Presidio itself would try to download one that is missing."""
    if importlib.util.find_spec("presidio_analyzer") is None or importlib.util.find_spec("spacy") is None:
        raise InvalidConfig(
            "The detector `presidio` is not installed. "
            "Run `pip install 'sealyard[presidio]'`, or take it out of `privacy.detectors`."
        )
    util: Any = importlib.import_module("spacy.util")
    installed: list[str] = util.get_installed_models()
    fitting = [name for name in installed if (name == wanted if wanted else name.startswith(f"{language}_"))]
    if not fitting:
        raise InvalidConfig(
            f"No spaCy model {wanted or language + '_*'!r} is installed, only {installed!r}. "
            "Run `pip install 'sealyard[presidio]'` for an English one, or install the one you want."
        )
    return min(fitting, key=lambda name: next((rank for rank, size in enumerate(_SIZES) if f"_{size}" in name), 9))


def _cut(text: str, start: int) -> int:
    """Where to end a call's text: after a line or a word, if there is one in its second half."""
    end = start + _CALL_CHARACTERS
    if end >= len(text):
        return len(text)
    half = start + _CALL_CHARACTERS // 2
    return max(text.rfind("\n", half, end), -1) + 1 or max(text.rfind(" ", half, end), -1) + 1 or end
