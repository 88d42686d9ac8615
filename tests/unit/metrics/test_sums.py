"""Sums: whole numbers that add up to the same in any order, with labels from closed sets only."""

import builtins
import itertools
import math
import random
import re
from collections import Counter
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard import errors
from sealyard.metrics.sums.names import METRICS, OPERATOR, OPERATOR_NAMES
from sealyard.metrics.sums.sums import CallRow, Sum, Sums, percentile
from sealyard.privacy import TYPES
from sealyard.sandbox.policy import IsolationLevel
from sealyard.sandbox.probe import TIERS
from sealyard.values.facts import (
    AnyFact,
    Assessed,
    Executed,
    Fact,
    Hidden,
    Hinted,
    Published,
    Saw,
    Searched,
    SecurityEvent,
    SkillEvent,
    Tokens,
    UpstreamEvent,
    Used,
)
from sealyard.values.runs import LIKELY_TO_FAIL

DURATION = "sealyard_upstream_call_duration_seconds"


def executed(**changes: Any) -> Executed:
    """A good run of code, but for the changes."""
    known: dict[str, Any] = {"at": 1.0, "form": "code", "status": "ok", "seconds": 0.25, "use_case": "compute"}
    return Executed(**known | {"level": "production", "tier": "namespace"} | changes)


def call(**changes: Any) -> CallRow:
    """A good call, but for the changes."""
    return CallRow(**{"tool": "mcp__bank__pay", "upstream": "bank", "seconds": 0.25} | changes)


def summed(*records: Fact | CallRow) -> Sums:
    """What they add up to."""
    sums = Sums()
    for record in records:
        if isinstance(record, CallRow):
            sums.add_call(record)
        else:
            sums.add_fact(record)
    return sums


def totals(sums: Sums) -> dict[Any, int]:
    """Every counter's sum."""
    return {key: each.total for key, each in sums.items() if METRICS[key[0]].kind == "counter"}


# The definitions


def test_names_follow_the_rules_of_prometheus() -> None:
    """Counters end in `_total`, histograms in their unit or in what they count, and no label is reserved."""
    for name, metric in METRICS.items():
        assert name == metric.name
        assert re.fullmatch(r"sealyard_[a-z]+(_[a-z]+)*", name)
        assert name.endswith("_total") is (metric.kind == "counter")
        assert metric.help.endswith(".")
        assert bool(metric.buckets) is (metric.kind == "histogram")
        if metric.kind == "histogram":
            assert name.endswith(f"_{metric.unit}")
        for label, values in metric.labels.items():
            assert label not in ("le", "quantile", "job", "instance")
            assert len(set(values)) == len(values)
            assert values != OPERATOR or label == "upstream"


def test_sets_of_labels_are_those_of_the_parts_they_come_from() -> None:
    """A type, level or tier that is added elsewhere must be added to the metrics, or it would count as `other`."""
    assert set(METRICS["sealyard_privacy_hidden_total"].labels["type"]) == {*TYPES, "custom"}
    labels = METRICS["sealyard_execution_total"].labels
    assert set(labels["level"]) == {*map(str, IsolationLevel), "none"}
    assert set(labels["tier"]) == {*TIERS, "none"}
    for event, kind in (
        ("sealyard_skill_events_total", SkillEvent),
        ("sealyard_security_events_total", SecurityEvent),
        ("sealyard_upstream_events_total", UpstreamEvent),
        ("sealyard_sessions_total", Saw),
    ):
        assert METRICS[event].labels["event"] == get_args(kind.__annotations__["event"])
    decisions = METRICS["sealyard_learning_assessments_total"].labels["decision"]
    assert decisions == get_args(Assessed.__annotations__["decision"])
    error_types = METRICS["sealyard_execution_errors_total"].labels["error_type"]
    assert {"ValueError", "KeyError", "WallTimeExceeded", LIKELY_TO_FAIL, *errors.__all__} <= set(error_types)
    assert {name for name in error_types if hasattr(builtins, name)} <= set(dir(builtins))


