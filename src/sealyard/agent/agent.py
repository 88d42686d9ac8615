"""An agent: a model that talks with a person and works through the surface of a yard.

`_Turn.run` is the whole loop. Each message is on disk before anything follows from it, so a conversation whose process
was killed goes on: calls without an answer are answered by saying so.
"""

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from sealyard.agent import history
from sealyard.agent.models import Model
from sealyard.agent.reveal import Revealing
from sealyard.broker import Approvals
from sealyard.config.settings import AgentConfig, SurfaceConfig
from sealyard.errors import InvalidConfig, InvalidRequest, ModelUnavailable, SealyardError
from sealyard.values.access import Approval, ApprovalChannel, ApprovalRequest
from sealyard.values.chat import (
    AnswerEvent,
    ApprovalEvent,
    CallEvent,
    Conversation,
    EndEvent,
    Event,
    Message,
    ModelMessage,
    ModelReply,
    ModelRequest,
    ModelUsage,
    OutputEvent,
    RetryEvent,
    TextEvent,
    ToolMessage,
    ToolOffer,
    ToolText,
    ToolUse,
    TurnEnd,
    UsageEvent,
    UserMessage,
)
from sealyard.values.runs import Answer
from sealyard.yard import Yard
from sealyard.yard.surface import instructions, surface_tools, system_prompt

