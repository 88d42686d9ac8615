"""Everything that was learned from some events. Each part learns by itself, and none that breaks harms another.

The same lessons in the same order make the same bytes.
"""

import hashlib
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from sealyard import __version__
from sealyard.learning.chains import Chains
from sealyard.learning.domains import Domains
from sealyard.learning.failures import Failures
from sealyard.learning.insights import PartInsights
from sealyard.learning.lessons import Lesson
from sealyard.learning.ranking import Ranking
from sealyard.learning.resources import Resources
from sealyard.learning.risk import Dangers
from sealyard.learning.shapes import Shapes
from sealyard.learning.skills import SkillMemory
from sealyard.values import Hinted, RunEvidence, Searched, Used

__all__ = ("PARTS", "Model", "layout")

_log = logging.getLogger(__name__)

PARTS: dict[str, type[Any]] = {
    "ranking": Ranking,
    "chains": Chains,
    "shapes": Shapes,
    "failures": Failures,
    "risk": Dangers,
    "skills": SkillMemory,
    "resources": Resources,
    "domains": Domains,
}


class Model(msgspec.Struct, kw_only=True):
    """What was learned. Only the event loop's thread touches it."""

    ranking: Ranking = msgspec.field(default_factory=Ranking)
    chains: Chains = msgspec.field(default_factory=Chains)
    shapes: Shapes = msgspec.field(default_factory=Shapes)
    failures: Failures = msgspec.field(default_factory=Failures)
    risk: Dangers = msgspec.field(default_factory=Dangers)
    skills: SkillMemory = msgspec.field(default_factory=SkillMemory)
    resources: Resources = msgspec.field(default_factory=Resources)
    domains: Domains = msgspec.field(default_factory=Domains)
    faults: dict[str, int] = {}
    """How many lessons each part could not learn."""

    def learn(self, lesson: Lesson, half_life: float) -> None:
        """Take in one lesson. A part that fails is counted; the others learn it."""
        for part in lesson.faults:
            self._note_fault(part)
        event = lesson.event
        match event:
            case Searched():
                self._feed(lesson, "ranking", lambda: self.ranking.searched(event))
            case Used():
                self._feed(lesson, "ranking", lambda: self.ranking.used(event))
            case Hinted():
                self._learn_hint(lesson, event)
            case RunEvidence():
                self._learn_run(lesson, event, half_life)

    def _learn_hint(self, lesson: Lesson, event: Hinted) -> None:
        self._feed(lesson, "chains", lambda: self.chains.hinted(event))
        self._feed(lesson, "shapes", lambda: self.shapes.hinted(event))
        self._feed(lesson, "failures", lambda: self.failures.hinted(event))
        self._feed(lesson, "skills", lambda: self.skills.hinted(event))

    def _learn_run(self, lesson: Lesson, run: RunEvidence, half_life: float) -> None:
        code = lesson.code
        self._feed(lesson, "ranking", lambda: self.ranking.ran(run, half_life))
        self._feed(lesson, "chains", lambda: self.chains.learn(run, lesson.flows, half_life))
        self._feed(lesson, "shapes", lambda: self.shapes.learn(run, lesson.answers, half_life))
        self._feed(lesson, "failures", lambda: self.failures.learn(run, code, lesson.cause, half_life))
        self._feed(lesson, "risk", lambda: self.risk.learn(run, code, half_life))
        self._feed(lesson, "skills", lambda: self.skills.learn(run, code, half_life))
        self._feed(lesson, "resources", lambda: self.resources.learn(run, code, half_life))
        self._feed(lesson, "domains", lambda: self.domains.learn(run, half_life))

    def _feed(self, lesson: Lesson, part: str, learn: Callable[[], None]) -> None:
        if part in lesson.faults:
            return
        try:
            learn()
        except Exception:  # noqa: BLE001 - a broken part must neither stop nor falsify the others
            self._note_fault(part)
            if self.faults[part].bit_count() == 1:  # the first, the second, the fourth: not each of thousands
                _log.exception("What is learned of %s failed %d times.", part, self.faults[part])

    def _note_fault(self, part: str) -> None:
        self.faults[part] = self.faults.get(part, 0) + 1

    def insights(self, now: float, half_life: float) -> list[PartInsights]:
        """What each part says of itself; one that fails says nothing."""
        found = []
        for part in PARTS:
            try:
                found.append(getattr(self, part).insights(now, half_life))
            except Exception:  # noqa: BLE001 - as above
                _log.exception("What was learned of %s cannot be told.", part)
        return found

    def encode(self) -> bytes:
        """All of it."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, content: bytes) -> "Model":
        """What `encode` made. Raises `ValueError` for anything else."""
        try:
            return msgspec.msgpack.decode(content, type=cls)
        except RecursionError:
            raise ValueError("The content is nested too deeply to be a model.") from None


def layout() -> str:
    """The same for models that can be read, and that were learned in the same way."""
    described = msgspec.json.encode(msgspec.json.schema(Model), order="sorted")
    return f"{__version__}-{hashlib.blake2b(described, digest_size=8).hexdigest()}"
