"""The cause of a failed run in words of a closed set: the kind of mistake, the tool, and the name it is about.

Messages are matched against known forms and thrown away. The error text of a tool is kept as a class of its words and a
digest, so the only readable text of a tool or an agent in a cause is identifiers. Hashes of values, names and fields
distinguish another attempt at a failed job from the next job of the same visit.
"""

import ast
import builtins
import itertools
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator

import msgspec

from sealyard import errors
from sealyard.learning.code import CodePrint, Reading, read_sketch, sent, short_hash, tool_name
from sealyard.learning.disclosure import NAME_CHARACTERS, is_field, is_name, mark_of, plain
from sealyard.values.facts import CallEvidence, RunEvidence
from sealyard.versioning.compare import major_of

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_ATOMS = 200  # hashes kept of a run's values, and of its names: a bound
_ARGUMENTS = 40  # arguments of a call that are read: a bound
_TEXT_CHARACTERS = 80  # characters of an argument's name that are compared: a bound
# The three shares separate repairs from the next job in the sessions of `tests/unit/learning/test_repairs.py`.
_STATEMENT = 0.5  # least share of the failed statement that an attempt repeats
_WHOLE = 0.65  # least share of the whole failed run that it repeats
_BACK = 0.3  # least share of the attempt that was in the failed run
_NAMES = 400  # identifiers of the code that are kept: a bound
_FIELDS = 64  # names of fields kept of one tool: a bound
_TOOLS = 8  # tools whose fields are kept: a bound
_VISITS = 2_000  # values of an answer that are walked: a bound
_SOURCE_CHARACTERS = 3  # a shorter value can be equal to one of an answer by chance
_MESSAGE_CHARACTERS = 2_000  # characters of an error message that are matched: a bound
_PATTERN_NODES = 8  # nodes of the failed statement that make up its pattern

# Attempts at one job

_BUILTINS = frozenset(vars(builtins))


