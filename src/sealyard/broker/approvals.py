"""Requests approval of calls from people and waits for their decisions.

An ask is in the store before a person sees it. It goes to every channel of its execution, and any process that has the
store open can answer it too; the first answer holds. Agent code reaches nothing here except the ask itself.

Everything in an ask may be hostile: it is shown, and never obeyed. `ApprovalRequest` has the words for people.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec

from sealyard.broker.policy import PolicySettings
from sealyard.errors import ApprovalRefused, InvalidRequest, StoreError, UnknownApproval
from sealyard.privacy.vault import RevealedValue, Vault
from sealyard.store import Store
from sealyard.values.access import (
    RUN_ASK,
    Approval,
    ApprovalChannel,
    ApprovalDecision,
    ApprovalRequest,
    ApprovalSettings,
    AuditEntry,
    Grant,
    Unattended,
)

AskChannel = Callable[[ApprovalRequest], Awaitable[Approval | Unattended | None]]
"""Asks one person. None: no answer through this channel, such as after its client disconnected."""
FindValues = Callable[[str], Awaitable[list[RevealedValue]]]
"""The values of a token in all sessions."""

_ASKING = ApprovalSettings()
_RUN_RULE = "learning.critical"
_POLL_SECONDS = 0.25
"""Between two looks for answers that other processes wrote: unnoticed by a person, and a look is one read."""
_WAITING_PER_RUN = 20  # open asks: a person cannot survey more
_WAITING_PER_PRINCIPAL = 100  # open asks: one principal must not fill the list of all
_ASKED_PER_RUN = 100
"""Questions that the code of one run may put to a person."""
_REVEALED = 50  # values of one ask: each is a query and an entry in the audit log, and nobody weighs more
_SESSIONS_KEPT = 10_000
"""Approvals for a session: some 10 MB. Sessions have no certain end; an approval that is dropped is asked for again."""


class Approvals:
    """The asks of one gateway. Every method except `ask` works for other processes of the same store too."""

    def __init__(
        self,
        store: Store,
        settings: PolicySettings,
        asking: ApprovalSettings = _ASKING,
        *,
        find: FindValues | None = None,
        on_ask: Callable[[ApprovalRequest], None] = lambda ask: None,
        on_answer: Callable[[ApprovalRequest, Approval], None] = lambda ask, approval: None,
        on_reveal: Callable[[str], None] = lambda by: None,
    ) -> None:
        """`on_ask` gets every ask that is shown to people, `on_answer` its outcome, `on_reveal` who saw a value.

        Without `find`, nothing is private.
        """
        self._store = store
        self.settings = settings
        self.asking = asking
        self._find = find
        self._on_reveal = on_reveal
        self._revealing = asyncio.Lock()
        self._open: dict[str, _Waiting] = {}
        self._channels: dict[str, list[AskChannel]] = {}
        self._runs: dict[str, _Run] = {}
        self._sessions: dict[tuple[str, str, str, str], Approval] = {}
        self._polling: asyncio.Task[None] | None = None
        self._on_ask = on_ask
        self._on_answer = on_answer

    async def ask_for_call(
        self,
        grant: Grant,
        *,
        number: int,
        tool: str,
        arguments: Any,
        digest: str,
        rule: str,
        reason: str,
        channels: tuple[ApprovalChannel, ...] = (),
    ) -> Approval:
        """Ask about a call of an execution; `digest` identifies it by its real arguments. Raises as `ask` does.

        `channels` count instead of the configured ones.
        """
        now = time.time()
        configured = self.asking.channels
        if not self.settings.operators:
            configured = tuple(each for each in configured if each != "operator")
        ask = ApprovalRequest(
            id=secrets.token_hex(6),
            execution_id=grant.execution_id,
            number=number,
            principal=grant.principal,
            session=grant.session,
            tool=tool,
            arguments=arguments,
            arguments_sha256=digest,
            rule=rule,
            reason=reason,
            asked_at=now,
            expires_at=now + self.settings.ask_seconds,
            channels=channels or configured,
        )
        return await self.ask(ask)

    async def ask_for_run(self, grant: Grant, reason: str, arguments: dict[str, Any]) -> Approval:
        """Ask about the run of `grant`, which has not begun; the caller stops its clock. Raises as `ask` does.

        `reason` and `arguments` are what the person is shown; they are concealed already. The ask is in the audit log
        and counts among those of the run. Its answer is for that run alone.
        """
        unique = secrets.token_hex(32)  # an answer to one ask never answers the next
        return await self.ask_for_call(
            grant, number=0, tool=RUN_ASK, arguments=arguments, digest=unique, rule=_RUN_RULE, reason=reason
        )

    async def ask(self, ask: ApprovalRequest) -> Approval:
        """Return when a person allows the call.

        Raises:
            ApprovalRefused: A person refused it, the ask expired, or no person can be reached.
            StoreError: The ask or its answer could not be kept.
        """
        run = self._runs.setdefault(ask.execution_id, _Run())
        approval = await self._find_given(ask)
        if approval is None:
            self._check(ask, run)
            approval = await self._put_to_people(ask, run)
        self._note(ask, run, approval)
        await self._store.flush()  # what is approved is on disk before it happens
        if approval.decision == "refuse":
            raise ApprovalRefused(ask.refusal(approval))
        return approval

    @contextlib.contextmanager
    def channel(self, execution_id: str, channel: AskChannel) -> Iterator[None]:
        """While open, asks of that execution go to `channel` too, including those that already wait."""
        channels = self._channels.setdefault(execution_id, [])
        channels.append(channel)
        for waiting in self._of_run(execution_id):
            waiting.put_to(channel)
        try:
            yield
        finally:
            channels.remove(channel)
            if not channels:
                self._channels.pop(execution_id, None)
            for waiting in self._of_run(execution_id):
                waiting.take_from(channel)

    def open_asks(self, execution_id: str) -> list[ApprovalRequest]:
        """The asks of one execution of this gateway that wait."""
        return [waiting.ask for waiting in self._of_run(execution_id)]

    async def waiting(self) -> list[ApprovalRequest]:
        """The asks that wait in all gateways of the store, the oldest first."""
        return await self._store.approvals.waiting()

    async def get(self, ask_id: str) -> ApprovalRequest:
        """An ask that waits or is approved always, with all of its arguments.

        Raises:
            UnknownApproval: No ask has that id.
        """
        ask = await self._store.approvals.find_whole(ask_id)
        if ask is None:
            raise UnknownApproval(f"No approval {ask_id!r} waits. List those that do with `sealyard approvals`.")
        return ask

    async def answer(self, ask_id: str, approval: Approval) -> None:
        """Answer an ask of any gateway of the store.

        Raises:
            UnknownApproval: No such ask waits; the message states how it ended.
            InvalidRequest: The policy lets no operator answer, or the ask does not offer that answer.
            StoreError: The answer could not be kept.
        """
        held = await self._store.approvals.settle(ask_id, approval)
        if held is None:
            raise UnknownApproval(f"No approval {ask_id!r} waits. List those that do with `sealyard approvals`.")
        if held is not approval:
            raise UnknownApproval(f"Approval {ask_id!r} does not wait any more: {_fate(held)}.")
        if (waiting := self._open.get(ask_id)) is not None:
            waiting.offer(approval)

    async def reveal(self, ask: ApprovalRequest, *, by: str, channel: str) -> dict[str, str | int | float]:
        """The values of the tokens in an ask's arguments, for the person who decides about it.

        They are those of the ask's own session: code can write any token into its text. Each is in the audit log, on
        disk, before this returns: once for the ask, `by` and `channel`, however often it is shown. The caller shows
        them and keeps them nowhere.

        Raises:
            VaultError: A value cannot be opened.
            StoreError: The audit log cannot be written.
        """
        if self._find is None:
            return {}
        values: dict[str, str | int | float] = {}
        tokens = await asyncio.to_thread(_tokens, ask.arguments)  # of megabytes, perhaps
        async with self._revealing:  # two forms at once would each find no entry
            known = await self._revealed(ask, by) if tokens else []
            for spelled, token in tokens.items():
                for found in await self._find(token):
                    if found.scope not in (ask.session, "gateway"):
                        continue
                    values[spelled] = found.value
                    body = {"token": found.token, "scope": found.scope, "type": found.type}
                    body |= {"approval": ask.id, "channel": channel}
                    if body not in known:
                        known.append(body)
                        entry = AuditEntry.of(ask, "privacy.reveal", body)
                        self._store.audit(msgspec.structs.replace(entry, principal=by))
                        self._on_reveal(by)
            await self._store.flush()
        return values

    async def _revealed(self, ask: ApprovalRequest, by: str) -> list[dict[str, Any]]:
        """What the audit log has of values of an ask that this person was shown."""
        await self._store.flush()
        entries = await self._store.audit_entries(
            limit=_ASKED_PER_RUN * _REVEALED, kind="privacy.reveal", principal=by, execution_id=ask.execution_id
        )
        return [entry.body for entry in entries if entry.body.get("approval") == ask.id]

    def end_run(self, execution_id: str) -> None:
        """Forget approvals for the run and withdraw its open asks."""
        self._runs.pop(execution_id, None)
        for waiting in self._of_run(execution_id):
            waiting.offer(_nobody("refuse", "withdrawn", "its run is over"))

    def _check(self, ask: ApprovalRequest, run: "_Run") -> None:
        """Raise `ApprovalRefused` for a repeated ask, and for more asks than a person can answer."""
        if (refused := run.refused.get((ask.tool, ask.arguments_sha256))) is not None:
            raise ApprovalRefused(f"{ask.refusal(refused)} (It was asked for before in this run.)")
        if run.is_unanswered:
            why = "nobody answered an earlier ask of this run in time"
        elif len(self._of_run(ask.execution_id)) >= _WAITING_PER_RUN:
            why = f"{_WAITING_PER_RUN} asks of this run wait already. Make fewer such calls at once"
        elif sum(each.ask.principal == ask.principal for each in self._open.values()) >= _WAITING_PER_PRINCIPAL:
            why = f"{_WAITING_PER_PRINCIPAL} asks of {ask.principal} wait already. Wait until they are answered"
        elif run.requests >= _ASKED_PER_RUN:
            why = f"this run has asked {_ASKED_PER_RUN} times, which is the most"
        else:
            return
        raise ApprovalRefused(f"{ask.subject} refused without asking: {why}.")

    async def _put_to_people(self, ask: ApprovalRequest, run: "_Run") -> Approval:
        has_operators = "operator" in ask.channels
        if not has_operators and not self._channels.get(ask.execution_id):
            return self._fallback()
        waiting = _Waiting(ask, None if has_operators else self._fallback(), self._note_unattended)
        self._open[ask.id] = waiting
        run.requests += 1
        is_announced = False
        try:
            self._store.audit(_entry("approval.ask", ask, {"arguments": ask.arguments, "reason": ask.reason}))
            try:
                waiting.ask = ask = await self._store.approvals.add(ask)
            except InvalidRequest as error:  # an unreadable ask cannot be approved
                raise ApprovalRefused(f"{ask.subject} refused without asking. {error}.") from None
            self._on_ask(ask)
            is_announced = True
            waiting.begin(self._channels.get(ask.execution_id, ()))
            if self._polling is None:
                self._polling = asyncio.create_task(self._look_for_answers())
            held = await self._store.approvals.settle(ask.id, _offered(ask, await waiting.wait()))
            assert held is not None
            held = _offered(ask, held)
            self._on_answer(ask, held)
            return held
        except BaseException:
            withdrawn = self._withdraw(ask)
            if is_announced:
                self._on_answer(ask, withdrawn)
            raise
        finally:
            del self._open[ask.id]
            waiting.end()
            if not self._open and self._polling is not None:
                self._polling.cancel()
                self._polling = None

    def _note_unattended(self, ask: ApprovalRequest, answer: Unattended) -> None:
        self._store.audit(_entry("approval.unattended", ask, msgspec.structs.asdict(answer)))

    def _withdraw(self, ask: ApprovalRequest) -> Approval:
        approval = _nobody("refuse", "withdrawn", "its run is over")
        with contextlib.suppress(StoreError):  # a closed store withdraws it too
            self._store.approvals.withdraw(ask.id, approval.reason)
            self._store.audit(_entry("approval.answer", ask, msgspec.structs.asdict(approval)))
        return approval

    def _fallback(self) -> Approval:
        fallback = self.settings.unanswerable
        reason = f"there is no way to a person here, and policy.unanswerable is {fallback!r}"
        return _nobody("once" if fallback == "allow" else "refuse", "fallback", reason)

    async def _find_given(self, ask: ApprovalRequest) -> Approval | None:
        """An earlier approval that covers this ask. Code has none: each run of code is a new question."""
        if ask.is_about_run:
            return None
        always = await self._store.approvals.find_always(ask)
        return self._find_standing(ask) if always is None else _remembered(always)

    def _find_standing(self, ask: ApprovalRequest) -> Approval | None:
        """An approval for the run or the session. An ask for another reason is another question."""
        run = self._runs.get(ask.execution_id)
        found = None if run is None else run.approved.get((ask.tool, ask.rule))
        found = found or self._sessions.get((ask.principal, ask.session, ask.tool, ask.rule))
        return _remembered(found) if found is not None and ask.takes(found) else None

    def _note(self, ask: ApprovalRequest, run: "_Run", approval: Approval) -> None:
        """Record the answer, and keep it for the run, the session or always, as it was given."""
        self._store.audit(_entry("approval.answer", ask, msgspec.structs.asdict(approval)))
        if approval.channel == "remembered":
            return
        if approval.channel == "expired":
            run.is_unanswered = True
        elif approval.decision == "refuse" and approval.by != "nobody":
            run.refused[ask.tool, ask.arguments_sha256] = approval
        elif approval.decision == "run":
            run.approved[ask.tool, ask.rule] = approval
        elif approval.decision == "session":
            self._sessions[ask.principal, ask.session, ask.tool, ask.rule] = approval
            if len(self._sessions) > _SESSIONS_KEPT:
                del self._sessions[next(iter(self._sessions))]
        for waiting in self._open.values():  # what is answered with it
            if (found := self._find_standing(waiting.ask)) is not None:
                waiting.offer(found)
            elif approval.decision == "always" and _is_same_call(ask, waiting.ask) and waiting.ask.takes(approval):
                waiting.offer(_remembered(approval))

    def _of_run(self, execution_id: str) -> "list[_Waiting]":
        return [waiting for waiting in self._open.values() if waiting.ask.execution_id == execution_id]

    async def _look_for_answers(self) -> None:
        """Poll for answers from other processes while asks wait."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            try:
                answers = await self._store.approvals.answers(list(self._open))
            except StoreError as error:
                for waiting in self._open.values():
                    waiting.fail(error)
                continue
            for ask_id, approval in answers.items():
                if ask_id in self._open:
                    self._open[ask_id].offer(approval)


