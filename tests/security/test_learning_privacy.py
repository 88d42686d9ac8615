"""What one principal handled, looked for in everything that another gets, in what people are shown, and in the model.

Ann works with values that are hers alone, in every privacy mode; Bob then searches, fails in the same ways, looks into
his stubs and has his code assessed. He must learn from her what to do, and nothing of what she had.
"""

import asyncio
import contextlib
import sqlite3
import zlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from sealyard.catalog.stubs import Stub
from sealyard.config import Config, HttpConfig
from sealyard.config.settings import LearningConfig, PrincipalEntry, PrivacyConfig, StoreConfig
from sealyard.sandbox.policy import DEFAULT
from sealyard.testing import FakeUpstream
from sealyard.values.runs import Result
from sealyard.values.skills import SaveExample, SaveSkill
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
MODES = ("strict", "output", "off")
LEVELS = ("name_only", "with_description", "full")

VALUES = (
    "Wunderlich", "ottokar.w@example.org", "918273", "CUST-77120", "merger_zephyr", "closes on Friday", "kestrel-9",
    "quarrel", "osprey", "Mildred", "ledger is locked", "Quendlinburg", "pelican", "PelicanError",
)  # fmt: skip
"""Ann's, in answers, arguments, literals, file names, names of sessions, contexts, errors, queries and keys."""
WORDS = (
    "ledger_is_locked",
    "Zimmerli",
    "zephyrgold",
    "merlinkey",
    "tiercel",
    "gyrfalcon",
    "saker_value",
    "hobby_total",
    "Halcyon",
)
"""Hers too, and such as fields, choices and variables are called: in the model they are, as those are."""
QUERIED = ("katzenelnbogen", "montgelas")
"""What she searched for; of words their stems are looked for."""
HIDDEN = ("vault", "read_secret")
"""What Bob may not know of."""

ANNS = [
    {
        "customer_id": f"CUST-77120-{number}",
        "name": "Ottokar Wunderlich",
        "email": "ottokar.w@example.org",
        "salary": 918_273 + number,
        "grade": "zephyrgold",
        "hours": {"Zimmerli": 3, "Mildred": 4},
    }
    for number in range(4)
]
BOBS = [
    {
        "customer_id": f"K-{number:05d}",
        "name": "Low",
        "email": "",
        "salary": 50_000,
        "grade": ("plain", "fine")[number % 2],
        "hours": {"monday": 3},
    }
    for number in range(4)
]


def upstreams() -> dict[str, Any]:
    """A crm whose answers depend on what is asked, a mailer, and a vault."""

    def find_customers(city: str, limit: int = 10) -> list[Any]:
        """Customers of a city."""
        return (ANNS if city == "Quendlinburg" else BOBS)[:limit]

    def get_customer(customer_id: str) -> dict[str, Any]:
        """One customer by id."""
        if not customer_id.startswith(("CUST", "K-")):
            raise RuntimeError("not found" if customer_id == "nobody" else f"{customer_id} not found: ledger is locked")
        return (ANNS if customer_id.startswith("CUST") else BOBS)[int(customer_id[-1])]

    def put_values(values: dict[str, Any]) -> dict[str, Any]:
        """Keep values, and answer with them."""
        return values

    def send_mail(to: str, subject: str = "", body: str = "") -> dict[str, Any]:
        """Send a mail."""
        return {"is_sent": True}

    def read_secret(name: str) -> dict[str, Any]:
        """A secret by its name."""
        return {"secret": "pelican", "customer_id": "CUST-77120-1"}

    return {
        "crm": FakeUpstream("crm", find_customers=find_customers, get_customer=get_customer, put_values=put_values),
        "mail": FakeUpstream("mail", send_mail=send_mail),
        "vault": FakeUpstream("vault", read_secret=read_secret),
    }


