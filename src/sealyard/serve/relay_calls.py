"""Calls of tools through the relay: what the policy and a person say of them, their limits, and the audit log.

Each call is a run of its own. What stops it is a result that the model can read; what the upstream says stays as it is.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types import methods as wire

from sealyard.broker.call import approved_call
from sealyard.broker.limits import Throttle
from sealyard.broker.policy import Decision
from sealyard.errors import PolicyRefused, SealyardError, StoreError, ToolFailed, UpstreamError, UpstreamTimeout
from sealyard.serve.asking import Asking, Call
from sealyard.serve.relay_carry import Context, is_modern
from sealyard.serve.relay_guard import Json, Screen
from sealyard.serve.relay_large import size_of
from sealyard.values import Approval, Ask, AuditEntry, ToolSpec
from sealyard.yard.opening import Border

__all__ = ("Calls", "RelayedCall")

_ROUNDS_KEPT = 1_000

_Round = tuple[str, str, str, str | None]


class Calls:
    """Carries calls of tools out, as far as the policy goes, and records them."""

    def __init__(self, border: Border) -> None:
        self._border = border
        self._throttle = Throttle()
        self._asking = Asking(border.approvals)
        self._rounds: OrderedDict[_Round, RelayedCall] = OrderedDict()
        """Calls that wait for their client's next round. They are allowed already, with these very arguments."""

    async def carry(self, screen: Screen, params: Json, work: Callable[["RelayedCall"], Awaitable[Json]]) -> Json:
        """The result of `work`. The call is in the audit log, on disk, before this returns or raises.

        Raises:
            MCPError: The upstream answered with an error, or the call could not be recorded.
        """
        call = RelayedCall(screen)
        outcome: Json | MCPError
        try:
            await self._border.store.room()  # what cannot be recorded is not begun
            call.tool = await screen.leaving(params["name"])
            call.arguments = await screen.leaving(params.get("arguments") or {})
            outcome = await work(call)
            call.note(outcome)
        except MCPError as error:
            call.failure = f"MCPError: {error.message}"
            outcome = error
        except SealyardError as error:
            safe = await screen.error_of(error)
            call.failure = f"{type(safe).__name__}: {safe}"
            outcome = {"content": [{"type": "text", "text": call.failure}], "isError": True}
        finally:
            self._throttle.forget(call.execution_id)
            self._border.approvals.end_run(call.execution_id)
            self._border.store.audit(call.entry("call", call.body()))
        try:
            await self._border.store.flush()
        except StoreError as error:
            raise MCPError(types.INTERNAL_ERROR, f"{type(error).__name__}: {error}") from error
        if isinstance(outcome, MCPError):
            raise outcome
        return outcome

    def is_hidden(self, spec: ToolSpec, principal: str) -> bool:
        """Whether the tool does not exist for the principal."""
        return self._border.policy.is_hidden(spec, principal)

    async def send(
        self,
        ctx: Context,
        call: "RelayedCall",
        spec: ToolSpec,
        given: Json,
        real: Json,
        send: Callable[[], Awaitable[Json]],
    ) -> Json:
        """The upstream's result, if the call is allowed and within its limits.

        `given` are the arguments as the client sent them, `real` the revealed ones.

        Raises:
            PolicyRefused: A rule or a person said no; nothing was sent.
            LimitReached: The tool was called too often, or its server fails.
            UpstreamTimeout: It did not answer within its limit.
        """
        policy = self._border.policy
        digest = self._border.guards.digest(approved_call(given, real))
        params = ctx.params or {}
        call.decision = policy.decide(spec, call.screen.principal, real)
        earlier = None
        if params.get("inputResponses") is not None:
            earlier = self._rounds.pop((call.screen.session, spec.full_name, digest, params.get("requestState")), None)
        if earlier is not None and earlier.decision == call.decision:
            call.execution_id, call.approval = earlier.execution_id, earlier.approval
        elif call.decision.verdict != "allow":
            await self._approve(ctx, call, call.decision, digest)
        result = await self._within_limits(call, spec, send)
        if wire.is_input_required(result):
            self._rounds[call.screen.session, spec.full_name, digest, result.get("requestState")] = call
            while len(self._rounds) > _ROUNDS_KEPT:
                self._rounds.popitem(last=False)
        return result

    async def _approve(self, ctx: Context, call: "RelayedCall", decision: Decision, digest: str) -> None:
        body = {"tool": call.tool, "number": 1, "verdict": decision.verdict, "rule": decision.rule}
        body |= {"reason": decision.reason, "arguments": call.arguments}
        self._border.store.audit(call.entry("decision", body))
        if decision.verdict == "deny":
            told = decision.told(is_private=call.screen.is_private)
            raise PolicyRefused(f"{call.tool} is denied by {decision.rule}.{f' {told}' if told else ''}")
        now = time.time()
        ask = Ask(
            id=secrets.token_hex(6),
            execution_id=call.execution_id,
            number=1,
            principal=call.screen.principal,
            session=call.screen.session,
            tool=call.tool,
            arguments=call.arguments,
            arguments_sha256=digest,
            rule=decision.rule,
            reason=decision.reason,
            asked_at=now,
            expires_at=now + self._border.approvals.settings.ask_seconds,
        )
        if is_modern(ctx):  # a round that ends in our question could not be told from one that ends in the upstream's
            call.approval = await self._border.approvals.ask(ask)
            return

        async def wait(_: Call) -> types.CallToolResult:
            call.approval = await self._border.approvals.ask(ask)
            return types.CallToolResult(content=[])

        await self._asking.carry(ctx, types.CallToolRequestParams(name=call.tool), call.execution_id, wait)

    async def _within_limits(self, call: "RelayedCall", spec: ToolSpec, send: Callable[[], Awaitable[Json]]) -> Json:
        policy = self._border.policy

        async def attempt(seconds: float | None) -> Json:
            try:
                with anyio.fail_after(seconds):
                    return await send()
            except TimeoutError:
                raise UpstreamTimeout(
                    f"{spec.full_name!r} did not answer within {seconds:g} s; whether the call happened is unknown."
                ) from None
            except MCPError as error:
                if isinstance(error, UpstreamError):
                    raise
                raise _Answered(error) from None

        try:
            return await self._throttle.run(
                spec, policy.limits(spec), call.execution_id, attempt, is_idempotent=policy.is_idempotent(spec)
            )
        except _Answered as answered:
            raise answered.error from None


