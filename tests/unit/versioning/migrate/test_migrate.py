"""Migration of code by its syntax tree: rewritten code does what the old code did, or it is refused with a reason."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.versioning.migration_world import (
    ANSWER,
    BEFORE,
    CHANGES,
    NUMBER,
    TEXT,
    make_change,
    make_spec,
    outcome,
    run,
)

from sealyard.versioning.migrate import Migration, Refusal, diff, migrate
from sealyard.versioning.plan import (
    AddParameter,
    Obstacle,
    Plan,
    RemoveParameter,
    RenameField,
    RenameParameter,
    RetypeParameter,
    Untranslatable,
    make_plan,
    signature_names,
    translate_arguments,
)

IMPORT = "from servers.expenses import list_expenses\n"


def _styles() -> list[Any]:
    """Pieces of code, each with the changes for which it has to be refused; all others must be migrated."""
    found = []
    text = Path(__file__).with_name("migration_styles.txt").read_text(encoding="utf-8")
    for number, block in enumerate(text.removeprefix("### ").split("\n\n### ")):
        head, code = block.split("\n", 1)
        name, form, refused = head.split(" | ")
        names = list(CHANGES) if refused == "always" else refused.split()
        found.append(pytest.param(number, code.rstrip("\n") + "\n", form, names, id=name))
    return found


@pytest.mark.parametrize(("number", "code", "form", "refused"), _styles())
def test_migrated_code_does_with_the_new_tool_what_the_old_did_with_the_old(
    number: int, code: str, form: str, refused: list[str]
) -> None:
    """Both are run and their calls, values and output compared; what cannot be proven is refused. Source: issue 5."""
    # Each piece of code gets one change in six, other ones than its neighbour, and all of them together.
    chosen = [name for place, name in enumerate(CHANGES) if (place + number) % 6 == 0 or name == "all"]

    found = {name: outcome(code, CHANGES[name], form=form) for name in chosen}

    assert found == {name: "refused" if name in refused else "right" for name in chosen}


def test_comments_and_formatting_stay() -> None:
    """Only what has to change does. Source: issue 5."""
    code = (
        "# what it is for\n"
        "from servers.expenses import (\n"
        "    list_expenses,  # the list\n"
        ")\n\n"
        "def run( user_id ):\n"
        '    data = list_expenses( user_id ,start = "2024" ,  # since when\n'
        "        limit=5 )\n"
        "    more = list_expenses(\n"
        "        user_id,\n"
        '        start="x",  # since\n'
        "        # noisy\n"
        "        verbose=True,\n"
        "    )\n"
        "    return [ r['name'] for r in data['items'] ] , more[ \"total\" ]   # done\n"
    )

    assert migrate(code, CHANGES["all"]).code == (
        "# what it is for\n"
        "from servers.expenses import (\n"
        "    fetch,  # the list\n"
        ")\n\n"
        "def run( user_id ):\n"
        '    data = fetch( user_id=user_id ,since = "2024" ,  # since when\n'
        '        limit="5", tenant="main" )\n'
        "    more = fetch(\n"
        "        user_id=user_id,\n"
        '        since="x",  # since\n'
        "        # noisy\n"
        '        tenant="main",\n'
        "    )\n"
        "    return [ r['title'] for r in data['rows'] ] , more[ \"total\" ]   # done\n"
    )


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        ("rm_start", "list_expenses(u, start='1')", "list_expenses(u)"),
        ("rm_start", "list_expenses(u, '1', 5)", "list_expenses(u, 5)"),
        ("rm_start", "list_expenses(u, '1')", "list_expenses(u)"),
        ("rm_limit", "list_expenses(u, limit=3, start='1')", "list_expenses(u, start='1')"),
        ("user", "list_expenses(u, '1')", "list_expenses(u, '1')"),
        ("swap", "list_expenses(u, '1', 5)", "list_expenses(u, since='1', start=5)"),
        ("reorder", "list_expenses(u, '1', 5)", "list_expenses(u, start='1', limit=5)"),
        ("add_last", "list_expenses(u)", "list_expenses(u, mode=3)"),
        ("add_last", "list_expenses(\n    u\n)", "list_expenses(\n    u,\n    mode=3\n)"),
        ("add_last", "list_expenses(u, **{'limit': 4})", "list_expenses(u, **{'limit': 4}, mode=3)"),
        ("req_limit", "list_expenses(u, limit=4)", "list_expenses(u, limit=4)"),
        ("int_str", "list_expenses(u, limit=-4)", 'list_expenses(u, limit="-4")'),
        ("int_str", "list_expenses(u, limit=len(u))", 'list_expenses(u, limit=format(len(u), "d"))'),
        ("int_str", "list_expenses(u, limit=n)", 'list_expenses(u, limit=None if n is None else format(n, "d"))'),
        ("int_str", "list_expenses(u, limit=None)", "list_expenses(u, limit=None)"),
        (
            "int_str",
            "list_expenses(u, limit=n.get(1))",
            'list_expenses(u, limit=(lambda value: None if value is None else format(value, "d"))(n.get(1)))',
        ),
        ("str_int", "list_expenses('7')", "list_expenses(7)"),
        (
            "str_int",
            "list_expenses(u or '1')",
            "list_expenses((lambda value: int(value) if str(int(value)) == value else value)(u or '1'))",
        ),
        ("start", "call_tool('mcp__expenses__list_expenses', {'start': u})", None),
        (
            "add_last",
            "call_tool('mcp__expenses__list_expenses')",
            "call_tool('mcp__expenses__list_expenses', {\"mode\": 3})",
        ),
    ],
)
def test_an_argument_follows_its_parameter(change: str, before: str, after: str | None) -> None:
    """By position only where the position still means the same."""
    code = f"{IMPORT}def run(u, n):\n    x = {before}\n"
    after = before.replace("'start'", "'since'") if after is None else after

    migration = migrate(code, CHANGES[change])

    assert (migration.code, migration.refusals) == (code.replace(before, after), ())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from servers.expenses import list_expenses\n", "from servers.expenses import fetch_expenses\n"),
        ("from servers.expenses import list_expenses as f\n", "from servers.expenses import fetch_expenses as f\n"),
        (
            "from servers.expenses import a, list_expenses as f, b\n",
            "from servers.expenses import a, fetch_expenses as f, b\n",
        ),
        ("import servers.expenses.list_expenses as f\n", "import servers.expenses.fetch_expenses as f\n"),
        (
            "from servers.expenses.list_expenses import list_expenses\n",
            "from servers.expenses.fetch_expenses import fetch_expenses\n",
        ),
        (
            "from servers.expenses import list_expenses\nfetch_expenses = 4\nlist_expenses('1')\n",
            "from servers.expenses import fetch_expenses as list_expenses\nfetch_expenses = 4\nlist_expenses('1')\n",
        ),
        (
            "import servers.expenses as e, json\ne.list_expenses('1')\n",
            "import servers.expenses as e, json\ne.fetch_expenses('1')\n",
        ),
        (
            "class A:\n    from servers.expenses import list_expenses\n",
            "class A:\n    from servers.expenses import fetch_expenses as list_expenses\n",
        ),
    ],
)
def test_a_renamed_tool_is_imported_under_its_new_name(before: str, after: str) -> None:
    """The name the code uses changes too where nothing else has the new one, else it stays as an alias."""
    assert migrate(before, CHANGES["tool"], form="script").code == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from servers.expenses import list_expenses as f\n", "from servers.costs import list_expenses as f\n"),
        ("import servers.expenses.list_expenses as f\n", "import servers.costs.list_expenses as f\n"),
        (
            "from servers.expenses import list_expenses, add_expense\n",
            "from servers.expenses import add_expense; from servers.costs import list_expenses\n",
        ),
        ("import servers.expenses as e\ne.list_expenses('1')\n", None),
    ],
)
def test_a_tool_that_moved_is_imported_from_its_new_module(before: str, after: str | None) -> None:
    """Other ways to reach it are refused."""
    migration = migrate(before, CHANGES["module"], form="script")

    assert (migration.code, bool(migration.refusals)) == (before if after is None else after, after is None)


@pytest.mark.parametrize("call", ["list_expenses.__call__('1', start='2')", "list_expenses.__wrapped__(user_id='1')"])
@pytest.mark.parametrize("change", ["start", "rm_start", "f_total", "f_name"])
def test_tool_that_is_called_through_an_attribute_is_refused(call: str, change: str) -> None:
    """Such a call would neither be rewritten nor give an answer that is followed."""
    code = f"{IMPORT}{call}['total']\n"

    assert [each.line for each in migrate(code, CHANGES[change], form="script").refusals] == [2]
    assert migrate(f"{IMPORT}list_expenses.__doc__\n", CHANGES[change], form="script").refusals == ()


def test_argument_that_a_person_renamed_is_renamed_although_its_parameter_takes_less_now() -> None:
    """However the argument is given: a value that the new tool still takes goes under the new name."""
    before = make_spec({"limit": NUMBER})
    plan = make_plan(before, make_spec({"most": {**NUMBER, "maximum": 100}}), renames={"limit": "most"})
    code = (
        f"{IMPORT}list_expenses(limit=5)\n"
        "call_tool('mcp__expenses__list_expenses', {'limit': 5})\n"
        "some = {}\n"
        "some['limit'] = 5\n"
        "list_expenses(**some)\n"
    )

    migrated = migrate(code, plan, form="script")
    refused = migrate(code.replace("'limit': 5", "'limit': 500"), plan, form="script")

    assert (migrated.code, migrated.refusals) == (code.replace("limit", "most"), ())
    assert [each.line for each in refused.refusals] == [3]


def test_functions_take_python_names_and_call_tool_takes_the_keys_of_the_schema() -> None:
    """`from` is `from_` in a signature, and `user-id` is `user_id`. Source: the stubs' own rule."""

    def spelled(spec: Any) -> dict[str, str]:
        return {key: {"from": "from_"}.get(key, key.replace("-", "_")) for key in signature_names(spec)}

    before = make_spec({"user-id": TEXT, "from": TEXT}, ("user-id",))
    after = make_spec({"user-id": TEXT, "class": TEXT, "max-rows": NUMBER}, ("user-id", "max-rows"))
    plan = Plan(
        before=before,
        after=after,
        steps=(RenameParameter(before="from", after="class"), AddParameter(name="max-rows", value=3)),
        names_before=spelled(before),
        names_after={**spelled(after), "class": "class_"},
    )
    code = (
        f"{IMPORT}def run(u):\n"
        "    a = list_expenses(u, from_='1')\n"
        "    b = call_tool('mcp__expenses__list_expenses', {'user-id': u, 'from': '1'})\n"
        "    c = list_expenses(**{'user_id': u, 'from_': '2'})\n"
        "    d = call_tool('mcp__expenses__list_expenses', dict([('user-id', u)]))\n"
    )

    refused = migrate(code, plan)
    migrated = migrate(code[: code.index("    d = ")], plan)

    assert refused.refusals == (Refusal(line=6, reason="The arguments that `call_tool` gets are not known."),)
    assert migrated.code == (
        f"{IMPORT}def run(u):\n"
        "    a = list_expenses(u, class_='1', max_rows=3)\n"
        "    b = call_tool('mcp__expenses__list_expenses', {'user-id': u, 'class': '1', \"max-rows\": 3})\n"
        "    c = list_expenses(**{'user_id': u, 'class_': '2'}, max_rows=3)\n"
    )


