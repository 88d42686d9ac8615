"""A simulated population over weeks: agents with wants search, choose from what they are shown, and the part learns.

Agents read all that they are shown and mostly know what they want when they see it; now and then they take the first
hit instead, which works too. The same seeds give the same weeks.
"""

import hashlib
import random
from collections.abc import Sequence

import msgspec

from sealyard.discovery import Index
from sealyard.learning.part import Lesson, Viewer
from sealyard.learning.ranking import Ranking
from sealyard.values.facts import CallEvidence, Executed, LearningEvent, RunEvidence, Searched, Used
from sealyard.values.tools import ToolSpec

DAY = 86_400.0
MONTH = 30 * DAY
START = 1_700_000_000.0
SHOWN = 5


class Want(msgspec.Struct, frozen=True):
    """What some agents want: words that they use for it, and the tool that does it."""

    words: Sequence[str]
    tool: str
    often: int = 1


def tool(name: str, description: str) -> ToolSpec:
    """A tool of the office."""
    return ToolSpec(
        upstream="office",
        name=name,
        full_name=name,
        module="office",
        function=name,
        input_schema={"type": "object", "properties": {}},
        description=description,
        digest=hashlib.sha256(f"{name} {description}".encode()).hexdigest(),
    )


OFFICE = [
    tool("send_report", "Send a report to a team."),
    tool("create_report", "Create a report of sales."),
    tool("archive_report", "Archive a report."),
    tool("share_report", "Share a report with somebody."),
    tool("list_reports", "List reports of a team."),
    tool("delete_report", "Delete a report."),
    tool("book_room", "Book a room for a meeting."),
    tool("pay_invoice", "Pay an invoice of a supplier."),
]


def teach(ranking: Ranking, event: LearningEvent) -> None:
    """Let one event teach."""
    ranking.learn(Lesson(number=0, event=event), MONTH)


class World:
    """Agents, a catalog and what was learned."""

    def __init__(self, wants: Sequence[Want], *, seed: int, careless: float = 0.2, learns: bool = True) -> None:
        self.ranking = Ranking()
        self.index = Index(OFFICE)
        self.wants = list(wants)
        self.chance = random.Random(seed)
        self.careless = careless
        self.learns = learns
        self.at = START
        self.number = 0
        self.number_of: dict[str, int] = {}
        """Searches by visit."""

    def show(self, query: str, principal: str, limit: int = SHOWN) -> tuple[list[str], list[int]]:
        """What a search shows, and where text has each."""
        learned = None
        if self.learns:
            learned = self.ranking.recall(query, Viewer(principal, self.at, MONTH))
        found = self.index.search(query, limit=limit, learned=learned)
        return found.names, found.text_ranks

    def week(self, principals: Sequence[str], visits: int = 60) -> float:
        """A week passes; the share of visits that saw and took what they wanted at once."""
        right = 0
        for _ in range(visits):
            self.at += 7 * DAY / visits
            want = self.chance.choices(self.wants, [each.often for each in self.wants])[0]
            query = " ".join(self.chance.sample(want.words, min(3, len(want.words))))
            right += self.visit(query, want.tool, self.chance.choice(principals))
        return right / visits

    def visit(self, query: str, wanted: str, principal: str) -> bool:
        """One agent searches and takes something; if it does not see what it wants, it asks for that by its name."""
        self.number += 1
        visit = f"visit {self.number}"
        names = self.search(query, visit, principal)
        choice = wanted
        if names and self.chance.random() < self.careless:
            choice = names[0]
        elif wanted not in names:
            names = self.search(wanted.replace("_", " "), visit, principal)
        is_first = choice == wanted and self.number_of[visit] == 1
        if choice in names:
            rank, search = names.index(choice) + 1, f"{visit} {self.number_of[visit]}"
            teach(
                self.ranking,
                Used(
                    at=self.at, principal=principal, session=visit, search_id=search, tool=choice, rank=rank, seconds=1
                ),
            )
        fact = Executed(
            at=self.at + 1,
            principal=principal,
            session=visit,
            form="code",
            status="ok",
            seconds=0.5,
            use_case="filtering",
        )
        called = dict.fromkeys([choice, wanted] if wanted in names else [choice])  # who took the first goes on
        calls = tuple(
            CallEvidence(number=at, tool=name, version="1.0.0", started_at=self.at, seconds=0.1)
            for at, name in enumerate(called, 1)
        )
        teach(self.ranking, RunEvidence(fact=fact, started_at=self.at, calls=calls))
        return is_first

    def search(self, query: str, visit: str, principal: str) -> list[str]:
        """A search of a visit; what it shows."""
        number = self.number_of[visit] = self.number_of.get(visit, 0) + 1
        names, ranks = self.show(query, principal)
        teach(
            self.ranking,
            Searched(
                at=self.at,
                principal=principal,
                session=visit,
                search_id=f"{visit} {number}",
                place="agent",
                detail_level="full",
                seconds=0.001,
                query=query,
                found=tuple(names),
                text_ranks=tuple(ranks),
            ),
        )
        return names


