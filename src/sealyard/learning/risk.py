"""The chance that a piece of code fails, estimated before it runs.

The estimate narrows step by step: all runs, runs with its tools, runs with the same fault (a finding of the review,
wrong arguments, a predicted cost over the limits), code of its form, the same text. Each step moves it only as far as
its number of runs justifies. The last step is the outcome of runs with about the same estimate.

`critical` is not an estimate: it means that failure is practically certain, from the principal's own runs or from the
text alone. Runs of others can raise the risk to `high`, and those of one other principal to `medium`.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from sealyard.learning.disclosure import IDENTIFIER, is_name
from sealyard.learning.part import (
    Evidence,
    FailureEvidence,
    Insight,
    Lesson,
    Part,
    PartInsights,
    Viewer,
    part_insights,
    shrunk,
    trim,
)
from sealyard.learning.precedents import (
    AGAIN_SECONDS,
    LEVELS,
    Forms,
    Level,
    Repeat,
    Repeats,
    WrongCall,
    is_known_error,
    is_own_failure,
)
from sealyard.learning.prints import CodePrint
from sealyard.learning.resources import Prediction
from sealyard.sandbox.review import Review
from sealyard.values.changes import major_of
from sealyard.values.facts import Risk, RiskReason, RunEvidence
from sealyard.values.naming import spelled
from sealyard.values.tools import ToolSpec

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_NAMES = 8  # names of parameters listed in one sentence
_COMPARED = 40  # names of parameters among which the nearest is searched: a bound, since comparing them is slow
_WRONG = 4  # unknown names of a call that are compared with them: a bound
_LISTED_RUNS = 3.0  # runs before a tool is listed as one whose runs fail
_LISTED_SHARE = 0.3  # least share of failures for that; as `MEDIUM`
MEDIUM = 0.3  # chance from which the risk is medium
HIGH = 0.6  # chance from which the risk is high
_BASE = 0.1  # chance of failure without any evidence
# Runs that each step needs to move halfway from the one before. `tests/unit/learning/test_risk_calibration.py` holds
# the outcome to the chances given, in a simulated population.
_BASE_WEIGHT = 16.0  # all runs of the viewer: the broadest step, so it moves slowest
_TOOL_WEIGHT = 6.0  # runs that name the tool
_FORM_WEIGHT = 2.0  # runs of code of the same form
_TEXT_WEIGHT = 1.0  # runs of the same text: it fails again unless something else changed
_ADDED_WEIGHT = 4.0  # the same for a reason of `_ADDED`
_LEAST = 0.01  # lowest chance that is given
_MOST = 0.99  # highest chance that is given
_ALIKE_WEIGHT = 6.0  # runs with about the same estimate: the last step, which corrects the others
_MOST_SUGGESTED = HIGH - 0.01  # highest chance by the evidence of one other principal: below `high`
_CERTAIN = 0.98  # chance assumed for a failure that is called certain
_CERTAIN_WEIGHT = 20.0  # runs that it needs to move halfway
_CERTAIN_LEAST = 0.8  # below this, by outcomes, no failure is called certain
_ENOUGH = 1.5  # runs before a step counts: about two, since one failure is most often put right the next time
_RISE = 0.05  # least change of the estimate that is mentioned
_TOOLS = 2_000  # tools remembered, the last used: a bound
_TOOLS_READ = 8  # tools of a piece of code that are looked up: a bound

# Sentences

_USE_A_TOOL = "Call a tool for it: search_tools finds one."

FIRM_RULES: dict[str, tuple[str, str]] = {
    "network": ("needs a network, and there is none", _USE_A_TOOL),
    "open-outside": ("opens a file that cannot be reached", "Keep files in the working directory, or call a tool."),
    "input": ("waits for input, and there is none", "Pass values in through `context`."),
    "sleep": ("sleeps longer than the run may last", "Sleep less, or give timeout_seconds."),
    "memory": ("makes a value that is larger than the memory of the run", "Work in smaller pieces."),
    "endless-loop": ("is a loop that nothing ends", "Add a `break`."),
    "subprocess": ("starts another program, and none runs here", "Do the work in Python, or call a tool."),
}
"""Rules of the review that predict a failure (others only warn): the effect of such a line, and the alternative."""


def _about_wrong_call(wrong: WrongCall) -> str:
    """A call that cannot fit."""
    tool, names = _tool(wrong.tool), _listed(wrong.names)
    if wrong.problem == "missing":
        said = f"Line {wrong.line} calls {tool} without what it needs{f': {names}' if names else ''}."
    elif wrong.problem == "many":
        said = f"Line {wrong.line} gives {tool} more values than it takes{f': {names}' if names else ''}."
    else:
        takes = f" It takes: {names}." if names else " It takes none."
        said = f"Line {wrong.line} gives {tool} a parameter that it does not have.{takes}"
    return f"{said} Change that call before running this."


def about_parameters(wrong: WrongCall) -> str:
    """The parameters that a call that cannot fit probably means, or needs too; empty if there are none to name."""
    names = list(filter(is_name, wrong.names))
    for name in filter(is_name, wrong.unknown[:_WRONG]):
        if near := difflib.get_close_matches(name, names[:_COMPARED], n=1):
            return f"Did you mean {near[0]}=, not {name}=?"
    return f"It also needs {_listed(wrong.names)}." if names and wrong.problem == "missing" else ""


def _about_repeat(repeat: Repeat, now: float, *, is_certain: bool = False) -> str:
    """The sentence for code that failed unchanged."""
    times, line = repeat.recent(now), "" if repeat.line is None else f" at line {repeat.line}"
    error = f" with {repeat.error}" if is_known_error(repeat.error) else ""
    often = "once" if times == 1 else f"{times} times"
    text = f"This very code failed {often} in the last hour, last{error}{line}. Change it instead of repeating it."
    if not is_certain:
        return text
    minutes = max(1, round((repeat.times[-1] + AGAIN_SECONDS - now) / 60))
    return f"{text} Nothing that it depends on has changed; try it as it is in {minutes} min."


_SENTENCES = {
    "form": "Code like this, whatever its values, failed in {share} of its runs. Check what it does with values that "
    "are missing or empty.",
    "tools": "Runs with {tool} fail in {share} of cases. Call it alone first, or catch its errors.",
    "new_tool": "Nobody has called {tool} yet, and first runs with a tool fail in {share} of cases. Call it alone "
    "first and look at its answer.",
    "all": "Runs here fail in {share} of cases. Run its first steps alone and look at what they give.",
}
"""On runs of the same form, runs with a tool, first runs with a tool, and all runs."""


def _about(what: str, share: float, tool: ToolSpec | None = None) -> str:
    """The sentence on a share of failed runs."""
    return _SENTENCES[what].format(share=f"{share * 100:.0f} %", tool="" if tool is None else _tool(tool))


def _about_cost(needed: float, given: float, unit: str) -> str:
    """The sentence for a run that needs more than its limits."""
    instead = "Do less in one run" + (", or give timeout_seconds." if unit == "s" else ".")
    return f"Runs like this needed {needed:.0f} {unit} or more, and it has {given:.0f} {unit}. {instead}"


def _tool(spec: ToolSpec) -> str:
    """The name of a tool in the viewer's catalog, as code writes it."""
    name = f"{spec.module}.{spec.function}"
    return name if all(map(IDENTIFIER.fullmatch, (spec.module, spec.function))) else "a tool"


