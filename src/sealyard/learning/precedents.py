"""Precedents for a risk estimate: repeated failures, forms of code, outcomes by level, and calls that cannot fit.

Repeats are a principal's own, in one workspace with the same values; a success, other answers, another error or another
version of a tool restarts the count. Hostile code is parsed and walked once; a call is certain to fail only by the way
stubs bind arguments.
"""

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from sealyard import errors
from sealyard.catalog.stubs import Parameter, Stub
from sealyard.code import Names
from sealyard.learning.disclosure import WORDS, mark_of
from sealyard.learning.part import Evidence, Viewer, put_last, touch, trim
from sealyard.learning.prints import CodePrint, names_of
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
_FORMS = 2_048  # forms of code remembered, the last that ran: a bound
_MAJORS = 40  # tools of a form whose major versions are kept: a bound
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
        # The size represents the answer: reading all answers here would take too long.
        calls = [
            (each.tool, each.version, each.answer_bytes, (each.error or "").partition(":")[0]) for each in run.calls
        ]
        mark = mark_of(repr((run.fact.failure, run.fact.error_type, run.failure_line, calls)), 8)
        found = codes.get(key)
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


# Code of one form


class Form(msgspec.Struct, array_like=True, gc=False):
    """Code that differs only in values and in the names of variables."""

    majors: dict[str, str]
    """Major versions of the tools it called, by full name."""
    record: Evidence = msgspec.field(default_factory=Evidence)


class Forms(msgspec.Struct, array_like=True):
    """The forms that ran last, two thousand of them."""

    by_digest: dict[str, Form] = {}

    def add(self, print_: CodePrint, majors: Mapping[str, str], viewer: Viewer, *, failed: bool) -> None:
        """Count a run. A new major version of a called tool starts a new record."""
        form = self.find(print_, majors) or Form(majors={})
        form.majors.update(majors)
        trim(form.majors, _MAJORS)  # code that calls tools by names that it is given can call them all
        form.record.add_run(viewer, failed=failed)
        put_last(self.by_digest, print_.digest, form, _FORMS)

    def find(self, print_: CodePrint, majors: Mapping[str, str]) -> Form | None:
        """The form of this code, if it ran with these versions of its tools."""
        form = self.by_digest.get(print_.digest)
        if form is None or any(form.majors.get(name, major) != major for name, major in majors.items()):
            return None
        return form


# Outcomes

LEVELS: tuple[Risk, ...] = ("low", "medium", "high", "critical")


class Level(msgspec.Struct, array_like=True):
    """The outcomes of runs that were assessed at one level."""

    runs: int = 0
    failed: int = 0
    expected: float = 0.0
    """The sum of their chances."""
    record: Evidence = msgspec.field(default_factory=Evidence)

    def add(self, chance: float, viewer: Viewer, *, failed: bool) -> None:
        """Count the outcome of a run whose chance was assessed so."""
        self.runs += 1
        self.failed += failed
        self.expected += chance
        self.record.add_run(viewer, failed=failed)

    def right(self, risk: str) -> int:
        """The number of runs for which `risk` was right: those that ended well if it is low, that failed otherwise."""
        return self.runs - self.failed if risk == "low" else self.failed


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
    stubs: dict[str, Stub] = {}
    left = _CALLS
    for node, place in names.noted:
        if not isinstance(node, ast.Call) or not left:
            continue
        path = names.meaning(node.func, place.scope) or ""
        if (spec := by_path.get(path)) is not None:
            stub = stubs.get(path) or stubs.setdefault(path, Stub(spec))
            problem = _check_function(node, stub.parameters, stub.rest is not None)
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
