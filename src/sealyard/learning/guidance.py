"""Adds experience to a run: an assessment before it begins, limits that fit it, advice when it fails.

Every lookup passes the barrier: what was learned may be missing, broken or slow, and the run goes on without it. What
was told is recorded, so that it can be scored against what then happened.
"""

import functools
import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from sealyard.access.runner import Runner
from sealyard.access.tools import Tools
from sealyard.broker.approvals import Approvals
from sealyard.catalog import Snapshot
from sealyard.catalog.answers import LearnedShape
from sealyard.catalog.recent import Recent
from sealyard.config import LearningConfig
from sealyard.errors import ApprovalRefused
from sealyard.learning.barrier import Barrier, Watch
from sealyard.learning.causes import prepare_cause
from sealyard.learning.code import CodePrint, code_print
from sealyard.learning.failures import advice
from sealyard.learning.known_skills import KnownSkills
from sealyard.learning.learner import Model
from sealyard.learning.overview import DAY, Insights, domain_of, forget, insights, learner_of
from sealyard.learning.part import Viewer
from sealyard.learning.pool import PoolFollowing
from sealyard.learning.precedents import Curve, WrongCall, wrong_calls
from sealyard.learning.resources import Fitted, Prediction, fit
from sealyard.learning.risk import Assessment
from sealyard.learning.shapes import SteadyShapes
from sealyard.learning.skills import job_print, suggest_for_code
from sealyard.observe.recorder import Run
from sealyard.observe.sinks import LIKELY_TO_FAIL
from sealyard.observe.visits import Visit
from sealyard.offload import turn
from sealyard.offload.turns import spend
from sealyard.sandbox.policy.levels import MAX_SECONDS, IsolationPolicy
from sealyard.sandbox.review import Review
from sealyard.store import Store
from sealyard.store.learning import context_digest
from sealyard.values import (
    Assessed,
    Executed,
    ExecutionRecord,
    Fact,
    Failure,
    Forgotten,
    Grant,
    Hinted,
    HintKind,
    Limits,
    Outcome,
    RunEvidence,
    ToolSpec,
)

