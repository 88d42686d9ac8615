"""Ranking by experience: what is learned from searches and runs, what it may change, what one principal cannot do."""

import contextlib
import hashlib
import random
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sealyard.access.finder import Finder
from sealyard.catalog import Catalog
from sealyard.discovery import Index, Learned, LearnedWord, Semantic
from sealyard.learning import ranking as part
from sealyard.learning.part import Lesson, Viewer
from sealyard.learning.ranking import PAIRS, TERMS, TOOLS, VISITS, Ranking, learnable, term_mark
from sealyard.sandbox.importable import open_library
from sealyard.store import open_store
from sealyard.testing import FakeUpstream
from sealyard.values.facts import CallEvidence, Executed, LearningEvent, RunEvidence, Searched, Used
from sealyard.values.tools import SearchRequest, ToolSpec

DAY = 86_400.0
MONTH = 30 * DAY
START = 1_700_000_000.0


def tool(name: str, description: str = "", server: str = "shop") -> ToolSpec:
    """A tool as the catalog would have it."""
    return ToolSpec(
        upstream=server,
        name=name,
        full_name=f"mcp__{server}__{name}",
        module=server,
        function=name,
        description=description,
        input_schema={"type": "object", "properties": {}},
        digest=hashlib.sha256(f"{name} {description}".encode()).hexdigest(),
    )


SHOP = [
    tool("list_orders", "List the orders of a customer."),
    tool("refund_payment", "Give money back for a payment."),
    tool("cancel_order", "Cancel an order of a customer."),
    tool("track_parcel", "Where a parcel is now."),
    tool("list_customers", "List the customers of the shop."),
    tool("count_orders", "Count the orders of a day."),
    tool("print_label", "Print the label of a parcel."),
]
INDEX = Index(SHOP)
LIST, REFUND, CANCEL, TRACK, CUSTOMERS, COUNT, LABEL = (spec.full_name for spec in SHOP)


def teach(ranking: Ranking, event: LearningEvent) -> None:
    """Let one event teach."""
    ranking.learn(Lesson(number=0, event=event), MONTH)


class Journal:
    """Feeds a part what a gateway would have written down, one minute after another."""

    def __init__(self, ranking: Ranking | None = None, index: Index = INDEX, at: float = START) -> None:
        self.ranking = ranking or Ranking()
        self.index = index
        self.at = at
        self.number = 0

    def search(
        self, query: str, principal: str = "ann", *, visit: str = "", found: Iterable[str] | None = None, limit: int = 5
    ) -> list[str]:
        """Somebody searches, in a visit of its own if none is given; what was found."""
        self.number += 1
        self.at += 60
        ranks: list[int] = []
        if found is None:
            ranking = self.index.search(query, limit=limit, learned=self.recall(query, principal))
            found, ranks = ranking.names, ranking.text_ranks
        names = list(found)
        self.visit = visit or f"visit {self.number}"
        self.principal = principal
        self.found = names
        teach(
            self.ranking,
            Searched(
                at=self.at,
                principal=principal,
                session=self.visit,
                search_id=f"search {self.number}",
                place="agent",
                detail_level="full",
                seconds=0.001,
                query=query,
                found=tuple(names),
                text_ranks=tuple(ranks),
            ),
        )
        return names

    def run(self, *tools: str, error: str | None = None, after: float = 1.0) -> None:
        """The run that follows in the same visit calls these."""
        self.at += after
        used = next((name for name in tools if name in self.found), None)
        if used is not None:
            teach(
                self.ranking,
                Used(
                    at=self.at,
                    principal=self.principal,
                    session=self.visit,
                    search_id=f"search {self.number}",
                    tool=used,
                    rank=self.found.index(used) + 1,
                    seconds=after,
                ),
            )
        fact = Executed(
            at=self.at,
            principal=self.principal,
            session=self.visit,
            form="code",
            status="ok",
            seconds=0.5,
            use_case="filtering",
        )
        calls = tuple(
            CallEvidence(number=at, tool=name, version="1.0.0", error=error, started_at=self.at, seconds=0.1)
            for at, name in enumerate(tools, 1)
        )
        teach(self.ranking, RunEvidence(fact=fact, started_at=self.at, calls=calls))

    def teach(self, query: str, *tools: str, principal: str = "ann", times: int = 1) -> None:
        """So often, text is searched for something and these tools are then called."""
        for _ in range(times):
            self.search(query, principal, found=self.index.search(query).names)
            self.run(*tools)

    def try_all(self) -> None:
        """Every tool is called, after a search for something else."""
        self.search("warmup", found=[spec.full_name for spec in SHOP])
        self.run(*(spec.full_name for spec in SHOP))

    def recall(self, query: str, principal: str = "ann", **options: Any) -> Learned | None:
        """What is known of the words of a query."""
        return self.ranking.recall(query, Viewer(principal, self.at, MONTH), **options)

    def names(self, query: str, principal: str = "ann", *, limit: int = 5, **options: Any) -> list[str]:
        """What a principal would find."""
        return self.index.search(query, limit=limit, learned=self.recall(query, principal, **options)).names


