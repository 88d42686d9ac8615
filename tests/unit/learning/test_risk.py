"""Risk before running: what is told of code, from what is known of runs like it, of its calls and of its tools."""

import inspect
import sys
import types
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealyard.catalog import check_arguments
from sealyard.catalog.stubs import Stub
from sealyard.errors import InvalidArguments
from sealyard.learning.part import Lesson, Viewer
from sealyard.learning.precedents import wrong_calls
from sealyard.learning.prints import CodePrint, code_print
from sealyard.learning.resources import Prediction
from sealyard.learning.risk import Assessment, RiskModel, about_parameters
from sealyard.sandbox.policy import LEVELS, IsolationLevel
from sealyard.sandbox.review import Review, review
from sealyard.values.facts import Assessed, CallEvidence, Executed, Risk, RiskReason, RunEvidence
from sealyard.values.tools import ToolSpec

HALF_LIFE = 30 * 86_400.0
NOW = 1_700_000_000.0
MINUTE = 60.0
PRODUCTION = LEVELS[IsolationLevel.PRODUCTION]
FINE = Review(verdict="allow")
TOOL = "mcp__expenses__list_expenses"
USE = "from servers.expenses import list_expenses\n"
CODE = USE + "rows = list_expenses(user='ann')\nresult = rows[0]['amount'] + rows[0]['missing']\n"
PURE = "rows = [1, 2]\nresult = rows[7]\n"


def a_tool(properties: dict[str, Any] | None = None, *, version: str = "1.0.0", **schema: Any) -> ToolSpec:
    """A tool that takes a user and a limit."""
    taken = {"user": {"type": "string"}, "limit": {"type": "integer"}} if properties is None else properties
    return ToolSpec(
        upstream="expenses",
        name="list_expenses",
        full_name=TOOL,
        module="expenses",
        function="list_expenses",
        input_schema={"type": "object", "properties": taken, "required": ["user"], **schema},
        digest="d",
        version=version,
    )


SPECS = {"expenses.list_expenses": a_tool()}


def a_print(code: str) -> CodePrint:
    """The print of code that has one."""
    found = code_print(code)
    assert found is not None
    return found


def a_call(
    answer_bytes: int = 10, *, error: str | None = None, version: str = "1.0.0", tool: str = TOOL
) -> CallEvidence:
    """A call of the tool."""
    return CallEvidence(
        number=1,
        tool=tool,
        version=version,
        answer_bytes=answer_bytes,
        error=error,
        started_at=NOW,
        seconds=0.1,
    )


def a_run(at: float, status: str = "failed", **fields: Any) -> RunEvidence:
    """A run of ann's that failed at line 3 with a `KeyError`, unless told otherwise."""
    facts: dict[str, Any] = {
        "principal": "ann",
        "execution_id": f"run {at}",
        "form": "code",
        "failure": "exception" if status == "failed" else "",
        "error_type": "KeyError" if status == "failed" else "",
        "tier": "namespaces",
        "seconds": 1.0,
        "use_case": "filtering",
    }
    facts |= {name: fields.pop(name) for name in list(fields) if name not in RunEvidence.__struct_fields__}
    told: dict[str, Any] = {
        "started_at": at,
        "session": f"{facts['principal']}:default",
        "context_digest": "c1",
        "failure_line": 3 if status == "failed" else None,
    }
    return RunEvidence(fact=Executed(at=at, status=status, **facts), **told | fields)


def learn(dangers: RiskModel, code: str, *runs: RunEvidence) -> None:
    """Let these runs of `code` teach."""
    for run in runs:
        dangers.learn(Lesson(number=0, event=run, code=code_print(code)), HALF_LIFE)


def assess(dangers: RiskModel, code: str, now: float = NOW, **fields: Any) -> Assessment:
    """What ann is told of `code`."""
    asked: dict[str, Any] = {
        "specs": SPECS if "servers" in code else {},
        "context_digest": "c1",
        "session": f"{fields.get('principal', 'ann')}:default",
        "review": FINE,
        "predicted": None,
    }
    viewer = Viewer(fields.pop("principal", "ann"), now, HALF_LIFE)
    return dangers.assess(a_print(code), viewer, **asked | fields)


