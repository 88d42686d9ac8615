"""What a model sees in real clients: the tools at once, at a bounded cost, and every kind of result as it is."""

import json
import re
import signal
from copy import deepcopy
from typing import Any

from tests.clients.conversations import MILLION, REASON, Conversations, Cut, Talk, Turned
from tests.clients.programs import PROGRAMS
from tests.clients.table import Table

from sealyard.metrics.tokens import count
from sealyard.yard.surface import ARGUMENTS

OWN_TOKENS = 700
"""More than the gateway's own."""
MOST_TOKENS = 1_000
"""With what a client adds for it: tools for resources, a parameter of every tool."""
SEARCHES = {"claude-code": "ToolSearch", "qwen": "tool_search"}
"""Tools of clients that hide those of other servers; where one is offered, hiding is on."""


def test_the_tools_are_in_the_first_request(client: str, transport: str, talk: Talk, table: Table) -> None:
    """A client that hides tools behind a search of its own would leave them unused."""
    offered = talk.requests[0].tools

    assert {_own(name) for name in offered} >= ARGUMENTS.keys() - {"call_tool"}
    assert SEARCHES.get(client, next(iter(offered))) in offered
    table.add("the tools are in the first request", client, "yes[by model]" if client == "codex" else "yes", transport)
    table.add("version", client, PROGRAMS[client].version())
    table.add("settings in the entry", client, _words(talk.settings), transport)


def test_codex_names_the_gateway_to_models_that_search_tools(conversations: Conversations) -> None:
    """It hides the tools of every server from models that can search for them, and nothing can be set against that."""
    first, found, last = conversations.searched()

    assert [name for name in first.tools if _own(name) in ARGUMENTS] == []
    assert "mcp__sealyard: The advertised tools are not the whole catalogue" in json.dumps(first.body["input"])
    assert "mcp__sealyard.execute_code" in found.tools
    assert _bare("codex", last.results[-1]) == "41"


def test_the_gateway_adds_a_bounded_cost(client: str, transport: str, talk: Talk, table: Table) -> None:
    """Everything that its presence adds to a request: definitions, instructions, and what the client adds by itself."""
    before, bare, now = map(_tokens, (talk.before.body, _without_additions(talk), talk.requests[0].body))

    assert 300 < bare - before <= OWN_TOKENS
    assert now - before <= MOST_TOKENS
    table.add("tokens that sealyard adds to a request", client, _rounded(bare - before), transport)
    note = {"codex": "[resources]", "gemini": "[parameter]"}.get(client, "")
    table.add("tokens that the client adds for it", client, _rounded(now - bare) + note, transport)


def test_what_a_tool_says_to_its_client_is_not_shown_to_the_model(talk: Talk) -> None:
    """Such as that it is to be loaded at once, which only clients that read it are told."""
    assert not any("alwaysLoad" in json.dumps(each.body) for each in talk.requests)


def test_a_result_reaches_the_model_whatever_its_kind(
    client: str, transport: str, results: dict[str, str], table: Table
) -> None:
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
    table.add("search", client, transport=transport)
    table.add("results of every kind", client, transport=transport)


def test_a_megabyte_becomes_a_preview_and_a_file(
    client: str, transport: str, results: dict[str, str], table: Table
) -> None:
    """No client has to cut it."""
    assert re.search(rf"\(text of {MILLION} characters; [\d,]+ bytes, whole in results/\w+\.json", results["megabyte"])
    assert len(results["megabyte"]) < MILLION / 20
    table.add("a megabyte of result", client, "preview and file", transport)


def test_a_failure_names_its_line_and_nothing_of_the_wire(
    client: str, transport: str, results: dict[str, str], table: Table
) -> None:
    """Some clients paste the whole result of a failed call."""
    failure, line, *notes = _bare(client, results["error"]).splitlines()

    assert (failure, line) == ("ZeroDivisionError: division by zero", "line 2: x / 0")
    assert all(each.startswith("note: ") for each in notes)  # the gateway over HTTP has seen it of other clients
    assert "sealyard/execution" not in results["error"]
    table.add("a failure", client, transport=transport)


def test_a_saved_skill_is_imported_in_the_next_run(
    client: str, transport: str, results: dict[str, str], table: Table
) -> None:
    """Saved, rehearsed and used by one agent in one conversation."""
    saved = json.loads(_bare(client, results["save"]))

    assert (saved["skill"], saved["status"], saved["use"]) == ("doubled", "active", "from skills import doubled")
    assert _bare(client, results["skill"]) == "42"
    table.add("skills", client, transport=transport)


def test_a_run_in_the_background_is_followed_to_its_end(
    client: str, transport: str, results: dict[str, str], table: Table
) -> None:
    """From its id over what it has printed so far to its result."""
    started, state = (json.loads(_bare(client, results[name])) for name in ("background", "state"))

    assert (started["state"], started["execution_id"]) == ("running", state["execution_id"])
    assert (state["state"], state["output_so_far"]) == ("running", "waiting\n")
    assert _bare(client, results["end"]).removeprefix("result:\n") == "output:\nwaiting\nresult:\n42"
    table.add("a background run, to its end", client, transport=transport)


