"""Adds experience to runs and searches: an assessment and limits before a run, advice after it, hints at hits.

Every lookup passes the barrier: a model may be missing, broken or slow, and the run goes on without it. Each hint to an
agent is recorded, so that the outcome can rate it.
"""

import asyncio
import functools
import itertools
import logging
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from sealyard.access import Runner, Tools
from sealyard.broker import Approvals
from sealyard.catalog import Recent, Snapshot
from sealyard.catalog.stubs import Stub
from sealyard.config.settings import LearningConfig
from sealyard.discovery import Learned
from sealyard.errors import ApprovalRefused
from sealyard.learning.causes import prepare_cause
from sealyard.learning.chains import Tip
from sealyard.learning.failures import Fix, standing_advice
from sealyard.learning.learner import Insights, Learner, Model
from sealyard.learning.part import Viewer, put_last
from sealyard.learning.precedents import WrongCall, wrong_calls
from sealyard.learning.prints import CodePrint, code_print
from sealyard.learning.resources import Prediction, fit_seconds
from sealyard.learning.risk import Assessment, about_parameters
from sealyard.learning.shapes import SteadyShapes
from sealyard.learning.skills import KnownSkills, Suggestion, job_print
from sealyard.observe import Run, Visit
from sealyard.offload import short_work
from sealyard.sandbox.policy import IsolationPolicy
from sealyard.sandbox.review import Review
from sealyard.skills import SkillLoader
from sealyard.store import Store
from sealyard.values.access import Grant
from sealyard.values.facts import Assessed, Executed, Fact, Forgotten, Hinted, HintKind, RunEvidence
from sealyard.values.runs import LIKELY_TO_FAIL, MAX_SECONDS, ExecutionRecord, Failure, Limits, Outcome
from sealyard.values.tools import DetailLevel, Hit, SearchAnswer, ToolSpec
from sealyard.values.variants import variant

# Tuned values. All were chosen, not measured.

_LONG_CODE = 1_000  # characters from which code is read in a thread: hostile code takes a millisecond for each hundred
_CODES_KEPT = 128  # codes kept as they were read, since agents run the same again and again: a bound
_REST = 4.0  # rest after learning, so that it takes at most a fifth of a processor from requests
_LINE_CHARACTERS = 400  # of a source line in a refusal: a bound
_ONCE_PER_VISIT = 200  # hints that are given once in a visit: a bound
_HINTED = 3  # best hits that get hints: more would cost more tokens than they help
_SKILLS = 2  # skills that are shown with a search
_OFF_SECONDS = 300.0  # for which a part that failed is left out
_SLOW_SECONDS = 0.02  # processor time from which a lookup is slow
_SLOW_IN_A_ROW = 3  # slow lookups after which a part is left out
_FORGIVEN = 0.1  # share of a slow lookup that a quick one makes up for
_BESIDE_SECONDS = 1.0  # for which a request waits for a thread
_KEPT = 1_000  # principals and parts that are watched: a bound

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_LOW = Assessment(risk="low", chance=0.0)


# The barrier


