"""The vault: the same value has the same token, every token leads back, and what is over is over."""

import asyncio
import gc
import hmac
import json
import sqlite3
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.errors import CallRefused, LimitReached, StoreError, UnknownToken
from sealyard.privacy import TOKEN
from sealyard.privacy.vault import Keys, Scope, SealedValue, Vault
from sealyard.privacy.vault import scope as vault_scope
from sealyard.privacy.vault.scope import reveal_tokens
from sealyard.privacy.vault.seal import Origin, ScopeSecrets
from sealyard.store import Store, open_store

KEY = bytes(range(32))
EMAIL = "ana@example.com"
NAME = 'Ana "Annie" O\\Neil & sons/+'
ANY_TEXT = st.text(st.characters(exclude_categories=()))


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        """What time it is."""
        return self.now


def build_vault(store: Store, *, expires_seconds: float = 1000.0, **options: Any) -> Vault:
    """A vault on a store."""
    return Vault(Keys.of([KEY]), store.vault, expires_seconds=expires_seconds, **options)


@asynccontextmanager
async def open_vault(path: Path, **options: Any) -> AsyncIterator[Vault]:
    """A vault on a store of its own connection, as another process would have it."""
    async with open_store(path) as store:
        yield build_vault(store, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "store.db"


# Tokens


async def test_several_values_get_the_tokens_that_each_would_get(path: Path) -> None:
    """In their order, one that comes twice too, and all of them lead back after a restart."""
    wanted: list[Any] = [("email", EMAIL, "tool"), ("phone", 5551234, "tool"), ("email", EMAIL, "code")]
    wanted += [("text", "5551234", "tool"), ("email", EMAIL, "tool")]
    async with open_vault(path) as vault:
        tokens = (await vault.scope("local:main")).tokens(wanted)
    async with open_vault(path) as vault:
        scope = await vault.scope("local:main")

        assert tokens[0] == tokens[4] != tokens[2]
        assert tokens[1] == tokens[3]
        assert [scope.reveal(each) for each in tokens] == [EMAIL, 5551234, EMAIL, 5551234, EMAIL]
        assert [scope.token(kind, value, origin=origin) for kind, value, origin in wanted] == tokens


async def test_several_values_of_which_one_finds_no_place_get_no_token(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token that nobody was given would take up room for good."""
    monkeypatch.setattr(vault_scope, "VALUES_MOST", 3)
    async with open_vault(path) as vault:
        scope = await vault.scope("local:main")
        with pytest.raises(LimitReached):
            scope.tokens([("email", f"{n}@example.com", "tool") for n in range(4)])

        assert len(scope) == 0
        assert len(scope.tokens([("email", f"{n}@example.com", "tool") for n in range(3)])) == 3


async def test_values_leave_the_collector_nothing_to_look_at(path: Path) -> None:
    """A look at all objects holds the interpreter, with the event loop: it must not grow with the values of a session.

    They wait to be written and stay in memory; both count.
    """
    async with open_vault(path) as vault:
        scope = await vault.scope("local:main")
        gc.collect()
        before = len(gc.get_objects())
        wanted: list[Any] = [("email", f"user{number}@example.com", "tool") for number in range(5_000)]
        scope.tokens(wanted)
        del wanted
        gc.collect()

        assert len(scope) == 5_000
        assert len(gc.get_objects()) - before < 1_000


@given(ANY_TEXT, st.sampled_from(["tool", "code"]), st.integers(0, 2))
def test_id_of_a_value_is_a_keyed_hash_of_its_text(text: str, origin: Origin, attempt: int) -> None:
    """It is an HMAC with SHA-256, so that tokens of older stores stay what they are."""
    label = f"{origin} {attempt}" if attempt else origin
    content = f"{label}\0{text}".encode("utf-8", "surrogatepass")

    made = ScopeSecrets(KEY, bytes(32)).make_id(origin, text, attempt)

    assert made == hmac.new(KEY, content, "sha256").hexdigest()[:12]


async def test_same_value_has_the_same_token_whatever_its_type_and_kind(path: Path) -> None:
    """The type and the kind of the first sight stay, so that equality and joins work on tokens."""
    async with open_vault(path) as vault:
        scope = await vault.scope("local:main")
        first = scope.token("phone", 5551234)

        assert TOKEN.fullmatch(first) is not None
        assert first.startswith("__PII_phone_")
        assert scope.token("text", "5551234") == first
        assert scope.token("phone", 5551234) == first
        assert scope.token("phone", "555-1234") != first
        assert scope.reveal(first) == 5551234


async def test_same_value_has_the_same_token_after_a_restart_and_in_a_second_process(path: Path) -> None:
    """Nothing but the store and the key is needed for it."""
    async with open_vault(path) as first, open_vault(path) as second:
        one, two = await first.scope("local:main"), await second.scope("local:main")
        token = one.token("email", EMAIL)
        assert two.token("email", EMAIL) == token
    async with open_vault(path) as third:
        scope = await third.scope("local:main")
        assert scope.reveal(token) == EMAIL
        assert scope.token("email", EMAIL) == token


async def test_scopes_have_different_tokens_for_one_value(path: Path) -> None:
    """One session cannot tell what another one saw."""
    async with open_vault(path) as vault:
        tokens = {(await vault.scope(name)).token("email", EMAIL) for name in ("local:a", "local:b", "other:a")}

    assert len(tokens) == 3


async def test_value_that_code_made_has_a_token_of_its_own(path: Path) -> None:
    """Printing guesses does not tell which token of a tool stands for which value."""
    async with open_vault(path) as vault:
        scope = await vault.scope("local:main")
        of_tool, of_code = scope.token("email", EMAIL), scope.token("email", EMAIL, origin="code")

        assert of_tool != of_code
        assert scope.reveal([of_tool, of_code]) == [EMAIL, EMAIL]
    async with open_vault(path) as vault:
        scope = await vault.scope("local:main")
        assert scope.token("email", EMAIL) == of_tool
        assert scope.token("email", EMAIL, origin="code") == of_code


async def test_other_process_sees_what_was_added_when_it_asks_for_the_scope(path: Path) -> None:
    """A token that one gateway gave out is good in another one of the same store."""
    async with open_store(path) as store, open_vault(path) as second:
        one, two = await build_vault(store).scope("local:main"), await second.scope("local:main")
        token = one.token("email", EMAIL)
        await store.flush()
        assert not two.has(token)

        assert await second.scope("local:main") is two
        assert two.reveal(token) == EMAIL


async def test_value_found_as_two_types_at_once_in_two_processes_keeps_both_tokens(path: Path) -> None:
    """Neither process can know; both tokens were given out, so both lead back for good."""
    async with open_store(path) as a, open_store(path) as b:
        one, two = await build_vault(a).scope("s"), await build_vault(b).scope("s")
        email, text = one.token("email", EMAIL), two.token("text", EMAIL)
        await a.flush()
        await b.flush()
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        assert scope.reveal([email, text]) == [EMAIL, EMAIL]
        assert scope.token("phone", EMAIL) == email


async def test_colliding_ids_are_probed_until_one_is_free(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two values never share a token, and each keeps its own after a restart."""
    monkeypatch.setattr(ScopeSecrets, "make_id", lambda self, origin, text, attempt=0: f"{attempt:012x}")
    values = [f"user{number}@example.com" for number in range(5)]
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        tokens = [scope.token("email", value) for value in values]
        assert tokens == [f"__PII_email_{number:012x}__" for number in range(5)]
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        assert scope.reveal(tokens) == values
        assert [scope.token("email", value) for value in reversed(values)] == tokens[::-1]


async def test_threads_that_meet_the_same_values_get_the_same_tokens(path: Path) -> None:
    """Concealing large answers may happen in threads."""
    values = [f"user{number}@example.com" for number in range(300)]
    found: list[list[str]] = []
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        gate = threading.Barrier(4)

        def work() -> None:
            gate.wait(5)
            found.append([scope.token("email", value) for value in values])

        await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4)))
        assert [each == found[0] for each in found] == [True] * 4
        assert len(set(found[0])) == len(scope) == 300