_ATTEMPTS = 5  # at one reply: an overload lasts seconds to minutes, and these take a quarter of one
_FIRST_PAUSE_SECONDS = 1.0  # doubled before each further attempt
_LONGEST_PAUSE_SECONDS = 30.0  # that a person waits for without a word
_MESSAGE_CHARACTERS = 100_000  # of a person: a book's chapter. Files belong into the workspace.
_NOTHING = ModelUsage()
_FENCE = re.compile(r"^```(?:python|py)[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
_BLOCKS = """\
You cannot call these functions yourself. To run code, write one block that is fenced with ```python: it is run as
`execute_code` would run it, and the next message has its output. Write no block that is not to be run."""
_FENCED = "fenced"
"""The id of a call that a model wrote as a block of code."""
_REASONS: dict[str, str] = {
    "end": "",
    "length": "The reply is cut at agent.reply_tokens. Send a message to let it go on.",
    "refused": "The model or its provider declined to go on. Ask in another way.",
}
_RUNS = ("execute_code", "execute_python", "execute_analysis")
_UNKNOWN = (
    "It is unknown whether this call was made: the conversation was interrupted. Look before you make it again, unless "
    "it changes nothing."
)


class Agent:
    """Talks with the people of one yard. Make one with `open_agent`."""

    def __init__(self, yard: Yard, model: Model, settings: AgentConfig, surface: SurfaceConfig) -> None:
        mode = settings.mode or surface.mode
        if mode == "proxy":
            raise InvalidConfig("agent.mode is 'proxy', which has no surface for a model. Give code, hybrid or search.")
        self.yard = yard
        self.model = model
        self.settings = settings
        self.surface = yard.surface(surface, mode)
        self._mode = mode
        self._own = tuple(_offer(tool) for tool in surface_tools(mode))
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """Held while a conversation goes on: one turn follows the other."""
        self.asks: dict[str, asyncio.Future[Approval | None]] = {}
        """Those that wait, of every conversation. One that is answered elsewhere or expires is cancelled."""
        self.people: frozenset[ApprovalChannel] = frozenset(("client",))
        """The roles of the person who talks here. `sealyard chat` adds `operator`."""

    async def chat(
        self,
        message: str,
        *,
        context: Mapping[str, Any] | None = None,
        conversation: str | None = None,
        principal: str = "local",
    ) -> EndEvent:
        """The end of the turn that `stream` tells piece by piece."""
        async with contextlib.aclosing(
            self.stream(message, context=context, conversation=conversation, principal=principal)
        ) as events:
            async for event in events:
                if isinstance(event, EndEvent):
                    return event
        raise AssertionError("A turn ends with its end, or raises.")

    async def stream(
        self,
        message: str,
        *,
        context: Mapping[str, Any] | None = None,
        conversation: str | None = None,
        principal: str = "local",
    ) -> AsyncGenerator[Event]:
        """Send a message and yield what follows; the last event is the end of the turn. Closing it cancels the turn.

        Args:
            message: The person's words.
            context: Facts for the code and not for the model, such as the user's id: each run has them as variables.
            conversation: The name of a conversation that goes on, or of a new one; without it, a new one.
            principal: Whose rights, sessions and budgets count.

        Raises:
            InvalidRequest: The message or the name is wrong, or the conversation goes on elsewhere.
            ModelError: The model gave no reply. What came before is stored: send a message to go on.
            StoreError: The conversation cannot be stored.
        """
        name = conversation or secrets.token_hex(6)
        self.yard.runner.session_of(principal, name)  # raises for a name that cannot be one
        if not message.strip():
            raise InvalidRequest("The message is empty. Write what you want to know or have done.")
        if len(message) > _MESSAGE_CHARACTERS:
            raise InvalidRequest(
                f"The message has {len(message):,} characters. Use at most {_MESSAGE_CHARACTERS:,}, and put more into "
                "a file."
            )
        message = message.encode(errors="replace").decode()  # half a character cannot be sent
        lock = self._turns.setdefault((principal, name), asyncio.Lock())
        async with lock:
            turn = _Turn(self, principal, name, dict(context or {}))
            events: asyncio.Queue[Event | None] = asyncio.Queue()
            turn.emit = events.put_nowait
            task = asyncio.create_task(turn.run(message))
            task.add_done_callback(lambda _: events.put_nowait(None))
            try:
                while (event := await events.get()) is not None:
                    yield event
                await task
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def system(self, principal: str) -> str:
        """The system prompt: the same in every request, as long as the principal sees the same servers."""
        await self.yard.snapshot(principal)  # before a server has listed its tools, nobody knows whether all are hidden
        tools = self.yard.tools
        servers = tools.views.servers(tools.upstreams, tools.catalog.snapshot, principal)
        work = instructions(self._mode) if self._mode == "search" else system_prompt(servers)
        return "\n\n".join(filter(None, (work, "" if self.model.can_call else _BLOCKS, self.settings.instructions)))

    async def offers(self, principal: str) -> tuple[ToolOffer, ...]:
        """The tools that the model sees: always the same and in the same order, as long as the direct ones are."""
        direct = await self.surface.direct(principal)
        return self._own + tuple(
            ToolOffer(name=spec.full_name, description=spec.description, schema=spec.input_schema) for spec in direct
        )

    def answer(self, ask_id: str, approval: Approval | None) -> bool:
        """Answer an ask that an `ApprovalEvent` showed; False if it does not wait any more.

        None: no person is here. Others may still answer; if there are none, `policy.unanswerable` decides.
        """
        waiting = self.asks.get(ask_id)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(approval)
        return True


class _Turn:
    """One message of the person, and everything until the agent has replied to it."""

    def __init__(self, agent: Agent, principal: str, name: str, context: dict[str, Any]) -> None:
        self.emit: Callable[[Event], None]
        self._agent = agent
        self._settings = agent.settings
        self._principal = principal
        self._name = name
        self._context = context
        self._started = time.monotonic()
        self._conversation: Conversation
        self._messages: list[Message]
        self._usage = ModelUsage()
        self._runs = 0
        self._revealing = Revealing(agent.yard, principal=principal, session=name, is_on=agent.settings.reveal)

    async def run(self, message: str) -> None:
        """The whole turn."""
        yard = self._agent.yard
        guard = await yard.guards.of(yard.runner.session_of(self._principal, self._name))
        await self._open()
        # As an answer of a tool enters: what the person names has the token that the same value of a tool has.
        entered = await guard.door.admit_text(message)
        await self._keep(UserMessage(await guard.door.conceal(entered)))
        offers = await self._agent.offers(self._principal)
        ended: TurnEnd = "steps"
        reason = f"The agent has taken {self._settings.steps} steps. Send a message to let it go on."
        text = ""
        for _ in range(self._settings.steps):
            if spent := await self._spent():
                ended, reason = "budget", spent
                break
            reply = await self._reply(offers)
            text = reply.message.text
            self._usage += reply.usage
            await self._keep(reply.message, usage=reply.usage)
            self.emit(UsageEvent(usage=reply.usage))
            uses = reply.message.uses or self._fenced(text)
            if not uses:
                ended, reason = reply.stop, _REASONS[reply.stop]
                break
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._use(use)) for use in uses]
            answers = [task.result() for task in tasks]
            await self._keep(
                _answer_message(reply.message, answers), runs=sum(bool(each.execution_id) for each in answers)
            )
        seconds = time.monotonic() - self._started
        await self._keep(seconds=seconds)
        end = EndEvent(
            text=await self._revealing.whole(text),
            ended=ended,
            reason=reason,
            conversation=self._name,
            usage=self._usage,
            runs=self._runs,
            seconds=seconds,
        )
        self.emit(end)

    # The model

    async def _reply(self, offers: Sequence[ToolOffer]) -> ModelReply:
        """A reply of the model, after further attempts if its provider is busy."""
        agent = self._agent
        request = ModelRequest(
            system=await agent.system(self._principal),
            tools=tuple(offers) if agent.model.can_call else (),
            messages=(),
        )
        # A window of tokens takes a tenth of a second to count.
        self._conversation = await asyncio.to_thread(
            history.fitted, self._conversation, self._messages, beside=request, window=self._settings.window_tokens
        )
        request = msgspec.structs.replace(request, messages=history.shown(self._conversation, self._messages))
        pause = _FIRST_PAUSE_SECONDS
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async for piece in agent.model.reply(request):
                    if isinstance(piece, ModelReply):
                        if rest := await self._revealing.rest():
                            self.emit(TextEvent(text=rest))
                        return piece
                    if shown := await self._revealing.piece(piece):
                        self.emit(TextEvent(text=shown))
                raise ModelUnavailable(f"{agent.model.name} ended without a reply. Try again.")
            except ModelUnavailable as error:
                await self._revealing.rest()
                wait = max(pause, error.retry_seconds or 0.0)
                if attempt == _ATTEMPTS or wait > _LONGEST_PAUSE_SECONDS:
                    raise
                self.emit(RetryEvent(reason=str(error), seconds=wait))
                await asyncio.sleep(wait)
                pause *= 2
        raise AssertionError("The last attempt returns or raises.")

    def _fenced(self, text: str) -> tuple[ToolUse, ...]:
        """The code that a model without calls wrote in blocks, as one call."""
        if self._agent.model.can_call:
            return ()
        code = "\n".join(_FENCE.findall(text))
        return (ToolUse(id=_FENCED, name="execute_code", arguments={"code": code}),) if code.strip() else ()

    # Calls

    async def _use(self, use: ToolUse) -> ToolText:
        """Make one call of the model. What is wrong with it is its answer."""
        self.emit(CallEvent(id=use.id, name=use.name, arguments=use.arguments))
        if use.unreadable:
            answer = ToolText(id=use.id, name=use.name, text=use.unreadable, is_error=True)
        else:
            given = await self._made(use)
            facts = given.facts or {}
            answer = ToolText(
                id=use.id,
                name=use.name,
                text=given.text,
                is_error=given.is_error,
                execution_id=facts.get("execution_id", ""),
                file=facts.get("file", ""),
            )
        if answer.execution_id:
            self._runs += 1
        self.emit(AnswerEvent(answer=answer))
        return answer

    async def _made(self, use: ToolUse) -> Answer:
        surface, arguments = self._agent.surface, self._completed(use)
        caller = _Caller(self, use.id, principal=self._principal, approvals=self._agent.yard.approvals)
        if not surface.owns(use.name) and await surface.find_direct(use.name, self._principal) is None:
            return Answer(text=f"Unknown tool {use.name!r}. {surface.known}", is_error=True)
        try:
            asked = surface.prepare(use.name, arguments, caller, session=self._name)
            with asked.channel:
                return asked.write(await asked.work)
        except SealyardError as error:
            return await surface.failed(error, use.name, use.arguments, self._principal)

    def _completed(self, use: ToolUse) -> dict[str, Any]:
        """The arguments with the person's facts, which the model neither sees nor changes, and in this workspace."""
        if use.name not in _RUNS:
            return use.arguments
        given = use.arguments | {"session": self._name}
        if use.name != "execute_analysis" and self._context:
            written = use.arguments.get("context")
            given["context"] = (written if isinstance(written, dict) else {}) | self._context
        return given

    async def ask(
        self, call_id: str, ask: ApprovalRequest, asks: dict[str, asyncio.Future[Approval | None]]
    ) -> Approval | None:
        """Ask the person of this conversation, and wait for the answer; None for an ask that is not for this person."""
        if not self._agent.people & {*ask.channels}:
            return None
        waiting: asyncio.Future[Approval | None] = asyncio.get_running_loop().create_future()
        asks[ask.id] = self._agent.asks[ask.id] = waiting
        self.emit(ApprovalEvent(id=call_id, ask=ask))
        try:
            return await waiting
        finally:
            del self._agent.asks[ask.id], asks[ask.id]

    # What is kept

    async def _spent(self) -> str:
        """The budget that is used up, and what to do; empty if there is still something of each."""
        settings, now = self._settings, self._conversation
        if time.monotonic() - self._started > settings.turn_seconds:
            return f"The turn has taken {settings.turn_seconds:g} s. Send a message to let it go on."
        today = await self._agent.yard.store.chats.spent(self._principal, time.time())
        for whose, name, has in (("conversation", "conversation", now), ("principal", "daily", today)):
            for what, used in (
                ("tokens", has.input_tokens + has.output_tokens),
                ("usd", has.usd or 0.0),
                ("runs", has.runs),
            ):
                most = getattr(settings, f"{name}_{what}")
                if most is not None and used >= most:
                    advice = "Begin a new one" if name == "conversation" else "Wait until tomorrow"
                    return (
                        f"The budget of this {whose} is used up: {used:g} of {most:g} {what}. {advice}, or raise "
                        f"agent.{name}_{what}."
                    )
        return ""

    async def _open(self) -> None:
        """Read the conversation, and answer calls that were under way when its process ended."""
        store, now = self._agent.yard.store, time.time()
        found, self._messages = await store.chats.read(self._principal, self._name)
        self._conversation = found or Conversation(
            principal=self._principal, name=self._name, started_at=now, changed_at=now, model=self._agent.model.name
        )
        last = self._messages[-1] if self._messages else None
        if isinstance(last, ModelMessage) and last.uses:
            answers = [ToolText(id=use.id, name=use.name, text=_UNKNOWN, is_error=True) for use in last.uses]
            await self._keep(ToolMessage(tuple(answers)))

    async def _keep(
        self, *messages: Message, usage: ModelUsage = _NOTHING, runs: int = 0, seconds: float = 0.0
    ) -> None:
        """Add to the conversation, on disk before this returns."""
        before = self._conversation
        total = usage + ModelUsage(
            input_tokens=before.input_tokens,
            cached_tokens=before.cached_tokens,
            output_tokens=before.output_tokens,
            usd=before.usd,
        )
        changed = msgspec.structs.replace(
            before,
            changed_at=time.time(),
            model=self._agent.model.name,
            messages=before.messages + len(messages),
            input_tokens=total.input_tokens,
            cached_tokens=total.cached_tokens,
            output_tokens=total.output_tokens,
            usd=total.usd,
            runs=before.runs + runs,
            seconds=before.seconds + seconds,
        )
        await self._agent.yard.store.chats.write(changed, messages)
        self._conversation = changed
        self._messages += messages


