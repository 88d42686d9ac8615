"""`sealyard skills`: what people do with skills, each command a process of its own over one store."""

import contextlib
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import warm

from sealyard.cli.skills import _parse_duration
from sealyard.errors import InvalidRequest
from sealyard.skills.sharing import SigningKey, to_folder, write_archive
from sealyard.values.skills import Skill

Done = subprocess.CompletedProcess[str]

TOTAL = '''\
def monthly_total(since: str, minimum: float = 0) -> dict:
    """Sum of expenses by month."""
    from servers.expenses import list_expenses

    totals = {}
    for row in list_expenses(since=since):  # newest first
        if row["amount"] >= minimum:
            month = row["date"][:7]
            totals[month] = round(totals.get(month, 0) + row["amount"])
    return totals
'''
BEST = '''\
def best_month(since: str) -> str:
    """The month with the highest sum."""
    from skills import monthly_total

    totals = monthly_total(since)
    return max(totals, key=totals.get)
'''
REMARK = '''\
def remark(expense_id: str, text: str) -> list:
    """Write a note to an expense."""
    from servers.expenses import add_note

    return add_note(expense_id=expense_id, text=text)["notes"]
'''
SCRIPT = "from servers.expenses import get_budget\n\nresult = get_budget(department=department)['budget'] / parts\n"


class Project:
    """A folder with a config and a store, and the commands that are run on it."""

    def __init__(self, folder: Path, *server: str, more: str = "") -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        command, *rest = server or warm.python("-m", "sealyard.examples.expenses")
        lines = [
            f"[upstreams.expenses]\ncommand = {json.dumps(command)}\nargs = {json.dumps(rest)}",
            "[sandbox]\nallow_weaker = true\npool_size = 1\ndata_packages = false",
            f"[store]\npath = {json.dumps(str(folder / 'store' / 'sealyard.db'))}",
            more,
        ]
        self.config = folder / "sealyard.toml"
        self.config.write_text("\n\n".join(lines), encoding="utf-8")

    def copy(self, folder: Path, *server: str, more: str = "") -> "Project":
        """Another project that begins with what is in the store of this one."""
        shutil.copytree(self.folder / "store", folder / "store")
        return Project(folder, *server, more=more)

    def command(self, *arguments: str) -> list[str]:
        """The command line of `sealyard` with this project's config."""
        return [*warm.python("-m", "sealyard"), *arguments, "--config", str(self.config)]

    def run(self, *arguments: str, stdin: bytes = b"", columns: int = 400) -> Done:
        """A finished command."""
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            env={**os.environ, "COLUMNS": str(columns)},
            timeout=100,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def ask(self, *arguments: str) -> Any:
        """The JSON of a command that has to succeed."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def save(self, name: str, code: str, *more: str, description: str = "What it does.") -> Done:
        """The end of saving this code."""
        path = self.folder / f"{name}.py"
        path.write_text(code, encoding="utf-8")
        return self.run("skills", "save", name, str(path), "--description", description, *more)

    def kept(self) -> list[tuple[str, str, str]]:
        """Every skill with its version and status."""
        found = self.ask("skills", "list")["skills"]
        return [(f"{each['namespace']}/{each['name']}", each["version"], each["status"]) for each in found]


KEPT = [
    ("local/best_month", "1.0.0", "active"),
    ("local/monthly_total", "1.0.0", "active"),
    ("local/remark", "1.0.0", "draft"),
    ("local/share_of_budget", "1.0.0", "active"),
]
ENDS: dict[str, Done] = {}
"""How saving each of them ended."""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with four skills. Tests that change something take a copy."""
    project = Project(tmp_path_factory.mktemp("shelf") / "project")
    since = '{"inputs": {"since": "2024-11-01"}}'
    ENDS["monthly_total"] = project.save(
        "monthly_total", TOTAL, "--example", since, "--tag", "money", description="Sum of expenses by month."
    )
    ENDS["best_month"] = project.save("best_month", BEST, "--example", since)
    ENDS["remark"] = project.save("remark", REMARK, "--example", '{"inputs": {"expense_id": "x00042", "text": "seen"}}')
    ENDS["share_of_budget"] = project.save(
        "share_of_budget",
        SCRIPT,
        "--inputs",
        '{"department": "string", "parts": {"type": "integer", "default": 2}}',
        "--output",
        "number",
        "--example",
        '{"inputs": {"department": "Sales"}, "output": 120000.0}',
        "--json",
    )
    return project


@pytest.fixture
def copied(shelf: Project, tmp_path: Path) -> Project:
    """A project with the same skills that a test may change."""
    return shelf.copy(tmp_path / "copy")


# Saving


