"""Echoes of values: each is found as itself, and the work grows with what is found, not with what was handed over."""

import time

import pytest

from sealyard.privacy.detect.scanner import Scanner
from sealyard.privacy.echo import Echoes, Leaves, OwnWords, Sent, find_echoes
from sealyard.privacy.helper_guard import Mirror
from sealyard.privacy.reading.views import Letters
from sealyard.privacy.rules import Privacy
from sealyard.values.tools import ToolSpec

HANDED = [f"person{number}@shop.example" for number in range(20)]
SPEC = ToolSpec(
    upstream="crm",
    name="list",
    full_name="mcp__crm__list",
    module="crm",
    function="list",
    input_schema={},
    digest="list",
)
OTHERS = [f"number{number}k@shop.example" for number in range(3_000)]
"""They end as the addresses above do, with eleven letters: too little for an echo."""


def _session() -> Echoes:
    """What a session keeps after mails to twenty people."""
    echoes = Echoes(is_later=True)
    for address in HANDED:
        echoes.add([("Dear customer, ", None), (address, "email")])
    return echoes


@pytest.fixture
def located(monkeypatch):
    """The stretches of a reading whose place in the text is looked up."""
    calls = []
    source = Letters.source

    def counted(self, start, end):
        calls.append((start, end))
        return source(self, start, end)

    monkeypatch.setattr(Letters, "source", counted)
    return calls


def test_an_agreement_that_says_too_little_is_never_located(located):
    """Regression: the start of every string of an answer was looked up, in each of eight readings of it."""
    assert not Leaves(OTHERS).find([_session()], OwnWords())
    assert located == []


def test_the_ends_of_a_string_are_looked_up_for_a_part_alone(located):
    """The number of strings around it is nothing to it."""
    found = Leaves([*OTHERS, "for person1@shop.exa", "mp and others", *OTHERS]).find([_session()], OwnWords())
    (number,) = found.values
    assert {echo.value for echo in found.values[number]} == {HANDED[1]}
    assert found.values[number][0].start == 4
    assert found.values[number][-1].end == len("for person1@shop.exa")
    assert len(located) < 100


@pytest.mark.parametrize(("answer", "most"), [(["nothing"], 1), ([f"mail to {HANDED[0]} failed"], 2)])
def test_an_answer_is_searched_for_echoes_twice_at_most(monkeypatch, answer, most):
    """Before the scanner takes whole values, and after it. Regression: a third time, for what was found already."""
    searches = []
    find = Leaves.find

    def counted(self, indexes, own):
        searches.append(self)
        return find(self, indexes, own)

    monkeypatch.setattr(Leaves, "find", counted)
    guard = Mirror(Privacy(Scanner())).guard
    sent = Sent()
    sent.add([(HANDED[0], "email")])
    admitted = guard.admit(SPEC, answer, sent=sent)
    assert (admitted == answer) == (most == 1)
    assert len(searches) <= most


FAMILIES = {
    "common beginnings": [f"49301234567{number:02d}" for number in range(100)],
    "common endings": [f"{number:02d}4930123456" for number in range(100)],
    "common middles": [f"{number:02d}301234567{other:02d}" for number in range(20) for other in range(20)],
    "accounts": [f"DE8937040044053201{number:04d}" for number in range(100)],
}
TURNS = {
    "glued": lambda value: f"q{value}q",
    "backwards": lambda value: value[::-1],
    "hex": lambda value: value.encode().hex(),
}


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("family", FAMILIES)
def test_each_of_many_values_that_resemble_each_other_is_found_whole(family, turn, is_later):
    """Regression: of nine or more values with a common beginning, the rest of a later one was shown."""
    values = FAMILIES[family]
    echoes = Echoes(is_later=is_later)
    for value in values:
        echoes.add([(value, "phone")])

    for value in values:
        for shift in range(3):
            text = "z" * shift + TURNS[turn](value)
            (echo,) = find_echoes(text, [echoes])
            assert echo.value == value
            assert echo.end - echo.start >= len(text) - shift - 2


def test_a_call_that_hands_over_a_block_of_numbers_gets_each_as_its_own_token():
    """Regression: `x4930123456708x` was answered as the token of another number and the digit 8."""
    values = FAMILIES["common beginnings"][:30]
    guard = Mirror(Privacy(Scanner())).guard
    sent = Sent()
    for value in values:
        sent.add([(value, "phone")])

    answer = guard.admit(SPEC, {"said": [f"x{value}x" for value in values]}, sent=sent)["said"]

    assert len(set(answer)) == 30
    assert all(guard.scope.reveal(said) == f"x{value}x" for said, value in zip(answer, values, strict=True))


def test_values_that_resemble_each_other_cost_little_each():
    """Hostile code: a thousand numbers of one block, and an answer that repeats their beginning all the time."""
    echoes = Echoes()
    for number in range(1_000):
        echoes.add([(f"4930123456{number:04d}", "phone")])
    text = "4930123456 or " * 2_000

    started = time.process_time()
    find_echoes(text, [echoes])

    assert time.process_time() - started < 5
