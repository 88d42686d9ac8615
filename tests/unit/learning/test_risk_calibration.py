"""Calibration: of the runs assessed at a level, as many fail as expected; and the figures count finished runs only."""

import random
from typing import Any

import msgspec
import pytest

from sealyard.learning.part import Lesson, Viewer
from sealyard.learning.prints import CodePrint, code_print
from sealyard.learning.risk import HIGH, MEDIUM, RiskModel
from sealyard.sandbox.review import Finding, Review
from sealyard.values.facts import Assessed, CallEvidence, Executed, RunEvidence

HALF_LIFE = 30 * 86_400.0
START = 1_700_000_000.0
FINE = Review(verdict="allow")
WARNED = Review(verdict="warn", findings=(Finding(severity="warn", rule="network", line=1, message="no network"),))
RUNS = 3_000
OFF = 0.08
"""How far the share that fails may be from what was told, on average over a level."""


def a_code(number: int) -> str:
    """One of any number of programs, of eight kinds by their tool."""
    lines = [f"from servers.s{number % 8} import fetch"]
    for step in range(2 + number % 4):
        field = f"f{(number + step) % 13}"
        lines += [f"rows = fetch(key_{(number * 7 + step) % 50}=1)", f"for row in rows: total = row['{field}'] + 1"]
    lines += [f"import m{place}" for place in range(12) if number >> place & 1]
    return "\n".join(lines)


def a_print(number: int) -> CodePrint:
    """Its print."""
    found = code_print(a_code(number))
    assert found is not None
    return found


class World:
    """A gateway whose runs fail with probabilities that only this knows."""

    def __init__(self, seed: int, *, chances: list[float], programs: int, principals: int = 4) -> None:
        self._random = random.Random(seed)
        self._prints = [a_print(number) for number in range(programs)]
        self._chances = [self._random.choice(chances) for _ in range(programs)]
        self._principals = principals
        self.dangers = RiskModel()
        self.now = START
        self.told: list[tuple[str, float, bool]] = []
        """The level and the chance that each run was told, and whether it failed."""

    def run(self, count: int, *, review: Review = FINE, chance: float | None = None) -> None:
        """Let that many runs be assessed, happen and teach."""
        for _ in range(count):
            program = self._random.randrange(len(self._prints))
            failed = self._random.random() < (self._chances[program] if chance is None else chance)
            self._run(program, review, failed=failed)

    def _run(self, program: int, review: Review, *, failed: bool) -> None:
        self.now += self._random.expovariate(1 / 120)
        who, number = f"p{self._random.randrange(self._principals)}", str(len(self.told))
        form = msgspec.structs.replace(self._prints[program], exact=number)
        session = f"{who}:default"
        told = self.dangers.assess(
            form, Viewer(who, self.now, HALF_LIFE), review=review, specs={}, context_digest="", session=session
        )
        self.told.append((told.risk, told.chance, failed))
        call = CallEvidence(
            number=1, tool=f"mcp__s{program % 8}__fetch", version="1.0.0", started_at=self.now, seconds=0.1
        )
        assessed = an_assessed(risk=told.risk, chance=told.chance, reasons=told.reasons)
        fact = an_end(self.now + 1, failed=failed, principal=who, execution_id=number, assessed=assessed)
        run = RunEvidence(fact=fact, started_at=self.now, session=session, calls=(call,))
        self.dangers.learn(Lesson(number=0, event=run, code=form), HALF_LIFE)

    def levels(self, since: int) -> dict[str, tuple[float, float, int]]:
        """What was told on average, what share failed, and how many runs that was, for each level."""
        found: dict[str, list[tuple[float, bool]]] = {}
        for risk, chance, failed in self.told[since:]:
            found.setdefault(risk, []).append((chance, failed))
        return {
            risk: (sum(chance for chance, _ in runs) / len(runs), sum(bad for _, bad in runs) / len(runs), len(runs))
            for risk, runs in found.items()
        }


def an_assessed(**fields: Any) -> Assessed:
    """A run was told something."""
    return Assessed(wall_seconds=30.0, memory_mib=256, usual_seconds=30.0, usual_mib=256, **fields)


def an_end(at: float, *, failed: bool, **fields: Any) -> Executed:
    """A run is over."""
    told: dict[str, Any] = {"status": "ok"}
    if failed:
        told = {"status": "failed", "failure": "exception", "error_type": "KeyError"}
    return Executed(at=at, form="code", seconds=1.0, use_case="filtering", tier="namespaces", **told | fields)


MIXED = [0.01, 0.03, 0.05, 0.1, 0.2, 0.45, 0.7, 0.9]


