"""The work of finding echoes grows with what is found, not with the number of strings in an answer."""

import pytest

from sealyard.privacy.detect.scanner import Scanner
from sealyard.privacy.echo import Echoes, Leaves, OwnWords, Sent
from sealyard.privacy.mirror import Mirror
from sealyard.privacy.reading.letters import Letters
from sealyard.privacy.rules import Privacy
from sealyard.values.tools import ToolSpec

HANDED = [f"person{number}@shop.example" for number in range(20)]
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
    spec = ToolSpec(
        upstream="crm",
        name="list",
        full_name="mcp__crm__list",
        module="crm",
        function="list",
        input_schema={},
        digest="list",
    )
    sent = Sent()
    sent.add([(HANDED[0], "email")])
    admitted = guard.admit(spec, answer, sent=sent)
    assert (admitted == answer) == (most == 1)
    assert len(searches) <= most
