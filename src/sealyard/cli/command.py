"""Parts that commands share: options and the configuration."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import warn
from sealyard.config import Config, load_config
from sealyard.errors import InvalidRequest
from sealyard.store import Store, open_store

_T = TypeVar("_T")

CONFIG = click.option(
    "--config", type=click.Path(path_type=Path), help="A sealyard.toml or a client's file such as .mcp.json."
)
CONFIG_ARGUMENT = click.argument("config", required=False, type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")
STORE = click.option(
    "--store",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Another store than the configured one.",
)
YES = click.option("--yes", is_flag=True, help="Do not ask.")
LOCAL = "local"
"""The principal of whoever runs a command here."""


def load(config: Path | None) -> Config:
    """Load the configuration that the command or its group names, and show its warnings."""
    parent = click.get_current_context().parent
    loaded = load_config(config or (None if parent is None else parent.params.get("config")))
    for warning in loaded.warnings:
        warn(warning)
    return loaded


def read_object(text: str, option: str) -> dict[str, Any]:
    """Decode the JSON object that an option gives. Raises `InvalidRequest`."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"{option} is not JSON: {error}. Give an object such as '{{\"n\": 3}}'.") from None
    if not isinstance(found, dict):
        raise InvalidRequest(f"{option} is {text!r}, not a JSON object. Give one such as '{{\"n\": 3}}'.")
    return found


def with_store(config: Config, work: Callable[[Store], Coroutine[Any, Any, _T]]) -> _T:
    """Run `work` on the configured store and return its value."""

    async def run() -> _T:
        async with open_store(config.store.path) as store:
            return await work(store)

    return run_to_end(run())
