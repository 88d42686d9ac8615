"""The detectors are checked against samples that are made anew every time, and always the same."""

import random
from typing import Any

import pytest

from sealyard.privacy import TYPES
from sealyard.privacy.detect import Scanner, ScanRules, check_detection
from sealyard.privacy.detect.checks import is_card, is_iban, is_ssn
from sealyard.privacy.detect.selfcheck import _SAMPLES, Detection, _made


def test_the_built_in_detectors_find_every_sample() -> None:
    """All types that are concealed unless the configuration says otherwise have samples, and all are found."""
    found = check_detection(Scanner())

    assert found == Detection(samples=215, found=215, missed={})
    assert found.rate == 1.0
    without = {name for name, info in TYPES.items() if info.default} - _SAMPLES.keys()
    assert without == {"text", "literal"}  # which only a rule or a session can tell


def test_only_the_types_that_are_asked_for_are_looked_for() -> None:
    """Who leaves types visible on purpose is not told that they are not found."""
    found = check_detection(Scanner(ScanRules(types=frozenset({"email", "iban"}))))

    assert (found.samples, found.found) == (30, 30)
    assert check_detection(Scanner(ScanRules(types=frozenset()))).rate is None


def test_a_value_that_is_allowed_on_purpose_is_no_sample() -> None:
    """An allowed domain is a decision, not a failure."""
    found = check_detection(Scanner(ScanRules(allow=("*@*.EXAMPLE",))))

    assert (found.samples, found.rate) == (200, 1.0)


class Forgetful(Scanner):
    """Overlooks one type."""

    def conceal(self, value: Any, replace: Any, **options: Any) -> Any:
        """As ever, but for e-mail addresses."""
        return super().conceal(value, lambda kind, each: each if kind == "email" else replace(kind, each))


def test_a_detector_that_misses_is_told_by_type() -> None:
    """And lowers the rate."""
    found = check_detection(Forgetful())

    assert (found.missed, found.rate) == ({"email": 15}, 200 / 215)


@pytest.mark.parametrize(
    ("kind", "check"), [("credit_card", is_card), ("iban", is_iban), ("ssn", is_ssn)], ids=["card", "iban", "ssn"]
)
def test_samples_have_the_right_check_digits(kind: str, check: Any) -> None:
    """A detector that asks for them is right to."""
    made = random.Random(1)

    assert all(check(_made(_SAMPLES[kind][0], made)) for _ in range(200))