@pytest.mark.parametrize(
    ("chances", "programs", "principals", "runs"),
    [
        (MIXED, 60, 4, RUNS),
        (MIXED, 60, 1, RUNS),
        (MIXED, 900, 4, RUNS),
        ([0.6, 0.9, 0.95], 60, 4, RUNS // 2),
        ([0.02, 0.05], 60, 4, RUNS // 2),
    ],
    ids=["programs that come back", "one principal", "hardly one comes back", "most fail", "hardly any fails"],
)
def test_of_the_runs_told_a_level_as_many_fail_as_were_expected(
    chances: list[float], programs: int, principals: int, runs: int
) -> None:
    """In a journal of thousands of runs whose true chances are known, after the first third of them."""
    world = World(7, chances=chances, programs=programs, principals=principals)
    world.run(runs)
    levels = world.levels(since=runs // 3)

    assert levels.keys() <= {"low", "medium", "high"}
    bounds = {"low": (0.0, MEDIUM), "medium": (MEDIUM, HIGH), "high": (HIGH, 1.0)}
    for risk, (expected, share, count) in levels.items():
        least, most = bounds[risk]
        assert least <= expected <= most
        if count >= 100:
            assert abs(share - expected) < OFF
            assert least - OFF < share < most + OFF


def test_what_is_known_tells_runs_that_fail_from_runs_that_do_not() -> None:
    """Calibrated by saying the same of all would be easy: this is nearly as good as knowing the true chances."""
    world = World(3, chances=MIXED, programs=60)
    world.run(RUNS)
    told = world.told[RUNS // 3 :]
    share = sum(failed for _, _, failed in told) / len(told)
    error = sum((chance - failed) ** 2 for _, chance, failed in told) / len(told)

    assert error < 0.65 * share * (1 - share)


@pytest.mark.parametrize(("chance", "risk"), [(0.02, "low"), (0.5, "medium"), (0.97, "high")])
def test_what_was_believed_of_a_warning_is_corrected_by_what_becomes_of_it(chance: float, risk: str) -> None:
    """Code that the review warns of is told medium at first, whatever the truth is."""
    world = World(1, chances=[0.1], programs=40)
    world.run(900, review=WARNED, chance=chance)
    expected, share, count = world.levels(since=300)[risk]

    assert world.told[0][0] == "medium"
    assert count > 400
    assert abs(expected - share) < OFF


def test_a_systematic_error_of_the_estimate_is_put_right() -> None:
    """Warnings that come true one time in ten, of tools that never failed before, are a tenth and not a half."""
    world = World(2, chances=[0.1], programs=400)
    world.run(400)
    start = len(world.told)
    world.run(600, review=WARNED)
    told = world.told[start + 300 :]

    assert abs(sum(chance for _, chance, _ in told) / len(told) - 0.1) < 0.04


def test_the_figures_are_of_what_ran_and_of_nothing_else() -> None:
    """What was refused or withdrawn is in no share; a run that was asked for and ran is."""
    dangers = RiskModel()
    told = {"risk": "high", "chance": 0.7}
    ends: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("failed", {}, {"failed": True}),
        ("asked", {"decision": "asked"}, {"failed": True}),
        ("ok", {}, {"failed": False}),
        ("refused", {"decision": "refused"}, {"failed": True, "failure": "refused"}),
        ("refused by a person", {"decision": "asked"}, {"failed": True, "error_type": "ApprovalRefused"}),
        ("cancelled", {}, {"failed": False, "status": "cancelled"}),
        ("lost", {}, {"failed": False, "status": "lost"}),
    ]
    for number, (name, decided, end) in enumerate(ends):
        assessed = an_assessed(**told | decided)
        fact = an_end(START + number, principal="ann", execution_id=name, assessed=assessed, **end)
        run = RunEvidence(fact=fact, started_at=START)
        dangers.learn(Lesson(number=0, event=run, code=code_print("1 + 1")), HALF_LIFE)
    found = dangers.insights(Viewer("", START + 100, HALF_LIFE))

    assert [(item.subject, item.text, item.checked, item.right) for item in found.items] == [
        ("high", "Of 3 runs assessed high, 67% failed; 70% was expected.", 3, 2)
    ]
    assert (found.part, found.evidence, found.checked, found.right, found.accuracy) == ("risk", 3, 3, 2, 2 / 3)


def test_insights_say_how_often_each_level_was_right() -> None:
    """The figures are those of the journal, and `medium` claims neither."""
    world = World(5, chances=MIXED, programs=60)
    world.run(400)
    found = world.dangers.insights(Viewer("", world.now, HALF_LIFE))
    shown = {item.subject: item for item in found.items if item.kind == "risk"}

    assert shown.keys() == {"low", "medium", "high"}
    for risk, item in shown.items():
        ends = [failed for level, _, failed in world.told if level == risk]
        right = len(ends) - sum(ends) if risk == "low" else sum(ends)
        assert (item.checked, item.right, item.principals) == (len(ends), right, 4)
        assert item.text.startswith(f"Of {len(ends):,} runs assessed {risk}, {sum(ends) / len(ends):.0%} failed; ")
    assert found.checked == shown["low"].checked + shown["high"].checked
    assert found.right == shown["low"].right + shown["high"].right
