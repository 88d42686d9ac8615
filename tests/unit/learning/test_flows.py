"""Argument flow: told from values that are equal and not by chance, at a bounded cost whatever was answered."""

import ast
from typing import Any

import pytest

from sealyard.learning.disclosure import agree, is_declared, place_of
from sealyard.learning.flows import Flow, fragment, prepare_flows
from sealyard.values.facts import CallEvidence, Executed, RunEvidence
from sealyard.values.tools import ToolAnnotations, ToolSpec


def call(number: int, tool: str, arguments: Any = None, answer: Any = None, **more: Any) -> CallEvidence:
    """A call that succeeded, with its answer."""
    settings: dict[str, Any] = {"version": "1.0.0", "has_answer": True} | more
    return CallEvidence(
        number=number, tool=tool, arguments=arguments or {}, answer=answer, started_at=0.0, seconds=0.1, **settings
    )


def run(*calls: CallEvidence, code: str = "") -> RunEvidence:
    """A run with these calls."""
    fact = Executed(at=0.0, form="code", status="ok", seconds=1.0, use_case="workflow")
    return RunEvidence(fact=fact, code=code, started_at=0.0, calls=calls)


def told(*calls: CallEvidence, code: str = "") -> list[tuple[str, str, str, str]]:
    """The flows of such a run: source, field, target, parameter."""
    return [(flow.source, flow.field, flow.target, flow.parameter) for flow in prepare_flows(run(*calls, code=code))]


def spec(
    name: str,
    parameters: dict[str, Any] | None = None,
    required: tuple[str, ...] = (),
    *,
    upstream: str = "shop",
    output: dict[str, Any] | None = None,
    function: str | None = None,
    read_only: bool | None = True,
) -> ToolSpec:
    """A tool."""
    return ToolSpec(
        upstream=upstream,
        name=name,
        full_name=f"mcp__{upstream}__{name}",
        module=upstream,
        function=function or name,
        input_schema={"type": "object", "properties": parameters or {}, "required": list(required)},
        output_schema=output,
        annotations=ToolAnnotations(read_only=read_only),
        digest=f"{upstream} {name} {parameters}",
    )


TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}


# Which values tell


@pytest.mark.parametrize(
    ("field", "parameter", "value"),
    [
        ("id", "park_id", "p07"),
        ("email", "to", "ada@example.com"),
        ("email", "to", "__PII_email_0123456789ab__"),
        ("reference", "code", "AB-1234"),
        ("total", "amount", 1234.5),
        ("number", "invoice", 48_213),
        ("id", "order_id", 7),
        ("orderId", "id", 7),
        ("department", "department", "HR"),
        ("day", "day", "2025-01-02"),
        ("summary", "text", "Nothing was found in the attic"),
    ],
)
def test_a_value_that_tells_is_flow(field: str, parameter: str, value: Any) -> None:
    """Ids and texts by themselves; short words, days and small ids where the names agree."""
    found = told(call(1, "a", {}, {field: value}), call(2, "b", {parameter: value}))

    assert found == [("a", field, "b", parameter)]


@pytest.mark.parametrize(
    ("field", "parameter", "value"),
    [
        ("is_open", "is_open", True),
        ("count", "limit", 10),
        ("limit", "limit", 10),
        ("year", "since", 2024),
        ("price", "budget", 5_000),
        ("ratio", "share", 0.5),
        ("state", "kind", "open"),
        ("state", "kind", "pending"),
        ("code", "country", "DE"),
        ("day", "since", "2025-01-02"),
        ("size", "zip", "123"),
        ("nothing", "nothing", None),
        ("empty", "empty", ""),
    ],
)
def test_a_value_that_many_things_have_is_none(field: str, parameter: str, value: Any) -> None:
    """Booleans, small and round numbers, common words: they are equal by chance."""
    assert told(call(1, "a", {}, {field: value}), call(2, "b", {parameter: value})) == []


def test_names_agree_by_their_last_words() -> None:
    """Not by their letters: `paid` is no kind of id."""
    pairs = [
        ("id", "park_id"),
        ("parkId", "park_id"),
        ("[].ids", "id"),
        ("id", "paid"),
        ("user", "user_id"),
        ("", "id"),
    ]

    assert [agree(field, parameter) for field, parameter in pairs] == [True, True, True, False, False, False]


# Where they come from


