"""One record of each execution and call, and everything that reads it: facts, tokens, spans, live views.

`Recorder` opens every execution, `Observer` holds the sinks of a gateway. The gateway's own health, which is readiness
and alerts, is in `health/`.

Exported names are imported on first use: a command that lists alerts needs no sandbox.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.observe.live import Live
    from sealyard.observe.recorder import Recorder, Run, RunObserver, Sink
    from sealyard.observe.sinks import Observer
    from sealyard.observe.upkeep import Upkeep
    from sealyard.observe.visits import Visit

__all__ = ("Live", "Observer", "Recorder", "Run", "RunObserver", "Sink", "Upkeep", "Visit")

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__,
        live="Live",
        recorder="Recorder Run RunObserver Sink",
        sinks="Observer",
        upkeep="Upkeep",
        visits="Visit",
    )
