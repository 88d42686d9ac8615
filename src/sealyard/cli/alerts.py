"""`sealyard alerts`: list, silence and resolve alerts. It needs the store alone, not a gateway."""

import time
from datetime import UTC, datetime
from functools import partial

import click
from rich.text import Text

from sealyard.cli.command import CONFIG, JSON, LOCAL, load, wants_json, with_store
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import plain, say, show_table, warn, write_json
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
def alerts(ctx: click.Context) -> None:
    """List, silence and resolve alerts."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@alerts.command("list")
@CONFIG
@JSON
def list_() -> None:
    """Show all alerts, firing ones first, and all silences."""
    loaded = load()
    found = with_store(loaded, list_alerts)
    if wants_json():
        write_json(found)
        return
    if not loaded.alerts.enabled:
        warn("alerts are switched off by [alerts] in the configuration")
    if not found.alerts:
        say("Nothing is wrong, and nothing was.")
    show_table("state", "alert", "since", "what", rows=map(_row, found.alerts))
    for silence in found.silences:
        reason = f": {silence.reason}" if silence.reason else ""
        say(f"silenced until {_time(silence.until)} by {silence.principal}: {silence.rule}{reason}")


@alerts.command()
@_rule
@click.option("--for", "length", default="1h", show_default=True, metavar="TIME", help="Such as 30min, 8h or 2days.")
@click.option("--reason", default="", help="Shown to others, and kept in the audit log.")
@CONFIG
def silence(*, rule: str, length: str, reason: str) -> None:
    """Deliver no alert of RULE for some time. One that still fires then is delivered at its end."""
    seconds = parse_duration(length)
    made = with_store(load(), partial(silence_rule, rule=rule, seconds=seconds, principal=LOCAL, reason=reason))
    say(f"silenced: {rule} until {_time(made.until)}")


@alerts.command()
@_rule
@CONFIG
def unsilence(*, rule: str) -> None:
    """End the silence of RULE."""
    with_store(load(), partial(unsilence_rule, rule=rule, principal=LOCAL))
    say(f"no longer silenced: {rule}")


@alerts.command()
@_rule
@click.argument("subject", required=False, default="")
@CONFIG
def resolve(*, rule: str, subject: str) -> None:
    """Resolve the alert RULE about SUBJECT, which is an upstream.

    If its fault lasts, it does not fire again before the fault was gone.
    """
    with_store(load(), partial(resolve_alert, rule=rule, subject=subject, principal=LOCAL))
    say(f"resolved: {rule} {subject}".rstrip())


@alerts.command()
@CONFIG
def test() -> None:
    """Send a made-up alert to the configured webhook and report the outcome."""
    settings = load().alerts
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
    say("The webhook took it.")


def _row(alert: AlertView) -> tuple[str | Text, ...]:
    at = alert.changed_at if alert.state == "resolved" else alert.since
    notes = [alert.message]
    if alert.silenced and alert.state != "resolved":
        notes.append("It is silenced.")
    if alert.undelivered:
        notes.append("The webhook did not take this.")
    name = f"{alert.rule} {alert.subject}".rstrip()
    return plain(alert.state, _STYLES[alert.state]), name, _time(at), " ".join(notes)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
