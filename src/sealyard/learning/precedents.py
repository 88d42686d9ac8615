"""Precedents for a risk estimate: repeated failures, similar code, past estimates, and calls that cannot fit.

Repeats are a principal's own, in one workspace with the same values; a success, other answers, another error or another
version of a tool restarts the count. Outcomes correct the raw estimates, never the corrected ones that agents saw, so
that a correction is not corrected again. Hostile code is parsed and walked once; a call is certain to fail only by the
way stubs bind arguments.
"""

import ast
import builtins
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from sealyard import errors
from sealyard.catalog.stubs import Parameter, parameters, rest
from sealyard.code import Names
from sealyard.learning.disclosure import WORDS, mark_of
from sealyard.learning.part import Evidence, Viewer, put_last, shrunk, touch, trim
from sealyard.learning.prints import CodePrint, names_of, similarity
from sealyard.values.facts import Risk, RunEvidence
from sealyard.values.tools import ToolSpec

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

TIMES = 3  # failures in an hour that make the next one certain
HOUR = 3_600.0  # the time in which repeats count
AGAIN_SECONDS = 600.0  # time after which one more try is not certain to fail: the world may have changed
_SESSIONS = 512  # workspaces remembered, the last that failed: a bound
_CODES = 16  # codes of one workspace: a bound
_KEPT = 8  # times of one failure: a bound
_TOOLS = 20  # tools of a repeated run; with more, too much can change for anything to be certain
_PATTERNS = 2_048  # forms of code remembered, the last that ran: a bound
_INDEXED = 8  # tools under which a form is found: a bound
_CANDIDATES = 8  # forms compared with a new one: a bound
_MAJORS = 40  # tools of a form whose major versions are kept: a bound
_LIKE = 0.5  # similarity below which two forms are unrelated
EDGES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # of the steps in which estimates are corrected
_WEIGHT = 6.0  # runs that a step needs to correct its estimate halfway
_MEAN_OF = 200  # estimates in the running mean of a step
_LEAST = 0.01  # lowest chance that is given
_MOST = 0.99  # highest chance that is given
_CALLS = 100  # calls of a piece of code that are checked: a bound

# Repeated failures

_OWN_KINDS = frozenset(("exception", "refused", "syntax", "import", "result"))
_OWN_ERRORS = frozenset(("InvalidRequest", "InvalidArguments", "UnknownTool"))
_OTHERS = frozenset(errors.__all__) - _OWN_ERRORS
"""Our errors that have another cause than the code: an upstream, a person, a limit, the gateway itself."""
_MISTAKES = WORDS["mistakes"]


def is_own_failure(run: RunEvidence) -> bool:
    """True if a run failed by its own code, and not by an upstream, a limit, a person or the gateway."""
    fact = run.fact
    return fact.status == "failed" and fact.failure in _OWN_KINDS and fact.error_type not in _OTHERS


class Repeat(msgspec.Struct, array_like=True):
    """The same failure of the same code."""

    mark: str
    """A digest of everything observed about the failure."""
    times: list[float]
    """The times of the last eight occurrences."""
    error: str
    """The name of the error if it is a known one, otherwise empty."""
    line: int | None
    versions: dict[str, str]
    """The versions of the tools that it names or called, by full name; empty for an unknown one."""

    def recent(self, now: float) -> int:
        """The number of occurrences in the last hour."""
        return sum(now - HOUR < at <= now for at in self.times)

    def is_certain(self, specs: Mapping[str, ToolSpec], now: float) -> bool:
        """True if the same failure is certain."""
        if self.recent(now) < TIMES or not now - AGAIN_SECONDS < self.times[-1] <= now:
            return False
        there = {spec.full_name: spec.version for spec in specs.values()}
        return all(there.get(name) == version for name, version in self.versions.items())


class Repeats(msgspec.Struct, array_like=True):
    """The last failures of each workspace."""

    sessions: dict[str, dict[str, Repeat]] = {}
    """By digest of the workspace, then by code and values; in each the most recent last."""

    def note(self, run: RunEvidence, print_: CodePrint | None, versions: Mapping[str, str]) -> None:
        """Remember a failure, or forget those of its workspace when a run ends well.

        `versions` are those of the tools that the code names, as they were then.
        """
        if run.fact.status == "ok":
            self.sessions.pop(_workspace(run.session), None)
            return
        if print_ is None or print_.skills or run.skills or not is_own_failure(run):
            return  # a saved skill may be another one the next time
        if run.calls and run.fact.error_type not in _MISTAKES:
            return
        used = {**versions, **{call.tool: call.version for call in run.calls}}
        if len(used) > _TOOLS:
            return  # so much can change that nothing is certain
        workspace = _workspace(run.session)
        codes = touch(self.sessions, workspace, dict[str, Repeat], _SESSIONS)
        key = _key(run.fact.principal, print_.exact, run.context_digest)
        found, mark = codes.get(key), _mark(run)
        times = found.times if found is not None and found.mark == mark else []
        repeat = Repeat(
            mark=mark,
            times=[*times, run.fact.at][-_KEPT:],
            error=run.fact.error_type if is_known_error(run.fact.error_type) else "",
            line=run.failure_line,
            versions=used,
        )
        put_last(codes, key, repeat, _CODES)

    def find(self, principal: str, session: str, exact: str, context_digest: str) -> Repeat | None:
        """The failure of this code with these values, if its last run was that failure."""
        return self.sessions.get(_workspace(session), {}).get(_key(principal, exact, context_digest))