_Atom = tuple[str, str]


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a run: hashes of its values, and of its names, which weigh half as much."""

    values: tuple[int, ...] = ()
    names: tuple[int, ...] = ()
    failed_values: tuple[int, ...] = ()
    """The part of `values` that is in the failed statement."""
    failed_names: tuple[int, ...] = ()


def is_again(failed: Attempt, then: Attempt, *, spares: bool) -> bool | None:
    """True if `then` attempts the job that failed in `failed`; None if there is nothing to compare.

    `spares`: another value may be the repair, so one missing value does not count against `then`.
    """
    there = {*then.values, *then.names}
    whole = _kept(failed.values, failed.names, there, spares=spares)
    if whole is None:
        return None
    statement = _kept(failed.failed_values, failed.failed_names, there, spares=spares)
    back = _kept(then.values, then.names, {*failed.values, *failed.names}, spares=spares)
    return whole >= _WHOLE and (statement is None or statement >= _STATEMENT) and (back is not None and back >= _BACK)


def _kept(values: Iterable[int], names: Iterable[int], there: Collection[int], *, spares: bool) -> float | None:
    """The weighted share of values and names that are in `there`; None if nothing is compared."""
    kept_values = [each in there for each in values]
    kept_names = [each in there for each in names]
    total = len(kept_values) + len(kept_names) / 2 - (spares and not all(kept_values))
    return (sum(kept_values) + sum(kept_names) / 2) / total if total else None


def attempt_of_code(reading: Reading, failed: Iterable[ast.AST], name: str) -> Attempt:
    """The content of code and of its failed nodes. `name`, which the failure is about, is left out: it may change."""
    places = set(map(id, failed))
    inside: dict[_Atom, bool] = {}
    outside: dict[_Atom, bool] = {}
    for node in reading.nodes:
        atom = _atom(node, reading)
        if atom is not None and atom[1] != name:
            (inside if id(node) in places else outside)[atom] = False
    # Atoms only in the failed statement disappear if it is left out. If all are elsewhere too, all of them count.
    own = [atom for atom in inside if atom not in outside] or inside
    return _hashed(outside | inside | dict.fromkeys(own, True))


def attempt_of_calls(calls: Iterable[CallEvidence], name: str) -> Attempt:
    """The content of single calls without code; all of it counts as failed."""
    found: list[_Atom | None] = []
    for call in calls:
        if isinstance(call.arguments, dict):
            for given, value in list(call.arguments.items())[:_ARGUMENTS]:
                found.append(("keyword", str(given)[:_TEXT_CHARACTERS]))
                found += map(_constant, value[:_ARGUMENTS] if isinstance(value, list) else [value])
    return _hashed({atom: True for atom in found if atom is not None and atom[1] != name})


def _hashed(found: dict[_Atom, bool]) -> Attempt:
    def hashes(*, is_value: bool, is_failed: bool) -> tuple[int, ...]:
        chosen = {
            short_hash(plain(atom[1]))
            for atom, has_failed in found.items()
            if (atom[0] == "value") == is_value and (has_failed or not is_failed)
        }
        return tuple(sorted(chosen)[:_ATOMS])

    return Attempt(
        values=hashes(is_value=True, is_failed=False),
        names=hashes(is_value=False, is_failed=False),
        failed_values=hashes(is_value=True, is_failed=True),
        failed_names=hashes(is_value=False, is_failed=True),
    )


def _atom(node: ast.AST, reading: Reading) -> _Atom | None:
    """The value or name by which a node describes the job; None for common ones such as builtins."""
    match node:
        case ast.Constant(value=value):
            return _constant(value)
        case ast.Name(id=name):
            return None if name in _BUILTINS or reading.is_imported(node) else ("name", name)
        case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return "name", name
        case ast.Attribute(attr=name):
            return None if reading.is_of_module(node) else ("attribute", name)
        case ast.keyword(arg=str(name)):
            return "keyword", name
    return None


def _constant(value: object) -> _Atom | None:
    """A value in a normal form; a single digit weighs only as much as a name."""
    if isinstance(value, bool) or value in (0, 1) or not (text := plain(value)):
        return None
    return "value" if len(text) > 1 else "digit", text


# Causes

_LIMITS = frozenset(("wall_time", "cpu_time", "memory", "output", "processes", "open_files", "workspace", "calls"))
_ENDED = frozenset(("ok", "failed", "timeout", "limit", "broken"))
_TOOL_ERRORS = frozenset(("ToolFailed", "UpstreamError", "UpstreamTimeout", "UpstreamUnavailable", "LimitReached"))
_EXCEPTIONS = frozenset(
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
) | frozenset(
    (*errors.__all__, "JSONDecodeError", "StatisticsError", "InvalidOperation", "Refused", "ImportRefused", "ToolError")
)

_FORMS: tuple[tuple[str, str, str], ...] = (
    ("field", "KeyError", r"^'(\w+)'$"),
    ("field", "AttributeError", r"^'dict' object has no attribute '(\w+)'"),
    ("dict_not_list", "KeyError", r"^-?\d+$"),
    ("dict_not_list", "TypeError", r"^unhashable type: 'slice'"),
    ("list_not_dict", "TypeError", r"^(?:list|tuple) indices must be integers or slices, not str"),
    ("list_not_dict", "AttributeError", r"^'list' object has no attribute '(\w+)'"),
    ("text_not_data", "TypeError", r"^string indices must be integers"),
    ("text_not_data", "AttributeError", r"^'str' object has no attribute '(get|items|keys|values)'"),
    ("await", "TypeError|AttributeError|RuntimeError", r"'?coroutine'?\b"),
    ("loop", "RuntimeError", r"event loop"),
    ("mixed_none", "TypeError", r"^(?:unsupported operand|'\S+' not supported between).*'NoneType'"),
    ("none", "TypeError|AttributeError", r"\bNoneType\b"),
    ("zone", "TypeError", r"offset-naive"),
    ("mixed", "TypeError", r"^unsupported operand|not supported between|^can only concatenate|^must be str, not"),
    ("keyword", "TypeError", r"unexpected keyword argument '(\w+)'"),
    ("keyword", "LikelyToFail", r"a parameter that it does not have"),
    ("missing", "TypeError", r"missing (?:a|\d+) required .*?'(\w+)'"),
    ("missing", "LikelyToFail", r"without what it needs: (\w+)"),
    ("positional", "TypeError", r"positional argument"),
    ("data_not_text", "TypeError", r"^the JSON object must be"),
    ("serialize", "TypeError", r"is not JSON serializable"),
    ("unhashable", "TypeError", r"^unhashable type"),
    ("not_callable", "TypeError", r"object is not callable"),
    ("not_iterable", "TypeError", r"is not iterable|^cannot unpack non-iterable|has no len"),
    ("not_subscriptable", "TypeError", r"is not subscriptable"),
    ("join", "TypeError", r"^sequence item \d+: expected str"),
    ("type", "TypeError", r"argument .*must be|cannot be interpreted as|expected str"),
    ("json", "JSONDecodeError", r""),
    ("unpack", "ValueError", r"values to unpack"),
    ("number", "ValueError", r"^invalid literal for int|^could not convert string to float"),
    ("number", "InvalidOperation", r""),
    ("time", "ValueError", r"does not match format|unconverted data|isoformat"),
    ("empty", "ValueError", r"empty"),
    ("empty", "IndexError|ZeroDivisionError|StatisticsError|StopIteration", r""),
    ("iteration", "RuntimeError", r"changed size during iteration"),
    ("local", "UnboundLocalError", r"'(\w+)'"),
    ("name", "NameError", r"^name '(\w+)' is not defined"),
    ("module", "ModuleNotFoundError|ImportRefused|Refused", r"^(?:No module named|Importing) '([\w.]+)'"),
    ("module", "Refused", r"^'([\w.]+)' cannot be imported"),
    ("unknown_tool", "Refused|ImportError|UnknownTool|AttributeError", r"^No (?:tool|server) named '(\w+)'"),
    ("import_name", "ImportError", r"^cannot import name '(\w+)'"),
    ("attribute", "AttributeError", r"has no attribute '(\w+)'"),
    ("file", "FileNotFoundError|IsADirectoryError|NotADirectoryError|FileExistsError", r""),
    ("permission", "PermissionError", r""),
    ("decode", "UnicodeDecodeError|UnicodeEncodeError", r""),
    ("recursion", "RecursionError", r""),
    ("syntax", "Refused", r"^(?:Syntax|Indentation|Tab)Error"),
)
"""Family, its exceptions, and a pattern for the message; the group captures the name that the failure is about."""

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
_ANY_TOOL = ("rate", "busy")
"""The classes in which a repair for one tool can help with another."""


_ABOUT_VALUES = frozenset("tool argument file permission decode time number json".split())
_NAMED = frozenset(("name", "module", "import_name"))
_TYPED = frozenset(
    "attribute data_not_text join mixed mixed_none none not_callable not_iterable not_subscriptable serialize type"
    " unhashable".split()
)
_TYPES = (
    r"\b(str|int|float|bool|bytes|list|dict|set|tuple|NoneType|Decimal|datetime|date|timedelta|function|module|generator"
    r"|method|coroutine|map|filter|zip|range|slice|dict_keys|dict_values|dict_items|ndarray|int64|float64|Timestamp)\b"
)


class Cause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cause of a failure and a description of the code. A run that succeeded has a cause without a family."""

    family: str = ""
    exception: str = ""
    template: str = ""
    """Distinguishes causes of one family: a class of words, and for a tool's error a digest of its text."""
    tool: str = ""
    """`module.function`, or empty."""
    name: str = ""
    """The field, parameter, variable or module that the failure is about."""
    pattern: str = ""
    """The structure of the failed statement."""
    features: dict[str, int] = {}
    """The sketch of the run."""
    names: tuple[str, ...] = ()
    """Identifiers in the code, sorted. Its author may see them in any case."""
    fields: dict[str, tuple[str, ...]] = {}
    """Names of fields in the answers of this run, by tool."""
    forms: dict[str, str] = {}
    """The form of each tool's answer: `list`, `dict` or `text`, or the one field of a dict that is a list."""
    majors: dict[str, int] = {}
    """The major versions of the called tools."""
    attempt: Attempt = Attempt()
    """Distinguishes another attempt at the same job from the next job."""

    @property
    def is_failure(self) -> bool:
        """True if the run failed."""
        return bool(self.family)

    @property
    def is_about_value(self) -> bool:
        """True if another value may repair the failure."""
        return self.family in _ABOUT_VALUES and self.template not in ("unknown", "missing")

    def groups(self) -> tuple[str, ...]:
        """The keys of its repairs, narrowest first: this name at this tool, the tool, the structure, all.

        The first two serve one tool only; repairs under the last two help with any tool. Empty for an error of an
        unknown tool, unless a repair for another tool can help.
        """
        words = self.template.partition(":")[0]
        general = [f"*|{self.family}|{words}"]
        if self.family == "tool" and words not in _ANY_TOOL:
            general = []
        elif self.pattern:
            general.insert(0, f"{general[0]}|{self.pattern}")
        if not self.tool:
            return tuple(general)
        narrow = f"{self.tool}|{self.family}|{self.template}|{_mark(self.name)}"
        return tuple(dict.fromkeys((narrow, f"{self.tool}|{self.family}|{words}", *general)))