@pytest.mark.parametrize(
    ("change", "body", "line", "reason"),
    [
        (
            "f_name",
            "return list_expenses(u)",
            3,
            "The answer of `list_expenses`, in which `name` is `title` now, is returned, and who calls this function "
            "would see the new names.",
        ),
        (
            "f_name",
            "print(list_expenses(u)['items'])",
            3,
            "The answer of `list_expenses`, in which `name` is `title` now, is printed.",
        ),
        (
            "f_name",
            "return [r[n] for r in list_expenses(u)['items']]",
            3,
            "The answer of `list_expenses`, in which `name` is `title` now, is read by a key that is only known at run "
            "time.",
        ),
        (
            "start",
            "return list_expenses(u, **n)['total']",
            3,
            "What `**` unpacks is not known, and `start` may be in it.",
        ),
        (
            "rm_start",
            "return list_expenses(u, start=n.pop())['total']",
            3,
            "The parameter `start` is gone, and what it was given does something when it is evaluated.",
        ),
        (
            "str_int",
            "return list_expenses('seven')['total']",
            3,
            "Argument 'user_id' has become integer, and the value given cannot be made one. Change it.",
        ),
        (
            "tool",
            "return call_tool(n, {})",
            3,
            "`call_tool` gets a name that is only known at run time and may be this tool's.",
        ),
        (
            "start",
            "return helper(list_expenses)",
            3,
            "The function `list_expenses` is used as a value (passed to a function that cannot be analysed), so its "
            "calls cannot be followed.",
        ),
        (
            "start",
            "f = list_expenses if n else print\n    f(u, start=3)",
            4,
            "This may be a call of `list_expenses` or of something else.",
        ),
        (
            "start",
            "import servers.expenses as e\n    e.list_expenses = n",
            4,
            "A tool or its module is changed by an assignment.",
        ),
        ("start", "from servers.expenses import *", 3, None),
    ],
)
def test_what_is_not_proven_is_refused_with_its_line_and_reason(
    change: str, body: str, line: int, reason: str | None
) -> None:
    """A person can act on it, and the code stays as it was. Source: issue 5."""
    code = f"{IMPORT}def run(u, n):\n    {body}\n"
    if reason is None:  # only a module can do it
        code = "\n\nfrom servers.expenses import *\n"
        reason = "`from servers.expenses import *` binds names that the text does not show. Name them."

    assert migrate(code, CHANGES[change]) == Migration(
        code=code, refusals=(Refusal(line=line, reason=reason),), difficulty="needs a look"
    )