class Barrier:
    """Switches a part off for five minutes when it raises, or is slow three times in a row or every other time.

    It is off only for the principal `who`: hostile code and answers must not switch it off for others.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        spent: Callable[[], float] = time.thread_time,
        beside_seconds: float = _BESIDE_SECONDS,
    ) -> None:
        """`beside_seconds` is the longest wait of a request for a thread.

        `spent` measures the cost of a lookup in processor time, so that a busy machine does not count against a part.
        """
        self._clock = clock
        self._spent = spent
        self._beside_seconds = beside_seconds
        self._off_until: dict[tuple[str, str], float] = {}
        self._slow: dict[tuple[str, str], float] = {}
        self.faults: dict[str, int] = {}
        """The number of times that each part was switched off."""

    def ask(self, part: str, look: Callable[[], _T], otherwise: _T, *, who: str = "") -> _T:
        """The result of `look`; `otherwise` if the part is off or fails."""
        if self.is_off(part, who):
            return otherwise
        started = self._spent()
        try:
            found = look()
        except Exception:  # noqa: BLE001 - whatever was learned, the request is worth more
            self.fail(part, who)
            return otherwise
        self.note_time(part, who, is_slow=self._spent() - started > _SLOW_SECONDS)
        return found

    async def ask_beside(self, part: str, look: Callable[[], _T], otherwise: _T, *, who: str = "") -> _T:
        """As `ask`, for slow work in a thread. `look` must not use the model.

        After `beside_seconds` the request goes on without the result.
        """
        if self.is_off(part, who):
            return otherwise
        limit = asyncio.timeout(self._beside_seconds)
        try:
            async with limit:
                found = await asyncio.to_thread(look)
        except Exception:  # noqa: BLE001 - as above
            if limit.expired():
                self.note_time(part, who, is_slow=True)
            else:
                self.fail(part, who)
            return otherwise
        self.note_time(part, who, is_slow=False)
        return found

    def is_off(self, part: str, who: str = "") -> bool:
        """True if the part is switched off."""
        return bool(self._off_until) and self._clock() < self._off_until.get((part, who), 0.0)

    def note_time(self, part: str, who: str, *, is_slow: bool) -> None:
        """Count a lookup that has ended."""
        if not is_slow and not self._slow:
            return
        # One request may query a part several times: a quick lookup offsets a tenth of a slow one, not all of it.
        score = self._slow.pop((part, who), 0.0) + (1.0 if is_slow else -_FORGIVEN)
        if score > 0:
            put_last(self._slow, (part, who), score, _KEPT)
        if score >= _SLOW_IN_A_ROW:
            _log.error("Lookups in %s are slow; the part is off for five minutes.", part)
            self._switch_off(part, who)

    def fail(self, part: str, who: str = "") -> None:
        """Switch off a part that raised the exception being handled."""
        _log.exception("Lookup in %s failed; the part is off for five minutes.", part)
        self._switch_off(part, who)

    def _switch_off(self, part: str, who: str) -> None:
        self._slow.pop((part, who), None)
        self.faults[part] = self.faults.get(part, 0) + 1
        put_last(self._off_until, (part, who), self._clock() + _OFF_SECONDS, _KEPT)


# Around a run


class RunAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a look at code before it runs."""

    limits: Limits
    assessment: Assessment = _LOW
    assessed: Assessed | None = None
    """The assessment for the journal; None if there is none."""
    refusal: Failure | None = None
    """The reason not to run it."""
    advice: str = ""
    """The parameters to give instead, if a call cannot fit."""
    code: CodePrint | None = None


class _KnownCode(msgspec.Struct):
    """Facts from the text of code alone, and the last look at that code."""

    code: CodePrint | None = None
    specs: dict[str, ToolSpec] = {}
    """The tools that it names, by the names of `code.tools`."""
    wrong: tuple[WrongCall, ...] = ()
    look: RunAdvice | None = None
    look_key: tuple[object, ...] | None = None
    """Everything else that `look` depends on."""