def prepare_cause(run: RunEvidence, code: CodePrint | None) -> Cause | None:
    """The cause of a run, failed or not; None if nothing can be learned from it.

    It needs `fact.form`, `fact.status`, `fact.failure`, `code`, `failure_type`, `failure_message`, `failure_line` and
    `calls` with their `tool`, `version`, `arguments`, `answer`, `has_answer` and `error`.
    """
    if run.fact.form == "analysis" or run.fact.status not in _ENDED:
        return None
    reading = read_sketch(run.code) if code is not None else None
    is_failed = run.fact.status != "ok"
    features = _features(run, reading, is_failed=is_failed)
    majors = {tool: major for call in run.calls if (tool := tool_name(call.tool)) and (major := major_of(call.version))}
    if not is_failed:
        return Cause(features=features, majors=majors, attempt=_attempt(run, reading))
    family, template, name, exception = _classify(run)
    if not family:
        return None
    place = _Place(reading, run.failure_line) if reading is not None else None
    tool = ""
    if family in ("tool", "argument"):
        tool = next((tool_name(call.tool) for call in reversed(run.calls) if call.error), "")
    if not tool and place is not None:
        tool = place.tool(family, name)
    if not tool and family in _LIMITS:
        tool = _busiest(features)
    return Cause(
        family=family,
        exception=exception,
        template=template,
        tool=tool,
        name=name,
        pattern="" if place is None else place.pattern(),
        features=features,
        names=tuple(sorted(reading.names)[:_NAMES]) if reading is not None else (),
        fields=_fields(run),
        forms={tool: form for call in run.calls if (tool := tool_name(call.tool)) and (form := _form(call))},
        majors=majors,
        attempt=_attempt(run, reading, () if place is None else place.parts(), name),
    )


