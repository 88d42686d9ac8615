"""Every metric: its name, its meaning and the values that its labels can have.

Counters and histograms are added up; a gauge is a figure of this moment and never added up.

Label values are closed sets, so that nothing a guest, an upstream or a model writes becomes one: a value outside its
set counts as `other`. Names of upstreams come from the configuration (`OPERATOR`), at most `OPERATOR_NAMES` of them.

Amounts are kept as whole numbers of `1 / scale` of the unit. The borders of the buckets are dense enough to read
percentiles off them: two neighbours differ by a factor of 5/3 at most, and so does a percentile from its true value.
"""

import builtins
from typing import Literal, Self, get_args, get_type_hints

import msgspec

from sealyard import errors
from sealyard.values.facts import (
    Assessed,
    Executed,
    HintKind,
    Risk,
    Saw,
    Searched,
    SecurityEvent,
    SkillEvent,
    UpstreamEvent,
    UseCase,
)
from sealyard.values.runs import FailureKind, RecordStatus
from sealyard.values.tools import DetailLevel

OTHER = "other"
"""The label in place of a value outside its set."""

OPERATOR: tuple[str, ...] = ()
"""In the place of a closed set: names that the configuration gives."""

OPERATOR_NAMES = 200
"""The most names of upstreams; later ones become `other`, so that series stay bounded."""


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric. Its labels are in the order in which `Sums` keeps their values."""

    name: str
    kind: Literal["counter", "histogram"]
    help: str
    labels: dict[str, tuple[str, ...]] = {}
    """Label -> its values beside `other`, or `OPERATOR`."""
    unit: str = ""
    buckets: tuple[float, ...] = ()
    """The upper borders of a histogram, in its unit and inclusive; above the last one there is one bucket more."""
    scale: int = 1
    """Whole numbers in one unit: seconds are kept as microseconds."""

    def fit(self, label: str, value: str) -> str:
        """The value of a label, or `other` if it is not in its closed set."""
        return value if value in self.labels[label] else OTHER


def _values_of(fact: type[msgspec.Struct], field: str) -> tuple[str, ...]:
    """The values that a field of a fact can have."""
    return get_args(get_type_hints(fact)[field])


_FORM = _values_of(Executed, "form")
_LEVEL = ("development", "production", "hardened", "none")
_TIER = ("namespace", "landlock", "none")
_STATUS = tuple(status for status in get_args(RecordStatus) if status != "running")
_ENDINGS = tuple(
    """
    AnalysisError CallsExceeded CpuTimeExceeded ForbiddenSystemCall InterpreterCrashed InterpreterExited
    LikelyToFail MemoryExceeded OpenFilesExceeded OutputExceeded ProcessesExceeded ProtocolBroken Refused
    WallTimeExceeded WorkspaceExceeded
    """.split()
)
_ERROR_TYPE = (
    *sorted(name for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, Exception)),
    "KeyboardInterrupt",
    "SystemExit",
    *errors.__all__,
    *_ENDINGS,
)
_PRIVATE_TYPE = tuple(
    """
    person email phone address date_of_birth username ssn national_id tax_id passport driver_license medical_id
    credit_card iban bank_account wallet ip mac url api_key auth_token private_key password text literal location
    organization custom
    """.split()
)
_OUTCOME = ("ok", "tool_failed", "timeout", "unavailable", "invalid", "refused", "limited", "cancelled")


def _decades(first: int, last: int) -> tuple[float, ...]:
    """Six borders for each power of ten. Divided, not multiplied: 0.0003 is written as it is meant."""
    steps = (10, 15, 20, 30, 50, 70)
    return tuple(
        float(step * 10 ** (power - 1)) if power > 0 else step / 10 ** (1 - power)
        for power in range(first, last)
        for step in steps
    )


_SECONDS = (*_decades(-4, 2), 100.0, 150.0, 200.0, 300.0, 500.0)
_WAIT_SECONDS = (*_decades(-1, 5), 100_000.0)
_MEMORY_BYTES = tuple(float(part << power) for power in range(20, 34) for part in (2, 3))
_COUNTS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, *_decades(1, 4), 10_000.0)
_CHARACTERS = (*_decades(1, 6), 1_000_000.0)


def _counter(name: str, text: str, **labels: tuple[str, ...]) -> Metric:
    return Metric(name=f"sealyard_{name}", kind="counter", help=text, labels=labels)


def _seconds(name: str, text: str, *, buckets: tuple[float, ...] = _SECONDS, **labels: tuple[str, ...]) -> Metric:
    return Metric(
        name=f"sealyard_{name}",
        kind="histogram",
        help=text,
        labels=labels,
        unit="seconds",
        buckets=buckets,
        scale=1_000_000,
    )


def _histogram(name: str, unit: str, text: str, buckets: tuple[float, ...], **labels: tuple[str, ...]) -> Metric:
    return Metric(name=f"sealyard_{name}", kind="histogram", help=text, labels=labels, unit=unit, buckets=buckets)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _counter("sessions_total", "Visits that began, and visits that ran code.", event=_values_of(Saw, "event")),
        # Discovery
        _counter(
            "discovery_queries_total",
            "Searches for tools.",
            place=_values_of(Searched, "place"),
            detail_level=get_args(DetailLevel),
        ),
        _counter("discovery_hits_total", "Searches of which a found tool was then called."),
        _counter("discovery_continued_total", "Searches after one in the same visit that had led to no call."),
        _counter("discovery_cache_total", "Searches that found the index there, or built it.", result=("hit", "miss")),
        _seconds("discovery_duration_seconds", "How long searches took.", place=_values_of(Searched, "place")),
        # Execution
        _counter("execution_total", "Executions that are over.", form=_FORM, status=_STATUS, level=_LEVEL, tier=_TIER),
        _counter("execution_errors_total", "Executions that failed, by exception.", error_type=_ERROR_TYPE),
        _counter("execution_failures_total", "Executions that failed, by cause.", failure=get_args(FailureKind)),
        _seconds("execution_duration_seconds", "How long executions took.", form=_FORM, level=_LEVEL),
        _seconds("execution_queue_seconds", "How long executions waited for their turn."),
        _seconds("execution_cpu_seconds", "CPU time of executions.", form=_FORM),
        _histogram("execution_memory_bytes", "bytes", "Peak memory of executions.", _MEMORY_BYTES, level=_LEVEL),
        _histogram("execution_code_characters", "characters", "Length of the code that was run.", _CHARACTERS),
        _histogram("execution_calls", "calls", "Tool calls of one execution.", _COUNTS),
        _counter("execution_use_cases_total", "Executions by what they were for.", use_case=get_args(UseCase)),
        _counter("execution_background_total", "Executions in the background."),
        # Stubs
        _seconds("sdk_generation_seconds", "How long it took to write the stubs of a catalog."),
        _counter("sdk_tools_generated_total", "Tools for which stubs were written."),
        # What passed through
        _counter("filtering_bytes_in_total", "Bytes that tools answered to executions.", form=_FORM),
        _counter("filtering_bytes_out_total", "Bytes that agents were sent of executions.", form=_FORM),
        # Tokens
        _counter(
            "tokens_baseline_total",
            "Tokens it would have taken with every tool and answer in the context.",
            part=("definitions", "data"),
            use_case=get_args(UseCase),
        ),
        _counter(
            "tokens_actual_total",
            "Tokens it took.",
            part=("surface", "searches", "code", "results"),
            use_case=get_args(UseCase),
        ),
        _counter("tokens_uncounted_bytes_total", "Bytes of answers whose tokens were not counted."),
        # Skills
        _counter("skill_events_total", "What happened to skills.", event=_values_of(SkillEvent, "event")),
        _counter("skill_runs_total", "Executions that imported a saved skill."),
        # Guarding
        _counter("privacy_hidden_total", "Private values that were replaced by tokens.", type=_PRIVATE_TYPE),
        _counter("privacy_failures_total", "Values that could not be looked through and were withheld."),
        _counter(
            "security_events_total",
            "What was refused, asked, answered or shown.",
            event=_values_of(SecurityEvent, "event"),
        ),
        _seconds("approval_wait_seconds", "How long people took to answer.", buckets=_WAIT_SECONDS),
        # Learning
        _counter(
            "learning_assessments_total",
            "Runs with a forecast of their risk.",
            risk=get_args(Risk),
            decision=_values_of(Assessed, "decision"),
        ),
        _counter("learning_hints_total", "Hints that agents were given from experience.", hint=get_args(HintKind)),
        _counter(
            "learning_fitted_total",
            "Limits of runs that followed what similar runs needed.",
            limit=("more_time",),
        ),
        _counter("learning_searches_total", "Searches whose order experience changed."),
        # Upstreams
        _counter("upstream_calls_total", "Calls of tools.", upstream=OPERATOR, outcome=_OUTCOME),
        _seconds("upstream_call_duration_seconds", "How long calls took that reached the upstream.", upstream=OPERATOR),
        _counter("upstream_answer_bytes_total", "Bytes that upstreams answered.", upstream=OPERATOR),
        _counter(
            "upstream_events_total",
            "Changes of the state of upstreams.",
            upstream=OPERATOR,
            event=_values_of(UpstreamEvent, "event"),
        ),
    )
}
"""By name."""


class Gauge(msgspec.Struct, frozen=True, kw_only=True):
    """One figure."""

    name: str
    value: float
    labels: dict[str, str] = {}

    @classmethod
    def of(cls, name: str, value: float, /, **labels: str) -> Self:
        """The gauge of that name.

        Raises:
            ValueError: There is none, or its labels are others.
        """
        info = GAUGES.get(name)
        if info is None:
            raise ValueError(f"There is no gauge {name!r}. Use one of GAUGES, or add it.")
        if set(labels) != set(info.labels):
            raise ValueError(f"The gauge {name!r} has the labels {info.labels!r} and no others. Give it those.")
        return cls(name=name, value=value, labels=labels)


class GaugeInfo(msgspec.Struct, frozen=True):
    """The meaning of a gauge, and its labels."""

    help: str
    labels: tuple[str, ...] = ()


GAUGES: dict[str, GaugeInfo] = {
    "sealyard_info": GaugeInfo("What this gateway is; always 1.", ("version", "tier", "level", "tokenizer")),
    "sealyard_executions_running": GaugeInfo("Executions of this gateway that are not over."),
    "sealyard_executions_queued": GaugeInfo("Those of them that wait for their turn."),
    "sealyard_approvals_waiting": GaugeInfo("Calls that wait for a person's answer."),
    "sealyard_upstream_up": GaugeInfo(
        "0 if the upstream failed and was not started again since, else 1: one that nobody needed yet is not down.",
        ("upstream",),
    ),
    "sealyard_upstream_circuit_open": GaugeInfo(
        "1 if the circuit breaker of one of the upstream's tools opened and no call has succeeded since, else 0.",
        ("upstream",),
    ),
    "sealyard_upstream_tools": GaugeInfo("Tools that the upstream listed last.", ("upstream",)),
    "sealyard_skills": GaugeInfo("Skills on the shelf.", ("status",)),
    "sealyard_sandbox_ready": GaugeInfo("1 if code can be run, else 0."),
    "sealyard_ready": GaugeInfo(
        "1 if this part of the gateway worked when it was tried last, else 0. Tried every minute over HTTP.", ("part",)
    ),
    "sealyard_audit_chain_intact": GaugeInfo(
        "1 if the audit log was found as it was written when it was checked last, 0 if it was not. Checked every hour."
    ),
    "sealyard_discovery_hit_rate": GaugeInfo("Share of all searches of which a found tool was then called."),
    "sealyard_skill_reuse_ratio": GaugeInfo("Share of all runs of code that imported a saved skill."),
    "sealyard_context_tokens_saved": GaugeInfo("Tokens that were kept out of the agents' context."),
    "sealyard_context_dollars_saved": GaugeInfo("What those tokens would have cost, at the configured prices."),
    "sealyard_alerts_firing": GaugeInfo("Alerts that fire.", ("rule",)),
    "sealyard_alerts_undelivered": GaugeInfo("Alerts whose last change the webhook has not accepted."),
    "sealyard_metrics_uncounted_rows": GaugeInfo(
        "Rows of the journal that no figure counts yet: more than 0 for a while after an upgrade or a restore."
    ),
    "sealyard_learning_facts": GaugeInfo("The number of the last fact of the journal that was learned from."),
    "sealyard_learning_learned": GaugeInfo("Things that each part of what is learned holds.", ("part",)),
    "sealyard_learning_accuracy": GaugeInfo(
        "Share of the forecasts of each part that came true; absent before the first outcome.", ("part",)
    ),
    "sealyard_learning_switched_off": GaugeInfo(
        "How often each part failed or took too long and was left out, since this gateway started.", ("part",)
    ),
    "sealyard_store_bytes": GaugeInfo("Size of the store on disk."),
    "sealyard_store_failing": GaugeInfo("1 if the store could not be written or read when it was tried last, else 0."),
}
"""Every gauge, by name."""
