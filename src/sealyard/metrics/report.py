"""Reports for people and programs: figures of one period, and a series of points.

Most figures stand in the sums as they are: their field says which metric it reads, and `_read` fills a struct of them.
"""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Self, TypeVar, get_type_hints

import msgspec

from sealyard.metrics.sums.names import METRICS
from sealyard.metrics.sums.sums import OUTCOMES_FAILED, OUTCOMES_OUTSIDE, Sum, Sums, percentile

_S = TypeVar("_S", bound=msgspec.Struct)


# Readers of single figures


def _value(name: str, **labels: str) -> Callable[[Sums], int]:
    return lambda sums: sums.value(f"sealyard_{name}", **labels)


def _amount(name: str, kind: type[int] | type[float]) -> Callable[[Sums], float]:
    return lambda sums: kind(sums.amount(f"sealyard_{name}"))


def _by(name: str, label: str) -> Callable[[Sums], dict[str, int]]:
    return lambda sums: sums.by(f"sealyard_{name}", label)


def _percentile(name: str, q: float) -> Callable[[Sums], float | None]:
    return lambda sums: sums.percentile(f"sealyard_{name}", q)


def _share_of(part: Callable[[Sums], int], whole: Callable[[Sums], int]) -> Callable[[Sums], float | None]:
    return lambda sums: _share(part(sums), whole(sums))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


@cache
def _readers(kind: type[msgspec.Struct]) -> dict[str, Callable[[Sums], Any]]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}


def _read(kind: type[_S], sums: Sums, **known: Any) -> _S:
    """A struct with the figure of each field that has a reader; `known` are the other fields."""
    return kind(**known, **{name: reader(sums) for name, reader in _readers(kind).items()})


# Sections


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars for a million tokens: an assumption, to be shown beside every sum of money."""

    input: float
    output: float


_BEGUN = _value("sessions_total", event="begin")


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """Visits."""

    count: Annotated[int, _BEGUN]
    with_code: Annotated[int, _value("sessions_total", event="code")]
    code_share: Annotated[float | None, _share_of(_value("sessions_total", event="code"), _BEGUN)]


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """Searches for tools. A hit is one of which a found tool was then called."""

    queries: Annotated[int, _value("discovery_queries_total")]
    from_code: Annotated[int, _value("discovery_queries_total", place="code")]
    hits: Annotated[int, _value("discovery_hits_total")]
    hit_rate: Annotated[float | None, _share_of(_value("discovery_hits_total"), _value("discovery_queries_total"))]
    continued: Annotated[int, _value("discovery_continued_total")]
    cached: Annotated[int, _value("discovery_cache_total", result="hit")]
    p50_seconds: Annotated[float | None, _percentile("discovery_duration_seconds", 0.5)]
    p95_seconds: Annotated[float | None, _percentile("discovery_duration_seconds", 0.95)]


_RUNS = _value("execution_total")
_OK_RUNS = _value("execution_total", status="ok")
_TIMEOUTS = _value("execution_total", status="timeout")


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """Executions that are over."""

    count: Annotated[int, _RUNS]
    ok: Annotated[int, _OK_RUNS]
    success_rate: Annotated[float | None, _share_of(_OK_RUNS, _RUNS)]
    timeouts: Annotated[int, _TIMEOUTS]
    timeout_rate: Annotated[float | None, _share_of(_TIMEOUTS, _RUNS)]
    background: Annotated[int, _value("execution_background_total")]
    p50_seconds: Annotated[float | None, _percentile("execution_duration_seconds", 0.5)]
    p95_seconds: Annotated[float | None, _percentile("execution_duration_seconds", 0.95)]
    p99_seconds: Annotated[float | None, _percentile("execution_duration_seconds", 0.99)]
    cpu_seconds: Annotated[float, _amount("execution_cpu_seconds", float)]
    memory_p95_bytes: Annotated[float | None, _percentile("execution_memory_bytes", 0.95)]
    calls: Annotated[int, _amount("execution_calls", int)]
    by_status: Annotated[dict[str, int], _by("execution_total", "status")]
    by_form: Annotated[dict[str, int], _by("execution_total", "form")]
    by_level: Annotated[dict[str, int], _by("execution_total", "level")]
    by_tier: Annotated[dict[str, int], _by("execution_total", "tier")]
    errors: Annotated[dict[str, int], _by("execution_errors_total", "error_type")]
    """By the name of the exception."""
    failures: Annotated[dict[str, int], _by("execution_failures_total", "failure")]
    use_cases: Annotated[dict[str, int], _by("execution_use_cases_total", "use_case")]
    code_p50_characters: Annotated[float | None, _percentile("execution_code_characters", 0.5)]


class Sdk(msgspec.Struct, frozen=True, kw_only=True):
    """Stubs that were written."""

    generations: Annotated[int, _value("sdk_generation_seconds")]
    tools: Annotated[int, _value("sdk_tools_generated_total")]
    p50_seconds: Annotated[float | None, _percentile("sdk_generation_seconds", 0.5)]
    p95_seconds: Annotated[float | None, _percentile("sdk_generation_seconds", 0.95)]


_BYTES_IN = _value("filtering_bytes_in_total")
_BYTES_OUT = _value("filtering_bytes_out_total")


class Filtering(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of tools' answers, and of the results that agents got."""

    bytes_in: Annotated[int, _BYTES_IN]
    bytes_out: Annotated[int, _BYTES_OUT]
    reduction: Annotated[float | None, _share_of(lambda sums: _BYTES_IN(sums) - _BYTES_OUT(sums), _BYTES_IN)]


