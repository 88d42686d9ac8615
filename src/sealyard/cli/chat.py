"""`sealyard chat`: talk with an agent that works through the gateway.

The model, tools and code write most of what is shown. Each of their lines begins with a margin that no line of ours
has, so none of them passes for a question of ours. With standard output in a pipe, it gets the model's words alone.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import select
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from rich.cells import cell_len, set_cell_size

from sealyard.agent import Agent, open_agent
from sealyard.agent.scripted import PLAYED, QUESTIONS, Scripted
from sealyard.broker.policy import PolicySettings, Rule
from sealyard.cli.approvals import ask_here, has_person, read_line
from sealyard.cli.command import CONFIG, KEPT, LOCAL, option, read_config, read_object, read_text, wants_json
from sealyard.cli.loop import run_to_end
from sealyard.cli.skills.shelf import show_saved
from sealyard.cli.terminal import (
    Margin,
    count,
    dollars,
    end_line,
    errors,
    in_margin,
    minute,
    remark,
    say,
    say_unwrapped,
    seconds,
    show_table,
    visible,
    warn,
    write,
    write_json,
)
from sealyard.cli.tools import show_hits, show_tools
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, SandboxConfig, StoreConfig
from sealyard.errors import InvalidRequest, SealyardError
from sealyard.examples import MAIL_RULE, demo_upstreams
from sealyard.values.access import ApprovalRequest
from sealyard.values.chat import (
    AnswerEvent,
    ApprovalEvent,
    CallEvent,
    EndEvent,
    Event,
    ModelMessage,
    ModelUsage,
    OutputEvent,
    RetryEvent,
    TextEvent,
    ToolMessage,
    ToolText,
    UsageEvent,
)
from sealyard.values.skills import SaveSkill

_T = TypeVar("_T")
_Tell = Callable[[str, str], None]
"""Prints lines in a style."""

_MARGIN = "| "
_INNER = "  | "
"""The margin of what stands beside the model's own words."""
_OUTPUT_LINES = 12
"""Of the output of one call: half a terminal."""
_ERROR_LINES = 8  # of a failed call: its message, the line of the code, and the hint
_CUT_CHARACTERS = 4_096  # looked at for one line: any terminal is narrower
_LONGEST_LINE = 4_095  # bytes that a terminal keeps of a line that is typed; it drops what comes after
_LISTED = 20  # conversations: a terminal's height
_RUNS = ("execute_code", "execute_python")
_SCRIPTED = "The model is a script with ready words. Servers, sandbox, calls and results are the real ones."


@click.command()
@click.argument("message", required=False)
@click.option("--conversation", metavar="NAME", help="Go on with the conversation of this name, or begin it.")
@click.option("--model", metavar="PROVIDER:NAME", help="In place of `agent.model`.")
@click.option("--context", metavar="JSON", help="An object of variables for the code. The model does not see them.")
@click.option("--demo", is_flag=True, help="Talk with a script over example servers. It needs no key and no config.")
@CONFIG
@click.option("--json", is_flag=True, help="Print one JSON event on each line, and nothing else.", **KEPT)
def chat(*, message: str | None, conversation: str | None, model: str | None, context: str | None, demo: bool) -> int:
    """Talk with an agent that works through the gateway.

    With MESSAGE, or - for standard input, it is one turn; without, a conversation at the terminal. Ctrl-C cancels a
    turn and keeps the conversation. Calls that wait for approval are asked about here.

    Exit code 0: the agent was done; 1: the turn ended before that; 2: there was no reply.
    """
    if demo and (model or option("config")):
        raise InvalidRequest("--demo has a model and servers of its own. Leave --model and --config out.")
    given = None if context is None else read_object(context, "--context")
    if message == "-":
        message = read_text("-", "Give the message as an argument.")
    plays = demo and message is None and not has_person()
    if message is None and (wants_json() or not (plays or has_person())):
        raise InvalidRequest(
            "A conversation needs a person at a terminal. Give a MESSAGE, or - to read it from standard input."
        )
    config = None if demo else read_config()
    if config is not None and model is None and config.agent.model is None:
        raise InvalidRequest(
            "No model is configured. Set agent.model, such as 'anthropic:claude-haiku-4-5', or give --model; "
            "`sealyard chat --demo` needs neither."
        )
    for warning in () if config is None else config.warnings:
        warn(warning)

    async def run() -> int:
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # otherwise closing the window would leave files behind
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, signal.raise_signal, signal.SIGTERM)
        logging.getLogger().addHandler(_Log())
        with errors.status("Starting") as status:
            async with _open_demo() if config is None else open_agent(config, model=model) as agent:
                status.stop()
                if wants_json():
                    return await _print_events(agent, message or "", conversation, given)
                if plays:
                    return await _play(agent)
                talk = _Talk(agent, conversation, given, questions=QUESTIONS if demo else ())
                if demo:
                    remark(_SCRIPTED, "bold")
                return await (talk.converse() if message is None else talk.one(message))

    return run_to_end(run())


