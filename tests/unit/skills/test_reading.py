"""Reading a skill: form, inputs and output from its text, dependencies from its code, and refusals that name lines."""

import textwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.code import Ref
from sealyard.errors import InvalidSkill
from sealyard.skills import signature_of
from sealyard.skills.loader import combined
from sealyard.skills.reading import Reading, read_skill
from sealyard.values.skills import Skill, SkillRecord, ToolNeed
from sealyard.values.tools import ToolSpec

STRING, INTEGER, NUMBER, ARRAY, OBJECT = ({"type": kind} for kind in ("string", "integer", "number", "array", "object"))


def find(name: str) -> ToolSpec | None:
    """A catalog of one server with one tool, in its second version."""
    if name not in ("servers.bank.pay", "mcp__bank__pay"):
        return None
    names = {"upstream": "bank", "name": "pay", "full_name": "mcp__bank__pay", "module": "bank", "function": "pay"}
    return ToolSpec(**names, input_schema=OBJECT, digest="d2", version="1.1.0")


def read(code: str, name: str = "total", **declared: Any) -> Reading:
    """A skill whose code may be indented as it stands in the test."""
    return read_skill(name, textwrap.dedent(code).strip("\n"), find=find, **declared)


def refusal(code: str, **declared: Any) -> str:
    """Why it cannot be read."""
    with pytest.raises(InvalidSkill) as caught:
        read(code, **declared)
    return str(caught.value)


def properties(code: str, **declared: Any) -> Any:
    """The inputs of a skill."""
    return read(code, **declared).input_schema["properties"]


# Functions


def test_signature_becomes_a_schema() -> None:
    """Annotations are types, literal defaults are defaults, and what has none is required."""
    code = """
    def total(user_id: str, since: str = "2024-01-01", *, limit: int | None = None, tags: list[str] = ()) -> dict:
        return {}
    """

    assert read(code) == Reading(
        form="function",
        input_schema={
            "type": "object",
            "properties": {
                "user_id": STRING,
                "since": {"type": "string", "default": "2024-01-01"},
                "limit": {"type": ["integer", "null"], "default": None},
                "tags": {"type": "array", "items": STRING, "default": []},
            },
            "required": ["user_id"],
            "additionalProperties": False,
        },
        output_schema=OBJECT,
    )


