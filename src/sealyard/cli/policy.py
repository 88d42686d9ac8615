"""`sealyard policy`: explain the verdict on a tool, show all rules, and find rules that fit nothing."""

from collections.abc import Sequence
from typing import Any, get_args

import click
import msgspec
from rich.text import Text

from sealyard.access import Unmatched
from sealyard.broker.policy import UNLIMITED, Policy, PolicySettings, Preset, Rule, Step, ToolLimits, default_preset
from sealyard.cli.command import CONFIG, JSON, LOCAL, answer, find_profile, load, read_object, wants_json
from sealyard.cli.gateway import tool_hint, with_yard
from sealyard.cli.terminal import columns, plain, say, screen, show_facts, show_table, warn, write_json
from sealyard.config import Config
from sealyard.errors import UnknownTool
from sealyard.privacy import Privacy, Reveal
from sealyard.values.tools import ToolSpec
from sealyard.yard import Yard, build_privacy

_STYLES = {"allow": "green", "ask": "yellow", "deny": "red"}
_REVEALS: dict[Reveal, str] = {
    "whole": "a token becomes the value where it is a whole string, and is refused elsewhere",
    "inside": "a token becomes the value wherever it stands",
    "never": "tokens stay tokens",
}
_PRINCIPAL = click.option("--principal", default=LOCAL, show_default=True, metavar="NAME", help="Who would call it.")
_PROFILE = click.option("--profile", metavar="NAME", help="As at the URL of this profile of the config.")
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
@_PROFILE
@_PRESET
@CONFIG
@JSON
def explain(*, tool: str, principal: str, arguments: str | None, profile: str | None, preset: Preset | None) -> None:
    """Say what becomes of calls of TOOL, by which rule and why.

    TOOL is a full name such as mcp__mail__send, or mail/send.
    """
    given = None if arguments is None else read_object(arguments, "--arguments")
    loaded = load()
    rules, why_preset = _build(loaded, preset)
    spec = with_yard(lambda yard: _find(yard, tool), config=loaded)
    explanation = _explain(rules, why_preset, spec, principal, given, build_privacy(loaded.privacy))
    scope, narrowing = loaded.http.scopes().get(principal), find_profile(profile, loaded)
    if not all(each is None or each.has(spec.upstream) for each in (scope, narrowing)):
        explanation = msgspec.structs.replace(explanation, hidden=True)
    answer(explanation, lambda: _show_explanation(explanation))


@policy.command()
@CONFIG
@JSON
def check() -> int:
    """Find rules, limits, privacy rules and direct tools that name nothing there is.

    Exit code 0: every name fits something; 1: one does not, or a server did not answer, so that it cannot be known.
    """
    loaded = load()
    found, silent = with_yard(lambda yard: _check(yard, loaded), config=loaded)
    shown = [{**msgspec.structs.asdict(each), "message": each.message} for each in found]
    answer({"unmatched": shown, "silent": silent}, lambda: _show_unmatched(found, silent))
    return 1 if found or silent else 0


def _show_unmatched(found: Sequence[Unmatched], silent: Sequence[str]) -> None:
    for each in found:
        say(each.message, "yellow")
    for name in silent:
        say(f"Server {name!r} did not answer, so names of its tools could not be checked.", "yellow")
    if not found and not silent:
        say("Every name fits something.", "green")