def test_borders_are_dense_enough_for_percentiles() -> None:
    """Neighbours differ by a factor of 5/3 at most, from a ten-thousandth of a second to minutes."""
    for metric in METRICS.values():
        ratios = [after / before for before, after in itertools.pairwise(metric.buckets) if before >= 5]
        assert all(1 < ratio < 1.67 for ratio in ratios)
        whole = [round(border * metric.scale) for border in metric.buckets]
        assert sorted(set(whole)) == whole
        assert [each / metric.scale for each in whole] == list(metric.buckets)
    assert METRICS[DURATION].buckets[0] == 0.0001
    assert METRICS[DURATION].buckets[-1] > 120


# What each kind of fact adds


def test_a_run_counts_everywhere_it_belongs() -> None:
    """By form, status, level and tier; what it did not have is not counted."""
    sums = summed(
        executed(cpu_seconds=0.125, memory_bytes=50 << 20, calls=3, bytes_in=9000, bytes_out=90, code_characters=120),
        executed(status="failed", failure="exception", error_type="KeyError", skills=2, is_background=True),
        executed(form="call", level="", tier="", use_case="direct"),
    )

    assert totals(sums) == {
        ("sealyard_execution_total", ("code", "ok", "production", "namespace")): 1,
        ("sealyard_execution_total", ("code", "failed", "production", "namespace")): 1,
        ("sealyard_execution_total", ("call", "ok", "none", "none")): 1,
        ("sealyard_execution_use_cases_total", ("compute",)): 2,
        ("sealyard_execution_use_cases_total", ("direct",)): 1,
        ("sealyard_filtering_bytes_in_total", ("code",)): 9000,
        ("sealyard_filtering_bytes_out_total", ("code",)): 90,
        ("sealyard_execution_errors_total", ("KeyError",)): 1,
        ("sealyard_execution_failures_total", ("exception",)): 1,
        ("sealyard_execution_background_total", ()): 1,
        ("sealyard_skill_runs_total", ()): 1,
    }
    assert sums.value("sealyard_execution_duration_seconds") == 3
    assert sums.value("sealyard_execution_duration_seconds", form="call") == 1
    assert sums.amount("sealyard_execution_duration_seconds") == 0.75
    assert sums.amount("sealyard_execution_cpu_seconds") == 0.125
    assert sums.amount("sealyard_execution_memory_bytes") == 50 << 20
    assert sums.value("sealyard_execution_code_characters") == 1
    assert sums.amount("sealyard_execution_calls") == 3


def test_other_facts_count_what_they_say() -> None:
    """Searches, visits, tokens, private values, events and stubs."""
    sums = summed(
        Saw(at=1.0, event="begin"),
        Saw(at=1.0, event="code"),
        Searched(at=1.0, search_id="a", place="agent", detail_level="full", seconds=0.002, is_cached=False),
        Searched(at=2.0, search_id="b", place="code", detail_level="name_only", seconds=0.001, is_continued=True),
        Used(at=3.0, search_id="b", tool="mcp__bank__pay", rank=1, seconds=1.0),
        Tokens(at=1.0, use_case="filtering", tokenizer="t", data=1000, code=20, results=5, uncounted_bytes=7),
        Tokens(at=1.0, use_case="discovery", tokenizer="t", definitions=300, surface=50, searches=9),
        Hidden(at=1.0, values={"email": 3, "phone": 1}, failures=2),
        SecurityEvent(at=1.0, event="asked"),
        SecurityEvent(at=9.0, event="approved", seconds=8.0),
        SkillEvent(at=1.0, event="saved"),
        Published(at=1.0, seconds=0.5, tools=40),
        UpstreamEvent(at=1.0, upstream="bank", event="restarted"),
    )

    assert totals(sums) == {
        ("sealyard_sessions_total", ("begin",)): 1,
        ("sealyard_sessions_total", ("code",)): 1,
        ("sealyard_discovery_queries_total", ("agent", "full")): 1,
        ("sealyard_discovery_queries_total", ("code", "name_only")): 1,
        ("sealyard_discovery_cache_total", ("miss",)): 1,
        ("sealyard_discovery_cache_total", ("hit",)): 1,
        ("sealyard_discovery_continued_total", ()): 1,
        ("sealyard_discovery_hits_total", ()): 1,
        ("sealyard_tokens_baseline_total", ("data", "filtering")): 1000,
        ("sealyard_tokens_baseline_total", ("definitions", "discovery")): 300,
        ("sealyard_tokens_actual_total", ("code", "filtering")): 20,
        ("sealyard_tokens_actual_total", ("results", "filtering")): 5,
        ("sealyard_tokens_actual_total", ("surface", "discovery")): 50,
        ("sealyard_tokens_actual_total", ("searches", "discovery")): 9,
        ("sealyard_tokens_uncounted_bytes_total", ()): 7,
        ("sealyard_privacy_hidden_total", ("email",)): 3,
        ("sealyard_privacy_hidden_total", ("phone",)): 1,
        ("sealyard_privacy_failures_total", ()): 2,
        ("sealyard_security_events_total", ("asked",)): 1,
        ("sealyard_security_events_total", ("approved",)): 1,
        ("sealyard_skill_events_total", ("saved",)): 1,
        ("sealyard_sdk_tools_generated_total", ()): 40,
        ("sealyard_upstream_events_total", ("bank", "restarted")): 1,
    }
    assert sums.amount("sealyard_approval_wait_seconds") == 8.0
    assert sums.amount("sealyard_sdk_generation_seconds") == 0.5


