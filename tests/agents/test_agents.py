"""What a model sees in agent frameworks: the tools at once, at a bounded cost, and every kind of result as it is."""

import json
import re
import signal

import pytest
from tests.agents.conftest import MILLION, Conversation, Ended
from tests.agents.programs import FRAMEWORKS, ROOT

from sealyard.metrics.tokens import count

SURFACE = ("search_tools", "execute_code", "execute_analysis", "save_skill", "find_skills", "load_skill")
PAGE = ROOT / "docs" / "howto" / "frameworks.md"


def test_the_tools_are_in_the_first_request(talk: Conversation) -> None:
    """An agent that does not see them would not use them."""
    assert [tool for tool in SURFACE if not any(name.endswith(tool) for name in talk.first.tools)] == []


def test_the_definitions_cost_what_the_page_says(name: str, talk: Conversation) -> None:
    """They are counted as the framework sends them."""
    row = re.search(rf"\| \[{FRAMEWORKS[name].title}\].*", PAGE.read_text(encoding="utf-8"))
    assert row is not None
    most = int(row[0].split("|")[3].replace(",", ""))
    ours = [each for name, each in talk.first.tools.items() if name.endswith(SURFACE)]

    cost = count(json.dumps(ours, ensure_ascii=False, separators=(",", ":")))

    assert most - 100 < cost <= most


@pytest.mark.behaviour("agents.results")
def test_a_result_reaches_the_model_whatever_its_kind(talk: Conversation) -> None:
    """No framework parses, wraps or drops it."""
    seen = {name: _bare(text) for name, text in talk.results.items()}

    assert json.loads(seen["search"])["tools"][0]["use"] == "from servers.expenses import list_expenses"
    assert seen["number"] == "41"
    assert seen["list"] == "[1,2]"
    assert seen["object"] == '{"a":1}'
    assert seen["true"] == "true"
    assert seen["text"] == "some words"
    assert seen["printed"] == "7"
    assert seen["nothing"] == "(The code ran. It printed nothing and its value is None.)"
    assert seen["unicode"] == "größer ≥ 東京 🙂"
    assert seen["tool"] == "5000"


def test_arguments_that_say_nothing_count_as_absent(talk: Conversation) -> None:
    """Some frameworks make a model give every argument."""
    assert _bare(talk.results["empty"]) == "5"
    assert _bare(talk.results["null"]) == "6"


def test_a_megabyte_becomes_a_preview_and_a_file(talk: Conversation) -> None:
    """No framework has to cut it."""
    text = talk.results["megabyte"]

    assert re.search(rf"\(text of {MILLION} characters; [\d,]+ bytes, whole in results/\w+\.json", text)
    assert len(text) < MILLION / 20


def test_a_failure_names_its_line_and_nothing_of_the_wire(talk: Conversation) -> None:
    """The model corrects itself, and the agent goes on."""
    assert "ZeroDivisionError: division by zero" in talk.results["error"]
    assert "line 2: x / 0" in talk.results["error"]
    assert "sealyard/execution" not in talk.results["error"]


def test_files_of_a_session_are_kept(talk: Conversation) -> None:
    """Also if each call has a connection, or a gateway, of its own."""
    assert _bare(talk.results["read"]) == "kept"


def test_rows_are_analyzed_without_code(talk: Conversation) -> None:
    """Arguments that are objects come through."""
    assert "amount" in talk.results["rows"]


def test_a_saved_skill_is_imported_in_the_next_run(talk: Conversation) -> None:
    """Saved, rehearsed and used by one agent in one conversation."""
    assert "from skills import doubled" in talk.results["save"]
    assert _bare(talk.results["skill"]) == "42"


def test_a_run_may_take_longer_than_a_framework_waits_by_default(talk: Conversation) -> None:
    """The examples set what must be set."""
    assert _bare(talk.results["slow"]) == "awake"


def test_a_run_that_takes_too_long_is_named(talk: Conversation) -> None:
    """The model learns which limit it was."""
    assert "ran longer than 1 s" in talk.results["endless"]


def test_a_background_run_is_followed_to_its_end(talk: Conversation) -> None:
    """Asked for by its id until it is over."""
    assert _bare(talk.results["followed"]) == "42"


def test_a_call_is_approved(talk: Conversation) -> None:
    """By the agent's user if the framework shows forms, else by an operator in a shell."""
    assert _bare(talk.results["approved"]) == "approved"


def test_nothing_is_left_behind(talk: Conversation) -> None:
    """The gateway ends with its agent, and so do its sandbox and the servers that it started."""
    assert talk.left == []


@pytest.mark.behaviour("agents.killed")
def test_a_killed_agent_takes_its_run_and_its_gateway_with_it(killed: Ended) -> None:
    """The run would take longer than its processes get to end. Over HTTP the run ends, and the gateway goes on."""
    assert (killed.status, killed.runs) == (128 + signal.SIGKILL, ["cancelled"])


@pytest.mark.behaviour("agents.cancelled")
def test_a_cancelled_agent_takes_its_run_with_it_and_the_next_one_works(cancelled: Ended) -> None:
    """In the same process, and with the same connection if the framework tells servers about cancelled calls."""
    assert (cancelled.runs, cancelled.results) == (["cancelled", "ok"], ["41"])
    assert cancelled.status == 0


def _bare(text: str) -> str:
    """A result without what the framework writes around it."""
    return text.removeprefix("Observation:\n").strip("\n")
