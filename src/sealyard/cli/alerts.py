"""`sealyard alerts`: list, silence and resolve alerts. It needs the store alone, not a gateway."""

import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from sealyard.cli.command import CONFIG, JSON, LOCAL, load, with_store
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import columns, plain, screen, warn, write_json
from sealyard.errors import InvalidRequest
from sealyard.observe.alerts import (
    RULES,
    AlertView,
    list_alerts,
    post_alerts,
    resolve_alert,
    silence_rule,
    unsilence_rule,
)
from sealyard.skills.record import parse_duration
from sealyard.store.alerts import Alert

_STYLES = {"firing": "bold red", "pending": "yellow", "resolved": "green"}
_rule = click.argument("rule", metavar="RULE", type=click.Choice(list(RULES)))


@click.group(invoke_without_command=True)
@CONFIG
@JSON
@click.pass_context
def alerts(ctx: click.Context, *, config: Path | None, as_json: bool) -> int:
    """List, silence and resolve alerts."""
    if ctx.invoked_subcommand is None:
        _list(config, as_json)
    return 0


@alerts.command("list")
@CONFIG
@JSON
def list_(*, config: Path | None, as_json: bool) -> int:
    """Show all alerts, firing ones first, and all silences."""
    _list(config, as_json)
    return 0


@alerts.command()
@_rule
@click.option("--for", "length", default="1h", show_default=True, metavar="TIME", help="Such as 30min, 8h or 2days.")
@click.option("--reason", default="", help="Shown to others, and kept in the audit log.")
@CONFIG
def silence(*, rule: str, length: str, reason: str, config: Path | None) -> int:
    """Deliver no alert of RULE for some time. One that still fires then is delivered at its end."""
    seconds = parse_duration(length)
    made = with_store(load(config), partial(silence_rule, rule=rule, seconds=seconds, principal=LOCAL, reason=reason))
    screen.print(plain(f"silenced: {rule} until {_time(made.until)}"))
    return 0


@alerts.command()
@_rule
@CONFIG
def unsilence(*, rule: str, config: Path | None) -> int:
    """End the silence of RULE."""
    with_store(load(config), partial(unsilence_rule, rule=rule, principal=LOCAL))
    screen.print(plain(f"no longer silenced: {rule}"))
    return 0


@alerts.command()
@_rule
@click.argument("subject", required=False, default="")
@CONFIG
def resolve(*, rule: str, subject: str, config: Path | None) -> int:
    """Resolve the alert RULE about SUBJECT, which is an upstream.

    If its fault lasts, it does not fire again before the fault was gone.
    """
    with_store(load(config), partial(resolve_alert, rule=rule, subject=subject, principal=LOCAL))
    screen.print(plain(f"resolved: {rule} {subject}".rstrip()))
    return 0


@alerts.command()
@CONFIG
def test(*, config: Path | None) -> int:
    """Send a made-up alert to the configured webhook and report the outcome."""
    settings = load(config).alerts
    if settings.webhook is None:
        raise InvalidRequest("No webhook is configured. Give its URL as webhook in [alerts].")
    now = time.time()
    made_up = Alert(
        rule="error_rate",
        state="resolved",
        value=0.0,
        threshold=settings.error_rate,
        message="This is a test: nothing is wrong.",
        since=now,
        changed_at=now,
    )
    problem = run_to_end(post_alerts(settings.webhook, [made_up], secret=settings.webhook_secret))
    if problem:
        raise InvalidRequest(f"The webhook did not take it: {problem}. Look at webhook in [alerts].")
    screen.print(plain("The webhook took it."))
    return 0


def _list(config: Path | None, as_json: bool) -> None:
    loaded = load(config)
    found = with_store(loaded, list_alerts)
    if as_json:
        write_json(found)
        return
    if not loaded.alerts.enabled:
        warn("alerts are switched off by [alerts] in the configuration")
    if not found.alerts:
        screen.print("Nothing is wrong, and nothing was.")
    else:
        table = columns("state", "alert", "since", "what")
        for alert in found.alerts:
            at = alert.changed_at if alert.state == "resolved" else alert.since
            name = f"{alert.rule} {alert.subject}".rstrip()
            table.add_row(plain(alert.state, _STYLES[alert.state]), plain(name), _time(at), plain(_notes(alert)))
        screen.print(table)
    for silence in found.silences:
        reason = f": {silence.reason}" if silence.reason else ""
        screen.print(plain(f"silenced until {_time(silence.until)} by {silence.principal}: {silence.rule}{reason}"))


def _notes(alert: AlertView) -> str:
    notes = [alert.message]
    if alert.silenced and alert.state != "resolved":
        notes.append("It is silenced.")
    if alert.undelivered:
        notes.append("The webhook did not take this.")
    return " ".join(notes)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
