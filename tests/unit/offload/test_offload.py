"""Helper processes: what they are asked, what they remember, and what becomes of those that dawdle, die or lie."""

import asyncio
import inspect
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sealyard.broker.admission import admit, admit_answer
from sealyard.broker.upstreams import Response, ResponseFile
from sealyard.errors import HelperFailed, InvalidRequest, InvalidSkill
from sealyard.offload import Offload, Process, decode
from sealyard.offload.child import LENGTHS
from sealyard.offload.pool import _Helper
from sealyard.privacy import TOKEN, Guard, Handling, Privacy, Sent
from sealyard.privacy.detect import Scanner
from sealyard.privacy.known import Event
from sealyard.privacy.rules import Mode
from sealyard.privacy.vault.scope import reveal_tokens
from sealyard.values.documents import MOST_DEPTH, MOST_NODES, check_values, is_large
from sealyard.values.tools import ToolSpec

SLOW = b"[" + b",".join([b"[]"] * 3_000_000) + b"]"
"""Takes a helper seconds to count."""
SPEC = ToolSpec(
    upstream="a", name="b", full_name="mcp__a__b", module="a", function="b", input_schema={"type": "object"}, digest=""
)
ROWS = [{"first_name": "Ottoline", "email": f"ottoline{n}@quillhaven.org", "orders": n} for n in range(200)]