def _listed(names: tuple[str, ...]) -> str:
    """The names of parameters that may be shown: identifiers, not sentences."""
    shown = list(filter(is_name, names))
    return ", ".join(shown[:_NAMES]) + (", …" if len(shown) > _NAMES else "")


# The part

_ADDED: dict[RiskReason, float] = {"review": 0.5, "arguments": 0.75, "cost": 0.6}
"""The least chance of failure assumed for these reasons at first; outcomes correct it. Chosen, not measured."""
_ENDED = frozenset(("failed", "timeout", "limit", "broken"))


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """The assessment of a run before it starts."""

    risk: Risk
    chance: float
    """The chance of failure: of all runs with the same chance, this share fails."""
    reasons: tuple[RiskReason, ...] = ()
    """The reasons that moved the chance, the gravest first."""
    text: str = ""
    """Advice to the agent in our own words; empty for `low`."""
    line: int | None = None
    """The line of code, if the gravest reason has one."""


class ToolRecord(msgspec.Struct, array_like=True):
    """The outcomes of runs with one tool."""

    name: str = ""
    """The full name, once it was called."""
    version: str = ""
    """The version of the last call."""
    record: Evidence = msgspec.field(default_factory=Evidence)


class _Step(msgspec.Struct, frozen=True):
    """A reason, the change of the estimate that it caused, and its sentence."""

    reason: RiskReason
    rise: float
    text: str
    line: int | None = None
    share: float = 0.0
    """The share of such runs that failed."""

    @property
    def is_reason(self) -> bool:
        """True if it is worth mentioning."""
        return self.rise >= _RISE or self.share >= MEDIUM


