"""The time and memory that runs of the same or similar code needed, and time limits from that.

A run gets more time than usual if similar runs needed it, and never less: too little loses a run, too much costs nearly
nothing. Memory is predicted, and its limit stays as configured. Runs of one other principal never change a principal's
limits; those of two others may.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from sealyard.learning.disclosure import IDENTIFIER
from sealyard.learning.part import Insight, Lesson, Part, PartInsights, Viewer, part_insights
from sealyard.learning.prints import CodePrint
from sealyard.values.facts import Executed, RunEvidence

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_CODES = 2_000  # codes remembered: a bound
_SETS = 500  # sets of tools and imports remembered: a bound
_SAMPLES = 32  # runs kept of each: a bound
_TEXT = 16  # characters of a digest that distinguish texts
_TOOLS = 20  # tools of a set, as many as the fact about a run names
_OLDEST = 2.0  # half-lives after which a run no longer counts
# `benchmarks learning --part resources` shows the effect of those below; they were not tuned by it.
_FEW = 3  # similar runs before they count
_QUANTILE = 0.95  # share of similar runs that a prediction covers
_MORE_TIMES = 2.0  # factor on the time that similar runs needed
_MORE_SECONDS = 5.0  # seconds added to it
_AGAIN_TIMES = 2.0  # factor on the limit that ended the last run
_HANGS_TIMES = 10.0  # factor on the longest run of the same text from which a run hangs, and gets no more time

# The part

_End = Literal["", "time", "memory"]


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """The needs of one run; if a limit ended it, that limit."""

    at: float
    principal: str
    text: str
    """The beginning of the digest of its text."""
    seconds: float
    mib: int
    """0 if unknown."""
    ended: _End = ""


class Record(msgspec.Struct, array_like=True):
    """The last runs of one code or of one set of tools and imports, in the order in which they ended."""

    owner: str
    """The principal of the first run."""
    tools: tuple[str, ...] = ()
    samples: list[Sample] = []

    def add(self, sample: Sample) -> None:
        """Remember a run. When it is full, the principal with the most runs loses its oldest."""
        self.samples.append(sample)
        if len(self.samples) > _SAMPLES:
            [(most, _)] = Counter(each.principal for each in self.samples).most_common(1)
            del self.samples[next(n for n, each in enumerate(self.samples) if each.principal == most)]


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """The expected needs of a piece of code."""

    seconds: float
    """The longest run of the same code, or the time that covers 95 % of similar runs; 0 without a successful run."""
    memory_mib: int
    """The same for memory; 0 if unknown."""
    runs: int
    """Successful runs."""
    is_same_code: bool
    is_binding: bool = False
    """True if limits may depend on it: it comes from the principal itself, or from two others."""
    timed_out_seconds: float = 0.0
    """The last time limit that ended a run since the last success; 0 if there was none."""
    most_timed_out_seconds: float = 0.0
    """The longest such time limit."""
    is_out_of_memory: bool = False
    """True if the memory limit ended a run since the last success."""
    text_seconds: float = 0.0
    """The longest of three or more successful runs of the same text; 0 with fewer. Other values may need longer."""


class Resources(Part, msgspec.Struct, kw_only=True):
    """The needs of past runs: at most 2,000 codes and 500 sets of tools and imports with 32 runs each."""

    codes: dict[str, Record] = {}
    """By `CodePrint.digest`, which is equal for code that differs only in values; the most recent last."""
    sets: dict[str, Record] = {}
    runs: int = 0

    def learn_run(self, run: RunEvidence, lesson: Lesson, viewer: Viewer) -> None:
        """Learn from a run. Analyses and single calls are ignored: they have no code."""
        code = lesson.code
        fact = run.fact
        if fact.form == "call" or fact.failure in ("refused", "syntax"):
            return
        ended = _end_of(fact)
        if fact.form != "code" or code is None or ended is None:
            return
        self.runs += 1
        given = fact.assessed
        if given is not None and given.wall_seconds > given.usual_seconds:
            self.checked += 1
            self.right += not ended
        # The measured time of a run that was ended is its limit, and not its need.
        seconds = given.wall_seconds if ended == "time" and given is not None else fact.seconds
        mib = -(-(fact.memory_bytes or 0) >> 20)
        sample = Sample(fact.at, fact.principal, code.exact[:_TEXT], round(seconds, 3), mib, ended)
        _record(self.codes, code.digest, fact.principal, (), _CODES).add(sample)
        _record(self.sets, _set_key(fact.tools, code), fact.principal, fact.tools, _SETS).add(sample)

    def predict(self, code: CodePrint, viewer: Viewer, *, tools: Sequence[str]) -> Prediction | None:
        """The needs of code that calls `tools` (full names); `None` if no similar code has run."""
        text = code.exact[:_TEXT]
        found = _predict(self.codes.get(code.digest), text, viewer, is_same_code=True)
        if found is not None:
            return found
        record = self.sets.get(_set_key(tuple(sorted(tools))[:_TOOLS], code))
        found = _predict(record, text, viewer, is_same_code=False)
        return found if found is not None and found.runs >= _FEW else None

    def items(self, viewer: Viewer) -> Iterator[Insight]:
        """The needs of tools that were used alone."""
        for record in list(self.sets.values()):
            if len(record.tools) != 1 or not all(map(IDENTIFIER.fullmatch, record.tools[0].split("."))):
                continue
            good = [each for each in record.samples if not each.ended]
            weights = [viewer.faded(each.at) for each in good]
            if len(good) < _FEW or sum(weights) < 1:
                continue
            seconds = _quantile([each.seconds for each in good], weights)
            mib = _quantile([float(each.mib) for each in good], weights)
            yield Insight(
                kind="resources",
                subject=record.tools[0],
                text=f"Runs that call this tool alone need up to {seconds:.1f} s and {mib:.0f} MiB.",
                evidence=sum(weights),
                principals=len({each.principal for each in good}),
                last_at=max(each.at for each in good),
            )

    def summary(self, items: Sequence[Insight]) -> PartInsights:
        """The record of the needs."""
        return part_insights("resources", items, learned=len(self.codes), evidence=self.runs, score=self.score())


def fit_seconds(prediction: Prediction | None, usual: float, *, most: float) -> float:
    """The time limit of a run whose request sets none: never less than `usual`, and at most `most`."""
    if prediction is None or not prediction.is_binding:
        return usual
    needed = prediction.seconds * _MORE_TIMES + _MORE_SECONDS if prediction.runs else 0.0
    longest = prediction.most_timed_out_seconds
    is_hanging = longest >= most or 0 < prediction.text_seconds * _HANGS_TIMES <= longest
    if longest and not is_hanging:
        needed = max(needed, longest * _AGAIN_TIMES)
    return max(usual, min(most, round(needed, 1)))


def _predict(record: Record | None, text: str, viewer: Viewer, *, is_same_code: bool) -> Prediction | None:
    """The prediction from the runs that count for a viewer: its own, and those of others if there are two of them."""
    since = viewer.now - _OLDEST * viewer.half_life
    recent = [] if record is None else [each for each in record.samples if each.at >= since]
    if not recent:
        return None
    others = {each.principal for each in recent} - {viewer.principal}
    binding = [each for each in recent if each.principal == viewer.principal] if len(others) == 1 else recent
    heard = binding or recent
    good = [each for each in heard if not each.ended]
    weights = [viewer.faded(each.at) for each in good]
    # Since one ended well, the newest first.
    ended = list(itertools.takewhile(lambda each: each.ended, reversed(heard))) if is_same_code else []
    times = [each.seconds for each in ended if each.ended == "time"]
    same_text = [each.seconds for each in good if each.text == text]

    def most(values: Sequence[float]) -> float:
        if not values:
            return 0.0
        return max(values) if is_same_code else _quantile(values, weights)

    return Prediction(
        seconds=most([each.seconds for each in good]),
        memory_mib=int(most([float(each.mib) for each in good])) if all(each.mib for each in good) else 0,
        runs=len(good),
        is_same_code=is_same_code,
        is_binding=bool(binding),
        timed_out_seconds=times[0] if times else 0.0,
        most_timed_out_seconds=max(times, default=0.0),
        is_out_of_memory=any(each.ended == "memory" for each in ended),
        text_seconds=max(same_text) if len(same_text) >= _FEW else 0.0,
    )


def _quantile(values: Sequence[float], weights: Sequence[float]) -> float:
    """The weighted 95th percentile."""
    left = _QUANTILE * sum(weights)
    ordered = sorted(zip(values, weights, strict=True))
    for value, weight in ordered:
        left -= weight
        if left <= 1e-9:
            return value
    return ordered[-1][0]


def _end_of(fact: Executed) -> _End | None:
    """The limit that ended a run, empty if none did; `None` if the end is unrelated to limits."""
    if fact.status == "ok":
        return ""
    if fact.failure in ("wall_time", "cpu_time"):
        return "time"
    return "memory" if fact.failure == "memory" or fact.error_type == "MemoryError" else None


def _set_key(tools: tuple[str, ...], code: CodePrint) -> str:
    return "\n".join((" ".join(tools), " ".join(code.imports)))


def _record(table: dict[str, Record], key: str, principal: str, tools: tuple[str, ...], most: int) -> Record:
    """The record under `key`, at the end of `table`. In a full one, the principal with the most records loses one."""
    record = table.pop(key) if key in table else Record(principal, tools)
    table[key] = record
    if len(table) > most:
        [(owner, _)] = Counter(each.owner for each in table.values()).most_common(1)
        del table[next(name for name, each in table.items() if each.owner == owner and name != key)]
    return record
