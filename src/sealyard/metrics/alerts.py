"""When something is wrong enough to tell somebody, and when it is over: rules and states, without a clock or a sink.

An alert is `pending` while what is wrong has not lasted long enough, `firing` from then on, and `resolved` when no
gateway sees it any more or a person says so. What a person resolved does not fire again before it was right in between.
Nothing private is in an alert: it has a rule, the configured name of an upstream, two numbers and a sentence of ours.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal

import msgspec

from sealyard.metrics.report import Report

AlertState = Literal["pending", "firing", "resolved"]
Key = tuple[str, str]
"""Rule and subject."""

SILENCED = "silenced"
"""As `Alert.delivery`: it fires, and is told when the silence ends if it still does."""
FAILED = "failed"
"""As `Alert.delivery`: the webhook did not take it."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be wrong."""

    name: str
    title: str
    severity: Literal["critical", "warning"]
    waits: bool = True
    """Whether it must last before anybody is told. What happened once and must never happen does not wait."""


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(name="discovery_hit_rate", title="Searches do not lead to calls", severity="warning"),
        Rule(name="error_rate", title="Many runs fail", severity="warning"),
        Rule(name="slow_runs", title="Runs are slow", severity="warning"),
        Rule(name="timeouts", title="Runs time out", severity="warning"),
        Rule(name="privacy_detection", title="Private values are not recognised", severity="critical", waits=False),
        Rule(name="privacy_failures", title="Values could not be looked through", severity="critical", waits=False),
        Rule(name="upstream_down", title="An upstream is down", severity="critical"),
        Rule(name="audit_chain", title="The audit log was changed", severity="critical", waits=False),
        Rule(name="store_failing", title="The store does not work", severity="critical"),
    )
}
"""By name."""


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """From when on something is wrong."""

    hit_rate: float
    error_rate: float
    p95_seconds: float
    timeout_rate: float
    detection_rate: float
    minimum: int
    """Fewer searches or runs are not judged."""


class Now(msgspec.Struct, frozen=True, kw_only=True):
    """What is so at this moment. None: it is not known, and nothing is said about it."""

    upstreams_down: Mapping[str, str] | None = None
    """Name -> `unavailable` or `circuit_open`."""
    detection_rate: float | None = None
    audit_first_wrong: int | None = None
    """The number of the first entry that is wrong; 0 if none is to be named."""
    is_audit_intact: bool | None = None
    is_store_failing: bool | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong now."""

    rule: str
    subject: str = ""
    """The upstream of `upstream_down`."""
    value: float | None = None
    threshold: float | None = None
    message: str


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a rule and a subject."""

    rule: str
    subject: str = ""
    state: AlertState
    value: float | None = None
    threshold: float | None = None
    message: str
    since: float
    """When it was first seen to be wrong."""
    changed_at: float
    """When its state changed last."""
    seen_by: tuple[str, ...] = ()
    """The gateways that see it. While a resolved one has any, a person resolved it and it is still so."""
    delivery: str = ""
    """Empty if there is nothing to tell, the id of the gateway that tells it, `silenced` or `failed`."""


def judge(thresholds: Thresholds, report: Report | None, now: Now) -> tuple[list[Finding], set[str]]:
    """What is wrong, and the names of the rules that could be judged: what is not known is neither wrong nor right."""
    found: list[Finding] = []
    judged: set[str] = set()
    if report is not None:
        judged |= {"discovery_hit_rate", "error_rate", "slow_runs", "timeouts", "privacy_failures"}
        found += _judge_report(thresholds, report)
    if now.upstreams_down is not None:
        judged.add("upstream_down")
        found += [_down(name, why) for name, why in sorted(now.upstreams_down.items())]
    if now.detection_rate is not None:
        judged.add("privacy_detection")
        if now.detection_rate < thresholds.detection_rate:
            found.append(
                Finding(
                    rule="privacy_detection",
                    value=now.detection_rate,
                    threshold=thresholds.detection_rate,
                    message=f"The detectors find {now.detection_rate:.1%} of the built-in samples of private values; "
                    f"at least {thresholds.detection_rate:.1%} are expected. Look at [privacy] in the configuration.",
                )
            )
    if now.is_audit_intact is not None:
        judged.add("audit_chain")
        if not now.is_audit_intact:
            found.append(_broken(now.audit_first_wrong))
    if now.is_store_failing is not None:
        judged.add("store_failing")
        if now.is_store_failing:
            text = "The store cannot be written or read, so nothing is run. Run `sealyard audit verify`, and look at"
            found.append(Finding(rule="store_failing", message=f"{text} the gateway's log."))
    return found, judged


