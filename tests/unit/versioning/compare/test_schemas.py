"""Schema comparison: what is proven compatible, what is not, and that no proof is ever wrong."""

import random
from typing import Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.versioning.compare.schema_cases import HOSTILE, TEXT, WHOLE, Drawn, an_object

from sealyard.versioning.compare.proof import Schema, is_proven

Verdict = Literal["compatible", "breaking"]


def input_verdict(before: Schema, after: Schema, *, top: bool = True) -> Verdict:
    """The verdict on what callers send: all that they could send before they can send after a change."""
    return "compatible" if is_proven(before, after, top=top) else "breaking"


def output_verdict(before: Schema, after: Schema) -> Verdict:
    """The verdict on what readers get: nothing that they could not get before a change."""
    return "compatible" if is_proven(after, before, keep="right") else "breaking"


def _node(name: str, value: dict[str, Any]) -> dict[str, Any]:
    """A linked list of values."""
    reference = {"$ref": f"#/$defs/{name}"}
    return {**reference, "$defs": {name: an_object({"value": value, "next": reference}, "value")}}


WIDENED: list[tuple[Schema, Schema]] = [
    (WHOLE, {"type": "number"}),
    (TEXT, {"type": ["string", "null"]}),
    (TEXT, {"anyOf": [TEXT, {"type": "null"}]}),
    (TEXT, {"type": "string", "nullable": True}),
    ({"type": "string", "nullable": True}, {"type": ["string", "integer", "null"]}),
    (TEXT, {}),
    (TEXT, True),
    (False, TEXT),
    ({"enum": ["a", "b"]}, {"enum": ["b", "c", "a"]}),
    ({"const": "a"}, {"enum": ["a", "b"]}),
    ({"type": "string", "enum": ["a"]}, TEXT),
    ({"type": "boolean"}, {"enum": [True, False, None]}),
    ({"enum": ["a", 1]}, {"anyOf": [TEXT, WHOLE, {"type": "null"}]}),
    ({"type": "integer", "minimum": 2}, {"type": "integer", "minimum": 1}),
    ({"type": "integer", "exclusiveMinimum": 1}, {"type": "number", "minimum": 2}),
    ({"type": "integer", "maximum": 9}, {"type": "integer", "exclusiveMaximum": 11}),
    ({"type": "integer", "multipleOf": 4}, {"type": "integer", "multipleOf": 2}),
    ({"type": "string", "minLength": 2, "maxLength": 5}, {"type": "string", "minLength": 1, "maxLength": 9}),
    ({"type": "string", "format": "date"}, TEXT),
    ({"type": "string", "pattern": "^a"}, TEXT),
    ({"type": "string", "pattern": "^a", "maxLength": 3}, {"type": "string", "pattern": "^a"}),
    ({"type": "array", "items": WHOLE}, {"type": "array", "items": {"type": "number"}}),
    ({"type": "array", "items": WHOLE, "minItems": 2, "maxItems": 3}, {"type": "array", "maxItems": 4}),
    ({"type": "array", "uniqueItems": True}, {"type": "array"}),
    ({"type": "array", "prefixItems": [WHOLE, TEXT], "items": False}, {"items": {"type": ["integer", "string"]}}),
    ({"type": "array", "prefixItems": [WHOLE]}, {"type": "array", "prefixItems": [{"type": "number"}]}),
    ({"anyOf": [TEXT, WHOLE]}, {"anyOf": [WHOLE, {"type": "null"}, TEXT]}),
    ({"anyOf": [TEXT, WHOLE]}, {"type": ["integer", "string", "null"]}),
    ({"type": ["integer", "string"]}, {"oneOf": [TEXT, {"type": "number"}]}),
    ({"oneOf": [TEXT, WHOLE]}, {"oneOf": [WHOLE, {"type": "null"}, TEXT]}),
    ({"allOf": [TEXT, {"minLength": 2}]}, {"type": "string", "minLength": 1}),
    (TEXT, {"not": {"type": "null"}}),
    ({"type": "object", "additionalProperties": WHOLE}, {"type": "object", "additionalProperties": {"type": "number"}}),
    ({"type": "object", "additionalProperties": WHOLE}, {"type": "object"}),
    (an_object({"a": TEXT}, "a"), an_object({"a": TEXT})),
    (an_object({"a": TEXT}, "a", additionalProperties=False), {"type": "object", "propertyNames": TEXT}),
    (
        {"oneOf": [an_object({"kind": {"const": "a"}, "x": WHOLE}, "kind")]},
        {
            "oneOf": [
                an_object({"kind": {"const": "a"}, "x": WHOLE}, "kind"),
                an_object({"kind": {"const": "b"}}, "kind"),
            ]
        },
    ),
]


