"""What is taken for the repair of a failure: the same job again, and not whatever went well next."""

from typing import Any

import msgspec
import pytest
from tests.unit.learning.failure_runs import IMPORT, World, cause_of, make_call, make_run
from tests.unit.learning.repair_sessions import sessions

from sealyard.values.facts import CallEvidence, RunEvidence

Taught = set[tuple[str, str, str, str]]

REPORT = (
    IMPORT
    + 'rows = list_bookings(account_name="savings", limit=50)\nnames = [row["label"] for row in rows]\nprint(names)'
)
WRONG = ("InvalidArguments", "mcp__bank__list_bookings: 'account_name' is not one of its parameters.")
RENAMED = ("param_renamed", "bank.list_bookings", "account_name", "account")
REFUSED = make_call(error=": ".join(WRONG), arguments={"account_name": "savings", "limit": 50})
ACCEPTED = make_call(arguments={"account": "savings", "limit": 50}, answer=[{"label": "Rent"}])


def failed(code: str = REPORT) -> RunEvidence:
    """A run that named a parameter wrongly."""
    return make_run(code, WRONG, line=2, calls=(REFUSED,))


def taught(world: World) -> Taught:
    """Every fix that is remembered."""
    records = [record for group in world.failures.groups.values() for record in group.values()]
    return {(each.edit.kind, each.edit.tool, each.edit.name, each.edit.to) for each in records}


def test_repairs_that_are_taught_are_true_and_few_are_missed() -> None:
    """In a population of failures, other jobs, looks, partial rewrites and repairs, nearly all that is taught is true.

    Of a thousand sessions, 97 in 100 fixes must be what repaired the failure, and 97 in 100 repairs must be found.
    """
    true = false = found = repaired = 0
    for session in sessions(11, 1_000):
        world = World()
        world.learn(*session.runs)
        fixes = taught(world)
        true += len(fixes & session.truth)
        false += len(fixes - session.truth)
        repaired += session.is_repaired
        found += session.is_repaired and bool(fixes & session.truth)

    assert repaired > 400
    assert true / (true + false) >= 0.97
    assert found / repaired >= 0.97


@pytest.mark.parametrize(
    ("then", "given"),
    [
        (
            'spent = list_bookings(since="2023-01-05", limit=3)\nprint(sum(row["cents"] for row in spent))',
            {"since": "2023-01-05", "limit": 3},
        ),
        (
            'rows = list_bookings(account="rent", limit=20)\nprint(max(rows, key=lambda row: row["cents"])["note"])',
            {"account": "rent", "limit": 20},
        ),
        ("pay(limit=4)\nprint(list_bookings(limit=9)[0])", {"limit": 9}),
        ('x = list_bookings(account="savings", limit=50)\nif x:\n    x.sort()', {"account": "savings", "limit": 50}),
    ],
    ids=["other arguments", "other values", "other tool", "other code"],
)
def test_other_job_with_the_same_tool_renames_no_parameter(then: str, given: dict[str, Any]) -> None:
    """That a later run happens to pass another parameter says nothing of the one that was wrong."""
    world = World()
    world.learn(failed(), make_run(IMPORT + then, at=60.0, calls=(make_call(arguments=given),)))

    assert taught(world) == set()


@pytest.mark.parametrize(
    ("look", "calls"),
    [
        ("print(list_bookings.__doc__)", ()),
        ("print(list_bookings()[0])", (make_call(answer=[{"account": "rent"}]),)),
        ('print(search_tools(query="bookings"))', ()),
        ('print(pay(account="savings"))', (make_call("mcp__bank__pay", arguments={"account": "savings"}),)),
    ],
)
def test_look_is_no_repair_and_the_run_that_follows_it_is(look: str, calls: tuple[CallEvidence, ...]) -> None:
    """Whoever fails looks first what there is, and repairs it then."""
    world = World()
    world.learn(failed(), make_run(IMPORT + look, at=60.0, calls=calls))
    after_look = taught(world)
    world.learn(make_run(REPORT.replace("account_name", "account"), at=120.0, calls=(ACCEPTED,)))

    assert (after_look, taught(world)) == (set(), {RENAMED})


