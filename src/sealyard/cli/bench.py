"""`sealyard bench`: figures for what SPECIFICATION.md promises, each taken beside its yardstick in one run."""

from pathlib import Path
from typing import Any

import click
import msgspec

from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import columns, plain, screen

__all__ = ("bench",)


@click.group()
def bench() -> None:
    """Measure sealyard beside a yardstick, in one run."""


@bench.command()
@click.option("--rounds", default=60, show_default=True, type=click.IntRange(5, 10_000), help="Samples of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def sandbox(rounds: int, as_json: bool) -> None:
    """The cost of sealed runs and calls beside a bare Python and a bare socket."""
    from benchmarks.sandbox import measure  # noqa: PLC0415 - keeps `bench --help` light

    _show(run_to_end(measure(rounds)), as_json=as_json)


@bench.command()
@click.option("--rounds", default=60, show_default=True, type=click.IntRange(5, 10_000), help="Runs of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--fairness", is_flag=True, hidden=True)
def calls(rounds: int, as_json: bool, fairness: bool) -> None:
    """The cost of tool calls and runs through the whole gateway."""
    from benchmarks.calls import measure  # noqa: PLC0415 - keeps `bench --help` light

    if fairness:
        from benchmarks.fairness import measure as measure_fairness  # noqa: PLC0415

        click.echo(msgspec.json.format(msgspec.json.encode(run_to_end(measure_fairness(rounds)))))
        return
    _show(run_to_end(measure(rounds)), as_json=as_json)


@bench.command()
@click.option("--rounds", default=40, show_default=True, type=click.IntRange(5, 1_000), help="Runs of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def peers(rounds: int, as_json: bool) -> None:
    """Runs and calls beside FastMCP's code mode, which it installs into an environment of its own."""
    from benchmarks.peers import measure  # noqa: PLC0415 - keeps `bench --help` light

    _show(run_to_end(measure(rounds)), as_json=as_json)


@bench.command()
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(1, 10_000), help="Samples of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def audit(rounds: int, as_json: bool) -> None:
    """The cost of audit entries beside bare SQLite inserts of the same rows."""
    from benchmarks.audit import measure  # noqa: PLC0415 - keeps `bench --help` light

    _show(run_to_end(measure(rounds)), as_json=as_json)


@bench.command()
@click.option("--rounds", default=10, show_default=True, type=click.IntRange(1, 1_000), help="Samples of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def analysis(rounds: int, as_json: bool) -> None:
    """The cost of analyses beside the same job in pure Python and in pandas, and the tokens they save."""
    from benchmarks.analysis import measure  # noqa: PLC0415 - keeps `bench --help` light

    _show(run_to_end(measure(rounds)), as_json=as_json)


@bench.command()
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 1_000), help="Samples of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def http(rounds: int, as_json: bool) -> None:
    """The HTTP API beside a bare endpoint, and runs with the journal beside runs without it."""
    from benchmarks.http import measure  # noqa: PLC0415 - keeps `bench --help` light

    _show(run_to_end(measure(rounds)), as_json=as_json)


@bench.command()
@click.option(
    "--tools",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Tools to stand behind sealyard, one JSON object a line with server, name, description and inputSchema.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def tokens(tools: Path | None, as_json: bool) -> None:
    """What an agent pays in tokens, beside having every definition and every row in its context."""
    from benchmarks.tokens import measure, show  # noqa: PLC0415 - keeps `bench --help` light

    figures = run_to_end(measure(tools))
    if as_json:
        click.echo(msgspec.json.encode(figures).decode())
    else:
        show(figures)


@bench.command()
@click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A folder of sets: folders with tools.jsonl and queries.jsonl, or tools.jsonl alone for distractors.",
)
@click.option("--semantic", is_flag=True, help="Rank by meaning too. Needs the extra `semantic`.")
@click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep the vectors of --semantic in this store for the next time.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def discovery(data: Path, semantic: bool, store: Path | None, as_json: bool) -> None:
    """How well and how fast tools are found, on sets of tools and queries."""
    from benchmarks.discovery import measure, show  # noqa: PLC0415 - keeps `bench --help` light

    figures = run_to_end(measure(data, semantic=semantic, store=store))
    if as_json:
        click.echo(msgspec.json.encode(figures).decode())
    else:
        show(figures)


@bench.command()
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A folder of labelled rows and texts: csv_*, json_*, text_*, neg_* and secrets_*, each .jsonl or .jsonl.gz.",
)
@click.option(
    "--rounds",
    default=3,
    show_default=True,
    type=click.IntRange(0, 100),
    help="Runs of the whole way from rows to mails, beside the same without privacy, and of a search by kind of text;"
    " 0 leaves both out.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def privacy(data: Path | None, rounds: int, as_json: bool) -> None:
    """What is found of private values, and what hiding them costs."""
    from benchmarks.privacy import scanner as bench_scanner  # noqa: PLC0415
    from benchmarks.privacy.detection import measure, show  # noqa: PLC0415 - keeps `bench --help` light
    from benchmarks.privacy.mails import measure_path, show_path  # noqa: PLC0415

    found = {} if data is None else measure(data)
    path = run_to_end(measure_path(rounds)) if rounds else {}
    scanner = bench_scanner.measure(rounds=rounds) if rounds else {}
    if as_json:
        more = {"end_to_end": path, "scanner": scanner} if rounds else {}
        click.echo(msgspec.json.encode({**found, **more}).decode())
        return
    if found:
        show(found)
    if rounds:
        show_path(path)
        bench_scanner.show(scanner)


@bench.command()
@click.option(
    "--tools",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Tools to change and to write code for, one JSON object a line with server, name and inputSchema.",
)
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(1, 1_000), help="Samples of each kind.")
@click.option(
    "--cases", default=1_500, show_default=True, type=click.IntRange(1, 100_000), help="Migrations that are tried."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def skills(tools: Path | None, rounds: int, cases: int, as_json: bool) -> None:
    """The cost of skills, and how well they survive changes to the tools they call."""
    from benchmarks.migration import measure_migration, show_migration  # noqa: PLC0415
    from benchmarks.skills import PROMISES, measure_skills, read_specs, show_skills  # noqa: PLC0415

    migration = measure_migration(run_to_end(read_specs(tools)), cases=cases)  # runs code: not within an event loop
    figures = {**run_to_end(measure_skills(rounds)), **migration, "promises": PROMISES}
    if as_json:
        click.echo(msgspec.json.encode(figures).decode())
    else:
        show_migration(figures)
        show_skills(figures)


@bench.command()
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A folder of sets: folders with tools.jsonl and queries.jsonl, or tools.jsonl alone for distractors.",
)
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice(["ranking", "lookups", "hints", "shapes", "resources"]),
    help="Measure only this; may be given several times. By default all.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def learning(data: Path | None, parts: tuple[str, ...], as_json: bool) -> None:
    """What experience makes better, and what it costs to ask it."""
    from benchmarks.learning import PARTS, measure, show  # noqa: PLC0415 - keeps `bench --help` light

    figures = measure(data, parts or PARTS)
    if as_json:
        click.echo(msgspec.json.encode(figures).decode())
    else:
        show(figures)


@bench.command()
@click.option("--case", "cases", multiple=True, help="Only cases whose name contains this; may be given several times.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def stalls(cases: tuple[str, ...], as_json: bool) -> None:
    """How long hostile input holds the event loop, and by how much it holds a deadline back."""
    from benchmarks.stalls import measure, show  # noqa: PLC0415 - keeps `bench --help` light

    figures = run_to_end(measure(cases))
    if as_json:
        click.echo(msgspec.json.encode(figures).decode())
    else:
        show(figures)


def _show(figures: dict[str, Any], *, as_json: bool) -> None:
    """Samples, then each figure beside what is promised of it."""
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
    where = [f"{key} {figures[key]}" for key in ("tier", "resource_control", "load", "bare_python") if key in figures]
    screen.print(plain(", ".join(where).replace("_", " "), "dim"))
