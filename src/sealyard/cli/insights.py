"""`sealyard insights`: show what was learned from the journal, and forget it. It needs the store, not a gateway."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from sealyard.cli.command import CONFIG_ARGUMENT, JSON, LOCAL
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import columns, errors, plain, say, screen, warn, write_json
from sealyard.config import Config, load_config
from sealyard.errors import InvalidRequest
from sealyard.learning import Insight, PartInsights
from sealyard.learning.learner import PARTS
from sealyard.learning.overview import Insights, forget, learner_of, with_conflicts
from sealyard.learning.overview import insights as all_insights
from sealyard.store import Store, open_store
from sealyard.values.facts import Forgotten
from sealyard.wording import suggest

_FEW = 5
"""Lines of a list, so that all parts fit a screen; `--part` and `--json` have all."""
_TITLES = {
    "ranking": "Ranking",
    "chains": "Tool chains",
    "shapes": "Output shapes",
    "failures": "Failure fixes",
    "risk": "Risk",
    "skills": "Skills",
    "resources": "Limits",
}


@click.command()
@CONFIG_ARGUMENT
@click.option("--part", type=click.Choice(list(PARTS)), help="Show this part alone, with all its entries.")
@click.option("--principal", metavar="NAME", help="Show the evidence that one principal is advised from.")
@click.option(
    "--forget",
    "subject",
    metavar="TOOL|PRINCIPAL|ALL",
    help="Forget what was learned of a tool, of a principal (also as tool:NAME, principal:NAME), or all of it.",
)
@click.option("--rebuild", is_flag=True, help="Learn everything anew from the journal first.")
@JSON
def insights(
    *,
    config: Path | None,
    part: str | None,
    principal: str | None,
    subject: str | None,
    rebuild: bool,
    as_json: bool,
) -> int:
    """Show what was learned from experience, and forget it.

    CONFIG is a sealyard.toml or a file such as .mcp.json: it names the store. What is forgotten stays in the journal
    and in the audit log, and is not learned from any more. Gateways on the same store forget it within seconds.
    """
    if subject is not None and (part or principal or rebuild):
        raise click.UsageError("--forget shows nothing. Leave out --part, --principal and --rebuild.")
    loaded = load_config(config)
    if subject is not None:
        done = run_to_end(_forget(loaded, subject))
        if as_json:
            write_json(done)
        else:
            say(f"forgotten: {_name(done)}")
        return 0
    with errors.status("Learning from the journal"):
        found = run_to_end(_look(loaded, principal, rebuild=rebuild))
    if part is not None:
        found = msgspec.structs.replace(found, parts=[each for each in found.parts if each.part == part])
    if as_json:
        write_json(found)
    elif part is None:
        _show(found)
    else:
        _show_part(found, part)
    return 0


async def _look(config: Config, principal: str | None, *, rebuild: bool) -> Insights:
    scopes, settings = config.http.scopes(), config.learning
    async with open_store(config.store.path) as store:
        if principal is not None:
            await _check(store, principal, list(scopes))
        learner = learner_of(store, settings)
        if rebuild:
            await learner.rebuild()
        else:
            await learner.once()
            await learner.save()  # the next look need not learn it again
        scope = scopes.get(principal or "")
        domain = (None if scope is None else scope.domain) or settings.domain or ""
        found = await all_insights(store, learner, settings, principal=principal, domain=domain)
        specs = [spec for some in (await store.load_tools()).values() for spec in some]
        return await with_conflicts(found, learner, specs, is_alone=not scopes)


async def _check(store: Store, principal: str, configured: Sequence[str]) -> None:
    """Raise `InvalidRequest` for an unknown principal."""
    _, seen = await store.learning.known()
    known = sorted({*seen, *configured})
    if principal not in known:
        advice = suggest(principal, known, f"There are: {', '.join(known[:20]) or 'none yet'}.")
        raise InvalidRequest(f"No principal is called {principal[:100]!r}. {advice}")


async def _forget(config: Config, subject: str) -> Forgotten:
    async with open_store(config.store.path) as store:
        return await forget(store, learner_of(store, config.learning), subject, principal=LOCAL)


def _show(found: Insights) -> None:
    _warn(found)
    table = columns("part", "learned", "from", "told", "right", "")
    for each in found.parts:
        cells = (f"{each.learned:,}", f"{each.evidence:,}", f"{each.told:,}", _share(each.accuracy))
        table.add_row(each.part, *cells, plain(_TITLES[each.part], "dim"))
    screen.print(table)
    shared = "by all" if found.scope == "shared" else f"by each {found.scope}"
    learned = f"\nlearned from {found.facts:,} facts, {shared}; half-life {found.half_life_days:g} days"
    screen.print(plain(learned, "dim"))
    for part in found.parts:
        _show_items(_TITLES[part.part], part.items, _FEW, more=f"sealyard insights --part {part.part}")
    _show_risk(found)
    _show_items("Skill effectiveness", found.skills, _FEW, more="sealyard insights --part skills")
    _show_migrations(found)
    _show_items("Outputs that differ from the declared schema", found.conflicts, _FEW, more="sealyard insights --json")
    for gone in found.forgotten[:_FEW]:
        screen.print(plain(f"forgotten on {_day(gone.at)}: {_name(gone)}", "dim"))
    if len(found.forgotten) > _FEW:
        screen.print(plain(f"… and {len(found.forgotten) - _FEW} more: sealyard insights --json", "dim"))


def _show_part(found: Insights, name: str) -> None:
    """Show one part whole."""
    _warn(found)
    for part in found.parts:
        screen.print(plain(_summary(part)))
        _show_items(_TITLES[name], part.items, len(part.items))
    if name == "risk":
        _show_risk(found)
    if name == "skills":
        _show_items("Skill effectiveness", found.skills, len(found.skills))
        _show_migrations(found)
    if name == "shapes":
        _show_items("Outputs that differ from the declared schema", found.conflicts, len(found.conflicts))


def _summary(part: PartInsights) -> str:
    right = f", right {part.right:,} of {part.told:,} times that it told something" if part.told else ""
    return f"{part.part}: {part.learned:,} learned from {part.evidence:,}{right}"


def _warn(found: Insights) -> None:
    if not found.enabled:
        warn("learning is switched off by [learning] in the configuration")
    for name, count in sorted(found.faults.items()):
        warn(f"{name} failed {count:,} times and learned nothing from that")


def _show_items(title: str, items: Sequence[Insight], shown: int, *, more: str = "") -> None:
    if not items:
        return
    screen.print(plain(f"\n{title}", "bold"))
    table = columns("about", "", "evidence", "right", "last")
    for item in items[:shown]:
        told = f"{item.right:,} of {item.told:,}" if item.told else ""
        last = _day(item.last_at)
        table.add_row(plain(item.subject), plain(item.text), f"{item.evidence:.1f}", told, plain(last, "dim"))
    screen.print(table)
    if len(items) > shown:
        screen.print(plain(f"… and {len(items) - shown} more: {more}", "dim"))


def _show_risk(found: Insights) -> None:
    if not any(each.told for each in found.risk):
        return
    screen.print(plain("\nFailed runs by assessed risk", "bold"))
    table = columns("risk", "runs", "failed", "share", "expected")
    for each in found.risk:
        table.add_row(each.risk, f"{each.told:,}", f"{each.failed:,}", _share(each.share), _share(each.expected))
    screen.print(table)


def _show_migrations(found: Insights) -> None:
    past = found.migrations
    if past.tried:
        text = f"migrations of skills: {past.tried:,} tried, {past.done:,} done, {past.right:,} as predicted"
        screen.print(plain(f"\n{text} ({_share(past.accuracy)})"))


def _share(part: float | None) -> str:
    return "-" if part is None else f"{part:.0%}"


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def _name(forgotten: Forgotten) -> str:
    return "everything" if forgotten.what == "all" else f"{forgotten.what} {forgotten.subject}"
