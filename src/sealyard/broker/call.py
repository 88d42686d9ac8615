"""The only road from sandboxed code to a tool.

In the grant? Do the arguments fit, as code wrote them? Tokens are turned into values. What does the policy say, and a
person if it asks for one? Then the upstream, within the tool's limits, which alone judges the values; its answer's
private values become tokens; the journal and the audit log.
"""

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import msgspec

from sealyard.broker.admitting import Admitted, admit_answer
from sealyard.broker.answers import Answer, short
from sealyard.broker.approvals import Approvals
from sealyard.broker.limits import Circuit, Throttle
from sealyard.broker.policy import Decision, Policy
from sealyard.catalog.arguments import check_arguments
from sealyard.catalog.shapes import is_wrapped
from sealyard.errors import PolicyRefused, SealyardError, UnknownTool, UpstreamError, UpstreamUnavailable
from sealyard.offload import Offload, check_values
from sealyard.privacy.echo import Sent
from sealyard.privacy.guard import Guard
from sealyard.privacy.span import TOKEN
from sealyard.store.rows import CALL_VALUE_BYTES
from sealyard.values import Approval, Ask, AuditEntry, CallRecord, Definition, Grant, ToolSpec, UpstreamStatus

__all__ = ("Broker", "OnProgress", "OnTools", "Passage", "ToolServer", "approved_call", "without_empty")

OnProgress = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""Progress so far, its total if known, and a message."""


OnTools = Callable[[str, list[Definition]], Awaitable[None]]


class ToolServer(Protocol):
    """Something that answers calls: `broker.upstream.Upstream`, and `testing.FakeUpstream` without any process."""

    on_tools: OnTools | None
    """Told its name and its tools whenever they were listed."""

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
        unwrap: bool = False,
    ) -> Answer:
        """The tool's answer. Raises an `UpstreamError`."""
        ...

    async def refresh(self) -> None:
        """Connect if need be and list the tools anew; they arrive through the callback given at construction."""
        ...

    def status(self) -> UpstreamStatus:
        """How it is."""
        ...

    async def close(self) -> None:
        """Stop it and leave nothing behind."""
        ...


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls of one execution pass through."""

    guard: Guard
    pause: Callable[[], AbstractContextManager[None]] = nullcontext
    """Stops the execution's clock while a person thinks."""
    on_progress: OnProgress | None = None
    notes: list[str] = msgspec.field(default_factory=list)
    """What whoever asked for the execution should be told."""