def test_what_is_saved_is_active_or_a_draft_with_the_reason(shelf: Project) -> None:
    """Exit code 0 for the one, 1 for the other; a tool that changes something was not called."""
    ends = [(ENDS[name].returncode, ENDS[name].stdout) for name in ("monthly_total", "best_month", "remark")]
    script = json.loads(ENDS["share_of_budget"].stdout)

    assert ends == [
        (0, "monthly_total 1.0.0 is active.\n"),
        (0, "best_month 1.0.0 is active.\n"),
        (1, "remark 1.0.0 is a draft. No example has passed.\n"),
    ]
    assert ENDS["remark"].stderr.startswith("example 1: No run of yours has called mcp__expenses__add_note")
    assert (script["skill"]["form"], script["skill"]["output_schema"], script["warnings"]) == (
        "script",
        {"type": "number"},
        [],
    )
    (example,) = script["skill"]["examples"]
    assert example == {
        "inputs": {"department": "Sales"},
        "output": 120000.0,
        "passed": True,
        "recorded_calls": 1,
    }
    assert shelf.kept() == KEPT


def test_a_skill_without_examples_is_a_draft(tmp_path: Path) -> None:
    """It is saved and shown like any other."""
    project = Project(tmp_path)
    done = project.save("plain", "result = 1\n")

    assert (done.returncode, done.stdout, done.stderr) == (1, "plain 1.0.0 is a draft. It has no example.\n", "")
    assert project.ask("skills", "show", "plain")["skill"]["examples"] == []


GIVE_OBJECT = "Give an object such as '{\"n\": 3}'."
GIVE_ONE = "Give one such as '{\"n\": 3}'."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--example", "{"), f"--example is not JSON: Input data was truncated. {GIVE_OBJECT}"),
        (("--example", "[1]"), f"--example is '[1]', not a JSON object. {GIVE_ONE}"),
        (
            ("--example", '{"input": {}}'),
            "The skill cannot be read: Object contains unknown field `input` - at `$.examples[0]`.",
        ),
        (
            ("--inputs", "nothing"),
            f"--inputs is not JSON: JSON is malformed: invalid character (byte 4). {GIVE_OBJECT}",
        ),
    ],
)
def test_options_that_are_no_json_are_refused_before_anything_starts(
    sealyard: Callable[..., Done], tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    """Exit code 2 and one line; a config is not even looked for."""
    (tmp_path / "x.py").write_text("result = 1\n", encoding="utf-8")

    done = sealyard(
        "skills", "save", "x", str(tmp_path / "x.py"), "--description", "d", *options, "--config", str(tmp_path / "no")
    )

    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {message}\n")


def test_a_file_that_is_not_utf_8_is_refused(sealyard: Callable[..., Done], tmp_path: Path) -> None:
    """With the byte that is none."""
    path = tmp_path / "x.py"
    path.write_bytes(b"result = '\xff'\n")

    done = sealyard("skills", "save", "x", str(path), "--description", "d", "--config", str(tmp_path / "no"))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {str(path)!r} cannot be read as UTF-8 text: 'utf-8' codec can't decode byte 0xff in position 10: "
        "invalid start byte.\n"
    )


def test_what_cannot_be_a_skill_is_refused_with_its_line_and_nothing_is_kept(shelf: Project) -> None:
    """Names that lead elsewhere, code that cannot run or may not, and needs that are not there or go in circles."""
    cases = {
        "../../etc/passwd": ("result = 1", "A skill cannot be called '../../etc/passwd'. Use 1 to 64 characters"),
        "broken": ("def broken(:\n", "Line 1: "),
        "forbidden": ("import subprocess\n\nresult = 1\n", "Line 1: "),
        "unknown_tool": ("from servers.expenses import list_expense\n", "Line 1: "),
        "unknown_skill": ("from skills import monthly_totals\n", "No skill named 'monthly_totals'. Nearest: 'monthly_"),
        "itself": ("def itself():\n    from skills import itself\n", "Line 2: itself imports itself."),
        "large": (f"result = '{'x' * (64 << 10)}'\n", "The code has 65,548 bytes, and 65,536 are allowed."),
        "monthly_total": (
            TOTAL.replace("    totals = {}", "    from skills import best_month\n\n    totals = {}"),
            "These skills import each other in a circle: monthly_total → best_month → monthly_total.",
        ),
    }
    path = shelf.folder / "refused.py"
    for name, (code, message) in cases.items():
        path.write_text(code, encoding="utf-8")
        done = shelf.run("skills", "save", name, str(path), "--description", "d")
        assert (done.returncode, done.stdout) == (2, ""), (name, done.stderr)
        assert done.stderr.startswith(f"error: {message}"), (name, done.stderr)

    assert shelf.kept() == KEPT