@contextlib.asynccontextmanager
async def _open_demo() -> AsyncIterator[Agent]:
    """An agent whose model is a script, over the example servers."""
    with tempfile.TemporaryDirectory(prefix="sealyard-demo-") as folder:
        booking = Rule(decision="ask", tools=("mcp__trips__book_campsite",), reason="Bookings cost money.")
        config = Config(
            store=StoreConfig(path=Path(folder, "sealyard.db")),
            sandbox=SandboxConfig(allow_weaker=True),
            upstreams=demo_upstreams(Path(folder, "files")),
            privacy=PrivacyConfig(rules=(MAIL_RULE,)),
            policy=PolicySettings(rules=(booking,)),
        )
        async with open_agent(config, model=Scripted()) as agent:
            yield agent


async def show_demo() -> int:
    """Play a conversation that needs no person. Exit code 0 if each question was answered."""
    async with _open_demo() as agent:
        return await _play(agent)


async def _play(agent: Agent) -> int:
    """Ask all questions that need no person, with everything on standard output."""
    say(_SCRIPTED, "bold")
    talk, codes = _Talk(agent, tell=say_unwrapped), []
    for question in PLAYED:
        say(f"\nyou> {question}", "bold")
        codes.append(await talk.one(question))
    return max(codes)


async def _print_events(agent: Agent, message: str, conversation: str | None, context: dict[str, Any] | None) -> int:
    """Print each event of one turn for a program. Who else may answer an ask does so elsewhere."""
    ended = "end"
    async with contextlib.aclosing(agent.stream(message, context=context, conversation=conversation)) as events:
        async for event in events:
            write_json(event)
            if isinstance(event, ApprovalEvent):
                agent.answer(event.ask.id, None)
            elif isinstance(event, EndEvent):
                ended = event.ended
    return 0 if ended == "end" else 1