class Broker:
    """Calls tools for executions, within their grants and as far as the policy goes."""

    def __init__(
        self,
        upstreams: Mapping[str, ToolServer],
        *,
        policy: Policy,
        approvals: Approvals,
        record: Callable[[CallRecord], None],
        keep: Callable[[str, int, bytes], None],
        audit: Callable[[AuditEntry], None],
        digest: Callable[[bytes], str],
        offload: Offload | None = None,
    ) -> None:
        self._upstreams = upstreams
        self._policy = policy
        self._approvals = approvals
        self._throttle = Throttle()
        self._record = record
        self._keep = keep
        self._audit = audit
        self._digest = digest
        self._offload = offload

    async def call(
        self, grant: Grant, spec: ToolSpec, arguments: dict[str, Any], *, number: int, passage: Passage
    ) -> tuple[Answer, bytes]:
        """Call a granted tool and return its answer, and the answer's value as JSON: both as code may see them.

        The call is in the journal and in the audit log whatever comes of it, with nothing private in it. So is the
        message of every error.

        Raises:
            UnknownTool: It is not in the grant.
            InvalidRequest: The arguments hold more values, or more levels, than are looked at.
            UnknownToken: The arguments hold a token that is none of this session.
            CallRefused: A token in them is inside a longer text, and the tool is handed only those that stand alone.
            InvalidArguments: The arguments do not fit its schema; nothing left the gateway.
            PolicyRefused: A rule or a person said no; nothing left the gateway.
            LimitReached: The tool has been called too often, or its server fails.
            UpstreamError: The server failed or did not answer in time, or the tool answered with an error.
        """
        if grant.tools.get(spec.full_name) is not spec:
            raise UnknownTool(f"No tool named {spec.full_name!r} in this execution. Call search_tools to find one.")
        upstream = self._upstreams.get(spec.upstream)
        if upstream is None:
            raise UpstreamUnavailable(f"Server {spec.upstream!r} of {spec.full_name!r} is not configured any more.")
        guard = passage.guard
        arguments = without_empty(spec, arguments)
        call = _Call(grant, spec, number)
        sent = Sent()
        try:
            check_values(f"What {spec.full_name!r} is called with", arguments)
            call.arguments = await guard.door.conceal(arguments)
            check_arguments(spec, arguments)
            real = await guard.reveal_latest(spec, arguments, sent)
            call.decision = await self._decide(call, arguments, real, passage, is_private=bool(sent))
            found = await self._throttle.run(
                spec,
                self._policy.limits(spec),
                grant.execution_id,
                lambda seconds: upstream.call(
                    spec.name,
                    real,
                    timeout_seconds=seconds,
                    on_progress=_concealed(passage, sent),
                    unwrap=is_wrapped(spec.output_schema),
                ),
                is_idempotent=self._policy.is_idempotent(spec),
            )
            admitted = await admit_answer(guard, spec, found, sent, offload=self._offload, who=grant.principal)
            call.admitted, call.failure = admitted, None
        except SealyardError as error:
            safe = await guard.door.admit_error(error, sent=sent)
            if isinstance(safe, UpstreamError):
                safe = type(safe)(short(str(safe)))  # only now: half of a private value would not be found
            call.failure = await guard.door.conceal(f"{type(safe).__name__}: {safe}")
            raise safe from None  # the original may hold what was private
        finally:
            self._audit(call.to_entry())
            self._record(call.to_record())
        if guard.is_admitted_concealed(spec) and not admitted.answer.files:
            self._keep(grant.execution_id, number, admitted.encoded)
        return admitted.answer, admitted.encoded

    def circuits(self) -> list[Circuit]:
        """How the circuit breakers stand of tools whose server failed."""
        return self._throttle.circuits()

    def end_run(self, execution_id: str) -> None:
        """Forget what was counted and approved for one execution."""
        self._throttle.forget(execution_id)
        self._approvals.end_run(execution_id)

    async def _decide(
        self, call: "_Call", arguments: dict[str, Any], real: dict[str, Any], passage: Passage, *, is_private: bool
    ) -> Decision:
        """What the policy says of the call, once a person has said yes where it asks for one."""
        grant, spec = call.grant, call.spec
        decision = self._policy.decide(spec, grant.principal, real)
        if decision.verdict == "allow":
            return decision
        body = {"tool": spec.full_name, "number": call.number, "verdict": decision.verdict, "rule": decision.rule}
        self._audit(_entry(grant, "decision", {**body, "reason": decision.reason, "arguments": call.arguments}))
        call.decision = decision
        if decision.verdict == "deny":
            told = decision.told(is_private=is_private)
            raise PolicyRefused(f"{spec.full_name} is denied by {decision.rule}.{f' {told}' if told else ''}")
        now = time.time()
        ask = Ask(
            id=secrets.token_hex(6),
            execution_id=grant.execution_id,
            number=call.number,
            principal=grant.principal,
            session=grant.session,
            tool=spec.full_name,
            arguments=call.arguments,
            arguments_sha256=self._digest(approved_call(arguments, real)),
            rule=decision.rule,
            reason=decision.reason,
            asked_at=now,
            expires_at=now + self._approvals.settings.ask_seconds,
        )
        asked = time.perf_counter()
        with passage.pause():
            try:
                call.approval = await self._approvals.ask(ask)
            finally:
                call.waited_seconds = time.perf_counter() - asked
        if call.approval.channel == "fallback":
            passage.notes.append(f"{spec.full_name} was called without asking: {call.approval.reason}.")
        return decision


