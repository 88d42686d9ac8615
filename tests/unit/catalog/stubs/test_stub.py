"""Tools as Python source: real signatures, and nothing of an upstream's text that could ever run."""

import ast
import inspect
import itertools
import tempfile
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.catalog import Catalog
from sealyard.catalog.stubs import Stub, annotation, shape, stub_files
from sealyard.store import open_store
from sealyard.values.tools import Definition, ToolSpec
from sealyard.versioning.compare import is_wrapped

numbers = itertools.count()


def tool(schema: Any, **fields: Any) -> ToolSpec:
    """A tool with this input schema."""
    names = {"upstream": "db", "name": "list-x", "full_name": "mcp__db__list-x", "module": "db", "function": "list_x"}
    return ToolSpec(**{**names, "input_schema": schema, "digest": f"{next(numbers)}", **fields})


async def files(*definitions: Definition, upstream: str = "db") -> dict[str, str]:
    """What is written for the tools of one upstream."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_store(Path(folder) / "store.db") as store:
            catalog = Catalog(store)
            await catalog.update(upstream, definitions)
            return stub_files(catalog.snapshot)


async def test_stub_of_an_everyday_tool() -> None:
    """The whole file, as an agent reads it."""
    definition = Definition(
        name="list-expenses",
        description="Lists expenses.\n\nNewest first.",
        input_schema={
            "type": "object",
            "properties": {
                "since": {"type": "string", "default": "2024-10-01", "description": "First day."},
                "limit": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
                "user_id": {"type": "string", "description": "Whose."},
                "from": {"enum": ["card", "cash"], "description": "How it was\npaid."},
            },
            "required": ["user_id"],
        },
        output_schema={
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "amount": {"type": "number"},
                    "note": {"type": ["string", "null"]},
                },
            },
        },
    )
    assert await files(definition, upstream="expenses") == {
        "__init__.py": '"""A package per tool server; the text of each lists its functions, as does '
        '/servers/<name>/__init__.py.\n\nexpenses: 1 tool\n"""\n\n__all__ = ("expenses",)\n',
        "expenses/__init__.py": '"""Tools of the server `expenses`. Import them: from servers.expenses import …\n\n'
        'list_expenses: Lists expenses.\n"""\n\n__all__ = ("list_expenses",)\n',
        "expenses/list_expenses.py": '''\
"""Lists expenses.  (server `expenses`, tool `list-expenses`)"""
from typing import Any, Literal

from sealyard_guest import tool


@tool("mcp__expenses__list-expenses", {"from_": "from"})
def list_expenses(user_id: str, since: str = "2024-10-01", limit: int | None = None, \
from_: Literal["card", "cash"] | None = None) -> list[dict[str, Any]]:
    """Lists expenses.

    Newest first.

    Args:
        user_id: Whose.
        since: First day.
        from_: How it was paid.

    Returns:
        [{"id": int, "amount": float, "note": str | None}]
    """
    ...
''',
    }


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object"}, "list_x(**arguments: Any) -> Any"),
        ({}, "list_x(**arguments: Any) -> Any"),
        ({"type": "object", "properties": {}}, "list_x() -> Any"),
        ({"additionalProperties": False}, "list_x() -> Any"),
        ({"additionalProperties": {"type": "integer"}}, "list_x(**arguments: int) -> Any"),
        (
            {"properties": {"arguments": {}}, "additionalProperties": True},
            "list_x(arguments: Any = None, **arguments_: Any) -> Any",
        ),
        ({"properties": {"a": {"type": "string"}}}, "list_x(a: str | None = None) -> Any"),
        ({"properties": {"a": {"type": "string", "default": None}}}, "list_x(a: str | None = None) -> Any"),
        ({"properties": {"a": {"default": {"k": [1, 2.5, True]}}}}, 'list_x(a: Any = {"k": [1, 2.5, True]}) -> Any'),
        ({"properties": {"a": {"type": "number", "default": float("inf")}}}, "list_x(a: float | None = None) -> Any"),
        (
            {"properties": {"a": {"type": "string", "default": 'it\'s "x"\n'}}},
            "list_x(a: str = 'it\\'s \"x\"\\n') -> Any",
        ),
        ({"properties": {"a": {"type": "integer", "default": 10**5000}}}, "list_x(a: int | None = None) -> Any"),
        ({"required": ["a"]}, "list_x(a: Any, **arguments: Any) -> Any"),
        (
            {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": {"type": "integer"}}, "required": ["a"]}}},
            "list_x(a: int) -> Any",
        ),
        (
            {"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": True}}]},
            "list_x(a: int, b: Any = None) -> Any",
        ),
        (
            {
                "oneOf": [
                    {"properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
                    {"properties": {"b": {}}, "required": ["b"]},
                ]
            },
            "list_x(b: Any, a: Any = None) -> Any",
        ),
        ({"properties": 5, "required": 5, "allOf": 5}, "list_x() -> Any"),
    ],
    ids=range(17),
)
def test_signature_says_how_to_call_the_tool(schema: dict[str, Any], expected: str) -> None:
    """Required ones first, defaults as literals, further keywords where the tool takes any."""
    assert Stub(tool(schema)).signature == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "boolean"}, "bool"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, "list[list[int]]"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "dict[str, float]"),
        ({"type": "object", "properties": {"a": {}}}, "dict[str, Any]"),
        ({"type": ["string", "null", "integer"]}, "str | int | None"),
        ({"type": "string", "nullable": True}, "str | None"),
        ({"const": 5}, "Literal[5]"),
        ({"enum": ["a", None, 3, True]}, 'Literal["a", 3, True] | None'),
        ({"enum": [1.5, "a"]}, "float | str"),
        ({"enum": [str(number) for number in range(50)]}, "str"),
        ({"oneOf": [{"const": "a"}, {"const": "b"}, {"type": "integer"}]}, 'Literal["a", "b"] | int'),
        (
            {"anyOf": [{"enum": ["]"]}, {"anyOf": [{"type": "null"}, {"enum": ["'\""]}]}]},
            "Literal[\"]\", '\\'\"'] | None",
        ),
        ({"allOf": [{"description": "d"}, {"type": "integer"}]}, "int"),
        ({"$ref": "#/$defs/Row"}, "dict[str, Any]"),
        ({"type": "array", "items": {"$ref": "#/$defs/Name"}}, "list[str]"),
        ({"$ref": "#/$defs/Loop"}, "Any"),
        ({"$ref": "https://example.invalid"}, "Any"),
        ({"type": "array", "items": {"$ref": "#/$defs/Tree"}}, "list[list[Any]]"),
        (True, "Any"),
        ("string", "Any"),
        ({"type": "strnig"}, "Any"),
    ],
    ids=range(22),
)
def test_annotation_is_the_python_type(schema: Any, expected: str) -> None:
    """Whatever is odd is `Any`, and all of it can be evaluated."""
    root = {
        "$defs": {
            "Row": {"type": "object", "properties": {"id": {"type": "integer"}}},
            "Name": {"type": "string"},
            "Loop": {"$ref": "#/$defs/Loop"},
            "Tree": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
        }
    }

    assert annotation(schema, root) == expected
    eval(expected, {"Any": Any, "Literal": Literal})


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, "Any"),
        ({"type": "object", "properties": {"id": {"type": "integer"}}}, '{"id": int}'),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "{str: int}"),
        ({"type": "object"}, "dict"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, '["a" | "b"]'),
        (
            {
                "type": "array",
                "items": {"$ref": "#/$defs/N"},
                "$defs": {"N": {"type": "object", "properties": {"in": {"$ref": "#/$defs/N"}}}},
            },
            '[{"in": …}]',
        ),
        (
            {
                "type": "object",
                "properties": {"result": {"type": "array", "items": {"type": "string"}}},
                "required": ["result"],
            },
            "[str]",
        ),
        ({"type": "object", "properties": {"result": {"type": "string"}, "more": {}}}, '{"result": str, "more": Any}'),
    ],
    ids=range(8),
)
def test_shape_of_the_answer_shows_its_keys(schema: dict[str, Any] | None, expected: str) -> None:
    """What an SDK wrapped in `result` is shown as code gets it."""
    assert Stub(tool({}, output_schema=schema)).returns == expected


