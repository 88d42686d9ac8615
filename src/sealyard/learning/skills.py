"""Skills: suggestions of saved ones, their record, and code that is written often enough to be saved.

A skill fits by the job that code does, however it is written, or by rare words of a query. Skills are written by
agents: a suggestion shows a checked name and numbers, and one that only its author has used is suggested to nobody
else. Repeated code is remembered for its own principal alone.
"""

import ast
import asyncio
import builtins
import logging
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from sealyard.access import Tools
from sealyard.catalog import Recent, Snapshot
from sealyard.code import Names, Source, find_uses, read
from sealyard.discovery import WEAK, stems
from sealyard.errors import SealyardError, SkillUnusable, UnknownSkill
from sealyard.learning.disclosure import IDENTIFIER, WORDS, is_nameable
from sealyard.learning.part import Insight, Lesson, Part, PartInsights, Viewer, part_insights, put_last, touch
from sealyard.learning.prints import CodePrint, names_of, similarity
from sealyard.skills import SkillLoader
from sealyard.store import Store
from sealyard.values.facts import Hinted, RunEvidence
from sealyard.values.naming import spelled
from sealyard.values.skills import SHARED, Skill, SkillRecord

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_NODES = 8_000  # nodes of code that are walked: a bound
_FEWEST_MARKS = 3  # tools, acts and fields below which a job is not distinguished; with 4, job_cases.py misses 4 more
_NAME_CHARACTERS = 64  # of an act, field or skill: longer than nearly all names in code
_TOOL_CHARACTERS = 128  # of a tool: the longest name that MCP allows
_NAMES = 40  # tools, acts and fields kept of a job: a bound
FITTING = 0.33  # common weight of words from which a query and a skill are about the same
_CHARACTERS = 600  # characters of a text that are read: a bound
_WORDS = 60  # words of a query or skill: a bound
_COMPARED = 50  # skills compared: a bound
_RARE_SHARE = 0.05  # share of texts that a rare word is in at most
_RARE_COUNT = 2  # the same as a count, where there are few texts
_POOR_USES = 3  # uses after which a skill that mostly fails is no longer suggested
_POOR_SUCCESS = 0.5  # success below which it mostly fails
PRINCIPALS = 64  # principals remembered: a bound
JOBS = 32  # jobs of each, the last that ran: a bound
HINTS = 64  # suggestions of each: a bound
SUBJECTS = 512  # skills whose suggestions are rated: a bound
_ALIKE = 0.8  # similarity of code that counts as the same job
_TIMES = 3  # runs after which code is worth saving
_FRESH = 0.5  # weight of a run that still counts as one of them: at most one half-life old
_FEWEST_STATEMENTS = 3  # shorter code is not worth saving
_JOB_TOOLS = 5  # tools of a job that are remembered: a bound
_HEEDED_SECONDS = 86_400.0  # time in which a suggestion is heeded, and after which it may be repeated
_INDEXES = 64  # principals that asked lately, whose indexes are kept: a bound
_AGAIN_SECONDS = 10.0  # between looks at the skills of a principal that asks again and again
_FIRST_SECONDS = 0.25  # for which a first search waits: most indexes are made in less
_PRINTS = 5_000  # skills whose print is kept: a bound
_CATALOGS = 8  # catalogs whose words are kept: a bound
_FRESH_SECONDS = 60.0  # time in which further uses of a skill do not change what is suggested
_UNHEEDED = 3  # suggestions without use after which it is not made again

_log = logging.getLogger(__name__)

# Jobs

_NEUTRAL = WORDS["neutral_functions"]
_PROGRESS = _NEUTRAL | {"len", "sorted"}
"""Functions that a `print` of progress may call."""
_DECIDING = (
    *(ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow),
)
_SAME_OPERATOR = {"LtE": "Lt", "GtE": "Gt"}


