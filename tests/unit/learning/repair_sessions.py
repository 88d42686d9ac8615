"""A population of sessions for tests of what is taken for a repair: failures, and what agents run after them.

Each session has one failure, of a form whose true way out is known, and then runs of many kinds: other jobs with the
same tools, looks at what a tool answers, the same job without what failed, the repair with little or much else changed.
The same seed gives the same sessions.
"""

import ast
import random
import re
from collections.abc import Callable, Sequence

import msgspec
from tests.unit.learning.failure_runs import make_call, make_run

from sealyard.values.facts import CallEvidence, RunEvidence

__all__ = ("UNRELATED", "Session", "sessions")

_TOOLS: dict[str, tuple[dict[str, Sequence[object]], str, Sequence[str]]] = {
    "shop.list_orders": (
        {
            "since": ["2024-10-01", "2024-03-15", "2023-12-31", "2024-07-08"],
            "status": ["open", "paid", "shipped"],
            "customer": ["c-17", "c-40", "c-8", "c-112"],
            "limit": [20, 50, 100],
        },
        "",
        ["order_id", "total_cents", "placed", "customer", "note"],
    ),
    "crm.find_contacts": (
        {
            "query": ["plumber", "north", "school", "dealer"],
            "city": ["Lyon", "Graz", "Bern", "Oslo"],
            "limit": [5, 10, 25],
        },
        "contacts",
        ["contact_id", "company", "city", "last_call", "score"],
    ),
    "stock.search_parts": (
        {"text": ["bolt", "hinge", "valve", "gasket"], "bin": ["A1", "B7", "C3"], "minimum": [3, 12, 40]},
        "parts",
        ["part_no", "weight_grams", "bin", "supplier", "quantity"],
    ),
    "desk.list_tickets": (
        {"queue": ["billing", "hardware", "travel"], "state": ["new", "waiting", "done"], "max_rows": [15, 30, 60]},
        "",
        ["ticket_no", "subject", "opened", "hours", "owner"],
    ),
}
"""By name: parameters with values that they take, the field of an answer that holds its rows, and fields of a row."""
_SOURCES = {
    "shop.list_orders": ("shop.list_customers", "customer", "customer_id"),
    "crm.find_contacts": ("crm.list_cities", "city", "city_name"),
    "stock.search_parts": ("stock.list_bins", "bin", "bin_code"),
    "desk.list_tickets": ("desk.list_queues", "queue", "queue_key"),
}
_HABITS = ("rows", "result", "data", "items", "found", "answer", "entries", "batch", "page", "records")
_ONES = ("row", "each", "item", "entry", "one", "record", "r", "e")
_SUMS = ("total", "count", "out", "names", "values", "summary", "report", "best", "picked", "amounts")

Truth = tuple[str, str, str, str]
"""Kind, tool, name and what came in its place, as in an `Edit`."""


class Try(msgspec.Struct, kw_only=True):
    """Code, and the calls that it makes."""

    lines: list[str]
    calls: tuple[CallEvidence, ...] = ()

    @property
    def code(self) -> str:
        """As a text."""
        return "\n".join(self.lines)


class Case(msgspec.Struct, kw_only=True):
    """A failure, the same job repaired, and what the repair is."""

    tool: str
    fails: Try
    error: tuple[str, str]
    at: int
    """The line of the code that failed, from 1."""
    works: list[Try]
    """Repairs: the least change first, then one that writes the job anew."""
    truth: set[Truth]
    looks: list[Try]
    """What an agent runs to see what there is, which repairs nothing."""
    dropped: Try | None = None
    """The same job without the part that failed."""


class Session(msgspec.Struct, kw_only=True):
    """The runs of one visit."""

    form: str
    kinds: list[str]
    """What each run after the failure is."""
    runs: list[RunEvidence]
    truth: set[Truth]
    is_repaired: bool


def sessions(seed: int, count: int) -> list[Session]:
    """Sessions of every form of failure in turn; in about half of them somebody repairs it."""
    return [_session(random.Random(f"{seed} {number}"), number) for number in range(count)]


