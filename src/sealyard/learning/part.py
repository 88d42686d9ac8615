"""The common skeleton of the parts of learning: a lesson in, evidence that fades, insights out.

Evidence for and against a statement fades with time, and no principal can give more than a share of it.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from sealyard.learning.causes import Cause
from sealyard.learning.prints import CodePrint
from sealyard.values.facts import Executed, Hinted, LearningEvent, RunEvidence, Searched, Used

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

CAP = 5.0  # most weight of one principal: a thousand repetitions count as five
OWN_CAP = 60.0  # the cap where a principal's own runs count in full for itself
_LONE = 2.0  # most runs of one other principal that count without confirmation
PRINCIPALS = 16  # principals in one piece of evidence, the last heard: a bound
_HEARD = 0.05  # remaining weight that still counts as a voice: one observation for about four half-lives
MAX_ITEMS = 50  # insights listed of one part

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


# Evidence


class Viewer(msgspec.Struct, frozen=True, gc=False):
    """A principal at a time, with the rate at which evidence fades. It adds evidence or reads it."""

    principal: str
    """Empty for an operator, which has no evidence."""
    now: float
    half_life: float
    """In seconds."""

    def faded(self, at: float) -> float:
        """The weight of an observation made at `at`; at most 1, even if the clock was set back."""
        age = self.now - at  # as `faded`, without the cost of a second call: a search calls this hundreds of times
        return 1.0 if age <= 0 else float(2.0 ** (-age / self.half_life))


def faded(age: float, half_life: float) -> float:
    """The weight of an observation that is `age` seconds old."""
    return 1.0 if age <= 0 else float(2.0 ** (-age / half_life))


class Tally(msgspec.Struct, frozen=True):
    """The sum of some evidence at one time."""

    yes: float = 0.0
    no: float = 0.0
    principals: int = 0
    """Principals with more evidence for than against, and recent enough to count."""

    @property
    def total(self) -> float:
        """For and against together."""
        return self.yes + self.no

    @property
    def share(self) -> float:
        """The share in favour, drawn towards one half while there is little evidence; one half without any."""
        return (self.yes + 1) / (self.total + 2)


class FailureEvidence(msgspec.Struct, frozen=True):
    """The evidence about failing runs as it counts for one principal."""

    failed: float = 0.0
    total: float = 0.0
    own_failed: float = 0.0
    """The principal's own part of `failed`."""
    accusers: int = 0
    """Other principals more than half of whose runs failed."""

    @property
    def share(self) -> float:
        """The share of runs that failed; 0 without any run."""
        return self.failed / self.total if self.total else 0.0


class Evidence(msgspec.Struct, array_like=True, gc=False):
    """Observations of one statement by principal. Excluded from garbage collection: there are too many to visit."""

    by: dict[str, tuple[float, float, float]] = {}
    """For, against, and the time to which both are faded; the most recent principal last."""

    def add(
        self, viewer: Viewer, *, yes: float = 0.0, no: float = 0.0, cap: float = CAP, most: int = PRINCIPALS
    ) -> None:
        """Add an observation that the viewer makes. One that arrives late is faded before it is added."""
        at = viewer.now
        had_yes, had_no, had_at = self.by.pop(viewer.principal, (0.0, 0.0, at))
        if had_at > at:
            late = faded(had_at - at, viewer.half_life)
            yes, no = yes * late, no * late
        share = viewer.faded(had_at)
        new_yes, new_no = had_yes * share + yes, had_no * share + no
        scale = min(1.0, cap / max(new_yes + new_no, cap))
        put_last(self.by, viewer.principal, (new_yes * scale, new_no * scale, max(at, had_at)), most)

    def add_run(self, viewer: Viewer, *, failed: bool) -> None:
        """Add a run of the viewer to the evidence that such runs fail."""
        self.add(viewer, yes=float(failed), no=float(not failed), cap=OWN_CAP)

    def tally(self, viewer: Viewer, *, is_own: bool = False) -> Tally:
        """The sum over all principals, or over the viewer alone."""
        yes = no = 0.0
        principals = 0
        for principal, (one, other, at) in self.by.items():
            if not is_own or principal == viewer.principal:
                share = viewer.faded(at)
                yes, no = yes + one * share, no + other * share
                principals += one > other and one * share >= _HEARD
        return Tally(yes, no, principals)

    def known(self, viewer: Viewer, *, lone: float = _LONE) -> FailureEvidence:
        """Failed runs as they count for a viewer.

        Its own runs count in full, those of each other principal at most like `CAP` runs, and like `lone` runs if there
        is only one other.
        """
        cap = CAP if len(self.by) - (viewer.principal in self.by) > 1 else lone
        failed = total = own_failed = 0.0
        accusers = 0
        for who, (bad, good, at) in self.by.items():
            weight = viewer.faded(at)
            if who == viewer.principal:
                own_failed = bad * weight
            else:
                weight *= min(1.0, cap / (bad + good))
                accusers += bad > good
            failed, total = failed + bad * weight, total + (bad + good) * weight
        return FailureEvidence(failed, total, own_failed, accusers)

    @property
    def last_at(self) -> float:
        """The time of the last observation; 0 without any."""
        return max((at for _, _, at in self.by.values()), default=0.0)