def with_helpers(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Gives a test helpers, which are gone after it."""

    async def run(**given: Any) -> None:
        offload = Offload()
        try:
            await test(offload, **given)
        finally:
            await offload.close()

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    parameters = list(inspect.signature(test).parameters.values())[1:]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def helpers_of(pid: int) -> set[int]:
    """The processes that run the helper's program for us."""
    found = set()
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                command = (each / "cmdline").read_bytes()
                parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid and b"offload/child.py" in command:
                found.add(int(each.name))
    return found


async def count(offload: Offload, document: bytes = b"[1,[2]]", who: str = "anna") -> Any:
    """What a helper counts in a document."""
    return (await offload.run("document", None, document, who=who)).result


@with_helpers
async def test_a_helper_that_is_killed_costs_its_request_and_no_other(offload: Offload) -> None:
    """The request fails with a reason, and the next one gets a new helper."""
    assert await count(offload) == [4, 2]
    (pid,) = helpers_of(os.getpid())
    task = asyncio.create_task(count(offload, SLOW))
    await asyncio.sleep(0)
    os.kill(pid, signal.SIGKILL)

    with pytest.raises(HelperFailed, match="ended"):
        await task
    assert await count(offload) == [4, 2]
    assert pid not in helpers_of(os.getpid())


async def test_work_that_takes_too_long_is_killed_with_its_helper() -> None:
    """Nothing goes on in the background for somebody who was told that it failed."""
    offload = Offload(seconds=0.2)
    with pytest.raises(HelperFailed, match=r"took longer than 0\.2 s\. Send less"):
        await count(offload, SLOW)
    await offload.close()

    assert helpers_of(os.getpid()) == set()


@with_helpers
async def test_a_request_that_is_cancelled_ends_its_work(offload: Offload) -> None:
    """A run that is over does not keep a processor busy."""
    task = asyncio.create_task(count(offload, SLOW))
    while not helpers_of(os.getpid()):  # noqa: ASYNC110 - the kernel tells nobody
        await asyncio.sleep(0.01)
    (pid,) = helpers_of(os.getpid())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await offload.close()

    assert pid not in helpers_of(os.getpid())


async def test_nothing_is_left_when_helpers_are_closed() -> None:
    """No process and no descriptor."""
    before = set(os.listdir("/proc/self/fd"))
    offload = Offload()
    await asyncio.gather(*(count(offload, who=who) for who in "abc"))
    await offload.close()

    assert helpers_of(os.getpid()) == set()
    assert set(os.listdir("/proc/self/fd")) == before
    with pytest.raises(HelperFailed, match="closing"):
        await count(offload)


@with_helpers
async def test_what_one_principal_waits_for_holds_up_no_other(offload: Offload) -> None:
    """Somebody's request that takes its time, and all that follow it, leave helpers for everybody else."""
    asked, release = asyncio.Event(), asyncio.Event()

    async def answer(question: Any) -> Any:
        asked.set()
        await release.wait()

    code = b"from servers.a import b\nb()\n"
    params = {"name": "c", "inputs": None, "output": None}
    slow = [
        asyncio.create_task(offload.run("read_skill", params, code, who="mallory", on_query=answer)) for _ in range(20)
    ]
    await asked.wait()

    assert await count(offload, who="anna") == [4, 2]
    assert not any(each.done() for each in slow)
    release.set()
    assert {type(each) for each in await asyncio.gather(*slow, return_exceptions=True)} == {InvalidSkill}


@with_helpers
async def test_more_requests_than_can_wait_are_refused(offload: Offload) -> None:
    """One principal cannot fill the memory with what it wants looked through."""
    tasks = [asyncio.create_task(count(offload, who="mallory")) for _ in range(400)]
    ended = await asyncio.gather(*tasks, return_exceptions=True)

    assert {str(each) for each in ended if isinstance(each, Exception)} == {
        "256 requests of 'mallory' wait to be looked through. Make fewer calls at once."
    }
    assert [4, 2] in ended


@with_helpers
async def test_what_a_task_raises_is_raised_here_and_its_helper_goes_on(offload: Offload) -> None:
    """An error of ours keeps its class and its words; the words of any other stay in the helper."""
    params = {"name": "c", "inputs": None, "output": None}
    with pytest.raises(InvalidSkill, match="Line 1"):
        await offload.run("read_skill", params, b"def (", who="anna")
    before = helpers_of(os.getpid())
    with pytest.raises(HelperFailed, match=r"^It could not be looked through \(KeyError\)\.$"):
        await offload.run("no such task", None, b"secret", who="anna")

    assert await count(offload) == [4, 2]
    assert helpers_of(os.getpid()) == before


def _head(**fields: Any) -> bytes:
    encoded = msgspec.json.encode(fields)
    return LENGTHS.pack(len(encoded), 0) + encoded


LIES: dict[str, tuple[bytes, str]] = {
    "a length beyond all bounds": (LENGTHS.pack(2**32 - 1, 0), "ended"),
    "a body beyond all bounds": (LENGTHS.pack(2, 2**32 - 1) + b"{}", "ended"),
    "half a frame": (LENGTHS.pack(100, 0) + b"{", "ended"),
    "no JSON": (LENGTHS.pack(3, 0) + b"{-}", "ended"),
    "a head of another shape": (_head(is_done="yes"), "ended"),
    "an unexpected query": (_head(result={"wanted": []}), "ended"),
    "an error that is no error of ours": (_head(error="SystemExit", result="x"), "could not be looked through"),
    "an error with the name of something else": (_head(error="__all__", result="x"), "could not be looked through"),
    "an error without words": (_head(error="InvalidRequest", result=None), "could not be looked through"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_whatever_a_helper_says_is_checked(lie: str) -> None:
    """A helper reads hostile data. One that it took over gets nothing but an error for its own request."""
    said, expected = LIES[lie]
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])  # noqa: ASYNC220
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    offload = Offload()
    offload._idle.append(_Helper(Process(child=child, connection=ours), reader, writer, 0))
    theirs.sendall(said)
    theirs.shutdown(socket.SHUT_WR)

    with pytest.raises(HelperFailed, match=expected):
        await count(offload)
    await offload.close()
    theirs.close()
    assert child.poll() is not None


# Documents


@with_helpers
async def test_a_document_is_decoded_unless_there_is_too_much_in_it(offload: Offload) -> None:
    """A text may be as long as it likes; so many values, or so many levels, take too long."""
    text = msgspec.json.encode({"csv": "a,b,c\n" * 100_000})
    many = msgspec.json.encode([0] * (MOST_NODES + 1))
    deep = b"[" * (MOST_DEPTH + 1) + b"]" * (MOST_DEPTH + 1)

    assert await decode(text, offload, who="anna", what="It") == {"csv": "a,b,c\n" * 100_000}
    for document, reason in ((many, "more than 100,000 values"), (deep, "more than 200 levels deep")):
        with pytest.raises(InvalidRequest, match=f"^It (holds|is nested) {reason}"):
            await decode(document, offload, who="anna", what="It")
        with pytest.raises(InvalidRequest, match=reason):
            check_values("It", msgspec.json.decode(document))
    with pytest.raises(InvalidRequest, match="is not JSON"):
        await decode(b"{" * 100_000, offload, who="anna", what="It")
    check_values("It", msgspec.json.decode(b"[" * MOST_DEPTH + b"]" * MOST_DEPTH))


def test_keys_count_as_well_as_values() -> None:
    """What is large in a name holds the loop as much as anything else."""
    assert is_large({"a" * 2_000: 1})
    assert not is_large({"a": 1})


# Answers


@pytest.mark.parametrize("mode", ["strict", "output", "off"])
@with_helpers
async def test_a_helper_admits_an_answer_as_it_is_admitted_here(offload: Offload, mode: Mode) -> None:
    """The value, its files in whatever encoding, what the journal is told, and the sample of a large one."""
    files = tuple(
        ResponseFile(
            name=f"{encoding}.txt", mime="text/plain", content="Écrit par ottoline@quillhaven.org".encode(encoding)
        )
        for encoding in ("utf-8", "utf-16", "cp1252")
    )
    files += (ResponseFile(name="ottoline@quillhaven.org.bin", mime="image/png", content=bytes(range(256)) * 10),)
    for rows in (30, 2_000):
        value = {"rows": ROWS[:1] * rows, "file": {"file": files[-1].name}}
        answer = Response(value=value, files=files)
        there, here = guard_of(mode, offload), guard_of(mode, None)
        found = await admit_answer(there, SPEC, answer, Sent(), offload=offload, who="anna")
        expected = admit(here, SPEC, answer, Sent())

        assert found.encoded == expected.encoded
        assert (found.concealed, found.answer.sample) == (expected.concealed, expected.answer.sample)
        assert found.answer.files == expected.answer.files
        assert msgspec.json.encode(found.answer.value) == expected.encoded


# Guards


class Tokens:
    """In the place of a scope: the same token for the same value."""

    values: ClassVar[dict[str, str]] = {}
    made: ClassVar[dict[tuple[str, str], str]] = {}

    def token(self, kind: str, value: Any, *, origin: str = "tool") -> str:
        """One that anybody can work out."""
        key = (origin, str(value))
        made = self.made.setdefault(key, f"__PII_{kind}_{hash(key) & 0xFFFFFFFFFFFF:012x}__")
        self.values[made] = str(value)
        return made

    def tokens(self, wanted: list[tuple[str, Any, str]]) -> list[str]:
        """The same for several."""
        return [self.token(kind, value, origin=origin) for kind, value, origin in wanted]

    async def room(self) -> None:
        """There is always room."""

    def reveal(self, text: str) -> str:
        """The text with values in the place of tokens."""
        return TOKEN.sub(lambda match: self.values.get(match[0], match[0]), text)


@pytest.fixture(autouse=True)
def no_tokens() -> None:
    """No test finds the types that another one gave to the same values."""
    Tokens.made.clear()


def guard_of(mode: Mode, offload: Offload | None, handling: Handling | None = None) -> Guard:
    """A guard with helpers, or without any."""
    privacy = Privacy(Scanner(), mode=mode, rules=[(["mcp__a__*"], handling)] if handling else [])
    return Guard(privacy, Tokens(), offload=offload, principal="anna")  # type: ignore[arg-type]


def sent_of(value: str) -> Sent:
    """What a call handed over that was given one value."""
    sent = Sent()
    sent.add([(value, "email")])
    return sent


@with_helpers
async def test_a_helper_finds_what_was_handed_over_whatever_stands_beside_it(offload: Offload) -> None:
    """In the answer to the same call, in what is said meanwhile, and in answers to later calls."""
    guard, card = guard_of("strict", offload), "5500005555555559"
    token = Tokens().token("credit_card", card)
    padding = "lorem ipsum " * 200
    sent = Sent()
    sent.add([(card, "credit_card")])
    guard.learn([Event("handed", pieces=((card, "credit_card"),))])
    answer = Response(value=f"{padding}q{card}q")
    told = [
        (await admit_answer(guard, SPEC, answer, sent, offload=offload, who="anna")).encoded,
        await guard.door.admit_text(f"{padding}q{card}q", sent=sent),
        guard.admit_echoes([padding, f"q{card}q"], sent=sent),
        (await admit_answer(guard, SPEC, answer, Sent(), offload=offload, who="anna")).encoded,
    ]

    assert [card in str(each) for each in told] == [False] * 4
    assert [token in str(each) for each in told] == [True] * 4


@with_helpers
async def test_a_helper_gets_no_more_tokens_than_the_store_keeps_up_with(offload: Offload) -> None:
    """However many values one answer holds: who waits for the store waits for few of them."""
    is_written = asyncio.Event()

    class Slow(Tokens):
        waited = 0

        async def room(self) -> None:
            Slow.waited += 1
            await is_written.wait()

    guard = guard_of("strict", offload)
    guard.scope = Slow()  # type: ignore[assignment]
    rows = [{"email": f"ottoline{n}@quillhaven.org"} for n in range(5_000)]
    concealing = asyncio.create_task(guard.door.conceal(rows))
    while not Slow.waited:
        assert not concealing.done()
        await asyncio.sleep(0)

    given = len(Tokens.made)
    is_written.set()
    await concealing

    assert 0 < given <= 1_000
    assert len(Tokens.made) == 5_000
    assert Slow.waited == 5


@pytest.mark.parametrize("mode", ["strict", "output", "off"])
@with_helpers
async def test_a_helper_conceals_as_the_guard_itself_does(offload: Offload, mode: Mode) -> None:
    """The same tokens in the same places, the same memory, the same counts, over a whole session."""
    handling = Handling(mode=mode, whole=("orders",), visible=("first_name",))
    there, here = guard_of(mode, offload, handling), guard_of(mode, None, handling)
    text = "x " * 1_000 + "Ottoline wrote to ottoline7@quillhaven.org from 4111 1111 1111 1111."

    for value in (ROWS, text, {"rows": ROWS, "text": text}, "plain " * 1_000):
        answer, sent = Response(value=value), sent_of("ottoline3@quillhaven.org")
        admitted = await admit_answer(there, SPEC, answer, sent, offload=offload, who="anna")
        expected = admit(here, SPEC, answer, sent_of("ottoline3@quillhaven.org"))
        assert (admitted.encoded, admitted.concealed) == (expected.encoded, expected.concealed)
        assert await there.door.conceal(value) == here.conceal(value)
        assert await there.door.admit_text(text) == here.admit_text(text)
    assert there.seen_since(0) == here.seen_since(0)
    assert there.take_counts() == here.take_counts()


@given(st.text(alphabet=st.sampled_from("ab@.,:\n\t{}[]\"'019 _é"), max_size=40))
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_text_is_concealed_by_a_helper_as_here(text: str) -> None:
    """Wherever the private value stands."""

    async def compare() -> None:
        offload = Offload()
        value = [text, f"{text}ottoline@quillhaven.org{text}", {text: "4111111111111111"}, "x" * 2_000]
        try:
            assert await guard_of("strict", offload).door.conceal(value) == guard_of("strict", None).conceal(value)
        finally:
            await offload.close()

    asyncio.run(compare())


class Mails:
    """In the place of a scope: every token stands for one address."""

    def reveal(self, value: Any, **options: Any) -> Any:
        """The value with the address in the place of each token."""
        return reveal_tokens(value, lambda kind, value_id: "ottoline@quillhaven.org", **options)


def test_what_tools_were_handed_is_kept_as_far_as_echoes_need_it() -> None:
    """Regression: each string of a session was kept whole, and sent to a helper in one message of any size."""
    guard = Guard(Privacy(Scanner()), Mails(), offload=None)  # type: ignore[arg-type]
    token = "__PII_email_0123456789ab__"
    spec = msgspec.structs.replace(SPEC, input_schema={})
    for number in range(20):
        guard.reveal(spec, {"body": f"{number}" + "x " * 50_000 + token}, Sent(), how="inside")

    events, position = guard.seen_since(0)

    assert sum(event.characters for event in events) < 5_000
    assert guard.seen_since(position) == ([], position)


def test_what_a_session_has_seen_is_sent_in_messages_of_bounded_size() -> None:
    """By their characters as well as by their number, and nothing is left out."""
    guard = guard_of("strict", None)
    texts = [f"{number} " + "lorem ipsum " * 8_000 for number in range(20)] + [f"{number}" for number in range(6_000)]
    guard.learn(Event("public", text=text) for text in texts)
    position, sent = 0, []
    while (found := guard.seen_since(position))[0]:
        events, position = found
        assert len(events) <= 5_000
        assert len(events) == 1 or sum(event.characters for event in events) <= 1 << 18
        sent += [event.text for event in events]

    assert sent == texts


@with_helpers
async def test_a_fresh_helper_is_told_what_the_session_has_seen(offload: Offload) -> None:
    """What was learned with one helper is known to the next."""
    guard = guard_of("strict", offload)
    await admit_answer(guard, SPEC, Response(value=ROWS), Sent(), offload=offload, who="anna")
    offload.retire()

    answer = Response(value="x " * 1_000 + "Ottoline")
    admitted = await admit_answer(guard, SPEC, answer, Sent(), offload=offload, who="anna")

    assert admitted.answer.value.rpartition("x ")[2] == Tokens().token("person", "Ottoline")


@with_helpers
async def test_nobody_can_write_a_stand_in(offload: Offload) -> None:
    """What an upstream sends in the form of a stand-in is not exchanged for anybody's token."""
    guard = guard_of("strict", offload)
    forged = [f"__PII_z{secrets.token_hex(15)}_{number:012x}__" for number in range(300)]
    answer = Response(value=[*forged, "ottoline@quillhaven.org"])
    admitted = await admit_answer(guard, SPEC, answer, Sent(), offload=offload, who="anna")

    assert admitted.answer.value == [
        *(Tokens().token("literal", each) for each in forged),
        Tokens().token("email", "ottoline@quillhaven.org"),
    ]


async def test_what_cannot_be_looked_through_is_withheld() -> None:
    """No time left is no reason to show it."""
    offload = Offload(seconds=0.05)
    guard = guard_of("strict", offload)
    withheld: Callable[[], Any] = lambda: guard.door.conceal("QUJD" * 500_000)  # noqa: E731
    with pytest.raises(Exception, match="is withheld"):
        await withheld()
    await offload.close()

    assert guard.take_counts() == ({}, 1)
