"""Where rows come from and where they go: inline data, files of the workspace, tools, and the bounded answer."""

import json
import resource
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.analysis.guest import AnalysisError, run
from sealyard.analysis.guest.duck import LEAST_BYTES
from sealyard.analysis.guest.sources import rows_of_csv

ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def never(tool: str, arguments: dict[str, Any]) -> Any:
    """Stands where a tool could be called, in tests that call none."""
    raise AssertionError(tool)


def rows_of(request: dict[str, Any], call_tool: Any = never) -> Any:
    """All rows of a source."""
    return run({"analysis_type": "filter", "parameters": {}, "limits": {"rows": 1000}} | request, call_tool)["rows"]


def mistake(request: dict[str, Any], call_tool: Any = never) -> str:
    """What is said about a source."""
    with pytest.raises(AnalysisError) as caught:
        rows_of(request, call_tool)
    return str(caught.value)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of an analysis."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("data", "parameters"),
    [
        (ROWS, {}),
        ({"stocks": ROWS}, {}),
        ({"total": 2, "stocks": ROWS, "ids": [1, 2]}, {}),
        ({"stocks": ROWS, "others": [{"c": 1}]}, {"data_field": "stocks"}),
        ({"result": {"pages": [{"items": ROWS}]}}, {"data_field": "result.pages.0.items"}),
        ({"a": [1, 2], "b": ["x", "y"]}, {}),
        (json.dumps(ROWS), {}),
    ],
)
def test_rows_are_found_in_every_form_of_data(data: Any, parameters: dict[str, Any]) -> None:
    """A list, an object with one list in it, a path, columns, JSON text."""
    assert rows_of({"data": data, "parameters": parameters}) == ROWS


def test_a_list_of_plain_values_is_rows_of_one_field() -> None:
    """Numbers alone can be filtered and described too."""
    assert rows_of({"data": [3, 1, None], "parameters": {"sort": "value"}}) == [
        {"value": 1},
        {"value": 3},
        {"value": None},
    ]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            {},
            "The request lacks 'data' and 'source'. Give rows as 'data', or 'source' = "
            "{'workspace': 'data/rows.csv'} or {'tool': 'server.tool', 'arguments': {...}}.",
        ),
        (
            {"data": ROWS, "source": {"workspace": "a.csv"}},
            "The request has 'data' and 'source'. Give rows as 'data', or 'source' = {'workspace': 'data/rows.csv'} or "
            "{'tool': 'server.tool', 'arguments': {...}}.",
        ),
        ({"data": 5}, "data is a number, 5. Give a list of objects."),
        (
            {"data": "a,b"},
            "data is not JSON: Expecting value: line 1 column 1 (char 0). Give the format if it is another.",
        ),
        ({"data": [{"a": 1}, 5]}, "data[1] is a number, 5. Each row is an object."),
        ({"data": [[1, 2]]}, "data[0] is a list, [1, 2]. Each row is an object."),
        (
            {"data": {"x": ROWS, "y": ROWS}},
            "data has several lists of rows: 'x', 'y'. Name one as parameters.data_field.",
        ),
        (
            {"data": {"result": {"items": ROWS}, "n": 1}},
            "data is an object of 'result', 'n', none of them rows. "
            "Lists are at 'result.items': name one as parameters.data_field.",
        ),
        (
            {"data": {"a": [1, 2], "b": [1]}},
            "data: column 'a' has 2 values and 'b' 1. Make them equal, or name the list of rows as "
            "parameters.data_field.",
        ),
        (
            {"data": {"items": ROWS}, "parameters": {"data_field": "itms"}},
            "Nothing at 'itms' in data, on the way to 'itms'. Nearest: 'items'. There: 'items'.",
        ),
        (
            {"data": ROWS, "analysis_type": "filtre"},
            "analysis_type is 'filtre'. Nearest: 'filter'. "
            "Give one of 'filter', 'aggregate', 'transform', 'validate', 'statistics'.",
        ),
        (
            {"data": ROWS, "parameter": {}},
            "No parameter 'parameter'. Nearest: 'parameters'. "
            "Known: 'analysis_type', 'data', 'source', 'parameters', 'limits'.",
        ),
        ({"data": ROWS, "limits": {"rows": -1}}, "limits.rows is -1. Give a whole number from 0."),
        (
            {"data": ROWS, "parameters": []},
            "parameters is []. Give an object of the parameters by their names.",
        ),
    ],
)
def test_a_wrong_request_is_named_with_what_was_expected(request_: dict[str, Any], message: str) -> None:
    """Every message names the part and the way on."""
    assert mistake(request_) == message