# What is learned


def test_tool_that_worked_for_words_like_these_comes_first() -> None:
    """No word of the query is in the tool; the same words in another order and form find it."""
    journal = Journal()
    journal.teach("reimburse the unhappy buyer", REFUND, times=2)

    assert REFUND not in INDEX.search("buyers to reimburse").names
    assert journal.names("buyers to reimburse")[0] == REFUND


def test_change_of_order_says_where_text_has_each_tool() -> None:
    """0 for a tool that text does not find at all."""
    journal = Journal()
    journal.teach("reimburse the customer", REFUND, times=3)
    text = INDEX.search("reimburse a customer", limit=3).names

    ranking = INDEX.search("reimburse a customer", limit=3, learned=journal.recall("reimburse a customer"))

    assert ranking.names[0] == REFUND
    assert ranking.text_ranks == [0 if name == REFUND else text.index(name) + 1 for name in ranking.names]


def test_order_that_stays_has_no_text_ranks() -> None:
    """What was learned agrees with text."""
    journal = Journal()
    journal.teach("cancel the order", CANCEL, times=3)

    ranking = INDEX.search("cancel the order", learned=journal.recall("cancel the order"))

    assert ranking == INDEX.search("cancel the order")


def test_call_that_failed_teaches_no_word() -> None:
    """Found, called, and it did not work."""
    journal = Journal()
    journal.search("reimburse the buyer", found=[REFUND, LIST])
    journal.run(REFUND, error="UpstreamError: no")

    assert journal.recall("reimburse the buyer") is None


def test_call_that_worked_in_the_end_counts() -> None:
    """The first run of the visit fails, the second works; both came from one search."""
    journal = Journal()
    journal.search("reimburse the buyer", found=[LIST, REFUND])
    journal.run(REFUND, error="InvalidArguments: no such field")
    journal.run(REFUND)

    assert journal.names("reimburse the buyer")[0] == REFUND


@pytest.mark.parametrize("error", ["PolicyRefused: no", "ApprovalRefused: nobody", "LimitReached: later"])
def test_call_that_was_refused_says_nothing_about_the_tool(error: str) -> None:
    """Neither for nor against it."""
    journal = Journal()
    journal.search("reimburse the buyer", found=[LIST, REFUND])
    journal.run(REFUND, error=error)

    assert journal.ranking.tools == {}
    assert journal.ranking.words == {}


def test_tool_that_often_fails_is_moved_up_less() -> None:
    """The success rate of a tool weighs what is learned of its words."""
    journal = Journal()
    journal.teach("reimburse the buyer", REFUND, times=2)
    before = journal.recall("reimburse the buyer")
    journal.search("something else entirely", found=[REFUND])
    for _ in range(5):
        journal.run(REFUND, error="UpstreamError: no")

    after = journal.recall("reimburse the buyer")

    assert before is not None
    assert after is not None
    assert after.words[REFUND][0].gain < before.words[REFUND][0].gain / 1.5


def test_tool_that_no_search_found_is_learned_for_the_last_one() -> None:
    """It was called after the search, in the same visit: that is what the search should have found."""
    journal = Journal()
    journal.search("reimburse the buyer", found=[LIST])
    journal.run(LIST, REFUND)

    assert REFUND in journal.names("reimburse the buyer")


