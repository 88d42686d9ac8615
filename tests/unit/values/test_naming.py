"""The names of tools: valid everywhere, never shared, never changed by what else there is."""

import hashlib
import keyword
import re
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.values.naming import assign, full_name, function_name, identifier, tool_part, upstream_part


def mark(name: str) -> str:
    """The suffix of a name that another tool has."""
    return hashlib.sha256(name.encode()).hexdigest()[:6]


TEXT = st.text(max_size=200) | st.text(alphabet="ab_-. /\u00e9\ud800", max_size=20)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("list_expenses", "list_expenses"),
        ("listExpenses", "listExpenses"),
        ("_private", "_private"),
        ("list-expenses", "list_expenses"),
        ("GET /movie/{id}", "GET_movie_id"),
        ("import", "import_"),
        ("print", "print_"),
        ("Any", "Any_"),
        ("__init__", "__init___"),
        ("2fa", "_2fa"),
        ("größe", "größe"),
        ("ﬁnd", "find"),
        ("../../etc/passwd", "etc_passwd"),
        ("", "tool_" + mark("")),
        ("!!!", "tool_" + mark("!!!")),
        ("match", "match"),
    ],
)
def test_function_is_as_close_to_the_tool_as_python_allows(name: str, expected: str) -> None:
    """What is legal stays, what is not becomes an underscore, what means something else gets one at its end."""
    assert function_name(name) == expected


@given(TEXT)
def test_every_text_has_a_function_name(name: str) -> None:
    """It is an identifier as Python itself would spell it, no keyword, and fits a file name."""
    found = function_name(name)

    assert found.isidentifier()
    assert not keyword.iskeyword(found)
    assert not (found.startswith("__") and found.endswith("__") and not found.endswith("___"))
    assert len(found.encode()) <= 128
    scope: dict[str, object] = {}
    exec(f"{found} = 1", scope)
    assert scope[found] == 1


@given(st.lists(st.tuples(TEXT, TEXT), unique=True, max_size=8))
def test_full_names_are_valid_and_different(pairs: list[tuple[str, str]]) -> None:
    """Two tools never share one, however their upstreams and they are called."""
    prefixes = assign({upstream for upstream, _ in pairs}, upstream_part)
    found = []
    for upstream, prefix in prefixes.items():
        tools = assign({tool for name, tool in pairs if name == upstream}, partial(tool_part, upstream=prefix))
        found += [full_name(prefix, part) for part in tools.values()]

    assert len(set(found)) == len(pairs)
    assert [name for name in found if not re.fullmatch(r"mcp__[A-Za-z0-9_-]{1,123}", name)] == []


def test_full_name_splits_one_way() -> None:
    """`a` with `b__c` and `a__b` with `c` are two tools."""
    assert full_name(upstream_part("a"), tool_part("b__c", upstream="a")) == "mcp__a__b__c"
    assert full_name(upstream_part("a__b"), tool_part("c", upstream="a_b")) == "mcp__a_b__c"
    assert upstream_part("_a_") == "a"


def test_long_names_are_cut_and_stay_different() -> None:
    """The cut ends in a mark made from the whole name."""
    one, two = (tool_part("x" * 300 + end, upstream="server") for end in "ab")

    assert one != two
    assert len(full_name("server", one)) <= 121
    assert len(upstream_part("u" * 300)) == 48
    assert len(identifier("x" * 300)) == 120


def test_exact_spelling_keeps_the_name() -> None:
    """The others get a suffix from their own text, in whatever order they come."""
    expected = {"list_x": "list_x", "list-x": "list_x_" + mark("list-x"), "list.x": "list_x_" + mark("list.x")}

    assert assign(["list-x", "list_x", "list.x"], function_name) == expected
    assert assign(["list.x", "list_x", "list-x"], function_name) == expected


def test_without_an_exact_spelling_nobody_wins() -> None:
    """Which of two came first must not matter."""
    assert assign(["list-x", "list.x"], function_name) == {
        "list-x": "list_x_" + mark("list-x"),
        "list.x": "list_x_" + mark("list.x"),
    }


def test_name_once_given_is_kept() -> None:
    """A tool that comes later goes around it, even if it is spelled like that."""
    first = assign(["list-x"], function_name)

    assert first == {"list-x": "list_x"}
    assert assign(["list_x", "list-x"], function_name, kept=first) == {
        "list-x": "list_x",
        "list_x": "list_x_" + mark("list_x"),
    }


def test_name_of_what_is_gone_is_free() -> None:
    """Only the names that are still in the list are kept."""
    assert assign(["list_x"], function_name, kept={"list-x": "list_x"}) == {"list_x": "list_x"}


def test_suffix_that_is_taken_is_not_given() -> None:
    """An upstream cannot make two tools collide by naming one like the suffixed other."""
    squatter = "list_x_" + mark("list-x")
    found = assign(["list_x", "list-x", squatter], function_name)

    assert found[squatter] == squatter
    assert len(set(found.values())) == 3


@given(st.lists(TEXT, max_size=10), st.randoms(use_true_random=False))
def test_order_of_a_list_does_not_matter(names: list[str], random: object) -> None:
    """The same names get the same results."""
    mixed = list(names)
    random.shuffle(mixed)  # type: ignore[attr-defined]

    assert assign(mixed, function_name) == assign(names, function_name)