def test_what_experience_changed_is_counted() -> None:
    """Risk in runs, limits by what they are instead, hints and searches."""
    usual: dict[str, Any] = {"usual_seconds": 30.0, "usual_mib": 512, "chance": 0.5}
    searched: dict[str, Any] = {"at": 1.0, "search_id": "a", "place": "agent", "detail_level": "full", "seconds": 0.001}
    sums = summed(
        executed(),
        executed(assessed=Assessed(risk="low", wall_seconds=30.0, memory_mib=512, **usual)),
        executed(assessed=Assessed(risk="high", wall_seconds=60.0, memory_mib=512, **usual)),
        executed(assessed=Assessed(risk="critical", decision="refused", wall_seconds=10.0, memory_mib=128, **usual)),
        Hinted(at=1.0, hint="fix", subject="mcp__bank__pay"),
        Hinted(at=1.0, hint="fix", subject="mcp__bank__pay"),
        Hinted(at=1.0, hint="skill", subject="ann/twice"),
        Searched(**searched),
        Searched(**searched, found=("b", "a"), text_ranks=(2, 1)),
    )

    assert {key: value for key, value in totals(sums).items() if "_learning_" in key[0]} == {
        ("sealyard_learning_assessments_total", ("low", "ran")): 1,
        ("sealyard_learning_assessments_total", ("high", "ran")): 1,
        ("sealyard_learning_assessments_total", ("critical", "refused")): 1,
        ("sealyard_learning_fitted_total", ("more_time",)): 1,
        ("sealyard_learning_hints_total", ("fix",)): 2,
        ("sealyard_learning_hints_total", ("skill",)): 1,
        ("sealyard_learning_searches_total", ()): 1,
    }


def test_every_kind_of_fact_is_counted() -> None:
    """A kind that is added to the values must be added to the sums."""
    assert set(get_args(AnyFact)) == set(Fact.__subclasses__())
    with pytest.raises(TypeError, match="is no kind of fact"):
        Sums().add_fact(Fact(at=1.0))


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        ("ToolFailed: PolicyRefused: no", "tool_failed"),
        ("UpstreamTimeout: It did not answer.", "timeout"),
        ("UpstreamUnavailable: It is not there.", "unavailable"),
        ("InvalidArguments: amount", "invalid"),
        ("UnknownToken: forged", "invalid"),
        ("PolicyRefused: no", "refused"),
        ("ApprovalRefused: no", "refused"),
        ("LimitReached: enough", "limited"),
        ("The call was cancelled.", "cancelled"),
        ("UpstreamError: no JSON", "other"),
        ("", "other"),
        ("ToolFailed", "tool_failed"),
    ],
)
def test_outcome_of_a_call_is_told_by_our_own_exception(error: str | None, outcome: str) -> None:
    """What a tool says after that changes nothing."""
    assert summed(call(error=error)).by("sealyard_upstream_calls_total", "outcome") == {outcome: 1}


