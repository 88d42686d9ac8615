"""Advice on failures that nobody has met: what the catalog, the answers and the code tell together."""

from typing import Any

import pytest
from tests.unit.learning.failure_runs import IMPORT, cause_of, make_call, make_run, make_spec, make_view

from sealyard.catalog import Snapshot
from sealyard.learning.failures import advice
from sealyard.values.facts import RunEvidence
from sealyard.values.tools import ToolAnnotations, ToolSpec

ROW = {"type": "object", "properties": {"amount": {"type": "number"}, "booked_on": {"type": "string"}}}
LISTED = {"type": "object", "properties": {"result": {"type": "array", "items": ROW}}}
PAGED = {"type": "object", "properties": {"items": {"type": "array", "items": ROW}, "next": {"type": "string"}}}


def told(run: RunEvidence, view: Snapshot | None = None, **fields: Any) -> str | None:
    """The advice on a run that failed."""
    cause = cause_of(run)
    assert cause is not None
    return advice(cause, run.code, view or make_view(), fields.pop("shapes", None), **fields)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("amout", "The nearest field is 'amount': list_bookings answers with amount, booked_on."),
        ("bookedOn", "The nearest field is 'booked_on': list_bookings answers with amount, booked_on."),
        ("colour", "list_bookings answers with amount, booked_on."),
        ("amount", "'amount' is not in every answer of list_bookings: read it with .get('amount')."),
    ],
)
def test_unknown_field_is_told_with_the_nearest_declared_one(field: str, text: str) -> None:
    """The declared shape of the answer is known where its value is not."""
    run = make_run(IMPORT + f'[each["{field}"] for each in list_bookings()]', ("KeyError", f"'{field}'"))

    assert told(run, make_view(make_spec(output_schema=LISTED))) == text


def test_unknown_field_is_told_with_the_nearest_of_the_answer_itself() -> None:
    """A tool that declares nothing has answered to this very run."""
    run = make_run(
        IMPORT + 'list_bookings()[0]["amout"]',
        ("KeyError", "'amout'"),
        calls=(make_call(answer=[{"amount": 1, "2024-01-01": 2, "Ada": 3}]),),
    )

    assert told(run) == "The nearest field is 'amount': list_bookings answers with amount."


def test_unknown_field_is_told_with_the_nearest_learned_one() -> None:
    """What was learned of the tool's answers counts like what it declares."""
    run = make_run(IMPORT + 'list_bookings()[0]["amout"]', ("KeyError", "'amout'"))

    def learned(spec: ToolSpec) -> dict[str, Any] | None:
        return {"type": "array", "items": ROW} if spec.function == "list_bookings" else None

    assert told(run, shapes=learned) == "The nearest field is 'amount': list_bookings answers with amount, booked_on."


@pytest.mark.parametrize(
    ("schema", "code", "text"),
    [
        (LISTED, "list_bookings()['amount']", "list_bookings answers with a list: loop over it, or take one with [0]."),
        (PAGED, "list_bookings()[0]", "list_bookings answers with an object; its list is in ['items']."),
        (PAGED, "list_bookings()['items']['amount']", None),
        (None, "list_bookings()['amount']", None),
    ],
)
def test_shape_of_the_answer_is_told(schema: dict[str, Any] | None, code: str, text: str | None) -> None:
    """Whether it is a list, or has one inside, unless the code goes there already."""
    run = make_run(IMPORT + code, ("TypeError", "list indices must be integers or slices, not str"))

    assert told(run, make_view(make_spec(output_schema=schema))) == text


def test_name_like_a_tool_is_told_with_its_import() -> None:
    """The function exists, but was not imported, or not spelled so."""
    run = make_run("rows = list_booking()", ("NameError", "name 'list_booking' is not defined"))

    assert told(run) == "If you mean the tool: `from servers.bank import list_bookings`."


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (
            "list_bookings(sinse='a')",
            ("TypeError", "got an unexpected keyword argument 'sinse'"),
            "Did you mean since=, not sinse=?",
        ),
        (
            "list_bookings(sinse='a')",
            ("LikelyToFail", "Line 2 gives bank.list_bookings a parameter that it does not have."),
            "Did you mean since=, not sinse=?",
        ),
        ("pay(amount=3)", ("LikelyToFail", "Line 2 calls bank.pay without what it needs: to."), "It also needs to."),
        ("list_bookings(colour='a')", ("TypeError", "got an unexpected keyword argument 'colour'"), None),
    ],
)
def test_wrong_parameter_is_told_with_the_right_one(code: str, error: tuple[str, str], text: str | None) -> None:
    """From the names in the code and in the schema, also before it was run."""
    pay = {"type": "object", "properties": {"to": {}, "amount": {}}, "required": ["to"]}

    assert told(make_run(IMPORT + code, error), make_view(make_spec(), make_spec("pay", input_schema=pay))) == text


def test_calls_that_wait_for_each_other_are_told_to_be_made_at_once() -> None:
    """A run that ran out of time in a loop over a tool."""
    run = make_run(
        IMPORT + "for n in range(9):\n    list_bookings(limit=n)", ("WallTimeExceeded", "x"), kind="wall_time"
    )

    assert told(run) == (
        "The calls of list_bookings wait for each other: `await asyncio.gather(*[list_bookings(…) for …])` makes them "
        "at once."
    )


def test_tool_that_answered_too_much_is_told_to_be_asked_for_less() -> None:
    """With the parameters that it has for that, and that were not used."""
    run = make_run(IMPORT + "rows = list_bookings()", ("MemoryExceeded", "x"), kind="memory")

    assert told(run) == "Ask list_bookings for less: it takes since=, limit=."


def test_value_that_does_not_exist_is_told_where_such_values_are() -> None:
    """Another tool of the server answers with a field of the parameter's name."""
    listed = make_spec("list_days", output_schema={"type": "object", "properties": {"since": {"type": "string"}}})
    run = make_run(
        IMPORT + 'list_bookings(since="never")',
        ("ToolFailed", "No such day was found."),
        calls=(make_call(error="ToolFailed: x", arguments={"since": "never"}),),
    )

    assert told(run, make_view(make_spec(), listed)) == "Values for since= are in what list_days answers."
    dangerous = make_spec(
        "list_days", output_schema=listed.output_schema, annotations=ToolAnnotations(destructive=True)
    )
    assert told(run, make_view(make_spec(), dangerous)) is None


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            "Rate limit exceeded",
            "Wait a little between calls (`time.sleep`), make fewer of them at once, and try again.",
        ),
        ("The date is malformed", "since= takes a date such as 2024-05-31."),
        ("At most 100 rows", "Pass less as limit=."),
        ("Internal error", None),
        ("Forbidden", None),
    ],
)
def test_complaint_of_a_tool_is_answered_from_its_schema(message: str, text: str | None) -> None:
    """What it complains about is told from its words, and what to do from the schema; never with its words."""
    schema = {
        "type": "object",
        "properties": {"since": {"type": "string", "format": "date"}, "limit": {"type": "integer"}},
    }
    run = make_run(
        IMPORT + "list_bookings(**given)",
        ("ToolFailed", message),
        calls=(make_call(error=f"ToolFailed: {message}", arguments={"since": "x", "limit": 500}),),
    )

    assert told(run, make_view(make_spec(input_schema=schema))) == text


def test_advice_that_is_said_already_is_not_repeated() -> None:
    """The failure's own hint comes first."""
    run = make_run(IMPORT + "list_bookings(sinse='a')", ("TypeError", "got an unexpected keyword argument 'sinse'"))

    assert told(run, said="Did you mean since=, not sinse=? It takes since, limit.") is None