def three_failures(code: str = PURE, **fields: Any) -> RiskModel:
    """The same failure three times in ten minutes, the last a minute ago."""
    dangers = RiskModel()
    learn(dangers, code, *(a_run(NOW - minutes * MINUTE, **fields) for minutes in (9, 5, 1)))
    return dangers


EVERYDAY = (
    "1 + 1",
    USE + "list_expenses(user='ann')",
    USE + "for user in ('a', 'b'):\n    print(len(list_expenses(user=user, limit=3)))",
    "import json\nprint(json.dumps({'a': 1}))",
    "import re, statistics\nstatistics.mean([float(x) for x in re.findall('[0-9]+', '1 2')])",
    "try:\n    1 / 0\nexcept ZeroDivisionError:\n    result = None",
    "from servers.unseen import tool\ntool()",
    "x = eval('1 + 1')",
)


@pytest.mark.parametrize("code", EVERYDAY)
def test_an_empty_model_says_low_of_everything_that_the_review_does_not_warn_of(code: str) -> None:
    """Nothing known is no reason to warn of anything, and `low` has no text."""
    told = assess(RiskModel(), code)

    assert told == Assessment(risk="low", chance=0.1)


def test_code_without_a_print_is_told_by_all_runs_alone() -> None:
    """Code that is too long to be looked at is run like any other."""
    dangers = RiskModel()
    learn(dangers, PURE, a_run(NOW - 1))
    told = dangers.assess(
        None, Viewer("ann", NOW, HALF_LIFE), review=FINE, specs={}, context_digest="", session="ann:default"
    )

    assert (told.risk, told.reasons, told.text, told.line) == ("low", (), "", None)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("x = 1\ninput('name')", "Line 2 waits for input, and there is none. Pass values in through `context`."),
        ("while True:\n    x = 1", "Line 1 is a loop that nothing ends. Add a `break`."),
        (
            "\nopen('/etc/shadow').read()",
            "Line 2 opens a file that cannot be reached. Keep files in the working directory, or call a tool.",
        ),
    ],
)
def test_what_the_review_says_has_no_chance_is_told_with_its_line(code: str, text: str) -> None:
    """Even an empty model says so."""
    told = assess(RiskModel(), code, review=review(code, PRODUCTION))

    assert (told.risk, told.reasons, told.text) == ("medium", ("review",), text)
    assert told.line == int(text.split()[1])


def test_what_the_review_only_dislikes_is_no_risk() -> None:
    """`eval` works inside; the review warns of it for other reasons."""
    code = "x = eval('1 + 1')"
    found = review(code, PRODUCTION)

    assert (found.verdict, assess(RiskModel(), code, review=found).risk) == ("warn", "low")


def test_the_same_code_that_failed_three_times_in_a_row_is_critical() -> None:
    """It says where it failed and what to do; the text is ours."""
    told = assess(three_failures(), PURE)

    assert (told.risk, told.reasons, told.line) == ("critical", ("same_failures",), 3)
    assert told.text == (
        "This very code failed 3 times in the last hour, last with KeyError at line 3. Change it instead of repeating"
        " it. Nothing that it depends on has changed; try it as it is in 9 min."
    )
    assert told.chance >= 0.95


def test_twice_is_not_critical() -> None:
    """What failed twice is told, and run."""
    dangers = RiskModel()
    learn(dangers, PURE, a_run(NOW - 120), a_run(NOW - 60))
    told = assess(dangers, PURE)

    assert (told.risk, told.reasons[0], told.line) == ("high", "same_failures", 3)
    assert told.text == (
        "This very code failed 2 times in the last hour, last with KeyError at line 3."
        " Change it instead of repeating it."
    )


def test_once_is_no_risk() -> None:
    """What failed once is most often put right the next time."""
    dangers = RiskModel()
    learn(dangers, PURE, a_run(NOW - 60))

    assert assess(dangers, PURE).risk == "low"


def test_ten_minutes_after_the_last_failure_it_may_be_tried_again() -> None:
    """And if that fails too, ten minutes later once more."""
    dangers = three_failures()
    assert assess(dangers, PURE, NOW + 8 * MINUTE).risk == "critical"
    assert assess(dangers, PURE, NOW + 9 * MINUTE).risk == "high"
    learn(dangers, PURE, a_run(NOW + 10 * MINUTE))

    assert assess(dangers, PURE, NOW + 11 * MINUTE).risk == "critical"
    assert assess(dangers, PURE, NOW + 21 * MINUTE).risk == "high"