@pytest.mark.parametrize(
    "repaired",
    [
        REPORT.replace("account_name", "account"),
        REPORT.replace("account_name", "account").replace("rows", "found"),
        REPORT.replace("account_name", "account") + "\nprint(names[:3])\nprint('done')",
        IMPORT + "def load():\n    return list_bookings(account='savings', limit=50)\nrows = load()\n"
        "names = [row['label'] for row in rows]\nprint(names)",
    ],
)
def test_repair_is_found_however_it_is_written(repaired: str) -> None:
    """Other names for variables, a function or more output make it no other job."""
    world = World()
    world.learn(failed(), make_run(repaired, at=60.0, calls=(ACCEPTED,)))

    assert taught(world) == {RENAMED}


def test_parameter_that_got_what_the_wrong_one_had_is_the_one_that_was_meant() -> None:
    """Where two came, the value tells which of them took its place."""
    message = "mcp__bank__list_bookings: 'account_name' is not one of its parameters."
    given, then = {"account_name": "savings"}, {"holder": "savings", "limit": 50}
    world = World()
    world.learn(
        make_run(
            IMPORT + 'rows = list_bookings(account_name="savings")',
            ("InvalidArguments", message),
            calls=(make_call(error=f"InvalidArguments: {message}", arguments=given),),
        ),
        make_run(
            IMPORT + 'rows = list_bookings(holder="savings", limit=50)', at=60.0, calls=(make_call(arguments=then),)
        ),
    )

    assert taught(world) == {("param_renamed", "bank.list_bookings", "account_name", "holder")}


def test_failure_that_names_a_parameter_is_repaired_by_what_became_of_that_one() -> None:
    """That another parameter was made smaller on the way is no fix."""
    message = "InvalidArguments: 'sinc' is not one of its parameters. Did you mean 'since'?"
    before = {"sinc": "2024-10-01", "limit": 500, "account": "savings"}
    after = {"since": "2024-10-01", "limit": 20, "account": "savings"}
    world = World()
    world.learn(
        make_run(
            "", ("", ""), calls=(make_call(error=f"InvalidArguments: the call is wrong: {message}", arguments=before),)
        ),
        make_run("", at=5.0, calls=(make_call(arguments=after),)),
    )

    assert taught(world) == {("param_renamed", "bank.list_bookings", "sinc", "since")}


def test_single_call_with_other_arguments_is_another_job() -> None:
    """Without code, the arguments tell."""
    before = {"since": "5/5/24", "limit": 40, "account": "savings"}
    world = World()
    world.learn(
        make_run("", ("", ""), calls=(make_call(error="ToolFailed: Not in ISO format.", arguments=before),)),
        make_run("", at=5.0, calls=(make_call(arguments={"since": "2024-02-02", "limit": 10, "account": "rent"}),)),
    )

    assert taught(world) == set()


def test_value_written_otherwise_is_the_same_value() -> None:
    """A date in another order of its parts is what was there before."""
    failed = IMPORT + 'print(list_bookings(since="10/01/2024"))'
    call = make_call(error="ToolFailed: no", arguments={"since": "10/01/2024"})
    world = World()
    world.learn(
        make_run(failed, ("ToolFailed", "It must be in ISO format."), calls=(call,)),
        make_run(
            IMPORT + 'day = "2024-10-01"\nprint(list_bookings(since=day))',
            at=60.0,
            calls=(make_call(arguments={"since": "2024-10-01"}),),
        ),
    )

    assert taught(world) == {("value_kind", "bank.list_bookings", "since", "date")}


def test_number_that_cannot_be_written_is_no_hindrance() -> None:
    """A call may hold one with more digits than Python writes."""
    given = {"limit": 1 << 99_999, "account_name": "savings"}
    then = {"limit": 1 << 99_999, "account": "savings"}
    world = World()
    world.learn(
        make_run(REPORT, WRONG, line=2, calls=(make_call(error=": ".join(WRONG), arguments=given),)),
        make_run(REPORT.replace("account_name", "account"), at=60.0, calls=(make_call(arguments=then),)),
    )

    assert taught(world) == {RENAMED}


def test_what_waits_for_its_repair_holds_no_value_and_is_bounded() -> None:
    """Of values only hashes are kept, and not more than two hundred."""
    calls = [
        make_call(arguments={"since": f"secret plan {number}", "limit": number + 1_000}, number=number)
        for number in range(900)
    ]
    rejected = make_call(error="ToolFailed: no", arguments={"since": "my secret word"})
    run = make_run(IMPORT + "list_bookings(since=x)", ("ToolFailed", "no"), calls=(*calls, rejected))
    world = World()
    world.learn(run)
    cause = cause_of(run)

    assert b"secret" not in msgspec.msgpack.encode(world.failures)
    assert cause is not None
    assert [len(cause.attempt.values), len(cause.attempt.names)] == [200, 2]