class Guidance:
    """The use of experience by one gateway."""

    def __init__(
        self,
        settings: LearningConfig,
        *,
        store: Store,
        tools: Tools,
        runner: Runner,
        approvals: Approvals,
        record: Callable[[Fact], None],
        skills: KnownSkills,
    ) -> None:
        """`record` puts a fact into the journal, and `skills` are those that can be suggested."""
        self._settings = settings
        self._store = store
        self._tools = tools
        self._runner = runner
        self._approvals = approvals
        self._record = record
        self.skills = skills
        self.learner = Learner(store, settings, rest=_REST)
        self.barrier = Barrier()
        self._steady = SteadyShapes()
        self._codes: Recent[tuple[str, str], _KnownCode] = Recent(_CODES_KEPT)
        """By the catalog and the code: agents often run the same code again."""
        self._principals: set[str] = set()
        """The first two principals with a request: enough to know if there is more than one."""

    @property
    def is_on(self) -> bool:
        """True if learning is enabled."""
        return self._settings.enabled

    @property
    def is_alone(self) -> bool:
        """True if this gateway and its journal have only one principal."""
        known = set(self._principals)
        for model in self.learner.models.values():
            known.update(itertools.islice(model.domains.principals, 2))
        return not self._runner.scopes and len(known) < 2

    def model(self, principal: str) -> Model:
        """The model for a principal; an empty one if it fails."""
        if len(self._principals) < 2:
            self._principals.add(principal)
        domain = self._settings.domain_of(principal, self._runner.scopes)
        return self.barrier.ask("model", lambda: self.learner.model_for(principal, domain), _EMPTY, who=principal)

    def narrowed(self, tools: Tools, runner: Runner, loading: SkillLoader) -> "Guidance":
        """The same experience, for principals that get no more than these parts give."""
        return variant(self, _tools=tools, _runner=runner, skills=self.skills.narrowed(tools, loading))

    # Before a run

    async def look(
        self,
        record: ExecutionRecord,
        review: Review,
        *,
        snapshot: Snapshot,
        policy: IsolationPolicy,
        limits: Limits,
    ) -> RunAdvice:
        """Assess the code of `record`, which is about to run, and choose its limits.

        The same code in the same second gets the same result, unless something was learned in between.
        """
        if not self.is_on:
            return RunAdvice(limits=limits)
        known = await self._read(record.code, snapshot, record.principal)
        viewer, has_context = self.learner.viewer(record.principal), record.context is not None
        moment = (self.learner.revision, int(viewer.now))
        key = (*moment, record.principal, record.session, review, policy, limits)
        if known.look is not None and known.look_key == key and not has_context:
            return known.look
        look = self._look(known, record, review, policy, limits, viewer)
        if look.assessment is not _LOW and not has_context:  # with `_LOW`, the part was off or failed
            known.look, known.look_key = look, key
        return look

    async def assess(
        self, code: str, review: Review, *, principal: str, session: str, snapshot: Snapshot
    ) -> Assessment:
        """Assess code that is not run. `code` is concealed."""
        known, viewer = await self._read(code, snapshot, principal), self.learner.viewer(principal)
        record = ExecutionRecord(
            execution_id="", principal=principal, session=session, code=code, started_at=viewer.now
        )
        policy = self._runner.policy_of(principal)
        return self._look(known, record, review, policy, Limits(), viewer).assessment

    def _look(
        self,
        known: _KnownCode,
        record: ExecutionRecord,
        review: Review,
        policy: IsolationPolicy,
        limits: Limits,
        viewer: Viewer,
    ) -> RunAdvice:
        model, code = self.model(viewer.principal), known.code
        usual = policy.wall_seconds if limits.wall_seconds is None else limits.wall_seconds
        memory_mib = policy.memory_mib if limits.memory_mib is None else limits.memory_mib

        def predict() -> tuple[Prediction | None, float]:
            tools = [spec.full_name for spec in known.specs.values()]
            predicted = None if code is None else model.resources.predict(code, viewer, tools=tools)
            if limits.wall_seconds is not None or not self._settings.limits:
                return predicted, usual
            return predicted, fit_seconds(predicted, usual, most=MAX_SECONDS)

        def assess() -> Assessment:
            return model.risk.assess(
                code,
                viewer,
                review=review,
                specs=known.specs,
                context_digest=self._store.learning.context_digest(record.context),
                session=record.session,
                predicted=predicted,
                wall_seconds=wall_seconds,
                memory_mib=memory_mib,
                wrong=known.wrong,
            )

        nothing: tuple[Prediction | None, float] = (None, usual)
        predicted, wall_seconds = self.barrier.ask("resources", predict, nothing, who=record.principal)
        assessment = self.barrier.ask("risk", assess, _LOW, who=record.principal)
        critical = self._settings.critical if assessment.risk == "critical" else ""
        assessed = Assessed(
            risk=assessment.risk,
            chance=assessment.chance,
            reasons=assessment.reasons,
            decision="refused" if critical == "refuse" else "asked" if critical == "ask" else "ran",
            wall_seconds=wall_seconds,
            memory_mib=memory_mib,
            usual_seconds=usual,
            usual_mib=memory_mib,
        )

        def advise() -> str:
            return next((about_parameters(wrong) for wrong in known.wrong if wrong.is_certain), "")

        is_critical = assessment.risk == "critical"
        advice = self.barrier.ask("risk", advise, "", who=record.principal) if is_critical else ""
        if wall_seconds != usual:
            limits = msgspec.structs.replace(limits, wall_seconds=wall_seconds)
        return RunAdvice(
            limits=limits,
            assessment=assessment,
            assessed=None if review.verdict == "refuse" else assessed,
            refusal=_refusal(assessment, record.code, advice) if critical == "refuse" else None,
            advice=advice,
            code=code,
        )

    async def ask(self, look: RunAdvice, grant: Grant, record: ExecutionRecord) -> Failure | None:
        """Ask a person about code that is almost certain to fail, if configured; returns the reason not to run it."""
        if look.assessment.risk != "critical" or self._settings.critical != "ask" or not self.is_on:
            return None
        try:
            await self._approvals.ask_for_run(grant, look.assessment.text, {"code": record.code})
        except ApprovalRefused as error:
            return _refusal(look.assessment, record.code, look.advice, f"{error} ")
        return None

    async def _read(self, code: str, snapshot: Snapshot, principal: str) -> _KnownCode:
        key = (snapshot.version, code)
        known = self._codes.find(key)
        if known is None:
            read = functools.partial(_read_code, code, self._tools.functions(snapshot), snapshot)
            is_short = len(code) <= _LONG_CODE
            known = await self._work("code", read, None, who=principal, is_short=is_short) or _KnownCode()
            if known.code is not None:
                self._codes.put(key, known)
        return known

    async def _work(self, part: str, work: Callable[[], _T], otherwise: _T, *, who: str, is_short: bool) -> _T:
        """Do short work here, in its turn on the event loop, and long work in a thread."""
        if not is_short:
            return await self.barrier.ask_beside(part, work, otherwise, who=who)
        async with short_work():
            return self.barrier.ask(part, work, otherwise, who=who)

    # After a run

    def explain(self, outcome: Outcome, record: ExecutionRecord, run: Run, view: Snapshot) -> Outcome:
        """The outcome of a failed run, with a fix that helped before or standing advice."""
        failure = outcome.failure
        if not self.is_on or failure is None:
            return outcome
        evidence, who = _evidence(outcome, failure, record, run), record.principal
        cause = self.barrier.ask("failures", lambda: prepare_cause(evidence), None, who=who)
        if cause is None:
            return outcome
        model, viewer, said = self.model(who), self.learner.viewer(who), failure.hint or ""

        def find_fix() -> Fix | None:
            return model.failures.fix_for(cause, viewer, view=view, said=said)

        fix = self.barrier.ask("failures", find_fix, None, who=who)
        if fix is not None:
            self.record_hint(run.visit, "fix", fix.subject, fix.mark, record.execution_id)
            return _with_hint(outcome, failure, fix.text)
        text = self.barrier.ask("failures", lambda: standing_advice(cause, evidence), None, who=who)
        return outcome if text is None else _with_hint(outcome, failure, text)

    async def notes(self, outcome: Outcome, record: ExecutionRecord, look: RunAdvice, run: Run) -> list[str]:
        """Hints for the agent: the risk of the code, a skill that does the job, or code worth saving."""
        if not self.is_on or not outcome.tier:  # the failure already gives the reason
            return []
        notes = []
        assessment = look.assessment
        if assessment.text and not outcome.ok:
            self.record_hint(run.visit, "risk", assessment.risk, execution_id=record.execution_id)
            notes.append(assessment.text)
        if outcome.ok and (note := await self._skill_note(record, look, run)) is not None:
            notes.append(note)
        return notes

    async def _skill_note(self, record: ExecutionRecord, look: RunAdvice, run: Run) -> str | None:
        principal, visit, code = record.principal, run.visit, look.code
        if code is None or not code.tools:
            return None
        model, viewer, known = self.model(principal), self.learner.viewer(principal), self.skills.of(principal)
        if known is not None and known.skills:
            is_short = len(record.code) <= _LONG_CODE
            read = functools.partial(job_print, record.code)
            job = await self._work("skills", read, None, who=principal, is_short=is_short)

            def find() -> list[Suggestion]:
                return [] if job is None else model.skills.heeded(known.for_code(job), viewer)

            for found in self.barrier.ask("skills", find, list[Suggestion](), who=principal)[:1]:
                if await self.skills.is_importable(found, principal):
                    is_new = self._record_once(visit, "skill", found.subject, "", record.execution_id)
                    return found.text if is_new else None
        if code.skills:
            return None
        candidate = self.barrier.ask("skills", lambda: model.skills.candidate_for(code, viewer), None, who=principal)
        if candidate is None:
            return None
        is_new = self._record_once(visit, "save_skill", candidate.mark, candidate.mark, record.execution_id)
        return candidate.text if is_new else None

    # Beside requests

    async def follow(self) -> None:
        """Adapt the stubs to learned shapes, every few seconds."""
        if not self.is_on or self.barrier.is_off("follow"):
            return
        catalog, viewer = self._tools.catalog, self.learner.viewer("")
        try:
            # Principals with the same tools share stubs, so stubs hold only facts that all of them may see.
            learned = self.learner.models.get("", _EMPTY).shapes
            if await self._steady.look(learned, catalog.snapshot, viewer, is_alone=self.is_alone):
                await self._tools.publish(catalog.use_shapes(self._steady.shapes))  # so that no run has to wait for it
        except Exception:  # noqa: BLE001 - what else is to be done beside requests does not depend on it
            self.barrier.fail("follow")

    # Recording hints

    def _record_once(self, visit: Visit, hint: HintKind, subject: str, mark: str, execution_id: str) -> bool:
        """Record a hint that is given once in a visit; True the first time."""
        key = f"{hint} {subject} {mark}"
        if key in visit.hinted or len(visit.hinted) >= _ONCE_PER_VISIT:
            return False
        visit.hinted.add(key)
        self.record_hint(visit, hint, subject, mark, execution_id)
        return True

    def record_hint(self, visit: Visit, hint: HintKind, subject: str, mark: str = "", execution_id: str = "") -> None:
        """Record a hint to an agent."""
        self._record(
            Hinted(
                at=time.time(),
                principal=visit.principal,
                session=visit.id,
                execution_id=execution_id,
                hint=hint,
                subject=subject,
                mark=mark,
            )
        )

    # For people

    async def insights(self, principal: str | None = None) -> Insights:
        """The insights for people. Raises `StoreError`."""
        return await self.learner.insights(principal, faults=self.barrier.faults)

    async def forget(self, subject: str, *, principal: str) -> Forgotten:
        """Forget a subject, in stubs too. Raises `InvalidRequest` and `StoreError`."""
        forgotten = await self.learner.forget_named(subject, principal=principal)
        await self.follow()
        return forgotten

    async def close(self) -> None:
        """Save the models for the next start."""
        await self.skills.close()
        if self.is_on:
            await self.learner.close()