@pytest.mark.parametrize(("narrow", "wide"), WIDENED)
def test_a_wider_input_is_compatible_and_a_wider_output_is_breaking(narrow: Schema, wide: Schema) -> None:
    """At any place in a schema, and the other way round for narrower ones. Source: issue 5."""
    one, other = an_object({"p": {"type": "array", "items": narrow}}, "p"), an_object({"p": {"items": wide}}, "p")
    other["properties"]["p"]["type"] = "array"

    assert input_verdict(one, other) == "compatible"
    assert output_verdict(one, other) == "breaking"
    assert input_verdict(other, one) == "breaking"
    assert output_verdict(other, one) == "compatible"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"anyOf": [TEXT, WHOLE]}, {"type": ["integer", "string"]}),
        ({"enum": [1, 2]}, {"enum": [2, 1.0]}),
        ({"type": "integer", "exclusiveMinimum": 4}, {"type": "integer", "minimum": 5}),
        ({"type": "str"}, TEXT),
        ({"const": "a"}, {"enum": ["a"]}),
        ({"allOf": [an_object({"a": TEXT}), an_object({"b": TEXT}, "a")]}, an_object({"a": TEXT, "b": TEXT}, "a")),
        (an_object({"a": TEXT}), an_object({"a": TEXT}, additionalProperties=False)),
        ({"title": "A", "description": "B", "default": 1, "examples": [1], **WHOLE}, WHOLE),
        ({"$ref": "#/$defs/A", "$defs": {"A": TEXT}}, {"$ref": "#/definitions/B", "definitions": {"B": TEXT}}),
        (_node("Node", TEXT), _node("Other", TEXT)),
        ({"if": TEXT, "then": {"minLength": 1}, "title": "A"}, {"then": {"minLength": 1}, "if": TEXT}),
        ({"patternProperties": {"^x-": TEXT}, "title": "A"}, {"patternProperties": {"^x-": TEXT}}),
    ],
)  # fmt: skip
def test_two_ways_to_write_the_same_are_compatible_both_ways(one: Schema, other: Schema) -> None:
    """Spelling is not a change. Source: our choice."""
    verdicts = [input_verdict(one, other, top=False), input_verdict(other, one, top=False)]

    assert [*verdicts, output_verdict(one, other), output_verdict(other, one)] == ["compatible"] * 4


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (TEXT, WHOLE),
        ({"enum": [1]}, {"enum": [True]}),
        ({"enum": [{"title": "a"}]}, {"enum": [{"title": "b"}]}),
        ({"oneOf": [TEXT]}, {"oneOf": [TEXT, TEXT]}),
        ({"oneOf": [WHOLE]}, {"oneOf": [WHOLE, {"type": "number"}]}),
        ({"type": "string", "nullable": True}, TEXT),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": "number", "minimum": 0.5}, {"type": "number", "exclusiveMinimum": 0.5}),
        ({"type": "number", "maximum": 0.5}, {"type": "number", "exclusiveMaximum": 0.5}),
        (TEXT, {"type": "string", "format": "date"}),
        (TEXT, {"type": "string", "pattern": "^a"}),
        (TEXT, {"allOf": [TEXT, {"not": {"const": "a"}}]}),
        ({"type": "array"}, {"type": "array", "uniqueItems": True}),
        ({"type": "array", "items": TEXT}, {"type": "array", "items": TEXT, "contains": {"const": "a"}}),
        ({"type": "object"}, an_object({"a": TEXT})),
        (an_object({"a": TEXT}, additionalProperties=True), an_object({"a": TEXT}, additionalProperties=False)),
        (an_object({"a": TEXT, "b": TEXT}), an_object({"a": TEXT})),
        (an_object({"a": TEXT}), an_object({"a": TEXT, "b": TEXT}, "b")),
        ({"$ref": "#/$defs/A", "$defs": {"A": TEXT}}, {"$ref": "#/$defs/A", "$defs": {"A": WHOLE}}),
        ({"$ref": "https://example.com/a"}, {"$ref": "https://example.com/b"}),
        (_node("Node", TEXT), _node("Node", WHOLE)),
        ({"$ref": "#"}, {"anyOf": [{"$ref": "#"}]}),
        (True, False),
        (an_object({}), an_object({}, unevaluatedProperties=False)),
    ],
)  # fmt: skip
def test_what_is_not_proven_is_breaking(before: Schema, after: Schema) -> None:
    """Among them look-alikes: `1` and `true`, `nullable` and null, the same reference to something else."""
    assert input_verdict(before, after, top=False) == "breaking"


