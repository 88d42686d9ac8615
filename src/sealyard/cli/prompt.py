"""`sealyard prompt`: a system prompt for agents that use sealyard."""

from pathlib import Path

import click

from sealyard.cli.terminal import errors, plain, write
from sealyard.config import load_config
from sealyard.serve.surface import system_prompt


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="A sealyard.toml or a client's file such as .mcp.json.")
def prompt(*, config: Path | None) -> int:
    """Print a system prompt that teaches an agent to work through code."""
    loaded = load_config(config)
    for warning in loaded.warnings:
        errors.print(plain(f"warning: {warning}", "yellow"))
    write(system_prompt(loaded.upstreams))
    return 0