USE = "from servers.crm import find_customers, get_customer, put_values\n"
WORK = (
    USE
    + """from servers.mail import send_mail
from servers.vault import read_secret
gyrfalcon = []
for row in find_customers(city='Quendlinburg'):
    one = get_customer(customer_id=row['customer_id'])
    send_mail(to=one['email'], subject='kestrel-9 launch', body='The merger closes on Friday')
    gyrfalcon.append(one['hours']['Zimmerli'] + one['hours']['Mildred'])
read_secret(name='merger_zephyr.xlsx')
put_values(values={'saker_value': 3, 'Mildred': 4})
sum(gyrfalcon)
"""
)
FIRST = USE + "rows = find_customers(city='Quendlinburg')\n"
MISTAKES = (
    (FIRST + "rows[0]['merlinkey']", FIRST + "rows[0]['name']"),
    (FIRST + "rows[0]['hours']['merlinkey']", FIRST + "rows[0]['hours']['Mildred']"),
    (FIRST + "rows[0]['Mildred']", FIRST + "rows[0]['hours']['Zimmerli']"),
    (USE + "get_customer(customer='CUST-77120-1')", USE + "get_customer(customer_id='CUST-77120-1')"),
    (USE + "get_customer(customer_id='kestrel-9')", FIRST + "get_customer(customer_id=rows[0]['customer_id'])"),
    ("raise ValueError('pelican plan of Wunderlich')", "print('pelican')"),
    ("class PelicanError(Exception): ...\nraise PelicanError('Wunderlich')", "class PelicanError(Exception): ..."),
    ("print(gyrfalcon_total)", "gyrfalcon_sum = 3\nprint(gyrfalcon_sum)"),
    ("{'tiercel': 1}['merlinkey']", "{'tiercel': 1}['tiercel']"),
    ("open('merger_zephyr.xlsx').read()", "open('merger_zephyr.txt', 'w').write('The merger closes on Friday')"),
    ("'kestrel-9' + 3", "'kestrel-9' + str(3)"),
    ("import json\njson.loads('kestrel-9')", "import json\njson.loads('3')"),
    ("import ledger_is_locked", "import json"),
)
"""How Ann failed, and how she got past it."""
BOBS_FIRST = USE + "rows = find_customers(city='Bonn')\n"
ALIKE = (
    BOBS_FIRST + "rows[0]['nam']",
    BOBS_FIRST + "rows[0]['hours']['sunday']",
    BOBS_FIRST + "rows[0]['somebody']",
    USE + "get_customer(custmer='K-00001')",
    USE + "get_customer(customer_id='nobody')",
    "raise ValueError('x')",
    "class OwnError(Exception): ...\nraise OwnError('x')",
    "print(total_of_it)",
    "{'a': 1}['b']",
    "open('plan.xlsx').read()",
    "'a' + 3",
    "import json\njson.loads('x')",
    "import no_such_thing",
)
"""The same mistakes, with other names."""
STUBS = """
import inspect, os, servers
from servers import crm, mail
seen = [name for name in dir(servers)]
for folder, _, files in os.walk(servers.__path__[0]):
    seen += [open(os.path.join(folder, each)).read() for each in files if not each.endswith(".pyc")]
for module in (crm, mail):
    for name in dir(module):
        each = getattr(module, name)
        seen += [repr(each), inspect.getdoc(each) or "", str(inspect.signature(each)) if callable(each) else ""]
"\\n".join(seen)
"""
SKILL = """
def hobby_total(city: str) -> int:
    'Total of project Halcyon.'
    from servers.crm import find_customers
    return len(find_customers(city=city))
"""
QUERIES = ("customers laid off in Katzenelnbogen", "Montgelas salary 918273", "kestrel-9 launch")


@contextlib.asynccontextmanager
async def opened(
    folder: Path, mode: str = "off", *, is_scoped: bool = True, scope: Literal["shared", "principal"] = "shared"
) -> AsyncIterator[Yard]:
    """A gateway in which Bob has no vault; without scopes, one whose principals are only names."""
    config = Config(
        store=StoreConfig(path=folder / "sealyard.db"),
        privacy=msgspec.convert({"mode": mode}, PrivacyConfig),
        learning=LearningConfig(critical="warn", scope=scope),
        http=HttpConfig(
            principals={
                "ann": PrincipalEntry(token="t" * 20),
                "bob": PrincipalEntry(token="u" * 20, upstreams=("crm", "mail")),
            }
            if is_scoped
            else {}
        ),
    )
    async with open_yard(config, policy=PLAIN, upstreams=upstreams()) as yard:
        yield yard


async def execute(yard: Yard, code: str, principal: str, **options: Any) -> Result:
    """Run code."""
    return await yard.execute(ExecuteRequest(code=code, **options), principal=principal)


async def learn(yard: Yard) -> None:
    """Have everything learned that has happened."""
    await yard.observer.accounting.settled()
    await yard.store.flush()
    await yard.guidance.learner.once()


