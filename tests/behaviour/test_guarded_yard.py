"""Privacy, policy, approval and audit as the yard puts them together, over real stores and a real sandbox."""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.broker.policy import PolicySettings, Rule, ToolLimits
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, PrivacyRule, SandboxConfig, StoreConfig
from sealyard.errors import InvalidConfig, PolicyRefused, UnknownTool, VaultError
from sealyard.offload import Offload
from sealyard.privacy import TOKEN
from sealyard.privacy.vault import KeyPlace, Vault
from sealyard.sandbox.policy import DEFAULT
from sealyard.store import open_store
from sealyard.store.audit.verification import verify_store
from sealyard.testing import FakeUpstream
from sealyard.values.access import Approval, ApprovalRequest
from sealyard.values.tools import Definition
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
MAIL = "ottoline.fairweather@quillhaven.org"


def office(**more: Any) -> FakeUpstream:
    """A server with a private row, a mail and a dangerous button."""

    def get_row() -> dict[str, Any]:
        """Get a customer."""
        return {
            "first_name": "Ottoline",
            "last_name": "Fairweather",
            "email": MAIL,
            "phone": 4915123456789,
            "orders": 3,
        }

    def send(to: str, text: str = "") -> str:
        """Send a mail."""
        return f"Sent to {to}."

    def call_number(number: int) -> int:
        """Call a number."""
        return number % 10

    def wipe(target: str = "all") -> str:
        """Delete everything."""
        return f"{target} wiped"

    return FakeUpstream("office", get_row=get_row, send=send, call_number=call_number, wipe=wipe, **more)


@contextlib.asynccontextmanager
async def opened(folder: Path, upstream: FakeUpstream, **config: Any) -> AsyncIterator[Yard]:
    """A yard over one fake, with its store in `folder`."""
    folder.mkdir(exist_ok=True)
    settings = Config(store=StoreConfig(path=folder / "sealyard.db"), **config)
    async with open_yard(settings, policy=PLAIN, upstreams={upstream.name: upstream}) as yard:
        yield yard


async def run(yard: Yard, code: str, **options: Any) -> str:
    """The text that the agent gets."""
    return (await yard.execute(ExecuteRequest(code=f"from servers.office import *\n{code}", **options))).text


def policy(*rules: Rule, **options: Any) -> PolicySettings:
    """A policy of these rules."""
    return PolicySettings(rules=rules, **options)


# Privacy


async def test_a_private_value_is_hidden_wherever_one_answer_repeats_it(tmp_path: Path) -> None:
    """A name known by its field in a lone word, a card among other numbers, a key encoded in a dictionary's key."""
    key = base64.b64encode(b"AKIAQWERTZUIOPASDFGH").decode()

    def get_page() -> dict[str, Any]:
        """Get a page of mixed data."""
        return {
            "tags": ["Ottoline", "new"],
            "mixed": ["ab", 4539578763621486, 7],
            "seen": {key: 1},
            "row": {"first_name": "Ottoline", "plan": "pro"},
            "greeting": ["Mr. Aldous"],
            "paths": ["src/module_one/view.py"] * 40,
        }

    async with opened(tmp_path, office(get_page=get_page)) as yard:
        text = await run(yard, "get_page()")

    assert [each for each in ("Ottoline", "4539578763621486", key, "Aldous") if each in text] == []
    assert text.count("src/module_one/view.py") == 40
    assert '"ab"' in text


async def test_a_value_that_shares_a_part_with_what_was_handed_over_keeps_a_token_of_its_own(tmp_path: Path) -> None:
    """The name in an address, and a colleague at the same domain, are not taken for the address."""
    rows = [
        {"first_name": "Featherstone", "email": "featherstone@quillhaven.org"},
        {"first_name": "Zoe", "email": "zoe@quillhaven.org"},
    ]

    def find_customers(email: str) -> list[dict[str, str]]:
        """Find customers."""
        return rows

    upstream = office(list_customers=lambda: rows, find_customers=find_customers)
    code = (
        "known = list_customers()\nfound = find_customers(email=known[0]['email'])\n"
        "[found == known, len({each for row in found for each in row.values()})]"
    )
    async with opened(tmp_path, upstream) as yard:
        text = await run(yard, code)

    assert json.loads(text) == [True, 4]


