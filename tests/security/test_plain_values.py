"""Attacks on the short way for plain values: whatever it lets pass, a search of the whole would let pass too."""

import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sealyard.broker.admission import admit_answer
from sealyard.broker.upstreams import Response
from sealyard.errors import UpstreamError
from sealyard.privacy import TOKEN, Guard, Handling, Mirror, Privacy, Sent
from sealyard.privacy.detect import Scanner
from sealyard.privacy.rules import Mode
from sealyard.privacy.span import Span
from sealyard.privacy.vault import Keys, Scope, Vault
from sealyard.store import open_store
from sealyard.values.tools import ToolSpec

NAME, EMAIL, PIN = "Anna Berg", "anna.berg@brindle.org", "47110"
PERSON = {"name": NAME, "email": EMAIL, "password": PIN, "phone": "+49 170 1234567"}
NAMES = """n ok count total item id Anna Berg anna_berg berg 47110 Ω k1 status state mode type kind value v en text name
    label field columns rows data tags item12 user1 user2 user3 AB_c deadbeefdeadbeef thing something12""".split()
WORDS = "ok open Anna Berg anna tom lena Maria john email phone first_name in_progress Oslo password __ a_ _b".split()


def tool(name: str = "get", **options: Any) -> ToolSpec:
    """A tool without a schema."""
    return ToolSpec(
        upstream="crm",
        name=name,
        full_name=f"mcp__crm__{name}",
        module="crm",
        function=name,
        input_schema={},
        digest=name,
        **options,
    )


GET = tool()


@asynccontextmanager
async def open_scope(folder: Path) -> AsyncIterator[Scope]:
    """One session of a vault."""
    async with open_store(folder / "store.db") as store:
        yield await Vault(Keys.of([bytes(32)]), store.vault, expires_seconds=1000.0).scope("local:main")


def guard_of(scope: Scope, mode: Mode = "strict", *, is_short: bool = True, **rules: Handling) -> Guard:
    """A guard; without the short way, one that searches everything."""
    privacy = Privacy(Scanner(), mode=mode, rules=[([f"mcp__crm__{name}"], each) for name, each in rules.items()])
    if not is_short:
        privacy.plain = None
    return Guard(privacy, scope)


def without_tokens(value: Any) -> Any:
    """Types alone: which id a token has is not the point."""
    return msgspec.json.decode(TOKEN.sub(r"<\1>", msgspec.json.encode(value).decode()))


# Names


@pytest.mark.parametrize(
    "key",
    [
        EMAIL,
        "+49 170 1234567",
        "4111 1111 1111 1111",
        "078-05-1120",
        "anna%2eberg%40brindle.org",
        base64.b64encode(b"al@foo.org").decode(),
        "Dear Mr Smith",
        "AKIAIOSFODNN7EXAMPLE",
        "__PII_email_0123456789ab__",
    ],
)
@pytest.mark.parametrize("around", [lambda key: {key: 1}, lambda key: {"n": [{"ok": {key: None}}]}], ids=["top", "in"])
async def test_a_key_that_is_private_passes_in_neither_direction(tmp_path: Path, key: str, around: Any) -> None:
    """Alone beside counts and flags as much as beside a text, where everything is searched. Source: our choice."""
    async with open_scope(tmp_path) as scope:
        guard, searching = guard_of(scope), guard_of(scope, is_short=False)

        admitted, shown = guard.admit(GET, around(key)), guard.conceal(around(key))

        assert (admitted, shown) == (searching.admit(GET, around(key)), searching.conceal(around(key)))
        assert key not in str(admitted)
        assert key.startswith("__PII_") or key not in str(shown)  # tokens may leave


@pytest.mark.parametrize("key", [NAME, "anna_berg", "ANNA BERG", "Berg", "by Anna  Berg"])
async def test_a_name_that_was_hidden_before_stays_hidden_as_a_key(tmp_path: Path, key: str) -> None:
    """A count for each customer names the customers."""
    async with open_scope(tmp_path) as scope:
        guard = guard_of(scope)
        guard.admit(GET, PERSON)

        admitted = guard.admit(GET, {key: 5})

    assert "berg" not in str(admitted).lower()


@pytest.mark.parametrize("key", [NAME, base64.b64encode(NAME.encode()).decode().strip("="), "Anna  Berg"])
async def test_a_name_that_code_holds_does_not_leave_as_a_key(tmp_path: Path, key: str) -> None:
    """In `output` code has the real value, and may return it as the only key of an object."""
    async with open_scope(tmp_path) as scope:
        guard = guard_of(scope, "output")
        assert guard.admit(GET, PERSON) == PERSON

        shown = guard.conceal({key: 5})

    assert key not in str(shown)


