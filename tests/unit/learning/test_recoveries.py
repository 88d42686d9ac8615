"""What an agent changed between a run that failed and the next that went well."""

import pytest
from tests.unit.learning.failure_runs import IMPORT, cause_of, make_call, make_run

from sealyard.learning.repairs import Edit, edits
from sealyard.values.facts import RunEvidence

TOOL = "bank.list_bookings"
ROWS = IMPORT + "rows = list_bookings()\n"
FULL = "mcp__bank__list_bookings"
FAILED = ("ToolFailed", "ValueError: no")


def found(before: RunEvidence, after: RunEvidence) -> tuple[Edit, ...]:
    """The edits between two runs."""
    failed, then = cause_of(before), cause_of(after)
    assert failed is not None
    assert then is not None
    return edits(failed, then, is_same=before.code == after.code)


@pytest.mark.parametrize(
    ("fails", "error", "works", "edit"),
    [
        (
            ROWS + 'rows[0]["amout"]',
            "KeyError: 'amout'",
            ROWS + 'rows[0]["amount"]',
            ("field_renamed", TOOL, "amout", "amount"),
        ),
        (ROWS + 'rows[0]["due"]', "KeyError: 'due'", ROWS + 'rows[0].get("due")', ("field_optional", TOOL, "due", "")),
        (ROWS + 'rows[0]["id"]', "KeyError: 0", ROWS + 'rows["items"][0]["id"]', ("unwrapped", TOOL, "", "items")),
        (
            ROWS + "rows[0].id",
            "AttributeError: 'dict' object has no attribute 'id'",
            ROWS + 'rows[0]["id"]',
            ("subscripted", "", "", ""),
        ),
        (
            ROWS + 'rows["id"]',
            "TypeError: list indices must be integers or slices, not str",
            ROWS + 'rows[0]["id"]',
            ("indexed", "", "", ""),
        ),
        (
            ROWS + 'rows["x"]["y"]',
            "TypeError: string indices must be integers, not 'str'",
            "import json\n" + ROWS + 'json.loads(rows["x"])["y"]',
            ("used", "", "", "json.loads"),
        ),
        (
            IMPORT + 'list_bookings(from_day="a")',
            "TypeError: list_bookings(): got an unexpected keyword argument 'from_day'",
            IMPORT + 'list_bookings(since="a")',
            ("param_renamed", TOOL, "from_day", "since"),
        ),
        (
            IMPORT + "list_bookings()",
            "TypeError: list_bookings(): missing a required argument: 'since'",
            IMPORT + 'list_bookings(since="a")',
            ("param_added", TOOL, "", "since"),
        ),
        (
            "x = 'a' + 1",
            'TypeError: can only concatenate str (not "int") to str',
            "x = 'a' + str(1)",
            ("used", "", "", "str"),
        ),
        (
            "sorted([{}, {}])",
            "TypeError: '<' not supported between instances of 'dict' and 'dict'",
            "sorted([{}, {}], key=len)",
            ("option", "", "sorted", "key"),
        ),
        (
            "async def f(): ...\nx = f()\nx[0]",
            "TypeError: 'coroutine' object is not subscriptable",
            "async def f(): ...\nx = await f()\nx[0]",
            ("awaited", "", "", ""),
        ),
        (
            "x = None\nx['a']",
            "TypeError: 'NoneType' object is not subscriptable",
            "x = None\nx['a'] if x is not None else 0",
            ("guarded", "", "", ""),
        ),
        (
            "json.dumps(1)",
            "NameError: name 'json' is not defined",
            "import json\njson.dumps(1)",
            ("imported", "", "", "json"),
        ),
        (
            "total = 1\ntotl",
            "NameError: name 'totl' is not defined",
            "total = 1\ntotal",
            ("renamed", "", "totl", "total"),
        ),
        (
            "for a, b in {}: pass",
            "ValueError: not enough values to unpack (expected 2, got 1)",
            "for a, b in {}.items(): pass",
            ("method", "", "", "items"),
        ),
        (
            "import json\njson.loads([])",
            "TypeError: the JSON object must be str, bytes or bytearray, not list",
            "x = []\nx",
            ("unused", "", "json.loads", ""),
        ),
        (
            "n = 0\ndef f():\n    n += 1\nf()",
            "UnboundLocalError: cannot access local variable 'n'",
            "n = 0\ndef f():\n    global n\n    n += 1\nf()",
            ("global", "", "", ""),
        ),
        ("open('/a/b.csv')", "FileNotFoundError: [Errno 2]", "open('b.csv')", ("relative", "", "", "")),
        ("next(x for x in [])", "StopIteration: ", "next((x for x in []), None)", ("defaulted", "", "", "")),
        (
            "import orjson\norjson",
            "ModuleNotFoundError: No module named 'orjson'",
            "import json\njson",
            ("imported", "", "orjson", "json"),
        ),
    ],
)
def test_change_in_the_code_is_the_edit_that_repaired_it(
    fails: str, error: str, works: str, edit: tuple[str, str, str, str]
) -> None:
    """Each kind of mistake has its own ways out, and the one that was taken is found among them."""
    kind, _, message = error.partition(": ")
    kind_of, tool, name, to = edit

    assert found(make_run(fails, (kind, message)), make_run(works)) == (
        Edit(kind=kind_of, tool=tool, name=name, to=to),
    )


