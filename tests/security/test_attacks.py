"""Every attack from every leg: each user, tier and level, in a process of its own on the real kernel.

An attack holds when it ends with one of its expected verdicts and nothing of the host was touched. What the attacks
are, and the known gaps of each tier, is in `attack/`. A test takes one group of one leg and fails with every
difference in it.
"""

import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from attack.catalog import ATTEMPTS, GROUPS
from attack.legs import Leg, Results, all_legs, missing_features, outside_legs
from attack.model import Attempt, Facts
from attack.scenes import SCENES, Scene

MISSING = missing_features()
pytestmark = [pytest.mark.timeout(600), pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]

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


@pytest.mark.behaviour("isolation.controls")
@pytest.mark.parametrize("leg", OUTSIDE, ids=str)
def test_the_same_attacks_succeed_outside(leg: Leg, results: Results) -> None:
    """Plain Python on the host reaches what each attack is aimed at, so a refusal inside is the sandbox's doing."""
    report = results.of(leg)

    assert report["status"] == 0, report["errors"]
    assert _names(report) == {each.id for each in _here(ATTEMPTS) if each.outside}
    _hold(_differences_outside(report["attacks"]))


@pytest.mark.behaviour("isolation.attacks")
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("leg", INSIDE, ids=str)
def test_attacks_end_as_they_must(leg: Leg, group: str, results: Results) -> None:
    """A control works, an attack is refused in just the way it should be, and the host is untouched by either."""
    report = results.of(leg)

    assert report["status"] == 0, report["errors"]
    _hold(_differences(GROUPS[group], report["attacks"], Facts(**report["facts"])))


@pytest.mark.parametrize("leg", INSIDE, ids=str)
def test_leg_ran_where_it_was_meant_to(leg: Leg, results: Results) -> None:
    """The leg's own tier and level were attacked, not another that was easier to have, by all attacks and no other."""
    report = results.of(leg)
    facts = report["facts"]

    assert (facts["tier"], facts["level"]) == (leg.tier, leg.level)
    if leg.user == "unprivileged":
        assert facts["own_users"] is False
    if leg.user == "root-open" or (leg.user, leg.tier) == ("root", "namespace"):
        assert facts["own_users"] is True
    assert _names(report) == {each.id for each in _here(ANYWHERE)}


def test_there_are_at_least_five_hundred_attacks_and_controls() -> None:
    """At least eighty are attacks, each has a name of its own, and each is in one group."""
    names = [each.id for each in ANYWHERE]

    assert len(names) == len(set(names)) >= 500
    assert sum(not each.is_control for each in ANYWHERE) >= 80
    assert sorted(each.id for group in GROUPS.values() for each in group) == sorted(names)


def test_every_area_has_a_control() -> None:
    """In each area something must work, inside or outside, by the same means as the attacks."""
    areas = {each.area for each in ANYWHERE}
    controlled = {each.area for each in ANYWHERE if each.is_control}
    controlled |= {each.area for each in ATTEMPTS if each.outside}

    assert areas - controlled == set()


@pytest.mark.parametrize("leg", INSIDE, ids=str)
def test_any_one_wrong_verdict_is_a_difference(leg: Leg) -> None:
    """A report as it must be has none; another verdict, a touched host or a missing line makes the one it is of."""
    facts = Facts(
        user=leg.user,
        tier=leg.tier,
        level=leg.level,
        machine=platform.machine(),
        resource_control="cgroup2",
        own_users=leg.user != "unprivileged",
    )
    right = {each.id: {"verdict": min(each.expect(facts)), "touched": []} for each in _here(ANYWHERE)}

    for group in GROUPS.values():
        assert _differences(group, right, facts) == {}
        for each in _here(group):
            for wrong in ({"verdict": "got away", "touched": []}, right[each.id] | {"touched": ["a file"]}, None):
                changed = {name: seen for name, seen in (right | {each.id: wrong}).items() if seen is not None}
                assert list(_differences(group, changed, facts)) == [each.id]


def test_any_one_control_that_fails_outside_is_a_difference() -> None:
    """A report of the host as it must be has none; another verdict, touch or a missing line makes the one it is of."""
    attempts = [each for each in _here(ATTEMPTS) if each.outside]
    right = {
        each.id: {
            "verdict": "got it" if each.outside is True else str(each.outside),
            "touched": list(each.outside_touches),
        }
        for each in attempts
    }

    assert _differences_outside(right) == {}
    for each in attempts:
        for wrong in ({"verdict": "EPERM ", "touched": []}, right[each.id] | {"touched": ["another"]}, None):
            changed = {name: seen for name, seen in (right | {each.id: wrong}).items() if seen is not None}
            assert list(_differences_outside(changed)) == [each.id]


def _here(attempts: Iterable[Attempt | Scene]) -> list[Any]:
    """Those that this machine can try."""
    return [
        each
        for each in attempts
        if isinstance(each, Scene) or each.machine is None or each.machine == platform.machine()
    ]


def _names(report: Mapping[str, Any]) -> set[str]:
    return set(report["attacks"])


def _differences(
    attempts: Iterable[Attempt | Scene], seen: Mapping[str, Mapping[str, Any]], facts: Facts
) -> dict[str, str]:
    """By attempt, what it came to where that is not what it must be."""
    return {
        each.id: _difference(sorted(each.expect(facts)), [], seen.get(each.id))
        for each in _here(attempts)
        if each.id not in seen or seen[each.id]["verdict"] not in each.expect(facts) or seen[each.id]["touched"] != []
    }


def _differences_outside(seen: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """By attempt, what plain Python came to where it did not reach what the attack is aimed at."""
    wrong = {}
    for each in _here(ATTEMPTS):
        wanted = "got" if each.outside is True else str(each.outside)
        touches = list(each.outside_touches)
        found = seen.get(each.id)
        if each.outside and (found is None or not found["verdict"].startswith(wanted) or found["touched"] != touches):
            wrong[each.id] = _difference([f"{wanted} …"], touches, found)
    return wrong


def _difference(wanted: list[str], touches: list[str], seen: Mapping[str, Any] | None) -> str:
    got = "was not run" if seen is None else f"came to {seen['verdict']!r}, touched {seen['touched']}"
    return f"{got}; must come to {' or '.join(map(repr, wanted))}, touch {touches}"


def _hold(differences: Mapping[str, str]) -> None:
    """Fail with all of them."""
    if differences:
        lines = "\n".join(f"  {name}: {text}" for name, text in differences.items())
        pytest.fail(f"{len(differences)} ended otherwise:\n{lines}", pytrace=False)