class _Call:
    """One call while it happens, and what is kept of it."""

    def __init__(self, grant: Grant, spec: ToolSpec, number: int) -> None:
        self.grant = grant
        self.spec = spec
        self.number = number
        self.arguments: Any = None
        """Concealed."""
        self.decision: Decision | None = None
        self.approval: Approval | None = None
        self.admitted: Admitted | None = None
        self.failure: str | None = "The call was cancelled."
        self.started_at = time.time()
        self._started = time.perf_counter()
        self.waited_seconds = 0.0
        """For a person."""

    @property
    def answer_bytes(self) -> int:
        """Of the answer as code gets it."""
        return 0 if self.admitted is None else len(self.admitted.encoded)

    def to_record(self) -> CallRecord:
        """The call for the journal, which takes a sample of an answer that is too long for it."""
        admitted = self.admitted
        is_kept = admitted is not None and self.answer_bytes <= CALL_VALUE_BYTES
        return CallRecord(
            execution_id=self.grant.execution_id,
            number=self.number,
            tool=self.spec.full_name,
            digest=self.spec.digest,
            version=self.spec.version,
            upstream=self.spec.upstream,
            arguments=self.arguments,
            answer=admitted.told if admitted is not None and is_kept else None,
            error=self.failure,
            started_at=self.started_at,
            seconds=time.perf_counter() - self._started - self.waited_seconds,
            answer_bytes=self.answer_bytes,
            answer_sample=admitted.answer.sample if admitted is not None and not is_kept else None,
        )

    def to_entry(self) -> AuditEntry:
        """The call for the audit log."""
        body: dict[str, Any] = {
            "tool": self.spec.full_name,
            "number": self.number,
            "digest": self.spec.digest,
            "version": self.spec.version,
            "arguments": self.arguments,
            "verdict": None if self.decision is None else self.decision.verdict,
            "rule": None if self.decision is None else self.decision.rule,
            "answer_bytes": self.answer_bytes,
            "error": self.failure,
        }
        if self.approval is not None:
            body["approved_by"] = self.approval.by
            body["approved_for"] = self.approval.decision
        return _entry(self.grant, "call", body)


def _entry(grant: Grant, kind: str, body: dict[str, Any]) -> AuditEntry:
    return AuditEntry(
        kind=kind, principal=grant.principal, session=grant.session, execution_id=grant.execution_id, body=body
    )


def _concealed(passage: Passage, sent: Sent) -> OnProgress | None:
    """Reports progress in words that may leave."""
    report = passage.on_progress
    if report is None:
        return None

    async def conceal(progress: float, total: float | None, message: str | None) -> None:
        told = None if message is None else await passage.guard.door.admit_text(message, sent=sent)
        if (reported := report(progress, total, told)) is not None:
            await reported

    return conceal


def approved_call(arguments: dict[str, Any], real: dict[str, Any]) -> bytes:
    """What a person's answer is about: the revealed arguments, and where in them a token stood.

    A call with a guess in the place of a token is another one. If it were the same, code would see which guess is
    right by whether a person is asked.
    """
    encoded = msgspec.json.encode(real, order="sorted")
    if real is arguments:  # no token in it
        return encoded
    # The digits of a token are those of its session.
    places = TOKEN.sub(r"__PII_\1__", msgspec.json.encode(arguments, order="sorted").decode())
    return b"%b\n%b" % (encoded, places.encode())


def without_empty(spec: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    """`arguments` without each `None` that the schema has no place for: models write it for what they leave out."""
    if None not in arguments.values():
        return arguments
    required = spec.input_schema.get("required")
    required = required if isinstance(required, list) else ()
    properties = spec.input_schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    return {
        name: value
        for name, value in arguments.items()
        if value is not None or name in required or _accepts_null(properties.get(name, True))
    }


def _accepts_null(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return bool(schema)
    if isinstance(schema.get("enum"), list):
        return None in schema["enum"]
    if isinstance(schema.get("type"), str | list):
        return "null" in schema["type"]
    choices = [choice for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list) for choice in schema[key]]
    return any(map(_accepts_null, choices)) if choices else "$ref" not in schema and "const" not in schema