def _attempt(run: RunEvidence, reading: Reading | None, failed: Iterable[ast.AST] = (), name: str = "") -> Attempt:
    return attempt_of_calls(run.calls, name) if reading is None else attempt_of_code(reading, failed, name)


def _features(run: RunEvidence, reading: Reading | None, *, is_failed: bool) -> dict[str, int]:
    """The features of the code, and of the arguments of the failed call or of each tool's first successful call."""
    found = dict(reading.features) if reading is not None else {}
    seen: set[str] = set()
    for call in reversed(run.calls) if is_failed else run.calls:
        if call.tool not in seen and (is_failed or call.error is None):
            seen.add(call.tool)
            found.update(sent(call))
            if not run.code:
                found[f"call|{tool_name(call.tool)}"] = 1
    if not is_failed and len(seen) > 1:  # read from values, where the code does not show it
        found.update((f"flow|{source}|{tool}|{name}", 1) for source, tool, name in _sources(run))
    return found


def _sources(run: RunEvidence) -> Iterator[tuple[str, str, str]]:
    """The tool whose earlier answer has the value that a call of another tool gives, that tool, and the parameter."""
    answered: dict[str, str] = {}
    """The first tool that answered with each text."""
    for call in run.calls:
        tool = tool_name(call.tool)
        if call.error is not None or not tool:
            continue
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        for name, value in list(arguments.items())[:_ARGUMENTS]:
            source = next((answered[each] for each in _texts(value) if each in answered), tool)
            if source != tool and is_name(name):
                yield source, tool, name
        for text in _texts(call.answer if call.has_answer else None):
            answered.setdefault(text, tool)


