"""The only road from sandboxed code to a tool.

In the grant? Do the arguments fit, as code wrote them? Tokens are turned into values. What does the policy say, and a
person if it asks for one? Then the upstream, within the tool's limits, which alone judges the values; its answer's
private values become tokens; the journal and the audit log.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import PurePath
from typing import Any, Protocol

import msgspec

from sealyard.broker.answers import Answer, AnswerFile, renamed, short
from sealyard.broker.approvals import Approvals
from sealyard.broker.limits import Circuit, Throttle
from sealyard.broker.policy import Decision, Policy
from sealyard.catalog.arguments import check_arguments
from sealyard.catalog.shapes import is_wrapped
from sealyard.errors import PolicyRefused, SealyardError, UnknownTool, UpstreamError, UpstreamUnavailable
from sealyard.privacy.echo import Sent
from sealyard.privacy.guard import Guard
from sealyard.store.rows import CALL_VALUE_BYTES
from sealyard.store.samples import sample_of
from sealyard.values import Approval, Ask, AuditEntry, CallRecord, Definition, Grant, ToolSpec, UpstreamStatus

__all__ = ("Broker", "OnProgress", "OnTools", "Passage", "ToolServer", "is_large", "without_empty")

_ANSWER_BYTES = 32 << 20  # the worker's connection holds at most twice as much unread
_LARGE = 20_000

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
    ) -> None:
        self._upstreams = upstreams
        self._policy = policy
        self._approvals = approvals
        self._throttle = Throttle()
        self._record = record
        self._keep = keep
        self._audit = audit
        self._digest = digest

    async def call(
        self, grant: Grant, spec: ToolSpec, arguments: dict[str, Any], *, number: int, passage: Passage
    ) -> tuple[Answer, bytes]:
        """Call a granted tool and return its answer, and the answer's value as JSON: both as code may see them.

        The call is in the journal and in the audit log whatever comes of it, with nothing private in it. So is the
        message of every error.

        Raises:
            UnknownTool: It is not in the grant.
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
            call.arguments = guard.conceal(arguments)
            check_arguments(spec, arguments)
            real = await guard.reveal_latest(spec, arguments, sent)
            call.decision = await self._decide(call, real, passage, is_private=bool(sent))
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
            answer = await _admit(guard, spec, found, sent)
            encoded = _encode(spec, answer)
            call.answer, call.answer_bytes, call.failure = answer, len(encoded), None
        except SealyardError as error:
            safe = guard.admit_error(error, sent=sent)
            if isinstance(safe, UpstreamError):
                safe = type(safe)(short(str(safe)))  # only now: half of a private value would not be found
            call.failure = guard.conceal(f"{type(safe).__name__}: {safe}")
            raise safe from None  # the original may hold what was private
        finally:
            self._audit(call.to_entry())
            self._record(call.to_record(guard))
        if guard.is_admitted_concealed(spec) and not answer.files:
            self._keep(grant.execution_id, number, encoded)
        return answer, encoded

    def circuits(self) -> list[Circuit]:
        """How the circuit breakers stand of tools whose server failed."""
        return self._throttle.circuits()

    def end_run(self, execution_id: str) -> None:
        """Forget what was counted and approved for one execution."""
        self._throttle.forget(execution_id)
        self._approvals.end_run(execution_id)

    async def _decide(self, call: "_Call", real: dict[str, Any], passage: Passage, *, is_private: bool) -> Decision:
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
            arguments_sha256=self._digest(msgspec.json.encode(real, order="sorted")),
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
        self.answer: Answer | None = None
        self.answer_bytes = 0
        self.failure: str | None = "The call was cancelled."
        self.started_at = time.time()
        self._started = time.perf_counter()
        self.waited_seconds = 0.0
        """For a person."""

    def to_record(self, guard: Guard) -> CallRecord:
        """The call for the journal, which takes a sample of an answer that is too long for it."""
        answer = self.answer
        is_kept = answer is not None and self.answer_bytes <= CALL_VALUE_BYTES
        # Only of what is concealed already: whether a part of something is private cannot be told from the part.
        is_sampled = answer is not None and not is_kept and guard.is_admitted_concealed(self.spec)
        return CallRecord(
            execution_id=self.grant.execution_id,
            number=self.number,
            tool=self.spec.full_name,
            digest=self.spec.digest,
            version=self.spec.version,
            upstream=self.spec.upstream,
            arguments=self.arguments,
            answer=guard.conceal_admitted(self.spec, answer.value) if answer is not None and is_kept else None,
            error=self.failure,
            started_at=self.started_at,
            seconds=time.perf_counter() - self._started - self.waited_seconds,
            answer_bytes=self.answer_bytes,
            answer_sample=sample_of(answer.value) if answer is not None and is_sampled else None,
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


async def _admit(guard: Guard, spec: ToolSpec, answer: Answer, sent: Sent) -> Answer:
    """The answer as code may see it. A large one is looked through in a thread, so that others go on.

    Raises:
        UpstreamError: It is no JSON, or too large.
    """
    if guard.is_off:
        return answer

    def admit() -> Answer:
        names = _plain_names(guard, spec, answer, sent)
        files = tuple(
            AnswerFile(
                name=names.get(file.name, file.name),
                mime=file.mime,
                content=guard.admit_file(spec, file.content, sent=sent),
            )
            for file in answer.files
        )
        value = renamed(answer.value, names) if names else answer.value
        # `text` is a second copy of what is in `value` and of no use to code.
        return Answer(value=guard.admit(spec, value, sent=sent), files=files)

    if sum(len(file.content) for file in answer.files) > _LARGE or is_large(answer.value):
        _encode(spec, answer)  # one that is too large is refused before it is looked through
        return await asyncio.to_thread(admit)
    return admit()


def _plain_names(guard: Guard, spec: ToolSpec, answer: Answer, sent: Sent) -> dict[str, str]:
    """Other names for the files whose own ones hold something private: code sees the name of a file as it is."""
    names: dict[str, str] = {}
    for number, file in enumerate(answer.files, 1):
        own = [file.title or file.name, PurePath(file.name).stem]
        if guard.admit(spec, own, sent=sent) != own:
            names[file.name] = f"private-{number}{PurePath(file.name).suffix}"
    return names


def is_large(value: Any) -> bool:
    """Whether there is enough in it to hold up the event loop, by counting no further than that."""
    left = _LARGE
    waiting = [value]
    while waiting and left > 0:
        item = waiting.pop()
        if isinstance(item, str):
            left -= len(item)
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        left -= 16
    return left <= 0


def _concealed(passage: Passage, sent: Sent) -> OnProgress | None:
    """Reports progress in words that may leave."""
    report = passage.on_progress
    if report is None:
        return None

    def conceal(progress: float, total: float | None, message: str | None) -> Awaitable[None] | None:
        return report(progress, total, None if message is None else passage.guard.admit_text(message, sent=sent))

    return conceal


def _encode(spec: ToolSpec, answer: Answer) -> bytes:
    try:
        encoded = msgspec.json.encode(answer.value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UpstreamError(f"{spec.full_name!r} answered with something that is no JSON: {error}.") from error
    size = len(encoded) + sum(len(file.content) for file in answer.files)
    if size > _ANSWER_BYTES:
        raise UpstreamError(
            f"{spec.full_name!r} answered with {size:,} bytes, more than the {_ANSWER_BYTES:,} that code is handed. "
            "Ask it for less: filter, or take it in pages."
        )
    return encoded


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
