"""The engine for large files gives the answers of the Python engine, or leaves the work to it."""

import contextlib
import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sealyard.analysis.guest import AnalysisError, duck, run
from sealyard.analysis.guest.duck import LEAST_BYTES, Started, begin, read_parquet
from sealyard.analysis.guest.duck_sql import JsonFile, Query, Unsupported, numbered
from sealyard.analysis.guest.plan import (
    Aggregate,
    AllOf,
    AnyOf,
    Arithmetic,
    Call,
    Choice,
    Comparison,
    ComparisonOperator,
    Constant,
    Expression,
    Field,
    FileFormat,
    Function,
    Group,
    Membership,
    Negative,
    Not,
    Output,
    Row,
    Slice,
    Sort,
    SortKey,
    Where,
    WorkspaceFile,
)
from sealyard.analysis.guest.sources import read_rows
from sealyard.analysis.guest.steps import STEPS, run_steps, where
from sealyard.analysis.guest.tables import Step, Table

NAMES = ("n", "whole", "x", "t", "flag", "in.a", "odd")
TEXTS = ("", "a", "B", "ab", "é", "😀", "Z\x00", "10", "a'b\"; --", "\\", " a", "null", "%")
NUMBERS = (0, 1, -1, 2, 3, 2**53, 2**53 + 1, -(2**63), 2**63 - 1, 0.5, -0.0, 1.0, 2.5, 1e-7, 1e300, -1e300, 10**25)

