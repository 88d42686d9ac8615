"""`sealyard tools --check-compatibility` and `sealyard migrate-skills`: a server changes, and skills keep up."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import warm
from tests.cli.test_skills import TOTAL, Project

Done = subprocess.CompletedProcess[str]

TOOL = "mcp__expenses__list_expenses"
SINCE = '{"inputs": {"since": "2024-12-01"}}'
MIGRATED = TOTAL.replace("list_expenses(since=since)", "list_expenses(start_date=since)")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A skill that was written for the first release of the server. Tests take a copy."""
    project = Project(tmp_path_factory.mktemp("saved") / "project")
    assert project.save("monthly_total", TOTAL, "--example", SINCE).returncode == 0
    return project


@pytest.fixture
def upgraded(saved: Project, tmp_path: Path) -> Project:
    """The same after the server's second release, in which `since` is called `start_date`."""
    return saved.copy(tmp_path / "upgraded", *warm.python("-m", "sealyard.examples.expenses", "--release", "2"))


def test_what_changed_and_whom_it_hits_is_said(saved: Project, upgraded: Project) -> None:
    """Before the upgrade all fits; after it, what changed, which skill it hits and how hard it is to migrate."""
    fits = saved.run("tools", "--versions", "--check-compatibility", columns=80)
    told = saved.ask("tools", "--versions", "--check-compatibility")
    hit = upgraded.run("tools", "--check-compatibility", columns=80)
    changes = upgraded.run("tools", "--versions", "list_expenses", columns=80)
    listed = upgraded.run("tools", "--versions", columns=80)
    as_json = upgraded.ask("tools", TOOL, "--check-compatibility")

    assert fits.returncode == 0
    assert fits.stdout.splitlines()[-2:] == ["local/monthly_total 1.0.0: fits", f"  {TOOL} 1.0.0"]
    assert {each["version"] for each in told["releases"]} == {"1.0.0"}
    assert hit.returncode == 0
    assert hit.stdout.splitlines() == [
        "local/monthly_total 1.0.0: translated, migration: mechanical",
        f"  {TOOL} 1.0.0, now 2.0.0",
        "  Its calls are translated from 1.0.0 to 2.0.0 until the skill is migrated.",
        f"See what a migration does: sealyard migrate-skills --tool {TOOL} --dry-run",
    ]
    assert "  major  input since: Renamed to 'start_date'. [since -> start_date]" in (changes.stdout.splitlines())
    assert "  migrate since: start_date=since" in changes.stdout.splitlines()
    assert [line.split()[:2] for line in listed.stdout.splitlines() if line.startswith("mcp__")][-1] == [TOOL, "2.0.0"]
    assert max(map(len, listed.stdout.splitlines())) <= 80
    assert as_json["compatibility"] == [
        {
            "namespace": "local",
            "name": "monthly_total",
            "version": "1.0.0",
            "status": "active",
            "tool": TOOL,
            "need": "1.0.0",
            "current": "2.0.0",
            "state": "translated",
            "difficulty": "mechanical",
            "reason": "Its calls are translated from 1.0.0 to 2.0.0 until the skill is migrated.",
        }
    ]


def test_a_dry_run_shows_what_would_change_and_keeps_nothing(upgraded: Project) -> None:
    """The skill works as it is: its calls are translated."""
    dry = upgraded.run("migrate-skills", "--tool", "list_expenses", "--dry-run")
    versions = upgraded.ask("skills", "history", "monthly_total")["versions"]
    ran = upgraded.run("skills", "run", "monthly_total", "-i", "since=2024-12-01")
    analysis = upgraded.ask("skills", "--analyze")["summary"]

    lines = dry.stdout.splitlines()
    assert dry.returncode == 0
    assert lines[:2] == [
        "local/monthly_total 1.0.0: would be migrated",
        f"  {TOOL} 1.0.0 -> 2.0.0; predicted: mechanical",
    ]
    assert [line for line in lines if line[:1] in ("+", "-") and line[1:2] == " "] == [
        "-    for row in list_expenses(since=since):  # newest first",
        "+    for row in list_expenses(start_date=since):  # newest first",
    ]
    assert lines[-2:] == ["  proven by 1 example", "Nothing was kept: this was a dry run."]
    assert [(each["version"], each["code"]) for each in versions] == [("1.0.0", TOTAL)]
    assert ran.returncode == 0
    assert "translated from 1.0.0 to 2.0.0" in ran.stdout
    assert (analysis["migrations"], analysis["translated"]) == (0, 1)


