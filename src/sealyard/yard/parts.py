"""The parts of a gateway that the request path is made of."""

from dataclasses import dataclass

from sealyard.access.guards import Guards
from sealyard.access.runner import Runner
from sealyard.access.tools import Tools
from sealyard.learning.guidance import Guidance
from sealyard.observe.recorder import Recorder
from sealyard.observe.sinks import Observer
from sealyard.skills.service import Skills
from sealyard.store import Store
from sealyard.yard.operations import Operations


@dataclass(kw_only=True, eq=False)
class Parts:
    """The parts that `open_yard` builds, each after those it depends on."""

    store: Store
    guards: Guards
    observer: Observer
    recorder: Recorder
    tools: Tools
    runner: Runner
    skills: Skills
    guidance: Guidance
    operations: Operations
    """The operators' view: readiness, figures, alerts."""
