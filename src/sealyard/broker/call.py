"""The only path from sandboxed code to a tool.

In the grant? Do the arguments fit, as code wrote them? Tokens are turned into values. What does the policy say, and a
person if it asks for one? Then the upstream, within the tool's limits, which alone judges the values; its answer's
private values become tokens; one record of the call goes to the observers of the execution.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import msgspec

from sealyard.broker.admission import Admitted, admit_answer
from sealyard.broker.approvals import Approvals
from sealyard.broker.limits import Attempts, Throttle
from sealyard.broker.policy.rules import Decision, Policy
from sealyard.broker.upstreams import OnProgress, ToolServer
from sealyard.broker.upstreams.server import Response, renamed
from sealyard.catalog import check_arguments
from sealyard.errors import PolicyRefused, SealyardError, StoreError, UnknownTool, UpstreamError, UpstreamUnavailable
from sealyard.offload import Offload, decode
from sealyard.privacy import TOKEN, Guard, Sent
from sealyard.store import Store
from sealyard.values.access import Approval, AuditEntry, Grant
from sealyard.values.documents import check_values, is_large
from sealyard.values.runs import Reply
from sealyard.values.tools import ToolSpec
from sealyard.versioning import Plan, translate_answer, translate_arguments
from sealyard.versioning.compare import is_wrapped
from sealyard.wording import short

_UNANSWERED = Response(value=None)
_DIGESTED_HERE = 64 << 10
"""Characters of arguments that are encoded and hashed on the event loop: half a millisecond."""
_LONG_NAME = 1_000
"""Characters of a name that no tool has, in the audit log: code may write any."""


class _Call(msgspec.Struct, kw_only=True):
    """The known facts of a call, whether it is over or not."""

    spec: ToolSpec
    number: int
    """1 for the execution's first call."""
    written: dict[str, Any]
    """The arguments as code wrote them."""
    arguments: Any = None
    """The same, concealed; None if it ended before that."""
    decision: Decision | None = None
    approval: Approval | None = None
    admitted: Admitted | None = None
    """The answer that code gets; None if the call failed."""
    error: SealyardError | None = None
    """The exception that the call raised, with nothing private in it."""
    failure: str | None = "The call was cancelled."
    """The same as a text; also says that a call was cancelled. None if it was answered."""
    answer_bytes: int = 0
    """Of the answer as code gets it, or as it was relayed."""
    waited_seconds: float = 0.0
    """For a person."""
    seconds: float = 0.0
    """Without those that a person took to decide."""
    started_at: float = msgspec.field(default_factory=time.time)
    """Seconds since the epoch."""


# mypy takes it for a dataclass, which could not be frozen here; `msgspec` allows it.
class FinishedCall(_Call, frozen=True, kw_only=True):  # type: ignore[misc]
    """The record of one call that is over, the same for every observer of its execution."""

    grant: Grant
    is_traceable: bool
    """True if the answer holds nothing private, so that it may be kept for replays."""


OnStart = Callable[["OpenCall"], None]
"""Observes the start of a call. It must not wait."""
OnFinish = Callable[[FinishedCall], None]
"""Observes a finished call, after code has the answer. It must not wait. Raises `StoreError` if it cannot record it."""