def _offer(tool: Mapping[str, Any]) -> ToolOffer:
    return ToolOffer(name=tool["name"], description=tool["description"], schema=tool["inputSchema"])


def _answer_message(asked: ModelMessage, answers: Sequence[ToolText]) -> Message:
    """The answers as the next message; those to code in a block are words, since the model made no call."""
    if asked.uses:
        return ToolMessage(tuple(answers))
    return UserMessage("\n".join(f"[The code of your message was run]\n{each.text}" for each in answers))


class _Caller:
    """A call of the model, as the surface sees it."""

    def __init__(self, turn: _Turn, call_id: str, *, principal: str, approvals: Approvals) -> None:
        self.principal = principal
        self.asks: dict[str, asyncio.Future[Approval | None]] = {}
        self._turn = turn
        self._id = call_id
        self._approvals = approvals

    def channel(self, execution_id: str) -> AbstractContextManager[None]:
        """See `Caller`."""
        return self._approvals.channel(execution_id, self._ask)

    def on_output(self, text: str) -> None:
        """See `Caller`."""
        self._turn.emit(OutputEvent(id=self._id, text=text))

    def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """See `Caller`."""
        share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        self.on_output(f"[{share}{' ' + message if message else ''}]\n")

    async def _ask(self, ask: ApprovalRequest) -> Approval | None:
        """The answer of the conversation's person; None for an ask of another principal."""
        if ask.principal != self.principal:
            return None
        return await self._turn.ask(self._id, ask, self.asks)