_LONG_CODE = 1_000
"""Longer code is read in a thread: what is made to be hard to read takes a millisecond for every hundred characters."""
_SHORT_CODE = 300
"""Why shorter code failed is found out at once, which takes some milliseconds at worst; else in a thread."""
_CODES_KEPT = 128
_CURVES_KEPT = 64
"""As many principals as learn apart."""
_REST = 4.0
"""A fifth of a processor is for learning, at most; the rest is for requests."""
_LINE_CHARACTERS = 400
_TOLD_ONCE = 200
"""Hints in a visit that are given once."""
_T = TypeVar("_T")
_LOW = Assessment(risk="low", chance=0.0)


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at code before it runs came to."""

    limits: Limits
    assessment: Assessment = _LOW
    assessed: Assessed | None = None
    """The same for the journal; None if nobody looked."""
    refusal: Failure | None = None
    """Why it is not run."""
    code: CodePrint | None = None


_Predicted = tuple[Prediction | None, Fitted | None]


class _Seen(msgspec.Struct, frozen=True):
    """What the text of code alone says."""

    code: CodePrint | None
    specs: dict[str, ToolSpec]
    """The tools that it names, by the names of `code.tools`."""
    wrong: tuple[WrongCall, ...]


class _Known:
    """Code that was read, and what the last look at it came to."""

    __slots__ = ("key", "look", "seen")

    def __init__(self, seen: _Seen) -> None:
        self.seen = seen
        self.key: tuple[object, ...] | None = None
        """Everything else that the look depends on."""
        self.look: Look | None = None


class Guidance:
    """What one gateway makes of experience."""

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
        self.half_life = settings.half_life_days * DAY
        self.learner = learner_of(store, settings, rest=_REST)
        self.barrier = Barrier()
        self._pool = PoolFollowing(runner.opening, lambda: self.learner.models) if settings.pool else None
        self._steady = SteadyShapes()
        self._known: Recent[tuple[str, str], _Known] = Recent(_CODES_KEPT)
        """By the catalog and the code: agents run the same again and again."""
        self._curves: Recent[str, tuple[tuple[int, int], Curve]] = Recent(_CURVES_KEPT)
        """By principal, with when it was worked out."""
        self._principals: set[str] = set()
        """Two of those who asked for anything here: whether there is more than one is all that matters."""

    @property
    def is_on(self) -> bool:
        """Whether anything is learned and told."""
        return self._settings.enabled

    @property
    def is_alone(self) -> bool:
        """Whether this gateway and its journal have one principal: who has seen everything there is to see."""
        known = set(self._principals)
        for model in self.learner.models.values():
            known.update(itertools.islice(model.domains.principals, 2))
        return not self._runner.scopes and len(known) < 2

    def domain_of(self, principal: str) -> str:
        """What somebody said that a principal works on."""
        return domain_of(principal, self._runner.scopes, self._settings)

    def model(self, principal: str) -> Model:
        """What a principal is told from."""
        if len(self._principals) < 2:
            self._principals.add(principal)
        if self.barrier.is_off("model", principal):
            return _EMPTY
        try:
            return self.learner.model_for(principal, self.domain_of(principal))
        except Exception:  # noqa: BLE001 - whatever was learned, the request is worth more
            self.barrier.fail("model", principal)
            return _EMPTY

    # Before a run

    async def look(
        self,
        record: ExecutionRecord,
        review: Review,
        *,
        snapshot: Snapshot,
        policy: IsolationPolicy,
        limits: Limits,
        is_memory_exact: bool,
    ) -> Look:
        """What is to be expected of code, and the limits that fit it. `record` is of what is about to run.

        The same code again in the same second, before anything else was learned, gets the same look.
        """
        if not self.is_on:
            return Look(limits=limits)
        principal = record.principal
        known = await self._read(record.code, snapshot, principal)
        model, now, has_context = self.model(principal), time.time(), record.context is not None
        key = (self.learner.revision, int(now), principal, record.session, review, policy, limits, is_memory_exact)
        if known.look is not None and known.key == key and not has_context:
            return known.look
        watch = self.barrier.watch(principal)
        look = self._look(model, known.seen, record, review, policy, limits, now, watch, is_memory_exact)
        if watch.is_clean and not has_context:
            known.key, known.look = key, look
        return look

    def _look(
        self,
        model: Model,
        seen: _Seen,
        record: ExecutionRecord,
        review: Review,
        policy: IsolationPolicy,
        limits: Limits,
        now: float,
        watch: Watch,
        is_memory_exact: bool,
    ) -> Look:
        usual = _within(limits, policy)
        predicted, fitted = self._predict(model, seen, record.principal, policy, now, watch, is_memory_exact)
        given = usual if fitted is None else _within(limits, fitted)
        assessment = self._assess(model, seen, record, review, predicted, given, now, watch)
        is_refused = assessment.risk == "critical" and self._settings.critical == "refuse"
        is_asked = assessment.risk == "critical" and self._settings.critical == "ask"
        assessed = Assessed(
            risk=assessment.risk,
            chance=assessment.chance,
            reasons=assessment.reasons,
            decision="refused" if is_refused else "asked" if is_asked else "ran",
            wall_seconds=given.wall_seconds,
            memory_mib=given.memory_mib,
            usual_seconds=usual.wall_seconds,
            usual_mib=usual.memory_mib,
        )
        if given != usual:
            limits = msgspec.structs.replace(limits, wall_seconds=given.wall_seconds, memory_mib=given.memory_mib)
        return Look(
            limits=limits,
            assessment=assessment,
            assessed=None if review.verdict == "refuse" else assessed,
            refusal=_refusal(assessment, record.code) if is_refused else None,
            code=seen.code,
        )

    async def assess(
        self, code: str, review: Review, *, principal: str, session: str, snapshot: Snapshot
    ) -> Assessment:
        """What is to be expected of code that is not run. `code` is concealed."""
        known = await self._read(code, snapshot, principal)
        model, now = self.model(principal), time.time()
        watch, policy = self.barrier.watch(principal), self._runner.policy_of(principal)
        predicted, _ = self._predict(model, known.seen, principal, policy, now, watch, is_memory_exact=False)
        record = ExecutionRecord(execution_id="", principal=principal, session=session, code=code, started_at=now)
        return self._assess(model, known.seen, record, review, predicted, policy, now, watch)

    async def ask(self, look: Look, grant: Grant, record: ExecutionRecord) -> Failure | None:
        """Ask a person about code that is as good as certain to fail, if that is the policy; why not to run it."""
        if look.assessment.risk != "critical" or self._settings.critical != "ask" or not self.is_on:
            return None
        try:
            await self._approvals.ask_for_run(grant, look.assessment.text, {"code": record.code})
        except ApprovalRefused as error:
            return _refusal(look.assessment, record.code, f"{error} ")
        return None

    async def _read(self, code: str, snapshot: Snapshot, principal: str) -> _Known:
        key = (snapshot.version, code)
        known = self._known.find(key)
        if known is None:
            read = functools.partial(_read_code, code, self._tools.functions(snapshot), snapshot)
            is_short = len(code) <= _LONG_CODE
            known = _Known(await self._work("code", read, _NOTHING, who=principal, is_short=is_short))
            if known.seen.code is not None:
                self._known.put(key, known)
        return known

    async def _work(self, part: str, work: Callable[[], _T], otherwise: _T, *, who: str, is_short: bool) -> _T:
        """What reading code comes to: if that is short, here, when its turn has come; else in a thread."""
        if not is_short:
            return await self.barrier.ask_beside(part, work, otherwise, who=who)
        await turn()
        started = time.perf_counter()
        try:
            return self.barrier.ask(part, work, otherwise, who=who)
        finally:
            spend(started)

    def _predict(
        self,
        model: Model,
        seen: _Seen,
        principal: str,
        policy: IsolationPolicy,
        now: float,
        watch: Watch,
        is_memory_exact: bool,
    ) -> _Predicted:
        """What code will need, and the limits that fit it; None where nothing is known or followed."""
        code, viewer = seen.code, Viewer(principal, now, self.half_life)
        if code is None:
            return _UNKNOWN

        def look() -> _Predicted:
            tools = [spec.full_name for spec in seen.specs.values()]
            predicted = model.resources.tell(code, viewer, tools=tools)
            if predicted is None or not self._settings.limits:
                return predicted, None
            return predicted, fit(predicted, policy, max_seconds=MAX_SECONDS, is_memory_exact=is_memory_exact)

        return watch.ask("resources", look, _UNKNOWN)

    def _assess(
        self,
        model: Model,
        seen: _Seen,
        record: ExecutionRecord,
        review: Review,
        predicted: Prediction | None,
        given: Fitted | IsolationPolicy,
        now: float,
        watch: Watch,
    ) -> Assessment:
        viewer = Viewer(record.principal, now, self.half_life)
        return watch.ask(
            "risk",
            lambda: model.risk.tell(
                seen.code,
                viewer,
                review=review,
                specs=seen.specs,
                context_digest=context_digest(record.context),
                session=record.session,
                predicted=predicted,
                wall_seconds=given.wall_seconds,
                memory_mib=given.memory_mib,
                wrong=seen.wrong,
                curve=self._curve(model, viewer),
            ),
            _LOW,
        )

    def _curve(self, model: Model, viewer: Viewer) -> Curve:
        """How estimates for a principal are corrected, worked out once a second and for each lesson."""
        moment = (self.learner.revision, int(viewer.now))
        known = self._curves.find(viewer.principal)
        if known is None or known[0] != moment:
            known = moment, model.risk.calibration.curve(viewer)
            self._curves.put(viewer.principal, known)
        return known[1]

    # After a run

    async def explain(self, outcome: Outcome, record: ExecutionRecord, look: Look, run: Run, view: Snapshot) -> Outcome:
        """The outcome of a failed run with what helped before, or what the failure itself tells."""
        failure = outcome.failure
        if not self.is_on or failure is None:
            return outcome
        evidence = _evidence(outcome, failure, record, run)
        who = record.principal
        prepare = functools.partial(prepare_cause, evidence, look.code)
        is_short = len(record.code) <= _SHORT_CODE and not evidence.calls
        found = await self._work("failures", prepare, None, who=who, is_short=is_short)
        if found is None:
            return outcome
        model, viewer = self.model(record.principal), Viewer(record.principal, time.time(), self.half_life)
        shapes = functools.partial(self._schema_of, model, viewer)
        said = failure.hint or ""
        fix = self.barrier.ask(
            "failures",
            lambda: model.failures.tell(found, viewer, view=view, shapes=shapes, said=said),
            None,
            who=who,
        )
        if fix is not None:
            self.tell(run.visit, "fix", fix.subject, fix.mark, record.execution_id)
            return _with_hint(outcome, failure, fix.text)
        text = self.barrier.ask("advice", lambda: advice(found, record.code, view, shapes, said=said), None, who=who)
        return outcome if text is None else _with_hint(outcome, failure, text)

    def shape_of(self, model: Model, spec: ToolSpec, viewer: Viewer) -> LearnedShape | None:
        """The shape of a tool's answers, as far as the viewer may see it."""
        return self.barrier.ask(
            "shapes",
            lambda: model.shapes.tell(spec, viewer, is_alone=self.is_alone),
            None,
            who=viewer.principal,
        )

    def _schema_of(self, model: Model, viewer: Viewer, spec: ToolSpec) -> dict[str, Any] | None:
        found = self.shape_of(model, spec, viewer)
        return None if found is None else found.schema

    async def notes(self, outcome: Outcome, record: ExecutionRecord, look: Look, run: Run) -> list[str]:
        """What else the agent should know: how likely the code was to fail, a skill that does it, code worth saving."""
        if not self.is_on or not outcome.tier:  # what was not run says why already
            return []
        told = []
        assessment = look.assessment
        if assessment.text and not outcome.ok:
            self.tell(run.visit, "risk", assessment.risk, execution_id=record.execution_id)
            told.append(assessment.text)
        if outcome.ok and (note := await self._skill_note(record, look, run)) is not None:
            told.append(note)
        return told

    async def _skill_note(self, record: ExecutionRecord, look: Look, run: Run) -> str | None:
        principal, visit, code = record.principal, run.visit, look.code
        if code is None or not code.tools:
            return None
        known = self.skills.of(principal)
        model, viewer = self.model(principal), Viewer(principal, time.time(), self.half_life)
        if known is not None and known.skills:
            read = functools.partial(job_print, record.code)
            is_short = len(record.code) <= _LONG_CODE
            job = await self._work("skills", read, None, who=principal, is_short=is_short)
            found = (
                None
                if job is None
                else self.barrier.ask(
                    "skills",
                    lambda: suggest_for_code(job, known, model.skills, viewer),
                    None,
                    who=principal,
                )
            )
            if found is not None and await self.skills.is_importable(found, principal):
                return found.text if self._tell_once(visit, "skill", found.subject, "", record.execution_id) else None
        if code.skills:
            return None
        candidate = self.barrier.ask(
            "skills",
            lambda: model.skills.tell(code, viewer),
            None,
            who=principal,
        )
        if candidate is None:
            return None
        is_new = self._tell_once(visit, "save_skill", candidate.mark, candidate.mark, record.execution_id)
        return candidate.text if is_new else None

    # Beside requests

    async def follow(self) -> None:
        """Have the pool follow demand, and stubs what was learned of answers: every few seconds."""
        if not self.is_on or self.barrier.is_off("follow"):
            return
        try:
            await self._follow()
        except Exception:  # noqa: BLE001 - what else is to be done beside requests does not depend on it
            self.barrier.fail("follow")

    async def _follow(self) -> None:
        if self._pool is not None:
            await self._pool.follow()
        catalog = self._tools.catalog
        # Stubs are shared by those who see the same tools: only what all of them may know goes in.
        learned = self.learner.models.get("", _EMPTY).shapes
        is_changed = await self._steady.look(
            learned,
            catalog.snapshot,
            Viewer("", time.time(), self.half_life),
            is_alone=self.is_alone,
        )
        if is_changed:
            await self._tools.publish(catalog.use_shapes(self._steady.shapes))  # so that no run has to wait for it

    # Telling

    def _tell_once(self, visit: Visit, hint: HintKind, subject: str, mark: str, execution_id: str) -> bool:
        """Record a hint that is given once in a visit; whether it is the first time."""
        key = f"{hint} {subject} {mark}"
        if key in visit.told or len(visit.told) >= _TOLD_ONCE:
            return False
        visit.told.add(key)
        self.tell(visit, hint, subject, mark, execution_id)
        return True

    def tell(self, visit: Visit, hint: HintKind, subject: str, mark: str = "", execution_id: str = "") -> None:
        """Record what an agent was told."""
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
        """What was learned. Raises `StoreError`."""
        return await insights(
            self._store, self.learner, self._settings, principal=principal, faults=self.barrier.faults
        )

    async def forget(self, subject: str, *, principal: str) -> Forgotten:
        """Forget, in stubs too. Raises `InvalidRequest` and `StoreError`."""
        forgotten = await forget(self._store, self.learner, subject, principal=principal)
        await self.follow()
        return forgotten

    async def close(self) -> None:
        """Keep what was learned for the next start."""
        await self.skills.close()
        if self.is_on:
            await self.learner.close()


