"""Measures tool chains and risk on journals that were made for no other purpose than this.

Chains are learned from half of the tasks of a set, as runs that called their tools in the order of the labels, and
asked for the other half; no chain was ever tuned on them. Risk is asked before each run of a simulated gateway whose
true chances only the simulation knows; `_SEEDS` were drawn after the last change of a tuned value.
"""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import msgspec

from benchmarks.discovery import Sets
from sealyard.catalog import Snapshot
from sealyard.learning.chains import Chains
from sealyard.learning.learner import prepare
from sealyard.learning.part import Lesson, Viewer
from sealyard.learning.prints import CodePrint, code_print
from sealyard.learning.risk import RiskModel
from sealyard.sandbox.review import Finding, Review
from sealyard.values.facts import Assessed, CallEvidence, Executed, RunEvidence
from sealyard.values.naming import assign, full_name, tool_part

_HALF_LIFE = 30 * 86_400.0
_START = 1_700_000_000.0
_MINUTE = 60.0
_SEEDS = (40_961, 40_973, 41_011)
_SPLITS = 3
_PRINCIPALS = 4
_FEWEST = 30
"""Tasks with several tools below which a set says nothing about chains."""


# Chains


def measure_chains(sets: Sets) -> dict[str, Any]:
    """`chain_precision`, `chain_gain` and, by set, what they are made of."""
    figures = {}
    for name, (tools, queries) in sets.items():
        names = assign(tools, lambda tool: full_name("set", tool_part(tool, upstream="set")))
        specs = [msgspec.structs.replace(spec, full_name=names[tool]) for tool, spec in tools.items()]
        tasks = [[names[tool] for tool in query.relevant] for query in queries if len(query.relevant) > 1]
        if len(tasks) >= _FEWEST:
            figures[name] = _measure_set(name, Snapshot({name: specs}), tasks)
    told = sum(figure["tips"] for figure in figures.values())
    right = sum(figure["right"] for figure in figures.values())
    common = sum(figure["right_by_frequency"] for figure in figures.values())
    return {
        "chain_precision": right / told if told else None,
        "chain_gain": right / common if common else None,
        "chains": figures,
    }