ANNOTATIONS: dict[str, dict[str, Any]] = {
    "str": STRING,
    "'str'": STRING,
    "float": NUMBER,
    "bool": {"type": "boolean"},
    "None": {"type": "null"},
    "Any": {},
    "object": {},
    "list": ARRAY,
    "list[Any]": ARRAY,
    "dict": OBJECT,
    "typing.Dict[str, int]": {"type": "object", "additionalProperties": INTEGER},
    "list[dict[str, list[int]]]": {
        "type": "array",
        "items": {"type": "object", "additionalProperties": {"type": "array", "items": INTEGER}},
    },
    "Literal['a', 'b']": {"type": "string", "enum": ["a", "b"]},
    "Literal[1, None]": {"type": ["integer", "null"], "enum": [1, None]},
    "Optional[str]": {"type": ["string", "null"]},
    "Union[int, str, None]": {"type": ["integer", "string", "null"]},
    "int | list[int]": {"anyOf": [INTEGER, {"type": "array", "items": INTEGER}]},
    "list[int] | None": {"type": ["array", "null"], "items": INTEGER},
    "Literal['a'] | None": {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
    "int | Any": {},
    "tuple[int, ...]": {"type": "array", "items": INTEGER},
    "tuple[int, str]": {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2},
    "Annotated[int, 'in euros']": {"type": "integer", "description": "in euros"},
}


@pytest.mark.parametrize("annotation", ANNOTATIONS)
def test_annotation_becomes_a_schema(annotation: str) -> None:
    """Each type that JSON has words for."""
    assert properties(f"def total(x: {annotation}): ...") == {"x": ANNOTATIONS[annotation]}


@pytest.mark.parametrize(
    "annotation", ["date", "set[int]", "dict[int, str]", "Row[int]", "f(x)", "'a b'", "list[date]"]
)
def test_type_that_json_has_not_is_a_warning(annotation: str) -> None:
    """Any value is taken then, and the line is told."""
    found = read(f"def total(x: {annotation}): ...")

    assert found.input_schema["properties"] == {"x": {}}
    assert [text.partition(":")[0] for text in found.warnings if "is not a JSON type" in text] == ["Line 1"]


@pytest.mark.parametrize("default", ["date.today()", "float('nan')", "1e999", "{1}", "b''", "{1: 2}", "[x]", "10**9"])
def test_default_that_is_no_json_makes_an_input_optional_without_one(default: str) -> None:
    """The function knows it; nobody else can."""
    found = read(f"def total(x: str = {default}): ...").input_schema

    assert (found["properties"], "required" in found) == ({"x": STRING}, False)


def test_default_of_none_allows_null() -> None:
    """`x: str = None` is what people write for an optional text."""
    assert properties("def total(x: str = None): ...") == {"x": {"type": ["string", "null"], "default": None}}


def test_further_keywords_are_allowed_when_the_function_takes_them() -> None:
    """`**rest` of a type is a schema for the rest."""
    assert [
        read(f"def total(x, {rest}): ...").input_schema["additionalProperties"] for rest in ("**rest", "**rest: int")
    ] == [True, INTEGER]


def test_parameters_that_cannot_be_named_are_refused() -> None:
    """Inputs are given by name."""
    assert [refusal("def total(a, *rows): ..."), refusal("def total(a, /): ...")] == [
        "Line 1: the parameter 'rows' cannot be given by name, because of the '*'."
        " Inputs are given by name: take a list, or name each parameter.",
        "Line 1: the parameter 'a' cannot be given by name, because of the '/'."
        " Inputs are given by name: take a list, or name each parameter.",
    ]


def test_last_function_of_the_name_counts() -> None:
    """As it does for Python; a coroutine is a function too, one inside something else is not."""
    assert properties("def total(a): ...\nasync def total(b): ...") == {"b": {}}
    assert read("if 1:\n    def total(a): ...").form == "script"


def test_declared_inputs_add_words_and_missing_types_to_a_function() -> None:
    """The type of the code stays; what it does not say is taken from the declaration."""
    declared = {
        "user_id": {"type": "string", "description": "Whose.", "minLength": 1},
        "limit": "int",
        "amount": {"type": "integer"},
        "rows": {"type": "array", "items": {"type": "integer"}},
    }

    assert properties("def total(user_id: str, limit, amount: float, rows: list): ...", inputs=declared) == {
        "user_id": {"type": "string", "description": "Whose.", "minLength": 1},
        "limit": INTEGER,
        "amount": NUMBER,
        "rows": {"type": "array", "items": INTEGER},
    }


CONTRADICTIONS: dict[str, tuple[Any, str]] = {
    "type": (
        {"a": "integer"},
        "The code says that 'a' (line 1) is string, and it is declared as integer. Make them agree.",
    ),
    "type inside": (
        {"c": "list[str]"},
        "The code says that each item of 'c' (line 1) is integer, and it is declared as string. Make them agree.",
    ),
    "unknown": (
        {"z": "string"},
        "Line 1: `inputs` declares 'z', which is not a parameter of the function."
        " Its parameters are: a, b, c. Make them agree.",
    ),
    "optional": (
        [{"name": "a", "type": "string", "required": False}],
        "Line 1: the parameter 'a' has no default in the code, and `inputs` declares it as optional. Make them agree.",
    ),
    "required": (
        {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]},
        "Line 1: the parameter 'b' has a default in the code, and `inputs` declares it as required. Make them agree.",
    ),
    "default": (
        {"b": {"type": "integer", "default": 2}},
        "Line 1: the parameter 'b' has the default 1 in the code, and 2 in `inputs`. Make them agree.",
    ),
    "default of what is required": (
        {"a": {"type": "string", "default": "x"}},
        "Line 1: the parameter 'a' has no default in the code, and 'x' in `inputs`. Make them agree.",
    ),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_declaration_that_contradicts_the_code_is_refused(case: str) -> None:
    """Both sides are said."""
    inputs, message = CONTRADICTIONS[case]

    assert refusal("def total(a: str, b: int = 1, c: list[int] = []): ...", inputs=inputs) == message


OUTPUTS: dict[str, tuple[str, Any, Any]] = {
    "nothing": ("", None, None),
    "annotated": ("-> int", None, INTEGER),
    "a type": ("", "list[int]", {"type": "array", "items": INTEGER}),
    "a schema": (
        "-> dict",
        {"type": "object", "properties": {"n": INTEGER}},
        {"type": "object", "properties": {"n": INTEGER}},
    ),
    "a sentence": ("-> float", "The sum, in euros.", {"type": "number", "description": "The sum, in euros."}),
    "null": ("-> None", None, {"type": "null"}),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_output_is_what_code_and_declaration_say(case: str) -> None:
    """A type, a schema or a sentence."""
    returns, output, schema = OUTPUTS[case]

    assert read(f"def total() {returns}: ...", output=output).output_schema == schema


def test_output_that_contradicts_the_code_is_refused() -> None:
    """Both sides are said."""
    assert refusal("def total() -> int: ...", output="string") == (
        "The code says that the answer is integer, and it is declared as string. Make them agree."
    )


def test_name_that_nothing_defines_is_a_warning_in_a_function() -> None:
    """The function may never come to that line."""
    assert read("def total(a):\n    return a + b").warnings == ("Line 2: nothing defines 'b'.",)


# Scripts

SCRIPT = "result = {user: limit}"
SAME: dict[str, Any] = {
    "a schema": {
        "type": "object",
        "properties": {"user": {"type": "string"}, "limit": {"type": "integer", "default": 3}},
        "required": ["user"],
    },
    "a schema without `required`": {
        "type": "object",
        "properties": {"user": {"type": "string"}, "limit": {"type": "integer", "default": 3}},
    },
    "a schema without `type`": {"properties": {"user": {"type": "str"}, "limit": {"type": "int", "default": 3}}},
    "by name": {"user": "string", "limit": {"type": "integer", "default": 3}},
    "a list": [{"name": "user", "type": "str", "required": True}, {"name": "limit", "type": "int", "default": 3}],
}


@pytest.mark.parametrize("inputs", SAME.values(), ids=SAME)
def test_inputs_are_taken_in_every_form(inputs: Any) -> None:
    """All of these mean the same."""
    assert read(SCRIPT, inputs=inputs) == Reading(
        form="script",
        input_schema={
            "type": "object",
            "properties": {"user": STRING, "limit": {"type": "integer", "default": 3}},
            "required": ["user"],
            "additionalProperties": False,
        },
    )


def test_optional_input_without_a_default_is_null() -> None:
    """The variable exists, whether it was given or not."""
    inputs = [{"name": "user", "type": "string", "required": False}, {"name": "limit", "required": False}]

    assert read(SCRIPT, inputs=inputs).input_schema["properties"] == {
        "user": {"type": ["string", "null"], "default": None},
        "limit": {"default": None},
    }


def test_definitions_of_a_schema_are_kept() -> None:
    """`$ref` leads somewhere."""
    inputs = {"type": "object", "properties": {"u": {"$ref": "#/$defs/U"}}, "$defs": {"U": {"type": "string"}}}

    assert read("u", inputs=inputs).input_schema["$defs"] == {"U": {"type": "string"}}


def test_script_that_reads_what_nothing_defines_is_refused() -> None:
    """The line is named; builtins, imports, comprehensions, and what every script is given, are defined."""
    fine = """
    import json
    total = sum(n for n in context["rows"])
    class Row:
        def __init__(self): super().__init__(); __class__
    try:
        call_tool("mcp__bank__pay", {})
    except ToolError as error:
        print(error, [x := 1], x, __name__)
    match total:
        case {"a": first, **rest}: first, rest
        case [head, *tail]: head, tail
    result = json.dumps(total)
    """

    assert refusal("x = 1\nprint(x + user)\nuser, [limit for _ in ()]") == (
        "Line 2: the script reads names that nothing defines: 'user' (line 2), 'limit' (line 3)."
        " Declare them in `inputs`, or define them."
    )
    assert read(fine).warnings == ()
    assert read("from math import *\npi * radius").warnings == ()  # who knows what that defines


def test_declared_input_that_is_never_read_is_a_warning() -> None:
    """Unless the script may read it by another way."""
    said = [read(code, inputs={"user": "str"}).warnings for code in ("1", "user", "context['user']", "vars()['user']")]

    assert said == [("The input 'user' is declared and never read.",), (), (), ()]


BAD_INPUTS: dict[str, tuple[Any, str]] = {
    "no object": (
        "user",
        "`inputs` has to be an object or a list. Write it as {'user_id': 'string'} or as a JSON Schema.",
    ),
    "no type": (
        {"user": "uuid"},
        "The input 'user' has the type uuid, which JSON does not have."
        " Use string, integer, number, boolean, array, object, list[str], dict[str, int], str | None or any.",
    ),
    "a number for a type": (
        {"user": 3},
        "The input 'user' has no type. Write it as 'string', or as a JSON Schema.",
    ),
    "no name": (
        [{"type": "string"}],
        "Input 1 of `inputs` has no name. Write it as {'name': 'user_id', 'type': 'string'}.",
    ),
    "twice": (
        [{"name": "a", "type": "str"}, {"name": "a", "type": "int"}],
        "Two of the inputs have the same name. Leave one out.",
    ),
    "requires what is not there": (
        {"type": "object", "properties": {}, "required": ["a"]},
        "`inputs` requires 'a', which is not one of its properties. Add it there.",
    ),
    "no variable": (
        {"../a": "string"},
        "The input '../a' cannot be a variable of the code. Use another name, such as 'user_id'.",
    ),
    "a name of ours": (
        {"call_tool": "string"},
        "The input 'call_tool' cannot be a variable of the code. Use another name, such as 'user_id'.",
    ),
    "too many": (
        {f"a{number}": "string" for number in range(51)},
        "The skill has 51 inputs, and 50 are allowed. Take an object instead.",
    ),
    "too large": (
        {"a": {"type": "string", "description": "x" * 40_000}},
        "`inputs` has 40,040 bytes, and 32,768 are allowed. Describe it more briefly.",
    ),
    "no schema": (
        {"a": {"type": "string", "minLength": "x"}},
        "`inputs` is not a JSON Schema that can check values. Write it more plainly.",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_inputs_that_cannot_be_are_refused(case: str) -> None:
    """Each with what to do about it."""
    inputs, message = BAD_INPUTS[case]

    assert refusal("1", inputs=inputs) == message


def test_inputs_nested_without_end_are_refused() -> None:
    """As a schema, as an output and as a type."""
    deep: Any = {}
    for _ in range(5_000):
        deep = {"items": deep}
    bomb: Any = {"type": "string"}
    for _ in range(200):
        bomb = {"anyOf": [bomb, bomb]} if len(str(bomb)) < 8_000 else {"not": bomb}

    for declared in ({"inputs": {"a": deep}}, {"output": deep}, {"inputs": {"a": "list[" * 50 + "]" * 50}}):
        refusal("1", **declared)
    refusal("def total(a: " + "list[" * 50 + "int" + "]" * 50 + "): ...", inputs={"a": deep})
    refusal("1", inputs={"a": bomb})


# What the code uses


def test_tools_are_read_from_the_code_with_their_versions() -> None:
    """Both ways of calling a tool are one need; what cannot be known is a warning."""
    code = """
    from servers.bank import pay
    from skills import other
    def total(name: str):
        pay()
        call_tool("mcp__bank__pay", {})
        return call_tool(name), other()
    """

    found = read(code)

    assert found.tools == (ToolNeed(tool="mcp__bank__pay", version="1.1.0", digest="d2", lines=(1, 4, 5)),)
    assert found.skills == (Ref("other", None, (2, 6)),)
    assert found.warnings == ("Line 6: `call_tool` is called with a name that the code does not spell out.",)


def test_tool_that_does_not_exist_is_refused_with_its_line() -> None:
    """Whatever the way it is named."""
    assert [refusal("import servers.bank as b\n\nb.steal()"), refusal("\n\n1; call_tool('mcp__bank__steal')")] == [
        "Line 3: the code uses 'servers.bank.steal', and there is no such tool."
        " Call search_tools to find one that exists.",
        "Line 1: the code uses 'mcp__bank__steal', and there is no such tool."
        " Call search_tools to find one that exists.",
    ]


def test_code_over_the_limit_is_refused() -> None:
    """64 KiB, in bytes."""
    assert refusal("# " + "é" * (32 << 10)) == ("The code is larger than 65,536 bytes. Pass data in as inputs instead.")


@given(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    ),
)
def test_any_text_and_any_inputs_are_read_or_refused(code: str, inputs: Any) -> None:
    """Nothing but an answer or `InvalidSkill` comes out."""
    for declared in (
        {"inputs": inputs},
        {"output": inputs},
        {"inputs": {"properties": inputs}},
        {"inputs": {"a": inputs}},
    ):
        for text in (code, "1", "def total(a=1, **b): ..."):
            try:
                assert isinstance(read_skill("total", text, find=find, **declared), Reading)
            except InvalidSkill:
                pass


# Signatures


def signature(code: str, **declared: Any) -> str:
    """The signature of a skill."""
    found = read(code, **declared)
    return signature_of(
        Skill(
            namespace="local",
            name="total",
            code=code,
            input_schema=found.input_schema,
            output_schema=found.output_schema,
        )
    )


def test_signature_is_what_a_caller_needs() -> None:
    """Types, defaults and the answer, on one line."""
    assert [
        signature('def total(user_id: str, since: str = "2024-01-01") -> dict: ...'),
        signature("def total(rows: list[int], at=now(), **others) -> list: ..."),
        signature("def total(limit: int | None = None): ..."),
        signature("user", inputs={"user": "str"}, output="The sum."),
    ] == [
        'total(user_id: str, since: str = "2024-01-01") -> dict',
        "total(rows: list[int], at: Any = ..., **more) -> list",
        "total(limit: int | None = None)",
        "total(user: str)",
    ]


# The record

DAY = 86_400.0


def record(**changes: Any) -> SkillRecord:
    """A skill that nobody used, but for the changes."""
    return SkillRecord(**{"namespace": "local", "name": "total", "version": "1.0.0"} | changes)


def test_effectiveness_is_reuse_success_and_recency() -> None:
    """Four, four and two tenths."""
    now = 100 * DAY
    used = {"uses": 3, "calls": 10, "failures": 5}

    found = [
        record().effectiveness(now=now),
        record(**used, last_used_at=now - 7 * DAY).effectiveness(now=now),
        record(**used, last_used_at=now - 7 * DAY - 1).effectiveness(now=now),
        record(uses=1, calls=0, last_used_at=0.0).effectiveness(now=now),
        record(uses=97, calls=97, last_used_at=now).effectiveness(now=now),
    ]

    assert [round(value, 9) for value in found] == [0.0, 0.6, 0.4, 0.1, 0.988]


def test_judgement_needs_weakness_and_age() -> None:
    """A new skill that nobody used yet is kept, as is a weak one that was used a day ago."""
    now, good = 100 * DAY, record(uses=97, calls=97, last_used_at=100 * DAY)
    weak = record(uses=1, calls=1, failures=1, last_used_at=99 * DAY)

    found = [
        each.judge(modified_at=modified_at, now=now)
        for each, modified_at in ((record(), 0.0), (record(), 99 * DAY), (weak, 0.0), (good, 0.0))
    ]

    assert found == ["removable", "kept", "kept", "exemplary"]


def test_records_of_all_versions_are_combined() -> None:
    """Sums, and the version that was used last."""
    old = record(uses=2, calls=3, failures=1, seconds=0.5, last_used_at=10.0, principals=2, last_error="a")
    new = record(version="2.0.0", uses=1, calls=1, last_used_at=20.0, principals=1, translated=1)

    assert combined([new, old]) == {
        ("local", "total"): record(
            version="2.0.0",
            uses=3,
            calls=4,
            failures=1,
            seconds=0.5,
            last_used_at=20.0,
            principals=2,
            translated=1,
            last_error="a",
        )
    }