@pytest.mark.behaviour("privacy.joins")
async def test_equal_values_have_equal_tokens_so_that_joins_work(tmp_path: Path) -> None:
    """Grouping, dictionary keys and equality do with tokens what they do with values."""
    async with opened(tmp_path, office()) as yard:
        text = await run(
            yard, "a, b = get_row(), get_row()\n[a == b, {a['email']: 1}[b['email']], len({a['email'], b['email']})]"
        )
        again = await run(yard, "get_row()['email']")
        later = await run(yard, "get_row()['email']")

    assert json.loads(text) == [True, 1, 1]
    assert again == later
    assert TOKEN.fullmatch(again)


async def test_a_number_becomes_a_text_and_a_number_again_for_the_tool(tmp_path: Path) -> None:
    """The parameter's schema says what the tool gets."""
    upstream = office()
    async with opened(tmp_path, upstream) as yard:
        text = await run(yard, "n = get_row()['phone']\n[type(n).__name__, call_number(number=n)]")

    assert json.loads(text) == ["str", 9]
    assert upstream.calls[-1] == ("call_number", {"number": 4915123456789})


async def test_sessions_have_tokens_of_their_own_unless_the_gateway_shares_them(tmp_path: Path) -> None:
    """A token of one session says nothing in another; `scope = gateway` is for who wants that."""
    async with opened(tmp_path / "own", office()) as yard:
        own = [await run(yard, "get_row()['email']", session=name) for name in ("one", "two")]
    async with opened(tmp_path / "shared", office(), privacy=PrivacyConfig(scope="gateway")) as yard:
        shared = [await run(yard, "get_row()['email']", session=name) for name in ("one", "two")]

    assert own[0] != own[1]
    assert shared[0] == shared[1]


async def test_a_shared_scope_leaves_each_principal_its_own_turn_of_the_helpers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: helpers counted the work for everybody as that of the principal who came first."""
    principals = []
    carry_out = Offload.run

    async def noted(self: Offload, task: str, *args: Any, who: str, **options: Any) -> Any:
        principals.append(who)
        return await carry_out(self, task, *args, who=who, **options)

    async with opened(tmp_path, office(), privacy=PrivacyConfig(scope="gateway")) as yard:
        guards = [await yard.guards.of(session) for session in ("anna:main", "otto:main")]
        monkeypatch.setattr(Offload, "run", noted)
        shown = [await guard.door.conceal([f"{MAIL} " * 5_000]) for guard in guards]

    assert principals == ["anna", "otto"]
    assert shown[0] == shown[1]
    assert MAIL not in str(shown)


async def test_tokens_outlive_the_gateway(tmp_path: Path) -> None:
    """After a restart the same value has the same token, and the old one still works."""
    async with opened(tmp_path, office()) as yard:
        token = await run(yard, "get_row()['email']")
    upstream = office()
    async with opened(tmp_path, upstream) as yard:
        await run(yard, f"send(to={token!r})")
        again = await run(yard, "get_row()['email']")

    assert upstream.calls[0] == ("send", {"to": MAIL})
    assert again == token


async def test_a_token_of_another_gateway_on_the_same_store_works_in_the_same_session(tmp_path: Path) -> None:
    """Two clients of one user share the session: what one was given the other can pass on."""
    first, second = office(), office()
    async with opened(tmp_path, first) as one, opened(tmp_path, second) as two:
        await run(two, "1")  # the session is loaded there before the token exists
        token = await run(one, "get_row()['email']")
        await run(two, f"send(to={token!r})")

    assert second.calls[-1][1]["to"] == MAIL


@pytest.mark.behaviour("vault.erasure")
async def test_an_erased_value_is_gone_from_a_running_gateway(tmp_path: Path) -> None:
    """Its token is refused, and the gateway has no memory of the value either."""
    upstream = office()
    config = Config(store=StoreConfig(path=tmp_path / "sealyard.db"))
    async with opened(tmp_path, upstream) as yard:
        token = await run(yard, "get_row()['email']")
        async with open_store(config.store.path) as store:
            keys = KeyPlace("auto", folder=tmp_path).load()
            erased = await Vault(keys, store.vault, expires_seconds=60).forget([MAIL])
        text = await run(yard, f"send(to={token!r})")

    assert erased == 1
    assert "UnknownToken" in text
    assert [tool for tool, _ in upstream.calls] == ["get_row"]


async def test_rules_choose_a_mode_and_fields_by_tool(tmp_path: Path) -> None:
    """`whole` hides a field that no detector would, `visible` shows one, `off` shows the tool's own values."""
    note = {"first_name": "Ottoline", "last_name": "Fairweather", "email": MAIL, "remark": "likes tea"}
    rules = (
        PrivacyRule(tools=("mcp__office__note",), whole=("remark",), visible=("first_name",)),
        PrivacyRule(tools=("mcp__office__get_row",), mode="off"),
    )
    async with opened(tmp_path, office(note=lambda: note), privacy=PrivacyConfig(rules=rules)) as yard:
        noted = json.loads(await run(yard, "note()"))
        shown = json.loads(await run(yard, "get_row()", session="other"))

    assert noted["first_name"] == "Ottoline"
    assert noted["remark"].startswith("__PII_text_")
    assert noted["email"].startswith("__PII_email_")
    assert shown["email"] == MAIL