# Numbers


@pytest.mark.parametrize("number", [47110, 47110.0, -47110])
async def test_a_short_number_that_was_hidden_before_stays_hidden(tmp_path: Path, number: float) -> None:
    """Five digits say nothing by themselves, but somebody's password does."""
    async with open_scope(tmp_path) as scope:
        guard, searching = guard_of(scope), guard_of(scope, is_short=False)
        for each in (guard, searching):
            each.admit(GET, PERSON)

        assert guard.admit(GET, {"n": number}) == searching.admit(GET, {"n": number})
        assert number < 0 or PIN not in str(guard.admit(GET, {"n": 47110}))


@pytest.mark.parametrize("described", [{"x-pii": "ssn"}, {"format": "phone"}, {"title": "Phone number"}])
async def test_a_number_that_its_schema_calls_private_is_hidden(tmp_path: Path, described: dict[str, Any]) -> None:
    """The name `n` says nothing, but the server's own schema does, also behind a reference."""
    schemas = [
        {"type": "object", "properties": {"n": {"type": "integer", **described}}},
        {"$defs": {"a": {"type": "integer", **described}}, "properties": {"n": {"$ref": "#/$defs/a"}}},
    ]
    async with open_scope(tmp_path) as scope:
        for schema in schemas:
            admitted = guard_of(scope).admit(tool(output_schema=schema), {"n": 12345})

            assert TOKEN.fullmatch(admitted["n"])


@pytest.mark.parametrize(
    "number",
    [4111111111111111, 4111111111111111.0, 78051120, 491701234567, 1701234567, -491701234567],
)
@pytest.mark.parametrize("key", ["n", "phone", "card_number", "ssn", "id"])
async def test_a_long_number_is_judged_as_it_is_beside_a_text(tmp_path: Path, number: float, key: str) -> None:
    """A card, a phone or a social security number as an integer and as a float."""
    async with open_scope(tmp_path) as scope:
        guard, searching = guard_of(scope), guard_of(scope, is_short=False)

        assert guard.admit(GET, {key: number}) == searching.admit(GET, {key: number})
        assert guard.conceal([{key: number}]) == searching.conceal([{key: number}])


# Words


@pytest.mark.parametrize(
    "value",
    [
        {"type": "phone", "value": 12345},
        {"label": "ssn", "val": 12345},
        {"columns": ["n", "ssn"], "rows": [[1, 12345], [2, 54321]]},
        {"columns": [{"field": "n"}, {"field": "ssn"}], "rows": [[1, 12345], [2, 54321]]},
        [["ok", "ssn"], [1, 12345], [2, 54321]],
        [{"v": "Anna"}, {"v": "Maria"}, {"v": "Lena"}],
        {"1": "Anna", "2": "Maria", "3": "Lena"},
        {"something1": {"en": "Anna"}, "something2": {"en": "Maria"}, "something3": {"en": "Lena"}},
        {"ok": ["Anna", "Maria", "Lena"]},
        ["Anna", "Maria", "Lena"],
        {"first": "Anna", "last": "Berg"},
    ],
)
async def test_a_word_that_tells_of_its_neighbours_is_not_plain(tmp_path: Path, value: Any) -> None:
    """A label, a header and a column of given names each make something private that is not so by itself."""
    async with open_scope(tmp_path) as scope:
        guard, searching = guard_of(scope), guard_of(scope, is_short=False)

        assert guard.admit(GET, value) == searching.admit(GET, value)
        assert guard.conceal(value) == searching.conceal(value)


async def test_a_word_that_was_hidden_before_stays_hidden(tmp_path: Path) -> None:
    """A login name is one word, and hidden by its field; later it stands in a field that says nothing."""
    async with open_scope(tmp_path) as scope:
        guard = guard_of(scope)
        assert guard.admit(GET, {"status": "zebrafinch"}) == {"status": "zebrafinch"}
        guard.admit(GET, {"username": "zebrafinch"})

        assert "zebrafinch" not in str(guard.admit(GET, {"status": "zebrafinch"}))
        assert guard.conceal({"status": "zebrafinch"}) == {"status": "zebrafinch"}  # code's own guess


# What tools were handed


