"""`/api/v1/alerts`: what is wrong, for who may observe; to silence or resolve it is for who answers for the gateway."""

import difflib
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sealyard.metrics.alerts import RULES
from sealyard.observe.alert_list import AlertList, AlertView
from sealyard.serve.api.declare import Call, endpoint
from sealyard.serve.envelope import Refusal
from sealyard.store import Silence

_ADVICE = (
    "may not silence or resolve alerts. Use `sealyard alerts`, log in with the key that the gateway printed, or use "
    "the token of a client that has `approve = true`."
)


class NewSilence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For how long nobody is told, and why."""

    seconds: Annotated[float, Meta(gt=0, le=30 * 86_400)]
    reason: Annotated[str, Meta(max_length=500)] = ""


class Resolution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of what: such as the name of an upstream. Empty for a rule that is about the whole gateway."""

    subject: str = ""


class Unsilenced(msgspec.Struct, frozen=True, kw_only=True):
    """The rule that is told of again."""

    rule: str


@endpoint("GET", "alerts", needs="observe")
async def list_alerts(call: Call[None, None]) -> AlertList:
    """All alerts, those that fire first, and what is silenced."""
    return await call.yard.operations.alerting.listed()


@endpoint("POST", "alerts/{rule}/silence", needs="approve", advice=_ADVICE, errors=("not_found",))
async def silence_alert(call: Call[None, NewSilence]) -> Silence:
    """Tell nobody that a rule fires, for so long."""
    asked = call.body
    return await call.yard.operations.alerting.silence(
        _rule(call), asked.seconds, principal=call.principal, reason=asked.reason
    )


@endpoint("DELETE", "alerts/{rule}/silence", needs="approve", advice=_ADVICE, errors=("not_found",))
async def unsilence_alert(call: Call[None, None]) -> Unsilenced:
    """End a silence."""
    rule = _rule(call)
    await call.yard.operations.alerting.unsilence(rule, principal=call.principal)
    return Unsilenced(rule=rule)


@endpoint("POST", "alerts/{rule}/resolve", needs="approve", advice=_ADVICE, errors=("not_found",))
async def resolve_alert(call: Call[None, Resolution]) -> AlertView:
    """Set an alert to resolved."""
    return await call.yard.operations.alerting.resolve(_rule(call), call.body.subject, principal=call.principal)


def _rule(call: Call[Any, Any]) -> str:
    rule = call.path["rule"]
    if rule not in RULES:
        near = difflib.get_close_matches(rule[:100], RULES, n=1)
        advice = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(RULES)}."
        raise Refusal("not_found", f"No rule is called {rule[:100]!r}. {advice}")
    return rule


ENDPOINTS = (list_alerts, silence_alert, unsilence_alert, resolve_alert)