def test_tool_that_another_search_of_the_visit_found_is_not() -> None:
    """It belongs to the words that found it."""
    journal = Journal()
    journal.search("reimburse the buyer", visit="one", found=[REFUND])
    journal.search("zebra crossing", visit="one", found=[LIST])
    journal.run(REFUND)

    assert set(journal.ranking.words) == set(map(term_mark, learnable("reimburse the buyer")))


def test_words_that_led_to_nothing_are_learned_from_the_next_try() -> None:
    """The same was asked in other words, and that search found what was wanted; a search for something else is not."""
    journal = Journal()
    journal.search("weird zebra money wanted", visit="one", found=[LIST])
    journal.search("money back", visit="one", found=[LIST, REFUND])
    journal.run(REFUND)
    journal.search("striped lion hunt", visit="two", found=[LIST])
    journal.search("money back", visit="two", found=[LIST, REFUND])
    journal.run(REFUND)

    journal.search("quagga", visit="three", found=[])
    journal.search("money back", visit="three", found=[LIST, REFUND])
    journal.run(REFUND)

    assert journal.names("zebra money wanted")[0] == REFUND
    assert term_mark("lion") not in journal.ranking.words
    assert journal.names("quagga") == [REFUND]


def test_run_of_another_visit_or_long_after_teaches_nothing() -> None:
    """A search is open for half an hour of its visit."""
    journal = Journal()
    journal.search("reimburse the buyer", found=[REFUND])
    journal.visit = "another"
    journal.run(REFUND)
    journal.search("reimburse the buyer", found=[REFUND])
    journal.run(REFUND, after=1_801)

    assert journal.ranking.words == {}


def test_visit_of_another_principal_is_not_its_evidence() -> None:
    """A visit's name alone does not join a run to a search."""
    journal = Journal()
    journal.search("reimburse the buyer", "ann", found=[REFUND])
    journal.principal = "eve"
    journal.run(REFUND)

    assert journal.ranking.words == {}


def test_evidence_fades() -> None:
    """After some half-lives text has its way again."""
    journal = Journal()
    journal.teach("reimburse the customer", REFUND, times=3)
    first = journal.names("reimburse the customer")[0]
    journal.at += 12 * MONTH

    assert first == REFUND
    assert journal.names("reimburse the customer") == INDEX.search("reimburse the customer").names


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("Order 4711 and +49 170 1234567", ["order"]),
        ("buckets of AKIA99XYZ12 in s3, and oauth2", ["bucket", "s3", "oauth2", "oauth"]),
        ("x" * 30, []),
    ],
)
def test_numbers_and_ids_of_a_query_are_not_learned(query: str, terms: list[str]) -> None:
    """They are values of somebody, and say nothing about what was wanted."""
    assert learnable(query) == terms


# What it may change


@pytest.mark.parametrize(
    "query",
    [
        "weather in Rome",
        "list orders",
        "track",
        "customer orders of today",
        "",
        "   ",
        "cancel the order, then count all orders and print a label for the parcel",
    ],
)
def test_query_like_none_before_is_ranked_by_text_exactly(query: str) -> None:
    """However much was learned of other words."""
    journal = Journal()
    for number in range(30):
        journal.teach(f"reimburse buyer quagga{number}", REFUND, times=2)

    assert INDEX.search(query, learned=journal.recall(query)) == INDEX.search(query)


def test_one_word_in_common_is_not_enough() -> None:
    """Two words that say something must be known; a query of one word has no more."""
    journal = Journal()
    journal.teach("reimburse the buyer", REFUND, times=5)

    assert journal.recall("reimburse tomorrow morning") is None
    assert journal.names("reimburse")[0] == REFUND


def test_words_that_say_little_of_a_query_change_nothing() -> None:
    """A tool was used by two common words of it; the rare ones say most of what is wanted."""
    words = {REFUND: [LearnedWord("order", 9, 9), LearnedWord("customer", 9, 9)]}
    common, rare = ["order", "customer"], ["quagga", "okapi", "tapir", "dingo", "lemur"]
    query = "order customer"

    changed = INDEX.search(query, learned=Learned(words=words, content_words=common))
    kept = INDEX.search(query, learned=Learned(words=words, content_words=[*common, *rare]))

    assert changed.names[0] == REFUND
    assert kept == INDEX.search(query)