def _judge_report(thresholds: Thresholds, report: Report) -> Iterable[Finding]:
    discovery, execution = report.discovery, report.execution
    if discovery.queries >= thresholds.minimum and discovery.hit_rate is not None:
        rate = discovery.hit_rate
        if rate < thresholds.hit_rate:
            yield Finding(
                rule="discovery_hit_rate",
                value=rate,
                threshold=thresholds.hit_rate,
                message=f"Of {discovery.queries:,} searches {rate:.1%} led to a call of a tool that was found; at least"
                f" {thresholds.hit_rate:.1%} are expected.",
            )
    if execution.count >= thresholds.minimum:
        yield from _judge_runs(thresholds, report)
    if report.security.hiding_failures > 0:
        count = report.security.hiding_failures
        yield Finding(
            rule="privacy_failures",
            value=count,
            threshold=0,
            message=f"{count:,} {'value' if count == 1 else 'values'} could not be looked through for something private"
            " and were withheld whole. Look at the gateway's log.",
        )


def _judge_runs(thresholds: Thresholds, report: Report) -> Iterable[Finding]:
    execution = report.execution
    if execution.success_rate is not None and (failed := 1 - execution.success_rate) > thresholds.error_rate:
        yield Finding(
            rule="error_rate",
            value=failed,
            threshold=thresholds.error_rate,
            message=f"Of {execution.count:,} runs {failed:.1%} did not end well; at most {thresholds.error_rate:.1%}"
            " are expected.",
        )
    if execution.p95_seconds is not None and execution.p95_seconds > thresholds.p95_seconds:
        yield Finding(
            rule="slow_runs",
            value=execution.p95_seconds,
            threshold=thresholds.p95_seconds,
            message=f"One of twenty runs took {execution.p95_seconds:.3g} s or longer; at most"
            f" {thresholds.p95_seconds:g} s are expected.",
        )
    if execution.timeout_rate is not None and execution.timeout_rate > thresholds.timeout_rate:
        yield Finding(
            rule="timeouts",
            value=execution.timeout_rate,
            threshold=thresholds.timeout_rate,
            message=f"Of {execution.count:,} runs {execution.timeout_rate:.1%} took longer than they may; at most"
            f" {thresholds.timeout_rate:.1%} are expected.",
        )


def _down(upstream: str, why: str) -> Finding:
    what = "is not running and could not be started"
    if why == "circuit_open":
        what = "fails so often that one of its tools is not called any more"
    return Finding(
        rule="upstream_down",
        subject=upstream,
        message=f"The upstream {upstream!r} {what}. Run `sealyard tools --status`.",
    )


def _broken(first_wrong: int | None) -> Finding:
    where = f"Entry {first_wrong:,} of the audit log" if first_wrong else "The audit log"
    return Finding(
        rule="audit_chain",
        value=first_wrong,
        message=f"{where} is not as it was written. Run `sealyard audit verify`, and keep a copy of the store as"
        " evidence.",
    )