def is_known_error(name: str) -> bool:
    """True for an error of Python's or ours: code can give its own errors any name."""
    return hasattr(builtins, name) or name in errors.__all__


def _workspace(session: str) -> str:
    """A digest in place of a workspace's name, which an agent wrote."""
    return mark_of(session, 8)


def _key(principal: str, exact: str, context_digest: str) -> str:
    return f"{principal}\n{exact}\n{context_digest}"


def _mark(run: RunEvidence) -> str:
    # The size represents the answer: reading all answers here would take too long.
    seen = [(call.tool, call.version, call.answer_bytes, (call.error or "").partition(":")[0]) for call in run.calls]
    text = repr((run.fact.failure, run.fact.error_type, run.failure_line, seen))
    return mark_of(text, 8)


# Similar code


class Pattern(msgspec.Struct, array_like=True, gc=False):
    """Code of one form."""

    sample: tuple[int, ...]
    """As in its prints."""
    places: list[str]
    """The keys of the index under which it is found."""
    majors: dict[str, str]
    """Major versions of the tools it called, by full name."""
    record: Evidence = msgspec.field(default_factory=Evidence)


class Patterns(msgspec.Struct, array_like=True):
    """The forms that ran last, two thousand of them."""

    by_digest: dict[str, Pattern] = {}
    by_place: dict[str, list[str]] = {}

    def add(self, print_: CodePrint, majors: Mapping[str, str], viewer: Viewer, *, failed: bool) -> None:
        """Count a run. A new major version of a called tool starts a new form."""
        pattern = self._take(print_.digest)
        if pattern is None or _is_other(pattern.majors, majors):
            pattern = Pattern(sample=print_.sample, places=[], majors={})
        pattern.places = _places(print_)  # a tool that is called by its name is a value, and not part of the form
        for place in pattern.places:
            found = self.by_place.setdefault(place, [])
            found.append(print_.digest)
            del found[:-_CANDIDATES]
        pattern.majors.update(majors)
        trim(pattern.majors, _MAJORS)  # code that calls tools by names that it is given can call them all
        pattern.record.add_run(viewer, failed=failed)
        self.by_digest[print_.digest] = pattern
        if len(self.by_digest) > _PATTERNS:
            self._take(next(iter(self.by_digest)))

    def find(self, print_: CodePrint, majors: Mapping[str, str]) -> tuple[Pattern | None, list[tuple[Pattern, float]]]:
        """The form itself and similar ones with their weights up to 1, if they ran with these versions of the tools."""
        same = self.by_digest.get(print_.digest)
        if same is not None and _is_other(same.majors, majors):
            same = None
        mine = set(print_.sample)
        digests = [digest for place in _places(print_) for digest in reversed(self.by_place.get(place, ()))]
        likes = []
        for digest in [each for each in dict.fromkeys(digests) if each != print_.digest][:_CANDIDATES]:
            pattern = self.by_digest[digest]
            # An upper bound of the similarity is cheap, and excludes most pairs.
            common, most = len(mine.intersection(pattern.sample)), max(len(mine), len(pattern.sample))
            if common > _LIKE * most and not _is_other(pattern.majors, majors):
                weight = (similarity(mine, pattern.sample) - _LIKE) / (1 - _LIKE)
                likes += [(pattern, weight)] if weight > 0 else []
        return same, likes

    def _take(self, digest: str) -> Pattern | None:
        """Remove a form and its entries in the index."""
        pattern = self.by_digest.pop(digest, None)
        for place in () if pattern is None else pattern.places:
            found = [each for each in self.by_place.pop(place, ()) if each != digest]
            if found:
                self.by_place[place] = found
        return pattern


def _places(print_: CodePrint) -> list[str]:
    if print_.tools:
        return list(print_.tools[:_INDEXED])
    return [f"import {','.join(print_.imports)}"]