def test_long_shape_is_cut() -> None:
    """Neither many keys nor depth nor long names make it long."""
    wide = {"type": "object", "properties": {f"key_{number}": {"type": "integer"} for number in range(5000)}}
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(30):
        deep = {"type": "object", "properties": {"x" * 1000: deep}}

    assert len(shape(wide, wide)) <= 700
    assert shape(wide, wide).endswith('"key_39": int, …}')
    assert len(shape(deep, deep)) <= 700
    assert "…" in shape(deep, deep)


def test_wrapped_answers_are_recognised() -> None:
    """An object with the one key `result`, and nothing else."""
    assert is_wrapped({"type": "object", "properties": {"result": {}}})
    assert is_wrapped({"$ref": "#/$defs/R", "$defs": {"R": {"properties": {"result": {}}}}})
    assert not is_wrapped({"type": "object", "properties": {"result": {}, "more": {}}})
    assert not is_wrapped({"type": "object", "properties": ["result"]})
    assert not is_wrapped(None)


def test_notes_say_what_a_parameter_must_be_like() -> None:
    """The description, the bounds, the choices that did not fit the signature, and the keys of an object."""
    schema = {
        "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How\n many."},
            "kind": {"enum": [f"k{number}" for number in range(30)]},
            "row": {"type": "object", "properties": {"id": {"type": "integer"}}},
            "plain": {"type": "string"},
        }
    }
    choices = ", ".join(f'"k{number}"' for number in range(20))

    assert Stub(tool(schema)).notes == {
        "count": "How many. (at least 1, at most 9)",
        "kind": f"One of {choices}, …",
        "row": 'Shape: {"id": int}',
    }