@pytest.mark.parametrize(
    "body",
    [
        "x = eval(n)",
        "x = globals()['list_expenses'](start=1)",
        "x = sys.modules['servers.expenses'].list_expenses(start=1)",
        "x = __import__('servers.expenses').expenses.list_expenses(start=1)",
        "x = getattr(servers.expenses, n)(start=1)",
        "x = servers.expenses.__dict__[n](start=1)",
        "x = run.__globals__['list_expenses'](start=1)",
        "x = importlib.import_module(n).list_expenses(start=1)",
        "x = patch('servers.expenses.list_expenses')",
        "x = helper('mcp__expenses__list_expenses', {'start': 1})",
        "x = call_tool(*n)",
    ],
)
def test_no_way_around_the_names_is_overlooked(body: str) -> None:
    """Code that reaches a tool in a way that is not followed is refused, whatever else it does."""
    code = f"import servers.expenses, importlib, sys\n{IMPORT}def run(u, n):\n    {body}\n"

    migration = migrate(code, CHANGES["start"])

    assert {refusal.line for refusal in migration.refusals} == {4}


def test_code_that_does_not_use_the_tool_comes_back_as_it_is() -> None:
    """Neither names that look alike nor `eval` change that."""
    code = (
        "from servers.expenses import add_expense\n"
        "def list_expenses(start): return start\n"
        "def run(n):\n"
        "    params = {'start': 1, 'name': 2}\n"
        "    return list_expenses(start=1), add_expense(name='x', start='2')['name'], params['start'], locals()\n"
    )

    assert [migrate(code, plan) for plan in CHANGES.values()] == [Migration(code=code)] * len(CHANGES)