def test_failures_of_more_than_an_hour_ago_do_not_make_a_run_critical() -> None:
    """Three in the last hour are needed."""
    dangers = RiskModel()
    learn(dangers, PURE, *(a_run(NOW - minutes * MINUTE) for minutes in (62, 30, 1)))

    assert assess(dangers, PURE).risk == "high"


@pytest.mark.parametrize(
    "fields",
    [
        {"context_digest": "c2"},
        {"session": "ann:other"},
        {"principal": "bob"},
        {"principal": "bob", "session": "ann:default"},
    ],
)
def test_other_values_workspaces_and_principals_are_not_refused(fields: dict[str, str]) -> None:
    """Only the same code with the same values in the same place is certain to fail again."""
    assert assess(three_failures(), PURE, **fields).risk in ("low", "medium", "high")


def test_other_code_is_not_refused() -> None:
    """One character is enough: somebody has thought about it."""
    assert assess(three_failures(), PURE.replace("7", "8")).risk == "high"


@pytest.mark.parametrize(("code", "form"), [(PURE, "code"), ("1 + 1", "code"), ("", "call"), ("1", "analysis")])
def test_a_run_of_the_same_workspace_that_ended_well_lifts_it(code: str, form: str) -> None:
    """It may have written the file, or changed the record, that the code needs."""
    dangers = three_failures()
    learn(dangers, code, a_run(NOW - 30, "ok", form=form))

    assert assess(dangers, PURE).risk != "critical"


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "timeout", "failure": "wall_time", "error_type": "other"},
        {"status": "limit", "failure": "memory", "error_type": "MemoryError"},
        {"status": "cancelled", "failure": "", "error_type": ""},
        {"status": "lost", "failure": "", "error_type": ""},
        {"status": "broken", "failure": "crash", "error_type": "other"},
        *(
            {"error_type": name}
            for name in (
                "UpstreamUnavailable",
                "UpstreamTimeout",
                "ToolFailed",
                "ApprovalRefused",
                "PolicyRefused",
                "LimitReached",
                "StoreError",
                "SandboxBroken",
                "SkillUnusable",
            )
        ),
    ],
)
def test_what_is_not_the_codes_own_failure_never_makes_it_critical(fields: dict[str, str]) -> None:
    """A server that was down is up again, and a person may say yes the next time."""
    told = assess(three_failures(CODE, calls=(a_call(),), **fields), CODE)

    assert told.risk != "critical"
    assert told.line is None


def test_code_with_tools_is_critical_while_they_answer_the_same() -> None:
    """A mistake with the same answers is the same mistake."""
    assert assess(three_failures(CODE, calls=(a_call(),)), CODE).risk == "critical"


@pytest.mark.parametrize(
    "last",
    [
        {"calls": (a_call(11),)},
        {"calls": (a_call(error="UpstreamTimeout: slow"),)},
        {"calls": (a_call(), a_call())},
        {"calls": (a_call(),), "error_type": "TypeError"},
        {"calls": (a_call(),), "failure_line": 2},
    ],
)
def test_another_answer_or_another_error_starts_the_count_anew(last: dict[str, Any]) -> None:
    """Something changes: the next run may end well."""
    dangers = three_failures(CODE, calls=(a_call(),))
    learn(dangers, CODE, a_run(NOW - 30, **last))

    assert assess(dangers, CODE).risk == "high"


def test_code_that_waits_for_an_answer_to_change_is_not_refused() -> None:
    """It raises by itself until the job is done: to run it again is what it is for."""
    for error in ("RuntimeError", "AssertionError", "TimeoutError", "other"):
        told = assess(three_failures(CODE, calls=(a_call(),), error_type=error), CODE)
        assert told.risk in ("low", "medium", "high")


@pytest.mark.parametrize("version", ["1.0.1", "1.1.0", "2.0.0"])
def test_a_tool_that_changed_is_a_reason_to_try_again(version: str) -> None:
    """Whatever changed, it may be what the code was waiting for."""
    told = assess(
        three_failures(CODE, calls=(a_call(),)), CODE, specs={"expenses.list_expenses": a_tool(version=version)}
    )

    assert told.risk != "critical"


