"""A gateway that lives as long as one command."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from sealyard.cli.command import load
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import errors
from sealyard.config import Config
from sealyard.yard import Yard, open_yard

_T = TypeVar("_T")


def with_yard(
    config: Config | Path | None,
    work: Callable[[Yard], Coroutine[Any, Any, _T]],
    *,
    doing: str = "Asking the servers",
    with_sandbox: bool = False,
) -> _T:
    """Run `work` on the yard of a configuration and return its value. A terminal shows `doing` meanwhile."""
    loaded = config if isinstance(config, Config) else load(config)

    async def run() -> _T:
        async with open_yard(loaded, with_sandbox=with_sandbox) as yard:
            return await work(yard)

    with errors.status(doing):
        return run_to_end(run())
