"""`sealyard bench privacy` as a user meets it."""

import gzip
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]


def document(number: int, text: str, *labels: tuple[str, str]) -> dict[str, Any]:
    """A labelled text: each label is a stretch of it and its type."""
    spans = [{"start": text.index(part), "end": text.index(part) + len(part), "type": kind} for part, kind in labels]
    return {"id": f"d{number}", "text": text, "spans": spans, "fmt": "x"}


def write(folder: Path, **files: list[dict[str, Any]]) -> None:
    """One file of lines for each."""
    for name, documents in files.items():
        lines = "".join(json.dumps(each) + "\n" for each in documents)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Rows, prose, a table without private values, and secrets."""
    write(
        tmp_path,
        json_users=[
            document(
                1,
                '{"first_name": "Ula", "email": "ula@holt.example", "spot": "Bonn"}',
                ("Ula", "PERSON"),
                ("ula@holt.example", "EMAIL"),
                ("Bonn", "LOCATION"),
            ),
            document(2, '{"first_name": "Ron", "country": "Chile"}', ("Ron", "PERSON"), ("Chile", "LOCATION")),
        ],
        csv_users=[document(1, "first_name,last_name\nUla,Holt\n", ("Ula", "PERSON"))],
        text_notes=[
            document(1, "Write to ula@holt.example.", ("ula@holt.example", "EMAIL")),
            document(2, "Paid with 4111****1111 by Ula.", ("4111****1111", "CREDIT_CARD"), ("Ula", "PERSON")),
        ],
        neg_plans=[document(1, "plan,price\ngold,12\nsilver,9\n" * 100)],
    )
    secret = document(
        1, 'key = "ghp_0123456789abcdefghijABCDEFGHIJ012345"', ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "SECRET")
    )
    (tmp_path / "secrets_keys.jsonl.gz").write_bytes(gzip.compress(json.dumps(secret).encode()))
    return tmp_path


def test_figures_are_those_of_the_data(sealyard: Command, data: Path) -> None:
    """Recall by offsets and group of types, precision, false positives, and the same with names hidden."""
    done = sealyard("bench", "privacy", "--rounds", "0", "--data", str(data), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads(done.stdout)
    assert figures["types"] == "all"
    assert figures["listed_types"] == ["EMAIL", "LOCATION", "PERSON"]
    assert figures["recall_rows_by_type"] == {"EMAIL": 1.0, "LOCATION": 0.5, "PERSON": 1.0}
    assert figures["recall_rows"] == pytest.approx(5 / 6)
    assert figures["precision_rows"] == pytest.approx(5 / 6)
    assert figures["recall_prose_checkable"] == 1.0
    assert figures["recall_prose_by_type"] == {"CREDIT_CARD": 0.0, "EMAIL": 1.0, "PERSON": 0.0}
    assert figures["recall_secrets_overlap"] == 1.0
    assert figures["false_positives_per_kb"] == 0.0
    assert figures["mb_per_second"] > 0
    assert figures["keys_hidden"]["recall_rows_by_type"] == {"EMAIL": 1.0, "LOCATION": 0.0, "PERSON": 0.0}
    assert figures["by_file"]["csv_users.jsonl"] == {
        "PERSON": {"n": 1, "strict": 1.0, "overlap": 1.0, "covered": 1.0, "precision": 0.5}
    }
    assert figures["by_file"]["neg_plans.jsonl"] == {"found": {}, "per_kb": 0.0}


def test_figures_are_shown_as_tables(sealyard: Command, data: Path) -> None:
    """With what is not in the mean marked."""
    done = sealyard("bench", "privacy", "--rounds", "0", "--data", str(data))
    assert (done.returncode, done.stderr) == (0, "")
    assert ["recall", "PERSON", "1.000", "0.000"] in [line.split() for line in done.stdout.splitlines()]


def test_a_folder_without_rows_is_refused(sealyard: Command, tmp_path: Path) -> None:
    """The message says what is missing."""
    done = sealyard("bench", "privacy", "--rounds", "0", "--data", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: No file in {str(tmp_path)!r} is named csv_*.jsonl or json_*.jsonl. Name a folder that has one.\n"
    )


def test_a_line_that_is_no_document_is_named(sealyard: Command, tmp_path: Path) -> None:
    """By its file and number."""
    file = tmp_path / "json_x.jsonl"
    file.write_text('{"id": "a", "text": "", "spans": []}\n{"id": "b"}\n', encoding="utf-8")
    done = sealyard("bench", "privacy", "--rounds", "0", "--data", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {file}, line 2: Object missing required field `text`. Correct or remove the line.\n"
