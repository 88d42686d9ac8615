"""The optional detector of names in prose. Most of it needs the `presidio` extra."""

import sys

import pytest

from sealyard.errors import InvalidConfig
from sealyard.privacy import TYPES
from sealyard.privacy.detect import PresidioDetector
from sealyard.privacy.detect.presidio import _ENTITIES

TEXT = "Yesterday John Smith from Chicago met Maria Garcia of Microsoft."


@pytest.fixture(scope="module")
def detector():
    """One detector for all: its model takes seconds to load."""
    pytest.importorskip("presidio_analyzer")
    return PresidioDetector()


def _found(detector, text):
    return sorted((text[span.start : span.end], span.type) for span in detector.find(text))


def test_missing_extra_is_told_with_what_to_install(monkeypatch):
    """A config that asks for the detector on a machine without it is refused at once."""
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    with pytest.raises(InvalidConfig) as caught:
        PresidioDetector()
    assert str(caught.value) == (
        "The detector `presidio` is not installed. "
        "Run `pip install 'sealyard[presidio]'`, or take it out of `privacy.detectors`."
    )


def test_entities_are_types_of_ours():
    """What Presidio finds has a type that the scanner knows."""
    assert set(_ENTITIES.values()) <= set(TYPES)


def test_missing_model_is_refused_and_not_downloaded(monkeypatch):
    """Presidio would fetch a model by itself; the gateway does not."""
    pytest.importorskip("presidio_analyzer")
    monkeypatch.setattr("spacy.util.get_installed_models", lambda: ["xx_ent_wiki_sm"])
    with pytest.raises(InvalidConfig):
        PresidioDetector()


def test_people_and_places_in_prose_are_found(detector):
    """Names without a field around them are found by the language model."""
    assert _found(detector, TEXT) == [
        ("Chicago", "location"),
        ("John Smith", "person"),
        ("Maria Garcia", "person"),
        ("Microsoft", "organization"),
    ]


def test_long_text_is_analysed_in_parts(detector):
    """Offsets count from the beginning of the text, and a name at a cut is not lost."""
    text = "\n".join([TEXT] * 400)
    spans = [span for span in detector.find(text) if span.type == "person"]
    assert {text[span.start : span.end] for span in spans} == {"John Smith", "Maria Garcia"}
    assert len(spans) == 800
