"""Asks the user of the MCP client about calls that wait for approval, in both eras of the protocol.

With a handshake, a question is a request to the client while its call goes on. In the newer era, the questions are the
answer to the call, which goes on in the background. The client repeats the call with its user's answers, and a sealed
state identifies it.

An answer that comes faster than a person reads is dropped, whatever it says: a client without a person gave it. The
client is asked about the next call again. That costs it milliseconds, and a person whose client once answered by itself
would never be asked any more.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least
from pydantic import ValidationError

from sealyard.serve.compression import UNCOMPRESSED
from sealyard.values.access import Approval, ApprovalDecision, ApprovalRequest, Unattended

if TYPE_CHECKING:  # the handshake needs none, nor the store that they are in
    from sealyard.broker import Approvals

Context = ServerRequestContext[Any, Any]

PRINCIPAL = "sealyard.principal"
"""The key in a request's scope under which the gate stores its principal."""

READING_SECONDS = 0.5
"""Between a form and the fastest answer of a person. Whoever reads a line and chooses takes longer than a second, a
program under load answers in some hundred milliseconds."""
_FORMS = 3  # with nothing chosen in them, about one ask: then it is no oversight
_COMPANY_SECONDS = 0.05  # for asks that are made at the same time to be shown together
_KEPT_SECONDS = 300.0  # in which a client that lost the connection can still come for the result
_KEPT = 256  # held calls: more than wait for people at once
_KEPT_CHARACTERS = 4_000  # of output that a slow client has not taken: a screenful
_MESSAGE_CHARACTERS = 200  # of a tool's progress: a line or two, so that no tool fills what is kept
_REASON_CHARACTERS = 1_000  # the same limit as over HTTP
_STATE_SECONDS = 60.0  # beyond the ask's own time, for the way


def principal_of(ctx: Context) -> str:
    """Return the principal of the request."""
    request = ctx.request
    return "local" if request is None else str(request.scope.get(PRINCIPAL, "local"))


def seal_states(name: str, ask_seconds: float) -> RequestStateBoundary:
    """Seal the states of held calls: unreadable, unforgeable, and valid for their own principal and request alone."""
    security = RequestStateSecurity(
        keys=[secrets.token_bytes(32)], ttl=ask_seconds + _STATE_SECONDS, bind_principal=principal_of
    )
    return RequestStateBoundary(security, default_audience=name)


