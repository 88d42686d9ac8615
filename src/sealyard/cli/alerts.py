"""`sealyard alerts`: what is wrong, and what a person says about it. It needs the store, and no gateway."""

import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import columns, errors, plain, screen, write
from sealyard.config import Config, load_config
from sealyard.errors import InvalidRequest
from sealyard.observe.alerts import (
    RULES,
    AlertList,
    AlertView,
    list_alerts,
    post_alerts,
    resolve_alert,
    silence_rule,
    unsilence_rule,
)
from sealyard.skills.record import parse_duration
from sealyard.store import Store, open_store
from sealyard.store.alerts import Alert

_T = TypeVar("_T")
_PRINCIPAL = "local"
_STYLES = {"firing": "bold red", "pending": "yellow", "resolved": "green"}

_config = click.option(
    "--config", type=click.Path(path_type=Path), help="A sealyard.toml or a client's file such as .mcp.json."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")
_rule = click.argument("rule", metavar="RULE", type=click.Choice(list(RULES)))


@click.group(invoke_without_command=True)
@_config
@_json
@click.pass_context
def alerts(ctx: click.Context, *, config: Path | None, as_json: bool) -> int:
    """List, silence and resolve alerts."""
    if ctx.invoked_subcommand is None:
        _list(config, as_json)
    return 0


@alerts.command("list")
@_config
@_json
def list_(*, config: Path | None, as_json: bool) -> int:
    """Show what fires, what is about to, what is over, and what is silenced."""
    _list(config, as_json)
    return 0


@alerts.command()
@_rule
@click.option("--for", "length", default="1h", show_default=True, metavar="TIME", help="Such as 30min, 8h or 2days.")
@click.option("--reason", default="", help="Shown to others, and kept in the audit log.")
@_config
def silence(*, rule: str, length: str, reason: str, config: Path | None) -> int:
    """Tell nobody that RULE fires, for some time. What fires then still is told at its end."""
    seconds = parse_duration(length)
    _, made = _with_store(config, lambda store: silence_rule(store, rule, seconds, principal=_PRINCIPAL, reason=reason))
    screen.print(plain(f"silenced: {rule} until {_time(made.until)}"))
    return 0


@alerts.command()
@_rule
@_config
def unsilence(*, rule: str, config: Path | None) -> int:
    """End the silence of RULE."""
    _with_store(config, lambda store: unsilence_rule(store, rule, principal=_PRINCIPAL))
    screen.print(plain(f"no longer silenced: {rule}"))
    return 0


@alerts.command()
@_rule
@click.argument("subject", required=False, default="")
@_config
def resolve(*, rule: str, subject: str, config: Path | None) -> int:
    """Say that the alert RULE about SUBJECT, which is an upstream, is over.

    If it is still so, it does not fire again before it was right in between.
    """
    _with_store(config, lambda store: resolve_alert(store, rule, subject, principal=_PRINCIPAL))
    screen.print(plain(f"resolved: {rule} {subject}".rstrip()))
    return 0


@alerts.command()
@_config
def test(*, config: Path | None) -> int:
    """Send a made-up alert to the configured webhook and say what came of it."""
    loaded = _load(config)
    webhook = loaded.alerts.webhook
    if webhook is None:
        raise InvalidRequest("No webhook is configured. Give its URL as webhook in [alerts].")
    now = time.time()
    made_up = Alert(
        rule="error_rate",
        state="resolved",
        value=0.0,
        threshold=loaded.alerts.error_rate,
        message="This is a test: nothing is wrong.",
        since=now,
        changed_at=now,
    )
    problem = run_to_end(post_alerts(webhook, [made_up], secret=loaded.alerts.webhook_secret))
    if problem:
        raise InvalidRequest(f"The webhook did not take it: {problem}. Look at webhook in [alerts].")
    screen.print(plain("The webhook took it."))
    return 0


def _list(config: Path | None, as_json: bool) -> None:
    loaded, found = _with_store(config, list_alerts)
    if as_json:
        write(msgspec.json.encode(found).decode() + "\n")
        return
    if not loaded.alerts.enabled:
        errors.print(plain("warning: alerts are switched off by [alerts] in the configuration", "yellow"))
    _show(found)


def _show(found: AlertList) -> None:
    if not found.alerts:
        screen.print("Nothing is wrong, and nothing was.")
    else:
        table = columns("state", "alert", "since", "what")
        for alert in found.alerts:
            name = f"{alert.rule} {alert.subject}".rstrip()
            table.add_row(
                plain(alert.state, _STYLES[alert.state]), plain(name), _time(_shown_time(alert)), plain(_notes(alert))
            )
        screen.print(table)
    for silence in found.silences:
        reason = f": {silence.reason}" if silence.reason else ""
        screen.print(plain(f"silenced until {_time(silence.until)} by {silence.principal}: {silence.rule}{reason}"))


def _shown_time(alert: AlertView) -> float:
    return alert.changed_at if alert.state == "resolved" else alert.since


def _notes(alert: AlertView) -> str:
    notes = [alert.message]
    if alert.silenced and alert.state != "resolved":
        notes.append("It is silenced.")
    if alert.undelivered:
        notes.append("The webhook did not take this.")
    return " ".join(notes)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _with_store(config: Path | None, work: Callable[[Store], Coroutine[Any, Any, _T]]) -> tuple[Config, _T]:
    loaded = _load(config)

    async def run() -> _T:
        async with open_store(loaded.store.path) as store:
            return await work(store)

    return loaded, run_to_end(run())


def _load(config: Path | None) -> Config:
    parent = click.get_current_context().parent
    loaded = load_config(config or (None if parent is None else parent.params.get("config")))
    for warning in loaded.warnings:
        errors.print(plain(f"warning: {warning}", "yellow"))
    return loaded
