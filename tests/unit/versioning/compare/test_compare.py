"""What changed about a tool, how much its version rises, and which new name stands for an old one."""

import itertools
import random
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.versioning.compare.schema_cases import HOSTILE, TEXT, WHOLE, Drawn, an_object

from sealyard.values.changes import BreakingChange, Change, ChangeKind, Deprecation, Severity
from sealyard.values.tools import ToolAnnotations, ToolSpec
from sealyard.versioning.compare import find_renamed
from sealyard.versioning.compare.comparison import compare

NUMBERS = itertools.count()


def _said(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description}


def _tool(input_schema: Any = None, *, name: str = "list_expenses", **more: Any) -> ToolSpec:
    schema = an_object({}) if input_schema is None else input_schema
    return ToolSpec(
        upstream="office",
        name=name,
        full_name=f"mcp__office__{name}",
        module="office",
        function=name,
        input_schema=schema,
        digest=str(next(NUMBERS)),
        **more,
    )


def _kinds(before: ToolSpec, after: ToolSpec, **more: Any) -> list[tuple[ChangeKind, str, Severity]]:
    return [(change.kind, change.field, change.severity) for change in compare(before, after, **more).changes]


DAY = _said(TEXT, "First day of the range.")
PART = {"$ref": "#/$defs/P"}
PARTS = an_object({"one": {"anyOf": [PART, {"type": "null"}]}, "two": PART})
INPUTS: list[tuple[dict[str, Any], dict[str, Any], list[tuple[ChangeKind, str, Severity]]]] = [
    (an_object({"a": TEXT}), an_object({"a": TEXT}), []),
    (an_object({"a": TEXT}), an_object({"a": _said(TEXT, "Which one.")}), [("text", "a", "patch")]),
    (an_object({"a": TEXT}), an_object({"a": TEXT, "b": TEXT}), [("parameter_added", "b", "minor")]),
    (
        an_object({"a": TEXT}),
        an_object({"a": TEXT, "b": TEXT}, "b"),
        [("parameter_added", "b", "major"), ("parameter_moved", "", "minor")],
    ),
    (an_object({"a": TEXT, "b": TEXT}), an_object({"a": TEXT}), [("parameter_removed", "b", "major")]),
    (an_object({"a": TEXT}), an_object({"a": WHOLE}), [("parameter_retyped", "a", "major")]),
    (an_object({"a": TEXT}), an_object({"a": TEXT}, "a"), [("parameter_required", "a", "major")]),
    (an_object({"a": TEXT}, "a"), an_object({"a": TEXT}), [("parameter_optional", "a", "minor")]),
    (an_object({"a": WHOLE}), an_object({"a": {"type": "number"}}), [("parameter_widened", "a", "minor")]),
    (an_object({"a": {"enum": ["x", "y"]}}), an_object({"a": {"enum": ["x"]}}), [("parameter_narrowed", "a", "major")]),
    (
        an_object({"a": {**WHOLE, "default": 1}}),
        an_object({"a": {**WHOLE, "default": 2}}),
        [("default_changed", "a", "minor")],
    ),
    (an_object({"a": TEXT, "b": TEXT}), an_object({"b": TEXT, "a": TEXT}), [("parameter_moved", "", "minor")]),
    (an_object({"a": TEXT}), an_object({"a": TEXT}, additionalProperties=False), [("parameter_narrowed", "", "patch")]),
    (
        an_object({"a": TEXT}, additionalProperties=True),
        an_object({"a": TEXT}, additionalProperties=False),
        [("parameter_narrowed", "", "major")],
    ),
    ({"properties": {"a": TEXT}}, {"properties": {"a": WHOLE}}, [("parameter_retyped", "a", "major")]),
    (
        an_object({"filter": an_object({"tags": {"type": "array", "items": an_object({"name": TEXT})}})}),
        an_object({"filter": an_object({"tags": {"type": "array", "items": an_object({"name": WHOLE})}})}),
        [("parameter_retyped", "filter.tags[].name", "major")],
    ),
    (
        an_object({"labels": {"type": "object", "additionalProperties": TEXT}}),
        an_object({"labels": {"type": "object", "additionalProperties": WHOLE}}),
        [("parameter_retyped", "labels{}", "major")],
    ),
    (
        {**PARTS, "$defs": {"P": an_object({"x": TEXT})}},
        {**PARTS, "$defs": {"P": an_object({"x": WHOLE})}},
        [("parameter_retyped", "one.x", "major"), ("parameter_retyped", "two.x", "major")],
    ),
    (
        an_object({"a": an_object({"b": TEXT})}),
        an_object({"a": {**an_object({"b": TEXT}), "type": ["object", "null"], "minProperties": 1}}),
        [("parameter_widened", "a", "minor"), ("parameter_narrowed", "a", "major")],
    ),
    (
        an_object({"a": {"type": "object"}}),
        an_object({"a": an_object({"b": TEXT})}),
        [("parameter_narrowed", "a.b", "major")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "changes"), INPUTS)
def test_a_changed_input_schema_is_named_field_by_field(
    before: dict[str, Any], after: dict[str, Any], changes: list[tuple[ChangeKind, str, Severity]]
) -> None:
    """With the severity of DESIGN section 10."""
    assert _kinds(_tool(before), _tool(after)) == changes


OUTPUTS: list[tuple[dict[str, Any] | None, dict[str, Any] | None, list[tuple[ChangeKind, str, Severity]]]] = [
    (None, an_object({"a": TEXT}), [("output_declared", "", "minor")]),
    (an_object({"a": TEXT}), None, [("output_undeclared", "", "major")]),
    (an_object({"a": TEXT}), an_object({"a": TEXT, "b": TEXT}), [("output_added", "b", "minor")]),
    (
        an_object({"a": TEXT}, additionalProperties=False),
        an_object({"a": TEXT, "b": TEXT}, additionalProperties=False),
        [("output_added", "b", "minor")],
    ),
    (an_object({"a": TEXT, "b": WHOLE}), an_object({"a": TEXT}), [("output_removed", "b", "major")]),
    (an_object({"a": TEXT}), an_object({"a": WHOLE}), [("output_retyped", "a", "major")]),
    (an_object({"a": TEXT}, "a"), an_object({"a": TEXT}), [("output_optional", "a", "major")]),
    (an_object({"a": TEXT}), an_object({"a": TEXT}, "a"), [("output_required", "a", "minor")]),
    (an_object({"a": WHOLE}), an_object({"a": {"type": "number"}}), [("output_widened", "a", "major")]),
    (an_object({"a": {"enum": ["x", "y"]}}), an_object({"a": {"enum": ["x"]}}), [("output_narrowed", "a", "minor")]),
    (
        an_object({"a": {"pattern": "a", **TEXT}}),
        an_object({"a": {"pattern": "b", **TEXT}}),
        [("output_unknown", "a", "major")],
    ),
    (
        an_object({"result": {"type": "array", "items": an_object({"a": TEXT}, "a")}}),
        an_object({"result": {"type": "array", "items": an_object({"a": TEXT})}}),
        [("output_optional", "[].a", "major")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "changes"), OUTPUTS)
def test_a_changed_output_schema_is_named_field_by_field(
    before: dict[str, Any] | None, after: dict[str, Any] | None, changes: list[tuple[ChangeKind, str, Severity]]
) -> None:
    """By what code gets to see: a lone `result` is taken off."""
    assert _kinds(_tool(output_schema=before), _tool(output_schema=after)) == changes


def test_learned_shapes_stand_in_for_undeclared_ones_and_promise_less() -> None:
    """That an answer is more than was seen breaks nothing; that what was always seen is gone does."""
    before = an_object({"id": WHOLE, "name": TEXT, "note": TEXT}, "id", "name")
    after = an_object({"id": {"type": "number"}}, "id")
    learned = {"output_before": before, "output_after": after}

    assert _kinds(_tool(), _tool(), **learned) == [
        ("output_widened", "id", "minor"),
        ("output_removed", "name", "major"),
        ("output_removed", "note", "minor"),
    ]


def test_texts_names_and_effects_of_the_tool_itself() -> None:
    """Text is a patch, more effect is minor, another name is major."""
    before = _tool(title="Expenses", description="Lists them.", annotations=ToolAnnotations(read_only=True))
    after = _tool(
        name="show_expenses",
        title="All expenses",
        description="Lists them all.",
        annotations=ToolAnnotations(read_only=False, idempotent=True),
    )

    assert [
        (change.kind, change.before, change.after, change.severity) for change in compare(before, after).changes
    ] == [
        ("tool_renamed", "mcp__office__list_expenses", "mcp__office__show_expenses", "major"),
        ("text", "Expenses", "All expenses", "patch"),
        ("text", "Lists them.", "Lists them all.", "patch"),
        ("annotations", "read_only: yes", "read_only: no", "minor"),
        ("annotations", "idempotent: unsaid", "idempotent: yes", "patch"),
    ]


def test_the_bump_is_the_highest_and_breaking_changes_come_with_advice() -> None:
    """`breaking` is a view of the major changes."""
    comparison = compare(
        _tool(an_object({"start": DAY, "limit": TEXT}), output_schema=an_object({"n": TEXT}, "n")),
        _tool(an_object({"since": DAY, "limit": WHOLE}), output_schema=an_object({"n": TEXT})),
    )

    assert comparison.bump == "major"
    assert comparison.breaking == (
        BreakingChange(
            field="start",
            old_type="start",
            new_type="since",
            reason="Renamed to 'since'.",
            migration_code="since=start",
        ),
        BreakingChange(
            field="limit",
            old_type="string",
            new_type="integer",
            reason="It takes values of another type.",
            migration_code="limit=int(limit)",
        ),
        BreakingChange(
            field="output.n",
            old_type="required",
            new_type="optional",
            reason="It can be missing from an answer now.",
            migration_code=".get('n')",
        ),
    )


def test_new_announcements_of_an_end_are_deprecations() -> None:
    """By a sentence in a description, or by a flag; one that stood there before is no news."""
    before = _tool(an_object({"a": TEXT, "b": TEXT, "c": _said(TEXT, "Deprecated.")}), description="Reads a file.")
    after = _tool(
        an_object(
            {
                "a": _said(
                    TEXT, "A path. Deprecated since 2.1, use `path` instead. It will be removed in version 3.0."
                ),
                "b": {**TEXT, "deprecated": True},
                "c": _said(TEXT, "Deprecated."),
            }
        ),
        description="Reads a file. DEPRECATED: Use read_text_file instead.",
    )

    comparison = compare(before, after)

    assert comparison.bump == "patch"
    assert comparison.deprecations == (
        Deprecation(field="", replacement="read_text_file", guidance="DEPRECATED: Use read_text_file instead."),
        Deprecation(
            field="a",
            replacement="path",
            removed_in="3.0",
            guidance="Deprecated since 2.1, use `path` instead. It will be removed in version 3.0.",
        ),
        Deprecation(field="b", guidance="It is marked as deprecated."),
    )


def _renamed(old: dict[str, Any], new: dict[str, Any], **more: Any) -> list[tuple[str, str, bool]]:
    changes = compare(_tool(an_object(old, **more)), _tool(an_object(new, **more))).changes
    return [
        (change.field, change.replacement.name, change.replacement.is_proven)
        for change in changes
        if change.replacement is not None
    ]


SURE_RENAMES = [
    ({"start": DAY}, {"since": DAY}),
    ({"startDate": TEXT}, {"start_date": TEXT}),
    ({"repo": TEXT}, {"repository": TEXT}),
    ({"username": TEXT}, {"userName": _said(TEXT, "Who.")}),
    ({"max_num": WHOLE}, {"maximumNumber": WHOLE}),
    ({"q": _said(TEXT, "What to search for.")}, {"query": _said(TEXT, "What to search for.")}),
    (
        {"start": DAY, "end": _said(TEXT, "Last day of the range.")},
        {"until": _said(TEXT, "Last day of the range."), "since": DAY},
    ),
]


@pytest.mark.parametrize(("old", "new"), SURE_RENAMES)
def test_the_same_schema_with_the_same_description_or_words_is_surely_the_same_field(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    """Of parameters and of fields of the answer."""
    found = _renamed(old, new)
    changes = compare(_tool(output_schema=an_object(old)), _tool(output_schema=an_object(new))).changes

    assert [sure for *_, sure in found] == [True] * len(old)
    assert [(change.kind, change.field) for change in changes if change.replacement] == [
        ("output_renamed", name) for name, *_ in found
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"city": _said(TEXT, "Where the office is.")}, {"colour": _said(TEXT, "What it is painted with.")}),
        ({"city": TEXT}, {"colour": TEXT}),
        ({"start": DAY}, {"since": _said(WHOLE, DAY["description"])}),
        ({"userId": WHOLE}, {"user_id": TEXT}),
        ({"start": _said(TEXT, "A day of the range.")}, {"end": _said(TEXT, "A day of the range.")}),
        ({"min_size": WHOLE}, {"max_size": WHOLE}),
        ({"include_drafts": _said(TEXT, "About the drafts.")}, {"exclude_drafts": _said(TEXT, "About the drafts.")}),
        ({"timeout": _said(WHOLE, "How long to wait.")}, {"timeout_ms": _said(WHOLE, "How long to wait.")}),
        ({"delay": _said(WHOLE, "To wait, in seconds.")}, {"pause": _said(WHOLE, "To wait, in milliseconds.")}),
        ({"line1": _said(TEXT, "A line of the address.")}, {"line2": _said(TEXT, "A line of the address.")}),
        ({"user": TEXT}, {"username": TEXT}),
        ({"tag": TEXT}, {"tags": TEXT}),
        ({"id": _said(TEXT, "The id")}, {"key": _said(TEXT, "The id")}),
        ({"kept": DAY, "start": DAY}, {"kept": DAY, "since": DAY}),
    ],
)  # fmt: skip
def test_a_doubtful_replacement_is_never_sure(old: dict[str, Any], new: dict[str, Any]) -> None:
    """A wrong guess would make a wrong migration: types, units, opposites and common texts count against it."""
    assert [sure for *_, sure in _renamed(old, new) if sure] == []