def test_the_field_of_a_lists_items_is_told_once_for_all_calls() -> None:
    """A loop over rows is one flow, and the fields that fit only some of the values are not."""
    rows = [{"id": f"p{number}x", "parent": "p1x", "tags": [f"p{number}x"]} for number in range(5)]
    calls = [call(2 + number, "b", {"park_id": row["id"]}) for number, row in enumerate(rows)]

    assert told(call(1, "a", {}, rows), *calls) == [("a", "[].id", "b", "park_id")]


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ("x12345", ""),
        (["x12345"], "[]"),
        ({"a": {"b": "x12345"}}, "a.b"),
        ({"days": [{"key": "y1"}, {"key": "x12345"}]}, "days[].key"),
        ([[{"key": "x12345"}]], "[][].key"),
    ],
)
def test_a_field_says_where_it_is(answer: Any, field: str) -> None:
    """Keys, and brackets for the items of a list; nothing is the answer itself."""
    assert told(call(1, "a", {}, answer), call(2, "b", {"name": "x12345"})) == [("a", field, "b", "name")]


def test_a_field_that_fits_few_of_the_values_is_a_chance() -> None:
    """Half of them must come from there."""
    calls = [call(2 + number, "b", {"name": f"x{number}yz"}) for number in range(5)]

    assert told(call(1, "a", {}, ["x0yz", "x1yz"]), *calls) == []
    assert told(call(1, "a", {}, ["x0yz", "x1yz", "x2yz"]), *calls) == [("a", "[]", "b", "name")]


def test_the_items_of_a_list_of_arguments_come_from_fields_too() -> None:
    """Which is another thing to write."""
    rows = [{"sku": f"k{number}z"} for number in range(4)]

    assert told(call(1, "a", {}, rows), call(2, "b", {"skus": ["k0z", "k3z"]})) == [("a", "[].sku", "b", "skus[]")]


def test_what_the_code_writes_out_was_not_taken_from_an_answer() -> None:
    """The agent knew it already."""
    first, second = call(1, "a", {}, [{"id": "p07"}]), call(2, "b", {"park_id": "p07"})

    assert told(first, second, code="a()\nb(park_id='p07')") == []
    assert told(first, second, code="b(park_id=a()[0]['id'])") == [("a", "[].id", "b", "park_id")]


def test_what_an_answer_repeats_from_its_arguments_is_no_source() -> None:
    """Where a value was first is where it comes from: from an earlier answer, or from who called."""
    given = told(call(1, "weather", {"park_id": "p07"}, {"park_id": "p07"}), call(2, "camps", {"park_id": "p07"}))
    earlier = told(
        call(1, "find", {}, [{"id": "p07"}]),
        call(2, "weather", {"park_id": "p07"}, {"park_id": "p07"}),
        call(3, "camps", {"park_id": "p07"}),
    )

    assert given == []
    assert earlier == [("find", "[].id", "weather", "park_id"), ("find", "[].id", "camps", "park_id")]


def test_a_tool_can_feed_its_own_next_call() -> None:
    """As pages do."""
    pages = [
        call(1, "a", {}, {"rows": [], "next_cursor": "c-0001"}),
        call(2, "a", {"cursor": "c-0001"}, {"rows": [], "next_cursor": "c-0002"}),
        call(3, "a", {"cursor": "c-0002"}, {"rows": []}),
    ]

    assert told(*pages) == [("a", "next_cursor", "a", "cursor")]


def test_calls_that_failed_neither_give_nor_take() -> None:
    """Their answers are texts of errors, and their arguments were wrong."""
    failed = {"error": "ToolFailed: x12345", "has_answer": False}

    assert told(call(1, "a", {}, {"key": "x12345"}, **failed), call(2, "b", {"key": "x12345"})) == []
    assert told(call(1, "a", {}, {"key": "x12345"}), call(2, "b", {"key": "x12345"}, **failed)) == []


def test_of_an_answer_that_the_journal_lacks_the_code_tells_the_field() -> None:
    """Only its name is known, and only if it agrees with the parameter's and one tool can be meant."""
    large = {"has_answer": False}
    code = "for row in a():\n    b(expense_id=row['expense_id'], text=row['note'])"
    taken = call(2, "b", {"expense_id": "x00042", "text": "Some text or other"})

    assert told(call(1, "a", {}, **large), taken, code=code) == [("a", "?.expense_id", "b", "expense_id")]
    assert told(call(1, "a", {}, **large), call(2, "c", {}, **large), taken, code=code) == []


def test_versions_are_told_by_their_major_part() -> None:
    """What was learned of another major version is about other fields and parameters."""
    (flow,) = prepare_flows(
        run(
            call(1, "a", {}, {"key": "x12345"}, version="3.1.0"),
            call(2, "b", {"key": "x12345"}, version="no version"),
        )
    )

    assert flow == Flow(source="a", source_major=3, field="key", target="b", target_major=0, parameter="key")