class _Talk:
    """A conversation with the person at this terminal."""

    def __init__(
        self,
        agent: Agent,
        conversation: str | None = None,
        context: dict[str, Any] | None = None,
        *,
        questions: Sequence[str] = (),
        tell: _Tell = remark,
    ) -> None:
        """`questions` can be asked by their numbers. `tell` prints what stands beside the model's words."""
        agent.people |= {"operator"}  # whoever starts a command here is one
        self._agent = agent
        self._name = conversation or secrets.token_hex(6)
        self._context = context
        self._questions = questions
        self._tell = tell
        self._has_margin = tell is not remark or (sys.stdout is not None and sys.stdout.isatty())
        self._words = Margin(_MARGIN)
        self._outputs: dict[str, _Output] = {}
        self._usage = ModelUsage()
        """Of the last turn."""
        self._typed = ""
        """Lines that were typed at once, after the first."""
        self._work: asyncio.Task[Any] | None = None
        """It ends with Ctrl-C."""
        self._is_interrupted = False
        self._is_over = False
        self._commands: dict[str, tuple[Callable[[str], Awaitable[None]], str]] = {
            "/help": (self._help, "list the commands"),
            "/cost": (self._cost, "tokens and money of the last turn, of this conversation, and of today"),
            "/tools": (self._tools, "[QUERY] find tools, or list all"),
            "/code": (self._code, "the last code, whole"),
            "/save-skill": (self._save_skill, "NAME [DESCRIPTION] keep the code of the last run that succeeded"),
            "/conversations": (self._conversations, "the last conversations"),
            "/new": (self._new, "[NAME] begin another conversation"),
            "/quit": (self._quit, "end, as Ctrl-D does"),
        }

    async def one(self, message: str) -> int:
        """One turn."""
        try:
            ended = await self._turn(message)
        except SealyardError as error:
            _show_error(error, self._tell)
            return 2
        return 0 if ended.ended == "end" else 1

    async def converse(self) -> int:
        """Talk until the person has enough."""
        loop, interrupts = asyncio.get_running_loop(), 0
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        before = await self._length()
        so_far = f", {count(before, 'message')} so far" if before else ""
        remark(f"{self._agent.model.name}{so_far}. /help lists commands, Ctrl-D ends.", "dim")
        for number, question in enumerate(self._questions, 1):
            remark(f"  {number}  {question}")
        while True:
            line = await self._until_interrupted(self._read())
            if line is None:
                interrupts += 1
                if interrupts > 1:
                    remark("")
                    return await self._leave(130)
                remark("\nCtrl-C again ends, and so does Ctrl-D.", "dim")
                continue
            interrupts = 0
            if line:
                await self._obey(line.strip("\n"))
            if not line or self._is_over:
                return await self._leave(0)

    async def _leave(self, code: int) -> int:
        """Say how to go on, unless the conversation goes with the demo's store."""
        if not self._questions and await self._length():
            remark(f"\nTo go on: sealyard chat --conversation {self._name}", "dim")
        return code

    async def _length(self) -> int:
        found, _ = await self._agent.yard.store.chats.read(LOCAL, self._name)
        return 0 if found is None else found.messages

    async def _obey(self, line: str) -> None:
        """Do what one line of the person says."""
        if line.strip().isdecimal() and 0 < int(line) <= len(self._questions):
            line = self._questions[int(line) - 1]
            remark(line, "bold")
        word, _, rest = line.partition(" ")
        work: Coroutine[Any, Any, object]
        if not line.strip():
            return
        if not word.startswith("/"):
            work = self._turn(line)
        elif word in self._commands:
            work = _done(self._commands[word][0](rest.strip()))
        else:
            names = ", ".join(self._commands)
            remark(f"There is no {word}. There are {names}; a space before it sends it to the model.", "yellow")
            return
        try:
            if await self._until_interrupted(work) is None and not word.startswith("/"):
                remark("cancelled; the conversation is kept", "yellow")
        except SealyardError as error:
            _show_error(error, self._tell)

    async def _until_interrupted(self, work: Coroutine[Any, Any, _T]) -> _T | None:
        """Its value, or None if Ctrl-C ended it."""
        self._work = task = asyncio.create_task(work)
        self._is_interrupted = False
        try:
            return await task
        except asyncio.CancelledError:
            if not self._is_interrupted:
                raise
            return None
        finally:
            self._work = None

    def _interrupt(self) -> None:
        if self._work is not None and not self._is_interrupted:  # a second one must not disturb the end of the work
            self._is_interrupted = True
            self._work.cancel()

    async def _read(self) -> str:
        """The next message or command, empty at the end. Lines that come at once are one message: they were pasted."""
        if not self._typed:
            errors.print(visible("you> "), style="bold", end="")
            self._typed = await _read_lines()
        if not self._typed.startswith("/"):
            text, self._typed = self._typed, ""
            return text
        line, _, self._typed = self._typed.partition("\n")
        return f"{line}\n"

    # A turn

    async def _turn(self, message: str) -> EndEvent:
        """One turn, shown as it goes on. Raises as `Agent.stream`."""
        self._usage = ModelUsage()
        stream = self._agent.stream(message, context=self._context, conversation=self._name)
        try:
            async with contextlib.aclosing(stream) as events:
                async for event in events:
                    await self._show(event)
                    if isinstance(event, EndEvent):
                        return event
        finally:
            self._end_words()
            self._outputs.clear()
        raise AssertionError("A turn ends with its end, or raises.")

    async def _show(self, event: Event) -> None:
        match event:
            case TextEvent():
                write(self._words.take(event.text) if self._has_margin else event.text)
                return
            case UsageEvent():
                self._usage += event.usage
                return
        self._end_words()
        match event:
            case RetryEvent():
                _show_others(event.reason, "yellow", self._tell)
                self._tell(f"  asked again in {event.seconds:g} s; the words above do not count", "yellow")
            case CallEvent():
                self._show_call(event)
            case OutputEvent():
                self._outputs.setdefault(event.id, _Output(self._tell)).take(event.text)
            case ApprovalEvent():
                await self._ask(event.ask)
            case AnswerEvent():
                if (output := self._outputs.pop(event.answer.id, None)) is not None:
                    output.end()
                _show_answer(event.answer, self._tell)
            case EndEvent():
                if event.reason:
                    self._tell(event.reason, "yellow")
                read, wrote = event.usage.input_tokens, event.usage.output_tokens
                cost = "" if event.usage.usd is None else f", {dollars(event.usage.usd)}"
                self._tell(
                    f"{seconds(event.seconds)}, {count(event.runs, 'run')}, {read + wrote:,} tokens{cost}", "dim"
                )

    def _end_words(self) -> None:
        write(self._words.end())
        end_line()

    def _show_call(self, event: CallEvent) -> None:
        code = event.arguments.get("code")
        if isinstance(code, str):
            lines = [line for line in code.splitlines() if line.strip()]
            more = f" ({count(len(code.splitlines()), 'line')})" if len(lines) > 1 else ""
            _show_line("code", lines[0] if lines else "", more, "cyan", self._tell)
        else:
            _show_line("call", f"{event.name} {msgspec.json.encode(event.arguments).decode()}", "", "cyan", self._tell)

    async def _ask(self, ask: ApprovalRequest) -> None:
        """Ask here, as long as nobody has answered elsewhere."""
        waiting = self._agent.asks.get(ask.id)
        if waiting is None or waiting.done():
            return
        asking = asyncio.create_task(ask_here(ask))
        waiting.add_done_callback(lambda _: asking.cancel())
        try:
            await asyncio.wait({asking})
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        if not asking.cancelled():
            self._agent.answer(ask.id, asking.result())

    # Commands

    async def _help(self, _: str) -> None:
        for word, (_work, meaning) in self._commands.items():
            say(f"  {word:<15} {meaning}")
        say("A line that begins with a space goes to the model, whatever it is.", "dim")

    async def _cost(self, _: str) -> None:
        chats = self._agent.yard.store.chats
        now, _messages = await chats.read(LOCAL, self._name)
        day = await chats.spent(LOCAL, time.time())
        rows: list[tuple[str, int, int, str]] = [
            ("this turn", self._usage.input_tokens, self._usage.output_tokens, _money(self._usage.usd))
        ]
        if now is not None:
            rows.append(("this conversation", now.input_tokens, now.output_tokens, _money(now.usd)))
        rows.append(("today", day.input_tokens, day.output_tokens, _money(day.usd or None)))
        show_table("", "tokens read", "written", "price", rows=rows)

    async def _tools(self, query: str) -> None:
        yard = self._agent.yard
        if query:
            show_hits(await yard.search(query, principal=LOCAL))
        else:
            specs = (await yard.snapshot(LOCAL)).tools.values()
            show_tools(sorted(specs, key=lambda spec: (spec.upstream, spec.function)))

    async def _code(self, _: str) -> None:
        runs = await self._codes()
        if not runs:
            say("This conversation has no code yet.")
            return
        say(in_margin(runs[-1][0].rstrip(), _INNER), "cyan")

    async def _save_skill(self, rest: str) -> None:
        name, _, description = rest.partition(" ")
        codes = [code for code, is_ok in await self._codes() if is_ok]
        if not name:
            raise InvalidRequest("The skill needs a name. Write /save-skill NAME DESCRIPTION.")
        if not codes:
            raise InvalidRequest("No run of this conversation has succeeded. Ask for something that needs code first.")
        inputs = dict.fromkeys(self._context, "any") if self._context else None
        request = SaveSkill(name=name, code=codes[-1], description=description.strip(), inputs=inputs)
        show_saved(await self._agent.yard.skills.save(request, principal=LOCAL))

    async def _codes(self) -> list[tuple[str, bool]]:
        """The code of each run of the conversation, and whether it succeeded."""
        _, messages = await self._agent.yard.store.chats.read(LOCAL, self._name)
        codes: dict[tuple[int, str], tuple[str, bool]] = {}
        for number, message in enumerate(messages):
            if isinstance(message, ModelMessage):
                for use in message.uses:
                    if use.name in _RUNS and isinstance(code := use.arguments.get("code"), str):
                        codes[number, use.id] = code, False
            elif isinstance(message, ToolMessage):
                for answer in message.answers:
                    if (number - 1, answer.id) in codes and answer.execution_id and not answer.is_error:
                        codes[number - 1, answer.id] = codes[number - 1, answer.id][0], True
        return list(codes.values())

    async def _conversations(self, _: str) -> None:
        found = await self._agent.yard.store.chats.list(LOCAL, _LISTED)
        show_table(
            *("name", "last", "messages", "runs", "tokens", "price", "model"),
            rows=(
                (
                    f"{each.name} (this one)" if each.name == self._name else each.name,
                    minute(each.changed_at),
                    each.messages,
                    each.runs,
                    each.input_tokens + each.output_tokens,
                    _money(each.usd),
                    each.model,
                )
                for each in found
            ),
        )
        if not found:
            say("There is no conversation yet.")

    async def _new(self, name: str) -> None:
        self._agent.yard.runner.session_of(LOCAL, name or self._name)  # raises for a name that cannot be one
        self._name, self._usage = name or secrets.token_hex(6), ModelUsage()
        say(f"A new conversation: {self._name}")

    async def _quit(self, _: str) -> None:
        self._is_over = True