def _session(chance: random.Random, number: int) -> Session:
    name = list(FORMS)[number % len(FORMS)]
    case = FORMS[name](chance)
    plan = chance.choices(_PLANS, _OFTEN)[0]
    runs = [(case.fails, case.error)]
    kinds = []
    for step in plan:
        kind, then = _step(chance, case, step)
        kinds.append(kind)
        runs.append((then, None))
    at = 60.0
    evidence = []
    for each, error in runs:
        line = case.at if error is not None else None
        calls = each.calls
        evidence.append(make_run(each.code, error, at=at, line=line, calls=calls, execution_id=f"{number} {at:g}"))
        at += chance.uniform(20, 200)
    return Session(form=name, kinds=kinds, runs=evidence, truth=case.truth, is_repaired="repair" in plan)


_PLANS = [
    ("other",),
    ("other", "other"),
    ("other", "other", "other"),
    ("repair",),
    ("repair", "other"),
    ("other", "repair"),
    ("other", "other", "repair", "other"),
]
_OFTEN = [3, 3, 2, 4, 2, 3, 1]


def _step(chance: random.Random, case: Case, step: str) -> tuple[str, Try]:
    if step == "repair":
        return _repair(chance, case)
    kind = chance.choice(list(UNRELATED)) if case.fails.lines else "look"
    return kind, UNRELATED[kind](chance, case)


def _repair(chance: random.Random, case: Case) -> tuple[str, Try]:
    """The repair as it is, with more told, more done, other names, or written anew."""
    place = chance.choices(range(len(case.works)), [3, 2][: len(case.works)])[0]
    base = case.works[place]
    kind = "anew" if place else "least"
    match chance.choice(("as is", "as is", "told", "more", "names")) if base.lines else "as is":
        case "told":
            return f"{kind}, told", _more(base, ["print('done')"])
        case "more":
            extra = [
                f"checked = {chance.randint(20, 99)}",
                "print(checked)",
                "seen = [checked]",
                'print("so far", seen)',
            ]
            return f"{kind}, more", _more(base, extra[: chance.randint(1, 4)])
        case "names":
            tree = _Renaming(chance).visit(ast.parse(base.code))
            return f"{kind}, names", Try(lines=ast.unparse(tree).splitlines(), calls=base.calls)
    return kind, base


def _more(base: Try, lines: list[str]) -> Try:
    return Try(lines=[*base.lines, *lines], calls=base.calls)