def test_a_tool_of_which_no_version_is_known_is_never_the_same() -> None:
    """Code that failed before it called anything may do so for a tool that has changed since."""
    dangers = three_failures(CODE)
    assert assess(dangers, CODE).risk == "high"

    other = "from servers.expenses import list_expenses\nlist_expenses(user='x')"
    learn(dangers, other, a_run(NOW - 40, "ok", calls=(a_call(),), session="ann:other"))
    learn(dangers, CODE, *(a_run(NOW - seconds) for seconds in (30, 20, 10)))
    assert assess(dangers, CODE).risk == "critical"


def test_code_with_a_saved_skill_is_never_critical() -> None:
    """The skill may be another version the next time."""
    code = "from skills import report\nreport()"

    assert assess(three_failures(code), code).risk == "high"
    assert assess(three_failures(PURE, skills=("shared/report",)), PURE).risk != "critical"


@pytest.mark.parametrize(
    "refused",
    [{"failure": "refused", "error_type": "other"}, {"failure": "exception", "error_type": "ApprovalRefused"}],
)
def test_a_refusal_is_no_failure_that_would_refuse_the_next(refused: dict[str, str]) -> None:
    """Else who asks every five minutes would be refused for ever."""
    dangers = three_failures()
    before = msgspec.msgpack.encode(dangers)
    told = an_assessed("critical", decision="refused")
    learn(dangers, PURE, a_run(NOW + 5 * MINUTE, tier="", assessed=told, **refused))

    assert msgspec.msgpack.encode(dangers) == before
    assert assess(dangers, PURE, NOW + 10 * MINUTE).risk == "high"


def an_assessed(risk: Risk, **fields: Any) -> Assessed:
    """What was told of a run."""
    told: dict[str, Any] = {"chance": 0.5, "wall_seconds": 30.0, "memory_mib": 256}
    return Assessed(risk=risk, **told | {"usual_seconds": 30.0, "usual_mib": 256} | fields)


def test_critical_that_proves_wrong_is_not_said_any_more() -> None:
    """Where such code is run all the same, what becomes of it is counted."""
    dangers = RiskModel()
    for number in range(20):
        told = an_assessed("critical", reasons=("same_failures",))
        learn(dangers, "1 + 1", a_run(NOW - 1_000 + number, "ok", assessed=told))
    learn(dangers, PURE, *(a_run(NOW - seconds) for seconds in (30, 20, 10)))

    assert assess(dangers, PURE).risk == "high"


# Arguments


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            "rows = list_expenses(who='ann')",
            "Line 2 gives expenses.list_expenses a parameter that it does not have. It takes: user, limit. ",
        ),
        ("print(len(list_expenses(limit=3)))", "Line 2 calls expenses.list_expenses without what it needs: user. "),
        ("await list_expenses()", "Line 2 calls expenses.list_expenses without what it needs: user. "),
        (
            "if list_expenses('ann', 3, 4): pass",
            "Line 2 gives expenses.list_expenses more values than it takes: user, limit. ",
        ),
        (f"call_tool('{TOOL}', {{'limit': 3}})", "Line 2 calls expenses.list_expenses without what it needs: user. "),
        (
            "x = 1\nfor row in list_expenses(user='a', who=2):\n    pass",
            "Line 3 gives expenses.list_expenses a parameter that it does not have. It takes: user, limit. ",
        ),
    ],
)
def test_a_call_that_cannot_fit_and_is_made_in_any_case_is_critical(code: str, text: str) -> None:
    """The names are those of the tool; the wrong one, which only the code has, is not repeated."""
    told = assess(RiskModel(), USE + code, wrong=wrong_calls(USE + code, SPECS))

    assert told == Assessment(
        risk="critical",
        chance=0.98,
        reasons=("arguments",),
        text=f"{text}Change that call before running this.",
        line=int(text.split()[1]),
    )


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    list_expenses(who=1)\nexcept TypeError:\n    pass",
        "def f():\n    return list_expenses(who=1)",
        "if x:\n    list_expenses(who=1)",
        "for x in []:\n    list_expenses(who=1)",
        "from contextlib import suppress\nwith suppress(TypeError):\n    list_expenses(who=1)",
        "False and list_expenses(who=1)",
        "1 if True else list_expenses(who=1)",
        "[list_expenses(who=x) for x in []]",
        "1 < 0 < list_expenses(who=1)",
        "f = lambda: list_expenses(who=1)",
        "import asyncio\nawait asyncio.gather(list_expenses(who=1), return_exceptions=True)",
        "import sys\nsys.exit()\nlist_expenses(who=1)",
        "raise SystemExit\nlist_expenses(who=1)",
        "globals()['list_expenses'] = print\nlist_expenses(who=1)",
        "import servers.expenses as e\ne.list_expenses = print\ne.list_expenses(who=1)",
        "from math import *\nlist_expenses(who=1)",
        "exec('list_expenses = dict')\nlist_expenses(who=1)",
    ],
)
def test_a_call_that_cannot_fit_but_may_never_be_made_is_told_and_run(code: str) -> None:
    """It may be caught, never reached, or be another function by then."""
    found = wrong_calls(USE + code, SPECS)
    told = assess(RiskModel(), USE + code, wrong=found)

    assert [wrong.is_certain for wrong in found] == [False]
    assert (told.risk, told.reasons) == ("high", ("arguments",))


