"""`.venv/bin/python -m benchmarks NAME`: measures one part of sealyard and prints its figures beside their promises.

Every name is a module of this package. Its `measure` takes the options of the command as arguments and returns the
figures, of which `show` prints tables. Exit codes are those of `sealyard`.
"""

import functools
import importlib
import inspect
from pathlib import Path
from typing import Any

import click
import msgspec

from benchmarks.tables import show_figures
from sealyard.cli import exit_after
from sealyard.cli.loop import run_to_end

_SETS = "A folder of sets: folders with tools.jsonl and queries.jsonl, or tools.jsonl alone for distractors."
_LABELLED = "A folder of labelled rows and texts: csv_*, json_*, text_*, neg_* and secrets_*, each .jsonl or .jsonl.gz."


def _json() -> click.Option:
    return click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object.")


def _number(name: str, default: int, least: int, most: int, sentence: str) -> click.Option:
    return click.Option([name], default=default, show_default=True, type=click.IntRange(least, most), help=sentence)


def _rounds(default: int, least: int, most: int, sentence: str = "Samples of each kind.") -> click.Option:
    return _number("--rounds", default, least, most, sentence)


def _data(sentence: str, *, required: bool = False) -> click.Option:
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    return click.Option(["--data"], required=required, type=folder, metavar="DIR", help=sentence)


def _tools(sentence: str) -> click.Option:
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.Option(["--tools"], type=file, metavar="FILE", help=sentence)


BENCHMARKS: dict[str, tuple[str, list[click.Option]]] = {
    "sandbox": (
        "The cost of sealed runs and calls beside a bare Python and a bare socket.",
        [_rounds(60, 5, 10_000)],
    ),
    "calls": (
        "The cost of tool calls and runs through the whole gateway.",
        [_rounds(60, 5, 10_000, "Runs of each kind.")],
    ),
    "fairness": (
        "The time of one principal's small runs beside another one's sixty, against the time alone.",
        [_rounds(20, 5, 10_000)],
    ),
    "peers": (
        "Runs and calls beside FastMCP's code mode, which it installs into an environment of its own.",
        [_rounds(40, 5, 1_000, "Runs of each kind.")],
    ),
    "audit": (
        "The cost of audit entries beside bare SQLite inserts of the same rows.",
        [_rounds(20, 1, 10_000)],
    ),
    "analysis": (
        "The cost of analyses beside the same job in pure Python and in pandas, and the tokens they save.",
        [_rounds(10, 1, 1_000)],
    ),
    "http": (
        "The HTTP API beside a bare endpoint, and runs with the journal beside runs without it.",
        [_rounds(5, 1, 1_000)],
    ),
    "tokens": (
        "The tokens that an agent pays, beside having every definition and every row in its context.",
        [
            _tools(
                "Tools to stand behind sealyard, one JSON object a line with server, name, description and inputSchema."
            )
        ],
    ),
    "discovery": (
        "The quality and the speed of a search for tools, on sets of tools and queries.",
        [
            _data(_SETS, required=True),
            click.Option(["--semantic"], is_flag=True, help="Rank by meaning too. Needs the extra `semantic`."),
            click.Option(
                ["--store"],
                type=click.Path(dir_okay=False, path_type=Path),
                metavar="FILE",
                help="Keep the vectors of --semantic in this store for the next time.",
            ),
        ],
    ),
    "privacy": (
        "The share of private values that is found, and what hiding them costs.",
        [
            _data(_LABELLED),
            _rounds(
                3,
                0,
                100,
                "Runs of the whole way from rows to mails, beside the same without privacy, and of a search by kind of"
                " text; 0 leaves both out.",
            ),
        ],
    ),
    "tasks": (
        "Tasks of AgentDojo call by call and as one script: what is lost, what it costs, and what stops attacks.",
        [
            click.Option(
                ["--suite", "suites"],
                multiple=True,
                type=click.Choice(["workspace", "travel", "banking", "slack"]),
                help="Measure only this; may be given several times. By default all.",
            ),
            _data("A folder with a folder for each suite whose environment.yaml and injection_vectors.yaml it has."),
            click.Option(["--tasks"], type=click.IntRange(1), help="Measure only the first tasks of each suite."),
            click.Option(
                ["--part", "parts"],
                multiple=True,
                type=click.Choice(["tasks", "attacks", "code_mode"]),
                help="Measure only this, beside the tasks; may be given several times. By default all.",
            ),
        ],
    ),
    "skills": (
        "The cost of skills, and how well they survive changes to the tools they call.",
        [
            _tools("Tools to change and to write code for, one JSON object a line with server, name and inputSchema."),
            _rounds(20, 1, 1_000),
            _number("--cases", 1_500, 1, 100_000, "Migrations that are tried."),
        ],
    ),
    "learning": (
        "The gain from experience, and what it costs to ask it.",
        [
            _data(_SETS),
            click.Option(
                ["--part", "parts"],
                multiple=True,
                type=click.Choice(["ranking", "lookups", "hints", "shapes", "resources", "chains", "risk"]),
                help="Measure only this; may be given several times. By default all.",
            ),
        ],
    ),
    "start": (
        "The time until a gateway lists its tools and has run code, beside the smallest server on the same SDK.",
        [_rounds(10, 1, 1_000, "Starts of each kind.")],
    ),
    "stalls": (
        "The longest time that hostile input holds the event loop, and by how much it holds a deadline back.",
        [
            click.Option(
                ["--case", "names"],
                multiple=True,
                help="Only cases whose name contains this; may be given several times.",
            )
        ],
    ),
}
"""By the name of its module: a sentence, and the options of the command but `--json`."""


def _run(name: str, as_json: bool, **options: Any) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    figures = module.measure(**options)
    if inspect.iscoroutine(figures):
        figures = run_to_end(figures)
    if as_json:
        click.echo(msgspec.json.encode(figures).decode())
    else:
        getattr(module, "show", show_figures)(figures)


def main() -> None:
    """Run the benchmark that the arguments name and exit with its code."""
    commands = {
        name: click.Command(name, help=sentence, params=[*options, _json()], callback=functools.partial(_run, name))
        for name, (sentence, options) in BENCHMARKS.items()
    }
    group = click.Group(
        commands=commands,
        help="Measure sealyard beside a yardstick, in one run.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    exit_after(lambda: group.main(prog_name="python -m benchmarks", standalone_mode=False))


if __name__ == "__main__":
    main()