def test_a_plan_without_steps_changes_nothing() -> None:
    """Not even where the code would be refused."""
    assert migrate(f"{IMPORT}eval(x)\n", make_plan(BEFORE, BEFORE)) == Migration(code=f"{IMPORT}eval(x)\n")


@pytest.mark.parametrize(
    ("obstacle", "body", "refused"),
    [
        (Obstacle(side="tool", field="", reason="It is gone."), "list_expenses(u)", True),
        (Obstacle(side="tool", field="", reason="It is gone."), "pass", False),
        (Obstacle(side="input", field="start", reason="It changed."), "list_expenses(u)", False),
        (Obstacle(side="input", field="start", reason="It changed."), "list_expenses(u, u)", True),
        (Obstacle(side="input", field="start", reason="It changed."), "list_expenses(u, **n)", True),
        (Obstacle(side="input", field="start", reason="It changed."), "list_expenses(u, 'a text')", False),
        (Obstacle(side="input", field="start", reason="It changed."), "list_expenses(u, start=4)", True),
        (Obstacle(side="omitted", field="start", reason="It is required."), "list_expenses(u, start=u)", False),
        (Obstacle(side="omitted", field="start", reason="It is required."), "list_expenses(u)", True),
        (Obstacle(side="output", field="total", reason="It is gone."), "list_expenses(u)['items']", False),
        (Obstacle(side="output", field="total", reason="It is gone."), "list_expenses(u)['total']", True),
        (Obstacle(side="output", field="total", reason="It is gone."), "print(list_expenses(u))", True),
        (Obstacle(side="output", field="", reason="It changed."), "list_expenses(u)", True),
    ],
)
def test_a_change_without_an_answer_stops_only_code_that_it_hits(obstacle: Obstacle, body: str, refused: bool) -> None:
    """Code that does not give the parameter or read the field is not concerned."""
    names = signature_names(BEFORE)
    plan = Plan(before=BEFORE, after=BEFORE, obstacles=(obstacle,), names_before=names, names_after=names)

    migration = migrate(f"{IMPORT}def run(u, n):\n    {body}\n", plan)

    assert [refusal.line for refusal in migration.refusals] == [3] * refused