async def test_long_description_is_cut_with_a_way_to_the_rest() -> None:
    """A docstring of seven thousand characters helps nobody, but nothing is cut silently."""
    words = " ".join(f"word{number}" for number in range(1000))
    written = (await files(Definition(name="t", description=words, input_schema={})))["db/t.py"]
    text = ast.get_docstring(ast.parse(written).body[-1])  # type: ignore[arg-type]

    assert text is not None
    assert len(text) < 2200
    assert max(map(len, written.splitlines())) <= 180
    assert max(map(len, text.splitlines())) <= 96
    assert text.splitlines()[-1] == 'The rest: search_tools("mcp__db__t", detail_level="full")'
    assert words.startswith(" ".join(text.partition("…")[0].split()))


async def test_unchanged_tools_are_written_once(tmp_path: Path) -> None:
    """The text of a tool is the same object in the next version."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("db", [Definition(name="a", input_schema={})])
        first = stub_files(catalog.snapshot)
        await catalog.update("db", [Definition(name="a", input_schema={}), Definition(name="b", input_schema={})])
        second = stub_files(catalog.snapshot)

        assert sorted(second) == ["__init__.py", "db/__init__.py", "db/a.py", "db/b.py"]
        assert second["db/a.py"] is first["db/a.py"]


EVIL = st.text(max_size=60) | st.sampled_from(
    [
        '"""\nimport os\nos.system("x")\n"""',
        '\\"""',
        '"',
        "\\",
        '""""""',
        "'''",
        "\x00\r\x0c\u2028",
        "\ud800",
        "{x}",
        "a\\\n",
        "\\N{BULLET}",
        "): pass\nimport os",
        "../../x",
        "from",
        "__debug__",
        "x" * 7000,
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | EVIL,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(EVIL, inner, max_size=3),
    max_leaves=8,
)
PROPERTY = st.fixed_dictionaries(
    {}, optional={"type": EVIL, "description": EVIL, "default": JSON, "enum": st.lists(JSON, max_size=4), "const": JSON}
)
SCHEMAS = st.fixed_dictionaries(
    {"properties": st.dictionaries(EVIL, PROPERTY | JSON, max_size=5)},
    optional={"required": st.lists(EVIL, max_size=3), "additionalProperties": PROPERTY | st.booleans()},
)


def is_annotation(node: ast.expr | None) -> bool:
    """Whether it consists of types, `None` and the literals in `Literal`, and calls nothing."""
    allowed = (ast.Name, ast.Subscript, ast.BinOp, ast.BitOr, ast.Tuple, ast.Constant, ast.Load, ast.UnaryOp, ast.USub)
    names = {"Any", "Literal", "list", "dict", "str", "int", "float", "bool"}
    return node is not None and all(
        isinstance(part, allowed) and (not isinstance(part, ast.Name) or part.id in names) for part in ast.walk(node)
    )