wholes = st.integers(-5, 5) | st.sampled_from((2**53, 2**53 + 1, -(2**63), 2**63 - 1))
floats = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from((0.0, -0.0, 0.1, 2.5, 1e300))
texts = st.sampled_from(TEXTS) | st.text(st.characters(codec="utf-8"), max_size=4)
anything = st.recursive(
    st.none() | st.booleans() | wholes | floats | texts | st.just(10**25),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("a", "b")), inner, max_size=2),
    max_leaves=3,
)
literals = st.none() | st.booleans() | st.sampled_from(NUMBERS) | texts


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly a value, now and then null."""
    return st.one_of(values, values, values, st.none())


FIELDS = {
    "n": maybe(st.integers(-5, 5)),
    "whole": maybe(wholes),
    "x": maybe(floats),
    "t": maybe(texts),
    "flag": maybe(st.booleans()),
    "in": maybe(st.fixed_dictionaries({}, optional={"a": maybe(st.integers(0, 3) | st.just(2.5))})),
    "odd": anything,
}
objects = st.fixed_dictionaries(FIELDS) | st.fixed_dictionaries({}, optional=FIELDS)
rows_of_kinds = st.lists(objects, min_size=1, max_size=12)


def expressions(depth: int) -> st.SearchStrategy[Expression]:
    """Trees of every kind of part, of any sense."""
    fields = st.sampled_from(NAMES).map(Field)
    leaves: st.SearchStrategy[Any] = fields | fields | literals.map(Constant)
    if not depth:
        return leaves
    inner = expressions(depth - 1)
    several = st.lists(inner, max_size=2).map(tuple)
    return st.one_of(
        leaves,
        comparisons(inner),
        comparisons(inner),
        st.builds(Membership, inner, st.lists(literals, max_size=4).map(tuple)),
        st.builds(AllOf, several),
        st.builds(AnyOf, several),
        st.builds(Not, inner),
        st.builds(Negative, inner),
        st.builds(Arithmetic, st.sampled_from(("+", "-", "*", "/", "//", "%", "**")), inner, inner),
        st.builds(Choice, inner, inner, inner),
        st.builds(Call, st.sampled_from(("contains", "starts_with", "ends_with")), st.tuples(inner, inner)),
        st.builds(Call, st.sampled_from(("is_null", "abs", "len", "lower", "coalesce")), st.tuples(inner)),
        st.builds(Call, st.just("coalesce"), st.tuples(inner, inner)),
        st.builds(Call, st.just("matches"), st.tuples(fields, st.sampled_from(("a", "^$")).map(Constant))),
    )


def comparisons(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """Any two expressions compared."""
    return st.builds(Comparison, st.sampled_from(get_args(ComparisonOperator)), inner, inner)


OF_KIND: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-5, 5) | st.sampled_from((0.5, 2.0)),
    "whole": wholes | st.sampled_from((2.0**53, 1.5)),
    "x": floats | st.integers(-2, 2),
    "t": texts,
    "flag": st.booleans(),
    "in.a": st.integers(0, 3),
}
sensible = st.sampled_from(sorted(OF_KIND)).flatmap(
    lambda name: st.one_of(
        st.builds(
            Comparison,
            st.sampled_from(get_args(ComparisonOperator)),
            st.just(Field(name)),
            (OF_KIND[name] | st.none()).map(Constant),
        ),
        st.builds(
            lambda options: Membership(Field(name), tuple(options)), st.lists(OF_KIND[name] | st.none(), max_size=4)
        ),
    )
)
conditions = st.one_of(
    sensible,
    sensible,
    st.builds(lambda parts: AllOf(tuple(parts)), st.lists(sensible, min_size=1, max_size=3)),
    st.builds(lambda parts: AnyOf(tuple(parts)), st.lists(sensible, min_size=1, max_size=3)),
    sensible.map(Not),
    comparisons(expressions(1)),
    expressions(2),
)
wheres = st.builds(lambda condition: Where(at="conditions", condition=condition), conditions)
aggregates = st.builds(
    lambda number, function, value, rank: Aggregate(
        name=f"v{number}",
        function=function,
        value=None if function == "count" and rank == 50 else value,
        percentile=rank if function == "percentile" else None,
        at=f"aggregations[{number}]",
    ),
    st.integers(0, 9),
    st.sampled_from(get_args(Function)),
    st.sampled_from(("n", "whole", "x", "t")).map(Field) | expressions(1),
    st.sampled_from((0.0, 12.5, 50.0, 95.0, 100.0)),
)
groups = st.builds(
    lambda keys, made: Group(
        at="group",
        keys=tuple(Output(name=f"k{place}", field=Field(name)) for place, name in enumerate(keys)),
        aggregates=tuple({aggregate.name: aggregate for aggregate in made}.values()),
    ),
    st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
    st.lists(aggregates, min_size=1, max_size=4),
)
sorts = st.builds(
    lambda keys: Sort(at="sort", keys=tuple(SortKey(field=Field(name), descending=down) for name, down in keys)),
    st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), min_size=1, max_size=2),
)
slices = st.builds(
    lambda offset, limit: Slice(at="limit", offset=offset, limit=limit),
    st.integers(0, 3),
    st.none() | st.integers(0, 5),
)
selects = st.builds(
    lambda names: STEPS["select"](names, "fields"),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True),
)
plans = st.one_of(
    st.lists(wheres, min_size=1, max_size=2),
    st.tuples(groups),
    st.tuples(wheres, groups),
    st.tuples(wheres, sorts, slices),
    st.tuples(sorts, slices, selects),
    st.tuples(wheres, selects, slices),
    st.lists(st.one_of(wheres, sorts, slices, selects, groups), min_size=1, max_size=4),
).map(tuple)


def call_nothing(tool: str, arguments: dict[str, Any]) -> Any:
    """No plan here asks for a tool."""
    raise AssertionError(tool)


def by_python(file: Path, kind: FileFormat, steps: tuple[Step, ...]) -> tuple[int, list[Row], list[str]] | str:
    """Rows in, rows out and notes of the Python engine, or its message."""
    try:
        rows = read_rows(WorkspaceFile(at="source", path=file.name, format=kind), call_nothing)
        return len(rows), *run_steps(steps, Table(rows), call_nothing)
    except AnalysisError as error:
        return str(error)


def by_duckdb(file: Path, kind: FileFormat, steps: tuple[Step, ...]) -> tuple[int, list[Row], list[str]] | None:
    """The same with DuckDB for the first steps; None where the Python engine has to do it all."""
    begun = begin(str(file), kind, steps, least_bytes=0)
    if begun is None:
        return None
    try:
        return begun.rows_in, *run_steps(begun.steps, Table(begun.rows, begun.before), call_nothing)
    except AnalysisError:
        return None


def alike(left: Any, right: Any) -> bool:
    """Equal, but for the last digits of floats, and for the form of a whole float."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(alike, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(map(alike, left.values(), right.values()))
    return type(left) is type(right) and left == right