@pytest.mark.parametrize(
    ("form", "name", "refused"),
    [("function", None, True), ("function", "main", False), ("function", "rows", True), ("script", None, False)],
)
def test_only_the_skills_own_function_is_called_by_others(form: Any, name: str | None, refused: bool) -> None:
    """What a helper returns can be followed to those who call it."""
    code = (
        f"{IMPORT}def rows(u):\n    return list_expenses(u)['items']\n"
        "def main(u):\n    return [row['name'] for row in rows(u)]\n"
    )

    migration = migrate(code, CHANGES["f_name"], form=form, name=name)

    assert [refusal.line for refusal in migration.refusals] == [3] * refused


@pytest.mark.parametrize(
    ("before", "to", "body", "after"),
    [
        ({"type": "string"}, "number", "'2.5'", "2.5"),
        ({"type": "string"}, "number", "x", None),
        ({"type": "number"}, "string", "2.5", '"2.5"'),
        ({"type": "number"}, "string", "x", None),
        ({"type": "number"}, "integer", "2.0", "2"),
        ({"type": "number"}, "integer", "x", None),
        ({"type": "number"}, "integer", "2.5", None),
        ({"type": "boolean"}, "integer", "x", None),
        ({"type": "boolean"}, "string", "x", None),
        ({"type": "string"}, "boolean", "x", None),
        ({"type": "string"}, "boolean", "'true'", "True"),
        ({"type": "string", "enum": ["true", "false"]}, "boolean", "x", '(x) == "true"'),
        ({"type": "integer", "enum": [0, 1]}, "boolean", "x", None),
        (
            {"type": ["string", "null"]},
            "integer",
            "x",
            "None if x is None else int(x) if str(int(x)) == x else x",
        ),
        ({"type": "string"}, "integer", "'__PII_phone_3f9a1c20b7de__'", None),
        ({"type": "string"}, "integer", "[x]", None),
    ],
)
def test_a_retyped_scalar_is_converted_where_it_keeps_its_meaning(
    before: dict[str, Any], to: Any, body: str, after: str | None
) -> None:
    """A literal becomes another literal, an expression is wrapped, and what might lose something is refused."""
    old, new = make_spec({"a": before}, ("a",)), make_spec({"a": {"type": to}}, ("a",))
    names = {"a": "a"}
    plan = Plan(before=old, after=new, steps=(RetypeParameter(name="a", to=to),), names_before=names, names_after=names)
    code = f"{IMPORT}def run(x):\n    list_expenses(a={body})\n"

    migration = migrate(code, plan)

    assert bool(migration.refusals) == (after is None)
    assert migration.code == code.replace(f"a={body}", f"a={body if after is None else after}")