def _texts(answer: object) -> Iterator[str]:
    """The texts and numbers in a value that are too long to be equal to another by chance."""
    waiting = [answer]
    for place in range(_VISITS):
        if place >= len(waiting):
            return
        value = waiting[place]
        if isinstance(value, dict):
            waiting += list(value.values())[:_FIELDS]
        elif isinstance(value, list):
            waiting += value[:_VISITS]
        elif len(text := plain(value)) >= _SOURCE_CHARACTERS:
            yield text


def _classify(run: RunEvidence) -> tuple[str, str, str, str]:
    """Family, template, name and exception."""
    kind, reported = run.fact.failure, run.failure_type
    message = run.failure_message[:_MESSAGE_CHARACTERS]
    failed = next((call for call in reversed(run.calls) if call.error), None)
    if not run.code and failed is not None and failed.error is not None:
        reported, _, message = failed.error[:_MESSAGE_CHARACTERS].partition(": ")
    exception = reported if reported in _EXCEPTIONS else "other"
    if kind in _LIMITS:
        return kind, "", "", exception
    if kind == "result":
        return "result", "", "", exception
    if reported in _TOOL_ERRORS or (failed is not None and reported == "ToolError"):
        return "tool", _words_of(message), "", exception
    if reported == "InvalidArguments":
        return "argument", *_complaint(message), exception
    for family, exceptions, form in _FORMS:
        if reported in exceptions.split("|") and (found := re.search(form, message)):
            name = found[1] if found.re.groups else ""
            name = name if name and len(name) <= NAME_CHARACTERS and all(map(is_name, name.split("."))) else ""
            return family, _detail(family, exception, name, message), name, exception
    if exception == "other" or kind != "exception":
        return "", "", "", exception
    return "other", f"{exception}-{_digest(message)}", "", exception


def _detail(family: str, exception: str, name: str, message: str) -> str:
    """The detail that must match for a fix to apply: types in the message, the exception, or the name."""
    if family in _NAMED:
        return _mark(name)
    if family in _TYPED:
        return "-".join(re.findall(_TYPES, message)[:3])
    return exception if family in ("empty", "file", "number", "decode") else ""


def _words_of(message: str) -> str:
    """The class of a tool's error, a colon, and a digest of its words without the parts that change between calls."""
    lowered = message.lower()
    group = next((name for name, form in _WORDS if re.search(form, lowered)), "other")
    return f"{group}:{_digest(lowered)}"


def _digest(message: str) -> str:
    """A digest of a message's words, without quoted parts and numbers."""
    plain = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", " ", message.lower())
    kept = (word for word in plain.split() if not re.search(r"[\d@/_]", word))
    return _mark(" ".join(itertools.islice(re.findall(r"[a-z]{2,}", " ".join(kept)), 24)))


def _mark(text: str) -> str:
    """A digest in place of a private text; empty for an empty text."""
    return mark_of(text) if text else ""


