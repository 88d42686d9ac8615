"""The cause of a failed run: a tool that rejected a call, or a limit that was reached. It holds no value.

The error text of a tool is kept as a class of its words and a digest, and an argument as its name, kind, size and hash.
The hashes distinguish another attempt at a failed job from the next job of the same visit.
"""

import itertools
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from sealyard.learning.disclosure import IDENTIFIER, is_name, mark_of
from sealyard.learning.prints import short_hash
from sealyard.values.changes import major_of
from sealyard.values.facts import CallEvidence, RunEvidence

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_TOOLS = 16  # tools of a run whose calls are described: a bound
_ARGUMENTS = 40  # arguments of a call that are read: a bound
_ITEMS = 10  # items of an argument that is a list: a bound
_COMPARED = 400  # names and values of a run's calls that are compared with those of another run: a bound
_HASHES = 200  # hashes kept of a run's values, and of the names of its arguments: a bound
_KEYS = 64  # keys of an object in an answer that are read: a bound
_VISITS = 10_000  # parts of a run's answers that are searched for the source of a value: a bound
_SOURCE_CHARACTERS = 3  # a shorter value can be equal to one of an answer by chance
_SHORT_TEXT = 100  # shorter texts do not fail for their length
_TEXT_CHARACTERS = 80  # characters of a value or name that are compared: a bound
_LARGEST_WRITTEN = 10**18  # larger numbers are not written out: one can have thousands of digits
_MESSAGE_CHARACTERS = 2_000  # characters of an error message that are matched: a bound
_DIGEST_WORDS = 24  # words of a message in its digest: the first sentences say what is wrong, the rest varies
# Both shares separate repairs from the next job in the sessions of `tests/unit/learning/test_repairs.py`.
_REPEATED = 0.75  # least share of the failed run that another attempt repeats
_BACK = 0.3  # least share of the attempt that was in the failed run

# Arguments without their values

_WRITTEN = re.compile(r"[^\W_]+")
_TEXT_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("empty", re.compile(r"\s*")),
    ("private", re.compile(r"(?i:.*__PII_.*)", re.DOTALL)),
    ("date", re.compile(r"\d{4}-\d{2}-\d{2}")),
    ("time", re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*")),
    ("other_date", re.compile(r"\d{1,4}[./ -](?:\d{1,2}|[A-Za-z]{3,9})[./ -]\d{1,4}|[A-Za-z]{3,9} \d{1,2},? \d{4}")),
    ("digits", re.compile(r"[-+]?\d+(?:\.\d+)?")),
    ("url", re.compile(r"[a-z]+://.*", re.DOTALL)),
    ("address", re.compile(r"[^\s@]+@[^\s@]+")),
    ("absolute", re.compile(r"/\S.*|[A-Za-z]:\\.*", re.DOTALL)),
    ("relative", re.compile(r"\.{0,2}[\w.-]*/[^\s].*|[\w-]+\.[a-z]{2,4}")),
    ("json", re.compile(r"\s*[\[{].*", re.DOTALL)),
    ("upper", re.compile(r"[A-Z][A-Z0-9_-]*")),
    ("lower", re.compile(r"[a-z][a-z0-9_-]*")),
    ("title", re.compile(r"[A-Z][a-z0-9]+")),
)


