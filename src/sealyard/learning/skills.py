"""What is remembered about skills: suggestions that were heeded, and code that is written again and again.

Code of one principal is remembered for that principal alone.
"""

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from sealyard.learning.code import CodePrint, similarity
from sealyard.learning.evidence import faded, put_last
from sealyard.learning.insights import Insight, PartInsights, part_insights
from sealyard.learning.jobs import JobPrint, job_print
from sealyard.learning.suggesting import KnownSkill, SkillIndex, Suggestion, known_skill
from sealyard.values import Hinted, RunEvidence

__all__ = (
    "Candidate",
    "JobPrint",
    "KnownSkill",
    "SkillIndex",
    "SkillMemory",
    "Suggestion",
    "job_print",
    "known_skill",
    "suggest_for_code",
    "suggest_for_query",
)

_T = TypeVar("_T")

PRINCIPALS = 64
JOBS = 32
"""Of each principal, those that ran last."""
HINTS = 64
SUBJECTS = 512

_ALIKE = 0.8
_TIMES = 3
_FRESH = 0.5
"""A run that is older than one half-life is no repetition any more."""
_FEWEST_STATEMENTS = 3
_HEEDED_SECONDS = 86_400.0
_UNHEEDED = 3
_SAVED = "save_skill"


class _Job(msgspec.Struct, array_like=True):
    """Code that a principal ran, and code like it."""

    times: int
    weight: float
    """How often, as it counts at `at`."""
    at: float
    sample: tuple[int, ...]
    named: tuple[str, ...]
    """The tools that it imports."""
    tools: tuple[str, ...]
    """Full names of those that it called."""
    execution_id: str
    """Of the last run."""


class _Told(msgspec.Struct, array_like=True):
    """What a principal was told, and has not done since."""

    times: int
    at: float


class _Score(msgspec.Struct, array_like=True):
    """How often something was told, and how often it was done then."""

    told: int = 0
    right: int = 0
    at: float = 0.0


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """Code that is worth saving."""

    mark: str
    """Tells it from other code: `subject` and `mark` of the hint."""
    times: int
    tools: tuple[str, ...]
    """Full names."""
    text: str
    execution_id: str = ""
    """Of the run before."""
    principal: str = ""
    last_at: float = 0.0


