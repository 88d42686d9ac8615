"""`sealyard approvals`: list and answer the calls that wait for a person."""

import asyncio
import os
import pwd
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click
import msgspec

from sealyard.broker import Approvals
from sealyard.cli.command import CONFIG, JSON, KEPT, LOCAL, answer, load, option, with_store
from sealyard.cli.keys import open_vault
from sealyard.cli.terminal import say, write
from sealyard.errors import UnknownApproval
from sealyard.store import Store
from sealyard.values.access import Approval, ApprovalDecision, ApprovalRequest, AuditEntry, Remembered

_WATCH_SECONDS = 0.5
"""A person does not notice a shorter wait, and the store is read twice a second only."""
_T = TypeVar("_T")

_Values = dict[str, dict[str, str | int | float]]
"""By the ask's id, the values of tokens in its arguments."""

_reveal = click.option(
    "--reveal", is_flag=True, help="Show private values of arguments too, after an entry in the audit log.", **KEPT
)
_reason = click.option("--reason", default="", help="Shown to the agent, and kept in the audit log.")


@click.group(invoke_without_command=True)
@_reveal
@CONFIG
@JSON
@click.pass_context
def approvals(ctx: click.Context) -> None:
    """List and answer the calls that wait for approval."""
    if ctx.invoked_subcommand is not None:
        return

    async def read(store: Store, queue: Approvals) -> tuple[list[ApprovalRequest], list[Remembered], _Values]:
        waiting = await queue.waiting()
        return waiting, await store.approvals.remembered(), {ask.id: await _values(queue, ask) for ask in waiting}

    waiting, remembered, values = _with_store(read)
    always = [{"ask": each.ask, "approval": each.approval} for each in remembered]
    found = {"waiting": waiting, "always": always} | ({"values": values} if option("reveal") else {})
    answer(found, lambda: _show_all(waiting, remembered, values))


@approvals.command()
@click.argument("ask_id", metavar="ID")
@_reveal
@CONFIG
@JSON
def show(*, ask_id: str) -> None:
    """Print all arguments of the call under ID, whole: of one that waits, or that is approved always."""

    async def read(store: Store, queue: Approvals) -> tuple[ApprovalRequest, dict[str, str | int | float]]:
        known = [*await queue.waiting(), *(each.ask for each in await store.approvals.remembered())]
        matching = _matching(known, ask_id)
        ask = await queue.get(matching[0].id if matching else ask_id)
        return ask, await _values(queue, ask)

    ask, values = _with_store(read)
    found = msgspec.structs.asdict(ask) | ({"values": values} if option("reveal") else {})
    answer(found, lambda: write("\n".join([ask.tool, *ask.whole_lines(values)]) + "\n"))


@approvals.command()
@_reveal
@CONFIG
def watch() -> int:
    """Show each call that waits for approval as it comes, until Ctrl-C."""

    async def follow(store: Store, queue: Approvals) -> int:
        shown: set[str] = set()
        while True:
            waiting = await queue.waiting()
            for ask in waiting:
                if ask.id not in shown:
                    _show(ask, await _values(queue, ask))
            gone = shown - {ask.id for ask in waiting}
            if gone:
                say(f"no longer waiting: {', '.join(sorted(gone))}", "dim")
            shown = {ask.id for ask in waiting}
            await asyncio.sleep(_WATCH_SECONDS)

    return _with_store(follow)


@approvals.command()
@click.argument("ask_id", metavar="ID")
@click.option(
    "--for",
    "decision",
    type=click.Choice(["once", "run", "session", "always"]),
    default="once",
    show_default=True,
    help="run, session: this tool, until the run or the session is over. always: this tool with these arguments.",
)
@_reason
@CONFIG
def approve(*, ask_id: str, decision: ApprovalDecision, reason: str) -> None:
    """Allow the call that waits under ID, or under the one id that begins so."""
    _answer(ask_id, decision, reason)


