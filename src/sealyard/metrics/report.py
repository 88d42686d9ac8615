"""Reports for people and programs: figures of one period, and a series of points."""

from collections.abc import Iterable

import msgspec

from sealyard.metrics.names import METRICS
from sealyard.metrics.sums import OUTCOMES_FAILED, OUTCOMES_OUTSIDE, Sum, Sums, percentile


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars for a million tokens: an assumption, to be shown beside every sum of money."""

    input: float
    output: float


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """Visits."""

    count: int
    with_code: int
    code_share: float | None


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """Searches for tools. A hit is one of which a found tool was then called."""

    queries: int
    from_code: int
    hits: int
    hit_rate: float | None
    continued: int
    cached: int
    p50_seconds: float | None
    p95_seconds: float | None


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """Executions that are over."""

    count: int
    ok: int
    success_rate: float | None
    timeouts: int
    timeout_rate: float | None
    background: int
    p50_seconds: float | None
    p95_seconds: float | None
    p99_seconds: float | None
    cpu_seconds: float
    memory_p95_bytes: float | None
    calls: int
    by_status: dict[str, int]
    by_form: dict[str, int]
    by_level: dict[str, int]
    by_tier: dict[str, int]
    errors: dict[str, int]
    """By the name of the exception."""
    failures: dict[str, int]
    use_cases: dict[str, int]
    code_p50_characters: float | None


class Sdk(msgspec.Struct, frozen=True, kw_only=True):
    """Stubs that were written."""

    generations: int
    tools: int
    p50_seconds: float | None
    p95_seconds: float | None


class Filtering(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of tools' answers, and of the results that agents got."""

    bytes_in: int
    bytes_out: int
    reduction: float | None


class TokenCase(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one use case."""

    baseline: int
    actual: int
    saved: int


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


class Skills(msgspec.Struct, frozen=True, kw_only=True):
    """Events of skills. `reuse_ratio` is the share of runs of code that imported one."""

    saved: int
    drafts: int
    rejected: int
    reused: int
    failed: int
    migrated: int
    runs: int
    reuse_ratio: float | None


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """Values hidden and revealed, calls refused, people asked."""

    hidden: dict[str, int]
    hidden_total: int
    hiding_failures: int
    revealed: int
    review_refused: int
    policy_denied: int
    limited: int
    asked: int
    approved: int
    refused: int
    expired: int
    answer_p50_seconds: float | None


class LearningReport(msgspec.Struct, frozen=True, kw_only=True):
    """Changes made by experience."""

    assessed: int
    """Runs with a risk assessment before they began."""
    by_risk: dict[str, int]
    refused: int
    """Runs refused because of it."""
    asked: int
    hints: dict[str, int]
    hints_total: int
    fitted: dict[str, int]
    """Limits that differed from the usual ones, by the direction."""
    searches_changed: int
    """Searches whose order differs from that of the text alone."""
    searches_changed_share: float | None


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


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one step of a series."""

    start: float
    executions: int
    failed: int
    p50_seconds: float | None
    p95_seconds: float | None
    searches: int
    hits: int
    calls: int
    call_errors: int
    """Failed calls among those sent to an upstream."""
    baseline_tokens: int
    actual_tokens: int
    bytes_in: int
    bytes_out: int
    hidden: int


def report(sums: Sums, *, since: float | None, until: float | None, prices: Prices, tokenizer: str) -> Report:
    """The report of these sums."""
    return Report(
        since=since,
        until=until,
        tokenizer=tokenizer,
        prices=prices,
        sessions=_sessions(sums),
        discovery=_discovery(sums),
        execution=_execution(sums),
        sdk=Sdk(
            generations=sums.value("sealyard_sdk_generation_seconds"),
            tools=sums.value("sealyard_sdk_tools_generated_total"),
            p50_seconds=sums.percentile("sealyard_sdk_generation_seconds", 0.5),
            p95_seconds=sums.percentile("sealyard_sdk_generation_seconds", 0.95),
        ),
        filtering=_filtering(sums),
        tokens=_tokens(sums, prices),
        skills=_skills(sums),
        security=_security(sums),
        learning=_learning(sums),
        upstreams=_upstreams(sums),
    )


def points(series: Iterable[tuple[float, Sums]]) -> list[Point]:
    """One point for each step."""
    return [_point(start, sums) for start, sums in series]


def _point(start: float, sums: Sums) -> Point:
    executions = sums.value("sealyard_execution_total")
    calls = sums.value("sealyard_upstream_calls_total")
    return Point(
        start=start,
        executions=executions,
        failed=executions - sums.value("sealyard_execution_total", status="ok"),
        p50_seconds=sums.percentile("sealyard_execution_duration_seconds", 0.5),
        p95_seconds=sums.percentile("sealyard_execution_duration_seconds", 0.95),
        searches=sums.value("sealyard_discovery_queries_total"),
        hits=sums.value("sealyard_discovery_hits_total"),
        calls=calls,
        call_errors=sum(sums.value("sealyard_upstream_calls_total", outcome=each) for each in OUTCOMES_FAILED),
        baseline_tokens=sums.value("sealyard_tokens_baseline_total"),
        actual_tokens=sums.value("sealyard_tokens_actual_total"),
        bytes_in=sums.value("sealyard_filtering_bytes_in_total"),
        bytes_out=sums.value("sealyard_filtering_bytes_out_total"),
        hidden=sums.value("sealyard_privacy_hidden_total"),
    )


def _sessions(sums: Sums) -> Sessions:
    count = sums.value("sealyard_sessions_total", event="begin")
    with_code = sums.value("sealyard_sessions_total", event="code")
    return Sessions(count=count, with_code=with_code, code_share=_share(with_code, count))


def _discovery(sums: Sums) -> Discovery:
    queries = sums.value("sealyard_discovery_queries_total")
    hits = sums.value("sealyard_discovery_hits_total")
    return Discovery(
        queries=queries,
        from_code=sums.value("sealyard_discovery_queries_total", place="code"),
        hits=hits,
        hit_rate=_share(hits, queries),
        continued=sums.value("sealyard_discovery_continued_total"),
        cached=sums.value("sealyard_discovery_cache_total", result="hit"),
        p50_seconds=sums.percentile("sealyard_discovery_duration_seconds", 0.5),
        p95_seconds=sums.percentile("sealyard_discovery_duration_seconds", 0.95),
    )


def _execution(sums: Sums) -> Execution:
    by_status = sums.by("sealyard_execution_total", "status")
    count = sum(by_status.values())
    ok, timeouts = by_status.get("ok", 0), by_status.get("timeout", 0)
    return Execution(
        count=count,
        ok=ok,
        success_rate=_share(ok, count),
        timeouts=timeouts,
        timeout_rate=_share(timeouts, count),
        background=sums.value("sealyard_execution_background_total"),
        p50_seconds=sums.percentile("sealyard_execution_duration_seconds", 0.5),
        p95_seconds=sums.percentile("sealyard_execution_duration_seconds", 0.95),
        p99_seconds=sums.percentile("sealyard_execution_duration_seconds", 0.99),
        cpu_seconds=sums.amount("sealyard_execution_cpu_seconds"),
        memory_p95_bytes=sums.percentile("sealyard_execution_memory_bytes", 0.95),
        calls=int(sums.amount("sealyard_execution_calls")),
        by_status=by_status,
        by_form=sums.by("sealyard_execution_total", "form"),
        by_level=sums.by("sealyard_execution_total", "level"),
        by_tier=sums.by("sealyard_execution_total", "tier"),
        errors=sums.by("sealyard_execution_errors_total", "error_type"),
        failures=sums.by("sealyard_execution_failures_total", "failure"),
        use_cases=sums.by("sealyard_execution_use_cases_total", "use_case"),
        code_p50_characters=sums.percentile("sealyard_execution_code_characters", 0.5),
    )


def _filtering(sums: Sums) -> Filtering:
    bytes_in = sums.value("sealyard_filtering_bytes_in_total")
    bytes_out = sums.value("sealyard_filtering_bytes_out_total")
    return Filtering(bytes_in=bytes_in, bytes_out=bytes_out, reduction=_share(bytes_in - bytes_out, bytes_in))


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
    )


