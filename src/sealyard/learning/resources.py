"""The time and memory that runs of the same or similar code needed, and limits from that.

A run gets more time than usual if similar runs needed it. Only the very same text gets less time or memory, with a wide
margin, after several successful runs: too little loses a run, too much costs nearly nothing. Runs of one other
principal never change a principal's limits; those of two others may.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from sealyard.learning.code import CodePrint
from sealyard.learning.disclosure import IDENTIFIER
from sealyard.learning.part import Insight, Lesson, Part, PartInsights, Viewer, part_insights
from sealyard.sandbox.policy.levels import IsolationPolicy
from sealyard.values.facts import Assessed, Executed, RunEvidence

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_CODES = 2_000  # codes remembered: a bound
_SETS = 500  # sets of tools and imports remembered: a bound
_SAMPLES = 32  # runs kept of each: a bound
_TEXT = 16  # characters of a digest that distinguish texts
_OLDEST = 2.0  # half-lives after which a run no longer counts
# `benchmarks learning --part resources` shows the effect of those below; they were not tuned by it.
_ENOUGH = 4.5  # runs that allow less than usual: five, faded a little
_EACH = 3.0  # most runs of one principal that count for others
_FEW = 3  # similar runs before they count
_QUANTILE = 0.95  # share of similar runs that a prediction covers
_FLOOR_SECONDS = 10.0  # least time that is ever given
_FLOOR_MIB = 128  # least memory that is ever given
_MORE_TIMES = 2.0  # factor on the time that similar runs needed
_MORE_SECONDS = 5.0  # seconds added to it
_LESS_TIMES = 10.0  # factor on the longest run of the same text: a wide margin, since too little costs the run
_MEMORY_TIMES = 2  # factor on the memory of the same text
_MEMORY_STEP = 16  # MiB to which a limit is rounded up

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
    unsettled: int = 0
    """Runs that a lowered limit has ended, until a later run shows whether more would have helped."""
    unsettled_seconds: float = 0.0
    """The time that lowered limits saved on them."""

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
    is_firm: bool = False
    """True if the very same text has succeeded often enough to get less than usual."""
    timed_out_seconds: float = 0.0
    """The last time limit that ended a run since the last success; 0 if there was none."""
    most_timed_out_seconds: float = 0.0
    """The longest such time limit."""
    is_out_of_memory: bool = False
    """True if the memory limit ended a run since the last success."""


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for a run."""

    wall_seconds: float
    memory_mib: int