def test_rows_come_straight_from_a_tool() -> None:
    """The tool gets its arguments, and `path` says where in its answer the rows are."""
    calls: list[tuple[str, dict[str, Any]]] = []

    def call_tool(tool: str, arguments: dict[str, Any]) -> Any:
        calls.append((tool, arguments))
        return {"data": {"items": ROWS}, "next": None}

    source = {"tool": "bank.list", "arguments": {"year": 2025}, "path": "data.items"}
    assert rows_of({"source": source}, call_tool) == ROWS
    assert calls == [("bank.list", {"year": 2025})]


@pytest.mark.parametrize("page", [{"items": [], "total": 0}, {"items": [], "errors": [], "next": None}, {"items": []}])
def test_a_page_without_rows_is_no_mistake(page: dict[str, Any]) -> None:
    """A tool that found nothing answers its usual object with an empty list, in which no objects can be seen."""
    assert rows_of({"source": {"tool": "bank.list"}}, lambda tool, arguments: page) == []


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv"])
def test_a_byte_order_mark_before_the_text_of_a_tool_is_no_part_of_it(kind: str) -> None:
    """As it is none of a file."""
    text = "a\n1\n" if kind == "csv" else '[{"a": 1}]' if kind == "json" else '{"a": 1}\n'

    assert rows_of({"source": {"tool": "t", "format": kind}}, lambda tool, arguments: "\ufeff" + text) == [{"a": 1}]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_path_into_what_is_no_document_is_named(workspace: Path, kind: str) -> None:
    """It was given for a reason, and the rows would be others than those that were meant."""
    duckdb.sql("SELECT 1 AS a").write_parquet("r.parquet")
    (workspace / "r.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (workspace / "r.jsonl").write_text('{"a": {"b": [{"c": 1}]}}\n', encoding="utf-8")
    message = f"source: 'a.b' is a place in a JSON document, and the format is '{kind}'. Leave the path out."

    assert mistake({"source": {"workspace": f"r.{kind}", "path": "a.b"}}) == message
    assert mistake({"source": {"workspace": f"r.{kind}"}, "parameters": {"data_field": "a.b"}}) == message


def test_a_tool_that_answers_in_text_may_write_json_lines_or_csv() -> None:
    """JSON needs no word; the other formats do."""
    assert rows_of({"source": {"tool": "t"}}, lambda tool, arguments: json.dumps({"items": ROWS})) == ROWS
    assert rows_of({"source": {"tool": "t", "format": "csv"}}, lambda tool, arguments: "a,b\n1,x\n2,y\n") == ROWS
    lines = "\n".join(json.dumps(row) for row in ROWS)
    assert rows_of({"source": {"tool": "t", "format": "jsonl"}}, lambda tool, arguments: lines) == ROWS


def test_what_a_tool_raises_is_raised() -> None:
    """The failure of a tool is not a mistake of the request."""

    def call_tool(tool: str, arguments: dict[str, Any]) -> Any:
        raise LookupError(tool)

    with pytest.raises(LookupError):
        rows_of({"source": {"tool": "bank.list"}}, call_tool)


def test_a_join_takes_its_second_set_from_a_file_or_a_tool(workspace: Path) -> None:
    """Both sets may come from anywhere."""
    (workspace / "right.csv").write_text("a,c\n1,one\n", encoding="utf-8")

    for source in ({"workspace": "right.csv"}, {"tool": "t"}):
        found = rows_of(
            {"data": ROWS, "parameters": {"join": {"source": source, "on": "a"}}},
            lambda tool, arguments: [{"a": 1, "c": "one"}],
        )
        assert found == [{"a": 1, "b": "x", "c": "one"}]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.json", json.dumps(ROWS)),
        ("rows.json", json.dumps({"items": ROWS})),
        ("rows.jsonl", '{"a": 1, "b": "x"}\n\n{"a": 2, "b": "y"}\n'),
        ("rows.ndjson", '{"a": 1, "b": "x"}\r\n{"a": 2, "b": "y"}'),
        ("rows.csv", "a,b\n1,x\n2,y\n"),
        ("rows.csv", "\ufeffa;b\r\n1;x\r\n2;y\r\n"),
        ("rows.tsv", "a\tb\n1\tx\n2\ty"),
    ],
)
def test_files_of_the_workspace_are_read_by_their_ending(workspace: Path, name: str, content: str) -> None:
    """JSON, JSON lines and CSV, with any line ends, with or without a byte order mark."""
    (workspace / name).write_bytes(content.encode())

    assert rows_of({"source": {"workspace": name}}) == ROWS


