"""Plans from one definition of a tool to another: their steps, what stops them, and calls and answers carried over."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.migration_world import BEFORE, CHANGES, FLAG, NUMBER, PARAMETERS, TEXT, make_spec

from sealyard.errors import InvalidRequest
from sealyard.values import ToolSpec
from sealyard.versioning.plan import (
    AddParameter,
    Obstacle,
    Plan,
    RemoveParameter,
    RenameField,
    RenameParameter,
    RenameTool,
    RetypeParameter,
    Step,
    Untranslatable,
    adapt_answer,
    make_plan,
    translate_answer,
    translate_arguments,
)
from sealyard.versioning.steps import fits, join_path, signature_names, split_path


def _described(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {**schema, "description": text}


SINCE = _described(TEXT, "The first day of the range, as an ISO date.")
NAME = _described(TEXT, "What the expense is called on the statement.")


def _answers(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"type": "object", "properties": item, "required": [*item]}}
        },
        "required": ["items"],
    }


@pytest.mark.parametrize(
    ("before", "after", "steps"),
    [
        (BEFORE, BEFORE, ()),
        (
            BEFORE,
            make_spec(PARAMETERS, ("user_id",), name="fetch", module="costs"),
            (RenameTool(full_name="mcp__costs__fetch", module="costs", function="fetch"),),
        ),
        (
            make_spec({"start_date": SINCE, "limit": NUMBER}),
            make_spec({"since_date": SINCE, "limit": NUMBER}),
            (RenameParameter(before="start_date", after="since_date"),),
        ),
        (make_spec({"a": TEXT, "b": NUMBER}), make_spec({"a": TEXT}), (RemoveParameter(name="b"),)),
        (
            make_spec({"a": TEXT}),
            make_spec({"a": TEXT, "mode": {"type": "string", "default": "all"}}, ("mode",)),
            (AddParameter(name="mode", value="all"),),
        ),
        (
            make_spec({"a": TEXT}),
            make_spec({"a": TEXT, "mode": {"const": [1, {"x": None}]}}, ("mode",)),
            (AddParameter(name="mode", value=[1, {"x": None}]),),
        ),
        (
            make_spec({"a": TEXT}),
            make_spec({"a": TEXT, "mode": {"enum": ["only"]}}, ("mode",)),
            (AddParameter(name="mode", value="only"),),
        ),
        (
            make_spec({"a": {"type": "integer", "default": 5}}),
            make_spec({"a": {"type": "integer", "default": 9}}, ("a",)),
            (AddParameter(name="a", value=5),),
        ),
        (make_spec({"a": TEXT}), make_spec({"a": NUMBER}), (RetypeParameter(name="a", to="integer"),)),
        (make_spec({"a": NUMBER}), make_spec({"a": TEXT}), (RetypeParameter(name="a", to="string"),)),
        (
            make_spec({"a": {"type": "number"}}),
            make_spec({"a": NUMBER}),
            (RetypeParameter(name="a", to="integer"),),
        ),
        (
            make_spec({}, output=_answers({"item_name": NAME, "id": NUMBER})),
            make_spec({}, output=_answers({"name_of_item": NAME, "id": NUMBER})),
            (RenameField(path="items[].item_name", after="name_of_item"),),
        ),
        (
            make_spec(
                {}, output={"type": "object", "properties": {"result": {"type": "array", "items": _answers({})}}}
            ),
            make_spec(
                {}, output={"type": "object", "properties": {"result": {"type": "array", "items": _answers({})}}}
            ),
            (),
        ),
    ],
)
def test_a_change_that_a_program_can_follow_becomes_a_step(
    before: ToolSpec, after: ToolSpec, steps: tuple[Step, ...]
) -> None:
    """Source: issue 5, item 7."""
    plan = make_plan(before, after)

    assert (plan.steps, plan.problems, plan.difficulty) == (steps, (), "mechanical")


def test_the_path_into_a_wrapped_list_begins_with_its_items() -> None:
    """Code gets to see what is in `result`, and so does the path."""

    def wrapped(item: dict[str, Any]) -> dict[str, Any]:
        rows = {"type": "array", "items": {"type": "object", "properties": item, "required": [*item]}}
        return {"type": "object", "properties": {"result": rows}, "required": ["result"]}

    plan = make_plan(
        make_spec({}, output=wrapped({"item_name": NAME})), make_spec({}, output=wrapped({"name_of_item": NAME}))
    )

    assert plan.steps == (RenameField(path="[].item_name", after="name_of_item"),)
    assert translate_answer(plan, [{"name_of_item": "x"}]) == [{"item_name": "x"}]


@pytest.mark.parametrize(
    ("before", "after", "side", "field", "difficulty"),
    [
        (BEFORE, None, "tool", "", "impossible"),
        (make_spec({}), make_spec({"a": TEXT}, ("a",)), "tool", "a", "impossible"),
        (make_spec({"a": TEXT}), make_spec({"a": TEXT}, ("a",)), "omitted", "a", "needs a look"),
        (make_spec({"a": TEXT}), make_spec({"a": {"type": "array", "items": TEXT}}), "input", "a", "needs a look"),
        (make_spec({"a": FLAG}), make_spec({"a": TEXT}), "input", "a", "needs a look"),
        (make_spec({"a": TEXT}), make_spec({"a": FLAG}), "input", "a", "needs a look"),
        (
            make_spec({"a": {"type": "string", "format": "date"}}),
            make_spec({"a": NUMBER}),
            "input",
            "a",
            "needs a look",
        ),
        (
            make_spec({"a": {"enum": ["low", "high"], "type": "string"}}),
            make_spec({"a": NUMBER}),
            "input",
            "a",
            "needs a look",
        ),
        (make_spec({"a": TEXT}), make_spec({"a": {"enum": ["x"]}}), "input", "a", "needs a look"),
        (
            make_spec({"a": {"type": "object", "properties": {"b": TEXT}}}),
            make_spec({"a": {"type": "object", "properties": {"b": NUMBER}}}),
            "input",
            "a",
            "needs a look",
        ),
        (
            make_spec({"place": TEXT}),
            make_spec({"zone": TEXT}),
            "input",
            "place",
            "needs a look",
        ),
        (
            make_spec({}, output=_answers({"a": TEXT, "b": TEXT})),
            make_spec({}, output=_answers({"a": TEXT})),
            "output",
            "items[].b",
            "needs a look",
        ),
        (make_spec({}, output=_answers({"a": TEXT})), make_spec({}), "output", "", "needs a look"),
    ],
)
def test_a_change_that_has_no_answer_is_an_obstacle(
    before: ToolSpec, after: ToolSpec | None, side: str, field: str, difficulty: str
) -> None:
    """It says which calls or which code it hits, and why. Source: issue 5, item 7."""
    plan = make_plan(before, after)

    assert [(each.side, each.field) for each in plan.obstacles] == [(side, field)]
    assert (plan.difficulty, len(plan.problems)) == (difficulty, 1)


def test_a_parameter_that_may_have_another_name_now_is_not_dropped() -> None:
    """Nothing tells whether `zone` stands for `place`, so a person has to. Source: our choice."""
    before, after = make_spec({"place": TEXT, "n": NUMBER}), make_spec({"zone": TEXT, "n": NUMBER})

    assert make_plan(before, after).steps == ()
    assert make_plan(before, after, renames={"place": "zone"}).steps == (RenameParameter(before="place", after="zone"),)
    assert make_plan(before, after, renames={"place": ""}).steps == (RemoveParameter(name="place"),)


def test_what_a_person_says_counts_for_more_than_any_guess() -> None:
    """Names of parameters, and of fields by their path; types that differ follow. Source: the contract."""
    before = make_spec({"start": TEXT, "other": TEXT}, ("start",), output=_answers({"name": TEXT, "kind": TEXT}))
    after = make_spec({"since": NUMBER, "other": TEXT}, ("since",), output=_answers({"title": TEXT, "kind": TEXT}))

    plan = make_plan(before, after, renames={"start": "since", "output.items[].name": "title"})

    assert plan.steps == (
        RenameParameter(before="start", after="since"),
        RenameField(path="items[].name", after="title"),
        RetypeParameter(name="start", to="integer"),
    )
    assert plan.problems == ()
    assert translate_arguments(plan, {"start": "5", "other": "x"}) == {"since": 5, "other": "x"}


@pytest.mark.parametrize("renames", [{"nothing": "since"}, {"start": "nothing"}])
def test_a_rename_of_what_is_not_there_is_refused(renames: dict[str, str]) -> None:
    """A typing error must not make a wrong migration."""
    with pytest.raises(InvalidRequest) as caught:
        make_plan(make_spec({"start": TEXT}), make_spec({"since": TEXT}), renames=renames)

    ((key, to),) = renames.items()
    assert str(caught.value) == (
        f"'mcp__expenses__list_expenses' cannot rename {key!r} to {to!r}: one of them is no parameter. "
        "The new definition has since."
    )


def test_keys_that_make_a_path_ambiguous_are_not_followed() -> None:
    """`a.b` may be a key or a field in a field."""
    odd = {"type": "object", "properties": {"x.y": {"type": "object", "properties": {"item_name": NAME}}}}
    new = {"type": "object", "properties": {"x.y": {"type": "object", "properties": {"name_of_item": NAME}}}}

    plan = make_plan(make_spec({}, output=odd), make_spec({}, output=new))

    assert (plan.steps, {(each.side, each.field) for each in plan.obstacles}) == ((), {("output", "")})


def test_parameters_have_the_names_and_the_order_of_the_function() -> None:
    """The catalog knows them; without it the schema's own names do."""
    spec = make_spec({"b-c": TEXT, "a": TEXT}, ("a",))

    plain = make_plan(spec, spec)
    spelled = make_plan(spec, spec, python_names=lambda each: {"a": "a", "b-c": "b_c"})

    assert list(plain.names_before.items()) == [("a", "a"), ("b-c", "b-c")]
    assert list(spelled.names_after.items()) == [("a", "a"), ("b-c", "b_c")]


