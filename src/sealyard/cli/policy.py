"""`sealyard policy`: explain the verdict on a tool, show all rules, and find rules that fit nothing."""

from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from sealyard.access.unmatched import Unmatched
from sealyard.broker import Policy, PolicySettings, Preset, Rule, ToolLimits
from sealyard.broker.policy import UNLIMITED, Step, default_preset
from sealyard.cli.command import CONFIG, JSON, LOCAL, load, read_object
from sealyard.cli.gateway import with_yard
from sealyard.cli.terminal import columns, plain, screen, warn, write_json
from sealyard.config import Config
from sealyard.errors import UnknownTool
from sealyard.privacy import Privacy, Reveal
from sealyard.values.tools import ToolSpec
from sealyard.yard import Yard
from sealyard.yard.assembly import build_privacy

_STYLES = {"allow": "green", "ask": "yellow", "deny": "red"}
_REVEALS: dict[Reveal, str] = {
    "whole": "a token becomes the value where it is a whole string, and is refused elsewhere",
    "inside": "a token becomes the value wherever it stands",
    "never": "tokens stay tokens",
}
_PRINCIPAL = click.option("--principal", default=LOCAL, show_default=True, metavar="NAME", help="Who would call it.")
_PRESET = click.option("--preset", type=click.Choice(get_args(Preset)), help="As if this preset held.")


class _Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The object that `--json` prints."""

    tool: str
    principal: str
    verdict: str
    rule: str
    reason: str
    depends_on_arguments: bool
    """Without `--arguments`: another rule decides if its conditions on them hold."""
    hidden: bool
    effect: str
    upstream: str
    trusted: bool
    preset: str
    preset_reason: str
    steps: list[Step]
    limits: ToolLimits
    reveal: Reveal
    """Where in its arguments a token becomes the private value."""


@click.group()
def policy() -> None:
    """Show which calls are allowed, asked for or denied, and why."""


@policy.command()
@click.argument("tool")
@_PRINCIPAL
@click.option("--arguments", metavar="JSON", help="What it would be called with, for rules with conditions.")
@_PRESET
@CONFIG
@JSON
def explain(
    *,
    tool: str,
    principal: str,
    arguments: str | None,
    preset: Preset | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Say what becomes of calls of TOOL, by which rule and why.

    TOOL is a full name such as mcp__mail__send, or mail/send.
    """
    given = None if arguments is None else read_object(arguments, "--arguments")
    loaded = load(config)
    rules, why_preset = _build(loaded, preset)
    spec = with_yard(loaded, lambda yard: _find(yard, tool))
    explanation = _explain(rules, why_preset, spec, principal, given, build_privacy(loaded.privacy))
    if as_json:
        write_json(explanation)
    else:
        _show_explanation(explanation)
    return 0


@policy.command()
@CONFIG
@JSON
def check(*, config: Path | None, as_json: bool) -> int:
    """Find rules, limits, privacy rules and direct tools that name nothing there is.

    Exit code 0: every name fits something; 1: one does not, or a server did not answer, so that it cannot be known.
    """
    loaded = load(config)
    found, silent = with_yard(loaded, lambda yard: _check(yard, loaded))
    if as_json:
        shown = [{**msgspec.structs.asdict(each), "message": each.message} for each in found]
        write_json({"unmatched": shown, "silent": silent})
    else:
        for each in found:
            screen.print(plain(each.message, "yellow"))
        for name in silent:
            screen.print(
                plain(f"Server {name!r} did not answer, so names of its tools could not be checked.", "yellow")
            )
        if not found and not silent:
            screen.print(plain("Every name fits something.", "green"))
    return 1 if found or silent else 0


@policy.command()
@click.option("--tools", "with_tools", is_flag=True, help="Also what the rules say of every tool.")
@_PRINCIPAL
@_PRESET
@CONFIG
@JSON
def show(*, with_tools: bool, principal: str, preset: Preset | None, config: Path | None, as_json: bool) -> int:
    """Show all rules, all limits and the preset.

    The first rule that fits decides, the first limits that name a tool are its own, and the preset holds where no rule
    fits.
    """
    loaded = load(config)
    rules, why_preset = _build(loaded, preset)
    specs, unmatched = with_yard(loaded, _list)
    for each in unmatched:
        warn(each.message)
    if not with_tools:
        specs = []
    privacy = build_privacy(loaded.privacy)
    found = [_explain(rules, why_preset, spec, principal, None, privacy) for spec in specs]
    if as_json:
        settings = msgspec.structs.replace(loaded.policy, preset=rules.preset)
        shown: dict[str, Any] = {"policy": settings, "preset_reason": why_preset, "trusted": sorted(rules.trusted)}
        write_json(shown | ({"tools": found} if with_tools else {}))
        return 0
    _show_rules(loaded.policy)
    _show_limits(loaded.policy)
    _show_tools(found)
    screen.print(plain(f"Preset {rules.preset}: {why_preset}"))
    screen.print(plain(f"Trusted servers: {', '.join(sorted(rules.trusted)) or 'none'}"))
    return 0


def _build(config: Config, preset: Preset | None) -> tuple[Policy, str]:
    """Return the policy, and the reason for its preset."""
    if preset is not None:
        why = "as you ask for it with --preset."
    elif config.policy.preset is not None:
        preset, why = config.policy.preset, "the config says so."
    else:
        preset, elsewhere = default_preset(is_local=True), default_preset(is_local=False)
        why = f"the default on stdio and loopback; served to other machines it is {elsewhere}."
    return Policy(config.policy, preset=preset, trusted=config.trusted), why


