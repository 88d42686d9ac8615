"""What is taken for the repair of a failure: the same job again, and not whatever went well next."""

import msgspec
import pytest
from tests.unit.learning.failure_runs import IMPORT, World, cause_of, make_call, make_run
from tests.unit.learning.repair_sessions import sessions

Taught = set[tuple[str, str, str, str]]

ROWS = 'rows = list_bookings(since="2024-10-01")\n'
REPORT = IMPORT + ROWS + 'names = [row["title"] for row in rows["items"]]\nprint(len(names))'
MISSING = ("KeyError", "'title'")
RENAMED = ("field_renamed", "bank.list_bookings", "title", "label")
KEYWORD = ("TypeError", "list_bookings(): got an unexpected keyword argument 'account_name'")


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
    "then",
    [
        IMPORT + 'spent = list_bookings(since="2023-01-05", limit=3)\nprint(sum(row["cents"] for row in spent))',
        IMPORT + 'rows = list_bookings(limit=20)\nprint(max(rows, key=lambda row: row["cents"])["note"])',
        IMPORT + "print(list_bookings.__doc__)",
        IMPORT + 'pay(limit=4)\nprint(list_bookings(limit=9)[0]["note"])',
    ],
)
def test_other_job_with_the_same_tool_renames_no_parameter(then: str) -> None:
    """That a later run happens to pass another parameter says nothing of the one that was wrong."""
    failed = IMPORT + 'mine = list_bookings(account_name="savings")\nprint([row["label"] for row in mine])'
    world = World()
    world.learn(make_run(failed, KEYWORD, line=2), make_run(then, at=60.0))

    assert taught(world) == set()


@pytest.mark.parametrize(
    "look",
    [
        IMPORT + ROWS + 'print(rows["items"][0])',
        IMPORT + ROWS + 'for row in rows["items"]:\n    print(row)',
        IMPORT + ROWS + 'print(list(rows["items"][0].keys()))',
        IMPORT + ROWS + "print(len(rows))",
        IMPORT + ROWS + "import json\nprint(json.dumps(rows, indent=2))",
    ],
)
def test_look_at_the_answer_is_no_repair_and_the_one_that_follows_is(look: str) -> None:
    """Whoever fails looks first what there is, and repairs it then."""
    world = World()
    world.learn(make_run(REPORT, MISSING, line=3), make_run(look, at=60.0))
    after_look = taught(world)
    world.learn(make_run(REPORT.replace("title", "label"), at=120.0))

    assert (after_look, taught(world)) == (set(), {RENAMED})


def test_job_without_the_part_that_failed_is_no_repair() -> None:
    """Leaving it out and doing something else with the rows teaches nothing."""
    world = World()
    world.learn(
        make_run(REPORT, MISSING, line=3),
        make_run(IMPORT + ROWS + 'names = rows["items"][:3]\nprint(len(names), "of", len(rows["items"]))', at=60.0),
    )

    assert taught(world) == set()


@pytest.mark.parametrize(
    "repaired",
    [
        REPORT.replace("title", "label"),
        REPORT.replace("title", "label").replace("rows", "found"),
        IMPORT + ROWS + 'names = []\nfor row in rows["items"]:\n    names.append(row["label"])\nprint(len(names))',
        REPORT.replace("title", "label") + "\nprint(names[:3])\nprint('done')",
        IMPORT + "def load():\n    return list_bookings(since='2024-10-01')['items']\n"
        'names = [row["label"] for row in load()]\nprint(len(names))',
    ],
)
def test_repair_is_found_however_it_is_written(repaired: str) -> None:
    """Other names for variables, a loop, a function or more output make it no other job."""
    world = World()
    world.learn(make_run(REPORT, MISSING, line=3), make_run(repaired, at=60.0))

    assert RENAMED in taught(world)


def test_parameter_that_got_what_the_wrong_one_had_is_the_one_that_was_meant() -> None:
    """Where two came, the value tells which of them took its place."""
    world = World()
    world.learn(
        make_run(IMPORT + 'rows = list_bookings(account_name="savings")', KEYWORD, line=2),
        make_run(IMPORT + 'rows = list_bookings(holder="savings", limit=50)', at=60.0),
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
            IMPORT + 'day = "2024-10-01"\nfor row in list_bookings(since=day):\n    print(row)',
            at=60.0,
            calls=(make_call(arguments={"since": "2024-10-01"}),),
        ),
    )

    assert taught(world) == {("value_kind", "bank.list_bookings", "since", "date")}


def test_number_that_cannot_be_written_is_no_hindrance() -> None:
    """Code may hold one with more digits than Python writes."""
    failed = IMPORT + f'rows = list_bookings(limit=0x{"f" * 9_000})\nrows[0]["amout"]'
    world = World()
    world.learn(make_run(failed, ("KeyError", "'amout'"), line=3), make_run(failed.replace("amout", "amount"), at=60.0))

    assert taught(world) == {("field_renamed", "bank.list_bookings", "amout", "amount")}


def test_what_waits_for_its_repair_holds_no_value_and_is_bounded() -> None:
    """Of values only hashes are kept, and not more than two hundred."""
    values = "\n".join(f'print("secret plan {number}", {number + 1_000})' for number in range(900))
    failed = make_run(IMPORT + values + '\nlist_bookings(since="my secret word")', ("ToolFailed", "no"))
    world = World()
    world.learn(failed)
    cause = cause_of(failed)

    assert b"secret" not in msgspec.msgpack.encode(world.failures)
    assert cause is not None
    assert max(map(len, msgspec.structs.astuple(cause.attempt))) <= 200