def test_learned_shapes_stand_in_for_what_is_not_declared() -> None:
    """A tool without an output schema has one that was observed."""
    plan = make_plan(
        make_spec({}),
        make_spec({}),
        output_before=_answers({"item_name": NAME}),
        output_after=_answers({"name_of_item": NAME}),
    )

    assert plan.steps == (RenameField(path="items[].item_name", after="name_of_item"),)


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        ("start", {"user_id": "1", "start": "x"}, {"user_id": "1", "since": "x"}),
        ("swap", {"start": "x", "limit": 3}, {"since": "x", "start": 3}),
        ("rm_limit", {"user_id": "1", "limit": 3}, {"user_id": "1"}),
        ("add_last", {"user_id": "1"}, {"user_id": "1", "mode": 3}),
        ("req_limit", {"user_id": "1", "limit": 2}, {"user_id": "1", "limit": 2}),
        ("int_str", {"limit": 5}, {"limit": "5"}),
        ("int_str", {"limit": None}, {"limit": None}),
        ("str_int", {"user_id": "5"}, {"user_id": 5}),
        ("all", {}, {"tenant": "main"}),
        ("tool", {"unknown": 1}, {"unknown": 1}),
    ],
)
def test_an_old_call_is_translated_to_a_new_one(change: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    """By the schema's keys, as calls are sent. Source: issue 5, item 6."""
    assert translate_arguments(CHANGES[change], before) == after


@pytest.mark.parametrize(
    ("change", "arguments"),
    [
        ("str_int", {"user_id": "seven"}),
        ("str_int", {"user_id": "__PII_phone_3f9a1c20b7de__"}),
        ("str_int", {"user_id": ["7"]}),
        ("str_int", {"user_id": 7.5}),
        ("str_int", {"user_id": "9" * 10_000}),
        ("int_str", {"limit": True}),
        ("int_str", {"limit": 5.0}),
        ("str_int", {"user_id": "007"}),
        ("str_int", {"user_id": "+7"}),
        ("str_int", {"user_id": "1_000"}),
        ("str_int", {"user_id": " 7"}),
        ("str_int", {"user_id": "٧"}),
        ("int_str", {"limit": "__PII_phone_3f9a1c20b7de__"}),
        ("start", {"start": 1, "since": 2}),
        ("start", ["start"]),
        ("start", None),
    ],
)
def test_a_call_that_cannot_be_carried_over_is_refused(change: str, arguments: Any) -> None:
    """A token of a private value is opaque: nothing can be made of it but itself."""
    with pytest.raises(Untranslatable):
        translate_arguments(CHANGES[change], arguments)


@pytest.mark.parametrize(
    ("obstacle", "arguments", "fine"),
    [
        (Obstacle(side="tool", field="", reason="Gone."), {}, False),
        (Obstacle(side="input", field="start", reason="Changed."), {}, True),
        (Obstacle(side="input", field="start", reason="Changed."), {"start": "short"}, True),
        (Obstacle(side="input", field="start", reason="Changed."), {"start": "much too long"}, False),
        (Obstacle(side="input", field="", reason="Changed."), {"start": "x"}, True),
        (Obstacle(side="input", field="", reason="Changed."), {"other": 1}, False),
        (Obstacle(side="omitted", field="start", reason="Required."), {}, False),
        (Obstacle(side="omitted", field="start", reason="Required."), {"start": "x"}, True),
        (Obstacle(side="output", field="total", reason="Gone."), {}, True),
    ],
)
def test_an_obstacle_stops_the_calls_that_it_hits(obstacle: Obstacle, arguments: dict[str, Any], fine: bool) -> None:
    """A value that the new schema certainly takes is not hit by its change."""
    after = make_spec({"start": {"type": "string", "maxLength": 5}})
    before = make_spec({"start": TEXT})
    names = signature_names(before)
    plan = Plan(before=before, after=after, obstacles=(obstacle,), names_before=names, names_after=names)

    if fine:
        assert translate_arguments(plan, arguments) == arguments
    else:
        with pytest.raises(Untranslatable) as caught:
            translate_arguments(plan, arguments)
        assert str(caught.value) == f"This call of {before.full_name!r} cannot be translated: {obstacle.reason}"


def test_a_value_fits_if_the_new_schema_certainly_takes_it() -> None:
    """References are followed; what is gone takes nothing."""
    root = {"properties": {"a": {"$ref": "#/$defs/kind"}}, "$defs": {"kind": {"enum": ["x", "y"]}}}
    before = make_spec({"a": TEXT, "b": TEXT})
    after = ToolSpec(
        upstream="u",
        name="n",
        full_name="f",
        module="m",
        function="n",
        input_schema={"type": "object", **root},
        digest="",
    )
    plan = Plan(before=before, after=after, names_before=signature_names(before))

    assert [fits(plan, "a", "x"), fits(plan, "a", "z"), fits(plan, "b", "x")] == [True, False, False]


def test_answers_are_carried_over_in_both_directions() -> None:
    """Nested names, lists in lists, names that change places, and the order of keys. Source: issue 5, items 6 and 7."""
    plan = Plan(
        before=BEFORE,
        after=BEFORE,
        steps=(
            RenameField(path="items", after="rows"),
            RenameField(path="items[].name", after="title"),
            RenameField(path="items[].title", after="name"),
            RenameField(path="items[].tags[].{}.x", after="y"),
        ),
    )
    old = {"n": 1, "items": [{"name": "a", "title": "b", "tags": [{"k": {"x": 1}, "l": {"x": 2, "z": 3}}]}, "odd"]}
    new = {"n": 1, "rows": [{"title": "a", "name": "b", "tags": [{"k": {"y": 1}, "l": {"y": 2, "z": 3}}]}, "odd"]}

    assert adapt_answer(plan, old) == new
    assert translate_answer(plan, new) == old
    assert list(adapt_answer(plan, old)) == ["n", "rows"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["items", "name", "title", "rows", "x", ""]) | st.text(max_size=3), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(sorted(CHANGES)))