class _Answered(ToolFailed):
    """The upstream answered with an error of the protocol, so its server is well."""

    def __init__(self, error: MCPError) -> None:
        super().__init__(error.message)
        self.error = error


class RelayedCall:
    """One call while it happens, and what is kept of it."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.execution_id = secrets.token_hex(8)
        self.tool = ""
        """As the client named it, concealed; its full name once an upstream that lists it is found."""
        self.arguments: Any = None
        """Concealed."""
        self.digest = ""
        self.decision: Decision | None = None
        self.approval: Approval | None = None
        self.answer_bytes = 0
        self.failure: str | None = "The call was cancelled."

    def name(self, spec: ToolSpec) -> None:
        """Say which tool it is."""
        self.tool, self.digest = spec.full_name, spec.digest

    def note(self, result: Json) -> None:
        """Take note of a result, which nothing private is in any more. Raises `UpstreamError` if it is no JSON."""
        try:
            self.answer_bytes = size_of(result)
        except (TypeError, ValueError, RecursionError) as error:
            raise UpstreamError(f"{self.tool!r} answered with something that is no JSON: {error}.") from error
        self.failure = None
        if result.get("isError") is True:
            blocks = result.get("content")
            blocks = blocks if isinstance(blocks, list) else []  # not of one that was too large to be decoded
            texts = [block.get("text") for block in blocks if isinstance(block, dict)]
            self.failure = f"ToolFailed: {next((text for text in texts if isinstance(text, str)), '')}"

    def body(self) -> Json:
        """The call for the audit log."""
        body: Json = {
            "tool": self.tool,
            "number": 1,
            "digest": self.digest,
            "arguments": self.arguments,
            "verdict": None if self.decision is None else self.decision.verdict,
            "rule": None if self.decision is None else self.decision.rule,
            "answer_bytes": self.answer_bytes,
            "error": self.failure,
        }
        if self.approval is not None:
            body |= {"approved_by": self.approval.by, "approved_for": self.approval.decision}
        return body

    def entry(self, kind: str, body: Json) -> AuditEntry:
        """An entry about this call."""
        return AuditEntry(
            kind=kind,
            principal=self.screen.principal,
            session=self.screen.session,
            execution_id=self.execution_id,
            body=body,
        )
