"""Facts and calls added up. Whole numbers only, so that adding in another order gives the same sums."""

import functools
from bisect import bisect_left
from collections.abc import Iterator, Mapping

import msgspec

from sealyard.metrics.sums.names import METRICS, OPERATOR, OPERATOR_NAMES, OTHER, Metric
from sealyard.values.facts import (
    Executed,
    Fact,
    Hidden,
    Hinted,
    Published,
    Saw,
    Searched,
    SecurityEvent,
    SkillEvent,
    Tokens,
    UpstreamEvent,
    Used,
)

Key = tuple[str, tuple[str, ...]]
"""The name of a metric and the values of its labels, in the order of its definition."""

OUTCOMES_OUTSIDE = frozenset(("ok", "tool_failed", "timeout", "unavailable", OTHER))
"""Outcomes of calls that were sent to the upstream; the others ended in the gateway."""
OUTCOMES_FAILED = OUTCOMES_OUTSIDE - {"ok"}
"""Outcomes of failed calls, on every page and in every figure."""

_MOST = 1 << 50
"""The most that one fact adds: a petabyte, or 35 years. More is an error, and would overflow the database."""
_NAME_CHARACTERS = 100
"""The longest that the configuration allows."""

_OUTCOMES = {
    "ToolFailed": "tool_failed",
    "UpstreamTimeout": "timeout",
    "UpstreamUnavailable": "unavailable",
    "InvalidArguments": "invalid",
    "InvalidRequest": "invalid",
    "UnknownTool": "invalid",
    "UnknownToken": "invalid",
    "CallRefused": "refused",
    "PolicyRefused": "refused",
    "ApprovalRefused": "refused",
    "LimitReached": "limited",
    "The call was cancelled.": "cancelled",
}


def outcome_of(error: str | None) -> str:
    """The value of the label `outcome` for a call, by the text of its error in the journal."""
    return "ok" if error is None else _OUTCOMES.get(error.partition(": ")[0], OTHER)


_SETS = {
    name: tuple(None if values == OPERATOR else frozenset(values) for values in metric.labels.values())
    for name, metric in METRICS.items()
}
_BORDERS = {name: tuple(round(border * each.scale) for border in each.buckets) for name, each in METRICS.items()}


class Sum(msgspec.Struct):
    """The sum of one metric with one set of labels. Readers of `Sums` do not change it."""

    count: int
    """The number of additions."""
    total: int
    """The total, in `1 / scale` of the metric's unit."""
    buckets: list[int] = []
    """The number in each bucket of a histogram, the last above the highest border; not cumulative."""

    def plus(self, other: "Sum") -> "Sum":
        """The sum of both."""
        buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]
        return Sum(self.count + other.count, self.total + other.total, buckets)


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """The counted part of a call in the journal."""

    tool: str
    upstream: str = ""
    """Its name in the configuration; of an old call it is read from the tool's."""
    error: str | None = None
    seconds: float
    answer_bytes: int = 0