class Resources(Part, msgspec.Struct, kw_only=True):
    """The needs of past runs: at most 2,000 codes and 500 sets of tools and imports with 32 runs each."""

    codes: dict[str, Record] = {}
    """By `CodePrint.digest`, which is equal for code that differs only in values; the most recent last."""
    sets: dict[str, Record] = {}
    runs: int = 0
    avoided: int = 0
    """Good runs that took longer than the usual limit, within the one they were given."""
    spared_seconds: float = 0.0
    """The time saved on runs that hung."""
    held: int = 0
    """Runs that had less memory than usual, and enough."""
    held_mib: int = 0
    """The total memory saved by them."""
    last_at: float = 0.0

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
        sample = _sample(fact, code, ended, given)
        record = _record(self.codes, code.digest, fact.principal, (), _CODES)
        if given is not None:
            self._rate(record, given, ended, fact)
        record.add(sample)
        _record(self.sets, _set_key(fact.tools, code), fact.principal, fact.tools, _SETS).add(sample)

    def _rate(self, record: Record, given: Assessed, ended: _End, fact: Executed) -> None:
        """Rate limits that differed from the usual ones, and count their effect."""
        is_shorter = given.wall_seconds < given.usual_seconds
        is_less = given.memory_mib < given.usual_mib
        if (ended == "time" and is_shorter) or (ended == "memory" and is_less):
            record.unsettled += 1  # it hangs, or it needed more: the next run shows which
            record.unsettled_seconds += given.usual_seconds - given.wall_seconds if ended == "time" else 0.0
            return
        if record.unsettled:
            self.checked += record.unsettled
            self.right += record.unsettled if ended else 0
            self.spared_seconds += record.unsettled_seconds if ended == "time" else 0.0
            record.unsettled, record.unsettled_seconds = 0, 0.0
        self.last_at = max(self.last_at, fact.at)
        self.avoided += not ended and given.usual_seconds < fact.seconds <= given.wall_seconds
        self.held += not ended and is_less
        self.held_mib += given.usual_mib - given.memory_mib if not ended and is_less else 0
        if is_shorter or is_less or given.wall_seconds > given.usual_seconds:
            self.checked += 1
            self.right += not ended

    def predict(self, code: CodePrint, viewer: Viewer, *, tools: Sequence[str]) -> Prediction | None:
        """The needs of code that calls `tools` (full names); `None` if no similar code has run."""
        record = self.codes.get(code.digest)
        if record is not None:
            text = code.exact[:_TEXT]
            samples = [each for each in record.samples if each.text == text]
            if len(samples) >= _ENOUGH and (same := _Samples(samples, viewer)).is_enough:
                return same.prediction(is_same_code=True, is_firm=True)
            alike = _Samples(record.samples, viewer)
            if alike.heard:
                return alike.prediction(is_same_code=True)
        record = self.sets.get(_set_key(tuple(sorted(tools))[:20], code))
        if record is None:
            return None
        alike = _Samples(record.samples, viewer)
        return alike.prediction(is_same_code=False) if len(alike.good) >= _FEW else None

    def _effect(self) -> Insight:
        """The effect of limits that were learned."""
        return Insight(
            kind="effect",
            subject="limits",
            text=(
                f"Limits that fit: {self.avoided:,} time-outs avoided, hanging runs ended {self.spared_seconds:,.0f} s"
                f" sooner, {self.held:,} of the runs held to {_mean(self.held_mib, self.held):,} MiB less each."
            ),
            evidence=float(self.checked),
            principals=0,
            checked=self.checked,
            right=self.right,
            last_at=self.last_at,
        )

    def insights(self, viewer: Viewer) -> PartInsights:
        """The needs of tools that were used alone, and the effect of learned limits."""
        items = []
        for record in self.sets.values():
            if len(record.tools) != 1 or not all(map(IDENTIFIER.fullmatch, record.tools[0].split("."))):
                continue
            good = [each for each in record.samples if not each.ended]
            weights = [viewer.faded(each.at) for each in good]
            if len(good) < _FEW or sum(weights) < 1:
                continue
            seconds = _quantile([each.seconds for each in good], weights)
            mib = _quantile([float(each.mib) for each in good], weights)
            items.append(
                Insight(
                    kind="resources",
                    subject=record.tools[0],
                    text=f"Runs that call this tool alone need up to {seconds:.1f} s and {mib:.0f} MiB.",
                    evidence=sum(weights),
                    principals=len({each.principal for each in good}),
                    last_at=max(each.at for each in good),
                )
            )
        if self.checked:
            items.append(self._effect())
        return part_insights("resources", items, learned=len(self.codes), evidence=self.runs, score=self.score())


def _mean(total: int, count: int) -> int:
    return round(total / count) if count else 0


def fit(
    prediction: Prediction | None, policy: IsolationPolicy, *, max_seconds: float, is_memory_exact: bool = False
) -> Fitted:
    """The limits of a run whose request sets none.

    `is_memory_exact`: the sandbox limits memory itself and not address space (`Sandbox.resource_control` is not
    `rlimits`). Libraries map far more than they use, so address space is never lowered.
    """
    seconds, mib = policy.wall_seconds, policy.memory_mib
    if prediction is None or not prediction.is_binding:
        return Fitted(wall_seconds=seconds, memory_mib=mib)
    if is_memory_exact and policy.processes == 1 and prediction.is_firm and not prediction.is_out_of_memory:
        mib = _fit_memory(prediction, policy)
    return Fitted(wall_seconds=_fit_seconds(prediction, policy.wall_seconds, max_seconds), memory_mib=mib)