@given(st.lists(ANY_TEXT | st.integers() | st.floats(allow_nan=False)))
def test_any_value_comes_back_as_it_was(values: list[Any]) -> None:
    """Lone surrogates, empty text, huge and negative numbers: after the seal too."""
    secrets = ScopeSecrets.make()
    for value in values:
        sealed = secrets.seal("scope", "00", "text", value, "tool")
        row = SealedValue(scope_id="scope", id="00", type="text", sealed=sealed, expires_at=0.0)
        opened, origin = secrets.open(row)
        assert (opened, type(opened), origin) == (value, type(value), "tool")


async def test_full_scope_refuses_further_values(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends values without end cannot fill the memory; what is known stays good."""
    monkeypatch.setattr(vault_scope, "VALUES_MOST", 2)
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        known = scope.token("email", "a@example.com")
        scope.token("email", "b@example.com")

        with pytest.raises(LimitReached):
            scope.token("email", "c@example.com")
        assert scope.token("email", "a@example.com") == known


@pytest.mark.parametrize(
    ("kind", "value"), [("Email", "x"), ("", "x"), ("a__b-", "x"), ("email", True), ("email", None)]
)
async def test_token_of_no_type_or_no_text_is_refused(path: Path, kind: str, value: Any) -> None:
    """Such a token could not be read back."""
    async with open_vault(path) as vault:
        with pytest.raises(ValueError, match="cannot have a token"):
            (await vault.scope("s")).token(kind, value)


# Reveal


@pytest.fixture
def known() -> dict[tuple[str, str], Any]:
    """Values by type and id."""
    return {
        ("email", "0123456789ab"): EMAIL,
        ("phone", "00000000000a"): 5551234,
        ("person", "00000000000b"): NAME,
        ("date_of_birth", "00000000000c"): "1990-01-02",
        ("ip", "00000000000d"): "[::1]",
        ("password", "00000000000e"): "p@ss/word?#",
        ("text", "00000000000f"): "__PII_email_0123456789ab__",
    }


E = "__PII_email_0123456789ab__"
PHONE = "__PII_phone_00000000000a__"
PERSON = "__PII_person_00000000000b__"
BIRTH = "__PII_date_of_birth_00000000000c__"
PASSWORD = "__PII_password_00000000000e__"
LITERAL = "__PII_text_00000000000f__"

REVEALED = {
    "alone": (E, EMAIL),
    "number alone": (PHONE, 5551234),
    "number in text": (f"call {PHONE}", "call 5551234"),
    "in prose": (f"Dear {PERSON},", f"Dear {NAME},"),
    "several": (f"{E},{E};{PHONE}", f"{EMAIL},{EMAIL};5551234"),
    "side by side": (f"{E}{BIRTH}", f"{EMAIL}1990-01-02"),
    "more underscores": (f"_{E}_", f"_{EMAIL}_"),
    "upper case": (E.upper(), EMAIL),
    "lower case": (f"x {BIRTH.lower()}", "x 1990-01-02"),
    "title case": (E.title(), EMAIL),
    "key": ({E: {BIRTH: 1}}, {EMAIL: {"1990-01-02": 1}}),
    "key with a number": ({PHONE: PHONE}, {"5551234": 5551234}),
    "nested": ([[{"a": [E, 1, None, True, 2.5]}]], [[{"a": [EMAIL, 1, None, True, 2.5]}]]),
    "tuple": (("x", E), ["x", EMAIL]),
    "JSON text": (json.dumps({"n": PERSON, PHONE: 1}), json.dumps({"n": NAME, "5551234": 1})),
    "JSON lines": (f'{{"n": "{PERSON}"}}\n["{PERSON}"]\n', f'{{"n": {json.dumps(NAME)}}}\n[{json.dumps(NAME)}]\n'),
    "no JSON text": (f'{{"name": {PERSON}', f'{{"name": {NAME}'),
    "number in JSON text": (f'{{"phone": {PHONE}}}', '{"phone": 5551234}'),
    "URL's query": (f"https://x.example/mail?to={E}&n={PERSON}", "https://x.example/mail?to=ana%40example.com&n=Ana%20%22Annie%22%20O%5CNeil%20%26%20sons%2F%2B"),
    "URL's path": (f"https://x.example/{PERSON}", "https://x.example/Ana%20%22Annie%22%20O%5CNeil%20%26%20sons%2F%2B"),
    "URL's host": ("http://__PII_ip_00000000000d__:80/a", "http://[::1]:80/a"),
    "URL's password": (f"ftp://me:{PASSWORD}@host/", "ftp://me:p%40ss%2Fword%3F%23@host/"),
    "URL in prose": (f"see https://x.example/{E} now", f"see https://x.example/{EMAIL} now"),
    "mailto": (f"mailto:{E}", f"mailto:{EMAIL}"),
    "percent-encoded": ("q=%5F%5FPII%5Femail%5F0123456789ab%5F%5F&b", "q=ana%40example.com&b"),
    "percent-encoded type": ("%5f%5fPII%5fdate%5fof%5fbirth%5F00000000000C%5f%5f", "1990-01-02"),
    "value like a token": ([LITERAL, f"<{LITERAL}>"], [E, f"<{E}>"]),
}  # fmt: skip


@pytest.mark.parametrize(("given_", "revealed"), REVEALED.values(), ids=REVEALED)
def test_tokens_are_revealed_wherever_they_stand(known: dict[tuple[str, str], Any], given_: Any, revealed: Any) -> None:
    """In keys and values, alone and in text, written as that text needs it."""
    before = repr(given_)

    assert reveal_tokens(given_, lambda *token: known.get(token)) == revealed
    assert repr(given_) == before


UNKNOWN = {
    "forged": "__PII_email_ffffffffffff__",
    "of another type": "__PII_phone_0123456789ab__",
    "too short": "__PII_email_0123456789a__",
    "too long": "__PII_email_0123456789abc__",
    "without an end": "x __PII_email_0123456789ab",
    "half an end": "__PII_email_0123456789ab_",
    "no type": "__PII_0123456789ab__",
    "no hex": "__PII_email_0123456789ag__",
    "spaced out": "__PII_email_ 0123456789ab__",
    "a bare beginning": "an __pii_ in prose",
    "percent-encoded": "%5F%5FPII%5Femail",
    "long type": f"__PII_{'a' * 41}_0123456789ab__",
    "behind a good one": f"{E} and __PII_email_ffffffffffff__",
    "in a key": {"a": {"__PII_email_ffffffffffff__": 1}},
    "deep": [[[["__PII_email_ffffffffffff__"]]]],
    "Turkish": "__P\u0130I_ __P\u0131I_ __PII_",
}


@pytest.mark.parametrize("given_", UNKNOWN.values(), ids=UNKNOWN)
def test_what_begins_like_a_token_and_is_none_is_refused(known: dict[tuple[str, str], Any], given_: Any) -> None:
    """Half a token must not reach a tool as if it were a value."""
    with pytest.raises(UnknownToken):
        reveal_tokens(given_, lambda *token: known.get(token))


def test_unknown_token_is_named_in_a_bounded_message() -> None:
    """The agent can see which one, and what to do."""
    with pytest.raises(UnknownToken) as caught:
        reveal_tokens("__PII_" + "x" * 100_000, lambda *_: None)

    assert str(caught.value) == (
        f"'__PII_{'x' * 58}' is no token of this session: it was cut or changed, has expired, was erased, or is"
        " another's. Pass a token on exactly as a tool gave it, or ask the tool for the value again."
    )


@pytest.mark.parametrize(
    "given_", ["no token", {"__init__": ["100%5F", "__", "%5F%5F", "PII_"]}, [], {}, None, 1, True]
)
def test_what_holds_no_token_is_the_very_same_object(given_: Any) -> None:
    """Nothing is copied for nothing."""
    assert reveal_tokens(given_, lambda *_: None) is given_


def test_nesting_has_no_limit(known: dict[tuple[str, str], Any]) -> None:
    """Code may nest as deep as it likes, without a token and with one."""
    deep: Any = E
    bare: Any = "x"
    for _ in range(50_000):
        deep, bare = [{"a": deep}], [{"a": bare}]

    assert reveal_tokens(bare, lambda *_: None) is bare
    revealed = reveal_tokens(deep, lambda *token: known.get(token))
    for _ in range(50_000):
        revealed = revealed[0]["a"]
    assert revealed == EMAIL


def test_keys_that_are_the_same_token_are_refused(known: dict[tuple[str, str], Any]) -> None:
    """One of two entries would be lost without a word."""
    with pytest.raises(CallRefused):
        reveal_tokens({E: 1, E.upper(): 2}, lambda *token: known.get(token))


def test_a_guess_beside_a_token_as_keys_is_not_told_to_be_right(known: dict[tuple[str, str], Any]) -> None:
    """A refusal would tell: the last of the two counts, whatever they hold."""
    assert reveal_tokens({E: E, EMAIL: 2}, lambda *token: known.get(token)) == {EMAIL: 2}
    assert reveal_tokens({EMAIL: 2, E: [E]}, lambda *token: known.get(token)) == {EMAIL: [EMAIL]}


SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "whole": {"type": "integer"},
        "any_number": {"type": ["number", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "list": {"type": "array", "items": {"$ref": "#/$defs/contact"}},
        "open": {"additionalProperties": {"type": "string"}},
        "loop": {"$ref": "#/properties/loop"},
        "nowhere": {"$ref": "#/$defs/none/at~1all"},
    },
    "$defs": {"contact": {"allOf": [{"properties": {"phone": {"type": "string"}}}]}},
}


@pytest.mark.parametrize(
    ("value", "given_", "revealed"),
    [
        (5551234, {"text": E}, {"text": "5551234"}),
        (51, {"whole": E, "any_number": E, "either": E}, {"whole": 51, "any_number": 51, "either": 51}),
        ("51", {"whole": E, "any_number": E, "either": E}, {"whole": 51, "any_number": 51, "either": 51}),
        ("5551234", {"text": E, "unknown": E}, {"text": "5551234", "unknown": "5551234"}),
        ("12.50", {"whole": E, "any_number": E}, {"whole": "12.50", "any_number": 12.5}),
        (12.5, {"whole": E, "text": E}, {"whole": 12.5, "text": "12.5"}),
        ("007", {"whole": E}, {"whole": "007"}),
        ("٣", {"whole": E, "any_number": E}, {"whole": "٣", "any_number": "٣"}),
        (5, {"list": [{"phone": E, "x": E}], "open": {"a": E}}, {"list": [{"phone": "5", "x": 5}], "open": {"a": "5"}}),
        (5, {"loop": {"a": E}, "nowhere": E}, {"loop": {"a": 5}, "nowhere": 5}),
    ],
)  # fmt: skip
def test_token_alone_becomes_what_the_schema_asks_for(value: Any, given_: Any, revealed: Any) -> None:
    """As far as the value can be that without losing anything."""
    result = reveal_tokens(given_, lambda *_: value, SCHEMA)

    assert json.dumps(result) == json.dumps(revealed)


@pytest.mark.parametrize(
    "schema", [{"properties": []}, {"properties": {"a": 3}, "anyOf": 3, "$ref": 3}, {"$ref": "#"}, {}]
)
def test_odd_schema_changes_nothing(schema: Any) -> None:
    """Schemas come from servers."""
    assert reveal_tokens({"a": [E]}, lambda *_: 5, schema) == {"a": [5]}


def test_schema_that_branches_without_end_is_left_alone() -> None:
    """Alternatives of alternatives are not followed for ever."""
    schema: dict[str, Any] = {"anyOf": [{"$ref": "#"}] * 100}
    for _ in range(6):
        schema = {"anyOf": [schema] * 100, "properties": {"a": schema}}

    assert reveal_tokens({"a": E}, lambda *_: 5, schema) == {"a": 5}


@given(st.text("_%5FfpPiIa0 email") | ANY_TEXT)
def test_any_text_is_refused_or_revealed_and_nothing_else(text: str) -> None:
    """No other error, and what has no token is as it was."""
    try:
        assert reveal_tokens([text], lambda *_: None) == [text]
    except UnknownToken:
        assert "pii" in text.lower()


async def test_whoever_reveals_may_hear_of_each_string_with_a_value(path: Path) -> None:
    """In pieces, with the type of each value, so that it can be concealed again wherever it comes back."""
    heard: list[Any] = []
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        tokens = [scope.token("email", EMAIL), scope.token("phone", 5551234)]
        given = {"to": f"{tokens[0]} or {tokens[1]}", "cc": tokens[0], "subject": "none"}
        revealed = scope.reveal(given, on_text=lambda written, pieces: heard.append((written, pieces)))

    assert revealed == {"to": f"{EMAIL} or 5551234", "cc": EMAIL, "subject": "none"}
    inside = [("", None), (EMAIL, "email"), (" or ", None), ("5551234", "phone"), ("", None)]
    assert heard == [(given["to"], inside), (given["cc"], [(EMAIL, "email")])]


@pytest.mark.parametrize(
    "written",
    ["q{}", "{}q", "{} {}", " {}", "https://x.org/{}", '{{"a": "{}"}}', "{}\n"],
)
async def test_only_whole_strings_are_revealed_where_nothing_else_may_be(path: Path, written: str) -> None:
    """A token alone becomes its value; in a longer text or a key it is refused, and nothing is told of its value."""
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        token = scope.token("email", EMAIL)
        told = []
        for given in ({"a": written.format(token, token)}, {token: 1}):
            with pytest.raises(CallRefused, match="only as the whole value") as refused:
                scope.reveal(given, is_inside=False)
            told.append(str(refused.value))

        assert scope.reveal({"a": [token], "b": token.upper()}, is_inside=False) == {"a": [EMAIL], "b": EMAIL}
    assert told[0] == told[1]


# Expiry


async def test_value_expires_so_long_after_it_was_seen_last(path: Path) -> None:
    """Seen again it lives on; after that it is neither revealed nor loaded, and its row is deleted."""
    clock = Clock()
    async with open_store(path) as store:
        vault = build_vault(store, clock=clock)
        scope = await vault.scope("s")
        token, other = scope.token("email", EMAIL), scope.token("email", "b@example.com")
        clock.now += 900
        assert scope.token("email", EMAIL) == token
        clock.now += 200  # the other is over

        assert scope.has(token)
        assert not scope.has(other)
        with pytest.raises(UnknownToken):
            scope.reveal(other)
        await store.flush()
        assert await vault.expire() == 1
        assert len(scope) == 1
    async with open_vault(path, clock=clock) as vault:
        scope = await vault.scope("s")
        assert (scope.has(token), scope.has(other)) == (True, False)
        clock.now += 1000
        assert not scope.has(token)


async def test_expired_value_that_comes_again_has_its_old_token_again(path: Path) -> None:
    """What an agent kept of the old answers fits the new ones."""
    clock = Clock()
    async with open_vault(path, clock=clock) as vault:
        scope = await vault.scope("s")
        token = scope.token("email", EMAIL)
        clock.now += 5000
        assert not scope.has(token)
        await vault.expire()

        assert scope.token("email", EMAIL) == token
        assert scope.has(token)
    async with open_vault(path, clock=clock) as vault:
        assert (await vault.scope("s")).has(token)


async def test_value_seen_again_in_one_process_lives_on_in_another(path: Path) -> None:
    """The second process learns of the new expiry when it asks for the scope."""
    clock = Clock()
    async with open_store(path) as store, open_vault(path, clock=clock) as second:
        one = await build_vault(store, clock=clock).scope("s")
        token = one.token("email", EMAIL)
        await store.flush()
        two = await second.scope("s")
        clock.now += 900
        one.token("email", EMAIL)
        await store.flush()
        await second.scope("s")
        clock.now += 900

        assert two.has(token)


async def test_hit_writes_nothing_until_a_tenth_of_the_time_is_over(path: Path) -> None:
    """Values that are seen in every call do not cost a write each time."""
    clock = Clock()
    async with open_store(path) as store:
        scope = await build_vault(store, clock=clock).scope("s")
        scope.token("email", EMAIL)
        await store.flush()
        written = await store.vault.read_values(scope.id, after=0, now=0.0)
        clock.now += 99
        scope.token("email", EMAIL)
        await store.flush()
        assert await store.vault.read_values(scope.id, after=0, now=0.0) == written
        clock.now += 1
        scope.token("email", EMAIL)
        await store.flush()
        (row,) = await store.vault.read_values(scope.id, after=0, now=0.0)
        assert row.expires_at == clock.now + 1000


async def test_empty_scope_that_nobody_uses_is_deleted(path: Path) -> None:
    """Sessions come and go; one that is used stays, and one with values."""
    clock = Clock()
    async with open_store(path) as store:
        vault = build_vault(store, clock=clock, expires_seconds=10.0)
        for name in ("unused", "used", "full"):
            await vault.scope(name)
        clock.now += 80_000
        await vault.scope("used")
        (await vault.scope("full")).token("email", EMAIL)
        await store.flush()
        clock.now += 9

        assert await vault.expire() == 0
        assert [each.name for each in await store.vault.scopes()] == ["full", "unused", "used"]
        clock.now += 6_400
        assert await vault.expire() == 1
        assert [each.name for each in await store.vault.scopes()] == ["full", "used"]


async def test_numbers_that_are_given_again_are_not_overlooked(path: Path) -> None:
    """The newest rows expire, others take their numbers: a process that knew the old ones reads the new ones."""
    clock = Clock()
    async with open_store(path) as a, open_store(path) as b:
        one, two = build_vault(a, clock=clock), build_vault(b, clock=clock)
        for name in "xyz":
            (await one.scope("s")).token("email", f"{name}@example.com")
        await a.flush()
        scope = await two.scope("s")
        clock.now += 5000
        await one.expire()
        token = (await one.scope("s")).token("email", EMAIL)
        await a.flush()

        assert await two.scope("s") is scope
        assert scope.reveal(token) == EMAIL


# Memory


async def test_scope_in_use_stays_one_object_and_others_are_let_go(path: Path) -> None:
    """What was dropped from memory is loaded again, even if it was not yet written."""
    async with open_vault(path) as vault:
        held = await vault.scope("held")
        dropped = await vault.scope("dropped")
        token, gone = dropped.token("email", EMAIL), weakref.ref(dropped)
        del dropped
        gc.collect()

        assert gone() is None
        assert await vault.scope("held") is held
        assert (await vault.scope("dropped")).reveal(token) == EMAIL


async def test_scope_asked_for_by_many_at_once_is_one(path: Path) -> None:
    """Two objects of one scope would not know each other's tokens."""
    async with open_vault(path) as vault:
        scopes = await asyncio.gather(*(vault.scope("s") for _ in range(20)))

    assert len(set(map(id, scopes))) == 1


async def test_two_processes_that_make_a_scope_at_once_share_its_secrets(path: Path) -> None:
    """The one that comes second takes what the first one made."""
    async with open_vault(path) as a, open_vault(path) as b:
        one, two = await asyncio.gather(a.scope("s"), b.scope("s"))

        assert one.token("email", EMAIL) == two.token("email", EMAIL)


# Operators


async def test_operator_finds_a_token_in_any_scope_and_case(path: Path) -> None:
    """The value is not in the repr, so that it is in no log by accident."""
    async with open_vault(path) as vault:
        token = (await vault.scope("ana:main")).token("email", EMAIL)
        (found,) = await vault.find(token.upper())

        assert (found.token, found.scope, found.type, found.value) == (token, "ana:main", "email", EMAIL)
        assert repr(found) == f"RevealedValue({token} in 'ana:main')"
        assert await vault.find("__PII_email_ffffffffffff__") == []
        assert await vault.find(f"{token} ") == []


async def fill(vault: Vault, *names: str) -> dict[str, Scope]:
    """Scopes with Ana's values and another person's."""
    scopes = {name: await vault.scope(name) for name in names}
    for scope in scopes.values():
        scope.token("email", EMAIL)
        scope.token("email", EMAIL, origin="code")
        scope.token("text", f"Write to  ANA@example.com, please. {scope.name}")
        scope.token("email", "ana@example.com.au")
        scope.token("email", "susana@example.com")
    return scopes


async def test_value_is_erased_in_all_scopes_wherever_it_stands(path: Path) -> None:
    """Whatever its case and as whole words in longer values; the addresses of others stay."""
    async with open_vault(path) as vault:
        scopes = await fill(vault, "a", "b")
        gone, kept = scopes["a"].token("email", EMAIL), scopes["a"].token("email", "susana@example.com")

        assert await vault.match([EMAIL]) == {"a": 3, "b": 3}
        assert await vault.forget([" Ana@Example.COM"]) == 6
        assert (scopes["a"].has(gone), scopes["a"].has(kept), len(scopes["b"])) == (False, True, 2)
        assert await vault.match([EMAIL]) == {}
        assert await vault.forget([EMAIL]) == 0


async def test_token_erases_its_value_in_one_scope_or_in_all(path: Path) -> None:
    """A person is forgotten, not a spelling."""
    async with open_vault(path) as vault:
        scopes = await fill(vault, "a", "b")
        token = scopes["a"].token("email", EMAIL)

        assert await vault.forget([token.upper()], scope="b") == 0
        assert await vault.forget([token.upper()], scope="a") == 3
        assert len(scopes["b"]) == 5
        assert await vault.forget([scopes["b"].token("email", EMAIL)]) == 3


async def test_erased_value_that_comes_again_has_a_new_token(path: Path) -> None:
    """The old token stays refused for ever, and nobody can tie the new one to it."""
    async with open_store(path) as store:
        vault = build_vault(store)
        scope = await vault.scope("s")
        old, other = scope.token("email", EMAIL), scope.token("email", "b@example.com")
        await vault.forget([EMAIL])
        new = scope.token("email", EMAIL)

        assert new != old
        assert scope.token("email", "b@example.com") == other
        assert (scope.has(old), scope.reveal(new)) == (False, EMAIL)
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        assert (scope.has(old), scope.reveal([new, other])) == (False, [EMAIL, "b@example.com"])
        assert scope.token("email", EMAIL) == new


async def test_running_gateway_notices_an_erasure_and_loses_nothing_else(path: Path) -> None:
    """What it gave out since, and what it is about to write, stays good; the erased value does not come back."""
    async with open_store(path) as store, open_vault(path) as operator:
        vault = build_vault(store)
        scope = await vault.scope("s")
        gone, kept = scope.token("email", EMAIL), scope.token("email", "b@example.com")
        await store.flush()
        assert await operator.forget([EMAIL]) == 1
        since = scope.token("email", "c@example.com")
        await vault.scope("s")

        assert [scope.has(each) for each in (gone, kept, since)] == [False, True, True]
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        assert [scope.has(each) for each in (gone, kept, since)] == [False, True, True]


async def test_gateway_cannot_write_an_erased_value_back(path: Path) -> None:
    """Its value is seen again, and renewed, before the gateway notices the erasure."""
    clock = Clock()
    async with open_store(path) as store, open_vault(path, clock=clock) as operator:
        scope = await build_vault(store, clock=clock).scope("s")
        scope.token("email", EMAIL)
        await store.flush()
        await operator.forget([EMAIL])
        clock.now += 500
        scope.token("email", EMAIL)
        await store.flush()

        assert await store.vault.read_values(scope.id, after=0, now=0.0) == []


async def test_forgotten_scope_is_empty_at_once_and_begins_anew(path: Path) -> None:
    """Here, and in a gateway that is about to write into it."""
    async with open_store(path) as store, open_store(path) as operator:
        vault = build_vault(store)
        scope, other = await vault.scope("s"), await vault.scope("other")
        old, kept = scope.token("email", EMAIL), other.token("email", EMAIL)
        await store.flush()
        assert await operator.vault.erase_scopes(["s"]) == 1
        scope.token("email", "late@example.com")
        await store.flush()

        assert await vault.scope("s") is scope
        assert (scope.has(old), len(scope), other.has(kept)) == (False, 0, True)
        new = scope.token("email", EMAIL)
        assert new != old
        await store.flush()
        assert await operator.vault.erase_scopes(["s"]) == 1
        assert await vault.scope("s") is scope
        assert (len(scope), await operator.vault.erase_scopes(["none"])) == (0, 0)
        assert await operator.vault.erase_scopes(None) == 1
        assert await vault.scope("other") is other
        assert len(other) == 0


async def test_erased_bytes_are_gone_from_every_file(path: Path) -> None:
    """Neither the sealed value nor the secrets that made its token can be found in the database or its log."""
    async with open_store(path) as store:
        vault = build_vault(store)
        scope = await vault.scope("s")
        scope.token("email", EMAIL)
        scope.token("email", "b@example.com")
        await store.flush()
        row = await store.vault.find_scope("s")
        values = await store.vault.read_values(scope.id, after=0, now=0.0)
        assert row is not None
        erased, kept = row.sealed, [each.sealed for each in values]
        assert [is_on_disk(path, each) for each in (erased, *kept)] == [True, True, True]
        assert await vault.forget([EMAIL]) == 1

        assert [is_on_disk(path, each) for each in (erased, *kept)] == [False, False, True]


def is_on_disk(path: Path, content: bytes) -> bool:
    """Whether a file of the store holds these bytes."""
    return any(content in file.read_bytes() for file in path.parent.iterdir() if file.is_file())


async def test_nothing_private_is_in_any_file(path: Path) -> None:
    """Neither values nor keys, while it runs and after it."""
    private = [
        EMAIL.encode(),
        b"5551234",
        "Ünïcode Straße".encode(),
        "Ünïcode Straße".encode("utf-16-le"),
        KEY,
        KEY.hex().encode(),
    ]
    async with open_store(path) as store:
        scope = await build_vault(store).scope("s")
        for value in (EMAIL, 5551234, "Ünïcode Straße"):
            scope.token("text", value)
        await store.flush()
        files = {file.name for file in path.parent.iterdir() if file.is_file()}
        assert {"store.db", "store.db-shm", "store.db-wal"} <= files
        assert [is_on_disk(path, each) for each in private] == [False] * len(private)
        assert is_on_disk(path, b"vault_values")
    assert [is_on_disk(path, each) for each in private] == [False] * len(private)


async def test_counts_tell_types_and_no_values(path: Path) -> None:
    """What `privacy status` shows."""
    clock = Clock()
    async with open_store(path) as store:
        vault = build_vault(store, clock=clock)
        scope = await vault.scope("b")
        scope.token("email", EMAIL)
        scope.token("email", "b@example.com")
        scope.token("phone", 5551234)
        await vault.scope("a")
        await store.flush()
        key_id = Keys.of([KEY]).current_id

        counts = [(each.scope, each.key_id, each.type, each.values) for each in await store.vault.counts()]
        assert counts == [("a", key_id, "", 0), ("b", key_id, "email", 2), ("b", key_id, "phone", 1)]


async def test_erasure_under_a_reader_that_never_ends_says_what_is_left(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that never ends keeps old copies alive: the erasure is done, and the operator is told of the rest."""
    monkeypatch.setattr("sealyard.store.vault.BUSY_SECONDS", 0.05)
    async with open_store(path) as store:
        vault = build_vault(store)
        scope = await vault.scope("s")
        token = scope.token("email", EMAIL)
        await store.flush()
        reader = sqlite3.connect(path)
        try:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM vault_values").fetchall()
            with pytest.raises(StoreError):
                await vault.forget([EMAIL])
        finally:
            reader.close()
        await vault.scope("s")
        assert not scope.has(token)