async def _done(work: Awaitable[None]) -> bool:
    await work
    return True


async def _read_lines() -> str:
    """What was typed, up to the end of the last line that is there."""
    typed = ""
    try:
        while not typed or select.select([sys.stdin.fileno()], [], [], 0)[0]:
            line = await read_line(sys.stdin.fileno())
            if len(os.fsencode(line)) >= _LONGEST_LINE:
                remark("The terminal has cut a line. Send long texts with `sealyard chat -`.", "yellow")
                return "\n"
            typed += line
            if not line:
                break
    except OSError:  # the terminal is gone
        return ""
    return typed


# Lines of others


class _Output:
    """The output of one call: its first lines as they come, then the number of the others."""

    def __init__(self, tell: _Tell) -> None:
        self._tell = tell
        self._lines = 0
        self._line = ""

    def take(self, text: str) -> None:
        """The next piece."""
        *whole, rest = text.split("\n")
        for line in whole:
            self._show(self._line + line)
            self._line = ""
        self._line = (self._line + rest)[:_CUT_CHARACTERS]

    def end(self) -> None:
        """There is no more."""
        if self._line:
            self._show(self._line)
        if self._lines > _OUTPUT_LINES:
            self._tell(f"  {count(self._lines - _OUTPUT_LINES, 'more line')} of output", "dim")

    def _show(self, line: str) -> None:
        self._lines += 1
        if self._lines <= _OUTPUT_LINES:
            self._tell(_INNER + _cut(line.rstrip(), errors.width - len(_INNER) - 1), "dim")


