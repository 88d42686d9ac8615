"""Attacks on the analysis engine through its request: code in expressions, names, sizes, patterns and paths.

In this process, where an attack that works would be worst: nothing of Python may be reached, nothing outside the
working directory read or written, and every mistake is an `AnalysisError`. What the walls add is tested elsewhere.
"""

import ast
import builtins
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.analysis.guest import AnalysisError, run
from sealyard.analysis.guest.evaluation import FUNCTIONS
from sealyard.analysis.guest.limits import MAX_TEXT

ROW = {"x": 1, "s": "text", "__class__": "field", "o": {"__class__": {"__bases__": "nested"}}, "os": "a name"}


def never(tool: str, arguments: dict[str, Any]) -> Any:
    """Stands where a tool could be called: no attack may call one."""
    raise AssertionError(tool)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of an analysis, with a secret beside it."""
    (tmp_path / "secret.json").write_text('[{"secret": 1}]', encoding="utf-8")
    folder = tmp_path / "workspace"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def computed(expression: Any, row: dict[str, Any] | None = None) -> Any:
    """The value of an expression for one row."""
    request = {"analysis_type": "transform", "data": [row or ROW], "parameters": {"compute": {"result": expression}}}
    return run(request, never)["rows"][0]["result"]


ATTACKS = [
    "__import__('os').system('id')",
    "().__class__.__bases__[0].__subclasses__()",
    "''.__class__",
    "s.__class__.__mro__",
    "x.__init__.__globals__",
    "getattr(x, '__class__')",
    "open('/etc/passwd')",
    "eval('1')",
    "exec('1')",
    "compile('1', '', 'eval')",
    "globals()",
    "locals()",
    "vars()",
    "type(x)",
    "print(x)",
    "lambda: 1",
    "(lambda: x)()",
    "[a for a in s]",
    "{a for a in s}",
    "{'a': 1}",
    "(y := 5)",
    "x = y = 5; z",
    "x; import os",
    "import os",
    "f'{x.__class__}'",
    "'{0.__class__}'.format(x)",
    "s.format(x)",
    "'%s' % s",
    "s[0]",
    "s * 1000000000",
    "'a' * 10",
    "await x",
    "yield x",
    "*s",
    "x if",
    "abs.__call__(1)",
    "min.__self__",
    "len(s).real",
    "1 .real",
    "x @ x",
    "~x",
    "x << 100",
    "x >> 1",
    "x | 1",
    "x ^ 1",
    "...",
    "\\x41",
    "x\0",
    "x # comment",
    "print",
    "__builtins__",
    "x'; DROP TABLE rows; --",
    "\"; SELECT * FROM read_csv('/etc/passwd'); --",
    "(SELECT 1)",
    "CAST(x AS VARCHAR)",
    "x::VARCHAR",
    "getenv('HOME')",
    "read_text('/etc/passwd')",
    "${x}",
    "{{x}}",
    "v0 + v1",
    "if_else(true, 1, 2)",
    "in_list(1)",
    "x in in_list(1)",
    "if",
    "if + 1",
    "abs(x=1)",
    "abs(*s)",
    "abs(**o)",
    "abs(x for x in s)",
    "abs(x)(x)",
    "'abs'(x)",
    "[x]",
    "(x, x)",
    "x if (y := 5) else 1",
    "x in (y)",
    "x in 'text'",
    "x in (1) in (1)",
    "x is s",
    "f'{x}'",
    "b'x'",
    "0x10",
    "0b1",
    "1_000",
    "1j",
    "x\ud800",
    "x\u2028+ 1 ?",
    "\uff41bs(x)",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_code_in_an_expression_is_a_mistake_and_nothing_happens(attack: str) -> None:
    """Only fields, literals, operators and functions of the list exist; the rest is refused, not run."""
    with pytest.raises(AnalysisError):
        computed(attack)


@pytest.mark.behaviour("analysis.no_code")
def test_nothing_of_an_expression_reaches_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """While every attack is tried, Python evaluates, compiles, imports and opens nothing, and parses no text of it."""
    used: list[str] = []
    refused: list[str] = []
    parsed: list[str] = []
    compile_ = builtins.compile

    def only_parse(source: Any, filename: str, mode: str, flags: int = 0, **rest: Any) -> Any:
        if flags != ast.PyCF_ONLY_AST or mode != "eval":
            used.append("compile")
        parsed.append(source)
        return compile_(source, filename, mode, flags, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "compile", only_parse)
        for name in ("eval", "exec", "open", "__import__"):
            patch.setattr(builtins, name, lambda *_, name=name, **__: used.append(name))
        value = computed("concat(upper(s), x ** 2, o.__class__.__bases__)")
        for attack in ATTACKS:
            try:
                computed(attack)
            except AnalysisError:
                refused.append(attack)

    assert (value, used, refused) == ("TEXT1.0nested", [], ATTACKS)
    words = re.compile(r"v[0-9]+|and|or|not|in|is|if|else|if_else|in_list\(|[-+*/%<>=!()\[\],]+")
    assert len(parsed) > 10
    assert [each for source in parsed for each in source.split(" ") if each and not words.fullmatch(each)] == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("__class__", "field"),
        ("o.__class__.__bases__", "nested"),
        ("`__class__`", "field"),
        ("os", "a name"),
        ("o.__class__.missing", None),
    ],
)
def test_names_that_mean_something_to_python_are_names_of_fields(expression: str, expected: Any) -> None:
    """A dot goes into an object of the row, never into an object of Python."""
    row = ROW | {"o": {"__class__": {"__bases__": "nested", "missing": None}}}

    assert computed(expression, row) == expected


def test_a_path_into_what_is_no_object_is_null_and_never_an_attribute() -> None:
    """Text, numbers and lists have attributes in Python, and no fields here."""
    rows = [{"v": {"real": 1, "upper": 2}}, {"v": 5}, {"v": "text"}, {"v": [1]}]
    request = {"analysis_type": "filter", "data": rows, "parameters": {"fields": ["v.real", "v.upper"]}}

    assert run(request, never)["rows"] == [
        {"v.real": 1, "v.upper": 2},
        {"v.real": None, "v.upper": None},
        {"v.real": None, "v.upper": None},
        {"v.real": None, "v.upper": None},
    ]


NAMES = [
    'x"; DROP TABLE t; --',
    "x' OR '1'='1",
    "select",
    "rowid",
    "__class__",
    "*",
    "a`b",
    "a\\b",
    "a\nb",
    "{0}",
    "%s",
    "$1",
    "?",
    "..",
    "😀",
    "\u202e",
    "None",
    " ",
]


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_of_fields_are_names_everywhere(name: str) -> None:
    """In conditions, groups, sorts, joins, pivots, casts and between backticks, a name is a key of a row."""
    rows = [{name: 2, "v": 1}, {name: 1, "v": 2}]
    quoted = f"`{name.replace('`', '``')}`"

    def ask(kind: str, **parameters: Any) -> Any:
        return run({"analysis_type": kind, "data": rows, "parameters": parameters}, never)["rows"]

    assert ask("filter", conditions=[{"field": name, "operator": ">", "value": 1}], sort=[{"field": name}]) == rows[:1]
    assert ask("aggregate", group_by=[name], aggregations=[{"function": "max", "field": name, "as": "m"}]) == [
        {name: 2, "m": 2},
        {name: 1, "m": 1},
    ]
    assert ask("transform", compute={"r": f"{quoted} + v"}, output_fields=["r"]) == [{"r": 3}, {"r": 3}]
    assert ask("transform", cast={name: "str"}, rename={name: "n"}) == [{"n": "2", "v": 1}, {"n": "1", "v": 2}]
    assert ask("transform", join={"data": [{name: 1, "w": 5}], "on": name}) == [{name: 1, "v": 2, "w": 5}]
    assert ask("transform", pivot={"index": "v", "columns": name}) == [
        {"v": 1, "1": 0, "2": 1},
        {"v": 2, "1": 1, "2": 0},
    ]


@pytest.mark.parametrize("value", NAMES)
def test_odd_values_are_values_everywhere(value: str) -> None:
    """What a condition compares with is never part of anything that is run."""
    rows = [{"v": value}, {"v": "other"}]

    for condition in (
        {"field": "v", "operator": "==", "value": value},
        {"field": "v", "operator": "in", "value": [value]},
        {"field": "v", "operator": "contains", "value": value},
        {"field": "v", "operator": "starts_with", "value": value},
        {"not": {"field": "v", "operator": "!=", "value": value}},
    ):
        request = {"analysis_type": "filter", "data": rows, "parameters": {"conditions": [condition]}}
        assert run(request, never)["rows"] == rows[:1]


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 100_000,
        "(" * 60 + "1" + ")" * 60,
        "not " * 900 + "true",
        " + ".join(["1"] * 400),
        "1" + " ** 1" * 300,
        "if(true, " * 60 + "1" + ", 2)" * 60,
        "abs(" * 60 + "1" + ")" * 60,
        "x in [" + ",".join(["1"] * 1_500) + "]",
        "x if true else " * 100 + "x",
        "-" * 3_001 + "x",
        "-(" * 1_900 + "x" + ")" * 1_900,
        "x" + ".x(" * 900,
        "x < " * 1_000 + "x",
        "x[" * 1_000,
        "9" * 3_000,
        "9" * 3_000 + " ** " + "9" * 900,
        "1e" + "9" * 3_000,
        "'" + "a" * 5_000 + "'",
        "." * 3_000,
        "a" + ".a" * 1_500,
        "`" + "a" * 3_000,
    ],
)
def test_an_expression_that_is_too_large_is_refused_and_never_a_crash(expression: str) -> None:
    """Size, depth, number of parts and length of numbers are bounded."""
    with pytest.raises(AnalysisError):
        computed(expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("9 ** 9 ** 9 ** 9", None), ("10 ** 308 * 10", None), ("2 ** 10000", None), ("(0 - 1) ** 0.5", None)],
)
def test_a_huge_power_is_null_at_once(expression: str, expected: Any) -> None:
    """Powers are floats: no digits are ever computed that nobody can hold."""
    assert computed(expression) == expected


def test_whole_numbers_cannot_grow_without_end() -> None:
    """Multiplying again and again ends at 127 bits."""
    with pytest.raises(AnalysisError):
        computed(" * ".join(["99999999999999999999"] * 50))


@pytest.mark.parametrize(
    "expression",
    ["t + t", "concat(t, t)", "replace(t, 'a', t)", "replace(t, 'a', 'aa')", "upper(t + t)"],
)
def test_texts_cannot_grow_without_end(expression: str) -> None:
    """The length of a result is known before it is made."""
    with pytest.raises(AnalysisError):
        computed(expression, {"t": "a" * (MAX_TEXT - 1)})


def test_a_join_that_multiplies_rows_without_end_is_refused() -> None:
    """Three thousand equal keys on both sides would be nine million rows."""
    rows = [{"k": 1}] * 3_000
    request = {"analysis_type": "transform", "data": rows, "parameters": {"join": {"data": rows, "on": "k"}}}

    with pytest.raises(AnalysisError) as caught:
        run(request, never)

    assert str(caught.value) == "join makes more than 5000000 rows. Filter or aggregate before it."


@pytest.mark.parametrize("pattern", ["(", "[", "*", "(?P<n>a)(?P<n>b)", "a{99999999999}", "(?<=a+)b", "a" * 1_001])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    """Whatever the compiler of patterns raises is a mistake of the request."""
    conditions = [{"field": "s", "operator": "matches", "value": pattern}]

    with pytest.raises(AnalysisError):
        run({"analysis_type": "filter", "data": [ROW], "parameters": {"conditions": conditions}}, never)


def test_the_pattern_of_an_expression_is_a_literal() -> None:
    """A pattern out of the rows would be compiled for each of them."""
    with pytest.raises(AnalysisError):
        computed("matches(s, s)")


def test_conditions_nested_too_deeply_are_refused() -> None:
    """A tree of a thousand levels is a mistake, not a crash."""
    for wrap in (lambda inner: {"not": inner}, lambda inner: {"conditions": [inner]}, lambda inner: {"not": [inner]}):
        condition: Any = {"field": "x", "value": 1}
        for _ in range(1_000):
            condition = wrap(condition)
        with pytest.raises(AnalysisError):
            run({"analysis_type": "filter", "data": [ROW], "parameters": {"conditions": [condition]}}, never)


def test_rows_nested_too_deeply_are_refused() -> None:
    """Wherever the depth is met, it is named as such."""
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    deep = {
        "analysis_type": "aggregate",
        "data": [{"v": value}],
        "parameters": {"group_by": "v", "aggregations": "count"},
    }

    with pytest.raises(AnalysisError):
        run(deep, never)
    with pytest.raises(AnalysisError):
        run({"analysis_type": "filter", "data": "[" * 100_000}, never)


@pytest.mark.parametrize(
    "path",
    [
        "../secret.json",
        "sub/../../secret.json",
        "{parent}/secret.json",
        "link.json",
        "folder/secret.json",
        "/etc/passwd",
        "/proc/self/environ",
        "/proc/self/cwd/../secret.json",
        "/dev/zero",
        "pipe.json",
        "loop.json",
        "~/secret.json",
        "secret.json\0.json",
        "file:///etc/passwd",
        "http://localhost/x.json",
        "a" * 5_000,
        ".",
        "",
    ],
)
def test_a_path_outside_the_workspace_is_refused(workspace: Path, path: str) -> None:
    """Whatever a link or a name with dots leads to, only plain files below the working directory are read."""
    (workspace / "link.json").symlink_to("../secret.json")
    (workspace / "folder").symlink_to("..")
    (workspace / "loop.json").symlink_to("loop.json")
    os.mkfifo(workspace / "pipe.json")
    request = {
        "analysis_type": "filter",
        "source": {"workspace": path.replace("{parent}", str(workspace.parent)), "format": "json"},
    }

    with pytest.raises(AnalysisError) as caught:
        run(request, never)

    assert 'secret": 1' not in str(caught.value)


def test_names_of_files_outside_are_not_told(workspace: Path) -> None:
    """A message lists what is beside a file that is not there, within the working directory only."""
    for path in ("../secre.json", "folder/secre.json"):
        (workspace / "folder").unlink(missing_ok=True)
        (workspace / "folder").symlink_to("..")
        with pytest.raises(AnalysisError) as caught:
            run({"analysis_type": "filter", "source": {"workspace": path}}, never)
        assert "secret" not in str(caught.value)


def test_results_are_never_written_over_a_file_or_through_a_link_to_one(workspace: Path) -> None:
    """A file of the next name, planted as a link to another, is left alone."""
    (workspace / "results").mkdir()
    (workspace / "results" / "filter-1.jsonl").symlink_to("../../planted.jsonl")
    (workspace / "results" / "filter-2.jsonl").write_text("kept", encoding="utf-8")

    answer = run({"analysis_type": "filter", "data": [ROW], "limits": {"rows": 0}}, never)

    assert answer["file"] == "results/filter-3.jsonl"
    assert not (workspace.parent / "planted.jsonl").exists()
    assert (workspace / "results" / "filter-2.jsonl").read_text(encoding="utf-8") == "kept"


def test_a_request_never_calls_a_tool_that_it_does_not_name() -> None:
    """The name of a tool is a value: it is handed on as it is."""
    called: list[tuple[str, dict[str, Any]]] = []

    def call_tool(tool: str, arguments: dict[str, Any]) -> Any:
        called.append((tool, arguments))
        return []

    run({"analysis_type": "filter", "source": {"tool": "a.b'; drop", "arguments": {"__proto__": "{0}"}}}, call_tool)

    assert called == [("a.b'; drop", {"__proto__": "{0}"})]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    "conditions logic fields sort limit offset distinct join compute group_by aggregations having steps select drop "
    "rename cast flatten explode pivot unpivot output_fields data_field field operator value not expression function "
    "as on how data source workspace tool arguments index columns values".split()
)
PARAMETERS = st.recursive(
    JSON, lambda inner: st.dictionaries(KEYS, inner, max_size=4) | st.lists(inner, max_size=3), max_leaves=8
)


@given(st.sampled_from(["filter", "aggregate", "transform"]), st.dictionaries(KEYS, PARAMETERS, max_size=4), JSON)
def test_any_request_has_an_answer_or_is_a_mistake(kind: str, parameters: dict[str, Any], data: Any) -> None:
    """Whatever JSON stands where, nothing but `AnalysisError` comes out, and an answer is JSON."""
    request = {"analysis_type": kind, "data": data, "parameters": parameters, "limits": {"rows": 10**6, "bytes": 10**9}}
    try:
        answer = run(request, lambda tool, arguments: [])
    except AnalysisError as error:
        answer = {"message": str(error)}

    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


ODD = JSON | st.sampled_from(
    [10**400, -(10**30), 1e308, -0.0, "\ud800", "2025-02-30", "9" * 5_000, "1e999", "", "0x10"]
)
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("filter", {"conditions": f"a {sign} b or a {sign} 1 or a {sign} 'x'", "sort": ["-a", "b"]})
    for sign in ("<", "<=", ">", ">=", "==", "!=")
]
REQUESTS += [
    ("filter", {"conditions": [{"field": "a", "operator": "contains", "value": 1}], "distinct": True}),
    ("filter", {"conditions": [{"field": "a.b", "operator": "in", "value": [1, True, None, "x"]}]}),
    ("filter", {"conditions": "matches(a, '[0-9]') or contains(a, b) or starts_with(a, b)", "fields": ["b", "a.x"]}),
]
REQUESTS += [("transform", {"compute": {"r": f"a {sign} b"}}) for sign in ("+", "-", "*", "/", "//", "%", "**")]
REQUESTS += [
    ("transform", {"compute": {"r": f"{name}({', '.join(['a', 'b', 'a'][:count])})"}})
    for name, (least, most, *_) in FUNCTIONS.items()
    for count in range(least, (most or 3) + 1)
    if name != "matches"
]
REQUESTS += [("transform", {"cast": {"a": kind}}) for kind in ("int", "float", "str", "bool", "date", "datetime")]
REQUESTS += [
    ("transform", {"pivot": {"index": "a", "columns": "b"}}),
    ("transform", {"pivot": {"index": "a", "columns": "b", "values": "a", "function": "sum"}}),
    ("transform", {"unpivot": {"index": ["a"]}, "distinct": ["value"]}),
    ("transform", {"flatten": True}),
    ("transform", {"explode": "a", "sort": "a"}),
    ("transform", {"join": {"data": [{"a": 1, "c": 2}, {"a": None}], "on": "a", "how": "outer"}}),
    ("aggregate", {"group_by": ["a", "b"], "aggregations": ["count", "distinct(a)", "min(b)", "max(a)", "last(a)"]}),
]
REQUESTS += [
    ("aggregate", {"group_by": "b", "aggregations": f"{name}(a)"})
    for name in ("sum", "mean", "median", "std", "variance", "p95", "min", "max")
]


@given(st.sampled_from(REQUESTS), st.lists(st.fixed_dictionaries({}, optional={"a": ODD, "b": ODD}), max_size=5))
def test_any_rows_have_an_answer_or_are_a_mistake(asked: tuple[str, dict[str, Any]], rows: list[Any]) -> None:
    """Whatever values stand in the fields, nothing but `AnalysisError` comes out, and an answer is JSON."""
    kind, parameters = asked
    limits = {"rows": 10**6, "bytes": 10**9}
    try:
        answer = run({"analysis_type": kind, "data": rows, "parameters": parameters, "limits": limits}, never)
    except AnalysisError as error:
        answer = {"message": str(error)}

    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