def test_a_skill_is_migrated_and_can_be_restored(upgraded: Project, installed: Callable[..., Done]) -> None:
    """The new version runs against the new server and in replay; one command, which the migration names, goes back."""
    tool = ("--tool", TOOL, "--config", str(upgraded.config))
    done = installed("migrate-skills", *tool, "--from", "1.0", "--to", "2.0")
    versions = upgraded.ask("skills", "history", "monthly_total")["versions"]
    tested = upgraded.run("skills", "test", "monthly_total")
    ran = upgraded.run("skills", "run", "monthly_total", "-i", "since=2024-12-01")
    fits = upgraded.ask("tools", "--check-compatibility")["compatibility"]
    again = upgraded.run("migrate-skills", "--tool", TOOL)
    nothing = upgraded.ask("migrate-skills", "--tool", TOOL)
    analyzed = upgraded.run("skills", "--analyze", "--detail", "full")
    restored = upgraded.run(*done.stdout.partition("back: sealyard ")[2].split())
    hit = upgraded.ask("tools", "--check-compatibility")["compatibility"]
    narrowed = upgraded.run("migrate-skills", "--tool", TOOL, "--skill", "another")

    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "local/monthly_total 1.0.0: now 1.0.1")
    assert [(each["version"], each.get("origin"), each["code"]) for each in versions] == [
        ("1.0.1", "migration of 1.0.0", MIGRATED),
        ("1.0.0", None, TOTAL),
    ]
    assert (tested.returncode, ran.returncode) == (0, 0)
    assert list(json.loads(ran.stdout)) == ["2024-12"]
    assert [(each["version"], each["state"]) for each in fits] == [("1.0.1", "fits")]
    assert (again.returncode, again.stdout) == (
        0,
        f"No skill needs another version of {TOOL} than the one that is there.\n",
    )
    assert nothing == {"dry_run": False, "skills": []}
    assert analyzed.stdout.splitlines()[-1] == ("1 migration, 1 done; the difficulty predicted was right in 1 of them.")
    assert (restored.returncode, restored.stdout) == (0, "local/monthly_total 1.0.2 is what 1.0.0 was.\n")
    assert [(each["version"], each["state"]) for each in hit] == [("1.0.2", "translated")]
    assert narrowed.stdout == (
        f"No skill that --from and --skill name needs another version of {TOOL} than the one that is there.\n"
    )


def test_a_wrong_request_says_what_to_change(saved: Project, sealyard: Callable[..., Done], tmp_path: Path) -> None:
    """Exit code 2 and one line; nothing was touched."""
    unknown = saved.run("migrate-skills", "--tool", "list_expense")
    elsewhere = saved.run("migrate-skills", "--tool", TOOL, "--to", "3.0")
    no_version = saved.run("migrate-skills", "--tool", TOOL, "--from", "old")
    no_rename = sealyard("migrate-skills", "--tool", TOOL, "--rename", "since", "--config", str(saved.config))
    no_tool = sealyard("migrate-skills", "--config", str(saved.config))

    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert unknown.stderr.startswith(f"error: No tool named 'list_expense'. Nearest: {TOOL}")
    assert (elsewhere.returncode, elsewhere.stderr) == (
        2,
        f"error: {TOOL} is at 1.0.0, not at 3.0. Skills can be migrated to what is there; leave --to out for that.\n",
    )
    assert (no_version.returncode, no_version.stderr) == (
        2,
        "error: 'old' is not a version. Write it as `1`, `1.2` or `1.2.3`.\n",
    )
    assert (no_rename.returncode, no_rename.stderr) == (2, "error: --rename 'since' is not OLD=NEW.\n")
    assert (no_tool.returncode, no_tool.stderr.splitlines()[-1]) == (2, "Error: Missing option '--tool'.")


