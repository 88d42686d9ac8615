"""Measures migration on code that is generated from tool definitions: known changes, many styles, judged by running."""

import ast
import itertools
import random
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.progress import Progress

from benchmarks.corpus.cases import SKILL, Case, build_case
from benchmarks.corpus.judge import Attempt, Judged, Outcome, Ran, Stage
from benchmarks.corpus.operations import OPERATIONS
from benchmarks.corpus.traps import trap_cases
from sealyard.catalog.stubs import Stub
from sealyard.cli.terminal import columns, errors, plain, screen
from sealyard.errors import InvalidRequest
from sealyard.values.skills import Trace, TraceCall
from sealyard.values.tools import ToolSpec
from sealyard.versioning.migrate import migrate
from sealyard.versioning.plan import Plan, adapt_answer, make_plan, translate_answer, translate_arguments

_SEED = 5
_OUTCOMES: tuple[Outcome, ...] = ("migrated_correctly", "migrated_wrongly", "refused_rightly", "refused_wrongly")
_LAYER = ("refused_rightly", "refused_wrongly", "translated_correctly", "translated_wrongly")
_SHOWN_FAILURES = 8
_TRAP_SHARE = 6
"""One of this number of cases is a trap."""

Migrator = Callable[[Case, Plan, Ran], Attempt]


def measure_migration(specs: Sequence[ToolSpec], *, cases: int, migrator: Migrator | None = None) -> dict[str, Any]:
    """Every figure about migration. Shares are of all cases; `by_operation` and `by_style` count."""
    score = _Score()
    with tempfile.TemporaryDirectory(prefix="sealyard-benchmark-") as folder:
        stage = Stage(Path(folder))
        with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
            for case in progress.track(build_cases(specs, cases), description="migrating", total=cases):
                score.add(case, stage, migrator or attempt_migration)
    return score.figures()