@pytest.mark.parametrize(
    ("before", "to", "value"),
    [
        *(({"type": "string"}, "integer", value) for value in ("7", "-3", "007", "1_000", " 7 ", "-0", "seven", "7.0")),
        *(({"type": "integer"}, "string", value) for value in (7, -3, 12.0)),
        *(({"type": "string", "enum": ["true", "false"]}, "boolean", value) for value in ("true", "false")),
    ],
)
@pytest.mark.parametrize("given", ["x", "(x or 1)"])
def test_a_retyped_variable_is_sent_as_a_translated_call_sends_it(
    before: dict[str, Any], to: Any, value: Any, given: str
) -> None:
    """Where the translation of a call refuses a value, the new code raises, or sends one that the new tool refuses."""
    old, new = make_spec({"a": before}, ("a",)), make_spec({"a": {"type": to}}, ("a",))
    names = {"a": "a"}
    plan = Plan(before=old, after=new, steps=(RetypeParameter(name="a", to=to),), names_before=names, names_after=names)
    try:
        expected = translate_arguments(plan, {"a": value})["a"]
    except Untranslatable:
        expected = "refused"

    migration = migrate(f"{IMPORT}def run(x):\n    return list_expenses(a={given})\n", plan)
    body = migration.code.partition("\n")[2]
    scope: dict[str, Any] = {"list_expenses": lambda a: a}
    exec(body, scope)
    try:
        sent = scope["run"](value)
    except ValueError:
        sent = "refused"
    if sent == value and isinstance(value, str):
        sent = "refused"  # the new tool takes no text

    assert migration.refusals == ()
    assert (sent, type(sent)) == (expected, type(expected))


@pytest.mark.parametrize("name", ["str", "int", "format"])
def test_a_conversion_is_refused_where_its_function_has_another_meaning(name: str) -> None:
    """Code may have a variable of the name of a built-in function."""
    before, to = ("integer", "string") if name == "format" else ("string", "integer")
    old = make_spec({"a": {"type": before}}, ("a",))
    step = RetypeParameter(name="a", to=to)  # type: ignore[arg-type]
    plan = Plan(before=old, after=old, steps=(step,), names_before={"a": "a"}, names_after={"a": "a"})

    assert len(migrate(f"{IMPORT}def run(x, {name}):\n    list_expenses(a=x)\n", plan).refusals) == 1


def test_the_difference_is_shown_as_a_unified_diff() -> None:
    """A text without a last line break is marked as such."""
    assert diff("a\nb\n", "a\nc", "totals") == (
        "--- totals (old)\n+++ totals (new)\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n"
    )
    assert diff("a\n", "a\n", "totals") == ""


@pytest.mark.parametrize(
    ("plan", "body", "expected"),
    [
        (CHANGES["all"], "list_expenses(u)['total']", "mechanical"),
        (CHANGES["all"], "list_expenses(u)", "needs a look"),
        (make_plan(BEFORE, None), "list_expenses(u)", "impossible"),
        (make_plan(BEFORE, None), "add_expense(u)", "mechanical"),
    ],
)
def test_the_difficulty_is_known_beforehand(plan: Plan, body: str, expected: str) -> None:
    """It is what the migration finds. Source: issue 5."""
    code = f"from servers.expenses import {body.partition('(')[0]}\ndef run(u):\n    return {body}\n"

    assert migrate(code, plan).difficulty == expected