LEDGER = '''
import sys
from typing import Annotated

from msgspec import Meta

from sealyard.examples.toolbox import Toolbox

toolbox = Toolbox("ledger", instructions="Rows of a ledger.")
rows = [{"id": number, "amount": number * 10} for number in range(4)]

Above = Annotated[int, Meta(description="Leaves out whatever is not over this amount.")]
Floor = Annotated[int, Meta(description="Cheapest one wanted.")]
Tenant = Annotated[str, Meta(description="Whose.")]


def release_1(above: Above) -> list[dict[str, int]]:
    """Rows of the ledger."""
    return [row for row in rows if row["amount"] > above]


def release_2(floor: Floor) -> list[dict[str, int]]:
    """Rows of the ledger."""
    return release_1(floor)


def release_3(above: Above, tenant: Tenant) -> list[dict[str, int]]:
    """Rows of the ledger."""
    return release_1(above)


function = {"1": release_1, "2": release_2, "3": release_3}[sys.argv[1]]
function.__name__ = "list_rows"
toolbox.tool(read_only=True)(function)
toolbox.run()
'''
COUNT = '''\
def count_rows(above: int) -> int:
    """How many rows are over an amount."""
    from servers.expenses import list_rows

    return len(list_rows(above=above))
'''
ROWS = "mcp__expenses__list_rows"


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, str], Project]:
    """Gives a project in which a skill was written for the first release of a server that is at another one now."""
    folder = tmp_path_factory.mktemp("ledger")
    script = folder / "ledger.py"
    script.write_text(LEDGER, encoding="utf-8")
    project = Project(folder / "project", *warm.python(str(script), "1"))
    assert project.save("count_rows", COUNT, "--example", '{"inputs": {"above": 10}, "output": 2}').returncode == 0
    return lambda place, release: project.copy(place, *warm.python(str(script), release))


def test_what_cannot_be_guessed_is_refused_until_a_person_says_it(
    ledger: Callable[[Path, str], Project], tmp_path: Path
) -> None:
    """The skill is not run as it is; with the one word that is missing it is migrated and runs."""
    project = ledger(tmp_path / "project", "2")
    hit = project.run("tools", "--check-compatibility")
    broken = project.run("skills", "run", "count_rows", "-i", "above=10")
    refused = project.run("migrate-skills", "--tool", ROWS)
    told = project.ask("migrate-skills", "--tool", ROWS, "--rename", "above=floor")
    ran = project.run("skills", "run", "count_rows", "-i", "above=10")

    assert hit.returncode == 1
    assert hit.stdout.startswith("local/count_rows 1.0.0: broken, migration: ")
    assert broken.returncode == 1
    assert f"Migrate it: sealyard migrate-skills --tool {ROWS}." in broken.stdout
    assert (refused.returncode, refused.stdout.splitlines()[0]) == (1, "local/count_rows 1.0.0: refused")
    assert refused.stdout.splitlines()[2:] == [
        "  Line 5: The parameter `floor` is new and required, and no value follows from its schema.",
        "If something only got another name, say which: --rename OLD=NEW.",
    ]
    (done,) = told["skills"]
    assert (told["dry_run"], done["outcome"], done["to_version"], done["examples"]) == (False, "migrated", "1.0.1", 1)
    assert "+    return len(list_rows(floor=above))" in done["diff"].splitlines()
    assert (ran.returncode, ran.stdout) == (0, "2\n")


def test_a_change_that_code_cannot_follow_is_refused_with_the_reason(
    ledger: Callable[[Path, str], Project], tmp_path: Path
) -> None:
    """A new required parameter that nothing is known about; the skill stays as it is."""
    project = ledger(tmp_path / "project", "3")
    refused = project.run("migrate-skills", "--tool", ROWS, "--json")
    versions = project.ask("skills", "history", "count_rows")["versions"]

    (told,) = json.loads(refused.stdout)["skills"]
    assert (refused.returncode, told["outcome"], told["to_version"], told["diff"]) == (1, "refused", None, "")
    assert told["predicted"] != "mechanical"
    assert "tenant" in told["reason"]
    assert [each["version"] for each in versions] == ["1.0.0"]


def test_a_tool_that_is_gone_is_said_so(saved: Project, tmp_path: Path) -> None:
    """By the check, by the migration and by the skill."""
    script = tmp_path / "ledger.py"
    script.write_text(LEDGER, encoding="utf-8")
    project = saved.copy(tmp_path / "project", *warm.python(str(script), "1"))
    hit = project.run("tools", "--check-compatibility")
    migrated = project.run("migrate-skills", "--tool", TOOL)

    assert (hit.returncode, hit.stdout.splitlines()) == (
        1,
        [
            "local/monthly_total 1.0.0: missing, migration: impossible",
            f"  {TOOL} 1.0.0",
            f"  {TOOL} no longer exists, and no tool replaced it.",
        ],
    )
    assert (migrated.returncode, migrated.stderr) == (
        2,
        f"error: {TOOL} no longer exists, and no tool replaced it. Its skills cannot be migrated.\n",
    )