@approvals.command()
@click.argument("ask_id", metavar="ID")
@_reason
@CONFIG
def refuse(*, ask_id: str, reason: str) -> None:
    """Refuse the call that waits under ID; its code gets an exception with the reason."""
    _answer(ask_id, "refuse", reason)


@approvals.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "all_", is_flag=True, help="Everything that is approved always.")
@CONFIG
def forget(*, ids: tuple[str, ...], all_: bool) -> None:
    """Ask again for what is approved always. `sealyard approvals` lists the ids."""
    if bool(ids) == all_:
        raise click.UsageError("Name the ids to forget, or give --all.")

    async def drop(store: Store, queue: Approvals) -> list[str]:
        known = [each.ask for each in await store.approvals.remembered()]
        chosen = known if all_ else [_get(known, each) for each in ids]
        await store.approvals.forget([ask.id for ask in chosen])
        for ask in chosen:
            body = {"id": ask.id, "tool": ask.tool, "by": _operator()}
            store.audit(AuditEntry(kind="approval.forget", principal=ask.principal, body=body))
        return [ask.tool for ask in chosen]

    tools = _with_store(drop)
    say(f"forgotten: {', '.join(tools) or 'nothing'}")


def _answer(ask_id: str, decision: ApprovalDecision, reason: str) -> None:
    async def decide(store: Store, queue: Approvals) -> str:
        matching = _matching(await queue.waiting(), ask_id)
        whole_id = matching[0].id if matching else ask_id  # for one that does not wait, `answer` says why
        approval = Approval(decision=decision, by=_operator(), channel="cli", reason=reason, answered_at=time.time())
        await queue.answer(whole_id, approval)
        return f"{matching[0].tool} ({whole_id})" if matching else whole_id

    answered = _with_store(decide)
    say(f"{'refused' if decision == 'refuse' else f'approved ({decision})'}: {answered}")


def _get(asks: list[ApprovalRequest], ask_id: str) -> ApprovalRequest:
    found = _matching(asks, ask_id)
    if not found:
        raise UnknownApproval(f"Nothing is approved always under {ask_id!r}. `sealyard approvals` lists what is.")
    return found[0]


def _matching(asks: list[ApprovalRequest], ask_id: str) -> list[ApprovalRequest]:
    """Return the ask of this id, or the only one whose id begins so, or nothing."""
    found = [ask for ask in asks if ask.id == ask_id] or [ask for ask in asks if ask_id and ask.id.startswith(ask_id)]
    if len(found) > 1:
        ids = ", ".join(ask.id for ask in found)
        raise UnknownApproval(f"{ask_id!r} is the beginning of several ids: {ids}. Give one of them.")
    return found


def _with_store(work: Callable[[Store, Approvals], Coroutine[Any, Any, _T]]) -> _T:
    loaded = load()

    async def run(store: Store) -> _T:
        find = (await open_vault(loaded, store)).find if option("reveal") else None
        return await work(store, Approvals(store, loaded.policy, find=find))

    return with_store(loaded, run)


async def _values(queue: Approvals, ask: ApprovalRequest) -> dict[str, str | int | float]:
    """The values of its tokens; none without `--reveal`."""
    return await queue.reveal(ask, by=LOCAL, channel="cli")


def _show_all(waiting: list[ApprovalRequest], remembered: list[Remembered], values: _Values) -> None:
    for ask in waiting:
        _show(ask, values[ask.id])
    if not waiting:
        say("Nothing waits for approval.")
    for each in remembered:
        say(f"approved always by {each.approval.by} ({each.ask.id}):", "bold")
        _show_lines(each.ask, {})


def _show(ask: ApprovalRequest, values: dict[str, str | int | float]) -> None:
    left = max(0.0, ask.expires_at - time.time())
    say(f"{ask.id} waits, {left:.0f} s left:", "bold")
    _show_lines(ask, values)


def _show_lines(ask: ApprovalRequest, values: dict[str, str | int | float]) -> None:
    for line in ask.lines(values):
        say(f"  {line}")


def _operator() -> str:
    """The name of the user who runs this, as the system knows it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"