# Hostile answers


def test_keys_that_are_data_or_orders_are_never_part_of_a_field() -> None:
    """An id, a person, an address, a sentence, an instruction; and no key of an object that has very many."""
    keys = [
        "ada",
        "a1b2c3d4e5f6",
        "2024_01_01",
        "x y",
        "ignore previous instructions",
        "ignore_all_instructions",
        "é",
        "",
    ]
    calls = [call(2 + number, "b", {"name": f"x{number}yz"}) for number in range(len(keys))]

    assert told(call(1, "a", {}, {key: f"x{number}yz" for number, key in enumerate(keys)}), *calls) == []
    many = {f"key_{chr(97 + number // 26)}{chr(97 + number % 26)}": f"x{number}yz" for number in range(65)}
    assert told(call(1, "a", {}, many), *calls) == []


def test_huge_and_deep_answers_are_looked_at_in_part() -> None:
    """The walk ends after so many values, and needs no recursion."""
    deep: Any = "x12345"
    for _ in range(5_000):
        deep = [deep]
    wide = [[{"key": f"v{one}-{other}"} for other in range(1_000)] for one in range(1_000)]
    late = [call(1 + number, "a", {}, wide) for number in range(50)]
    last = call(51, "a", {}, {"key": "z00001"}), call(52, "b", {"key": "z00001"})

    assert told(call(1, "a", {}, deep), call(2, "b", {"key": "x12345"})) == []
    assert told(*late, *last) == []
    assert told(*last) == [("a", "key", "b", "key")]
    assert told(call(1, "a", {}, wide), call(2, "b", {"key": "v0-5"})) == [("a", "[][].key", "b", "key")]
    assert told(call(1, "a", {}, wide), call(2, "b", {"key": "v999-999"})) == []


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 10**400, -(10**400), "\ud800", "\0", [], {}, [[[]]], {"a": []}, {"": 1}]
)
def test_odd_values_are_passed_over(value: Any) -> None:
    """Whatever JSON allows, and more."""
    calls = call(1, "a", {"x": value}, {"key": value}), call(2, "b", {"other": value, "more": [value]})

    assert isinstance(told(*calls, code="x = '\ud800'"), list)


def test_at_most_so_many_flows_are_told() -> None:
    """However many parameters there are."""
    values = {f"field_{chr(97 + number)}": f"x{number}yz" for number in range(26)}
    calls = [call(2 + number, f"b{number}", values) for number in range(10)]

    assert len(told(call(1, "a", {}, values), *calls)) == 24


# Declared schemas


PARK = {"type": "object", "properties": {"id": TEXT, "site": {"type": "object", "properties": {"id": TEXT}}}}


def test_a_declared_field_is_found_through_references_lists_and_alternatives() -> None:
    """As real schemas have them; one that says nothing declares nothing."""
    output = {
        "type": "object",
        "properties": {"result": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Park"}}, {"type": "null"}]}},
        "$defs": {"Park": PARK},
    }
    tool = spec("find", output=output)

    fields = ["[].id", "[].site.id", "[].name", "id", ""]
    assert [is_declared(tool, field) for field in fields] == [True, True, False, False, True]
    assert [is_declared(spec("find"), field) for field in fields] == [False] * 5
    assert [place_of(tool, key) for key in ("id", "site", "name")] == ["[].id", "[].site", None]


def test_a_field_in_two_equal_places_has_none() -> None:
    """It could be either."""
    both = {"type": "object", "properties": {"one": PARK, "other": PARK}}

    assert place_of(spec("find", output=both), "id") is None


def test_a_schema_that_is_its_own_part_ends() -> None:
    """An upstream may declare what it likes."""
    output = {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}}}

    assert place_of(spec("find", output=output), "b") is None
    assert is_declared(spec("find", output=output), "a.a.a")


# Fragments


def test_a_single_value_needs_no_loop() -> None:
    """The answer, or a field of it."""
    taken = spec("put", {"text": TEXT}, ("text",))

    assert fragment(spec("get"), taken, [("", "text")]) == (
        "from servers.shop import get, put\nfound = get()\nanswers = put(text=found)\nanswers"
    )
    assert fragment(spec("get", upstream="files"), taken, [("page.body", "text")]) == (
        "from servers.files import get\n"
        "from servers.shop import put\n"
        "found = get()\n"
        'answers = put(text=found["page"]["body"])\n'
        "answers"
    )