def test_two_who_save_the_same_name_at_once_make_two_versions(tmp_path: Path) -> None:
    """Neither is lost, and neither is refused."""
    project = Project(tmp_path / "project", more="")
    running = []
    for number in (1, 2):
        path = tmp_path / f"{number}.py"
        path.write_text(f"def both(n: int) -> int:\n    return n * {number}\n", encoding="utf-8")
        command = project.command("skills", "save", "both", str(path), "--description", "d")
        running.append(subprocess.Popen([*command, "--example", '{"inputs": {"n": 1}}'], stdout=subprocess.PIPE))
    said = sorted(process.communicate(timeout=100)[0].decode() for process in running)

    versions = project.ask("skills", "history", "both")["versions"]
    assert [process.returncode for process in running] == [0, 0]
    assert said == ["both 1.0.0 is active.\n", "both 1.0.1 is active.\n"]
    assert sorted(each["code"][-2] for each in versions) == ["1", "2"]


STUCK = """
import sys, threading
from sealyard.examples.toolbox import Toolbox

toolbox = Toolbox("expenses", instructions="Waits.")

@toolbox.tool(read_only=True)
def wait() -> str:
    "Waits for ever."
    pipe = open(sys.argv[1], "wb", buffering=0)
    pipe.write(b"+")
    threading.Event().wait()

toolbox.run()
"""


def test_ctrl_c_in_the_middle_of_saving_leaves_nothing_behind(tmp_path: Path) -> None:
    """Not the skill, not the server it was waiting for, not a folder of the sandbox."""
    pipe, temporary = tmp_path / "pipe", tmp_path / "tmp"
    os.mkfifo(pipe)
    temporary.mkdir()
    (tmp_path / "stuck.py").write_text(STUCK, encoding="utf-8")
    project = Project(tmp_path / "project", sys.executable, str(tmp_path / "stuck.py"), str(pipe))
    code = tmp_path / "waiting.py"
    code.write_text("from servers.expenses import wait\n\nresult = wait()\n", encoding="utf-8")
    command = [sys.executable, "-m", "sealyard", "skills", "save", "waiting", str(code), "--description", "d"]
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with contextlib.closing(open(reader, "rb", buffering=0)):
        process = subprocess.Popen(
            [*command, "--example", "{}", "--config", str(project.config)],
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(temporary)},
            start_new_session=True,
        )
        assert select.select([reader], [], [], 60)[0] == [reader]  # the example is in its call
        assert os.read(reader, 2) == b"+"
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate(timeout=60)[0]
        assert select.select([reader], [], [], 60)[0] == [reader]
        assert os.read(reader, 2) == b""  # nobody holds its other end: the server has ended

    assert (process.returncode, said) == (130, b"")
    assert list(temporary.iterdir()) == []
    assert project.kept() == []


# Looking


def test_skills_are_listed_found_and_shown(shelf: Project, installed: Callable[..., Done]) -> None:
    """Within 80 columns; a question finds what an agent would find."""
    listed = installed("skills", "--config", str(shelf.config), "list")
    narrow = shelf.run("skills", "list", columns=80)
    found = shelf.run("skills", "list", "sum of every month", "--limit", "1")
    nothing = shelf.run("skills", "list", "xylophone")
    as_json = shelf.ask("skills", "list", "sum of every month", "--limit", "1")
    wrong = shelf.run("skills", "list", "month", "--limit", "0")

    lines = [line.split() for line in listed.stdout.splitlines()]
    assert lines[0] == ["skill", "version", "status", "modified", "description"]
    assert [tuple(line[:3]) for line in lines[1:]] == KEPT
    assert max(map(len, narrow.stdout.splitlines())) <= 80
    assert found.stdout.splitlines() == [
        "monthly_total 1.0.0 (not used yet)",
        "  monthly_total(since: str, minimum: float = 0) -> dict",
        "  Sum of expenses by month.",
    ]
    assert nothing.stdout == "No skill fits.\n"
    assert as_json["skills"] == [
        {
            "name": "monthly_total",
            "version": "1.0.0",
            "use": "from skills import monthly_total",
            "signature": "monthly_total(since: str, minimum: float = 0) -> dict",
            "description": "Sum of expenses by month.",
            "status": "active",
        }
    ]
    assert (listed.returncode, found.returncode, nothing.returncode, wrong.returncode) == (0, 0, 0, 2)