def check(file: Path, kind: FileFormat, steps: tuple[Step, ...]) -> None:
    """Both engines agree on this file, if DuckDB takes it."""
    found = by_duckdb(file, kind, steps)
    if found is not None:
        expected = by_python(file, kind, steps)
        assert not isinstance(expected, str), expected
        assert (found[0], found[2]) == (expected[0], expected[2])
        assert alike(found[1], expected[1]), (found[1], expected[1])


@pytest.fixture(autouse=True)
def workspace(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of the test's own, where the engines look for files."""
    folder = tmp_path_factory.mktemp("workspace")
    monkeypatch.chdir(folder)
    return folder


@settings(max_examples=60)
@given(rows=rows_of_kinds, steps=plans, lines=st.booleans())
@example(
    rows=[{"n": 1}, {"n": None}, {}],
    steps=(Where(at="", condition=Not(Comparison("==", Field("n"), Constant(1)))),),
    lines=True,
)
def test_duckdb_gives_the_answers_of_python_for_json(rows: list[Row], steps: tuple[Step, ...], lines: bool) -> None:
    """Any rows, any plan: the same rows, counts and notes, or nothing."""
    file = Path("rows.jsonl" if lines else "rows.json")
    text = "\n".join(map(json.dumps, rows)) if lines else json.dumps(rows)
    file.write_text(text, encoding="utf-8")

    check(file.resolve(), "jsonl" if lines else "json", steps)


cells = st.sampled_from(
    (
        "",
        "0",
        "7",
        "-3",
        "+4",
        " 5 ",
        "007",
        "1.5",
        ".5",
        "5.",
        "1e3",
        "1e400",
        "true",
        "False",
        "x",
        "NULL",
        "é",
        "1_0",
    )
) | st.text(st.characters(exclude_characters='",\r\n\x00', codec="utf-8"), max_size=3)
tables = st.lists(
    st.tuples(
        st.integers(-9, 9).map(str) | st.just(""),
        st.sampled_from(("0", "12", "-3", str(2**53), "")),
        st.sampled_from(("0.5", "1", "2e3", "-.25", "", "7.")),
        cells,
        st.sampled_from(("true", "FALSE", "")),
        cells,
        cells,
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=40)
@given(table=tables, steps=plans, delimiter=st.sampled_from(",;\t|"), ending=st.sampled_from(("\n", "\r\n")))
def test_duckdb_gives_the_answers_of_python_for_csv(
    table: list[tuple[str, ...]], steps: tuple[Step, ...], delimiter: str, ending: str
) -> None:
    """The kinds of columns too, which both find by the forms of all cells."""
    file = Path("rows.csv")
    with file.open("w", encoding="utf-8", newline="") as stream:
        stream.writelines(delimiter.join(record) + ending for record in (NAMES, *table))

    check(file.resolve(), "csv", steps)


@settings(max_examples=30)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "n": maybe(st.integers(-5, 5)),
                "whole": maybe(wholes),
                "x": maybe(floats),
                "t": maybe(texts),
                "flag": maybe(st.booleans()),
            }
        ),
        min_size=1,
        max_size=8,
    ),
    steps=plans,
)
def test_duckdb_gives_the_answers_of_python_for_parquet(rows: list[Row], steps: tuple[Step, ...]) -> None:
    """Python has the rows from DuckDB, and does the steps itself."""
    file = write_parquet(rows)

    check(file, "parquet", steps)