class JobPrint(msgspec.Struct, frozen=True, kw_only=True):
    """The print of a job."""

    tools: tuple[str, ...] = ()
    """The tools that it calls, as `names.spelled` writes them, sorted."""
    acts: tuple[str, ...] = ()
    """The functions, methods and operators that decide what it does, sorted."""
    skills: tuple[str, ...] = ()
    """The saved skills that it imports, sorted."""
    fields: tuple[str, ...] = ()
    """The constant keys that it reads, sorted."""
    made: tuple[str, ...] = ()
    """The fields that the code itself gives its data, so their names do not matter."""


def job_print(code: str) -> JobPrint | None:
    """The print of `code`; None if it is not Python, too short to be distinguished from other code, or too long.

    It is made once for each text.
    """
    return read(code).of(_print)


def _print(source: Source) -> JobPrint | None:
    names = names_of(source.text)
    if names is None:
        return None
    nodes = list(_walk(names.tree))
    found = _Reading(names, nodes).print() if len(nodes) < _NODES else None
    return found if found is not None and len(found.tools + found.acts + found.fields) >= _FEWEST_MARKS else None


def is_same_job(one: JobPrint, other: JobPrint) -> bool:
    """True if both call the same tools, read the same fields except those that they make, and do the same with them."""
    mine, theirs = set(one.fields) - set(other.fields), set(other.fields) - set(one.fields)
    is_alike = len(mine) == len(theirs) and mine <= set(one.made) and theirs <= set(other.made)
    return is_alike and one.tools == other.tools and one.acts == other.acts


class _Reading:
    """One walk over the nodes that matter."""

    def __init__(self, names: Names, nodes: Iterable[ast.AST]) -> None:
        self._names = names
        self._scopes = {node: place.scope for node, place in names.noted}
        self._tools: set[str] = set()
        self._acts: set[str] = set()
        self._fields: set[str] = set()
        self._made: set[str] = set()
        """Keys that the code itself gives its data."""
        for node in nodes:
            self._read(node)

    def print(self) -> JobPrint:
        """The finished print."""
        return JobPrint(
            tools=tuple(sorted(self._tools)[:_NAMES]),
            acts=tuple(sorted(self._acts)[:_NAMES]),
            skills=tuple(sorted({ref.name[:_NAME_CHARACTERS] for ref in find_uses(self._names).skills})[:_NAMES]),
            fields=tuple(sorted(self._fields)[:_NAMES]),
            made=tuple(sorted(self._made & self._fields)[:_NAMES]),
        )

    def _meaning(self, node: ast.expr) -> str | None:
        """The builtin or import that an expression stands for; None if it is data."""
        if not isinstance(node, ast.Name | ast.Attribute):
            return None
        known = self._names.meanings(node, self._scopes[node]) - {None}
        found = next(iter(known)) if len(known) == 1 else None
        if found is None or not found.startswith("builtins."):
            return found
        name = found.removeprefix("builtins.")
        return name if name == "call_tool" or hasattr(builtins, name) else None

    def _read(self, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            self._note_call(node)
        elif isinstance(node, _DECIDING):
            self._acts.add(_SAME_OPERATOR.get(type(node).__name__, type(node).__name__))
        elif isinstance(node, ast.Subscript):
            # The name of an input is no field of data, such as in `context["since"]`.
            is_input = isinstance(node.value, ast.Name) and node.value.id not in self._names.bound
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) and not is_input:
                is_read = isinstance(node.ctx, ast.Load)
                (self._fields if is_read else self._made).add(node.slice.value[:_NAME_CHARACTERS])
        elif isinstance(node, ast.Dict):
            self._made.update(str(key.value)[:_NAME_CHARACTERS] for key in node.keys if isinstance(key, ast.Constant))

    def _note_call(self, call: ast.Call) -> None:
        named = self._tool(call)
        if named is not None:
            self._tools.add(named[:_TOOL_CHARACTERS])
            return
        act = self._meaning(call.func) or (f".{call.func.attr}" if isinstance(call.func, ast.Attribute) else None)
        if act is not None and act not in _NEUTRAL and not act.startswith("skills."):
            self._acts.add(act[:_NAME_CHARACTERS])

    def _tool(self, call: ast.Call) -> str | None:
        """The tool that is called, also by its full name."""
        meaning = self._meaning(call.func)
        if meaning == "call_tool" and call.args and isinstance(call.args[0], ast.Constant):
            return spelled(str(call.args[0].value))
        return spelled(meaning) if meaning and meaning.startswith("servers.") else None


