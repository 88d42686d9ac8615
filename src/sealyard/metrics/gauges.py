"""Figures of this moment, by a closed list of names: a gauge is what it was last said to be, and is never added up."""

import msgspec


class Gauge(msgspec.Struct, frozen=True, kw_only=True):
    """One figure."""

    name: str
    help: str
    value: float
    labels: dict[str, str] = {}


class GaugeInfo(msgspec.Struct, frozen=True):
    """What a gauge says, and the labels that every one of that name has."""

    help: str
    labels: tuple[str, ...] = ()


GAUGES: dict[str, GaugeInfo] = {
    "sealyard_info": GaugeInfo(
        "What this gateway is; always 1.",
        ("version", "tier", "level", "tokenizer"),
    ),
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
    "sealyard_privacy_detection_rate": GaugeInfo(
        "Share of the built-in samples of private values that the configured detectors find."
    ),
    "sealyard_discovery_hit_rate": GaugeInfo("Share of all searches of which a found tool was then called."),
    "sealyard_skill_reuse_ratio": GaugeInfo("Share of all runs of code that imported a saved skill."),
    "sealyard_context_tokens_saved": GaugeInfo("Tokens that were kept out of the agents' context."),
    "sealyard_context_dollars_saved": GaugeInfo("What those tokens would have cost, at the configured prices."),
    "sealyard_alerts_firing": GaugeInfo("Alerts that fire, silenced ones too.", ("rule",)),
    "sealyard_alerts_undelivered": GaugeInfo(
        "Changes of alerts that the webhook did not take, since this gateway started."
    ),
    "sealyard_metrics_uncounted_rows": GaugeInfo(
        "Rows of the journal that no figure counts yet: more than 0 for a while after an upgrade or a restore."
    ),
    "sealyard_learning_facts": GaugeInfo("The number of the last fact of the journal that was learned from."),
    "sealyard_learning_learned": GaugeInfo("Things that each part of what is learned holds.", ("part",)),
    "sealyard_learning_accuracy": GaugeInfo(
        "Share of what each part told that came true; none while nothing has been seen to.", ("part",)
    ),
    "sealyard_learning_switched_off": GaugeInfo(
        "How often each part failed or took too long and was left out, since this gateway started.", ("part",)
    ),
    "sealyard_store_bytes": GaugeInfo("Size of the store on disk."),
    "sealyard_store_failing": GaugeInfo("1 if the store could not be written or read when it was tried last, else 0."),
}
"""Every gauge."""


def gauge(name: str, value: float, /, **labels: str) -> Gauge:
    """The gauge of that name.

    Raises:
        ValueError: There is none, or its labels are others.
    """
    info = GAUGES.get(name)
    if info is None:
        raise ValueError(f"There is no gauge {name!r}. Use one of GAUGES, or add it.")
    if set(labels) != set(info.labels):
        raise ValueError(f"The gauge {name!r} has the labels {info.labels!r} and no others. Give it those.")
    return Gauge(name=name, help=info.help, value=value, labels=labels)