class RiskModel(Part, msgspec.Struct, kw_only=True):
    """The evidence on outcomes of runs."""

    runs: int = 0
    all: Evidence = msgspec.field(default_factory=Evidence)
    firsts: Evidence = msgspec.field(default_factory=Evidence)
    """Runs that called a tool which nobody had called before."""
    tools: dict[str, ToolRecord] = {}
    """By a normal form of the tool's name; the most recent last."""
    forms: Forms = msgspec.field(default_factory=Forms)
    repeats: Repeats = msgspec.field(default_factory=Repeats)
    reasons: dict[str, Evidence] = {}
    """Runs with a reason of `_ADDED`."""
    estimates: dict[str, Evidence] = {}
    """Runs by their estimate before the last step, in tenths."""
    levels: dict[str, Level] = {}
    """The outcomes of assessments."""

    # Learning

    def learn_run(self, run: RunEvidence, lesson: Lesson, viewer: Viewer) -> None:
        """Learn from a run. One that never began is ignored: otherwise one refusal would cause the next."""
        print_ = lesson.code
        if (run.fact.status not in _ENDED and run.fact.status != "ok") or _is_never_run(run):
            return
        if run.fact.form == "code":
            self._learn_code(run, print_, viewer)
        self.repeats.note(run, print_ if run.fact.form == "code" else None, self._versions(print_))

    def _learn_code(self, run: RunEvidence, print_: CodePrint | None, viewer: Viewer) -> None:
        failed = run.fact.status != "ok"
        assessed = run.fact.assessed
        added = [] if assessed is None else [reason for reason in _ADDED if reason in assessed.reasons]
        self.runs += 1
        if print_ is not None and (assessed is None or assessed.risk != "critical"):
            repeat = self.repeats.find(viewer.principal, run.session, print_.exact, run.context_digest)
            steps = [_Step(reason, 0.0, "") for reason in added]
            estimate = self._steps(print_, repeat, steps, viewer, {})[0]
            self.estimates.setdefault(_tenth(estimate), Evidence()).add_run(viewer, failed=failed)
        if assessed is not None:
            self.levels.setdefault(assessed.risk, Level()).add(assessed.chance, viewer, failed=failed)
            for reason in added:
                self.reasons.setdefault(reason, Evidence()).add_run(viewer, failed=failed)
        self.all.add_run(viewer, failed=failed)
        self._learn_tools(run, print_, viewer, failed=failed)
        if print_ is not None and (not failed or is_own_failure(run)):
            majors = {call.tool: str(major_of(call.version)) for call in run.calls}
            self.forms.add(print_, majors, viewer, failed=failed)

    def _learn_tools(self, run: RunEvidence, print_: CodePrint | None, viewer: Viewer, *, failed: bool) -> None:
        called = {spelled(call.tool): call for call in run.calls}
        names = dict.fromkeys([*called, *(spelled(name) for name in (() if print_ is None else print_.tools))])
        if any(name not in self.tools for name in called):
            self.firsts.add_run(viewer, failed=failed)
        # A tool whose last call failed caused the failure of the run; then the others are not to blame.
        blamed = {name for name, call in called.items() if call.error is not None} if failed else set()
        for name in names:
            known = self.tools.pop(name, None) or ToolRecord()
            call = called.get(name)
            if call is not None:
                if known.version and major_of(known.version) != major_of(call.version):
                    known = ToolRecord()
                known.name, known.version = call.tool, call.version
            if not blamed or name in blamed:
                known.record.add_run(viewer, failed=failed)
            if known.name:  # a name that only code wrote may be any text
                self.tools[name] = known
        trim(self.tools, _TOOLS)  # only now: the oldest may be one that this run called

    def _versions(self, print_: CodePrint | None) -> dict[str, str]:
        """The last known versions of the tools that code names; an unknown one equals no other."""
        found: dict[str, str] = {}
        for name in () if print_ is None else print_.tools:
            known = self.tools.get(spelled(name))
            found[known.name if known is not None else name] = known.version if known is not None else ""
        return found

    # Assessing

    def assess(
        self,
        print_: CodePrint | None,
        viewer: Viewer,
        *,
        review: Review,
        specs: Mapping[str, ToolSpec],
        context_digest: str,
        session: str,
        predicted: Prediction | None = None,
        wall_seconds: float | None = None,
        memory_mib: int | None = None,
        wrong: Sequence[WrongCall] = (),
    ) -> Assessment:
        """The assessment of code before it runs.

        `specs` are the tools that it names, by the names of `print_.tools`. `session` is the workspace. The limits are
        those of the run; without them its cost is not assessed. `wrong` is the result of `wrong_calls`.
        """
        repeat = None if print_ is None else self.repeats.find(viewer.principal, session, print_.exact, context_digest)
        certain = self._certain(repeat, wrong, viewer, specs)
        if certain is not None:
            return certain
        added = _added(review, wrong, predicted, wall_seconds, memory_mib)
        estimate, steps, known = self._steps(print_, repeat, added, viewer, specs)
        alike = self.estimates.get(_tenth(estimate), Evidence()).known(viewer, lone=0.0)
        chance = round(min(max(shrunk(estimate, _ALIKE_WEIGHT, alike), _LEAST), _MOST), 4)
        if not added and known.own_failed < 1 and known.accusers < 2:
            chance = min(chance, _MOST_SUGGESTED)
        reasons = [step for step in sorted(steps, key=lambda step: -step.rise) if step.is_reason]
        named = tuple(dict.fromkeys(step.reason for step in reasons))
        if chance < MEDIUM:
            return Assessment(risk="low", chance=chance, reasons=named)
        text = next((step.text for step in reasons if step.text), _about("all", chance))
        line = reasons[0].line if reasons else None
        return Assessment(
            risk="high" if chance >= HIGH else "medium", chance=chance, reasons=named, text=text, line=line
        )

    def score(self) -> tuple[int, int]:
        """Runs assessed to end well or to fail, and those that did; `medium` says neither."""
        levels = [(risk, level) for risk, level in self.levels.items() if risk != "medium"]
        return sum(level.runs for _, level in levels), sum(level.right(risk) for risk, level in levels)

    def summary(self, items: Sequence[Insight]) -> PartInsights:
        """The record of the assessments."""
        learned = len(self.forms.by_digest) + len(self.tools)
        return part_insights("risk", items, learned=learned, evidence=self.runs, score=self.score())

    def items(self, viewer: Viewer) -> Iterator[Insight]:
        """The share of assessments that came true, and the tools whose runs fail."""
        for risk in LEVELS:
            level = self.levels.get(risk)
            if level is not None:
                share, expected = level.failed / level.runs, level.expected / level.runs
                yield Insight(
                    kind="risk",
                    subject=risk,
                    text=f"Of {level.runs:,} runs assessed {risk}, {share:.0%} failed; {expected:.0%} was expected.",
                    evidence=level.record.tally(viewer).total,
                    principals=len(level.record.by),
                    checked=level.runs,
                    right=level.right(risk),
                    last_at=level.record.last_at,
                )
        for tool in list(self.tools.values()):
            share, runs = tool.record.known(viewer).share, tool.record.tally(viewer).total
            if runs >= _LISTED_RUNS and share >= _LISTED_SHARE:
                yield Insight(
                    kind="tool",
                    subject=tool.name,
                    text=f"Of the runs with {tool.name}, {share:.0%} failed.",
                    evidence=runs,
                    principals=len(tool.record.by),
                    last_at=tool.record.last_at,
                )

    def _certain(
        self, repeat: Repeat | None, wrong: Sequence[WrongCall], viewer: Viewer, specs: Mapping[str, ToolSpec]
    ) -> Assessment | None:
        """The assessment of code that is practically certain to fail."""
        level = self.levels.get("critical")
        known = FailureEvidence() if level is None else level.record.known(viewer)
        chance = round(shrunk(_CERTAIN, _CERTAIN_WEIGHT, known), 4)
        if chance < _CERTAIN_LEAST:
            return None
        reason: RiskReason
        line: int | None
        if (call := next((each for each in wrong if each.is_certain), None)) is not None:
            reason, text, line = "arguments", _about_wrong_call(call), call.line
        elif repeat is not None and repeat.is_certain(specs, viewer.now):
            reason, text, line = "same_failures", _about_repeat(repeat, viewer.now, is_certain=True), repeat.line
        else:
            return None
        return Assessment(risk="critical", chance=chance, reasons=(reason,), text=text, line=line)

    def _steps(
        self,
        print_: CodePrint | None,
        repeat: Repeat | None,
        added: Sequence[_Step],
        viewer: Viewer,
        specs: Mapping[str, ToolSpec],
    ) -> tuple[float, list[_Step], FailureEvidence]:
        """The estimate, the steps to it, and the principals behind it."""
        estimate = shrunk(_BASE, _BASE_WEIGHT, self.all.known(viewer))
        found: list[_Step] = []
        behind: list[FailureEvidence] = []
        if print_ is not None:
            estimate = self._step_tools(print_, estimate, viewer, specs, found, behind)
        for step in added:
            known = self.reasons.get(step.reason, Evidence()).known(viewer)
            before, estimate = estimate, shrunk(max(estimate, _ADDED[step.reason]), _ADDED_WEIGHT, known)
            found.append(msgspec.structs.replace(step, rise=estimate - before))
        if print_ is None:
            return estimate, found, FailureEvidence()
        majors = {spec.full_name: str(major_of(spec.version)) for spec in specs.values()}
        form = self.forms.find(print_, majors)
        if form is not None and (known := form.record.known(viewer)).total >= _ENOUGH:
            before, estimate = estimate, shrunk(estimate, _FORM_WEIGHT, known)
            found.append(_Step("same_failures", estimate - before, _about("form", known.share), share=known.share))
            behind.append(known)
        if repeat is not None and (times := repeat.recent(viewer.now)) >= _ENOUGH:
            known = FailureEvidence(times, times, times)
            estimate = shrunk(estimate, _TEXT_WEIGHT, known)
            # A rise of 1, since there is no better evidence.
            found.append(_Step("same_failures", 1.0, _about_repeat(repeat, viewer.now), repeat.line))
            behind.append(known)
        own, accusers = sum(known.own_failed for known in behind), max((known.accusers for known in behind), default=0)
        return estimate, found, FailureEvidence(own_failed=own, accusers=accusers)

    def _step_tools(
        self,
        print_: CodePrint,
        base: float,
        viewer: Viewer,
        specs: Mapping[str, ToolSpec],
        found: list[_Step],
        behind: list[FailureEvidence],
    ) -> float:
        """The estimate after the tools that the code names: the one that fails most, or all if none is worse."""
        shares: list[float] = []
        worst: tuple[float, _Step | None] = (0.0, None)
        for name in print_.tools[:_TOOLS_READ]:
            spec, known = specs.get(name), self.tools.get(spelled(name))
            is_new = known is None or (spec is not None and major_of(spec.version) != major_of(known.version))
            record = self.firsts if is_new or known is None else known.record
            seen = record.known(viewer)
            seen = seen if seen.total >= _ENOUGH else FailureEvidence()
            share = shrunk(base, _TOOL_WEIGHT, seen)
            shares.append(share)
            behind.append(seen)
            if share > worst[0]:
                reason: RiskReason = "new_tool" if is_new else "tools"
                text = "" if spec is None else _about(reason, seen.share, spec)
                worst = share, _Step(reason, share - base, text, share=seen.share)
        if worst[1] is None:
            return base
        found.append(worst[1])
        return worst[0] if worst[0] > base else sum(shares) / len(shares)