class Argument(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An argument of a call without its value."""

    kind: str
    size: int
    """The order of magnitude of a number or a length; 0 for other values."""
    mark: int
    """A hash of the value; 0 for nothing."""


def argument_of(value: Any) -> Argument:
    """The description of a value."""
    size = 0
    if type(value) is int and value > 0:
        size = value.bit_length()
    elif isinstance(value, str | list):
        size = (len(value) // _SHORT_TEXT if isinstance(value, str) else len(value)).bit_length()
    text = "\0".join(_texts(value, iter(range(_ITEMS))))
    return Argument(kind_of(value), size, short_hash(text) if text else 0)


def kind_of(value: Any) -> str:
    """The kind of a value, without the value."""
    match value:
        case None:
            return "none"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case list() | tuple():
            return "list"
        case dict():
            return "dict"
        case str():
            return next((kind for kind, form in _TEXT_KINDS if form.fullmatch(value[:200])), "text")
    return "other"


def plain(value: object) -> str:
    """A normal form, equal for `'10/01/2024'` and `'2024-10-01'`, and for `12` and `'12'`; empty for other types."""
    if not isinstance(value, str | float) and not (isinstance(value, int) and abs(value) < _LARGEST_WRITTEN):
        return ""
    pieces = (piece.lstrip("0") for piece in _WRITTEN.findall(str(value)[:_TEXT_CHARACTERS].lower()))
    return " ".join(sorted(pieces))


def tool_name(full_name: str) -> str:
    """`module.function` as code most likely writes it; empty for text that cannot be a tool's name."""
    upstream, mark, tool = full_name.removeprefix("mcp__").partition("__")
    parts = [re.sub(r"\W", "_", part) for part in (upstream, tool)]
    return ".".join(parts) if mark and all(map(IDENTIFIER.fullmatch, parts)) else ""


# Attempts at one job


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a run's calls: hashes of their values, and of the names of arguments, which weigh half as much."""

    values: tuple[int, ...] = ()
    names: tuple[int, ...] = ()


def attempt_of(calls: Iterable[CallEvidence], name: str = "") -> Attempt:
    """The content of calls. `name`, the parameter that a failure is about, is left out: it may change."""
    values: set[int] = set()
    names: set[int] = set()
    for text, is_value in itertools.islice(_texts_of(calls), _COMPARED):
        if text and text != name:
            # A single digit says as little as a name.
            (values if is_value and len(text) > 1 else names).add(short_hash(text))
    return Attempt(values=tuple(sorted(values)[:_HASHES]), names=tuple(sorted(names)[:_HASHES]))


def _texts_of(calls: Iterable[CallEvidence]) -> Iterator[tuple[str, bool]]:
    """The names of arguments, and their values in a normal form with true; those that nearly every call has, empty."""
    for call in calls:
        for name, value in _arguments(call):
            yield name[:_TEXT_CHARACTERS], False
            for item in value[:_ITEMS] if isinstance(value, list) else [value]:
                yield "" if isinstance(item, bool) or item in (0, 1) else plain(item), True


def _kept(one: Attempt, other: Attempt, *, spares: bool) -> float | None:
    """The weighted share of `one` that is in `other`; None if `one` is empty.

    `spares`: another value may be the repair, so one missing value does not count.
    """
    there = {*other.values, *other.names}
    values = [each in there for each in one.values]
    names = [each in there for each in one.names]
    total = len(values) + len(names) / 2 - (spares and not all(values))
    return (sum(values) + sum(names) / 2) / total if total else None


def _arguments(call: CallEvidence) -> list[tuple[str, Any]]:
    given = call.arguments.items() if isinstance(call.arguments, dict) else ()
    return [(str(name), value) for name, value in itertools.islice(given, _ARGUMENTS)]


# Causes

LIMITS = frozenset(("wall_time", "cpu_time", "memory", "output", "processes", "open_files", "workspace", "calls"))
"""The limits of a run, by the kind of failure."""
_ENDED = frozenset(("ok", "failed", "timeout", "limit", "broken"))
_TOOL_ERRORS = frozenset(
    ("ToolError", "ToolFailed", "UpstreamError", "UpstreamTimeout", "UpstreamUnavailable", "LimitReached")
)

_WORDS: tuple[tuple[str, str], ...] = (
    ("rate", r"rate.?limit|too many requests|429|throttl|quota|slow down"),
    ("busy", r"tim(?:ed|e) ?out|unavailable|try again|temporar|busy|overload|503|502|connection|circuit"),
    ("forbidden", r"permission|forbidden|denied|unauthori[sz]ed|not allowed|401|403|access"),
    (
        "absent",
        r"not found|no such|does not exist|doesn't exist|unknown|404|no \w+ (?:has|with)|cannot find|missing id",
    ),
    (
        "format",
        r"format|iso.?8601|yyyy|invalid date|parse|malformed|expected a|must be (?:a|an|in)\b|not a valid|pattern",
    ),
    ("size", r"too (?:large|many|long|big)|exceed|at most|maximum|limit|range|greater than|less than|between"),
    ("required", r"required|must (?:be given|provide|specify)|missing|at least one|needs?\b"),
    ("conflict", r"already|exists|conflict|duplicate|409|in use"),
    ("state", r"status|state|first|before|must be \w+ed|not (?:yet )?\w+ed\b"),
    ("invalid", r"invalid|bad request|illegal|unsupported|not supported|not one of|400"),
)
"""Classes of a tool's error by its words; the first match counts."""
_COMPLAINT = re.compile(r": '(\w+)'(?: \(\w+ in Python\))? (is missing|is not one of its parameters|is )")
"""The first complaint of our own check of arguments, and its parameter."""


class Cause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cause of a failure, and the calls of the run. A run that succeeded has a cause without a family."""

    family: str = ""
    """`tool` for an error of a tool, `argument` for one of our own check, or the limit."""
    template: str = ""
    """The complaint about an argument, or for a tool's error the class of its words, a colon and their digest."""
    tool: str = ""
    """`module.function`: the one that rejected the call, or that was called most before the limit."""
    name: str = ""
    """The parameter that our own check named."""
    calls: dict[str, dict[str, Argument]] = {}
    """By tool: the arguments of its first successful call; in a failed run, only those of the call that failed."""
    sources: dict[str, dict[str, str]] = {}
    """By tool and parameter: another tool whose earlier answer had the value."""
    majors: dict[str, int] = {}
    """The major versions of the called tools."""
    attempt: Attempt = Attempt()

    @property
    def is_failure(self) -> bool:
        """True if the run failed."""
        return bool(self.family)

    @property
    def complaint(self) -> str:
        """The class of what the tool or our own check said; empty for a limit."""
        return self.template.partition(":")[0]

    @property
    def is_about_value(self) -> bool:
        """True if another value may repair the failure."""
        return self.family in ("tool", "argument") and self.template not in ("unknown", "missing")

    def groups(self) -> tuple[str, ...]:
        """The keys of its repairs: for exactly this failure of the tool, then for all of its class."""
        narrow = f"{self.tool}|{self.family}|{self.template}|{mark_of(self.name) if self.name else ''}"
        return narrow, f"{self.tool}|{self.family}|{self.complaint}"


def is_fed(failed: Cause, then: Cause) -> bool:
    """True if `then` passes values to the tool of the failure that come from tools that were not called before."""
    return not set(then.sources.get(failed.tool, {}).values()) <= failed.calls.keys()


def is_again(failed: Cause, then: Cause) -> bool | None:
    """True if the calls of `then` attempt the job that failed in `failed`; None if they cannot be compared."""
    if failed.family in LIMITS:  # a run that keeps within a limit makes other calls
        return None
    repeated = _kept(failed.attempt, then.attempt, spares=failed.is_about_value)
    back = _kept(then.attempt, failed.attempt, spares=failed.is_about_value)
    if repeated is None:
        return None
    return repeated >= _REPEATED and (is_fed(failed, then) or (back is not None and back >= _BACK))


def prepare_cause(run: RunEvidence) -> Cause | None:
    """The cause of a run, failed or not; None if nothing can be learned from its calls.

    It needs `fact.form`, `fact.status`, `fact.failure`, `code`, `failure_type`, `failure_message` and `calls`.
    """
    if run.fact.form == "analysis" or run.fact.status not in _ENDED or not run.calls:
        return None
    majors = {tool: major for call in run.calls if (tool := tool_name(call.tool)) and (major := major_of(call.version))}
    if run.fact.status == "ok":
        accepted = _first_calls(call for call in run.calls if call.error is None)
        return Cause(
            calls={tool: _described(call) for tool, call in accepted.items()},
            sources=_sources(run),
            majors=majors,
            attempt=attempt_of(run.calls),
        )
    is_limit = run.fact.failure in LIMITS
    call = _last_of_busiest(run) if is_limit else next((call for call in reversed(run.calls) if call.error), None)
    tool = "" if call is None else tool_name(call.tool)
    family, template, name = (run.fact.failure, "", "") if is_limit else _classify(run, call)
    if call is None or not family or not tool:
        return None
    return Cause(
        family=family,
        template=template,
        tool=tool,
        name=name,
        calls={**{each: {} for each in _first_calls(run.calls)}, tool: _described(call)},
        majors=majors,
        attempt=attempt_of(run.calls, name),
    )


def _last_of_busiest(run: RunEvidence) -> CallEvidence:
    """The last call of the tool that was called most."""
    ((busiest, _),) = Counter(call.tool for call in run.calls).most_common(1)
    return next(call for call in reversed(run.calls) if call.tool == busiest)


def _classify(run: RunEvidence, rejected: CallEvidence | None) -> tuple[str, str, str]:
    """Family, template and name; empty for a failure that is not about a call."""
    if rejected is None or rejected.error is None:
        return "", "", ""
    error, message = run.failure_type, run.failure_message
    if not run.code:
        error, _, message = rejected.error.partition(": ")
    message = message[:_MESSAGE_CHARACTERS]
    if error == "InvalidArguments":
        return "argument", *_complaint(message)
    return ("tool", _words_of(message), "") if error in _TOOL_ERRORS else ("", "", "")


def _words_of(message: str) -> str:
    """The class of a tool's error, a colon, and a digest of its words without the parts that change between calls."""
    lowered = message.lower()
    found = next((name for name, form in _WORDS if re.search(form, lowered)), "other")
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", " ", lowered)
    kept = " ".join(word for word in bare.split() if not re.search(r"[\d@/_]", word))
    words = " ".join(itertools.islice(re.findall(r"[a-z]{2,}", kept), _DIGEST_WORDS))
    return f"{found}:{mark_of(words) if words else ''}"


def _complaint(message: str) -> tuple[str, str]:
    found = _COMPLAINT.search(message)
    if found is None:
        return "value", ""
    kind = {"is missing": "missing", "is not one of its parameters": "unknown"}.get(found[2], "value")
    return kind, found[1] if is_name(found[1]) else ""


def _first_calls(calls: Iterable[CallEvidence]) -> dict[str, CallEvidence]:
    """The first call of each tool."""
    found: dict[str, CallEvidence] = {}
    for call in calls:
        if (tool := tool_name(call.tool)) and len(found) < _TOOLS:
            found.setdefault(tool, call)
    return found


def _described(call: CallEvidence) -> dict[str, Argument]:
    """The arguments of a call by name, or by a digest of a name that must not be kept."""
    return {name if is_name(name) else f"#{mark_of(name)}": argument_of(value) for name, value in _arguments(call)}


def _sources(run: RunEvidence) -> dict[str, dict[str, str]]:
    """The tools whose answers had the values that later calls of other tools gave."""
    found: dict[str, dict[str, str]] = {}
    answered: dict[str, str] = {}
    """The first tool that answered with each text."""
    visits = iter(range(_VISITS))  # shared: a bound for all answers together
    for call in run.calls if len({call.tool for call in run.calls}) > 1 else ():
        tool = tool_name(call.tool)
        if call.error is not None or not tool:
            continue
        for name, value in _arguments(call):
            texts = filter(_is_rare, _texts(value, iter(range(_ITEMS))))
            source = next((answered[text] for text in texts if text in answered), tool)
            if source != tool and is_name(name):
                found.setdefault(tool, {}).setdefault(name, source)
        for text in filter(_is_rare, _texts(call.answer if call.has_answer else None, visits)):
            answered.setdefault(text, tool)
    return found


def _is_rare(text: str) -> bool:
    """True if two texts are hardly equal by chance."""
    return len(text) >= _SOURCE_CHARACTERS


def _texts(value: object, visits: Iterator[int]) -> Iterator[str]:
    """The normal forms of the values in `value`, of as many parts of it as `visits` has."""
    waiting = deque([value])
    while waiting and next(visits, None) is not None:
        inner = waiting.popleft()
        if isinstance(inner, dict):
            waiting.extend(list(inner.values())[:_KEYS])
        elif isinstance(inner, list):
            waiting.extend(inner)
        elif text := plain(inner):
            yield text