def _skills(sums: Sums) -> Skills:
    events = sums.by("sealyard_skill_events_total", "event")
    runs = sums.value("sealyard_skill_runs_total")
    return Skills(
        saved=events.get("saved", 0),
        drafts=events.get("draft", 0),
        rejected=events.get("rejected", 0),
        reused=events.get("reused", 0),
        failed=events.get("failed", 0),
        migrated=events.get("migrated", 0),
        runs=runs,
        reuse_ratio=_share(runs, sums.value("sealyard_execution_total", form="code")),
    )


def _security(sums: Sums) -> Security:
    events = sums.by("sealyard_security_events_total", "event")
    hidden = sums.by("sealyard_privacy_hidden_total", "type")
    names = ("revealed", "review_refused", "policy_denied", "limited", "asked", "approved", "refused", "expired")
    return Security(
        hidden=hidden,
        hidden_total=sum(hidden.values()),
        hiding_failures=sums.value("sealyard_privacy_failures_total"),
        answer_p50_seconds=sums.percentile("sealyard_approval_wait_seconds", 0.5),
        **{name: events.get(name, 0) for name in names},
    )


def _learning(sums: Sums) -> LearningReport:
    by_risk = sums.by("sealyard_learning_assessments_total", "risk")
    decisions = sums.by("sealyard_learning_assessments_total", "decision")
    hints = sums.by("sealyard_learning_hints_total", "hint")
    changed = sums.value("sealyard_learning_searches_total")
    return LearningReport(
        assessed=sum(by_risk.values()),
        by_risk=by_risk,
        refused=decisions.get("refused", 0),
        asked=decisions.get("asked", 0),
        hints=hints,
        hints_total=sum(hints.values()),
        fitted=sums.by("sealyard_learning_fitted_total", "limit"),
        searches_changed=changed,
        searches_changed_share=_share(changed, sums.value("sealyard_discovery_queries_total")),
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


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