def _added(
    review: Review,
    wrong: Sequence[WrongCall],
    predicted: Prediction | None,
    wall_seconds: float | None,
    memory_mib: int | None,
) -> list[_Step]:
    """The reasons that the text and the limits give, each once."""
    found: list[_Step] = []
    finding = next((each for each in review.findings if each.rule in FIRM_RULES), None)
    if finding is not None:
        does, instead = FIRM_RULES[finding.rule]
        where = f"Line {finding.line}" if finding.line else "The code"
        found.append(_Step("review", 0.0, f"{where} {does}. {instead}", finding.line))
    if wrong:
        found.append(_Step("arguments", 0.0, _about_wrong_call(wrong[0]), wrong[0].line))
    if predicted is not None and predicted.is_binding and (text := _cost(predicted, wall_seconds, memory_mib)):
        found.append(_Step("cost", 0.0, text))
    return found


def _cost(predicted: Prediction, wall_seconds: float | None, memory_mib: int | None) -> str:
    """The sentence for a run that needs more than its limits; empty if it does not."""
    seconds = max(predicted.seconds, predicted.timed_out_seconds)
    if wall_seconds is not None and (predicted.seconds > wall_seconds or predicted.timed_out_seconds >= wall_seconds):
        return _about_cost(seconds, wall_seconds, "s")
    if memory_mib is not None and (predicted.is_out_of_memory or predicted.memory_mib > memory_mib):
        return _about_cost(max(predicted.memory_mib, memory_mib), memory_mib, "MiB")
    return ""


def _tenth(estimate: float) -> str:
    return f"{estimate:.1f}"


def _is_never_run(run: RunEvidence) -> bool:
    """True if the review, the risk or a person kept it from running."""
    fact = run.fact
    if fact.status == "ok":
        return False
    if (fact.assessed is not None and fact.assessed.decision == "refused") or fact.failure == "refused":
        return True
    if fact.error_type == "ApprovalRefused" and not run.calls:
        return True
    return not fact.tier and fact.failure in ("syntax", "import")
