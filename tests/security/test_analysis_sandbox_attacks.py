"""Analyses as an attacker would ask for them: every text of a request and of a file is a value, and stays one.

Each attack stands beside a control that shows what it would do where nothing stops it.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from sealyard.analysis import GUEST
from sealyard.sandbox import PoolOptions, open_sandbox
from sealyard.sandbox.policy import DEFAULT
from sealyard.values.runs import Limits, Outcome

POLICY = msgspec.structs.replace(DEFAULT, packages=("duckdb",))
RUN = "from sealyard_analysis import run\nresult = [run(request, call_tool) for request in requests]"
SESSION = "attacked"

TEXTS = (
    "x' OR '1'='1",
    'x" OR 1=1 --',
    "'; DROP TABLE kept; --",
    "amount); COPY (SELECT 1) TO 'stolen.csv'; --",
    "(SELECT content FROM read_text('other.txt'))",
    "f0",
    "$file",
    "$v0",
    "$.*",
    "*",
    "{0}",
    "%s",
    "c0 AS json",
    'a"."b',
    "a\\",
    "__import__('os').mkdir('stolen')",
    "\x00\r\n\t",
    "é😀\u202e",
    "n" * 200,
)


@pytest.fixture(scope="module")
def walls(drive: Any) -> Any:
    """A sandbox with DuckDB and the engine in it."""
    return drive(open_sandbox(POLICY, own={"sealyard_analysis": GUEST}, pool=PoolOptions(size=1)))


@pytest.fixture
def workspace(walls: Any) -> Any:
    """The workspace of a session of its own, with a file beside the one that is asked for."""
    walls.run("open('other.txt', 'w').write('private')", session=SESSION)
    yield walls.sandbox.workspace(SESSION)
    walls.wait(walls.sandbox.remove_session(SESSION))


def ask(walls: Any, *requests: dict[str, Any], **options: Any) -> Outcome:
    """What the engine answers inside."""
    outcome: Outcome = walls.run(RUN, context={"requests": list(requests)}, session=SESSION, **options)
    return outcome


def files(workspace: Any) -> list[str]:
    """What is in the workspace now."""
    return sorted(file.path for file in workspace.files())


def is_healthy(walls: Any) -> bool:
    """Whether the next analysis is answered as it should be."""
    request = {"analysis_type": "filter", "data": [{"n": 1}, {"n": 2}], "parameters": {"conditions": []}}
    outcome = walls.run(RUN, context={"requests": [request]})
    return bool(outcome.failure is None and outcome.result[0]["rows_out"] == 2)


def lines(*names: str, count: int) -> bytes:
    """Rows with a field of each name, of which the eighth has the names as values too."""
    rows = ({"id": number} | {name: name if number == 7 else "plain" for name in names} for number in range(count))
    return "\n".join(map(json.dumps, rows)).encode()


@pytest.mark.behaviour("analysis.no_code")
@pytest.mark.parametrize(("count", "engine"), [(7_000, "duckdb"), (30, "python")])
def test_text_is_a_name_and_a_value_and_nothing_else(walls: Any, workspace: Any, count: int, engine: str) -> None:
    """As field, value, alias and sort key, by both engines: the one row that has it is found, and no file appears."""
    workspace.write_bytes("rows.jsonl", lines(*TEXTS, count=count))
    source = {"workspace": "rows.jsonl"}
    requests: list[dict[str, Any]] = []
    for text in TEXTS:
        equal = {"field": text, "operator": "==", "value": text}
        known = {"field": text, "operator": "in", "value": [text, "plain"]}
        counted = {"function": "count", "as": f"{text}!"}
        order = [{"field": text}, {"field": "id", "descending": True}]
        parameters: tuple[tuple[str, dict[str, Any]], ...] = (
            ("filter", {"conditions": [equal], "fields": ["id", text]}),
            ("aggregate", {"group_by": [text], "aggregations": [counted]}),
            ("filter", {"conditions": [known], "sort": order, "limit": 1, "fields": ["id"]}),
        )
        requests += [{"analysis_type": kind, "source": source, "parameters": each} for kind, each in parameters]

    # More than a run has by itself: where only rlimits hold memory down, they count more than what is used.
    outcome = ask(walls, *requests, limits=Limits(wall_seconds=100, memory_mib=2_048))

    assert outcome.failure is None
    answers = iter(outcome.result)
    for text, found, groups, first in zip(TEXTS, answers, answers, answers, strict=True):
        assert found["rows"] == [{"id": 7, text: text}]
        assert groups["rows"] == [{text: "plain", f"{text}!": count - 1}, {text: text, f"{text}!": 1}]
        assert first["rows"] == [{"id": 7 if text < "plain" else count - 1}]
    assert {answer["engine"] for answer in outcome.result} == {engine, "python"}
    assert files(workspace) == ["other.txt", "rows.jsonl"]


def test_the_same_texts_are_dangerous_where_they_are_spliced(walls: Any, workspace: Any) -> None:
    """The control: in a statement made of text, in a bare DuckDB, they read and write other files."""
    outcome = walls.run(
        """
        import duckdb, os
        bare = duckdb.connect(":memory:")
        bare.execute("CREATE TABLE kept AS SELECT 1 AS amount")
        read = bare.execute(f"SELECT {reads} FROM kept").fetchall()
        bare.execute(f"SELECT sum({writes}".replace("; --", "")).fetchall()
        eval(code)
        [read, sorted(os.listdir("."))]
        """,
        context={
            "reads": "(SELECT content FROM read_text('other.txt'))",
            "writes": "amount) FROM kept; COPY (SELECT 1) TO 'stolen.csv'; --",
            "code": "__import__('os').mkdir('stolen')",
        },
        session=SESSION,
    )

    assert outcome.failure is None
    assert outcome.result == [[["private"]], ["other.txt", "stolen", "stolen.csv"]]


LOCKED = """
import os
import duckdb
from sealyard_analysis import duck

