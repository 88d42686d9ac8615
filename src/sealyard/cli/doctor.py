"""`sealyard doctor`: the isolation that this machine offers, what is missing, and how to get it."""

import click
from rich.text import Text

from sealyard.cli.command import JSON
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import columns, plain, screen, write_json
from sealyard.errors import InvalidRequest
from sealyard.sandbox import IsolationPolicy
from sealyard.sandbox.policy.levels import DEFAULT, PRESETS
from sealyard.sandbox.probe import examine
from sealyard.sandbox.report import Report, TierReport


@click.command()
@click.option("--policy", metavar="NAME", help=f"Print this policy instead: {', '.join(PRESETS)}.")
@JSON
def doctor(*, policy: str | None, as_json: bool) -> int:
    """Show what isolation this machine offers.

    Builds a sandbox in each tier and attacks it. Exit code 0: the default level is honoured; 1: it is not.
    """
    if policy is not None:
        _print_policy(_find_policy(policy), as_json=as_json)
        return 0
    report = run_to_end(examine(DEFAULT))
    if as_json:
        write_json(report, indent=2)
    else:
        _print_report(report)
    return 0 if report.levels[str(DEFAULT.level)].honoured else 1


def _find_policy(name: str) -> IsolationPolicy:
    if name not in PRESETS:
        raise InvalidRequest(f"No policy named {name!r}. Give one of {', '.join(PRESETS)}.")
    return PRESETS[name]


def _print_policy(policy: IsolationPolicy, *, as_json: bool) -> None:
    if as_json:
        write_json(policy, indent=2)
        return
    table = columns("field", "value")
    for field in policy.__struct_fields__:
        table.add_row(plain(field), plain(_spell(getattr(policy, field))))
    screen.print(table)


def _spell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    if isinstance(value, int | float):
        return f"{value:,g}" if isinstance(value, float) else f"{value:,}"
    return str(value)


def _print_report(report: Report) -> None:
    machine = columns()
    machine.add_row("machine", plain(report.machine))
    machine.add_row("kernel", plain(report.kernel))
    machine.add_row("Python", plain(report.python))
    machine.add_row("user", plain(report.user))
    machine.add_row("resource control", plain(report.resource_control))
    machine.add_row("packages", plain(", ".join(f"{name} {v}" for name, v in report.packages.items()) or "none"))
    screen.print(machine, "")

    tiers = columns("tier", "available", "attacks held", "reason")
    for tier in report.tiers:
        held = sum(attack.held for attack in tier.attacks)
        tiers.add_row(plain(tier.name), _yes_no(tier.available), f"{held} of {len(tier.attacks)}", plain(tier.reason))
    screen.print(tiers, "")
    for tier in report.tiers:
        _print_layers(tier)
        _print_limits(tier)

    levels = columns("level", "honoured", "tier", "reason")
    for name, level in report.levels.items():
        levels.add_row(plain(name), _yes_no(level.honoured), plain(level.tier or "none"), plain(level.reason))
    screen.print(levels)


def _print_layers(tier: TierReport) -> None:
    for attack in tier.attacks:
        if not attack.held:
            screen.print(plain(f"{tier.name}: the attack {attack.name!r} got through: {attack.detail}", "bold red"))
    if not tier.layers:
        return
    layers = columns(f"layer of {tier.name}", "present", "detail", "meaning", "what to do")
    for layer in tier.layers:
        layers.add_row(
            plain(layer.name),
            _yes_no(layer.present),
            plain(layer.detail),
            plain(layer.meaning),
            plain("" if layer.present else layer.remedy),
        )
    screen.print(layers, "")


def _print_limits(tier: TierReport) -> None:
    if not tier.limits:
        return
    limits = columns(f"limit of {tier.name}", "held", "by")
    for limit in tier.limits:
        held = {"no": "bold red", "watched": "yellow"}.get(limit.held, "green")
        limits.add_row(plain(limit.name), plain(limit.held, held), plain(limit.by))
    screen.print(limits, "")


def _yes_no(value: bool) -> Text:
    return plain("yes", "green") if value else plain("no", "bold red")
