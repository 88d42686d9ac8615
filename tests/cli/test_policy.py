"""`sealyard policy`, as an operator starts it over a real server."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import warm

Command = Callable[..., subprocess.CompletedProcess[str]]

RULES = """
[[policy.rules]]
decision = "deny"
tools = ["expenses/approve*"]
principals = ["http"]
reason = "Approving is for people at the desk."

[[policy.rules]]
decision = "ask"
tools = ["mcp__expenses__flag_expense"]
when = { reason = { longer_than = 10 } }

[[policy.limits]]
tools = ["expenses/*"]
calls_per_run = 5
"""


@pytest.fixture
def write_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes a sealyard.toml with the example server and these lines to where the command looks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "SEALYARD_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def write(lines: str = "", *, trusted: bool = False) -> None:
        command, *rest = warm.python("-m", "sealyard.examples.expenses")
        server = f"command = {json.dumps(command)}\nargs = {json.dumps(rest)}\n"
        text = f"[upstreams.expenses]\n{server}trusted = {str(trusted).lower()}\n{lines}"
        (tmp_path / "sealyard.toml").write_text(text, encoding="utf-8")

    return write


def explain(sealyard: Command, *arguments: str) -> dict[str, Any]:
    """What `policy explain --json` prints."""
    done = sealyard("policy", "explain", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_explain_names_the_rule_and_its_reason(sealyard: Command, write_config: Callable[..., None]) -> None:
    """For the principal that is asked about: another one is allowed what this one is not even shown."""
    write_config(RULES)

    denied = explain(sealyard, "expenses/approve_expense", "--principal", "http")
    allowed = explain(sealyard, "mcp__expenses__approve_expense")

    assert (denied["verdict"], denied["rule"], denied["reason"], denied["hidden"]) == (
        "deny",
        "policy.rules[0]",
        "Approving is for people at the desk.",
        True,
    )
    assert (allowed["verdict"], allowed["rule"], allowed["hidden"]) == ("allow", "preset open", False)
    assert allowed["limits"]["calls_per_run"] == 5


def test_explain_looks_at_the_arguments_it_is_given(sealyard: Command, write_config: Callable[..., None]) -> None:
    """Without them it says what depends on them."""
    write_config(RULES)

    def verdict(*arguments: str) -> tuple[str, bool]:
        found = explain(sealyard, "flag_expense", *arguments)
        return found["verdict"], found["depends_on_arguments"]

    assert verdict() == ("allow", True)
    assert verdict("--arguments", '{"reason": "short"}') == ("allow", False)
    assert verdict("--arguments", '{"reason": 5}') == ("ask", False)


def test_explain_shows_preset_trust_limits_and_every_rule(sealyard: Command, write_config: Callable[..., None]) -> None:
    """All that an operator needs to understand a refusal, without another command."""
    write_config('[policy]\npreset = "guarded"\n' + RULES)

    done = sealyard("policy", "explain", "mcp__expenses__list_expenses")

    reason = "The tool is not known to be harmless, since its server 'expenses' is not marked trusted."
    assert done.returncode == 0
    assert [line.rstrip() for line in done.stdout.splitlines()] == [
        "ask mcp__expenses__list_expenses for local",
        f"by preset guarded: {reason}",
        "",
        "rule             says  fits     why",
        "policy.rules[0]  deny  no       it names other tools: expenses/approve*",
        "policy.rules[1]  ask   no       it names other tools: mcp__expenses__flag_expense",
        f"preset guarded   ask   decides  {reason}",
        "",
        "server  expenses, not trusted: its tools' hints relax nothing",
        "effect  counts as destructive",
        "preset  guarded: the config says so.",
        "hidden  no",
        "limits  calls_per_run 5",
        "reveal  whole: a token becomes the value where it is a whole string, and is refused elsewhere",
    ]


def test_explain_shows_where_a_tool_gets_private_values(sealyard: Command, write_config: Callable[..., None]) -> None:
    """The first privacy rule that names the tool decides; without one a token must be a whole string."""
    write_config(
        '[[privacy.rules]]\ntools = ["mcp__expenses__flag_*"]\nreveal = "inside"\n'
        '[[privacy.rules]]\ntools = ["expenses/approve_*"]\nreveal = "never"\n'
    )

    names = ("mcp__expenses__flag_expense", "mcp__expenses__approve_expense", "mcp__expenses__list_expenses")
    found = [json.loads(sealyard("policy", "explain", name, "--json").stdout)["reveal"] for name in names]

    assert found == ["inside", "never", "whole"]


def test_trust_relaxes_the_preset(sealyard: Command, write_config: Callable[..., None]) -> None:
    """What a trusted server says of its tools counts, and `--preset` shows what another preset would do."""
    write_config(trusted=True)

    def verdicts(preset: str) -> dict[str, str]:
        shown = json.loads(sealyard("policy", "show", "--tools", "--json", "--preset", preset).stdout)
        return {each["tool"].removeprefix("mcp__expenses__"): each["verdict"] for each in shown["tools"]}

    reading = dict.fromkeys(("get_budget", "list_employees", "list_expenses"), "allow")
    assert verdicts("guarded") == reading | {"add_note": "allow", "flag_expense": "allow", "approve_expense": "ask"}
    assert verdicts("readonly") == reading | {"add_note": "deny", "flag_expense": "deny", "approve_expense": "deny"}


def test_an_unknown_tool_is_answered_with_the_nearest(sealyard: Command, write_config: Callable[..., None]) -> None:
    """Exit code 2 and no traceback."""
    write_config()

    done = sealyard("policy", "explain", "expenses/list_expense")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "error: No tool named 'expenses/list_expense'. Nearest: 'mcp__expenses__list_expenses'"
    )


@pytest.mark.parametrize(
    ("arguments", "words"), [("[1]", "--arguments is '[1]', not a JSON object. "), ("{", "--arguments is not JSON: ")]
)
def test_arguments_must_be_a_json_object(
    sealyard: Command, write_config: Callable[..., None], arguments: str, words: str
) -> None:
    """It is said before any server is started."""
    write_config()

    done = sealyard("policy", "explain", "list_expenses", "--arguments", arguments)

    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {words}")


def test_a_rule_that_cannot_work_is_named(sealyard: Command, write_config: Callable[..., None]) -> None:
    """By its place and what to write instead."""
    write_config('[[policy.rules]]\ndecision = "deny"\nwhen = { amount = { over = 5 } }\n')

    done = sealyard("policy", "show")

    assert done.returncode == 2
    assert done.stderr == (
        "error: policy.rules[0].when.'amount'.over is not a condition. There are above, at_least, at_most, below, "
        "exists, longer_than, matches, not. For a value inside an object quote the whole name, such as 'object.name'.\n"
    )


def test_show_lists_rules_limits_and_preset(installed: Command, write_config: Callable[..., None]) -> None:
    """In the order in which they are looked at."""
    write_config(RULES)

    done = installed("policy", "show")

    assert done.returncode == 0
    assert [" ".join(line.split()) for line in done.stdout.splitlines()] == [
        "rule says tools effect principals when reason",
        "0 deny expenses/approve* any http Approving is for people at the desk.",
        '1 ask mcp__expenses__flag_expense any * {"reason":{"longer_than":10}}',
        "",
        "limits tools",
        "0 expenses/* calls_per_run 5",
        "",
        "Preset open: the default on stdio and loopback; served to other machines it is guarded.",
        "Trusted servers: none",
    ]


def test_show_says_what_becomes_of_every_tool(sealyard: Command, write_config: Callable[..., None]) -> None:
    """One line for each, as a program reads it."""
    write_config(RULES, trusted=True)

    done = sealyard("policy", "show", "--tools", "--json", "--preset", "readonly", "--principal", "http")

    shown = json.loads(done.stdout)
    assert {
        each["tool"].removeprefix("mcp__expenses__"): (each["rule"], each["hidden"]) for each in shown["tools"]
    } == {
        "add_note": ("preset readonly", True),
        "approve_expense": ("policy.rules[0]", True),
        "flag_expense": ("preset readonly", False),
        "get_budget": ("preset readonly", False),
        "list_employees": ("preset readonly", False),
        "list_expenses": ("preset readonly", False),
    }
    assert (shown["policy"]["preset"], shown["trusted"]) == ("readonly", ["expenses"])


MISSPELLED = """
[[policy.rules]]
decision = "deny"
tools = ["expnses/approve_expense", "expenses/flag*"]
principals = ["httpp"]

