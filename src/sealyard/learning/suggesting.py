"""Which saved skill does a job: looked up by what code does, or by rare words of a query.

Skills, their names and descriptions are written by agents. A suggestion shows a name that was checked, and numbers. One
that nobody but its author has used is suggested to others only for code that is built like it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from sealyard.discovery.words import WEAK, words
from sealyard.learning.code import IDENTIFIER
from sealyard.learning.fragments import is_nameable
from sealyard.learning.jobs import JobPrint, likeness
from sealyard.skills.record import counted, effectiveness, judge
from sealyard.store.skills import SkillRecord
from sealyard.values import SHARED, Skill

__all__ = ("KnownSkill", "SkillIndex", "Suggestion", "known_skill", "telling_words")

SURE = 0.6
"""Code that is so much like a skill does its job. Measured: `tests/unit/test_learning_skills.py`."""
VERY_SURE = 0.85
"""So much is needed where nobody but the author has used the skill."""
FITTING = 0.33
"""A query and a skill that have so much of their words in common are about the same."""

_REMOVABLE_SECONDS = 30 * 86_400.0
_CHARACTERS = 600
_WORDS = 60
_COMPARED = 50
_RARE_SHARE = 0.05
_RARE_COUNT = 2
_POOR_USES = 3
_POOR_SUCCESS = 0.5


class KnownSkill(msgspec.Struct, frozen=True, kw_only=True):
    """An active skill that one principal can import, and what is known of it."""

    namespace: str
    name: str
    version: str
    description_words: tuple[str, ...]
    """Stems of its name, tags and description; the name's come first."""
    name_words: tuple[str, ...]
    print: JobPrint | None
    effectiveness: float
    uses: int
    """Of a shared one, as many of each principal as count."""
    success: float
    principals: int
    is_own: bool
    is_proven: bool
    """Whether it is the principal's own, or somebody else than its author has used it."""


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that does the job."""

    subject: str
    """`namespace/name`, as the journal names it."""
    name: str
    version: str
    score: float
    text: str
    """What the agent is told."""


def known_skill(
    skill: Skill, record: SkillRecord | None, job: JobPrint | None, *, principal: str, now: float
) -> KnownSkill | None:
    """What is known of a skill that `principal` can import; None if it is none to be suggested."""
    if skill.status != "active" or not IDENTIFIER.fullmatch(skill.name):
        return None
    whole = record or SkillRecord(namespace=skill.namespace, name=skill.name, version=skill.version)
    uses, success = counted(whole)
    verdict = judge(whole, modified_at=skill.modified_at, now=now, threshold_seconds=_REMOVABLE_SECONDS)
    if verdict == "removable" or (uses >= _POOR_USES and success < _POOR_SUCCESS):
        return None
    is_own = skill.namespace != SHARED or skill.author == principal
    if not is_own and not is_nameable(skill.name):
        return None  # somebody else's words
    name_words = telling_words(skill.name)
    described = telling_words(f"{' '.join(skill.tags)} {skill.description}")
    return KnownSkill(
        namespace=skill.namespace,
        name=skill.name,
        version=skill.version,
        description_words=tuple(dict.fromkeys([*name_words, *described]))[:_WORDS],
        name_words=name_words,
        print=job,
        effectiveness=effectiveness(whole, now=now),
        uses=uses,
        success=success,
        principals=len(whole.shares),
        is_own=is_own,
        is_proven=is_own or any(share.principal != skill.author for share in whole.shares),
    )


class SkillIndex:
    """The skills that one principal can import. Made beside the event loop, then only read."""

    def __init__(
        self, skills: Iterable[KnownSkill], background: Mapping[str, int] | None = None, total: int = 0
    ) -> None:
        """`background` says how many of `total` other texts, such as tools, have each word."""
        self.skills = tuple(skills)
        self._jobs: dict[tuple[tuple[str, ...], tuple[str, ...]], list[KnownSkill]] = {}
        self._by_word: dict[str, list[KnownSkill]] = {}
        for skill in self.skills:
            if skill.print is not None:
                self._jobs.setdefault((skill.print.tools, skill.print.acts), []).append(skill)
            for word in skill.description_words:
                self._by_word.setdefault(word, []).append(skill)
        self._total = total + len(self.skills)
        self._background = background or {}

    def for_code(self, job: JobPrint) -> list[Suggestion]:
        """The skills that do what the code does, the most certain first. None that it imports already."""
        found = []
        for skill in self._jobs.get((job.tools, job.acts), ())[:_COMPARED]:
            if skill.print is None or skill.name in job.skills:
                continue
            score = likeness(job, skill.print)
            if score >= (SURE if skill.is_proven else VERY_SURE):
                found.append((score, skill))
        return [_suggestion(score, skill, "A saved skill does this: ") for score, skill in _best_first(found)]

    def for_query(self, query: str) -> list[Suggestion]:
        """The skills that are about what the query is about, the most certain first."""
        asked = telling_words(query)[:_WORDS]
        rare = [word for word in asked if word in self._by_word and self._is_rare(word)]
        candidates = {id(skill): skill for word in rare for skill in self._by_word[word][:_COMPARED]}
        found = []
        for skill in candidates.values():
            score = self._fit(asked, rare, skill) if skill.is_proven else 0.0
            if score >= FITTING:
                found.append((score, skill))
        return [_suggestion(score, skill, "") for score, skill in _best_first(found)]

    def _fit(self, asked: Sequence[str], rare: Sequence[str], skill: KnownSkill) -> float:
        """How much the words have in common, rare ones counting more: many words that match nothing count against."""
        matched = set(rare).intersection(skill.description_words)
        if len(matched) < 2 and not (matched.intersection(skill.name_words) and len(asked) <= 2):
            return 0.0
        common = sum(self._weight(word) for word in asked if word in skill.description_words)
        mine, theirs = (sum(map(self._weight, some)) for some in (asked, skill.description_words))
        return common / math.sqrt(mine * theirs)

    def _is_rare(self, word: str) -> bool:
        return self._count(word) <= max(_RARE_COUNT, _RARE_SHARE * self._total)

    def _weight(self, word: str) -> float:
        return float(math.log(1 + (self._total + 1) / max(1, self._count(word))) ** 2)

    def _count(self, word: str) -> int:
        """How many skills and other texts have it."""
        return len(self._by_word.get(word, ())) + self._background.get(word, 0)


def _best_first(found: Sequence[tuple[float, KnownSkill]]) -> list[tuple[float, KnownSkill]]:
    return sorted(found, key=lambda each: (-each[0], not each[1].is_own, -each[1].effectiveness, each[1].name))


def _suggestion(score: float, skill: KnownSkill, lead: str) -> Suggestion:
    return Suggestion(
        subject=f"{skill.namespace}/{skill.name}",
        name=skill.name,
        version=skill.version,
        score=score,
        text=f"{lead}from skills import {skill.name} ({_record(skill)})",
    )


def _record(skill: KnownSkill) -> str:
    """What was made of it, in numbers."""
    if not skill.uses:
        return "not used yet"
    if not skill.is_proven:
        return "used by nobody but its author so far"
    if skill.principals > 1:  # how often is then no more than what one of them says
        used = f"by {skill.principals} clients"
    else:
        used = "once" if skill.uses == 1 else f"{skill.uses} times"
    return f"used {used}, {skill.success:.0%} of its calls succeeded"


def telling_words(text: str) -> tuple[str, ...]:
    """The stems of a text that say what it is about, each once; of its beginning, if it is long."""
    return tuple(dict.fromkeys(word for word in words(text[:_CHARACTERS]) if word not in WEAK))
