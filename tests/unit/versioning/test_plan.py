"""Plans from one definition of a tool to another: their steps, what stops them, and calls and answers carried over."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.versioning.migration_world import BEFORE, CHANGES, FLAG, NUMBER, PARAMETERS, TEXT, make_spec

from sealyard.errors import InvalidRequest
from sealyard.values.tools import ToolSpec
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
    fits,
    make_plan,
    signature_names,
    split_path,
    translate_answer,
    translate_arguments,
)


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
        f"'mcp__expenses__list_expenses' cannot rename {key!r} to {to!r}: one of them is not a parameter. "
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
        ("str_int", {"user_id": "\u0667"}),
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


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("", ""),
        ("a", "a"),
        ("[]", "[]"),
        ("a.b", "a b"),
        ("a[].b", "a [] b"),
        ("[].a", "[] a"),
        ("a[][].b", "a [] [] b"),
        ("a{}.b", "a {} b"),
        ("{}", "{}"),
        ("{}[].x", "{} [] x"),
    ],
)
def test_a_path_is_split_into_steps(path: str, steps: str) -> None:
    """`[]` is an item, `{}` the value of any key."""
    assert split_path(path) == tuple(steps.split())


def _with(**properties: dict[str, Any]) -> ToolSpec:
    return make_spec(properties)


_ADDRESS = _described(TEXT, "Street, number and city on one line.")
_FIRST, _LAST = _described(TEXT, "Where the journey begins."), _described(TEXT, "The place it leads to.")
_MAYBE: dict[str, Any] = {"type": "null"}
UNPROVEN = {
    "a counterpart with the same text": (_with(billing=_ADDRESS), _with(shipping=_ADDRESS), {"billing": "x"}),
    "one letter for another": (
        _with(x=_described(NUMBER, "Coordinate in the picture.")),
        _with(y=_described(NUMBER, "Coordinate in the picture.")),
        {"x": 1},
    ),
    "a text that names both": (
        _with(email=_described(TEXT, "Either an email or a phone.")),
        _with(phone=_described(TEXT, "Either an email or a phone.")),
        {"email": "x"},
    ),
    "letters of another case": (_with(t=NUMBER), _with(T=NUMBER), {"t": 1}),
    "names that differ by a sign": (make_spec({"a<": NUMBER}), make_spec({"a>": NUMBER}), {"a<": 1}),
    "names that differ by a joint": (_with(x1_1=NUMBER), _with(x11=NUMBER), {"x1_1": 1}),
    "an abbreviation of two words": (_with(desc=TEXT), _with(description=TEXT), {"desc": "x"}),
    "texts that say the opposite": (
        _with(q=_described(TEXT, "Rows deleted since")),
        _with(query=_described(TEXT, "Rows not deleted since")),
        {"q": "x"},
    ),
    "two gone and one new": (
        _with(paint=_described(TEXT, "What it is painted with."), form=TEXT),
        _with(shape=_described(TEXT, "How it looks.")),
        {"paint": "x", "form": "y"},
    ),
    "names exchanged": (_with(a=_FIRST, b=_LAST), _with(a=_LAST, b=_FIRST), {"a": "x"}),
    "names shifted": (_with(a=_FIRST, b=_LAST), _with(b=_FIRST, c=_LAST), {"b": "x"}),
    "another unit": (
        _with(wait=_described(NUMBER, "How long, in seconds.")),
        _with(wait=_described({**NUMBER, "maximum": 9_999}, "How long, in milliseconds.")),
        {"wait": 5},
    ),
    "an alias that is retired": (
        _with(since=SINCE, start=_described(TEXT, "Deprecated: use `since` instead.")),
        _with(since=SINCE),
        {"start": "x"},
    ),
    "a twin that stays": (_with(since=SINCE, start=SINCE), _with(since=SINCE), {"start": "x"}),
    "a field that takes over": (
        _with(mode=TEXT, options={"type": "object", "properties": {"a": TEXT}}),
        _with(options={"type": "object", "properties": {"a": TEXT, "mode": TEXT}}),
        {"mode": "x"},
    ),
    "a parameter that takes more": (
        _with(tag=TEXT, tags={"type": "array", "items": TEXT}),
        _with(tag={"anyOf": [TEXT, {"type": "array", "items": TEXT}]}),
        {"tags": ["x"]},
    ),
    "a text that speaks of it": (
        _with(page_size=NUMBER, cursor=_described(TEXT, "Where to go on.")),
        _with(cursor=_described(TEXT, "Where to go on; it holds `page_size` too.")),
        {"page_size": 5},
    ),
    "a default that does not fit": (
        make_spec({"a": {**TEXT, "default": None}}),
        make_spec({"a": {**TEXT, "default": None}}, ("a",)),
        {},
    ),
    "one choice where nothing was given": (
        make_spec({"confirm": {"const": True}}),
        make_spec({"confirm": {"const": True}}, ("confirm",)),
        {},
    ),
    "a new default for what had none": (
        make_spec({"n": NUMBER}),
        make_spec({"n": {**NUMBER, "default": 9}}, ("n",)),
        {},
    ),
    "a type that is described anew": (
        _with(grade=_described(NUMBER, "From 1 to 6.")),
        _with(grade=_described(TEXT, "Such as good or poor.")),
        {"grade": 1},
    ),
    "a number that becomes a time": (
        _with(at={"anyOf": [NUMBER, _MAYBE]}),
        _with(at={"anyOf": [{**TEXT, "format": "date-time"}, _MAYBE]}),
        {"at": 1_700_000_000},
    ),
    "a number that becomes a choice": (
        _with(kind={"anyOf": [NUMBER, _MAYBE]}),
        _with(kind={"anyOf": [{"enum": ["x", "y"], "type": "string"}, _MAYBE]}),
        {"kind": 1},
    ),
    "a flag that becomes a number": (_with(retry=FLAG), _with(retry=NUMBER), {"retry": True}),
    "a number that becomes a flag": (_with(desc={**NUMBER, "enum": [0, 1]}), _with(desc=FLAG), {"desc": 1}),
    "a number with two forms": (_with(price={"type": "number"}), _with(price=TEXT), {"price": 12.0}),
    "a version that looks like a number": (_with(a=TEXT), _with(a={"type": "number"}), {"a": "1.10"}),
    "a number out of its new bounds": (_with(a=TEXT), _with(a={**NUMBER, "maximum": 10}), {"a": "11"}),
    "a key inside that is gone": (
        _with(filter={"type": "object", "properties": {"since": TEXT}}),
        _with(filter={"type": "object", "properties": {"after": TEXT}}),
        {"filter": {"since": "x"}},
    ),
    "a key that was not declared": (_with(a=TEXT), _with(a=TEXT, mode=NUMBER), {"mode": "x"}),
}


@pytest.mark.parametrize("name", UNPROVEN)
def test_a_call_is_not_translated_by_a_guess(name: str) -> None:
    """What the definitions do not prove is refused, whatever names, types and defaults suggest. Source: issue 14."""
    before, after, arguments = UNPROVEN[name]

    with pytest.raises(Untranslatable):
        translate_arguments(make_plan(before, after), arguments)


PROVEN: dict[str, tuple[ToolSpec, ToolSpec, dict[str, Any], dict[str, Any]]] = {
    "another spelling": (
        _with(startDate=TEXT),
        _with(start_date=_described(TEXT, "Anew.")),
        *({"startDate": "x"}, {"start_date": "x"}),
    ),
    "a text that says the old name": (
        _with(width=_described(NUMBER, "The width of the frame.")),
        _with(zephyr=_described(NUMBER, "the  width of the frame")),
        *({"width": 5}, {"zephyr": 5}),
    ),
    "a text that says the new name": (
        _with(limit=_described(NUMBER, "Maximum of results wanted.")),
        _with(max_results=_described(NUMBER, "Maximum of results wanted.")),
        *({"limit": 5}, {"max_results": 5}),
    ),
    "words for one side": (_with(since=SINCE), _with(start_date=SINCE), *({"since": "x"}, {"start_date": "x"})),
    "a shortened name": (
        _with(q=_described(TEXT, "What to look for.")),
        _with(query=_described(TEXT, "What to look for.")),
        *({"q": "x"}, {"query": "x"}),
    ),
    "what the old text says": (
        _with(begin=_described(TEXT, "Deprecated: use `since` instead.")),
        _with(since=SINCE),
        *({"begin": "x"}, {"since": "x"}),
    ),
    "a default that is a list": (
        make_spec({"tags": {"type": "array", "items": TEXT, "default": []}}),
        make_spec({"tags": {"type": "array", "items": TEXT, "default": []}}, ("tags",)),
        *({}, {"tags": []}),
    ),
    "a default of a format": (
        make_spec({}),
        make_spec({"day": {**TEXT, "format": "date", "default": "2024-01-01"}}, ("day",)),
        *({}, {"day": "2024-01-01"}),
    ),
    "a number as text": (
        _with(a={"anyOf": [TEXT, _MAYBE]}),
        _with(a={"anyOf": [NUMBER, _MAYBE]}),
        *({"a": "-7"}, {"a": -7}),
    ),
    "a fraction as text": (_with(a={"type": "number"}), _with(a=TEXT), *({"a": 1.5}, {"a": "1.5"})),
    "a key inside that stays": (
        _with(filter={"type": "object", "properties": {"since": TEXT, "kind": TEXT}}),
        _with(filter={"type": "object", "properties": {"after": TEXT, "kind": TEXT}}),
        *({"filter": {"kind": "x"}}, {"filter": {"kind": "x"}}),
    ),
    "a pattern that stays": (
        _with(a={**TEXT, "pattern": "^[a-z]+$"}),
        _with(a={**TEXT, "pattern": "^[a-z]+$", "maxLength": 9}),
        *({"a": "abc"}, {"a": "abc"}),
    ),
}


@pytest.mark.parametrize("name", PROVEN)
def test_a_call_is_translated_where_the_definitions_prove_how(name: str) -> None:
    """Refusing more than that would break skills for nothing."""
    before, after, given_, expected = PROVEN[name]

    assert translate_arguments(make_plan(before, after), given_) == expected


@pytest.mark.parametrize("odd", [{"anyOf": 5, **TEXT}, {"oneOf": "x", **TEXT}, {"allOf": {}, **TEXT}, {"enum": 3}])
def test_a_definition_that_is_not_a_schema_has_a_plan(odd: dict[str, Any]) -> None:
    """Upstreams declare what they like, and every import of a skill that needs the tool makes a plan."""
    plans = [make_plan(_with(a=one), _with(a=other)) for one, other in ((odd, NUMBER), (TEXT, odd))]

    assert [len(plan.steps) + len(plan.obstacles) <= 1 for plan in plans] == [True, True]


def test_an_argument_that_is_nested_too_deeply_to_be_judged_is_refused() -> None:
    """Agent code nests as it likes."""
    plan = make_plan(_with(a={"type": "array"}), _with(a={"type": "array", "maxItems": 5}))
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]

    with pytest.raises(Untranslatable, match="cannot be translated"):
        translate_arguments(plan, {"a": deep})


def test_a_field_of_the_answer_that_means_something_else_is_an_obstacle() -> None:
    """Descriptions that change places, and other units, are changes though names and types stay."""
    swapped = make_plan(
        make_spec({}, output=_answers({"a": _FIRST, "b": _LAST})),
        make_spec({}, output=_answers({"a": _LAST, "b": _FIRST})),
    )
    euros, cents = (_described(NUMBER, f"What it costs, in {unit}.") for unit in ("euros", "cents"))
    scaled = make_plan(
        make_spec({}, output=_answers({"price": euros})), make_spec({}, output=_answers({"price": cents}))
    )

    assert [(each.side, each.field) for each in swapped.obstacles] == [("output", "items[].a"), ("output", "items[].b")]
    assert [(each.side, each.field) for each in scaled.obstacles] == [("output", "items[].price")]