HOSTILE = {
    "null byte": "x = 1\0",
    "half a surrogate pair": "x = '\ud800'",
    "no Python": "def",
    "too large": "#" * 300_000,
    "parentheses": "x = " + "(" * 5_000 + "1" + ")" * 5_000,
    "attributes": "x = a" + ".b" * 20_000,
    "sums": "x = 1" + "+1" * 20_000,
    "branches": "if a: pass\n" + "elif a: pass\n" * 20_000,
    "negations": "x = " + "not " * 20_000 + "1",
    "functions": "x = " + "lambda: " * 5_000 + "1",
    "statements": "x = list_expenses('1')\n" * 8_000,
    "mappings": "x = [" + "{'start': 1}," * 12_000 + "]\nfor q in x: list_expenses(**q)\n",
    "lists in lists": "x = list_expenses('1')\n" + "x = [x]\n" * 2_500,
    "calls of calls": "".join(f"def g{n}(a): return g{n + 1}(a)\n" for n in range(400)) + "g0(list_expenses('1'))\n",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in HOSTILE.items()])
def test_hostile_code_is_refused_and_nothing_else_happens(text: str) -> None:
    """Some of these overflow the stack of a parser, others would take hours to follow. Source: measured."""
    code = IMPORT + text

    migration = migrate(code, CHANGES["all"], form="script")

    assert (migration.code, len(migration.refusals) > 0) == (code, True)


LONG = {
    "conditions": "x = 1" + " and 1" * 15_000,
    "texts": "x = " + '"a" ' * 5_000,
    "loops in a list": "x = [1 " + "for a in b " * 5_000 + "]",
    "dotted import": "import a" + ".b" * 5_000,
    "formatted texts": "x = " + "f'{a}' " * 3_000,
    "one long line of odd letters": "len('é'); " * 3_000,
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in LONG.items()])
def test_long_but_flat_code_is_followed(text: str) -> None:
    """It costs time in proportion to its length, and nothing in it but the import changes."""
    before, after = "from servers.expenses import list_expenses\n", "from servers.expenses import fetch\n"

    migration = migrate(before + text, CHANGES["all"], form="script")

    assert (migration.code, migration.refusals) == (after + text, ())


@pytest.mark.parametrize(
    "code",
    [
        IMPORT + "x = list_expenses('1')\rx = 1\r",
        "# -*- coding: latin-1 -*-\n" + IMPORT + "x = 'é'\n",
        IMPORT + "\x0c\nx = list_expenses('1')['total']\n",
        IMPORT.replace("\n", "\r\n") + "x = list_expenses(\r\n    '1',\r\n)['total']\r\n",
        IMPORT + "for é in list_expenses('☃')['items']: print(é['name'])  # ☃",
        "if 1:\n\tfrom servers.expenses import list_expenses\n\tx = list_expenses('1',\n\t\tlimit=3)\n",
    ],
)
def test_odd_but_fine_code_is_migrated(code: str) -> None:
    """Encodings, form feeds, carriage returns, tabs and letters of all sorts."""
    assert outcome(code, CHANGES["all"], form="script") == "right"