def test_what_was_proven_on_an_assumption_that_fails_is_not_proven() -> None:
    """`y` was met while `x` was assumed to hold; it is asked for again after that turned out wrong."""
    links: list[dict[str, Any]] = [{"$ref": "#/$defs/Node"}, {"$ref": "#/$defs/Node"}]  # each is in two places
    before, after = (
        an_object({"y": link}, **{"$defs": {
            "Node": an_object({"next": {"$ref": "#/$defs/Holder"}}),
            "Holder": an_object({"node": link, "flag": flag}),
        }})
        for link, flag in zip(links, (TEXT, WHOLE), strict=True)
    )  # fmt: skip
    before["properties"] = {"x": {"$ref": "#/$defs/Node"}, **before["properties"]}
    after["properties"] = {"x": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "object"}]}, **after["properties"]}

    assert input_verdict(before, after) == "breaking"


def test_a_declared_key_may_be_added_but_not_dropped() -> None:
    """Undeclared keys are no part of the interface, so a new optional parameter narrows nothing. Source: our choice."""
    fewer, more = an_object({"a": TEXT}), an_object({"a": TEXT, "b": WHOLE})

    assert (input_verdict(fewer, more), input_verdict(more, fewer)) == ("compatible", "breaking")
    assert (output_verdict(fewer, more), output_verdict(more, fewer)) == ("compatible", "breaking")


def test_a_tool_without_declared_parameters_may_declare_some() -> None:
    """At the top, also a schema that declares no keys is a declaration; inside, it is a free object."""
    assert input_verdict({"type": "object"}, an_object({"a": TEXT})) == "compatible"
    assert input_verdict(an_object({"p": {"type": "object"}}), an_object({"p": an_object({"a": TEXT})})) == "breaking"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ({"items": [TEXT, WHOLE]}, {"items": [TEXT, {"type": "number"}]}, "compatible"),
        ({"items": [TEXT]}, {"items": [WHOLE]}, "breaking"),
        ({"prefixItems": [TEXT]}, {"prefixItems": [{}]}, "breaking"),
        ({"$ref": "#/d/A", "maxLength": 3}, {"type": "string", "maxLength": 3}, "breaking"),
        ({"$ref": "#/d/A", "maxLength": 3}, TEXT, "compatible"),
    ],
)
def test_an_older_draft_is_read_by_its_own_rules(
    before: dict[str, Any], after: dict[str, Any], verdict: Verdict
) -> None:
    """In draft 7 lists of `items` are positions, and what stands beside a `$ref` does not count."""
    draft = {"$schema": "http://json-schema.org/draft-07/schema#", "d": {"A": TEXT}}

    assert input_verdict({**draft, **before}, {**draft, **after}, top=False) == verdict


@settings(max_examples=600)
@given(st.integers(0, 2**32))
def test_a_compatible_verdict_is_never_wrong(seed: int) -> None:
    """What fitted the old input schema fits the new one, and what fits the new output schema fitted the old one."""
    drawn = Drawn(random.Random(seed))
    before = drawn.make()
    after = drawn.change(before)
    for left, right, verdict in (
        (before, after, input_verdict(before, after, top=False)),
        (after, before, output_verdict(before, after)),
    ):
        if verdict == "compatible":
            fits, still_fits = (jsonschema_rs.validator_for(each, validate_formats=True) for each in (left, right))
            values = [value for value in (drawn.value(left, left) for _ in range(12)) if fits.is_valid(value)]
            assert [value for value in values if not still_fits.is_valid(value)] == []


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_a_schema_is_compatible_with_itself(seed: int) -> None:
    """Also as a copy, with references that go in circles."""
    one, other = Drawn(random.Random(seed)).make(), Drawn(random.Random(seed)).make()

    assert (input_verdict(one, other), output_verdict(one, other)) == ("compatible", "compatible")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_gets_a_verdict_in_bounded_work(name: str) -> None:
    """It is breaking, or equal; it raises nothing, and the timeout of the suite bounds how long it takes."""
    before, after = HOSTILE[name]

    assert (input_verdict(before, after, top=False), input_verdict(after, after)) == ("breaking", "compatible")
    assert output_verdict(after, after) == "compatible"
    output_verdict(before, after)
