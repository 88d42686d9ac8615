"""The figures of a store as tables, within the 80 columns that many terminals have."""

import time
from collections.abc import Mapping, Sequence

from rich.table import Table

from sealyard.cli.terminal import columns, plain, screen
from sealyard.metrics.report import Report
from sealyard.store.metrics import Usage

_FEW = 10
"""Lines of a list; `--format json` has all."""
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def show(report: Report, usage: Usage, title: str) -> None:
    """Every part that has something to say."""
    screen.print(plain(f"What was done in {title}", "bold"))
    for name, rows in _parts(report).items():
        screen.print()
        table = columns()
        table.add_row(plain(name, "bold"), plain(""))
        for key, value in rows.items():
            if value:
                table.add_row(plain(f"  {key}", "dim"), plain(value))
        screen.print(table)
    for name, table in {
        "upstreams": _upstreams(report),
        "tools": _tools(usage),
        "tools that were used together": _combinations(usage),
        "clients": _principals(usage),
        "skills": _skills(usage),
    }.items():
        if table.row_count:
            screen.print()
            screen.print(plain(name, "bold"))
            screen.print(table)


def _parts(report: Report) -> dict[str, dict[str, str]]:
    run, found, told = report.execution, report.discovery, report.tokens
    kept, skills, guarded, known = report.filtering, report.skills, report.security, report.learning
    return {
        "runs": {
            "all": f"{run.count:,}, {share(run.success_rate)} ended well, {run.timeouts:,} ran out of time",
            "time": f"{seconds(run.p50_seconds)} p50, {seconds(run.p95_seconds)} p95, {seconds(run.p99_seconds)} p99",
            "how they ended": named(run.by_status),
            "errors": named(run.errors),
            "what for": named(run.use_cases),
            "sessions": f"{report.sessions.count:,}, {share(report.sessions.code_share)} with code",
        },
        "searches": {
            "all": f"{found.queries:,}, {found.from_code:,} of them from code",
            "hits": f"{found.hits:,}, which is {share(found.hit_rate)}; {found.continued:,} searched again",
            "time": f"{seconds(found.p50_seconds)} p50, {seconds(found.p95_seconds)} p95",
        },
        "tokens": {
            "without sealyard": f"{told.baseline:,}, {dollars(told.dollars_baseline)}",
            "with it": f"{told.actual:,}, {dollars(told.dollars_actual)}",
            "saved": f"{told.saved:,}, {share(told.saved_share)}, {dollars(told.dollars_saved)}",
            "counted with": f"{report.tokenizer}, at ${report.prices.input:g} and ${report.prices.output:g} a million",
            "not counted": f"{size(told.uncounted_bytes)} of answers" if told.uncounted_bytes else "",
        },
        "data": {
            "from tools": size(kept.bytes_in),
            "to agents": f"{size(kept.bytes_out)}, {share(kept.reduction)} less",
        },
        "privacy and approval": {
            "hidden": named(guarded.hidden),
            "withheld whole": f"{guarded.hiding_failures:,}" if guarded.hiding_failures else "",
            "revealed": f"{guarded.revealed:,}" if guarded.revealed else "",
            "refused": named({"by review": guarded.review_refused, "by policy": guarded.policy_denied}),
            "asked": named(
                {"approved": guarded.approved, "refused": guarded.refused, "not answered": guarded.expired}
            ),
        },
        "saved skills": {
            "saved": f"{skills.saved:,}, {skills.drafts:,} drafts, {skills.rejected:,} rejected",
            "used": f"in {skills.runs:,} runs, {share(skills.reuse_ratio)} of those of code; {skills.failed:,} failed",
        },
        "experience": {
            "risk told": named(known.by_risk),
            "not run for it": f"{known.refused:,}" if known.refused else "",
            "hints": named(known.hints),
            "limits fitted": named({name.replace("_", " "): count for name, count in known.fitted.items()}),
            "searches reordered": f"{known.searches_changed:,}, {share(known.searches_changed_share)}",
        },
    }  # fmt: skip


def _upstreams(report: Report) -> Table:
    table = columns("upstream", "calls", "failed", "p50", "p95", "p99", "answers", "restarts")
    for name, each in report.upstreams.items():
        table.add_row(
            plain(name),
            f"{each.calls:,}",
            plain(share(each.error_rate), "red" if each.error_rate else ""),
            seconds(each.p50_seconds),
            seconds(each.p95_seconds),
            seconds(each.p99_seconds),
            size(each.answer_bytes),
            f"{each.restarts:,}",
        )
    return table


def _tools(usage: Usage) -> Table:
    table = columns("tool", "version", "calls", "failed", "refused", "p50", "p95", "last")
    for each in usage.tools[:_FEW]:
        last = time.strftime("%Y-%m-%d %H:%M", time.gmtime(each.last_at))
        table.add_row(
            plain(each.tool),
            plain(each.version),
            f"{each.calls:,}",
            f"{each.errors:,}",
            f"{each.refused:,}",
            seconds(each.p50_seconds),
            seconds(each.p95_seconds),
            last,
        )
    return table


def _combinations(usage: Usage) -> Table:
    table = columns("runs", "ended well", "tools")
    for each in usage.combinations[:_FEW]:
        table.add_row(f"{each.runs:,}", f"{each.ok:,}", plain(", ".join(each.tools)))
    return table


def _principals(usage: Usage) -> Table:
    table = columns("client", "sessions", "with code", "runs", "failed", "searches", "calls")
    for each in usage.principals[:_FEW]:
        counts = (each.executions, each.failed, each.searches, each.calls)
        table.add_row(
            plain(each.principal), f"{each.sessions:,}", share(each.code_share), *(f"{count:,}" for count in counts)
        )
    return table


def _skills(usage: Usage) -> Table:
    table = columns("skill", "version", "uses", "failures")
    for each in usage.skills[:_FEW]:
        table.add_row(
            plain(f"{each.namespace}/{each.name}"), plain(each.version), f"{each.uses:,}", f"{each.failures:,}"
        )
    return table


# Figures as words


def named(counts: Mapping[str, int]) -> str:
    """Such as `ok 12, failed 3`, the most first."""
    found: Sequence[tuple[str, int]] = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count:,}" for name, count in found if count) or "none"


def share(part: float | None) -> str:
    """Such as `97.5 %`; a dash if there is nothing to divide by. Only all of it is `100.0 %`."""
    if part is None:
        return "-"
    return "> 99.9 %" if 0.9995 <= part < 1 else f"{part * 100:.1f} %"


def seconds(taken: float | None) -> str:
    """Such as `12 ms` or `3.4 s`."""
    if taken is None:
        return "-"
    return f"{taken * 1e3:.3g} ms" if taken < 1 else f"{taken:.3g} s"


def size(count: float) -> str:
    """Such as `3.4 MiB`."""
    unit = 0
    while abs(count) >= 1024 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:,.0f} bytes" if unit == 0 else f"{count:,.1f} {_UNITS[unit]}"


def dollars(amount: float) -> str:
    """Such as `$12.34`; what is less than a cent has more digits."""
    return f"{'-' if amount < 0 else ''}${abs(amount):,.{2 if abs(amount) >= 0.01 or not amount else 5}f}"
