"""What a model sees in real clients: the tools at once, at a bounded cost, and every kind of result as it is."""

import json
import re

from tests.clients.conftest import MILLION, Conversations

from sealyard.metrics.tokens import count

SURFACE = {"search_tools", "execute_code", "execute_analysis", "save_skill", "find_skills", "load_skill"}
MOST_TOKENS = {"claude-code": 1_000, "codex": 1_300, "gemini": 1_400, "opencode": 1_000}
"""Over a thousand are three tools for resources, which Codex adds for any server, and a parameter that Gemini CLI adds
to each tool."""


def test_the_tools_are_in_the_first_request(client: str, conversations: Conversations) -> None:
    """A client that hides tools behind a search of its own would leave them unused."""
    offered = conversations.of(client).requests[0].tools

    assert {tool for tool in SURFACE if any(name.endswith(tool) for name in offered)} == SURFACE


def test_the_gateway_adds_a_bounded_cost(client: str, conversations: Conversations) -> None:
    """Everything that its presence adds to a request: definitions, instructions, and what the client adds by itself."""
    talk = conversations.of(client)

    before, now = (
        count(json.dumps(each.body, ensure_ascii=False, separators=(",", ":")))
        for each in (talk.before, talk.requests[0])
    )

    assert 500 < now - before <= MOST_TOKENS[client]


def test_what_a_tool_says_to_its_client_is_not_shown_to_the_model(client: str, conversations: Conversations) -> None:
    """Such as that it is to be loaded at once, which only clients that read it are told."""
    assert not any("alwaysLoad" in json.dumps(each.body) for each in conversations.of(client).requests)


def test_a_result_reaches_the_model_whatever_its_kind(client: str, results: dict[str, str]) -> None:
    """Some clients parse a text that looks like JSON, and some of them fail if it is no object."""
    seen = {name: _bare(client, text) for name, text in results.items()}

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
    assert seen["optional"] == "5"


def test_a_megabyte_becomes_a_preview_and_a_file(client: str, results: dict[str, str]) -> None:
    """No client has to cut it."""
    assert re.search(rf"\(text of {MILLION} characters; [\d,]+ bytes, whole in results/\w+\.json", results["megabyte"])
    assert len(results["megabyte"]) < MILLION / 20


def test_a_failure_names_its_line_and_nothing_of_the_wire(client: str, results: dict[str, str]) -> None:
    """Some clients paste the whole result of a failed call."""
    assert "ZeroDivisionError: division by zero" in results["error"]
    assert "line 2: x / 0" in results["error"]
    assert "sealyard/execution" not in results["error"]


def test_a_saved_skill_is_imported_in_the_next_run(client: str, results: dict[str, str]) -> None:
    """Saved, rehearsed and used by one agent in one conversation."""
    assert "from skills import doubled" in results["save"]
    assert _bare(client, results["skill"]) == "42"


def test_a_run_in_the_background_is_named(client: str, results: dict[str, str]) -> None:
    """The model needs its id to look at it."""
    assert re.fullmatch(r"[0-9a-f]{16}", json.loads(_bare(client, results["background"]))["execution_id"])


def _bare(client: str, text: str) -> str:
    """A result without what the client, or the gateway for this client, writes around it."""
    match client:
        case "claude-code":
            text = re.sub(r"\n?<system-reminder>.*?</system-reminder>\n?", "", text, flags=re.DOTALL)
        case "codex":
            text = re.sub(r"\AWall time: [\d.]+ seconds\nOutput:\n", "", text)
        case "gemini":
            found = re.fullmatch(r"<untrusted_context>\n(?:result:\n)?(.*)\n</untrusted_context>", text, re.DOTALL)
            text = found[1] if found else text  # of a failure it shows all
    return text.strip("\n")