[[policy.rules]]
decision = "ask"
tools = ["expenses/flag_expense"]
when = { raeson = { longer_than = 10 } }

[[policy.limits]]
tools = ["mcp__expenses__list_expense"]
calls_per_run = 5

[[privacy.rules]]
tools = ["mcp__expense__*", "expense/*", "expenses/flag_*"]
mode = "off"

[surface]
mode = "hybrid"
direct = ["list_employee"]
"""
SAID = [
    "policy.rules[0].tools names 'expnses/approve_expense', which fits no tool."
    " Did you mean 'expenses/approve_expense'?",
    "policy.limits[0].tools names 'mcp__expenses__list_expense', which fits no tool."
    " Did you mean 'mcp__expenses__list_expenses'?",
    "privacy.rules[0].tools names 'mcp__expense__*', which fits no tool.",
    "privacy.rules[0].tools names 'expense/*', which fits no tool.",
    "surface.direct names 'list_employee', which fits no tool. Did you mean 'mcp__expenses__list_employees'?",
    "policy.rules[0].principals names 'httpp', which fits no principal. Did you mean 'http'?",
    "policy.rules[1].when names 'raeson', which fits no argument. Did you mean 'reason'?",
]


def test_names_that_fit_nothing_are_found(sealyard: Command, write_config: Callable[..., None]) -> None:
    """A misspelled rule decides nothing, so every command that shows rules or tools says so, with the nearest name."""
    write_config(MISSPELLED)
    checked = sealyard("policy", "check")
    as_json = sealyard("policy", "check", "--json")
    shown = sealyard("policy", "show")
    tools = sealyard("tools")

    assert (checked.returncode, as_json.returncode, shown.returncode, tools.returncode) == (1, 1, 0, 0)
    assert [each["message"] for each in json.loads(as_json.stdout)["unmatched"]] == SAID
    for done in (checked.stdout, shown.stderr, tools.stderr):
        assert [said for said in SAID if said not in " ".join(done.split())] == []


def test_a_misspelled_tool_that_is_to_be_kept_out_is_found_each_time(
    sealyard: Command, write_config: Callable[..., None]
) -> None:
    """What is kept out is in no catalog, so the server is asked, also when its tools are known already."""
    command, *arguments = warm.python("-m", "sealyard.examples.mail")
    server = f"[upstreams.mail]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
    write_config(f'{server}without_tools = ["send_mial"]\n')
    first, second = sealyard("policy", "check"), sealyard("policy", "check")
    write_config(f'{server}without_tools = ["send_*"]\n')
    right = sealyard("policy", "check")

    said = "upstreams.mail.without_tools names 'send_mial', which fits no tool. Did you mean 'send_mail'?"
    assert [" ".join(done.stdout.split()) for done in (first, second)] == [said, said]
    assert (first.returncode, second.returncode, right.returncode) == (1, 1, 0)


def test_a_config_whose_names_all_fit_passes_the_check(sealyard: Command, write_config: Callable[..., None]) -> None:
    """So that it can stand in a script."""
    write_config(RULES)
    done = sealyard("policy", "check")

    assert (done.returncode, done.stdout) == (0, "Every name fits something.\n")


def test_names_cannot_be_checked_while_a_server_does_not_answer(
    sealyard: Command, write_config: Callable[..., None]
) -> None:
    """A rule for its tools is not called wrong, and the check does not call it right either."""
    write_config(
        '[upstreams.mail]\ncommand = "/bin/false"\n'
        '[[policy.rules]]\ndecision = "deny"\ntools = ["mail/send", "mcp__mail__*", "*send*"]\n'
    )
    done = sealyard("policy", "check", "--json")

    assert (done.returncode, json.loads(done.stdout)) == (1, {"unmatched": [], "silent": ["mail"]})