def test_a_skill_is_shown_whole(shelf: Project) -> None:
    """By its name, by a version, and for programs without the megabytes that its tools answered."""
    shown = shelf.run("skills", "show", "monthly_total", columns=80)
    pinned = shelf.ask("skills", "show", "skills.monthly_total@1.0")
    draft = shelf.run("skills", "show", "remark")
    unknown = shelf.run("skills", "show", "monthly_totals")
    other = shelf.run("skills", "show", "monthly_total@2")
    no_version = shelf.run("skills", "show", "monthly_total@new")

    lines = shown.stdout.splitlines()
    assert lines[0] == "local/monthly_total 1.0.0"
    assert "signature    monthly_total(since: str, minimum: float = 0) -> dict" in [line.rstrip() for line in lines]
    assert "mcp__expenses__list_expenses  1.0.0        1.0.0  fits" in [line.rstrip() for line in lines]
    assert "example 1: passed (1 recorded call)" in lines
    assert shown.stdout.endswith(f"\n\n{TOTAL}")
    assert max(map(len, lines)) <= 80
    assert (pinned["skill"]["version"], pinned["skill"]["tags"], pinned["skill"]["code"]) == ("1.0.0", ["money"], TOTAL)
    assert pinned["needs"] == [
        {
            "tool": "mcp__expenses__list_expenses",
            "need": "1.0.0",
            "current": "1.0.0",
            "now": "mcp__expenses__list_expenses",
            "state": "fits",
            "difficulty": None,
            "reason": "",
        }
    ]
    assert [sorted(example) for example in pinned["skill"]["examples"]] == [
        ["inputs", "output", "passed", "recorded_calls"]
    ]
    assert "status       draft. No example has passed." in [line.rstrip() for line in draft.stdout.splitlines()]
    assert (unknown.returncode, unknown.stderr) == (
        2,
        "error: No skill named 'monthly_totals'. Nearest: monthly_total.\n",
    )
    assert (other.returncode, other.stderr) == (
        2,
        "error: No version 2 of the skill 'monthly_total' in 'local'. There are: 1.0.0.\n",
    )
    assert (no_version.returncode, no_version.stderr) == (
        2,
        "error: 'new' is not a version. Write it as `1`, `1.2` or `1.2.3`.\n",
    )


def test_a_group_of_commands_says_what_it_has(shelf: Project) -> None:
    """And that some options stand alone."""
    helped = shelf.run("skills")
    both = shelf.run("skills", "--analyze", "--cleanup")
    mixed = shelf.run("skills", "--analyze", "list")

    assert helped.returncode == 0
    assert {"save", "list", "show", "run", "test", "export", "import", "market"} <= set(helped.stdout.split())
    assert (both.returncode, both.stderr.splitlines()[-1]) == (2, "Error: Give --analyze or --cleanup, not both.")
    assert (mixed.returncode, mixed.stderr.splitlines()[-1]) == (
        2,
        "Error: --analyze and --cleanup stand alone. Leave out 'list'.",
    )


def test_search_finds_what_an_agent_would_find(shelf: Project) -> None:
    """The words need no quotes; the answer is that of `list` with a query, and the exit code says if there is one."""
    found = shelf.run("skills", "search", "sum", "of", "every", "month", "--limit", "1")
    as_json = shelf.run("skills", "search", "sum of every month", "--limit", "1", "--json")
    listed = shelf.run("skills", "list", "sum of every month", "--limit", "1", "--json")
    nothing = shelf.run("skills", "search", "xylophone")

    assert (found.returncode, found.stdout.splitlines()[0]) == (0, "monthly_total 1.0.0 (not used yet)")
    assert (as_json.returncode, as_json.stdout) == (0, listed.stdout)
    assert (nothing.returncode, nothing.stdout) == (1, "No skill fits.\n")


# Running and testing


def test_a_skill_is_run_with_inputs_and_what_came_of_it_is_analyzed(copied: Project) -> None:
    """Inputs as JSON or one by one; wrong ones and a failure are exit code 1, and all of it is on record."""
    whole = copied.run("skills", "run", "monthly_total", "--inputs", '{"since": "2024-12-01"}')
    one = copied.ask("skills", "run", "best_month@1", "-i", "since=2024-12-01")
    wrong = copied.run("skills", "run", "monthly_total", "-i", "since=5")
    failed = copied.run("skills", "run", "monthly_total", "-i", "since=yesterday")
    short = copied.run("skills", "--analyze", columns=80)
    full = copied.run("skills", "--analyze", "--detail", "full", columns=80)
    analysis = copied.ask("skills", "--analyze")
    uses = copied.ask("skills", "history", "monthly_total")["uses"]

    assert (whole.returncode, list(json.loads(whole.stdout))) == (0, ["2024-12"])
    assert (one["status"], one["result"]) == ("ok", "2024-12")
    assert (wrong.returncode, wrong.stdout.splitlines()[0]) == (
        1,
        "SkillInputError: monthly_total(): input 'since' is 5, where text is expected. Its signature: "
        "monthly_total(since: str, minimum: float = 0) -> dict",
    )
    assert failed.returncode == 1
    assert "skills/monthly_total.py, line 6" in failed.stdout
    figures = {each["name"]: each for each in analysis["skills"]}
    assert {name: (each["uses"], each["calls"], each["failures"]) for name, each in figures.items()} == {
        "best_month": (1, 1, 0),
        "monthly_total": (3, 3, 1),
        "remark": (0, 0, 0),
        "share_of_budget": (0, 0, 0),
    }
    assert [(each["uses"], each["failures"]) for each in uses] == [(3, 1)]
    assert (analysis["summary"]["skills"], analysis["summary"]["drafts"], analysis["summary"]["uses"]) == (4, 1, 4)
    assert short.stdout.splitlines()[0].split() == ["skill", "uses", "failures", "last", "used", "effect", "verdict"]
    assert max(map(len, full.stdout.splitlines())) <= 80
    assert full.stdout.startswith(short.stdout)
    assert "local/remark 1.0.0\n  mcp__expenses__add_note 1.0.0: fits.\n" in full.stdout