@policy.command()
@click.option("--tools", "with_tools", is_flag=True, help="Also what the rules say of every tool.")
@_PRINCIPAL
@_PRESET
@CONFIG
@JSON
def show(*, with_tools: bool, principal: str, preset: Preset | None) -> None:
    """Show all rules, all limits and the preset.

    The first rule that fits decides, the first limits that name a tool are its own, and the preset holds where no rule
    fits.
    """
    loaded = load()
    rules, why_preset = _build(loaded, preset)

    async def read(yard: Yard) -> tuple[list[ToolSpec], tuple[Unmatched, ...]]:
        specs = (await yard.snapshot()).tools.values()
        return sorted(specs, key=lambda spec: (spec.upstream, spec.function)), await yard.tools.unmatched()

    specs, unmatched = with_yard(read, config=loaded)
    for each in unmatched:
        warn(each.message)
    privacy = build_privacy(loaded.privacy)
    found = [_explain(rules, why_preset, spec, principal, None, privacy) for spec in specs if with_tools]
    if wants_json():
        settings = msgspec.structs.replace(loaded.policy, preset=rules.preset)
        shown: dict[str, Any] = {"policy": settings, "preset_reason": why_preset, "trusted": sorted(rules.trusted)}
        shown["profiles"] = loaded.profiles
        write_json(shown | ({"tools": found} if with_tools else {}))
        return
    _show_all(loaded.policy, found)
    say(f"Preset {rules.preset}: {why_preset}")
    say(f"Trusted servers: {', '.join(sorted(rules.trusted)) or 'none'}")
    for name, profile in loaded.profiles.items():
        say(f"Profile {name}: servers {', '.join(profile.upstreams or ('*',)) or 'none'}, at /mcp/p/{name}")


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
        raise UnknownTool(f"No tool named {name!r}. {tool_hint(snapshot, name)}")
    return spec


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
    say(f"{found.verdict} {found.tool} for {found.principal}{unless}", f"bold {_STYLES[found.verdict]}")
    say(f"by {found.rule}: {found.reason}")
    screen.print()
    show_table("rule", "says", "fits", "why", rows=map(_step_row, found.steps))
    screen.print()
    trust = (
        "trusted: what it says of its tools counts" if found.trusted else "not trusted: its tools' hints relax nothing"
    )
    show_facts(
        {
            "server": f"{found.upstream}, {trust}",
            "effect": f"counts as {found.effect}",
            "preset": f"{found.preset}: {found.preset_reason}",
            "hidden": "yes: in no search, stub or grant" if found.hidden else "no",
            "limits": _spell_limits(found.limits),
            "reveal": f"{found.reveal}: {_REVEALS[found.reveal]}",
        }
    )


def _step_row(step: Step) -> list[Text]:
    style = _STYLES[step.verdict] if step.decides else "dim"
    mark = "decides" if step.decides and step.fits == "yes" else step.fits
    return [plain(text, style) for text in (step.rule, step.verdict, mark, step.why)]


def _show_all(settings: PolicySettings, found: Sequence[_Explanation]) -> None:
    tables = (
        columns(
            *("rule", "says", "tools", "effect", "principals", "when", "reason"),
            rows=(_rule_row(number, rule) for number, rule in enumerate(settings.rules)),
        ),
        columns(
            *("limits", "tools", ""),
            rows=((str(n), ", ".join(each.tools), _spell_limits(each)) for n, each in enumerate(settings.limits)),
        ),
        columns("tool", "says", "by", "hidden", rows=map(_tool_row, found)),
    )
    for table in tables:
        if table.row_count:
            screen.print(table)
            screen.print()


def _rule_row(number: int, rule: Rule) -> tuple[str | Text, ...]:
    says, when = (
        plain(rule.decision, _STYLES[rule.decision]),
        msgspec.json.encode(rule.when).decode() if rule.when else "",
    )
    return str(number), says, ", ".join(rule.tools), rule.effect, ", ".join(rule.principals), when, rule.reason


def _tool_row(found: _Explanation) -> tuple[str | Text, ...]:
    says = f"{found.verdict} or as arguments decide" if found.depends_on_arguments else found.verdict
    return found.tool, plain(says, _STYLES[found.verdict]), found.rule, "yes" if found.hidden else ""


def _spell_limits(limits: ToolLimits) -> str:
    if limits is UNLIMITED:
        return "none"
    fields = {field: getattr(limits, field) for field in limits.__struct_fields__ if field != "tools"}
    if limits.breaker_failures is None:
        del fields["breaker_seconds"]
    return ", ".join(f"{field} {value:g}" for field, value in fields.items() if value) or "none"