async def test_custom_patterns_and_allowed_values(tmp_path: Path) -> None:
    """A pattern adds a type; what the config allows is never concealed."""
    privacy = PrivacyConfig(patterns={"badge": r"B-\d{4}"}, allow=("*@quillhaven.org",))
    answer = {"text": f"Badge B-1234, mail {MAIL} or other@elsewhere.org"}
    async with opened(tmp_path, office(info=lambda: answer), privacy=privacy) as yard:
        text = await run(yard, "info()['text']")

    assert "__PII_badge_" in text
    assert MAIL in text
    assert "other@elsewhere.org" not in text


async def test_a_pattern_finds_small_numbers_and_names_of_fields_too(tmp_path: Path) -> None:
    """What is plain to us may be what somebody's pattern is about."""
    privacy = PrivacyConfig(patterns={"seat": r"seat_\d+"})
    async with opened(tmp_path, office(seats=lambda: {"seat_12": 1}), privacy=privacy) as yard:
        text = await run(yard, "seats()")

    assert "seat_12" not in text
    assert "__PII_seat_" in text


async def test_off_conceals_nothing_and_still_records(tmp_path: Path) -> None:
    """Without privacy values pass as they are; calls are in the journal and in the audit log all the same."""
    async with opened(tmp_path, office(), privacy=PrivacyConfig(mode="off")) as yard:
        text = await run(yard, "get_row()['email']")
        entries = await yard.store.audit_entries(limit=10, kind="call")

    assert text == MAIL
    assert [entry.body["tool"] for entry in entries] == ["mcp__office__get_row"]


async def test_a_type_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """The config is refused with the nearest type that does."""
    with pytest.raises(InvalidConfig, match=r"'emial'.*'email'"):
        async with opened(tmp_path, office(), privacy=PrivacyConfig(conceal=("emial",))):
            pass


@pytest.mark.behaviour("vault.lost_key")
async def test_a_lost_key_is_an_error_and_destroys_nothing(tmp_path: Path) -> None:
    """With another key the session cannot be opened; with the right one it can again."""
    async with opened(tmp_path, office()) as yard:
        token = await run(yard, "get_row()['email']")
    key = tmp_path / "vault.key"
    kept = key.read_bytes()
    key.unlink()
    async with opened(tmp_path, office()) as yard:
        with pytest.raises(VaultError):
            await run(yard, "get_row()['email']")
    key.write_bytes(kept)
    async with opened(tmp_path, office()) as yard:
        assert await run(yard, "get_row()['email']") == token


# Policy


@pytest.mark.behaviour("policy.denied")
async def test_a_denied_tool_does_not_exist(tmp_path: Path) -> None:
    """It is in no search, no stub and no grant, and its name is no hint."""
    rules = policy(Rule(decision="deny", tools=("mcp__office__wipe",)))
    upstream = office()
    async with opened(tmp_path, upstream, policy=rules) as yard:
        found = await yard.search("delete everything wipe", limit=10)
        imported = await run(yard, "from servers.office import wipe\nwipe()")
        listed = await run(
            yard, "import os, servers.office\n[sorted(os.listdir('/servers/office')), hasattr(servers.office, 'wipe')]"
        )
        called = await run(yard, "call_tool('mcp__office__wipe', {})")
        with pytest.raises(UnknownTool):
            await yard.call("mcp__office__wipe", {})

    assert "mcp__office__wipe" not in [hit.name for hit in found.hits]
    assert "No tool named 'wipe'" in imported
    assert json.loads(listed)[1] is False
    assert not any("wipe" in name for name in json.loads(listed)[0])
    assert "No tool named 'mcp__office__wipe'" in called
    assert upstream.calls == []