class Call:
    """One tool call of a client while it is carried out. Questions go to the client as requests."""

    def __init__(self, approvals: "Approvals", principal: str, ctx: Context | None = None) -> None:
        self.principal = principal
        self._approvals = approvals
        self._ctx = ctx
        self.stream = Stream()
        self.asks: dict[str, ApprovalRequest] = {}
        """Open questions to the client's user."""
        self._shown_at: dict[str, float] = {}
        self._empty: dict[str, int] = {}
        """The number of forms about each ask in which nothing was chosen."""

    def on_output(self, text: str) -> None:
        """Send output of code to the client."""
        self.stream.add(text)

    def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Send the progress of a tool to the client."""
        self.stream.relay(progress, total, message)

    def channel(self, execution_id: str) -> AbstractContextManager[None]:
        """While open, the questions of an execution go to this client's user."""
        return self._approvals.channel(execution_id, self._ask)

    async def _ask(self, ask: ApprovalRequest) -> Approval | Unattended | None:
        """Return the user's answer; None if the question is not for this user, or if the client cannot ask."""
        if ask.principal != self.principal:
            return None
        places = {"client": "in your client", "operator": "with `sealyard approvals`"}
        self._say(ask, f"answer {' or '.join(places[each] for each in ask.channels)}")
        if "client" not in ask.channels:
            return None
        answer = await self._put(ask)
        if isinstance(answer, Unattended) and "operator" in ask.channels:
            self._say(ask, "the client answered without a person, so an operator is asked: `sealyard approvals`")
        return answer

    def _say(self, ask: ApprovalRequest, words: str) -> None:
        self.stream.add(f"[waiting for approval of {ask.tool} ({ask.id}); {words}]\n")

    async def _put(self, ask: ApprovalRequest) -> Approval | Unattended | None:
        """Return the user's answer to a request to the client; None if the client cannot ask."""
        ctx = self._ctx
        if ctx is None or not _can_ask(ctx):
            return None
        self.asks[ask.id] = ask
        started = time.monotonic()
        try:
            while True:
                form = await self.form(ask, ctx.protocol_version)
                self.note_shown([ask.id])
                answer = await ctx.session.elicit_form(
                    form.message, form.requested_schema, related_request_id=ctx.request_id
                )
                if (judged := self.judge(ask.id, answer)) is not None:
                    return judged
        except (MCPError, ValidationError) as error:  # from a program: a person would have declined
            is_gone = isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED
            return Unattended(action="gone" if is_gone else "error", seconds=time.monotonic() - started)
        finally:
            del self.asks[ask.id]

    async def form(self, ask: ApprovalRequest, version: str) -> types.ElicitRequestFormParams:
        """The form about an ask, with private values in it if the configuration says so of this principal."""
        values: Mapping[str, object] = {}
        if self.principal in self._approvals.asking.reveal_to:
            values = await self._approvals.reveal(ask, by=self.principal, channel="elicitation")
        return _form(ask, version, values, is_again=ask.id in self._empty)

    def note_shown(self, ask_ids: Iterable[str]) -> None:
        """Take the time at which these forms are sent. To build them takes time, which nobody reads in."""
        now = time.monotonic()
        for ask_id in ask_ids:
            self._shown_at.setdefault(ask_id, now)

    def judge(self, ask_id: str, answer: object) -> Approval | Unattended | None:
        """The decision in an answer to the last form; None if nothing was chosen in it, so that it is shown again."""
        now = time.monotonic()
        seconds = now - self._shown_at.pop(ask_id, now)  # what was never shown, nobody has read
        if seconds < READING_SECONDS:
            action = answer.action if isinstance(answer, types.ElicitResult) else "unreadable"
            return Unattended(action=action, seconds=seconds)
        if _is_undecided(answer):
            self._empty[ask_id] = self._empty.get(ask_id, 0) + 1
            if self._empty[ask_id] < _FORMS:
                return None
        return _approval(answer, self.principal)


Work = Callable[[Call], Awaitable[types.CallToolResult]]
"""Carries out a call that outlives the request it came with."""


