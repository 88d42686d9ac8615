"""`sealyard bench`: says where the benchmarks are. They measure the product and are not installed with it."""

import shlex

import click

from sealyard.errors import InvalidRequest


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, metavar="[NAME]", type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Say how to run the benchmarks, which are not installed.

    They are in the source tree of sealyard, and `python -m benchmarks` runs them there. This command always fails with
    exit code 2.
    """
    command = shlex.join((".venv/bin/python", "-m", "benchmarks", *(arguments or ("--help",))))
    raise InvalidRequest(
        "Benchmarks are not installed with sealyard, they are in its source tree. "
        f"Run `make setup` there, then `{command}`."
    )
