"""`toolyard bench`: figures for what SPECIFICATION.md promises, each taken beside its yardstick in one run."""

import click
import msgspec

from toolyard.cli.loop import run_to_end
from toolyard.cli.terminal import columns, plain, screen

__all__ = ("bench",)


@click.group()
def bench() -> None:
    """Measure toolyard beside a yardstick, in one run."""


@bench.command()
@click.option("--rounds", default=60, show_default=True, type=click.IntRange(5, 10_000), help="Samples of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def sandbox(rounds: int, as_json: bool) -> None:
    """The cost of sealed runs and calls beside a bare Python and a bare socket."""
    from toolyard.cli.bench_sandbox import measure  # noqa: PLC0415 - keeps `bench --help` light

    figures = run_to_end(measure(rounds))
    if as_json:
        click.echo(msgspec.json.encode(figures).decode())
        return
    samples = columns("measured", "p50 ms", "p95 ms", "min ms", "samples")
    for name, timing in figures["samples"].items():
        cells = [f"{timing[key] * 1e3:,.2f}" for key in ("p50_seconds", "p95_seconds", "min_seconds")]
        samples.add_row(plain(name), *cells, str(timing["count"]))
    screen.print(samples)
    screen.print()
    promised = columns("figure", "value", "promised")
    for name, promise in figures["promises"].items():
        value = figures[name]
        promised.add_row(plain(name), "not measured" if value is None else f"{value:,.3f}", plain(promise))
    screen.print(promised)
    screen.print(
        plain(
            f"tier {figures['tier']}, {figures['resource_control']}, load {figures['load']}, "
            f"bare Python {figures['bare_python']}",
            "dim",
        )
    )