class Passage(msgspec.Struct, eq=False):
    """The context shared by all calls of one execution."""

    grant: Grant
    guard: Guard
    own: Mapping[str, Callable[[dict[str, Any]], Awaitable[Any]]] | None = None
    """Calls that the gateway answers itself, by name: the search, and those that skills need."""
    find: Callable[[str], tuple[ToolSpec, Plan | None]] | None = None
    """Resolves a name that is not in the grant: another spelling, or an older version with the way to call it."""
    recorded: Callable[[str, dict[str, Any]], Awaitable[Any]] | None = None
    """Answers a call from a recording; None for one that is to be made. Raises what the recording says."""
    pause: Callable[[], AbstractContextManager[None]] = nullcontext
    """Stops the execution's clock while a person decides."""
    on_progress: OnProgress | None = None
    on_start: Sequence[OnStart] = ()
    on_finish: Sequence[OnFinish] = ()
    notes: list[str] = []
    """Remarks on its calls for the caller of the execution."""
    counted: dict[str, int] = {}
    """Its calls of each tool with a limit on the calls of one run."""
    _count: int = 0
    _unseen: list[tuple["OpenCall", bool]] = []
    """Calls that no observer has seen, and whether they have ended."""
    _error: StoreError | None = None

    def number_next(self) -> int:
        """The number of the next call."""
        self._count += 1
        return self._count

    def note(self, call: "OpenCall") -> None:
        """Pass a call that has just begun or ended to the observers in the next turn of the event loop.

        The call to the upstream, or its answer to the code, goes first.
        """
        if not self._unseen:
            asyncio.get_running_loop().call_soon(self._show)
        self._unseen.append((call, call.is_over))

    def settle(self) -> None:
        """Pass the remaining calls to the observers. Raises `StoreError` if a call could not be recorded."""
        self._show()
        if self._error is not None:
            raise self._error

    def _show(self) -> None:
        unseen, self._unseen = self._unseen, []
        for call, is_over in unseen:
            seen = call.to_record() if is_over else call
            observers: Sequence[Callable[[Any], None]] = self.on_finish if is_over else self.on_start
            for observe in observers:
                try:
                    observe(seen)
                except StoreError as error:  # raised at the end of the execution, after all observers
                    self._error = self._error or error