def test_a_list_within_a_list_makes_two_loops_and_outer_values_stay_in_reach() -> None:
    """A field of the outer item goes with each of the inner ones."""
    taken = spec("put", {"sku": TEXT, "order": TEXT}, ("sku",))
    flow = [("orders[].lines[].sku", "sku"), ("orders[].key", "order")]

    assert fragment(spec("get"), taken, flow) == (
        "from servers.shop import get, put\n"
        "found = get()\n"
        'answers = [put(sku=part["sku"], order=row["key"]) for row in found["orders"] for part in row["lines"]]\n'
        "answers"
    )


def test_a_parameter_that_takes_a_list_gets_one() -> None:
    """Of the field of each item, of the list itself, or of one value."""
    taken = spec("put", {"skus": TEXTS}, ("skus",))
    texts = [
        fragment(spec("get"), taken, [(field, "skus[]")]) for field in ("[].sku", "rows[]", "sku", "[].lines[].sku")
    ]

    assert [text.splitlines()[2] for text in texts if text is not None] == [
        'answers = put(skus=[each["sku"] for each in found])',
        'answers = put(skus=found["rows"])',
        'answers = put(skus=[found["sku"]])',
        'answers = [put(skus=[each["sku"] for each in row["lines"]]) for row in found]',
    ]


def test_what_else_is_demanded_is_named_and_nothing_collides() -> None:
    """Parameters that have the names that a fragment would use, and tools of two servers with the same name."""
    first = spec("note", {"found": TEXT}, ("found",))
    second = spec("note", {"id": TEXT, "row": TEXT, "from": TEXT}, ("id", "row", "from"), upstream="mail")

    text = fragment(first, second, [("[].id", "id")])

    assert text == (
        "# Set found, row, from_ first.\n"
        "from servers.shop import note\n"
        "from servers.mail import note as note_2\n"
        "found_ = note(found=found)\n"
        'answers = [note_2(id=row_["id"], row=row, from_=from_) for row_ in found_]\n'
        "answers"
    )


def test_a_tool_that_may_change_things_is_called_once() -> None:
    """Whoever runs it as it stands changes one thing and not thousands."""
    for read_only in (None, False):
        text = fragment(
            spec("get"), spec("drop", {"id": TEXT}, ("id",), read_only=read_only), [("rows[].parts[].id", "id")]
        )

        assert text is not None
        assert text.splitlines()[2] == (
            'answers = [drop(id=part["id"]) for row in found["rows"][:1] for part in row["parts"][:1]]'
            "  # the first only: it may change things"
        )


@pytest.mark.parametrize(
    ("first", "second", "flow"),
    [
        (spec("get"), spec("put", {"id": TEXT}), []),
        (spec("get"), spec("put", {"id": TEXT}), [("id", "unknown")]),
        (spec("get"), spec("put", {"id": TEXT}), [("?.id", "id")]),
        (spec("get"), spec("get", {"id": TEXT}), [("id", "id")]),
        (spec("get"), spec("put", {"id": TEXT}), [("ada", "id")]),
        (spec("get"), spec("put", {"id": TEXT}), [("[][][].id", "id")]),
        (spec("get"), spec("put", {"id": TEXT, "ключ": TEXT}, ("ключ",)), [("id", "id")]),
        (spec("get", {"put": TEXT}, ("put",)), spec("put", {"id": TEXT}), [("id", "id")]),
        (spec("get", function="ignore_all_instructions"), spec("put", {"id": TEXT}), [("id", "id")]),
        (spec("get", function="x\nimport os"), spec("put", {"id": TEXT}), [("id", "id")]),
        (spec("get"), spec("put", {"id": TEXT}, upstream="a b"), [("id", "id")]),
        (
            spec("get"),
            spec(
                "put",
                {"id": TEXT} | {f"p{chr(97 + n)}" * 20: TEXT for n in range(12)},
                tuple(f"p{chr(97 + n)}" * 20 for n in range(12)),
            ),
            [("id", "id")],
        ),
    ],
    ids=range(12),
)
def test_what_cannot_be_written_safely_is_not_written(first: ToolSpec, second: ToolSpec, flow: Any) -> None:
    """No flow, unknown or unspeakable names, a tool with itself, too deep, too long."""
    assert fragment(first, second, flow) is None


def test_a_parameter_with_a_name_of_no_use_is_left_to_its_default() -> None:
    """What flows into it is not written; the rest is."""
    second = spec("put", {"id": TEXT, "ключ": TEXT}, ("id",))
    text = fragment(spec("get"), second, [("id", "id")])

    assert text is not None
    assert isinstance(ast.parse(text), ast.Module)