_EMPTY = Model()


def _read_code(code: str, names: Mapping[str, str], snapshot: Snapshot) -> _KnownCode:
    found = code_print(code)
    if found is None or not found.tools:
        return _KnownCode(found)
    specs = {name: spec for name in found.tools if (spec := snapshot.tools.get(names.get(name, name))) is not None}
    return _KnownCode(found, specs, wrong_calls(code, specs))


def _refusal(assessment: Assessment, code: str, advice: str, why: str = "") -> Failure:
    lines = code.splitlines()
    line = assessment.line
    return Failure(
        kind="refused",
        type=LIKELY_TO_FAIL,
        message=f"{why}{assessment.text}",
        line=line,
        source_line=lines[line - 1].strip()[:_LINE_CHARACTERS] if line is not None and line <= len(lines) else None,
        hint=f"It was not run, so nothing has changed. Change the code and run it again. {advice}".rstrip(),
    )


def _with_hint(outcome: Outcome, failure: Failure, text: str) -> Outcome:
    hint = f"{failure.hint} {text}" if failure.hint else text
    return msgspec.structs.replace(outcome, failure=msgspec.structs.replace(failure, hint=hint))


def _evidence(outcome: Outcome, failure: Failure, record: ExecutionRecord, run: Run) -> RunEvidence:
    """A run that has just failed, as the journal will hold it."""
    fact = Executed(
        at=time.time(),
        principal=record.principal,
        session=run.visit.id,
        execution_id=record.execution_id,
        form="code",
        status=outcome.status,
        failure=failure.kind,
        error_type=failure.type,
        level=outcome.level,
        tier=outcome.tier,
        seconds=outcome.usage.wall_seconds,
        use_case="compute",
    )
    return RunEvidence(
        fact=fact,
        code=record.code,
        session=record.session,
        started_at=record.started_at,
        failure_type=failure.type,
        failure_message=failure.message,
        failure_line=failure.line,
        calls=tuple(run.tally.last_calls),
    )