@pytest.mark.behaviour("policy.real_values")
async def test_a_rule_on_arguments_sees_the_real_values(tmp_path: Path) -> None:
    """Code hands over a token; the rule is about the address behind it, and the refusal does not say it."""
    rules = policy(
        Rule(decision="deny", tools=("mcp__office__send",), when={"to": "*@quillhaven.org"}, reason="No mail to them.")
    )
    upstream = office()
    async with opened(tmp_path, upstream, policy=rules) as yard:
        refused = await run(yard, "send(to=get_row()['email'])")
        sent = await run(yard, "send(to='somebody@example.com')")
        with pytest.raises(PolicyRefused):
            await yard.call("mcp__office__send", {"to": MAIL})

    assert "PolicyRefused" in refused
    assert "No mail to them." in refused
    assert MAIL not in refused
    assert "Sent to" in sent
    assert [arguments["to"] for tool, arguments in upstream.calls if tool == "send"] == ["somebody@example.com"]


@pytest.mark.behaviour("policy.limits")
async def test_limits_of_a_tool_hold_for_a_run(tmp_path: Path) -> None:
    """The third call of a run is refused, and the next run may call again."""
    limits = PolicySettings(limits=(ToolLimits(tools=("mcp__office__wipe",), calls_per_run=2),))
    async with opened(tmp_path, office(), policy=limits) as yard:
        third = await run(yard, "wipe(); wipe(); wipe()")
        again = await run(yard, "wipe()")

    assert "LimitReached" in third
    assert again == "all wiped"


async def test_guarded_asks_for_what_no_trusted_server_calls_harmless(tmp_path: Path) -> None:
    """The same annotation relaxes the preset from a trusted server only."""
    upstream = office()
    hints = msgspec.structs.replace(Definition(name="x", input_schema={}).annotations, read_only=True)
    upstream.definitions["get_row"] = Definition(name="get_row", input_schema={"type": "object"}, annotations=hints)
    refused = PolicySettings(preset="guarded", operators=False)
    async with opened(tmp_path / "a", upstream, policy=refused) as yard:
        untrusted = await run(yard, "get_row()['orders']")
    async with opened(tmp_path / "b", upstream, policy=refused, trusted=frozenset({"office"})) as yard:
        trusted = await run(yard, "get_row()['orders']")

    assert "ApprovalRefused" in untrusted
    assert "no way to a person" in untrusted
    assert trusted == "3"


async def test_what_is_allowed_for_want_of_a_person_says_so(tmp_path: Path) -> None:
    """`unanswerable = allow` goes on, with a note in the result and an entry in the log."""
    rules = policy(Rule(decision="ask", tools=("mcp__office__wipe",)), operators=False, unanswerable="allow")
    async with opened(tmp_path, office(), policy=rules) as yard:
        text = await run(yard, "wipe()")
        (told,) = await yard.store.audit_entries(limit=5, kind="approval.answer")

    assert "all wiped" in text
    assert "note: mcp__office__wipe was called without asking" in text
    assert told.body["channel"] == "fallback"


# Approval


async def next_ask(yard: Yard) -> ApprovalRequest:
    """The first ask that appears."""
    async with asyncio.timeout(60):
        while True:
            if asks := await yard.approvals.waiting():
                return asks[0]
            await asyncio.sleep(0.02)


async def answer(yard: Yard, ask: ApprovalRequest, decision: Any, reason: str = "") -> None:
    """Answer as an operator in another process would."""
    approval = Approval(decision=decision, by="alice", channel="cli", reason=reason, answered_at=time.time())
    await yard.approvals.answer(ask.id, approval)


@pytest.mark.behaviour("run.deadline_pause")
async def test_a_person_lets_the_call_go_on_and_the_deadline_waits(tmp_path: Path) -> None:
    """The run is suspended for longer than its own limit, and then ends as if nothing had been."""
    rules = policy(Rule(decision="ask", tools=("mcp__office__wipe",), reason="It deletes."))
    async with opened(tmp_path, office(), policy=rules) as yard:
        running = asyncio.create_task(run(yard, "wipe(target='cache')", timeout_seconds=1))
        ask = await next_ask(yard)
        await asyncio.sleep(1.2)  # longer than the run may take
        others = await run(yard, "1 + 1", session="other")
        await answer(yard, ask, "once")
        text = await running

    assert others == "2"
    assert text == "cache wiped"


