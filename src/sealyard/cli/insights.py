"""`sealyard insights`: show what was learned from the journal, and forget it. It needs the store, not a gateway."""

from collections.abc import Sequence

import click
import msgspec

from sealyard.cli.command import CONFIG_ARGUMENT, JSON, LOCAL, answer, read_config, with_store
from sealyard.cli.terminal import errors, minute, plain, say, say_unwrapped, show_table, warn
from sealyard.config import Config
from sealyard.errors import InvalidRequest
from sealyard.learning import Insight, Insights, Learner
from sealyard.store import Store
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
@click.option("--part", type=click.Choice(list(_TITLES)), help="Show this part alone, with all its entries.")
@click.option("--principal", metavar="NAME", help="Show the evidence that one principal is advised from.")
@click.option(
    "--forget",
    "subject",
    metavar="TOOL|PRINCIPAL|ALL",
    help="Forget what was learned of a tool, of a principal (also as tool:NAME, principal:NAME), or all of it.",
)
@click.option("--rebuild", is_flag=True, help="Learn everything anew from the journal first.")
@JSON
def insights(*, part: str | None, principal: str | None, subject: str | None, rebuild: bool) -> None:
    """Show what was learned from experience, and forget it.

    CONFIG is a sealyard.toml or a file such as .mcp.json: it names the store. What is forgotten stays in the journal
    and in the audit log, and is not learned from any more. Gateways on the same store forget it within seconds.
    """
    if subject is not None and (part or principal or rebuild):
        raise click.UsageError("--forget shows nothing. Leave out --part, --principal and --rebuild.")
    loaded = read_config()
    if subject is not None:
        learning = loaded.learning
        done = with_store(loaded, lambda store: Learner(store, learning).forget_named(subject, principal=LOCAL))
        answer(done, lambda: say_unwrapped(f"forgotten: {_name(done)}"))
        return
    with errors.status("Learning from the journal"):
        found = with_store(loaded, lambda store: _look(store, loaded, principal, rebuild=rebuild))
    if part is not None:
        found = msgspec.structs.replace(found, parts=[each for each in found.parts if each.part == part])
    answer(found, lambda: _show(found) if part is None else _show_part(found))


async def _look(store: Store, config: Config, principal: str | None, *, rebuild: bool) -> Insights:
    scopes, settings = config.http.scopes(), config.learning
    if principal is not None:
        await _check(store, principal, list(scopes))
    learner = Learner(store, settings)
    if rebuild:
        await learner.rebuild()
    else:
        await learner.once()
        await learner.save()  # the next look need not learn it again
    return await learner.insights(principal, domain=settings.domain_of(principal or "", scopes))


async def _check(store: Store, principal: str, configured: Sequence[str]) -> None:
    """Raise `InvalidRequest` for an unknown principal."""
    _, seen = await store.learning.known()
    known = sorted({*seen, *configured})
    if principal not in known:
        advice = suggest(principal, known, f"There are: {', '.join(known[:20]) or 'none yet'}.")
        raise InvalidRequest(f"No principal is called {principal[:100]!r}. {advice}")


def _show(found: Insights) -> None:
    _warn(found)
    rows = []
    for each in found.parts:
        right = "-" if each.accuracy is None else f"{each.accuracy:.0%}"
        rows.append((each.part, each.learned, each.evidence, each.checked, right, plain(_TITLES[each.part], "dim")))
    show_table("part", "learned", "from", "checked", "right", "", rows=rows)
    shared = "by all" if found.scope == "shared" else f"by each {found.scope}"
    say(f"\nlearned from {found.facts:,} facts, {shared}; half-life {found.half_life_days:g} days", "dim")
    for part in found.parts:
        _show_items(_TITLES[part.part], part.items, more=f"sealyard insights --part {part.part}")
    for gone in found.forgotten[:_FEW]:
        say(f"forgotten on {minute(gone.at)} UTC: {_name(gone)}", "dim")
    _show_more(found.forgotten, "sealyard insights --json")


def _show_part(found: Insights) -> None:
    """Show the only part of these insights whole."""
    _warn(found)
    for part in found.parts:
        right = f", right {part.right:,} of {part.checked:,} times" if part.checked else ""
        say(f"{part.part}: {part.learned:,} learned from {part.evidence:,}{right}")
        _show_items(_TITLES[part.part], part.items)


def _warn(found: Insights) -> None:
    if not found.enabled:
        warn("learning is switched off by [learning] in the configuration")
    for name, count in sorted(found.faults.items()):
        warn(f"{name} failed {count:,} times and learned nothing from that")


def _show_items(title: str, items: Sequence[Insight], *, more: str = "") -> None:
    """Show all items, or a few and the command that shows `more`."""
    rows = (
        (
            item.subject,
            item.text,
            f"{item.evidence:.1f}",
            f"{item.right:,} of {item.checked:,}" if item.checked else "",
            plain(minute(item.last_at), "dim"),
        )
        for item in (items[:_FEW] if more else items)
    )
    show_table("about", "", "evidence", "right", "last (UTC)", rows=rows, title=f"\n{title}")
    if more:
        _show_more(items, more)


def _show_more(items: Sequence[object], command: str) -> None:
    if len(items) > _FEW:
        say(f"… and {len(items) - _FEW} more: {command}", "dim")


def _name(forgotten: Forgotten) -> str:
    return "everything" if forgotten.what == "all" else f"{forgotten.what} {forgotten.subject}"