def _measure_set(name: str, view: Snapshot, tasks: Sequence[Sequence[str]]) -> dict[str, Any]:
    asked = tips = right = by_frequency = 0
    for split in range(_SPLITS):
        order = list(tasks)
        Random(f"{name} {split} {_SEEDS[0]}").shuffle(order)  # noqa: S311 - nothing is to be kept secret by it
        past, test = order[: len(order) // 2], order[len(order) // 2 :]
        chains = Chains()
        for number, task in enumerate(past):
            run = _run_of(task, number)
            chains.learn(prepare(run, number), _HALF_LIFE)
        used = Counter(tool for task in past for tool in task)
        viewer = Viewer("stranger", _START + len(past) * _MINUTE, _HALF_LIFE)
        for task in test:
            for place, tool in enumerate(task[:-1]):
                asked += 1
                found = chains.next_tools(tool, viewer, view=view.tools)
                if not found:
                    continue
                rest = task[place + 1 :]
                tips += 1
                right += found[0][0] in rest
                by_frequency += next((each for each, _ in used.most_common(2) if each != tool), "") in rest
    return {"tasks": len(tasks), "asked": asked, "tips": tips, "right": right, "right_by_frequency": by_frequency}


def _run_of(tools: Sequence[str], number: int) -> RunEvidence:
    at = _START + number * _MINUTE
    calls = tuple(
        CallEvidence(number=place, tool=tool, version="1.0.0", arguments={}, started_at=at, seconds=0.1)
        for place, tool in enumerate(tools, 1)
    )
    fact = Executed(
        at=at,
        principal=f"p{number % _PRINCIPALS}",
        execution_id=str(number),
        form="code",
        status="ok",
        seconds=1.0,
        use_case="workflow",
        tools=tuple(sorted(set(tools))),
    )
    return RunEvidence(fact=fact, started_at=at, calls=calls)


# Risk

_CHANCES = (0.01, 0.03, 0.05, 0.1, 0.2, 0.45, 0.7, 0.9)
_FAMILIES, _VARIANTS = 40, 3
_RUNS, _FIRST = 1_500, 500
_WARNED = Review(verdict="warn", findings=(Finding(severity="warn", rule="network", line=1, message="no network"),))
_FINE = Review(verdict="allow")


def measure_risk() -> dict[str, Any]:
    """`risk_error`: the squared error of chances to that of one chance for all; `risk_off`: how far shares are off."""
    errors: list[float] = []
    off: list[float] = []
    for seed in _SEEDS:
        told = list(_simulate(Random(seed)))[_FIRST:]  # noqa: S311 - nothing is to be kept secret by it
        share = statistics.fmean(failed for _, failed in told)
        error = statistics.fmean((chance - failed) ** 2 for chance, failed in told)
        errors.append(error / (share * (1 - share)))
        tenths: dict[int, list[float]] = {}
        for chance, failed in told:
            tenths.setdefault(int(chance * 10), []).append(chance - failed)
        off.append(sum(abs(sum(some)) for some in tenths.values()) / len(told))
    return {"risk_error": statistics.fmean(errors), "risk_off": statistics.fmean(off)}


def _simulate(chance: Random) -> Iterator[tuple[float, bool]]:
    """What each run was told, and whether it failed. Code of one family fails alike; half of all code is warned of."""
    prints = [_print(Random(family), variant) for family in range(_FAMILIES) for variant in range(_VARIANTS)]  # noqa: S311
    chances = [chance.choice(_CHANCES) for _ in range(_FAMILIES)]
    dangers, now = RiskModel(), _START
    for number in range(_RUNS):
        now += chance.expovariate(1 / 120)
        program, who = chance.randrange(len(prints)), f"p{chance.randrange(_PRINCIPALS)}"
        failed = chance.random() < chances[program // _VARIANTS]
        form = msgspec.structs.replace(prints[program], exact=str(number))
        review = _WARNED if program % 2 else _FINE
        viewer, session = Viewer(who, now, _HALF_LIFE), f"{who}:default"
        told = dangers.assess(form, viewer, review=review, specs={}, context_digest="", session=session)
        yield told.chance, failed
        ended: dict[str, Any] = {"failure": "exception", "error_type": "KeyError"} if failed else {}
        fact = Executed(
            at=now + 1,
            principal=who,
            execution_id=str(number),
            form="code",
            status="failed" if failed else "ok",
            seconds=1.0,
            use_case="filtering",
            tier="namespaces",
            assessed=Assessed(
                risk=told.risk,
                chance=told.chance,
                reasons=told.reasons,
                wall_seconds=30.0,
                memory_mib=256,
                usual_seconds=30.0,
                usual_mib=256,
            ),
            **ended,
        )
        tool = f"mcp__s{program // _VARIANTS % 8}__fetch"
        call = CallEvidence(number=1, tool=tool, version="1.0.0", started_at=now, seconds=0.1)
        run = RunEvidence(fact=fact, started_at=now, session=session, calls=(call,))
        dangers.learn(Lesson(number=number, event=run, code=form), _HALF_LIFE)


def _print(chance: Random, variant: int) -> CodePrint:
    """The print of one variant of a program: the same steps, and one of its own."""
    lines = [f"from servers.s{chance.randrange(8)} import fetch"]
    for _ in range(chance.randrange(3, 6)):
        field = chance.randrange(13)
        lines += [f"rows = fetch(key_{chance.randrange(50)}=1)", f"for row in rows: total = row['f{field}'] + 1"]
    lines.insert(1 + 2 * variant, f"extra_{variant} = [row['g{variant}'] for row in rows]")
    found = code_print("\n".join(lines))
    assert found is not None
    return found
