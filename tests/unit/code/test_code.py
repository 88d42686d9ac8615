"""Agent code that is read once: one parse for each text, whoever asks, within bounds that no text can exceed."""

import ast
import sys
import threading
import warnings
from typing import Any

import pytest
from tests.unit.versioning.migration_world import make_change

from sealyard.code import Source, find_uses, names, parse, read, source
from sealyard.code.source import Fault
from sealyard.errors import InvalidSkill
from sealyard.learning.precedents import wrong_calls
from sealyard.learning.prints import code_print
from sealyard.learning.skills import job_print
from sealyard.sandbox.policy import DEFAULT
from sealyard.sandbox.review import review
from sealyard.skills.reading import read_skill
from sealyard.values.tools import ToolSpec
from sealyard.versioning.migrate import migrate

JOB = """\
from servers.bank import list_bills, pay
import statistics

async def total(user: str, most: int = 10) -> dict:
    bills = [bill for bill in list_bills(user=user) if bill["amount"] < most]
    try:
        paid = pay(amount=statistics.mean(bill["amount"] for bill in bills))
    except (KeyError, ValueError) as error:
        raise RuntimeError(f"no {error}") from error
    match paid:
        case {"paid": int(amount), **rest}:
            return {"amount": amount * 2 ** 3, **rest}
    while True:
        bills += [(lambda x: x.get("id", None))(each) for each in bills]
        if len(bills) > 3:
            break
    return {"query": f"SELECT * FROM t WHERE id = '{user}'"}
"""


class Parses:
    """Counts the texts that are parsed."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: Any, *args: Any, **kwargs: Any) -> Any:
        """As the built-in function."""
        self.texts.append(text)
        return compile(text, *args, **kwargs)


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> Parses:
    """What is parsed by the gateway from here on, with nothing kept from before."""
    found = Parses()
    monkeypatch.setattr(source, "_kept", type(source._kept)())
    monkeypatch.setattr(source, "_kept_characters", 0)
    monkeypatch.setattr(source, "compile", found, raising=False)
    return found


def specs() -> dict[str, ToolSpec]:
    """The tools of the job."""
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
    return {
        f"bank.{name}": ToolSpec(
            upstream="bank",
            name=name,
            full_name=f"mcp__bank__{name}",
            module="bank",
            function=name,
            description="",
            input_schema=schema,
            version="1.0.0",
            digest="0",
        )
        for name in ("list_bills", "pay")
    }


def read_everything(code: str) -> None:
    """Ask everybody who reads agent code in the gateway's own process."""
    review(code, DEFAULT)
    code_print(code)
    job_print(code)
    wrong_calls(code, specs())
    try:
        find_uses(parse(code))
        read_skill("total", code, find=lambda name: specs().get(name.removeprefix("servers.")))
    except InvalidSkill:
        pass


@pytest.mark.parametrize("code", [JOB, "1 + 1", "for x in", "x = '\\d'"])
def test_a_text_is_parsed_once_for_all_of_its_readers(parses: Parses, code: str) -> None:
    """Also one that is no Python, and one that is asked about again."""
    read_everything(code)
    read_everything("".join(list(code)))

    assert parses.texts == [code]


def test_no_reader_changes_the_tree_that_all_share() -> None:
    """Trees cannot be frozen, so this is what keeps them as they were parsed."""
    tree = parse(JOB).tree
    before = ast.dump(tree, include_attributes=True)
    read_everything(JOB)
    migrate(JOB, make_change(name="fetch_expenses"), form="function", name="total")

    assert parse(JOB).tree is tree
    assert ast.dump(tree, include_attributes=True) == before
    assert ast.dump(ast.parse(JOB), include_attributes=True) == before


def test_threads_that_ask_at_once_parse_once(parses: Parses) -> None:
    """The learner reads in a thread what a run reads on the event loop."""
    start = threading.Barrier(8)
    found: list[ast.Module | None] = []

    def ask() -> None:
        start.wait(5)
        found.append(read(JOB).tree)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)

    assert parses.texts == [JOB]
    assert len({id(tree) for tree in found}) == 1


def test_what_is_kept_is_bounded_by_characters(parses: Parses) -> None:
    """Whatever texts are sent: many short ones, few long ones, and none that is longer than all may be together."""
    for number in range(5_000):
        read(f"{number}").tree  # noqa: B018
    few = len(source._kept)
    for number in range(20):
        read(f"{number:09}" + "\n" * 15_000).tree  # noqa: B018
    long = sum(map(len, source._kept))
    first, second = read("\n" * 20_000), read("\n" * 20_000)

    assert few <= 256
    assert long <= 64 << 10
    assert first is not second
    assert all(len(text) <= 16 << 10 for text in source._kept)


def test_what_was_asked_for_last_is_kept(parses: Parses) -> None:
    """An agent runs the same text again and again while others pass by."""
    for number in range(1_000):
        assert read("kept").tree is not None
        read(f"{number}").tree  # noqa: B018

    assert parses.texts.count("kept") == 1


def test_a_feature_is_made_once_and_one_that_fails_is_made_again() -> None:
    """A failure says nothing about the next try: it may be one of memory."""
    made: list[str] = []

    def feature(of: Source) -> str:
        made.append(of.text)
        if len(made) == 1:
            raise MemoryError
        return of.text.upper()

    code = Source("abc")
    with pytest.raises(MemoryError):
        code.of(feature)

    assert (code.of(feature), code.of(feature), made) == ("ABC", "ABC", ["abc", "abc"])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a\r\nb\rc\n x\0", Fault(kind="null", line=4, column=3)),
        ("a\x0cb\n'\ud800'", Fault(kind="surrogate", line=2, column=2)),
        ("\0", Fault(kind="null", line=1, column=1)),
        ("x" * (Source.most_bytes + 1), Fault(kind="size")),
        ("\U0001f600" * (Source.most_bytes // 4 + 1), Fault(kind="size")),
        ("-" * 100_000 + "1", Fault(kind="nested")),
    ],
    ids=["null", "surrogate", "null alone", "characters", "bytes", "nested"],
)
def test_text_without_a_tree_says_why(text: str, fault: Fault) -> None:
    """Lines and columns as Python counts them."""
    code = read(text)

    assert (code.tree, code.fault) == (None, fault)


def test_parsing_leaves_warnings_as_they_were() -> None:
    """What the parser says of an agent's literals is nothing for the gateway's log."""
    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert read(f"'\\d' if {sys.maxsize}else 1").tree is not None

    assert seen == []
    assert list(warnings.filters) == before


def test_the_nodes_that_are_left_out_of_a_walk_say_nothing() -> None:
    """What is walked through and what is left out is all of the tree, and what is left out holds no other node."""
    tree = ast.parse(JOB + "type A[T] = list[T]\n" * (sys.version_info >= (3, 12)))
    walked: list[ast.AST] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        walked.append(waiting.pop())
        for field in names._fields_of(type(walked[-1])):
            value = getattr(walked[-1], field, None)
            waiting += [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST)]
    left_out = {id(node): node for node in ast.walk(tree)}
    for node in walked:
        left_out.pop(id(node), None)

    assert all(not list(ast.iter_child_nodes(node)) for node in left_out.values())
    assert {type(node).__mro__[1] for node in left_out.values()} <= {
        ast.expr_context,
        ast.operator,
        ast.cmpop,
        ast.boolop,
        ast.unaryop,
        ast.AST,
    }
    assert {type(node) for node in left_out.values() if type(node).__mro__[1] is ast.AST} <= {ast.alias}