def test_two_close_candidates_are_none() -> None:
    """Which of them it is, only a person knows."""
    assert _renamed({"id": DAY}, {"user_id": DAY, "team_id": DAY}) == []
    assert _kinds(_tool(an_object({"id": TEXT})), _tool(an_object({"user_id": TEXT, "team_id": TEXT}))) == [
        ("parameter_removed", "id", "major"),
        ("parameter_added", "user_id", "minor"),
        ("parameter_added", "team_id", "minor"),
    ]


def test_a_rename_that_demands_more_is_not_sure() -> None:
    """An optional parameter that is required under its new name; a field that may be missing under its new one."""
    optional, required = an_object({"startDate": TEXT}), an_object({"start_date": TEXT}, "start_date")
    always, seldom = an_object({"startDate": TEXT}, "startDate"), an_object({"start_date": TEXT})
    calls = compare(_tool(optional), _tool(required))
    answers = compare(_tool(output_schema=always), _tool(output_schema=seldom))

    assert [
        (change.kind, change.replacement.is_proven)
        for change in (*calls.changes, *answers.changes)
        if change.replacement is not None
    ] == [("parameter_renamed", False), ("output_renamed", False)]


def test_a_tool_under_a_new_name_is_recognised() -> None:
    """By its parameters and its description or the words of its name; the texts of parameters do not count."""
    shape = an_object({"user": TEXT, "limit": WHOLE}, "user")
    said = "Lists the expenses of one person in a range of days."
    gone = [_tool(shape, name="list_expenses", description=said), _tool(an_object({}), name="getStatus")]
    came = [
        _tool(an_object({"user": _said(TEXT, "Who.")}), name="expenses_v2", description="Sums up expenses."),
        _tool(an_object({}), name="get_status"),
        _tool(an_object({"user": _said(TEXT, "Who."), "limit": WHOLE}, "user"), name="find_costs", description=said),
    ]

    found = find_renamed(gone, came)

    assert [(old.name, new.name, guess.name) for old, new, guess in found] == [
        ("list_expenses", "find_costs", "mcp__office__find_costs"),
        ("getStatus", "get_status", "mcp__office__get_status"),
    ]