def test_a_format_that_is_named_wins_over_the_ending(workspace: Path) -> None:
    """A file may be called anything."""
    (workspace / "export.txt").write_text("a,b\n1,x\n2,y\n", encoding="utf-8")

    assert rows_of({"source": {"workspace": "export.txt", "format": "csv"}}) == ROWS
    assert mistake({"source": {"workspace": "export.txt"}}) == (
        "source.workspace is 'export.txt', whose ending names no format. "
        "Give 'format': one of 'json', 'jsonl', 'csv', 'parquet'."
    )


def test_parquet_is_read(workspace: Path) -> None:
    """DuckDB writes the file, and its dates come back as ISO text."""
    duckdb.sql("SELECT 1 AS a, 'x' AS b, DATE '2025-03-31' AS d UNION ALL SELECT 2, 'y', NULL").write_parquet(
        "r.parquet"
    )

    assert sorted(rows_of({"source": {"workspace": "r.parquet"}}), key=lambda row: row["a"]) == [
        {"a": 1, "b": "x", "d": "2025-03-31"},
        {"a": 2, "b": "y", "d": None},
    ]


def test_numbers_that_json_does_not_have_are_null(workspace: Path) -> None:
    """NaN, infinities and what is larger than any float."""
    (workspace / "r.jsonl").write_text('{"v": NaN}\n{"v": -Infinity}\n{"v": 1e999}\n{"v": 1e300}', encoding="utf-8")

    assert rows_of({"source": {"workspace": "r.jsonl"}}) == [{"v": None}, {"v": None}, {"v": None}, {"v": 1e300}]


def test_columns_of_csv_get_one_type_each() -> None:
    """A column is what all its cells are; leading zeros mark identifiers, empty cells are null."""
    text = "i,f,zip,b,s,e\n1,1,01234,true,1,\n-2,2.5,10000,FALSE,x,\n,,,,,\n"

    assert rows_of_csv(text, "here") == [
        {"i": 1, "f": 1.0, "zip": "01234", "b": True, "s": "1", "e": None},
        {"i": -2, "f": 2.5, "zip": "10000", "b": False, "s": "x", "e": None},
        {"i": None, "f": None, "zip": None, "b": None, "s": None, "e": None},
    ]


def test_csv_may_be_empty_or_a_header_alone() -> None:
    """No rows are no mistake."""
    assert [rows_of_csv(text, "here") for text in ("", "a,b\n", "a,b")] == [[], [], []]


def test_a_separator_within_quotes_separates_nothing() -> None:
    """Neither in a cell nor in the header by which it is told."""
    assert rows_of_csv('"last, first";"a|b"\n"x, y";3\n', "here") == [{"last, first": "x, y", "a|b": 3}]


def test_empty_lines_before_the_header_are_skipped() -> None:
    """As they are between rows."""
    assert rows_of_csv("\r\n\na;b\n1;2\n\n3;4\n", "here") == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


def test_a_cell_may_be_long() -> None:
    """Longer than what the reader of the standard library takes by itself."""
    long = "x" * 200_000

    assert rows_of_csv(f'a,b\n{long},1\n"{long}",2\n', "here") == [{"a": long, "b": 1}, {"a": long, "b": 2}]


