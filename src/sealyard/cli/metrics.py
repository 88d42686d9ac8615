"""`sealyard metrics` and `sealyard rebuild-metrics`: the figures of a store. A running gateway is not disturbed."""

import asyncio
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table

from sealyard import __version__
from sealyard.cli.command import CONFIG_ARGUMENT, JSON, STORE, answer, read_config, store_path, with_store
from sealyard.cli.terminal import (
    Cell,
    columns,
    count,
    counts,
    dollars,
    minute,
    plain,
    progress,
    remark,
    say,
    say_unwrapped,
    screen,
    seconds,
    share,
    size,
    write_json,
)
from sealyard.metrics import Gauge, Prices, Report, render, tokens, write_files
from sealyard.observe.health import list_alerts
from sealyard.store import Store
from sealyard.store.metrics import Rebuilt, Usage
from sealyard.values.runs import ExecutionRecord

_FEW = 10
"""Lines of a list; `--format json` has all."""
_EVERY_SECONDS = 2.0
"""Between two pictures of the dashboard: an eye follows, and the store is hardly read."""
_RUNS = 8  # last runs of the dashboard: with the tables they fill a usual terminal
_CODE_CHARACTERS = 60  # of a run's code: with the other columns a line of most terminals
_HOUR = 3_600.0  # seconds
_STATUSES = {"ok": "green", "running": "cyan"}


class Window(msgspec.Struct, frozen=True):
    """A time up to now."""

    title: str
    seconds: float | None


WINDOWS = {
    "1h": Window("the last hour", _HOUR),
    "24h": Window("the last 24 hours", 24 * _HOUR),
    "7d": Window("the last 7 days", 7 * 24 * _HOUR),
    "30d": Window("the last 30 days", 30 * 24 * _HOUR),
    "all": Window("all time", None),
}


@click.command()
@CONFIG_ARGUMENT
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "prometheus", "dashboard"]),
    default="table",
    show_default=True,
    help="What to print. `dashboard` is live, until Ctrl-C.",
)
@click.option(
    "--window",
    type=click.Choice(list(WINDOWS)),
    help="The time up to now that is counted: 24h by default, and always all of it for Prometheus.",
)
@click.option("--once", is_flag=True, help="Print the dashboard once.")
@STORE
@click.option(
    "--write-files",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write Grafana dashboards and Prometheus rules there, and nothing else.",
)
def metrics(*, form: str, window: str | None, once: bool, folder: Path | None) -> None:
    """Show what was done, how well, and what it saved.

    CONFIG is a sealyard.toml or a file such as .mcp.json: it names the store, and what tokens cost.
    """
    if folder is not None:
        for path in write_files(folder):
            say_unwrapped(str(path))
        return
    if form == "prometheus" and window not in (None, "all"):
        raise click.UsageError("Prometheus reads sums of all time and makes windows itself. Leave out --window.")
    loaded = read_config()
    prices = Prices(input=loaded.metrics.input_price, output=loaded.metrics.output_price)
    with_store(store_path(), lambda opened: _print_metrics(opened, prices, form, WINDOWS[window or "24h"], once=once))


async def _print_metrics(store: Store, prices: Prices, form: str, window: Window, *, once: bool) -> None:
    if form == "dashboard":
        if not once and not screen.is_terminal:
            remark("note: Standard output is not a terminal: the dashboard is printed once.")
        await _follow(store, prices, window, is_live=not once and screen.is_terminal)
        return
    if form == "prometheus":
        text, _ = render(await store.metrics.sums(), await _read_gauges(store, prices))
        sys.stdout.buffer.write(text)
        return
    found, usage = await _read(store, prices, window)
    if form == "json":
        body: dict[str, Any] = msgspec.to_builtins(found) | {"usage": msgspec.to_builtins(usage)}
        write_json(body)
    else:
        screen.print(Group(*_sections(found, usage, window)))


async def _read_report(store: Store, prices: Prices, window: Window) -> Report:
    now = time.time()
    since = None if window.seconds is None else now - window.seconds
    sums = await store.metrics.sums(since, None)
    return Report.of(sums, since=since or 0.0, until=now, prices=prices, tokenizer=tokens.TOKENIZER)


async def _read(store: Store, prices: Prices, window: Window) -> tuple[Report, Usage]:
    found = await _read_report(store, prices, window)
    return found, await store.metrics.usage(found.since or 0.0, found.until or 0.0)


async def _follow(store: Store, prices: Prices, window: Window, *, is_live: bool) -> None:
    """Draw the store once, or again and again until the task is cancelled."""
    if not is_live:
        screen.print(await _picture(store, prices, window))
        return
    with Live(console=screen, screen=True, vertical_overflow="crop") as live:
        while True:
            live.update(await _picture(store, prices, window), refresh=True)
            await asyncio.sleep(_EVERY_SECONDS)


