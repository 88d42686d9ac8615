"""`/api/v1/learning`: learned facts, with `observe`; forgetting them needs `approve`."""

from typing import Annotated

import msgspec
from msgspec import Meta

from sealyard.errors import InvalidRequest
from sealyard.learning import Assessment, Insights
from sealyard.serve.api.declare import Call, endpoint
from sealyard.values.facts import Forgotten

_ADVICE = (
    "may not have anything forgotten. Use `sealyard insights --forget`, log in with the key that the gateway printed, "
    "or use the token of a client that has `approve = true`."
)


class Forgetting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ALL`, the name of a tool, or that of a principal; `tool:NAME` and `principal:NAME` say which is meant."""

    subject: Annotated[str, Meta(min_length=1, max_length=200)]


class CodeToAssess(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Code that is looked at and not run."""

    code: Annotated[str, Meta(min_length=1)]
    session: str | None = None
    """The workspace that it would run in."""


@endpoint("GET", "learning/insights", needs="observe")
async def get_insights(call: Call[None, None]) -> Insights:
    """Learned facts, the evidence behind them, and how often they were right."""
    return await call.yard.guidance.insights()


@endpoint("POST", "learning/assess")
async def assess_code(call: Call[None, CodeToAssess]) -> Assessment:
    """Predict how likely code is to fail, and why, without running it.

    Nothing is recorded. The answer is what `execute_code` would take into account for the same principal.
    """
    if not call.yard.guidance.is_on:
        raise InvalidRequest("Learning is switched off, so there is nothing to tell. Set learning.enabled to true.")
    if not call.body.code.strip():
        raise InvalidRequest("The code is empty. Give at least one statement.")
    return await call.yard.assess(call.body.code, principal=call.principal, session=call.body.session)


@endpoint("POST", "learning/forget", needs="approve", advice=_ADVICE)
async def forget_learned(call: Call[None, Forgetting]) -> Forgotten:
    """Forget what was learned of a tool, of a principal, or all of it.

    The journal and the audit log keep what happened; it is not learned from any more. Other gateways on the same store
    forget it within seconds.
    """
    return await call.yard.guidance.forget(call.body.subject, principal=call.principal)