def build_cases(specs: Sequence[ToolSpec], most: int) -> Iterator[Case]:
    """Up to `most` cases, as many of each operation as can be, and some traps; always the same for the same tools."""
    traps = list(trap_cases())
    chosen = random.Random(_SEED).sample(traps, min(len(traps), most // _TRAP_SHARE))  # noqa: S311 - sample data
    yield from chosen
    streams = [_cases_of(name, specs) for name in OPERATIONS]
    found = len(chosen)
    while streams and found < most:
        for stream in tuple(streams):
            case = next(stream, None)
            if case is None:
                streams.remove(stream)
            elif found < most:
                found += 1
                yield case


def _cases_of(operation: str, specs: Sequence[ToolSpec]) -> Iterator[Case]:
    """Cases of one operation on one tool after the other, again and again in other styles; ends if none is possible."""
    order = random.Random(f"{_SEED} {operation}").sample(list(specs), len(specs))  # noqa: S311 - sample data
    for turn in itertools.count():
        possible = False
        for spec in order:
            chance = random.Random(f"{_SEED} {operation} {turn} {spec.full_name}")  # noqa: S311
            mutation = OPERATIONS[operation](spec, chance)
            case = None if mutation is None else build_case(mutation, chance)
            if case is not None:
                possible = True
                yield case
        if not possible:
            return


def plan_for(case: Case) -> Plan:
    """The way from the tool before to the tool after, found from the definitions alone."""
    return make_plan(case.mutation.before, case.mutation.after, python_names=_python_names)


def attempt_migration(case: Case, plan: Plan, recorded: Ran) -> Attempt:
    """Migrate as the product does: rewrite the code, and expect of it the recording as the plan carries it over."""
    migration = migrate(case.code, plan, form=case.form, name=SKILL)
    if migration.refusals:
        return Attempt(code=None, reason=" ".join(map(str, migration.refusals)))
    try:
        expected = _carried_over(plan, recorded.calls)
    except InvalidRequest as error:
        return Attempt(code=None, reason=str(error))
    return Attempt(code=migration.code, expected=expected)


def _carried_over(plan: Plan, calls: Sequence[TraceCall]) -> Trace:
    found = []
    for call in calls:
        if call.tool == plan.before.full_name and plan.after is not None:
            call = msgspec.structs.replace(
                call,
                tool=plan.after.full_name,
                arguments=translate_arguments(plan, call.arguments),
                answer=adapt_answer(plan, call.answer),
            )
        found.append(call)
    return Trace(recorded_at=0.0, calls=tuple(found))


def _python_names(spec: ToolSpec) -> dict[str, str]:
    return {parameter.key: parameter.name for parameter in Stub(spec).parameters}


class _Score:
    """Adds up what came of every case."""

    def __init__(self) -> None:
        self._judged: list[tuple[Case, Judged]] = []
        self._predictions: Counter[tuple[str, bool]] = Counter()
        self._layer: Counter[str] = Counter()
        self._layer_failed: list[dict[str, str]] = []
        self._seconds: list[tuple[float, float]] = []
        self._comments_lost = 0
        self._skipped = 0

    def add(self, case: Case, stage: Stage, migrator: Migrator) -> None:
        """Let the migration have a go at one case."""
        recorded = stage.record(case)
        if recorded.error or not recorded.calls:
            self._skipped += 1
            return
        plan = plan_for(case)
        started = time.perf_counter()
        attempt = migrator(case, plan, recorded)
        seconds = time.perf_counter() - started
        started = time.perf_counter()
        ast.parse(case.code)
        self._seconds.append((seconds, time.perf_counter() - started))
        judged = stage.judge(case, recorded, attempt)
        self._judged.append((case, judged))
        predicted = migrate(case.code, plan, form=case.form, name=SKILL).difficulty
        self._predictions[predicted, judged.outcome.startswith("migrated")] += 1
        self._add_layer(case, plan, recorded)
        if attempt.code is not None:
            self._comments_lost += any(mark in case.code and mark not in attempt.code for mark in _COMMENTS)

    def _add_layer(self, case: Case, plan: Plan, recorded: Ran) -> None:
        """Check that calls that are translated as they are made, and their answers, are what they should be."""
        for call in recorded.calls:
            if call.tool != plan.before.full_name:
                continue
            truth = case.mutation.arguments(call.arguments)
            try:
                translated = translate_arguments(plan, call.arguments)
            except InvalidRequest as error:
                wanted = truth is not None and case.mutation.is_mechanical
                self._note_layer("refused_wrongly" if wanted else "refused_rightly", case, str(error))
                continue
            why = "" if translated == truth else f"{translated} instead of {truth}"
            if not any(obstacle.side == "output" for obstacle in plan.obstacles):  # else the skill is refused
                answer = translate_answer(plan, case.mutation.answer(call.answer))
                why = why or ("" if answer == call.answer else f"an answer of {answer} instead of {call.answer}")
            self._note_layer("translated_wrongly" if why else "translated_correctly", case, why)

    def _note_layer(self, outcome: str, case: Case, why: str) -> None:
        self._layer[outcome] += 1
        if outcome.endswith("wrongly") and len(self._layer_failed) < _SHOWN_FAILURES:
            tool, operation = case.mutation.before.full_name, case.mutation.operation
            self._layer_failed.append({"outcome": outcome, "operation": operation, "tool": tool, "why": why[:500]})

    def figures(self) -> dict[str, Any]:
        """All of it."""
        total = len(self._judged)
        counts = Counter(judged.outcome for _, judged in self._judged)
        demanded = [judged for _, judged in self._judged if judged.is_demanded]
        done = sum(judged.outcome == "migrated_correctly" for judged in demanded)
        wrong_before = sum(judged.before_replay == "migrated_wrongly" for _, judged in self._judged)
        right = sum(
            count
            for (difficulty, migrated), count in self._predictions.items()
            if (difficulty == "mechanical") is migrated
        )
        return {
            "cases": total,
            "skipped": self._skipped,
            **{outcome: counts[outcome] / total for outcome in _OUTCOMES},
            "wrong_before_replay": wrong_before / total,
            "mechanical": done / len(demanded) if demanded else None,
            "mechanical_cases": len(demanded),
            "prediction": right / total,
            "predictions": self._predicted(),
            "by_operation": self._by(lambda case: (case.mutation.operation,)),
            "by_style": self._by(lambda case: case.styles),
            "translated_wrongly": self._layer["translated_wrongly"],
            "compatibility_layer": {outcome: self._layer[outcome] for outcome in _LAYER},
            "compatibility_layer_failed": self._layer_failed,
            "comments_lost": self._comments_lost,
            "migration_seconds": statistics.median(seconds for seconds, _ in self._seconds),
            "migration_ratio_to_parsing": statistics.median(seconds / bare for seconds, bare in self._seconds),
            "failed": self._failed(),
        }

    def _predicted(self) -> dict[str, dict[str, int]]:
        return {
            difficulty: {"cases": sum(counts.values()), "migrated": counts[True]}
            for difficulty in ("mechanical", "needs a look", "impossible")
            if (counts := Counter({done: self._predictions[difficulty, done] for done in (True, False)})).total()
        }

    def _by(self, names: Callable[[Case], tuple[str, ...]]) -> dict[str, dict[str, int]]:
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for case, judged in self._judged:
            for name in names(case):
                found[name].update(["cases", judged.outcome])
        return {name: {key: found[name][key] for key in ("cases", *_OUTCOMES)} for name in sorted(found)}

    def _failed(self) -> list[dict[str, Any]]:
        """The shortest of what went wrong, to look at."""
        failed = [(case, judged) for case, judged in self._judged if judged.outcome.endswith("wrongly")]
        failed.sort(key=lambda pair: (pair[1].outcome, len(pair[0].code)))
        return [
            {
                "outcome": judged.outcome,
                "operation": case.mutation.operation,
                "tool": case.mutation.before.full_name,
                "why": judged.why,
                "code": case.code,
            }
            for case, judged in failed[:_SHOWN_FAILURES]
        ]


_COMMENTS = ("# keep: a script", "# keep: inside", "# keep: the end")


def show_migration(figures: dict[str, Any]) -> None:
    """Print the figures as tables."""
    by_operation = columns("operation", "cases", *(outcome.replace("_", " ") for outcome in _OUTCOMES))
    for name, counts in figures["by_operation"].items():
        by_operation.add_row(plain(name), *(f"{counts[key]:,}" for key in ("cases", *_OUTCOMES)))
    by_operation.add_row("together", f"{figures['cases']:,}", *(f"{figures[outcome]:.2%}" for outcome in _OUTCOMES))
    screen.print(by_operation, "")
    for failed in figures["failed"]:
        screen.print(plain(f"{failed['outcome']}, {failed['operation']}, {failed['tool']}: {failed['why']}"))
        screen.print(plain(failed["code"], "dim"))