class TokenCase(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one use case."""

    baseline: int
    actual: int
    saved: int


class SessionTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one visit on average: all of the period, divided by the visits that began in it."""

    sessions: int
    baseline: float
    actual: float
    saved: float


class TokenReport(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens used, and tokens that plain MCP would have used. Code is priced as output, everything else as input."""

    baseline: int
    actual: int
    saved: int
    saved_share: float | None
    dollars_saved: float
    dollars_baseline: float
    dollars_actual: float
    uncounted_bytes: int
    """Of answers: their tokens are missing in the baseline."""
    baseline_parts: dict[str, int]
    actual_parts: dict[str, int]
    by_use_case: dict[str, TokenCase]
    per_session: SessionTokens | None
    """None if no visit began."""


_SKILL_RUNS = _value("skill_runs_total")


class Skills(msgspec.Struct, frozen=True, kw_only=True):
    """Events of skills. `reuse_ratio` is the share of runs of code that imported one."""

    saved: Annotated[int, _value("skill_events_total", event="saved")]
    drafts: Annotated[int, _value("skill_events_total", event="draft")]
    rejected: Annotated[int, _value("skill_events_total", event="rejected")]
    reused: Annotated[int, _value("skill_events_total", event="reused")]
    failed: Annotated[int, _value("skill_events_total", event="failed")]
    migrated: Annotated[int, _value("skill_events_total", event="migrated")]
    runs: Annotated[int, _SKILL_RUNS]
    reuse_ratio: Annotated[float | None, _share_of(_SKILL_RUNS, _value("execution_total", form="code"))]


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """Values hidden and revealed, calls refused, people asked."""

    hidden: Annotated[dict[str, int], _by("privacy_hidden_total", "type")]
    hidden_total: Annotated[int, _value("privacy_hidden_total")]
    hiding_failures: Annotated[int, _value("privacy_failures_total")]
    revealed: Annotated[int, _value("security_events_total", event="revealed")]
    review_refused: Annotated[int, _value("security_events_total", event="review_refused")]
    policy_denied: Annotated[int, _value("security_events_total", event="policy_denied")]
    limited: Annotated[int, _value("security_events_total", event="limited")]
    asked: Annotated[int, _value("security_events_total", event="asked")]
    approved: Annotated[int, _value("security_events_total", event="approved")]
    refused: Annotated[int, _value("security_events_total", event="refused")]
    expired: Annotated[int, _value("security_events_total", event="expired")]
    answer_p50_seconds: Annotated[float | None, _percentile("approval_wait_seconds", 0.5)]


_SEARCHES_CHANGED = _value("learning_searches_total")


class LearningReport(msgspec.Struct, frozen=True, kw_only=True):
    """Changes made by experience."""

    assessed: Annotated[int, _value("learning_assessments_total")]
    """Runs with a risk assessment before they began."""
    by_risk: Annotated[dict[str, int], _by("learning_assessments_total", "risk")]
    refused: Annotated[int, _value("learning_assessments_total", decision="refused")]
    """Runs refused because of it."""
    asked: Annotated[int, _value("learning_assessments_total", decision="asked")]
    hints: Annotated[dict[str, int], _by("learning_hints_total", "hint")]
    hints_total: Annotated[int, _value("learning_hints_total")]
    fitted: Annotated[dict[str, int], _by("learning_fitted_total", "limit")]
    """Limits that differed from the usual ones, by the direction."""
    searches_changed: Annotated[int, _SEARCHES_CHANGED]
    """Searches whose order differs from that of the text alone."""
    searches_changed_share: Annotated[float | None, _share_of(_SEARCHES_CHANGED, _value("discovery_queries_total"))]


class UpstreamReport(msgspec.Struct, frozen=True, kw_only=True):
    """One upstream. Times and `error_rate` are those of calls that were meant to reach it."""

    calls: int
    errors: dict[str, int]
    """By how the call ended."""
    error_rate: float | None
    p50_seconds: float | None
    p95_seconds: float | None
    p99_seconds: float | None
    answer_bytes: int
    restarts: int
    failures: int
    circuit_opened: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The figures from `since` to `until`; None is from the beginning, or until now.

    Shares and rates are null where there is nothing to divide by, and percentiles where nothing was observed.
    """

    since: float | None
    until: float | None
    tokenizer: str
    prices: Prices
    sessions: Sessions
    discovery: Discovery
    execution: Execution
    sdk: Sdk
    filtering: Filtering
    tokens: TokenReport
    skills: Skills
    security: Security
    learning: LearningReport
    upstreams: dict[str, UpstreamReport]

    @classmethod
    def of(cls, sums: Sums, *, since: float | None, until: float | None, prices: Prices, tokenizer: str) -> Self:
        """The report of these sums."""
        return cls(
            since=since,
            until=until,
            tokenizer=tokenizer,
            prices=prices,
            sessions=_read(Sessions, sums),
            discovery=_read(Discovery, sums),
            execution=_read(Execution, sums),
            sdk=_read(Sdk, sums),
            filtering=_read(Filtering, sums),
            tokens=_tokens(sums, prices),
            skills=_read(Skills, sums),
            security=_read(Security, sums),
            learning=_read(LearningReport, sums),
            upstreams=_upstreams(sums),
        )


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one step of a series."""

    start: float
    executions: Annotated[int, _RUNS]
    failed: Annotated[int, lambda sums: _RUNS(sums) - _OK_RUNS(sums)]
    p50_seconds: Annotated[float | None, _percentile("execution_duration_seconds", 0.5)]
    p95_seconds: Annotated[float | None, _percentile("execution_duration_seconds", 0.95)]
    searches: Annotated[int, _value("discovery_queries_total")]
    hits: Annotated[int, _value("discovery_hits_total")]
    calls: Annotated[int, _value("upstream_calls_total")]
    call_errors: Annotated[
        int, lambda sums: sum(_value("upstream_calls_total", outcome=each)(sums) for each in OUTCOMES_FAILED)
    ]
    """Failed calls among those sent to an upstream."""
    baseline_tokens: Annotated[int, _value("tokens_baseline_total")]
    actual_tokens: Annotated[int, _value("tokens_actual_total")]
    bytes_in: Annotated[int, _BYTES_IN]
    bytes_out: Annotated[int, _BYTES_OUT]
    hidden: Annotated[int, _value("privacy_hidden_total")]

    @classmethod
    def of(cls, start: float, sums: Sums) -> Self:
        """The figures of the step that begins at `start`."""
        return _read(cls, sums, start=start)


def _tokens(sums: Sums, prices: Prices) -> TokenReport:
    baselines = sums.by("sealyard_tokens_baseline_total", "use_case")
    actuals = sums.by("sealyard_tokens_actual_total", "use_case")
    baseline, actual = sum(baselines.values()), sum(actuals.values())
    written = sums.value("sealyard_tokens_actual_total", part="code")
    dollars_baseline = baseline * prices.input / 1e6
    dollars_actual = ((actual - written) * prices.input + written * prices.output) / 1e6
    return TokenReport(
        baseline=baseline,
        actual=actual,
        saved=baseline - actual,
        saved_share=_share(baseline - actual, baseline),
        dollars_saved=dollars_baseline - dollars_actual,
        dollars_baseline=dollars_baseline,
        dollars_actual=dollars_actual,
        uncounted_bytes=sums.value("sealyard_tokens_uncounted_bytes_total"),
        baseline_parts=sums.by("sealyard_tokens_baseline_total", "part"),
        actual_parts=sums.by("sealyard_tokens_actual_total", "part"),
        by_use_case={
            case: TokenCase(
                baseline=baselines.get(case, 0),
                actual=actuals.get(case, 0),
                saved=baselines.get(case, 0) - actuals.get(case, 0),
            )
            for case in sorted(baselines | actuals)
        },
        per_session=_per_session(_BEGUN(sums), baseline, actual),
    )


def _per_session(sessions: int, baseline: int, actual: int) -> SessionTokens | None:
    if not sessions:
        return None
    return SessionTokens(
        sessions=sessions,
        baseline=baseline / sessions,
        actual=actual / sessions,
        saved=(baseline - actual) / sessions,
    )


def _upstreams(sums: Sums) -> dict[str, UpstreamReport]:
    calls = sums.split("sealyard_upstream_calls_total", "upstream")
    outcomes = {outcome: sums.by("sealyard_upstream_calls_total", "upstream", outcome=outcome) for outcome in _OUTCOMES}
    events = {event: sums.by("sealyard_upstream_events_total", "upstream", event=event) for event in _EVENTS}
    durations = sums.split("sealyard_upstream_call_duration_seconds", "upstream")
    sizes = sums.by("sealyard_upstream_answer_bytes_total", "upstream")
    happened = sums.split("sealyard_upstream_events_total", "upstream")
    found = {}
    for name in sorted(calls.keys() | happened.keys()):
        ended = {outcome: count for outcome, by_name in outcomes.items() if (count := by_name.get(name, 0))}
        outside = sum(count for outcome, count in ended.items() if outcome in OUTCOMES_OUTSIDE)
        took = durations.get(name)
        found[name] = UpstreamReport(
            calls=sum(ended.values()),
            errors={outcome: count for outcome, count in ended.items() if outcome != "ok"},
            error_rate=_share(outside - ended.get("ok", 0), outside),
            p50_seconds=_seconds(took, 0.5),
            p95_seconds=_seconds(took, 0.95),
            p99_seconds=_seconds(took, 0.99),
            answer_bytes=sizes.get(name, 0),
            restarts=events["restarted"].get(name, 0),
            failures=events["failed"].get(name, 0),
            circuit_opened=events["circuit_opened"].get(name, 0),
        )
    return found


_OUTCOMES = (*METRICS["sealyard_upstream_calls_total"].labels["outcome"], "other")
_EVENTS = ("restarted", "failed", "circuit_opened")


def _seconds(took: Sum | None, q: float) -> float | None:
    return None if took is None else percentile(METRICS["sealyard_upstream_call_duration_seconds"], took, q)