class _Log(logging.Handler):
    """Shows warnings of the gateway, which may quote others, in the margin."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Show one."""
        _show_others(record.getMessage(), "yellow", remark)


def _show_answer(answer: ToolText, tell: _Tell) -> None:
    if answer.is_error:
        _show_line("error", f"of {answer.name}:", "", "red", tell)
        lines = answer.text.strip().splitlines()
        for line in lines[:_ERROR_LINES]:
            tell(_INNER + _cut(line, errors.width - len(_INNER) - 1), "red")
        return
    shown = answer.text
    if answer.execution_id and shown.startswith("output:\n"):  # it was shown as it came
        shown = shown.rpartition("\nresult:\n")[2] if "\nresult:\n" in shown else "none"
    where = f", whole in {answer.file}" if answer.file else ""
    _show_line("result", shown, f" ({count(len(answer.text), 'character')}{where})", "green", tell)


def _show_error(error: SealyardError, tell: _Tell) -> None:
    tell("error:", "bold red")
    _show_others(str(error), "red", tell)


def _show_others(text: str, style: str, tell: _Tell) -> None:
    """The whole of a text that others may have written."""
    tell(in_margin(text, _INNER), style)


def _show_line(label: str, text: str, end: str, style: str, tell: _Tell) -> None:
    """One line of ours with the beginning of a text of others in it."""
    start = f"  {label} "
    tell(start + _cut(text, errors.width - len(start) - len(end) - 1) + end, style)


def _cut(text: str, cells: int) -> str:
    """The beginning of a text on one line of the terminal, with `…` where it is cut."""
    cells = max(cells, 2)
    line = visible(" ".join(text[:_CUT_CHARACTERS].splitlines()).expandtabs(4))
    return line if cell_len(line) <= cells else f"{set_cell_size(line, cells - 1).rstrip()}…"


def _money(usd: float | None) -> str:
    return "-" if usd is None else dollars(usd)