def write_parquet(rows: list[Row]) -> Path:
    """A Parquet file of these columns."""
    file = Path("rows.parquet").resolve()
    with duckdb.connect(":memory:") as connection:
        connection.execute(
            'CREATE TABLE t (n INTEGER, whole BIGINT, x DOUBLE, t VARCHAR, flag BOOLEAN, "in.a" DATE, odd INTEGER[])'
        )
        for row in rows:
            values = [row[name] for name in ("n", "whole", "x", "t", "flag")]
            connection.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?, DATE '2024-02-29', [1, NULL])", values)
        connection.execute(f"COPY t TO '{file}' (FORMAT parquet)")
    return file


WHERE = Where(at="conditions", condition=Comparison(">", Field("n"), Constant(1)))
COUNT = Aggregate(name="count", function="count")
BY_T = Group(at="group", keys=(Output(name="t", field=Field("t")),), aggregates=(COUNT,))
SORT = Sort(at="sort", keys=(SortKey(field=Field("n"), descending=True),))
FIRST = Slice(at="limit", limit=1)
MATCHES = Where(at="conditions", condition=Call("matches", (Field("t"), Constant("^a"))))
BOTH = Where(at="conditions", condition=AllOf((WHERE.condition, MATCHES.condition)))
LEFT = Where(at="conditions", condition=AllOf((MATCHES.condition,)), is_rest=True)
LOWER = Comparison("==", Call("lower", (Field("t"),)), Constant("a"))
RISKY = Where(at="conditions", condition=AllOf((WHERE.condition, LOWER, WHERE.condition)))
LATER = Where(at="conditions", condition=AllOf((LOWER, WHERE.condition)), is_rest=True)
SELECT = STEPS["select"](["t"], "fields")
ROWS: list[Row] = [{"n": 1, "t": "b"}, {"n": 3, "t": "a"}, {"n": 2, "t": "b"}, {"t": "a"}]

TAKEN: dict[str, tuple[tuple[Step, ...], list[Row], tuple[Step, ...]]] = {
    "condition": ((WHERE,), [ROWS[1], ROWS[2]], ()),
    "condition and what follows": ((WHERE, SELECT), [ROWS[1], ROWS[2]], (SELECT,)),
    "conditions before a pattern": ((BOTH, FIRST), [ROWS[1], ROWS[2]], (LEFT, FIRST)),
    "conditions up to one that may fail": ((RISKY, FIRST), [ROWS[1], ROWS[2]], (LATER, FIRST)),
    "groups in the order of their first rows": ((BY_T,), [{"t": "b", "count": 2}, {"t": "a", "count": 2}], ()),
    "condition and groups": ((WHERE, BY_T, FIRST), [{"t": "a", "count": 1}, {"t": "b", "count": 1}], (FIRST,)),
    "first in an order": ((SORT, FIRST, SELECT), [ROWS[1]], (SELECT,)),
    "condition and order": ((WHERE, SORT), [ROWS[1], ROWS[2]], (SORT,)),
    "limit": ((FIRST,), [ROWS[0]], ()),
    "no row that could": ((Where(at="c", condition=Comparison(">", Field("n"), Constant(9))),), [], ()),
}


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv"])
@pytest.mark.parametrize("name", TAKEN)
def test_first_steps_are_done_by_duckdb(name: str, kind: FileFormat) -> None:
    """As many as it can: the rest is left for Python, with the rows that are needed for it."""
    steps, rows, left = TAKEN[name]
    texts = {
        "json": json.dumps(ROWS),
        "jsonl": "\n".join(map(json.dumps, ROWS)),
        "csv": "n,t\n" + "".join(f"{row.get('n', '')},{row['t']}\n" for row in ROWS),
    }
    file = Path(f"rows.{kind}")
    file.write_text(texts[kind], encoding="utf-8")
    if kind == "csv":
        rows = [{"n": None} | row if row == ROWS[3] else row for row in rows]

    assert begin(str(file), kind, steps, least_bytes=0) == Started(rows, [], len(ROWS), left)