CELLS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=6))
def test_quoted_cells_of_csv_come_back_as_they_were(pairs: list[tuple[str, str]]) -> None:
    """Separators, quotes and line ends within cells are part of them; an empty cell is null."""
    text = "\r\n".join(["name,free", *(f'"{_doubled(left)}x","{_doubled(right)}y"' for left, right in pairs)])

    found = rows_of_csv(text, "here")

    assert found == [{"name": f"{left}x", "free": f"{right}y"} for left, right in pairs]


def _doubled(cell: str) -> str:
    return cell.replace('"', '""')


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "r.jsonl",
            b'{"a": 1}\n{"a": \n',
            "source: line 2 is not JSON: Expecting value: line 1 column 7 (char 6). Correct '{\"a\": '.",
        ),
        ("r.jsonl", b'{"a": 1}\n[1]\n', "source: line 2 is a list, [1]. Each line must be an object."),
        ("r.csv", b"a,b\n1,2\n3\n", "source: line 3 has 1 cells, and the header 2. Correct it."),
        ("r.csv", b"a,b\n1,2,3\n", "source: line 2 has 3 cells, and the header 2. Correct it."),
        ("r.csv", b'a,b\n"1,2\n', "source: line 2 is not CSV: unexpected end of data. Correct it."),
        ("r.csv", b"a,\n1,2\n", "source: column 2 has no name in the header. Name it."),
        ("r.csv", b"a,a\n1,2\n", "source: the header has 'a' twice. Give each column a name of its own."),
        ("r.csv", b"a,b\n1,\xff\n", "source.workspace: 'r.csv' is not UTF-8 in line 2. Convert it first."),
        ("r.parquet", b"PAR0", "'r.parquet' cannot be read as a Parquet file. Write it anew."),
    ],
)
def test_a_broken_file_is_named_with_its_line(workspace: Path, name: str, content: bytes, message: str) -> None:
    """Nothing is skipped silently."""
    (workspace / name).write_bytes(content)

    assert mistake({"source": {"workspace": name}}) == message


def test_a_file_that_is_not_there_is_answered_with_those_that_are(workspace: Path) -> None:
    """The nearest name is often the one that was meant."""
    (workspace / "data").mkdir()
    (workspace / "data" / "sales.csv").write_text("a\n1\n", encoding="utf-8")

    assert mistake({"source": {"workspace": "data/sale.csv"}}) == (
        "source.workspace: no file 'data/sale.csv' in the workspace. Nearest: 'sales.csv'. There: 'sales.csv'."
    )
    assert mistake({"source": {"workspace": "data.csv"}}) == (
        "source.workspace: no file 'data.csv' in the workspace. Nearest: 'data'. There: 'data'."
    )
    assert mistake({"source": {"workspace": "data", "format": "csv"}}) == (
        "source.workspace is 'data', which is not a file. Name a file."
    )


