"""The optional detector of names in prose. Most of it needs the `presidio` extra."""

import sys

import pytest

from sealyard.errors import InvalidConfig
from sealyard.privacy import TYPES
from sealyard.privacy.detect import PresidioDetector
from sealyard.privacy.detect.presidio import ENTITIES

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
    assert set(ENTITIES.values()) <= set(TYPES)


def test_unknown_entity_is_refused():
    """A name that Presidio does not have would find nothing, silently."""
    with pytest.raises(InvalidConfig):
        PresidioDetector(entities=("PERSON", "PERSONS"))


def test_missing_model_is_refused_and_not_downloaded():
    """Presidio would fetch a model by itself; the gateway does not."""
    pytest.importorskip("presidio_analyzer")
    with pytest.raises(InvalidConfig):
        PresidioDetector(model="xx_no_such_model")
    with pytest.raises(InvalidConfig):
        PresidioDetector(language="xx")


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


def test_score_and_entities_narrow_what_is_found():
    """A score above what the model gives finds nothing; entities not asked for are not looked for."""
    pytest.importorskip("presidio_analyzer")
    assert _found(PresidioDetector(score=0.99), TEXT) == []
    assert _found(PresidioDetector(entities=("LOCATION",)), TEXT) == [("Chicago", "location")]