async def _picture(store: Store, prices: Prices, window: Window) -> RenderableType:
    """Open questions for a person, the last runs, and the tables."""
    found, usage = await _read(store, prices, window)
    firing = [each for each in (await list_alerts(store)).alerts if each.state == "firing"]
    waiting = await store.approvals.waiting()
    lists = {
        "alerts": columns(
            rows=[(plain(f"{each.rule} {each.subject}".rstrip(), "red"), each.message) for each in firing[:_FEW]]
        ),
        "waiting for approval (answer with `sealyard approvals`)": columns(
            rows=[(plain(each.id, "yellow"), each.tool, each.principal, each.reason) for each in waiting[:_FEW]]
        ),
        "last runs": columns(rows=[_run(each) for each in await store.executions(limit=_RUNS)]),
    }
    at = plain(time.strftime("%H:%M:%S UTC", time.gmtime()), "dim")
    return Group(at, *_titled(lists), "", *_sections(found, usage, window))


def _run(record: ExecutionRecord) -> tuple[Cell, ...]:
    at = time.strftime("%H:%M:%S", time.gmtime(record.started_at))
    taken = "" if record.ended_at is None else seconds(record.ended_at - record.started_at)
    code = " ".join(record.code[:_CODE_CHARACTERS].split())
    return at, plain(record.status, _STATUSES.get(record.status, "red")), taken, record.principal, plain(code, "dim")


async def _read_gauges(store: Store, prices: Prices) -> list[Gauge]:
    """Read the gauges that a store has without a gateway."""
    whole = await _read_report(store, prices, WINDOWS["all"])
    census = await store.census()
    firing = [each.rule for each in (await list_alerts(store)).alerts if each.state == "firing"]
    found = [
        Gauge.of("sealyard_info", 1, version=__version__, tier="none", level="none", tokenizer=tokens.TOKENIZER),
        Gauge.of("sealyard_approvals_waiting", len(await store.approvals.waiting())),
        Gauge.of("sealyard_context_tokens_saved", whole.tokens.saved),
        Gauge.of("sealyard_context_dollars_saved", whole.tokens.dollars_saved),
        Gauge.of("sealyard_store_bytes", census.size_bytes),
        Gauge.of("sealyard_metrics_uncounted_rows", await store.metrics.uncounted()),
        *(Gauge.of("sealyard_skills", number, status=status) for status, number in census.skills.items()),
        *(Gauge.of("sealyard_alerts_firing", firing.count(rule), rule=rule) for rule in sorted(set(firing))),
    ]
    if whole.discovery.hit_rate is not None:
        found.append(Gauge.of("sealyard_discovery_hit_rate", whole.discovery.hit_rate))
    if whole.skills.reuse_ratio is not None:
        found.append(Gauge.of("sealyard_skill_reuse_ratio", whole.skills.reuse_ratio))
    return found


# Tables, within the 80 columns that many terminals have


def _sections(report: Report, usage: Usage, window: Window) -> Iterator[RenderableType]:
    """Every part that has figures."""
    yield plain(f"Activity in {window.title}", "bold")
    for name, facts in _parts(report).items():
        rows = [(plain(f"  {key}", "dim"), value) for key, value in facts.items() if value]
        yield ""
        yield columns(rows=[(plain(name, "bold"), ""), *rows])
    yield from _titled(_tables(report, usage))


def _titled(tables: dict[str, Table]) -> Iterator[RenderableType]:
    """Tables that have rows, each below its name."""
    for name, table in tables.items():
        if table.row_count:
            yield from ("", plain(name, "bold"), table)