class SkillMemory(msgspec.Struct, kw_only=True):
    """The part of the model that is about skills."""

    jobs: dict[str, dict[str, _Job]] = {}
    """Principal -> digest -> code that ran well."""
    told: dict[str, dict[str, _Told]] = {}
    """Principal -> `skill namespace/name` or `save_skill digest`."""
    used: dict[str, dict[str, float]] = {}
    """Principal -> `namespace/name` -> when it used that skill last."""
    scores: dict[str, _Score] = {}
    """`skill namespace/name`, or `save_skill` for all code together."""
    runs: int = 0

    def learn(self, run: RunEvidence, code: CodePrint | None, half_life: float) -> None:
        """Count code that ran well, and see whether a suggestion was heeded."""
        self.runs += 1
        self._score(run)
        fact = run.fact
        is_job = fact.form == "code" and fact.status == "ok" and not run.skills
        if is_job and code is not None and not code.skills and code.statements >= _FEWEST_STATEMENTS:
            self._count(run, code, half_life)

    def hinted(self, event: Hinted) -> None:
        """Remember what a principal was told."""
        if event.hint not in ("skill", _SAVED):
            return
        told = _inner(self.told, event.principal)
        key = f"{event.hint} {event.subject}"
        before = told.get(key)
        put_last(told, key, _Told(1 if before is None else before.times + 1, event.at), HINTS)
        score = self._score_of(key)
        score.told += 1
        score.at = max(score.at, event.at)

    def is_unheeded(self, subject: str, *, principal: str, now: float, half_life: float) -> bool:
        """Whether the principal was told of a skill three times lately and never used it."""
        told = self.told.get(principal, {}).get(f"skill {subject}")
        return told is not None and told.times >= _UNHEEDED and now - told.at < half_life

    def candidate(self, code: CodePrint, *, principal: str, now: float, half_life: float) -> Candidate | None:
        """Code that has just run well, if it ran well twice before: it is worth saving.

        None if the principal was told so within a day. Ask for a skill that does the job first.
        """
        if code.skills or code.statements < _FEWEST_STATEMENTS:
            return None
        digest = _find(self.jobs.get(principal, {}), code)
        if digest is None:
            return None
        job = self.jobs[principal][digest]
        told = self.told.get(principal, {}).get(f"{_SAVED} {digest}")
        is_told = told is not None and now - told.at < _HEEDED_SECONDS
        if is_told or job.weight * faded(now - job.at, half_life) < (_TIMES - 1) * _FRESH:
            return None
        times = job.times + 1
        return _candidate(principal, digest, job, times) if times >= _TIMES else None

    def candidates(self, now: float, half_life: float) -> list[Candidate]:
        """Code of all principals that is worth saving, that which ran most often first."""
        found = [
            _candidate(principal, digest, job, job.times)
            for principal, digest, job in self._all_jobs()
            if job.times >= _TIMES and job.weight * faded(now - job.at, half_life) >= _TIMES * _FRESH
        ]
        return sorted(found, key=lambda each: (-each.times, -each.last_at, each.principal, each.mark))

    def insights(self, now: float, half_life: float) -> PartInsights:
        """How often suggestions were heeded, and what could be saved."""
        items = [
            Insight(
                kind="skill_candidate",
                subject=each.tools[0] if each.tools else "code",
                text=f"Code like this ran {each.times} times without a failure, and is no skill yet.",
                evidence=float(each.times),
                principals=1,
                last_at=each.last_at,
            )
            for each in self.candidates(now, half_life)
        ]
        for key, score in self.scores.items():
            kind, _, subject = key.partition(" ")
            items.append(
                Insight(
                    kind="skill_suggestion" if kind == "skill" else "save_suggestion",
                    subject=subject or "code",
                    text=f"Told {_times(score.told)}, and done within a day {_times(score.right)}.",
                    evidence=score.told * faded(now - score.at, half_life),
                    principals=sum(key in some for some in self.told.values()),
                    told=score.told,
                    right=score.right,
                    last_at=score.at,
                )
            )
        told, right = (sum(getattr(each, name) for each in self.scores.values()) for name in ("told", "right"))
        return part_insights("skills", items, learned=len(items), evidence=self.runs, told=told, right=right)

    # Counting

    def _count(self, run: RunEvidence, code: CodePrint, half_life: float) -> None:
        fact = run.fact
        jobs = _inner(self.jobs, fact.principal)
        digest = _find(jobs, code) or code.digest
        before = jobs.get(digest)
        weight = 0.0 if before is None else before.weight * faded(fact.at - before.at, half_life)
        job = _Job(
            times=1 if before is None else before.times + 1,
            weight=weight + 1,
            at=fact.at,
            sample=code.sample if before is None else before.sample,
            named=code.tools,
            tools=fact.tools[:5],
            execution_id=fact.execution_id,
        )
        put_last(jobs, digest, job, JOBS)

    def _score(self, run: RunEvidence) -> None:
        fact = run.fact
        if not run.skills:
            return
        told, used = _inner(self.told, fact.principal), _inner(self.used, fact.principal)
        is_new = any(subject not in used for subject in run.skills)
        done = [key for subject in run.skills if (key := f"skill {subject}") in told]
        done += [key for key in told if key.startswith(_SAVED)] if is_new else []
        for key in done:
            if fact.at - told.pop(key).at <= _HEEDED_SECONDS:
                self._score_of(key).right += 1
                self.jobs.get(fact.principal, {}).pop(key.removeprefix(f"{_SAVED} "), None)  # it is a skill now
        for subject in run.skills:
            put_last(used, subject, fact.at, HINTS)

    def _score_of(self, key: str) -> _Score:
        name = _SAVED if key.startswith(_SAVED) else key
        return put_last(self.scores, name, self.scores.get(name) or _Score(), SUBJECTS)

    def _all_jobs(self) -> Iterator[tuple[str, str, _Job]]:
        for principal, jobs in self.jobs.items():
            for digest, job in jobs.items():
                yield principal, digest, job


def suggest_for_code(
    job: JobPrint, skills: SkillIndex, memory: SkillMemory, *, principal: str, now: float, half_life: float
) -> Suggestion | None:
    """The skill that does what code does, if that is certain and the principal has not passed it over three times."""
    for found in skills.for_code(job):
        if not memory.is_unheeded(found.subject, principal=principal, now=now, half_life=half_life):
            return found
    return None


def suggest_for_query(
    query: str,
    skills: SkillIndex,
    memory: SkillMemory,
    *,
    principal: str,
    now: float,
    half_life: float,
    limit: int = 2,
) -> list[Suggestion]:
    """The skills that are about what a query is about, the best first, but for those that it has passed over."""
    found = skills.for_query(query)
    heeded = [
        each
        for each in found
        if not memory.is_unheeded(each.subject, principal=principal, now=now, half_life=half_life)
    ]
    return heeded[:limit]


def _candidate(principal: str, digest: str, job: _Job, times: int) -> Candidate:
    return Candidate(
        mark=digest,
        times=times,
        tools=job.tools,
        text=f"Code like this ran {times} times without a failure. Keep it with save_skill, and import it next time.",
        execution_id=job.execution_id,
        principal=principal,
        last_at=job.at,
    )


def _find(jobs: dict[str, _Job], code: CodePrint) -> str | None:
    """The digest under which code like this is remembered."""
    if code.digest in jobs:
        return code.digest
    sample = set(code.sample)
    for digest, job in jobs.items():
        # Most are nothing like it, which a count tells at a tenth of the cost.
        may_be = job.named == code.tools and len(sample.intersection(job.sample)) >= _ALIKE * len(sample) / 2
        if may_be and similarity(CodePrint(digest="", exact="", sample=job.sample), code) >= _ALIKE:
            return digest
    return None


def _inner(outer: dict[str, dict[str, _T]], principal: str) -> dict[str, _T]:
    """What belongs to a principal; those who did something last are kept."""
    return put_last(outer, principal, outer.get(principal, {}), PRINCIPALS)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