async def work(yard: Yard) -> None:
    """Everything that Ann does."""
    for _ in range(5):
        done = await execute(yard, WORK, "ann", session="quarrel", context={"note": "osprey", "who": "Wunderlich"})
        assert done.outcome.ok, done.text
    for wrong, right in MISTAKES:
        for _ in range(2):
            assert not (await execute(yard, wrong, "ann", session="quarrel")).outcome.ok
            assert (await execute(yard, right, "ann", session="quarrel")).outcome.ok
    for wrong, _ in MISTAKES:  # the last ones are never put right
        await execute(yard, wrong, "ann", session="quarrel2")
    for query in QUERIES:
        for level in LEVELS:
            await yard.search(query, detail_level=level, principal="ann")
    await yard.skills.save(
        SaveSkill(
            name="hobby_total",
            code=SKILL,
            description="Counts the customers of project Halcyon in Quendlinburg.",
            examples=(SaveExample(inputs={"city": "Quendlinburg"}),),
        ),
        principal="ann",
    )
    assert (await execute(yard, "from skills import hobby_total\nhobby_total(city='Quendlinburg')", "ann")).outcome.ok


async def told_to(yard: Yard, principal: str) -> list[str]:
    """Everything that a principal can be told by searching and by looking at what it sees."""
    view = await yard.snapshot(principal)
    model, viewer = yard.guidance.model(principal), yard.guidance.learner.viewer(principal)
    queries = ("customers of a city", "customer laid off", "send a mail", "keep values", "a secret", "total")
    found = [
        repr(await yard.search(query, detail_level=level, principal=principal)) for query in queries for level in LEVELS
    ]
    for spec in view.tools.values():
        tips = model.chains.tips(spec, viewer, view=view)
        shape = model.shapes.shape_for(spec, viewer, is_alone=yard.guidance.is_alone)
        found += [repr(tips), repr(shape), Stub(spec, shape).signature, Stub(spec, shape).returns]
    return found


async def done_by_bob(yard: Yard) -> tuple[list[str], list[str]]:
    """Everything that Bob gets, and what of it are hints."""
    seen = await told_to(yard, "bob")
    hints = []
    for code in ALIKE:
        for _ in range(2):
            text = (await execute(yard, code, "bob")).text
            hints += [line for line in text.splitlines() if line.startswith(("hint:", "note:"))]
            seen.append(text)
            await learn(yard)  # now, and not at some time in the background
        seen.append(repr(await yard.assess(code, principal="bob")))
    stubs = await execute(yard, STUBS, "bob")
    assert stubs.outcome.ok, stubs.text
    return [*seen, repr(stubs.outcome.result)], hints


class Seen(msgspec.Struct, kw_only=True):
    """What came out of it."""

    bobs: list[str]
    hints: list[str]
    insights: str
    anns: str
    """Her own insights, as the operator sees them."""
    model: bytes
    faults: dict[str, int]


def saved(folder: Path) -> bytes:
    """The model as it is on disk."""
    with contextlib.closing(sqlite3.connect(folder / "sealyard.db")) as connection:
        rows: Sequence[tuple[bytes]] = connection.execute("SELECT model FROM learning_models").fetchall()
    return b"".join(zlib.decompress(model) for (model,) in rows)


@pytest.fixture(scope="module", params=MODES)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What Bob, the people and the store have of Ann's work in one privacy mode."""
    folder = tmp_path_factory.mktemp("privacy")

    async def everything() -> Seen:
        async with opened(folder, request.param) as yard:
            await work(yard)
            await learn(yard)
            await yard.guidance.follow()
            bobs, hints = await done_by_bob(yard)
            await learn(yard)
            insights = msgspec.json.encode(await yard.guidance.insights()).decode()
            anns = msgspec.json.encode(await yard.guidance.insights("ann")).decode()
            faults = dict(yard.guidance.learner.model_for("bob").faults) | yard.guidance.barrier.faults
        return Seen(bobs=bobs, hints=hints, insights=insights, anns=anns, model=saved(folder), faults=faults)

    return asyncio.run(everything())


def found_in(words: Sequence[str], text: str) -> list[str]:
    """The words that are in a text, however they are written."""
    lowered = text.lower()
    return [word for word in words if word.lower() in lowered]


def test_nothing_that_one_principal_handled_is_in_what_another_gets(seen: Seen) -> None:
    """Neither values nor names of hers: in searches, hints, notes, stubs and assessments."""
    assert {text: words for text in seen.bobs if (words := found_in((*VALUES, *WORDS, *QUERIED), text))} == {}


def test_another_principal_is_told_how_to_go_on(seen: Seen) -> None:
    """The control: he does learn from her, in our words."""
    told = [hint for hint in seen.hints if "One other agent got past this so" in hint]

    assert any(
        "Call find_customers first: what it answers gives customer_id= of get_customer." in hint for hint in told
    )
    assert seen.faults == {}