TEAM = [f"agent{number}" for number in range(6)]
SEND = Want(("report", "dispatch", "colleagues", "weekly"), "send_report", 20)
SHARE = Want(("report", "partner", "external", "open"), "share_report")
ROOM = Want(("gathering", "colleagues", "place", "reserve"), "book_room", 2)
PAY = Want(("settle", "bill", "supplier"), "pay_invoice", 2)


def test_population_finds_more_with_experience_than_without() -> None:
    """Words that no tool has are learned within weeks; without learning they never are."""
    with_it, without = (World([SEND, SHARE, ROOM, PAY], seed=1, learns=learns) for learns in (True, False))
    weeks = [(with_it.week(TEAM), without.week(TEAM)) for _ in range(8)]

    late = weeks[4:]
    assert sum(learned for learned, _ in late) / 4 > sum(text for _, text in late) / 4 + 0.05


def test_popular_tool_does_not_bury_the_right_one() -> None:
    """One want is twenty times as frequent and shares a word with another, whose tool stays where it belongs."""
    world = World([SEND, SHARE], seed=2)
    for _ in range(12):
        world.week(TEAM)

    for query in ("open report partner", "external partner report", "share report"):
        assert world.show(query, "agent0")[0][0] == "share_report"
        assert world.show(query, "newcomer")[0][0] == "share_report"


def test_popular_tool_is_nowhere_for_wants_that_are_not_its_own() -> None:
    """Twelve weeks of reports change nothing about a question that has not been asked."""
    world = World([SEND], seed=3)
    for _ in range(12):
        world.week(TEAM)

    for query in ("pay an invoice", "book a room for the meeting", "delete report", "archive the report"):
        assert world.show(query, "agent0") == (world.index.search(query).names, [])


def test_new_tool_that_does_the_job_better_takes_over() -> None:
    """It comes after ten weeks in which five others were used by the same words, and text would show it."""
    reports = [f"{verb}_report" for verb in ("send", "create", "archive", "share", "delete")]
    words = ("report", "weekly", "dispatch")
    world = World([Want(words, name) for name in reports], seed=4, careless=0.0)
    for _ in range(10):
        world.week(TEAM)
    world.index = Index([*OFFICE, tool("dispatch_report", "Send out a report.")])
    world.wants = [Want(words, "dispatch_report")]

    seen = sum("dispatch_report" in world.show("weekly dispatch report", who)[0] for who in TEAM)
    for _ in range(6):
        world.week(TEAM)

    assert seen >= 1
    assert world.show("weekly dispatch report", "agent0")[0][0] == "dispatch_report"
    assert world.show("weekly dispatch report", "newcomer")[0][0] == "dispatch_report"


def test_tool_that_nobody_has_tried_is_not_lost_from_sight() -> None:
    """Of many searches whose places experience fills, some show it."""
    reports = [f"{verb}_report" for verb in ("send", "create", "archive", "share", "delete")]
    world = World([Want(("report", "weekly", "dispatch"), name) for name in reports], seed=5, careless=0.0)
    for _ in range(10):
        world.week(TEAM)
    world.index = Index([*OFFICE, tool("weekly_digest", "A digest."), tool("report_digest", "Weekly.")])
    query = "weekly report dispatch"
    text = world.index.search(query, limit=SHOWN).names
    shown = 0
    for _ in range(100):
        world.at += 60
        names = world.search(query, "idle", "agent0")
        shown += bool(set(names) & {"weekly_digest", "report_digest"})

    assert set(text) & {"weekly_digest", "report_digest"}
    assert shown >= 20


def test_flooding_principal_does_not_steer_the_others() -> None:
    """It uses a tool a thousand times by the words of everybody; nobody else's first hit changes."""
    honest, flooded = (World([SEND, SHARE, ROOM, PAY], seed=6) for _ in range(2))
    for _ in range(4):
        honest.week(TEAM)
        flooded.week(TEAM)
    for number in range(1_000):
        want = (SEND, SHARE, ROOM, PAY)[number % 4]
        flooded.at += 1
        flooded.visit(" ".join(want.words), "delete_report", "mallory")
    honest.at = flooded.at

    for want in (SEND, SHARE, ROOM, PAY):
        query = " ".join(want.words[:3])
        for who in ("agent0", "newcomer"):
            assert flooded.show(query, who)[0][0] == honest.show(query, who)[0][0]
            assert len(set(flooded.show(query, who)[0]) - set(honest.show(query, who)[0])) <= 1


def test_careless_population_is_no_worse_off_than_with_text_alone() -> None:
    """Half of all choices are whatever is first: experience must not feed on itself."""
    wants = [SEND, SHARE, ROOM, PAY, Want(("remove", "old", "report"), "delete_report")]
    for seed in range(5):
        with_it, without = (World(wants, seed=seed, careless=0.5, learns=learns) for learns in (True, False))
        found = sum(with_it.week(TEAM) for _ in range(10)) / 10
        by_text = sum(without.week(TEAM) for _ in range(10)) / 10
        assert found >= by_text