def attempt(connection, statement):
    frame = connection.sql("SELECT 1")
    try:
        connection.execute(statement).fetchall()
    except duckdb.Error as error:
        return type(error).__name__
    return "done"

os.symlink("other.txt", "link.txt")
with duck._open("rows.jsonl") as (locked, link):
    own = locked.execute("SELECT count(*) FROM read_json_objects($1)", [link]).fetchone()[0]
    held = {name: attempt(locked, statement) for name, statement in statements.items()}
bare = {name: attempt(duckdb.connect(":memory:"), statement) for name, statement in statements.items()}
result = {"own": own, "held": held, "bare": bare}
"""
STATEMENTS = {
    "other file": "SELECT content FROM read_text('other.txt')",
    "system file": "SELECT content FROM read_text('/etc/passwd')",
    "link to another file": "SELECT content FROM read_text('link.txt')",
    "file as a table": "SELECT * FROM 'other.csv'",
    "listing": "SELECT * FROM glob('*')",
    "write": "COPY (SELECT 1) TO 'stolen.csv'",
    "database": "ATTACH 'stolen.db' AS stolen",
    "export": "EXPORT DATABASE 'stolen'",
    "variable of Python": "SELECT * FROM frame",
    "more threads": "SET threads = 3",
    "open another path": "SET allowed_paths = ['other.txt']",
    "more memory": "SET memory_limit = '64GB'",
    "spill": "SET temp_directory = 'spilled'",
    "extension from the network": "INSTALL httpfs",
    "extension by use": "SELECT content FROM read_text('https://example.invalid/x')",
    "log to a file": "PRAGMA enable_profiling = 'json'",
}
TRIES = {"extension from the network", "extension by use"}
"""What fails in a bare DuckDB too, here, but only after it has tried."""


def test_locked_connection_does_nothing_but_read_its_file(walls: Any, workspace: Any) -> None:
    """Even SQL of the attacker's own, if it ever came so far; a bare connection in the same sandbox does all of it."""
    workspace.write_bytes("rows.jsonl", lines("f", count=3))
    workspace.write_bytes("other.csv", b"a,b\n1,2\n")

    outcome = walls.run(LOCKED, context={"statements": STATEMENTS}, session=SESSION)

    assert outcome.failure is None
    assert outcome.result["own"] == 3
    assert {name: end for name, end in outcome.result["held"].items() if end == "done"} == {}
    assert {name for name, end in outcome.result["bare"].items() if end != "done"} == TRIES
    assert all(outcome.result["held"][name] != outcome.result["bare"][name] for name in TRIES)


PATHS = (
    "/etc/passwd",
    "../../etc/passwd",
    "link.csv",
    "folder/passwd",
    "sub/../../../etc/passwd",
    "https://example.invalid/rows.csv",
    "s3://bucket/rows.csv",
    "file:///etc/passwd",
    "*.csv",
    "rows.cs[v]",
    "rows.csv\x00.csv",
    "/dev/zero",
    ".",
    "",
    "x" * 5_000,
)