def _parts(report: Report) -> dict[str, dict[str, str]]:
    run, found, spent = report.execution, report.discovery, report.tokens
    kept, skills, guarded, known = report.filtering, report.skills, report.security, report.learning
    return {
        "runs": {
            "all": f"{run.count:,}, {share(run.success_rate)} ended well, {run.timeouts:,} ran out of time",
            "time": f"{seconds(run.p50_seconds)} p50, {seconds(run.p95_seconds)} p95, {seconds(run.p99_seconds)} p99",
            "status": counts(run.by_status),
            "errors": counts(run.errors),
            "use cases": counts(run.use_cases),
            "sessions": f"{report.sessions.count:,}, {share(report.sessions.code_share)} with code",
        },
        "searches": {
            "all": f"{found.queries:,}, {found.from_code:,} of them from code",
            "hits": f"{found.hits:,}, which is {share(found.hit_rate)}; {found.continued:,} searched again",
            "time": f"{seconds(found.p50_seconds)} p50, {seconds(found.p95_seconds)} p95",
        },
        "tokens": {
            "without sealyard": f"{spent.baseline:,}, {dollars(spent.dollars_baseline)}",
            "with it": f"{spent.actual:,}, {dollars(spent.dollars_actual)}",
            "saved": f"{spent.saved:,}, {share(spent.saved_share)}, {dollars(spent.dollars_saved)}",
            "per conversation": _per_conversation(report),
            "counted with": f"{report.tokenizer}, at ${report.prices.input:g} and ${report.prices.output:g} a million",
            "not counted": f"{size(spent.uncounted_bytes)} of answers" if spent.uncounted_bytes else "",
        },
        "data": {
            "from tools": size(kept.bytes_in),
            "to agents": f"{size(kept.bytes_out)}, {share(kept.reduction)} less",
        },
        "privacy and approval": {
            "hidden": counts(guarded.hidden),
            "withheld": f"{guarded.hiding_failures:,}" if guarded.hiding_failures else "",
            "revealed": f"{guarded.revealed:,}" if guarded.revealed else "",
            "refused": counts({"by review": guarded.review_refused, "by policy": guarded.policy_denied}),
            "asked": counts(
                {"approved": guarded.approved, "refused": guarded.refused, "not answered": guarded.expired}
            ),
        },
        "saved skills": {
            "saved": f"{skills.saved:,}, {skills.drafts:,} drafts, {skills.rejected:,} rejected",
            "used": f"in {skills.runs:,} runs, {share(skills.reuse_ratio)} of those of code; {skills.failed:,} failed",
        },
        "experience": {
            "assessed risk": counts(known.by_risk),
            "refused for risk": f"{known.refused:,}" if known.refused else "",
            "hints": counts(known.hints),
            "limits fitted": counts({name.replace("_", " "): number for name, number in known.fitted.items()}),
            "searches reordered": f"{known.searches_changed:,}, {share(known.searches_changed_share)}",
        },
    }  # fmt: skip


def _per_conversation(report: Report) -> str:
    found = report.tokens.per_session
    if found is None:
        return "no conversation began in this time"
    number = count(found.sessions, "conversation")
    return f"{found.baseline:,.0f} without sealyard, {found.actual:,.0f} with it, on average of {number}"


def _tables(report: Report, usage: Usage) -> dict[str, Table]:
    upstreams: Iterator[tuple[Cell, ...]] = (
        (
            *(name, each.calls, plain(share(each.error_rate), "red" if each.error_rate else "")),
            *map(seconds, (each.p50_seconds, each.p95_seconds, each.p99_seconds)),
            *(size(each.answer_bytes), each.restarts),
        )
        for name, each in report.upstreams.items()
    )
    tools: Iterator[tuple[Cell, ...]] = (
        (
            *(each.tool, each.version, each.calls, each.errors, each.refused),
            *(seconds(each.p50_seconds), seconds(each.p95_seconds), minute(each.last_at)),
        )
        for each in usage.tools[:_FEW]
    )
    together = ((each.runs, each.ok, ", ".join(each.tools)) for each in usage.combinations[:_FEW])
    clients: Iterator[tuple[Cell, ...]] = (
        (
            *(each.principal, each.sessions, share(each.code_share)),
            *(each.executions, each.failed, each.searches, each.calls),
        )
        for each in usage.principals[:_FEW]
    )
    skills = ((f"{each.namespace}/{each.name}", each.version, each.uses, each.failures) for each in usage.skills[:_FEW])
    return {
        "upstreams": columns("upstream", "calls", "failed", "p50", "p95", "p99", "answers", "restarts", rows=upstreams),
        "tools": columns("tool", "version", "calls", "failed", "refused", "p50", "p95", "last", rows=tools),
        "tools that were used together": columns("runs", "ended well", "tools", rows=together),
        "clients": columns("client", "sessions", "with code", "runs", "failed", "searches", "calls", rows=clients),
        "skills": columns("skill", "version", "uses", "failures", rows=skills),
    }


# Counting again


@click.command("rebuild-metrics")
@CONFIG_ARGUMENT
@click.option("--check", is_flag=True, help="Only compare what would be counted with what was, and change nothing.")
@STORE
@JSON
def rebuild_metrics(*, check: bool) -> int:
    """Count all metrics again from the journal.

    Figures of days whose rows were removed because they are old stay as they are. Gateways may go on meanwhile.

    Exit code 0: all is right; 1: with --check, some sums differ from the journal.
    """
    with progress() as report:
        on_progress = partial(report, "counting")
        done = with_store(store_path(), lambda opened: opened.metrics.rebuild(on_progress, check=check))
    answer(done, lambda: _show_rebuilt(done, check=check))
    return 1 if check and done.differences else 0


def _show_rebuilt(done: Rebuilt, *, check: bool) -> None:
    say(f"{done.facts:,} facts and {done.calls:,} calls of {count(done.days, 'day')} were counted.")
    if done.skipped:
        say(f"{done.skipped:,} rows cannot be read, and do not count.", "yellow")
    if done.differences:
        verb = "differ" if check else "differed"
        say(f"{done.differences:,} sums {verb} from the journal.", "yellow")
    else:
        say("All sums match the journal.", "green")