@pytest.mark.parametrize(
    "code",
    [
        "list_expenses('ann')",
        "list_expenses('ann', limit=3)",
        "list_expenses(*names)",
        "list_expenses(**named)",
        "list_expenses(limit=3, **named)",
        f"call_tool('{TOOL}', arguments)",
        f"call_tool('{TOOL}', {{'user': 'ann', 'who': 1}})",
        f"call_tool('{TOOL}', {{'limit': 1, **more}})",
        f"call_tool('{TOOL}', {{key: 1}})",
        "def list_expenses(who):\n    return who\nlist_expenses(who=1)",
        "list_expenses = print\nlist_expenses(who=1)",
        "def f(list_expenses):\n    list_expenses(who=1)",
        "other(who=1)",
        "list_expenses(who=1",
    ],
)
def test_a_call_that_may_fit_is_no_risk(code: str) -> None:
    """What is not known from the text is left to the run."""
    assert wrong_calls(USE + code, SPECS) == ()


def test_a_tool_that_takes_anything_fits_every_name() -> None:
    """Its schema says so."""
    spec = a_tool(additionalProperties=True)

    assert wrong_calls(USE + "list_expenses(user='a', who=1)", {"x": spec}) == ()
    assert wrong_calls(f"call_tool('{TOOL}', {{'user': 'a', 'who': 1}})", {"x": spec}) == ()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("list_expenses(user='a', limmit=2)", "Did you mean limit=, not limmit=?"),
        ("list_expenses(usr='a')", "Did you mean user=, not usr=?"),
        (f"call_tool('{TOOL}', {{'usr': 'a'}})", "Did you mean user=, not usr=?"),
        ("list_expenses(limit=3)", "It also needs user."),
        ("list_expenses(user='a', colour=2)", ""),
        ("list_expenses('ann', 3, 4)", ""),
        (f"list_expenses(user='a', limit{'_' * 40}=2)", ""),
    ],
)
def test_a_call_that_cannot_fit_is_told_what_it_probably_means(code: str, text: str) -> None:
    """From the names of the call and of the tool."""
    (wrong,) = wrong_calls(USE + code, SPECS)

    assert about_parameters(wrong) == text


_NAMES = st.sampled_from(["user", "limit", "since", "class", "to-date"])
_SCHEMAS = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(_NAMES, st.just({}), max_size=4),
        "required": st.lists(_NAMES, max_size=2, unique=True),
    },
    optional={"additionalProperties": st.booleans()},
)


@settings(max_examples=150, deadline=None)
@given(
    schema=_SCHEMAS,
    values=st.integers(0, 4),
    named=st.lists(st.sampled_from(["user", "limit", "since", "class_", "to_date", "who"]), max_size=3, unique=True),
)
def test_what_is_called_certain_is_what_the_stub_raises(schema: dict[str, Any], values: int, named: list[str]) -> None:
    """The stub that the sandbox would load is the judge, of every call."""
    spec = msgspec.structs.replace(a_tool(), input_schema=schema, digest=repr(schema))
    names = {parameter.name for parameter in Stub(spec).parameters}
    positional = [parameter.name for parameter in Stub(spec).parameters][:values]
    if set(positional) & set(named):
        return  # given twice: the review of names leaves that to the run
    code = USE + f"list_expenses({', '.join(['1'] * values + [f'{name}=1' for name in named])})"
    found = wrong_calls(code, {"x": spec})
    try:
        inspect.signature(_stub(spec)).bind(*[1] * values, **dict.fromkeys(named, 1))
    except TypeError:
        assert [wrong.is_certain for wrong in found] == [True]
    else:
        assert found == ()
    assert all(set(wrong.names) <= names for wrong in found)