def shrunk(prior: float, weight: float, known: FailureEvidence) -> float:
    """The share of failed runs, drawn towards `prior` as if that were `weight` runs."""
    return (prior * weight + known.failed) / (weight + known.total)


def put_last(table: dict[_Key, _Value], key: _Key, value: _Value, most: int) -> _Value:
    """Set an entry, move it to the end, and drop the entries set longest ago down to `most`.

    Tables stay plain dictionaries, so that a model is encoded and compared as it is.
    """
    table.pop(key, None)
    table[key] = value
    trim(table, most)
    return value


def touch(table: dict[_Key, _Value], key: _Key, make: Callable[[], _Value], most: int | None = None) -> _Value:
    """The entry of `key`, made if there is none, and moved to the end; with a bound, it drops entries as `put_last`."""
    value = table[key] = table.pop(key) if key in table else make()
    if most is not None:
        trim(table, most)
    return value


def trim(table: dict[_Key, Any], most: int) -> None:
    """Drop the entries that were set longest ago down to `most`."""
    while len(table) > most:
        del table[next(iter(table))]


# Insights


class Insight(msgspec.Struct, frozen=True, kw_only=True):
    """One learned statement. `subject` is a validated name and `text` our own sentence: neither holds foreign text."""

    kind: str
    subject: str
    text: str
    evidence: float
    principals: int
    checked: int = 0
    right: int = 0
    last_at: float


class PartInsights(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one part. `accuracy` is None until one of its statements has proved right or wrong."""

    part: str
    learned: int
    evidence: int
    checked: int
    right: int
    accuracy: float | None
    items: tuple[Insight, ...]


def part_insights(
    part: str, items: Iterable[Insight], *, learned: int, evidence: int, score: tuple[int, int]
) -> PartInsights:
    """The record of one part: its strongest items first, at most MAX_ITEMS, in one order for equal evidence."""
    checked, right = score
    strongest = heapq.nsmallest(
        MAX_ITEMS, items, key=lambda item: (-item.evidence, -item.last_at, item.kind, item.subject, item.text)
    )
    return PartInsights(
        part=part,
        learned=learned,
        evidence=evidence,
        checked=checked,
        right=right,
        accuracy=right / checked if checked else None,
        items=tuple(strongest),
    )


def merged(part: str, found: Sequence[PartInsights]) -> PartInsights:
    """The record of one part in several models."""
    return part_insights(
        part,
        [item for each in found for item in each.items],
        learned=sum(each.learned for each in found),
        evidence=sum(each.evidence for each in found),
        score=(sum(each.checked for each in found), sum(each.right for each in found)),
    )


# Lessons and parts


class AnswerSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of one tool in one run."""

    tool: str
    major: int
    answers: int
    places: dict[str, dict[str, int]]
    """The number of values of each kind at each place, as `Reading` counts them."""


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """An event with everything that the parts read from it."""

    number: int
    """The number of its fact in the journal."""
    event: LearningEvent
    code: CodePrint | None = None
    answers: tuple[AnswerSeen, ...] = ()
    cause: Cause | None = None
    faults: tuple[str, ...] = ()
    """The parts that failed to read it."""

    @property
    def principal(self) -> str:
        """The principal that made the experience."""
        return fact_of(self.event).principal

    @property
    def at(self) -> float:
        """The time of the event."""
        return fact_of(self.event).at

    def viewer(self, half_life: float) -> Viewer:
        """The principal of the event at its time."""
        return Viewer(self.principal, self.at, half_life)


def fact_of(event: LearningEvent) -> Executed | Searched | Used | Hinted:
    """The fact that an event is, or that the evidence of a run belongs to."""
    return event.fact if isinstance(event, RunEvidence) else event


class Part(msgspec.Struct, kw_only=True):
    """A part of the model: it learns, answers and rates itself independently. Only the event loop's thread uses it.

    Each has a method that answers its question for a viewer, such as `RiskModel.assess`, in our own words with checked
    names, and changes nothing. A part names `msgspec.Struct` as a base too: a linter then knows that its defaults are
    copied.
    """

    checked: int = 0
    """Statements that proved right or wrong."""
    right: int = 0

    def learn(self, lesson: Lesson, half_life: float) -> None:
        """Learn from one lesson; one that does not concern the part changes nothing."""
        match lesson.event:
            case Hinted() as hint:
                self.learn_hint(hint)
            case RunEvidence() as run:
                self.learn_run(run, lesson, lesson.viewer(half_life))

    def learn_hint(self, hint: Hinted) -> None:
        """Note a hint that an agent was given; its next runs rate it."""

    def learn_run(self, run: RunEvidence, lesson: Lesson, viewer: Viewer) -> None:
        """Learn from a run, and rate by it the earlier hints to its principal."""
        raise NotImplementedError

    def score(self) -> tuple[int, int]:
        """The number of statements that proved right or wrong, and of those that were right."""
        return self.checked, self.right

    def items(self, viewer: Viewer) -> Iterator[Insight | None]:
        """The insights for an operator. None marks a pause, in which the part may learn."""
        raise NotImplementedError

    def summary(self, items: Sequence[Insight]) -> PartInsights:
        """The record of the part, with these of its insights."""
        raise NotImplementedError

    def insights(self, viewer: Viewer) -> PartInsights:
        """The record of the part for an operator."""
        return self.summary([item for item in self.items(viewer) if item is not None])