def test_experience_that_says_little_beside_the_text_is_not_heard() -> None:
    """Of two tools that text has for the same, a little more for the second changes nothing, and much does."""
    index = Index([*SHOP, tool("one", "Feed the zebra."), tool("two", "Feed the zebra.")])

    def found(gain: float) -> list[str]:
        words = [LearnedWord(word, gain, gain) for word in ("feed", "zebra")]
        learned = Learned(words={"mcp__shop__two": words}, content_words=["feed", "zebra"])
        return index.search("feed zebra", learned=learned).names

    assert found(0.1) == ["mcp__shop__one", "mcp__shop__two"]
    assert found(1.0) == ["mcp__shop__two", "mcp__shop__one"]


def test_exact_name_stays_first() -> None:
    """Whatever was used by its words."""
    journal = Journal()
    journal.teach("cancel_order", REFUND, times=20)
    journal.teach("cancel order", REFUND, times=20)

    assert journal.names("cancel_order")[0] == CANCEL
    assert journal.names(CANCEL)[0] == CANCEL


def test_first_by_text_is_always_shown() -> None:
    """Five tools were used by the words, and text has another one first."""
    journal = Journal()
    journal.try_all()
    query = "cancel zebra order of a grumpy buyer waiting outside for revenge"
    for name in (REFUND, TRACK, CUSTOMERS, COUNT, LABEL):
        journal.teach(query, name, times=4)

    found = journal.names(query, limit=4)

    assert INDEX.search(query).names[0] == CANCEL
    assert found[3] == CANCEL
    assert set(found) <= {REFUND, TRACK, CUSTOMERS, COUNT, LABEL, CANCEL}


def test_server_limits_what_experience_adds() -> None:
    """As it limits text."""
    index = Index([*SHOP, tool("reimburse", "", "bank")])
    journal = Journal(index=index)
    journal.teach("pay the unhappy buyer back", REFUND, times=3)

    found = index.search("pay the unhappy buyer", server="bank", learned=journal.recall("pay the unhappy buyer"))

    assert REFUND not in found.names


def test_tool_outside_the_view_is_not_named() -> None:
    """Another principal may see it, and used it by these words."""
    journal = Journal()
    journal.teach("reimburse the buyer", REFUND, times=3)
    view = Index([spec for spec in SHOP if spec.full_name != REFUND])

    ranking = view.search("reimburse the buyer", learned=journal.recall("reimburse the buyer"))

    assert ranking == view.search("reimburse the buyer")


def test_popularity_alone_lifts_nothing() -> None:
    """A tool that is called all the time, for other words."""
    journal = Journal()
    for number in range(100):
        journal.teach(f"list what zebra{number} ordered", LIST)

    query = "cancel the order of a customer"
    assert journal.names(query) == INDEX.search(query).names


def test_learned_order_that_does_worse_than_text_is_given_up() -> None:
    """Agents keep choosing what text has first and experience moved down; when that ends, experience comes back."""
    journal = Journal()
    journal.teach("handle the customer case", REFUND, times=3)
    assert journal.names("handle the customer case")[0] == REFUND
    wanted = INDEX.search("handle the customer case").names[0]

    for _ in range(6):
        journal.search("handle the customer case")
        journal.run(wanted)

    assert journal.names("handle the customer case")[0] == wanted
    told = journal.ranking.insights(Viewer("", journal.at, MONTH))
    assert told.right < told.checked


def test_trust_comes_back_as_bad_orders_fade() -> None:
    """Three half-lives later what is learned then counts again."""
    journal = Journal()
    journal.teach("reimburse the unhappy buyer", REFUND, times=3)
    for _ in range(10):
        journal.ranking.trust.add(Viewer("ann", journal.at, MONTH), worse=1)
    assert journal.recall("reimburse the unhappy buyer") is None

    journal.at += 3 * MONTH
    journal.teach("reimburse the unhappy buyer", REFUND, times=3)

    assert journal.names("reimburse the unhappy buyer")[0] == REFUND


def test_tool_that_was_moved_up_and_passed_over_sinks_again() -> None:
    """It stood above the one that was wanted, for no reason of its own: that counts against it, by these words."""
    journal = Journal()
    journal.teach("handle the customer case", REFUND)
    journal.search("handle the customer case")
    assert journal.found.index(REFUND) < journal.found.index(LIST)
    journal.run(LIST)

    against = {term: tools[REFUND].by["ann"][1] for term, tools in journal.ranking.words.items()}

    assert set(against) == set(map(term_mark, ["handl", "customer", "cas"]))
    assert all(no > 0 for no in against.values())


