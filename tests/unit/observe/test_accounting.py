"""Tokens are counted exactly, out of the way, and never made up."""

import pytest

from sealyard.metrics import tokens
from sealyard.observe import accounting
from sealyard.observe.accounting import Accounting, Bill, definition_text
from sealyard.values.facts import Fact, Tokens
from sealyard.values.tools import ToolSpec


def bill() -> Bill:
    """An empty bill."""
    return Bill(principal="alice", session="visit", execution_id="one", use_case="filtering", at=1.0)


def spec(name: str, description: str = "What it does.") -> ToolSpec:
    """A tool."""
    return ToolSpec(
        upstream="x",
        name=name,
        full_name=f"mcp__x__{name}",
        module="x",
        function=name,
        description=description,
        input_schema={"type": "object"},
        digest=f"digest of {name} {description}",
    )


async def test_a_bill_has_what_the_tokenizer_counts() -> None:
    """Each part by itself, and nothing that was not added."""
    facts: list[Fact] = []
    counting = Accounting(facts.append)
    mine = bill()
    rows = '[{"id": 1, "note": "größer"}]' * 2_000
    counting.add(mine, "data", rows.encode())
    counting.add(mine, "code", "print(1)")
    counting.add(mine, "results", "1\n")
    counting.add_definitions(mine, [spec("a"), spec("b")])
    counting.close_bill(mine)
    await counting.settled()
    await counting.close()

    assert facts == [
        Tokens(
            at=1.0,
            principal="alice",
            session="visit",
            execution_id="one",
            use_case="filtering",
            tokenizer="o200k_base",
            data=tokens.count(rows),
            code=tokens.count("print(1)"),
            results=tokens.count("1\n"),
            definitions=sum(tokens.count(definition_text(each)) for each in (spec("a"), spec("b"))),
        )
    ]


async def test_what_does_not_fit_is_reported_as_bytes_and_not_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure is then too low, which is the honest side."""
    monkeypatch.setattr(accounting, "_WAITING_BYTES", 1_000)
    facts: list[Fact] = []
    counting = Accounting(facts.append)
    mine = bill()
    counting.add(mine, "data", "x " * 600)
    counting.add(mine, "data", "few words")
    counting.close_bill(mine)
    await counting.settled()
    await counting.close()

    (fact,) = facts
    assert isinstance(fact, Tokens)
    assert (fact.uncounted_bytes, fact.data) == (1_200, tokens.count("few words"))


async def test_answers_that_cannot_be_counted_before_the_end_are_uncounted_bytes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Their bill is recorded all the same, with what the agent wrote."""
    monkeypatch.setattr(accounting, "_CLOSE_SECONDS", 0.0)
    facts: list[Fact] = []
    counting = Accounting(facts.append)
    mine = bill()
    answer = "some words and 1234 numbers\n" * 200_000
    counting.add(mine, "data", answer)
    counting.add(mine, "code", "print(1)")
    counting.close_bill(mine)
    await counting.close()

    (fact,) = facts
    assert isinstance(fact, Tokens)
    assert (fact.uncounted_bytes, fact.data, fact.code) == (len(answer), 0, tokens.count("print(1)"))
    assert "Not all tokens were counted" in caplog.text


async def test_the_same_definition_is_counted_once() -> None:
    """A second visit with the same tools costs nothing and gets the same figure."""
    facts: list[Fact] = []
    counting = Accounting(facts.append)
    for _ in range(2):
        mine = bill()
        counting.add_definitions(mine, [spec("a")])
        counting.close_bill(mine)
    await counting.settled()
    await counting.close()

    assert facts[0] == facts[1]


async def test_a_text_that_cannot_be_counted_is_not_the_last_one(caplog: pytest.LogCaptureFixture) -> None:
    """The thread goes on, and the log says so."""
    facts: list[Fact] = []
    counting = Accounting(facts.append)
    mine = bill()
    counting.add_definitions(mine, [None])  # type: ignore[list-item]
    counting.add(mine, "code", "1")
    counting.close_bill(mine)
    await counting.settled()
    await counting.close()

    assert [fact.code for fact in facts if isinstance(fact, Tokens)] == [tokens.count("1")]
    assert "could not be counted" in caplog.text


async def test_nothing_is_counted_after_the_end() -> None:
    """Closing twice, and adding afterwards, does no harm."""
    facts: list[Fact] = []
    counting = Accounting(facts.append)
    counting.close_bill(bill())
    await counting.close()
    mine = bill()
    counting.add(mine, "code", "1")
    counting.close_bill(mine)
    await counting.settled()
    await counting.close()

    assert len(facts) == 1