class Asking:
    """Carries out calls of clients, and asks their users meanwhile.

    Open it for as long as a server runs: calls that go on without their clients end with it. `approvals` returns those
    of the yard, which need not be open before the first call.
    """

    def __init__(self, approvals: "Callable[[], Approvals]") -> None:
        self._approvals = approvals
        self._held: dict[str, _HeldCall] = {}
        self._tasks: set[asyncio.Future[types.CallToolResult]] = set()

    def is_held(self, ctx: Context) -> bool:
        """True if a call of this client goes on between its requests, so that its user can be asked: see `round`."""
        return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and _can_ask(ctx)

    @contextlib.asynccontextmanager
    async def dialogue(self, ctx: Context) -> AsyncIterator[Call]:
        """A call of a client that gets questions as requests, or cannot ask its user. It gets progress meanwhile."""
        call = Call(self._approvals(), principal_of(ctx), ctx)
        call.stream.open(ctx)
        try:
            yield call
            await call.stream.close()
        finally:
            call.stream.abandon()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._held.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def round(
        self, ctx: Context, params: types.CallToolRequestParams, work: Work
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Return the result of `work`, or its questions; the client then repeats the call to go on.

        Raises:
            MCPError: No call of this client waits under the state that it brings.
        """
        state, principal = params.request_state, principal_of(ctx)
        if state is None:
            call = _HeldCall(self._approvals(), principal, work)
            self._tasks.add(call.task)
            call.task.add_done_callback(self._tasks.discard)
            state = secrets.token_hex(16)
        else:
            found = self._held.get(state)
            if found is None or found.principal != principal:
                raise MCPError(types.INVALID_PARAMS, "No call waits for this state. Make the call again without it.")
            call = found
            call.answer(params.input_responses or {})
        with call.attended(ctx):
            if (result := await call.round()) is not None:
                return result
            requests: dict[str, Any] = {
                ask_id: types.ElicitRequest(params=await call.form(ask, ctx.protocol_version))
                for ask_id, ask in list(call.asks.items())
            }
        self._hold(state, call)
        call.note_shown(requests)
        if ctx.request is not None and principal in self._approvals().asking.reveal_to:
            ctx.request.scope[UNCOMPRESSED] = True  # the forms show private values
        return types.InputRequiredResult(input_requests=requests, request_state=state)

    def _hold(self, state: str, call: "_HeldCall") -> None:
        """Keep a call for the client's next round, and its result for a while afterwards: the answer may get lost."""
        if state in self._held:
            return
        over = [key for key, other in self._held.items() if other.task.done()]
        for key in over[: max(0, len(self._held) - _KEPT)]:
            del self._held[key]
        self._held[state] = call
        loop = asyncio.get_running_loop()
        call.task.add_done_callback(lambda _: loop.call_later(_KEPT_SECONDS, self._held.pop, state, None))


class _HeldCall(Call):
    """A call that goes on whether or not a request of its client is open. Questions wait for the next one."""

    def __init__(self, approvals: "Approvals", principal: str, work: Work) -> None:
        super().__init__(approvals, principal)
        self._changed = asyncio.Event()
        """Set when a question opens, and when the call ends."""
        self._answers: dict[str, asyncio.Future[Approval | Unattended]] = {}
        self._rounds = 0
        self.task = asyncio.ensure_future(work(self))
        self.task.add_done_callback(self._end)

    async def _put(self, ask: ApprovalRequest) -> Approval | Unattended:
        """Ask the user in the client's next round, and wait for the round that brings the answer."""
        answered: asyncio.Future[Approval | Unattended] = asyncio.get_running_loop().create_future()
        self._answers[ask.id] = answered
        self.asks[ask.id] = ask
        self._changed.set()
        try:
            return await answered
        finally:
            del self._answers[ask.id]
            self.asks.pop(ask.id, None)

    def answer(self, responses: Mapping[str, Any]) -> None:
        """Take the client's answers; questions without one are asked again."""
        for ask_id in self.asks.keys() & responses.keys():
            if (judged := self.judge(ask_id, responses[ask_id])) is None:
                continue
            del self.asks[ask_id]
            if not self._answers[ask_id].done():  # such as answered in the shell at the same moment
                self._answers[ask_id].set_result(judged)

    @contextlib.contextmanager
    def attended(self, ctx: Context) -> Iterator[None]:
        """While a request of the client is open. One that fails or is closed gives the call up, if it is the last."""
        self._rounds += 1
        self.stream.open(ctx)
        try:
            yield
        except BaseException:
            if self._rounds == 1:
                self.task.cancel()
            raise
        finally:
            self._rounds -= 1
            if not self._rounds:
                self.stream.abandon()

    async def round(self) -> types.CallToolResult | None:
        """The call's result, or None as soon as it has questions for the client."""
        while not self.task.done():
            if not self.asks:
                self._changed.clear()
                await self._changed.wait()
                continue
            await asyncio.wait({self.task}, timeout=_COMPANY_SECONDS)
            if self.asks and not self.task.done():
                return None
        if self.task.cancelled():
            raise MCPError(types.INVALID_REQUEST, "The call was cancelled. Make it again.")
        await self.stream.close()
        return self.task.result()

    def _end(self, task: "asyncio.Future[types.CallToolResult]") -> None:
        self._changed.set()
        if not task.cancelled():
            task.exception()  # marks it as retrieved: the client may never come back for it


def _can_ask(ctx: Context) -> bool:
    """True if the client shows forms to its user. One that names no mode means forms."""
    capabilities = ctx.session.client_capabilities
    declared = None if capabilities is None else capabilities.elicitation
    return declared is not None and (declared.form is not None or declared.url is None)


def _form(
    ask: ApprovalRequest, version: str, values: Mapping[str, object], *, is_again: bool
) -> types.ElicitRequestFormParams:
    # Indented, so that a client which renders Markdown takes it for a block of code and obeys nothing in it. Claude
    # Code shows three lines of a message, each as wide as its window: the call is whole in the third.
    facts = ask.lines(values) if ask.is_about_run else [ask.summary(values), *ask.lines(values)]
    lines = "\n".join(f"    {line}" for line in facts)
    heading = f"{'Code' if ask.is_about_run else 'A call'} waits for your approval."
    if is_again:
        heading = f"Nothing was chosen. {heading}"
    left = max(0.0, ask.expires_at - time.time())
    message = f"{heading}\n\n{lines}\n\nWithout an answer it is refused in {left:.0f} s."
    # Required and without a default: "Accept" with nothing chosen neither allows nor refuses.
    decision: dict[str, Any] = {"type": "string", "title": "Decision"}
    choices = ask.options
    if is_version_at_least(version, "2025-11-25"):
        decision["oneOf"] = [{"const": value, "title": title} for value, title in choices.items()]
    else:
        decision |= {"enum": list(choices), "enumNames": list(choices.values())}
    reason = {"type": "string", "title": "Reason", "description": "Told to the agent", "maxLength": _REASON_CHARACTERS}
    schema = {"type": "object", "properties": {"decision": decision, "reason": reason}, "required": ["decision"]}
    return types.ElicitRequestFormParams(message=message, requested_schema=schema)


def _is_undecided(answer: object) -> bool:
    """True for a form that was accepted with nothing chosen, against its schema."""
    if not isinstance(answer, types.ElicitResult) or answer.action != "accept":
        return False
    return not (answer.content or {}).get("decision")


def _approval(answer: object, principal: str) -> Approval:
    """Return the decision of the client's user. Anything but an explicit approval refuses the call."""
    decision: ApprovalDecision = "refuse"
    content: Mapping[str, Any] = {}
    if not isinstance(answer, types.ElicitResult):
        reason = "the client's answer could not be read"
    elif answer.action != "accept":
        reason = "declined" if answer.action == "decline" else "dismissed"
    else:
        content = answer.content or {}
        reason = str(content.get("reason") or "")[:_REASON_CHARACTERS]
        try:
            decision = msgspec.convert(content.get("decision"), ApprovalDecision)
        except msgspec.ValidationError:
            is_empty = _is_undecided(answer)
            reason = f"nothing was chosen in {_FORMS} forms" if is_empty else "the client's answer could not be read"
    return Approval(decision=decision, by=principal, channel="elicitation", reason=reason, answered_at=time.time())


class Stream:
    """Sends the output of code as progress, no faster than the client reads it.

    It sends nothing to a client that did not ask for progress. While no request is open, it keeps the output's end.
    """

    def __init__(self) -> None:
        self._ctx: Context | None = None
        self._waiting = ""
        self._sent = 0
        self._sending: asyncio.Task[None] | None = None

    def open(self, ctx: Context) -> None:
        """Send over this request from now on."""
        self._ctx = ctx
        self._sent = 0
        self._start()

    async def close(self) -> None:
        """Wait until everything is sent. Raises what sending it raised."""
        if self._sending is not None:
            await self._sending
        self.abandon()

    def abandon(self) -> None:
        """Stop sending: the request is answered or abandoned."""
        self._ctx = None
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def add(self, text: str) -> None:
        """Take more output; if the client is too slow for all of it, the end is kept."""
        self._waiting = (self._waiting + text)[-_KEPT_CHARACTERS:]
        self._start()

    def relay(self, progress: float, total: float | None, message: str | None) -> None:
        """Take an inner call's progress."""
        share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        self.add(f"[{share}{' ' + message[:_MESSAGE_CHARACTERS] if message else ''}]\n")

    def _start(self) -> None:
        if self._ctx is not None and self._waiting and (self._sending is None or self._sending.done()):
            self._sending = asyncio.create_task(self._send(self._ctx))

    async def _send(self, ctx: Context) -> None:
        while self._waiting:
            text, self._waiting = self._waiting, ""
            self._sent += 1
            await ctx.session.report_progress(float(self._sent), None, text)