def _stub(spec: ToolSpec) -> Any:
    guest = types.ModuleType("sealyard_guest")
    guest.tool = lambda *told: lambda function: function  # type: ignore[attr-defined]
    sys.modules["sealyard_guest"] = guest
    try:
        names: dict[str, Any] = {}
        exec(Stub(spec).text, names)
        return names[spec.function]
    finally:
        del sys.modules["sealyard_guest"]


@settings(max_examples=150, deadline=None)
@given(schema=_SCHEMAS, keys=st.lists(st.sampled_from(["user", "limit", "class", "who"]), max_size=3, unique=True))
def test_what_is_called_certain_is_what_the_gateway_refuses(schema: dict[str, Any], keys: list[str]) -> None:
    """A call by name is judged by the check that it meets."""
    spec = msgspec.structs.replace(a_tool(), input_schema=schema, digest=repr(schema))
    given_ = dict.fromkeys(keys, 1)
    found = wrong_calls(f"call_tool('{TOOL}', {given_!r})", {"x": spec})
    try:
        check_arguments(spec, given_)
    except InvalidArguments:
        assert [wrong.is_certain for wrong in found] == [True]
    else:
        assert found == ()


# Tools, similar code and cost


def test_runs_with_a_tool_that_often_fails_are_told_so() -> None:
    """The tool is named as the code names it."""
    dangers = RiskModel()
    for number in range(12):
        code = USE + f"list_expenses(user='a'){'.x' * (number + 1)}\n{'pass;' * (number * 3 + 1)}pass"
        failed = number % 4 != 0
        run = a_run(
            NOW - 4_000 + number,
            "failed" if failed else "ok",
            calls=(a_call(error="ToolFailed: no" if failed else None),),
            error_type="ToolFailed" if failed else "",
        )
        learn(dangers, code, run)
    told = assess(dangers, USE + "import json\njson.dumps([list_expenses(user='b') for _ in range(3)])")

    assert (told.risk, told.reasons[0]) == ("high", "tools")
    assert told.text == (
        "Runs with expenses.list_expenses fail in 75 % of cases. Call it alone first, or catch its errors."
    )


def test_a_tool_that_is_named_and_not_called_is_no_first_use() -> None:
    """Runs that import it do not count, again and again, as first runs with a tool; the one that calls it does."""
    dangers, ann = RiskModel(), Viewer("ann", NOW, HALF_LIFE)
    learn(dangers, CODE, *(a_run(NOW - 9_000 + number, "ok") for number in range(5)))
    named = dangers.firsts.tally(ann).total
    learn(dangers, CODE, a_run(NOW - 8_000, "ok", calls=(a_call(),)), a_run(NOW - 7_000, "ok", calls=(a_call(),)))

    assert (named, round(dangers.firsts.tally(ann).total)) == (0, 1)


def test_a_tool_is_not_to_blame_for_the_failure_of_another() -> None:
    """The one whose call did not answer is."""
    dangers = RiskModel()
    other = "mcp__bank__pay"
    code = USE + "from servers.bank import pay\npay(list_expenses(user='a'))"
    for number in range(12):
        run = a_run(
            NOW - 4_000 + number,
            error_type="ToolFailed",
            calls=(a_call(), a_call(tool=other, error="ToolFailed: no")),
        )
        learn(dangers, code, run)

    assert [each.subject for each in dangers.insights(Viewer("", NOW, HALF_LIFE)).items if each.kind == "tool"] == [
        other
    ]


def test_a_new_major_version_resets_what_is_known_of_a_tool_and_its_code() -> None:
    """Its failures were another tool's."""
    dangers = RiskModel()
    for number in range(6):
        learn(dangers, CODE, a_run(NOW - 9_000 + number, calls=(a_call(),), context_digest=str(number)))
    assert assess(dangers, CODE).risk == "high"
    new = {"expenses.list_expenses": a_tool(version="2.0.0")}
    assert "same_failures" not in assess(dangers, CODE, specs=new).reasons
    for number in range(2):
        run = a_run(NOW - 100 + number, "ok", calls=(a_call(version="2.0.0"),), context_digest="new")
        learn(dangers, CODE, run)

    assert assess(dangers, CODE, specs=new).risk == "low"