def _walk(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node except annotations and prints of progress, without recursion."""
    waiting: list[ast.AST] = [tree]
    for _ in range(_NODES):
        if not waiting:
            return
        node = waiting.pop()
        yield node
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns", "decorator_list", "type_params"):
                inside = value if isinstance(value, list) else [value]
                waiting += [each for each in inside if isinstance(each, ast.AST) and not _is_progress_print(each)]


def _is_progress_print(node: ast.AST) -> bool:
    """True if a statement prints, and does nothing else that matters."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id="print")) as call):
            return all(_name_of(each.func) in _PROGRESS for each in ast.walk(call) if isinstance(each, ast.Call))
    return False


def _name_of(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=name):
            return f".{name}"
    return ""


# Suggestions


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that does the job."""

    subject: str
    """`namespace/name`, as the journal names it."""
    name: str
    version: str
    text: str
    """The text for the agent."""


class KnownSkill(msgspec.Struct, frozen=True, kw_only=True):
    """An active skill that one principal can import and that may be suggested to it."""

    suggestion: Suggestion
    description_words: tuple[str, ...]
    """Stems of its name, tags and description; the name's come first."""
    name_words: tuple[str, ...]
    print: JobPrint | None
    effectiveness: float
    is_own: bool


def known_skill(
    skill: Skill, record: SkillRecord | None, job: JobPrint | None, *, principal: str, now: float
) -> KnownSkill | None:
    """A skill that `principal` can import, with its record; None if it must not be suggested.

    It must be the principal's own, or another principal than its author must have used it.
    """
    if skill.status != "active" or not IDENTIFIER.fullmatch(skill.name):
        return None
    whole = record or SkillRecord(namespace=skill.namespace, name=skill.name, version=skill.version)
    uses, success = whole.counted
    verdict = whole.judge(modified_at=skill.modified_at, now=now)
    if verdict == "removable" or (uses >= _POOR_USES and success < _POOR_SUCCESS):
        return None
    is_own = skill.namespace != SHARED or skill.author == principal
    is_proven = any(share.principal != skill.author for share in whole.shares)
    if not is_own and not (is_proven and is_nameable(skill.name)):  # its name is somebody else's words
        return None
    used = "once" if uses == 1 else f"{uses} times"
    if len(whole.shares) > 1:  # the count of one client would be misleading
        used = f"by {len(whole.shares)} clients"
    found = f"used {used}, {success:.0%} of its calls succeeded" if uses else "not used yet"
    name_words = content_words(skill.name)
    described = content_words(f"{' '.join(skill.tags)} {skill.description}")
    return KnownSkill(
        suggestion=Suggestion(
            subject=f"{skill.namespace}/{skill.name}",
            name=skill.name,
            version=skill.version,
            text=f"from skills import {skill.name} ({found})",
        ),
        description_words=tuple(dict.fromkeys([*name_words, *described]))[:_WORDS],
        name_words=name_words,
        print=job,
        effectiveness=whole.effectiveness(now=now),
        is_own=is_own,
    )


class SkillIndex:
    """The skills that one principal can import. Made beside the event loop, then only read."""

    def __init__(
        self, skills: Iterable[KnownSkill], background: Mapping[str, int] | None = None, total: int = 0
    ) -> None:
        """`background` counts the other texts with each word, such as tools; there are `total` of them."""
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
        """The skills that do the job of the code and are not imported by it, the principal's own first."""
        found = [
            (1.0, skill)
            for skill in self._jobs.get((job.tools, job.acts), ())[:_COMPARED]
            if skill.suggestion.name not in job.skills
            if skill.print is not None and is_same_job(job, skill.print)
        ]
        lead = "A saved skill does this: "
        return [msgspec.structs.replace(each, text=f"{lead}{each.text}") for each in _best_first(found)]

    def for_query(self, query: str) -> list[Suggestion]:
        """The skills that fit the query, the most certain first."""
        asked = content_words(query)[:_WORDS]
        most = max(_RARE_COUNT, _RARE_SHARE * self._total)
        rare = [word for word in asked if word in self._by_word and self._count(word) <= most]
        candidates = {id(skill): skill for word in rare for skill in self._by_word[word][:_COMPARED]}
        found = [(self._fit(asked, rare, skill), skill) for skill in candidates.values()]
        return _best_first([each for each in found if each[0] >= FITTING])

    def _fit(self, asked: Sequence[str], rare: Sequence[str], skill: KnownSkill) -> float:
        """The common weight of words, in which rare ones count more and words without a match count against."""
        matched = set(rare).intersection(skill.description_words)
        if len(matched) < 2 and not (matched.intersection(skill.name_words) and len(asked) <= 2):
            return 0.0
        common = sum(self._weight(word) for word in asked if word in skill.description_words)
        mine, theirs = (sum(map(self._weight, some)) for some in (asked, skill.description_words))
        return common / math.sqrt(mine * theirs)

    def _weight(self, word: str) -> float:
        return float(math.log(1 + (self._total + 1) / max(1, self._count(word))) ** 2)

    def _count(self, word: str) -> int:
        """The number of skills and other texts that have a word."""
        return len(self._by_word.get(word, ())) + self._background.get(word, 0)


def _best_first(found: Iterable[tuple[float, KnownSkill]]) -> list[Suggestion]:
    def order(each: tuple[float, KnownSkill]) -> tuple[float, bool, float, str]:
        score, skill = each
        return -score, not skill.is_own, -skill.effectiveness, skill.suggestion.name

    return [skill.suggestion for _, skill in sorted(found, key=order)]


def content_words(text: str) -> tuple[str, ...]:
    """The stems of a text that describe its subject, each once; only the beginning of a long text is read."""
    return tuple(dict.fromkeys(word for word in stems(text[:_CHARACTERS]) if word not in WEAK))


# The part


_SAVED = "save_skill"


class _Job(msgspec.Struct, array_like=True):
    """Code that a principal ran, and code like it."""

    sample: tuple[int, ...]
    times: int = 0
    weight: float = 0.0
    """The number of runs, as they count at `at`."""
    at: float = 0.0
    named: tuple[str, ...] = ()
    """The tools that it imports."""
    tools: tuple[str, ...] = ()
    """Full names of those that it called."""
    execution_id: str = ""
    """Of the last run."""


class _Shown(msgspec.Struct, array_like=True):
    """A suggestion to a principal that it has not followed since."""

    times: int
    at: float


class _Score(msgspec.Struct, array_like=True):
    """The number of suggestions, and of those that were followed."""

    shown: int = 0
    right: int = 0
    at: float = 0.0


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """Code that is worth saving."""

    mark: str
    """Identifies the code: `subject` and `mark` of the hint."""
    times: int
    tools: tuple[str, ...]
    """Full names."""
    text: str
    execution_id: str = ""
    """Of the run before."""
    principal: str = ""
    last_at: float = 0.0


class SkillMemory(Part, msgspec.Struct, kw_only=True):
    """The part of the model that is about skills."""

    jobs: dict[str, dict[str, _Job]] = {}
    """Principal -> digest -> code that ran well."""
    given: dict[str, dict[str, _Shown]] = {}
    """Principal -> `skill namespace/name` or `save_skill digest`."""
    used: dict[str, dict[str, float]] = {}
    """Principal -> `namespace/name` -> when it used that skill last."""
    scores: dict[str, _Score] = {}
    """`skill namespace/name`, or `save_skill` for all code together."""
    runs: int = 0

    def learn_hint(self, hint: Hinted) -> None:
        """Remember a suggestion."""
        if hint.hint not in ("skill", _SAVED):
            return
        given = touch(self.given, hint.principal, dict[str, _Shown], PRINCIPALS)
        key = f"{hint.hint} {hint.subject}"
        put_last(given, key, _Shown(given[key].times + 1 if key in given else 1, hint.at), HINTS)
        score = self._score_of(key)
        score.shown += 1
        score.at = max(score.at, hint.at)

    def learn_run(self, run: RunEvidence, lesson: Lesson, viewer: Viewer) -> None:
        """Count code that ran well, and rate suggestions by it."""
        self.runs += 1
        self._rate(run)
        fact, code = run.fact, lesson.code
        is_job = fact.form == "code" and fact.status == "ok" and not run.skills
        if is_job and code is not None and not code.skills and code.statements >= _FEWEST_STATEMENTS:
            self._count(run, code, viewer)

    def heeded(self, found: Iterable[Suggestion], viewer: Viewer) -> list[Suggestion]:
        """The suggestions without those that the viewer got three times lately and never followed."""
        given = self.given.get(viewer.principal, {})
        since = viewer.now - viewer.half_life
        ignored = {key for key, shown in given.items() if shown.times >= _UNHEEDED and shown.at > since}
        return [each for each in found if f"skill {each.subject}" not in ignored]

    def candidate_for(self, code: CodePrint, viewer: Viewer) -> Candidate | None:
        """The suggestion to save code that has just run well, if it ran well twice before.

        None if it was suggested within a day. Ask for a skill that does the job first.
        """
        principal = viewer.principal
        if code.skills or code.statements < _FEWEST_STATEMENTS:
            return None
        digest = _find(self.jobs.get(principal, {}), code)
        if digest is None:
            return None
        job = self.jobs[principal][digest]
        shown = self.given.get(principal, {}).get(f"{_SAVED} {digest}")
        is_recent = shown is not None and viewer.now - shown.at < _HEEDED_SECONDS
        if is_recent or job.weight * viewer.faded(job.at) < (_TIMES - 1) * _FRESH:
            return None
        times = job.times + 1
        return _candidate(principal, digest, job, times) if times >= _TIMES else None

    def candidates(self, viewer: Viewer) -> list[Candidate]:
        """Code of all principals that is worth saving, that which ran most often first."""
        found = [
            _candidate(principal, digest, job, job.times)
            for principal, jobs in self.jobs.items()
            for digest, job in jobs.items()
            if job.times >= _TIMES and job.weight * viewer.faded(job.at) >= _TIMES * _FRESH
        ]
        return sorted(found, key=lambda each: (-each.times, -each.last_at, each.principal, each.mark))

    def score(self) -> tuple[int, int]:
        """Suggestions made, and those heeded within a day."""
        return sum(each.shown for each in self.scores.values()), sum(each.right for each in self.scores.values())

    def items(self, viewer: Viewer) -> Iterator[Insight]:
        """The record of suggestions, and code that could be saved."""
        for each in self.candidates(viewer):
            yield Insight(
                kind="skill_candidate",
                subject=each.tools[0] if each.tools else "code",
                text=f"Code like this ran {each.times} times without a failure, and is no skill yet.",
                evidence=float(each.times),
                principals=1,
                last_at=each.last_at,
            )
        for key, score in list(self.scores.items()):
            kind, _, subject = key.partition(" ")
            yield Insight(
                kind="skill_suggestion" if kind == "skill" else "save_suggestion",
                subject=subject or "code",
                text=f"Suggested {_times(score.shown)}, and followed within a day {_times(score.right)}.",
                evidence=score.shown * viewer.faded(score.at),
                principals=sum(key in some for some in self.given.values()),
                checked=score.shown,
                right=score.right,
                last_at=score.at,
            )

    def summary(self, items: Sequence[Insight]) -> PartInsights:
        """The record of suggestions."""
        return part_insights("skills", items, learned=len(items), evidence=self.runs, score=self.score())

    # Counting

    def _count(self, run: RunEvidence, code: CodePrint, viewer: Viewer) -> None:
        fact = run.fact
        jobs = touch(self.jobs, fact.principal, dict[str, _Job], PRINCIPALS)
        digest = _find(jobs, code) or code.digest
        before = jobs.get(digest) or _Job(sample=code.sample)
        job = _Job(
            times=before.times + 1,
            weight=before.weight * viewer.faded(before.at) + 1,
            at=fact.at,
            sample=before.sample,
            named=code.tools,
            tools=fact.tools[:_JOB_TOOLS],
            execution_id=fact.execution_id,
        )
        put_last(jobs, digest, job, JOBS)

    def _rate(self, run: RunEvidence) -> None:
        fact = run.fact
        if not run.skills:
            return
        shown = touch(self.given, fact.principal, dict[str, _Shown], PRINCIPALS)
        used = touch(self.used, fact.principal, dict[str, float], PRINCIPALS)
        done = [key for subject in run.skills if (key := f"skill {subject}") in shown]
        if any(subject not in used for subject in run.skills):
            jobs = self.jobs.get(fact.principal, {})
            # Only a new skill that calls the tools of the suggested job can be that job.
            done += [f"{_SAVED} {digest}" for digest, job in jobs.items() if job.tools == fact.tools[:_JOB_TOOLS]]
            done = [key for key in done if key in shown]
        for key in done:
            if fact.at - shown.pop(key).at <= _HEEDED_SECONDS:
                self._score_of(key).right += 1
                self.jobs.get(fact.principal, {}).pop(key.removeprefix(f"{_SAVED} "), None)  # it is a skill now
        for subject in run.skills:
            put_last(used, subject, fact.at, HINTS)

    def _score_of(self, key: str) -> _Score:
        name = _SAVED if key.startswith(_SAVED) else key
        return touch(self.scores, name, _Score, SUBJECTS)


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
        # A count rules out most jobs at a tenth of the cost.
        may_be = job.named == code.tools and len(sample.intersection(job.sample)) >= _ALIKE * len(sample) / 2
        if may_be and similarity(job.sample, code.sample) >= _ALIKE:
            return digest
    return None


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


# The skills of each principal


class KnownSkills:
    """The skills that code of each recent principal can import.

    A request gets the index that is ready and does not wait; indexes are made in the background, each once until
    something changes.
    """

    def __init__(self, store: Store, tools: Tools, loading: SkillLoader) -> None:
        self._store = store
        self._tools = tools
        self._loading = loading
        self._made: Recent[str, tuple[tuple[object, ...], SkillIndex]] = Recent(_INDEXES)
        """By principal, each with everything that it depends on."""
        self._prints: Recent[str, tuple[JobPrint | None]] = Recent(_PRINTS)
        self._words: Recent[str, Counter[str]] = Recent(_CATALOGS)
        self._looked_at: dict[str, float] = {}
        self._making: dict[str, asyncio.Task[None]] = {}

    def narrowed(self, tools: Tools, loading: SkillLoader) -> "KnownSkills":
        """The same for principals that see only `tools` and what `loading` finds."""
        return KnownSkills(self._store, tools, loading)

    def of(self, principal: str) -> SkillIndex | None:
        """The latest index of a principal's skills; None before the first. It is renewed in the background."""
        now = time.monotonic()
        if principal not in self._making and now - self._looked_at.get(principal, -_AGAIN_SECONDS) >= _AGAIN_SECONDS:
            put_last(self._looked_at, principal, now, _INDEXES)
            task = asyncio.create_task(self._renew(principal))
            self._making[principal] = task
            task.add_done_callback(lambda _: self._making.pop(principal, None))
        made = self._made.find(principal)
        return None if made is None else made[1]

    async def first_look(self, principal: str) -> None:
        """Wait shortly for the first index of a principal's skills, because many agents search only once."""
        if principal not in self._looked_at:
            self.of(principal)
            await asyncio.wait({self._making[principal]}, timeout=_FIRST_SECONDS)

    async def settled(self) -> None:
        """Wait until nothing is being made."""
        await asyncio.gather(*self._making.values())

    async def close(self) -> None:
        """Stop."""
        tasks = list(self._making.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def index(self, principal: str) -> SkillIndex:
        """The skills that code of `principal` can import now, each in the version that it would get."""
        view = await self._tools.view(principal)
        table = self._store.skills
        minute = int(time.monotonic() / _FRESH_SECONDS)
        key = (view.version, self._tools.catalog.snapshot.version, await table.stamp(), minute)
        made = self._made.find(principal)
        if made is None or made[0] != key:
            names = [each.name for each in await self._loading.visible(principal, view) if each.status == "active"]
            found = [await self._resolve(name, principal, view) for name in names]
            skills = [each for each in found if each is not None]
            records = await self._loading.records() if skills else {}
            made = key, await asyncio.to_thread(self._index, skills, records, principal, view)
            self._made.put(principal, made)
        return made[1]

    async def is_importable(self, suggestion: Suggestion, principal: str) -> bool:
        """True if code of the principal would import the suggested version now; false after any error."""
        try:
            found = await self._resolve(suggestion.name, principal, await self._tools.view(principal))
        except Exception as error:  # noqa: BLE001 - as below
            _log_failure("A skill is not suggested", error)
            return False
        version = (suggestion.subject, suggestion.version)
        return found is not None and (f"{found.namespace}/{found.name}", found.version) == version

    async def _renew(self, principal: str) -> None:
        try:
            await self.index(principal)
        except Exception as error:  # noqa: BLE001 - a suggestion is not worth a failed run
            _log_failure("Skills cannot be suggested now", error)

    async def _resolve(self, name: str, principal: str, view: Snapshot) -> Skill | None:
        """The active version that an import gets; None if it gets none."""
        try:
            skill = (await self._loading.resolve(name, None, principal, view)).skill
        except (SkillUnusable, UnknownSkill):
            return None
        return skill if skill.status == "active" else None

    # In a thread

    def _index(
        self,
        skills: Sequence[Skill],
        records: dict[tuple[str, str], SkillRecord],
        principal: str,
        view: Snapshot,
    ) -> SkillIndex:
        now = time.time()
        known = []
        for skill in skills:
            record = records.get((skill.namespace, skill.name))
            found = known_skill(skill, record, self._print(skill), principal=principal, now=now)
            known += [] if found is None else [found]
        return SkillIndex(known, background=self._background(view) if known else {}, total=len(view.tools))

    def _print(self, skill: Skill) -> JobPrint | None:
        found = self._prints.find(skill.digest)
        if found is None:
            found = (job_print(skill.code),)
            self._prints.put(skill.digest, found)
        return found[0]

    def _background(self, view: Snapshot) -> Counter[str]:
        """The number of tools with each word; a word of many tools says little about a skill."""
        found = self._words.find(view.version)
        if found is None:
            found = Counter()
            for spec in view.tools.values():
                found.update(content_words(f"{spec.name} {spec.description}"))
            self._words.put(view.version, found)
        return found


def _log_failure(what: str, error: Exception) -> None:
    """Log an error of ours by its message, and any other with its traceback."""
    _log.error("%s: %s", what, error, exc_info=None if isinstance(error, SealyardError) else error)