def test_more_rows_than_the_limit_are_all_in_a_file(workspace: Path) -> None:
    """The answer has the first ones and the count of all; the file is a source for the next analysis."""
    data = [{"n": number, "t": "ü"} for number in range(250)]

    answer = run({"analysis_type": "filter", "data": data}, never)

    assert answer == {
        "rows_in": 250,
        "rows_out": 250,
        "rows": data[:100],
        "truncated": True,
        "file": "results/filter-1.jsonl",
        "engine": "python",
    }
    lines = (workspace / "results" / "filter-1.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == data
    again = run({"analysis_type": "filter", "source": {"workspace": answer["file"]}, "limits": {"rows": 1}}, never)
    assert (again["rows_in"], again["rows"], again["file"]) == (250, data[:1], "results/filter-2.jsonl")


def test_rows_of_more_bytes_than_the_limit_are_cut_there(workspace: Path) -> None:
    """One row of ten bytes fits into fifteen; one that is too large leaves none."""
    assert run({"analysis_type": "filter", "data": [{"n": 1}, {"n": 2}], "limits": {"bytes": 15}}, never) == {
        "rows_in": 2,
        "rows_out": 2,
        "rows": [{"n": 1}],
        "truncated": True,
        "file": "results/filter-1.jsonl",
        "engine": "python",
    }
    large = run(
        {"analysis_type": "aggregate", "data": [{"t": "x" * 99}], "parameters": {"aggregations": "max(t)"}}
        | {"limits": {"bytes": 50}},
        never,
    )
    assert (large["rows"], large["rows_out"], large["file"]) == ([], 1, "results/aggregate-1.jsonl")


def test_exactly_as_many_rows_as_the_limit_are_not_cut(workspace: Path) -> None:
    """No file is written for an answer that fits."""
    answer = run({"analysis_type": "filter", "data": ROWS, "limits": {"rows": 2}}, never)

    assert answer == {"rows_in": 2, "rows_out": 2, "rows": ROWS, "engine": "python"}
    assert list(workspace.iterdir()) == []


def test_an_answer_that_cannot_be_kept_says_so(workspace: Path) -> None:
    """The first rows are still given."""
    (workspace / "results").write_text("a file in the place of the folder", encoding="utf-8")

    answer = run({"analysis_type": "filter", "data": ROWS, "limits": {"rows": 1}}, never)

    assert answer == {
        "rows_in": 2,
        "rows_out": 2,
        "rows": ROWS[:1],
        "truncated": True,
        "notes": ["The other rows are not kept: results cannot be written (File exists)."],
        "engine": "python",
    }


def test_half_of_a_surrogate_pair_survives_in_the_file(workspace: Path) -> None:
    """It has no form in UTF-8, and one in JSON."""
    run({"analysis_type": "filter", "data": [{"t": "\ud800"}], "limits": {"rows": 0}}, never)

    text = (workspace / "results" / "filter-1.jsonl").read_text(encoding="utf-8")
    assert json.loads(text) == {"t": "\ud800"}


def test_an_empty_object_has_no_rows() -> None:
    """It is told so, and not as a list of nothing."""
    with pytest.raises(AnalysisError, match=r"data is an empty object\. Give a list of objects\."):
        run({"analysis_type": "filter", "data": {}, "parameters": {}}, lambda tool, arguments: None)


def test_a_results_file_that_cannot_hold_all_rows_is_removed(workspace: Path) -> None:
    """Half of the rows would pass for all of them."""
    data = [{"t": "x" * 1_000}] * 3_000
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        answer = run({"analysis_type": "filter", "data": data, "limits": {"rows": 1}}, never)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert answer["notes"] == ["The other rows are not kept: results cannot be written (File too large)."]
    assert (answer["rows_out"], "file" in answer) == (3_000, False)
    assert list((workspace / "results").iterdir()) == []


def test_a_tool_is_called_once_for_the_same_arguments(workspace: Path) -> None:
    """Also where DuckDB has begun with a large file, and Python begins anew because of a later mistake."""
    called: list[dict[str, Any]] = []

    def call_tool(tool: str, arguments: dict[str, Any]) -> Any:
        called.append(arguments)
        return [{"a": 1, "c": 2}]

    line = '{"a": 1, "b": "x"}\n'
    (workspace / "large.jsonl").write_text(line * (LEAST_BYTES // len(line) + 1), encoding="utf-8")
    joins = [
        {"join": {"source": {"tool": "s.t", "arguments": {"n": n}}, "on": "a", "suffix": suffix}}
        for n, suffix in ((1, "_1"), (2, "_2"), (1, "_3"))
    ]
    steps: list[Any] = [{"filter": "a == 1"}, {"limit": 2}, *joins]
    request = {"analysis_type": "transform", "source": {"workspace": "large.jsonl"}}

    answer = run(request | {"parameters": {"steps": steps}}, call_tool)
    assert (answer["engine"], len(answer["rows"]), called) == ("duckdb", 2, [{"n": 1}, {"n": 2}])

    called.clear()
    with pytest.raises(AnalysisError):
        run(request | {"parameters": {"steps": [*steps, {"drop": "missing"}]}}, call_tool)
    assert called == [{"n": 1}, {"n": 2}]