def test_a_run_in_the_background_is_cancelled(
    client: str, transport: str, results: dict[str, str], table: Table
) -> None:
    """By the model, which needs its id for that."""
    started, state = (json.loads(_bare(client, results[name])) for name in ("long", "cancel"))

    assert state == {"execution_id": started["execution_id"], "state": "cancelled"}
    table.add("a background run, cancelled", client, transport=transport)


def test_a_call_that_needs_approval_waits_for_the_operator(
    client: str, transport: str, talk: Talk, table: Table
) -> None:
    """Nobody sits at a client without a terminal, also at one that answers forms by itself."""
    approved, refused = talk.results["approved"], talk.results["refused"]

    assert _bare(client, approved) == "true"
    assert [mail for mail in talk.mails if client in mail and "ask" in mail] == [f"ask for yes, {client}"]
    assert re.match(
        rf"ApprovalRefused: mcp__mail__send_mail refused by \w+ \(cli\): {REASON}\nline 2: ", _bare(client, refused)
    )
    table.add("an operator approves a call", client, transport=transport)
    table.add("an operator refuses a call", client, transport=transport)


def test_a_client_that_is_ended_in_mid_run_leaves_nothing(
    client: str, transport: str, how: signal.Signals, cut: Cut, table: Table
) -> None:
    """Its run ends too, and so do a gateway that it started and the sandbox of that.

    Some kill their gateway after Ctrl-C: the next one then takes away its files.
    """
    assert (cut.left, cut.files) == ([], [])
    assert cut.runs in (["cancelled"], ["lost"])
    table.add(
        "Ctrl-C ends the run" if how == signal.SIGINT else "a killed client leaves nothing", client, "yes", transport
    )


def test_a_wrong_token_gives_no_tools(client: str, conversations: Conversations, table: Table) -> None:
    """What a user sees then is the client's own."""
    turned = conversations.turned(client)

    assert [name for each in turned.requests for name in each.tools if _own(name) in ARGUMENTS] == []
    table.add("a wrong token", client, _turned(turned))


def test_a_gateway_over_http_outlives_its_clients(conversations: Conversations) -> None:
    """All of them at once, some killed in mid-run. At its end nothing is left."""
    end = conversations.end()

    assert (end.status, end.running, end.files) == (143, 0, [])


def _bare(client: str, text: str) -> str:
    """A result without what the client, or the gateway for this client, writes around it."""
    if found := re.fullmatch(r"MCP tool .* with response: (\[.*\])", text, re.DOTALL):  # all of a failure
        (answer,) = json.loads(found[1])
        response = answer["functionResponse"]["response"]
        return str(response.get("error", response)["content"][0]["text"])
    match client:
        case "claude-code":
            text = re.sub(r"\n?<system-reminder>.*?</system-reminder>\n?", "", text, flags=re.DOTALL)
        case "codex":
            text = re.sub(r"\AWall time: [\d.]+ seconds\nOutput:\n", "", text)
        case "gemini":
            found = re.fullmatch(r"<untrusted_context>\n(?:result:\n)?(.*)\n</untrusted_context>", text, re.DOTALL)
            text = found[1] if found else text
        case "copilot":
            text = text.removeprefix("MCP server 'sealyard': ")
        case "qwen":
            text = text.removeprefix("result:\n")
    return text.strip("\n")


def _own(name: str) -> str:
    """The gateway's name of a tool, which clients put behind a prefix."""
    return next((own for own in ARGUMENTS if name.endswith(own)), name)


def _tokens(body: Any) -> int:
    return count(json.dumps(body, ensure_ascii=False, separators=(",", ":")))


def _without_additions(talk: Talk) -> Any:
    """The first request without tools and parameters that neither the client alone nor the gateway has."""
    body = deepcopy(talk.requests[0].body)
    added = talk.requests[0].tools.keys() - talk.before.tools.keys()
    foreign = {name for name in added if _own(name) not in ARGUMENTS}

    def prune(value: Any) -> None:
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            prune(each)
        if isinstance(value, list):
            value[:] = [each for each in value if not (isinstance(each, dict) and each.get("name") in foreign)]
        elif isinstance(value, dict) and (own := _own(str(value.get("name")))) in ARGUMENTS:
            for schema in value.values():
                if isinstance(schema, dict) and "properties" in schema:
                    for name in schema["properties"].keys() - set(ARGUMENTS[own]):
                        del schema["properties"][name]

    prune(body)
    return body


def _rounded(tokens: int) -> str:
    return str(-(-tokens // 100) * 100)


def _words(settings: dict[str, Any]) -> str:
    return ", ".join(f"`{key} = {json.dumps(value)}`" for key, value in settings.items()) or "none"


def _turned(turned: Turned) -> str:
    if turned.status != 0 and "auth" in turned.said.lower():
        return "an error[ends]"
    assert turned.status == 0
    if any("HTTP 401" in json.dumps(each.body) for each in turned.requests):
        return "the model is told[tells the model]"
    return "nothing is said" + ("[silent]" if "\N{BALLOT X}" in turned.listed else "[log]")
