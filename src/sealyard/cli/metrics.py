"""`sealyard metrics` and `sealyard rebuild-metrics`: the figures of a store. A running gateway is not disturbed."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.table import Table

from sealyard import __version__
from sealyard.cli.command import CONFIG_ARGUMENT, JSON, STORE, answer, read_config, store_path, with_store
from sealyard.cli.metrics_live import WINDOWS, Window, follow, read_report
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
from sealyard.observe.alerts import list_alerts
from sealyard.store import Store
from sealyard.store.metrics.rebuild import Rebuilt
from sealyard.store.metrics.usage import Usage

_FEW = 10
"""Lines of a list; `--format json` has all."""


@click.command()
@CONFIG_ARGUMENT
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "prometheus", "dashboard"]),
    default="table",
    show_default=True,
    help="What to print. `dashboard` is live, until q or Ctrl-C.",
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
            remark("note: This is no terminal: the dashboard is printed once.")
        await follow(store, prices, window, is_live=not once and screen.is_terminal)
        return
    if form == "prometheus":
        text, _ = render(await store.metrics.sums(), await _read_gauges(store, prices))
        sys.stdout.buffer.write(text)
        return
    found = await read_report(store, prices, window)
    usage = await store.usage.read(found.since or 0.0, found.until or 0.0)
    if form == "json":
        body: dict[str, Any] = msgspec.to_builtins(found) | {"usage": msgspec.to_builtins(usage)}
        write_json(body)
    else:
        _show(found, usage, window.title)


async def _read_gauges(store: Store, prices: Prices) -> list[Gauge]:
    """Read the gauges that a store has without a gateway."""
    whole = await read_report(store, prices, WINDOWS["all"])
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


def _show(report: Report, usage: Usage, title: str) -> None:
    """Show every part that has figures."""
    say(f"What was done in {title}", "bold")
    for name, facts in _parts(report).items():
        rows = [(plain(f"  {key}", "dim"), value) for key, value in facts.items() if value]
        screen.print()
        screen.print(columns(rows=[(plain(name, "bold"), ""), *rows]))
    for name, table in _tables(report, usage).items():
        if table.row_count:
            screen.print()
            say(name, "bold")
            screen.print(table)


def _parts(report: Report) -> dict[str, dict[str, str]]:
    run, found, spent = report.execution, report.discovery, report.tokens
    kept, skills, guarded, known = report.filtering, report.skills, report.security, report.learning
    return {
        "runs": {
            "all": f"{run.count:,}, {share(run.success_rate)} ended well, {run.timeouts:,} ran out of time",
            "time": f"{seconds(run.p50_seconds)} p50, {seconds(run.p95_seconds)} p95, {seconds(run.p99_seconds)} p99",
            "how they ended": counts(run.by_status),
            "errors": counts(run.errors),
            "what for": counts(run.use_cases),
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
            "counted with": f"{report.tokenizer}, at ${report.prices.input:g} and ${report.prices.output:g} a million",
            "not counted": f"{size(spent.uncounted_bytes)} of answers" if spent.uncounted_bytes else "",
        },
        "data": {
            "from tools": size(kept.bytes_in),
            "to agents": f"{size(kept.bytes_out)}, {share(kept.reduction)} less",
        },
        "privacy and approval": {
            "hidden": counts(guarded.hidden),
            "withheld whole": f"{guarded.hiding_failures:,}" if guarded.hiding_failures else "",
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
            "not run for it": f"{known.refused:,}" if known.refused else "",
            "hints": counts(known.hints),
            "limits fitted": counts({name.replace("_", " "): number for name, number in known.fitted.items()}),
            "searches reordered": f"{known.searches_changed:,}, {share(known.searches_changed_share)}",
        },
    }  # fmt: skip


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
        done = with_store(
            store_path(),
            lambda opened: opened.metrics.rebuild(lambda done, total: report("counting", done, total), check=check),
        )
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
