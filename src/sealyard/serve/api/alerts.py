"""`/api/v1/alerts`: clients that may observe read them, clients that may approve silence and resolve them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sealyard.observe import alerts
from sealyard.observe.alerts import RULES, AlertList, AlertView
from sealyard.serve.api.declare import Call, endpoint
from sealyard.serve.envelope import Refusal
from sealyard.store.alerts import Silence
from sealyard.wording import suggest

_ADVICE = (
    "may not silence or resolve alerts. Use `sealyard alerts`, log in with the key that the gateway printed, or use "
    "the token of a client that has `approve = true`."
)


class NewSilence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The time for which alerts of the rule are not delivered, and the reason."""

    seconds: Annotated[float, Meta(gt=0, le=30 * 86_400)]
    reason: Annotated[str, Meta(max_length=500)] = ""


class Resolution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The alert's subject, such as the name of an upstream. Empty for a rule about the whole gateway."""

    subject: str = ""


class Unsilenced(msgspec.Struct, frozen=True, kw_only=True):
    """The rule whose alerts are delivered again."""

    rule: str


@endpoint("GET", "alerts", needs="observe")
async def list_alerts(call: Call[None, None]) -> AlertList:
    """All alerts, firing ones first, and all silences."""
    return await alerts.list_alerts(call.yard.store)


@endpoint("POST", "alerts/{rule}/silence", needs="approve", advice=_ADVICE, errors=("not_found",))
async def silence_alert(call: Call[None, NewSilence]) -> Silence:
    """Deliver no alert of a rule for some time."""
    body, store = call.body, call.yard.store
    return await alerts.silence_rule(store, _rule(call), body.seconds, principal=call.principal, reason=body.reason)


@endpoint("DELETE", "alerts/{rule}/silence", needs="approve", advice=_ADVICE, errors=("not_found",))
async def unsilence_alert(call: Call[None, None]) -> Unsilenced:
    """End a silence."""
    rule = _rule(call)
    await alerts.unsilence_rule(call.yard.store, rule, principal=call.principal)
    return Unsilenced(rule=rule)


@endpoint("POST", "alerts/{rule}/resolve", needs="approve", advice=_ADVICE, errors=("not_found",))
async def resolve_alert(call: Call[None, Resolution]) -> AlertView:
    """Resolve an alert."""
    return await call.yard.operations.alerting.resolve(_rule(call), call.body.subject, principal=call.principal)


def _rule(call: Call[Any, Any]) -> str:
    rule = call.path["rule"]
    if rule not in RULES:
        advice = suggest(rule, RULES, f"There are: {', '.join(RULES)}.")
        raise Refusal("not_found", f"No rule is called {rule[:100]!r}. {advice}")
    return rule
