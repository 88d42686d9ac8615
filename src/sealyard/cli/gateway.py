"""A gateway that lives as long as one command."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from rich.status import Status

from sealyard.catalog import Snapshot
from sealyard.cli.command import load
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import errors
from sealyard.config import Config
from sealyard.yard import Yard, open_yard

_T = TypeVar("_T")


def tool_hint(snapshot: Snapshot, name: str) -> str:
    """Return what follows after the message that no tool has this name."""
    nearest = ", ".join(map(repr, snapshot.nearest(name)))
    return f"Nearest: {nearest}." if nearest else "`sealyard tools` lists those there are."


def with_yard(
    work: Callable[[Yard], Coroutine[Any, Any, _T]],
    *,
    config: Config | None = None,
    doing: str | Status = "Asking the servers",
    with_sandbox: bool = False,
) -> _T:
    """Run `work` on the yard of the configuration and return its value. A terminal shows `doing` meanwhile."""
    loaded = config or load()

    async def run() -> _T:
        async with open_yard(loaded, with_sandbox=with_sandbox) as yard:
            return await work(yard)

    with errors.status(doing) if isinstance(doing, str) else doing:
        return run_to_end(run())