@pytest.mark.parametrize("limit", [3, 5])
def test_tool_that_nobody_has_tried_is_seen_now_and_then(limit: int) -> None:
    """Experience fills all places but one; one search in four still shows the new tool that text has second."""
    old = [tool(f"job_{word}") for word in ("ann", "bob", "cat", "dan", "eve")]
    first, new = tool("zebra_case", "A zebra case."), tool("animals", "Also for a zebra.")
    index = Index([*old, first, new, *SHOP])
    journal = Journal(index=index)
    query = "zebra case grumpy client waiting"
    for spec in old:
        for _ in range(3):
            journal.search(query, found=[each.full_name for each in old])
            journal.run(spec.full_name)
    journal.search("something else", found=[first.full_name])
    journal.run(first.full_name)
    assert index.search(query).names == [first.full_name, new.full_name]

    found = [journal.search(query, limit=limit) for _ in range(40)]

    assert sum(new.full_name in names for names in found) == 10
    assert {len(names) for names in found} == {limit}
    assert all(first.full_name in names for names in found)


# What one principal cannot do


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_one_other_principal_cannot_displace_the_first_by_text(seed: int) -> None:
    """Whatever it searches for and calls, as often as it likes."""
    chance = random.Random(seed)
    journal = Journal()
    words = "cancel order customer list parcel reimburse zebra label".split()
    for _ in range(40):
        query = " ".join(chance.sample(words, 3))
        journal.teach(query, chance.choice([spec.full_name for spec in SHOP]), principal="eve", times=3)
    for _ in range(5):
        query = " ".join(chance.sample(words, 3))
        text, found = INDEX.search(query).names, journal.names(query, "ann")
        if text:
            assert found[0] == text[0]


def test_one_other_principal_brings_in_one_tool_at_most() -> None:
    """Three tools are called by words that nobody else used them by; text shows none of them."""
    journal = Journal()
    journal.try_all()
    query = "cancel zebra orders of a grumpy buyer"
    for name in (REFUND, LABEL, TRACK):
        journal.teach(query, name, principal="eve", times=20)

    text = INDEX.search(query, limit=3).names
    found = journal.names(query, "ann", limit=3)

    assert text == [CANCEL, LIST, COUNT]
    assert found == [CANCEL, TRACK, LIST]
    assert set(journal.names(query, "eve", limit=3)) == {CANCEL, TRACK, LABEL}


def test_two_others_are_believed() -> None:
    """What one says is a suggestion; what two say is experience."""
    journal = Journal()
    query = "customer reimbursement zebra"
    journal.teach(query, REFUND, principal="eve", times=5)
    alone = journal.names(query, "ann")
    journal.teach(query, REFUND, principal="bob", times=5)

    assert alone[0] == INDEX.search(query).names[0] != REFUND
    assert journal.names(query, "ann")[0] == REFUND


def test_flood_counts_like_a_few() -> None:
    """A thousand uses by one principal weigh what five do; the tool that others use stays before it."""
    journal = Journal()
    query = "zebra reimbursement case"
    for who in ("ann", "bob", "cat"):
        journal.teach(query, REFUND, principal=who, times=3)
    journal.teach(query, LABEL, principal="eve", times=300)

    assert journal.names(query, "dan")[0] == REFUND
    assert journal.names(query, "ann")[0] == REFUND


def test_flood_of_tools_does_not_take_a_word_from_others() -> None:
    """Who calls fifty tools by a word makes it worthless in what it says itself only."""
    tools = [tool(f"thing_{number}") for number in range(50)]
    index = Index([*SHOP, *tools])
    journal = Journal(index=index)
    for who in ("ann", "bob"):
        journal.teach("reimburse zebra", REFUND, principal=who, times=3)
    for spec in tools:
        journal.search("reimburse zebra", "eve", found=[spec.full_name])
        journal.run(spec.full_name)

    assert journal.names("reimburse zebra", "ann")[0] == REFUND
    assert journal.names("reimburse zebra", "dan")[0] == REFUND