def test_code_that_is_run_again_and_again_is_shown_as_worth_saving(tmp_path: Path) -> None:
    """With who ran it, how often, what it called, and the last of its runs; two runs are not enough."""
    project = Project(tmp_path / "project")
    code = "from servers.expenses import list_employees\n\nfound = list_employees()\nprint({}, len(found))\nlen(found)"
    for number in range(2):
        assert project.run("run", "-c", code.format(number)).returncode == 0
    twice = project.ask("skills", "--analyze")["candidates"]
    assert project.run("run", "-c", code.format(3)).returncode == 0
    (found,) = project.ask("skills", "--analyze")["candidates"]
    shown = project.run("skills", "--analyze").stdout.splitlines()[-1]

    assert twice == []
    assert (found["principal"], found["times"], found["tools"]) == ("local", 3, ["mcp__expenses__list_employees"])
    assert shown == (
        "worth saving: code that local ran 3 times (mcp__expenses__list_employees), last as " + found["execution_id"]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-i", "since"), "-i 'since' is not NAME=VALUE."),
        (("--inputs", "[]"), f"--inputs is '[]', not a JSON object. {GIVE_ONE}"),
    ],
)
def test_inputs_that_are_none_are_refused_before_anything_starts(
    sealyard: Callable[..., Done], tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    """Exit code 2: it is a mistake in the request, not a failure of the skill."""
    done = sealyard("skills", "run", "monthly_total", *options, "--config", str(tmp_path / "no"))

    assert (done.returncode, done.stderr) == (2, f"error: {message}\n")


def test_examples_are_replayed_though_no_server_can_be_started(shelf: Project, tmp_path: Path) -> None:
    """One that has passed passes again, and what has none that passes is exit code 1."""
    dead = shelf.copy(tmp_path / "dead", "/nonexistent/server")
    one = dead.run("skills", "test", "best_month")
    every = dead.run("skills", "test")
    as_json = dead.run("skills", "test", "share_of_budget", "--json")
    run = dead.run("skills", "run", "monthly_total", "-i", "since=2024-12-01")

    assert (one.returncode, one.stdout) == (0, "local/best_month 1.0.0: 1 of 1 example passed\n")
    assert (every.returncode, every.stdout.splitlines()) == (
        1,
        [
            "local/best_month 1.0.0: 1 of 1 example passed",
            "local/monthly_total 1.0.0: 1 of 1 example passed",
            "local/remark 1.0.0: 0 of 1 example passed",
            every.stdout.splitlines()[3],
            "local/share_of_budget 1.0.0: 1 of 1 example passed",
        ],
    )
    assert every.stdout.splitlines()[3].startswith("  example 1: ")
    assert json.loads(as_json.stdout)["skills"] == [
        {
            "namespace": "local",
            "name": "share_of_budget",
            "version": "1.0.0",
            "passed": True,
            "examples": [{"passed": True, "problem": ""}],
        }
    ]
    assert run.returncode == 1
    assert "no longer exists" in run.stdout


def test_where_there_is_nothing_every_command_says_so(tmp_path: Path) -> None:
    """Nothing to list, to test or to clean up is no error; nothing to export is one."""
    empty = Project(tmp_path / "empty")
    ends = {
        arguments: empty.run("skills", *arguments)
        for arguments in (("list",), ("test",), ("--analyze",), ("--cleanup",), ("export", "--all", "--to", "x.zip"))
    }

    assert {arguments: (done.returncode, done.stdout or done.stderr) for arguments, done in ends.items()} == {
        ("list",): (0, "No skills yet. Agents save them with save_skill, people with `sealyard skills save`.\n"),
        ("test",): (0, "No skill to test.\n"),
        ("--analyze",): (
            0,
            "0 skills: 0 active, 0 drafts, 0 in quarantine. 0 uses, in 0% of all executions; 0 translated calls.\n",
        ),
        ("--cleanup",): (0, "Every skill was used, or saved, since then.\n"),
        ("export", "--all", "--to", "x.zip"): (2, "error: There is no active skill to export.\n"),
    }


# Changing the shelf


def test_a_draft_is_approved_shared_deleted_and_restored(copied: Project) -> None:
    """Each on a person's word; a deleted skill comes back with one command, which the deletion names."""
    unread = copied.run("skills", "approve", "remark", "--yes")
    approved = copied.run("skills", "approve", "remark", stdin=b"y\n")
    shared = copied.run("skills", "share", "remark")
    twice = copied.run("skills", "show", "remark")
    refused = copied.run("skills", "delete", "monthly_total", stdin=b"n\n")
    unanswered = copied.run("skills", "delete", "monthly_total")
    before = copied.kept()
    deleted = copied.run("skills", "delete", "monthly_total", stdin=b"y\n")
    after = copied.kept()
    gone = copied.run("skills", "delete", "monthly_total", "--yes")
    back = deleted.stdout.partition("Back: sealyard ")[2].split()
    restored = copied.run(*back)
    versions = copied.ask("skills", "history", "monthly_total")["versions"]
    wrong = copied.run("skills", "restore", "monthly_total", "7.0.0")
    as_json = copied.ask("skills", "delete", "monthly_total@2.0.0", "--yes")

    assert (unread.returncode, unread.stdout) == (2, "")
    assert unread.stderr == "error: Say which version you have read: sealyard skills approve remark@1.0.0\n"
    assert (approved.returncode, approved.stdout) == (0, "local/remark 1.0.0 is active; 0 of 1 example passed.\n")
    assert "]: example 1: " in approved.stderr
    assert (shared.returncode, shared.stdout) == (0, "shared/remark 1.0.0 is there for everybody.\n")
    assert (twice.returncode, twice.stderr) == (
        2,
        "error: 'remark' is in local, shared. Say which with --namespace.\n",
    )
    assert (refused.returncode, unanswered.returncode, gone.returncode) == (1, 130, 2)
    assert refused.stderr == (
        "warning: local/best_month may import local/monthly_total.\nDelete 1 version of local/monthly_total? [y/N]: "
    )
    assert before == [*KEPT[:2], ("local/remark", "1.0.0", "active"), KEPT[3], ("shared/remark", "1.0.0", "active")]
    assert after == [each for each in before if each[0] != "local/monthly_total"]
    assert deleted.returncode == 0
    assert (restored.returncode, restored.stdout) == (0, "local/monthly_total 2.0.0 is what 1.0.0 was.\n")
    assert [(each["version"], each["origin"]) for each in versions] == [("2.0.0", "restored from 1.0.0")]
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert [each["version"] for each in as_json["deleted"]] == ["2.0.0"]


def test_what_nobody_uses_is_cleaned_up_when_a_person_says_so(copied: Project) -> None:
    """It is shown first; without an answer nothing goes."""
    young = copied.run("skills", "--cleanup")
    wrong = copied.run("skills", "--cleanup", "--unused-threshold", "soon")
    asked = copied.run("skills", "--cleanup", "--unused-threshold", "0s", stdin=b"n\n")
    looked = copied.ask("skills", "--cleanup", "--unused-threshold", "0 seconds")
    before = copied.kept()
    done = copied.run("skills", "--cleanup", "--unused-threshold", "0s", "--yes")

    assert (young.returncode, young.stdout) == (0, "Every skill was used, or saved, since then.\n")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "error: 'soon' is not a duration. Write it as 30days, 12h or '2 weeks'.\n",
    )
    assert (asked.returncode, asked.stderr) == (1, "Delete 4 skills? [y/N]: ")
    assert len(asked.stdout.splitlines()) == 5
    assert [each["name"] for each in looked["unused"]] == ["best_month", "monthly_total", "remark", "share_of_budget"]
    assert before == KEPT
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        0,
        "Deleted 4 skills. Back: sealyard skills restore NAME VERSION --namespace NAME",
    )
    assert copied.kept() == []