def test_source_outside_the_workspace_is_refused(walls: Any, workspace: Any) -> None:
    """By absolute path, by steps up, by a link, by an address, by a pattern; the control reads the first of them."""
    workspace.write_bytes("rows.csv", b"a,b\n1,2\n")
    code = """
        import os
        from sealyard_analysis import run
        os.symlink("/etc/passwd", "link.csv")
        os.symlink("/etc", "folder")

        def attempt(path):
            request = {"analysis_type": "filter", "source": {"workspace": path, "format": "csv"}, "parameters": {}}
            try:
                return run(request, call_tool)["rows"]
            except ValueError as error:
                return type(error).__name__

        [[attempt(path) for path in paths], attempt("rows.csv"), open("link.csv").read(8), open("/etc/passwd").read(8)]
    """

    outcome = walls.run(code, context={"paths": PATHS}, session=SESSION)

    assert outcome.failure is None
    refused, control, by_link, by_path = outcome.result
    assert refused == ["AnalysisError"] * len(PATHS)
    assert (control, by_link, by_path) == ([{"a": 1, "b": 2}], "sandbox:", "sandbox:")


EXPRESSIONS = (
    "__import__('os').mkdir('stolen')",
    "open('stolen', 'w')",
    "().__class__.__base__.__subclasses__()",
    "n.__class__",
    "[x for x in (1, 2)]",
    "(lambda: 1)()",
    "f'{n}'",
    "(m := 1)",
    "exec('1')",
    "n[0]",
    "n; 1",
    "n\nimport os",
    "run.__globals__",
    "9 ** 9 ** 9 ** 9 ** 9",
    "str(n) * 1000000000",
    "(" * 5_000 + "n" + ")" * 5_000,
    "n + " * 5_000 + "n",
)


def test_expression_is_no_code(walls: Any, workspace: Any) -> None:
    """Whatever Python would make of it, it is refused, or a null; the control shows what Python makes of the first."""
    code = """
        import os
        from sealyard_analysis import run

        def attempt(text):
            request = {
                "analysis_type": "transform", "data": [{"n": 1}], "parameters": {"steps": [{"compute": {"v": text}}]}
            }
            try:
                return run(request, call_tool)["rows"][0]["v"]
            except ValueError as error:
                return type(error).__name__

        answers = [attempt(text) for text in texts]
        before = sorted(os.listdir("."))
        eval(texts[0])
        [answers, attempt("n * 2"), before, sorted(os.listdir("."))]
    """

    outcome = walls.run(code, context={"texts": EXPRESSIONS}, session=SESSION)

    assert outcome.failure is None
    answers, control, before, after = outcome.result
    assert {answer for answer in answers if answer is not None} == {"AnalysisError"}
    assert (control, before, after) == (2, ["other.txt"], ["other.txt", "stolen"])


HEADER = ["id", "'; DROP TABLE t; --", "$columns", "a) FROM read_text('other.txt'); --", "c1", "=cmd|' /C calc'!A0"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_names_and_cells_in_a_file_are_values(walls: Any, workspace: Any, tmp_path: Path, kind: str) -> None:
    """Headers that are SQL, cells that are formulas, metadata that is anything."""
    count = 50_000
    cells = [[str(number), *(name for name in HEADER[1:])] for number in range(count)]
    table = "\n".join(",".join(record) for record in [HEADER, *cells])
    (tmp_path / "rows.csv").write_text(table, encoding="utf-8")
    if kind == "parquet":
        with duckdb.connect(":memory:") as connection:
            names = ", ".join('"' + name.replace('"', '""') + '"' for name in HEADER[1:])
            source = (
                f"SELECT CAST(id AS BIGINT) AS id, {names} FROM read_csv('{tmp_path}/rows.csv', all_varchar = TRUE)"
            )
            metadata = "{statement: 'DROP TABLE t', path: '/etc/passwd'}"
            target = f"'{tmp_path}/rows.parquet' (FORMAT parquet, COMPRESSION uncompressed, KV_METADATA {metadata})"
            connection.execute(f"COPY ({source}) TO {target}")
    workspace.write_bytes(f"rows.{kind}", (tmp_path / f"rows.{kind}").read_bytes())
    requests: list[dict[str, Any]] = []
    for name in HEADER[1:]:
        conditions = [{"field": name, "operator": "==", "value": name}, {"field": "id", "operator": "<", "value": 2}]
        requests.append({"conditions": conditions, "fields": ["id", name]})

    outcome = ask(
        walls,
        *(
            {"analysis_type": "filter", "source": {"workspace": f"rows.{kind}"}, "parameters": parameters}
            for parameters in requests
        ),
        limits=Limits(wall_seconds=60),
    )

    assert outcome.failure is None
    assert [answer["rows"] for answer in outcome.result] == [
        [{"id": 0, name: name}, {"id": 1, name: name}] for name in HEADER[1:]
    ]
    assert [answer["engine"] for answer in outcome.result] == ["duckdb"] * len(requests)
    assert files(workspace) == ["other.txt", f"rows.{kind}"]


def test_small_file_that_grows_is_stopped_by_the_limits(walls: Any, workspace: Any, tmp_path: Path) -> None:
    """Sixty million rows in a few kilobytes: too many to read, though not to count, and the next run is as it was."""
    file = tmp_path / "bomb.parquet"
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"COPY (SELECT 1 AS n, 'x' AS t FROM range(60_000_000)) TO '{file}' (FORMAT parquet)")
        real = connection.execute(f"SELECT count(*) FROM '{file}'").fetchone()
    workspace.write_bytes("bomb.parquet", file.read_bytes())
    everything = {"steps": [{"compute": {"v": "n + 1"}}]}

    counted = {"group_by": ["t"], "aggregations": [{"function": "sum", "field": "n", "as": "sum"}]}
    bomb = {"workspace": "bomb.parquet"}

    outcome = ask(walls, {"analysis_type": "transform", "source": bomb, "parameters": everything})
    summed = ask(walls, {"analysis_type": "aggregate", "source": bomb, "parameters": counted})

    assert (real, file.stat().st_size < 4 << 20) == ((60_000_000,), True)
    assert outcome.failure is not None
    assert outcome.failure.message == (
        "'bomb.parquet' has 60000000 rows, and at most 5000000 are read at once. Begin with a filter or an aggregate."
    )
    assert summed.result[0]["rows"] == [{"t": "x", "sum": 60_000_000}]
    assert is_healthy(walls)