def test_a_tool_that_only_looks_alike_is_not_the_same() -> None:
    """Other verbs, other effects, a description that others share, another upstream, or two of a kind."""
    shape = an_object({"id": TEXT}, "id")
    said = "Works on one expense report of the person who is signed in."
    gone = _tool(shape, name="get_report", description=said)
    deleted = _tool(shape, name="delete_report", description=said)
    changed = _tool(shape, name="report", description=said, annotations=ToolAnnotations(destructive=True))
    fetched = _tool(shape, name="fetch_report", description=said)
    other = msgspec.structs.replace(fetched, upstream="elsewhere")

    def sure(*came: ToolSpec, kept: tuple[ToolSpec, ...] = ()) -> list[str]:
        return [new.name for _, new, _ in find_renamed([gone], came, kept=kept)]

    assert sure(fetched) == ["fetch_report"]
    assert sure(deleted) == []
    assert sure(changed) == []
    assert sure(other) == []
    assert sure(fetched, msgspec.structs.replace(fetched, name="retrieve_report")) == []
    assert sure(_tool(shape, name="report", description=said), kept=(deleted,)) == []
    assert sure(_tool(an_object({"id": WHOLE}, "id"), name="fetch_report", description=said)) == []


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_a_change_that_is_not_major_breaks_no_call_and_no_reader(seed: int) -> None:
    """Values for the old input fit the new one, and values of the new output fit the old one."""
    drawn = Drawn(random.Random(seed))
    before = an_object({"p": drawn.make()}, "p")
    after = an_object({"p": drawn.change(before["properties"]["p"])}, "p")
    for schema in (before, after):
        schema["$defs"] = schema["properties"]["p"].pop("$defs")
    for left, right, comparison in (
        (before, after, compare(_tool(before), _tool(after))),
        (after, before, compare(_tool(output_schema=before), _tool(output_schema=after))),
    ):
        # What is new in an answer may be forbidden by the old schema; readers ignore it.
        is_closed = left is after and "'additionalProperties': False" in repr(before)
        if comparison.bump != "major" and not is_closed:
            fits, still_fits = (jsonschema_rs.validator_for(each, validate_formats=True) for each in (left, right))
            values = [value for value in (drawn.value(left, left) for _ in range(8)) if fits.is_valid(value)]
            assert [value for value in values if not still_fits.is_valid(value)] == []


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_definition_is_compared_in_bounded_work(name: str) -> None:
    """What cannot be judged counts as changed; nothing is raised, and the list of changes stays short."""
    before, after = HOSTILE[name]
    one, other = _tool(before, output_schema=after), _tool(after, output_schema=before)

    comparison = compare(one, other)

    assert comparison.bump == "major"
    assert len(comparison.changes) <= 2_002
    assert len(find_renamed([one], [other])) <= 1


def test_many_parameters_with_long_texts_are_compared_in_bounded_work() -> None:
    """All are new names: no guess is made where there are too many pairs."""
    old, new = (
        {f"{letter}{number}": _said(TEXT, f"{letter} of it. " * 1_000) for number in range(200)}
        for letter in ("k", "j")
    )

    kinds = [change.kind for change in compare(_tool(an_object(old)), _tool(an_object(new))).changes]

    assert (kinds.count("parameter_removed"), kinds.count("parameter_added")) == (200, 200)


def test_equal_definitions_have_no_changes() -> None:
    """However large: the digest says it."""
    huge = _tool(HOSTILE["too many parts"][0], output_schema=HOSTILE["too many parts"][0])

    assert compare(huge, msgspec.structs.replace(huge)).changes == ()


def test_a_change_can_be_stored() -> None:
    """As JSON, and read again."""
    comparison = compare(_tool(an_object({"startDate": TEXT})), _tool(an_object({"start_date": TEXT})))

    assert msgspec.json.decode(msgspec.json.encode(comparison.changes), type=tuple[Change, ...]) == comparison.changes