def advance(
    alerts: Mapping[Key, Alert],
    findings: Iterable[Finding],
    judged: Collection[str],
    *,
    now: float,
    for_seconds: float,
    owner: str,
    is_alive: Callable[[str], bool],
    silenced: Collection[str] = (),
) -> list[Alert | Key]:
    """What one look of the gateway `owner` changes: alerts as they are from now on, and keys of those that are gone.

    Those that have `owner` as their `delivery` are for it to tell. It takes over from gateways that are gone.
    """
    changes: dict[Key, Alert | Key] = {}
    seen = {(finding.rule, finding.subject): finding for finding in findings}
    for key, finding in seen.items():
        changes[key] = _seen(alerts.get(key), finding, now=now, for_seconds=for_seconds, owner=owner)
    for key, alert in alerts.items():
        if key not in seen and alert.rule in judged:
            changes[key] = _unseen(alert, now=now, owner=owner, is_alive=is_alive)
    for key in {*alerts, *changes}:
        before, after = alerts.get(key), changes.get(key, alerts.get(key))
        if not isinstance(after, Alert):
            continue
        if after.delivery != owner or is_due(after, before, owner=owner):  # else it is being told
            changes[key] = _deliverable(after, owner=owner, is_alive=is_alive, is_silenced=key[0] in silenced)
    return [after for key, after in changes.items() if after != alerts.get(key)]


def is_due(after: Alert, before: Alert | None, *, owner: str) -> bool:
    """Whether the step from `before` makes it the business of `owner` to tell the alert."""
    is_told_already = before is not None and (before.delivery, before.changed_at) == (owner, after.changed_at)
    return after.delivery == owner and not is_told_already


def resolve(alert: Alert, *, now: float, owner: str) -> Alert:
    """The alert after a person said that it is over. `owner` is whoever has the store open for that person."""
    if alert.state == "resolved":
        return alert
    if alert.state == "pending":
        return msgspec.structs.replace(alert, state="resolved", changed_at=now)
    return _over(alert, now=now, owner=owner, seen_by=alert.seen_by)


def _seen(before: Alert | None, finding: Finding, *, now: float, for_seconds: float, owner: str) -> Alert:
    waits = RULES[finding.rule].waits and for_seconds > 0
    if before is None or (before.state == "resolved" and not before.seen_by):
        before = Alert(
            rule=finding.rule,
            subject=finding.subject,
            state="pending",
            message=finding.message,
            since=now,
            changed_at=now,
        )
    told = msgspec.structs.replace(
        before,
        value=finding.value,
        threshold=finding.threshold,
        message=finding.message,
        seen_by=tuple(sorted({*before.seen_by, owner})),
    )
    if told.state == "pending" and (not waits or now - told.since >= for_seconds):
        return msgspec.structs.replace(told, state="firing", changed_at=now, delivery=owner)
    return told


def _unseen(before: Alert, *, now: float, owner: str, is_alive: Callable[[str], bool]) -> Alert | Key:
    seen_by = tuple(each for each in before.seen_by if each != owner and is_alive(each))
    if seen_by or before.state == "resolved":
        return msgspec.structs.replace(before, seen_by=seen_by)
    if before.state == "pending":
        return before.rule, before.subject
    return _over(before, now=now, owner=owner, seen_by=())


def _over(before: Alert, *, now: float, owner: str, seen_by: tuple[str, ...]) -> Alert:
    """A firing alert that is over. Who was not told that it fires is not told that it is over."""
    delivery = "" if before.delivery == SILENCED else owner
    return msgspec.structs.replace(before, state="resolved", changed_at=now, seen_by=seen_by, delivery=delivery)


def _deliverable(alert: Alert, *, owner: str, is_alive: Callable[[str], bool], is_silenced: bool) -> Alert:
    delivery = alert.delivery
    if delivery in ("", FAILED):
        return alert
    if delivery not in (owner, SILENCED) and is_alive(delivery):
        return alert
    if alert.state == "firing":
        delivery = SILENCED if is_silenced else owner
    elif delivery != SILENCED:
        delivery = owner
    return msgspec.structs.replace(alert, delivery=delivery)