@given(name=EVIL, upstream=EVIL, title=EVIL, description=EVIL, schema=SCHEMAS, output=SCHEMAS)
def test_nothing_an_upstream_says_is_ever_code(
    name: str, upstream: str, title: str, description: str, schema: Any, output: Any
) -> None:
    """Every file parses into our own imports and one function of ours, whose parts are literals and types."""
    spec = tool(schema, upstream=upstream, name=name, title=title, description=description, output_schema=output)
    written = stub_files(_Only(spec))  # type: ignore[arg-type]

    docs, typing_import, guest_import, function = ast.parse(written["db/list_x.py"]).body
    assert isinstance(docs, ast.Expr)
    assert isinstance(docs.value, ast.Constant)
    assert ast.unparse(typing_import) == "from typing import Any, Literal"
    assert ast.unparse(guest_import) == "from sealyard_guest import tool"
    assert isinstance(function, ast.FunctionDef)
    assert function.name == "list_x"
    decorator = function.decorator_list[0]
    assert isinstance(decorator, ast.Call)
    assert ast.unparse(decorator.func) == "tool"
    full_name, *mapping = [ast.literal_eval(argument) for argument in decorator.args]
    assert full_name == "mcp__db__list-x"
    assert [type(statement) for statement in function.body] == [ast.Expr, ast.Expr]
    assert [isinstance(statement.value, ast.Constant) for statement in function.body] == [True, True]  # type: ignore[attr-defined]
    assert function.args.posonlyargs == function.args.kwonlyargs == []
    assert is_annotation(function.returns)
    assert [parameter.arg for parameter in function.args.args if not is_annotation(parameter.annotation)] == []
    for default in function.args.defaults:
        ast.literal_eval(default)
    sent = {(mapping[0] if mapping else {}).get(parameter.arg, parameter.arg) for parameter in function.args.args}
    assert sent == schema["properties"].keys() | set(schema.get("required", ()))
    for package in ("__init__.py", "db/__init__.py"):
        assert [type(statement) for statement in ast.parse(written[package]).body] == [ast.Expr, ast.Assign]


class _Only:
    """A snapshot of one tool."""

    def __init__(self, spec: ToolSpec) -> None:
        self.by_upstream = {spec.upstream: (spec,)}
        self.tools = {spec.full_name: spec}
        self.shapes: dict[str, Any] = {}


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]) | st.sampled_from(' \n"\\'), max_size=500))
def test_docstring_has_the_whole_text(description: str) -> None:
    """Escaping and wrapping lose no word of what can be seen."""
    written = stub_files(_Only(tool({"properties": {}}, description=description)))["db/list_x.py"]  # type: ignore[arg-type]
    text = ast.get_docstring(ast.parse(written).body[-1])  # type: ignore[arg-type]

    assert text is not None
    assert text.split() == (description.split() or "The server says nothing about this tool.".split())


async def test_stub_runs_with_any_function_as_its_decorator() -> None:
    """The annotations and defaults are real objects when the file is imported."""
    schema = {
        "properties": {"print": {"enum": ["a"]}, "list": {"type": "array", "default": [1]}},
        "required": ["print"],
    }
    written = (await files(Definition(name="print", input_schema=schema)))["db/print_.py"]
    scope: dict[str, Any] = {"tool": lambda full_name: lambda function: (full_name, function)}
    exec(compile(written.replace("from sealyard_guest import tool", ""), "stub", "exec"), scope)

    full_name, function = scope["print_"]
    assert full_name == "mcp__db__print"
    assert inspect.signature(function) == inspect.Signature(
        [
            inspect.Parameter("print", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Literal["a"]),
            inspect.Parameter("list", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=list[Any], default=[1]),
        ],
        return_annotation=Any,
    )


async def test_files_stay_inside_their_folder() -> None:
    """Names that look like paths make no paths."""
    written = await files(
        *(Definition(name=name, input_schema={}) for name in ("../../x", "/etc/passwd", "a/b", "..", "", "\x00")),
        upstream="../../up",
    )

    assert [path for path in written if path.count("/") > 1 or ".." in path or not path.endswith(".py")] == []
    assert {path.partition("/")[0] for path in written} == {"__init__.py", "up"}
    assert len(written) == 8
