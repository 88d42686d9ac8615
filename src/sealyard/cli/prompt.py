"""`sealyard prompt`: a system prompt for agents that use sealyard."""

import click

from sealyard.cli.command import CONFIG, load
from sealyard.cli.terminal import write
from sealyard.yard.surface import system_prompt


@click.command()
@CONFIG
def prompt() -> None:
    """Print a system prompt that teaches an agent to work through code."""
    loaded = load()
    write(system_prompt(loaded.upstreams))
