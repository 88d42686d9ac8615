"""`sealyard alerts`: list alerts and test the webhook. It needs the store alone, not a gateway."""

import time

import click
from rich.text import Text

from sealyard.cli.command import CONFIG, JSON, load, wants_json, with_store
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import minute, plain, say, show_table, warn, write_json
from sealyard.errors import InvalidRequest
from sealyard.observe.health import AlertView, list_alerts, post_alerts
from sealyard.values.access import Alert

_STYLES = {"firing": "bold red", "pending": "yellow", "resolved": "green"}


@click.group(invoke_without_command=True)
@CONFIG
@JSON
@click.pass_context
def alerts(ctx: click.Context) -> None:
    """List alerts and test the webhook."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@alerts.command("list")
@CONFIG
@JSON
def list_() -> None:
    """Show all alerts, firing ones first."""
    loaded = load()
    found = with_store(loaded, list_alerts)
    if wants_json():
        write_json(found)
        return
    if not loaded.alerts.enabled:
        warn("alerts are switched off by [alerts] in the configuration")
    if not found.alerts:
        say("No alerts.")
    show_table("state", "alert", "since", "what", rows=map(_row, found.alerts))


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
        raise InvalidRequest(f"The webhook did not accept the test alert: {problem}. Check webhook in [alerts].")
    say("The webhook accepted the test alert.")


def _row(alert: AlertView) -> tuple[str | Text, ...]:
    at = alert.changed_at if alert.state == "resolved" else alert.since
    notes = [alert.message]
    if alert.undelivered:
        notes.append("The webhook has not accepted this.")
    name = f"{alert.rule} {alert.subject}".rstrip()
    return plain(alert.state, _STYLES[alert.state]), name, f"{minute(at)} UTC", " ".join(notes)
