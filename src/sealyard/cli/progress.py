"""A progress bar on standard error, for what takes more than a moment."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress

from sealyard.cli.terminal import errors


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """What to tell of the work: what is being done, how much of it is done, and how much there is, or 0."""
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total or None)