def test_compressed_file_is_not_unpacked_by_its_name(walls: Any, workspace: Any) -> None:
    """The engine reads what is there; a bare DuckDB, the control, unpacks it."""
    rows = b'{"n": 1}\n' * 50
    workspace.write_bytes("rows.jsonl.gz", gzip.compress(rows))
    code = """
        import duckdb
        from sealyard_analysis import run
        request = {"analysis_type": "filter", "source": {"workspace": "rows.jsonl.gz", "format": "jsonl"}}
        try:
            answer = run(request, call_tool)
        except ValueError as error:
            answer = type(error).__name__
        [answer, duckdb.connect(":memory:").execute("SELECT count(*) FROM 'rows.jsonl.gz'").fetchone()[0]]
    """

    outcome = walls.run(code, session=SESSION)

    assert (outcome.failure, outcome.result) == (None, ["AnalysisError", 50])


BROKEN = {
    "deep.json": b"[" * 200_000 + b"]" * 200_000,
    "deep.jsonl": b'{"n":' * 100_000 + b"1" + b"}" * 100_000,
    "wide.csv": b",".join(b"c%d" % number for number in range(50_000)) + b"\n" + b"," * 49_999 + b"\n",
    "torn.parquet": b"PAR1" + b"\xff" * 4096 + b"\xff\xff\xff\x7fPAR1",
    "text.parquet": b"id,name\n1,a\n" * 300_000,
    "nul.jsonl": b"\0" * (5 << 20),
    "digits.json": b'[{"n": ' + b"9" * 6_000 + b"}]",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_file_is_an_error_and_no_crash(walls: Any, workspace: Any, name: str) -> None:
    """Nested, wide, torn or of another kind: the answer is bounded, and the next run is as it should be."""
    workspace.write_bytes(name, BROKEN[name])
    conditions = [{"field": "n", "operator": ">", "value": 0}]

    outcome = ask(
        walls,
        {"analysis_type": "filter", "source": {"workspace": name}, "parameters": {"conditions": conditions}},
        limits=Limits(wall_seconds=30),
    )

    assert outcome.failure is not None
    assert outcome.failure.type == "AnalysisError"
    assert is_healthy(walls)


def test_pattern_that_never_ends_is_stopped_by_the_clock(walls: Any, workspace: Any) -> None:
    """Or refused before; either way the next run is as it should be."""
    rows = [{"t": "a" * 40 + "!"}]
    condition = {"field": "t", "operator": "matches", "value": "^(a+)+$"}

    outcome = ask(
        walls,
        {"analysis_type": "filter", "data": rows, "parameters": {"conditions": [condition]}},
        limits=Limits(wall_seconds=2),
    )

    assert outcome.failure is not None
    assert outcome.failure.type in ("WallTimeExceeded", "CpuTimeExceeded", "AnalysisError")
    assert is_healthy(walls)