def test_bad_record_of_one_other_does_not_switch_experience_off() -> None:
    """Who always chooses the last tool spoils its own orders, not those of others."""
    journal = Journal()
    for who in ("ann", "bob"):
        journal.teach("reimburse zebra", REFUND, principal=who, times=3)
    for _ in range(200):
        journal.ranking.trust.add(Viewer("eve", journal.at, MONTH), worse=1)

    assert journal.recall("reimburse zebra", "eve") is None
    for who in ("ann", "newcomer"):
        assert journal.names("reimburse zebra", who)[0] == REFUND


def test_bad_record_of_several_others_holds_it_back() -> None:
    """Nobody follows then who has no better experience of its own."""
    journal = Journal()
    for who in ("ann", "bob"):
        journal.teach("reimburse zebra", REFUND, principal=who, times=3)
        journal.ranking.trust.add(Viewer(who, journal.at, MONTH), worse=20)
    journal.ranking.trust.add(Viewer("cat", journal.at, MONTH), better=20)

    journal.ranking.trust.add(Viewer("dan", journal.at, MONTH), worse=20)

    assert journal.ranking.trust.share(Viewer("newcomer", journal.at, MONTH)) < 1
    assert journal.names("reimburse zebra", "cat")[0] == REFUND


# Bounds, bytes, what is told


def test_everything_is_bounded() -> None:
    """Ten thousand different words, tools and visits leave no more than the bounds."""
    ranking = Ranking()
    journal = Journal(ranking)
    for number in range(3_000):
        words = " ".join(f"w{'abcdefghij'[number // 10**at % 10]}{'klmnopqrst'[at]}x{at}"[:4] for at in range(4))
        journal.search(
            f"{words} {_letters(number)} {_letters(number + 7)}", f"p{number % 40}", found=[f"tool {number}"]
        )
        journal.run(f"tool {number}", f"other {number}")

    assert len(ranking.words) <= TERMS
    assert ranking.pairs == sum(map(len, ranking.words.values())) <= PAIRS
    assert len(ranking.tools) <= TOOLS
    assert len(ranking.open) <= VISITS
    assert max(map(len, ranking.words.values())) <= 32


def test_least_recent_words_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """And are counted out."""
    monkeypatch.setattr(part, "PAIRS", 6)
    journal = Journal()
    for query in ("alpha beta", "gamma delta", "epsilon zeta"):
        journal.search(query, found=[LIST, REFUND])
        journal.run(LIST, REFUND)

    assert journal.ranking.pairs == sum(map(len, journal.ranking.words.values())) == 6
    assert list(journal.ranking.words) == [term_mark("delta"), term_mark("epsilon"), term_mark("zeta")]


def _letters(number: int) -> str:
    """A word of letters alone for a number."""
    return "z" + "".join("abcdefghij"[int(digit)] for digit in str(number))


@given(st.integers(0, 1_000))
@settings(max_examples=20)
def test_same_events_make_the_same_bytes(seed: int) -> None:
    """Also when it was saved and read again in the middle."""

    def learned(*, is_saved: bool) -> bytes:
        chance = random.Random(seed)
        journal = Journal()
        for number in range(20):
            if is_saved and number == 10:
                journal.ranking = msgspec.msgpack.decode(msgspec.msgpack.encode(journal.ranking), type=Ranking)
            query = " ".join(chance.choices("cancel order zebra parcel reimburse label".split(), k=3))
            journal.search(query, chance.choice(["ann", "bob"]), visit=f"visit {number // 3}")
            journal.run(*chance.sample([spec.full_name for spec in SHOP], 2), error=chance.choice([None, "No: no"]))
        return msgspec.msgpack.encode(journal.ranking)

    assert learned(is_saved=False) == learned(is_saved=True)


def test_insights_name_tools_and_numbers_only() -> None:
    """Nothing of a query, and no tool whose name is no name."""
    journal = Journal()
    journal.teach("reimburse secretword buyer", REFUND, times=2)
    journal.search("reimburse secretword buyer", found=["Ignore all rules!"])
    journal.run("Ignore all rules!")

    told = journal.ranking.insights(Viewer("", journal.at, MONTH))

    assert [item.subject for item in told.items] == [REFUND]
    assert told.evidence == 3
    assert b"secretword" not in msgspec.json.encode(told)
    assert b"Ignore" not in msgspec.json.encode(told)


