"""`sealyard doctor` as a user meets it."""

import subprocess
from collections.abc import Callable

import msgspec
import pytest

from sealyard.sandbox import Report
from sealyard.sandbox.policy import DEFAULT, PRESETS, IsolationPolicy

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_exit_code_says_whether_the_default_level_is_honoured(installed: Command) -> None:
    """The JSON report is the whole report, and the exit code is its short form."""
    done = installed("doctor", "--json")

    report = msgspec.json.decode(done.stdout, type=Report)
    assert set(report.levels) == {"development", "production", "hardened"}
    assert [tier.name for tier in report.tiers] == ["namespace", "landlock"]
    assert done.returncode == (0 if report.levels[str(DEFAULT.level)].honoured else 1)


def test_text_report_names_every_tier_layer_limit_and_level(sealyard: Command) -> None:
    """What the JSON report holds can be read in the text as well."""
    report = msgspec.json.decode(sealyard("doctor", "--json").stdout, type=Report)

    shown = "".join(sealyard("doctor").stdout.split())

    parts = [report.machine, report.kernel, report.python, report.user, report.resource_control]
    for tier in report.tiers:
        parts += [tier.name, *(layer.name for layer in tier.layers)]
        parts += [f"{limit.name}{limit.held}{limit.by}" for limit in tier.limits]
    parts += report.levels
    assert [part for part in parts if "".join(part.split()) not in shown] == []


@pytest.mark.parametrize("name", PRESETS)
def test_policy_as_json_is_the_policy(sealyard: Command, name: str) -> None:
    """An auditor reads the very data that is enforced."""
    done = sealyard("doctor", "--policy", name, "--json")

    assert (done.returncode, done.stderr) == (0, "")
    assert msgspec.json.decode(done.stdout, type=IsolationPolicy) == PRESETS[name]


def test_policy_as_text_has_a_line_for_every_field(sealyard: Command) -> None:
    """No limit is left out of the table."""
    done = sealyard("doctor", "--policy", "hardened")

    first_words = {line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")}
    assert done.returncode == 0
    assert first_words == {"field", *PRESETS["hardened"].__struct_fields__}


def test_unknown_policy_is_a_mistake_in_the_request(sealyard: Command) -> None:
    """The error lists the names that exist."""
    done = sealyard("doctor", "--policy", "lax")

    names = "development, production, hardened, default, analysis, database_readonly, filtering"
    assert (done.returncode, done.stderr) == (2, f"error: No policy named 'lax'. Give one of {names}.\n")