def test_tools_that_a_principal_may_not_see_are_in_nothing_it_gets(seen: Seen) -> None:
    """Not in hints, stubs, or searches, although she used them in every run."""
    assert {text: words for text in seen.bobs if (words := found_in(HIDDEN, text))} == {}


def test_no_value_is_in_what_people_are_shown(seen: Seen) -> None:
    """Insights name tools, fields, skills and numbers."""
    assert found_in((*VALUES, *QUERIED, "__PII_"), seen.insights) == []
    assert found_in((*VALUES, "__PII_"), seen.anns) == []
    assert "mcp__crm__get_customer follows mcp__crm__find_customers" in seen.insights


def test_no_value_is_in_the_model(seen: Seen) -> None:
    """What is saved holds identifiers, digests, counts and short choices, and no value that somebody handled."""
    text = seen.model.decode("utf-8", "replace")

    assert {
        word: text[max(0, (at := text.find(word)) - 60) : at + 40] for word in found_in((*VALUES, "__PII_"), text)
    } == {}
    assert "mcp__crm__get_customer" in text


def test_no_word_of_a_query_is_in_the_model(seen: Seen) -> None:
    """Words are kept as what stands for them: who asks with the same word finds it, and nobody can read it."""
    assert found_in([word[:9] for word in QUERIED], seen.model.decode("utf-8", "replace")) == []


async def test_what_one_of_two_saw_is_not_shown_by_a_gateway_that_has_no_scopes(tmp_path: Path) -> None:
    """Principals that no configuration names are as apart as those that it does: also for answers seen just now."""
    async with opened(tmp_path, is_scoped=False) as yard:
        for _ in range(6):
            assert (await execute(yard, WORK, "ann")).outcome.ok
        await yard.tools.observed.settled()
        before = "\n".join(await told_to(yard, "bob"))
        await learn(yard)
        await yard.guidance.follow()
        after = "\n".join(await told_to(yard, "bob"))
        stubs = repr((await execute(yard, STUBS, "bob")).outcome.result)
        own = "\n".join(await told_to(yard, "ann"))

    words = [each for each in (*VALUES, *WORDS) if each != "Quendlinburg"]
    assert found_in(words, before) == []
    assert found_in(words, after) == []
    assert found_in(words, stubs) == []
    assert found_in(("Zimmerli", "Mildred"), own) == ["Zimmerli"]


async def test_with_learning_apart_nothing_of_one_changes_anything_for_another(tmp_path: Path) -> None:
    """Bob gets, word for word, what he would get if Ann had never been there."""
    texts = []
    for name in ("with", "without"):
        folder = tmp_path / name
        folder.mkdir()
        async with opened(folder, scope="principal") as yard:
            if name == "with":
                await work(yard)
            await learn(yard)
            await yard.guidance.follow()
            seen, _ = await done_by_bob(yard)
            texts.append([text for text in seen if "SearchAnswer" in text or "\n" in text])

    assert texts[0] == texts[1]


# Forgetting


@pytest.mark.behaviour("learning.forget")
async def test_what_is_forgotten_of_a_principal_changes_nothing_any_more(tmp_path: Path) -> None:
    """At once, after a restart, and in another gateway on the same store: Bob gets what he got before Ann came."""
    asked = (*ALIKE[:5], ALIKE[9])

    async def get(yard: Yard) -> list[str]:
        found = await told_to(yard, "cid")
        for code in asked:
            found += [repr(await yard.assess(code, principal="cid"))]
        cause = await execute(yard, ALIKE[4], "cid")
        return [*found, cause.text]

    async with opened(tmp_path) as yard, opened(tmp_path) as second:
        before = await get(yard)
        await work(yard)
        await learn(yard)
        await learn(second)
        taught, taught_there = await get(yard), await get(second)
        await yard.guidance.learner.save()
        await yard.guidance.forget("principal:ann", principal="operator")
        await yard.guidance.forget("principal:cid", principal="operator")
        at_once = await get(yard)
        await yard.guidance.forget("principal:cid", principal="operator")
        await learn(yard)
        await learn(second)
        then, there = await get(yard), await get(second)
        await yard.guidance.forget("principal:cid", principal="operator")
    async with opened(tmp_path) as yard:
        await learn(yard)
        restarted = await get(yard)
        rest = yard.guidance.learner.model_for("cid")

    assert taught != before
    assert taught_there == taught
    assert (at_once, then, there, restarted) == (before, before, before, before)
    assert found_in(("ann", *VALUES, *WORDS), rest.encode().decode("utf-8", "replace")) == []
