"""Holds `behaviours.toml`, the promised behaviours, against the tests that claim them and the docs that promise."""

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parent
BEHAVIOURS: dict[str, dict[str, str]] = tomllib.loads((TESTS / "behaviours.toml").read_text(encoding="utf-8"))


def test_every_behaviour_is_claimed_by_a_test_and_every_claim_exists() -> None:
    """Neither side has an id that the other lacks."""
    claims = _claims()

    assert {name: claims[name] for name in claims if name not in BEHAVIOURS} == {}
    assert set(BEHAVIOURS) - set(claims) == set()


def test_every_behaviour_is_a_sentence_with_a_source() -> None:
    """An id has an area, the sentence ends, and the source is a section that exists."""
    wrong = {}
    for name, fields in BEHAVIOURS.items():
        file, _, section = fields["source"].partition("#")
        is_named = re.fullmatch(r"[a-z]+\.[a-z_]+", name) is not None
        is_sentence = re.fullmatch(r"[A-Z`].*\.", fields["sentence"]) is not None
        if not (is_named and is_sentence and fields.keys() == {"sentence", "source"} and section in _sections(file)):
            wrong[name] = fields

    assert wrong == {}
    assert len({fields["sentence"] for fields in BEHAVIOURS.values()}) == len(BEHAVIOURS) >= 60


def _claims() -> dict[str, list[str]]:
    """The tests that claim each id. A mark that cannot be read as one fails here."""
    claims = defaultdict(list)
    for file in sorted(TESTS.rglob("test_*.py")):
        if "node_modules" in file.parts:
            continue
        text = file.read_text(encoding="utf-8")
        tests = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        found = 0
        for test in tests:
            for mark in test.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.behaviour":
                    [name] = mark.args
                    assert isinstance(name, ast.Constant)
                    assert test.name.startswith("test_")
                    claims[name.value].append(f"{file.relative_to(TESTS)}::{test.name}")
                    found += 1
        if file != Path(__file__):
            assert text.count("mark.behaviour") == found, f"{file} has a mark that is not on a test."
    return dict(claims)


def _sections(file: str) -> set[str]:
    """The anchors of a page."""
    text = (TESTS.parent / file).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