async def _find(yard: Yard, name: str) -> ToolSpec:
    snapshot = await yard.snapshot()
    spec = snapshot.find(name)
    if spec is None:
        nearest = ", ".join(map(repr, snapshot.nearest(name)))
        advice = f"Nearest: {nearest}." if nearest else "`sealyard tools` lists those there are."
        raise UnknownTool(f"No tool named {name!r}. {advice}")
    return spec


async def _list(yard: Yard) -> tuple[list[ToolSpec], tuple[Unmatched, ...]]:
    specs = (await yard.snapshot()).tools.values()
    return sorted(specs, key=lambda spec: (spec.upstream, spec.function)), await yard.tools.unmatched()


async def _check(yard: Yard, config: Config) -> tuple[tuple[Unmatched, ...], list[str]]:
    await yard.snapshot()
    # What these keep out is in no catalog: only the servers know whether there is such a tool.
    await yard.tools.finder.refresh([name for name, each in config.upstreams.items() if each.without_tools])
    return await yard.tools.unmatched(), yard.tools.finder.unlisted()


def _explain(
    rules: Policy,
    why_preset: str,
    spec: ToolSpec,
    principal: str,
    arguments: dict[str, Any] | None,
    privacy: Privacy,
) -> _Explanation:
    steps = rules.explain(spec, principal, arguments)
    (decider,) = (step for step in steps if step.decides)
    return _Explanation(
        tool=spec.full_name,
        principal=principal,
        verdict=decider.verdict,
        rule=decider.rule,
        reason=decider.why,
        depends_on_arguments=any(step.fits == "depends" for step in steps),
        hidden=rules.is_hidden(spec, principal),
        effect=rules.effect(spec),
        upstream=spec.upstream,
        trusted=spec.upstream in rules.trusted,
        preset=rules.preset,
        preset_reason=why_preset,
        steps=steps,
        limits=rules.limits(spec),
        reveal=privacy.reveal(spec),
    )


def _show_explanation(found: _Explanation) -> None:
    unless = ", unless a rule that depends on the arguments fits" if found.depends_on_arguments else ""
    screen.print(plain(f"{found.verdict} {found.tool} for {found.principal}{unless}", f"bold {_STYLES[found.verdict]}"))
    screen.print(plain(f"by {found.rule}: {found.reason}"))
    screen.print()
    table = columns("rule", "says", "fits", "why")
    for step in found.steps:
        style = _STYLES[step.verdict] if step.decides else "dim"
        mark = "decides" if step.decides and step.fits == "yes" else step.fits
        table.add_row(*(plain(text, style) for text in (step.rule, step.verdict, mark, step.why)))
    screen.print(table)
    screen.print()
    trust = (
        "trusted: what it says of its tools counts" if found.trusted else "not trusted: its tools' hints relax nothing"
    )
    facts = columns()
    facts.add_row("server", plain(f"{found.upstream}, {trust}"))
    facts.add_row("effect", plain(f"counts as {found.effect}"))
    facts.add_row("preset", plain(f"{found.preset}: {found.preset_reason}"))
    facts.add_row("hidden", plain("yes: in no search, stub or grant" if found.hidden else "no"))
    facts.add_row("limits", plain(_spell_limits(found.limits)))
    facts.add_row("reveal", plain(f"{found.reveal}: {_REVEALS[found.reveal]}"))
    screen.print(facts)


def _show_rules(settings: PolicySettings) -> None:
    table = columns("rule", "says", "tools", "effect", "principals", "when", "reason")
    for number, rule in enumerate(settings.rules):
        says = plain(rule.decision, _STYLES[rule.decision])
        cells = (", ".join(rule.tools), rule.effect, ", ".join(rule.principals), _spell_when(rule), rule.reason)
        table.add_row(str(number), says, *map(plain, cells))
    if settings.rules:
        screen.print(table)
        screen.print()


def _show_limits(settings: PolicySettings) -> None:
    table = columns("limits", "tools", "")
    for number, limits in enumerate(settings.limits):
        table.add_row(str(number), plain(", ".join(limits.tools)), plain(_spell_limits(limits)))
    if settings.limits:
        screen.print(table)
        screen.print()


def _show_tools(found: list[_Explanation]) -> None:
    table = columns("tool", "says", "by", "hidden")
    for each in found:
        says = plain(f"{each.verdict} or as arguments decide" if each.depends_on_arguments else each.verdict)
        says.stylize(_STYLES[each.verdict])
        table.add_row(plain(each.tool), says, plain(each.rule), "yes" if each.hidden else "")
    if found:
        screen.print(table)
        screen.print()


def _spell_when(rule: Rule) -> str:
    return msgspec.json.encode(rule.when).decode() if rule.when else ""


def _spell_limits(limits: ToolLimits) -> str:
    if limits is UNLIMITED:
        return "none"
    fields = {field: getattr(limits, field) for field in limits.__struct_fields__ if field != "tools"}
    if limits.breaker_failures is None:
        del fields["breaker_seconds"]
    return ", ".join(f"{field} {value:g}" for field, value in fields.items() if value) or "none"