class _Run(msgspec.Struct, eq=False):
    """The asks of one execution so far."""

    requests: int = 0
    is_unanswered: bool = False
    approved: dict[tuple[str, str], Approval] = {}
    refused: dict[tuple[str, str], Approval] = {}


class _Waiting:
    """One open ask."""

    def __init__(
        self,
        ask: ApprovalRequest,
        fallback: Approval | None,
        on_unattended: Callable[[ApprovalRequest, Unattended], None],
    ) -> None:
        """`fallback` is the answer when every channel has given up; None if others can answer without any."""
        self.ask = ask
        self._fallback = fallback
        self._on_unattended = on_unattended
        self._has_begun = False
        self._offered: asyncio.Future[Approval] = asyncio.get_running_loop().create_future()
        self._attempts: dict[AskChannel, asyncio.Task[None]] = {}

    def begin(self, channels: "list[AskChannel] | tuple[()]") -> None:
        """Show it to the open channels, and to those that open later."""
        self._has_begun = True
        for channel in channels:
            self.put_to(channel)
        self._despair()

    def put_to(self, channel: AskChannel) -> None:
        if self._has_begun:
            self._attempts[channel] = asyncio.create_task(self._try(channel))

    def take_from(self, channel: AskChannel) -> None:
        if (attempt := self._attempts.pop(channel, None)) is not None:
            attempt.cancel()
            self._count_out(Unattended(action="gone", seconds=0.0))
        self._despair()

    def _count_out(self, answer: Unattended) -> None:
        # Whatever `unanswerable` says: the client declared that it asks.
        if self._fallback is not None:
            self._fallback = _nobody("refuse", "unattended", answer.reason)

    def offer(self, approval: Approval) -> None:
        """Record an answer. The store decides which of several holds."""
        if not self._offered.done():
            self._offered.set_result(approval)

    def fail(self, error: Exception) -> None:
        if not self._offered.done():
            self._offered.set_exception(error)

    async def wait(self) -> Approval:
        """The first answer; a refusal when the ask expires."""
        try:
            async with asyncio.timeout(max(0.0, self.ask.expires_at - time.time())):
                return await self._offered
        except TimeoutError:
            seconds = self.ask.expires_at - self.ask.asked_at
            return _nobody("refuse", "expired", f"nobody answered within {seconds:g} s")

    def end(self) -> None:
        for attempt in self._attempts.values():
            attempt.cancel()
        self._offered.cancel()

    async def _try(self, channel: AskChannel) -> None:
        try:
            answer = await channel(self.ask)
        except Exception as error:  # noqa: BLE001 - a fault of a channel is raised where the call waits
            self.fail(error)
            return
        if isinstance(answer, Approval):
            self.offer(answer)
            return
        if answer is not None:
            self._on_unattended(self.ask, answer)
            self._count_out(answer)
        self._attempts.pop(channel, None)
        self._despair()

    def _despair(self) -> None:
        """Give up if no channel is still asking and no other process can answer."""
        if self._has_begun and not self._attempts and self._fallback is not None:
            self.offer(self._fallback)