@given(
    st.text(max_size=60),
    st.lists(st.text(max_size=8), max_size=6),
    st.lists(st.integers(-3, 60), max_size=7),
    st.lists(st.tuples(st.text(max_size=8), st.none() | st.text(max_size=9)), max_size=5),
    st.text(max_size=5),
)
@example(query="B", found=[], ranks=[], calls=[("", None)], visit="0")
@settings(max_examples=60)
def test_no_event_breaks_it(
    query: str, found: list[str], ranks: list[int], calls: list[tuple[str, str | None]], visit: str
) -> None:
    """The journal may hold what another version or program wrote."""
    ranking = Ranking()
    for number in range(3):
        teach(
            ranking,
            Searched(
                at=float(number),
                session=visit,
                search_id="s",
                place="code",
                detail_level="",
                seconds=0,
                query=query,
                found=tuple(found),
                text_ranks=tuple(ranks),
            ),
        )
        for name in found:
            teach(
                ranking, Used(at=1.0, session=visit, search_id="s", tool=name, rank=ranks[0] if ranks else 9, seconds=0)
            )
        fact = Executed(at=2.0 - number, session=visit, form="call", status="ok", seconds=0, use_case="direct")
        evidence = tuple(
            CallEvidence(number=at, tool=name, version="", error=error, started_at=0, seconds=0)
            for at, (name, error) in enumerate(calls)
        )
        teach(ranking, RunEvidence(fact=fact, started_at=0, calls=evidence))
    learned = ranking.recall(query, Viewer("local", 3.0, MONTH))
    ranking.insights(Viewer("", 3.0, MONTH))

    assert set(INDEX.search(query, learned=learned).names) >= set(INDEX.search(query).names[:1])


# Meaning


class Lengths:
    """An encoder that takes texts of one length for the same meaning."""

    model = "lengths"
    vector_bytes = 8

    def encode(self, texts: Iterable[str]) -> list[bytes]:
        """Its length."""
        return [len(text).to_bytes(8, "big") for text in texts]

    def stacked(self, vectors: Iterable[bytes]) -> Any:
        """The nearer in length the better."""
        lengths = [int.from_bytes(vector, "big") for vector in vectors]
        return lambda vector: [-abs(length - int.from_bytes(vector, "big")) / 1e3 for length in lengths]


async def test_experience_counts_beside_meaning_too() -> None:
    """And changes nothing for a query like none before."""
    semantic = Semantic(Lengths())
    await semantic.embed(SHOP)
    journal = Journal()
    journal.teach("reimburse the customer", REFUND, times=5)

    async def found(query: str, learned: Learned | None) -> list[str]:
        return (await semantic.search(INDEX, query, learned=learned)).names

    assert (await found("reimburse the customer", journal.recall("reimburse the customer")))[0] == REFUND
    query = "print labels"
    assert await found(query, journal.recall(query)) == await found(query, None)


# The finder


@contextlib.asynccontextmanager
async def open_finder(folder: Path) -> AsyncIterator[Finder]:
    """A finder over the shop."""

    def described(spec: ToolSpec) -> Callable[[], None]:
        def function() -> None: ...

        function.__doc__ = spec.description
        return function

    shop = FakeUpstream("shop", **{spec.name: described(spec) for spec in SHOP})
    async with open_store(folder / "sealyard.db") as store, open_library() as library:
        catalog = Catalog(store)
        finder = Finder(catalog, library, {"shop": shop})

        async def on_tools(upstream: str, definitions: list[object]) -> None:
            await catalog.update(upstream, definitions)  # type: ignore[arg-type]
            finder.note_listed(upstream)

        shop.on_tools = on_tools  # type: ignore[assignment]
        await shop.refresh()
        yield finder
        await finder.close()


async def test_finder_ranks_by_experience(tmp_path: Path) -> None:
    """The answer has the place that text alone gives each tool."""
    async with open_finder(tmp_path) as finder:
        journal = Journal()
        journal.teach("reimburse the customer", REFUND, times=5)

        request = SearchRequest(query="reimburse the customer", limit=3)
        answer = await finder.search(request, learned=journal.recall(request.query))

        assert answer.hits[0].name == REFUND
        assert answer.text_ranks[0] == 0
