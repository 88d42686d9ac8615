"""The `proxy` mode under attack: values planted in all that an upstream says, forged tokens, hidden tools."""

import base64
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from tests import warm
from tests.mcp.everything_server import png
from tests.mcp.private_server import EMAIL, PERSON, URI
from tests.mcp.upstreams import post
from tests.mcp.wire import Json, Wire, serving_http, wired

from sealyard.privacy import TOKEN
from sealyard.serve.dialogue import READING_SECONDS
from sealyard.store import open_store

BOTH_ERAS = pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
MODES = pytest.mark.parametrize("mode", ["strict", "output"])
FORGED = "__PII_email_0123456789ab__"


def server(folder: Path) -> list[str]:
    """The command of the server that plants; what it is told is in `told`."""
    return warm.python("-m", "tests.mcp.private_server", str(folder / "told"))


def told(folder: Path) -> list[Json]:
    """What the server was told."""
    path = folder / "told"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def planted_in(text: str) -> list[str]:
    """The planted values that appear in a text, whatever their case, spacing or encoding in base64."""
    runs = re.findall(r"(?:[A-Za-z0-9+/]{4}){4,}(?:[A-Za-z0-9+/]{2,3}={1,2})?", text)
    bare = [run.rstrip("=") for run in runs]  # in a file, what follows a run by chance may look like its padding
    decoded = [base64.b64decode(run + "=" * (-len(run) % 4)) for run in bare]
    readings = [each.decode(encoding, "replace") for each in decoded for encoding in ("utf-8", "utf-16")]
    every = "\n".join((text, *readings)).casefold()
    tight = re.sub(r"[\s-]", "", every)
    return [v for v in PERSON.values() if v.casefold() in every or re.sub(r"[\s-]", "", v.casefold()) in tight]


def answering(wire: Wire, words: str) -> None:
    """Have the client answer forms and its model speak with these words."""
    wire.answers["elicitation/create"] = lambda _: {"action": "accept", "content": {"address": words}}
    wire.answers["sampling/createMessage"] = lambda _: {
        "role": "assistant",
        "model": "m",
        "content": {"type": "text", "text": f"Write to {words}."},
    }


async def ask_for_everything(wire: Wire) -> None:
    """Every request there is, so that everything there is to say is said."""
    await wire.request("tools/list")
    for tool in ("get_person", "fail", "refuse", "send_mail"):
        await wire.request("tools/call", {"name": tool, "arguments": {}})
    answering(wire, "nobody")
    await wire.result("tools/call", {"name": "talk", "arguments": {}})
    (resource,) = (await wire.result("resources/list"))["resources"]
    await wire.request("resources/templates/list")
    await wire.request("resources/read", {"uri": resource["uri"]})
    await wire.request("resources/read", {"uri": "crm://people/nobody"})
    await wire.request("prompts/get", {"name": "write"})
    await wire.request("completion/complete", completing(""))
    if not wire.modern:
        await wire.request("resources/subscribe", {"uri": resource["uri"]})
        await wire.request("crm/export", {"person": "all"})


def completing(value: str) -> Json:
    """The parameters of a completion."""
    return {"ref": {"type": "ref/prompt", "name": "write"}, "argument": {"name": "to", "value": value}}


@MODES
@BOTH_ERAS
async def test_nothing_planted_reaches_the_client_in_any_message(tmp_path: Path, modern: bool, mode: str) -> None:
    """Results in every form, errors and their data, log, progress, questions, lists, prompts, completions, news."""
    async with wired(tmp_path, {"crm": server(tmp_path)}, modern=modern, privacy={"mode": mode}) as wire:
        await ask_for_everything(wire)

    assert planted_in(wire.text) == []
    assert {"notifications/message", "notifications/progress"} <= set(re.findall(r"notifications/[a-z/]+", wire.text))
    assert png() in wire.text


async def test_without_privacy_everything_planted_does_reach_the_client(tmp_path: Path) -> None:
    """The tests here look in the right places."""
    async with wired(tmp_path, {"crm": server(tmp_path)}, modern=False, privacy={"mode": "off"}) as wire:
        await ask_for_everything(wire)

    assert planted_in(wire.text) == list(PERSON.values())