class Sums(Mapping[Key, Sum]):
    """Sums by metric and labels.

    `operator_names` are the names of upstreams seen so far. The set is added to, and may be shared.
    """

    def __init__(self, operator_names: set[str] | None = None) -> None:
        self._names: set[str] = set() if operator_names is None else operator_names
        self._sums: dict[str, dict[tuple[str, ...], Sum]] = {}

    def __getitem__(self, key: Key) -> Sum:
        return self._sums[key[0]][key[1]]

    def __iter__(self) -> Iterator[Key]:
        return ((name, labels) for name, found in self._sums.items() for labels in found)

    def __len__(self) -> int:
        return sum(map(len, self._sums.values()))

    def of(self, name: str) -> Mapping[tuple[str, ...], Sum]:
        """The sums of one metric by labels."""
        return self._sums.get(name, {})

    # Adding

    def add_fact(self, fact: Fact) -> None:
        """Count a fact. Raises `TypeError` for one of no known kind."""
        match fact:
            case Executed():
                self._add_executed(fact)
            case Tokens():
                for part in ("definitions", "data"):
                    tokens = getattr(fact, part)
                    self.count("sealyard_tokens_baseline_total", part, fact.use_case, amount=tokens)
                for part in ("surface", "searches", "code", "results"):
                    tokens = getattr(fact, part)
                    self.count("sealyard_tokens_actual_total", part, fact.use_case, amount=tokens)
                self.count("sealyard_tokens_uncounted_bytes_total", amount=fact.uncounted_bytes)
            case Searched():
                self.count("sealyard_discovery_queries_total", fact.place, fact.detail_level)
                self.count("sealyard_discovery_cache_total", "hit" if fact.is_cached else "miss")
                self.observe("sealyard_discovery_duration_seconds", fact.seconds, fact.place)
                self.count("sealyard_discovery_continued_total", amount=fact.is_continued)
                self.count("sealyard_learning_searches_total", amount=bool(fact.text_ranks))
            case Used():
                self.count("sealyard_discovery_hits_total")
            case Hidden():
                for kind, count in fact.values.items():
                    self.count("sealyard_privacy_hidden_total", kind, amount=count)
                self.count("sealyard_privacy_failures_total", amount=fact.failures)
            case Saw():
                self.count("sealyard_sessions_total", fact.event)
            case Hinted():
                self.count("sealyard_learning_hints_total", fact.hint)
            case SecurityEvent():
                self.count("sealyard_security_events_total", fact.event)
                if fact.seconds is not None:
                    self.observe("sealyard_approval_wait_seconds", fact.seconds)
            case SkillEvent():
                self.count("sealyard_skill_events_total", fact.event)
            case Published():
                self.observe("sealyard_sdk_generation_seconds", fact.seconds)
                self.count("sealyard_sdk_tools_generated_total", amount=fact.tools)
            case UpstreamEvent():
                self.count("sealyard_upstream_events_total", fact.upstream, fact.event)
            case _:
                raise TypeError(f"{type(fact).__name__!r} is no kind of fact. Use one of `AnyFact`.")

    def _add_executed(self, fact: Executed) -> None:
        level = fact.level or "none"
        self.count("sealyard_execution_total", fact.form, fact.status, level, fact.tier or "none")
        self.observe("sealyard_execution_duration_seconds", fact.seconds, fact.form, level)
        if fact.queued_seconds is not None:
            self.observe("sealyard_execution_queue_seconds", fact.queued_seconds)
        self.observe("sealyard_execution_calls", fact.calls)
        self.count("sealyard_execution_use_cases_total", fact.use_case)
        self.count("sealyard_filtering_bytes_in_total", fact.form, amount=fact.bytes_in)
        self.count("sealyard_filtering_bytes_out_total", fact.form, amount=fact.bytes_out)
        if fact.error_type:
            self.count("sealyard_execution_errors_total", fact.error_type)
        if fact.failure:
            self.count("sealyard_execution_failures_total", fact.failure)
        if fact.cpu_seconds is not None:
            self.observe("sealyard_execution_cpu_seconds", fact.cpu_seconds, fact.form)
        if fact.memory_bytes is not None:
            self.observe("sealyard_execution_memory_bytes", fact.memory_bytes, level)
        if fact.code_characters:
            self.observe("sealyard_execution_code_characters", fact.code_characters)
        self.count("sealyard_execution_background_total", amount=fact.is_background)
        self.count("sealyard_skill_runs_total", amount=bool(fact.skills))
        if (assessed := fact.assessed) is not None:
            self.count("sealyard_learning_assessments_total", assessed.risk, assessed.decision)
            if assessed.wall_seconds > assessed.usual_seconds:
                self.count("sealyard_learning_fitted_total", "more_time")

    def add_call(self, call: CallRow) -> None:
        """Count a call."""
        outcome = outcome_of(call.error)
        # Before calls had it: `mcp__<upstream>__<tool>`, of which the upstream's part has no `__` in it.
        upstream = call.upstream or call.tool.removeprefix("mcp__").partition("__")[0]
        self.count("sealyard_upstream_calls_total", upstream, outcome)
        if outcome in OUTCOMES_OUTSIDE:
            self.observe("sealyard_upstream_call_duration_seconds", call.seconds, upstream)
        self.count("sealyard_upstream_answer_bytes_total", upstream, amount=call.answer_bytes)

    def count(self, name: str, *labels: str, amount: int = 1) -> None:
        """Add to a counter."""
        if amount > 0:
            found = self._find(name, labels)
            found.count += 1
            found.total += min(amount, _MOST)

    def observe(self, name: str, amount: float, *labels: str) -> None:
        """Add to a histogram an amount in its unit."""
        # NaN is not above zero, and infinity is cut to the most.
        whole = round(min(amount * METRICS[name].scale, _MOST)) if amount > 0 else 0
        found = self._find(name, labels)
        found.count += 1
        found.total += whole
        found.buckets[bisect_left(_BORDERS[name], whole)] += 1

    def add(self, key: Key, amount: Sum) -> None:
        """Add to one of the sums."""
        found = self._sums.setdefault(key[0], {})
        before = found.get(key[1])
        # A copy: what is added to this one later is not added to the other.
        found[key[1]] = (
            Sum(amount.count, amount.total, amount.buckets.copy()) if before is None else before.plus(amount)
        )

    def merge(self, other: "Sums") -> None:
        """Add every sum of `other`."""
        for key, amount in other.items():
            self.add(key, amount)

    # Reading

    def value(self, name: str, **labels: str) -> int:
        """The sum of a counter, or the number of observations, over every series with these labels."""
        field = "total" if METRICS[name].kind == "counter" else "count"
        return sum(getattr(each, field) for each in self._matching(name, labels))

    def amount(self, name: str, **labels: str) -> float:
        """The total of the observations, in the metric's unit."""
        return sum(each.total for each in self._matching(name, labels)) / METRICS[name].scale

    def by(self, name: str, label: str, **labels: str) -> dict[str, int]:
        """`value` for each value of one label, the largest first."""
        field = "total" if METRICS[name].kind == "counter" else "count"
        found = {key: getattr(each, field) for key, each in self.split(name, label, **labels).items()}
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    def split(self, name: str, label: str, **labels: str) -> dict[str, Sum]:
        """One sum for each value of one label, in the order of the alphabet."""
        place = list(METRICS[name].labels).index(label)
        wanted = _places(name, labels)
        found: dict[str, Sum] = {}
        for values, each in self.of(name).items():
            if all(values[at] == value for at, value in wanted):
                before = found.get(values[place])
                found[values[place]] = each if before is None else before.plus(each)
        return dict(sorted(found.items()))

    def percentile(self, name: str, q: float, **labels: str) -> float | None:
        """The value below which a share `q` of the observations lies; None without any. See `percentile`."""
        found = self._matching(name, labels)
        return percentile(METRICS[name], functools.reduce(Sum.plus, found), q) if found else None

    def _matching(self, name: str, labels: dict[str, str]) -> list[Sum]:
        wanted = _places(name, labels)
        return [each for values, each in self.of(name).items() if all(values[at] == value for at, value in wanted)]

    def _find(self, name: str, labels: tuple[str, ...]) -> Sum:
        """The sum to add to, with `other` in the place of each label that is not in its set."""
        found = self._sums.setdefault(name, {})
        if labels not in found:  # else they fit
            labels = tuple(
                (label if label in allowed else OTHER) if allowed is not None else self._operator_name(label)
                for label, allowed in zip(labels, _SETS[name], strict=True)
            )
        if labels not in found:
            borders = _BORDERS[name]
            found[labels] = Sum(0, 0, [0] * (len(borders) + 1) if borders else [])
        return found[labels]

    def _operator_name(self, label: str) -> str:
        if label not in self._names:
            if len(self._names) >= OPERATOR_NAMES or not 0 < len(label) <= _NAME_CHARACTERS or not label.isprintable():
                return OTHER
            self._names.add(label)
        return label


def percentile(metric: Metric, amount: Sum, q: float) -> float | None:
    """The value below which a share `q` of a histogram lies, in its unit; None if it is empty.

    It lies in the same bucket as the true value, as if all of a bucket's were spread evenly over it. So it is off by a
    factor of 5/3 at most between the lowest and the highest border, and above that it is the highest border.
    """
    rank = q * amount.count
    below = 0
    for place, count in enumerate(amount.buckets):
        if count and below + count >= rank:
            if place == len(metric.buckets):
                break
            lower = metric.buckets[place - 1] if place else 0.0
            return lower + (metric.buckets[place] - lower) * max(0.0, rank - below) / count
        below += count
    return metric.buckets[-1] if amount.count else None


def _places(name: str, labels: dict[str, str]) -> list[tuple[int, str]]:
    order = list(METRICS[name].labels)
    return [(order.index(label), value) for label, value in labels.items()]
