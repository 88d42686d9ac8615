"""A search answer keeps to its budget of tokens whatever the upstreams wrote into their tools."""

import json

import msgspec
import pytest

from sealyard.errors import InvalidRequest
from sealyard.metrics import tokens
from sealyard.values.tools import Hit, SearchAnswer, bounded_limit
from sealyard.yard.surface.texts import search_text


def hits(count: int, characters: int) -> tuple[Hit, ...]:
    """Tools with descriptions of so many characters."""
    return tuple(
        Hit(name=f"mcp__x__tool_{n}", use=f"from servers.x import tool_{n}", description="word " * (characters // 5))
        for n in range(count)
    )


@pytest.mark.parametrize(("count", "characters"), [(5, 100), (5, 10_000), (40, 2_000), (50, 100_000)])
def test_details_give_way_before_names(count: int, characters: int) -> None:
    """Every tool that was found is still named, the best with details as far as they fit."""
    text = search_text(SearchAnswer(hits=hits(count, characters), total=count), [], 2_000)

    found = json.loads(text)
    assert tokens.count(text) <= 2_000
    assert [hit["name"] for hit in found["tools"]] == [f"mcp__x__tool_{n}" for n in range(count)]
    detailed = ["description" in hit for hit in found["tools"]]
    assert detailed == sorted(detailed, reverse=True)
    assert ("hint" in found) == (not all(detailed))


def test_descriptions_get_shorter_before_any_is_left_out() -> None:
    """Five hits of the default detail have a word about each of them within 300 tokens, whatever is behind."""
    text = search_text(SearchAnswer(hits=hits(5, 110), total=5), [f"server-{n}" for n in range(500)], 300)

    found = json.loads(text)
    assert tokens.count(text) <= 300
    assert all(hit["description"] for hit in found["tools"])
    assert "hint" not in found


def test_no_answer_is_over_its_budget() -> None:
    """Even where the names alone are too many."""
    text = search_text(SearchAnswer(hits=hits(50, 1_000), total=50), [f"server-{n}" for n in range(500)], 100)

    assert tokens.count(text) <= 100


def test_all_servers_are_named_as_far_as_they_fit() -> None:
    """What is left out is marked."""
    names = [f"server-{n:04}" for n in range(3_000)]
    text = search_text(SearchAnswer(hits=(), total=9), [], 2_000, names)

    found = json.loads(text)["servers"]
    assert tokens.count(text) <= 2_000
    assert found == [*names[: len(found) - 1], "…"]
    assert len(found) > 100


def test_schemas_are_for_programs_and_bounded() -> None:
    """A model gets none; a program gets those of the best hits, also where a model would get a name alone."""
    schema = {"type": "object", "description": "x" * (100 << 10)}
    found = tuple(msgspec.structs.replace(hit, input_schema=schema) for hit in hits(50, 1_000))
    answer = SearchAnswer(hits=found, total=50)

    text = search_text(answer, [], 2_000)
    more = json.loads(search_text(answer, [], 2_000, schemas=True))

    given = [hit.pop("input_schema", None) for hit in more["tools"]]
    left = [hit.pop("left_out", None) for hit in more["tools"]]
    assert more == json.loads(text)
    assert given == [schema] * 2 + [None] * 48
    assert left == [None] * 2 + ["input_schema did not fit. Search for this tool by its name, with limit=1."] * 48


@pytest.mark.parametrize(("limit", "given"), [(1, 1), (50, 50), (51, 50), (100, 50), (10**30, 50)])
def test_a_limit_beyond_the_most_means_the_most(limit: int, given: int) -> None:
    """Nobody has to know how many that are."""
    assert bounded_limit(limit) == given


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused_with_the_range(limit: int) -> None:
    """It asks for nothing."""
    with pytest.raises(InvalidRequest, match=f"^limit is {limit}. Give 1 to 50.$"):
        bounded_limit(limit)