class _Renaming(ast.NodeTransformer):
    """Gives other names to what holds the rows, and in one of three cases to all variables."""

    def __init__(self, chance: random.Random) -> None:
        self._name = chance.choice(("fetched", "listing", "lines_found"))
        self._renamed = (*_HABITS, *_ONES, *_SUMS) if chance.random() < 1 / 3 else _HABITS

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """A variable."""
        return ast.Name(self._other(node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """A parameter."""
        return ast.arg(self._other(node.arg))

    def _other(self, name: str) -> str:
        return f"{self._name}_{self._renamed.index(name)}" if name in self._renamed else name


# Jobs that have nothing to do with the failure


def _job(chance: random.Random, tool: str, habits: Sequence[str] = _HABITS) -> Try:
    """A tool is called, and something is done with what it answers."""
    _, holder, fields = _TOOLS[tool]
    rows, one, name = chance.choice(habits), chance.choice(_ONES), chance.choice(_SUMS)
    arguments = _arguments(chance, tool)
    field, other = chance.sample(list(fields), 2)
    taken = f'["{holder}"]' if holder else ""
    uses = (
        [f'{name} = [{one}["{field}"] for {one} in {rows}{taken}]', f"sorted(map(str, {name}))[:5]"],
        [f"{name} = {{}}", f"for {one} in {rows}{taken}:", f'    {name}[str({one}["{field}"])] = {one}.get("{other}")'],
        [f"{name} = len({rows}{taken})", f'f"{{{name}}} in all"'],
        [f'{name} = max({rows}{taken}, key=lambda {one}: str({one}["{field}"]))', f'{name}["{other}"]'],
        [f"{one} = {rows}{taken}[0]", f'{{"{field}": {one}["{field}"], "{other}": {one}.get("{other}", "-")}}'],
        [f'{name} = sum(1 for {one} in {rows}{taken} if {one}["{field}"] is not None)', f"print({name})"],
        ["import json", f"print(json.dumps({rows}{taken}[:3], default=str))"],
        ["import time", "time.sleep(0.1)", f'{name} = ", ".join(str({one}["{field}"]) for {one} in {rows}{taken})'],
    )
    return _tried(tool, [f"{rows} = {_written(tool, arguments)}", *chance.choice(uses)], arguments)


def _other_job(chance: random.Random, case: Case) -> Try:
    return _job(chance, case.tool)


def _same_names(chance: random.Random, case: Case) -> Try:
    """Another job by an agent that calls its variables always the same."""
    used = [name for name in _HABITS if any(re.search(rf"\b{name}\b", line) for line in case.fails.lines)]
    return _job(chance, case.tool, used or _HABITS)


def _two_tools(chance: random.Random, case: Case) -> Try:
    other = chance.choice([tool for tool in _TOOLS if tool != case.tool])
    one, two = _job(chance, case.tool), _job(chance, other)
    return Try(lines=[*two.lines, *one.lines], calls=(*two.calls, *one.calls))


def _next_form(chance: random.Random, case: Case) -> Try:
    """What repaired another failure of another job with the same tool."""
    for _ in range(50):
        other = chance.choice(list(FORMS.values()))(chance)
        if other.tool == case.tool and other.fails.lines and not other.truth & case.truth:
            return other.works[0]
    return _job(chance, case.tool)


def _look(chance: random.Random, case: Case) -> Try:
    return chance.choice(case.looks)


def _dropped(chance: random.Random, case: Case) -> Try:
    return case.dropped or _other_job(chance, case)


def _python(chance: random.Random, case: Case) -> Try:
    numbers = [chance.randint(1, 99) for _ in range(4)]
    name = chance.choice(_SUMS)
    return chance.choice(
        (
            Try(lines=["import statistics", f"{name} = {numbers}", f"statistics.mean({name})"]),
            Try(lines=[f'text = "{numbers[0]};{numbers[1]}"', f'{name} = [int(p) for p in text.split(";")]', name]),
            Try(lines=[f"{name} = dict(enumerate({numbers}))", f"for k, v in {name}.items():", "    print(k, v)"]),
            Try(lines=["import json", f"{name} = json.loads('{numbers}')", f"{name}[0] if {name} else None"]),
        )
    )


UNRELATED: dict[str, Callable[[random.Random, Case], Try]] = {
    "other job": _other_job,
    "other job, same names": _same_names,
    "other job, two tools": _two_tools,
    "other job, other form": _next_form,
    "look": _look,
    "dropped": _dropped,
    "python": _python,
}


# Code and calls


def _written(tool: str, arguments: dict[str, object], raw: dict[str, str] | None = None) -> str:
    given = [f"{name}={value!r}".replace("'", '"') for name, value in arguments.items()]
    given += [f"{name}={text}" for name, text in (raw or {}).items()]
    return f"{tool.partition('.')[2]}({', '.join(given)})"


def _import(*tools: str) -> list[str]:
    return [f"from servers.{tool.partition('.')[0]} import {tool.partition('.')[2]}" for tool in tools]


def _evidence(tool: str, arguments: dict[str, object], error: str | None = None) -> CallEvidence:
    _, holder, fields = _TOOLS.get(tool, ({}, "", (_SOURCES_FIELD.get(tool, "name"),)))
    rows = [{field: f"{field}-{number}" for field in fields} for number in range(2)]
    answer = None if error else {holder: rows} if holder else rows
    return make_call(f"mcp__{tool.replace('.', '__')}", error, arguments=arguments, answer=answer)


_SOURCES_FIELD = {source: field for source, _, field in _SOURCES.values()}


def _tried(tool: str, lines: list[str], arguments: dict[str, object], error: str | None = None) -> Try:
    return Try(lines=[*_import(tool), *lines], calls=(_evidence(tool, arguments, error),))


def _arguments(chance: random.Random, tool: str, least: int = 1, without: str = "") -> dict[str, object]:
    values = {name: each for name, each in _TOOLS[tool][0].items() if name != without}
    names = chance.sample(list(values), chance.randint(least, len(values)))
    return {name: chance.choice(values[name]) for name in sorted(names)}


def _any_tool(chance: random.Random) -> str:
    return chance.choice(list(_TOOLS))


def _around(chance: random.Random) -> tuple[list[str], list[str]]:
    """Statements before and after, as most code has them."""
    before = ([], [f'title = "Report {chance.randint(10, 99)}"'], [f"factor = {chance.randint(2, 9)}"])
    after = ([], ["print('ready')"], [f'summary_text = "n = {chance.randint(100, 999)}"', "print(summary_text)"])
    return chance.choice(before), chance.choice(after)


# Failures of calls


def _call_case(
    chance: random.Random,
    wrong: Callable[[str, dict[str, object]], tuple[dict[str, object], dict[str, object], Truth]],
    error: tuple[str, str],
) -> Case:
    """A call is refused; the repair passes something else."""
    tool = _any_tool(chance)
    _, holder, fields = _TOOLS[tool]
    bad, good, truth = wrong(tool, _arguments(chance, tool))
    before, after = _around(chance)
    rows, one, name = chance.choice(_HABITS), chance.choice(_ONES), chance.choice(_SUMS)
    taken = f'["{holder}"]' if holder else ""
    uses = [f'{name} = [{one}["{chance.choice(list(fields))}"] for {one} in {rows}{taken}]', *after]
    message = error[1].format(function=tool.partition(".")[2], name=truth[2] or truth[3])
    fails = _tried(tool, [*before, f"{rows} = {_written(tool, bad)}", *uses], bad, f"{error[0]}: {message}")
    anew = [*before, "def load():", f"    return {_written(tool, good)}", f"{rows} = load()", *uses]
    looks = [
        Try(lines=[*_import(tool), f"print({tool.partition('.')[2]}.__doc__)"]),
        Try(lines=[f'hits = search_tools(query="{tool.partition(".")[2]}")', "print(hits[0])"]),
        _tried(tool, [f"print({_written(tool, {})})"], {}),
    ]
    return Case(
        tool=tool,
        fails=fails,
        error=(error[0], message),
        at=2 + len(before),
        works=[
            _tried(tool, [*before, f"{rows} = {_written(tool, good)}", *uses], good),
            _tried(tool, anew, good),
        ],
        truth={truth},
        looks=looks,
    )


def _wrong_parameter(chance: random.Random) -> Case:
    wrong_names = {"since": "from_date", "text": "query_text", "query": "q", "queue": "queue_name", "bin": "shelf"}

    def wrong(tool: str, arguments: dict[str, object]) -> tuple[dict[str, object], dict[str, object], Truth]:
        name = chance.choice(sorted(arguments))
        bad_name = wrong_names.get(name, f"{name}_value")
        bad = {bad_name if each == name else each: value for each, value in arguments.items()}
        return bad, arguments, ("param_renamed", tool, bad_name, name)

    return _call_case(chance, wrong, ("InvalidArguments", "{function}: '{name}' is not one of its parameters."))


def _wrong_format(chance: random.Random) -> Case:
    def wrong(tool: str, arguments: dict[str, object]) -> tuple[dict[str, object], dict[str, object], Truth]:
        name = min(arguments)
        good = "2024-10-0" + str(chance.randint(1, 9))
        bad = f"{chance.randint(1, 9)}/{chance.randint(10, 28)}/2024"
        return {**arguments, name: bad}, {**arguments, name: good}, ("value_kind", tool, name, "date")

    return _call_case(chance, wrong, ("ToolFailed", "Cannot read it: it must be in ISO format."))


def _too_large(chance: random.Random) -> Case:
    sizes = {
        "shop.list_orders": "limit",
        "crm.find_contacts": "limit",
        "stock.search_parts": "minimum",
        "desk.list_tickets": "max_rows",
    }

    def wrong(tool: str, arguments: dict[str, object]) -> tuple[dict[str, object], dict[str, object], Truth]:
        name = sizes[tool]
        bad = {**arguments, name: chance.choice((5_000, 10_000, 20_000))}
        return bad, {**arguments, name: chance.choice((20, 50))}, ("smaller", tool, name, "")

    return _call_case(chance, wrong, ("ToolFailed", "It exceeds the maximum."))


def _needed(chance: random.Random) -> Case:
    def wrong(tool: str, arguments: dict[str, object]) -> tuple[dict[str, object], dict[str, object], Truth]:
        free = [name for name in _TOOLS[tool][0] if name not in arguments]
        name = chance.choice(free or sorted(arguments))
        bad = {each: value for each, value in arguments.items() if each != name}
        good = {**bad, name: chance.choice(_TOOLS[tool][0][name])}
        return bad, good, ("param_added", tool, "", name)

    return _call_case(chance, wrong, ("InvalidArguments", "{function}: '{name}' is missing; it must be given."))


def _excluded(chance: random.Random) -> Case:
    def wrong(tool: str, arguments: dict[str, object]) -> tuple[dict[str, object], dict[str, object], Truth]:
        everything = {name: chance.choice(values) for name, values in _TOOLS[tool][0].items()}
        name = chance.choice(sorted(everything))
        good = {each: value for each, value in everything.items() if each != name}
        return everything, good, ("param_dropped", tool, name, "")

    return _call_case(chance, wrong, ("ToolFailed", "These filters are not supported together."))


def _unknown_id(chance: random.Random) -> Case:
    """What a parameter takes is listed by another tool."""
    tool = _any_tool(chance)
    source, name, field = _SOURCES[tool]
    others = _arguments(chance, tool, without=name)
    before, after = _around(chance)
    rows, known = chance.sample(_HABITS, 2)
    bad = {**others, name: chance.choice(("the big one", "head office", "my own"))}
    listed = f"{known} = {_written(source, {})}"
    found = _written(tool, others, {name: f'{known}[0]["{field}"]'})
    value = f"{field}-0"
    calls = (_evidence(source, {}), _evidence(tool, {**others, name: value}))
    return Case(
        tool=tool,
        fails=_tried(
            tool, [*before, f"{rows} = {_written(tool, bad)}", f"len({rows})", *after], bad, "ToolFailed: No such."
        ),
        error=("ToolFailed", "It was not found."),
        at=2 + len(before),
        works=[
            Try(
                lines=[*_import(tool, source), *before, listed, f"{rows} = {found}", f"len({rows})", *after],
                calls=calls,
            ),
            Try(
                lines=[
                    *_import(tool, source),
                    *before,
                    listed,
                    f"print({known})",
                    f"{rows} = {found}",
                    f"print(len({rows}))",
                ],
                calls=calls,
            ),
        ],
        truth={("tool_first", tool, name, source)},
        looks=[Try(lines=[*_import(source), f"print({_written(source, {})})"], calls=(_evidence(source, {}),))],
    )


def _single_call(chance: random.Random) -> Case:
    """A call without code."""
    tool = _any_tool(chance)
    arguments = _arguments(chance, tool, 2)
    name = chance.choice(sorted(arguments))
    bad = {f"{name}_value" if each == name else each: value for each, value in arguments.items()}
    message = f"InvalidArguments: {tool}: '{name}_value' is not one of its parameters."
    others = [_arguments(chance, tool, without=name) for _ in range(9)]
    # To leave out what is wrong would be a repair, too.
    looks = [each for each in others if not each.items() <= arguments.items()] or [{}]
    return Case(
        tool=tool,
        fails=Try(lines=[], calls=(_evidence(tool, bad, message),)),
        error=("InvalidArguments", message),
        at=1,
        works=[Try(lines=[], calls=(_evidence(tool, arguments),))],
        truth={("param_renamed", tool, f"{name}_value", name)},
        looks=[Try(lines=[], calls=(_evidence(tool, each),)) for each in looks],
    )


FORMS: dict[str, Callable[[random.Random], Case]] = {
    "wrong parameter": _wrong_parameter,
    "wrong format": _wrong_format,
    "too large": _too_large,
    "needed": _needed,
    "excluded": _excluded,
    "unknown id": _unknown_id,
    "single call": _single_call,
}