PARTS = [
    "x = list_expenses(user_id, start='1')",
    "x = list_expenses(user_id='3', limit=4)",
    "x = call_tool('mcp__expenses__list_expenses', {'user_id': '1', 'start': '2'})",
    "rows = x['items']",
    "rows = sorted(rows, key=lambda r: r['name'])",
    "rows = [r for r in rows if r['name'] != 'b']",
    "rows = [dict(r, extra=1) for r in rows]",
    "rows = rows + list_expenses(user_id)['items']",
    "rows = [{'name': 'own', 'amount': 1, 'owner': {'name': 'me'}}]",
    "x = {'items': rows, 'total': 3, 'name': 'z'}",
    "x = dict(x)",
    "for r in rows: out.append(r['name'])",
    "for r in rows: out.append(r.get('owner', {}).get('name'))",
    "for r in rows: kept.append(r)",
    "out.append(x['total'])",
    "out.append(len(rows))",
    "rows = list(kept)",
    "out += [r['amount'] for r in kept]",
    "params = {'user_id': '5', 'limit': 2}",
    "params['start'] = '4'",
    "x = list_expenses(**params)",
    "f = list_expenses",
    "x = f(user_id, '9')",
    "if len(out) > 2:\n    rows = x['items']\nelse:\n    rows = []",
    "try:\n    x = list_expenses(user_id, start='8')\nexcept KeyError:\n    x = {'items': [], 'total': 0}",
    "key = 'name'",
    "out.append([r[key] for r in rows])",
    "out.append(key)",
    "print(rows)",
    "row = rows[0] if rows else {'name': 'none'}",
    "out.append(row['name'])",
    "def names(things):\n    return [thing['name'] for thing in things]",
    "out.append(names(rows))",
]
START = (
    f"{IMPORT}out, kept, key, rows, params, f = [], [], 'id', [], {{'user_id': '1'}}, list_expenses\n"
    "x, row = list_expenses('0'), {'name': 'nobody'}\n"
    "def names(things):\n    return len(things)\n"
)


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=14), st.sampled_from(sorted(CHANGES)))
def test_no_program_of_these_parts_is_migrated_wrongly(parts: list[str], change: str) -> None:
    """Any order, any change: the same calls, value and output as before, or a refusal."""
    code = "\n".join([START, *parts, "result = out", ""])
    try:
        run(code, [(BEFORE, ANSWER)])
    except (KeyError, TypeError, IndexError):
        return  # the program was wrong before

    assert outcome(code, CHANGES[change], form="script") in ("right", "refused")


def test_a_parameter_whose_value_is_dropped_from_a_mapping_goes_with_its_line() -> None:
    """A block that would be empty keeps `pass`."""
    plan = make_change(RemoveParameter(name="limit"), parameters={"user_id": TEXT, "start": TEXT})
    code = (
        f"{IMPORT}def run(u, n):\n    params = {{'user_id': u}}\n    params['limit'] = 4  # at most\n"
        "    if n:\n        params['limit'] = n\n    return list_expenses(**params)['total']\n"
    )

    assert migrate(code, plan).code == (
        f"{IMPORT}def run(u, n):\n    params = {{'user_id': u}}\n"
        "    if n:\n        pass\n    return list_expenses(**params)['total']\n"
    )


def test_a_field_in_the_values_of_any_key_is_followed() -> None:
    """`{}` in a path stands for a key that is data."""
    plan = make_change(RenameField(path="{}.name", after="title"))
    code = (
        f"{IMPORT}def run(u, k):\n    d = list_expenses(u)\n    return d[k]['name'], [v['name'] for v in d.values()]\n"
    )

    assert migrate(code, plan).code == code.replace("'name'", "'title'")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("list_expenses('1', start='2', limit=3, verbose=True)", "list_expenses('1')"),
        ("list_expenses(start='2', limit=3, verbose=True, user_id='1')", "list_expenses(user_id='1')"),
        ("list_expenses(start='2', user_id='1', limit=3, verbose=True,)", "list_expenses(user_id='1',)"),
        ("list_expenses('1', '2', 3, True)", "list_expenses('1')"),
        ("list_expenses('1',\n    start='2',\n    limit=3)", "list_expenses('1',\n    )"),
        ("list_expenses('1',\n    start='2', limit=3)", "list_expenses('1')"),
        ("list_expenses('1',  # who\n    start='2', limit=3)", "list_expenses('1',  # who\n     )"),
        (
            "list_expenses(\n    '1',\n    start='2',  # gone\n    # this too\n    limit=3,\n)",
            "list_expenses(\n    '1',\n    # this too\n)",
        ),
        (
            "list_expenses(**{'start': '2', 'user_id': '1', 'limit': 3, 'verbose': True})",
            "list_expenses(**{'user_id': '1'})",
        ),
    ],
)
def test_several_arguments_go_at_once(before: str, after: str) -> None:
    """Neighbours, with their commas, and comments that are not theirs stay."""
    gone = ("start", "limit", "verbose")
    plan = make_change(*(RemoveParameter(name=name) for name in gone), parameters={"user_id": TEXT})

    migrated = migrate(f"{IMPORT}x = {before}\n", plan, form="script").code

    assert migrated == f"{IMPORT}x = {after}\n"