def test_times_are_those_of_calls_that_were_to_reach_the_upstream() -> None:
    """A refused or invalid call says nothing about the server."""
    refused = call(error="PolicyRefused: no", seconds=100.0)
    sums = summed(call(), refused, call(error="InvalidArguments: x"), call(error="UpstreamTimeout: x"))
    assert sums.value("sealyard_upstream_calls_total") == 4
    assert sums.value(DURATION) == 2


def test_upstream_of_an_old_call_is_read_from_its_tool() -> None:
    """Before calls had it, the full name of the tool did."""
    sums = summed(call(upstream="", tool="mcp__my-bank__pay__all"), call(upstream=""))
    assert sums.by("sealyard_upstream_calls_total", "upstream") == {"bank": 1, "my-bank": 1}


# Labels


HOSTILE = ("evil\n# HELP x", '"}', "", "x" * 200, "\0", "ÿ" * 50)


def test_nothing_from_outside_the_sets_becomes_a_label() -> None:
    """Whatever a fact says, it counts as `other`."""
    for text in HOSTILE:
        odd: Any = text
        sums = summed(
            executed(status=odd, level=odd, tier=odd, failure=odd, error_type=odd, form=odd, use_case=odd),
            Searched(at=1.0, search_id="a", place=odd, detail_level=odd, seconds=0.1),
            Hidden(at=1.0, values={odd: 1}),
            Tokens(at=1.0, use_case=odd, tokenizer=odd, data=1),
            SecurityEvent(at=1.0, event=odd),
            SkillEvent(at=1.0, event=odd),
            Saw(at=1.0, event=odd),
        )
        values = {label for (_, labels) in sums for label in labels}
        assert values <= {"other", "none", "hit", "data"}


def test_names_of_upstreams_are_few_and_printable() -> None:
    """A name that the configuration would not take is `other`, and so is each after the first two hundred."""
    sums = summed(*(call(upstream=name, tool=name) for name in ("a\nb", "x" * 101, "\0")))
    assert sums.by("sealyard_upstream_calls_total", "upstream") == {"other": 3}

    sums = summed(*(call(upstream=f"u{number % 250}") for number in range(500)))
    found = sums.by("sealyard_upstream_calls_total", "upstream")
    assert len(found) == OPERATOR_NAMES + 1
    assert (found["other"], found["u0"], found["u199"]) == (100, 2, 2)


def test_names_that_are_told_apart_stay_so() -> None:
    """Sums that share the names of others put nothing under `other` that has been told apart before."""
    names = {f"u{number}" for number in range(OPERATOR_NAMES)}
    sums = Sums(names)
    sums.add_call(call(upstream="u7"))
    sums.add_call(call(upstream="late"))
    assert sums.by("sealyard_upstream_calls_total", "upstream") == {"other": 1, "u7": 1}


@pytest.mark.parametrize("amount", [math.nan, -1.0, -math.inf, math.inf, 1e300])
def test_impossible_amounts_stay_within_bounds(amount: float) -> None:
    """Not a number and less than nothing count as nothing; too much counts as the most there is."""
    sums = summed(executed(seconds=amount, cpu_seconds=amount, memory_bytes=10**400, bytes_in=10**400, bytes_out=-5))
    assert sums.value("sealyard_execution_total") == 1
    assert sums.amount("sealyard_execution_duration_seconds") in (0.0, (1 << 50) / 1e6)
    assert sums.value("sealyard_filtering_bytes_in_total") == 1 << 50
    assert sums.value("sealyard_filtering_bytes_out_total") == 0


# Adding and reading


