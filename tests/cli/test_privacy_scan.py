"""`sealyard privacy scan` as a user meets it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Command = Callable[..., subprocess.CompletedProcess[str]]

ROWS = (
    b'[{"first_name": "Ula", "email": "ula.holt@mail.example", "country": "Norway", "plan": "gold"},'
    b' {"first_name": "Ron", "email": "ron@day.example", "country": "Chile", "plan": "free"}]'
)


def test_scan_shows_types_counts_and_masked_samples(installed: Command) -> None:
    """No private value is printed as it is."""
    done = installed("privacy", "scan", "-", "--json", stdin=ROWS)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "characters": len(ROWS),
        "found": [
            {"type": "email", "count": 2, "samples": ["u***.h***@m***.example", "r***@d***.example"]},
            {"type": "person", "count": 2, "samples": ["U***", "R***"]},
        ],
    }


def test_scan_of_a_file_prints_a_table(sealyard: Command, tmp_path: Path) -> None:
    """With the types that are off unless configured."""
    file = tmp_path / "rows.json"
    file.write_bytes(ROWS)
    done = sealyard("privacy", "scan", str(file), "--all")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["type", "count", "such", "as"],
        ["person", "2", "U***,", "R***"],
        ["email", "2", "u***.h***@m***.example,", "r***@d***.example"],
        ["location", "2", "N***,", "C***"],
    ]


def test_scan_says_that_there_is_nothing(sealyard: Command) -> None:
    """Bytes that are no UTF-8 are no failure."""
    done = sealyard("privacy", "scan", "-", stdin=b"\xff\xfe nothing to see")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Nothing private was found.\n", "")


def test_scan_of_a_missing_file_says_so(sealyard: Command, tmp_path: Path) -> None:
    """One sentence, and what to do."""
    missing = tmp_path / "none.txt"
    done = sealyard("privacy", "scan", str(missing))
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == f"error: {str(missing)!r} cannot be read: No such file or directory. Name a file that can, or -.\n"
    )


def test_the_configs_own_patterns_and_allowed_values_count(sealyard: Command, tmp_path: Path) -> None:
    """What a gateway with this configuration would conceal is shown, and nothing else."""
    config = tmp_path / "sealyard.toml"
    config.write_text("[privacy]\nallow = ['*@ours.org']\n[privacy.patterns]\nbadge = 'B-[0-9]{4}'\n", encoding="utf-8")
    file = tmp_path / "text.txt"
    file.write_text("Badge B-1234, write to ana@ours.org or bea@theirs.org.", encoding="utf-8")

    done = sealyard("privacy", "scan", str(file), "--config", str(config), "--json")

    found = {each["type"]: each["count"] for each in json.loads(done.stdout)["found"]}
    assert found == {"badge": 1, "email": 1}