@BOTH_ERAS
async def test_same_wall_stands_before_several_upstreams(tmp_path: Path, modern: bool) -> None:
    """Merged names and addresses do not go around it."""
    upstreams = {"crm": server(tmp_path), "erp": [*server(tmp_path)[:-1], str(tmp_path / "other")]}
    async with wired(tmp_path, upstreams, modern=modern) as wire:
        tools = {tool["name"] for tool in (await wire.result("tools/list"))["tools"]}
        for tool in ("get_person", "fail", "refuse"):
            await wire.request("tools/call", {"name": f"mcp__erp__{tool}", "arguments": {}})
        (resource, *_) = (await wire.result("resources/list"))["resources"]
        read = await wire.result("resources/read", {"uri": resource["uri"]})
        unlisted = resource["uri"].replace("crm://", "unlisted://")
        lost = await wire.request("resources/read", {"uri": unlisted})

    assert "mcp__crm__get_person" in tools
    assert read["contents"][0]["uri"] == resource["uri"]
    assert lost["error"]["data"] == {"uri": unlisted}
    assert planted_in(wire.text) == []
    assert [line["uri"] for line in told(tmp_path) if "uri" in line] == [URI]


@MODES
async def test_nothing_planted_is_left_in_the_gateways_files(tmp_path: Path, mode: str) -> None:
    """Store, audit log and vault hold tokens, and values only sealed."""
    async with wired(tmp_path, {"crm": server(tmp_path)}, modern=False, privacy={"mode": mode}) as wire:
        await ask_for_everything(wire)
        await wire.request("tools/call", {"name": "send_mail", "arguments": {"to": EMAIL}})
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    leaks = [path.name for path in files if planted_in(path.read_bytes().decode("latin-1"))]

    assert files != []
    assert leaks == []


@BOTH_ERAS
async def test_token_becomes_the_value_wherever_a_client_can_say_one(tmp_path: Path, modern: bool) -> None:
    """Arguments, addresses, prompts, completions, forms and sampled words reach the upstream as it knows them."""
    inside = {"rules": [{"tools": ["*"], "reveal": "inside"}]}
    async with wired(tmp_path, {"crm": server(tmp_path)}, modern=modern, privacy=inside) as wire:
        person = (await wire.result("tools/call", {"name": "get_person", "arguments": {}}))["structuredContent"]
        token = person["email"]
        await wire.result(
            "tools/call", {"name": "send_mail", "arguments": {"to": f"Dear {token.upper()}", "number": 3}}
        )
        answering(wire, token)
        await wire.result("tools/call", {"name": "talk", "arguments": {}})
        (resource,) = (await wire.result("resources/list"))["resources"]
        await wire.result("resources/read", {"uri": resource["uri"]})
        await wire.result("prompts/get", {"name": "write", "arguments": {"to": token}})
        await wire.result("completion/complete", completing(token))

    assert [line for line in told(tmp_path) if line.get("tool") not in ("get_person", "talk")] == [
        {"tool": "send_mail", "arguments": {"to": f"Dear {EMAIL}", "number": 3}},
        {"address": EMAIL, "model": f"Write to {EMAIL}."},
        {"uri": URI},
        {"prompt": {"to": EMAIL}},
        {"completing": EMAIL},
    ]
    assert planted_in(wire.text) == []


@BOTH_ERAS
async def test_forged_token_is_refused_and_nothing_is_sent(tmp_path: Path, modern: bool) -> None:
    """The model can read why; the upstream never hears of it."""
    async with wired(tmp_path, {"crm": server(tmp_path)}, modern=modern) as wire:
        call = await wire.result("tools/call", {"name": "send_mail", "arguments": {"to": [f"x {FORGED}"]}})
        errors = [
            await wire.request("prompts/get", {"name": "write", "arguments": {"to": FORGED}}),
            await wire.request("completion/complete", completing(FORGED)),
            await wire.request("resources/read", {"uri": f"crm://people/{FORGED}"}),
            await wire.request("resources/read", {"uri": f"crm://{FORGED.replace('email', 'text')}"}),
        ]

    assert call["isError"] is True
    assert call["content"][0]["text"].startswith(f"UnknownToken: '{FORGED}' is no token of this session")
    assert [error["error"]["code"] for error in errors] == [types.INVALID_PARAMS] * 4
    assert told(tmp_path) == []


@BOTH_ERAS
async def test_forged_token_in_an_answer_to_a_question_does_not_reach_the_upstream(
    tmp_path: Path, modern: bool
) -> None:
    """Neither in a form nor in sampled words."""
    async with wired(tmp_path, {"crm": server(tmp_path)}, modern=modern) as wire:
        answering(wire, FORGED)
        first = await wire.request("tools/call", {"name": "talk", "arguments": {}})
        if modern:
            given = {"form": {"action": "accept", "content": {"address": FORGED}}, "model": {}}
            again = {"name": "talk", "arguments": {}, "inputResponses": given, "requestState": "begun"}
            first = await wire.request("tools/call", again)

    assert "error" in first or first["result"]["isError"]
    assert [line for line in told(tmp_path) if "address" in line] == []