def test_any_junk_is_carried_over_or_refused(value: Any, change: str) -> None:
    """An answer of any shape has an answer; arguments of any shape are translated or refused."""
    plan = CHANGES[change]

    adapt_answer(plan, value)
    translate_answer(plan, value)
    try:
        translated = translate_arguments(plan, value)
    except Untranslatable:
        return
    assert isinstance(value, dict)
    assert isinstance(translated, dict)


@given(JSON)
def test_an_answer_comes_back_from_the_new_names_as_it_was(value: Any) -> None:
    """Unless it had the new names already."""
    plan = CHANGES["f_tags"]
    text = repr(value)
    if "rows" not in text and "label" not in text:
        assert translate_answer(plan, adapt_answer(plan, value)) == value


@given(JSON, JSON)
def test_any_two_definitions_have_a_plan(before: Any, after: Any) -> None:
    """Schemas are hostile text of the upstream."""
    specs = [
        ToolSpec(
            upstream="u",
            name="n",
            full_name="mcp__u__n",
            module="u",
            function="n",
            input_schema={"type": "object", "properties": schema, "required": schema},
            output_schema={"properties": schema},
            digest=repr(schema),
        )
        for schema in (before, after)
    ]

    assert make_plan(specs[0], specs[1]).difficulty in ("mechanical", "needs a look", "impossible")


@pytest.mark.parametrize("path", ["", "a", "[]", "a.b", "a[].b", "[].a", "a[][].b", "a{}.b", "{}", "{}[].x"])
def test_a_path_is_split_and_joined(path: str) -> None:
    """`[]` is an item, `{}` the value of any key."""
    assert join_path(split_path(path)) == path