def test_code_that_needs_more_than_it_may_have_is_told_so() -> None:
    """What similar runs needed, and what it has."""
    slow = Prediction(seconds=80.0, memory_mib=10, runs=5, is_same_code=True, is_binding=True)
    told = assess(RiskModel(), "1 + 1", predicted=slow, wall_seconds=30.0, memory_mib=256)
    enough = assess(RiskModel(), "1 + 1", predicted=slow, wall_seconds=120.0, memory_mib=256)
    others = msgspec.structs.replace(slow, is_binding=False)

    assert (told.risk, told.reasons) == ("high", ("cost",))
    assert told.text == (
        "Runs like this needed 80 s or more, and it has 30 s. Do less in one run, or give timeout_seconds."
    )
    assert enough.risk == "low"
    assert assess(RiskModel(), "1 + 1", predicted=others, wall_seconds=30.0, memory_mib=256).risk == "low"


def test_code_that_was_ended_for_its_memory_is_told_so() -> None:
    """More than there was."""
    large = Prediction(seconds=1.0, memory_mib=0, runs=0, is_same_code=True, is_binding=True, is_out_of_memory=True)
    told = assess(RiskModel(), "1 + 1", predicted=large, wall_seconds=30.0, memory_mib=256)

    assert told.text == "Runs like this needed 256 MiB or more, and it has 256 MiB. Do less in one run."


# The part


def some_runs(count: int) -> list[tuple[RunEvidence, str]]:
    """Runs of all kinds, and their code."""
    found = []
    reasons: tuple[RiskReason, ...] = ("tools", "review")
    for number in range(count):
        at = NOW - 100_000 + number * 30
        who = f"principal{number % 23}"
        code = USE + f"list_expenses(user='a').m{number % 97}\nimport m{number % 31}"
        failed = number % 3 == 0
        run = a_run(
            at,
            "failed" if failed else "ok",
            principal=who,
            session=f"{who}:{number % 700}",
            execution_id=str(number),
            assessed=an_assessed("medium", reasons=reasons),
            calls=(a_call(number % 5, tool=f"mcp__s__t{number % 2_500}"),),
        )
        found.append((run, code))
    return found


def test_the_same_events_make_the_same_bytes_and_survive_them() -> None:
    """Whoever reads the saved model goes on where it stood."""
    events = some_runs(300)
    one, other = RiskModel(), RiskModel()
    for number, (run, code) in enumerate(events):
        learn(one, code, run)
        learn(other, code, run)
        if number == 150:
            other = msgspec.msgpack.decode(msgspec.msgpack.encode(other), type=RiskModel)

    assert msgspec.msgpack.encode(one) == msgspec.msgpack.encode(other)


def test_what_is_remembered_is_bounded() -> None:
    """The oldest goes."""
    dangers = RiskModel()
    for run, _ in some_runs(6_000):
        number = int(run.fact.execution_id)
        form = CodePrint(digest=str(number), exact=str(number), sample=(number,), tools=(f"s.t{number}",))
        dangers.learn(Lesson(number=0, event=run, code=form), HALF_LIFE)

    assert len(dangers.tools) == 2_000
    assert len(dangers.forms.by_digest) == 2_048
    assert len(dangers.repeats.sessions) <= 512
    assert len(dangers.all.by) == 16
    assert len(msgspec.msgpack.encode(dangers)) < 4 << 20


def test_an_assessment_changes_nothing() -> None:
    """It is a lookup, made as often as anybody likes."""
    dangers = three_failures(CODE, calls=(a_call(),))
    before = msgspec.msgpack.encode(dangers)
    assess(dangers, CODE)

    assert msgspec.msgpack.encode(dangers) == before


def test_old_failures_fade() -> None:
    """What was so ten half-lives ago says nothing about today."""
    dangers = RiskModel()
    then = NOW - 10 * HALF_LIFE
    for number in range(10):
        learn(dangers, CODE, a_run(then + number, calls=(a_call(),)))
    assert assess(dangers, CODE, then + 60_000).risk == "high"

    assert assess(dangers, CODE).risk == "low"