# Sharing


@pytest.fixture(scope="module")
def exported(shelf: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the shelf's owner sends to others: folders in `out`, a signed archive, and one that nobody signed."""
    folder = tmp_path_factory.mktemp("exported")
    signed = shelf.ask("skills", "export", "best_month", "monthly_total", "--to", str(folder / "signed.zip"))
    (folder / "key").write_text(signed["public_key"], encoding="utf-8")
    (folder / "digest").write_text(signed["written"][0]["digest"], encoding="utf-8")
    shelf.ask("skills", "export", "best_month", "--unsigned", "--to", str(folder / "unsigned.zip"))
    shelf.ask("skills", "export", "--all", "--to", str(folder / "out"))
    return folder


def test_an_export_is_what_the_format_s_own_command_accepts(shelf: Project, exported: Path, tmp_path: Path) -> None:
    """Active skills only, digests and the key are told, and nothing is written over unless that is asked for."""
    folders = sorted((exported / "out").iterdir())
    validate = str(Path(sys.executable).with_name("agentskills"))
    verdicts = [
        subprocess.run([validate, "validate", str(folder)], capture_output=True, timeout=60, check=False).returncode
        for folder in folders
    ]
    again = shelf.run("skills", "export", "best_month", "--to", str(exported / "out"))
    replaced = shelf.run("skills", "export", "best_month", "--replace", "--to", str(exported / "out"))
    archive = shelf.run("skills", "export", "best_month", "monthly_total@1", "--to", str(tmp_path / "again.zip"))
    neither = shelf.run("skills", "export", "--to", str(tmp_path / "x"))
    unknown = shelf.run("skills", "export", "best_month", "nothing", "--to", str(tmp_path / "x"))

    assert [folder.name for folder in folders] == ["best-month", "monthly-total", "share-of-budget"]
    assert verdicts == [0, 0, 0]
    assert (again.returncode, again.stderr) == (
        2,
        f"error: {str(folders[0])!r} exists. Choose another directory, or replace it on purpose.\n",
    )
    assert (replaced.returncode, replaced.stdout.splitlines()[0]) == (0, str(folders[0]))
    assert archive.stdout.splitlines() == [
        str(tmp_path / "again.zip"),
        f"  {(exported / 'digest').read_text(encoding='utf-8')}",
        "Whoever imports it puts this into sealyard.toml, with your name:",
        "[skills.trusted_keys]",
        f'NAME = "{(exported / "key").read_text(encoding="utf-8")}"',
    ]
    assert (tmp_path / "again.zip").read_bytes() == (exported / "signed.zip").read_bytes()
    assert (neither.returncode, unknown.returncode) == (2, 2)
    assert not (tmp_path / "x").exists()


def trusting(folder: Path, exported: Path, more: str = "") -> Project:
    """An empty project that trusts the exporter's key."""
    key = (exported / "key").read_text(encoding="utf-8")
    return Project(folder, more=f'[skills.trusted_keys]\nteam = "{key}"\n{more}')


def test_an_archive_of_somebody_trusted_waits_for_approval(exported: Path, tmp_path: Path) -> None:
    """All of it, with its examples; nobody can use it until then, and approving tries the examples first."""
    project = trusting(tmp_path / "receiver", exported)
    taken = project.run("skills", "import", str(exported / "signed.zip"))
    listed = project.kept()
    early = project.run("skills", "run", "best_month", "-i", "since=2024-12-01")
    approved = [project.run("skills", "approve", f"{name}@1.0.0").stdout for name in ("monthly_total", "best_month")]
    late = project.run("skills", "run", "best_month", "-i", "since=2024-12-01")
    (version,) = project.ask("skills", "history", "best_month")["versions"]

    assert taken.returncode == 0, taken.stderr
    assert taken.stdout.splitlines()[:3] == [
        "local/best_month 1.0.0 is in quarantine.",
        "  Read it:    sealyard skills show best_month@1.0.0 --namespace local",
        "  Approve it: sealyard skills approve best_month@1.0.0 --namespace local",
    ]
    assert listed == [
        ("local/best_month", "1.0.0", "quarantined"),
        ("local/monthly_total", "1.0.0", "quarantined"),
    ]
    assert early.returncode == 1
    assert "it is in quarantine" in early.stdout
    assert approved == [
        f"local/{name} 1.0.0 is active; 1 of 1 example passed.\n" for name in ("monthly_total", "best_month")
    ]
    assert (late.returncode, late.stdout) == (0, "2024-12\n")
    assert version["origin"].startswith("import, signed by team, sha256:")


def test_a_folder_and_an_unsigned_archive_are_taken_on_a_person_s_word(exported: Path, tmp_path: Path) -> None:
    """A folder is there to be read; what was changed in it is said, and a dependency has to be there."""
    project = Project(tmp_path / "receiver")
    folder = tmp_path / "monthly-total"
    shutil.copytree(exported / "out" / "monthly-total", folder)
    script = folder / "scripts" / "monthly_total.py"
    script.write_text(TOTAL.replace("newest", "latest"), encoding="utf-8")
    alone = project.run("skills", "import", str(exported / "unsigned.zip"), "--allow-unsigned")
    first = project.ask("skills", "import", str(folder), "--namespace", "shared")
    unsigned = project.run("skills", "import", str(exported / "unsigned.zip"), "--allow-unsigned")

    assert (alone.returncode, alone.stdout) == (2, "")
    assert alone.stderr.startswith("error: best_month: No skill named 'monthly_total'.")
    assert alone.stderr.endswith(" Nothing was imported.\n")
    (taken,) = first["skills"]
    assert (taken["skill"]["namespace"], taken["skill"]["status"], taken["warnings"]) == (
        "shared",
        "quarantined",
        ["scripts/monthly_total.py was changed after it was exported."],
    )
    assert (unsigned.returncode, unsigned.stderr) == (0, "")
    assert project.kept() == [
        ("local/best_month", "1.0.0", "quarantined"),
        ("shared/monthly_total", "1.0.0", "quarantined"),
    ]


def test_what_is_not_to_be_trusted_is_refused_and_nothing_is_kept(exported: Path, tmp_path: Path) -> None:
    """Strangers, other digests, changed files, links, bombs, and an archive of which one part may not run."""
    project = trusting(tmp_path / "receiver", exported)
    stranger = SigningKey.load_or_make(tmp_path / "stranger.key")
    good = to_folder(Skill(namespace="shared", name="a_good_one", code="result = 1\n"))
    bad = to_folder(Skill(namespace="shared", name="bad", code="import subprocess\n\nresult = 1\n"))
    write_archive(tmp_path / "stranger.zip", [good], stranger)
    write_archive(tmp_path / "mixed.zip", [good, bad], None)
    signed = exported / "signed.zip"
    with zipfile.ZipFile(signed) as old, zipfile.ZipFile(tmp_path / "changed.zip", "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            new.writestr(entry, content.replace(b"newest", b"latest") if entry.filename.endswith(".py") else content)
    link = zipfile.ZipInfo("total/scripts")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as new:
        new.writestr(link, "/etc")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as new:
        new.writestr("total/SKILL.md", bytes(64 << 20))
    linked = tmp_path / "linked"
    shutil.copytree(exported / "out" / "monthly-total", linked)
    (linked / "passwd").symlink_to("/etc/passwd")
    allowed = "--allow-unsigned"
    refusals = {
        (str(exported / "unsigned.zip"),): "is not signed",
        (str(tmp_path / "stranger.zip"),): f"is signed by ed25519:{stranger.public}, whom the config does not trust",
        (str(signed), "--digest", f"sha256:{'0' * 64}"): "It is not what you pinned: nothing was imported.",
        (str(tmp_path / "changed.zip"),): "does not fit its manifest",
        (str(tmp_path / "link.zip"), allowed): "which is a link",
        (str(tmp_path / "bomb.zip"), allowed): "",
        (str(tmp_path / "mixed.zip"), allowed): "bad: Line 1: ",
        (str(linked),): "holds 'passwd', which is a link",
        (str(exported / "out" / "best-month"), "--digest", "0" * 64): "It is not what you pinned",
        (str(tmp_path / "nothing"),): "",
        (str(tmp_path / "nothing.zip"),): "",
        ("best-month", "--market", "nowhere"): "No market named 'nowhere' is configured. There are: none.",
    }
    for arguments, message in refusals.items():
        done = project.run("skills", "import", *arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: ")
        assert message in line

    assert project.kept() == []


def test_a_market_is_searched_pinned_and_imported_from(exported: Path, tmp_path: Path) -> None:
    """Its index pins every skill to what it is; what has changed since then is shown as that, and refused."""
    folder = tmp_path / "market"
    shutil.copytree(exported / "out", folder)
    project = Project(tmp_path / "receiver", more=f"[skills.markets]\nteam = {json.dumps(str(folder))}\n")
    none = Project(tmp_path / "none").run("skills", "market")
    index = project.ask("skills", "market", "--index", str(folder))
    listed = project.run("skills", "market", columns=80)
    (best,) = [
        each for each in project.ask("skills", "market", "what it does")["skills"] if each["name"] == "best-month"
    ]
    taken = project.run("skills", "import", "monthly_total", "--market", "team")
    pinned = project.run("skills", "import", "best-month", "--market", "team", "--digest", best["digest"])
    (folder / "share-of-budget" / "scripts" / "share_of_budget.py").write_text("result = 1\n", encoding="utf-8")
    changed = project.run("skills", "market", "budget")
    refused = project.run("skills", "import", "share_of_budget", "--market", "team")
    unknown = project.run("skills", "import", "nothing", "--market", "team")
    other = project.run("skills", "import", "best_month", "--market", "team", "--digest", "0" * 64)

    assert (none.returncode, none.stderr) == (
        2,
        'error: No market is configured. Add one: [skills.markets] NAME = "FOLDER".\n',
    )
    assert index == {"index": str(folder / "index.json"), "left_out": {}}
    lines = listed.stdout.splitlines()
    assert lines[0] == "best-month 1.0.0 in team"
    assert lines[2] == f"  {best['digest']}"
    assert max(map(len, lines)) <= 80
    assert (taken.returncode, pinned.returncode) == (0, 0), taken.stderr + pinned.stderr
    assert "It has changed since it was indexed." in changed.stdout
    assert [done.returncode for done in (refused, unknown, other)] == [2, 2, 2]
    assert project.kept() == [
        ("local/best_month", "1.0.0", "quarantined"),
        ("local/monthly_total", "1.0.0", "quarantined"),
    ]


def test_durations_are_read_as_people_write_them() -> None:
    """With or without a space, in any case, short or long."""
    texts = ("30days", "30d", "12h", "2 weeks", " 1.5 Hours ", "90s", "10 min", "1 month")

    assert [_parse_duration(text) for text in texts] == [
        30 * 86_400.0,
        30 * 86_400.0,
        43_200.0,
        14 * 86_400.0,
        5_400.0,
        90.0,
        600.0,
        30 * 86_400.0,
    ]


@pytest.mark.parametrize("text", ["", "30", "days", "-3d", "3 fortnights", "1e9d", "٣d", "1" * 400 + "d", "nan d"])
def test_text_that_is_no_duration_is_refused(text: str) -> None:
    """With examples of what is."""
    with pytest.raises(InvalidRequest) as caught:
        _parse_duration(text)

    assert str(caught.value) == f"{text[:80]!r} is not a duration. Write it as 30days, 12h or '2 weeks'."