async def test_an_echo_of_an_earlier_call_is_found_in_plain_numbers(tmp_path: Path) -> None:
    """A value handed over before comes back cut into list items, each of them too short to say anything."""
    async with open_scope(tmp_path) as scope:
        guard = guard_of(scope)
        token = guard.admit(GET, {"phone": "+49 170 1234567"})["phone"]
        guard.reveal(GET, {"to": token}, Sent())

        admitted = guard.admit(GET, {"n": [49170, 12345, 67]})

    assert "12345" not in str(admitted)


async def test_the_call_that_was_handed_a_pin_does_not_show_it_as_a_number(tmp_path: Path) -> None:
    """However little it says, in the answer to the same call: as a number, a float, a key and in pieces."""
    async with open_scope(tmp_path) as scope:
        guard, searching = guard_of(scope), guard_of(scope, is_short=False)
        token = guard.admit(GET, {"pin": "4711"})["pin"]
        searching.admit(GET, {"pin": "4711"})
        for value in ({"n": 4711}, {"4711": 1}, [4711], {"k4711": True}, {"n": [47, 11]}, {"n": 4711.0}):
            sents = Sent(), Sent()
            guard.reveal(GET, {"to": token}, sents[0])
            searching.reveal(GET, {"to": token}, sents[1])

            admitted = guard.admit(GET, value, sent=sents[0])

            assert admitted == searching.admit(GET, value, sent=sents[1])
            assert "4711" not in str(admitted)


@pytest.mark.parametrize("code", ["123", "012", "-45", "12.5"])
async def test_a_short_number_that_a_call_was_handed_does_not_come_back_as_another_kind(
    tmp_path: Path, code: str
) -> None:
    """Regression: a card's code of three digits was shown when the tool answered with a float or without its zero."""
    async with open_scope(tmp_path) as scope:
        for is_short in (True, False):
            guard, sent = guard_of(scope, is_short=is_short), Sent()
            sent.add([(code, "credit_card")])

            admitted = guard.admit(GET, {"n": float(code), "m": int(float(code)), "other": 77}, sent=sent)

            assert TOKEN.fullmatch(admitted["n"])
            assert code == "12.5" or TOKEN.fullmatch(admitted["m"])
            assert admitted["other"] == 77


def test_a_detector_beside_ours_sees_the_plainest_values() -> None:
    """Regression: single words went the short way, which knows nothing of what another detector finds."""

    class Names:
        def find(self, text: str) -> list[Span]:
            return [Span(match.start(), match.end(), "person") for match in re.finditer("Anna", text)]

    guard = Mirror(Privacy(Scanner(detectors=[Names()]))).guard

    assert guard.admit(GET, {"said": "Anna"}) != {"said": "Anna"}
    assert guard.admit(GET, {"said": "Otto"}) == {"said": "Otto"}


async def test_a_string_noted_for_one_tool_is_noted_again_for_one_that_shows_values(tmp_path: Path) -> None:
    """The tool in `output` repeats it to the code, so from then on it must not leave, though `strict` saw it first."""
    async with open_scope(tmp_path) as scope:
        guard = guard_of(scope, loud=Handling(mode="output"))
        token = guard.admit(GET, {"username": "zebrafinch"})["username"]
        guard.reveal(GET, {"to": token}, Sent())
        guard.reveal(tool("loud"), {"to": token}, Sent())

        shown = guard.conceal({"zebrafinch": 1})

    assert "zebrafinch" not in str(shown)


async def test_the_second_call_with_the_same_token_hides_its_echo_too(tmp_path: Path) -> None:
    """What a session noted once is not noted again, but each call still knows what it handed over."""
    async with open_scope(tmp_path) as scope:
        guard = guard_of(scope)
        token = guard.admit(GET, {"pin": "4711"})["pin"]
        for _ in range(3):
            sent = Sent()
            guard.reveal(GET, {"to": token}, sent)

            assert "4711" not in str(guard.admit(GET, {"ok": "is 4711"}, sent=sent))
            assert "4711" not in guard.admit_text("working on 4711", sent=sent)


# What is no plain JSON


class _Text(str):
    __slots__ = ()

    def __bool__(self) -> bool:
        return False


class _Number(int):
    def __lt__(self, other: object) -> bool:
        return True

    __gt__ = __lt__