async def test_a_call_without_code_that_waits_for_a_person_lends_its_turn(tmp_path: Path) -> None:
    """Where one may run at a time, another goes on meanwhile; the call ends once it is approved."""
    rules = policy(Rule(decision="ask", tools=("mcp__office__wipe",)))
    async with opened(tmp_path, office(), policy=rules, sandbox=SandboxConfig(running=1)) as yard:
        calling = asyncio.create_task(yard.call("mcp__office__wipe", {"target": "cache"}))
        ask = await next_ask(yard)
        meanwhile = await run(yard, "1 + 1")
        await answer(yard, ask, "once")
        wiped = await calling

    assert (meanwhile, wiped.value) == ("2", "cache wiped")


async def test_a_refusal_says_who_and_why(tmp_path: Path) -> None:
    """The exception in the code names the person and the reason; the tool is not called."""
    rules = policy(Rule(decision="ask", tools=("mcp__office__wipe",)))
    upstream = office()
    async with opened(tmp_path, upstream, policy=rules) as yard:
        running = asyncio.create_task(
            run(
                yard,
                "try:\n    wipe()\nexcept Exception as error:\n    result = type(error).__name__ + ': ' + str(error)",
            )
        )
        await answer(yard, await next_ask(yard), "refuse", "not on Fridays")
        text = await running

    assert "ApprovalRefused" in text
    assert "alice" in text
    assert "not on Fridays" in text
    assert upstream.calls == []


async def test_an_ask_shows_tokens_and_the_call_gets_values(tmp_path: Path) -> None:
    """A person sees which tool and which tokens; what they approve reaches the tool as it is."""
    rules = policy(Rule(decision="ask", tools=("mcp__office__send",)))
    upstream = office()
    async with opened(tmp_path, upstream, policy=rules) as yard:
        running = asyncio.create_task(run(yard, "send(to=get_row()['email'], text='hello')"))
        ask = await next_ask(yard)
        await answer(yard, ask, "once")
        await running

    assert MAIL not in repr(ask)
    assert ask.arguments["to"].startswith("__PII_email_")
    assert upstream.calls[-1] == ("send", {"to": MAIL, "text": "hello"})


# Audit


@pytest.mark.behaviour("audit.decisions")
async def test_everything_that_happened_is_in_a_log_that_verifies(tmp_path: Path) -> None:
    """Who ran what, which tools were called with what, what was decided and what came of it, in order."""
    rules = policy(Rule(decision="deny", tools=("mcp__office__send",), when={"to": "*@quillhaven.org"}))
    async with opened(tmp_path, office(), policy=rules) as yard:
        result = await yard.execute(
            ExecuteRequest(code="from servers.office import *\nget_row()\nsend(to=get_row()['email'])"), principal="bob"
        )
        entries = await yard.store.audit_entries(limit=50)
    checked = verify_store(tmp_path / "sealyard.db")

    told = [(entry.kind, entry.principal) for entry in reversed(entries)]
    assert told == [
        ("gateway.start", "local"),
        ("execution.start", "bob"),
        ("call", "bob"),
        ("call", "bob"),
        ("decision", "bob"),
        ("call", "bob"),
        ("execution.end", "bob"),
    ]
    assert {entry.execution_id for entry in entries} == {"", result.outcome.execution_id}
    assert MAIL not in repr(entries)
    assert checked.problem == ""


async def test_other_rules_than_last_time_are_in_the_log(tmp_path: Path) -> None:
    """Somebody who loosens the policy between two starts leaves a trace."""
    async with opened(tmp_path, office()):
        pass
    async with opened(tmp_path, office()):
        pass
    async with opened(tmp_path, office(), policy=policy(Rule(decision="deny", tools=("*",)))) as yard:
        await yard.store.flush()
        entries = await yard.store.audit_entries(limit=50)

    kinds = [entry.kind for entry in reversed(entries)]
    assert kinds == ["gateway.start", "gateway.stop", "gateway.start", "gateway.stop", "gateway.start", "policy.change"]