class Broker:
    """Calls tools for executions, within their grants and the policy."""

    def __init__(
        self,
        upstreams: Mapping[str, ToolServer],
        *,
        policy: Policy,
        approvals: Approvals,
        store: Store,
        digest: Callable[[bytes], str],
        offload: Offload | None = None,
    ) -> None:
        self._upstreams = upstreams
        self.policy = policy
        self.approvals = approvals
        self.throttle = Throttle()
        self._store = store
        self._digest = digest
        self._offload = offload

    async def call(self, passage: Passage, name: str, arguments: dict[str, Any]) -> Any:
        """Answer a call of code: `msgspec.Raw` of the tool's answer, or a `Reply` if files come with it.

        The journal and the audit log record every call, however it ends, and the message of every error, without
        private values.

        Raises:
            UnknownTool: No tool of the grant has this name.
            InvalidRequest: The arguments hold more values or levels than are scanned.
            UnknownToken: The arguments hold a token of another session.
            CallRefused: A token in them is inside a longer text, and the tool is handed only those that stand alone.
            InvalidArguments: The arguments do not fit its schema; nothing left the gateway.
            PolicyRefused: A rule or a person said no; nothing left the gateway.
            LimitReached: The tool has been called too often, or its server fails.
            UpstreamError: The server failed or did not answer in time, or the tool answered with an error.
        """
        if passage.own is not None and (own := passage.own.get(name)) is not None:
            return await own(arguments)
        if passage.recorded is not None and (recorded := await passage.recorded(name, arguments)) is not None:
            return recorded
        number = passage.number_next()
        spec, plan = passage.grant.tools.get(name), None
        if spec is None:
            spec, plan = await self._find(passage, name, number)
        if plan is not None:
            arguments = translate_arguments(plan, arguments)
        arguments = spec.without_empty(arguments)
        if not self._store.has_room():
            await self._store.room()  # no call starts that cannot be recorded
        guard, sent = passage.guard, Sent()
        call, found = OpenCall(passage=passage, spec=spec, number=number, written=arguments), _UNANSWERED
        try:
            upstream = self._upstream(spec)
            check_values(f"What {spec.full_name!r} is called with", arguments)
            call.arguments = await guard.door.conceal(arguments)
            check_arguments(spec, arguments)
            real = await guard.reveal_latest(spec, arguments, sent)
            await self.decide(call, real, is_private=bool(sent))
            async with self.turn(call) as attempts:
                async for attempt in attempts:
                    with attempt:
                        found = await upstream.call(
                            spec.name,
                            real,
                            timeout_seconds=attempt.seconds,
                            on_progress=_concealed(passage, sent),
                            unwrap=is_wrapped(spec.output_schema),
                            grant=passage.grant,
                        )
            admitted = await admit_answer(guard, spec, found, sent, offload=self._offload, who=passage.grant.principal)
            call.admitted, call.answer_bytes, call.failure = admitted, len(admitted.encoded), None
        except SealyardError as error:
            safe = await guard.door.admit_error(error, sent=sent)
            if isinstance(safe, UpstreamError):
                safe = type(safe)(short(str(safe)))  # only now: half of a private value would not be found
            call.error, call.failure = safe, await guard.door.conceal(f"{type(safe).__name__}: {safe}")
            raise safe from None  # the original may hold what was private
        finally:
            call.finish()
        if plan is None and not admitted.answer.files:
            return msgspec.Raw(admitted.encoded)
        return await self._adapted(call, admitted, plan)

    async def decide(
        self, call: "OpenCall", real: dict[str, Any], *, is_private: bool, earlier: "OpenCall | None" = None
    ) -> None:
        """Return once the policy allows the call with the `real` arguments, and a person where it asks for one.

        `earlier` is the call that this one continues: a person's decision about it still holds.

        Raises:
            PolicyRefused: A rule or a person said no.
        """
        grant, spec, passage = call.grant, call.spec, call.passage
        decision = call.decision = self.policy.decide(spec, grant.principal, real)
        if decision.verdict == "allow":
            return
        if earlier is not None and earlier.decision == decision:
            call.approval = earlier.approval
            return
        body = {"tool": spec.full_name, "number": call.number, "verdict": decision.verdict, "rule": decision.rule}
        body |= {"reason": decision.reason, "arguments": call.arguments}
        self._store.audit(AuditEntry.of(grant, "decision", body))
        if decision.verdict == "deny":
            reason = decision.public_reason(is_private=is_private)
            raise PolicyRefused(f"{spec.full_name} is denied by {decision.rule}.{f' {reason}' if reason else ''}")
        digest = partial(self.digest, call.written, real)
        sha256 = await asyncio.to_thread(digest) if is_large(real, _DIGESTED_HERE) else digest()
        asked_at = time.perf_counter()
        with passage.pause():
            try:
                call.approval = await self.approvals.ask_for_call(
                    grant,
                    number=call.number,
                    tool=spec.full_name,
                    arguments=call.arguments,
                    digest=sha256,
                    rule=decision.rule,
                    reason=decision.reason,
                    channels=decision.channels,
                )
            finally:
                call.waited_seconds = time.perf_counter() - asked_at
        if call.approval.channel == "fallback":
            passage.notes.append(f"{spec.full_name} was called without asking: {call.approval.reason}.")

    def digest(self, written: dict[str, Any], real: dict[str, Any]) -> str:
        """The digest of the call that a person's answer is about; see `approved_call`."""
        return self._digest(approved_call(written, real))

    def turn(self, call: "OpenCall") -> AbstractAsyncContextManager[Attempts]:
        """The attempts of a call within the limits of its tool; see `Throttle.turn`."""
        spec, policy = call.spec, self.policy
        return self.throttle.turn(
            spec, policy.limits(spec), call.passage.counted, is_idempotent=policy.is_idempotent(spec)
        )

    async def note_unknown(self, passage: Passage, name: str, error: str, *, number: int = 1) -> None:
        """Record a call to a tool outside the principal's view: the policy may hide it."""
        about = {"tool": name[:_LONG_NAME], "error": f"UnknownTool: {error[:_LONG_NAME]}"}
        body = await passage.guard.door.conceal(about)
        body |= {"number": number, "verdict": None, "rule": None, "answer_bytes": 0}
        self._store.audit(AuditEntry.of(passage.grant, "call", body))

    async def _find(self, passage: Passage, name: str, number: int) -> tuple[ToolSpec, Plan | None]:
        """The tool of a name that is not literally in the grant."""
        try:
            spec, plan = (None, None) if passage.find is None else passage.find(name)
            if spec is None or passage.grant.tools.get(spec.full_name) is not spec:
                missing = name if spec is None else spec.full_name
                raise UnknownTool(f"No tool named {missing!r} in this execution. Call search_tools to find one.")
        except UnknownTool as error:
            await self.note_unknown(passage, name, str(error), number=number)
            raise
        return spec, plan

    def _upstream(self, spec: ToolSpec) -> ToolServer:
        upstream = self._upstreams.get(spec.upstream)
        if upstream is None:
            raise UpstreamUnavailable(f"Server {spec.upstream!r} of {spec.full_name!r} is not configured any more.")
        return upstream

    async def _adapted(self, call: "OpenCall", admitted: Admitted, plan: Plan | None) -> Any:
        """The answer as the older version of the tool would have given it, with its files where code finds them."""
        value, encoded = admitted.answer.value, admitted.encoded
        if isinstance(value, msgspec.Raw):  # the change requires decoding
            what = f"The answer of {call.spec.full_name!r}"
            value = await decode(encoded, self._offload, who=call.grant.principal, what=what)
        if plan is not None and (adapted := translate_answer(plan, value)) is not value:
            value, encoded = adapted, msgspec.json.encode(adapted)
        if not admitted.answer.files:
            return msgspec.Raw(encoded)
        # Another run of the session must not write over it.
        place = f"files/{call.grant.execution_id[:8]}-{call.number}"
        paths = {file.name: f"{place}-{file.name}" for file in admitted.answer.files}
        files = {paths[file.name]: file.content for file in admitted.answer.files}
        return Reply(value=renamed(value, paths), files=files)