def _tokens(arguments: Any) -> dict[str, str]:
    """The tokens in an ask's arguments by their spelling there, found as a call of the tool would find them."""
    found: dict[str, str] = {}
    for spelled, token in Vault.tokens_in(arguments):
        found[spelled] = token
        if len(found) == _REVEALED:
            break
    return found


def _is_same_call(one: ApprovalRequest, other: ApprovalRequest) -> bool:
    return (one.principal, one.tool, one.arguments_sha256) == (other.principal, other.tool, other.arguments_sha256)


def _offered(ask: ApprovalRequest, approval: Approval) -> Approval:
    """The answer, reduced to the offered ones: a client may send any, and another gateway may be older."""
    is_offered = approval.decision in ask.options
    return approval if is_offered else msgspec.structs.replace(approval, decision="once")


def _remembered(approval: Approval) -> Approval:
    return msgspec.structs.replace(approval, channel="remembered")


def _nobody(decision: ApprovalDecision, channel: str, reason: str) -> Approval:
    return Approval(decision=decision, by="nobody", channel=channel, reason=reason, answered_at=time.time())


def _fate(approval: Approval) -> str:
    if approval.by == "nobody":
        return approval.reason
    verb = "refused" if approval.decision == "refuse" else f"approved ({approval.decision})"
    return f"it was {verb} by {approval.by} ({approval.channel})"


def _entry(kind: str, ask: ApprovalRequest, body: dict[str, Any]) -> AuditEntry:
    return AuditEntry.of(ask, kind, {"id": ask.id, "number": ask.number, "tool": ask.tool, "rule": ask.rule} | body)