def test_adding_in_any_order_and_grouping_gives_the_same() -> None:
    """Whole numbers have no rounding, so parts may be merged as they come."""
    chance = random.Random(6)
    records: list[Fact | CallRow] = [executed(seconds=chance.random() * 10, bytes_in=number) for number in range(100)]
    records += [call(seconds=chance.random(), upstream=f"u{number % 5}") for number in range(100)]
    whole = summed(*records)
    chance.shuffle(records)
    parts = [summed(*records[start : start + 17]) for start in range(0, len(records), 17)]
    merged = Sums()
    for part in reversed(parts):
        merged.merge(part)
    assert merged == whole


def test_merging_leaves_the_other_as_it_is() -> None:
    """What is added to the one later is not added to the other."""
    part, whole = summed(call()), Sums()
    whole.merge(part)
    whole.add_call(call())
    assert (part.value(DURATION), whole.value(DURATION)) == (1, 2)
    assert part == summed(call())


def test_values_are_filtered_and_split_by_labels() -> None:
    """What has the labels that are asked for; a label that is not named is added over."""
    sums = summed(
        call(), call(error="ToolFailed: x"), call(upstream="mail"), call(upstream="mail"), call(upstream="mail")
    )
    name = "sealyard_upstream_calls_total"
    assert sums.value(name) == 5
    assert sums.value(name, upstream="bank") == 2
    assert sums.value(name, upstream="bank", outcome="ok") == 1
    assert sums.value(name, upstream="none") == 0
    assert list(sums.by(name, "upstream").items()) == [("mail", 3), ("bank", 2)]
    assert sums.by(name, "upstream", outcome="tool_failed") == {"bank": 1}
    assert Sums().by(name, "upstream") == {}
    assert sums.by(DURATION, "upstream") == {"mail": 3, "bank": 2}
    with pytest.raises(KeyError):
        sums.value("sealyard_no_such_metric_total")


@given(
    st.lists(st.floats(min_value=0.0001, max_value=400.0), min_size=1, max_size=200),
    st.sampled_from((0.0, 0.5, 0.9, 0.95, 0.99, 1.0)),
)
def test_percentile_lies_in_the_bucket_of_the_true_one(seconds: list[float], q: float) -> None:
    """So it is off by a factor of 5/3 at most."""
    found = summed(*(call(seconds=each) for each in seconds)).percentile(DURATION, q)
    rank = max(0, math.ceil(q * len(seconds)) - 1)
    true = sorted(round(each * 1e6) for each in seconds)[rank] / 1e6
    borders = METRICS[DURATION].buckets
    place = next(place for place, border in enumerate(borders) if true <= border)
    lower = borders[place - 1] if place else 0.0
    assert found is not None
    assert lower <= found <= borders[place]


def test_percentiles_of_many_are_close() -> None:
    """Ten thousand evenly spread times: half of them lie below half of the range."""
    sums = summed(*(call(seconds=number / 1000) for number in range(1, 10_001)))
    assert sums.percentile(DURATION, 0.5) == pytest.approx(5.0, rel=0.01)
    assert sums.percentile(DURATION, 0.95) == pytest.approx(9.5, rel=0.02)


def test_percentile_of_nothing_is_none_and_beyond_all_borders_the_last() -> None:
    """There is no figure where there is nothing to say."""
    assert Sums().percentile(DURATION, 0.5) is None
    assert percentile(METRICS[DURATION], Sum(0, 0, [0] * 42), 0.5) is None
    assert summed(call(seconds=9999.0)).percentile(DURATION, 0.5) == METRICS[DURATION].buckets[-1]


def test_buckets_hold_everything_that_was_observed() -> None:
    """A border belongs to the bucket below it."""
    sums = summed(*(call(seconds=each) for each in (0.0, 0.0001, 0.00010001, 0.00011, 0.5, 500.0, 501.0)))
    ((_, amount),) = [(key, each) for key, each in sums.items() if key[0] == DURATION]
    borders = METRICS[DURATION].buckets
    places = Counter({0: 3, 1: 1, borders.index(0.5): 1, borders.index(500.0): 1, len(borders): 1})
    assert {place: count for place, count in enumerate(amount.buckets) if count} == places
    assert (amount.count, sum(amount.buckets)) == (7, 7)
    assert msgspec.json.decode(msgspec.json.encode(amount), type=Sum) == amount