# Around a search


class SearchGuide:
    """The experience of one principal, for one search. `query` is concealed, like the queries in the journal."""

    def __init__(self, guidance: Guidance, visit: Visit, view: Snapshot, query: str) -> None:
        self._guidance = guidance
        self._visit = visit
        self._view = view
        self._query = query
        self._model = guidance.model(visit.principal)
        self._viewer = guidance.learner.viewer(visit.principal)
        self._tips_shown: list[Tip] = []
        self._shown: list[str] = []

    def _ask(self, part: str, look: Callable[[], _T], otherwise: _T) -> _T:
        return self._guidance.barrier.ask(part, look, otherwise, who=self._visit.principal)

    def recall(self) -> Learned | None:
        """The evidence on the words of the query."""
        return self._ask("ranking", lambda: self._model.ranking.recall(self._query, self._viewer), None)

    async def finish(self, answer: SearchAnswer, level: DetailLevel) -> SearchAnswer:
        """The answer with hints about its tools, and with saved skills that may do the job. The hints are recorded."""
        if level != "name_only":
            hits = tuple(self._decorated(hit, level, place) for place, hit in enumerate(answer.hits))
            answer = msgspec.structs.replace(answer, hits=hits)
        for tip in self._tips_shown:
            self._guidance.record_hint(self._visit, "chain", tip.subject, tip.mark)
        for name in self._shown:
            self._guidance.record_hint(self._visit, "shape", name)
        skills = await self._skills()
        return msgspec.structs.replace(answer, skills=skills) if skills else answer

    def _decorated(self, hit: Hit, level: DetailLevel, place: int) -> Hit:
        """A hit with hints about its tool; `place` is 0 for the best."""
        spec, is_full = self._view.tools[hit.name], level == "full"
        tips: tuple[Tip, ...] = ()
        if place < _HINTED:
            tips = self._ask("chains", lambda: self._model.chains.tips(spec, self._viewer, view=self._view), tips)
        tips = tips if is_full else tips[:1]
        self._tips_shown += tips
        if tips:
            hit = msgspec.structs.replace(hit, hints=tuple(tip.text for tip in tips))
        return self._with_shape(hit, spec) if is_full else hit

    def _with_shape(self, hit: Hit, spec: ToolSpec) -> Hit:
        """A hit with the learned shape of the tool's responses."""
        is_alone = self._guidance.is_alone
        seen = self._ask("shapes", lambda: self._model.shapes.shape_for(spec, self._viewer, is_alone=is_alone), None)
        learned = seen or self._view.shapes.get(spec.full_name)
        if learned is None:
            return hit

        def look() -> Hit:
            stub = Stub(spec, learned)
            return msgspec.structs.replace(hit, signature=stub.signature, returns=stub.returns)

        shown = self._ask("shapes", look, hit)
        if shown is not hit:
            self._shown.append(spec.full_name)
        return shown

    async def _skills(self) -> tuple[str, ...]:
        skills, principal = self._guidance.skills, self._visit.principal
        known = skills.of(principal)
        if known is None or not known.skills:
            return ()

        def find() -> list[Suggestion]:
            return self._model.skills.heeded(known.for_query(self._query), self._viewer)

        found = self._ask("skills", find, list[Suggestion]())[:_SKILLS]
        usable = [each for each in found if await skills.is_importable(each, principal)]
        for each in usable:
            self._guidance.record_hint(self._visit, "skill", each.subject)
        return tuple(each.text for each in usable)