class OpenCall(_Call, eq=False, kw_only=True):
    """One call while it happens."""

    passage: Passage
    is_over: bool = False
    _started: float = msgspec.field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.passage.note(self)

    @property
    def grant(self) -> Grant:
        """The grant of its execution."""
        return self.passage.grant

    def finish(self) -> None:
        """Mark it as ended and record it."""
        self.seconds = time.perf_counter() - self._started - self.waited_seconds
        self.is_over = True
        self.passage.note(self)

    def to_record(self) -> FinishedCall:
        """The record of the ended call."""
        admitted = self.admitted
        is_whole = admitted is not None and not admitted.answer.files
        return FinishedCall(
            grant=self.grant,
            is_traceable=is_whole and self.passage.guard.is_admitted_concealed(self.spec),
            **{name: getattr(self, name) for name in _Call.__struct_fields__},
        )


def _concealed(passage: Passage, sent: Sent) -> OnProgress | None:
    """Reports progress with private values concealed."""
    report = passage.on_progress
    if report is None:
        return None

    async def conceal(progress: float, total: float | None, message: str | None) -> None:
        text = None if message is None else await passage.guard.door.admit_text(message, sent=sent)
        if (reported := report(progress, total, text)) is not None:
            await reported

    return conceal


def approved_call(arguments: dict[str, Any], real: dict[str, Any]) -> bytes:
    """The identity of an approved call: the revealed arguments, and the places in them where a token stood.

    A call with a guess in place of a token is a different call. Otherwise code could test a guess by whether a person
    is asked.
    """
    encoded = msgspec.json.encode(real, order="sorted")
    if real is arguments:  # no token in it
        return encoded
    # The digits of a token are those of its session.
    places = TOKEN.sub(r"__PII_\1__", msgspec.json.encode(arguments, order="sorted").decode())
    return b"%b\n%b" % (encoded, places.encode())