LEFT_ALONE: dict[str, tuple[FileFormat, str, tuple[Step, ...]]] = {
    "no step it does": ("jsonl", '{"n": 2}', (SELECT,)),
    "order without a limit": ("jsonl", '{"n": 2}', (SORT,)),
    "field of two kinds": ("jsonl", '{"n": 2}\n{"n": "2"}', (WHERE,)),
    "field of lists": ("jsonl", '{"n": [2]}', (WHERE,)),
    "field that no row has": ("jsonl", '{"m": 2}', (WHERE,)),
    "field that is null in all rows": ("jsonl", '{"n": null}', (WHERE,)),
    "key that stands twice": ("jsonl", '{"n": 2, "n": 0}', (WHERE,)),
    "key that stands twice further in": (
        "jsonl",
        '{"a": {"b": 2, "b": 0}}',
        (Where(at="c", condition=Comparison(">", Field("a.b"), Constant(1))),),
    ),
    "number of many digits": ("jsonl", '{"n": 123456789012345678901234567890}', (WHERE,)),
    "number that no float holds": ("jsonl", '{"n": 1e999}\n{"n": 2.5}', (WHERE,)),
    "number that no float is": (
        "jsonl",
        '{"n": 9007199254740993}',
        (Where(at="c", condition=Comparison("==", Field("n"), Constant(2.0**53))),),
    ),
    "no number": ("jsonl", '{"n": NaN}\n{"n": 2.5}', (WHERE,)),
    "row that is no object": ("json", '[{"n": 2}, null]', (WHERE,)),
    "list within an object": ("json", '{"rows": [{"n": 2}]}', (WHERE,)),
    "no JSON": ("jsonl", '{"n": 2', (WHERE,)),
    "half a pair": ("jsonl", '{"n": 2, "t": "\\ud800"}', (WHERE,)),
    "name with a dot": (
        "jsonl",
        '{"a.b": null}\n{"a": {"b": 2}}',
        (Where(at="c", condition=Comparison(">", Field("a.b"), Constant(1))),),
    ),
    "comparison that can never hold": (
        "jsonl",
        '{"n": 2}',
        (Where(at="c", condition=Comparison("==", Field("n"), Constant("2"))),),
    ),
    "no row, and a later field": (
        "jsonl",
        '{"n": 2}',
        (Where(at="c", condition=Comparison(">", Field("n"), Constant(9))), SELECT),
    ),
    "sum that runs over": (
        "jsonl",
        '{"n": 1e308}\n' * 9,
        (Group(at="g", keys=(), aggregates=(Aggregate(name="s", function="sum", value=Field("n")),)),),
    ),
    "quotes": ("csv", 'n,t\n2,"a"\n', (WHERE,)),
    "lines of two endings": ("csv", "n,t\r\n2,a\n", (WHERE,)),
    "one column": ("csv", "n\n2\n", (WHERE,)),
    "ragged lines": ("csv", "n,t\n2\n", (WHERE,)),
    "column of one name twice": ("csv", "n,n\n2,3\n", (WHERE,)),
    "no Parquet": ("parquet", "n,t\n2,3\n", (WHERE,)),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_duckdb_would_answer_otherwise_is_left_to_python(name: str) -> None:
    """Because it would be another answer, or because Python's message is the better one."""
    kind, text, steps = LEFT_ALONE[name]
    Path("rows").write_text(text, encoding="utf-8")

    assert by_duckdb(Path("rows"), kind, steps) is None


def test_a_filter_that_no_row_meets_is_done_by_duckdb_if_its_file_has_the_fields() -> None:
    """A row of the file shows that the names of the steps after it are right."""
    Path("rows").write_text('{"n": 2, "t": "a"}', encoding="utf-8")
    steps = (Where(at="c", condition=Comparison(">", Field("n"), Constant(9))), SELECT)

    begun = begin("rows", "jsonl", steps, least_bytes=0)

    assert begun == Started([], [{"n": 2, "t": "a"}], 1, (SELECT,))
    assert by_duckdb(Path("rows"), "jsonl", steps) == (1, [], [])


def test_a_pattern_that_leaves_no_row_is_explained_from_all_rows() -> None:
    """DuckDB keeps the rows above 1, and the mistake of comparing text with a number shows in all rows only."""
    Path("rows").write_text('{"n": 2, "t": null}\n{"n": 1, "t": "a"}', encoding="utf-8")
    never = Comparison("==", Call("lower", (Field("t"),)), Constant("b"))
    steps = (Where(at="c", condition=AllOf((WHERE.condition, never, Comparison(">", Field("t"), Constant(1))))),)

    assert begin("rows", "jsonl", steps, least_bytes=0) is not None
    assert by_duckdb(Path("rows"), "jsonl", steps) is None


def test_small_file_is_left_to_python() -> None:
    """The threshold is where DuckDB's start is paid back."""
    line = b'{"n": 2, "t": "a"}\n'
    Path("rows.jsonl").write_bytes(line * (LEAST_BYTES // len(line)))
    small = begin("rows.jsonl", "jsonl", (WHERE,))
    Path("rows.jsonl").write_bytes(line * (LEAST_BYTES // len(line) + 1))

    large = begin("rows.jsonl", "jsonl", (WHERE, BY_T))

    assert (small, large) == (
        None,
        Started([{"t": "a", "count": LEAST_BYTES // len(line) + 1}], [], LEAST_BYTES // len(line) + 1, ()),
    )


def test_answer_says_which_engine_gave_it() -> None:
    """The same request over the same rows, in a large and in a small file."""
    rows: list[Row] = [{"n": number % 7, "t": "ab"[number % 2], "pad": "x" * 80} for number in range(60_000)]
    Path("large.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    Path("small.jsonl").write_text("\n".join(map(json.dumps, rows[:700])), encoding="utf-8")
    parameters = {
        "conditions": [{"field": "n", "operator": ">=", "value": 5}],
        "group_by": ["t"],
        "aggregations": [{"function": "sum", "field": "n", "as": "sum"}],
        "having": [{"field": "sum", "operator": ">", "value": 0}],
        "sort": [{"field": "sum"}, {"field": "t"}],
    }

    answers = [
        run(
            {"analysis_type": "aggregate", "source": {"workspace": name}, "parameters": parameters},
            call_nothing,
        )
        for name in ("large.jsonl", "small.jsonl")
    ]

    sums = {t: sum(row["n"] for row in rows if row["t"] == t and row["n"] >= 5) for t in "ab"}
    assert answers == [
        {
            "rows_in": 60_000,
            "rows_out": 2,
            "rows": sorted(
                ({"t": t, "sum": total} for t, total in sums.items()), key=lambda row: (row["sum"], row["t"])
            ),
            "engine": "duckdb",
        },
        {"rows_in": 700, "rows_out": 2, "rows": [{"t": "a", "sum": 550}, {"t": "b", "sum": 550}], "engine": "python"},
    ]


def test_parquet_values_are_those_of_json() -> None:
    """Moments are ISO text, decimals floats, bytes base64; what is not finite is null."""
    file = Path("types.parquet").resolve()
    with duckdb.connect(":memory:") as connection:
        connection.execute(
            f"""
            COPY (SELECT 7::TINYINT AS small, 2::UBIGINT AS big, 1.25::DECIMAL(9, 2) AS money, 'nan'::DOUBLE AS none,
                'é' AS t, TRUE AS flag, NULL::INTEGER AS missing, DATE '2024-02-29' AS day, TIME '12:30:00' AS clock,
                TIMESTAMP '2024-02-29 12:30:00.5' AS moment, [1, NULL] AS list, {{'a': 1.5}} AS object,
                MAP {{'k': 2}} AS map, 'ab'::BLOB AS bytes,
                '5f0c3a5e-0000-4000-8000-000000000001'::UUID AS id) TO '{file}' (FORMAT parquet)
            """
        )

    assert read_parquet(str(file)) == [
        {
            "small": 7,
            "big": 2,
            "money": 1.25,
            "none": None,
            "t": "é",
            "flag": True,
            "missing": None,
            "day": "2024-02-29",
            "clock": "12:30:00",
            "moment": "2024-02-29T12:30:00.5",
            "list": [1, None],
            "object": {"a": 1.5},
            "map": {"k": 2},
            "bytes": "YWI=",
            "id": "5f0c3a5e-0000-4000-8000-000000000001",
        }
    ]


def test_moments_with_a_zone_are_read_from_parquet() -> None:
    """In UTC, whatever zone they were written in; most other writers of Parquet give every moment a zone."""
    file = Path("zones.parquet").resolve()
    with duckdb.connect(":memory:") as connection:
        connection.execute(
            f"""
            COPY (SELECT 1 AS n, TIMESTAMPTZ '2024-02-29 12:30:00.5+02' AS moment,
                {{'at': [TIMESTAMPTZ '2024-02-29 12:30:00+02'], 'x': 'nan'::DOUBLE}} AS inner
                UNION ALL SELECT 2, NULL, NULL) TO '{file}' (FORMAT parquet)
            """
        )

    first, second = read_parquet(str(file))
    (at,) = first["inner"].pop("at")
    assert (first, second) == (
        {"n": 1, "moment": "2024-02-29T10:30:00.5+00:00", "inner": {"x": None}},
        {"n": 2, "moment": None, "inner": None},
    )
    assert datetime.fromisoformat(at) == datetime(2024, 2, 29, 10, 30, tzinfo=UTC)
    begun = begin(str(file), "parquet", (Where(at="", condition=Comparison("==", Field("n"), Constant(2))),))
    assert begun is not None
    assert begun.rows == [second]


def test_broken_parquet_is_named() -> None:
    """Without the words of DuckDB, which may quote the file."""
    Path("rows.parquet").write_bytes(b"PAR1 secret PAR1")

    with pytest.raises(AnalysisError) as caught:
        read_parquet("rows.parquet")

    assert str(caught.value) == "'rows.parquet' cannot be read as a Parquet file. Write it anew."


MATRIX: list[Row] = [
    {"place": 1, "n": 0, "m": 0, "x": -0.0, "y": 0.5, "t": "", "u": "a", "flag": True, "on": False},
    {"place": 2, "n": 1, "m": 2, "x": 1.0, "y": 1, "t": "a", "u": "a", "flag": False, "on": False},
    {"place": 4, "n": -3, "m": -3, "x": 2.5, "y": -3, "t": "ab", "u": "b", "flag": True, "on": True},
    {"place": 8, "n": None, "m": None, "x": None, "y": None, "t": None, "u": None, "flag": None, "on": None},
    {"place": 16, "n": 2, "m": None, "x": 1e30, "y": None, "t": "é", "u": None, "flag": None, "on": True},
    {"place": 32, "m": 2, "y": 7.25, "u": "😀", "on": None},
    {"place": 64, "n": 2, "m": 2, "x": 0.5, "y": 0.5, "t": "B", "u": "B", "flag": False, "on": False},
]
VALUES = (None, True, False, 0, 1, 2, 2.0, 2.5, -3, 1e30, "", "a", "B", "é", "1")


def test_every_condition_holds_for_the_same_rows() -> None:
    """Each operator between a field and values of every kind, and its opposite: SQL gives the rows that Python does."""
    fields = [Field(name) for name in ("n", "x", "t", "flag")]
    constants = list(map(Constant, VALUES))
    conditions: list[Expression] = [
        Comparison(operator, one, other)
        for operator in get_args(ComparisonOperator)
        for one in fields
        for other in constants
    ]
    conditions += [Membership(one, VALUES[start : start + 4]) for one in fields for start in range(len(VALUES))]
    conditions += [Membership(Field("n"), (1, None, 2)), Membership(Field("x"), (1, 2.5)), Membership(Field("t"), ())]
    tests = ("contains", "starts_with", "ends_with")
    conditions += [Call(name, (one, other)) for name in tests for one in fields for other in constants]
    conditions += [Call("is_null", (one,)) for one in fields]
    conditions += [
        Field("flag"),
        AllOf(()),
        AnyOf(()),
        AllOf((Field("flag"), Field("on"))),
        AnyOf((Field("flag"), Field("on"))),
    ]
    conditions += [Not(condition) for condition in conditions]
    file = Path("rows.json").resolve()
    file.write_text(json.dumps(MATRIX), encoding="utf-8")

    with duck._open(str(file)) as (connection, link):
        rows = JsonFile(connection, link, lines=False)
        rows.profile(["n", "x", "t", "flag", "on"])
        query = Query(rows.columns)
        taken: dict[int, str] = {}
        for place, condition in enumerate(conditions):
            with contextlib.suppress(Unsupported):
                taken[place] = query.condition(condition)
        masks = ", ".join(f"list({sql} ORDER BY place)" for sql in taken.values())
        relation = numbered(rows.relation(query, whole=True))
        (found,) = rows.fetched(f"SELECT {masks} FROM {relation}", query)

    expected = [
        [row in where(Where(at="", condition=conditions[place]), Table(MATRIX)).rows for row in MATRIX]
        for place in taken
    ]
    assert list(found) == expected
    assert len(taken) == 372  # the others compare two kinds, which Python explains


def test_every_aggregate_gives_the_same() -> None:
    """Over groups, and over all rows."""
    numbers = [Field(name) for name in ("n", "m", "x", "y")]
    values = [*numbers, *(Field(name) for name in ("t", "u", "flag", "on"))]
    of_any_kind = {"count", "min", "max", "distinct", "first", "last"}
    aggregates = [
        Aggregate(name=f"{function} {place}", function=function, value=value, percentile=40.0)
        for place, value in enumerate(values)
        for function in get_args(Function)
        if function in of_any_kind or value in numbers
    ]
    file = Path("rows.json").resolve()
    file.write_text(json.dumps(MATRIX), encoding="utf-8")
    for keys in ((), ("on",), ("u", "m")):
        outputs = tuple(Output(name=f"key {name}", field=Field(name)) for name in keys)
        steps = (Group(at="group", keys=outputs, aggregates=tuple(aggregates)),)

        found, expected = by_duckdb(file, "json", steps), by_python(file, "json", steps)

        assert found is not None
        assert not isinstance(expected, str)
        assert alike(found[1], expected[1])


def test_every_form_of_a_cell_is_read_the_same() -> None:
    """Alone in its column, and beside a number, a boolean and a text."""
    forms = (
        *("0", "7", "-3", "+4", " 5 ", "007", "00", "1.5", ".5", "5.", "1.50", "1e3", "1E-2", "-0", "-0.0", "+", "e1"),
        *("true", "False", "TRUE", " true", "x", "NULL", "nan", "inf", "1_0", "0x1", "\u0663", ""),
    )
    columns = [(form, other) for form in forms for other in ("", "1", "2.5", "true", "x")]
    file = Path("rows.csv").resolve()
    header = ";".join(f"c{place}" for place in range(len(columns)))
    lines = [";".join(column[place] for column in columns) for place in (0, 1)]
    file.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
    steps = (Slice(at="limit", limit=9),)

    found, expected = by_duckdb(file, "csv", steps), by_python(file, "csv", steps)

    assert found is not None
    assert found == expected
    assert repr(found) == repr(expected)
