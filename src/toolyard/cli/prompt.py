"""`toolyard prompt`: a system prompt for agents that use toolyard."""

from pathlib import Path

import click

from toolyard.cli.terminal import errors, plain, write
from toolyard.config import load_config
from toolyard.serve.surface import system_prompt

__all__ = ("prompt",)


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="A toolyard.toml or a client's file such as .mcp.json.")
def prompt(*, config: Path | None) -> int:
    """Print a system prompt that teaches an agent to work through code."""
    loaded = load_config(config)
    for warning in loaded.warnings:
        errors.print(plain(f"warning: {warning}", "yellow"))
    write(system_prompt(loaded.upstreams))
    return 0
