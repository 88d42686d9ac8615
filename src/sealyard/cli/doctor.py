"""`sealyard doctor`: the isolation that this machine offers, what is missing, and how to get it."""

import click
from rich.text import Text

from sealyard.cli.command import JSON, wants_json
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import plain, say, screen, show_facts, show_table, write_json
from sealyard.errors import InvalidRequest
from sealyard.sandbox import IsolationPolicy, Report, examine
from sealyard.sandbox.policy import DEFAULT, PRESETS

_STYLES = {"no": "bold red", "watched": "yellow"}
"""Of limits that the kernel does not hold."""


@click.command()
@click.option("--policy", metavar="NAME", help=f"Print this policy instead: {', '.join(PRESETS)}.")
@JSON
def doctor(*, policy: str | None) -> int:
    """Show what isolation this machine offers.

    Builds a sandbox in each tier and attacks it. Exit code 0: the default level is honoured; 1: it is not.
    """
    if policy is not None:
        if policy not in PRESETS:
            raise InvalidRequest(f"No policy named {policy!r}. Give one of {', '.join(PRESETS)}.")
        _print_policy(PRESETS[policy])
        return 0
    report = run_to_end(examine(DEFAULT))
    if wants_json():
        write_json(report, indent=2)
    else:
        _print_report(report)
    return 0 if report.levels[str(DEFAULT.level)].honoured else 1


def _print_policy(policy: IsolationPolicy) -> None:
    if wants_json():
        write_json(policy, indent=2)
        return
    fields = policy.__struct_fields__
    show_table("field", "value", rows=((field, _spell(getattr(policy, field))) for field in fields))


def _spell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    if isinstance(value, int | float):
        return f"{value:,g}" if isinstance(value, float) else f"{value:,}"
    return str(value)


def _print_report(report: Report) -> None:
    show_facts(
        {
            "machine": report.machine,
            "kernel": report.kernel,
            "Python": report.python,
            "user": report.user,
            "resource control": report.resource_control,
            "packages": ", ".join(f"{name} {version}" for name, version in report.packages.items()) or "none",
        }
    )
    screen.print()
    tiers = (
        (
            tier.name,
            _yes_no(tier.available),
            f"{sum(attack.held for attack in tier.attacks)} of {len(tier.attacks)}",
            tier.reason,
        )
        for tier in report.tiers
    )
    show_table("tier", "available", "attacks held", "reason", rows=tiers)
    screen.print()
    for tier in report.tiers:
        for attack in tier.attacks:
            if not attack.held:
                say(f"{tier.name}: the attack {attack.name!r} got through: {attack.detail}", "bold red")
        if tier.layers:
            layers = (
                (each.name, _yes_no(each.present), each.detail, each.meaning, "" if each.present else each.remedy)
                for each in tier.layers
            )
            show_table(f"layer of {tier.name}", "present", "detail", "meaning", "what to do", rows=layers)
            screen.print()
        if tier.limits:
            limits = ((each.name, plain(each.held, _STYLES.get(each.held, "green")), each.by) for each in tier.limits)
            show_table(f"limit of {tier.name}", "held", "by", rows=limits)
            screen.print()
    levels = ((n, _yes_no(level.honoured), level.tier or "none", level.reason) for n, level in report.levels.items())
    show_table("level", "honoured", "tier", "reason", rows=levels)


def _yes_no(value: bool) -> Text:
    return plain("yes", "green") if value else plain("no", "bold red")