def _fit_seconds(prediction: Prediction, usual: float, most: float) -> float:
    needed = prediction.seconds * _MORE_TIMES + _MORE_SECONDS
    if needed > usual and prediction.runs:
        usual = max(usual, min(most, round(needed, 1)))
    longest = prediction.most_timed_out_seconds
    wide = prediction.seconds * _LESS_TIMES
    if longest and not (prediction.is_firm and longest >= wide):
        # A run that did not end within the longest limit will not end within it now.
        return usual if longest >= most else max(usual, min(most, round(longest * 2, 1)))
    if prediction.is_firm and not 0 < prediction.timed_out_seconds < usual:
        return min(usual, max(_FLOOR_SECONDS, round(wide, 1)))
    return usual


def _fit_memory(prediction: Prediction, policy: IsolationPolicy) -> int:
    if not prediction.memory_mib:
        return policy.memory_mib
    # Files in the workspace use memory too, but the measured memory of the process leaves them out.
    files = policy.workspace_mib + policy.temp_mib
    needed = max(_FLOOR_MIB, prediction.memory_mib * _MEMORY_TIMES + files)
    return min(policy.memory_mib, -(-needed // _MEMORY_STEP) * _MEMORY_STEP)


class _Samples:
    """The samples that count for one viewer: its own, and those of others if there are two of them."""

    def __init__(self, samples: Sequence[Sample], viewer: Viewer) -> None:
        self._viewer = viewer
        since = viewer.now - _OLDEST * viewer.half_life
        recent = [each for each in samples if each.at >= since]
        others = {each.principal for each in recent} - {viewer.principal}
        binding = [each for each in recent if each.principal == viewer.principal] if len(others) == 1 else recent
        self.is_binding = bool(binding)
        self.heard = binding or recent
        self.good = [each for each in self.heard if not each.ended]

    @property
    def is_enough(self) -> bool:
        """True if enough runs ended well to give less than usual."""
        counts: dict[str, float] = {}
        for each, weight in zip(self.good, self._weights(), strict=True):
            counts[each.principal] = counts.get(each.principal, 0.0) + weight
        shared = sum(min(_EACH, count) for count in counts.values())
        return self.is_binding and (counts.get(self._viewer.principal, 0.0) >= _ENOUGH or shared >= _ENOUGH)

    def _weights(self) -> list[float]:
        return [self._viewer.faded(each.at) for each in self.good]

    def prediction(self, *, is_same_code: bool, is_firm: bool = False) -> Prediction:
        """The prediction from these samples."""
        # Since one ended well, the newest first.
        since = list(itertools.takewhile(lambda each: each.ended, reversed(self.heard))) if is_same_code else []
        times = [each.seconds for each in since if each.ended == "time"]
        mibs = [float(each.mib) for each in self.good]
        return Prediction(
            seconds=self._most([each.seconds for each in self.good], is_same_code),
            memory_mib=int(self._most(mibs, is_same_code)) if 0.0 not in mibs else 0,
            runs=len(self.good),
            is_same_code=is_same_code,
            is_binding=self.is_binding,
            is_firm=is_firm,
            timed_out_seconds=times[0] if times else 0.0,
            most_timed_out_seconds=max(times, default=0.0),
            is_out_of_memory=any(each.ended == "memory" for each in since),
        )

    def _most(self, values: Sequence[float], is_same_code: bool) -> float:
        if not values:
            return 0.0
        return max(values) if is_same_code else _quantile(values, self._weights())


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


def _sample(fact: Executed, code: CodePrint, ended: _End, given: Assessed | None) -> Sample:
    seconds, mib = fact.seconds, -(-(fact.memory_bytes or 0) >> 20)
    if ended == "time" and given is not None:
        seconds = given.wall_seconds  # its measured time is the limit, not its need
    return Sample(fact.at, fact.principal, code.exact[:_TEXT], round(seconds, 3), mib, ended)


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