def _is_other(then: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """True if a tool has another major version than it had."""
    return any(then.get(name, major) != major for name, major in now.items())


# Calibration

LEVELS: tuple[Risk, ...] = ("low", "medium", "high", "critical")


class Level(msgspec.Struct, array_like=True):
    """The outcomes of runs that were assessed at one level."""

    runs: int = 0
    failed: int = 0
    expected: float = 0.0
    """The sum of their chances."""
    record: Evidence = msgspec.field(default_factory=Evidence)

    def right(self, risk: str) -> int:
        """The number of runs for which `risk` was right: those that ended well if it is low, that failed otherwise."""
        return self.runs - self.failed if risk == "low" else self.failed


class Step(msgspec.Struct, array_like=True):
    """The runs whose estimate was between two edges."""

    mean: float = 0.0
    count: int = 0
    record: Evidence = msgspec.field(default_factory=Evidence)


class Calibration(msgspec.Struct, array_like=True):
    """The assessments that were made, and their outcomes."""

    levels: dict[str, Level] = {}
    steps: list[Step] = []

    def add_outcome(self, risk: Risk, chance: float, viewer: Viewer, *, failed: bool) -> None:
        """Count the outcome of a run that was assessed as `risk`."""
        level = self.levels.setdefault(risk, Level())
        level.runs += 1
        level.failed += failed
        level.expected += chance
        level.record.add_run(viewer, failed=failed)

    def add(self, estimate: float, viewer: Viewer, *, failed: bool) -> None:
        """Count the outcome of a run whose estimate, before correction, was `estimate`."""
        if not self.steps:
            self.steps = [Step() for _ in range(len(EDGES) + 1)]
        step = self.steps[bisect_right(EDGES, estimate)]
        step.count = min(step.count + 1, _MEAN_OF)
        step.mean += (estimate - step.mean) / step.count
        step.record.add_run(viewer, failed=failed)

    def curve(self, viewer: Viewer) -> "Curve":
        """The correction of estimates for a principal.

        Outcomes of one other principal alone correct nothing.
        """
        points = [(step.mean, step.record.known(viewer, lone=0.0)) for step in self.steps if step.count]
        shares = [shrunk(mean, _WEIGHT, known) for mean, known in points]
        shares = isotonic(shares, [_WEIGHT + known.total for _, known in points])
        return Curve(tuple(mean for mean, _ in points), tuple(shares))


class Curve(NamedTuple):
    """Estimates and their corrected values, both rising."""

    means: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()

    def corrected(self, estimate: float) -> float:
        """The estimate corrected by earlier outcomes; the order of estimates stays."""
        means, shares = self.means, self.shares
        if not means:
            return min(max(estimate, _LEAST), _MOST)
        at = bisect_right(means, estimate)
        if at == 0 or at == len(means):
            near = min(at, len(means) - 1)
            found = estimate + (shares[near] - means[near])
        else:
            part = (estimate - means[at - 1]) / (means[at] - means[at - 1])
            found = shares[at - 1] + part * (shares[at] - shares[at - 1])
        return min(max(found, _LEAST), _MOST)


def isotonic(shares: list[float], weights: list[float]) -> list[float]:
    """The closest non-decreasing sequence by weighted least squares."""
    blocks: list[tuple[float, float, int]] = []
    for share, weight in zip(shares, weights, strict=True):
        blocks.append((share, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (one, mine, count), (other, theirs, more) = blocks[-2:]
            blocks[-2:] = [((one * mine + other * theirs) / (mine + theirs), mine + theirs, count + more)]
    return [share for share, _, count in blocks for _ in range(count)]


# Calls that cannot fit

_CERTAIN_EXPRESSIONS = (
    *(ast.Attribute, ast.Await, ast.BinOp, ast.Call, ast.Dict, ast.FormattedValue, ast.JoinedStr, ast.List),
    *(ast.NamedExpr, ast.Set, ast.Slice, ast.Starred, ast.Subscript, ast.Tuple, ast.UnaryOp, ast.keyword),
)
"""Expressions that always evaluate all of their parts."""
_UNCERTAIN_NAMES = WORDS["uncertain_names"]


class WrongCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that cannot fit its tool."""

    line: int
    tool: ToolSpec
    problem: Literal["unknown", "missing", "many"]
    """The tool has no such parameter, a required one is missing, or there are too many positional values."""
    names: tuple[str, ...]
    """The missing parameters, otherwise all parameters of the tool, as the call has to write them."""
    unknown: tuple[str, ...] = ()
    """The names that the call gives and the tool does not have."""
    is_certain: bool
    """True if the code always reaches the call, and fails there."""


def wrong_calls(code: str, specs: Mapping[str, ToolSpec]) -> tuple[WrongCall, ...]:
    """The calls in `code` that do not fit the tools of `specs`, in the order of the text; a hundred are looked at."""
    names = names_of(code) if specs else None
    if names is None:
        return ()
    found = list(_checked(names, specs))
    if not found:
        return ()
    is_plain = not names.stars and not _is_uncertain(names.tree)
    certain = {id(node) for node in _certain(names.tree)} if is_plain else set()
    marked = [msgspec.structs.replace(wrong, is_certain=id(node) in certain) for node, wrong in found]
    return tuple(sorted(marked, key=lambda wrong: wrong.line))


def _checked(names: Names, specs: Mapping[str, ToolSpec]) -> Iterator[tuple[ast.Call, WrongCall]]:
    """The calls of known tools that do not fit, each with its mistake."""
    by_path = {f"servers.{spec.module}.{spec.function}": spec for spec in specs.values()}
    by_name = {spec.full_name: spec for spec in specs.values()}
    stubs: dict[str, tuple[tuple[Parameter, ...], bool]] = {}
    """The parameters of each function, and True if it takes others."""
    left = _CALLS
    for node, place in names.noted:
        if not isinstance(node, ast.Call) or not left:
            continue
        path = names.meaning(node.func, place.scope) or ""
        if (spec := by_path.get(path)) is not None:
            stub = stubs.get(path) or stubs.setdefault(path, (parameters(spec), rest(spec) is not None))
            problem = _check_function(node, *stub)
        elif path == "builtins.call_tool" and (spec := by_name.get(_name(node))) is not None:
            problem = _check_by_name(node, spec)
        else:
            continue
        left -= 1
        if problem is not None:
            kind, about, unknown = problem
            wrong = WrongCall(line=node.lineno, tool=spec, problem=kind, names=about, unknown=unknown, is_certain=False)
            yield node, wrong


def _name(node: ast.Call) -> str:
    match node.args:
        case [ast.Constant(value=str(name)), *_]:
            return name
    return ""


_Problem = tuple[Literal["unknown", "missing", "many"], tuple[str, ...], tuple[str, ...]]
"""The problem, names and unknown names of a `WrongCall`."""


def _check_function(node: ast.Call, taken: Sequence[Parameter], has_rest: bool) -> _Problem | None:
    """The mistake in the arguments, as the stub binds them."""
    names = tuple(parameter.name for parameter in taken)
    named = {keyword.arg for keyword in node.keywords}
    unknown = tuple(sorted(name for name in named if name is not None and name not in names))
    if unknown and not has_rest:
        return "unknown", names, unknown
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return None
    if len(node.args) > len(names):
        return "many", names, ()
    given = named | set(names[: len(node.args)])
    missing = tuple(each.name for each in taken if each.required and each.name not in given)
    return ("missing", missing, unknown) if missing and None not in named else None


def _check_by_name(node: ast.Call, spec: ToolSpec) -> _Problem | None:
    """The mistake in the arguments, as the gateway checks them: by the upstream's names of parameters."""
    match [*node.args[1:], *(keyword.value for keyword in node.keywords if keyword.arg == "arguments")]:
        case [ast.Dict(keys=keys)]:
            given = {key.value if isinstance(key, ast.Constant) else None for key in keys}
        case _:
            return None
    schema = spec.input_schema
    demanded, known = schema.get("required"), schema.get("properties")
    needed = [key for key in demanded if isinstance(key, str)] if isinstance(demanded, list) else []
    missing = tuple(key for key in needed if key not in given)
    others = [key for key in given if key is not None and isinstance(known, dict) and key not in known]
    unknown = tuple(sorted(key for key in others if isinstance(key, str)))
    if missing and None not in given:
        return "missing", missing, unknown
    is_closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    return ("unknown", tuple(known or ()), unknown) if is_closed and others else None


def _is_uncertain(tree: ast.Module) -> bool:
    """True if other code could change the outcome of a call."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.alias(name=name) | ast.Attribute(attr=name):
                if name in _UNCERTAIN_NAMES or name.partition(".")[0] in _UNCERTAIN_NAMES:
                    return True
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            return True  # it may put another function in the place of a tool
    return False


def _certain(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls that are always made, unless the code fails earlier."""
    for statement in tree.body:
        match statement:
            case ast.Expr(value=value) | ast.Assign(value=value) | ast.AugAssign(value=value):
                yield from _evaluated(value)
            case ast.AnnAssign(value=ast.expr() as value):
                yield from _evaluated(value)
            case ast.For(iter=value) | ast.If(test=value) | ast.While(test=value) | ast.Assert(test=value):
                yield from _evaluated(value)


def _evaluated(value: ast.expr) -> Iterator[ast.Call]:
    waiting: list[ast.AST] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            yield node
        if isinstance(node, ast.Compare):
            waiting += (node.left, node.comparators[0])
        elif isinstance(node, _CERTAIN_EXPRESSIONS):
            waiting += ast.iter_child_nodes(node)