def _complaint(message: str) -> tuple[str, str]:
    """The first error that our own check of arguments reports, and its parameter."""
    found = re.search(r": '(\w+)'(?: \(\w+ in Python\))? (is missing|is not one of its parameters|is )", message)
    if found is None:
        return "value", ""
    kind = {"is missing": "missing", "is not one of its parameters": "unknown"}.get(found[2], "value")
    return kind, found[1] if is_name(found[1]) else ""


def _busiest(features: dict[str, int]) -> str:
    """The tool that is called in a loop, otherwise any called tool."""
    for mark in ("looped|", "call|"):
        found = [key.removeprefix(mark) for key in features if key.startswith(mark)]
        if found:
            return found[0]
    return ""


def _fields(run: RunEvidence) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for call in run.calls:
        tool = tool_name(call.tool)
        if tool and call.has_answer and (tool in found or len(found) < _TOOLS):
            names = dict.fromkeys((*found.get(tool, ()), *_names_in(call.answer)))
            found[tool] = tuple(names)[:_FIELDS]
    return found


def _form(call: CallEvidence) -> str:
    match call.answer if call.has_answer else None:
        case list():
            return "list"
        case str():
            return "text"
        case dict() as answer:
            lists = [key for key, value in list(answer.items())[:_FIELDS] if isinstance(value, list)]
            return lists[0] if len(lists) == 1 and is_name(lists[0]) and is_field(lists[0]) else "dict"
    return ""


def _names_in(answer: object) -> Iterator[str]:
    """Names of fields, those nearest to the top first."""
    waiting = [answer]
    for place in range(_VISITS):
        if place >= len(waiting):
            return
        value = waiting[place]
        if isinstance(value, dict):
            yield from (key for key in list(value)[:_FIELDS] if is_name(key) and is_field(key))
            waiting += list(value.values())[:_FIELDS]
        elif isinstance(value, list):
            waiting += value[:3]


class _Place:
    """The statement that failed."""

    def __init__(self, reading: Reading, line: int | None) -> None:
        self._reading = reading
        inside = [
            node
            for node in reading.nodes
            if isinstance(node, ast.stmt | ast.expr | ast.keyword)
            and line is not None
            and node.lineno <= line <= (node.end_lineno or node.lineno)
        ]
        statements = [node for node in inside if isinstance(node, ast.stmt)]
        self._statement = statements[-1] if statements else None
        own = [node for node in inside if node.lineno == line or node.end_lineno == line]
        first = set(map(id, own))
        self._nodes: list[ast.AST] = [*own, *(node for node in inside if id(node) not in first)]

    def tool(self, family: str, name: str) -> str:
        """The tool whose answer or call the failure is about."""
        calls = [node for node in self._nodes if isinstance(node, ast.Call)]
        if family in ("keyword", "missing", "positional"):
            return next(filter(None, (self._reading.tool_of(node) for node in calls)), "")
        if family == "field":
            for node in self._nodes:
                if _reads(node, name) and (found := self._reading.origin(node)):
                    return found
        readings = [node for node in self._nodes if isinstance(node, ast.Subscript | ast.Attribute)]
        others = [node for node in self._nodes if isinstance(node, ast.Name)]
        return next(filter(None, map(self._reading.origin, (*readings, *calls, *others))), "")

    def parts(self) -> Iterator[ast.AST]:
        """It and its expressions."""
        return iter(()) if self._statement is None else _shallow(self._statement)

    def pattern(self) -> str:
        """The kinds of its parts."""
        kinds = (
            type(node).__name__
            for node in self.parts()
            if not isinstance(node, ast.expr_context | ast.Name | ast.Constant | ast.operator | ast.cmpop)
        )
        return ".".join(itertools.islice(kinds, _PATTERN_NODES))


def _reads(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key == name
        case ast.Attribute(attr=key):
            return key == name
        case ast.Call(func=ast.Attribute(), args=[ast.Constant(value=str(key)), *_]):
            return key == name
    return False


def _shallow(statement: ast.stmt) -> Iterator[ast.AST]:
    """A statement and its expressions, without the statements in it."""
    waiting: deque[ast.AST] = deque([statement])
    while waiting:
        node = waiting.popleft()
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