@pytest.mark.parametrize(
    ("before", "after", "edit"),
    [
        ({"since": "10/01/2024"}, {"since": "2024-10-01"}, ("value_kind", "since", "date")),
        ({"since": "Jan 3, 2024"}, {"since": "2024-01-03T00:00:00Z"}, ("value_kind", "since", "time")),
        ({"limit": "5"}, {"limit": 5}, ("value_kind", "limit", "int")),
        ({"limit": 5_000}, {"limit": 100}, ("smaller", "limit", "")),
        ({"limit": 1}, {"limit": 100}, ("larger", "limit", "")),
        ({"since": "a"}, {"since": "a", "limit": 5}, ("param_added", "", "limit")),
        ({"since": "a", "limit": 5}, {"since": "a"}, ("param_dropped", "limit", "")),
        ({"since": "a"}, {"after": "a"}, ("param_renamed", "since", "after")),
    ],
)
def test_change_in_what_was_sent_is_found_whatever_the_code_looks_like(
    before: dict[str, object], after: dict[str, object], edit: tuple[str, str, str]
) -> None:
    """The journal has the arguments of calls, so that variables hide nothing. Their values are not in the edit."""
    code = IMPORT + "rows = list_bookings(**given)"
    failed = make_run(code, FAILED, calls=(make_call(error="ToolFailed: no", arguments=before),))
    repaired = make_run(code + "\nlen(rows)", calls=(make_call(arguments=after),))
    kind, name, to = edit

    assert found(failed, repaired) == (Edit(kind=kind, tool=TOOL, name=name, to=to),)


def test_tool_that_gave_the_value_is_found() -> None:
    """Calling another tool first, and passing on what it answers, is one edit."""
    before = make_run(
        IMPORT + 'list_bookings(since="monday")', FAILED, calls=(make_call(error="ToolFailed: no", arguments={}),)
    )
    after = make_run(
        "from servers.bank import calendar, list_bookings\nday = calendar()['monday']\nlist_bookings(since=day)"
    )

    assert found(before, after) == (Edit(kind="tool_first", tool=TOOL, name="since", to="bank.calendar"),)


def test_same_code_that_works_later_was_not_at_fault() -> None:
    """Nothing changed, so the tool did."""
    code = IMPORT + "list_bookings()"

    assert found(make_run(code, FAILED, calls=(make_call(error="ToolFailed: busy"),)), make_run(code)) == (
        Edit(kind="again"),
    )


@pytest.mark.parametrize(
    ("fails", "error", "works"),
    [
        (ROWS + 'rows[0]["amout"]', ("KeyError", "'amout'"), ROWS + "import json\njson.dumps(len(rows))"),
        ("x = 1\nx + 'a'", ("TypeError", "unsupported operand type(s) for +: 'int' and 'str'"), "x = 2\nx"),
        ("1 / 0", ("ZeroDivisionError", "division by zero"), "import json\njson.dumps({})"),
        ("x = = 1", ("Refused", "SyntaxError: invalid syntax."), "x = 1"),
    ],
)
def test_change_that_cannot_have_repaired_it_is_no_edit(fails: str, error: tuple[str, str], works: str) -> None:
    """Leaving the failing part out, or adding something else, teaches nothing."""
    assert found(make_run(fails, error), make_run(works)) == ()


def test_code_with_many_tools_and_nodes_is_read_in_bounds() -> None:
    """A sketch has at most a few hundred features, and long names are not in it."""
    lines = "\n".join(f"value_{number} = list_bookings(since={number})" for number in range(900))
    cause = cause_of(make_run(IMPORT + lines + f"\n{'y' * 41} = 1"))

    assert cause is not None
    assert len(cause.features) <= 400
    assert not any("y" * 41 in key for key in cause.features)


def test_full_name_and_function_mean_the_same_tool() -> None:
    """Code may call a tool by either."""
    one = cause_of(make_run(f'rows = call_tool("{FULL}", {{"since": "a"}})\nrows["x"]', ("KeyError", "'x'")))
    other = cause_of(make_run(IMPORT + 'rows = list_bookings(since="a")\nrows["x"]', ("KeyError", "'x'")))

    assert one is not None
    assert other is not None
    assert (one.tool, one.groups()) == (TOOL, other.groups())


def test_tool_that_gave_the_value_is_found_in_the_values_too() -> None:
    """Where the journal has a token in the place of a variable, the calls still show what came from where."""
    failed = (make_call(error="ToolFailed: no", arguments={"since": "x y"}),)
    answered = make_call("mcp__bank__calendar", answer=[{"day": "2031-12-24-evening"}])
    after = make_run(
        "from servers.bank import calendar, list_bookings\nday = calendar()\nlist_bookings(since=__PII_name_1__)",
        calls=(answered, make_call(number=2, arguments={"since": "2031-12-24-evening"})),
    )

    assert found(make_run(IMPORT + "list_bookings(since='x y')", FAILED, calls=failed), after) == (
        Edit(kind="tool_first", tool=TOOL, name="since", to="bank.calendar"),
    )
