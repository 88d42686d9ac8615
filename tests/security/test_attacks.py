"""Every attack from every leg: each user, tier and level, in a process of its own on the real kernel.

An attack holds when it ends with one of its expected verdicts and nothing of the host was touched. What the attacks
are, and the known gaps of each tier, is in `attack/`.
"""

import platform
from pathlib import Path

import pytest
from attack.catalog import ATTEMPTS
from attack.legs import Leg, Results, all_legs, missing_features, outside_legs
from attack.model import Attempt, Facts
from attack.scenes import SCENES, Scene

MISSING = missing_features()
pytestmark = [pytest.mark.timeout(600), pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]

HERE = [each for each in ATTEMPTS if each.machine in (None, platform.machine())]
ALL: list[Attempt | Scene] = [*HERE, *SCENES]
ANYWHERE: list[Attempt | Scene] = [*ATTEMPTS, *SCENES]
INSIDE = all_legs()
OUTSIDE = outside_legs()


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Results:
    """What the legs came to; processes of one test run share it."""
    base: Path = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "legs"
    shared.mkdir(exist_ok=True)
    return Results(shared, (*OUTSIDE, *INSIDE))


@pytest.mark.parametrize("attempt", [each for each in HERE if each.outside], ids=lambda each: each.id)
@pytest.mark.parametrize("leg", OUTSIDE, ids=str)
def test_the_same_attack_succeeds_outside(leg: Leg, attempt: Attempt, results: Results) -> None:
    """Plain Python on the host reaches what the attack is aimed at, so a refusal inside is the sandbox's doing."""
    report = results.of(leg)
    assert report["status"] == 0, report["errors"]
    seen = report["attacks"][attempt.id]

    wanted = "got" if attempt.outside is True else str(attempt.outside)
    assert seen["verdict"][: len(wanted)] == wanted, seen["verdict"]
    assert seen["touched"] == list(attempt.outside_touches)


@pytest.mark.parametrize("attempt", ALL, ids=lambda each: each.id)
@pytest.mark.parametrize("leg", INSIDE, ids=str)
def test_attack_ends_as_it_must(leg: Leg, attempt: Attempt | Scene, results: Results) -> None:
    """A control works, an attack is refused in just the way it should be, and the host is untouched by either."""
    report = results.of(leg)
    assert report["status"] == 0, report["errors"]
    seen = report["attacks"][attempt.id]

    assert seen["verdict"] in attempt.expect(Facts(**report["facts"]))
    assert seen["touched"] == []


@pytest.mark.parametrize("leg", INSIDE, ids=str)
def test_leg_ran_where_it_was_meant_to(leg: Leg, results: Results) -> None:
    """The leg's own tier and level were attacked, not another that was easier to have."""
    facts = results.of(leg)["facts"]

    assert (facts["tier"], facts["level"]) == (leg.tier, leg.level)
    if leg.user == "unprivileged":
        assert facts["own_users"] is False
    if leg.user == "root-open" or (leg.user, leg.tier) == ("root", "namespace"):
        assert facts["own_users"] is True


def test_there_are_at_least_eighty_attacks() -> None:
    """Without the controls, and each under a name of its own."""
    names = [each.id for each in ANYWHERE]

    assert len(names) == len(set(names))
    assert sum(not each.is_control for each in ANYWHERE) >= 80


def test_every_area_has_a_control() -> None:
    """In each area something must work, inside or outside, by the same means as the attacks."""
    areas = {each.area for each in ANYWHERE}
    controlled = {each.area for each in ANYWHERE if each.is_control}
    controlled |= {each.area for each in ATTEMPTS if each.outside}

    assert areas - controlled == set()
