"""Adds experience to one search: another order, hints at the tools it found, and skills that may do the job."""

import time

import msgspec

from sealyard.catalog import Snapshot
from sealyard.catalog.stubs import returns_text, signature
from sealyard.discovery import Learned
from sealyard.learning.chains import Tip
from sealyard.learning.guidance import Guidance
from sealyard.learning.part import Viewer
from sealyard.learning.skills import Suggestion, suggest_for_query
from sealyard.observe.visits import Visit
from sealyard.values import DetailLevel, Hit, SearchAnswer, ToolSpec

_HINTED = 3
"""The best hits get hints; more would cost more than they tell."""
_CONFLICTS = 2
_SKILLS = 2


class SearchGuide:
    """The experience of one principal, for one search. `query` is concealed, as those are that it learned from."""

    def __init__(self, guidance: Guidance, visit: Visit, view: Snapshot, query: str) -> None:
        self._guidance = guidance
        self._barrier = guidance.barrier
        self._visit = visit
        self._view = view
        self._query = query
        self._model = guidance.model(visit.principal)
        self._viewer = Viewer(visit.principal, time.time(), guidance.half_life)
        self._told: list[Tip] = []
        self._shown: list[str] = []

    def recall(self, query: str) -> Learned | None:
        """The words of the query that tools were used by."""
        return self._barrier.ask(
            "ranking",
            lambda: self._model.ranking.tell(self._query, self._viewer, used=tuple(self._visit.tools)),
            None,
            who=self._visit.principal,
        )

    def decorate(self, spec: ToolSpec, hit: Hit, level: DetailLevel, place: int) -> Hit:
        """A hit with what is known of its tool; `place` is 0 for the best."""
        if level == "name_only":
            return hit
        is_full = level == "full"
        tips = self._tips(spec, is_full=is_full)[: None if is_full else 1] if place < _HINTED else ()
        self._told += tips
        hints = [text for tip in tips for text in (tip.text, tip.code) if text is not None]
        if not is_full:
            return msgspec.structs.replace(hit, hints=tuple(hints)) if hints else hit
        learned = self._guidance.shape_of(self._model, spec, self._viewer)
        learned = learned or self._view.shapes.get(spec.full_name)
        if learned is not None:
            hints += learned.conflicts[:_CONFLICTS]
            self._shown.append(spec.full_name)
        return msgspec.structs.replace(
            hit, hints=tuple(hints), signature=signature(spec, learned), returns=returns_text(spec, learned)
        )

    def _tips(self, spec: ToolSpec, *, is_full: bool) -> tuple[Tip, ...]:
        return self._barrier.ask(
            "chains",
            lambda: self._model.chains.tell(spec, self._viewer, view=self._view, with_code=is_full),
            (),
            who=self._visit.principal,
        )

    async def told(self, answer: SearchAnswer) -> SearchAnswer:
        """The answer with saved skills that may do the job. What was told is recorded."""
        for tip in self._told:
            self._guidance.tell(self._visit, tip.kind, tip.subject, tip.mark)
        for name in self._shown:
            self._guidance.tell(self._visit, "shape", name)
        skills = await self._skills()
        return msgspec.structs.replace(answer, skills=skills) if skills else answer

    async def _skills(self) -> tuple[str, ...]:
        principal = self._visit.principal
        known = self._guidance.skills.of(principal)
        if known is None or not known.skills:
            return ()
        found = self._barrier.ask(
            "skills",
            lambda: suggest_for_query(self._query, known, self._model.skills, self._viewer, limit=_SKILLS),
            list[Suggestion](),
            who=principal,
        )
        usable = [each for each in found if await self._guidance.skills.is_importable(each, principal)]
        for each in usable:
            self._guidance.tell(self._visit, "skill", each.subject)
        return tuple(each.text for each in usable)