@pytest.mark.parametrize(
    "value",
    [
        {"n": _Text(EMAIL)},
        {_Text(EMAIL): 1},
        {"n": _Number(4111111111111111)},
        [float("nan"), 1],
        [float("inf")],
        {"n": 10**400},
        {"n": (EMAIL,)},
        {1: EMAIL},
        [True, None, "", {"ok": EMAIL}],
        [[[[[[[[[[[[[[[[[[[[EMAIL]]]]]]]]]]]]]]]]]]]],
        [0] * 63 + [EMAIL],
        [0] * 64 + [EMAIL],
    ],
)
async def test_what_only_looks_plain_is_searched(tmp_path: Path, value: Any) -> None:
    """Subclasses, numbers without bounds, and one private text at the end of many plain values."""
    async with open_scope(tmp_path) as scope:
        guard, searching = guard_of(scope), guard_of(scope, is_short=False)

        assert not guard.shows_plain(value)
        for show in (Guard.conceal, lambda each, given: each.admit(GET, given)):
            shown = [_result(show, each, value) for each in (guard, searching)]

            assert shown[0] == shown[1]
            assert EMAIL not in shown[0]


def _result(show: Any, guard: Guard, value: Any) -> str:
    try:
        return repr(show(guard, value))
    except Exception as error:  # noqa: BLE001 - both must fail in the same way
        return repr(error)


async def test_an_answer_that_is_no_json_is_refused_on_the_short_way_too(tmp_path: Path) -> None:
    """Half a character in a key cannot be sent on."""
    async with open_scope(tmp_path) as scope:
        with pytest.raises(UpstreamError):
            await admit_answer(guard_of(scope), GET, Response(value={"\ud800": 1}), Sent(), offload=None, who="local")


# All of it


NUMBERS = st.integers(-120_000, 120_000) | st.floats(-2e5, 2e5) | st.sampled_from([47110, 4711, 170, 12345, 67, 49170])
SCALARS = NUMBERS | st.booleans() | st.none() | st.just("")
KEYS = st.sampled_from(NAMES) | st.text(max_size=12)
PLAIN = st.recursive(
    SCALARS | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
)


@pytest.mark.parametrize("mode", ["strict", "output", "off"])
async def test_the_short_way_changes_nothing_whatever_was_seen_before(tmp_path: Path, mode: Mode) -> None:
    """Any plain data, with nothing seen, something hidden and something handed over, in both directions."""
    async with open_scope(tmp_path) as scope:
        pairs = [(guard_of(scope, mode), guard_of(scope, mode, is_short=False)) for _ in range(3)]
        token = guard_of(scope).admit(GET, PERSON)["phone"]
        pin = guard_of(scope).admit(GET, PERSON)["password"]
        for guard in (*pairs[1], *pairs[2]):
            guard.admit(GET, PERSON)
        for guard in pairs[2]:
            guard.reveal(GET, {"to": token}, Sent())

        @given(value=PLAIN, is_sent=st.booleans())
        @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        def agree(value: Any, is_sent: bool) -> None:
            for short, searching in pairs:
                sents = Sent(), Sent()
                if is_sent:
                    short.reveal(GET, {"to": pin}, sents[0])
                    searching.reveal(GET, {"to": pin}, sents[1])
                admitted = short.admit(GET, value, sent=sents[0])
                assert admitted == searching.admit(GET, value, sent=sents[1])
                assert without_tokens(short.conceal(value)) == without_tokens(searching.conceal(value))

        agree()


@pytest.mark.parametrize("before", [[], ["Hello"], ["Hello", 1, {"a": 2}], [True] * 9])
def test_a_list_of_characters_is_read_wherever_they_begin_in_it(before: list[Any]) -> None:
    """Regression: only the first six items of a list were looked at, so that one word before them hid the rest."""
    guard = Mirror(Privacy(Scanner(), mode="output")).guard
    guard.admit(GET, {"name": NAME, "email": EMAIL})

    for pieces in (list(EMAIL), [ord(letter) for letter in EMAIL]):
        shown = guard.conceal([*before, *pieces, "and so on"])

        assert TOKEN.search(str(shown))
        assert "n.b" not in "".join(str(each) for each in shown)


async def test_a_field_that_a_rule_conceals_whole_may_hold_true_or_false(tmp_path: Path) -> None:
    """Regression: no token stands for them, and the whole answer was withheld."""
    async with open_scope(tmp_path) as scope:
        guard = guard_of(scope, get=Handling(mode="strict", whole=("active",)))

        admitted = guard.admit(GET, {"active": True, "open": True})

    assert TOKEN.fullmatch(admitted["active"])
    assert admitted["open"] is True