_EMPTY = Model()
_UNKNOWN: _Predicted = (None, None)
_NOTHING = _Seen(None, {}, ())


def _read_code(code: str, names: Mapping[str, str], snapshot: Snapshot) -> _Seen:
    found = code_print(code)
    if found is None or not found.tools:
        return _Seen(found, {}, ())
    specs = {name: spec for name in found.tools if (spec := snapshot.tools.get(names.get(name, name))) is not None}
    return _Seen(found, specs, wrong_calls(code, specs))


def _within(limits: Limits, otherwise: Fitted | IsolationPolicy) -> Fitted:
    """What is asked for, and what there is otherwise where it is not."""
    return Fitted(
        wall_seconds=otherwise.wall_seconds if limits.wall_seconds is None else limits.wall_seconds,
        memory_mib=otherwise.memory_mib if limits.memory_mib is None else limits.memory_mib,
    )


def _refusal(assessment: Assessment, code: str, why: str = "") -> Failure:
    lines = code.splitlines()
    line = assessment.line
    return Failure(
        kind="refused",
        type=LIKELY_TO_FAIL,
        message=f"{why}{assessment.text}",
        line=line,
        source_line=lines[line - 1].strip()[:_LINE_CHARACTERS] if line is not None and line <= len(lines) else None,
        hint="It was not run, so nothing has changed. Change the code and run it again.",
    )


def _with_hint(outcome: Outcome, failure: Failure, text: str) -> Outcome:
    hint = f"{failure.hint} {text}" if failure.hint else text
    return msgspec.structs.replace(outcome, failure=msgspec.structs.replace(failure, hint=hint))


def _evidence(outcome: Outcome, failure: Failure, record: ExecutionRecord, run: Run) -> RunEvidence:
    """A run that has just failed, as the journal will say it."""
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
        calls=tuple(run.last_calls),
    )