async def test_upstream_cannot_have_its_own_words_taken_for_a_token(tmp_path: Path) -> None:
    """A token that an upstream sends, even a true one, is text: handed back, it is that text and not the value."""
    async with wired(tmp_path, {"crm": server(tmp_path)}, modern=False) as wire:
        person = (await wire.result("tools/call", {"name": "get_person", "arguments": {}}))["structuredContent"]
        secret = person["email"][-14:-2]
        forged = await wire.result("tools/call", {"name": "forge", "arguments": {"to": secret}})
        echoed = forged["content"][0]["text"]
        await wire.result("tools/call", {"name": "send_mail", "arguments": {"to": echoed}})

    assert TOKEN.fullmatch(echoed) is not None
    assert echoed != person["email"]
    assert told(tmp_path)[-1]["arguments"] == {"to": person["email"]}


async def test_token_of_another_principal_is_refused_over_http(tmp_path: Path) -> None:
    """Each principal has a vault of its own: what one was shown means nothing in another's hands."""
    tables = {"http": {"tokens": {"alice": "${ALICE}", "bob": "${BOB}"}}}
    environment = {**os.environ, "ALICE": "a-secret", "BOB": "b-secret"}
    async with serving_http(tmp_path, {"crm": server(tmp_path)}, environment, **tables) as url:

        async def call(token: str, name: str, **arguments: Any) -> Json:
            headers = {"authorization": f"Bearer {token}"}
            params = {"name": name, "arguments": arguments}
            result: Json = (await post(url, "tools/call", params, headers=headers))["result"]
            return result

        hers = (await call("a-secret", "get_person"))["structuredContent"]["email"]
        his = (await call("b-secret", "get_person"))["structuredContent"]["email"]
        stolen = await call("b-secret", "send_mail", to=hers)
        own = await call("a-secret", "send_mail", to=hers)

    assert hers != his
    assert (stolen["isError"], own.get("isError", False)) == (True, False)
    assert [line["arguments"] for line in told(tmp_path) if line["tool"] == "send_mail"] == [{"to": EMAIL}]


@BOTH_ERAS
async def test_hidden_tool_does_not_exist_even_by_its_name(tmp_path: Path, modern: bool) -> None:
    """A tool that is always denied is in no list, and a call of it gets no further than the audit log."""
    rules = [{"decision": "deny", "tools": ["mcp__crm__drop_*"], "reason": "Never."}]
    async with wired(tmp_path, {"crm": server(tmp_path)}, modern=modern, policy={"rules": rules}) as wire:
        before = await wire.request("tools/call", {"name": "drop_everything", "arguments": {}})
        listed = await wire.result("tools/list")
        after = await wire.request("tools/call", {"name": "drop_everything", "arguments": {}})
    async with open_store(tmp_path / "store" / "sealyard.db") as store:
        entries = await store.audit_entries(kind="call")

    assert "drop_everything" not in [tool["name"] for tool in listed["tools"]]
    assert [reply["error"] for reply in (before, after)] == [
        {"code": types.INVALID_PARAMS, "message": "No upstream lists the name 'drop_everything'."}
    ] * 2
    assert listed.get("cacheScope") == ("private" if modern else listed.get("cacheScope"))
    assert [entry.body["tool"] for entry in entries] == ["mcp__crm__drop_everything"] * 2
    assert told(tmp_path) == []


async def test_gateway_without_a_store_does_not_start(tmp_path: Path) -> None:
    """What cannot be recorded is not passed on."""
    (tmp_path / "store").write_text("in the way", encoding="utf-8")
    with pytest.raises(json.JSONDecodeError):
        async with wired(tmp_path, {"crm": server(tmp_path)}, modern=False):
            pass

    assert told(tmp_path) == []


async def test_what_a_person_said_of_a_token_says_nothing_of_a_guess(tmp_path: Path) -> None:
    """A client that sends a guess in the place of a token is asked about anew, right or wrong."""
    asked: list[Json] = []

    def approve(params: Json) -> Json:
        asked.append(params)
        time.sleep(READING_SECONDS)  # as a person does
        return {"action": "accept", "content": {"decision": "always"}}

    rules = [{"decision": "ask", "tools": ["crm/send_mail"]}]
    async with wired(tmp_path, {"crm": server(tmp_path)}, modern=False, policy={"rules": rules}) as wire:
        person = await wire.result("tools/call", {"name": "get_person", "arguments": {}})
        token = re.search(r"__PII_email_[0-9a-f]{12}__", json.dumps(person))
        assert token is not None
        wire.answers["elicitation/create"] = approve
        counts = []
        for to in (token[0], token[0], EMAIL, "nobody@example.com"):
            await wire.result("tools/call", {"name": "send_mail", "arguments": {"to": to}})
            counts.append(len(asked))

    assert counts == [1, 1, 2, 3]
